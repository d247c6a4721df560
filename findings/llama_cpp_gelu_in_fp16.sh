#!/bin/sh
# Guess: a GGUF of fp32 tensors, run on a processor with keys and values in fp32 too, is computed in fp32 by llama.cpp.
# Really: GELU is not. ggml rounds its input to fp16 and reads the result, an fp16 number, from a table. Half of the
# logits of a GPT-2 of one layer are off by more than 0.0002, a thousand times fp32's error. In NumPy, GELU between the two
# roundings gives llama.cpp's logits. (Not all: a number close to the middle of two fp16 numbers may be rounded the other way.)
# Versions: llama-cpp-python 0.3.36, gguf 0.19.0, numpy 2.4.6, Python 3.11.7, on x86-64. Date: 2026-11-29.
# Output: median distance of llama.cpp's logits from NumPy's
#         GELU in double                          above 0.0002
#         GELU between two roundings to fp16      below 0.000002
# Random weights, small model. pip compiles llama.cpp: CMake and a C++ compiler, several minutes.
# Exit: 0 as described, 1 changed, 2 not installed.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 2' HUP INT TERM

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q llama-cpp-python==0.3.36 gguf==0.19.0 numpy==2.4.6 \
    >"$dir/pip.log" 2>&1 || { tail -n 5 "$dir/pip.log" >&2; exit 2; }

cat >"$dir/compare.py" <<'PY'
import sys

import gguf
import numpy as np
from llama_cpp import Llama

sys.excepthook = lambda kind, fault, trace: print("changed: unexpected %s: %s" % (kind.__name__, str(fault)[:200])) or sys.exit(1)
T, V, C, H, LAYERS = 32, 64, 64, 2, 1
IDS = [(7 * i * i + 3 * i) % V for i in range(T)]
random = np.random.default_rng(1)


def normal(*shape, deviation):
    return (deviation * random.standard_normal(shape)).astype(np.float32)


def pair(name, out, width):
    return {name + ".weight": normal(out, width, deviation=width ** -0.5), name + ".bias": normal(out, deviation=0.1)}


def norm(name):
    return {name + ".weight": 1 + normal(C, deviation=0.1), name + ".bias": normal(C, deviation=0.1)}


p = {"token_embd.weight": normal(V, C, deviation=0.3), "position_embd.weight": normal(T, C, deviation=0.3)} | norm("output_norm")
for block in ("blk.%d." % layer for layer in range(LAYERS)):
    p |= norm(block + "attn_norm") | pair(block + "attn_qkv", 3 * C, C) | pair(block + "attn_output", C, C)
    p |= norm(block + "ffn_norm") | pair(block + "ffn_up", 4 * C, C) | pair(block + "ffn_down", C, 4 * C)


def write(path):
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(T)
    writer.add_embedding_length(C)
    writer.add_feed_forward_length(4 * C)
    writer.add_block_count(LAYERS)
    writer.add_head_count(H)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(V)
    for name, x in p.items():
        writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def exact(x):
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))


def rounded(x):
    return exact(x.astype(np.float16).astype(np.float64)).astype(np.float16).astype(np.float64)


def gpt2(gelu):
    """Returns the logits of GPT-2, in double."""
    def linear(x, name):
        return x @ p[name + ".weight"].T.astype(np.float64) + p[name + ".bias"]

    def layer_norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]

    x = (p["token_embd.weight"][IDS] + p["position_embd.weight"]).astype(np.float64)
    for block in ("blk.%d." % layer for layer in range(LAYERS)):
        qkv = linear(layer_norm(x, block + "attn_norm"), block + "attn_qkv").reshape(T, 3, H, C // H).transpose(1, 2, 0, 3)
        scores = qkv[0] @ qkv[1].transpose(0, 2, 1) / (C // H) ** 0.5
        scores[:, ~np.tri(T, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + linear((weights @ qkv[2]).transpose(1, 0, 2).reshape(T, C), block + "attn_output")
        x = x + linear(gelu(linear(layer_norm(x, block + "ffn_norm"), block + "ffn_up")), block + "ffn_down")
    return layer_norm(x, "output_norm") @ p["token_embd.weight"].T.astype(np.float64)


write(sys.argv[1])
model = Llama(sys.argv[1], n_ctx=T, n_batch=T, n_threads=1, logits_all=True, verbose=False, type_k=0, type_v=0,  # fp32
              flash_attn=False)
model.eval(IDS)
came = np.array(model.scores[:T], dtype=np.float64)
whole, half = (np.median(abs(came - gpt2(gelu))) for gelu in (exact, rounded))
print("median distance of llama.cpp's logits from NumPy's")
print("GELU in double                          %s" % ("above 0.0002" if whole > 2e-4 else "%.7f" % whole))
print("GELU between two roundings to fp16      %s" % ("below 0.000002" if half < 2e-6 else "%.7f" % half))
if whole <= 2e-4 or half >= 2e-6:
    print("changed")
    sys.exit(1)
PY
"$dir/venv/bin/python" "$dir/compare.py" "$dir/model.gguf" 2>"$dir/said" || exit 1
