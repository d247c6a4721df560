#!/bin/sh
# The command line of the lab's verbs, as people meet it: what is refused, what is written where, what is said.
# tests/test_cli.sh has the trainer's verbs, tests/cli.sh what both share.
set -u
cd "$(dirname "$0")/../.." || exit 1
script=lab/tests/test_cli.sh
. tests/cli.sh

{ cat tiny.ini && printf '[sweep]\nattention.scale_divisor = none, sqrt_dk\n'; } >sweep.ini

# --- refused: command lines, places, texts of a sweep
# shellcheck disable=SC2034 # the rows have it
long=$(seq -s / 536) # a directory can have this path, and its runs cannot
refused <<'ROWS'
2 | usage: ./train sweep | ./train sweep
2 | usage: ./train attend | ./train attend
2 | usage: ./train why | ./train why
2 | usage: ./train gradcheck | ./train gradcheck
2 | usage: ./train report | ./train report
2 | usage: ./train bench | ./train bench
2 | there is no verb and no file swep; did you mean sweep\? | ./train swep sweep.ini
2 | there is no verb swep; did you mean sweep\? | ./train help swep
2 | --force replaces .*: add --out DIR | ./train sweep sweep.ini --force --dry-run
2 | no \[sweep\] section | ./train sweep tiny.ini
2 | no \[sweep\] section | ./train sweep tiny.ini --dry-run
2 | sweep.train.lr=-1: the value "-1" | ./train sweep sweep.ini --set sweep.train.lr=-1
2 | ours exists | ./train sweep sweep.ini --out ours
2 | directory is not the directory of a run | ./train sweep sweep.ini --out directory --force
2 | missing.ini | ./train bench missing.ini
2 | has not replaced the ~ of ~/sweep: | ./train sweep sweep.ini --out='~/sweep'
2 | has not replaced the ~ of ~/a.png: | ./train attend ours --out='~/a.png'
2 | has not replaced the ~ of ~/page.html: | ./train report ours --out='~/page.html'
2 | has not replaced the ~ of ~/ours: | ./train report ours '~/ours'
2 | empty or too long: .1/2/3 | ./train sweep sweep.ini --out "$long"
1 | cannot write to standard output: No space | onto_full_disk ./train attend ours --csv
1 | cannot write to standard output: No space | onto_full_disk ./train attend ours --show
1 | cannot write to standard output: No space | onto_full_disk ./train attend ours --show --text a
1 | cannot write to standard output: No space | onto_full_disk ./train why ours
1 | cannot write to standard output | without_output ./train attend ours --show
ROWS
head -c 5000 train >binary && : >empty && printf 'short\n' >short
refused <<'ROWS'
2 | not UTF-8 text: byte | ./train sweep sweep.ini --set data.corpus=binary --out ours --force
2 | is empty | ./train sweep sweep.ini --set data.corpus=empty --out ours --force
2 | too short: 6 characters | ./train sweep sweep.ini --set data.corpus=short --out ours --force
2 | cannot read | ./train sweep sweep.ini --set data.corpus=missing --out ours --force
ROWS

# --- report: what is no regular file is neither replaced, nor written through, nor waited for
cp -R ours hostile && echo stays >victim
mkfifo hostile/report.html.new pipe
ends 0 ./train report hostile
ln -s victim link.html
refused <<'ROWS'
1 | cannot write pipe: it is  | ./train report ours hostile --out pipe
1 | cannot write link.html: it is  | ./train report ours hostile --out link.html
1 | cannot write directory: it is  | ./train report ours hostile --out directory
1 | cannot write /dev/null: it is not a regular file | ./train report ours hostile --out /dev/null
ROWS
rm -r hostile victim pipe link.html

# --- refused: export is a script
for words in export 'export ours' 'help export' 'export -h'; do # shellcheck disable=SC2086 # lists of words
    refuses 2 '^./train: export is a script: lab/export_gpt2.py RUN_DIR DIR \[--best\]$' ./train $words
done

