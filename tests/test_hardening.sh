#!/bin/sh
# The protections of the built program against mistakes in memory, read from the program itself: all of its links are bound
# before main and read-only afterwards, functions with arrays check their stack, and calls of the C library that know the
# size of what they write to check it.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v readelf >/dev/null || { echo "not without readelf" && exit 0; }
failed=0

# must NAME PATTERN TEXT: a line of the text matches the extended regular expression
must() {
    printf '%s\n' "$3" | grep -qE -e "$2" && return
    echo "FAILED: $1: nothing matches $2"
    failed=$((failed + 1))
}

for program in train "$(readlink train)-double"; do
    symbols=$(readelf -W --dyn-syms "$program")
    must "$program" 'Type: +DYN' "$(readelf -W --file-header "$program")"
    must "$program" 'GNU_RELRO' "$(readelf -W --program-headers "$program")"
    must "$program" 'GNU_STACK .* RW ' "$(readelf -W --program-headers "$program")"
    must "$program" '(BIND_NOW|FLAGS.*NOW)' "$(readelf -W --dynamic "$program")"
    # Programs with sanitizers, or that count what is covered, are built without the latter.
    if ! readelf -W --syms "$program" | grep -qE ' (__asan|__tsan|__ubsan|__gcov)_'; then
        must "$program" ' __stack_chk_fail@' "$symbols"
        must "$program" ' __(memcpy|snprintf|fprintf|fread)_chk@' "$symbols"
    fi
done
echo "$failed failed"
[ "$failed" = 0 ]
