/* SPDX-License-Identifier: MIT */
/*
 * G7: a refusal of Alloc is right only if at some instant of the call no gap fitted.
 *
 * Every call is recorded with two ticks of a global clock, drawn before it and after it; its effect lies between them.
 * So a block is *possibly* there from the tick before its alloc to the tick after its unmap, and a key that is in no
 * possible block is *certainly* free. A refusal is false for sure if at every tick of the call some gap of certainly
 * free keys would have fitted. The state of possible blocks does not change between two ticks, so looking at each tick
 * is looking at each instant. The checker is one-sided: where it accuses, G7 is broken; what it cannot decide passes.
 */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 64 /* the window is [0, KEYS) */

enum event_kind { BLOCK, REFUSAL };

struct event {
    enum event_kind kind;
    uint64_t before, after;             /* ticks of the alloc call */
    uint64_t unmap_before, unmap_after; /* of the block's unmap call; UINT64_MAX: never */
    uint64_t start, size;
};

struct history {
    struct event *events;
    size_t count, room;
};

static struct event *record(struct history *history, struct event event) {
    if (history->count == history->room) {
        history->room = history->room ? 2 * history->room : 1024;
        history->events = realloc(history->events, history->room * sizeof event);
        if (!history->events) abort();
    }
    history->events[history->count] = event;
    return &history->events[history->count++];
}

/* ---- the checker */

/* Bit k: key k is possibly covered. possible[t] holds from tick t to tick t + 1. */
static uint64_t *possible_keys(const struct history *history, uint64_t ticks) {
    static int depth[KEYS];
    uint64_t *possible = calloc(ticks + 1, sizeof *possible);
    if (!possible) abort();
    uint64_t(*change)[2] = calloc(ticks + 1, sizeof *change); /* [0] comes, [1] goes */
    if (!change) abort();
    memset(depth, 0, sizeof depth);
    for (size_t i = 0; i < history->count; i++) {
        const struct event *event = &history->events[i];
        if (event->kind != BLOCK) continue;
        uint64_t mask = event->size == 64 ? UINT64_MAX : (((uint64_t)1 << event->size) - 1) << event->start;
        change[event->before][0] |= mask; /* a tick belongs to one call: no two blocks share it */
        if (event->unmap_after < ticks) change[event->unmap_after][1] |= mask;
    }
    for (uint64_t tick = 0; tick < ticks; tick++) {
        for (unsigned key = 0; key < KEYS; key++) {
            depth[key] += (int)(change[tick][0] >> key & 1) - (int)(change[tick][1] >> key & 1);
            possible[tick] |= (uint64_t)(depth[key] > 0) << key;
        }
    }
    free(change);
    return possible;
}

static bool gap_fits(uint64_t covered, uint64_t size) {
    uint64_t run = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        run = covered >> key & 1 ? 0 : run + 1;
        if (run >= size) return true;
    }
    return false;
}

/* The number of refusals that are false for sure; *refusals: how many there were. */
static size_t false_refusals(const struct history *history, uint64_t ticks, size_t *refusals) {
    uint64_t *possible = possible_keys(history, ticks);
    size_t wrong = 0;
    *refusals = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct event *event = &history->events[i];
        bool always = true;
        if (event->kind != REFUSAL) continue;
        for (uint64_t tick = event->before; tick < event->after && always; tick++)
            always = gap_fits(possible[tick], event->size);
        wrong += always;
        ++*refusals;
    }
    free(possible);
    return wrong;
}

/* Two blocks that certainly were there at one time and share a key. */
static size_t double_owners(const struct history *history, uint64_t ticks) {
    uint64_t *free_from = calloc(KEYS, sizeof *free_from), wrong = 0;
    const struct event **by_tick = calloc(ticks + 1, sizeof *by_tick);
    if (!free_from || !by_tick) abort();
    for (size_t i = 0; i < history->count; i++)
        if (history->events[i].kind == BLOCK) by_tick[history->events[i].after] = &history->events[i];
    for (uint64_t tick = 0; tick < ticks; tick++) {
        const struct event *event = by_tick[tick];
        if (!event) continue;
        for (uint64_t key = event->start; key < event->start + event->size; key++) {
            wrong += free_from[key] > tick; /* the earlier block's unmap had not even begun */
            if (event->unmap_before > free_from[key]) free_from[key] = event->unmap_before;
        }
    }
    free(by_tick);
    free(free_from);
    return (size_t)wrong;
}

