#!/bin/sh
# Guess: models that were trained alike, with all scores divided by sqrt(d_k), have divided scores of about the same size
# at every d_k. That is what the division is for.
# Really: sceptr has its model of T-cell receptors in four sizes, with 8 heads each. Divided by sqrt(d_k) the scores of a row
# deviate by about 9 where d_k is 2 and by less than 2 where it is 16. Undivided they are more alike. The divisor sets
# the size at the start; training makes it what a head needs.
# Versions: sceptr 1.2.0, libtcrlm 1.1.3, torch 2.13.0+cpu, numpy 2.4.6, pandas 2.3.3, Python 3.11.7. Date: 2026-11-29.
# Output: d_k  2: deviation in the median head  9.3 divided, 13.1 undivided
#         d_k  4: deviation in the median head  5.5 divided, 11.0 undivided
#         d_k  8: deviation in the median head  3.1 divided,  8.8 undivided
#         d_k 16: deviation in the median head  1.8 divided,  7.1 undivided
# Needs about 1.3 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export OMP_NUM_THREADS=1

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q sceptr==1.2.0 libtcrlm==1.1.3 torch==2.13.0 numpy==2.4.6 pandas==2.3.3 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import math
import random
import sys

import torch
import torch.nn.functional as F
from pandas import DataFrame
from sceptr import variant

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
torch.backends.mha.set_fastpath_enabled(False)  # or the function below would not be called
original = F.scaled_dot_product_attention
seen = {}


def measure(q, k, v, *args, **kwargs):
    """Adds the variance of each row of divided scores, by layer and head. There is no padding."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    seen.setdefault("d_k", q.shape[-1])
    seen.setdefault("variances", []).append(scores.var(-1, unbiased=False).mean((0, 2)))
    return original(q, k, v, *args, **kwargs)


F.scaled_dot_product_attention = measure
rng = random.Random(1)


def receptor():
    def middle():
        return "".join(rng.choices("ADEGILNPQRSTVY", k=rng.randint(4, 9)))
    return {"TRAV": rng.choice(["TRAV3*01", "TRAV12-1*01", "TRAV21*01"]), "CDR3A": "CA" + middle() + "NKLTF",
            "TRBV": rng.choice(["TRBV2*01", "TRBV9*01", "TRBV19*01"]), "CDR3B": "CASS" + middle() + "NEQFF"}


receptors = [DataFrame([receptor()]) for _ in range(30)]
found = []
for name in ("tiny", "small", "default", "large"):
    model = getattr(variant, name)()
    model._bert.eval()
    seen.clear()
    for one in receptors:
        model.calc_vector_representations(one)
    layers = len(seen["variances"]) // len(receptors)
    heads = torch.stack(seen["variances"]).unflatten(0, (len(receptors), layers)).mean(0).sqrt().flatten().sort().values
    middle = heads[(len(heads) - 1) // 2 : len(heads) // 2 + 1].mean().item()
    found.append(middle)
    print("d_k %2d: deviation in the median head %4.1f divided, %4.1f undivided"
          % (seen["d_k"], middle, middle * math.sqrt(seen["d_k"])))
if not found[0] > 2.5 * found[2] > 3.5 * found[3] > 3.5:
    print("changed: the deviations")
    sys.exit(1)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
