/* SPDX-License-Identifier: MIT */
/*
 * Conformance self-test of a port: does the map keep its word on top of these hooks? Freestanding: it asks
 * struct conform_host for everything, and includes no more than the header under test does.
 *
 * Two groups. The first tries each hook's contract (manual, section 8), directly where the port is IVSKIP_RCU=HOST and
 * through a domain elsewhere; the second the map. Every wait for another processor is bounded, so that what a broken
 * hook does to somebody is told by somebody else. Random numbers have fixed seeds.
 */
#include "conform.h"
#include "ivskip.h"

/* -------------------------------------------------------------------------------- words that processors share */

/* [P0]: sequentially consistent throughout, for the test must not fail, nor pass, by an order of its own. */
#define GET(p)    __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define SET(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define ADD(p, v) __atomic_add_fetch((p), (v), __ATOMIC_SEQ_CST)

enum { MANY = CONFORM_MAX_CPUS };
static const uint64_t MS = 1000000;

static struct {
    const struct conform_host *host;
    const char *what; /* the first thing that the running check found wrong */
    bool clock_runs, skipped;
    unsigned passed, failed;
    uint64_t blocks;  /* allocated and not yet freed */
    uint64_t refusal; /* 0: none; else the how manyth allocation from now is the first that is refused */
    uint64_t stage;   /* of a play that several processors act in; each check begins with 0 */
} self_;

/* Notes what went wrong; the first note is the one that is printed. */
static bool expect(bool holds, const char *what) {
    const char *none = NULL;
    if (!holds)
        (void)__atomic_compare_exchange_n(&self_.what, &none, what, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST); /* [P0] */
    return holds;
}

static bool fine(void) { return GET(&self_.what) == NULL; }
/* Ends a check that does not apply to this host. */
static bool skip_unless(bool applies) {
    if (!applies) self_.skipped = true;
    return applies;
}

static void relax(void) { self_.host->relax(self_.host->ctx); }
static void idle(void) { self_.host->idle(self_.host->ctx); }

static uint64_t now(void) {
#if defined(IVSKIP_HOST_RCU_ENTER)
    return IVSKIP_HOST_NOW();
#else
    return self_.host->now(self_.host->ctx);
#endif
}

enum where { OUTSIDE, IN_SECTION };

/* A while, by the clock; by counting, where that does not go. */
static void pause_for(uint64_t nanoseconds, enum where where) {
    uint64_t begin = self_.clock_runs ? now() : 0;
    for (uint64_t i = 0; self_.clock_runs ? now() - begin < nanoseconds : i < nanoseconds / 100; i++)
        where == IN_SECTION ? relax() : idle();
}

/* Waits until *word is at least `value`, but not for ever. */
static bool await(const uint64_t *word, uint64_t value, enum where where) {
    uint64_t begin = self_.clock_runs ? now() : 0;
    for (uint64_t i = 0; GET(word) < value; i++) {
        bool late = self_.clock_runs ? now() - begin > 10000 * MS : i > 20000000;
        if (late) return expect(false, "another processor did not come to where it should");
        where == IN_SECTION ? relax() : idle();
    }
    return true;
}

/* Nobody begins before all are there: a check that is over before the last comes tests nothing. */
struct start {
    void (*fn)(void *arg, unsigned cpu);
    void *arg;
    uint64_t here;
};

static void start_cpu(void *arg, unsigned cpu) {
    struct start *start = (struct start *)arg;
    ADD(&start->here, 1);
    (void)await(&start->here, self_.host->cpus, OUTSIDE);
    start->fn(start->arg, cpu);
}

static void on_all(void (*fn)(void *arg, unsigned cpu), void *arg) {
    struct start start = {fn, arg, 0};
    SET(&self_.stage, 0);
    self_.host->run_all(self_.host->ctx, start_cpu, &start);
}

static uint64_t draw(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (*state = x) >> 11;
}

static uint64_t seed_of(unsigned cpu) { return 0x9e3779b97f4a7c15u * (cpu + 1u); }

/* -------------------------------------------------------------------------------- memory of the tests */

/* In front of each block stands its size, so that a free with another size is found whatever the host does. */
struct block {
    uint64_t bytes, magic;
};
enum { BLOCK_LIVES = 0x11fe11fe, BLOCK_DEAD = 0x0dead000 };

static void *block_alloc(void *ctx, size_t bytes, unsigned flags) {
    struct block *block;
    (void)ctx, (void)flags;
    if (GET(&self_.refusal) == 1) return NULL;
    if (GET(&self_.refusal) > 1) ADD(&self_.refusal, (uint64_t)-1);
    block = (struct block *)self_.host->alloc(self_.host->ctx, sizeof(*block) + bytes);
    if (!expect(block != NULL, "the host's memory is at an end: give the test more")) return NULL;
    block->bytes = bytes;
    block->magic = BLOCK_LIVES;
    ADD(&self_.blocks, 1);
    return block + 1;
}

/* What is freed is spoiled first: who still reads it reads nonsense. */
static void block_free(void *ctx, void *memory, size_t bytes) {
    struct block *block = (struct block *)memory - 1;
    (void)ctx;
    if (!expect(block->magic == BLOCK_LIVES, "memory was freed that is not allocated")) return;
    if (!expect(block->bytes == bytes, "memory was freed with another size than it was allocated with")) return;
    for (size_t i = 0; i < bytes / 8; i++) SET((uint64_t *)memory + i, 0xdbdbdbdbdbdbdbd8u);
    block->magic = BLOCK_DEAD;
    ADD(&self_.blocks, (uint64_t)-1);
    self_.host->free(self_.host->ctx, block, sizeof(*block) + bytes);
}

static const struct ivs_domain_ops plain_ops = {block_alloc, block_free, NULL};
static struct ivs_domain domain_; /* of the checks that need no map */
static struct ivs_map map_;       /* of the check that runs */

static bool map_begin(const struct ivs_domain_ops *ops,
                      int (*fragment)(void *, const struct ivs_node *, struct ivs_node *)) {
    struct ivs_map_config config = {NULL, {ops, NULL, 16, 1}, fragment, NULL};
    return expect(ivs_map_init(&map_, &config) == 0, "ivs_map_init failed");
}

static void map_sound(void) {
    struct ivs_report report;
    int r = ivs_map_validate(&map_, &report);
    expect(r == 0, report.check ? report.check : "ivs_map_validate failed");
}

static void map_over(void) {
    map_sound();
    expect(ivs_map_destroy(&map_) == 0, "ivs_map_destroy failed");
}

static void *word_value(uint64_t word) { return (void *)(uintptr_t)(word * 8); }

/* -------------------------------------------------------------------------------- static storage */

enum { STATIC_NODES = 24, STATIC_HEIGHT = 6, STATIC_PAYLOAD = 16 };
static uint64_t storage_[STATIC_NODES + 1][IVSKIP_NODE_BYTES(STATIC_PAYLOAD, STATIC_HEIGHT) / 8];
static uint64_t static_allocs_, static_frees_, static_releases_;

static void *static_alloc(void *ctx, size_t bytes, unsigned flags) {
    (void)ctx, (void)bytes, (void)flags;
    ADD(&static_allocs_, 1);
    return NULL;
}

