/* SPDX-License-Identifier: MIT */
/*
 * Nobody waits for a stranger: a writer stops for ever at each of its atomic steps in turn (inside its read
 * section, its locks, its allocation, its reclamation), and meanwhile every look-up answers, and every kind of
 * update two nodes away completes.
 *
 * The map: nodes [100 i, 100 i + 50) for i in 1..20, towers of 1 to 4 levels. The writer works on node 10.
 */
#include "steps.h"

#include <stdio.h>

enum { NODES = 20, VICTIM = 10 };
#define STRANGER_NS 20000000000u /* longer than any step takes on a loaded machine */

static const unsigned heights[] = {1, 3, 2, 1, 4, 2, 1, 2};

static struct ivs_node *fresh(struct ivs_map *map, uint64_t start, uint64_t end, uint64_t value, unsigned height) {
    struct ivs_node *node = ivs_node_new_height(ivs_map_domain(map), start, end, as_value(value), IVS_SLEEP, height);
    CHECK(node, "no node");
    return node;
}

static void fill(struct ivs_map *map, unsigned tallness) {
    for (unsigned i = 1; i <= NODES; i++) {
        unsigned height = heights[(i + tallness) % (sizeof(heights) / sizeof(heights[0]))];
        int r = ivs_map_insert_node(map, fresh(map, 100 * i, 100 * i + 50, i, height));
        CHECK(r == 0, "insert %d", r);
    }
}

/* ---- the writers */

