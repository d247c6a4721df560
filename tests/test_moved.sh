#!/bin/sh
# A directory that is moved while the program trains there: a run, a run with a link in its place, a sweep, a share of a
# sweep. The first process says so in one line and ends with status 1. What has taken the directory's place stays as it
# is, and what was moved is whole: it is resumed to its end.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export OMP_NUM_THREADS=1
train=$PWD/train
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp" || exit 1

cat >tiny.ini <<'CONFIG'
[model]
layers = 1
heads = 1
d_model = 8
context = 8
[train]
steps = 4
batch = 2
[eval]
every = 1000
batches = 1
[log]
every = 1
attention_every = 1000
sample_tokens = 0
checkpoint_every = 10
CONFIG
{ cat tiny.ini && printf '[sweep]\ntrain.seed = 1, 2, 3\n'; } >sweep.ini
long='--set train.steps=1000000'

listing() { (cd "$1/" && find . -type f -exec cksum {} + | sort); }
rows() { if [ -f "$1/metrics.csv" ]; then grep -c , "$1/metrics.csv"; else echo 0; fi; }
# begins RUN COMMAND...: starts it in the background, and waits for the first rows of the run.
begins() {
    run=$1
    shift
    "$train" "$@" --quiet >/dev/null 2>said &
    first=$!
    while [ "$(rows "$run")" -lt 30 ] && kill -0 "$first" 2>/dev/null; do sleep 0.02; done
}
# ends NAME PLACE: waits for the first process, whose directory was moved; PLACE is as `before` says.
ends() {
    wait "$first"
    check "$1: the status" 1 $?
    check_match "$1: the line" "$2 was moved or removed while it trained" "$(cat said)"
    check "$1: one line" 1 "$(grep -c '' said)"
    check "$1: what has taken its place" "$before" "$(listing "$2")"
}
# goes_on NAME RUN: a run that was moved is resumed to a step that it has not reached.
goes_on() {
    check "$1: no owner" no "$([ -e "$2/owner" ] && echo yes || echo no)"
    steps=$(($(tail -n 1 "$2/metrics.csv" | cut -d , -f 1) + 5))
    "$train" resume "$2" --set train.steps=$steps --quiet >/dev/null 2>said
    check "$1: resumed" "0 $steps" "$? $(tail -n 1 "$2/metrics.csv" | cut -d , -f 1)"
}

# shellcheck disable=SC2086 # a list of words
begins r tiny.ini --out r $long
mv r r.old
"$train" tiny.ini --out r --quiet >/dev/null || fail "a run in the place of another" 0 $?
before=$(listing r)
ends run r
goes_on run r.old

# shellcheck disable=SC2086
begins l tiny.ini --out l $long
before=$(listing r)
mv l l.old
ln -s r l
ends link l
goes_on link l.old

# shellcheck disable=SC2086
begins s/seed=1 sweep sweep.ini --out s --jobs 1 $long
mv s s.old
"$train" sweep sweep.ini --out s --quiet >/dev/null || fail "a sweep in the place of another" 0 $?
before=$(listing s)
ends sweep s
goes_on sweep "s.old/seed=1"

# shellcheck disable=SC2086
"$train" sweep sweep.ini --prepare --out p --quiet $long >/dev/null
begins p/seed=1 sweep p --share 1/1 --jobs 1
mv p p.old
"$train" sweep sweep.ini --prepare --out p --quiet >/dev/null || fail "a prepared sweep in the place of another" 0 $?
before=$(listing p)
ends share p
goes_on share "p.old/seed=1"

checked
