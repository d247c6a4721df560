#!/usr/bin/env python3
"""How cost grows: tokens per second and memory of ./train bench against context, width, layers, batch and threads, each
alone, starting from a model of 2 layers, width 128, d_k 64, 4096 positions per step. Prints tables in Markdown.

    lab/bench/scaling.py                      about two minutes
    lab/bench/scaling.py --csv lab/docs/results/scaling.csv
    lab/bench/scaling.py --plot lab/docs/results/scaling.csv docs/images/scaling.png    needs matplotlib, measures nothing"""

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["tokens_per_s", "gflop_per_step", "share_of_peak", "peak_rss_mb"]
POSITIONS = 4096
START = {"context": 64, "width": 128, "layers": 2, "batch": 64, "threads": len(os.sched_getaffinity(0))}
AXES = {
    "context": [64, 128, 256, 512, 1024, 2048, 4096],
    "width": [64, 128, 256, 512, 1024],
    "layers": [1, 2, 4, 8, 16],
    "batch": [1, 4, 16, 64, 256],
    "threads": [1 << n for n in range(START["threads"].bit_length())],
}


def bench(options, point):
    settings = {
        "model.context": point["context"], "model.d_model": point["width"], "model.d_k": 64,
        "model.heads": max(1, point["width"] // 64), "model.d_ff": 4 * point["width"], "model.layers": point["layers"],
        "train.batch": point["batch"], "train.shards": 1, "data.val_fraction": 0.1,
    }
    command = [options.train, "bench", "configs/dk64_scaled.ini", "--json", "--seconds", str(options.seconds),
               "--threads", str(point["threads"])]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def plot(path, rows):
    """Draws the rows of the table, in the style of the study's pictures."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "lab/study"))
    from picture import CIRCLE, palette, pyplot

    style = {**palette()[0]["sqrt_dk"], "marker": CIRCLE, "linewidth": 1.6, "markersize": 5, "clip_on": False}
    names = list(dict.fromkeys(row["axis"] for row in rows))
    shares = [len([row for row in rows if row["axis"] == name]) + 1 for name in names]
    measures = (("tokens_per_s", "tokens per second"), ("peak_rss_mb", "peak memory, MB"))
    figure, axes = pyplot.subplots(2, len(names), figsize=(9.6, 4.8), dpi=160, sharex="col", sharey="row",
                                   width_ratios=shares, layout="constrained", squeeze=False)
    for column, name in enumerate(names):
        own = [row for row in rows if row["axis"] == name]
        x = [int(row["value"]) for row in own]
        for a, (key, label) in zip(axes[:, column], measures):
            a.plot(x, [float(row[key]) for row in own], **style)
            a.set_xscale("log", base=2)
            a.set_yscale("log")
            a.grid(color="0.9")
            a.spines[["top", "right"]].set_visible(False)
            a.set_xticks(x, [str(value) for value in x], size=8)
            a.tick_params(axis="x", which="minor", bottom=False)
            if column == 0:
                a.set_ylabel(label)
        axes[1, column].set_xlabel(name)
    figure.suptitle("How speed and memory change with one size", x=0.01, ha="left", size=12)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="./train", help="the program to measure")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--csv", metavar="FILE.csv", help="write the table there too")
    parser.add_argument("--plot", nargs=2, metavar=("FILE.csv", "FILE.png"), help="draw such a table, measure nothing")
    parser.add_argument("--only", choices=list(AXES), action="append")
    options = parser.parse_args()
    if options.plot:
        with open(options.plot[0], encoding="utf-8", newline="") as table:
            return plot(options.plot[1], list(csv.DictReader(table)))
    rows = []
    for axis in options.only or AXES:
        print(f"\n| {axis} | tokens per second | GFLOP per step | share of the sgemm peak | peak memory, MB |")
        print("|---|---|---|---|---|")
        for value in AXES[axis]:
            point = dict(START, **{axis: value})
            if axis == "context":
                point["batch"] = max(1, POSITIONS // value)
            r = bench(options, point)
            rows.append({"axis": axis, "value": value, **{key: f"{r[key]:.6g}" for key in COLUMNS}})
            print(f"| {value} | {r['tokens_per_s']:,.0f} | {r['gflop_per_step']:.3g} | {r['share_of_peak']:.0%} | "
                  f"{r['peak_rss_mb']:.0f} |", flush=True)
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as table:
            writer = csv.DictWriter(table, ["axis", "value", *COLUMNS], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


main()
