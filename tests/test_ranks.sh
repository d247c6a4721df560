#!/bin/sh
# One run over ranks (docs/cluster.md): 1, 2 and 4 processes on this machine, each with another number of threads, leave
# the files that one process leaves; stopped, killed and resumed by another number of ranks; what is refused; and ranks
# that compute something else. Needs MPI's compiler wrapper and launcher (MPICC=... MPIRUN=... for those of another MPI);
# without them it is skipped, which is a failure with SKIP=no.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
mpi_or_skip
repository=$PWD
tmp=$(mktemp -d) || exit 1
running=
clean_up() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp" && ln -s "$repository/$build/train-mpi" train-mpi || exit 1
# Everything that could depend on who computes it: dropout, accumulated batches, QK-clip's maximum, a learned multiplier.
cat >tiny.ini <<'CONFIG'
[model]
layers = 2
d_model = 24
context = 16
dropout = 0.1
[attention]
scale_learned = head
[train]
steps = 60
batch = 8
shards = 4
accumulate = 2
warmup = 5
qk_clip = 1
[eval]
every = 20
batches = 2
[log]
attention_every = 25
checkpoint_every = 25
sample_tokens = 20
every = 7
CONFIG
# Many steps to be stopped in, and a constant learning rate, so that a run that is stopped and then made shorter is a
# run of that length.
sed -e 's/^steps = .*/steps = 200000\nmin_lr = 0.001/' -e 's/^warmup = .*/warmup = 0/' -e 's/^every = 7/every = 1/' tiny.ini >long.ini

# ranks N ARGUMENT...
ranks() {
    number=$1
    shift
    "$mpirun" -n "$number" ./train-mpi "$@"
}
# Prints the files of a run, without times, the command and the numbers of threads and ranks.
contents() {
    (
        if ! cd "$1" || [ ! -s metrics.csv ]; then
            echo "$1 is no run"
            exit
        fi
        find . -type f ! -name report.html ! -name run.json ! -name metrics.csv ! -name last.safetensors -exec cksum {} + | sort
        cut -d, -f1,2,4- metrics.csv
        sed '/"resumed": \[/,/^  \]/d' run.json | grep -vE '"(command|threads|ranks|start|end|seconds|logs)"'
        "$repository/tests/numbers.sh" checkpoint/last.safetensors | cksum
    )
}
# same_run NAME A B
same_run() {
    contents "$2" >a.txt
    contents "$3" >b.txt
    check "$1" "" "$(diff a.txt b.txt)"
}

# --- the bits of one process
./train-mpi tiny.ini --out alone --threads 2 --quiet >/dev/null
"$repository/train" tiny.ini --out without --threads 1 --quiet >/dev/null
same_run "train-mpi without a launcher is train" without alone
for n in 1 2 4; do
    ranks $n tiny.ini --out "by$n" --threads $((1 + n % 3)) --quiet >"by$n.out" 2>&1
    check "status of $n ranks" 0 $?
    same_run "$n ranks leave what one process leaves" without "by$n"
    check "lines of results of $n ranks" 1 "$(grep -c '^done after 60 steps' "by$n.out")"
done
check_match "run.json counts the ranks" '"ranks": 4' "$(cat by4/run.json)"
check "run.json of one rank" 0 "$(grep -c '"ranks"' by1/run.json)"
for settings in '2 train.optimizer=muon train.shards=2' '4 train.optimizer=muon model.layers=1 train.precision=bf16' \
    '2 data.task=recall data.recall_pairs=3 train.engine=plain model.dropout=0 attention.scale_learned=no train.qk_clip=0'; do
    n=${settings%% *}
    set --
    for setting in ${settings#* }; do set -- "$@" --set "$setting"; done
    rm -rf one more
    ./train-mpi tiny.ini --out one --quiet --threads 1 --set train.steps=12 "$@" >/dev/null
    ranks "$n" tiny.ini --out more --quiet --threads 1 --set train.steps=12 "$@" >/dev/null 2>&1
    same_run "$n ranks with ${settings#* }" one more
done

# --- stopped and resumed by others
steps_of() { cut -d, -f1 "$1/metrics.csv" 2>/dev/null | tail -n 1; }
# wait_for RUN STEP: until its log has this step
wait_for() {
    for _ in $(seq 600); do
        step=$(steps_of "$1")
        case $step in *[!0-9]* | '') ;; *) [ "$step" -lt "$2" ] || return 0 ;; esac
        sleep 0.1
    done
    check "$1 reached step $2 in a minute" yes "no: ${step:-no log}"
}
# ranks_of LAUNCHER: the processes, which it may have started by another one
ranks_of() { pgrep -x -P "$1" train-mpi || for child in $(pgrep -P "$1"); do ranks_of "$child"; done; }
rank_of() { ranks_of "$1" | tail -n 1; }
result_of() { sed -n 's/^.*"result": *"\([a-z]*\)".*$/\1/p' "$1/run.json"; }

