/* SPDX-License-Identifier: MIT */
#include "addr_linear.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model */

bool addr_same_page(const struct addr_page *a, const struct addr_page *b) {
    if (a->mapped != b->mapped) return false;
    return !a->mapped || (a->rights == b->rights && a->object == b->object && a->offset == b->offset);
}

/* May page `at + 1` be of one mapping with page `at`? */
static bool joined(const struct addr_state *state, uint32_t at) {
    const struct addr_page *a = &state->page[at], *b = a + 1;
    return a->mapped && b->mapped && a->rights == b->rights && a->object == b->object &&
           (!a->object || a->offset + 1 == b->offset);
}

static uint32_t mapped_run(const struct addr_state *state, uint32_t at, uint32_t count) {
    uint32_t n = 0;
    while (n < count && state->page[at + n].mapped) n++;
    return n;
}

static void map_pages(struct addr_state *state, uint32_t at, uint32_t count, const struct addr_call *call) {
    for (uint32_t i = 0; i < count; i++)
        state->page[at + i] = (struct addr_page){true, call->rights, call->object, call->object ? call->offset + i : 0};
}

static void unmap_pages(struct addr_state *state, uint32_t at, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) state->page[at + i] = (struct addr_page){0};
}

static int protect_pages(struct addr_state *state, const struct addr_call *call) {
    uint32_t run = mapped_run(state, call->at, call->count);
    for (uint32_t i = 0; i < run; i++) state->page[call->at + i].rights = call->rights;
    return run < call->count ? -ENOMEM : 0; /* what lies before the hole has changed */
}

/* Fixed, with equal lengths: every mapping goes, gaps stay gaps, and what lies at the target under a gap stays. */
static bool move_pages(struct addr_state *state, const struct addr_call *call, unsigned part) {
    if (!part && !state->page[call->at].mapped) return call->error == -EFAULT;
    if (call->error) return false;
    for (uint32_t i = 0; i < call->count; i++) {
        if (!part && state->page[call->at + i].mapped) state->page[call->to + i] = state->page[call->at + i];
        if (part) state->page[call->at + i] = (struct addr_page){0};
    }
    return true;
}

/* mremap in place, without leave to move. */
static int grow_pages(struct addr_state *state, const struct addr_call *call) {
    const uint32_t end = call->at + call->count, more = call->to - call->count;
    if (!state->page[call->at].mapped) return -EFAULT;
    for (uint32_t i = call->at; i + 1 < end; i++)
        if (!joined(state, i)) return -EFAULT;
    for (uint32_t i = 0; i < more; i++)
        if (state->page[end + i].mapped) return -ENOMEM;
    for (uint32_t i = 0; i < more; i++) {
        state->page[end + i] = state->page[end + i - 1];
        if (state->page[end + i].object) state->page[end + i].offset++;
    }
    return 0;
}

static uint32_t move_break(struct addr_state *state, const struct addr_call *call) {
    static const struct addr_call heap = {.rights = 3};
    if (call->at < ADDR_HEAP) return state->brk;
    if (call->at <= state->brk) unmap_pages(state, call->at, state->brk - call->at);
    else map_pages(state, state->brk, call->at - state->brk, &heap);
    return state->brk = call->at;
}

unsigned addr_parts(const struct addr_call *call) { return call->kind == ADDR_MOVE && !call->error ? 2 : 1; }

bool addr_apply(struct addr_state *state, const struct addr_call *call, unsigned part) {
    switch (call->kind) {
    case ADDR_MAP_FREE:
        for (uint32_t i = 0; i < call->count; i++)
            if (state->page[call->at + i].mapped) return call->error == -EEXIST;
        __attribute__((fallthrough));
    case ADDR_MAP: map_pages(state, call->at, call->count, call); return !call->error;
    case ADDR_UNMAP: unmap_pages(state, call->at, call->count); return !call->error;
    case ADDR_PROTECT: return protect_pages(state, call) == call->error;
    case ADDR_MOVE: return move_pages(state, call, part);
    case ADDR_GROW: return grow_pages(state, call) == call->error;
    case ADDR_BRK: return move_break(state, call) == call->brk;
    case ADDR_QUERY: return addr_same_page(&state->page[call->at], &call->seen);
    }
    return false;
}

/* ---- the search */

struct memo {
    uint64_t done, state;
};

struct search {
    const struct addr_call *calls;
    size_t count;
    const struct addr_state *last;
    struct memo *memo; /* open addressing; done == 0: free, as the empty set is never looked up twice */
    size_t used, room;
    uint64_t looked;
    uint64_t whole; /* calls that are done */
    uint64_t half;  /* moves between their two instants */
};

