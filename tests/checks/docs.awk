# SPDX-License-Identifier: MIT
# awk -f docs.awk HEADER: every public function (IVS_API prototype, or static inline without a trailing underscore in its name)
# has a doc block right in front of it, with a first sentence and the fields Context, Progress, Ordering, Returns, Lifetime.

/= IMPLEMENTATION \*\// { exit }

/^\/\*\* / { block = $0; open = !/\*\//; next_is_documented = !open; next }
open { block = block "\n" $0; if (/\*\//) { open = 0; next_is_documented = 1 }; next }

/^(IVS_API|IVA_API|static inline) / {
    if (!match($0, /iv[sa]_[a-z0-9_]*\(/)) next
    name = substr($0, RSTART, RLENGTH - 1)
    if (name in seen || name ~ /_$/) { next_is_documented = 0; next }
    seen[name] = 1
    functions++
    if (!next_is_documented) { printf "%s:%d: %s has no doc block\n", FILENAME, FNR, name; bad++ }
    else for (i = split("Context Progress Ordering Returns Lifetime", field, " "); i; i--)
        if (block !~ ("\n \\*  " field[i] ": [^ ]")) {
            printf "%s:%d: the doc block of %s lacks %s\n", FILENAME, FNR, name, field[i]
            bad++
        }
    next_is_documented = 0
    next
}
/[^ ]/ { next_is_documented = 0 }

END {
    if (functions < 30) { printf "%s: only %d public functions found\n", FILENAME, functions; bad++ }
    if (bad) exit 1
    printf "check-docs: %d public functions, each with its six fields\n", functions
}