# Rank 1 alone is signalled, and all stop at the same step.
"$mpirun" -n 2 ./train-mpi long.ini --out stopped --quiet --threads 1 >stopped.out 2>&1 &
running=$!
wait_for stopped 30
kill -TERM "$(rank_of $running)"
wait $running
check "status after SIGTERM to a rank" 143 $?
check "result" interrupted "$(result_of stopped)"
check_match "rank 0 says how to resume" '^to resume: ./train-mpi resume stopped$' "$(cat stopped.out)"
# The launcher is signalled. It passes SIGUSR1 on, and waits until the ranks have ended.
"$mpirun" -n 4 ./train-mpi resume stopped --quiet --threads 1 >resumed.out 2>&1 &
running=$!
wait_for stopped $(($(steps_of stopped) + 20))
kill -USR1 $running
wait $running
check "status after SIGUSR1 to mpirun" 138 $?
check "result after SIGUSR1 to mpirun" interrupted "$(result_of stopped)"
check_match "it was saved" '^stopped after [0-9]+ steps' "$(cat resumed.out)"
running=
# A rank is killed: all end within seconds, and there is a checkpoint.
ranks 2 resume stopped --quiet --threads 2 >killed.out 2>&1 &
running=$!
wait_for stopped $(($(steps_of stopped) + 40))
kill -KILL "$(rank_of $running)"
before=$(date +%s)
wait $running
check_match "status after SIGKILL to a rank, of Open MPI or of MPICH" '^(137|9)$' $?
running=
check "seconds until mpirun had ended, up to 10" yes "$([ $(($(date +%s) - before)) -le 10 ] && echo yes)"
# The processes that it has killed may end a moment later.
while left=$(pgrep -f "^\./train-mpi resume stopped") && [ $(($(date +%s) - before)) -le 10 ]; do sleep 0.1; done
check "processes that are left after ten seconds" "" "$left"
check "result of a killed run" running "$(result_of stopped)"
# However it was stopped: continued by four, it has the bits of a run that never was.
last=$(($(steps_of stopped) + 15))
mkdir whole && sed "s/^steps = .*/steps = $last/" long.ini >whole/long.ini
./train-mpi whole/long.ini --out whole/run --quiet --threads 2 >/dev/null
ranks 4 resume stopped --quiet --threads 1 --set train.steps=$last >resumed.out 2>&1
check "status of the last resume" 0 $?
same_run "stopped twice, killed, and resumed by other ranks" whole/run stopped

# A rank is signalled during an evaluation, which takes nearly all the time here: all ranks end it, and stop together.
sed -e 's/^every = 20/every = 1/' -e 's/^batches = .*/batches = 0/' long.ini >evaluating.ini
for which in head tail; do
    timeout 120 "$mpirun" -n 2 ./train-mpi evaluating.ini --out "evaluating-$which" --quiet --threads 1 >said 2>&1 &
    running=$!
    wait_for "evaluating-$which" 2
    kill -TERM "$(ranks_of $running | "$which" -n 1)"
    wait $running
    check "status after SIGTERM in an evaluation ($which)" 143 $?
    running=
    check "result after SIGTERM in an evaluation ($which)" interrupted "$(result_of "evaluating-$which")"
    last=$(($(steps_of "evaluating-$which") + 3))
    rm -rf whole && mkdir whole && sed "s/^steps = .*/steps = $last/" evaluating.ini >whole/evaluating.ini
    ./train-mpi whole/evaluating.ini --out whole/run --quiet --threads 2 >/dev/null
    ./train-mpi resume "evaluating-$which" --quiet --threads 1 --set train.steps=$last >said 2>&1
    same_run "stopped in an evaluation ($which) and resumed" whole/run "evaluating-$which"
done

# --- errors: one line. What all ranks know, rank 0 says; what one rank knows, ends all
# How many lines there are in `said` without those of launchers that cannot be kept from speaking: Open MPI 5 and MPICH
lines_said() { sed -e '/^-\{40\}/,/^-\{40\}/d' -e '/^Abort(/d' said | grep -c '[^ ]'; }
refused() {
    want=$1 pattern=$2
    shift 2
    "$@" >said 2>&1
    check "status of: $*" "$want" $?
    check "lines of: $*" 1 "$(lines_said)"
    check_match "refusal of: $*" "$pattern" "$(cat said)"
    check "written by: $*" "" "$(ls -d new 2>/dev/null)"
}
refused 2 'train.shards = 4 are not divided among 3 ranks: start 1, 2, 4 ... 4 of them' ranks 3 tiny.ini --out new
refused 2 'train.shards = 4 are not divided among 8 ranks' ranks 8 tiny.ini --out new
refused 2 'train.shards = 3 \(--set\) must be a power of two that divides' ranks 2 tiny.ini --out new --set train.shards=3
refused 2 'must be a power of two that divides train.batch = 6' ranks 2 tiny.ini --out new --set train.batch=6
refused 2 'by1 exists' ranks 2 tiny.ini --out by1
refused 1 'cannot make the directory tiny.ini' ranks 2 tiny.ini --out tiny.ini/new
refused 2 'there is no option --nothing' ranks 2 tiny.ini --out new --nothing
refused 2 'there is no verb and no file resum; did you mean resume' ranks 2 resum by1
refused 2 'rank 1: --threads takes' "$mpirun" -n 1 ./train-mpi tiny.ini --out new : -n 1 ./train-mpi tiny.ini --threads 0
refused 2 'cannot read config none.ini' ranks 2 none.ini --out new
refused 1 'rank 1: train.lr is 0.002, and that of rank 0 is 0.001' \
    "$mpirun" -n 1 ./train-mpi tiny.ini --out new : -n 1 ./train-mpi tiny.ini --out new --set train.lr=0.002
