#!/usr/bin/env python3
"""How fast and how lean ./train is beside PyTorch and JAX: the same model, shapes, text and threads, in turns, in one
run. Prints a table in Markdown with ratios, and the machine.

    make && python3 -m venv /tmp/peers && /tmp/peers/bin/pip install -r lab/bench/requirements.txt
    /tmp/peers/bin/python lab/bench/compare.py configs/shakespeare_cpu.ini

Every peer is a process that keeps its model; in each round each of them trains for some seconds, and ours is started
anew. Figures are medians over all steps but the first round's, in which things are compiled and warmed up; ratios are
those of medians. Memory is the largest resident set of the process. A peer that is not installed is left out, and
said so; none of this is needed for anything else.

With --cpu avx2 nobody has instructions above AVX2: ./train is one of make CPU=avx2, and the peers' libraries, and the
OpenBLAS of the peak, are told so."""

import argparse
import configparser
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {  # name -> program, variant, Python module it needs, whether it computes in fp32
    "PyTorch eager": ("peer_torch.py", "eager", "torch", True),
    "PyTorch compiled": ("peer_torch.py", "compiled", "torch", True),
    "JAX jit": ("peer_jax.py", "jit", "jax", True),
    "PyTorch bf16": ("peer_torch.py", "bf16", "torch", False),
    "PyTorch bf16, compiled": ("peer_torch.py", "bf16-compiled", "torch", False),
}


HELD = {  # what holds ATen, oneDNN and MKL (PyTorch), XLA (JAX) and OpenBLAS to a processor's instructions
    None: {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "OPENBLAS_CORETYPE": "Haswell",
             # what PyTorch compiles for one instruction set is not for another
             "TORCHINDUCTOR_CACHE_DIR": os.path.join(tempfile.gettempdir(), "sqrtdk_inductor_avx2")},
}


