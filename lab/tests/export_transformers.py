#!/usr/bin/env python3
"""Models that ./train export wrote, in Hugging Face transformers: they have the validation loss of the run, the greedy
text of ./train sample and the weights of ./train attend.

    python3 -m venv /tmp/export && /tmp/export/bin/pip install -r lab/tests/requirements-export.txt
    /tmp/export/bin/python lab/tests/export_transformers.py      prints a line for each model, fails above 1e-5
"""

import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}

import torch  # noqa: E402: what it reads of the environment is set above
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.disable_progress_bar()

TOLERANCE = 1e-5  # of a loss in nats per character, and of an attention weight
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


def check(directory, overrides):
    text = make_run(directory, overrides)
    run, losses = directory / "run", []
    described = json.loads((run / "run.json").read_text())
    for words, loss in ([], described["val_loss"]), (["--best"], described["best_val_loss"]):
        exported = directory / "-".join(["hf", *words])
        ours("export", run, "--hf", exported, *words)
        tokenizer = AutoTokenizer.from_pretrained(exported)
        model = AutoModelForCausalLM.from_pretrained(exported, attn_implementation="eager")
        ids = tokenizer(text, return_tensors="pt", verbose=False).input_ids[0]
        losses.append(abs(validation_loss(model, ids) - loss))
        assert tokenizer.decode(ids) == text and len(ids) == len(text), "the text is not read or written as it is"
        if words:
            break
        prompt = text[:5]
        weights = weights_difference(model, tokenizer, run, text[100 : 100 + CONTEXT])
        greedy = model.generate(**tokenizer(prompt, return_tensors="pt"), do_sample=False, max_new_tokens=CONTEXT - 5)
        theirs = tokenizer.decode(greedy[0])
        expected = ours("sample", run, "--prompt", prompt, "--tokens", CONTEXT - 5, "--temperature", 0)[:-1]
        assert theirs == expected, f"greedy text: {theirs!r}, not {expected!r}"
    try:
        tokenizer("Ω")
        sys.exit("a character that the model does not know is accepted")
    except Exception as error:  # tokenizers raises this class itself
        assert "unk" in str(error).lower(), error
    print(
        f"loss {described['val_loss']:.4f} by {losses[0]:.1e}, best (step {described['best_step']}) by {losses[1]:.1e}, "
        f"weights by {weights:.1e}: {' '.join(overrides) or 'the default'}"
    )
    return max(*losses, weights)


with torch.no_grad():
    worst = 0.0
    for case in CASES.split("|"):
        with tempfile.TemporaryDirectory() as name:
            worst = max(worst, check(Path(name), case.split()))
print(f"the largest difference is {worst:.1e}")
sys.exit(not worst <= TOLERANCE)