# --- refused, attend: verbs that read a run
refuses_runs attend --text a
mkdir directory/a.png
refused <<'ROWS'
2 | --text has the character .~. \(U\+007E\) | ./train attend ours --text 'a~b'
2 | --text has the character .\?. \(U\+001B\) | ./train attend ours --text "$(printf 'a\033[31mb')" --show
2 | --text is empty | ./train attend ours --text ''
2 | --text is empty | ./train attend ours --text -
2 | there is no layer 1: the model has layers 0 to 0$ | ./train attend ours --layer 1
2 | there is no head 2: the model has heads 0 to 1$ | ./train attend ours --text a --head 2 --show
2 | --layer takes a whole number from 0 .* not "x" | ./train attend ours --layer x
2 | --show and --csv both print | ./train attend ours --show --csv
2 | --out takes a path | ./train attend ours --out ''
2 | --out takes the name of a .png | ./train attend ours --out .png
2 | --out takes the name of a .png | ./train attend ours --out picture.jpg
2 | --out takes the name of a .png | ./train attend ours --out ours
2 | has all layers and heads | ./train attend ours --head 0 --out all.safetensors
1 | cannot write nowhere/a.png | ./train attend ours --text a --out nowhere/a.png
1 | cannot write nowhere/a.safetensors | ./train attend ours --text a --out nowhere/a.safetensors
1 | cannot write corpus.txt/a.png | ./train attend ours --text a --out corpus.txt/a.png
1 | cannot write directory/a.png | ./train attend ours --out directory/a.png
1 | cannot write.*: File too large | limited 2 ./train attend ours --out large.png
ROWS
rm -r directory/a.png

# --- report, why, sweep: two runs
ends 0 ./train tiny.ini --quiet
ends 0 ./train tiny.ini --quiet

# --- report, why: a page of a run, a sweep, or several runs; what there was stays unless it is the page's own place
rm runs/tiny/report.html
ends 0 ./train report runs/tiny
check "stdout of: $name" "page to look at: runs/tiny/report.html" "$(cat "$said/out")"
ends 0 ./train sweep sweep.ini --quiet --out swept --set train.steps=2
first=$(sed '1,/0 one-hot\.$/d' "$said/out" | sed '1d; /^$/,$d') # the paragraph after the table and its legend
check_files runs/tiny/report.html swept/report.html swept/scale_divisor=none/report.html
ends 0 ./train report swept
check "stdout of: $name" "pictures:        swept/*.png
page to look at: swept/report.html" "$(cat "$said/out")"
check_files swept/losses.png swept/triangles.png
ends 0 ./train report runs/tiny runs/tiny-2
check "stdout of: $name" "page to look at: report.html" "$(cat "$said/out")"
check_match report.html '"kind":"runs"' "$(cat report.html)"
refuses 2 'report.html exists: name the page with --out FILE' ./train report runs/tiny runs/tiny-2
ends 0 ./train report runs/tiny swept/scale_divisor=none --out other.html
check_match other.html '"name":"swept/scale_divisor=none"' "$(cat other.html)"
refused <<'ROWS'
1 | cannot write nowhere/page.html | ./train report runs/tiny runs/tiny-2 --out nowhere/page.html
2 | directory is not the directory of a run | ./train report directory
2 | corpus.txt is not the directory of a run | ./train report corpus.txt
2 | swept is a sweep, whose runs are below it: name one | ./train report runs/tiny swept --out third.html
2 | directory is not the directory of a run | ./train why directory
2 | corpus.txt is not the directory of a run | ./train why corpus.txt
2 | one argument too many | ./train why runs/tiny swept
ROWS

