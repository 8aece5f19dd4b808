/* SPDX-License-Identifier: MIT */
/*
 * The Linux maple tree in userspace, as kernel/fork.c and mm/mmap.c use it for a process: RCU for look-ups (liburcu's
 * memb), its lock for writes (a mutex here, as in Linux' own tests in userspace), gaps tracked (ALLOC_RANGE). Entries
 * point to records of the harness's. Their life is not counted here (the kernel would give each to call_rcu), that of
 * ivskip's payload is: the difference favours the tree.
 */
#include "shared.h"
#include <linux/maple_tree.h>

struct peer {
    struct maple_tree tree;
    struct bench_record **record;
    size_t n;
    int64_t bytes;
};
#define BENCH_BY_VALUE

static void peer_init(struct peer *p) { mt_init_flags(&p->tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU); }
static void peer_destroy(struct peer *p) {
    mtree_destroy(&p->tree);
    rcu_barrier(); /* its nodes are free only now, and bytes are counted next */
}
static void peer_settle(struct peer *p) { (void)p; }
static void peer_quiesce(struct peer *p) { (void)p, rcu_barrier(); }
static void peer_thread_begin(void) { rcu_register_thread(); }
static void peer_thread_end(void) { rcu_unregister_thread(); }

BENCH_ALWAYS void peer_enter(struct peer *p) { (void)p, rcu_read_lock(); }
BENCH_ALWAYS void peer_exit(struct peer *p) { (void)p, rcu_read_unlock(); }

BENCH_ALWAYS struct bench_record *peer_find(struct peer *p, uint64_t key) {
    MA_STATE(mas, &p->tree, key, key);
    return mas_walk(&mas);
}
BENCH_ALWAYS struct bench_record *peer_find_next(struct peer *p, uint64_t key) {
    MA_STATE(mas, &p->tree, key, key);
    return mas_find(&mas, ULONG_MAX);
}

#define PEER_EACH(p, key, most, see)                                                                                   \
    do {                                                                                                               \
        MA_STATE(mas_, &(p)->tree, (key), (key));                                                                      \
        struct bench_record *record_ = mas_find(&mas_, ULONG_MAX);                                                     \
        for (size_t i_ = 0; record_ && i_ < (most); i_++, record_ = mas_find(&mas_, ULONG_MAX))                        \
            see(mas_.index, mas_.last + 1, record_);                                                                   \
    } while (0)

static inline void peer_store(struct peer *p, uint64_t start, uint64_t end, struct bench_record *record) {
    MA_STATE(mas, &p->tree, start, end - 1);
    mas_lock(&mas);
    bench_demand(mas_store_gfp(&mas, record, GFP_KERNEL) == 0);
    mas_unlock(&mas);
}
static inline void peer_map(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    peer_store(p, start, end, p->record[id]);
}
static inline void peer_unmap(struct peer *p, uint64_t start, uint64_t end) { peer_store(p, start, end, NULL); }
static inline void peer_change(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    peer_store(p, start, end, p->record[id]);
}

static inline bool peer_take(struct peer *p, uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, size_t id,
                             uint64_t *start) {
    unsigned long at = 0;
    int error = mtree_alloc_range(&p->tree, &at, p->record[id], size, lo, hi - 1, GFP_KERNEL);
    (void)hint; /* it keeps the largest gap of each subtree instead */
    *start = at;
    return error == 0;
}
