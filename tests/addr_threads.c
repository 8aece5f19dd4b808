/* SPDX-License-Identifier: MIT */
/* Many threads in one space: in parts of their own, and all over each other; limits hold at every instant. */
#include "addr.h"

#include <pthread.h>

enum { THREADS = 4, PAGES = 64 };
#define BASE UINT64_C(0x100000000)

static struct iva_space space;
static struct host host;
static atomic_bool stop;

struct worker {
    struct rng rng;
    uint64_t base; /* of its pages */
    unsigned steps;
    bool global; /* now and then an operation on the whole */
};

static void one(struct worker *w) {
    uint64_t at = w->base + rng_below(&w->rng, PAGES) * PAGE, to = w->base + rng_below(&w->rng, PAGES) * PAGE, got;
    uint64_t bytes = (1 + rng_below(&w->rng, 8)) * PAGE, rights = rng_below(&w->rng, 8);
    struct iva_map_request request = anonymous(0, bytes, rights, 0);
    struct iva_view view;
    int r = 0;
    if (at + bytes > w->base + PAGES * PAGE || to + bytes > w->base + PAGES * PAGE) return;
    switch (rng_below(&w->rng, w->global ? 13 : 12)) {
    case 0:
    case 1:
    case 2: r = map_at(&space, &host, at, bytes, rights, rng_below(&w->rng, 4) ? 0 : IVA_MAP_LOCKED); break;
    case 3: r = map_at(&space, &host, at, bytes, rights, IVA_MAP_FIXED_NOREPLACE); break;
    case 4:
        r = host_map(&space, &host, &request, &got);
        if (r == 0) r = iva_space_unmap(&space, got, bytes);
        break;
    case 5: r = iva_space_unmap(&space, at, bytes); break;
    case 6: r = iva_space_protect(&space, at, bytes, rights); break;
    case 7: r = iva_space_advise(&space, at, bytes, rights & 1 ? IVA_ADVISE_DONTFORK : IVA_ADVISE_DOFORK); break;
    case 8: r = iva_space_lock(&space, at, bytes, 0); break;
    case 9: r = iva_space_unlock(&space, at, bytes); break;
    case 10: r = iva_space_remap(&space, at, bytes, bytes, IVA_REMAP_MAYMOVE | IVA_REMAP_FIXED, to, &got); break;
    case 11: r = iva_space_touch(&space, at, IVA_READ, &view); break;
    default: r = rights & 1 ? iva_space_unlock_all(&space) : iva_space_lock_all(&space, IVA_LOCK_CURRENT); break;
    }
    CHECK(r == 0 || r == IVA_ENOMEM || r == IVA_EEXIST || r == IVA_EAGAIN || r == IVA_EFAULT || r == IVA_EINVAL ||
              r == IVA_EACCES,
          "%d", r);
}

static void *work(void *arg) {
    struct worker *w = arg;
    for (unsigned i = 0; i < w->steps && !test_failed(); i++) {
        one(w);
        if (i % 64 == 0) rcu_quiescent();
    }
    return NULL;
}

struct watch {
    uint64_t total, locked, areas; /* limits, in the counters' units */
    unsigned long looks;
};

static void *watcher(void *arg) {
    struct watch *watch = arg;
    while (!atomic_load(&stop)) {
        uint64_t total = iva_counter_read(&space.total_), locked = iva_counter_read(&space.locked_);
        uint64_t areas = iva_counter_read(&space.areas_);
        CHECK(total <= watch->total && locked <= watch->locked && areas <= watch->areas,
              "%d pages, %d locked, %d areas", (int)total, (int)locked, (int)areas);
        watch->looks++;
        rcu_quiescent();
    }
    return NULL;
}

static void run(bool apart, bool global, const struct watch *limits) {
    struct iva_space_config config = host_config(&host);
    struct worker workers[THREADS];
    struct watch watch = *limits;
    pthread_t thread;
    config.guard = 0;
    config.base = BASE - 1024 * PAGE;
    config.limit[IVA_LIMIT_TOTAL] = watch.total * PAGE;
    config.limit[IVA_LIMIT_LOCKED] = watch.locked * PAGE;
    config.limit[IVA_LIMIT_AREAS] = watch.areas;
    SAYS(iva_space_init(&space, &config), 0);
    atomic_store(&host.clears, -(1L << 40));
    atomic_store(&stop, false);
    for (unsigned i = 0; i < THREADS; i++) {
        struct worker w = {rng_make(test_seed(), i), BASE + (apart ? i * PAGES * PAGE * 2 : 0), test_scale(30000),
                           global};
        workers[i] = w;
    }
    pthread_create(&thread, NULL, watcher, &watch);
    run_threads(THREADS, work, workers, sizeof workers[0]);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    end_space(&space, &host);
}

TEST(addr_threads, threads_with_parts_of_their_own) {
    const struct watch limits = {IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT, 0};
    run(true, false, &limits);
}
TEST(addr_threads, threads_all_over_each_other) {
    const struct watch limits = {IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT, 0};
    run(false, false, &limits);
}
TEST(addr_threads, with_operations_on_the_whole_in_between) {
    const struct watch limits = {IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT / PAGE, IVA_NO_LIMIT, 0};
    run(false, true, &limits);
}
TEST(addr_threads, limits_hold_at_every_instant_apart) {
    const struct watch limits = {96, 20, 24, 0};
    run(true, true, &limits);
}
TEST(addr_threads, limits_hold_at_every_instant_together) {
    const struct watch limits = {40, 12, 14, 0};
    run(false, true, &limits);
}
