#!/usr/bin/env python3
"""How long it takes to reach a validation loss, by recipes in ./train and in PyTorch, with several seeds, in turns.

    make && python3 -m venv /tmp/peers && /tmp/peers/bin/pip install -r lab/bench/requirements.txt
    /tmp/peers/bin/python lab/bench/time_to_loss.py           # needs data/get_shakespeare.sh

A recipe is trained to its end, as its schedule says, and then evaluated over the whole validation split. Ours is timed
as a whole process: start, evaluations, samples, pictures and page. PyTorch's time is that of its steps and of one last
evaluation, without imports, compilation or pictures. The table has the median and the slowest of the seeds, the median
and the worst loss, and how many seeds reached the target."""

import argparse
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import dry_run, environment, machine

# task -> target, config of ours, recipes of PyTorch: config, then what is different in it
TASKS = {
    "cpu": (1.915, "configs/fast_cpu.ini", {
        "PyTorch, nanoGPT's AdamW as published": ("configs/shakespeare_cpu.ini", {}),
        "PyTorch, AdamW tuned": ("configs/shakespeare_cpu.ini", {"lr": 6e-3, "min_lr": 6e-4, "steps": 1000}),
        "PyTorch, torch.optim.Muon": ("configs/fast_cpu.ini", {}),
    }),
    "baby": (1.47, "configs/fast_baby.ini", {
        "PyTorch, AdamW": ("configs/fast_baby.ini", {"optimizer": "adamw", "lr": 3e-3, "min_lr": 3e-4, "weight_decay": 0.1, "warmup": 100}),
        "PyTorch, torch.optim.Muon": ("configs/fast_baby.ini", {}),
    }),
}


def ours(config, precision, seed, threads):
    """Seconds, loss and peak memory of a run of ./train."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        command = ["./train", config, "--out", str(out), "--threads", str(threads), "--quiet", "--set", f"train.seed={seed}",
                   "--set", f"train.precision={precision}"]
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment(threads), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            sys.exit(f"time_to_loss.py: {' '.join(command)} failed")
        text = subprocess.run(["./train", "eval", str(out)], env=environment(threads), capture_output=True, text=True)
        loss = float(re.search(r"validation loss ([\d.]+)", text.stdout).group(1))
        return {"seconds": seconds, "loss": loss, "peak_rss_mb": usage.ru_maxrss * 1024 / 1e6}


def peer(settings):
    """The same of a recipe in PyTorch, in this process."""
    import torch
    from peer import Problem
    from peer_torch import make_parameters, twin

    torch.set_num_threads(settings["threads"])
    torch.manual_seed(int(settings["config"]["seed"]))
    p = Problem(settings["config"], ("optimizer", "muon"), ("qk_norm", "rms"))
    c = {key: float(p.config[key]) for key in ("beta1", "beta2", "eps", "weight_decay", "adamw_decay", "grad_clip", "lr", "muon_lr", "momentum")}
    parameters, muon = make_parameters(p), p.config["optimizer"] == "muon"
    for name, x in parameters.items():  # the residual projections, as nanoGPT and init = gpt2
        if name.endswith("c_proj.weight"):
            torch.nn.init.normal_(x, std=0.02 / math.sqrt(2 * p.L))
    matrices = [x for name, x in parameters.items() if muon and x.dim() == 2 and name.startswith("h.")]
    rest = [x for x in parameters.values() if not any(x is m for m in matrices)]
    decay = c["adamw_decay" if muon else "weight_decay"]
    groups = [{"params": [x for x in rest if x.dim() == 2], "weight_decay": decay},
              {"params": [x for x in rest if x.dim() < 2], "weight_decay": 0.0}]
    optimizers = [torch.optim.AdamW(groups, lr=c["lr"], betas=(c["beta1"], c["beta2"]), eps=c["eps"], fused=True)]
    if muon:
        optimizers.append(torch.optim.Muon(matrices, lr=c["muon_lr"], weight_decay=c["weight_decay"], momentum=c["momentum"]))
    start = time.perf_counter()
    for step in range(int(p.config["steps"])):
        factor = p.lr(step) / c["lr"]
        for optimizer, rate in zip(optimizers, (c["lr"], c["muon_lr"])):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        loss = twin.loss_of(parameters, p.config, torch.from_numpy(p.windows()), training=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), c["grad_clip"])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    total = count = 0
    with torch.no_grad():
        windows = torch.from_numpy(p.validation).unfold(0, p.T + 1, p.T)
        for i in range(0, len(windows), p.B):
            total += twin.loss_of(parameters, p.config, windows[i : i + p.B]).item() * len(windows[i : i + p.B])
            count += len(windows[i : i + p.B])
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"seconds": time.perf_counter() - start, "loss": total / count, "peak_rss_mb": rss}))


def torch_run(config, different, seed, threads):
    resolved, _ = dry_run("./train", config, [])
    resolved.update({key: str(value) for key, value in different.items()}, seed=str(seed))
    settings = json.dumps({"config": resolved, "threads": threads})
    done = subprocess.run([sys.executable, __file__, "--peer", settings], env=environment(threads), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", choices=TASKS, default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-seeds", type=int, help="of PyTorch's recipes (default: as many)")
    parser.add_argument("--precisions", nargs="*", default=["fp32", "bf16"], help="of ours")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="*", help="recipes of PyTorch; none without a name")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(json.loads(options.peer))
    target, config, recipes = TASKS[options.task]
    chosen = {name: recipe for name, recipe in recipes.items() if options.only is None or name in options.only}
    own_rows = {f"sqrtdk, {precision}": precision for precision in options.precisions}
    results = {name: [] for name in [*own_rows, *chosen]}
    for seed in range(4, options.seeds + 4):  # 1 to 3 chose the config
        for name, precision in own_rows.items():
            results[name].append(ours(config, precision, seed, options.threads))
        for name, recipe in chosen.items():
            if seed < 4 + (options.peer_seeds or options.seeds):
                results[name].append(torch_run(*recipe, seed, options.threads))
        print(f"seed {seed}: {[(name, round(r[-1]['seconds'], 1), round(r[-1]['loss'], 4)) for name, r in results.items()]}", file=sys.stderr)
    own = statistics.median(r["seconds"] for r in next(iter(results.values())))
    print(f"\n`{config}`, to {target} nats per character; {machine()}, {options.threads} threads\n")
    print("| recipe | seeds | seconds, median | slowest | times ours | loss, median | worst | reached | peak memory, MB |\n|---|---|---|---|---|---|---|---|---|")
    for name, runs in results.items():
        seconds, losses = [r["seconds"] for r in runs], [r["loss"] for r in runs]
        print(f"| {name} | {len(runs)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} | {statistics.median(seconds) / own:.2f} | "
              f"{statistics.median(losses):.4f} | {max(losses):.4f} | {sum(loss <= target for loss in losses)} of {len(runs)} | {max(r['peak_rss_mb'] for r in runs):.0f} |")


if __name__ == "__main__":
    main()