# --- why: sentences about a run or a sweep, and nothing else; the sweep has ended with the first, the page begins with it
ends 0 ./train why swept/
silent
check "the first sentence" "$first" "$(sed '/^$/,$d' "$said/out")"
check_match "the sweep's page" '"why":"[^"]*Their scores start with standard deviations of ' "$(cat swept/report.html)"
ends 0 env NO_COLOR=1 ./train why runs/tiny
says '^Scores divided by √d_k = 4: before the first step their standard deviation'
narrow "$said/out"
check_match "the run's page" '"why":"Scores divided by [^"]* before the first step their standard deviation' "$(cat runs/tiny/report.html)"
listing >"$said/before"
ends 0 ./train why runs/tiny
unchanged
# A run whose logs were damaged is in no mean, which report says.
cp -R swept damaged && sed -i 's/,/;/' damaged/scale_divisor=none/metrics.csv
ends 0 ./train report damaged
in_no_mean='The run scale_divisor=none is in no mean: damaged/scale_divisor=none: metrics.csv or'
notes "^$in_no_mean"
check "lines on stderr of: $name" 1 "$(grep -c '' "$said/err")"
check_match "its page" "\"$in_no_mean" "$(cat damaged/report.html)"
rm damaged/scale_divisor=sqrt_dk/run.json
ends 1 ./train sweep damaged
says '^    1 damaged$'
says '^2 of 2 runs are damaged and left out:$'
says '^  scale_divisor=sqrt_dk: damaged: damaged/scale_divisor=sqrt_dk is not the directory of a run'
check "what resume would train" "" "$(grep 'have not finished' "$said/out")"
rm -r swept damaged report.html other.html

# --- force: what was there is whole in DIR.old, however the new one ends
echo mine >ours/notes.txt
cp -a ours whole
moves_though_full sweep sweep.ini
ends 0 ./train sweep sweep.ini --out ours --force
was_moved ours.old whole
check_files ours/summary.csv
ends 0 ./train tiny.ini --out ours --force --quiet
check_files ours.old-2/summary.csv
check "what --force moved first" "" "$(diff -r whole ours.old)"
rm -r whole ours.old*

# --- sweep: a dry run
./train sweep sweep.ini --dry-run >again.ini
prints 0 '^attention.scale_divisor = none, sqrt_dk$' ./train sweep again.ini --dry-run
named() { grep -v '^;   corpus ' "$1"; } # of the corpus, by its path as given
check "a dry run of what a sweep's dry run printed" "$(named again.ini)" "$(named "$said/out")"

# --- attend: attention, in every form
listing >"$said/before"
ends 0 ./train attend ours --csv
cp "$said/out" "$said/logged"
check "fields of: $name" 8 "$(grep -v '"' "$said/out" | awk -F, 'NF > 1 { print NF }' | sort -u)"
ends 0 ./train attend ours --csv --head 1 --text 'The rain'
check "rows of: $name" 37 "$(grep -c '' "$said/out")"
check "rows of weights that do not add up to 1" "" "$(tail -n +2 "$said/out" | awk -F, '
    { sum[$3] += $8 } END { for (q in sum) if (sum[q] < .99999 || sum[q] > 1.00001) print q, sum[q] }')"
check "a text from standard input" "$(cat "$said/out")" "$(echo 'The rain' | ./train attend ours --csv --head 1 --text -)"
check "the same, with CRLF and a byte order mark" "$(cat "$said/out")" \
    "$(printf '\357\273\277The rain\r\n' | ./train attend ours --csv --head 1 --text -)"
sed 's/$/\r/' corpus.txt >returns.txt # whose carriage returns a model learns
ends 0 ./train tiny.ini --quiet --set data.corpus=returns.txt --out returns
check "rows with a learned carriage return" "$(./train attend returns --csv --text "$(printf 'a\r\nb')" | cksum)" \
    "$(printf 'a\r\nb\r\n' | ./train attend returns --csv --text - | cksum)"