static void static_free(void *ctx, void *memory, size_t bytes) {
    (void)ctx, (void)memory, (void)bytes;
    ADD(&static_frees_, 1);
}

static void static_release(void *ctx, struct ivs_node *node) {
    (void)ctx, (void)node;
    ADD(&static_releases_, 1);
}

static void static_put(unsigned i, bool overwrite) {
    struct ivs_node *node = ivs_node_init_at(ivs_map_domain(&map_), storage_[i], 1 + i % STATIC_HEIGHT, i * 16,
                                             i * 16 + 8, word_value(i + 1));
    if (!expect(node != NULL, "ivs_node_init_at refused good memory")) return;
    expect((overwrite ? ivs_map_map_node(&map_, node) : ivs_map_insert_node(&map_, node)) == 0,
           "a node in static storage could not be put into the map");
}

static void static_storage(void) {
    static const struct ivs_domain_ops ops = {static_alloc, static_free, static_release};
    struct ivs_map_config config = {NULL, {&ops, NULL, STATIC_PAYLOAD, 1}, NULL, NULL};
    struct ivs_entry entry;
    if (!expect(ivs_map_init(&map_, &config) == 0, "ivs_map_init failed")) return;
    expect(!ivs_node_init_at(ivs_map_domain(&map_), (char *)storage_[0] + 4, 1, 0, 8, NULL),
           "a crooked address was taken");
    for (unsigned i = 0; i < STATIC_NODES; i++) static_put(i, i % 2);
    map_sound();
    for (unsigned i = 0; i < STATIC_NODES; i++) {
        expect(ivs_map_lookup(&map_, i * 16 + 7, &entry) == 0 && entry.value == word_value(i + 1),
               "a node is not found");
        expect(ivs_map_lookup(&map_, i * 16 + 8, &entry) == IVS_ENOENT, "a gap is not empty");
    }
    expect(ivs_map_map(&map_, 1000, 1001, NULL) == IVS_ENOMEM,
           "an allocation without an allocator did not say -ENOMEM");
    expect(ivs_map_unmap(&map_, 0, 16 * 8) == 0, "an unmap of whole nodes failed");
    expect(ivs_domain_barrier(ivs_map_domain(&map_)) == 0, "ivs_domain_barrier failed");
    expect(GET(&static_releases_) == 8, "after the barrier not all removed nodes were released, or some twice");
    for (unsigned i = 0; i < 8; i++) static_put(i, false);
    map_over();
    expect(GET(&static_releases_) == 8 + STATIC_NODES, "a node was not released with its map, or twice");
    expect(GET(&static_allocs_) == 1, "the allocator was asked though no node was needed from it");
    expect(GET(&static_frees_) == 0, "static storage was given to the allocator");
}

/* -------------------------------------------------------------------------------- clock, random numbers */

static uint64_t latest_;

/* No processor reads an earlier time than another one did before. */
static void clock_cpu(void *arg, unsigned cpu) {
    uint64_t begin = now();
    (void)arg, (void)cpu;
    for (int i = 0; i < 500 || (i < 500000 && now() - begin < 10 * MS); i++) {
        uint64_t seen = GET(&latest_), t = now();
        expect(t >= seen, "the clock goes back, or processors disagree about the time");
        while (t > seen && !__atomic_compare_exchange_n(&latest_, &seen, t, false, __ATOMIC_SEQ_CST, /* [P0] */
                                                        __ATOMIC_SEQ_CST)) {
        }
        relax();
    }
}

static void clock_runs(void) {
    uint64_t begin = now(), end = begin;
    expect(begin < UINT64_MAX / 2, "the clock shows 2^63 or more");
    for (uint64_t i = 0; i < 20000000 && end - begin < 5 * MS; i++) {
        idle();
        end = now();
    }
    if (!expect(end > begin, "the clock stands still")) return;
    self_.clock_runs = true;
    on_all(clock_cpu, NULL);
}

#if defined(IVSKIP_HOST_RCU_ENTER)
enum { DRAWS = 64 };
static uint64_t draws_[MANY * DRAWS];

static void random_cpu(void *arg, unsigned cpu) {
    (void)arg;
    for (unsigned i = 0; i < DRAWS; i++) draws_[cpu * DRAWS + i] = IVSKIP_HOST_RANDOM();
}

static void random_differs(void) {
    unsigned n = self_.host->cpus * DRAWS, twins = 0;
    on_all(random_cpu, NULL);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++) twins += draws_[i] == draws_[j];
    expect(twins < n / 16, "RANDOM repeats itself, or processors draw the same numbers");
}
#endif

/* Three quarters of all towers have one level, three sixteenths two. */
static void heights(void) {
    static struct ivs_map_stats stats;
    enum { NODES = 1024 };
    if (!map_begin(&plain_ops, NULL)) return;
    for (uint64_t i = 0; i < NODES; i++)
        expect(ivs_map_insert(&map_, i * 4, i * 4 + 2, word_value(i)) == 0, "an insert failed");
    expect(ivs_map_get_stats(&map_, &stats) == 0 && stats.nodes == NODES, "the statistics do not count all nodes");
    expect(stats.at_height[0] > NODES * 65 / 100 && stats.at_height[0] < NODES * 85 / 100,
           "not three quarters of the towers are low");
    expect(stats.at_height[1] > NODES * 12 / 100 && stats.at_height[1] < NODES * 26 / 100,
           "not three sixteenths are of height 2");
    expect(stats.height >= 4, "no tower is high");
    map_over();
}

/* -------------------------------------------------------------------------------- read sections */

struct counted {
    struct ivs_defer defer; /* first: a callback gets its address */
    uint64_t runs;
};
static struct counted counted_;

static void count_run(struct ivs_defer *defer) { ADD(&((struct counted *)(void *)defer)->runs, 1); }

static void defer_counted(void) {
    SET(&counted_.runs, 0);
    expect(ivs_domain_defer(&domain_, &counted_.defer, count_run) == 0, "ivs_domain_defer failed");
}

static void barrier(void) { expect(ivs_domain_barrier(&domain_) == 0, "ivs_domain_barrier failed"); }

static bool domain_begin(void) {
    struct ivs_domain_config config = {&plain_ops, NULL, 0, 1};
    return expect(ivs_domain_init(&domain_, &config) == 0, "ivs_domain_init failed");
}

static void domain_over(void) { expect(ivs_domain_destroy(&domain_) == 0, "ivs_domain_destroy failed"); }

#if defined(IVSKIP_HOST_RCU_ENTER)
static void held_is(bool held, const char *what) {
#if defined(IVSKIP_HOST_RCU_HELD)
    if (self_.host->knows_sections) expect(!IVSKIP_HOST_RCU_HELD() == !held, what);
#else
    (void)held, (void)what;
#endif
}

static void held_cpu(void *arg, unsigned cpu) {
    (void)arg, (void)cpu;
    for (int i = 0; i < 100; i++) {
        held_is(false, "RCU_HELD says that there is a section outside of any");
        IVSKIP_HOST_RCU_ENTER();
        IVSKIP_HOST_RCU_ENTER();
        held_is(true, "RCU_HELD does not see a section");
        IVSKIP_HOST_RCU_EXIT();
        held_is(true, "RCU_HELD does not see the outer one of two sections");
        IVSKIP_HOST_RCU_EXIT();
        held_is(false, "RCU_HELD still sees a section that was left");
    }
}

