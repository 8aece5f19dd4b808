/* SPDX-License-Identifier: MIT */
/*
 * vmreplay.c - replays recorded address-space calls of real programs (`vmtrace 1` files) on one ivskip map.
 *
 *     vmreplay [--threads N | --parallel] [--readers N] [--show] [--dot FILE] [--quiet] FILE...
 *
 * Every address space of a trace is a slice of 2^47 keys of the one map, and each mapping is a node whose
 * payload is a `struct area`. The recorded results are believed; after every few calls a checkpoint of the
 * trace says what the kernel's own list of mappings was (number, pages, CRC-32), and the map must agree.
 *
 *   sequential   file order, one thread. Page faults are lock-free look-ups and are counted exactly.
 *   --threads N  N copies at once, each a thread, in slices that touch; page faults come from reader threads.
 *   --parallel   each thread of the trace is a thread here. Events wait only for earlier ones whose ranges
 *                meet theirs, and for checkpoints, so the rest overlaps; page faults come from readers. A
 *                sequential pass before finds ranges that depend on the map (stack growth, PROT_GROWSDOWN).
 *
 * Exit status: 0 all matched; 1 something differed; 2 the file (or the command line) is wrong.
 *
 * Build: cc -std=c11 -O2 -pthread -I. examples/vmreplay.c            (plain files)
 *        ... -DVMREPLAY_ZLIB -lz                                     (.gz files too)
 * With -DVMREPLAY_NO_MAIN main is called vmreplay_main: fuzzers include this file and call parse_trace().
 *
 * In files of their own: the parser (vmtrace.h), checkpoints (vmreplay_check.h), --parallel (vmreplay_parallel.h),
 * pictures and the report (vmreplay_show.h). Here: spaces on the map, replay in file order, readers, main.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef IVSKIP_IMPLEMENTATION
#define IVSKIP_IMPLEMENTATION
#endif
#include "ivskip.h"
#include "vmtrace.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef VMREPLAY_ZLIB
#include <zlib.h>
#endif

/* What liburcu asks of threads (IVSKIP_RCU=URCU_*): to be registered, and with qsbr to say now and then that they hold
 * no node, and to be offline while they sleep. Nothing with the built-in RCU. */
#if IVS_RCU_IS_(URCU_MEMB)
#define THREAD_BEGIN() urcu_memb_register_thread()
#define THREAD_END()   urcu_memb_unregister_thread()
#elif IVS_RCU_IS_(URCU_QSBR)
#define THREAD_BEGIN() urcu_qsbr_register_thread()
#define THREAD_END()   urcu_qsbr_unregister_thread()
#define THREAD_IDLE()  urcu_qsbr_quiescent_state()
#define SLEEP(call)    (urcu_qsbr_thread_offline(), (void)(call), urcu_qsbr_thread_online())
#endif
#ifndef THREAD_BEGIN
#define THREAD_BEGIN() ((void)0)
#define THREAD_END()   ((void)0)
#endif
#ifndef THREAD_IDLE
#define THREAD_IDLE() ((void)0)
#define SLEEP(call)   ((void)(call))
#endif

/* -------------------------------------------------------------------------------------- spaces on the map */

/* What a node carries in front of it. */
struct area {
    uint64_t off;
    int32_t obj;
    uint8_t perm, flags;
    struct ivs_node node; /* last: its tower follows */
};

struct options {
    unsigned copies, readers;
    bool parallel, show, quiet;
    const char *dot;
};

struct tally {
    uint64_t count[CALLS + 1], failed[CALLS + 1], ns[CALLS + 1];
    uint64_t checks, matched, full, bad, check_ns, most;
    uint64_t hits, below, missed; /* page faults of the sequential replay */
};

struct fault {
    uint64_t at;
    uint32_t space, event;
};

struct replay {
    struct trace *trace;
    const char *name;
    const struct options *options;
    struct ivs_map map;
    unsigned copies;
    bool learning; /* this pass stores ranges that depend on the map */
    bool stop;     /* readers go home */
    uint64_t started_ns, said_ns;
    uint64_t *position; /* by copy: event reached, for readers and the progress line */
    ARRAY(struct fault) faults;
    pthread_mutex_t mutex; /* of `total` and the output */
    struct tally total;
    uint64_t lookups, lookup_hits, lookup_wrong;
};

/* A thread that replays, with what it must not allocate while it holds a range. */
struct worker {
    struct replay *run;
    unsigned copy;
    struct pieces plan, seen, want;
    ARRAY(struct ivs_node *) spare;
    struct tally tally;
};

