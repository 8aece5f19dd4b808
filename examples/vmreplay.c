/* SPDX-License-Identifier: MIT */
/*
 * vmreplay.c - replays recorded address-space calls of real programs (`vmtrace 1` files) on one ivskip map.
 *
 *     vmreplay [--threads N | --parallel] [--readers N] [--show] [--dot FILE] [--quiet] FILE...
 *
 * Every address space of a trace is a slice of 2^47 keys of the one map, and each mapping is a node whose
 * payload is a `struct area`. The recorded results are believed; after every few calls a checkpoint of the
 * trace says what the kernel's own list of mappings was (number, pages, CRC-32), and the map must agree.
 *
 *   sequential   file order, one thread. Page faults are lock-free look-ups and are counted exactly.
 *   --threads N  N copies at once, each a thread, in slices that touch; page faults come from reader threads.
 *   --parallel   each thread of the trace is a thread here. Events wait only for earlier ones whose ranges
 *                meet theirs, and for checkpoints, so the rest overlaps; page faults come from readers. A
 *                sequential pass before finds ranges that depend on the map (stack growth, PROT_GROWSDOWN).
 *
 * Exit status: 0 all matched; 1 something differed; 2 the file (or the command line) is wrong.
 *
 * Build: cc -std=c11 -O2 -pthread -I. examples/vmreplay.c            (plain files)
 *        ... -DVMREPLAY_ZLIB -lz                                     (.gz files too)
 * With -DVMREPLAY_NO_MAIN main is called vmreplay_main: fuzzers include this file and call parse_trace().
 *
 * Order of this file: trace parser, spaces on the map, checkpoints, sequential replay, threads, parallel,
 * pictures, report, main.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef IVSKIP_IMPLEMENTATION
#define IVSKIP_IMPLEMENTATION
#endif
#include "ivskip.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef VMREPLAY_ZLIB
#include <zlib.h>
#endif

/* What liburcu asks of threads (IVSKIP_RCU=URCU_*): to be registered, and with qsbr to say now and then that they hold
 * no node, and to be offline while they sleep. Nothing with the built-in RCU. */
#if IVS_RCU_IS_(URCU_MEMB)
#define THREAD_BEGIN() urcu_memb_register_thread()
#define THREAD_END()   urcu_memb_unregister_thread()
#elif IVS_RCU_IS_(URCU_QSBR)
#define THREAD_BEGIN() urcu_qsbr_register_thread()
#define THREAD_END()   urcu_qsbr_unregister_thread()
#define THREAD_IDLE()  urcu_qsbr_quiescent_state()
#define SLEEP(call)    (urcu_qsbr_thread_offline(), (void)(call), urcu_qsbr_thread_online())
#endif
#ifndef THREAD_BEGIN
#define THREAD_BEGIN() ((void)0)
#define THREAD_END()   ((void)0)
#endif
#ifndef THREAD_IDLE
#define THREAD_IDLE() ((void)0)
#define SLEEP(call)   ((void)(call))
#endif

#define PAGE        UINT64_C(0x1000)
#define SLICE_BITS  47 /* TASK_SIZE is 0x7ffffffff000 */
#define SLICE       (UINT64_C(1) << SLICE_BITS)
#define MAX_SLICES  (UINT64_C(1) << (64 - SLICE_BITS))
#define MAX_ID      (1u << 20)
#define MAX_LINE    65536u
#define MAX_TEXT    (UINT64_C(1) << 30)
#define MAX_WINDOWS 8
#define NONE        UINT32_MAX

/* -------------------------------------------------------------------------------------- trace: its parser */

enum { READ = 1, WRITE = 2, EXEC = 4, SHARED = 8 };        /* rights */
enum { GROWS_DOWN = 1, DONTFORK = 2, NOWRITE = 4 };        /* flags; NOWRITE: the file was opened for reading */
enum { ANON = 0, VDSO = -1, VVAR = -2, VVAR_VCLOCK = -3 }; /* objects; fN is N */
enum result { RES_OK, RES_ENOMEM, RES_EACCES, RES_EFAULT, RES_OTHER };
enum { MOVE_PARTS = 1, MOVE_KEEP = 2, PROTECT_GROWSDOWN = 1 }; /* event.how */

/* A mapping, with addresses of its space. */
struct piece {
    uint64_t lo, hi, off;
    int32_t obj;
    uint8_t perm, flags;
};

/* What an event does to the map, whatever call asked for it. */
enum op {
    OP_NONE, /* nothing, e.g. a failed call */
    OP_LIFE, /* exec, clone, exit: order only; its range is the last page, which no program can map */
    OP_PUT,  /* map `area` */
    OP_CUT,  /* unmap [lo, hi) */
    OP_CUT_IF_SHARED,
    OP_PROTECT, /* [lo, hi) gets area.perm, as far as the result says */
    OP_ADVISE,  /* [lo, hi) gets area.flags (DONTFORK) */
    OP_EXTEND,  /* mremap in place: [to, to_hi) continues what covers lo */
    OP_MOVE,    /* [lo, hi) goes to [to, to_hi) */
    OP_TOUCH,   /* what is above lo, if lo is free, begins at lo from now on */
    OP_GROW,    /* [lo, hi) continues downward what covers hi */
    OP_FORK,    /* space `other` becomes a copy */
    OP_BIRTH,   /* the first map of a space: taken, then checked */
    OP_CHECK,   /* compare with checks[other] */
    OP_END,     /* the space is dropped */
    OP_BARRIER, /* all threads meet */
    OP_FAULT    /* look-up of lo */
};

struct event {
    uint64_t lo, hi, to, to_hi;
    struct piece area;
    uint32_t line, lane, space;
    uint32_t other;  /* fork: child space; check: index */
    uint32_t starts; /* lane that begins with this event, or NONE */
    uint8_t op, call, result, how;
};

struct check {
    uint32_t merged, crc, first, count; /* v lines are pieces[first..first+count) */
    uint64_t pages;
    bool full;
};

#define ARRAY(type)                                                                                                    \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        size_t n, room;                                                                                                \
    }

struct pieces {
    struct piece *at;
    size_t n, room;
};

struct window {
    uint64_t lo, hi;
};

/* What parse_trace makes of a file. Spaces and threads are numbered anew, by first appearance. */
struct trace {
    ARRAY(struct event) events;
    ARRAY(struct check) checks;
    ARRAY(uint32_t) space_names; /* N of aN, by index */
    ARRAY(uint32_t) lane_names;  /* N of tN; lane 0 is the replayer's own: checkpoints and growth */
    struct pieces pieces;
    struct window windows[MAX_WINDOWS];
    size_t window_count;
    char program[80];
};

/* args: x hex number, o object, t thread, a space, p rights, m r or w, V the word vfork or nothing. */
struct call_form {
    const char *name, *args;
    char letter; /* in timelines */
};
/* clang-format off */
enum call {
    MMAP, MUNMAP, MPROTECT, PKEY_MPROTECT, MREMAP, BRK, MADVISE, MLOCK, MLOCK2, MUNLOCK, MLOCKALL, MUNLOCKALL,
    MSEAL, SHMAT, SHMDT, KMAP, KUNMAP, CLONE, FORK, EXECVE, TOUCH, CALLS, NO_CALL = CALLS
};
static const struct call_form call_forms[CALLS] = {
    [MMAP] = {"mmap", "xxxxox", 'm'},                 [MUNMAP] = {"munmap", "xx", 'u'},
    [MPROTECT] = {"mprotect", "xxx", 'p'},            [PKEY_MPROTECT] = {"pkey_mprotect", "xxxx", 'p'},
    [MREMAP] = {"mremap", "xxxxx", 'r'},              [BRK] = {"brk", "x", 'b'},
    [MADVISE] = {"madvise", "xxx", 'a'},              [MLOCK] = {"mlock", "xx", 'd'},
    [MLOCK2] = {"mlock2", "xxx", 'd'},                [MUNLOCK] = {"munlock", "xx", 'd'},
    [MLOCKALL] = {"mlockall", "x", 'd'},              [MUNLOCKALL] = {"munlockall", "", 'd'},
    [MSEAL] = {"mseal", "xxx", 'd'},                  [SHMAT] = {"shmat", "oxxx", 's'},
    [SHMDT] = {"shmdt", "xx", 's'},                   [KMAP] = {"kmap", "xxpxo", 'k'},
    [KUNMAP] = {"kunmap", "xx", 'k'},                 [CLONE] = {"clone", "tV", 'c'},
    [FORK] = {"fork", "ta", 'f'},                     [EXECVE] = {"exec", "axx", 'x'},
    [TOUCH] = {"touch", "xm", 't'},
};
/* clang-format on */

struct token {
    const char *s;
    size_t n;
};

struct id_table {
    uint32_t *at; /* by number: index + 1, 0 unknown */
    size_t room;
};

struct space_state {
    uint64_t brk;
    bool born, ended, lost;
};
struct lane_state {
    uint32_t space;
    bool gone;
};

struct parser {
    const char *name;
    struct trace *t;
    const char *text, *end;   /* what is not yet read */
    const char *p, *line_end; /* rest of the line; p NULL: no more fields */
    uint32_t line;
    char *err;
    size_t errlen;
    bool failed;
    struct id_table threads, spaces, objects;
    ARRAY(struct space_state) space;
    ARRAY(struct lane_state) lane;
    size_t live_spaces;
};

struct args {
    uint64_t x[6];
    int32_t obj;
    uint8_t perm;
    bool read_only;         /* object opened with mode r */
    uint32_t thread, space; /* numbers, not indices */
};

static uint64_t page_up(uint64_t x) { return (x + (PAGE - 1)) & ~(PAGE - 1); }

/* Only the first error of a file counts. */
__attribute__((format(printf, 2, 3))) static bool fail(struct parser *ps, const char *format, ...) {
    va_list ap;
    if (ps->failed) return false;
    ps->failed = true;
    int n = snprintf(ps->err, ps->errlen, "%s:%u: ", ps->name, ps->line);
    if (n < 0 || (size_t)n >= ps->errlen) return false;
    va_start(ap, format);
    (void)vsnprintf(ps->err + n, ps->errlen - (size_t)n, format, ap);
    va_end(ap);
    return false;
}

/* The array with room for `n` elements in all; where there is no memory it stays as it was. */
static void *grown(void *at, size_t *room, size_t n, size_t size) {
    if (n <= *room) return at;
    size_t want = *room * 2 > n ? *room * 2 : n + 15;
    void *more = want > SIZE_MAX / size ? NULL : realloc(at, want * size);
    if (more) *room = want;
    return more ? more : at;
}
#define RESERVE(array, count)                                                                                          \
    ((array).at = grown((array).at, &(array).room, (count), sizeof *(array).at), (array).room >= (count))
#define PUSH(ps, array, value)                                                                                         \
    (RESERVE(array, (array).n + 1) ? (void)((array).at[(array).n++] = (value)) : (void)fail(ps, "out of memory"))

/* A token for a message: what is not plain text becomes '?'. */
static const char *quoted(struct token w, char out[static 41]) {
    size_t n = w.n < 40 ? w.n : 40;
    for (size_t i = 0; i < n; i++) out[i] = w.s[i] > ' ' && w.s[i] < 127 ? w.s[i] : '?';
    out[n] = 0;
    return out;
}

static bool is(struct token w, const char *text) { return w.n == strlen(text) && memcmp(w.s, text, w.n) == 0; }

static struct token field(struct parser *ps, const char *what) {
    struct token w = {"", 0};
    if (!ps->p) {
        fail(ps, "%s is missing", what);
        return w;
    }
    const char *space = memchr(ps->p, ' ', (size_t)(ps->line_end - ps->p));
    w.s = ps->p;
    w.n = (size_t)((space ? space : ps->line_end) - ps->p);
    ps->p = space ? space + 1 : NULL;
    if (!w.n) fail(ps, "%s is empty (fields are separated by one space)", what);
    return w;
}

static bool line_ends(struct parser *ps) { return ps->p ? fail(ps, "too many fields") : !ps->failed; }

