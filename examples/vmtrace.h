/* SPDX-License-Identifier: MIT */
/*
 * vmtrace.h - the parser of `vmtrace 1` files: recorded address-space calls of real programs, and what the kernel's
 * own list of mappings was in between.
 *
 * parse_trace() makes a list of events of a text, or says in which line it is wrong; free_trace() drops it. Nothing
 * here needs the map. For vmreplay.c, and for fuzzers and benchmarks that read the same files; all of it is static.
 */
#ifndef VMTRACE_H
#define VMTRACE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE        UINT64_C(0x1000)
#define SLICE_BITS  47 /* TASK_SIZE is 0x7ffffffff000 */
#define SLICE       (UINT64_C(1) << SLICE_BITS)
#define MAX_SLICES  (UINT64_C(1) << (64 - SLICE_BITS))
#define MAX_ID      (1u << 20)
#define MAX_LINE    65536u
#define MAX_TEXT    (UINT64_C(1) << 30)
#define MAX_WINDOWS 8
#define NONE        UINT32_MAX

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

#endif
