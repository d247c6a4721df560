#!/bin/sh
# Building, all of it where `ln` fails, as on a file system without symbolic links. A clone with core.autocrlf has the same
# bytes, and passes `make check`. A tree that has no lab/ builds with `make trainer`, trains, resumes,
# evaluates, samples and draws, and says of a verb of the lab in one line that it is not built in.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/check.sh
plain_build_or_skip
unset MAKEFLAGS MFLAGS MAKELEVEL BUILD SANITIZER COVERAGE OPENBLAS_CORETYPE
export OMP_NUM_THREADS=1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
CC=${CC:-$(basename "$build")}
export CC

mkdir "$tmp/bin" && printf '#!/bin/sh\necho "ln: Operation not permitted" >&2\nexit 1\n' >"$tmp/bin/ln" && chmod +x "$tmp/bin/ln" || exit 1
PATH=$tmp/bin:$PATH

# --- a clone where git would end lines in CRLF: the scripts run, the built-in text is the same, and `make check` passes
if git rev-parse --git-dir >/dev/null 2>&1; then
    repository=$PWD
    git clone -q -s -c core.autocrlf=true . "$tmp/clone" && cd "$tmp/clone" || exit 1
    check "lines that end in CRLF" "" "$(git ls-files --eol | grep -v '^i/crlf' | grep -m 1 w/crlf)"
    check "setup.sh --print" "$("$repository/setup.sh" --print)" "$(./setup.sh --print 2>&1)"
    make -s "$build/embedded/src/data/builtin.o" >"$tmp/said" 2>&1
    check "the built-in text" "" "$(cat "$tmp/said"; cmp "$repository/$build/embedded/src/data/builtin.o" "$build/embedded/src/data/builtin.o" 2>&1)"
    # Objects of files with the same bytes are up to date.
    cp -a "$repository/$build" build && git ls-files | while IFS= read -r file; do
        ! cmp -s "$file" "$repository/$file" || touch -r "$repository/$file" "$file"
    done
    make -s SAME_FLAGS=yes check >"$tmp/said" 2>&1
    check "make check" 0 $?
    check_match "its last line" '^[0-9]+ passed, 0 failed$' "$(tail -n 1 "$tmp/said")"
    check "programs that are links" "" "$(find . -maxdepth 1 -type l)"
    cd "$repository" && rm -rf "$tmp/clone" || exit 1
fi

# --- a tree without lab/
# The objects of src/ are those of this build, which make takes for up to date.
mkdir -p "$tmp/$build/float" && cp -a train.c src data configs share tests Makefile README.md "$tmp" &&
    cp -a "$build/float/src" "$tmp/$build/float" && cp -a "$build/embedded" "$build/flags" "$tmp/$build" && cd "$tmp" || exit 1
rm -rf "$build/embedded/lab"
CC="env $CC" make -s SAME_FLAGS=yes trainer >said 2>&1
check "make trainer, by a compiler of two words" "0, saying " "$?, saying $(cat said)"

run() { "$@" >out 2>err; }
settings='--set train.steps=20 --set train.warmup=2 --set eval.every=10 --set eval.batches=2 --set log.sample_tokens=20'
# shellcheck disable=SC2086 # a list of words
run ./train configs/dk64_scaled.ini --out run $settings
check "training" 0 $?
check_match "what it said" '^done after 20 steps .* validation loss [0-9.]+$' "$(cat out)"
check "a page in what it said" "" "$(grep report.html out)"
run ./train resume run --set train.steps=25
check "resuming" "0 25" "$? $(tail -n 1 run/metrics.csv | cut -d , -f 1)"
run ./train eval run
check_match "evaluating" '^validation loss [0-9.]+ nats per character, over [0-9]+ characters$' "$(cat out)"
run ./train sample run --tokens 50 --seed 1
check "sampling" 0 $?
check "characters" 51 "$(wc -m <out)"
for file in loss.png attention/step000000_layer0.png attention/step000025_layer1.png samples.txt checkpoint/best.safetensors; do
    check "$file" "is there" "$([ -s "run/$file" ] && echo is there)"
done
check "a page" "none" "$([ -e run/report.html ] || echo none)"
run ./train resume run
check_match "of a finished run" '^run has already finished; its pictures were made again; ' "$(cat out)"

# --- fonts: the first of a collection; one that cannot be read ends the command before a run begins
# shellcheck disable=SC2016 # a name with a backtick
python3 - "$build/embedded/font.ttf" >'`touch ran` font.ttc' <<'PYTHON'
import struct, sys

head = struct.pack(">4sIII", b"ttcf", 0x10000, 1, 16)
font = bytearray(open(sys.argv[1], "rb").read())
for table in range(12, 12 + 16 * struct.unpack(">H", font[4:6])[0], 16):
    font[table + 8:table + 12] = struct.pack(">I", struct.unpack(">I", font[table + 8:table + 12])[0] + len(head))
sys.stdout.buffer.write(head + font)
PYTHON
cp README.md text.ttf
# shellcheck disable=SC2016
for font in '`touch ran` font.ttc' text.ttf; do
    rm "$build/embedded/font.ttf" "$build/embedded/src/show/font.o" "$build/trainer"
    make -s SAME_FLAGS=yes FONT="$font" trainer >said 2>&1
    check "make FONT=$font" "0, saying " "$?, saying $(cat said)"
    # shellcheck disable=SC2086
    run ./train configs/dk64_scaled.ini --out "run with $font" $settings
    case $font in
    *.ttc) check "a picture" "" "$(cmp run/attention/step000000_layer0.png "run with $font/attention/step000000_layer0.png" 2>&1)" ;;
    *) check "a font that cannot be read" "1, saying ./train: the font that is built in cannot be read: build again with make FONT=/path/to/DejaVuSans.ttf" \
        "$?, saying $(cat err)$(ls -d "run with $font" 2>/dev/null)" ;;
    esac
done
check "what the name of a font ran" "" "$(ls ran 2>/dev/null)"

# --- objects follow the flags
object=$build/float/src/base/error.o
make -s CFLAGS=-g "$object"
check "the same CFLAGS" "" "$(make CFLAGS=-g "$object" 2>&1)"
check "other CFLAGS" "CC src/base/error.c" "$(make CFLAGS=-g0 "$object" 2>&1)"
check "another font" "AS src/show/font.S" "$(make CFLAGS=-g0 FONT=text.ttf "$build/embedded/src/show/font.o" 2>&1)"
make -s CFLAGS=-g0 FONT=text.ttf "$object"
check "make install takes what was built" "" "$(make -o install "$object" install 2>&1 | grep error.c)"

# --- verbs of lab/
verbs=$(grep -oE '_verb = \{\.name = "[a-z]+"\}' train.c | cut -d '"' -f 2 | tr '\n' ' ')
check "the lab's verbs" "sweep attend why report bench theory gradcheck " "$verbs"
for verb in $verbs; do
    run ./train "$verb" run
    check "status of $verb" 2 $?
    check "what $verb says" "./train: $verb is a verb of lab/, which is not built in: make builds it, and make trainer leaves it out" \
        "$(cat err)"
    check "$verb in the help" "" "$(./train --help | grep -o " $verb ")"
done
check "resume takes no option of sweeps" 2 "$(run ./train resume run --jobs 2; echo $?)"
checked
