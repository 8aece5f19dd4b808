/* SPDX-License-Identifier: MIT */
/* Random operations against the sequential model; the entire content is compared and validated after every step. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The accounted payload: what a node's value points to, and the bytes beside the node. */
struct object {
    uint64_t tag;
    int released;
    struct object *next;
};

struct bytes {
    uint64_t tag;    /* of the mapping */
    uint64_t offset; /* of the node's start in it, as a file mapping has */
};

struct universe {
    const char *name;
    uint64_t base;      /* keys base .. base + span - 1 (modulo 2^64 is never reached) */
    uint64_t span;      /* 0: 2^64 */
    bool edges;         /* only few keys, see edge_keys */
    unsigned max_shift; /* intervals are at most span >> min_shift..max_shift long */
    unsigned min_shift;
};

static const struct universe dense = {"dense", 0, 201, false, 7, 0};
static const struct universe crowded = {"crowded", 1 << 20, 8000, false, 13, 9};
static const struct universe top = {"top", UINT64_MAX - 199, 200, false, 7, 0};
static const struct universe wide = {"wide", 0, 0, false, 14, 0};
static const struct universe edges = {"edges", 0, 0, true, 0, 0};
static const uint64_t edge_keys[] = {0,
                                     1,
                                     2,
                                     3,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0x8000000000000001,
                                     UINT64_MAX - 3,
                                     UINT64_MAX - 2,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
#define EDGE_KEYS (sizeof edge_keys / sizeof *edge_keys)

struct world {
    struct ivs_map map;
    struct ledger ledger;
    struct model model;
    struct rng rng;
    const struct universe *universe;
    bool accounted;  /* values are objects, payload bytes and callbacks are in use */
    unsigned height; /* 0: random towers; otherwise chosen 1..height */
    uint64_t tags;
    struct object *objects;
    char what[160]; /* the step under way */
};

/* ---- values */

static struct object *object_new(struct world *world, uint64_t tag) {
    struct object *object = calloc(1, sizeof *object);
    if (!object) abort();
    object->tag = tag;
    object->next = world->objects;
    world->objects = object;
    return object;
}

static void on_release(struct ledger *ledger, struct ivs_node *node) {
    struct world *world = ledger->user;
    if (!world->accounted) return;
    struct object *object = ivs_node_value(node);
    object->released++;
    CHECK(object->released == 1, "value %llu is released %d times", (unsigned long long)object->tag, object->released);
}

static int on_fragment(void *ctx, const struct ivs_node *old, struct ivs_node *fragment) {
    struct world *world = ctx;
    struct ivs_domain *domain = ivs_map_domain(&world->map);
    struct object *parent = ivs_node_value(old);
    const struct bytes *from = ivs_node_payload(domain, (struct ivs_node *)(uintptr_t)old);
    struct bytes *to = ivs_node_payload(domain, fragment);
    CHECK(fragment->start >= old->start && fragment->last <= old->last, "fragment outside its node");
    CHECK(parent->released == 0, "fragment of a released value");
    to->tag = from->tag;
    to->offset = from->offset + (fragment->start - old->start);
    CHECK(!ivs_node_set_value(NULL, fragment, object_new(world, parent->tag)), "value of a fragment");
    return 0;
}

/* A prepared node; the model's value for it is the tag. */
static struct ivs_node *node_new(struct world *world, uint64_t start, uint64_t last, uint64_t tag) {
    struct ivs_domain *domain = ivs_map_domain(&world->map);
    void *value = world->accounted ? (void *)object_new(world, tag) : as_value(tag);
    unsigned height = world->height ? 1 + (unsigned)rng_below(&world->rng, world->height) : 0;
    struct ivs_node *node = ivs_node_new_height(domain, start, last + 1, value, IVS_SLEEP, height);
    if (!CHECK(node, "node [%#llx, %#llx]", (unsigned long long)start, (unsigned long long)last)) abort();
    if (world->accounted) {
        struct bytes *bytes = ivs_node_payload(domain, node);
        CHECK(bytes->tag == 0 && bytes->offset == 0, "payload bytes of a new node are not zero");
        bytes->tag = tag;
    }
    return node;
}

/* The update refused the node: it is ours still, and so is its value. */
static void node_refused(struct world *world, struct ivs_node *node) {
    struct object *object = ivs_node_value(node);
    if (world->accounted) CHECK(object->released == 0, "value of a refused node was released");
    CHECK(!ivs_node_discard(ivs_map_domain(&world->map), node), "discard");
    if (world->accounted) object->released++;
}

/* ---- random ranges */

static uint64_t some_key(struct world *world) {
    if (world->universe->edges) return edge_keys[rng_below(&world->rng, EDGE_KEYS)];
    return world->universe->base + rng_below(&world->rng, world->universe->span);
}

static void some_range(struct world *world, uint64_t *start, uint64_t *last) {
    const struct universe *u = world->universe;
    uint64_t a = some_key(world), b = some_key(world);
    if (!u->edges) {
        uint64_t room = u->span - 1 - (a - u->base);
        unsigned shift = u->min_shift + (unsigned)rng_below(&world->rng, u->max_shift - u->min_shift + 1);
        uint64_t length = rng_below(&world->rng, 1 + ((u->span - 1) >> shift));
        b = a + (length < room ? length : room);
        if (rng_below(&world->rng, 8) == 0 && world->model.count) { /* touch what is there */
            const struct piece *piece = &world->model.pieces[rng_below(&world->rng, world->model.count)];
            if (piece->last < b) a = piece->last + 1;
        }
    }
    *start = a < b ? a : b;
    *last = a < b ? b : a;
}

static void describe(struct world *world, const char *verb, uint64_t start, uint64_t last) {
    snprintf(world->what, sizeof world->what, "%s [%#llx, %#llx]", verb, (unsigned long long)start,
             (unsigned long long)last);
}

/* ---- steps */

static void step_map(struct world *world) {
    uint64_t start, last, tag = ++world->tags;
    int result;
    some_range(world, &start, &last);
    describe(world, "map", start, last);
    if (world->accounted || rng_below(&world->rng, 2))
        result = ivs_map_map_node(&world->map, node_new(world, start, last, tag));
    else result = ivs_map_map(&world->map, start, last + 1, as_value(tag));
    CHECK(result == 0, "%s: %d", world->what, result);
    model_map(&world->model, start, last, as_value(tag));
}

static void step_unmap(struct world *world) {
    uint64_t start, last;
    some_range(world, &start, &last);
    describe(world, "unmap", start, last);
    int result = ivs_map_unmap(&world->map, start, last + 1);
    CHECK(result == 0, "%s: %d", world->what, result);
    model_unmap(&world->model, start, last);
}

static void step_insert(struct world *world) {
    uint64_t start, last, tag = ++world->tags;
    some_range(world, &start, &last);
    describe(world, "insert", start, last);
    bool fits = model_is_free(&world->model, start, last);
    struct ivs_node *node = NULL;
    int result;
    if (world->accounted || rng_below(&world->rng, 2)) {
        node = node_new(world, start, last, tag);
        result = ivs_map_insert_node(&world->map, node);
    } else {
        result = ivs_map_insert(&world->map, start, last + 1, as_value(tag));
    }
    CHECK(result == (fits ? 0 : IVS_EEXIST), "%s: %d, free: %d", world->what, result, fits);
    if (result && node) node_refused(world, node);
    if (fits) model_map(&world->model, start, last, as_value(tag));
}

static struct ivs_alloc some_request(struct world *world) {
    struct ivs_alloc request = {0};
    uint64_t last;
    some_range(world, &request.lo, &last);
    request.hi = last + 1;
    uint64_t keys = last - request.lo; /* less one */
    request.size = 1 + (keys >> rng_below(&world->rng, 16));
    if (request.size == 0 || request.size - 1 > keys) request.size = 1;
    request.align = rng_below(&world->rng, 3) ? (uint64_t)1 << rng_below(&world->rng, 8) : 0;
    if (rng_below(&world->rng, 32) == 0) request.align = (uint64_t)1 << 63;
    request.hint = rng_below(&world->rng, 2) ? some_key(world) : request.lo;
    return request;
}

static void step_alloc(struct world *world) {
    struct ivs_alloc request = some_request(world);
    uint64_t tag = ++world->tags, want = 0, got = 0;
    bool fits = model_alloc(&world->model, &request, &want);
    struct ivs_node *node = NULL;
    int result;
    snprintf(world->what, sizeof world->what, "alloc %#llx align %#llx in [%#llx, %#llx) hint %#llx",
             (unsigned long long)request.size, (unsigned long long)request.align, (unsigned long long)request.lo,
             (unsigned long long)request.hi, (unsigned long long)request.hint);
    if (world->accounted || rng_below(&world->rng, 2)) {
        node = node_new(world, 0, 0, tag);
        result = ivs_map_alloc_node(&world->map, &request, node, &got);
    } else {
        result = ivs_map_alloc(&world->map, &request, as_value(tag), &got);
    }
    CHECK(result == (fits ? 0 : IVS_ENOMEM), "%s: %d, fits: %d", world->what, result, fits);
    if (result && node) node_refused(world, node);
    if (!fits) return;
    CHECK(got == want, "%s: placed at %#llx, expected %#llx", world->what, (unsigned long long)got,
          (unsigned long long)want);
    model_map(&world->model, want, want + (request.size - 1), as_value(tag));
}

/* ---- lock, swap, set_value */

#define MAX_RUN 4

static void check_locked_nodes(struct world *world, const struct ivs_lock *lock, uint64_t start, uint64_t last) {
    const struct piece *piece = model_next(&world->model, start);
    struct ivs_node *node = ivs_lock_first(lock);
    size_t count = 0;
    for (; piece && piece->start <= last; node = ivs_lock_next(lock, node), count++) {
        if (!CHECK(node && node->start == piece->start && node->last == piece->last, "%s: locked node %zu", world->what,
                   count))
            return;
        if (piece->last == UINT64_MAX) {
            piece = NULL;
            node = ivs_lock_next(lock, node);
            count++;
            break;
        }
        piece = model_next(&world->model, piece->last + 1);
    }
    CHECK(!node, "%s: more nodes are locked than meet the range", world->what);
    CHECK(lock->count == count, "%s: count %zu, expected %zu", world->what, lock->count, count);
}

static void owned_space(const struct world *world, uint64_t start, uint64_t last, uint64_t *floor, uint64_t *ceiling) {
    *floor = 0;
    *ceiling = 0;
    for (size_t i = 0; i < world->model.count; i++) {
        if (world->model.pieces[i].last < start) *floor = world->model.pieces[i].last + 1;
        if (world->model.pieces[i].start > last) {
            *ceiling = world->model.pieces[i].start;
            break;
        }
    }
}

static void swap_in_a_random_run(struct world *world, struct ivs_lock *lock) {
    struct ivs_node *run[MAX_RUN];
    size_t count = 0, wanted = (size_t)rng_below(&world->rng, MAX_RUN + 1);
    uint64_t at = lock->floor, last = lock->ceiling - 1;
    model_unmap(&world->model, at, last);
    while (count < wanted) {
        uint64_t keys = (last - at) >> rng_below(&world->rng, 5);
        uint64_t start = at + rng_below(&world->rng, 2) * rng_below(&world->rng, keys / 2 + 1);
        uint64_t end = start + rng_below(&world->rng, (last - start) / 2 + 1);
        uint64_t tag = ++world->tags;
        run[count++] = node_new(world, start, end, tag);
        model_map(&world->model, start, end, as_value(tag));
        if (end >= last) break;
        at = end + 1;
    }
    int result = ivs_map_swap(lock, run, count);
    CHECK(result == 0, "%s: swap of %zu: %d", world->what, count, result);
    size_t i = 0;
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node), i++)
        CHECK(i < count && node == run[i], "%s: locked after the swap, node %zu", world->what, i);
    CHECK(i == count && lock->count == count, "%s: %zu locked after the swap, expected %zu", world->what, i, count);
}

