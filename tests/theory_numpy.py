#!/usr/bin/env python3
"""The figures of `./train theory --csv` against NumPy, which draws its own random numbers and computes every figure from
the definition: q, k, r of independent N(0, 1) entries, scores q.k / divisor, softmax, dL/dq for L = <r, softmax>.

    ./train theory --csv | python3 tests/theory_numpy.py [--samples N] [--seed S]

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


def divisor_value(name, d_k):
    return {"none": 1.0, "sqrt_dk": math.sqrt(d_k), "dk": float(d_k), "2sqrt_dk": 2 * math.sqrt(d_k)}[name]


def mean_and_error(x):
    return x.mean(), x.std(ddof=1) / math.sqrt(len(x))


def figures(scores, norms):
    """Of divided scores (samples, keys) and the gradients' norms (samples): name -> (value, standard error)."""
    samples = len(scores)
    out = {"score_mean": mean_and_error(scores.mean(axis=1))}
    value, error = mean_and_error(((scores - scores.mean()) ** 2).mean(axis=1))
    factor = scores.size / (scores.size - 1)
    out["score_var"] = value * factor, error * factor
    p = softmax(scores)
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


def simulate(rng, d_k, keys, samples, divisors):
    """By chunks, as all keys at once would not fit: name of the divisor -> figures."""
    scores, norms = np.empty((samples, keys)), {name: np.empty(samples) for name in divisors}
    chunk = max(1, 4_000_000 // (keys * d_k))
    for start in range(0, samples, chunk):
        rows = slice(start, min(start + chunk, samples))
        count = rows.stop - rows.start
        q, k = rng.standard_normal((count, d_k)), rng.standard_normal((count, keys, d_k))
        r = rng.standard_normal((count, keys))
        scores[rows] = np.einsum("nd,nkd->nk", q, k)
        for name in divisors:
            divisor = divisor_value(name, d_k)
            p = softmax(scores[rows] / divisor)
            # r is measured from r at the largest weight, or a saturated row would lose all digits
            rest = r - np.take_along_axis(r, p.argmax(axis=1)[:, None], axis=1)
            w = p * (rest - (p * rest).sum(axis=1, keepdims=True))
            norms[name][rows] = np.linalg.norm(np.einsum("nk,nkd->nd", w, k), axis=1) / divisor
    return {name: figures(scores / divisor_value(name, d_k), norms[name]) for name in divisors}


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
            names = [r["divisor"] for r in rows if (int(r["d_k"]), int(r["keys"])) == size]
            simulated[size] = simulate(rng, *size, options.samples, names)
        for name in FIGURES:
            value, error = simulated[size][row["divisor"]][name]
            deviation = math.hypot(error, float(row[name + "_se"]))
            difference = abs(float(row[name]) - value)
            z = difference / deviation if deviation > 0 else 0.0 if difference < 1e-12 else math.inf
            compared += 1
            if not z <= largest[name][0]:
                largest[name] = z, f"d_k {row['d_k']}, {row['divisor']}: {float(row[name]):.6g}, NumPy {value:.6g}"
    for name, (z, where) in largest.items():
        print(f"{name:14} {z:5.2f}  {where}")
    worst = max(z for z, _ in largest.values())
    print(f"largest |z| of {compared} figures: {worst:.2f} (tolerance {TOLERANCE:g})")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
