/* SPDX-License-Identifier: MIT */
/*
 * The coherence account: which lines of memory travel between cores, and how often.
 *
 * Another machine under the header, linked with subject.c in place of lab.c. Each virtual thread has a core of its
 * own; the cores take turns operation by operation, so nothing waits and no lock is ever contended: what is counted
 * is the least that the structure costs, whatever the timing. Each access, atomic or plain, is put to an MSI table of
 * 64-byte lines with caches that never forget:
 *   - a core reads a line that it has not and another has: one remote transfer;
 *   - a core writes a line (or tries to, by RMW or CAS) that another has too: one remote transfer, and one
 *     invalidation for each other core that has it;
 *   - a line that nobody has is cold, counted apart: it comes from memory.
 * Only memory of lab_malloc counts: stacks and thread-local state do not travel. The allocator's own lists are not
 * accounted, and a block goes back to the core that it came from, so the allocator adds no transfers.
 */
#include "lab.h"

#include "ivskip.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CORES = 384,
    SETS = CORES / 64,
    LINE = 64,
    GRAIN = 16, /* of the allocator */
    ARENA = 128 << 20,
    CHUNK = 2048,    /* of one core, for blocks of one size */
    CLASSES = 64,    /* sizes, in grains */
    INTERVALS = 256, /* of a core, about */
    PAGE = 4096,     /* the unit of ranges */
    PAGES = 1250,    /* of a core: random maps and unmaps leave it half full, with about INTERVALS in it */
    RANGE = 4,       /* pages of a range, at most */
    WARM = 100,      /* rounds before the account, */
    ROUNDS = 200,    /* and in it: operations of each kind and core */
    FIELDS = 256,    /* words of 4 bytes of a block that are told apart */
    LOW = 4,         /* levels of INTERVALS */
    TOP = 10
};

enum op { QUIET, QUERY, MAP, UNMAP, ALLOC, FREE, OPS, IDLE = OPS };
static const char *const op_names[] = {"Query, no updates", "Query", "Map", "Unmap", "Alloc", "Unmap of it"};
static const unsigned core_counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 384};
enum { COLUMNS = sizeof core_counts / sizeof core_counts[0] };

/* ---------------------------------------------------------------- memory */

enum block { NOTHING, OF_MAP, RECORD, NODE, LOCK, TREE, BLOCKS };

struct core {
    unsigned char tls[64];
    uint64_t random, heights;
    uint64_t allocated, size; /* what Alloc gave */
    void *free[CLASSES];
    unsigned char *chunk[CLASSES];
    size_t left[CLASSES];
};

static unsigned char *arena;
static size_t arena_used;
static uint32_t *block_at; /* by grain: the block's first grain, */
static uint8_t *block_is;  /* what it is, */
static uint16_t *block_of; /* and its core */
static uint16_t *block_size;
static struct core cores[CORES];
static unsigned me;
static enum block allocating;
static uint64_t clock_now;

void lab_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
    (void)fputc('\n', stderr);
    exit(2);
}

static uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d) >> 11;
}

static unsigned char *carve(size_t bytes) {
    unsigned char *at = arena + arena_used;
    arena_used += (bytes + LINE - 1) / LINE * LINE;
    if (arena_used > ARENA) lab_fail("the memory of the account is used up");
    return at;
}

void *lab_malloc(size_t bytes) {
    struct core *core = &cores[me];
    size_t class = (bytes + GRAIN - 1) / GRAIN, grain;
    unsigned char *at;
    if (class >= CLASSES) {
        at = carve(bytes);
    } else if (core->free[class]) {
        at = core->free[class];
        memcpy(&core->free[class], at, sizeof(void *));
    } else {
        if (core->left[class] < class * GRAIN) {
            core->left[class] = CHUNK;
            core->chunk[class] = carve(CHUNK);
        }
        at = core->chunk[class];
        core->chunk[class] += class * GRAIN;
        core->left[class] -= class * GRAIN;
    }
    grain = (size_t)(at - arena) / GRAIN;
    for (size_t i = 0; i < class; i++) {
        block_at[grain + i] = (uint32_t)grain;
        block_is[grain + i] = (uint8_t)allocating;
    }
    block_of[grain] = (uint16_t)me;
    block_size[grain] = (uint16_t) class;
    return at;
}

