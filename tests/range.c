/* SPDX-License-Identifier: MIT */
/* Range locks: modes, exact bounds, sets, time-outs, callbacks, misuse. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ivs_range_lock lock;

static void begin(void) { CHECK(!ivs_range_lock_init(&lock, NULL), "init"); }

static void end(void) {
    struct ivs_range_stats stats = {0};
    CHECK(!ivs_range_lock_get_stats(&lock, &stats) && stats.held == 0 && stats.waiting == 0, "%u held, %u wait",
          (unsigned)stats.held, (unsigned)stats.waiting);
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
}

/* What trylock says; what it takes it lets go. */
static int probe(uint64_t start, uint64_t end_, unsigned mode) {
    struct ivs_range range = IVS_RANGE_INIT;
    int r = ivs_range_trylock(&lock, &range, start, end_, mode);
    if (r == 0) CHECK(!ivs_range_unlock(&lock, &range), "unlock");
    return r;
}

#define TAKES(range, start, end, mode) CHECK(!ivs_range_lock(&lock, &(range), start, end, mode), "lock")
#define GIVES(range)                   CHECK(!ivs_range_unlock(&lock, &(range)), "unlock")
#define SAYS(what, result)                                                                                             \
    do {                                                                                                               \
        int says_ = (what);                                                                                            \
        CHECK(says_ == (result), "%d", says_);                                                                         \
    } while (0)

TEST(range, exclusive_excludes_all_and_shared_excludes_exclusive) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    SAYS(probe(10, 20, IVS_EXCLUSIVE), IVS_EBUSY);
    SAYS(probe(10, 20, IVS_SHARED), IVS_EBUSY);
    GIVES(a);
    SAYS(probe(10, 20, IVS_EXCLUSIVE), 0);
    TAKES(a, 10, 20, IVS_SHARED);
    SAYS(probe(10, 20, IVS_EXCLUSIVE), IVS_EBUSY);
    TAKES(b, 10, 20, IVS_SHARED);
    GIVES(a);
    SAYS(probe(10, 20, IVS_EXCLUSIVE), IVS_EBUSY);
    GIVES(b);
    SAYS(probe(10, 20, IVS_EXCLUSIVE), 0);
    end();
}

TEST(range, bounds_are_exact) {
    struct ivs_range a = IVS_RANGE_INIT;
    const unsigned modes[] = {IVS_SHARED, IVS_EXCLUSIVE};
    begin();
    for (int m = 0; m < 2; m++) {
        TAKES(a, 100, 200, modes[m]);
        SAYS(probe(0, 100, IVS_EXCLUSIVE), 0);
        SAYS(probe(200, 0, IVS_EXCLUSIVE), 0);
        SAYS(probe(0, 101, IVS_EXCLUSIVE), IVS_EBUSY);
        SAYS(probe(199, 0, IVS_EXCLUSIVE), IVS_EBUSY);
        SAYS(probe(150, 151, IVS_EXCLUSIVE), IVS_EBUSY);
        SAYS(probe(0, 0, IVS_EXCLUSIVE), IVS_EBUSY);
        GIVES(a);
    }
    SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
    end();
}

TEST(range, the_first_and_the_last_key_can_be_held) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    begin();
    TAKES(a, 0, 1, IVS_EXCLUSIVE);
    TAKES(b, UINT64_MAX, 0, IVS_EXCLUSIVE);
    SAYS(probe(0, 0, IVS_SHARED), IVS_EBUSY);
    SAYS(probe(1, UINT64_MAX, IVS_EXCLUSIVE), 0);
    SAYS(probe(UINT64_MAX - 1, 0, IVS_SHARED), IVS_EBUSY);
    GIVES(a);
    SAYS(probe(0, UINT64_MAX, IVS_EXCLUSIVE), 0);
    GIVES(b);
    SAYS(probe(1, 0, IVS_EXCLUSIVE), 0);
    end();
}

TEST(range, shared_holders_overlap_in_any_way) {
    struct ivs_range held[40];
    unsigned count[64] = {0};
    struct rng rng = rng_make(test_seed(), 1);
    memset(held, 0, sizeof held);
    begin();
    for (unsigned step = 0; step < test_scale(4000) && !test_failed(); step++) {
        struct ivs_range *range = &held[rng_below(&rng, 40)];
        unsigned from = (unsigned)rng_below(&rng, 63), to = from + 1 + (unsigned)rng_below(&rng, 64 - from);
        if (range->lock) {
            for (uint64_t key = range->start; key < range->end; key++) count[key]--;
            GIVES(*range);
        } else {
            TAKES(*range, from, to, IVS_SHARED);
            for (unsigned key = from; key < to; key++) count[key]++;
        }
        from = (unsigned)rng_below(&rng, 64);
        SAYS(probe(from, from + 1, IVS_EXCLUSIVE), count[from] ? IVS_EBUSY : 0);
    }
    for (unsigned i = 0; i < 40; i++)
        if (held[i].lock) GIVES(held[i]);
    SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
    end();
}

