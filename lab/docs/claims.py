#!/usr/bin/env python3
"""Measures what is commonly said about dividing attention scores by the root of d_k.

    python3 lab/docs/claims.py [--csv] [--seed S]
    python3 lab/docs/claims.py --exact D_K KEYS    the exact figures of a row of attention, for four divisors
    python3 lab/docs/claims.py --test              checks the judgement and the integrals

Reads the tables of lab/docs/claims.md, draws queries and keys, and prints each claim with its figures and their verdict:
"right" when all figures that the claim states agree with those measured, "partly right" when some do, "wrong" when none
does. Exits with status 1 if a verdict is another than the table's, or a figure with the seed that it was drawn with,
and with status 2 without NumPy.
Needs NumPy only (lab/docs/requirements.txt).
"""
import argparse
import csv
import functools
import math
import re
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

try:
    import numpy as np
except ImportError as missing:
    print(f"claims.py needs NumPy: pip install numpy ({missing})", file=sys.stderr)
    sys.exit(2)

PAGE = Path(__file__).with_name("claims.md")
ROW = re.compile(r"^\| (\d+) \|" + r"([^|]*)\|" * 3 + r" \*\*([^*]*)\*\* \|([^|]*)\|$", re.MULTILINE)
Claim = namedtuple("Claim", "number claim source measured verdict why")

# From low to high are five standard errors on either side, or a range that has no error (None).
Figure = namedtuple("Figure", "value error low high")

# Rows of scores: `count` queries, each with `keys` keys; `queries` of them, a matrix, share their keys. The entries are
# N(0, 1) times q_std or k_std; any two entries of one vector correlate by `correlation`, a key and its query by
# `alignment`. A score is q.k, "cosine" or "additive": v.tanh(q + k), v ~ N(0, 1/d_k).
Rows = namedtuple("Rows", "seed d_k keys count queries q_std k_std correlation alignment score",
                  defaults=(1, 1, 1, 0, 0, "dot"))


# --- Rows of scores

def vectors(rng, shape, std, correlation):
    """Entries that correlate share a number."""
    own = rng.standard_normal(shape)
    if not correlation:
        return std * own
    shared = rng.standard_normal((*shape[:-1], 1))
    return std * (math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own)


