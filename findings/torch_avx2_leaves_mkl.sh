#!/bin/sh
# Guess: ATEN_CPU_CAPABILITY=avx2, with ONEDNN_MAX_CPU_ISA=AVX2, holds PyTorch's CPU build to AVX2, so that its speed on a
# laptop can be measured on a server: torch.backends.cpu.get_cpu_capability() then says AVX2.
# Really: matrix products go to MKL, which reads neither and stays at AVX-512, at twice the speed. It wants
# MKL_ENABLE_INSTRUCTIONS=AVX2, which in turn leaves ATen as it is. All three are needed.
# Versions: torch 2.13.0+cpu (oneMKL 2024.0.2), numpy 2.4.6, Python 3.11.7, on an Intel Xeon with AVX-512 and AMX.
# Date: 2026-11-29. Output (the speeds are of one run, and not compared):
#   nothing set                     ATen AVX512  MKL AVX-512  203 GFLOP/s
#   ATen and oneDNN held to AVX2    ATen AVX2    MKL AVX-512  193 GFLOP/s
#   MKL held to AVX2                ATen AVX512  MKL AVX2     114 GFLOP/s
# Needs an Intel processor with AVX-512, and 1.4 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not
# installed, or another processor.
set -eu

grep -q avx512f /proc/cpuinfo && grep -q GenuineIntel /proc/cpuinfo ||
    { echo "this needs an Intel processor with AVX-512" >&2; exit 2; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
unset ATEN_CPU_CAPABILITY ONEDNN_MAX_CPU_ISA MKL_ENABLE_INSTRUCTIONS MKL_CBWR

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/product.py" <<'PY'
import time

import torch

torch.set_num_threads(1)
a = torch.rand(2048, 2048)
best = 1e9
for _ in range(4):
    start = time.time()
    a @ a
    best = min(best, time.time() - start)
print("ATen", torch.backends.cpu.get_cpu_capability())
print("speed %.0f" % (2 * 2048**3 / best / 1e9))
PY

# Runs the products with these variables set, and compares who says that it uses which instructions.
check() {
    name=$1 aten=$2 mkl=$3
    shift 3
    env MKL_VERBOSE=1 "$@" "$dir/venv/bin/python" "$dir/product.py" >"$dir/said" 2>&1 || { cat "$dir/said"; exit 1; }
    uses=$(sed -n 's/^MKL_VERBOSE oneMKL.*(Intel(R) \(AVX[-0-9]*\)).*/\1/p' "$dir/said" | head -n 1)
    says=$(sed -n 's/^ATen //p' "$dir/said")
    printf '%-31s ATen %-7s MKL %-8s %s GFLOP/s\n' "$name" "$says" "$uses" "$(sed -n 's/^speed //p' "$dir/said")"
    if [ "$says" != "$aten" ] || [ "$uses" != "$mkl" ]; then
        echo "changed: expected ATen $aten and MKL $mkl"
        exit 1
    fi
}
check "nothing set" AVX512 AVX-512 NOTHING=
check "ATen and oneDNN held to AVX2" AVX2 AVX-512 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
check "MKL held to AVX2" AVX512 AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
