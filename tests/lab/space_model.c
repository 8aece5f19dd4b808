/* SPDX-License-Identifier: MIT */
/* The sequential address space of space.h: what Linux answers and does, page by page. */
#include "space.h"

#include "ivaddr.h"

#include <stdio.h>
#include <string.h>

enum { NOWHERE = SPACE_PAGES };

static unsigned slack; /* what others have charged, as far as this call is concerned */

/* ---- pages and areas */

static bool joined(const struct space_state *s, unsigned left) { /* with the page after it */
    uint16_t l = s->page[left], r = left + 1 < SPACE_PAGES ? s->page[left + 1] : 0;
    return l && r && r == (uint16_t)(l & OBJECTS ? l + OFFSET : l);
}

unsigned space_area_start(const struct space_state *s, unsigned at) {
    while (at > 0 && joined(s, at - 1)) at--;
    return at;
}

unsigned space_area_end(const struct space_state *s, unsigned at) {
    while (joined(s, at)) at++;
    return at + 1;
}

static unsigned next_page(const struct space_state *s, unsigned at) {
    while (at < SPACE_PAGES && !s->page[at]) at++;
    return at;
}

static unsigned guard_start(const struct space_state *s, unsigned at) {
    if (at >= SPACE_PAGES || !(s->page[at] & IS_STACK)) return at;
    return at > s->guard ? at - s->guard : 0;
}

static void fill(struct space_state *s, unsigned lo, unsigned hi, uint16_t page) {
    for (unsigned i = lo; i < hi; i++, page = (uint16_t)(page & OBJECTS ? page + OFFSET : page)) s->page[i] = page;
}

static void clear(struct space_state *s, unsigned lo, unsigned hi) {
    for (unsigned i = lo; i < hi && i < SPACE_PAGES; i++) s->page[i] = 0;
}

static bool over(const struct space_state *s, enum iva_limit which, unsigned before, unsigned after) {
    return after > before && s->limit[which] != SPACE_NO_LIMIT && after + slack > s->limit[which];
}

/* Makes *next of *s if the limits allow it. */
static int commit(struct space_state *s, const struct space_state *next, int locked_error) {
    unsigned total[2] = {0, 0}, locked[2] = {0, 0}, areas[2] = {0, 0};
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < SPACE_PAGES; i++) {
            const struct space_state *state = k ? next : s;
            total[k] += state->page[i] != 0;
            locked[k] += (state->page[i] & IS_LOCKED) != 0;
            areas[k] += state->page[i] && !joined(state, i);
        }
    if (over(s, IVA_LIMIT_TOTAL, total[0], total[1])) return IVA_ENOMEM;
    if (over(s, IVA_LIMIT_LOCKED, locked[0], locked[1])) return locked_error;
    if (over(s, IVA_LIMIT_AREAS, areas[0], areas[1])) return IVA_ENOMEM;
    *s = *next;
    return 0;
}

/* ---- places */

/* The highest gap. A guard gap counts where the gap would do without it, and from there on down. */
static unsigned highest(const struct space_state *s, unsigned pages) {
    unsigned top = SPACE_PAGES, limit = SPACE_PAGES;
    for (;;) {
        unsigned from = top, end = top < limit ? top : limit;
        while (from > SPACE_LO && !s->page[from - 1]) from--;
        if (end > from && end - from >= pages) {
            if (guard_start(s, top) < end) limit = end = guard_start(s, top);
            if (end > from && end - from >= pages) return end - pages;
        }
        if (from == SPACE_LO) return NOWHERE;
        top = space_area_start(s, from - 1);
    }
}

static bool is_free(const struct space_state *s, unsigned at, unsigned pages) {
    return at >= SPACE_LO && at + pages <= SPACE_PAGES && guard_start(s, next_page(s, at)) >= at + pages;
}

