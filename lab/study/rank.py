#!/usr/bin/env python3
"""How far do W_Q and W_K move from where they start, and which rank has their product, by step?

    lab/study/rank.py runs/study/rank 1000 >lab/docs/results/rank.csv      needs NumPy

Trains rank.ini from three starts, and stops at steps up to the last one given. `moved` is the distance to the weights
after the first step, at a hundredth of the rate, as a share of their norm. `rank` is the effective rank, exp of the entropy
of the singular values over their sum (Roy and Vetterli 2007), of a head's product W_Q W_K^T or of its W_V; at most 64.
Both are means over layers and heads."""
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

from weights import tensors

STARTS = [("unit", 1), ("gpt2", 1), ("gpt2", 0.1)]
STEPS = [1, 30, 100, 200, 400, 700, 1000]
LAYERS, HEADS = 2, 2


def train(*arguments):
    subprocess.run(["./train", *map(str, arguments), "--quiet", "--threads", "1"], check=True, stdout=subprocess.DEVNULL)


def matrices(run):
    """The lists of W_Q, W_K and W_V of each layer and head (in, d_k)."""
    p = tensors(run / "checkpoint/last.safetensors")
    whole = [np.split(p[f"h.{layer}.attn.c_attn.weight"], 3 * HEADS, axis=1) for layer in range(LAYERS)]
    return [[part for parts in whole for part in parts[i * HEADS : (i + 1) * HEADS]] for i in range(3)]


def effective_rank(matrix):
    share = np.linalg.svd(matrix, compute_uv=False)
    share = share[share > 0] / share.sum()
    return np.exp(-(share * np.log(share)).sum())


def figures(now, first, products):
    moved = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(now, first)]
    return f"{np.mean(moved):.4g},{np.mean([effective_rank(product) for product in products]):.4g}"


print("run,init,qk_init_scale,seed,step,matrix,val_loss,moved,rank")
for init, scale in STARTS:
    for seed in 3, 4:
        run = Path(sys.argv[1], f"{init}+{scale}+{seed}")
        keys = f"model.init={init}", f"model.qk_init_scale={scale}", f"train.seed={seed}", "train.steps=1", "train.shards=1"
        train("lab/study/rank.ini", "--force", "--out", run, *(word for key in keys for word in ("--set", key)))
        first = matrices(run)
        for step in (step for step in STEPS if step <= int(sys.argv[2])):
            train("resume", run, "--set", f"train.steps={step}")
            q, k, v = matrices(run)
            loss = [row["val_loss"] for row in csv.DictReader(open(run / "metrics.csv", encoding="utf-8"))][-1]
            for matrix, both in (("qk", figures(q + k, first[0] + first[1], [a @ b.T for a, b in zip(q, k)])),
                                 ("v", figures(v, first[2], v))):
                print(run.name, init, scale, seed, step, matrix, loss, both, sep=",", flush=True)
