#!/bin/sh
# Writes tinyshakespeare.txt next to this script, from the network or from a copy on this machine. Results are
# compared with those of others on the same bytes, so the text goes into place only once its SHA-256 is right; until
# then, and on every failure, what stood there is untouched.
set -eu

url=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
sha256=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed

usage() {
  cat <<END
usage: get_shakespeare.sh [FILE]
Writes data/tinyshakespeare.txt from FILE or, without one, from
$url
END
}
fail() { printf 'get_shakespeare.sh: %s\n' "$*" >&2; exit 1; }

has() { command -v "$1" >/dev/null 2>&1; }
if has sha256sum; then
  hash_of() { sha256sum <"$1" | cut -d ' ' -f 1; }
elif has shasum; then
  hash_of() { shasum -a 256 <"$1" | cut -d ' ' -f 1; }
else
  hash_of() { fail "needs sha256sum or shasum to check the text; install one of them (Debian: coreutils)"; }
fi

case ${1-} in
  -h | --help) usage; exit 0 ;;
  -?*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }

directory=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$directory/tinyshakespeare.txt
temporary=$target.new.$$

if [ -f "$target" ]; then
  hash=$(hash_of "$target")
  [ "$hash" != "$sha256" ] || { echo "$target is already there, and its SHA-256 is right."; exit 0; }
elif [ -e "$target" ]; then
  fail "$target is in the way and not a file; remove it and try again"
fi

trap 'rm -f -- "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
( : >"$temporary" ) 2>/dev/null || fail "cannot write in $directory"

# The tools' own messages are left out, so that a failure is the one line below.
if [ $# -eq 1 ]; then
  source=$1
  if [ ! -f "$source" ] || [ ! -r "$source" ]; then fail "cannot read $source"; fi
  cat <"$source" >"$temporary" 2>/dev/null || fail "cannot copy $source to $directory; is the disk full?"
else
  source=$url
  if has curl; then
    curl -fsL --connect-timeout 20 --max-time 300 -o "$temporary" "$url" || failed="curl says $?"
  elif has wget; then
    wget -q -T 20 -O "$temporary" "$url" || failed="wget says $?"
  else
    fail "needs curl or wget; install one, or name a copy you have: get_shakespeare.sh FILE"
  fi
  [ -z "${failed-}" ] ||
    fail "cannot download $url ($failed); check the network, or name a copy you have: get_shakespeare.sh FILE"
fi

hash=$(hash_of "$temporary")
[ "$hash" = "$sha256" ] || fail "$source is not Tiny Shakespeare: its SHA-256 is $hash, not $sha256"
mv -f -- "$temporary" "$target" || fail "cannot write $target"
echo "wrote $target"
