/* SPDX-License-Identifier: MIT */
/* Spaces, by example: each operation, bad input, limits, fork, growth, empty space on unmap, placement, gate, counter. */
#include "addr.h"

#include <pthread.h>

#define BASE UINT64_C(0x10000000)

static struct iva_space space;
static struct host host;

static void begin(void) { begin_space(&space, &host); }
static void end(void) { end_space(&space, &host); }
static uint64_t page(uint64_t n) { return BASE + n * PAGE; }
static int map(uint64_t from, uint64_t to, uint64_t rights, uint64_t flags) {
    return map_at(&space, &host, page(from), (to - from) * PAGE, rights, flags);
}
static int map_object(uint64_t from, uint64_t to, uint64_t flags, uintptr_t object_, uint64_t offset, uint64_t access) {
    struct iva_map_request request =
        object(page(from), (to - from) * PAGE, IVA_READ, flags | IVA_MAP_FIXED, object_, offset * PAGE);
    uint64_t got;
    request.access = access;
    return host_map(&space, &host, &request, &got);
}
static void is(const char *wanted) { shows(&space, BASE, wanted); }

/* ---- map, unmap, protect */

TEST(addr_calls, neighbours_that_may_be_one_are_one) {
    begin();
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(map(4, 6, 3, 0), 0);
    is("0-2:3 4-6:3");
    SAYS(map(2, 4, 3, 0), 0);
    is("0-6:3");
    SAYS(map(2, 4, 1, 0), 0);
    is("0-2:3 2-4:1 4-6:3");
    SAYS(iva_space_protect(&space, page(2), 2 * PAGE, 3), 0);
    is("0-6:3");
    SAYS(map_object(6, 8, IVA_MAP_PRIVATE, 7, 0, 7), 0);
    SAYS(map_object(8, 10, IVA_MAP_PRIVATE, 7, 2, 7), 0);
    SAYS(map_object(10, 12, IVA_MAP_PRIVATE, 7, 5, 7), 0);
    is("0-6:3 6-10:1 10-12:1");
    end();
}

TEST(addr_calls, neighbours_stay_apart_where_the_space_or_the_host_says_so) {
    struct iva_space_config config = host_config(&host);
    struct host_bytes other = {HOST_MAGIC, 1};
    struct iva_map_request request = anonymous(page(2), PAGE, 3, IVA_MAP_FIXED);
    uint64_t got;
    config.separate = true;
    SAYS(iva_space_init(&space, &config), 0);
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(map(2, 4, 3, 0), 0);
    is("0-2:3 2-4:3");
    end();
    begin();
    SAYS(map(0, 2, 3, 0), 0);
    request.host = &other;
    SAYS(host_map(&space, &host, &request, &got), 0);
    is("0-2:3 2-3:3");
    end();
}

TEST(addr_calls, protect_changes_what_lies_before_a_hole_or_a_refusal) {
    begin();
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(map(3, 4, 3, 0), 0);
    SAYS(iva_space_protect(&space, page(1), 3 * PAGE, 1), IVA_ENOMEM);
    is("0-1:3 1-2:1 3-4:3");
    SAYS(map_object(4, 5, IVA_MAP_SHARED, 7, 0, IVA_READ | IVA_EXEC), 0);
    SAYS(iva_space_protect(&space, page(3), 2 * PAGE, 2), IVA_EACCES);
    is("0-1:3 1-2:1 3-4:2 4-5:121");
    SAYS(iva_space_protect(&space, page(4), PAGE, 0), 0);
    SAYS(iva_space_protect(&space, page(4), PAGE + 1, 4), IVA_ENOMEM);
    is("0-1:3 1-2:1 3-4:2 4-5:124");
    end();
}

TEST(addr_calls, protect_of_nearly_everything_stops_at_the_first_hole) {
    begin();
    for (unsigned i = 0; i < 100; i++) SAYS(map(2 * i, 2 * i + 1, 3, 0), 0);
    SAYS(map(1, 2, 1, 0), 0);
    SAYS(iva_space_protect(&space, page(0), UINT64_C(1) << 45, 0), IVA_ENOMEM);
    SAYS(iva_space_lock(&space, page(0), UINT64_C(1) << 44, 0), IVA_ENOMEM);
    SAYS(iva_space_unmap(&space, page(4), 400 * PAGE), 0);
    is("0-3:400");
    end();
}

