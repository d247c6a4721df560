"""Reads a run of sqrtdk: its config, its vocabulary and the parameters of a checkpoint (docs/formats.md).

    run = Run("runs/NAME")
    run.config["model.norm"]            the text of a key in config.ini
    run.vocabulary                      the characters, in the order of their ids
    run.sizes.C                         the width of the model; see Sizes
    run.load("last")                    reads checkpoint/last.safetensors: run.step, and run.tensors, NumPy by name

What is missing or damaged raises RunError. Needs NumPy and safetensors.
"""
import configparser
import json
import os
import re
from collections import namedtuple
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

FORMAT = 3  # of the state in a checkpoint
# V characters, T positions, L layers, the widths C of the model and F of a feed-forward block, H heads, each D wide.
Sizes = namedtuple("Sizes", "V T L C F H D")
CHECKSUM = re.compile(rb'"checksum":"(.{16})"')


class RunError(Exception):
    """Says what is wrong, in one line."""


def read_bytes(path, what):
    """Reads a regular file; a pipe is refused, because opening it could wait forever."""
    try:
        if path.exists() and not path.is_file():
            raise RunError(f"cannot read {what} {path}: it is not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {what} {path}: {error.strerror}") from error


def read_json(path, what):
    try:
        return json.loads(read_bytes(path, what))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def read_config(path):
    """Returns the text of every key by "section.key"."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";", "#"))
    try:
        parser.read_string(read_bytes(path, "config").decode("utf-8-sig"))
    except (ValueError, configparser.Error) as error:
        raise RunError(f"{path} is damaged: {' '.join(str(error).split())}") from error
    return {f"{name}.{key}": value.strip('"') for name in parser.sections() for key, value in parser[name].items()}


def read_vocabulary(path):
    characters = read_json(path, "the vocabulary")
    if not isinstance(characters, list) or not characters:
        raise RunError(f"{path} holds no list of characters")
    before = ""
    for entry, character in enumerate(characters):
        if not isinstance(character, str) or len(character) != 1 or "\ud800" <= character <= "\udfff":
            raise RunError(f"{path}: entry {entry} is not a string of one character")
        if character <= before:
            raise RunError(f"{path}: entry {entry} is out of order")
        before = character
    return characters


def is_whole(data):
    """Returns whether a file has the checksum in its header: FNV-1a over words of 4 bytes, whose digits count as 0."""
    found = CHECKSUM.search(data, 8, 8 + int.from_bytes(data[:8], "little"))
    if not found:  # the file is of another program
        return True
    data = data[: found.start(1)] + b"0" * 16 + data[found.end(1) :]
    total = 0xCBF29CE484222325
    for word in memoryview(data[: len(data) // 4 * 4]).cast("I"):
        total = (total ^ word) * 0x100000001B3 % 2**64
    return found[1] == b"%016x" % total


def read_tensors(path):
    """Returns the tensors of a safetensors file by name, and its metadata. safetensors checks that the shapes fit the
    types, and that the tensors fill the file without gaps or overlaps."""
    data = read_bytes(path, "the tensors")
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise RunError(f"{path} is not a safetensors file, or is damaged: {' '.join(str(error).split())}") from error
    if not is_whole(data):
        raise RunError(f"{path} is damaged, or was changed: its content does not have the checksum that is in it")
    return tensors, header.get("__metadata__", {})


def same(one, other):
    """Returns whether two values of a key are equal: 1e-3 and 0.001 are."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


