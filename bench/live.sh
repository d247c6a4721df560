#!/usr/bin/env bash
# The module of docs/live.html beside the native program of the last commit, built to have the same kernel, for vectors
# of four floats by SSE: milliseconds of a processor for a training step of configs/dk64_scaled.ini on one thread, in
# turns, and what products take of them (from samples, 500 a second), without the packing that is in functions of its
# own. The other loops of the native program are for the processor's own vectors. Needs perf (Debian's linux-perf), git,
# Node, x86-64, and what builds the program. Node leaves /tmp/perf-*.map.
#   bench/live.sh [ROUNDS]        a minute for each; 4 unless given
set -eu
cd "$(dirname "$0")/.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_WAIT_POLICY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/sse"
sed -i 's/^GemmKernel gemm_best(bool bf16) {/&\n    if (!bf16) return GEMM_FLOAT4;/' "$work/sse/src/gemm/gemm.c"
make -s -C "$work/sse" train

module() { node --perf-basic-prof --no-logfile-per-isolate --logfile="$work/v8.log" tests/live.mjs docs/live.html configs/dk64_scaled.ini "$1" >/dev/null 2>&1; }
native() {
    "$work/sse/train" configs/dk64_scaled.ini --out "$work/run" --force --threads 1 --quiet --set train.steps="$1" \
        --set eval.every=1000 --set log.attention_every=0 --set log.sample_tokens=0
}
# measure PRODUCTS COMMAND: milliseconds of a step, and those of the functions that PRODUCTS matches. They are those of 80
# steps less those of 20, so without what begins and ends a run.
measure() {
    for steps in 80 20; do
        perf record -q -e cpu-clock:u -F 500 -o "$work/perf" -- "${BASH:-bash}" -c "$(declare -f "$2"); work=$work; $2 $steps" >/dev/null
        perf report -i "$work/perf" --stdio --sort symbol -F period,sym 2>/dev/null | grep -v '^#'
        echo
    done | awk -v products="$1" 'BEGIN { sign = 1 } NF == 0 { if (seen) sign = -1; next } { seen = 1; all += sign * $1 }
        $0 ~ products { own += sign * $1 } END { printf "%.1f %.1f\n", all / 60e6, own / 60e6 }'
}

# The module's products are in the function that takes the longest; its number is that of this module.
perf record -q -e cpu-clock:u -F 500 -o "$work/perf" -- "${BASH:-bash}" -c "$(declare -f module); work=$work; module 20" >/dev/null
kernel=$(perf report -i "$work/perf" --stdio --sort symbol -F period,sym 2>/dev/null | grep turbofan | sort -rn |
    sed -n '1s/.*\(-[0-9]*-\)turbofan.*/\1/p')
echo '| | module: a step | ... its products | SSE: a step | ... its products | SSE / module: a step | ... products |'
echo '|---|---|---|---|---|---|---|'
for round in $(seq "${1:-4}"); do
    read -r all own < <(measure "wasm-function.*$kernel(turbofan|liftoff)" module)
    read -r native_all native_own < <(measure "(gemm|block|tile)_float4" native)
    awk -v round="$round" -v a="$all" -v b="$own" -v c="$native_all" -v d="$native_own" \
        'BEGIN { printf "| %d | %.0f | %.0f | %.0f | %.0f | %.2f | %.2f |\n", round, a, b, c, d, c / a, d / b }'
done
