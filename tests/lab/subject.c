/* SPDX-License-Identifier: MIT */
/*
 * The header in the lab. This file alone is compiled with -fsanitize-coverage=edge,trace-loads,trace-stores, so that
 * its plain accesses are seen; its atomics, its host and its threads are the lab's. With LAB_HOST the host is a port's:
 * lab_port.h, or LAB_PORT.
 */
#define _GNU_SOURCE
#include "lab.h"

#ifndef LAB_PORT
#define LAB_PORT "lab_port.h"
#endif

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IVADDR_IMPLEMENTATION
#if defined(LAB_HOST) /* the room for liburcu and hosts, on the lab's own port */
#define IVSKIP_RCU    HOST
#define IVSKIP_CONFIG LAB_PORT
#endif
#define IVSKIP_ATOMICS    "lab_atomics.h"
#define IVSKIP_SPIN       0 /* straight to sleep */
#define IVSKIP_DEBUG      1
#define IVSKIP_LINK_TRIES 1 /* so that towers are given up */
#define IVS_ENTRIES_MIN_  1
#define IVS_RANGE_CACHE_  1
#define IVA_STEPS_        0
#define IVS_RANGE_TRACK_  0 /* it would order what the queue leaves unordered */
#ifndef IVSKIP_RETIRE_BATCH
#define IVSKIP_RETIRE_BATCH 1
#endif
#define __thread /* the lab keeps a copy for each virtual thread */
#define __builtin_memset          lab_memset
#define __builtin_memcpy          lab_memcpy
#define pthread_once(once, make)  ((make)(), 0)
#define pthread_key_create(k, f)  ((void)(f), 0)
#define pthread_setspecific(k, v) ((void)(v), 0)
#if !defined(LAB_HOST)
static void *subject_malloc(size_t bytes);
#define IVSKIP_HOST_MALLOC(bytes) subject_malloc(bytes)
#define IVSKIP_HOST_FREE(memory)  lab_free(memory)
#endif
#include "ivaddr.h"
#undef __builtin_memset
#undef __builtin_memcpy

#if defined(LAB_HOST)
size_t subject_tls(void **address) {
    static char none;
    *address = &none;
    return 0;
}

void subject_thread_exit(void) {}
#else
bool subject_no_records, subject_no_nodes[LAB_THREADS + 1];
static void *subject_malloc(size_t bytes) {
    bool none = bytes == sizeof(struct ivs_record_) ? subject_no_records : subject_no_nodes[lab_thread()];
    return none ? NULL : lab_malloc(bytes);
}

size_t subject_tls(void **address) {
    *address = &ivs_thread_;
    return sizeof ivs_thread_;
}

void subject_thread_exit(void) { ivs_thread_exit_(&ivs_thread_); }
#endif

static const char *field_of_node(size_t offset, char *text, size_t size) {
    static const char *const names[] = {"start", "last", "value", "next", "chain", "height.."};
    if (offset < sizeof(struct ivs_node)) return names[offset / 8];
    offset -= sizeof(struct ivs_node);
    (void)snprintf(text, size, "up[%zu].%s", offset / sizeof(struct ivs_link_) + 1,
                   offset % sizeof(struct ivs_link_) ? "key" : "next");
    return text;
}

/* The map, or the space, under test, for names. */
struct ivs_map *subject_map;
struct iva_space *subject_space;

static bool name_in_space(const unsigned char *at, char *text, size_t size) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        {"config", offsetof(struct iva_space, config_)},
        {"gate.cell", offsetof(struct iva_space, gate_.cell_)},
        {"gate.next", offsetof(struct iva_space, gate_.next_)},
        {"gate.serving", offsetof(struct iva_space, gate_.serving_)},
        {"gate.event", offsetof(struct iva_space, gate_.event_)},
        {"total", offsetof(struct iva_space, total_)},
        {"locked", offsetof(struct iva_space, locked_)},
        {"areas", offsetof(struct iva_space, areas_)},
        {"stack_limit", offsetof(struct iva_space, stack_limit_)},
        {"brk", offsetof(struct iva_space, brk_)},
        {"future", offsetof(struct iva_space, future_)},
        {"frees", offsetof(struct iva_space, frees_)},
        {"learning", offsetof(struct iva_space, learning_)},
        {"facts", offsetof(struct iva_space, facts_)},
        {"domain", offsetof(struct iva_space, own_)},
    };
    size_t offset, i = 0;
    if (!subject_space || at < (unsigned char *)&subject_space->config_ || at >= (unsigned char *)(subject_space + 1))
        return false;
    offset = (size_t)(at - (unsigned char *)subject_space);
    for (size_t j = 0; j < sizeof fields / sizeof fields[0]; j++)
        if (fields[j].offset <= offset && fields[j].offset >= fields[i].offset) i = j;
    (void)snprintf(text, size, "space.%s+%zu", fields[i].name, offset - fields[i].offset);
    return true;
}

