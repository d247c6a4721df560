#!/usr/bin/env bash
# The study of docs/results.md: trains the sweeps of this folder one after another, in runs/study, and puts their tables
# and pictures into the page. Stopped and started again, it resumes where it was; what has finished is not trained again.
# Remove runs/study to begin afresh.
#   make study          all of it: one and a half to two hours on two cores, 3 GB
#   make study-quick    the headline with two seeds, in runs/study-quick: ten minutes; the page stays as it is
#   study.sh --try      every sweep, two steps each, and a page of its own, in runs/study-try: whether all of this works
set -euo pipefail
cd "$(dirname "$0")/../.."
overrides=()
folder=runs/study
page=docs/results.md
images=docs/images
case "${1:-}" in
"") ;;
--quick)
    folder=runs/study-quick
    overrides=(--set "sweep.train.seed=1, 2")
    ;;
--try)
    folder=runs/study-try
    overrides=(--set "sweep.train.seed=1, 2" --set train.steps=2 --set train.warmup=1 --set eval.batches=1)
    rm -rf $folder
    mkdir -p $folder/images
    cp $page $folder/results.md
    page=$folder/results.md
    images=$folder/images
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
    elif [ "$(plain <<<"$wanted")" = "$(plain <"$there/config.ini")" ]; then
        ./train resume "$there"
    else
        fail "$there is not the sweep of $config as it is now: move it away, and start again" 2
    fi
}

# The tables of a sweep's summary: losses by divisor and everything else, or else what there is about each setting.
tables() {
    local losses
    losses=$(sed -n '/^| validation loss |/,/^±/{/^±/!p}' "$folder/$1/summary.md")
    printf '%s\n' "${losses:-$(sed -n '/^| setting |/,/^$/p' "$folder/$1/summary.md")}"
}

# place NAME [PICTURE]...: trains a sweep, puts its tables between "<!-- NAME -->" and "<!-- end -->" in the page, and
# the pictures beside the page's others.
place() {
    local name=$1 picture text
    sed -n "/^<!-- $name -->\$/,/^#/p" "$page" | grep -qx "<!-- end -->" ||
        fail "$page has no line <!-- $name --> with <!-- end --> behind it"
    train "$name"
    text=$(tables "$name")
    [ "${text:0:1}" = "|" ] || fail "$folder/$name/summary.md has no table"
    TABLES=$text awk -v begin="<!-- $name -->" '
        $0 == "<!-- end -->" { inside = 0 }
        !inside
        $0 == begin { print ENVIRON["TABLES"]; inside = 1 }' "$page" >"$page.new"
    mv "$page.new" "$page"
    shift
    for picture; do cp "$folder/$name/$picture.png" "$images/study_${name}_$picture.png"; done
}

if [ "${1:-}" = --quick ]; then
    train d_k
    tables d_k
    exit
fi
place d_k final
place heads final
place large_d_k
place init score_std
place learning_rate final
place sgd final
place divisor final
place undo loss score_std qk_norm
echo "study: $page and $images/study_*.png are as measured here" >&2
