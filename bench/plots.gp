# SPDX-License-Identifier: MIT
# gnuplot -e "tsv='results.tsv'; out='directory'" plots.gp   (lines as flatten.sh writes them)
peers = system("cut -f 5 ".tsv." | awk '!seen[$0]++'")
match(work, n, peer, threads, metric) = "$2 ~ /^(".work.")$/ && $3 ~ /^(".n.")$/ && $4 == \"shuffled\"". \
    " && $5 == \"".peer."\" && $6 ~ /^(".threads.")$/ && $7 == \"".metric."\""
rows(work, n, peer, threads, metric, x) = "< awk -F '\t' '".match(work, n, peer, threads, metric). \
    sprintf(" {print $%d, $8}' ", x).tsv
set grid
set key left top
set style data linespoints
do for [kind in "png svg"] {
    eval("set terminal ".kind." size 800,500")

    set logscale xy
    set xlabel "intervals"
    set ylabel "ns"
    set output out."/find.".kind
    set title "Query and one field of the record, uniform hits, one thread"
    plot for [peer in peers] rows("find-field-uniform", ".*", peer, "1", "ns", 3) using 1:2 lw 2 title peer
    set output out."/update.".kind
    set title "unmap and map of an interval, one thread"
    plot for [peer in peers] rows("unmap-map", ".*", peer, "1", "ns", 3) using 1:2 lw 2 title peer
    unset logscale y
    set ylabel "bytes"
    set yrange [0:*]
    set output out."/bytes.".kind
    set title "bytes for an interval with its record of 64 bytes"
    plot for [peer in peers] rows("bytes", ".*", peer, "1", "bytes", 3) using 1:2 lw 2 title peer

    set logscale x 2
    set xlabel "threads"
    set xtics (1, 2, 4)
    set ylabel "million operations a second"
    set output out."/find-threads.".kind
    set title "Query and one field, 10 000 intervals"
    plot for [peer in peers] rows("find-field-uniform", "10000", peer, ".*", "ns", 6) using 1:(1e3 / $2) lw 2 title peer
    set output out."/mixed-threads.".kind
    set title "half look-ups, half updates, 10 000 intervals"
    plot for [peer in peers] rows("mixed-50-50", "10000", peer, ".*", "ns", 6) using 1:(1e3 / $2) lw 2 title peer
    set output out."/alloc-threads.".kind
    set title "Alloc, each thread in a region of its own, 10 000 intervals elsewhere"
    plot for [peer in peers] rows("regions", "10000", peer, ".*", "alloc_per_s", 6) using 1:($2 / 1e6) lw 2 title peer
    set xtics auto
    unset logscale
    set yrange [*:*]
}