static uint64_t hex_of(struct parser *ps, struct token w, const char *what) {
    char q[41];
    uint64_t x = 0;
    bool good = w.n >= 1 && w.n <= 16;
    for (size_t i = 0; good && i < w.n; i++) {
        const char c = w.s[i];
        good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        x = x << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (!good) fail(ps, "%s \"%s\" is no hex number of up to 16 digits", what, quoted(w, q));
    return good ? x : 0;
}

static uint64_t hex(struct parser *ps, const char *what) { return hex_of(ps, field(ps, what), what); }

static uint32_t dec_of(struct parser *ps, struct token w, const char *what) {
    char q[41];
    uint32_t x = 0;
    bool good = w.n >= 1 && w.n <= 9;
    for (size_t i = 0; good && i < w.n; i++) {
        good = w.s[i] >= '0' && w.s[i] <= '9';
        x = x * 10 + (uint32_t)(w.s[i] - '0');
    }
    if (!good) fail(ps, "%s \"%s\" is no number of up to 9 digits", what, quoted(w, q));
    return good ? x : 0;
}

static uint32_t dec(struct parser *ps, const char *what) { return dec_of(ps, field(ps, what), what); }

/* tN, aN, fN: N, at most MAX_ID - 1 so that tables stay small. */
static uint32_t id_of(struct parser *ps, struct token w, char letter, const char *what) {
    char q[41];
    if (w.n < 2 || w.s[0] != letter) {
        fail(ps, "%s \"%s\" should be %cN", what, quoted(w, q), letter);
        return 0;
    }
    uint32_t n = dec_of(ps, (struct token){w.s + 1, w.n - 1}, what);
    if (n >= MAX_ID) fail(ps, "%s %c%u: numbers go up to %u", what, letter, n, MAX_ID - 1);
    return n < MAX_ID ? n : 0;
}

static uint32_t known(const struct id_table *ids, uint32_t n) {
    return n < ids->room && ids->at[n] ? ids->at[n] - 1 : NONE;
}

static void learn(struct parser *ps, struct id_table *ids, uint32_t n, uint32_t index) {
    size_t before = ids->room;
    if (!RESERVE(*ids, (size_t)n + 1)) {
        fail(ps, "out of memory");
        return;
    }
    if (ids->room > before) memset(ids->at + before, 0, (ids->room - before) * sizeof *ids->at);
    ids->at[n] = index + 1;
}

/* A new thread in a space; its lane, or NONE. */
static uint32_t new_lane(struct parser *ps, uint32_t thread, uint32_t space) {
    uint32_t index = (uint32_t)ps->lane.n;
    if (ps->failed) return NONE;
    if (thread == 0 || known(&ps->threads, thread) != NONE) {
        fail(ps, "thread t%u cannot start: %s", thread, thread ? "it was there before" : "t0 is no thread");
        return NONE;
    }
    PUSH(ps, ps->lane, ((struct lane_state){space, false}));
    PUSH(ps, ps->t->lane_names, thread);
    learn(ps, &ps->threads, thread, index);
    return index;
}

static uint32_t new_space(struct parser *ps, uint32_t number, uint64_t brk, bool born) {
    uint32_t index = (uint32_t)ps->space.n;
    if (ps->failed) return NONE;
    if (known(&ps->spaces, number) != NONE) fail(ps, "space a%u was there before", number);
    if (index >= MAX_SLICES) fail(ps, "more than %llu spaces", (unsigned long long)MAX_SLICES);
    if (ps->failed) return NONE;
    PUSH(ps, ps->space, ((struct space_state){brk, born, false, false}));
    PUSH(ps, ps->t->space_names, number);
    learn(ps, &ps->spaces, number, index);
    ps->live_spaces++;
    return index;
}

static uint32_t space_field(struct parser *ps) {
    uint32_t n = id_of(ps, field(ps, "space"), 'a', "space"), index = known(&ps->spaces, n);
    if (index == NONE) fail(ps, "space a%u is unknown", n);
    else if (ps->space.at[index].ended) fail(ps, "space a%u has ended", n);
    return ps->failed ? NONE : index;
}

static int32_t object_of(struct parser *ps, struct token w) {
    char q[41];
    if (is(w, "-")) return ANON;
    if (is(w, "@vdso")) return VDSO;
    if (is(w, "@vvar")) return VVAR;
    if (is(w, "@vvar_vclock")) return VVAR_VCLOCK;
    uint32_t n = id_of(ps, w, 'f', "object");
    if (known(&ps->objects, n) == NONE) fail(ps, "object \"%s\" is unknown", quoted(w, q));
    return ps->failed ? ANON : (int32_t)n;
}

static uint8_t perm_of(struct parser *ps, struct token w) {
    char q[41];
    static const char letters[] = "rwx";
    unsigned perm = 0;
    bool good = w.n == 4 && (w.s[3] == 's' || w.s[3] == 'p');
    for (unsigned i = 0; good && i < 3; i++) {
        good = w.s[i] == letters[i] || w.s[i] == '-';
        if (w.s[i] != '-') perm |= 1u << i;
    }
    if (!good) fail(ps, "rights \"%s\" are not like rwxp", quoted(w, q));
    else if (w.s[3] == 's') perm |= SHARED;
    return (uint8_t)perm;
}

/* Where an argument of a successful call leaves the space, the trace is wrong. */
static bool inside(struct parser *ps, uint64_t at, uint64_t length, const char *what) {
    if (at <= SLICE && length <= SLICE - at) return true;
    return fail(ps, "%s [%llx, +%llx) lies outside the address space", what, (unsigned long long)at,
                (unsigned long long)length);
}

/* A range of a call that may have failed: what lies outside is empty there. */
static void clip_to_space(struct event *ev, uint64_t at, uint64_t length) {
    ev->lo = at < SLICE ? at : SLICE;
    ev->hi = length <= SLICE - ev->lo ? ev->lo + length : SLICE;
}

static void put_area(struct parser *ps, struct event *ev, uint64_t at, uint64_t length, struct piece area) {
    if (!inside(ps, at, length, "mapping")) return;
    if (!length) {
        fail(ps, "mapping is empty");
        return;
    }
    if (area.obj <= 0) area.off = 0;
    area.lo = ev->lo = at;
    area.hi = ev->hi = at + length;
    ev->area = area;
    ev->op = OP_PUT;
}

static void cut_area(struct parser *ps, struct event *ev, uint64_t at, uint64_t length) {
    if (!inside(ps, at, length, "range") || !length) return;
    ev->lo = at;
    ev->hi = at + length;
    ev->op = OP_CUT;
}

static void lower_mmap(struct parser *ps, struct event *ev, const struct args *a, uint64_t res) {
    const uint64_t flags = a->x[3];
    const bool shared = (flags & 15) == 1 || (flags & 15) == 3;
    struct piece area = {.obj = a->obj, .off = flags & 0x20 ? 0 : a->x[4]};
    area.perm = (uint8_t)((a->x[2] & 7) | (shared ? SHARED : 0u));
    area.flags = (uint8_t)(((flags & 0x120) == 0x120 ? GROWS_DOWN : 0u) | (shared && a->read_only ? NOWRITE : 0u));
    if (ev->result == RES_OK) put_area(ps, ev, res, page_up(a->x[1]), area);
}

static void lower_mprotect(struct event *ev, const struct args *a) {
    const uint64_t lo = a->x[0], length = page_up(a->x[1]);
    const bool partial = ev->result == RES_ENOMEM || ev->result == RES_EACCES;
    if ((ev->result != RES_OK && !partial) || (length && lo > UINT64_MAX - length + 1)) return;
    clip_to_space(ev, lo, length);
    ev->area.perm = a->x[2] & 7;
    ev->how = a->x[2] & 0x1000000 ? PROTECT_GROWSDOWN : 0;
    if (ev->lo < ev->hi) ev->op = OP_PROTECT;
}

static void lower_mremap(struct parser *ps, struct event *ev, const struct args *a, uint64_t res) {
    const uint64_t old = a->x[0], from = page_up(a->x[1]), size = page_up(a->x[2]), flags = a->x[3];
    if (ev->result == RES_EFAULT && (flags & 3) == 3 && !from && a->x[4] == old && !(old & (PAGE - 1))) {
        clip_to_space(ev, old, size);
        if (ev->lo < ev->hi) ev->op = OP_CUT_IF_SHARED;
    }
    if (ev->result != RES_OK) return;
    if (!inside(ps, old, from, "old range") || !inside(ps, res, size, "new range")) return;
    if (!size || old >= SLICE) {
        fail(ps, "mremap to or from nothing");
        return;
    }
    ev->lo = old;
    ev->hi = old + from;
    ev->to = res;
    ev->to_hi = res + size;
    if (res == old) {
        ev->op = size < from ? OP_CUT : size > from ? OP_EXTEND : OP_NONE;
        if (size < from) ev->lo = old + size;
        ev->to = old + from;
    } else if (res < old + (from ? from : 1) && old < res + size) {
        fail(ps, "mremap onto itself");
    } else {
        ev->op = OP_MOVE;
        ev->how = (uint8_t)(((flags & 2) && from == size ? MOVE_PARTS : 0u) | (flags & 4 ? MOVE_KEEP : 0u));
    }
}

static void lower_brk(struct parser *ps, struct event *ev, const struct args *a, uint64_t res) {
    struct space_state *s = &ps->space.at[ev->space];
    if (ev->result != RES_OK || a->x[0] != res || !inside(ps, res, 0, "break")) return;
    const uint64_t was = page_up(s->brk), now = page_up(res);
    if (now > was) put_area(ps, ev, was, now - was, (struct piece){.obj = ANON, .perm = READ | WRITE});
    else cut_area(ps, ev, now, was - now);
    s->brk = res;
}

static void lower_shmat(struct parser *ps, struct event *ev, const struct args *a, uint64_t res) {
    unsigned perm = READ | SHARED | (a->x[2] & 0x1000 ? 0u : WRITE) | (a->x[2] & 0x8000 ? EXEC : 0u);
    if (ev->result == RES_OK) put_area(ps, ev, res, a->x[0], (struct piece){.obj = a->obj, .perm = (uint8_t)perm});
}

static void lower_advise(struct event *ev, const struct args *a) {
    if ((a->x[2] != 10 && a->x[2] != 11) || (ev->result != RES_OK && ev->result != RES_ENOMEM)) return;
    clip_to_space(ev, a->x[0], page_up(a->x[1]));
    ev->area.flags = a->x[2] == 10 ? DONTFORK : 0;
    if (ev->lo < ev->hi) ev->op = OP_ADVISE;
}

static void lower_fork(struct parser *ps, struct event *ev, const struct args *a) {
    if (ev->result != RES_OK) return;
    ev->other = new_space(ps, a->space, ps->space.at[ev->space].brk, true);
    ev->starts = new_lane(ps, a->thread, ev->other);
    ev->op = OP_FORK;
    ev->lo = 0;
    ev->hi = SLICE;
}

static void make_life_event(struct event *ev) {
    ev->op = OP_LIFE;
    ev->lo = SLICE - 1;
    ev->hi = SLICE;
}

/* FORMAT: "Replaying", rules 2 and 3: what a call with this result has done to the map. */
static void lower_call(struct parser *ps, struct event *ev, const struct args *a, uint64_t res) {
    switch ((enum call)ev->call) {
    case MMAP: lower_mmap(ps, ev, a, res); break;
    case MUNMAP:
        if (ev->result == RES_OK) cut_area(ps, ev, a->x[0], page_up(a->x[1]));
        break;
    case MPROTECT:
    case PKEY_MPROTECT: lower_mprotect(ev, a); break;
    case MREMAP: lower_mremap(ps, ev, a, res); break;
    case BRK: lower_brk(ps, ev, a, res); break;
    case MADVISE: lower_advise(ev, a); break;
    case SHMAT: lower_shmat(ps, ev, a, res); break;
    case SHMDT:
    case KUNMAP:
        if (ev->result == RES_OK) cut_area(ps, ev, a->x[0], a->x[1]);
        break;
    case KMAP:
        put_area(ps, ev, a->x[0], a->x[1], (struct piece){.obj = a->obj, .off = a->x[2], .perm = a->perm});
        break;
    case CLONE:
        if (ev->result != RES_OK) break;
        ev->starts = new_lane(ps, a->thread, ev->space);
        make_life_event(ev);
        break;
    case FORK: lower_fork(ps, ev, a); break;
    case TOUCH:
        if (ev->result != RES_OK || a->x[0] >= SLICE) break;
        ev->op = OP_TOUCH;
        ev->lo = a->x[0] & ~(PAGE - 1);
        ev->hi = ev->lo + 1;
        break;
    default: break;
    }
}

static void parse_args(struct parser *ps, const char *form, struct args *a) {
    char q[41];
    struct token w;
    size_t numbers = 0;
    for (; *form && !ps->failed; form++) {
        switch (*form) {
        case 'x': a->x[numbers++] = hex(ps, "argument"); break;
        case 'p': a->perm = perm_of(ps, field(ps, "rights")); break;
        case 't': a->thread = id_of(ps, field(ps, "thread"), 't', "thread"); break;
        case 'a': a->space = id_of(ps, field(ps, "space"), 'a', "space"); break;
        case 'm':
            w = field(ps, "access");
            if (!is(w, "r") && !is(w, "w") && !is(w, "x")) fail(ps, "access \"%s\" is neither r nor w", quoted(w, q));
            break;
        case 'V':
            if (ps->p && ps->p < ps->line_end && *ps->p == 'v' && !is(w = field(ps, "vfork"), "vfork"))
                fail(ps, "\"%s\" should be vfork", quoted(w, q));
            break;
        default: { /* object, and how it was opened */
            w = field(ps, "object");
            const char *slash = memchr(w.s, '/', w.n);
            struct token mode = {slash ? slash + 1 : "", slash ? (size_t)(w.s + w.n - slash - 1) : 0};
            if (slash) w.n = (size_t)(slash - w.s);
            a->obj = object_of(ps, w);
            a->read_only = is(mode, "r");
            if (slash && !is(mode, "r") && !is(mode, "w") && !is(mode, "rw") && !is(mode, "p"))
                fail(ps, "open mode \"%s\" is none of r w rw p", quoted(mode, q));
        }
        }
    }
}

/* "= RES": kind of the result, and the address in *res. */
static enum result parse_result(struct parser *ps, enum call call, uint64_t *res) {
    char q[41];
    struct token w = field(ps, "\"=\"");
    *res = 0;
    if (!is(w, "=")) fail(ps, "\"%s\" stands where \"=\" should", quoted(w, q));
    w = field(ps, "result");
    if (!line_ends(ps)) return RES_OTHER;
    if (call == TOUCH) {
        if (is(w, "ok") || is(w, "accerr") || is(w, "bus")) return RES_OK;
        if (!is(w, "maperr")) fail(ps, "result \"%s\" is none of ok maperr accerr bus", quoted(w, q));
        return RES_OTHER;
    }
    if (w.n > 1 && w.s[0] == '!') {
        for (size_t i = 1; i < w.n; i++)
            if (w.s[i] < '0' || w.s[i] > 'Z' || (w.s[i] > '9' && w.s[i] < 'A'))
                fail(ps, "result \"%s\" is no error name", quoted(w, q));
        return is(w, "!ENOMEM")   ? RES_ENOMEM
               : is(w, "!EACCES") ? RES_EACCES
               : is(w, "!EFAULT") ? RES_EFAULT
                                  : RES_OTHER;
    }
    *res = hex_of(ps, w, "result");
    return RES_OK;
}

static struct event blank_event(const struct parser *ps) {
    struct event ev = {.line = ps->line, .call = NO_CALL, .space = NONE, .other = NONE, .starts = NONE};
    return ev;
}

/* exec: the caller, perhaps the first thread of all, goes on in a new space whose `map` follows. */
static void parse_exec(struct parser *ps, uint32_t thread, struct event *ev) {
    struct args a = {0};
    uint64_t res;
    uint32_t lane = known(&ps->threads, thread);
    parse_args(ps, call_forms[EXECVE].args, &a);
    ev->call = EXECVE;
    ev->result = (uint8_t)parse_result(ps, EXECVE, &res);
    if (!inside(ps, a.x[1], 0, "break") || ps->failed) return;
    if (lane != NONE && ps->lane.at[lane].gone) fail(ps, "thread t%u has exited", thread);
    if (ev->result != RES_OK || ps->failed) {
        if (lane == NONE) fail(ps, "thread t%u has no space", thread);
        else ev->lane = lane;
        return;
    }
    uint32_t space = new_space(ps, a.space, a.x[1], false);
    if (lane == NONE) lane = new_lane(ps, thread, space);
    if (ps->failed) return;
    ev->space = ps->lane.at[lane].space;
    ps->lane.at[lane].space = space;
    ev->lane = lane;
    make_life_event(ev);
}

static void parse_exit(struct parser *ps, uint32_t lane, struct event *ev) {
    if (!line_ends(ps)) return;
    ps->lane.at[lane].gone = true;
    ev->lane = lane;
    ev->space = ps->lane.at[lane].space;
    make_life_event(ev);
}

/* The lane of a thread that may make a call now. */
static bool calling_lane(struct parser *ps, uint32_t thread, struct event *ev, bool leaves) {
    ev->lane = known(&ps->threads, thread);
    if (ps->failed) return false;
    if (ev->lane == NONE) return fail(ps, "thread t%u has no space", thread);
    if (ps->lane.at[ev->lane].gone) return fail(ps, "thread t%u has exited", thread);
    ev->space = ps->lane.at[ev->lane].space;
    const struct space_state *s = &ps->space.at[ev->space];
    if (leaves) return true;
    if (s->ended) return fail(ps, "the space of thread t%u has ended", thread);
    return s->born || fail(ps, "the space of thread t%u has no map yet", thread);
}

static void parse_fault(struct parser *ps, struct event *ev) {
    ev->lo = hex(ps, "address");
    ev->op = OP_FAULT;
    if (ev->lo >= SLICE) ev->op = OP_NONE; /* a wild pointer */
    line_ends(ps);
}

static void parse_thread_line(struct parser *ps, struct token who) {
    char q[41];
    struct event ev = blank_event(ps);
    struct args a = {0};
    uint64_t res;
    uint32_t thread = id_of(ps, who, 't', "thread");
    struct token w = field(ps, "call");
    if (ps->failed) return;
    if (is(w, "exec")) {
        parse_exec(ps, thread, &ev);
    } else if (is(w, "barrier")) {
        if (thread) fail(ps, "a barrier is met by t0");
        ev.op = OP_BARRIER;
        line_ends(ps);
    } else if (!calling_lane(ps, thread, &ev, is(w, "exit"))) {
        return;
    } else if (is(w, "exit")) {
        parse_exit(ps, ev.lane, &ev);
    } else if (is(w, "pf") || is(w, "pf~")) {
        parse_fault(ps, &ev);
    } else {
        while (ev.call = (uint8_t)(ev.call == NO_CALL ? 0 : ev.call + 1), ev.call < CALLS)
            if (is(w, call_forms[ev.call].name)) break;
        if (ev.call == CALLS) {
            fail(ps, "call \"%s\" is unknown", quoted(w, q));
            return;
        }
        parse_args(ps, call_forms[ev.call].args, &a);
        ev.result = (uint8_t)parse_result(ps, (enum call)ev.call, &res);
        if (!ps->failed) lower_call(ps, &ev, &a, res);
    }
    if (!ps->failed) PUSH(ps, ps->t->events, ev);
}

static bool next_line(struct parser *ps) {
    const char *nl;
    size_t left = (size_t)(ps->end - ps->text);
    if (ps->failed || !left) return false;
    ps->line++;
    nl = memchr(ps->text, '\n', left < MAX_LINE ? left : MAX_LINE);
    if (!nl) return fail(ps, left < MAX_LINE ? "the last line is cut off" : "line is longer than %u bytes", MAX_LINE);
    ps->p = ps->text;
    ps->line_end = nl;
    ps->text = nl + 1;
    if (nl == ps->p) return fail(ps, "line is empty");
    if (memchr(ps->p, 0, (size_t)(nl - ps->p))) return fail(ps, "line holds a NUL byte");
    return true;
}

/* v START-END PERMS OFF OBJ CLASS */
static void parse_v_line(struct parser *ps, struct check *check) {
    struct piece v = {0};
    struct token w = field(ps, "range");
    const char *dash = memchr(w.s, '-', w.n);
    if (!dash) {
        fail(ps, "range is not like START-END");
        return;
    }
    v.lo = hex_of(ps, (struct token){w.s, (size_t)(dash - w.s)}, "start");
    v.hi = hex_of(ps, (struct token){dash + 1, (size_t)(w.s + w.n - dash - 1)}, "end");
    v.perm = perm_of(ps, field(ps, "rights"));
    v.off = hex(ps, "offset");
    v.obj = object_of(ps, field(ps, "object"));
    v.flags = is(field(ps, "class"), "stack") ? GROWS_DOWN : 0;
    if (v.obj <= 0) v.off = 0;
    if (!line_ends(ps)) return;
    if (v.lo >= v.hi) fail(ps, "start %llx is not below end %llx", (unsigned long long)v.lo, (unsigned long long)v.hi);
    else if (check->count && v.lo < ps->t->pieces.at[ps->t->pieces.n - 1].hi) fail(ps, "overlaps the v line before");
    else if (inside(ps, v.lo, v.hi - v.lo, "v line")) PUSH(ps, ps->t->pieces, v);
    check->count++;
}

/* sum aN MERGED RAW PAGES CRC [FAULTS], and map with v lines and a dot behind it */
static void parse_checkpoint(struct parser *ps, bool full) {
    struct event ev = blank_event(ps);
    struct check check = {.full = full, .first = (uint32_t)ps->t->pieces.n};
    ev.space = space_field(ps);
    check.merged = dec(ps, "number of intervals");
    (void)dec(ps, "number of VMAs");
    check.pages = hex(ps, "pages");
    struct token crc = field(ps, "CRC");
    check.crc = (uint32_t)hex_of(ps, crc, "CRC");
    if (crc.n != 8) fail(ps, "CRC does not have 8 digits");
    if (ps->p) (void)dec(ps, "number of faults");
    if (!line_ends(ps)) return;
    bool dot = !full;
    while (!dot && next_line(ps)) {
        struct token w = field(ps, "line");
        dot = is(w, ".");
        if (dot) line_ends(ps);
        else if (is(w, "v")) parse_v_line(ps, &check);
        else fail(ps, "only v lines and a dot follow a map");
    }
    if (!dot) fail(ps, "the file ends inside a map");
    if (ps->failed) return;
    struct space_state *s = &ps->space.at[ev.space];
    if (!s->born && !full) fail(ps, "space a%u has no map yet", ps->t->space_names.at[ev.space]);
    ev.op = s->born ? (s->lost ? OP_NONE : OP_CHECK) : OP_BIRTH;
    s->born = true;
    ev.other = (uint32_t)ps->t->checks.n;
    ev.hi = SLICE;
    PUSH(ps, ps->t->checks, check);
    PUSH(ps, ps->t->events, ev);
}

static void parse_grow(struct parser *ps) {
    struct event ev = blank_event(ps);
    ev.op = OP_GROW;
    ev.space = space_field(ps);
    ev.hi = hex(ps, "old start");
    ev.lo = hex(ps, "new start");
    if (!line_ends(ps)) return;
    if (ev.lo >= ev.hi) fail(ps, "an area grows down to a lower address");
    else if (inside(ps, ev.hi, 1, "area")) PUSH(ps, ps->t->events, ev);
}

/* The last space that ends stays in the map: there would be nothing left to look at. */
static void parse_end(struct parser *ps) {
    struct event ev = blank_event(ps);
    ev.space = space_field(ps);
    if (ps->p && !is(field(ps, "remark"), "lost")) fail(ps, "only \"lost\" may follow an end");
    if (!line_ends(ps)) return;
    ps->space.at[ev.space].ended = true;
    ev.op = --ps->live_spaces ? OP_END : OP_NONE;
    ev.hi = SLICE;
    PUSH(ps, ps->t->events, ev);
}

static void parse_window(struct parser *ps) {
    struct trace *t = ps->t;
    struct window w = {hex(ps, "window start"), 0};
    w.hi = hex(ps, "window end");
    if (!line_ends(ps)) return;
    if (w.lo >= w.hi || !inside(ps, w.lo, w.hi - w.lo, "window")) fail(ps, "window is empty");
    else if (t->events.n || t->window_count == MAX_WINDOWS) fail(ps, "a window this late, or one too many");
    if (ps->failed) return;
    size_t i = t->window_count++;
    for (; i && t->windows[i - 1].lo > w.lo; i--) t->windows[i] = t->windows[i - 1];
    t->windows[i] = w;
    for (i = 1; i < t->window_count; i++)
        if (t->windows[i].lo < t->windows[i - 1].hi) fail(ps, "windows overlap");
}

/* as aN BRK0 BRK t1 t2 ... */
static void parse_as(struct parser *ps) {
    uint32_t number = id_of(ps, field(ps, "space"), 'a', "space");
    (void)hex(ps, "first break");
    uint64_t brk = hex(ps, "break");
    if (!inside(ps, brk, 0, "break")) return;
    uint32_t space = new_space(ps, number, brk, true);
    do (void)new_lane(ps, id_of(ps, field(ps, "thread"), 't', "thread"), space);
    while (ps->p && !ps->failed);
}

static void parse_object(struct parser *ps) {
    static const char *const classes[] = {"exe",       "so",       "data", "deleted", "memfd",      "shm-anon",
                                          "shm-posix", "shm-sysv", "dev",  "aio",     "anon-inode", "unmapped"};
    char q[41];
    uint32_t n = id_of(ps, field(ps, "object"), 'f', "object");
    struct token w = field(ps, "class");
    size_t i = 0;
    while (i < sizeof classes / sizeof *classes && !is(w, classes[i])) i++;
    if (i == sizeof classes / sizeof *classes) fail(ps, "class \"%s\" is unknown", quoted(w, q));
    if (ps->p) (void)hex(ps, "size");
    if (!n) fail(ps, "objects begin with f1");
    if (line_ends(ps)) learn(ps, &ps->objects, n, 0);
}

/* Two remarks matter: the program's name, and "# tN killed inside a call": no checks after that. */
static void parse_remark(struct parser *ps) {
    struct trace *t = ps->t;
    static const char program[] = "# program: ";
    size_t n = (size_t)(ps->line_end - ps->p);
    if (n >= sizeof program && !memcmp(ps->p, program, sizeof program - 1)) {
        struct token w = {ps->p + sizeof program - 1, n - (sizeof program - 1)};
        for (n = 0; n < w.n && n < sizeof t->program - 1; n++)
            t->program[n] = w.s[n] >= ' ' && w.s[n] < 127 ? w.s[n] : '?';
        t->program[n] = 0;
    } else if (memmem(ps->p, n, "killed inside", 13) && n > 3 && ps->p[2] == 't') {
        ps->p += 2;
        uint32_t lane = known(&ps->threads, id_of(ps, field(ps, "thread"), 't', "thread"));
        if (lane != NONE) ps->space.at[ps->lane.at[lane].space].lost = true;
    }
}

static void parse_line(struct parser *ps) {
    char q[41];
    if (*ps->p == '#') {
        parse_remark(ps);
        return;
    }
    struct token w = field(ps, "line");
    if (ps->failed) return;
    if (w.n > 1 && w.s[0] == 't' && w.s[1] >= '0' && w.s[1] <= '9') parse_thread_line(ps, w);
    else if (is(w, "sum") || is(w, "map")) parse_checkpoint(ps, is(w, "map"));
    else if (is(w, "o")) parse_object(ps);
    else if (is(w, "grow")) parse_grow(ps);
    else if (is(w, "end")) parse_end(ps);
    else if (is(w, "window")) parse_window(ps);
    else if (is(w, "as")) parse_as(ps);
    else if (is(w, "limit")) {
        (void)hex(ps, "limit");
        line_ends(ps);
    } else fail(ps, "line begins with \"%s\", which is unknown", quoted(w, q));
}

static void free_trace(struct trace *t) {
    free(t->events.at);
    free(t->checks.at);
    free(t->space_names.at);
    free(t->lane_names.at);
    free(t->pieces.at);
    memset(t, 0, sizeof *t);
}

/* 0, or -1 with "name:line: what is wrong" in err; then *out is empty. */
static int parse_trace(const char *name, const char *text, size_t len, struct trace *out, char *err, size_t errlen) {
    struct parser ps = {.name = name, .t = out, .text = text, .end = text + len, .err = err, .errlen = errlen};
    memset(out, 0, sizeof *out);
    if (errlen) err[0] = 0;
    PUSH(&ps, ps.lane, ((struct lane_state){NONE, true})); /* lane 0 */
    PUSH(&ps, out->lane_names, 0u);
    static const char first[] = "# vmtrace 1\n";
    if (len < sizeof first - 1 || memcmp(text, first, sizeof first - 1) != 0) {
        ps.line = 1;
        fail(&ps, "the first line is not \"# vmtrace 1\"");
    }
    while (next_line(&ps)) parse_line(&ps);
    free(ps.threads.at);
    free(ps.spaces.at);
    free(ps.objects.at);
    free(ps.space.at);
    free(ps.lane.at);
    if (ps.failed) free_trace(out);
    return ps.failed ? -1 : 0;
}

/* -------------------------------------------------------------------------------------- spaces on the map */

/* What a node carries in front of it. */
struct area {
    uint64_t off;
    int32_t obj;
    uint8_t perm, flags;
    struct ivs_node node; /* last: its tower follows */
};

struct options {
    unsigned copies, readers;
    bool parallel, show, quiet;
    const char *dot;
};

struct tally {
    uint64_t count[CALLS + 1], failed[CALLS + 1], ns[CALLS + 1];
    uint64_t checks, matched, full, bad, check_ns, most;
    uint64_t hits, below, missed; /* page faults of the sequential replay */
};

struct fault {
    uint64_t at;
    uint32_t space, event;
};

struct replay {
    struct trace *trace;
    const char *name;
    const struct options *options;
    struct ivs_map map;
    unsigned copies;
    bool learning; /* this pass stores ranges that depend on the map */
    bool stop;     /* readers go home */
    uint64_t started_ns, said_ns;
    uint64_t *position; /* by copy: event reached, for readers and the progress line */
    ARRAY(struct fault) faults;
    pthread_mutex_t mutex; /* of `total` and the output */
    struct tally total;
    uint64_t lookups, lookup_hits, lookup_wrong;
};

/* A thread that replays, with what it must not allocate while it holds a range. */
struct worker {
    struct replay *run;
    unsigned copy;
    struct pieces plan, seen, want;
    ARRAY(struct ivs_node *) spare;
    struct tally tally;
};

static void die(const char *what, int code) {
    fprintf(stderr, "vmreplay: %s failed: %d\n", what, code);
    exit(2);
}

static void need(bool enough) {
    if (!enough) die("allocation", IVS_ENOMEM);
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct area *area_of(const struct ivs_node *node) {
    return (struct area *)((uintptr_t)node - offsetof(struct area, node));
}

/* The first key of a space: slices of all copies and spaces lie side by side. */
static uint64_t base_of(const struct worker *w, uint32_t space) {
    return (w->copy * (uint64_t)w->run->trace->space_names.n + space) << SLICE_BITS;
}

static struct piece piece_of(const struct ivs_node *node, uint64_t base) {
    const struct area *a = area_of(node);
    return (struct piece){node->start - base, node->last - base + 1, a->off, a->obj, a->perm, a->flags};
}

/* A part of a mapping that stays when an update cuts it: only files have offsets. */
static int keep_fragment(void *ctx, const struct ivs_node *old, struct ivs_node *fragment) {
    const struct area *from = area_of(old);
    struct area *to = area_of(fragment);
    (void)ctx;
    to->obj = from->obj;
    to->perm = from->perm;
    to->flags = from->flags;
    to->off = from->obj > 0 ? from->off + (fragment->start - old->start) : 0;
    return 0;
}

static struct piece clipped(struct piece p, uint64_t lo, uint64_t hi) {
    if (p.lo < lo) {
        if (p.obj > 0) p.off += lo - p.lo;
        p.lo = lo;
    }
    if (p.hi > hi) p.hi = hi;
    return p;
}

/* May b, which follows a, be one mapping with it? Checkpoints look at rights and object only. */
static bool continues(const struct piece *a, const struct piece *b, bool with_flags) {
    return a->hi == b->lo && a->perm == b->perm && a->obj == b->obj && (!with_flags || a->flags == b->flags) &&
           (a->obj <= 0 || a->off + (a->hi - a->lo) == b->off);
}

/* The list must have room. */
static void append(struct pieces *list, struct piece p, bool with_flags) {
    if (p.lo >= p.hi) return;
    struct piece *last = list->n ? &list->at[list->n - 1] : NULL;
    if (last && continues(last, &p, with_flags)) last->hi = p.hi;
    else list->at[list->n++] = p;
}

/* The mapping that covers an address: a page fault's look-up. */
static bool area_at(struct worker *w, uint32_t space, uint64_t at, struct piece *out) {
    const uint64_t base = base_of(w, space);
    ivs_map_read_enter(&w->run->map);
    const struct ivs_node *node = ivs_map_query_rcu(&w->run->map, base + at);
    if (node) *out = piece_of(node, base);
    ivs_map_read_exit(&w->run->map);
    return node != NULL;
}

/* The mapping that covers an address, or else the next one above it in this space. */
static bool area_above(struct worker *w, uint32_t space, uint64_t at, struct piece *out) {
    const uint64_t base = base_of(w, space);
    ivs_map_read_enter(&w->run->map);
    const struct ivs_node *node = ivs_map_query_next_rcu(&w->run->map, base + at);
    if (node && node->start - base >= SLICE) node = NULL;
    if (node) *out = piece_of(node, base);
    ivs_map_read_exit(&w->run->map);
    return node != NULL;
}

/* The mappings in [lo, hi), clipped. Room is made outside the read section, then the walk begins anew. */
static void areas_in(struct worker *w, uint32_t space, uint64_t lo, uint64_t hi, struct pieces *out) {
    const uint64_t base = base_of(w, space);
    size_t n;
    do {
        const struct ivs_node *node;
        n = out->n = 0;
        ivs_map_read_enter(&w->run->map);
        ivs_map_for_each_rcu (node, &w->run->map, base + lo, base + hi) {
            if (n++ < out->room) out->at[out->n++] = clipped(piece_of(node, base), lo, hi);
        }
        ivs_map_read_exit(&w->run->map);
        need(RESERVE(*out, n));
    } while (n > out->n);
}

static void prepare_nodes(struct worker *w, size_t n) {
    need(RESERVE(w->spare, n));
    while (w->spare.n < n) {
        struct ivs_node *node = ivs_node_new(ivs_map_domain(&w->run->map), 0, 1, NULL, IVS_SLEEP);
        need(node != NULL);
        w->spare.at[w->spare.n++] = node;
    }
}

static void dress(struct ivs_node *node, const struct piece *p, uint64_t base) {
    struct area *a = area_of(node);
    a->off = p->off;
    a->obj = p->obj;
    a->perm = p->perm;
    a->flags = p->flags;
    int rc = ivs_node_set_bounds(node, base + p->lo, base + p->hi);
    if (rc) die("ivs_node_set_bounds", rc);
}

/* Puts w->plan, whose nodes are prepared, in the place of all that is locked. */
static void swap_plan(struct worker *w, struct ivs_lock *lock, uint64_t base) {
    const size_t n = w->plan.n;
    struct ivs_node **run = n ? w->spare.at + (w->spare.n - n) : NULL; /* nothing may have been prepared yet */
    for (size_t i = 0; i < n; i++) dress(run[i], &w->plan.at[i], base);
    int rc = ivs_map_swap(lock, run, n);
    if (rc) die("ivs_map_swap", rc);
    w->spare.n -= n;
}

/* A change of [lo, hi): a new mapping, or new rights or flags for what is there. */
struct edit {
    uint64_t lo, hi;
    const struct piece *add;
    const struct event *protect; /* its result says how far it got */
    bool advise;
    uint8_t perm, flags;
};

/* A refused mprotect has changed what lies before the first hole, or the first mapping that refuses. */
static void narrow_protect(struct edit *e, const struct ivs_lock *lock, uint64_t base) {
    uint64_t covered = e->lo, refused = e->lo;
    bool found = false;
    for (const struct ivs_node *n = ivs_lock_first(lock); n; n = ivs_lock_next(lock, n)) {
        const struct piece p = clipped(piece_of(n, base), e->lo, e->hi);
        if (p.lo >= p.hi) continue;
        if (p.lo > covered) break;
        if ((p.flags & NOWRITE) && !found) {
            refused = p.lo;
            found = true;
        }
        covered = p.hi;
    }
    e->hi = e->protect->result == RES_EACCES ? refused : covered;
}

/* What the locked nodes become, in w->plan; neighbours that are equal become one. False: nothing changes. */
static bool plan_edit(struct worker *w, const struct ivs_lock *lock, uint64_t base, const struct edit *e) {
    struct pieces *plan = &w->plan;
    const struct piece *add = e->add;
    bool same = !add;
    plan->n = 0;
    for (const struct ivs_node *n = ivs_lock_first(lock); n; n = ivs_lock_next(lock, n)) {
        const struct piece p = piece_of(n, base);
        struct piece in = clipped(p, e->lo, e->hi);
        append(plan, clipped(p, 0, e->lo), true);
        if (add && p.hi > e->lo) {
            append(plan, *add, true);
            add = NULL;
        }
        if (e->protect) in.perm = (uint8_t)((in.perm & SHARED) | e->perm);
        if (e->advise) in.flags = (uint8_t)((in.flags & ~DONTFORK) | e->flags);
        if (in.lo < in.hi && (in.perm != p.perm || in.flags != p.flags)) same = false;
        if (!e->add) append(plan, in, true);
        append(plan, clipped(p, e->hi, UINT64_MAX), true);
    }
    if (add) append(plan, *add, true);
    return !same;
}

/* Locks the range and one key more on either side, so that it meets the neighbours it may join. Nothing is
 * allocated under the lock: if what was prepared is too little, it is let go, and the edit begins anew. */
static void edit(struct worker *w, uint32_t space, const struct edit *want) {
    const uint64_t base = base_of(w, space);
    const uint64_t lo = want->lo ? want->lo - 1 : 0, hi = want->hi < SLICE ? want->hi + 1 : SLICE;
    for (size_t nodes = 4, room = 16;;) {
        struct edit e = *want;
        struct ivs_lock lock;
        prepare_nodes(w, nodes);
        need(RESERVE(w->plan, room));
        int rc = ivs_map_lock(&w->run->map, base + lo, base + hi, &lock);
        if (rc) die("ivs_map_lock", rc);
        room = 3 * lock.count + 1;
        bool done = room <= w->plan.room;
        if (done) {
            if (e.protect && e.protect->result != RES_OK) narrow_protect(&e, &lock, base);
            const bool changes = e.lo < e.hi && plan_edit(w, &lock, base, &e);
            nodes = changes ? w->plan.n : 0;
            done = nodes <= w->spare.n;
            if (done && changes) swap_plan(w, &lock, base);
        }
        rc = ivs_map_unlock(&lock);
        if (rc) die("ivs_map_unlock", rc);
        if (done) return;
    }
}

static void cut(struct worker *w, uint32_t space, uint64_t lo, uint64_t hi) {
    const uint64_t base = base_of(w, space);
    int rc = lo < hi ? ivs_map_unmap(&w->run->map, base + lo, base + hi) : 0;
    if (rc) die("ivs_map_unmap", rc);
}

/* Would the new mapping join a neighbour? A guess of two look-ups: if wrong, the list is longer, no more. */
static bool would_join(struct worker *w, uint32_t space, const struct piece *p) {
    struct piece q;
    if (p->lo && area_at(w, space, p->lo - 1, &q)) {
        q.hi = p->lo;
        if (continues(&q, p, true)) return true;
    }
    if (p->hi == SLICE || !area_at(w, space, p->hi, &q)) return false;
    q = clipped(q, p->hi, UINT64_MAX);
    return continues(p, &q, true);
}

/* Maps, over what may be there. Where an area that grows down begins matters: it is joined for certain. */
static void put(struct worker *w, uint32_t space, const struct piece *p) {
    if ((p->flags & GROWS_DOWN) || would_join(w, space, p)) {
        edit(w, space, &(struct edit){.lo = p->lo, .hi = p->hi, .add = p});
        return;
    }
    prepare_nodes(w, 1);
    struct ivs_node *node = w->spare.at[w->spare.n - 1];
    dress(node, p, base_of(w, space));
    int rc = ivs_map_map_node(&w->run->map, node);
    if (rc) die("ivs_map_map_node", rc);
    w->spare.n--;
}

/* Fills an empty space in one step. */
static void populate(struct worker *w, uint32_t space, const struct piece *p, size_t n) {
    const uint64_t base = base_of(w, space);
    struct ivs_lock lock;
    prepare_nodes(w, n);
    need(RESERVE(w->plan, n));
    w->plan.n = 0;
    for (size_t i = 0; i < n; i++) append(&w->plan, p[i], true);
    int rc = ivs_map_lock(&w->run->map, base, base + SLICE, &lock);
    if (rc) die("ivs_map_lock", rc);
    swap_plan(w, &lock, base);
    rc = ivs_map_unlock(&lock);
    if (rc) die("ivs_map_unlock", rc);
}

static void fork_space(struct worker *w, uint32_t parent, uint32_t child) {
    size_t kept = 0;
    areas_in(w, parent, 0, SLICE, &w->seen);
    for (size_t i = 0; i < w->seen.n; i++)
        if (!(w->seen.at[i].flags & DONTFORK)) w->seen.at[kept++] = w->seen.at[i];
    populate(w, child, w->seen.at, kept);
}

/* Said for what the recorded results make impossible. */
static void complain(struct worker *w, const struct event *ev, const char *what) {
    w->tally.bad++;
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: %s\n", w->run->name, ev->line, what);
    pthread_mutex_unlock(&w->run->mutex);
}

/* The target first, then the source, as the kernel does: a reader may see both, never neither. */
static void move(struct worker *w, const struct event *ev) {
    struct pieces *src = &w->seen;
    if (ev->how & MOVE_PARTS) {
        areas_in(w, ev->space, ev->lo, ev->hi, src);
    } else {
        need(RESERVE(*src, 1));
        src->n = area_at(w, ev->space, ev->lo, &src->at[0]) ? 1 : 0;
        if (src->n) src->at[0] = clipped(src->at[0], ev->lo, UINT64_MAX);
        if (src->n) src->at[0].hi = ev->lo + (ev->to_hi - ev->to);
    }
    if (!src->n) complain(w, ev, "mremap of what is not mapped");
    for (size_t i = 0; i < src->n; i++) {
        struct piece p = src->at[i];
        p.lo = p.lo - ev->lo + ev->to;
        p.hi = p.hi - ev->lo + ev->to;
        put(w, ev->space, &p);
    }
    if (!(ev->how & MOVE_KEEP)) cut(w, ev->space, ev->lo, ev->hi);
}

/* [lo, hi) gets what covers `from`: a mapping that grows, up or down. */
static void extend(struct worker *w, const struct event *ev, uint64_t from, uint64_t lo, uint64_t hi) {
    struct piece p;
    if (!area_at(w, ev->space, from, &p)) {
        complain(w, ev, "growth of what is not mapped");
        return;
    }
    if (p.obj > 0) p.off = lo > p.lo ? p.off + (lo - p.lo) : 0;
    p.lo = lo;
    p.hi = hi;
    put(w, ev->space, &p);
}

static void touch(struct worker *w, struct event *ev) {
    struct piece p;
    if (!area_above(w, ev->space, ev->lo, &p)) {
        complain(w, ev, "touch of what is not mapped");
        return;
    }
    if (p.lo <= ev->lo) return;
    if (w->run->learning) ev->hi = p.lo + 1;
    p.hi = p.lo;
    p.lo = ev->lo;
    p.off = 0;
    put(w, ev->space, &p);
}

/* PROT_GROWSDOWN begins at the start of the first mapping that ends above the address. */
static void protect(struct worker *w, struct event *ev) {
    struct edit e = {.lo = ev->lo, .hi = ev->hi, .protect = ev, .perm = ev->area.perm};
    struct piece p;
    if ((ev->how & PROTECT_GROWSDOWN) && area_above(w, ev->space, ev->lo, &p) && p.lo < ev->hi) e.lo = p.lo;
    edit(w, ev->space, &e);
    if (w->run->learning && e.lo < ev->lo) ev->to = e.lo ? e.lo - 1 : 0, ev->to_hi = ev->lo;
}

static void check_space(struct worker *w, const struct event *ev);

static void apply(struct worker *w, struct event *ev) {
    struct piece p;
    const struct check *c;
    switch ((enum op)ev->op) {
    case OP_PUT: put(w, ev->space, &ev->area); break;
    case OP_CUT: cut(w, ev->space, ev->lo, ev->hi); break;
    case OP_CUT_IF_SHARED:
        if (area_at(w, ev->space, ev->lo, &p) && (p.perm & SHARED)) cut(w, ev->space, ev->lo, ev->hi);
        break;
    case OP_PROTECT: protect(w, ev); break;
    case OP_ADVISE:
        edit(w, ev->space, &(struct edit){.lo = ev->lo, .hi = ev->hi, .advise = true, .flags = ev->area.flags});
        break;
    case OP_EXTEND: extend(w, ev, ev->lo, ev->to, ev->to_hi); break;
    case OP_GROW: extend(w, ev, ev->hi, ev->lo, ev->hi); break;
    case OP_MOVE: move(w, ev); break;
    case OP_TOUCH: touch(w, ev); break;
    case OP_FORK: fork_space(w, ev->space, ev->other); break;
    case OP_END: cut(w, ev->space, 0, SLICE); break;
    case OP_BIRTH:
        c = &w->run->trace->checks.at[ev->other];
        populate(w, ev->space, c->count ? w->run->trace->pieces.at + c->first : NULL, c->count);
        check_space(w, ev);
        break;
    case OP_CHECK: check_space(w, ev); break;
    case OP_NONE:
    case OP_LIFE:
    case OP_BARRIER:
    case OP_FAULT: break;
    }
}

/* -------------------------------------------------------------------------------------------- checkpoints */

#define TEXT_ROOM 128 /* longest line of the normal form is below this */

static uint32_t crc_of(uint32_t crc, const char *text, size_t n) {
#ifdef VMREPLAY_ZLIB
    return (uint32_t)crc32(crc, (const unsigned char *)text, (unsigned)n);
#else
    static const uint32_t half_bytes[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                            0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                            0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)text[i];
        crc = crc >> 4 ^ half_bytes[crc & 15];
        crc = crc >> 4 ^ half_bytes[crc & 15];
    }
    return ~crc;
#endif
}

static char *put_hex(char *s, uint64_t x) {
    int shift = 60;
    while (shift && !(x >> shift)) shift -= 4;
    for (; shift >= 0; shift -= 4) *s++ = "0123456789abcdef"[x >> shift & 15];
    return s;
}

static char *put_perm(char *s, unsigned perm) {
    *s++ = perm & READ ? 'r' : '-';
    *s++ = perm & WRITE ? 'w' : '-';
    *s++ = perm & EXEC ? 'x' : '-';
    *s++ = perm & SHARED ? 's' : 'p';
    return s;
}

static char *put_object(char *s, int32_t obj) {
    static const char *const names[] = {"-", "@vdso", "@vvar", "@vvar_vclock"};
    return s + (obj > 0 ? snprintf(s, 16, "f%d", (int)obj) : snprintf(s, 16, "%s", names[-obj]));
}

/* START-END PERMS OFF OBJ, without the line's end. */
static size_t piece_text(const struct piece *p, char out[static TEXT_ROOM]) {
    char *s = put_hex(out, p->lo);
    *s++ = '-';
    s = put_hex(s, p->hi);
    *s++ = ' ';
    s = put_perm(s, p->perm);
    *s++ = ' ';
    s = put_hex(s, p->off);
    *s++ = ' ';
    s = put_object(s, p->obj);
    *s = 0;
    return (size_t)(s - out);
}

/* FORMAT, "Checkpoints": what the windows show, equal neighbours joined. */
static void normal_form(const struct trace *t, const struct piece *at, size_t n, struct pieces *out) {
    out->n = 0;
    need(RESERVE(*out, n + t->window_count + 1));
    if (!t->window_count)
        for (size_t i = 0; i < n; i++) append(out, at[i], false);
    for (size_t k = 0; k < t->window_count; k++)
        for (size_t i = 0; i < n; i++) append(out, clipped(at[i], t->windows[k].lo, t->windows[k].hi), false);
}

/* Index of the first line that differs; the common length if none does. */
static size_t first_difference(const struct pieces *a, const struct pieces *b) {
    size_t i = 0;
    for (; i < a->n && i < b->n; i++) {
        const struct piece *x = &a->at[i], *y = &b->at[i];
        if (x->lo != y->lo || x->hi != y->hi || x->perm != y->perm || x->obj != y->obj) break;
        if (x->obj > 0 && x->off != y->off) break;
    }
    return i;
}

/* The v lines of a full checkpoint, in normal form. */
static const struct pieces *v_lines(struct worker *w, const struct check *c) {
    normal_form(w->run->trace, c->count ? w->run->trace->pieces.at + c->first : NULL, c->count, &w->seen);
    return &w->seen;
}

static void say_difference(struct worker *w, const struct event *ev, const struct pieces *got, uint64_t pages,
                           uint32_t crc) {
    const struct trace *t = w->run->trace;
    const struct check *c = &t->checks.at[ev->other];
    char line[TEXT_ROOM];
    pthread_mutex_lock(&w->run->mutex);
    fprintf(stderr, "%s:%u: checkpoint of a%u differs (copy %u): expected %u intervals, %llx pages, CRC %08x; ",
            w->run->name, ev->line, t->space_names.at[ev->space], w->copy, c->merged, (unsigned long long)c->pages,
            c->crc);
    fprintf(stderr, "got %zu, %llx, %08x\n", got->n, (unsigned long long)pages, crc);
    if (c->full) {
        const struct pieces *expected = v_lines(w, c);
        const size_t i = first_difference(expected, got);
        if (i < expected->n) piece_text(&expected->at[i], line);
        fprintf(stderr, "    first difference: expected %s", i < expected->n ? line : "no more");
        if (i < got->n) piece_text(&got->at[i], line);
        fprintf(stderr, "; got %s\n", i < got->n ? line : "no more");
    }
    pthread_mutex_unlock(&w->run->mutex);
}

static bool equal_v_lines(struct worker *w, const struct check *c, const struct pieces *got) {
    if (!c->full) return true;
    const struct pieces *expected = v_lines(w, c);
    return expected->n == got->n && first_difference(expected, got) == got->n;
}

static void check_space(struct worker *w, const struct event *ev) {
    const struct check *c = &w->run->trace->checks.at[ev->other];
    const uint64_t begin = now_ns();
    char text[4096];
    size_t n = 0;
    uint64_t keys = 0;
    uint32_t crc = 0;
    areas_in(w, ev->space, 0, SLICE, &w->seen);
    if (w->seen.n > w->tally.most) w->tally.most = w->seen.n;
    normal_form(w->run->trace, w->seen.at, w->seen.n, &w->want);
    for (size_t i = 0; i < w->want.n; i++) {
        keys += w->want.at[i].hi - w->want.at[i].lo;
        n += piece_text(&w->want.at[i], text + n);
        text[n++] = '\n';
        if (n < sizeof text - TEXT_ROOM && i + 1 < w->want.n) continue;
        crc = crc_of(crc, text, n);
        n = 0;
    }
    const bool good = w->want.n == c->merged && crc == c->crc && keys / PAGE == c->pages && !(keys % PAGE) &&
                      equal_v_lines(w, c, &w->want);
    if (ev->op == OP_CHECK) {
        w->tally.checks++;
        w->tally.matched += good;
        w->tally.full += c->full;
    }
    w->tally.bad += !good;
    if (!good && w->tally.bad <= 10) say_difference(w, ev, &w->want, keys / PAGE, crc);
    w->tally.check_ns += now_ns() - begin;
}

/* -------------------------------------------------------------------------------------- sequential replay */

static void count_fault(struct worker *w, const struct event *ev) {
    struct piece p;
    if (area_at(w, ev->space, ev->lo, &p)) w->tally.hits++;
    else if (area_above(w, ev->space, ev->lo, &p) && (p.flags & GROWS_DOWN)) w->tally.below++;
    else w->tally.missed++;
}

static void add_tally(struct worker *w) {
    struct tally *to = &w->run->total;
    const struct tally *from = &w->tally;
    pthread_mutex_lock(&w->run->mutex);
    for (size_t i = 0; i <= CALLS; i++) {
        to->count[i] += from->count[i];
        to->failed[i] += from->failed[i];
        to->ns[i] += from->ns[i];
    }
    to->checks += from->checks;
    to->matched += from->matched;
    to->full += from->full;
    to->bad += from->bad;
    to->check_ns += from->check_ns;
    to->hits += from->hits;
    to->below += from->below;
    to->missed += from->missed;
    if (from->most > to->most) to->most = from->most;
    pthread_mutex_unlock(&w->run->mutex);
}

static void end_worker(struct worker *w) {
    add_tally(w);
    while (w->spare.n) (void)ivs_node_discard(ivs_map_domain(&w->run->map), w->spare.at[--w->spare.n]);
    free(w->spare.at);
    free(w->plan.at);
    free(w->seen.at);
    free(w->want.at);
}

/* One event with its time, counted by call; checkpoints count by themselves. */
static void run_event(struct worker *w, size_t i, uint64_t *begin, uint64_t *end) {
    struct event *ev = &w->run->trace->events.at[i];
    *begin = now_ns();
    apply(w, ev);
    *end = now_ns();
    w->tally.count[ev->call]++;
    w->tally.failed[ev->call] += ev->result != RES_OK && ev->call != TOUCH; /* maperr is an answer */
    if (ev->call < CALLS) w->tally.ns[ev->call] += *end - *begin;
}

#define CLEAR_LINE "\033[K\r" /* the rest of the line, and back to its beginning */

/* On a terminal soon, elsewhere only where a run is long. */
static void say_progress(struct replay *r, size_t i, uint64_t now) {
    const bool terminal = isatty(2);
    if (r->options->quiet || now - r->said_ns < (terminal ? 200000000u : 1000000000u)) return;
    r->said_ns = now;
    fprintf(stderr, "%s: event %zu of %zu, %.1f s%s", r->name, i, r->trace->events.n,
            (double)(now - r->started_ns) / 1e9, terminal ? CLEAR_LINE : "\n");
}

/* File order, for one copy. Page faults are left to the readers where there are any. */
static void replay_in_order(struct worker *w, bool faults) {
    struct replay *r = w->run;
    uint64_t begin, end;
    for (size_t i = 0; i < r->trace->events.n; i++) {
        const struct event *ev = &r->trace->events.at[i];
        if (ev->op == OP_FAULT) {
            if (faults) count_fault(w, ev);
            continue;
        }
        run_event(w, i, &begin, &end);
        THREAD_IDLE();
        __atomic_store_n(&r->position[w->copy], i, __ATOMIC_RELAXED);
        if (w->copy == 0 && i % 256 == 0) say_progress(r, i, end);
    }
}

static void start_replay(struct replay *r, struct trace *t, const char *name, const struct options *options,
                         unsigned copies) {
    const struct ivs_map_config config = {.own = {.payload_size = offsetof(struct area, node)},
                                          .fragment = keep_fragment};
    memset(r, 0, sizeof *r);
    r->trace = t;
    r->name = name;
    r->options = options;
    r->copies = copies;
    r->position = calloc(copies, sizeof *r->position);
    need(r->position != NULL);
    pthread_mutex_init(&r->mutex, NULL);
    int rc = ivs_map_init(&r->map, &config);
    if (rc) die("ivs_map_init", rc);
    r->started_ns = r->said_ns = now_ns();
}

/* All threads have gone: the map must be whole. */
static void validate_map(struct replay *r) {
    struct ivs_report report = {0};
    int rc = ivs_map_validate(&r->map, &report);
    if (!rc) return;
    fprintf(stderr, "%s: ivs_map_validate: %d, %s at level %u\n", r->name, rc, report.check ? report.check : "?",
            report.level);
    r->total.bad++;
}

static void end_replay(struct replay *r) {
    int rc = ivs_map_destroy(&r->map);
    if (rc) die("ivs_map_destroy", rc);
    pthread_mutex_destroy(&r->mutex);
    free(r->position);
    free(r->faults.at);
}

/* ------------------------------------------------------------------------------------------------ threads */

struct reader {
    struct replay *run;
    unsigned index;
    pthread_t thread;
    uint64_t lookups, hits, wrong;
};

/* What readers look up: the page faults, or, in traces without any, where mappings were made. */
static void gather_faults(struct replay *r) {
    for (int pass = 0; pass < 2 && !r->faults.n; pass++)
        for (size_t i = 0; i < r->trace->events.n; i++) {
            const struct event *ev = &r->trace->events.at[i];
            if (ev->op != (pass ? OP_PUT : OP_FAULT)) continue;
            need(RESERVE(r->faults, r->faults.n + 1));
            r->faults.at[r->faults.n++] = (struct fault){ev->lo, ev->space, (uint32_t)i};
        }
}

/* One page fault: a look-up without a lock, while others change the map. */
static void read_once(struct reader *rd, const struct fault *f, unsigned copy) {
    const uint64_t key = ((copy * (uint64_t)rd->run->trace->space_names.n + f->space) << SLICE_BITS) + f->at;
    ivs_map_read_enter(&rd->run->map);
    const struct ivs_node *node = ivs_map_query_rcu(&rd->run->map, key);
    if (node) {
        rd->hits++;
        if (node->start > key || node->last < key || (node->start ^ key) >> SLICE_BITS || area_of(node)->perm > 15)
            rd->wrong++;
    }
    ivs_map_read_exit(&rd->run->map);
    rd->lookups++;
}

/* Keeps up with its copy: each fault when its place in the file is reached, recent ones again until then. */
static void *reader_main(void *arg) {
    struct reader *rd = arg;
    struct replay *r = rd->run;
    const unsigned copy = rd->index % r->copies;
    size_t next = 0;
    THREAD_BEGIN();
    for (size_t turn = 0; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); turn++) {
        const uint64_t reached = __atomic_load_n(&r->position[copy], __ATOMIC_RELAXED);
        if (next < r->faults.n && r->faults.at[next].event <= reached) read_once(rd, &r->faults.at[next++], copy);
        else if (next && turn % 256) read_once(rd, &r->faults.at[next - 1 - turn % (next < 256 ? next : 256)], copy);
        else sched_yield();
        THREAD_IDLE();
    }
    THREAD_END();
    return NULL;
}

