/* SPDX-License-Identifier: MIT */
/*
 * The counter-examples that other implementations gave us (a to d) and the scenarios of the reference model,
 * each with one thread stopped at every one of its atomic steps while the other runs. (The fork of a map that
 * is in use is in lifetime.c.)
 */
#include "steps.h"

#include <stdio.h>

#define OLD   as_value(10)
#define NEW   as_value(20)
#define NEWER as_value(21)
#define THIRD as_value(30)

static void put(struct ivs_map *map, uint64_t start, uint64_t end, void *value, unsigned height) {
    struct ivs_node *node = ivs_node_new_height(ivs_map_domain(map), start, end, value, IVS_SLEEP, height);
    int r = ivs_map_insert_node(map, node);
    CHECK(r == 0, "insert of [%d,%d): %d", (int)start, (int)end, r);
}

static void replace(struct ivs_map *map, uint64_t start, uint64_t end, void *value, unsigned height) {
    struct ivs_node *node = ivs_node_new_height(ivs_map_domain(map), start, end, value, IVS_SLEEP, height);
    int r = ivs_map_map_node(map, node);
    CHECK(r == 0, "map of [%d,%d): %d", (int)start, (int)end, r);
}

/* The value at a key, 0 in a gap. */
static uint64_t at(struct ivs_map *map, uint64_t key) {
    struct ivs_entry entry;
    return ivs_map_lookup(map, key, &entry) ? 0 : as_number(entry.value);
}

#define CHECK_AT(map, key, value)                                                                                      \
    CHECK(at(map, key) == as_number(value), "key %d has %d", (int)(key), (int)at(map, key))

/* `at_least` is for the built-in RCU; liburcu's sections have no steps of ours. */
static void play(const struct play *p, unsigned at_least) {
    unsigned runs = play_all(p);
    printf("    %s: %u runs\n", p->name, runs);
    if (!RCU_IS(BUILTIN)) at_least /= 4;
    CHECK(runs >= at_least, "only %u runs", runs);
}

/* ---- (a) and (b) */

static void a_prepare(struct ivs_map *map) { put(map, 2, 4, OLD, 1); }
static void a_map(struct ivs_map *map) { replace(map, 3, 4, NEW, 2); }
static void a_insert(struct ivs_map *map) { put(map, 1, 2, THIRD, 2); }
static void a_insert_short(struct ivs_map *map) { put(map, 1, 2, THIRD, 1); }
static void a_finish(struct ivs_map *map) {
    CHECK_AT(map, 1, THIRD);
    CHECK_AT(map, 2, OLD);
    CHECK_AT(map, 3, NEW);
}

TEST(design_cases, map_beside_an_insert_loses_neither) {
    static const struct play tall = {"map vs tall insert", a_prepare, a_map, a_insert, a_finish};
    static const struct play flat = {"map vs short insert", a_prepare, a_map, a_insert_short, a_finish};
    play(&tall, 40);
    play(&flat, 40);
}

static void b_prepare(struct ivs_map *map) {
    put(map, 0, 1, OLD, 2);
    put(map, 2, 3, OLD, 1);
    put(map, 4, 6, OLD, 2);
}
static void b_replace_tall(struct ivs_map *map) {
    replace(map, 4, 6, NEW, 2);
    CHECK_AT(map, 5, NEW);
}
static void b_replace_short(struct ivs_map *map) {
    replace(map, 4, 6, NEW, 1);
    CHECK_AT(map, 5, NEW);
}
static void b_insert(struct ivs_map *map) { put(map, 1, 2, THIRD, 2); }
static void b_reader(struct ivs_map *map) {
    bool fresh = at(map, 5) == as_number(NEW);
    if (fresh) CHECK_AT(map, 4, NEW);
}
static void b_finish(struct ivs_map *map) {
    CHECK_AT(map, 1, THIRD);
    CHECK_AT(map, 4, NEW);
}
static void b_finish_read(struct ivs_map *map) { CHECK_AT(map, 4, NEW); }

TEST(design_cases, a_replaced_tall_node_is_unreachable_beside_a_tall_insert) {
    static const struct play tall = {"tall replace vs insert", b_prepare, b_replace_tall, b_insert, b_finish};
    static const struct play flat = {"short replace vs insert", b_prepare, b_replace_short, b_insert, b_finish};
    static const struct play read = {"tall replace vs reader", b_prepare, b_replace_tall, b_reader, b_finish_read};
    play(&tall, 60);
    play(&flat, 60);
    play(&read, 40);
}

/* ---- (c) a try-lock that gives up leaves nothing behind */