static bool name_in_map(const unsigned char *at, char *text, size_t size) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
        {"head", 0},
        {"head.up", offsetof(struct ivs_map, head_links_)},
        {"map.domain", offsetof(struct ivs_map, domain_)},
        {"map.height", offsetof(struct ivs_map, height_)},
        {"map.bucket", offsetof(struct ivs_map, buckets_)},
        {"map.waits", offsetof(struct ivs_map, waits_)},
        {"map.restarts", offsetof(struct ivs_map, restarts_)},
        {"map.refusals", offsetof(struct ivs_map, refusals_)},
        {"domain.ops", offsetof(struct ivs_map, own_.ops_)},
        {"domain.ctx", offsetof(struct ivs_map, own_.ctx_)},
        {"domain.payload_size", offsetof(struct ivs_map, own_.payload_size_)},
        {"domain.seed", offsetof(struct ivs_map, own_.seed_)},
        {"domain.magic", offsetof(struct ivs_map, own_.magic_)},
        {"domain.records", offsetof(struct ivs_map, own_.records_)},
        {"domain.epoch", offsetof(struct ivs_map, own_.epoch_)},
        {"domain.crowd", offsetof(struct ivs_map, own_.crowd_)},
        {"domain.orphans", offsetof(struct ivs_map, own_.orphans_)},
    };
    size_t offset, i = 0;
    char field[32];
    if (!subject_map || at < (unsigned char *)subject_map || at >= (unsigned char *)(subject_map + 1)) return false;
    offset = (size_t)(at - (unsigned char *)subject_map);
    for (size_t j = 0; j < sizeof fields / sizeof fields[0]; j++) /* the nearest one at or before it */
        if (fields[j].offset <= offset && fields[j].offset >= fields[i].offset) i = j;
    if (i < 2) (void)snprintf(text, size, "head.%s", field_of_node(offset, field, sizeof field));
    else (void)snprintf(text, size, "%s+%zu", fields[i].name, offset - fields[i].offset);
    return true;
}

#if !defined(LAB_HOST)
static const char *field_of_record(size_t offset) {
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {
#define FIELD(name) {#name, offsetof(struct ivs_record_, name)}
        FIELD(nest), FIELD(releasing), FIELD(random), FIELD(index), FIELD(domain), FIELD(cookie),
        FIELD(mine), FIELD(active),    FIELD(seen),   FIELD(next),  FIELD(state),  FIELD(guard),
        FIELD(tag),  FIELD(open),      FIELD(closed), FIELD(count), FIELD(bytes),
#undef FIELD
    };
    size_t i = 0;
    for (size_t j = 0; j < sizeof fields / sizeof fields[0]; j++) /* in any order of the fields */
        if (fields[j].offset <= offset && (fields[i].offset > offset || fields[j].offset >= fields[i].offset)) i = j;
    return fields[i].name;
}
#endif

/* Records and nodes are told by what the map leads to; anything else is named by its address.
 * Reads memory as it is. */
void subject_name(const void *address, char *text, size_t size) {
    const unsigned char *at = address;
    char field[32];
    if (name_in_map(at, text, size) || name_in_space(at, text, size)) return;
    (void)snprintf(text, size, "...%05zx", (size_t)(uintptr_t)at & 0xfffff);
    if (!subject_map) return;
#if !defined(LAB_HOST)
    for (struct ivs_record_ *r = (struct ivs_record_ *)subject_map->own_.records_; r; r = r->next)
        if (at >= (unsigned char *)r && at < (unsigned char *)(r + 1))
            (void)snprintf(text, size, "record%u.%s", (unsigned)r->index,
                           field_of_record((size_t)(at - (unsigned char *)r)));
#endif
    for (struct ivs_node *n = ivs_ptr_(subject_map->head_.next_); n; n = ivs_ptr_(n->next_))
        if (at >= (unsigned char *)n && at < (unsigned char *)n + IVSKIP_NODE_BYTES(0, n->room_))
            (void)snprintf(text, size, "[%u,%u).%s", (unsigned)n->start, (unsigned)n->last + 1,
                           field_of_node((size_t)(at - (unsigned char *)n), field, sizeof field));
}

/* Plain accesses that only the compiler's hooks can see: the lab's own test that they are there. */
void subject_plain_write(uint64_t *at, uint64_t value) { *(volatile uint64_t *)at = value; }
uint64_t subject_plain_read(const uint64_t *at) { return *(const volatile uint64_t *)at; }
