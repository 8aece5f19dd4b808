/* SPDX-License-Identifier: MIT */
/* What the tests share: random numbers, threads, counting allocators, and the sequential model of a map. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include "ivskip.h"
#include "check.h"
#include "rcu_threads.h"

#include <stdatomic.h>

/* ---- random numbers: one state a thread */

struct rng {
    uint64_t state;
};
struct rng rng_make(uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); /* 0 .. limit - 1; any 64-bit number for limit 0 */

/* ---- time and threads */

uint64_t now_ns(void);
void sleep_ns(uint64_t nanoseconds);

/* Runs body(args + i * arg_bytes) in `count` threads and waits for all. */
void run_threads(unsigned count, void *(*body)(void *), void *args, size_t arg_bytes);

/* All that was retired is released, if no reader holds it back. BUILTIN: ivs_domain_reclaim does it, without waiting;
 * else the callbacks are waited for. */
void release_all(struct ivs_domain *domain);

/* ---- the host's allocator (config.h) */

void test_host_refuse(bool refuse); /* from now on every call gives NULL */
size_t test_host_refused(void);     /* calls refused so far */
long test_host_live(void);          /* blocks not yet freed */

/* ---- the host's clock (config.h) */

void test_host_stop_clock(bool stop);

/* ---- a domain's allocator that counts, refuses on demand, and checks the size of each free */

struct ledger {
    atomic_long live;       /* blocks not yet freed */
    atomic_long calls;      /* allocations since ledger_arm */
    atomic_long refuse_at;  /* number of the call to refuse, from 0; -1: none */
    atomic_long refuse_all; /* 1: all */
    atomic_long released;   /* release callbacks */
    void (*on_release)(struct ledger *ledger, struct ivs_node *node);
    void *user;
};
extern const struct ivs_domain_ops ledger_ops; /* ctx: the ledger */
void ledger_make(struct ledger *ledger);
void ledger_arm(struct ledger *ledger, long refuse_at);

/* A map with a domain of its own on the ledger. */
int ledger_map(struct ivs_map *map, struct ledger *ledger, size_t payload_bytes);

/* The same for a whole test: a new ledger; at the end the map is valid, and nothing is left. */
bool start_map(struct ivs_map *map, struct ledger *ledger);
void end_map(struct ivs_map *map, struct ledger *ledger);

/* ---- the sequential model: sorted disjoint pieces, last key inclusive */

struct piece {
    uint64_t start, last;
    void *value;
    uint64_t origin; /* start of the mapping that it was cut from */
};

struct model {
    struct piece *pieces;
    size_t count, room;
};

void model_free(struct model *model);
void model_unmap(struct model *model, uint64_t start, uint64_t last);
void model_map(struct model *model, uint64_t start, uint64_t last, void *value);
const struct piece *model_query(const struct model *model, uint64_t key);
const struct piece *model_next(const struct model *model, uint64_t key); /* first that ends after the key */
bool model_is_free(const struct model *model, uint64_t start, uint64_t last);
bool model_alloc(const struct model *model, const struct ivs_alloc *request, uint64_t *start);

/* The map's content as a model, and whether they agree (bounds and values; says the first difference). */
void model_read(struct model *model, struct ivs_map *map);
bool model_equals_map(const struct model *model, struct ivs_map *map, const char *when);
bool map_is_valid(struct ivs_map *map, const char *when);

/* ---- short forms */

static inline void *as_value(uint64_t number) { return (void *)(uintptr_t)number; }
static inline uint64_t as_number(const void *value) { return (uint64_t)(uintptr_t)value; }

#endif
