#!/usr/bin/python3
"""The page that trains, docs/live.html, in headless Chromium: it plays a training, and trains by a key, to the bits that Node
gives; a divisor is moved while its model learns; mistakes are named and end nothing; nothing is loaded from anywhere.

lab/tests/live_page.py --lesson          does what the lesson says, at its length (a quarter of an hour), and compares its figures
lab/tests/live_page.py --shots DIR       saves pictures of the page instead, at several sizes, dark, printed, and while it trains
lab/tests/live_page.py --picture FILE    saves one after 500 steps, for lab/docs/live.md
"""
import base64, json, os, re, shutil, subprocess, sys, time, zipfile

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browser
from browser import ROOT, Page, chromium

LIVE = os.path.join(ROOT, "docs/live.html")
HEARD = """const done = arguments[arguments.length - 1], lane = training.lanes[arguments[0]];
lane.worker.addEventListener("message", ({data}) => { if (data[arguments[1]] !== undefined) done(data[arguments[1]]); });
lane.worker.postMessage({do: arguments[1]});"""
TRAINING = "source === live && training.running && training.lanes.every(lane => lane.step > 4)"
SIZES = {"1280x720": (1280, 720), "1024x768": (1024, 768), "911x512": (911, 512), "844x390": (844, 390), "390x844": (390, 844),
         "640x360": (640, 360)}  # the last one is 1280x720 at 200 %


def wait(page, condition, seconds=600):
    end = time.time() + seconds
    while time.time() < end:
        if page.js(f"return {condition}"):
            return True
        time.sleep(.1)
    page.check(False, f"{condition} within {seconds} s")
    return False


def text(page, id):
    return page.js("return document.getElementById(arguments[0]).textContent", id)


def press(page, key):
    page.browser.find_element(By.TAG_NAME, "body").send_keys(key)


def size(page, width, height):
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                 {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})


def configure(page, steps, more="", preset="quick"):
    """Writes a preset's config with so many steps, evaluated every 20."""
    page.js("""const {config} = live_parts.presets.find(({id}) => id === arguments[2]);
        document.getElementById("config").value = config.replace(/steps = .*/, `steps = ${arguments[0]}`)
            .replace(/every = 50/, "every = 20") + arguments[1];""", steps, more, preset)


def make(page, run=False):
    """Makes the models anew."""
    page.js("start(arguments[0])", run)
    wait(page, "source === live && !training.coming && training.lanes.length === 4")


def ended(page):
    wait(page, "source === live && training.lanes.every(lane => lane.done && !lane.run.trains)", 3600)


def plays(page):
    """The page opens at step 0 of a training that was recorded, with four models on one screen. Space plays it, and a
    sentence says what was seen."""
    page.equal(text(page, "title"), "Why divide by √d_k?", "the question")
    page.check(text(page, "summary").endswith("Press play, or Space."), text(page, "summary"))
    page.equal(page.js("return [state.step, sides.length, all_steps.at(-1)]"), [0, 4, 1000], "how it opens")
    for name in ("1280x720", "1024x768"):
        size(page, *SIZES[name])
        below = page.js("""return Math.max(...[...document.querySelectorAll("#panel, #sides svg, #sides .loss, #sides pre")]
            .map(e => e.getBoundingClientRect().bottom))""")
        page.check(below <= SIZES[name][1], f"the first screen at {name} ends at {below}")
    size(page, *SIZES["390x844"])
    page.equal(page.js("return sides.map(side => side.svg.checkVisibility())").count(True), 1, "triangles on a phone")
    page.js("document.querySelectorAll('#sides h3 button')[3].click()")
    page.equal(page.js("return sides.map(side => side.svg.checkVisibility())"), [False, False, False, True], "the one that is chosen")
    below = page.js("return document.querySelector('#sides .current svg').getBoundingClientRect().bottom")
    page.check(below <= 844, f"the triangle on a phone ends at {below}")
    size(page, 1280, 720)
    press(page, Keys.SPACE)
    wait(page, "state.step === 1000 && playing === null", 60)
    page.check("nats per character" in text(page, "summary") and text(page, "summary") == page.js("return plain(data.why)"),
               f"what is said at the end: {text(page, 'summary')}")
    page.js("document.querySelectorAll('#sides h3 button')[1].click()")


def no_sideways(page):
    """Nothing is wider than the window."""
    for width in (320, 360, 390, 480, 600, 640, 720, 760, 761, 800, 844, 911, 927, 960, 1024, 1280, 1600, 1920):
        size(page, width, 720)
        page.equal(page.js("return [document.documentElement.scrollWidth, innerWidth]"), [width] * 2, "width of the page")
    size(page, 1280, 720)


