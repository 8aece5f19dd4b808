/* SPDX-License-Identifier: MIT */
/* Bad arguments and misuse: the defined error each time, and the map as it was. */
#include "support.h"

#include <pthread.h>
#include <string.h>

struct fixture {
    struct ivs_map map;
    struct ledger ledger;
    struct model model;
};

static bool setup(struct fixture *f, size_t payload_bytes) {
    memset(f, 0, sizeof *f);
    ledger_make(&f->ledger);
    if (!CHECK(!ledger_map(&f->map, &f->ledger, payload_bytes), "init")) return false;
    for (uint64_t key = 100; key < 1000; key += 100) {
        CHECK(!ivs_map_map(&f->map, key, key + 50, as_value(key)), "map");
        model_map(&f->model, key, key + 49, as_value(key));
    }
    return !test_failed();
}

static void unchanged(struct fixture *f, const char *after) {
    model_equals_map(&f->model, &f->map, after);
    map_is_valid(&f->map, after);
}

static void teardown(struct fixture *f) {
    CHECK(!ivs_map_destroy(&f->map), "destroy");
    CHECK(atomic_load(&f->ledger.live) == 0, "%ld blocks leaked", atomic_load(&f->ledger.live));
    model_free(&f->model);
}

#define EXPECT(f, call, error)                                                                                         \
    do {                                                                                                               \
        int result_ = (call);                                                                                          \
        CHECK(result_ == (error), "%s gives %d, expected %d", #call, result_, (error));                                \
        unchanged((f), #call);                                                                                         \
    } while (0)

/* The same without a look at the map: while a range is held, or for calls on no map. */
#define EXPECT_CODE(call, error)                                                                                       \
    do {                                                                                                               \
        int result_ = (call);                                                                                          \
        CHECK(result_ == (error), "%s gives %d, expected %d", #call, result_, (error));                                \
    } while (0)

static const uint64_t bad_bounds[][2] = {{5, 5}, {6, 5}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}, {120, 110}};
#define BAD_BOUNDS (sizeof bad_bounds / sizeof *bad_bounds)

TEST(bad_input, a_range_that_ends_at_or_before_its_start_is_refused) {
    struct fixture f;
    struct ivs_lock lock;
    if (!setup(&f, 0)) return;
    struct ivs_domain *domain = ivs_map_domain(&f.map);
    struct ivs_node *node = ivs_node_new(domain, 1, 2, NULL, IVS_SLEEP);
    for (size_t i = 0; i < BAD_BOUNDS; i++) {
        uint64_t start = bad_bounds[i][0], end = bad_bounds[i][1];
        EXPECT(&f, ivs_map_map(&f.map, start, end, NULL), IVS_EINVAL);
        EXPECT(&f, ivs_map_unmap(&f.map, start, end), IVS_EINVAL);
        EXPECT(&f, ivs_map_insert(&f.map, start, end, NULL), IVS_EINVAL);
        EXPECT(&f, ivs_map_lock(&f.map, start, end, &lock), IVS_EINVAL);
        EXPECT(&f, ivs_map_trylock(&f.map, start, end, &lock), IVS_EINVAL);
        EXPECT(&f, ivs_map_timedlock(&f.map, start, end, 1000, &lock), IVS_EINVAL);
        EXPECT(&f, ivs_node_set_bounds(node, start, end), IVS_EINVAL);
        CHECK(!ivs_node_new(domain, start, end, NULL, IVS_SLEEP), "node with bounds %zu", i);
        CHECK(!ivs_node_new_height(domain, start, end, NULL, IVS_SLEEP, 3), "node with bounds %zu", i);
        CHECK(node->start == 1 && node->last == 1, "a refused set_bounds changed the node");
    }
    EXPECT_CODE(ivs_node_discard(domain, node), 0);
    teardown(&f);
}

TEST(bad_input, an_alloc_request_that_makes_no_sense_is_refused) {
    static const struct ivs_alloc bad[] = {
        {.lo = 0, .hi = 1000, .size = 0, .align = 1},           {.lo = 0, .hi = 1000, .size = 10, .align = 3},
        {.lo = 0, .hi = 1000, .size = 10, .align = UINT64_MAX}, {.lo = 0, .hi = 1000, .size = 1001, .align = 1},
        {.lo = 500, .hi = 500, .size = 1, .align = 1},          {.lo = 501, .hi = 500, .size = 1, .align = 1},
        {.lo = UINT64_MAX, .hi = 0, .size = 2, .align = 1},     {.lo = 1, .hi = 0, .size = UINT64_MAX, .align = 6},
    };
    struct fixture f;
    if (!setup(&f, 0)) return;
    struct ivs_node *node = ivs_node_new(ivs_map_domain(&f.map), 1, 2, NULL, IVS_SLEEP);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t start = 4711;
        EXPECT(&f, ivs_map_alloc(&f.map, &bad[i], NULL, &start), IVS_EINVAL);
        EXPECT(&f, ivs_map_alloc_node(&f.map, &bad[i], node, &start), IVS_EINVAL);
    }
    struct ivs_alloc good = {.lo = 0, .hi = 100, .size = 100};
    uint64_t start;
    EXPECT(&f, ivs_map_alloc(NULL, &good, NULL, &start), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc(&f.map, NULL, NULL, &start), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc(&f.map, &good, NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc_node(NULL, &good, node, &start), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc_node(&f.map, NULL, node, &start), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc_node(&f.map, &good, NULL, &start), IVS_EINVAL);
    EXPECT(&f, ivs_map_alloc_node(&f.map, &good, node, NULL), IVS_EINVAL);
    EXPECT_CODE(ivs_node_discard(ivs_map_domain(&f.map), node), 0);
    teardown(&f);
}

TEST(bad_input, a_window_or_hint_at_the_edge_is_not_bad) {
    struct fixture f;
    uint64_t start = 0;
    if (!setup(&f, 0)) return;
    struct ivs_alloc last_key = {.lo = UINT64_MAX, .hi = 0, .size = 1, .align = 0, .hint = 3};
    EXPECT_CODE(ivs_map_alloc(&f.map, &last_key, NULL, &start), 0);
    CHECK(start == UINT64_MAX, "at %#llx", (unsigned long long)start);
    struct ivs_alloc whole = {.lo = 0, .hi = 0, .size = UINT64_MAX, .align = (uint64_t)1 << 63};
    EXPECT_CODE(ivs_map_alloc(&f.map, &whole, NULL, &start), IVS_ENOMEM);
    teardown(&f);
}

TEST(bad_input, null_where_an_object_is_needed_is_refused) {
    struct fixture f;
    struct ivs_lock lock;
    struct ivs_entry entry;
    struct ivs_map_stats stats;
    if (!setup(&f, 0)) return;
    EXPECT(&f, ivs_map_init(NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_destroy(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_lookup(NULL, 1, &entry), IVS_EINVAL);
    EXPECT(&f, ivs_map_lookup(&f.map, 1, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_lookup_next(NULL, 1, &entry), IVS_EINVAL);
    EXPECT(&f, ivs_map_lookup_next(&f.map, 1, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_map(NULL, 1, 2, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_map_node(NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_map_node(&f.map, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_unmap(NULL, 1, 2), IVS_EINVAL);
    EXPECT(&f, ivs_map_insert(NULL, 1, 2, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_insert_node(&f.map, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_lock(NULL, 1, 2, &lock), IVS_EINVAL);
    EXPECT(&f, ivs_map_lock(&f.map, 1, 2, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_trylock(NULL, 1, 2, &lock), IVS_EINVAL);
    EXPECT(&f, ivs_map_trylock(&f.map, 1, 2, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_timedlock(NULL, 1, 2, 5, &lock), IVS_EINVAL);
    EXPECT(&f, ivs_map_timedlock(&f.map, 1, 2, 5, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_unlock(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_swap(NULL, NULL, 0), IVS_EINVAL);
    EXPECT(&f, ivs_map_tune(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_validate(NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_validate(&f.map, NULL), 0);
    EXPECT(&f, ivs_map_get_stats(NULL, &stats), IVS_EINVAL);
    EXPECT(&f, ivs_map_get_stats(&f.map, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_reset_after_fork(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_node_set_bounds(NULL, 1, 2), IVS_EINVAL);
    EXPECT(&f, ivs_node_set_value(NULL, NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_node_discard(NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_node_discard(ivs_map_domain(&f.map), NULL), 0);
    CHECK(!ivs_node_new(NULL, 1, 2, NULL, IVS_SLEEP), "a node of no domain");
    CHECK(!ivs_map_query_rcu(NULL, 1), "a query of no map");
    teardown(&f);
}

static void put_nothing(void *ctx, const char *text) {
    (void)ctx;
    (void)text;
}

static void never_called(struct ivs_defer *defer) {
    (void)defer;
    CHECK(false, "a refused callback was called");
}

TEST(bad_input, bad_domains_dumps_and_callbacks_are_refused) {
    struct fixture f;
    struct ivs_domain domain;
    struct ivs_domain_stats stats;
    struct ivs_defer defer;
    if (!setup(&f, 0)) return;
    struct ivs_domain *own = ivs_map_domain(&f.map);
    struct ivs_domain_config config = {0};
    EXPECT(&f, ivs_domain_init(NULL, NULL), IVS_EINVAL);
    for (size_t bad = 1; bad < 8; bad++) {
        config.payload_size = bad;
        EXPECT(&f, ivs_domain_init(&domain, &config), IVS_EINVAL);
    }
    config.payload_size = 65536 + 8;
    EXPECT(&f, ivs_domain_init(&domain, &config), IVS_EINVAL);
    config.payload_size = 65536;
    EXPECT(&f, ivs_domain_init(&domain, &config), 0);
    EXPECT(&f, ivs_domain_destroy(&domain), 0);
    EXPECT(&f, ivs_domain_destroy(&domain), IVS_EINVAL);
    EXPECT(&f, ivs_domain_destroy(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_domain_synchronize(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_domain_barrier(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_domain_reset_after_fork(NULL), IVS_EINVAL);
    EXPECT(&f, ivs_domain_get_stats(NULL, &stats), IVS_EINVAL);
    EXPECT(&f, ivs_domain_get_stats(own, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_domain_defer(NULL, &defer, never_called), IVS_EINVAL);
    EXPECT(&f, ivs_domain_defer(own, NULL, never_called), IVS_EINVAL);
    EXPECT(&f, ivs_domain_defer(own, &defer, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_dump(NULL, IVS_DUMP_TEXT, put_nothing, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_dump(&f.map, IVS_DUMP_TEXT, NULL, NULL), IVS_EINVAL);
    EXPECT(&f, ivs_map_dump(&f.map, (enum ivs_dump_format)7, put_nothing, NULL), IVS_EINVAL);
    teardown(&f);
}

TEST(bad_input, a_map_that_was_not_made_or_is_gone_is_refused) {
    struct ivs_map map;
    struct ivs_domain domain;
    struct ivs_map_config config = {0};
    memset(&map, 0, sizeof map);
    memset(&domain, 0, sizeof domain);
    EXPECT_CODE(ivs_map_destroy(&map), IVS_EINVAL);
    EXPECT_CODE(ivs_map_validate(&map, NULL), IVS_EINVAL);
    EXPECT_CODE(ivs_map_tune(&map), IVS_EINVAL);
    EXPECT_CODE(ivs_domain_destroy(&domain), IVS_EINVAL);
    EXPECT_CODE(ivs_domain_synchronize(&domain), IVS_EINVAL);
    EXPECT_CODE(ivs_domain_barrier(&domain), IVS_EINVAL);
    config.domain = &domain;
    EXPECT_CODE(ivs_map_init(&map, &config), IVS_EINVAL);
    config.domain = NULL;
    config.own.payload_size = 12;
    EXPECT_CODE(ivs_map_init(&map, &config), IVS_EINVAL);
    EXPECT_CODE(ivs_map_init(&map, NULL), 0);
    EXPECT_CODE(ivs_map_destroy(&map), 0);
    EXPECT_CODE(ivs_map_destroy(&map), IVS_EINVAL);
    EXPECT_CODE(ivs_map_validate(&map, NULL), IVS_EINVAL);
}

TEST(bad_input, a_tower_higher_than_the_highest_is_refused) {
    struct fixture f;
    if (!setup(&f, 0)) return;
    struct ivs_domain *domain = ivs_map_domain(&f.map);
    CHECK(!ivs_node_new_height(domain, 1, 2, NULL, IVS_SLEEP, IVSKIP_MAX_HEIGHT + 1), "height");
    CHECK(!ivs_node_new_height(domain, 1, 2, NULL, IVS_SLEEP, 256 + 1), "a height that wraps");
    struct ivs_node *node = ivs_node_new_height(domain, 1, 2, NULL, IVS_SLEEP, IVSKIP_MAX_HEIGHT);
    CHECK(node, "the highest tower");
    EXPECT(&f, ivs_node_discard(domain, node), 0);
    teardown(&f);
}

/* A run of nodes that Swap refuses with `error`; afterwards nothing has changed and the lock still works. */
static void swap_refuses(struct fixture *f, const uint64_t (*bounds)[2], size_t count, int error) {
    struct ivs_domain *domain = ivs_map_domain(&f->map);
    struct ivs_node *run[4];
    struct ivs_lock lock;
    for (size_t i = 0; i < count; i++) {
        run[i] = ivs_node_new(domain, bounds[i][0], bounds[i][1], NULL, IVS_SLEEP);
        if (!CHECK(run[i], "node")) return;
    }
    EXPECT_CODE(ivs_map_lock(&f->map, 200, 350, &lock), 0);
    CHECK(lock.floor == 150 && lock.ceiling == 400 && lock.count == 2, "the lock of the fixture");
    struct ivs_node *first = ivs_lock_first(&lock);
    EXPECT_CODE(ivs_map_swap(&lock, run, count), error);
    CHECK(lock.count == 2 && ivs_lock_first(&lock) == first, "a refused swap changed the handle");
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    unchanged(f, "refused swap");
    for (size_t i = 0; i < count; i++) EXPECT_CODE(ivs_node_discard(domain, run[i]), 0);
}

TEST(bad_input, a_run_unsorted_overlapping_or_outside_the_locked_space_is_refused) {
    static const uint64_t unsorted[][2] = {{300, 310}, {200, 210}};
    static const uint64_t overlap[][2] = {{200, 210}, {209, 220}};
    static const uint64_t twice[][2] = {{200, 210}, {200, 210}};
    static const uint64_t below[][2] = {{149, 160}};
    static const uint64_t above[][2] = {{390, 401}};
    static const uint64_t far_above[][2] = {{160, 170}, {500, 510}};
    static const uint64_t endless[][2] = {{160, 0}};
    static const uint64_t third[][2] = {{160, 170}, {170, 180}, {179, 190}};
    struct fixture f;
    if (!setup(&f, 0)) return;
    swap_refuses(&f, unsorted, 2, IVS_EINVAL);
    swap_refuses(&f, overlap, 2, IVS_EINVAL);
    swap_refuses(&f, twice, 2, IVS_EINVAL);
    swap_refuses(&f, below, 1, IVS_EINVAL);
    swap_refuses(&f, above, 1, IVS_EINVAL);
    swap_refuses(&f, far_above, 2, IVS_EINVAL);
    swap_refuses(&f, endless, 1, IVS_EINVAL);
    swap_refuses(&f, third, 3, IVS_EINVAL);
    teardown(&f);
}

TEST(bad_input, a_run_with_null_or_the_same_node_twice_is_refused) {
    struct fixture f;
    struct ivs_lock lock;
    if (!setup(&f, 0)) return;
    struct ivs_domain *domain = ivs_map_domain(&f.map);
    struct ivs_node *node = ivs_node_new(domain, 200, 210, NULL, IVS_SLEEP);
    struct ivs_node *hole[] = {node, NULL}, *same[] = {node, node};
    EXPECT_CODE(ivs_map_lock(&f.map, 200, 350, &lock), 0);
    EXPECT_CODE(ivs_map_swap(&lock, NULL, 1), IVS_EINVAL);
    EXPECT_CODE(ivs_map_swap(&lock, hole, 2), IVS_EINVAL);
    EXPECT_CODE(ivs_map_swap(&lock, same, 2), IVS_EINVAL);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    unchanged(&f, "swap");
    EXPECT_CODE(ivs_node_discard(domain, node), 0);
    teardown(&f);
}

TEST(bad_input, a_node_that_was_published_is_not_taken_again) {
    struct fixture f;
    struct ivs_lock lock;
    struct ivs_alloc request = {.lo = 0, .hi = 0, .size = 1};
    uint64_t start;
    if (!setup(&f, 0)) return;
    struct ivs_domain *domain = ivs_map_domain(&f.map);
    struct ivs_node *node = ivs_node_new(domain, 5, 10, NULL, IVS_SLEEP);
    EXPECT_CODE(ivs_map_insert_node(&f.map, node), 0);
    model_map(&f.model, 5, 9, NULL);
    EXPECT(&f, ivs_map_insert_node(&f.map, node), IVS_EPERM);
    EXPECT(&f, ivs_map_map_node(&f.map, node), IVS_EPERM);
    EXPECT(&f, ivs_map_alloc_node(&f.map, &request, node, &start), IVS_EPERM);
    EXPECT(&f, ivs_node_discard(domain, node), IVS_EPERM);
    EXPECT(&f, ivs_node_set_bounds(node, 50, 60), IVS_EPERM);
    EXPECT(&f, ivs_node_set_value(NULL, node, as_value(3)), IVS_EPERM);
    EXPECT_CODE(ivs_map_lock(&f.map, 1, 20, &lock), 0);
    EXPECT_CODE(ivs_map_swap(&lock, &node, 1), IVS_EPERM);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    unchanged(&f, "swap of a published node");
    ivs_map_read_enter(&f.map); /* keeps the node's memory although it leaves the map */
    EXPECT_CODE(ivs_map_trylock(&f.map, 1, 20, &lock), 0);
    EXPECT_CODE(ivs_map_swap(&lock, NULL, 0), 0);
    EXPECT_CODE(ivs_map_swap(&lock, &node, 1), IVS_EPERM);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    EXPECT_CODE(ivs_node_discard(domain, node), IVS_EPERM);
    ivs_map_read_exit(&f.map);
    model_unmap(&f.model, 5, 9);
    unchanged(&f, "discard of a replaced node");
    teardown(&f);
}

TEST(bad_input, a_lock_is_let_go_once_and_a_failed_lock_holds_nothing) {
    struct fixture f;
    struct ivs_lock lock, other;
    if (!setup(&f, 0)) return;
    EXPECT_CODE(ivs_map_lock(&f.map, 200, 300, &lock), 0);
    memset(&other, 0xa5, sizeof other);
    EXPECT_CODE(ivs_map_trylock(&f.map, 250, 260, &other), IVS_EBUSY);
    EXPECT_CODE(ivs_map_unlock(&other), IVS_EPERM);
    EXPECT_CODE(ivs_map_swap(&other, NULL, 0), IVS_EPERM);
    memset(&other, 0xa5, sizeof other);
    EXPECT_CODE(ivs_map_timedlock(&f.map, 250, 260, 1000000, &other), IVS_ETIMEDOUT);
    EXPECT_CODE(ivs_map_unlock(&other), IVS_EPERM);
    memset(&other, 0xa5, sizeof other);
    EXPECT_CODE(ivs_map_lock(&f.map, 7, 7, &other), IVS_EINVAL);
    EXPECT_CODE(ivs_map_unlock(&other), IVS_EPERM);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    EXPECT(&f, ivs_map_unlock(&lock), IVS_EPERM);
    EXPECT(&f, ivs_map_swap(&lock, NULL, 0), IVS_EPERM);
    CHECK(lock.map == NULL, "a lock that was let go still names its map");
    teardown(&f);
}

TEST(bad_input, a_value_is_set_only_in_a_node_that_the_lock_holds) {
    struct fixture f;
    struct ivs_lock lock;
    if (!setup(&f, 0)) return;
    ivs_map_read_enter(&f.map);
    struct ivs_node *outside = ivs_map_query_rcu(&f.map, 500), *inside = ivs_map_query_rcu(&f.map, 200);
    EXPECT_CODE(ivs_map_trylock(&f.map, 200, 300, &lock), 0);
    EXPECT_CODE(ivs_node_set_value(&lock, outside, as_value(1)), IVS_EPERM);
    EXPECT_CODE(ivs_node_set_value(&lock, inside, as_value(2)), 0);
    EXPECT_CODE(ivs_node_set_value(NULL, inside, as_value(3)), IVS_EPERM);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    EXPECT_CODE(ivs_node_set_value(&lock, inside, as_value(4)), IVS_EPERM);
    ivs_map_read_exit(&f.map);
    model_map(&f.model, 200, 249, as_value(2));
    unchanged(&f, "set_value");
    teardown(&f);
}

TEST(bad_input, destroy_waits_for_nobody_and_answers_busy) {
    struct fixture f;
    struct ivs_lock lock;
    if (!setup(&f, 0)) return;
    EXPECT_CODE(ivs_map_lock(&f.map, 2000, 3000, &lock), 0); /* only the last node and the gap behind it */
    EXPECT_CODE(ivs_map_destroy(&f.map), IVS_EBUSY);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    EXPECT_CODE(ivs_map_lock(&f.map, 0, 1, &lock), 0); /* only the head */
    EXPECT_CODE(ivs_map_destroy(&f.map), IVS_EBUSY);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    if (RCU_TELLS_SECTIONS) {
        ivs_map_read_enter(&f.map);
        EXPECT(&f, ivs_map_destroy(&f.map), IVS_EBUSY);
        ivs_map_read_exit(&f.map);
    }
    unchanged(&f, "destroy that was refused");
    teardown(&f);
}

#if RCU_TELLS_SECTIONS
TEST(bad_input, waiting_calls_inside_a_read_section_answer_deadlock) {
    struct fixture f;
    struct ivs_lock lock;
    struct ivs_alloc request = {.lo = 0, .hi = 0, .size = 1};
    uint64_t start;
    if (!setup(&f, 0)) return;
    struct ivs_domain *domain = ivs_map_domain(&f.map);
    ivs_map_read_enter(&f.map);
    ivs_map_read_enter(&f.map);
    for (int depth = 2; depth > 0; depth--) {
        EXPECT(&f, ivs_map_lock(&f.map, 1, 2, &lock), IVS_EDEADLK);
        EXPECT(&f, ivs_map_timedlock(&f.map, 1, 2, 1000, &lock), IVS_EDEADLK);
        EXPECT(&f, ivs_map_map(&f.map, 1, 2, NULL), IVS_EDEADLK);
        EXPECT(&f, ivs_map_unmap(&f.map, 120, 130), IVS_EDEADLK);
        EXPECT(&f, ivs_map_insert(&f.map, 1, 2, NULL), IVS_EDEADLK);
        EXPECT(&f, ivs_map_alloc(&f.map, &request, NULL, &start), IVS_EDEADLK);
        EXPECT(&f, ivs_map_tune(&f.map), IVS_EDEADLK);
        EXPECT(&f, ivs_domain_synchronize(domain), IVS_EDEADLK);
        EXPECT(&f, ivs_domain_barrier(domain), IVS_EDEADLK);
        EXPECT_CODE(ivs_map_trylock(&f.map, 1, 2, &lock), 0);
        EXPECT_CODE(ivs_map_unlock(&lock), 0);
        ivs_map_read_exit(&f.map);
    }
    EXPECT(&f, ivs_domain_synchronize(domain), 0);
#if RCU_IS(BUILTIN)
    ivs_map_read_exit(&f.map); /* one too many: does nothing */
#endif
    model_map(&f.model, 1, 1, as_value(1));
    EXPECT(&f, ivs_map_insert(&f.map, 1, 2, as_value(1)), 0);
    teardown(&f);
}
#endif

TEST(bad_input, insert_into_what_is_covered_answers_exists) {
    static const uint64_t covered[][2] = {{100, 101}, {149, 150}, {149, 200}, {90, 101},
                                          {160, 201}, {0, 0},     {100, 150}};
    struct fixture f;
    if (!setup(&f, 0)) return;
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
        EXPECT(&f, ivs_map_insert(&f.map, covered[i][0], covered[i][1], NULL), IVS_EEXIST);
    teardown(&f);
}

static void *lock_fails_here(void *arg) {
    struct fixture *f = arg;
    struct ivs_lock lock;
    EXPECT_CODE(ivs_map_trylock(&f->map, 210, 220, &lock), IVS_EBUSY);
    EXPECT_CODE(ivs_map_trylock(&f->map, 180, 190, &lock), IVS_EBUSY); /* the gap before the held node */
    EXPECT_CODE(ivs_map_trylock(&f->map, 800, 820, &lock), 0);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    uint64_t begin = now_ns();
    EXPECT_CODE(ivs_map_timedlock(&f->map, 210, 220, 30000000, &lock), IVS_ETIMEDOUT);
    CHECK(now_ns() - begin >= 30000000, "timed out after %llu ns", (unsigned long long)(now_ns() - begin));
    CHECK(now_ns() - begin < 20000000000u, "timed out after %llu ns", (unsigned long long)(now_ns() - begin));
    EXPECT_CODE(ivs_map_timedlock(&f->map, 210, 220, 0, &lock), IVS_ETIMEDOUT);
    return NULL;
}

TEST(bad_input, another_thread_gets_busy_or_timeout_and_holds_nothing) {
    struct fixture f;
    struct ivs_lock lock;
    if (!setup(&f, 0)) return;
    EXPECT_CODE(ivs_map_lock(&f.map, 200, 300, &lock), 0);
    run_threads(1, lock_fails_here, &f, sizeof f);
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    unchanged(&f, "failed locks");
    EXPECT_CODE(ivs_map_trylock(&f.map, 0, 0, &lock), 0); /* nobody holds anything */
    EXPECT_CODE(ivs_map_unlock(&lock), 0);
    teardown(&f);
}
