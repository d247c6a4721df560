#!/usr/bin/env python3
"""Writes ages.csv: for each folder of models in transformers, the first release that has it, and that release's day.

    python3 lab/wild/ages.py FOLDER >lab/wild/ages.csv

Looks into the last release of each year since 2020 and into every minor release of version 5, which pip downloads into
FOLDER (300 MB). What is in a year's last release was added in that year or, for the first of them, before. Reads the
names of files in the wheels, and imports nothing of them. Needs the network and pip.
"""
import csv
import re
import subprocess
import sys
import zipfile
from pathlib import Path

# The days on which releases were uploaded, as the package index states them (files, upload-time).
DAYS = {
    "4.1.1": "2020-12-17", "4.15.0": "2021-12-22", "4.25.1": "2022-12-01", "4.36.2": "2023-12-18", "4.47.1": "2024-12-17",
    "4.57.3": "2025-11-25", "5.0.0": "2026-01-26", "5.1.0": "2026-02-05", "5.2.0": "2026-02-16", "5.3.0": "2026-03-04",
    "5.4.0": "2026-03-27", "5.5.0": "2026-04-02", "5.6.0": "2026-04-22", "5.7.0": "2026-04-28", "5.8.0": "2026-05-05",
    "5.9.0": "2026-05-20", "5.10.1": "2026-06-03", "5.11.0": "2026-06-10", "5.12.0": "2026-06-12", "5.13.0": "2026-07-03",
    "5.14.0": "2026-07-15", "5.15.0": "2026-08-10", "5.16.0": "2026-08-26", "5.17.0": "2026-09-09", "5.18.0": "2026-09-30",
    "5.19.0": "2026-10-06", "5.20.0": "2026-10-15", "5.21.0": "2026-10-26", "5.22.0": "2026-10-29", "5.23.0": "2026-11-13",
    "5.24.0": "2026-11-21",
}
FOLDER = re.compile(r"transformers/models/(?:deprecated/)?(\w+)/\w+\.py")


def wheel(version, folder):
    """Returns the path of a release's wheel, which pip downloads if it is not there."""
    found = list(folder.glob(f"transformers-{version}-*.whl"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder),
                        f"transformers=={version}"], check=True)
        found = list(folder.glob(f"transformers-{version}-*.whl"))
    return found[0]


def folders(path):
    """Returns the folders of models that the release has."""
    with zipfile.ZipFile(path) as archive:
        return {match[1] for match in map(FOLDER.match, archive.namelist()) if match}


def main():
    kept = Path(sys.argv[1])
    kept.mkdir(parents=True, exist_ok=True)
    first = {}
    for version in DAYS:
        for folder in folders(wheel(version, kept)):
            first.setdefault(folder, version)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["folder", "release", "day"])
    for folder in sorted(first):
        writer.writerow([folder, first[folder], DAYS[first[folder]]])


if __name__ == "__main__":
    main()
