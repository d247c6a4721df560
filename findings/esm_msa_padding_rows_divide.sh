#!/bin/sh
# Guess: the logits of a protein alignment do not depend on which other alignments are in its batch.
# Really: in the MSA Transformer of fair-esm they do, if another one has more rows. Its row attention adds up the scores
# of all rows and divides by the root of their number, and the number counts the rows that only pad the batch. Their
# scores are 0, so that the sum stays, and the divisor grows: attention softens. Divided by the root of the
# alignment's own number of rows, the logits are those of the alignment alone.
# Versions: fair-esm 2.0.0, torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29. Random weights, small model.
# Output: beside an alignment of 3 rows                    the same to 0.01
#         beside an alignment of 6 rows                    differs
#         beside an alignment of 12 rows                   differs
#         12 rows, scores divided by the root of 3 rows    the same to 0.01
# Needs about 1.3 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q fair-esm==2.0.0 torch==2.13.0 numpy==2.4.6 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import math
import sys
from argparse import Namespace

import esm
import torch
from esm.axial_attention import RowSelfAttention
from esm.model.msa_transformer import MSATransformer

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
alphabet = esm.data.Alphabet.from_architecture("msa_transformer")
torch.manual_seed(1)
model = MSATransformer(Namespace(layers=2, embed_dim=32, ffn_embed_dim=64, attention_heads=2, max_positions=64, dropout=0.0,
                                 attention_dropout=0.0, activation_dropout=0.0, max_tokens=2**14, embed_positions_msa=True,
                                 logit_bias=False), alphabet).eval()
for name, weight in model.named_parameters():
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        weight.data *= 4  # random weights whose attention is far from uniform, as trained ones
small = [("a", "MKTAYIAK"), ("b", "MKSAYLAK"), ("c", "MRTAYIGK")]
deep = [(str(row), "MKTAYIAK") for row in range(12)]
convert = alphabet.get_batch_converter()


def difference(rows):
    """Returns how far the logits of the small alignment move when a deeper one is in the same batch."""
    with torch.no_grad():
        alone = model(convert([small])[2])["logits"][0]
        together = model(convert([small, deep[:rows]])[2])["logits"][0, :3]
    return (together - alone).abs().max().item()


def row(words, found, differs):
    print("%-48s %s" % (words, "differs" if found > 1e-2 else "the same to 0.01"))
    if (found > 1e-2) != differs:
        print("changed: %s: %.6f" % (words, found))
        sys.exit(1)


row("beside an alignment of 3 rows", difference(3), False)
row("beside an alignment of 6 rows", difference(6), True)
row("beside an alignment of 12 rows", difference(12), True)
RowSelfAttention.align_scaling = lambda self, q: self.scaling / math.sqrt(len(small))
row("12 rows, scores divided by the root of 3 rows", difference(12), False)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