/* Random requests of both modes, each compared with a table of keys. */
TEST(range, try_agrees_with_a_table_of_keys) {
    struct ivs_range held[24];
    int keys[48] = {0}; /* -1 exclusive, else shared holders */
    struct rng rng = rng_make(test_seed(), 2);
    memset(held, 0, sizeof held);
    begin();
    for (unsigned step = 0; step < test_scale(20000) && !test_failed(); step++) {
        struct ivs_range *range = &held[rng_below(&rng, 24)];
        unsigned from = (unsigned)rng_below(&rng, 48), to = from + 1 + (unsigned)rng_below(&rng, 48 - from) / 2;
        unsigned mode = rng_below(&rng, 2) ? IVS_SHARED : IVS_EXCLUSIVE, what = (unsigned)rng_below(&rng, 4);
        bool alone = true, free = true;
        if (range->lock && what == 0) {
            SAYS(ivs_range_downgrade(&lock, range), 0);
            for (uint64_t key = range->start; key < range->end; key++)
                if (keys[key] < 0) keys[key] = 1;
        } else if (range->lock && what == 1) {
            for (uint64_t key = range->start; key < range->end; key++) alone &= keys[key] == 1 || keys[key] == -1;
            SAYS(ivs_range_try_upgrade(&lock, range), alone ? 0 : IVS_EBUSY);
            for (uint64_t key = range->start; key < range->end && alone; key++) keys[key] = -1;
        } else if (range->lock) {
            for (uint64_t key = range->start; key < range->end; key++) keys[key] -= keys[key] < 0 ? -1 : 1;
            GIVES(*range);
        } else {
            for (unsigned key = from; key < to; key++) free &= mode == IVS_SHARED ? keys[key] >= 0 : keys[key] == 0;
            SAYS(ivs_range_trylock(&lock, range, from, to, mode), free ? 0 : IVS_EBUSY);
            for (unsigned key = from; key < to && free; key++) keys[key] += mode == IVS_SHARED ? 1 : -1;
        }
    }
    for (unsigned i = 0; i < 24; i++)
        if (held[i].lock) GIVES(held[i]);
    end();
}

TEST(range, downgrade_lets_shared_in_and_upgrade_needs_to_be_alone) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    for (int prepared = 0; prepared < 2; prepared++) {
        begin();
        if (prepared) SAYS(ivs_range_lock_prepare(&lock), 0);
        TAKES(a, 10, 20, IVS_EXCLUSIVE);
        SAYS(ivs_range_downgrade(&lock, &a), 0);
        SAYS(ivs_range_downgrade(&lock, &a), 0);
        SAYS(ivs_range_try_upgrade(&lock, &a), 0);
        SAYS(ivs_range_try_upgrade(&lock, &a), 0);
        SAYS(probe(15, 16, IVS_SHARED), IVS_EBUSY);
        SAYS(ivs_range_downgrade(&lock, &a), 0);
        TAKES(b, 15, 30, IVS_SHARED);
        SAYS(ivs_range_try_upgrade(&lock, &a), IVS_EBUSY);
        SAYS(ivs_range_try_upgrade(&lock, &b), IVS_EBUSY);
        GIVES(b);
        SAYS(ivs_range_try_upgrade(&lock, &a), 0); /* over two pieces by now */
        SAYS(probe(19, 20, IVS_SHARED), IVS_EBUSY);
        SAYS(probe(20, 30, IVS_EXCLUSIVE), 0);
        GIVES(a);
        end();
    }
}

TEST(range, a_set_is_taken_whole_or_not_at_all) {
    struct ivs_range set[4], other = IVS_RANGE_INIT;
    memset(set, 0, sizeof set);
    begin();
    for (unsigned i = 0; i < 4; i++) {
        set[i].start = 300 - 100 * i;
        set[i].end = set[i].start + 50;
        set[i].mode = IVS_EXCLUSIVE;
    }
    for (int twice = 0; twice < 2; twice++) {
        SAYS(ivs_range_lock_set(&lock, set, 4), 0);
        for (unsigned i = 0; i < 4; i++) SAYS(probe(100 * i + 49, 100 * i + 50, IVS_SHARED), IVS_EBUSY);
        for (unsigned i = 0; i < 4; i++) SAYS(probe(100 * i + 50, 100 * i + 100, IVS_EXCLUSIVE), 0);
        CHECK(set[0].start == 300 && set[3].start == 0, "the order of the array");
        SAYS(ivs_range_unlock_set(&lock, set, 4), 0);
    }
    set[1].start = 310; /* meets set[0] */
    set[1].end = 320;
    SAYS(ivs_range_lock_set(&lock, set, 4), IVS_EINVAL);
    set[0].mode = set[1].mode = IVS_SHARED;
    SAYS(ivs_range_lock_set(&lock, set, 4), 0);
    SAYS(ivs_range_unlock_set(&lock, set, 4), 0);
    set[2].end = set[2].start = 7; /* no range */
    SAYS(ivs_range_lock_set(&lock, set, 4), IVS_EINVAL);
    SAYS(ivs_range_lock_set(&lock, set, 0), 0);
    SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
    TAKES(other, 0, 0, IVS_EXCLUSIVE);
    GIVES(other);
    end();
}

TEST(range, a_set_leaves_what_the_caller_wrote_into_its_handles) {
    struct ivs_range set[2], other = IVS_RANGE_INIT;
    memset(set, 0, sizeof set);
    begin();
    TAKES(other, 0, 1, IVS_EXCLUSIVE);
    for (int twice = 0; twice < 2; twice++) {
        if (!twice) set[0].start = 10, set[0].end = 20, set[1].start = 30, set[1].end = 0;
        if (!twice) set[0].mode = set[1].mode = IVS_SHARED | IVS_NESTED;
        SAYS(ivs_range_lock_set(&lock, set, 2), 0);
        SAYS(ivs_range_unlock_set(&lock, set, 2), 0);
        for (int i = 0; i < 2; i++) CHECK(set[i].mode == (IVS_SHARED | IVS_NESTED), "mode %u", set[i].mode);
    }
    GIVES(other);
    end();
}

