/* SPDX-License-Identifier: MIT */
/*
 * The conformance self-test of a port: conform.c asks a host for what stands here, and nothing else of the world.
 *
 *     struct conform_host host = {...};
 *     unsigned failures = conform_run(&host);
 *
 * It prints a line for each check, `ok NAME`, `FAIL NAME: what`, or `skip NAME` where the host has not what the check
 * needs, and then `conform: N passed, M failed`.
 *
 * Once in a program. The checks of the hooks come first; after the first that fails the rest is not run, for it might
 * not end.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFORM_MAX_CPUS = 8 };

struct conform_host {
    void *ctx;     /* handed to all functions */
    unsigned cpus; /* that run_all uses, 1..CONFORM_MAX_CPUS; with 1 there is nobody to disagree with */
    /* A call that waits is answered -EDEADLK inside a read section: RCU_HELD is there, and can tell. */
    bool knows_sections;

    void (*print)(void *ctx, const char *text); /* from the caller of conform_run only */
    /* Runs fn(arg, cpu) for cpu = 0..cpus - 1, all at the same time, and waits for all. */
    void (*run_all)(void *ctx, void (*fn)(void *arg, unsigned cpu), void *arg);
    void (*relax)(void *ctx);   /* one step of a busy wait, in or outside a read section; lets others go on */
    void (*idle)(void *ctx);    /* the same, outside a read section: where a port wants quiescent states announced */
    uint64_t (*now)(void *ctx); /* monotonic nanoseconds; with IVSKIP_RCU=HOST the same clock as the hook */

    void (*allocator_up)(void *ctx); /* called once; before it, alloc is not called. NULL: it is up already */
    void *(*alloc)(void *ctx, size_t bytes);
    void (*free)(void *ctx, void *memory, size_t bytes); /* with the size that was asked for */

    /* From now on fn() runs in an interrupt handler, often, on every processor; NULL: no more. NULL hook: there are no
     * interrupts in which ENTER and EXIT may be used. */
    void (*each_tick)(void *ctx, void (*fn)(void));
};

/* Returns the number of checks that failed. */
unsigned conform_run(const struct conform_host *host);

#endif
