/* SPDX-License-Identifier: MIT */
/* The checker of addr_linear.h itself: what it must accept, and what it must catch. */
#include "support.h"
#include "addr_linear.h"

#include <errno.h>

static const struct addr_state empty = {.brk = ADDR_HEAP};
static const struct addr_page none = {0}, mapped = {true, 3, 7, 0};

static struct addr_call map_at(uint32_t at, uint64_t before, uint64_t after) {
    return (struct addr_call){
        .kind = ADDR_MAP, .at = at, .count = 1, .rights = 3, .object = 7, .before = before, .after = after};
}

static struct addr_call query_at(uint32_t at, struct addr_page seen, uint64_t before, uint64_t after) {
    return (struct addr_call){.kind = ADDR_QUERY, .at = at, .count = 1, .seen = seen, .before = before, .after = after};
}

static struct addr_call move_to(uint32_t at, uint32_t to, uint64_t before, uint64_t after) {
    return (struct addr_call){.kind = ADDR_MOVE, .at = at, .count = 1, .to = to, .before = before, .after = after};
}

static bool accepted(const struct addr_call *calls, size_t count, struct addr_page at0, struct addr_page at8) {
    struct addr_state last = empty;
    uint64_t looked = 0;
    last.page[0] = at0;
    last.page[8] = at8;
    return addr_linearizable(calls, count, &empty, &last, &looked);
}

TEST(addr_checker, a_query_amid_a_map_may_see_either_state) {
    struct addr_call before[] = {map_at(0, 0, 3), query_at(0, none, 1, 2)};
    struct addr_call after[] = {map_at(0, 0, 3), query_at(0, mapped, 1, 2)};
    CHECK(accepted(before, 2, mapped, none), "the old state is refused");
    CHECK(accepted(after, 2, mapped, none), "the new state is refused");
}

TEST(addr_checker, a_query_after_a_map_must_see_it) {
    struct addr_call calls[] = {map_at(0, 0, 1), query_at(0, none, 2, 3)};
    CHECK(!accepted(calls, 2, mapped, none), "a lost update is not caught");
}

TEST(addr_checker, two_queries_may_not_see_a_map_and_then_miss_it) {
    struct addr_call calls[] = {map_at(0, 0, 5), query_at(0, mapped, 1, 2), query_at(0, none, 3, 4)};
    CHECK(!accepted(calls, 3, mapped, none), "time that runs backward is not caught");
}

TEST(addr_checker, amid_a_move_both_may_be_seen_but_never_neither) {
    struct addr_call both[] = {map_at(0, 0, 1), move_to(0, 8, 2, 7), query_at(8, mapped, 3, 4),
                               query_at(0, mapped, 5, 6)};
    struct addr_call neither[] = {map_at(0, 0, 1), move_to(0, 8, 2, 7), query_at(0, none, 3, 4),
                                  query_at(8, none, 5, 6)};
    CHECK(accepted(both, 4, none, mapped), "target and source at once are refused");
    CHECK(!accepted(neither, 4, none, mapped), "a gap between source and target is not caught");
}

TEST(addr_checker, an_unmap_does_not_come_between_the_instants_of_a_move) {
    struct addr_call unmap = {.kind = ADDR_UNMAP, .at = 8, .count = 1, .before = 3, .after = 4};
    struct addr_call calls[] = {map_at(0, 0, 1), move_to(0, 8, 2, 9), query_at(8, none, 5, 6), unmap,
                                query_at(0, mapped, 7, 8)};
    /* The source is still there after the target was unmapped: the unmap came before the move, which goes on. */
    CHECK(accepted(calls, 5, none, mapped), "an unmap before the move is refused");
    calls[2] = query_at(8, mapped, 3, 4); /* the target was there, then unmapped, */
    calls[3].before = 5, calls[3].after = 6;
    CHECK(!accepted(calls, 5, none, none), "an unmap amid a move that holds the range is not caught");
}

TEST(addr_checker, two_maps_that_want_a_free_range_do_not_both_get_it) {
    struct addr_call calls[] = {map_at(0, 0, 2), map_at(0, 1, 3)};
    calls[0].kind = calls[1].kind = ADDR_MAP_FREE;
    CHECK(!accepted(calls, 2, mapped, none), "two owners are not caught");
    calls[1].error = -EEXIST;
    CHECK(accepted(calls, 2, mapped, none), "a refusal is refused");
}

TEST(addr_checker, a_protect_that_met_a_hole_has_changed_what_lies_before) {
    struct addr_call protect = {
        .kind = ADDR_PROTECT, .count = 2, .rights = 1, .error = -ENOMEM, .before = 2, .after = 3};
    struct addr_call calls[] = {map_at(0, 0, 1), protect};
    struct addr_page changed = mapped;
    changed.rights = 1;
    CHECK(accepted(calls, 2, changed, none), "a partial effect is refused");
    CHECK(!accepted(calls, 2, mapped, none), "a lost partial effect is not caught");
}
