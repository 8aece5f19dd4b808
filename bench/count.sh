#!/bin/bash
# SPDX-License-Identifier: MIT
# Instructions of one operation, counted by callgrind: the same on a busy machine, but blind to misses.
set -eu -o pipefail
usage="usage: count.sh PROGRAM DIRECTORY

A table of instructions for each operation, thread's own only (what a call_rcu thread does is not in it).

  BENCH_ONLY=re   only benchmarks whose name (WORK/N/ORDER) matches
  COUNT_N='1000 65000'
  COUNT_PEERS='ivskip ivskip-builtin maple'"
[ "${1:-}" != --help ] || { echo "$usage"; exit 0; }
[ $# = 2 ] || { echo "$usage" >&2; exit 2; }
program=$1 out=$2
read -ra peers <<<"${COUNT_PEERS:-ivskip ivskip-builtin maple}"
[[ $program != */own ]] || peers=(ivskip ivskip-builtin)
works="find-uniform find-field-uniform find-field-repeats split-merge unmap-map change
    alloc-empty alloc-full alloc-hole-hint"
ops=4096
mkdir -p "$out"

count() {
    local file="$out/callgrind.$(tr / - <<<"$1")"
    env -i PATH="$PATH" LC_ALL=C valgrind --tool=callgrind --collect-atstart=no --callgrind-out-file="$file" \
        "$program" --benchmark_filter="^$1/iterations:$ops/manual_time/threads:1\$" --iterations=$ops \
        >"$file.log" 2>&1 || { tail -n 5 "$file.log" >&2; exit 2; }
    awk -v ops=$ops '/^(totals|summary):/ {printf "%.1f", $2 / ops; exit}' "$file"
}

printf '%-36s' 'instructions an operation'
printf '%16s' "${peers[@]}"
echo
for n in ${COUNT_N:-1000 65000}; do
    for work in $works; do
        name="$work/$n/shuffled"
        [[ $name =~ ${BENCH_ONLY:-.} ]] || continue
        printf '%-36s' "$name"
        for peer in "${peers[@]}"; do printf '%16s' "$(count "$name/$peer")"; done
        echo
    done
done
