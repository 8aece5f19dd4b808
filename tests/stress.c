/* SPDX-License-Identifier: MIT */
/* Many threads on one map: no update is lost, no reader is misled, no waiter is forgotten, no memory stays. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

/* ---- disjoint regions: each thread has its own model, all in one map whose regions touch */

#define REGION 400

struct owner {
    struct ivs_map *map;
    struct model model;
    struct rng rng;
    uint64_t base;
    unsigned steps;
    atomic_uint *done;
};

static void owner_swaps(struct owner *owner, uint64_t start, uint64_t last, uint64_t tag) {
    struct ivs_lock lock;
    struct ivs_node *node = ivs_node_new(ivs_map_domain(owner->map), start, start + 1, as_value(tag), IVS_SLEEP);
    if (!CHECK(node && !ivs_map_lock(owner->map, start, last + 1, &lock), "lock")) return;
    uint64_t end = lock.first_ ? lock.first_->start : start;
    if (lock.count) { /* all that meets the range becomes one node from the first start to the last end */
        uint64_t final = last;
        for (struct ivs_node *old = ivs_lock_first(&lock); old; old = ivs_lock_next(&lock, old)) final = old->last;
        if (end > start) end = start;
        if (final < last) final = last;
        CHECK(!ivs_node_set_bounds(node, end, final + 1), "bounds");
        model_map(&owner->model, end, final, as_value(tag));
    } else {
        model_map(&owner->model, start, start, as_value(tag));
    }
    CHECK(!ivs_map_swap(&lock, &node, 1), "swap");
    CHECK(!ivs_map_unlock(&lock), "unlock");
}

static void owner_allocates(struct owner *owner, uint64_t start, uint64_t last, uint64_t tag) {
    struct ivs_alloc request = {.lo = start, .hi = last + 1, .size = 1 + (last - start) / 4, .hint = start + 3};
    uint64_t want = 0, got = 0;
    bool fits = model_alloc(&owner->model, &request, &want);
    int result = ivs_map_alloc(owner->map, &request, as_value(tag), &got);
    CHECK(result == (fits ? 0 : IVS_ENOMEM), "alloc: %d, fits: %d", result, fits);
    if (fits) model_map(&owner->model, got, got + (request.size - 1), as_value(tag));
}

static void *own_a_region(void *arg) {
    struct owner *owner = arg;
    for (unsigned i = 0; i < owner->steps && !test_failed(); i++) {
        uint64_t start = owner->base + rng_below(&owner->rng, REGION), tag = i + 1;
        uint64_t room = owner->base + REGION - start;
        uint64_t last = start + rng_below(&owner->rng, room < 40 ? room : 40);
        struct ivs_entry entry;
        switch (rng_below(&owner->rng, 6)) {
        case 0:
        case 1:
            CHECK(!ivs_map_map(owner->map, start, last + 1, as_value(tag)), "map");
            model_map(&owner->model, start, last, as_value(tag));
            break;
        case 2:
            CHECK(!ivs_map_unmap(owner->map, start, last + 1), "unmap");
            model_unmap(&owner->model, start, last);
            break;
        case 3: {
            bool fits = model_is_free(&owner->model, start, last);
            int result = ivs_map_insert(owner->map, start, last + 1, as_value(tag));
            CHECK(result == (fits ? 0 : IVS_EEXIST), "insert: %d, free: %d", result, fits);
            if (fits) model_map(&owner->model, start, last, as_value(tag));
            break;
        }
        case 4: owner_allocates(owner, start, last, tag); break;
        default: owner_swaps(owner, start, last, tag); break;
        }
        const struct piece *piece = model_query(&owner->model, start);
        int result = ivs_map_lookup(owner->map, start, &entry);
        CHECK(result == (piece ? 0 : IVS_ENOENT), "lookup of one's own key: %d", result);
        if (piece && !result) CHECK(entry.value == piece->value, "value of one's own key");
    }
    atomic_fetch_sub(owner->done, 1);
    return NULL;
}

/* New entry tables until the owners are done; two at once: one of them is refused. */
static void *tune_until_done(void *arg) {
    struct owner *owner = arg;
    while (atomic_load(owner->done) && !test_failed()) {
        int result = ivs_map_tune(owner->map);
        CHECK(result == 0 || result == IVS_EBUSY, "tune: %d", result);
        sleep_ns(200000);
    }
    return NULL;
}

