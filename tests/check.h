/* SPDX-License-Identifier: MIT */
/*
 * The harness. One test body, two runners: Criterion (-DWITH_CRITERION; each test in a process of its own) and the
 * plain runner of run.c (all in one process: for sanitizers, emulators, debuggers).
 *
 *     TEST(suite, what_is_true_in_one_sentence) {
 *         CHECK(1 + 1 == 2, "sum %d", 1 + 1);
 *     }
 *
 * CHECK may be used from any thread. It says where it failed, counts the failure, and goes on; its value is the
 * condition's. Environment: SEED (default fixed), SCALE (length of the random tests, default 1), SLOW (factor of the
 * watchdog's 120 s).
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define CHECK(cond, ...) check_that((cond), __FILE__, __LINE__, #cond, __VA_ARGS__)

/* Records a failure unless `ok`; the first twenty of a test are printed. Returns `ok`. */
bool check_that(bool ok, const char *file, int line, const char *text, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether the running test has failed so far: to leave long loops early. */
bool test_failed(void);

/* The seed of the running test, printed once for each test. */
uint64_t test_seed(void);

/* `count` times SCALE, at least 1. */
unsigned test_scale(unsigned count);

/* For the runners: start and end of a test in the main thread; the end gives the number of failures. */
void check_begin(const char *suite, const char *name);
unsigned check_end(void);

/* Called by the watchdog and on a crash before the process ends, with the name of the test that did it. */
extern void (*check_on_death)(const char *suite, const char *name);

struct check_case {
    const char *suite;
    const char *name;
    void (*body)(void);
    struct check_case *next;
};
void check_register(struct check_case *test);

#if defined(WITH_CRITERION)
#include <criterion/criterion.h>
#define TEST(suite_, name_)                                                                                            \
    static void suite_##_##name_##_body(void);                                                                         \
    Test(suite_, name_) {                                                                                              \
        check_begin(#suite_, #name_);                                                                                  \
        suite_##_##name_##_body();                                                                                     \
        unsigned failures = check_end();                                                                               \
        cr_assert(failures == 0, "%u checks failed", failures);                                                        \
    }                                                                                                                  \
    static void suite_##_##name_##_body(void)
#else
#define TEST(suite_, name_)                                                                                            \
    static void suite_##_##name_##_body(void);                                                                         \
    static struct check_case suite_##_##name_##_case = {#suite_, #name_, suite_##_##name_##_body, 0};                  \
    __attribute__((constructor)) static void suite_##_##name_##_register(void) {                                       \
        check_register(&suite_##_##name_##_case);                                                                      \
    }                                                                                                                  \
    static void suite_##_##name_##_body(void)
#endif

#endif