static void set_some_value(struct world *world, struct ivs_lock *lock) {
    struct ivs_node *node = ivs_lock_first(lock);
    for (uint64_t skip = rng_below(&world->rng, lock->count + 1); skip && node; skip--)
        node = ivs_lock_next(lock, node);
    if (!node || world->accounted) return;
    uint64_t tag = ++world->tags;
    CHECK(!ivs_node_set_value(lock, node, as_value(tag)), "%s: set_value", world->what);
    for (size_t i = 0; i < world->model.count; i++)
        if (world->model.pieces[i].start == node->start) world->model.pieces[i].value = as_value(tag);
}

static int some_lock(struct world *world, uint64_t start, uint64_t last, struct ivs_lock *lock) {
    switch (rng_below(&world->rng, 3)) {
    case 0: return ivs_map_lock(&world->map, start, last + 1, lock);
    case 1: return ivs_map_trylock(&world->map, start, last + 1, lock);
    default: return ivs_map_timedlock(&world->map, start, last + 1, 1000000000, lock);
    }
}

static void step_lock(struct world *world) {
    uint64_t start, last, floor, ceiling;
    struct ivs_lock lock, other;
    some_range(world, &start, &last);
    describe(world, "lock", start, last);
    owned_space(world, start, last, &floor, &ceiling);
    int result = some_lock(world, start, last, &lock);
    if (!CHECK(result == 0, "%s: %d", world->what, result)) return;
    CHECK(lock.map == &world->map && lock.start == start && lock.end == last + 1, "%s: handle", world->what);
    CHECK(lock.floor == floor && lock.ceiling == ceiling, "%s: owns [%#llx, %#llx), expected [%#llx, %#llx)",
          world->what, (unsigned long long)lock.floor, (unsigned long long)lock.ceiling, (unsigned long long)floor,
          (unsigned long long)ceiling);
    check_locked_nodes(world, &lock, start, last);
    for (uint64_t swaps = rng_below(&world->rng, 3); swaps; swaps--) {
        if (rng_below(&world->rng, 2)) set_some_value(world, &lock);
        swap_in_a_random_run(world, &lock);
        CHECK(lock.floor == floor && lock.ceiling == ceiling, "%s: the swap moved what is owned", world->what);
    }
    if (rng_below(&world->rng, 2)) set_some_value(world, &lock);
    result = ivs_map_trylock(&world->map, start, last + 1, &other);
    CHECK(result == IVS_EBUSY, "%s: trylock of what is held: %d", world->what, result);
    result = ivs_map_destroy(&world->map);
    CHECK(result == IVS_EBUSY, "%s: destroy of a held map: %d", world->what, result);
    CHECK(!ivs_map_unlock(&lock), "%s: unlock", world->what);
}

