#!/usr/bin/python3
"""The page that trains, docs/live.html, in headless Chromium: it trains by a key, to the bits that Node gives; a divisor is
moved while its model learns; the program's own words name a mistake; nothing is loaded from anywhere.

lab/tests/live_page.py --shots DIR       saves pictures of the page instead, at three sizes and while it trains
lab/tests/live_page.py --picture FILE    saves one after 500 steps, for lab/docs/live.md
"""
import json, math, os, re, subprocess, sys, time, zipfile

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browser
from browser import ROOT, Page, chromium

LIVE = os.path.join(ROOT, "docs/live.html")
HEARD = """const done = arguments[arguments.length - 1], lane = training.lanes[arguments[0]];
lane.worker.addEventListener("message", ({data}) => { if (data[arguments[1]] !== undefined) done(data[arguments[1]]); });
lane.worker.postMessage({do: arguments[1]});"""


def wait(page, condition, seconds=600):
    end = time.time() + seconds
    while time.time() < end:
        if page.js(f"return {condition}"):
            return True
        time.sleep(.1)
    page.check(False, f"{condition} within {seconds} s")
    return False


def press(page, key):
    page.browser.find_element(By.TAG_NAME, "body").send_keys(key)


def shorten(page, steps, more=""):
    """Replaces the config by the quick one with so many steps."""
    page.js("""const config = document.getElementById("train-config");
        config.value = live_parts.presets[0].config.replace(/steps = .*/, `steps = ${arguments[0]}`) + arguments[1];""", steps, more)


def trains(page):
    page.js("live_parts.worker += arguments[0]", open(os.path.join(ROOT, "lab/tests/live_hash.js")).read() +
            "actions.hash = () => say({hash: hash(model)}); actions.config = () => say({config: model.text(model.call('config'))});")
    shorten(page, 60) # all of them before the end of warmup, so that the rates are those of 1000 steps
    press(page, Keys.SPACE)
    wait(page, "training.lanes.length === 4 && training.lanes.every(lane => lane.done)")
    wait(page, "document.getElementById('train-step').textContent === '60'", 60) # it is drawn a frame later
    kept = open(os.path.join(ROOT, "lab/tests/live.txt")).read()
    losses = {int(step): float(loss) for step, loss in
              re.findall(r"step (\d+): (\S+)", kept[kept.index("demo 60"):kept.index("dk64")])}
    came = dict(page.js("return training.lanes[0].losses"))
    page.near([came[step] for step in losses], list(losses.values()), 5e-7, "losses of the undivided model")
    expected = re.search(r"demo 60.*?parameters: (\w+)", kept, re.S).group(1)
    page.equal(page.browser.execute_async_script(HEARD, 0, "hash"), expected, "the hash of Node, after 60 steps")


def is_steered(page):
    """The model that began undivided is divided by 8 at step 10, and its attention thaws."""
    shorten(page, 40)
    page.js("start(false)")
    wait(page, "training.lanes[0].triangle")
    before = page.js("return training.lanes[0].entropy.at(-1)[1]")
    for step in range(10):
        page.js("send(training.lanes[0], {do: 'one'})")
    wait(page, "training.lanes[0].step === 10")
    page.js("""const {slider} = training.lanes[0]; slider.value = Math.log(8);
        slider.dispatchEvent(new Event("input", {bubbles: true}));""")
    wait(page, "training.lanes[0].entropy.at(-1)[1] > .7")
    page.check(before < .3, f"entropy of the undivided model at first: {before}")
    page.equal(page.js("return training.lanes[0].moves"), [{"step": 10, "divisor": 8}], "what was moved")
    wait(page, "training.lanes[0].element.textContent.includes('÷ 8 since step 10')") # it is drawn a frame later
    page.check("switch_step = 10\n" in page.browser.execute_async_script(HEARD, 0, "config"), "its config makes the run again")
    press(page, Keys.SPACE)
    wait(page, "training.lanes.every(lane => lane.done)")
    page.equal(page.js("return document.querySelectorAll('#train-charts path.mark').length"), 3, "marks, one in each chart")


