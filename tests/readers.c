/* SPDX-License-Identifier: MIT */
/* Readers under fire, and what they hold back. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- a stage [A, B) that is always covered and whose keys' versions only grow */

#define A 1000
#define B 1064

struct stage {
    struct ivs_map map;
    struct ledger ledger;
    atomic_bool over;
    atomic_ullong newest[B - A]; /* highest version of each key that any reader has seen */
    unsigned rounds;
    uint64_t version;
};

static void replace_by_map(struct stage *stage, struct rng *rng) {
    uint64_t a = A + rng_below(rng, B - A), b = A + rng_below(rng, B - A);
    uint64_t start = a < b ? a : b, last = a < b ? b : a;
    CHECK(!ivs_map_map(&stage->map, start, last + 1, as_value(++stage->version)), "map");
}

/*
 * The whole stage becomes one to many pieces of a new version in one step. High towers, so that taking the old ones
 * out of the index lasts: whoever commits first shows readers a node that is gone.
 */
static void replace_by_swap(struct stage *stage, struct rng *rng) {
    struct ivs_domain *domain = ivs_map_domain(&stage->map);
    struct ivs_node *run[B - A];
    struct ivs_lock lock;
    size_t count = 0;
    uint64_t longest = 1 + rng_below(rng, 64);
    stage->version++;
    for (uint64_t at = A, end; at < B; at = end) {
        unsigned height = (unsigned)rng_below(rng, 7); /* 0: random */
        end = at + 1 + rng_below(rng, longest);
        if (end > B) end = B;
        run[count] = ivs_node_new_height(domain, at, end, as_value(stage->version), IVS_SLEEP, height);
        if (!CHECK(run[count], "node")) abort();
        count++;
    }
    CHECK(!ivs_map_lock(&stage->map, A, B, &lock), "lock");
    CHECK(!ivs_map_swap(&lock, run, count), "swap");
    CHECK(!ivs_map_unlock(&lock), "unlock");
}

static void *replace_all_the_time(void *arg) {
    struct stage *stage = arg;
    struct rng rng = rng_make(test_seed(), 99);
    for (unsigned i = 0; i < stage->rounds && !test_failed(); i++) {
        if (rng_below(&rng, 2)) replace_by_map(stage, &rng);
        else replace_by_swap(stage, &rng);
    }
    atomic_store(&stage->over, true);
    return NULL;
}

static void saw(struct stage *stage, uint64_t key, uint64_t version, unsigned long long before) {
    CHECK(version >= before, "key %llu: version %llu after %llu was seen", (unsigned long long)key,
          (unsigned long long)version, before);
    unsigned long long newest = atomic_load(&stage->newest[key - A]);
    while (newest < version && !atomic_compare_exchange_weak(&stage->newest[key - A], &newest, version)) {
    }
}

static void look_at_one_key(struct stage *stage, struct rng *rng) {
    uint64_t key = A + rng_below(rng, B - A);
    unsigned long long before = atomic_load(&stage->newest[key - A]);
    ivs_map_read_enter(&stage->map);
    const struct ivs_node *node =
        rng_below(rng, 2) ? ivs_map_query_rcu(&stage->map, key) : ivs_map_query_next_rcu(&stage->map, key);
    if (CHECK(node, "key %llu is in a gap", (unsigned long long)key)) {
        CHECK(node->start <= key && key <= node->last, "[%llu, %llu] for key %llu", (unsigned long long)node->start,
              (unsigned long long)node->last, (unsigned long long)key);
        saw(stage, key, as_number(ivs_node_value(node)), before);
    }
    ivs_map_read_exit(&stage->map);
}

/* A walk goes along level 0, past the index: what it has seen, no later query over the index may miss (G2). */
static void walk_the_stage(struct stage *stage) {
    uint64_t at = A;
    struct ivs_node *node;
    ivs_map_read_enter(&stage->map);
    ivs_map_for_each_rcu (node, &stage->map, A, B) {
        CHECK(node->start <= at || at == A, "keys %llu .. %llu were skipped", (unsigned long long)at,
              (unsigned long long)node->start);
        CHECK(node->last >= at, "the walk went back from %llu to [%llu, %llu]", (unsigned long long)at,
              (unsigned long long)node->start, (unsigned long long)node->last);
        for (at = node->start; at <= node->last && at < B; at++) saw(stage, at, as_number(ivs_node_value(node)), 0);
    }
    ivs_map_read_exit(&stage->map);
    CHECK(at >= B, "the walk ended at %llu", (unsigned long long)at);
}

