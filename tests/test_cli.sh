#!/bin/sh
# The command line of the trainer, as people meet it: what is refused, with which status and line; what is written where;
# signals, full disks and closed streams. lab/tests/test_cli.sh has the lab's verbs, tests/cli.sh what both share.
set -u
cd "$(dirname "$0")/.." || exit 1
script=tests/test_cli.sh
. tests/cli.sh

# refuses_config PATTERN CONFIG: trained with the tiny config's other keys
refuses_config() {
    { cat tiny.ini; printf '%b\n' "$2"; } >bad.ini
    refuses 2 "$1" ./train bad.ini
}
# The parameters and moments of a run's last checkpoint.
numbers() { "$repository/tests/numbers.sh" "$1/checkpoint/last.safetensors"; }

# --- help: of the program and of each verb; README.md and docs/usage.md have them all
for words in --help -h help --version 'bench --help' 'resume --help' 'sweep --help' 'eval -h' 'help sample' 'attend -h' \
    'gradcheck --help' 'help config' 'x.ini --help'; do
    # shellcheck disable=SC2086 # a list of words
    prints 0 . ./train $words
    silent
    narrow "$said/out"
done
check "help sweep" "$(./train sweep --help)" "$(./train help sweep)"
check "help" "$(./train --help)" "$(./train help)"
check "lines of --help on a terminal of 24" ok "$(./train --help | awk 'END { print NR < 24 ? "ok" : NR }')"
check "a config and --help" "$(./train help train)" "$(./train x.ini --help)"
refuses 2 'there is no verb conf: ./train --help lists the verbs' ./train help conf
check -V "$(./train --version)" "$(./train -V)"
check "help train" "usage: ./train CONFIG.ini [options]" "$(./train help train | head -n 1)"
check "train CONFIG.ini" "$(./train tiny.ini --dry-run)" "$(./train train tiny.ini --dry)"
# README.md and docs/usage.md have every verb, and usage.md every option but those that all verbs take.
verbs=$(./train --help | sed -n 's/.* \.\/train \([^ ]*\) .*\[options\]$/\1/p' | sort)
check_match "verbs in --help" '^sweep$' "$verbs"
check "commands in README.md" "$verbs" \
    "$(sed -n 's/^| .\.\/train \([A-Za-z][a-zA-Z.]*\).*/\1/p' "$repository/README.md" | sort -u)"
check "commands in docs/usage.md" "$verbs" \
    "$(sed -n 's/^\.\/train \([^-][^ ]*\).*/\1/p' "$repository/docs/usage.md" | sort -u)"
options() { grep -oE -e '--[a-z][a-z-]*' | grep -vxE -e '--(threads|quiet|help)' | sort -u; }
for verb in $verbs; do
    expected=$(./train help "$(echo "$verb" | sed 's/^CONFIG.ini$/train/')" | options)
    check "options of $verb in docs/usage.md" "$expected" "$(grep "^\./train $verb " "$repository/docs/usage.md" | options)"
done
grep -oE '"[a-z][^" ]* [^"%]+"' "$repository/src/config/refused.c" | tr -d '"' >"$said/reasons"
while read -r reason; do
    check "docs/config.md lists the pair refused because $reason" 1 "$(grep -cF "$reason" "$repository/docs/config.md")"
done <"$said/reasons"
mkdir installed && cp "$(readlink -f train)" installed/sqrtdk
# shellcheck disable=SC2030,SC2031 # in the subshell alone
(PATH=$PWD/installed:$PATH && sqrtdk eval && exit; sqrtdk --help) >"$said/out" 2>"$said/err"
check "the installed program's name" "sqrtdk: nothing to do: usage: sqrtdk eval RUN_DIR [options] (--help says more)" \
    "$(cat "$said/err")"
check "the name ./train in sqrtdk --help" 0 "$(grep -c '\./train' "$said/out")"
rm -r installed

