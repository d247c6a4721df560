#!/usr/bin/env python3
"""Where softmax freezes, and where the plateau of the divisors ends.

    lab/study/edge.py freezing ROWS     lab/docs/results/freezing.csv, which has 4096 rows; needs NumPy
    lab/study/edge.py half              where it is half the way, from that file
    lab/study/edge.py verdict           the rule of lab/study/edge.ini, applied
    lab/study/edge.py tried             what lab/study/edge_tried.ini asks

freezing: a query's scores of n independent keys are s |q| / sqrt(d_k) times independent normal numbers, for normal
queries and keys whose scores have the standard deviation s. For n keys, d_k and x = s / sqrt(2 ln n), over ROWS rows:
the mean of the entropy / ln n, the mean of a row's largest weight, and the median norm of dL/ds for L = <r, softmax(s)>
with r ~ N(0, I). keys `causal N` are rows 2 ... N of a causal mask, drawn at random, with x = s / r(N), r(N) the mean of
sqrt(2 ln i). For n to infinity entropy / ln n is 1 - x^2 below x = 1 and 0
above it (Derrida 1981, the random energy model).

verdict: reads lab/docs/results/edge.csv and edge_init.csv; tried: edge_tried.csv."""

import csv
import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

RESULTS = Path(__file__).resolve().parents[2] / "lab/docs/results"


def row_mean(context):
    """r(T): the mean over a causal mask's rows of sqrt(2 ln i), i keys a row."""
    return mean(math.sqrt(2 * math.log(keys)) for keys in range(2, context + 1))


# --- Random scores


def freezing(rows):
    import numpy as np

    def row(name, d_k, x, s, counts, random):
        """Rows of counts[i] keys: entropy / ln keys, largest weight, and the norm of the gradient."""
        shape = rows, counts.max()
        sizes = np.sqrt(random.chisquare(d_k, (rows, 1)) / d_k)
        scores = s * sizes * random.standard_normal(shape, np.float32)
        scores[np.arange(shape[1]) >= counts[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(1) / np.log(counts)
        towards = random.standard_normal(shape, np.float32)
        gradient = weights * (towards - (weights * towards).sum(1, keepdims=True))
        norm = np.median(np.sqrt((gradient**2).sum(1)))
        print(name, d_k, f"{x:.4f},{s:.4f},{entropy.mean():.4f},{weights.max(1).mean():.4f},{norm:.4f}", sep=",")

    print("keys,d_k,x,s,entropy,max_weight,grad_scores_median")
    grid = [2 ** (step / 4) for step in range(-12, 9)]
    for keys in 4, 16, 64, 256, 1024, 4096:
        for d_k in 4, 16, 64, 1024:
            random = np.random.default_rng([keys, d_k])
            for x in grid:
                row(keys, d_k, x, x * math.sqrt(2 * math.log(keys)), np.full(rows, keys), random)
    for context in 16, 64, 256, 1024:
        random = np.random.default_rng(context)
        for x in grid:
            row(f"causal {context}", 64, x, x * row_mean(context), random.integers(2, context + 1, rows), random)


def half():
    """The table of lab/docs/theory.md."""
    rows = defaultdict(list)
    with open(RESULTS / "freezing.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["d_k"] == "64":
                rows[row["keys"]].append({key: float(row[key]) for key in list(row)[2:]})

    def where(row, column, level):
        """The start at which the column has the level."""
        sign = 1 if row[-1][column] > row[0][column] else -1
        return 2 ** crossing({at["s"]: sign * at[column] for at in row}, sign * level)

    limit = "√(2 ln n)", lambda row: row[0]["s"] / row[0]["x"]
    figures = [
        ("the entropy is half of ln n", lambda row: where(row, "entropy", 0.5)),
        ("the mean largest weight is ½", lambda row: where(row, "max_weight", 0.5)),
        ("the median gradient is largest", lambda row: max(row, key=lambda at: at["grad_scores_median"])["s"]),
    ]
    numbers = [name for name in rows if name.isdigit()]
    print(f"| keys | {' | '.join(numbers)} |\n|---{'|---' * len(numbers)}|")
    for prefix, kind, lines in ("", "", [limit, *figures]), ("causal ", ", causal", figures):
        for label, figure in lines:
            found = [rows.get(prefix + keys) for keys in numbers]
            print("| " + " | ".join([label + kind, *(f"{figure(row):.1f}" if row else "-" for row in found)]) + " |")


# --- Trained models


def crossing(losses, level):
    """log2 of the lowest start at which the loss (start: loss) reaches the level; None if none does."""
    starts = sorted(losses)
    for before, after in zip(starts, starts[1:]):
        if losses[before] < level <= losses[after]:
            part = (level - losses[before]) / (losses[after] - losses[before])
            return math.log2(before) + part * math.log2(after / before)
    return None


def half_way(losses):
    """The loss half the way from the plateau to a start of 8."""
    return mean((mean((losses[0.5], losses[1.0])), losses[8.0]))


def edges(losses):
    """The rule's edge and the second one, 0.1 above the plateau: log2 of starts."""
    return crossing(losses, half_way(losses)), crossing(losses, mean((losses[0.5], losses[1.0])) + 0.1)


def student(freedom, probability=0.975):
    """The quantile of Student's t, by the trapezoidal rule and bisection."""
    def below(t, parts=2000):
        density = [(1 + (t * i / parts) ** 2 / freedom) ** (-(freedom + 1) / 2) for i in range(parts + 1)]
        area = t / parts * (sum(density) - (density[0] + density[-1]) / 2)
        return 0.5 + area * math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)

    low, high = 0.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return low


def slope(points):
    """The least-squares slope of (x, y) and half its 95 % interval."""
    x_mean, y_mean = mean(x for x, _ in points), mean(y for _, y in points)
    square = sum((x - x_mean) ** 2 for x, _ in points)
    value = sum((x - x_mean) * (y - y_mean) for x, y in points) / square
    residual = sum((y - y_mean - value * (x - x_mean)) ** 2 for x, y in points)
    freedom = len(points) - 2
    return value, student(freedom) * math.sqrt(residual / freedom / square)


def interval(values):
    """The mean of the values and half its 95 % interval."""
    middle = mean(values)
    spread = math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))
    return middle, student(len(values) - 1) * spread


