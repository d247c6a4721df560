#!/bin/sh
# `make check`: a little of each of the six claims that docs/testing.md begins with, in less than 30 seconds. The programs of
# the arguments are tests, which are run as they are. `make test` runs everything.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
export OMP_WAIT_POLICY=passive
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
claim() { printf '%s\n' "$1"; }
# checks NAME COMMAND...: the command ends with 0; otherwise what it printed is shown.
checks() {
    name=$1
    shift
    if "$@" >"$tmp/said" 2>&1; then pass; else fail "$name" "exit status 0" "$(tail -n 20 "$tmp/said")"; fi
}

claim "Every gradient is that of central differences, in double precision: each way to score, and both norms and activations"
small='--set model.layers=1 --set model.heads=2 --set model.d_model=6 --set model.d_k=3 --set model.d_ff=5 --set model.context=4
    --set train.batch=1'
for way in configs/scores/*.ini; do
    grep -q score_precision "$way" && continue # rounding has no derivative
    # shellcheck disable=SC2086 # a list of words
    checks "gradients of $way" ./train gradcheck "$way" $small --threads 1
done
printf '[sweep]\nmodel.norm = pre, post\nmodel.activation = gelu, relu\nmodel.bias = yes, no\nmodel.dropout = 0, .2\n' >"$tmp/modes.ini"
# shellcheck disable=SC2086
checks "gradients of both norms and activations" ./train gradcheck "$tmp/modes.ini" $small --threads 1

claim "The fast engine computes what plain.c computes, and both what PyTorch computes, in single and in double precision"
for program in "$@"; do checks "$program" "$program"; done

claim "The same seed gives the same bits with one thread and two, and when the run was stopped and resumed"
cat >"$tmp/tiny.ini" <<'CONFIG'
[model]
layers = 1
d_model = 16
context = 16
[train]
steps = 4000
batch = 4
[eval]
batches = 1
[log]
attention_every = 0
sample_tokens = 4
CONFIG
train() { ./train "$tmp/tiny.ini" --quiet "$@" >/dev/null 2>&1; }
train --threads 1 --out "$tmp/one"
train --threads 2 --out "$tmp/two"
./train "$tmp/tiny.ini" --quiet --threads 2 --out "$tmp/stopped" >/dev/null 2>&1 &
until [ "$(grep -c , "$tmp/stopped/metrics.csv" 2>/dev/null || echo 0)" -gt 5 ]; do sleep .01; done
kill -TERM $!
wait $!
check "the status of a run that was stopped" 143 $?
checks "resuming it" ./train resume "$tmp/stopped" --quiet
for run in one two stopped; do tests/numbers.sh "$tmp/$run/checkpoint/last.safetensors" >"$tmp/$run.numbers"; done
checks "one thread and two" cmp "$tmp/one.numbers" "$tmp/two.numbers"
checks "stopped and resumed" cmp "$tmp/one.numbers" "$tmp/stopped.numbers"

claim "A wrong config gets one line that says what, where and what to do, and nothing is written"
printf '[model]\nheads = 3\n' >"$tmp/wrong.ini"
./train "$tmp/wrong.ini" --out "$tmp/nothing" >"$tmp/out" 2>"$tmp/err"
check "its status" 2 $?
check "its line" "1 ./train: $tmp/wrong.ini: model.heads = 3 (line 2) does not divide model.d_model = 128 (the default); choose others, or set model.d_k" \
    "$(grep -c '' "$tmp/err") $(cat "$tmp/err")"
check "what is written" "" "$(cat "$tmp/out"; ls -d "$tmp/nothing" 2>/dev/null)"
checked
