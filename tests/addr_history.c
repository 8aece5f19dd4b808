/* SPDX-License-Identifier: MIT */
/*
 * Many threads on one address space: short histories of map, unmap, protect, remap, brk and query are recorded with real
 * time and must be linearizable (addr_linear.h); limits hold at every instant; the accounts are exact in the end.
 */
#include "support.h"
#include "ivaddr.h"
#include "addr_linear.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PAGE      UINT64_C(0x1000)
#define BASE      UINT64_C(0x10000000)
#define PLACE(at) (BASE + (uint64_t)(at)*PAGE)

/* ---- calls that let others in: the host's callbacks run amid an operation */

static _Thread_local unsigned turns;

static void let_others_in(void) {
    if (++turns % 3 == 0) {
        rcu_quiescent();
        sched_yield();
    }
}

static int on_split(void *ctx, const struct iva_view *old, struct iva_view *part) {
    (void)ctx, (void)old, (void)part;
    let_others_in();
    return 0;
}

static int on_merge(void *ctx, struct iva_view *into, const struct iva_view *gone) {
    (void)ctx, (void)into, (void)gone;
    let_others_in();
    return 0;
}

static int on_copy(void *ctx, const struct iva_view *from, struct iva_view *to) {
    (void)ctx, (void)from, (void)to;
    let_others_in();
    return 0;
}

static void on_clear(void *ctx, uint64_t start, uint64_t end, uint64_t floor, uint64_t ceiling) {
    (void)ctx;
    CHECK(start < end && (floor == ceiling || (floor <= start && end - 1 <= ceiling - 1)),
          "clear %llx-%llx between %llx and %llx", (unsigned long long)start, (unsigned long long)end,
          (unsigned long long)floor, (unsigned long long)ceiling);
    let_others_in();
}

static void on_protect(void *ctx, const struct iva_view *area) {
    (void)ctx, (void)area;
    let_others_in();
}

static void on_move(void *ctx, uint64_t from, uint64_t to, uint64_t bytes) {
    (void)ctx, (void)from, (void)to, (void)bytes;
    let_others_in();
}

static const struct iva_ops busy_host = {
    .split = on_split, .merge = on_merge, .copy = on_copy, .clear = on_clear, .protect = on_protect, .move = on_move};

/* ---- calls on the space */

static bool make_space(struct iva_space *space, void (*change)(struct iva_space_config *config)) {
    struct iva_space_config config = iva_space_config_linux();
    config.brk = PLACE(ADDR_HEAP);
    config.ops = &busy_host;
    if (change) change(&config);
    return CHECK(!iva_space_init(space, &config), "init");
}

static void end_space(struct iva_space *space) {
    struct iva_report report = {0};
    struct iva_space_stats stats;
    struct iva_measure sum;
    int rc = iva_space_validate(space, &report);
    CHECK(rc == 0, "validate: %d, %s at %llx: %llu, not %llu", rc, report.check ? report.check : "?",
          (unsigned long long)report.address, (unsigned long long)report.found, (unsigned long long)report.wanted);
    CHECK(!iva_space_get_stats(space, &stats) && !iva_space_measure(space, 0, PLACE(1024), &sum), "stats");
    CHECK(stats.total == sum.bytes && stats.locked == sum.locked && stats.areas == sum.areas,
          "accounted: %llu bytes, %llu locked, %llu areas; there are %llu, %llu, %llu", (unsigned long long)stats.total,
          (unsigned long long)stats.locked, (unsigned long long)stats.areas, (unsigned long long)sum.bytes,
          (unsigned long long)sum.locked, (unsigned long long)sum.areas);
    CHECK(!iva_space_destroy(space), "destroy");
}

static struct addr_page page_of(struct iva_space *space, uint32_t at) {
    struct iva_view view;
    struct addr_page page = {0};
    if (iva_space_query(space, PLACE(at), &view)) return page;
    page.mapped = true;
    page.rights = (uint8_t)(view.flags & IVA_RIGHTS);
    page.object = (uint16_t)view.object;
    if (view.object) page.offset = (uint32_t)((view.offset + (PLACE(at) - view.start)) / PAGE);
    return page;
}