static void sections_known(void) { on_all(held_cpu, NULL); }
#endif

/* A section holds back what is deferred inside it, until the outermost exit. */
static void own_section(void) {
    if (!domain_begin()) return;
    ivs_domain_read_enter(&domain_);
    ivs_domain_read_enter(&domain_);
    defer_counted();
    expect(GET(&counted_.runs) == 0, "a callback ran inside the call that queued it, in a section");
    pause_for(30 * MS, IN_SECTION);
    expect(GET(&counted_.runs) == 0, "a callback did not wait for the section it was queued in");
    ivs_domain_read_exit(&domain_);
    pause_for(30 * MS, IN_SECTION);
    expect(GET(&counted_.runs) == 0, "a callback did not wait for the outer one of two sections");
    if (self_.host->knows_sections) {
        expect(ivs_domain_synchronize(&domain_) == IVS_EDEADLK, "synchronize in a section did not say -EDEADLK");
        expect(ivs_domain_barrier(&domain_) == IVS_EDEADLK, "barrier in a section did not say -EDEADLK");
    }
    ivs_domain_read_exit(&domain_);
    barrier();
    expect(GET(&counted_.runs) == 1, "a callback did not run before the barrier's end, or twice");
    domain_over();
}

/* Who reads, and who updates meanwhile. */
struct roles {
    unsigned reader, writer;
    uint64_t left;  /* the reader is out */
    uint64_t delay; /* of the reader, nanoseconds */
};

static void callback_cpu(void *arg, unsigned cpu) {
    struct roles *roles = (struct roles *)arg;
    if (cpu == roles->reader) {
        pause_for(roles->delay, OUTSIDE);
        ivs_domain_read_enter(&domain_);
        ivs_domain_read_enter(&domain_);
        ivs_domain_read_exit(&domain_);
        SET(&self_.stage, 1);
        (void)await(&self_.stage, 2, IN_SECTION);
        expect(GET(&counted_.runs) == 0, "a callback did not wait for a section on another processor");
        ivs_domain_read_exit(&domain_);
    } else if (cpu == roles->writer) {
        (void)await(&self_.stage, 1, OUTSIDE);
        defer_counted();
        pause_for(15 * MS, OUTSIDE);
        SET(&self_.stage, 2);
        barrier();
        expect(GET(&counted_.runs) == 1, "a callback did not run before the barrier's end, or twice");
    }
}

static void synchronize_cpu(void *arg, unsigned cpu) {
    struct roles *roles = (struct roles *)arg;
    if (cpu == roles->reader) {
        pause_for(roles->delay, OUTSIDE);
        ivs_domain_read_enter(&domain_);
        SET(&self_.stage, 1);
        (void)await(&self_.stage, 2, IN_SECTION);
        pause_for(15 * MS, IN_SECTION);
        SET(&roles->left, 1);
        ivs_domain_read_exit(&domain_);
    } else if (cpu == roles->writer) {
        (void)await(&self_.stage, 1, OUTSIDE);
        SET(&self_.stage, 2);
        expect(ivs_domain_synchronize(&domain_) == 0, "ivs_domain_synchronize failed");
        expect(GET(&roles->left) == 1, "SYNCHRONIZE came back while another processor was in a section");
    }
}

/* Each processor is the reader a few times, at other moments between two ticks. */
static void each_reads(void (*play)(void *arg, unsigned cpu)) {
    unsigned cpus = self_.host->cpus;
    uint64_t random = seed_of(0);
    if (!skip_unless(cpus > 1) || !domain_begin()) return;
    for (unsigned round = 0; round < 4 * cpus && fine(); round++) {
        struct roles roles = {round % cpus, (round + 1) % cpus, 0, draw(&random) % (2 * MS)};
        on_all(play, &roles);
    }
    domain_over();
}

static void others_section(void) { each_reads(callback_cpu); }
static void synchronize_waits(void) { each_reads(synchronize_cpu); }

static void barrier_cpu(void *arg, unsigned cpu) {
    struct roles *roles = (struct roles *)arg;
    if (cpu == roles->reader) {
        pause_for(roles->delay, OUTSIDE);
        ivs_domain_read_enter(&domain_);
        SET(&self_.stage, 1);
        (void)await(&self_.stage, 2, IN_SECTION);
        pause_for(15 * MS, IN_SECTION);
        ivs_domain_read_exit(&domain_);
    } else if (cpu == roles->writer) {
        (void)await(&self_.stage, 1, OUTSIDE);
        defer_counted();
        SET(&self_.stage, 2);
        barrier();
        expect(GET(&counted_.runs) == 1, "ivs_domain_barrier came back before a callback ran, or it ran twice");
    }
}

static void barrier_waits(void) { each_reads(barrier_cpu); }

static void calls_nothing(struct ivs_defer *defer) { (void)defer; }

/* A grace period ends though sections follow each other without a pause. */
static void busy_reader_cpu(void *arg, unsigned cpu) {
    (void)arg;
    if (cpu) {
        while (!GET(&self_.stage)) {
            ivs_domain_read_enter(&domain_);
            relax();
            ivs_domain_read_exit(&domain_);
            idle();
        }
        return;
    }
    for (int i = 0; i < 5; i++) {
        struct ivs_defer defer;
        expect(ivs_domain_synchronize(&domain_) == 0, "ivs_domain_synchronize failed");
        expect(ivs_domain_defer(&domain_, &defer, calls_nothing) == 0, "ivs_domain_defer failed");
        barrier();
    }
    SET(&self_.stage, 1);
}

static void busy_readers(void) {
    if (!domain_begin()) return;
    on_all(busy_reader_cpu, NULL);
    domain_over();
}

/* -------------------------------------------------------------------------------- callbacks of the host's RCU */

#if defined(IVSKIP_HOST_RCU_ENTER)
enum { HEADS = 64, CHAIN = 4 };

struct called {
    IVSKIP_HOST_RCU_HEAD head; /* first: the callback gets its address */
    uint64_t runs;
};
static struct called called_[MANY][HEADS], chain_;

static void count_call(IVSKIP_HOST_RCU_HEAD *head) { ADD(&((struct called *)(void *)head)->runs, 1); }

static void call_all(unsigned cpu) {
    for (unsigned i = 0; i < HEADS; i++) {
        SET(&called_[cpu][i].runs, 0);
        IVSKIP_HOST_CALL_RCU(&called_[cpu][i].head, count_call);
    }
}

static void all_ran(const char *what) {
    for (unsigned cpu = 0; cpu < self_.host->cpus; cpu++)
        for (unsigned i = 0; i < HEADS; i++) expect(GET(&called_[cpu][i].runs) == 1, what);
}

/* All queue; the last stays in a section for a while, so that nothing can have run before the first asks. */
static void all_call_cpu(void *arg, unsigned cpu) {
    unsigned cpus = self_.host->cpus;
    bool last = cpu == cpus - 1 && cpus > 1;
    (void)arg;
    if (last) IVSKIP_HOST_RCU_ENTER();
    ADD(&self_.stage, 1);
    (void)await(&self_.stage, cpus, last ? IN_SECTION : OUTSIDE);
    call_all(cpu);
    ADD(&self_.stage, 1);
    if (last) {
        pause_for(15 * MS, IN_SECTION);
        IVSKIP_HOST_RCU_EXIT();
    }
    if (cpu == 0 && await(&self_.stage, 2 * cpus, OUTSIDE)) {
        IVSKIP_HOST_RCU_BARRIER();
        all_ran("RCU_BARRIER came back before all callbacks ran, or one ran twice");
    }
}

