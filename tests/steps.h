/* SPDX-License-Identifier: MIT */
/*
 * Stopping a thread between any two of its atomic accesses, and plays: two threads, one of which is stopped at each
 * of its steps in turn while the other runs as far as it gets. For binaries built with step_atomics.h.
 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

#include "support.h"

#include <pthread.h>

/* A thread that stops before its access number `stop_at` (from 0) and waits to be let go; -1: never stops. */
struct stepper {
    void (*body)(void *arg);
    void *arg;
    long stop_at;
    pthread_t thread;
    atomic_long steps;   /* accesses so far */
    atomic_bool stopped; /* it stands at stop_at */
    atomic_bool asleep;  /* it sleeps for a link */
    atomic_bool done;
    atomic_bool go;
};

void stepper_start(struct stepper *stepper, void (*body)(void *arg), void *arg, long stop_at);
bool stepper_halts(
    struct stepper *stepper);               /* waits until it stopped (true), or is done or sleeps for a link (false) */
bool stepper_ends(struct stepper *stepper); /* waits until it is done (true) or sleeps for a link (false) */
bool stepper_ends_within(struct stepper *stepper, uint64_t nanoseconds); /* false: not done by then */
void stepper_let_go(struct stepper *stepper);
void stepper_join(struct stepper *stepper);

/*
 * A play: `prepare` fills a new map; `a` and `b` run, one of them stopped at each of its steps in turn while the
 * other runs until it is done or sleeps; then the first is let go. Both roles. `finish` looks at the outcome of each
 * run; the map is validated as well. Returns the number of runs.
 */
struct play {
    const char *name;
    void (*prepare)(struct ivs_map *map);
    void (*a)(struct ivs_map *map);
    void (*b)(struct ivs_map *map);
    void (*finish)(struct ivs_map *map);
};
unsigned play_all(const struct play *play);

#endif
