#!/bin/sh
# SPDX-License-Identifier: MIT
# The header can be included alone, twice, in any order, by C and C++; two private copies with other options live in one program; copies that
# differ in layout options do not link, and two public copies with other options can live side by side.
. "$(dirname "$0")/lib.sh"
cd "$OUT"
use='int r = ivs_map_init(&m, 0); r |= ivs_map_map(&m, 1, 9, 0); r |= ivs_map_unmap(&m, 2, 3); r |= ivs_map_destroy(&m);'
main="int main(void) { struct ivs_map m; $use return r; }"
inc='#include "ivskip.h"'
imp='#define IVSKIP_IMPLEMENTATION'

printf '%s\n' "$inc" 'typedef int not_empty;' >alone.c
printf '%s\n' "$inc" "$inc" 'typedef int not_empty;' >twice.c
printf '%s\n' "$inc" "$imp" "$inc" "$main" >late.c
printf '%s\n' "$imp" "$inc" "$inc" "$main" >early.c
printf '%s\n' '#include <stdio.h>' '#include <pthread.h>' '#include <time.h>' "$imp" "$inc" "$main" >after.c
printf '%s\n' "$imp" "$inc" '#include <time.h>' '#include <unistd.h>' '#include <sys/syscall.h>' '#include <stdlib.h>' "$main" >before.c
for compiler in $COMPILERS; do
    for standard in c11 c17 gnu2x; do
        for unit in alone twice; do
            must "$unit.c, $compiler, $standard" $compiler -std=$standard $WARN -I"$ROOT" -c $unit.c -o unit.o
        done
        for unit in late early after before; do
            must "$unit.c, $compiler, $standard" $compiler -std=$standard $WARN -I"$ROOT" -pthread $unit.c -o unit
            must "$unit.c runs" ./unit
        done
    done
    for standard in c++11 c++20; do
        for unit in alone twice late early after before; do
            cp $unit.c $unit.cc
            must "$unit.cc, $compiler, $standard" $compiler -x c++ -std=$standard $WARN -I"$ROOT" -pthread -c $unit.cc -o unit.o
        done
    done
done

# two private copies with different options in one program
printf '%s\n' '#define IVSKIP_STATIC' '#define IVSKIP_MAX_HEIGHT 8' "$inc" "int one(void); int one(void) { static struct ivs_map m; $use return r; }" >one.c
printf '%s\n' '#define IVSKIP_STATIC' '#define IVSKIP_MAX_HEIGHT 30' '#define IVSKIP_SPIN 0' "$inc" 'int one(void);' "int main(void) { struct ivs_map m; $use return r | one(); }" >two.c
for compiler in $COMPILERS; do
    must "two private copies, $compiler" $compiler -std=c11 $WARN -I"$ROOT" -pthread one.c two.c -o unit
    must "two private copies run" ./unit
done

# two public copies with different options, as two vendors would bring them
printf '%s\n' '#define IVSKIP_MAX_HEIGHT 8' "$imp" "$inc" "int one(void); int one(void) { static struct ivs_map m; $use return r; }" >one.c
printf '%s\n' '#define IVSKIP_MAX_HEIGHT 30' "$imp" "$inc" 'int one(void);' "int main(void) { struct ivs_map m; $use return r | one(); }" >two.c
must "two public copies with different options" gcc -std=c11 $WARN -I"$ROOT" -pthread one.c two.c -o unit
must "two public copies run" ./unit

# a user whose layout options differ from the implementation's does not link; one whose other options differ does
printf '%s\n' "$imp" "$inc" >implementation.c
printf '%s\n' "$inc" "$main" >user.c
must "same options link" gcc -std=c11 -I"$ROOT" -pthread implementation.c user.c -o unit
must "same options run" ./unit
must "compile with another height" gcc -std=c11 -I"$ROOT" -DIVSKIP_MAX_HEIGHT=12 -c user.c -o user.o
must "compile the implementation" gcc -std=c11 -I"$ROOT" -pthread -c implementation.c -o implementation.o
mustnot "a program whose parts differ in IVSKIP_MAX_HEIGHT must not link" gcc -pthread implementation.o user.o -o unit
must "compile with another RCU" gcc -std=c11 -I"$ROOT" $PORT -c user.c -o user.o
mustnot "a program whose parts differ in IVSKIP_RCU must not link" gcc -pthread implementation.o user.o -o unit
must "compile with another spin count" gcc -std=c11 -I"$ROOT" -DIVSKIP_SPIN=7 -c user.c -o user.o
must "other options may differ" gcc -pthread implementation.o user.o -o unit