static void *own_or_tune(void *arg) {
    struct owner *owner = arg;
    return owner->steps ? own_a_region(owner) : tune_until_done(owner);
}

static void compare_with_all_owners(struct ivs_map *map, struct owner *owners) {
    struct model all = {0};
    for (unsigned i = 0; i < THREADS; i++) {
        for (size_t k = 0; k < owners[i].model.count; k++) {
            const struct piece *piece = &owners[i].model.pieces[k];
            model_map(&all, piece->start, piece->last, piece->value);
        }
        model_free(&owners[i].model);
    }
    model_equals_map(&all, map, "all threads together");
    model_free(&all);
}

static void own_regions(unsigned tuners) {
    struct owner owners[THREADS + 2];
    struct ledger ledger;
    struct ivs_map map;
    atomic_uint done = THREADS;
    if (!start_map(&map, &ledger)) return;
    memset(owners, 0, sizeof owners);
    for (unsigned i = 0; i < THREADS + tuners; i++) {
        owners[i].map = &map;
        owners[i].base = (uint64_t)i * REGION;
        owners[i].rng = rng_make(test_seed(), i);
        owners[i].steps = i < THREADS ? test_scale(200000) : 0;
        owners[i].done = &done;
    }
    run_threads(THREADS + tuners, own_or_tune, owners, sizeof *owners);
    compare_with_all_owners(&map, owners);
    map_is_valid(&map, "all threads together");
    end_map(&map, &ledger);
}

TEST(stress, updates_of_disjoint_regions_are_all_there_at_the_end) { own_regions(0); }
TEST(stress, updates_are_all_there_though_entry_tables_come_and_go) { own_regions(2); }

/* ---- counters: lock, read, add one, swap or set; the total must match */

#define SLOTS 24

struct counter_job {
    struct ivs_map *map;
    struct rng rng;
    unsigned steps;
    uint64_t added[SLOTS];
    unsigned kind;
};

static void add_by_swap(struct counter_job *job, struct ivs_lock *lock) {
    struct ivs_node *run[SLOTS];
    size_t count = 0;
    for (struct ivs_node *old = ivs_lock_first(lock); old; old = ivs_lock_next(lock, old)) {
        void *value = as_value(as_number(ivs_node_value(old)) + 1);
        run[count] = ivs_node_new(ivs_map_domain(job->map), old->start, old->last + 1, value, IVS_NOSLEEP);
        if (!CHECK(run[count], "node")) abort();
        count++;
    }
    CHECK(!ivs_map_swap(lock, run, count), "swap");
}

static void add_in_place(struct ivs_lock *lock) {
    for (struct ivs_node *node = ivs_lock_first(lock); node; node = ivs_lock_next(lock, node)) {
        void *value = as_value(as_number(ivs_node_value(node)) + 1);
        CHECK(!ivs_node_set_value(lock, node, value), "set_value");
    }
}

static int lock_somehow(struct counter_job *job, uint64_t start, uint64_t end, struct ivs_lock *lock) {
    int result;
    switch (rng_below(&job->rng, 3)) {
    case 0: return ivs_map_lock(job->map, start, end, lock);
    case 1:
        while ((result = ivs_map_trylock(job->map, start, end, lock)) == IVS_EBUSY) sleep_ns(1000);
        return result;
    default:
        while ((result = ivs_map_timedlock(job->map, start, end, 20000, lock)) == IVS_ETIMEDOUT) {
        }
        return result;
    }
}

static void *count_up(void *arg) {
    struct counter_job *job = arg;
    for (unsigned i = 0; i < job->steps && !test_failed(); i++) {
        uint64_t start = rng_below(&job->rng, SLOTS), room = SLOTS - start;
        uint64_t end = start + 1 + rng_below(&job->rng, room < 5 ? room : 5);
        struct ivs_lock lock;
        if (!CHECK(!lock_somehow(job, start * 10, end * 10, &lock), "lock")) return NULL;
        CHECK(lock.count == end - start, "%zu slots are locked", lock.count);
        if (rng_below(&job->rng, 2)) add_by_swap(job, &lock);
        else add_in_place(&lock);
        if (rng_below(&job->rng, 64) == 0) sleep_ns(50000); /* so that others go to sleep */
        CHECK(!ivs_map_unlock(&lock), "unlock");
        for (uint64_t slot = start; slot < end; slot++) job->added[slot]++;
    }
    return NULL;
}

