/* SPDX-License-Identifier: MIT */
#include "support.h"
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- random numbers: splitmix64 */

struct rng rng_make(uint64_t seed, uint64_t stream) {
    struct rng rng = {seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + 1};
    rng_next(&rng);
    return rng;
}

uint64_t rng_next(struct rng *rng) {
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t limit) { return limit ? rng_next(rng) % limit : rng_next(rng); }

/* ---- time and threads */

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_ns(uint64_t nanoseconds) {
    struct timespec pause = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
    rcu_block_begin();
    nanosleep(&pause, NULL);
    rcu_block_end();
}

#define MAX_THREADS 64

void run_threads(unsigned count, void *(*body)(void *), void *args, size_t arg_bytes) {
    pthread_t threads[MAX_THREADS];
    if (!CHECK(count <= MAX_THREADS, "%u threads", count)) return;
    unsigned made = 0;
    while (made < count &&
           CHECK(!pthread_create(&threads[made], NULL, body, (char *)args + made * arg_bytes), "thread %u", made))
        made++;
    for (unsigned i = 0; i < made; i++) pthread_join(threads[i], NULL);
}

void release_all(struct ivs_domain *domain) {
#if RCU_IS(BUILTIN)
    for (int i = 0; i < 10; i++) ivs_domain_reclaim(domain);
#else
    CHECK(!ivs_domain_barrier(domain), "barrier");
#endif
}

/* ---- the host's allocator */

static atomic_long host_live, host_refused;
static atomic_bool host_refuses;

void *test_host_malloc(size_t bytes) {
    if (atomic_load(&host_refuses)) {
        atomic_fetch_add(&host_refused, 1);
        return NULL;
    }
    void *memory = malloc(bytes);
    if (memory) atomic_fetch_add(&host_live, 1);
    return memory;
}

void test_host_free(void *memory) {
    if (memory) atomic_fetch_sub(&host_live, 1);
    free(memory);
}

void test_host_refuse(bool refuse) { atomic_store(&host_refuses, refuse); }
size_t test_host_refused(void) { return (size_t)atomic_load(&host_refused); }
long test_host_live(void) { return atomic_load(&host_live); }

/* ---- the host's clock */

static atomic_ullong stopped_at; /* 0: it runs */

uint64_t test_host_now(void) {
    uint64_t stopped = atomic_load(&stopped_at);
    return stopped ? stopped : now_ns();
}

void test_host_stop_clock(bool stop) { atomic_store(&stopped_at, stop ? now_ns() : 0); }

/* ---- the ledger: each block has its size and a magic number in front */

#define LEDGER_MAGIC 0x1ed6e71ed6e71ed6u

struct ledger_head {
    uint64_t magic;
    uint64_t bytes;
};

static void *ledger_alloc(void *ctx, size_t bytes, unsigned flags) {
    struct ledger *ledger = ctx;
    /* while one refusal is wanted, what may be tried again in a way that sleeps is refused each time */
    if (flags & IVS_NOSLEEP && atomic_load(&ledger->refuse_at) >= 0) return NULL;
    long call = atomic_fetch_add(&ledger->calls, 1);
    if (call == atomic_load(&ledger->refuse_at) || atomic_load(&ledger->refuse_all)) return NULL;
    struct ledger_head *head = malloc(sizeof *head + bytes);
    if (!head) return NULL;
    head->magic = LEDGER_MAGIC;
    head->bytes = bytes;
    memset(head + 1, 0xa5, bytes);
    atomic_fetch_add(&ledger->live, 1);
    return head + 1;
}

static void ledger_free(void *ctx, void *memory, size_t bytes) {
    struct ledger *ledger = ctx;
    struct ledger_head *head = (struct ledger_head *)memory - 1;
    if (!CHECK(head->magic == LEDGER_MAGIC, "free of what was not given, or twice")) return;
    CHECK(head->bytes == bytes, "freed as %zu bytes, given as %llu", bytes, (unsigned long long)head->bytes);
    memset(head, 0xdb, sizeof *head + (size_t)head->bytes);
    atomic_fetch_sub(&ledger->live, 1);
    free(head);
}

static void ledger_release(void *ctx, struct ivs_node *node) {
    struct ledger *ledger = ctx;
    atomic_fetch_add(&ledger->released, 1);
    if (ledger->on_release) ledger->on_release(ledger, node);
}

const struct ivs_domain_ops ledger_ops = {ledger_alloc, ledger_free, ledger_release};

void ledger_make(struct ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    atomic_store(&ledger->refuse_at, -1);
}

void ledger_arm(struct ledger *ledger, long refuse_at) {
    atomic_store(&ledger->calls, 0);
    atomic_store(&ledger->refuse_at, refuse_at);
}

int ledger_map(struct ivs_map *map, struct ledger *ledger, size_t payload_bytes) {
    struct ivs_map_config config = {0};
    config.own.ops = &ledger_ops;
    config.own.ctx = ledger;
    config.own.payload_size = payload_bytes;
    config.own.seed = test_seed();
    return ivs_map_init(map, &config);
}

bool start_map(struct ivs_map *map, struct ledger *ledger) {
    ledger_make(ledger);
    return CHECK(!ledger_map(map, ledger, 0), "init");
}

void end_map(struct ivs_map *map, struct ledger *ledger) {
    map_is_valid(map, "at the end");
    CHECK(!ivs_map_destroy(map), "destroy");
    CHECK(atomic_load(&ledger->live) == 0, "%ld blocks leaked", atomic_load(&ledger->live));
}