static void step_look(struct world *world) {
    uint64_t key = some_key(world);
    const struct piece *at = model_query(&world->model, key), *next = model_next(&world->model, key);
    struct ivs_entry entry;
    describe(world, "look", key, key);
    ivs_map_read_enter(&world->map);
    struct ivs_node *node = ivs_map_query_rcu(&world->map, key);
    CHECK(!node == !at && (!node || node->start == at->start), "%s: query", world->what);
    node = ivs_map_query_next_rcu(&world->map, key);
    CHECK(!node == !next && (!node || node->start == next->start), "%s: query_next", world->what);
    ivs_map_read_exit(&world->map);
    int result = ivs_map_lookup(&world->map, key, &entry);
    CHECK(result == (at ? 0 : IVS_ENOENT), "%s: lookup %d", world->what, result);
    if (at) CHECK(entry.start == at->start && entry.end == at->last + 1, "%s: lookup's entry", world->what);
    result = ivs_map_lookup_next(&world->map, key, &entry);
    CHECK(result == (next ? 0 : IVS_ENOENT), "%s: lookup_next %d", world->what, result);
    if (next) CHECK(entry.start == next->start && entry.end == next->last + 1, "%s: next entry", world->what);
}

/* A new entry table, for what is there now. */
static void step_tune(struct world *world) {
    struct ivs_map_stats stats;
    describe(world, "tune", 0, 0);
    CHECK(!ivs_map_tune(&world->map), "tune");
    CHECK(!ivs_map_get_stats(&world->map, &stats), "stats");
    size_t used = stats.table_used, n = world->model.count;
    CHECK(n < 2 ? stats.table_slots == 0 : stats.table_slots >= used && used >= 1 && used <= n, "%zu of %zu slots for %zu nodes",
          used, stats.table_slots, n);
    CHECK(!stats.table_slots == !stats.table_bytes && stats.table_bytes <= 256 + 32 * n, "%zu bytes for %zu nodes",
          stats.table_bytes, n);
}