TEST(stress, no_increment_under_overlapping_locks_is_lost) {
    struct counter_job jobs[THREADS];
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    for (uint64_t slot = 0; slot < SLOTS; slot++) CHECK(!ivs_map_map(&map, slot * 10, slot * 10 + 10, NULL), "map");
    memset(jobs, 0, sizeof jobs);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i].map = &map;
        jobs[i].rng = rng_make(test_seed(), i);
        jobs[i].steps = test_scale(100000);
    }
    run_threads(THREADS, count_up, jobs, sizeof *jobs);
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        struct ivs_entry entry = {0, 0, NULL};
        uint64_t sum = 0;
        for (unsigned i = 0; i < THREADS; i++) sum += jobs[i].added[slot];
        CHECK(!ivs_map_lookup(&map, slot * 10 + 5, &entry), "lookup");
        CHECK(as_number(entry.value) == sum, "slot %llu counts %llu, added %llu", (unsigned long long)slot,
              (unsigned long long)as_number(entry.value), (unsigned long long)sum);
    }
    end_map(&map, &ledger);
}

/* ---- overlapping overwrites: the content is one that some order of the last writes can leave */

#define ROUNDS_KEYS  64
#define ROUND_WRITES 16

struct writer_job {
    struct ivs_map *map;
    struct rng rng;
    unsigned id;
    uint64_t last_tag[ROUNDS_KEYS]; /* this thread's last write of each key in the round; 0: none */
    bool last_is_unmap[ROUNDS_KEYS];
};

static void *write_a_round(void *arg) {
    struct writer_job *job = arg;
    memset(job->last_tag, 0, sizeof job->last_tag);
    for (unsigned i = 0; i < ROUND_WRITES; i++) {
        uint64_t a = rng_below(&job->rng, ROUNDS_KEYS), b = rng_below(&job->rng, ROUNDS_KEYS);
        uint64_t start = a < b ? a : b, last = a < b ? b : a, tag = ((uint64_t)job->id << 32) + i + 1;
        bool unmap = rng_below(&job->rng, 4) == 0;
        int result =
            unmap ? ivs_map_unmap(job->map, start, last + 1) : ivs_map_map(job->map, start, last + 1, as_value(tag));
        CHECK(result == 0, "write: %d", result);
        for (uint64_t key = start; key <= last; key++) {
            job->last_tag[key] = tag;
            job->last_is_unmap[key] = unmap;
        }
    }
    return NULL;
}

/* A key shows the last write of one of the threads that wrote it in this round, or, if none did, what it was before. */
static void check_round(struct ivs_map *map, const struct writer_job *jobs, uint64_t *before) {
    for (uint64_t key = 0; key < ROUNDS_KEYS; key++) {
        struct ivs_entry entry;
        uint64_t is = ivs_map_lookup(map, key, &entry) == 0 ? as_number(entry.value) : 0;
        bool written = false, explained = false;
        for (unsigned i = 0; i < THREADS; i++) {
            if (!jobs[i].last_tag[key]) continue;
            written = true;
            explained |= is == (jobs[i].last_is_unmap[key] ? 0 : jobs[i].last_tag[key]);
        }
        if (!written) explained = is == before[key];
        CHECK(explained, "key %llu has %#llx: no last write", (unsigned long long)key, (unsigned long long)is);
        before[key] = is;
    }
}

TEST(stress, overlapping_writes_leave_the_last_write_of_some_thread) {
    static struct writer_job jobs[THREADS];
    struct ledger ledger;
    struct ivs_map map;
    uint64_t before[ROUNDS_KEYS] = {0};
    if (!start_map(&map, &ledger)) return;
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i].map = &map;
        jobs[i].rng = rng_make(test_seed(), i);
        jobs[i].id = i + 1;
    }
    for (unsigned round = 0; round < test_scale(4000) && !test_failed(); round++) {
        run_threads(THREADS, write_a_round, jobs, sizeof *jobs);
        check_round(&map, jobs, before);
        map_is_valid(&map, "after a round");
    }
    end_map(&map, &ledger);
}

/* ---- waiters */

struct queue_job {
    struct ivs_map *map;
    uint64_t *counter; /* plain: guarded by the range lock alone */
    unsigned turns;
    uint64_t start, end;
    bool replace;
};

