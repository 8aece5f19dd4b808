/* SPDX-License-Identifier: MIT */
/*
 * vmreplay.c - replays recorded address-space calls of real programs (`vmtrace 1` files) on ivaddr.h.
 *
 *     vmreplay [--predict | --threads N | --parallel] [--readers N] [--show] [--dot FILE] [--quiet] FILE...
 *
 * Every address space of a trace is an iva_space. The recorded calls are made again with the arguments that the program
 * passed; after every few calls a checkpoint of the trace says what the kernel's own list of mappings was (number, pages,
 * CRC-32), and the space must agree.
 *
 *   sequential   file order, one thread. The recorded results are believed: a call that failed and changed nothing is
 *                not made, and what the kernel was free to choose is asked for. Page faults are look-ups, counted exactly.
 *   --predict    file order, one thread. Nothing is believed: every call is made as it is, and its result (0, address,
 *                errno) has to be the recorded one, the kernel's choice of addresses included.
 *   --threads N  N copies at once, each a thread, in spaces of one domain; page faults come from reader threads.
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
 * In files of their own: the parser (vmtrace.h), the calls (vmreplay_calls.h), checkpoints (vmreplay_check.h),
 * --parallel (vmreplay_parallel.h), pictures and the report (vmreplay_show.h). Here: spaces, replay in file order,
 * readers, main.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef IVADDR_IMPLEMENTATION
#define IVADDR_IMPLEMENTATION
#endif
#include "ivaddr.h"
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

/* ------------------------------------------------------------------------------------------------- spaces */

struct options {
    unsigned copies, readers;
    bool parallel, predict, show, quiet;
    const char *dot;
};

struct tally {
    uint64_t count[CALLS + 1], failed[CALLS + 1], ns[CALLS + 1];
    uint64_t errors[ERROR_NAMES + 1];
    uint64_t checks, matched, full, bad, check_ns, most;
    uint64_t hits, below, missed; /* page faults of the sequential replay */
    /* --predict: results, of these places that the kernel chose; and what could not be compared */
    uint64_t predicted, placed, differ, apart, believed, skipped;
};

struct fault {
    uint64_t at;
    uint32_t space, event;
};

/* A space of a copy of the trace. */
struct place {
    struct iva_space space;
    bool made;         /* readers look only then */
    uint64_t proposal; /* --predict, where the trace does not tell the base: what the kernel chose; 0: nothing */
};

struct replay {
    struct trace *trace;
    const char *name;
    const struct options *options;
    struct iva_domain domain;
    struct place *places; /* by copy and space */
    unsigned copies;
    bool learning; /* this pass stores ranges that depend on the map */
    bool predict;
    bool stop; /* readers go home */
    uint64_t started_ns, said_ns;
    uint64_t *position; /* by copy: event reached, for readers and the progress line */
    ARRAY(struct fault) faults;
    pthread_mutex_t mutex; /* of `total` and the output */
    struct tally total;
    uint64_t lookups, lookup_hits, lookup_wrong;
};

struct views {
    struct iva_view *at;
    size_t n, room;
};

/* A thread that replays. */
struct worker {
    struct replay *run;
    unsigned copy;
    struct views views;
    struct pieces seen, want;
    struct tally tally;
};

static void die(const char *what, int code) {
    fprintf(stderr, "vmreplay: %s failed: %d\n", what, code);
    exit(2);
}

