"""What a query asks about the measurements in lab/docs/results, and what they answer. The grammar is in page.py."""
import configparser
import csv
import io
import math
import os
import shlex
from statistics import mean, median
from typing import NamedTuple

STATISTICS = {"mean": mean, "min": min, "max": max, "median": median}


class Problem(Exception):
    """What is wrong, in one line."""


def short(path):
    return min(str(path), os.path.relpath(path), key=len)


def read(path):
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise Problem(f"{short(path)} cannot be read: {getattr(error, 'strerror', error)}") from error


class Query:
    """The names (what has no "=") are given in this order; minus is None, or (file, filters that replace or extend)."""

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


def plain(value):
    """For comparing: a number if it is one, so that 1e-3 equals 0.001."""
    try:
        return float(value)
    except ValueError:
        return value


class Run(NamedTuple):
    file: str
    name: str
    keys: dict  # what was chosen: swept, or in the config
    measures: dict  # all columns
    result: str

    def key(self, name):
        if name not in self.keys:
            raise Problem(f"{self.file} has no key {name}: it is neither swept nor in lab/study/{self.file}.ini")
        return plain(self.keys[name])

    def number(self, column):
        text = self.measures.get(column)
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


class Sample(NamedTuple):
    values: list  # a value or a difference for each seed
    runs: list
    diverged: int
    is_reference: bool = False  # would be compared with itself


class Results:
    """The CSV files of a folder."""

    def __init__(self, results, configs):
        self.results, self.configs, self.known = results, configs, {}

    def load(self, name):
        path = self.results / f"{name}.csv"
        header, *rows = [row for row in csv.reader(io.StringIO(read(path))) if row] or [[]]
        if len(header) < 2 or any(len(row) != len(header) for row in rows):
            raise Problem(f"{short(path)} has rows that are not complete")
        config = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";", "#"))
        try:
            if (path := self.configs / f"{name}.ini").exists():  # steps_loss.csv has runs of another config
                config.read_string(read(path), path.name)
        except configparser.Error as error:
            raise Problem(" ".join(str(error).split())) from error
        sections = [config[section] for section in config.sections() if section not in ("sweep", "log")]
        fixed = {key: value.strip('"') for section in sections for key, value in section.items()}
        # Keys stand before the result; in what is no run, before the last column. divisor repeats scale_divisor.
        end = header.index("result") if "result" in header else len(header) - 1
        chosen = [key for key in header[:end] if key not in ("run", "divisor")]
        runs = []
        for row in (dict(zip(header, row)) for row in rows):
            keys = {**fixed, **{key: row[key] for key in chosen}}
            runs.append(Run(name, row[header[0]], keys, row, row.get("result", "finished")))
        return runs

    def runs(self, files):
        if files not in self.known:
            runs = [run for name in files.split(",") for run in self.load(name)]
            seen = set()
            for run in runs:
                setting = frozenset((key, plain(value)) for key, value in run.keys.items())
                if setting in seen:
                    raise Problem(f"{files} has {run.name} twice")
                seen.add(setting)
            self.known[files] = runs
        return self.known[files]

    def select(self, files, filters):
        """The runs that match; refuses those that differ in more than the seed: their mean would be of nothing."""
        runs = matching(self.runs(files), filters)
        for run in runs:
            if run.result not in ("finished", "diverged"):
                raise Problem(f'{run.file}: {run.name} has the result "{run.result}"')
        keys = dict.fromkeys(key for run in runs for key in run.keys if key != "seed")
        differ = [key for key in keys if len({plain(run.keys.get(key, "")) for run in runs}) > 1]
        if differ:
            raise Problem(f"ambiguous: the runs of {runs[0].file} that match differ in {', '.join(differ)}")
        return runs

    def settings(self, query, keys):
        """The values of these keys in the query's runs, as filters, in the order in which they are first met."""
        met = {}
        for run in matching(self.runs(query.files), query.filters):
            met.setdefault(tuple(run.key(key) for key in keys), {key: run.keys[key] for key in keys})
        if not met:
            raise Problem(f"no run of {query.files} matches")
        return list(met.values())

    def sample(self, query, column, filters):
        """The column's values in the query's runs that have these values too; their differences if it has a minus."""
        filters = {**query.filters, **filters}
        runs = self.select(query.files, filters)
        pairs = [(run,) for run in runs]
        if query.minus and runs:
            other = {key: value for key, value in {**filters, **query.minus[1]}.items() if value}
            others = self.select(query.minus[0], other)
            if runs == others:
                return Sample([], runs, 0, True)
            first, second = ({run.keys.get("seed", "-"): run for run in side} for side in (runs, others))
            if not (first.keys() <= second.keys() or second.keys() <= first.keys()):
                raise Problem(f"cannot be paired: seeds {', '.join(first)} minus seeds {', '.join(second) or '(none)'}")
            pairs = [(first[seed], second[seed]) for seed in first if seed in second]
        finished = [pair for pair in pairs if all(run.result == "finished" for run in pair)]
        values = [pair[0].number(column) - sum(run.number(column) for run in pair[1:]) for pair in finished]
        return Sample(values, runs, len(pairs) - len(finished))
