/* SPDX-License-Identifier: MIT */
/*
 * Nobody waits for a stranger, in a space: a writer stops for ever at each atomic step of an operation in turn, and
 * meanwhile every kind of operation on areas two nodes away completes, and every query answers.
 *
 * The space: areas [100 i, 100 i + 50) pages above BASE for i in 1..20, of which no two can be joined. The writer
 * works on area 10.
 */
#include "addr.h"
#include "steps.h"

enum { AREAS = 20, VICTIM = 10 };
#define BASE        UINT64_C(0x10000000)
#define STRANGER_NS 20000000000u

static struct iva_space space;
static struct host host;

static uint64_t at(uint64_t area, uint64_t page) { return BASE + (100 * area + page) * PAGE; }

static void fill(void) {
    for (uint64_t i = 1; i <= AREAS; i++) {
        uint64_t flags = i % 5 == 0 ? IVA_MAP_GROWSDOWN : 0;
        int r = map_at(&space, &host, at(i, 0), 50 * PAGE, IVA_READ | (i % 2 ? IVA_WRITE : 0), flags);
        CHECK(r == 0, "map %d", r);
    }
}

/* ---- the writers */

static void write_map_over(void *ctx) {
    (void)ctx;
    SAYS(map_at(&space, &host, at(VICTIM, 10), 10 * PAGE, IVA_EXEC, 0), 0);
}
static void write_map_beside(void *ctx) {
    (void)ctx;
    SAYS(map_at(&space, &host, at(VICTIM, 50), 10 * PAGE, IVA_READ, IVA_MAP_GROWSDOWN), 0); /* is joined */
}
static void write_map_anywhere(void *ctx) {
    struct iva_map_request request = anonymous(0, 4 * PAGE, IVA_READ, 0);
    uint64_t got;
    (void)ctx;
    SAYS(host_map(&space, &host, &request, &got), 0);
}
static void write_unmap(void *ctx) {
    (void)ctx;
    SAYS(iva_space_unmap(&space, at(VICTIM, 5), 10 * PAGE), 0);
}
static void write_protect(void *ctx) {
    (void)ctx;
    SAYS(iva_space_protect(&space, at(VICTIM, 5), 10 * PAGE, IVA_EXEC), 0);
}
static void write_protect_whole(void *ctx) {
    (void)ctx;
    SAYS(iva_space_protect(&space, at(VICTIM, 0), 50 * PAGE, IVA_EXEC), 0);
}
static void write_move(void *ctx) {
    uint64_t got;
    (void)ctx;
    SAYS(iva_space_remap(&space, at(VICTIM, 40), 10 * PAGE, 10 * PAGE, IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED,
                         at(VICTIM, 60), &got),
         0);
}
static void write_grow_area(void *ctx) {
    uint64_t got;
    (void)ctx;
    SAYS(iva_space_remap(&space, at(VICTIM, 0), 50 * PAGE, 60 * PAGE, 0, 0, &got), 0);
}
static void write_touch(void *ctx) {
    (void)ctx;
    SAYS(iva_space_touch(&space, at(VICTIM, 0) - PAGE, IVA_READ, NULL), 0);
}
static void write_advise(void *ctx) {
    (void)ctx;
    SAYS(iva_space_advise(&space, at(VICTIM, 0), 50 * PAGE, IVA_ADVISE_DONTFORK), 0);
}
static void write_lock(void *ctx) {
    (void)ctx;
    SAYS(iva_space_lock(&space, at(VICTIM, 0), 20 * PAGE, 0), 0);
}

/* ---- the stranger */

static void stranger_at(uint64_t i) {
    struct iva_view view;
    uint64_t got;
    SAYS(iva_space_query(&space, at(i, 7), &view), 0);
    SAYS(map_at(&space, &host, at(i, 10), 10 * PAGE, IVA_EXEC, 0), 0);
    SAYS(iva_space_protect(&space, at(i, 5), 10 * PAGE, IVA_WRITE), 0);
    SAYS(iva_space_advise(&space, at(i, 0), 10 * PAGE, IVA_ADVISE_DONTFORK), 0);
    SAYS(iva_space_lock(&space, at(i, 20), 10 * PAGE, 0), 0);
    SAYS(iva_space_remap(&space, at(i, 40), 10 * PAGE, 10 * PAGE, IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED, at(i, 60), &got),
         0);
    SAYS(iva_space_remap(&space, at(i, 60), 10 * PAGE, 15 * PAGE, 0, 0, &got), 0);
    SAYS(iva_space_touch(&space, at(i, 3), IVA_READ, NULL), 0);
    SAYS(iva_space_unmap(&space, at(i, 0), 80 * PAGE), 0);
    SAYS(map_at(&space, &host, at(i, 0), 50 * PAGE, IVA_READ | (i % 2 ? IVA_WRITE : 0), 0), 0);
}

static void stranger(void *ctx) {
    struct iva_view view;
    (void)ctx;
    for (uint64_t i = 1; i <= AREAS; i++) {
        if (i == VICTIM) {
            if (iva_space_query(&space, at(i, 7), &view)) continue;
            continue;
        }
        SAYS(iva_space_query(&space, at(i, 7), &view), 0);
        CHECK(view.start == at(i, 0) && view.end == at(i, 50), "area %d", (int)i);
    }
    stranger_at(VICTIM - 3);
    stranger_at(VICTIM + 2);
}

/* ---- */

static bool parked_once(void (*writer)(void *ctx), long step) {
    struct iva_space_config config = host_config(&host);
    struct stepper parks, runs;
    bool stopped;
    config.guard = 16 * PAGE;
    SAYS(iva_space_init(&space, &config), 0);
    fill();
    stepper_start(&parks, writer, NULL, step);
    stopped = stepper_halts(&parks);
    if (stopped) {
        stepper_start(&runs, stranger, NULL, -1);
        CHECK(stepper_ends_within(&runs, STRANGER_NS), "a stranger waits for a writer that stopped at step %ld", step);
    }
    stepper_let_go(&parks);
    stepper_join(&parks);
    if (stopped) stepper_join(&runs);
    end_space(&space, &host);
    return stopped;
}

static void parked(const char *name, void (*writer)(void *ctx)) {
    long step = 0;
    while (parked_once(writer, step) && !test_failed()) step++;
    printf("    %s: parked at %ld steps\n", name, step);
    CHECK(step >= 10, "only %ld steps", step);
}

TEST(addr_parked, a_map_over_something_stops_no_stranger) { parked("map over", write_map_over); }
TEST(addr_parked, a_map_that_is_joined_stops_no_stranger) { parked("map beside", write_map_beside); }
TEST(addr_parked, a_map_anywhere_stops_no_stranger) { parked("map anywhere", write_map_anywhere); }
TEST(addr_parked, an_unmap_stops_no_stranger) { parked("unmap", write_unmap); }
TEST(addr_parked, a_protect_of_a_part_stops_no_stranger) { parked("protect", write_protect); }
TEST(addr_parked, a_protect_in_place_stops_no_stranger) { parked("protect, whole", write_protect_whole); }
TEST(addr_parked, a_move_stops_no_stranger) { parked("move", write_move); }
TEST(addr_parked, an_area_that_grows_stops_no_stranger) { parked("remap, longer", write_grow_area); }
TEST(addr_parked, a_stack_that_grows_stops_no_stranger) { parked("touch", write_touch); }
TEST(addr_parked, advice_stops_no_stranger) { parked("advise", write_advise); }
TEST(addr_parked, a_lock_stops_no_stranger) { parked("lock", write_lock); }