TEST(range, bad_arguments_are_answered) {
    struct ivs_range a = IVS_RANGE_INIT;
    begin();
    SAYS(ivs_range_lock(NULL, &a, 0, 1, IVS_SHARED), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, NULL, 0, 1, IVS_SHARED), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, &a, 1, 1, IVS_SHARED), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, &a, 2, 1, IVS_SHARED), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, &a, 0, 1, 0), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, &a, 0, 1, IVS_SHARED | IVS_EXCLUSIVE), IVS_EINVAL);
    SAYS(ivs_range_lock(&lock, &a, 0, 1, IVS_SHARED | 8), IVS_EINVAL);
    SAYS(ivs_range_lock_async(&lock, &a, 0, 1, IVS_SHARED, NULL), IVS_EINVAL);
    SAYS(ivs_range_unlock(NULL, &a), IVS_EINVAL);
    SAYS(ivs_range_unlock(&lock, NULL), IVS_EINVAL);
    SAYS(ivs_range_lock_set(&lock, NULL, 1), IVS_EINVAL);
    SAYS(ivs_range_lock_get_stats(&lock, NULL), IVS_EINVAL);
    SAYS(ivs_range_lock_dump(&lock, NULL, NULL), IVS_EINVAL);
    SAYS(ivs_range_lock_init(NULL, NULL), IVS_EINVAL);
    SAYS(ivs_range_lock_destroy(NULL), IVS_EINVAL);
    SAYS(ivs_range_lock_prepare(NULL), IVS_EINVAL);
    end();
}

TEST(range, a_wrong_release_changes_nothing) {
    for (int prepared = 0; prepared < 2; prepared++) {
        struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT, moved;
        struct ivs_range_lock other = IVS_RANGE_LOCK_INIT;
        begin();
        if (prepared) SAYS(ivs_range_lock_prepare(&lock), 0);
        SAYS(ivs_range_unlock(&lock, &a), IVS_EPERM); /* never held */
        TAKES(a, 10, 20, IVS_EXCLUSIVE);
        SAYS(ivs_range_lock(&lock, &a, 30, 40, IVS_SHARED), IVS_EPERM); /* in use */
        CHECK(a.start == 10 && a.end == 20, "the handle is as it was");
        SAYS(ivs_range_unlock(&other, &a), IVS_EPERM);
        moved = a;
        SAYS(ivs_range_unlock(&lock, &moved), IVS_EPERM);
        SAYS(ivs_range_downgrade(&lock, &moved), IVS_EPERM);
        a.end = 21;
        SAYS(ivs_range_unlock(&lock, &a), IVS_EPERM);
        a.end = 20;
        SAYS(ivs_range_cancel(&lock, &a), IVS_EPERM); /* no asynchronous request */
        SAYS(ivs_range_cancel(&lock, &b), IVS_EPERM); /* not in use */
        SAYS(probe(19, 20, IVS_SHARED), IVS_EBUSY);
        SAYS(ivs_range_lock_destroy(&lock), IVS_EBUSY);
        GIVES(a);
        SAYS(ivs_range_unlock(&lock, &a), IVS_EPERM); /* twice */
        TAKES(b, 10, 20, IVS_SHARED);
        SAYS(ivs_range_unlock(&lock, &a), IVS_EPERM);
        SAYS(probe(10, 20, IVS_EXCLUSIVE), IVS_EBUSY);
        GIVES(b);
        SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
        end();
    }
}

/* ---- waiting */

struct waiter {
    pthread_t thread;
    struct ivs_range range;
    uint64_t start, end, nanoseconds;
    unsigned mode;
    int result;
    atomic_int done, leave;
};

static void *waits(void *arg) {
    struct waiter *w = arg;
    rcu_block_begin();
    w->result = w->nanoseconds ? ivs_range_timedlock(&lock, &w->range, w->start, w->end, w->mode, w->nanoseconds)
                               : ivs_range_lock(&lock, &w->range, w->start, w->end, w->mode);
    rcu_block_end();
    atomic_store(&w->done, 1);
    while (!atomic_load(&w->leave)) sleep_ns(100000);
    if (w->result == 0) GIVES(w->range);
    return NULL;
}

static void waiter_begin(struct waiter *w, uint64_t start, uint64_t end_, unsigned mode, uint64_t nanoseconds) {
    memset(w, 0, sizeof *w);
    w->start = start;
    w->end = end_;
    w->mode = mode;
    w->nanoseconds = nanoseconds;
    CHECK(!pthread_create(&w->thread, NULL, waits, w), "thread");
}

static void until_waiting(uint64_t count) {
    struct ivs_range_stats stats = {0};
    while (stats.waiting != count && !test_failed()) {
        CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        if (stats.waiting != count) sleep_ns(100000);
    }
}

static void until_done(struct waiter *w) {
    while (!atomic_load(&w->done)) sleep_ns(100000);
}

static void waiter_end(struct waiter *w) {
    atomic_store(&w->leave, 1);
    pthread_join(w->thread, NULL);
}

