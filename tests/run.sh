#!/bin/sh
# Runs each test program and each script of this folder named test_*.sh, one after the other; fails if one fails.
# BUILD names the folder the programs were built in, and ./train is the program itself.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=""
for test in "$@" tests/test_*.sh; do
    printf '== %s\n' "$test"
    if "./$test"; then passed=$((passed + 1)); else failed="$failed $test"; fi
done
[ -z "$failed" ] || { printf '\nFAILED:%s\n' "$failed"; exit 1; }
printf '\n%d test programs passed\n' "$passed"
