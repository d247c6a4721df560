#!/usr/bin/python3
"""report.html as its readers use it: runs, sweeps and comparisons made here, opened in headless Chromium over file://.

    lab/tests/report_page.py [--keep DIR] [PAGE...]     PAGE: default, softcap, twelve, ...; all of them without any. DIR
                                                    keeps the runs, and pictures of the pages.
    lab/tests/report_page.py --picture PAGE.html FILE   saves the page's first screen as a picture.

It needs ./train and Debian's python3-selenium, chromium-driver and tidy.

Weights that the page computes are compared with those that the run logged, and with a softmax written here; figures
are compared with the run's CSV files. Sliders, hover, locks and keys are worked with mouse and keyboard. Every page
must be valid HTML, load nothing, say nothing on the console, fit a narrow screen and print.
"""
import base64, csv, glob, json, math, os, pathlib, re, shutil, struct, subprocess, sys, time
import urllib.parse
import xml.etree.ElementTree as xml

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import browser as shared
from browser import ROOT, TINY, chromium, end, train

HOSTILE = "</script><!--'\"&lt;\x7f\u2028\u202e\u2066\x85\x9b中文😀e\u0301\t{{data}}\\u003c ]]>"
SCORES = {
    "softcap": ["attention.softcap=2"],
    "sink": ["attention.sink=one"],
    "learned": ["attention.sink=learned", "attention.scale_learned=head"],
    "length": ["attention.scale_length=log", "attention.softcap=5"],
    "bf16": ["attention.score_precision=bf16"],
    "fp16": ["attention.score_precision=fp16", "attention.sink=one"],
    "l2": ["attention.qk_norm=l2", "attention.scale_learned=layer"],
    "additive": ["attention.score=additive"],
    "switch": ["attention.switch_step=20", "attention.switch_divisor=none"],
    "recall": ["data.task=recall"],
    "one": ["model.layers=1", "model.heads=1"],
    "position": ["model.context=1"],
    "heads": ["model.heads=64", "model.d_k=1", "model.layers=1", "model.context=12"],
    "grid": ["model.heads=12", "model.layers=8", "model.d_k=8", "train.steps=2", "train.batch=1"],
    "never": ["eval.every=0"],
}
# --- what the page must show, from the run's files

def quoted(text):
    """As a value in a config."""
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


def snapshots(run):
    """The step and the tensors of each, a tensor as its shape and numbers."""
    for path in sorted(glob.glob(f"{run}/attention/*.safetensors")):
        with open(path, "rb") as file:
            data = file.read()
        size, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        step = int(header.pop("__metadata__")["step"])
        yield step, {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                         data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
                     for name, t in header.items()}


def config(run):
    keys, section = {}, ""
    for line in open(f"{run}/config.ini", encoding="utf-8"):
        if line.startswith("["):
            section = line.strip()[1:-1]
        elif "=" in line:
            key, value = line.split("=", 1)
            keys[f"{section}.{key.strip()}"] = value.strip()
    return keys


def rounded(x, precision):
    x, = struct.unpack("f", struct.pack("f", x))
    if precision == "fp16":
        try:
            x, = struct.unpack("e", struct.pack("e", x))
        except OverflowError:
            x = math.copysign(math.inf, x)
    if precision == "bf16":
        bits, = struct.unpack("I", struct.pack("f", x))
        x, = struct.unpack("f", struct.pack("I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))
    return x


def softmax_row(raw, multiplier, sink, keys):
    """The weights of the query that sees the keys with these raw scores (docs/model.md)."""
    length = math.log(len(raw)) if keys["attention.scale_length"] == "log" else 1
    precision, cap = keys["attention.score_precision"], float(keys["attention.softcap"])
    scores = [rounded(x, precision) * (multiplier * length) if multiplier * length else 0 for x in raw]
    scores = [rounded(cap * math.tanh(x / cap) if cap else x, precision) for x in scores]
    most = max(scores + [sink])
    e = [math.exp(x - most) for x in scores]
    return [x / (sum(e) + math.exp(sink - most)) for x in e]


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- a page in the browser

class Page(shared.Page):
    """A page, and at the end the checks that hold for every page."""

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector).text

    def hover(self, selector, x=.5, y=.5, click=False):
        """The mouse over a place in an element, in parts of its width and height."""
        element = self.find(selector)
        self.js("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", element)
        size = element.rect
        move = ActionChains(self.browser).move_to_element_with_offset(
            element, round((x - .5) * size["width"]), round((y - .5) * size["height"]))
        (move.click() if click else move).perform()

    def press(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def focus(self, selector):
        self.js("arguments[0].focus()", self.find(selector))

    def cell(self, query, key):
        """The place of a cell in the matrix, for hover()."""
        return self.js("""const m = matrix.svg.viewBox.baseVal;
            return [(matrix.left + (arguments[1] + .5) * matrix.cell) / m.width,
                    (matrix.top + (arguments[0] + .5) * matrix.cell) / m.height];""", query, key)

    def weights(self, run, step, layer, head, divisor=None):
        return self.js("return Array.from(attend(runs[arguments[0]], ...arguments[1], arguments[2]).w)", run,
                       [step, layer, head], divisor)

    def row(self):
        """The numbers under the characters."""
        return [float(b.get_attribute("textContent").strip() or "nan") for b in self.all("#row small")]

    def saved(self, selector, index=0):
        """The file that a button downloads."""
        shutil.rmtree("downloads", ignore_errors=True)
        os.mkdir("downloads")
        button = self.all(selector)[index]
        self.js("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        for _ in range(100):
            paths = [path for path in glob.glob("downloads/*") if not path.endswith(".crdownload")]
            if paths and os.path.getsize(paths[0]):
                return paths[0]
            time.sleep(.05)
        self.check(False, f"{selector} downloads a file")
        return os.devnull

    def picture(self, name):
        if keep:
            self.save(name + ".png", "html")

    def save(self, path, selector, height=None):
        """A picture of an element, or of as much of its height."""
        clip = {**self.find(selector).rect, "scale": 1}
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {**clip, "height": height or clip["height"]}})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def narrow(self, width=360):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 740, "deviceScaleFactor": 1, "mobile": False})
        self.browser.refresh()

    def finish(self, limit):
        """Checks what every page must have."""
        size, name = os.path.getsize(self.path), self.name.replace("/", "_").replace(".html", "")
        self.check(size < limit, f"{size} bytes, of at most {limit}")
        for words in ("undefined", "NaN", "[object"):
            self.check(words not in self.js("return document.body.innerText"), f"the page says {words}")
        names = self.js("return [...document.querySelectorAll('[id]')].map(e => e.id)")
        self.equal(len(names), len(set(names)), "ids that are there once")
        for link in self.all("a[href]"):
            target = link.get_attribute("href")
            if "#" in target:
                self.check(target.split("#")[1] in names, f"the section of {target}")
            else:
                self.check(os.path.exists(urllib.parse.unquote(target[7:])), target)
        first = self.js("return getComputedStyle(document.body).backgroundColor")
        self.picture(name)
        self.find("#theme").click()
        second = self.js("return getComputedStyle(document.body).backgroundColor")
        self.check(first != second, "light and dark differ")
        self.picture(name + "_other")
        for theme in "dark", "light":
            self.js("root.dataset.theme = arguments[0]", theme)
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
            self.equal(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)", f"{theme} on paper")
            self.equal([e.tag_name for e in self.all("select, input, #theme") if e.is_displayed()], [], "controls on paper")
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        self.narrow()
        self.check(self.js("return document.documentElement.scrollWidth") <= 360, "scrolls sideways at 360 px: " + str(
            self.js("return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 360)"
                    ".map(e => e.tagName + '#' + e.id + '.' + e.getAttribute('class')).slice(0, 9)")))
        self.picture(name + "_360")
        for box in filter(lambda box: box.is_displayed(), self.all(".wide")):
            shot = lambda: (self.js("arguments[0].firstChild.style.visibility = 'hidden'", box), box.screenshot_as_base64)[1]
            edge = shot()
            self.js("arguments[0].scrollLeft = 1e6", box)
            self.equal(shot() != edge, self.js("return arguments[0].scrollWidth > arguments[0].clientWidth + 1", box),
                       "a shadow at the edge until the end is in sight")
            self.js("arguments[0].firstChild.style.visibility = ''", box)
        pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(self.browser.print_page())))
        self.check(pages >= 2, f"prints as {pages} pages")
        self.quiet()
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
        strange = [url for url in asked if not re.match("data:|blob:|about:", url) and url.split("#")[0] != self.address]
        self.equal(strange, [], "requests")
        done = subprocess.run(["tidy", "-q", "-e", "--drop-empty-elements", "no", self.path], capture_output=True, text=True)
        self.equal((done.returncode, done.stderr), (0, ""), "tidy")
        print(f"{self.name}: {size} bytes, {self.checks} checks", flush=True)