/* Was every place that the policy prefers taken at an instant of the call? Not all at the same: the search is none. */
static bool right(const struct space_context *context, unsigned pages, unsigned place, unsigned hint) {
    bool hint_taken = hint == 0;
    if (hint && place == hint) return true;
    for (unsigned i = 0; i < context->states; i++)
        if (hint && !is_free(context->since[i], hint, pages)) hint_taken = true;
    for (unsigned better = place + 1; better < SPACE_PAGES; better++) {
        bool taken = false;
        for (unsigned i = 0; i < context->states; i++) taken |= !is_free(context->since[i], better, pages);
        if (!taken) return false;
    }
    return hint_taken;
}

/* ---- the calls: 0 or an error; *s is changed as far as Linux changes it */

static int map(struct space_state *s, unsigned lo, unsigned hi, uint16_t page) {
    struct space_state next = *s;
    if ((page & IS_LOCKED) && !s->limit[IVA_LIMIT_LOCKED]) return IVA_EPERM;
    fill(&next, lo, hi, page | s->future);
    return commit(s, &next, IVA_EAGAIN);
}

static enum space_verdict placed(const struct space_op *op, const struct space_answer *answer,
                                 const struct space_context *context, struct space_state *s) {
    unsigned hint = op->kind == S_HINT ? op->a : 0, pages = op->kind == S_HINT ? op->b - op->a : op->a;
    bool room = false;
    if (answer->result == 0) {
        if (!is_free(s, answer->place, pages) || !right(context, pages, answer->place, hint)) return SPACE_NO;
        return map(s, answer->place, answer->place + pages, op->page) ? SPACE_NO : SPACE_WHOLE;
    }
    for (unsigned at = SPACE_LO; at < SPACE_PAGES; at++) {
        struct space_state next = *s;
        if (!is_free(s, at, pages)) continue;
        if (highest(s, pages) == at) room = true;
        if (right(context, pages, at, hint) && map(&next, at, at + pages, op->page) == answer->result)
            return SPACE_WHOLE;
    }
    return !room && answer->result == IVA_ENOMEM ? SPACE_WHOLE : SPACE_NO;
}

/* Flags for the pages of [lo, hi), up to the first hole if `stop`. */
static int change(struct space_state *s, const struct space_op *op, uint16_t clear_, uint16_t set, bool stop) {
    struct space_state next = *s;
    bool hole = false, dark = false;
    int r;
    if ((set & IS_LOCKED) && !s->limit[IVA_LIMIT_LOCKED]) return IVA_EPERM;
    for (unsigned i = op->a; i < op->b && !(hole && stop); i++) {
        if (!s->page[i]) hole = true;
        else next.page[i] = (uint16_t)((s->page[i] & ~clear_) | set);
        if (s->page[i] && !(s->page[i] & (CAN_READ | CAN_WRITE | CAN_EXEC))) dark = true;
    }
    r = commit(s, &next, IVA_ENOMEM);
    return r ? r : hole || (dark && (set & IS_LOCKED)) ? IVA_ENOMEM : 0;
}

static int lock_all(struct space_state *s, unsigned flags) {
    struct space_state next = *s;
    unsigned total = 0;
    if (flags && !s->limit[IVA_LIMIT_LOCKED]) return IVA_EPERM;
    for (unsigned i = 0; i < SPACE_PAGES; i++)
        if (s->page[i]) {
            total++;
            next.page[i] = (uint16_t)((s->page[i] & ~IS_LOCKED) | (flags ? IS_LOCKED : 0));
        }
    next.future = flags & IVA_LOCK_FUTURE ? IS_LOCKED : 0;
    if (flags && !(flags & IVA_LOCK_CURRENT)) memcpy(next.page, s->page, sizeof next.page);
    else if (flags && total > s->limit[IVA_LIMIT_LOCKED]) return IVA_ENOMEM;
    return commit(s, &next, IVA_ENOMEM);
}

/* A remap where it is; -EEXIST: it must move. */
static int resize(struct space_state *s, const struct space_op *op) {
    struct space_state next = *s;
    unsigned end = op->a + op->c;
    if (!s->page[op->a]) return IVA_EFAULT;
    if (end <= op->b) {
        clear(&next, end, op->b);
        return commit(s, &next, IVA_EAGAIN);
    }
    if (space_area_end(s, op->a) < op->b) return IVA_EFAULT;
    if (space_area_end(s, op->a) > op->b || end > SPACE_PAGES || next_page(s, op->b) < end)
        return op->d ? IVA_EEXIST : IVA_ENOMEM;
    fill(&next, op->a, end, s->page[op->a]);
    return commit(s, &next, IVA_EAGAIN);
}