static void *take_turns(void *arg) {
    struct queue_job *job = arg;
    for (unsigned i = 0; i < job->turns && !test_failed(); i++) {
        struct ivs_lock lock;
        struct ivs_node *node = NULL;
        if (job->replace) node = ivs_node_new(ivs_map_domain(job->map), job->start, job->end, as_value(i), IVS_SLEEP);
        if (!CHECK(!ivs_map_lock(job->map, job->start, job->end, &lock), "lock")) return NULL;
        ++*job->counter;
        if (i % 8 == 0) sleep_ns(100000);
        if (node) CHECK(!ivs_map_swap(&lock, &node, 1), "swap");
        CHECK(!ivs_map_unlock(&lock), "unlock");
    }
    return NULL;
}

static void queue_for_one_range(bool replace) {
    enum { WAITERS = 8 };
    struct queue_job jobs[WAITERS];
    struct ledger ledger;
    struct ivs_map map;
    struct ivs_map_stats stats;
    uint64_t counter = 0;
    unsigned turns = test_scale(400);
    if (!start_map(&map, &ledger)) return;
    CHECK(!ivs_map_map(&map, 100, 200, NULL), "map");
    CHECK(!ivs_map_map(&map, 300, 400, NULL), "map");
    for (unsigned i = 0; i < WAITERS; i++) {
        struct queue_job job = {&map, &counter, turns, 300, 400, replace};
        jobs[i] = job;
    }
    uint64_t begin = now_ns();
    run_threads(WAITERS, take_turns, jobs, sizeof *jobs);
    uint64_t milliseconds = (now_ns() - begin) / 1000000;
    CHECK(counter == (uint64_t)WAITERS * turns, "%llu turns of %u", (unsigned long long)counter, WAITERS * turns);
    CHECK(milliseconds < 60000, "took %llu ms", (unsigned long long)milliseconds);
    CHECK(!ivs_map_get_stats(&map, &stats), "stats");
    CHECK(stats.waits > 0, "nobody ever slept: the test tests nothing");
    end_map(&map, &ledger);
}

TEST(stress, every_waiter_for_one_range_gets_its_turn) { queue_for_one_range(false); }
TEST(stress, waiters_on_a_node_that_is_replaced_are_woken) { queue_for_one_range(true); }

struct sleeper {
    struct ivs_map *map;
    atomic_bool got;
};

static void *wait_for_the_range(void *arg) {
    struct sleeper *sleeper = arg;
    struct ivs_lock lock;
    CHECK(!ivs_map_lock(sleeper->map, 100, 200, &lock), "lock");
    atomic_store(&sleeper->got, true);
    CHECK(!ivs_map_unlock(&lock), "unlock");
    return NULL;
}

static void *hold_then_let_go(void *arg) {
    struct sleeper *sleepers = arg;
    struct ivs_lock lock;
    pthread_t threads[4];
    CHECK(!ivs_map_lock(sleepers->map, 100, 200, &lock), "lock");
    for (unsigned i = 0; i < 4; i++) pthread_create(&threads[i], NULL, wait_for_the_range, &sleepers[i]);
    sleep_ns(30000000);
    for (unsigned i = 0; i < 4; i++) CHECK(!atomic_load(&sleepers[i].got), "sleeper %u did not wait", i);
    CHECK(!ivs_map_unlock(&lock), "unlock");
    for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return NULL;
}

TEST(stress, sleepers_wake_when_the_range_is_let_go) {
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    CHECK(!ivs_map_map(&map, 150, 160, NULL), "map");
    for (unsigned round = 0; round < test_scale(10) && !test_failed(); round++) {
        struct sleeper sleepers[4];
        memset(sleepers, 0, sizeof sleepers);
        for (unsigned i = 0; i < 4; i++) sleepers[i].map = &map;
        run_threads(1, hold_then_let_go, sleepers, sizeof sleepers);
        for (unsigned i = 0; i < 4; i++) CHECK(atomic_load(&sleepers[i].got), "sleeper %u", i);
    }
    end_map(&map, &ledger);
}

/* ---- alloc and unmap: one owner at a time */

#define ARENA 256

struct tenant {
    struct ivs_map *map;
    struct rng rng;
    atomic_uint *owner; /* of each key: 0 or thread + 1 */
    unsigned id, steps;
    uint64_t held[16][2];
    unsigned holds;
};