TEST(range, a_release_wakes_who_waits_for_it) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct waiter w;
    for (int shared = 0; shared < 2; shared++) {
        begin();
        TAKES(a, 10, 20, shared ? IVS_SHARED : IVS_EXCLUSIVE);
        if (shared) TAKES(b, 15, 30, IVS_SHARED);
        waiter_begin(&w, 19, 40, IVS_EXCLUSIVE, 0);
        until_waiting(1);
        GIVES(a);
        if (shared) GIVES(b);
        until_done(&w);
        SAYS(probe(39, 40, IVS_SHARED), IVS_EBUSY);
        waiter_end(&w);
        end();
    }
}

TEST(range, a_downgrade_wakes_the_shared_ones_only) {
    struct ivs_range a = IVS_RANGE_INIT;
    struct waiter shared, alone;
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    waiter_begin(&shared, 10, 12, IVS_SHARED, 0);
    until_waiting(1);
    waiter_begin(&alone, 15, 18, IVS_EXCLUSIVE, 0);
    until_waiting(2);
    SAYS(ivs_range_downgrade(&lock, &a), 0);
    until_done(&shared);
    until_waiting(1);
    CHECK(!atomic_load(&alone.done), "exclusive beside shared");
    waiter_end(&shared);
    GIVES(a);
    until_done(&alone);
    waiter_end(&alone);
    end();
}

TEST(range, a_wait_that_ends_by_time_leaves_nothing_behind) {
    struct ivs_range a = IVS_RANGE_INIT;
    struct waiter w;
    begin();
    TAKES(a, 10, 20, IVS_SHARED);
    waiter_begin(&w, 0, 0, IVS_EXCLUSIVE, 3000000);
    until_done(&w);
    CHECK(w.result == IVS_ETIMEDOUT, "%d", w.result);
    until_waiting(0);
    SAYS(probe(10, 20, IVS_SHARED), 0); /* nobody bars */
    SAYS(probe(30, 40, IVS_EXCLUSIVE), 0);
    waiter_end(&w);
    GIVES(a);
    waiter_begin(&w, 10, 20, IVS_EXCLUSIVE, 1000000000);
    until_done(&w);
    CHECK(w.result == 0, "%d", w.result);
    waiter_end(&w);
    end();
}

TEST(range, who_waits_first_goes_first) {
    struct ivs_range a = IVS_RANGE_INIT;
    struct waiter w[8];
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    for (unsigned i = 0; i < 8; i++) {
        waiter_begin(&w[i], 10, 20, IVS_EXCLUSIVE, 0);
        until_waiting(i + 1);
    }
    GIVES(a);
    for (unsigned i = 0; i < 8; i++) {
        until_done(&w[i]);
        for (unsigned k = i + 1; k < 8; k++) CHECK(!atomic_load(&w[k].done), "%u before %u", k, i);
        waiter_end(&w[i]);
    }
    struct ivs_range_stats stats = {0};
    CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    CHECK(stats.waits == 8 && stats.wakes == 8 && stats.false_wakes == 0, "%u waits, %u wakes, %u in vain",
          (unsigned)stats.waits, (unsigned)stats.wakes, (unsigned)stats.false_wakes);
    CHECK(stats.longest_wait > 0, "longest wait");
    end();
}

TEST(range, who_waits_bars_shared_newcomers) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct waiter w;
    begin();
    TAKES(a, 10, 20, IVS_SHARED);
    waiter_begin(&w, 0, 100, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    SAYS(probe(10, 20, IVS_SHARED), IVS_EBUSY);
    SAYS(probe(50, 60, IVS_SHARED), IVS_EBUSY);
    SAYS(probe(100, 0, IVS_SHARED), 0);
    SAYS(ivs_range_trylock(&lock, &b, 50, 60, IVS_SHARED | IVS_NESTED), 0); /* we hold [10, 20) */
    GIVES(b);
    GIVES(a);
    until_done(&w);
    waiter_end(&w);
    end();
}

/* Who waited first for one thing takes nothing from those who wait for another. */
TEST(range, each_who_waits_bars_those_whom_it_conflicts_with) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct waiter w[3];
    const uint64_t from[] = {300, 0, 100}, to[] = {400, 80, 200};
    begin();
    TAKES(a, 10, 20, IVS_SHARED);
    TAKES(b, 110, 320, IVS_SHARED);
    for (unsigned i = 0; i < 3; i++) {
        waiter_begin(&w[i], from[i], to[i], IVS_EXCLUSIVE, 0);
        until_waiting(i + 1);
    }
    for (unsigned i = 0; i < 3; i++) SAYS(probe(to[i] - 5, to[i] - 4, IVS_SHARED), IVS_EBUSY);
    SAYS(probe(90, 95, IVS_SHARED), 0);
    SAYS(probe(250, 260, IVS_SHARED), 0);
    SAYS(probe(0, 5, IVS_EXCLUSIVE), 0); /* nobody was woken in vain */
    GIVES(a);
    until_done(&w[1]);
    GIVES(b);
    for (unsigned i = 0; i < 3; i++) {
        until_done(&w[i]);
        waiter_end(&w[i]);
    }
    end();
}

