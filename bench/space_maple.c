/* SPDX-License-Identifier: MIT */
/*
 * The same semantics on Linux' maple tree, as mm/mmap.c and mm/vma.c have them, as far as bench/space.c asks: the highest
 * gap below the base, 2 MiB alignment of large pieces, equal neighbours joined in place, areas cut by unmap, protect and
 * fixed maps, limits and accounts. One lock for writers (the tree's), areas freed by call_rcu, for look-ups read them.
 */
#include "bench.h"
#include "space.h"

#include "shared.h"
#include <linux/maple_tree.h>
#include <stdlib.h>

struct area {
    struct rcu_head rcu;
    uint64_t start, end;
    uint64_t flags;
    uintptr_t object;
    uint64_t offset;
};

struct space {
    struct maple_tree tree;
    uint64_t areas, bytes;
};

static const uint64_t most_areas = 200000, most_bytes = UINT64_C(1) << 46, huge = UINT64_C(1) << 21;

static void *make(void) {
    struct space *space = calloc(1, sizeof *space);
    bench_demand(space != NULL);
    mt_init_flags(&space->tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
    return space;
}

static void area_over(struct rcu_head *head) { bench_free(head, sizeof(struct area)); }
static void area_gone(struct space *space, struct area *area) {
    space->areas--;
    call_rcu(&area->rcu, area_over);
}

static void end(void *at) {
    struct space *space = at;
    struct area *area;
    unsigned long index = 0;
    mt_for_each(&space->tree, area, index, ULONG_MAX) area_gone(space, area);
    bench_demand(space->areas == 0);
    mtree_destroy(&space->tree);
    rcu_barrier();
    free(space);
}

static struct area *area_new(struct space *space, const struct area *like, uint64_t start, uint64_t end) {
    struct area *area = bench_alloc(sizeof *area);
    if (like) *area = *like;
    else area->flags = area->object = area->offset = 0;
    if (like && like->object) area->offset += start - like->start;
    area->start = start;
    area->end = end;
    space->areas++;
    return area;
}

static int store(struct ma_state *mas, struct area *area) {
    mas_set_range(mas, area->start, area->end - 1);
    return mas_store_gfp(mas, area, GFP_KERNEL);
}

/* Areas that cross `at` are two from now on. */
static int split_at(struct space *space, struct ma_state *mas, uint64_t at) {
    struct area *area, *right;
    mas_set(mas, at);
    area = mas_walk(mas);
    if (!area || area->start == at) return 0;
    if (space->areas >= most_areas) return -ENOMEM;
    right = area_new(space, area, at, area->end);
    area->end = at;
    return store(mas, right); /* the left one keeps what is left of its range */
}

static int clear(struct space *space, struct ma_state *mas, uint64_t start, uint64_t end) {
    struct area *area;
    int r = split_at(space, mas, start);
    if (r == 0) r = split_at(space, mas, end);
    if (r) return r;
    mas_set(mas, start);
    mas_for_each(mas, area, end - 1) {
        space->bytes -= area->end - area->start;
        area_gone(space, area);
    }
    mas_set_range(mas, start, end - 1);
    return mas_store_gfp(mas, NULL, GFP_KERNEL);
}

static bool joins(const struct area *left, const struct area *right) {
    return left && right && left->end == right->start && left->flags == right->flags && left->object == right->object &&
           (!left->object || left->offset + (left->end - left->start) == right->offset);
}

/* [start, end) is free: an area there, or its neighbours grow over it. */
static int put(struct space *space, struct ma_state *mas, uint64_t start, uint64_t end, uint64_t flags) {
    struct area want = {.start = start, .end = end, .flags = flags}, *before, *after;
    mas_set_range(mas, start, end - 1);
    before = mas_prev(mas, 0);
    mas_set_range(mas, start, end - 1);
    (void)mas_walk(mas);
    after = mas_next(mas, ULONG_MAX);
    space->bytes += end - start;
    if (joins(before, &want)) {
        before->end = end;
        if (joins(before, after)) {
            before->end = after->end;
            area_gone(space, after);
        }
        return store(mas, before);
    }
    if (joins(&want, after)) {
        after->start = start;
        if (after->object) after->offset -= end - start;
        return store(mas, after);
    }
    return store(mas, area_new(space, &want, start, end));
}

static int map(void *at, uint64_t bytes, unsigned rights, uint64_t *start) {
    struct space *space = at;
    bool large = bytes >= huge && bytes % huge == 0;
    int r = -ENOMEM;
    MA_STATE(mas, &space->tree, 0, 0);
    mas_lock(&mas);
    if (space->areas < most_areas && bytes <= most_bytes - space->bytes &&
        mas_empty_area_rev(&mas, SPACE_LO, SPACE_BASE - 1, bytes + (large ? huge : 0)) == 0) {
        *start = mas.last + 1 - bytes - (large ? huge : 0);
        if (large) *start = (*start + huge) & ~(huge - 1);
        r = put(space, &mas, *start, *start + bytes, rights);
    }
    mas_unlock(&mas);
    return r;
}

static int map_at(void *at, uint64_t start, uint64_t bytes, unsigned rights) {
    struct space *space = at;
    int r = -ENOMEM;
    MA_STATE(mas, &space->tree, 0, 0);
    mas_lock(&mas);
    if (bytes <= most_bytes - space->bytes) r = clear(space, &mas, start, start + bytes);
    if (r == 0) r = put(space, &mas, start, start + bytes, rights);
    mas_unlock(&mas);
    return r;
}

static int unmap(void *at, uint64_t start, uint64_t bytes) {
    struct space *space = at;
    int r;
    MA_STATE(mas, &space->tree, 0, 0);
    mas_lock(&mas);
    r = clear(space, &mas, start, start + bytes);
    mas_unlock(&mas);
    return r;
}

/* Areas in order, each joined with the one before it and with what comes after the last, as mprotect does. */
static int protect(void *at, uint64_t start, uint64_t bytes, unsigned rights) {
    struct space *space = at;
    uint64_t end = start + bytes, here = start;
    struct area *area, *other;
    int r;
    MA_STATE(mas, &space->tree, 0, 0);
    mas_lock(&mas);
    r = split_at(space, &mas, start);
    if (r == 0) r = split_at(space, &mas, end);
    while (r == 0 && here < end) {
        mas_set(&mas, here);
        area = mas_walk(&mas);
        if (!area) {
            r = -ENOMEM;
            break;
        }
        area->flags = rights;
        here = area->end;
        other = mas_prev(&mas, 0);
        if (joins(other, area)) {
            other->end = area->end;
            area_gone(space, area);
            area = other;
            r = store(&mas, area);
        }
        mas_set(&mas, here);
        other = mas_walk(&mas);
        if (r == 0 && here == end && joins(area, other)) {
            area->end = other->end;
            area_gone(space, other);
            r = store(&mas, area);
        }
    }
    mas_unlock(&mas);
    return r;
}

static void measure(void *at, uint64_t *areas, uint64_t *bytes) {
    const struct space *space = at;
    *areas = space->areas;
    *bytes = space->bytes;
}

static void thread_begin(void) { rcu_register_thread(); }
static void thread_end(void) { rcu_unregister_thread(); }
const struct space_peer space_maple = {"maple", make,    end,     map,          map_at,
                                       unmap,   protect, measure, thread_begin, thread_end};
