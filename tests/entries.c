/* SPDX-License-Identifier: MIT */
/* The entry table: what updates keep up, what it costs, and what a thread that retires leaves to others. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

#define NODES 2000

static size_t entries_used(struct ivs_map *map) {
    struct ivs_map_stats stats;
    CHECK(!ivs_map_get_stats(map, &stats), "stats");
    return stats.table_used;
}

/* Nodes at uneven places: clusters of ten, longer and longer gaps. */
static uint64_t place(uint64_t i) { return i * 40 + i / 10 * 1000 + i / 100 * 100000; }

static void fill(struct ivs_map *map) {
    for (uint64_t i = 0; i < NODES; i++)
        CHECK(!ivs_map_insert(map, place(i), place(i) + 20, as_value(i + 1)), "insert");
}

static void look_everywhere(struct ivs_map *map) {
    struct ivs_entry entry;
    for (uint64_t i = 0; i < NODES; i++) {
        CHECK(!ivs_map_lookup(map, place(i) + 19, &entry) && entry.value == as_value(i + 1), "node %d", (int)i);
        CHECK(ivs_map_lookup(map, place(i) + 20, &entry) == IVS_ENOENT, "gap behind node %d", (int)i);
    }
}

TEST(entries, updates_keep_the_table_up) {
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    fill(&map);
    CHECK(entries_used(&map) == 0, "entries before a tune");
    CHECK(!ivs_map_tune(&map), "tune");
    size_t tuned = entries_used(&map);
    CHECK(tuned >= NODES / 4 && tuned <= NODES, "%zu entries", tuned);
    look_everywhere(&map);
    for (uint64_t i = 0; i < NODES; i++) CHECK(!ivs_map_unmap(&map, place(i), place(i) + 20), "unmap");
    CHECK(entries_used(&map) == 0, "%zu entries of nodes that left", entries_used(&map));
    fill(&map);
    CHECK(entries_used(&map) * 10 >= tuned * 9, "%zu entries of new nodes, %zu after the tune", entries_used(&map),
          tuned);
    for (uint64_t i = 0; i < NODES; i++)
        CHECK(!ivs_map_map(&map, place(i), place(i) + 20, as_value(i + 1)), "overwrite");
    CHECK(entries_used(&map) * 10 >= tuned * 9, "%zu entries after overwrites", entries_used(&map));
    look_everywhere(&map);
    end_map(&map, &ledger);
}

TEST(entries, old_tables_do_not_pile_up) {
    struct ledger ledger;
    struct ivs_map map;
    if (!start_map(&map, &ledger)) return;
    fill(&map);
    for (int i = 0; i < 50; i++) CHECK(!ivs_map_tune(&map), "tune");
    release_all(ivs_map_domain(&map));
    CHECK(atomic_load(&ledger.live) <= NODES + 4, "%ld blocks for %d nodes", atomic_load(&ledger.live), NODES);
    end_map(&map, &ledger);
}

/* A swap of many nodes costs each about the same: the path goes along. */
TEST(entries, a_long_run_is_swapped_in_linear_time) {
    enum { SHORT = 4000, LONG = 16 * SHORT };
    static struct ivs_node *run[LONG];
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        size_t n = i % 2 ? LONG : SHORT;
        struct ivs_lock lock;
        struct ivs_map map;
        CHECK(!ivs_map_init(&map, NULL), "init");
        for (size_t k = 0; k < n; k++)
            run[k] = ivs_node_new(ivs_map_domain(&map), 2 * k, 2 * k + 1, as_value(k), IVS_SLEEP);
        CHECK(!ivs_map_lock(&map, 0, 0, &lock), "lock");
        uint64_t start = now_ns();
        CHECK(!ivs_map_swap(&lock, run, n), "swap");
        uint64_t took = now_ns() - start;
        if (took < best[i % 2]) best[i % 2] = took;
        CHECK(!ivs_map_unlock(&lock), "unlock");
        map_is_valid(&map, "after a long run");
        CHECK(!ivs_map_destroy(&map), "destroy");
    }
    CHECK(best[1] < best[0] * 16 * 5, "%llu ns for %d nodes, %llu for %d", (unsigned long long)best[1], LONG,
          (unsigned long long)best[0], SHORT);
}

#if RCU_IS(BUILTIN)

/* A thread retires much and then nothing more. */
struct leaver {
    struct ivs_map *map;
    pthread_barrier_t *meet;
    bool record;
};

static void *retire_and_idle(void *arg) {
    struct leaver *leaver = arg;
    if (!leaver->record) test_host_refuse(true);
    CHECK(!ivs_map_unmap(leaver->map, 0, place(NODES)), "unmap");
    test_host_refuse(false);
    pthread_barrier_wait(leaver->meet);
    pthread_barrier_wait(leaver->meet);
    return NULL;
}

static void others_release(bool record) {
    pthread_barrier_t meet;
    struct ledger ledger;
    struct ivs_map map;
    pthread_t thread;
    if (!start_map(&map, &ledger)) return;
    struct leaver leaver = {&map, &meet, record};
    pthread_barrier_init(&meet, NULL, 2);
    fill(&map);
    if (!CHECK(!pthread_create(&thread, NULL, retire_and_idle, &leaver), "thread")) return;
    pthread_barrier_wait(&meet);
    for (uint64_t i = 0; i < 40 * IVSKIP_RETIRE_BATCH; i++) CHECK(!ivs_map_map(&map, 5, 10, as_value(i)), "map");
    CHECK(atomic_load(&ledger.live) <= 8 * IVSKIP_RETIRE_BATCH, "%ld blocks live", atomic_load(&ledger.live));
    pthread_barrier_wait(&meet);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&meet);
    end_map(&map, &ledger);
}

TEST(entries, what_an_idle_thread_retired_is_released_by_others) { others_release(true); }
TEST(entries, what_a_thread_without_record_retired_is_released_by_others) { others_release(false); }

#endif
