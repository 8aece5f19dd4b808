/* SPDX-License-Identifier: MIT */
/*
 * The benchmarks. This file is compiled once for each peer (BENCH_PEER: its header, BENCH_NAME), so that no call
 * through a pointer stands in a measured loop.
 */
#define _GNU_SOURCE
#include "bench.h"
#include BENCH_PEER

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BENCH_MOST
#define BENCH_MOST SIZE_MAX
#endif

/* ------------------------------------------------------------------------ the structure under test */

/* Kept from benchmark to benchmark while n and order stay; each benchmark leaves it as it found it. */
static struct fixture {
    struct peer *peer;
    const struct bench_layout *layout;
    enum bench_order order;
} now;

static uint64_t expected_fields(uint64_t start, uint64_t end, const struct bench_record *record, size_t i) {
    const struct bench_layout *l = now.layout;
    bench_demand(i < l->n && start == l->start[i] && end == l->end[i] && record->field == bench_field(i));
    return 1;
}

static void check_intervals(void) {
    size_t i = 0;
#define SEE(start, end, record) i += expected_fields((start), (end), (record), i)
    peer_enter(now.peer);
    PEER_EACH(now.peer, 0, SIZE_MAX, SEE);
    peer_exit(now.peer);
#undef SEE
    bench_demand(i == now.layout->n);
}

/* A record of the harness's for interval i; n is the spare one. */
static void make_record(struct peer *p, size_t i) {
#ifdef BENCH_BY_VALUE
    p->record[i] = bench_alloc(sizeof(struct bench_record));
    p->record[i]->field = bench_field(i);
#else
    (void)p, (void)i;
#endif
}

static struct peer *make_peer(size_t n) {
    struct peer *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    bench_demand(p);
    memset(p, 0, sizeof *p);
    p->n = n;
#ifdef BENCH_BY_VALUE
    p->record = calloc(n + 1, sizeof *p->record);
    bench_demand(p->record);
#endif
    peer_init(p);
    return p;
}

static void free_peer(struct peer *p) {
    peer_quiesce(p);
    peer_destroy(p);
    for (size_t i = 0; p->record && i <= p->n; i++) bench_free(p->record[i], sizeof(struct bench_record));
    free(p->record);
    free(p);
}

static void drop(void) {
    if (!now.peer) return;
    peer_quiesce(now.peer);
    check_intervals();
    free_peer(now.peer);
    now.peer = NULL;
}

