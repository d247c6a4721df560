#!/bin/sh
# Guess: the converter of CTranslate2 either refuses a model, or writes a directory that the same package can read.
# Really: a GPT-2 whose tokenizer names no bos, eos or unk token is converted with exit status 0. The converter writes
# null for the three names, and ctranslate2.Generator raises on that directory: it wants strings there. The null that
# stands for layer_norm_epsilon in the same file is read without trouble. With the name of a token of the vocabulary
# written three times into config.json, and nothing else changed, the directory loads and the logits are right.
# Versions: ctranslate2 4.8.5, transformers 5.23.0, torch 2.13.0+cpu, Python 3.11.7. Date: 2026-11-29.
# Output: converter: exit 0; bos_token null, eos_token null, unk_token null, layer_norm_epsilon null
#         as written: RuntimeError: [json.exception.type_error.302] type must be string, but is null
#         one of the three null, the others strings: raises 3 times of 3
#         three strings: loads; logits within 0.0001 of transformers
# Needs about 1.4 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TQDM_DISABLE=1

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q ctranslate2==4.8.5 transformers==5.23.0 torch==2.13.0 numpy==2.4.6 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

# Writes a random GPT-2 and a tokenizer of single characters, both with the ordinary save functions.
cat >"$dir/build.py" <<'PY'
import sys

import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

torch.manual_seed(1)
letters = "abcdefghijkl"
config = GPT2Config(vocab_size=len(letters), n_positions=8, n_embd=16, n_layer=2, n_head=2,
                    bos_token_id=None, eos_token_id=None, initializer_range=0.3)
GPT2LMHeadModel(config).save_pretrained(sys.argv[1])
bpe = models.BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[])
PreTrainedTokenizerFast(tokenizer_object=Tokenizer(bpe)).save_pretrained(sys.argv[1])
PY
"$dir/venv/bin/python" "$dir/build.py" "$dir/gpt2" 2>"$dir/build.log" || { tail -n 5 "$dir/build.log" >&2; exit 2; }

# Converts with the installed command and keeps its exit status.
status=0
"$dir/venv/bin/ct2-transformers-converter" --model "$dir/gpt2" --output_dir "$dir/ct2" \
    >"$dir/convert.log" 2>&1 || status=$?
if [ "$status" -ne 0 ]; then
    echo "changed: the converter refuses with exit $status: $(tail -n 1 "$dir/convert.log")"
    exit 1
fi

# Loads the directory as written, then with the names filled in.
cat >"$dir/load.py" <<'PY'
import json
import os
import sys

import ctranslate2
import numpy
import torch
from transformers import AutoTokenizer, GPT2LMHeadModel

source, target = sys.argv[1:]
path = os.path.join(target, "config.json")
names = ("bos_token", "eos_token", "unk_token")


def changed(what):
    print("changed:", what)
    sys.exit(1)


# Tells an unforeseen error in one line too.
sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200]))


def error(config):
    """Returns what Generator raises for this config.json, or None."""
    with open(path, "w") as file:
        json.dump(config, file)
    try:
        ctranslate2.Generator(target, intra_threads=1)
    except RuntimeError as fault:
        return "%s: %s" % (type(fault).__name__, fault)
    return None


with open(path) as file:
    written = json.load(file)
print("converter: exit 0;", ", ".join("%s %s" % (key, json.dumps(written.get(key, "absent")))
                                      for key in names + ("layer_norm_epsilon",)))
if any(written.get(name, "absent") is not None for name in names):
    changed("the converter no longer writes null for the three names")

fault = error(written)
print("as written:", fault or "loads")
if fault is None:
    changed("a directory with null names loads")

filled = dict(written, **{name: "a" for name in names})
faults = [error(dict(filled, **{name: None})) for name in names]
print("one of the three null, the others strings: raises %d times of 3" % sum(map(bool, faults)))
if not all(faults):
    changed("a single null name is accepted")

fault = error(filled)
if fault:
    changed("the directory does not load with three strings: " + fault)
text = "likable"
tokenizer = AutoTokenizer.from_pretrained(source)
ids = tokenizer(text)["input_ids"]
with torch.no_grad():
    want = GPT2LMHeadModel.from_pretrained(source)(torch.tensor([ids])).logits[0].numpy()
generator = ctranslate2.Generator(target, intra_threads=1)
got = numpy.array(generator.forward_batch([tokenizer.convert_ids_to_tokens(ids)]))[0]
if got.shape != want.shape or abs(got - want).max() > 1e-4:
    changed("the logits differ from those of transformers")
print("three strings: loads; logits within 0.0001 of transformers")
PY
"$dir/venv/bin/python" "$dir/load.py" "$dir/gpt2" "$dir/ct2" 2>/dev/null || exit 1
