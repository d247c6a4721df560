#!/usr/bin/env python3
"""The figures of `./train theory --csv` against NumPy, which draws its own random numbers and computes every figure from
the definition: q, k, r of independent N(0, 1) entries, scores q.k / divisor (or as the last column says), softmax, dL/dq
for L = <r, softmax> by the chain rule.

    ./train theory --csv | python3 lab/tests/theory_numpy.py [--samples N] [--seed S]

For each figure z is the difference in standard errors of the difference. Prints the largest of each column, then of all,
and exits with status 1 when that is above 5. Needs NumPy only.
"""
import argparse
import csv
import math
import sys

import numpy as np

FIGURES = ["score_mean", "score_var", "entropy", "max_weight", "grad_q_mean", "grad_q_rms", "grad_q_median"]
TOLERANCE = 5.0
CAP = 30.0


def divisor_value(name, d_k):
    named = {"none": 1.0, "sqrt_dk": math.sqrt(d_k), "dk": float(d_k), "2sqrt_dk": 2 * math.sqrt(d_k)}
    return named[name] if name in named else float(name)


def mean_and_error(x):
    return x.mean(), x.std(ddof=1) / math.sqrt(len(x))


def with_sink(x, sink):
    """A sink is one more key, of score 0 and value 0."""
    return np.concatenate([x, np.zeros((len(x), 1))], axis=1) if sink else x


def score_and_gradient(score, q, k, v):
    """Scores before the divisor (samples, keys), and a function that takes dL/dscore to dL/dq."""
    if score == "additive":
        t = np.tanh(q[:, None] + k)
        return np.einsum("nd,nkd->nk", v, t), lambda g: v * np.einsum("nk,nkd->nd", g, 1 - t * t)
    if score == "cosine":
        length = np.linalg.norm(q, axis=1, keepdims=True)
        unit, units = q / length, k / np.linalg.norm(k, axis=2, keepdims=True)

        def backward(g):
            of_unit = np.einsum("nk,nkd->nd", g, units)
            return (of_unit - unit * (unit * of_unit).sum(axis=1, keepdims=True)) / length

        return np.einsum("nd,nkd->nk", unit, units), backward
    dot = np.einsum("nd,nkd->nk", q, k)
    if score == "softcap":
        t = np.tanh(dot / CAP)
        return CAP * t, lambda g: np.einsum("nk,nkd->nd", g * (1 - t * t), k)
    return dot, lambda g: np.einsum("nk,nkd->nd", g, k)


def figures(scores, norms, sink):
    """Of divided scores (samples, keys) and the gradients' norms (samples): name -> (value, standard error)."""
    samples = len(scores)
    out = {"score_mean": mean_and_error(scores.mean(axis=1))}
    value, error = mean_and_error(((scores - scores.mean()) ** 2).mean(axis=1))
    factor = scores.size / (scores.size - 1)
    out["score_var"] = value * factor, error * factor
    p = softmax(with_sink(scores, sink))
    with np.errstate(divide="ignore", invalid="ignore"):
        out["entropy"] = mean_and_error(-np.where(p > 0, p * np.log(p), 0).sum(axis=1))
    out["max_weight"] = mean_and_error(p.max(axis=1))
    out["grad_q_mean"] = mean_and_error(norms)
    square, error = mean_and_error(norms**2)
    rms = math.sqrt(square)
    out["grad_q_rms"] = rms, error / (2 * rms) if rms > 0 else 0.0
    ordered = np.sort(norms)
    half = math.sqrt(samples) / 2
    low, high = max(0, math.floor((samples - 1) / 2 - half)), min(samples - 1, math.ceil((samples - 1) / 2 + half))
    out["grad_q_median"] = np.median(norms), (ordered[high] - ordered[low]) / 2
    return out


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def simulate(rng, d_k, keys, samples, scorings):
    """By chunks, as all keys at once would not fit: (divisor, score) -> figures."""
    scores = {scoring: np.empty((samples, keys)) for scoring in scorings}
    norms = {scoring: np.empty(samples) for scoring in scorings}
    chunk = max(1, 4_000_000 // (keys * d_k))
    for start in range(0, samples, chunk):
        rows = slice(start, min(start + chunk, samples))
        count = rows.stop - rows.start
        q, k = rng.standard_normal((count, d_k)), rng.standard_normal((count, keys, d_k))
        r, v = rng.standard_normal((count, keys)), rng.standard_normal((count, d_k)) / math.sqrt(d_k)
        made = {score: score_and_gradient(score, q, k, v) for score in {score for _, score in scorings}}
        for name, score in scorings:
            divisor, sink = divisor_value(name, d_k), score == "sink"
            raw, backward = made[score]
            scores[name, score][rows] = raw / divisor
            p, value = softmax(with_sink(raw / divisor, sink)), with_sink(r, sink)
            # r is measured from r at the largest weight, or a saturated row would lose all digits
            rest = value - np.take_along_axis(value, p.argmax(axis=1)[:, None], axis=1)
            w = p * (rest - (p * rest).sum(axis=1, keepdims=True))
            norms[name, score][rows] = np.linalg.norm(backward(w[:, :keys]), axis=1) / divisor
    return {scoring: figures(scores[scoring], norms[scoring], scoring[1] == "sink") for scoring in scorings}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3000, help="NumPy's own, for each d_k (default 3000)")
    parser.add_argument("--seed", type=int, default=2017)
    options = parser.parse_args()
    rows = list(csv.DictReader(sys.stdin))
    if not rows or any(name not in rows[0] or name + "_se" not in rows[0] for name in FIGURES):
        sys.exit("standard input is not what ./train theory --csv prints")
    rng = np.random.default_rng(options.seed)
    largest = {name: (0.0, "") for name in FIGURES}
    simulated = {}
    compared = 0
    for row in rows:
        size = int(row["d_k"]), int(row["keys"])
        if size not in simulated:
            scorings = [(r["divisor"], r["score"]) for r in rows if (int(r["d_k"]), int(r["keys"])) == size]
            simulated[size] = simulate(rng, *size, options.samples, scorings)
        for name in FIGURES:
            value, error = simulated[size][row["divisor"], row["score"]][name]
            deviation = math.hypot(error, float(row[name + "_se"]))
            difference = abs(float(row[name]) - value)
            z = difference / deviation if deviation > 0 else 0.0 if difference < 1e-12 else math.inf
            compared += 1
            if not z <= largest[name][0]:
                largest[name] = z, f"d_k {row['d_k']}, {row['divisor']}, {row['score']}: {float(row[name]):.6g}, NumPy {value:.6g}"
    for name, (z, where) in largest.items():
        print(f"{name:14} {z:5.2f}  {where}")
    worst = max(z for z, _ in largest.values())
    print(f"largest |z| of {compared} figures: {worst:.2f} (tolerance {TOLERANCE:g})")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