/* Is there a whole area between the two ranges? Then a move has two commits. */
static bool apart(const struct space_state *s, unsigned lo, unsigned hi) {
    unsigned at = next_page(s, lo);
    while (at < hi && space_area_start(s, at) < lo) at = next_page(s, space_area_end(s, at));
    return at < hi && space_area_end(s, at) <= hi;
}

static void leave(struct space_state *s, const struct space_op *op) { /* the source of a move */
    for (unsigned i = op->a; i < op->b; i++) {
        if (op->kind == S_KEEP) s->page[i] &= (uint16_t)~IS_LOCKED;
        else s->page[i] = 0;
    }
}

static enum space_verdict move(const struct space_op *op, unsigned to, unsigned pages, int wanted,
                               const struct space_context *context, struct space_state *s) {
    struct space_state half = *s, whole;
    unsigned old = op->b - op->a;
    bool all = op->kind != S_RESIZE && pages == old;
    int r = 0;
    if (context->half) {
        leave(s, op);
        return SPACE_WHOLE;
    }
    if (!s->page[op->a] || (!all && space_area_end(s, op->a) < op->a + (old < pages ? old : pages))) r = IVA_EFAULT;
    else if (to < SPACE_LO) r = IVA_EPERM;
    if (all) {
        for (unsigned i = 0; i < pages; i++)
            if (s->page[op->a + i]) half.page[to + i] = s->page[op->a + i];
    } else fill(&half, to, to + pages, s->page[op->a]);
    whole = half;
    leave(&whole, op);
    if (r == 0) {
        struct space_state test = *s;
        r = commit(&test, &whole, IVA_EAGAIN);
    }
    if (r != wanted) return SPACE_NO;
    if (r) return SPACE_WHOLE;
    if (op->a < to ? apart(s, op->b, to) : apart(s, to + pages, op->a)) {
        *s = half;
        return SPACE_HALF;
    }
    *s = whole;
    return SPACE_WHOLE;
}

/* Was it not possible where it is, at an instant of the call? */
static bool must_move(const struct space_op *op, const struct space_context *context) {
    for (unsigned i = 0; i < context->states; i++) {
        struct space_state test = *context->since[i];
        if (resize(&test, op) == IVA_EEXIST) return true;
    }
    return false;
}

static enum space_verdict remap(const struct space_op *op, const struct space_answer *answer,
                                const struct space_context *context, struct space_state *s) {
    struct space_state before = *s;
    bool room = false;
    int r;
    if (context->half) return move(op, answer->place, op->c, 0, context, s);
    if (answer->result == 0 && answer->place != op->a) {
        if (!must_move(op, context) || !is_free(s, answer->place, op->c)) return SPACE_NO;
        return right(context, op->c, answer->place, 0) ? move(op, answer->place, op->c, 0, context, s) : SPACE_NO;
    }
    r = resize(s, op);
    if (r == answer->result) return SPACE_WHOLE;
    *s = before;
    if (answer->result == 0 || !must_move(op, context)) return SPACE_NO;
    for (unsigned at = SPACE_LO; at < SPACE_PAGES; at++) {
        if (!is_free(s, at, op->c)) continue;
        if (highest(s, op->c) == at) room = true;
        if (right(context, op->c, at, 0) && move(op, at, op->c, answer->result, context, s)) return SPACE_WHOLE;
    }
    if (!s->page[op->a] || space_area_end(s, op->a) < op->b)
        return answer->result == IVA_EFAULT ? SPACE_WHOLE : SPACE_NO;
    return !room && answer->result == IVA_ENOMEM ? SPACE_WHOLE : SPACE_NO;
}