# --- what a page can do

MARKS = "#sides .current .marks button"
DIVISOR = "return divisor_of(state.setting)" # null: as trained


def mark(page, button):
    page.js("document.querySelectorAll(arguments[0])[arguments[1]].click()", MARKS, button)


def as_trained(page):
    page.js("source.divide(state.setting, trained_divisor(current()))")


def right_weights(page, run, index=0):
    """At the trained divisor as logged, at another as computed here; every step, layer, head of the page."""
    keys, shown = config(run), page.js("const s = runs[arguments[0]].snapshots; return [s.steps, s.layers, s.heads]", index)
    logged = dict(snapshots(run))
    T = round(math.sqrt(len(logged[shown[0][0]]["scores"]) / (int(keys["model.layers"]) * shown[2])))
    for s, step in enumerate(shown[0]):
        for n, layer in enumerate(shown[1]):
            for head in range(shown[2]):
                at, tensors = layer * shown[2] + head, logged[step]
                own = slice(at * T * T, (at + 1) * T * T)
                page.near(page.weights(index, s, n, head), tensors["weights"][own], 1e-4, f"weights of step {step}, head {head}")
                if keys["attention.score"] == "additive":
                    continue
                scores = tensors["scores"][own]
                sign = math.copysign(1, tensors["multiplier"][at])
                expected = [w for q in range(T) for w in softmax_row(
                    scores[q * T:q * T + q + 1], rounded(sign / 3, "fp32"), tensors["sink"][at], keys) + [0] * (T - q - 1)]
                page.near(page.weights(index, s, n, head, 3), expected, 1e-4, f"weights of step {step}, head {head}, divided by 3")


def controls(page, run):
    """Sliders, thumbnails, hover, locks, keys, on the page of a run of which everything is shown."""
    steps, last = dict(snapshots(run)), page.js("return runs[0].snapshots.steps.length") - 1
    T = page.js("return runs[0].snapshots.T")
    shown = lambda step, head, query: [step_weight for step_weight in steps[step]["weights"][(head * T + query) * T:][:query + 1]]
    row = lambda: [x for x in page.row() if not math.isnan(x)]
    names = sorted(steps)
    page.equal(page.text("#step-value"), str(names[-1]), "the last step at first")
    opening(page, run)
    page.all(".thumb")[0].click()
    page.focus("#step")
    page.press(Keys.ARROW_LEFT)
    page.equal(page.text("#step-value"), str(names[last - 1]), "the step after an arrow key")
    page.near(row(), shown(names[last - 1], 0, T - 1), 6e-4, "the last query's row at that step")
    page.press(Keys.HOME)
    page.equal(page.text("#step-value"), str(names[0]), "the first step")
    page.near(row(), shown(names[0], 0, T - 1), 6e-4, "the last query's row at the first step")
    page.press(Keys.END)

    thumbs = page.all(".thumb")
    page.equal(len(thumbs), 4, "thumbnails")
    thumbs[3].click()
    page.equal([t.get_attribute("aria-pressed") for t in page.all(".thumb")], ["false"] * 3 + ["true"], "the chosen thumbnail")
    page.near(row(), shown(names[-1], 3, T - 1), 6e-4, "the row of layer 1, head 1")
    page.check("layer 1, head 1" in page.text(".thumb[aria-pressed=true]"), "the chosen thumbnail names its head")
    page.all(".thumb")[0].click()

    page.hover("#sides svg", *page.cell(9, 4))
    page.equal(page.js("return [state.query, state.key]"), [9, 4], "the cell under the mouse")
    page.near(row(), shown(names[-1], 0, 9), 6e-4, "the row of the query under the mouse")
    page.check(f"weight {shown(names[-1], 0, 9)[4]:.4f}" in page.text("#reading"), "its weight in words")
    page.hover("#sides svg", *page.cell(12, 7), click=True)
    page.hover("#sides svg", *page.cell(5, 2))
    page.equal(page.js("return [state.query, state.key]"), [12, 7], "the cell that a click locked")
    page.check("Locked" in page.text("#reading"), "the page says that it is locked")
    page.hover("#sides svg", *page.cell(12, 7), click=True)
    page.check("Locked" not in page.text("#reading"), "a second click unlocks")
    page.hover("#sides svg", *page.cell(12, 7), click=True)
    page.press(Keys.ESCAPE)
    page.hover("#sides svg", *page.cell(6, 2))
    page.equal(page.js("return [state.query, state.key]"), [6, 2], "after Escape")
    page.focus("#sides svg")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    page.equal(page.js("return [state.query, state.key]"), [7, 3], "after arrow keys")
    page.press(Keys.ENTER)
    page.hover("#sides svg", *page.cell(15, 2))
    page.equal(page.js("return [state.query, state.key]"), [7, 3], "the cell that Enter locked")
    page.press(Keys.ESCAPE)

    page.hover("#row .key:nth-child(11)")
    page.equal(page.js("return state.query"), 10, "the query under the mouse")
    page.near(row(), shown(names[-1], 0, 10), 6e-4, "its row")
    page.hover("#row .key:nth-child(9)", click=True)
    page.hover("#row .key:nth-child(3)")
    page.equal(page.js("return state.query"), 8, "the locked character")
    page.press(Keys.ESCAPE)


