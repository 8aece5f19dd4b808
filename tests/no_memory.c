/* SPDX-License-Identifier: MIT */
/* Every allocation of every operation fails once: -ENOMEM, nothing changed, nothing lost. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CALLS 64 /* no operation allocates more often */

/* What may fail: the allocator, or the fragment callback. */
struct field {
    struct ivs_map map;
    struct ledger ledger;
    struct model before;
    atomic_long values;        /* values that live: of nodes in the map, and of fragments in the making */
    long fragments, refuse_at; /* fragment calls, and the one to refuse (-1: none) */
};

#define FRAGMENT_ERROR (-77)

static void value_released(struct ledger *ledger, struct ivs_node *node) {
    struct field *field = ledger->user;
    (void)node;
    atomic_fetch_sub(&field->values, 1);
}

static int fragment_counted(void *ctx, const struct ivs_node *old, struct ivs_node *fragment) {
    struct field *field = ctx;
    if (field->fragments++ == field->refuse_at) return FRAGMENT_ERROR;
    CHECK(!ivs_node_set_value(NULL, fragment, ivs_node_value(old)), "value of a fragment");
    atomic_fetch_add(&field->values, 1);
    return 0;
}

static bool setup(struct field *field) {
    memset(field, 0, sizeof *field);
    ledger_make(&field->ledger);
    field->ledger.user = field;
    field->ledger.on_release = value_released;
    field->refuse_at = -1;
    struct ivs_map_config config = {0};
    config.own.ops = &ledger_ops;
    config.own.ctx = &field->ledger;
    config.own.seed = test_seed();
    config.fragment = fragment_counted;
    config.ctx = field;
    if (!CHECK(!ivs_map_init(&field->map, &config), "init")) return false;
    for (uint64_t key = 100; key < 1000; key += 100) {
        atomic_fetch_add(&field->values, 1);
        CHECK(!ivs_map_map(&field->map, key, key + 50, as_value(key)), "map");
    }
    model_read(&field->before, &field->map);
    return CHECK(field->before.count == 9, "fixture");
}

static void teardown(struct field *field) {
    CHECK(!ivs_map_destroy(&field->map), "destroy");
    CHECK(atomic_load(&field->ledger.live) == 0, "%ld blocks leaked", atomic_load(&field->ledger.live));
    CHECK(atomic_load(&field->values) == 0, "%ld values lost", atomic_load(&field->values));
    model_free(&field->before);
}

/* ---- the operations; each gives its result */

static int op_map_cuts_one(struct field *f) { return ivs_map_map(&f->map, 110, 120, as_value(1)); }
static int op_map_cuts_two(struct field *f) { return ivs_map_map(&f->map, 130, 720, as_value(1)); }
static int op_map_covers_all(struct field *f) { return ivs_map_map(&f->map, 0, 0, as_value(1)); }
static int op_map_into_gap(struct field *f) { return ivs_map_map(&f->map, 160, 170, as_value(1)); }
static int op_insert(struct field *f) { return ivs_map_insert(&f->map, 160, 170, as_value(1)); }

static int op_alloc(struct field *f) {
    struct ivs_alloc request = {.lo = 0, .hi = 0, .size = 60};
    uint64_t start;
    return ivs_map_alloc(&f->map, &request, as_value(1), &start);
}

static int op_unmap_cuts_one(struct field *f) { return ivs_map_unmap(&f->map, 110, 120); }
static int op_unmap_cuts_two(struct field *f) { return ivs_map_unmap(&f->map, 130, 720); }
static int op_unmap_left(struct field *f) { return ivs_map_unmap(&f->map, 0, 120); }
static int op_unmap_right(struct field *f) { return ivs_map_unmap(&f->map, 949, 0); }

/* With a prepared node, which on failure must still be ours. */
static int with_node(struct field *f, uint64_t start, uint64_t end, int (*op)(struct ivs_map *, struct ivs_node *)) {
    long refuse_at = atomic_exchange(&f->ledger.refuse_at, -1);
    struct ivs_node *node = ivs_node_new(ivs_map_domain(&f->map), start, end, as_value(1), IVS_SLEEP);
    if (!CHECK(node, "node")) return 0;
    ledger_arm(&f->ledger, refuse_at);
    int result = op(&f->map, node);
    if (result) CHECK(!ivs_node_discard(ivs_map_domain(&f->map), node), "the refused node is not ours");
    return result;
}

static int op_map_node(struct field *f) { return with_node(f, 130, 720, ivs_map_map_node); }
static int op_insert_node(struct field *f) { return with_node(f, 160, 170, ivs_map_insert_node); }