static void move_break(struct space_state *s, unsigned want) {
    struct space_state next = *s;
    unsigned higher = want > s->brk ? want : s->brk, at;
    if (want < s->base || higher > SPACE_PAGES - 3) return;
    next.brk = (uint8_t)want;
    if (want < s->brk) {
        at = next_page(s, want);
        if (at >= s->brk) return; /* the heap is not there any more */
        clear(&next, want, s->brk);
    } else if (want > s->brk) {
        at = next_page(s, s->brk);
        if (at <= want || guard_start(s, at) <= want) return;
        fill(&next, s->brk, want, (uint16_t)(IS_MAPPED | CAN_READ | CAN_WRITE | s->future));
    }
    (void)commit(s, &next, IVA_ENOMEM);
}

static bool seen(const struct space_answer *answer, const struct space_state *s, unsigned at) {
    if (at >= SPACE_PAGES || !s->page[at]) return !answer->found;
    unsigned start = space_area_start(s, at);
    return answer->found == s->page[start] && answer->start == start && answer->end == space_area_end(s, at);
}

/* A touch that makes a stack grow goes on as one that does not. */
static enum space_verdict touch(unsigned at, const struct space_answer *answer, struct space_state *s) {
    unsigned above = next_page(s, at), before = at;
    struct space_state next = *s;
    int r = IVA_EFAULT;
    if (above == at) {
        r = s->page[at] & (CAN_READ | CAN_WRITE | CAN_EXEC) ? 0 : IVA_EACCES;
        return r == answer->result && seen(answer, s, at) ? SPACE_WHOLE : SPACE_NO;
    }
    if (above < SPACE_PAGES && (s->page[above] & IS_STACK) && at >= SPACE_LO) {
        uint16_t below;
        while (before > 0 && !s->page[before - 1]) before--;
        below = before ? s->page[before - 1] : 0;
        fill(&next, at, above, s->page[above]);
        if (space_area_end(s, above) - at > s->stack) r = IVA_ENOMEM;
        else if (!below || (below & IS_STACK) || !(below & (CAN_READ | CAN_WRITE | CAN_EXEC)) ||
                 at - before >= s->guard)
            r = commit(s, &next, IVA_ENOMEM);
    }
    if (r == 0) return SPACE_HALF;
    return r == answer->result ? SPACE_WHOLE : SPACE_NO;
}

static bool forked(const struct space_answer *answer, const struct space_state *s) {
    for (unsigned i = 0; i < SPACE_PAGES; i++)
        if (answer->page[i] != (s->page[i] & NOT_FORKED ? 0 : s->page[i] & ~IS_LOCKED)) return false;
    return answer->result == 0;
}

/* A charge that runs beside a change of the limit may go by the old one or the new one. */
static enum space_verdict charge(const struct space_op *op, int result, const struct space_context *context,
                                 struct space_state *s) {
    bool may = s->used + op->a <= s->bound, may_not = s->used + op->a + slack > s->bound;
    for (unsigned i = 0; i < context->bound_count; i++) {
        may |= s->used + op->a <= context->bounds[i];
        may_not |= s->used + op->a > context->bounds[i];
    }
    if (result) return result == IVA_ENOMEM && may_not ? SPACE_WHOLE : SPACE_NO;
    s->used = (uint8_t)(s->used + op->a);
    return may ? SPACE_WHOLE : SPACE_NO;
}

static enum space_verdict verdict(bool good) { return good ? SPACE_WHOLE : SPACE_NO; }

static enum space_verdict look(const struct space_op *op, const struct space_answer *answer,
                               const struct space_context *context, struct space_state *s) {
    switch (op->kind) {
    case S_QUERY:
    case S_HEAR: return verdict(seen(answer, s, op->a));
    case S_NEXT: return verdict(seen(answer, s, next_page(s, op->a)));
    case S_SNAP:
    case S_WHOLE: return verdict(memcmp(answer->page, s->page, sizeof s->page) == 0);
    case S_FORK: return verdict(forked(answer, s));
    case S_CHARGE: return charge(op, answer->result, context, s);
    case S_UNCHARGE: s->used = (uint8_t)(s->used - op->a); return SPACE_WHOLE;
    case S_BOUND: s->bound = op->a; return SPACE_WHOLE;
    case S_READ: return verdict(answer->place == s->used);
    case S_STATS: return verdict(answer->place == s->brk && answer->found == s->future);
    case S_UNIT: return verdict(!answer->result || s->used + 1u + slack > s->bound);
    case S_TRYGATE: return verdict(!answer->result || slack);
    default: return verdict(answer->result == 0);
    }
}

