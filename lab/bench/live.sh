#!/usr/bin/env bash
# The module of docs/live.html beside the native program of the last commit, built to have the same kernel, for vectors of
# four floats by SSE: milliseconds of a processor for a step of configs/dk64_scaled.ini on one thread. Both train at the
# same time on a processor each, and change processors from round to round, so that what others do to the machine slows
# both. The other loops of the native program are for the processor's own vectors; its time includes what begins and ends
# a run, the module's what compiles it. Needs git, Node, x86-64, and what builds the program.
#   lab/bench/live.sh [ROUNDS]        half a minute each; 6 unless given
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OMP_WAIT_POLICY
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/sse"
sed -i 's/^GemmKernel gemm_best(bool bf16) {/&\n    if (!bf16) return GEMM_FLOAT4;/' "$work/sse/src/gemm/gemm.c"
make -s -C "$work/sse" train

native() {
    "$work/sse/train" configs/dk64_scaled.ini --out "$work/run" --force --threads 1 --quiet --set train.steps=100 \
        --set eval.every=1000 --set log.attention_every=0 --set log.sample_tokens=0 >/dev/null
}
echo '| round | module | SSE | SSE / module |'
echo '|---|---|---|---|'
for round in $(seq "${1:-6}"); do
    taskset -c $((round % 2)) node lab/tests/live.mjs docs/live.html configs/dk64_scaled.ini 100 2>&1 >/dev/null |
        cut -d ' ' -f 1 >"$work/module" &
    TIMEFORMAT=%U
    { time taskset -c $((1 - round % 2)) "${BASH:-bash}" -c "$(declare -f native); work=$work; native"; } 2>"$work/native"
    wait
    awk -v round="$round" -v a="$(cat "$work/module")" -v b="$(tail -n 1 "$work/native")" \
        'BEGIN { printf "| %d | %.1f | %.1f | %.2f |\n", round, a, b * 10, b * 10 / a }'
done