TEST(range, who_was_woken_in_vain_bars_all_newcomers) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct waiter w;
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    TAKES(b, 30, 40, IVS_EXCLUSIVE);
    waiter_begin(&w, 0, 100, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    SAYS(probe(50, 60, IVS_EXCLUSIVE), 0);
    GIVES(a); /* it wakes, and finds b */
    struct ivs_range_stats stats = {0};
    while (stats.false_wakes == 0 && !test_failed()) CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    SAYS(probe(50, 60, IVS_EXCLUSIVE), IVS_EBUSY);
    SAYS(probe(100, 110, IVS_EXCLUSIVE), 0);
    GIVES(b);
    until_done(&w);
    waiter_end(&w);
    end();
}

TEST(range, nested_requests_queue_behind_those_who_cannot_wait_for_them) {
    struct ivs_range a = IVS_RANGE_INIT, below = IVS_RANGE_INIT, inside = IVS_RANGE_INIT, more = IVS_RANGE_INIT;
    struct waiter w;
    begin();
    TAKES(a, 40, 50, IVS_SHARED);
    waiter_begin(&w, 20, 100, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    TAKES(below, 0, 10, IVS_EXCLUSIVE);
    more.held_end = 10;
    SAYS(ivs_range_trylock(&lock, &more, 60, 70, IVS_SHARED | IVS_NESTED), IVS_EBUSY);
    SAYS(ivs_range_trylock(&lock, &more, 10, 25, IVS_SHARED | IVS_NESTED), IVS_EBUSY);
    more.held_end = 50; /* we hold [40, 50) */
    SAYS(ivs_range_trylock(&lock, &more, 60, 70, IVS_SHARED | IVS_NESTED), 0);
    CHECK(more.mode == (IVS_SHARED | IVS_NESTED), "mode %u", more.mode);
    GIVES(more);
    more.held_end = 0; /* above all that we hold */
    SAYS(ivs_range_trylock(&lock, &more, 60, 70, IVS_SHARED | IVS_NESTED), 0);
    SAYS(ivs_range_trylock(&lock, &inside, 15, 25, IVS_SHARED | IVS_NESTED), IVS_EBUSY);
    GIVES(more);
    GIVES(below);
    GIVES(a);
    until_done(&w);
    waiter_end(&w);
    end();
}

static void *takes_sets(void *arg) {
    struct ivs_range set[2];
    atomic_int *stop = arg;
    memset(set, 0, sizeof set);
    rcu_block_begin();
    while (!atomic_load(stop)) {
        for (unsigned i = 0; i < 2; i++) {
            set[i].start = 10 + 50 * i;
            set[i].end = set[i].start + 5;
            set[i].mode = IVS_SHARED;
        }
        SAYS(ivs_range_lock_set(&lock, set, 2), 0);
        sleep_ns(200000);
        SAYS(ivs_range_unlock_set(&lock, set, 2), 0);
    }
    rcu_block_end();
    return NULL;
}

/* Two threads hold, in turns, the second range of their sets at all times; who waits for it has its turn. */
TEST(range, a_stream_of_sets_keeps_nobody_waiting) {
    struct ivs_range alone = IVS_RANGE_INIT;
    pthread_t threads[3];
    atomic_int stop = 0;
    begin();
    for (unsigned i = 0; i < 3; i++) CHECK(!pthread_create(&threads[i], NULL, takes_sets, &stop), "thread");
    rcu_block_begin();
    for (unsigned i = 0; i < 50 && !test_failed(); i++) {
        SAYS(ivs_range_timedlock(&lock, &alone, 40, 100, IVS_EXCLUSIVE, UINT64_C(20000000000)), 0);
        if (alone.lock) GIVES(alone);
    }
    rcu_block_end();
    atomic_store(&stop, 1);
    for (unsigned i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    end();
}

/* Deadlock if the nested one stood behind who waits for one who waits for its owner. */
TEST(range, a_nested_request_passes_by_who_waits_for_its_owner_over_others) {
    struct ivs_range t = IVS_RANGE_INIT, more = IVS_RANGE_INIT;
    struct waiter first, second;
    begin();
    TAKES(t, 10, 11, IVS_EXCLUSIVE);
    waiter_begin(&first, 0, 100, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    waiter_begin(&second, 50, 200, IVS_SHARED, 0); /* behind the first */
    until_waiting(2);
    SAYS(ivs_range_timedlock(&lock, &more, 150, 160, IVS_EXCLUSIVE | IVS_NESTED, UINT64_C(20000000000)), 0);
    GIVES(more);
    GIVES(t);
    until_done(&first);
    waiter_end(&first);
    until_done(&second);
    waiter_end(&second);
    end();
}

TEST(range, a_handle_that_is_in_use_is_not_used_again) {
    struct ivs_range a = IVS_RANGE_INIT;
    struct waiter w;
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    a.mode = IVS_SHARED;
    SAYS(ivs_range_unlock(&lock, &a), IVS_EPERM);
    SAYS(probe(10, 20, IVS_SHARED), IVS_EBUSY);
    a.mode = IVS_EXCLUSIVE;
    waiter_begin(&w, 15, 16, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    SAYS(ivs_range_trylock(&lock, &w.range, 30, 40, IVS_EXCLUSIVE), IVS_EPERM);
    SAYS(ivs_range_unlock(&lock, &w.range), IVS_EPERM);
    GIVES(a);
    until_done(&w);
    waiter_end(&w);
    end();
}

/* ---- pieces */

/* Short ranges cut a long shared one; what they leave is joined again. */
TEST(range, a_long_shared_range_does_not_stay_in_pieces) {
    struct ivs_range across = IVS_RANGE_INIT, brief = IVS_RANGE_INIT, other = IVS_RANGE_INIT;
    struct ivs_range_stats stats = {0};
    struct rng rng = rng_make(test_seed(), 3);
    uint64_t most = 0;
    begin();
    TAKES(across, 0, 1 << 30, IVS_SHARED);
    TAKES(other, 1000, 1 << 20, IVS_SHARED);
    for (unsigned i = 0; i < test_scale(50000) && !test_failed(); i++) {
        uint64_t start = rng_below(&rng, 1 << 29);
        TAKES(brief, start, start + 1 + rng_below(&rng, 100), IVS_SHARED);
        GIVES(brief);
        if (i % 1000 == 999) CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
        if (stats.held > most) most = stats.held;
    }
    CHECK(most < 100, "%u pieces", (unsigned)most);
    SAYS(probe(1 << 29, (1 << 29) + 1, IVS_EXCLUSIVE), IVS_EBUSY);
    GIVES(across);
    SAYS(probe(999, 1001, IVS_EXCLUSIVE), IVS_EBUSY);
    SAYS(probe(1 << 20, 1 << 29, IVS_EXCLUSIVE), 0);
    GIVES(other);
    SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
    CHECK(!ivs_range_lock_get_stats(&lock, &stats), "stats");
    CHECK(stats.cached < 200, "%u are kept", (unsigned)stats.cached);
    end();
}

/* ---- callbacks */

static struct { atomic_int calls, result; } told;

static void tell(struct ivs_range *range, int result) {
    (void)range;
    atomic_store(&told.result, result);
    atomic_fetch_add(&told.calls, 1);
}

static void tell_and_release(struct ivs_range *range, int result) {
    tell(range, result);
    GIVES(*range);
}

TEST(range, an_asynchronous_request_is_answered_once) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT, many[20];
    begin();
    atomic_store(&told.calls, 0);
    SAYS(ivs_range_lock_async(&lock, &a, 10, 20, IVS_EXCLUSIVE, tell), 0);
    SAYS(ivs_range_lock_async(&lock, &b, 15, 30, IVS_EXCLUSIVE, tell), IVS_EINPROGRESS);
    CHECK(atomic_load(&told.calls) == 0, "called too early");
    SAYS(ivs_range_unlock(&lock, &b), IVS_EPERM); /* not yet */
    GIVES(a);
    CHECK(atomic_load(&told.calls) == 1 && atomic_load(&told.result) == 0, "not called");
    SAYS(ivs_range_cancel(&lock, &b), IVS_EBUSY);
    SAYS(probe(29, 30, IVS_SHARED), IVS_EBUSY);
    memset(many, 0, sizeof many);
    for (int i = 0; i < 20; i++)
        SAYS(ivs_range_lock_async(&lock, &many[i], 0, 0, i % 3 ? IVS_EXCLUSIVE : IVS_SHARED, tell_and_release),
             IVS_EINPROGRESS);
    until_waiting(20);
    GIVES(b);
    CHECK(atomic_load(&told.calls) == 21, "%d calls", atomic_load(&told.calls));
    end();
}

TEST(range, a_cancelled_request_leaves_nothing_behind) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT, c = IVS_RANGE_INIT;
    begin();
    atomic_store(&told.calls, 0);
    TAKES(a, 10, 20, IVS_SHARED);
    SAYS(ivs_range_lock_async(&lock, &b, 0, 100, IVS_EXCLUSIVE, tell), IVS_EINPROGRESS);
    SAYS(ivs_range_lock_async(&lock, &c, 50, 60, IVS_SHARED, tell), IVS_EINPROGRESS); /* barred */
    SAYS(ivs_range_cancel(&lock, &b), 0);
    CHECK(atomic_load(&told.calls) == 1, "the barred one is free: %d", atomic_load(&told.calls));
    SAYS(ivs_range_cancel(&lock, &b), IVS_EBUSY);
    GIVES(c);
    GIVES(a);
    CHECK(atomic_load(&told.calls) == 1, "%d calls", atomic_load(&told.calls));
    end();
}

static struct ivs_range queue[40000];
static unsigned asked, order_broken;

static void next_in_order(struct ivs_range *range, int result) {
    CHECK(result == 0, "%d", result);
    if (range != &queue[asked++]) order_broken++;
    GIVES(*range);
}

static void *lets_all_in(void *arg) {
    GIVES(*(struct ivs_range *)arg);
    return NULL;
}

/* On a small stack: a callback that lets the next one in does not call it. */
TEST(range, callbacks_run_in_order_and_not_inside_each_other) {
    struct ivs_range a = IVS_RANGE_INIT;
    pthread_attr_t small;
    pthread_t thread;
    unsigned count = test_scale(40000);
    if (count > 40000) count = 40000;
    memset(queue, 0, sizeof queue);
    asked = order_broken = 0;
    begin();
    TAKES(a, 0, 10, IVS_EXCLUSIVE);
    for (unsigned i = 0; i < count; i++)
        SAYS(ivs_range_lock_async(&lock, &queue[i], 5, 6, IVS_EXCLUSIVE, next_in_order), IVS_EINPROGRESS);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    CHECK(!pthread_create(&thread, &small, lets_all_in, &a), "thread");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    CHECK(asked == count && order_broken == 0, "%u of %u answered, %u out of turn", asked, count, order_broken);
    end();
}

static struct ivs_range regretted;
static int regret, ending;

static void regrets(struct ivs_range *range, int result) {
    tell(range, result);
    regret = ivs_range_cancel(&lock, &regretted);
    ending = ivs_range_lock_destroy(&lock);
}

TEST(range, a_request_that_was_let_in_can_be_cancelled_until_it_is_answered) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    memset(&regretted, 0, sizeof regretted);
    atomic_store(&told.calls, 0);
    begin();
    TAKES(a, 10, 20, IVS_EXCLUSIVE);
    SAYS(ivs_range_lock_async(&lock, &b, 12, 13, IVS_SHARED, regrets), IVS_EINPROGRESS);
    SAYS(ivs_range_lock_async(&lock, &regretted, 12, 13, IVS_SHARED, tell), IVS_EINPROGRESS);
    GIVES(a); /* both are let in; the first takes the second back */
    SAYS(regret, 0);
    SAYS(ending, IVS_EDEADLK); /* not in a callback */
    CHECK(atomic_load(&told.calls) == 1 && !regretted.lock, "%d calls", atomic_load(&told.calls));
    GIVES(b);
    SAYS(probe(12, 13, IVS_EXCLUSIVE), 0);
    end();
}

/* ---- memory */

TEST(range, who_holds_alone_needs_no_memory) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    long live = test_host_live();
    begin();
    TAKES(a, 0, 100, IVS_EXCLUSIVE);
    CHECK(test_host_live() == live, "it allocated");
    test_host_refuse(true);
    SAYS(ivs_range_lock(&lock, &b, 200, 300, IVS_SHARED), IVS_ENOMEM);
    SAYS(ivs_range_unlock(&lock, &b), IVS_EPERM);
    GIVES(a);
    TAKES(a, 50, 60, IVS_SHARED);
    SAYS(ivs_range_lock(&lock, &b, 55, 70, IVS_SHARED), IVS_ENOMEM);
    GIVES(a);
    test_host_refuse(false);
    SAYS(probe(0, 0, IVS_EXCLUSIVE), 0);
    SAYS(ivs_range_lock_prepare(&lock), 0);
    TAKES(a, 0, 100, IVS_SHARED);
    test_host_refuse(true);
    SAYS(ivs_range_lock(&lock, &b, 50, 200, IVS_SHARED), IVS_ENOMEM);
    GIVES(a);
    SAYS(probe(0, 100, IVS_EXCLUSIVE), 0); /* the piece is still there */
    test_host_refuse(false);
    end();
    CHECK(test_host_live() <= live + 1, "%ld blocks stay", test_host_live() - live); /* a thread's record, if any */
}

