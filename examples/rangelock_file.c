/* SPDX-License-Identifier: MIT */
/*
 * Many threads update overlapping records of one file in a shared mapping, under five kinds of lock, and the end state
 * is checked: each update reads a record (32 KiB, an extent), computes an amount from all of it, and moves that
 * amount from each word of its first half to one of its second; so a lost or torn update shows in the sum of the file.
 *
 *     cc -O2 -pthread -I. examples/rangelock_file.c -o rangelock_file && ./rangelock_file
 *
 * Ranges: what `ivskip.h` is for. The record's bytes are locked, nothing else: updates of other records run beside it.
 * Records overlap by a quarter, so that a lock a record would not do.
 */
#define _GNU_SOURCE
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };
enum kind { RANGES, MUTEX, RWLOCK, OFD, KINDS };
static const char *const names[KINDS] = {"range lock", "one mutex", "one rwlock", "kernel OFD locks"};

static struct {
    unsigned records, bytes, updates, threads, readers; /* readers: of 100 operations */
    bool disjoint;
    const char *path;
} options = {512, 32768, 50000, 2, 25, false, NULL};

static uint64_t *file;
static size_t file_bytes, step; /* from record to record */
static struct ivs_range_lock ranges = IVS_RANGE_LOCK_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

struct worker {
    pthread_t thread;
    enum kind kind;
    unsigned me, updates;
    int fd; /* OFD locks belong to an open file, so each thread opens its own */
    uint64_t moved, bad;
};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- the locks */

static int ofd(const struct worker *w, int type, uint64_t start) {
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = (off_t)start, .l_len = options.bytes};
    return fcntl(w->fd, F_OFD_SETLKW, &lock);
}

static void acquire(struct worker *w, struct ivs_range *range, uint64_t start, bool write) {
    switch (w->kind) {
    case RANGES:
        if (ivs_range_lock(&ranges, range, start, start + options.bytes, write ? IVS_EXCLUSIVE : IVS_SHARED))
            die("range lock");
        break;
    case MUTEX: pthread_mutex_lock(&mutex); break;
    case RWLOCK: (void)(write ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock)); break;
    default:
        if (ofd(w, write ? F_WRLCK : F_RDLCK, start)) die("OFD lock");
    }
}

static void release(struct worker *w, struct ivs_range *range, uint64_t start) {
    switch (w->kind) {
    case RANGES: (void)ivs_range_unlock(&ranges, range); break;
    case MUTEX: pthread_mutex_unlock(&mutex); break;
    case RWLOCK: pthread_rwlock_unlock(&rwlock); break;
    default: (void)ofd(w, F_UNLCK, start);
    }
}

/* ---- the job */

static uint64_t digest(const uint64_t *record) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < options.bytes / 8; i++)
        hash = (hash ^ ((const volatile uint64_t *)record)[i]) * 0x100000001b3u;
    return hash;
}

static void update(uint64_t *record) {
    unsigned words = options.bytes / 8;
    uint64_t amount = digest(record);
    for (unsigned i = 0; i < words / 2; i++) {
        record[i] -= amount;
        record[words - 1 - i] += amount;
    }
}

/* A reader computes it twice: nobody may write meanwhile. */
static bool steady(const uint64_t *record) { return digest(record) == digest(record); }

static void *work(void *arg) {
    struct worker *w = arg;
    struct ivs_range range = IVS_RANGE_INIT;
    uint64_t random = 88172645463325252u + w->me * 7919u;
    unsigned part = options.records / options.threads;
    for (unsigned i = 0; i < w->updates; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t pick =
            options.disjoint ? w->me * part + (random >> 20) % (part - 1) : (random >> 20) % options.records;
        uint64_t start = pick * step, *record = file + start / 8;
        bool write = random % 100 >= options.readers;
        acquire(w, &range, start, write);
        if (write) update(record);
        else w->bad += !steady(record);
        release(w, &range, start);
    }
    return NULL;
}

/* Each update gives to the second half what it takes from the first: no part of one may be lost. */
static bool check(uint64_t before) {
    uint64_t sum = 0;
    for (size_t i = 0; i < file_bytes / 8; i++) sum += file[i];
    return sum == before;
}

static uint64_t fill(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < file_bytes / 8; i++) sum += file[i] = i * 0x9e3779b97f4a7c15u;
    return sum;
}

