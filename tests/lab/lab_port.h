/* SPDX-License-Identifier: MIT */
/*
 * A port of the header to the lab (IVSKIP_CONFIG with IVSKIP_RCU=HOST): RCU as its contract says and no stronger, so
 * that the room for liburcu and hosts is explored too.
 *
 * Your own port under the lab, `make lab-port LAB_PORT=path/port.h`:
 *
 *   1. Copy this file. Keep the hooks that you do not want to test as they are: RCU, sleeping, memory and time are then
 *      the lab's, which do what the manual (section 8) asks of a host and no more.
 *   2. Put your hooks in place of the others, as inline functions here or in more files: LAB_PORT_SOURCES="a.c b.c".
 *      Whatever two threads share must go through the lab: lab_load, lab_store, lab_rmw, lab_cas and lab_fence_sc for
 *      atomic accesses (with the order that your code has), lab_relax where you spin, lab_park and lab_wake where you
 *      sleep, lab_malloc and lab_free for memory. Plain accesses need nothing: the compiler reports them. No state
 *      outside lab_malloc's memory and no thread-local state may live from one execution to the next.
 *   3. Also IVSKIP_HOST_MALLOC and FREE, PARK and WAKE, YIELD, IVSKIP_RELAX may be yours; without them the lab's are
 *      taken. If CALL_RCU is yours, somebody must run the callbacks: define LAB_PORT_THREAD() as the body of that
 *      thread; it may return when nothing is queued and lab_others_done().
 *   4. The programs run on it: a grace period that is too short is a race or a touch after free, a lost wake a thread
 *      that sleeps for ever, a callback that never runs a leak. A failure names its schedule;
 *      build/lab/port/lab --replay shows it step by step.
 */
#ifndef LAB_PORT_H
#define LAB_PORT_H

#include "lab.h"

struct lab_rcu_head {
    struct lab_rcu_head *next;
    void (*fn)(struct lab_rcu_head *head);
};

#define IVSKIP_HOST_RCU_ENTER()        lab_rcu_enter()
#define IVSKIP_HOST_RCU_EXIT()         lab_rcu_exit()
#define IVSKIP_HOST_RCU_HELD()         lab_rcu_held()
#define IVSKIP_HOST_RCU_HEAD           struct lab_rcu_head
#define IVSKIP_HOST_CALL_RCU(head, fn) lab_rcu_call((head), (fn))
#define IVSKIP_HOST_SYNCHRONIZE()      lab_rcu_synchronize()
#define IVSKIP_HOST_RCU_BARRIER()      lab_rcu_barrier()
#define IVSKIP_HOST_RANDOM()           lab_now()
#define IVSKIP_HOST_NOW()              lab_now()

#endif