TEST(addr_calls, unmap_tells_the_empty_space_that_it_owns) {
    begin();
    SAYS(map(0, 4, 3, 0), 0);
    SAYS(map(10, 20, 3, 0), 0);
    SAYS(map(30, 31, 3, 0), 0);
    SAYS(iva_space_unmap(&space, page(10), 10 * PAGE), 0);
    CHECK(host.clear_start == page(10) && host.clear_end == page(20), "cleared");
    CHECK(host.floor == page(4) && host.ceiling == page(30), "floor %llx, ceiling %llx", (long long)host.floor,
          (long long)host.ceiling);
    SAYS(iva_space_unmap(&space, page(1), PAGE), 0);
    CHECK(host.floor == page(1) && host.ceiling == page(2), "inside an area");
    SAYS(iva_space_unmap(&space, page(2), 40 * PAGE), 0);
    CHECK(host.floor == page(1) && host.ceiling == 0, "to the end");
    SAYS(map(0, 1, 1, 0), 0);
    CHECK(host.clear_start == page(0) && host.floor == host.ceiling, "replaced: no table may go");
    end();
}

TEST(addr_calls, bad_arguments_are_answered_as_linux_does) {
    struct iva_map_request request = anonymous(0, PAGE, 3, 0);
    uint64_t got;
    begin();
    SAYS(iva_space_map(NULL, &request, &got), IVA_EINVAL);
    SAYS(iva_space_map(&space, NULL, &got), IVA_EINVAL);
    SAYS(iva_space_map(&space, &request, NULL), IVA_EINVAL);
    request.length = 0;
    SAYS(iva_space_map(&space, &request, &got), IVA_EINVAL);
    request.length = UINT64_MAX;
    SAYS(iva_space_map(&space, &request, &got), IVA_ENOMEM);
    request.length = PAGE;
    request.extra = IVA_LOCKED;
    SAYS(iva_space_map(&space, &request, &got), IVA_EINVAL);
    request.extra = 0;
    request.flags |= IVA_MAP_HUGETLB;
    SAYS(iva_space_map(&space, &request, &got), IVA_EOPNOTSUPP);
    request = object(0, PAGE, 3, IVA_MAP_SHARED_VALIDATE | 0x800000, 5, 0);
    SAYS(iva_space_map(&space, &request, &got), IVA_EOPNOTSUPP);
    request = object(0, PAGE, 3, IVA_MAP_SHARED, 5, 0);
    request.access = IVA_READ;
    SAYS(iva_space_map(&space, &request, &got), IVA_EACCES);
    request.rights = IVA_EXEC;
    SAYS(iva_space_map(&space, &request, &got), IVA_EPERM);
    request = object(0, PAGE, 3, IVA_MAP_SHARED, 5, UINT64_C(0x7ffffffffffff000));
    SAYS(iva_space_map(&space, &request, &got), IVA_EOVERFLOW);
    request = anonymous(0x1000, PAGE, 3, IVA_MAP_FIXED);
    SAYS(iva_space_map(&space, &request, &got), IVA_EPERM);
    SAYS(iva_space_unmap(&space, BASE + 1, PAGE), IVA_EINVAL);
    SAYS(iva_space_unmap(&space, BASE, 0), IVA_EINVAL);
    SAYS(iva_space_unmap(&space, BASE, UINT64_MAX), IVA_EINVAL);
    SAYS(iva_space_unmap(&space, BASE, PAGE), 0);
    SAYS(iva_space_protect(&space, BASE, PAGE, 3), IVA_ENOMEM);
    SAYS(iva_space_protect(&space, BASE, 0, 3), 0);
    SAYS(iva_space_protect(&space, BASE, PAGE, 0x40), IVA_EINVAL);
    SAYS(iva_space_advise(&space, BASE, PAGE, 5), IVA_EINVAL);
    SAYS(iva_space_advise(&space, BASE, PAGE, IVA_ADVISE_DONTNEED), IVA_ENOMEM);
    SAYS(iva_space_remap(&space, BASE, PAGE, 2 * PAGE, 0, 0, &got), IVA_EFAULT);
    SAYS(iva_space_remap(&space, BASE, PAGE, 0, 0, 0, &got), IVA_EINVAL);
    SAYS(iva_space_remap(&space, BASE, PAGE, PAGE, IVA_REMAP_FIXED, BASE + PAGE, &got), IVA_EINVAL);
    SAYS(iva_space_lock(&space, BASE, PAGE, 2), IVA_EINVAL);
    SAYS(iva_space_lock_all(&space, 0), IVA_EINVAL);
    SAYS(iva_space_lock_all(&space, IVA_LOCK_ALL_ONFAULT), IVA_EINVAL);
    SAYS(iva_space_touch(&space, BASE, 3, NULL), IVA_EINVAL);
    SAYS(iva_space_touch(&space, BASE, IVA_READ, NULL), IVA_EFAULT);
    SAYS(iva_space_set_limit(&space, (enum iva_limit)4, 1), IVA_EINVAL);
    end();
}