static void step_over_the_stage(struct stage *stage) {
    struct ivs_entry entry;
    uint64_t key = A;
    for (; key < B; key = entry.end) {
        if (!CHECK(!ivs_map_lookup_next(&stage->map, key, &entry), "nothing after %llu", (unsigned long long)key))
            return;
        CHECK(entry.start <= key && (entry.end > key || entry.end == 0), "lookup_next of %llu: [%llu, %llu)",
              (unsigned long long)key, (unsigned long long)entry.start, (unsigned long long)entry.end);
    }
}

struct reader {
    struct stage *stage;
    struct rng rng;
    bool tunes;
};

/* New entry tables all the while: readers are in the old one, the writer takes nodes out of both. */
static void *tune_all_the_time(struct reader *reader) {
    while (!atomic_load(&reader->stage->over) && !test_failed()) {
        CHECK(!ivs_map_tune(&reader->stage->map), "tune");
        look_at_one_key(reader->stage, &reader->rng);
    }
    return NULL;
}

static void *read_all_the_time(void *arg) {
    struct reader *reader = arg;
    struct stage *stage = reader->stage;
    while (!atomic_load(&stage->over) && !test_failed()) {
        for (int i = 0; i < 20; i++) look_at_one_key(stage, &reader->rng);
        walk_the_stage(stage);
        step_over_the_stage(stage);
    }
    return NULL;
}

static void *actor(void *arg) {
    struct reader *reader = arg;
    if (reader->tunes) return tune_all_the_time(reader);
    return reader->rng.state ? read_all_the_time(reader) : replace_all_the_time(reader->stage);
}

static void run_the_stage(uint64_t crowd, bool tune) {
    static struct stage stage;
    struct reader actors[4];
    memset(&stage, 0, sizeof stage);
    if (!start_map(&stage.map, &stage.ledger)) return;
    stage.rounds = test_scale(150000);
    stage.version = 1;
    CHECK(!ivs_map_map(&stage.map, A, B, as_value(1)), "map");
    for (uint64_t i = 0; i < crowd; i++) { /* neighbours: searches need the upper levels */
        CHECK(!ivs_map_map(&stage.map, i * 2, i * 2 + 1, as_value(1)), "map");
        CHECK(!ivs_map_map(&stage.map, 5000 + i * 2, 5000 + i * 2 + 1, as_value(1)), "map");
    }
    actors[0].stage = &stage;
    actors[0].rng.state = 0; /* the writer */
    actors[0].tunes = false;
    for (unsigned i = 1; i < 4; i++) {
        actors[i].stage = &stage;
        actors[i].rng = rng_make(test_seed(), i);
        actors[i].tunes = tune && i == 3;
    }
    run_threads(4, actor, actors, sizeof *actors);
    end_map(&stage.map, &stage.ledger);
}

TEST(readers, no_key_is_uncovered_or_goes_back_while_its_interval_is_replaced) { run_the_stage(0, false); }
TEST(readers, no_key_is_uncovered_among_many_neighbours) { run_the_stage(400, false); }
TEST(readers, no_key_is_uncovered_while_entry_tables_come_and_go) {
    run_the_stage(0, true);
    run_the_stage(100, true);
}

/* ---- order under arbitrary updates */

struct updater {
    struct ivs_map *map;
    struct rng rng;
    unsigned steps;
    atomic_uint *active;
    bool reads;
};

