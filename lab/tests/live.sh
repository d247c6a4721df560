#!/bin/sh
# The page that trains (docs/live.html): its module gives the bits that are kept in lab/tests/live.txt, whatever the machine,
# and the losses of ./train to 1e-3. Needs Node. With --print it prints what would be kept.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
unset OPENBLAS_CORETYPE
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
# The sweep's section is for another verb, and the page has no use for it.
for name in dk64_scaled recall demo; do sed '/^\[sweep\]/,$d' "configs/$name.ini" >"$tmp/$name.ini"; done
trained() {
    echo "$*"
    config=$tmp/$1.ini
    shift
    node lab/tests/live.mjs docs/live.html "$config" "$@"
}
all() {
    trained demo 200 attention.scale_divisor=sqrt_dk
    trained demo 60 attention.scale_divisor=none
    trained dk64_scaled 101
    trained recall 60
}
if [ "${1-}" = --print ]; then all; exit; fi
all >"$tmp/came" 2>"$tmp/speed" || fail "training in Node" "losses" "$(cat "$tmp/came")"
check "losses and hashes of lab/tests/live.txt" "" "$(diff lab/tests/live.txt "$tmp/came")"
./train configs/dk64_scaled.ini --out "$tmp/native" --threads 1 --quiet --set train.steps=1000 --set log.every=20 \
    --set eval.every=0 --set log.attention_every=0 --set log.checkpoint_every=0 >/dev/null 2>&1 &
native=$!
until [ "$(grep -c '' "$tmp/native/metrics.csv" 2>/dev/null || echo 0)" -gt 6 ]; do
    kill -0 $native 2>/dev/null || break
    sleep .2
done
kill -TERM $native 2>/dev/null
wait $native
far=$(sed -n '/^dk64/,$p' "$tmp/came" | sed -n 's/^step \([0-9]*\): /\1,/p' | head -n 6 | while IFS=, read -r step loss; do
    awk -F, -v step="$step" -v loss="$loss" '$1 == step { d = $5 - loss; print step, (d < 0 ? -d : d) < 1e-3 ? "near" : "far: " $5 " and " loss }' \
        "$tmp/native/metrics.csv"
done)
check "losses of ./train at steps 0 to 100, to 1e-3" "$(printf '%s near\n' 0 20 40 60 80 100)" "$far"
check "a mistake in a config" 'the config:29: "divisor = 3"' \
    "$(node lab/tests/live.mjs docs/live.html "$tmp/dk64_scaled.ini" 1 attention.divisor=3 2>&1 | cut -d: -f 1-3)"
# Errors, more than the module's stack would hold, change no bit. Each kind is made 60 times.
node lab/tests/live.mjs docs/live.html "$tmp/demo.ini" 60 attention.scale_divisor=none --errors >"$tmp/erred" 2>/dev/null
check "losses and hash of a model that is asked for what it refuses" "$(sed -n '/none$/,/^parameters/p' lab/tests/live.txt | tail -n +2)" \
    "$(head -n 5 "$tmp/erred")"
check "what it says of the 360 errors" "60 60 60 60 60 60" "$(sed -n 's/ times: .*//p' "$tmp/erred" | xargs)"
# A run of the page, taken away: the program's verbs read it, and go on with it.
(cd "$tmp" && node "$OLDPWD/lab/tests/live.mjs" "$OLDPWD/docs/live.html" demo.ini 30 attention.scale_divisor=none run.zip >taken 2>/dev/null && python3 -m zipfile -e run.zip .)
here=$(sed -n 's/^validation: //p' "$tmp/taken")
loss=$(./train eval "$tmp/run" 2>&1 | sed -n 's/^validation loss \([0-9.]*\) .*/\1/p')
check "loss of a run that was taken away, to 1e-4" near "$(awk -v a="$here" -v b="$loss" 'BEGIN { d = a - b; print (a != 0 && d < 1e-4 && d > -1e-4 ? "near" : a " and " b) }')"
check "the sentences of the page are those of ./train why" "" "$(cd "$tmp" && ln -s "$OLDPWD/train" . && ./train why run | diff - why.txt)"
for verb in "sample $tmp/run --tokens 20" "attend $tmp/run --text River --out $tmp/attend.png" "report $tmp/run" \
    "why $tmp/run" "resume $tmp/run --set train.steps=32"; do
    # shellcheck disable=SC2086 # its words
    ./train $verb >"$tmp/said" 2>&1
    check "${verb%% *} of it" "0 yes" "$? $([ -s "$tmp/said" ] && echo yes)"
done
check "its log" 32 "$(tail -n 1 "$tmp/run/metrics.csv" | cut -d, -f 1)"
# The program of lab/docs/live.md, by the commands that stand there.
awk '/^```c$/ { f = 1; next } /^```$/ { f = 0 } f' lab/docs/live.md >"$tmp/mine.c"
awk '/^```sh$/ { f = 1; next } /^```$/ { f = 0 } f' lab/docs/live.md | sed "s,mine\.c,$tmp/mine.c,; s,-o mine,-o $tmp/mine,; s,^\./mine,$tmp/mine," >"$tmp/commands"
sh -e "$tmp/commands" >"$tmp/said" 2>&1
check_match "one's own program" '^step [0-9]+: loss 2\.4' "$(cat "$tmp/said")"
cat "$tmp/speed"
checked
