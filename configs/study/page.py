#!/usr/bin/env python3
"""Keeps the tables, pictures and quoted figures of docs/results.md the same as what the runs gave.

docs/results/NAME.csv is the summary.csv of the sweep configs/study/NAME.ini. Comments in a page, which its readers do
not see, say what comes from where. runs.py answers what they ask.

A figure, its comment directly behind the number (and " %" directly behind that for a percentage):
    0.62<!-- best d_k=64 scale_divisor=none val_loss minus scale_divisor=sqrt_dk -->
    <!-- [mean|min|max|median|count] FILE [KEY=VALUE]... COLUMN [minus [FILE] [KEY=VALUE]...] -->
  KEY=A|B is either of two values.
  The runs with these values may differ in the seed alone. minus: differences between runs of the same seed; what
  follows replaces or extends the first half, and KEY= drops a key from it; one half may have seeds that the other lacks. result=finished leaves out runs that diverged. count needs no COLUMN and
  counts any runs. In a file with the columns figure,value: FILE figure=NAME.
A table, between its comment and <!-- end -->:
    <!-- table best rows=d_k columns=scale_divisor value=val_loss lr=best:rates show=lr -->
    <!-- table FILE rows=KEY,... [columns=KEY,...] value=COLUMN,... [KEY=VALUE]... [minus ...] [show=KEY] [digits=3] -->
A picture, above the line that shows it:
    <!-- picture IMAGE FILE x=KEY [lines=KEY,...] value=COLUMN [KEY=VALUE]... [minus ...] [xscale=log] [title="..."] -->
What another page quotes without comments of its own, a list in the section that begins with this comment:
    <!-- quoted by ../README.md -->
    - costs 0.73<!-- best d_k=64 scale_divisor=none val_loss minus scale_divisor=sqrt_dk --> nats
  The other page has each of these texts once, and no decimal number outside of them, except in code.

FILE may be several, joined by commas. lr=best:FILE is the learning rate with the lowest mean val_loss in FILE, among
the runs there that agree with whatever else is asked for. results.md is read as a whole, any other page only between
lines <!-- figures --> and <!-- figures end -->. There every decimal number needs its comment, except in code and in
sections whose heading is followed by <!-- measured by COMMAND -->, which another test checks.
"""
import argparse
import re
import sys
from decimal import Decimal
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ beside the configs
from runs import STATISTICS, Problem, Query, Results, mean, plain, read, short  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["docs/results.md", "docs/claims.md"]

# --- Words for readers