TEST(addr_calls, a_call_inside_a_read_section_is_refused) {
    struct iva_map_request request = anonymous(0, PAGE, 3, 0);
    uint64_t got;
    begin();
    ivs_map_read_enter(iva_space_map_of(&space));
#if !IVS_RCU_IS_(URCU_QSBR)
    SAYS(iva_space_map(&space, &request, &got), IVA_EDEADLK);
    SAYS(iva_space_unmap(&space, BASE, PAGE), IVA_EDEADLK);
    SAYS(iva_space_lock_all(&space, IVA_LOCK_CURRENT), IVA_EDEADLK);
#endif
    ivs_map_read_exit(iva_space_map_of(&space));
    (void)request;
    (void)got;
    end();
}

/* ---- remap */

TEST(addr_calls, a_move_of_several_areas_keeps_what_is_under_their_gaps) {
    uint64_t got;
    begin();
    SAYS(map(0, 1, 3, 0), 0);
    SAYS(map(2, 3, 1, 0), 0);
    SAYS(map(10, 13, 4, 0), 0);
    SAYS(iva_space_remap(&space, page(0), 3 * PAGE, 3 * PAGE, 3, page(10), &got), 0);
    is("10-11:3 11-12:4 12-13:1");
    CHECK(host.moves == 2, "%ld moves", (long)host.moves);
    end();
}

TEST(addr_calls, a_move_far_away_locks_two_ranges_and_one_nearby_locks_one) {
    uint64_t got;
    begin();
    for (unsigned i = 0; i < 20; i += 2) SAYS(map(i * 10, i * 10 + 5, 3, 0), 0);
    SAYS(iva_space_remap(&space, page(0), 5 * PAGE, 5 * PAGE, 3, page(105), &got), 0);
    SAYS(iva_space_remap(&space, page(180), 5 * PAGE, 5 * PAGE, 3, page(0), &got), 0);
    SAYS(iva_space_remap(&space, page(20), 5 * PAGE, 5 * PAGE, 3, page(25), &got), 0);
    is("0-5:3 25-30:3 40-45:3 60-65:3 80-85:3 100-110:3 120-125:3 140-145:3 160-165:3");
    end();
}

TEST(addr_calls, dontunmap_leaves_the_source_unlocked) {
    uint64_t got;
    begin();
    SAYS(map(0, 4, 3, IVA_MAP_LOCKED), 0);
    SAYS(iva_space_remap(&space, page(0), 2 * PAGE, 2 * PAGE, 5, page(10), &got), 0);
    is("0-2:3 2-4:403 10-12:403");
    SAYS(iva_space_remap(&space, page(10), 2 * PAGE, 2 * PAGE, 7, page(20), &got), 0);
    is("0-2:3 2-4:403 10-12:3 20-22:403");
    end();
}

/* ---- brk, growth, lock, limits, fork */

