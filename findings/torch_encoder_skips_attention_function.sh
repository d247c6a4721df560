#!/bin/sh
# Guess: whoever replaces torch.nn.functional.scaled_dot_product_attention sees every attention of an nn.TransformerEncoder,
# since nn.MultiheadAttention calls it, and a divisor that is changed there changes the result.
# Really: a trained encoder is used with eval() and no_grad(), and then it calls another, fused function, for each layer. The
# replacement is never called, a divisor changed in it changes nothing, and nothing says so. With train() and
# no dropout, or with gradients, or with torch.backends.mha.set_fastpath_enabled(False), it is called once a layer.
# Versions: torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29. Random weights.
# Output: eval, no_grad                     called 0 times, the result with another divisor is the same
#         eval, gradients                   called 3 times, the result with another divisor differs
#         train, dropout 0, no_grad         called 3 times, the result with another divisor differs
#         eval, no_grad, no fast path       called 3 times, the result with another divisor differs
# Needs about 1 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export OMP_NUM_THREADS=1

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import sys

import torch
import torch.nn.functional as F

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.0, batch_first=True)
encoder = torch.nn.TransformerEncoder(layer, num_layers=3)
x = torch.randn(2, 10, 32)
original = F.scaled_dot_product_attention
calls = 0


def replacement(q, k, v, *args, **kwargs):
    """Divides by a quarter of the divisor."""
    global calls
    calls += 1
    return original(4 * q, k, v, *args, **kwargs)


def run(words, training, gradients, fast, expected):
    global calls
    encoder.train(training)
    torch.backends.mha.set_fastpath_enabled(fast)
    with torch.set_grad_enabled(gradients):
        before = encoder(x)
        calls, F.scaled_dot_product_attention = 0, replacement
        after = encoder(x)
        F.scaled_dot_product_attention = original
    same = (after - before).abs().max().item() < 1e-3
    print("%-33s called %d times, the result with another divisor %s" % (words, calls, "is the same" if same else "differs"))
    if (calls, same) != expected:
        print("changed:", words)
        sys.exit(1)


run("eval, no_grad", False, False, True, (0, True))
run("eval, gradients", False, True, True, (3, False))
run("train, dropout 0, no_grad", True, False, True, (3, False))
run("eval, no_grad, no fast path", False, False, False, (3, False))
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