static void start_thread(pthread_t *thread, void *(*body)(void *), void *arg) {
    int rc = pthread_create(thread, NULL, body, arg);
    if (rc) die("pthread_create", -rc);
}

static struct reader *start_readers(struct replay *r) {
    const unsigned n = r->options->readers;
    struct reader *readers = calloc(n + 1, sizeof *readers);
    need(readers != NULL);
    gather_faults(r);
    for (unsigned i = 0; i < n; i++) {
        readers[i].run = r;
        readers[i].index = i;
        start_thread(&readers[i].thread, reader_main, &readers[i]);
    }
    return readers;
}

static void stop_readers(struct replay *r, struct reader *readers) {
    __atomic_store_n(&r->stop, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < r->options->readers; i++) {
        SLEEP(pthread_join(readers[i].thread, NULL));
        r->lookups += readers[i].lookups;
        r->lookup_hits += readers[i].hits;
        r->lookup_wrong += readers[i].wrong;
    }
    if (r->lookup_wrong) r->total.bad++;
    free(readers);
}

struct copy_thread {
    struct worker worker;
    pthread_t thread;
};

static void *copy_main(void *arg) {
    struct copy_thread *c = arg;
    THREAD_BEGIN();
    replay_in_order(&c->worker, false);
    end_worker(&c->worker);
    THREAD_END();
    return NULL;
}