static void make_map(struct iva_space *space, struct addr_call *call) {
    struct iva_map_request request = {.address = PLACE(call->at), .length = call->count * PAGE, .rights = call->rights};
    uint64_t address = 0;
    request.flags = call->kind == ADDR_MAP ? IVA_MAP_FIXED : IVA_MAP_FIXED_NOREPLACE;
    request.flags |= call->object ? IVA_MAP_SHARED : IVA_MAP_PRIVATE | IVA_MAP_ANONYMOUS;
    request.object = call->object;
    request.offset = call->object ? call->offset * PAGE : 0;
    request.access = IVA_RIGHTS;
    call->error = iva_space_map(space, &request, &address);
    CHECK(call->error || address == request.address, "mapped at %llx", (unsigned long long)address);
}

static void make_call(struct iva_space *space, struct addr_call *call) {
    const uint64_t at = PLACE(call->at), bytes = call->count * PAGE;
    uint64_t address = 0, brk;
    switch (call->kind) {
    case ADDR_MAP:
    case ADDR_MAP_FREE: make_map(space, call); break;
    case ADDR_UNMAP: call->error = iva_space_unmap(space, at, bytes); break;
    case ADDR_PROTECT: call->error = iva_space_protect(space, at, bytes, call->rights); break;
    case ADDR_MOVE:
        call->error =
            iva_space_remap(space, at, bytes, bytes, IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED, PLACE(call->to), &address);
        CHECK(call->error || address == PLACE(call->to), "moved to %llx", (unsigned long long)address);
        break;
    case ADDR_GROW: call->error = iva_space_remap(space, at, bytes, call->to * PAGE, 0, 0, &address); break;
    case ADDR_BRK:
        brk = iva_space_brk(space, at);
        call->brk = (uint32_t)((brk - BASE) / PAGE);
        break;
    case ADDR_QUERY: call->seen = page_of(space, call->at); break;
    }
}

/* ---- random calls */

struct mix {
    uint32_t lo, hi;     /* pages that are hit */
    bool brk;            /* the heap too */
    unsigned look_every; /* one call of so many is a query */
};

/* Objects are numbered by call, so that a page tells which call mapped it; some mappings are anonymous, and join. */
static struct addr_call random_call(struct rng *rng, const struct mix *mix, uint16_t object) {
    static const uint8_t rights[] = {IVA_READ, IVA_READ | IVA_WRITE, 0, IVA_READ | IVA_EXEC};
    static const enum addr_kind kinds[] = {ADDR_MAP,     ADDR_MAP,   ADDR_MAP_FREE, ADDR_MAP_FREE,
                                           ADDR_UNMAP,   ADDR_UNMAP, ADDR_UNMAP,    ADDR_PROTECT,
                                           ADDR_PROTECT, ADDR_MOVE,  ADDR_MOVE,     ADDR_GROW};
    const uint32_t width = mix->hi - mix->lo;
    struct addr_call call = {.kind = kinds[rng_below(rng, sizeof kinds / sizeof *kinds)]};
    if (mix->brk && rng_below(rng, 6) == 0) call.kind = ADDR_BRK;
    if (rng_below(rng, mix->look_every) == 0) call.kind = ADDR_QUERY;
    call.at = mix->lo + (uint32_t)rng_below(rng, width);
    call.count = 1 + (uint32_t)rng_below(rng, mix->hi - call.at);
    call.rights = rights[rng_below(rng, 4)];
    if (rng_below(rng, 3)) {
        call.object = object;
        call.offset = (uint32_t)rng_below(rng, 100);
    }
    if (call.kind == ADDR_BRK) call.at = ADDR_HEAP + (uint32_t)rng_below(rng, ADDR_PAGES - ADDR_HEAP - 1);
    if (call.kind == ADDR_GROW) call.to = call.count + 1 + (uint32_t)rng_below(rng, 3);
    if (call.kind == ADDR_GROW && call.at + call.to > mix->hi) call.kind = ADDR_QUERY;
    if (call.kind == ADDR_MOVE) { /* two halves that do not meet */
        const uint32_t half = width / 2;
        call.at = (uint32_t)rng_below(rng, half);
        call.count = 1 + (uint32_t)rng_below(rng, half - call.at);
        call.to = half + (uint32_t)rng_below(rng, half - call.count + 1);
        if (rng_below(rng, 2)) call.at ^= call.to, call.to ^= call.at, call.at ^= call.to;
        call.at += mix->lo;
        call.to += mix->lo;
    }
    return call;
}

/* ---- histories */

#define THREADS_MOST 6u

struct round {
    struct iva_space space;
    struct mix mix;
    unsigned threads, calls, rounds; /* calls: of a thread in a round */
    atomic_ullong clock;
    pthread_barrier_t begin, end;
    atomic_uint ready; /* callers of all rounds so far: they begin at one moment */
    struct addr_call call[ADDR_CALLS_MOST];
    struct addr_state first, last;
    atomic_bool over;
    uint64_t looked, errors, overlaps;
};