static int alloc_any(struct ivs_map *map, struct ivs_node *node) {
    struct ivs_alloc request = {.lo = 0, .hi = 0, .size = 60};
    uint64_t start;
    return ivs_map_alloc_node(map, &request, node, &start);
}
static int op_alloc_node(struct field *f) { return with_node(f, 1, 2, alloc_any); }

static int op_node_new(struct field *f) {
    struct ivs_domain *domain = ivs_map_domain(&f->map);
    struct ivs_node *node = ivs_node_new_height(domain, 1, 2, NULL, IVS_SLEEP, 5);
    if (node) CHECK(!ivs_node_discard(domain, node), "discard");
    return node ? 0 : IVS_ENOMEM;
}

/* A table of its own, which a refusal leaves as it was. */
static int op_tune(struct field *f) {
    struct ivs_map_stats before, after;
    CHECK(!ivs_map_get_stats(&f->map, &before), "stats");
    int result = ivs_map_tune(&f->map);
    CHECK(!ivs_map_get_stats(&f->map, &after), "stats");
    if (result) CHECK(before.table_slots == after.table_slots && before.table_used == after.table_used, "another table");
    else CHECK(after.table_slots, "no table");
    return result;
}

struct operation {
    const char *name;
    int (*run)(struct field *field);
    long least_calls; /* allocations that it cannot do without */
    long fragments;   /* parts that it leaves of what it cuts */
    long new_values;  /* values that the map takes over */
};

static const struct operation operations[] = {
    {"map that cuts one node in the middle", op_map_cuts_one, 3, 2, 1},
    {"map that cuts two nodes", op_map_cuts_two, 3, 2, 1},
    {"map over everything", op_map_covers_all, 1, 0, 1},
    {"map into a gap", op_map_into_gap, 1, 0, 1},
    {"map of a node", op_map_node, 2, 2, 1},
    {"insert", op_insert, 1, 0, 1},
    {"insert of a node", op_insert_node, 0, 0, 1},
    {"alloc", op_alloc, 1, 0, 1},
    {"alloc of a node", op_alloc_node, 0, 0, 1},
    {"unmap inside a node", op_unmap_cuts_one, 2, 2, 0},
    {"unmap that cuts two nodes", op_unmap_cuts_two, 2, 2, 0},
    {"unmap that leaves a right part", op_unmap_left, 1, 1, 0},
    {"unmap that leaves a left part", op_unmap_right, 1, 1, 0},
    {"node", op_node_new, 1, 0, 0},
    {"tune", op_tune, 1, 0, 0},
};
#define OPERATIONS (sizeof operations / sizeof *operations)

static void refused(struct field *field, const struct operation *op, int result, int error, long live, long values) {
    CHECK(result == error, "%s: %d, expected %d", op->name, result, error);
    ledger_arm(&field->ledger, -1);
    field->refuse_at = -1;
    model_equals_map(&field->before, &field->map, op->name);
    map_is_valid(&field->map, op->name);
    if (RCU_IS(BUILTIN)) ivs_domain_reclaim(ivs_map_domain(&field->map));
    else release_all(ivs_map_domain(&field->map));
    CHECK(atomic_load(&field->ledger.live) == live, "%s: %ld blocks, before %ld", op->name,
          atomic_load(&field->ledger.live), live);
    CHECK(atomic_load(&field->values) == values, "%s: %ld values, before %ld", op->name, atomic_load(&field->values),
          values);
}

TEST(no_memory, each_allocation_of_each_operation_may_fail_and_nothing_changes) {
    for (size_t i = 0; i < OPERATIONS && !test_failed(); i++) {
        const struct operation *op = &operations[i];
        struct field field;
        long k = 0;
        if (!setup(&field)) return;
        for (; k < MOST_CALLS; k++) {
            long live = atomic_load(&field.ledger.live), values = atomic_load(&field.values);
            ledger_arm(&field.ledger, k);
            int result = op->run(&field);
            if (atomic_load(&field.ledger.calls) <= k) {
                CHECK(result == 0, "%s: %d with enough memory", op->name, result);
                break;
            }
            refused(&field, op, result, IVS_ENOMEM, live, values);
        }
        CHECK(k >= op->least_calls && k < MOST_CALLS, "%s made %ld allocations", op->name, k);
        atomic_fetch_add(&field.values, op->new_values);
        ledger_arm(&field.ledger, -1);
        map_is_valid(&field.map, op->name);
        teardown(&field);
    }
}

