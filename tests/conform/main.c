/* SPDX-License-Identifier: MIT */
/* The conformance self-test in userspace: a thread for each processor, with any IVSKIP_RCU. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What liburcu's flavours want of a thread that uses them. */
#if IVS_RCU_IS_(URCU_MEMB)
#define THREAD_BEGIN() urcu_memb_register_thread()
#define THREAD_END()   urcu_memb_unregister_thread()
#define QUIESCENT()    ((void)0)
#elif IVS_RCU_IS_(URCU_QSBR)
#define THREAD_BEGIN() urcu_qsbr_register_thread()
#define THREAD_END()   urcu_qsbr_unregister_thread()
#define QUIESCENT()    urcu_qsbr_quiescent_state()
#elif IVS_RCU_IS_(URCU_BP)
#define THREAD_BEGIN() urcu_bp_register_thread()
#define THREAD_END()   urcu_bp_unregister_thread()
#define QUIESCENT()    ((void)0)
#else
#define THREAD_BEGIN() ((void)0)
#define THREAD_END()   ((void)0)
#define QUIESCENT()    ((void)0)
#endif

struct job {
    void (*fn)(void *arg, unsigned cpu);
    void *arg;
    unsigned cpu;
};

static unsigned cpus_;

static void print(void *ctx, const char *text) {
    (void)ctx;
    fputs(text, stdout);
    fflush(stdout);
}

static void *thread_main(void *arg) {
    struct job *job = (struct job *)arg;
    THREAD_BEGIN();
    job->fn(job->arg, job->cpu);
    THREAD_END();
    return NULL;
}

static void run_all(void *ctx, void (*fn)(void *arg, unsigned cpu), void *arg) {
    struct job jobs[CONFORM_MAX_CPUS];
    pthread_t threads[CONFORM_MAX_CPUS];
    (void)ctx;
    THREAD_END(); /* who waits for threads is no reader meanwhile */
    for (unsigned cpu = 0; cpu < cpus_; cpu++) {
        jobs[cpu] = (struct job){fn, arg, cpu};
        if (pthread_create(&threads[cpu], NULL, thread_main, &jobs[cpu])) abort();
    }
    for (unsigned cpu = 0; cpu < cpus_; cpu++) pthread_join(threads[cpu], NULL);
    THREAD_BEGIN();
}

static void relax(void *ctx) {
    (void)ctx;
    sched_yield();
}

static void idle(void *ctx) {
    (void)ctx;
    QUIESCENT();
    sched_yield();
}

static uint64_t now(void *ctx) {
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *memory_alloc(void *ctx, size_t bytes) {
    (void)ctx;
    return malloc(bytes);
}

static void memory_free(void *ctx, void *memory, size_t bytes) {
    (void)ctx, (void)bytes;
    free(memory);
}

int main(int argc, char **argv) {
    struct conform_host host = {
        .knows_sections = !IVS_RCU_IS_(URCU_QSBR),
        .print = print,
        .run_all = run_all,
        .relax = relax,
        .idle = idle,
        .now = now,
        .alloc = memory_alloc,
        .free = memory_free,
    };
    unsigned failures;
    cpus_ = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
    host.cpus = cpus_;
    THREAD_BEGIN();
    failures = conform_run(&host);
    THREAD_END();
    return failures ? 1 : 0;
}
