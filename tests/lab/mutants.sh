#!/bin/bash
# SPDX-License-Identifier: MIT
# mutants.sh LAB_OBJECTS_DIR [NAME...]   every small fault of mutants/*.patch is put into a copy of the headers and must be seen by
# the lab. A patch says in its first lines what it breaks ("# breaks: I6 P3"; of ivaddr.h "# breaks: space A2") and, where only some modes or a longer search can see it,
# "# modes: weak" or "# flags: --long --only grace"; "# host": in the lab with IVSKIP_RCU=HOST.
# Fails if one survives, does not apply, or if an invariant I1..I8, a rule of ivaddr.h or a pair of a header's table has no mutant.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
objects=$(cd "$1" && pwd)
shift
clang=${CLANG:-clang-19}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

one() {
    local patch=$1 name dir modes flags port with start line status
    name=$(basename "$patch" .patch)
    dir=$work/$name
    mkdir -p "$dir"
    cp "$root"/iv{skip,addr}.h "$dir/"
    if ! patch -s -p1 -F1 -d "$dir" <"$patch" >"$dir/log" 2>&1; then
        echo "FAIL $name: the patch does not apply any more: $(tail -1 "$dir/log")"
        return
    fi
    modes=$(sed -n 's/^# modes: //p' "$patch")
    flags=$(sed -n 's/^# flags: //p' "$patch")
    port=
    with=$objects
    if grep -q '^# host' "$patch"; then
        port=-DLAB_HOST
        with=$objects/host
    fi
    if ! $clang -std=gnu11 -g -O1 -w -I"$dir" -I"$root/tests/lab" -fsanitize-coverage=edge,trace-loads,trace-stores \
        $port -c "$root/tests/lab/subject.c" -o "$dir/subject.o" >"$dir/log" 2>&1 ||
        ! $clang "$dir/subject.o" "$with"/{lab,hooks,litmus,programs,space,space_model,run,main}.o -pthread -o "$dir/lab" >>"$dir/log" 2>&1; then
        echo "FAIL $name: does not compile: $(grep -m1 error "$dir/log")"
        return
    fi
    start=$SECONDS
    timeout "${MUTANT_SECONDS:-400}" "$dir/lab" --stop --quiet --no-litmus ${modes:+--modes "$modes"} $flags >"$dir/log" 2>&1
    status=$?
    line=$(grep -m1 -A1 '^FAIL' "$dir/log" | tr -s ' ' | tr '\n' ' ')
    if [[ $line == *"limit of the lab"* ]]; then
        echo "FAIL $name ($(sed -n 's/^# breaks: //p' "$patch")): no verdict: ${line#FAIL }"
    elif [ $status -eq 1 ] && [ -n "$line" ]; then
        echo "ok   $name ($(sed -n 's/^# breaks: //p' "$patch")) after $((SECONDS - start)) s: ${line#FAIL }"
    elif [ $status -gt 123 ]; then
        echo "FAIL $name ($(sed -n 's/^# breaks: //p' "$patch")): status $status, no verdict after $((SECONDS - start)) s"
    else
        echo "FAIL $name ($(sed -n 's/^# breaks: //p' "$patch")) survives: $(tail -2 "$dir/log" | head -1)"
    fi
    rm -rf "$dir"
}
export -f one
export work root objects clang

patches=()
for patch in "$root"/tests/lab/mutants/*.patch; do
    name=$(basename "$patch" .patch)
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    patches+=("$patch")
done
printf '%s\0' "${patches[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'one {}' | tee "$work/verdicts"
passed=$(grep -c '^ok' "$work/verdicts")
failed=$(grep -c '^FAIL' "$work/verdicts")
if [ $# -eq 0 ]; then
    for rule in I1 I2 I3 I4 I5 I6 I7 I8 $(sed -n 's/^ \* *\(P[0-9]*\)  *[^ ].*/\1/p' "$root/ivskip.h" | sort -u); do
        grep -hE "^# breaks:.* $rule( |\$)" "$root"/tests/lab/mutants/*.patch | grep -qv '^# breaks: space' && continue
        echo "FAIL nobody breaks $rule"
        failed=$((failed + 1))
    done
    for rule in $(sed -n 's/^ \*   \([AP][0-9]*\)  *[^ ].*/\1/p' "$root/ivaddr.h" | sort -u); do
        grep -qE "^# breaks: space.* $rule( |\$)" "$root"/tests/lab/mutants/*.patch && continue
        echo "FAIL nobody breaks $rule of a space"
        failed=$((failed + 1))
    done
fi
echo "mutants: $passed killed of $((passed + $(grep -c '^FAIL' "$work/verdicts")))"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