/* N copies at once in one map. */
static void replay_copies(struct replay *r) {
    struct copy_thread *c = calloc(r->copies, sizeof *c);
    need(c != NULL);
    struct reader *readers = start_readers(r);
    for (unsigned i = 0; i < r->copies; i++) {
        c[i].worker.run = r;
        c[i].worker.copy = i;
        start_thread(&c[i].thread, copy_main, &c[i]);
    }
    for (unsigned i = 0; i < r->copies; i++) SLEEP(pthread_join(c[i].thread, NULL));
    stop_readers(r, readers);
    free(c);
}

/* ----------------------------------------------------------------------------------------------- parallel */

/* An event must wait until `lane` has done `done` of its events. */
struct dependency {
    uint32_t lane, done;
};

/* A thread of the trace. */
struct lane {
    struct parallel *all;
    uint32_t *events; /* in file order */
    uint32_t n;
    pthread_mutex_t mutex; /* of `done` */
    pthread_cond_t more;
    uint32_t done;
    pthread_t thread;
    struct lane *next_gone;
};

struct parallel {
    struct replay *run;
    struct lane *lanes;
    size_t lane_count;
    uint32_t *lane_events;    /* all lanes' lists, one after the other */
    uint32_t *place;          /* by event: its number in its lane, from 1 */
    size_t *first_dependency; /* by event; one more than events */
    ARRAY(struct dependency) dependencies;
    uint64_t *begin, *end; /* by event: when it ran */
    uint32_t *depth;       /* by event: longest chain that ends with it */
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t gone_one;
    struct lane *gone; /* to be joined */
    size_t live;
    uint64_t overlapped, most; /* found afterwards */
    double average;
    size_t peak_event;
    uint32_t longest;
};

