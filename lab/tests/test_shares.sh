#!/bin/sh
# A sweep by the shares that mpirun numbers (lab/docs/usage.md), of train and of train-mpi: the tables are those of one
# process, also where the shares are stopped and started again. Needs MPI's compiler wrapper and launcher; without them it is
# skipped, which is a failure with SKIP=no.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
mpi_or_skip
tmp=$(mktemp -d) || exit 1
running=
clean_up() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
ln -s "$PWD/$build/train" "$PWD/$build/train-mpi" "$tmp" && cd "$tmp" || exit 1
cat >sweep.ini <<'CONFIG'
[model]
layers = 1
heads = 1
d_model = 8
context = 8
[train]
steps = 60
batch = 2
warmup = 2
[eval]
every = 20
batches = 2
[log]
every = 1
attention_every = 20
sample_tokens = 0
[sweep]
attention.scale_divisor = sqrt_dk, none
train.seed = 1, 2, 3
CONFIG
# summary.csv without the last column, the time
table() { sed 's/,[^,]*$//' "$1/summary.csv"; }

./train sweep sweep.ini --out straight --threads 1 --jobs 1 --quiet >/dev/null
# Runs with steps enough to be stopped in.
sed 's/^steps = .*/steps = 20000/; s/every = 20$/every = 20000/; s/^every = 1$/every = 100/' sweep.ini >long.ini
./train sweep long.ini --out long --threads 1 --jobs 1 --quiet >/dev/null
for program in train train-mpi; do
    ./$program sweep sweep.ini --prepare --out "by-$program" --threads 1 --jobs 1 --quiet >/dev/null
    mpirun -q -n 4 ./$program sweep "by-$program" --share auto >said 2>&1
    check "status of four shares of $program" 0 $?
    check "runs that they have trained" 6 "$(grep -c '^\[[12]/[12]\] .*: val ' said)"
    ./$program sweep "by-$program" --tables >/dev/null 2>&1
    check "tables by four shares of $program" "$(table straight)" "$(table "by-$program")"

    ./$program sweep long.ini --prepare --out "stopped-$program" --threads 1 --jobs 1 --quiet >/dev/null
    mpirun -q -n 2 ./$program sweep "stopped-$program" --share auto >said 2>&1 &
    running=$!
    for _ in $(seq 600); do
        cat "stopped-$program"/scale*/metrics.csv 2>/dev/null | grep -q '^200,' && break
        sleep 0.1
    done
    # shellcheck disable=SC2046 # a list of shares, which mpirun has started
    kill -TERM $(pgrep -P $running)
    wait $running
    running=
    check_match "a run that was stopped with its share" ': stopped at step [0-9]+$' "$(cat said)"
    check "runs that are said to have failed" 0 "$(grep -c failed said)"
    check "owners that are left" "" "$(ls "stopped-$program"/scale*/owner 2>/dev/null)"
    mpirun -q -n 4 ./$program sweep "stopped-$program" --share auto >said 2>&1
    check "status of four shares of $program that were stopped" 0 $?
    ./$program sweep "stopped-$program" --tables >/dev/null 2>&1
    check "tables of shares of $program that were stopped" "$(table long)" "$(table "stopped-$program")"
done

# --- a sweep of one process of train-mpi; and a launcher's variables without a launcher
./train-mpi sweep sweep.ini --out alone --threads 2 --quiet >/dev/null
check "status of a sweep of train-mpi" 0 $?
check "its table" "$(table straight)" "$(table alone)"
env OMPI_COMM_WORLD_SIZE=2 PMI_SIZE=2 ./train sweep sweep.ini --out variables --threads 2 --quiet >/dev/null
check "status of a sweep with a launcher's variables" 0 $?
check "its table" "$(table straight)" "$(table variables)"

checked
