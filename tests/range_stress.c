/* SPDX-License-Identifier: MIT */
/*
 * Many threads on random ranges of one lock: nobody meets another where it should be alone, nobody is forgotten, memory
 * stays flat. STRESS_SECONDS makes the first test run that long (make stress).
 */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 96, THREADS = 4, SET = 3 };

static struct ivs_range_lock lock;
static atomic_int owners[KEYS]; /* -1: one alone, else how many share */
static atomic_int asked, answered;

struct worker {
    struct rng rng;
    struct ivs_range range[SET];
    atomic_ulong steps;
    unsigned long limit;
    atomic_int *stop;
};

static void enter(const struct ivs_range *range) {
    bool alone = range->mode == IVS_EXCLUSIVE;
    for (uint64_t key = range->start; key < range->end; key++) {
        int before = alone ? atomic_exchange(&owners[key], -1) : atomic_fetch_add(&owners[key], 1);
        CHECK(alone ? before == 0 : before >= 0, "key %u: %d when %s", (unsigned)key, before,
              alone ? "alone" : "shared");
    }
}

static void leave(const struct ivs_range *range) {
    bool alone = range->mode == IVS_EXCLUSIVE;
    for (uint64_t key = range->start; key < range->end; key++) {
        int before = alone ? atomic_exchange(&owners[key], 0) : atomic_fetch_sub(&owners[key], 1);
        CHECK(alone ? before == -1 : before > 0, "key %u: %d left when %s", (unsigned)key, before,
              alone ? "alone" : "shared");
    }
}

static void release(struct ivs_range *range) {
    leave(range);
    CHECK(!ivs_range_unlock(&lock, range), "unlock");
}

static void draw(struct worker *w, struct ivs_range *range) {
    uint64_t size = rng_below(&w->rng, 8) ? 1 + rng_below(&w->rng, 6) : 1 + rng_below(&w->rng, KEYS);
    range->start = rng_below(&w->rng, KEYS);
    if (rng_below(&w->rng, 2)) range->start &= ~UINT64_C(7), size = 8; /* the same ranges again and again */
    range->end = range->start + size < KEYS ? range->start + size : KEYS;
    range->mode = rng_below(&w->rng, 3) ? IVS_EXCLUSIVE : IVS_SHARED;
}

static void change_mode(struct worker *w, struct ivs_range *range) {
    if (range->mode == IVS_EXCLUSIVE) {
        for (uint64_t key = range->start; key < range->end; key++) atomic_store(&owners[key], 1);
        CHECK(!ivs_range_downgrade(&lock, range), "downgrade");
    } else if (rng_below(&w->rng, 2)) {
        leave(range); /* before, or the next one to share would be counted too early */
        int r = ivs_range_try_upgrade(&lock, range);
        CHECK(r == 0 || r == IVS_EBUSY, "upgrade: %d", r);
        enter(range);
    }
}

static void answer(struct ivs_range *range, int result) {
    CHECK(result == 0, "callback: %d", result);
    enter(range);
    release(range);
    free(range);
    atomic_fetch_add(&answered, 1);
}

static void ask(struct worker *w) {
    struct ivs_range drawn, *range = calloc(1, sizeof *range);
    if (!range) return;
    draw(w, &drawn);
    atomic_fetch_add(&asked, 1);
    int r = ivs_range_lock_async(&lock, range, drawn.start, drawn.end, drawn.mode, answer);
    if (r == IVS_EINPROGRESS) return; /* the handle may be gone */
    CHECK(r == 0, "async: %d", r);
    answer(range, r);
}

