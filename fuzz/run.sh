#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh TARGET   called by make fuzz: builds the target with libFuzzer and the sanitizers, and runs it for SECONDS_EACH. What it learns is kept in
# build/fuzz/corpus/TARGET; what it finds is kept in build/fuzz/found/TARGET-*.
set -eu
target=$1
. fuzz/lib.sh
build "$target" . "build/fuzz/$target"
mkdir -p "build/fuzz/corpus/$target" build/fuzz/found
log=build/fuzz/$target.log
if ! fuzz "$target" "build/fuzz/$target" "build/fuzz/corpus/$target" "build/fuzz/found/$target-" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz $target: found something, see $log; the input: $(ls -t build/fuzz/found/$target-* | head -n 1)" >&2
    exit 1
fi
awk -v target="$target" '/^stat::number_of_executed_units/ {n = $2} /^stat::average_exec_per_sec/ {speed = $2}
    / cov: / {for (i = 1; i < NF; i++) {if ($i == "cov:") edges = $(i + 1); if ($i == "corp:") corpus = $(i + 1)}}
    END {if (!n) exit 1; printf "fuzz %s: %d executions, %d per second, %d edges, corpus %s: nothing found\n", target, n, speed, edges, corpus}' "$log"
