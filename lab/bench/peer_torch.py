"""The model of docs/model.md in PyTorch, that of docs/twin.py: scaled_dot_product_attention and fused AdamW.

    peer_torch.py SETTINGS.json VARIANT      eager, compiled, bf16 or bf16-compiled; started by compare.py"""

import json
import sys
from pathlib import Path

import torch

from peer import Problem, answer

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import twin  # noqa: E402


def make_parameters(p):
    """Parameters with the names of a checkpoint: matrices from N(0, 0.02), gains 1, biases 0."""
    sizes = {"wte": (p.V, p.C), "wpe": (p.T, p.C), "ln_f": (p.C,)}
    for block in (f"h.{layer}." for layer in range(p.L)):
        sizes |= {block + "ln_1": (p.C,), block + "attn.c_attn": (p.C, 3 * p.H * p.D), block + "attn.c_proj": (p.H * p.D, p.C)}
        sizes |= {block + "ln_2": (p.C,), block + "mlp.c_fc": (p.C, p.F), block + "mlp.c_proj": (p.F, p.C)}
        if p.config["qk_norm"] == "rms":
            sizes |= {block + "attn.q_norm": (p.D,), block + "attn.k_norm": (p.D,)}
    parameters = {}
    for name, size in sizes.items():
        parameters[name + ".weight"] = 0.02 * torch.randn(size) if len(size) == 2 else torch.ones(size)
        if p.bias and name not in ("wte", "wpe") and not name.endswith("_norm"):
            parameters[name + ".bias"] = torch.zeros(size[-1])
    return {name: x.requires_grad_() for name, x in parameters.items()}


def main():
    settings, variant = json.load(open(sys.argv[1])), sys.argv[2]
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    p = Problem(settings["config"])
    parameters = make_parameters(p)
    optimizer = twin.adamw(parameters, p.config)
    if "compiled" in variant:
        twin.loss_of = torch.compile(twin.loss_of)
    count = 0

    def step():
        nonlocal count
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=variant.startswith("bf16")):
            loss = twin.update(parameters, p.config, optimizer, count, torch.from_numpy(p.windows()))
        count += 1
        return loss

    answer(step, sum(x.numel() for x in parameters.values()))


if __name__ == "__main__":
    main()