static void check_order(struct updater *updater) {
    const struct ivs_node *before = NULL;
    struct ivs_node *node;
    uint64_t key = rng_below(&updater->rng, 500);
    ivs_map_read_enter(updater->map);
    node = ivs_map_query_next_rcu(updater->map, key);
    CHECK(!node || node->last >= key, "query_next of %llu ends before", (unsigned long long)key);
    for (; node; node = ivs_map_next_rcu(updater->map, node)) {
        CHECK(node->start <= node->last, "bounds");
        CHECK(!before || before->last < node->start, "[.., %llu] then [%llu, ..]",
              (unsigned long long)(before ? before->last : 0), (unsigned long long)node->start);
        CHECK(ivs_node_value(node) == as_value(node->last ^ 0x5555), "a value that nobody gave");
        before = node;
    }
    ivs_map_read_exit(updater->map);
}

static void *update_or_check(void *arg) {
    struct updater *updater = arg;
    if (updater->reads) {
        while (atomic_load(updater->active) && !test_failed()) check_order(updater);
        return NULL;
    }
    for (unsigned i = 0; i < updater->steps && !test_failed(); i++) {
        /* whole pieces on a grid of ten, so that no fragment has another end than its value says */
        uint64_t start = rng_below(&updater->rng, 50) * 10, end = start + 10;
        void *value = as_value((end - 1) ^ 0x5555);
        int result = 0;
        switch (rng_below(&updater->rng, 3)) {
        case 0: result = ivs_map_map(updater->map, start, end, value); break;
        case 1: result = ivs_map_unmap(updater->map, start, end); break;
        default: result = ivs_map_insert(updater->map, start, end, value); break;
        }
        CHECK(result == 0 || result == IVS_EEXIST, "update: %d", result);
    }
    atomic_fetch_sub(updater->active, 1);
    return NULL;
}

TEST(readers, iteration_is_ascending_and_each_node_whole_under_updates) {
    struct updater updaters[4];
    struct ledger ledger;
    struct ivs_map map;
    atomic_uint active = 2;
    if (!start_map(&map, &ledger)) return;
    for (unsigned i = 0; i < 4; i++) {
        struct updater updater = {&map, rng_make(test_seed(), i), test_scale(400000), &active, i >= 2};
        updaters[i] = updater;
    }
    run_threads(4, update_or_check, updaters, sizeof *updaters);
    end_map(&map, &ledger);
}

/* ---- threads that come and go */

#define WAVE 6

struct visitor {
    struct ivs_map *map;
    struct rng rng;
};

static void *visit(void *arg) {
    struct visitor *visitor = arg;
    struct ivs_entry entry;
    for (int i = 0; i < 50; i++) {
        uint64_t key = rng_below(&visitor->rng, 1000);
        CHECK(!ivs_map_map(visitor->map, key, key + 10, as_value(key)), "map");
        if (ivs_map_lookup(visitor->map, key, &entry) == 0) CHECK(entry.start <= key, "lookup");
    }
    return NULL;
}

TEST(readers, records_of_threads_that_are_gone_are_used_again) {
    struct visitor visitors[WAVE];
    struct ledger ledger;
    struct ivs_map map;
    struct ivs_domain_stats stats;
    struct ivs_map_stats map_stats;
    if (!start_map(&map, &ledger)) return;
    long host_before = test_host_live();
    for (unsigned wave = 0; wave < test_scale(200) && !test_failed(); wave++) {
        for (unsigned i = 0; i < WAVE; i++) {
            visitors[i].map = &map;
            visitors[i].rng = rng_make(test_seed(), wave * WAVE + i);
        }
        run_threads(WAVE, visit, visitors, sizeof *visitors);
    }
    CHECK(!ivs_domain_get_stats(ivs_map_domain(&map), &stats), "stats");
    CHECK(stats.records <= WAVE + 1, "%llu records for at most %d threads at once", (unsigned long long)stats.records,
          WAVE + 1);
    CHECK(stats.readers == 0, "%llu readers", (unsigned long long)stats.readers);
    release_all(ivs_map_domain(&map));
    CHECK(!ivs_map_get_stats(&map, &map_stats), "stats");
    CHECK(map_stats.domain.limbo == 0, "%llu wait with no reader", (unsigned long long)map_stats.domain.limbo);
    CHECK(atomic_load(&ledger.live) == (long)map_stats.nodes, "%ld blocks for %zu nodes", atomic_load(&ledger.live),
          map_stats.nodes);
    end_map(&map, &ledger);
    CHECK(test_host_live() <= host_before + 1, "%ld host blocks, before %ld", test_host_live(), host_before);
}

