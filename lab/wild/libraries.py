#!/usr/bin/env python3
"""Measures what attention functions of other libraries multiply scores by, and writes a table.

    pip install -r lab/wild/requirements_libraries.txt
    python3 lab/wild/libraries.py >lab/docs/results/wild_libraries.csv

A module of PyTorch is measured as architectures are (probe.py). A function of queries, keys and values gets the identity
matrix for all three: then a score is m on the diagonal and 0 elsewhere, and the ratio of a weight on the diagonal to
another one is exp(m). A layer of another framework gets identity matrices for its weights, and the identity as its input.
Each is measured with two sizes of head, in a process of its own.
"""
import csv
import importlib.metadata
import math
import re
import subprocess
import sys
from pathlib import Path

from kinds import kind_of

HEADS = 2
SIZES = (16, 64)
COLUMNS = ["library", "version", "field", "name", "method", "d_k", "multiplier", "width", "d_k_2", "multiplier_2", "width_2", "kind",
           "constant", "normed", "learned", "reason"]
ENTRIES = []


def entry(library, field, name):
    """Adds a function to the table: it takes a size of head and returns (multiplier, d_k, width, vectors, learned)."""
    def add(function):
        ENTRIES.append((library, field, name, function))
        return function
    return add


def probed(module, *args, width, which=0, **kwargs):
    """Measures the attention of a PyTorch module."""
    from probe import Watch
    watch = Watch(module.eval())
    with watch.on():
        module(*args, **kwargs)
    if not watch.seen:
        raise RuntimeError("no product of two vectors in a softmax: " + "; ".join(watch.others[:2]))
    seen = watch.seen[which]
    if seen.spread > 1e-3:
        raise RuntimeError(f"the second derivative is no multiple of a rotation: it varies by {seen.spread:.2g}")
    return seen.multiplier, seen.d_k, width, seen.sources, seen.learned


def from_identity(output, size, width):
    """Returns what the output of attention shows, whose queries, keys and values were the identity."""
    import numpy
    out = numpy.asarray(output, dtype=float).reshape(size, size)
    return math.log(out[0, 0] / out[0, 1]), size, width, "identity", ""


def rows(*shape):
    import torch
    torch.manual_seed(1)
    return torch.randn(*shape)


# --- Graphs

def ring(nodes=6):
    """Returns the edges of a graph in which every node is joined to every other one."""
    import torch
    return torch.tensor([[i, j] for i in range(nodes) for j in range(nodes) if i != j]).T


def message_scores(layer, score):
    """Graph layers normalize scores over the edges into a node by torch_geometric.utils.softmax: hands it to the probe."""
    module = sys.modules[type(layer).__module__]
    kept = module.softmax

    def seen(source, index, ptr=None, num_nodes=None, dim=0):
        score(source.reshape(source.shape[0], -1).T)  # (heads, edges): a row of scores a head
        return kept(source, index, ptr, num_nodes, dim)
    module.softmax = seen


def graph(layer, width, *args):
    from probe import Watch
    watch = Watch(layer.eval())
    message_scores(layer, watch.measure)
    with watch.on():
        layer(*args)
    if not watch.seen:
        raise RuntimeError("its scores are no products of two vectors")
    seen = watch.seen[0]
    return seen.multiplier, seen.d_k, width, seen.sources, seen.learned


@entry("torch-geometric", "graphs", "TransformerConv")
def _(d):
    from torch_geometric.nn import TransformerConv
    return graph(TransformerConv(HEADS * d, d, heads=HEADS), HEADS * d, rows(6, HEADS * d), ring())


@entry("torch-geometric", "graphs", "HGTConv")
def _(d):
    from torch_geometric.nn import HGTConv
    layer = HGTConv(HEADS * d, HEADS * d, (["a"], [("a", "to", "a")]), heads=HEADS)
    return graph(layer, HEADS * d, {"a": rows(6, HEADS * d)}, {("a", "to", "a"): ring()})