void lab_free(void *memory) {
    size_t grain = (size_t)((unsigned char *)memory - arena) / GRAIN;
    struct core *core = &cores[block_of[grain]];
    memcpy(memory, &core->free[block_size[grain]], sizeof(void *));
    core->free[block_size[grain]] = memory;
}

/* ---------------------------------------------------------------- the account */

struct line {
    uint64_t has[SETS];
    uint16_t owner; /* core + 1 that may write it; 0: none */
    uint16_t cause; /* the field whose write took it from others last */
};

struct count {
    uint64_t ops, transfers, invalidations, cold;
};

static struct line *lines;
static struct count counts[OPS + 1], *count = &counts[IDLE];
static bool off, blaming;
static uint32_t (*blame)[BLOCKS * FIELDS]; /* transfers, by the field that was accessed and the cause */

static unsigned field_at(size_t at) {
    size_t grain = at / GRAIN, word = (at - (size_t)block_at[grain] * GRAIN) / 4;
    return block_is[grain] * FIELDS + (unsigned)(word < FIELDS ? word : FIELDS - 1);
}

static void touch_line(struct line *line, size_t at, bool write) {
    uint64_t *mine = &line->has[me / 64], bit = UINT64_C(1) << me % 64;
    unsigned others = 0;
    if ((*mine & bit) && (!write || line->owner == me + 1)) return;
    for (unsigned i = 0; i < SETS; i++) others += (unsigned)__builtin_popcountll(line->has[i]);
    others -= (*mine & bit) != 0;
    count->cold += !others && !(*mine & bit);
    count->transfers += others != 0;
    if (others && blaming && count - counts != IDLE && count - counts != QUIET) blame[field_at(at)][line->cause]++;
    line->owner = 0;
    if (write) {
        count->invalidations += others;
        memset(line->has, 0, sizeof line->has);
        line->owner = (uint16_t)(me + 1);
        if (others) line->cause = (uint16_t)field_at(at);
    }
    *mine |= bit;
}

void lab_plain(const void *address, size_t size, bool write) {
    size_t at = (size_t)((uintptr_t)address - (uintptr_t)arena);
    if (at >= ARENA || off) return;
    for (size_t line = at / LINE; line <= (at + size - 1) / LINE; line++)
        touch_line(&lines[line], line * LINE > at ? line * LINE : at, write);
}

static void put(void *address, unsigned size, uint64_t value) {
    if (size == 8) *(uint64_t *)address = value;
    else *(uint32_t *)address = (uint32_t)value;
}

static uint64_t get(const void *address, unsigned size) {
    return size == 8 ? *(const uint64_t *)address : *(const uint32_t *)address;
}

uint64_t lab_load(const void *address, unsigned size, enum lab_order order) {
    (void)order;
    lab_plain(address, size, false);
    return get(address, size);
}

void lab_store(void *address, unsigned size, uint64_t value, enum lab_order order) {
    (void)order;
    lab_plain(address, size, true);
    put(address, size, value);
}

uint64_t lab_rmw(void *address, unsigned size, enum lab_rmw op, uint64_t value, enum lab_order order) {
    uint64_t old = get(address, size);
    (void)order;
    lab_plain(address, size, true);
    put(address, size,
        op == LAB_EXCHANGE ? value
        : op == LAB_ADD    ? old + value
        : op == LAB_OR     ? old | value
                           : old & value);
    return old;
}

bool lab_cas(void *address, unsigned size, uint64_t *expected, uint64_t value, enum lab_order order,
             enum lab_order failure) {
    uint64_t old = get(address, size);
    bool done = old == *expected;
    (void)order, (void)failure;
    lab_plain(address, size, true);
    if (done) put(address, size, value);
    *expected = old;
    return done;
}

void *lab_memset(void *to, int byte, size_t bytes) {
    if (bytes) lab_plain(to, bytes, true);
    return memset(to, byte, bytes);
}

void *lab_memcpy(void *to, const void *from, size_t bytes) {
    if (bytes) lab_plain(from, bytes, false);
    if (bytes) lab_plain(to, bytes, true);
    return memcpy(to, from, bytes);
}