struct span {
    uint64_t lo, hi;
};

#define LOOKS       2000
#define WINDOW_MOST 4096 /* events since the last barrier of a space; then one counts as a barrier */

static bool is_event(const struct event *ev) { return ev->op != OP_FAULT; }

/* Barriers meet everything of their space. */
static bool is_barrier(const struct event *ev) {
    return ev->op == OP_CHECK || ev->op == OP_BIRTH || ev->op == OP_FORK || ev->op == OP_END || ev->op == OP_BARRIER;
}

/* All that an event reads or writes, as at most two ranges. */
static unsigned footprint(const struct event *ev, struct span out[static 2]) {
    unsigned n = 1;
    out[0] = (struct span){ev->lo, ev->hi > ev->lo ? ev->hi : ev->lo + 1};
    switch ((enum op)ev->op) {
    case OP_NONE:
    case OP_FAULT: return 0;
    case OP_CHECK:
    case OP_BIRTH:
    case OP_FORK:
    case OP_END:
    case OP_BARRIER: out[0] = (struct span){0, SLICE}; break;
    case OP_GROW: out[0].hi = ev->hi + 1; break; /* looks at what begins there */
    case OP_EXTEND: out[0].hi = ev->to_hi; break;
    case OP_MOVE:
    case OP_PROTECT:
        out[1] = (struct span){ev->to, ev->to_hi};
        n = ev->to < ev->to_hi ? 2 : 1;
        break;
    default: break;
    }
    return n;
}

