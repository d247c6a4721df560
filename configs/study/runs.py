"""What a query asks about the runs of docs/results, and what they answer. The grammar is in page.py."""
import configparser
import csv
import io
import math
import os
import shlex
from statistics import mean, median
from typing import NamedTuple

STATISTICS = {"mean": mean, "min": min, "max": max, "median": median, "count": len}


class Problem(Exception):
    """What is wrong, in one line."""


def short(path):
    return min(str(path), os.path.relpath(path), key=len)


def read(path):
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise Problem(f"{short(path)} cannot be read: {getattr(error, 'strerror', error)}") from error


# --- Queries: what a comment asks for


class Query:
    """The names (what has no "=") are given in this order; minus is None, or (file or None, filters)."""

    def __init__(self, text, names, options=()):
        self.options, sides = {}, [([], {})]
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Problem(f"{text.strip()}: {error}") from error
        for word in words:
            key, equals, value = word.partition("=")
            if word == "minus" and len(sides) == 1:
                sides.append(([], {}))
            elif not equals:
                sides[-1][0].append(word)
            elif key in self.options or key in sides[-1][1]:
                raise Problem(f"{key}= is there twice")
            else:
                (self.options if key in options else sides[-1][1])[key] = value
        given, self.filters = sides[0]
        self.statistic = given.pop(0) if "COLUMN" in names and given[:1] and given[0] in STATISTICS else "mean"
        if self.statistic == "count" and len(given) == 1:
            given.append("")
        files, changes = sides[-1]
        if len(given) != len(names) or (len(sides) == 2 and len(files) > 1):
            raise Problem(f'expected {" ".join(names)} without =, and at most a FILE behind minus: {" ".join(words)}')
        self.given = dict(zip(names, given))
        self.files = self.given["FILE"]
        self.minus = (files[0] if files else self.files, changes) if len(sides) == 2 else None

    def option(self, name):
        if not self.options.get(name):
            raise Problem(f"{name}= is missing")
        return self.options[name].split(",")


# --- Runs


def plain(value):
    """For comparing: a number if it is one, so that 1e-3 equals 0.001."""
    try:
        return float(value)
    except ValueError:
        return value


class Run(NamedTuple):
    file: str
    name: str
    keys: dict  # swept or in the config, under their short names; and "result"
    measures: dict

    def key(self, name):
        if name not in self.keys:
            raise Problem(f"{self.file} has no key {name}: it is neither swept nor in configs/study/{self.file}.ini")
        return plain(self.keys[name])

    def number(self, column):
        text = self.measures.get(column, self.keys.get(column))
        if text is None:
            raise Problem(f"{self.file} has no column {column}")
        if not isinstance(plain(text), float) or not math.isfinite(plain(text)):
            raise Problem(f'{self.file}: {column} of {self.name} is "{text}", not a number')
        return plain(text)


def matching(runs, filters):
    # A list inside all(): a key that a run lacks is an error even where another filter has excluded the run.
    return [
        run for run in runs if all([run.key(key) in map(plain, value.split("|")) for key, value in filters.items()])
    ]


def ended(runs):
    for run in runs:
        if run.keys["result"] not in ("finished", "diverged"):
            raise Problem(f'{run.file}: {run.name} has the result "{run.keys["result"]}"')
    return runs


def one_setting(runs):
    """Refuses runs that differ in more than the seed: their mean would be of nothing in particular."""
    keys = dict.fromkeys(key for run in runs for key in run.keys if key not in ("seed", "result"))
    differ = [key for key in keys if len({plain(run.keys.get(key, "")) for run in runs}) > 1]
    if differ:
        raise Problem(f"ambiguous: the runs of {runs[0].file} that match differ in {', '.join(differ)}")
    return runs


def words(filters):
    return " ".join(f"{key}={value}" for key, value in filters.items()) or "any values"


def split_rate(filters):
    """The filters that a run can answer by itself, and FILE of lr=best:FILE."""
    rates = filters.get("lr", "").partition("best:")[2]
    return {key: value for key, value in filters.items() if key != "result" and not (rates and key == "lr")}, rates


class Sample(NamedTuple):
    values: list  # a value or a difference for each seed
    runs: list
    diverged: int
    is_reference: bool = False  # would be compared with itself


