#!/usr/bin/env python3
"""Writes the model of a run as GPT-2 of Hugging Face transformers, with its tokenizer (lab/docs/engines.md).

    lab/export_gpt2.py RUN_DIR DIR [--best]

DIR is a new or an empty directory. --best takes the weights of the lowest validation loss, not the last. GPT-2 has the
names and the orientation of our tensors. It differs in three things: it always has biases; its heads have the width
d_model / heads; and it divides its scores by the square root of this width.
Needs NumPy and safetensors. Exit status: 2 for what is refused, 1 for a file that cannot be written.
"""
import contextlib
import json
import math
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
try:
    import numpy as np
    from safetensors.numpy import save
    from run_reader import Run, RunError, same
except ImportError as missing:
    print(f"export_gpt2.py needs NumPy and safetensors: pip install numpy safetensors ({missing})", file=sys.stderr)
    sys.exit(2)

# --- Which models

# The values that GPT-2 can represent, and why it cannot represent others.
ONLY = {
    "data.task": ("text", "data.task = recall: its records are no text, and its loss counts answers alone"),
    "model.norm": ("pre", "model.norm = post: GPT-2 has each LayerNorm before its block, and one at the end"),
    "attention.score": ("dot", "attention.score: GPT-2's scores are dot products"),
    "attention.qk_norm": ("none", "attention.qk_norm: GPT-2 does not normalize queries and keys"),
    "attention.softcap": ("0", "attention.softcap: GPT-2 does not cap scores"),
    "attention.sink": ("none", "attention.sink: GPT-2's softmax has no sink"),
    "attention.scale_length": ("none", "attention.scale_length: GPT-2 has one divisor for rows of all lengths"),
    "attention.score_precision": ("fp32", "attention.score_precision: GPT-2 does not round scores"),
}
# The keys of these sections that it can represent with any value. A divisor, switched or learned, becomes part of W_Q
# and b_Q. score_gradient changes only the backward pass.
ANY = """data.corpus data.val_fraction data.recall_pairs model.layers model.heads model.d_model model.d_k model.d_ff
    model.context model.activation model.bias model.dropout model.tie_embeddings model.init model.qk_init_scale
    attention.scale_divisor attention.switch_step attention.switch_divisor attention.scale_learned
    attention.score_gradient""".split()
ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}


def check_model(run):
    """Refuses a model that GPT-2 cannot represent, also for a key that this script does not know."""
    c, s = run.config, run.sizes
    reasons = [reason for key, (value, reason) in ONLY.items() if not same(c.get(key, value), value)]
    reasons += [key for key in c if key.startswith(("data.", "model.", "attention.")) and key not in [*ONLY, *ANY]]
    if c.get("model.activation") not in ACTIVATIONS:
        reasons.append("model.activation")
    if reasons:
        raise RunError(f"GPT-2 cannot hold this model, because of {reasons[0]}")
    if s.C % s.H != 0 or s.H * s.D > s.C:
        raise RunError("GPT-2 cannot hold this model: its heads have d_model / heads columns each, at least d_k, "
                       f"and here d_model is {s.C}, heads {s.H} and d_k {s.D}")


# --- The tensors

def divisor_of(run):
    """Returns what the scores are divided by at the checkpoint's step."""
    text = run.config.get("attention.scale_divisor", "sqrt_dk")
    if 0 < int(run.config.get("attention.switch_step", 0)) <= run.step:
        text = run.config.get("attention.switch_divisor", text)
    d_k, root = run.sizes.D, math.sqrt(run.sizes.D)
    named = {"none": 1, "sqrt_dk": root, "dk": d_k, "2sqrt_dk": 2 * root, "sqrt_dmodel": math.sqrt(run.sizes.C)}
    return named.get(text) or float(text)


