/* SPDX-License-Identifier: MIT */
/*
 * Atomic wrappers for tests that stop a thread between two steps (IVSKIP_ATOMICS): as the header's own, with a call
 * before each access. The thread that steps.h tells to stop at step K waits there until it is let go.
 */
#ifndef TESTS_STEP_ATOMICS_H
#define TESTS_STEP_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void step_point(void);                                               /* before each atomic access */
void step_sleep(uint32_t *word, uint32_t ticket, uint64_t deadline); /* a thread sleeps for a link */
void step_wake(uint32_t *word);
#ifdef __cplusplus
}
#endif

#define IVSKIP_HOST_PARK(word, ticket, deadline) step_sleep((word), (ticket), (deadline))
#define IVSKIP_HOST_WAKE(word)                   step_wake(word)

#define STEP_(T, s, name, args, access)                                                                                \
    static inline T ivs_##name##_##s##_ args {                                                                         \
        step_point();                                                                                                  \
        access;                                                                                                        \
    }
#define STEPS_(T, s)                                                                                                   \
    STEP_(T, s, load_relaxed, (const T *p), return __atomic_load_n(p, __ATOMIC_RELAXED))                               \
    STEP_(T, s, load_acquire, (const T *p), return __atomic_load_n(p, __ATOMIC_ACQUIRE))                               \
    STEP_(void, s, store_relaxed, (T * p, T v), __atomic_store_n(p, v, __ATOMIC_RELAXED))                              \
    STEP_(void, s, store_release, (T * p, T v), __atomic_store_n(p, v, __ATOMIC_RELEASE))                              \
    STEP_(T, s, exchange_relaxed, (T * p, T v), return __atomic_exchange_n(p, v, __ATOMIC_RELAXED))                    \
    STEP_(T, s, exchange_acq_rel, (T * p, T v), return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL))                    \
    STEP_(T, s, add_relaxed, (T * p, T v), return __atomic_fetch_add(p, v, __ATOMIC_RELAXED))                          \
    STEP_(T, s, add_release, (T * p, T v), return __atomic_fetch_add(p, v, __ATOMIC_RELEASE))                          \
    STEP_(T, s, add_acq_rel, (T * p, T v), return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL))                          \
    STEP_(T, s, or_acq_rel, (T * p, T v), return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL))                            \
    STEP_(T, s, and_release, (T * p, T v), return __atomic_fetch_and(p, v, __ATOMIC_RELEASE))                          \
    STEP_(bool, s, cas_relaxed, (T * p, T * old, T v),                                                                 \
          return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))                    \
    STEP_(bool, s, cas_acq_rel, (T * p, T * old, T v),                                                                 \
          return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
STEPS_(uintptr_t, word)
STEPS_(uint64_t, 64)
STEPS_(uint32_t, 32)
#undef STEPS_
#undef STEP_

#endif