rm -r returns returns.txt
ends 0 ./train attend ours --text 'The rain and the rain' --show
check "stderr of: $name" 'note: --text is cut to its first 16 characters' "$(cat "$said/err")"
check "heads in: $name" 2 "$(grep -c '^layer 0, head [01]: entropy [0-9.]*, largest weight [0-9.]*$' "$said/out")"
check "how to choose: $name" '--layer L --head H shows one head alone.' "$(tail -n 1 "$said/out")"
check "the last keys in: $name" '    T  h  e  ␣  r  a  i  n  ␣  a  n  d  ␣  t  h  e' "$(grep T "$said/out" | tail -n 1)"
ends 0 ./train attend ours --show
silent
check "how to choose: $name" '--layer L --head H shows one head alone.' "$(tail -n 1 "$said/out")"
check_match "heads in: $name" '^L0 H0: [0-9.]*  *L0 H1: [0-9.]*$' "$(cat "$said/out")"
check "control characters in: $name" 0 "$(LC_ALL=C tr -d '\n' <"$said/out" | LC_ALL=C grep -c '[[:cntrl:]]')"
ends 0 ./train tiny.ini --quiet --set model.layers=2 --set model.context=48 --out four
if script -qec true /dev/null >/dev/null 2>&1; then
    check "four heads on a terminal of 24 lines" ok \
        "$(script -qec 'stty cols 80; env -u NO_COLOR TERM=xterm ./train attend four --show' /dev/null | awk 'END { print NR < 24 ? "ok" : NR }')"
fi
rm -r four
check "changed by all these" "" "$(listing | diff "$said/before" -)"
ends 0 ./train attend ours
check "stdout of: $name" 'picture  attend.png' "$(cat "$said/out")"
ends 0 ./train attend ours --text 'The rain'
check "stdout of: $name" 'picture  attend-2.png' "$(cat "$said/out")"
check "two pictures" differ "$(cmp -s attend.png attend-2.png && echo agree || echo differ)"
ends 0 ./train attend ours --layer 0 --out attend-2.png --csv # a file that is named is replaced
check "the same, named and with --csv" "$(cksum <attend.png) $(cksum <"$said/logged")" \
    "$(cksum <attend-2.png) $(cksum <"$said/out")"
ends 0 ./train attend ours --out all.safetensors
check "all.safetensors, and the last snapshot" "$(cksum <ours/attention/step000020.safetensors)" \
    "$(cksum <all.safetensors)"
rm attend.png attend-2.png all.safetensors
if git -C "$repository" rev-parse >/dev/null 2>&1; then
    check "ignored by git where these commands run in a checkout" "attend.png attend-2.png report.html " \
        "$(git -C "$repository" check-ignore attend.png attend-2.png report.html | tr '\n' ' ')"
fi
{ sed '/^corpus/d' tiny.ini | sed 's/^\[data\]/[data]\ntask = recall/; s/^context.*/context = 24/'; } >recall.ini
ends 0 ./train recall.ini --quiet --out recall
prints 0 '^    a  b  a  b$' ./train attend recall --show --text abab
bad=$(printf 'x\033[31my\302\233z') # what a terminal would obey, in a corpus and so in a text
{ cat corpus.txt && printf '%s\n' "$bad"; } >escapes.txt
ends 0 ./train tiny.ini --quiet --set data.corpus=escapes.txt --out escapes
prints 0 '^    x  �  \[  3  1  m  y  �  z$' ./train attend escapes --show --text "$bad"
check "control characters in: $name" 0 "$(LC_ALL=C tr -d '\n' <"$said/out" | LC_ALL=C grep -c '[[:cntrl:]]')"
waits_for_input attend ours --text -

# --- sweep, moved: a sweep whose directory is moved while a run trains there, with another in its place
set -- --quiet --set train.steps=1000000 --set log.every=1
begin moved/scale_divisor=none/metrics.csv 30 ./train sweep sweep.ini --out moved --jobs 1 "$@"
mv moved moved.old
./train sweep sweep.ini --out moved --quiet >"$said/tables" || fail "a sweep in the place of another" 0 $?
(cd moved && listing) >"$said/before"
moved sweep moved
whole sweep moved.old/scale_divisor=none
rm -r moved moved.old

