#!/usr/bin/python3
"""The model in report.html: what its decoder computes, and what a reader does with it, in headless Chromium.

    lab/tests/report_decoder.py [--keep DIR] [CASE...]     CASE: additive, post, text, sizes, ...; all of them without any

It needs ./train, build/gcc/logits (`make build/gcc/logits`) and Debian's python3-selenium and chromium-driver.

Logits of every way to score, both norms, without biases, untied, with ReLU and with other sizes are compared with the
program's for the same parameters, rounded to fp16, as trained and under another divisor. lab/tests/report_page.py checks
what holds for every page.
"""
import glob, json, math, os, pathlib, re, subprocess, sys, time, unicodedata

from selenium.webdriver.common.by import By

from browser import ROOT, TINY, Page, chromium, end, make, train

LOGITS = os.path.join(ROOT, "build/gcc/logits")
SMALL = ("model.d_model=32", "model.d_k=16", "model.context=24", "train.batch=4", "train.steps=30", "eval.batches=2",
         "log.sample_tokens=0", "log.attention_text=")
MODELS = {
    "default": [],
    "post": ["model.norm=post"],
    "no_bias": ["model.bias=no"],
    "untied": ["model.tie_embeddings=no"],
    "relu": ["model.activation=relu"],
    "all": ["model.norm=post", "model.bias=no", "model.tie_embeddings=no", "model.activation=relu"],
    "odd": ["model.layers=3", "model.heads=3", "model.d_model=30", "model.d_k=7", "model.d_ff=33"],
    "position": ["model.context=1"],
    "switch": ["attention.switch_step=20", "attention.switch_divisor=none"],
    "learned_layer": ["attention.scale_learned=layer", "attention.scale_length=log", "attention.sink=learned"],
    "additive_norm": ["attention.score=additive", "attention.qk_norm=rms", "attention.softcap=3"],
}
HOSTILE = "</script><!--'\"&lt;\u202e\u2066\x85中文😀e\u0301\t{{data}} ]]>"
TEXT = "The river does not wait for the ferry, and the ferry waits."


def program_logits(run, text, *divisor):
    done = subprocess.run([LOGITS, run, *map(str, divisor)], input=text.encode(), capture_output=True, check=True)
    return [[float(x) for x in line.split()] for line in done.stdout.decode().splitlines()]


def softmax(logits):
    e = [math.exp(x - max(logits)) for x in logits]
    return [x / sum(e) for x in e]


def loss(logits, target):
    return -math.log(softmax(logits)[target])


class ModelPage(Page):
    """A page whose model has computed what it shows."""

    def __init__(self, path):
        super().__init__(browser, path)
        if self.js("return has_model(current())"):
            self.wait("return text.painted && following && following.next().done")

    def wait(self, script):
        for _ in range(2400):
            if self.js(script):
                return
            time.sleep(.05)
        self.check(False, f"waited for: {script}")

    def element(self, name):
        return browser.find_element(By.ID, name)

    def type(self, text):
        """Puts a text into the field as typing does."""
        self.js("$('text').value = arguments[0]; $('text').dispatchEvent(new Event('input', {bubbles: true}))", text)
        self.wait("return following.next().done")

    def divide(self, divisor):
        self.js("settings[state.setting].divisor_now = arguments[0]; update()", divisor)
        self.wait("return following.next().done")

    def finish(self):
        self.quiet()
        print(self.name, flush=True)


# --- the decoder

def right_logits(page, run, text):
    """As trained, and under another divisor; also of a text that is longer than the context, and read by characters."""
    differences = []
    for words, divisor in ((text, []), (text * 3, []), (text, [3])):
        came = page.js("return sqrtdk.logits(...arguments)", words, *divisor)
        differences.append(page.near(sum(came, []), sum(program_logits(run, words, *divisor), []), 1e-3,
                                     f"logits of {len(words)} characters, divisor {divisor}"))
    one_by_one = page.js("""const m = model_of(current()), r = make_reading(m, null), ids = [...arguments[0]].map(c => m.ids.get(c));
        for (let n = 1; n <= Math.min(ids.length, m.T); n++) for (const _ of read(r, ids.slice(0, n)));
        return r.logits.map(row => [...row])""", text)
    together = page.js("return sqrtdk.logits(arguments[0].slice(0, model_of(current()).T))", text)
    page.near(sum(one_by_one, []), sum(together, []), 1e-9, "logits with keys and values that were kept")
    print(f"{page.name}: logits within {max(differences):.1e}")


def model_case(name, *keys, **config):
    run = make(name, *keys, **config)
    page = ModelPage(f"{run}/report.html")
    right_logits(page, run, "abcQRaXb" if "data.task=recall" in keys else TEXT)
    page.finish()


