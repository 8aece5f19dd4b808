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
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE        UINT64_C(0x1000)
#define SPACE_END   UINT64_C(0x800000000000)
#define TASK_SIZE   (SPACE_END - PAGE) /* what programs can map lies below */
#define MAX_SPACES  (UINT64_C(1) << 14)
#define MAX_ID      (1u << 20)
#define MAX_LINE    65536u
#define MAX_TEXT    (UINT64_C(1) << 30)
#define MAX_WINDOWS 8
#define NONE        UINT32_MAX
#define GUARD       (256 * PAGE) /* below a mapping that grows down */

enum { READ = 1, WRITE = 2, EXEC = 4, SHARED = 8 };        /* rights; READ and WRITE also: how a file was opened */
enum { GROWS_DOWN = 1 };                                   /* flags of a v line */
enum { ANON = 0, VDSO = -1, VVAR = -2, VVAR_VCLOCK = -3 }; /* objects; fN is N */
enum touched { TOUCH_OK, TOUCH_MAPERR, TOUCH_ACCERR, TOUCH_BUS };

/* A mapping, with addresses of its space. */
struct piece {
    uint64_t lo, hi, off;
    int32_t obj;
    uint8_t perm, flags;
};

struct span {
    uint64_t lo, hi;
};

enum op {
    OP_NONE,    /* nothing, e.g. a checkpoint that cannot be trusted */
    OP_CALL,    /* what `call` says */
    OP_LIFE,    /* exec, clone, exit: order only; its range is the last page, which no program can map */
    OP_GROW,    /* the mapping that begins at x[0] begins at x[1] from now on: a page fault did it */
    OP_FORK,    /* space `other` becomes a copy */
    OP_BIRTH,   /* the first map of a space: taken, then checked */
    OP_CHECK,   /* compare with checks[other] */
    OP_END,     /* the space is dropped */
    OP_BARRIER, /* all threads meet */
    OP_FAULT    /* page fault at x[0] */
};

struct event {
    uint64_t x[5];       /* the arguments as the program passed them, without object, rights and names */
    uint64_t res;        /* the address that a call gave; the break */
    uint64_t kernel_end; /* mremap = !EFAULT, of kdiff: where the kernel's own area ends, amid the old range; else 0 */
    /* What it reads and changes, as far as the file tells; empty: nothing. Calls that failed and have changed nothing
     * meet nothing: they may come at any time, if at all. */
    struct span meets[2];
    int32_t obj;
    uint32_t line, lane, space;
    uint32_t other;  /* fork: child space; check: index */
    uint32_t starts; /* lane that begins with this event, or NONE */
    uint16_t error;  /* errno value, 0: success */
    uint8_t op, call;
    uint8_t perm;   /* kmap: rights; object: how it was opened, 0 if the file does not tell; touch: what was tried */
    uint8_t result; /* touch: enum touched */
};

struct check {
    uint32_t merged, crc, first, count; /* v lines are pieces[first..first+count) */
    uint64_t pages;
    bool full;
};

struct object {
    bool disk; /* a file of a disk's file system: the kernel places those by their offset */
    bool sized;
    uint64_t size;
};

