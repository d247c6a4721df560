#!/bin/sh
# Puts the program, its configs and its documentation below a directory, or removes these files from there; make install
# and make uninstall call it.
#   share/install.sh install | uninstall BUILD TO      in the root of the repository
set -eu
verb=$1_file build=$2 to=$3

install_file() { install -d "$to/${3%/*}" && install -m "$1" "$2" "$to/$3"; }
uninstall_file() { rm -f "$to/$3"; }
# each MODE DIRECTORY FILE...: with their paths, below the directory
each() {
    mode=$1 directory=$2
    shift 2
    for file in "$@"; do "$verb" "$mode" "$file" "$directory/$file"; done
}

"$verb" 755 "$build/train" bin/sqrtdk
"$verb" 755 "$build/train-double" bin/sqrtdk-double
"$verb" 644 "$build/sqrtdk.1" share/man/man1/sqrtdk.1
"$verb" 644 share/completion.bash share/bash-completion/completions/sqrtdk
each 755 share/sqrtdk data/get_shakespeare.sh lab/export_gpt2.py
each 644 share/sqrtdk lab/run_reader.py configs/*.ini configs/*/*.ini configs/*/*.sbatch
each 644 share/doc/sqrtdk LICENSE README.md CHANGELOG.md data/README.md data/LICENSE docs/*.md docs/*.py docs/live.html \
    docs/images/* lab/docs/*.md lab/docs/*.py lab/docs/*.ipynb lab/docs/images/*
[ "$1" = uninstall ] || exit 0
for directory in sqrtdk doc/sqrtdk; do # those that others use as well stay, and those that hold something else
    [ ! -d "$to/share/$directory" ] || find "$to/share/$directory" -depth -type d -exec rmdir {} \; 2>/dev/null || true
done
