#!/bin/sh
# The command line, as people meet it: what is refused, with which status and line; what is written where; signals, full
# disks and pipes. Everything runs in a directory of its own, with models that train in less than a second.
set -u
cd "$(dirname "$0")/.." || exit 1
unset OPENBLAS_CORETYPE
repository=$PWD train=$PWD/train
tmp=$(mktemp -d) || exit 1
said=$tmp/said # what commands print; beside the working directory, so that it is not taken for something they wrote
mkdir "$tmp/work" "$tmp/full" "$said"
running=
clean_up() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null
    umount "$tmp/full" 2>/dev/null
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0

# check NAME EXPECTED CAME
check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n  expected: %s\n  came: %s\n' "$1" "$2" "$3"
    fi
}

# check_match NAME PATTERN CAME: an extended regular expression that a line of CAME matches
check_match() {
    if printf '%s\n' "$3" | grep -qE -e "$2"; then check "$1" "" ""; else check "$1" "/$2/" "$3"; fi
}

check_file() { check "$1 is there and not empty" yes "$([ -s "$1" ] && echo yes || echo no)"; }

# Every file and directory, with checksums: two that are the same mean that nothing was written.
listing() { find . -exec ls -ld {} + | awk '{ print $1, $NF }' | sort && find . -type f -exec cksum {} + | sort; }

# run COMMAND...: its status, and what it printed in $said/out and $said/err
run() {
    status=0
    "$@" >"$said/out" 2>"$said/err" </dev/null || status=$?
}

# fails STATUS PATTERN COMMAND...: ends with that status and exactly one line on stderr, which matches
fails() {
    want=$1 pattern=$2
    shift 2
    run "$@"
    name=$(printf '%s ' "$@")
    check "status of: $name" "$want" "$status ($(head -c 300 "$said/err"))" | sed 's/^/  /' >"$said/check"
    [ "$status" = "$want" ] || cat "$said/check"
    check "status of: $name" "$want" "$status" >/dev/null
    check "lines on stderr of: $name" 1 "$(grep -c '' <"$said/err")"
    check_match "message of: $name" "$pattern" "$(cat "$said/err")"
}

# refuses STATUS PATTERN COMMAND...: and writes nothing
refuses() {
    listing >"$said/before"
    fails "$@"
    listing >"$said/after"
    check "what changed by: $name" "" "$(diff "$said/before" "$said/after" | grep '^[<>]')"
}

# refuses_config PATTERN CONFIG: of ./train bad.ini
refuses_config() {
    printf '%b' "$2" >bad.ini
    refuses 2 "$1" "$train" bad.ini
}

succeeds() {
    run "$@"
    check "status of: $(printf '%s ' "$@")" 0 "$status"
    [ "$status" = 0 ] || cat "$said/err"
}

result_of() { sed -n 's/^.*"result": "\([a-z]*\)".*$/\1/p' "$1/run.json"; }
