#!/bin/sh
# Runs by an older version (tests/fixtures) are read, resumed and put into tables, with the numbers that that version
# got from them. What is computed again may differ in the last digits, between processors and compilers. Of losses four
# are compared, of the statistics of scores after some steps three: sanitizers, which compile with -O2, change the fourth.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
unset OPENBLAS_CORETYPE
export OMP_NUM_THREADS=1 # the model is too small for more, and other tests may be running
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
runs=$PWD/tests/fixtures/runs
cp -R "$runs" "$tmp/work" && ln -s "$PWD/train" "$tmp/work/train" && cd "$tmp/work" || exit 1

# run COMMAND...: it ends with status 0; what it printed is in $tmp/out
run() {
    status=0
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
    [ "$status" = 0 ] || status="$status, saying: $(head -c 400 "$tmp/err")"
    check "exit status of: $*" 0 "$status"
}
# near NAME FILE FILE [TOLERANCE]: the fields between commas are the same, those that are numbers to a relative 1e-4
near() {
    check "$1" "" "$(paste -d, "$2" "$3" | awk -F, -v tolerance="${4:-1e-4}" '{
        for (i = 1; i <= NF / 2; i++) {
            a = $i; b = $(NF / 2 + i); d = a - b; if (d < 0) d = -d; size = a < 0 ? -a + 0 : a + 0
            if (a != b && !(a + 0 != 0 && d <= tolerance * size)) print "line " NR ", field " i ": " a " and " b
        } }')"
}
# A run's rows without the seconds.
rows() { cut -d, -f1,2,4- "$1/metrics.csv"; }

run ./train eval finished
check_match "loss of the finished run" '^validation loss 3\.732[34] ' "$(cat "$tmp/out")"
run ./train eval killed
check_match "loss of the killed run" '^validation loss 3\.910[56] ' "$(cat "$tmp/out")"
run ./train sample finished --tokens 20 --seed 2
check "sample" 'CWrtkmu?QBPKInftAoga' "$(cat "$tmp/out")"
run ./train attend finished --csv
check "the snapshot" '0,0,3,0,s,k,1.28169215,0.178011388' "$(sed -n 8p "$tmp/out")"
run ./train attend killed --csv --text keys
sed -n 8p "$tmp/out" >"$tmp/attended"
echo '0,0,3,0,s,k,0.142564267,0.0939356759' | near "attention of the checkpoint" - "$tmp/attended"
for run in finished killed sweep; do
    run ./train why "$run"
    check_match "why $run" '1\.07' "$(cat "$tmp/out")"
    cp "$tmp/out" "why_$run"
    run ./train report "$run"
    check_match "the page of $run" '"name":"(tiny|scale_divisor=none)"' "$(cat "$run/report.html")"
done

# The same rows in logs of another version: other columns, in another order.
for log in metrics attention; do
    awk -F, '{ for (i = NF - (FILENAME ~ /metrics/); i > 0; i--) printf "%s,", $i; print (NR > 1 ? "x" : "new") }' \
        "killed/$log.csv" >"$log" && mv "$log" "killed/$log.csv"
done
run ./train why killed
check "why of other columns" "$(cat why_killed)" "$(cat "$tmp/out")"
run ./train report killed
cp "$runs"/killed/*.csv killed

run ./train resume finished
check_match "a finished run" 'has already finished' "$(cat "$tmp/out" "$tmp/err")"
check "its rows" "$(cat "$runs/finished/metrics.csv")" "$(cat finished/metrics.csv)"

# The owner is on another machine, and has not said that it ended.
./train resume killed --quiet >"$tmp/out" 2>"$tmp/err" && fail "resume with an owner" refused accepted
check_match "who owns it" 'node7' "$(cat "$tmp/err")"
check "its rows" "$(cat "$runs/killed/metrics.csv")" "$(cat killed/metrics.csv)"
run ./train resume killed --quiet --unlocked
rows finished >"$tmp/finished" && rows killed >"$tmp/resumed"
near "a killed run, resumed" "$tmp/finished" "$tmp/resumed"
near "its attention" finished/attention.csv killed/attention.csv 1e-3
check "its samples" "$(grep -v '^====' finished/samples.txt)" "$(grep -v '^====' killed/samples.txt)"

run ./train sweep sweep --tables --quiet
check "summary.csv" "$(cat "$runs/sweep/summary.csv")" "$(cat sweep/summary.csv)"
run ./train resume sweep --quiet
check "a finished run of it" "$(sed -n 2p "$runs/sweep/summary.csv")" "$(sed -n 2p sweep/summary.csv)"
cut -d, -f1-27 sweep/summary.csv | tail -n 1 >"$tmp/resumed"
echo 'scale_divisor=none,none,1,finished,12,3.754428,3.697022,3.750985,3.750985,12,,0.582658,0.720759,2.14407,1.68288,0.0357143,0,0.0139619,0.00769332,0.00666075,0.00538383,4.1363,4.07408,1.14607,1.48412,1,' |
    near "a run of it, resumed" - "$tmp/resumed"
checked