static void build(size_t n, enum bench_order in) {
    const struct bench_layout *l = bench_layout(n, in == BENCH_SKEWED);
    uint32_t *order = calloc(n, sizeof *order);
    uint64_t random = 4711;
    bench_demand(order);
    int64_t before = bench_live_bytes();
    now = (struct fixture){make_peer(n), l, in};
    for (size_t i = 0; i < n; i++) {
        size_t j = in == BENCH_IN_ORDER ? i : bench_below(&random, i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++) {
        make_record(now.peer, order[i]);
        peer_map(now.peer, l->start[order[i]], l->end[order[i]], order[i]);
    }
    peer_settle(now.peer);
    peer_quiesce(now.peer);
    now.peer->bytes = bench_live_bytes() - before;
    make_record(now.peer, n);
    free(order);
    check_intervals();
}

/* Every body begins and ends with these; the threads meet at the first and the last bench_next. */
static const struct bench_layout *begin(struct bench_state *state, const struct bench_job *job) {
    peer_thread_begin();
    if (bench_thread(state) != 0) return NULL;
    if (now.peer && now.layout->n == job->n && now.order == job->order) return now.layout;
    drop();
    build(job->n, job->order);
    return now.layout;
}

static void end(struct bench_state *state, struct bench_watch *watch) {
    bench_add_seconds(state, watch->seconds);
    if (bench_thread(state) == 0) peer_quiesce(now.peer);
    peer_thread_end();
}

static void finish(void) {
    peer_thread_begin();
    drop();
    peer_thread_end();
}

/* ------------------------------------------------------------------------ look-ups */

enum form { ONLY, FIELD, CHAIN, NEXT }; /* CHAIN: the next key is known when the field is */

/* One read section for each query, as a user has it. */
BENCH_ALWAYS void look_up(struct peer *p, uint64_t key, enum form form, uint64_t *hits, uint64_t *sum) {
    peer_enter(p);
    const struct bench_record *record = form == NEXT ? peer_find_next(p, key) : peer_find(p, key);
    if (record) {
        ++*hits;
        if (form != ONLY) *sum += record->field;
    }
    peer_exit(p);
}

BENCH_ALWAYS void find(struct bench_state *state, const struct bench_job *job, enum form form) {
    struct bench_watch watch = bench_watch(state);
    static const struct bench_keys *keys;
    const struct bench_layout *layout = begin(state, job);
    if (layout) keys = bench_keys(layout, job->keys, job->half_in_gaps);
    size_t batch = (size_t)bench_thread(state) * 5;
    for (bool first = true; bench_next(state, BENCH_BATCH); first = false) {
        uint64_t hits = 0, sum = 0;
        struct peer *p = now.peer;
        batch %= keys->batches;
        const uint32_t *page = keys->page + batch * BENCH_BATCH;
        if (first) bench_resume(&watch);
        for (size_t i = 0; i < BENCH_BATCH; i++) {
            size_t wait = form == CHAIN ? sum >> 63 : 0; /* is 0, which the processor learns from the sum only */
            look_up(p, bench_key(page[i + wait]), form, &hits, &sum);
        }
        bench_demand(hits == (form == NEXT ? keys->next_hits : keys->hits)[batch]);
        bench_demand(form == ONLY || sum == (form == NEXT ? keys->next_sums : keys->sums)[batch]);
        batch++;
    }
    bench_pause(&watch);
    end(state, &watch);
}

static void find_only(struct bench_state *state, const void *job) { find(state, job, ONLY); }
static void find_field(struct bench_state *state, const void *job) { find(state, job, FIELD); }
static void find_chain(struct bench_state *state, const void *job) { find(state, job, CHAIN); }
static void find_next(struct bench_state *state, const void *job) { find(state, job, NEXT); }

/* 100 intervals from a random one on, or as many as there are; time per interval. */
static void iterate(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch watch = bench_watch(state);
    const struct bench_layout *l = begin(state, job);
    uint64_t random = 99;
    size_t steps = job->n < 100 ? job->n : 100;
    while (bench_next(state, (int64_t)steps * 16)) {
        bench_resume(&watch);
        for (unsigned i = 0; i < 16; i++) {
            uint64_t sum = 0;
            size_t from = bench_below(&random, job->n - steps + 1);
#define SEE(start, end, record) sum += (record)->field
            peer_enter(now.peer);
            PEER_EACH(now.peer, l->start[from], steps, SEE);
            peer_exit(now.peer);
#undef SEE
            bench_demand(sum == steps * (bench_field(from) + bench_field(from + steps - 1)) / 2);
        }
        bench_pause(&watch);
    }
    end(state, &watch);
}

/* ------------------------------------------------------------------------ updates */

enum { UPDATES = 256, PHASE = 2000 };

/* The middle of an interval becomes the spare record, then the whole is again what it was. */
BENCH_ALWAYS void split_and_merge(struct peer *p, const struct bench_layout *l, size_t i) {
    peer_map(p, l->start[i] + BENCH_PAGE, l->end[i] - BENCH_PAGE, l->n);
    peer_map(p, l->start[i], l->end[i], i);
}
BENCH_ALWAYS void unmap_and_map(struct peer *p, const struct bench_layout *l, size_t i) {
    peer_unmap(p, l->start[i], l->end[i]);
    peer_map(p, l->start[i], l->end[i], i);
}
BENCH_ALWAYS void change_and_back(struct peer *p, const struct bench_layout *l, size_t i) {
    peer_change(p, l->start[i], l->end[i], l->n);
    peer_change(p, l->start[i], l->end[i], i);
}

/* Field of what covers `key`, 0: nothing does. */
static uint64_t field_at(struct peer *p, uint64_t key) {
    peer_enter(p);
    const struct bench_record *record = peer_find(p, key);
    uint64_t field = record ? record->field : 0;
    peer_exit(p);
    return field;
}

/* Once before the clock runs: the halves of the rounds do what they say. */
static void witness(struct peer *p, const struct bench_layout *l, size_t i) {
    uint64_t lo = l->start[i], mid = lo + BENCH_PAGE, last = l->end[i] - 1;
    peer_map(p, mid, l->end[i] - BENCH_PAGE, l->n);
    bench_demand(field_at(p, lo) == bench_field(i) && field_at(p, last) == bench_field(i));
    bench_demand(field_at(p, mid) == bench_field(l->n));
    peer_unmap(p, lo, l->end[i]);
    bench_demand(field_at(p, lo) == 0 && field_at(p, mid) == 0 && field_at(p, last) == 0);
    peer_map(p, lo, l->end[i], i);
    bench_demand(field_at(p, mid) == bench_field(i));
#ifdef BENCH_BY_VALUE
    peer_change(p, lo, l->end[i], l->n);
    bench_demand(field_at(p, lo) == bench_field(l->n));
    peer_change(p, lo, l->end[i], i);
#endif
}

/* `ops`: what one round counts for. */
BENCH_ALWAYS void update(struct bench_state *state, const struct bench_job *job, int64_t ops,
                         void (*round)(struct peer *, const struct bench_layout *, size_t)) {
    struct bench_watch watch = bench_watch(state);
    const struct bench_layout *l = begin(state, job);
    uint64_t random = 5;
    witness(now.peer, l, job->n / 2);
    while (bench_next(state, UPDATES * ops)) {
        bench_resume(&watch);
        for (unsigned i = 0; i < UPDATES; i++) round(now.peer, l, bench_below(&random, job->n));
        bench_pause(&watch);
    }
    end(state, &watch);
}

static void split_merge(struct bench_state *state, const void *job) { update(state, job, 1, split_and_merge); }
static void unmap_map(struct bench_state *state, const void *job) { update(state, job, 1, unmap_and_map); }
static void change(struct bench_state *state, const void *job) { update(state, job, 2, change_and_back); }

/* ------------------------------------------------------------------------ Alloc */

enum { ARENA = 1024, FREED = 64 };

/* One page after the other from an empty arena, which is emptied behind the clock's back. The hint is where the last
 * one ended. */
static void alloc_empty(struct bench_state *state, const void *job) {
    struct bench_watch watch = bench_watch(state);
    const struct bench_layout *l = begin(state, job);
    uint64_t lo = l->arena + BENCH_PAGE, hi = lo + ARENA * BENCH_PAGE, at;
    peer_map(now.peer, l->arena, lo, l->n); /* what lies before an arena is not part of the last interval's gap */
    while (bench_next(state, UPDATES)) {
        uint64_t hint = lo;
        bench_resume(&watch);
        for (unsigned i = 0; i < UPDATES; i++) {
            bench_demand(peer_take(now.peer, lo, hi, BENCH_PAGE, hint, l->n, &at) && at == hint);
            hint = at + BENCH_PAGE;
        }
        bench_pause(&watch);
        peer_unmap(now.peer, lo, hi);
    }
    peer_unmap(now.peer, l->arena, hi);
    end(state, &watch);
}

static void free_some(uint64_t lo, bool *used, unsigned count, uint64_t *random) {
    while (count > 0) {
        size_t i = bench_below(random, ARENA);
        if (!used[i]) continue;
        used[i] = false;
        count--;
        peer_unmap(now.peer, lo + i * BENCH_PAGE, lo + (i + 1) * BENCH_PAGE);
    }
}

/* The same where nine pages of ten are taken, and those that are free lie anywhere. */
static void alloc_full(struct bench_state *state, const void *job) {
    struct bench_watch watch = bench_watch(state);
    const struct bench_layout *l = begin(state, job);
    uint64_t lo = l->arena + BENCH_PAGE, hi = lo + ARENA * BENCH_PAGE, hint = lo, random = 31, at[FREED];
    bool used[ARENA];
    peer_map(now.peer, l->arena, lo, l->n);
    for (size_t i = 0; i < ARENA; i++) {
        used[i] = true;
        peer_map(now.peer, lo + i * BENCH_PAGE, lo + (i + 1) * BENCH_PAGE, l->n);
    }
    free_some(lo, used, ARENA / 10, &random);
    while (bench_next(state, FREED)) {
        bench_resume(&watch);
        for (unsigned i = 0; i < FREED; i++) {
            bench_demand(peer_take(now.peer, lo, hi, BENCH_PAGE, hint, l->n, &at[i]));
            hint = at[i] + BENCH_PAGE;
        }
        bench_pause(&watch);
        for (unsigned i = 0; i < FREED; i++) {
            size_t page = (size_t)((at[i] - lo) / BENCH_PAGE);
            bench_demand(at[i] >= lo && page < ARENA && !used[page]);
            used[page] = true;
        }
        free_some(lo, used, FREED, &random);
    }
    peer_unmap(now.peer, l->arena, hi);
    end(state, &watch);
}

/* n one-page intervals with a one-page hole behind each, then one of them goes, so that two pages fit there and
 * nowhere else. By time-stamps, since one call is timed at a time. */
static void alloc_hole(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch watch = bench_watch(state);
    const struct bench_layout *l = begin(state, job);
    uint64_t lo = l->arena, hi = lo + 2 * job->n * BENCH_PAGE, random = 8, at, ticks = 0;
    for (size_t i = 0; i < job->n; i++)
        peer_map(now.peer, lo + 2 * i * BENCH_PAGE, lo + (2 * i + 1) * BENCH_PAGE, l->n);
    while (bench_next(state, 16)) {
        for (unsigned i = 0; i < 16; i++) {
            uint64_t gone = lo + 2 * (1 + bench_below(&random, job->n - 1)) * BENCH_PAGE, hole = gone - BENCH_PAGE;
            peer_unmap(now.peer, gone, gone + BENCH_PAGE);
            bench_collect();
            uint64_t begun = bench_ticks();
            bool found = peer_take(now.peer, lo, hi, 2 * BENCH_PAGE, job->hint ? hole : 0, l->n, &at);
            ticks += bench_ticks() - begun;
            bench_collect();
            bench_demand(found && at == hole);
            peer_unmap(now.peer, hole, hole + 2 * BENCH_PAGE);
            peer_map(now.peer, gone, gone + BENCH_PAGE, l->n);
        }
    }
    peer_unmap(now.peer, lo, hi);
    watch.seconds = (double)ticks / bench_ticks_per_ns() * 1e-9;
    end(state, &watch);
}

/* ------------------------------------------------------------------------ several threads */

/* Look-ups among writes; a write unmaps an interval of the thread's own or maps it again. Only intervals that are out
 * at the moment, at most one a thread, may be missed. */
static void mixed(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch watch = bench_watch(state);
    size_t threads = (size_t)bench_threads(state), me = (size_t)bench_thread(state);
    uint64_t random = 1000 + me, reads = 0, hits = 0, sum = 0;
    bool out = false;
    size_t own = 0;
    begin(state, job);
    for (bool first = true; bench_next(state, BENCH_BATCH); first = false) {
        const struct bench_layout *l = now.layout;
        if (first) bench_resume(&watch);
        for (unsigned i = 0; i < BENCH_BATCH; i++) {
            uint64_t r = bench_random(&random);
            size_t id = (size_t)((r >> 32) * l->n >> 32);
            if ((r & 0xffff) * 100 >> 16 >= job->writes_percent) {
                reads++;
                look_up(now.peer, l->start[id], FIELD, &hits, &sum);
                continue;
            }
            if (!out) own = id / threads * threads + me;
            if (own >= l->n) continue;
            if (out) peer_map(now.peer, l->start[own], l->end[own], own);
            else peer_unmap(now.peer, l->start[own], l->end[own]);
            out = !out;
        }
    }
    bench_pause(&watch);
    if (out) peer_map(now.peer, now.layout->start[own], now.layout->end[own], own);
    bench_demand(hits <= reads && (double)(reads - hits) <= 8 + 3.0 * (double)(reads * threads) / (double)job->n);
    end(state, &watch);
}

/* All threads of a benchmark begin a phase together, and none leaves it before the last: what is timed is what they do
 * at once. */
static void meet(struct bench_state *state) {
    static unsigned here, turn;
    unsigned now_turn = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&here, 1, __ATOMIC_ACQ_REL) == (unsigned)bench_threads(state)) {
        __atomic_store_n(&here, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&turn, now_turn + 1, __ATOMIC_RELEASE);
        return;
    }
    for (unsigned i = 0; __atomic_load_n(&turn, __ATOMIC_ACQUIRE) == now_turn; i++)
        if (i > 1000) sched_yield(); /* more threads than cores */
}