static uint64_t hash_state(const struct addr_state *state) {
    uint64_t h = 0xcbf29ce484222325u ^ state->brk;
    for (uint32_t i = 0; i < ADDR_PAGES; i++) {
        const struct addr_page *p = &state->page[i];
        uint64_t word = p->mapped ? 1u | (uint64_t)p->rights << 1 | (uint64_t)p->object << 8 : 0;
        if (p->mapped) word |= (uint64_t)p->offset << 24;
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static void memo_put(struct search *s, struct memo m) {
    size_t i = (size_t)((m.done * 0xd1342543de82ef95u ^ m.state) >> 20) & (s->room - 1);
    while (s->memo[i].done) i = (i + 1) & (s->room - 1);
    s->memo[i] = m;
    s->used++;
}

static void memo_grow(struct search *s) {
    struct memo *old = s->memo;
    size_t room = s->room;
    s->room = room ? room * 2 : 256;
    s->used = 0;
    s->memo = calloc(s->room, sizeof *s->memo);
    if (!s->memo) abort();
    for (size_t i = 0; i < room; i++)
        if (old[i].done) memo_put(s, old[i]);
    free(old);
}

/* Whether this set of done calls with this state was looked at before; from now on it was. */
static bool seen_before(struct search *s, const struct addr_state *state) {
    const struct memo m = {s->whole, hash_state(state) ^ s->half * 0xbf58476d1ce4e5b9u};
    if (!m.done && !s->half) return false;
    const struct memo key = {m.done + 1, m.state}; /* a set of at most 60 calls leaves room for the one */
    if (2 * s->used >= s->room) memo_grow(s);
    size_t i = (size_t)((key.done * 0xd1342543de82ef95u ^ key.state) >> 20) & (s->room - 1);
    for (; s->memo[i].done; i = (i + 1) & (s->room - 1))
        if (s->memo[i].done == key.done && s->memo[i].state == key.state) return true;
    memo_put(s, key);
    return false;
}

static bool meets(uint32_t a, uint32_t n, uint32_t b, uint32_t m) { return a < b + m && b < a + n; }

static bool call_meets(const struct addr_call *call, uint32_t at, uint32_t count) {
    switch (call->kind) {
    case ADDR_BRK: return meets(ADDR_HEAP, ADDR_PAGES - ADDR_HEAP, at, count);
    case ADDR_GROW: return meets(call->at, call->to, at, count);
    case ADDR_MOVE: return meets(call->at, call->count, at, count) || meets(call->to, call->count, at, count);
    default: return meets(call->at, call->count, at, count);
    }
}

/* A move holds both of its ranges: between its instants nothing but look-ups may meet them. */
static bool held_back(const struct search *s, size_t i) {
    if (s->calls[i].kind == ADDR_QUERY) return false;
    for (size_t k = 0; k < s->count; k++) {
        const struct addr_call *move = &s->calls[k];
        if (k == i || !(s->half >> k & 1)) continue;
        if (call_meets(&s->calls[i], move->at, move->count) || call_meets(&s->calls[i], move->to, move->count))
            return true;
    }
    return false;
}

static bool ends_well(const struct search *s, const struct addr_state *state) {
    for (uint32_t i = 0; i < ADDR_PAGES; i++)
        if (!addr_same_page(&state->page[i], &s->last->page[i])) return false;
    return s->last->brk == UINT32_MAX || s->last->brk == state->brk;
}

static bool search(struct search *s, const struct addr_state *state) {
    uint64_t earliest = UINT64_MAX; /* a call that began after another's end comes after it */
    s->looked++;
    if (s->whole == ((uint64_t)1 << s->count) - 1) return ends_well(s, state);
    if (seen_before(s, state)) return false;
    for (size_t i = 0; i < s->count; i++)
        if (!(s->whole >> i & 1) && s->calls[i].after < earliest) earliest = s->calls[i].after;
    for (size_t i = 0; i < s->count; i++) {
        const uint64_t bit = (uint64_t)1 << i, whole = s->whole, half = s->half;
        struct addr_state next = *state;
        if ((whole & bit) || s->calls[i].before > earliest || held_back(s, i)) continue;
        if (!addr_apply(&next, &s->calls[i], half & bit ? 1 : 0)) continue;
        if (addr_parts(&s->calls[i]) == 2 && !(half & bit)) {
            s->half |= bit;
        } else {
            s->whole |= bit;
            s->half &= ~bit;
        }
        if (search(s, &next)) return true;
        s->whole = whole;
        s->half = half;
    }
    return false;
}

bool addr_linearizable(const struct addr_call *calls, size_t count, const struct addr_state *first,
                       const struct addr_state *last, uint64_t *looked) {
    struct search s = {.calls = calls, .count = count, .last = last};
    if (count > ADDR_CALLS_MOST) abort();
    bool found = search(&s, first);
    *looked += s.looked;
    free(s.memo);
    return found;
}

void addr_call_text(const struct addr_call *c, char *out, size_t room) {
    static const char *const names[] = {"map", "map-free", "unmap", "protect", "move", "grow", "brk", "query"};
    int n = snprintf(out, room, "[%llu, %llu] %s at %u count %u", (unsigned long long)c->before,
                     (unsigned long long)c->after, names[c->kind], c->at, c->count);
    if (n < 0 || (size_t)n >= room) return;
    out += n;
    room -= (size_t)n;
    if (c->kind == ADDR_QUERY)
        (void)snprintf(out, room, c->seen.mapped ? ": rights %u object %u offset %u" : ": nothing", c->seen.rights,
                       c->seen.object, c->seen.offset);
    else if (c->kind == ADDR_BRK) (void)snprintf(out, room, " = %u", c->brk);
    else
        (void)snprintf(out, room, " to %u rights %u object %u offset %u = %d", c->to, c->rights, c->object, c->offset,
                       c->error);
}
