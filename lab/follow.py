#!/usr/bin/env python3
"""Follows runs until Ctrl-C, also while they train: rows of metrics.csv become points of TensorBoard's or wandb's curves.

    lab/follow.py EVENTS RUN_DIR...          into EVENTS, a new directory (tensorboard --logdir EVENTS)
    lab/follow.py wandb:PROJECT RUN_DIR...   into runs of wandb (pip install -r lab/tests/requirements-follow.txt)
"""
import configparser
import csv
import signal
import sys
import time
from pathlib import Path


def curves_of(run, target):
    """Returns a function that adds the values of a step."""
    if target.startswith("wandb:"):
        import wandb
        ini = configparser.ConfigParser(interpolation=None)
        ini.read_string((run / "config.ini").read_text())
        config = {section: dict(ini[section]) for section in ini.sections()}
        return wandb.init(project=target[6:], name=str(run), config=config, reinit="create_new").log
    from tensorboard.summary import Writer
    writer = Writer(str(Path(target, str(run).lstrip("./"))))
    return lambda values, step: [writer.add_scalar(name, values[name], step) for name in values] + [writer.flush()]


if len(sys.argv) < 3 or Path(sys.argv[1]).exists():
    sys.exit(__doc__)
signal.signal(signal.SIGINT, lambda *_: sys.exit())
curves = {Path(word): curves_of(Path(word), sys.argv[1]) for word in sys.argv[2:]}
last = dict.fromkeys(curves, -1)
while True:
    for run, add in curves.items():
        text = (run / "metrics.csv").read_text()
        for row in csv.DictReader(text[:text.rfind("\n") + 1].splitlines()):
            if int(row["step"]) > last[run]:  # a resumed run repeats rows to the bit
                last[run] = int(row.pop("step"))
                add({name: float(value) for name, value in row.items() if value}, last[run])
    time.sleep(2)
