/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "steps.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local struct stepper *self;

void step_point(void) {
    struct stepper *me = self;
    if (!me) return;
    if (atomic_fetch_add_explicit(&me->steps, 1, memory_order_relaxed) != me->stop_at) return;
    atomic_store(&me->stopped, true);
    while (!atomic_load(&me->go)) sleep_ns(20000);
}

void step_sleep(uint32_t *word, uint32_t ticket, uint64_t deadline) {
    struct stepper *me = self;
    struct timespec until = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    if (me) atomic_store(&me->asleep, true);
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, ticket, deadline == UINT64_MAX ? NULL : &until, NULL,
                  FUTEX_BITSET_MATCH_ANY);
    if (me) atomic_store(&me->asleep, false);
}

void step_wake(uint32_t *word) { (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0); }

static void *stepper_run(void *arg) {
    struct stepper *stepper = arg;
    self = stepper;
    stepper->body(stepper->arg);
    self = NULL;
    atomic_store(&stepper->done, true);
    return NULL;
}

void stepper_start(struct stepper *stepper, void (*body)(void *arg), void *arg, long stop_at) {
    stepper->body = body;
    stepper->arg = arg;
    stepper->stop_at = stop_at;
    atomic_init(&stepper->steps, 0);
    atomic_init(&stepper->stopped, false);
    atomic_init(&stepper->asleep, false);
    atomic_init(&stepper->done, false);
    atomic_init(&stepper->go, false);
    if (pthread_create(&stepper->thread, NULL, stepper_run, stepper)) CHECK(false, "no thread");
}

/* Looks again and again, politely. */
static void pause_a_bit(unsigned *turns) {
    if (++*turns > 50) sleep_ns(20000);
    else sched_yield();
}

bool stepper_halts(struct stepper *stepper) {
    for (unsigned turns = 0;; pause_a_bit(&turns)) {
        if (atomic_load(&stepper->stopped)) return true;
        if (atomic_load(&stepper->done) || atomic_load(&stepper->asleep)) return false;
    }
}

bool stepper_ends(struct stepper *stepper) {
    for (unsigned turns = 0;; pause_a_bit(&turns)) {
        if (atomic_load(&stepper->done)) return true;
        if (atomic_load(&stepper->asleep)) return false;
    }
}

bool stepper_ends_within(struct stepper *stepper, uint64_t nanoseconds) {
    uint64_t until = now_ns() + nanoseconds;
    for (unsigned turns = 0; !atomic_load(&stepper->done); pause_a_bit(&turns))
        if (now_ns() > until) return false;
    return true;
}

void stepper_let_go(struct stepper *stepper) { atomic_store(&stepper->go, true); }

void stepper_join(struct stepper *stepper) { (void)pthread_join(stepper->thread, NULL); }

/* ---- plays */

struct role {
    void (*body)(struct ivs_map *map);
    struct ivs_map *map;
};

static void run_role(void *arg) {
    struct role *role = arg;
    role->body(role->map);
}

/* One run: `first` stops at step `at`; false: it never came so far. */
static bool play_once(const struct play *play, struct role first, struct role second, long at) {
    static struct ivs_map map;
    struct stepper stops, runs;
    int r = ivs_map_init(&map, NULL);
    if (!CHECK(r == 0, "init %d", r)) return false;
    play->prepare(&map);
    first.map = second.map = &map;
    stepper_start(&stops, run_role, &first, at);
    (void)stepper_halts(&stops);
    stepper_start(&runs, run_role, &second, -1);
    (void)stepper_ends(&runs);
    stepper_let_go(&stops);
    if (!CHECK(stepper_ends_within(&stops, 20000000000u) && stepper_ends_within(&runs, 20000000000u),
               "%s: a thread sleeps for ever after a stop at step %ld", play->name, at))
        exit(1);
    stepper_join(&stops);
    stepper_join(&runs);
    if (!map_is_valid(&map, play->name)) fprintf(stderr, "%s: stopped at step %ld\n", play->name, at);
    play->finish(&map);
    r = ivs_map_destroy(&map);
    CHECK(r == 0, "destroy %d", r);
    return atomic_load(&stops.stopped);
}

unsigned play_all(const struct play *play) {
    struct role a = {play->a, NULL}, b = {play->b, NULL};
    unsigned runs = 0;
    for (long at = 0; play_once(play, a, b, at) && !test_failed(); at++) runs++;
    for (long at = 0; play_once(play, b, a, at) && !test_failed(); at++) runs++;
    if (test_failed()) fprintf(stderr, "play %s failed in run %u\n", play->name, runs);
    return runs;
}