# the guard of C++
cat >guard.cc <<'CC'
#include "ivskip.h"
static struct ivs_range_lock lock = IVS_RANGE_LOCK_INIT;
static int probe() {
    struct ivs_range range = IVS_RANGE_INIT;
    int r = ivs_range_trylock(&lock, &range, 5, 6, IVS_EXCLUSIVE);
    return r ? r : ivs_range_unlock(&lock, &range);
}
int main() {
    {
        ivs_range_guard hold(lock, 0, 10, IVS_EXCLUSIVE), wrong(lock, 20, 20, IVS_SHARED);
        if (!hold || hold.error() || wrong || wrong.error() != IVS_EINVAL || probe() != IVS_EBUSY) return 1;
        if (hold.downgrade() || probe() != IVS_EBUSY || hold.unlock() || hold || hold.unlock() != IVS_EPERM || probe()) return 2;
    }
    { ivs_range_guard hold(lock, 0, 0, IVS_SHARED); if (probe() != IVS_EBUSY) return 3; }
    return probe() || ivs_range_lock_destroy(&lock);
}
CC
must "compile the implementation" gcc -std=c11 -I"$ROOT" -pthread -c implementation.c -o implementation.o
for standard in c++11 c++20; do
    must "guard.cc, $standard" g++ -std=$standard $WARN -I"$ROOT" -pthread guard.cc implementation.o -o unit
    must "guard.cc runs" ./unit
done

# ivaddr.h: alone, twice, in any order with ivskip.h, private copies beside public ones
if [ -e "$ROOT/ivaddr.h" ]; then
    addr='#include "ivaddr.h"'
    bodies='#define IVADDR_IMPLEMENTATION'
    space='int r = iva_space_init(&s, 0); r |= iva_space_destroy(&s);'
    addr_main="int main(void) { static struct iva_space s; $space return r; }"
    printf '%s\n' "$addr" 'typedef int not_empty;' >addr_alone.c
    printf '%s\n' "$inc" "$addr" "$bodies" "$addr" "$inc" "$addr_main" >addr_late.c
    printf '%s\n' "$bodies" "$addr" "$inc" "$addr" "$addr_main" >addr_early.c
    printf '%s\n' "$imp" "$inc" "$bodies" "$addr" "$addr_main" >addr_after.c
    printf '%s\n' '#define IVADDR_STATIC' "$addr" "int one(void); int one(void) { static struct iva_space s; $space return r; }" >addr_one.c
    printf '%s\n' "$bodies" "$addr" 'int one(void);' "int main(void) { static struct iva_space s; $space return r | one(); }" >addr_two.c
    for compiler in $COMPILERS; do
        must "addr_alone.c, $compiler" $compiler -std=c11 $WARN -I"$ROOT" -c addr_alone.c -o unit.o
        for unit in addr_late addr_early addr_after; do
            must "$unit.c, $compiler" $compiler -std=c11 $WARN -I"$ROOT" -pthread $unit.c -o unit
            must "$unit.c runs" ./unit
            must "$unit.c as C++, $compiler" $compiler -x c++ -std=c++11 $WARN -I"$ROOT" -pthread -c $unit.c -o unit.o
        done
        must "a private and a public space, $compiler" $compiler -std=c11 $WARN -I"$ROOT" -pthread addr_one.c addr_two.c -o unit
        must "they run" ./unit
    done
    printf '%s\n' "$bodies" "$addr" >addr_bodies.c
    printf '%s\n' "$addr" "$addr_main" >addr_user.c
    must "compile the bodies" gcc -std=c11 -I"$ROOT" -pthread -c addr_bodies.c -o implementation.o
    must "compile with another height" gcc -std=c11 -I"$ROOT" -DIVSKIP_MAX_HEIGHT=12 -c addr_user.c -o user.o
    mustnot "spaces that differ in IVSKIP_MAX_HEIGHT must not link" gcc -pthread implementation.o user.o -o unit
fi

# options out of range are refused
for option in MAX_HEIGHT=1 MAX_HEIGHT=41 SPIN=-1 RETIRE_BATCH=0 LINK_TRIES=0 RCU=NONE RCU=HOST; do
    mustnot "IVSKIP_$option must be refused" gcc -std=c11 -I"$ROOT" -DIVSKIP_$option -c alone.c -o unit.o
done
echo "check-include: $checks compilations, links and runs"