static enum space_verdict apply(const struct space_op *op, const struct space_answer *answer,
                                const struct space_context *context, struct space_state *s) {
    int r = 0;
    switch (op->kind) {
    case S_FREE:
        if (next_page(s, op->a) < op->b) return verdict(answer->result == IVA_EEXIST);
        __attribute__((fallthrough));
    case S_MAP: r = map(s, op->a, op->b, op->page); break;
    case S_HINT:
    case S_ANY: return placed(op, answer, context, s);
    case S_UNMAP: {
        struct space_state next = *s;
        clear(&next, op->a, op->b);
        r = commit(s, &next, IVA_ENOMEM);
        break;
    }
    case S_TELL:
    case S_PROTECT: r = change(s, op, CAN_READ | CAN_WRITE | CAN_EXEC, op->page & ~IS_MAPPED, true); break;
    case S_DONTFORK: r = change(s, op, 0, NOT_FORKED, false); break;
    case S_LOCK: r = change(s, op, 0, IS_LOCKED, true); break;
    case S_UNLOCK: r = change(s, op, IS_LOCKED, 0, true); break;
    case S_LOCKALL: r = lock_all(s, op->a); break;
    case S_RESIZE: return remap(op, answer, context, s);
    case S_MOVE:
    case S_KEEP: return move(op, op->c, op->d ? op->d : op->b - op->a, answer->result, context, s);
    case S_BRK: move_break(s, op->a); return verdict(answer->place == s->brk);
    case S_TOUCH: return touch(op->a, answer, s);
    case S_LIMIT:
        if (op->a == IVA_LIMIT_STACK) s->stack = op->b;
        else s->limit[op->a] = op->b;
        break;
    default: return look(op, answer, context, s);
    }
    return verdict(r == answer->result);
}

enum space_verdict space_explains(const struct space_op *op, const struct space_answer *answer,
                                  const struct space_context *context, struct space_state *s) {
    enum space_verdict v;
    if (context->nothing) return op->kind == S_BRK ? verdict(answer->place == s->brk) : SPACE_WHOLE;
    slack = context->slack;
    v = apply(op, answer, context, s);
    slack = 0;
    return v;
}

void space_reach(const struct space_op *op, const struct space_answer *answer, unsigned lo[2], unsigned hi[2]) {
    unsigned pages = op->d ? op->d : op->b - op->a;
    lo[0] = op->a;
    hi[0] = op->b;
    lo[1] = hi[1] = 0;
    switch (op->kind) {
    case S_ANY:
    case S_HINT:
        lo[0] = answer->place;
        hi[0] = answer->place + (op->kind == S_ANY ? op->a : op->b - op->a);
        break;
    case S_RESIZE:
        if (op->a + op->c > op->b) hi[0] = op->a + op->c;
        lo[1] = answer->place;
        hi[1] = answer->place + op->c;
        break;
    case S_MOVE:
    case S_KEEP:
        lo[1] = op->c;
        hi[1] = op->c + pages;
        break;
    case S_BRK:
    case S_TOUCH: hi[0] = SPACE_PAGES; break;
    case S_LOCKALL:
    case S_FORK:
    case S_LIMIT:
    case S_SNAP:
    case S_WHOLE: lo[0] = 0, hi[0] = SPACE_PAGES; break;
    case S_QUERY:
    case S_HEAR:
    case S_NEXT: lo[0] = hi[0] = 0; break;
    default: break;
    }
}

void space_text(const struct space_op *op, char *text, unsigned long size) {
#define NAME_(k) #k,
    static const char *const names[] = {SPACE_KINDS(NAME_)};
    (void)snprintf(text, size, "%s(%u,%u,%u)", names[op->kind], op->a, op->b, op->c);
}