static void writer_map_middle(void *map) {
    int r = ivs_map_map_node(map, fresh(map, 1010, 1020, 500, 3));
    CHECK(r == 0, "map %d", r);
}
static void writer_map_whole(void *map) {
    int r = ivs_map_map_node(map, fresh(map, 1000, 1050, 500, 2));
    CHECK(r == 0, "map %d", r);
}
static void writer_unmap(void *map) {
    int r = ivs_map_unmap(map, 1000, 1030);
    CHECK(r == 0, "unmap %d", r);
}
static void writer_insert(void *map) {
    int r = ivs_map_insert_node(map, fresh(map, 1060, 1070, 500, 4));
    CHECK(r == 0, "insert %d", r);
}
static void writer_swap(void *map) {
    struct ivs_lock lock;
    struct ivs_node *run[2] = {fresh(map, 1000, 1010, 500, 2), fresh(map, 1020, 1060, 501, 4)};
    CHECK(ivs_map_lock(map, 1000, 1050, &lock) == 0 && lock.count == 1, "lock");
    CHECK(lock.floor == 950 && lock.ceiling == 1100, "owned space");
    CHECK(ivs_map_swap(&lock, run, 2) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
}
static void writer_alloc(void *map) {
    struct ivs_alloc want = {1000, 1100, 20, 4, 0};
    uint64_t start = 0;
    int r = ivs_map_alloc_node(map, &want, fresh(map, 0, 1, 500, 3), &start);
    CHECK(r == 0 && start == 1052, "alloc %d at %d", r, (int)start);
}
static void writer_alloc_refused(void *map) {
    struct ivs_alloc want = {1000, 1070, 30, 1, 0};
    uint64_t start = 0;
    int r = ivs_map_alloc(map, &want, NULL, &start);
    CHECK(r == IVS_ENOMEM, "alloc %d", r);
}
static void writer_reclaim(void *map) {
    writer_map_whole(map);
    (void)ivs_domain_reclaim(ivs_map_domain(map));
}

/* ---- the stranger */

/* Keys of nodes that the writer leaves alone must hit, gaps that it leaves alone must not, and all must answer. */
static void stranger_reads(struct ivs_map *map) {
    ivs_map_read_enter(map);
    for (uint64_t key = 0; key < 2200; key += 5) {
        struct ivs_node *node = ivs_map_query_rcu(map, key);
        uint64_t i = key / 100;
        bool inside = i >= 1 && i <= NODES && key % 100 < 50;
        (void)ivs_map_query_next_rcu(map, key);
        if (i == VICTIM) continue;
        CHECK((node != NULL) == inside, "key %d", (int)key);
        if (node)
            CHECK(as_number(ivs_node_value(node)) == i, "key %d has %d", (int)key,
                  (int)as_number(ivs_node_value(node)));
    }
    ivs_map_read_exit(map);
}

/* Each kind of update at node `i` (which is put back), two nodes away from the writer's. */
static void stranger_updates(struct ivs_map *map, uint64_t i) {
    struct ivs_alloc want = {100 * i, 100 * i + 95, 20, 1, 0};
    struct ivs_lock lock;
    struct ivs_node *run[1];
    uint64_t start = 0;
    int r = ivs_map_map_node(map, fresh(map, 100 * i + 10, 100 * i + 20, 700, 3));
    CHECK(r == 0, "map %d", r);
    r = ivs_map_alloc_node(map, &want, fresh(map, 0, 1, 701, 2), &start);
    CHECK(r == 0 && start == 100 * i + 50, "alloc %d at %d", r, (int)start);
    r = ivs_map_insert_node(map, fresh(map, 100 * i + 80, 100 * i + 90, 702, 3));
    CHECK(r == 0, "insert %d", r);
    r = ivs_map_unmap(map, 100 * i, 100 * i + 95);
    CHECK(r == 0, "unmap %d", r);
    r = ivs_map_map_node(map, fresh(map, 100 * i, 100 * i + 50, 703, 3));
    CHECK(r == 0, "map %d", r);
    r = ivs_map_lock(map, 100 * i, 100 * i + 50, &lock);
    if (!CHECK(r == 0 && lock.count == 1, "lock %d", r)) return;
    run[0] = fresh(map, 100 * i, 100 * i + 50, i, 4);
    CHECK(ivs_map_swap(&lock, run, 1) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
}

static void stranger(void *map) {
    stranger_reads(map);
    stranger_updates(map, VICTIM - 3);
    stranger_updates(map, VICTIM + 2);
    (void)ivs_domain_reclaim(ivs_map_domain(map));
    stranger_reads(map);
}

/* ---- */

static bool parked_once(void (*writer)(void *map), unsigned tallness, bool tuned, long at) {
    static struct ivs_map map;
    struct stepper parks, runs;
    bool stopped;
    CHECK(ivs_map_init(&map, NULL) == 0, "init");
    fill(&map, tallness);
    if (tuned) CHECK(ivs_map_tune(&map) == 0, "tune");
    stepper_start(&parks, writer, &map, at);
    stopped = stepper_halts(&parks);
    if (stopped) {
        stepper_start(&runs, stranger, &map, -1);
        CHECK(stepper_ends_within(&runs, STRANGER_NS), "a stranger waits for a writer that stopped at step %ld", at);
    }
    stepper_let_go(&parks);
    stepper_join(&parks);
    if (stopped) stepper_join(&runs);
    CHECK(map_is_valid(&map, "after"), "invalid after a stop at step %ld", at);
    CHECK(ivs_map_destroy(&map) == 0, "destroy");
    return stopped;
}

static void parked(const char *name, void (*writer)(void *map)) {
    for (unsigned i = 0; i < 6; i++) { /* three patterns of towers, without and with an entry table */
        long at = 0;
        while (parked_once(writer, i / 2, i & 1, at) && !test_failed()) at++;
        printf("    %s: parked at %ld steps%s\n", name, at, i & 1 ? ", with an entry table" : "");
        CHECK(at >= 10, "only %ld steps", at); /* a refused alloc with liburcu, whose sections have none, takes 13 */
    }
}

TEST(parked, a_map_that_cuts_a_node_stops_no_stranger) { parked("map, middle", writer_map_middle); }
TEST(parked, a_map_that_replaces_a_node_stops_no_stranger) { parked("map, whole", writer_map_whole); }
TEST(parked, an_unmap_stops_no_stranger) { parked("unmap", writer_unmap); }
TEST(parked, an_insert_stops_no_stranger) { parked("insert", writer_insert); }
TEST(parked, a_swap_stops_no_stranger) { parked("swap", writer_swap); }
TEST(parked, an_alloc_stops_no_stranger) { parked("alloc", writer_alloc); }
TEST(parked, a_refused_alloc_stops_no_stranger) { parked("alloc, refused", writer_alloc_refused); }
TEST(parked, reclamation_stops_no_stranger) { parked("reclaim", writer_reclaim); }
