#!/usr/bin/env python3
"""Which keys do the heads of a sweep's runs choose, by step?

    lab/study/picks.py runs/study/steps >lab/docs/results/picks.csv                  needs NumPy
    lab/study/picks.py runs/study/steps --heads >lab/docs/results/picks_heads.csv

For each run and measured step, over all heads of all layers and the queries that see three keys or more of the text in
attention/stepNNNNNN.safetensors: the share of queries whose largest weight is on themselves, on the previous character,
and on any other; the mean of these largest weights; and the share of queries whose choice is still that of step 0. With
--heads: the least and the largest share that a head has after the last step, in each layer and in all."""

import csv
import re
import sys
from pathlib import Path

import numpy as np

from weights import tensors


def choices(run):
    """By step, the weights (layers, heads, queries, keys) and the key of each largest weight (layers, heads, queries)."""
    for path in sorted((run / "attention").glob("step*.safetensors")):
        weights = tensors(path)["weights"][:, :, 2:]
        yield int(re.search(r"\d+", path.stem)[0]), weights, weights.argmax(-1)


SHARES = ["itself", "previous", "other", "max_weight", "as_at_first"]


def shares(weights, choice, first):
    """The figures of SHARES of these queries."""
    distance = np.arange(2, 2 + choice.shape[-1]) - choice
    return [x.mean() for x in (distance == 0, distance == 1, distance > 1, weights.max(-1), choice == first)]


def by_step(run):
    """The step and its shares over all heads, by column."""
    first = None
    for step, weights, choice in choices(run):
        first = choice if first is None else first
        yield {"step": step, **dict(zip(SHARES, shares(weights, choice, first)))}


def text(value):
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def by_head(run):
    """The extremes over heads at the last step, of each layer and of all, by column."""
    steps = list(choices(run))
    (_, _, first), (_, weights, last) = steps[0], steps[-1]
    heads = np.array([[shares(w, c, f) for w, c, f in zip(*layer)] for layer in zip(weights, last, first)])
    return {
        f"{name}_{layer}_{extreme.__name__[1:]}": extreme(heads[place, :, SHARES.index(name)])
        for name in ("itself", "previous", "as_at_first")
        for layer, place in [*enumerate(range(len(heads))), ("all", slice(None))]
        for extreme in (np.amin, np.amax)
    }


def main(sweep, heads):
    with open(sweep / "summary.csv", encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    rows = {run["run"]: [by_head(sweep / run["run"])] if heads else list(by_step(sweep / run["run"])) for run in runs}
    keys = list(runs[0])[1 : list(runs[0]).index("divisor")]  # the swept ones
    columns = list(rows[runs[0]["run"]][0])
    steps = columns[:1] if not heads else []  # the step is a setting, and stands before the result
    print("run", *keys, *steps, "result", *columns[len(steps) :], sep=",")
    for run in runs:
        for row in rows[run["run"]]:
            values = [text(value) for value in row.values()]
            before, after = values[: len(steps)], values[len(steps) :]
            print(run["run"], *(run[key] for key in keys), *before, run["result"], *after, sep=",")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--heads" in sys.argv[2:])