def opening(page, run):
    """At first the head that looks at the previous character most is shown, where that is clear, or else the one with the
    lowest entropy; as trained, and the largest key of its last query."""
    T, last = page.js("return runs[0].snapshots.T"), dict(snapshots(run))
    weights = last[max(last)]["weights"]
    def entropy(head):
        rows = [weights[(head * T + q) * T:][:q + 1] for q in range(1, T)]
        return sum(-sum(w * math.log(w) for w in row if w > 0) / math.log(len(row)) for row in rows) / len(rows)
    def previous(head):
        return sum(weights[(head * T + q) * T + q - 1] for q in range(1, T)) / (T - 1)
    clear = max(range(4), key=previous)
    expected = clear if previous(clear) > .4 else min(range(4), key=entropy)
    page.equal(page.js("return 2 * state.layer + state.head"), expected, "the head at first")
    for head, thumb in enumerate(page.all(".thumb")):
        named = re.search(r"previous character (\d+) %", thumb.text)
        if named:
            page.near([float(named[1])], [100 * previous(head)], .6, f"what head {head} does")
        else:
            page.check(previous(head) < .405 or "character" in thumb.text, f"head {head} is not said to look back")
    row = weights[(expected * T + T - 1) * T:][:T]
    page.equal(page.js("return [state.query, state.key]"), [T - 1, row.index(max(row))], "the largest key of the last query")


def area(path):
    """The area below a path of steps, M x y, then V y H x; and its mean x, and standard deviation of x, by area."""
    (x, base), parts = map(float, path[1:].split("V")[0].split(" ")), []
    for y, to in re.findall(r"V([-\d.]+)H([-\d.]+)", path):
        parts.append((float(to) - x, base - float(y), (float(to) + x) / 2))
        x = float(to)
    whole = sum(width * height for width, height, _ in parts)
    middle = sum(width * height * at for width, height, at in parts) / whole
    return whole, math.sqrt(sum(width * height * (at - middle) ** 2 for width, height, at in parts) / whole)


def histogram(page, run):
    """The histogram in a triangle: as much area before the division as after it, and a spread as that of the scores."""
    T, steps = page.js("return runs[0].snapshots.T"), dict(snapshots(run))
    first = steps[0]["scores"]
    page.focus("#step")
    page.press(Keys.HOME)
    page.all(".thumb")[0].click()
    raw = [first[q * T + k] for q in range(T) for k in range(q + 1)]
    middle = sum(raw) / len(raw)
    deviation = math.sqrt(sum((x - middle) ** 2 for x in raw) / len(raw))
    shape = lambda kind: area(page.find(f"#sides .histogram .{kind}").get_attribute("d"))
    unit = page.js("""const box = document.querySelector('#sides .histogram .axis').getBBox();
        return box.width / (2 * Math.max(4, 3 * Math.sqrt(runs[0].d_k)))""")
    page.near([shape("before")[1] / unit], [deviation], .2, "the spread of raw scores")
    for button, c in (0, 1), (2, 8):
        mark(page, button)
        page.near([shape("after")[1] / unit], [deviation / c], .2, f"the spread of scores divided by {c}")
        page.check(f"÷ {c}" in page.text("#sides .histogram .of-score"), "the divisor above the histogram")
    page.equal(len(page.all("#sides .histogram .normal")), 1, "N(0, 1)")
    as_trained(page)
    page.focus("#step")
    page.press(Keys.END)


def at_that_step(page, run):
    """Beside a step stand the loss, the sample and the entropy of that step, or of the last evaluation before it."""
    rows = [r for r in read_csv(f"{run}/metrics.csv") if r["val_loss"]]
    said = open(f"{run}/samples.txt", encoding="utf-8").read()
    for at, step in enumerate(page.js("return all_steps")):
        page.js("state.step = arguments[0]; update()", step)
        last = [r for r in rows if int(r["step"]) <= step][-1]
        words = page.text("#sides .figures")
        page.check(f"validation loss {float(last['val_loss']):.2f}" in words, f"the loss of step {step} in: {words}")
        page.equal(f"(step {last['step']})" in words, int(last["step"]) != step, "another step is named")
        page.check(f"writes at step {last['step']}:" in page.text("#sides figure"), f"a sample of step {last['step']}")
        sample = said.split(f"==== step {last['step']},")[1].split("\n", 1)[1].split("\n\n====")[0]
        page.equal(page.find("#sides pre").get_attribute("textContent"), sample.strip(), "the sample")
        page.check("mean loss" not in page.find("#sides").text.lower(), "no loss of the text beside a step")
        pale = page.js("return getComputedStyle(document.querySelector('#own-next i')).opacity")
        page.equal(float(pale) < .5, at < len(page.js("return all_steps")) - 1, "what is of the last step alone is pale at others")


def links(page, run):
    """A link has the view: layer, head, step, divisor, query, key and text; and what is wrong in one changes nothing."""
    shown = lambda: page.js("return [state.layer, state.head, state.step, divisor_of(state.setting), state.query, state.key, state.locked, text.typed]")
    steps = page.js("return all_steps")
    page.js("location.hash = '#layer=1&head=1&step=0&divisor=3&query=9&key=4'")
    for _ in range(100):
        if shown()[0] == 1:
            break
        time.sleep(.05)
    page.equal(shown(), [1, 1, steps[0], 3, 9, 4, True, None], "the view of a link")
    page.js("show_view('step=20&text=The river%0A')")
    page.equal(shown()[7], "The river\n", "the text of a link")
    page.js("set_text(null); show_view('layer=77&head=NaN&step=nothing&divisor=-1&query=&model=9')")
    page.equal(shown()[:3], [1, 1, 20], "a link that is wrong")
    page.all(".thumb")[2].click()
    page.press(Keys.ESCAPE)
    wanted = "layer=1&head=0&step=20"
    page.check(any(page.js("return location.hash") == "#" + wanted or time.sleep(.05) for _ in range(100)),
               f"the page's address: {page.js('return location.hash')}")
    page.js("show_view(first_view)")


