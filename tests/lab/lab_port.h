/* SPDX-License-Identifier: MIT */
/*
 * A port of the header to the lab (IVSKIP_CONFIG with IVSKIP_RCU=HOST): RCU as its contract says and no stronger, so
 * that the room for liburcu and hosts is explored too. To put another port's hooks under the lab, write its own
 * implementation of these with lab_load, lab_store and so on, in a file that is compiled like subject.c.
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