struct caller {
    struct round *round;
    struct rng rng;
    unsigned number;
};

static void *record_calls(void *arg) {
    struct caller *me = arg;
    struct round *r = me->round;
    for (;;) {
        pthread_barrier_wait(&r->begin);
        if (atomic_load(&r->over)) return NULL;
        const unsigned all = (atomic_fetch_add(&r->ready, 1) / r->threads + 1) * r->threads;
        while (atomic_load(&r->ready) < all) sched_yield();
        for (unsigned i = 0; i < r->calls; i++) {
            const unsigned k = me->number * r->calls + i;
            struct addr_call call = random_call(&me->rng, &r->mix, (uint16_t)(k + 1));
            call.before = atomic_fetch_add(&r->clock, 1);
            if (rng_below(&me->rng, 4) == 0) let_others_in();
            make_call(&r->space, &call);
            call.after = atomic_fetch_add(&r->clock, 1);
            r->call[k] = call;
        }
        pthread_barrier_wait(&r->end);
    }
}

static void read_state(struct round *r, struct addr_state *state) {
    struct iva_space_stats stats;
    CHECK(!iva_space_get_stats(&r->space, &stats), "stats");
    state->brk = (uint32_t)((stats.brk - BASE) / PAGE);
    for (uint32_t i = 0; i < ADDR_PAGES; i++) state->page[i] = page_of(&r->space, i);
}

static void say_history(const struct round *r, unsigned round) {
    char text[160];
    CHECK(false, "round %u is not linearizable", round);
    for (unsigned i = 0; i < r->threads * r->calls; i++) {
        addr_call_text(&r->call[i], text, sizeof text);
        CHECK(false, "thread %u: %s", i / r->calls, text);
    }
    for (uint32_t i = 0; i < ADDR_PAGES; i++) {
        const struct addr_page *a = &r->first.page[i], *b = &r->last.page[i];
        if (a->mapped || b->mapped)
            CHECK(false, "page %u: first %d rights %u object %u+%u, last %d rights %u object %u+%u", i, a->mapped,
                  a->rights, a->object, a->offset, b->mapped, b->rights, b->object, b->offset);
    }
}

static void check_round(struct round *r, unsigned round) {
    const unsigned n = r->threads * r->calls;
    read_state(r, &r->last);
    for (unsigned i = 0; i < n; i++) {
        r->errors += r->call[i].error != 0;
        r->overlaps += r->call[i].after > r->call[i].before + 1;
    }
    if (!addr_linearizable(r->call, n, &r->first, &r->last, &r->looked)) say_history(r, round);
    r->first = r->last;
}

/* Every tenth round begins with an empty window, lest everything be mapped for ever. */
static void run_histories(unsigned threads, unsigned calls, unsigned rounds, struct mix mix) {
    static struct round r;
    struct caller callers[THREADS_MOST];
    pthread_t thread[THREADS_MOST];
    memset(&r, 0, sizeof r);
    r.mix = mix;
    r.threads = threads;
    r.calls = calls;
    if (!make_space(&r.space, NULL)) return;
    pthread_barrier_init(&r.begin, NULL, threads + 1);
    pthread_barrier_init(&r.end, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        callers[i] = (struct caller){&r, rng_make(test_seed(), i + threads * 100), i};
        if (!CHECK(!pthread_create(&thread[i], NULL, record_calls, &callers[i]), "thread")) abort();
    }
    for (unsigned round = 0; round < rounds && !test_failed(); round++) {
        if (round % 10 == 0) CHECK(!iva_space_unmap(&r.space, PLACE(0), ADDR_HEAP * PAGE), "unmap");
        read_state(&r, &r.first);
        pthread_barrier_wait(&r.begin);
        pthread_barrier_wait(&r.end);
        check_round(&r, round);
    }
    atomic_store(&r.over, true);
    pthread_barrier_wait(&r.begin);
    for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&r.begin);
    pthread_barrier_destroy(&r.end);
    const uint64_t all = (uint64_t)rounds * threads * calls;
    CHECK(test_failed() || (r.errors > 0 && r.overlaps > all / 20),
          "%llu errors, %llu of %llu calls overlapped: the test tests little", (unsigned long long)r.errors,
          (unsigned long long)r.overlaps, (unsigned long long)all);
    end_space(&r.space);
}

