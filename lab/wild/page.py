#!/usr/bin/env python3
"""Writes the tables of lab/docs/wild.md from the committed CSV files, and compares the figures in its sentences with them.

    lab/wild/page.py            write the parts of the page between <!-- wild NAME --> and <!-- end -->
    lab/wild/page.py --check    exit with status 1 if a part is another, or a figure in a sentence
    lab/wild/page.py --picture  write lab/docs/images/wild.png and trained.png (Matplotlib)

A figure in a sentence is followed by a comment that says which it is: 78 %<!-- = share_sqrt -->. figures() has them all.
"""
import csv
import math
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import trained_page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "lab/docs/wild.md"
RESULTS = ROOT / "lab/docs/results"
YEARS = ("2022 and before", "2023", "2024", "2025", "2026")

# The groups in the order of the page: name, and what it means for a reader.
GROUPS = {
    "sqrt": "1/√d_k",
    "sqrt normed": "1/√d_k, after queries and keys are normalized",
    "nothing": "1: nothing at all",
    "nothing normed": "1, after queries and keys are normalized",
    "constant": "a constant that ignores the head's size",
    "constant normed": "a constant, after queries and keys are normalized",
    "learned": "cosines times a learned number",
    "above": "a factor above 1 beside 1/√d_k",
    "below": "a factor below 1 beside 1/√d_k",
    "d_k": "1/d_k",
    "times root": "√d_k, of queries and keys of length 1",
    "width": "a factor that depends on the width, too",
    "position": "1/√d_k times a factor that grows with the position",
    "other": "something else",
    "one size": "another number, seen at one size of head",
}


