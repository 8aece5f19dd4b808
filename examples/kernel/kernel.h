/* SPDX-License-Identifier: MIT */
/* What the kernel's files know of each other. x86-64, no scheduler: each processor runs one thing. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_CPUS = 8, STACK_BYTES = 32768, TICK_VECTOR = 32, SPURIOUS_VECTOR = 255 };

/* A processor's own data; GS points at it. */
struct cpu {
    struct cpu *self; /* first: read through GS */
    unsigned index;
    unsigned sections; /* RCU: open read sections */
    uint64_t seen;     /* RCU: the last epoch in which a tick found no section here */
    uint64_t random;
} __attribute__((aligned(64)));

extern struct cpu cpus[MAX_CPUS];
extern unsigned cpu_count;

static inline struct cpu *this_cpu(void) {
    struct cpu *cpu;
    __asm__("movq %%gs:0, %0" : "=r"(cpu));
    return cpu;
}

static inline void cpu_relax(void) { __builtin_ia32_pause(); }

static inline void outb(uint16_t port, uint8_t value) { __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port)); }

static inline void outw(uint16_t port, uint16_t value) { __asm__ volatile("outw %0, %1" ::"a"(value), "Nd"(port)); }

static inline uint8_t inb(uint16_t port) {
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

_Noreturn void panic(const char *why);

enum { FLAG_INTERRUPTS = 1 << 9 };

/* A lock that interrupt handlers take too: interrupts are off while it is held. */
struct spinlock {
    uint32_t held;
};

/* Returns the flags for unlock. The lock is for short stretches only. */
static inline uint64_t spin_lock(struct spinlock *lock) {
    uint64_t flags;
    __asm__ volatile("pushfq; popq %0; cli" : "=r"(flags)::"memory");
    while (__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE)) cpu_relax(); /* [P1] */
    return flags;
}

static inline void spin_unlock(struct spinlock *lock, uint64_t flags) {
    uint64_t now;
    __asm__ volatile("pushfq; popq %0" : "=r"(now)::"memory");
    if (now & FLAG_INTERRUPTS) panic("interrupts were on under a spin lock");
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); /* [P1] */
    __asm__ volatile("pushq %0; popfq" ::"r"(flags) : "memory", "cc");
}

/* serial.c */
void serial_begin(void);
void serial_print(const char *text);
_Noreturn void machine_exit(bool passed); /* ends the emulator: its status is 33 if passed, else 3 */

/* cpu.c */
void cpu_begin(void);                                             /* the first processor, and the clock */
void cpu_start_others(void);                                      /* returns when all run and tick */
void cpu_run_all(void (*fn)(void *arg, unsigned cpu), void *arg); /* on all at once; waits for all */
uint64_t clock_now(void);                                         /* monotonic nanoseconds */
extern void (*tick_hook)(void); /* called in each tick of each processor; may be NULL */

/* memory.c */
void memory_begin(void);
void *memory_alloc(size_t bytes); /* 8-byte aligned, or NULL; from any context */
void memory_free(void *memory, size_t bytes);

#endif
