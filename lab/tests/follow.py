#!/usr/bin/env python3
"""lab/follow.py writes what metrics.csv has: of two runs that train meanwhile, one of which is stopped and resumed. Needs
lab/tests/requirements-follow.txt. Called by .ci/slow.
"""
import csv
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(__file__).resolve().parents[2]
TRAIN = [ROOT / "train", ROOT / "configs/dk64_scaled.ini", "--quiet", "--threads", "1"]
TINY = [word for key in ("train.steps=400", "model.layers=1", "model.d_model=32", "model.context=16", "eval.every=50")
        for word in ("--set", key)]

with tempfile.TemporaryDirectory() as folder:
    runs = [Path(folder, "whole"), Path(folder, "stopped")]
    training = [subprocess.Popen([*TRAIN, *TINY, "--out", run], stdout=subprocess.DEVNULL) for run in runs]
    while not all((run / "run.json").exists() for run in runs):
        time.sleep(.05)
    following = subprocess.Popen([sys.executable, ROOT / "lab/follow.py", Path(folder, "events"), *runs])
    training[1].send_signal(signal.SIGINT)
    assert [process.wait() for process in training] in ([0, 0], [0, 130])
    subprocess.run([TRAIN[0], "resume", runs[1], "--set", "train.steps=600", "--quiet"], stdout=subprocess.DEVNULL, check=True)
    time.sleep(6)
    following.send_signal(signal.SIGINT)
    assert following.wait() == 0
    for run in runs:
        events = EventAccumulator(str(Path(folder, "events", str(run).lstrip("/"))), size_guidance={"scalars": 0})
        events.Reload()
        with open(run / "metrics.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        points = 0
        for name in ("tokens", "seconds", "lr", "train_loss", "val_loss", "grad_norm"):
            wanted = {int(row["step"]): float(row[name]) for row in rows if row[name]}
            found = {event.step: event.value for event in events.Scalars(name)}
            assert len(events.Scalars(name)) == len(wanted) and found.keys() == wanted.keys(), (run, name)
            # Rows behind the checkpoint of a stop are measured again: all but their time is the same.
            assert name == "seconds" or all(abs(found[step] - value) <= 1e-6 * abs(value) for step, value in wanted.items()), (run, name)
            points += len(found)
        print(f"follow.py: {run.name}: {points} points are those of metrics.csv")