/* ---- the comparison after every step */

static void compare_node(struct world *world, const struct ivs_node *node, const struct piece *piece) {
    uint64_t tag = as_number(ivs_node_value(node)), offset = piece->start - piece->origin;
    if (world->accounted) {
        const struct object *object = ivs_node_value(node);
        const struct bytes *bytes = ivs_node_payload(ivs_map_domain(&world->map), (struct ivs_node *)(uintptr_t)node);
        CHECK(object->released == 0, "%s: a released value is in the map", world->what);
        CHECK(bytes->tag == object->tag && bytes->offset == offset, "%s: payload tag %llu offset %#llx", world->what,
              (unsigned long long)bytes->tag, (unsigned long long)bytes->offset);
        tag = object->tag;
    }
    CHECK(node->start == piece->start && node->last == piece->last && tag == as_number(piece->value),
          "%s: node [%#llx, %#llx] = %llu, expected [%#llx, %#llx] = %llu", world->what,
          (unsigned long long)node->start, (unsigned long long)node->last, (unsigned long long)tag,
          (unsigned long long)piece->start, (unsigned long long)piece->last,
          (unsigned long long)as_number(piece->value));
}

static void compare(struct world *world) {
    size_t i = 0;
    struct ivs_node *node;
    ivs_map_read_enter(&world->map);
    ivs_map_for_each_rcu (node, &world->map, 0, 0) {
        if (!CHECK(i < world->model.count, "%s: more nodes than %zu", world->what, world->model.count)) break;
        compare_node(world, node, &world->model.pieces[i++]);
    }
    ivs_map_read_exit(&world->map);
    CHECK(i == world->model.count, "%s: %zu nodes, expected %zu", world->what, i, world->model.count);
    map_is_valid(&world->map, world->what);
}

