#!/bin/sh
# The command line, as people meet it: what is refused, with which status and line; what is written where; signals, full
# disks and closed streams. Everything runs in a directory of its own, with a model that trains in less than a second.
# A section begins with "# --- NAMES: its subject"; `tests/test_cli.sh NAME...` runs only the sections with such a name.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ $# -gt 0 ]; then
    for name in "$@"; do
        grep -qE "^# --- ([^:]*, )?$name(, |:)" tests/test_cli.sh || { echo "no section is named $name" >&2 && exit 2; }
    done
    exec sh -c "$(awk -v names="$(echo "$*" | tr ' ' '|')" '/^# --- / { skip = $0 !~ "^# --- ([^:]*, )?(" names ")(, |:)" }
        ! skip || /^checked$/' tests/test_cli.sh)" tests/test_cli.sh
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

check_files() {
    for file in "$@"; do check "$file" "is there" "$([ -s "$file" ] && echo is there || echo missing or empty)"; done
}
# Every file and directory with its checksum: two listings that are the same mean that nothing was written.
listing() { find . -type d | sort && find . -type f -exec cksum {} + | sort; }
# The parameters and moments of a run's last checkpoint.
numbers() { "$repository/tests/numbers.sh" "$1/checkpoint/last.safetensors"; }

# interruptible COMMAND...: without the ignored SIGINT that a script gives its background jobs; makes $said/begun first
interruptible() {
    exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], "w").close()
os.execv(sys.argv[2], sys.argv[2:])' "$said/begun" "$@"
}
# run COMMAND...: $status, $name, and what it printed in $said/out and $said/err; its standard input is empty
run() {
    name=$(printf '%s ' "$@") status=0
    "$@" >"$said/out" 2>"$said/err" <"$said/nothing" || status=$?
}
# ends STATUS COMMAND...
ends() {
    want=$1
    shift
    run "$@"
    [ "$status" = "$want" ] || status="$status, saying: $(head -c 400 "$said/err")"
    check "exit status of: $name" "$want" "$status"
}
# fails STATUS PATTERN COMMAND...: with exactly one line on stderr, which matches
fails() {
    pattern=$2 want=$1
    shift 2
    ends "$want" "$@"
    check "lines on stderr of: $name" 1 "$(grep -c '' "$said/err")"
    check_match "stderr of: $name" "$pattern" "$(cat "$said/err")"
}
# refuses STATUS PATTERN COMMAND...: and nothing is written
refuses() {
    listing >"$said/before"
    fails "$@"
    listing >"$said/after"
    check "changed by: $name" "" "$(diff "$said/before" "$said/after" | grep '^[<>]')"
}
# refuses_config PATTERN CONFIG [STATUS]: trained with the tiny config's other keys
refuses_config() {
    { cat tiny.ini; printf '%b\n' "$2"; } >bad.ini
    refuses "${3:-2}" "$1" "$train" bad.ini
}
# until_rows FILE ROWS: waits, 20 seconds at most, until a file that is being written has so many lines with a comma
until_rows() {
    for _ in $(seq 400); do
        [ "$(grep -c , "$1" 2>/dev/null)" -ge "$2" ] 2>/dev/null && break
        sleep 0.05
    done
}
result_of() { sed -n 's/^.*"result": *"\([a-z]*\)".*$/\1/p' "$1/run.json"; }

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
{ cat tiny.ini && printf '[sweep]\nattention.scale_divisor = none, sqrt_dk\n'; } >sweep.ini
mkdir directory && echo "mine" >directory/mine.txt
ends 0 "$train" tiny.ini --out ours --quiet

# --- help: of the program and of each verb; README.md and docs/usage.md have them all
for words in --help -h help --version 'bench --help' 'resume --help' 'sweep --help' 'eval -h' 'help sample' 'attend -h' 'gradcheck --help' 'help config' \
    'x.ini --help'; do
    # shellcheck disable=SC2086 # a list of words
    ends 0 "$train" $words
    check "stderr of: $name" "" "$(cat "$said/err")"
    check_match "stdout of: $name" . "$(cat "$said/out")"
    check "lines over 80 columns of: $name" "" "$(LC_ALL=C grep -E '^.{81}' "$said/out")"
done
check "help sweep" "$("$train" sweep --help)" "$("$train" help sweep)"
check "help" "$("$train" --help)" "$("$train" help)"
check "lines of --help on a terminal of 24" ok "$("$train" --help | awk 'END { print NR < 24 ? "ok" : NR }')"
check "a config and --help" "$("$train" help train)" "$("$train" x.ini --help)"
refuses 2 'there is no verb conf: ./train --help lists the verbs' "$train" help conf
check -V "$("$train" --version)" "$("$train" -V)"
check "help train" "usage: ./train CONFIG.ini [options]" "$("$train" help train | head -n 1)"
check "train CONFIG.ini" "$("$train" tiny.ini --dry-run)" "$("$train" train tiny.ini --dry)"
# README.md and docs/usage.md have every verb, and usage.md every option but those that all verbs take.
verbs=$("$train" --help | sed -n 's/.* \.\/train \([^ ]*\) .*\[options\]$/\1/p' | sort)
check_match "verbs in --help" '^sweep$' "$verbs"
check "commands in README.md" "$verbs" \
    "$(sed -n 's/^| .\.\/train \([A-Za-z][a-zA-Z.]*\).*/\1/p' "$repository/README.md" | sort -u)"
check "commands in docs/usage.md" "$verbs" \
    "$(sed -n 's/^\.\/train \([^-][^ ]*\).*/\1/p' "$repository/docs/usage.md" | sort -u)"
options() { grep -oE -e '--[a-z][a-z-]*' | grep -vxE -e '--(threads|quiet|help)' | sort -u; }
for verb in $verbs; do
    expected=$("$train" help "$(echo "$verb" | sed 's/^CONFIG.ini$/train/')" | options)
    check "options of $verb in docs/usage.md" "$expected" "$(grep "^\./train $verb " "$repository/docs/usage.md" | options)"
done
grep -oE '"[a-z][^" ]* [^"%]+"' "$repository/src/config/refused.c" | tr -d '"' >"$said/reasons"
while read -r reason; do
    check "docs/config.md lists the pair refused because $reason" 1 "$(grep -cF "$reason" "$repository/docs/config.md")"
done <"$said/reasons"

# --- refused: the command line
refuses 2 'usage: ./train CONFIG.ini' "$train"
for words in export 'export ours' 'help export' 'export -h'; do # shellcheck disable=SC2086 # lists of words
    refuses 2 '^./train: export is a script: lab/export_gpt2.py RUN_DIR DIR \[--best\]$' "$train" $words
done
for verb in resume sweep eval sample attend why gradcheck; do refuses 2 "usage: ./train $verb" "$train" "$verb"; done
refuses 2 'directory' "$train" directory
refuses 2 'cannot read .*missing.ini' "$train" missing.ini
refuses 2 'did you mean tiny.ini' "$train" tiny
refuses 2 'there is no verb and no file swep; did you mean sweep\?' "$train" swep sweep.ini
refuses 2 'there is no verb swep; did you mean sweep\?' "$train" help swep
refuses 2 'there is no verb and no file tain; did you mean train\?' "$train" tain tiny.ini
refuses 2 'there is no verb tiny.ini: ./train --help lists the verbs' "$train" help tiny.ini
refuses 2 'there is no verb and no file evaluate: ./train --help lists the verbs' "$train" evaluate runs/tiny
refuses 2 'no option --treads' "$train" tiny.ini --treads 2
refuses 2 'no option -x' "$train" tiny.ini -x
refuses 2 'no option --prompt' "$train" tiny.ini --prompt a
refuses 2 'no option --set' "$train" eval directory --set train.steps=1
refuses 2 '--threads takes .* not "0"' "$train" tiny.ini --threads 0
refuses 2 '--threads takes .* not "x"' "$train" tiny.ini --threads x
refuses 2 '--threads takes .* not "2x"' "$train" tiny.ini --threads=2x
refuses 2 '--threads needs a value' "$train" tiny.ini --threads
refuses 2 '--set needs a value' "$train" tiny.ini --set
refuses 2 '--out takes a directory' "$train" tiny.ini --out ''
refuses 2 '--quiet takes no value' "$train" tiny.ini --quiet=yes
refuses 2 'one argument too many: "sweep.ini"' "$train" tiny.ini sweep.ini
refuses 2 '--force replaces .*: add --out DIR' "$train" tiny.ini --force
refuses 2 '--force replaces .*: add --out DIR' "$train" sweep sweep.ini --force --dry-run
refuses 2 'no option --out' "$train" resume directory --out x
refuses 2 'cannot read .*--quiet' "$train" -- --quiet
refuses 2 'cannot read config sweep' "$train" -- sweep
refuses 2 'section.key=value' "$train" tiny.ini --set train.steps
refuses 2 'did you mean train.steps' "$train" tiny.ini --set train.stepps=3
refuses 2 'every needs its section: write eval.every or log.every' "$train" tiny.ini --set every=3
refuses 2 'lr takes a number .*; write a decimal point, not a comma$' "$train" tiny.ini --set lr=0,001
refuses 2 'scale_divisor takes .*; write a decimal point, not a comma$' "$train" tiny.ini --set scale_divisor=0,5
refuses 2 'cannot read config frobnicate: .*; ./train --help lists the verbs$' "$train" frobnicate