static void barrier_of_host(void) {
    for (int round = 0; round < 4 && fine(); round++) on_all(all_call_cpu, NULL);
    pause_for(15 * MS, OUTSIDE);
    IVSKIP_HOST_RCU_BARRIER();
    all_ran("a callback ran once more after the barrier");
}

/* The header begins the next grace period in the callback of the last. */
static void call_again(IVSKIP_HOST_RCU_HEAD *head) {
    if (ADD(&((struct called *)(void *)head)->runs, 1) < CHAIN) IVSKIP_HOST_CALL_RCU(head, call_again);
}

static void callbacks_queue(void) {
    IVSKIP_HOST_CALL_RCU(&chain_.head, call_again);
    for (unsigned i = 1; i <= CHAIN; i++) {
        IVSKIP_HOST_RCU_BARRIER();
        expect(GET(&chain_.runs) >= i, "a callback that was queued by a callback is lost");
    }
    pause_for(15 * MS, OUTSIDE);
    expect(GET(&chain_.runs) == CHAIN, "a callback that queues itself ran too often");
}
#endif

/* Before anything waits for a callback without a bound: do they come at all? */
static void callbacks_run(void) {
    uint64_t begin = now();
    if (!domain_begin()) return;
    defer_counted();
    while (!GET(&counted_.runs) && now() - begin < 5000 * MS) {
        (void)ivs_domain_reclaim(&domain_);
        idle();
    }
    if (!expect(GET(&counted_.runs) == 1, "a callback did not run in five seconds")) return;
#if defined(IVSKIP_HOST_RCU_ENTER)
    call_all(0);
    for (unsigned i = 0; i < HEADS; i++)
        while (!GET(&called_[0][i].runs) && now() - begin < 5000 * MS) idle();
    for (unsigned i = 0; i < HEADS; i++)
        if (!expect(GET(&called_[0][i].runs) == 1, "one of many callbacks did not run, or twice")) return;
#endif
    domain_over();
}

/* -------------------------------------------------------------------------------- allocator */

enum { HELD_BLOCKS = 16 };

struct held {
    uint64_t *memory;
    size_t words;
    uint64_t mark;
};
static struct held held_[MANY][HELD_BLOCKS];

static void held_give_back(struct held *held) {
    for (size_t i = 0; i < held->words; i++)
        expect(held->memory[i] == held->mark, "two allocated blocks overlap, or a free block was written");
    self_.host->free(self_.host->ctx, held->memory, held->words * 8);
    held->memory = NULL;
}

static void allocator_cpu(void *arg, unsigned cpu) {
    uint64_t random = seed_of(cpu);
    (void)arg;
    for (int i = 0; i < 8000 && fine(); i++) {
        struct held *held = &held_[cpu][draw(&random) % HELD_BLOCKS];
        if (held->memory) {
            held_give_back(held);
            continue;
        }
        held->words = 3 + draw(&random) % 64; /* a node and its payload: any multiple of 8 */
        held->mark = draw(&random);
        held->memory = (uint64_t *)self_.host->alloc(self_.host->ctx, held->words * 8);
        if (!expect(held->memory != NULL, "the allocator is at its end though little is held")) return;
        if (!expect((uintptr_t)held->memory % 8 == 0, "allocated memory is not 8-byte aligned")) return;
        for (size_t w = 0; w < held->words; w++) held->memory[w] = held->mark;
    }
    for (unsigned i = 0; i < HELD_BLOCKS; i++)
        if (held_[cpu][i].memory) held_give_back(&held_[cpu][i]);
}

/* Two blocks at a time, all of one size, as fast as all can: a list that is not locked breaks (for a while, since where
 * processors share a core only a switch at a bad moment shows it). What is freed can be allocated again: 20 MB and more
 * for each processor. */
static void allocator_again_cpu(void *arg, unsigned cpu) {
    uint64_t begin = now();
    (void)arg;
    for (uint64_t i = 0; (i < 10000 || now() - begin < 200 * MS) && fine(); i++) {
        uint64_t *pair[2], mark = i * MANY + cpu;
        for (unsigned j = 0; j < 2; j++) {
            pair[j] = (uint64_t *)self_.host->alloc(self_.host->ctx, 1024);
            if (!expect(pair[j] != NULL, "the allocator is at its end though all was freed")) return;
            SET(&pair[j][1], mark * 2 + j);
        }
        for (unsigned j = 0; j < 2; j++) {
            expect(GET(&pair[j][1]) == mark * 2 + j, "a block was allocated twice at the same time");
            self_.host->free(self_.host->ctx, pair[j], 1024);
        }
    }
}

static void allocator(void) {
    on_all(allocator_cpu, NULL);
    if (fine()) on_all(allocator_again_cpu, NULL);
}

#if !defined(IVSKIP_HOST_RCU_ENTER) || defined(IVSKIP_HOST_MALLOC)
/* A domain without callbacks of its own lives on the host's MALLOC and FREE. */
static void default_allocator(void) {
    struct ivs_entry entry;
    if (!expect(ivs_map_init(&map_, NULL) == 0, "ivs_map_init failed")) return;
    for (uint64_t i = 0; i < 200; i++)
        expect(ivs_map_map(&map_, i, i + 10, word_value(i)) == 0, "a map with the host's MALLOC failed");
    expect(ivs_map_lookup(&map_, 100, &entry) == 0 && entry.value == word_value(100), "a key is not found");
    map_over();
}
#endif

/* -------------------------------------------------------------------------------- waiting */

#if defined(IVSKIP_HOST_RCU_ENTER) && defined(IVSKIP_HOST_PARK)
static uint32_t parking_;

static void park_cpu(void *arg, unsigned cpu) {
    uint64_t begin = now();
    (void)arg;
    if (cpu == 0) {
        (void)await(&self_.stage, self_.host->cpus - 1u, OUTSIDE);
        pause_for(10 * MS, OUTSIDE);
        ADD(&parking_, 1);
        IVSKIP_HOST_WAKE(&parking_);
        return;
    }
    ADD(&self_.stage, 1);
    while (GET(&parking_) == 1 && now() - begin < 4000 * MS) IVSKIP_HOST_PARK(&parking_, 1, begin + 4000 * MS);
    expect(now() - begin < 3000 * MS, "WAKE did not wake a sleeper, or PARK did not look at the word");
}

/* The first parks for 20 ms; where that does not end, the second helps it out. */
static void park_late_cpu(void *arg, unsigned cpu) {
    uint64_t begin = now();
    (void)arg;
    if (cpu == 0) {
        while (now() - begin < 20 * MS) IVSKIP_HOST_PARK(&parking_, 1, begin + 20 * MS);
        expect(now() - begin < 1000 * MS, "PARK did not come back when its time was over");
        SET(&self_.stage, 1);
    } else if (cpu == 1) {
        while (!GET(&self_.stage) && now() - begin < 1500 * MS) idle();
        if (GET(&self_.stage)) return;
        ADD(&parking_, 1);
        IVSKIP_HOST_WAKE(&parking_);
    }
}

