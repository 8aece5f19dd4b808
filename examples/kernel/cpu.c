/* SPDX-License-Identifier: MIT */
/*
 * Processors: the descriptor tables, the local APIC and its timer, the start of the others, work for all, the clock.
 *
 *   P1  work is put up -> who sees its number does it; who is done counts itself -> who waits for all.
 *   P2  a processor counts itself as up -> who started it.
 */
#include "ivskip_port.h"

enum { LAPIC_ID = 0x20, LAPIC_EOI = 0xb0, LAPIC_SPURIOUS = 0xf0, LAPIC_COMMAND = 0x300, LAPIC_TIMER = 0x320 };
enum { LAPIC_TIMER_COUNT = 0x380, LAPIC_TIMER_LEFT = 0x390, LAPIC_TIMER_DIVIDE = 0x3e0 };
enum { SAMPLE_MS = 20, PIT_HZ = 1193182, TRAMPOLINE = 0x8000, MSR_GS_BASE = 0xc0000101, FW_CFG_CPUS = 5 };

struct cpu cpus[MAX_CPUS];
unsigned cpu_count = 1;
void (*tick_hook)(void);

static struct gate {
    uint16_t low, selector, attributes, middle;
    uint32_t high, unused;
} idt[256];

static uint64_t tsc_begin, tsc_scale; /* nanoseconds are (tsc - begin) * scale / 2^32 */
static uint32_t tick_count;           /* of the local timer, for a millisecond */
static uint32_t cpus_up = 1;

static struct {
    void (*fn)(void *arg, unsigned cpu);
    void *arg;
    uint64_t number; /* of this work; grows */
    uint32_t done;
} work;

/* boot.S */
extern char trampoline[], trampoline_end[], exception_entries[], tick_entry[], spurious_entry[];
void cpu_main(unsigned index);
void exception(uint64_t vector, uint64_t rip);
void tick(void);

static volatile uint32_t *lapic(unsigned reg) { return (volatile uint32_t *)(uintptr_t)(0xfee00000u + reg); }

