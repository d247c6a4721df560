#!/usr/bin/env python3
"""Runs exported models in other engines, and compares their logits, or the attention that they show, with ./train.

    lab/engines/engines.py WORK [ENGINE...]   train and export the models, install and run the engines; write engines.csv
    lab/engines/engines.py --page             write the parts of lab/docs/engines.md between <!-- engines NAME --> and <!-- end -->
    lab/engines/engines.py --check            exit with status 1 if the page has other parts than engines.csv says

WORK is a directory for the models and the environments; what is there already is not made again. A named ENGINE alone is
run again. Each environment is one of PyPI, of the packages in requirements_NAME.txt, or that of Node in package.json. It needs
./train, build/gcc/logits, and in the Python that runs it NumPy and safetensors.
"""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "lab/docs/engines.md"
TABLE = ROOT / "lab/docs/results/engines.csv"
COLUMNS = ["engine", "version", "shows", "must", "model", "difference", "largest", "said"]

# Trained as configs/dk64_scaled.ini says, but for 300 steps: d_model 128, two heads of width 64, 64 characters.
MODELS = {
    "none": "attention.scale_divisor=none",
    "sqrt_dk": "attention.scale_divisor=sqrt_dk",
    "dk": "attention.scale_divisor=dk",
    "free": "model.d_k=40",
    "untied": "model.tie_embeddings=no",
    "relu": "model.activation=relu",
}
UNKNOWN = "The € rises"  # the text lacks this character
PIECES = ((2000, 64), (5000, 64), (9000, 23), (7000, 1))  # of the validation split: where a text begins, how long it is
SHOWN = 48  # characters of the first text whose attention is compared: what ./train attend takes

Engine = namedtuple("Engine", "environment package shows must open")
ENGINES = {}


def engine(name, environment, package, must, shows="logits"):
    """Adds an engine: a function that takes an exported directory, and returns a function of ids (logits) or of a text
    (weights)."""
    def add(function):
        ENGINES[name] = Engine(environment, package, shows, must, function)
        return function
    return add


# --- The models, and what ./train computes