static void move_in(struct tenant *tenant) {
    struct ivs_alloc request = {.lo = 0, .hi = ARENA, .size = 1 + rng_below(&tenant->rng, 12)};
    request.align = (uint64_t)1 << rng_below(&tenant->rng, 4);
    request.hint = rng_below(&tenant->rng, ARENA);
    uint64_t start = 0;
    int result = ivs_map_alloc(tenant->map, &request, as_value(tenant->id), &start);
    if (result == IVS_ENOMEM) return;
    if (!CHECK(result == 0, "alloc: %d", result)) return;
    CHECK(start % request.align == 0 && start + request.size <= ARENA, "at %llu", (unsigned long long)start);
    for (uint64_t key = start; key < start + request.size; key++) {
        unsigned nobody = 0;
        CHECK(atomic_compare_exchange_strong(&tenant->owner[key], &nobody, tenant->id), "key %llu belongs to %u and %u",
              (unsigned long long)key, nobody, tenant->id);
    }
    tenant->held[tenant->holds][0] = start;
    tenant->held[tenant->holds++][1] = start + request.size;
}

static void move_out(struct tenant *tenant) {
    unsigned which = (unsigned)rng_below(&tenant->rng, tenant->holds);
    uint64_t start = tenant->held[which][0], end = tenant->held[which][1];
    memcpy(tenant->held[which], tenant->held[--tenant->holds], sizeof tenant->held[which]);
    for (uint64_t key = start; key < end; key++)
        CHECK(atomic_exchange(&tenant->owner[key], 0) == tenant->id, "key %llu was taken", (unsigned long long)key);
    CHECK(!ivs_map_unmap(tenant->map, start, end), "unmap");
}

static void *live_in_the_arena(void *arg) {
    struct tenant *tenant = arg;
    for (unsigned i = 0; i < tenant->steps && !test_failed(); i++) {
        if (tenant->holds < 16 && rng_below(&tenant->rng, 2)) move_in(tenant);
        else if (tenant->holds) move_out(tenant);
    }
    while (tenant->holds) move_out(tenant);
    return NULL;
}

TEST(stress, no_key_has_two_owners_under_alloc_and_unmap) {
    static atomic_uint owner[ARENA];
    struct tenant tenants[THREADS];
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    memset(tenants, 0, sizeof tenants);
    for (unsigned i = 0; i < THREADS; i++) {
        tenants[i].map = &map;
        tenants[i].rng = rng_make(test_seed(), i);
        tenants[i].owner = owner;
        tenants[i].id = i + 1;
        tenants[i].steps = test_scale(200000);
    }
    run_threads(THREADS, live_in_the_arena, tenants, sizeof *tenants);
    struct model nothing = {0};
    model_equals_map(&nothing, &map, "all have moved out");
    end_map(&map, &ledger);
}

/* ---- inserts into one gap */

struct neighbour {
    struct ivs_map *map;
    struct rng rng;
    unsigned id, steps;
};

/* Keys k with k % THREADS == id are this thread's alone, so whether an insert fits is known. */
static void *insert_between_the_others(void *arg) {
    struct neighbour *neighbour = arg;
    bool there[16] = {false};
    for (unsigned i = 0; i < neighbour->steps && !test_failed(); i++) {
        unsigned which = (unsigned)rng_below(&neighbour->rng, 16);
        uint64_t key = which * THREADS + neighbour->id;
        struct ivs_alloc request = {.lo = key, .hi = key + 1, .size = 1};
        uint64_t start = 0;
        bool alloc = !there[which] && rng_below(&neighbour->rng, 2);
        int result = alloc ? ivs_map_alloc(neighbour->map, &request, NULL, &start)
                           : ivs_map_insert(neighbour->map, key, key + 1, NULL);
        CHECK(result == (there[which] ? IVS_EEXIST : 0), "key %llu: %d, there: %d", (unsigned long long)key, result,
              there[which]);
        there[which] = true;
        if (rng_below(&neighbour->rng, 3) == 0) continue;
        CHECK(!ivs_map_unmap(neighbour->map, key, key + 1), "unmap");
        there[which] = false;
    }
    return NULL;
}

TEST(stress, inserts_side_by_side_into_one_gap_all_fit) {
    struct neighbour neighbours[THREADS];
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    for (unsigned i = 0; i < THREADS; i++) {
        struct neighbour neighbour = {&map, rng_make(test_seed(), i), i, test_scale(200000)};
        neighbours[i] = neighbour;
    }
    run_threads(THREADS, insert_between_the_others, neighbours, sizeof *neighbours);
    end_map(&map, &ledger);
}
