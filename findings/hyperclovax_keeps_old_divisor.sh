#!/bin/sh
# Guess: a config that is saved with one size of head, loaded, and given another size, divides by the root of the new one.
# Really: a Llama does, but a HyperCLOVA X keeps the old divisor. Its config derives attention_multiplier from the size of
# the head when it is made, and stores it; afterwards the number is as good as one that was chosen.
# Versions: transformers 5.24.0, torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29.
# Output: LlamaConfig        made with d_k 16: q.k times 0.2500; changed to d_k 64: 0.1250; made with d_k 64: 0.1250
#         HyperCLOVAXConfig  made with d_k 16: q.k times 0.2500; changed to d_k 64: 0.2500; made with d_k 64: 0.1250
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
import math
import sys

import torch

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)


def changed(what):
    print("changed:", what)
    sys.exit(1)


def multiplier(cls, config, positions=None):
    """Returns m of softmax(m q.k) in the last layer's first head. Positions that are all equal leave q.k unrotated."""
    torch.manual_seed(1)
    model = cls._from_config(config, attn_implementation="eager").eval()
    attention = model.layers[-1].self_attn
    seen = {}
    for name in ("q_proj", "k_proj"):
        getattr(attention, name).register_forward_hook(lambda module, given, output, name=name: seen.update({name: output}))
    positions = torch.zeros(1, 6, dtype=torch.long) if positions is None else positions
    with torch.no_grad():
        weights = model(torch.arange(10, 16)[None], position_ids=positions, output_attentions=True).attentions[-1]
    logs = weights[0, 0, -1].double().log()
    size = config.hidden_size // config.num_attention_heads
    scores = seen["k_proj"][0, :, :size].double() @ seen["q_proj"][0, -1, :size].double()
    logs, scores = logs - logs.mean(), scores - scores.mean()
    m = (logs @ scores / (scores @ scores)).item()
    if (logs - m * scores).abs().max() > 1e-3:
        changed("the weights are no softmax of a multiple of q.k")
    return m


def small(cls, width, **more):
    return cls(vocab_size=50, hidden_size=width, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=4, initializer_range=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2, **more)


from transformers import HyperCLOVAXConfig, HyperCLOVAXModel, LlamaConfig, LlamaModel

expected = {"LlamaConfig": (0.25, 0.125, 0.125), "HyperCLOVAXConfig": (0.25, 0.25, 0.125)}
for kind, cls in ((LlamaConfig, LlamaModel), (HyperCLOVAXConfig, HyperCLOVAXModel)):
    made = small(kind, 64)
    made.save_pretrained(sys.argv[1])
    other = kind.from_pretrained(sys.argv[1], hidden_size=256, head_dim=64)
    found = [multiplier(cls, config) for config in (made, other, small(kind, 256))]
    print("%-18s made with d_k 16: q.k times %.4f; changed to d_k 64: %.4f; made with d_k 64: %.4f" % (kind.__name__, *found))
    if any(abs(one - want) > 1e-3 for one, want in zip(found, expected[kind.__name__])):
        changed("the multipliers of " + kind.__name__)
PY
"$dir/venv/bin/python" "$dir/measure.py" "$dir/saved" 2>/dev/null || exit 1