TEST(addr_calls, brk_moves_the_end_of_the_heap_or_says_where_it_is) {
    struct iva_space_config config = host_config(&host);
    config.brk = BASE + 0x123;
    config.heap = &plain_bytes;
    SAYS(iva_space_init(&space, &config), 0);
    CHECK(iva_space_brk(&space, 0) == BASE + 0x123, "asked");
    CHECK(iva_space_brk(&space, BASE + 0x200) == BASE + 0x200, "inside the page");
    is("");
    CHECK(iva_space_brk(&space, page(3) + 7) == page(3) + 7, "longer");
    is("1-4:3");
    CHECK(iva_space_brk(&space, page(2)) == page(2), "shorter");
    is("1-2:3");
    SAYS(map(5, 6, 1, 0), 0);
    CHECK(iva_space_brk(&space, page(5)) == page(2), "a page stays free");
    CHECK(iva_space_brk(&space, page(4)) == page(4), "up to there");
    is("1-4:3 5-6:1");
    CHECK(iva_space_brk(&space, config.hi) == page(4), "beyond the end");
    SAYS(iva_space_unmap(&space, page(1), 3 * PAGE), 0);
    CHECK(iva_space_brk(&space, page(2)) == page(4), "the heap is not there any more");
    end();
}

TEST(addr_calls, a_stack_grows_to_its_limit_and_not_into_its_neighbour) {
    struct iva_view view;
    begin();
    SAYS(map(2000, 2010, 3, IVA_MAP_GROWSDOWN), 0);
    SAYS(iva_space_touch(&space, page(1990) + 5, IVA_WRITE, &view), 0);
    CHECK(view.start == page(1990) && view.end == page(2010), "grown");
    SAYS(iva_space_touch(&space, page(1989), IVA_EXEC, &view), IVA_EACCES);
    is("1989-2010:203");
    SAYS(map(1700, 1701, 3, 0), 0);
    SAYS(iva_space_touch(&space, page(1956), IVA_READ, &view), IVA_EFAULT);
    SAYS(iva_space_touch(&space, page(1957), IVA_READ, &view), 0);
    SAYS(iva_space_protect(&space, page(1700), PAGE, 0), 0);
    SAYS(iva_space_touch(&space, page(1900), IVA_READ, &view), 0);
    SAYS(iva_space_set_limit(&space, IVA_LIMIT_STACK, 111 * PAGE), 0);
    SAYS(iva_space_touch(&space, page(1898), IVA_READ, &view), IVA_ENOMEM);
    SAYS(iva_space_touch(&space, page(1899), IVA_READ, &view), 0);
    is("1700-1701:0 1899-2010:203");
    end();
}

TEST(addr_calls, a_hint_keeps_its_distance_from_a_stack) {
    struct iva_map_request request = anonymous(page(1700), PAGE, 3, 0);
    uint64_t got = 0;
    begin();
    SAYS(map(2000, 2010, 3, IVA_MAP_GROWSDOWN), 0);
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == page(1700), "far enough");
    request.address = page(1744);
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got != page(1744), "in the guard gap");
    end();
}

TEST(addr_calls, locked_memory_is_limited_and_counted) {
    struct iva_space_stats stats;
    begin();
    SAYS(iva_space_set_limit(&space, IVA_LIMIT_LOCKED, 4 * PAGE), 0);
    SAYS(map(0, 3, 3, IVA_MAP_LOCKED), 0);
    SAYS(map(3, 5, 3, IVA_MAP_LOCKED), IVA_EAGAIN);
    SAYS(map(3, 5, 3, 0), 0);
    SAYS(iva_space_lock(&space, page(3), 2 * PAGE, 0), IVA_ENOMEM);
    is("0-3:403 3-5:3");
    SAYS(iva_space_lock(&space, page(0), 4 * PAGE, 0), 0);
    SAYS(iva_space_lock_all(&space, IVA_LOCK_CURRENT), IVA_ENOMEM);
    SAYS(iva_space_unlock_all(&space), 0);
    is("0-5:3");
    SAYS(iva_space_lock_all(&space, IVA_LOCK_FUTURE | IVA_LOCK_ALL_ONFAULT), 0);
    SAYS(map(6, 7, 3, 0), 0);
    is("0-5:3 6-7:c03");
    (void)iva_space_get_stats(&space, &stats);
    CHECK(stats.locked == PAGE && stats.total == 6 * PAGE && stats.areas == 2, "accounts");
    SAYS(iva_space_set_limit(&space, IVA_LIMIT_LOCKED, 0), 0);
    SAYS(iva_space_lock(&space, page(0), PAGE, 0), IVA_EPERM);
    SAYS(map(8, 9, 3, IVA_MAP_LOCKED), IVA_EPERM);
    SAYS(map(8, 9, 3, 0), IVA_EAGAIN);
    end();
}