static bool conflict(const struct event *a, const struct event *b) {
    struct span x[2], y[2];
    const unsigned nx = footprint(a, x), ny = footprint(b, y);
    for (unsigned i = 0; i < nx; i++)
        for (unsigned k = 0; k < ny; k++)
            if (x[i].lo < y[k].hi && y[k].lo < x[i].hi) return true;
    return false;
}

/* What happened in a space since its last barrier, that included. */
struct recent {
    uint32_t *at;
    size_t n, room;
};

/* `mark[lane] == i + 1`: event i waits for this lane already, and for a later event of it. */
static void depend_on_recent(struct parallel *all, const struct recent *recent, uint32_t i, uint32_t *mark,
                             bool whole) {
    const struct event *events = all->run->trace->events.at;
    for (size_t k = recent->n; k-- > 0;) {
        const uint32_t j = recent->at[k], lane = events[j].lane;
        if (mark[lane] == i + 1 || !(whole || conflict(&events[i], &events[j]))) continue;
        mark[lane] = i + 1;
        if (all->depth[i] <= all->depth[j]) all->depth[i] = all->depth[j] + 1;
        if (lane == events[i].lane) continue; /* its own order is kept anyway */
        need(RESERVE(all->dependencies, all->dependencies.n + 1));
        all->dependencies.at[all->dependencies.n++] = (struct dependency){lane, all->place[j]};
    }
}