static void die(const char *what, int code) {
    fprintf(stderr, "vmreplay: %s failed: %d\n", what, code);
    exit(2);
}

static void need(bool enough) {
    if (!enough) die("allocation", IVS_ENOMEM);
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct area *area_of(const struct ivs_node *node) {
    return (struct area *)((uintptr_t)node - offsetof(struct area, node));
}

/* The first key of a space: slices of all copies and spaces lie side by side. */
static uint64_t base_of(const struct worker *w, uint32_t space) {
    return (w->copy * (uint64_t)w->run->trace->space_names.n + space) << SLICE_BITS;
}

static struct piece piece_of(const struct ivs_node *node, uint64_t base) {
    const struct area *a = area_of(node);
    return (struct piece){node->start - base, node->last - base + 1, a->off, a->obj, a->perm, a->flags};
}

/* A part of a mapping that stays when an update cuts it: only files have offsets. */
static int keep_fragment(void *ctx, const struct ivs_node *old, struct ivs_node *fragment) {
    const struct area *from = area_of(old);
    struct area *to = area_of(fragment);
    (void)ctx;
    to->obj = from->obj;
    to->perm = from->perm;
    to->flags = from->flags;
    to->off = from->obj > 0 ? from->off + (fragment->start - old->start) : 0;
    return 0;
}

static struct piece clipped(struct piece p, uint64_t lo, uint64_t hi) {
    if (p.lo < lo) {
        if (p.obj > 0) p.off += lo - p.lo;
        p.lo = lo;
    }
    if (p.hi > hi) p.hi = hi;
    return p;
}

/* May b, which follows a, be one mapping with it? Checkpoints look at rights and object only. */
static bool continues(const struct piece *a, const struct piece *b, bool with_flags) {
    return a->hi == b->lo && a->perm == b->perm && a->obj == b->obj && (!with_flags || a->flags == b->flags) &&
           (a->obj <= 0 || a->off + (a->hi - a->lo) == b->off);
}

/* The list must have room. */
static void append(struct pieces *list, struct piece p, bool with_flags) {
    if (p.lo >= p.hi) return;
    struct piece *last = list->n ? &list->at[list->n - 1] : NULL;
    if (last && continues(last, &p, with_flags)) last->hi = p.hi;
    else list->at[list->n++] = p;
}

/* The mapping that covers an address: a page fault's look-up. */
static bool area_at(struct worker *w, uint32_t space, uint64_t at, struct piece *out) {
    const uint64_t base = base_of(w, space);
    ivs_map_read_enter(&w->run->map);
    const struct ivs_node *node = ivs_map_query_rcu(&w->run->map, base + at);
    if (node) *out = piece_of(node, base);
    ivs_map_read_exit(&w->run->map);
    return node != NULL;
}

/* The mapping that covers an address, or else the next one above it in this space. */
static bool area_above(struct worker *w, uint32_t space, uint64_t at, struct piece *out) {
    const uint64_t base = base_of(w, space);
    ivs_map_read_enter(&w->run->map);
    const struct ivs_node *node = ivs_map_query_next_rcu(&w->run->map, base + at);
    if (node && node->start - base >= SLICE) node = NULL;
    if (node) *out = piece_of(node, base);
    ivs_map_read_exit(&w->run->map);
    return node != NULL;
}

/* The mappings in [lo, hi), clipped. Room is made outside the read section, then the walk begins anew. */
static void areas_in(struct worker *w, uint32_t space, uint64_t lo, uint64_t hi, struct pieces *out) {
    const uint64_t base = base_of(w, space);
    size_t n;
    do {
        const struct ivs_node *node;
        n = out->n = 0;
        ivs_map_read_enter(&w->run->map);
        ivs_map_for_each_rcu (node, &w->run->map, base + lo, base + hi) {
            if (n++ < out->room) out->at[out->n++] = clipped(piece_of(node, base), lo, hi);
        }
        ivs_map_read_exit(&w->run->map);
        need(RESERVE(*out, n));
    } while (n > out->n);
}

static void prepare_nodes(struct worker *w, size_t n) {
    need(RESERVE(w->spare, n));
    while (w->spare.n < n) {
        struct ivs_node *node = ivs_node_new(ivs_map_domain(&w->run->map), 0, 1, NULL, IVS_SLEEP);
        need(node != NULL);
        w->spare.at[w->spare.n++] = node;
    }
}

static void dress(struct ivs_node *node, const struct piece *p, uint64_t base) {
    struct area *a = area_of(node);
    a->off = p->off;
    a->obj = p->obj;
    a->perm = p->perm;
    a->flags = p->flags;
    int rc = ivs_node_set_bounds(node, base + p->lo, base + p->hi);
    if (rc) die("ivs_node_set_bounds", rc);
}

/* Puts w->plan, whose nodes are prepared, in the place of all that is locked. */
static void swap_plan(struct worker *w, struct ivs_lock *lock, uint64_t base) {
    const size_t n = w->plan.n;
    struct ivs_node **run = n ? w->spare.at + (w->spare.n - n) : NULL; /* nothing may have been prepared yet */
    for (size_t i = 0; i < n; i++) dress(run[i], &w->plan.at[i], base);
    int rc = ivs_map_swap(lock, run, n);
    if (rc) die("ivs_map_swap", rc);
    w->spare.n -= n;
}

/* A change of [lo, hi): a new mapping, or new rights or flags for what is there. */
struct edit {
    uint64_t lo, hi;
    const struct piece *add;
    const struct event *protect; /* its result says how far it got */
    bool advise;
    uint8_t perm, flags;
};

/* A refused mprotect has changed what lies before the first hole, or the first mapping that refuses. */
static void narrow_protect(struct edit *e, const struct ivs_lock *lock, uint64_t base) {
    uint64_t covered = e->lo, refused = e->lo;
    bool found = false;
    for (const struct ivs_node *n = ivs_lock_first(lock); n; n = ivs_lock_next(lock, n)) {
        const struct piece p = clipped(piece_of(n, base), e->lo, e->hi);
        if (p.lo >= p.hi) continue;
        if (p.lo > covered) break;
        if ((p.flags & NOWRITE) && !found) {
            refused = p.lo;
            found = true;
        }
        covered = p.hi;
    }
    e->hi = e->protect->result == RES_EACCES ? refused : covered;
}

/* What the locked nodes become, in w->plan; neighbours that are equal become one. False: nothing changes. */
static bool plan_edit(struct worker *w, const struct ivs_lock *lock, uint64_t base, const struct edit *e) {
    struct pieces *plan = &w->plan;
    const struct piece *add = e->add;
    bool same = !add;
    plan->n = 0;
    for (const struct ivs_node *n = ivs_lock_first(lock); n; n = ivs_lock_next(lock, n)) {
        const struct piece p = piece_of(n, base);
        struct piece in = clipped(p, e->lo, e->hi);
        append(plan, clipped(p, 0, e->lo), true);
        if (add && p.hi > e->lo) {
            append(plan, *add, true);
            add = NULL;
        }
        if (e->protect) in.perm = (uint8_t)((in.perm & SHARED) | e->perm);
        if (e->advise) in.flags = (uint8_t)((in.flags & ~DONTFORK) | e->flags);
        if (in.lo < in.hi && (in.perm != p.perm || in.flags != p.flags)) same = false;
        if (!e->add) append(plan, in, true);
        append(plan, clipped(p, e->hi, UINT64_MAX), true);
    }
    if (add) append(plan, *add, true);
    return !same;
}

/* Locks the range and one key more on either side, so that it meets the neighbours it may join. Nothing is
 * allocated under the lock: if what was prepared is too little, it is let go, and the edit begins anew. */
static void edit(struct worker *w, uint32_t space, const struct edit *want) {
    const uint64_t base = base_of(w, space);
    const uint64_t lo = want->lo ? want->lo - 1 : 0, hi = want->hi < SLICE ? want->hi + 1 : SLICE;
    for (size_t nodes = 4, room = 16;;) {
        struct edit e = *want;
        struct ivs_lock lock;
        prepare_nodes(w, nodes);
        need(RESERVE(w->plan, room));
        int rc = ivs_map_lock(&w->run->map, base + lo, base + hi, &lock);
        if (rc) die("ivs_map_lock", rc);
        room = 3 * lock.count + 1;
        bool done = room <= w->plan.room;
        if (done) {
            if (e.protect && e.protect->result != RES_OK) narrow_protect(&e, &lock, base);
            const bool changes = e.lo < e.hi && plan_edit(w, &lock, base, &e);
            nodes = changes ? w->plan.n : 0;
            done = nodes <= w->spare.n;
            if (done && changes) swap_plan(w, &lock, base);
        }
        rc = ivs_map_unlock(&lock);
        if (rc) die("ivs_map_unlock", rc);
        if (done) return;
    }
}

static void cut(struct worker *w, uint32_t space, uint64_t lo, uint64_t hi) {
    const uint64_t base = base_of(w, space);
    int rc = lo < hi ? ivs_map_unmap(&w->run->map, base + lo, base + hi) : 0;
    if (rc) die("ivs_map_unmap", rc);
}

/* Would the new mapping join a neighbour? A guess of two look-ups: if wrong, the list is longer, no more. */
static bool would_join(struct worker *w, uint32_t space, const struct piece *p) {
    struct piece q;
    if (p->lo && area_at(w, space, p->lo - 1, &q)) {
        q.hi = p->lo;
        if (continues(&q, p, true)) return true;
    }
    if (p->hi == SLICE || !area_at(w, space, p->hi, &q)) return false;
    q = clipped(q, p->hi, UINT64_MAX);
    return continues(p, &q, true);
}

/* Maps, over what may be there. Where an area that grows down begins matters: it is joined for certain. */
static void put(struct worker *w, uint32_t space, const struct piece *p) {
    if ((p->flags & GROWS_DOWN) || would_join(w, space, p)) {
        edit(w, space, &(struct edit){.lo = p->lo, .hi = p->hi, .add = p});
        return;
    }
    prepare_nodes(w, 1);
    struct ivs_node *node = w->spare.at[w->spare.n - 1];
    dress(node, p, base_of(w, space));
    int rc = ivs_map_map_node(&w->run->map, node);
    if (rc) die("ivs_map_map_node", rc);
    w->spare.n--;
}

/* Fills an empty space in one step. */
static void populate(struct worker *w, uint32_t space, const struct piece *p, size_t n) {
    const uint64_t base = base_of(w, space);
    struct ivs_lock lock;
    prepare_nodes(w, n);
    need(RESERVE(w->plan, n));
    w->plan.n = 0;
    for (size_t i = 0; i < n; i++) append(&w->plan, p[i], true);
    int rc = ivs_map_lock(&w->run->map, base, base + SLICE, &lock);
    if (rc) die("ivs_map_lock", rc);
    swap_plan(w, &lock, base);
    rc = ivs_map_unlock(&lock);
    if (rc) die("ivs_map_unlock", rc);
}

static void fork_space(struct worker *w, uint32_t parent, uint32_t child) {
    size_t kept = 0;
    areas_in(w, parent, 0, SLICE, &w->seen);
    for (size_t i = 0; i < w->seen.n; i++)
        if (!(w->seen.at[i].flags & DONTFORK)) w->seen.at[kept++] = w->seen.at[i];
    populate(w, child, w->seen.at, kept);
}

/* Said for what the recorded results make impossible. */
static void complain(struct worker *w, const struct event *ev, const char *what) {
    w->tally.bad++;
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: %s\n", w->run->name, ev->line, what);
    pthread_mutex_unlock(&w->run->mutex);
}

/* The target first, then the source, as the kernel does: a reader may see both, never neither. */
static void move(struct worker *w, const struct event *ev) {
    struct pieces *src = &w->seen;
    if (ev->how & MOVE_PARTS) {
        areas_in(w, ev->space, ev->lo, ev->hi, src);
    } else {
        need(RESERVE(*src, 1));
        src->n = area_at(w, ev->space, ev->lo, &src->at[0]) ? 1 : 0;
        if (src->n) src->at[0] = clipped(src->at[0], ev->lo, UINT64_MAX);
        if (src->n) src->at[0].hi = ev->lo + (ev->to_hi - ev->to);
    }
    if (!src->n) complain(w, ev, "mremap of what is not mapped");
    for (size_t i = 0; i < src->n; i++) {
        struct piece p = src->at[i];
        p.lo = p.lo - ev->lo + ev->to;
        p.hi = p.hi - ev->lo + ev->to;
        put(w, ev->space, &p);
    }
    if (!(ev->how & MOVE_KEEP)) cut(w, ev->space, ev->lo, ev->hi);
}

/* [lo, hi) gets what covers `from`: a mapping that grows, up or down. */
static void extend(struct worker *w, const struct event *ev, uint64_t from, uint64_t lo, uint64_t hi) {
    struct piece p;
    if (!area_at(w, ev->space, from, &p)) {
        complain(w, ev, "growth of what is not mapped");
        return;
    }
    if (p.obj > 0) p.off = lo > p.lo ? p.off + (lo - p.lo) : 0;
    p.lo = lo;
    p.hi = hi;
    put(w, ev->space, &p);
}

static void touch(struct worker *w, struct event *ev) {
    struct piece p;
    if (!area_above(w, ev->space, ev->lo, &p)) {
        complain(w, ev, "touch of what is not mapped");
        return;
    }
    if (p.lo <= ev->lo) return;
    if (w->run->learning) ev->hi = p.lo + 1;
    p.hi = p.lo;
    p.lo = ev->lo;
    p.off = 0;
    put(w, ev->space, &p);
}

/* PROT_GROWSDOWN begins at the start of the first mapping that ends above the address. */
static void protect(struct worker *w, struct event *ev) {
    struct edit e = {.lo = ev->lo, .hi = ev->hi, .protect = ev, .perm = ev->area.perm};
    struct piece p;
    if ((ev->how & PROTECT_GROWSDOWN) && area_above(w, ev->space, ev->lo, &p) && p.lo < ev->hi) e.lo = p.lo;
    edit(w, ev->space, &e);
    if (w->run->learning && e.lo < ev->lo) ev->to = e.lo ? e.lo - 1 : 0, ev->to_hi = ev->lo;
}

static void check_space(struct worker *w, const struct event *ev);

static void apply(struct worker *w, struct event *ev) {
    struct piece p;
    const struct check *c;
    switch ((enum op)ev->op) {
    case OP_PUT: put(w, ev->space, &ev->area); break;
    case OP_CUT: cut(w, ev->space, ev->lo, ev->hi); break;
    case OP_CUT_IF_SHARED:
        if (area_at(w, ev->space, ev->lo, &p) && (p.perm & SHARED)) cut(w, ev->space, ev->lo, ev->hi);
        break;
    case OP_PROTECT: protect(w, ev); break;
    case OP_ADVISE:
        edit(w, ev->space, &(struct edit){.lo = ev->lo, .hi = ev->hi, .advise = true, .flags = ev->area.flags});
        break;
    case OP_EXTEND: extend(w, ev, ev->lo, ev->to, ev->to_hi); break;
    case OP_GROW: extend(w, ev, ev->hi, ev->lo, ev->hi); break;
    case OP_MOVE: move(w, ev); break;
    case OP_TOUCH: touch(w, ev); break;
    case OP_FORK: fork_space(w, ev->space, ev->other); break;
    case OP_END: cut(w, ev->space, 0, SLICE); break;
    case OP_BIRTH:
        c = &w->run->trace->checks.at[ev->other];
        populate(w, ev->space, c->count ? w->run->trace->pieces.at + c->first : NULL, c->count);
        check_space(w, ev);
        break;
    case OP_CHECK: check_space(w, ev); break;
    case OP_NONE:
    case OP_LIFE:
    case OP_BARRIER:
    case OP_FAULT: break;
    }
}

#include "vmreplay_check.h"

/* -------------------------------------------------------------------------------------- sequential replay */

static void count_fault(struct worker *w, const struct event *ev) {
    struct piece p;
    if (area_at(w, ev->space, ev->lo, &p)) w->tally.hits++;
    else if (area_above(w, ev->space, ev->lo, &p) && (p.flags & GROWS_DOWN)) w->tally.below++;
    else w->tally.missed++;
}

static void add_tally(struct worker *w) {
    struct tally *to = &w->run->total;
    const struct tally *from = &w->tally;
    pthread_mutex_lock(&w->run->mutex);
    for (size_t i = 0; i <= CALLS; i++) {
        to->count[i] += from->count[i];
        to->failed[i] += from->failed[i];
        to->ns[i] += from->ns[i];
    }
    to->checks += from->checks;
    to->matched += from->matched;
    to->full += from->full;
    to->bad += from->bad;
    to->check_ns += from->check_ns;
    to->hits += from->hits;
    to->below += from->below;
    to->missed += from->missed;
    if (from->most > to->most) to->most = from->most;
    pthread_mutex_unlock(&w->run->mutex);
}

static void end_worker(struct worker *w) {
    add_tally(w);
    while (w->spare.n) (void)ivs_node_discard(ivs_map_domain(&w->run->map), w->spare.at[--w->spare.n]);
    free(w->spare.at);
    free(w->plan.at);
    free(w->seen.at);
    free(w->want.at);
}

/* One event with its time, counted by call; checkpoints count by themselves. */
static void run_event(struct worker *w, size_t i, uint64_t *begin, uint64_t *end) {
    struct event *ev = &w->run->trace->events.at[i];
    *begin = now_ns();
    apply(w, ev);
    *end = now_ns();
    w->tally.count[ev->call]++;
    w->tally.failed[ev->call] += ev->result != RES_OK && ev->call != TOUCH; /* maperr is an answer */
    if (ev->call < CALLS) w->tally.ns[ev->call] += *end - *begin;
}

#define CLEAR_LINE "\033[K\r" /* the rest of the line, and back to its beginning */

/* On a terminal soon, elsewhere only where a run is long. */
static void say_progress(struct replay *r, size_t i, uint64_t now) {
    const bool terminal = isatty(2);
    if (r->options->quiet || now - r->said_ns < (terminal ? 200000000u : 1000000000u)) return;
    r->said_ns = now;
    fprintf(stderr, "%s: event %zu of %zu, %.1f s%s", r->name, i, r->trace->events.n,
            (double)(now - r->started_ns) / 1e9, terminal ? CLEAR_LINE : "\n");
}

/* File order, for one copy. Page faults are left to the readers where there are any. */
static void replay_in_order(struct worker *w, bool faults) {
    struct replay *r = w->run;
    uint64_t begin, end;
    for (size_t i = 0; i < r->trace->events.n; i++) {
        const struct event *ev = &r->trace->events.at[i];
        if (ev->op == OP_FAULT) {
            if (faults) count_fault(w, ev);
            continue;
        }
        run_event(w, i, &begin, &end);
        THREAD_IDLE();
        __atomic_store_n(&r->position[w->copy], i, __ATOMIC_RELAXED);
        if (w->copy == 0 && i % 256 == 0) say_progress(r, i, end);
    }
}

static void start_replay(struct replay *r, struct trace *t, const char *name, const struct options *options,
                         unsigned copies) {
    const struct ivs_map_config config = {.own = {.payload_size = offsetof(struct area, node)},
                                          .fragment = keep_fragment};
    memset(r, 0, sizeof *r);
    r->trace = t;
    r->name = name;
    r->options = options;
    r->copies = copies;
    r->position = calloc(copies, sizeof *r->position);
    need(r->position != NULL);
    pthread_mutex_init(&r->mutex, NULL);
    int rc = ivs_map_init(&r->map, &config);
    if (rc) die("ivs_map_init", rc);
    r->started_ns = r->said_ns = now_ns();
}

/* All threads have gone: the map must be whole. */
static void validate_map(struct replay *r) {
    struct ivs_report report = {0};
    int rc = ivs_map_validate(&r->map, &report);
    if (!rc) return;
    fprintf(stderr, "%s: ivs_map_validate: %d, %s at level %u\n", r->name, rc, report.check ? report.check : "?",
            report.level);
    r->total.bad++;
}

static void end_replay(struct replay *r) {
    int rc = ivs_map_destroy(&r->map);
    if (rc) die("ivs_map_destroy", rc);
    pthread_mutex_destroy(&r->mutex);
    free(r->position);
    free(r->faults.at);
}

/* ------------------------------------------------------------------------------------------------ threads */

struct reader {
    struct replay *run;
    unsigned index;
    pthread_t thread;
    uint64_t lookups, hits, wrong;
};

/* What readers look up: the page faults, or, in traces without any, where mappings were made. */
static void gather_faults(struct replay *r) {
    for (int pass = 0; pass < 2 && !r->faults.n; pass++)
        for (size_t i = 0; i < r->trace->events.n; i++) {
            const struct event *ev = &r->trace->events.at[i];
            if (ev->op != (pass ? OP_PUT : OP_FAULT)) continue;
            need(RESERVE(r->faults, r->faults.n + 1));
            r->faults.at[r->faults.n++] = (struct fault){ev->lo, ev->space, (uint32_t)i};
        }
}

/* One page fault: a look-up without a lock, while others change the map. */
static void read_once(struct reader *rd, const struct fault *f, unsigned copy) {
    const uint64_t key = ((copy * (uint64_t)rd->run->trace->space_names.n + f->space) << SLICE_BITS) + f->at;
    ivs_map_read_enter(&rd->run->map);
    const struct ivs_node *node = ivs_map_query_rcu(&rd->run->map, key);
    if (node) {
        rd->hits++;
        if (node->start > key || node->last < key || (node->start ^ key) >> SLICE_BITS || area_of(node)->perm > 15)
            rd->wrong++;
    }
    ivs_map_read_exit(&rd->run->map);
    rd->lookups++;
}

/* Keeps up with its copy: each fault when its place in the file is reached, recent ones again until then. */
static void *reader_main(void *arg) {
    struct reader *rd = arg;
    struct replay *r = rd->run;
    const unsigned copy = rd->index % r->copies;
    size_t next = 0;
    THREAD_BEGIN();
    for (size_t turn = 0; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); turn++) {
        const uint64_t reached = __atomic_load_n(&r->position[copy], __ATOMIC_RELAXED);
        if (next < r->faults.n && r->faults.at[next].event <= reached) read_once(rd, &r->faults.at[next++], copy);
        else if (next && turn % 256) read_once(rd, &r->faults.at[next - 1 - turn % (next < 256 ? next : 256)], copy);
        else sched_yield();
        THREAD_IDLE();
    }
    THREAD_END();
    return NULL;
}

