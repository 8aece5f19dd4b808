/* SPDX-License-Identifier: MIT */
/*
 * Range locks beside a mutex, a rwlock, a mutex with a balanced tree of held ranges, and the kernel's OFD locks. Names
 * are WORK/N/PEER: N ranges are held by others meanwhile (disjoint), or it is the number of keys (overlap, mixed, wide).
 * One operation is lock and unlock.
 */
#define _GNU_SOURCE
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum peer { RANGES, TABLE, MUTEX, RWLOCK, TREE, OFD, PEERS };
static const char *const peer_names[PEERS] = {"ivskip", "ivskip-table", "mutex", "rwlock", "mutex+tree", "ofd"};
enum work { SAME, DISJOINT, FRESH, SHARED, EXCLUSIVE, MIXED, WIDE, QUERY, WORKS };
static const char *const work_names[WORKS] = {"same",      "disjoint", "fresh", "shared",
                                              "exclusive", "mixed",    "wide",  "query"};

struct job {
    enum peer peer;
    enum work work;
    unsigned n;
};

static void demand(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "bench/range: %s\n", what);
    abort();
}

/* ---- a mutex and a tree of ranges: a treap by start, each node with the largest end below it */

struct held {
    struct held *left, *right;
    uint64_t start, last, reach, heap;
    bool shared;
};
static pthread_mutex_t tree_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tree_free = PTHREAD_COND_INITIALIZER;
static struct held *tree;

static void reach(struct held *t) {
    t->reach = t->last;
    if (t->left && t->left->reach > t->reach) t->reach = t->left->reach;
    if (t->right && t->right->reach > t->reach) t->reach = t->right->reach;
}

static bool conflicts(const struct held *t, uint64_t start, uint64_t last, bool shared) {
    if (!t || t->reach < start) return false;
    if (conflicts(t->left, start, last, shared)) return true;
    if (t->start > last) return false;
    if (t->last >= start && !(shared && t->shared)) return true;
    return conflicts(t->right, start, last, shared);
}

static bool before(const struct held *a, const struct held *b) {
    return a->start != b->start ? a->start < b->start : a < b;
}

static struct held *add(struct held *t, struct held *h) {
    struct held **side, *up;
    if (!t) return h;
    side = before(h, t) ? &t->left : &t->right;
    up = *side = add(*side, h);
    if (up->heap > t->heap) { /* rotate it up */
        if (side == &t->left) {
            t->left = up->right;
            up->right = t;
        } else {
            t->right = up->left;
            up->left = t;
        }
        reach(t);
        t = up;
    }
    reach(t);
    return t;
}

static struct held *join(struct held *a, struct held *b) {
    if (!a || !b) return a ? a : b;
    if (a->heap > b->heap) {
        a->right = join(a->right, b);
        reach(a);
        return a;
    }
    b->left = join(a, b->left);
    reach(b);
    return b;
}

static struct held *take_out(struct held *t, struct held *h) {
    if (t == h) return join(t->left, t->right);
    if (before(h, t)) t->left = take_out(t->left, h);
    else t->right = take_out(t->right, h);
    reach(t);
    return t;
}

/* ---- the peers */

static struct ivs_range_lock ranges = IVS_RANGE_LOCK_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

struct hand {
    struct ivs_range range;
    struct held held;
    uint64_t random;
    int fd;
};

static uint64_t draw(struct hand *hand) {
    hand->random ^= hand->random << 13;
    hand->random ^= hand->random >> 7;
    hand->random ^= hand->random << 17;
    return hand->random >> 11;
}

static void ofd(int fd, int type, uint64_t start, uint64_t bytes) {
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)start, .l_len = (off_t)bytes};
    demand(fcntl(fd, F_OFD_SETLKW, &lock) == 0, "OFD lock");
}

static void lock(enum peer peer, struct hand *h, uint64_t start, uint64_t bytes, bool shared) {
    switch (peer) {
    case RANGES:
    case TABLE:
        demand(!ivs_range_lock(&ranges, &h->range, start, start + bytes, shared ? IVS_SHARED : IVS_EXCLUSIVE), "range");
        break;
    case MUTEX: pthread_mutex_lock(&mutex); break;
    case RWLOCK: (void)(shared ? pthread_rwlock_rdlock(&rwlock) : pthread_rwlock_wrlock(&rwlock)); break;
    case TREE:
        pthread_mutex_lock(&tree_mutex);
        while (conflicts(tree, start, start + bytes - 1, shared)) pthread_cond_wait(&tree_free, &tree_mutex);
        h->held = (struct held){NULL, NULL, start, start + bytes - 1, start + bytes - 1, draw(h), shared};
        tree = add(tree, &h->held);
        pthread_mutex_unlock(&tree_mutex);
        break;
    default: ofd(h->fd, shared ? F_RDLCK : F_WRLCK, start, bytes);
    }
}

static void unlock(enum peer peer, struct hand *h, uint64_t start, uint64_t bytes) {
    switch (peer) {
    case RANGES:
    case TABLE: (void)ivs_range_unlock(&ranges, &h->range); break;
    case MUTEX: pthread_mutex_unlock(&mutex); break;
    case RWLOCK: pthread_rwlock_unlock(&rwlock); break;
    case TREE:
        pthread_mutex_lock(&tree_mutex);
        tree = take_out(tree, &h->held);
        pthread_cond_broadcast(&tree_free);
        pthread_mutex_unlock(&tree_mutex);
        break;
    default: ofd(h->fd, F_UNLCK, start, bytes);
    }
}

