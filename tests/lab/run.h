/* SPDX-License-Identifier: MIT */
/* What the lab's runs add up to. */
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "lab.h"

struct tally {
    unsigned passed, failed, explored; /* `explored`: programs on the map, to the end of their bound */
    unsigned long schedules, steps, states;
    bool quiet, stop;   /* say failures only; end at the first */
    const char *modes;  /* NULL: all */
    unsigned long cost; /* schedules for a program in a mode, about; 0: as the effort says */
};

/* Notes one program's result and prints a line for it. */
void tally_add(struct tally *tally, const struct lab_result *result, bool good, const char *kind, const char *name,
               const char *remark);

void litmus_run(struct tally *tally);

/* A program of a room. */
struct entry {
    struct lab_program program;
    bool sc_only;  /* a shape that C11 release and acquire alone does not order */
    bool deep;     /* worth more time */
    bool costly;   /* its executions are long: fewer in the short run */
    unsigned part; /* gets so small a part of the usual schedules, and of the random ones; 0: all */
    unsigned pct_part;
    bool may_stop[3]; /* the others must finish when this thread stops for ever */
};
size_t map_programs(void); /* programs.c: on the map, and range locks */
struct entry map_program(size_t i);
size_t space_programs(void); /* space.c: on an address space, its gate and its counters */
struct entry space_program(size_t i);

/* All of them (run.c). */
enum effort { SHORT, LONG, ENDLESS };
void programs_run(struct tally *tally, enum effort effort, const char *only);
int programs_replay(const char *name, const char *mode, const char *schedule);
void programs_list(void);
bool programs_modes(const char *list); /* does it name modes only? */

/* One execution: the first byte picks the program, the second the mode, the others are its choices. 1: it failed. */
int programs_bytes(const uint8_t *bytes, size_t count);

#endif
