/* SPDX-License-Identifier: MIT */
/*
 * ivskip as its user would write it. The record lies in front of the node (payload_size), is made with it and freed
 * with it after the grace period; with BENCH_BY_VALUE the node's value points to a record of the harness's, as the
 * entries of the maple tree do. Nodes come from the slab of the harness. ivs_map_tune is called once, after the map was
 * filled and before the benchmarks, and never again.
 */
#include "ivskip.h"

struct peer {
    struct ivs_map map;
    struct bench_record **record; /* BENCH_BY_VALUE */
    size_t n;
    int64_t bytes;
};

struct peer_area {
    struct bench_record record;
    struct ivs_node node;
};

#ifdef BENCH_BY_VALUE
enum { PEER_PAYLOAD = 0 };
#else
enum { PEER_PAYLOAD = offsetof(struct peer_area, node) };
#endif

static void *peer_node_alloc(void *ctx, size_t bytes, unsigned flags) {
    return (void)ctx, (void)flags, bench_alloc(bytes);
}
static void peer_node_free(void *ctx, void *memory, size_t bytes) { (void)ctx, bench_free(memory, bytes); }

static void peer_init(struct peer *p) {
    static const struct ivs_domain_ops ops = {.alloc = peer_node_alloc, .free = peer_node_free};
    struct ivs_map_config config = {.own = {.ops = &ops, .payload_size = PEER_PAYLOAD, .seed = 1}};
    bench_demand(ivs_map_init(&p->map, &config) == 0);
}
static void peer_destroy(struct peer *p) {
    struct ivs_report report;
    bench_demand(ivs_map_validate(&p->map, &report) == 0);
    bench_demand(ivs_map_destroy(&p->map) == 0);
}
/* After the map was filled; not with BENCH_PLAIN. */
static void peer_settle(struct peer *p) {
#ifdef BENCH_PLAIN
    (void)p;
#else
    bench_demand(ivs_map_tune(&p->map) == 0);
#endif
}
static void peer_quiesce(struct peer *p) { bench_demand(ivs_domain_barrier(ivs_map_domain(&p->map)) == 0); }

#if IVS_RCU_IS_(URCU_MEMB)
static void peer_thread_begin(void) { urcu_memb_register_thread(); }
static void peer_thread_end(void) { urcu_memb_unregister_thread(); }
#else
static void peer_thread_begin(void) {}
static void peer_thread_end(void) {}
#endif

BENCH_ALWAYS struct bench_record *peer_record(const struct ivs_node *node) {
#ifdef BENCH_BY_VALUE
    return ivs_node_value(node);
#else
    return (struct bench_record *)((uintptr_t)node - PEER_PAYLOAD);
#endif
}

BENCH_ALWAYS void peer_enter(struct peer *p) { ivs_map_read_enter(&p->map); }
BENCH_ALWAYS void peer_exit(struct peer *p) { ivs_map_read_exit(&p->map); }

BENCH_ALWAYS struct bench_record *peer_find(struct peer *p, uint64_t key) {
    const struct ivs_node *node = ivs_map_query_rcu(&p->map, key);
    return node ? peer_record(node) : NULL;
}
BENCH_ALWAYS struct bench_record *peer_find_next(struct peer *p, uint64_t key) {
    const struct ivs_node *node = ivs_map_query_next_rcu(&p->map, key);
    return node ? peer_record(node) : NULL;
}

/* Calls see(ctx, start, end, record) for up to `most` intervals from the one that ends behind `key`. */
#define PEER_EACH(p, key, most, see)                                                                                   \
    do {                                                                                                               \
        const struct ivs_node *node_ = ivs_map_query_next_rcu(&(p)->map, (key));                                       \
        for (size_t i_ = 0; node_ && i_ < (most); i_++, node_ = ivs_map_next_rcu(&(p)->map, node_))                    \
            see(node_->start, ivs_node_end(node_), peer_record(node_));                                                \
    } while (0)

static inline struct ivs_node *peer_node(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    void *value = p->record ? p->record[id] : NULL;
    struct ivs_node *node = ivs_node_new(ivs_map_domain(&p->map), start, end, value, IVS_SLEEP);
    bench_demand(node);
#ifndef BENCH_BY_VALUE
    peer_record(node)->field = bench_field(id);
#endif
    return node;
}

static inline void peer_map(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    bench_demand(ivs_map_map_node(&p->map, peer_node(p, start, end, id)) == 0);
}
static inline void peer_unmap(struct peer *p, uint64_t start, uint64_t end) {
    bench_demand(ivs_map_unmap(&p->map, start, end) == 0);
}

/* The value of [start, end), which is mapped as one interval: the record `id`, or (record in front) a word of ours. */
static inline void peer_change(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    struct ivs_lock lock;
    bench_demand(ivs_map_lock(&p->map, start, end, &lock) == 0);
    void *value = p->record ? (void *)p->record[id] : (void *)(uintptr_t)(id * 8);
    bench_demand(ivs_node_set_value(&lock, ivs_lock_first(&lock), value) == 0);
    ivs_map_unlock(&lock);
}

/* First fit in [lo, hi); false: none. */
static inline bool peer_take(struct peer *p, uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, size_t id,
                             uint64_t *start) {
    struct ivs_alloc request = {.lo = lo, .hi = hi, .size = size, .align = BENCH_PAGE, .hint = hint};
    struct ivs_node *node = peer_node(p, 0, size, id);
    int error = ivs_map_alloc_node(&p->map, &request, node, start);
    if (error) ivs_node_discard(ivs_map_domain(&p->map), node);
    return error == 0;
}
