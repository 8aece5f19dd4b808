/* SPDX-License-Identifier: MIT */
/*
 * The rules that liburcu makes for threads, kept in one place so that the tests need not know them: threads are
 * registered (memb, qsbr), and with qsbr a thread is offline while it blocks and passes a quiescent state now and
 * then (each test_failed() is one, and the end of each outermost read section). With BUILTIN nothing is replaced.
 *
 * A thread that blocks inside a read section stays online: the section must last.
 */
#ifndef TESTS_RCU_THREADS_H
#define TESTS_RCU_THREADS_H

#include "ivskip.h"
#include "check.h"

#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* RCU_IS(URCU_QSBR): whether this is the flavour under test; also in #if. */
#define RCU_NUMBER_BUILTIN   1
#define RCU_NUMBER_URCU_MEMB 2
#define RCU_NUMBER_URCU_QSBR 3
#define RCU_NUMBER_URCU_BP   4
#define RCU_CAT_(a, b)       a##b
#define RCU_CAT(a, b)        RCU_CAT_(a, b)
#define RCU_IS(which)        (RCU_CAT(RCU_NUMBER_, IVSKIP_RCU) == RCU_NUMBER_##which)

/* What the flavours can be asked for. */
#define RCU_TELLS_SECTIONS     (!RCU_IS(URCU_QSBR))                 /* a call knows that it is inside a section */
#define RCU_FORKS_AT_ANY_TIME  RCU_IS(BUILTIN)                      /* other threads may be amid updates */
#define RCU_FORKS_WITH_THREADS (RCU_IS(BUILTIN) || RCU_IS(URCU_BP)) /* liburcu's README, "Interaction with fork()" */

/* First and last call of a thread: pthread_create makes them for its threads, main for its own. */
void rcu_thread_begin(void);
void rcu_thread_end(void);

/* Around what may block. */
void rcu_block_begin(void);
void rcu_block_end(void);

void rcu_quiescent(void); /* unless a section is open */

/* fork() with liburcu's own calls around it. */
pid_t rcu_fork(void);

#if !RCU_IS(BUILTIN)
int rcu_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *arg), void *arg);
int rcu_pthread_join(pthread_t thread, void **result);
int rcu_pthread_barrier_wait(pthread_barrier_t *barrier);
pid_t rcu_waitpid(pid_t child, int *status, int options);
bool rcu_test_failed(void);
void rcu_read_enter(struct ivs_domain *domain);
void rcu_read_exit(struct ivs_domain *domain);

#if !defined(RCU_THREADS_THEMSELVES)
#define pthread_create       rcu_pthread_create
#define pthread_join         rcu_pthread_join
#define pthread_barrier_wait rcu_pthread_barrier_wait
#define waitpid              rcu_waitpid
#define test_failed          rcu_test_failed
#undef ivs_domain_read_enter
#undef ivs_domain_read_exit
#define ivs_domain_read_enter   rcu_read_enter
#define ivs_domain_read_exit    rcu_read_exit
#define ivs_map_read_enter(map) rcu_read_enter(ivs_map_domain(map))
#define ivs_map_read_exit(map)  rcu_read_exit(ivs_map_domain(map))
#endif
#endif

#endif
