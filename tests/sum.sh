#!/bin/bash
# SPDX-License-Identifier: MIT
# sum.sh COMMAND...   runs test binaries, each argument one command line; the last line is "N passed, N failed" over all of them.
# A binary without a closing line, with no test, or with an exit status that does not fit its closing line counts as a failure.
set -u
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for command in "$@"; do
    bash -c "$command" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    # Criterion: [====] Synthesis: Tested: 3 | Passing: 2 | Failing: 1 | Crashing: 0
    read -r good bad < <(sed -E 's/\x1b\[[0-9;]*m//g' "$log" | awk '
        /^[0-9]+ passed, [0-9]+ failed$/ { good = $1; bad = $3; found = 1 }
        /Synthesis: Tested: / {
            match($0, /Tested: [0-9]+/); bad = substr($0, RSTART + 8, RLENGTH - 8)
            match($0, /Passing: [0-9]+/); good = substr($0, RSTART + 9, RLENGTH - 9)
            bad -= good
            found = 1
        }
        END { if (found) print good + 0, bad + 0; else print "none", 0 }')
    if [ "$good" = none ]; then
        echo "FAIL: no closing line from: $command (status $status)"
        good=0 bad=1
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        echo "FAIL: status $status from: $command"
        bad=1
    elif [ "$good" -eq 0 ] && [ "$bad" -eq 0 ]; then
        echo "FAIL: no test ran in: $command"
        bad=1
    fi
    echo "=== $good passed, $bad failed in: ${command%% *}"
    passed=$((passed + good))
    failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