class Results:
    """The CSV files of a folder."""

    def __init__(self, results, configs):
        self.results, self.configs, self.known = results, configs, {}

    def rows(self, name):
        path = self.results / f"{name}.csv"
        header, *rows = [row for row in csv.reader(io.StringIO(read(path))) if row] or [[]]
        if ("result" not in header and header[:2] != ["figure", "value"]) or any(len(r) != len(header) for r in rows):
            raise Problem(f"{short(path)} is no complete summary.csv, nor a table of figure,value")
        return header, rows

    def load(self, name):
        header, rows = self.rows(name)
        if header[0] == "figure":
            raise Problem(f"{name} has no runs: ask for {name} figure=NAME")
        config = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";", "#"))
        try:
            if (path := self.configs / f"{name}.ini").exists():  # weights.csv is of the runs of another config
                config.read_string(read(path), path.name)
        except configparser.Error as error:
            raise Problem(" ".join(str(error).split())) from error
        sections = [config[section] for section in config.sections() if section not in ("sweep", "log")]
        fixed = {key: value.strip('"') for section in sections for key, value in section.items()}
        end = header.index("result")  # behind the swept keys and, in newer files, the divisor
        swept = {key.rpartition(".")[2]: i for i, key in enumerate(header[:end]) if i > 0 and key != "divisor"}
        return [
            Run(
                name,
                row[0],
                {**fixed, **{key: row[i] for key, i in swept.items()}, "result": row[end]},
                dict(zip(header, row)),
            )
            for row in rows
        ]

    def runs(self, files):
        if files not in self.known:
            runs = [run for name in files.split(",") for run in self.load(name)]
            seen = set()
            for run in runs:
                setting = frozenset((key, plain(value)) for key, value in run.keys.items() if key != "result")
                if setting in seen:
                    raise Problem(f"{files} has {run.name} twice")
                seen.add(setting)
            self.known[files] = runs
        return self.known[files]

    def best_rate(self, rates, filters):
        """A rate at which a run diverged is never the best."""
        groups = {}
        for run in self.runs(rates):
            if matching([run], {key: value for key, value in filters.items() if key in run.keys and key != "seed"}):
                groups.setdefault(run.key("lr"), []).append(run)
        losses = {
            rate: mean(run.number("val_loss") for run in runs)
            for rate, runs in groups.items()
            if all(run.keys["result"] == "finished" for run in one_setting(ended(runs)))
        }
        if not losses:
            raise Problem(f"{rates} has no rate whose runs finished, with {words(filters)}")
        return min(losses, key=losses.get)

    def select(self, files, filters):
        simple, rates = split_rate(filters)
        runs = matching(self.runs(files), simple)
        if runs and rates:
            rate = self.best_rate(rates, simple)
            runs = matching(runs, {"lr": repr(rate)})
            if not runs:
                raise Problem(f"{files} has no run with {words(simple)} at lr={rate:g}, the best of {rates}")
        return matching(ended(runs), {"result": filters["result"]} if "result" in filters else {})

    def settings(self, query, keys):
        """The values of these keys in the query's runs, as filters, in the order in which they are first met."""
        met = {}
        for run in matching(self.runs(query.files), split_rate(query.filters)[0]):
            met.setdefault(tuple(run.key(key) for key in keys), {key: run.keys[key] for key in keys})
        if not met:
            raise Problem(f"no run of {query.files} matches")
        return list(met.values())

    def sample(self, query, column, filters):
        """The column's values in the query's runs that have these values too; their differences if it has a minus."""
        filters = {**query.filters, **filters}
        runs = one_setting(self.select(query.files, filters))
        pairs = [(run,) for run in runs]
        if query.minus and runs:
            other = {key: value for key, value in {**filters, **query.minus[1]}.items() if value}
            others = one_setting(self.select(query.minus[0], other))
            if runs == others:
                return Sample([], runs, 0, True)
            first, second = ({run.keys.get("seed", "-"): run for run in side} for side in (runs, others))
            if not (first.keys() <= second.keys() or second.keys() <= first.keys()):
                raise Problem(f"cannot be paired: seeds {', '.join(first)} minus seeds {', '.join(second) or '(none)'}")
            pairs = [(first[seed], second[seed]) for seed in first if seed in second]
        finished = [pair for pair in pairs if all(run.keys["result"] == "finished" for run in pair)]
        values = [pair[0].number(column) - sum(run.number(column) for run in pair[1:]) for pair in finished]
        return Sample(values, runs, len(pairs) - len(finished))