DIVISORS = {"sqrt_dk": "√d_k", "2sqrt_dk": "2√d_k", "dk": "d_k", "sqrt_dmodel": "√d_model"}
MEASURES = {
    "val_loss": "validation loss",
    "train_loss": "training loss",
    "train_loss_mean": "training loss over the last tenth",
    "best_val_loss": "lowest validation loss",
    "best_step": "step of the lowest validation loss",
    "entropy": "entropy",
    "score_std": "standard deviation of the scores",
    "saturated": "share of saturated rows",
    "grad_q": "gradient of a query",
    "grad_scores": "gradient of a row of scores",
    "qk_norm": "norm of W_Q times norm of W_K",
    "grad_norm_median": "median norm of the gradient",
    "grad_norm_max": "largest norm of the gradient",
    "train_loss_mean": "training loss",
    "qk_norm_initial": "norm of W_Q W_Kᵀ, initial",
    "qk_norm_trained": "trained",
    "score_std_initial": "standard deviation of the scores, initial",
    "score_std_trained": "trained",
    "score_std_initial_qk": "trained with initial W_Q, W_K",
    "score_std_trained_qk": "initial with trained W_Q, W_K",
    "grad_norm_max": "largest norm of the gradient",
    "recall_loss": "recall: validation loss",
    "recall_accuracy": "recall: accuracy",
    "step_cost": "time of a step, √d_k's as 1",
    "score_max": "largest score",
    "overflows": "overflows",
    "infinities": "infinite scores",
    "subnormals": "subnormals",
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
AXES = {"d_k": "d_k, the width of a head", "lr": "learning rate", "steps": "steps of training"}


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
    if key == "way":
        return WAYS.get(value, value)
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


# --- Figures


def check_figure(results, number, text, percent):
    if "figure=" in text:
        query = Query(text, ["FILE"])
        header, rows = results.rows(query.files)
        stored = [row[1] for row in rows if header[0] == "figure" and row[0] == query.filters.get("figure")]
        if stored != [number]:
            raise Problem(f"{number} is {', '.join(stored) or 'not there'} in {query.files}")
        return
    query = Query(text, ["FILE", "COLUMN"])
    if query.statistic == "count" and not query.minus:
        value = len(results.select(query.files, query.filters))
    else:
        sample = results.sample(query, query.given["COLUMN"], {})
        if sample.diverged:
            raise Problem(f"{sample.diverged} of these runs diverged (result=finished would leave them out)")
        if not sample.values:
            raise Problem(f"no run of {query.files} matches, or only those it is compared with")
        value = STATISTICS[query.statistic](sample.values) * (100 if percent else 1)
    quoted = Decimal(number.replace(",", "").replace("−", "-"))
    right = f"{value:.{max(0, -quoted.as_tuple().exponent)}f}"
    if Decimal(right) != quoted:
        raise Problem(f"{number} should be {right} ({value:.7g}): {' '.join(text.split())}")


# --- Tables


def make_table(results, text):
    query = Query(text, ["FILE"], ["rows", "columns", "value", "show", "digits"])
    settings, values = results.settings(query, query.option("rows")), query.option("value")
    if not query.options.setdefault("digits", "3").isdecimal():
        raise Problem(f"digits={query.options['digits']} is not a number of digits")
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
    form = f"{'+' if query.minus else ''}.{query.options['digits']}f"
    parts = []
    if sample.values:
        parts.append(format(mean(sample.values), form))
        if min(sample.values) < max(sample.values):
            parts.append(f"({min(sample.values):{form}} to {max(sample.values):{form}})")
        if "show" in query.options:
            key = query.options["show"]
            sample.runs[0].key(key)
            parts.append(f"at {value_text(key, sample.runs[0].keys[key])}")
    if sample.diverged:
        parts.append(f"({sample.diverged} diverged)")
    return " ".join(parts)


# --- Pictures


def make_lines(results, text):
    """The query of a picture, and its lines: (setting, [(x, sample)])."""
    query = Query(text, ["IMAGE", "FILE"], ["x", "lines", "value", "xscale", "title"])
    x, value = (",".join(query.option(name)) for name in ("x", "value"))  # one each
    if query.options.setdefault("xscale", "linear") not in ("linear", "log"):
        raise Problem(f"xscale={query.options['xscale']} is neither log nor linear")
    lines = []
    for setting in results.settings(query, query.option("lines") if "lines" in query.options else []):
        samples = [(at[x], results.sample(query, value, {**setting, **at})) for at in results.settings(query, [x])]
        if not all(isinstance(plain(at), float) for at, _ in samples):
            raise Problem(f"x={x} has values that are not numbers")
        points = sorted((plain(at), sample) for at, sample in samples if sample.values)
        if points:
            lines.append((setting, points))
    return query, lines


def divisor_of(setting):
    """A divisor has its own style where it is all that a line stands for."""
    return setting.get("scale_divisor") if len(setting) == 1 else None


def seeds_text(samples):
    counts = sorted(len(sample.values) for sample in samples)
    seeds = f"{counts[-1]} seeds" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} seeds"
    text = f"{seeds}: their mean, in a band from the lowest to the highest" if counts[-1] > 1 else "one seed"
    diverged = sum(sample.diverged for sample in samples)
    return f"{text}; without {diverged} that diverged" if diverged else text


def draw_picture(results, text, images):
    import picture  # needs matplotlib, as nothing else does

    query, lines = make_lines(results, text)
    if not lines:
        raise Problem(f"{query.given['IMAGE']} has nothing to show")
    x, value = query.options["x"], query.options["value"]
    measure = measure_text(query, value)
    unit = " (nats per character)" if "loss" in value else ""
    picture.draw(
        images / Path(query.given["IMAGE"]).name,
        title=query.options.get("title", measure[:1].upper() + measure[1:]),
        subtitle=seeds_text([sample for _, points in lines for _, sample in points]),
        x_label=AXES.get(x, x),
        y_label=(measure + unit).replace(", against", "\nagainst"),
        x_scale=query.options["xscale"],
        x_text=lambda at: value_text(x, f"{at:g}"),
        zero=query.minus is not None,
        lines=[
            (divisor_of(setting), setting_text(setting), [(at, sample.values) for at, sample in points])
            for setting, points in lines
        ],
    )


# --- Pages