# --- refused: the config
refuses_config 'bad.ini:[0-9]+: .*sqrt_dk' '[attention]\nscale_divisor = sqrt'
refuses_config 'bad.ini:[0-9]+: "nokey = 1"' '[train]\nnokey = 1'
refuses_config 'bad.ini:[0-9]+: .*did you mean \[train\]' '[trian]\nlr = 1'
refuses_config 'steps is given twice, in line 9 and in line [0-9]+' '[train]\nsteps = 3'
refuses_config 'bad.ini:[0-9]+: .*neither' 'steps'
refuses_config 'bad.ini has a \[sweep\] section: .*./train sweep bad.ini' '[sweep]\ntrain.seed = 1, 2'
refuses 2 'heads' "$train" tiny.ini --set model.heads=0
refuses 2 'heads = 3 .*does not divide' "$train" tiny.ini --set model.heads=3
refuses 2 'd_model' "$train" tiny.ini --set model.d_model=1e9
refuses 2 'd_model' "$train" tiny.ini --set model.d_model=1000000 --set model.layers=1000
refuses 1 'need .* GB, and th(e|is) machine has .* GB' "$train" tiny.ini --set model.d_model=65536 --set model.layers=1000
refuses 2 'no \[sweep\] section' "$train" sweep tiny.ini
refuses 2 'no \[sweep\] section' "$train" sweep tiny.ini --dry-run
refuses 2 'sweep.train.lr=-1: the value "-1"' "$train" sweep sweep.ini --set sweep.train.lr=-1

# --- refused: the corpus, also by a sweep, and by a --force that would have something to move
head -c 5000 "$train" >binary && : >empty && printf 'short\n' >short
for corpus in 'binary:not UTF-8 text: byte' 'empty:is empty' 'short:too short: 6 characters' 'missing:cannot read'; do
    set -- --set data.corpus="${corpus%%:*}"
    refuses 2 "the corpus ${corpus%%:*}" "$train" tiny.ini "$@"
    refuses 2 "${corpus#*:}" "$train" tiny.ini "$@" --out ours --force
    refuses 2 "${corpus#*:}" "$train" tiny.ini "$@" --dry-run
    refuses 2 "${corpus#*:}" "$train" sweep sweep.ini "$@" --out ours --force
done
refuses 2 'the corpus directory' "$train" tiny.ini --set data.corpus=directory
refuses 2 'tinyshakespeare.txt: No such file.*; data/get_shakespeare.sh downloads it' \
    "$train" "$repository/configs/shakespeare_cpu.ini"

# --- refused: where to write
refuses 2 'directory exists' "$train" tiny.ini --out directory
refuses 2 'ours exists' "$train" tiny.ini --out ours
refuses 2 'ours exists' "$train" sweep sweep.ini --out ours
refuses 2 'directory is not the directory of a run: it holds no run.json' "$train" tiny.ini --out directory --force
refuses 2 'directory is not the directory of a run' "$train" sweep sweep.ini --out directory --force
refuses 2 'corpus.txt is not the directory of a run' "$train" tiny.ini --out corpus.txt --force
refuses 1 'cannot make the directory corpus.txt' "$train" tiny.ini --out corpus.txt/run
mkdir locked && chmod 555 locked && chmod 755 "$tmp"
set -- env
[ "$(id -u)" != 0 ] || set -- setpriv --reuid=65534 --regid=65534 --clear-groups
if "$@" "$train" --version >/dev/null 2>&1; then
    refuses 1 'cannot make the directory locked/run: Permission denied' "$@" "$train" tiny.ini --out locked/run
    chmod 755 locked
fi

# --- train: what a killed program leaves before a run begins is taken, also by --out alone; nothing new ends in / or ..
mkdir begun && : >begun/run.json.new
ends 0 "$train" tiny.ini --out begun --quiet
check "files left in begun" "" "$(ls begun/*.new 2>/dev/null)"
for name in / // . .. ours/.. ours/../; do refuses 2 'log.out = .* does not end in the name of a directory' "$train" tiny.ini --set log.out=$name; done
cp -R ours again && cp -R ours before
ends 0 "$train" tiny.ini --out again/../again --force --quiet
check "what --force moved" "" "$(diff -r before again.old)"
check_files again/metrics.csv
rm -r begun again again.old before
long=$(printf 'x%.0s' $(seq 240))
refuses 2 'cannot read config x*.*: No such file or directory' "$train" "$long/$long/$long/$long/$long/x.ini"

# --- report, resume: what is no regular file is neither replaced, nor written through, nor waited for; and a changed checkpoint
cp -R ours hostile && echo stays >victim
for name in report.html.new run.json.new config.ini.new loss.png.new checkpoint/best.safetensors.new; do
    rm -f hostile/$name && ln -s "$PWD/victim" hostile/$name
done
ends 0 "$train" resume hostile --set train.steps=25 --quiet
check "what the links led to" stays "$(cat victim)"
mkfifo hostile/report.html.new pipe
ends 0 "$train" report hostile
ln -s victim link.html
for file in pipe link.html directory; do refuses 1 "cannot write $file: it is " "$train" report ours hostile --out $file; done
refuses 1 'cannot write /dev/null: it is not a regular file' "$train" report ours hostile --out /dev/null
printf '\001' | dd of=hostile/checkpoint/last.safetensors bs=1 seek=20001 conv=notrunc 2>/dev/null
for verb in eval resume sample; do refuses 2 'last.safetensors.*(damaged|was changed)' "$train" $verb hostile; done
rm -r hostile victim pipe link.html

# --- sample: the prompt as an option or from standard input, without its last line end
"$train" sample ours --prompt 'the end' --tokens 30 --seed 1 >"$said/prompt"
check "the prompt" "the end" "$(head -c 7 "$said/prompt")"
check "sample --prompt -" "$(cat "$said/prompt")" "$(echo 'the end' | "$train" sample ours --prompt - --tokens 30 --seed 1)"
check "sample --prompt - with CRLF and a byte order mark" "$(printf 'the\nend' | "$train" sample ours --prompt - --tokens 30 --seed 1)" \
    "$(printf '\357\273\277the\r\nend\r\n' | "$train" sample ours --prompt - --tokens 30 --seed 1)"
check "sample --prompt - without a text" "$("$train" sample ours --tokens 30 --seed 1)" \
    "$("$train" sample ours --prompt - --tokens 30 --seed 1 <"$said/nothing")"
check "sample --top-p of next to nothing" "$("$train" sample ours --tokens 30 --temperature 0)" \
    "$("$train" sample ours --tokens 30 --top-p 1e-6 --quiet)"

# --- refused, eval, sample, attend, resume: verbs that read a run
cp -R ours cut && head -c 9000 ours/checkpoint/last.safetensors >cut/checkpoint/last.safetensors
cp -R ours stub && printf 'abc' >stub/checkpoint/last.safetensors
cp -R ours bare && rm bare/checkpoint/last.safetensors
cp -R ours sweep-of-one && echo '{"program": "sqrtdk", "runs": [{"name": "seed=1"}]}' >sweep-of-one/run.json
for verb in eval sample 'attend --text a'; do
    # shellcheck disable=SC2086 # a verb, perhaps with an option
    while read -r run said_of_it; do refuses 2 "$said_of_it" "$train" $verb "$run"; done <<'RUNS'
