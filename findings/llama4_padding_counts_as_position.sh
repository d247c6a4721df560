#!/bin/sh
# Guess: padding on the left, with its mask and position_ids that begin at 0 after it, changes nothing for the text.
# Really: in Llama 4 it does. Layers without a rotation multiply queries by a factor that grows with the position, and
# count positions by themselves, from the start of the row: masked padding counts, position_ids are not looked at.
# The factor grows every 8192 positions by default; 4 here, so that a short text shows it. Without the factor
# (attn_temperature_tuning=False) the same model is right.
# Versions: transformers 5.24.0, torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29.
# Output: Llama                                  the same to 0.001
#         Llama 4, factor grows every 4 tokens   differs
#         Llama 4, the same without the factor   the same to 0.001
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
from transformers import Llama4TextConfig, Llama4TextModel, LlamaConfig, LlamaModel

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
common = dict(vocab_size=50, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=4, initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=2)
four = dict(common, head_dim=16, intermediate_size_mlp=64, num_local_experts=1, no_rope_layers=[1, 0])


def difference(cls, config, padding=4):
    """Returns how far apart the last token's state is in a text alone and in the same text behind masked padding."""
    torch.manual_seed(1)
    model = cls._from_config(config).eval()
    text = torch.arange(10, 16)[None]
    padded = torch.cat([torch.zeros(1, padding, dtype=torch.long), text], 1)
    mask = (padded != 0).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        alone = model(text).last_hidden_state[0, -1]
        behind = model(padded, attention_mask=mask, position_ids=positions).last_hidden_state[0, -1]
    return (alone - behind).abs().max().item()


rows = (("Llama", LlamaModel, LlamaConfig(**common), False),
        ("Llama 4, factor grows every 4 tokens", Llama4TextModel, Llama4TextConfig(**four, floor_scale=4), True),
        ("Llama 4, the same without the factor", Llama4TextModel,
         Llama4TextConfig(**four, floor_scale=4, attn_temperature_tuning=False), False))
for words, cls, config, differs in rows:
    found = difference(cls, config)
    print("%-38s %s" % (words, "differs" if found > 1e-3 else "the same to 0.001"))
    if (found > 1e-3) != differs:
        print("changed: %s: %.6f" % (words, found))
        sys.exit(1)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