TEST(range, storage_of_the_caller_serves_where_there_is_no_memory) {
    static struct { _Alignas(8) unsigned char bytes[IVSKIP_RANGE_STORAGE]; } room[2];
    struct ivs_range far = IVS_RANGE_INIT, a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    const unsigned modes[] = {IVS_SHARED, IVS_EXCLUSIVE};
    begin();
    SAYS(ivs_range_lock_prepare(&lock), 0);
    test_host_refuse(true);
    SAYS(ivs_range_lock_prepare(&lock), 0); /* done before */
    test_host_refuse(false);
    TAKES(far, 0, 1, IVS_EXCLUSIVE);
    for (int m = 0; m < 2; m++) {
        a.storage = &room[0];
        test_host_refuse(true);
        TAKES(a, 10, 20, modes[m]);
        CHECK(a.borrowed == 1, "the storage is in use");
        SAYS(ivs_range_lock(&lock, &b, 30, 40, IVS_EXCLUSIVE), IVS_ENOMEM);
        SAYS(probe(19, 20, IVS_EXCLUSIVE), IVS_EBUSY);
        GIVES(a);
        SAYS(ivs_range_lock(&lock, &a, 30, 40, IVS_EXCLUSIVE), IVS_ENOMEM); /* not used twice before a grace period */
        test_host_refuse(false);
        SAYS(ivs_range_lock_barrier(&lock), 0);
        memset(&room[0], 0xee, sizeof room[0]);
        a.borrowed = 0;
        SAYS(probe(0, 0, IVS_SHARED), IVS_EBUSY);
        SAYS(probe(1, 0, IVS_EXCLUSIVE), 0);
    }
    for (int down = 0; down < 2; down++) { /* others share a part: the storage goes with its holder all the same */
        SAYS(probe(1, 0, IVS_EXCLUSIVE), 0);
        test_host_refuse(true);
        TAKES(a, 10, 20, down ? IVS_EXCLUSIVE : IVS_SHARED);
        CHECK(a.borrowed == 1, "the storage is in use");
        test_host_refuse(false);
        if (down) SAYS(ivs_range_downgrade(&lock, &a), 0);
        TAKES(b, down ? 15 : 10, 20, IVS_SHARED);
        GIVES(a);
        SAYS(ivs_range_lock_barrier(&lock), 0);
        memset(&room[0], 0xee, sizeof room[0]);
        a.borrowed = 0;
        SAYS(probe(19, 20, IVS_EXCLUSIVE), IVS_EBUSY);
        SAYS(probe(10, 11, IVS_EXCLUSIVE), down ? 0 : IVS_EBUSY);
        GIVES(b);
    }
    GIVES(far);
    end();
}