void lab_fence_sc(void) {}
void lab_park(uint32_t *word, uint32_t ticket, uint64_t deadline) {
    (void)word, (void)ticket, (void)deadline;
    lab_fail("core %u waits, but nobody else is at work", me);
}
void lab_wake(uint32_t *word) { (void)word; }
void lab_relax(void) { lab_park(NULL, 0, 0); }
uint64_t lab_now(void) { return ++clock_now; }

static void become(unsigned core) {
    void *tls;
    size_t bytes = subject_tls(&tls);
    if (bytes > sizeof cores[0].tls) lab_fail("thread-local state of %zu bytes", bytes);
    memcpy(cores[me].tls, tls, bytes);
    memcpy(tls, cores[core].tls, bytes);
    me = core;
}

/* ---------------------------------------------------------------- the two structures */

struct structure {
    const char *name;
    void (*begin)(void);
    void (*query)(uint64_t key);
    void (*map)(uint64_t lo, uint64_t hi);
    void (*unmap)(uint64_t lo, uint64_t hi);
    bool (*alloc)(uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, uint64_t *start);
    void (*separate)(uint64_t base);
    uint64_t (*sum)(size_t *n); /* what is in it, in one number; and how many intervals */
};

extern struct ivs_map *subject_map;
static bool tiered; /* separators stand between the regions, and no other tower is higher than LOW levels */

static void list_begin(void) {
    static const struct ivs_map_config config = {.own.seed = 1};
    allocating = OF_MAP;
    subject_map = lab_malloc(sizeof *subject_map);
    if (ivs_map_init(subject_map, &config)) lab_fail("ivs_map_init");
    allocating = RECORD; /* made at a thread's first read section */
}

static void list_query(uint64_t key) {
    struct ivs_entry entry;
    (void)!ivs_map_lookup(subject_map, key, &entry);
}

static unsigned height_drawn(void) { /* as the header draws them */
    return 1 + (unsigned)__builtin_ctzll(random_next(&cores[me].heights) | 1u << 20) / 2;
}

static struct ivs_node *node_new(unsigned height) {
    struct ivs_node *node = ivs_node_new_height(ivs_map_domain(subject_map), 0, 1, &cores, IVS_SLEEP, height);
    if (!node) lab_fail("ivs_node_new_height");
    return node;
}

static unsigned height_low(void) {
    unsigned height = height_drawn();
    return height < LOW ? height : LOW;
}

/* Map (`fill`) and Unmap as an update of one's own, so that the parts that stay have low towers, too. */
static void tiered_put(uint64_t lo, uint64_t hi, bool fill) {
    struct ivs_node *spare[3], *first, *last = NULL;
    struct ivs_lock lock;
    size_t n = 0;
    int r = 0;
    for (int i = 0; i < 3; i++) spare[i] = node_new(height_low());
    r |= ivs_map_lock(subject_map, lo, hi, &lock);
    first = ivs_lock_first(&lock);
    for (struct ivs_node *node = first; node; node = ivs_lock_next(&lock, node)) last = node;
    if (first && first->start < lo) r |= ivs_node_set_bounds(spare[n++], first->start, lo);
    if (fill) r |= ivs_node_set_bounds(spare[n++], lo, hi);
    if (last && last->last >= hi) r |= ivs_node_set_bounds(spare[n++], hi, last->last + 1);
    r |= ivs_map_swap(&lock, spare, n);
    r |= ivs_map_unlock(&lock);
    for (; n < 3; n++) r |= ivs_node_discard(ivs_map_domain(subject_map), spare[n]);
    if (r) lab_fail("an update of one's own: %d", r);
}

/* A tall node that all searches pass and nobody writes; behind it one that takes the region's low links and locks. */
static void list_separate(uint64_t base) {
    for (int i = 0; i < 2; i++) {
        struct ivs_node *node = node_new(i ? LOW : LOW + height_drawn() % (IVSKIP_MAX_HEIGHT - LOW));
        if (ivs_node_set_bounds(node, base - PAGE * (2 - (unsigned)i), base - PAGE * (1 - (unsigned)i)))
            lab_fail("separator");
        if (ivs_map_insert_node(subject_map, node)) lab_fail("separator");
    }
}