/* ---- a stalled reader */

struct stalled {
    struct ivs_map *map;
    pthread_barrier_t inside, leave;
};

static void *stall(void *arg) {
    struct stalled *stalled = arg;
    ivs_map_read_enter(stalled->map);
    struct ivs_node *node = ivs_map_query_rcu(stalled->map, 5);
    void *value = node ? ivs_node_value(node) : NULL;
    pthread_barrier_wait(&stalled->inside);
    pthread_barrier_wait(&stalled->leave);
    CHECK(node && node->start == 0 && node->last == 9 && ivs_node_value(node) == value, "the node was reused");
    ivs_map_read_exit(stalled->map);
    return NULL;
}

TEST(readers, a_stalled_reader_holds_back_memory_and_statistics_say_so) {
    enum { UPDATES = 5000 };
    struct stalled stalled;
    struct ledger ledger;
    struct ivs_domain_stats stats;
    struct ivs_map map;
    pthread_t thread;
    if (!start_map(&map, &ledger)) return;
    stalled.map = &map;
    pthread_barrier_init(&stalled.inside, NULL, 2);
    pthread_barrier_init(&stalled.leave, NULL, 2);
    CHECK(!ivs_map_map(&map, 0, 10, as_value(1)), "map");
    if (!CHECK(!pthread_create(&thread, NULL, stall, &stalled), "thread")) return;
    pthread_barrier_wait(&stalled.inside);
    for (uint64_t i = 0; i < UPDATES; i++) CHECK(!ivs_map_map(&map, 0, 10, as_value(i + 2)), "map");
    ivs_domain_reclaim(ivs_map_domain(&map));
    CHECK(!ivs_domain_get_stats(ivs_map_domain(&map), &stats), "stats");
    CHECK(stats.limbo > UPDATES - 200, "limbo %llu", (unsigned long long)stats.limbo);
    CHECK(stats.limbo_bytes >= stats.limbo * sizeof(struct ivs_node), "%llu bytes in limbo",
          (unsigned long long)stats.limbo_bytes);
#if RCU_IS(BUILTIN) /* liburcu keeps to itself what its readers do */
    CHECK(stats.readers == 1 && stats.oldest_reader >= 1, "%llu readers, oldest %llu",
          (unsigned long long)stats.readers, (unsigned long long)stats.oldest_reader);
    CHECK(ivs_map_destroy(&map) == IVS_EBUSY, "destroy under a reader");
#endif
    pthread_barrier_wait(&stalled.leave);
    pthread_join(thread, NULL);
    if (RCU_IS(BUILTIN))
        for (int i = 0; i < 4; i++) ivs_domain_reclaim(ivs_map_domain(&map));
    else release_all(ivs_map_domain(&map));
    CHECK(!ivs_domain_get_stats(ivs_map_domain(&map), &stats), "stats");
    CHECK(stats.limbo == 0 && stats.limbo_bytes == 0 && stats.readers == 0, "limbo %llu after the reader left",
          (unsigned long long)stats.limbo);
    CHECK(atomic_load(&ledger.released) == UPDATES, "%ld released", atomic_load(&ledger.released));
    pthread_barrier_destroy(&stalled.inside);
    pthread_barrier_destroy(&stalled.leave);
    end_map(&map, &ledger);
}

TEST(readers, memory_stays_bounded_while_readers_come_and_go) {
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    long most = 0;
    for (uint64_t i = 0; i < test_scale(100000) && !test_failed(); i++) {
        struct ivs_entry entry;
        CHECK(!ivs_map_map(&map, 0, 10, as_value(i)), "map");
        CHECK(!ivs_map_lookup(&map, 3, &entry) && entry.value == as_value(i), "lookup");
        if (atomic_load(&ledger.live) > most) most = atomic_load(&ledger.live);
    }
    if (RCU_IS(BUILTIN)) CHECK(most <= 8 * IVSKIP_RETIRE_BATCH, "up to %ld blocks for one node", most);
    end_map(&map, &ledger);
}