TEST(addr_history, overlapping_calls_of_four_threads_are_linearizable) {
    run_histories(4, 5, test_scale(4000), (struct mix){0, ADDR_HEAP, true, 5});
}

TEST(addr_history, calls_that_all_meet_are_linearizable) {
    run_histories(4, 4, test_scale(4000), (struct mix){0, 4, false, 6});
}

TEST(addr_history, longer_histories_of_two_threads_are_linearizable) {
    run_histories(2, 14, test_scale(4000), (struct mix){0, ADDR_HEAP, true, 6});
}

TEST(addr_history, queries_amid_moves_see_the_target_come_before_the_source_goes) {
    run_histories(3, 6, test_scale(4000), (struct mix){0, 6, false, 2});
}

/* ---- disjoint ranges: each thread's answers are those that it would get alone */

struct owner {
    struct iva_space *space;
    struct rng rng;
    struct mix mix;
    unsigned steps, number;
    struct addr_state state;
};

static void *call_in_own_part(void *arg) {
    struct owner *me = arg;
    char text[160];
    for (unsigned i = 0; i < me->steps && !test_failed(); i++) {
        struct addr_call call = random_call(&me->rng, &me->mix, (uint16_t)(1 + rng_below(&me->rng, 60000)));
        make_call(me->space, &call);
        addr_call_text(&call, text, sizeof text);
        bool good = addr_apply(&me->state, &call, 0) && (addr_parts(&call) == 1 || addr_apply(&me->state, &call, 1));
        CHECK(good, "thread %u, step %u: %s", me->number, i, text);
    }
    for (uint32_t i = me->mix.lo; i < me->mix.hi; i++) {
        const struct addr_page page = page_of(me->space, i);
        CHECK(addr_same_page(&page, &me->state.page[i]), "page %u is not what its only owner made it", i);
    }
    return NULL;
}

TEST(addr_history, calls_on_disjoint_parts_give_each_thread_the_answers_that_it_would_get_alone) {
    struct iva_space space;
    struct owner owners[4];
    if (!make_space(&space, NULL)) return;
    memset(owners, 0, sizeof owners);
    for (unsigned i = 0; i < 4; i++) {
        owners[i].space = &space;
        owners[i].rng = rng_make(test_seed(), 700 + i);
        owners[i].mix = (struct mix){i * 4, i * 4 + 4, false, 4}; /* neighbours touch, and anonymous areas join */
        owners[i].steps = test_scale(20000);
        owners[i].number = i;
    }
    run_threads(4, call_in_own_part, owners, sizeof *owners);
    end_space(&space);
}

/* ---- limits */

#define TOTAL_MOST  (10 * PAGE)
#define LOCKED_MOST (4 * PAGE)
#define AREAS_MOST  6

static void set_small_limits(struct iva_space_config *config) {
    config->limit[IVA_LIMIT_TOTAL] = TOTAL_MOST;
    config->limit[IVA_LIMIT_LOCKED] = LOCKED_MOST;
    config->limit[IVA_LIMIT_AREAS] = AREAS_MOST;
}

struct spender {
    struct iva_space *space;
    struct rng rng;
    unsigned steps, refused;
    bool watches;
    atomic_bool *over;
};

static void watch_limits(struct spender *me) {
    while (!atomic_load(me->over) && !test_failed()) {
        struct iva_space_stats stats;
        struct iva_measure sum;
        CHECK(!iva_space_get_stats(me->space, &stats), "stats");
        CHECK(stats.total <= TOTAL_MOST, "%llu bytes", (unsigned long long)stats.total);
        CHECK(stats.locked <= LOCKED_MOST, "%llu bytes locked", (unsigned long long)stats.locked);
        CHECK(stats.areas <= AREAS_MOST, "%llu areas", (unsigned long long)stats.areas);
        /* What is there at one instant: nobody changes the space meanwhile. */
        struct iva_hold hold = {0};
        if (!CHECK(!iva_gate_lock(iva_space_gate(me->space), IVA_GR, &hold), "gate")) return;
        CHECK(!iva_space_measure(me->space, 0, PLACE(1024), &sum), "measure");
        CHECK(!iva_gate_unlock(&hold), "gate");
        sleep_ns(20000); /* whoever reads the whole goes before those who change parts */
        CHECK(sum.bytes <= TOTAL_MOST && sum.locked <= LOCKED_MOST && sum.areas <= AREAS_MOST,
              "there are %llu bytes, %llu locked, %llu areas", (unsigned long long)sum.bytes,
              (unsigned long long)sum.locked, (unsigned long long)sum.areas);
    }
}

