/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: a sequence of operations on a map, each compared with the sequential model of the tests, the
 * whole content and all levels after every step. The bytes are the operations: one for the kind, then what it needs.
 */
#include "support.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

static unsigned byte(struct input *in) { return in->at < in->end ? *in->at++ : 0; }

/* A key from a small universe, so that things meet: low keys, the neighbourhood of 2^32, and the last keys. */
static uint64_t key(struct input *in) {
    unsigned b = byte(in);
    if (b < 200) return b;
    if (b < 228) return (UINT64_C(1) << 32) - 14 + (b - 200);
    return UINT64_MAX - (255 - b);
}

/* A range; `last` is inclusive. Sometimes empty or backwards, which the map must refuse. */
static bool range(struct input *in, uint64_t *start, uint64_t *last) {
    *start = key(in);
    *last = *start + byte(in) % 64 - (byte(in) % 32 == 31);
    return *start <= *last;
}

static void expect(bool ok) {
    if (!ok) abort();
}

struct run {
    struct ivs_map map;
    struct model model;
    uint64_t next_value;
};

static void step_map(struct run *run, struct input *in, bool keep) {
    uint64_t start, last;
    void *value = as_value(++run->next_value);
    bool ok = range(in, &start, &last);
    int r = keep ? ivs_map_insert(&run->map, start, last + 1, value) : ivs_map_map(&run->map, start, last + 1, value);
    if (!ok) {
        expect(r == IVS_EINVAL);
    } else if (keep && !model_is_free(&run->model, start, last)) {
        expect(r == IVS_EEXIST);
    } else {
        expect(r == 0);
        model_map(&run->model, start, last, value);
    }
}

static void step_unmap(struct run *run, struct input *in) {
    uint64_t start, last;
    bool ok = range(in, &start, &last);
    int r = ivs_map_unmap(&run->map, start, last + 1);
    expect(r == (ok ? 0 : IVS_EINVAL));
    if (ok) model_unmap(&run->model, start, last);
}

static void step_alloc(struct run *run, struct input *in) {
    struct ivs_alloc want;
    uint64_t start = 0, expected = 0;
    void *value = as_value(++run->next_value);
    want.lo = key(in);
    want.hi = key(in) + 1;
    want.size = 1 + byte(in) % 32;
    want.align = UINT64_C(1) << byte(in) % 7;
    want.hint = key(in);
    int r = ivs_map_alloc(&run->map, &want, value, &start);
    if (want.lo > want.hi - 1 || want.size - 1 > want.hi - 1 - want.lo) {
        expect(r == IVS_EINVAL);
    } else if (model_alloc(&run->model, &want, &expected)) {
        expect(r == 0 && start == expected);
        model_map(&run->model, start, start + want.size - 1, value);
    } else {
        expect(r == IVS_ENOMEM);
    }
}

static void step_query(struct run *run, struct input *in) {
    uint64_t at = key(in);
    const struct piece *piece = model_query(&run->model, at), *next = model_next(&run->model, at);
    struct ivs_entry entry;
    int r = ivs_map_lookup(&run->map, at, &entry);
    expect(piece ? r == 0 && entry.start == piece->start && entry.value == piece->value : r == IVS_ENOENT);
    r = ivs_map_lookup_next(&run->map, at, &entry);
    expect(next ? r == 0 && entry.start == next->start && entry.end == next->last + 1 : r == IVS_ENOENT);
}

/* Locks a range and puts up to eight nodes into what it owns; a run that is not sorted or
 * sticks out must be refused. */
static void step_swap(struct run *run, struct input *in) {
    struct ivs_node *nodes[8];
    struct ivs_lock lock;
    uint64_t start, last, from;
    size_t n = byte(in) % 9, i;
    bool good = true;
    if (!range(in, &start, &last)) return;
    for (i = 0; i < n; i++) {
        uint64_t first = key(in), end = first + byte(in) % 16;
        if (end < first) end = first;
        nodes[i] = ivs_node_new_height(ivs_map_domain(&run->map), first, end + 1, as_value(++run->next_value),
                                       IVS_SLEEP, 1 + byte(in) % 5);
        if (!nodes[i]) abort();
    }
    int r = byte(in) & 1 ? ivs_map_lock(&run->map, start, last + 1, &lock)
                         : ivs_map_trylock(&run->map, start, last + 1, &lock);
    expect(r == 0);
    from = lock.floor;
    for (i = 0; i < n && good; i++) {
        good = nodes[i]->start >= from && nodes[i]->last <= lock.ceiling - 1 && (i == 0 || from != 0);
        from = nodes[i]->last + 1;
    }
    r = ivs_map_swap(&lock, nodes, n);
    expect(r == (good ? 0 : IVS_EINVAL));
    if (good && lock.floor <= lock.ceiling - 1) model_unmap(&run->model, lock.floor, lock.ceiling - 1);
    for (i = 0; i < n; i++) {
        if (good) model_map(&run->model, nodes[i]->start, nodes[i]->last, ivs_node_value(nodes[i]));
        else expect(ivs_node_discard(ivs_map_domain(&run->map), nodes[i]) == 0);
    }
    expect(ivs_map_unlock(&lock) == 0);
}

static void step_value(struct run *run, struct input *in) {
    uint64_t at = key(in);
    struct ivs_lock lock;
    struct ivs_node *node;
    expect(ivs_map_lock(&run->map, at, at + 1, &lock) == 0);
    node = ivs_lock_first(&lock);
    expect((node != NULL) == (model_query(&run->model, at) != NULL));
    if (node) {
        uint64_t start = node->start, last = node->last;
        void *value = as_value(++run->next_value);
        expect(ivs_node_set_value(&lock, node, value) == 0);
        model_map(&run->model, start, last, value);
    }
    expect(ivs_map_unlock(&lock) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct run run;
    struct ivs_map_config config = {.own = {.seed = 1}};
    struct input in = {data, data + size};
    if (ivs_map_init(&run.map, &config)) abort();
    while (in.at < in.end) {
        unsigned step = byte(&in);
        switch (step % 8) {
        case 0:
        case 1: step_map(&run, &in, false); break;
        case 2: step_map(&run, &in, true); break;
        case 3: step_unmap(&run, &in); break;
        case 4: step_alloc(&run, &in); break;
        case 5: step_query(&run, &in); break;
        case 6: step_swap(&run, &in); break;
        default:
            if (step == 0xff) expect(ivs_map_tune(&run.map) == 0);
            else step_value(&run, &in);
        }
        expect(map_is_valid(&run.map, "after a step") && model_equals_map(&run.model, &run.map, "after a step"));
    }
    expect(ivs_map_destroy(&run.map) == 0);
    model_free(&run.model);
    return 0;
}