def draw(rows):
    """Yields queries (matrices, queries, d_k), their keys (matrices, keys, d_k) and the generator, in parts that fit."""
    rng = np.random.default_rng([rows.seed, rows.d_k])
    matrices = rows.count // rows.queries
    part = max(1, 2_000_000 // (rows.keys * rows.d_k))
    for start in range(0, matrices, part):
        n = min(part, matrices - start)
        q = vectors(rng, (n, rows.queries, rows.d_k), rows.q_std, rows.correlation)
        k = vectors(rng, (n, rows.keys, rows.d_k), rows.k_std, rows.correlation)
        if rows.alignment:
            k = rows.alignment * q + math.sqrt(1 - rows.alignment**2) * k
        yield q, k, rng


@functools.cache
def scores(rows):
    """Scores before they are divided (count, keys)."""
    parts = []
    for q, k, rng in draw(rows):
        if rows.score == "additive":
            v = rng.standard_normal((len(q), rows.d_k, 1)) / math.sqrt(rows.d_k)
            s = np.tanh(q + k) @ v
        else:
            s = q @ k.swapaxes(1, 2)
        if rows.score == "cosine":
            s /= np.linalg.norm(q, axis=2)[:, :, None] * np.linalg.norm(k, axis=2)[:, None, :]
        parts.append(s.reshape(-1, rows.keys))
    return np.concatenate(parts)


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# --- Quantities of divided scores s (rows, keys), one for each row; a percentage of a whole row is 0 or 100

def score(s): return s.mean(axis=1)
def square(s): return (s**2).mean(axis=1)  # its mean is the variance, as scores have mean 0
def fourth_power(s): return (s**4).mean(axis=1)
def percent_inside(s): return 100 * (np.abs(s) <= 1).mean(axis=1)
def max_weight(s): return softmax(s).max(axis=1)
def evenness(s): return entropy(s) / math.log(s.shape[1])
def slope(s): return softmax(s) * (1 - softmax(s))  # of each weight, by its score
def percent_steep(s): return 100 * (slope(s) > .01).mean(axis=1)
def overflow(kind): return lambda s: 100.0 * np.isinf(s.astype(kind)).any(axis=1)
def exp_overflow(kind): return lambda s: 100.0 * np.isinf(np.exp(s.astype(kind)).sum(axis=1, dtype=kind))
def safe_exp_overflow(kind): return lambda s: exp_overflow(kind)(s - s.max(axis=1, keepdims=True))


def entropy(s):
    """ln Z - sum of p s, since ln p is -inf where a weight is 0."""
    rest = s - s.max(axis=1, keepdims=True)
    return np.log(np.exp(rest).sum(axis=1)) - (softmax(s) * rest).sum(axis=1)


def bf16_change(s):
    """The largest change of a weight when the scores are rounded to bf16: to nearest, ties to even."""
    bits = s.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    return np.abs(softmax(rounded.astype(float)) - softmax(s)).max(axis=1)


# --- What a line can measure: functions of seed, d_k and divisor that return figures

def figure(value, error=0.0):
    return Figure(value, error, value - 5 * error, value + 5 * error)


def figure_of_mean(x):
    return figure(x.mean(), x.std(ddof=1) / math.sqrt(len(x)))


def mean(of, keys, count, **drawn):
    return lambda seed, d_k, divisor: [figure_of_mean(of(scores(Rows(seed, d_k, keys, count, **drawn)) / divisor))]


def largest(keys, count):
    return lambda seed, d_k, divisor: [figure(scores(Rows(seed, d_k, keys, count)).max() / divisor)]


def matrix_mean(of, keys, count, queries):
    """What 95 of 100 matrices have as the mean of their rows."""
    def figures(seed, d_k, divisor):
        means = of(scores(Rows(seed, d_k, keys, count, queries)) / divisor).reshape(-1, queries).mean(axis=1)
        return [Figure(None, None, *np.quantile(means, [.025, .975]))]
    return figures


def fixed(of, *s):
    """Figures of one row that is given."""
    return lambda seed, d_k, divisor: [figure(x) for x in np.ravel(of(np.array([s]) / divisor))]


@functools.cache
def gradients(rows, divisor):
    """The norms of dL/dq (count), where L is <r, weights> with r ~ N(0, 1)."""
    norms = []
    for q, k, rng in draw(rows):
        p = softmax(q @ k.swapaxes(1, 2) / divisor)
        r = rng.standard_normal(p.shape)
        # r is measured from r at the largest weight, or a saturated row would lose all digits.
        r -= np.take_along_axis(r, p.argmax(axis=2, keepdims=True), axis=2)
        dscore = p * (r - (p * r).sum(axis=2, keepdims=True))
        norms.append(np.linalg.norm(dscore @ k, axis=2).ravel() / divisor)
    return np.concatenate(norms)


# --- The exact figures of a row, as integrals

# Given |q|, the scores are s X_j with s = |q| / divisor and independent X_j ~ N(0, 1). lab/docs/theory.md derives the
# three nested integrals, over ln |q|, y = ln t and the X of a key. All are sums over a grid (the trapezoidal rule), whose
# error falls exponentially with the step, because the integrands are smooth and vanish on both sides (Trefethen and
# Weideman 2014). With z = y + s x, e^(k z) exp(-e^z) is a bump for k >= 1 and a step down for k = 0.
X_MAX = 8.6  # the normal density there is 3e-17
Z_LOW, Z_HIGH = -42, 6  # 1 + e^z is rounded to 1; exp(-e^z) is 6e-176
Y_STEP = .5  # relative error e^(-pi^2 / step) = 3e-9


def exact_row(s, n):
    """Entropy, largest weight, and E |w|^2 and E (sum w_j X_j)^2 over r, of n scores s X_j."""
    h = min(.2, .25 / s)
    x = np.arange(-X_MAX, X_MAX, h)
    y = np.arange(Z_LOW - X_MAX * s - math.log(n), X_MAX * s + 4, Y_STEP)
    e = np.exp(np.minimum(y[:, None] + s * x, Z_HIGH))
    f = h / math.sqrt(2 * math.pi) * np.exp(-x * x / 2 - e)
    # The part of the integral below each x, with the end terms of Euler and Maclaurin.
    slope, bend, third = -x - s * e, -1 - s * s * e, -s**3 * e
    below = np.cumsum(f, axis=1) - f / 2 - h / 12 * f * slope + h**3 / 720 * f * (slope**3 + 3 * slope * bend + third)
    largest = n * (e * f * np.maximum(below, 0) ** (n - 1)).sum()
    # a, b, c: E[X^p e^(k z) exp(-e^z)] for p 0, 1, 2; by k.
    powers, moments = np.stack([np.ones_like(x), x, x * x], axis=1), []
    for _ in range(5):
        moments.append(f @ powers)
        f *= e
    a, b, c = np.stack(moments).transpose(2, 0, 1)
    one, two, three = (math.prod(range(n - k + 1, n + 1)) * a[0] ** max(n - k, 0) for k in (1, 2, 3))
    p2 = (one * a[2]).sum() * Y_STEP
    entropy = (np.exp(-np.exp(y)) - a[0] ** n).sum() * Y_STEP - s * s * (1 - p2)
    # sum p^2 - 2 sum p^3 + (sum p^2)^2
    across = one * (a[2] - a[3] + a[4] / 6) + two * a[2] ** 2 / 6
    # sum p^2 X^2 - 2 (sum p^2 X)(sum p X) + (sum p^2)(sum p X)^2
    along = (one * (c[2] - c[3] + c[4] / 6) + two * (b[3] * b[1] / 3 + c[2] * a[2] / 6 - b[2] * b[1])
             + three * a[2] * b[1] ** 2 / 6)
    return np.array([entropy, largest * Y_STEP, across.sum() * Y_STEP, along.sum() * Y_STEP])


def exact_figures(d_k, keys, divisor):
    """Variance of a score, entropy of a row, mean of its largest weight, and the root mean square of |dL/dq|. |q| is a chi
    variable: the density of u = ln |q| is proportional to exp(d u - e^(2u) / 2), which is largest at e^(2u) = d."""
    peak, step = math.log(d_k) / 2, min(.2, .7 / math.sqrt(2 * d_k))
    u = peak + step * np.arange(-200, 201)
    weights = np.exp(d_k * (u - peak) - (np.exp(2 * u) - d_k) / 2)
    u, weights = u[weights > 1e-15], weights[weights > 1e-15]
    rows = np.stack([exact_row(math.exp(x) / divisor, keys) for x in u])
    entropy, largest, across, along = weights @ rows / weights.sum()
    return d_k / divisor**2, entropy, largest, math.sqrt((d_k - 1) * across + along) / divisor


def print_exact(d_k, keys):
    print("divisor    variance   entropy  largest weight  root mean square of |dL/dq|")
    for name, divisor in (("none", 1), ("sqrt_dk", math.sqrt(d_k)), ("dk", d_k), ("2sqrt_dk", 2 * math.sqrt(d_k))):
        print("{:8} {:10.4g} {:9.4f} {:15.4f} {:28.4g}".format(name, *exact_figures(d_k, keys, divisor)))


def root_mean_square(x):
    squares = figure_of_mean(x**2)
    return figure(math.sqrt(squares.value), squares.error / 2 / math.sqrt(squares.value))


def median(x):
    """The error is half the distance between the order statistics sqrt(n) / 2 ranks below and above."""
    x, middle, half = np.sort(x), (len(x) - 1) / 2, math.sqrt(len(x)) / 2
    return figure(np.median(x), (x[math.ceil(middle + half)] - x[math.floor(middle - half)]) / 2)


def gradient(statistic, keys, count):
    return lambda seed, d_k, divisor: [statistic(gradients(Rows(seed, d_k, keys, count), divisor))]


def parameters(heads):
    """The weights of W_Q, W_K, W_V and W_O in d_model 512."""
    return lambda seed, d_k, divisor: [figure(4 * heads * d_k * 512)]


# --- What runs have measured: lab/docs/results/NAME.csv, the rows in which columns have given values

def runs(name, where):
    """The runs that finished."""
    with open(PAGE.with_name("results") / f"{name}.csv", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row.get("result", "finished") == "finished"
                and all(row[key] == value for key, value in where.items())]


def by_seed(name, column, where):
    """A column by seed, at the learning rate with the lowest mean validation loss of those that are left."""
    rates = {}
    for row in runs(name, where):
        rates.setdefault(row.get("lr"), []).append(row)
    best = min(rates.values(), key=lambda rows: np.mean([float(row["val_loss"]) for row in rows]))
    return {row["seed"]: float(row[column]) for row in best}


def difference(column, first, second):
    """Mean over the seeds of both, and in how many percent of them the first is higher."""
    one, other = (by_seed(name, column, where) for name, where in (first, second))
    seeds = sorted(one.keys() & other.keys())
    change = np.array([one[seed] - other[seed] for seed in seeds])
    mean_change = figure_of_mean(change) if len(change) > 1 else figure(change[0])
    return lambda *_: [mean_change, figure(100 * np.mean(change > 0))]


def best_rate(name, **where):
    """The learning rate with the lowest mean validation loss."""
    losses = {}
    for row in runs(name, where):
        losses.setdefault(float(row["lr"]), []).append(float(row["val_loss"]))
    return min(losses, key=lambda rate: np.mean(losses[rate]))


def share(belongs, among=lambda rows: True):
    """The percentage of architectures in wild.csv whose rows belong to a kind, among those of another."""
    folders = {}
    for row in runs("wild", {}):
        if not row["reason"]:
            folders.setdefault(row["folder"], []).append(row)
    counted = [belongs(rows) for rows in folders.values() if among(rows)]
    return lambda *_: [figure(100 * np.mean(counted))]


def is_root(rows):
    """Whether every attention of an architecture multiplies by 1/√d_k."""
    return all(abs(float(row["multiplier"]) * math.sqrt(float(row["d_k"])) - 1) < 1e-4 and
               row["kind"] in ("sqrt_dk", "one size") for row in rows)


def is_normed(rows):
    """Whether some attention normalizes queries and keys."""
    return any(row["normed"] for row in rows)


READS = ("sentences", "antibodies", "receptors", "reactions", "pictures", "voice", "fingerprints")
PREDICT = ("antibodies", "reactions", "fingerprints", "pictures")


def heads_share(belongs, sample="a"):
    """The percentage of heads of trained models of others that are of a kind."""
    rows = [row for row in runs("wild_trained", {"sample": sample}) if row["model"] in READS]
    return lambda *_: [figure(100 * np.mean([belongs(row) for row in rows]))]


def of_models(name, models=READS, sample="a"):
    """A figure of each trained model of others."""
    found = {row["model"]: row for row in runs("wild_trained_models", {"sample": sample, "figure": name})}
    return lambda *_: [figure(float(row["value"]), float(row["error"])) for row in map(found.get, models)]


def moved_divisor(model, sample="a"):
    """What a finished model loses with another divisor: {the divisor's name or factor of the grid: its row}."""
    return {row["word"] or float(row["factor"]): row
            for row in runs("wild_trained_divisor", {"model": model, "sample": sample, "layer": "all"})}


def loses(divisor, models=READS, column="less", times=1):
    rows = [moved_divisor(model)[divisor] for model in models]
    return lambda *_: [figure(times * float(row[column])) for row in rows]


def dearer(first, second, sample="a"):
    """The percentage of models that lose more with the first divisor than with the second."""
    costs = [moved_divisor(model, sample) for model in READS]
    return lambda *_: [figure(100 * np.mean([float(cost[first]["less"]) > float(cost[second]["less"]) for cost in costs]))]


def best_factor(model, sample):
    cost = {factor: float(row["less"]) for factor, row in moved_divisor(model, sample).items() if factor not in ("none", "d_k")}
    return min(cost, key=cost.get)


def own_median(run, column):
    return lambda *_: [figure(np.median([float(row[column]) for row in runs("wild_own", {"run": run, "seed": "1", "sample": "a"})]))]


def sink_correlation(model):
    """The rank correlation over a model's heads between deviation and weight on special tokens (no two are equal)."""
    rows = runs("wild_trained", {"model": model, "sample": "a"})
    ranks = [np.argsort(np.argsort([float(row[column]) for row in rows])) for column in ("row_std", "special")]
    return lambda *_: [figure(np.corrcoef(*ranks)[0, 1])]


def rate_ratio(divisor):
    return lambda *_: [figure(best_rate("width", d_model="64", scale_divisor=divisor) /
                              best_rate("width", d_model="256", scale_divisor=divisor))]


def half_frozen(seed, keys, divisor):
    """The deviation of scores at which softmax keeps half of the possible entropy, between two rows of the table."""
    rows = runs("freezing", {"keys": str(keys), "d_k": "64"})
    entropies = [float(row["entropy"]) for row in rows]
    return [figure(np.interp(-.5, [-entropy for entropy in entropies], [float(row["s"]) for row in rows]))]


def rising(divisor):
    """In how many percent of the seeds the validation loss rises from one evaluation to the next; the largest rise."""
    losses = {}
    for row in runs("steps_loss", {"scale_divisor": divisor}):
        losses.setdefault(row["seed"], []).append(float(row["val_loss"]))
    return positive(np.array([np.diff(loss).max() for loss in losses.values()]))


def positive(values):
    """In how many percent of the seeds a value is above 0; the largest."""
    return lambda *_: [figure(100 * np.mean(values > 0)), figure(values.max())]


def tried_rise(divisor):
    return positive(np.array(list(by_seed("refute", "largest_rise", {"way": "plain", "scale_divisor": divisor}).values())))


def middle_less_ends():
    """The mean multiplier of the middle layers less that of the first and the last: its mean over seeds, and in how many
    percent of them it is above 0."""
    seeds = {}
    for row in runs("learned_scales", {}):
        seeds.setdefault(row["seed"], []).append(float(row["multiplier"]))
    changes = np.array([np.mean(scales[1:-1]) - np.mean(scales[:1] + scales[-1:]) for scales in seeds.values()])
    return lambda *_: [figure_of_mean(changes) if len(changes) > 1 else figure(changes[0]), figure(100 * np.mean(changes > 0))]


def sweep(name, **where):
    return name, where


# --- The lines

NONE, ROOT, D_K = {"": lambda d_k: 1}, {"": math.sqrt}, {"": float}
BOTH = {"undivided ": lambda d_k: 1, "divided ": math.sqrt}
TWO_ROOT, ROOT_512 = {"": lambda d_k: 2 * math.sqrt(d_k)}, {"": lambda d_k: math.sqrt(512)}
TIMES_ROOT = {"": lambda d_k: 1 / math.sqrt(d_k)}
MARKS, LARGE, SMALL = (10, 80, 500, 4000, 20000), (-24, -10, 0, 10, 24), (-3, -1, 0, 1, 3)

# Of each claim: label, measure, values of d_k, divisors; what the claim says of the figures, in their order (None:
# nothing), and the tolerance by which a figure's low and high are widened.
Line = namedtuple("Line", "label measure sizes divisors said within", defaults=((), 0))
LINES = {
    1: [Line("q·k", fixed(score, .5 * -.7 + -.3 * .4 + 1.2 * .9), [3], BOTH, [.61, .35], .01),
        Line("variance over 100000 random pairs", mean(square, 1, 100000), [3], BOTH, [3, 1])],
    2: [Line("marks over their sum", fixed(lambda s: s / s.sum(), *MARKS), [5], NONE,
             [.00009, .00072, .0045, .036, .18], 1e-4),
        Line("softmax", fixed(softmax, *MARKS), [5], NONE),
        Line("after dividing by √5 the last is", fixed(max_weight, *MARKS), [5], ROOT),
        Line("p(1-p) is", fixed(slope, *MARKS), [5], NONE, [0, 0, 0, 0], 1e-6)],
    3: [Line("of 64000 scores at d_k 64, divided by 8, percent in -1..1:", mean(percent_inside, 64, 1000), [64], ROOT,
             [100], .1),
        Line("the largest is", largest(64, 1000), [64], ROOT)],
    4: [Line("softmax", fixed(softmax, *LARGE), [5], NONE, [0, 0, 0, 0, 1], .001)],
    5: [Line("softmax", fixed(softmax, *SMALL), [5], NONE, [.012, .089, .243, .661, .995], .001)],
    6: [Line("p(1-p) in the row of claim 4 at most", fixed(lambda s: slope(s).max(), *LARGE), [5], NONE, [0], .001),
        Line("in the row of claim 5 at least", fixed(lambda s: slope(s).min(), *SMALL), [5], NONE),
        Line("at d_k 64, percent of the weights with more than 0.01: with 64 keys", mean(percent_steep, 64, 1000), [64],
             BOTH, [0, 100], 1),
        Line("with 10 keys", mean(percent_steep, 10, 1000), [64], ROOT, [100], 1)],
    7: [Line("entropy", mean(entropy, 10, 4000), [16, 64, 256], BOTH, [2.1, .8, .2, 2.3, 2.3, 2.3], .05)],
    8: [Line("mean of the rows' largest weights in 95 of 100 matrices", matrix_mean(max_weight, 10, 4000, queries=10),
             [16, 64, 256], BOTH, [.342, .891, .998, .289, .276, .301])],
    9: [Line("10 keys, d_k 16 / 64 / 256 / 1024: mean", gradient(figure_of_mean, 10, 2000), [16, 64, 256, 1024], BOTH,
             [None, .86 / 4, .86 / 16, .86 / 64, .31, .31, .31, .31], .02),
        Line("root mean square", gradient(root_mean_square, 10, 2000), [16, 64, 256, 1024], NONE),
        Line("median", gradient(median, 10, 2000), [16, 64, 256, 1024], NONE)],
    11: [Line("variance of v·tanh(q + k), q and k in place of W1 q and W2 k: v of unit variance, 16 hidden units",
              mean(square, 10, 1000, score="additive"), [16], TIMES_ROOT),
         Line("512 hidden units", mean(square, 10, 1000, score="additive"), [512], TIMES_ROOT),
         Line("v of variance 1/units", mean(square, 10, 1000, score="additive"), [16, 512], NONE, [.5, .5], .05)],
    14: [Line("d_k 1 / 4 / 64: variance", mean(square, 1, 800000), [1, 4, 64], ROOT, [1, 1, 1]),
         Line("fourth moment (of a normal number 3; exact 9 / 4.5 / 3.09)", mean(fourth_power, 1, 800000), [1, 4, 64],
              ROOT, [3, 3, 3])],
    15: [Line("variance of the divided scores with q twice as long (1 if normalized by what is measured)",
              mean(square, 16, 2000, q_std=2), [64], ROOT, [1])],
    # Overflow is claimed of some rows, not of all: any percentage but 0 agrees.
    16: [Line("d_k 1024: the largest of 19200 scores is", largest(64, 300), [1024], NONE),
         Line("percent of rows with one beyond a float's 3e+38:", mean(overflow(np.float32), 64, 300), [1024], NONE,
              [100], 99.99),
         Line("percent of rows in which exp of the bare scores overflows:", mean(exp_overflow(np.float32), 64, 300),
              [1024], NONE),
         Line("with the row's maximum subtracted:", mean(safe_exp_overflow(np.float32), 64, 300), [1024], NONE)],
    17: [Line("unit entries, d_k 1024: the largest of 12800 scores is", largest(64, 200), [1024], NONE),
         Line("percent of rows with one beyond fp16's 65504:", mean(overflow(np.float16), 64, 200), [1024], NONE, [100],
              99.99),
         Line("percent of rows (d_k 64, 64 keys) in which exp of bare scores overflows fp16:",
              mean(exp_overflow(np.float16), 64, 500), [64], BOTH),
         Line("percent of q·q (d_k 64) beyond it, with entries of deviation 1:",
              mean(overflow(np.float16), 1, 500, alignment=1), [64], NONE, [100], 99.99),
         Line("of deviation 48:", mean(overflow(np.float16), 1, 500, alignment=1, q_std=48), [64], NONE, [100], 99.99),
         Line("of deviation 48, q divided by 8 first:", mean(overflow(np.float16), 1, 500, alignment=1, q_std=48), [64],
              ROOT),
         Line("bf16 has a float's range but 8 bits: the worst weight of a row is off by", mean(bf16_change, 64, 500),
              [64], BOTH)],
    18: [Line("d_k 64, 64 keys: variance", mean(square, 64, 1000), [64], D_K, [1 / 64]),
         Line("entropy as a share of the possible", mean(evenness, 64, 1000), [64], D_K, [1], .01),
         Line("divided by √d_k", mean(evenness, 64, 1000), [64], ROOT)],
    19: [Line("d_k 64, 64 keys: variance", mean(square, 64, 1000), [64], TWO_ROOT, [.25]),
         Line("entropy as a share of the possible", mean(evenness, 64, 1000), [64], TWO_ROOT),
         Line("divided by √d_k", mean(evenness, 64, 1000), [64], ROOT)],
    21: [Line("largest weight", mean(max_weight, 8, 4000), [32, 128, 512], BOTH),
         # 0 to half of 1.72
         Line("entropy", mean(entropy, 8, 4000), [32, 128, 512], BOTH, [.43, .43, .43], .43)],
    23: [Line("49 keys, d_k 768, divided by √768: variance with unit entries", mean(square, 49, 400), [768], ROOT),
         Line("where the image's have deviation 4 (exact 16)", mean(square, 49, 400, k_std=4), [768], ROOT, [1]),
         Line("where the entries of a vector correlate by 0.1 (exact 8.7)", mean(square, 49, 400, correlation=.1),
              [768], ROOT, [1])],
    24: [Line("d_k 64, 32 keys, undivided scores: entropy, whatever V is,", mean(entropy, 32, 1000), [64], NONE, [0],
              .5),
         Line("median of ‖dL/dq‖, proportional to V,", gradient(median, 32, 1000), [64], NONE)],
    25: [Line("d_k 64, 64 keys: entropy of divided scores", mean(entropy, 64, 1000), [64], ROOT),
         Line("of cosines", mean(entropy, 64, 1000, score="cosine"), [64], NONE),
         Line("of cosines times √d_k", mean(entropy, 64, 1000, score="cosine"), [64], TIMES_ROOT, [3.69], .05)],
    26: [Line("8 heads of d_k 64 in d_model 512: variance over √64", mean(square, 64, 1000), [64], ROOT, [1]),
         Line("over √512", mean(square, 64, 1000), [64], ROOT_512),
         Line("entropy over √64", mean(entropy, 64, 1000), [64], ROOT),
         Line("over √512", mean(entropy, 64, 1000), [64], ROOT_512)],
    27: [Line("d_model 512: weights of 1 head of d_k 512", parameters(1), [512], NONE, [1048576]),
         Line("8 heads of d_k 64 / 16 (the formula says 1048576 / 458752)", parameters(8), [64, 16], NONE,
              [1048576, 458752])],
    29: [Line("no translation; but with random q, k and 64 keys the entropy, as a share of the possible, is",
              mean(evenness, 64, 1000), [128, 256, 512, 1024], NONE)],
    30: [Line("d_k 64 / 256 / 1024: keys that correlate with q by 0.5 score, over d_k,",
              mean(score, 8, 400, alignment=.5), [64, 256, 1024], D_K, [.5, .5, .5]),
         Line("over √d_k", mean(score, 8, 400, alignment=.5), [64, 256, 1024], ROOT),
         Line("variance of unrelated keys' scores, over d_k", mean(square, 8, 400), [64, 256, 1024], D_K)],
    31: [Line("entropy of q·k / √d_k", mean(entropy, 64, 500), [64], ROOT),
         Line("with q and k ten times as long", mean(entropy, 64, 500, q_std=10, k_std=10), [64], ROOT),
         Line("of cosines times √d_k", mean(entropy, 64, 500, score="cosine"), [64], TIMES_ROOT, [3.69], .05),
         Line("with q and k ten times as long", mean(entropy, 64, 500, score="cosine", q_std=10, k_std=10), [64],
              TIMES_ROOT, [3.69], .05)],
}


# Of trained models a line has a difference of validation losses (or of another column), and the percentage of seeds in
# which the first is higher. A claim about who ends lower says that percentage: 0 or 100.
SLOW_ROOT, FAST_ROOT = sweep("slower", scale_divisor="sqrt_dk"), sweep("best", d_k="64", scale_divisor="sqrt_dk")
SLOW_NONE, FAST_NONE = sweep("slower", scale_divisor="none"), sweep("best", d_k="64", scale_divisor="none")
SLOW_D_K, FAST_D_K = sweep("slower", scale_divisor="dk"), sweep("best", d_k="64", scale_divisor="dk")
SMALLER, LARGER = "0.353553391", "2.82842712"


def scored(way, init):
    return sweep("scores", way=way, init=init)


def gpt2_start(divisor):
    return sweep("gpt2", scale_divisor=divisor, lr="0.003")


def tried(way, divisor="sqrt_dk"):
    return sweep("refute", way=way, scale_divisor=divisor)


def weights(init, scale, step, matrix):
    return sweep("rank", init=init, qk_init_scale=scale, step=step, matrix=matrix)


def trained(label, column, first, second, said=(), within=0):
    return Line(label, difference(column, first, second), [0], NONE, said, within)


LINES |= {
    33: [Line("d_k 64, 4 / 16 / 64 / 256 keys: half of the possible entropy is left at a deviation of", half_frozen,
              [4, 16, 64, 256], NONE, [math.sqrt(2 * math.log(n)) for n in (4, 16, 64, 256)], .25)],
    34: [trained("validation loss, and percent of seeds in which it is higher: W_Q and W_K at 0.354 of the rate 3e-3",
                 "val_loss", sweep("rate", qk_lr_scale=SMALLER, lr="0.003"), FAST_ROOT, [None, 0]),
         trained("W_Q and W_K fixed, none less √d_k", "val_loss",
                 sweep("parts", scale_divisor="none", score_gradient="yes"),
                 sweep("parts", scale_divisor="sqrt_dk", score_gradient="yes"), [None, 0]),
         trained("one seed on Tiny Shakespeare: 0.354 of the rate", "val_loss", tried("rate"), tried("plain"), [None, 0]),
         trained("W_Q and W_K fixed, four layers, none less √d_k", "val_loss", tried("fixed", "none"), tried("fixed"),
                 [None, 0])],
    35: [trained("none less √d_k, and percent of seeds in which it is higher: largest norm of the gradient, 1e-3",
                 "grad_norm_max", SLOW_NONE, SLOW_ROOT, [None, 100]),
         trained("3e-3", "grad_norm_max", FAST_NONE, FAST_ROOT, [None, 100]),
         trained("median norm, 1e-3", "grad_norm_median", SLOW_NONE, SLOW_ROOT, [None, 100]),
         trained("3e-3", "grad_norm_median", FAST_NONE, FAST_ROOT, [None, 100]),
         trained("one seed on Tiny Shakespeare, 3e-3: largest norm", "grad_norm_max", tried("plain", "none"),
                 tried("plain"), [None, 100]),
         trained("median norm", "grad_norm_median", tried("plain", "none"), tried("plain"), [None, 100])],
    36: [trained("none less √d_k at 3e-3, and percent of seeds in which it is higher: last entropy, init unit",
                 "entropy_last", FAST_NONE, FAST_ROOT),
         trained("largest norm of the gradient", "grad_norm_max", FAST_NONE, FAST_ROOT, [None, 100]),
         trained("last entropy, init gpt2", "entropy_last", gpt2_start("none"), gpt2_start("sqrt_dk")),
         trained("largest norm of the gradient", "grad_norm_max", gpt2_start("none"), gpt2_start("sqrt_dk"),
                 [None, 100]),
         trained("one seed on Tiny Shakespeare, init gpt2: last entropy", "entropy_last", tried("gpt2", "none"),
                 tried("gpt2")),
         trained("largest norm of the gradient", "grad_norm_max", tried("gpt2", "none"), tried("gpt2"), [None, 100])],
    37: [trained("validation loss less √d_k's, and percent of seeds in which it is higher: start × 2.83, 1e-3",
                 "val_loss", sweep("start", qk_init_scale=LARGER, lr="0.001"), SLOW_ROOT, [0], .05),
         trained("rate × 2.83, 1e-3", "val_loss", sweep("rate", qk_lr_scale=LARGER, lr="0.001"), SLOW_ROOT, [0], .05),
         trained("3e-3", "val_loss", sweep("rate", qk_lr_scale=LARGER, lr="0.003"), FAST_ROOT, [0], .05),
         trained("one seed on Tiny Shakespeare: undivided, start and rate × 0.354", "val_loss", tried("absorbed", "none"),
                 tried("plain"), [0], .05)],
    38: [trained("AdamW, start × 0.354 less divisor d_k, and percent of seeds in which it is higher: last deviation of "
                 "the scores, 1e-3", "score_std_last", sweep("start", qk_init_scale=SMALLER, lr="0.001"), SLOW_D_K,
                 [None, 100]),
         trained("3e-3", "score_std_last", sweep("start", qk_init_scale=SMALLER, lr="0.003"), FAST_D_K, [None, 100]),
         trained("validation loss, 1e-3", "val_loss", sweep("start", qk_init_scale=SMALLER, lr="0.001"), SLOW_D_K),
         trained("3e-3", "val_loss", sweep("start", qk_init_scale=SMALLER, lr="0.003"), FAST_D_K),
         trained("one seed on Tiny Shakespeare, 3e-3: last deviation of the scores", "score_std_last", tried("start"),
                 tried("plain", "dk"), [None, 100])],
    # One step of the grid of rates is a factor of 2.
    39: [Line("best rate at width 64 over that at width 256: d_k", rate_ratio("dk"), [0], NONE, [1], 1),
         Line("√d_k", rate_ratio("sqrt_dk"), [0], NONE)],
    41: [trained("2 layers, learned scales less √d_k, and percent of seeds in which it is higher: validation loss, "
                 "init unit", "val_loss", scored("learned", "unit"), scored("sqrt_dk", "unit"), [None, 0]),
         trained("init gpt2", "val_loss", scored("learned", "gpt2"), scored("sqrt_dk", "gpt2"), [None, 0]),
         trained("6 layers, a scale for each, init unit", "val_loss", sweep("learned", scale_learned="layer"),
                 sweep("learned", scale_learned="no"), [None, 0]),
         Line("mean scale of its middle layers less that of the first and the last, and percent of seeds in which it is "
              "higher:", middle_less_ends(), [0], NONE, [None, 100])],
    42: [trained("log n less √d_k, and percent of seeds in which it is higher: validation loss, init unit",
                 "val_loss", scored("ssmax", "unit"), scored("sqrt_dk", "unit"), [None, 0]),
         trained("init gpt2", "val_loss", scored("ssmax", "gpt2"), scored("sqrt_dk", "gpt2"), [None, 0]),
         trained("one seed on Tiny Shakespeare, 256 keys", "val_loss", tried("log"), tried("long"), [None, 0])],
    # "Rest" is to move less than W_V until the end of the warmup.
    43: [line for start, init, scale in (
             ("distance moved by step 100 as a share of the start, and percent of seeds in which it is higher: init gpt2",
              "gpt2", "1"), ("a tenth of that for W_Q and W_K", "gpt2", "0.1"), ("init unit, not small", "unit", "1"))
         for line in (
             trained(f"{start}, W_Q and W_K less W_V", "moved", weights(init, scale, "100", "qk"),
                     weights(init, scale, "100", "v"), [None, 0] if init == "gpt2" else ()),
             trained("effective rank of W_Q W_Kᵀ at step 1000 less that at 1", "rank", weights(init, scale, "1000", "qk"),
                     weights(init, scale, "1", "qk"), [None, 0] if init == "gpt2" else ()))],
    44: [Line("d_k 64, 64 keys: entropy as a share of the possible, cosines", mean(evenness, 64, 1000, score="cosine"),
              [64], NONE, [1], .01),
         Line("times √d_k", mean(evenness, 64, 1000, score="cosine"), [64], TIMES_ROOT),
         trained("cosines times √d_k less √d_k, and percent of seeds in which it is higher: validation loss, init "
                 "unit", "val_loss", scored("cosine", "unit"), scored("sqrt_dk", "unit"), [None, 0]),
         trained("bare cosines less cosines times √d_k", "val_loss", sweep("cosine", scale_divisor="none"),
                 sweep("cosine", scale_divisor="0.125"), [None, 100])],
    45: [Line("percent of seeds whose validation loss rises from one evaluation to the next, and the largest "
              "change: none", rising("none"), [0], NONE, [100]),
         Line("√d_k", rising("sqrt_dk"), [0], NONE, [0]),
         Line("one seed on Tiny Shakespeare: none", tried_rise("none"), [0], NONE, [100]),
         Line("√d_k", tried_rise("sqrt_dk"), [0], NONE, [0])],
    46: [trained(f"{words} less √d_k", "val_loss", sweep("heads", heads=heads, scale_divisor=divisor),
                 sweep("heads", heads=heads, scale_divisor="sqrt_dk"), [None, 100])
         for heads, twice, first in (("4", "181.019336", "validation loss, and percent of seeds in which it is higher: 4 "
                                      "heads, √d_model"), ("8", "64", "8 heads, √d_model"))
         for words, divisor in ((first, "sqrt_dmodel"), ("none", "none"), ("d_k√d_k", twice))],
    47: [Line("percent of the architectures in transformers 5.24.0 that were measured: all that divide by √d_k",
              share(is_root), [0], NONE, [100]),
         Line("of those of 2026", share(is_root, lambda rows: rows[0]["day"] >= "2026"), [0], NONE, [100]),
         Line("of those of 2022 and before", share(is_root, lambda rows: rows[0]["day"] < "2023"), [0], NONE, [100])],
    48: [Line("percent of the architectures with normalized queries and keys that do without √d_k",
              share(lambda rows: not is_root(rows), is_normed), [0], NONE, [100])],
    49: [trained("normalized and undivided less √d_k, and percent of seeds in which it is higher: validation loss", "val_loss",
                 sweep("wild_sweep", kind="nothing_normed"), sweep("wild_sweep", kind="sqrt_dk"), [None, 0]),
         trained("deviation of the scores at the start", "score_std_first", sweep("wild_sweep", kind="nothing_normed"),
                 sweep("wild_sweep", kind="sqrt_dk"))],
    # Variance 1 is a deviation of 0.8 to 1.25.
    50: [Line("percent of the heads whose divided scores have a deviation of 0.8 to 1.25 within a row:",
              heads_share(lambda row: .8 <= float(row["row_std"]) <= 1.25), [0], NONE, [100]),
         Line("on the second sample", heads_share(lambda row: .8 <= float(row["row_std"]) <= 1.25, sample="b"), [0], NONE, [100]),
         Line("deviation in the median head", of_models("median"), [0], NONE),
         Line("in our model divided by √d_k", own_median("dk64_scaled", "row_std"), [0], NONE, [1], .25)],
    # Useless is to choose nearest neighbours by chance, and to lose as much as with nearly uniform weights.
    51: [Line("percent of nearest neighbours that stay without a divisor (by chance 1.6), sentences / receptors:",
              loses("none", ("sentences", "receptors"), "kept", 100), [0], NONE, [1.6, 1.6], 5),
         Line("nats lost, antibodies / reactions / fingerprints / pictures:", loses("none", PREDICT), [0], NONE),
         Line("with 8√d_k, nearly uniform:", loses(8.0, PREDICT), [0], NONE),
         Line("percent of the models that lose more with 8√d_k than with none", dearer(8.0, "none"), [0], NONE, [0])],
    52: [Line("percent of the models that lose more with none than with d_k", dearer("none", "d_k"), [0], NONE, [100]),
         Line("on the second sample", dearer("none", "d_k", "b"), [0], NONE, [100])],
    53: [Line("random vectors, 64 keys, d_k 16 / 64 / 256: entropy as a share of the possible", mean(evenness, 64, 1000),
              [16, 64, 256], ROOT, [.886] * 3, .01),
         Line("the receptors' model with d_k 2 / 4 / 8 / 16",
              of_models("entropy", ("receptors tiny", "receptors small", "receptors", "receptors large")), [0], NONE,
              [.886] * 4, .01)],
    54: [Line("variance of a row's scores over what independent entries would have, in the median head",
              of_models("ratio"), [0], NONE, [1] * 7, .1),
         Line("in our model divided by √d_k, after 1 step", own_median("steps_1", "ratio"), [0], NONE, [1], .1),
         Line("100 steps", own_median("steps_100", "ratio"), [0], NONE, [1], .1),
         Line("1000 steps", own_median("steps_1000", "ratio"), [0], NONE, [1], .1)],
    55: [Line("rank correlation over heads between deviation and weight on special tokens: " * (model == "sentences") + model,
              sink_correlation(model), [0], NONE, [1], .5)
         for model in ("sentences", "antibodies", "receptors", "reactions", "voice", "fingerprints")],
    56: [Line("best factor of the grid of powers of 2, antibodies / reactions / fingerprints / pictures:",
              lambda *_: [figure(best_factor(model, "a")) for model in PREDICT], [0], NONE, [1] * 4),
         Line("on the second sample", lambda *_: [figure(best_factor(model, "b")) for model in PREDICT], [0], NONE, [1] * 4),
         Line("nats lost with 2√d_k:", loses(2.0, PREDICT), [0], NONE)],
    57: [Line("percent of the heads in which the gradient of a query is larger with √d_k than with d_k:",
              heads_share(lambda row: float(row["grad"]) > float(row["grad_dk"])), [0], NONE, [100], 5),
         Line("than with none:", heads_share(lambda row: float(row["grad"]) > float(row["grad_none"])), [0], NONE, [100], 5)],
}


# --- Measuring, judging, printing

def text_of(f):
    """A figure has the digits that its error leaves it: 0.75 ± 0.01."""
    if f.error is None:
        return f"{f.low:.2f} to {f.high:.2f}"
    if f.error > 0:
        decimals = max(0, -math.floor(math.log10(f.error)))
        return f"{f.value:.{decimals}f} ± {f.error:.{decimals}f}"
    return f"{f.value:.0f}" if f.value == math.floor(f.value) else f"{f.value:.3g}"


def measure(lines, seed):
    """What was measured, in words; how many figures are stated, and how many of these agree."""
    parts, stated, agree = [], 0, 0
    for line in lines:
        words, figures = [], []
        for word, divisor in line.divisors.items():
            some = [f for d_k in line.sizes for f in line.measure(seed, d_k, divisor(d_k))]
            words.append(word + " / ".join(map(text_of, some)))
            figures += some
        parts.append(line.label + " " + ", ".join(words))
        said = [(f, x) for f, x in zip(figures, line.said) if x is not None]
        stated += len(said)
        agree += sum(f.low - line.within <= x <= f.high + line.within for f, x in said)
    if stated > 1:
        parts.append(f"{agree} of {stated} figures agree")
    return "; ".join(parts), stated, agree


def judge(claim, measured, stated, agree):
    """The claim with the measured figures and their verdict. Where all agree the table may qualify "right" (for another
    reason, about training, not testable). Another verdict than the table's takes the place of its explanation."""
    here = " here" if claim.verdict.endswith(" here") else ""
    verdict = ("right" if agree == stated else "partly right" if agree > 0 else "wrong") + here
    qualified = claim.verdict.removesuffix(" here") not in ("partly right", "wrong")
    if verdict == claim.verdict or agree == stated and qualified:
        return claim._replace(measured=measured)
    why = f"lab/docs/claims.md explains another verdict: {claim.verdict}."
    return claim._replace(measured=measured, verdict=verdict, why=why)


def read(text):
    """The claims of a page's tables, in the order of their numbers."""
    return sorted(Claim(int(number), *map(str.strip, cells)) for number, *cells in ROW.findall(text))


def print_claim(claim):
    def part(label, text, width=14):
        print(textwrap.fill(text, 80, initial_indent=label.ljust(width), subsequent_indent=" " * width,
                            break_long_words=False, break_on_hyphens=False))

    part(f"{claim.number:2}", claim.claim, 4)
    if claim.source:
        part("    source", claim.source)
    if claim.measured:
        part("    measured", claim.measured)
    part("    verdict", f"{claim.verdict}. {claim.why}")
    print(flush=True)


def test():
    """Given figures are judged as they should be, planted verdicts are found, rows have the moments they should."""
    def given(*figures):
        return lambda seed, d_k, divisor: list(figures)

    def verdict(table, first, second):
        lines = [Line("x", given(Figure(first, .2, first - 1, first + 1), figure(second)), [1], NONE, [10, 4], .5),
                 Line("y", given(Figure(None, None, 6, 8)), [1], NONE, [None])]
        return judge(Claim(1, "", "", "", table, "because"), *measure(lines, 1))

    for table in ("right", "partly right", "wrong"):
        for figures, expected in (((10, 4), "right"), ((11.5, 4.5), "right"), ((11.6, 4), "partly right"),
                                  ((8.4, 4), "partly right"), ((1, 8), "wrong")):
            judged = verdict(table, *figures)
            assert judged.verdict == expected, (figures, judged)
            assert (judged.why == "because") == (table == expected), judged
    assert verdict("about training", 10, 4).verdict == "about training"
    assert verdict("about training", 10, 8).verdict == "partly right"
    assert verdict("right here", 10, 8).verdict == "partly right here"
    assert verdict("wrong here", 1, 8).why == "because"
    assert verdict("right", 10, 8).measured == "x 10.0 ± 0.2 / 8; y 6.00 to 8.00; 1 of 2 figures agree"

    page = PAGE.read_text(encoding="utf-8")
    claims = read(page)
    numbers = sorted(map(int, re.findall(r"^\| (\d+) ", page, re.MULTILINE)))
    assert [claim.number for claim in claims] == numbers == list(range(1, len(numbers) + 1)), "a row is not read"
    planted = read(page.replace("**wrong** | What is stated adds up", "**right** | What is stated adds up"))[4]
    assert judge(planted, *measure(LINES[5], 1)).verdict == "wrong", planted

    # At each one's best rate, by seeds that both have.
    change, _ = difference("val_loss", SLOW_NONE, SLOW_ROOT)()
    losses = [[float(row["val_loss"]) for row in runs(*way)] for way in (SLOW_NONE, SLOW_ROOT)]
    assert math.isclose(change.value, np.mean(losses[0]) - np.mean(losses[1])), change
    lowest = min(runs("depth", {"scale_divisor": "none", "seed": "1"}), key=lambda row: float(row["val_loss"]))
    assert best_rate("depth", scale_divisor="none", seed="1", layers=lowest["layers"]) == float(lowest["lr"])

    # The integrals: draws of 10 keys, the limit of uniform weights, and that of saturated ones for two keys, where their
    # gap has the density 1 / sqrt(pi) / s at 0 and E H is pi^2 / 6 times that.
    for divisor in (1, 4, 16):
        drawn = [f for of in (entropy, max_weight) for f in mean(of, 10, 20000)(1, 16, divisor)]
        drawn += gradient(root_mean_square, 10, 20000)(1, 16, divisor)
        for f, value in zip(drawn, exact_figures(16, 10, divisor)[1:]):
            assert f.low <= value <= f.high, (divisor, f, value)
    assert np.allclose(exact_figures(51, 18, 1e5)[1:], (math.log(18), 1 / 18, math.sqrt(51 * 17) / 18 / 1e5), rtol=1e-3)
    assert math.isclose(exact_figures(256, 2, 1)[1], math.pi**1.5 / 6 / 16, rel_tol=.002)

    for drawn, expected, expected_square in (
            ({}, 0, 48), ({"q_std": 2, "k_std": 3}, 0, 48 * 36), ({"correlation": .25}, 0, 48 * (1 + 47 / 16)),
            ({"alignment": .5}, 24, 24**2 + 48 * 1.25), ({"score": "cosine"}, 0, 1 / 48)):
        for of, exact in ((score, expected), (square, expected_square)):
            (f,) = mean(of, 5, 4000, **drawn)(3, 48, 1)
            assert f.low <= exact <= f.high, (drawn, f, exact)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", action="store_true", help="number,claim,source,measured,verdict,why")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--exact", type=int, nargs=2, metavar=("D_K", "KEYS"), help="at least 1 and 2")
    parser.add_argument("--test", action="store_true", help="check the judgement and the integrals instead")
    options = parser.parse_args()
    if options.exact and (options.exact[0] < 1 or options.exact[1] < 2):
        parser.error("--exact takes a d_k of at least 1 and at least 2 keys")
    if options.exact:
        return print_exact(*options.exact)
    if options.test:
        return test()
    differing = []
    if options.csv:
        print(",".join(Claim._fields))
    for claim in read(PAGE.read_text(encoding="utf-8")):
        judged = claim
        if claim.number in LINES:
            judged = judge(claim, *measure(LINES[claim.number], options.seed))
        if judged.verdict != claim.verdict:
            differing.append(f"claim {claim.number} is {judged.verdict}, in lab/docs/claims.md {claim.verdict}")
        elif judged.measured != claim.measured and options.seed == 1:
            differing.append(f"claim {claim.number} has other figures in lab/docs/claims.md")
        if options.csv:
            csv.writer(sys.stdout, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerow(judged)
        else:
            print_claim(judged)
    return "\n".join(differing) or None


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        sys.exit(main())