static double spin(struct bench_state *state, uint64_t *random, unsigned rounds) {
    struct bench_watch watch = {.clock = CLOCK_MONOTONIC};
    meet(state);
    bench_resume(&watch);
    for (unsigned i = 0; i < rounds; i++) bench_random(random);
    __asm__ volatile("" ::"r"(*random));
    meet(state);
    bench_pause(&watch);
    return watch.seconds;
}

struct regions {
    struct bench_watch alloc, map, unmap;
    double spin;
};

/* By the wall clock, which is what a user waits; and by processor time, which tells on a machine that is not free what
 * threads cost each other but for the time they sleep. */
static void say_rate(struct bench_state *state, const char *name, double done, const struct bench_watch *watch) {
    char text[32];
    snprintf(text, sizeof text, "%s_per_s", name);
    bench_counter(state, text, done / watch->seconds);
    snprintf(text, sizeof text, "%s_per_cpu_s", name);
    bench_counter(state, text, done / watch->processor);
}

/* One round in the thread's region from `lo` on: each operation PHASE times, at its own clock. */
static void region_round(struct bench_state *state, struct peer *p, uint64_t lo, size_t id, struct regions *time) {
    uint64_t hi = lo + 4 * PHASE * BENCH_PAGE, hint = lo, at;
    meet(state);
    bench_resume(&time->alloc);
    for (unsigned i = 0; i < PHASE; i++) {
        bench_demand(peer_take(p, lo, hi, BENCH_PAGE, hint, id, &at) && at == hint);
        hint = at + BENCH_PAGE;
    }
    meet(state);
    bench_pause(&time->alloc);
    bench_resume(&time->unmap);
    for (unsigned i = 0; i < PHASE; i++) peer_unmap(p, lo + i * BENCH_PAGE, lo + (i + 1) * BENCH_PAGE);
    meet(state);
    bench_pause(&time->unmap);
    bench_demand(field_at(p, lo) == 0 && field_at(p, hint - 1) == 0);
    meet(state);
    bench_resume(&time->map);
    for (unsigned i = 0; i < PHASE; i++) peer_map(p, lo + 2 * i * BENCH_PAGE, lo + (2 * i + 1) * BENCH_PAGE, id);
    meet(state);
    bench_pause(&time->map);
    bench_demand(field_at(p, lo) == bench_field(id));
    peer_unmap(p, lo, hi);
}

