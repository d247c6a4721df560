#!/usr/bin/env python3
"""How cost grows: tokens per second and memory of ./train bench against context, width, layers, batch and threads, each
alone, starting from a model of 2 layers, width 128, d_k 64, 4096 positions per step. Prints tables in Markdown.

    bench/scaling.py                      about two minutes
    bench/scaling.py --plot docs/images/scaling.png       needs matplotlib"""

import argparse
import json
import os
import subprocess
import sys

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
        "train.batch": point["batch"], "data.val_fraction": 0.1,
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


def plot(path, results):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(results), figsize=(15, 6), sharex="col", sharey="row")
    for column, (axis, rows) in enumerate(results.items()):
        x = [value for value, _ in rows]
        for row, (key, label) in enumerate((("tokens_per_s", "tokens per second"), ("peak_rss_mb", "peak memory, MB"))):
            a = axes[row][column]
            a.plot(x, [r[key] for _, r in rows], "o-", color="#1f5fa8")
            a.set_xscale("log", base=2)
            a.set_yscale("log")
            a.grid(True, which="both", alpha=0.3)
            a.set_xticks(x, [str(v) for v in x], rotation=60 if len(x) > 5 else 0)
            a.tick_params(axis="x", which="minor", bottom=False)
            if column == 0:
                a.set_ylabel(label)
        axes[1][column].set_xlabel(axis)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="./train", help="the program to measure")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--plot", metavar="FILE.png")
    parser.add_argument("--only", choices=list(AXES), action="append")
    options = parser.parse_args()
    results = {}
    for axis in options.only or AXES:
        print(f"\n| {axis} | tokens per second | GFLOP per step | share of the sgemm peak | peak memory, MB |")
        print("|---|---|---|---|---|")
        results[axis] = []
        for value in AXES[axis]:
            point = dict(START, **{axis: value})
            if axis == "context":
                point["batch"] = max(1, POSITIONS // value)
            r = bench(options, point)
            results[axis].append((value, r))
            print(f"| {value} | {r['tokens_per_s']:,.0f} | {r['gflop_per_step']:.3g} | {r['share_of_peak']:.0%} | "
                  f"{r['peak_rss_mb']:.0f} |", flush=True)
    if options.plot:
        plot(options.plot, results)


main()
