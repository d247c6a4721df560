#!/usr/bin/env python3
"""Keeps tables, pictures and figures in sentences the same as what the runs gave.

lab/docs/results/NAME.csv is the summary.csv of the sweep lab/study/NAME.ini, or a smaller table made from its runs.
Comments in results.md, appendix.md and theory.md, which their readers do not see, ask for tables and pictures:
    <!-- table FILE rows=KEY,... [columns=KEY,...] value=COLUMN,... [KEY=VALUE]... [minus ...] [show=KEY] [digits=3] -->
    <!-- end -->
    <!-- picture IMAGE FILE x=KEY [lines=KEY,...] value=COLUMN [KEY=VALUE]... [minus ...] [xscale=log] [yscale=log]
      [levels="FILE KEY=VALUE... KEY COLUMN [minus ...]" [level=WORDS]] [marks="X=WORD..."] [edges=yes] [title="..."] -->
levels draws a level line for each value of KEY: the mean of the column. WORDS stand before its label. marks writes a
word at each of these x. edges draws a star where a line has its edge (edge.py). A line and a band are of all seeds:
their mean, which is the geometric one where yscale=log.

lab/docs/results/figures.txt lists what pages say with figures, so that the pages need no marks:
    == ../../README.md
    √d_k ends at {1.59} and {2} % of its rows are saturated
        best d_k=64 scale_divisor=sqrt_dk val_loss
        best d_k=64 scale_divisor=sqrt_dk saturated_last
"==" names a page, or a part of one: claims.md: What training says. Then come texts that it has once, word for word,
and for each {number} in them a line further in: what it is.
    [mean|min|max|median] FILE [KEY=VALUE]... COLUMN [minus [FILE] [KEY=VALUE]...]
Every decimal number of the page, or of that part, must stand in braces here, except in code, links and made tables.

FILE may be several, joined by commas; KEY=A|B is either of two values. Runs that match may differ in the seed alone.
minus: differences between runs of the same seed; what follows replaces or extends the first half, and KEY= drops a key
from it; one half may have seeds that the other lacks.
"""
import argparse
import re
import sys
from decimal import Decimal
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ beside the configs
from edge import crossing, half_way  # noqa: E402
from runs import STATISTICS, Problem, Query, Results, mean, plain, read, short  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["results.md", "appendix.md", "theory.md"]

# --- Words for readers

DIVISORS = {"sqrt_dk": "√d_k", "2sqrt_dk": "2√d_k", "dk": "d_k", "sqrt_dmodel": "√d_model"}
MEASURES = {
    "val_loss": "validation loss",
    "best_val_loss": "lowest validation loss",
    "train_loss_mean": "training loss",
    "entropy": "entropy",
    "score_std": "deviation of the scores",
    "saturated": "saturated rows",
    "grad_q": "gradient of a query",
    "grad_scores": "gradient of a row of scores",
    "grad_norm_median": "median norm of the gradient",
    "grad_norm_max": "largest norm of the gradient",
    "qk_norm_initial": "norm of W_Q W_Kᵀ, initial",
    "qk_norm_trained": "trained",
    "score_std_initial": "deviation of the scores, initial",
    "score_std_trained": "trained",
    "score_std_initial_qk": "trained with initial W_Q, W_K",
    "score_std_trained_qk": "initial with trained W_Q, W_K",
    "recall_accuracy": "recall: accuracy",
    "previous": "share of queries",
    "step_cost": "time of a step, √d_k's as 1",
    "score_max": "largest score",
}
WHEN = {"first": "at the start", "last": "at the end"}
WAYS = {
    "sqrt_dk": "÷ √d_k",
    "none": "none",
    "sqrt_dmodel": "÷ √d_model",
    "additive": "additive",
    "cosine": "cosine × √d_k",
    "cosine_learned": "cosine, learned multiplier",
    "rms": "q, k by rms, ÷ √d_k",
    "layer": "q, k by LayerNorm, ÷ √d_k",
    "learned": "learned multiplier",
    "ssmax": "scalable softmax",
    "softcap": "none, capped at 10",
    "sink_one": "÷ √d_k, sink of one",
    "sink_learned": "÷ √d_k, learned sink",
    "qk_clip": "none, QK-clip at 20",
    "fp16": "none, in fp16",
    "bf16": "÷ √d_k, in bf16",
}
ORDERS = {"1": "characters", "2": "pairs", "3": "triples", "4": "4-grams"}
AXES = {
    "d_k": "d_k, the width of a head",
    "lr": "learning rate",
    "switch_step": "step of the switch",
    "start": "standard deviation of the scores at the start, √d_k / divisor",
    "x": "standard deviation of the scores over √(2 ln n), n keys",
}


