/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void usage(FILE *to) {
    fprintf(
        to,
        "usage: lab [--short | --long | --endless] [--only WORD] [--modes LIST] [--stop] [--no-litmus] [--quiet]\n"
        "       lab --replay PROGRAM [--mode MODE] --schedule LIST   runs one execution, shows each step; 1: it fails\n"
        "       lab --list\n"
        "\n"
        "  --short      small bounds, a minute; the default\n"
        "  --long       larger bounds, minutes\n"
        "  --endless    --long, then random schedules with new seeds until something fails\n"
        "  --only WORD  programs with WORD in their names; no litmus shapes\n"
        "  --modes LIST of these, with commas; all of them if not given:\n"
        "               sc       interleavings, exhaustive within a bound of deviations\n"
        "               weak     the same in weak memory: a load may be stale, a store early\n"
        "               pct      random priorities (PCT), interleavings only\n"
        "               pctweak  the same in weak memory\n"
        "               memory   as sc; each allocation may fail\n"
        "               stopN    as sc; thread N may stop for ever at any step, the others must finish\n"
        "  --cost N     bounds grow for each program until about N schedules were run; 9000, or 25000 with --long\n"
        "  --stop       end at the first failure\n"
        "  --no-litmus  without the lab's own tests (litmus shapes, planted faults)\n"
        "  --quiet, -q  print failures and sums only\n"
        "  --replay PROGRAM, --mode MODE (one of the above; sc), --schedule LIST\n"
        "               as a failure prints them; \"17p1,43r2\": at step 17 the first of the other threads goes on,\n"
        "               at step 43 the third newest value is read (n: who goes on where the thread cannot,\n"
        "               s: stops, p: preempted, m: no memory, t: whose turn, r: reads or writes out of order)\n"
        "  --list       names of the programs\n"
        "  --help, -h   this\n"
        "\n"
        "A deviation is a choice other than the ordinary one: the running thread goes on, a load reads the newest\n"
        "value, memory is there, a sleeper sleeps on. The last line is `N passed, N failed`.\n"
        "Status: 0 all passed; 1 something failed; 2 wrong use.\n");
}

static int wrong(const char *what, const char *word) {
    fprintf(stderr, "lab: %s: %s; see --help\n", what, word);
    return 2;
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"short", 0, NULL, 's'}, {"long", 0, NULL, 'l'},      {"endless", 0, NULL, 'e'},  {"only", 1, NULL, 'o'},
        {"quiet", 0, NULL, 'q'}, {"cost", 1, NULL, 'C'},      {"replay", 1, NULL, 'r'},   {"mode", 1, NULL, 'm'},
        {"list", 0, NULL, 'L'},  {"no-litmus", 0, NULL, 'n'}, {"schedule", 1, NULL, 'c'}, {"modes", 1, NULL, 'M'},
        {"stop", 0, NULL, 'S'},  {"help", 0, NULL, 'h'},      {NULL, 0, NULL, 0}};
    struct tally tally = {0};
    const char *only = NULL, *replay = NULL, *mode = "sc", *schedule = NULL;
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
        case 'C': tally.cost = strtoul(optarg, NULL, 10); break;
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
    if (tally.modes && !programs_modes(tally.modes)) return wrong("not a list of modes", tally.modes);
    if (strchr(mode, ',') || !programs_modes(mode)) return wrong("not a mode", mode);
    if (replay && !schedule) return wrong("no --schedule for", replay);
    if (!replay && schedule) return wrong("--schedule without --replay", schedule);
    if (replay) return programs_replay(replay, mode, schedule);
    if (litmus && !only) litmus_run(&tally);
    programs_run(&tally, effort, only);
    if (!tally.passed && !tally.failed) return wrong("no program", only ? only : "");
    printf("lab: %lu schedules, %lu steps, %lu points of choice, %u programs explored to their bound, %.1f s\n",
           tally.schedules, tally.steps, tally.states, tally.explored, now_s() - begin);
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.failed || !tally.passed;
}
