#!/bin/sh
# `make install` into an empty root: the program works from any directory, and `make uninstall` removes these files alone.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
plain_build_or_skip
unset MAKEFLAGS MFLAGS MAKELEVEL OPENBLAS_CORETYPE
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
root="$tmp/a \`touch ran\` root" # names are data

make_quietly() { make -s "$@" DESTDIR="$root" PREFIX=/usr >"$tmp/said" 2>&1 || { cat "$tmp/said" && exit 1; }; }

make_quietly install
mkdir "$tmp/work" && repository=$PWD && cd "$tmp/work" || exit 1
PATH=$root/usr/bin:$PATH
export PATH

# --- the program, from a directory that holds nothing
check_match "sqrtdk --version" '^sqrtdk [0-9]+\.[0-9]+\.[0-9]+$' "$(sqrtdk --version)"
check "sqrtdk -V" "$(sqrtdk --version)" "$(sqrtdk -V)"
for config in configs/dk64_scaled.ini configs/scores/sink_learned.ini; do
    check "the first line of $config" "[data]" "$(sqrtdk $config --dry-run | head -n 1)"
done
sqrtdk configs/dk64_scaled.ini --quiet --set train.steps=1 --set eval.batches=1 --set log.sample_tokens=4 >/dev/null
check "runs" dk64_scaled "$(ls runs)"
check_match "the divisors of the sweep" '^attention.scale_divisor = none, sqrt_dk, 2sqrt_dk, dk$' "$(sqrtdk sweep configs/ablate_dk64.ini --dry-run)"
check_match "a directory of configs" 'configs/scores: it is a directory; name a file$' "$(sqrtdk configs/scores 2>&1)"
check_match "a config without its directory" 'did you mean configs/dk64_scaled.ini\?' "$(sqrtdk dk64_scaled 2>&1)"
check_match "what gets Tiny Shakespeare" "tinyshakespeare.txt: No such file.*; '.*/usr/share/sqrtdk/data/get_shakespeare.sh' downloads it" \
    "$(sqrtdk configs/shakespeare_cpu.ini 2>&1)"
check "the script for what export was" "sqrtdk: export is a script: '$root/usr/share/sqrtdk/lab/export_gpt2.py' RUN_DIR DIR [--best]" "$(sqrtdk export runs/dk64_scaled hf 2>&1)"
check "that script" yes "$([ -x "$root/usr/share/sqrtdk/lab/export_gpt2.py" ] && [ -f "$root/usr/share/sqrtdk/lab/run_reader.py" ] && echo yes)"
mkdir configs && echo "[model]" >configs/dk64_scaled.ini && echo "layers = 5" >>configs/dk64_scaled.ini
check "a config that is here is taken first" "layers = 5" "$(sqrtdk configs/dk64_scaled.ini --dry-run | grep '^layers')"

# --- the man page has what --help has
manual=$root/usr/share/man/man1/sqrtdk.1
verbs=$(sqrtdk --help | sed -n 's/.* sqrtdk \([^ ]*\) .*\[options\]$/\1/p')
for verb in $verbs; do
    check_match "the man page" "^\.SS sqrtdk $verb" "$(cat "$manual")"
    [ "$verb" != CONFIG.ini ] || verb=train
    for option in $(sqrtdk help "$verb" | grep -oE -e '^  (-., )?--[a-z-]+' | grep -oE -e '--[a-z-]+'); do
        check_match "the man page, $verb" "^\.B .*$option" "$(sed 's/\\-/-/g' "$manual")"
    done
done
if command -v man >/dev/null; then
    check "what man says of the page" "" "$(MANWIDTH=80 man --warnings -l "$manual" 2>&1 >"$tmp/manual")"
    check_match "the page as man shows it" '^ +scale_divisor +sqrt_dk, none,' "$(cat "$tmp/manual")"
fi