# --- refused: the command line, values of keys, and where to write
long=$(printf 'x%.0s' $(seq 256))
refused <<'ROWS'
2 | usage: ./train CONFIG.ini | ./train
2 | usage: ./train resume | ./train resume
2 | usage: ./train eval | ./train eval
2 | usage: ./train sample | ./train sample
2 | directory | ./train directory
2 | cannot read .*missing.ini | ./train missing.ini
2 | did you mean tiny.ini | ./train tiny
2 | there is no verb and no file tain; did you mean train\? | ./train tain tiny.ini
2 | there is no verb tiny.ini: ./train --help lists the verbs | ./train help tiny.ini
2 | there is no verb and no file evaluate: ./train --help lists the verbs | ./train evaluate runs/tiny
2 | cannot read config frobnicate: .*; ./train --help lists the verbs$ | ./train frobnicate
2 | no option --steps .*; to set a key of the config: --set train.steps=10$ | ./train tiny.ini --steps 10
2 | no option --steps=10 .*; to set a key of the config: --set train.steps=10$ | ./train tiny.ini --steps=10
2 | no option --steps .*; to set a key of the config: --set train.steps=VALUE$ | ./train tiny.ini --steps --quiet
2 | there is no option --treads here: ./train --help lists them$ | ./train tiny.ini --treads 2
2 | there is no option --step here: ./train --help lists them$ | ./train tiny.ini --step 10
2 | ; to set a key of the config: --set attention.scale_divisor=none$ | ./train tiny.ini --scale-divisor none
2 | ; to set a key of the config: --set eval.every=10 or --set log.every=10$ | ./train tiny.ini --every 10
2 | too many: "steps=10"; write --set train.steps=10 to set a key of the config$ | ./train tiny.ini steps=10
2 | no option --steps here: ./train resume --help lists them; .* --set train.steps=10$ | ./train resume ours --steps 10
2 | no option -x | ./train tiny.ini -x
2 | no option --prompt | ./train tiny.ini --prompt a
2 | no option --set | ./train eval directory --set train.steps=1
2 | no option --out | ./train resume directory --out x
2 | --threads takes .* not "0" | ./train tiny.ini --threads 0
2 | --threads takes .* not "x" | ./train tiny.ini --threads x
2 | --threads takes .* not "2x" | ./train tiny.ini --threads=2x
2 | --threads needs a value | ./train tiny.ini --threads
2 | --set needs a value | ./train tiny.ini --set
2 | --out takes a path | ./train tiny.ini --out ''
2 | has not replaced the ~ of ~/run: write /.*/run$ | ./train tiny.ini --out='~/run'
2 | has not replaced the ~ of ~: write / | ./train tiny.ini --out '~'
2 | has not replaced the ~ of ~/run: | ./train tiny.ini --dry-run --set log.out='~/run'
2 | has not replaced the ~ of ~/text: | ./train tiny.ini --set data.corpus='~/text'
2 | has not replaced the ~ of ~/tiny.ini: | ./train '~/tiny.ini'
2 | has not replaced the ~ of ~/run: | ./train eval '~/run'
2 | directory of results is empty or too long | ./train tiny.ini --out new/$long
2 | directory of results is empty or too long | ./train tiny.ini --dry-run --set log.out=new/$long/run
2 | --quiet takes no value | ./train tiny.ini --quiet=yes
2 | one argument too many: "other.ini" | ./train tiny.ini other.ini
2 | --force replaces .*: add --out DIR | ./train tiny.ini --force
2 | cannot read .*--quiet | ./train -- --quiet
2 | cannot read config sweep | ./train -- sweep
2 | section.key=value | ./train tiny.ini --set train.steps
2 | did you mean train.steps | ./train tiny.ini --set train.stepps=3
2 | every needs its section: write eval.every or log.every | ./train tiny.ini --set every=3
2 | seed takes a whole number .*; a list is for sweep: --set sweep.train.seed=1,2,3$ | ./train tiny.ini --set train.seed=1,2,3
2 | scale_divisor takes .*; a list is for sweep: --set sweep.attention.scale_divisor=none,dk$ | ./train tiny.ini --set scale_divisor=none,dk
2 | lr takes a number .*; write a decimal point, not a comma$ | ./train tiny.ini --set lr=0,001
2 | scale_divisor takes .*; write a decimal point, not a comma$ | ./train tiny.ini --set scale_divisor=0,5
2 | heads | ./train tiny.ini --set model.heads=0
2 | heads = 3 .*does not divide | ./train tiny.ini --set model.heads=3
2 | d_model | ./train tiny.ini --set model.d_model=1e9
2 | d_model | ./train tiny.ini --set model.d_model=1000000 --set model.layers=1000
1 | need .* GB, and th(e|is) machine has .* GB | ./train tiny.ini --set model.d_model=65536 --set model.layers=1000
2 | directory exists | ./train tiny.ini --out directory
2 | ours exists | ./train tiny.ini --out ours
2 | directory is not the directory of a run: it holds no run.json | ./train tiny.ini --out directory --force
2 | corpus.txt is not the directory of a run | ./train tiny.ini --out corpus.txt --force
1 | cannot make the directory corpus.txt | ./train tiny.ini --out corpus.txt/run
2 | OMPI_COMM_WORLD_SIZE is 2, and each of these processes would train a run of its own | env OMPI_COMM_WORLD_SIZE=2 ./train tiny.ini
2 | PMI_SIZE is 2, and each of these processes would train a run of its own | env PMI_SIZE=2 ./train tiny.ini
2 | SLURM_STEP_NUM_TASKS is 2, and each of these processes would train a run of its own | env SLURM_STEP_NUM_TASKS=2 ./train tiny.ini
2 | SLURM_STEP_NUM_TASKS is 4, | env SLURM_STEP_NUM_TASKS=4 ./train resume ours
ROWS
ends 0 env SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 ./train tiny.ini --dry-run # SLURM_NTASKS alone is a batch script's
mkdir locked && chmod 555 locked && chmod 755 "$tmp"
set -- env
[ "$(id -u)" != 0 ] || set -- setpriv --reuid=65534 --regid=65534 --clear-groups
if "$@" ./train --version >/dev/null 2>&1; then
    refuses 1 'cannot make the directory locked/run: Permission denied' "$@" ./train tiny.ini --out locked/run
    chmod 755 locked
