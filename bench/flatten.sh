#!/bin/bash
# SPDX-License-Identifier: MIT
# flatten.sh RUN.json...   Google Benchmark's JSON as lines: run, work, n, order, peer, threads, metric, value
set -eu
run=0
for file in "$@"; do
    run=$((run + 1))
    jq -r --arg run "$run" '.benchmarks[] | select(.run_type == "iteration") | (.name | split("/")) as $name |
        ({ns: .real_time} + with_entries(select((.value | type) == "number" and (.key | IN("family_index",
            "per_family_instance_index", "repetitions", "repetition_index", "threads", "iterations", "real_time",
            "cpu_time") | not)))) as $values | .threads as $threads | $values | to_entries[] |
        [$run, $name[0], $name[1], $name[2], $name[3], $threads, .key, .value] | @tsv' "$file"
done
