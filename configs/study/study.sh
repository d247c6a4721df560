#!/usr/bin/env bash
# The study of docs/results.md: trains the sweeps of this folder one after another, in runs/study, and puts what each run
# measured into docs/results/NAME.csv. The page's tables and pictures are made from those files (page.py). Stopped and
# started again, it resumes where it was; what has finished is not trained again. Remove runs/study to begin afresh.
#   make study          all of it: two hours on two cores, 3 GB
#   make study-quick    the headline with two seeds, in runs/study-quick: ten minutes; nothing else changes
#   study.sh --try      every sweep, two steps each, and a page of its own, in runs/study-try: whether all of this works
set -euo pipefail
cd "$(dirname "$0")/../.."
overrides=()
folder=runs/study
results=docs/results
page=docs/results.md
# In the order of the page. Rates are chosen by the first four, on seeds 1 and 2, and reported on others.
sweeps=(rates rates_edge rates_d_k rates_post best slower slower_d_k gpt2 start rate switch switch_back post text long clip large divisors)
case "${1:-}" in
"") ;;
--quick)
    folder=runs/study-quick
    overrides=(--set "sweep.train.seed=3, 4")
    ;;
--try)
    folder=runs/study-try
    overrides=(--set "sweep.train.seed=1, 2" --set train.steps=2 --set train.warmup=1 --set eval.batches=1 --set data.corpus=)
    results=$folder/results
    rm -rf $folder
    mkdir -p $folder
    cp $page $folder/results.md
    page=$folder/results.md
    ;;
*)
    echo "usage: $0 [--quick | --try]" >&2
    exit 2
    ;;
esac

fail() {
    echo "study: $1" >&2
    exit "${2:-1}"
}

# The config of a sweep as it is resolved, without comments and blank lines.
plain() { sed '/^;/d; /^$/d'; }

# Trains what is not trained yet, if the sweep that is there is that of the config.
train() {
    local config=configs/study/$1.ini there=$folder/$1 wanted
    echo "== $config -> $there" >&2
    wanted=$(./train sweep "$config" --dry-run "${overrides[@]}")
    mkdir -p "$folder"
    [ -e "$there/run.json" ] || rm -rf "$there" # it was killed before it began
    if ! [ -e "$there" ]; then
        ./train sweep "$config" --out "$there" "${overrides[@]}"
    elif [ "$(plain <<<"$wanted")" = "$(./train sweep "$there/config.ini" --dry-run | plain)" ]; then
        ./train resume "$there"
    else
        fail "$there is not the sweep of $config as it is now: move it away, and start again" 2
    fi
}

# What grows in an undivided model: a row for each run at d_k 64 of two sweeps, means over heads of what `eval --swap-qk`
# prints.
weights() {
    local sweep run
    echo "run,lr,scale_divisor,seed,result,qk_norm_initial,qk_norm_trained,score_std_initial,score_std_trained,score_std_initial_qk,score_std_trained_qk"
    for sweep in best slower; do
        cut -d, -f1 "$folder/$sweep/summary.csv" | grep -E "^(d_k=64[+])?scale_divisor=" | while read -r run; do
            ./train eval "$folder/$sweep/$run" --swap-qk |
                awk -F, -v run="$run" -v lr="$(sed -n 's/^lr = //p' configs/study/$sweep.ini)" '
                    NR > 1 { for (i = 3; i <= NF; i++) sum[i] += $i }
                    END {
                        split(run, part, /[+]?[a-z_]+=/)
                        keys = part[length(part) - 1] "," part[length(part)]
                        printf "%s,%s,%s,finished", run, lr, keys
                        for (i = 3; i <= NF; i++) printf ",%.6g", sum[i] / (NR - 1)
                        print ""
                    }'
        done
    done
}

if [ "${1:-}" = --quick ]; then
    train best
    sed -n '/^| validation loss |/,/^±/{/^±/!p}' $folder/best/summary.md
    exit
fi
[ "${1:-}" = --try ] || [ -e data/tinyshakespeare.txt ] || data/get_shakespeare.sh
mkdir -p $results
for name in "${sweeps[@]}"; do
    train "$name"
    cp "$folder/$name/summary.csv" "$results/$name.csv"
done
weights >$results/weights.csv
configs/study/page.py --results $results --page "$page"