static void start_thread(pthread_t *thread, void *(*body)(void *), void *arg) {
    int rc = pthread_create(thread, NULL, body, arg);
    if (rc) die("pthread_create", -rc);
}

static struct reader *start_readers(struct replay *r) {
    const unsigned n = r->options->readers;
    struct reader *readers = calloc(n + 1, sizeof *readers);
    need(readers != NULL);
    gather_faults(r);
    for (unsigned i = 0; i < n; i++) {
        readers[i].run = r;
        readers[i].index = i;
        start_thread(&readers[i].thread, reader_main, &readers[i]);
    }
    return readers;
}

static void stop_readers(struct replay *r, struct reader *readers) {
    __atomic_store_n(&r->stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < r->options->readers; i++) {
        SLEEP(pthread_join(readers[i].thread, NULL));
        r->lookups += readers[i].lookups;
        r->lookup_hits += readers[i].hits;
        r->lookup_wrong += readers[i].wrong;
    }
    if (r->lookup_wrong) r->total.bad++;
    free(readers);
}

struct copy_thread {
    struct worker worker;
    pthread_t thread;
};

static void *copy_main(void *arg) {
    struct copy_thread *c = arg;
    THREAD_BEGIN();
    replay_in_order(&c->worker, false);
    end_worker(&c->worker);
    THREAD_END();
    return NULL;
}