def plays(page):
    """The button and Space go through the steps and stop; who asked for less motion gets one step at a time."""
    steps = page.js("return all_steps")
    until = lambda condition: any(page.js(f"return {condition}") or time.sleep(.05) for _ in range(400))
    page.find("#play").click()
    page.equal(page.text("#play"), "stop", "the button while it plays")
    page.check(page.js("return state.step") in steps[:2], "from the first step")
    page.check(until("playing === null"), "playing ends")
    page.equal([page.js("return state.step"), page.text("#play")], [steps[-1], "play"], "after playing")
    # However slow the browser is, it does not come to the last step between two keys.
    page.js("const by_time = setInterval; window.setInterval = step => by_time(step, 1e8)")
    begin = lambda: page.js("state.step = all_steps[0]; update()")
    begin()
    page.focus("#sides svg")
    page.press(Keys.SPACE)
    page.equal(page.js("return [playing !== null, state.step]"), [True, steps[1]], "Space plays")
    page.press(Keys.SPACE)
    page.check(page.js("return playing === null"), "Space stops")
    for place in "#layer", "#head", "#theme", "#text":
        page.focus(place)
        page.press(Keys.SPACE, Keys.ESCAPE)
        page.check(page.js("return playing === null"), f"Space on {place}")
    page.find("#theme").click()
    page.js("set_text(null)")
    # Wherever the page is, and whatever else has the focus, Space plays and does not scroll.
    for place in "#panel", "#loss", "#setup":
        begin()
        page.js("document.activeElement.blur(); document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", place)
        before = page.js("return scrollY")
        page.press(Keys.SPACE)
        page.equal([page.js("return playing !== null"), page.js("return scrollY")], [True, before], f"Space at {place}")
        page.press(Keys.SPACE)
        page.equal(page.js("return playing === null"), True, f"a second Space at {place}")
    for place in "#step", "#sides .division input", "#loss svg", "nav a":
        begin()
        page.focus(place)
        page.press(Keys.SPACE)
        page.check(page.js("return playing !== null"), f"Space on {place}")
        page.press(Keys.SPACE)
    media = lambda value: page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-reduced-motion", "value": value}]})
    media("reduce")
    page.check(until("less_motion.matches"), "less motion")
    page.focus("#step")
    page.press(Keys.END)
    for step in steps:
        page.find("#play").click()
        page.equal([page.js("return state.step"), page.js("return playing")], [step, None], "the next step")
    media("")


def looked_up(page, run):
    """Of recall: the key and the value of each query, the head that looks them up, the accuracy."""
    T, pairs = page.js("return runs[0].snapshots.T"), int(config(run)["data.recall_pairs"])
    text = page.js("return runs[0].snapshots.text.join('')")
    asked = {q: text.index(text[q]) for q in range(2 * pairs, T, 2)}
    page.check(all(place < 2 * pairs for place in asked.values()), "a record of recall")
    page.equal(len(page.all("#sides .asked")), 2 * len(asked), "keys and values that are marked")
    page.equal(page.js("return state.query"), max(asked), "the last query that asks")
    for kind, place in ("of-key", asked[max(asked)]), ("of-value", asked[max(asked)] + 1):
        page.equal(page.js("return [...document.querySelectorAll('#row .' + arguments[0])].map(e => spans.indexOf(e))", kind),
                   [place], kind)
    logged = dict(snapshots(run))
    weights = logged[max(logged)]["weights"]
    finds = [sum(weights[(head * T + q) * T + place + 1] for q, place in asked.items()) / len(asked) for head in range(4)]
    for n, words in enumerate(t.text for t in page.all(".thumb")):
        said = re.search(r"value asked for (\d+) %", words)
        page.check(said is not None or finds[n] < .405 or "character" in words, f"head {n} looks up: {words}")
        if said:
            page.near([float(said[1])], [100 * finds[n]], .6, "its weight on the values")
    accuracy = [r["val_accuracy"] for r in read_csv(f"{run}/metrics.csv") if r["val_accuracy"]][-1]
    page.check(page.text("#title").endswith(f", accuracy {float(accuracy):.3f}"), f"the accuracy in {page.text('#title')}")


def many_thumbnails(page, run):
    """The heads of one layer at a time, so that the matrix is in sight."""
    page.equal(len(page.all(".thumb")), 12, "thumbnails of one layer")
    page.check(page.find("#layer-control").is_displayed(), "a choice of the layer")
    Select(page.find("#layer")).select_by_visible_text("5")
    page.check("layer 5" in page.text(".thumb[aria-pressed=true]"), "the chosen layer")
    far = page.find("#sides svg").rect["y"] - page.find("#attention").rect["y"]
    page.check(far < 720 / 2, f"the triangle is {far} px below the heading, of the 720 px of a projector")


def never_evaluated(page, run):
    """A run that was evaluated at its end alone has no validation loss at step 0."""
    losses = [r["val_loss"] for r in read_csv(f"{run}/metrics.csv")]
    page.equal([bool(losses[0]), bool(losses[-1])], [False, True], "evaluated at the end")
    page.equal(page.text("#settings tbody tr:first-child td"), f"{float(losses[-1]):.4f}", "the validation loss")
    page.js("state.step = 0; update()")
    page.check("validation loss" not in page.text("#sides"), "no loss at step 0")


def divisors(page, run):
    """The divisor slider and its marks."""
    page.all(".thumb")[0].click()
    page.hover("#sides svg", *page.cell(20, 4))
    steps = dict(snapshots(run))
    raw, T = steps[max(steps)]["scores"], page.js("return runs[0].snapshots.T")
    expected = lambda c: softmax_row(raw[20 * T:20 * T + 21], 1 / c, -math.inf, config(run))
    row = lambda: [x for x in page.row() if not math.isnan(x)]
    page.equal(page.text("#rescored"), "", "no warning at the trained divisor")
    for button, c in enumerate((1, 4, 8, 16)):
        mark(page, button)
        page.near(row(), expected(c), 6e-4, f"the row divided by {c}")
        words = page.find("#sides .division input").get_attribute("aria-valuetext")
        page.equal(words, f"÷ {c}" + ("" if c == 4 else ", trained with ÷ 4"), "the words of the slider")
        if c != 4:
            page.check(re.search("trained model .*not a model that was trained", page.text("#rescored")),
                       "the page says that the model was trained otherwise")
    sixteen = page.text("#sides .figures") + page.text(".thumb[aria-pressed=true]")
    page.focus("#sides .division input")
    page.press(Keys.ARROW_LEFT)
    c = page.js(DIVISOR)
    page.near([c], [16 / 2 ** .25], .05, "the divisor after an arrow key, a quarter of a doubling")
    page.near(row(), expected(c), 6e-4, f"the row divided by {c}")
    page.press(Keys.HOME)
    page.check(page.text("#sides .figures") + page.text(".thumb[aria-pressed=true]") != sixteen, "entropy and largest weight follow the slider")
    page.hover("#sides .division input", .7, .5, click=True)
    page.near(row(), expected(page.js(DIVISOR)), 6e-4, "the row after a click on the slider")
    as_trained(page)
    page.equal(page.js(DIVISOR), None, "as trained")
    page.near(row(), expected(4), 6e-4, "the row as trained")


