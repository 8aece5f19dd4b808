/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCHDOG_SECONDS 120
#define PRINTED_FAILURES 20
#define DEFAULT_SEED     20251013

void (*check_on_death)(const char *suite, const char *name);

static const char *running_suite = "";
static const char *running_name = "";
static atomic_uint failures;
static atomic_bool seed_printed;

static double environment_number(const char *name, double otherwise) {
    const char *text = getenv(name);
    char *end = NULL;
    double value = text && *text ? strtod(text, &end) : otherwise;
    if (text && *text && (*end || value <= 0)) {
        fprintf(stderr, "%s=%s is not a positive number\n", name, text);
        exit(2);
    }
    return value;
}

bool check_that(bool ok, const char *file, int line, const char *text, const char *format, ...) {
    if (ok) return true;
    unsigned before = atomic_fetch_add(&failures, 1);
    if (before >= PRINTED_FAILURES) return false;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fprintf(stderr, "%s:%d: FAIL %s/%s: (%s) is false: %s [SEED=%llu]\n", file, line, running_suite, running_name, text,
            message, (unsigned long long)test_seed());
    return false;
}

bool test_failed(void) { return atomic_load(&failures) != 0; }

uint64_t test_seed(void) {
    const char *text = getenv("SEED");
    uint64_t seed = text && *text ? strtoull(text, NULL, 0) : DEFAULT_SEED;
    if (!atomic_exchange(&seed_printed, true))
        printf("     %s/%s: SEED=%llu\n", running_suite, running_name, (unsigned long long)seed);
    return seed;
}

unsigned test_scale(unsigned count) {
    double scaled = (double)count * environment_number("SCALE", 1);
    return scaled < 1 ? 1 : (unsigned)scaled;
}

/* Signal handlers: only write(2) and _exit(2). */
static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(3);
}

static void die(const char *why) {
    say("\nFAIL ");
    say(running_suite);
    say("/");
    say(running_name);
    say(why);
    if (check_on_death) check_on_death(running_suite, running_name);
}

static void on_alarm(int signal_number) {
    (void)signal_number;
    die(": hangs, ended by the watchdog\n");
    _exit(1);
}

static void on_crash(int signal_number) {
    die(": crashed\n");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool sanitizer_owns_the_signals(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

void check_begin(const char *suite, const char *name) {
    running_suite = suite;
    running_name = name;
    atomic_store(&failures, 0);
    atomic_store(&seed_printed, false);
    signal(SIGALRM, on_alarm);
    if (!sanitizer_owns_the_signals()) {
        signal(SIGSEGV, on_crash);
        signal(SIGBUS, on_crash);
        signal(SIGABRT, on_crash);
    }
    alarm((unsigned)(WATCHDOG_SECONDS * environment_number("SLOW", 1)));
}

unsigned check_end(void) {
    alarm(0);
    return atomic_load(&failures);
}