directory directory is not the directory of a run
nowhere nowhere is not the directory of a run
cut cut/checkpoint/last.safetensors
stub stub/checkpoint/last.safetensors
bare cannot read the tensors bare/checkpoint/last.safetensors: No such file or directory
sweep-of-one sweep-of-one is a sweep, whose runs are below it: name one, such as sweep-of-one/seed=1
RUNS
done
refuses 2 'no option --text' "$train" sample ours --text a
refuses 2 '--prompt has the character .~' "$train" sample ours --prompt 'a~b'
refuses 2 '--prompt is not UTF-8' "$train" sample ours --prompt "$(printf 'a\377b')"
refuses 2 '--temperature takes' "$train" sample ours --temperature -1
refuses 2 '--temperature takes' "$train" sample ours --temperature nan
refuses 2 '--top-k takes' "$train" sample ours --top-k 0
refuses 2 '--top-p takes a number above 0' "$train" sample ours --top-p 0
refuses 2 '--top-p takes a number from 0 to 1' "$train" sample ours --top-p 1.1
refuses 2 '--tokens takes' "$train" sample ours --tokens -1
refuses 2 '--seed takes' "$train" sample ours --seed 1.5
refuses 2 '--text has the character .~. \(U\+007E\)' "$train" attend ours --text 'a~b'
refuses 2 '--text has the character .\?. \(U\+001B\)' "$train" attend ours --text "$(printf 'a\033[31mb')" --show
refuses 2 '--text is empty' "$train" attend ours --text ''
refuses 2 '--text is empty' "$train" attend ours --text - # standard input is empty
refuses 2 'there is no layer 1: the model has layers 0 to 0$' "$train" attend ours --layer 1
refuses 2 'there is no head 2: the model has heads 0 to 1$' "$train" attend ours --text a --head 2 --show
refuses 2 '--layer takes a whole number from 0 .* not "x"' "$train" attend ours --layer x
refuses 2 '--show and --csv both print' "$train" attend ours --show --csv
for name in '' .png picture.jpg ours; do refuses 2 "--out takes the name of a .png" "$train" attend ours --out "$name"; done
refuses 2 'has all layers and heads' "$train" attend ours --head 0 --out all.safetensors
for file in nowhere/a.png nowhere/a.safetensors corpus.txt/a.png; do
    refuses 1 "cannot write $file" "$train" attend ours --text a --out "$file"
done
mkdir directory/a.png
refuses 1 'cannot write directory/a.png' "$train" attend ours --out directory/a.png
rmdir directory/a.png
# shellcheck disable=SC2016 # expanded by the inner shell
refuses 1 'cannot write.*: File too large' env GCOV_PREFIX="$said/gcov" GCOV_ERROR_FILE=/dev/null \
    sh -c 'trap "" XFSZ; ulimit -f 2; "$@"' sh "$train" attend ours --out large.png
for words in --help 'eval ours' 'sample ours --seed 1 --tokens 9999' 'attend ours --csv' \
    'attend ours --show' 'attend ours --show --text a' 'why ours'; do
    # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; a list of words
    refuses 1 'cannot write to standard output: No space' sh -c '"$@" >/dev/full' sh "$train" $words
done

# --- train, report, why, config, sweep, disk, kernels: where a run goes, and what it says
ends 0 "$train" tiny.ini
check_match "stdout of: $name" '^done after 20 steps' "$(cat "$said/out")"
check_files runs/tiny/config.ini runs/tiny/vocab.json runs/tiny/metrics.csv runs/tiny/attention.csv runs/tiny/loss.png \
    runs/tiny/samples.txt runs/tiny/attention/step000000_layer0.png runs/tiny/attention/step000020_layer0.png \
    runs/tiny/checkpoint/last.safetensors runs/tiny/checkpoint/best.safetensors
check "the result in runs/tiny/run.json" finished "$(result_of runs/tiny)"
check "steps in runs/tiny/metrics.csv" "step 0 10 20 " "$(cut -d, -f1 runs/tiny/metrics.csv | tr '\n' ' ')"
listing | grep runs/ >"$said/first"
ends 0 "$train" tiny.ini --quiet
check "stderr of: $name" "" "$(cat "$said/err")"
check_files runs/tiny-2/run.json
check "the first run, after a second of that name" "" \
    "$(listing | grep runs/ | grep -v tiny-2 | diff "$said/first" -)"
check "all files of a temporary name" "" "$(find . -name '*.tmp*' -o -name '*.new*' -o -name '*~')"

# --- report, why: a page of a run, a sweep, or several runs; what there was stays unless it is the page's own place
rm runs/tiny/report.html
ends 0 "$train" report runs/tiny
check "stdout of: $name" "page to look at: runs/tiny/report.html" "$(cat "$said/out")"
ends 0 "$train" sweep sweep.ini --quiet --out swept --set train.steps=2
first=$(sed '1,/0 one-hot\.$/d' "$said/out" | sed '1d; /^$/,$d') # the paragraph after the table and its legend
check_files runs/tiny/report.html swept/report.html swept/scale_divisor=none/report.html
ends 0 "$train" report swept
check "stdout of: $name" "page to look at: swept/report.html
pictures:        swept/*.png" "$(cat "$said/out")"
check_files swept/losses.png swept/triangles.png
ends 0 "$train" report runs/tiny runs/tiny-2
check "stdout of: $name" "page to look at: report.html" "$(cat "$said/out")"
check_match report.html '"kind":"runs"' "$(cat report.html)"
refuses 2 'report.html exists: name the page with --out FILE' "$train" report runs/tiny runs/tiny-2
ends 0 "$train" report runs/tiny swept/scale_divisor=none --out other.html
check_match other.html '"name":"swept/scale_divisor=none"' "$(cat other.html)"
refuses 1 'cannot write nowhere/page.html' "$train" report runs/tiny runs/tiny-2 --out nowhere/page.html
refuses 2 'usage: ./train report' "$train" report
refuses 2 'directory is not the directory of a run' "$train" report directory
refuses 2 'corpus.txt is not the directory of a run' "$train" report corpus.txt
refuses 2 'swept is a sweep, whose runs are below it: name one' "$train" report runs/tiny swept --out third.html

# --- why: sentences about a run or a sweep, and nothing else; the sweep has ended with the first, the page begins with it
ends 0 "$train" why swept/
check "stderr of: $name" "" "$(cat "$said/err")"
check "the first sentence" "$first" "$(sed '/^$/,$d' "$said/out")"
check_match "the sweep's page" '"why":"[^"]*Their scores start with standard deviations of ' "$(cat swept/report.html)"
ends 0 env NO_COLOR=1 "$train" why runs/tiny
check_match "stdout of: $name" '^Scores divided by √d_k = 4: before the first step their standard deviation' "$(cat "$said/out")"
check "columns over 80 of: $name" "" "$(LC_ALL=C.UTF-8 grep -E '^.{81}' "$said/out")"
check_match "the run's page" '"why":"Scores divided by [^"]* before the first step their standard deviation' "$(cat runs/tiny/report.html)"
listing >"$said/before"
"$train" why runs/tiny >"$said/out"
check "written by why" "$(cat "$said/before")" "$(listing)"
refuses 2 'directory is not the directory of a run' "$train" why directory
refuses 2 'corpus.txt is not the directory of a run' "$train" why corpus.txt
refuses 2 'one argument too many' "$train" why runs/tiny swept
# A run whose logs were damaged is in no mean, which report says.
cp -R swept damaged && sed -i 's/,/;/' damaged/scale_divisor=none/metrics.csv
ends 0 "$train" report damaged
in_no_mean='The run scale_divisor=none is in no mean: damaged/scale_divisor=none: metrics.csv or'
check_match "stderr of: $name" "^$in_no_mean" "$(cat "$said/err")"
check "lines on stderr of: $name" 1 "$(grep -c '' "$said/err")"
check_match "its page" "\"$in_no_mean" "$(cat damaged/report.html)"
rm -r swept damaged report.html other.html

# --- force: what was there is whole in DIR.old, however the new one ends
# was_moved TO NAME: what the last command had to move, a copy of which is NAME, and what it said
was_moved() {
    check "$1 after: $name" "" "$(diff -r "$2" "$1" 2>&1)"
    check_match "stderr of: $name" "^note: what stood in ours is now in $1\$" "$(cat "$said/err")"
}
echo mine >ours/notes.txt
cp -a ours whole
for words in tiny.ini 'sweep sweep.ini'; do
    # The counts of `make coverage` go elsewhere, where the limit may cut them.
    # Where not even run.json can be written, nothing has moved. Under this limit clang's OpenMP cannot start: it leaves an
    # empty file of its process id in /dev/shm, and a later process with that id ends with a bus error.
    if ! ldd "$train" | grep -q libomp; then
        # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; a list of words
        refuses 1 'cannot write.*File too large' env GCOV_PREFIX="$said/gcov" GCOV_ERROR_FILE=/dev/null \
            sh -c 'trap "" XFSZ; ulimit -f 1; "$@"' sh "$train" $words --out ours --force
    fi
    # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; a list of words
    ends 1 env GCOV_PREFIX="$said/gcov" GCOV_ERROR_FILE=/dev/null \
        sh -c 'trap "" XFSZ; ulimit -f 2; "$@"' sh "$train" $words --out ours --force
    check_match "stderr of: $name" 'cannot write.*File too large' "$(cat "$said/err")"
    if [ -e ours.old ]; then
        was_moved ours.old whole
        rm -r ours && mv ours.old ours
    fi
    check "what could not be replaced" "" "$(diff -r whole ours)"
done
ends 3 "$train" tiny.ini --out ours/ --force --set train.lr=1e6 --set train.grad_clip=0 --set train.optimizer=sgd
was_moved ours.old whole
check "the result in ours/run.json" diverged "$(result_of ours)"
cp -a ours diverged
ends 0 "$train" tiny.ini --out=ours --force --threads 2
was_moved ours.old-2 diverged
ends 0 "$train" sweep sweep.ini --out ours --force
check_files ours/summary.csv ours.old-3/metrics.csv
ends 0 "$train" tiny.ini --out ours --force --quiet
check "stderr of: $name" "" "$(cat "$said/err")"
check_files ours.old-4/summary.csv
check "what --force moved first" "" "$(diff -r whole ours.old)"
rm -r whole diverged ours.old*

# --- config: the resolved one, with keys by their short names, and what is said of it
check "resume --set steps=N" "done after 21 steps" "$(cp -R runs/tiny longer && "$train" resume longer --set steps=21 --quiet | sed -n '1s/ and .*//p')"
rm -r longer
check_match "--set steps=3" '^steps = 3$' "$("$train" tiny.ini --dry-run --set steps=3)"
check_match "--set scale_divisor=4" '^scale_divisor = 4$' "$("$train" tiny.ini --dry-run --set scale_divisor=4)"
check_match "warmup that is too long" '^; +warmup takes 100 steps: lr is not reached before the end$' "$("$train" tiny.ini --dry-run)"
check "warmup that ends" 0 "$("$train" tiny.ini --dry-run --set warmup=19 | grep -c 'warmup takes')"
sed 's/$/\r/' corpus.txt >crlf.txt
check_match "lines that end in CRLF" "^; +with carriage returns, learned as well; tr -d '.r' removes them\$" \
    "$("$train" tiny.ini --dry-run --set data.corpus=crlf.txt)"