fi

# --- refused: the config
refuses_config 'bad.ini:[0-9]+: .*sqrt_dk' '[attention]\nscale_divisor = sqrt'
refuses_config 'bad.ini:[0-9]+: "nokey = 1"' '[train]\nnokey = 1'
refuses_config 'bad.ini:[0-9]+: .*did you mean \[train\]' '[trian]\nlr = 1'
refuses_config 'steps is given twice, in line 9 and in line [0-9]+' '[train]\nsteps = 3'
refuses_config 'bad.ini:[0-9]+: .*neither' 'steps'
refuses_config 'lr takes a number .*; it has the character U\+2212, which is not ASCII$' '[train]\nlr = \0342\0210\02220.1'
refuses_config 'has no key lr.*; it has the character U\+00A0' '[train]\nlr\0302\0240= 0.1'
refuses_config 'warmup takes .*; it has the character U\+200B' '[train]\nwarmup = 9\0342\0200\0213'
refuses 2 'takes .*; it has the character U\+00A0' ./train tiny.ini --threads "$(printf '2\302\240')"
refuses 2 'too many: .*; it has the character U\+2013' ./train tiny.ini "$(printf '\342\200\223')quiet"
refuses 2 'the corpus c.*; it has the character U\+FEFF' ./train tiny.ini --set "$(printf 'data.corpus=c\357\273\277')"
refuses_config 'bad.ini has a \[sweep\] section: .*./train sweep bad.ini' '[sweep]\ntrain.seed = 1, 2'

# --- refused: the corpus, also by a --force that would have something to move
head -c 5000 train >binary && : >empty && printf 'short\n' >short
for corpus in 'binary:not UTF-8 text: byte' 'empty:is empty' 'short:too short: 6 characters' 'missing:cannot read'; do
    set -- --set data.corpus="${corpus%%:*}"
    refuses 2 "the corpus ${corpus%%:*}" ./train tiny.ini "$@"
    refuses 2 "${corpus#*:}" ./train tiny.ini "$@" --out ours --force
    refuses 2 "${corpus#*:}" ./train tiny.ini "$@" --dry-run
done
refuses 2 'the corpus directory' ./train tiny.ini --set data.corpus=directory
refuses 2 'tinyshakespeare.txt: No such file.*; data/get_shakespeare.sh downloads it' \
    ./train "$repository/configs/shakespeare_cpu.ini"