static void park_and_wake(void) {
    uint64_t begin = now();
    SET(&parking_, 1);
    IVSKIP_HOST_PARK(&parking_, 0, begin + 3000 * MS);
    if (!expect(now() - begin < 2000 * MS, "PARK slept though the word had changed")) return;
    on_all(park_late_cpu, NULL);
    if (fine()) on_all(park_cpu, NULL);
}
#endif

/* Held ranges answer those who do not want to wait for ever. */
static void lock_answers(void) {
    struct ivs_lock mine, other;
    uint64_t begin;
    if (!map_begin(&plain_ops, NULL)) return;
    expect(ivs_map_map(&map_, 0, 50, word_value(1)) == 0 && ivs_map_map(&map_, 60, 90, word_value(2)) == 0,
           "a map failed");
    expect(ivs_map_lock(&map_, 10, 70, &mine) == 0 && mine.count == 2, "a lock of two nodes failed");
    expect(ivs_map_trylock(&map_, 20, 21, &other) == IVS_EBUSY, "trylock of a held range did not say -EBUSY");
    begin = now();
    expect(ivs_map_timedlock(&map_, 80, 100, 10 * MS, &other) == IVS_ETIMEDOUT, "timedlock did not say -ETIMEDOUT");
    expect(now() - begin >= 10 * MS, "timedlock gave up before its time");
    expect(now() - begin < 3000 * MS, "timedlock gave up far too late");
    expect(ivs_map_unlock(&mine) == 0, "unlock failed");
    expect(ivs_map_unlock(&mine) == IVS_EPERM, "unlock of nothing did not say -EPERM");
    expect(ivs_map_timedlock(&map_, 80, 100, 10 * MS, &other) == 0, "timedlock of a free range failed");
    expect(ivs_map_unlock(&other) == 0, "unlock failed");
    if (self_.host->knows_sections) {
        ivs_map_read_enter(&map_);
        expect(ivs_map_lock(&map_, 10, 70, &mine) == IVS_EDEADLK, "lock in a section did not say -EDEADLK");
        ivs_map_read_exit(&map_);
    }
    map_over();
}

/* One holds a range until all others wait for it: all must come to it in the end. */
static void waiter_cpu(void *arg, unsigned cpu) {
    static struct ivs_map_stats stats;
    struct ivs_lock lock;
    uint64_t *left = (uint64_t *)arg, waiters = self_.host->cpus - 1u;
    if (cpu) {
        (void)await(&self_.stage, 1, OUTSIDE);
        if (!expect(ivs_map_timedlock(&map_, 10, 20 + cpu, 6000 * MS, &lock) == 0, "a waiter was not woken")) return;
        expect(GET(left) == 1, "a range was given away that was held");
        expect(ivs_map_unlock(&lock) == 0, "unlock failed");
        return;
    }
    expect(ivs_map_lock(&map_, 0, 100, &lock) == 0, "a lock failed");
    SET(&self_.stage, 1);
    for (uint64_t begin = now(); now() - begin < 3000 * MS; idle())
        if (ivs_map_get_stats(&map_, &stats) || stats.waits >= waiters) break;
    expect(stats.waits >= waiters, "the others do not sleep for a range that is held");
    pause_for(10 * MS, OUTSIDE);
    SET(left, 1);
    expect(ivs_map_unlock(&lock) == 0, "unlock failed");
}

static void waiters_are_woken(void) {
    uint64_t left = 0;
    if (!skip_unless(self_.host->cpus > 1) || !map_begin(&plain_ops, NULL)) return;
    expect(ivs_map_map(&map_, 0, 30, word_value(1)) == 0, "a map failed");
    on_all(waiter_cpu, &left);
    map_over();
}

/* -------------------------------------------------------------------------------- one processor and the model */

/* What KEYS keys from `base` on should hold: for each its interval's first key and value, 0: none. */
enum { KEYS = 64 };

struct model {
    uint64_t base, random, value[KEYS];
    unsigned from[KEYS];
};
static struct model models_[MANY];

static void model_cut(struct model *m, unsigned end) {
    for (unsigned k = end; k < KEYS && m->value[k] && m->from[k] < end; k++) m->from[k] = end;
}

static void model_set(struct model *m, unsigned start, unsigned end, uint64_t value) {
    if (end < KEYS) model_cut(m, end);
    for (unsigned k = start; k < end; k++) {
        m->value[k] = value;
        m->from[k] = start;
    }
}

static bool model_free(const struct model *m, unsigned start, unsigned end) {
    for (unsigned k = start; k < end; k++)
        if (m->value[k]) return false;
    return true;
}

static unsigned model_end(const struct model *m, unsigned k) {
    unsigned end = k + 1;
    while (end < KEYS && m->value[end] && m->from[end] == m->from[k]) end++;
    return end;
}

/* Widens [start, end) to the whole of the intervals that it meets. */
static void model_widen(const struct model *m, unsigned *start, unsigned *end) {
    unsigned last = *end - 1;
    if (m->value[last]) *end = model_end(m, last);
    if (m->value[*start]) *start = m->from[*start];
}

static void model_agrees(struct model *m) {
    struct ivs_entry entry = {0, 0, NULL};
    for (unsigned k = 0; k < KEYS; k++) {
        int r = ivs_map_lookup(&map_, m->base + k, &entry);
        if (!m->value[k]) {
            expect(r == IVS_ENOENT, "a key is covered that should be free");
        } else if (expect(r == 0, "a key is free that should be covered")) {
            expect(entry.start == m->base + m->from[k], "an interval begins elsewhere than it should");
            expect(entry.end == m->base + model_end(m, k), "an interval ends elsewhere than it should");
            expect(entry.value == word_value(m->value[k]), "an interval has another value than it should");
        }
    }
}

/* The nodes that iteration visits are the model's intervals, in order. */
static void model_iterates(struct model *m) {
    struct ivs_node *node;
    unsigned k = 0;
    ivs_map_read_enter(&map_);
    ivs_map_for_each_rcu (node, &map_, m->base, m->base + KEYS) {
        while (k < KEYS && !m->value[k]) k++;
        if (!expect(k < KEYS && node->start == m->base + k, "iteration visits what is not there")) break;
        k = model_end(m, k);
    }
    while (k < KEYS && !m->value[k]) k++;
    expect(!fine() || k == KEYS, "iteration leaves an interval out");
    ivs_map_read_exit(&map_);
}

static void step_alloc(struct model *m, unsigned start, unsigned end, uint64_t value) {
    struct ivs_alloc request = {m->base + start, m->base + end, 0, 0, 0};
    unsigned align = 1u << draw(&m->random) % 3, size = 1 + (unsigned)(draw(&m->random) % (end - start)), at;
    uint64_t place = 0;
    int r;
    request.size = size;
    request.align = align;
    for (at = (start + align - 1) / align * align; at + size <= end && !model_free(m, at, at + size);) at += align;
    request.hint = request.lo;
    r = ivs_map_alloc(&map_, &request, word_value(value), &place);
    if (at + size > end) {
        expect(r == IVS_ENOMEM, "alloc found room where there is none");
    } else if (expect(r == 0, "alloc refused though there is room")) {
        expect(place == m->base + at, "alloc did not take the first gap that fits");
        model_set(m, at, at + size, value);
    }
}