/* ---- the work */

static pthread_mutex_t stage = PTHREAD_MUTEX_INITIALIZER;
static unsigned on_stage;
static struct hand *others;
static char path[] = "/tmp/ivskip-bench-range.XXXXXX";

static void *sleeper(void *arg) { /* so that the C library does not take the program for a single thread's */
    pthread_mutex_lock(arg);
    return NULL;
}

/* The first thread of a benchmark prepares what the others hold meanwhile. */
static void enter(const struct job *job) {
    pthread_mutex_lock(&stage);
    if (on_stage++ == 0) {
        if (job->peer == TABLE || job->work >= SHARED) demand(!ivs_range_lock_prepare(&ranges), "prepare");
        if (job->work == DISJOINT || job->work == QUERY) {
            others = calloc(job->n, sizeof *others);
            demand(others != NULL, "memory");
            for (unsigned i = 0; i < job->n; i++) {
                others[i].random = i * 0x9e3779b97f4a7c15u + 1;
                others[i].fd = i ? others[0].fd : open(path, O_RDWR);
                lock(job->peer, &others[i], 1000 * (uint64_t)i, 500, false);
            }
        }
    }
    pthread_mutex_unlock(&stage);
}

static void leave(const struct job *job) {
    pthread_mutex_lock(&stage);
    if (--on_stage == 0) {
        for (unsigned i = 0; others && i < job->n; i++) unlock(job->peer, &others[i], 1000 * (uint64_t)i, 500);
        if (others) close(others[0].fd);
        free(others);
        others = NULL;
        if (job->peer <= TABLE) demand(!ivs_range_lock_destroy(&ranges), "destroy");
    }
    pthread_mutex_unlock(&stage);
}

static void one(const struct job *job, struct hand *h, int me) {
    uint64_t start = 0, bytes = 100;
    bool shared = false;
    switch (job->work) {
    case SAME: start = 1000000 * (uint64_t)me; break;
    case DISJOINT: start = draw(h) % job->n * 1000 + 500 + 250 * (uint64_t)me; break;
    case FRESH: start = draw(h) >> 1; break;
    case SHARED: start = draw(h) % job->n, shared = true; break;
    case EXCLUSIVE: start = draw(h) % job->n; break;
    case MIXED: start = draw(h) % job->n, shared = draw(h) % 10 != 0; break;
    default: /* WIDE: the first thread wants all */
        shared = me != 0;
        start = shared ? draw(h) % job->n : 0;
        bytes = shared ? 100 : job->n + 100;
    }
    lock(job->peer, h, start, bytes, shared);
    unlock(job->peer, h, start, bytes);
}

static double seconds(void) { return (double)ivs_host_now_() / 1e9; }

static void body(struct bench_state *state, const void *data) {
    const struct job *job = data;
    struct hand hand = {.random = 88172645463325252u + (uint64_t)bench_thread(state) * 7919, .fd = open(path, O_RDWR)};
    enum { BATCH = 256 };
    enter(job);
    while (bench_next(state, BATCH)) {
        double begin = seconds();
        if (job->work == QUERY) {
            struct ivs_map *map = &ivs_table_of_(ranges.root_)->map;
            struct ivs_entry hit;
            for (int i = 0; i < BATCH; i++)
                demand(!ivs_map_lookup(map, draw(&hand) % job->n * 1000 + 100, &hit), "query");
        } else {
            for (int i = 0; i < BATCH; i++) one(job, &hand, bench_thread(state));
        }
        bench_add_seconds(state, seconds() - begin);
    }
    leave(job);
    close(hand.fd);
}

static void add_job(enum work work, unsigned n, enum peer peer, int threads) {
    struct job *job = malloc(sizeof *job);
    char name[64];
    demand(job != NULL, "memory");
    *job = (struct job){peer, work, n};
    snprintf(name, sizeof name, "%s/%u/%s", work_names[work], n, peer_names[peer]);
    bench_register(name, body, job, threads, 0, 0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    int fd = mkstemp(path);
    demand(fd >= 0, path);
    pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&never);
    demand(!pthread_create(&thread, NULL, sleeper, &never), "thread");
    for (int threads = 1; threads <= 2; threads++)
        for (int peer = 0; peer < PEERS; peer++) {
            add_job(SAME, 0, (enum peer)peer, threads);
            if (peer != MUTEX && peer != RWLOCK && peer != RANGES) {
                for (unsigned n = 10; n <= 100000; n *= 10)
                    if (peer != OFD || n <= 1000) add_job(DISJOINT, n, (enum peer)peer, threads);
                add_job(FRESH, 0, (enum peer)peer, threads);
            }
            if (peer == RANGES) continue;
            add_job(SHARED, 10000, (enum peer)peer, threads);
            add_job(EXCLUSIVE, 10000, (enum peer)peer, threads);
            add_job(MIXED, 10000, (enum peer)peer, threads);
            if (threads > 1) add_job(WIDE, 10000, (enum peer)peer, threads);
        }
    for (unsigned n = 10; n <= 100000; n *= 10) add_job(QUERY, n, TABLE, 1);
    int status = bench_run(argc, argv);
    pthread_mutex_unlock(&never);
    pthread_join(thread, NULL);
    close(fd);
    unlink(path);
    return status;
}
