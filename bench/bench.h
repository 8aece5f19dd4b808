/* SPDX-License-Identifier: MIT */
/*
 * What all benchmarks share: where the intervals lie, which keys are asked for, the record of an interval, the slab,
 * the stop-watch, and the list of what a peer can do.
 *
 * Time is the thread's own processor time where one thread works (on a shared machine others' turns are not ours), and
 * wall time where several do. What liburcu's thread for callbacks does is in no time of one thread: the frees of the
 * maple tree and of ivskip with liburcu; ivskip-builtin, rbtree and array free in the thread that is timed. Every loop checks what it found against what the distribution says it must find, and
 * each structure is compared with the list of intervals when it ends: bench_demand ends the program.
 */
#ifndef BENCH_H
#define BENCH_H

#include "shim.h"

#include <time.h>

#define BENCH_PAGE   UINT64_C(4096)
#define BENCH_BASE   UINT64_C(0x100000000000) /* where the intervals begin */
#define BENCH_BATCH  4096                     /* look-ups between two checks */
#define BENCH_ALWAYS static inline __attribute__((always_inline))

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ checks, random numbers */

void bench_die(const char *file, int line, const char *what) __attribute__((noreturn));
#define bench_demand(condition) ((condition) ? (void)0 : bench_die(__FILE__, __LINE__, #condition))

/* xorshift64*; never 0 */
BENCH_ALWAYS uint64_t bench_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

BENCH_ALWAYS size_t bench_below(uint64_t *state, size_t n) {
    return (size_t)(((bench_random(state) >> 32) * (uint64_t)n) >> 32);
}

/* ------------------------------------------------------------------------ intervals and keys */

/* 64 bytes for each interval, in all peers. The field is the last word: it is read by the benchmarks "-field". */
struct bench_record {
    uint64_t other[7];
    uint64_t field;
};
static inline uint64_t bench_field(size_t id) { return (uint64_t)id * 7 + 1; }

/* The order in which the intervals are mapped, so that of their nodes in memory. Skewed: shuffled, and lengths and gaps
 * differ by a factor of 1 000 between parts of the space, for structures that count on keys being spread evenly. */
enum bench_order { BENCH_IN_ORDER, BENCH_SHUFFLED, BENCH_SKEWED };

/* Interval i is [start[i], end[i]); at least 3 pages, so that it has a middle. About half touch their neighbours, and
 * lengths and gaps are irregular, with a wide gap now and then, as in address spaces. `id` n is the spare record. */
struct bench_layout {
    size_t n;
    bool skewed;
    uint64_t *start, *end;
    uint64_t arena; /* far behind the last: free keys for the benchmarks of Alloc */
};
const struct bench_layout *bench_layout(size_t n, bool skewed); /* kept */

enum bench_keys_kind { BENCH_UNIFORM, BENCH_ZIPF, BENCH_SEQUENTIAL, BENCH_REPEATS, BENCH_KINDS };

/* Keys drawn beforehand as pages behind BENCH_BASE (4 bytes each, read in order, so that they cost neither time nor
 * cache), and what each batch must find. Long enough that no branch predictor learns them by heart. */
struct bench_keys {
    uint32_t *page;
    size_t batches;
    uint64_t *hits, *sums;           /* of a batch: intervals found, their fields */
    uint64_t *next_hits, *next_sums; /* the same for find-next */
};
const struct bench_keys *bench_keys(const struct bench_layout *layout, enum bench_keys_kind kind, bool half_in_gaps);
BENCH_ALWAYS uint64_t bench_key(uint32_t page) { return BENCH_BASE + (uint64_t)page * BENCH_PAGE + 8; }

/* ------------------------------------------------------------------------ slab */

/*
 * Free lists per thread by size class (64 bytes, so that blocks lie at cache lines, as those of the kernel's caches for
 * areas and tree nodes do; of 256 bytes: at multiples of that), batches of 64 that travel between threads, chunks that
 * are never given back. All tree and list peers take their nodes and records from it, so that no peer wins by its malloc.
 */
void *bench_alloc(size_t bytes);
void bench_free(void *memory, size_t bytes);
int64_t bench_live_bytes(void); /* taken and not given back; exact while nobody allocates */

/* ------------------------------------------------------------------------ stop-watch */

struct bench_watch {
    clockid_t clock; /* of `seconds` */
    double begun, seconds;
    double processor_begun, processor; /* this thread's processor time, whatever the clock */
};
void bench_resume(struct bench_watch *watch); /* also: callgrind counts from here */
void bench_collect(void);                     /* callgrind begins to count, or ends */
void bench_pause(struct bench_watch *watch);
struct bench_watch bench_watch(const struct bench_state *state);

/* Time-stamps for the latency of one query. */
static inline uint64_t bench_ticks(void) {
#if defined(__x86_64__)
    unsigned processor;
    return __builtin_ia32_rdtscp(&processor);
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}
double bench_ticks_per_ns(void);

/* Log-linear: 32 buckets a power of two. */
#define BENCH_BUCKETS (60 * 32)
struct bench_histogram {
    uint64_t count[BENCH_BUCKETS], total;
};
BENCH_ALWAYS void bench_note(struct bench_histogram *h, uint64_t ticks) {
    unsigned power = ticks < 32 ? 0 : (unsigned)(63 - __builtin_clzll(ticks)) - 4;
    h->count[power * 32 + ((ticks >> (power ? power - 1 : 0)) & 31)]++;
    h->total++;
}
double bench_quantile_ns(const struct bench_histogram *h, double q);

/* ------------------------------------------------------------------------ traces */

struct bench_event {
    uint64_t lo, hi; /* BENCH_FIND: lo */
    enum { BENCH_MAP, BENCH_UNMAP, BENCH_FIND } op;
    bool hit; /* BENCH_FIND: what it must say */
};
struct bench_trace {
    struct bench_event *event;
    size_t n;
    uint64_t covered; /* keys in the end */
};
const struct bench_trace *bench_trace(const char *path); /* NULL: cannot be read */

/* ------------------------------------------------------------------------ what is measured, by whom */

enum bench_work {
    BENCH_FIND_ONLY,
    BENCH_FIND_FIELD,
    BENCH_FIND_CHAIN,
    BENCH_FIND_NEXT,
    BENCH_ITERATE,
    BENCH_SPLIT_MERGE,
    BENCH_UNMAP_MAP,
    BENCH_CHANGE,
    BENCH_ALLOC_EMPTY,
    BENCH_ALLOC_FULL,
    BENCH_ALLOC_HOLE,
    BENCH_MIXED,
    BENCH_REGIONS,
    BENCH_LATENCY,
    BENCH_BYTES,
    BENCH_REPLAY,
    BENCH_WORKS
};

struct bench_job {
    enum bench_work work;
    size_t n;
    enum bench_order order;
    enum bench_keys_kind keys;
    bool half_in_gaps;
    bool hint;               /* Alloc: says where */
    unsigned writes_percent; /* mixed */
    const char *trace;
};

struct bench_peer {
    const char *name;
    size_t most; /* intervals that it is fit for */
    bench_body body[BENCH_WORKS];
    void (*finish)(void); /* checks and frees what it built */
};

#ifdef __cplusplus
}
#endif
#endif