# --- sweep: the commands of its runs, and its tables while some are missing
ends 0 "$train" sweep sweep.ini --prepare --out "it's prepared" --quiet
check "runs prepared" 2 "$(cat "$said/out")"
cd "it's prepared" || exit 1
check "a config for each run" "scale_divisor=none.ini scale_divisor=sqrt_dk.ini" "$(cd configs && echo *.ini)"
check "a command for each run" "2 exec" "$(grep -c '' commands.txt) $(cut -d ' ' -f 1 commands.txt | uniq)"
(cd / && sed -n 2p "$OLDPWD/commands.txt" | sh >"$said/out" 2>"$said/err")
check "the status of a command" 0 $?
cd ..
ends 0 "$train" sweep "it's prepared"
check_match "what is missing" '^1 of 2 runs have not finished; to resume: .*resume ' "$(cat "$said/out")"
check_match "its name" '^  scale_divisor=.*: not finished$' "$(cat "$said/out")"
check "its command" "$(sed -n 1p "it's prepared/commands.txt")" "$(grep ^exec "$said/out")"
check "the result in run.json" running "$(result_of "it's prepared" | tail -n 1)"
missing="it's prepared/scale_divisor=$([ -e "it's prepared/scale_divisor=none" ] && echo sqrt_dk || echo none)"
mkdir "$missing"
ends 0 flock "$missing/owner" "$train" sweep "it's prepared"
says '^1 of 2 runs have not finished; other processes train 1 of them$'
rm -r "$missing"
xargs -d '\n' -P 2 -I {} sh -c '{}' <"it's prepared/commands.txt" >"$said/out" 2>"$said/err"
check "all commands, one of a run that has finished" "0 1" "$? $(grep -c 'has already finished' "$said/out")"
ends 0 "$train" sweep "it's prepared" --tables --quiet
check "the last line of the tables" "page to look at: it's prepared/report.html" "$(tail -n 1 "$said/out")"
check "the result in run.json" finished "$(result_of "it's prepared" | tail -n 1)"
for run in "it's prepared"/scale*; do
    check "config.ini of $run" "$(cat "it's prepared/configs/${run##*/}.ini")" "$(cat "$run/config.ini")"
done
# --resume is for the config that the run has, and for a place that --out names.
refuses 2 '--resume continues the run that --out names: add --out DIR' "$train" tiny.ini --resume
refuses 2 'tiny.ini gives the run .*none "attention.scale_divisor = sqrt_dk", but it was trained with "attention.scale_divisor = none"' \
    "$train" tiny.ini --resume --out "it's prepared/scale_divisor=none"
refuses 2 'sweep.ini is not the directory of a sweep: make one with .* sweep CONFIG.ini --prepare' "$train" sweep sweep.ini --tables
refuses 2 'made from its directory as it is: leave out --set; to train its runs: ' "$train" sweep "it's prepared" --set lr=1
refuses 2 'made from its directory as it is: leave out --prepare' "$train" sweep "it's prepared" --tables --prepare

# --- sweep: runs that diverge
ends 0 ./train sweep sweep.ini --set train.optimizer=sgd --set train.lr=1e6 --set train.grad_clip=0 --quiet --out diverging
check "runs that diverged" 2 "$(grep -c ',diverged,.*,"diverged at step .*, ' diverging/summary.csv)"

# --- sweep: one of two runs, and the same again
ends 0 ./train sweep sweep.ini --quiet
silent
check_files runs/sweep/scale_divisor=none/run.json runs/sweep/scale_divisor=sqrt_dk/run.json
check "the last line of: $name" "page to look at: runs/sweep/report.html" "$(tail -n 1 "$said/out")"
check_match "the corpus in runs/sweep/config.ini" "^corpus = /.*/corpus.txt$" "$(cat runs/sweep/config.ini)"
check "the result in runs/sweep/run.json" finished "$(result_of runs/sweep)"
check "runs in summary.csv" "run scale_divisor=none scale_divisor=sqrt_dk " \
    "$(cut -d, -f1 runs/sweep/summary.csv | tr '\n' ' ')"
check "the run sqrt_dk of a sweep, and the same run by itself" "$(cut -d, -f1,2,4-6 runs/tiny/metrics.csv)" \
    "$(cut -d, -f1,2,4-6 runs/sweep/scale_divisor=sqrt_dk/metrics.csv)"
