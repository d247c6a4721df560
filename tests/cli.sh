# shellcheck shell=sh
# What tests/test_cli.sh and lab/tests/test_cli.sh share: read by `. tests/cli.sh` in the repository's root, after $script is
# set to the script's name there. Everything runs in a directory of its own, with a model that trains in less than a second.
# A section begins with "# --- NAMES: its subject"; `$script NAME...` runs only the sections with such a name.
# shellcheck disable=SC2154 # $script
if [ $# -gt 0 ]; then
    for name in "$@"; do
        grep -qE "^# --- ([^:]*, )?$name(, |:)" "$script" || { echo "no section is named $name" >&2 && exit 2; }
    done
    exec sh -c "$(awk -v names="$(echo "$*" | tr ' ' '|')" '/^# --- / { skip = $0 !~ "^# --- ([^:]*, )?(" names ")(, |:)" }
        ! skip || /^checked$/' "$script")" "$script"
fi
. tests/check.sh
unset OPENBLAS_CORETYPE
export OMP_NUM_THREADS=1 # the model is too small for more, and other tests may be running
repository=$PWD train=./train
tmp=$(mktemp -d) || exit 1
said=$tmp/said # what commands print; beside the working directory, so that it is not taken for what they wrote
running=
clean_up() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null
    umount "$tmp/full" 2>/dev/null
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
mkdir "$said" "$tmp/full" "$tmp/work" && : >"$said/nothing" && cd "$tmp/work" && ln -s "$repository/train" train || exit 1

# --- to run a command

# run COMMAND...: $status, $name, and what it printed in $said/out and $said/err; its standard input is empty
run() {
    name=$(printf '%s ' "$@") status=0
    "$@" >"$said/out" 2>"$said/err" <"$said/nothing" || status=$?
}
# interruptible COMMAND...: without the ignored SIGINT that a script gives its background jobs; makes $said/begun first
interruptible() {
    exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], "w").close()
os.execvp(sys.argv[2], sys.argv[2:])' "$said/begun" "$@"
}
# until_rows FILE ROWS: waits, 20 seconds at most, until a file that is being written has so many lines with a comma
until_rows() {
    for _ in $(seq 400); do
        [ "$(grep -c , "$1" 2>/dev/null)" -ge "$2" ] 2>/dev/null && break
        sleep 0.05
    done
}
# begin FILE ROWS COMMAND...: in the background, until FILE has as many rows; what it prints is in $said/out
begin() {
    file=$1 rows=$2
    shift 2
    : >"$said/out"
    interruptible "$@" >"$said/out" 2>&1 &
    running=$!
    until_rows "$file" "$rows"
}
# stop SIGNAL: sends it to the command that was begun, and waits for its $status
stop() {
    kill -"$1" "$running" 2>/dev/null
    status=0
    wait "$running" 2>/dev/null || status=$?
    running=
}
# waits_for_input VERB...: SIGTERM ends it while it waits for standard input
waits_for_input() {
    mkfifo never && exec 3<>never
    ./train "$@" <never >/dev/null 2>"$said/err" &
    running=$!
    sleep 1
    stop TERM
    check "exit status of a wait for standard input" 143 "$status"
    check "what it said" "" "$(cat "$said/err")"
    exec 3>&- && rm never
}
# limited BLOCKS COMMAND...: no file may exceed so many blocks of 512 bytes; the counts of `make coverage` go elsewhere,
# where the limit may cut them
limited() {
    blocks=$1
    shift
    env GCOV_PREFIX="$said/gcov" GCOV_ERROR_FILE=/dev/null sh -c "trap '' XFSZ; ulimit -f $blocks; \"\$@\"" sh "$@"
}
onto_full_disk() { "$@" >/dev/full; }
without_output() { "$@" >&-; }

# --- how it ends. What is named COMMAND... runs it; the others are about the command before