check "lines that end in LF" 0 "$("$train" tiny.ini --dry-run | grep -c 'carriage returns')"
ends 0 "$train" tiny.ini --set task=recall --set data.corpus= --set recall_pairs=7 --set steps=1 --set batch=1 --set train.grad_clip=0 --out recalled
check "lines of recall that are wider than a terminal" "" "$(grep -E '^.{81}' "$said/err")"
check_match "stderr of: $name" '^step     1  train [0-9.]+  val [0-9.]+  accuracy [0-9.]{6}  gradient norm [0-9.e-]+$' "$(cat "$said/err")"
rm -r recalled

listing >"$said/before"
ends 0 "$train" tiny.ini --dry-run --set model.layers=2 --set train.lr=.5 --set model.layers=3
check "written by: $name" "" "$(listing | diff "$said/before" -)"
check_match "the resolved config" '^layers = 3$' "$(cat "$said/out")"
check_match "the resolved config" '^lr = 0.5$' "$(cat "$said/out")"
cp "$said/out" again.ini
ends 0 "$train" again.ini --dry-run
named() { grep -v '^;   corpus ' "$1"; } # of the corpus, by its path as given
check "a dry run of what a dry run printed" "$(named again.ini)" "$(named "$said/out")"
"$train" sweep sweep.ini --dry-run >again.ini
ends 0 "$train" sweep again.ini --dry-run
check "a dry run of what a sweep's dry run printed" "$(named again.ini)" "$(named "$said/out")"
check_match "a sweep's dry run" '^attention.scale_divisor = none, sqrt_dk$' "$(cat "$said/out")"
ends 0 "$train" runs/tiny/config.ini --out repeated --quiet
check "the losses of a run repeated from its config.ini" "$(cut -d, -f1,2,4-6 runs/tiny/metrics.csv)" \
    "$(cut -d, -f1,2,4-6 repeated/metrics.csv)"

# --- config: from another directory, by a text's relative path; and names that a terminal would obey
mkdir elsewhere
check_match "the corpus in runs/tiny/config.ini" "^corpus = /.*/corpus.txt$" "$(cat runs/tiny/config.ini)"
check "eval from elsewhere" "$("$train" eval runs/tiny)" "$(cd elsewhere && ../train eval "$tmp/work/runs/tiny")"
cp -R ours relative && sed -i.was 's,^corpus = .*,corpus = corpus.txt,' relative/config.ini && rm relative/config.ini.was
ends 0 "$train" resume relative --set train.steps=30 --quiet # its config.ini was edited
check_match "the corpus in relative/config.ini" "^corpus = /.*/corpus.txt$" "$(cat relative/config.ini)"
check "resume from elsewhere" 0 "$(cd elsewhere && ../train resume "$tmp/work/relative" --set train.steps=40 --quiet >/dev/null; echo $?)"
bad=$(printf 'x\033[31m\302\233y\342\200\256z\nw') shown='x?[31m?y?z?w'
cp corpus.txt "$bad.txt"
ends 0 "$train" tiny.ini --set "data.corpus=$bad.txt" --out "$bad"
check "the corpus, as announced" "  corpus    $shown.txt" "$(grep corpus "$said/err")"
check_match "the losses of n-gram tables, as announced" \
    "^            characters [0-9.]{4}, pairs [0-9.]{4}, triples [0-9.]{4}, 4-grams [0-9.]{4} nats\$" "$(cat "$said/err")"
check "lines of the announcement that are wider than a terminal" "" "$(grep -vF "$shown" "$said/err" | grep -E '^.{81}')"
check "the directory, as announced" "training tiny into $shown" "$(head -n 1 "$said/err")"
check "the pictures, as listed" "  loss curves      $shown/loss.png" "$(grep loss.png "$said/out")"
fails 2 "x\?\[31m\?y\?z\?w is a directory of results, not a config" "$train" "$bad"
printf '%s\n' "$train tiny.ini --dry-run --set data.corpus='$bad.txt'" >dry.sh
if script -qec true /dev/null >/dev/null 2>&1; then
    check "an error on a terminal of 30 columns" "./train: cannot read config|none.ini: No such file or|directory|" \
        "$(script -qec 'stty cols 30; ./train none.ini' /dev/null | tr -d '\r' | tr '\n' '|')"
    check "control characters of a dry run on a terminal" 0 "$(script -qec 'sh dry.sh' /dev/null | tr -d '\r\n' | LC_ALL=C grep -c '[[:cntrl:]]')"
fi
check_match "the corpus of a dry run in a pipe" "$(printf '\033')" "$(sh dry.sh 2>/dev/null | grep '^corpus = ')"
rm -r "$bad" "$bad.txt" relative elsewhere dry.sh

# --- eval, sample: reading a run
ends 0 "$train" eval ours
check "the loss of eval, and of the last row of metrics.csv" \
    "$(tail -n 1 ours/metrics.csv | awk -F, '{ printf "%.4f", $6 }')" \
    "$(sed -n 's/^validation loss \([0-9.]*\) nats.*/\1/p' "$said/out")"
sample() { "$train" sample ours --tokens 200 --prompt 'The ' "$@"; }
one=$(sample --seed 5) same=$(sample --seed 5) other=$(sample --seed 6)
check "two samples of one seed" "$one" "$same"
check "samples of two seeds" differ "$([ "$one" = "$other" ] && echo agree || echo differ)"
check "temperature 0, and the likeliest alone" "$(sample --temperature 0)" "$(sample --top-k 1 --quiet)"
check "characters of a sample" 204 "$(printf '%s.' "$one" | wc -m | awk '{ print $1 - 1 }')"
check "the prompt of a sample" 'The ' "$(printf '%.4s' "$one")"
ends 0 "$train" sample ours --tokens 200 # in the same second as the next one
seed=$(sed -n 's/^note: --seed \([0-9]*\) draws this text again$/\1/p' "$said/err") drawn=$(cat "$said/out")
check "the text of the seed that was drawn" "$drawn" "$("$train" sample ours --tokens 200 --seed "$seed" 2>/dev/null)"
check "two samples without a seed" differ "$([ "$drawn" = "$("$train" sample ours --tokens 200 -q)" ] && echo agree || echo differ)"
for words in '--quiet' '--seed 1' '--temperature 0'; do # shellcheck disable=SC2086 # an option and its value
    ends 0 "$train" sample ours --tokens 2 $words
    check "stderr of: $name" "" "$(cat "$said/err")"