def curve_at_slider(page):
    """The curve of losses beside the slider: lowest and highest at least .05 apart on its axis, read at the trained divisor,
    a mark where the slider is, and pale at a step whose model is not here."""
    page.js("show_view(first_view)")
    page.check(any(page.js("return Boolean(document.querySelector('#curve svg'))") or time.sleep(.1) for _ in range(600)), "a curve")
    ys = [float(t) for t in page.js("return [...document.querySelectorAll('#curve text[text-anchor=end]')].map(t => t.textContent)")]
    page.check(len(ys) >= 2, f"numbers on the axis: {ys}")
    losses = page.js("return [...current().curve.values()]")
    flat = page.js("const y = make_scale([1, 1.001], false, 0, 1, .05); return y(1.001) - y(1)")
    page.near([flat], [.02], 1e-9, "the height of .001 nats on the axis")
    page.check(max(losses) - min(losses) > 0, "losses")
    page.check(page.text("#curve .legend").startswith("÷ 4:"), f"the trained divisor is read: {page.text('#curve .legend')}")
    place = lambda: float(re.match(r"M([\d.]+)", page.find("#curve .now").get_attribute("d"))[1])
    at_trained = place()
    mark(page, 3)
    page.check(place() > at_trained and page.text("#curve .legend").startswith("÷ 16:"), "the mark at the slider")
    orange = page.js("return getComputedStyle(document.querySelector('#curve .now')).stroke")
    page.equal(orange, "rgb(255, 122, 26)", "its colour")
    as_trained(page)
    page.focus("#step")
    page.press(Keys.HOME)
    page.check(float(page.js("return getComputedStyle(document.querySelector('#curve svg')).opacity")) < .5, "pale at another step")
    page.press(Keys.END)


def levels(page, run):
    """The losses of n-gram tables in the chart of losses, at their heights; none for recall."""
    with open(f"{run}/run.json") as file:
        losses = json.load(file).get("ngram_losses", [])
    page.equal(bool(losses), config(run)["data.task"] == "text", "losses of n-gram tables in run.json")
    rows = [float(r[key]) for r in read_csv(f"{run}/metrics.csv") for key in ("train_loss", "val_loss") if r[key]]
    reach = min(rows) - .05 * (max(rows) - min(rows))
    shown = page.js("return [...document.querySelectorAll('#loss .level')].map(e => e.textContent)")
    names = ("characters", "pairs", "triples", "4-grams")
    page.equal(shown, [f"{name}: {loss:.2f}" for name, loss in zip(names, losses) if reach <= loss <= max(rows)],
               "the levels")
    cut = page.js("""return [...document.querySelectorAll('#loss .level text')].filter(e =>
        e.getBoundingClientRect().right > e.ownerSVGElement.getBoundingClientRect().right).length""")
    page.equal(cut, 0, "labels of levels that are cut off")


def curves(page, run):
    """Hover over the loss chart, and its files."""
    page.all(".thumb")[0].click()
    rows = read_csv(f"{run}/metrics.csv")
    validated = [r for r in rows if r["val_loss"]]
    page.hover("#loss svg", .999, .5)
    for x, r in ((.999, validated[-1]), (.03, validated[0])):
        page.hover("#loss svg", x, .5)
        said = page.text("#loss .legend")
        page.check(f"step {r['step']}" in said, f"step {r['step']} in: {said}")
        numbers = [float(x) for x in re.findall(r"\d+\.\d+", said)]
        page.near(numbers, [float(r["train_loss"]), float(r["val_loss"])], 1e-3, f"the losses of step {r['step']}")
    page.equal(overlaps(page, "#loss svg, #training svg"), [], "words of axes that touch")
    page.focus("#loss svg")
    page.press(Keys.HOME, Keys.ARROW_RIGHT)
    page.check(f"step {rows[1]['step']}" in page.text("#loss .legend"), "the second step by keyboard")
    saved = read_csv(page.saved("#loss [data-save$=csv]"))
    page.near([float(r["y"]) for r in saved if r["series"] == "validation"], [float(r["val_loss"]) for r in validated], 0, "loss.csv")
    for part, name in (("#loss", "nats per character"), ("#attention > .saves", "layer 0, head 0, step 30"), ("#training", "entropy")):
        drawing = xml.parse(page.saved(f"{part} [data-save$=svg]")).getroot()
        page.equal(drawing.tag, "{http://www.w3.org/2000/svg}svg", "the root of an SVG")
        words = " ".join(e.text or "" for e in drawing.iter("{http://www.w3.org/2000/svg}text"))
        page.check(name in words.lower() or name in words, f"{name} in the SVG of {part}")
    saved = read_csv(page.saved("#attention > .saves [data-save$=csv]"))
    steps, T = dict(snapshots(run)), page.js("return runs[0].snapshots.T")
    logged = steps[max(steps)]
    page.near([float(r["weight"]) for r in saved], [logged["weights"][q * T + k] for q in range(T) for k in range(q + 1)], 1e-4, "attention.csv")
    page.near([float(r["raw_score"]) for r in saved], [logged["scores"][q * T + k] for q in range(T) for k in range(q + 1)], 0, "raw scores")


def appearance(page):
    """The focus ring of a matrix is inside it, and signs for blanks are lifted off the next character."""
    page.focus("#sides svg")
    page.press(Keys.ARROW_UP)
    page.equal(page.js("return getComputedStyle(matrix.svg).outlineOffset"), "-2px", "the focus ring")
    blanks = page.js("return runs[0].snapshots.text.filter(c => c === ' ').length")
    page.equal(len(page.all("#sides .blank")), 2 * blanks, "signs for blanks")


