/* SPDX-License-Identifier: MIT */
/*
 * A userspace port: RCU by a word for each thread, one thread that runs callbacks, and a condition variable to sleep.
 *
 * Pairs of memory orders
 *
 *   P1  announcement of a section (RMW on the slot) -> look of synchronize (RMW on the same word), and back: either
 *       synchronize sees the section, or the section sees all that was unpublished before. Store buffering, so RMW on
 *       both sides.
 *   P2  end of a section -> look of synchronize: the section's reads come before what is freed.
 *   P3  advance of the epoch -> load of the epoch: whoever announces the new epoch sees what was unpublished before.
 *   P4  a slot changes hands.
 */
#define _GNU_SOURCE
#include "host_port.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { SLOTS = 64 };

struct slot {
    uint64_t active; /* 0, or the epoch in which the thread's section began */
    uint32_t taken;
} __attribute__((aligned(64)));

static struct slot slots_[SLOTS];
static uint64_t epoch_ = 1;
static __thread struct slot *mine_;
static __thread unsigned nest_;
static __thread uint64_t random_;

static pthread_once_t once_ = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key_;
static pthread_mutex_t grace_mutex_ = PTHREAD_MUTEX_INITIALIZER; /* one grace period at a time */
static pthread_mutex_t queue_mutex_ = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t queue_moved_ = PTHREAD_COND_INITIALIZER;
static struct host_head *queue_, **queue_end_ = &queue_;
static uint64_t queued_, ran_;
static pthread_mutex_t park_mutex_ = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t park_moved_;

static void slot_return(void *slot) { __atomic_store_n(&((struct slot *)slot)->taken, 0, __ATOMIC_RELEASE); /* [P4] */ }

/* Runs callbacks in the order in which they were queued, each lot after a grace period. */
static void *callback_thread(void *unused) {
    struct host_head *head, *next;
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&queue_mutex_);
        while (!queue_) pthread_cond_wait(&queue_moved_, &queue_mutex_);
        head = queue_;
        queue_ = NULL;
        queue_end_ = &queue_;
        pthread_mutex_unlock(&queue_mutex_);
        host_synchronize();
        for (; head; head = next) {
            next = head->next;
            head->fn(head);
            pthread_mutex_lock(&queue_mutex_);
            ran_++;
            pthread_cond_broadcast(&queue_moved_);
            pthread_mutex_unlock(&queue_mutex_);
        }
    }
    return NULL;
}

static void begin(void) {
    pthread_t thread;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&park_moved_, &attributes);
    if (pthread_key_create(&exit_key_, slot_return)) abort();
    if (pthread_create(&thread, NULL, callback_thread, NULL)) abort();
    pthread_detach(thread);
}

static struct slot *slot_of_thread(void) {
    if (mine_) return mine_;
    pthread_once(&once_, begin);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (__atomic_exchange_n(&slots_[i].taken, 1, __ATOMIC_ACQUIRE)) continue; /* [P4] */
        mine_ = &slots_[i];
        pthread_setspecific(exit_key_, mine_);
        return mine_;
    }
    abort(); /* more threads than this port is made for */
}

void host_enter(void) {
    struct slot *slot = slot_of_thread();
    if (nest_++ == 0)
        (void)__atomic_exchange_n(&slot->active, __atomic_load_n(&epoch_, __ATOMIC_ACQUIRE),
                                  __ATOMIC_ACQ_REL); /* [P1] [P3] */
}

void host_exit(void) {
    if (--nest_ == 0) __atomic_store_n(&mine_->active, 0, __ATOMIC_RELEASE); /* [P2] */
}

int host_held(void) { return nest_ > 0; }

void host_synchronize(void) {
    uint64_t now;
    pthread_mutex_lock(&grace_mutex_);
    now = __atomic_add_fetch(&epoch_, 1, __ATOMIC_ACQ_REL); /* [P3] */
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t active;
        while ((active = __atomic_fetch_add(&slots_[i].active, 0, __ATOMIC_ACQ_REL)) && active < now) /* [P1] [P2] */
            sched_yield();
    }
    pthread_mutex_unlock(&grace_mutex_);
}

void host_call(struct host_head *head, void (*fn)(struct host_head *head)) {
    pthread_once(&once_, begin);
    head->next = NULL;
    head->fn = fn;
    pthread_mutex_lock(&queue_mutex_);
    *queue_end_ = head;
    queue_end_ = &head->next;
    queued_++;
    pthread_cond_broadcast(&queue_moved_);
    pthread_mutex_unlock(&queue_mutex_);
}

void host_barrier(void) {
    pthread_mutex_lock(&queue_mutex_);
    for (uint64_t all = queued_; ran_ < all;) pthread_cond_wait(&queue_moved_, &queue_mutex_);
    pthread_mutex_unlock(&queue_mutex_);
}

uint64_t host_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t host_random(void) {
    if (!random_) random_ = (uint64_t)(uintptr_t)&random_ ^ host_now() * 0x9e3779b97f4a7c15u;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ * 0x2545f4914f6cdd1du;
}

/* The word is looked at under the mutex that the waker takes: a wake after the look finds the sleeper asleep. */
void host_park(uint32_t *word, uint32_t ticket, uint64_t until) {
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    int r = 0;
    pthread_once(&once_, begin);
    pthread_mutex_lock(&park_mutex_);
    while (r == 0 && __atomic_load_n(word, __ATOMIC_RELAXED) == ticket)
        r = until == UINT64_MAX ? pthread_cond_wait(&park_moved_, &park_mutex_)
                                : pthread_cond_timedwait(&park_moved_, &park_mutex_, &t);
    pthread_mutex_unlock(&park_mutex_);
}

void host_wake(uint32_t *word) {
    (void)word;
    pthread_once(&once_, begin);
    pthread_mutex_lock(&park_mutex_);
    pthread_cond_broadcast(&park_moved_);
    pthread_mutex_unlock(&park_mutex_);
}

void host_yield(void) { sched_yield(); }

void *host_malloc(size_t bytes) { return malloc(bytes); }

void host_free(void *memory) { free(memory); }
