/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "run.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void tally_add(struct tally *tally, const struct lab_result *result, bool good, const char *kind, const char *name,
               const char *remark) {
    tally->schedules += result->schedules;
    tally->steps += result->steps;
    if (good) tally->passed++;
    else tally->failed++;
    if (good && tally->quiet) return;
    printf("%s %-7s %-52s %8lu schedules%s  %s\n", good ? "ok  " : "FAIL", kind, name, result->schedules,
           result->complete ? ", all" : "", remark);
    if (result->failed) printf("     %s\n     schedule %s\n", result->reason, result->schedule);
    fflush(stdout);
}

static void usage(FILE *to) {
    fprintf(
        to,
        "usage: lab [--short | --long | --endless] [--only WORD] [--modes LIST] [--stop] [--no-litmus] [--quiet]\n"
        "       lab --replay PROGRAM --mode sc|weak|memory|stopN --schedule LIST    shows a failing execution\n"
        "       lab --list\n"
        "--short   about two minutes, for `make test`;  --long  about ten;  --endless  random schedules until stopped\n"
        "--modes   of sc, weak, memory, pct, pctweak;  --stop  at the first failure\n"
        "The last line is `N passed, N failed`.\n");
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"short", 0, NULL, 's'},     {"long", 0, NULL, 'l'},     {"endless", 0, NULL, 'e'}, {"only", 1, NULL, 'o'},
        {"quiet", 0, NULL, 'q'},     {"replay", 1, NULL, 'r'},   {"mode", 1, NULL, 'm'},    {"list", 0, NULL, 'L'},
        {"no-litmus", 0, NULL, 'n'}, {"schedule", 1, NULL, 'c'}, {"modes", 1, NULL, 'M'},   {"stop", 0, NULL, 'S'},
        {"help", 0, NULL, 'h'},      {NULL, 0, NULL, 0}};
    struct tally tally = {0};
    const char *only = NULL, *replay = NULL, *mode = "sc", *schedule = "";
    enum effort effort = SHORT;
    bool litmus = true;
    double begin = now_s();
    for (int c; (c = getopt_long(argc, argv, "hq", longs, NULL)) != -1;) {
        switch (c) {
        case 's': effort = SHORT; break;
        case 'l': effort = LONG; break;
        case 'e': effort = ENDLESS; break;
        case 'o': only = optarg; break;
        case 'q': tally.quiet = true; break;
        case 'r': replay = optarg; break;
        case 'm': mode = optarg; break;
        case 'c': schedule = optarg; break;
        case 'n': litmus = false; break;
        case 'M': tally.modes = optarg; break;
        case 'S': tally.stop = true; break;
        case 'L': programs_list(); return 0;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 2;
    }
    if (replay) return programs_replay(replay, mode, schedule);
    if (litmus && !only) litmus_run(&tally);
    programs_run(&tally, effort, only);
    printf("lab: %lu schedules, %lu steps, %.1f s\n", tally.schedules, tally.steps, now_s() - begin);
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.failed || !tally.passed;
}
