/* SPDX-License-Identifier: MIT */
#define RCU_THREADS_THEMSELVES
#include "rcu_threads.h"

#include <stdlib.h>

#if RCU_IS(URCU_MEMB)
#define REGISTER()       urcu_memb_register_thread()
#define UNREGISTER()     urcu_memb_unregister_thread()
#define FORK_BEGINS()    urcu_memb_call_rcu_before_fork()
#define FORK_IN_PARENT() urcu_memb_call_rcu_after_fork_parent()
#define FORK_IN_CHILD()  urcu_memb_call_rcu_after_fork_child()
#elif RCU_IS(URCU_QSBR)
#define REGISTER()       urcu_qsbr_register_thread()
#define UNREGISTER()     urcu_qsbr_unregister_thread()
#define FORK_BEGINS()    urcu_qsbr_call_rcu_before_fork()
#define FORK_IN_PARENT() urcu_qsbr_call_rcu_after_fork_parent()
#define FORK_IN_CHILD()  urcu_qsbr_call_rcu_after_fork_child()
#elif RCU_IS(URCU_BP)
#define REGISTER()       ((void)0) /* the first section registers, the exit of the thread unregisters */
#define UNREGISTER()     ((void)0)
#define FORK_BEGINS()    (urcu_bp_call_rcu_before_fork(), urcu_bp_before_fork())
#define FORK_IN_PARENT() (urcu_bp_after_fork_parent(), urcu_bp_call_rcu_after_fork_parent())
#define FORK_IN_CHILD()  (urcu_bp_after_fork_child(), urcu_bp_call_rcu_after_fork_child())
#else
#define REGISTER()       ((void)0)
#define UNREGISTER()     ((void)0)
#define FORK_BEGINS()    ((void)0)
#define FORK_IN_PARENT() ((void)0)
#define FORK_IN_CHILD()  ((void)0)
#endif

#if !RCU_IS(BUILTIN)
static _Thread_local unsigned sections; /* open in this thread */
#endif

void rcu_thread_begin(void) { REGISTER(); }
void rcu_thread_end(void) { UNREGISTER(); }

#if RCU_IS(URCU_QSBR)
void rcu_block_begin(void) {
    if (!sections) urcu_qsbr_thread_offline();
}

void rcu_block_end(void) {
    if (!sections) urcu_qsbr_thread_online();
}

void rcu_quiescent(void) {
    if (!sections) urcu_qsbr_quiescent_state();
}
#else
void rcu_block_begin(void) {}
void rcu_block_end(void) {}
void rcu_quiescent(void) {}
#endif

pid_t rcu_fork(void) {
    FORK_BEGINS();
    pid_t child = fork();
    if (child) FORK_IN_PARENT();
    else FORK_IN_CHILD();
    return child;
}

#if !RCU_IS(BUILTIN)

void rcu_read_enter(struct ivs_domain *domain) {
    sections++;
    ivs_domain_read_enter(domain);
}

void rcu_read_exit(struct ivs_domain *domain) {
    ivs_domain_read_exit(domain);
    sections--;
    rcu_quiescent();
}

struct start {
    void *(*body)(void *arg);
    void *arg;
};

static void *registered(void *arg) {
    struct start start = *(struct start *)arg;
    free(arg);
    rcu_thread_begin();
    void *result = start.body(start.arg);
    rcu_thread_end();
    return result;
}

int rcu_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *arg), void *arg) {
    struct start *start = malloc(sizeof *start);
    if (!start) return -1;
    start->body = body;
    start->arg = arg;
    int r = pthread_create(thread, attributes, registered, start);
    if (r) free(start);
    return r;
}

int rcu_pthread_join(pthread_t thread, void **result) {
    rcu_block_begin();
    int r = pthread_join(thread, result);
    rcu_block_end();
    return r;
}

int rcu_pthread_barrier_wait(pthread_barrier_t *barrier) {
    rcu_block_begin();
    int r = pthread_barrier_wait(barrier);
    rcu_block_end();
    return r;
}

pid_t rcu_waitpid(pid_t child, int *status, int options) {
    rcu_block_begin();
    pid_t r = waitpid(child, status, options);
    rcu_block_end();
    return r;
}

bool rcu_test_failed(void) {
    rcu_quiescent();
    return test_failed();
}

#endif
