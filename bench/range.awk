# SPDX-License-Identifier: MIT
# name TAB nanoseconds, from bench/range: what is wanted of range locks, each pass or FAIL.
BEGIN { FS = "\t" }
{ split($1, part, "/"); t[part[1] "/" part[2] "/" part[3] ($1 ~ /threads:2/ ? "@2" : "")] = $2 }
function want(text, value, limit) {
    printf "%-4s %-86s %9.1f ns, at most %9.1f ns\n", value <= limit ? "pass" : "FAIL", text, value, limit
    if (!(value > 0 && value <= limit)) bad = 1
}
END {
    mutex = t["same/0/mutex"]
    want("lock + unlock, nobody else: 12 mutex pairs", t["same/0/ivskip"], 12 * mutex)
    want("the same, with the table: 12 mutex pairs", t["same/0/ivskip-table"], 12 * mutex)
    want("lock + unlock, nobody else: a tenth of an OFD pair", t["same/0/ivskip"], t["same/0/ofd"] / 10)
    for (n = 10; n <= 100000; n *= 10)
        want("with " n " ranges held: 12 mutex pairs and 3 queries of " sprintf("%.1f", t["query/" n "/ivskip-table"]) " ns", \
            t["disjoint/" n "/ivskip-table"], 12 * mutex + 3 * t["query/" n "/ivskip-table"])
    exit bad
}
