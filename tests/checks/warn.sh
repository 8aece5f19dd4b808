#!/bin/sh
# SPDX-License-Identifier: MIT
# warn.sh HEADER...   each header, twice in one file, compiles without a warning: COMPILERS, standards of C and C++, options, every RCU.
. "$(dirname "$0")/lib.sh"
self=$(cd "$(dirname "$0")" && pwd)/warn.sh
cd "$OUT"
# One compilation; xargs gives its words: compiler, standard, file, flags.
if [ "$1" = --one ]; then
    shift
    compiler=$1 standard=$2 file=$3
    shift 3
    case $standard in *++*) language=c++ ;; *) language=c ;; esac
    if ! $compiler -std=$standard -x $language $WARN "$@" -I"$ROOT" -pthread -O2 -c $file -o /dev/null 2>"$OUT/warn.$$"; then
        echo "FAIL: $compiler -std=$standard $* $file" >&2
        cat "$OUT/warn.$$" >&2
        rm -f "$OUT/warn.$$"
        exit 255
    fi
    rm -f "$OUT/warn.$$"
    exit 0
fi

host='-DIVSKIP_RCU=HOST -DIVSKIP_CONFIG=\"tests/checks/port.h\"'
: >jobs
for header in "$@"; do
    prefix=IVSKIP
    [ $header != ivaddr.h ] || prefix=IVADDR
    body=-D${prefix}_IMPLEMENTATION
    file=warn-$header.c
    printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' $header $header >$file
    for compiler in $COMPILERS; do
        for standard in ${STANDARDS:-c11 c17 gnu2x c++11 c++20}; do
            while read -r flags; do
                echo $compiler $standard $file $flags >>jobs # no blank at the end: xargs would join lines
            done <<FLAGS

$body
-D${prefix}_STATIC
$body -DIVSKIP_DEBUG=1
$body -DIVSKIP_MAX_HEIGHT=2 -DIVSKIP_SPIN=0
$body -DIVSKIP_RCU=URCU_MEMB
$body -DIVSKIP_RCU=URCU_QSBR
$body -DIVSKIP_RCU=URCU_BP
$body -DIVSKIP_DEBUG=1 $host
$host
FLAGS
        done
    done
done
xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 "$self" --one <jobs
echo "check-warn: $(wc -l <jobs) compilations by $COMPILERS without a warning"