static void list_map(uint64_t lo, uint64_t hi) {
    if (tiered) tiered_put(lo, hi, true);
    else if (ivs_map_map(subject_map, lo, hi, &cores)) lab_fail("ivs_map_map");
}

static void list_unmap(uint64_t lo, uint64_t hi) {
    if (tiered) tiered_put(lo, hi, false);
    else if (ivs_map_unmap(subject_map, lo, hi)) lab_fail("ivs_map_unmap");
}

static bool list_alloc(uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, uint64_t *start) {
    struct ivs_alloc request = {.lo = lo, .hi = hi, .size = size, .align = PAGE, .hint = hint};
    struct ivs_node *node = tiered ? node_new(height_low()) : NULL;
    int r = tiered ? ivs_map_alloc_node(subject_map, &request, node, start)
                   : ivs_map_alloc(subject_map, &request, &cores, start);
    if (r && tiered) (void)ivs_node_discard(ivs_map_domain(subject_map), node);
    if (r && r != IVS_ENOMEM) lab_fail("ivs_map_alloc: %d", r);
    return r == 0;
}

static uint64_t sum_add(uint64_t sum, uint64_t start, uint64_t last) {
    return ((sum ^ start) * UINT64_C(0x9e3779b97f4a7c15) ^ last) * UINT64_C(0x94d049bb133111eb);
}

static uint64_t list_sum(size_t *n) {
    struct ivs_report report;
    struct ivs_node *node;
    uint64_t sum = 0;
    if (ivs_map_validate(subject_map, &report)) lab_fail("not valid: %s", report.check);
    ivs_map_read_enter(subject_map);
    ivs_map_for_each_rcu (node, subject_map, 0, 0) sum = sum_add(sum, node->start, node->last);
    ivs_map_read_exit(subject_map);
    *n = report.nodes;
    return sum;
}

/* The baseline: a treap (Seidel and Aragon, 1996) under one reader-writer lock. It changes bounds in place, and
 * writes a link only if it changes. */
struct tree {
    uint64_t start, last, priority;
    struct tree *kid[2];
};
struct root {
    uint64_t lock;
    unsigned char pad[LINE - sizeof(uint64_t)]; /* the links of the tree are not on the lock's line */
    struct tree *top;
};
static struct root *root;

#define GET(at)        (lab_plain(&(at), sizeof(at), false), (at))
#define SET(at, value) (lab_plain(&(at), sizeof(at), true), (at) = (value))

static void tree_lock(void) { lab_plain(&root->lock, 8, true); }
static void tree_unlock(void) { lab_plain(&root->lock, 8, true); }

static void link_set(struct tree **link, struct tree *to) {
    if (GET(*link) != to) SET(*link, to);
}

static void tree_begin(void) {
    allocating = LOCK;
    root = lab_malloc(CLASSES * GRAIN); /* on lines of its own */
    memset(root, 0, sizeof *root);
    allocating = TREE;
}

/* The last node that starts at or before `key` (side 0), or the first that starts after it (1). */
static struct tree *tree_find(uint64_t key, int side) {
    struct tree *found = NULL;
    for (struct tree *t = GET(root->top); t;) {
        int right = GET(t->start) <= key;
        if (right != side) found = t;
        t = GET(t->kid[right]);
    }
    return found;
}

/* The first node that starts at `key` or after it. */
static struct tree *tree_from(uint64_t key) {
    return key ? tree_find(key - 1, 1) : tree_find(0, tree_find(0, 0) == NULL);
}

static void tree_insert(uint64_t start, uint64_t last) {
    struct tree *n = lab_malloc(sizeof *n), **link = &root->top, *t, **low = &n->kid[0], **high = &n->kid[1];
    SET(n->start, start);
    SET(n->last, last);
    SET(n->priority, random_next(&cores[me].heights));
    SET(n->kid[0], NULL);
    SET(n->kid[1], NULL);
    while ((t = GET(*link)) && GET(t->priority) >= n->priority) link = &t->kid[GET(t->start) < start];
    while (t) { /* what was there is split in two */
        bool right = GET(t->start) < start;
        struct tree ***seam = right ? &low : &high;
        link_set(*seam, t);
        *seam = &t->kid[right];
        t = GET(**seam);
    }
    link_set(low, NULL);
    link_set(high, NULL);
    SET(*link, n);
}