def rows_of(name):
    with open(RESULTS / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def moves(row):
    """Tells whether a multiplier changes when positions are moved by 100,000."""
    return bool(row.get("moved")) and abs(float(row["moved"]) - 1) > 2e-3


def group_of(row):
    """Returns the group of an attention."""
    kind, normed = row["kind"], row["normed"] == "yes"
    constant = float(row["constant"])
    if kind == "one size" and abs(constant - 1) < 1e-4:
        kind = "sqrt_dk"  # 1/√d_k at one size; another function that agrees there would be an accident
    if kind in ("other", "times sqrt_dk") and row.get("cap") and abs(constant - 1) < 2e-3:
        kind = "sqrt_dk"  # a cap bends the slope a little
    if kind in ("sqrt_dk", "times sqrt_dk") and abs(constant - 1) < 2e-3 and moves(row):
        return "position"
    if kind == "sqrt_dk":
        return "sqrt normed" if normed else "sqrt"
    if kind in ("nothing", "constant") and normed and row["learned"]:
        return "learned"
    if kind in ("nothing", "constant"):
        return kind + (" normed" if normed else "")
    if kind == "times sqrt_dk":
        return "above" if constant > 1 else "below"
    return {"dk": "d_k", "by sqrt_dk": "times root", "width": "width", "one size": "one size"}.get(kind, "other")


def year_of(row):
    year = row["day"][:4]
    return YEARS[0] if year <= "2022" else year


def architectures():
    """Returns {folder: its rows that were measured}, the youngest first."""
    found = defaultdict(list)
    for row in rows_of("wild.csv"):
        if not row["reason"]:
            found[row["folder"]].append(row)
    return found


def group_of_folder(rows):
    """Returns the group of an architecture: that of its first attention which is not 1/√d_k, if there is one."""
    groups = [group_of(row) for row in rows]
    plain = [group for group in groups if group not in ("sqrt", "sqrt normed")]
    if plain:
        return plain[0]
    return "sqrt normed" if "sqrt normed" in groups else "sqrt"


def moving(rows):
    """Tells whether a multiplier of an architecture grows with the position."""
    return any(map(moves, rows))


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def kinds():
    """The table of groups by year."""
    counts = Counter((group_of_folder(rows), year_of(rows[0])) for rows in architectures().values())
    body = []
    for group, words in GROUPS.items():
        several = [counts[group, year] for year in YEARS]
        if sum(several):
            body.append([words, sum(several), *[one or "" for one in several]])
    return table(["multiplier", "architectures", *YEARS], body)


def exceptions():
    """Every architecture that is not 1/√d_k, by year and group."""
    body = []
    for folder, rows in sorted(architectures().items(), key=lambda item: item[1][0]["day"], reverse=True):
        group = group_of_folder(rows)
        if group in ("sqrt", "sqrt normed"):
            continue
        row = next(row for row in rows if group_of(row) == group)
        second = f", {float(row['multiplier_2']):.4g} at {row['d_k_2']}" if row["multiplier_2"] else ""
        more = [word for word, is_there in (("cap", row["cap"]), ("sink", row["sink"]), ("term of position", row["position"]),
                                            ("learned: " + row["learned"], row["learned"])) if is_there]
        body.append([row["day"][:7] if row["day"] > "2020-12-31" else "to 2020", f"`{folder}`", GROUPS[group],
                     f"{float(row['multiplier']):.4g} at d_k {row['d_k']}{second}", ", ".join(more)])
    return table(["since", "folder", "multiplier", "measured", "besides"], body)


def readings():
    return table(["name", "measured", "what the code says", "verdict"],
                 [[f"`{row['name']}`", row["measured"], row["code"], row["verdict"]] for row in rows_of("wild_read.csv")])


def libraries():
    body = []
    for row in rows_of("wild_libraries.csv"):
        if row["reason"]:
            continue
        group = group_of({**row, "day": ""})
        body.append([row["library"], row["version"], row["field"], row["name"], GROUPS[group],
                     f"{float(row['multiplier']):.4g} at {row['d_k']}, {float(row['multiplier_2']):.4g} at {row['d_k_2']}"])
    return table(["library", "version", "field", "function", "multiplier", "measured at d_k"], body)


# --- The sweep, by the rule in sweep.ini

def mean(values):
    return sum(values) / len(values)


def sweep():
    """Returns {kind: (rate, losses by seed, first deviation, last deviation, edge)} at each kind's best rate."""
    found = {}
    rows = rows_of("wild_sweep.csv")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        rates = defaultdict(list)
        for row in rows:
            if row["kind"] == kind:
                rates[row["lr"]].append(row)
        whole = {rate: several for rate, several in rates.items() if all(row["result"] == "finished" for row in several)}
        best = min(whole, key=lambda rate: mean([float(row["val_loss"]) for row in whole[rate]]))
        chosen = whole[best]
        order = sorted(rates, key=float)
        found[kind] = (best, {row["seed"]: float(row["val_loss"]) for row in chosen},
                       mean([float(row["score_std_first"]) for row in chosen]),
                       mean([float(row["score_std_last"]) for row in chosen]), best in (order[0], order[-1]))
    return found


def verdict(kind, found):
    """Returns the mean difference to √d_k and whether it differs, by the rule."""
    losses, base = found[kind][1], found["sqrt_dk"][1]
    differences = [losses[seed] - base[seed] for seed in base]
    same = all(one > 0 for one in differences) or all(one < 0 for one in differences)
    return mean(differences), same and abs(mean(differences)) >= 0.02


def small_model():
    found = sweep()
    body = []
    for kind, (rate, losses, first, last, edge) in sorted(found.items(), key=lambda item: mean(list(item[1][1].values()))):
        difference, differs = verdict(kind, found)
        words = "-" if kind == "sqrt_dk" else "equal" if not differs else "better" if difference < 0 else "worse"
        body.append([f"`{kind}`", rate + (" (an end)" if edge else ""), f"{mean(list(losses.values())):.3f}",
                     "-" if kind == "sqrt_dk" else f"{difference:+.3f}".replace("-", "−"), words, f"{first:.2f}", f"{last:.2f}"])
    return table(["config", "best rate", "validation loss", "less √d_k", "by the rule", "deviation of scores, start", "end"], body)


# --- Guesses

def guessed(part):
    """Returns the guesses that could be judged: [(name, guess, found)]."""
    with open(ROOT / "lab/wild/guesses.csv", encoding="utf-8", newline="") as file:
        guesses = [row for row in csv.DictReader(file) if row["part"] == part]
    judged = []
    if part == "transformers":
        there = architectures()
        for row in guesses:
            if row["name"] in there:
                found = text_group(row["name"], there[row["name"]])
                judged += [(row["name"], row["guess"], found)] if found else []
    else:
        there = {f"{row['library']} {row['name'].rsplit('.', 1)[-1]}": row for row in rows_of("wild_libraries.csv") if not row["reason"]}
        for row in guesses:
            name = row["name"].removeprefix("npm ").replace("jax.nn.", "jax ").replace("torch_geometric", "torch-geometric")
            match = [found for key, found in there.items() if key.startswith(name)]
            if match:
                judged.append((name, row["guess"], group_of({**match[0], "day": ""})))
    return judged


PICTURES = re.compile("vision|visual|audio|image|encoder")


def text_group(folder, rows):
    """Returns the group of the part that guesses are about, the text's or else the only one; None if it has no row."""
    text = [row for row in rows if not PICTURES.search(row["part"] + row["name"])]
    missing = [row for row in rows_of("wild.csv") if row["folder"] == folder and row["reason"] and not PICTURES.search(row["name"])]
    if not text and missing:
        return None
    return group_of_folder(text or rows)


def is_right(guess, found):
    if guess in ("sqrt", "sqrt normed", "nothing", "nothing normed"):
        return guess == found
    if guess == "constant":
        return found.startswith("constant")
    if guess == "width":
        return found == "width"
    return not found.startswith(("sqrt", "nothing", "constant"))


def wrong():
    """The guesses that were wrong."""
    body = []
    for part in ("transformers", "library"):
        body += [[name, guess, found] for name, guess, found in guessed(part) if not is_right(guess, found)]
    return table(["name", "guessed", "measured"], body)


# --- Figures in sentences

def percent(part, whole):
    return f"{100 * part / whole:.0f}"


def figures():
    """Returns {name: the text of a figure}."""
    there = architectures()
    groups = {folder: group_of_folder(rows) for folder, rows in there.items()}
    roots = [folder for folder, group in groups.items() if group.startswith("sqrt")]
    every = rows_of("wild.csv")
    found = {
        "names": len({row["name"] for row in every}), "names_measured": len({row["name"] for row in every if not row["reason"]}),
        "folders": len(there), "attentions": sum(int(row["attentions"]) for rows in there.values() for row in rows),
        "reasons": len({row["name"] for row in every if row["reason"]}),
        "share_sqrt": percent(len(roots), len(there)), "sqrt": len(roots),
        "normed": sum(group == "sqrt normed" for group in groups.values()), "others": len(there) - len(roots),
        "groups": len({group for group in groups.values() if not group.startswith("sqrt")} - {"one size"}),
        "moving": sum(moving(rows) for rows in there.values()),
        "libraries": len({row["library"] for row in rows_of("wild_libraries.csv") if not row["reason"]}),
        "functions": sum(not row["reason"] for row in rows_of("wild_libraries.csv")),
        "read": len(rows_of("wild_read.csv")),
        "refuted": sum(row["verdict"] != "confirmed" for row in rows_of("wild_read.csv")),
        "sdpa": sum(bool(row["sdpa"]) for rows in there.values() for row in rows),
        "sdpa_other": sum(bool(row["sdpa"]) and abs(float(row["sdpa"]) - 1) > 1e-4 for rows in there.values() for row in rows),
        "two_sizes": sum(bool(row["multiplier_2"]) for rows in there.values() for row in rows),
    }
    for year in YEARS:
        of_year = [folder for folder, rows in there.items() if year_of(rows[0]) == year]
        name = year[:4]
        found[f"folders_{name}"] = len(of_year)
        found[f"share_{name}"] = percent(sum(groups[folder].startswith("sqrt") for folder in of_year), max(1, len(of_year)))
        found[f"normed_{name}"] = percent(sum(any(row["normed"] for row in there[folder]) for folder in of_year), max(1, len(of_year)))
    young = list(there)[:60]
    found["young_others"] = sum(not groups[folder].startswith("sqrt") for folder in young)
    for group in GROUPS:
        found["n_" + group.replace(" ", "_")] = sum(one == group for one in groups.values())
    for part in ("transformers", "library"):
        judged = guessed(part)
        found[f"guesses_{part}"] = len(judged)
        found[f"wrong_{part}"] = sum(not is_right(guess, found) for _, guess, found in judged)
    if (RESULTS / "wild_sweep.csv").exists():
        runs = sweep()
        for kind, (_, losses, first, last, _) in runs.items():
            found[f"loss_{kind}"] = f"{mean(list(losses.values())):.2f}"
            found[f"first_{kind}"] = f"{first:.1f}"
            found[f"last_{kind}"] = f"{last:.1f}"
            found[f"less_{kind}"] = f"{verdict(kind, runs)[0]:+.2f}".replace("-", "−")
    return {name: str(value) for name, value in found.items()} | trained_page.figures()


PARTS = {"kinds": kinds, "exceptions": exceptions, "readings": readings, "libraries": libraries, "small_model": small_model,
         "wrong": wrong, **trained_page.PARTS}


def page(text):
    """Returns the page with its parts and figures as the CSV files have them."""
    for name, part in PARTS.items():
        pattern = re.compile(rf"(<!-- wild {name} -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
        if pattern.search(text) and (name != "small_model" or (RESULTS / "wild_sweep.csv").exists()):
            text = pattern.sub(lambda match: match[1] + part() + "\n" + match[2], text)
    values = figures()

    def figure(match):
        if match[2] not in values:
            raise SystemExit(f"wild.md: no figure is named {match[2]}")
        return values[match[2]] + match[1] + f"<!-- = {match[2]} -->"
    return re.sub(r"[−+]?[\d.,]+( ?%?)<!-- = (\w+) -->", figure, text)


def picture():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    colours = {"sqrt": "#999999", "sqrt normed": "#4477aa"}
    _, axes = plt.subplots(figsize=(9, 5), dpi=120)
    days, labels = Counter(), defaultdict(list)
    for folder, rows in architectures().items():
        group = group_of_folder(rows)
        row = next(one for one in rows if group_of(one) == group or group.startswith("sqrt"))
        year, month = int(row["day"][:4]), int(row["day"][5:7])
        days[row["day"], group] += 1
        count = days[row["day"], group]
        # Dots of a release are spread out: its year's if it stands for a year.
        x = year + (month - 0.5) / 12 + ((count * 0.7549) % 1 - 0.5) * (0.7 if year < 2026 else 0.06)
        d_k = float(row["d_k_2"] or row["d_k"])
        y = float(row["multiplier_2"] or row["multiplier"]) * math.sqrt(d_k)
        if group in ("times root", "learned"):
            y /= d_k  # entries of vectors of length 1 have a variance of 1/d_k
        common = group in colours
        axes.plot(x, y * (1 + ((count * 0.5698) % 1 - 0.5) * 0.25 * common), "o", color=colours.get(group, "#cc3311"),
                  markersize=4 if common else 6, alpha=0.5 if common else 0.9, markeredgewidth=0)
        if not common and not (y == 8 and year > 2022):
            labels[round(3 * math.log2(y)), (year + 1) // 2].append((x, y, folder))
    for near in labels.values():  # those that lie together have one label
        x, y, _ = min(near)
        names = [folder for _, _, folder in sorted(near)]
        axes.annotate(", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else ""), (x, y), fontsize=6,
                      xytext=(-5 if x > 2026.5 else 5, 3), ha="right" if x > 2026.5 else "left", textcoords="offset points")
    axes.annotate("no division: T5 and its kin, Granites, Dia; Gemma 4, normalized", (2024.6, 8), fontsize=6, xytext=(0, 6), textcoords="offset points")
    axes.set_yscale("log", base=2)
    axes.set_xlabel("first release of transformers that has it (2020: or before)")
    axes.set_ylabel("deviation of the scores, if entries have variance 1")
    for colour, words in (("#999999", "1/√d_k"), ("#4477aa", "1/√d_k, queries and keys normalized"), ("#cc3311", "others")):
        axes.plot([], [], "o", color=colour, label=words)
    axes.legend(loc="lower left", fontsize=8)
    axes.grid(alpha=0.3)
    plt.tight_layout()
    plt.savefig(ROOT / "lab/docs/images/wild.png")


def main():
    if "--picture" in sys.argv:
        picture()
        trained_page.picture()
        return
    text = PAGE.read_text(encoding="utf-8")
    made = page(text)
    if "--check" in sys.argv:
        if made != text:
            for number, (old, new) in enumerate(zip(text.splitlines(), made.splitlines()), 1):
                if old != new:
                    raise SystemExit(f"lab/docs/wild.md:{number}: should be: {new}")
            raise SystemExit("lab/docs/wild.md: a part has another number of lines")
        return
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
