#!/bin/sh
# Guess: to_tokens of a model in TransformerLens gives ids that the model has, for a text of its vocabulary.
# Really: where the tokenizer names no token to begin a text with, TransformerLens adds <|endoftext|> to it, whose id is
# the size of the model's vocabulary, and puts it before each text. The embedding has no such row. The ids are the
# model's only with prepend_bos=False. A tokenizer that names one of its tokens gets that one.
# Versions: transformer-lens 4.3.0, transformers 5.24.0, torch 2.13.0+cpu, Python 3.11.7. Date: 2026-11-29.
# Output: ids of a model                          below 12
#         transformers, badcab                    1 0 3 2 0 1
#         to_tokens                               12 1 0 3 2 0 1
#         to_tokens, prepend_bos=False            1 0 3 2 0 1
#         to_tokens, l named as bos_token         11 1 0 3 2 0 1
# Random weights, small model. Needs about 1.6 GB in the temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1

# Installs into a private environment. On Linux a CPU build of torch is enough.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q transformer-lens==4.3.0 transformers==5.24.0 torch==2.13.0 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/ids.py" <<'PY'
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
LETTERS, TEXT = "abcdefghijkl", "badcab"
IDS = [1, 0, 3, 2, 0, 1]


def save(name, **tokens):
    """Saves a GPT-2 and a tokenizer of single characters, both with the ordinary functions."""
    torch.manual_seed(1)
    GPT2LMHeadModel(GPT2Config(vocab_size=len(LETTERS), n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=None,
                               eos_token_id=None)).save_pretrained(sys.argv[1] + name)
    words = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(LETTERS)}, merges=[]))
    PreTrainedTokenizerFast(tokenizer_object=words, **tokens).save_pretrained(sys.argv[1] + name)
    return sys.argv[1] + name


def row(words, came, wanted):
    print("%-39s %s" % (words, " ".join(map(str, came))))
    if came != wanted:
        print("changed: %s: %s" % (words, came))
        sys.exit(1)


place = save("plain")
bridge = TransformerBridge.boot_transformers(place, device="cpu")
row("ids of a model", ["below", bridge.cfg.d_vocab], ["below", len(LETTERS)])
row("transformers, badcab", AutoTokenizer.from_pretrained(place)(TEXT)["input_ids"], IDS)
row("to_tokens", bridge.to_tokens(TEXT)[0].tolist(), [len(LETTERS), *IDS])
row("to_tokens, prepend_bos=False", bridge.to_tokens(TEXT, prepend_bos=False)[0].tolist(), IDS)
named = TransformerBridge.boot_transformers(save("named", bos_token="l"), device="cpu")
row("to_tokens, l named as bos_token", named.to_tokens(TEXT)[0].tolist(), [11, *IDS])
PY
"$dir/venv/bin/python" "$dir/ids.py" "$dir/" 2>"$dir/said" || exit 1
