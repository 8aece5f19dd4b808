/* SPDX-License-Identifier: MIT */
/* Range locks with IVSKIP_DEBUG: deadlocks are answered, and a release by another owner. A copy of the header of its own. */
#define IVSKIP_STATIC
#define IVSKIP_DEBUG             1
#define IVSKIP_ASSERT(condition) ((void)(condition)) /* misuse is answered, as in release builds */
#include "ivskip.h"
#include "support.h"

#include <pthread.h>
#include <string.h>

static struct ivs_range_lock lock;

struct party {
    pthread_t thread;
    struct ivs_range first, second;
    uint64_t wants, start, end;
    unsigned mode;
    int result;
};

static void until_waiting(uint64_t count) {
    struct ivs_range_stats stats = {0};
    while (stats.waiting != count && !test_failed()) {
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        if (stats.waiting != count) sleep_ns(100000);
    }
}

TEST(range_debug, who_asks_for_what_it_holds_is_told) {
    const unsigned modes[] = {IVS_SHARED, IVS_EXCLUSIVE};
    for (int held = 0; held < 2; held++)
        for (int asked = 0; asked < 2; asked++) {
            struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
            CHECK(!ivs_range_lock_init(&lock, NULL), "init");
            CHECK(!ivs_range_lock(&lock, &a, 10, 20, modes[held]), "lock");
            int r = ivs_range_lock(&lock, &b, 15, 0, modes[asked]);
            CHECK(r == (held || asked ? IVS_EDEADLK : 0), "%d", r);
            if (r) CHECK(b.other_start == 10 && b.other_end == 20 && b.start == 15 && b.end == 0, "the two ranges");
            if (r == 0) CHECK(!ivs_range_unlock(&lock, &b), "unlock");
            CHECK(!ivs_range_unlock(&lock, &a), "unlock");
            CHECK(!ivs_range_lock_destroy(&lock), "destroy");
        }
}

static void *wants_another(void *arg) {
    struct party *p = arg;
    CHECK(!ivs_range_lock(&lock, &p->first, p->start, p->end, IVS_EXCLUSIVE), "lock");
    while (!__atomic_load_n(&p->wants, __ATOMIC_ACQUIRE)) sleep_ns(100000);
    p->result = ivs_range_lock(&lock, &p->second, p->wants, p->wants + 5, p->mode | IVS_NESTED);
    if (p->result == 0) CHECK(!ivs_range_unlock(&lock, &p->second), "unlock");
    CHECK(!ivs_range_unlock(&lock, &p->first), "unlock");
    return NULL;
}

