#!/bin/sh
# lab/docs/wild.md: its tables and figures are those of the committed CSV files, and a changed one is found. The rows that
# were read are measured, guesses are judged by name, and every measured row says what it needs to.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
plain_build_or_skip
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

check "lab/wild/page.py --check" "" "$(lab/wild/page.py --check 2>&1)"

# A copy of the page and its files, with one planted change at a time.
mkdir -p "$tmp/lab/docs/results"
cp -R lab/wild "$tmp/lab"
cp lab/docs/results/wild*.csv "$tmp/lab/docs/results"
planted() { # WHAT SED-SCRIPT FILE
    cp lab/docs/wild.md "$tmp/lab/docs"
    cp lab/docs/results/wild*.csv "$tmp/lab/docs/results"
    sed "$2" "lab/docs/$3" >"$tmp/lab/docs/$3"
    cmp -s "lab/docs/$3" "$tmp/lab/docs/$3" && fail "$1" "a change" "none"
    came=$("$tmp/lab/wild/page.py" --check 2>&1) && fail "$1" "exit status 1" 0
    check_match "$1" '^lab/docs/wild\.md:[0-9]*: should be: ' "$came"
}
planted "a figure in a sentence" 's/[0-9]*<!-- = folders -->/7<!-- = folders -->/' wild.md
planted "a row of a table" 's/^| 1\/√d_k | [0-9]*/| 1\/√d_k | 7/' wild.md
planted "a loss of the sweep" 's/,finished,500,\([0-9.]*\),\([0-9.]*\),[0-9.]*/,finished,500,\1,\2,9.9/' results/wild_sweep.csv
planted "an architecture that is gone" '/^gpt_neo,/d' results/wild.csv
planted "a trained model" 's/^sentences,a,median,[0-9.]*/sentences,a,median,9/' results/wild_trained_models.csv
planted "a divisor of ours that was moved" 's/^dk64_scaled,1,a,8,4,[0-9.]*/dk64_scaled,1,a,8,4,9/' results/wild_own_divisor.csv

came=$(python3 - <<'PYTHON'
import csv

results = "lab/docs/results/"
wild = list(csv.DictReader(open(results + "wild.csv", encoding="utf-8")))
measured = {row["name"] for row in wild if not row["reason"]}
print(len(measured) >= 200, all(row["name"] in measured for row in csv.DictReader(open(results + "wild_read.csv", encoding="utf-8"))))
print(all(bool(row["reason"]) != bool(row["multiplier"]) for row in wild))
print(all(float(row["spread"]) < 1e-2 for row in wild if row["spread"]))
guesses = list(csv.DictReader(open("lab/wild/guesses.csv", encoding="utf-8")))
print(len({(row["part"], row["name"]) for row in guesses}) == len(guesses))
PYTHON
)
check "rows of the tables" "True True
True
True
True" "$came"
checked
