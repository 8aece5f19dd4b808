/* SPDX-License-Identifier: MIT */
/*
 * The Linux maple tree in userspace, as kernel/fork.c and mm/mmap.c use it for a process: RCU for look-ups (liburcu's
 * memb), its lock for writes (a mutex here, as in Linux' own tests in userspace), gaps tracked (ALLOC_RANGE). Each
 * interval has a record of its own, as each has in ivskip: made when it is mapped or split off, freed by call_rcu when
 * it goes, for look-ups read it. With BENCH_BARE entries point to a few records of the harness's that live for ever:
 * the tree alone, without what its user must do.
 */
#include "shared.h"
#include <linux/maple_tree.h>

struct peer {
    struct maple_tree tree;
    struct bench_record **record;
    size_t n;
    int64_t bytes;
};
#ifdef BENCH_BARE
#define BENCH_BY_VALUE
#endif

static void peer_init(struct peer *p) { mt_init_flags(&p->tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU); }
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

/* The change of one entry, also of a part of it, to one that lives as long as the harness. */
static inline void peer_store(struct peer *p, uint64_t start, uint64_t end, struct bench_record *record) {
    MA_STATE(mas, &p->tree, start, end - 1);
    mas_lock(&mas);
    bench_demand(mas_store_gfp(&mas, record, GFP_KERNEL) == 0);
    mas_unlock(&mas);
}

#ifdef BENCH_BARE
static struct bench_record *peer_record(struct peer *p, size_t id) { return p->record[id]; }
static void peer_record_free(struct bench_record *record) { (void)record; }
static void peer_overwrite(struct peer *p, uint64_t start, uint64_t end, struct bench_record *record) {
    peer_store(p, start, end, record);
}
static void peer_destroy(struct peer *p) {
    mtree_destroy(&p->tree);
    rcu_barrier(); /* its nodes are free only now, and bytes are counted next */
}
#else
static struct bench_record *peer_record(struct peer *p, size_t id) {
    struct bench_record *record = bench_alloc(sizeof *record);
    (void)p;
    record->field = bench_field(id);
    return record;
}
static void peer_record_over(struct rcu_head *head) { bench_free(head, sizeof(struct bench_record)); }
static void peer_record_free(struct bench_record *record) { /* its first words are the head, */
    _Static_assert(sizeof(struct rcu_head) <= 6 * sizeof record->other[0], "and the last is the link of a list");
    call_rcu((struct rcu_head *)(void *)record->other, peer_record_over);
}

/* What lies inside goes, with its record; of an interval that is cut in two, the right part gets a record of its own. */
static void peer_overwrite(struct peer *p, uint64_t start, uint64_t end, struct bench_record *record) {
    MA_STATE(mas, &p->tree, start, end - 1);
    struct bench_record *old, *gone = NULL, *right = NULL;
    unsigned long right_last = 0;
    mas_lock(&mas);
    mas_for_each(&mas, old, end - 1) {
        if (mas.index < start && mas.last >= end) {
            right = bench_alloc(sizeof *right);
            *right = *old;
            right_last = mas.last;
        } else if (mas.index >= start && mas.last < end) {
            old->other[6] = (uintptr_t)gone;
            gone = old;
        }
    }
    if (right) {
        mas_set_range(&mas, end, right_last);
        bench_demand(mas_store_gfp(&mas, right, GFP_KERNEL) == 0);
    }
    mas_set_range(&mas, start, end - 1);
    bench_demand(mas_store_gfp(&mas, record, GFP_KERNEL) == 0);
    mas_unlock(&mas);
    for (; gone; gone = old) {
        old = (struct bench_record *)gone->other[6];
        peer_record_free(gone);
    }
}
static void peer_destroy(struct peer *p) {
    struct bench_record *record;
    unsigned long at = 0;
    mt_for_each(&p->tree, record, at, ULONG_MAX) peer_record_free(record);
    mtree_destroy(&p->tree);
    rcu_barrier(); /* only now all is free, and bytes are counted next */
}
#endif

static inline void peer_map(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    peer_overwrite(p, start, end, peer_record(p, id));
}
static inline void peer_unmap(struct peer *p, uint64_t start, uint64_t end) { peer_overwrite(p, start, end, NULL); }

/* Another record for the same interval. */
static inline void peer_change(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    peer_overwrite(p, start, end, peer_record(p, id));
}

static inline bool peer_take(struct peer *p, uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, size_t id,
                             uint64_t *start) {
    struct bench_record *record = peer_record(p, id);
    unsigned long at = 0;
    int error = -EBUSY;
    if (hint > lo && hint < hi) error = mtree_alloc_range(&p->tree, &at, record, size, hint, hi - 1, GFP_KERNEL);
    if (error) error = mtree_alloc_range(&p->tree, &at, record, size, lo, hi - 1, GFP_KERNEL);
    if (error) peer_record_free(record);
    *start = at;
    return error == 0;
}