NUMBER = r"(?:(?<![\w>])[+\-−])?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
INSIDE = r"(?:(?!-->).)*"  # of a comment
MARK = re.compile(
    rf"""^[ ]*(?P<fence>```|~~~).*?^[ ]*(?P=fence)[^\n]*$  # blocks of code
    | (?P<tick>`+)[^`](?:(?!\n\n).)*?(?<!`)(?P=tick)(?!`)   # code in a line
    | \]\([^)]*\) | https?://\S+                          # targets of links
    | ^(?P<heading>\#+)[ ](?=[^\n]*\n+(?P<exempt><!--[ ]measured[ ]by[ ])?)
    | <!--\s*table\s(?P<table>{INSIDE})-->(?:\n(?P<body>(?:(?!<!--).)*)<!--[ ]end[ ]-->)?
    | <!--\s*picture\s(?P<picture>{INSIDE})-->
    | <!--(?P<comment>{INSIDE})-->
    | (?P<number>{NUMBER})(?:<!--(?P<figure>{INSIDE})-->(?P<percent>[ ]%)?)?""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def parts(path, text):
    """Where in a page the marks are: all of results.md, and what is between lines <!-- figures --> of others."""
    if path.name == "results.md":
        return [(0, len(text))]
    found = [match.span() for match in re.finditer(r"^<!-- figures -->$.*?^<!-- figures end -->$", text, re.S | re.M)]
    if not found or len(found) != len(re.findall(r"^<!-- figures", text, re.M)) / 2:
        raise Problem("needs lines <!-- figures --> and <!-- figures end -->, in pairs")
    return found


def visit(path, text, action):
    """Calls action(mark, exempt) for every mark of a page, and returns what is wrong, a line each."""
    problems, exempt = [], False
    for start, end in parts(path, text):
        for mark in MARK.finditer(text, start, end):
            if mark["heading"]:
                exempt = mark["exempt"] is not None
            try:
                action(mark, exempt)
            except Problem as problem:
                problems.append(f"{short(path)}:{text.count(chr(10), 0, mark.start()) + 1}: {problem}")
    return problems


def table_of(results, mark):
    if mark["body"] is None:
        raise Problem("the table has no line <!-- end --> behind it")
    return make_table(results, mark["table"])


def write_tables(path, text, results, _):
    pieces, at = [], 0

    def action(mark, _):
        nonlocal at
        if mark["table"] is not None:
            table = table_of(results, mark)
            pieces.extend([text[at : mark.start("body")], table])
            at = mark.end("body")

    problems = visit(path, text, action)
    path.write_text("".join([*pieces, text[at:]]), encoding="utf-8")
    return problems


def draw_pictures(path, text, results, images):
    return visit(path, text, lambda mark, _: mark["picture"] and draw_picture(results, mark["picture"], images))


def check(path, text, results, images):
    def action(mark, exempt):
        if mark["table"] is not None:
            if table_of(results, mark) != mark["body"]:
                raise Problem("the table is not that of the runs: make page")
        elif mark["picture"] is not None:
            image = make_lines(results, mark["picture"])[0].given["IMAGE"]
            if f"]({image})" not in text or not (images / Path(image).name).is_file():
                raise Problem(f"{image} is not shown on this page, or not drawn yet: make page")
        elif mark["figure"] is not None:
            check_figure(results, mark["number"], mark["figure"], mark["percent"])
        elif mark["number"] is not None:
            if "." in mark["number"] and not exempt:
                raise Problem(f"{mark['number']} has no comment behind it that says where it comes from")
        elif mark["comment"] is not None:
            words = mark["comment"].split()
            is_part = words in (["figures"], ["figures", "end"])
            is_list = words[:2] == ["quoted", "by"] and len(words) == 3
            is_source = words[:2] == ["measured", "by"] and exempt
            if not (is_part or is_list or is_source):
                raise Problem(f"<!--{mark['comment']}--> belongs to nothing: no number directly before it, no table")

    return visit(path, text, action) + check_quotes(path, text)


def check_quotes(path, text):
    """Whether the pages named by "quoted by" have what those sections list, and no decimal number that they do not."""
    problems = []
    for section in re.finditer(r"^<!-- quoted by (\S+) -->$(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE):
        other = path.parent / section[1]
        page, listed = read(other), []
        for item in re.finditer(r"^- (.*?)(?=^- |^$|\Z)", section[2], re.DOTALL | re.MULTILINE):
            words = re.sub("<!--.*?-->", "", item[1], flags=re.DOTALL).split()
            wanted = r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)"
            places = [match.span() for match in re.finditer(wanted, page)]
            if len(places) != 1:
                line = text.count("\n", 0, section.start(2) + item.start()) + 1
                problems.append(f'{short(path)}:{line}: {short(other)} has {len(places)} times: {" ".join(words)}')
            listed += places
        for mark in MARK.finditer(page):
            number = mark["number"]
            if number and "." in number and not any(a <= mark.start() and mark.end() <= b for a, b in listed):
                line = page.count("\n", 0, mark.start()) + 1
                problems.append(f"{short(other)}:{line}: {number} is not among what {short(path)} lists as quoted here")
    return problems


def main():
    parser = argparse.ArgumentParser(
        description=f"Writes the tables of {', '.join(PAGES)} as the runs of docs/results give them. The top of this "
        "program describes the comments that ask for them."
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing, print what is wrong")
    mode.add_argument("--pictures", action="store_true", help="draw the pictures instead (needs matplotlib)")
    parser.add_argument("--page", type=Path, metavar="FILE", action="append", help="a page instead of these")
    for name, default in ("results", "docs/results"), ("configs", "configs/study"), ("images", "docs/images"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", default=ROOT / default, help=f"instead of {default}")
    options = parser.parse_args()
    if options.pictures:
        try:
            import picture  # noqa: F401
        except ImportError as error:
            sys.exit(f"page.py: pictures need matplotlib: pip install matplotlib ({error})")
    work = check if options.check else draw_pictures if options.pictures else write_tables
    results, problems = Results(options.results, options.configs), []
    for path in options.page or [ROOT / page for page in PAGES]:
        try:
            problems += work(path, read(path), results, options.images)
        except Problem as problem:
            problems.append(f"{short(path)}: {problem}")
    print("".join(f"{problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
