/* SPDX-License-Identifier: MIT */
/* Domains, grace periods, fork, and what can be seen from outside: dump and statistics. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- fork: the child inherits links that a thread locked that it does not have (DESIGN, counter-example e) */

#if RCU_FORKS_WITH_THREADS

struct holder {
    struct ivs_map *map;
    pthread_barrier_t held, let_go;
    bool in_section;
};

static void *hold_a_range(void *arg) {
    struct holder *holder = arg;
    struct ivs_lock lock;
    CHECK(!ivs_map_lock(holder->map, 200, 600, &lock), "lock");
    if (holder->in_section) ivs_map_read_enter(holder->map);
    pthread_barrier_wait(&holder->held);
    pthread_barrier_wait(&holder->let_go);
    if (holder->in_section) ivs_map_read_exit(holder->map);
    CHECK(!ivs_map_unlock(&lock), "unlock");
    return NULL;
}

/* What the child finds, as an exit status; 0: all is well. No CHECK here: the child says nothing but its status. */
static int child_uses_the_map(struct ivs_map *map, struct ivs_domain *shared) {
    struct ivs_entry entry;
    struct ivs_lock lock;
    struct ivs_domain_stats stats;
    if (shared && ivs_domain_reset_after_fork(shared)) return 1;
    if (ivs_map_reset_after_fork(map)) return 2;
    if (ivs_map_validate(map, NULL)) return 3;
    for (uint64_t key = 0; key < 1000; key += 100) {
        if (ivs_map_lookup(map, key + 5, &entry)) return 4;
        if (entry.start != key || entry.end != key + 50 || entry.value != as_value(key)) return 5;
    }
    if (ivs_map_trylock(map, 0, 0, &lock)) return 6;
    if (lock.count != 10 || ivs_map_unlock(&lock)) return 7;
    if (ivs_map_map(map, 220, 540, as_value(1))) return 8;
    if (ivs_map_unmap(map, 700, 800)) return 9;
    if (ivs_map_lookup(map, 530, &entry) || entry.value != as_value(1)) return 10;
    if (ivs_map_lookup(map, 720, &entry) != IVS_ENOENT) return 11;
    for (int i = 0; i < 200; i++)
        if (ivs_map_map(map, 220, 540, as_value(1))) return 12;
    release_all(ivs_map_domain(map));
    if (ivs_domain_get_stats(ivs_map_domain(map), &stats) || stats.limbo || stats.readers) return 13;
    if (ivs_map_validate(map, NULL)) return 14;
    if (ivs_map_destroy(map)) return 15;
    if (shared && ivs_domain_destroy(shared)) return 16;
    return 0;
}