def is_read_at_load(page):
    """What controls show is what is computed, also after the browser has gone back to the page."""
    for id, value, words in (("rate", "4", "rate-value"), ("temperature", "1.5", "temperature-value")):
        page.js("""const control = document.getElementById(arguments[0]); control.value = arguments[1];
            control.dispatchEvent(new Event("input", {bubbles: true}));""", id, value)
        before = text(page, words)
        page.js("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        page.equal(text(page, words), before, f"{words} when it is shown again")
    page.equal(page.js("return rate_factor()"), 16, "the learning rate's factor")
    page.browser.get("about:blank")
    page.browser.back()
    wait(page, "document.getElementById('unscripted') === null", 60)
    shown = page.js("""const of = id => Number(document.getElementById(id).value);
        return [String(2 ** of("rate")), String(of("temperature"))];""")
    page.equal([text(page, "rate-value"), text(page, "temperature-value")], shown, "words of the controls after the way back")
    page.browser.get("about:blank")
    page.browser.get(page.address)


def trains(page):
    page.js("live_parts.worker += arguments[0]", open(os.path.join(ROOT, "lab/tests/live_hash.js")).read() +
            "actions.hash = () => say({hash: hash(model)}); actions.config = () => say({config: model.text(model.call('config'))});")
    configure(page, 60)  # all of them before the end of warmup, so that the rates are those of 1000 steps
    page.js("document.getElementById('train').click()")
    ended(page)
    wait(page, "state.step === 60", 60)  # it is drawn a moment later
    kept = open(os.path.join(ROOT, "lab/tests/live.txt")).read()
    losses = {int(step): float(loss) for step, loss in
              re.findall(r"step (\d+): (\S+)", kept[kept.index("demo 60"):kept.index("dk64")])}
    came = dict(page.js("return curve(training.lanes[0].run, 'train_loss')"))
    page.near([came[step] for step in losses], list(losses.values()), 5e-7, "losses of the undivided model")
    expected = re.search(r"demo 60.*?parameters: (\w+)", kept, re.S).group(1)
    page.equal(page.browser.execute_async_script(HEARD, 0, "hash"), expected, "the hash of Node, after 60 steps")
    wait(page, "document.getElementById('summary').textContent.includes('ends with the lowest')", 60)


def is_steered(page):
    """The model that began undivided is divided by 8, by twelve presses of a key, at step 10, and its attention thaws."""
    configure(page, 40)
    make(page)
    before = page.js("return sides[0].a.entropy")
    for step in range(10):
        page.js("document.getElementById('one').click()")
        wait(page, f"training.lanes.every(lane => lane.step === {step + 1})")
    wait(page, "state.step === 10")
    page.js("sides[0].division.slider.focus()")
    for _ in range(12):
        page.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    wait(page, "settings[0].divisor_asked === 8 && sides[0].a.entropy > .6")
    page.check(before < .3, f"entropy of the undivided model at first: {before}")
    wait(page, "settings[0].label === '÷ 1, ÷ 8 since step 10'", 60)
    page.equal(page.js("return sides[0].division.slider.getAttribute('aria-valuetext')"), "÷ 8", "what the slider announces")
    page.check("switch_step = 10\n" in page.browser.execute_async_script(HEARD, 0, "config"), "its config makes the run again")
    at = page.js("return [...document.querySelectorAll('#losses path.mark:not(.now)')].map(mark => mark.getAttribute('d').match(/M([\\d.]+)/)[1])")
    axis = page.js("return [...document.querySelectorAll('#losses path.axis')][0].getAttribute('d').match(/[\\d.]+/g).map(Number)")
    press(page, Keys.SPACE)
    ended(page)
    wait(page, "document.querySelectorAll('#losses path.mark:not(.now)').length === 1", 60)
    page.equal(page.js("return settings[0].moves.map(move => move.step)"), [10], "what is marked")
    page.check(at and axis, "a mark in the chart")


def is_reported(page):
    """The report below is of the models that were trained: their snapshots, and a decoder with their parameters."""
    wait(page, "runs.every(run => run.result === 'finished') && runs[0].description?.steps === 40")
    page.equal(page.js("return settings.map(setting => setting.label)"), ["÷ 1, ÷ 8 since step 10", "÷ √d_k = 8", "÷ 2√d_k = 16",
        "÷ d_k = 64"], "settings of the report")
    page.check(set(page.js("return all_steps")) >= {0, 1, 2, 4, 8, 10, 16, 32, 40}, "its steps")
    wait(page, "document.querySelectorAll('#loss svg, #training svg').length === 9")
    page.equal(page.js("return document.querySelectorAll('.lost').length"), 0, "parts that cannot be shown")
    page.js("set_text('The old ferry')")
    wait(page, "runs.every(run => run.own?.T === 13 && run.reading.ids.length === 13)")
    for lane in range(4):
        scores = page.browser.execute_async_script("""const done = arguments[1], {worker} = training.lanes[arguments[0]];
            worker.addEventListener("message", ({data}) => data.read && done(Array.from(data.read.scores)));
            worker.postMessage({do: "read", text: "The old ferry"});""", lane)
        here = page.js("return Array.from(snapshot_of(runs[arguments[0]], runs[arguments[0]].reading).at[0].scores)", lane)
        most = max(map(abs, scores))
        page.near([x / most for x in here], [x / most for x in scores], 1e-5, f"raw scores of model {lane}, by the page and by the module")
    wait(page, "Boolean(current().curve)")
    page.js("set_text(null)")


def is_taken_away(page):
    """A file that a click saves is read by ./train, with the loss of the page."""
    loss = page.js("return curve(training.lanes[0].run, 'val_loss').at(-1)[1]")
    page.js("sides[0].figure.querySelector('.saves button').click()")
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


def draws_files(page):
    """A chart and a triangle that are saved have plain colours in both themes, and other programs can draw them."""
    for theme in range(2):
        for name, svg in (("chart", "document.querySelector('#loss svg')"), ("triangle", "matrix.svg")):
            saved = page.js(f"return svg_text({svg}, 'a caption')")
            page.check("oklch" not in saved and "var(" not in saved and "color(" not in saved, f"colours of the saved {name}")
            page.check(name == "chart" or 'xlink:href="data:image/gif' in saved, "the picture of the saved triangle")
            strokes = set(re.findall(r'class="curve"[^>]*?stroke: (rgb\([^)]*\))', saved))
            page.check(name == "triangle" or len(strokes) == 4, f"colours of the curves: {strokes}")
            with open(f"{name}-{theme}.svg", "w") as file:
                file.write(saved)
            if shutil.which("rsvg-convert"):
                page.equal(subprocess.run(["rsvg-convert", "-o", f"{name}-{theme}.png", f"{name}-{theme}.svg"]).returncode, 0, "rsvg-convert")
        page.js("document.getElementById('theme').click()")


def goes_on_after_mistakes(page):
    """A character that no model knows is named and training goes on; a config that is refused leaves the models."""
    configure(page, 2000)
    make(page, True)
    wait(page, TRAINING)
    page.js("set_text('')")
    page.browser.find_element(By.ID, "text").send_keys("Gr\u00fc\u00dfe")
    wait(page, "document.getElementById('own-words').textContent.includes('\u00fc \u00df')", 60)
    step = page.js("return Math.max(...training.lanes.map(lane => lane.step))")
    wait(page, f"training.running && training.lanes.every(lane => lane.step > {step})", 120)
    wait(page, "sides.every(side => side.text === 'Gre')", 60)
    page.js("set_text(null)")
    for words, corpus, more in (("did you mean model.layers", "", "[model]\nlayer = 3\n"), ("too short", "too short", ""), ("NUL", "a\0b", ""),
                                ("NUL", "", "# \0\n")):
        configure(page, 40, more)
        page.js("document.getElementById('corpus').value = arguments[0]; document.getElementById('again').click()", corpus)
        wait(page, f"document.getElementById('summary').textContent.includes({words!r}) && !training.coming", 60)
        page.check(page.js("return document.getElementById('summary').classList.contains('failed')"), "a mistake looks like one")
        page.equal(page.js("return [training.lanes.length, source === live]"), [4, True], "the models that stay")
        step = page.js("return Math.min(...training.lanes.map(lane => lane.step))")
        page.js("document.getElementById('one').click()")
        wait(page, f"training.lanes.every(lane => lane.step > {step})", 120)
    configure(page, 3)
    page.js("document.getElementById('corpus').value = ''; document.getElementById('again').click()")
    wait(page, "!training.coming && training.lanes.every(lane => lane.step === 0)")
    page.check(not page.js("return document.getElementById('summary').classList.contains('failed')"), "no mistake any more")
    press(page, Keys.SPACE)
    ended(page)
    press(page, Keys.SPACE)
    page.check("start again" in text(page, "summary"), f"what Space says at the end: {text(page, 'summary')}")


def chooses_files(page):
    """A file in another encoding or one that is too long is refused with a sentence, and no file is no mistake."""
    page.js("document.getElementById('choices').hidden = false")
    for name, content, words in (("latin.txt", "Gr\u00fc\u00dfe".encode("latin-1") * 99, "UTF-8"), ("long.txt", b"long " * 10 ** 6, "MB"),
                                 ("good.txt", "Grüße\n".encode() * 999, "is learned from the next start on")):
        with open(name, "wb") as file:
            file.write(content)
        page.browser.find_element(By.ID, "file").send_keys(os.path.abspath(name))
        wait(page, f"document.getElementById('summary').textContent.includes({words!r})", 60)
    page.check(page.js("return document.getElementById('corpus').value.startsWith('Grüße')"), "a text with umlauts")
    page.js("document.getElementById('file').value = ''; document.getElementById('file').dispatchEvent(new Event('change'))")
    configure(page, 2)
    make(page)
    page.check(page.js("return model_of(runs[0]).ids.has('ß')"), "umlauts that are learned")
    page.js("document.getElementById('corpus').value = ''; document.getElementById('choices').hidden = true")


def follows_keys(page):
    """Space works once however long it is held, and with Alt, Ctrl or Meta not at all."""
    configure(page, 2000)
    make(page)
    for held in (Keys.ALT, Keys.CONTROL, Keys.META):
        ActionChains(page.browser).key_down(held).send_keys(Keys.SPACE).key_up(held).perform()
        page.check(not page.js("return training.running"), "Space with another key")
    down = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: ' ', repeat: arguments[0], bubbles: true}))"
    page.js(down, False)
    for _ in range(5):
        page.js(down, True)
    page.check(page.js("return training.running"), "a held Space")
    wait(page, TRAINING)
    page.js("sides[1].division.slider.focus()")
    page.browser.switch_to.active_element.send_keys(Keys.SPACE)
    page.check(not page.js("return training.running"), "Space on a slider")
    names = page.js("""return [...document.querySelectorAll("input[type=range]")].map(e =>
        [e.getAttribute("aria-label") ?? e.labels[0]?.textContent, e.id === "temperature" || e.getAttribute("aria-valuetext")])""")
    page.check(all(name and words for name, words in names), f"names and words of the sliders: {names}")
    page.equal(page.js("return document.querySelectorAll('h1').length"), 1, "headings of the page")
    page.equal(page.js("return document.querySelectorAll('[aria-live]').length"), 1, "regions that are announced")
    kept = page.js("return ['#row', '#sides svg', '#sides pre', '#text', '#own-losses'].map(e => document.querySelector(e).closest('[translate=no]') !== null)")
    page.equal(kept, [True] * 5, "texts that are not translated")


