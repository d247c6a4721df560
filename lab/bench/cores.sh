#!/usr/bin/env bash
# Milliseconds per step by number of threads, of one build of the program or of two in turns, on a machine with many
# cores that has nothing of ours installed:
#   lab/bench/cores.sh TEXT BEFORE [AFTER]      at most two and a half minutes on 16 cores
# TEXT is Tiny Shakespeare (data/get_shakespeare.sh). BEFORE and AFTER are directories with `train`, `configs` and, where
# the system has not the libraries, `lib` with those that ldd names: libopenblas, libjansson, libgomp, libgfortran,
# libquadmath. With few threads shakespeare_baby has a batch of 16, a quarter of its own, to take less time.
# Rows that do not say otherwise have two shards, the default of train.shards.
# SECONDS_EACH=S: the time for a measurement (default .5; three steps at least). LIMIT=S: none begins after this many.
set -eu
text=$(realpath "$1") before=$(realpath "$2") after=${3:+$(realpath "$3")}
each=${SECONDS_EACH:-.5} limit=${LIMIT:-150}
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_NUM_THREADS OMP_PROC_BIND OMP_WAIT_POLICY

# measure DIRECTORY CONFIG PRECISION THREADS [--set KEY=VALUE]...: the benchmark's line of JSON.
measure() {
    directory=$1 config=$2 precision=$3 threads=$4
    shift 4
    (cd "$directory" && LD_LIBRARY_PATH=$directory/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ./train bench "configs/$config.ini" \
        --set data.corpus="$text" --set train.precision="$precision" --set train.shards=2 --threads "$threads" --seconds "$each" --json "$@")
}
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" <<<"$2"; }

# compare CONFIG PRECISION THREADS [--set KEY=VALUE]...: a row of the table.
compare() {
    if [ $SECONDS -ge "$limit" ]; then
        echo "| $* | not measured |"
        return
    fi
    one=$(measure "$before" "$@") two=${after:+$(measure "$after" "$@")}
    last=${two:-$one}
    awk -v what="$*" -v a="$(number step_ms "$one")" -v b="$(number step_ms "$two")" -v sgemm="$(number sgemm_peak_gflops "$last")" \
        -v bf16="$(number bf16_peak_gflops "$last")" -v m="$(number peak_rss_mb "$one")" -v n="$(number peak_rss_mb "$two")" 'BEGIN {
            gsub(/--set /, "", what)
            printf "| %s | %.2f | %s | %s | %.0f | %s | %.0f | %s |\n", what, a, b == "" ? "" : sprintf("%.2f", b),
                b == "" ? "" : sprintf("%.2f", b / a), sgemm, bf16 == "" ? "" : sprintf("%.0f", bf16), m,
                n == "" ? "" : sprintf("%.0f", n) }'
}

lscpu | grep -E '^(Model name|CPU\(s\)|L2|L3|NUMA node\(s\))' || true
grep -o -m1 -w -E 'amx_bf16|avx512_bf16' /proc/cpuinfo || true
uptime
echo '| model, precision, threads | ms before | ms after | ratio | sgemm peak, GFLOP/s | bf16 product | MB before | MB after |'
echo '|---|---|---|---|---|---|---|---|'
for threads in 16 8 4 2 1; do
    for precision in fp32 bf16; do compare shakespeare_cpu $precision $threads; done
done
compare shakespeare_baby bf16 16
compare shakespeare_baby bf16 8
compare shakespeare_baby fp32 16
for threads in 4 2 1; do compare shakespeare_baby bf16 $threads --set train.batch=16; done
for shards in 1 4; do
    for precision in fp32 bf16; do compare shakespeare_cpu $precision 16 --set train.shards=$shards; done
    compare shakespeare_baby bf16 16 --set train.shards=$shards
done
compare shakespeare_baby fp32 4 --set train.batch=16
compare shakespeare_baby fp32 8
echo "$SECONDS seconds"
