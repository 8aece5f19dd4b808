#!/bin/bash
# SPDX-License-Identifier: MIT
# ports.sh   tests `make lab-port`: a copy of lab_port.h somewhere else passes, and copies with a planted fault are seen.
set -u
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# one NAME VERDICT FLAGS SED: the port changed by SED; VERDICT: what the lab must say, empty: that all is well
one() {
    sed "$4" tests/lab/lab_port.h >"$work/port.h"
    [ -z "$2" ] || ! cmp -s tests/lab/lab_port.h "$work/port.h" || echo "ports.sh: nothing changed: $1"
    make -s lab-port LAB_PORT="$work/port.h" LAB_FLAGS="--stop $3" >"$work/log" 2>&1
    if { [ -z "$2" ] && tail -1 "$work/log" | grep -q ' 0 failed'; } ||
        { [ -n "$2" ] && grep -A1 '^FAIL' "$work/log" | grep -qE "$2"; }; then
        passed=$((passed + 1))
        echo "ok   port: $1"
    else
        failed=$((failed + 1))
        echo "FAIL port: $1: $(grep -A1 -m1 '^FAIL\|error' "$work/log" | tr '\n' ' ')"
    fi
}

one "a copy" "" "--modes pct,weak --only section" ""
one "sections that nobody sees" "free|race" "--modes sc" \
    's/lab_rcu_enter()/(void)0/; s/lab_rcu_exit()/(void)0/'
one "synchronize comes back at once" "race" "--only synchronize" 's/lab_rcu_synchronize()/(void)0/'
one "a wake that does nothing" "sleeps for ever|no progress" "--modes sc" \
    's/^#endif/#define IVSKIP_HOST_PARK(word, ticket, until) lab_park(word, ticket, until)\n#define IVSKIP_HOST_WAKE(word) (void)(word)\n&/'
one "no sleeping" "" "--modes sc --only exclusion" \
    's/^#endif/#define IVSKIP_HOST_PARK(word, ticket, until) ((void)(ticket), lab_relax())\n#define IVSKIP_HOST_WAKE(word) (void)(word)\n&/'
one "a barrier that does not wait" "barrier" "--only barrier" 's/lab_rcu_barrier()/(void)0/'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