cp -Rp runs/sweep kept # with its times, since a page that is older than its run.json is made again
ends 0 ./train sweep sweep.ini --threads 3
check "lines about runs of: $name" 2 "$(grep -c '^\[[12]/2\] scale_divisor=.*: val [0-9.]* at step 20, ' "$said/err")"
notes 'runs/sweep-2: 2 runs, 2 at a time with 1 thread each'
check "lines about runs that have begun" 2 "$(grep -c '^training scale_divisor=' "$said/err")"
check "the first sweep, after a second of that name" "" "$(diff -r kept runs/sweep)"
check "the threads of a run" 1 "$(sed -n 's/.*"threads": \(.*\),/\1/p' runs/sweep-2/scale_divisor=none/run.json)"
check "all but the times of two sweeps" "$(sed 's/,[^,]*$//' kept/summary.csv)" "$(sed 's/,[^,]*$//' runs/sweep-2/summary.csv)"
listing >"$said/before"
ends 0 ./train resume kept
unchanged
notes '^kept has finished'
refused <<'ROWS'
2 | kept is a sweep | ./train resume kept --set train.steps=30
2 | kept exists: continue that sweep with ./train resume kept | ./train sweep sweep.ini --out kept
2 | --jobs 2 is for a sweep, and runs/tiny is none | ./train resume runs/tiny --jobs 2
ROWS
rows prints <<'ROWS'
0 | ^; 2 runs, 2 at a time with 1 thread each | ./train sweep sweep.ini --threads 2 --dry-run
0 | ^; 2 runs, 1 at a time with 2 threads each | ./train sweep sweep.ini --threads 2 --jobs 1 --dry-run
0 | ^; 2 runs, 2 at a time with 4 threads each | ./train sweep sweep.ini --threads 8 --dry-run
ROWS
ends 0 ./train sweep sweep.ini --jobs 9 --out jobs
notes 'in jobs: 2 runs, 2 at a time with 1 thread each'
check "all but the times of two sweeps" "$(sed 's/,[^,]*$//' kept/summary.csv)" "$(sed 's/,[^,]*$//' jobs/summary.csv)"

# --- sweep, resume: a sweep that is stopped, or killed, and resumed: the same table as of one that was not
set -- --set train.steps=500 --set sweep.train.seed=1,2 --threads 2
ends 0 ./train sweep sweep.ini --out swept --quiet "$@"
for signal in INT:130 TERM:143 KILL:137; do
    out=swept-${signal%:*}
    begin "$out/scale_divisor=sqrt_dk+seed=1/metrics.csv" 4 ./train sweep sweep.ini --out "$out" --quiet "$@"
    stop "${signal%:*}"
    check "exit status of a sweep stopped by SIG${signal%:*}" "${signal#*:}" "$status"
    if [ "${signal%:*}" != KILL ]; then
        check_match "its last words" "^[1-4] of 4 runs have not finished; to resume: ./train resume $out" "$(cat "$said/out")"
        check "its last line" "page to look at: $out/report.html" "$(tail -n 1 "$said/out")"
        check "lines of a sweep that is stopped" 2 "$(grep -c '' "$said/out")"
        check "its result" interrupted "$(result_of "$out")"
        check_files "$out/summary.csv"
    fi
    # the runs of one that was killed go on, and are left to their processes
    for run in "$out"/scale*; do flock -w 60 "$run/owner" true; done
    ends 0 ./train resume "$out"
    notes "^(resuming sweep in $out|$out has finished)"
    check "$out/summary.csv" "$(sed 's/,[^,]*$//' swept/summary.csv)" "$(sed 's/,[^,]*$//' "$out/summary.csv")"
    check "$out/config.ini" "$(cat swept/config.ini)" "$(cat "$out/config.ini")"
done