def value_text(key, value):
    if key == "lr" and isinstance(plain(value), float):
        digits, exponent = f"{plain(value):e}".split("e")
        return f"{float(digits):g}e{int(exponent)}"
    if key.startswith("qk_"):
        return f"{plain(value):.3g}"
    return DIVISORS.get(value, value) if key == "scale_divisor" else value


def key_text(key, value):
    if key == "scale_divisor":
        return "none" if value == "none" else f"÷ {value_text(key, value)}"
    if key in ("way", "text", "order"):
        return WAYS.get(value) or ORDERS.get(value, value)
    return f"{key} {value_text(key, value)}"


def setting_text(filters):
    return ", ".join(key_text(key, value) for key, value in filters.items() if value)


def measure_text(query, column):
    base, _, when = column.rpartition("_")
    text = MEASURES.get(column) or (f"{MEASURES[base]} {WHEN[when]}" if base in MEASURES and when in WHEN else column)
    if not query.minus:
        return text
    file, changes = query.minus
    return f"{text}, against {setting_text(changes) or file}"


# --- Tables


def make_table(results, text):
    query = Query(text, ["FILE"], ["rows", "columns", "value", "show", "digits"])
    settings, values = results.settings(query, query.option("rows")), query.option("value")
    if "columns" not in query.options:
        corner, columns = "", [(measure_text(query, value), value, {}) for value in values]
    elif len(values) == 1:
        corner = measure_text(query, values[0])
        columns = [(setting_text(s), values[0], s) for s in results.settings(query, query.option("columns"))]
    else:
        raise Problem("a table has columns= or several columns in value=, not both")
    lines = [[corner, *(title for title, _, _ in columns)]]
    for setting in settings:
        cells = (cell_text(query, results.sample(query, value, {**setting, **more})) for _, value, more in columns)
        lines.append([setting_text(setting), *cells])
    head, *rows = ("| " + " | ".join(line) + " |\n" for line in lines)
    return "".join([head, "|---" * len(lines[0]), "|\n", *rows])


def cell_text(query, sample):
    if sample.is_reference:
        return "-"
    form = f"{'+' if query.minus else ''}.{query.options.get('digits', 3)}f"
    parts = []
    if sample.values:
        parts.append(format(mean(sample.values), form))
        if min(sample.values) < max(sample.values):
            parts.append(f"({min(sample.values):{form}} to {max(sample.values):{form}})")
        if key := query.options.get("show"):
            parts.append(f"at {value_text(key, sample.runs[0].keys[key])}")
    if sample.diverged:
        parts.append(f"({sample.diverged} diverged)")
    return " ".join(parts)


# --- Pictures


def make_lines(results, text):
    """The query of a picture, and its lines: (setting, [(x, sample)])."""
    options = ["x", "lines", "value", "xscale", "yscale", "levels", "level", "marks", "edges", "title"]
    query = Query(text, ["IMAGE", "FILE"], options)
    x, value = (",".join(query.option(name)) for name in ("x", "value"))  # one each
    lines = []
    for setting in results.settings(query, query.option("lines") if "lines" in query.options else []):
        samples = [(at[x], results.sample(query, value, {**setting, **at})) for at in results.settings(query, [x])]
        if not all(isinstance(plain(at), float) for at, _ in samples):
            raise Problem(f"x={x} has values that are not numbers")
        drawn = [(plain(at), sample) for at, sample in samples if sample.values]
        points = sorted(point for point in drawn if point[0] > 0 or query.options.get("xscale") != "log")
        if points:
            lines.append((setting, points))
    if not lines:
        raise Problem(f"{query.given['IMAGE']} has nothing to show")
    return query, lines


def make_levels(results, text, words):
    """What a picture shows as level lines: (label, y, label of the line that it belongs to)."""
    query = Query(text, ["FILE", "KEY", "COLUMN"])
    key, column = query.given["KEY"], query.given["COLUMN"]
    labels = [(key_text(key, at[key]), at) for at in results.settings(query, [key])]
    return [(f"{words} {label}".strip(), mean(results.sample(query, column, at).values), label) for label, at in labels]


def make_marks(text):
    """The words of marks=, each with its x."""
    marks = [mark.split("=") for mark in text.split()]
    if not all(len(mark) == 2 and isinstance(plain(mark[0]), float) for mark in marks):
        raise Problem(f"marks are X=WORD: {text}")
    return [(plain(x), word) for x, word in marks]


