#!/bin/sh
# From a fresh machine to ./train: installs the packages that are missing, then runs make. On Debian and Ubuntu it
# installs by apt-get, as root or by sudo, and says what before it does; with nothing missing it needs neither root
# nor network. Elsewhere it names the packages and leaves installing them to you. Run it as yourself, not by sudo,
# so that what is built is yours.
set -eu

usage="usage: ./setup.sh [--mpi] [--live] [--print | --help]
Installs what sqrtdk needs and is not there yet (Debian, Ubuntu), then builds it with make.
  --mpi     also Open MPI, and train-mpi, with which several processes train one run
  --live    also clang and what compiles to WebAssembly: make live writes the page that trains
  --print   only list the packages, one per line"
say() { printf 'setup.sh: %s\n' "$*"; }
fail() { say "$@" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

mpi='' live=''
if [ "${1-}" = --mpi ]; then mpi=1 && shift; fi
if [ "${1-}" = --live ]; then live=1 && shift; fi
case $#${1-} in
  0 | 1--print) ;;
  1-h | 1--help) echo "$usage"; exit 0 ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
called_from=$PWD
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd -- "$here"

# Compiler and tools, OpenBLAS, JSON, pictures and the letters on them; for the tests alone cmocka, Python and, with
# --mpi, pgrep. On Debian make prefers the OpenMP build of OpenBLAS even where another one is the default.
if has apt-get && has dpkg-query; then
  install="apt-get install -y --no-install-recommends"
  packages="gcc libc6-dev make pkg-config libopenblas-openmp-dev libjansson-dev libstb-dev
    fonts-dejavu-core libcmocka-dev python3"
elif has dnf; then
  install="sudo dnf install"
  packages="gcc make pkgconf-pkg-config openblas-devel jansson-devel stb_image_write-devel
    stb_truetype-devel dejavu-sans-fonts libcmocka-devel python3"
elif has pacman; then
  install="sudo pacman -S --needed"
  packages="gcc make pkgconf openblas jansson stb ttf-dejavu cmocka python"
elif has brew; then # it has no stb, and keeps openblas where pkg-config does not look by itself
  install="brew install"
  packages="gcc make pkgconf openblas jansson font-dejavu cmocka python"
  PKG_CONFIG_PATH=$(brew --prefix)/opt/openblas/lib/pkgconfig:${PKG_CONFIG_PATH-}
  export PKG_CONFIG_PATH
else
  fail "found none of apt-get, dnf, pacman, brew; install gcc, make, pkg-config, OpenBLAS, jansson, stb, DejaVu" \
    "fonts, cmocka and Python 3 your way, then run make"
fi
if [ $mpi ]; then
  case $install in
    apt-get*) packages="$packages libopenmpi-dev openmpi-bin procps" ;;
    *dnf*) packages="$packages openmpi-devel procps-ng" ;;
    *pacman*) packages="$packages openmpi procps-ng" ;;
    *) packages="$packages open-mpi" ;;
  esac
fi
if [ $live ]; then
  case $install in
    apt-get*) packages="$packages clang lld wasi-libc libclang-rt-dev-wasm32" ;;
    *dnf*) packages="$packages clang lld wasi-libc-devel wasi-libc-static compiler-rt" ;;
    *pacman*) packages="$packages clang lld wasi-libc wasi-compiler-rt" ;;
    *) packages="$packages llvm lld wasi-libc wasi-runtimes" ;;
  esac
fi
# shellcheck disable=SC2086 # a list of words, here and below
[ "${1-}" != --print ] || { printf '%s\n' $packages; exit 0; }

missing=
if [ "${install%% *}" = apt-get ]; then
  for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
  done
  if [ -z "$missing" ]; then
    say "every package is there; nothing to install"
  else
    say "will install by apt-get:$missing"
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    [ -z "$as_root" ] || has sudo ||
      fail "no root and no sudo here; let an administrator run: apt-get update && $install$missing"
    run() { $as_root env DEBIAN_FRONTEND=noninteractive "$@" </dev/null; }
    run apt-get update -qq || say "apt-get update failed; using the package lists that are here"
    # shellcheck disable=SC2086
    run $install -qq -o Dpkg::Use-Pty=0 $missing || fail "could not install$missing; the lines above say why"
  fi
else
  # shellcheck disable=SC2086
  say "needs these packages, installed by: $install" $packages
  for tool in cc make pkg-config python3; do has $tool || missing="$missing $tool"; done
  for library in openblas jansson cmocka; do
    pkg-config --exists $library 2>/dev/null || missing="$missing $library"
  done
  stb=/include/stb/stb_truetype.h # few systems have a stb.pc, so make tries these folders too
  pkg-config --exists stb 2>/dev/null || [ -f /usr$stb ] || [ -f /usr/local$stb ] || [ -f /opt/homebrew$stb ] ||
    missing="$missing stb (github.com/nothings/stb)"
  [ -z "$missing" ] || fail "not found:$missing; install what is missing, then run setup.sh again"
fi

jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || echo 1)
say "make -j $jobs${mpi:+ MPI=1}"
make -j "$jobs" MPI=$mpi || fail "make failed; the first error above says why"

[ "$called_from" = "$here" ] && go='' || go="cd '$(printf %s "$here" | sed "s/'/'\\\\''/g")' && "
say "ready. Type next: $go./train configs/dk64_scaled.ini"
