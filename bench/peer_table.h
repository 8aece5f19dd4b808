/* SPDX-License-Identifier: MIT */
/* An interval map of table.h under a pthread rwlock. Entries point to records of the harness's. */
#include "table.h"

#include <pthread.h>

struct peer {
    pthread_rwlock_t lock;
    struct table *table;
    struct bench_record **record;
    size_t n;
    int64_t bytes;
};
#define BENCH_BY_VALUE

static void peer_init(struct peer *p) {
    bench_demand(pthread_rwlock_init(&p->lock, NULL) == 0);
    p->table = TABLE(new)();
}
static void peer_destroy(struct peer *p) {
    TABLE(free)(p->table);
    pthread_rwlock_destroy(&p->lock);
}
static void peer_settle(struct peer *p) { (void)p; }
static void peer_quiesce(struct peer *p) { (void)p; }
static void peer_thread_begin(void) {}
static void peer_thread_end(void) {}

BENCH_ALWAYS void peer_enter(struct peer *p) { pthread_rwlock_rdlock(&p->lock); }
BENCH_ALWAYS void peer_exit(struct peer *p) { pthread_rwlock_unlock(&p->lock); }

BENCH_ALWAYS struct bench_record *peer_find(struct peer *p, uint64_t key) {
    const struct table_entry *entry = TABLE(behind)(p->table, key);
    return entry && entry->start <= key ? entry->record : NULL;
}
BENCH_ALWAYS struct bench_record *peer_find_next(struct peer *p, uint64_t key) {
    const struct table_entry *entry = TABLE(behind)(p->table, key);
    return entry ? entry->record : NULL;
}

#define PEER_EACH(p, key, most, see)                                                                                   \
    do {                                                                                                               \
        const struct table_entry *entry_ = TABLE(behind)((p)->table, (key));                                           \
        for (size_t i_ = 0; entry_ && i_ < (most); i_++, entry_ = TABLE(next)((p)->table, entry_))                     \
            see(entry_->start, entry_->end, entry_->record);                                                           \
    } while (0)

static inline void peer_put(struct peer *p, uint64_t start, uint64_t end, struct bench_record *record) {
    pthread_rwlock_wrlock(&p->lock);
    TABLE(put)(p->table, start, end, record);
    pthread_rwlock_unlock(&p->lock);
}
static inline void peer_map(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    peer_put(p, start, end, p->record[id]);
}
static inline void peer_unmap(struct peer *p, uint64_t start, uint64_t end) { peer_put(p, start, end, NULL); }

/* In place; who holds the write lock may change an entry. */
static inline void peer_change(struct peer *p, uint64_t start, uint64_t end, size_t id) {
    pthread_rwlock_wrlock(&p->lock);
    struct table_entry *entry = (struct table_entry *)(uintptr_t)TABLE(behind)(p->table, start);
    bench_demand(entry && entry->start == start && entry->end == end);
    entry->record = p->record[id];
    pthread_rwlock_unlock(&p->lock);
}

/* Start of the first gap of [lo, hi) that `size` keys fit into, or hi. */
static inline uint64_t peer_gap(const struct table *t, uint64_t lo, uint64_t hi, uint64_t size) {
    const struct table_entry *entry = TABLE(behind)(t, lo);
    while (entry && entry->start < lo + size) {
        lo = entry->end;
        entry = TABLE(next)(t, entry);
    }
    return lo + size <= hi ? lo : hi;
}

static inline bool peer_take(struct peer *p, uint64_t lo, uint64_t hi, uint64_t size, uint64_t hint, size_t id,
                             uint64_t *start) {
    pthread_rwlock_wrlock(&p->lock);
    *start = hint > lo ? peer_gap(p->table, hint, hi, size) : hi;
    if (*start == hi) *start = peer_gap(p->table, lo, hi, size);
    if (*start != hi) TABLE(put)(p->table, *start, *start + size, p->record[id]);
    pthread_rwlock_unlock(&p->lock);
    return *start != hi;
}
