/* SPDX-License-Identifier: MIT */
/* Intervals, keys, stop-watch, histogram. */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

void bench_die(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: wrong: %s\n", file, line, what);
    abort();
}

static void *need(void *memory) {
    bench_demand(memory);
    return memory;
}

/* ------------------------------------------------------------------------ intervals */

static void place_intervals(struct bench_layout *l) {
    uint64_t random = 20251, at = BENCH_BASE;
    unsigned scale = 0;
    for (size_t i = 0; i < l->n; i++) {
        uint64_t r = bench_random(&random);
        uint64_t pages = 3 + (r & 7) + (r >> 3 & 7 ? 0 : r >> 6 & 31);
        uint64_t gap = r >> 20 & 1 ? 1 + (r >> 21 & 15) : 0;
        if (l->skewed) {
            if (i % 256 == 0) scale = (unsigned)(r >> 40) % 11;
            pages = 3 + (r & ((UINT64_C(1) << scale) - 1));
            if (gap) gap = 1 + (r >> 10 & ((UINT64_C(1) << scale) - 1));
        }
        if (i % 64 == 63) gap = (r >> 30 & 0x1fff) + 4096;
        l->start[i] = at;
        l->end[i] = at + pages * BENCH_PAGE;
        at = l->end[i] + gap * BENCH_PAGE;
    }
    bench_demand((at - BENCH_BASE) / BENCH_PAGE < UINT32_MAX);
    l->arena = at + (UINT64_C(1) << 30);
}

const struct bench_layout *bench_layout(size_t n, bool skewed) {
    static struct bench_layout kept[16];
    size_t i = 0;
    while (i < 16 && kept[i].n && (kept[i].n != n || kept[i].skewed != skewed)) i++;
    bench_demand(i < 16);
    struct bench_layout *l = &kept[i];
    if (l->n) return l;
    l->n = n;
    l->skewed = skewed;
    l->start = need(calloc(n, sizeof *l->start));
    l->end = need(calloc(n, sizeof *l->end));
    place_intervals(l);
    return l;
}

/* ------------------------------------------------------------------------ keys */

/* Zipf, exponent 0.99: cumulative weights of the ranks; rank r is interval order[r]. */
struct zipf {
    double *upto;
    uint32_t *order;
};

static void zipf_make(struct zipf *z, size_t n, uint64_t *random) {
    double sum = 0;
    z->upto = need(calloc(n, sizeof *z->upto));
    z->order = need(calloc(n, sizeof *z->order));
    for (size_t i = 0; i < n; i++) {
        z->upto[i] = sum += pow((double)(i + 1), -0.99);
        size_t j = bench_below(random, i + 1);
        z->order[i] = z->order[j];
        z->order[j] = (uint32_t)i;
    }
}

static size_t zipf_draw(const struct zipf *z, size_t n, uint64_t *random) {
    double want = z->upto[n - 1] * ((double)(bench_random(random) >> 11) / 9007199254740992.0);
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (z->upto[mid] <= want) lo = mid + 1;
        else hi = mid;
    }
    return z->order[lo];
}

static size_t draw(enum bench_keys_kind kind, const struct zipf *z, size_t n, size_t i, size_t last, uint64_t *random) {
    if (kind == BENCH_SEQUENTIAL) return i % n;
    if (kind == BENCH_ZIPF) return zipf_draw(z, n, random);
    if (kind == BENCH_REPEATS && bench_below(random, 10) != 0) return last;
    return bench_below(random, n);
}

static void fill_keys(struct bench_keys *keys, const struct bench_layout *l, enum bench_keys_kind kind, bool half) {
    uint64_t random = 777 + kind;
    struct zipf z = {0};
    if (kind == BENCH_ZIPF) zipf_make(&z, l->n, &random);
    for (size_t i = 0, which = 0; i < keys->batches * BENCH_BATCH; i++) {
        which = draw(kind, &z, l->n, i, which, &random);
        bool gap = half && (bench_random(&random) & 1024);
        size_t id = which; /* gaps: of the next interval that has one behind it */
        while (gap && id + 1 < l->n && l->end[id] == l->start[id + 1]) id++;
        gap = gap && id + 1 < l->n;
        uint64_t lo = gap ? l->end[id] : l->start[id], hi = gap ? l->start[id + 1] : l->end[id];
        size_t batch = i / BENCH_BATCH, next = gap ? id + 1 : id;
        keys->page[i] = (uint32_t)((lo - BENCH_BASE) / BENCH_PAGE + bench_below(&random, (hi - lo) / BENCH_PAGE));
        if (!gap) keys->hits[batch]++, keys->sums[batch] += bench_field(id);
        keys->next_hits[batch]++;
        keys->next_sums[batch] += bench_field(next);
    }
    free(z.upto);
    free(z.order);
}

const struct bench_keys *bench_keys(const struct bench_layout *l, enum bench_keys_kind kind, bool half) {
    static struct bench_keys kept;
    static const struct bench_layout *kept_layout;
    static int kept_kind, kept_half;
    if (kept.page && kept_layout == l && kept_kind == (int)kind && kept_half == half) return &kept;
    free(kept.page), free(kept.hits), free(kept.sums), free(kept.next_hits), free(kept.next_sums);
    size_t count = 1 << 16;
    while (count < 4 * l->n && count < 1 << 21) count *= 2;
    kept = (struct bench_keys){.batches = count / BENCH_BATCH};
    kept.page = need(calloc(count, sizeof *kept.page));
    kept.hits = need(calloc(kept.batches, sizeof(uint64_t)));
    kept.sums = need(calloc(kept.batches, sizeof(uint64_t)));
    kept.next_hits = need(calloc(kept.batches, sizeof(uint64_t)));
    kept.next_sums = need(calloc(kept.batches, sizeof(uint64_t)));
    kept_layout = l, kept_kind = kind, kept_half = half;
    fill_keys(&kept, l, kind, half);
    return &kept;
}

/* ------------------------------------------------------------------------ stop-watch */

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct bench_watch bench_watch(const struct bench_state *state) {
    clockid_t clock = bench_threads(state) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    return (struct bench_watch){.clock = clock};
}

void bench_collect(void) { CALLGRIND_TOGGLE_COLLECT; }

void bench_resume(struct bench_watch *watch) {
    watch->processor_begun = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    watch->begun = seconds_of(watch->clock);
    CALLGRIND_TOGGLE_COLLECT;
}

void bench_pause(struct bench_watch *watch) {
    CALLGRIND_TOGGLE_COLLECT;
    watch->seconds += seconds_of(watch->clock) - watch->begun;
    watch->processor += seconds_of(CLOCK_THREAD_CPUTIME_ID) - watch->processor_begun;
}

double bench_ticks_per_ns(void) {
    static double kept;
    if (kept > 0) return kept;
    double begun = seconds_of(CLOCK_MONOTONIC), now = begun;
    uint64_t ticks = bench_ticks();
    while (now - begun < 0.02) now = seconds_of(CLOCK_MONOTONIC);
    return kept = (double)(bench_ticks() - ticks) / ((now - begun) * 1e9);
}

double bench_quantile_ns(const struct bench_histogram *h, double q) {
    uint64_t want = (uint64_t)(q * (double)h->total), seen = 0;
    for (unsigned i = 0; i < BENCH_BUCKETS; i++) {
        seen += h->count[i];
        if (seen <= want) continue;
        unsigned power = i / 32;
        uint64_t ticks = power ? ((uint64_t)(32 + i % 32)) << (power - 1) : i;
        return (double)ticks / bench_ticks_per_ns();
    }
    return 0;
}
