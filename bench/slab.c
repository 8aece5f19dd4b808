/* SPDX-License-Identifier: MIT */
/* The slab of bench.h. */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

enum { CLASS_BYTES = 64, CLASSES = 17, BATCH = 64, CHUNK = 1 << 20 };

struct block {
    struct block *next;  /* in its batch */
    struct block *batch; /* first of a full batch: the next full batch */
};

struct list {
    struct block *first;
    unsigned count;
};

/* A thread fills `now` up to a batch and keeps one full batch in reserve, so that take and give back around the edge
 * do not go to the depot each time. */
struct cache {
    struct list now[CLASSES], full[CLASSES];
    int64_t live; /* bytes taken less bytes given back, by this thread */
    struct cache *next;
    bool used;
};

static struct {
    pthread_mutex_t lock;
    struct block *batches[CLASSES];
    unsigned char *chunk[CLASSES];
    size_t left[CLASSES];
    struct cache *caches;
    int64_t large;
} depot = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct cache *mine;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave(void *cache) { __atomic_store_n(&((struct cache *)cache)->used, false, __ATOMIC_RELEASE); }
static void make_key(void) { bench_demand(pthread_key_create(&at_exit, leave) == 0); }

/* A thread's first call takes over the cache of one that has ended. */
static __attribute__((noinline)) struct cache *join(void) {
    pthread_once(&once, make_key);
    pthread_mutex_lock(&depot.lock);
    struct cache *c = depot.caches;
    while (c && __atomic_load_n(&c->used, __ATOMIC_ACQUIRE)) c = c->next;
    if (!c) {
        c = calloc(1, sizeof *c);
        bench_demand(c);
        c->next = depot.caches;
        depot.caches = c;
    }
    c->used = true;
    pthread_mutex_unlock(&depot.lock);
    pthread_setspecific(at_exit, c);
    return mine = c;
}

static inline struct cache *cache(void) { return mine ? mine : join(); }

/* A batch cut from a chunk, in ascending order. Called with the lock. */
static struct block *carve(size_t class) {
    size_t bytes = class * CLASS_BYTES;
    struct block *first = NULL, **end = &first;
    for (unsigned i = 0; i < BATCH; i++) {
        if (depot.left[class] < bytes) {
            depot.chunk[class] = aligned_alloc(CHUNK, CHUNK);
            bench_demand(depot.chunk[class]);
            depot.left[class] = CHUNK;
        }
        *end = (struct block *)(void *)depot.chunk[class];
        end = &(*end)->next;
        depot.chunk[class] += bytes;
        depot.left[class] -= bytes;
    }
    *end = NULL;
    return first;
}

static __attribute__((noinline)) void refill(struct cache *c, size_t class) {
    struct list *now = &c->now[class], *full = &c->full[class];
    if (full->first) {
        *now = *full;
        *full = (struct list){0};
        return;
    }
    pthread_mutex_lock(&depot.lock);
    now->first = depot.batches[class];
    if (now->first) depot.batches[class] = now->first->batch;
    else now->first = carve(class);
    pthread_mutex_unlock(&depot.lock);
    now->count = BATCH;
}

static __attribute__((noinline)) void spill(struct cache *c, size_t class) {
    struct list *now = &c->now[class], *full = &c->full[class];
    if (full->first) {
        pthread_mutex_lock(&depot.lock);
        full->first->batch = depot.batches[class];
        depot.batches[class] = full->first;
        pthread_mutex_unlock(&depot.lock);
    }
    *full = *now;
    *now = (struct list){0};
}

static void *large(size_t bytes) {
    __atomic_fetch_add(&depot.large, (int64_t)bytes, __ATOMIC_RELAXED);
    return malloc(bytes);
}

void *bench_alloc(size_t bytes) {
    size_t class = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    if (class >= CLASSES) return large(bytes);
    struct cache *c = cache();
    struct list *now = &c->now[class];
    if (!now->first) refill(c, class);
    struct block *block = now->first;
    now->first = block->next;
    now->count--;
    c->live += (int64_t)(class * CLASS_BYTES);
    return block;
}

void bench_free(void *memory, size_t bytes) {
    size_t class = (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
    if (class >= CLASSES) {
        __atomic_fetch_sub(&depot.large, (int64_t)bytes, __ATOMIC_RELAXED);
        free(memory);
        return;
    }
    struct cache *c = cache();
    struct list *now = &c->now[class];
    if (now->count == BATCH) spill(c, class);
    struct block *block = memory;
    block->next = now->first;
    now->first = block;
    now->count++;
    c->live -= (int64_t)(class * CLASS_BYTES);
}

int64_t bench_live_bytes(void) {
    int64_t live = depot.large;
    pthread_mutex_lock(&depot.lock);
    for (struct cache *c = depot.caches; c; c = c->next) live += c->live;
    pthread_mutex_unlock(&depot.lock);
    return live;
}
