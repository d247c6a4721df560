"""What the peers of compare.py share: the text, the batches, the schedule, and the protocol.

A peer is a process of its own, so that its memory is its own. It is told on stdin how many seconds to train, and answers
with one line of JSON: the seconds of each step, its loss, and its peak resident memory."""

import json
import math
import resource
import sys
import time

import numpy as np


class Problem:
    """A config as `./train CONFIG --dry-run` resolves it, and its text as ids. `others`: key = value beside the usual that
    the peer knows as well."""

    def __init__(self, config, *others):
        self.config = config
        with open(config["corpus"], encoding="utf-8") as f:
            text = f.read()
        characters = sorted(set(text))
        number = {c: i for i, c in enumerate(characters)}
        ids = np.array([number[c] for c in text], dtype=np.int64)
        self.V = len(characters)
        split = len(ids) - int(len(ids) * float(config["val_fraction"]))
        self.train, self.validation = ids[:split], ids[split:]
        for name, key in zip("LHCDFTB", ("layers", "heads", "d_model", "d_k", "d_ff", "context", "batch")):
            setattr(self, name, int(config[key]))
        self.bias = config["bias"] == "yes"
        self.dropout = float(config["dropout"])
        named = {"none": 1.0, "dk": self.D, "sqrt_dk": math.sqrt(self.D), "2sqrt_dk": 2 * math.sqrt(self.D)}
        divisor = config["scale_divisor"]
        self.multiplier = 1 / (named[divisor] if divisor in named else float(divisor))
        usual = {"norm": "pre", "activation": "gelu", "tie_embeddings": "yes", "accumulate": "1", "optimizer": "adamw",
                 "qk_norm": "none"}
        for key, value in usual.items():
            if config[key] != value and (key, config[key]) not in others:
                sys.exit(f"the peers are written for {key} = {value}, not {config[key]}")
        self.random = np.random.default_rng(int(config["seed"]))

    def windows(self):
        """A batch: ids (B,T+1), of which all but the last are tokens and all but the first are targets."""
        starts = self.random.integers(0, len(self.train) - self.T, self.B)
        return np.stack([self.train[s : s + self.T + 1] for s in starts])

    def batch(self):
        windows = self.windows()
        return np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])

    def lr(self, step):
        c = {key: float(self.config[key]) for key in ("lr", "min_lr", "warmup", "steps")}
        if step < c["warmup"]:
            return c["lr"] * (step + 1) / (c["warmup"] + 1)
        if step >= c["steps"]:
            return c["min_lr"]
        cosine = 1 + math.cos(math.pi * (step - c["warmup"]) / (c["steps"] - c["warmup"]))
        return c["min_lr"] + 0.5 * cosine * (c["lr"] - c["min_lr"])


def answer(step, parameters):
    """step() -> loss; called until the seconds asked for are over, three times at least."""
    print(json.dumps({"parameters": parameters}), flush=True)
    for line in sys.stdin:
        seconds, start, losses = [], time.perf_counter(), []
        while len(seconds) < 3 or time.perf_counter() - start < float(line):
            before = time.perf_counter()
            losses.append(step())
            seconds.append(time.perf_counter() - before)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        print(json.dumps({"seconds": seconds, "losses": losses, "peak_rss_mb": rss}), flush=True)