/* Gives all intervals that meet the range another value. */
static void step_set_value(struct model *m, unsigned start, unsigned end, uint64_t value) {
    struct ivs_lock lock;
    if (!expect(ivs_map_lock(&map_, m->base + start, m->base + end, &lock) == 0, "a lock failed")) return;
    for (struct ivs_node *node = ivs_lock_first(&lock); node; node = ivs_lock_next(&lock, node))
        expect(ivs_node_set_value(&lock, node, word_value(value)) == 0, "ivs_node_set_value failed under a lock");
    expect(ivs_map_unlock(&lock) == 0, "unlock failed");
    model_widen(m, &start, &end);
    for (unsigned k = start; k < end; k++)
        if (m->value[k]) m->value[k] = value;
}

/* Replaces all intervals that meet the range by two halves of it. */
static void step_swap(struct model *m, unsigned start, unsigned end, uint64_t value) {
    struct ivs_domain *domain = ivs_map_domain(&map_);
    unsigned middle = start + (end - start + 1) / 2, whole = start, over = end;
    size_t n = middle < end ? 2 : 1;
    struct ivs_node *run[2];
    struct ivs_lock lock;
    run[0] = ivs_node_new(domain, m->base + start, m->base + middle, word_value(value), IVS_SLEEP);
    run[1] = n > 1 ? ivs_node_new(domain, m->base + middle, m->base + end, word_value(value), IVS_SLEEP) : NULL;
    if (!expect(run[0] && (n < 2 || run[1]), "ivs_node_new failed")) return;
    if (!expect(ivs_map_timedlock(&map_, m->base + start, m->base + end, 8000 * MS, &lock) == 0, "a lock failed"))
        return;
    expect(ivs_map_swap(&lock, run, n) == 0, "ivs_map_swap failed");
    expect(lock.count == n, "after a swap the lock does not hold the new nodes");
    expect(ivs_map_unlock(&lock) == 0, "unlock failed");
    model_widen(m, &whole, &over);
    model_set(m, whole, over, 0);
    model_set(m, start, middle, value);
    if (n > 1) model_set(m, middle, end, value);
}

/* One random operation on the map and on the model. */
static void model_step(struct model *m, uint64_t value) {
    unsigned start = (unsigned)(draw(&m->random) % KEYS), end = start + 1 + (unsigned)(draw(&m->random) % 16);
    uint64_t lo = m->base + start, hi;
    int r;
    if (end > KEYS) end = KEYS;
    hi = m->base + end;
    switch (draw(&m->random) % 8) {
    case 0:
    case 1:
        expect(ivs_map_map(&map_, lo, hi, word_value(value)) == 0, "ivs_map_map failed");
        model_set(m, start, end, value);
        break;
    case 2:
    case 3:
        expect(ivs_map_unmap(&map_, lo, hi) == 0, "ivs_map_unmap failed");
        model_set(m, start, end, 0);
        break;
    case 4:
        r = ivs_map_insert(&map_, lo, hi, word_value(value));
        expect(r == (model_free(m, start, end) ? 0 : IVS_EEXIST), "ivs_map_insert did not say if the range was free");
        if (r == 0) model_set(m, start, end, value);
        break;
    case 5: step_alloc(m, start, end, value); break;
    case 6: step_set_value(m, start, end, value); break;
    default: step_swap(m, start, end, value); break;
    }
}

static void model_begin(unsigned cpu, uint64_t base) {
    struct model *m = &models_[cpu];
    __builtin_memset(m, 0, sizeof(*m));
    m->base = base;
    m->random = seed_of(cpu) ^ base;
}

static void oracle_from(uint64_t base) {
    if (!map_begin(&plain_ops, NULL)) return;
    model_begin(0, base);
    for (uint64_t i = 1; i <= 1500 && fine(); i++) {
        model_step(&models_[0], i);
        model_agrees(&models_[0]);
        model_iterates(&models_[0]);
        map_sound();
    }
    map_over();
}

static void oracle_low(void) { oracle_from(0); }
static void oracle_top(void) { oracle_from(0u - (uint64_t)KEYS); }

/* Refuses the first, the second, ... allocation of an update until it needs no more. */
static void refused(int (*update)(struct model *m)) {
    uint64_t n = 1;
    model_begin(0, 0);
    if (!map_begin(&plain_ops, NULL)) return;
    expect(ivs_map_map(&map_, 8, 40, word_value(7)) == 0, "ivs_map_map failed");
    model_set(&models_[0], 8, 40, 7);
    for (; n < 10 && fine(); n++) {
        int r;
        SET(&self_.refusal, n);
        r = update(&models_[0]);
        SET(&self_.refusal, 0);
        model_agrees(&models_[0]);
        map_sound();
        if (r == 0) break;
        expect(r == IVS_ENOMEM, "refused memory was not answered with -ENOMEM");
    }
    expect(n > 1 && n < 10, "an update did not need memory, or did not come to its end");
    map_over();
}

static int refused_map(struct model *m) {
    int r = ivs_map_map(&map_, 16, 24, word_value(9));
    if (r == 0) model_set(m, 16, 24, 9);
    return r;
}

static int refused_unmap(struct model *m) {
    int r = ivs_map_unmap(&map_, 16, 24);
    if (r == 0) model_set(m, 16, 24, 0);
    return r;
}

static int refused_insert(struct model *m) {
    int r = ivs_map_insert(&map_, 50, 55, word_value(9));
    if (r == 0) model_set(m, 50, 55, 9);
    return r;
}

static int refused_alloc(struct model *m) {
    struct ivs_alloc request = {0, KEYS, 10, 1, 0};
    uint64_t place = 0;
    int r = ivs_map_alloc(&map_, &request, word_value(9), &place);
    if (r == 0) model_set(m, 40, 50, 9);
    return r;
}

static void memory_refused(void) {
    refused(refused_map);
    refused(refused_unmap);
    refused(refused_insert);
    refused(refused_alloc);
}

/* -------------------------------------------------------------------------------- all processors */

/* Each has keys of its own, side by side with the others': what it did is what it finds. */
static void disjoint_cpu(void *arg, unsigned cpu) {
    (void)arg;
    for (uint64_t i = 1; i <= 500 && fine(); i++) {
        model_step(&models_[cpu], i * MANY + cpu);
        model_agrees(&models_[cpu]);
    }
}

static void disjoint_updates(void) {
    if (!map_begin(&plain_ops, NULL)) return;
    for (unsigned cpu = 0; cpu < self_.host->cpus; cpu++) model_begin(cpu, cpu * (uint64_t)KEYS);
    on_all(disjoint_cpu, NULL);
    for (unsigned cpu = 0; cpu < self_.host->cpus; cpu++) model_agrees(&models_[cpu]);
    map_over();
}

enum { ROOMS = 16 };
static uint64_t tenants_[MANY * ROOMS], housed_;

