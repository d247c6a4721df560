#!/bin/sh
# Guess: with INFERENCE_PRECISION_HINT f32 OpenVINO computes a language model in fp32.
# Really: the hint leaves the keys and values that are kept for later tokens in fp16 (or less). A text given at once has
# fp32's logits, since it is computed from keys that were not kept yet. The same text given token by token, as in
# generation, has not, and neither has a text of one token. EXECUTION_MODE_HINT ACCURACY sets both to fp32, and
# KV_CACHE_PRECISION f32 beside the first hint does so, too.
# Versions: openvino 2026.4.1, optimum-intel 2.2.0, transformers 5.5.4, torch 2.13.0+cpu, Python 3.11.7, on x86-64.
# Date: 2026-11-29.
# Output: INFERENCE_PRECISION_HINT f32, text at once              as transformers
#         INFERENCE_PRECISION_HINT f32, token by token            differs
#         INFERENCE_PRECISION_HINT f32, one token                 differs
#         with KV_CACHE_PRECISION f32, token by token             as transformers
#         EXECUTION_MODE_HINT ACCURACY, token by token            as transformers
# As transformers: within 0.00002, of logits up to about 5. Random weights, small model. Needs about 1.7 GB in the
# temporary folder. Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1

# Installs into a private environment. torchvision, which comes along, is of no use here, and cannot be imported beside a
# CPU build of torch.
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q openvino==2026.4.1 optimum-intel==2.2.0 transformers==5.5.4 torch==2.13.0 numpy==2.4.6 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }
"$dir/venv/bin/pip" uninstall -q -y torchvision >>"$dir/pip.log" 2>&1 || true

cat >"$dir/compare.py" <<'PY'
import sys

import torch
from optimum.intel import OVModelForCausalLM
from transformers import GPT2Config, GPT2LMHeadModel

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
torch.manual_seed(1)
IDS = torch.randint(0, 40, (1, 24))
config = GPT2Config(vocab_size=40, n_positions=32, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                    initializer_range=0.2)
model = GPT2LMHeadModel(config).eval()
model.save_pretrained(sys.argv[1])
with torch.no_grad():
    wanted = model(IDS).logits


def open_with(**options):
    return OVModelForCausalLM.from_pretrained(sys.argv[1], export=True, ov_config=options)


def at_once(opened, ids):
    return opened(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


def by_token(opened):
    """Returns the logits of a text that is given token by token, with the keys and values that were kept."""
    kept, logits = None, []
    for end in range(1, IDS.shape[1] + 1):
        came = opened(input_ids=IDS[:, end - 1:end], attention_mask=torch.ones(1, end, dtype=torch.long), past_key_values=kept)
        kept = came.past_key_values
        logits.append(came.logits)
    return torch.cat(logits, 1)


def row(words, logits, differs):
    found = (logits - wanted[:, :logits.shape[1]]).abs().max().item()
    print("%-55s %s" % (words, "differs" if found > 2e-5 else "as transformers"))
    print("%s: %.2e of %.1f" % (words, found, wanted.abs().max()), file=sys.stderr)
    if (found > 2e-5) != differs:
        print("changed: %s: %.2e" % (words, found))
        sys.exit(1)


opened = open_with(INFERENCE_PRECISION_HINT="f32")
row("INFERENCE_PRECISION_HINT f32, text at once", at_once(opened, IDS), False)
row("INFERENCE_PRECISION_HINT f32, token by token", by_token(opened), True)
row("INFERENCE_PRECISION_HINT f32, one token", at_once(opened, IDS[:, :1]), True)
both = open_with(INFERENCE_PRECISION_HINT="f32", KV_CACHE_PRECISION="f32")
row("with KV_CACHE_PRECISION f32, token by token", by_token(both), False)
row("EXECUTION_MODE_HINT ACCURACY, token by token", by_token(open_with(EXECUTION_MODE_HINT="ACCURACY")), False)
PY
"$dir/venv/bin/python" "$dir/compare.py" "$dir/model" 2>"$dir/said" || exit 1