/* ---- recording */

struct recorder {
    struct ivs_map *map;
    struct history history;
    struct rng rng;
    atomic_ullong *clock;
    unsigned steps, thread;
    uint64_t sizes; /* 1 .. sizes */
    size_t held[8]; /* indices of blocks not yet unmapped */
    unsigned holds, most;
};

static void recorded_alloc(struct recorder *recorder) {
    struct ivs_alloc request = {.lo = 0, .hi = KEYS, .size = 1 + rng_below(&recorder->rng, recorder->sizes)};
    struct event event = {BLOCK, 0, 0, UINT64_MAX, UINT64_MAX, 0, request.size};
    request.hint = rng_below(&recorder->rng, KEYS);
    event.before = atomic_fetch_add(recorder->clock, 1);
    int result = ivs_map_alloc(recorder->map, &request, as_value(recorder->thread), &event.start);
    event.after = atomic_fetch_add(recorder->clock, 1);
    CHECK(result == 0 || result == IVS_ENOMEM, "alloc: %d", result);
    if (result) event.kind = REFUSAL;
    record(&recorder->history, event);
    if (result == 0) recorder->held[recorder->holds++] = recorder->history.count - 1;
}

static void recorded_unmap(struct recorder *recorder) {
    unsigned which = (unsigned)rng_below(&recorder->rng, recorder->holds);
    struct event *event = &recorder->history.events[recorder->held[which]];
    recorder->held[which] = recorder->held[--recorder->holds];
    event->unmap_before = atomic_fetch_add(recorder->clock, 1);
    CHECK(!ivs_map_unmap(recorder->map, event->start, event->start + event->size), "unmap");
    event->unmap_after = atomic_fetch_add(recorder->clock, 1);
}

static void *record_allocs(void *arg) {
    struct recorder *recorder = arg;
    for (unsigned i = 0; i < recorder->steps && !test_failed(); i++) {
        bool more = recorder->holds < recorder->most && rng_below(&recorder->rng, 5) < 3;
        if (more || !recorder->holds) recorded_alloc(recorder);
        else recorded_unmap(recorder);
    }
    return NULL;
}

#define RECORDERS 4

static void check_recorders(struct recorder *recorders, atomic_ullong *clock) {
    struct history all = {0};
    uint64_t ticks = atomic_load(clock);
    for (unsigned i = 0; i < RECORDERS; i++) {
        for (size_t k = 0; k < recorders[i].history.count; k++) record(&all, recorders[i].history.events[k]);
        free(recorders[i].history.events);
    }
    size_t refusals, wrong = false_refusals(&all, ticks, &refusals);
    CHECK(wrong == 0, "%zu of %zu refusals although a gap fitted at every instant of the call", wrong, refusals);
    CHECK(refusals > 0, "no refusal in %zu events: the test tests nothing", all.count);
    CHECK(double_owners(&all, ticks) == 0, "a key was given twice");
    free(all.events);
}

static void run_recorders(uint64_t sizes, unsigned most, unsigned steps) {
    struct recorder recorders[RECORDERS];
    atomic_ullong clock = 0;
    struct ivs_map map;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return;
    memset(recorders, 0, sizeof recorders);
    for (unsigned i = 0; i < RECORDERS; i++) {
        recorders[i].map = &map;
        recorders[i].rng = rng_make(test_seed(), i + sizes * 100);
        recorders[i].clock = &clock;
        recorders[i].steps = steps;
        recorders[i].thread = i + 1;
        recorders[i].sizes = sizes;
        recorders[i].most = most;
    }
    run_threads(RECORDERS, record_allocs, recorders, sizeof *recorders);
    check_recorders(recorders, &clock);
    map_is_valid(&map, "after the history");
    CHECK(!ivs_map_destroy(&map), "destroy");
}

TEST(alloc_history, every_refusal_of_mixed_sizes_has_an_instant_at_which_nothing_fitted) {
    run_recorders(16, 4, test_scale(100000));
}

TEST(alloc_history, every_refusal_in_a_nearly_full_window_has_an_instant_at_which_nothing_fitted) {
    run_recorders(20, 2, test_scale(100000));
}

