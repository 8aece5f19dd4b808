/* SPDX-License-Identifier: MIT */
/*
 * Random calls, bad arguments included, against a model of one entry a page: results, effects, and places. Before each
 * call succeeds, it is made to fail at each of its callbacks and allocations in turn, which must change nothing.
 */
#include "addr.h"

enum { PAGES = 96, GUARD = 4, OBJECTS = 3 };
#define BASE UINT64_C(0x100000)
#define TOP  (BASE + PAGES * PAGE)

struct cell {
    bool mapped;
    uint64_t flags, object, offset, label;
};

/* What is asked; the same call is made several times. */
struct call {
    unsigned kind, advice, remap;
    uint64_t address, length, other, target, rights, access;
    struct iva_map_request request;
    struct host_bytes bytes;
    uint64_t got;
};

static struct cell model[PAGES];

static bool cells_join(unsigned left) { /* with the one after it */
    const struct cell *l = &model[left], *r = &model[left + 1];
    return left + 1 < PAGES && l->mapped && r->mapped && l->flags == r->flags && l->object == r->object &&
           l->label == r->label && (!l->object || l->offset + PAGE == r->offset);
}

static unsigned area_end(unsigned at) {
    while (cells_join(at)) at++;
    return at + 1;
}

static unsigned area_start(unsigned at) {
    while (at > 0 && cells_join(at - 1)) at--;
    return at;
}

static unsigned next_area(unsigned at) {
    while (at < PAGES && !model[at].mapped) at++;
    return at;
}

static bool cells_free(unsigned from, unsigned to) { return next_area(from) >= to; }

static unsigned guard_start(unsigned at) {
    if (at >= PAGES || !(model[at].flags & IVA_GROWSDOWN)) return at;
    return at > GUARD ? at - GUARD : 0;
}

/* The highest gap, or PAGES. A guard gap counts where the gap would do without it, and from there on down. */
static unsigned highest(unsigned pages) {
    unsigned top = PAGES, limit = PAGES;
    for (;;) {
        unsigned from = top, end = top < limit ? top : limit;
        while (from > 0 && !model[from - 1].mapped) from--;
        if (end > from && end - from >= pages) {
            if (guard_start(top) < end) limit = end = guard_start(top);
            if (end > from && end - from >= pages) return end - pages;
        }
        if (from == 0) return PAGES;
        top = area_start(from - 1);
    }
}

/* ---- what the model says; the effects are made in model[] */

static unsigned page_of(uint64_t address) { return (unsigned)((address - BASE) / PAGE); }

static int cells_map(const struct call *call, uint64_t *got) {
    const struct iva_map_request *q = &call->request;
    uint64_t pages = (q->length + PAGE - 1) / PAGE, hint = q->address & ~(PAGE - 1), flags;
    bool fixed = q->flags & (IVA_MAP_FIXED | IVA_MAP_FIXED_NOREPLACE), anonymous_ = q->flags & IVA_MAP_ANONYMOUS;
    bool shared = (q->flags & 3) != 2;
    unsigned at;
    if (q->offset % PAGE || q->length == 0) return IVA_EINVAL;
    if (fixed && (q->address > TOP || pages * PAGE > TOP - q->address)) return IVA_ENOMEM;
    if (fixed && q->address % PAGE) return IVA_EINVAL;
    if (fixed && q->address < BASE) return IVA_EPERM;
    at = page_of(q->address);
    if ((q->flags & IVA_MAP_FIXED_NOREPLACE) && !cells_free(at, at + (unsigned)pages)) return IVA_EEXIST;
    if ((q->flags & 3) == 0) return IVA_EINVAL;
    if (!anonymous_ && shared && (q->rights & IVA_WRITE) && !(q->access & IVA_WRITE)) return IVA_EACCES;
    if ((q->flags & IVA_MAP_GROWSDOWN) && (!anonymous_ || shared)) return IVA_EINVAL;
    if (!fixed) {
        if (hint && hint < BASE) hint = BASE;
        at = PAGES;
        if (hint && hint < TOP && pages <= (TOP - hint) / PAGE) {
            at = page_of(hint);
            if (at + pages > PAGES || guard_start(next_area(at)) < at + pages) at = PAGES;
        }
        if (at == PAGES) at = highest((unsigned)(pages > PAGES ? PAGES + 1 : pages));
        if (at == PAGES) return IVA_ENOMEM;
    }
    flags = q->rights;
    if (shared) flags |= IVA_SHARED;
    if (q->flags & IVA_MAP_LOCKED) flags |= IVA_LOCKED;
    if (q->flags & IVA_MAP_GROWSDOWN) flags |= IVA_GROWSDOWN;
    if (!anonymous_ && shared && !(q->access & IVA_WRITE)) flags |= IVA_DENY_WRITE;
    for (unsigned i = 0; i < pages; i++) {
        struct cell cell = {true, flags, q->object, q->object ? (anonymous_ ? 0 : q->offset) + i * PAGE : 0,
                            call->bytes.label};
        model[at + i] = cell;
    }
    *got = BASE + at * PAGE;
    return 0;
}