TEST(addr_calls, the_total_and_the_number_of_areas_are_limited) {
    begin();
    SAYS(iva_space_set_limit(&space, IVA_LIMIT_TOTAL, 10 * PAGE), 0);
    SAYS(iva_space_set_limit(&space, IVA_LIMIT_AREAS, 3), 0);
    SAYS(map(0, 11, 3, 0), IVA_ENOMEM);
    SAYS(map(0, 10, 3, 0), 0);
    SAYS(map(5, 15, 3, 0), IVA_ENOMEM);
    SAYS(map(2, 8, 1, 0), 0); /* what it replaces does not count twice */
    SAYS(iva_space_protect(&space, page(4), PAGE, 0), IVA_ENOMEM);
    SAYS(iva_space_unmap(&space, page(4), PAGE), IVA_ENOMEM);
    is("0-2:3 2-8:1 8-10:3");
    SAYS(iva_space_unmap(&space, page(2), PAGE), 0);
    end();
}

TEST(addr_calls, a_fork_leaves_out_what_it_should_and_fails_without_a_trace) {
    static struct iva_space child;
    begin();
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(map(4, 6, 1, IVA_MAP_LOCKED), 0);
    SAYS(map(8, 9, 3, 0), 0);
    SAYS(iva_space_advise(&space, page(8), PAGE, IVA_ADVISE_DONTFORK), 0);
    SAYS(iva_space_lock_all(&space, IVA_LOCK_FUTURE), 0);
    for (long at = 0;; at++) {
        int r;
        host.calls = 0;
        host.fail_at = at;
        r = iva_space_fork(&space, &child, NULL);
        host.fail_at = NEVER;
        if (r == 0) break;
        CHECK(r == IVA_ENOMEM || r == host.error, "%d", r);
        audit(&space, &host, "after a failed fork");
    }
    shows(&child, BASE, "0-2:3 4-6:1");
    CHECK(host.owned == 5, "%ld", (long)host.owned);
    SAYS(iva_space_validate(&child, NULL), 0);
    SAYS(iva_space_destroy(&child), 0);
    is("0-2:3 4-6:401 8-9:1003");
    end();
}

TEST(addr_calls, spaces_share_a_domain) {
    static struct iva_domain domain;
    static struct iva_space child;
    struct iva_domain_config shared = {&host_ops, &host, sizeof(struct host_bytes), 0};
    struct iva_space_config config = host_config(&host);
    SAYS(iva_domain_init(&domain, &shared), 0);
    config.domain = &domain;
    SAYS(iva_space_init(&space, &config), 0);
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(iva_space_fork(&space, &child, NULL), 0);
    SAYS(iva_space_unmap(&space, page(1), PAGE), 0);
    shows(&child, BASE, "0-2:3");
    SAYS(iva_space_destroy(&space), 0);
    SAYS(iva_space_destroy(&child), 0);
    SAYS(iva_domain_destroy(&domain), 0);
    CHECK(host.owned == 0 && host.blocks == 0, "left over");
}

/* ---- advice, figures */

TEST(addr_calls, advice_goes_over_holes_and_then_says_so) {
    struct iva_measure measure;
    begin();
    SAYS(map(0, 2, 3, 0), 0);
    SAYS(map(4, 6, 3, 0), 0);
    SAYS(iva_space_advise(&space, page(0), 6 * PAGE, IVA_ADVISE_DONTFORK), IVA_ENOMEM);
    is("0-2:1003 4-6:1003");
    SAYS(iva_space_lock(&space, page(4), PAGE, 0), 0);
    SAYS(iva_space_advise(&space, page(0), 6 * PAGE, IVA_ADVISE_DONTNEED), IVA_EINVAL);
    SAYS(iva_space_advise(&space, page(0), 2 * PAGE, IVA_ADVISE_DONTNEED), 0);
    CHECK(host.advices == 4, "%ld", (long)host.advices);
    SAYS(iva_space_measure(&space, page(1), page(8), &measure), 0);
    CHECK(measure.areas == 3 && measure.bytes == 3 * PAGE && measure.locked == PAGE && measure.gaps == 2 &&
              measure.largest_gap == 2 * PAGE,
          "%d areas, %d gaps", (int)measure.areas, (int)measure.gaps);
    end();
}

/* ---- placement */