static void need(bool enough) {
    if (!enough) die("allocation", IVA_ENOMEM);
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct place *place_of(const struct replay *r, unsigned copy, uint32_t space) {
    return &r->places[copy * r->trace->spaces.n + space];
}

static struct iva_space *space_of(const struct worker *w, uint32_t space) {
    return &place_of(w->run, w->copy, space)->space;
}

/* Said for what the recorded results make impossible. */
static void complain(struct worker *w, const struct event *ev, const char *what) {
    w->tally.bad++;
    if (w->tally.bad > 10) return;
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: %s\n", w->run->name, ev->line, what);
    pthread_mutex_unlock(&w->run->mutex);
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
static bool continues(const struct piece *a, const struct piece *b) {
    return a->hi == b->lo && a->perm == b->perm && a->obj == b->obj &&
           (a->obj <= 0 || a->off + (a->hi - a->lo) == b->off);
}

/* The list must have room. */
static void append(struct pieces *list, struct piece p) {
    if (p.lo >= p.hi) return;
    struct piece *last = list->n ? &list->at[list->n - 1] : NULL;
    if (last && continues(last, &p)) last->hi = p.hi;
    else list->at[list->n++] = p;
}

static struct piece piece_of(const struct iva_view *v) {
    struct piece p = {.lo = v->start, .hi = v->end, .obj = (int32_t)(intptr_t)v->object};
    p.off = p.obj > 0 ? v->offset : 0;
    p.perm = (uint8_t)((v->flags & IVA_RIGHTS) | (v->flags & IVA_SHARED ? SHARED : 0u));
    p.flags = v->flags & IVA_GROWSDOWN ? GROWS_DOWN : 0;
    return p;
}

/* Counts all, keeps those for which there is room: nothing is allocated in a read section. */
static int keep_view(void *list, const struct iva_view *view) {
    struct views *views = list;
    if (views->n++ < views->room) views->at[views->n - 1] = *view;
    return 0;
}

static void areas_of(struct iva_space *space, struct views *views) {
    do {
        need(RESERVE(*views, views->n));
        views->n = 0;
        int rc = iva_space_iterate(space, 0, TASK_SIZE, keep_view, views);
        if (rc) die("iva_space_iterate", rc);
    } while (views->n > views->room);
}

/* The areas of a space as pieces, in w->seen. */
static void see_areas(struct worker *w, uint32_t space) {
    areas_of(space_of(w, space), &w->views);
    need(RESERVE(w->seen, w->views.n));
    w->seen.n = 0;
    for (size_t i = 0; i < w->views.n; i++) w->seen.at[w->seen.n++] = piece_of(&w->views.at[i]);
}

static int propose(void *ctx, const struct iva_place *request, uint64_t *address) {
    const struct place *p = ctx;
    *address = p->proposal;
    return request->attempt || !p->proposal ? IVA_ENOENT : 0;
}

static const struct iva_ops proposals = {.place = propose};

/* The kernel's choice is known where the trace has the whole map: placement begins at the end of the last mapping below
 * [stack]. Where results are believed, no limit of ours may refuse what the kernel did. */
static void make_space(struct worker *w, uint32_t space, const struct piece *birth, size_t n) {
    struct place *p = place_of(w->run, w->copy, space);
    const struct space_info *info = &w->run->trace->spaces.at[space];
    struct iva_space_config config = iva_space_config_linux();
    config.domain = &w->run->domain;
    config.brk = info->brk0;
    config.limit[IVA_LIMIT_STACK] = w->run->predict ? w->run->trace->stack_limit : 0;
    if (!w->run->predict) config.limit[IVA_LIMIT_AREAS] = 0;
    config.base = 0;
    for (size_t i = 1; i < n; i++)
        if (birth[i].flags & GROWS_DOWN) config.base = birth[i - 1].hi;
    if (w->run->predict && !config.base) {
        config.policy = IVA_PLACE_HOOK;
        config.ops = &proposals;
        config.ctx = p;
    }
    int rc = iva_space_init(&p->space, &config);
    if (rc == IVA_EINVAL) { /* no kernel has written such a trace */
        fprintf(stderr, "%s: a%u: the heap begins at %llx, placement at %llx: that cannot be\n", w->run->name,
                info->name, (unsigned long long)config.brk, (unsigned long long)config.base);
        w->tally.bad++;
        config.brk = config.lo;
        config.base = 0;
        rc = iva_space_init(&p->space, &config);
    }
    if (rc) die("iva_space_init", rc);
    __atomic_store_n(&p->made, true, __ATOMIC_RELEASE);
    if (info->brk != info->brk0 && iva_space_brk(&p->space, info->brk) != info->brk)
        fprintf(stderr, "%s: a%u: the break cannot be %llx\n", w->run->name, info->name, (unsigned long long)info->brk);
}

/* -------------------------------------------------------------------------------------- one event, applied */

#include "vmreplay_calls.h"
#include "vmreplay_check.h"

/* The first map of a space: taken as it is. */
static void populate(struct worker *w, const struct event *ev) {
    const struct trace *t = w->run->trace;
    const struct check *c = &t->checks.at[ev->other];
    const struct piece *p = c->count ? t->pieces.at + c->first : NULL;
    make_space(w, ev->space, p, c->count);
    for (const struct piece *end = p ? p + c->count : NULL; p < end; p++) {
        struct iva_map_request q = new_mapping(t, p->obj, p->perm & PROT_BITS, IVA_MAP_FIXED, 0);
        uint64_t address;
        q.flags |= p->perm & SHARED ? IVA_MAP_SHARED : IVA_MAP_PRIVATE;
        if (p->obj == ANON) q.flags |= IVA_MAP_ANONYMOUS;
        if (p->obj == ANON && (p->flags & GROWS_DOWN)) q.flags |= IVA_MAP_GROWSDOWN;
        q.address = p->lo;
        q.length = p->hi - p->lo;
        q.offset = p->off;
        if (iva_space_map(space_of(w, ev->space), &q, &address)) complain(w, ev, "a line of the first map is refused");
    }
    check_space(w, ev);
}

static void fork_space(struct worker *w, const struct event *ev) {
    struct place *child = place_of(w->run, w->copy, ev->other);
    int rc = iva_space_fork(space_of(w, ev->space), &child->space, NULL);
    if (rc) die("iva_space_fork", rc);
    __atomic_store_n(&child->made, true, __ATOMIC_RELEASE);
}

/* Recorded growth: a page fault at the new start did it. */
static void grow(struct worker *w, const struct event *ev) {
    struct iva_space *s = space_of(w, ev->space);
    struct iva_view view;
    int rc = iva_space_query(s, ev->x[0], &view);
    if (!rc) rc = iva_space_touch(s, ev->x[1], IVA_READ, NULL);
    if (rc && rc != IVA_EACCES) complain(w, ev, "growth of what is not mapped or does not grow");
}

/* What depends on the map, for the order of the parallel replay: a touch that makes an area grow meets the guard gap
 * below and what begins above, any other only its page; PROT_GROWSDOWN begins at the start of the area. */
static void learn_ranges(struct worker *w, struct event *ev) {
    struct iva_space *s = space_of(w, ev->space);
    struct iva_view view;
    if (ev->call == TOUCH && iva_space_query_next(s, ev->x[0], &view) == 0) {
        if (view.start > ev->x[0]) ev->meets[0].hi = view.start + 1;
        else ev->meets[0].lo = ev->meets[0].hi - 1;
    } else if ((ev->call == MPROTECT || ev->call == PKEY_MPROTECT) && (ev->x[2] & IVA_PROT_GROWSDOWN) &&
               iva_space_query_next(s, ev->x[0], &view) == 0 && view.start < ev->x[0]) {
        ev->meets[1] = (struct span){view.start ? view.start - 1 : 0, ev->x[0]};
    }
}

/* The recorded result is right: what failed without a trace is not tried. */
static void believe_call(struct worker *w, struct event *ev) {
    char what[160];
    if (!has_effect(ev)) return;
    if (w->run->learning) learn_ranges(w, ev);
    const struct answer ours = make_call(w, ev, true), kernels = recorded_answer(ev);
    if (same_answer(ours, kernels) || beyond_the_map(ev, ours)) return;
    (void)snprintf(what, sizeof what, "%s gives %s %llx, recorded is %s %llx", call_forms[ev->call].name,
                   ours.error ? error_name(ours.error) : "", (unsigned long long)ours.address,
                   kernels.error ? error_name(kernels.error) : "", (unsigned long long)kernels.address);
    complain(w, ev, what);
}

#include "vmreplay_predict.h"

static void apply(struct worker *w, struct event *ev) {
    int rc;
    switch ((enum op)ev->op) {
    case OP_CALL:
        if (w->run->predict) predict_call(w, ev);
        else believe_call(w, ev);
        break;
    case OP_GROW: grow(w, ev); break;
    case OP_FORK: fork_space(w, ev); break;
    case OP_END: /* readers may still look at it */
        rc = iva_space_unmap(space_of(w, ev->space), 0, TASK_SIZE);
        if (rc) die("iva_space_unmap", rc);
        break;
    case OP_BIRTH: populate(w, ev); break;
    case OP_CHECK: check_space(w, ev); break;
    case OP_NONE:
    case OP_LIFE:
    case OP_BARRIER:
    case OP_FAULT: break;
    }
}

/* -------------------------------------------------------------------------------------- sequential replay */

static void count_fault(struct worker *w, const struct event *ev) {
    struct iva_view view;
    int rc = iva_space_query_next(space_of(w, ev->space), ev->x[0], &view);
    if (!rc && view.start <= ev->x[0]) w->tally.hits++;
    else if (!rc && (view.flags & IVA_GROWSDOWN)) w->tally.below++;
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
    for (size_t i = 0; i <= ERROR_NAMES; i++) to->errors[i] += from->errors[i];
    to->checks += from->checks;
    to->matched += from->matched;
    to->full += from->full;
    to->bad += from->bad;
    to->check_ns += from->check_ns;
    to->hits += from->hits;
    to->below += from->below;
    to->missed += from->missed;
    to->predicted += from->predicted;
    to->placed += from->placed;
    to->differ += from->differ;
    to->apart += from->apart;
    to->believed += from->believed;
    to->skipped += from->skipped;
    if (from->most > to->most) to->most = from->most;
    pthread_mutex_unlock(&w->run->mutex);
}

static void end_worker(struct worker *w) {
    add_tally(w);
    free(w->views.at);
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
    w->tally.failed[ev->call] += ev->error != 0;
    if (ev->error) w->tally.errors[error_index(ev->error)]++;
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

/* Those of which only windows are known are there from the beginning. */
static void make_windowed_spaces(struct replay *r) {
    const struct trace *t = r->trace;
    bool *later = calloc(t->spaces.n + 1, sizeof *later);
    need(later != NULL);
    for (size_t i = 0; i < t->events.n; i++) {
        const struct event *ev = &t->events.at[i];
        if (ev->op == OP_BIRTH) later[ev->space] = true;
        if (ev->op == OP_FORK) later[ev->other] = true;
    }
    for (unsigned copy = 0; copy < r->copies; copy++)
        for (uint32_t k = 0; k < t->spaces.n; k++)
            if (!later[k]) make_space(&(struct worker){.run = r, .copy = copy}, k, NULL, 0);
    free(later);
}

static void start_replay(struct replay *r, struct trace *t, const char *name, const struct options *options,
                         unsigned copies) {
    memset(r, 0, sizeof *r);
    r->trace = t;
    r->name = name;
    r->options = options;
    r->copies = copies;
    r->position = calloc(copies, sizeof *r->position);
    need(r->position != NULL);
    pthread_mutex_init(&r->mutex, NULL);
    r->places = calloc(copies * t->spaces.n + 1, sizeof *r->places);
    need(r->places != NULL);
    int rc = iva_domain_init(&r->domain, NULL);
    if (rc) die("iva_domain_init", rc);
    r->predict = options->predict;
    make_windowed_spaces(r);
    r->started_ns = r->said_ns = now_ns();
}

/* All threads have gone: the spaces must be whole. */
static void validate_spaces(struct replay *r) {
    for (size_t i = 0; i < r->copies * r->trace->spaces.n; i++) {
        struct iva_report report = {0};
        int rc = r->places[i].made ? iva_space_validate(&r->places[i].space, &report) : 0;
        if (!rc) continue;
        fprintf(stderr, "%s: iva_space_validate: %d, %s at %llx: %llu, not %llu\n", r->name, rc,
                report.check ? report.check : "?", (unsigned long long)report.address, (unsigned long long)report.found,
                (unsigned long long)report.wanted);
        r->total.bad++;
    }
}

static void end_replay(struct replay *r) {
    int rc = 0;
    for (size_t i = 0; i < r->copies * r->trace->spaces.n && !rc; i++)
        if (r->places[i].made) rc = iva_space_destroy(&r->places[i].space);
    if (rc) die("iva_space_destroy", rc);
    rc = iva_domain_destroy(&r->domain);
    if (rc) die("iva_domain_destroy", rc);
    pthread_mutex_destroy(&r->mutex);
    free(r->places);
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
            if (pass ? ev->op != OP_CALL || ev->call != MMAP || ev->error : ev->op != OP_FAULT) continue;
            need(RESERVE(r->faults, r->faults.n + 1));
            r->faults.at[r->faults.n++] = (struct fault){pass ? ev->res : ev->x[0], ev->space, (uint32_t)i};
        }
}

/* One page fault: a look-up without a lock, while others change the map. */
static void read_once(struct reader *rd, const struct fault *f, unsigned copy) {
    struct place *p = place_of(rd->run, copy, f->space);
    if (!__atomic_load_n(&p->made, __ATOMIC_ACQUIRE)) return;
    struct ivs_map *map = iva_space_map_of(&p->space);
    ivs_map_read_enter(map);
    const struct iva_area *area = iva_space_query_rcu(&p->space, f->at);
    if (area) {
        const uint64_t flags = iva_area_flags(area), start = iva_area_start(area), end = iva_area_end(area);
        const int64_t object = (intptr_t)iva_area_object(area);
        rd->hits++;
        if (start > f->at || end <= f->at || (start | end) % PAGE || object < VVAR_VCLOCK || object >= MAX_ID ||
            ((flags & IVA_GROWSDOWN) && (flags & IVA_SHARED)))
            rd->wrong++;
    }
    ivs_map_read_exit(map);
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
    validate_spaces(r);
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
    if (options->predict) (void)snprintf(mode, sizeof mode, "every result predicted");
    if (options->copies * (uint64_t)t->spaces.n > MAX_SPACES) {
        fprintf(stderr, "vmreplay: %s: %u copies of %zu spaces are too many\n", name, options->copies, t->spaces.n);
        return 2;
    }
    start_replay(&r, t, name, options, options->copies);
    if (options->copies > 1) {
        (void)snprintf(mode, sizeof mode, "%u copies at once", options->copies);
        replay_copies(&r);
        return finish(&r, mode, NULL);
    }
    struct worker w = {.run = &r};
    r.learning = options->parallel;
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
          "Replays recorded address-space calls on ivaddr's spaces and compares them with every checkpoint.\n"
          "  -P, --predict     compare every result too, the kernel's choice of addresses included\n"
          "  -t, --threads N   N copies at once, each a thread, in spaces of one domain\n"
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
        {"predict", 0, NULL, 'P'}, {"threads", 1, NULL, 't'}, {"parallel", 0, NULL, 'p'},
        {"readers", 1, NULL, 'r'}, {"show", 0, NULL, 's'},    {"dot", 1, NULL, 'd'},
        {"quiet", 0, NULL, 'q'},   {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    struct options options = {.copies = 1, .readers = 2};
    int status = 0;
    for (int c; (c = getopt_long(argc, argv, "Pt:pr:sd:qh", longs, NULL)) != -1;) {
        switch (c) {
        case 'P': options.predict = true; break;
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
    const bool many = options.parallel + options.predict + (options.copies > 1) > 1;
    if (many) fputs("vmreplay: --predict, --threads and --parallel exclude each other\n", stderr);
    if (optind == argc || many) {
        usage(stderr);
        return 2;
    }
    for (; optind < argc; optind++) {
        const int s = replay_file(argv[optind], &options);
        if (s > status) status = s;
    }
    return status;
}