def cost_of_fp16():
    """The validation loss by the page's decoder and by `eval`, over the whole split."""
    run = make("cost", "train.steps=300", config=os.path.join(ROOT, "configs/dk64_scaled.ini"))
    page = ModelPage(f"{run}/report.html")
    with open(os.path.join(ROOT, "data/sallow_reach.txt"), encoding="utf-8") as file:
        text = file.read()
    # The split begins where the characters that `eval` counts say.
    said = train("eval", run)
    split = len(text) - int(len(text) * .1)
    total = page.js("""const m = model_of(current()), ids = Array.from(arguments[0], c => m.ids.get(c));
        let sum = 0, count = 0;
        for (let from = 0; from + 1 < ids.length; from += m.T) {
            const r = make_reading(m, null);
            for (const _ of read(r, ids.slice(from, from + m.T)));
            ids.slice(from + 1, from + m.T + 1).forEach((id, t) => { sum += cross_entropy(r.logits[t], id); count++; });
        }
        return [sum / count, count]""", text[split:])
    print(f"page: {total}; eval: {said.strip()}")
    with open(f"{run}/run.json", encoding="utf-8") as file:
        logged = json.load(file)["val_loss"]
    page.near([total[0]], [logged], .002, "what fp16 costs")
    print(f"fp16: {total[0] - logged:+.6f} nats")


# --- the page

