#!/bin/sh
# SPDX-License-Identifier: MIT
# With kernel flags and the hooks of a minimal port each header needs nothing but those hooks, memcpy and memset.
. "$(dirname "$0")/lib.sh"
cd "$OUT"
allowed='^(memcpy|memset|port_[a-z_]+)$'

# compiles_to_hooks COMPILER FLAGS...
compiles_to_hooks() {
    compiler=$1
    shift
    case $compiler in clang*) include=$($compiler -print-resource-dir)/include ;; *) include=$($compiler -print-file-name=include) ;; esac
    must "$compiler $*" $compiler -std=c11 $WARN "$@" -nostdinc -isystem "$include" $PORT -I"$ROOT" -c kernel.c -o kernel.o
    needs=$(nm -u kernel.o | awk '{print $2}')
    extra=$(echo "$needs" | grep -vE "$allowed" || true)
    [ -z "$extra" ] || { echo "FAIL: $compiler: the freestanding object needs: $extra" >&2; exit 1; }
    for hook in rcu_enter rcu_exit call_rcu synchronize rcu_barrier random now; do
        echo "$needs" | grep -qx "port_$hook" || { echo "FAIL: hook port_$hook is not used" >&2; exit 1; }
    done
}

# The header in kernel.c, by all compilers. Outline atomics would be calls into the compiler's library, which a kernel does not link.
compiles_everywhere() {
    for compiler in $COMPILERS; do compiles_to_hooks $compiler $KERNEL_FLAGS; done
    compiles_to_hooks $CLANG --target=aarch64-none-elf $ANY_KERNEL_FLAGS -mgeneral-regs-only -mno-outline-atomics
    compiles_to_hooks $CLANG --target=riscv64-none-elf $ANY_KERNEL_FLAGS -march=rv64imac -mabi=lp64 -mcmodel=medany
}

printf '%s\n' '#define IVSKIP_IMPLEMENTATION' '#include "ivskip.h"' >kernel.c
compiles_everywhere
if [ -e "$ROOT/ivaddr.h" ]; then
    printf '%s\n' '#define IVADDR_IMPLEMENTATION' '#include "ivaddr.h"' >kernel.c
    compiles_everywhere
fi
echo "check-freestanding: $checks objects for x86-64, aarch64, riscv64; each needs only $(echo $needs)"