def environment(threads, cpu):
    """Without what a shell says of threads: OMP_WAIT_POLICY=passive costs PyTorch a quarter of its speed, and us none."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_"))}
    return env | {"OMP_NUM_THREADS": str(threads)} | HELD[cpu]


def dry_run(train, config, settings, cpu):
    """The config with every key, and the number of parameters."""
    command = [train, config, "--dry-run", *settings]
    if not os.access(train, os.X_OK):
        sys.exit(f"compare.py: no program {train}: run make, and this in its directory, or name it with --train")
    done = subprocess.run(command, capture_output=True, text=True, env=environment(1, cpu))
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    if cpu and f"kernels for {cpu.upper()}" not in done.stdout:
        sys.exit(f"compare.py: {train} is not a program of make CPU={cpu}")
    parser = configparser.ConfigParser()
    parser.read_string(done.stdout)
    resolved = {key: value.strip('"') for section in parser.sections() for key, value in parser[section].items()}
    parameters = re.search(r"([\d,]+) parameters", done.stdout).group(1)
    return resolved, int(parameters.replace(",", ""))


class Ours:
    def __init__(self, train, config, settings, threads, cpu, name="sqrtdk", fp32=True):
        self.name, self.fp32 = name, fp32
        self.command = [train, "bench", config, "--json", "--threads", str(threads), *settings]
        self.env, self.reports = environment(threads, cpu), []

    def round(self, seconds):
        done = subprocess.run([*self.command, "--seconds", str(seconds)], capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        self.reports.append(json.loads(done.stdout))

    def step_ms(self):
        return statistics.median(r["step_ms"] for r in self.reports[1:])

    def peak_rss_mb(self):
        return max(r["peak_rss_mb"] for r in self.reports)


class Peer:
    def __init__(self, name, settings_file, threads, cpu, parameters):
        program, variant, _, self.fp32 = PEERS[name]
        env = environment(threads, cpu)
        if "jax" in program:  # XLA's threads follow the processors it may use
            cpus = sorted(os.sched_getaffinity(0))[:threads]
            start = lambda: os.sched_setaffinity(0, cpus)
        else:
            start = None
        self.name, self.rounds = name, []
        self.process = subprocess.Popen([sys.executable, str(HERE / program), settings_file, variant], env=env, text=True,
                                        preexec_fn=start, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        theirs = self.read()["parameters"]
        if theirs != parameters:
            sys.exit(f"compare.py: {name} has {theirs} parameters, ours has {parameters}: not the same model")

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: {self.name} ended")
        return json.loads(line)

    def round(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        self.rounds.append(self.read())

    def step_ms(self):
        return 1e3 * statistics.median(s for r in self.rounds[1:] for s in r["seconds"])

    def peak_rss_mb(self):
        return self.rounds[-1]["peak_rss_mb"]


def installed(module):
    probe = [sys.executable, "-c", f"import {module}; print({module}.__version__)"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def compare(config, options, versions):
    settings = [word for pair in options.set for word in ("--set", pair)]
    resolved, parameters = dry_run(options.train, config, settings, options.cpu)
    if not resolved["corpus"]:  # the built-in one
        resolved["corpus"] = str(HERE.parents[1] / "data" / "sallow_reach.txt")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"config": resolved, "threads": options.threads}, file)
        file.flush()
        ours = Ours(options.train, config, settings, options.threads, options.cpu)
        chosen = [n for n in PEERS if versions[PEERS[n][2]] and (not options.only or n in options.only)]
        bf16 = [*settings, "--set", "train.precision=bf16"]
        runners = [ours, Ours(options.train, config, bf16, options.threads, options.cpu, "sqrtdk bf16", False)]
        for name in chosen:
            runners.append(Peer(name, file.name, options.threads, options.cpu, parameters))
        for number in range(options.rounds + 1):
            for runner in runners:
                runner.round(options.seconds)
                print(f"{config}: round {number}, {runner.name}", file=sys.stderr)
        for peer in runners[2:]:
            peer.process.stdin.close()
            peer.process.wait()
    report(config, ours, runners, resolved)


def report(config, ours, runners, resolved):
    last = ours.reports[-1]
    peak = statistics.median(r["sgemm_peak_gflops"] for r in ours.reports[1:])
    print(f"\n`{config}`: batch {resolved['batch']} x {resolved['context']}, dropout {resolved['dropout']}, "
          f"{last['gflop_per_step']:.4g} GFLOP per step; sgemm peak {peak:.0f} GFLOP/s\n")
    print("| | ms per step | times ours | share of the peak | peak memory, MB | times ours |")
    print("|---|---|---|---|---|---|")
    for r in runners:
        share = last["gflop_per_step"] / r.step_ms() * 1e3 / peak
        print(f"| {r.name}{'' if r.fp32 else ' *'} | {r.step_ms():.4g} | {r.step_ms() / ours.step_ms():.2f} | "
              f"{share:.0%} | {r.peak_rss_mb():.0f} | {r.peak_rss_mb() / ours.peak_rss_mb():.1f} |")
    fp32 = [r for r in runners[2:] if r.fp32]
    if fp32:
        best, lean = min(fp32, key=lambda r: r.step_ms()), min(fp32, key=lambda r: r.peak_rss_mb())
        print(f"\nBest fp32 peer: {best.name}, {best.step_ms() / ours.step_ms():.2f} times our step. Least memory: {lean.name}, "
              f"{lean.peak_rss_mb() / ours.peak_rss_mb():.1f} times our memory.")
        any_precision, own = min(runners[2:], key=lambda r: r.step_ms()), min(runners[:2], key=lambda r: r.step_ms())
        print(f"Best of any precision: {own.name}, and of the peers {any_precision.name}, "
              f"{any_precision.step_ms() / own.step_ms():.2f} times its step.")


def machine():
    lines = open("/proc/cpuinfo", encoding="utf-8")
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", default=["configs/shakespeare_cpu.ini"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for ./train")
    parser.add_argument("--rounds", type=int, default=3, help="beside the one for warming up")
    parser.add_argument("--seconds", type=float, default=5, help="that each trains in a round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cpu", choices=[cpu for cpu in HELD if cpu], help="hold all to these instructions")
    parser.add_argument("--only", action="append", choices=list(PEERS), help="this peer (may be repeated)")
    parser.add_argument("--train", default="./train", help="the program to compare with")
    options = parser.parse_args()
    versions = {module: installed(module) for module in ("torch", "jax")}
    for module, version in versions.items():
        if not version:
            print(f"compare.py: no {module}: left out (pip install -r lab/bench/requirements.txt)", file=sys.stderr)
    for config in options.configs:
        compare(config, options, versions)
    held = f" held to {options.cpu.upper()}" if options.cpu else ""
    names = ", ".join(f"{m} {v}" for m, v in versions.items() if v)
    print(f"\nMachine: {machine()}{held}, {options.threads} threads of {os.cpu_count()} processors, {platform.platform()}; {names}, "
          f"Python {platform.python_version()}. * computes its products in bfloat16.")


if __name__ == "__main__":
    main()