class Run:
    def __init__(self, directory):
        self.directory = Path(directory)
        path = self.directory / "run.json"
        if not os.path.exists(path):
            raise RunError(f"{directory} is not the directory of a run: it holds no run.json")
        about = read_json(path, "run.json")
        if not isinstance(about, dict) or about.get("program") != "sqrtdk":
            raise RunError(f"{path} is not a run.json of this program")
        if about.get("runs"):
            raise RunError(f"{directory} is a sweep, whose runs are below it: name one")
        self.config = read_config(self.directory / "config.ini")
        self.vocabulary = read_vocabulary(self.directory / "vocab.json")
        self.sizes = Sizes(len(self.vocabulary), self.size("context", 65536), self.size("layers", 1000),
                           self.size("d_model", 65536), self.size("d_ff", 1048576), self.size("heads", 1024),
                           self.size("d_k", 65536))
        self.tensors, self.step = {}, None

    def size(self, key, most):
        text = self.config.get(f"model.{key}", "")
        if not re.fullmatch("[1-9][0-9]{0,6}", text) or int(text) > most:
            raise RunError(f'{self.directory}/config.ini: model.{key} takes a whole number from 1 to {most}, not "{text}"')
        return int(text)

    def shapes(self):
        """Returns the shapes of the parameters by name; of biases also where the model has none."""
        V, T, L, C, F, H, D = self.sizes
        shapes = {"wte.weight": (V, C), "wpe.weight": (T, C), "ln_f.weight": (C,), "ln_f.bias": (C,)}
        if self.config.get("model.tie_embeddings") == "no":
            shapes["lm_head.weight"] = (V, C)
        learned = {"layer": 1, "head": H}.get(self.config.get("attention.scale_learned"))
        linear = {"attn.c_attn": (C, 3 * H * D), "attn.c_proj": (H * D, C), "mlp.c_fc": (C, F), "mlp.c_proj": (F, C)}
        for block in (f"h.{layer}." for layer in range(L)):
            for name, (rows, columns) in linear.items():
                shapes |= {f"{block}{name}.weight": (rows, columns), f"{block}{name}.bias": (columns,)}
            shapes |= {block + name: (C,) for name in ("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias")}
            if learned:
                shapes[block + "attn.scale"] = (learned,)
        return shapes

    def load(self, checkpoint):
        """Reads the checkpoint of this name, "last" or "best", which must be one of this config."""
        path = self.directory / "checkpoint" / f"{checkpoint}.safetensors"
        tensors, metadata = read_tensors(path)
        try:
            state = json.loads(metadata["state"])
            self.step, made_with, number = int(state["step"]), dict(state["config"]), state["format"]
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise RunError(f"{path} is no checkpoint: it has no state in its metadata") from error
        if number != FORMAT:
            raise RunError(f"{path} was made by another version of sqrtdk, in format {number}; this reads {FORMAT}")
        for key, then in made_with.items():
            now = self.config.get(key, "nothing")
            if key.startswith(("data.", "model.", "attention.")) and not same(str(then), now):
                raise RunError(f"{path} was made with {key} = {then}, and {self.directory}/config.ini says {now}: "
                               "set it back")
        self.tensors = self.parameters(path, tensors)

    def parameters(self, path, tensors):
        """Returns the parameters of a checkpoint, whose names and shapes must be those of the model."""
        shapes, model = self.shapes(), "the model of config.ini and vocab.json"
        tensors = {name: x for name, x in tensors.items() if not name.startswith(("exp_avg", "momentum_buffer"))}
        for name in tensors.keys() - shapes.keys():
            raise RunError(f"{path} holds the tensor {name}, which {model} lacks")
        for name, shape in shapes.items():
            if name not in tensors and not (name.endswith(".bias") and self.config.get("model.bias") == "no"):
                raise RunError(f"{path} has no tensor {name}, as {model} has")
            x = tensors.get(name, np.zeros(shape, np.float32))
            if (x.shape, x.dtype) != (shape, np.float32):
                raise RunError(f"{path} has {name} as {x.dtype} {x.shape}, and {model} has it as float32 {shape}")
            if not np.isfinite(x).all():
                raise RunError(f"{path}: the tensor {name} has a NaN or an infinity in it, to which training has brought "
                               "it: train anew with a smaller train.lr")
        return tensors