static void compare_stats(struct world *world) {
    struct ivs_map_stats stats;
    size_t sum = 0;
    uint64_t keys = 0;
    for (size_t i = 0; i < world->model.count; i++)
        keys += world->model.pieces[i].last - world->model.pieces[i].start + 1;
    CHECK(!ivs_map_get_stats(&world->map, &stats), "stats");
    for (size_t i = 0; i < IVSKIP_MAX_HEIGHT; i++) sum += stats.at_height[i];
    CHECK(stats.nodes == world->model.count && sum == stats.nodes, "stats: %zu nodes, %zu by height, expected %zu",
          stats.nodes, sum, world->model.count);
    CHECK(stats.keys == keys, "stats: %llu keys, expected %llu", (unsigned long long)stats.keys,
          (unsigned long long)keys);
}

/* ---- a run */

static void world_end(struct world *world) {
    CHECK(!ivs_map_destroy(&world->map), "destroy");
    CHECK(atomic_load(&world->ledger.live) == 0, "%ld blocks leaked", atomic_load(&world->ledger.live));
    while (world->objects) {
        struct object *object = world->objects;
        world->objects = object->next;
        CHECK(object->released == 1, "value %llu was released %d times", (unsigned long long)object->tag,
              object->released);
        free(object);
    }
    model_free(&world->model);
}

static void world_run(const struct universe *universe, unsigned height, bool accounted, unsigned steps,
                      uint64_t stream) {
    static void (*const step[])(struct world *) = {step_map,   step_map,  step_unmap, step_insert,
                                                   step_alloc, step_lock, step_look};
    struct world world;
    memset(&world, 0, sizeof world);
    ledger_make(&world.ledger);
    world.ledger.user = &world;
    world.ledger.on_release = on_release;
    world.rng = rng_make(test_seed(), stream);
    world.universe = universe;
    world.accounted = accounted;
    world.height = height;
    struct ivs_map_config config = {0};
    config.own.ops = &ledger_ops;
    config.own.ctx = &world.ledger;
    config.own.payload_size = accounted ? sizeof(struct bytes) : 0;
    config.own.seed = test_seed() + stream + 1;
    config.fragment = accounted ? on_fragment : NULL;
    config.ctx = &world;
    if (!CHECK(!ivs_map_init(&world.map, &config), "init")) return;
    for (unsigned i = 0; i < steps && !test_failed(); i++) {
        if (rng_below(&world.rng, 50) == 0) step_tune(&world);
        else step[rng_below(&world.rng, sizeof step / sizeof *step)](&world);
        compare(&world);
        if (i % 64 == 0) compare_stats(&world);
        if (test_failed()) fprintf(stderr, "     universe %s, step %u: %s\n", universe->name, i, world.what);
    }
    world_end(&world);
}