/* Alloc, Unmap and Map of threads in regions of their own, with a mapped page before and behind each. By the wall
 * clock, also with one thread; a loop that needs nothing but a core says how free the cores were. */
static void regions(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch wall = {.clock = CLOCK_MONOTONIC};
    struct regions time = {wall, wall, wall, 0};
    const uint64_t pages = 8192;
    uint64_t rounds = 0, random = 1;
    if (begin(state, job)) {
        for (int t = 0; t < bench_threads(state); t++) {
            uint64_t lo = now.layout->arena + (uint64_t)t * pages * BENCH_PAGE;
            peer_map(now.peer, lo, lo + BENCH_PAGE, job->n);
            peer_map(now.peer, lo + (pages - 1) * BENCH_PAGE, lo + pages * BENCH_PAGE, job->n);
        }
    }
    while (bench_next(state, 3 * PHASE)) {
        uint64_t lo = now.layout->arena + (uint64_t)bench_thread(state) * pages * BENCH_PAGE;
        region_round(state, now.peer, lo + BENCH_PAGE, job->n, &time);
        time.spin += spin(state, &random, 100 * PHASE);
        rounds++;
    }
    double done = (double)(rounds * PHASE);
    say_rate(state, "alloc", done, &time.alloc);
    say_rate(state, "unmap", done, &time.unmap);
    say_rate(state, "map", done, &time.map);
    bench_counter(state, "spin_per_s", 100 * done / time.spin);
    if (bench_thread(state) == 0)
        peer_unmap(now.peer, now.layout->arena,
                   now.layout->arena + (uint64_t)bench_threads(state) * pages * BENCH_PAGE);
    time.alloc.seconds += time.unmap.seconds + time.map.seconds;
    end(state, &time.alloc);
}

