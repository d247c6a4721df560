#!/usr/bin/env python3
"""Measures what every architecture in transformers multiplies its attention scores by, and writes a table.

    pip install -r lab/wild/requirements.txt
    python3 lab/wild/architectures.py OUT.csv [NAME...]

Goes through the names of transformers' table of models, or through those given: first those of the youngest folders
(ages.csv), then language models, then the others, in each part the younger ones first.
Each is built small (build.py) in two sizes of head and measured black box (probe.py), in eager attention and in sdpa,
and once more with its positions moved by 100,000. Each runs in a process of its own with a limit of time. A row is what
attentions of a model have in common; a name that was not measured has a row with the reason. Names that OUT.csv has are
not measured again, so that the command can be stopped and started.
"""
import csv
import math
import os
import re
import resource
import signal
import sys
import warnings
from pathlib import Path

from kinds import kind_of

HERE = Path(__file__).parent
COLUMNS = ["name", "folder", "release", "day", "class", "part", "attentions", "d_k", "multiplier", "width", "d_k_2", "multiplier_2",
           "width_2", "kind", "constant", "vectors", "normed", "learned", "cap", "sink", "position", "spread", "growth", "moved",
           "sdpa", "way", "reason"]
SECONDS = 60
YOUNG = 60
MOVE = 100_000
MOST_SPREAD = 0.01


def without_folders(text):
    """Returns a reason in one line that fits the table, without this machine's folders."""
    return re.sub(r"/\S*/", "", " ".join(str(text).split()))[:200]


def short(path):
    """Returns the path of a module with its numbers replaced, so that layers of one kind have one name."""
    return re.sub(r"\d+", "*", path)


def run(model, given, move=0):
    """Returns the attentions of a pass."""
    import torch
    from probe import Watch
    watch = Watch(model)
    given = dict(given)
    if move:
        given["position_ids"] = torch.arange(given["input_ids"].shape[1])[None].expand(2, -1) + move
    with watch.on():
        model(**given)
    return watch


def first_that_runs(name, size, attention):
    """Returns the model, its way, its input and what was seen; or the last reason why there is none."""
    import build
    reasons = []
    best = None
    for way, model in build.make(name, size, attention):
        if isinstance(model, Exception):
            reasons.append(f"cannot be built: {type(model).__name__}: {model}")
            continue
        for given in build.inputs(model):
            try:
                watch = run(model, given)
            except Exception as error:  # the reason that the table has
                reasons.append(f"does not run: {type(error).__name__}: {error}")
                continue
            if watch.seen:
                return (way, model, given, watch), reasons
            best = best or "no product of two vectors in a softmax" + (": " + watch.others[0] if watch.others else "")
        if best:
            break
        if not list(build.inputs(model)):
            reasons.append("no input is known for " + ", ".join(list(build.inspect.signature(model.forward).parameters)[:4]))
    return None, [best] if best else reasons


def group(watch):
    """Returns the attentions by what they have in common: {(part, multiplier to 5 digits, ...): [Seen]}."""
    groups = {}
    for seen in watch.seen:
        groups.setdefault((short(seen.path), seen.module, seen.sources, float(f"{seen.multiplier:.5g}"), seen.cap, seen.sink,
                           seen.position, seen.learned), []).append(seen)
    return groups


def by_path(watch):
    """Returns {(path, number of the attention there): Seen}."""
    found = {}
    for seen in watch.seen:
        number = sum(1 for path, _ in found if path == seen.path)
        found[seen.path, number] = seen
    return found