def is_reported(page):
    """The report below is of the models that were trained: their snapshots, and a decoder with their parameters."""
    wait(page, "runs.every(run => run.result === 'finished') && runs[0].description?.steps === 40")
    page.equal(page.js("return settings.map(setting => setting.label)"), ["undivided — ÷ 8 since step 10", "÷ √d_k (÷ 8)",
        "÷ 2√d_k (÷ 16)", "÷ d_k (÷ 64)"], "settings of the report")
    title = page.js("return document.getElementById('title').textContent")
    page.check(re.match(r"Trained in this page, seed 1: validation loss \d\.\d+ for ", title), title)
    page.equal(page.js("return all_steps"), [0, 1, 2, 4, 8, 16, 32, 40], "its steps")
    wait(page, "document.querySelectorAll('#loss svg, #training svg').length === 9")
    page.equal(page.js("return document.querySelectorAll('.lost').length"), 0, "parts that cannot be shown")
    last = "Array.from(attend(runs[arguments[0]], nearest(runs[arguments[0]]), 1, 0, null).w)"
    for lane in range(4):
        page.near(page.js(f"return {last}", lane), page.js("return Array.from(training.lanes[arguments[0]].triangle.w)", lane), 1e-5,
                  f"weights of model {lane} at the last step")
    page.js("set_text('The old ferry')")
    wait(page, "runs.every(run => run.own?.T === 13)")
    for lane in (0, 1):
        weights = page.browser.execute_async_script("""const done = arguments[1], {worker} = training.lanes[arguments[0]];
            worker.addEventListener("message", ({data}) => data.attention && done(Array.from(data.attention.weights.slice(-13 * 13))));
            worker.postMessage({do: "read", text: "The old ferry"});""", lane)
        page.near(page.js(f"return {last}", lane), weights, 1e-5, f"weights of model {lane} for a sentence that is typed")
    wait(page, "Boolean(current().curve)")
    page.js("set_text(null)")


READINGS = """const numbers = list => list.flatMap(row => Array.from(row));
    return runs.map(run => {
        const divisor = run === current() ? state.divisor : null, read_here = make_reading(model_of(run), divisor);
        for (const _ of read(read_here, ids_of(run).slice(-model_of(run).T), divisor));
        const all = ({logits, heads}) => [numbers(logits), numbers(heads.flat().flatMap(head => head.raw))];
        const weights = () => numbers(run.own.layers.flatMap((_, l) => Array.from({length: run.own.heads},
            (_, h) => attend(run, 0, l, h, divisor).w)));
        const came = [...all(run.reading), weights()], {own} = run;
        run.own = snapshot_of(run, read_here);
        run.own.trained = run.own;
        const expected = [...all(read_here), weights()];
        run.own = own;
        return {there: Boolean(run.reading.weights), T: own.T, came, expected, losses: run.losses.slice(1)};
    });"""


def reads(page, words, there):
    """Compares what the page shows of a text that was typed with decoder.js, and says where it was computed."""
    wait(page, f"runs.every(run => run.own?.T === {len(words)} && run.own.text.join('') === {words!r})", 60)
    wait(page, "current().own.divisor === state.divisor", 60)
    for i, run in enumerate(page.js(READINGS)):
        page.equal((run["there"], len(run["losses"])), (there, len(words) - 1), f"where model {i} has read {words}, and its losses")
        for name, came, expected in zip(("logits", "raw scores", "weights"), run["came"], run["expected"]):
            most = max(1, *map(abs, expected)) # raw scores have a standard deviation of 8 and more
            page.near([x / most for x in came], [x / most for x in expected], 1e-5, f"{name} of model {i} for {words}")