# --- sweep: where the user binds threads, each run may use all the processors that the sweep may use
# processors_of PROCESS: as Linux lists them
processors_of() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
for binding in OMP_PROC_BIND=true OMP_PLACES=threads GOMP_CPU_AFFINITY=0-9999; do
    [ "$(uname)" = Linux ] || break
    begin bound/scale_divisor=none/metrics.csv 4 \
        env "$binding" ./train sweep sweep.ini --set train.steps=1000000 --jobs 2 --threads 2 --quiet --out bound
    for child in $(pgrep -P "$running"); do
        check "processors of a run with $binding" "$(processors_of self)" "$(processors_of "$child")"
        check "variables of it" "" "$(tr '\0' '\n' <"/proc/$child/environ" | grep -F "$binding")"
    done
    stop TERM
    check "exit status of it" 143 "$status"
    rm -r bound
done

# --- why, sweep: commands that are printed to be copied: a path with blanks is one word of them
ends 0 ./train tiny.ini --quiet --out "my run"
ends 0 ./train why "my run"
check_match "stdout of: $name" "./train 'my run/config.ini' --set attention.scale_divisor=" "$(tr '\n' ' ' <"$said/out")"
ends 0 ./train sweep sweep.ini --prepare --out "my sweep"
notes "the commands of its runs are the lines of my sweep/commands.txt"
prints 0 "to resume: ./train resume 'my sweep'" ./train sweep "my sweep" --tables
refuses 2 "continue that sweep with ./train resume 'my sweep'" ./train sweep sweep.ini --out "my sweep"

# --- gradcheck: gradients, in double precision by the program beside this one, whatever the two are called
set -- --set model.d_model=4 --set model.d_k=3 --set model.context=4 --set data.corpus=corpus.txt
listing >"$said/before"
ends 0 ./train gradcheck tiny.ini "$@" --threads 1
unchanged
silent
narrow "$said/out"
check_match "the head of: $name" '^[0-9]+ parameters; 1 micro-batch of 2 sequences of 4 tokens, seed ' "$(cat "$said/out")"
check_match "the last line of: $name" '^error is [0-9.e-]+ of a part.s largest gradient \(tolerance 1e-07\)$' "$(tail -n 1 "$said/out")"
check_match "b_K in: $name" '^h.0.attn.c_attn.bias k .* zero, as expected$' "$(cat "$said/out")"
ends 0 ./train gradcheck tiny.ini "$@" --threads 1 --set train.precision=bf16 # which double precision does not round to
ends 0 ./train gradcheck sweep.ini "$@"
check_match "a combination in: $name" '^none  .* [0-9.]+e-[0-9]+  ' "$(cat "$said/out")"
mkdir installed && cp "$(readlink -f train)" installed/sqrtdk
refused <<'ROWS'
2 | cannot read .*missing.ini | ./train gradcheck missing.ini
2 | the corpus missing | ./train gradcheck tiny.ini --set data.corpus=missing
2 | attention.score_gradient = no leaves out a part | ./train gradcheck tiny.ini --set attention.score_gradient=no
2 | no option --out | ./train gradcheck tiny.ini --out gradients
1 | installed/sqrtdk-double, which cannot be started .*: run make | installed/sqrtdk gradcheck tiny.ini
ROWS
if [ "$(uname)" = Linux ]; then # it gets all processors, though libgomp has bound this program to one before main
    printf '#!/bin/sh\ngrep Cpus_allowed_list /proc/$$/status\n' >installed/sqrtdk-double && chmod +x installed/sqrtdk-double
    ends 0 env OMP_PROC_BIND=true installed/sqrtdk gradcheck tiny.ini
    check "processors of: $name" "$(grep Cpus_allowed_list /proc/self/status)" "$(cat "$said/out")"
