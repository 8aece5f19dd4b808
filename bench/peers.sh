#!/bin/bash
# SPDX-License-Identifier: MIT
# The targets of the map against its peers.
set -eu -o pipefail
usage="usage: peers.sh PROGRAM DIRECTORY

Runs PROGRAM (build/bench/peers) RUNS times; in each run the peers stand side by side, in every other run in the other
order. Results go to DIRECTORY (run-N.json, results.tsv); the table says for each target the medians, the median of the
ratios within a run, their range, and pass or FAIL. Ends with 1 if a target is missed, with 2 if one could not be measured (no maple tree) or on wrong use.

  RUNS=5          runs
  BENCH_ONLY=re   only benchmarks whose name (WORK/N/ORDER/PEER) matches
  MIN_TIME=0.1    seconds for each benchmark

Only one of these runs at a time on a machine; another one waits for its end."
[ "${1:-}" != --help ] || { echo "$usage"; exit 0; }
[ $# = 2 ] || { echo "$usage" >&2; exit 2; }
main() {
    local program=$1 results=$2 here names filter run
    here=$(dirname "$0")
    exec 9>"${TMPDIR:-/tmp}/ivskip-bench.$(id -u).lock"
    flock -n 9 || { echo "another benchmark runs: waiting" >&2; flock 9; }
    mkdir -p "$results"
    rm -f "$results"/run-*.json

    # What the targets name, and no more.
    names=$(awk -F ' *[|] *' '!/^#/ && NF == 6 {print $2; print $3}' "$here/targets.txt" | sed 's/[@:].*//' | sort -u)
    [ -z "${BENCH_ONLY:-}" ] || names=$(grep -E -- "$BENCH_ONLY" <<<"$names") ||
        { echo "no target matches $BENCH_ONLY" >&2; exit 2; }
    filter="^($(paste -sd '|' <<<"$names"))/"

    echo "load before: $(cut -d ' ' -f 1-3 /proc/loadavg) on $(nproc) cores"
    for ((run = 1; run <= ${RUNS:-5}; run++)); do
        echo "run $run of ${RUNS:-5}" >&2
        "$program" $( ((run % 2)) || echo --reverse) --benchmark_filter="$filter" --benchmark_min_time="${MIN_TIME:-0.1}" \
            --benchmark_out="$results/run-$run.json" --benchmark_out_format=json >"$results/run-$run.txt" 2>&1 ||
            { tail -n 5 "$results/run-$run.txt" >&2; exit 2; }
    done
    "$here/flatten.sh" "$results"/run-*.json >"$results/results.tsv"
    awk -v partial="${BENCH_ONLY:+1}" -f "$here/targets.awk" "$here/targets.txt" "$results/results.tsv"
}
main "$@"; exit # read whole before it runs, so that it may be edited meanwhile
