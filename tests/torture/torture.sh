#!/bin/sh
# Faults as a class of tests, after curl's torture. Each command of the table is run again and again, and each time one
# call that can fail is refused to it, for memory or a file, or that call and all that follow (refuse.c); and it is killed
# at random instants. After each: the exit status is 0, 1 or 2, not a signal; one line on stderr says what failed; what
# was there before is whole; and what can be resumed ends with the bits of a run that never stopped.
#   tests/torture/torture.sh [EVERY [KILLS]]          takes every EVERYth place that calls come from (16; 1: all), and
#                                                     kills KILLS times (20)
#   tests/torture/torture.sh NAME KIND CALL [once|lasting]   one trial of memory or files, as a failure prints it, and
#                                                     NAME kill SECONDS; the directory stays, and its name is printed
# A new verb that reads or writes files adds a row. The library comes from REFUSE_LIBRARY, which `make torture` sets.
set -u
repository=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive LC_ALL=C
library=${REFUSE_LIBRARY:-$repository/build/gcc/refuse.so}

# name | what is there before | command | what must be true afterwards. The place of ./train is left out.
rows='train  | nothing | tiny.ini --out run --quiet                              | resumes tiny.ini
resume       | half    | resume run --set train.steps=4 --quiet                  | continues
again        | whole   | resume run --quiet                                      | continues
force        | whole   | tiny.ini --out run --force --quiet                      | moves
sweep        | nothing | sweep sweep.ini --out run --jobs 1 --quiet              | resumes sweep sweep.ini
swept        | partly  | resume run --quiet                                      | continues
begin        | nothing | tiny.ini --out run --resume --quiet                     | resumes tiny.ini --resume
line         | prepared | run/configs/seed=1.ini --out run/seed=1 --threads 1 --quiet --resume | becomes begun
prepare      | nothing | sweep sweep.ini --prepare --out run --quiet             | becomes prepared
tables       | mixed   | sweep run --tables --quiet                              | continues
report       | whole   | report run                                              | reads
why          | whole   | why run                                                 | reads
compare      | swept   | why run                                                 | reads
eval         | whole   | eval run                                                | reads
sample       | whole   | sample run --tokens 20 --seed 1                         | reads
attend       | whole   | attend run --text keys --out picture.png                | reads
show         | whole   | attend run --text keys --show                           | reads
check        | nothing | sweep sweep.ini --dry-run                               | reads
theory       | nothing | theory --d-k 4 --keys 3 --samples 4 --csv               | reads
gradcheck    | nothing | gradcheck tiny.ini --quiet                              | reads
bench        | nothing | bench tiny.ini --seconds 0.01 --json                    | times'

# field NAME NUMBER: of the row of that name
field() { printf '%s\n' "$rows" | sed -n "s/^$1  *|/$1 |/p" | cut -d '|' -f "$2" | sed 's/^ *//; s/ *$//'; }

# --- what runs and sweeps come to, apart from the times

# A page without times, commands and paths, and without the excerpt of the text, which a page lacks if it cannot be read.
page() {
    sed -E 's/"(command|start|end|logs|no_excerpt)":"[^"]*",?//g; s/"seconds":[^,}]*,?//g; s/"resumed":\[[^]]*\],?//g
        s/"excerpt":\[(\{[^{}]*\},?)*\],?//g; s/,}/}/g
        s/(corpus|out) = [^\\]*\\n//g; s/(\\n[0-9]+,[0-9]+,)[0-9]+\.[0-9]{3},/\1/g' "$1"
}
# The results below a directory, a line each.
digest() {
    (cd "$1" && for run in $(find . -name config.ini ! -path '*.old*' -exec dirname {} \; | sort); do
        [ -d "$run/checkpoint" ] && "$repository/tests/numbers.sh" "$run/checkpoint/last.safetensors" | cksum
        cat "$run/config.ini" "$run/vocab.json" | sed '/^corpus = /d; /^out = /d' | cksum
        [ -f "$run/metrics.csv" ] && cut -d , -f 1,2,4- "$run/metrics.csv" | cksum
        [ -f "$run/metrics.csv" ] && cat "$run/attention.csv" "$run/samples.txt" "$run/loss.png" "$run/attention/"* | cksum
        [ -f "$run/summary.csv" ] && sed 's/,[^,]*$//' "$run/summary.csv" | cksum
        [ -f "$run/report.html" ] && page "$run/report.html" | cksum
        grep -E '^  "(result|steps|train_loss|val_loss|best_val_loss|best_step)":' "$run/run.json"
    done) 2>&1
}
# Every file with its checksum, but the page, and what a kill leaves of a file that was being written.
listing() { find . -type f ! -name '*report.html' ! -name picture.png ! -name 'said*' ! -name '*.new' -exec cksum {} + | sort; }