static int cells_unmap(const struct call *call) {
    uint64_t pages = (call->length + PAGE - 1) / PAGE;
    if (call->address % PAGE || !pages || call->address > TOP || pages > (TOP - call->address) / PAGE)
        return IVA_EINVAL;
    for (unsigned i = 0; i < pages; i++)
        if (call->address + i * PAGE >= BASE) model[page_of(call->address) + i].mapped = false;
    return 0;
}

static int model_protect(const struct call *call) {
    uint64_t pages = (call->length + PAGE - 1) / PAGE;
    unsigned at = page_of(call->address), end = at + (unsigned)pages, first;
    if (call->address % PAGE) return IVA_EINVAL;
    if (!pages) return 0;
    if (call->rights & 0x80) return IVA_EINVAL;
    first = next_area(at);
    if (first >= PAGES || first >= end) return IVA_ENOMEM;
    if (call->rights & IVA_PROT_GROWSDOWN) {
        if (!(model[first].flags & IVA_GROWSDOWN)) return IVA_EINVAL;
        at = area_start(first);
    } else if (first > at) {
        return IVA_ENOMEM;
    }
    for (; at < end; at++) {
        if (at >= PAGES || !model[at].mapped) return IVA_ENOMEM;
        if ((call->rights & IVA_WRITE) && (model[at].flags & IVA_DENY_WRITE)) return IVA_EACCES;
        model[at].flags = (model[at].flags & ~(uint64_t)IVA_RIGHTS) | (call->rights & IVA_RIGHTS);
    }
    return 0;
}

static int model_flags(const struct call *call, uint64_t clear, uint64_t set, bool stop) {
    unsigned at = page_of(call->address), end = at + (unsigned)(call->length / PAGE);
    int r = 0;
    for (; at < end; at++) {
        if (at >= PAGES || !model[at].mapped) {
            r = IVA_ENOMEM;
            if (stop || at >= PAGES) return r;
            continue;
        }
        model[at].flags = (model[at].flags & ~clear) | set;
    }
    return r;
}

static int model_lock(const struct call *call, uint64_t set) {
    struct cell before[PAGES];
    unsigned at = page_of(call->address);
    int r;
    memcpy(before, model, sizeof before);
    r = model_flags(call, IVA_LOCKED | IVA_LOCKONFAULT, set, true);
    for (; set && at < PAGES && at < page_of(call->address) + call->length / PAGE && before[at].mapped; at++)
        if (!(before[at].flags & IVA_RIGHTS)) r = IVA_ENOMEM;
    return r;
}

/* Moves [at, at + pages) to `to`; the target becomes `wanted` pages long. */
static void model_move(const struct call *call, unsigned at, unsigned pages, unsigned wanted, unsigned to) {
    struct cell first = model[at];
    for (unsigned i = 0; i < wanted; i++) {
        struct cell cell = first;
        if (cell.object) cell.offset += i * PAGE;
        model[to + i] = cell;
    }
    for (unsigned i = 0; i < pages; i++) {
        if (call->remap & IVA_REMAP_DONTUNMAP) model[at + i].flags &= ~(uint64_t)(IVA_LOCKED | IVA_LOCKONFAULT);
        else model[at + i].mapped = false;
    }
}