done

# --- attend: attention, in every form
listing >"$said/before"
ends 0 "$train" attend ours --csv
cp "$said/out" "$said/logged"
check "fields of: $name" 8 "$(grep -v '"' "$said/out" | awk -F, 'NF > 1 { print NF }' | sort -u)"
ends 0 "$train" attend ours --csv --head 1 --text 'The rain'
check "rows of: $name" 37 "$(grep -c '' "$said/out")"
check "rows of weights that do not add up to 1" "" "$(tail -n +2 "$said/out" | awk -F, '
    { sum[$3] += $8 } END { for (q in sum) if (sum[q] < .99999 || sum[q] > 1.00001) print q, sum[q] }')"
check "a text from standard input" "$(cat "$said/out")" "$(echo 'The rain' | "$train" attend ours --csv --head 1 --text -)"
check "the same, with CRLF and a byte order mark" "$(cat "$said/out")" \
    "$(printf '\357\273\277The rain\r\n' | "$train" attend ours --csv --head 1 --text -)"
sed 's/$/\r/' corpus.txt >returns.txt # whose carriage returns a model learns
ends 0 "$train" tiny.ini --quiet --set data.corpus=returns.txt --out returns
check "rows with a learned carriage return" "$("$train" attend returns --csv --text "$(printf 'a\r\nb')" | cksum)" \
    "$(printf 'a\r\nb\r\n' | "$train" attend returns --csv --text - | cksum)"
rm -r returns returns.txt
ends 0 "$train" attend ours --text 'The rain and the rain' --show
check "stderr of: $name" 'note: --text is cut to its first 16 characters' "$(cat "$said/err")"
check "heads in: $name" 2 "$(grep -c '^layer 0, head [01]: entropy [0-9.]*, largest weight [0-9.]*$' "$said/out")"
check "how to choose: $name" '--layer L --head H shows one head alone.' "$(tail -n 1 "$said/out")"
check "the last keys in: $name" '    T  h  e  ␣  r  a  i  n  ␣  a  n  d  ␣  t  h  e' "$(grep T "$said/out" | tail -n 1)"
ends 0 "$train" attend ours --show
check "stderr of: $name" "" "$(cat "$said/err")"
check "how to choose: $name" '--layer L --head H shows one head alone.' "$(tail -n 1 "$said/out")"
check_match "heads in: $name" '^L0 H0: [0-9.]*  *L0 H1: [0-9.]*$' "$(cat "$said/out")"
check "control characters in: $name" 0 "$(LC_ALL=C tr -d '\n' <"$said/out" | LC_ALL=C grep -c '[[:cntrl:]]')"
ends 0 "$train" tiny.ini --quiet --set model.layers=2 --set model.context=48 --out four
if script -qec true /dev/null >/dev/null 2>&1; then
    check "four heads on a terminal of 24 lines" ok \
        "$(script -qec 'stty cols 80; env -u NO_COLOR TERM=xterm ./train attend four --show' /dev/null | awk 'END { print NR < 24 ? "ok" : NR }')"
fi
rm -r four
check "changed by all these" "" "$(listing | diff "$said/before" -)"
ends 0 "$train" attend ours
check "stdout of: $name" 'picture  attend.png' "$(cat "$said/out")"
ends 0 "$train" attend ours --text 'The rain'
check "stdout of: $name" 'picture  attend-2.png' "$(cat "$said/out")"
check "two pictures" differ "$(cmp -s attend.png attend-2.png && echo agree || echo differ)"
ends 0 "$train" attend ours --layer 0 --out attend-2.png --csv # a file that is named is replaced
check "the same, named and with --csv" "$(cksum <attend.png) $(cksum <"$said/logged")" \
    "$(cksum <attend-2.png) $(cksum <"$said/out")"
ends 0 "$train" attend ours --out all.safetensors
check "all.safetensors, and the last snapshot" "$(cksum <ours/attention/step000020.safetensors)" \
    "$(cksum <all.safetensors)"
rm attend.png attend-2.png all.safetensors
if git -C "$repository" rev-parse >/dev/null 2>&1; then
    check "ignored by git where these commands run in a checkout" "attend.png attend-2.png report.html " \
        "$(git -C "$repository" check-ignore attend.png attend-2.png report.html | tr '\n' ' ')"
fi
{ sed '/^corpus/d' tiny.ini | sed 's/^\[data\]/[data]\ntask = recall/; s/^context.*/context = 24/'; } >recall.ini
ends 0 "$train" recall.ini --quiet --out recall
ends 0 "$train" attend recall --show --text abab
check_match "stdout of: $name" '^    a  b  a  b$' "$(cat "$said/out")"
bad=$(printf 'x\033[31my\302\233z') # what a terminal would obey, in a corpus and so in a text
{ cat corpus.txt && printf '%s\n' "$bad"; } >escapes.txt
ends 0 "$train" tiny.ini --quiet --set data.corpus=escapes.txt --out escapes
ends 0 "$train" attend escapes --show --text "$bad"
check_match "stdout of: $name" '^    x  �  \[  3  1  m  y  �  z$' "$(cat "$said/out")"
check "control characters in: $name" 0 "$(LC_ALL=C tr -d '\n' <"$said/out" | LC_ALL=C grep -c '[[:cntrl:]]')"

# --- train: a text for the pictures that the corpus lacks
ends 0 "$train" tiny.ini --set log.attention_text=a~b --out other_text
check_match "the note on another text" "pictures show validation text instead: log.attention_text has the character '~'" \
    "$(tr -s '\n ' ' ' <"$said/err")"
check "columns over 80 of: $name" "" "$(LC_ALL=C.UTF-8 grep -E '^.{81}' "$said/err")"
for sets in 'train.steps=5000 --set train.batch=6400 --set train.optimizer=muon' \
    'attention.scale_learned=head --set attention.scale_length=log --set attention.softcap=5'; do
    # shellcheck disable=SC2086 # a list of words
    ends 0 "$train" tiny.ini --dry-run --set $sets
    check "columns over 80 of: $name" "" "$(LC_ALL=C.UTF-8 grep -E '^.{81}' "$said/out")"
done

# --- train: one of several processes of a launcher; SLURM_NTASKS alone is a batch script's
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS; do
    refuses 2 "$variable is 2, and each of these processes would train a run of its own" env $variable=2 "$train" tiny.ini
done
refuses 2 'SLURM_STEP_NUM_TASKS is 4,' env SLURM_STEP_NUM_TASKS=4 "$train" resume ours
ends 0 env SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 "$train" tiny.ini --dry-run

# --- sweep: a sweep by shares
ends 0 "$train" sweep sweep.ini --prepare --out shared --quiet
check "runs prepared" 2 "$(cat "$said/out")"
check "a config for each run" "scale_divisor=none.ini scale_divisor=sqrt_dk.ini" "$(cd shared/configs && echo *.ini)"
refuses 2 'sweep.ini is not the directory of a sweep: make one with .* sweep CONFIG.ini --prepare' "$train" sweep sweep.ini --share 1/2
refuses 2 '--share takes I/N with I from 1 to N, as 2/8, or auto, not "3/2"' "$train" sweep shared --share 3/2
refuses 2 '--share auto: neither SLURM_ARRAY_TASK_ID nor' env -u SLURM_ARRAY_TASK_ID -u OMPI_COMM_WORLD_RANK -u PMI_RANK \
    "$train" sweep shared --share auto