struct space_info {
    uint32_t name; /* N of aN */
    uint64_t brk0, brk;
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

struct id_table {
    uint32_t *at; /* by number: index + 1, 0 unknown */
    size_t room;
};

/* What parse_trace makes of a file. Spaces and threads are numbered anew, by first appearance. */
struct trace {
    ARRAY(struct event) events;
    ARRAY(struct check) checks;
    ARRAY(struct space_info) spaces;
    ARRAY(struct object) objects;
    struct id_table object_ids; /* by number: index + 1 */
    ARRAY(uint32_t) lane_names; /* N of tN; lane 0 is the replayer's own: checkpoints and growth */
    struct pieces pieces;
    struct window windows[MAX_WINDOWS];
    size_t window_count;
    uint64_t stack_limit;                /* RLIMIT_STACK of the recorded program */
    unsigned kernel_major, kernel_minor; /* 0: not told */
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
    struct id_table threads, spaces;
    ARRAY(struct space_state) space;
    ARRAY(struct lane_state) lane;
    size_t live_spaces;
    uint64_t kernel_end; /* of the next call */
};

/* Arguments that are names: numbers, not indices. */
struct names {
    uint32_t thread, space;
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

/* The object of a number; NULL for those without one. */
static const struct object *object_info(const struct trace *t, int32_t obj) {
    return obj > 0 ? &t->objects.at[t->object_ids.at[obj] - 1] : NULL;
}

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

static uint32_t new_space(struct parser *ps, uint32_t number, uint64_t brk0, uint64_t brk, bool born) {
    uint32_t index = (uint32_t)ps->space.n;
    if (ps->failed) return NONE;
    if (known(&ps->spaces, number) != NONE) fail(ps, "space a%u was there before", number);
    if (index >= MAX_SPACES) fail(ps, "more than %llu spaces", (unsigned long long)MAX_SPACES);
    if (ps->failed) return NONE;
    PUSH(ps, ps->space, ((struct space_state){brk, born, false, false}));
    PUSH(ps, ps->t->spaces, ((struct space_info){number, brk0, brk}));
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
    if (known(&ps->t->object_ids, n) == NONE) fail(ps, "object \"%s\" is unknown", quoted(w, q));
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
    if (at <= SPACE_END && length <= SPACE_END - at) return true;
    return fail(ps, "%s [%llx, +%llx) lies outside the address space", what, (unsigned long long)at,
                (unsigned long long)length);
}

/* A range of a call that may have failed: what lies outside is empty there. */
static struct span clipped_span(uint64_t at, uint64_t length) {
    struct span s = {at < SPACE_END ? at : SPACE_END, SPACE_END};
    if (length <= SPACE_END - s.lo) s.hi = s.lo + length;
    return s;
}

/* Of a call that succeeded. */
static struct span span_of(struct parser *ps, uint64_t at, uint64_t length, const char *what) {
    return inside(ps, at, length, what) ? (struct span){at, at + length} : (struct span){0, 0};
}

static struct span mapped_span(struct parser *ps, uint64_t at, uint64_t length) {
    struct span s = span_of(ps, at, length, "mapping");
    if (s.lo == s.hi) fail(ps, "mapping is empty");
    return s;
}

/* Whether an area may begin here depends on what lies in the guard gap below. */
static struct span with_guard(uint64_t lo, uint64_t hi) { return (struct span){lo > GUARD ? lo - GUARD : 0, hi}; }

static void meets_of_mremap(struct parser *ps, struct event *ev) {
    const uint64_t old = ev->x[0], from = page_up(ev->x[1]), size = page_up(ev->x[2]), flags = ev->x[3];
    /* The one refusal that changes something: the target, which is the source, has been unmapped. */
    if (ev->error == EFAULT && (flags & 3) == 3 && !from && ev->x[4] == old) ev->meets[0] = clipped_span(old, size);
    if (ev->error) return;
    ev->meets[0] = span_of(ps, old, from, "old range");
    ev->meets[1] = span_of(ps, ev->res, size, "new range");
    if (!size || old >= SPACE_END) fail(ps, "mremap to or from nothing");
    else if (ev->res != old && ev->res < old + (from ? from : 1) && old < ev->res + size)
        fail(ps, "mremap onto itself");
    if (!from) ev->meets[0].hi = old + 1; /* a second mapping of what lies at `old` */
}

/* Two changes of the break meet, as the second begins where the first ends; the page beyond has to be free, and the
 * guard gap of what lies above. */
static void meets_of_brk(struct parser *ps, struct event *ev) {
    struct space_state *s = &ps->space.at[ev->space];
    if (ev->x[0] != ev->res || !inside(ps, ev->res, 0, "break")) return;
    const uint64_t was = page_up(s->brk), now = page_up(ev->res);
    ev->meets[0] = clipped_span(was < now ? was : now, (was < now ? now - was : was - now) + PAGE + GUARD);
    s->brk = ev->res;
}

/* Whether it does anything to the map, as far as the file tells. */
static bool has_effect(const struct event *ev) { return ev->meets[0].lo < ev->meets[0].hi; }

static void parse_fork_names(struct parser *ps, struct event *ev, const struct names *n) {
    const struct space_info *from = &ps->t->spaces.at[ev->space];
    if (ev->error) return;
    ev->other = new_space(ps, n->space, from->brk0, ps->space.at[ev->space].brk, true);
    ev->starts = new_lane(ps, n->thread, ev->other);
    ev->op = OP_FORK;
    ev->meets[0] = (struct span){0, SPACE_END};
}

static void make_life_event(struct event *ev) {
    ev->op = OP_LIFE;
    ev->meets[0] = (struct span){SPACE_END - 1, SPACE_END};
}

/* mprotect that stopped at a hole or a refusal, and mlock and madvise that met a hole, have changed the rest. */
static void meets_of_range(struct event *ev) {
    const uint64_t start = ev->x[0] & ~(PAGE - 1), length = page_up(ev->x[1] + (ev->x[0] - start));
    const bool partial = ev->error == ENOMEM || ev->error == EACCES;
    if ((ev->error && !partial) || (length && start > UINT64_MAX - length + 1)) return;
    ev->meets[0] = clipped_span(start, length);
}

static void meets_of_touch(struct event *ev) {
    const uint64_t page = ev->x[0] & ~(PAGE - 1);
    if (ev->result != TOUCH_MAPERR && page < SPACE_END) ev->meets[0] = with_guard(page, page + 1);
}

/* Whatever succeeded must fit the space; and FORMAT, "Replaying", rules 2 and 3: what has changed. */
static void parse_effect(struct parser *ps, struct event *ev, const struct names *names) {
    const bool ok = !ev->error;
    ev->op = OP_CALL;
    switch ((enum call)ev->call) {
    case MMAP:
        if (ok) ev->meets[0] = mapped_span(ps, ev->res, page_up(ev->x[1]));
        break;
    case MUNMAP:
        if (ok) ev->meets[0] = span_of(ps, ev->x[0], page_up(ev->x[1]), "range");
        break;
    case MPROTECT:
    case PKEY_MPROTECT:
    case MADVISE:
    case MLOCK:
    case MLOCK2:
    case MUNLOCK:
    case MSEAL: meets_of_range(ev); break;
    case MLOCKALL:
    case MUNLOCKALL: ev->meets[0] = (struct span){0, ok ? SPACE_END : 0}; break;
    case MREMAP: meets_of_mremap(ps, ev); break;
    case BRK:
        if (ok) meets_of_brk(ps, ev);
        break;
    case SHMAT:
        if (ok) ev->meets[0] = mapped_span(ps, ev->res, ev->x[0]);
        break;
    case SHMDT:
    case KUNMAP:
        if (ok) ev->meets[0] = span_of(ps, ev->x[0], ev->x[1], "range");
        break;
    case KMAP: ev->meets[0] = mapped_span(ps, ev->x[0], ev->x[1]); break;
    case CLONE:
        if (!ok) break;
        ev->starts = new_lane(ps, names->thread, ev->space);
        make_life_event(ev);
        break;
    case FORK: parse_fork_names(ps, ev, names); break;
    case TOUCH: meets_of_touch(ev); break;
    default: break;
    }
}

/* An object, and how it was opened: fN/rw. */
static void parse_object_argument(struct parser *ps, struct event *ev) {
    char q[41];
    struct token w = field(ps, "object");
    const char *slash = memchr(w.s, '/', w.n);
    struct token mode = {slash ? slash + 1 : "", slash ? (size_t)(w.s + w.n - slash - 1) : 0};
    if (slash) w.n = (size_t)(slash - w.s);
    ev->obj = object_of(ps, w);
    if (is(mode, "r")) ev->perm = READ;
    else if (is(mode, "w")) ev->perm = WRITE;
    else if (is(mode, "rw")) ev->perm = READ | WRITE;
    else if (slash && !is(mode, "p")) fail(ps, "open mode \"%s\" is none of r w rw p", quoted(mode, q));
}

static void parse_access(struct parser *ps, struct event *ev) {
    char q[41];
    struct token w = field(ps, "access");
    if (!is(w, "r") && !is(w, "w") && !is(w, "x")) fail(ps, "access \"%s\" is neither r nor w", quoted(w, q));
    ev->perm = is(w, "r") ? READ : is(w, "w") ? WRITE : EXEC;
}

static void parse_args(struct parser *ps, const char *form, struct event *ev, struct names *names) {
    char q[41];
    struct token w;
    size_t numbers = 0;
    for (; *form && !ps->failed; form++) {
        switch (*form) {
        case 'x': ev->x[numbers++] = hex(ps, "argument"); break;
        case 'p': ev->perm = perm_of(ps, field(ps, "rights")); break;
        case 't': names->thread = id_of(ps, field(ps, "thread"), 't', "thread"); break;
        case 'a': names->space = id_of(ps, field(ps, "space"), 'a', "space"); break;
        case 'm': parse_access(ps, ev); break;
        case 'V':
            if (ps->p && ps->p < ps->line_end && *ps->p == 'v' && !is(w = field(ps, "vfork"), "vfork"))
                fail(ps, "\"%s\" should be vfork", quoted(w, q));
            break;
        default: parse_object_argument(ps, ev);
        }
    }
}

/* Errors by name; a name that is not here counts as EIO, which no address-space call gives. */
static const struct {
    const char *name;
    uint16_t value;
} error_names[] = {{"EPERM", EPERM},          {"ENOENT", ENOENT}, {"EINTR", EINTR},   {"EBADF", EBADF},
                   {"EAGAIN", EAGAIN},        {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EFAULT", EFAULT},
                   {"EBUSY", EBUSY},          {"EEXIST", EEXIST}, {"ENODEV", ENODEV}, {"EINVAL", EINVAL},
                   {"ENOSYS", ENOSYS},        {"ENFILE", ENFILE}, {"EMFILE", EMFILE}, {"EOVERFLOW", EOVERFLOW},
                   {"EOPNOTSUPP", EOPNOTSUPP}};
#define ERROR_NAMES (sizeof error_names / sizeof *error_names)

/* ERROR_NAMES for those without a name. */
static size_t error_index(unsigned error) {
    size_t i = 0;
    while (i < ERROR_NAMES && error_names[i].value != error) i++;
    return i;
}

static const char *error_name(unsigned error) {
    const size_t i = error_index(error);
    return i < ERROR_NAMES ? error_names[i].name : "another error";
}

static uint16_t error_of(struct parser *ps, struct token w) {
    char q[41];
    for (size_t i = 0; i < w.n; i++)
        if (w.s[i] < '0' || w.s[i] > 'Z' || (w.s[i] > '9' && w.s[i] < 'A'))
            fail(ps, "result \"!%s\" is no error name", quoted(w, q));
    for (size_t i = 0; i < ERROR_NAMES; i++)
        if (is(w, error_names[i].name)) return error_names[i].value;
    return EIO;
}

static void parse_touched(struct parser *ps, struct token w, struct event *ev) {
    static const char *const names[] = {"ok", "maperr", "accerr", "bus"};
    char q[41];
    for (ev->result = 0; ev->result < 4 && !is(w, names[ev->result]);) ev->result++;
    if (ev->result == 4) fail(ps, "result \"%s\" is none of ok maperr accerr bus", quoted(w, q));
}

/* "= RES" */
static void parse_result(struct parser *ps, struct event *ev) {
    char q[41];
    struct token w = field(ps, "\"=\"");
    if (!is(w, "=")) fail(ps, "\"%s\" stands where \"=\" should", quoted(w, q));
    w = field(ps, "result");
    if (!line_ends(ps)) return;
    if (ev->call == TOUCH) parse_touched(ps, w, ev);
    else if (w.n > 1 && w.s[0] == '!') ev->error = error_of(ps, (struct token){w.s + 1, w.n - 1});
    else ev->res = hex_of(ps, w, "result");
}

static struct event blank_event(struct parser *ps) {
    struct event ev = {.line = ps->line, .call = NO_CALL, .space = NONE, .other = NONE, .starts = NONE};
    ev.kernel_end = ps->kernel_end;
    ps->kernel_end = 0;
    return ev;
}

/* exec: the caller, perhaps the first thread of all, goes on in a new space whose `map` follows. */
static void parse_exec(struct parser *ps, uint32_t thread, struct event *ev) {
    struct names names = {0};
    uint32_t lane = known(&ps->threads, thread);
    parse_args(ps, call_forms[EXECVE].args, ev, &names);
    ev->call = EXECVE;
    parse_result(ps, ev);
    if (!inside(ps, ev->x[1], 0, "break") || ps->failed) return;
    if (lane != NONE && ps->lane.at[lane].gone) fail(ps, "thread t%u has exited", thread);
    if (ev->error || ps->failed) {
        if (lane == NONE) fail(ps, "thread t%u has no space", thread);
        else ev->lane = lane;
        return;
    }
    uint32_t space = new_space(ps, names.space, ev->x[0], ev->x[1], false);
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
    ev->x[0] = hex(ps, "address");
    ev->op = ev->x[0] < SPACE_END ? OP_FAULT : OP_NONE; /* a wild pointer */
    line_ends(ps);
}

static void parse_thread_line(struct parser *ps, struct token who) {
    char q[41];
    struct event ev = blank_event(ps);
    struct names names = {0};
    uint32_t thread = id_of(ps, who, 't', "thread");
    struct token w = field(ps, "call");
    if (ps->failed) return;
    if (is(w, "exec")) {
        parse_exec(ps, thread, &ev);
    } else if (is(w, "barrier")) {
        if (thread) fail(ps, "a barrier is met by t0");
        ev.op = OP_BARRIER;
        ev.meets[0] = (struct span){0, SPACE_END};
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
        parse_args(ps, call_forms[ev.call].args, &ev, &names);
        parse_result(ps, &ev);
        if (!ps->failed) parse_effect(ps, &ev, &names);
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
    else if ((v.lo | v.hi) % PAGE) fail(ps, "v line ends inside a page");
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
    if (!s->born && !full) fail(ps, "space a%u has no map yet", ps->t->spaces.at[ev.space].name);
    ev.op = s->born ? (s->lost ? OP_NONE : OP_CHECK) : OP_BIRTH;
    s->born = true;
    ev.other = (uint32_t)ps->t->checks.n;
    ev.meets[0] = (struct span){0, SPACE_END};
    PUSH(ps, ps->t->checks, check);
    PUSH(ps, ps->t->events, ev);
}

static void parse_grow(struct parser *ps) {
    struct event ev = blank_event(ps);
    ev.op = OP_GROW;
    ev.space = space_field(ps);
    ev.x[0] = hex(ps, "old start");
    ev.x[1] = hex(ps, "new start");
    if (!line_ends(ps)) return;
    if (ev.x[1] >= ev.x[0]) fail(ps, "an area grows down to a lower address");
    else if (inside(ps, ev.x[0], 1, "area")) {
        ev.meets[0] = with_guard(ev.x[1], ev.x[0] + 1);
        PUSH(ps, ps->t->events, ev);
    }
}

/* The last space that ends stays in the map: there would be nothing left to look at. */
static void parse_end(struct parser *ps) {
    struct event ev = blank_event(ps);
    ev.space = space_field(ps);
    if (ps->p && !is(field(ps, "remark"), "lost")) fail(ps, "only \"lost\" may follow an end");
    if (!line_ends(ps)) return;
    ps->space.at[ev.space].ended = true;
    ev.op = --ps->live_spaces ? OP_END : OP_NONE;
    ev.meets[0] = (struct span){0, SPACE_END};
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
    uint64_t brk0 = hex(ps, "first break"), brk = hex(ps, "break");
    if (!inside(ps, brk, 0, "break") || !inside(ps, brk0, 0, "first break")) return;
    uint32_t space = new_space(ps, number, brk0, brk, true);
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
    struct object object = {.disk = i < 4, .sized = ps->p != NULL};
    if (ps->p) object.size = hex(ps, "size");
    if (!n) fail(ps, "objects begin with f1");
    if (!line_ends(ps)) return;
    learn(ps, &ps->t->object_ids, n, (uint32_t)ps->t->objects.n);
    PUSH(ps, ps->t->objects, object);
}

/* A number of a version like 6.18.44, and the place behind the dot that follows. */
static unsigned version_part(const char **at, const char *end) {
    unsigned n = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && n < 1000; ++*at) n = n * 10 + (unsigned)(**at - '0');
    if (*at < end && **at == '.') ++*at;
    return n;
}

/* Four remarks matter: the program's name, the kernel's version, "# tN killed inside a call": no checks after that, and
 * kdiff's "# kernel-area-end: ADDRESS". */
static void parse_remark(struct parser *ps) {
    struct trace *t = ps->t;
    static const char program[] = "# program: ", kernel[] = "# kernel: Linux ";
    static const char area[] = "# kernel-area-end: ";
    size_t n = (size_t)(ps->line_end - ps->p);
    if (n >= sizeof program && !memcmp(ps->p, program, sizeof program - 1)) {
        struct token w = {ps->p + sizeof program - 1, n - (sizeof program - 1)};
        for (n = 0; n < w.n && n < sizeof t->program - 1; n++)
            t->program[n] = w.s[n] >= ' ' && w.s[n] < 127 ? w.s[n] : '?';
        t->program[n] = 0;
    } else if (n > sizeof kernel - 1 && !memcmp(ps->p, kernel, sizeof kernel - 1)) {
        const char *at = ps->p + sizeof kernel - 1;
        t->kernel_major = version_part(&at, ps->line_end);
        t->kernel_minor = version_part(&at, ps->line_end);
    } else if (n > sizeof area - 1 && !memcmp(ps->p, area, sizeof area - 1)) {
        const char *at = ps->p + sizeof area - 1;
        ps->kernel_end = hex_of(ps, (struct token){at, (size_t)(ps->line_end - at)}, "end of an area");
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
        ps->t->stack_limit = hex(ps, "limit");
        line_ends(ps);
    } else fail(ps, "line begins with \"%s\", which is unknown", quoted(w, q));
}

static void free_trace(struct trace *t) {
    free(t->events.at);
    free(t->checks.at);
    free(t->spaces.at);
    free(t->objects.at);
    free(t->object_ids.at);
    free(t->lane_names.at);
    free(t->pieces.at);
    memset(t, 0, sizeof *t);
}

/* 0, or -1 with "name:line: what is wrong" in err; then *out is empty. */
static int parse_trace(const char *name, const char *text, size_t len, struct trace *out, char *err, size_t errlen) {
    struct parser ps = {.name = name, .t = out, .text = text, .end = text + len, .err = err, .errlen = errlen};
    memset(out, 0, sizeof *out);
    out->stack_limit = UINT64_C(8) << 20;
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
    free(ps.space.at);
    free(ps.lane.at);
    if (ps.failed) free_trace(out);
    return ps.failed ? -1 : 0;
}

#endif