def unscripted(browser, path):
    """Without its script the page says so, and has no control that does nothing."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    with open("unscripted.html", "w", encoding="utf-8") as file:
        file.write(whole[:whole.rindex("<script>")])
    page = Page(browser, os.path.abspath("unscripted.html"))
    page.check("Here it is switched off" in page.text("body"), "the page says that its script did not run")
    page.check(page.text("#why").startswith("Scores divided by √d_k = 4: "), f"the first sentence of `why`: {page.text('#why')}")
    page.equal([e.tag_name for e in page.all("button, input, select, section, nav") if e.is_displayed()], [], "dead controls")


def damaged(browser, path):
    """A page whose data are damaged says so where the part would be, and shows the others."""
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split('<script type="application/json" id="data">')
    text, after = rest.split("</script>", 1)
    run = lambda data: data["runs"][0]
    def cut_scores(data): run(data)["snapshots"]["scores"] = run(data)["snapshots"]["scores"][:-400]
    def no_base64(data): run(data)["snapshots"]["scores"] = "%" + run(data)["snapshots"]["scores"][1:]
    def other_text(data): run(data)["snapshots"]["text"] += "x"
    def few_sinks(data): run(data)["snapshots"]["sink"].pop()
    def no_steps(data): run(data)["snapshots"]["steps"] = None
    def cut_parameters(data): run(data)["model"]["parameters"] = run(data)["model"]["parameters"][:-4]
    def bad_parameters(data): run(data)["model"]["parameters"] = "***"
    def code_point(data): run(data)["model"]["vocabulary"][3] = 0x110000
    def no_code_point(data): run(data)["model"]["vocabulary"][3] = "c"
    def same_code_point(data): run(data)["model"]["vocabulary"][3] = run(data)["model"]["vocabulary"][4]
    def tensor_size(data): run(data)["model"]["tensors"][0][1] += 1
    def tensor_name(data): run(data)["model"]["tensors"][4][0] = "h.0.attn.other"
    def tensor_list(data): run(data)["model"]["tensors"] = {}
    def window(data): run(data)["model"]["excerpt"][1]["tokens"][2] = 5000
    def log(data): run(data)["metrics"] = 7
    def more_fields(data): run(data)["metrics"] = run(data)["metrics"].rstrip() + ",1,2,3\n"
    def no_config(data): run(data)["config"] = None
    def no_settings(data): data["settings"] = None
    def no_samples(data): run(data)["samples"][1] = {"step": 1}
    snapshots_lost, model_lost = ("The attention of", ("#loss svg",)), ("not in this page: its data in this page are damaged", ("#sides svg", "#loss svg"))
    faults = {snapshots_lost: [cut_scores, no_base64, other_text, few_sinks, no_steps],
              model_lost: [cut_parameters, bad_parameters, code_point, no_code_point, same_code_point, tensor_size, tensor_name,
                           tensor_list, window],
              ("", ("#sides svg",)): [log, more_fields], ("The attention of", ("#loss svg", "#training svg")): [no_samples],
              ("Nothing can be shown: the data of this page are damaged", None): [no_config, no_settings, "cut", "not JSON"],
              ("the file is cut short", None): ["no script"]}
    for (words, shown), changes in faults.items():
        for change in changes:
            data = text
            if callable(change):
                parsed = json.loads(text)
                change(parsed)
                data = json.dumps(parsed).replace("<", "\\u003c")
            else:
                data = {"cut": text[:len(text) // 2], "not JSON": "{]", "no script": text[:len(text) // 2]}[change]
            name = change if isinstance(change, str) else change.__name__
            with open("damaged.html", "w", encoding="utf-8") as file:
                file.write(before + '<script type="application/json" id="data">' + data + ("" if name == "no script" else "</script>" + after))
            page = Page(browser, os.path.abspath("damaged.html"))
            there = lambda: words in page.text("body")
            page.check(any(there() or time.sleep(.05) for _ in range(100)), f"{name}: the page says “{words}”: {page.text('body')[:300]}")
            if shown is not None:
                page.quiet()
                page.check("undefined" not in page.text("body"), f"{name}: undefined")
            for part in shown or ():
                page.check(page.all(part), f"{name}: {part} is there")
    print("damaged.html: all faults named", flush=True)


def like_a_header(browser, run):
    """A text in samples.txt that looks like the line before a sample is part of its sample."""
    shutil.rmtree("lookalike", ignore_errors=True)
    shutil.copytree(run, "lookalike", symlinks=True)
    line = "\n==== step 7, validation loss 1 ====\n"
    with open("lookalike/samples.txt", encoding="utf-8") as file:
        said = file.read()
    first = said.index("====\n") + 5
    tokens = int(config(run)["log.sample_tokens"])
    with open("lookalike/samples.txt", "w", encoding="utf-8") as file:
        file.write(said[:first] + (line + "x" * tokens)[:tokens] + said[first + tokens:])
    with open("lookalike/run.json", "r+") as file:
        description = json.load(file) | {"result": "running"}
        file.seek(0)
        json.dump(description, file)
        file.truncate()
    train("report", "lookalike")
    page = Page(browser, os.path.abspath("lookalike/report.html"))
    steps = [int(r["step"]) for r in read_csv(f"{run}/metrics.csv") if r["val_loss"]]
    page.equal(page.js("return runs[0].samples.map(s => s.step)"), steps, "the steps of samples")
    page.check("not finished: step 30 of 30" in page.text("#loss-value"), f"how far the run is: {page.text('#loss-value')}")
    page.equal(page.js("return runs[0].samples[0].text"), (line + "x" * tokens)[:tokens], "a text like a header")
    page.quiet()


def no_network(page):
    """The content security policy stands: nothing could be loaded even by a script of the page's own."""
    blocked = page.browser.execute_async_script("""const done = arguments[0];
        document.addEventListener("securitypolicyviolation", event => done(event.effectiveDirective), {once: true});
        document.body.append(Object.assign(new Image(), {src: "http://127.0.0.1:9/"}));""")
    page.equal(blocked, "img-src", "what the policy blocks")
    page.browser.get_log("browser")


