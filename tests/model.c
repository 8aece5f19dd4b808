/* SPDX-License-Identifier: MIT */
/* The sequential model: what a map must hold, as simple as can be. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

void model_free(struct model *model) {
    free(model->pieces);
    memset(model, 0, sizeof *model);
}

/* Index of the first piece that ends at or after the key. */
static size_t position(const struct model *model, uint64_t key) {
    size_t i = 0;
    while (i < model->count && model->pieces[i].last < key) i++;
    return i;
}

static void insert_at(struct model *model, size_t index, struct piece piece) {
    if (model->count == model->room) {
        model->room = model->room ? 2 * model->room : 16;
        model->pieces = realloc(model->pieces, model->room * sizeof *model->pieces);
        if (!model->pieces) abort();
    }
    memmove(model->pieces + index + 1, model->pieces + index, (model->count - index) * sizeof piece);
    model->pieces[index] = piece;
    model->count++;
}

static void remove_at(struct model *model, size_t index) {
    model->count--;
    memmove(model->pieces + index, model->pieces + index + 1, (model->count - index) * sizeof *model->pieces);
}

void model_unmap(struct model *model, uint64_t start, uint64_t last) {
    size_t i = position(model, start);
    while (i < model->count && model->pieces[i].start <= last) {
        struct piece old = model->pieces[i];
        remove_at(model, i);
        if (old.start < start) {
            struct piece left = {old.start, start - 1, old.value, old.origin};
            insert_at(model, i++, left);
        }
        if (old.last > last) {
            struct piece right = {last + 1, old.last, old.value, old.origin};
            insert_at(model, i++, right);
        }
    }
}

void model_map(struct model *model, uint64_t start, uint64_t last, void *value) {
    struct piece piece = {start, last, value, start};
    model_unmap(model, start, last);
    insert_at(model, position(model, start), piece);
}

const struct piece *model_next(const struct model *model, uint64_t key) {
    size_t i = position(model, key);
    return i < model->count ? &model->pieces[i] : NULL;
}

const struct piece *model_query(const struct model *model, uint64_t key) {
    const struct piece *piece = model_next(model, key);
    return piece && piece->start <= key ? piece : NULL;
}

bool model_is_free(const struct model *model, uint64_t start, uint64_t last) {
    const struct piece *piece = model_next(model, start);
    return !piece || piece->start > last;
}

/* First aligned place at or after `from` whose `size` keys are free and end at or before `last`. */
static bool first_fit(const struct model *model, const struct ivs_alloc *request, uint64_t from, uint64_t *start) {
    uint64_t last = request->hi - 1, align = request->align ? request->align : 1;
    for (;;) {
        uint64_t up = (align - from % align) % align;
        if (up > UINT64_MAX - from) return false;
        from += up;
        if (from > last || last - from < request->size - 1) return false;
        const struct piece *piece = model_next(model, from);
        if (!piece || piece->start > from + (request->size - 1)) {
            *start = from;
            return true;
        }
        if (piece->last >= last) return false;
        from = piece->last + 1;
    }
}

bool model_alloc(const struct model *model, const struct ivs_alloc *request, uint64_t *start) {
    bool hinted = request->hint >= request->lo && request->hint <= request->hi - 1;
    if (hinted && first_fit(model, request, request->hint, start)) return true;
    return first_fit(model, request, request->lo, start);
}

void model_read(struct model *model, struct ivs_map *map) {
    struct ivs_node *node;
    model->count = 0;
    ivs_map_read_enter(map);
    ivs_map_for_each_rcu (node, map, 0, 0) {
        struct piece piece = {node->start, node->last, ivs_node_value(node), node->start};
        insert_at(model, model->count, piece);
    }
    ivs_map_read_exit(map);
}

bool model_equals_map(const struct model *model, struct ivs_map *map, const char *when) {
    struct model found = {0};
    model_read(&found, map);
    bool ok = CHECK(found.count == model->count, "%s: %zu nodes, expected %zu", when, found.count, model->count);
    for (size_t i = 0; i < found.count && i < model->count && ok; i++) {
        const struct piece *is = &found.pieces[i], *want = &model->pieces[i];
        ok = CHECK(is->start == want->start && is->last == want->last && is->value == want->value,
                   "%s: node %zu is [%#llx, %#llx] = %p, expected [%#llx, %#llx] = %p", when, i,
                   (unsigned long long)is->start, (unsigned long long)is->last, is->value,
                   (unsigned long long)want->start, (unsigned long long)want->last, want->value);
    }
    model_free(&found);
    return ok;
}

bool map_is_valid(struct ivs_map *map, const char *when) {
    struct ivs_report report = {0};
    int result = ivs_map_validate(map, &report);
    return CHECK(result == 0, "%s: validate says %d: %s at level %u", when, result, report.check ? report.check : "?",
                 report.level);
}