# --- completion: completes WORD... prints what may stand in place of the last word
completes() {
    bash -c '. "$1" && shift && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && compopt() { :; } && _sqrtdk && echo "${COMPREPLY[*]}"' \
        bash "$root/usr/share/bash-completion/completions/sqrtdk" sqrtdk "$@"
}
if command -v bash >/dev/null; then
    check "sqrtdk s" "sweep sample" "$(completes s)"
    check "sqrtdk sample runs --t" "--tokens --temperature --top-k --top-p --threads" "$(completes sample runs --t)"
    check "sqrtdk c.ini --se" "--set" "$(completes c.ini --se)"
    check "--set attention.so" "attention.softcap=" "$(completes c.ini --set attention.so)"
    check "--set model.norm=" "pre post" "$(completes c.ini --set model.norm =)"
    check "--set attention.scale_divisor=s" "sqrt_dk sqrt_dmodel" "$(completes c.ini --set attention.scale_divisor = s)"
    check "--set softc" "softcap=" "$(completes c.ini --set softc)"
    check "--set scale_divisor=s" "sqrt_dk sqrt_dmodel" "$(completes c.ini --set scale_divisor = s)"
    check "--set every=, a key of several sections" "" "$(completes c.ini --set every =)"
    check "--set=model.no" "model.norm=" "$(completes c.ini --set = model.no)"
    check "--out=ru" "runs" "$(completes c.ini --out = ru)"
    check "--set log.attention_every=" "doubling" "$(completes c.ini --set log.attention_every =)"
    check "--set train.steps=" "" "$(completes c.ini --set train.steps =)"
    check "configs/r" "configs/recall.ini" "$(completes configs/r)"
    check "run" "runs" "$(completes eval run)"

    # Names of files are data: nothing expands or runs them, and none is torn apart.
    # shellcheck disable=SC2016 # names
    for name in '$(touch${IFS}ran).ini' 'two words.ini' '~root.ini' '{a,b}.ini' '`touch ran`.ini' "it's.ini" '*.ini'; do
        begin=$(printf %.2s "$name")
        : >"$name" && : >"configs/1$name" && : >"$root/usr/share/sqrtdk/configs/2$name"
        check "a file whose name begins with $begin" "$name" "$(completes eval "$begin")"
        check "configs/1$begin" "configs/1$name" "$(completes eval "configs/1$begin")"
        check "configs/2$begin" "configs/2$name" "$(completes eval "configs/2$begin")"
        rm "$root/usr/share/sqrtdk/configs/2$name"
    done
    check "a key that is a script of sed" "" "$(completes c.ini --set 'a/s//touch ran/e;' = 2>&1)"
    # typed TEXT: the line as bash has it after the tabulator
    typed() {
        rm -f line
        # shellcheck disable=SC2016 # for bash to expand
        COMPLETION=$root/usr/share/bash-completion/completions/sqrtdk HISTFILE='' python3 -c 'import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
show = "bind -x \x27\"\\C-t\": printf %s \"$READLINE_LINE\" >line; READLINE_LINE=exit\x27"
os.write(terminal, (". \"$COMPLETION\"\n" + show + "\n" + sys.argv[1] + "\t\x14\n").encode())
try:
    while os.read(terminal, 4096):
        pass
except OSError: # bash has ended
    pass' "$1" && cat line
    }
    if python3 -c 'import os; os.openpty()' 2>/dev/null; then
        check "two" 'sqrtdk eval two\ words.ini ' "$(typed 'sqrtdk eval two')"
        check "'two w" "sqrtdk eval 'two words.ini' " "$(typed "sqrtdk eval 'two w")"
        check '\$' 'sqrtdk eval \$\(touch\$\{IFS\}ran\).ini ' "$(typed 'sqrtdk eval \$')"
        check '\~' 'sqrtdk eval \~root.ini ' "$(typed 'sqrtdk eval \~r')"
    fi
fi

# --- uninstall
cd "$repository" || exit 1
echo mine >"$root/usr/share/sqrtdk/configs/mine.ini"
make_quietly uninstall
check "what is left" "$root/usr/share/sqrtdk/configs/mine.ini" "$(find "$root" -type f)"
rm "$root/usr/share/sqrtdk/configs/mine.ini"
make_quietly uninstall
check "files left" "" "$(find "$root" ! -type d)"
check "directories left" "$root/usr/bin $root/usr/share/bash-completion/completions $root/usr/share/doc $root/usr/share/man/man1 " \
    "$(find "$root" -type d -empty | LC_ALL=C sort | tr '\n' ' ')"

# --- a repository of any name, with configs of any name
# shellcheck disable=SC2016 # names
copy="$tmp/"'$(touch ran) `touch ran` it'\''s'
mkdir -p "$copy/$build" && cp -a Makefile CITATION.cff LICENSE README.md CHANGELOG.md share configs data docs lab src tests train.c "$copy" &&
    cp -a "$build/train" "$build/train-double" "$copy/$build" && cd "$copy" || exit 1
# shellcheck disable=SC2016
: >'configs/$(touch${IFS}ran).ini' && : >'configs/two words.ini'
make -s -o "$build/train" "$build/sqrtdk.1" >"$tmp/said" 2>&1
check "the man page, and what was said" "$(cksum <"$repository/$build/sqrtdk.1")" "$(cat "$tmp/said")$(cksum <"$build/sqrtdk.1")"
share/install.sh install "$build" "$root/usr"
check "configs that were installed" "$(ls configs)" "$(ls "$root/usr/share/sqrtdk/configs")"
share/install.sh uninstall "$build" "$root/usr"
check "files left" "" "$(find "$root" ! -type d)"

check "what names ran" "" "$(find "$tmp" "$repository" -maxdepth 3 -name ran)"
checked