@entry("torch-geometric", "graphs", "GPSConv")
def _(d):
    from torch_geometric.nn import GPSConv
    return probed(GPSConv(HEADS * d, None, heads=HEADS), rows(6, HEADS * d), ring(), width=HEADS * d)


@entry("torch-geometric", "graphs", "SuperGATConv SD")
def _(d):
    from torch_geometric.nn import SuperGATConv
    return graph(SuperGATConv(HEADS * d, d, heads=HEADS, attention_type="SD"), HEADS * d, rows(6, HEADS * d), ring())


@entry("torch-geometric", "graphs", "SuperGATConv MX")
def _(d):
    from torch_geometric.nn import SuperGATConv
    return graph(SuperGATConv(HEADS * d, d, heads=HEADS), HEADS * d, rows(6, HEADS * d), ring())


@entry("torch-geometric", "graphs", "TransformerConv of edges")
def _(d):
    from torch_geometric.nn import TransformerConv
    edges = ring()
    return graph(TransformerConv(HEADS * d, d, heads=HEADS, edge_dim=4), HEADS * d, rows(6, HEADS * d), edges,
                 rows(edges.shape[1], 4))


@entry("torch-geometric", "graphs", "PolynormerAttention")
def _(d):
    from torch_geometric.nn.attention import PolynormerAttention
    return probed(PolynormerAttention(HEADS * d, HEADS, d), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("graph-transformer-pytorch", "graphs", "Attention")
def _(d):
    from graph_transformer_pytorch.graph_transformer_pytorch import Attention
    width = HEADS * d
    layer = Attention(width, dim_head=d, heads=HEADS, edge_dim=width)
    return probed(layer, rows(1, 6, width), rows(1, 6, 6, width), width=width)


@entry("equiformer-pytorch", "graphs", "DotProductAttention")
def _(d):
    from equiformer_pytorch import Equiformer
    model = Equiformer(num_tokens=8, dim=HEADS * d, dim_head=d, heads=HEADS, depth=1, num_degrees=1, num_neighbors=4,
                       l2_dist_attention=False, attend_self=True, reduce_dim_out=False, linear_out=True)
    import torch
    return probed(model, torch.randint(0, 8, (1, 6)), rows(1, 6, 3), torch.ones(1, 6).bool(), width=HEADS * d)


# --- Audio

@entry("speechbrain", "audio", "RelPosMHAXL")
def _(d):
    from speechbrain.nnet.attention import RelPosEncXL, RelPosMHAXL
    width = HEADS * d
    x = rows(1, 6, width)
    return probed(RelPosMHAXL(width, HEADS), x, x, x, pos_embs=RelPosEncXL(width)(x), width=width)


@entry("speechbrain", "audio", "RoPEMHA")
def _(d):
    from speechbrain.nnet.attention import RoPEMHA
    width = HEADS * d
    x = rows(1, 6, width)
    return probed(RoPEMHA(width, HEADS), x, x, x, width=width)


@entry("speechbrain", "audio", "MultiheadAttention")
def _(d):
    from speechbrain.nnet.attention import MultiheadAttention
    width = HEADS * d
    x = rows(1, 6, width)
    return probed(MultiheadAttention(nhead=HEADS, d_model=width), x, x, x, width=width)


@entry("speechbrain", "audio", "KeyValueAttention")
def _(d):
    from speechbrain.nnet.attention import KeyValueAttention
    import torch
    layer = KeyValueAttention(HEADS * d, HEADS * d, d, d)
    return probed(layer, rows(1, 6, HEADS * d), torch.tensor([6]), rows(1, HEADS * d), width=HEADS * d)


@entry("conformer", "audio", "Attention")
def _(d):
    from conformer.conformer import Attention
    return probed(Attention(HEADS * d, heads=HEADS, dim_head=d), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("demucs", "audio", "LocalState")
def _(d):
    from demucs.demucs import LocalState
    layer = LocalState(HEADS * d, heads=HEADS)
    return probed(layer, rows(1, HEADS * d, 6), width=HEADS * d)


@entry("demucs", "audio", "MyTransformerEncoderLayer")
def _(d):
    from demucs.transformer import MyTransformerEncoderLayer
    layer = MyTransformerEncoderLayer(HEADS * d, HEADS, batch_first=True)
    return probed(layer, rows(1, 6, HEADS * d), width=HEADS * d)


# --- Proteins, weather, time series

@entry("fair-esm", "proteins", "MultiheadAttention")
def _(d):
    from esm.multihead_attention import MultiheadAttention
    x = rows(6, 1, HEADS * d)
    return probed(MultiheadAttention(HEADS * d, HEADS, use_rotary_embeddings=True), x, x, x, need_head_weights=True, width=HEADS * d)


@entry("fair-esm", "proteins", "RowSelfAttention of 3 rows")
def _(d):
    from esm.axial_attention import RowSelfAttention
    return probed(RowSelfAttention(HEADS * d, HEADS), rows(3, 6, 1, HEADS * d), width=HEADS * d)


@entry("fair-esm", "proteins", "RowSelfAttention of 12 rows")
def _(d):
    from esm.axial_attention import RowSelfAttention
    return probed(RowSelfAttention(HEADS * d, HEADS), rows(12, 6, 1, HEADS * d), width=HEADS * d)


@entry("fair-esm", "proteins", "ColumnSelfAttention")
def _(d):
    from esm.axial_attention import ColumnSelfAttention
    return probed(ColumnSelfAttention(HEADS * d, HEADS), rows(3, 6, 1, HEADS * d), width=HEADS * d)


@entry("microsoft-aurora", "weather", "WindowAttention")
def _(d):
    from aurora.model.swin3d import WindowAttention
    layer = WindowAttention(HEADS * d, (1, 2, 3), HEADS, time_dim=HEADS * d)
    return probed(layer, rows(1, 6, HEADS * d), width=HEADS * d)


@entry("microsoft-aurora", "weather", "PerceiverAttention")
def _(d):
    from aurora.model.perceiver import PerceiverAttention
    layer = PerceiverAttention(HEADS * d, HEADS * d, head_dim=d, num_heads=HEADS)
    return probed(layer, rows(1, 6, HEADS * d), rows(1, 5, HEADS * d), width=HEADS * d)


@entry("chronos-forecasting", "time series", "Chronos2 MHA")
def _(d):
    from chronos.chronos2.config import Chronos2CoreConfig
    from chronos.chronos2.layers import MHA
    import torch
    config = Chronos2CoreConfig(d_model=HEADS * d, d_kv=d, num_heads=HEADS, attn_implementation="eager")
    return probed(MHA(config), rows(1, 6, HEADS * d), torch.zeros(1, 1, 6, 6), position_ids=torch.arange(6)[None], width=HEADS * d)


@entry("pytorch-forecasting", "time series", "InterpretableMultiHeadAttention")
def _(d):
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import InterpretableMultiHeadAttention
    x = rows(1, 6, HEADS * d)
    return probed(InterpretableMultiHeadAttention(HEADS, HEADS * d), x, x, x, width=HEADS * d)


# --- Tables, text and others

@entry("axial-attention", "pictures", "SelfAttention")
def _(d):
    from axial_attention.axial_attention import SelfAttention
    return probed(SelfAttention(HEADS * d, HEADS), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("nystrom-attention", "text", "NystromAttention")
def _(d):
    from nystrom_attention import NystromAttention
    return probed(NystromAttention(HEADS * d, dim_head=d, heads=HEADS, num_landmarks=3), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("perceiver-pytorch", "several", "Attention")
def _(d):
    from perceiver_pytorch.perceiver_pytorch import Attention
    return probed(Attention(HEADS * d, heads=HEADS, dim_head=d), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("tab-transformer-pytorch", "tables", "Attention")
def _(d):
    from tab_transformer_pytorch.tab_transformer_pytorch import Attention
    return probed(Attention(HEADS * d, heads=HEADS, dim_head=d), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("x-transformers", "text", "Attention")
def _(d):
    from x_transformers.x_transformers import Attention
    return probed(Attention(HEADS * d, heads=HEADS, dim_head=d), rows(1, 6, HEADS * d), width=HEADS * d)


@entry("x-transformers", "text", "Attention qk_norm")
def _(d):
    from x_transformers.x_transformers import Attention
    return probed(Attention(HEADS * d, heads=HEADS, dim_head=d, qk_norm=True), rows(1, 6, HEADS * d), width=HEADS * d)


# --- Frameworks

@entry("torch", "framework", "MultiheadAttention")
def _(d):
    import torch
    x = rows(1, 6, HEADS * d)
    return probed(torch.nn.MultiheadAttention(HEADS * d, HEADS, batch_first=True), x, x, x, width=HEADS * d)


@entry("keras", "framework", "MultiHeadAttention")
def _(d):
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy
    layer = keras.layers.MultiHeadAttention(1, d, use_bias=False)
    x = numpy.eye(d, dtype="float32")[None]
    layer(x, x)
    layer.set_weights([numpy.eye(d, dtype="float32").reshape(weight.shape) for weight in layer.weights])
    return from_identity(keras.ops.convert_to_numpy(layer(x, x)), d, d)


@entry("keras", "framework", "Attention")
def _(d):
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy
    x = numpy.eye(d, dtype="float32")[None]
    return from_identity(keras.ops.convert_to_numpy(keras.layers.Attention()([x, x, x])), d, d)


@entry("keras", "framework", "Attention use_scale")
def _(d):
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy
    x = numpy.eye(d, dtype="float32")[None]
    return from_identity(keras.ops.convert_to_numpy(keras.layers.Attention(use_scale=True)([x, x, x])), d, d)[:4] + ("scale",)


@entry("keras", "framework", "GroupQueryAttention")
def _(d):
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy
    layer = keras.layers.GroupQueryAttention(d, 1, 1, use_bias=False)
    x = numpy.eye(d, dtype="float32")[None]
    layer(x, x)
    layer.set_weights([numpy.eye(d, dtype="float32").reshape(weight.shape) for weight in layer.weights])
    return from_identity(keras.ops.convert_to_numpy(layer(x, x)), d, d)


@entry("jax", "framework", "nn.dot_product_attention")
def _(d):
    import jax
    x = jax.numpy.eye(d)[None, :, None, :]
    return from_identity(jax.nn.dot_product_attention(x, x, x), d, d)


@entry("flax", "framework", "linen.dot_product_attention")
def _(d):
    import flax.linen
    import jax
    x = jax.numpy.eye(d)[None, :, None, :]
    return from_identity(flax.linen.dot_product_attention(x, x, x), d, d)


@entry("dm-haiku", "framework", "MultiHeadAttention")
def _(d):
    import haiku
    import jax
    eye = jax.numpy.eye(d)
    layer = haiku.transform(lambda x: haiku.MultiHeadAttention(1, d, w_init=haiku.initializers.Constant(eye), with_bias=False)(x, x, x))
    return from_identity(layer.apply(layer.init(jax.random.PRNGKey(1), eye), None, eye), d, d)


@entry("equinox", "framework", "MultiheadAttention")
def _(d):
    import equinox
    import jax
    layer = equinox.nn.MultiheadAttention(1, d, key=jax.random.PRNGKey(1))
    eye = jax.numpy.eye(d)
    names = ("query_proj", "key_proj", "value_proj", "output_proj")
    layer = equinox.tree_at(lambda one: [getattr(one, name).weight for name in names], layer, [eye] * 4)
    return from_identity(layer(eye, eye, eye), d, d)


@entry("mlx", "framework", "nn.MultiHeadAttention")
def _(d):
    import mlx.core as mx
    import mlx.nn
    layer = mlx.nn.MultiHeadAttention(d, 1)
    for name in ("query_proj", "key_proj", "value_proj", "out_proj"):
        getattr(layer, name).weight = mx.eye(d)
    x = mx.eye(d)[None]
    return from_identity(layer(x, x, x), d, d)


def in_node(package, script, d):
    """Returns what a script of Node prints, the output of attention as JSON."""
    import json
    import os
    folder = os.environ.get("WILD_NODE_MODULES", "node_modules")
    came = subprocess.run(["node", "--input-type=module", "-e", script.replace("SIZE", str(d))], capture_output=True, text=True,
                          cwd=Path(folder).parent, timeout=60)
    if came.returncode:
        raise RuntimeError(f"{package}: {next((line for line in came.stderr.splitlines() if 'Error' in line), 'node failed')}")
    return json.loads(came.stdout.strip().splitlines()[-1])


@entry("@jax-js/jax", "npm", "nn.dotProductAttention")
def _(d):
    script = """
        // What Node 20 lacks: a navigator, and methods of iterators.
        globalThis.navigator ??= {};
        const iterator = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
        iterator.map ??= function* (f) { for (const one of this) yield f(one); };
        iterator.filter ??= function* (f) { for (const one of this) if (f(one)) yield one; };
        iterator.toArray ??= function () { return [...this]; };
        const { nn, numpy: np, init, defaultDevice } = await import('@jax-js/jax');
        await init('wasm'); defaultDevice('wasm');
        const x = () => np.eye(SIZE).reshape([1, SIZE, 1, SIZE]);
        const y = nn.dotProductAttention(x(), x(), x());
        console.log(JSON.stringify(Array.from(await y.data())));"""
    return from_identity(in_node("@jax-js/jax", script, d), d, d)


def version(library):
    if library.startswith("@"):
        import json
        import os
        return json.loads((Path(os.environ.get("WILD_NODE_MODULES", "node_modules")) / library / "package.json").read_text())["version"]
    return importlib.metadata.version(library)


def one(number):
    """Prints the row of an entry."""
    library, field, name, function = ENTRIES[number]
    row = {column: "" for column in COLUMNS} | {"library": library, "field": field, "name": name}
    try:
        row["version"] = version(library)
        (m1, d1, w1, vectors, learned), (m2, d2, w2, _, _) = map(function, SIZES)
        kind, constant = kind_of((d1, m1, w1), (d2, m2, w2))
        row |= {"method": "identity" if vectors == "identity" else "second derivative", "d_k": d1, "multiplier": f"{m1:.5g}",
                "width": w1, "d_k_2": d2, "multiplier_2": f"{m2:.5g}", "width_2": w2, "kind": kind, "constant": f"{constant:.5g}",
                "normed": "yes" if "norm" in vectors.lower() else "", "learned": learned}
    except Exception as error:  # the reason that the table has
        text = re.sub(r"/\S*/", "", " ".join(str(error).split()))  # without this machine's folders
        row["reason"] = f"{type(error).__name__}: {text}"[:200]
    csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n").writerow(row)


def main():
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
        return
    csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n").writeheader()
    sys.stdout.flush()
    chosen = sys.argv[1:]
    for number, (library, field, name, _) in enumerate(ENTRIES):
        if chosen and library not in chosen:
            continue
        try:
            came = subprocess.run([sys.executable, __file__, "--one", str(number)], capture_output=True, text=True, timeout=120)
            line = [line for line in came.stdout.splitlines() if line.startswith(library)][-1]
        except (subprocess.TimeoutExpired, IndexError):
            line = ",".join([library, "", field, name] + [""] * (len(COLUMNS) - 5) + ["ended without a row"])
        print(line, flush=True)


if __name__ == "__main__":
    main()