struct writer {
    pthread_t thread;
    size_t first, count;
    bool *stop;
    uint64_t rounds;
};

static void *write_flat_out(void *arg) {
    struct writer *w = arg;
    uint64_t random = 17 + w->first;
    peer_thread_begin();
    while (!__atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
        size_t i = w->first + bench_below(&random, w->count);
        if (w->rounds++ & 1) split_and_merge(now.peer, now.layout, i);
        else unmap_and_map(now.peer, now.layout, i);
    }
    peer_thread_end();
    return NULL;
}

enum { QUERIES = 1 << 20 };

static void time_queries(const struct bench_keys *keys, struct bench_histogram *h) {
    uint64_t hits = 0, sum = 0;
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < QUERIES; i++) {
        uint64_t key = bench_key(keys->page[i % (keys->batches * BENCH_BATCH)]), begun = bench_ticks();
        look_up(now.peer, key, FIELD, &hits, &sum);
        bench_note(h, bench_ticks() - begun);
    }
    bench_demand(hits > QUERIES - QUERIES / 100); /* an interval may be out for a moment */
}

static void say_quantiles(struct bench_state *state, const struct bench_histogram *h, const char *when) {
    static const struct {
        const char *name;
        double q;
    } wanted[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s", wanted[i].name, when);
        bench_counter(state, name, bench_quantile_ns(h, wanted[i].q));
    }
}