def edge_of(points):
    """Where the mean of a line by the start of the scores has its edge: [(x, y)], empty if it has none."""
    means = {x: mean(sample.values) for x, sample in points}
    level = half_way(means)
    edge = crossing(means, level)
    return [] if edge is None else [(2**edge, level)]


def seeds_text(samples, average):
    counts = sorted(len(sample.values) for sample in samples)
    seeds = f"{counts[-1]} seeds" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} seeds"
    text = f"{seeds}: their {average}, in a band from the lowest to the highest" if counts[-1] > 1 else "one seed"
    diverged = sum(sample.diverged for sample in samples)
    return f"{text}; without {diverged} that diverged" if diverged else text


def draw_picture(results, text, images):
    import picture  # needs matplotlib, as nothing else does

    query, lines = make_lines(results, text)
    x, value = query.options["x"], query.options["value"]
    measure = measure_text(query, value)
    unit = " (nats per character)" if "loss" in value else ""
    average = "geometric mean" if query.options.get("yscale") == "log" else "mean"
    images.mkdir(exist_ok=True)
    picture.draw(
        images / Path(query.given["IMAGE"]).name,
        title=query.options.get("title", measure[:1].upper() + measure[1:]),
        subtitle=seeds_text([sample for _, points in lines for _, sample in points], average),
        x_label=AXES.get(x, x),
        y_label=(measure + unit).replace(", against", "\nagainst"),
        scales=[query.options.get(name, "linear") for name in ("xscale", "yscale")],
        x_text=lambda at: value_text(x, f"{at:g}"),
        zero=query.minus is not None,
        levels=(
            make_levels(results, query.options["levels"], query.options.get("level", ""))
            if "levels" in query.options
            else []
        ),
        marks=make_marks(query.options.get("marks", "")),
        stars=[star for _, points in lines for star in edge_of(points)] if "edges" in query.options else [],
        # A divisor has its own style where it is all that a line stands for.
        lines=[
            (
                setting.get("scale_divisor") if len(setting) == 1 else None,
                setting_text(setting),
                [(at, sample.values) for at, sample in points],
            )
            for setting, points in lines
        ],
    )


# --- Pages

INSIDE = r"(?:(?!-->).)*"  # of a comment
MARK = re.compile(
    rf"<!-- table (?P<table>{INSIDE})-->\n(?P<body>(?:(?!<!--).)*)<!-- end -->|<!-- picture (?P<picture>{INSIDE})-->",
    re.DOTALL,
)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def visit(path, action):
    """Puts what action(text, mark) returns, if anything, in place of each mark; the page then, and what is wrong."""
    text, problems = read(path), []
    if text.count("<!-- table ") != text.count("<!-- end -->"):
        problems.append(f"{short(path)}: a table has no line <!-- end --> behind it, or such a line no table")

    def one(mark):
        try:
            return action(text, mark) or mark[0]
        except Problem as problem:
            problems.append(f"{short(path)}:{line_of(text, mark.start())}: {problem}")
            return mark[0]

    return MARK.sub(one, text), problems


def write_tables(path, results, _):
    def action(_, mark):
        return mark["table"] and f"<!-- table {mark['table']}-->\n{make_table(results, mark['table'])}<!-- end -->"

    page, problems = visit(path, action)
    path.write_text(page, encoding="utf-8")
    return problems


def draw_pictures(path, results, images):
    return visit(path, lambda _, mark: mark["picture"] and draw_picture(results, mark["picture"], images))[1]


def check_marks(path, results, images):
    def action(text, mark):
        if mark["table"]:
            if make_table(results, mark["table"]) != mark["body"]:
                raise Problem("the table is not that of the runs: make page")
            return
        image = make_lines(results, mark["picture"])[0].given["IMAGE"]
        if f"]({image})" not in text or not (images / Path(image).name).is_file():
            raise Problem(f"{image} is not shown on this page, or not drawn yet: make page")

    return visit(path, action)[1]


# --- Figures in sentences

