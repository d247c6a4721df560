#!/bin/sh
# Trains lab/wild/sweep.ini with the keys of each of configs/wild/, in runs/wild, and writes lab/docs/results/wild_sweep.csv.
# Stopped and started again, it goes on where it was.
set -eu
cd "$(dirname "$0")/../.."
out=runs/wild
results=lab/docs/results/wild_sweep.csv

# keys_of CONFIG: its keys as options, a word a line.
keys_of() {
    sed 's/ *;.*//' "$1" | awk -F ' *= *' '
        /^\[/ { section = substr($0, 2, length($0) - 2) }
        NF == 2 && $1 != "lr" { printf "--set\n%s.%s=%s\n", section, $1, $2 }'
}

mkdir -p "$out"
for config in configs/wild/*.ini; do
    kind=$(basename "$config" .ini)
    if [ -e "$out/$kind/run.json" ]; then
        ./train resume "$out/$kind" >/dev/null
    else
        rm -rf "${out:?}/$kind"
        # shellcheck disable=SC2046 # no key has a blank
        ./train sweep lab/wild/sweep.ini --out "$out/$kind" --jobs 1 --threads 1 $(keys_of "$config") >/dev/null
    fi
done
for config in configs/wild/*.ini; do
    kind=$(basename "$config" .ini)
    awk -F, -v OFS=, -v kind="$kind" '{ $1 = $1 OFS (NR == 1 ? "kind" : kind); print }' "$out/$kind/summary.csv"
done | awk 'NR == 1 || !/^run,/' >"$results"