# --- train: what a killed program leaves before a run begins is taken, also by --out alone; nothing new ends in / or ..
mkdir begun && : >begun/run.json.new
ends 0 ./train tiny.ini --out begun --quiet
check "files left in begun" "" "$(ls begun/*.new 2>/dev/null)"
for name in / // . .. ours/.. ours/../; do refuses 2 'log.out = .* does not end in the name of a directory' ./train tiny.ini --set log.out=$name; done
cp -R ours again && cp -R ours before
ends 0 ./train tiny.ini --out again/../again --force --quiet
check "what --force moved" "" "$(diff -r before again.old)"
check_files again/metrics.csv
rm -r begun again again.old before
long=$(printf 'x%.0s' $(seq 240))
refuses 2 'cannot read config x*.*: No such file or directory' ./train "$long/$long/$long/$long/$long/x.ini"

# --- resume: what is no regular file is neither replaced, nor written through, nor waited for; and a changed checkpoint
cp -R ours hostile && echo stays >victim
for name in report.html.new run.json.new config.ini.new loss.png.new checkpoint/best.safetensors.new; do
    rm -f hostile/$name && ln -s "$PWD/victim" hostile/$name
done
ends 0 ./train resume hostile --set train.steps=25 --quiet
check "what the links led to" stays "$(cat victim)"
printf '\001' | dd of=hostile/checkpoint/last.safetensors bs=1 seek=20001 conv=notrunc 2>/dev/null
for verb in eval resume sample; do refuses 2 'last.safetensors.*(damaged|was changed)' ./train $verb hostile; done
rm -r hostile victim

# --- sample: the prompt as an option or from standard input, without its last line end
./train sample ours --prompt 'the end' --tokens 30 --seed 1 >"$said/prompt"
check "the prompt" "the end" "$(head -c 7 "$said/prompt")"
check "sample --prompt -" "$(cat "$said/prompt")" "$(echo 'the end' | ./train sample ours --prompt - --tokens 30 --seed 1)"
check "sample --prompt - with CRLF and a byte order mark" "$(printf 'the\nend' | ./train sample ours --prompt - --tokens 30 --seed 1)" \
    "$(printf '\357\273\277the\r\nend\r\n' | ./train sample ours --prompt - --tokens 30 --seed 1)"
check "sample --prompt - without a text" "$(./train sample ours --tokens 30 --seed 1)" \
    "$(./train sample ours --prompt - --tokens 30 --seed 1 <"$said/nothing")"
check "sample --top-p of next to nothing" "$(./train sample ours --tokens 30 --temperature 0)" \
    "$(./train sample ours --tokens 30 --top-p 1e-6 --quiet)"

# --- refused, eval, sample, resume: verbs that read a run
refuses_runs eval
refuses_runs sample
refused <<'ROWS'
2 | no option --text | ./train sample ours --text a
2 | --prompt has the character .~ | ./train sample ours --prompt 'a~b'
2 | --prompt is not UTF-8 | ./train sample ours --prompt "$(printf 'a\377b')"
2 | --temperature takes | ./train sample ours --temperature -1
2 | --temperature takes | ./train sample ours --temperature nan
2 | --top-k takes | ./train sample ours --top-k 0
2 | --top-p takes a number above 0 | ./train sample ours --top-p 0
2 | --top-p takes a number from 0 to 1 | ./train sample ours --top-p 1.1
2 | --tokens takes | ./train sample ours --tokens -1
2 | --seed takes | ./train sample ours --seed 1.5
1 | cannot write to standard output: No space | onto_full_disk ./train --help
1 | cannot write to standard output: No space | onto_full_disk ./train eval ours
1 | cannot write to standard output: No space | onto_full_disk ./train sample ours --seed 1 --tokens 9999
1 | cannot write to standard output | without_output ./train eval ours
ROWS

# --- train, config, disk, kernels: where a run goes, and what it says
prints 0 '^done after 20 steps' ./train tiny.ini
check_files runs/tiny/config.ini runs/tiny/vocab.json runs/tiny/metrics.csv runs/tiny/attention.csv runs/tiny/loss.png \
    runs/tiny/samples.txt runs/tiny/attention/step000000_layer0.png runs/tiny/attention/step000020_layer0.png \
    runs/tiny/checkpoint/last.safetensors runs/tiny/checkpoint/best.safetensors
check "the result in runs/tiny/run.json" finished "$(result_of runs/tiny)"
check "steps in runs/tiny/metrics.csv" "step 0 10 20 " "$(cut -d, -f1 runs/tiny/metrics.csv | tr '\n' ' ')"
listing | grep runs/ >"$said/first"
ends 0 ./train tiny.ini --quiet
silent
check_files runs/tiny-2/run.json
check "the first run, after a second of that name" "" \
    "$(listing | grep runs/ | grep -v tiny-2 | diff "$said/first" -)"