TEST(range, locks_may_share_a_domain) {
    struct ivs_domain domain;
    struct ivs_domain_config config = {NULL, NULL, IVSKIP_RANGE_PAYLOAD, 1}, wrong = {NULL, NULL, 8, 1};
    struct ivs_range_lock many[10];
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    if (!CHECK(!ivs_domain_init(&domain, &wrong), "domain")) return;
    SAYS(ivs_range_lock_init(&many[0], &domain), IVS_EINVAL);
    SAYS(ivs_domain_destroy(&domain), 0);
    if (!CHECK(!ivs_domain_init(&domain, &config), "domain")) return;
    for (int i = 0; i < 10; i++) {
        SAYS(ivs_range_lock_init(&many[i], &domain), 0);
        SAYS(ivs_range_lock(&many[i], &a, 0, 10, IVS_EXCLUSIVE), 0);
        SAYS(ivs_range_lock(&many[i], &b, 10, 0, IVS_EXCLUSIVE), 0);
        SAYS(ivs_range_unlock(&many[i], &a), 0);
        SAYS(ivs_range_unlock(&many[i], &b), 0);
    }
    for (int i = 0; i < 10; i++) SAYS(ivs_range_lock_destroy(&many[i]), 0);
    SAYS(ivs_domain_destroy(&domain), 0);
}

