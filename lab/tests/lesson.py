#!/usr/bin/env python3
"""Runs every command of lab/docs/lesson.md, in a directory of its own, and compares what it prints with what the page says.

A block of sh is run by itself; the block of text after it, if there is one, quotes its output. Quoted lines must be in
it in that order; "..." stands for lines that are left out. Spaces at the ends of lines do not count.
    lab/tests/lesson.py            all of them: minutes
    lab/tests/lesson.py --short    without those that train, read what was trained, or need NumPy
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONG = re.compile(r"configs/|runs/|claims")
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(commands, directory):
    """Returns the output of the commands; a command that fails ends this program."""
    done = subprocess.run(["bash", "-e"], input=commands, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lesson: exit status {done.returncode}:\n{commands}{done.stderr}")
    return done.stdout


def missing(quoted, printed):
    """The first quoted line that does not come where it should, or None."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    anywhere = True
    for line in quoted.splitlines():
        if line == "...":
            anywhere = True
        elif anywhere:
            if line.rstrip() not in lines:
                return line
            anywhere = False
        elif next(lines, None) != line.rstrip():
            return line
    return None


def main():
    short = sys.argv[1:] == ["--short"]
    failed = ran = 0
    printed, skipped = "", False
    with tempfile.TemporaryDirectory() as directory:
        for name in ("train", "configs", "data", "docs", "lab"):
            Path(directory, name).symlink_to(ROOT / name)
        blocks = BLOCK.findall((ROOT / "lab/docs/lesson.md").read_text(encoding="utf-8"))
        for kind, text in blocks:
            if kind == "sh":
                skipped = short and LONG.search(text) is not None
            if skipped:
                continue
            if kind == "sh":
                printed = run(text, directory)
                ran += 1
            elif (line := missing(text, printed)) is not None:
                failed += 1
                print(f"lab/docs/lesson.md quotes a line that was not printed there:\n{line}\nThis was:\n{printed}")
    print(f"{ran} blocks run, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