DECIMAL = re.compile(
    rf"""^[ ]*(?P<fence>```|~~~).*?^[ ]*(?P=fence)[^\n]*$  # blocks of code
    | (?P<tick>`+)[^`](?:(?!\n\n).)*?(?<!`)(?P=tick)(?!`)   # code in a line
    | \]\([^)]*\) | https?://\S+                          # targets of links
    | {MARK.pattern.replace(" ", "[ ]")} | <!--{INSIDE}-->
    | (?P<number>(?<![\w.])[+\-−]?(?:\d[\d,]*)?\.\d+(?:e[+-]?\d+)?)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


class Section:
    """A page, or the part of it below a heading: what figures.txt says about it, and what of that was found."""

    def __init__(self, docs, name):
        page, _, heading = name.partition(": ")
        self.path = docs / page
        self.text, self.start, self.found = read(self.path), 0, []
        if heading:
            part = re.search(rf"^(#+) {re.escape(heading)}\n.*?(?=^\1 |\Z)", self.text, re.DOTALL | re.MULTILINE)
            if not part:
                raise Problem(f"{short(self.path)} has no heading {heading}")
            self.text, self.start = self.text[: part.end()], part.start()

    def check_text(self, text, queries, results):
        """Whether the page has this text once, and whether its numbers in braces are what the queries say."""
        parts = re.split(r"\{([^}]*)\}", " ".join(text.split()))
        if len(parts) // 2 != len(queries):
            raise Problem(f"{len(parts) // 2} numbers in braces, but {len(queries)} queries: {text}")
        wanted = [re.escape(part).replace(r"\ ", r"\s+") for part in parts]
        wanted[1::2] = [f"({part})" for part in wanted[1::2]]
        places = list(re.compile(rf"(?<!\w){''.join(wanted)}(?!\w)").finditer(self.text, self.start))
        if len(places) != 1:
            raise Problem(f"{short(self.path)} has {len(places)} times: {''.join(parts)}")
        self.found += [places[0].span(i + 1) for i in range(len(queries))]
        for number, query, behind in zip(parts[1::2], queries, parts[2::2]):
            check_figure(results, number, query, behind.startswith(" %"))

    def unlisted(self):
        for mark in DECIMAL.finditer(self.text, self.start):
            if mark["number"] and not any(a <= mark.start("number") and mark.end() <= b for a, b in self.found):
                at = f"{short(self.path)}:{line_of(self.text, mark.start())}"
                yield f"{at}: {mark['number']} is not in figures.txt, which would say where it comes from"


def check_figure(results, number, text, percent):
    query = Query(text, ["FILE", "COLUMN"])
    sample = results.sample(query, query.given["COLUMN"], {})
    if sample.diverged:
        raise Problem(f"{sample.diverged} of these runs diverged: {text}")
    if not sample.values:
        raise Problem(f"no run of {query.files} matches, or only those it is compared with: {text}")
    value = STATISTICS[query.statistic](sample.values) * (100 if percent else 1)
    try:
        quoted = Decimal(number.replace(",", "").replace("−", "-"))
    except ArithmeticError as error:
        raise Problem(f"{number} is not a number") from error
    right = f"{value:.{max(0, -quoted.as_tuple().exponent)}f}"
    if Decimal(right) != quoted:
        raise Problem(f"{number} should be {right} ({value:.7g}): {text}")


def check_figures(path, docs, results):
    """Compares the pages with figures.txt, and that with the runs."""
    sections, entries, problems = [], [], []
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.startswith("== "):
            sections.append(Section(docs, line[3:]))
        elif line.startswith(" "):
            if not entries:
                raise Problem(f"{short(path)}:{number}: no text stands before this query")
            entries[-1][-1].append(line.strip())
        elif line and not line.startswith("#"):
            if not sections:
                raise Problem(f'{short(path)}:{number}: no line "== PAGE" stands before this one')
            entries.append((number, sections[-1], line, []))
    for number, section, text, queries in entries:
        try:
            section.check_text(text, queries, results)
        except Problem as problem:
            problems.append(f"{short(path)}:{number}: {problem}")
    return problems + [problem for section in sections for problem in section.unlisted()]


def main():
    parser = argparse.ArgumentParser(
        description=f"Writes the tables of {', '.join(PAGES)} as the runs of lab/docs/results give them. The top of this "
        "program describes the comments that ask for them."
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing, print what is wrong, also with figures")
    mode.add_argument("--pictures", action="store_true", help="draw the pictures instead (needs matplotlib)")
    for name, default in ("docs", "lab/docs"), ("configs", "lab/study"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", default=ROOT / default, help=f"instead of {default}")
    options = parser.parse_args()
    if options.pictures:
        try:
            import picture  # noqa: F401
        except ImportError as error:
            sys.exit(f"page.py: pictures need matplotlib: pip install matplotlib ({error})")
    work = check_marks if options.check else draw_pictures if options.pictures else write_tables
    docs, problems = options.docs, []
    results = Results(docs / "results", options.configs)
    try:
        for page in PAGES:
            problems += work(docs / page, results, docs / "images")
        if options.check:
            problems += check_figures(docs / "results/figures.txt", docs, results)
    except Problem as problem:
        problems.append(str(problem))
    print("".join(f"{problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