def query_factors(run, block):
    """Returns the factor of each head's queries (H): the square root of GPT-2's head width, divided by the run's divisor
    or times its learned multipliers. GPT-2's own division then gives the run's scores. The factor is exactly 1 where the
    two divisors are equal. `scale_attn_weights` in config.json could not do this: CTranslate2 and mlx-lm ignore it and
    divide in any case, which changed a logit of a model without a divisor by 0.83."""
    root, learned = math.sqrt(run.sizes.C // run.sizes.H), run.tensors.get(block + "attn.scale")
    factor = root / divisor_of(run) if learned is None else root * learned.astype(np.float64)
    return np.broadcast_to(factor, run.sizes.H)


def widen(x, s, axis):
    """Appends zeros to the D columns or rows of each head, up to GPT-2's width."""
    return np.pad(x, [(0, s.C // s.H - s.D if i == axis else 0) for i in range(x.ndim)])


def gpt2_tensors(run):
    """Yields GPT-2's tensors by name; what is computed in double is rounded once. A head has columns of c_attn (queries,
    keys, values) and rows of c_proj."""
    s, shapes = run.sizes, run.shapes()
    # mlx-lm reads names as openai-community/gpt2 has them; beside lm_head transformers 4 needs this prefix.
    prefix = "transformer." if "lm_head.weight" in shapes else ""
    for name, shape in shapes.items():
        x = run.tensors.get(name, np.zeros(shape, np.float32))
        if name.endswith("attn.scale"):
            continue
        if "attn.c_attn." in name:
            parts = x.reshape(-1, 3, s.H, s.D).astype(np.float64)
            parts[:, 0] *= query_factors(run, name.split("attn.")[0])[:, None]
            x = widen(parts, s, 3).reshape(*shape[:-1], 3 * s.C)
        if name.endswith("attn.c_proj.weight"):
            x = widen(x.reshape(s.H, s.D, s.C), s, 1).reshape(s.C, s.C)
        yield name if name == "lm_head.weight" else prefix + name, np.ascontiguousarray(x, np.float32)


# --- The other files

def json_files(run):
    """Returns the files of JSON by name. A token is a character; none begins, ends or pads a text. What is generated
    is half a context long, so that a prompt of the other half fits."""
    s = run.sizes
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    dropout = float(run.config.get("model.dropout", 0))
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated", "invert": False},
        "post_processor": None, "decoder": {"type": "Fuse"},
        # <unk> is not in the vocabulary, so that an unknown character is an error, as in this program.
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {c: i for i, c in enumerate(run.vocabulary)}}}
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "scale_attn_weights": True,
        "dtype": "float32", "torch_dtype": "float32",  # before transformers 5 this was its name
        "vocab_size": s.V, "n_positions": s.T, "n_ctx": s.T,  # mlx-lm reads n_ctx
        "n_embd": s.C, "n_layer": s.L, "n_head": s.H, "n_inner": s.F,
        "activation_function": ACTIVATIONS[run.config["model.activation"]], "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": run.config.get("model.tie_embeddings") != "no",
        "embd_pdrop": dropout, "attn_pdrop": dropout, "resid_pdrop": dropout, **special}
    return {
        "generation_config.json": {"do_sample": True, "top_k": 0, "max_new_tokens": (s.T + 1) // 2, **special},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                                  "model_max_length": s.T},
        # CTranslate2 reads these names from its config.json, and its converter would write null, which it cannot read.
        "ctranslate2.json": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        "config.json": config}


def write(place, files):
    """Writes all files or none. config.json is the last, because a directory without it is no model."""
    with contextlib.ExitStack() as undo:
        if not place.exists():
            place.mkdir(parents=True)
            undo.callback(place.rmdir)
        for name, content in files.items():
            with open(place / name, "xb") as file:
                undo.callback((place / name).unlink)
                file.write(content)
        undo.pop_all()


def main(words):
    if "-h" in words or "--help" in words:
        print(__doc__.strip())
        return
    names = [word for word in words if word != "--best"]
    if len(names) != 2 or not names[1] or any(name.startswith("-") for name in names):
        raise RunError("usage: lab/export_gpt2.py RUN_DIR DIR [--best]; DIR is a new or an empty directory")
    run, place = Run(names[0]), Path(names[1])
    check_model(run)
    try:
        if os.path.lexists(place) and not (os.path.isdir(place) and not os.listdir(place)):
            raise RunError(f"{place} is there already: name a new or an empty directory")
        run.load("best" if "--best" in words else "last")
        texts = {name: json.dumps(content, indent=2).encode() for name, content in json_files(run).items()}
        write(place, {"model.safetensors": save(dict(gpt2_tensors(run)), {"format": "pt"})} | texts)
    except OSError as error:
        sys.exit(f"export_gpt2.py: cannot write {place}: {error.strerror}")
    print(f"model     {place}, of step {run.step}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RunError as error:
        print(f"export_gpt2.py: {error}", file=sys.stderr)
        sys.exit(2)