refuses 2 '--share takes a sweep as it was prepared: leave out --set' "$train" sweep shared --share 1/2 --set lr=1
refuses 2 '--share takes .*: leave out --tables' "$train" sweep shared --share 1/2 --tables
refuses 2 '--tables takes .*: leave out --prepare' "$train" sweep shared --tables --prepare
refuses 2 'there is no option --share here' "$train" resume shared --share 1/2
ends 0 "$train" sweep shared --tables
check_match "what is missing" '^2 of 2 runs did not finish; to resume: .*resume shared$' "$(cat "$said/out")"
ends 0 env SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_STEP=3 "$train" sweep shared --share auto
check_match "a share" '^1 of the 2 runs in shared have ended' "$(cat "$said/out")"
ends 0 "$train" sweep shared --tables
check_match "what is missing" '^1 of 2 runs did not finish; to resume: .*resume shared$' "$(cat "$said/out")"
check_match "its name" '^  scale_divisor=.*: not finished$' "$(cat "$said/out")"
check "the result in shared/run.json" running "$(result_of shared | tail -n 1)"
ends 0 "$train" sweep shared --share 2/2
check_match "the other share" '^2 of the 2 runs in shared have ended' "$(cat "$said/out")"
ends 0 "$train" sweep shared --tables --quiet
check "the last line of the tables" "table of runs:   shared/summary.csv" "$(tail -n 1 "$said/out")"
check "the result in shared/run.json" finished "$(result_of shared | tail -n 1)"
for run in shared/scale*; do check "config.ini of $run" "$(cat "shared/configs/${run##*/}.ini")" "$(cat "$run/config.ini")"; done
ends 0 "$train" sweep shared --share 1/1

# --- train, sweep: a run that diverges, by itself and in a sweep
set -- --set train.optimizer=sgd --set train.lr=1e6 --set train.grad_clip=0 --quiet
fails 3 'diverged.* step [0-9]+' "$train" tiny.ini "$@" --out diverged
fails 3 'diverged at step 0: .* \(of the scores, those of layer 0, head 0 first\)' "$train" tiny.ini --quiet --out overflowing \
    --set attention.score_precision=fp16 --set attention.scale_divisor=1e-6
check "the result in diverged/run.json" diverged "$(result_of diverged)"
ends 0 "$train" sweep sweep.ini "$@" --out diverging
check "runs that diverged" 2 "$(grep -c ',diverged,.*,"diverged at step .*, ' diverging/summary.csv)"

# --- sweep: one of two runs, and the same again
ends 0 "$train" sweep sweep.ini --quiet
check "stderr of: $name" "" "$(cat "$said/err")"
check_files runs/sweep/scale_divisor=none/run.json runs/sweep/scale_divisor=sqrt_dk/run.json
check "the last line of: $name" "table of runs:   runs/sweep/summary.csv" "$(tail -n 1 "$said/out")"
check_match "the corpus in runs/sweep/config.ini" "^corpus = /.*/corpus.txt$" "$(cat runs/sweep/config.ini)"
check "the result in runs/sweep/run.json" finished "$(result_of runs/sweep | tail -n 1)"
check "runs in summary.csv" "run scale_divisor=none scale_divisor=sqrt_dk " \
    "$(cut -d, -f1 runs/sweep/summary.csv | tr '\n' ' ')"
check "the run sqrt_dk of a sweep, and the same run by itself" "$(cut -d, -f1,2,4-6 runs/tiny/metrics.csv)" \
    "$(cut -d, -f1,2,4-6 runs/sweep/scale_divisor=sqrt_dk/metrics.csv)"
cp -Rp runs/sweep kept # with its times, since a page that is older than its run.json is made again
ends 0 "$train" sweep sweep.ini --threads 3
check "lines about runs of: $name" 2 "$(grep -c '^\[[12]/2\] scale_divisor=.*: val [0-9.]* at step 20, ' "$said/err")"
check_match "stderr of: $name" 'runs/sweep-2: 2 runs, 2 at a time with 1 thread each' "$(cat "$said/err")"
check "the first sweep, after a second of that name" "" "$(diff -r kept runs/sweep)"
check "the threads of a run" 1 "$(sed -n 's/.*"threads": \(.*\),/\1/p' runs/sweep-2/scale_divisor=none/run.json)"
check "all but the times of two sweeps" "$(sed 's/,[^,]*$//' kept/summary.csv)" "$(sed 's/,[^,]*$//' runs/sweep-2/summary.csv)"
listing >"$said/before"
ends 0 "$train" resume kept
check "changed by: $name" "" "$(listing | diff "$said/before" -)"
check_match "stderr of: $name" '^kept has finished' "$(cat "$said/err")"
refuses 2 'kept is a sweep' "$train" resume kept --set train.steps=30
refuses 2 'kept exists: continue that sweep with ./train resume kept' "$train" sweep sweep.ini --out kept
ends 0 "$train" sweep sweep.ini --threads 2 --dry-run
check_match "stdout of: $name" '^; 2 runs, 2 at a time with 1 thread each' "$(cat "$said/out")"
ends 0 "$train" sweep sweep.ini --threads 2 --jobs 1 --dry-run
check_match "stdout of: $name" '^; 2 runs, 1 at a time with 2 threads each' "$(cat "$said/out")"
ends 0 "$train" sweep sweep.ini --threads 8 --dry-run
check_match "stdout of: $name" '^; 2 runs, 2 at a time with 4 threads each' "$(cat "$said/out")"
ends 0 "$train" sweep sweep.ini --jobs 9 --out jobs
check_match "stderr of: $name" 'in jobs: 2 runs, 2 at a time with 1 thread each' "$(cat "$said/err")"
check "all but the times of two sweeps" "$(sed 's/,[^,]*$//' kept/summary.csv)" "$(sed 's/,[^,]*$//' jobs/summary.csv)"
refuses 2 'runs/tiny is a directory of results, not a config; to resume it: ./train resume runs/tiny' "$train" runs/tiny
refuses 2 '--jobs 2 is for a sweep, and runs/tiny is none' "$train" resume runs/tiny --jobs 2

# --- sweep, resume: a sweep that is stopped, or killed, and resumed: the same table as of one that was not
set -- --set train.steps=500 --set sweep.train.seed=1,2 --threads 2
ends 0 "$train" sweep sweep.ini --out swept --quiet "$@"
for signal in INT:130 TERM:143 KILL:137; do
    out=swept-${signal%:*}
    interruptible "$train" sweep sweep.ini --out "$out" --quiet "$@" >"$said/out" 2>&1 &
    running=$!
    until_rows "$out/scale_divisor=sqrt_dk+seed=1/metrics.csv" 4
    kill -"${signal%:*}" "$running"
    wait "$running" 2>/dev/null
    check "exit status of a sweep stopped by SIG${signal%:*}" "${signal#*:}" $?
    running=
    if [ "${signal%:*}" != KILL ]; then
        check_match "its last words" "^[1-4] of 4 runs did not finish; to resume: ./train resume $out" "$(cat "$said/out")"
        check "its result" interrupted "$(result_of "$out" | tail -n 1)"
        check_files "$out/summary.csv"
    fi
    ends 0 "$train" resume "$out"
    # the runs of one that was killed go on: they may all have ended by now
    check_match "stderr of: $name" "^(resuming sweep in $out|$out has finished)" "$(cat "$said/err")"
    check "$out/summary.csv" "$(sed 's/,[^,]*$//' swept/summary.csv)" "$(sed 's/,[^,]*$//' "$out/summary.csv")"
    check "$out/config.ini" "$(cat swept/config.ini)" "$(cat "$out/config.ini")"
done

# --- resume, why, sweep: commands that are printed to be copied: a path with blanks is one word of them
ends 0 "$train" tiny.ini --quiet --out "my run"
ends 0 "$train" resume "my run"
check_match "stdout of: $name" "longer: ./train resume 'my run' --set train.steps=N" "$(cat "$said/out")"
ends 0 "$train" why "my run"
check_match "stdout of: $name" "./train 'my run/config.ini' --set attention.scale_divisor=" "$(tr '\n' ' ' <"$said/out")"
ends 0 "$train" sweep sweep.ini --prepare --out "my sweep"
check_match "stderr of: $name" "a part of it: ./train sweep 'my sweep' --share I/N" "$(cat "$said/err")"
ends 0 "$train" sweep "my sweep" --share 1/2
check_match "stdout of: $name" "the tables: ./train sweep 'my sweep' --tables" "$(cat "$said/out")"
ends 0 "$train" sweep "my sweep" --tables
check_match "stdout of: $name" "to resume: ./train resume 'my sweep'" "$(cat "$said/out")"
refuses 2 "continue that sweep with ./train resume 'my sweep'" "$train" sweep sweep.ini --out "my sweep"

# --- gradcheck: gradients, in double precision by the program beside this one, whatever the two are called
set -- --set model.d_model=4 --set model.d_k=3 --set model.context=4 --set data.corpus=corpus.txt
listing >"$said/before"
ends 0 "$train" gradcheck tiny.ini "$@" --threads 1
check "written by: $name" "" "$(listing | diff "$said/before" -)"
check "stderr of: $name" "" "$(cat "$said/err")"
check "lines over 80 columns of: $name" "" "$(LC_ALL=C grep -E '^.{81}' "$said/out")"
check_match "the head of: $name" '^[0-9]+ parameters; 1 micro-batch of 2 sequences of 4 tokens, seed ' "$(cat "$said/out")"
check_match "the last line of: $name" '^error is [0-9.e-]+ of a part.s largest gradient \(tolerance 1e-07\)$' "$(tail -n 1 "$said/out")"
check_match "b_K in: $name" '^h.0.attn.c_attn.bias k .* zero, as expected$' "$(cat "$said/out")"
ends 0 "$train" gradcheck tiny.ini "$@" --threads 1 --set train.precision=bf16 # which double precision does not round to
ends 0 "$train" gradcheck sweep.ini "$@"
check_match "a combination in: $name" '^none  .* [0-9.]+e-[0-9]+  ' "$(cat "$said/out")"
refuses 2 'cannot read .*missing.ini' "$train" gradcheck missing.ini
refuses 2 'the corpus missing' "$train" gradcheck tiny.ini --set data.corpus=missing
refuses 2 'attention.score_gradient = no leaves out a part' "$train" gradcheck tiny.ini --set attention.score_gradient=no
refuses 2 'no option --out' "$train" gradcheck tiny.ini --out gradients
mkdir installed && cp "$(readlink -f "$train")" installed/sqrtdk
refuses 1 'installed/sqrtdk-double, which cannot be started .*: run make' installed/sqrtdk gradcheck tiny.ini
# shellcheck disable=SC2030,SC2031 # in the subshell alone
(PATH=$PWD/installed:$PATH && sqrtdk eval && exit; sqrtdk --help) >"$said/out" 2>"$said/err"
check "the installed program's name" "sqrtdk: nothing to do: usage: sqrtdk eval RUN_DIR [options] (--help says more)" \
    "$(cat "$said/err")"
check "the name ./train in sqrtdk --help" 0 "$(grep -c '\./train' "$said/out")"
cp "$(readlink -f "$train")-double" installed/sqrtdk-double
ends 0 installed/sqrtdk gradcheck tiny.ini "$@"
interruptible "$train" gradcheck tiny.ini --set model.layers=50 >"$said/head" 2>&1 &
running=$!
for _ in $(seq 400); do
    [ -s "$said/head" ] && break
    sleep 0.05
done
kill -INT "$running"
wait "$running"
check "exit status of a check of gradients stopped by SIGINT" 130 $?
running=

# --- signals: saved, and said so
for signal in INT:130 TERM:143; do
    out=stopped-${signal%:*}
    interruptible "$train" tiny.ini --out "$out" --set train.steps=1000000 --set eval.every=0 --set log.every=1 >"$said/out" 2>&1 &
    running=$!
    until_rows "$out/metrics.csv" 6
    kill -"${signal%:*}" "$running"
    wait "$running"
    check "exit status of a run stopped by SIG${signal%:*}" "${signal#*:}" $?
    running=
    check "the result in $out/run.json" interrupted "$(result_of "$out")"
    check_match "its last words" '^stopped after [0-9]+ steps' "$(cat "$said/out")"
    check_match "its last words" '^to resume: ./train resume ' "$(cat "$said/out")"
    check_files "$out/checkpoint/last.safetensors" "$out/loss.png"
    ends 0 "$train" eval "$out"
done

# A terminal that is closed sends SIGHUP, which nohup ignores, and takes standard output away; so may whoever sends SIGTERM.
"$train" tiny.ini --out hung --set train.steps=1000000 --set eval.every=0 --set log.every=1 >/dev/full 2>"$said/err" &
running=$!
until_rows hung/metrics.csv 6
kill -TERM "$running"
wait "$running"
check "exit status of a run stopped by SIGTERM, without standard output" 143 $?
check "the result in hung/run.json" interrupted "$(result_of hung)"
running=
# A wait for standard input ends, too.
mkfifo never && exec 3<>never
for words in 'attend ours --text' 'sample ours --prompt'; do # shellcheck disable=SC2086 # lists of words
    "$train" $words - <never >/dev/null 2>"$said/err" &
    running=$!
    sleep 1
    kill -TERM "$running"
    wait "$running"
    check "exit status of a wait for standard input" 143 $?
    check "what it said" "" "$(cat "$said/err")"
done
running=
exec 3>&- && rm never

# --- resume: also a run that was killed, or stopped before its first checkpoint
for signal in INT KILL; do
    for every in 40 1000000; do
        out=resumed-$signal-$every
        interruptible "$train" tiny.ini --out "$out" --quiet --set train.steps=150 --set log.checkpoint_every=$every >/dev/null 2>&1 &
        running=$!
        until_rows "$out/metrics.csv" 10
        kill -$signal "$running" 2>/dev/null
        wait "$running" 2>/dev/null
        running=
        ends 0 "$train" resume "$out"
        check_match "stdout of: $name" '(after 150 steps|has already finished)' "$(cat "$said/out")"
    done
done
ends 0 "$train" tiny.ini --out never-stopped --quiet --set train.steps=150
for out in resumed-*; do
    for file in checkpoint/best.safetensors samples.txt attention.csv loss.png; do
        check "$out/$file" "$(cksum <never-stopped/$file)" "$(cksum <"$out/$file")"
    done
    check "parameters and moments of $out" "$(numbers never-stopped | cksum)" "$(numbers "$out" | cksum)"
    check "$out/metrics.csv" "$(cut -d, -f1,2,4- never-stopped/metrics.csv)" "$(cut -d, -f1,2,4- "$out/metrics.csv")"
done
listing >"$said/before"
ends 0 "$train" resume never-stopped
check_match "stdout of: $name" 'has already finished; .*--set train.steps=N' "$(cat "$said/out")"
check "changed by: $name" "" "$(listing | diff "$said/before" -)"
refuses 2 'only train.steps can be set, not train.lr=1' "$train" resume never-stopped --set train.lr=1
refuses 2 'train.steps = 10 is less' "$train" resume never-stopped --set train.steps=10
refuses 2 'directory is not the directory of a run' "$train" resume directory
refuses 2 'cannot read the tensors bare/checkpoint/last.safetensors: No such' "$train" resume bare --set train.steps=170
refuses 2 'nowhere' "$train" resume nowhere
refuses 2 'no option --out' "$train" resume never-stopped --out x
ends 0 "$train" resume never-stopped --set train.steps=160
check_match "stdout of: $name" '^done after 160 steps' "$(cat "$said/out")"

# --- disk: a full disk, at whichever file it strikes; a limit on files' sizes; standard streams that are closed
for size in 8k 64k 160k 480k; do
    mount -t tmpfs -o size=$size none "$tmp/full" 2>/dev/null || break # only root can
    fails 1 'cannot (write|make).*: No space left on device' "$train" tiny.ini --quiet --out "$tmp/full/run"
    loss=$(sed -n 's/^ *"train_loss": \([0-9.]*\),$/\1/p' "$tmp/full/run/run.json" 2>/dev/null)
    [ -z "$loss" ] || check "the loss in run.json, and in metrics.csv" "$(awk -F, 'NR == 1 { fields = NF } NF == fields { last = $5 } END { print last }' "$tmp/full/run/metrics.csv")" "$loss"
    umount "$tmp/full"
done
# shellcheck disable=SC2016 # expanded by the inner shell
fails 1 'cannot write.*: File too large' env GCOV_PREFIX="$said/gcov" GCOV_ERROR_FILE=/dev/null \
    sh -c 'trap "" XFSZ; ulimit -f 16; "$@"' sh "$train" tiny.ini --quiet --out limited
if [ "$(basename "$(dirname "$(readlink -f "$train")")")" = gcc ] && [ "$(uname)" = Linux ]; then # no sanitizer
    # shellcheck disable=SC2016
    fails 1 'no memory for OpenBLAS, which takes 128 MB' \
        timeout -k 1 30 sh -c 'ulimit -v 150000; exec "$@"' sh "$train" gradcheck tiny.ini
    if grep -qs avx2 /proc/cpuinfo; then # shellcheck disable=SC2016
        ends 0 timeout -k 1 30 sh -c 'ulimit -v 100000; exec "$@"' sh "$train" tiny.ini --quiet --out narrow
    fi
fi
# shellcheck disable=SC2016
ends 0 sh -c '"$@" 2>&-' sh "$train" tiny.ini --out closed
check "metrics.csv with stderr closed" "$(cut -d, -f1,5 runs/tiny/metrics.csv)" "$(cut -d, -f1,5 closed/metrics.csv)"
# shellcheck disable=SC2016
fails 1 'cannot write to standard output' sh -c '"$@" >&-' sh "$train" eval ours
# shellcheck disable=SC2016
fails 1 'cannot write to standard output' sh -c '"$@" >&-' sh "$train" attend ours --show

# --- kernels: those of OpenBLAS
run "$train" tiny.ini --dry-run
check "stderr of: $name" "" "$(cat "$said/err")"
if grep -qs avx2 /proc/cpuinfo; then # products are the program's own, and OpenBLAS's in double precision only
    ends 0 env OPENBLAS_CORETYPE=Prescott "$train" tiny.ini --out slow
    check "lines that name the kernels" 0 "$(grep -c OPENBLAS_CORETYPE "$said/err")"
    check "parameters, whatever OpenBLAS's kernels" "$(numbers runs/tiny | cksum)" "$(numbers slow | cksum)"
fi

# --- bench: figures that fit together, and nothing written
listing >"$said/before"
ends 0 "$train" bench tiny.ini --json --seconds 1
check "written by: $name" "" "$(listing | diff "$said/before" -)"
check "lines of: $name" 1 "$(grep -c '' "$said/out")"
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$said/out"; }
for key in step_ms tokens_per_s gflop_per_step sgemm_peak_gflops share_of_peak peak_rss_mb threads; do
    check_match "$key of: $name" '^[0-9.e-]+$' "$(number $key)"
done
check_match "its core" '"blas_core":"[A-Za-z]' "$(cat "$said/out")"
check "share_of_peak" ok "$(echo "$(number step_ms) $(number gflop_per_step) $(number sgemm_peak_gflops) $(number share_of_peak) \
    $(number tokens_per_s)" | awk '{ s = $2 / ($1 / 1000) / $3; t = 64000 / $1
        print (s / $4 < 1.001 && s / $4 > .999 && t / $5 < 1.001 && t / $5 > .999) ? "ok" : $0 }')"