static int wait_for_child(pid_t child) {
    int status = 0;
    if (!CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or wait")) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void fork_while_held(bool share, bool in_section) {
    struct ivs_domain domain;
    struct ivs_map_config config = {0};
    struct ivs_map map;
    struct holder holder = {&map, {{0}}, {{0}}, in_section};
    pthread_t thread;
    if (share && !CHECK(!ivs_domain_init(&domain, NULL), "domain")) return;
    config.domain = share ? &domain : NULL;
    if (!CHECK(!ivs_map_init(&map, &config), "init")) return;
    for (uint64_t key = 0; key < 1000; key += 100) CHECK(!ivs_map_map(&map, key, key + 50, as_value(key)), "map");
    pthread_barrier_init(&holder.held, NULL, 2);
    pthread_barrier_init(&holder.let_go, NULL, 2);
    if (!CHECK(!pthread_create(&thread, NULL, hold_a_range, &holder), "thread")) return;
    pthread_barrier_wait(&holder.held);
    fflush(NULL);
    pid_t child = rcu_fork();
    if (child == 0) {
        alarm(60);
        _exit(child_uses_the_map(&map, share ? &domain : NULL));
    }
    int status = wait_for_child(child);
    CHECK(status == 0, "the child failed at step %d", status);
    pthread_barrier_wait(&holder.let_go);
    pthread_join(thread, NULL);
    map_is_valid(&map, "in the parent");
    CHECK(!ivs_map_destroy(&map), "destroy");
    if (share) CHECK(!ivs_domain_destroy(&domain), "destroy domain");
    pthread_barrier_destroy(&holder.held);
    pthread_barrier_destroy(&holder.let_go);
}

TEST(lifetime, a_forked_child_uses_a_map_with_ranges_that_were_held) { fork_while_held(false, false); }
TEST(lifetime, a_forked_child_forgets_readers_of_the_parent) { fork_while_held(false, true); }
TEST(lifetime, a_forked_child_resets_a_shared_domain) { fork_while_held(true, true); }

#endif

#if RCU_FORKS_AT_ANY_TIME

struct busy {
    struct ivs_map *map;
    atomic_bool *over;
    unsigned id;
};

/* Overwrites and splits keys 1000 and above, which all hold the same value. */
static void *update_until_over(void *arg) {
    struct busy *busy = arg;
    struct rng rng = rng_make(test_seed(), busy->id);
    while (!atomic_load(busy->over)) {
        uint64_t start = 1000 + rng_below(&rng, 500), end = start + 1 + rng_below(&rng, 100);
        CHECK(!ivs_map_map(busy->map, start, end, as_value(1)), "map");
        ivs_map_read_enter(busy->map);
        CHECK(ivs_map_query_rcu(busy->map, start), "query");
        ivs_map_read_exit(busy->map);
    }
    return NULL;
}

static void *tune_until_over(void *arg) {
    struct busy *busy = arg;
    while (!atomic_load(busy->over)) CHECK(!ivs_map_tune(busy->map), "tune");
    return NULL;
}

static int child_amid_updates(struct ivs_map *map) {
    struct ivs_entry entry;
    if (ivs_map_reset_after_fork(map)) return 1;
    if (ivs_map_validate(map, NULL)) return 2;
    for (uint64_t key = 1000; key < 1600; key = entry.end) { /* covered from end to end, as at every instant */
        if (ivs_map_lookup(map, key, &entry)) return 3;
        if (entry.value != as_value(1) || entry.end <= key) return 4;
    }
    for (uint64_t key = 1000; key < 1600; key += 7)
        if (ivs_map_map(map, key, key + 5, as_value(2))) return 5;
    if (ivs_map_validate(map, NULL)) return 6;
    if (ivs_map_tune(map)) return 8; /* whoever was at it in the parent */
    return ivs_map_destroy(map) ? 7 : 0;
}

TEST(lifetime, a_child_forked_amid_updates_finds_a_whole_map) {
    struct busy busy[4];
    pthread_t threads[4];
    atomic_bool over = false;
    struct ivs_map map;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return;
    CHECK(!ivs_map_map(&map, 1000, 1600, as_value(1)), "map");
    for (unsigned i = 0; i < 4; i++) {
        struct busy one = {&map, &over, i};
        busy[i] = one;
        if (!CHECK(!pthread_create(&threads[i], NULL, i < 3 ? update_until_over : tune_until_over, &busy[i]), "thread"))
            return;
    }
    for (unsigned i = 0; i < test_scale(50) && !test_failed(); i++) {
        sleep_ns(1000000 + i * 10000);
        fflush(NULL);
        pid_t child = rcu_fork();
        if (child == 0) {
            alarm(60);
            _exit(child_amid_updates(&map));
        }
        int status = wait_for_child(child);
        CHECK(status == 0, "child %u failed at step %d", i, status);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    map_is_valid(&map, "in the parent");
    CHECK(!ivs_map_destroy(&map), "destroy");
}

#endif

/* ---- many domains at one address, used by threads that live longer than each */

#define GUESTS 3

static struct {
    union {
        struct ivs_map map;
        unsigned char bytes[sizeof(struct ivs_map)];
    } place;
    pthread_barrier_t open, closed;
    unsigned rounds;
} inn;

static void *use_each_domain(void *arg) {
    unsigned id = *(unsigned *)arg;
    for (unsigned round = 0; round < inn.rounds; round++) {
        pthread_barrier_wait(&inn.open);
        for (uint64_t i = 0; i < 20; i++) {
            struct ivs_entry entry;
            uint64_t key = id * 1000 + i * 10;
            CHECK(!ivs_map_map(&inn.place.map, key, key + 15, as_value(round + 1)), "map");
            CHECK(!ivs_map_lookup(&inn.place.map, key, &entry) && entry.value == as_value(round + 1), "lookup");
        }
        pthread_barrier_wait(&inn.closed);
    }
    return NULL;
}

static void many_domains_at_one_address(void) {
    unsigned ids[GUESTS];
    pthread_t threads[GUESTS];
    struct ledger ledger;
    long host_before = test_host_live();
    ledger_make(&ledger);
    inn.rounds = test_scale(400);
    pthread_barrier_init(&inn.open, NULL, GUESTS + 1);
    pthread_barrier_init(&inn.closed, NULL, GUESTS + 1);
    for (unsigned i = 0; i < GUESTS; i++) {
        ids[i] = i;
        if (!CHECK(!pthread_create(&threads[i], NULL, use_each_domain, &ids[i]), "thread")) return;
    }
    for (unsigned round = 0; round < inn.rounds; round++) {
        memset(inn.place.bytes, 0xa5, sizeof inn.place.bytes);
        CHECK(!ledger_map(&inn.place.map, &ledger, 0), "init");
        pthread_barrier_wait(&inn.open);
        pthread_barrier_wait(&inn.closed);
        map_is_valid(&inn.place.map, "end of a round");
        CHECK(!ivs_map_destroy(&inn.place.map), "destroy");
        CHECK(atomic_load(&ledger.live) == 0, "round %u: %ld blocks leaked", round, atomic_load(&ledger.live));
        CHECK(test_host_live() <= host_before + 2 * (GUESTS + 1), "%ld host blocks, before %ld", test_host_live(),
              host_before);
    }
    for (unsigned i = 0; i < GUESTS; i++) pthread_join(threads[i], NULL);
    CHECK(test_host_live() <= host_before + 1, "%ld host blocks, before %ld", test_host_live(), host_before);
    pthread_barrier_destroy(&inn.open);
    pthread_barrier_destroy(&inn.closed);
}

TEST(lifetime, long_lived_threads_use_many_domains_at_the_same_address) { many_domains_at_one_address(); }

TEST(lifetime, domains_made_within_one_tick_of_the_clock_are_told_apart) {
    test_host_stop_clock(true);
    many_domains_at_one_address();
    test_host_stop_clock(false);
}

/* ---- a domain shared by two maps */

struct sharer {
    struct ivs_map *map;
    unsigned steps;
    struct rng rng;
};

static void *use_the_other_map(void *arg) {
    struct sharer *sharer = arg;
    for (unsigned i = 0; i < sharer->steps && !test_failed(); i++) {
        uint64_t key = rng_below(&sharer->rng, 1000);
        struct ivs_entry entry;
        CHECK(!ivs_map_map(sharer->map, key, key + 20, as_value(7)), "map");
        CHECK(!ivs_map_lookup(sharer->map, key, &entry) || entry.value == as_value(7), "lookup");
        if (i % 4 == 0) CHECK(!ivs_map_unmap(sharer->map, key, key + 100), "unmap");
    }
    return NULL;
}

TEST(lifetime, maps_of_a_shared_domain_come_and_go_while_another_works) {
    struct ledger ledger;
    struct ivs_domain domain;
    struct ivs_map steady, brief;
    struct ivs_domain_config domain_config = {&ledger_ops, &ledger, 0, test_seed()};
    struct ivs_map_config config = {0};
    struct sharer sharers[2];
    pthread_t threads[2];
    ledger_make(&ledger);
    config.domain = &domain;
    if (!CHECK(!ivs_domain_init(&domain, &domain_config), "domain")) return;
    if (!CHECK(!ivs_map_init(&steady, &config), "init")) return;
    CHECK(ivs_map_domain(&steady) == &domain, "the map's domain");
    for (unsigned i = 0; i < 2; i++) {
        struct sharer sharer = {&steady, test_scale(50000), rng_make(test_seed(), i)};
        sharers[i] = sharer;
        if (!CHECK(!pthread_create(&threads[i], NULL, use_the_other_map, &sharers[i]), "thread")) return;
    }
    for (unsigned round = 0; round < test_scale(200); round++) {
        CHECK(!ivs_map_init(&brief, &config), "init");
        for (uint64_t key = 0; key < 50; key++) CHECK(!ivs_map_map(&brief, key * 3, key * 3 + 4, NULL), "map");
        map_is_valid(&brief, "the map that goes");
        CHECK(!ivs_map_destroy(&brief), "destroy");
    }
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    map_is_valid(&steady, "the map that stays");
    CHECK(!ivs_map_destroy(&steady), "destroy");
    CHECK(!ivs_domain_destroy(&domain), "destroy domain");
    CHECK(atomic_load(&ledger.live) == 0, "%ld blocks leaked", atomic_load(&ledger.live));
}

/* ---- defer and synchronize */

struct watched {
    struct ivs_defer defer; /* first: the callback casts */
    struct ivs_domain *domain;
    atomic_uint inside; /* readers that may know it */
    atomic_uint ran;
};

struct visitor {
    struct watched *watched;
    pthread_barrier_t *entered, *leave;
};

static void *stay_inside(void *arg) {
    struct visitor *visitor = arg;
    ivs_domain_read_enter(visitor->watched->domain);
    atomic_fetch_add(&visitor->watched->inside, 1);
    pthread_barrier_wait(visitor->entered);
    pthread_barrier_wait(visitor->leave);
    sleep_ns(2000000);
    atomic_fetch_sub(&visitor->watched->inside, 1);
    ivs_domain_read_exit(visitor->watched->domain);
    return NULL;
}

static void deferred(struct ivs_defer *defer) {
    struct watched *watched = (struct watched *)defer;
    CHECK(atomic_load(&watched->inside) == 0, "a callback ran under %u readers", atomic_load(&watched->inside));
    atomic_fetch_add(&watched->ran, 1);
}

TEST(lifetime, deferred_callbacks_and_synchronize_wait_for_the_readers_of_now) {
    struct ivs_domain domain;
    struct watched watched;
    pthread_barrier_t entered, leave;
    struct visitor visitor = {&watched, &entered, &leave};
    pthread_t thread;
    if (!CHECK(!ivs_domain_init(&domain, NULL), "domain")) return;
    pthread_barrier_init(&entered, NULL, 2);
    pthread_barrier_init(&leave, NULL, 2);
    for (unsigned round = 0; round < test_scale(20); round++) {
        memset(&watched, 0, sizeof watched);
        watched.domain = &domain;
        if (!CHECK(!pthread_create(&thread, NULL, stay_inside, &visitor), "thread")) return;
        pthread_barrier_wait(&entered);
        CHECK(!ivs_domain_defer(&domain, &watched.defer, deferred), "defer");
        for (int i = 0; i < 10; i++) ivs_domain_reclaim(&domain);
        CHECK(atomic_load(&watched.ran) == 0, "a callback ran before its grace period");
        pthread_barrier_wait(&leave);
        CHECK(!ivs_domain_synchronize(&domain), "synchronize");
        CHECK(atomic_load(&watched.inside) == 0, "synchronize returned under a reader");
        pthread_join(thread, NULL);
        release_all(&domain);
        CHECK(atomic_load(&watched.ran) == 1, "the callback ran %u times", atomic_load(&watched.ran));
    }
    pthread_barrier_destroy(&entered);
    pthread_barrier_destroy(&leave);
    CHECK(!ivs_domain_destroy(&domain), "destroy");
}

TEST(lifetime, the_end_of_a_domain_runs_what_was_deferred) {
    struct ivs_domain domain;
    struct watched watched;
    memset(&watched, 0, sizeof watched);
    if (!CHECK(!ivs_domain_init(&domain, NULL), "domain")) return;
    CHECK(!ivs_domain_defer(&domain, &watched.defer, deferred), "defer");
    if (RCU_TELLS_SECTIONS) {
        ivs_domain_read_enter(&domain);
        CHECK(ivs_domain_destroy(&domain) == IVS_EBUSY, "destroy under a reader");
        ivs_domain_read_exit(&domain);
    }
    CHECK(!ivs_domain_destroy(&domain), "destroy");
    CHECK(atomic_load(&watched.ran) == 1, "ran %u times", atomic_load(&watched.ran));
}

TEST(lifetime, barrier_returns_when_what_was_retired_before_is_released) {
    struct ledger ledger;
    struct ivs_map map;
    struct watched watched;
    memset(&watched, 0, sizeof watched);
    ledger_make(&ledger);
    if (!CHECK(!ledger_map(&map, &ledger, 0), "init")) return;
    struct ivs_domain *domain = ivs_map_domain(&map);
    for (long round = 1; round <= (long)test_scale(20); round++) {
        CHECK(!ivs_map_map(&map, 0, 10, as_value(1)), "map");
        CHECK(!ivs_map_unmap(&map, 0, 10), "unmap");
        CHECK(!ivs_domain_defer(domain, &watched.defer, deferred), "defer");
        CHECK(!ivs_domain_barrier(domain), "barrier");
        CHECK(atomic_load(&ledger.released) == round, "%ld released of %ld", atomic_load(&ledger.released), round);
        CHECK(atomic_load(&watched.ran) == round, "the callback ran %u times of %ld", atomic_load(&watched.ran), round);
        CHECK(atomic_load(&ledger.live) == 0, "%ld blocks", atomic_load(&ledger.live));
    }
    CHECK(!ivs_map_destroy(&map), "destroy");
}

/* An object that is published, replaced, and freed by defer; readers check that it is alive. */
struct published {
    struct ivs_defer defer;
    atomic_uint alive;
};

struct publishing {
    struct ivs_domain domain;
    _Atomic(struct published *) current;
    atomic_bool over;
};

static void bury(struct ivs_defer *defer) {
    struct published *published = (struct published *)defer;
    atomic_store(&published->alive, 0xdead);
    free(published);
}

static void *read_the_published(void *arg) {
    struct publishing *publishing = arg;
    while (!atomic_load(&publishing->over) && !test_failed()) {
        ivs_domain_read_enter(&publishing->domain);
        struct published *published = atomic_load(&publishing->current);
        for (int i = 0; i < 20; i++)
            CHECK(atomic_load(&published->alive) == 1, "read of a freed object: %#x", atomic_load(&published->alive));
        ivs_domain_read_exit(&publishing->domain);
    }
    return NULL;
}

static struct published *publish_new(void) {
    struct published *published = calloc(1, sizeof *published);
    if (!published) abort();
    atomic_store(&published->alive, 1);
    return published;
}

TEST(lifetime, readers_never_meet_an_object_that_was_freed_by_defer) {
    struct publishing publishing;
    pthread_t threads[2];
    memset(&publishing, 0, sizeof publishing);
    if (!CHECK(!ivs_domain_init(&publishing.domain, NULL), "domain")) return;
    atomic_store(&publishing.current, publish_new());
    for (int i = 0; i < 2; i++)
        if (!CHECK(!pthread_create(&threads[i], NULL, read_the_published, &publishing), "thread")) return;
    for (unsigned i = 0; i < test_scale(100000); i++) {
        struct published *old = atomic_exchange(&publishing.current, publish_new());
        if (i % 1000 == 0) {
            CHECK(!ivs_domain_synchronize(&publishing.domain), "synchronize");
            bury(&old->defer);
        } else {
            CHECK(!ivs_domain_defer(&publishing.domain, &old->defer, bury), "defer");
        }
    }
    atomic_store(&publishing.over, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(!ivs_domain_destroy(&publishing.domain), "destroy");
    free(atomic_load(&publishing.current));
}

/* ---- dump and statistics */

struct page {
    char text[1 << 16];
    size_t length;
};

static void put_on_page(void *ctx, const char *text) {
    struct page *page = ctx;
    size_t length = strlen(text);
    if (!CHECK(page->length + length < sizeof page->text, "the dump is too long")) return;
    memcpy(page->text + page->length, text, length + 1);
    page->length += length;
}

static bool dump_map(struct page *page, enum ivs_dump_format format) {
    struct ivs_map map;
    page->length = 0;
    page->text[0] = 0;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return false;
    for (uint64_t key = 0x1000; key < 0x9000; key += 0x1000)
        CHECK(!ivs_map_map(&map, key, key + 0x800, as_value(key)), "map");
    CHECK(!ivs_map_map(&map, UINT64_MAX, 0, NULL), "map");
    CHECK(!ivs_map_dump(&map, format, put_on_page, page), "dump");
    CHECK(!ivs_map_destroy(&map), "destroy");
    return !test_failed();
}

static size_t count_lines_with(const char *text, const char *word) {
    size_t count = 0;
    for (const char *line = text; line && *line;) {
        const char *end = strchr(line, '\n'), *hit = strstr(line, word);
        count += hit && (!end || hit < end);
        line = end ? end + 1 : NULL;
    }
    return count;
}

TEST(lifetime, the_text_dump_has_a_line_for_each_node) {
    static struct page page;
    if (!dump_map(&page, IVS_DUMP_TEXT)) return;
    for (uint64_t key = 0x1000; key < 0x9000; key += 0x1000) {
        char start[32];
        snprintf(start, sizeof start, "%llx", (unsigned long long)key);
        CHECK(count_lines_with(page.text, start) >= 1, "no line with %s in:\n%s", start, page.text);
    }
    CHECK(count_lines_with(page.text, "ffffffffffffffff") == 1, "no line of the last key in:\n%s", page.text);
}

/* Brackets and quotes balance, statements sit inside one digraph: what Graphviz asks at least. */
static void check_dot(const char *text) {
    int braces = 0, brackets = 0;
    bool quoted = false, closed = false;
    CHECK(!strncmp(text, "digraph", 7), "begins with \"%.20s\"", text);
    for (const char *p = text; *p; p++) {
        if (*p == '"' && (p == text || p[-1] != '\\')) quoted = !quoted;
        if (quoted) {
            CHECK(*p != '\n', "a string goes over the end of its line");
            continue;
        }
        braces += (*p == '{') - (*p == '}');
        brackets += (*p == '[') - (*p == ']');
        CHECK(braces >= 0 && brackets >= 0 && brackets <= 1, "brackets at \"%.20s\"", p);
        CHECK(!closed || *p == '\n', "text after the end: \"%.20s\"", p);
        closed |= *p == '}' && braces == 0;
        CHECK(*p != ';' || braces > 0, "a statement outside the graph");
    }
    CHECK(closed && !quoted && braces == 0 && brackets == 0, "unbalanced: %d %d", braces, brackets);
}

TEST(lifetime, the_dot_dump_is_a_graph) {
    static struct page page;
    if (!dump_map(&page, IVS_DUMP_DOT)) return;
    check_dot(page.text);
    CHECK(count_lines_with(page.text, "->") >= 9, "%zu lines with edges", count_lines_with(page.text, "->"));
    CHECK(strstr(page.text, "1000") != NULL, "no node of key 0x1000");
}

TEST(lifetime, an_average_node_of_100000_takes_at_most_64_bytes) {
    enum { NODES = 100000 };
    struct ivs_map map;
    struct ivs_map_stats stats;
    if (!CHECK(!ivs_map_init(&map, NULL), "init")) return;
    for (uint64_t i = 0; i < NODES; i++) {
        uint64_t key = (i * 48271 % NODES) * 10; /* shuffled */
        CHECK(!ivs_map_insert(&map, key, key + 7, NULL), "insert");
    }
    CHECK(!ivs_map_get_stats(&map, &stats), "stats");
    CHECK(stats.nodes == NODES && stats.keys == 7 * NODES, "%zu nodes", stats.nodes);
    double average = (double)stats.node_bytes / (double)stats.nodes;
    printf("     average node: %.1f bytes, %.2f links, highest tower %u\n", average,
           (double)stats.links / (double)stats.nodes, stats.height);
    CHECK(average <= 64 && average >= 24, "%.1f bytes", average);
    map_is_valid(&map, "100,000 nodes");
    CHECK(!ivs_map_destroy(&map), "destroy");
}