/* From above, with areas that cannot be joined; a search that takes too many steps shows in time. */
TEST(addr_calls, placement_stays_quick_with_many_areas) {
    struct iva_space_config config = host_config(&host);
    enum { MANY = 65000 };
    uint64_t got = 0, next = 0, begun;
    struct iva_map_request request = anonymous(0, PAGE, 3, 0);
    config.limit[IVA_LIMIT_AREAS] = 0;
    SAYS(iva_space_init(&space, &config), 0);
    begun = now_ns();
    for (unsigned i = 0; i < MANY && !test_failed(); i++) {
        request.rights = i % 2 ? 3 : 1;
        request.length = 2 * PAGE;
        SAYS(host_map(&space, &host, &request, &got), 0);
        CHECK(got == config.hi - (i + 1) * 2 * PAGE, "area %u at %llx", i, (unsigned long long)got);
    }
    for (unsigned i = 0; i < MANY; i += 2) SAYS(iva_space_unmap(&space, config.hi - (i + 1) * 2 * PAGE, PAGE), 0);
    for (unsigned i = 0; i < 2000; i++) { /* no gap above takes two pages */
        request.length = (i % 3 + 2) * PAGE;
        SAYS(host_map(&space, &host, &request, &got), 0);
        CHECK(got < config.hi - MANY * 2 * PAGE, "at %llx", (unsigned long long)got);
        next = got;
    }
    request.length = PAGE;
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == config.hi - 2 * PAGE && next, "the highest gap that fits, %llx", (unsigned long long)got);
    CHECK(now_ns() - begun < 60000000000u, "%d ms", (int)((now_ns() - begun) / 1000000));
    end();
}

TEST(addr_calls, large_pieces_are_congruent) {
    struct iva_map_request request = anonymous(0, UINT64_C(4) << 20, 3, 0);
    const uint64_t huge = UINT64_C(1) << 21;
    uint64_t got = 0;
    begin();
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got % huge == 0, "%llx", (unsigned long long)got);
    request = object(0, UINT64_C(5) << 20, 1, IVA_MAP_PRIVATE, 9, 3 * PAGE);
    request.extra = IVA_CONGRUENT;
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got % huge == 3 * PAGE, "%llx", (unsigned long long)got);
    end();
}

static int place_odd(void *ctx, const struct iva_place *request, uint64_t *address) {
    (void)ctx;
    *address = BASE + (2 * request->attempt + 1) * PAGE;
    return request->attempt > 3 ? -1 : 0;
}

TEST(addr_calls, bottom_up_and_the_hosts_own_placement) {
    struct iva_space_config config = host_config(&host);
    struct iva_map_request request = anonymous(0, PAGE, 3, 0);
    struct iva_ops ops = host_ops;
    uint64_t got = 0;
    config.policy = IVA_PLACE_BOTTOM_UP;
    config.base = BASE;
    config.hi = BASE + 8 * PAGE;
    config.huge = 0;
    SAYS(iva_space_init(&space, &config), 0);
    SAYS(map(2, 3, 1, 0), 0);
    SAYS(host_map(&space, &host, &request, &got), 0);
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == page(1), "%llx", (unsigned long long)got);
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == page(3), "%llx", (unsigned long long)got);
    request.length = 5 * PAGE;
    SAYS(host_map(&space, &host, &request, &got), IVA_ENOMEM);
    end();
    config = host_config(&host);
    ops.place = place_odd;
    config.ops = &ops;
    config.policy = IVA_PLACE_HOOK;
    SAYS(iva_space_init(&space, &config), 0);
    SAYS(map(1, 2, 1, 0), 0);
    request.length = PAGE;
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == page(3), "the second proposal, %llx", (unsigned long long)got);
    request.length = 100 * PAGE;
    SAYS(map(9, 10, 1, 0), 0);
    SAYS(host_map(&space, &host, &request, &got), 0);
    CHECK(got == config.hi - 100 * PAGE, "no proposal fits, %llx", (unsigned long long)got);
    end();
}