check "all files of a temporary name" "" "$(find . -name '*.tmp*' -o -name '*.new*' -o -name '*~')"
refuses 2 'runs/tiny is a directory of results, not a config; to resume it: ./train resume runs/tiny' ./train runs/tiny

# --- force: what was there is whole in DIR.old, however the new one ends
echo mine >ours/notes.txt
cp -a ours whole
moves_though_full tiny.ini
ends 3 ./train tiny.ini --out ours/ --force --set train.lr=1e6 --set train.grad_clip=0 --set train.optimizer=sgd
was_moved ours.old whole
check "the result in ours/run.json" diverged "$(result_of ours)"
cp -a ours diverged
ends 0 ./train tiny.ini --out=ours --force --threads 2
was_moved ours.old-2 diverged
ends 0 ./train tiny.ini --out ours --force --quiet
silent
check_files ours.old-3/metrics.csv
check "what --force moved first" "" "$(diff -r whole ours.old)"
rm -r whole diverged ours.old*

# --- config: the resolved one, with keys by their short names, and what is said of it
check "resume --set steps=N" "done after 21 steps" "$(cp -R runs/tiny longer && ./train resume longer --set steps=21 --quiet | sed -n '1s/ and .*//p')"
rm -r longer
sed 's/$/\r/' corpus.txt >crlf.txt
sed '1s/^/\xef\xbb\xbf/; 9s/^/\xe2\x80\x8b/; 99s/^/\xef\xbb\xbf/' corpus.txt >marked.txt # the first is no part of the text
rows prints <<'ROWS'
0 | ^steps = 3$ | ./train tiny.ini --dry-run --set steps=3
0 | ^scale_divisor = 4$ | ./train tiny.ini --dry-run --set scale_divisor=4
0 | ^; +warmup takes 100 steps: lr is not reached before the end$ | ./train tiny.ini --dry-run
0 | ^; +with invisible characters, learned as well: U\+200B, U\+FEFF$ | ./train tiny.ini --dry-run --set data.corpus=marked.txt
0 | ^; +with carriage returns, learned as well; tr -d '.r' removes them$ | ./train tiny.ini --dry-run --set data.corpus=crlf.txt
ROWS
check "warmup that ends" 0 "$(./train tiny.ini --dry-run --set warmup=19 | grep -c 'warmup takes')"
check "a text in which all can be seen" 0 "$(./train tiny.ini --dry-run | grep -c 'learned as well')"
ends 0 ./train tiny.ini --set task=recall --set data.corpus= --set recall_pairs=7 --set steps=1 --set batch=1 --set train.grad_clip=0 --out recalled
narrow "$said/err"
notes '^step     1  train [0-9.]+  val [0-9.]+  accuracy [0-9.]{6}  gradient norm [0-9.e-]+$'
rm -r recalled

listing >"$said/before"
prints 0 '^layers = 3$' ./train tiny.ini --dry-run --set model.layers=2 --set train.lr=.5 --set model.layers=3
unchanged
says '^lr = 0.5$'
cp "$said/out" again.ini
ends 0 ./train again.ini --dry-run
named() { grep -v '^;   corpus ' "$1"; } # of the corpus, by its path as given
check "a dry run of what a dry run printed" "$(named again.ini)" "$(named "$said/out")"
ends 0 ./train runs/tiny/config.ini --out repeated --quiet
check "the losses of a run repeated from its config.ini" "$(cut -d, -f1,2,4-6 runs/tiny/metrics.csv)" \
    "$(cut -d, -f1,2,4-6 repeated/metrics.csv)"