/* One reader, alone and beside two writers, each of which has half the intervals for itself. */
static void latency(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch watch = {.clock = CLOCK_MONOTONIC};
    static struct bench_histogram alone, beside;
    const struct bench_keys *keys = bench_keys(begin(state, job), BENCH_UNIFORM, false);
    while (bench_next(state, 2 * QUERIES)) {
        bool stop = false;
        struct writer writer[2] = {{.count = job->n / 2, .stop = &stop},
                                   {.first = job->n / 2, .count = job->n / 2, .stop = &stop}};
        bench_resume(&watch);
        time_queries(keys, &alone);
        for (int i = 0; i < 2; i++) bench_demand(!pthread_create(&writer[i].thread, NULL, write_flat_out, &writer[i]));
        time_queries(keys, &beside);
        __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
        for (int i = 0; i < 2; i++) bench_demand(!pthread_join(writer[i].thread, NULL) && writer[i].rounds > 0);
        bench_pause(&watch);
        bench_counter(state, "writes", (double)(writer[0].rounds + writer[1].rounds));
    }
    say_quantiles(state, &alone, "alone");
    say_quantiles(state, &beside, "beside");
    end(state, &watch);
}

/* ------------------------------------------------------------------------ recorded programs */

static uint64_t replay_events(struct peer *p, const struct bench_trace *trace) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const struct bench_event *e = &trace->event[i];
        if (e->op == BENCH_MAP) peer_map(p, e->lo, e->hi, 0);
        else if (e->op == BENCH_UNMAP) peer_unmap(p, e->lo, e->hi);
        else wrong += (field_at(p, e->lo) != 0) != e->hit;
    }
    return wrong;
}