static void c_prepare(struct ivs_map *map) {
    put(map, 0, 1, OLD, 1);
    put(map, 1, 2, OLD, 3);
    put(map, 2, 3, OLD, 2);
}
static void c_try(struct ivs_map *map) {
    struct ivs_lock lock;
    int r = ivs_map_trylock(map, 0, 3, &lock);
    CHECK(r == 0 || r == IVS_EBUSY, "try-lock %d", r);
    CHECK((lock.map != NULL) == (r == 0), "a handle that lies");
    if (r == 0) CHECK(ivs_map_unlock(&lock) == 0, "unlock");
}
static void c_replace(struct ivs_map *map) { replace(map, 2, 3, NEW, 2); }
static void c_finish(struct ivs_map *map) {
    struct ivs_lock lock;
    int r = ivs_map_trylock(map, 0, 0, &lock);
    CHECK(r == 0, "something is still locked: %d", r);
    if (r == 0) CHECK(lock.count == 3 && ivs_map_unlock(&lock) == 0, "%zu nodes", lock.count);
    CHECK_AT(map, 2, NEW);
}

TEST(design_cases, a_try_lock_that_gives_up_leaves_nothing_behind) {
    static const struct play p = {"try-lock vs replace", c_prepare, c_try, c_replace, c_finish};
    play(&p, 40);
}

/* ---- (d) a waiter asleep on a node that is replaced */

static void d_waiter(void *map) { replace(map, 2, 3, NEWER, 1); }