def is_read_by_the_module(page):
    """A typed text is computed by the workers while they hold the models of the report, and by decoder.js afterwards."""
    shorten(page, 2000)
    page.js("start(true)")
    wait(page, "training.lanes.every(lane => lane.step > 4 && lane.triangle)")
    press(page, Keys.SPACE)
    wait(page, "training.lanes.every(lane => lane.run) && runs.every((run, i) => run.read && run.model.step === training.lanes[i].step)")
    wait(page, "text.painted && runs.every(run => run.trained?.weights)", 60)
    page.js("""training.heard = [];
        for (const {worker} of training.lanes) worker.addEventListener("message", ({data}) => data.reading && training.heard.push(data.reading.T));
        for (const words of ["late", "an answer that is late", "The old ferry"]) set_text(words);""")
    reads(page, "The old ferry", True)
    for divisor in (3, 20, 1.5, 5):
        page.js("state.divisor = arguments[0]; update()", divisor)
    reads(page, "The old ferry", True)
    heard = page.js("return training.heard")
    page.check(heard.count(13) >= 5 and heard.count(22) == 0, f"lengths of the texts that were read: {heard}")
    long = "The ferry crosses the river at noon. " * 4
    page.js("state.divisor = null; set_text(arguments[0])", long)
    wait(page, f"runs.every(run => run.losses.length === {len(long)} && run.trained.ids.length === model_of(run).T)", 60)
    losses = page.js("""const run = current(), m = model_of(run), ids = ids_of(run), losses = [];
        for (let from = 0; from + 1 < ids.length; from += m.T) {
            const r = make_reading(m, null);
            for (const _ of read(r, ids.slice(from, from + m.T)));
            ids.slice(from + 1, from + m.T + 1).forEach((id, t) => losses.push(cross_entropy(r.logits[t], id)));
        }
        return [run.losses.slice(1), losses];""")
    page.near(*losses, 1e-5, "losses of a text that is longer than the context")
    page.js("write_on()")
    wait(page, f"text.typed.length > {len(long)} + 10", 60)
    page.check(page.js("return Boolean(current().reading.weights)"), "the module writes on")
    page.js("state.divisor = 1e9; set_text('A bridge')") # which the program refuses
    wait(page, "current().own?.divisor === 1e9", 60)
    page.check(not page.js("return Boolean(current().reading.weights)"), "a divisor that the program refuses is left to decoder.js")
    page.js("state.divisor = null; update()")
    press(page, Keys.SPACE) # the lanes go on: they no longer have the models of the report
    step = page.js("return Math.max(...training.lanes.map(lane => lane.step))")
    wait(page, f"training.lanes.every(lane => lane.step > {step})", 60)
    page.js("set_text('Upstream')")
    reads(page, "Upstream", False)
    page.check(page.js("return training.running && training.lanes.every(lane => !lane.done)"), "the lanes are still training")
    page.js("start(false)") # other models
    wait(page, "training.lanes.every(lane => lane.triangle)")
    page.js("set_text('Another lane')")
    reads(page, "Another lane", False)
    page.js("set_text(null)")


def is_taken_away(page):
    """A file that a click saves is read by ./train, with the loss of the page."""
    loss = page.js("return training.lanes[0].evaluations.at(-1)[1]")
    page.js("training.lanes[0].element.querySelector('.saves button').click()")
    path = os.path.join(os.getcwd(), "downloads", f"{page.js('return data.title')}_none_seed1.zip")
    end = time.time() + 600
    while not os.path.exists(path) and time.time() < end:
        time.sleep(.1)
    with zipfile.ZipFile(path) as archive:
        archive.extractall()
    page.equal(sorted(name for name in os.listdir("none_seed1") if "." in name), ["attention.csv", "config.ini", "metrics.csv",
        "run.json", "samples.txt", "vocab.json"], "its files")
    said = re.search(r"validation loss (\S+)", browser.train("eval", "none_seed1"))
    page.near([float(said.group(1))], [loss], 1e-4, "the loss of a run that was taken away")
    said = subprocess.run(["./train", "why", "none_seed1"], executable=browser.TRAIN, capture_output=True, text=True, check=True).stdout
    page.equal(page.js("return [...training.lanes[0].why.querySelectorAll('p')].map(p => p.textContent).join('\\n\\n')"), said,
        "the sentences of ./train why")