TEST(no_memory, each_fragment_callback_may_fail_and_nothing_changes) {
    for (size_t i = 0; i < OPERATIONS && !test_failed(); i++) {
        const struct operation *op = &operations[i];
        struct field field;
        if (!setup(&field)) return;
        for (long k = 0; k < op->fragments; k++) {
            long live = atomic_load(&field.ledger.live), values = atomic_load(&field.values);
            field.fragments = 0;
            field.refuse_at = k;
            int result = op->run(&field);
            CHECK(field.fragments == k + 1, "%s: %ld fragment calls up to the refusal, expected %ld", op->name,
                  field.fragments, k + 1);
            refused(&field, op, result, FRAGMENT_ERROR, live, values);
        }
        field.fragments = 0;
        CHECK(op->run(&field) == 0, "%s fails after all", op->name);
        CHECK(field.fragments == op->fragments, "%s: %ld fragments, expected %ld", op->name, field.fragments,
              op->fragments);
        atomic_fetch_add(&field.values, op->new_values);
        map_is_valid(&field.map, op->name);
        teardown(&field);
    }
}

TEST(no_memory, what_needs_no_new_node_works_without_memory) {
    struct field field;
    struct ivs_lock lock;
    struct ivs_entry entry;
    if (!setup(&field)) return;
    struct ivs_node *run[1] = {ivs_node_new(ivs_map_domain(&field.map), 400, 410, as_value(4), IVS_SLEEP)};
    if (!CHECK(run[0], "node")) return;
    atomic_store(&field.ledger.refuse_all, 1);
    CHECK(ivs_map_lookup(&field.map, 120, &entry) == 0, "lookup");
    CHECK(ivs_map_unmap(&field.map, 200, 250) == 0, "unmap of a whole node");
    CHECK(ivs_map_unmap(&field.map, 260, 290) == 0, "unmap of a gap");
    CHECK(ivs_map_insert(&field.map, 100, 120, NULL) != 0, "insert over a node");
    CHECK(ivs_map_lock(&field.map, 300, 500, &lock) == 0, "lock");
    atomic_fetch_add(&field.values, 1);
    CHECK(ivs_map_swap(&lock, run, 1) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    atomic_store(&field.ledger.refuse_all, 0);
    map_is_valid(&field.map, "without memory");
    CHECK(ivs_map_lookup(&field.map, 200, &entry) == IVS_ENOENT, "unmapped");
    CHECK(ivs_map_lookup(&field.map, 405, &entry) == 0 && entry.value == as_value(4), "swapped in");
    teardown(&field);
}

/* ---- no memory for thread records */

#if RCU_IS(BUILTIN)

#define RECORDLESS_THREADS 4
#define REGION             1000

struct worker {
    struct ivs_map *map;
    struct model model;
    uint64_t region;
    struct rng rng;
    unsigned steps;
    bool nested;
};

static void *work_without_record(void *arg) {
    struct worker *worker = arg;
    uint64_t base = worker->region * REGION;
    struct ivs_entry entry;
    for (unsigned i = 0; i < worker->steps && !test_failed(); i++) {
        uint64_t start = base + 1 + rng_below(&worker->rng, REGION - 100), key = base + rng_below(&worker->rng, REGION);
        uint64_t last = start + rng_below(&worker->rng, 90), tag = i + 1;
        if (rng_below(&worker->rng, 2)) {
            CHECK(!ivs_map_map(worker->map, start, last + 1, as_value(tag)), "map");
            model_map(&worker->model, start, last, as_value(tag));
        } else {
            CHECK(!ivs_map_unmap(worker->map, start, last + 1), "unmap");
            model_unmap(&worker->model, start, last);
        }
        ivs_map_read_enter(worker->map);
        if (worker->nested) ivs_map_read_enter(worker->map);
        const struct ivs_node *node = ivs_map_query_rcu(worker->map, key);
        const struct piece *piece = model_query(&worker->model, key);
        CHECK(!node == !piece && (!node || (node->start == piece->start && ivs_node_value(node) == piece->value)),
              "query of %llu", (unsigned long long)key);
        if (worker->nested) ivs_map_read_exit(worker->map);
        ivs_map_read_exit(worker->map);
        int result = ivs_map_lookup(worker->map, key, &entry);
        CHECK(result == (piece ? 0 : IVS_ENOENT), "lookup of %llu: %d", (unsigned long long)key, result);
    }
    return NULL;
}

static void recordless(bool nested) {
    struct worker workers[RECORDLESS_THREADS];
    struct ledger ledger;
    struct ivs_map map;
    ledger_make(&ledger);
    long host_before = test_host_live();
    size_t refused_before = test_host_refused();
    test_host_refuse(true);
    memset(workers, 0, sizeof workers);
    if (!CHECK(!ledger_map(&map, &ledger, 0), "init")) return;
    for (unsigned i = 0; i < RECORDLESS_THREADS; i++) {
        workers[i].map = &map;
        workers[i].region = i;
        workers[i].rng = rng_make(test_seed(), i);
        workers[i].steps = test_scale(5000);
        workers[i].nested = nested;
    }
    run_threads(RECORDLESS_THREADS, work_without_record, workers, sizeof *workers);
    CHECK(test_host_refused() > refused_before, "no record was refused: the test tests nothing");
    map_is_valid(&map, "without records");
    struct model all = {0};
    for (unsigned i = 0; i < RECORDLESS_THREADS; i++) {
        for (size_t k = 0; k < workers[i].model.count; k++)
            model_map(&all, workers[i].model.pieces[k].start, workers[i].model.pieces[k].last,
                      workers[i].model.pieces[k].value);
        model_free(&workers[i].model);
    }
    model_equals_map(&all, &map, "without records");
    model_free(&all);
    while (ivs_domain_reclaim(ivs_map_domain(&map))) {
    }
    CHECK(!ivs_map_destroy(&map), "destroy");
    test_host_refuse(false);
    CHECK(atomic_load(&ledger.live) == 0, "%ld blocks leaked", atomic_load(&ledger.live));
    /* less than before: a record that this thread had in an earlier domain may have gone by the way */
    CHECK(test_host_live() <= host_before, "%ld host blocks, before %ld", test_host_live(), host_before);
}

TEST(no_memory, threads_without_a_record_read_and_update) { recordless(false); }
TEST(no_memory, read_sections_nest_in_threads_without_a_record) { recordless(true); }

TEST(no_memory, a_section_without_record_holds_back_the_grace_period) {
    struct ledger ledger;
    struct ivs_map map;
    ledger_make(&ledger);
    test_host_refuse(true);
    if (!CHECK(!ledger_map(&map, &ledger, 0), "init")) return;
    CHECK(!ivs_map_map(&map, 1, 10, as_value(5)), "map");
    ivs_map_read_enter(&map);
    const struct ivs_node *node = ivs_map_query_rcu(&map, 5);
    struct ivs_lock lock;
    CHECK(ivs_map_trylock(&map, 1, 10, &lock) == 0, "trylock");
    CHECK(ivs_map_swap(&lock, NULL, 0) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(ivs_map_domain(&map));
    CHECK(atomic_load(&ledger.released) == 0, "released under a reader");
    CHECK(node && ivs_node_value(node) == as_value(5), "the node was overwritten under its reader");
    ivs_map_read_exit(&map);
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(ivs_map_domain(&map));
    CHECK(atomic_load(&ledger.released) == 1, "%ld released", atomic_load(&ledger.released));
    test_host_refuse(false);
    CHECK(!ivs_map_destroy(&map), "destroy");
}

static void *unmap_and_reclaim(void *arg) {
    struct ivs_map *map = arg;
    CHECK(!ivs_map_unmap(map, 1, 10), "unmap");
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(ivs_map_domain(map));
    return NULL;
}

TEST(no_memory, a_section_without_record_holds_back_threads_that_have_one) {
    struct ledger ledger;
    struct ivs_map map;
    ledger_make(&ledger);
    if (!CHECK(!ledger_map(&map, &ledger, 0), "init")) return;
    test_host_refuse(true);
    CHECK(!ivs_map_map(&map, 1, 10, as_value(5)), "map");
    ivs_map_read_enter(&map);
    const struct ivs_node *node = ivs_map_query_rcu(&map, 5);
    test_host_refuse(false);
    run_threads(1, unmap_and_reclaim, &map, sizeof map);
    CHECK(atomic_load(&ledger.released) == 0, "released under a reader");
    CHECK(node && ivs_node_value(node) == as_value(5), "the node was overwritten under its reader");
    ivs_map_read_enter(&map); /* gets a record now; the sections nest all the same */
    ivs_map_read_exit(&map);
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(ivs_map_domain(&map));
    CHECK(atomic_load(&ledger.released) == 0, "released under a reader that got a record meanwhile");
    ivs_map_read_exit(&map);
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(ivs_map_domain(&map));
    CHECK(atomic_load(&ledger.released) == 1, "%ld released", atomic_load(&ledger.released));
    CHECK(!ivs_map_destroy(&map), "destroy");
}

#endif
