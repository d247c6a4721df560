#!/usr/bin/env python3
"""What grows when scores grow: the weights of queries and keys, or the fit of the attention's inputs to them?

    lab/study/weights.py runs/study/best runs/study/slower >lab/docs/results/weights.csv      needs NumPy

For each run at d_k 64 of these sweeps, means over heads of: the Frobenius norm of a head's W_Q W_K^T (d_model, d_model)
at step 0 (`initial`) and after the last step (`trained`); and of score_std, as attention.csv has it (its batch, all
visible scores after the divisor), of the initial model, of the trained one, and of each with the W_Q, b_Q, W_K and b_K
of the other. The model of step 0 is that of a run of one step at a learning rate of 1e-30, which changes no weight.
For models as docs/model.md describes them by default: pre-norm, GELU, dot products."""

import csv
import json
import math
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

import numpy as np

QK = {"initial": "initial", "trained": "trained", "initial_qk": "trained", "trained_qk": "initial"}  # column: the rest


def tensors(path):
    """The parameters in a checkpoint: float32 tensors by name."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return {
        name: np.frombuffer(data[8 + size :][slice(*x["data_offsets"])], "<f4").reshape(x["shape"]).astype(float)
        for name, x in header.items()
        if not name.startswith(("__metadata__", "exp_avg", "momentum_buffer"))
    }


def layernorm(x, gain, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain + bias


def score_std(p, tokens, layers, heads, divisor):
    """Mean over layers and heads of the standard deviation of the visible scores; tokens (B,T)."""
    B, T = tokens.shape
    x, deviations, mask = p["wte.weight"][tokens] + p["wpe.weight"][:T], [], np.tri(T, dtype=bool)
    for layer in range(layers):
        w = {name: p[f"h.{layer}.{name}"] for name in (
            "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
            "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias")}
        qkv = layernorm(x, w["ln_1.weight"], w["ln_1.bias"]) @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
        q, k, v = (y.reshape(B, T, heads, -1).swapaxes(1, 2) for y in np.split(qkv, 3, -1))
        scores = q @ k.swapaxes(2, 3) / divisor  # (B,H,T,T)
        deviations += [scores[:, head][:, mask].std() for head in range(heads)]
        weights = np.exp(np.where(mask, scores, -np.inf) - np.where(mask, scores, -np.inf).max(-1, keepdims=True))
        att = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(B, T, -1)
        x = x + att @ w["attn.c_proj.weight"] + w["attn.c_proj.bias"]
        h = layernorm(x, w["ln_2.weight"], w["ln_2.bias"]) @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"]
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + h @ w["mlp.c_proj.weight"] + w["mlp.c_proj.bias"]
    return np.mean(deviations)


def qk_norm(p, layers, heads):
    norms = []
    for layer in range(layers):
        q, k, _ = np.split(p[f"h.{layer}.attn.c_attn.weight"], 3, -1)
        norms += [np.linalg.norm(a @ b.T) for a, b in zip(np.split(q, heads, -1), np.split(k, heads, -1))]
    return np.mean(norms)


def with_qk_of(p, other):
    """p with queries and keys made as `other` makes them."""
    mixed = dict(p)
    for name in p:
        if ".c_attn." in name:
            q, k, _ = np.split(other[name], 3, -1)
            mixed[name] = np.concatenate([q, k, np.split(p[name], 3, -1)[2]], -1)
    return mixed


def validation_batch(run, config):
    """attention.csv's: windows of the validation split, at even distances."""
    text = Path(config["data"]["corpus"].strip('"') or "data/sallow_reach.txt").read_text(encoding="utf-8")
    number = {c: i for i, c in enumerate(json.loads((run / "vocab.json").read_text(encoding="utf-8")))}
    ids = np.array([number[c] for c in text])
    split = ids[len(ids) - int(len(ids) * float(config["data"]["val_fraction"])) :]
    T = int(config["model"]["context"])
    windows = (len(split) - 1) // T
    B = min(int(config["train"]["batch"]), windows)
    return np.stack([split[i * windows // B * T :][:T] for i in range(B)])


def measure(run):
    config = ConfigParser(comment_prefixes=(";", "#"), interpolation=None)
    config.read(run / "config.ini", encoding="utf-8")
    layers, heads, d_k = (int(config["model"][key]) for key in ("layers", "heads", "d_k"))
    divisor = {"none": 1, "sqrt_dk": math.sqrt(d_k), "2sqrt_dk": 2 * math.sqrt(d_k), "dk": d_k}[config["attention"]["scale_divisor"]]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["./train", str(run / "config.ini"), "--out", f"{directory}/run", "--quiet", "--set", "train.steps=1",
                        "--set", "train.lr=1e-30", "--set", "train.min_lr=0", "--set", "train.warmup=0", "--set", "eval.batches=1"],
                       check=True, stdout=subprocess.DEVNULL)
        models = {"initial": tensors(Path(directory) / "run/checkpoint/last.safetensors")}
    models["trained"] = tensors(run / "checkpoint/last.safetensors")
    models["initial_qk"] = with_qk_of(models["trained"], models["initial"])
    models["trained_qk"] = with_qk_of(models["initial"], models["trained"])
    tokens = validation_batch(run, config)
    return [qk_norm(models[name], layers, heads) for name in ("initial", "trained")] + [
        score_std(models[name], tokens, layers, heads, divisor) for name in models]


def main(sweeps):
    columns = [f"qk_norm_{name}" for name in ("initial", "trained")]
    columns += [f"score_std_{name}" for name in ("initial", "trained", "initial_qk", "trained_qk")]
    print("run,lr,scale_divisor,seed,result", *columns, sep=",")
    for sweep in map(Path, sweeps):
        lr = next(line.split()[2] for line in open(f"lab/study/{sweep.name}.ini", encoding="utf-8") if line.startswith("lr = "))
        with open(sweep / "summary.csv", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row.get("d_k", "64") == "64":
                    print(row["run"], lr, row["scale_divisor"], row["seed"], "finished",
                          *(f"{x:.6g}" for x in measure(sweep / row["run"])), sep=",", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