static void *spend(void *arg) {
    struct spender *me = arg;
    const struct mix mix = {0, ADDR_HEAP, true, 100};
    if (me->watches) {
        watch_limits(me);
        return NULL;
    }
    for (unsigned i = 0; i < me->steps && !test_failed(); i++) {
        struct addr_call call = random_call(&me->rng, &mix, (uint16_t)(i % 60000 + 1));
        int rc;
        if (rng_below(&me->rng, 5) == 0) {
            rc = rng_below(&me->rng, 2) ? iva_space_lock(me->space, PLACE(call.at), call.count * PAGE, 0)
                                        : iva_space_unlock(me->space, PLACE(call.at), call.count * PAGE);
            CHECK(rc == 0 || rc == IVA_ENOMEM, "lock: %d", rc);
            continue;
        }
        make_call(me->space, &call);
        rc = call.error;
        CHECK(rc == 0 || rc == IVA_ENOMEM || rc == IVA_EEXIST || rc == IVA_EFAULT || rc == IVA_EAGAIN, "call %d: %d",
              (int)call.kind, rc);
        me->refused += rc == IVA_ENOMEM && call.kind == ADDR_MAP;
    }
    atomic_store(me->over, true);
    return NULL;
}

TEST(addr_history, limits_hold_at_every_instant_and_the_accounts_are_exact_in_the_end) {
    struct iva_space space;
    struct spender spenders[4];
    atomic_bool over = false;
    if (!make_space(&space, set_small_limits)) return;
    for (unsigned i = 0; i < 4; i++)
        spenders[i] = (struct spender){&space, rng_make(test_seed(), 800 + i), test_scale(30000), 0, i == 3, &over};
    run_threads(4, spend, spenders, sizeof *spenders);
    CHECK(spenders[0].refused > 0, "the limit refused nothing: the test tests nothing");
    end_space(&space);
}

/* ---- fork copies one instant */

struct family {
    struct iva_space space;
    unsigned steps;
    atomic_uint changes;
    atomic_bool over;
};

#define WHOLE 8 /* pages that always change together */

static void *change_the_whole(void *arg) {
    struct family *f = arg;
    struct addr_call call = {.kind = ADDR_MAP, .count = WHOLE};
    for (unsigned i = 0; !atomic_load(&f->over) && !test_failed(); i++) {
        call.kind = i % 3 ? ADDR_PROTECT : ADDR_MAP;
        call.rights = (uint8_t)(i % 2 ? IVA_READ : IVA_READ | IVA_WRITE);
        call.object = (uint16_t)(1 + i % 60000);
        call.offset = i % 1000;
        make_call(&f->space, &call);
        CHECK(!call.error, "change: %d", call.error);
        atomic_fetch_add(&f->changes, 1);
    }
    return NULL;
}

static void *fork_again_and_again(void *arg) {
    struct family *f = arg;
    for (unsigned i = 0; i < f->steps && !test_failed(); i++) {
        struct iva_space child;
        while (atomic_load(&f->changes) < i && !test_failed()) sched_yield();
        if (!CHECK(!iva_space_fork(&f->space, &child, NULL), "fork")) break;
        const struct addr_page first = page_of(&child, 0);
        for (uint32_t k = 1; k < WHOLE; k++) {
            struct addr_page page = page_of(&child, k);
            page.offset -= k;
            CHECK(addr_same_page(&first, &page), "the child's page %u is of another instant than page 0", k);
        }
        CHECK(!iva_space_validate(&child, NULL), "child");
        CHECK(!iva_space_destroy(&child), "destroy");
    }
    atomic_store(&f->over, true);
    return NULL;
}

struct role {
    void *(*body)(void *arg);
    void *arg;
};

static void *play(void *arg) {
    struct role *role = arg;
    return role->body(role->arg);
}

TEST(addr_history, fork_copies_one_instant_of_the_parent) {
    static struct family family;
    struct role roles[2] = {{change_the_whole, &family}, {fork_again_and_again, &family}};
    struct addr_call first = {.kind = ADDR_MAP, .count = WHOLE, .rights = IVA_READ, .object = 1};
    memset(&family, 0, sizeof family);
    family.steps = test_scale(3000);
    if (!make_space(&family.space, NULL)) return;
    make_call(&family.space, &first);
    run_threads(2, play, roles, sizeof *roles);
    end_space(&family.space);
}
