/* SPDX-License-Identifier: MIT */
/* Runs the programs of all rooms in all modes, or one of them once more. */
#include "run.h"

#include <stdio.h>
#include <string.h>

void tally_add(struct tally *tally, const struct lab_result *result, bool good, const char *kind, const char *name,
               const char *remark) {
    tally->schedules += result->schedules;
    tally->steps += result->steps;
    if (good) tally->passed++;
    else tally->failed++;
    if (result->complete && strcmp(kind, "litmus") != 0 && strcmp(kind, "fault") != 0) tally->explored++;
    tally->states += result->points;
    if (good && tally->quiet) return;
    char bound[40] = "";
    if (result->complete) (void)snprintf(bound, sizeof bound, ", all within %u deviations", result->deviations);
    printf("%s %-7s %-52s %8lu schedules%s  %s\n", good ? "ok  " : "FAIL", kind, name, result->schedules, bound,
           remark);
    if (result->failed) printf("     %s\n", result->reason);
    fflush(stdout);
}

static const char *const mode_names[] = {"sc", "pctweak", "weak", "pct", "memory", "stop0", "stop1", "stop2"};
enum { MODES = sizeof mode_names / sizeof mode_names[0] };

static size_t entry_count(void) { return map_programs() + space_programs(); }

static struct entry entry_at(size_t i) {
    return i < map_programs() ? map_program(i) : space_program(i - map_programs());
}

/* `schedules`: what it may cost, about. */
static struct lab_options mode_options(const char *mode, const struct entry *entry, enum effort effort) {
    struct lab_options o = {.stop_thread = -1, .seed = 1, .deviations = 0};
    o.schedules = effort == SHORT ? 9000 : 25000;
    if (entry->deep) o.schedules *= effort == SHORT ? 1 : 4;
    if (effort == SHORT && entry->costly) o.schedules /= 4;
    if (entry->part) o.schedules /= entry->part;
    o.weak = strstr(mode, "weak") != NULL;
    if (strcmp(mode, "memory") == 0) {
        o.fail_memory = true;
        o.schedules /= 6;
    } else if (strncmp(mode, "stop", 4) == 0) {
        o.stop_thread = mode[4] - '0';
        o.schedules /= 6;
    } else if (strncmp(mode, "pct", 3) == 0) {
        o.pct_depth = 3;
        o.schedules = (effort == SHORT ? 300 : 4000) / (entry->pct_part ? entry->pct_part : 1);
    }
    return o;
}

/* Explores with one deviation more each time, as long as the cost allows. */
static struct lab_result deepen(const struct lab_program *program, struct lab_options o) {
    unsigned long cost = o.schedules, before = 0;
    struct lab_result all = {0};
    if (!o.pct_depth) o.schedules *= 4;
    for (;; o.deviations++) {
        struct lab_result r = lab_explore(program, &o);
        r.schedules += all.schedules;
        r.steps += all.steps;
        r.points += all.points;
        if (!r.complete && !r.failed && all.complete) { /* that was too much */
            r.complete = true;
            r.deviations = all.deviations;
            return r;
        }
        unsigned long now = r.schedules - all.schedules;
        if (!r.complete || r.failed || now == before) return r;
        if (!before && now * (r.points / r.schedules) > 2 * cost) return r; /* each point of choice, once */
        if (before && (double)now * (double)now / (double)before * o.deviations / (o.deviations + 1) > (double)cost)
            return r;
        before = now;
        all = r;
    }
}

static void run_mode(struct tally *tally, const struct entry *entry, const char *mode, enum effort effort,
                     uint64_t seed) {
    struct lab_options o = mode_options(mode, entry, effort);
    o.seed = seed;
    if (tally->cost) o.schedules = tally->cost;
    struct lab_result result = deepen(&entry->program, o);
    tally_add(tally, &result, !result.failed, mode, entry->program.name, "");
    if (result.failed)
        printf("     lab --replay \"%s\" --mode %s --schedule %s\n", entry->program.name, mode,
               result.schedule[0] ? result.schedule : "''");
}

/* Is the word in the list, "sc,weak"? */
static bool mode_in(const char *list, const char *mode) {
    size_t n = strlen(mode);
    for (const char *at = list; (at = strstr(at, mode)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ',')) return true;
    return false;
}

bool programs_modes(const char *list) {
    size_t known = 0;
    for (size_t m = 0; m < MODES; m++)
        if (mode_in(list, mode_names[m])) known += strlen(mode_names[m]) + 1;
    return known == strlen(list) + 1;
}

void programs_run(struct tally *tally, enum effort effort, const char *only) {
    uint64_t seed = 1;
    do {
        for (size_t m = 0; m < MODES; m++)
            for (size_t i = 0; i < entry_count(); i++) {
                const char *mode = mode_names[m];
                const struct entry entry = entry_at(i);
                if (tally->stop && tally->failed) return;
                if (tally->modes && !mode_in(tally->modes, mode)) continue;
                if (only && !strstr(entry.program.name, only)) continue;
                if (entry.sc_only && strstr(mode, "weak")) continue;
                if (strncmp(mode, "stop", 4) == 0 && !entry.may_stop[mode[4] - '0']) continue;
                if (effort == ENDLESS && strncmp(mode, "pct", 3) != 0 && seed > 1) continue;
                run_mode(tally, &entry, mode, effort, seed);
            }
        seed++;
        if (effort == ENDLESS) printf("lab: seed %llu, %lu schedules\n", (unsigned long long)seed, tally->schedules);
    } while (effort == ENDLESS && !tally->failed);
}

int programs_replay(const char *name, const char *mode, const char *schedule) {
    for (size_t i = 0; i < entry_count(); i++) {
        const struct entry entry = entry_at(i);
        if (strcmp(entry.program.name, name) != 0) continue;
        struct lab_options o = mode_options(mode, &entry, SHORT);
        struct lab_result result = lab_replay(&entry.program, &o, schedule, true);
        if (result.failed) printf("%s\n", result.reason);
        else if (!result.misfit) printf("no failure\n");
        if (result.misfit)
            fprintf(stderr, "lab: %s\n",
                    result.reason[0] && !result.failed
                        ? result.reason
                        : "the schedule has deviations that did not come: of another program?");
        return result.misfit ? 2 : result.failed;
    }
    fprintf(stderr, "lab: no program \"%s\"; see --list\n", name);
    return 2;
}

int programs_bytes(const uint8_t *bytes, size_t count) {
    if (count < 2) return 0;
    const struct entry entry = entry_at(bytes[0] % entry_count());
    struct lab_options o = {.stop_thread = -1, .bytes = bytes + 2, .byte_count = count - 2};
    o.fail_memory = bytes[1] % 3 == 2;
    o.weak = bytes[1] % 3 == 1 && !entry.sc_only;
    struct lab_result result = lab_explore(&entry.program, &o);
    if (result.failed)
        fprintf(stderr, "%s\nlab --replay \"%s\" --mode %s --schedule '%s'\n", result.reason, entry.program.name,
                o.fail_memory ? "memory"
                : o.weak      ? "weak"
                              : "sc",
                result.schedule);
    return result.failed;
}

void programs_list(void) {
    for (size_t i = 0; i < entry_count(); i++) printf("%s\n", entry_at(i).program.name);
}