def table(name):
    """Losses by (context, lr), seed and start. A diverged run has the loss of the seed's start of 8."""
    losses = defaultdict(lambda: defaultdict(dict))
    with open(RESULTS / f"{name}.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            at = int(row.get("context", 64)), float(row.get("lr", 3e-3))
            start = round(float(row["start"]), 4)
            losses[at][int(row["seed"])][start] = float(row["val_loss"]) if row["result"] == "finished" else None
    for seeds in losses.values():
        for starts in seeds.values():
            for start, loss in starts.items():
                starts[start] = starts[8.0] if loss is None else loss
    return losses


def show(edge):
    return "   none" if edge is None else f"{2 ** edge:7.2f}"


def verdict():
    losses, found = table("edge"), {}
    print("edge (half the way) and second edge (0.1 above the plateau), as a standard deviation of the scores at the start\n")
    print("context     lr  seed    edge  second  plateau    loss at 8")
    for (context, lr), seeds in sorted(losses.items(), key=lambda item: (-item[0][1], item[0][0])):
        for seed, starts in sorted(seeds.items()):
            edge, second = edges(starts)
            found[context, lr, seed] = edge
            print(f"{context:7} {lr:6} {seed:5} {show(edge)} {show(second)} {mean((starts[0.5], starts[1.0])):8.3f} "
                  f"{starts[8.0]:12.3f}")
    for lr in sorted({lr for _, lr in losses}, reverse=True):
        points = [(math.log2(row_mean(context)), edge) for (context, rate, _), edge in found.items()
                  if rate == lr and edge is not None]
        value, half = slope(points)
        one, none = value - half <= 1 <= value + half, value - half <= 0 <= value + half
        answer = "A, the number of keys" if one and not none else "B, a fixed deviation" if none and not one else "undecided"
        print(f"\nlr {lr}: log edge = {value:.2f} ± {half:.2f} times log r(T), {len(points)} edges: {answer}")
        if not one and not none:
            print("    neither 1 nor 0 is in the interval: the edge moves, and not as r(T)")
        short = [point for point in points if point[0] < math.log2(row_mean(256))]
        print("    contexts of 16 and 64 alone, which the rule does not ask for: {:.2f} ± {:.2f}".format(*slope(short)))
    pairs = [(context, found[context, 1e-3, seed] - edge) for (context, lr, seed), edge in found.items()
             if lr == 3e-3 and context <= 256 and edge is not None and found.get((context, 1e-3, seed)) is not None]
    moved = [octaves for _, octaves in pairs]
    if len(moved) > 1:
        middle, half = interval(moved)
        right = middle > 0.25 and middle - half > 0
        print(f"\nfrom 3e-3 to 1e-3 the edge moves by {middle:.2f} ± {half:.2f} octaves ({len(moved)} pairs): "
              f"C, it follows the rate, is {'right' if right else 'not shown'}")
        for context in sorted({context for context, _ in pairs}):
            print(f"    context {context}: {', '.join(f'{octaves:+.2f}' for at, octaves in pairs if at == context)}")
    started = table("edge_init")
    print("\nlarger W_Q and W_K under √d_k, context 64, against the divisor, octaves:")
    for (context, lr), seeds in sorted(started.items(), reverse=True):
        moved = []
        for seed, starts in sorted(seeds.items()):
            starts[1.0] = losses[context, lr][seed][1.0]
            edge = edges(starts)[0]
            if edge is not None and found.get((context, lr, seed)) is not None:
                moved.append(edge - found[context, lr, seed])
        if len(moved) > 1:
            middle, half = interval(moved)
            print(f"    lr {lr}: {middle:+.2f} ± {half:.2f} ({', '.join(f'{x:+.2f}' for x in moved)})")
    print("\nafter 3000 steps, which the rule does not ask for (edge_long.ini), lr 0.003:")
    for (context, _), seeds in sorted(table("edge_long").items()):
        print(f"    context {context}: {', '.join(show(edges(starts)[0]).strip() for starts in seeds.values())}")


def tried():
    """The comparisons that edge_tried.ini asks for. A diverged run has the loss of its group's start of 8."""
    groups = defaultdict(dict)
    with open(RESULTS / "edge_tried.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            loss = float(row["val_loss"]) if row["result"] == "finished" else None
            groups[row["group"]][round(float(row["start"]), 2), row["seed"]] = loss
    for group in groups.values():
        for key, loss in group.items():
            group[key] = group[8.0, "21"] if loss is None else loss
    same = groups["divisors"]
    for divisor in 32, 300:
        costs = [same[round(8 / divisor, 2), seed] - same[1.0, seed] for seed in ("21", "22")]
        print(f"÷ {divisor} against ÷ 8: {costs[0]:+.3f} and {costs[1]:+.3f}")
    weights, speed = (groups[name][2.83, "21"] for name in ("weights", "speed"))
    print(f"a start of 2.83 by larger W_Q and W_K: {weights:.3f}, by the divisor: {speed:.3f}, {weights - speed:+.3f}")
    print("\nwidth 64, d_k 32, Tiny Shakespeare:  L(1)   L(2.83)   L(8)      h")
    for name in "size", "keys", "rate", "steps":
        one, edge, eight = (groups[name][start, "21"] for start in (1.0, 2.83, 8.0))
        print(f"    {name:31} {one:.3f} {edge:9.3f} {eight:6.3f} {(edge - one) / (eight - one):6.2f}")


if __name__ == "__main__":
    verbs = {"half": half, "verdict": verdict, "tried": tried}
    if sys.argv[1:2] == ["freezing"] and len(sys.argv) == 3:
        freezing(int(sys.argv[2]))
    elif len(sys.argv) == 2 and sys.argv[1] in verbs:
        verbs[sys.argv[1]]()
    else:
        sys.exit(f"usage: lab/study/edge.py freezing ROWS | {' | '.join(verbs)}")