static void tree_erase(struct tree *node) {
    struct tree **link = &root->top, *t, *a, *b;
    while ((t = GET(*link)) != node) link = &t->kid[GET(t->start) < GET(node->start)];
    a = GET(node->kid[0]);
    b = GET(node->kid[1]);
    while (a && b) { /* its two sides are joined */
        bool left = GET(a->priority) > GET(b->priority);
        link_set(link, left ? a : b);
        link = left ? &a->kid[1] : &b->kid[0];
        if (left) a = GET(*link);
        else b = GET(*link);
    }
    link_set(link, a ? a : b);
    lab_free(node);
}

static void tree_clear(uint64_t lo, uint64_t last) {
    struct tree *t = lo ? tree_find(lo - 1, 0) : NULL;
    uint64_t old = t ? GET(t->last) : 0;
    if (t && old >= lo) {
        SET(t->last, lo - 1);
        if (old > last) tree_insert(last + 1, old);
    }
    while ((t = tree_from(lo)) && GET(t->start) <= last) {
        if (GET(t->last) > last) SET(t->start, last + 1);
        else tree_erase(t);
    }
}

static void tree_query(uint64_t key) {
    struct tree *t;
    tree_lock();
    t = tree_find(key, 0);
    if (t) (void)GET(t->last);
    tree_unlock();
}

static void tree_unmap(uint64_t lo, uint64_t hi) {
    tree_lock();
    tree_clear(lo, hi - 1);
    tree_unlock();
}

static void tree_map(uint64_t lo, uint64_t hi) {
    tree_lock();
    tree_clear(lo, hi - 1);
    tree_insert(lo, hi - 1);
    tree_unlock();
}

/* First fit in [from, hi). */
static bool tree_fit(uint64_t from, uint64_t hi, uint64_t size, uint64_t *start) {
    struct tree *t = tree_find(from, 0);
    *start = t && GET(t->last) >= from ? t->last + 1 : from;
    while ((t = tree_from(*start)) && GET(t->start) < hi) {
        if (t->start - *start >= size) return true;
        *start = GET(t->last) + 1;
    }
    return *start < hi && hi - *start >= size;
}

static bool tree_alloc(uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, uint64_t *start) {
    bool found;
    tree_lock();
    found = tree_fit(hint, hi, size, start) || tree_fit(lo, hi, size, start);
    if (found) tree_insert(*start, *start + size - 1);
    tree_unlock();
    return found;
}

static void tree_separate(uint64_t base) {
    tree_insert(base - 2 * PAGE, base - PAGE - 1);
    tree_insert(base - PAGE, base - 1);
}

static uint64_t tree_sum(size_t *n) {
    uint64_t sum = 0;
    *n = 0;
    for (struct tree *t = tree_from(0); t; t = tree_find(t->start, 1), ++*n) sum = sum_add(sum, t->start, t->last);
    return sum;
}

static const struct structure structures[] = {
    {"ivskip", list_begin, list_query, list_map, list_unmap, list_alloc, list_separate, list_sum},
    {"treap, rwlock", tree_begin, tree_query, tree_map, tree_unmap, tree_alloc, tree_separate, tree_sum},
};

/* ---------------------------------------------------------------- workloads */

enum { OWN, SEPARATED, SHARED, WORKLOADS };
static const char *const workloads[] = {"own regions", "own regions, separators", "shared region"};
static struct cell {
    struct count counts[OPS + 1];
    size_t intervals;
    uint64_t sum;
} cells[2][WORKLOADS][COLUMNS]; /* by structure, workload, column */

struct run {
    const struct structure *s;
    unsigned cores;
    unsigned workload;
};

static uint64_t region(unsigned c) { return (uint64_t)(c + 1) << 32; }