TEST(addr_calls, a_space_may_reach_to_the_last_address) {
    struct iva_space_config config = host_config(&host);
    struct iva_map_request request = anonymous(0 - PAGE, PAGE, 3, IVA_MAP_FIXED);
    uint64_t got = 0;
    config.hi = 0;
    config.lo = 0;
    SAYS(iva_space_init(&space, &config), 0);
    SAYS(host_map(&space, &host, &request, &got), 0);
    request = anonymous(0, PAGE, 3, IVA_MAP_FIXED);
    SAYS(host_map(&space, &host, &request, &got), 0);
    SAYS(iva_space_protect(&space, 0 - PAGE, PAGE, 1), 0);
    SAYS(iva_space_lock(&space, 0 - PAGE, PAGE, 0), 0);
    SAYS(iva_space_advise(&space, 0 - PAGE, PAGE, IVA_ADVISE_DONTFORK), 0);
    SAYS(iva_space_remap(&space, 0 - PAGE, PAGE, PAGE, 3, 0, &got), 0);
    CHECK(got == 0, "to the first page");
    shows(&space, 0, "0-1:1401");
    SAYS(iva_space_unmap(&space, 0, PAGE), 0);
    end();
}

/* ---- gate and counter */

TEST(addr_calls, the_modes_of_a_gate_exclude_as_they_should) {
    static const bool together[5][5] = {
        {0}, {0, true, false, true, false}, {0}, {0, true, false, true, true}, {0, false, false, true, true}};
    struct iva_gate gate;
    SAYS(iva_gate_init(&gate), 0);
    for (unsigned a = IVA_GR; a <= IVA_LW; a++) {
        for (unsigned b = IVA_GR; b <= IVA_LW; b++) {
            struct iva_hold first = {0}, second = {0};
            SAYS(iva_gate_lock(&gate, (enum iva_gate_mode)a, &first), 0);
            SAYS(iva_gate_trylock(&gate, (enum iva_gate_mode)b, &second), together[a][b] ? 0 : IVA_EBUSY);
            SAYS(iva_gate_destroy(&gate), IVA_EBUSY);
            if (together[a][b]) SAYS(iva_gate_unlock(&second), 0);
            SAYS(iva_gate_unlock(&first), 0);
        }
    }
    SAYS(iva_gate_destroy(&gate), 0);
}

static struct iva_gate crowd_gate;
static long crowd_alone, crowd_shared[8];

static void *crowd(void *arg) {
    unsigned me = *(unsigned *)arg;
    for (unsigned i = 0; i < test_scale(20000); i++) {
        struct iva_hold hold = {0};
        unsigned mode = (i * 7 + me) % 16;
        enum iva_gate_mode as = mode == 0 ? IVA_GW : mode == 1 ? IVA_GR : mode % 2 ? IVA_LR : IVA_LW;
        SAYS(iva_gate_lock(&crowd_gate, as, &hold), 0);
        if (as == IVA_GW) crowd_alone++; /* a data race if another is in, which sanitizers see */
        if (as == IVA_LW) crowd_shared[me]++;
        if (as == IVA_GR)
            for (unsigned k = 0; k < 8; k++) CHECK(crowd_shared[k] >= 0, "sum");
        SAYS(iva_gate_unlock(&hold), 0);
    }
    return NULL;
}

TEST(addr_calls, a_crowd_goes_through_a_gate) {
    unsigned id[4] = {0, 1, 2, 3};
    crowd_alone = 0;
    SAYS(iva_gate_init(&crowd_gate), 0);
    run_threads(4, crowd, id, sizeof id[0]);
    CHECK(crowd_alone > 0, "none was alone");
    SAYS(iva_gate_destroy(&crowd_gate), 0);
}

TEST(addr_calls, a_counter_stays_within_its_limit) {
    struct iva_counter counter;
    SAYS(iva_counter_init(&counter, 10), 0);
    SAYS(iva_counter_charge(&counter, 10), 0);
    SAYS(iva_counter_charge(&counter, 1), IVA_ENOMEM);
    SAYS(iva_counter_charge(&counter, 0), 0);
    iva_counter_uncharge(&counter, 4);
    SAYS(iva_counter_charge(&counter, UINT64_MAX), IVA_ENOMEM);
    SAYS(iva_counter_set_limit(&counter, 5), 0);
    SAYS(iva_counter_charge(&counter, 1), IVA_ENOMEM);
    CHECK(iva_counter_read(&counter) == 6 && iva_counter_estimate(&counter) == 6 && iva_counter_limit(&counter) == 5,
          "read");
    SAYS(iva_counter_destroy(&counter), 0);
}
