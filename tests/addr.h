/* SPDX-License-Identifier: MIT */
/*
 * What the tests of address spaces share: a host that counts what areas own, and refuses on demand; short forms of the
 * calls; an audit of everything after a step.
 */
#ifndef TESTS_ADDR_H
#define TESTS_ADDR_H

#include "ivaddr.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE       UINT64_C(0x1000)
#define HOST_MAGIC UINT64_C(0x686f73742d6d6167)
#define NEVER      (-1)

/* Beside each area. */
struct host_bytes {
    uint64_t magic;
    uint64_t label; /* areas with other labels are not joined */
};

/* Every area owns one count of `owned`. Call number `fail_at` of those that may fail is refused. */
struct host {
    atomic_long owned, blocks, calls, fail_at;
    atomic_long clears, moves, protects, advices;
    uint64_t clear_start, clear_end, floor, ceiling;
    int error;
};

static inline bool host_fails(struct host *host) { return atomic_fetch_add(&host->calls, 1) == host->fail_at; }

static inline void *host_alloc(void *ctx, size_t bytes, unsigned flags) {
    struct host *host = ctx;
    if (flags & IVS_NOSLEEP && host->fail_at >= 0) return NULL; /* it would be asked for again */
    if (host_fails(host)) return NULL;
    atomic_fetch_add(&host->blocks, 1);
    return malloc(bytes);
}
static inline void host_free(void *ctx, void *memory, size_t bytes) {
    struct host *host = ctx;
    (void)bytes;
    atomic_fetch_sub(&host->blocks, 1);
    free(memory);
}
static inline void host_release(void *ctx, const struct iva_view *area) {
    struct host *host = ctx;
    struct host_bytes *bytes = area->host;
    CHECK(bytes->magic == HOST_MAGIC, "release of %llx without its bytes", (unsigned long long)area->start);
    atomic_fetch_sub(&host->owned, 1);
}
static inline bool host_joins(void *ctx, const struct iva_view *left, const struct iva_view *right) {
    const struct host_bytes *l = left->host, *r = right->host;
    (void)ctx;
    CHECK(l->magic == HOST_MAGIC && r->magic == HOST_MAGIC && left->end == right->start, "joins");
    return l->label == r->label;
}
static inline int host_split(void *ctx, const struct iva_view *old, struct iva_view *part) {
    struct host *host = ctx;
    const struct host_bytes *a = old->host, *b = part->host;
    CHECK(a->magic == HOST_MAGIC && b->magic == HOST_MAGIC && a->label == b->label, "split");
    if (host_fails(host)) return host->error;
    atomic_fetch_add(&host->owned, 1);
    return 0;
}
static inline int host_merge(void *ctx, struct iva_view *into, const struct iva_view *gone) {
    struct host *host = ctx;
    const struct host_bytes *a = into->host, *b = gone->host;
    CHECK(a->magic == HOST_MAGIC && b->magic == HOST_MAGIC && into->end == gone->start, "merge");
    return host_fails(host) ? host->error : 0;
}
static inline int host_copy(void *ctx, const struct iva_view *from, struct iva_view *to) {
    return host_split(ctx, from, to);
}
static inline int host_advise(void *ctx, const struct iva_view *area, unsigned advice) {
    struct host *host = ctx;
    (void)area;
    (void)advice;
    atomic_fetch_add(&host->advices, 1);
    return 0;
}
static inline void host_clear(void *ctx, uint64_t start, uint64_t end, uint64_t floor, uint64_t ceiling) {
    struct host *host = ctx;
    if (atomic_fetch_add(&host->clears, 1) < 0) return; /* threads: not kept */
    host->clear_start = start;
    host->clear_end = end;
    host->floor = floor;
    host->ceiling = ceiling;
}
static inline void host_protect(void *ctx, const struct iva_view *area) {
    struct host *host = ctx;
    (void)area;
    atomic_fetch_add(&host->protects, 1);
}
static inline void host_move(void *ctx, uint64_t from, uint64_t to, uint64_t bytes) {
    struct host *host = ctx;
    (void)from;
    (void)to;
    (void)bytes;
    atomic_fetch_add(&host->moves, 1);
}

static const struct iva_ops host_ops = {host_alloc, host_free,   host_release, host_joins,   host_split, host_merge,
                                        host_copy,  host_advise, host_clear,   host_protect, host_move,  NULL};

static inline struct iva_space_config host_config(struct host *host) {
    struct iva_space_config config = iva_space_config_linux();
    memset(host, 0, sizeof *host);
    host->fail_at = NEVER;
    host->error = -5;
    config.ops = &host_ops;
    config.ctx = host;
    config.host_bytes = sizeof(struct host_bytes);
    return config;
}