/* N copies at once in one map. */
static void replay_copies(struct replay *r) {
    struct copy_thread *c = calloc(r->copies, sizeof *c);
    need(c != NULL);
    struct reader *readers = start_readers(r);
    for (unsigned i = 0; i < r->copies; i++) {
        c[i].worker.run = r;
        c[i].worker.copy = i;
        start_thread(&c[i].thread, copy_main, &c[i]);
    }
    for (unsigned i = 0; i < r->copies; i++) SLEEP(pthread_join(c[i].thread, NULL));
    stop_readers(r, readers);
    free(c);
}

#include "vmreplay_parallel.h"
#include "vmreplay_show.h"

/* --------------------------------------------------------------------------------------------------- main */

static int finish(struct replay *r, const char *mode, const struct parallel *all) {
    if (r->said_ns != r->started_ns && isatty(2)) fputs(CLEAR_LINE, stderr);
    validate_map(r);
    report(r, mode);
    if (all) report_parallel(all);
    if (r->options->show && !r->options->quiet) {
        show_map(r);
        if (all) show_timeline(all);
    }
    int status = r->options->dot && !write_dot(r) ? 2 : r->total.bad ? 1 : 0;
    end_replay(r);
    return status;
}

static int replay_trace(const char *name, struct trace *t, const struct options *options) {
    struct replay r;
    struct parallel all;
    char mode[32] = "sequential";
    if (options->copies * (uint64_t)t->space_names.n > MAX_SLICES) {
        fprintf(stderr, "vmreplay: %s: %u copies of %zu spaces are too many\n", name, options->copies,
                t->space_names.n);
        return 2;
    }
    start_replay(&r, t, name, options, options->copies);
    if (options->copies > 1) {
        (void)snprintf(mode, sizeof mode, "%u copies at once", options->copies);
        replay_copies(&r);
        return finish(&r, mode, NULL);
    }
    struct worker w = {.run = &r};
    r.learning = true;
    replay_in_order(&w, true);
    end_worker(&w);
    if (!options->parallel || r.total.bad) return finish(&r, mode, NULL);
    if (!options->show) report(&r, mode);
    end_replay(&r);
    start_replay(&r, t, name, options, 1);
    replay_parallel(&r, &all);
    int status = finish(&r, "a thread for each thread", &all);
    end_parallel(&all);
    return status;
}

