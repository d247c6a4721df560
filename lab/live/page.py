#!/usr/bin/env python3
"""Writes the page that trains: the report of a sweep, whose panel opens at step 0 and trains as well.

lab/live/page.py REPORT.html MODULE OUT.html    MODULE is a .wasm, or a page that has one
"""

import base64
import gzip
import json
import re
import sys
from pathlib import Path

LIVE = Path("lab/live")
QUESTION = "Why divide by √d_k?"
SAYS = ("Four models learn the same text. They are equal but for one number, the divisor of their attention scores. "
        "Press play, or Space.")
QUICK = "configs/demo.ini"
# A preset: the name of its link, its own name, what it shows, a config, and keys that replace the config's.
PRESETS = [("quick", "quick", "d_model 48, two heads of d_k 64", QUICK, {}),
           ("study", "the study's", "d_model 128, two heads of d_k 64", "configs/dk64_scaled.ini", {}),
           ("wide", "twice as wide", "d_model 96, d_k 128", QUICK, {"d_model": "96", "d_k": "128"}),
           ("gpt2", "GPT-2's small start", "the divisor hardly matters", QUICK, {"init": "gpt2", "lr": "3e-3"}),
           ("qk_norm", "QK-norm", "normalized queries and keys", QUICK, {"qk_norm": "rms"}),
           ("recall", "recall", "which key goes with which value", "configs/recall.ini", {})]


def preset(id, name, says, path, keys):
    """A config without comments, [sweep] and divisor; the page writes its own divisor."""
    text = re.sub(r"^[;#].*\n", "", Path(path).read_text(), flags=re.M)
    text = re.sub(r"\[(sweep|attention)\]\n(?:.+\n)*", "", text)
    text = re.sub(r"(\[eval\]\n)every = .*", r"\1every = 50", text)
    for key, value in keys.items():
        text, count = re.subn(rf"^{key} = .*", f"{key} = {value}", text, flags=re.M)
        text += "" if count else f"\n[attention]\n{key} = {value}\n"
    return {"id": id, "name": name, "says": says, "config": text.strip() + "\n"}


def lesson(text):
    """The stops of lab/docs/live.md."""
    stops = text[text.index("### 1. "):text.index("## What it costs")]
    parts = re.findall(r"### \d\. (.+)\n\n\*\*Predict\.\*\* ((?:.+\n)+)\n\*\*Do\.\*\* ((?:.+\n)+)\n\*\*Compare\.\*\* ((?:.+\n)+)", stops)
    if len(parts) != 7:
        sys.exit(f"lab/docs/live.md: {len(parts)} stops, not 7")
    plain = lambda part: re.sub(r"\[(.+?)\]\(.+?\)", r"\1", re.sub(r"\*(.+?)\*", r"“\1”", part)).replace("\n", " ").strip()
    return [dict(zip(("title", "ask", "act", "compare"), map(plain, stop))) for stop in parts]


def main(report, module, out):
    page = Path(report).read_text()
    read = lambda name: (LIVE / name).read_text()
    as_json = lambda value: json.dumps(value).replace("<", "\\u003c")
    in_page = lambda text, id: json.loads(re.search(rf'<script type="application/json" id="{id}">(.*)</script>', text).group(1))
    packed = lambda name: base64.b64encode(gzip.compress(Path(name).read_bytes(), 9, mtime=0)).decode()
    parts = {"module": in_page(Path(module).read_text(), "live")["module"] if module.endswith(".html") else packed(module),
             "worker": read("model.js") + read("lane.js"), "corpus": packed("data/sallow_reach.txt"),
             "presets": [preset(*p) for p in PRESETS]}
    data = in_page(page, "data")
    heading = data["heading"]
    data |= {"heading": QUESTION, "title": "live", "says": SAYS, "opens_at": 0, "lesson": lesson(Path("lab/docs/live.md").read_text())}
    page = re.sub('(id="data">).*(</script>)', lambda match: match[1] + as_json(data) + match[2], page)
    for before, after in (("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:"),
                          (f'<h1 id="title">{heading}</h1>', f'<h1 id="title">{QUESTION}</h1>'),
                          ("</style>", read("live.css") + "</style>"),
                          ('<div id="guide"', read("live.html") + '<div id="guide"'),
                          ("</body>", f'<script type="application/json" id="live">{as_json(parts)}</script>\n<script>\n{read("live.js")}</script>\n</body>')):
        if page.count(before) != 1:
            sys.exit(f"{report} is no report of this version: {before} is there {page.count(before)} times")
        page = page.replace(before, after)
    Path(out).write_text(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