static void remember(struct recent *recent, uint32_t i, bool barrier) {
    if (barrier) recent->n = 0;
    need(RESERVE(*recent, recent->n + 1));
    recent->at[recent->n++] = i;
}

/* Which earlier events of other threads each event waits for. */
static void find_dependencies(struct parallel *all) {
    const struct trace *t = all->run->trace;
    const size_t spaces = t->space_names.n;
    struct recent *recent = calloc(spaces + 1, sizeof *recent);
    uint32_t *mark = calloc(all->lane_count, sizeof *mark), *last = calloc(all->lane_count, sizeof *last);
    need(recent && mark && last);
    for (uint32_t i = 0; i < t->events.n; i++) {
        const struct event *ev = &t->events.at[i];
        const bool everywhere = ev->op == OP_BARRIER;
        all->first_dependency[i] = all->dependencies.n;
        if (!is_event(ev)) continue;
        all->depth[i] = last[ev->lane] + 1;
        const size_t first = everywhere ? 0 : ev->space;
        const size_t end = everywhere ? spaces : ev->space == NONE || ev->op == OP_NONE ? first : first + 1;
        for (size_t s = first; s < end; s++) {
            const bool barrier = is_barrier(ev) || recent[s].n >= WINDOW_MOST;
            depend_on_recent(all, &recent[s], i, mark, barrier);
            remember(&recent[s], i, barrier);
        }
        if (ev->op == OP_FORK) remember(&recent[ev->other], i, true);
        last[ev->lane] = all->depth[i];
        if (all->depth[i] > all->longest) all->longest = all->depth[i];
    }
    all->first_dependency[t->events.n] = all->dependencies.n;
    for (size_t s = 0; s < spaces; s++) free(recent[s].at);
    free(recent);
    free(mark);
    free(last);
}

/* Each lane's events in file order. */
static void fill_lanes(struct parallel *all) {
    const struct trace *t = all->run->trace;
    uint32_t at = 0;
    for (size_t i = 0; i < t->events.n; i++)
        if (is_event(&t->events.at[i])) all->place[i] = ++all->lanes[t->events.at[i].lane].n;
    for (size_t k = 0; k < all->lane_count; k++) {
        struct lane *lane = &all->lanes[k];
        lane->all = all;
        lane->events = all->lane_events + at;
        at += lane->n;
        pthread_mutex_init(&lane->mutex, NULL);
        pthread_cond_init(&lane->more, NULL);
    }
    for (uint32_t i = 0; i < t->events.n; i++)
        if (is_event(&t->events.at[i])) all->lanes[t->events.at[i].lane].events[all->place[i] - 1] = i;
}

static void wait_for(struct parallel *all, const struct dependency *d) {
    struct lane *lane = &all->lanes[d->lane];
    for (int look = 0; look < LOOKS; look++) /* an event is shorter than a sleep */
        if (__atomic_load_n(&lane->done, __ATOMIC_ACQUIRE) >= d->done) return;
    pthread_mutex_lock(&lane->mutex);
    while (lane->done < d->done) SLEEP(pthread_cond_wait(&lane->more, &lane->mutex));
    pthread_mutex_unlock(&lane->mutex);
}

static void *lane_main(void *arg);

/* Threads that are gone are joined here, so that never more exist than the program had. */
static void start_lane(struct parallel *all, struct lane *lane) {
    pthread_mutex_lock(&all->mutex);
    struct lane *gone = all->gone;
    all->gone = NULL;
    all->live++;
    pthread_mutex_unlock(&all->mutex);
    for (; gone; gone = gone->next_gone) SLEEP(pthread_join(gone->thread, NULL));
    start_thread(&lane->thread, lane_main, lane);
}

static void run_lane(struct lane *lane) {
    struct parallel *all = lane->all;
    struct worker w = {.run = all->run};
    static const struct timespec in_show = {0, 100000};
    for (uint32_t k = 0; k < lane->n; k++) {
        const uint32_t i = lane->events[k];
        const struct event *ev = &all->run->trace->events.at[i];
        for (size_t d = all->first_dependency[i]; d < all->first_dependency[i + 1]; d++)
            wait_for(all, &all->dependencies.at[d]);
        run_event(&w, i, &all->begin[i], &all->end[i]);
        THREAD_IDLE();
        if (all->run->options->show) { /* a call of the kernel has work to do; so that one sees it */
            SLEEP(nanosleep(&in_show, NULL));
            all->end[i] = now_ns();
        }
        __atomic_store_n(&all->run->position[0], i, __ATOMIC_RELAXED);
        if (lane == all->lanes) say_progress(all->run, i, all->end[i]);
        if (ev->starts != NONE) start_lane(all, &all->lanes[ev->starts]);
        pthread_mutex_lock(&lane->mutex);
        __atomic_store_n(&lane->done, k + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&lane->more);
        pthread_mutex_unlock(&lane->mutex);
    }
    end_worker(&w);
}

static void *lane_main(void *arg) {
    struct lane *lane = arg;
    struct parallel *all = lane->all;
    THREAD_BEGIN();
    run_lane(lane);
    THREAD_END();
    pthread_mutex_lock(&all->mutex);
    lane->next_gone = all->gone;
    all->gone = lane;
    all->live--;
    pthread_cond_signal(&all->gone_one);
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

/* Lanes that no other thread of the trace starts are there from the beginning; lane 0 is this thread. */
static void run_lanes(struct parallel *all) {
    const struct trace *t = all->run->trace;
    bool *started = calloc(all->lane_count, sizeof *started);
    need(started != NULL);
    for (size_t i = 0; i < t->events.n; i++)
        if (t->events.at[i].starts != NONE) started[t->events.at[i].starts] = true;
    for (size_t k = 1; k < all->lane_count; k++)
        if (!started[k]) start_lane(all, &all->lanes[k]);
    free(started);
    run_lane(&all->lanes[0]);
    pthread_mutex_lock(&all->mutex);
    while (all->live) SLEEP(pthread_cond_wait(&all->gone_one, &all->mutex));
    pthread_mutex_unlock(&all->mutex);
    for (struct lane *gone = all->gone; gone; gone = gone->next_gone) SLEEP(pthread_join(gone->thread, NULL));
}

struct moment {
    uint64_t ns;
    uint32_t event;
    bool end;
};

static int by_time(const void *x, const void *y) {
    const struct moment *a = x, *b = y;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return (int)b->end - (int)a->end; /* what ends when another begins did not overlap it */
}

/* Which events ran while another of another thread was under way; checkpoints and growth are not events. */
static void measure_overlap(struct parallel *all) {
    const struct trace *t = all->run->trace;
    struct moment *m = calloc(2 * t->events.n + 1, sizeof *m);
    bool *met = calloc(t->events.n + 1, sizeof *met);
    size_t n = 0, flying = 0;
    uint64_t busy = 0, work = 0;
    need(m && met);
    for (uint32_t i = 0; i < t->events.n; i++) {
        if (t->events.at[i].call == NO_CALL) continue;
        m[n++] = (struct moment){all->begin[i], i, false};
        m[n++] = (struct moment){all->end[i], i, true};
        work += all->end[i] - all->begin[i];
    }
    qsort(m, n, sizeof *m, by_time);
    for (size_t k = 0, alone = 0; k < n; k++) {
        if (k && flying) busy += m[k].ns - m[k - 1].ns;
        if (m[k].end) {
            flying--;
            if (flying == 1) alone = NONE;
            continue;
        }
        if (flying == 1 && alone != NONE) met[alone] = true;
        if (flying) met[m[k].event] = true;
        alone = flying ? NONE : m[k].event;
        if (++flying > all->most) {
            all->most = flying;
            all->peak_event = m[k].event;
        }
    }
    for (size_t i = 0; i < t->events.n; i++) all->overlapped += met[i];
    all->average = busy ? (double)work / (double)busy : 0;
    free(m);
    free(met);
}

static void replay_parallel(struct replay *r, struct parallel *all) {
    const struct trace *t = r->trace;
    const size_t n = t->events.n;
    memset(all, 0, sizeof *all);
    all->run = r;
    all->lane_count = t->lane_names.n;
    all->lanes = calloc(all->lane_count, sizeof *all->lanes);
    all->lane_events = calloc(n + 1, sizeof *all->lane_events);
    all->place = calloc(n + 1, sizeof *all->place);
    all->depth = calloc(n + 1, sizeof *all->depth);
    all->first_dependency = calloc(n + 1, sizeof *all->first_dependency);
    all->begin = calloc(n + 1, sizeof *all->begin);
    all->end = calloc(n + 1, sizeof *all->end);
    need(all->lanes && all->lane_events && all->place && all->depth && all->first_dependency && all->begin && all->end);
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->gone_one, NULL);
    fill_lanes(all);
    find_dependencies(all);
    struct reader *readers = start_readers(r);
    r->started_ns = r->said_ns = now_ns();
    run_lanes(all);
    stop_readers(r, readers);
    measure_overlap(all);
}

static void end_parallel(struct parallel *all) {
    for (size_t k = 0; k < all->lane_count; k++) {
        pthread_mutex_destroy(&all->lanes[k].mutex);
        pthread_cond_destroy(&all->lanes[k].more);
    }
    if (all->run) {
        pthread_mutex_destroy(&all->mutex);
        pthread_cond_destroy(&all->gone_one);
    }
    free(all->lanes);
    free(all->lane_events);
    free(all->place);
    free(all->depth);
    free(all->first_dependency);
    free(all->dependencies.at);
    free(all->begin);
    free(all->end);
}

/* ----------------------------------------------------------------------------------------------- pictures */

#define TABLE_ROWS 12
#define COLUMNS    72
#define LANE_ROWS  14

static void human(uint64_t bytes, char out[static 16]) {
    static const char units[] = "KMGT";
    double x = (double)bytes / 1024;
    size_t u = 0;
    for (; x >= 1024 && u < 3; u++) x /= 1024;
    (void)snprintf(out, 16, "%.4g%c", x, units[u]);
}

/* A mapping as a row: its length is told by the bar, one # for each doubling. */
static void print_row(const struct piece *p, char sign) {
    static const char hashes[] = "########################";
    char size[16], text[TEXT_ROOM], object[16], perm[5] = "";
    int bar = 1;
    for (uint64_t pages = (p->hi - p->lo) / PAGE; pages > 1 && bar < 24; pages >>= 1) bar++;
    human(p->hi - p->lo, size);
    *put_perm(perm, p->perm) = 0;
    put_object(object, p->obj);
    (void)snprintf(text, sizeof text, "%llx-%llx", (unsigned long long)p->lo, (unsigned long long)p->hi);
    printf("  %c %-27s %s %-12s %8s |%-24.*s|%s\n", sign, text, perm, object, size, bar, hashes,
           p->flags & GROWS_DOWN ? " grows down" : "");
}

/* The sign says what became of a mapping: '=' is in the other list too, '+' or '-' is not. */
static void print_space(const char *title, const struct pieces *list, const struct pieces *other, char unlike) {
    size_t same = 0, skip;
    printf("%s: %zu intervals\n", title, list->n);
    skip = list->n > TABLE_ROWS ? list->n - TABLE_ROWS : 0;
    for (size_t i = 0, k = 0; i < list->n; i++) {
        const struct piece *p = &list->at[i];
        while (k < other->n && other->at[k].lo < p->lo) k++;
        const bool both =
            k < other->n && other->at[k].lo == p->lo && other->at[k].hi == p->hi && other->at[k].perm == p->perm;
        same += both;
        if (skip && i == TABLE_ROWS / 2) printf("    ... %zu more ...\n", skip);
        if (i < TABLE_ROWS / 2 || i >= TABLE_ROWS / 2 + skip) print_row(p, both ? '=' : unlike);
    }
    printf("    %zu of them in both pictures\n", same);
}

/* The map of the space that is left at the end (or the first), at its birth and now. */
static void show_map(struct replay *r) {
    struct worker w = {.run = r};
    struct pieces before = {0}, after = {0};
    const struct trace *t = r->trace;
    uint32_t space = 0;
    bool found = false;
    for (size_t i = 0; i < t->events.n; i++) {
        const struct event *ev = &t->events.at[i];
        if (found || (ev->op != OP_BIRTH && ev->op != OP_CHECK)) continue;
        const struct check *c = &t->checks.at[ev->other];
        found = true;
        space = ev->space;
        normal_form(t, c->count ? t->pieces.at + c->first : NULL, c->count, &before);
    }
    if (found) areas_in(&w, space, 0, SLICE, &after);
    print_space("before", &before, &after, '-');
    print_space("after", &after, &before, '+');
    free(before.at);
    free(after.at);
    end_worker(&w);
}

