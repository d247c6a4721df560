#!/bin/sh
# Guess: the rotation of queries and keys by their position keeps their lengths, and a score depends on the distance alone.
# Really: V-JEPA 2's does not. It takes sines and cosines in the order 1 to D/2, 1 to D/2, and turns entries 1 and 2, 3 and
# 4, and so on, so that the two entries of a pair get angles of different frequencies. Lengths change by up to a third,
# and the product of a query and a key changes when both are moved by the same number of places. A Llama's keeps both.
# Versions: transformers 5.24.0, torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29.
# Output: Llama     largest change of a length 0.00, of a product when both are moved 0.00 (of lengths 1)
#         V-JEPA 2  largest change of a length 0.32, of a product when both are moved 0.67 (of lengths 1)
# Needs about 1.4 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q transformers==5.24.0 torch==2.13.0 numpy==2.4.6 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import sys

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.vjepa2.modeling_vjepa2 import rotate_queries_or_keys

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
torch.manual_seed(1)
size = 16
vectors = torch.nn.functional.normalize(torch.randn(2, 1, 1, 64, size), dim=-1)
embedding = LlamaRotaryEmbedding(LlamaConfig(hidden_size=size, num_attention_heads=1))


def llama(x, position):
    cos, sin = embedding(x, torch.full((1, x.shape[2]), position))
    return apply_rotary_pos_emb(x, x, cos, sin)[0]


def vjepa2(x, position):
    return rotate_queries_or_keys(x, torch.full((1, 1, x.shape[2]), position))


for words, rotate, stretches in (("Llama", llama, False), ("V-JEPA 2", vjepa2, True)):
    q, k = vectors
    length = max((rotate(q, position).norm(dim=-1) - 1).abs().max().item() for position in range(1, 16))
    products = [(rotate(q, 3 + moved) * rotate(k, moved)).sum(-1) for moved in range(12)]
    product = max((one - products[0]).abs().max().item() for one in products)
    print("%-9s largest change of a length %.2f, of a product when both are moved %.2f (of lengths 1)" % (words, length, product))
    if (length > 1e-3) != stretches or (product > 1e-3) != stretches:
        print("changed: the rotation of", words)
        sys.exit(1)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
