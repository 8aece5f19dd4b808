/* SPDX-License-Identifier: MIT */
/* Recorded address-space calls as maps, unmaps and look-ups of one map: parsed by the example's parser. A copy of the
 * library, private to this file, serves as the model that says what look-ups must find. */
#define IVSKIP_STATIC
#pragma GCC diagnostic ignored "-Wunused-function"
#include "examples/vmtrace.h" /* first: it asks libc for memmem */
#include "ivskip.h"

#include "bench.h"

struct maker {
    struct bench_trace *out;
    size_t room;
    struct ivs_map model;
};

static void emit(struct maker *m, int op, uint64_t lo, uint64_t hi) {
    struct ivs_entry entry;
    if (op != BENCH_FIND && lo >= hi) return;
    if (m->out->n == m->room) {
        m->room = m->room ? 2 * m->room : 1024;
        m->out->event = realloc(m->out->event, m->room * sizeof *m->out->event);
        bench_demand(m->out->event);
    }
    struct bench_event e = {.lo = lo, .hi = hi, .op = op};
    if (op == BENCH_MAP) bench_demand(ivs_map_map(&m->model, lo, hi, NULL) == 0);
    else if (op == BENCH_UNMAP) bench_demand(ivs_map_unmap(&m->model, lo, hi) == 0);
    else e.hit = ivs_map_lookup(&m->model, lo, &entry) == 0;
    m->out->event[m->out->n++] = e;
}

/* Every space is a slice of the map's keys. */
static uint64_t base_of(uint32_t space) { return (uint64_t)space * SPACE_END; }

static void emit_copy(struct maker *m, uint64_t from, uint64_t to) {
    struct ivs_entry entry;
    for (uint64_t at = from; ivs_map_lookup_next(&m->model, at, &entry) == 0 && entry.start < from + SPACE_END;
         at = entry.end)
        emit(m, BENCH_MAP, entry.start - from + to, entry.end - from + to);
}

static void emit_remap(struct maker *m, uint64_t base, const struct event *e) {
    const uint64_t old = e->x[0], from = page_up(e->x[1]), size = page_up(e->x[2]);
    if (e->res != old) {
        if (!(e->x[3] & 4)) emit(m, BENCH_UNMAP, base + old, base + old + from);
        emit(m, BENCH_MAP, base + e->res, base + e->res + size);
    } else if (size < from) {
        emit(m, BENCH_UNMAP, base + old + size, base + old + from);
    } else {
        emit(m, BENCH_MAP, base + old + from, base + old + size);
    }
}

/* What a call that succeeded did to the set of mapped keys; rights and files make a new interval and no other difference
 * here. `brk`: of the space, changed. */
static void emit_call(struct maker *m, const struct event *e, uint64_t *brk) {
    const uint64_t base = base_of(e->space), at = base + e->x[0];
    switch ((enum call)e->call) {
    case MMAP: emit(m, BENCH_MAP, base + e->res, base + e->res + page_up(e->x[1])); break;
    case SHMAT: emit(m, BENCH_MAP, base + e->res, base + e->res + page_up(e->x[0])); break;
    case KMAP: emit(m, BENCH_MAP, at, at + page_up(e->x[1])); break;
    case MUNMAP:
    case SHMDT:
    case KUNMAP: emit(m, BENCH_UNMAP, at, at + page_up(e->x[1])); break;
    case MPROTECT:
    case PKEY_MPROTECT:
        if (!(e->x[2] & 0x1000000)) emit(m, BENCH_MAP, at, at + page_up(e->x[1]));
        break;
    case MREMAP: emit_remap(m, base, e); break;
    case BRK:
        if (e->res != e->x[0]) break;
        emit(m, BENCH_MAP, base + page_up(*brk), base + page_up(e->res));
        emit(m, BENCH_UNMAP, base + page_up(e->res), base + page_up(*brk));
        *brk = e->res;
        break;
    case TOUCH: emit(m, BENCH_FIND, at & ~(PAGE - 1), 0); break;
    default: break;
    }
}

static void emit_event(struct maker *m, const struct trace *t, const struct event *e, uint64_t *brk) {
    const uint64_t base = e->space < t->spaces.n ? base_of(e->space) : 0;
    switch ((enum op)e->op) {
    case OP_CALL:
        if (!e->error) emit_call(m, e, &brk[e->space]);
        break;
    case OP_GROW: emit(m, BENCH_MAP, base + e->x[1], base + e->x[0]); break;
    case OP_FORK:
        emit_copy(m, base, base_of(e->other));
        brk[e->other] = brk[e->space];
        break;
    case OP_END: emit(m, BENCH_UNMAP, base, base + SPACE_END); break;
    case OP_BIRTH:
        for (uint32_t i = 0; i < t->checks.at[e->other].count; i++) {
            const struct piece *p = &t->pieces.at[t->checks.at[e->other].first + i];
            emit(m, BENCH_MAP, base + p->lo, base + p->hi);
        }
        break;
    case OP_FAULT: emit(m, BENCH_FIND, base + e->x[0], 0); break;
    default: break;
    }
}

static char *file_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(MAX_LINE * 64) : NULL;
    if (text) *length = fread(text, 1, MAX_LINE * 64, file);
    if (file) fclose(file);
    return text;
}

static struct bench_trace *make_trace(const char *path) {
    struct trace trace;
    char error[200];
    size_t length = 0;
    char *text = file_text(path, &length);
    if (!text || parse_trace(path, text, length, &trace, error, sizeof error)) return free(text), NULL;
    struct maker m = {.out = calloc(1, sizeof *m.out)};
    struct ivs_map_stats stats;
    bench_demand(m.out && ivs_map_init(&m.model, NULL) == 0);
    uint64_t *brk = calloc(trace.spaces.n + 1, sizeof *brk);
    bench_demand(brk);
    for (size_t i = 0; i < trace.spaces.n; i++) brk[i] = trace.spaces.at[i].brk;
    for (size_t i = 0; i < trace.events.n; i++) emit_event(&m, &trace, &trace.events.at[i], brk);
    free(brk);
    bench_demand(ivs_map_get_stats(&m.model, &stats) == 0);
    m.out->covered = stats.keys;
    bench_demand(ivs_map_destroy(&m.model) == 0);
    free_trace(&trace);
    free(text);
    return m.out;
}

const struct bench_trace *bench_trace(const char *path) {
    static struct {
        const char *path;
        struct bench_trace *trace;
    } kept[16];
    size_t i = 0;
    while (i < 16 && kept[i].path && strcmp(kept[i].path, path) != 0) i++;
    bench_demand(i < 16);
    if (!kept[i].path) {
        kept[i].path = path;
        kept[i].trace = make_trace(path);
    }
    return kept[i].trace;
}
