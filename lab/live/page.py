#!/usr/bin/env python3
"""Writes the page that trains: the report of a sweep, with the section that trains above it.

lab/live/page.py REPORT.html MODULE OUT.html    MODULE is a .wasm, or a page that has one
"""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

LIVE = Path("lab/live")
PRESETS = [("quick: d_model 64, one head", "configs/demo.ini"), ("the study's: d_model 128, two heads", "configs/dk64_scaled.ini"),
           ("recall: which key goes with which value", "configs/recall.ini")]


def preset(name, path):
    """A config without comments, [sweep] and divisor; the page writes its own divisor."""
    text = re.sub(r"^[;#].*\n", "", Path(path).read_text(), flags=re.M)
    text = re.sub(r"\[(sweep|attention)\]\n(?:.+\n)*", "", text)
    shown = re.search(r'attention_text = "(.*)"', text)
    text = re.sub(r"(\[eval\]\n)every = .*", r"\1every = 25", text)
    return {"name": name, "config": text.strip() + "\n",
            "text": shown.group(1).replace("\\n", "\n") if shown else "aQbXcZdWeMfKgNhPcZaQeMbX"}


def lesson(text):
    """The stops of lab/docs/live.md as HTML. What to expect is folded, so that the reader predicts first."""
    stops = text[text.index("### 1. "):text.index("## What it costs")]
    out = []
    for title, predict, do, compare in re.findall(
            r"### \d\. (.+)\n\n\*\*Predict\.\*\* ((?:.+\n)+)\n\*\*Do\.\*\* ((?:.+\n)+)\n\*\*Compare\.\*\* ((?:.+\n)+)", stops):
        predict, do, compare = (re.sub(r"\[(.+?)\]\(.+?\)", r"\1", re.sub(r"\*(.+?)\*", r"<i>\1</i>", part)) for part in (predict, do, compare))
        out.append(f"<li><h3>{title}</h3><p><b>Predict.</b> {predict.strip()}</p><p><b>Do.</b> {do.strip()}</p>"
                   f"<details><summary>compare</summary><p>{compare.strip()}</p></details></li>\n")
    if len(out) != 7:
        sys.exit(f"lab/docs/live.md: {len(out)} stops, not 7")
    return "<ol>\n" + "".join(out) + "</ol>\n"


def main(report, module, out):
    page = Path(report).read_text()
    read = lambda name: (LIVE / name).read_text()
    in_page = re.search(r'id="live">(.*)</script>', Path(module).read_text()) if module.endswith(".html") else None
    packed = lambda name: base64.b64encode(gzip.compress(Path(name).read_bytes(), 9, mtime=0)).decode()
    parts = {"module": json.loads(in_page.group(1))["module"] if in_page else packed(module), "worker": read("model.js") + read("lane.js"),
             "corpus": packed("data/sallow_reach.txt"), "presets": [preset(*p) for p in PRESETS]}
    data = json.dumps(parts).replace("<", "\\u003c")
    for before, after in (("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:"),
                          ("</style>", read("live.css") + "</style>"),
                          ("<header>", read("live.html").replace("{{lesson}}", lesson(Path("lab/docs/live.md").read_text())) + "<header>"),
                          ("</body>", f'<script type="application/json" id="live">{data}</script>\n<script>\n{read("live.js")}</script>\n</body>')):
        if page.count(before) != 1:
            sys.exit(f"{report} is no report of this version: {before} is there {page.count(before)} times")
        page = page.replace(before, after)
    Path(out).write_text(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
