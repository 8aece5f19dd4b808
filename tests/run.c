/* SPDX-License-Identifier: MIT */
/*
 * The plain runner: all tests in this process, in the order of the files. Arguments are filters: a test runs if its
 * "suite/name" contains one of them. The last line is "N passed, N failed".
 */
#include "check.h"
#include "rcu_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct check_case *first, **last = &first;
static unsigned passed, failed;

void check_register(struct check_case *test) {
    *last = test;
    last = &test->next;
}

/* Runs in a signal handler. */
static void summary_before_death(const char *suite, const char *name) {
    (void)suite;
    (void)name;
    char text[64];
    int length = snprintf(text, sizeof text, "\n%u passed, %u failed\n", passed, failed + 1);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0) _exit(3);
}

static bool wanted(const struct check_case *test, int filters, char **filter, bool *used) {
    char full[512];
    bool hit = filters == 0;
    snprintf(full, sizeof full, "%s/%s", test->suite, test->name);
    for (int i = 0; i < filters; i++) {
        if (!strstr(full, filter[i])) continue;
        used[i] = true;
        hit = true;
    }
    return hit;
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_one(const struct check_case *test) {
    double begin = now_seconds();
    printf("     %s/%s\n", test->suite, test->name);
    fflush(stdout);
    check_begin(test->suite, test->name);
    test->body();
    rcu_quiescent();
    bool ok = check_end() == 0;
    passed += ok;
    failed += !ok;
    printf("%-4s %s/%s (%.2f s)\n", ok ? "ok" : "FAIL", test->suite, test->name, now_seconds() - begin);
    fflush(stdout);
}

int main(int argc, char **argv) {
    bool *used = calloc((size_t)argc, sizeof *used);
    if (!used) return 2;
    check_on_death = summary_before_death;
    rcu_thread_begin();
    for (const struct check_case *test = first; test; test = test->next)
        if (wanted(test, argc - 1, argv + 1, used)) run_one(test);
    for (int i = 0; i < argc - 1; i++) {
        if (used[i]) continue;
        fprintf(stderr, "no test matches \"%s\"\n", argv[i + 1]);
        failed++;
    }
    rcu_thread_end();
    free(used);
    printf("%u passed, %u failed\n", passed, failed);
    fflush(stdout);
    return failed || !passed;
}
