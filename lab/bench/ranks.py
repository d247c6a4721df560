#!/usr/bin/env python3
"""One run over ranks and over threads (docs/cluster.md): what is measured here, and what follows for more of them.

    lab/bench/ranks.py --pairs 5      two ranks of one thread against one process of two threads, in turn (needs make MPI=1)
    lab/bench/ranks.py --predict      the table of predicted efficiency, from ./train bench with one thread (minutes)
    lab/bench/ranks.py --threads      what the partition of a step among the threads of one process allows

The prediction. A step of one rank on one thread takes U + E + c b seconds with b sequences: c is computing, a share of
the peak that ./train bench measures. U is what every rank does for all parameters: the first product that writes a
gradient, norm and AdamW pass over them 9 times, at M bytes per second. E is the share of a step in an evaluation, which
is not divided: every eval.every steps the forward pass, a third of c, of each sequence of the validation split. R ranks
take

    U + E + c B / R + 2 (P / W) (R - 1) / R + 3 (P / M) (R - 1) / R + 3 a log2 R

for a batch of B, P bytes of parameters, a network of W bytes per second each way and latency a. The fourth term is the
exchange (each rank sends and receives halves, quarters, ... of the gradients, then their sums); the fifth adds these up;
the last counts messages: three with each of log2 R other ranks. Waiting for a slower rank is left out. Efficiency is the
time of one rank over R times that of R.

The partition, with one shard. Threads meet at barriers, so a part of a step takes as long as the thread with the most to
do: of rows in the forward pass and in the gradients of activations, of (sequence, head) pairs in attention, of strips in
the gradients of weights (src/model/transformer.c, src/base/range.h). Each part counts by its arithmetic. Efficiency is
the sum over N times the sum of what the busiest threads do. It is a bound: barriers, memory and the lower rate of
products with few rows are left out."""

import argparse
import configparser
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
    # As many as GPT-2 small has, 38 million of them for its vocabulary. With 65 characters they are in more layers.
    ("124 M parameters", "configs/shakespeare_baby.ini",
     ["model.layers=17", "model.heads=12", "model.d_model=768", "model.d_ff=3184", "model.bias=yes",
      "model.context=1024", "train.batch=512"]),
]
NETWORKS = [("1 Gbit/s, 50 us", 125e6, 50e-6), ("10 Gbit/s, 20 us", 1.25e9, 20e-6), ("100 Gbit/s, 2 us", 12.5e9, 2e-6)]
RANKS = (2, 8, 64, 512)
THREADS = (4, 8, 12, 16, 32, 64)


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


def describe(config, settings, text):
    """A config as its keys are read, and of what it trains: vocabulary, parameters, GFLOP of a step, and the characters
    of the validation split."""
    said = run(["./train", config, "--dry-run", *settings_of([*settings, f"data.corpus={text}"])])
    keys = configparser.ConfigParser(interpolation=None, comment_prefixes=";")
    keys.read_string(said)

    def number(pattern):
        return float(re.search(pattern, said)[1].replace(",", ""))

    validation = number("([0-9,]+) characters, ") - number("([0-9,]+) to train on")
    return (keys, int(number("([0-9]+) different")), int(number("([0-9,]+) parameters")),
            number("([0-9.e+]+) GFLOP each"), validation)


