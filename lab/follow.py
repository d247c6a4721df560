#!/usr/bin/env python3
"""Follows runs into TensorBoard: new rows of their metrics.csv become points of its curves, also while they train.

    lab/follow.py EVENTS RUN_DIR...     into the new directory EVENTS, until Ctrl-C
    tensorboard --logdir EVENTS

Needs tensorboard (lab/tests/requirements-follow.txt).
"""
import csv
import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path


def new_events(run, last):
    """Yields step, time and values of the whole rows behind step `last`. A resumed run repeats rows to the bit."""
    if not (run / "metrics.csv").exists() or not (run / "run.json").exists():
        return  # the run has not begun
    start = datetime.fromisoformat(json.loads((run / "run.json").read_text())["start"].replace("Z", "+00:00"))
    text = (run / "metrics.csv").read_text()
    for row in csv.DictReader(text[:text.rfind("\n") + 1].splitlines()):
        step = int(row.pop("step"))
        if step > last:
            yield step, start.timestamp() + float(row["seconds"]), {k: float(v) for k, v in row.items() if v}


def follow(events, runs):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    writers = {run: EventFileWriter(os.path.join(events, os.path.normpath(run).lstrip("./"))) for run in runs}
    last = dict.fromkeys(runs, -1)
    while True:
        for run, writer in writers.items():
            for last[run], when, values in new_events(run, last[run]):
                values = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
                writer.add_event(Event(step=last[run], wall_time=when, summary=Summary(value=values)))
            writer.flush()
        time.sleep(2)


def refuse(message):
    print(message, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        refuse(__doc__.strip())
    if missing := [word for word in sys.argv[2:] if not os.path.isdir(word)]:
        refuse(f"follow.py: {missing[0]} is not the directory of a run")
    if os.path.exists(sys.argv[1]):
        refuse(f"follow.py: {sys.argv[1]} exists: name a new directory")
    try:
        follow(sys.argv[1], [Path(word) for word in sys.argv[2:]])
    except ImportError as error:
        refuse(f"follow.py: {error}: pip install -r lab/tests/requirements-follow.txt")
    except KeyboardInterrupt:
        pass