static void take_set(struct worker *w) {
    for (unsigned i = 0; i < SET; i++) {
        w->range[i].start = 32 * i + rng_below(&w->rng, 30);
        w->range[i].end = w->range[i].start + 1 + rng_below(&w->rng, 2);
        w->range[i].mode = rng_below(&w->rng, 2) ? IVS_EXCLUSIVE : IVS_SHARED;
    }
    struct ivs_range swap = w->range[0];
    w->range[0] = w->range[2]; /* nobody holds them: handles may move */
    w->range[2] = swap;
    int r = ivs_range_lock_set(&lock, w->range, SET);
    if (!CHECK(r == 0, "set: %d", r)) return;
    for (unsigned i = 0; i < SET; i++) enter(&w->range[i]);
    for (unsigned i = 0; i < SET; i++) release(&w->range[i]);
}

static void step(struct worker *w) {
    struct ivs_range *range = &w->range[0], drawn;
    uint64_t what = rng_below(&w->rng, 16);
    int r;
    if (what == 0) {
        take_set(w);
        return;
    }
    if (what == 1) {
        ask(w);
        return;
    }
    draw(w, &drawn);
    r = what < 4   ? ivs_range_trylock(&lock, range, drawn.start, drawn.end, drawn.mode)
        : what < 7 ? ivs_range_timedlock(&lock, range, drawn.start, drawn.end, drawn.mode, rng_below(&w->rng, 20000))
                   : ivs_range_lock(&lock, range, drawn.start, drawn.end, drawn.mode);
    if (r && CHECK((r == IVS_EBUSY && what < 4) || (r == IVS_ETIMEDOUT && what < 7), "%d", r)) return;
    if (r) return;
    enter(range);
    if (what == 15) change_mode(w, range);
    if (what == 14) sched_yield();
    release(range);
}

static void *work(void *arg) {
    struct worker *w = arg;
    while (!atomic_load(w->stop) && atomic_load(&w->steps) < w->limit && !test_failed()) {
        step(w);
        atomic_fetch_add(&w->steps, 1);
    }
    return NULL;
}

static void say(void *ctx, const char *text) { (void)!fputs(text, ctx); }

/* Fails loudly if no thread gets anywhere for half a minute. */
static void watch(struct worker *w, const pthread_t *threads, atomic_int *stop, unsigned seconds) {
    unsigned long before[THREADS] = {0};
    unsigned idle[THREADS] = {0};
    uint64_t end = now_ns() + seconds * UINT64_C(1000000000);
    (void)threads;
    for (bool busy = true; busy && now_ns() < end;) {
        busy = false;
        sleep_ns(seconds > 5 ? 1000000000 : 20000000);
        for (unsigned i = 0; i < THREADS; i++) {
            unsigned long now = atomic_load(&w[i].steps);
            idle[i] = now == before[i] ? idle[i] + 1 : 0;
            before[i] = now;
            if (now < w[i].limit) busy = true;
            if (now >= w[i].limit || idle[i] < (seconds > 5 ? 30u : 1500u)) continue;
            fprintf(stderr, "thread %u does not get anywhere:\n", i);
            (void)ivs_range_lock_dump(&lock, say, stderr);
            abort();
        }
        if (test_failed()) break;
    }
    atomic_store(stop, 1);
}

TEST(range_stress, random_requests_of_four_threads) {
    const char *text = getenv("STRESS_SECONDS");
    unsigned seconds = text ? (unsigned)strtoul(text, NULL, 10) : 0;
    struct worker w[THREADS];
    pthread_t threads[THREADS];
    struct ivs_range_stats stats = {0};
    atomic_int stop = 0;
    memset(w, 0, sizeof w);
    atomic_store(&asked, 0);
    atomic_store(&answered, 0);
    if (!CHECK(!ivs_range_lock_init(&lock, NULL), "init")) return;
    for (unsigned i = 0; i < THREADS; i++) {
        w[i].rng = rng_make(test_seed(), i);
        w[i].limit = seconds ? ~0ul : test_scale(20000);
        w[i].stop = &stop;
        CHECK(!pthread_create(&threads[i], NULL, work, &w[i]), "thread");
    }
    watch(w, threads, &stop, seconds ? seconds : 600);
    unsigned long steps = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        steps += atomic_load(&w[i].steps);
    }
    CHECK(atomic_load(&asked) == atomic_load(&answered), "%d asked, %d answered", atomic_load(&asked),
          atomic_load(&answered));
    CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    CHECK(stats.held == 0 && stats.waiting == 0, "%u held, %u wait", (unsigned)stats.held, (unsigned)stats.waiting);
    CHECK(stats.cached <= 2 * KEYS, "%u pieces are kept", (unsigned)stats.cached);
    printf("     %lu steps, %lu acquisitions, %lu waits, longest %.3f ms, %lu wakes, %lu in vain, %ld blocks live\n",
           steps, (unsigned long)stats.acquisitions, (unsigned long)stats.waits, (double)stats.longest_wait / 1e6,
           (unsigned long)stats.wakes, (unsigned long)stats.false_wakes, test_host_live());
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

