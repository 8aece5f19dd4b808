/* SPDX-License-Identifier: MIT */
/* Domains: nodes in the caller's memory, and what ivs_domain_barrier promises. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- nodes in the caller's memory */

static unsigned ended;

static void end_of_node(void *ctx, struct ivs_node *node) {
    (void)ctx;
    ended++;
    free(node); /* payload_size is 0, so the node is where its memory begins */
}

static struct ivs_node *node_in_own_memory(struct ivs_domain *domain, uint64_t start, uint64_t end, unsigned height) {
    void *memory = malloc(IVSKIP_NODE_BYTES(0, height));
    struct ivs_node *node = ivs_node_init_at(domain, memory, height, start, end, NULL);
    CHECK(node, "no node");
    return node;
}

TEST(domains, memory_of_the_callers_is_the_callers_again_in_the_release_callback) {
    static const struct ivs_domain_ops ops = {.release = end_of_node};
    struct ivs_map_config config = {.own = {.ops = &ops}};
    struct ivs_map map;
    int r = ivs_map_init(&map, &config);
    CHECK(r == 0, "init %d", r);
    ended = 0;
    for (unsigned i = 0; i < 100; i++) {
        r = ivs_map_insert_node(&map, node_in_own_memory(ivs_map_domain(&map), 10 * i, 10 * i + 5, 1 + i % 4));
        CHECK(r == 0, "insert %d", r);
    }
    CHECK(map_is_valid(&map, "filled"), "invalid");
    for (unsigned i = 0; i < 50; i++) {
        r = ivs_map_unmap(&map, 20 * i, 20 * i + 10);
        CHECK(r == 0, "unmap %d", r);
    }
    r = ivs_domain_barrier(ivs_map_domain(&map));
    CHECK(r == 0 && ended == 50, "barrier %d, %u of 50 ended", r, ended);
    r = ivs_map_destroy(&map);
    CHECK(r == 0 && ended == 100, "destroy %d, %u of 100 ended", r, ended);
}

TEST(domains, memory_that_cannot_hold_a_node_is_refused) {
    struct ivs_domain domain;
    static uint64_t memory[64];
    CHECK(ivs_domain_init(&domain, NULL) == 0, "init");
    CHECK(!ivs_node_init_at(&domain, NULL, 1, 0, 1, NULL), "no memory");
    CHECK(!ivs_node_init_at(NULL, memory, 1, 0, 1, NULL), "no domain");
    CHECK(!ivs_node_init_at(&domain, (char *)memory + 4, 1, 0, 1, NULL), "misaligned");
    CHECK(!ivs_node_init_at(&domain, memory, 0, 0, 1, NULL), "height 0");
    CHECK(!ivs_node_init_at(&domain, memory, IVSKIP_MAX_HEIGHT + 1, 0, 1, NULL), "too high");
    CHECK(!ivs_node_init_at(&domain, memory, 1, 5, 5, NULL), "empty");
    CHECK(ivs_domain_destroy(&domain) == 0, "destroy");
}

/* ---- the allocator's two halves */

static void *some_memory(void *ctx, size_t bytes, unsigned flags) {
    (void)ctx, (void)flags;
    return malloc(bytes);
}
static void some_free(void *ctx, void *memory, size_t bytes) {
    (void)ctx, (void)bytes;
    free(memory);
}

TEST(domains, half_an_allocator_is_refused) {
    static const struct ivs_domain_ops only_alloc = {.alloc = some_memory}, only_free = {.free = some_free};
    struct ivs_domain_config config = {.ops = &only_alloc};
    struct ivs_domain domain;
    int r = ivs_domain_init(&domain, &config);
    CHECK(r == IVS_EINVAL, "alloc without free: %d", r);
    config.ops = &only_free;
    r = ivs_domain_init(&domain, &config);
    CHECK(r == IVS_EINVAL, "free without alloc: %d", r);
}

/* ---- the barrier waits for callbacks that another thread runs */

static atomic_bool in_callback, callback_ended;

static void slow_end(struct ivs_defer *defer) {
    (void)defer;
    atomic_store(&in_callback, true);
    sleep_ns(100000000);
    atomic_store(&callback_ended, true);
}

static void *releaser(void *domain) {
    static struct ivs_defer defer;
    int r = ivs_domain_defer(domain, &defer, slow_end);
    CHECK(r == 0, "defer %d", r);
    while (!atomic_load(&in_callback)) {
        ivs_domain_reclaim(domain);
        sleep_ns(100000);
    }
    return NULL;
}

TEST(domains, a_barrier_waits_for_callbacks_that_another_thread_runs) {
    struct ivs_domain domain;
    pthread_t thread;
    CHECK(ivs_domain_init(&domain, NULL) == 0, "init");
    atomic_store(&in_callback, false);
    atomic_store(&callback_ended, false);
    CHECK(pthread_create(&thread, NULL, releaser, &domain) == 0, "no thread");
    while (!atomic_load(&in_callback)) sleep_ns(100000);
    int r = ivs_domain_barrier(&domain);
    CHECK(r == 0 && atomic_load(&callback_ended), "barrier %d, came back before the callback ended", r);
    pthread_join(thread, NULL);
    CHECK(ivs_domain_destroy(&domain) == 0, "destroy");
}

/* ---- a barrier ends although others go on to retire */

static atomic_bool churn_ends;

static void *churn(void *map) {
    while (!atomic_load(&churn_ends) && !test_failed()) {
        int r = ivs_map_map(map, 10, 20, NULL);
        if (r == 0) r = ivs_map_unmap(map, 10, 20);
        CHECK(r == 0, "churn %d", r);
    }
    return NULL;
}

TEST(domains, a_barrier_ends_though_another_thread_keeps_retiring) {
    struct ivs_map map;
    pthread_t thread;
    CHECK(ivs_map_init(&map, NULL) == 0, "init");
    atomic_store(&churn_ends, false);
    CHECK(pthread_create(&thread, NULL, churn, &map) == 0, "no thread");
    for (int i = 0; i < 10; i++) { /* the watchdog ends it if one does not come back */
        int r = ivs_domain_barrier(ivs_map_domain(&map));
        CHECK(r == 0, "barrier %d", r);
    }
    atomic_store(&churn_ends, true);
    pthread_join(thread, NULL);
    CHECK(ivs_map_destroy(&map) == 0, "destroy");
}

#if RCU_IS(BUILTIN)
static struct ivs_domain *barrier_domain;
static int barrier_answer;

static void waits_for_itself(struct ivs_defer *defer) {
    (void)defer;
    barrier_answer = ivs_domain_barrier(barrier_domain);
}

TEST(domains, a_barrier_in_a_release_callback_is_refused) {
    struct ivs_domain domain;
    struct ivs_defer defer;
    CHECK(ivs_domain_init(&domain, NULL) == 0, "init");
    barrier_domain = &domain;
    barrier_answer = 0;
    CHECK(ivs_domain_defer(&domain, &defer, waits_for_itself) == 0, "defer");
    CHECK(ivs_domain_barrier(&domain) == 0, "barrier");
    CHECK(barrier_answer == IVS_EDEADLK, "%d", barrier_answer);
    CHECK(ivs_domain_destroy(&domain) == 0, "destroy");
}
#endif
