/* SPDX-License-Identifier: MIT */
/*
 * The port of ivskip to this kernel: what IVSKIP_CONFIG names, and what a kernel's author copies. The manual of
 * ivskip.h, section 8, has each hook's contract; port.c has the bodies that are longer than a line.
 */
#ifndef IVSKIP_PORT_H
#define IVSKIP_PORT_H

#include "kernel.h"

#define IVSKIP_RCU HOST

/* First group: queries work. A section is a count on the processor that runs it; the tick looks at the count. Code
 * does not move between processors here. Where it can, a section also keeps its thread where it is. */
#define IVSKIP_HOST_RCU_ENTER() port_rcu_enter()
#define IVSKIP_HOST_RCU_EXIT()  port_rcu_exit()
#define IVSKIP_HOST_RCU_HELD()  port_rcu_held()
#define IVSKIP_HOST_NOW()       clock_now()

/* Second group: updates work. Callbacks run in the tick's interrupt. */
#define IVSKIP_HOST_RCU_HEAD           struct port_rcu_head
#define IVSKIP_HOST_CALL_RCU(head, fn) port_call_rcu(head, fn)
#define IVSKIP_HOST_SYNCHRONIZE()      port_synchronize()
#define IVSKIP_HOST_RCU_BARRIER()      port_rcu_barrier()
#define IVSKIP_HOST_RANDOM()           port_random()

/* No IVSKIP_HOST_MALLOC: our allocator wants the size back, so domains name it in their ops (port_ops). */

/* Third group: polite. There is no scheduler, so who waits spins; where there is one, PARK sleeps on the word's
 * address until WAKE. */
#define IVSKIP_HOST_PARK(word, ticket, until) port_park(word, ticket, until)
#define IVSKIP_HOST_WAKE(word)                ((void)(word))
#define IVSKIP_ASSERT(condition)              ((condition) ? (void)0 : panic("ivskip: " #condition))

struct port_rcu_head {
    struct port_rcu_head *next;
    void (*fn)(struct port_rcu_head *head);
};

/* The compiler keeps the reads of a section inside it; the rest is the tick's work, which runs on this processor. */
static inline void port_rcu_enter(void) {
    this_cpu()->sections++;
    __asm__ volatile("" ::: "memory");
}

static inline void port_rcu_exit(void) {
    __asm__ volatile("" ::: "memory");
    this_cpu()->sections--;
}

static inline int port_rcu_held(void) { return this_cpu()->sections != 0; }

void port_rcu_tick(void); /* from the timer interrupt of every processor */
void port_call_rcu(struct port_rcu_head *head, void (*fn)(struct port_rcu_head *head));
void port_synchronize(void);
void port_rcu_barrier(void);
uint64_t port_random(void);
void port_park(uint32_t *word, uint32_t ticket, uint64_t until);

#endif
