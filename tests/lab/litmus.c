/* SPDX-License-Identifier: MIT */
/*
 * The lab's own tests: classic litmus shapes. Each says which outcomes must be found and which must not, under
 * the lab's memory model; and planted faults of other kinds (races, use after free, lost wake, deadlock, leak),
 * each of which must be reported.
 */
#include "lab.h"
#include "run.h"

#include <stdio.h>
#include <string.h>

static uint64_t *x, *y, *datum;
static uint64_t r[4];
static unsigned outcomes[256]; /* times that an outcome, packed as bits of r[0..3], was seen */

static uint64_t ld(uint64_t *p, enum lab_order o) { return lab_load(p, 8, o); }
static void st(uint64_t *p, uint64_t v, enum lab_order o) { lab_store(p, 8, v, o); }
static uint64_t add(uint64_t *p, uint64_t v, enum lab_order o) { return lab_rmw(p, 8, LAB_ADD, v, o); }

static void setup(const void *data) {
    (void)data;
    x = lab_malloc(64);
    y = lab_malloc(64);
    datum = lab_malloc(64);
    *x = *y = *datum = 0;
    memset(r, 0, sizeof r);
}

static void finish(const void *data) {
    (void)data;
    outcomes[(r[0] & 3) | (r[1] & 3) << 2 | (r[2] & 3) << 4 | (r[3] & 3) << 6]++;
    lab_free(x);
    lab_free(y);
    lab_free(datum);
}

#define OUT(a, b, c, d) ((a) | (b) << 2 | (c) << 4 | (d) << 6)

/* Bodies; `order` of the shape: data points at two orders, of the writes and of the reads. */
struct orders {
    enum lab_order write, read;
};
#define W (((const struct orders *)data)->write)
#define R (((const struct orders *)data)->read)
static const struct orders relaxed = {LAB_RELAXED, LAB_RELAXED}, rel_acq = {LAB_RELEASE, LAB_ACQUIRE},
                           rel_rlx = {LAB_RELEASE, LAB_RELAXED}, rlx_acq = {LAB_RELAXED, LAB_ACQUIRE};

static void mp(const void *data, unsigned me) {
    if (me == 0) {
        st(x, 1, LAB_RELAXED);
        st(y, 1, W);
    } else {
        r[0] = ld(y, R);
        r[1] = ld(x, LAB_RELAXED);
    }
}
static void sb(const void *data, unsigned me) {
    st(me ? y : x, 1, W);
    r[me] = ld(me ? x : y, R);
}
static void sb_rmw(const void *data, unsigned me) { /* both sides by RMW on one word: store buffering is gone */
    (void)data;
    st(me ? y : x, 1, LAB_RELAXED);
    (void)add(datum, 1, LAB_ACQ_REL);
    r[me] = ld(me ? x : y, LAB_RELAXED);
}
static void sb_fence(const void *data, unsigned me) {
    (void)data;
    st(me ? y : x, 1, LAB_RELAXED);
    lab_fence_sc();
    r[me] = ld(me ? x : y, LAB_RELAXED);
}
static void lb(const void *data, unsigned me) {
    r[me] = ld(me ? y : x, R);
    st(me ? x : y, 1, W);
}
static void iriw(const void *data, unsigned me) {
    if (me == 0) st(x, 1, W);
    if (me == 1) st(y, 1, W);
    if (me == 2) {
        r[0] = ld(x, R);
        r[1] = ld(y, R);
    }
    if (me == 3) {
        r[2] = ld(y, R);
        r[3] = ld(x, R);
    }
}
static void w22(const void *data, unsigned me) {
    st(me ? y : x, 1, W);
    st(me ? x : y, 2, W);
}
static void w22_finish(const void *data) {
    r[0] = lab_newest(x, 8);
    r[1] = lab_newest(y, 8);
    finish(data);
}
static void corr(const void *data, unsigned me) {
    (void)data;
    if (me == 0) {
        st(x, 1, LAB_RELAXED);
    } else {
        r[0] = ld(x, LAB_RELAXED);
        r[1] = ld(x, LAB_RELAXED);
    }
}
static void release_sequence(const void *data,
                             unsigned me) { /* the relaxed RMW of another thread carries the release on */
    if (me == 0) {
        st(x, 1, LAB_RELAXED);
        st(y, 1, LAB_RELEASE);
    } else if (me == 1) {
        (void)add(y, 1, LAB_RELAXED);
    } else {
        r[0] = ld(y, R);
        r[1] = ld(x, LAB_RELAXED);
    }
}
static void broken_sequence(const void *data, unsigned me) { /* a relaxed store of another thread does not */
    (void)data;
    if (me == 0) {
        st(x, 1, LAB_RELAXED);
        st(y, 1, LAB_RELEASE);
    } else if (me == 1) {
        if (ld(y, LAB_RELAXED) == 1) st(y, 2, LAB_RELAXED);
    } else {
        r[0] = ld(y, LAB_ACQUIRE);
        r[1] = ld(x, LAB_RELAXED);
    }
}
static void two_adds(const void *data, unsigned me) {
    (void)data;
    r[me] = add(x, 1, LAB_RELAXED);
}
static void wrc(const void *data, unsigned me) { /* write-to-read causality */
    if (me == 0) st(x, 1, W);
    if (me == 1 && ld(x, R)) st(y, 1, W);
    if (me == 2) {
        r[0] = ld(y, R);
        r[1] = ld(x, LAB_RELAXED);
    }
}

