#!/usr/bin/env python3
"""docs/twin.py has the losses of ./train: the validation loss of a checkpoint, and each of the 20 steps that both train on
from it, on the same batches. Prints a line for each kind of model; fails above 1e-5, and 1e-4 where rounding has grown in
training. On every key of REFUSED docs/twin.py must end with one line.

    python3 -m venv /tmp/twin && /tmp/twin/bin/pip install -r tests/fixtures/requirements.txt -r lab/docs/requirements.txt
    /tmp/twin/bin/python tests/twin.py
"""
import contextlib
import csv
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT, EVALUATED, TRAINED = Path(__file__).resolve().parents[1], 1e-5, 1e-4
sys.path.insert(0, str(ROOT / "docs"))
sys.dont_write_bytecode = True
os.environ["OMP_WAIT_POLICY"] = "passive"
import torch  # noqa: E402
import twin  # noqa: E402

SEED, BATCH, STEPS, WORD = 6_000_000_007, 5, 20, 2**32 - 1
SETTINGS = ["model.context=24", "model.d_model=32", f"train.batch={BATCH}", f"train.seed={SEED}", "train.warmup=7", "log.every=1"]
CASES = """
attention.scale_divisor=none
model.norm=post model.activation=relu model.bias=no attention.scale_divisor=2sqrt_dk
model.tie_embeddings=no model.d_k=5 model.heads=3 attention.scale_divisor=dk
model.init=torch train.grad_clip=0 attention.scale_divisor=0.7
attention.qk_norm=rms train.shards=1"""
# What it does not compute, and keys that it does not know.
REFUSED = """
data.task=recall model.norm=none model.activation=swish model.rope=yes
attention.score=additive attention.qk_norm=l2 attention.qk_norm=layer attention.switch_step=1 attention.scale_learned=head
attention.scale_length=log attention.softcap=30 attention.sink=one attention.score_precision=fp16
attention.score_gradient=no train.accumulate=2 train.optimizer=muon train.qk_lr_scale=0 train.qk_clip=100
train.precision=bf16 train.ema=0.9"""


def draw(index, n):
    """The number from 0 to n-1 that ./train draws: Philox4x32-10 of the seed and an index of the batches (src/base/rng.h)."""
    a, b, c, d, k, l = index, 0, 0, 2, SEED & WORD, SEED >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k, q & WORD, p >> 32 ^ d ^ l, p & WORD
        k, l = k + 0x9E3779B9 & WORD, l + 0xBB67AE85 & WORD
    return (b << 32 | a) * n >> 64


def train(*words):
    subprocess.run([ROOT / "train", *map(str, words), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def twin_losses(run, *last):
    """The losses that docs/twin.py prints for the run, on the batches of ./train from step 1 on."""
    numbers = itertools.count(BATCH)
    twin.torch.randint = lambda n, size: torch.tensor([draw(next(numbers), n) for _ in range(*size)])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        twin.main(run, *last)
    return [float(number) for number in re.findall(r"\d+\.\d+$", printed.getvalue(), re.MULTILINE)]


def largest_difference(directory, case):
    """Trains one step, and from there on in both programs."""
    run, copy = directory / "run", directory / "copy"
    settings = [word for setting in SETTINGS + case.split() for word in ("--set", setting)]
    train(ROOT / "configs/dk64_scaled.ini", "--out", run, *settings, "--set", "train.steps=1")
    shutil.copytree(run, copy)
    train("resume", run, "--set", f"train.steps={1 + STEPS}")
    with open(run / "metrics.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ours = [float(row["train_loss"]) for row in rows[1:-1]] + [float(rows[-1]["val_loss"])]
    theirs = twin_losses(copy, 1 + STEPS)
    assert len(ours) == len(theirs) == STEPS + 1 and ours[0] != ours[-2], (ours, theirs)
    evaluated = twin_losses(run)
    return abs(evaluated[0] - ours[-1]), max(abs(a - b) for a, b in zip(ours, theirs))


def is_refused(run, setting):
    """Whether docs/twin.py ends with one line, which names the key and its value, if the run's config.ini has this one."""
    name, value = setting.split("=")
    section, key = name.split(".")
    original = (run / "config.ini").read_text(encoding="utf-8")
    others = re.sub(rf"^{key} = .*\n", "", original, flags=re.MULTILINE)
    (run / "config.ini").write_text(others.replace(f"[{section}]\n", f"[{section}]\n{key} = {value}\n"), encoding="utf-8")
    ended = subprocess.run([sys.executable, ROOT / "docs/twin.py", run], capture_output=True, text=True, check=False)
    (run / "config.ini").write_text(original, encoding="utf-8")
    return (ended.returncode, ended.stderr) == (2, f"twin.py does not compute {name} = {value}\n")


def main():
    failed = False
    for case in CASES.strip().split("\n"):
        with tempfile.TemporaryDirectory() as directory:
            evaluated, trained = largest_difference(Path(directory), case)
        print(f"{case}: validation loss {evaluated:.1e}, losses of {STEPS} steps {trained:.1e}")
        failed |= not (evaluated <= EVALUATED and trained <= TRAINED)
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        train(ROOT / "configs/dk64_scaled.ini", "--out", run, "--set", "train.steps=1", "--set", "model.d_model=32")
        ignored = [setting for setting in REFUSED.split() if not is_refused(run, setting)]
    print(f"{len(REFUSED.split())} keys refused" if not ignored else f"not refused: {ignored}")
    return failed or bool(ignored)


if __name__ == "__main__":
    sys.exit(main())