output() { sed "s,$work/[^/]*/,," "$1"; } # without the directory of the trial

# --- one trial

fault() { # WORDS...: what is wrong, and how to see it again
    printf 'FAILED: %s\n  %s\n  again: %s %s\n' "$*" "$(head -n 3 "$here/said" | cut -c 1-300)" "$0" "$trial" |
        sed 's/^  $/  (it said nothing)/'
    touch "$work/failed"
}

# Undisturbed: must end with the results of the reference of that name.
must_become() {
    reference=$1
    shift
    if ! "$train" "$@" >"$here/said.out" 2>"$here/said"; then fault "afterwards this fails: $*"
    elif [ "$(digest run)" != "$(cat "$work/$reference.digest")" ]; then fault "afterwards, other results: $*"; fi
}
whole_or_old_page() { [ ! -f "$1" ] || [ "$(tail -c 8 "$1")" = "</html>" ] || fault "a cut page: $1"; }

check_after() { # STATUS BEFORE COMMAND AFTER
    reference=$(echo "$2" | sed 's/partly/swept/; s/mixed/swept/; s/half/whole/; s/nothing/whole/')
    case $4 in "resumes sweep"*) reference=swept ;; becomes*) reference=${4#becomes } ;; esac
    whole_or_old_page run/report.html
    case $1$4 in
    0times) ;;
    0reads) [ ! -d run ] || [ "$(digest run)" = "$(cat "$work/$reference.digest")" ] || fault "status 0, and other results" ;;
    0*) [ "$(digest run)" = "$(cat "$work/$reference.digest")" ] || fault "status 0, and other results" ;;
    esac
    case $4 in
    times) # its output differs each time
        [ "$(listing)" = "$(cd "$work/$2" && listing)" ] || fault "files have changed" ;;
    reads)
        [ "$(listing)" = "$(cd "$work/$2" && listing)" ] || fault "files have changed"
        # of a sweep, why leaves out a run whose log it cannot read, and says so
        [ "$1" != 0 ] || [ "$(output "$here/said.out")" = "$(output "$work/$name.out")" ] ||
            grep -q 'they are in no mean' "$here/said.out" || fault "status 0, and another output"
        [ "$1" != 0 ] || [ "$name" != attend ] || cmp -s picture.png "$work/attend.png" || fault "status 0, and another picture"
        ;;
    moves) # the old run is in one of two places
        if [ -d run.old ]; then old=run.old; else old=run; fi
        [ "$(digest "$old")" = "$(cat "$work/whole.digest")" ] || fault "the old run is not whole"
        ;;
    continues) # shellcheck disable=SC2086 # a list of words
        must_become "$reference" $3 ;;
    becomes*) # a step towards the sweep, which resume trains to its end
        check_after 130 "$2" "$3" "resumes sweep sweep.ini"
        ;;
    resumes*) # or, where nothing had begun, is begun again; the second resume finds it finished
        # shellcheck disable=SC2086 # a list of words
        if "$train" resume run --quiet >/dev/null 2>&1; then must_become "$reference" resume run --quiet
        else must_become "$reference" ${4#resumes } --out run --quiet; fi
        ;;
    esac
}