static int model_move_all(const struct call *call, unsigned at, unsigned pages, unsigned to) {
    if (!model[at].mapped) return IVA_EFAULT;
    for (unsigned i = 0; i < pages; i++)
        if (model[at + i].mapped) model_move(call, at + i, 1, 1, to + i);
    return 0;
}

static int model_remap(const struct call *call, uint64_t *got) {
    unsigned olen = (unsigned)((call->length + PAGE - 1) / PAGE), nlen = (unsigned)((call->other + PAGE - 1) / PAGE);
    unsigned at = page_of(call->address), to = page_of(call->target), end, moved = olen < nlen ? olen : nlen;
    unsigned flags = call->remap;
    bool there;
    if (call->address % PAGE || nlen == 0) return IVA_EINVAL;
    there = model[at].mapped;
    if (flags & (IVA_REMAP_FIXED | IVA_REMAP_DONTUNMAP)) {
        if (call->target > TOP || nlen * PAGE > TOP - call->target || call->target % PAGE) return IVA_EINVAL;
        if (!(flags & IVA_REMAP_MAYMOVE) || ((flags & IVA_REMAP_DONTUNMAP) && olen != nlen)) return IVA_EINVAL;
        if (at + olen > to && to + nlen > at) return IVA_EINVAL;
        if ((flags & IVA_REMAP_FIXED) && olen == nlen) {
            *got = call->target;
            return model_move_all(call, at, olen, to);
        }
    } else if (nlen <= olen) {
        if (!there) return IVA_EFAULT;
        *got = call->address;
        if (nlen == olen) return 0;
        if (at + olen > PAGES) return IVA_EINVAL;
        for (unsigned i = nlen; i < olen; i++) model[at + i].mapped = false;
        return 0;
    }
    if (!there) return IVA_EFAULT;
    if (olen == 0 && !(model[at].flags & IVA_SHARED)) return IVA_EINVAL;
    end = area_end(at);
    if (moved > end - at) return IVA_EFAULT;
    if (flags & IVA_REMAP_FIXED) {
        if (olen > nlen && at + olen > PAGES) return IVA_EINVAL;
        if (olen == 0 && at == to) {
            for (unsigned i = 0; i < nlen; i++) model[at + i].mapped = false;
            return IVA_EFAULT;
        }
        model_move(call, at, olen, nlen, to);
        *got = call->target;
        return 0;
    }
    if (!(flags & IVA_REMAP_DONTUNMAP) && end - at == olen && at + nlen <= PAGES && cells_free(end, at + nlen)) {
        model_move(call, at, 0, nlen, at);
        *got = call->address;
        return 0;
    }
    if (!(flags & IVA_REMAP_MAYMOVE)) return IVA_ENOMEM;
    if (flags & IVA_REMAP_DONTUNMAP) {
        if (guard_start(next_area(to)) < to + nlen) to = PAGES;
    } else {
        to = PAGES;
    }
    if (to == PAGES) to = highest(nlen);
    if (to == PAGES) return IVA_ENOMEM;
    model_move(call, at, olen, nlen, to);
    *got = BASE + to * PAGE;
    return 0;
}

static int model_touch(const struct call *call) {
    unsigned at = page_of(call->address), above = next_area(at), before = at;
    if (above >= PAGES) return IVA_EFAULT;
    if (above > at) {
        if (!(model[above].flags & IVA_GROWSDOWN)) return IVA_EFAULT;
        while (before > 0 && !model[before - 1].mapped) before--;
        if (before > 0) {
            uint64_t flags = model[before - 1].flags;
            if (!(flags & IVA_GROWSDOWN) && (flags & IVA_RIGHTS) && at - before < GUARD) return IVA_EFAULT;
        }
        for (unsigned i = at; i < above; i++) model[i] = model[above];
    }
    if (call->access == IVA_READ) return model[at].flags & IVA_RIGHTS ? 0 : IVA_EACCES;
    return model[at].flags & call->access ? 0 : IVA_EACCES;
}