TEST(design_cases, a_waiter_on_a_node_that_is_replaced_wakes_and_finds_its_way) {
    static struct ivs_map map;
    struct stepper waiter;
    struct ivs_lock lock;
    struct ivs_node *run[1];
    CHECK(ivs_map_init(&map, NULL) == 0, "init");
    put(&map, 1, 2, OLD, 2);
    put(&map, 2, 3, OLD, 2);
    if (!CHECK(ivs_map_lock(&map, 1, 2, &lock) == 0, "lock")) return; /* holds [1,2), the predecessor of [2,3) */
    stepper_start(&waiter, d_waiter, &map, -1);
    CHECK(!stepper_ends(&waiter), "it should wait");
    run[0] = ivs_node_new_height(ivs_map_domain(&map), 1, 2, NEW, IVS_SLEEP, 1);
    CHECK(ivs_map_swap(&lock, run, 1) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
    CHECK(stepper_ends_within(&waiter, 10000000000u), "it sleeps for ever");
    stepper_join(&waiter);
    CHECK_AT(&map, 1, NEW);
    CHECK_AT(&map, 2, NEWER);
    CHECK(map_is_valid(&map, "after") && ivs_map_destroy(&map) == 0, "destroy");
}

/* ---- scenarios of the model */

static void two_prepare(struct ivs_map *map) {
    put(map, 1, 2, OLD, 2);
    put(map, 2, 3, OLD, 1);
}
static void two_swap(struct ivs_map *map) {
    struct ivs_lock lock;
    struct ivs_node *run[2];
    run[0] = ivs_node_new_height(ivs_map_domain(map), 1, 2, NEW, IVS_SLEEP, 1);
    run[1] = ivs_node_new_height(ivs_map_domain(map), 2, 3, NEW, IVS_SLEEP, 2);
    CHECK(ivs_map_lock(map, 1, 3, &lock) == 0 && lock.count == 2, "lock");
    CHECK(lock.floor == 0 && lock.ceiling == 0, "owned space");
    CHECK(ivs_map_swap(&lock, run, 2) == 0, "swap");
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
}
static void two_reader(struct ivs_map *map) {
    uint64_t x = at(map, 1), y = at(map, 2), z = at(map, 1);
    CHECK(x && y && z, "a hole while it is replaced");
    CHECK(x != as_number(NEW) || (y == as_number(NEW) && z == as_number(NEW)), "went back in time");
}
static void two_finish(struct ivs_map *map) {
    CHECK_AT(map, 1, NEW);
    CHECK_AT(map, 2, NEW);
}
static void neighbour_1(struct ivs_map *map) { replace(map, 1, 2, NEW, 2); }
static void neighbour_2(struct ivs_map *map) { replace(map, 2, 3, NEW, 2); }

TEST(design_cases, two_nodes_are_replaced_in_one_commit) {
    static const struct play p = {"two nodes, one commit", two_prepare, two_swap, two_reader, two_finish};
    play(&p, 60);
}

TEST(design_cases, neighbours_are_replaced_side_by_side) {
    static const struct play p = {"neighbours", two_prepare, neighbour_1, neighbour_2, two_finish};
    play(&p, 60);
}

static void help_prepare(struct ivs_map *map) {
    put(map, 1, 2, OLD, 3);
    put(map, 3, 4, OLD, 1);
    put(map, 5, 6, OLD, 2);
}
static void help_a(struct ivs_map *map) { replace(map, 1, 2, NEW, 1); }
static void help_b(struct ivs_map *map) {
    replace(map, 5, 6, NEWER, 1);
    CHECK_AT(map, 5, NEWER);
}
static void help_finish(struct ivs_map *map) {
    CHECK_AT(map, 1, NEW);
    CHECK_AT(map, 5, NEWER);
}

TEST(design_cases, helping_keeps_towers_linked_from_below) {
    static const struct play p = {"helping", help_prepare, help_a, help_b, help_finish};
    play(&p, 60);
}

/* The insert is seen, and its node replaced, before its tower is linked. */
static void tower_prepare(struct ivs_map *map) {
    put(map, 0, 1, OLD, 2);
    put(map, 3, 4, OLD, 3);
}
static void tower_insert(struct ivs_map *map) {
    struct ivs_node *node = ivs_node_new_height(ivs_map_domain(map), 1, 2, OLD, IVS_SLEEP, 3);
    int r = ivs_map_insert_node(map, node);
    CHECK(r == 0 || r == IVS_EEXIST, "insert %d", r);
    if (r) CHECK(ivs_node_discard(ivs_map_domain(map), node) == 0, "discard");
}
static void tower_replace(struct ivs_map *map) {
    replace(map, 1, 2, NEW, 2);
    CHECK_AT(map, 1, NEW);
}
static void tower_finish(struct ivs_map *map) { CHECK_AT(map, 1, NEW); }

TEST(design_cases, a_new_tower_is_final_before_its_node_can_be_replaced) {
    static const struct play p = {"unfinished tower", tower_prepare, tower_insert, tower_replace, tower_finish};
    play(&p, 60);
}

/* ---- iteration over a node that is replaced meanwhile */

static void replace_and_follow(void *map) {
    replace(map, 2, 3, NEW, 1);
    put(map, 4, 5, THIRD, 1);
}

TEST(design_cases, iteration_from_a_replaced_node_goes_on_in_the_map_of_now) {
    static struct ivs_map map;
    struct stepper writer;
    struct ivs_node *node, *next;
    CHECK(ivs_map_init(&map, NULL) == 0, "init");
    put(&map, 2, 3, OLD, 2);
    put(&map, 6, 7, OLD, 1);
    ivs_map_read_enter(&map);
    node = ivs_map_query_rcu(&map, 2);
    stepper_start(&writer, replace_and_follow, &map, -1);
    CHECK(stepper_ends_within(&writer, 10000000000u), "a reader stops a writer");
    CHECK(node && node->start == 2 && ivs_node_value(node) == OLD, "a replaced node stays readable");
    next = ivs_map_next_rcu(&map, node);
    CHECK(next && next->start == 4, "missed what was there before the step");
    ivs_map_read_exit(&map);
    stepper_join(&writer);
    CHECK(ivs_map_destroy(&map) == 0, "destroy");
}

/* ---- alloc: nobody overlaps, nobody is refused while there is room */

static uint64_t got[2];

static uint64_t take(struct ivs_map *map, uint64_t hi, void *value) {
    struct ivs_alloc want = {0, hi, 1, 1, 0};
    uint64_t start = UINT64_MAX;
    int r = ivs_map_alloc(map, &want, value, &start);
    CHECK(r == 0 || r == IVS_ENOMEM, "alloc %d", r);
    return r ? UINT64_MAX : start;
}

static void alloc_prepare(struct ivs_map *map) {
    put(map, 0, 1, OLD, 2);
    put(map, 2, 4, OLD, 1);
}
static void alloc_0(struct ivs_map *map) { got[0] = take(map, 4, NEW); }
static void alloc_1(struct ivs_map *map) { got[1] = take(map, 4, NEWER); }
static void alloc_finish(struct ivs_map *map) {
    CHECK((got[0] == 1) + (got[1] == 1) == 1, "one place, two answers: %d %d", (int)got[0], (int)got[1]);
    CHECK_AT(map, 1, got[0] == 1 ? NEW : NEWER);
}
static void alloc_replace_before(struct ivs_map *map) { replace(map, 0, 1, THIRD, 2); }
static void alloc_replace_after(struct ivs_map *map) { replace(map, 2, 4, THIRD, 2); }
static void alloc_got_it(struct ivs_map *map) {
    CHECK(got[0] == 1, "refused, or in the wrong place: %d", (int)got[0]);
    CHECK_AT(map, 1, NEW);
    CHECK(at(map, 0) && at(map, 2) && at(map, 3), "lost a node");
}
static void alloc_unmap_before(struct ivs_map *map) { CHECK(ivs_map_unmap(map, 0, 1) == 0, "unmap"); }
static void alloc_got_either(struct ivs_map *map) {
    CHECK(got[0] <= 1, "refused with room on both sides");
    CHECK_AT(map, got[0], NEW);
}
static void alloc_insert(struct ivs_map *map) {
    int r = ivs_map_insert(map, 1, 2, NEWER);
    CHECK(r == 0 || r == IVS_EEXIST, "insert %d", r);
    got[1] = r == 0;
}
static void alloc_or_insert(struct ivs_map *map) {
    CHECK((got[0] == 1) + (got[1] == 1) == 1, "alloc %d insert %d", (int)got[0], (int)got[1]);
    CHECK_AT(map, 1, got[1] ? NEWER : NEW);
}

TEST(design_cases, alloc_neither_overlaps_nor_refuses_in_vain) {
    static const struct play plays[] = {
        {"two allocs, one place", alloc_prepare, alloc_0, alloc_1, alloc_finish},
        {"alloc vs replace before", alloc_prepare, alloc_0, alloc_replace_before, alloc_got_it},
        {"alloc vs replace after", alloc_prepare, alloc_0, alloc_replace_after, alloc_got_it},
        {"alloc vs unmap before", alloc_prepare, alloc_0, alloc_unmap_before, alloc_got_either},
        {"alloc vs insert", alloc_prepare, alloc_0, alloc_insert, alloc_or_insert},
    };
    for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++) play(&plays[i], 20);
}

