# SPDX-License-Identifier: MIT
# Shared by run.sh and faults.sh; both run from the checkout's top, with CLANG, SOURCES, SEEDS, FAULT_SEEDS and SECONDS_EACH set by the Makefile.
[ -e "fuzz/$target.c" ] || { echo "fuzz: there is no target \"$target\"" >&2; exit 1; }

flags=(-std=gnu11 -I. -Itests -pthread -Wall -Wextra -Wno-unused-function -O1 -g -fsanitize=fuzzer,address,undefined
    -fno-sanitize-recover=all)
[ -z "$SOURCES" ] || flags+=('-DIVSKIP_CONFIG="tests/config.h"') # with the tests' allocator

# build TARGET TREE OUTPUT: the target of a source tree
build() {
    local output=$PWD/$3
    mkdir -p "$(dirname "$output")"
    (cd "$2" && "$CLANG" "${flags[@]}" "fuzz/$1.c" $SOURCES -o "$output")
}

# fuzz TARGET BINARY CORPUS PREFIX
fuzz() {
    local dictionary=
    [ ! -e "fuzz/$1.dict" ] || dictionary=-dict=fuzz/$1.dict
    "$2" -max_total_time="$SECONDS_EACH" -timeout=20 -max_len="${MAX_LEN:-4096}" -print_final_stats=1 $dictionary \
        -artifact_prefix="$4" "$3" $SEEDS
}
