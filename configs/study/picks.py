#!/usr/bin/env python3
"""Which keys do the heads of a sweep's runs choose, by step?

    configs/study/picks.py runs/study/steps >docs/results/picks.csv      needs NumPy

For each run and measured step, over all heads of all layers and the queries that see three keys or more of the text in
attention/stepNNNNNN.safetensors: the share of queries whose largest weight is on themselves, on the previous character,
and on any other; the mean of these largest weights; and the share of queries whose choice is still that of step 0."""

import csv
import re
import sys
from pathlib import Path

import numpy as np

from weights import tensors


def measure(sweep, row, first=None):
    for path in sorted((sweep / row["run"] / "attention").glob("step*.safetensors")):
        weights = tensors(path)["weights"][:, :, 2:]  # (layers, heads, queries, keys)
        choice = weights.argmax(-1)
        distance = np.arange(2, 2 + choice.shape[-1]) - choice
        first = choice if first is None else first
        shares = (distance == 0), (distance == 1), (distance > 1), weights.max(-1), (choice == first)
        yield re.search(r"\d+", path.stem)[0], *(f"{share.mean():.4f}" for share in shares)


def main(sweep):
    print("run,scale_divisor,seed,step,result,itself,previous,other,max_weight,as_at_first")
    with open(sweep / "summary.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for step, *figures in measure(sweep, row):
                print(row["run"], row["scale_divisor"], row["seed"], int(step), row["result"], *figures, sep=",")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
