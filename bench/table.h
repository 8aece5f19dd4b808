/* SPDX-License-Identifier: MIT */
/* An interval map without any lock, as rbtree.cc and array.c make it; peer_table.h puts a lock around it. TABLE(x) is
 * rbtree_x or array_x. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "bench.h"

#ifdef __cplusplus
extern "C" {
#endif

struct table;
struct table_entry {
    uint64_t start, end;
    struct bench_record *record;
};

struct table *TABLE(new)(void);
void TABLE(free)(struct table *table);
const struct table_entry *TABLE(behind)(const struct table *table, uint64_t key); /* first that ends behind the key */
const struct table_entry *TABLE(next)(const struct table *table, const struct table_entry *entry);
/* [start, end) has this record, or (NULL) none; what was cut keeps its parts. */
void TABLE(put)(struct table *table, uint64_t start, uint64_t end, struct bench_record *record);

#ifdef __cplusplus
}
#endif
#endif
