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
