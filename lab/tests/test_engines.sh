#!/bin/sh
# lab/docs/engines.md: its tables are those of results/engines.csv, and a changed one is found. Each engine that was guessed about
# has a row for each model, or one that says why not.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
plain_build_or_skip
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

check "lab/engines/engines.py --check" "" "$(lab/engines/engines.py --check 2>&1)"

# A copy of the page and its files, with one planted change at a time.
mkdir -p "$tmp/lab/docs/results"
cp -R lab/engines "$tmp/lab"
planted() { # WHAT SED-SCRIPT FILE
    cp lab/docs/engines.md "$tmp/lab/docs"
    cp lab/docs/results/engines.csv "$tmp/lab/docs/results"
    sed "$2" "lab/docs/$3" >"$tmp/lab/docs/$3"
    cmp -s "lab/docs/$3" "$tmp/lab/docs/$3" && fail "$1" "a change" "none"
    came=$("$tmp/lab/engines/engines.py" --check 2>&1) && fail "$1" "exit status 1" 0
    check_match "$1" '^lab/docs/engines.md has other parts than' "$came"
}
planted "a difference in the page" '/^| mlx-lm/s/e-6/e-7/' engines.md
planted "a difference in the table" '/^mlx-lm,.*,none,/s/e-06/e-02/' results/engines.csv
planted "an engine that is gone" '/^tinygrad,/d' results/engines.csv

came=$(python3 - <<'PYTHON'
import csv

rows = list(csv.DictReader(open("lab/docs/results/engines.csv", encoding="utf-8")))
guessed = {row["engine"] for row in csv.DictReader(open("lab/engines/guesses.csv", encoding="utf-8"))}
models = {name: [row["model"] for row in rows if row["engine"] == name] for name in guessed}
print([name for name, has in models.items() if has != ["none", "sqrt_dk", "dk", "free", "untied", "relu"] and has != ["all"]])
print(all(row["version"] for row in rows if row["model"] != "all"))
print(all(row["difference"] or row["said"] for row in rows))
PYTHON
)
check "rows of the table" "[]
True
True" "$came"
checked