# --- config: from another directory, by a text's relative path; and names that a terminal would obey
mkdir elsewhere
check_match "the corpus in runs/tiny/config.ini" "^corpus = /.*/corpus.txt$" "$(cat runs/tiny/config.ini)"
check "eval from elsewhere" "$(./train eval runs/tiny)" "$(cd elsewhere && ../train eval "$tmp/work/runs/tiny")"
cp -R ours relative && sed -i.was 's,^corpus = .*,corpus = corpus.txt,' relative/config.ini && rm relative/config.ini.was
ends 0 ./train resume relative --set train.steps=30 --quiet # its config.ini was edited
check_match "the corpus in relative/config.ini" "^corpus = /.*/corpus.txt$" "$(cat relative/config.ini)"
check "resume from elsewhere" 0 "$(cd elsewhere && ../train resume "$tmp/work/relative" --set train.steps=40 --quiet >/dev/null; echo $?)"
check "the corpus beside a config" "$(./train tiny.ini --dry-run)" "$(cd elsewhere && ../train ../tiny.ini --dry-run | sed 's,\.\./corpus,corpus,')"
refuses 2 "the corpus no.txt: No such file or directory, in $PWD or beside the config\$" ./train tiny.ini --set data.corpus=no.txt
bad=$(printf 'x\033[31m\302\233y\342\200\256z\nw') shown='x?[31m?y?z?w'
cp corpus.txt "$bad.txt"
ends 0 ./train tiny.ini --set "data.corpus=$bad.txt" --out "$bad"
check "the corpus, as announced" "  corpus    $shown.txt" "$(grep corpus "$said/err")"
check_match "the losses of n-gram tables, as announced" \
    "^            characters [0-9.]{4}, pairs [0-9.]{4}, triples [0-9.]{4}, 4-grams [0-9.]{4} nats\$" "$(cat "$said/err")"
check "lines of the announcement that are wider than a terminal" "" "$(grep -vF "$shown" "$said/err" | grep -E '^.{81}')"
check "the directory, as announced" "training tiny into $shown" "$(head -n 1 "$said/err")"
check "the pictures, as listed" "  loss curves      $shown/loss.png" "$(grep loss.png "$said/out")"
fails 2 "x\?\[31m\?y\?z\?w is a directory of results, not a config" ./train "$bad"
printf '%s\n' "$train tiny.ini --dry-run --set data.corpus='$bad.txt'" >dry.sh
if script -qec true /dev/null >/dev/null 2>&1; then
    check "an error on a terminal of 30 columns" "./train: cannot read config|none.ini: No such file or|directory|" \
        "$(script -qec 'stty cols 30; ./train none.ini' /dev/null | tr -d '\r' | tr '\n' '|')"
    check "control characters of a dry run on a terminal" 0 "$(script -qec 'sh dry.sh' /dev/null | tr -d '\r\n' | LC_ALL=C grep -c '[[:cntrl:]]')"
fi
check_match "the corpus of a dry run in a pipe" "$(printf '\033')" "$(sh dry.sh 2>/dev/null | grep '^corpus = ')"
rm -r "$bad" "$bad.txt" relative elsewhere dry.sh

# --- eval, sample: reading a run
ends 0 ./train eval ours
check "the loss of eval, and of the last row of metrics.csv" \
    "$(tail -n 1 ours/metrics.csv | awk -F, '{ printf "%.4f", $6 }')" \
    "$(sed -n 's/^validation loss \([0-9.]*\) nats.*/\1/p' "$said/out")"
sample() { ./train sample ours --tokens 200 --prompt 'The ' "$@"; }
one=$(sample --seed 5) same=$(sample --seed 5) other=$(sample --seed 6)
check "two samples of one seed" "$one" "$same"
check "samples of two seeds" differ "$([ "$one" = "$other" ] && echo agree || echo differ)"
check "temperature 0, and the likeliest alone" "$(sample --temperature 0)" "$(sample --top-k 1 --quiet)"
check "characters of a sample" 204 "$(printf '%s.' "$one" | wc -m | awk '{ print $1 - 1 }')"
check "the prompt of a sample" 'The ' "$(printf '%.4s' "$one")"
ends 0 ./train sample ours --tokens 200 # in the same second as the next one
seed=$(sed -n 's/^note: --seed \([0-9]*\) draws this text again$/\1/p' "$said/err") drawn=$(cat "$said/out")
check "the text of the seed that was drawn" "$drawn" "$(./train sample ours --tokens 200 --seed "$seed" 2>/dev/null)"
check "two samples without a seed" differ "$([ "$drawn" = "$(./train sample ours --tokens 200 -q)" ] && echo agree || echo differ)"
for words in '--quiet' '--seed 1' '--temperature 0'; do # shellcheck disable=SC2086 # an option and its value
    ends 0 ./train sample ours --tokens 2 $words
    silent
done