def train_and_export(work):
    text = (ROOT / "data/sallow_reach.txt").read_text()
    validation = text[len(text) * 9 // 10:]
    texts = [validation[begin:begin + length] for begin, length in PIECES]
    for name, setting in MODELS.items():
        place = work / "models" / name
        if (place / "expected.json").exists():
            continue
        shutil.rmtree(place, ignore_errors=True)
        settings = (setting, "train.steps=300", "log.attention_every=0", "log.sample_tokens=0")
        words = [word for setting in settings for word in ("--set", setting)]
        program("train", "configs/dk64_scaled.ini", *words, "--out", place / "run", "--threads", 1, "--quiet")
        subprocess.run([sys.executable, ROOT / "lab/export_gpt2.py", place / "run", place / "hf"], check=True)
        vocabulary = json.loads((place / "run/vocab.json").read_text())
        logits = [[[float(x) for x in line.split()] for line in
                   program("build/gcc/logits", "--fp32", place / "run", text=text).splitlines()] for text in texts]
        weights = program("train", "attend", place / "run", "--text", texts[0][:SHOWN], "--csv")
        expected = {"texts": texts, "ids": [[vocabulary.index(c) for c in text] for text in texts], "logits": logits,
                    "unknown": UNKNOWN, "weights": weights}
        (place / "expected.json").write_text(json.dumps(expected))


def program(*words, text=None):
    command = [str(ROOT / words[0]), *map(str, words[1:])]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


# --- Engines that compute logits

def tokenizer_of(place):
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(place)


def gpt2(place, attention="eager"):
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(place, attn_implementation=attention).eval()


def torch_logits(model):
    import torch

    def logits(ids):
        input_ids = torch.tensor([ids])
        with torch.no_grad():
            return model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits[0].numpy()
    return logits


@engine("transformers eager", "torch", "transformers", "nothing")
def transformers_eager(place):
    return torch_logits(gpt2(place))


@engine("transformers sdpa", "torch", "transformers", "nothing")
def transformers_sdpa(place):
    return torch_logits(gpt2(place, "sdpa"))


def program_of(place):
    """Returns the model as a program of torch.export: of ids, for any length of the text."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gpt2 = gpt2(place)

        def forward(self, input_ids):
            return self.gpt2(input_ids, use_cache=False).logits

    length = torch.export.Dim("length", min=1, max=64)
    return torch.export.export(Logits(), (torch.zeros(1, 7, dtype=torch.long),), dynamic_shapes=({1: length},))


def onnx_of(place):
    """Returns the path of the model as ONNX, which torch writes once; transformers.js looks for it there."""
    path = place / "onnx/model.onnx"
    if not path.exists():
        import torch
        path.parent.mkdir(exist_ok=True)
        torch.onnx.export(program_of(place), f=str(path), input_names=["input_ids"], output_names=["logits"],
                          external_data=False)
    return str(path)


@engine("onnxruntime", "torch", "onnxruntime", "convert")
def onnxruntime(place):
    import numpy as np
    import onnxruntime as ort
    session = ort.InferenceSession(onnx_of(place), providers=["CPUExecutionProvider"])
    return lambda ids: session.run(None, {"input_ids": np.array([ids])})[0][0]


@engine("CTranslate2", "torch", "ctranslate2", "by hand")
def ctranslate2(place):
    import ctranslate2 as ct2
    import numpy as np
    converted = place.with_name("ctranslate2")
    ct2.converters.TransformersConverter(str(place)).convert(str(converted), force=True)
    shutil.copy(place / "ctranslate2.json", converted / "config.json")
    generator, words = ct2.Generator(str(converted), intra_threads=1), tokenizer_of(place)
    return lambda ids: np.array(generator.forward_batch([words.convert_ids_to_tokens(ids)]))[0]


@engine("mlx-lm", "torch", "mlx-lm", "nothing")
def mlx_lm(place):
    import mlx.core as mx
    import numpy as np
    from mlx_lm.utils import load_model
    mx.set_default_device(mx.cpu)
    model = load_model(place)[0]
    return lambda ids: np.array(model(mx.array([ids]))[0])


def gguf_of(place):
    """Writes the model as GGUF without a vocabulary: a token is its id."""
    import gguf
    import numpy as np
    from safetensors.numpy import load_file
    path = place.with_name("model.gguf")
    config = json.loads((place / "config.json").read_text())
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config["vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config["n_layer"])
    for name, x in load_file(place / "model.safetensors").items():
        if x.ndim == 2 and name.startswith(("h.", "transformer.h.")):
            x = x.T  # ours are (in, out), theirs (out, in)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), np.ascontiguousarray(x))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def llama(place, **options):
    import numpy as np
    from llama_cpp import Llama
    model = Llama(gguf_of(place), n_ctx=64, n_batch=64, n_threads=1, logits_all=True, verbose=False, **options)

    def logits(ids):
        model.reset()
        model.eval(ids)
        return np.array(model.scores[:len(ids)])
    return logits


@engine("llama.cpp", "llama", "llama-cpp-python", "by hand")
def llama_cpp(place):
    return llama(place)


@engine("llama.cpp, cache in fp32", "llama", "llama-cpp-python", "by hand")
def llama_cpp_fp32(place):
    return llama(place, type_k=0, type_v=0)  # GGML_TYPE_F32


@engine("keras-hub", "keras", "keras-hub", "nothing")
def keras_hub(place):
    os.environ["KERAS_BACKEND"] = "jax"
    import keras_hub as hub
    import numpy as np
    model = hub.models.GPT2CausalLM.from_preset(str(place), preprocessor=None)

    def logits(ids):
        return np.array(model({"token_ids": np.array([ids]), "padding_mask": np.ones((1, len(ids)))}))[0]
    return logits


def openvino(model, **options):
    import numpy as np
    import openvino as ov
    compiled = ov.Core().compile_model(model, "CPU", options)
    return lambda ids: np.array(compiled([np.array([ids])])[0])[0]


@engine("OpenVINO, from ONNX", "openvino", "openvino", "convert")
def openvino_default(place):
    return openvino(onnx_of(place))


@engine("OpenVINO in f32, from ONNX", "openvino", "openvino", "convert")
def openvino_fp32(place):
    return openvino(onnx_of(place), INFERENCE_PRECISION_HINT="f32")


@engine("OpenVINO in f32, from PyTorch", "openvino", "openvino", "convert")
def openvino_torch(place):
    import openvino as ov
    return openvino(ov.convert_model(program_of(place)), INFERENCE_PRECISION_HINT="f32")


@engine("tinygrad", "tinygrad", "tinygrad", "convert")
def tinygrad(place):
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner
    # A runner takes texts of the length of its first one alone.
    return lambda ids: OnnxRunner(onnx_of(place))({"input_ids": Tensor([ids], dtype="int64")})["logits"].numpy()[0]


@engine("optimum-onnx", "optimum", "optimum-onnx", "convert")
def optimum_onnx(place):
    from optimum.onnxruntime import ORTModelForCausalLM
    return torch_logits(ORTModelForCausalLM.from_pretrained(place, export=True))


@engine("optimum-intel", "openvino", "optimum-intel", "convert")
def optimum_intel(place):
    from optimum.intel import OVModelForCausalLM
    return torch_logits(OVModelForCausalLM.from_pretrained(place, export=True))


@engine("optimum-intel in f32", "openvino", "optimum-intel", "convert")
def optimum_intel_fp32(place):
    from optimum.intel import OVModelForCausalLM
    options = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    return torch_logits(OVModelForCausalLM.from_pretrained(place, export=True, ov_config=options))


ENGINES["onnxruntime-node"] = Engine("node", "onnxruntime-node", "logits", "convert", None)
ENGINES["onnxruntime-web"] = Engine("node", "onnxruntime-web", "logits", "convert", None)
ENGINES["transformers.js"] = Engine("node", "@huggingface/transformers", "logits", "convert", None)


# --- Those that show attention

@engine("BertViz head_view", "torch", "bertviz", "nothing", "weights")
def bertviz_heads(place):
    from bertviz import head_view
    model, words = gpt2(place), tokenizer_of(place)

    def weights(text):
        attention = model(**words(text, return_tensors="pt"), output_attentions=True).attentions
        page = head_view(attention, list(text), html_action="return").data
        return json.loads(re.search(r'"attn": (\[.*?\]), "left_text"', page)[1])
    return weights


@engine("BertViz neuron_view", "torch", "bertviz", "by hand", "weights")
def bertviz_neurons(place):
    from bertviz.neuron_view import get_attention
    from bertviz.transformers_neuron_view import GPT2Config, GPT2Model
    config = json.loads((place / "config.json").read_text())
    mine = GPT2Config(config["vocab_size"], config["n_positions"], config["n_ctx"], config["n_embd"], config["n_layer"],
                      config["n_head"], layer_norm_epsilon=config["layer_norm_epsilon"])
    mine.output_attentions = True
    model = GPT2Model(mine)
    missing = model.load_state_dict(gpt2(place).transformer.state_dict(), strict=False)
    assert all(name.endswith("attn.bias") for name in missing.missing_keys), missing
    words = tokenizer_of(place)
    return lambda text: get_attention(model, "gpt2", words, text)["all"]["attn"]


@engine("TransformerLens", "lens", "transformer-lens", "nothing", "weights")
def transformer_lens(place):
    from transformer_lens.model_bridge import TransformerBridge
    bridge = TransformerBridge.boot_transformers(str(place), device="cpu")

    def weights(text):
        cache = bridge.run_with_cache(bridge.to_tokens(text, prepend_bos=False))[1]
        return [cache[f"blocks.{layer}.attn.hook_pattern"][0].tolist() for layer in range(bridge.cfg.n_layers)]
    return weights


@engine("nnsight", "torch", "nnsight", "nothing", "weights")
def nnsight(place):
    from nnsight import LanguageModel
    model = LanguageModel(gpt2(place), tokenizer=tokenizer_of(place))

    def weights(text):
        seen = []
        with model.trace(text):
            for block in model.transformer.h:
                seen.append(block.attn.output[1].save())
        return [weights[0].tolist() for weights in seen]
    return weights


# --- What is asked beside differences

def says(function, *words):
    """Returns what a function returns, or what it raises, in a line."""
    try:
        return str(function(*words))
    except Exception as fault:  # an error is an answer
        return f"{type(fault).__name__}: {' '.join(str(fault).split())[:160]}"


def padded_difference(place, side):
    """Returns how far the logits of a short text move when a longer one is in its batch, with a pad token named by hand."""
    import torch
    model, words = gpt2(place), tokenizer_of(place)
    expected = json.loads((place.parent / "expected.json").read_text())
    words.pad_token, words.padding_side = " ", side
    short, long = expected["texts"][2], expected["texts"][0]
    batch = words([short, long], return_tensors="pt", padding=True)
    with torch.no_grad():
        logits = model(**batch).logits[0]
        alone = model(**words(short, return_tensors="pt")).logits[0]
    kept = batch["attention_mask"][0].bool()
    return f"logits move by {(logits[kept] - alone).abs().max().item():.1e}"


def padded_text(place):
    """Returns whether the greedy text after a short prompt is the same in a batch with a longer one, padded on the left."""
    model, words = gpt2(place), tokenizer_of(place)
    words.pad_token, words.padding_side = " ", "left"
    short, long = "The ", "The river and the "
    options = {"do_sample": False, "max_new_tokens": 20, "pad_token_id": words.pad_token_id}
    batch = model.generate(**words([short, long], return_tensors="pt", padding=True), **options)[0]
    alone = model.generate(**words(short, return_tensors="pt"), **options)[0]
    return f"greedy text {'the same' if batch[-20:].equal(alone[-20:]) else 'another'}"


@engine("transformers tokenizer", "torch", "transformers", "", "answers")
def transformers_answers(place):
    words = tokenizer_of(place)
    return {"unknown": says(lambda: words(UNKNOWN).input_ids),
            "padding": says(lambda: words(["The", "river"], padding=True).input_ids),
            "padding right": says(padded_difference, place, "right"),
            "padding left": says(padded_difference, place, "left"),
            "padding left, generate": says(padded_text, place)}


@engine("CTranslate2 generator", "torch", "ctranslate2", "", "answers")
def ctranslate2_answers(place):
    import ctranslate2 as ct2
    generator = ct2.Generator(str(place.with_name("ctranslate2")), intra_threads=1)

    def ask():
        generator.forward_batch([list(UNKNOWN)])
        return "logits, and no error"
    return {"unknown": says(ask)}


@engine("mlx-lm tokenizer", "torch", "mlx-lm", "", "answers")
def mlx_lm_answers(place):
    from mlx_lm.utils import load
    return {"unknown": says(lambda: load(str(place))[1].encode(UNKNOWN))}


@engine("TransformerLens tokenizer", "lens", "transformer-lens", "", "answers")
def transformer_lens_answers(place):
    from transformer_lens.model_bridge import TransformerBridge
    bridge = TransformerBridge.boot_transformers(str(place), device="cpu")
    return {"ids of 'The'": says(lambda: f"{bridge.to_tokens('The')[0].tolist()}, of a model with ids below {bridge.cfg.d_vocab}")}


ENGINES["transformers.js tokenizer"] = Engine("node", "@huggingface/transformers", "answers", "", None)
ENGINES["@huggingface/hub"] = Engine("node", "@huggingface/hub", "answers", "", None)


# --- Measuring

def weights_difference(came, expected):
    """Returns the largest difference of a weight, over all heads and visible keys."""
    rows = list(csv.DictReader(io.StringIO(expected["weights"], newline="")))
    assert len(rows) == sum(map(len, came)) * SHOWN * (SHOWN + 1) // 2, "another number of heads or of positions"
    places = [(float(row["weight"]), *(int(row[name]) for name in ("layer", "head", "query", "key"))) for row in rows]
    return max(abs(weight - came[layer][head][query][key]) for weight, layer, head, query, key in places), 1


def logits_difference(logits, expected):
    """Returns the largest difference of a logit, over all texts, and the largest logit."""
    import numpy as np
    came = [np.asarray(logits(ids), dtype=float) for ids in expected["ids"]]
    wanted = [np.array(x) for x in expected["logits"]]
    assert all(x.shape == y.shape for x, y in zip(came, wanted)), f"logits of shape {came[0].shape}"
    differences = [np.abs(x - y).max() for x, y in zip(came, wanted)]
    return float(max(differences)), max(np.abs(y).max() for y in wanted)


def measure(name, work):
    """Prints a row for each model, in an environment that has this engine."""
    entry = ENGINES[name]
    if entry.shows == "answers":
        for question, said in entry.open(work / "models/sqrt_dk/hf").items():
            print("row " + json.dumps({"engine": name, "version": version(entry.package), "model": question,
                                       "shows": "answers", "said": said}), flush=True)
        return
    for model in MODELS:
        place = work / "models" / model
        row = {"engine": name, "version": version(entry.package), "model": model, "shows": entry.shows, "must": entry.must}
        expected = json.loads((place / "expected.json").read_text())
        try:
            opened = entry.open(place / "hf")
            if entry.shows == "logits":
                difference, largest = logits_difference(opened, expected)
            else:
                difference, largest = weights_difference(opened(expected["texts"][0][:SHOWN]), expected)
            row |= {"difference": f"{difference:.1e}", "largest": f"{largest:.3g}"}
        except Exception as fault:  # whatever an engine raises is its answer
            row["said"] = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        print("row " + json.dumps(row), flush=True)


def environment(name, work):
    """Makes an environment once, and returns its interpreter; raises CalledProcessError where it cannot be installed."""
    place = work / f"environment_{name}"
    if name == "node":
        if not place.exists():
            place.mkdir(parents=True)
            shutil.copy(HERE / "package.json", place)
            # Without the scripts of the packages: onnxruntime-node would download CUDA.
            subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=place, check=True)
        shutil.copy(HERE / "engines.mjs", place)
        return ["node", place / "engines.mjs"]
    python = place / "bin/python"
    if not (place / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / f"requirements_{name}.txt"], check=True)
        # optimum-intel brings torchvision; beside a CPU build of torch its CUDA build cannot be imported, nor can transformers.
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "torchvision"], check=True)
        (place / "installed").touch()
    return [python, HERE / "engines.py", "--measure"]


def run(name, work):
    """Returns the rows of an engine, or one that says why it has none."""
    entry, failed = ENGINES[name], {"engine": name, "shows": ENGINES[name].shows, "must": "", "model": "all"}
    try:
        command = [*environment(entry.environment, work), name, work]
        settings = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=1200)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as fault:
        return [failed | {"said": str(fault)}]
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("row ")]
    print(name, *(f"{row['model']} {row.get('difference') or row['said']}" for row in rows), sep="; ", flush=True)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return rows or [failed | {"said": last[:200]}]


def write_table(rows):
    with open(TABLE, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
        table.writeheader()
        table.writerows(rows)


def read_table():
    with open(TABLE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- The page

# Who reads the text for an engine, in the order of the guesses about unknown characters.
READERS = {"transformers.js": "transformers.js tokenizer", "CTranslate2": "CTranslate2 generator", "mlx-lm": "mlx-lm tokenizer"}


def cell(row):
    """Returns a cell of a table: a difference, or that the engine refuses the model."""
    if not row["difference"]:
        return "refused"
    difference = float(row["difference"])
    return f"{difference:.1f}" if difference >= 1 else f"{difference:.1e}".replace("e-0", "e-")


def table(rows, shows):
    """Returns the lines of the table of engines, with a column for each model."""
    lines = [f"| engine | package | {' | '.join(MODELS)} | must |", "|---|---|" + "---|" * (len(MODELS) + 1)]
    for name, entry in ENGINES.items():
        mine = {row["model"]: row for row in rows if row["engine"] == name and row["shows"] == shows}
        if "all" in mine:
            lines.append(f"| {name} | | {' | ' * (len(MODELS) - 1)} | not run: {mine['all']['said']} |")
        elif mine:
            cells = " | ".join(cell(mine[model]) for model in MODELS)
            lines.append(f"| {name} | {entry.package} {next(iter(mine.values()))['version']} | {cells} | {entry.must} |")
    return lines


def answers(rows):
    lines = ["| asked | of | answer |", "|---|---|---|"]
    for row in sorted((row for row in rows if row["shows"] == "answers"), key=lambda row: row["model"]):
        said = row["said"].replace("|", "\\|").replace("_", "\\_")
        lines.append(f"| {row['model']} | {row['engine']} {row['version']} | {said} |")
    return lines


def word_of(row):
    """Returns the word that guesses.md defines for a difference."""
    if not row.get("difference"):
        return "fails"
    difference = float(row["difference"])
    return "exact" if difference < 5e-5 else "rounded" if difference <= 2e-2 else "other"


def judged(rows):
    """Yields each guess about an engine that was measured: engine, what was guessed, the guess and what is so."""
    measured = {(row["engine"], row["model"]): row for row in rows}
    with open(HERE / "guesses.csv", encoding="utf-8", newline="") as file:
        for guess in csv.DictReader(file):
            name = guess["engine"]
            for model in MODELS:
                row = measured.get((name, model))
                if row:
                    yield name, model, guess[model], word_of(row)
            if (name, "none") in measured:
                yield name, "must", guess["must"], ENGINES[name].must
            said = measured.get((READERS.get(name, "transformers tokenizer"), "unknown"))
            if guess["unknown"] and said:
                yield name, "unknown", guess["unknown"], "error" if re.match("[A-Za-z]*(Error|Exception): ", said["said"]) else "other"


def wrong_guesses(rows):
    """Returns a sentence and a table of the guesses that were wrong, those of an engine with the same words in one row."""
    guesses = list(judged(rows))
    wrong = {}
    for name, what, guess, so in guesses:
        if guess != so:
            wrong.setdefault((name, guess, so), []).append(what)
    count = sum(map(len, wrong.values()))
    lines = [f"Of {len(guesses)} guesses {count} were wrong:", "", "| engine | about | guess | measured |", "|---|---|---|---|"]
    return lines + [f"| {name} | {', '.join(what)} | {guess} | {so} |" for (name, guess, so), what in wrong.items()]


def page_of(rows, page):
    """Returns the page with its parts as the rows say."""
    parts = {"logits": table(rows, "logits"), "weights": table(rows, "weights"), "answers": answers(rows),
             "guesses": wrong_guesses(rows)}

    def part(found):
        return "\n".join([f"<!-- engines {found[1]} -->", *parts.pop(found[1]), "<!-- end -->"])
    page = re.sub(r"<!-- engines (\w+) -->\n.*?<!-- end -->", part, page, flags=re.S)
    if parts:
        sys.exit(f"{PAGE} has no part {', '.join(parts)}")
    return page


def main(words):
    if words[:1] == ["--measure"]:
        measure(words[1], Path(words[2]))
    elif words in (["--page"], ["--check"]):
        page = PAGE.read_text(encoding="utf-8")
        renewed = page_of(read_table(), page)
        if words == ["--page"]:
            PAGE.write_text(renewed, encoding="utf-8")
        elif renewed != page:
            sys.exit("lab/docs/engines.md has other parts than lab/docs/results/engines.csv says: lab/engines/engines.py --page")
    elif not words or words[0].startswith("-"):
        sys.exit(__doc__.strip())
    else:
        run_all(Path(words[0]).absolute(), words[1:] or list(ENGINES))


def run_all(work, names):
    """Runs these engines, and writes the table with their rows in the place of those that it had."""
    train_and_export(work)
    rows = read_table() if TABLE.exists() else []
    for name in names:
        rows = [row for row in rows if row["engine"] != name] + run(name, work)
        write_table(sorted(rows, key=lambda row: list(ENGINES).index(row["engine"])))


if __name__ == "__main__":
    main(sys.argv[1:])