struct shape {
    const char *name;
    unsigned threads;
    void (*body)(const void *data, unsigned me);
    void (*finish)(const void *data);
    const struct orders *orders;
    unsigned outcome;
    bool allowed;
};

static const struct shape shapes[] = {
    {"MP relaxed: sees the flag, not the datum", 2, mp, finish, &relaxed, OUT(1, 0, 0, 0), true},
    {"MP release only", 2, mp, finish, &rel_rlx, OUT(1, 0, 0, 0), true},
    {"MP acquire only", 2, mp, finish, &rlx_acq, OUT(1, 0, 0, 0), true},
    {"MP release and acquire", 2, mp, finish, &rel_acq, OUT(1, 0, 0, 0), false},
    {"MP release and acquire: sees both", 2, mp, finish, &rel_acq, OUT(1, 1, 0, 0), true},
    {"SB relaxed", 2, sb, finish, &relaxed, OUT(0, 0, 0, 0), true},
    {"SB release and acquire", 2, sb, finish, &rel_acq, OUT(0, 0, 0, 0), true},
    {"SB with an RMW on one word on both sides", 2, sb_rmw, finish, &relaxed, OUT(0, 0, 0, 0), false},
    {"SB with SC fences", 2, sb_fence, finish, &relaxed, OUT(0, 0, 0, 0), false},
    {"LB relaxed (RC11 forbids it)", 2, lb, finish, &relaxed, OUT(1, 1, 0, 0), false},
    {"IRIW release and acquire: readers disagree", 4, iriw, finish, &rel_acq, OUT(1, 0, 1, 0), true},
    {"WRC release and acquire", 3, wrc, finish, &rel_acq, OUT(1, 0, 0, 0), false},
    {"WRC relaxed", 3, wrc, finish, &relaxed, OUT(1, 0, 0, 0), true},
    {"2+2W relaxed: both first stores last", 2, w22, w22_finish, &relaxed, OUT(1, 1, 0, 0), true},
    {"2+2W release: both first stores last", 2, w22, w22_finish, &rel_acq, OUT(1, 1, 0, 0), true},
    {"CoRR: new, then old", 2, corr, finish, &relaxed, OUT(1, 0, 0, 0), false},
    {"CoRR: old, then new", 2, corr, finish, &relaxed, OUT(0, 1, 0, 0), true},
    {"release sequence over a relaxed RMW", 3, release_sequence, finish, &rel_acq, OUT(2, 0, 0, 0), false},
    {"the same, read relaxed", 3, release_sequence, finish, &rel_rlx, OUT(2, 0, 0, 0), true},
    {"release sequence ends at a relaxed store", 3, broken_sequence, finish, &rel_acq, OUT(2, 0, 0, 0), true},
    {"RMWs are atomic", 2, two_adds, finish, &relaxed, OUT(0, 0, 0, 0), false},
    {"RMWs in either order", 2, two_adds, finish, &relaxed, OUT(1, 0, 0, 0), true},
};

/* ---- planted faults */

static void plain_race(const void *data, unsigned me) {
    if (me == 0) {
        lab_plain(datum, 8, true);
        st(y, 1, W);
    } else if (ld(y, R)) {
        lab_plain(datum, 8, false);
    }
}
static void hooked_race(const void *data, unsigned me) { /* the same, by accesses that the compiler reports */
    if (me == 0) {
        subject_plain_write(datum, 5);
        st(y, 1, W);
    } else if (ld(y, R)) {
        LAB_CHECK(subject_plain_read(datum) == 5, "the datum");
    }
}
static void touch_after_free(const void *data, unsigned me) {
    (void)data;
    if (me == 0) {
        uint64_t *p = lab_malloc(8);
        *p = 7;
        st(y, (uint64_t)(uintptr_t)p, LAB_RELEASE);
        if (ld(x, LAB_ACQUIRE) == 0) lab_free(p);
    } else {
        uint64_t *p = (uint64_t *)(uintptr_t)ld(y, LAB_ACQUIRE);
        if (p) lab_plain(p, 8, false);
    }
}
static void deadlock(const void *data, unsigned me) {
    (void)data;
    if (me == 0 && lab_newest(y, 8) == 0) lab_park((uint32_t *)x, 0, UINT64_MAX);
    if (me == 1) st(y, 1, LAB_RELEASE); /* and forgets the wake */
}
static void livelock(const void *data, unsigned me) {
    (void)data;
    (void)me;
    while (ld(x, LAB_ACQUIRE) == 0) lab_relax();
}
static void leak(const void *data, unsigned me) {
    (void)data;
    if (me == 1 && ld(x, LAB_RELAXED)) (void)lab_malloc(8);
    if (me == 0) st(x, 1, LAB_RELAXED);
}