static uint64_t tsc_read(void) {
    uint32_t low, high;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

uint64_t clock_now(void) { return (uint64_t)((unsigned __int128)(tsc_read() - tsc_begin) * tsc_scale >> 32); }

/* Counts 20 ms by the old timer's second channel, and sees how far the processor's clocks come. */
static void clock_begin(void) {
    uint32_t count = PIT_HZ / (1000 / SAMPLE_MS);
    outb(0x61, (uint8_t)((inb(0x61) & ~2u) | 1u));
    outb(0x43, 0xb0); /* channel 2, low and high byte, one shot */
    outb(0x42, (uint8_t)count);
    *lapic(LAPIC_TIMER_DIVIDE) = 0xb; /* by 1 */
    outb(0x42, (uint8_t)(count >> 8));
    tsc_begin = tsc_read();
    *lapic(LAPIC_TIMER_COUNT) = UINT32_MAX;
    while (!(inb(0x61) & 0x20)) {
    }
    tsc_scale = ((uint64_t)SAMPLE_MS * 1000000u << 32) / (tsc_read() - tsc_begin);
    tick_count = (UINT32_MAX - *lapic(LAPIC_TIMER_LEFT)) / SAMPLE_MS;
    *lapic(LAPIC_TIMER_COUNT) = 0;
}

static void tick_begin(void) {
    *lapic(LAPIC_TIMER_DIVIDE) = 0xb;
    *lapic(LAPIC_TIMER) = TICK_VECTOR | 0x20000; /* again and again */
    *lapic(LAPIC_TIMER_COUNT) = tick_count;
}

/* The timer interrupt. The hook is read once, for it may go away meanwhile. */
void tick(void) {
    void (*hook)(void) = __atomic_load_n(&tick_hook, __ATOMIC_ACQUIRE); /* [P1] */
    if (hook) hook();
    port_rcu_tick();
    *lapic(LAPIC_EOI) = 0;
}

void exception(uint64_t vector, uint64_t rip) {
    char text[] = "exception 00 at 0000000000000000";
    text[10] = (char)('0' + vector / 10);
    text[11] = (char)('0' + vector % 10);
    for (int i = 0; i < 16; i++) text[31 - i] = "0123456789abcdef"[rip >> (4 * i) & 15];
    panic(text);
}

static void gate_set(unsigned vector, const char *entry) {
    uint64_t address = (uint64_t)(uintptr_t)entry;
    idt[vector] = (struct gate){(uint16_t)address, 8, 0x8e00, (uint16_t)(address >> 16), (uint32_t)(address >> 32), 0};
}

/* What each processor does for itself; from here on it may be interrupted. */
static void cpu_begin_own(unsigned index) {
    struct __attribute__((packed)) {
        uint16_t limit;
        uint64_t base;
    } table = {sizeof(idt) - 1, (uint64_t)(uintptr_t)idt};
    struct cpu *cpu = &cpus[index];
    uint64_t base = (uint64_t)(uintptr_t)cpu;
    cpu->self = cpu;
    cpu->index = index;
    cpu->random = 0x9e3779b97f4a7c15u * (index + 1) ^ tsc_read();
    __asm__ volatile("wrmsr" ::"c"(MSR_GS_BASE), "a"((uint32_t)base), "d"((uint32_t)(base >> 32)));
    __asm__ volatile("lidt %0" ::"m"(table));
    *lapic(LAPIC_SPURIOUS) = 0x100 | SPURIOUS_VECTOR; /* on */
    if (index == 0) clock_begin();
    tick_begin();
    __asm__ volatile("sti");
}

void cpu_begin(void) {
    for (unsigned i = 0; i < 32; i++) gate_set(i, exception_entries + 16 * i);
    gate_set(TICK_VECTOR, tick_entry);
    gate_set(SPURIOUS_VECTOR, spurious_entry);
    outb(0x21, 0xff); /* the old interrupt controllers stay silent */
    outb(0xa1, 0xff);
    cpu_begin_own(0);
}

static void wait_us(uint64_t us) {
    for (uint64_t begin = clock_now(); clock_now() - begin < us * 1000;) cpu_relax();
}

/* The emulator tells how many there are. */
static unsigned cpus_present(void) {
    unsigned n;
    outw(0x510, FW_CFG_CPUS);
    n = inb(0x511);
    n |= (unsigned)inb(0x511) << 8;
    return n < 1 ? 1 : n > MAX_CPUS ? MAX_CPUS : n;
}

void cpu_start_others(void) {
    unsigned present = cpus_present();
    if (present == 1) return;
    __builtin_memcpy((void *)TRAMPOLINE, trampoline, (size_t)(trampoline_end - trampoline));
    *lapic(LAPIC_COMMAND) = 0xc4500; /* INIT to all others, then twice: start at the trampoline */
    wait_us(10000);
    for (int i = 0; i < 2; i++) {
        *lapic(LAPIC_COMMAND) = 0xc4600 | TRAMPOLINE >> 12;
        wait_us(200);
    }
    for (uint64_t begin = clock_now(); __atomic_load_n(&cpus_up, __ATOMIC_ACQUIRE) < present;) /* [P2] */
        if (clock_now() - begin > 5000000000u) panic("a processor did not start");
    cpu_count = present; /* from now on an epoch waits for them */
}

static void work_wait(void) { __asm__ volatile("hlt"); /* until the next tick */ }

/* A processor other than the first: it waits for work. */
void cpu_main(unsigned index) {
    uint64_t seen = 0;
    if (index >= MAX_CPUS) {
        for (;;) __asm__ volatile("cli; hlt");
    }
    cpu_begin_own(index);
    __atomic_add_fetch(&cpus_up, 1, __ATOMIC_RELEASE); /* [P2] */
    for (;;) {
        while (__atomic_load_n(&work.number, __ATOMIC_ACQUIRE) == seen) work_wait(); /* [P1] */
        seen++;
        work.fn(work.arg, index);
        __atomic_add_fetch(&work.done, 1, __ATOMIC_RELEASE); /* [P1] */
    }
}

void cpu_run_all(void (*fn)(void *arg, unsigned cpu), void *arg) {
    work.fn = fn;
    work.arg = arg;
    work.done = 0;
    __atomic_add_fetch(&work.number, 1, __ATOMIC_RELEASE); /* [P1] */
    fn(arg, 0);
    while (__atomic_load_n(&work.done, __ATOMIC_ACQUIRE) < cpu_count - 1) work_wait(); /* [P1] */
}