refused 2 'rank 1: cannot read config none.ini' \
    "$mpirun" -n 1 ./train-mpi tiny.ini --out new : -n 1 ./train-mpi none.ini --out new
refused 1 'rank 1: the command is resume, and that of rank 0 is train' \
    "$mpirun" -n 1 ./train-mpi tiny.ini --out new : -n 1 ./train-mpi resume by1
refused 1 'rank 1: the command is a dry run, and that of rank 0 is train' \
    "$mpirun" -n 1 ./train-mpi tiny.ini --out new : -n 1 ./train-mpi tiny.ini --out new --dry-run
check "a dry run by 2 ranks" "$(./train-mpi tiny.ini --dry-run --threads 1 | grep -v '^;')" \
    "$(ranks 2 tiny.ini --dry-run --threads 1 | grep -v '^;')"
ranks 2 tiny.ini --out diverged --quiet --set train.optimizer=sgd --set train.lr=1e6 >said 2>&1
check "status of ranks that diverge" 3 $?
check_match "what they say" '^./train-mpi: diverged at step [0-9]+: ' "$(cat said)"
check "lines of it" 1 "$(lines_said)"
check "result" diverged "$(result_of diverged)"
# Only rank 0 writes, so it alone knows that its directory is no longer there.
ranks 2 long.ini --out moved --quiet --threads 1 >said 2>&1 &
running=$!
wait_for moved 10
mv moved away
wait $running
check "status of ranks whose directory was moved" 1 $?
running=
check_match "what they say" '^./train-mpi: moved was moved or removed while it trained' "$(cat said)"
check "lines of it" 1 "$(lines_said)"
check "what is there" "" "$(ls -d moved 2>/dev/null)"

refused 2 'OMPI_COMM_WORLD_SIZE is 2, and each of these processes would train a run of its own: start train-mpi' \
    env OMPI_COMM_WORLD_SIZE=2 "$repository/train" tiny.ini --out new
refused 2 'SLURM_STEP_NUM_TASKS is 4, .* own: start them by the mpirun of the MPI that it was built with' \
    env SLURM_STEP_NUM_TASKS=4 ./train-mpi tiny.ini --out new

# --- ranks that compute something else
mutant() {
    mkdir -p "mutant/$build" && (
        cd "$repository" && cp -a src lab data docs tests share configs Makefile train.c "$tmp/mutant" &&
            cp -a "$build/float" "$build/embedded" "$build/flags" "$build/mpi" "$tmp/mutant/$build"
    )
    sed "$3" "$repository/$2" >"mutant/$2"
    cmp -s "$repository/$2" "mutant/$2" && check "the pattern for $2 changes it" yes no
    make -s -C mutant SAME_FLAGS=yes WARNINGS=-w CFLAGS= "$build/train-mpi" || check "$1 compiles" yes no
    cp "mutant/$build/train-mpi" "$1"
    rm -rf mutant
}
mutant other-kernels src/gemm/gemm.c '/^    \[GEMM_/s/"sqrtdk"/"others"/; s/"OpenBLAS"/"AnotherBLAS"/'
refused 1 'rank 2: the kernel of products is (others|AnotherBLAS), and that of rank 0 is (sqrtdk|OpenBLAS)' \
    "$mpirun" -n 2 ./train-mpi tiny.ini --out new : -n 1 ./other-kernels tiny.ini --out new : -n 1 ./train-mpi tiny.ini --out new
mutant other-update src/ops/update.c 's/(root + k.eps)/(root + 2 * k.eps)/'
"$mpirun" -n 1 ./train-mpi tiny.ini --quiet --out drift : -n 1 ./other-update tiny.ini --quiet --out drift >said 2>&1
check "status of ranks that drift apart" 1 $?
check_match "what they say" 'rank 1: the hash of the parameters after 25 steps is [0-9a-f]{16}, and that of rank 0 is' "$(cat said)"
check "result" failed "$(result_of drift)"
check "parameters of the checkpoint, which is older" 0 "$(./train-mpi eval drift >/dev/null 2>&1; echo $?)"

checked