static void turn(const struct run *run, unsigned c, enum op op) {
    struct core *core = &cores[c];
    uint64_t pages = (uint64_t)PAGES * (run->workload == SHARED ? run->cores : 1);
    uint64_t base = run->workload == SHARED ? 0 : region(c);
    uint64_t size = (1 + random_next(&core->random) % RANGE) * PAGE, top = base + pages * PAGE;
    uint64_t at = base + random_next(&core->random) % (pages - RANGE + 1) * PAGE;
    become(c);
    if (op == QUIET || op == QUERY) run->s->query(at + random_next(&core->random) % PAGE);
    else if (op == MAP) run->s->map(at, at + size);
    else if (op == UNMAP) run->s->unmap(at, at + size);
    else if (op == ALLOC) core->size = run->s->alloc(base, top, size, at, &core->allocated) ? size : 0;
    else if (core->size) run->s->unmap(core->allocated, core->allocated + core->size);
    count->ops++;
}

/* Each operation once on each core, in an order drawn anew. */
static void round_of(const struct run *run, enum op first, enum op last, bool counted, uint64_t *random) {
    static unsigned order[CORES];
    for (unsigned op = first; op <= last; op++) {
        for (unsigned c = 0; c < run->cores; c++) {
            unsigned other = (unsigned)(random_next(random) % (c + 1));
            order[c] = order[other];
            order[other] = c;
        }
        count = &counts[counted ? op : IDLE];
        for (unsigned c = 0; c < run->cores; c++) turn(run, order[c], (enum op)op);
    }
    count = &counts[IDLE];
}

static void reset(void) {
    void *tls;
    size_t bytes = subject_tls(&tls);
    memset(tls, 0, bytes);
    memset(lines, 0, (arena_used / LINE + 1) * sizeof *lines);
    memset(block_at, 0, (arena_used / GRAIN + 1) * sizeof *block_at);
    memset(counts, 0, sizeof counts);
    memset(cores, 0, sizeof cores);
    arena_used = 0;
    clock_now = 0;
    me = 0;
    for (unsigned c = 0; c < CORES; c++) {
        cores[c].random = c * UINT64_C(0x9e3779b97f4a7c15) + 88172645463325252;
        cores[c].heights = cores[c].random ^ UINT64_C(0x2545f4914f6cdd1d);
    }
}

/* All of one column. */
static void account(const struct run *run, struct cell *cell) {
    uint64_t random = 1;
    reset();
    run->s->begin();
    for (unsigned c = 0; c < run->cores; c++) {
        become(c);
        run->s->query(0);
        if (allocating == RECORD) { /* the thread's record is there; what comes are nodes */
            if (c + 1 == run->cores) allocating = NODE;
        }
    }
    tiered = run->workload == SEPARATED;
    for (unsigned c = 0; c < run->cores && tiered; c++) {
        become(c);
        run->s->separate(region(c));
    }
    for (unsigned i = 0; i < INTERVALS; i++) /* half of the pages, with gaps */
        for (unsigned c = 0; c < run->cores; c++) turn(run, c, MAP), turn(run, c, UNMAP);
    for (unsigned i = 0; i < WARM; i++) round_of(run, QUERY, FREE, false, &random);
    for (unsigned i = 0; i < ROUNDS; i++) round_of(run, QUERY, FREE, true, &random);
    for (unsigned i = 0; i < WARM + ROUNDS; i++) round_of(run, QUIET, QUIET, i >= WARM, &random);
    memcpy(cell->counts, counts, sizeof counts);
    off = true;
    cell->sum = run->s->sum(&cell->intervals);
    off = false;
}

/* ---------------------------------------------------------------- report */

/* "head.up[3].key" of a node's tower is "node.up[l].key"; "record7.active" is "record.active". */
static void field_name(unsigned field, char *text, size_t size) {
    size_t offset = field % FIELDS * 4;
    const unsigned char *map = (const unsigned char *)subject_map;
    char name[80], *at;
    switch (field / FIELDS) {
    case OF_MAP: subject_name(map + offset, name, sizeof name); break;
    case NODE: subject_name(map + offset, name, sizeof name); break; /* the map's head is a node */
    case RECORD: subject_name((const unsigned char *)subject_map->own_.records_ + offset, name, sizeof name); break;
    default: (void)snprintf(name, sizeof name, "nothing yet");
    }
    if (field / FIELDS == NODE) {
        at = strchr(name, ']');
        (void)snprintf(text, size, "node.%s%s", at ? "up[l]" : "", at ? at + 1 : strchr(name, '.') + 1);
    } else if (field / FIELDS == RECORD) {
        at = name + strlen("record");
        (void)snprintf(text, size, "record%s", at + strspn(at, "0123456789"));
    } else {
        (void)snprintf(text, size, "%s", name);
    }
}