/* ---- ranges that never come again */

static void *scatter(void *arg) {
    struct worker *w = arg;
    for (; atomic_load(&w->steps) < w->limit && !test_failed(); atomic_fetch_add(&w->steps, 1)) {
        uint64_t start = rng_next(&w->rng) >> 1;
        if (!CHECK(!ivs_range_lock(&lock, &w->range[0], start, start + 1 + rng_below(&w->rng, 1000), IVS_EXCLUSIVE),
                   "lock"))
            return NULL;
        CHECK(!ivs_range_unlock(&lock, &w->range[0]), "unlock");
    }
    return NULL;
}

TEST(range_stress, memory_stays_flat_under_ranges_that_never_come_again) {
    struct worker w[2];
    struct ivs_range_stats stats = {0};
    memset(w, 0, sizeof w);
    if (!CHECK(!ivs_range_lock_init(&lock, NULL), "init")) return;
    for (unsigned i = 0; i < 2; i++) {
        w[i].rng = rng_make(test_seed(), 10 + i);
        w[i].limit = test_scale(100000);
    }
    run_threads(2, scatter, w, sizeof *w);
    CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    CHECK(stats.acquisitions == 2 * w[0].limit, "%lu acquisitions", (unsigned long)stats.acquisitions);
    CHECK(stats.cached < 200, "%u pieces are kept", (unsigned)stats.cached);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

/* ---- fairness (G9): a wide exclusive request under two threads of back-to-back shared ones */

static atomic_int fair_stop;
static atomic_ulong fair_grants[2], fair_longest_hold[2];
static atomic_int fair_done;

static void *stream(void *arg) {
    unsigned me = *(unsigned *)arg;
    struct ivs_range range = IVS_RANGE_INIT;
    struct rng rng = rng_make(test_seed(), 20 + me);
    while (!atomic_load(&fair_stop)) {
        uint64_t start = rng_below(&rng, 60), before;
        if (!CHECK(!ivs_range_lock(&lock, &range, start, start + 8, IVS_SHARED), "lock")) break;
        before = now_ns();
        atomic_fetch_add(&fair_grants[me], 1);
        if (rng_below(&rng, 64) == 0) sched_yield(); /* so that holds overlap on one processor too */
        uint64_t held = now_ns() - before;
        if (held > atomic_load(&fair_longest_hold[me])) atomic_store(&fair_longest_hold[me], held);
        CHECK(!ivs_range_unlock(&lock, &range), "unlock");
        rcu_quiescent();
    }
    return NULL;
}

static void fair_answer(struct ivs_range *range, int result) {
    (void)range;
    CHECK(result == 0, "%d", result);
    atomic_store(&fair_done, 1);
}

TEST(range_stress, a_wide_request_under_a_stream_of_shared_ones_is_next) {
    struct ivs_range wide = IVS_RANGE_INIT;
    unsigned names[2] = {0, 1}, tries = test_scale(10000);
    unsigned long most = 0, slow = 0;
    pthread_t threads[2];
    uint64_t longest = 0;
    if (!CHECK(!ivs_range_lock_init(&lock, NULL), "init")) return;
    atomic_store(&fair_stop, 0);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&fair_longest_hold[i], 0);
        CHECK(!pthread_create(&threads[i], NULL, stream, &names[i]), "thread");
    }
    for (unsigned i = 0; i < tries && !test_failed(); i++) {
        uint64_t begin = now_ns();
        atomic_store(&fair_done, 0);
        int r = ivs_range_lock_async(&lock, &wide, 0, 64, IVS_EXCLUSIVE, fair_answer);
        unsigned long before = atomic_load(&fair_grants[0]) + atomic_load(&fair_grants[1]);
        while (r == IVS_EINPROGRESS && !atomic_load(&fair_done)) sched_yield();
        unsigned long more = atomic_load(&fair_grants[0]) + atomic_load(&fair_grants[1]) - before;
        CHECK(r == 0 || r == IVS_EINPROGRESS, "%d", r);
        CHECK(more <= 2, "%lu newcomers went first", more); /* one a thread that had looked before it was queued */
        if (more > most) most = more;
        if (r == IVS_EINPROGRESS) slow++;
        uint64_t waited = now_ns() - begin;
        if (waited > longest) longest = waited;
        CHECK(!ivs_range_unlock(&lock, &wide), "unlock");
        if (i % 16 == 0) sched_yield();
    }
    atomic_store(&fair_stop, 1);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    unsigned long hold = atomic_load(&fair_longest_hold[0]);
    if (atomic_load(&fair_longest_hold[1]) > hold) hold = atomic_load(&fair_longest_hold[1]);
    printf(
        "     %u tries, %lu waited, longest wait %.3f ms, longest shared hold %.3f ms, at most %lu newcomers first\n",
        tries, slow, (double)longest / 1e6, (double)hold / 1e6, most);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

