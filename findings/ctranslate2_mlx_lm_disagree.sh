#!/bin/sh
# Guess: two readers of one GPT-2 directory agree with transformers or refuse it; a key that one ignores, both ignore.
# Really: each silently ignores what the other honours. CTranslate2 follows activation_function and drops
# layer_norm_epsilon (it uses 1e-5); mlx-lm follows the epsilon and drops the activation; both drop scale_attn_weights.
# The converted config.json of CTranslate2 has a layer_norm_epsilon, but null: with 0.1 there by hand it is right.
# Versions: ctranslate2 4.8.5, mlx-lm 0.32.2, mlx 0.32.4, transformers 5.23.0, Python 3.11.7. Date: 2026-11-29.
# Output: largest distance from the logits of transformers
#         plain                       ctranslate2 0.0000  mlx-lm 0.0000
#         layer_norm_epsilon 0.1      ctranslate2 2.7082  mlx-lm 0.0000
#           null, then 0.1 by hand    ctranslate2 0.0000
#         activation_function relu    ctranslate2 0.0000  mlx-lm 0.3791
#         scale_attn_weights false    ctranslate2 1.7139  mlx-lm 1.7139
# An epsilon of 0.1 is large so that it shows. Needs about 1.7 GB on disk. Exit: 0 same, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 TQDM_DISABLE=1

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q ctranslate2==4.8.5 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 transformers==5.23.0 \
    torch==2.13.0 numpy==2.4.6 >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/compare.py" <<'PY'
import json
import pathlib
import subprocess
import sys

import ctranslate2
import mlx.core as mx
import numpy
import torch
from mlx_lm.utils import load_model
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model, PreTrainedTokenizerFast

LETTERS = "abcdefghijkl"
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
root = pathlib.Path(sys.argv[1])
mx.set_default_device(mx.cpu)


def changed(what):
    print("changed:", what)
    sys.exit(1)


# Tells an unforeseen error in one line too.
sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200]))


def write(name, **keys):
    """Saves a GPT-2 with the same random weights each time and a config that differs in keys."""
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=len(LETTERS), n_positions=8, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
                        eos_token_id=0, initializer_range=0.4, **keys)
    # Saves the inner model: mlx-lm refuses the prefix that GPT2LMHeadModel puts before the names.
    GPT2Model(config).save_pretrained(root / name)
    # Adds n_ctx, which mlx-lm demands and transformers does not write.
    path = root / name / "config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), n_ctx=8)))
    bpe = models.BPE(vocab={letter: index for index, letter in enumerate(LETTERS)}, merges=[])
    # Names the three tokens: CTranslate2 does not load a directory without them.
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(bpe), bos_token="a", eos_token="a", unk_token="a"
                            ).save_pretrained(root / name)
    return root / name


def by_transformers(source):
    with torch.no_grad():
        return GPT2LMHeadModel.from_pretrained(source).eval()(torch.tensor([IDS])).logits[0].numpy()


def by_mlx_lm(source):
    return numpy.array(load_model(source)[0](mx.array([IDS]))[0])


def convert(source):
    target = source.with_suffix(".ct2")
    command = [pathlib.Path(sys.executable).with_name("ct2-transformers-converter"), "--model", source,
               "--output_dir", target]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        changed("the converter refuses %s: %s" % (source.name, done.stderr.strip().splitlines()[-1]))
    if any(word in done.stderr for word in ("epsilon", "scale_attn")):
        changed("the converter now speaks of the key in " + source.name)
    return target


def by_ctranslate2(target):
    generator = ctranslate2.Generator(str(target), intra_threads=1)
    return numpy.array(generator.forward_batch([[LETTERS[index] for index in IDS]]))[0]


def report(name, distances, follows):
    print("%-27s %s" % (name, "  ".join("%s %.4f" % pair for pair in distances.items())))
    for reader, distance in distances.items():
        if (distance < 1e-4) != (reader in follows) or 1e-4 <= distance < 0.1:
            changed("%s differs by %g for %s" % (reader, distance, name))


cases = [("plain", {}, ("ctranslate2", "mlx-lm")),
         ("layer_norm_epsilon 0.1", {"layer_norm_epsilon": 0.1}, ("mlx-lm",)),
         ("activation_function relu", {"activation_function": "relu"}, ("ctranslate2",)),
         ("scale_attn_weights false", {"scale_attn_weights": False}, ())]
print("largest distance from the logits of transformers")
for name, keys, follows in cases:
    source = write(name.split()[0], **keys)
    want = by_transformers(source)
    target = convert(source)
    report(name, {"ctranslate2": abs(by_ctranslate2(target) - want).max(),
                  "mlx-lm": abs(by_mlx_lm(source) - want).max()}, follows)
    if "layer_norm_epsilon" in keys:
        path = target / "config.json"
        config = json.loads(path.read_text())
        if config.get("layer_norm_epsilon", "absent") is not None:
            changed("the converter no longer writes null for layer_norm_epsilon")
        path.write_text(json.dumps(dict(config, **keys)))
        report("  null, then 0.1 by hand", {"ctranslate2": abs(by_ctranslate2(target) - want).max()}, ("ctranslate2",))
PY
"$dir/venv/bin/python" "$dir/compare.py" "$dir/models" 2>"$dir/said" || exit 1
if grep -i -e epsilon -e scale_attn -e activation_function "$dir/said" >/dev/null; then
    echo "changed: a message now names one of the keys"
    exit 1
fi
