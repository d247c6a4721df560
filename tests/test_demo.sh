#!/bin/sh
# docs/demo.html is a page as this program writes it: its style, its script, its form and the keys of its data. Its figures
# differ by processor. `make demo` writes it again.
set -u
cd "$(dirname "$0")/.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
fail() {
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$1"
}
form() { sed 's|^\(<script type="application/json" id="data">\).*|\1|; s|^\(<h1 id="title">\).*|\1|; s|^\(<p id="why">\).*|\1|' "$1"; }
data() { sed -n 's|^<script type="application/json" id="data">||p' "$1"; }
keys() { data "$1" | grep -oE '"[A-Za-z0-9_]+": ?' | tr -d ' ' | sort -u; }

./train sweep configs/demo.ini --out "$tmp/demo" --quiet --set train.steps=2 --set eval.every=1 --set eval.batches=1 \
    --set log.sample_tokens=0 >"$tmp/said" 2>&1 || fail "the sweep: $(cat "$tmp/said")"
rm -f "$tmp"/demo/*/report.html
./train report "$tmp/demo" >"$tmp/said" 2>&1 || fail "its page: $(cat "$tmp/said")"
for part in form keys; do
    $part docs/demo.html >"$tmp/kept"
    $part "$tmp/demo/report.html" >"$tmp/now"
    [ -s "$tmp/now" ] || fail "no $part in the page"
    cmp -s "$tmp/kept" "$tmp/now" || fail "the $part of docs/demo.html differs from what the program writes: run make demo
$(diff "$tmp/kept" "$tmp/now" | cut -c 1-120 | head -n 10)"
done
size=$(wc -c <docs/demo.html)
[ "$size" -le 2000000 ] || fail "docs/demo.html has $size bytes, and may have 2,000,000"
[ "$failed" = 0 ] && echo "docs/demo.html: all checks passed"
