/* SPDX-License-Identifier: MIT */
/* Recorded address-space calls as maps, unmaps and look-ups of one map: parsed by the example, whose copy of the
 * library is private to this file and serves as the model that says what look-ups must find. */
#define IVSKIP_STATIC
#define VMREPLAY_NO_MAIN
#pragma GCC diagnostic ignored "-Wunused-function"
#include "examples/vmreplay.c"

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

static void emit_copy(struct maker *m, uint64_t from, uint64_t to) {
    struct ivs_entry entry;
    for (uint64_t at = from; ivs_map_lookup_next(&m->model, at, &entry) == 0 && entry.start < from + SLICE;
         at = entry.end)
        emit(m, BENCH_MAP, entry.start - from + to, entry.end - from + to);
}

/* What a call did to the set of mapped keys; rights and files make a new interval and no other difference here. */
static void emit_event(struct maker *m, const struct trace *t, const struct event *e) {
    uint64_t base = (uint64_t)e->space << SLICE_BITS;
    switch ((enum op)e->op) {
    case OP_PUT: emit(m, BENCH_MAP, base + e->area.lo, base + e->area.hi); break;
    case OP_PROTECT:
        if (e->result == RES_OK && !(e->how & PROTECT_GROWSDOWN)) emit(m, BENCH_MAP, base + e->lo, base + e->hi);
        break;
    case OP_CUT: emit(m, BENCH_UNMAP, base + e->lo, base + e->hi); break;
    case OP_EXTEND: emit(m, BENCH_MAP, base + e->to, base + e->to_hi); break;
    case OP_GROW: emit(m, BENCH_MAP, base + e->lo, base + e->hi); break;
    case OP_MOVE:
        emit(m, BENCH_UNMAP, base + e->lo, base + e->hi);
        emit(m, BENCH_MAP, base + e->to, base + e->to_hi);
        break;
    case OP_FORK: emit_copy(m, base, (uint64_t)e->other << SLICE_BITS); break;
    case OP_END: emit(m, BENCH_UNMAP, base, base + SLICE); break;
    case OP_BIRTH:
        for (uint32_t i = 0; i < t->checks.at[e->other].count; i++) {
            const struct piece *p = &t->pieces.at[t->checks.at[e->other].first + i];
            emit(m, BENCH_MAP, base + p->lo, base + p->hi);
        }
        break;
    case OP_TOUCH:
    case OP_FAULT: emit(m, BENCH_FIND, base + e->lo, 0); break;
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
    for (size_t i = 0; i < trace.events.n; i++) emit_event(&m, &trace, &trace.events.at[i]);
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