ends 0 "$train" bench tiny.ini --seconds 0 --threads 2 --set train.batch=4 --set train.shards=2
check "the kinds of work of known size, however little time they take: $name" \
    "packing weights:zeroing gradients:embedding:LayerNorm:linear layers:attention:residual:activation:logits:loss:loss, backward:\
logits, backward:LayerNorm, backward:linear, inputs:linear, weights:attention, backward:activation, backward:\
embedding, backward:sum over shards:gradient norm:update" \
    "$(grep 'ms.*share' -A 99 "$said/out" | grep ' G.*/s ' | cut -c 1-24 | sed 's/ *$//' | tr '\n' : | sed 's/:$//')"
if grep -qs avx2 /proc/cpuinfo; then # weights are packed once a step, by however many threads, in however many passes
    for settings in '--threads 1' '--threads 3' '--threads 2 --set train.shards=4 --set train.batch=4' '--set train.accumulate=3'; do
        # shellcheck disable=SC2086
        ends 0 "$train" bench tiny.ini --seconds 0 --json $settings
        packed=$(number 'packing weights')
        check "MB of packed weights: $name" "${once:=$packed}" "$packed"
        check "weights packed by products: $name" 0 "$(grep -c '"linear layers":\|"linear, inputs":\|"logits":' "$said/out")"
    done