def predict(options):
    rows = []
    for name, config, settings in MODELS:
        words = settings_of([*settings, f"data.corpus={options.text}"])
        keys, _, parameters, gflop, validation = describe(config, settings, options.text)
        batch = keys.getint("train", "batch")
        share, peak = options.share, options.peak
        if not share or not peak:
            few = json.loads(run(["./train", "bench", config, "--json", "--threads", "1", *words, "--set", "train.batch=4"]))
            share, peak = share or few["share_of_peak"], peak or few["sgemm_peak_gflops"]
        size = 4 * parameters
        fixed, sequence = 9 * size / options.memory, gflop / batch / (share * peak)
        evaluation = validation / keys.getint("model", "context") / keys.getint("eval", "every") * sequence / 3
        rows.append((name, batch, sequence, fixed + evaluation, size))
        print(f"{name}: {parameters} parameters, {gflop:.4g} GFLOP a step at {share:.2f} of {peak:.0f} GFLOP/s: "
              f"{1e3 * sequence:.3g} ms a sequence, {1e3 * fixed:.3g} ms a step for the parameters, and "
              f"{1e3 * evaluation:.3g} ms for evaluation", file=sys.stderr)
    print("| model, batch | network | " + " | ".join(f"{r} ranks" for r in RANKS) + " |")
    print("|---|---|" + "---|" * len(RANKS))
    for name, batch, c, u, size in rows:
        for network, bandwidth, latency in NETWORKS:
            cells = []
            for r in RANKS:
                exchange = (2 * size / bandwidth + 3 * size / options.memory) * (r - 1) / r
                messages = 3 * latency * math.log2(r)
                time = u + c * batch / r + exchange + messages
                cells.append("" if batch % r else f"{(u + c * batch) / (r * time):.2f}")
            print(f"| {name}, {batch} | {network} | " + " | ".join(cells) + " |")


def most(n, unit, threads):
    """The most of n that range_split gives a thread."""
    return min(n, unit * math.ceil(math.ceil(n / unit) / threads))


def most_of_strips(weights, threads):
    """The most entries of a block's weights that own_strip gives a thread (src/model/operations.c)."""
    each, rest = divmod(sum(a * b for a, b in weights), threads)
    cuts = [i * each + min(i, rest) for i in range(threads + 1)]
    work, begin = [0] * threads, 0
    for weight in weights:
        length, across = max(weight), min(weight)
        least = 16 * across  # entries of the narrowest strip
        inside = [min(max(cut - begin, 0), length * across) for cut in cuts]
        at = [length if n == length * across else min(length, (n + least // 2) // least * 16) for n in inside]
        work = [done + (at[i + 1] - at[i]) * across for i, done in enumerate(work)]
        begin += length * across
    return max(work)


def partition(options):
    print("| model, sequences and rows per slice | " + " | ".join(f"{n} threads" for n in THREADS) + " |")
    print("|---|" + "---|" * len(THREADS))
    for name, config, settings in MODELS:
        keys, vocabulary, *_ = describe(config, settings, options.text)
        layers, heads, width, d_k, hidden, context = (
            keys.getint("model", key) for key in ("layers", "heads", "d_model", "d_k", "d_ff", "context"))
        inner = heads * d_k
        sequences = min(keys.getint("train", "batch"), max(1, 4096 // context))  # of a slice: SLICE_ROWS
        rows, pairs = sequences * context, sequences * heads
        weights = [(width, 3 * inner), (inner, width), (width, hidden), (hidden, width)]
        size = layers * sum(a * b for a, b in weights) + vocabulary * width
        attention = 7 * context**2 * d_k * layers  # of a pair: half of 2 products forward, of 5 backward
        whole = 6 * rows * size + pairs * attention
        cells = []
        for n in THREADS:
            splits = 8 * n * most(sequences, 1, n) > 9 * sequences
            own_rows = most(rows, 1, n) if splits else most(sequences, 1, n) * context
            own_pairs = most(pairs, 1, n) if splits else most(sequences, 1, n) * heads
            own_weights = layers * most_of_strips(weights, n) + vocabulary * most(width, 16, n)
            busiest = 4 * own_rows * size + own_pairs * attention + 2 * rows * own_weights
            cells.append(f"{whole / (n * busiest):.2f}, {own_rows}")
        print(f"| {name}, {sequences} x {context} | " + " | ".join(cells) + " |")


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
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--peak", type=float, help="GFLOP/s of products on one core (default: measured)")
    parser.add_argument("--share", type=float, help="share of that which a step reaches (default: measured)")
    parser.add_argument("--memory", type=float, default=20e9, help="bytes per second of one core, through several arrays")
    parser.add_argument("--text", default="data/tinyshakespeare.txt")
    options = parser.parse_args()
    if options.pairs:
        pairs(options)
    if options.predict:
        predict(options)
    if options.threads:
        partition(options)
    if not options.pairs and not options.predict and not options.threads:
        parser.error("say --pairs N, --predict or --threads")


if __name__ == "__main__":
    main()
