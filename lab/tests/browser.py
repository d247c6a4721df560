"""Shared by lab/tests/report_page.py and lab/tests/report_decoder.py: the program, its pages in headless Chromium, and checks
that are counted.

They work in a directory of their own or, as `--keep DIR`, in that one, which stays. It needs Debian's python3-selenium
and chromium-driver.
"""
import contextlib, math, os, pathlib, subprocess, sys, tempfile

from selenium import webdriver

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, "train")
TINY = """[model]
layers = 2
heads = 2
d_model = 32
context = 24
[train]
steps = 30
batch = 4
lr = 1e-2
[eval]
every = 10
batches = 2
[log]
every = 4
attention_every = 10
sample_tokens = 40
"""
failures = []


def train(*words):
    """Returns the output of the program; it may say that training diverged."""
    done = subprocess.run([TRAIN, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def make(name, *keys, config="tiny.ini"):
    """The directory of a run of that config with those keys."""
    run = os.path.abspath(name)
    train(config, "--out", run, "--force", "--quiet", "--threads", "1", *[word for key in keys for word in ("--set", key)])
    return run


@contextlib.contextmanager
def chromium(arguments):
    """A browser in the working directory, for as long as the block; downloads go to the folder of that name."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = temporary
        if arguments[:1] == ["--keep"]:
            directory = os.path.abspath(arguments[1])
            os.makedirs(directory, exist_ok=True)
            del arguments[:2]
        os.chdir(directory)
        with open("tiny.ini", "w") as file:
            file.write(TINY)
        options = webdriver.ChromeOptions()
        for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                       "--window-size=1280,1000", f"--user-data-dir={temporary}/profile"):
            options.add_argument(option)
        options.add_experimental_option("prefs", {"download.default_directory": os.path.abspath("downloads"),
                                                  "download.prompt_for_download": False})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        browser = webdriver.Chrome(options=options)
        browser.set_script_timeout(600)
        try:
            yield browser
        finally:
            browser.quit()


class Page:
    """Opens the page at `path`, and checks it."""

    def __init__(self, browser, path):
        self.browser, self.path, self.checks = browser, path, 0
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.get("about:blank")
        browser.get_log("performance"), browser.get_log("browser")
        self.address = pathlib.Path(path).as_uri()
        browser.get(self.address)
        self.name = os.path.relpath(path)

    def js(self, script, *values):
        return self.browser.execute_script(script, *values)

    def check(self, holds, what):
        self.checks += 1
        if not holds:
            failures.append(f"{self.name}: {what}")
            print(f"FAILED: {failures[-1]}", flush=True)

    def equal(self, came, expected, what):
        self.check(came == expected, f"{what}: {came!r}, expected {expected!r}")

    def near(self, came, expected, tolerance, what):
        """The largest difference, which is at most the tolerance."""
        far = max((abs(a - b) for a, b in zip(came, expected)), default=math.inf)
        self.check(len(came) == len(expected) and far <= tolerance, f"{what}: {len(came)} numbers differ by {far}")
        return far

    def quiet(self):
        """Nothing was said on the console."""
        said = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.equal(said, [], "the console")


def end():
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    sys.exit(bool(failures))
