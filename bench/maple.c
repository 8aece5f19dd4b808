/* SPDX-License-Identifier: MIT */
/* Builds lib/maple_tree.c of an unpacked Linux, without its debugging, over the slab of the harness. */
#include "shared.h"
#include <linux/init.h>
#include <linux/slab.h>
#include <stdlib.h>
#include <string.h>

#include "../../../lib/maple_tree.c"

void *bench_alloc(size_t bytes);
void bench_free(void *memory, size_t bytes);
void bench_maple_init(void) __attribute__((constructor));
void bench_maple_init(void) { maple_tree_init(); }

struct kmem_cache {
    unsigned size;
};

struct kmem_cache *kmem_cache_create(const char *name, unsigned size, unsigned align, unsigned flags,
                                     void (*ctor)(void *)) {
    struct kmem_cache *cache = malloc(sizeof *cache);
    (void)name, (void)flags;
    if (!cache || ctor || align > size || size % 64 != 0) abort(); /* maple nodes: 256 bytes, aligned to them */
    cache->size = size;
    return cache;
}

void *kmem_cache_alloc_lru(struct kmem_cache *cache, struct list_lru *lru, int gfp) {
    void *memory = bench_alloc(cache->size);
    (void)lru;
    if (gfp & __GFP_ZERO) memset(memory, 0, cache->size);
    return memory;
}

void kmem_cache_free(struct kmem_cache *cache, void *object) { bench_free(object, cache->size); }

int kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t gfp, size_t count, void **objects) {
    for (size_t i = 0; i < count; i++) objects[i] = kmem_cache_alloc_lru(cache, NULL, gfp);
    return (int)count;
}

void kmem_cache_free_bulk(struct kmem_cache *cache, size_t count, void **objects) {
    for (size_t i = 0; i < count; i++) kmem_cache_free(cache, objects[i]);
}