/* All look for rooms at once: each gets one of its own, and the last are refused. */
static void alloc_cpu(void *arg, unsigned cpu) {
    struct ivs_alloc request = {1000, 1000 + 4 * (uint64_t)ROOMS * (self_.host->cpus - 1u), 4, 4, 0};
    (void)arg;
    for (unsigned i = 0; i < ROOMS; i++) {
        uint64_t place = 0;
        int r = ivs_map_alloc(&map_, &request, word_value(cpu + 1u), &place);
        if (r == IVS_ENOMEM) continue;
        if (!expect(r == 0 && place % 4 == 0 && place >= 1000, "alloc failed, or its place is bad")) return;
        ADD(&housed_, 1);
        expect(ADD(&tenants_[(place - 1000) / 4], 1) == 1, "alloc gave one place to two");
    }
}

static void alloc_race(void) {
    uint64_t rooms = (uint64_t)ROOMS * (self_.host->cpus - 1u);
    if (!skip_unless(self_.host->cpus > 1) || !map_begin(&plain_ops, NULL)) return;
    on_all(alloc_cpu, NULL);
    expect(GET(&housed_) == rooms, "alloc refused though there was room, or gave more than there is");
    map_over();
}

static uint64_t visits_; /* plain: only whoever holds the range touches it */

static void contended_cpu(void *arg, unsigned cpu) {
    uint64_t random = seed_of(cpu), rounds = *(uint64_t *)arg;
    for (uint64_t i = 0; i < rounds && fine(); i++) {
        struct ivs_lock lock;
        uint64_t before, lo = 10 + draw(&random) % 40, hi = 51 + draw(&random) % 40;
        int r;
        if (i % 3 == 0) {
            r = ivs_map_lock(&map_, lo, hi, &lock);
        } else if (i % 3 == 1) {
            r = ivs_map_timedlock(&map_, lo, hi, 9000 * MS, &lock);
        } else {
            while ((r = ivs_map_trylock(&map_, lo, hi, &lock)) == IVS_EBUSY) idle();
        }
        if (!expect(r == 0, "a lock was not given in its time")) return;
        before = *(volatile uint64_t *)&visits_;
        for (uint64_t n = draw(&random) % 4 ? 0 : draw(&random) % 300; n > 0; n--) relax();
        *(volatile uint64_t *)&visits_ = before + 1;
        if (i % 7 == 0)
            expect(ivs_node_set_value(&lock, ivs_lock_first(&lock), word_value(i)) == 0, "set_value failed");
        expect(ivs_map_unlock(&lock) == 0, "unlock failed");
    }
}

static void contended_range(void) {
    uint64_t rounds = 300;
    if (!map_begin(&plain_ops, NULL)) return;
    expect(ivs_map_map(&map_, 0, 100, word_value(1)) == 0, "a map failed");
    on_all(contended_cpu, &rounds);
    expect(visits_ == rounds * self_.host->cpus || !fine(), "two held the same range: updates are lost");
    map_over();
}

/* The first replaces [0, KEYS) again and again, in one piece or two, each time with a greater value. */
static void replace_writer(uint64_t rounds) {
    struct model *m = &models_[0];
    for (uint64_t i = 2; i < rounds && fine(); i++) {
        if (i % 2) expect(ivs_map_map(&map_, 0, KEYS, word_value(i)) == 0, "a map failed");
        else step_swap(m, 0, KEYS, i);
        if (i % 8 == 0) idle();
    }
    SET(&self_.stage, 1);
}

static void replace_cpu(void *arg, unsigned cpu) {
    uint64_t random = seed_of(cpu), newest[KEYS] = {0};
    if (cpu == 0) {
        replace_writer(*(uint64_t *)arg);
        return;
    }
    while (!GET(&self_.stage)) {
        uint64_t key = draw(&random) % KEYS, value;
        struct ivs_node *node;
        ivs_map_read_enter(&map_);
        node = ivs_map_query_rcu(&map_, key);
        if (expect(node != NULL, "a reader saw a gap where an interval was being replaced")) {
            value = (uintptr_t)ivs_node_value(node) / 8;
            expect(value >= newest[key], "a reader saw a replaced interval after the new one");
            newest[key] = value;
        }
        ivs_map_read_exit(&map_);
        if (key == 0) idle();
    }
}

static void readers_see_no_gap(void) {
    uint64_t rounds = 1500;
    if (!map_begin(&plain_ops, NULL)) return;
    model_begin(0, 0);
    expect(ivs_map_map(&map_, 0, KEYS, word_value(1)) == 0, "a map failed");
    on_all(replace_cpu, &rounds);
    map_over();
}

/* -------------------------------------------------------------------------------- values that are freed */

/* A value with a count of the nodes that hold it; when the last is released it is spoiled, as if it were freed. */
struct object {
    uint64_t word, nodes;
};
enum { OBJECTS = 600, GOOD = 0x600d600d, POISON = 0xbad0bad0, NEW = 0 };
static struct object objects_[MANY][OBJECTS];

static int object_fragment(void *ctx, const struct ivs_node *old, struct ivs_node *fragment) {
    struct object *object = (struct object *)ivs_node_value(old);
    (void)ctx;
    ADD(&object->nodes, 1);
    return ivs_node_set_value(NULL, fragment, object);
}

static void object_release(void *ctx, struct ivs_node *node) {
    struct object *object = (struct object *)ivs_node_value(node);
    (void)ctx;
    if (!object) return; /* a spare node that was not needed */
    expect(GET(&object->word) == GOOD, "a value was released once more than it has nodes");
    if (ADD(&object->nodes, (uint64_t)-1) == 0) SET(&object->word, POISON);
}

static void poison_read(uint64_t key, uint64_t dwell) {
    struct object *object;
    struct ivs_node *node;
    uint64_t start, last;
    ivs_map_read_enter(&map_);
    node = ivs_map_query_next_rcu(&map_, key);
    if (node) {
        start = node->start;
        last = node->last;
        object = (struct object *)ivs_node_value(node);
        expect(GET(&object->word) == GOOD, "a reader found a value that was freed");
        if (dwell == 0) pause_for(3 * MS, IN_SECTION);
        for (; dwell > 0; dwell--) relax();
        expect(GET(&object->word) == GOOD, "a value was freed while a reader was in a section");
        expect(GET(&node->start) == start && GET(&node->last) == last && last >= key,
               "a node was freed while a reader was in a section");
    }
    ivs_map_read_exit(&map_);
}

static void poison_cpu(void *arg, unsigned cpu) {
    uint64_t random = seed_of(cpu);
    (void)arg;
    for (unsigned next = 0; next < OBJECTS && fine();) {
        uint64_t lo = draw(&random) % KEYS, hi = lo + 1 + draw(&random) % 16, what = draw(&random) % 100;
        struct object *object = &objects_[cpu][next];
        if (what < 60) {
            poison_read(lo, what == 0 ? 0 : 1 + draw(&random) % 64);
        } else if (what < 70) {
            expect(ivs_map_unmap(&map_, lo, hi) == 0, "an unmap failed");
        } else {
            int r;
            SET(&object->nodes, 1);
            SET(&object->word, GOOD);
            r = what < 90 ? ivs_map_map(&map_, lo, hi, object) : ivs_map_insert(&map_, lo, hi, object);
            expect(r == 0 || (what >= 90 && r == IVS_EEXIST), "a map or insert failed");
            if (r == 0) next++;
        }
        if (what == 99) idle();
    }
}

