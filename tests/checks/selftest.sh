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
    *.awk) awk -f "$here/tests/checks/$1" "$COPY/$header" ;;
    *) ROOT=$COPY OUT=$COPY/out COMPILERS=gcc STANDARDS=c11 "$here/tests/checks/$1" ${2:-} ;;
    esac
}

# fails CHECK WHAT SED-SCRIPT: the check passes without the change and fails with it; the change must change something.
fails() {
    cp "$here/ivskip.h" "$COPY/ivskip.h"
    [ $header = ivskip.h ] || cp "$here/$header" "$COPY/$header"
    argument=
    [ "$1" != warn.sh ] || argument=$header
    case " $passed " in *" $1 "*) ;; *) must "$1 on the header as it is" check $1 $argument ;; esac
    passed="$passed $1"
    sed "$3" "$here/$header" >"$COPY/$header"
    mustnot "the script for \"$2\" changes nothing" cmp -s "$here/$header" "$COPY/$header"
    mustnot "$1 does not see: $2" check $1 $argument
    echo "$1 sees: $2 ($(grep -m 1 . "$OUT/log" | sed "s|$COPY/||g" | cut -c 1-90))"
}
header=ivskip.h
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
header=ivaddr.h
passed=
fails order.awk "an access of ivaddr.h without its pair" '0,/_acq_rel_.*\[P[0-9]*\]/s/\(_acq_rel_.*\)\[P[0-9]*\]/\1/'
fails docs.awk "a function of ivaddr.h without a block" 's/^IVA_API int iva_space_unmap(/int iva_none;\n&/'
fails names.sh "a function of ivaddr.h without our prefix" 's/^#endif \/\* IVADDR_IMPLEMENTATION \*\//int foo(void);\nint foo(void) { return 0; }\n&/'
fails names.sh "a public name of ivaddr.h without the layout options" '/^#define iva_space_unmap /d'
fails freestanding.sh "a call of the C library in ivaddr.h" 's/^int iva_gate_destroy(struct iva_gate \*gate) {/int puts(const char *text);\n&\n    (void)puts("");/'
fails include.sh "ivaddr.h without its guard" 's/^#ifndef IVADDR_H$/#if 1/'
fails warn.sh "a conversion in ivaddr.h that may change the value" 's/^int iva_gate_destroy(struct iva_gate \*gate) {/&\n    int narrow = gate->cell_;\n    (void)narrow;/'
echo "check-checks: $checks runs; every check sees what it is for"
