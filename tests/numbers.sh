#!/bin/sh
# Prints the numbers of a safetensors file, without its header, which has times and versions in it.
#   tests/numbers.sh FILE
header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
tail -c +$((header + 9)) "$1"
