#!/bin/sh
# Trains the ten models of this project that own.py measures, and one of them step by step, at a constant rate after the
# warm-up, so that a shorter run is the beginning of a longer one. Minutes.
#     lab/wild/own.sh DIR [SEED]    the runs are written into DIR
set -eu
cd "$(dirname "$0")/../.."
dir=$1
seed=${2:-1}

one() { # NAME CONFIG OPTION...
    name=$1
    config=$2
    shift 2
    [ -e "$dir/$name" ] || ./train "configs/$config.ini" --out "$dir/$name" --quiet --set train.seed="$seed" \
        --set log.attention_every=0 "$@"
}
mkdir -p "$dir"
one heads_8 dk64_scaled --set model.heads=8 --set model.d_k=16
one dk64_scaled dk64_scaled
one dk64_none dk64_none
one dk64_2sqrt dk64_2sqrt
one dk64_dk dk64_dk
one gpt2_scaled dk64_scaled --set model.init=gpt2
one gpt2_none dk64_none --set model.init=gpt2
small="--set model.d_model=64 --set model.d_k=64 --set train.steps=500"
# shellcheck disable=SC2086
{
    one small_constant wild/constant $small
    one small_start wild/nothing_small $small
    one small_scaled wild/sqrt_dk $small
}
for steps in 1 3 10 30 100 300 1000; do
    one "steps_$steps" dk64_scaled --set train.min_lr=3e-3 --set train.steps=$steps
done