static struct pair {
    char name[2][80];
    uint64_t transfers;
} pairs[4096];

static int by_name(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    int r = strcmp(x->name[0], y->name[0]);
    return r ? r : strcmp(x->name[1], y->name[1]);
}

static int by_transfers(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    return (x->transfers < y->transfers) - (x->transfers > y->transfers);
}

/* The fields that were fetched most, of the run just done. */
static void lines_print(const struct run *run) {
    size_t n = 0, kept = 0;
    uint64_t all = 0;
    for (unsigned field = 0; field < BLOCKS * FIELDS; field++)
        for (unsigned cause = 0; cause < BLOCKS * FIELDS; cause++) {
            if (!blame[field][cause]) continue;
            if (n == sizeof pairs / sizeof pairs[0]) lab_fail("more pairs of fields than expected");
            field_name(field, pairs[n].name[0], sizeof pairs[n].name[0]);
            field_name(cause, pairs[n].name[1], sizeof pairs[n].name[1]);
            pairs[n++].transfers = blame[field][cause];
            all += blame[field][cause];
        }
    qsort(pairs, n, sizeof pairs[0], by_name);
    for (size_t i = 0; i < n; i++) {
        if (kept && by_name(&pairs[kept - 1], &pairs[i]) == 0) pairs[kept - 1].transfers += pairs[i].transfers;
        else pairs[kept++] = pairs[i];
    }
    qsort(pairs, kept, sizeof pairs[0], by_transfers);
    printf("\n### Lines that travel most, %s, %u cores\n\n", workloads[run->workload], run->cores);
    printf("| fetched for | last taken away by a write of | share | per round of 5 operations |\n|---|---|---|---|\n");
    for (size_t i = 0; i < kept && i < TOP; i++)
        printf("| %s | %s | %.1f%% | %.3f |\n", pairs[i].name[0], pairs[i].name[1],
               100.0 * (double)pairs[i].transfers / (double)all,
               (double)pairs[i].transfers / (double)run->cores / ROUNDS);
}

static double per_op(const struct cell *cell, unsigned op, bool invalidations) {
    const struct count *c = &cell->counts[op];
    return c->ops ? (double)(invalidations ? c->invalidations : c->transfers) / (double)c->ops : 0;
}

static void table_print(bool invalidations) {
    printf("\n### %s per operation\n\n| structure | keys | operation |",
           invalidations ? "Invalidations" : "Remote transfers");
    for (unsigned i = 0; i < COLUMNS; i++) printf(" %u |", core_counts[i]);
    printf("\n|---|---|---|");
    for (unsigned i = 0; i < COLUMNS; i++) printf("---:|");
    printf("\n");
    for (unsigned w = 0; w < WORKLOADS; w++)
        for (unsigned s = 0; s < 2; s++)
            for (unsigned op = 0; op < OPS; op++) {
                printf("| %s | %s | %s |", structures[s].name, workloads[w], op_names[op]);
                for (unsigned i = 0; i < COLUMNS; i++) printf(" %.2f |", per_op(&cells[s][w][i], op, invalidations));
                printf("\n");
            }
}

static unsigned verdict(bool good, const char *what, double value, double target, unsigned *failed) {
    printf("- %s: %s: %.3f (target: at most %.2f)\n", good ? "PASS" : "FAIL", what, value, target);
    *failed += !good;
    return good;
}

