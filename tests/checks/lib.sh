# SPDX-License-Identifier: MIT
# Shared by the checks. ROOT is the checkout (or a copy of it, see selftest.sh), OUT a directory for what is built; CLANG and COMPILERS may be set by the caller.
set -eu
ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
OUT=${OUT:-$ROOT/build/checks}
CLANG=${CLANG:-clang-19}
COMPILERS=${COMPILERS:-gcc clang-14 $CLANG}
mkdir -p "$OUT"
PORT='-DIVSKIP_RCU=HOST -DIVSKIP_CONFIG="tests/checks/port.h"'
ANY_KERNEL_FLAGS='-O2 -ffreestanding -fno-pie -fno-stack-protector'
KERNEL_FLAGS="$ANY_KERNEL_FLAGS -mno-red-zone -mgeneral-regs-only -mcmodel=kernel"
WARN='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Werror'
checks=0

# must WHAT COMMAND...: the command succeeds. mustnot WHAT COMMAND...: it fails.
must() {
    what=$1
    shift
    checks=$((checks + 1))
    if ! "$@" >"$OUT/log" 2>&1; then
        echo "FAIL: $what" >&2
        cat "$OUT/log" >&2
        exit 1
    fi
}
mustnot() {
    what=$1
    shift
    checks=$((checks + 1))
    if "$@" >"$OUT/log" 2>&1; then
        echo "FAIL: $what" >&2
        exit 1
    fi
}
