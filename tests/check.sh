# shellcheck shell=sh
# How the scripts of this folder count what passed: read by `. tests/check.sh`; `checked` is a script's last line.
passed=0 failed=0

pass() { passed=$((passed + 1)); }
# fail NAME EXPECTED CAME
fail() {
    failed=$((failed + 1))
    printf 'FAILED: %s\n  expected: %s\n  came: %s\n' "$1" "$2" "$3"
}
# check NAME EXPECTED CAME
check() { if [ "$2" = "$3" ]; then pass; else fail "$@"; fi; }
# check_match NAME PATTERN CAME: a line of CAME matches the extended regular expression
check_match() {
    if printf '%s\n' "$3" | grep -qE -e "$2"; then pass; else fail "$1" "a match of /$2/" "$3"; fi
}
checked() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
}

# skipped REASON [STATUS]: ends the script
skipped() {
    echo "skipped: $1"
    exit "${2:-0}"
}
# Sets $build, the directory of the built program. Ends a script that would find nothing more in a build with run-time
# checks.
plain_build_or_skip() {
    build=$(dirname "$(readlink train)")
    case $build in
    *-address* | *-undefined* | *-thread* | *-leak* | *-coverage*) skipped "what is checked here is enough for one build" ;;
    esac
}
# Makes $build/train-mpi by MPICC, sets $mpirun to the launcher that belongs to it (MPIRUN), and lets Open MPI 4 and 5 start
# more ranks than there are processors, for root as well, and say little. Without compiler wrapper and launcher the script is
# skipped, which is a failure with SKIP=no.
mpi_or_skip() {
    unset MAKEFLAGS MFLAGS MAKELEVEL BUILD SANITIZER COVERAGE OPENBLAS_CORETYPE
    plain_build_or_skip
    mpirun=${MPIRUN:-mpirun}
    for tool in "${MPICC:-mpicc}" "$mpirun"; do
        command -v "$tool" >/dev/null || skipped "there is no $tool: ./setup.sh --mpi installs it" "$([ "${SKIP-}" = no ] && echo 1)"
    done
    CC=${CC:-$(basename "$build")}
    export CC OMP_WAIT_POLICY=passive
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_execute_quiet=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    make -s SAME_FLAGS=yes "$build/train-mpi" || exit 1 # with what was built, whatever its flags
}