static int model_call(const struct call *call, uint64_t *got) {
    switch (call->kind) {
    case 0: return cells_map(call, got);
    case 1: return cells_unmap(call);
    case 2: return model_protect(call);
    case 3: return model_remap(call, got);
    case 4:
        return model_flags(call, call->advice == IVA_ADVISE_DOFORK ? IVA_DONTFORK : 0,
                           call->advice == IVA_ADVISE_DONTFORK ? IVA_DONTFORK : 0, false);
    case 5: return model_lock(call, IVA_LOCKED);
    case 6: return model_lock(call, 0);
    default: return model_touch(call);
    }
}

/* ---- the call itself */

static int real_call(struct iva_space *space, struct host *host, struct call *call) {
    call->request.host = &call->bytes;
    switch (call->kind) {
    case 0: return host_map(space, host, &call->request, &call->got);
    case 1: return iva_space_unmap(space, call->address, call->length);
    case 2: return iva_space_protect(space, call->address, call->length, call->rights);
    case 3:
        return iva_space_remap(space, call->address, call->length, call->other, call->remap, call->target, &call->got);
    case 4: return iva_space_advise(space, call->address, call->length, call->advice);
    case 5: return iva_space_lock(space, call->address, call->length, 0);
    case 6: return iva_space_unlock(space, call->address, call->length);
    default: return iva_space_touch(space, call->address, call->access, NULL);
    }
}

static void make_request(struct rng *rng, struct call *call) {
    static const uint64_t rights[] = {3, 3, 3, 1, 1, 0, 5, 7, 2};
    uint64_t kind = rng_below(rng, 10), how = rng_below(rng, 10);
    struct iva_map_request q = anonymous(call->address, call->length, rights[rng_below(rng, 9)], 0);
    if (kind >= 6) {
        q = object(call->address, call->length, q.rights, kind & 1 ? IVA_MAP_SHARED : IVA_MAP_PRIVATE,
                   1 + rng_below(rng, OBJECTS), rng_below(rng, 4) ? call->address - BASE : rng_below(rng, 50) * PAGE);
        if (rng_below(rng, 3) == 0) q.access = IVA_READ | IVA_EXEC;
    } else if (kind == 5) {
        q.flags = IVA_MAP_SHARED | IVA_MAP_ANONYMOUS;
        q.object = 100 + rng_below(rng, 1000);
    }
    if (how < 5) q.flags |= IVA_MAP_FIXED;
    else if (how < 7) q.flags |= IVA_MAP_FIXED_NOREPLACE;
    else if (how < 9) q.address = 0;
    if (rng_below(rng, 6) == 0) q.flags |= IVA_MAP_GROWSDOWN;
    if (rng_below(rng, 8) == 0) q.flags |= IVA_MAP_LOCKED;
    if (rng_below(rng, 40) == 0) q.flags &= ~(uint64_t)3;
    if (rng_below(rng, 40) == 0) q.offset += 5;
    if (rng_below(rng, 40) == 0) q.length = 0;
    if (rng_below(rng, 40) == 0) q.address += 12;
    if (rng_below(rng, 40) == 0) q.address = 0x8000;
    call->request = q;
}

static void make_call(struct rng *rng, struct call *call) {
    static const uint64_t rights[] = {3, 3, 1, 1, 0, 5, 7, 2};
    uint64_t room;
    memset(call, 0, sizeof *call);
    call->kind = (unsigned)rng_below(rng, 12);
    if (call->kind > 7) call->kind = call->kind - 8;
    call->address = BASE + rng_below(rng, PAGES) * PAGE;
    room = (TOP - call->address) / PAGE;
    call->length = (1 + rng_below(rng, room > 12 ? 12 : room)) * PAGE;
    call->rights = rights[rng_below(rng, 8)];
    call->access = rng_below(rng, 2) ? IVA_READ : IVA_WRITE;
    call->advice = rng_below(rng, 2) ? IVA_ADVISE_DONTFORK : IVA_ADVISE_DOFORK;
    call->bytes.magic = HOST_MAGIC;
    call->bytes.label = rng_below(rng, 6) == 0;
    make_request(rng, call);
    call->other = (1 + rng_below(rng, 14)) * PAGE;
    if (rng_below(rng, 3) == 0) call->other = call->length;
    call->target = BASE + rng_below(rng, PAGES - call->other / PAGE) * PAGE;
    call->remap = (unsigned)rng_below(rng, 8);
    if (call->kind == 3 && rng_below(rng, 10) == 0) call->length = 0;
    if (rng_below(rng, 50) == 0 && call->kind < 4 && call->kind) call->address += 1;
    if (rng_below(rng, 50) == 0 && call->kind == 2) call->rights |= 0x80;
    if (rng_below(rng, 10) == 0 && call->kind == 2) call->rights |= IVA_PROT_GROWSDOWN;
}