static bool verdicts_print(void) {
    static const enum op updates[] = {ALLOC, MAP, UNMAP};
    unsigned passed = 0, failed = 0;
    printf("\n### Verdict\n\n");
    for (unsigned w = OWN; w <= SEPARATED; w++) {
        const struct cell *two = &cells[0][w][1], *most = &cells[0][w][COLUMNS - 1];
        char what[120];
        for (unsigned i = 0; i < 3; i++) {
            double grown = per_op(most, updates[i], false) - per_op(two, updates[i], false);
            (void)snprintf(what, sizeof what, "%s, %s, growth from 2 to 384 cores", workloads[w], op_names[updates[i]]);
            passed += verdict(grown <= 0.05, what, grown, 0.05, &failed);
        }
        double queries = per_op(most, QUERY, false);
        (void)snprintf(what, sizeof what, "%s, Query among updates, at 384 cores", workloads[w]);
        passed += verdict(queries <= 0.02, what, queries, 0.02, &failed);
    }
    printf("\n%u passed, %u failed\n", passed, failed);
    return failed == 0;
}

static void csv_write(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) lab_fail("cannot write %s", path);
    fprintf(file, "structure;keys;operation;cores;transfers;invalidations;cold;intervals\n");
    for (unsigned s = 0; s < 2; s++)
        for (unsigned w = 0; w < WORKLOADS; w++)
            for (unsigned op = 0; op < OPS; op++)
                for (unsigned i = 0; i < COLUMNS; i++) {
                    const struct cell *c = &cells[s][w][i];
                    fprintf(file, "%s;%s;%s;%u;%.4f;%.4f;%.4f;%.1f\n", structures[s].name, workloads[w], op_names[op],
                            core_counts[i], per_op(c, op, false), per_op(c, op, true),
                            c->counts[op].ops ? (double)c->counts[op].cold / (double)c->counts[op].ops : 0.0,
                            (double)c->intervals / core_counts[i]);
                }
    if (fclose(file)) lab_fail("cannot write %s", path);
}

static void usage(FILE *to) {
    fprintf(to, "usage: coherence [--table] [--csv FILE] [--cores N] [--help]\n"
                "  --table     Markdown tables, the lines that travel most, and the verdict (default)\n"
                "  --csv FILE  the same figures for coherence.gp, too\n"
                "  --cores N   account for this number of cores only (one of the table's)\n");
}

int main(int argc, char **argv) {
    const char *csv = NULL;
    unsigned only = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return usage(stdout), 0;
        if (!strcmp(argv[i], "--table")) continue;
        if (!strcmp(argv[i], "--csv") && i + 1 < argc) csv = argv[++i];
        else if (!strcmp(argv[i], "--cores") && i + 1 < argc) only = (unsigned)strtoul(argv[++i], NULL, 10);
        else return usage(stderr), 2;
    }
    arena = aligned_alloc(PAGE, ARENA);
    lines = calloc(ARENA / LINE, sizeof *lines);
    block_at = calloc(ARENA / GRAIN, sizeof *block_at);
    block_is = calloc(ARENA / GRAIN, sizeof *block_is);
    block_of = calloc(ARENA / GRAIN, sizeof *block_of);
    block_size = calloc(ARENA / GRAIN, sizeof *block_size);
    blame = calloc(BLOCKS * FIELDS, sizeof *blame);
    if (!arena || !lines || !block_at || !block_is || !block_of || !block_size || !blame) lab_fail("no memory");
    printf("Cores take turns, %d operations of each kind and core after a warm-up; about %d intervals a core.\n",
           ROUNDS, INTERVALS);
    for (unsigned w = 0; w < WORKLOADS; w++)
        for (unsigned i = 0; i < COLUMNS; i++)
            for (unsigned s = 0; s < 2; s++) {
                struct run run = {&structures[s], core_counts[i], w};
                if (only && only != run.cores) continue;
                blaming = s == 0 && (only || run.cores == CORES);
                account(&run, &cells[s][w][i]);
                if (blaming) lines_print(&run);
                if (blaming) memset(blame, 0, BLOCKS * FIELDS * sizeof *blame);
                if (s &&
                    (cells[1][w][i].sum != cells[0][w][i].sum || cells[1][w][i].intervals != cells[0][w][i].intervals))
                    lab_fail("the structures differ after the same operations on %u cores", run.cores);
            }
    table_print(false);
    table_print(true);
    if (csv) csv_write(csv);
    return verdicts_print() ? 0 : 1;
}
