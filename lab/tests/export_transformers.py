#!/usr/bin/env python3
"""Models that lab/export_gpt2.py wrote, in Hugging Face transformers: they have the validation loss of the run, the
greedy text of ./train sample and the weights of ./train attend. In CTranslate2 they have the logits and the greedy text
that they have in transformers. Runs that GPT-2 cannot represent, and damaged ones, are refused in one line.

    python3 -m venv /tmp/export && /tmp/export/bin/pip install -r lab/tests/requirements-export.txt
    /tmp/export/bin/python lab/tests/export_transformers.py      prints a line for each model, fails above 1e-5
"""

import contextlib
import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
sys.path.insert(0, str(Path(__file__).parents[1]))

import ctranslate2  # noqa: E402: what it and torch read of the environment is set above
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from transformers.utils import logging  # noqa: E402

import export_gpt2  # noqa: E402

logging.disable_progress_bar()

TOLERANCE = 1e-5  # of a loss in nats per character, of an attention weight, and of a logit as a share of the largest
ROOT, CONTEXT, VAL_FRACTION = Path(__file__).parents[2], 24, 0.2
# Characters that tokenizers like to change: line ends, a combining accent, wide ones, marks that stand for spaces or
# bytes in other vocabularies, a byte order mark.
WORDS = ["the ", "queries ", "keys.\r\n", "answer,\n", "  softly\t", "##s n't . "]
WORDS += ["cafe\u0301 ", "語学", "🙂👍🏽 ", "\ufeff", "\u00a0", "▁Ġ"]
CASES = """
| attention.scale_divisor=none
| attention.scale_divisor=dk
| attention.scale_divisor=2sqrt_dk
| attention.scale_divisor=dk attention.switch_step=30 attention.switch_divisor=0.7
| attention.scale_learned=layer
| attention.scale_learned=head model.d_k=5
| model.bias=no model.d_k=3 attention.scale_divisor=dk
| model.activation=relu model.d_ff=37
| model.tie_embeddings=no model.dropout=0.1
| model.init=torch model.d_k=1 model.heads=3"""


def ours(*words):
    """Returns the output of ./train, with its line ends."""
    done = subprocess.run([ROOT / "train", *map(str, words)], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"./train {' '.join(map(str, words))}: {done.stderr.decode()}")
    return done.stdout.decode()