struct buffer {
    char *at;
    size_t n, room;
};

static int unreadable(const char *name, const char *why) {
    fprintf(stderr, "%s: %s\n", name, why);
    return -1;
}

#ifdef VMREPLAY_ZLIB
/* gzread takes plain files as they are. */
static int read_file(const char *name, struct buffer *b) {
    gzFile f = gzopen(name, "rb");
    if (!f) return unreadable(name, strerror(errno));
    int got = 1, code = Z_OK;
    while (got > 0 && b->n <= MAX_TEXT) {
        need(RESERVE(*b, b->n + 65536));
        got = gzread(f, b->at + b->n, 65536);
        if (got > 0) b->n += (size_t)got;
    }
    (void)gzerror(f, &code);
    const int closed = gzclose(f);
    if (got >= 0 && closed == Z_OK && code == Z_OK)
        return b->n > MAX_TEXT ? unreadable(name, "is larger than 1 GiB") : 0;
    size_t lines = 1;
    for (size_t i = 0; i < b->n; i++) lines += b->at[i] == '\n';
    fprintf(stderr, "%s:%zu: %s\n", name, lines,
            code == Z_ERRNO ? strerror(errno) : "compressed data is damaged or cut off");
    return -1;
}
#else
static int read_file(const char *name, struct buffer *b) {
    FILE *f = fopen(name, "rb");
    if (!f) return unreadable(name, strerror(errno));
    size_t got = 1;
    while (got > 0 && b->n <= MAX_TEXT) {
        need(RESERVE(*b, b->n + 65536));
        got = fread(b->at + b->n, 1, 65536, f);
        b->n += got;
    }
    const int error = ferror(f) ? errno : 0;
    fclose(f);
    if (error) return unreadable(name, strerror(error));
    if (b->n > 2 && (unsigned char)b->at[0] == 0x1f && (unsigned char)b->at[1] == 0x8b)
        return unreadable(name, "is compressed, and this vmreplay was built without zlib: gunzip it first");
    return b->n > MAX_TEXT ? unreadable(name, "is larger than 1 GiB") : 0;
}
#endif