/* False if the lane had nothing to do then. */
static bool show_lane(const struct parallel *all, const struct lane *lane, uint64_t from, uint64_t column_ns) {
    const struct trace *t = all->run->trace;
    char row[COLUMNS + 1];
    bool any = false;
    memset(row, '.', COLUMNS);
    row[COLUMNS] = 0;
    for (uint32_t k = 0; k < lane->n; k++) {
        const uint32_t i = lane->events[k];
        const uint64_t a = all->begin[i] > from ? (all->begin[i] - from) / column_ns : 0;
        if (all->end[i] < from || a >= COLUMNS) continue;
        const uint64_t b = (all->end[i] - from) / column_ns;
        const struct event *ev = &t->events.at[i];
        any = true;
        for (uint64_t x = a; x < COLUMNS && (x < b || x == a); x++)
            row[x] = ev->call < CALLS                           ? call_forms[ev->call].letter
                     : ev->op == OP_CHECK || ev->op == OP_BIRTH ? 'C'
                                                                : 'o';
    }
    if (any) printf("  t%-6u %s\n", t->lane_names.at[(size_t)(lane - all->lanes)], row);
    return any;
}

/* A piece of the run around the moment when most was under way: a row for each thread. */
static void show_timeline(const struct parallel *all) {
    const uint64_t column_ns = 25000, peak = all->begin[all->peak_event];
    const uint64_t from = peak - column_ns * COLUMNS / 2;
    printf("timeline, %llu us a column; every event lasts 100 us more here, so that the overlap is seen\n",
           (unsigned long long)(column_ns / 1000));
    for (size_t k = 0, rows = 0; k < all->lane_count && rows < LANE_ROWS; k++)
        rows += show_lane(all, &all->lanes[k], from, column_ns);
    printf("  m mmap  u munmap  p mprotect  r mremap  b brk  a madvise  d other  c clone  f fork  x exec  o "
           "exit, growth\n"
           "  t0: C checkpoint, which waits for all before it, as all after it wait for it\n");
    for (uint32_t i = 0, rows = 0; i < all->run->trace->events.n && rows < 4; i++) {
        const struct event *ev = &all->run->trace->events.at[i];
        if (ev->call == NO_CALL || all->begin[i] > peak || all->end[i] <= peak) continue;
        rows++;
        printf("  at its height: t%u %s [%llx, %llx)\n", all->run->trace->lane_names.at[ev->lane],
               call_forms[ev->call].name, (unsigned long long)ev->lo, (unsigned long long)ev->hi);
    }
}

static void put_text(void *file, const char *text) { fputs(text, file); }

static bool write_dot(struct replay *r) {
    FILE *f = fopen(r->options->dot, "w");
    int rc = f ? ivs_map_dump(&r->map, IVS_DUMP_DOT, put_text, f) : 0;
    if (f && !ferror(f) && fclose(f) == 0 && !rc) return true;
    fprintf(stderr, "vmreplay: cannot write %s: %s\n", r->options->dot, strerror(errno));
    return false;
}

/* ------------------------------------------------------------------------------------------------- report */

static uint64_t sum(const uint64_t *at) {
    uint64_t s = 0;
    for (size_t i = 0; i < CALLS; i++) s += at[i];
    return s;
}

static void report_mix(const struct tally *total) {
    bool done[CALLS] = {false};
    printf("  mix:");
    for (;;) {
        size_t best = CALLS;
        for (size_t i = 0; i < CALLS; i++)
            if (!done[i] && total->count[i] && (best == CALLS || total->count[i] > total->count[best])) best = i;
        if (best == CALLS) break;
        done[best] = true;
        printf(" %s %llu (%llu ns)", call_forms[best].name, (unsigned long long)total->count[best],
               (unsigned long long)(total->ns[best] / total->count[best]));
    }
    printf("\n");
}

static void report(struct replay *r, const char *mode) {
    const struct tally *s = &r->total;
    const uint64_t events = sum(s->count), ns = sum(s->ns);
    const size_t spaces = r->trace->space_names.n, threads = r->trace->lane_names.n - 1;
    struct ivs_map_stats stats;
    if (r->options->quiet) return;
    printf("%s, %s: %s\n", r->name, mode, s->bad ? "DIFFERS" : "all matched");
    if (r->trace->program[0]) printf("  program: %s\n", r->trace->program);
    printf("  events %llu (%llu failed), threads %zu, spaces %zu, checkpoints matched %llu of %llu (%llu "
           "full), most intervals %llu\n",
           (unsigned long long)events, (unsigned long long)sum(s->failed), threads, spaces,
           (unsigned long long)s->matched, (unsigned long long)s->checks, (unsigned long long)s->full,
           (unsigned long long)s->most);
    if (s->hits + s->below + s->missed)
        printf("  page faults %llu: %llu hit, %llu just below a mapping that grows down, %llu missed\n",
               (unsigned long long)(s->hits + s->below + s->missed), (unsigned long long)s->hits,
               (unsigned long long)s->below, (unsigned long long)s->missed);
    if (r->lookups)
        printf("  readers: %llu look-ups meanwhile, %llu hit, %llu wrong\n", (unsigned long long)r->lookups,
               (unsigned long long)r->lookup_hits, (unsigned long long)r->lookup_wrong);
    printf("  %.3f s in all, of which checkpoints %.3f s; %llu ns an event\n", (double)(now_ns() - r->started_ns) / 1e9,
           (double)s->check_ns / 1e9, (unsigned long long)(events ? ns / events : 0));
    report_mix(s);
    if (ivs_map_get_stats(&r->map, &stats) == 0)
        printf("  map at the end: %zu nodes, %llu waits for a held range, %llu searches begun anew\n", stats.nodes,
               (unsigned long long)stats.waits, (unsigned long long)stats.restarts);
}

static void report_parallel(const struct parallel *all) {
    const struct replay *r = all->run;
    const uint64_t events = sum(r->total.count);
    if (r->options->quiet || !events) return;
    printf("  parallel: %llu of %llu events ran while another was under way, at most %llu at once, %.2f on "
           "average while any ran\n",
           (unsigned long long)all->overlapped, (unsigned long long)events, (unsigned long long)all->most,
           all->average);
    printf("  order: %zu waits for another thread recorded; longest chain %u (checkpoints included)\n",
           all->dependencies.n, all->longest);
}

/* --------------------------------------------------------------------------------------------------- main */

static int finish(struct replay *r, const char *mode, const struct parallel *all) {
    if (r->said_ns != r->started_ns && isatty(2)) fputs(CLEAR_LINE, stderr);
    validate_map(r);
    report(r, mode);
    if (all) report_parallel(all);
    if (r->options->show && !r->options->quiet) {
        show_map(r);
        if (all) show_timeline(all);
    }
    int status = r->options->dot && !write_dot(r) ? 2 : r->total.bad ? 1 : 0;
    end_replay(r);
    return status;
}

static int replay_trace(const char *name, struct trace *t, const struct options *options) {
    struct replay r;
    struct parallel all;
    char mode[32] = "sequential";
    if (options->copies * (uint64_t)t->space_names.n > MAX_SLICES) {
        fprintf(stderr, "vmreplay: %s: %u copies of %zu spaces are too many\n", name, options->copies,
                t->space_names.n);
        return 2;
    }
    start_replay(&r, t, name, options, options->copies);
    if (options->copies > 1) {
        (void)snprintf(mode, sizeof mode, "%u copies at once", options->copies);
        replay_copies(&r);
        return finish(&r, mode, NULL);
    }
    struct worker w = {.run = &r};
    r.learning = true;
    replay_in_order(&w, true);
    end_worker(&w);
    if (!options->parallel || r.total.bad) return finish(&r, mode, NULL);
    if (!options->show) report(&r, mode);
    end_replay(&r);
    start_replay(&r, t, name, options, 1);
    replay_parallel(&r, &all);
    int status = finish(&r, "a thread for each thread", &all);
    end_parallel(&all);
    return status;
}

struct buffer {
    char *at;
    size_t n, room;
};

static int unreadable(const char *name, const char *why) {
    fprintf(stderr, "%s: %s\n", name, why);
    return -1;
}

#ifdef VMREPLAY_ZLIB
/* gzread takes plain files as they are. */
static int read_file(const char *name, struct buffer *b) {
    gzFile f = gzopen(name, "rb");
    if (!f) return unreadable(name, strerror(errno));
    int got = 1, code = Z_OK;
    while (got > 0 && b->n <= MAX_TEXT) {
        need(RESERVE(*b, b->n + 65536));
        got = gzread(f, b->at + b->n, 65536);
        if (got > 0) b->n += (size_t)got;
    }
    (void)gzerror(f, &code);
    const int closed = gzclose(f);
    if (got >= 0 && closed == Z_OK && code == Z_OK)
        return b->n > MAX_TEXT ? unreadable(name, "is larger than 1 GiB") : 0;
    size_t lines = 1;
    for (size_t i = 0; i < b->n; i++) lines += b->at[i] == '\n';
    fprintf(stderr, "%s:%zu: %s\n", name, lines,
            code == Z_ERRNO ? strerror(errno) : "compressed data is damaged or cut off");
    return -1;
}
#else
static int read_file(const char *name, struct buffer *b) {
    FILE *f = fopen(name, "rb");
    if (!f) return unreadable(name, strerror(errno));
    size_t got = 1;
    while (got > 0 && b->n <= MAX_TEXT) {
        need(RESERVE(*b, b->n + 65536));
        got = fread(b->at + b->n, 1, 65536, f);
        b->n += got;
    }
    const int error = ferror(f) ? errno : 0;
    fclose(f);
    if (error) return unreadable(name, strerror(error));
    if (b->n > 2 && (unsigned char)b->at[0] == 0x1f && (unsigned char)b->at[1] == 0x8b)
        return unreadable(name, "is compressed, and this vmreplay was built without zlib: gunzip it first");
    return b->n > MAX_TEXT ? unreadable(name, "is larger than 1 GiB") : 0;
}
#endif

static int replay_file(const char *name, const struct options *options) {
    struct buffer b = {0};
    struct trace t;
    char err[512];
    int status = read_file(name, &b) ? 2 : 0;
    THREAD_BEGIN();
    if (!status && parse_trace(name, b.at, b.n, &t, err, sizeof err)) {
        fprintf(stderr, "%s\n", err);
        status = 2;
    } else if (!status) {
        status = replay_trace(name, &t, options);
        free_trace(&t);
    }
    THREAD_END();
    free(b.at);
    return status;
}

static void usage(FILE *f) {
    fputs("usage: vmreplay [options] FILE...      (vmtrace 1 files"
#ifdef VMREPLAY_ZLIB
          ", also .gz"
#endif
          ")\n"
          "Replays recorded address-space calls on an ivskip map and compares it with every checkpoint.\n"
          "  -t, --threads N   N copies at once in one map, in slices of the keys that touch\n"
          "  -p, --parallel    a thread for each thread of the trace; only what meets keeps its order\n"
          "  -r, --readers N   threads that look up page faults meanwhile (default 2; with -t or -p)\n"
          "  -s, --show        print the map before and after; with -p a timeline too\n"
          "  -d, --dot FILE    write the final map as a Graphviz graph\n"
          "  -q, --quiet       print nothing but what is wrong\n"
          "  -h, --help        this text\n"
          "Exit status: 0 all matched, 1 something differs, 2 a file or the command line is wrong.\n",
          f);
}

static unsigned count_argument(const char *text, unsigned least) {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (!errno && !*end && end != text && n >= (long)least && n <= 1024) return (unsigned)n;
    fprintf(stderr, "vmreplay: \"%s\" is no number from %u to 1024\n", text, least);
    exit(2);
}

#ifdef VMREPLAY_NO_MAIN
#define main vmreplay_main
#endif

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"threads", 1, NULL, 't'}, {"parallel", 0, NULL, 'p'}, {"readers", 1, NULL, 'r'}, {"show", 0, NULL, 's'},
        {"dot", 1, NULL, 'd'},     {"quiet", 0, NULL, 'q'},    {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    struct options options = {.copies = 1, .readers = 2};
    int status = 0;
    for (int c; (c = getopt_long(argc, argv, "t:pr:sd:qh", longs, NULL)) != -1;) {
        switch (c) {
        case 't': options.copies = count_argument(optarg, 1); break;
        case 'p': options.parallel = true; break;
        case 'r': options.readers = count_argument(optarg, 0); break;
        case 's': options.show = true; break;
        case 'd': options.dot = optarg; break;
        case 'q': options.quiet = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (options.parallel && options.copies > 1)
        fputs("vmreplay: --threads and --parallel exclude each other\n", stderr);
    if (optind == argc || (options.parallel && options.copies > 1)) {
        usage(stderr);
        return 2;
    }
    for (; optind < argc; optind++) {
        const int s = replay_file(argv[optind], &options);
        if (s > status) status = s;
    }
    return status;
}