/* A trace from an empty map on; time per event. At the end the same keys are covered. */
static void replay(struct bench_state *state, const void *job_) {
    const struct bench_job *job = job_;
    struct bench_watch watch = bench_watch(state);
    const struct bench_trace *trace = bench_trace(job->trace);
    bench_demand(trace);
    begin(state, job);
    struct peer *p = make_peer(0);
    make_record(p, 0);
    while (bench_next(state, (int64_t)trace->n)) {
        uint64_t covered = 0;
        bench_resume(&watch);
        uint64_t wrong = replay_events(p, trace);
        bench_pause(&watch);
#define SEE(start, end, record) covered += (end) - (start)
        peer_enter(p);
        PEER_EACH(p, 0, SIZE_MAX, SEE);
        peer_exit(p);
#undef SEE
        bench_demand(wrong == 0 && covered == trace->covered);
        peer_unmap(p, 0, UINT64_C(1) << 62);
    }
    free_peer(p);
    end(state, &watch);
}

/* ------------------------------------------------------------------------ memory */

static void bytes(struct bench_state *state, const void *job) {
    struct bench_watch watch = bench_watch(state);
    begin(state, job);
    while (bench_next(state, 1)) watch.seconds += 1e-9;
    double each = (double)now.peer->bytes / (double)now.peer->n;
    bench_demand(each > sizeof(struct bench_record) + sizeof(uint64_t));
    bench_counter(state, "bytes", each);
    bench_counter(state, "bytes_index", each - sizeof(struct bench_record)); /* with the pointer to a record */
    end(state, &watch);
}

#define BENCH_CAT_(a, b) a##b
#define BENCH_CAT(a, b)  BENCH_CAT_(a, b)
#define BENCH_TEXT_(a)   #a
#define BENCH_TEXT(a)    BENCH_TEXT_(a)
extern const struct bench_peer BENCH_CAT(bench_peer_, BENCH_SYMBOL);
const struct bench_peer BENCH_CAT(bench_peer_, BENCH_SYMBOL) = {
    .name = BENCH_NAME,
    .most = BENCH_MOST,
    .finish = finish,
    .body =
        {
            [BENCH_FIND_ONLY] = find_only,
            [BENCH_FIND_FIELD] = find_field,
            [BENCH_FIND_CHAIN] = find_chain,
            [BENCH_FIND_NEXT] = find_next,
            [BENCH_ITERATE] = iterate,
            [BENCH_SPLIT_MERGE] = split_merge,
            [BENCH_UNMAP_MAP] = unmap_map,
            [BENCH_CHANGE] = change,
            [BENCH_ALLOC_EMPTY] = alloc_empty,
            [BENCH_ALLOC_FULL] = alloc_full,
            [BENCH_ALLOC_HOLE] = alloc_hole,
            [BENCH_MIXED] = mixed,
            [BENCH_REGIONS] = regions,
            [BENCH_LATENCY] = latency,
            [BENCH_BYTES] = bytes,
            [BENCH_REPLAY] = replay,
        },
};