/*
 * ---- two rooms at the ends of a long corridor, one guest who moves between them, and another who asks: a room is free
 * whenever somebody asks. The corridor makes a scan long, so that the guest moves behind it again and again.
 */

#define CORRIDOR 2000 /* intervals between the rooms */
#define ROOM     8

struct hotel {
    struct ivs_map map;
    atomic_bool over;
    unsigned steps;
};

static uint64_t room_start(unsigned room) { return room ? ROOM + CORRIDOR : 0; }

static void *move_between_rooms(void *arg) {
    struct hotel *hotel = arg;
    unsigned room = 0;
    while (!atomic_load(&hotel->over) && !test_failed()) {
        CHECK(!ivs_map_unmap(&hotel->map, room_start(room), room_start(room) + ROOM), "unmap");
        for (;;) { /* the other room if it is free, else the old one: who asks holds one at most */
            room = 1 - room;
            int result = ivs_map_insert(&hotel->map, room_start(room), room_start(room) + ROOM, as_value(1));
            if (result == 0) break;
            if (!CHECK(result == IVS_EEXIST, "insert: %d", result)) return NULL;
        }
    }
    return NULL;
}

static void *ask_for_a_room(void *arg) {
    struct hotel *hotel = arg;
    struct ivs_alloc request = {.lo = 0, .hi = 2 * ROOM + CORRIDOR, .size = ROOM};
    uint64_t start = 0, limit = now_ns() + 10000000000u;
    unsigned far = 0; /* times that the guest was in the first room and the whole corridor was walked */
    for (unsigned i = 0; far < hotel->steps && now_ns() < limit && !test_failed(); i++) {
        int result = ivs_map_alloc(&hotel->map, &request, as_value(2), &start);
        CHECK(result == 0, "asked %u times, then refused (%d) although a room was free all the time", i, result);
        far += result == 0 && start != 0;
        if (result == 0) CHECK(!ivs_map_unmap(&hotel->map, start, start + ROOM), "unmap");
    }
    atomic_store(&hotel->over, true);
    return NULL;
}

static struct hotel hotel;

static void *hotel_actor(void *arg) { return *(int *)arg ? ask_for_a_room(&hotel) : move_between_rooms(&hotel); }

TEST(alloc_history, who_asks_while_a_gap_moves_about_is_never_refused) {
    int roles[2] = {0, 1};
    memset(&hotel, 0, sizeof hotel);
    hotel.steps = test_scale(10000);
    if (!CHECK(!ivs_map_init(&hotel.map, NULL), "init")) return;
    for (uint64_t key = ROOM; key < ROOM + CORRIDOR; key++)
        CHECK(!ivs_map_insert(&hotel.map, key, key + 1, NULL), "corridor");
    CHECK(!ivs_map_insert(&hotel.map, room_start(0), room_start(0) + ROOM, as_value(1)), "first night");
    run_threads(2, hotel_actor, roles, sizeof *roles);
    map_is_valid(&hotel.map, "at the end");
    CHECK(!ivs_map_destroy(&hotel.map), "destroy");
}

/* ---- the checker itself */

/* A scan that looks once at each gap, in steps, so that the test can act between them. */
struct naive_scan {
    struct ivs_map *map;
    uint64_t at;
    bool found;
};

static void naive_step(struct naive_scan *scan, uint64_t size) {
    struct ivs_entry entry = {KEYS, 0, NULL};
    if (ivs_map_lookup_next(scan->map, scan->at, &entry) == IVS_ENOENT) entry.start = entry.end = KEYS;
    scan->found |= entry.start >= scan->at + size;
    scan->at = entry.end;
}

static void timed_block(struct history *history, struct ivs_map *map, uint64_t *clock, uint64_t start, uint64_t size) {
    struct event event = {BLOCK, (*clock)++, 0, UINT64_MAX, UINT64_MAX, start, size};
    CHECK(!ivs_map_insert(map, start, start + size, NULL), "insert");
    event.after = (*clock)++;
    record(history, event);
}

static void timed_unmap(struct history *history, struct ivs_map *map, uint64_t *clock, size_t index) {
    struct event *event = &history->events[index];
    event->unmap_before = (*clock)++;
    CHECK(!ivs_map_unmap(map, event->start, event->start + event->size), "unmap");
    event->unmap_after = (*clock)++;
}

