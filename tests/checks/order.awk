# SPDX-License-Identifier: MIT
# awk -f order.awk HEADER: every ordered atomic access cites its pair, [Pn], on its line; every pair of the table is cited by
# an access that releases and by one that acquires; no pair is cited that is not in the table.

/IMPLEMENTATION \*\// { implementation = 1 }
!implementation { inline_part = /static inline/ }

# the table: " *   P7  text"
/^ \* +P[0-9]+ / { split($2, word, " "); table[word[1]] = FNR }

/ivs_[a-z_]*(acquire|release|acq_rel)_[a-z0-9]+_\(/ && !/#define/ && !/__atomic/ {
    accesses++
    if (!match($0, /\[P[0-9]+\]/)) {
        printf "%s:%d: an ordered access without its pair [Pn]: %s\n", FILENAME, FNR, $0
        bad++
    }
    line = $0
    while (match(line, /\[P[0-9]+\]/)) {
        pair = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        cited[pair] = FNR
        if ($0 ~ /_(release|acq_rel)_[a-z0-9]+_\(/) releases[pair] = 1
        if ($0 ~ /_(acquire|acq_rel)_[a-z0-9]+_\(/) acquires[pair] = 1
    }
}

END {
    for (pair in cited)
        if (!(pair in table)) { printf "%s:%d: %s is not in the table of pairs\n", FILENAME, cited[pair], pair; bad++ }
    for (pair in table) {
        pairs++
        if (!(pair in releases)) { printf "%s:%d: nobody releases for %s\n", FILENAME, table[pair], pair; bad++ }
        if (!(pair in acquires)) { printf "%s:%d: nobody acquires for %s\n", FILENAME, table[pair], pair; bad++ }
    }
    if (accesses < 20 || pairs < 5) { printf "%s: only %d accesses and %d pairs found\n", FILENAME, accesses, pairs; bad++ }
    if (bad) exit 1
    printf "check-order: %d ordered accesses, %d pairs, each with both ends\n", accesses, pairs
}
