#!/bin/sh
# SPDX-License-Identifier: MIT
# With kernel flags and the hooks of a minimal port the header needs nothing but those hooks, memcpy and memset.
. "$(dirname "$0")/lib.sh"
cd "$OUT"
printf '%s\n' '#define IVSKIP_IMPLEMENTATION' '#include "ivskip.h"' >kernel.c
allowed='^(memcpy|memset|port_[a-z_]+)$'
for compiler in gcc "$CLANG"; do
    must "$compiler with kernel flags" $compiler -std=c11 $WARN $KERNEL_FLAGS -nostdinc -isystem "$($compiler -print-file-name=include)" \
        $PORT -I"$ROOT" -c kernel.c -o kernel.o
    needs=$(nm -u kernel.o | awk '{print $2}')
    extra=$(echo "$needs" | grep -vE "$allowed" || true)
    [ -z "$extra" ] || { echo "FAIL: $compiler: the freestanding object needs: $extra" >&2; exit 1; }
    for hook in rcu_enter rcu_exit call_rcu synchronize rcu_barrier random now; do
        echo "$needs" | grep -qx "port_$hook" || { echo "FAIL: hook port_$hook is not used" >&2; exit 1; }
    done
done
echo "check-freestanding: needs only $(echo $needs)"
