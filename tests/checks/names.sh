#!/bin/sh
# SPDX-License-Identifier: MIT
# Whatever the headers define begins with ivs_, IVS_ or IVSKIP_ (ivskip.h), or with iva_, IVA_ or IVADDR_ (ivaddr.h): symbols, macros, types,
# enumerators. The public ones end without an underscore; public symbols carry the layout options.
. "$(dirname "$0")/lib.sh"
cd "$OUT"

# names HEADER NAME PREFIX LEAST: the header's option is IVNAME_IMPLEMENTATION; what it defines begins with PREFIX; it has LEAST public symbols or more.
names() {
    printf '%s\n' "#define $2_IMPLEMENTATION" "#include \"$1\"" >names.c
    must "compile $1" gcc -std=c11 -O0 -I"$ROOT" -pthread -c names.c -o names.o
    bad=$(nm names.o | awk -v p="$3" 'NF == 3 && $2 ~ /[A-TV-Z]/ && $3 !~ "^" p "[a-z0-9_]*[a-z0-9]_h[0-9]+_[A-Z_]+$" {print $3}')
    [ -z "$bad" ] || { echo "FAIL: public symbols out of line: $bad" >&2; exit 1; }
    bad=$(nm names.o | awk -v p="$3" 'NF == 3 && $2 ~ /[a-tv-z]/ && $3 !~ "^(" p "[a-z0-9_]*_|" p "[a-z0-9_]*[a-z]|none|all|release|table|legacy)([.][0-9]+)?$" {print $3}')
    [ -z "$bad" ] || { echo "FAIL: private symbols out of line: $bad" >&2; exit 1; }
    count=$(nm names.o | grep -c ' T ')
    [ "$count" -ge "$4" ] || { echo "FAIL: only $count public symbols found" >&2; exit 1; }

    # macros: what is defined after the header and was not before it (the headers that it includes come first on both sides)
    printf '%s\n' '#include <stdbool.h>' '#include <stddef.h>' '#include <stdint.h>' '#include <pthread.h>' '#include <sched.h>' \
        '#include <stdlib.h>' '#include <time.h>' '#include <sys/syscall.h>' '#include <unistd.h>' >system.c
    { cat system.c names.c; } >both.c
    gcc -std=c11 -dM -E -I"$ROOT" system.c | awk '{sub(/\(.*/, "", $2); print $2}' | sort -u >macros.system
    gcc -std=c11 -dM -E -I"$ROOT" both.c | awk '{sub(/\(.*/, "", $2); print $2}' | sort -u >macros.both
    bad=$(comm -13 macros.system macros.both | grep -vE "^($5)" || true)
    [ -z "$bad" ] || { echo "FAIL: macros out of line: $bad" >&2; exit 1; }

    # leading underscores belong to the compiler and its library
    bad=$(grep -nE '(struct|enum|define|static [a-z0-9_ ]+) \*?_[A-Za-z]' "$ROOT/$1" | grep -v '_Static_assert' || true)
    [ -z "$bad" ] || { echo "FAIL: names with a leading underscore: $bad" >&2; exit 1; }
    echo "check-names: $1: $count public symbols, $(comm -13 macros.system macros.both | wc -l) macros, all ours by name"
}

names ivskip.h IVSKIP ivs_ 30 'IVSKIP_|IVS_|ivs_'
[ ! -e "$ROOT/ivaddr.h" ] || names ivaddr.h IVADDR iv[sa]_ 80 'IVSKIP_|IVS_|ivs_|IVADDR_|IVA_|iva_'