/* ---- fork, dump */

TEST(range, a_forked_child_begins_with_an_idle_lock) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT;
    struct waiter w;
    if (!RCU_FORKS_WITH_THREADS) return;
    begin();
    TAKES(a, 0, 100, IVS_EXCLUSIVE);
    waiter_begin(&w, 50, 200, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    pid_t child = rcu_fork();
    if (child == 0) {
        int status = 0, result = ivs_range_lock_reset_after_fork(&lock);
        if (result) _exit(1);
        if (probe(0, 0, IVS_EXCLUSIVE)) status = 2;
        if (ivs_range_lock(&lock, &b, 50, 60, IVS_SHARED)) status = 3;
        if (ivs_range_unlock(&lock, &b)) status = 4;
        _exit(status);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child: %d", status);
    GIVES(a);
    until_done(&w);
    waiter_end(&w);
    end();
}

static void collect(void *ctx, const char *text) { strncat(ctx, text, 1000 - strlen(ctx)); }

TEST(range, a_dump_names_holders_and_waiters) {
    struct ivs_range a = IVS_RANGE_INIT, b = IVS_RANGE_INIT, c = IVS_RANGE_INIT;
    struct waiter w;
    char text[1024] = "";
    begin();
    a.owner = b.owner = c.owner = 7;
    TAKES(a, 0x10, 0x20, IVS_EXCLUSIVE);
    SAYS(ivs_range_lock_dump(&lock, collect, text), 0);
    CHECK(!strcmp(text, "held [0x10, 0x20) exclusive owner 0x7\n"), "%s", text);
    TAKES(b, 0x20, 0x40, IVS_SHARED);
    TAKES(c, 0x30, 0, IVS_SHARED);
    waiter_begin(&w, 0x15, 0x35, IVS_EXCLUSIVE, 0);
    until_waiting(1);
    text[0] = 0;
    SAYS(ivs_range_lock_dump(&lock, collect, text), 0);
    CHECK(strstr(text, "held [0x10, 0x20) exclusive owner 0x7, waited for\nheld [0x20, 0x30) shared by 1\n"
                       "held [0x30, 0x40) shared by 2\nheld [0x40, 2^64) shared by 1\n"
                       "waits [0x15, 0x35) exclusive owner "),
          "%s", text);
    CHECK(strstr(text, " for [0x10, 0x20)\n"), "%s", text);
    GIVES(a);
    GIVES(b);
    GIVES(c);
    until_done(&w);
    waiter_end(&w);
    end();
}

#if RCU_TELLS_SECTIONS

/* A request that is refused since its thread is in a read section leaves the one who holds alone where he was. */
TEST(range, a_request_in_a_read_section_is_refused_and_the_holder_stays) {
    struct ivs_domain_config config = {.payload_size = IVSKIP_RANGE_PAYLOAD};
    struct ivs_domain domain;
    struct ivs_range_lock lock;
    struct ivs_range holds = IVS_RANGE_INIT, asks = IVS_RANGE_INIT;
    if (!CHECK(!ivs_domain_init(&domain, &config), "init")) return;
    CHECK(!ivs_range_lock_init(&lock, &domain), "init of the lock");
    CHECK(!ivs_range_lock(&lock, &holds, 0, 100, IVS_EXCLUSIVE), "lock");
    ivs_domain_read_enter(&domain);
    CHECK(ivs_range_trylock(&lock, &asks, 200, 300, IVS_EXCLUSIVE) == IVS_EDEADLK, "trylock in a section");
    CHECK(ivs_range_lock_prepare(&lock) == IVS_EDEADLK, "prepare in a section");
    ivs_domain_read_exit(&domain);
    CHECK(ivs_range_trylock(&lock, &asks, 0, 100, IVS_EXCLUSIVE) == IVS_EBUSY, "the holder was forgotten");
    CHECK(!ivs_range_trylock(&lock, &asks, 200, 300, IVS_EXCLUSIVE), "another range");
    CHECK(!ivs_range_unlock(&lock, &asks) && !ivs_range_unlock(&lock, &holds), "unlock");
    CHECK(!ivs_range_lock_destroy(&lock), "destroy");
    CHECK(!ivs_domain_destroy(&domain), "destroy of the domain");
}

#endif
