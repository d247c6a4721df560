#!/bin/sh
# Guess: keras-hub loads a GPT-2 that transformers has saved with its logits, or says what it cannot represent.
# Really: GPT-2 may have an output matrix of its own (tie_word_embeddings false). keras-hub loads such a directory without
# a word, leaves lm_head.weight unread, and computes logits with the embedding instead: they have nothing to do with the
# model's. With the embedding in the place of lm_head, transformers gives keras-hub's logits.
# Versions: keras-hub 0.32.0, keras 3.15.1, jax 0.10.2, transformers 5.24.0, torch 2.13.0+cpu, Python 3.11.7.
# Date: 2026-11-29.
# Output: tied                                      the same to 0.0001
#         with an output matrix of its own          differs
#         the embedding put in place of lm_head     the same to 0.0001
# Random weights, small model. Needs about 4 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 KERAS_BACKEND=jax TF_CPP_MIN_LOG_LEVEL=3

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q keras-hub==0.32.0 keras==3.15.1 jax==0.10.2 transformers==5.24.0 torch==2.13.0 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/compare.py" <<'PY'
import logging
import sys
import warnings

said = []
logging.getLogger().addHandler(type("Kept", (logging.Handler,), {"emit": lambda self, record: said.append(record.getMessage())})())
warnings.showwarning = lambda message, *rest, **more: said.append(str(message))

import keras_hub
import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
IDS = [[3, 1, 4, 1, 5, 9, 2, 6]]


def build(name, tied):
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=12, n_positions=8, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                        initializer_range=0.3, tie_word_embeddings=tied)
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(sys.argv[1] + name)
    return model


def by_keras_hub(name):
    model = keras_hub.models.GPT2CausalLM.from_preset(sys.argv[1] + name, preprocessor=None)
    return numpy.array(model({"token_ids": numpy.array(IDS), "padding_mask": numpy.ones((1, 8))}))[0]


def row(words, model, came, differs):
    with torch.no_grad():
        found = abs(model(torch.tensor(IDS)).logits[0].numpy() - came).max()
    print("%-41s %s" % (words, "differs" if found > 0.1 else "the same to 0.0001"))
    if (found > 0.1) != differs or 1e-4 < found <= 0.1:
        print("changed: %s: %.6f" % (words, found))
        sys.exit(1)


row("tied", build("tied", True), by_keras_hub("tied"), False)
said.clear()
untied = build("untied", False)
came = by_keras_hub("untied")
row("with an output matrix of its own", untied, came, True)
if any(word in line for line in said for word in ("lm_head", "tie")):
    print("changed: a warning names it: " + " ".join(said)[:200])
    sys.exit(1)
untied.lm_head.weight.data = untied.transformer.wte.weight.data
row("the embedding put in place of lm_head", untied, came, False)
PY
"$dir/venv/bin/python" "$dir/compare.py" "$dir/" 2>"$dir/said" || exit 1
if grep -e lm_head -e tie_word "$dir/said" >/dev/null; then
    echo "changed: a message now names it"
    exit 1
fi
