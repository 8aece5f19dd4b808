/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: ivaddr.h beside the same semantics on Linux' maple tree. Names are WORK/AREAS/PEER; one operation is
 *
 *   any      map some pages where the space likes, and unmap them
 *   fixed    map some pages over a gap, and unmap them
 *   joined   map some pages right behind an equal area, so that it grows, and unmap them, so that it is cut
 *   protect  change the rights of an area's middle, so that it is cut in three, and change them back
 *
 * Both do the same calls in the same order and must give the same places, areas and bytes.
 */
#include "bench.h"
#include "space.h"

#include <stdio.h>
#include <stdlib.h>

enum work { ANY, FIXED, JOINED, PROTECT, WORKS };
static const char *const work_names[WORKS] = {"any", "fixed", "joined", "protect"};

struct job {
    const struct space_peer *peer;
    enum work work;
    size_t areas;
};

/* Area i is 4 pages and has 12 free ones behind it; rights alternate. */
#define AREA_START(i) (UINT64_C(0x100000000000) + (uint64_t)(i)*16 * SPACE_PAGE)
static unsigned rights_of(size_t i) { return i % 2 ? SPACE_READ : SPACE_READ | SPACE_WRITE; }

static void one(const struct job *job, void *space, uint64_t *random, uint64_t *sum) {
    const struct space_peer *peer = job->peer;
    size_t i = bench_below(random, job->areas);
    uint64_t bytes = (1 + bench_below(random, 4)) * SPACE_PAGE, start = AREA_START(i);
    switch (job->work) {
    case ANY:
        bench_demand(peer->map(space, bytes, SPACE_READ, &start) == 0);
        bench_demand(peer->unmap(space, start, bytes) == 0);
        break;
    case FIXED:
        start += 6 * SPACE_PAGE;
        bench_demand(peer->map_at(space, start, bytes, SPACE_READ) == 0);
        bench_demand(peer->unmap(space, start, bytes) == 0);
        break;
    case JOINED:
        start += 4 * SPACE_PAGE;
        bench_demand(peer->map_at(space, start, bytes, rights_of(i)) == 0);
        bench_demand(peer->unmap(space, start, bytes) == 0);
        break;
    default:
        start += SPACE_PAGE;
        bench_demand(peer->protect(space, start, 2 * SPACE_PAGE, 0) == 0);
        bench_demand(peer->protect(space, start, 2 * SPACE_PAGE, rights_of(i)) == 0);
    }
    *sum = *sum * 31 + start;
}

/* The space before any work: also a hundred areas right below the base, so that the highest gap is not the first. */
static void *fill(const struct job *job) {
    void *space = job->peer->make();
    size_t *order = malloc(job->areas * sizeof *order);
    uint64_t random = 7, start;
    bench_demand(order != NULL);
    for (size_t i = 0; i < job->areas; i++) order[i] = i;
    for (size_t i = job->areas; i > 1; i--) {
        size_t j = bench_below(&random, i), swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
    for (size_t i = 0; i < job->areas; i++)
        bench_demand(job->peer->map_at(space, AREA_START(order[i]), 4 * SPACE_PAGE, rights_of(order[i])) == 0);
    for (size_t i = 0; i < 100; i++) bench_demand(job->peer->map(space, 4 * SPACE_PAGE, rights_of(i), &start) == 0);
    free(order);
    return space;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void body(struct bench_state *state, const void *data) {
    enum { BATCH = 512 };
    const struct job *job = data;
    uint64_t random = 88172645463325252u, sum = 0, areas, bytes, areas_after, bytes_after;
    void *space;
    job->peer->thread_begin();
    space = fill(job);
    job->peer->measure(space, &areas, &bytes);
    while (bench_next(state, BATCH)) {
        double begin = seconds();
        for (int i = 0; i < BATCH; i++) one(job, space, &random, &sum);
        bench_add_seconds(state, seconds() - begin);
    }
    job->peer->measure(space, &areas_after, &bytes_after);
    bench_demand(areas == job->areas + 100 && areas == areas_after && bytes == bytes_after);
    job->peer->end(space);
    job->peer->thread_end();
}

/* Do the peers agree, call for call? */
static void compare(const struct space_peer *const *peers, size_t count) {
    for (int work = 0; work < WORKS; work++) {
        uint64_t first = 0;
        for (size_t p = 0; p < count; p++) {
            struct job job = {peers[p], (enum work)work, 300};
            uint64_t random = 3, sum = 0, areas, bytes;
            void *space;
            peers[p]->thread_begin();
            space = fill(&job);
            for (int i = 0; i < 5000; i++) one(&job, space, &random, &sum);
            peers[p]->measure(space, &areas, &bytes);
            peers[p]->end(space);
            peers[p]->thread_end();
            sum = sum * 31 + areas * 7 + bytes;
            if (p == 0) first = sum;
            bench_demand(sum == first);
        }
    }
}

int main(int argc, char **argv) {
    const struct space_peer *const peers[] = {&space_ivaddr_memb, &space_ivaddr_builtin, &space_maple};
    const size_t areas[] = {100, 1000, 65000}, count = sizeof peers / sizeof peers[0];
    compare(peers, count);
    for (int work = 0; work < WORKS; work++)
        for (size_t n = 0; n < 3; n++)
            for (size_t p = 0; p < count; p++) {
                struct job *job = malloc(sizeof *job);
                char name[64];
                bench_demand(job != NULL);
                *job = (struct job){peers[p], (enum work)work, areas[n]};
                snprintf(name, sizeof name, "%s/%zu/%s", work_names[work], areas[n], peers[p]->name);
                bench_register(name, body, job, 1, 0, 0);
            }
    return bench_run(argc, argv);
}