def goes_on_after_mistakes(page):
    """A character that no model knows is named, in the sentence and in the prompt, and training goes on."""
    shorten(page, 2000)
    page.js("start(true)")
    wait(page, "training.lanes.every(lane => lane.step > 4 && lane.triangle)")
    for field in ("train-text", "train-prompt"):
        page.js("""const field = document.getElementById(arguments[0]); field.value = "Gr\u00fc\u00dfe";
            field.dispatchEvent(new Event("change"));""", field)
        wait(page, "/U\\+00FC|\u00fc/.test(document.getElementById('train-words').textContent)", 60)
        step = page.js("return Math.max(...training.lanes.map(lane => lane.step))")
        wait(page, f"training.running && training.lanes.every(lane => lane.step > {step})", 120)
        page.js("say('')")
    page.js("document.getElementById('train-prompt').value = ''; choose_preset()")


def says_mistakes(page):
    shorten(page, 40, "[model]\nlayer = 3\n")
    page.js("start(true)")
    wait(page, "document.getElementById('train-words').classList.contains('failed')")
    page.check("did you mean model.layers" in page.js("return document.getElementById('train-words').textContent"), "the key that is meant")
    shorten(page, 3)
    page.js("document.getElementById('train-corpus').value = 'too short'; start(true)")
    wait(page, "/too short/.test(document.getElementById('train-words').textContent)")
    page.js("document.getElementById('train-corpus').value = ''; start(true)")
    wait(page, "training.lanes.every(lane => lane.done)")
    page.check(not page.js("return document.getElementById('train-words').classList.contains('failed')"), "no mistake any more")
    for i in range(3):
        page.js("document.getElementById('train-preset').value = arguments[0]; choose_preset(); start(false)", i)
        wait(page, "training.lanes.every(lane => lane.triangle)")


def loads_nothing(page):
    log = [json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")]
    asked = [entry["params"]["request"]["url"] for entry in log if entry["method"] == "Network.requestWillBeSent"]
    others = [url for url in asked if url != page.address and not url.startswith(("blob:", "data:"))]
    page.equal(others, [], "what the page loads")


def shots(page, directory):
    os.makedirs(directory, exist_ok=True)
    def take(name):
        page.browser.save_screenshot(os.path.join(directory, f"{name}.png"))
    page.browser.refresh()
    sizes = {"1280x720": (1280, 720), "1024x768": (1024, 768), "390x844": (390, 844)}
    press(page, Keys.SPACE)
    for steps in (0, 50, 200):
        wait(page, f"training.lanes.length && Math.min(...training.lanes.map(lane => lane.step)) >= {steps}", 600)
        for name, (width, height) in sizes.items():
            page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                         {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
            time.sleep(.5)
            take(f"{name}-{steps}")
    page.js("document.getElementById('theme').click()")
    take("dark")


def picture(page, path):
    """The four lanes and what stands above them, as wide as a page of docs on GitHub."""
    def size(height):
        page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": 862, "height": height, "deviceScaleFactor": 1, "mobile": False})
    size(1010)
    press(page, Keys.SPACE)
    wait(page, "training.lanes.length && training.lanes.every(lane => lane.step > 500)", 900)
    press(page, Keys.SPACE)
    page.js("scrollTo(0, 0)")
    size(math.ceil(page.js("return document.getElementById('lanes').getBoundingClientRect().bottom")))
    page.browser.save_screenshot(path)


def main(arguments):
    kind, path = (arguments[0], os.path.abspath(arguments[1])) if len(arguments) == 2 else ("", "")
    with chromium([]) as driver:
        page = Page(driver, LIVE)
        if kind == "--shots":
            shots(page, path)
        elif kind == "--picture":
            picture(page, path)
        else:
            for test in (trains, is_steered, is_reported, is_taken_away, is_read_by_the_module, goes_on_after_mistakes, says_mistakes, loads_nothing):
                test(page)
            page.quiet()
            print(f"docs/live.html: {page.checks} checks")
    browser.end()


if __name__ == "__main__":
    main(sys.argv[1:])
