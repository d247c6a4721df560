#!/bin/sh
# Runs the test programs named as arguments and each script test_*.sh of tests/ and lab/tests/, as many at a time as there
# are processors; what each of them prints comes out in one piece. Fails if one fails; with SKIP=no also if a test was
# skipped for something that the system lacks (a pseudo-terminal).
set -u
# On a busy machine threads that wait should not spin: the tests' models are tiny and meet at many barriers.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
cd "$(dirname "$0")/.." || exit 1
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
trap 'exit 1' HUP INT TERM
export logs
# The scripts first: they take longest. With SCRIPTS=no they are left out. With PINNED=yes (Linux) all threads and children
# of a test share one processor.
[ "${SCRIPTS-}" = no ] || set -- tests/test_*.sh lab/tests/test_*.sh "$@"
# shellcheck disable=SC2016 # for the inner shell to expand
printf '%s\n' "$@" | xargs -P "$(getconf _NPROCESSORS_ONLN)" ${PINNED:+--process-slot-var=slot} -I {} sh -c '
    test=$1
    [ -z "${slot-}" ] || taskset -cp "$slot" $$ >/dev/null
    log=$logs/$(echo "$test" | tr / +) begin=$(date +%s)
    { printf "== %s\n" "$test" && "./$test"; } >"$log.out" 2>&1 && : >"$log.passed" || : >"$log.failed"
    cat "$log.out"
    echo "== $test: $(($(date +%s) - begin)) s"' sh {}
passed=$(find "$logs" -name '*.passed' | grep -c .)
failed=$(find "$logs" -name '*.failed' | sed 's,.*/\(.*\)\.failed,\1,' | sort | tr '+\n' '/ ')
# cmocka names a test that it skips in a line of its own, and again in a list at the end.
skipped=$(sed -n 's/^\[  SKIPPED \] \([a-z_0-9]*\)$/\1/p' "$logs"/*.out | sort -u | tr '\n' ' ')
[ -z "$failed" ] || printf '\nFAILED: %s\n' "$failed"
[ -z "$skipped" ] || printf '\nskipped, for want of a pseudo-terminal: %s\n' "$skipped"
printf '\n%d passed, %d failed; %d tests in them skipped\n' "$passed" "$(echo "$failed" | wc -w)" "$(echo "$skipped" | wc -w)"
[ -z "$skipped" ] || [ "${SKIP-}" != no ] || exit 1
[ -z "$failed" ] && [ "$passed" = $# ]
