/* SPDX-License-Identifier: MIT */
/*
 * RCU of this kernel: an epoch that is tied to the tick.
 *
 * The timer interrupts every processor about a thousand times a second. A tick that finds no read section open on its
 * processor notes the epoch there. When all processors have noted the epoch, it ends: each of them was outside of
 * sections at some instant since it began. So a callback queued in epoch e, which may be half over, waits for the end
 * of e, and for that of e + 1: the next lot, and the lot under way.
 *
 * Callbacks run in the interrupt handler of the tick that ended the epoch. That processor notes the new epoch in its
 * next tick only, so the next lot does not begin before this one is done: callbacks run in the order in which they were
 * queued, and a count says how far they have come, which is all that a barrier needs.
 *
 * Pairs of memory orders
 *
 *   P1  unlock of a spin lock -> lock: what was done under it.
 *   P2  a processor notes the epoch -> the tick that finds all noted: the reads of sections that ended before come
 *       before what the callbacks free.
 *   P3  the epoch begins -> load of it by a tick: sections that begin later see all that was unpublished before.
 *   P4  a callback is counted as run -> the barrier that sees it.
 *   P5  a ticket is bumped -> load of it by who parks.
 */
#include "ivskip_port.h"

static struct spinlock rcu_lock;
static uint64_t epoch = 1;
static struct port_rcu_head *waiting;                /* for the end of this epoch */
static struct port_rcu_head *next_first, **next_end; /* for the end of the next one; NULL next_end: empty */
static uint64_t queued, ran;

/* Ends the epoch if all have noted it, and returns the callbacks that are due then. */
static struct port_rcu_head *epoch_end(void) {
    struct port_rcu_head *due = NULL;
    uint64_t flags = spin_lock(&rcu_lock);
    bool all = true;
    for (unsigned i = 0; i < cpu_count; i++)
        if (__atomic_load_n(&cpus[i].seen, __ATOMIC_ACQUIRE) != epoch) all = false; /* [P2] */
    if (all) {
        due = waiting;
        waiting = next_first;
        next_first = NULL;
        next_end = NULL;
        __atomic_store_n(&epoch, epoch + 1, __ATOMIC_RELEASE); /* [P3] */
    }
    spin_unlock(&rcu_lock, flags);
    return due;
}

void port_rcu_tick(void) {
    struct port_rcu_head *due, *next;
    uint64_t now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);                         /* [P3] */
    if (!port_rcu_held()) __atomic_store_n(&this_cpu()->seen, now, __ATOMIC_RELEASE); /* [P2] */
    for (due = epoch_end(); due; due = next) {
        next = due->next; /* the callback may queue it again */
        due->fn(due);
        __atomic_add_fetch(&ran, 1, __ATOMIC_RELEASE); /* [P4] */
    }
}

void port_call_rcu(struct port_rcu_head *head, void (*fn)(struct port_rcu_head *head)) {
    uint64_t flags;
    head->next = NULL;
    head->fn = fn;
    flags = spin_lock(&rcu_lock);
    if (!next_end) next_end = &next_first;
    *next_end = head;
    next_end = &head->next;
    queued++;
    spin_unlock(&rcu_lock, flags);
}

/* Two ends of epochs: the present one may have begun long ago. */
void port_synchronize(void) {
    uint64_t flags = spin_lock(&rcu_lock), target = epoch + 2;
    spin_unlock(&rcu_lock, flags);
    while (__atomic_load_n(&epoch, __ATOMIC_ACQUIRE) < target) cpu_relax(); /* [P3] */
}

void port_rcu_barrier(void) {
    uint64_t flags = spin_lock(&rcu_lock), all = queued;
    spin_unlock(&rcu_lock, flags);
    while (__atomic_load_n(&ran, __ATOMIC_ACQUIRE) < all) cpu_relax(); /* [P4] */
}

/* Each processor has a stream of its own; an interrupt in between may draw the same number, which harms no tower. */
uint64_t port_random(void) {
    uint64_t x = this_cpu()->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    this_cpu()->random = x;
    return x * 0x2545f4914f6cdd1du;
}

void port_park(uint32_t *word, uint32_t ticket, uint64_t until) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == ticket && clock_now() < until) cpu_relax(); /* [P5] */
}
