#!/bin/sh
# Runs fuzz targets under libFuzzer, as many at a time as there are processors; `make fuzz` calls it. Each starts from
# its seeds and from what it found to be interesting before. Prints a line for each, and all it said where one ended.
#   FUZZ_BUILD=DIR FUZZ_LIMIT=-max_total_time=5 tests/fuzz/fuzz.sh fuzz_NAME...
set -u
cd "$(dirname "$0")/../.." || exit 1
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export FUZZ_BUILD FUZZ_LIMIT
# shellcheck disable=SC2016 # for the inner shell to expand
printf '%s\n' "$@" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I {} sh -c '
    target=$1 name=${target#fuzz_} out=build/fuzz/$target
    seeds=tests/fuzz/seeds/$name
    [ -d "$seeds" ] || seeds=lab/$seeds
    mkdir -p "$out/corpus"
    dictionary=tests/fuzz/json.dict
    case $name in
    config | set) dictionary=tests/fuzz/config.dict ;;
    logs | corpus | samples | why | compare | theory) dictionary=tests/fuzz/text.dict ;;
    esac
    OMP_NUM_THREADS=1 ASAN_OPTIONS=allocator_may_return_null=1 "$FUZZ_BUILD/$target" "$FUZZ_LIMIT" -max_len=4096 -timeout=100 \
        -dict="$dictionary" -artifact_prefix="$out/" "$out/corpus" "$seeds" >"$out/log" 2>&1 ||
        { cat "$out/log" && echo "FAILED: $target" && exit 1; }
    printf "%-16s %s; %s\n" "$name" "$(sed -n "s/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 executions in \2 s/p" "$out/log")" \
        "$(sed -n "s/.* \(cov: [0-9]*\) ft: [0-9]* corp: \([0-9]*\).*/\1 edges, \2 inputs kept/p" "$out/log" | tail -n 1)"' sh {}