/* Blocks of 16 with one gap; the gap moves behind a scan that has passed, before the scan comes to it. */
static size_t history_of_a_naive_scan(bool gap_moves_first) {
    struct history history = {0};
    struct ivs_map map;
    uint64_t clock = 0;
    size_t refusals, wrong;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return 0;
    for (uint64_t i = 0; i < 3; i++) timed_block(&history, &map, &clock, i * 16, 16); /* [48, 64) is free */
    struct event refusal = {REFUSAL, clock++, 0, UINT64_MAX, UINT64_MAX, 0, 16};
    struct naive_scan scan = {&map, 0, false};
    naive_step(&scan, 16);
    if (gap_moves_first) timed_unmap(&history, &map, &clock, 0); /* now two gaps: behind the scan and before it */
    timed_block(&history, &map, &clock, 48, 16);                 /* the one before it closes */
    while (scan.at < KEYS) naive_step(&scan, 16);
    CHECK(!scan.found, "the naive scan found a gap");
    refusal.after = clock++;
    record(&history, refusal);
    wrong = false_refusals(&history, clock, &refusals);
    CHECK(refusals == 1, "%zu refusals", refusals);
    CHECK(!ivs_map_destroy(&map), "destroy");
    free(history.events);
    return wrong;
}

TEST(alloc_history, the_checker_catches_the_false_refusal_of_a_single_scan) {
    CHECK(history_of_a_naive_scan(true) == 1, "a false refusal was not caught");
}

TEST(alloc_history, the_checker_lets_a_true_refusal_pass) {
    CHECK(history_of_a_naive_scan(false) == 0, "a true refusal was called false");
}

TEST(alloc_history, the_checker_catches_a_key_that_is_given_twice) {
    struct history history = {0};
    struct event first = {BLOCK, 0, 1, 6, 7, 10, 4}, second = {BLOCK, 2, 3, UINT64_MAX, UINT64_MAX, 13, 2};
    record(&history, first);
    record(&history, second);
    CHECK(double_owners(&history, 8) == 1, "not caught");
    history.events[1].start = 14;
    CHECK(double_owners(&history, 8) == 0, "neighbours accused");
    history.events[1].start = 13;
    history.events[0].unmap_before = 2;
    history.events[0].unmap_after = 5;
    history.events[1].before = 1;
    history.events[1].after = 3;
    CHECK(double_owners(&history, 8) == 0, "overlapping calls accused");
    free(history.events);
}

/* ---- a refusal leaves the caller's word alone */

#define SENTINEL UINT64_C(0x5e5e5e5e5e5e5e5e)

struct contender {
    struct ivs_map *map;
    uint64_t refusals;
};

static void *contend(void *arg) {
    struct contender *me = arg;
    struct ivs_alloc want = {0, 64, 8, 1, 0};
    for (unsigned i = 0; i < test_scale(20000) && !test_failed(); i++) {
        uint64_t start = SENTINEL;
        int r = ivs_map_alloc(me->map, &want, NULL, &start);
        if (r) {
            CHECK(r == IVS_ENOMEM && start == SENTINEL, "refused (%d), and the place is %llx", r,
                  (unsigned long long)start);
            me->refusals++;
        } else {
            CHECK(start + 8 <= 64, "place %llx", (unsigned long long)start);
            if (i % 3) CHECK(ivs_map_unmap(me->map, start, start + 8) == 0, "unmap");
        }
        if (i % 64 == 63) CHECK(ivs_map_unmap(me->map, 0, 64) == 0, "unmap");
    }
    return NULL;
}

TEST(alloc_history, a_refusal_leaves_the_callers_word_alone) {
    struct ivs_map map;
    CHECK(ivs_map_init(&map, NULL) == 0, "init");
    struct contender contenders[3] = {{&map, 0}, {&map, 0}, {&map, 0}};
    run_threads(3, contend, contenders, sizeof contenders[0]);
    CHECK(contenders[0].refusals + contenders[1].refusals + contenders[2].refusals > 0, "nothing was refused");
    CHECK(ivs_map_destroy(&map) == 0, "destroy");
}