def follows_presets(page):
    """Each preset is a link, and makes its models."""
    links = page.js("return [...document.querySelectorAll('#presets a')].map(a => a.hash)")
    for hash in links:
        page.js("location.hash = arguments[0]", hash)
        wait(page, "!training.coming && source === live && training.lanes.every(lane => lane.step === 0)", 120)
        page.equal(page.js("return document.getElementById('config').value"), page.js(
            "return live_parts.presets.find(({id}) => location.hash === `#preset=${id}`).config"), f"the config of {hash}")
        page.check(not page.js("return document.getElementById('summary').classList.contains('failed')"), text(page, "summary"))
    page.equal(len(links), 6, "presets")


def loads_nothing(page):
    log = [json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")]
    asked = [entry["params"]["request"]["url"] for entry in log if entry["method"] == "Network.requestWillBeSent"]
    others = [url for url in asked if url.split("#")[0] != page.address and not url.startswith(("blob:", "data:", "about:"))]
    page.equal(others, [], "what the page loads")


def stop(page, number):
    """Opens the lesson at a stop, and returns what it compares."""
    while not text(page, "guide").startswith(f"{number} of 7"):
        page.js("document.querySelector(document.getElementById('guide').hidden ? '#lesson' : '#guide button').click()")
    page.js("document.querySelector('#guide button').click()")
    return page.js("return data.lesson[arguments[0]].compare", number - 1)


def says(page, compared, what, numbers, digits):
    """The lesson has these numbers, which the page shows."""
    for number in numbers:
        page.check(re.search(rf"(?<![\d.]){number:.{digits}f}(?!\d)", compared), f"{what}: {number:.{digits}f} is not in: {compared}")


def losses(page):
    return page.js("return settings.map(setting => curve(run_of(setting), 'val_loss').at(-1)[1])")


def teaches(page):
    """Does what the stops of the lesson say, and compares the figures that they name."""
    deviations, entropies = (f"return sides.map(side => side.a.{key})" for key in ("deviation", "entropy"))
    first = [page.js(deviations), page.js(entropies)]
    says(page, stop(page, 1), "stop 1, deviations", first[0], 1)
    says(page, stop(page, 2), "stop 2, entropies", first[1], 2)
    press(page, Keys.SPACE)
    wait(page, "state.step === 1000 && playing === null", 60)
    says(page, stop(page, 3), "stop 3, losses", losses(page), 2)
    compared = stop(page, 4)
    wait(page, "Boolean(current().curve)", 300)
    page.equal(page.js("return current().keys['attention.scale_divisor']"), "sqrt_dk", "the model whose curve is shown")
    says(page, compared, "stop 4, an excerpt's losses under 8, 1 and 64", page.js("return [8, 1, 64].map(c => [...current().curve].find(point => Math.abs(point[0] / c - 1) < 1e-3)[1])"), 2)
    compared = stop(page, 6)
    says(page, compared, "stop 6, d_k", [page.js(deviations)[3]], 1)
    says(page, compared, "stop 6, d_k at first", [first[0][3]], 1)
    page.js("document.getElementById('train').click()")
    wait(page, TRAINING)
    wait(page, "training.lanes.every(lane => lane.step >= 500)", 1200)
    press(page, Keys.SPACE)
    root = page.js("return [...sides[0].division.element.querySelectorAll('button')].find(b => b.textContent === '√d_k').click()")
    press(page, Keys.SPACE)
    ended(page)
    page.near(losses(page)[:1], [float(re.search(r"it ends at (\S+),", stop(page, 4))[1])], .03, "stop 4, a divisor that comes late")
    page.js("document.getElementById('settings-shown').click()")
    for number, preset in (5, "gpt2"), (7, "study"):
        page.js("[...document.querySelectorAll('#presets a')].find(a => a.hash === `#preset=${arguments[0]}`).click()", preset)
        wait(page, "!training.coming && training.lanes.every(lane => lane.step === 0)", 120)
        compared = stop(page, number)
        if number == 5:
            says(page, compared, "stop 5, scores and entropy at first", [page.js(deviations)[0]], 1)
            says(page, compared, "stop 5, scores and entropy at first", [page.js(entropies)[0]], 2)
        else:
            page.js("sides[1].division.slider.focus()")
            for _ in range(2):
                page.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
            wait(page, "settings[1].divisor_asked === 11.3")
        press(page, Keys.SPACE)
        wait(page, TRAINING)
        ended(page)
        says(page, compared, f"stop {number}, losses", losses(page)[:2] if number == 5 else losses(page)[1:2], 2)


def shots(page, directory):
    os.makedirs(directory, exist_ok=True)
    def take(when):
        for name, extent in SIZES.items():
            size(page, *extent)
            page.js("scrollTo(0, 0)")
            time.sleep(.7)
            page.browser.save_screenshot(os.path.join(directory, f"{name}-{when}.png"))
        size(page, 1280, 720)
    take("opened")
    page.js("document.getElementById('theme').click()")
    take("dark")
    with open(os.path.join(directory, "printed.pdf"), "wb") as file:
        file.write(base64.b64decode(page.browser.print_page()))
    page.js("document.getElementById('theme').click()")
    page.js("document.getElementById('train').click()")
    wait(page, "source === live && training.lanes.every(lane => lane.step >= 200)", 600)
    take("training")


def picture(page, path):
    """The panel and the triangles, as wide as a page of docs on GitHub."""
    size(page, 1100, 760)
    page.js("document.getElementById('train').click()")
    wait(page, "source === live && training.lanes.every(lane => lane.step > 500)", 900)
    page.js("scrollTo(0, 0)")
    page.browser.save_screenshot(path)


def main(arguments):
    kind, path = arguments[0] if arguments else "", os.path.abspath(arguments[1]) if len(arguments) == 2 else ""
    with chromium([]) as driver:
        page = Page(driver, LIVE)
        if kind in ("--shots", "--picture"):
            {"--shots": shots, "--picture": picture}[kind](page, path)
        else:
            tests = (plays, no_sideways, is_read_at_load, trains, is_steered, is_reported, is_taken_away, draws_files, goes_on_after_mistakes,
                     chooses_files, follows_keys, no_sideways, follows_presets)
            for test in (teaches,) if kind == "--lesson" else tests:
                test(page)
            loads_nothing(page)
            page.quiet()
            print(f"docs/live.html: {page.checks} checks")
    browser.end()


if __name__ == "__main__":
    main(sys.argv[1:])
