# SPDX-License-Identifier: MIT
# Draws what `coherence --csv` wrote: gnuplot -e "csv='FILE'; out='FILE without ending'" coherence.gp
set datafile separator ';'
set logscale x 2
set xrange [1:400]
set xtics (1, 2, 4, 8, 16, 32, 64, 128, 384)
set xlabel 'virtual cores'
set grid ytics
set key below maxrows 4 samplen 2
# A row of the chosen structure, keys and operation, else nothing.
pick(structure, keys, operation) = (strcol(1) eq structure && strcol(2) eq keys && strcol(3) eq operation) ? $5 : NaN
operations = "Query Map Unmap Alloc"
array workloads[3] = ['own regions', 'own regions, separators', 'shared region']

do for [format in "png svg"] {
    if (format eq 'png') { set terminal pngcairo size 1500,620 font 'sans,11' } else { set terminal svg size 1500,620 font 'sans,11' }
    set output out . '.' . format
    set multiplot layout 1,3 title 'Lines fetched from another core, per operation'
    do for [w = 1:3] {
        keys = workloads[w]
        set title keys
        set yrange [0:*]
        plot for [i = 1:4] csv using 4:(pick('ivskip', keys, word(operations, i))) every ::1 \
                 with linespoints lc i pt 7 lw 2 title 'ivskip: ' . word(operations, i), \
             for [i = 1:4] csv using 4:(pick('treap, rwlock', keys, word(operations, i))) every ::1 \
                 with linespoints lc i pt 6 dt 2 title 'treap, lock: ' . word(operations, i)
    }
    unset multiplot
    unset output
}
