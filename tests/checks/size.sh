#!/bin/sh
# SPDX-License-Identifier: MIT
# Object text, x86-64, -O2, of a port that uses query, map, lock, swap and unlock: the linker drops the rest. Fails over 12 KiB.
. "$(dirname "$0")/lib.sh"
cd "$OUT"
limit=12288
cat >minimal.c <<'C'
#define IVSKIP_IMPLEMENTATION
#include "ivskip.h"
void start(struct ivs_map *map, struct ivs_lock *lock, struct ivs_node **run);
int sink[8];
void start(struct ivs_map *map, struct ivs_lock *lock, struct ivs_node **run) {
    sink[0] = ivs_map_init(map, NULL);
    sink[1] = ivs_map_map(map, 1, 2, NULL);
    sink[2] = ivs_map_query_rcu(map, 1) != NULL;
    sink[3] = ivs_map_lock(map, 1, 2, lock);
    sink[4] = ivs_map_swap(lock, run, 1);
    sink[5] = ivs_map_unlock(lock);
}
C
for compiler in $COMPILERS; do
    must "$compiler" $compiler -std=c11 $KERNEL_FLAGS -ffunction-sections $PORT -I"$ROOT" -c minimal.c -o minimal.o
    must "link, without what is not used" ld -r --gc-sections -u start -e start minimal.o -o minimal.linked.o
    text=$(size minimal.linked.o | awk 'NR == 2 {print $1}')
    echo "check-text-size: $compiler: query, map, lock, swap, unlock: $text bytes of text (at most $limit); all of the header: $(size minimal.o | awk 'NR == 2 {print $1}')"
    [ "$text" -le "$limit" ] && [ "$text" -gt 1000 ] || { echo "FAIL: text size" >&2; exit 1; }
done
