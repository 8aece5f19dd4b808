/* SPDX-License-Identifier: MIT */
/* The header's atomics on the lab (IVSKIP_ATOMICS), and the hooks of its host. */
#ifndef LAB_ATOMICS_H
#define LAB_LOAD_(T, s, order, ORDER)                                                                                  \
    static inline T ivs_load_##order##_##s##_(const T *p) { return (T)lab_load(p, sizeof(T), ORDER); }
#define LAB_STORE_(T, s, order, ORDER)                                                                                 \
    static inline void ivs_store_##order##_##s##_(T *p, T v) { lab_store(p, sizeof(T), v, ORDER); }
#define LAB_RMW_(T, s, op, OP, order, ORDER)                                                                           \
    static inline T ivs_##op##_##order##_##s##_(T *p, T v) { return (T)lab_rmw(p, sizeof(T), OP, v, ORDER); }
#define LAB_CAS_(T, s, order, ORDER, FAILURE)                                                                          \
    static inline bool ivs_cas_##order##_##s##_(T *p, T *old, T v) {                                                   \
        uint64_t seen = *old;                                                                                          \
        bool done = lab_cas(p, sizeof(T), &seen, v, ORDER, FAILURE);                                                   \
        *old = (T)seen;                                                                                                \
        return done;                                                                                                   \
    }
/* The header uses some of these; mutants use the others. */
#define LAB_RMWS_(T, s, op, OP)                                                                                        \
    LAB_RMW_(T, s, op, OP, relaxed, LAB_RELAXED)                                                                       \
    LAB_RMW_(T, s, op, OP, acquire, LAB_ACQUIRE)                                                                       \
    LAB_RMW_(T, s, op, OP, release, LAB_RELEASE)                                                                       \
    LAB_RMW_(T, s, op, OP, acq_rel, LAB_ACQ_REL)
#define LAB_ATOMICS_(T, s)                                                                                             \
    LAB_LOAD_(T, s, relaxed, LAB_RELAXED)                                                                              \
    LAB_LOAD_(T, s, acquire, LAB_ACQUIRE)                                                                              \
    LAB_STORE_(T, s, relaxed, LAB_RELAXED)                                                                             \
    LAB_STORE_(T, s, release, LAB_RELEASE)                                                                             \
    LAB_RMWS_(T, s, exchange, LAB_EXCHANGE)                                                                            \
    LAB_RMWS_(T, s, add, LAB_ADD)                                                                                      \
    LAB_RMWS_(T, s, or, LAB_OR)                                                                                        \
    LAB_RMWS_(T, s, and, LAB_AND)                                                                                      \
    LAB_CAS_(T, s, acq_rel, LAB_ACQ_REL, LAB_ACQUIRE)                                                                  \
    LAB_CAS_(T, s, acquire, LAB_ACQUIRE, LAB_ACQUIRE)                                                                  \
    LAB_CAS_(T, s, release, LAB_RELEASE, LAB_RELAXED)                                                                  \
    LAB_CAS_(T, s, relaxed, LAB_RELAXED, LAB_RELAXED)
LAB_ATOMICS_(uintptr_t, word)
LAB_ATOMICS_(uint64_t, 64)
LAB_ATOMICS_(uint32_t, 32)
#undef LAB_ATOMICS_
#undef LAB_LOAD_
#undef LAB_STORE_
#undef LAB_RMW_
#undef LAB_RMWS_
#undef LAB_CAS_

/* The hooks that a port has not defined. */
#ifndef IVSKIP_HOST_MALLOC
#define IVSKIP_HOST_MALLOC(bytes) lab_malloc(bytes)
#define IVSKIP_HOST_FREE(memory)  lab_free(memory)
#endif
#ifndef IVSKIP_HOST_NOW
#define IVSKIP_HOST_NOW() lab_now()
#endif
#ifndef IVSKIP_HOST_YIELD
#define IVSKIP_HOST_YIELD() lab_relax()
#endif
#ifndef IVSKIP_RELAX
#define IVSKIP_RELAX() lab_relax()
#endif
#ifndef IVSKIP_HOST_PARK
#define IVSKIP_HOST_PARK(word, ticket, deadline) lab_park((word), (ticket), (deadline))
#define IVSKIP_HOST_WAKE(word)                   lab_wake(word)
#endif
#ifndef IVSKIP_ASSERT
#define IVSKIP_ASSERT(condition) LAB_CHECK(condition, "assertion: %s", #condition)
#endif

#endif