def own_text():
    run = make("text", "log.every=5")
    page = ModelPage(f"{run}/report.html")
    ids = {c: i for i, c in enumerate(json.load(open(f"{run}/vocab.json", encoding="utf-8")))}
    words = lambda: page.element("own-words").text
    initial = page.js("return runs[0].snapshots.text.join('')")
    page.check(initial == page.js("return $('text').value"), "the run's text in the field")
    page.check(page.js("return runs[0].own === undefined"), "the logged scores are shown at first")
    short = "river bank"
    page.type(short)
    logits = program_logits(run, short)
    losses = [loss(logits[i], ids[c]) for i, c in enumerate(short[1:])]
    page.near(page.js("return runs[0].losses.slice(1)"), losses, 1e-3, "losses")
    page.check(f"{sum(losses) / len(losses):.2f}" in words(), f"the mean loss in: {words()}")
    page.check(page.js("return matrix.text") == short, "the text of the matrix")
    likeliest = sorted(softmax(logits[-1]), reverse=True)[:10]
    bars = [float(li.text.split()[-1]) for li in browser.find_elements(By.CSS_SELECTOR, "#own-next li")]
    page.near(bars, likeliest, 2e-3, "the next characters")
    for divisor in (1, 16):
        page.divide(divisor)
        logits = program_logits(run, short, divisor)
        page.near(page.js("return runs[0].losses.slice(1)"), [loss(logits[i], ids[c]) for i, c in enumerate(short[1:])], 1e-3,
                  f"losses divided by {divisor}")
        page.near(page.js("return [...runs[0].reading.logits.at(-1)]"), logits[-1], 1e-3, f"what comes next, divided by {divisor}")
    # Layer 1 gets another input under another divisor, so its raw scores change.
    deep = page.js("return Array.from(attend(runs[0], 0, 1, 0, divisor_of(state.setting)).raw)")
    page.divide(None)
    page.check(max(abs(a - b) for a, b in zip(deep, page.js("return Array.from(attend(runs[0], 0, 1, 0, null).raw)"))) > 1e-3,
               "the second layer's raw scores follow the divisor")
    rows = page.js("const a = matrix.a; return a.rows.map((_, q) => a.w.slice(q * a.T, q * a.T + q + 1).reduce((x, y) => x + y))")
    page.near(rows, [1] * len(short), 1e-9, "rows of weights")

    page.js("state.step = 0; update()")
    page.check(page.js("return matrix.text") == initial and "step 30" in words(), f"an earlier step shows what was logged: {words()}")
    page.js("state.step = all_steps.at(-1); update()")
    page.check(page.js("return matrix.text") == short, "the last step shows the text again")

    long = (TEXT * 2)[:70]
    page.type(long)
    windows = [program_logits(run, long[i:i + 24]) for i in range(0, 70, 24)]
    expected = [loss(row, ids[long[24 * n + t + 1]]) for n, w in enumerate(windows) for t, row in enumerate(w) if 24 * n + t + 1 < 70]
    page.near(page.js("return runs[0].losses.slice(1)"), expected, 1e-3, "losses of a text of several windows")
    page.check(page.js("return matrix.text") == long[-24:], "the last characters in the matrix")
    page.near(page.js("return [...runs[0].reading.logits.at(-1)]"), program_logits(run, long)[-1], 1e-3, "what comes next")

    page.type(HOSTILE + "the")
    page.check(page.js("return document.body.textContent.includes('\u202e')") is False, "no bidi characters in the page")
    page.check(page.js("return $('text').value.includes('\u202e')") is False, "no bidi characters in the field")
    unknown = [c for c in HOSTILE if c not in ids]
    page.check(len(browser.find_elements(By.CSS_SELECTOR, "#own-losses del")) == len(unknown), "unknown characters are marked")
    named = words().split("do not know them: ")[-1]
    page.check(all(c in named for c in unknown if c.isprintable() and not unicodedata.combining(c)), f"and named: {words()}")
    page.type("中")
    page.check(browser.find_elements(By.CSS_SELECTOR, "#own-next li") == [], "nothing comes after nothing")
    page.type("")
    page.js("$('own-reset').click()")
    page.wait("return following.next().done")
    page.check(page.js("return runs[0].own === undefined && [matrix.text, $('text').value]") == [initial] * 2, "the run's text again")
    page.check(page.js("try { sqrtdk.logits('中'); } catch (error) { return error.message; }") ==
               "the text has a character that the model does not know", "logits() refuses unknown characters")

    # Writing at temperature 0, as sample continues a window.
    page.type(short)
    page.js("settings[state.setting].divisor_now = 2; $('temperature').value = 0; $('temperature').dispatchEvent(new Event('input')); $('write').click()")
    page.check(page.element("write").text == "stop", "the button stops")
    page.wait("return $('write').textContent !== 'stop'")
    window, written, characters = short, short, list(ids)
    for _ in range(200):
        row = program_logits(run, window, 2)[-1]
        written += characters[row.index(max(row))]
        window = (window[12:] if len(window) == 24 else window) + written[-1]
    page.check(page.js("return $('text').value") == written, f"written: {page.js('return $(`text`).value')!r}, expected {written!r}")
    page.js("$('write').click(); $('text').dispatchEvent(new Event('input'))")
    page.check(page.js("return text.writing === null"), "typing stops the writing")
    page.type((TEXT * 40)[:1990])
    page.js("$('write').click()")
    page.wait("return text.writing === null && following.next().done")
    page.equal(page.js("return [$('text').value.length, $('write').disabled]"), [2000, True], "writing ends where the field is full")
    page.type(short)
    page.check(page.element("write").is_enabled(), "a shorter text may be continued")

    page.divide(None)
    browser.execute_script("$('curve').scrollIntoView()")
    page.wait("return runs[0].curve && $('curve-chart').firstChild")
    curve = page.js("return [...runs[0].curve]")
    page.near(sorted(x for x, _ in curve if abs(2 * math.log2(x / 4) % 1) < 1e-9), [4 * 2 ** (i / 2 - 4) for i in range(17)], 1e-6, "divisors")
    excerpt = page.js("return runs[0].model.excerpt")
    characters = list(ids)
    page.check(len(excerpt) == 8, "eight windows")
    for divisor in (4, 1, 64):
        losses = []
        for window in excerpt:
            rows = program_logits(run, "".join(characters[i] for i in window["tokens"]), *([] if divisor == 4 else [divisor]))
            losses += [loss(row, target) for row, target in zip(rows, window["targets"])]
        page.near([min(curve, key=lambda point: abs(point[0] - divisor))[1]], [sum(losses) / len(losses)], 1e-4, f"the curve at {divisor}")
    ticks = [text for text in page.js("return [...document.querySelectorAll('#curve text:not([text-anchor=end])')].map(e => e.textContent)")]
    page.equal(ticks, ["1", "4", "8", "16"], "the divisors that are named on the axis")
    place = lambda mark: float(re.match(r"M([\d.]+)", mark)[1])
    marks = lambda kind: [place(d) for d in page.js("return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute('d'))", kind)]
    page.divide(8)
    page.near(marks("#curve .now"), [sorted(marks("#curve .mark:not(.now)"))[2]], 1e-6, "the slider's place on the curve")
    at = f"{min(curve, key=lambda point: abs(point[0] - 8))[1]:.4g}".rstrip("0")
    page.check(re.search(f"÷ 8:\\s+loss of an excerpt: {re.escape(at)}", page.element("curve").text), f"the loss there, {at}: {page.element('curve').text}")
    page.divide(None)
    page.near(marks("#curve .now"), [sorted(marks("#curve .mark:not(.now)"))[1]], 1e-6, "its place as trained")
    page.finish()


def recall():
    run = make("recall", "data.task=recall", "data.recall_pairs=4")
    page = ModelPage(f"{run}/report.html")
    counted = page.js("return runs[0].snapshots.text.map((_, i) => i).filter(i => i && counts(runs[0], i))")
    page.check(counted == [i for i in range(9, 24, 2)], f"answers that count: {counted}")
    targets = page.js("return runs[0].model.excerpt.map(w => w.targets.map((t, i) => t < 0 ? -1 : i).filter(i => i >= 0))")
    page.check(all(t == [i - 1 for i in counted] for t in targets), f"the targets of the excerpt: {targets[0]}, {counted}")
    right_logits(page, run, "aQbRcSdTaQ")
    page.finish()


