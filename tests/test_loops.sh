#!/bin/sh
# The loops of the built program as they are compiled for AVX2 (tests/loops.py says what it finds), where gcc built it for
# x86-64 without run-time checks.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$(dirname "$(readlink train)")
[ "$(uname -m)" = x86_64 ] || { echo "not on $(uname -m)" && exit 0; }
case $build in
build/gcc | build/gcc-avx2) ;;
*) echo "not in $build" && exit 0 ;;
esac
command -v objdump >/dev/null || { echo "not without objdump" && exit 0; }
tests/loops.py "$build"