static int replay_file(const char *name, const struct options *options) {
    struct buffer b = {0};
    struct trace t;
    char err[512];
    int status = read_file(name, &b) ? 2 : 0;
    THREAD_BEGIN();
    if (!status && parse_trace(name, b.at, b.n, &t, err, sizeof err)) {
        fprintf(stderr, "%s\n", err);
        status = 2;
    } else if (!status) {
        status = replay_trace(name, &t, options);
        free_trace(&t);
    }
    THREAD_END();
    free(b.at);
    return status;
}

static void usage(FILE *f) {
    fputs("usage: vmreplay [options] FILE...      (vmtrace 1 files"
#ifdef VMREPLAY_ZLIB
          ", also .gz"
#endif
          ")\n"
          "Replays recorded address-space calls on an ivskip map and compares it with every checkpoint.\n"
          "  -t, --threads N   N copies at once in one map, in slices of the keys that touch\n"
          "  -p, --parallel    a thread for each thread of the trace; only what meets keeps its order\n"
          "  -r, --readers N   threads that look up page faults meanwhile (default 2; with -t or -p)\n"
          "  -s, --show        print the map before and after; with -p a timeline too\n"
          "  -d, --dot FILE    write the final map as a Graphviz graph\n"
          "  -q, --quiet       print nothing but what is wrong\n"
          "  -h, --help        this text\n"
          "Exit status: 0 all matched, 1 something differs, 2 a file or the command line is wrong.\n",
          f);
}

