#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh KERNEL SECONDS [CPUS]   boots a kernel, shows its serial line, and succeeds only if its last line says that no
# check failed and the emulator's status says so too.
set -u
log=$1.log
timeout "$2" qemu-system-x86_64 -M pc -cpu max -m 128 -smp "${3:-4}" -accel tcg,thread=multi -display none \
    -monitor none -no-reboot -serial stdio \
    -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$1" </dev/null >"$log" 2>&1
status=$?
cat "$log"
case $(tail -n 1 "$log" | tr -d '\r') in
"conform: 0 passed, "*) ;;
"conform: "*" passed, 0 failed") [ "$status" -eq 33 ] && exit 0 ;;
esac
[ "$status" -eq 124 ] && echo "run.sh: not done after $2 s"
echo "run.sh: the kernel did not pass; status $status, where 33 is good"
exit 1