fi
cp "$(readlink -f train)-double" installed/sqrtdk-double
ends 0 installed/sqrtdk gradcheck tiny.ini "$@"
begin "$said/out" 1 ./train gradcheck tiny.ini --set model.layers=50
stop INT
check "exit status of a check of gradients stopped by SIGINT" 130 "$status"
if [ "$(basename "$(dirname "$(readlink -f train)")")" = gcc ] && [ "$(uname)" = Linux ]; then # no sanitizer
    # limited_space KB COMMAND...: ends in one line or with a result, whatever OpenBLAS begins for one thread
    # shellcheck disable=SC2016 # expanded by the inner shell
    limited_space() { timeout -s KILL 60 sh -c 'ulimit -v "$1"; shift; exec "$@"' sh "$@"; }
    fails 1 'no memory for OpenBLAS, which takes 320 MB' limited_space 150000 ./train gradcheck tiny.ini
    for space in $(seq 240000 20000 480000); do
        run limited_space "$space" ./train bench tiny.ini --seconds .02
        check_match "exit status with $space KB of: $name" '^[01]$' "$status"
        check "lines on stderr of: $name" "$status" "$(grep -c '' "$said/err")"
    done
    check "exit status with the most room" 0 "$status"
fi

# --- bench: figures that fit together, and nothing written
listing >"$said/before"
ends 0 ./train bench tiny.ini --json --seconds 1
unchanged
check "lines of: $name" 1 "$(grep -c '' "$said/out")"
number() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$said/out"; }
for key in step_ms tokens_per_s gflop_per_step sgemm_peak_gflops share_of_peak peak_rss_mb threads; do
    check_match "$key of: $name" '^[0-9.e-]+$' "$(number $key)"
done
check "peak_rss_mb is in megabytes" ok "$(number peak_rss_mb | awk '{ print ($1 > 1 && $1 < 1e5) ? "ok" : $0 }')"
check_match "its core" '"blas_core":"[A-Za-z]' "$(cat "$said/out")"
check "share_of_peak" ok "$(echo "$(number step_ms) $(number gflop_per_step) $(number sgemm_peak_gflops) $(number share_of_peak) \
    $(number tokens_per_s)" | awk '{ s = $2 / ($1 / 1000) / $3; t = 64000 / $1
        print (s / $4 < 1.001 && s / $4 > .999 && t / $5 < 1.001 && t / $5 > .999) ? "ok" : $0 }')"
ends 0 ./train bench tiny.ini --seconds 0 --threads 2 --set train.batch=4 --set train.shards=2
check "the kinds of work of known size, however little time they take: $name" \
    "packing weights:zeroing gradients:embedding:LayerNorm:linear layers:attention:residual:activation:logits:loss:loss, backward:\
logits, backward:LayerNorm, backward:linear, inputs:linear, weights:attention, backward:activation, backward:\
embedding, backward:sum over shards:gradient norm:update" \
    "$(grep 'ms.*share' -A 99 "$said/out" | grep ' G.*/s ' | cut -c 1-24 | sed 's/ *$//' | tr '\n' : | sed 's/:$//')"
if grep -qs avx2 /proc/cpuinfo; then # weights are packed once a step, by however many threads, in however many passes
    for settings in '--threads 1' '--threads 3' '--threads 2 --set train.shards=4 --set train.batch=4' '--set train.accumulate=3'; do
        # shellcheck disable=SC2086
        ends 0 ./train bench tiny.ini --seconds 0 --json $settings
        packed=$(number 'packing weights')
        check "MB of packed weights: $name" "${once:=$packed}" "$packed"
        check "weights packed by products: $name" 0 "$(grep -c '"linear layers":\|"linear, inputs":\|"logits":' "$said/out")"
    done
fi

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

# --- the page computes every model: the tables of its decoder have each choice of these keys
decoder=lab/report/decoder.js
while read -r key table; do
    for name in $("$train" help config | sed -n "s/^  $key  *\(.*\);.*/\1/p" | sed 's/,/ /g; s/ or / /g'); do
        if grep -A9 "^const $table = {" "$repository/$decoder" | grep -qE "(^ *|[{ ])${name}[:,]"; then pass
        else fail "$key = $name in $decoder" "an entry of \`$table\`" "none: add it"; fi
    done
done <<'ROWS'
activation activations
score raw_scores
ROWS

checked
