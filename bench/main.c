/* SPDX-License-Identifier: MIT */
/*
 * The list of benchmarks. A name is WORK/N/ORDER/PEER: --benchmark_filter takes a regular expression on it. Peers stand
 * side by side, so that what disturbs the machine disturbs all of them.
 *
 * --iterations=N   each loop N times and no more (for instruction counts)
 * --reverse        the peers in the other order
 */
#define _GNU_SOURCE
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BENCH_PEERS, from the make file: PEER(a) PEER(b) ... */
#define PEER(name) extern const struct bench_peer bench_peer_##name;
BENCH_PEERS
#undef PEER
#define PEER(name) &bench_peer_##name,
static const struct bench_peer *const peers[] = {BENCH_PEERS};
#undef PEER
enum { PEERS = sizeof peers / sizeof *peers };

static int64_t iterations;
static bool reverse;
static const double region_seconds = 0.3; /* the threads are to meet often */

static const char *const orders[] = {"in-order", "shuffled", "skewed"};

static void add(const char *work, struct bench_job job, int threads) {
    struct bench_job *kept = malloc(sizeof *kept);
    bench_demand(kept);
    *kept = job;
    for (size_t i = 0; i < PEERS; i++) {
        const struct bench_peer *peer = peers[reverse ? PEERS - 1 - i : i];
        char name[128];
        if (!peer->body[job.work] || job.n > peer->most) continue;
        snprintf(name, sizeof name, "%s/%zu/%s/%s", work, job.n, orders[job.order], peer->name);
        bench_register(name, peer->body[job.work], kept, threads, job.work == BENCH_REGIONS ? region_seconds : 0,
                       iterations);
    }
}

static void add_finds(struct bench_job job) {
    static const char *const kinds[] = {"uniform", "zipf", "sequential", "repeats"};
    static const char *const forms[] = {"find", "find-field", "find-chain", "find-next"};
    for (int kind = 0; kind < BENCH_KINDS; kind++) {
        for (int half = 0; half < 2; half++) {
            for (int form = 0; form < 4; form++) {
                char name[64];
                job.work = BENCH_FIND_ONLY + form;
                job.keys = kind;
                job.half_in_gaps = half;
                if (form >= 2 && kind != BENCH_UNIFORM) continue;
                snprintf(name, sizeof name, "%s-%s%s", forms[form], kinds[kind], half ? "-half" : "");
                for (int threads = 1; threads <= 4; threads *= 2)
                    if (threads == 1 || (form == 1 && kind == BENCH_UNIFORM && !half)) add(name, job, threads);
            }
        }
    }
}

static void add_updates(struct bench_job job) {
    static const struct {
        const char *name;
        enum bench_work work;
        size_t most; /* where more would take too long */
        bool hint;
    } plain[] = {
        {"iterate-100", BENCH_ITERATE, SIZE_MAX, false},    {"split-merge", BENCH_SPLIT_MERGE, SIZE_MAX, false},
        {"unmap-map", BENCH_UNMAP_MAP, SIZE_MAX, false},    {"change", BENCH_CHANGE, SIZE_MAX, false},
        {"alloc-empty", BENCH_ALLOC_EMPTY, SIZE_MAX, true}, {"alloc-full", BENCH_ALLOC_FULL, SIZE_MAX, true},
        {"alloc-hole-hint", BENCH_ALLOC_HOLE, 65000, true}, {"alloc-hole", BENCH_ALLOC_HOLE, 65000, false},
        {"latency", BENCH_LATENCY, SIZE_MAX, false},        {"bytes", BENCH_BYTES, SIZE_MAX, false},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (job.n > plain[i].most) continue;
        job.work = plain[i].work;
        job.hint = plain[i].hint;
        add(plain[i].name, job, 1);
    }
}

static void add_threads(struct bench_job job) {
    for (int threads = 1; threads <= 4; threads *= 2) {
        job.work = BENCH_REGIONS;
        add("regions", job, threads);
        job.work = BENCH_MIXED;
        job.writes_percent = 5;
        add("mixed-95-5", job, threads);
        job.writes_percent = 50;
        add("mixed-50-50", job, threads);
    }
}

static void add_traces(void) {
    static const char *const traces[] = {"kdiff-grow", "kdiff-threads", "make-spaces", "malloc-threads", "python-fork"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        char path[64], name[64];
        snprintf(path, sizeof path, "tests/data/%s.vmtrace", traces[i]);
        snprintf(name, sizeof name, "trace-%s", traces[i]);
        char *kept = strdup(path);
        bench_demand(kept);
        add(name, (struct bench_job){.work = BENCH_REPLAY, .n = 100, .trace = kept}, 1);
    }
}

static void add_all(struct bench_job job) {
    add_finds(job);
    add_updates(job);
    add_threads(job);
}

static int help(char **argv) {
    printf("Names are WORK/N/ORDER/PEER; --benchmark_list_tests lists them. Peers:");
    for (size_t i = 0; i < PEERS; i++) printf(" %s", peers[i]->name);
    printf("\n--iterations=N  each loop N times and no more\n--reverse       the peers in the other order\n\n");
    fflush(stdout);
    return bench_run(2, (char *[]){argv[0], "--help", NULL});
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {100, 1000, 10000, 65000, 1000000};
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--iterations=", 13) == 0) iterations = atoll(argv[i] + 13);
        else if (strcmp(argv[i], "--reverse") == 0) reverse = true;
        else if (strcmp(argv[i], "--help") == 0) return help(argv);
        else argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int order = BENCH_SKEWED; order >= BENCH_IN_ORDER; order--)
            add_all((struct bench_job){.n = sizes[i], .order = order});
    add_traces();
    int status = bench_run(kept, argv);
    for (size_t i = 0; i < PEERS; i++) peers[i]->finish();
    bench_demand(bench_live_bytes() == 0); /* bytes were counted right, and nobody gains by not giving back */
    return status;
}