def side_by_side(page, settings):
    """The same query under several settings: hover and lock go with all matrices, a click chooses a setting, and so
    does a thumbnail."""
    shown = min(settings, 4)
    page.equal(len(page.all("#sides svg")), shown, "matrices side by side")
    marks = lambda: page.js("return sides.map(s => s.chosen.getAttribute('d').match(/M[\\d.]+ [\\d.]+/g).join())")
    at = lambda query, key: page.js("""const s = sides[0], m = s.svg.viewBox.baseVal; return [
        (s.left + (arguments[1] + .5) * s.cell) / m.width, (s.top + (arguments[0] + .5) * s.cell) / m.height]""", query, key)
    page.hover("#sides figure:first-child svg", *at(9, 4))
    crosses = lambda query, key: page.js("""return sides.map(({left, top, cell}) => `M${left} ${top + arguments[0] * cell},` +
        `M${left + arguments[1] * cell} ${top + arguments[1] * cell}`)""", query, key)
    page.equal(marks(), crosses(9, 4), "the crosses of query 9, key 4")
    weights = page.js("return sides.map(s => s.a.w[9 * s.T + 4])")
    said = [float(re.search(r"weight ([\d.]+)", p.text)[1]) for p in page.all("#sides .words")]
    page.near(said, weights, 6e-4, "the weights below the triangles")
    page.hover(f"#sides figure:nth-child({shown}) svg", *at(12, 7), click=True)
    page.equal(page.js("return [state.setting, state.locked]"), [page.js("return sides.at(-1).at"), True], "the setting of a click")
    page.hover("#sides figure:first-child svg", *at(5, 2))
    page.equal(marks(), crosses(12, 7), "the crosses while locked")
    page.press(Keys.ESCAPE)
    mark(page, 3)
    now = [h.text for h in page.all("#sides h3") if "now ÷" in h.text]
    page.equal([words.split(", ")[-1] for words in now], ["now ÷ " + str(page.js("return current().d_k"))],
               "the divisor beside the setting's own name")
    as_trained(page)


def one_screen(page, settings):
    """The panel, the triangles and what the models write are on one screen of a projector; the panel stays there."""
    for width, height in (1280, 720), (1024, 768):
        page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        page.js("scrollTo(0, 0)")
        below = page.js("""return Math.max(...[...document.querySelectorAll('#panel, #sides figure, #sides pre, #sides .histogram')]
            .map(e => e.getBoundingClientRect().bottom))""")
        page.check(below <= height or settings > 4, f"the lowest of them at {below} px of {height}")
        tops = page.js("return [...document.querySelectorAll('#sides svg')].map(e => e.getBoundingClientRect().top)")
        page.equal(len(set(tops)), 1, f"rows of triangles at {width} px")
        page.check(page.find("#step-value").rect["height"] >= 40, "a large step")
        page.js("document.querySelector('#row').scrollIntoView({block: 'end'})")
        page.near([page.js("return document.querySelector('#panel').getBoundingClientRect().top")], [0], 1, "the panel is in sight")
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def sweep_words(page, path):
    """The opening view and the words of a sweep with √d_k and without a divisor, which has one name."""
    page.equal(page.js("return current().keys['attention.scale_divisor']"), "sqrt_dk", "√d_k at first")
    page.check("(none)" not in page.text("h1") + page.text("main"), "one name of the undivided model")
    page.check(page.text("#why") != "", "the first sentence of `why`")
    for at, color in enumerate(page.js("return settings.map(s => s.color)")):
        divisor = page.js("return run_of(settings[arguments[0]]).keys['attention.scale_divisor']", at)
        page.equal(color, {"none": "#dc6a14", "sqrt_dk": "#0072b2", "dk": "#500088", "2sqrt_dk": "#285400"}[divisor], f"the colour of {divisor}")


def order(page, first):
    """A page begins with attention; a comparison begins with the table of the keys that differ."""
    page.equal(page.js("return document.querySelector('main > section').id"), first, "the first section")
    page.equal(page.js("return document.querySelector('nav a').getAttribute('href')"), "#" + first, "the first link")


def numbers_and_lines(page):
    """A zero has no sign, a column has equal digits, and only a line feed ends a line of a config."""
    page.equal(page.js("return [fixed(-1e-5), fixed(-1.25, 1), fixed(-0.004, 2), even(1), even(0.9954)]"),
               ["0.0000", "-1.3", "0.00", "1.000", "0.9954"], "numbers in tables")
    page.equal(page.js("return read_ini('[log]\\nout = a\\u2028every = 3\\nevery = 4\\n')"),
               {"log.out": "a\u2028every = 3", "log.every": "4"}, "lines of a config")


def sweep_page(page, settings):
    numbers_and_lines(page)
    legend = lambda: [li.text for li in page.all("#loss .legend li")][1:]
    for x in range(1, 20):
        page.hover("#loss svg", .05 * x, .5)
        page.check(legend() and all(re.search(r"\S: \d+\.?\d*( |$)", words) for words in legend()), f"values at {x}: {legend()}")
    side_by_side(page, settings)
    page.equal(len(page.all("#settings tbody tr")), settings, "rows of the table")
    Select(page.find("#model")).select_by_index(settings - 1)
    page.equal(page.js("return state.setting"), settings - 1, "the chosen model")
    page.equal(len(page.all(".thumb")), 4, "thumbnails of the chosen model")
    Select(page.find("#layer")).select_by_visible_text("1")
    page.check("layer 1" in page.text(".thumb[aria-pressed=true]"), "the chosen layer")
    page.all(".thumb")[1].click()
    page.equal(page.js("return [state.layer, state.head]"), [0, 1], "the head of a thumbnail")
    page.check(len(read_csv(page.saved("#settings [data-save$=csv]"))) == settings, "settings.csv")


# --- pages

def make(name, *keys, **config):
    run = shared.make(name, *keys, **config)
    if not os.path.exists(f"{run}/report.html"):
        train("report", run)
    return run


def run_page(browser, name, *keys, check=None, limit=1e6, **config):
    run = make(name, *keys, **config)
    page = Page(browser, f"{run}/report.html")
    if name not in ("standard", "large"):
        right_weights(page, run)
    page.equal(page.find("#sides .division").is_displayed(), name != "additive", "a divisor slider")
    if name in ("default", "recall"):
        levels(page, run)
    if check:
        check(page, run)
    page.finish(limit)
    return page


def interact(page, run):
    order(page, "attention")
    controls(page, run)
    divisors(page, run)
    histogram(page, run)
    at_that_step(page, run)
    links(page, run)
    curve_at_slider(page)
    plays(page)
    appearance(page)
    curves(page, run)


def hostile(page, run):
    page.equal(page.js("return runs[0].snapshots.text.join('')"), HOSTILE[:48], "the text")
    page.check("\u202e" not in page.js("return document.body.textContent"), "bidi marks are not shown as they are")


def large(page, run):
    said = re.search(r"the attention of (\d+) of 26 steps and 8 of 8 layers", page.text("#notes"))
    page.check(said and int(said[1]) < 26, f"the page says what it leaves out: {page.text('#notes')}")
    page.equal(page.js("return [runs[0].snapshots.steps.at(0), runs[0].snapshots.steps.at(-1)]"), [0, 25], "first and last step")


