"""The model of docs/model.md in PyTorch, as its users write it: nn.Linear, scaled_dot_product_attention, fused AdamW.

    peer_torch.py SETTINGS.json VARIANT      eager, compiled, bf16 or bf16-compiled; started by compare.py"""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import Problem, answer


class Block(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p, width = p, p.H * p.D
        self.ln_1, self.ln_2 = (nn.LayerNorm(p.C, bias=p.bias) for _ in range(2))
        self.attn = nn.Linear(p.C, 3 * width, bias=p.bias)
        self.attn_proj = nn.Linear(width, p.C, bias=p.bias)
        self.q_norm, self.k_norm = (nn.RMSNorm(p.D, eps=1e-6) if p.config["qk_norm"] == "rms" else nn.Identity() for _ in range(2))
        self.fc = nn.Linear(p.C, p.F, bias=p.bias)
        self.mlp_proj = nn.Linear(p.F, p.C, bias=p.bias)
        self.drop = nn.Dropout(p.dropout)

    def forward(self, x):
        p, (B, T, _) = self.p, x.shape
        q, k, v = (y.view(B, T, p.H, p.D).transpose(1, 2) for y in self.attn(self.ln_1(x)).chunk(3, dim=2))
        att = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, dropout_p=p.dropout if self.training else 0, is_causal=True, scale=p.multiplier)
        x = x + self.drop(self.attn_proj(att.transpose(1, 2).reshape(B, T, p.H * p.D)))
        return x + self.drop(self.mlp_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))


class Model(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(p.V, p.C), nn.Embedding(p.T, p.C)
        self.blocks = nn.ModuleList(Block(p) for _ in range(p.L))
        self.ln_f, self.drop = nn.LayerNorm(p.C, bias=p.bias), nn.Dropout(p.dropout)
        for name, x in self.named_parameters():
            if x.dim() == 2:
                nn.init.normal_(x, std=0.02)
        self.register_buffer("positions", torch.arange(p.T), persistent=False)

    def forward(self, tokens, targets):
        x = self.drop(self.wte(tokens) + self.wpe(self.positions))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    settings, variant = json.load(open(sys.argv[1])), sys.argv[2]
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    p = Problem(settings["config"])
    c = {key: float(p.config[key]) for key in ("beta1", "beta2", "eps", "weight_decay", "grad_clip", "lr")}
    model = Model(p)
    groups = [
        {"params": [x for x in model.parameters() if x.dim() == 2], "weight_decay": c["weight_decay"]},
        {"params": [x for x in model.parameters() if x.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=c["lr"], betas=(c["beta1"], c["beta2"]), eps=c["eps"], fused=True)
    forward = torch.compile(model) if "compiled" in variant else model
    count = 0

    def step():
        nonlocal count
        tokens, targets = (torch.from_numpy(x) for x in p.batch())
        for group in optimizer.param_groups:
            group["lr"] = p.lr(count)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=variant.startswith("bf16")):
            loss = forward(tokens, targets)
        loss.backward()
        if c["grad_clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), c["grad_clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        count += 1
        return loss.item()

    answer(step, sum(x.numel() for x in model.parameters()))


if __name__ == "__main__":
    main()
