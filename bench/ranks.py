#!/usr/bin/env python3
"""One run over ranks (docs/cluster.md): what is measured here, and what follows for more ranks over a network.

    bench/ranks.py --pairs 5      two ranks of one thread against one process of two threads, in turn (needs make MPI=1)
    bench/ranks.py --predict      the table of predicted efficiency, from ./train bench with one thread (minutes)

The prediction. A step of one rank on one thread takes U + c b seconds with b sequences: c is computing, a
share of the peak that ./train bench measures, and U what every rank does for all parameters: zeroing, norm and AdamW pass over them 9 times, at M bytes per second.
R ranks take

    U + c B / R + 2 (P / W) (R - 1) / R + 3 P / M + a (2 (R - 1) + 3 log2 R)

for a batch of B, P bytes of parameters, a network of W bytes per second each way and latency a. The third term is the
exchange (each rank sends and receives its segments, then the sums of them); the fourth adds up R segments of P / R; the
last counts messages: R - 1 in each of two exchanges, and three short gathers. Evaluation by rank 0 and waiting for a
slower rank are left out. Efficiency is the time of one rank over R times that of R."""

import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

# name, config, its settings, among them the batch that is divided
MODELS = [
    ("shakespeare_cpu", "configs/shakespeare_cpu.ini", ["train.batch=12"]),
    ("shakespeare_baby", "configs/shakespeare_baby.ini", ["train.batch=64"]),
    ("121 M parameters", "configs/shakespeare_baby.ini",
     ["model.layers=17", "model.heads=12", "model.d_model=768", "model.context=1024", "train.batch=512"]),
]
NETWORKS = [("1 Gbit/s, 50 us", 125e6, 50e-6), ("10 Gbit/s, 20 us", 1.25e9, 20e-6), ("100 Gbit/s, 2 us", 12.5e9, 2e-6)]
RANKS = (2, 8, 64, 512)


def environment():
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_") and k != "OMP_WAIT_POLICY"}
    return env | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def settings_of(settings):
    return [word for setting in settings for word in ("--set", setting)]


def predict(options):
    rows = []
    for name, config, settings in MODELS:
        words = settings_of([*settings, f"data.corpus={options.text}"])
        said = run(["./train", config, "--dry-run", *words])
        batch = int(settings[-1].split("=")[1])
        parameters = int(re.search(r"([0-9,]+) parameters", said)[1].replace(",", ""))
        gflop = float(re.search(r"([0-9.e+]+) GFLOP each", said)[1])
        share, peak = options.share, options.peak
        if not share or not peak:
            few = json.loads(run(["./train", "bench", config, "--json", "--threads", "1", *words, "--set", "train.batch=4"]))
            share, peak = share or few["share_of_peak"], peak or few["sgemm_peak_gflops"]
        size = 4 * parameters
        fixed, sequence = 9 * size / options.memory, gflop / batch / (share * peak)
        rows.append((name, batch, sequence, fixed, size))
        print(f"{name}: {parameters} parameters, {gflop:.4g} GFLOP a step at {share:.2f} of {peak:.0f} GFLOP/s: "
              f"{1e3 * sequence:.3g} ms a sequence, and {1e3 * fixed:.3g} ms a step", file=sys.stderr)
    print("| model, batch | network | " + " | ".join(f"{r} ranks" for r in RANKS) + " |")
    print("|---|---|" + "---|" * len(RANKS))
    for name, batch, c, u, size in rows:
        for network, bandwidth, latency in NETWORKS:
            cells = []
            for r in RANKS:
                exchange = 2 * size / bandwidth * (r - 1) / r + 3 * size / options.memory
                messages = latency * (2 * (r - 1) + 3 * math.log2(r))
                time = u + c * batch / r + exchange + messages
                cells.append("" if batch % r else f"{(u + c * batch) / (r * time):.2f}")
            print(f"| {name}, {batch} | {network} | " + " | ".join(cells) + " |")


def seconds_per_step(command, steps):
    """The median over the steps of one training, of those after the first tenth."""
    with tempfile.TemporaryDirectory() as directory:
        run([*command, "--out", f"{directory}/run", "--quiet"])
        with open(f"{directory}/run/metrics.csv", encoding="utf-8") as file:
            at = [float(row["seconds"]) for row in csv.DictReader(file)]
    return statistics.median(b - a for a, b in zip(at[steps // 10:-2], at[steps // 10 + 1:-1]))


def pairs(options):
    for name, config, settings, steps in (("shakespeare_cpu", "configs/shakespeare_cpu.ini", [], 150),
                                          ("shakespeare_cpu, Muon", "configs/shakespeare_cpu.ini", ["train.optimizer=muon"], 150),
                                          ("shakespeare_baby", "configs/shakespeare_baby.ini", ["train.batch=8"], 12)):
        common = [config, *settings_of([*settings, f"data.corpus={options.text}", "train.shards=2", f"train.steps={steps}",
                                        "train.warmup=5", "eval.every=0", "eval.batches=1", "log.every=1",
                                        "log.attention_every=0", "log.sample_tokens=0", "log.page_model=no"])]
        threads, ranks = [], []
        for _ in range(options.pairs):
            threads.append(seconds_per_step(["./train-mpi", *common, "--threads", "2"], steps))
            ranks.append(seconds_per_step(["mpirun", "-n", "2", "./train-mpi", *common, "--threads", "1"], steps))
        ratios = sorted(t / r for t, r in zip(threads, ranks))
        print(f"{name}: two threads {1e3 * statistics.median(threads):.2f} ms a step, two ranks "
              f"{1e3 * statistics.median(ranks):.2f} ms; efficiency {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f} in {len(ratios)} pairs)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=0, help="how often to measure")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--peak", type=float, help="GFLOP/s of products on one core (default: measured)")
    parser.add_argument("--share", type=float, help="share of that which a step reaches (default: measured)")
    parser.add_argument("--memory", type=float, default=20e9, help="bytes per second of one core, through several arrays")
    parser.add_argument("--text", default="data/tinyshakespeare.txt")
    options = parser.parse_args()
    if options.pairs:
        pairs(options)
    if options.predict:
        predict(options)
    if not options.pairs and not options.predict:
        parser.error("say --pairs N or --predict")


if __name__ == "__main__":
    main()