/* Area by area the space is what the model is page by page. */
static bool same(struct iva_space *space, unsigned step, const struct call *call) {
    uint64_t at = BASE;
    bool ok = true;
    for (unsigned i = 0; i < PAGES && ok;) {
        struct iva_view view = {0, 0, 0, 0, 0, NULL};
        unsigned end = model[i].mapped ? area_end(i) : i + 1;
        bool there = iva_space_query(space, at, &view) == 0;
        ok = there == model[i].mapped &&
             (!there || (view.start == at && view.end == BASE + end * PAGE && view.flags == model[i].flags &&
                         view.object == model[i].object && view.offset == model[i].offset));
        CHECK(ok, "step %u, kind %u at %llx+%llx: page %u is %llx-%llx %llx, wanted to %u with %llx", step, call->kind,
              (unsigned long long)call->address, (unsigned long long)call->length, i, (unsigned long long)view.start,
              (unsigned long long)view.end, (unsigned long long)view.flags, end, (unsigned long long)model[i].flags);
        i = end;
        at = BASE + end * PAGE;
    }
    return ok;
}

/* The call fails at each of its callbacks and allocations in turn, and each time nothing has changed. */
static int refused_everywhere(struct iva_space *space, struct host *host, struct call *call, unsigned step) {
    static char before[65536], after[65536];
    dump(space, before, sizeof before);
    for (long at = 0;; at++) {
        int r;
        host->calls = 0;
        host->fail_at = at;
        r = real_call(space, host, call);
        host->fail_at = NEVER;
        if (host->calls <= at) return r; /* it did not come so far: that was the call */
        dump(space, after, sizeof after);
        if (!CHECK(r == host->error || r == IVA_ENOMEM, "step %u, kind %u: %d though call %ld was refused", step,
                   call->kind, r, at) ||
            !CHECK(strcmp(before, after) == 0, "step %u, kind %u: call %ld was refused, and there is\n%snot\n%s", step,
                   call->kind, at, after, before) ||
            !audit(space, host, "after a refusal"))
            return r;
    }
}

static void random_calls(unsigned steps, bool refuse) {
    static struct iva_space space;
    static struct host host;
    struct rng rng = rng_make(test_seed(), refuse);
    struct iva_space_config config = host_config(&host);
    config.lo = BASE;
    config.hi = config.base = TOP;
    config.guard = GUARD * PAGE;
    config.huge = 0;
    config.limit[IVA_LIMIT_STACK] = 0;
    memset(model, 0, sizeof model);
    CHECK(iva_space_init(&space, &config) == 0, "init");
    for (unsigned step = 0; step < steps && !test_failed(); step++) {
        struct call call;
        uint64_t got = 0;
        int r, wanted;
        make_call(&rng, &call);
        r = refuse ? refused_everywhere(&space, &host, &call, step) : real_call(&space, &host, &call);
        wanted = model_call(&call, &got);
        CHECK(r == wanted && (r || call.got == got),
              "step %u, kind %u at %llx+%llx (%llx, %llx): %d at %llx, not %d at %llx", step, call.kind,
              (unsigned long long)call.address, (unsigned long long)call.length, (unsigned long long)call.request.flags,
              (unsigned long long)call.remap, r, (unsigned long long)call.got, wanted, (unsigned long long)got);
        same(&space, step, &call);
        if (step % 16 == 0) audit(&space, &host, "in between");
    }
    end_space(&space, &host);
}

TEST(addr_oracle, random_calls_do_what_the_model_says) { random_calls(test_scale(60000), false); }
TEST(addr_oracle, a_refusal_at_any_point_changes_nothing) { random_calls(test_scale(8000), true); }
