#!/usr/bin/env python3
"""Attend of x-transformers (github.com/lucidrains/x-transformers) and make_fixtures.attention, which made the numbers
that tests/test_torch.c compares ours with: outputs and gradients in float64, for the options that both have.

    python3 -m venv /tmp/attend && /tmp/attend/bin/pip install -r lab/tests/requirements-attend.txt
    /tmp/attend/bin/python lab/tests/compare_attend.py      prints the largest differences, fails above 1e-5

x-transformers normalizes queries and keys before Attend, with l2norm or MultiheadRMSNorm, so these are called as there.
Attend's scale may be a tensor that broadcasts, which covers a learned scale and one by the number of keys. It has
neither additive scores nor a learned LayerNorm of queries and keys nor rounding of the scores.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/fixtures"))
from make_fixtures import attention, attention_parameters, multiplier_of, options
from x_transformers.attend import Attend
from x_transformers.x_transformers import MultiheadRMSNorm, l2norm

TOLERANCE = 1e-5  # of a tensor's largest entry. Where roots have an epsilon at another place the last digits differ
B, H, T, D = 2, 3, 70, 8
CASES = """attention.scale_divisor=sqrt_dk | attention.scale_divisor=none | attention.scale_divisor=dk
| attention.scale_divisor=2sqrt_dk | attention.scale_divisor=sqrt_dmodel | attention.scale_divisor=3.7
| attention.softcap=1.5
| attention.sink=one | attention.sink=learned | attention.qk_norm=l2 attention.scale_divisor=.1
| attention.qk_norm=rms | attention.scale_learned=layer | attention.scale_learned=head | attention.scale_length=log
| attention.softcap=2 attention.sink=one | attention.softcap=2 attention.sink=learned
| attention.qk_norm=rms attention.scale_length=log attention.scale_learned=head attention.softcap=3
  attention.sink=learned
| attention.qk_norm=l2 attention.scale_divisor=.2 attention.scale_learned=layer attention.sink=one"""


def attend(q, k, v, config, p):
    """The output by x-transformers. Its RMSNorm's parameter is the gain - 1, by head."""
    norm = config.get("attention.qk_norm")
    if norm == "l2":
        q, k = l2norm(q), l2norm(k)
    if norm == "rms":
        rms, gains = MultiheadRMSNorm(D, heads=H), (p["q_norm.weight"], p["k_norm.weight"])
        q, k = (torch.func.functional_call(rms, {"gamma": gain - 1}, x) for x, gain in zip((q, k), gains))
    scale = p["scale"][:, None, None] if "scale" in p else multiplier_of(config)
    if "attention.scale_length" in config:
        scale = scale * torch.arange(1, T + 1, dtype=q.dtype).log()[:, None]
    softcap, sink = float(config.get("attention.softcap", 0)), config.get("attention.sink")
    # qk_norm: softmax in the type of the scores, not in float; nothing else
    sums = dict(add_zero_kv=sink == "one", head_learned_sink=sink == "learned", qk_norm=True)
    caps = dict(softclamp_logits=softcap > 0, logit_softclamp_value=softcap or 1.0)
    module = Attend(causal=True, heads=H, scale=scale, **sums, **caps)
    own = {"head_attn_sink": p["sinks"]} if sink == "learned" else {}
    return torch.func.functional_call(module, own, (q, k, v))[0]


def difference(config, random):
    """The largest of the output's and the gradients', and where it is."""
    inputs = [torch.randn(B, H, T, D, dtype=torch.float64, generator=random) for _ in range(3)]
    own = {name: (shape, mean) for name, shape, mean in attention_parameters(config)}
    own = {n: m + 0.3 * torch.randn(s, dtype=torch.float64, generator=random) for n, (s, m) in own.items()}
    dout = torch.randn(B, H, T, D, dtype=torch.float64, generator=random)
    leaves = [x.requires_grad_() for x in [*inputs, *own.values()]]
    outputs = attention(*inputs, config, own)[0], attend(*inputs, config, own)
    ours, theirs = ([out, *torch.autograd.grad(out, leaves, dout)] for out in outputs)
    names = ["out", *("d" + name for name in ["q", "k", "v", *own])]
    return max(((x - y).abs().max().item() / x.abs().max().item(), name) for x, y, name in zip(ours, theirs, names))


def main():
    random, failed = torch.Generator().manual_seed(1), False
    for text in CASES.split("|"):
        defaults = {"model.heads": H, "model.d_k": D, "model.d_model": 20, "attention.scale_divisor": "sqrt_dk"}
        largest, name = difference(defaults | options(text), random)
        failed = failed or not largest <= TOLERANCE
        print(f"{largest:.1e} in {name:15} {' '.join(text.split()).replace('attention.', '')}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
