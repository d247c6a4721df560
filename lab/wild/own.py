#!/usr/bin/env python3
"""Measures the scores of models of this project, which own.sh trained, as trained.py does those of others.

    lab/wild/own.py RUNS... DIR    write wild_own.csv and wild_own_divisor.csv into DIR, of all runs in each RUNS

The model is docs/twin.py's. The samples a and b are windows of the first and the second half of the validation split, and
the special token is the first character of a window.
"""
import configparser
import csv
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from scores import Heads, Watch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import twin  # noqa: E402

WINDOWS = 64
GRID = [2.0**power for power in range(-3, 4)]
COLUMNS = ("row_std", "score_std", "q", "k", "ratio", "bias", "align", "pairs", "entropy", "special", "special_keys")


def load(run):
    """Returns the parameters, the keys of the config, its divisor, and windows for each sample."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(run / "config.ini")
    c = {key: value.strip('"') for section in config.values() for key, value in section.items()}
    text = (ROOT / "data/sallow_reach.txt").read_bytes().decode()
    ids = torch.tensor(list(map(sorted(set(text)).index, text)))
    validation = ids[len(ids) - int(len(ids) * float(c["val_fraction"]) + 0.5) :]
    length, half = int(c["context"]) + 1, len(validation) // 2
    samples = {name: part[: WINDOWS * length].view(WINDOWS, length) for name, part in (("a", validation), ("b", validation[half:]))}
    with safe_open(run / "checkpoint/last.safetensors", "pt") as file:
        p = {name: file.get_tensor(name) for name in file.keys() if not name.startswith("exp_avg")}
    d_k = int(c["d_k"])
    divisors = {"none": 1, "dk": d_k, "sqrt_dk": d_k**0.5, "2sqrt_dk": 2 * d_k**0.5}
    return p, c, divisors.get(c["scale_divisor"]) or float(c["scale_divisor"]), samples


def measure(run, heads_out, divisor_out):
    p, c, divisor, samples = load(run)
    seed = c["seed"]
    for sample, windows in samples.items():
        watch, heads = Watch(), Heads(lambda d_k: 1 / divisor)
        first = torch.arange(windows.shape[1] - 1) == 0

        def losses(factor, noted=None):
            watch.factor, watch.heads, watch.special = factor, noted, first
            found = []
            for window in windows:
                watch.layer = 0
                found.append(twin.loss_of(p, c, window[None]).item())
                heads.inputs += noted is not None
            return np.array(found)

        with watch.on():
            base = losses(1.0, heads)
            for factor in GRID:
                less = losses(factor) - base
                divisor_out.writerow([run.name, seed, sample, f"{divisor:.5g}", f"{factor:g}", f"{less.mean():.4g}",
                                      f"{less.std(ddof=1) / math.sqrt(len(less)):.2g}", f"{base.mean():.5g}"])
        errors = heads.errors(lambda one: np.array([[layer["row_std"], layer["bias"]] for layer in one.values()]))
        for layer, found in heads.figures().items():
            for head in range(len(found["row_std"])):
                heads_out.writerow([run.name, seed, sample, layer, head, f"{divisor:.5g}", *(f"{found[one][head]:.4g}" for one in COLUMNS),
                                    *(f"{one:.2g}" for one in errors[layer, :, head])])


def main():
    *several, directory = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    with open(directory / "wild_own.csv", "w", encoding="utf-8", newline="") as one, \
            open(directory / "wild_own_divisor.csv", "w", encoding="utf-8", newline="") as two:
        heads_out, divisor_out = (csv.writer(file, lineterminator="\n") for file in (one, two))
        heads_out.writerow(["run", "seed", "sample", "layer", "head", "divisor", *COLUMNS, "row_std_error", "bias_error"])
        divisor_out.writerow(["run", "seed", "sample", "divisor", "factor", "less", "error", "loss"])
        for runs in several:
            for run in sorted(path.parent for path in runs.glob("*/config.ini")):
                measure(run, heads_out, divisor_out)


if __name__ == "__main__":
    main()