def left_out():
    """A model or text that is too large, not wanted, missing or changed is omitted, and the page says why."""
    run = make("left", "log.page_model=no")
    for change, why in (
            (lambda: None, "log.page_model = no"),
            (lambda: replace(f"{run}/config.ini", "page_model = no", "page_model = auto"), ""),
            (lambda: replace(f"{run}/config.ini", 'corpus = ""', 'corpus = "/nowhere/text.txt"'), "There is no curve of losses"),
            (lambda: os.remove(f"{run}/checkpoint/last.safetensors"), "the run has no checkpoint")):
        change()
        train("report", run)
        page = ModelPage(f"{run}/report.html")
        came = page.element("own-note").text
        page.check(why in came and bool(why) == bool(came), f"{why!r} in {came!r}")
    page.finish()
    large = make("large", "model.d_model=256", "train.steps=1", "train.batch=1", "model.layers=2")
    page = ModelPage(f"{large}/report.html")
    page.check("more than 2 MB" in page.element("own-note").text, page.element("own-note").text)
    page.check(os.path.getsize(f"{large}/report.html") < 1e6, "a page without it")
    replace(f"{large}/config.ini", "page_model = auto", "page_model = yes")
    train("report", large)
    page = ModelPage(f"{large}/report.html")
    page.check(page.element("own-note").text == "" and page.js("return sqrtdk.logits('the').length") == 3, "yes takes it in")
    page.finish()


def replace(path, old, new):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    assert old in text, (path, old)
    pathlib.Path(path).write_text(text.replace(old, new), encoding="utf-8")


def sweep():
    """The models of all settings read the text; those that would make the page too large are left out."""
    for name, more, there in (("few", "", [True, True]), ("many", "model.d_model = 200\nmodel.layers = 2\n", None)):
        with open(f"{name}.ini", "w") as file:
            file.write(TINY.replace("d_model = 32", "d_model = 200" if more else "d_model = 32").replace("steps = 30", "steps = 2") +
                       "[sweep]\nattention.scale_divisor = none, sqrt_dk" + (", dk, 2sqrt_dk\n" if more else "\n") + "train.seed = 1, 2\n")
        out = os.path.abspath(name)
        train("sweep", f"{name}.ini", "--out", out, "--force", "--quiet", "--jobs", "1")
        page = ModelPage(f"{out}/report.html")
        has = page.js("return settings.map(setting => has_model(run_of(setting)))")
        if more:
            page.check(True in has and False in has, f"some settings have a model: {has}")
            page.check(os.path.getsize(f"{out}/report.html") < 6e6, f"{os.path.getsize(f'{out}/report.html')} bytes")
            page.js("state.setting = settings.findIndex(setting => !has_model(run_of(setting))); update()")
            page.check("too large" in page.element("own-note").text, page.element("own-note").text)
        else:
            page.check(has == there, f"every setting has a model: {has}")
            page.type("ferry")
            page.check(page.js("return settings.map(s => run_of(s).own.text.join(''))") == ["ferry", "ferry"], "all settings read the text")
            page.check(any(page.js("return thumbs.map(t => t.image.naturalWidth)") == [5] * 4 or time.sleep(.05) for _ in range(100)), "all thumbnails show it")
        page.finish()


def without_script():
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(pathlib.Path(make("plain")).joinpath("report.html").as_uri())
    came = browser.find_element(By.ID, "unscripted").text, browser.find_element(By.ID, "title").text
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    page = ModelPage(os.path.abspath("plain/report.html"))
    page.check("JavaScript" in came[0] and "validation loss" in came[1], f"without script: {came}")
    page.check(page.js("return $('unscripted') === null"), "with script")
    page.finish()


def main(wanted):
    with open("hostile.txt", "w", encoding="utf-8", newline="") as file:
        file.write((HOSTILE + TEXT + "\n") * 100)
    cases = {name: lambda name=name, keys=keys: model_case(name, *keys) for name, keys in MODELS.items()}
    for path in sorted(glob.glob(f"{ROOT}/configs/scores/*.ini")):
        name = os.path.basename(path)[:-4]
        cases[f"scores_{name}"] = lambda name=name, path=path: model_case(f"scores_{name}", *SMALL, config=path)
    cases |= {"hostile": lambda: model_case("hostile", "data.corpus=hostile.txt"), "text": own_text, "recall": recall,
              "sizes": left_out, "sweep": sweep, "unscripted": without_script, "fp16": cost_of_fp16}
    for name in wanted or cases:
        cases[name]()


arguments = sys.argv[1:]
with chromium(arguments) as browser:
    main(arguments)
end()
