/* SPDX-License-Identifier: MIT */
/*
 * The kernel's allocator: an arena that is cut into pieces, and a list of free pieces for each size, a multiple of 16.
 * Who frees says the size, so a piece needs no header. One spin lock, interrupts off: callbacks free in the tick.
 */
#include "kernel.h"

enum { STEP = 16, SIZES = 64, ARENA_BYTES = 16 << 20 };

struct piece {
    struct piece *next;
};

static unsigned char arena[ARENA_BYTES] __attribute__((aligned(STEP)));
static size_t arena_used;
static bool arena_up;
static struct piece *free_pieces[SIZES + 1]; /* by size / STEP */
static struct spinlock memory_lock;

void memory_begin(void) { arena_up = true; }

static size_t steps_of(size_t bytes) { return (bytes + STEP - 1) / STEP; }

void *memory_alloc(size_t bytes) {
    size_t steps = steps_of(bytes);
    void *memory = NULL;
    uint64_t flags;
    if (!arena_up) panic("the allocator is not up yet");
    if (steps < 1 || steps > SIZES) return NULL;
    flags = spin_lock(&memory_lock);
    if (free_pieces[steps]) {
        memory = free_pieces[steps];
        free_pieces[steps] = free_pieces[steps]->next;
    } else if (arena_used + steps * STEP <= ARENA_BYTES) {
        memory = &arena[arena_used];
        arena_used += steps * STEP;
    }
    spin_unlock(&memory_lock, flags);
    return memory;
}

void memory_free(void *memory, size_t bytes) {
    size_t steps = steps_of(bytes);
    struct piece *piece = memory;
    uint64_t flags = spin_lock(&memory_lock);
    piece->next = free_pieces[steps];
    free_pieces[steps] = piece;
    spin_unlock(&memory_lock, flags);
}

/* The compiler calls these two by itself. */
void *memcpy(void *to, const void *from, size_t bytes) {
    void *result = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
    return result;
}

void *memset(void *to, int value, size_t bytes) {
    void *result = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
    return result;
}