# --- train: a text for the pictures, also one that the corpus lacks; and bf16 without instructions for it
tr a-m A-M <corpus.txt >letters.txt # has the letters of the next text, and hardly its words
ends 0 ./train tiny.ini --dry-run --set "log.attention_text=THE n" --set data.corpus=letters.txt
says '^;   note      pictures show log.attention_text: THE n$'
ends 0 ./train tiny.ini --dry-run --set "log.attention_text=the end of the ferry"
says '^;   note      pictures show the first 16 characters of log.attention_text: the$'
ends 0 ./train tiny.ini --dry-run --set train.precision=bf16
check "a note on bf16 that is slow" "$(grep -c emulated "$said/out")" "$(grep -c 'several times slower than fp32' "$said/out")"
ends 0 ./train tiny.ini --set log.attention_text=a~b --out other_text
check_match "the note on another text" "pictures show validation text instead: log.attention_text has the character '~'" \
    "$(tr -s '\n ' ' ' <"$said/err")"
narrow "$said/err"
for sets in 'train.steps=5000 --set train.batch=6400 --set train.optimizer=muon' \
    'attention.scale_learned=head --set attention.scale_length=log --set attention.softcap=5'; do
    # shellcheck disable=SC2086 # a list of words
    ends 0 ./train tiny.ini --dry-run --set $sets
    narrow "$said/out"
done

# --- train: a run that diverges
fails 3 'diverged.* step [0-9]+' ./train tiny.ini --out diverged --quiet \
    --set train.optimizer=sgd --set train.lr=1e6 --set train.grad_clip=0
fails 3 'diverged at step 0: .* \(of the scores, those of layer 0, head 0 first\)' ./train tiny.ini --quiet --out overflowing \
    --set attention.score_precision=fp16 --set attention.scale_divisor=1e-6
check "the result in diverged/run.json" diverged "$(result_of diverged)"

# --- resume: a path with blanks is one word of a command that is printed to be copied
ends 0 ./train tiny.ini --quiet --out "my run"
prints 0 "longer: ./train resume 'my run' --set train.steps=N" ./train resume "my run"

# --- signals: saved, and said so
for signal in INT TERM USR1 USR2 XCPU ALRM VTALRM PROF; do
    out=stopped-$signal
    begin "$out/metrics.csv" 6 ./train tiny.ini --out "$out" --set train.steps=1000000 --set eval.every=0 --set log.every=1
    stop $signal
    check "exit status of a run stopped by SIG$signal" "$(python3 -c "import signal; print(128 + signal.SIG$signal)")" "$status"
    check "the result in $out/run.json" interrupted "$(result_of "$out")"
    check_match "its last words" '^stopped after [0-9]+ steps' "$(cat "$said/out")"
    check_match "its last words" '^to resume: ./train resume ' "$(cat "$said/out")"
    check_files "$out/checkpoint/last.safetensors" "$out/loss.png"
    ends 0 ./train eval "$out"
done

# Some service managers start programs with signals blocked, which their processes inherit.
begin blocked/metrics.csv 6 python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execvp(sys.argv[1], sys.argv[1:])' ./train tiny.ini --out blocked --quiet --set train.steps=1000000 --set log.every=1
kill -TERM "$running"
for _ in $(seq 100); do [ "$(result_of blocked)" = running ] && sleep 0.1; done # it is killed below if it does not end
check "the result in blocked/run.json" interrupted "$(result_of blocked)"
stop KILL
check "exit status of a run that was started with signals blocked" 143 "$status"

# A terminal that is closed sends SIGHUP, which nohup ignores, and takes standard output away; so may whoever sends SIGTERM.
begin hung/metrics.csv 6 sh -c 'exec ./train tiny.ini --out hung --set train.steps=1000000 --set eval.every=0 --set log.every=1 >/dev/full'
stop TERM
check "exit status of a run stopped by SIGTERM, without standard output" 143 "$status"
check "the result in hung/run.json" interrupted "$(result_of hung)"
waits_for_input sample ours --prompt -

# --- resume: also a run that was killed, or stopped before its first checkpoint
for signal in INT KILL; do
    for every in 40 1000000; do
        out=resumed-$signal-$every
        begin "$out/metrics.csv" 10 ./train tiny.ini --out "$out" --quiet --set train.steps=150 --set log.checkpoint_every=$every
        stop $signal
        prints 0 '(after 150 steps|has already finished)' ./train resume "$out"
    done
