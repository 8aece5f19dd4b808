#!/bin/sh
# SPDX-License-Identifier: MIT
# The checks can fail: each is run on a copy of the header with one change that it must see, and first on the header as it is.
. "$(dirname "$0")/lib.sh"
here=$ROOT
COPY=$OUT/selftest
rm -rf "$COPY"
mkdir -p "$COPY/tests/checks"
cp "$here/tests/checks/port.h" "$COPY/tests/checks"

check() {
    case $1 in
    *.awk) awk -f "$here/tests/checks/$1" "$COPY/ivskip.h" ;;
    *) ROOT=$COPY OUT=$COPY/out COMPILERS=gcc STANDARDS=c11 "$here/tests/checks/$1" ${2:-} ;;
    esac
}

# fails CHECK WHAT SED-SCRIPT: the check passes without the change and fails with it; the change must change something.
fails() {
    cp "$here/ivskip.h" "$COPY/ivskip.h"
    argument=
    [ "$1" != warn.sh ] || argument=ivskip.h
    case " $passed " in *" $1 "*) ;; *) must "$1 on the header as it is" check $1 $argument ;; esac
    passed="$passed $1"
    sed "$3" "$here/ivskip.h" >"$COPY/ivskip.h"
    mustnot "the script for \"$2\" changes nothing" cmp -s "$here/ivskip.h" "$COPY/ivskip.h"
    mustnot "$1 does not see: $2" check $1 $argument
    echo "$1 sees: $2 ($(grep -m 1 . "$OUT/log" | sed "s|$COPY/||g" | cut -c 1-90))"
}
passed=

last_pair=$(sed -n 's/^ \* *\(P[0-9]*\)  *.*/\1/p' "$here/ivskip.h" | tail -n 1)
fails order.awk "an access without its pair" '0,/_acq_rel_.*\[P[0-9]*\]/s/\(_acq_rel_.*\)\[P[0-9]*\]/\1/'
fails order.awk "a pair that is not in the table" '0,/_acq_rel_.*\[P[0-9]*\]/s/\(_acq_rel_.*\)\[P[0-9]*\]/\1[P99]/'
fails order.awk "a pair of the table that nobody cites" "s/^\( \* *\)$last_pair .*/&\n\1P98  nobody/"
fails docs.awk "a block without its Progress" '0,/^ \*  Progress: /{/^ \*  Progress: /d;}'
fails docs.awk "a function without a block" 's/^IVS_API int ivs_map_init(/int ivs_none;\n&/'
fails names.sh "a macro without our prefix" 's/^#define IVSKIP_VERSION_MINOR/#define FOO 1\n&/'
fails names.sh "a function without our prefix" 's/^#undef IVS_FOREVER_/int foo(void);\nint foo(void) { return 0; }\n&/'
fails names.sh "a public name without the layout options" '/^#define ivs_map_unmap /d'
fails freestanding.sh "a call of the C library" 's/^int ivs_map_destroy(struct ivs_map \*map) {/int puts(const char *text);\n&\n    (void)puts("");/'
fails freestanding.sh "a header that a kernel does not have" 's/^#include <stdint.h>/&\n#include <string.h>/'
fails include.sh "a header without its guard" 's/^#ifndef IVSKIP_H$/#if 1/'
fails include.sh "layout options that are not in the symbols" 's/^#define IVS_SYM_(name) .*/#define IVS_SYM_(name) name/'
fails warn.sh "a conversion that may change the value" 's/^int ivs_map_destroy(struct ivs_map \*map) {/&\n    int narrow = map->height_;\n    (void)narrow;/'
fails size.sh "more than 12 KiB" 's/^int ivs_map_init(struct ivs_map \*map, .*{/&\n    __asm__ volatile(".skip 12000, 0x90");/'
echo "check-checks: $checks runs; every check sees what it is for"
