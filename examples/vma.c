/* SPDX-License-Identifier: MIT */
/*
 * The memory areas of a process, as a kernel would keep them: payload beside the node, a counted reference to a file
 * in each area, mmap, munmap, mprotect (an update of its own: lock, look, swap) and a page fault that takes no lock.
 *
 *     cc -std=c11 -pthread -I. examples/vma.c -o vma && ./vma
 */
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct file {
    atomic_int references;
    const char *name;
};

struct area {
    char rights[4];       /* "rwx", or dashes */
    struct file *file;    /* one reference is this area's */
    uint64_t offset;      /* in the file, of the area's first byte */
    struct ivs_node node; /* last: its tower follows */
};

static struct area *area_of(const struct ivs_node *node) {
    return (struct area *)((uintptr_t)node - offsetof(struct area, node));
}

static struct file *file_get(struct file *file) {
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
    return file;
}

static void file_put(struct file *file) {
    if (atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) == 1)
        printf("%s is closed\n", file->name);
}

/* Gives an area what `old` has from the key on where the new one begins. */
static void area_copy(struct area *area, const struct area *old) {
    for (int i = 0; i < 3; i++) area->rights[i] = old->rights[i];
    area->file = file_get(old->file);
    area->offset = old->offset + (area->node.start - old->node.start);
}

static int on_fragment(void *ctx, const struct ivs_node *old, struct ivs_node *part) {
    (void)ctx;
    area_copy(area_of(part), area_of(old));
    return 0;
}

/* The area is gone and so are its readers. */
static void on_release(void *ctx, struct ivs_node *node) {
    (void)ctx;
    file_put(area_of(node)->file);
}

static int space_mmap(struct ivs_map *space, uint64_t start, uint64_t end, const char *rights, struct file *file) {
    struct ivs_node *node = ivs_node_new(ivs_map_domain(space), start, end, NULL, IVS_SLEEP);
    int r;
    if (!node) return IVS_ENOMEM;
    for (int i = 0; i < 3; i++) area_of(node)->rights[i] = rights[i];
    area_of(node)->file = file_get(file);
    r = ivs_map_map_node(space, node);
    if (r == 0) return 0;
    file_put(file); /* the node is still ours, and so is its reference */
    (void)ivs_node_discard(ivs_map_domain(space), node);
    return r;
}

/* The locked areas as they shall be: parts outside [start, end) as they are, inside with other
 * rights. Returns their number. */
static size_t protect_plan(const struct ivs_lock *lock, uint64_t start, uint64_t end, const char *rights,
                           struct ivs_node **run) {
    size_t n = 0;
    for (const struct ivs_node *old = ivs_lock_first(lock); old; old = ivs_lock_next(lock, old)) {
        uint64_t cuts[4] = {old->start, start, end, ivs_node_end(old)};
        for (int part = 0; part < 3; part++) {
            uint64_t from = cuts[part] > cuts[0] ? cuts[part] : cuts[0], to = cuts[part + 1];
            if (to > cuts[3]) to = cuts[3];
            if (from >= to) continue;
            if (ivs_node_set_bounds(run[n], from, to)) abort();
            area_copy(area_of(run[n]), area_of(old));
            for (int i = 0; part == 1 && i < 3; i++) area_of(run[n])->rights[i] = rights[i];
            n++;
        }
    }
    return n;
}

/* One step for all areas of the range; nodes are prepared outside the lock, again if there were too few. */
static int space_mprotect(struct ivs_map *space, uint64_t start, uint64_t end, const char *rights) {
    struct ivs_node *run[64];
    struct ivs_lock lock;
    size_t have = 0, used = 0;
    int r;
    for (;;) {
        r = ivs_map_lock(space, start, end, &lock);
        if (r || lock.count + 2 <= have) break;
        size_t need = lock.count + 2;
        (void)ivs_map_unlock(&lock);
        for (r = need <= 64 ? 0 : IVS_ENOMEM; r == 0 && have < need; have += r == 0) {
            run[have] = ivs_node_new(ivs_map_domain(space), 0, 1, NULL, IVS_SLEEP);
            if (!run[have]) r = IVS_ENOMEM;
        }
        if (r) break;
    }
    if (r == 0) {
        used = protect_plan(&lock, start, end, rights, run);
        r = ivs_map_swap(&lock, run, used);
        (void)ivs_map_unlock(&lock);
    }
    while (have > used) (void)ivs_node_discard(ivs_map_domain(space), run[--have]);
    return r;
}

/* A page fault: no lock. What it says of the area is true at one instant of the call. */
static void space_fault(struct ivs_map *space, uint64_t address) {
    struct ivs_node *node;
    ivs_map_read_enter(space);
    node = ivs_map_query_rcu(space, address);
    if (node)
        printf("fault at %#llx: %.3s %s+%#llx\n", (unsigned long long)address, area_of(node)->rights,
               area_of(node)->file->name, (unsigned long long)(area_of(node)->offset + (address - node->start)));
    else printf("fault at %#llx: nothing there\n", (unsigned long long)address);
    ivs_map_read_exit(space);
}

int main(void) {
    static const struct ivs_domain_ops ops = {.release = on_release};
    struct ivs_map_config config = {.own = {.ops = &ops, .payload_size = offsetof(struct area, node)},
                                    .fragment = on_fragment};
    static struct file text = {1, "text"}, data = {1, "data"};
    struct ivs_map space;
    int r = ivs_map_init(&space, &config);
    if (r == 0) r = space_mmap(&space, 0x10000, 0x20000, "r-x", &text);
    if (r == 0) r = space_mmap(&space, 0x14000, 0x18000, "rw-", &data);
    if (r == 0) r = space_mprotect(&space, 0x12000, 0x16000, "r--");
    if (r == 0) r = ivs_map_unmap(&space, 0x1a000, 0x1c000);
    for (uint64_t at = 0x11000; r == 0 && at < 0x20000; at += 0x2000) space_fault(&space, at);
    if (r == 0) r = ivs_map_validate(&space, NULL);
    if (r == 0) r = ivs_map_destroy(&space);
    file_put(&text);
    file_put(&data);
    return r ? 1 : 0;
}
