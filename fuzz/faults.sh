#!/bin/bash
# SPDX-License-Identifier: MIT
# faults.sh TARGET   called by make check-fuzz-faults: plants each fault of fuzz/faults/TARGET-*.patch in a copy of the sources, and the fuzzer must
# find it within SECONDS_EACH, from FAULT_SEEDS: all seeds would find most of them at once. A patch that does not apply is an error.
set -eu
target=$1
. fuzz/lib.sh
found=0
SEEDS=$FAULT_SEEDS
for patch in fuzz/faults/"$target"-*.patch; do
    name=$(basename "$patch" .patch)
    tree=build/fuzz/faults/$name
    rm -rf "$tree"
    mkdir -p "$tree/corpus"
    cp -r ivskip.h ivaddr.h examples tests fuzz "$tree"
    if ! patch -p1 -F0 -s -N -d "$tree" <"$patch"; then
        echo "check-fuzz-faults: $patch does not apply any more" >&2
        exit 1
    fi
    build "$target" "$tree" "$tree/fuzzer"
    begin=$(date +%s%N)
    if fuzz "$target" "$tree/fuzzer" "$tree/corpus" "$tree/" >"$tree/log" 2>&1; then
        echo "check-fuzz-faults: $name was not found in $SECONDS_EACH s" >&2
        exit 1
    fi
    awk -v ns=$(($(date +%s%N) - begin)) -v name="$name" '/^#[0-9]+/ {runs = substr($1, 2)}
        /ERROR: (AddressSanitizer|libFuzzer)|runtime error/ && !how {how = $0; sub(/^.*ERROR: /, "", how); sub(/ on unknown.*| on address.*/, "", how)}
        END {if (!how) exit 1; printf "%s: found after %.1f s, %d runs: %s\n", name, ns / 1e9, runs, how}' "$tree/log"
    found=$((found + 1))
done
[ "$found" -ge 2 ] || { echo "check-fuzz-faults: only $found faults for $target" >&2; exit 1; }
echo "check-fuzz-faults: $target: $found of $found planted faults found within $SECONDS_EACH s each"