def export(*words, status=0, size=None):
    """Returns what lab/export_gpt2.py prints; with a size, no file can become larger than so many bytes."""
    limit = ["prlimit", f"--fsize={size}"] if size else []
    command = [*limit, sys.executable, ROOT / "lab/export_gpt2.py", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"status {done.returncode} of export {words}: {done.stderr}"
    assert status == 0 or done.stderr.count("\n") == 1, done.stderr
    return done.stderr if status else done.stdout


def make_run(directory, overrides):
    """A run that is long enough for losses below those of a guess, and its text."""
    text = "".join(random.Random(1).choices(WORDS, k=1500))
    (directory / "corpus.txt").write_text(text, newline="")
    (directory / "tiny.ini").write_text(
        f"[data]\ncorpus = {directory}/corpus.txt\nval_fraction = {VAL_FRACTION}\n"
        f"[model]\nlayers = 2\nheads = 2\nd_model = 12\ncontext = {CONTEXT}\n"
        "[train]\nsteps = 40\nbatch = 8\nlr = 2e-2\nwarmup = 5\n[eval]\nevery = 20\n"
        "[log]\nsample_tokens = 0\nattention_every = 0\n"
    )
    sets = [word for override in overrides for word in ("--set", override)]
    ours(directory / "tiny.ini", *sets, "--out", directory / "run", "--threads", 1, "--quiet")
    return text


def validation_loss(model, ids):
    """The mean over the windows of ./train eval: they do not overlap, and the last one may be shorter."""
    validation = ids[len(ids) - int(len(ids) * VAL_FRACTION + 0.5) :]
    total = 0.0
    for begin in range(0, len(validation) - 1, CONTEXT):
        window = validation[begin : begin + CONTEXT + 1]
        logits = model(window[None, :-1]).logits[0].double()
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    return total / (len(validation) - 1)


def weights_difference(model, tokenizer, run, text):
    """The largest difference between the attention of the model and that of ./train attend, for every head."""
    attentions = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    rows = list(csv.DictReader(ours("attend", run, "--text", text, "--csv").splitlines(keepends=True)))
    assert len(rows) == sum(a.shape[1] for a in attentions) * len(text) * (len(text) + 1) // 2
    places = [[int(row[name]) for name in ("layer", "head", "query", "key")] for row in rows]
    theirs = [attentions[layer][0, head, query, key].item() for layer, head, query, key in places]
    return max(abs(float(row["weight"]) - weight) for row, weight in zip(rows, theirs))


def check_bits(run, exported):
    """A model that is GPT-2 already, divided by the root of d_k, is exported to the bit."""
    ours, theirs = load_file(run / "checkpoint/best.safetensors"), load_file(exported / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all((x.view(np.int32) == theirs[name].view(np.int32)).all() for name, x in ours.items())


def check_ctranslate2(exported, model, tokenizer, text, greedy):
    """Its conversion has the greedy text. Returns the largest difference of logits as a share of the largest one."""
    converted = exported.with_name("ctranslate2")
    ctranslate2.converters.TransformersConverter(str(exported)).convert(str(converted))
    shutil.copy(exported / "ctranslate2.json", converted / "config.json")
    generator = ctranslate2.Generator(str(converted), intra_threads=1)
    ids = tokenizer(text, return_tensors="pt").input_ids
    expected = model(ids).logits.numpy()
    logits = np.array(generator.forward_batch([tokenizer.convert_ids_to_tokens(ids[0])]))
    prompt = tokenizer.convert_ids_to_tokens(tokenizer(greedy[:5]).input_ids)
    most = len(greedy) - 1  # it does not count the first token
    tokens = generator.generate_batch([prompt], max_length=most, sampling_topk=1)[0].sequences[0]
    assert "".join(tokens) == greedy, f"greedy text of CTranslate2: {''.join(tokens)!r}, not {greedy!r}"
    return np.abs(logits - expected).max() / np.abs(expected).max()


def check(directory, overrides):
    text = make_run(directory, overrides)
    run, losses = directory / "run", []
    described = json.loads((run / "run.json").read_text())
    for words, loss in ([], described["val_loss"]), (["--best"], described["best_val_loss"]):
        exported = directory / "-".join(["hf", *words])
        assert export(run, exported, *words).startswith(f"model     {exported}, of step ")
        tokenizer = AutoTokenizer.from_pretrained(exported)
        model = AutoModelForCausalLM.from_pretrained(exported, attn_implementation="eager")
        ids = tokenizer(text, return_tensors="pt", verbose=False).input_ids[0]
        losses.append(abs(validation_loss(model, ids) - loss))
        assert tokenizer.decode(ids) == text and len(ids) == len(text), "the text is not read or written as it is"
        if words:
            if not overrides:
                check_bits(run, exported)
            break
        prompt = text[:5]
        weights = weights_difference(model, tokenizer, run, text[100 : 100 + CONTEXT])
        greedy = model.generate(**tokenizer(prompt, return_tensors="pt"), do_sample=False, max_new_tokens=CONTEXT - 5)
        theirs = tokenizer.decode(greedy[0])
        expected = ours("sample", run, "--prompt", prompt, "--tokens", CONTEXT - 5, "--temperature", 0)[:-1]
        assert theirs == expected, f"greedy text: {theirs!r}, not {expected!r}"
        logits = check_ctranslate2(exported, model, tokenizer, text[100 : 100 + CONTEXT], expected)
    try:
        tokenizer("Ω")
        sys.exit("a character that the model does not know is accepted")
    except Exception as error:  # tokenizers raises this class itself
        assert "unk" in str(error).lower(), error
    print(
        f"loss {described['val_loss']:.4f} by {losses[0]:.1e}, best (step {described['best_step']}) by {losses[1]:.1e}, "
        f"weights by {weights:.1e}, CTranslate2's logits by {logits:.1e}: {' '.join(overrides) or 'the default'}"
    )
    return max(*losses, weights, logits)


# --- What is refused

def outcome(*words):
    """Runs the script here. Returns its status, and what it says."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            export_gpt2.main(list(map(str, words)))
        except export_gpt2.RunError as error:
            assert "\n" not in str(error), error
            return 2, str(error)
    return 0, printed.getvalue()


def refuses(said, run, place, *words):
    """Refuses with these words, and writes nothing."""
    before = sorted(place.parent.rglob("*"))
    status, line = outcome(run, place, *words)
    assert status == 2 and said in line, f"status {status}, {line!r}: not {said!r}"
    assert sorted(place.parent.rglob("*")) == before, f"written for {said!r}"


def copy_with(run, key, value):
    """Returns a copy of the run, in whose config.ini the key has this value or, if it is not there, is added."""
    section, name = key.split(".")
    copy = run.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    lines = [line for line in (run / "config.ini").read_text().split("\n") if not line.startswith(f"{name} = ")]
    lines.insert(lines.index(f"[{section}]") + 1, f"{name} = {value}")
    (copy / "config.ini").write_text("\n".join(lines))
    return copy


def check_models(run):
    """Every key of the sections that decide what a model computes is one that GPT-2 holds with any value, or with one."""
    place, keys = run.with_name("hf"), export_gpt2.Run(run).config
    decisive = {key for key in keys if key.startswith(("data.", "model.", "attention."))}
    assert decisive == {*export_gpt2.ONLY, *export_gpt2.ANY}, decisive ^ {*export_gpt2.ONLY, *export_gpt2.ANY}
    for key, (_, reason) in export_gpt2.ONLY.items():
        refuses(f"GPT-2 cannot hold this model, because of {reason}", copy_with(run, key, "7"), place)
    for key in "attention.rotary", "model.experts", "data.bytes":
        refuses(f"GPT-2 cannot hold this model, because of {key}", copy_with(run, key, "7"), place)
    refuses("because of model.activation", copy_with(run, "model.activation", "swish"), place)
    refuses("here d_model is 12, heads 2 and d_k 7", copy_with(run, "model.d_k", 7), place)
    refuses("here d_model is 12, heads 5 and d_k 6", copy_with(run, "model.heads", 5), place)
    refuses('model.d_ff takes a whole number from 1 to 1048576, not "0"', copy_with(run, "model.d_ff", 0), place)
    for key, value in {"attention.scale_divisor": "dk", "model.bias": "no", "model.context": 7}.items():
        refuses(f"config.ini says {value}: set it back", copy_with(run, key, value), place)


def check_places(run):
    """A place that is taken is refused; a file that cannot be written ends with status 1. Nothing stays of either."""
    here = run.parent
    place, file, full = here / "hf", here / "corpus.txt", here / "full"
    full.mkdir()
    (full / "mine").touch()
    (here / "link").symlink_to("nowhere")
    for taken in full, file, here / "link":
        refuses(f"{taken} is there already: name a new or an empty directory", run, taken)
    for words in [run], [run, ""], [run, place, "more"], [run, place, "--hf"]:
        assert export(*words, status=2).startswith("export_gpt2.py: usage: lab/export_gpt2.py RUN_DIR DIR [--best]")
    assert export(run, file / "a", status=1) == f"export_gpt2.py: cannot write {file}/a: Not a directory\n"
    assert export(run, place, status=1, size=9000) == f"export_gpt2.py: cannot write {place}: File too large\n"
    assert not place.exists()
    place.mkdir()
    export(run, place, status=1, size=9000)
    assert not any(place.iterdir())
    export(run, place)
    refuses(f"{place} is there already", run, place)
    shutil.rmtree(place)
    export(run, here / "deep/er/", "--best")


def check_damage(run):
    """A damaged run is refused in a line, or exported as it was: what is damaged then does not concern the model."""
    place, copy = run.with_name("hf"), run.with_name("copy")
    export(run, place)
    whole = (place / "model.safetensors").read_bytes()
    shutil.rmtree(place)
    numbers, refused, trials = random.Random(1), 0, 0

    def damaged(name, content):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        (copy / name).write_bytes(content)
        return outcome(copy, place)

    for name in "run.json", "config.ini", "vocab.json", "checkpoint/last.safetensors":
        content = (run / name).read_bytes()
        cuts = [content[: len(content) * i // 16] for i in range(16)]
        flips = [(numbers.randrange(min(len(content), 5000)), 1 << numbers.randrange(8)) for _ in range(60)]
        for change in [*cuts, *(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :] for at, bit in flips)]:
            status, _ = damaged(name, change)
            trials += 1
            refused += status == 2
            assert status == 2 or not name.endswith(".safetensors"), "a changed checkpoint is exported"
            assert status == 2 or (place / "model.safetensors").read_bytes() == whole, name
            assert (status == 2) != place.exists()
            shutil.rmtree(place, ignore_errors=True)
        missing = "it holds no run.json" if name == "run.json" else "No such file or directory"
        for put, said in (Path.mkdir, "it is not a regular file"), (os.mkfifo, "it is not a regular file"), (None, missing):
            damaged(name, content)
            shutil.rmtree(place, ignore_errors=True)
            (copy / name).unlink()
            if put:
                put(copy / name)
            refuses(said, copy, place)
    print(f"{refused} of {trials} damaged runs refused, the others exported as they were")


def check_refusals(directory):
    make_run(directory, [])
    run = directory / "run"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    refuses("is not the directory of a run: it holds no run.json", directory, directory / "hf")
    check_models(run)
    check_places(run)
    check_damage(run)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}, "the run has changed"
    (run / "run.json").write_text('{"program": "sqrtdk", "runs": [{"name": "seed=1"}]}')
    refuses("is a sweep, whose runs are below it", run, directory / "hf")
    export(ROOT / "tests/fixtures/runs/finished", directory / "old")


with tempfile.TemporaryDirectory() as name:
    check_refusals(Path(name))
with torch.no_grad():
    worst = 0.0
    for case in CASES.split("|"):
        with tempfile.TemporaryDirectory() as name:
            worst = max(worst, check(Path(name), case.split()))
print(f"the largest difference is {worst:.1e}")
sys.exit(not worst <= TOLERANCE)
