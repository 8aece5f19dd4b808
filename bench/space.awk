# SPDX-License-Identifier: MIT
# name TAB nanoseconds, from bench/space, several runs: the least ratio of ivaddr.h to the maple tree in one run, each pass or FAIL.
BEGIN { FS = "\t" }
{
    split($1, part, "/")
    work = part[1] "/" part[2]
    if (!(work in seen)) { seen[work] = 1; order[++works] = work }
    t[work, part[3]] = $2
    if (part[3] == "maple") {
        ratio = t[work, "ivaddr"] / $2
        runs[work]++
        all[work, runs[work]] = ratio
    }
}
END {
    for (i = 1; i <= works; i++) {
        work = order[i]
        n = runs[work]
        for (a = 1; a <= n; a++)
            for (b = a + 1; b <= n; b++)
                if (all[work, b] < all[work, a]) { x = all[work, a]; all[work, a] = all[work, b]; all[work, b] = x }
        middle = all[work, int((n + 1) / 2)]
        printf "%-4s %-16s %5.2f of the maple tree, at most 1.00 (median of %d runs; ivaddr %.0f ns, builtin %.0f, maple %.0f)\n", \
            middle <= 1 ? "pass" : "FAIL", work, middle, n, t[work, "ivaddr"], t[work, "ivaddr-builtin"], t[work, "maple"]
        if (!(middle <= 1)) bad = 1
    }
    exit bad
}