# ends STATUS COMMAND...
ends() {
    want=$1
    shift
    run "$@"
    [ "$status" = "$want" ] || status="$status, saying: $(head -c 400 "$said/err")"
    check "exit status of: $name" "$want" "$status"
}
# prints STATUS PATTERN COMMAND...: a line on stdout matches the pattern
prints() {
    pattern=$2 want=$1
    shift 2
    ends "$want" "$@"
    says "$pattern"
}
# fails STATUS PATTERN COMMAND...: with exactly one line on stderr, which matches
fails() {
    pattern=$2 want=$1
    shift 2
    ends "$want" "$@"
    check "lines on stderr of: $name" 1 "$(grep -c '' "$said/err")"
    notes "$pattern"
}
# refuses STATUS PATTERN COMMAND...: fails, and nothing is written
refuses() {
    listing >"$said/before"
    fails_unchanged "$@"
}
fails_unchanged() {
    fails "$@"
    unchanged
}
# rows CHECK: for each row "STATUS | PATTERN | COMMAND" of standard input CHECK is called with these; refused: those that are
# refused. The shell reads a command's words, so that they may be quoted.
rows() {
    while IFS= read -r row; do
        rest=${row#* | }
        eval "$1 \"\${row%% | *}\" \"\${rest%% | *}\" ${rest#* | }"
    done
}
refused() {
    listing >"$said/before"
    rows fails_unchanged
}
says() { check_match "stdout of: $name" "$1" "$(cat "$said/out")"; }
notes() { check_match "stderr of: $name" "$1" "$(cat "$said/err")"; }
silent() { check "stderr of: $name" "" "$(cat "$said/err")"; }
# narrow FILE: no line is wider than a terminal
narrow() { check "columns over 80 of: $name" "" "$(LC_ALL=C.UTF-8 grep -E '^.{81}' "$1")"; }
# Every file is as in $said/before.
unchanged() { check "changed by: $name" "" "$(listing | diff "$said/before" - | grep '^[<>]')"; }
# Every file and directory with its checksum: two listings that are the same mean that nothing was written.
listing() { find . -type d | sort && find . -type f -exec cksum {} + | sort; }
check_files() {
    for file in "$@"; do check "$file" "is there" "$([ -s "$file" ] && echo is there || echo missing or empty)"; done
}
result_of() { sed -n 's/^.*"result": *"\([a-z]*\)".*$/\1/p' "$1/run.json" | tail -n 1; }

# refuses_runs VERB [OPTION...]: directories that are no whole run
refuses_runs() {
    for copy in cut stub bare sweep-of-one; do cp -R ours $copy; done
    head -c 9000 ours/checkpoint/last.safetensors >cut/checkpoint/last.safetensors
    printf 'abc' >stub/checkpoint/last.safetensors
    rm bare/checkpoint/last.safetensors
    echo '{"program": "sqrtdk", "runs": [{"name": "seed=1"}]}' >sweep-of-one/run.json
    while read -r run words; do refuses 2 "$words" ./train "$@" "$run"; done <<'RUNS'
directory directory is not the directory of a run
nowhere nowhere is not the directory of a run
cut cut/checkpoint/last.safetensors
stub stub/checkpoint/last.safetensors
bare cannot read the tensors bare/checkpoint/last.safetensors: No such file or directory
sweep-of-one sweep-of-one is a sweep, whose runs are below it: name one, such as sweep-of-one/seed=1
RUNS
    rm -r cut stub bare sweep-of-one
}

# --- what --force moves

# was_moved TO NAME: what the last command had to move, a copy of which is NAME, and what it said
was_moved() {
    check "$1 after: $name" "" "$(diff -r "$2" "$1" 2>&1)"
    notes "^note: what stood in ours is now in $1\$"
}
# moves_though_full WORDS...: the verb's --force fails for want of space, when it begins and later: what stood in ours is in
# ours.old, and the command says so; whole is a copy of it.
moves_though_full() {
    for blocks in 1 2; do
        # Under this limit clang's OpenMP cannot start: it leaves an empty file of its process id in /dev/shm, and a later
        # process with that id ends with a bus error.
        [ $blocks = 1 ] && ldd "$train" | grep -q libomp && continue
        ends 1 limited $blocks ./train "$@" --out ours --force
        notes 'cannot write.*File too large'
        notes 'what stood in ours is now in ours.old'
        check "what stood in ours" "" "$(diff -r whole ours.old)"
        rm -rf ours && mv ours.old ours
    done
}

# --- a directory that is moved while the program trains there

# moved NAME PLACE: the command that was begun ends in one line, since PLACE was moved; what has taken its place, of which
# $said/before is the listing, stays as it is
moved() {
    status=0
    wait "$running" || status=$?
    running=
    check "$1: the status" 1 "$status"
    check_match "$1: the line" "$2 was moved or removed while it trained" "$(cat "$said/out")"
    check "$1: one line" 1 "$(grep -c '' "$said/out")"
    check "$1: what has taken its place" "$(cat "$said/before")" "$(cd "$2" && listing)"
}
# whole NAME RUN: a run that was moved is resumed to a step that it has not reached
whole() {
    check "$1: an owner that has ended" "" "$(cat "$2/owner")"
    steps=$(($(tail -n 1 "$2/metrics.csv" | cut -d , -f 1) + 5))
    ends 0 ./train resume "$2" --set train.steps=$steps --quiet
    check "$1: resumed" "$steps" "$(tail -n 1 "$2/metrics.csv" | cut -d , -f 1)"
}

# --- what commands work on

head -n 400 "$repository/data/sallow_reach.txt" >corpus.txt
cat >tiny.ini <<'CONFIG'
[data]
corpus = corpus.txt
[model]
layers = 1
heads = 2
d_model = 32
context = 16
[train]
steps = 20
batch = 4
[eval]
every = 10
[log]
sample_tokens = 20
CONFIG
mkdir directory && echo "mine" >directory/mine.txt
ends 0 ./train tiny.ini --out ours --quiet
