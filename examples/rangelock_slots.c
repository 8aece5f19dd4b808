/* SPDX-License-Identifier: MIT */
/*
 * Memory slots of a virtual machine monitor: one header gives both parts.
 *
 *     map    guest-physical addresses -> the slot that backs them (ivs_map): looked up by every access, without a lock
 *     lock   ranges of guest-physical addresses (ivs_range_lock): device threads copy under shared ranges, whoever
 *            removes or moves a slot takes its range alone, and so waits for just the copies that are in it
 *
 * Device threads copy to and from random places, also across slots. Meanwhile one thread unplugs slots and plugs them in
 * again with fresh memory, and the old memory is unmapped at once: a copy that was still in it would crash.
 *
 *     cc -O2 -pthread -I. examples/rangelock_slots.c -o rangelock_slots && ./rangelock_slots
 */
#define _GNU_SOURCE
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 16, SLOT = 64 << 10, DEVICES = 2 };
static const uint64_t base = 0x100000000; /* where guest memory begins */

struct slot {
    uint64_t start;
    unsigned char *memory; /* every byte of it holds the slot's number */
    unsigned char number;
};

static struct ivs_map slots;
static struct ivs_range_lock busy = IVS_RANGE_LOCK_INIT;
static unsigned copies = 200000, failed;
static int stop;

static struct slot *slot_new(unsigned number) {
    struct slot *slot = malloc(sizeof *slot);
    if (!slot) return NULL;
    slot->start = base + (uint64_t)number * SLOT;
    slot->number = (unsigned char)number;
    slot->memory = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot->memory == MAP_FAILED) {
        free(slot);
        return NULL;
    }
    memset(slot->memory, (int)number, SLOT);
    return slot;
}

static void slot_free(struct slot *slot) {
    munmap(slot->memory, SLOT);
    free(slot);
}

/* Copies out of guest memory, also over several slots. -1: a part of it is not there (nothing is said of the rest). */
static int guest_read(uint64_t from, unsigned char *to, uint64_t bytes) {
    struct ivs_range range = IVS_RANGE_INIT;
    struct ivs_entry hit;
    int r = 0;
    if (ivs_range_lock(&busy, &range, from, from + bytes, IVS_SHARED)) return -1;
    while (bytes && r == 0) {
        if (ivs_map_lookup(&slots, from, &hit)) {
            r = -1; /* unplugged just now */
        } else {    /* the value stays while we share the range: whoever takes it out must hold it alone */
            const struct slot *slot = hit.value;
            uint64_t part = hit.end - from < bytes ? hit.end - from : bytes;
            memcpy(to, slot->memory + (from - slot->start), part);
            from += part;
            to += part;
            bytes -= part;
        }
    }
    (void)ivs_range_unlock(&busy, &range);
    return r;
}

/* A new slot in the place of an old one, whose memory is gone when this returns. */
static int slot_replace(unsigned number) {
    uint64_t start = base + (uint64_t)number * SLOT;
    struct ivs_range range = IVS_RANGE_INIT;
    struct ivs_entry old;
    struct slot *fresh = slot_new(number);
    int r = -1;
    if (!fresh) return -1;
    if (ivs_range_lock(&busy, &range, start, start + SLOT, IVS_EXCLUSIVE)) {
        slot_free(fresh);
        return -1;
    }
    if (ivs_map_lookup(&slots, start, &old) == 0 && ivs_map_unmap(&slots, start, start + SLOT) == 0) {
        slot_free(old.value); /* no grace period is needed: copies hold the range */
        r = ivs_map_map(&slots, start, start + SLOT, fresh);
    }
    (void)ivs_range_unlock(&busy, &range);
    return r;
}

static void *device(void *arg) {
    static __thread unsigned char buffer[2 * SLOT];
    uint64_t random = 88172645463325252u + (uint64_t)(uintptr_t)arg;
    for (unsigned i = 0; i < copies; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t offset = random % (SLOTS * (uint64_t)SLOT - 4096), bytes = 1 + (random >> 40) % 4096;
        if (guest_read(base + offset, buffer, bytes)) __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
        else
            for (uint64_t k = 0; k < bytes; k++)
                if (buffer[k] != (unsigned char)((offset + k) / SLOT)) __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *plugger(void *arg) {
    unsigned *replaced = arg;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        if (slot_replace(*replaced % SLOTS)) __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
        ++*replaced;
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t devices[DEVICES], other;
    struct ivs_range_stats stats;
    unsigned replaced = 0;
    if (argc == 2 && strcmp(argv[1], "--help") != 0) copies = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2 || copies == 0 || (argc == 2 && !strcmp(argv[1], "--help"))) {
        printf("usage: rangelock_slots [COPIES]\n\n  COPIES   by each of %d device threads; 200000\n"
               "\nStatus: 0 every byte was as it should be.\n",
               DEVICES);
        return copies == 0 || argc > 2 ? 2 : 0;
    }
    if (ivs_map_init(&slots, NULL)) return 1;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot *slot = slot_new(i);
        if (!slot || ivs_map_map(&slots, slot->start, slot->start + SLOT, slot)) return 1;
    }
    for (uintptr_t i = 0; i < DEVICES; i++)
        if (pthread_create(&devices[i], NULL, device, (void *)i)) return 1;
    if (pthread_create(&other, NULL, plugger, &replaced)) return 1;
    for (int i = 0; i < DEVICES; i++) pthread_join(devices[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    (void)ivs_range_lock_get_stats(&busy, &stats);
    printf("%u copies, %u slots replaced meanwhile, %u failures; %llu waits, the longest %.3f ms\n", DEVICES * copies,
           replaced, failed, (unsigned long long)stats.waits, (double)stats.longest_wait / 1e6);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct ivs_entry hit;
        if (ivs_map_lookup(&slots, base + (uint64_t)i * SLOT, &hit)) return 1;
        slot_free(hit.value);
    }
    if (ivs_map_destroy(&slots) || ivs_range_lock_destroy(&busy)) return 1;
    return failed != 0;
}
