/* SPDX-License-Identifier: MIT */
/* Boots, and runs the conformance self-test with the port of this kernel. */
#include "conform.h"
#include "ivskip_port.h"

static void print(void *ctx, const char *text) {
    (void)ctx;
    serial_print(text);
}

static void run_all(void *ctx, void (*fn)(void *arg, unsigned cpu), void *arg) {
    (void)ctx;
    cpu_run_all(fn, arg);
}

static void relax(void *ctx) {
    (void)ctx;
    cpu_relax();
}

static uint64_t now(void *ctx) {
    (void)ctx;
    return clock_now();
}

static void allocator_up(void *ctx) {
    (void)ctx;
    memory_begin();
}

static void *alloc(void *ctx, size_t bytes) {
    (void)ctx;
    return memory_alloc(bytes);
}

static void give_back(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    memory_free(memory, bytes);
}

static void each_tick(void *ctx, void (*fn)(void)) {
    (void)ctx;
    __atomic_store_n(&tick_hook, fn, __ATOMIC_RELEASE); /* [P1] of cpu.c */
}

/* The first processor comes here from boot.S. */
_Noreturn void kernel_main(void) {
    struct conform_host host = {
        .knows_sections = true,
        .print = print,
        .run_all = run_all,
        .relax = relax,
        .idle = relax,
        .now = now,
        .allocator_up = allocator_up,
        .alloc = alloc,
        .free = give_back,
        .each_tick = each_tick,
    };
    char text[] = "ivskip kernel: 0 processors\n";
    serial_begin();
    cpu_begin();
    cpu_start_others();
    text[15] = (char)('0' + cpu_count);
    serial_print(text);
    host.cpus = cpu_count;
    machine_exit(conform_run(&host) == 0);
}