static void freed_values(void) {
    static const struct ivs_domain_ops ops = {block_alloc, block_free, object_release};
    if (!map_begin(&ops, object_fragment)) return;
    on_all(poison_cpu, NULL);
    map_sound();
    expect(ivs_map_unmap(&map_, 0, 0) == 0, "an unmap of everything failed");
    expect(ivs_domain_barrier(ivs_map_domain(&map_)) == 0, "ivs_domain_barrier failed");
    for (unsigned cpu = 0; cpu < self_.host->cpus && fine(); cpu++)
        for (unsigned i = 0; i < OBJECTS; i++)
            expect(objects_[cpu][i].nodes == 0 && objects_[cpu][i].word == POISON,
                   "after the barrier a value is not released, or was released too often");
    map_over();
}

/* -------------------------------------------------------------------------------- interrupts */

static uint64_t ticks_, trylocks_;

/* In an interrupt handler: what does not sleep. */
static void in_interrupt(void) {
    struct ivs_lock lock;
    struct ivs_node *node;
    ivs_map_read_enter(&map_);
    node = ivs_map_query_rcu(&map_, 5);
    expect(node && node->start <= 5 && node->last >= 5, "a look-up in an interrupt handler failed");
    ivs_map_read_exit(&map_);
    if (ivs_map_trylock(&map_, 210, 220, &lock) == 0) {
        expect(ivs_node_set_value(&lock, ivs_lock_first(&lock), word_value(3)) == 0, "set_value failed");
        expect(ivs_map_unlock(&lock) == 0, "unlock in an interrupt handler failed");
        ADD(&trylocks_, 1);
    }
    ADD(&ticks_, 1);
}

static void interrupted_cpu(void *arg, unsigned cpu) {
    uint64_t begin = now();
    (void)arg;
    while (now() - begin < 150 * MS && fine()) {
        struct ivs_lock lock;
        expect(ivs_map_map(&map_, cpu % 2 ? 0 : 2, 10 + cpu, word_value(cpu + 1u)) == 0, "a map failed");
        if (!expect(ivs_map_lock(&map_, 205, 215, &lock) == 0, "a lock failed")) return;
        expect(ivs_map_unlock(&lock) == 0, "unlock failed");
        for (int i = 0; i < 1000; i++) { /* an allocator's lock must keep out the interrupt whose callbacks free */
            void *memory = self_.host->alloc(self_.host->ctx, 64);
            if (!expect(memory != NULL, "the host's memory is at an end: give the test more")) return;
            self_.host->free(self_.host->ctx, memory, 64);
        }
    }
}

static void nothing_cpu(void *arg, unsigned cpu) { (void)arg, (void)cpu; }

static void interrupts(void) {
    if (!skip_unless(self_.host->each_tick != NULL) || !map_begin(&plain_ops, NULL)) return;
    expect(ivs_map_map(&map_, 0, 20, word_value(1)) == 0 && ivs_map_map(&map_, 200, 300, word_value(2)) == 0,
           "a map failed");
    self_.host->each_tick(self_.host->ctx, in_interrupt);
    on_all(interrupted_cpu, NULL);
    self_.host->each_tick(self_.host->ctx, NULL);
    on_all(nothing_cpu, NULL); /* whoever runs this is in no handler any more */
    expect(GET(&ticks_) >= 2 * self_.host->cpus, "there were no ticks");
    expect(GET(&trylocks_) > 0, "no interrupt handler ever got a range");
    map_over();
}

static void all_given_back(void) { expect(GET(&self_.blocks) == 0, "memory was allocated that was never freed"); }

/* -------------------------------------------------------------------------------- the run */

struct check {
    const char *name;
    void (*run)(void);
};

static void print(const char *text) { self_.host->print(self_.host->ctx, text); }

static void print_number(uint64_t x) {
    char text[24];
    size_t at = sizeof(text) - 1;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + x % 10);
        x /= 10;
    } while (x);
    print(&text[at]);
}

/* With `strict`, up to the first failure: what comes after a broken hook may not end. */
static void run_checks(const struct check *checks, size_t n, bool strict) {
    for (size_t i = 0; i < n && !(strict && self_.failed); i++) {
        SET(&self_.what, NULL);
        self_.skipped = false;
        checks[i].run();
        print(!fine() ? "FAIL " : self_.skipped ? "skip " : "ok ");
        print(checks[i].name);
        if (fine()) {
            self_.passed += !self_.skipped;
        } else {
            self_.failed++;
            print(": ");
            print(GET(&self_.what));
        }
        print("\n");
    }
}

static const struct check early_checks[] = {
    {"the clock runs, and all processors agree", clock_runs},
    {"callbacks run in the end", callbacks_run},
    {"nodes in static storage, before the allocator is up", static_storage},
};

static const struct check hook_checks[] = {
    {"the allocator: sizes, alignment, no overlap", allocator},
#if !defined(IVSKIP_HOST_RCU_ENTER) || defined(IVSKIP_HOST_MALLOC)
    {"the default allocator of a domain", default_allocator},
#endif
#if defined(IVSKIP_HOST_RCU_ENTER)
    {"random numbers differ", random_differs},
    {"sections are known while they last", sections_known},
#endif
    {"heights of towers are those of a skiplist", heights},
    {"a callback waits for the section it was queued in", own_section},
    {"a callback waits for the sections of others", others_section},
    {"synchronize waits for the sections of others", synchronize_waits},
    {"a barrier waits for callbacks, which run once", barrier_waits},
    {"grace periods end though readers come and come", busy_readers},
#if defined(IVSKIP_HOST_RCU_ENTER)
    {"the host's barrier waits for all callbacks of all", barrier_of_host},
    {"a callback may queue a callback", callbacks_queue},
#if defined(IVSKIP_HOST_PARK)
    {"parked ones are woken, and wake in time", park_and_wake},
#endif
#endif
    {"locks: held, tried, timed, misused", lock_answers},
    {"waiters are woken", waiters_are_woken},
};

static const struct check map_checks[] = {
    {"random operations agree with the model, low keys", oracle_low},
    {"random operations agree with the model, last keys", oracle_top},
    {"refused memory is answered and changes nothing", memory_refused},
    {"disjoint updates of all are kept", disjoint_updates},
    {"alloc gives each place once, and refuses when full", alloc_race},
    {"a contended range has one holder", contended_range},
    {"readers see no gap while intervals are replaced", readers_see_no_gap},
    {"freed values are never seen, and freed once", freed_values},
    {"look-ups and trylock in interrupt handlers", interrupts},
    {"all memory was given back", all_given_back},
};

#define RUN(checks, strict) run_checks((checks), sizeof(checks) / sizeof((checks)[0]), (strict))

unsigned conform_run(const struct conform_host *host) {
    __builtin_memset(&self_, 0, sizeof(self_));
    self_.host = host;
    if (host->cpus < 1 || host->cpus > CONFORM_MAX_CPUS) {
        print("conform: 0 passed, 1 failed\n");
        return 1;
    }
    RUN(early_checks, true);
    if (!self_.failed) {
        if (host->allocator_up) host->allocator_up(host->ctx);
        RUN(hook_checks, true);
    }
    if (!self_.failed) RUN(map_checks, false);
    else print("the other checks were not run: they need hooks that keep their contracts\n");
    print("conform: ");
    print_number(self_.passed);
    print(" passed, ");
    print_number(self_.failed);
    print(" failed\n");
    return self_.failed;
}
