# SPDX-License-Identifier: MIT
# awk -f targets.awk targets.txt results.tsv   prints each target with the median over the runs of the ratio within a
# run; ends with 1 if a target is missed, with 2 if one was not measured (with -v partial=1: if nothing was).
# A line of results.tsv: run, work, n, order, peer, threads, metric, value.
BEGIN {
    FS = " *[|] *"
    line = "%-2s %-49s %9s %10s %10s %7s %13s %6s  %s\n"
}
FNR == NR {
    if ($0 !~ /^#/ && NF == 6) { targets++; for (f = 1; f <= 6; f++) target[targets, f] = $f }
    next
}
{
    split($0, r, "\t")
    value[r[2] "/" r[3] "/" r[4] "/" r[5] "@" r[6] ":" r[7], r[1]] = r[8]
    if (r[1] > runs) runs = r[1]
}
function full(key) {
    if (key !~ /:/) key = key ":ns"
    if (key !~ /@/) sub(/:/, "@1:", key)
    return key
}
function sort(a, n,    i, j, t) {
    for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j - 1] > a[j]; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
}
function median(a, n) { sort(a, n); return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2 }
function figure(x) { return x >= 1e6 ? sprintf("%.2fM", x / 1e6) : sprintf(x < 1000 ? "%.1f" : "%.0f", x) }
function measure(t,    a, b, run, key) {
    a = full(target[t, 2]); b = full(target[t, 3])
    n = 0
    for (run = 1; run <= runs; run++) if (((a, run) in value) && ((b, run) in value) && value[b, run] > 0) {
        n++
        over[n] = value[a, run]; under[n] = value[b, run]; ratio[n] = over[n] / under[n]
    }
}
function report(t,    parts, mid, says) {
    split(target[t, 2], parts, "/")
    mid = median(ratio, n)
    says = ""
    if (target[t, 5] != "-") {
        says = (target[t, 4] == "<=" ? mid <= target[t, 5] + 0 : mid >= target[t, 5] + 0) ? "pass" : "FAIL"
        if (says == "FAIL") failed++; else passed++
    }
    printf line, target[t, 1], target[t, 6], parts[2], figure(median(over, n)), figure(median(under, n)),
        sprintf("%.2f", mid), sprintf("%.2f..%.2f", ratio[1], ratio[n]),
        target[t, 5] == "-" ? "-" : target[t, 4] target[t, 5], says
}
END {
    printf line, "", "", "N", "this", "that", "ratio", "range", "limit", ""
    for (t = 1; t <= targets; t++) {
        measure(t)
        if (n) { report(t); reported++ }
        else if (target[t, 5] != "-") {
            missing++
            if (!partial) print target[t, 1], target[t, 6] ": not measured: " target[t, 2] " | " target[t, 3]
        }
    }
    printf "%d runs: %d targets met, %d missed, %d not measured\n", runs, passed, failed, missing
    exit failed ? 1 : !reported || (missing && !partial) ? 2 : 0
}
