/* SPDX-License-Identifier: MIT */
/* A sorted array as an interval map: what is hard to beat while it is small and nobody writes. */
#define TABLE(x) array_##x
#include "table.h"

#include <stdlib.h>
#include <string.h>

struct table {
    struct table_entry *at;
    size_t n, room;
};

struct table *array_new(void) {
    struct table *t = calloc(1, sizeof *t);
    bench_demand(t);
    return t;
}

void array_free(struct table *t) {
    if (t->at) bench_free(t->at, t->room * sizeof *t->at);
    free(t);
}

static size_t first_behind(const struct table *t, uint64_t key) {
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (t->at[mid].end > key) hi = mid;
        else lo = mid + 1;
    }
    return lo;
}

const struct table_entry *array_behind(const struct table *t, uint64_t key) {
    size_t i = first_behind(t, key);
    return i < t->n ? &t->at[i] : NULL;
}

const struct table_entry *array_next(const struct table *t, const struct table_entry *entry) {
    return entry + 1 < t->at + t->n ? entry + 1 : NULL;
}

static void grow(struct table *t) {
    size_t room = t->room ? 2 * t->room : 64;
    struct table_entry *at = bench_alloc(room * sizeof *at);
    bench_demand(at);
    if (t->at) {
        memcpy(at, t->at, t->n * sizeof *at);
        bench_free(t->at, t->room * sizeof *at);
    }
    t->at = at;
    t->room = room;
}

/* Entries first..last-1 are replaced by `count` others, with one move of the rest. */
static void replace(struct table *t, size_t first, size_t last, const struct table_entry *by, size_t count) {
    while (t->n + count > t->room) grow(t);
    memmove(&t->at[first + count], &t->at[last], (t->n - last) * sizeof *t->at);
    memcpy(&t->at[first], by, count * sizeof *by);
    t->n += count - (last - first);
}

void array_put(struct table *t, uint64_t start, uint64_t end, struct bench_record *record) {
    struct table_entry by[3];
    size_t first = first_behind(t, start), last = first, count = 0;
    while (last < t->n && t->at[last].start < end) last++;
    if (last > first && t->at[first].start < start)
        by[count++] = (struct table_entry){t->at[first].start, start, t->at[first].record};
    if (record) by[count++] = (struct table_entry){start, end, record};
    if (last > first && t->at[last - 1].end > end)
        by[count++] = (struct table_entry){end, t->at[last - 1].end, t->at[last - 1].record};
    replace(t, first, last, by, count);
}