static unsigned count_argument(const char *text, unsigned least) {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (!errno && !*end && end != text && n >= (long)least && n <= 1024) return (unsigned)n;
    fprintf(stderr, "vmreplay: \"%s\" is no number from %u to 1024\n", text, least);
    exit(2);
}

#ifdef VMREPLAY_NO_MAIN
#define main vmreplay_main
#endif

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"threads", 1, NULL, 't'}, {"parallel", 0, NULL, 'p'}, {"readers", 1, NULL, 'r'}, {"show", 0, NULL, 's'},
        {"dot", 1, NULL, 'd'},     {"quiet", 0, NULL, 'q'},    {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    struct options options = {.copies = 1, .readers = 2};
    int status = 0;
    for (int c; (c = getopt_long(argc, argv, "t:pr:sd:qh", longs, NULL)) != -1;) {
        switch (c) {
        case 't': options.copies = count_argument(optarg, 1); break;
        case 'p': options.parallel = true; break;
        case 'r': options.readers = count_argument(optarg, 0); break;
        case 's': options.show = true; break;
        case 'd': options.dot = optarg; break;
        case 'q': options.quiet = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (options.parallel && options.copies > 1)
        fputs("vmreplay: --threads and --parallel exclude each other\n", stderr);
    if (optind == argc || (options.parallel && options.copies > 1)) {
        usage(stderr);
        return 2;
    }
    for (; optind < argc; optind++) {
        const int s = replay_file(argv[optind], &options);
        if (s > status) status = s;
    }
    return status;
}
