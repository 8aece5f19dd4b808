/* SPDX-License-Identifier: MIT */
/* ivaddr.h as a peer of bench/space.c: Linux's semantics, over the slab of the harness. */
#define IVADDR_STATIC
#include "ivaddr.h"

#include "bench.h"
#include "space.h"

static void *space_alloc(void *ctx, size_t bytes, unsigned flags) {
    (void)ctx, (void)flags;
    return bench_alloc(bytes);
}

static void space_free(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    bench_free(memory, bytes);
}

static const struct iva_ops ops = {.alloc = space_alloc, .free = space_free};

static void *make(void) {
    struct iva_space *space = malloc(sizeof *space);
    struct iva_space_config config = iva_space_config_linux();
    config.base = SPACE_BASE;
    config.limit[IVA_LIMIT_AREAS] = 200000;
    config.limit[IVA_LIMIT_TOTAL] = UINT64_C(1) << 46;
    config.ops = &ops;
    bench_demand(space && iva_space_init(space, &config) == 0);
    return space;
}

static void end(void *space) {
    bench_demand(iva_space_validate(space, NULL) == 0 && iva_space_destroy(space) == 0);
    free(space);
}

static int map_with(void *space, uint64_t address, uint64_t bytes, unsigned rights, uint64_t flags, uint64_t *start) {
    struct iva_map_request request = {.address = address, .length = bytes, .rights = rights};
    request.flags = IVA_MAP_PRIVATE | IVA_MAP_ANONYMOUS | flags;
    return iva_space_map(space, &request, start);
}

static int map(void *space, uint64_t bytes, unsigned rights, uint64_t *start) {
    return map_with(space, 0, bytes, rights, 0, start);
}

static int map_at(void *space, uint64_t address, uint64_t bytes, unsigned rights) {
    uint64_t start;
    return map_with(space, address, bytes, rights, IVA_MAP_FIXED, &start);
}

static int unmap(void *space, uint64_t start, uint64_t bytes) { return iva_space_unmap(space, start, bytes); }

static int protect(void *space, uint64_t start, uint64_t bytes, unsigned rights) {
    return iva_space_protect(space, start, bytes, rights);
}

static void measure(void *space, uint64_t *areas, uint64_t *bytes) {
    struct iva_space_stats stats;
    bench_demand(iva_space_get_stats(space, &stats) == 0);
    *areas = stats.areas;
    *bytes = stats.total;
}

#if IVS_RCU_IS_(BUILTIN)
static void thread_nothing(void) {}
const struct space_peer space_ivaddr_builtin = {
    "ivaddr-builtin", make, end, map, map_at, unmap, protect, measure, thread_nothing, thread_nothing};
#else
static void thread_begin(void) { urcu_memb_register_thread(); }
static void thread_end(void) { urcu_memb_unregister_thread(); }
const struct space_peer space_ivaddr_memb = {"ivaddr", make,    end,     map,          map_at,
                                             unmap,    protect, measure, thread_begin, thread_end};
#endif