def differences(page, *runs):
    """The list of the keys that differ has every key of config.ini that does, and no other, with the value of each run."""
    configs = [config(run) for run in runs]
    keys = [key for key in configs[0] if len({each[key] for each in configs}) > 1
            and key not in ("log.out", "attention.switch_divisor")]
    cells = page.js("return [...document.querySelectorAll('#differences tr')].map(row => [...row.cells].map(c => c.textContent))")
    page.equal(cells[0], ["run", *keys], "the keys that differ")
    page.equal([row[1:] for row in cells[1:]], [[each[key] for key in keys] for each in configs], "their values")
    page.check(not page.js("return document.querySelector('#differences').open"), "they are shown on request")
    page.find("#differences summary").click()


def sweep(browser, name, section, settings):
    with open(name + ".ini", "w") as file:
        file.write(TINY + "[sweep]\n" + section)
    train("sweep", name + ".ini", "--out", os.path.abspath(name), "--force", "--quiet")
    page = Page(browser, os.path.abspath(f"{name}/report.html"))
    order(page, "attention")
    sweep_words(page, page.path)
    sweep_page(page, settings)
    one_screen(page, settings)
    differences(page, *(os.path.join(name, run) for run in page.js("return runs.map(run => run.name)")))
    page.finish(2e6)


def compare(browser, *names):
    for name in names:
        make(name, *SCORES.get(name, []))
    train("report", *names, "--out", "comparison.html")
    page = Page(browser, os.path.abspath("comparison.html"))
    order(page, "settings")
    for index, name in enumerate(names):
        right_weights(page, os.path.abspath(name), index)
    sweep_page(page, len(names))
    heads = [th.text for th in page.all("#settings thead th")]
    page.check(heads.index("validation loss") < heads.index("softcap"), f"the losses before the keys that differ: {heads}")
    page.check("nats per" in heads and "cannot be compared" in page.text("#words"), "a text and recall have units of their own")
    digits = [cell.text for cell in page.all("#settings td, #setup td") if re.fullmatch(r"\d*\.\d{8,}", cell.text)]
    page.equal(digits, [], "numbers with digits that rounding has added")
    page.equal([th.text for th in page.all("#settings tbody th")], ["task text, softcap 0", "task text, softcap 2", "task recall, softcap 0"],
               "runs called by what differs in them")
    differences(page, *names)
    page.finish(1e6)


def stopped(browser):
    """Runs whose logs are short: of one that was stopped before its first row, in a directory with a long name that was
    moved there; and of one that diverged at once."""
    run = os.path.abspath("moved to a directory with a name that is " + 9 * "long_and_" + "longer #1 100%")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(make("before"), run, symlinks=True)
    shutil.rmtree(f"{run}/attention")
    os.remove(f"{run}/samples.txt")
    for name in ("metrics", "attention"):
        with open(f"{run}/{name}.csv", "r+") as file:
            file.readline()
            file.truncate(file.tell())
    with open(f"{run}/run.json", "r+") as file:
        description = json.load(file) | {"result": "running"}
        file.seek(0)
        json.dump(description, file)
        file.truncate()
    train("report", run)
    page = Page(browser, f"{run}/report.html")
    page.check("No attention was logged" in page.text("#attention"), "no attention")
    page.finish(1e6)
    run = make("diverged", "train.lr=1e6", "train.warmup=0", "train.grad_clip=0", "train.optimizer=sgd")
    train("report", run, os.path.abspath("before"), "--out", "stopped.html")
    for path in (f"{run}/report.html", os.path.abspath("stopped.html")):
        page = Page(browser, path)
        page.check("diverged" in page.text("body"), "the page says that the run diverged")
        if path.endswith("stopped.html"):
            page.equal([th.text for th in page.all("#settings tbody th")], ["diverged", "before"], "runs that differ in much are called by their directories")
        page.finish(1e6)


def overlaps(page, selector):
    """Pairs of words in a drawing of which one covers a part of the other."""
    return page.js("""return [...document.querySelectorAll(arguments[0])].flatMap(svg => {
        const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
        return boxes.flatMap(([a, x], i) => boxes.slice(i + 1).filter(([, y]) => x.left < y.right - 1 && y.left < x.right - 1
            && x.top < y.bottom - 1 && y.top < x.bottom - 1).map(([b]) => a + " / " + b));
    })""", selector)


def main(browser, wanted):
    with open("hostile.txt", "w", encoding="utf-8", newline="") as file:
        file.write((HOSTILE + "plain words\n") * 200)
    config_of = os.path.join(ROOT, "configs/dk64_scaled.ini")
    checks = {"recall": looked_up, "grid": many_thumbnails, "never": never_evaluated}
    pages = {"default": lambda: no_network(run_page(browser, "default", check=interact))}
    for name, keys in SCORES.items():
        pages[name] = lambda name=name, keys=keys: run_page(browser, name, *keys, check=checks.get(name))
    pages |= {
        "hostile": lambda: run_page(browser, "hostile", "model.context=48", "data.corpus=hostile.txt",
                                    "log.attention_text=" + quoted(HOSTILE[:48]), check=hostile),
        "stopped": lambda: stopped(browser),
        "two": lambda: sweep(browser, "two", "attention.scale_divisor = none, sqrt_dk\ntrain.seed = 1, 2\n", 2),
        "twelve": lambda: sweep(browser, "twelve", "attention.scale_divisor = none, sqrt_dk, 2sqrt_dk, dk\n"
                                "train.lr = 1e-3, 3e-3, 1e-2\n", 12),
        "compare": lambda: compare(browser, "default", "softcap", "recall"),
        "damaged": lambda: damaged(browser, make("default") + "/report.html"),
        "lookalike": lambda: like_a_header(browser, make("default")),
        "unscripted": lambda: unscripted(browser, make("default") + "/report.html"),
        # Its page is as large as that of the config itself, whose steps take longer.
        "standard": lambda: run_page(browser, "standard", "train.batch=1", "eval.batches=2", "model.d_model=32",
                                     "model.d_k=16", config=config_of),
        "large": lambda: run_page(browser, "large", "model.layers=8", "model.heads=8", "model.context=48", "train.batch=1",
                                  "train.steps=25", "log.attention_every=1", "eval.every=25", check=large, limit=1e7),
    }
    for name in wanted or pages:
        pages[name]()


arguments = sys.argv[1:]
picture = [os.path.abspath(path) for path in arguments[1:]] if arguments[:1] == ["--picture"] else None
keep = arguments[:1] == ["--keep"]
with chromium(arguments) as browser:
    if picture:
        page = Page(browser, picture[0])
        page.js("$('curve').scrollIntoView()")
        while not page.js("return Boolean(current().curve && document.querySelector('#curve svg'))"):
            time.sleep(.1)
        page.js("$('sides').after(el('div', {id: 'end'}))")
        page.save(picture[1], "body", page.find("#end").rect["y"])
    else:
        main(browser, arguments)
if not picture:
    end()
