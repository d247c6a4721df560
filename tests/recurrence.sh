#!/bin/sh
# Learning has not changed: trains configs/shakespeare_cpu.ini with seeds that the table in docs/testing.md does not have
# and compares the validation losses at steps 250, 1000 and 2000 with the band that the table's seeds give: mean +-
# t s sqrt(1 + 1/n), which holds 99 of 100 further seeds if losses are normal (Student 1908).
#   tests/recurrence.sh [SEED...]            compare (default: seed 100); fails outside of the band
#   tests/recurrence.sh --measure SEED...    print rows for the table
# Needs data/tinyshakespeare.txt (data/get_shakespeare.sh), or its place in $SHAKESPEARE. About a minute a seed.
set -eu
cd "$(dirname "$0")/.."
text=${SHAKESPEARE:-data/tinyshakespeare.txt}
[ -f "$text" ] || { echo "recurrence.sh: no $text: run data/get_shakespeare.sh, or set SHAKESPEARE" >&2; exit 2; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# losses SEED: trains with the seed and prints the validation losses at steps 250, 1000 and 2000
losses() {
    ./train configs/shakespeare_cpu.ini --quiet --out "$out/$1" --set data.corpus="$text" --set train.seed="$1" \
        --set log.attention_every=0 --set log.sample_tokens=0 >/dev/null
    awk -F, '$1 == 250 || $1 == 1000 || $1 == 2000 { printf " %.4f", $6 }' "$out/$1/metrics.csv"
}
# column N: prints the values of the table's column N
column() { awk -F'|' -v n="$1" '/^\| *[0-9]+ *\| *[0-9]\.[0-9]+ *\| *[0-9]\.[0-9]+ *\|/ { print $(n + 2) }' docs/testing.md; }
# band: reads values from stdin and prints their mean, standard deviation, lower and upper end of the band
band() {
    awk '{ sum += $1; squares += $1 * $1; n++ }
         END {
             # 0.995 quantile of Student'"'"'s t for 4 ... 12 degrees of freedom
             split("4.604 4.032 3.707 3.499 3.355 3.250 3.169 3.106 3.055", t)
             if (n < 5 || n > 13) exit 1
             mean = sum / n; s = sqrt((squares - n * mean * mean) / (n - 1)); half = t[n - 4] * s * sqrt(1 + 1 / n)
             printf "%.4f %.4f %.4f %.4f\n", mean, s, mean - half, mean + half
         }'
}

if [ "${1-}" = --measure ]; then
    shift
    for seed in "$@"; do
        losses "$seed" | awk -v seed="$seed" '{ printf "| %s | %s | %s | %s |\n", seed, $1, $2, $3 }'
    done
    exit
fi
[ $# -gt 0 ] || set -- 100
bad=0
for seed in "$@"; do
    came=$(losses "$seed")
    for column in 1 2 3; do
        limits=$(column $column | band)
        step=$(echo 250 1000 2000 | cut -d ' ' -f $column)
        echo "$(echo "$came" | awk -v n=$column '{ print $n }') $limits" | awk -v seed="$seed" -v step="$step" '{
            inside = $1 >= $4 && $1 <= $5
            printf "seed %s, step %4d: validation loss %.4f, expected %.4f to %.4f (mean %.4f, s %.4f)%s\n", seed, step,
                $1, $4, $5, $2, $3, inside ? "" : "  OUTSIDE"
            exit !inside
        }' || bad=1
    done
done
exit $bad