fi
refuses 2 'usage: ./train bench' "$train" bench
refuses 2 'missing.ini' "$train" bench missing.ini

# --- theory: nothing but what was asked for is written; the figures do not depend on threads, or on the list's order
small="--d-k 1,4,16 --keys 5 --samples 200"
listing >"$said/before"
# shellcheck disable=SC2086 # a list of words
ends 0 "$train" theory $small --csv
check "the head of: $name" "d_k,divisor,keys,samples,score_mean,score_var,entropy,max_weight,grad_q_mean,grad_q_rms,\
grad_q_median,score_mean_se,score_var_se,entropy_se,max_weight_se,grad_q_mean_se,grad_q_rms_se,grad_q_median_se,score" \
    "$(head -n 1 "$said/out")"
check "rows of: $name" "1 none 1 sqrt_dk 1 dk 1 2sqrt_dk 4 none 4 sqrt_dk 4 dk 4 2sqrt_dk 16 none 16 sqrt_dk 16 dk 16 2sqrt_dk " \
    "$(grep ',dot$' "$said/out" | cut -d, -f1,2 | tr ',\n' '  ')"
check "rows of other scores" "4 none additive 4 0.5 cosine 4 sqrt_dk sink 4 none softcap " \
    "$(grep '^4,' "$said/out" | grep -v ',dot$' | cut -d, -f1,2,19 | tr ',\n' '  ')"
check "its fields" "19" "$(awk -F, '{ print NF }' "$said/out" | sort -u)"
check "its variances, times divisor² / d_k" ok "$(grep ',dot$' "$said/out" | awk -F, '
    { c = $2 == "none" ? 1 : $2 == "dk" ? $1 : sqrt($1) * ($2 == "2sqrt_dk" ? 2 : 1)
      z = ($6 - $1 / c / c) / $13; if (z > 5 || z < -5) bad = bad " " $0 } END { print bad ? bad : "ok" }')"
cp "$said/out" "$said/theory"
# shellcheck disable=SC2086
ends 0 "$train" theory $small --csv --threads 3 --seed 1
check "theory with 3 threads, and with 1" "" "$(diff "$said/theory" "$said/out")"
# shellcheck disable=SC2086
ends 0 "$train" theory $small --csv --seed 2
check "theory with another seed" differs "$(cmp -s "$said/theory" "$said/out" && echo same || echo differs)"
ends 0 "$train" theory --d-k 16 --keys 5 --samples 200 --csv
check "one d_k, and the same among others" "$(grep '^16,' "$said/theory")" "$(grep '^16,' "$said/out")"
for words in "$small" "$small --all" "--d-k 1024 --keys 1 --samples 2" "--d-k 65536 --keys 2 --samples 2 --csv" "--help"; do
    # shellcheck disable=SC2086
    ends 0 "$train" theory $words
    check "stderr of: $name" "" "$(cat "$said/err")"
    check "lines over 80 columns of: $name" "" "$(sed 's/±/+/g' "$said/out" | grep -v , | LC_ALL=C grep -E '^.{81}')"
done
# shellcheck disable=SC2086
for words in "" --all; do
    ends 0 "$train" theory $small $words
    check "largest weights of: $name" "$(grep ',dot$' "$said/theory" | cut -d, -f8 | xargs printf '%.4f ')" \
        "$(sed 's/ ±[^ ]*//g' "$said/out" | awk '$1 ~ /^(none|2?sqrt_dk|dk)$/ && NF >= 4 { printf "%s ", $4 }')"
done
check "written by theory" "" "$(listing | diff "$said/before" -)"
mkdir theory && cp "$said/theory" theory/theory.csv
ends 0 "$train" report theory
check_match "stdout of: $name" '^page to look at: theory/report.html$' "$(cat "$said/out")"
check "theory.csv on its page" "$(cat theory/theory.csv)" \
    "$(printf '%b' "$(sed -n 's/.*"theory": *"\([^"]*\)".*/\1/p' theory/report.html)")"
echo '{"program": "sqrtdk", "seed": 1}' >theory/run.json # as sqrtdk 0.6.0 wrote it
ends 0 "$train" report theory
check "figures of the page, written again" "$(grep -c '"kind": *"theory"' theory/report.html)" 1
for list in '' ',' '1,' ',1' 0 -4 '1,,2' '1,x' 4x '1 2' 65537 9999999999999999999999; do
    refuses 2 "--d-k takes whole numbers .* not \"$list\"" "$train" theory --d-k="$list"
done
refuses 2 '--d-k takes at most 64 numbers' "$train" theory --d-k "1$(printf ',%d' $(seq 64))"
refuses 2 '--keys takes .* not "0"' "$train" theory --keys 0
refuses 2 '--samples takes .* not "1"' "$train" theory --samples 1
refuses 2 '--seed takes' "$train" theory --seed -1
refuses 2 'one argument too many: "tiny.ini"; usage: ./train theory' "$train" theory tiny.ini
refuses 2 'no option --set' "$train" theory --set train.steps=1
refuses 1 'need .* GB' "$train" theory --d-k 65536 --keys 1048576 --samples 100000000 --threads 64
rm -f "$said/begun"
interruptible "$train" theory --samples 1000000 >"$said/out" 2>&1 &
running=$!
until [ -e "$said/begun" ]; do sleep 0.1; done # until then SIGINT is ignored
sleep 0.5
kill -INT "$running"
wait "$running"
check "exit status of a theory stopped by SIGINT" 130 $?
running=
check "what it printed" "" "$(cat "$said/out")"

checked