static void sleeper_trusts(const void *data, unsigned me) { /* whoever comes back from a sleep was woken, it thinks */
    uint32_t *word = (uint32_t *)x;
    (void)data;
    if (me == 0) {
        lab_park(word, 0, UINT64_MAX);
        LAB_CHECK(ld(y, LAB_ACQUIRE) == 1, "it came back early");
    } else {
        st(y, 1, LAB_RELEASE);
        (void)lab_rmw(word, 4, LAB_ADD, 1, LAB_ACQ_REL);
        lab_wake(word);
    }
}
static void sleeper_looks(const void *data, unsigned me) {
    uint32_t *word = (uint32_t *)x;
    while (me == 0 && lab_load(word, 4, LAB_ACQUIRE) == 0) lab_park(word, 0, UINT64_MAX);
    if (me == 0) LAB_CHECK(ld(y, LAB_ACQUIRE) == 1, "it came back early");
    if (me == 1) sleeper_trusts(data, me);
}
static void timed_sleeper(const void *data,
                          unsigned me) { /* the other has not come to its wake, but the time is over */
    (void)data;
    if (me == 0) {
        uint64_t deadline = lab_now() + 1000;
        lab_park((uint32_t *)x, 0, deadline);
        LAB_CHECK(lab_now() < deadline, "too late");
    } else {
        (void)lab_rmw(x, 4, LAB_ADD, 1, LAB_ACQ_REL);
        lab_wake((uint32_t *)x);
    }
}

struct fault {
    const char *name, *report; /* a word of the report; NULL: none */
    void (*body)(const void *data, unsigned me);
    const struct orders *orders;
};

static const struct fault faults[] = {
    {"a plain field behind a relaxed flag", "race", plain_race, &relaxed},
    {"a plain field behind a release read relaxed", "race", plain_race, &rel_rlx},
    {"a plain field behind release and acquire", NULL, plain_race, &rel_acq},
    {"a race that only the compiler's hooks see", "race", hooked_race, &relaxed},
    {"the same in order", NULL, hooked_race, &rel_acq},
    {"a touch after free", "free", touch_after_free, &rel_acq},
    {"a lost wake", "sleeps for ever", deadlock, &relaxed},
    {"no progress", "no progress", livelock, &relaxed},
    {"a sleeper that takes any end for its wake", "came back early", sleeper_trusts, &relaxed},
    {"a sleeper that looks again", NULL, sleeper_looks, &relaxed},
    {"a time-out though the waker is awake", "too late", timed_sleeper, &relaxed},
    {"a leak on one path", "left", leak, &relaxed},
};

/* Does the schedule that a failure names fail in the same way, and a wrong one not pass for it? */
static bool replays(const struct lab_program *p, const struct lab_options *options, const struct lab_result *found) {
    if (!found->failed) return true;
    struct lab_result again = lab_replay(p, options, found->schedule, false);
    return again.failed && !again.misfit && strcmp(again.reason, found->reason) == 0 &&
           lab_replay(p, options, "9999p7", false).misfit && lab_replay(p, options, "7:1", false).misfit &&
           lab_replay(p, options, "7p0", false).misfit && lab_replay(p, options, "7p1,", false).misfit;
}

void litmus_run(struct tally *tally) {
    const struct lab_options random = {.weak = true, .stop_thread = -1, .pct_depth = 2, .schedules = 5000, .seed = 3};
    const struct lab_options options = {.weak = true, .deviations = 6, .stop_thread = -1};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        struct lab_program p = {s->name, s->threads, s->orders, setup, s->body, s->finish, NULL, NULL, false};
        memset(outcomes, 0, sizeof outcomes);
        struct lab_result result = lab_explore(&p, &options);
        bool seen = outcomes[s->outcome] != 0;
        tally_add(tally, &result, !result.failed && result.complete && seen == s->allowed, "litmus", s->name,
                  seen ? "found" : "never");
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct fault *f = &faults[i];
        struct lab_program p = {f->name, 2, f->orders, setup, f->body, finish, NULL, NULL, false};
        struct lab_result result = lab_explore(&p, &options);
        bool good = f->report ? result.failed && strstr(result.reason, f->report) : !result.failed && result.complete;
        good = good && replays(&p, &options, &result);
        struct lab_result by_chance = lab_explore(&p, &random); /* what is found so replays without its seed */
        good = good && by_chance.failed == result.failed && replays(&p, &options, &by_chance);
        result.failed = false;
        tally_add(tally, &result, good, "fault", f->name, result.reason[0] ? result.reason : "no report");
    }
}
