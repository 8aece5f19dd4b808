/* SPDX-License-Identifier: MIT */
/*
 * The lab: a deterministic machine under the header's atomics. Virtual threads are fibers; each atomic access, wait,
 * wake, allocation and free is a step; between steps the machine decides who goes on, and what a load reads.
 *
 * An execution is a sequence of choices: 0 is the ordinary one (the running thread goes on, a load reads the newest
 * value, memory is there), any other is a deviation. Exploration is depth-first over all choice sequences with at
 * most `deviations` deviations (bounded preemption, Musuvathi and Qadeer, PLDI 2007); a stop and refused memory, where
 * the mode has them, do not count. Only steps on locations that
 * two threads use are points of choice. A failing execution, however it was found, is named by its deviations alone,
 * "17p1,43r2" (number of the step; next, stop, preempt, memory, turn, read; which), and shrunk to as few as still fail.
 *
 * Memory model: C11 release and acquire by views (as RC11; no load buffering). Each location has a modification
 * order; a load may read any message not older than the thread's view of the location; a store may enter the order
 * before messages that the thread has not seen, but never between a message and the RMW that read it; release
 * messages carry the view, RMWs carry on the view of what they read (release sequences); SC fences share one view.
 * Not covered: acquire and release fences, SC accesses other than fences, mixed sizes, consume. With weak == 0 every
 * load reads the newest value (interleavings only).
 *
 * Oracles: happens-before by vector clocks over plain accesses (compiler hooks) and atomic ones; memory of the lab is
 * never used twice in an execution, so a touch after free is seen, and a free counts as a write to the whole block,
 * so a free that is not ordered after a reader's accesses is seen even where the schedule spares it; leaks; threads
 * that sleep for ever; no progress.
 */
#ifndef LAB_H
#define LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAB_THREADS = 4 };

/* Orders, for the accesses and for the trace. */
enum lab_order { LAB_RELAXED, LAB_ACQUIRE, LAB_RELEASE, LAB_ACQ_REL };

/* ---- the machine's side: called by what runs in it */

uint64_t lab_load(const void *address, unsigned size, enum lab_order order);
void lab_store(void *address, unsigned size, uint64_t value, enum lab_order order);
enum lab_rmw { LAB_EXCHANGE, LAB_ADD, LAB_OR, LAB_AND };
uint64_t lab_rmw(void *address, unsigned size, enum lab_rmw op, uint64_t value, enum lab_order order);
bool lab_cas(void *address, unsigned size, uint64_t *expected, uint64_t value, enum lab_order order,
             enum lab_order failure);
void lab_fence_sc(void);
void lab_plain(const void *address, size_t size, bool write);
void *lab_memset(void *to, int byte, size_t bytes);
void *lab_memcpy(void *to, const void *from, size_t bytes);
void *lab_malloc(size_t bytes);
void lab_free(void *memory);
void lab_park(uint32_t *word, uint32_t ticket, uint64_t deadline);
void lab_wake(uint32_t *word);
void lab_relax(void);
void lab_give(void); /* any thread may go on, for free */
uint64_t lab_now(void);

/* RCU as a host gives it (lab_port.h): a callback runs after all sections that were open when it was queued, in the
 * thread that runs lab_rcu_thread; a section that begins later sees what was done before the callback was queued. */
struct lab_rcu_head;
void lab_rcu_enter(void);
void lab_rcu_exit(void);
bool lab_rcu_held(void);
void lab_rcu_call(struct lab_rcu_head *head, void (*fn)(struct lab_rcu_head *head));
void lab_rcu_barrier(void);
void lab_rcu_synchronize(void);
void lab_rcu_thread(void); /* until all others are done and nothing is queued */
bool lab_others_done(void);

/* Fails the execution at once, with a reason. */
void lab_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define LAB_CHECK(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) lab_fail(__VA_ARGS__);                                                                       \
    } while (0)

/* For histories: marks in the running thread's order. `real` compares by the step number
 * instead of happens-before. */
struct lab_mark {
    uint64_t step;
    uint32_t clock[LAB_THREADS];
    unsigned thread;
};
struct lab_mark lab_mark(void);
void lab_mark_at_step(struct lab_mark *mark); /* as late as can be: after whatever comes in before the next step */
bool lab_before(const struct lab_mark *end, const struct lab_mark *begin);
unsigned lab_thread(void);
unsigned lab_refusals(void); /* allocations of the running thread that were made to fail so far */

/* In setup: runs `fn` with the thread-local state that thread t will begin with. */
void lab_prepare(unsigned t, void (*fn)(void));

/* ---- the explorer's side */

struct lab_program {
    const char *name;
    unsigned threads;
    const void *data;
    void (*setup)(const void *data);             /* alone, before the threads */
    void (*body)(const void *data, unsigned me); /* of each thread */
    void (*finish)(const void *data);            /* alone, after them; leaks are counted after it */
    void (*stopped)(const void *data);           /* alone, instead of finish, if a thread stopped; may be NULL */
    void (*dump)(void);                          /* shows the state after a failure; may be NULL */
    bool may_sleep;                              /* a thread that is left asleep is no failure (litmus of futexes) */
};

struct lab_options {
    bool weak;               /* stale reads and early stores */
    unsigned deviations;     /* bound, for exhaustive search */
    unsigned long schedules; /* at most; 0: no limit */
    bool fail_memory;        /* each allocation may fail */
    int stop_thread;         /* this thread may stop for ever at any of its steps; -1: none */
    unsigned
        pct_depth; /* > 0: PCT (Burckhardt et al., ASPLOS 2010) with this many priority changes, `schedules` runs */
    uint64_t seed;
    const uint8_t *bytes; /* choices from fuzz bytes, one execution */
    size_t byte_count;
};

struct lab_result {
    unsigned long schedules, steps, stale_reads, points;
    bool complete; /* explored to the end of the bound */
    bool failed;
    bool misfit;         /* a replay's schedule has deviations that did not come */
    unsigned deviations; /* the bound; 0: random */
    char reason[256];
    char schedule[4096]; /* deviations of the failing execution, shrunk */
};

/* Explores; prints nothing. The same program and options give the same result. */
struct lab_result lab_explore(const struct lab_program *program, const struct lab_options *options);

/* Runs one execution with the given deviations; `say`: prints each step, and the state at its end. */
struct lab_result lab_replay(const struct lab_program *program, const struct lab_options *options, const char *schedule,
                             bool say);

/* Of the running or last execution: the value that a location has at its end. */
uint64_t lab_newest(const void *address, unsigned size);

/* Implemented by the subject: the thread-local state of the header, and a name for an address. */
size_t subject_tls(void **address);
void subject_thread_exit(void);
void subject_name(const void *address, char *text, size_t size);

/* Plain accesses made in the instrumented file. */
void subject_plain_write(uint64_t *at, uint64_t value);
uint64_t subject_plain_read(const uint64_t *at);

/* ---- coherence account (coherence.c): called for each access while it is on */
extern void (*lab_account)(unsigned thread, const void *address, size_t size, bool write);

#endif
