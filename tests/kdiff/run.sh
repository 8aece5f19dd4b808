#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh FIRST..LAST VMREPLAY KDIFF   called by make check-kdiff. For each seed the running kernel answers three random sequences of calls: plain ones,
# with areas that grow down, and of four threads at once; `vmreplay --predict` has to give the same results, addresses and maps. It stops at the
# first seed that differs; its traces stay in build/kdiff. The last line is "N passed, N failed", counted in sequences.
set -eu
seeds=$1 vmreplay=$2 kdiff=$3
first=${seeds%%..*} last=${seeds##*..}
events=${EVENTS:-300}
batch=20
dir=build/kdiff
[[ $first =~ ^[0-9]+$ && $last =~ ^[0-9]+$ && $first -le $last ]] || { echo "check-kdiff: say SEEDS=1..100, not \"$seeds\"" >&2; exit 2; }
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "check-kdiff: the kernel is $(uname -sm), and the calls are those of Linux x86_64: nothing to ask"
    echo "1 passed, 0 failed"
    exit 0
fi
rm -rf "$dir/now"
mkdir -p "$dir/now"

# ask SEED MODE FLAGS...
ask() {
    local seed=$1 out=$dir/now/$1-$2.vmtrace status=0
    shift 2
    "$kdiff" -s "$seed" -n "$events" "$@" >"$out" || status=$?
    if [ "$status" = 5 ]; then
        echo "check-kdiff: Linux $(uname -r) has no PROCMAP_QUERY (6.11 or newer has): nothing to ask"
        echo "1 passed, 0 failed"
        exit 0
    fi
    [ "$status" = 0 ] || { echo "check-kdiff: kdiff -s $seed $*: status $status" >&2; exit 1; }
}

# Calls, errors by kind, calls that could not be compared: of all reports so far.
summary() {
    awk '/^  results: / {
            for (i = 2; i < NF; i++) {
                if ($(i + 1) == "predicted") predicted += $i
                if ($(i + 1) == "beyond") beyond += $i
                if ($(i + 1) == "where") apart += $i
                if ($(i + 1) ~ /^skipped/) skipped += $i
            }
        }
        /^  events / {events += $2; for (i = 1; i < NF; i++) if ($i == "matched") maps += $(i + 1)}
        /^  errors: / {for (i = 2; i < NF; i += 2) count[$i] += $(i + 1)}
        END {
            printf "%d calls, %d results and %d maps compared; errors:", events, predicted, maps
            for (;;) {
                best = ""
                for (name in count) if (count[name] && (best == "" || count[name] > count[best])) best = name
                if (best == "") break
                printf " %s %d", best, count[best]
                delete count[best]
            }
            printf "; not compared: %d that depend on more than the map, %d refused because the kernel keeps areas apart, %d with rules newer than this kernel\n", \
                beyond, apart, skipped
        }' "$dir/reports"
}

: >"$dir/reports"
begin=$SECONDS
for ((seed = first; seed <= last; seed += batch)); do
    end=$((seed + batch - 1 < last ? seed + batch - 1 : last))
    rm -f "$dir"/now/*
    for ((s = seed; s <= end; s++)); do
        ask "$s" plain
        ask "$s" grow -g
        ask "$s" threads -t 4
    done
    if ! "$vmreplay" --predict "$dir"/now/*.vmtrace >>"$dir/reports" 2>"$dir/differences"; then
        head -n 12 "$dir/differences" >&2
        bad=$(sed -n 's/^\([^:]*\.vmtrace\):.*/\1/p' "$dir/differences" | head -n 1)
        name=$(basename "${bad:-unknown}" .vmtrace)
        case ${name##*-} in grow) flags=" -g" ;; threads) flags=" -t 4" ;; *) flags= ;; esac
        echo "check-kdiff: seed ${name%-*} differs: $kdiff -s ${name%-*} -n $events$flags > $name.vmtrace; $vmreplay --predict $name.vmtrace" >&2
        echo "check-kdiff: the trace is ${bad:-in $dir/now}" >&2
        summary
        echo "$(((seed - first) * 3)) passed, 1 failed"
        exit 1
    fi
    [ ! -t 2 ] && [ $(((end - first + 1) % 200)) -ne 0 ] || printf 'check-kdiff: seeds %d..%d, %d s%b' "$first" "$end" $((SECONDS - begin)) "$([ -t 2 ] && echo '\033[K\r' || echo '\n')" >&2
done
printf 'check-kdiff: seeds %d..%d on Linux %s, %d s: ' "$first" "$last" "$(uname -r)" $((SECONDS - begin))
summary
echo "$(((last - first + 1) * 3)) passed, 0 failed"