# try NAME memory|files CALL once|lasting, or NAME kill SECONDS
try() {
    name=$1 trial="$*" here=$(mktemp -d "$work/trial.XXXXXX") status=0
    before=$(field "$name" 2) command=$(field "$name" 3) after=$(field "$name" 4)
    cp -a "$work/$before/." "$here" && cd "$here" || exit 1
    if [ "$2" = kill ]; then # shellcheck disable=SC2086
        timeout -s KILL "$3" "$train" $command >"$here/said.out" 2>"$here/said" || status=$?
        [ "$status" = 137 ] || [ "$status" = 0 ] || fault "killed after $3 s: status $status"
        for owner in run/owner run/*/owner; do # SIGKILL is sent, and the process may not have ended
            [ ! -f "$owner" ] || flock -w 60 "$owner" true
        done
    else
        [ "$4" = once ] || export REFUSE_LASTING=1
        # shellcheck disable=SC2086
        timeout 300 env REFUSE="$2" REFUSE_CALL="$3" REFUSE_STATE="$here/said.state" LD_PRELOAD="$library" \
            "$train" $command >"$here/said.out" 2>"$here/said" || status=$?
        unset REFUSE_LASTING
        call="$(tail -c +9 "$here/said.state" | tr -d '\0')"
        case $status in
        0) ;;
        1 | 2)
            [ "$(grep -c '' said)" = 1 ] || fault "$call refused: $(grep -c '' said) lines on stderr"
            [ "$2$status" != memory2 ] || fault "$call refused: status 2 for want of memory"
            ! grep -qE 'Success|\(null\)|line -1' said || fault "$call refused: it does not say why"
            ;;
        *) fault "$call refused: status $status" ;;
        esac
    fi
    check_after "$status" "$before" "$command" "$after"
    cd "$work" || exit 1
    if [ -n "${keep-}" ]; then echo "see $here"; else rm -rf "$here"; fi
}

# --- all of them

prepare() {
    mkdir "$work/nothing" && cd "$work/nothing" || exit 1
    head -n 60 "$repository/data/sallow_reach.txt" >corpus.txt
    cat >tiny.ini <<'CONFIG'
[data]
corpus = corpus.txt
[model]
layers = 1
heads = 1
d_model = 8
context = 8
[train]
steps = 4
batch = 2
[eval]
every = 2
batches = 1
[log]
every = 1
attention_every = 2
attention_text = keys
sample_tokens = 8
checkpoint_every = 1
CONFIG
    { cat tiny.ini && printf '[sweep]\ntrain.seed = 1, 2\n'; } >sweep.ini
    cd "$work" || exit 1
    for name in whole half swept partly prepared; do cp -a nothing $name; done
    for words in 'whole tiny.ini' 'half tiny.ini --set train.steps=2' 'swept sweep sweep.ini'; do # shellcheck disable=SC2086
        (cd "${words%% *}" && "$train" ${words#* } --out run --quiet >/dev/null) || exit 1
    done
    (cd partly && cp -a ../swept/run . && rm -r "run/seed=2") || exit 1
    (cd prepared && "$train" sweep sweep.ini --prepare --out run --quiet >/dev/null) && cp -a prepared mixed &&
        cp -a prepared begun && (cd begun && "$train" run/configs/seed=1.ini --out run/seed=1 --threads 1 --quiet >/dev/null) &&
        cp -a begun mixed && (cd mixed && "$train" resume run --jobs 1 --quiet >/dev/null) || exit 1
    for name in whole swept prepared mixed begun; do (cd $name && digest run) >$name.digest; done
    cp -a half resumed # once, so that what a failing trial is compared with was made by a resume as well
    (cd resumed && "$train" resume run --set train.steps=4 --quiet && digest run | cmp - ../whole.digest) >/dev/null || {
        echo "FAILED: an undisturbed resume ends with other results" && exit 1
    }
}

# Counts the calls of a row's command, and keeps its output.
count() { # NAME KIND
    rm -rf counted && cp -a "$(field "$1" 2)" counted && cd counted || exit 1
    # shellcheck disable=SC2046
    REFUSE=$2 REFUSE_CALL=0 REFUSE_STATE=$work/counted/said.state REFUSE_PLACES=$work/places.$1.$2 LD_PRELOAD=$library \
        "$train" $(field "$1" 3) >"$work/$1.out" 2>/dev/null || { echo "FAILED: $1, undisturbed" && exit 1; }
    [ ! -f picture.png ] || cp picture.png "$work/$1.png"
    cd "$work" || exit 1
}

all_names=$(printf '%s\n' "$rows" | sed 's/ *|.*//')
if [ "${TORTURE_WORK-}" ]; then # a trial of the many below
    work=$TORTURE_WORK train=$work/train
    # shellcheck disable=SC2086
    try $1
    exit 0
fi
[ ! -w /dev/shm ] || export TMPDIR="${TMPDIR:-/dev/shm}" # in memory nothing waits for a disk
work=$(mktemp -d) && train=$work/train && ln -s "$repository/train" "$train" || exit 1
trap '[ -n "${keep-}" ] || rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
[ -f "$library" ] || { echo "there is no $library: make torture makes it" && exit 1; }
prepare
if [ $# -gt 2 ]; then
    keep=yes
    count "$1" files
    try "$1" "$2" "$3" "${4:-once}"
    [ ! -f "$work/failed" ]
    exit
fi
every=${1:-16} kills=${2:-20} total=0
for name in $all_names; do
    for kind in memory files; do
        count "$name" $kind
        total=$((total + $(wc -l <"places.$name.$kind")))
        awk -v every="$every" -v trial="$name $kind" 'NR % every == 1 || every == 1 {
            print trial, $1, ++n % 2 ? "once" : "lasting" }' "places.$name.$kind" >>trials
    done
done
awk -v kills="$kills" -v names="$all_names" 'BEGIN {
    count = split(names, name, "\n"); srand()
    for (i = 0; i < kills; i++) printf "%s kill %.3f\n", name[i % count + 1], 0.02 + 0.3 * rand() }' >>trials
export TORTURE_WORK="$work" REFUSE_LIBRARY="$library"
xargs -P "$(getconf _NPROCESSORS_ONLN)" -d '\n' -n 1 "$repository/tests/torture/torture.sh" <trials
printf '%d trials, %d of them kills; calls come from %d places\n' "$(wc -l <trials)" "$kills" "$total"
[ ! -f failed ]