/* ---- a thousand waiters */

enum { CROWD = 1000 };

static void *crowd_waits(void *arg) {
    struct ivs_range range = IVS_RANGE_INIT;
    uint64_t start = (uint64_t)(uintptr_t)arg * 10;
    CHECK(!ivs_range_lock(&lock, &range, start, start + 5, IVS_EXCLUSIVE), "lock");
    CHECK(!ivs_range_unlock(&lock, &range), "unlock");
    return NULL;
}

TEST(range_stress, a_release_among_a_thousand_waiters_wakes_its_own) {
    static struct ivs_range held[CROWD];
    static pthread_t threads[CROWD];
    struct ivs_range_stats stats = {0};
    unsigned crowd = test_scale(CROWD);
    uint64_t most = 0;
    pthread_attr_t small;
    if (crowd > CROWD) crowd = CROWD;
    memset(held, 0, sizeof held);
    if (!CHECK(!ivs_range_lock_init(&lock, NULL), "init")) return;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (unsigned i = 0; i < crowd; i++) {
        CHECK(!ivs_range_lock(&lock, &held[i], 10 * i, 10 * i + 5, IVS_EXCLUSIVE), "lock");
        CHECK(!pthread_create(&threads[i], &small, crowd_waits, (void *)(uintptr_t)i), "thread");
    }
    while (stats.waiting != crowd && !test_failed()) {
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        sleep_ns(1000000);
    }
    for (unsigned i = 0; i < crowd; i++) {
        uint64_t before = stats.wakes;
        CHECK(!ivs_range_unlock(&lock, &held[i * 7 % crowd]), "unlock");
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        if (stats.wakes - before > most) most = stats.wakes - before;
    }
    for (unsigned i = 0; i < crowd; i++) pthread_join(threads[i], NULL);
    CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    CHECK(most <= 2, "%u wakes by one release", (unsigned)most);
    CHECK(stats.wakes == crowd && stats.false_wakes == 0, "%u wakes, %u in vain", (unsigned)stats.wakes,
          (unsigned)stats.false_wakes);
    printf("     %u waiters, %u wakes, at most %u by a release\n", crowd, (unsigned)stats.wakes, (unsigned)most);
    pthread_attr_destroy(&small);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}
