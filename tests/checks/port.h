/* SPDX-License-Identifier: MIT */
/* A port of names only: the minimal set of hooks, as external functions, to see what the header pulls in and how large it is. */
#ifndef CHECKS_PORT_H
#define CHECKS_PORT_H
#include <stdint.h>
struct port_head {
    struct port_head *next;
    void (*fn)(struct port_head *head);
};
#ifdef __cplusplus
extern "C" {
#endif
void port_rcu_enter(void);
void port_rcu_exit(void);
void port_call_rcu(struct port_head *head, void (*fn)(struct port_head *head));
void port_synchronize(void);
void port_rcu_barrier(void);
uint64_t port_random(void);
uint64_t port_now(void);
#ifdef __cplusplus
}
#endif
#define IVSKIP_HOST_RCU_ENTER()        port_rcu_enter()
#define IVSKIP_HOST_RCU_EXIT()         port_rcu_exit()
#define IVSKIP_HOST_RCU_HEAD           struct port_head
#define IVSKIP_HOST_CALL_RCU(head, fn) port_call_rcu(head, fn)
#define IVSKIP_HOST_SYNCHRONIZE()      port_synchronize()
#define IVSKIP_HOST_RCU_BARRIER()      port_rcu_barrier()
#define IVSKIP_HOST_RANDOM()           port_random()
#define IVSKIP_HOST_NOW()              port_now()
#endif