/* Operations a second; negative: the end state is wrong. */
static double run(enum kind kind, unsigned threads, const char *path) {
    static struct worker w[MAX_THREADS];
    uint64_t before = fill(), bad = 0;
    double begin = seconds();
    for (unsigned i = 0; i < threads; i++) {
        w[i] = (struct worker){.kind = kind, .me = i, .updates = options.updates, .fd = -1};
        if (kind == OFD && (w[i].fd = open(path, O_RDWR)) < 0) die(path);
        if (pthread_create(&w[i].thread, NULL, work, &w[i])) die("pthread_create");
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        bad += w[i].bad;
        if (w[i].fd >= 0) close(w[i].fd);
    }
    double rate = (double)threads * options.updates / (seconds() - begin);
    return check(before) && !bad ? rate : -rate;
}

static int usage(FILE *to) {
    fprintf(to,
            "usage: rangelock_file [--records N] [--bytes N] [--updates N] [--threads N] [--readers PERCENT] "
            "[--disjoint] [FILE]\n"
            "\n"
            "  --records N   in the file; 512\n"
            "  --bytes N     of a record, a multiple of 32; each overlaps the next by a quarter; 32768\n"
            "  --updates N   operations of a thread; 50000\n"
            "  --threads N   besides one thread, 1..%d; 2\n"
            "  --readers P   per cent of operations that read; 25\n"
            "  --disjoint    each thread keeps to its own part of the file\n"
            "  FILE          is created and overwritten; default: a temporary one\n"
            "  --help        this\n"
            "\n"
            "Status: 0 the end state was right in every run; 1 it was not; 2 wrong use.\n",
            MAX_THREADS);
    return to == stdout ? 0 : 2;
}

static bool number(const char *text, unsigned low, unsigned high, unsigned *out) {
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || n < low || n > high) return false;
    *out = (unsigned)n;
    return true;
}

static bool parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool ok = true, pair = true;
        if (!strcmp(argv[i], "--records")) ok = number(value, 2 * MAX_THREADS, 1u << 20, &options.records);
        else if (!strcmp(argv[i], "--bytes"))
            ok = number(value, 32, 1u << 24, &options.bytes) && options.bytes % 32 == 0;
        else if (!strcmp(argv[i], "--updates")) ok = number(value, 1, 1000000000, &options.updates);
        else if (!strcmp(argv[i], "--threads")) ok = number(value, 1, MAX_THREADS, &options.threads);
        else if (!strcmp(argv[i], "--readers")) ok = number(value, 0, 100, &options.readers);
        else pair = false;
        if (pair) i++;
        else if (!strcmp(argv[i], "--disjoint")) options.disjoint = true;
        else if (argv[i][0] != '-' && !options.path) options.path = argv[i];
        else ok = false;
        if (!ok) return false;
    }
    return true;
}

static void make_file(char *name, int *fd) {
    *fd = options.path ? open(options.path, O_RDWR | O_CREAT, 0600) : mkstemp(name);
    if (*fd < 0) die(options.path ? options.path : name);
    step = options.bytes / 4 / 8 * 3 * 8;
    file_bytes = options.records * step + options.bytes;
    if (ftruncate(*fd, (off_t)file_bytes)) die("ftruncate");
    file = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (file == MAP_FAILED) die("mmap");
}

int main(int argc, char **argv) {
    char name[] = "/tmp/rangelock_file.XXXXXX";
    const char *path;
    bool good = true;
    int fd;
    if (argc == 2 && !strcmp(argv[1], "--help")) return usage(stdout);
    if (!parse(argc, argv)) return usage(stderr);
    make_file(name, &fd);
    path = options.path ? options.path : name;
    printf("%u records of %u bytes, overlapping by %u; %u %% read; %s\n\n", options.records, options.bytes,
           (unsigned)(options.bytes - step), options.readers,
           options.disjoint ? "each thread in its own part" : "all threads everywhere");
    printf("%-18s %14s %11s %2u %7s  end state\n", "", "1 thread", "", options.threads, "threads");
    for (int kind = 0; kind < KINDS; kind++) {
        double one = run((enum kind)kind, 1, path), many = run((enum kind)kind, options.threads, path);
        bool right = one > 0 && many > 0;
        if (one < 0) one = -one;
        if (many < 0) many = -many;
        printf("%-18s %12.0f/s %16.0f/s %5.2fx  %s\n", names[kind], one, many, many / one, right ? "right" : "WRONG");
        good &= right;
    }
    munmap(file, file_bytes);
    close(fd);
    if (!options.path) unlink(name);
    if (ivs_range_lock_destroy(&ranges)) good = false;
    return good ? 0 : 1;
}