/* At every instant one of two places is free: a single scan that looks at the first too early and at the
 * second too late misses both. */
static void either_prepare(struct ivs_map *map) {
    put(map, 0, 1, OLD, 1);
    put(map, 1, 2, OLD, 2);
}
static void either_alloc(struct ivs_map *map) { got[0] = take(map, 3, NEW); }
static void either_move(struct ivs_map *map) {
    int r = ivs_map_unmap(map, 0, 1);
    CHECK(r == 0, "unmap %d", r);
    r = ivs_map_insert(map, 2, 3, THIRD);
    CHECK(r == 0 || r == IVS_EEXIST, "insert %d", r);
    if (r) return;
    CHECK(ivs_map_unmap(map, 2, 3) == 0, "unmap");
    r = ivs_map_insert(map, 0, 1, THIRD);
    if (r == 0) CHECK(ivs_map_unmap(map, 0, 1) == 0, "unmap");
}
static void either_move_once(struct ivs_map *map) {
    int r = ivs_map_unmap(map, 0, 1);
    CHECK(r == 0, "unmap %d", r);
    r = ivs_map_insert(map, 2, 3, THIRD);
    CHECK(r == 0 || r == IVS_EEXIST, "insert %d", r);
}
static void either_finish(struct ivs_map *map) {
    CHECK(got[0] == 0 || got[0] == 2, "refused though one place was always free: %d", (int)got[0]);
    (void)map;
}

TEST(design_cases, alloc_finds_the_place_that_moves) {
    static const struct play once = {"moving hole", either_prepare, either_alloc, either_move_once, either_finish};
    static const struct play often = {"restless hole", either_prepare, either_alloc, either_move, either_finish};
    play(&once, 40);
    play(&often, 60);
}

/* ---- waiting: nobody sleeps for ever */

static uint64_t turns;

static void wait_prepare(struct ivs_map *map) {
    turns = 0;
    put(map, 1, 2, OLD, 1);
}
static void wait_turn(struct ivs_map *map) {
    struct ivs_lock lock;
    CHECK(ivs_map_lock(map, 1, 2, &lock) == 0, "lock");
    turns++; /* plain: the lock's orders make it safe */
    CHECK(ivs_map_unlock(&lock) == 0, "unlock");
}
static void wait_finish(struct ivs_map *map) {
    CHECK(turns == 2, "%d turns", (int)turns);
    (void)map;
}

static struct ivs_lock held;

static void held_prepare(struct ivs_map *map) {
    wait_prepare(map);
    CHECK(ivs_map_lock(map, 1, 2, &held) == 0, "lock");
}
static void held_unlock(struct ivs_map *map) {
    (void)map;
    turns++;
    CHECK(ivs_map_unlock(&held) == 0, "unlock");
}
static void held_replace(struct ivs_map *map) {
    struct ivs_node *run[1] = {ivs_node_new_height(ivs_map_domain(map), 1, 2, NEW, IVS_SLEEP, 2)};
    turns++;
    CHECK(ivs_map_swap(&held, run, 1) == 0 && ivs_map_unlock(&held) == 0, "swap");
}

TEST(design_cases, a_sleeper_is_woken_whenever_it_fell_asleep) {
    static const struct play two = {"two lockers", wait_prepare, wait_turn, wait_turn, wait_finish};
    static const struct play unlock = {"a locker and an unlock", held_prepare, wait_turn, held_unlock, wait_finish};
    static const struct play replace = {"a locker and a swap", held_prepare, wait_turn, held_replace, wait_finish};
    play(&two, 10);
    play(&unlock, IVSKIP_SPIN);
    play(&replace, IVSKIP_SPIN);
}
