#!/bin/sh
# Runs the test programs named as arguments, then each script of this folder named test_*.sh; fails if one fails.
set -u
# On a busy machine threads that wait should not spin: the tests' models are tiny and meet at many barriers.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 names=""
for test in "$@" tests/test_*.sh; do
    printf '== %s\n' "$test"
    if "./$test"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        names="$names $test"
    fi
done
[ "$failed" = 0 ] || printf '\nFAILED:%s\n' "$names"
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
