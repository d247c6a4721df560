"""Runs an ONNX model whose divisors can be moved, and hands out its queries, keys and scores.

Attention is found from behind: a softmax whose input comes, through a mask or a term that is added, from a product of two
computed matrices. The constant that queries are multiplied or divided by before that product is the divisor. Behind it a
division by a new input of the graph is put, which is 1 in the unchanged model.
"""
import math

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper


class OnnxModel:
    def __init__(self, path, output=None):
        """Takes a model from a file; `output` is its output if it is another tensor of the graph than the last."""
        graph = onnx.load(path).graph
        opset = onnx.load(path, load_external_data=False).opset_import[0].version
        self.producer = {name: node for node in graph.node for name in node.output}
        self.constants = {one.name: one for one in graph.initializer}
        self.output = output or graph.output[0].name
        nodes, self.places = list(graph.node), []
        for softmax in [node for node in graph.node if node.op_type == "Softmax"]:
            product = self.product_of(softmax.input[0])
            if product is None:
                continue
            scaling = self.producer[product.input[0]]
            multiplier = self.value(scaling.input[1])
            if scaling.op_type not in ("Mul", "Div") or multiplier is None:
                raise ValueError(f"{product.name}: queries that are not scaled by a constant")
            name, factor = scaling.output[0], f"factor_{len(self.places)}"
            scaling.output[0] = name + "_unmoved"
            nodes.insert(nodes.index(scaling) + 1, helper.make_node("Div", [name + "_unmoved", factor], [name]))
            m = multiplier.item() if scaling.op_type == "Mul" else 1 / multiplier.item()
            self.places.append((name, product.input[1], softmax.input[0], m))
        self.layers = len(self.places)
        self.seen = [name for place in self.places for name in place[:3]]
        wanted = self.needed(nodes, {self.output, *self.seen})
        inputs = [one for one in graph.input if one.name not in self.constants and one.name in wanted[1]]
        inputs += [helper.make_tensor_value_info(f"factor_{i}", onnx.TensorProto.FLOAT, []) for i in range(self.layers)]
        outputs = [helper.make_empty_tensor_value_info(name) for name in (self.output, *self.seen)]
        model = helper.make_model(helper.make_graph(wanted[0], "moved", inputs, outputs, list(graph.initializer)),
                                  opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def value(self, name):
        """Returns what a constant is, or None."""
        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        node = self.producer.get(name)
        if node is not None and node.op_type == "Constant":
            return numpy_helper.to_array(helper.get_attribute_value(node.attribute[0]))
        return None

    def product_of(self, name):
        """Returns the product of two computed matrices that a tensor comes from, through masks and sums, or None."""
        node = self.producer.get(name)
        if node is None:
            return None
        if node.op_type == "MatMul":
            return node if all(self.value(one) is None for one in node.input) else None
        if node.op_type not in ("Where", "Add"):
            return None
        return next(filter(None, map(self.product_of, node.input)), None)

    @staticmethod
    def needed(nodes, names):
        """Returns the nodes that tensors depend on, in order, and the names of all tensors that those read."""
        names, kept = set(names), []
        for node in reversed(nodes):
            if any(name in names for name in node.output):
                kept.append(node)
                names.update(node.input)
        return kept[::-1], names

    def run(self, given, factor=1.0, only=None, heads=None, special=None):
        """Returns the output. Divides the scores by `factor` times their divisor, in all layers or in one."""
        factors = {f"factor_{i}": np.array(factor if only in (None, i) else 1, dtype=np.float32) for i in range(self.layers)}
        output, *seen = self.session.run([self.output, *(self.seen if heads is not None else [])], {**given, **factors})
        for layer in range(self.layers if heads is not None else 0):
            scaled, k, entering = (torch.from_numpy(one[0]) for one in seen[3 * layer : 3 * layer + 3])
            m = self.places[layer][3]
            k = k.transpose(-2, -1)
            if abs(m * math.sqrt(k.shape[-1]) - 1) > 1e-3:
                raise ValueError(f"a multiplier of {m} at d_k {k.shape[-1]}")
            visible = torch.ones(entering.shape[-2:], dtype=torch.bool)
            heads.add(layer, scaled / m, k, scaled @ k.transpose(-2, -1), entering, visible, special)
        return output
