#!/bin/sh
# Guess: gpt-oss divides scores by sqrt(d_k): its attention has scaling = head_dim ** -0.5, and nothing else multiplies.
# Really: the default rotation (YaRN, factor 32) multiplies queries and keys by 0.1 ln(32) + 1 = 1.3466 each, so that the
# scores are 1.8133 times as large, at every position and in texts that are shorter than 4096 tokens, too.
# Versions: transformers 5.24.0, torch 2.13.0+cpu, numpy 2.4.6, Python 3.11.7. Date: 2026-11-29.
# Output: as configured      d_k 16: q.k times 0.4533 = 1.8133 / sqrt(d_k); d_k 32: q.k times 0.3205 = 1.8133 / sqrt(d_k)
#         rotation "default" d_k 16: q.k times 0.2500 = 1.0000 / sqrt(d_k); d_k 32: q.k times 0.1768 = 1.0000 / sqrt(d_k)
#         (0.1 ln 32 + 1)^2 = 1.8133
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


from transformers import GptOssConfig, GptOssModel

factor = (0.1 * math.log(32) + 1) ** 2
plain = {"rope_type": "default", "rope_theta": 150000.0}
for words, more, want in (("as configured", {}, factor), ('rotation "default"', {"rope_parameters": plain}, 1)):
    parts = []
    for size in (16, 32):
        config = small(GptOssConfig, 4 * size, head_dim=size, num_local_experts=2, num_experts_per_tok=1, **more)
        m = multiplier(GptOssModel, config)
        parts.append("d_k %d: q.k times %.4f = %.4f / sqrt(d_k)" % (size, m, m * math.sqrt(size)))
        if abs(m * math.sqrt(size) - want) > 1e-3:
            changed("%s, d_k %d: %.4f / sqrt(d_k)" % (words, size, m * math.sqrt(size)))
    print("%-18s %s" % (words, "; ".join(parts)))
print("(0.1 ln 32 + 1)^2 = %.4f" % factor)
PY
"$dir/venv/bin/python" "$dir/measure.py" 2>/dev/null || exit 1
