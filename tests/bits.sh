#!/bin/sh
# Short runs of every kind of model, and the hashes of all that they compute: weights, moments, losses, statistics of
# attention, text. They are compared with tests/bits.sha256, so that a change that was not meant to change a number is
# seen when it does. The hashes are of builds by gcc 12 for x86-64 with AVX2 or more (other compilers contract sums of
# products elsewhere); they depend neither on the number of threads nor on the width of the vectors.
#   tests/bits.sh [--write]     --write: makes the hashes anew, where bits were meant to change
# PROGRAM=path: the program that is run (default: ./train).
set -eu
cd "$(dirname "$0")/.."
program=${PROGRAM:-./train} hashes=tests/bits.sha256
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# run NAME KEY=VALUE...: prints a line for each thing that was computed.
run() {
    name=$1 out=$tmp/$1
    shift
    for setting; do set -- "$@" --set "$setting"; shift; done
    "$program" tests/bits.ini --quiet --threads 2 --out "$out" --set train.lr=1e-3 --set train.steps=20 --set train.warmup=5 \
        --set eval.every=10 --set eval.batches=4 --set log.every=1 --set log.attention_every=10 \
        --set log.sample_tokens=40 "$@" >/dev/null
    # best.safetensors has the same tensors as last.safetensors has before the moments
    last=$out/checkpoint/last.safetensors parameters=$(tests/numbers.sh "$out/checkpoint/best.safetensors" | wc -c)
    printf '%s  %s parameters\n' "$(tests/numbers.sh "$last" | head -c "$parameters" | sha256sum | cut -d' ' -f1)" "$name"
    printf '%s  %s moments\n' "$(tests/numbers.sh "$last" | tail -c +$((parameters + 1)) | sha256sum | cut -d' ' -f1)" "$name"
    for file in attention.csv samples.txt; do
        printf '%s  %s %s\n' "$(sha256sum <"$out/$file" | cut -d' ' -f1)" "$name" "$file"
    done
    # without the seconds, and without the accuracy that only recall has
    printf '%s  %s metrics.csv\n' "$(cut -d, -f1,2,4-7 "$out/metrics.csv" | sha256sum | cut -d' ' -f1)" "$name"
}

{
    run default
    run post_relu model.norm=post model.activation=relu
    run no_bias_untied model.bias=no model.tie_embeddings=no model.init=gpt2
    run post_no_bias model.norm=post model.bias=no attention.scale_divisor=none
    run dropout model.dropout=0.2
    run post_dropout_accumulated model.norm=post model.dropout=0.1 train.accumulate=3 train.batch=5
    run shards train.shards=8 model.dropout=0.1 train.accumulate=2 train.qk_clip=20 attention.scale_divisor=none
    run sgd train.optimizer=sgd train.lr=0.1 model.init=torch
    run context_over_64 model.context=150 train.batch=4 attention.scale_divisor=2sqrt_dk
    run slices train.batch=80
    run slices_of_one model.context=2100 train.batch=3 train.steps=2 eval.batches=1
    run odd_sizes model.heads=3 model.d_model=50 model.d_k=20 model.d_ff=77 attention.scale_divisor=dk model.init=xavier
    run d_k_over_384 model.heads=1 model.d_k=400 attention.scale_divisor=20 train.steps=10
    run one_sequence train.batch=1 model.context=100 model.dropout=0.1
    run narrow_heads model.heads=16 model.layers=1 train.weight_decay=0 train.grad_clip=0
    run additive attention.score=additive attention.qk_norm=rms attention.scale_learned=head model.dropout=0.1
    run cosine attention.qk_norm=l2 attention.scale_divisor=0.125 attention.scale_learned=layer attention.sink=one train.batch=80
    run length_and_cap attention.qk_norm=layer attention.scale_length=log attention.softcap=5 attention.sink=learned
    run rounded attention.score_precision=fp16 attention.scale_divisor=none train.qk_clip=20 train.accumulate=2
    run recall data.task=recall model.norm=post
    run muon train.optimizer=muon
    run muon_odd_sizes train.optimizer=muon train.momentum=0.8 model.heads=3 model.d_model=50 model.d_k=20 model.d_ff=77 model.tie_embeddings=no train.accumulate=2 train.qk_lr_scale=2
} >"$tmp/hashes"

if [ "${1-}" = --write ]; then
    cp "$tmp/hashes" $hashes
    echo "wrote $hashes"
elif diff $hashes "$tmp/hashes"; then
    echo "$(wc -l <$hashes) hashes are what they were"
else
    echo "bits have changed (see tests/bits.sh)" >&2
    exit 1
fi