def measure(name):
    """Returns the rows of a name."""
    import build
    one, reasons = first_that_runs(name, build.SIZES[0], "eager")
    if one is None:
        one, more = first_that_runs(name, build.SIZES[0], "sdpa")
        reasons = reasons or more
        if one is None:
            return [{"reason": without_folders(reasons[0] if reasons else "no class of a model")}]
    way, model, given, watch = one
    two, _ = first_that_runs(name, build.SIZES[1], "eager")
    if two is not None and two[0] != way:
        two = None
    fused, _ = first_that_runs(name, build.SIZES[0], "sdpa")
    moved = None
    if "input_ids" in given and "position_ids" in build.inspect.signature(model.forward).parameters:
        try:
            moved = by_path(run(model, given, MOVE))
        except Exception:  # a table of positions ends before
            moved = None
    here, there = by_path(watch), by_path(two[3]) if two else {}
    other = by_path(fused[3]) if fused and fused[0] == way else {}
    keys = {id(seen): key for key, seen in here.items()}
    rows = []
    for (part, module, sources, _, cap, sink, position, learned), members in group(watch).items():
        seen = members[0]
        if seen.spread > MOST_SPREAD:
            continue
        key = keys[id(seen)]
        match = there.get(key)
        far = moved.get(key) if moved else None
        sdpa = other.get(key)
        width, width2 = build.head_widths(model), build.head_widths(two[1]) if two else math.nan
        kind, constant = kind_of((seen.d_k, seen.multiplier, width), (match.d_k, match.multiplier, width2)) if match else \
            ("one size", seen.multiplier * math.sqrt(seen.d_k))
        rows.append({
            "class": type(model).__name__, "part": part or module, "attentions": len(members), "d_k": seen.d_k,
            "multiplier": f"{seen.multiplier:.6g}", "width": width, "d_k_2": match.d_k if match else "",
            "multiplier_2": f"{match.multiplier:.6g}" if match else "", "width_2": width2 if match else "", "kind": kind,
            "constant": f"{constant:.6g}", "vectors": sources,
            "normed": "yes" if re.search("norm", sources.replace("BatchNorm", ""), re.IGNORECASE) else "", "learned": learned, "cap": cap,
            "sink": sink, "position": position, "spread": f"{seen.spread:.1e}",
            "growth": "" if math.isnan(seen.growth) else f"{seen.growth:.5g}",
            "moved": f"{far.multiplier / seen.multiplier:.5g}" if far else "",
            "sdpa": f"{sdpa.multiplier / seen.multiplier:.5g}" if sdpa else "", "way": way, "reason": ""})
    return rows or [{"reason": "the second derivative is no multiple of a rotation"}]


def child(name, pipe):
    """Measures a name in this process, and writes its rows."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    signal.alarm(SECONDS)
    try:
        rows = measure(name)
    except BaseException as error:  # one architecture must not end the run
        rows = [{"reason": without_folders(f"{type(error).__name__}: {error}")}]
    with os.fdopen(pipe, "w") as out:
        csv.DictWriter(out, COLUMNS, lineterminator="\n").writerows({**{column: "" for column in COLUMNS}, **row} for row in rows)
    os._exit(0)


def measured_apart(name):
    """Returns the rows of a name, measured in a process of its own."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        child(name, write)
    os.close(write)
    with os.fdopen(read) as source:
        rows = list(csv.DictReader(source, COLUMNS))
    _, status = os.waitpid(process, 0)
    if status or not rows:
        ended = f"more than {SECONDS} seconds" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "ended"
        rows = [{**{column: "" for column in COLUMNS}, "reason": ended}]
    return rows


def main():
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    sys.path.insert(0, str(HERE))
    import torch
    torch.set_num_threads(1)
    import build
    out = Path(sys.argv[1])
    ages = {row["folder"]: row for row in csv.DictReader(open(HERE / "ages.csv"))}
    table = list(dict.fromkeys(build.CONFIG_MAPPING_NAMES))
    unknown = {"release": "", "day": ""}
    table.sort(key=lambda name: ages.get(build.folder(name), unknown)["day"], reverse=True)
    young = set(list(dict.fromkeys(build.folder(name) for name in table))[:YOUNG])
    text = set(build.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) | set(build.modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    table.sort(key=lambda name: 0 if build.folder(name) in young else 1 if name in text else 2)
    names = sys.argv[2:] or table
    done = {row["name"] for row in csv.DictReader(open(out))} if out.exists() else set()
    with open(out, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for name in names:
            if name in done:
                continue
            age = ages.get(build.folder(name), unknown)
            for row in measured_apart(name):
                writer.writerow({**row, "name": name, "folder": build.folder(name), "release": age["release"], "day": age["day"]})
            file.flush()


if __name__ == "__main__":
    main()
