#!/usr/bin/env python3
"""lab/follow.py writes what metrics.csv has, for TensorBoard and for wandb, which reads it back by its own library: two
runs that train meanwhile, one of which is stopped and resumed. Needs lab/tests/requirements-follow.txt. Called by .ci/slow.
"""
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore

ROOT = Path(__file__).resolve().parents[2]
TRAIN = [ROOT / "train", ROOT / "configs/dk64_scaled.ini", "--quiet", "--threads", "1"]
TINY = [word for key in ("train.steps=400", "model.layers=1", "model.d_model=32", "model.context=16", "eval.every=50")
        for word in ("--set", key)]
NAMES = ("tokens", "seconds", "lr", "train_loss", "val_loss", "grad_norm")


def tensorboard_curves(folder, run):
    """Returns the steps and values of each curve of a run."""
    events = EventAccumulator(str(Path(folder, "events", str(run).lstrip("/"))), size_guidance={"tensors": 0})
    events.Reload()
    return {name: [(point.step, float(make_ndarray(point.tensor_proto))) for point in events.Tensors(name)] for name in NAMES}


def wandb_curves(folder, run):
    """Returns the same of the run that wandb has with this name, after it has compared the config."""
    for path in Path(folder, "wandb").glob("offline-run-*/*.wandb"):
        store, curves, named = DataStore(), {name: [] for name in NAMES}, False
        store.open_for_scan(str(path))
        while data := store.scan_data():
            record = Record()
            record.ParseFromString(data)
            if record.run.display_name == str(run):
                named = True
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                assert config["model"]["d_model"] == "32" and config["attention"]["scale_divisor"] == "sqrt_dk", config
            values = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            for name in NAMES:
                if name in values:
                    curves[name].append((record.history.step.num, values[name]))
        if named:
            return curves
    raise AssertionError(f"wandb has no run {run}")


with tempfile.TemporaryDirectory() as folder:
    runs = [Path(folder, "whole"), Path(folder, "stopped")]
    training = [subprocess.Popen([*TRAIN, *TINY, "--out", run], stdout=subprocess.DEVNULL) for run in runs]
    while not all((run / "metrics.csv").exists() for run in runs):
        time.sleep(.05)
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": folder, "WANDB_SILENT": "true"}
    following = [subprocess.Popen([sys.executable, ROOT / "lab/follow.py", target, *runs], env=environment)
                 for target in (Path(folder, "events"), "wandb:sqrtdk")]
    training[1].send_signal(signal.SIGINT)
    assert [process.wait() for process in training] in ([0, 0], [0, 130])
    subprocess.run([TRAIN[0], "resume", runs[1], "--set", "train.steps=600", "--quiet"], stdout=subprocess.DEVNULL, check=True)
    time.sleep(20)
    for process in following:
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    for curves_of in (tensorboard_curves, wandb_curves):
        for run in runs:
            curves = curves_of(folder, run)
            with open(run / "metrics.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            for name in NAMES:
                wanted, found = {int(row["step"]): float(row[name]) for row in rows if row[name]}, dict(curves[name])
                assert len(curves[name]) == len(wanted) and found.keys() == wanted.keys(), (curves_of, run, name)
                # Rows behind the checkpoint of a stop are measured again: all but their time is the same.
                assert name == "seconds" or all(abs(found[step] - value) <= 1e-6 * abs(value) for step, value in wanted.items()), (run, name)
            print(f"follow.py: {curves_of.__name__} of {run.name}: {sum(map(len, curves.values()))} points are those of metrics.csv")