TEST(range_debug, a_cycle_of_three_waiters_is_told_to_the_last) {
    struct party p[3];
    int told = 0;
    memset(p, 0, sizeof p);
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    for (unsigned i = 0; i < 3; i++) {
        p[i].start = 10 * (i + 1);
        p[i].end = p[i].start + 10;
        p[i].mode = i ? IVS_SHARED : IVS_EXCLUSIVE;
        CHECK(!pthread_create(&p[i].thread, NULL, wants_another, &p[i]), "thread");
    }
    struct ivs_range_stats stats = {0};
    while (stats.held != 3 && !test_failed()) {
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        sleep_ns(100000);
    }
    for (unsigned i = 0; i < 3; i++) { /* each wants a part of the next one's */
        __atomic_store_n(&p[i].wants, p[(i + 1) % 3].start + 2, __ATOMIC_RELEASE);
        if (i < 2) until_waiting(i + 1);
    }
    for (unsigned i = 0; i < 3; i++) pthread_join(p[i].thread, NULL);
    for (unsigned i = 0; i < 3; i++) told += p[i].result == IVS_EDEADLK;
    CHECK(told == 1 && p[2].result == IVS_EDEADLK, "%d, %d, %d", p[0].result, p[1].result, p[2].result);
    CHECK(p[2].second.other_start == 10 && p[2].second.other_end == 20, "the range in the way");
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

/* A ring longer than any depth that a search might stop at; and every one waits behind many. */
TEST(range_debug, a_ring_of_many_is_told_to_the_last) {
    enum { RING = 60 };
    static struct party p[RING];
    int told = 0;
    memset(p, 0, sizeof p);
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    for (unsigned i = 0; i < RING; i++) {
        p[i].start = 10 * (i + 1);
        p[i].end = p[i].start + 10;
        p[i].mode = IVS_EXCLUSIVE;
        CHECK(!pthread_create(&p[i].thread, NULL, wants_another, &p[i]), "thread");
    }
    struct ivs_range_stats stats = {0};
    while (stats.held != RING && !test_failed()) {
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        sleep_ns(100000);
    }
    for (unsigned i = 0; i < RING; i++) {
        __atomic_store_n(&p[i].wants, p[(i + 1) % RING].start + 2, __ATOMIC_RELEASE);
        if (i + 1 < RING) until_waiting(i + 1);
    }
    for (unsigned i = 0; i < RING; i++) pthread_join(p[i].thread, NULL);
    for (unsigned i = 0; i < RING; i++) told += p[i].result == IVS_EDEADLK;
    CHECK(told == 1 && p[RING - 1].result == IVS_EDEADLK, "%d were told", told);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

static void *wants_for_a_while(void *arg) {
    struct party *p = arg;
    CHECK(!ivs_range_lock(&lock, &p->first, p->start, p->end, IVS_EXCLUSIVE), "lock");
    while (!__atomic_load_n(&p->wants, __ATOMIC_ACQUIRE)) sleep_ns(100000);
    p->result = ivs_range_timedlock(&lock, &p->second, p->wants, p->wants + 5, IVS_EXCLUSIVE | IVS_NESTED, 300000000);
    if (p->result == 0) CHECK(!ivs_range_unlock(&lock, &p->second), "unlock");
    CHECK(!ivs_range_unlock(&lock, &p->first), "unlock");
    return NULL;
}

TEST(range_debug, who_waits_for_one_whose_wait_ends_by_time_is_in_no_deadlock) {
    struct ivs_range mine = IVS_RANGE_INIT, more = IVS_RANGE_INIT;
    struct party p;
    memset(&p, 0, sizeof p);
    p.start = 30;
    p.end = 40;
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    CHECK(!ivs_range_lock(&lock, &mine, 10, 20, IVS_EXCLUSIVE), "lock");
    CHECK(!pthread_create(&p.thread, NULL, wants_for_a_while, &p), "thread");
    struct ivs_range_stats stats = {0};
    while (stats.held != 2 && !test_failed()) CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    __atomic_store_n(&p.wants, 12, __ATOMIC_RELEASE);
    until_waiting(1);
    int r = ivs_range_lock(&lock, &more, 35, 36, IVS_EXCLUSIVE | IVS_NESTED);
    CHECK(r == 0, "%d", r);
    pthread_join(p.thread, NULL);
    CHECK(p.result == IVS_ETIMEDOUT, "%d", p.result);
    if (r == 0) CHECK(!ivs_range_unlock(&lock, &more), "unlock");
    CHECK(!ivs_range_unlock(&lock, &mine), "unlock");
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

static void *wants_all(void *arg) {
    struct party *p = arg;
    p->result = ivs_range_lock(&lock, &p->first, 0, 0, IVS_EXCLUSIVE);
    if (p->result == 0) CHECK(!ivs_range_unlock(&lock, &p->first), "unlock");
    return NULL;
}

TEST(range_debug, a_holder_that_forgets_to_say_nested_is_told) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct party wide;
    memset(&wide, 0, sizeof wide);
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    CHECK(!ivs_range_lock(&lock, &a, 10, 20, IVS_SHARED), "lock");
    CHECK(!pthread_create(&wide.thread, NULL, wants_all, &wide), "thread");
    until_waiting(1);
    int r = ivs_range_lock(&lock, &b, 30, 40, IVS_SHARED); /* barred by who waits for us */
    CHECK(r == IVS_EDEADLK && b.other_start == 0 && b.other_end == 0, "%d", r);
    r = ivs_range_lock(&lock, &b, 30, 40, IVS_SHARED | IVS_NESTED);
    CHECK(r == 0, "%d", r);
    CHECK(!ivs_range_unlock(&lock, &b) && !ivs_range_unlock(&lock, &a), "unlock");
    pthread_join(wide.thread, NULL);
    CHECK(wide.result == 0, "%d", wide.result);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

static void *releases(void *arg) {
    struct party *p = arg;
    p->result = ivs_range_unlock(&lock, &p->first);
    return NULL;
}

TEST(range_debug, only_the_owner_releases) {
    struct party p;
    memset(&p, 0, sizeof p);
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    CHECK(!ivs_range_lock(&lock, &p.first, 0, 10, IVS_EXCLUSIVE), "lock");
    CHECK(!pthread_create(&p.thread, NULL, releases, &p), "thread");
    pthread_join(p.thread, NULL);
    CHECK(p.result == IVS_EPERM && p.first.lock, "%d", p.result);
    CHECK(!ivs_range_unlock(&lock, &p.first), "unlock");
    p.first.owner = 42; /* a transaction */
    CHECK(!ivs_range_lock(&lock, &p.first, 0, 10, IVS_EXCLUSIVE), "lock");
    CHECK(!pthread_create(&p.thread, NULL, releases, &p), "thread");
    pthread_join(p.thread, NULL);
    CHECK(p.result == 0, "%d", p.result);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

static void releases_when_called(struct ivs_range *range, int result) {
    CHECK(result == 0, "%d", result);
    CHECK(!ivs_range_unlock(&lock, range), "unlock");
}

TEST(range_debug, a_callback_may_release_in_any_thread) {
    struct ivs_range mine = IVS_RANGE_INIT;
    struct party p;
    memset(&p, 0, sizeof p);
    p.first.owner = 42;
    CHECK(!ivs_range_lock_init(&lock, NULL), "init");
    CHECK(!ivs_range_lock(&lock, &p.first, 0, 10, IVS_EXCLUSIVE), "lock");
    int r = ivs_range_lock_async(&lock, &mine, 5, 15, IVS_EXCLUSIVE, releases_when_called);
    CHECK(r == IVS_EINPROGRESS, "%d", r);
    CHECK(!pthread_create(&p.thread, NULL, releases, &p), "thread");
    pthread_join(p.thread, NULL);
    CHECK(p.result == 0 && !mine.lock, "%d", p.result);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}
