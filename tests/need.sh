#!/bin/sh
# SPDX-License-Identifier: MIT
# need.sh WHAT PACKAGE...   makes sure that WHAT is there, a command or a header.h, by installing Debian packages if it is not.
set -u
what=$1
shift

present() {
    case $what in
    *.h) echo "#include <$what>" | ${CC:-cc} -E -x c - >/dev/null 2>&1 ;;
    lib:*) echo 'int main(void) { return 0; }' |
        "${what#lib:}" -fsanitize=thread -x c -o /dev/null - >/dev/null 2>&1 ;;
    *) command -v "$what" >/dev/null 2>&1 ;;
    esac
}

present && exit 0
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root=false
fi
if [ "$as_root" != false ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    { $as_root apt-get install -y --no-install-recommends "$@" ||
        { $as_root apt-get update && $as_root apt-get install -y --no-install-recommends "$@"; }; } >&2
fi
present && exit 0
echo "$what is missing and could not be installed: install $* (Debian) yourself" >&2
exit 1