done
ends 0 ./train tiny.ini --out never-stopped --quiet --set train.steps=150
for out in resumed-*; do
    for file in checkpoint/best.safetensors samples.txt attention.csv loss.png; do
        check "$out/$file" "$(cksum <never-stopped/$file)" "$(cksum <"$out/$file")"
    done
    check "parameters and moments of $out" "$(numbers never-stopped | cksum)" "$(numbers "$out" | cksum)"
    check "$out/metrics.csv" "$(cut -d, -f1,2,4- never-stopped/metrics.csv)" "$(cut -d, -f1,2,4- "$out/metrics.csv")"
done
listing >"$said/before"
prints 0 'has already finished; .*--set train.steps=N' ./train resume never-stopped
unchanged
cp -R ours bare && rm bare/checkpoint/last.safetensors
refused <<'ROWS'
2 | only train.steps can be set, not train.lr=1 | ./train resume never-stopped --set train.lr=1
2 | train.steps = 10 is less | ./train resume never-stopped --set train.steps=10
2 | directory is not the directory of a run | ./train resume directory
2 | cannot read the tensors bare/checkpoint/last.safetensors: No such | ./train resume bare --set train.steps=170
2 | nowhere | ./train resume nowhere
2 | no option --out | ./train resume never-stopped --out x
ROWS
prints 0 '^done after 160 steps' ./train resume never-stopped --set train.steps=160

# --- disk: a full disk, at whichever file it strikes; a limit on files' sizes; standard streams that are closed
for size in 8k 64k 160k 480k; do
    mount -t tmpfs -o size=$size none "$tmp/full" 2>/dev/null || break # only root can
    fails 1 'cannot (write|make).*: No space left on device' ./train tiny.ini --quiet --out "$tmp/full/run"
    loss=$(sed -n 's/^ *"train_loss": \([0-9.]*\),$/\1/p' "$tmp/full/run/run.json" 2>/dev/null)
    [ -z "$loss" ] || check "the loss in run.json, and in metrics.csv" "$(awk -F, 'NR == 1 { fields = NF } NF == fields { last = $5 } END { print last }' "$tmp/full/run/metrics.csv")" "$loss"
    umount "$tmp/full"
done
fails 1 'cannot write.*: File too large' limited 16 ./train tiny.ini --quiet --out limited
if [ "$(basename "$(dirname "$(readlink -f train)")")" = gcc ] && [ "$(uname)" = Linux ] && grep -qs avx2 /proc/cpuinfo; then # no sanitizer
    # shellcheck disable=SC2016 # expanded by the inner shell
    ends 0 timeout -k 1 30 sh -c 'ulimit -v 100000; exec "$@"' sh ./train tiny.ini --quiet --out narrow
    # Of the stack of a thread its variables take 1.5 MB.
    # shellcheck disable=SC2016
    with_stack() { sh -c 'ulimit -s "$1"; shift; exec "$@"' sh "$@"; }
    for stack in 100 200 400 800; do
        refuses 1 'a thread has [0-9]+ KB of stack left, and may need 400' with_stack $stack ./train tiny.ini --out shallow --threads 2
    done
    ends 0 with_stack 2048 ./train tiny.ini --quiet --out shallow --threads 2
fi
without_messages() { "$@" 2>&-; }
ends 0 without_messages ./train tiny.ini --out closed
check "metrics.csv with stderr closed" "$(cut -d, -f1,5 runs/tiny/metrics.csv)" "$(cut -d, -f1,5 closed/metrics.csv)"

# --- moved: a run whose directory is moved while it trains, with another run in its place
begin moved/metrics.csv 30 ./train tiny.ini --out moved --quiet --set train.steps=1000000 --set log.every=1
mv moved moved.old
./train tiny.ini --out moved --quiet >/dev/null || fail "a run in the place of another" 0 $?
(cd moved && listing) >"$said/before"
moved run moved
whole run moved.old

# --- kernels: those of OpenBLAS
run ./train tiny.ini --dry-run
silent
if grep -qs avx2 /proc/cpuinfo; then # products are the program's own, and OpenBLAS's in double precision only
    ends 0 env OPENBLAS_CORETYPE=Prescott ./train tiny.ini --out slow
    check "lines that name the kernels" 0 "$(grep -c OPENBLAS_CORETYPE "$said/err")"
    check "parameters, whatever OpenBLAS's kernels" "$(numbers runs/tiny | cksum)" "$(numbers slow | cksum)"
fi

checked
