/* SPDX-License-Identifier: MIT */
/*
 * IVSKIP_CONFIG of the userspace port for IVSKIP_RCU=HOST: the hooks of the manual's section 8 on top of pthreads. It
 * is there to try the HOST path where there is a libc, also under qemu-user; it is simple, not fast.
 */
#ifndef HOST_PORT_H
#define HOST_PORT_H

#include <stdint.h>
#include <stddef.h>

struct host_head {
    struct host_head *next;
    void (*fn)(struct host_head *head);
};

#ifdef __cplusplus
extern "C" {
#endif
void host_enter(void);
void host_exit(void);
int host_held(void);
void host_call(struct host_head *head, void (*fn)(struct host_head *head));
void host_synchronize(void);
void host_barrier(void);
uint64_t host_random(void);
uint64_t host_now(void);
void host_park(uint32_t *word, uint32_t ticket, uint64_t until);
void host_wake(uint32_t *word);
void host_yield(void);
void *host_malloc(size_t bytes);
void host_free(void *memory);
#ifdef __cplusplus
}
#endif

#define IVSKIP_RCU                            HOST
#define IVSKIP_HOST_RCU_ENTER()               host_enter()
#define IVSKIP_HOST_RCU_EXIT()                host_exit()
#define IVSKIP_HOST_RCU_HELD()                host_held()
#define IVSKIP_HOST_RCU_HEAD                  struct host_head
#define IVSKIP_HOST_CALL_RCU(head, fn)        host_call(head, fn)
#define IVSKIP_HOST_SYNCHRONIZE()             host_synchronize()
#define IVSKIP_HOST_RCU_BARRIER()             host_barrier()
#define IVSKIP_HOST_RANDOM()                  host_random()
#define IVSKIP_HOST_NOW()                     host_now()
#define IVSKIP_HOST_PARK(word, ticket, until) host_park(word, ticket, until)
#define IVSKIP_HOST_WAKE(word)                host_wake(word)
#define IVSKIP_HOST_YIELD()                   host_yield()
#define IVSKIP_HOST_MALLOC(bytes)             host_malloc(bytes)
#define IVSKIP_HOST_FREE(memory)              host_free(memory)

#endif
