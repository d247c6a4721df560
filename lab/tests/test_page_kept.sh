#!/bin/sh
# docs/live.html is a page as this program writes it: its style, its scripts, its form and the keys of its data, which are
# those of a sweep's report with the section that trains. Its figures differ by processor, and its module by compiler.
# `make live` writes it again.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/check.sh
plain_build_or_skip
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
form() { sed 's|^\(<script type="application/json" id="data">\).*|\1|; s|^\(<h1 id="title">\).*|\1|; s|^\(<p id="why">\).*|\1|' "$1"; }
data() { sed -n 's|^<script type="application/json" id="data">||p' "$1"; }
keys() { data "$1" | grep -oE '"[A-Za-z0-9_]+": ?' | tr -d ' ' | sort -u; }

./train sweep configs/demo.ini --out "$tmp/demo" --quiet --set train.steps=2 --set eval.every=1 --set eval.batches=1 \
    --set log.sample_tokens=0 >"$tmp/said" 2>&1 || fail "the sweep" "no error" "$(cat "$tmp/said")"
rm -f "$tmp"/demo/*/report.html
./train report "$tmp/demo" >"$tmp/said" 2>&1 || fail "its page" "no error" "$(cat "$tmp/said")"
lab/live/page.py "$tmp/demo/report.html" docs/live.html "$tmp/now.html" || fail "the section that trains" "no error" "status $?"
for part in form keys; do
    $part docs/live.html >"$tmp/kept"
    $part "$tmp/now.html" >"$tmp/now"
    check "the $part of the page has something" yes "$([ -s "$tmp/now" ] && echo yes)"
    check "the $part of docs/live.html, which make live writes" "" "$(diff "$tmp/kept" "$tmp/now" | cut -c 1-120 | head -n 10)"
done
check "bytes of docs/live.html, at most 2,100,000" yes "$([ "$(wc -c <docs/live.html)" -le 2100000 ] && echo yes)"
checked