/* ---- short forms */

static const struct host_bytes plain_bytes = {HOST_MAGIC, 0};

static inline struct iva_map_request anonymous(uint64_t address, uint64_t length, uint64_t rights, uint64_t flags) {
    struct iva_map_request request;
    memset(&request, 0, sizeof request);
    request.address = address;
    request.length = length;
    request.rights = rights;
    request.flags = IVA_MAP_PRIVATE | IVA_MAP_ANONYMOUS | flags;
    request.host = &plain_bytes;
    return request;
}

static inline struct iva_map_request object(uint64_t address, uint64_t length, uint64_t rights, uint64_t flags,
                                            uintptr_t object_, uint64_t offset) {
    struct iva_map_request request = anonymous(address, length, rights, 0);
    request.flags = flags;
    request.object = object_;
    request.offset = offset;
    request.access = IVA_RIGHTS;
    return request;
}

/* Maps, and gives the area its count. */
static inline int host_map(struct iva_space *space, struct host *host, const struct iva_map_request *request,
                           uint64_t *address) {
    int r;
    atomic_fetch_add(&host->owned, 1);
    r = iva_space_map(space, request, address);
    if (r) atomic_fetch_sub(&host->owned, 1);
    return r;
}

static inline int map_at(struct iva_space *space, struct host *host, uint64_t address, uint64_t length, uint64_t rights,
                         uint64_t flags) {
    struct iva_map_request request = anonymous(address, length, rights, flags | IVA_MAP_FIXED);
    uint64_t got = 0;
    int r = host_map(space, host, &request, &got);
    if (r == 0) CHECK(got == address, "fixed, and elsewhere");
    return r;
}

/* ---- audit */

/* The space as text: an area a line. */
static inline void dump(struct iva_space *space, char *text, size_t size) {
    struct iva_view view;
    size_t at = 0;
    text[0] = 0;
    for (uint64_t key = 0; iva_space_query_next(space, key, &view) == 0 && at + 128 < size; key = view.end) {
        at += (size_t)snprintf(text + at, size - at, "%llx-%llx %llx %llx %llx\n", (unsigned long long)view.start,
                               (unsigned long long)view.end, (unsigned long long)view.flags,
                               (unsigned long long)view.object, (unsigned long long)view.offset);
        if (view.end == 0) break;
    }
}

static inline bool audit(struct iva_space *space, struct host *host, const char *when) {
    struct iva_report report;
    struct iva_space_stats stats;
    int r = iva_space_validate(space, &report);
    bool ok =
        CHECK(r == 0, "%s: %s at %llx: %llx, not %llx", when, report.check ? report.check : "?",
              (unsigned long long)report.address, (unsigned long long)report.found, (unsigned long long)report.wanted);
    release_all(&space->domain_->domain_);
    (void)iva_space_get_stats(space, &stats);
    return CHECK(atomic_load(&host->owned) == (long)stats.areas, "%s: %ld counts for %ld areas", when,
                 atomic_load(&host->owned), (long)stats.areas) &&
           ok;
}

/* The areas are these lines: start-end in pages above `base`, rights and flags in hex. */
static inline bool shows(struct iva_space *space, uint64_t base, const char *wanted) {
    char text[4096];
    size_t at = 0;
    struct iva_view view;
    text[0] = 0;
    for (uint64_t key = 0; iva_space_query_next(space, key, &view) == 0 && at + 64 < sizeof text; key = view.end)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld-%lld:%llx", at ? " " : "",
                               (long long)(view.start - base) / 4096, (long long)(view.end - base) / 4096,
                               (unsigned long long)view.flags);
    return CHECK(strcmp(text, wanted) == 0, "\"%s\" where \"%s\" is wanted", text, wanted);
}

static inline void begin_space(struct iva_space *space, struct host *host) {
    struct iva_space_config config = host_config(host);
    int r = iva_space_init(space, &config);
    CHECK(r == 0, "init %d", r);
}

static inline void end_space(struct iva_space *space, struct host *host) {
    int r;
    audit(space, host, "at the end");
    r = iva_space_destroy(space);
    CHECK(r == 0, "destroy %d", r);
    CHECK(host->owned == 0 && host->blocks == 0, "%ld counts, %ld blocks are left", (long)host->owned,
          (long)host->blocks);
}

#define SAYS(what, result)                                                                                             \
    do {                                                                                                               \
        int says_ = (what);                                                                                            \
        CHECK(says_ == (result), "%d", says_);                                                                         \
    } while (0)

#endif