#define STEPS 100000

TEST(oracle, a_small_dense_map_does_what_the_model_does) { world_run(&dense, 0, false, test_scale(STEPS), 1); }

TEST(oracle, a_map_at_the_top_of_the_key_space_does_what_the_model_does) {
    world_run(&top, 0, false, test_scale(STEPS), 2);
}

TEST(oracle, a_map_of_random_64_bit_keys_does_what_the_model_does) {
    world_run(&wide, 0, false, test_scale(STEPS / 2), 3);
}

TEST(oracle, a_map_of_many_short_intervals_does_what_the_model_does) {
    world_run(&crowded, 0, false, test_scale(STEPS / 10), 13);
    world_run(&crowded, 0, true, test_scale(STEPS / 20), 14);
}

TEST(oracle, first_and_last_key_and_the_whole_space_are_ordinary) { world_run(&edges, 0, false, test_scale(STEPS), 4); }

TEST(oracle, chosen_tower_heights_change_nothing_but_speed) {
    world_run(&dense, IVSKIP_MAX_HEIGHT, false, test_scale(STEPS / 2), 5);
    world_run(&dense, 1, false, test_scale(STEPS / 4), 6);
    world_run(&wide, 3, false, test_scale(STEPS / 4), 7);
    world_run(&edges, IVSKIP_MAX_HEIGHT, false, test_scale(STEPS / 4), 8);
}

TEST(oracle, every_payload_is_cut_at_the_right_offset_and_released_once) {
    world_run(&dense, 0, true, test_scale(STEPS / 2), 9);
    world_run(&top, IVSKIP_MAX_HEIGHT, true, test_scale(STEPS / 4), 10);
    world_run(&edges, 0, true, test_scale(STEPS / 4), 11);
    world_run(&wide, 0, true, test_scale(STEPS / 4), 12);
}

TEST(oracle, without_a_fragment_callback_value_and_payload_bytes_are_copied) {
    struct ivs_map map;
    struct ledger ledger;
    ledger_make(&ledger);
    if (!CHECK(!ledger_map(&map, &ledger, 16), "init")) return;
    struct ivs_node *node = ivs_node_new(ivs_map_domain(&map), 10, 100, as_value(7), IVS_SLEEP);
    if (!CHECK(node, "node")) return;
    memcpy(ivs_node_payload(ivs_map_domain(&map), node), "sixteen bytes...", 16);
    CHECK(!ivs_map_map_node(&map, node), "map_node");
    CHECK(!ivs_map_unmap(&map, 40, 50), "unmap");
    size_t count = 0;
    ivs_map_read_enter(&map);
    ivs_map_for_each_rcu (node, &map, 0, 0) {
        CHECK(!memcmp(ivs_node_payload(ivs_map_domain(&map), node), "sixteen bytes...", 16), "part %zu", count);
        CHECK(ivs_node_value(node) == as_value(7), "part %zu", count);
        count++;
    }
    ivs_map_read_exit(&map);
    CHECK(count == 2, "%zu parts", count);
    CHECK(!ivs_map_destroy(&map), "destroy");
    CHECK(atomic_load(&ledger.live) == 0, "leak");
}

TEST(oracle, iteration_visits_exactly_the_nodes_that_meet_the_range) {
    struct ivs_map map;
    struct ivs_node *node;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return;
    for (uint64_t key = 0; key < 100; key += 10) CHECK(!ivs_map_map(&map, key, key + 5, as_value(key + 1)), "map");
    for (uint64_t lo = 0; lo < 110; lo++) {
        for (uint64_t hi = lo + 1; hi < 112; hi++) {
            unsigned met = 0, wanted = 0;
            for (uint64_t key = 0; key < 100; key += 10) wanted += key < hi && key + 5 > lo;
            ivs_map_read_enter(&map);
            ivs_map_for_each_rcu (node, &map, lo, hi) {
                CHECK(node->start < hi && node->last >= lo, "[%llu, ..) outside", (unsigned long long)node->start);
                met++;
            }
            ivs_map_read_exit(&map);
            CHECK(met == wanted, "[%llu, %llu): %u nodes, expected %u", (unsigned long long)lo, (unsigned long long)hi,
                  met, wanted);
        }
    }
    CHECK(!ivs_map_destroy(&map), "destroy");
}
