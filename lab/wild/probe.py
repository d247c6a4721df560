"""Measures what a PyTorch model multiplies its attention scores by, without reading its code.

A score that enters softmax is, in most models, x = m q·Rk + (terms without q or without k), where R is a rotation. Its
mixed second derivative by q and k is then m R, whatever q and k are, so that |(m R) u| / |u| = m for every vector u: the
multiplier, to the precision of a float. A rotation cancels, as does every term that is added. The number of entries of
q that x depends on is d_k.

What q and k are is decided by cutting the model: the output of every linear map, convolution and normalization becomes
a leaf that derivatives end at. So q is the last learned or normalized vector before the score, and what happens to it
later (a factor, a rotation, a temperature) counts as multiplier. Functions are replaced while the model runs (Watch),
since nn.MultiheadAttention calls them where no mode of PyTorch sees them.
"""
import contextlib
import math
from collections import namedtuple

import torch
import torch.nn.functional as F

# The multiplier of an attention: where, its leaves' kinds, d_k, m; how much |Hu|/|u| varies over u; m in the second row
# over that in the last; what else happens to the score.
Seen = namedtuple("Seen", "path module sources d_k multiplier spread growth cap sink position learned")

MOST = 40  # attentions that are measured in a pass
FAINT = 1e-2
TRIED = 3  # scores of a row that may have no product
RECENT = 60  # leaves before a softmax that a score may come from


class Watch:
    """Runs a model with its leaves cut, and measures every softmax of scores. `seen` has the results."""

    def __init__(self, model):
        self.names = {module: name for name, module in model.named_modules()}
        self.parameters = {parameter: name for name, parameter in model.named_parameters()}
        self.leaves = []
        self.stack = []
        self.seen = []
        self.others = []
        self.measuring = False

    # --- What is a leaf

    def cut(self, tensor, kind):
        """Returns a copy whose derivatives end here."""
        if self.measuring or not torch.is_tensor(tensor) or not tensor.is_floating_point() or not torch.is_grad_enabled():
            return tensor
        leaf = tensor.detach().requires_grad_()
        self.leaves.append((leaf, kind))
        return leaf.clone()

    def is_weight(self, tensor):
        return torch.is_tensor(tensor) and (tensor in self.parameters or tensor._base is not None
                                            and tensor._base in self.parameters)

    def cutting(self, function, kind):
        return lambda *args, **kwargs: self.cut(function(*args, **kwargs), kind)

    def product(self, function):
        """A product with a weight is a linear map; another is left alone."""
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            operands = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else args
            return self.cut(result, "linear") if any(self.is_weight(one) for one in operands) else result
        return call

    # --- What is a softmax

    def softmax(self, function):
        def call(x, *args, **kwargs):
            self.measure(x)
            return function(x, *args, **kwargs)
        return call

    def fused(self, function):
        def call(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, **more):
            if not self.measuring and torch.is_grad_enabled():
                keys = k
                if enable_gqa and q.shape[-3] != k.shape[-3]:
                    keys = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3)
                x = q @ keys.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
                if attn_mask is not None:
                    x = x.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else x + attn_mask
                self.measure(x)
            return function(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                            enable_gqa=enable_gqa, **more)
        return call

    def maximum(self, function):
        """The maximum of a row is subtracted from its scores before some softmaxes, and changes nothing: a constant."""
        def call(x, *args, **kwargs):
            result = function(x, *args, **kwargs)
            if self.measuring or args and torch.is_tensor(args[0]) or "other" in kwargs:
                return result
            if torch.is_tensor(result):
                return result.detach()
            return type(result)((result[0].detach(), *result[1:]))
        return call

    # --- Measuring

    def measure(self, x):
        """Adds what x, the input of a softmax, shows."""
        if self.measuring or len(self.seen) >= MOST:
            return
        path = self.stack[-1] if self.stack else ""
        if not x.requires_grad or x.dim() < 2:
            self.others.append(path)
            return
        self.measuring = True
        try:
            with torch.enable_grad():
                seen = measured(x, self.leaves[-RECENT:], self.parameters)
        except RuntimeError as error:
            self.others.append(f"{path}: {str(error).splitlines()[0][:80]}")
            return
        finally:
            self.measuring = False
        if seen is None:
            self.others.append(path)
        else:
            self.seen.append(Seen(path, self.classes[-1] if self.stack else "", *seen))

    @contextlib.contextmanager
    def on(self):
        """Replaces the functions, and puts them back."""
        self.classes = []

        def enter(module, args):
            self.stack.append(self.names.get(module, ""))
            self.classes.append(type(module).__name__)

        def leave(module, args, output):
            self.stack.pop()
            self.classes.pop()
            if "norm" in type(module).__name__.lower() and torch.is_tensor(output):
                return self.cut(output, type(module).__name__)
            return None

        places = [(F, "linear", self.cutting(F.linear, "linear")), (torch, "addmm", self.cutting(torch.addmm, "linear"))]
        places += [(F, name, self.cutting(getattr(F, name), name)) for name in
                   ("conv1d", "conv2d", "conv3d", "layer_norm", "rms_norm", "normalize")]
        places += [(owner, name, self.product(getattr(owner, name))) for owner, name in
                   ((torch, "matmul"), (torch, "bmm"), (torch, "einsum"), (torch.Tensor, "matmul"), (torch.Tensor, "__matmul__"))]
        places += [(owner, "softmax", self.softmax(owner.softmax)) for owner in (torch, torch.Tensor)]
        places += [(F, "scaled_dot_product_attention", self.fused(F.scaled_dot_product_attention))]
        places += [(owner, name, self.maximum(getattr(owner, name))) for owner in (torch, torch.Tensor) for name in ("max", "amax")]
        kept = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        hooks = [torch.nn.modules.module.register_module_forward_pre_hook(enter),
                 torch.nn.modules.module.register_module_forward_hook(leave)]
        try:
            for owner, name, function in places:
                setattr(owner, name, function)
            yield self
        finally:
            for owner, name, function in kept:
                setattr(owner, name, function)
            for hook in hooks:
                hook.remove()


def entries(x, which):
    """Returns places of scores in a row (which) of the first matrix, the smallest scores first."""
    matrix = x.detach()
    while matrix.dim() > 2:
        matrix = matrix[0]
    if matrix.shape[0] < 2:
        which = 0
    row = which % matrix.shape[0]
    visible = [column for column in range(matrix.shape[1]) if -1e4 < matrix[row, column] < math.inf]
    visible = [column for column in visible if column != row] or visible
    visible.sort(key=lambda column: abs(matrix[row, column]))
    return [(0,) * (x.dim() - 2) + (row, column) for column in visible]


def second(gradient, direction, leaves):
    """Returns the second derivatives, along a direction, by each leaf."""
    return torch.autograd.grad(gradient, leaves, grad_outputs=direction, allow_unused=True, retain_graph=True, create_graph=True)


def multiplier(score, leaves, parameters):
    """Returns m, its spread, d_k, the numbers of the leaves that q and k are, and names of parameters that m depends on."""
    generator = torch.Generator().manual_seed(1)
    gradients = torch.autograd.grad(score, leaves, allow_unused=True, create_graph=True)
    supports = {}
    strengths = {}
    for number, (leaf, gradient) in enumerate(zip(leaves, gradients)):
        if gradient is None or not gradient.requires_grad or not gradient.detach().isfinite().all():
            continue
        everywhere = second(gradient, torch.randn(leaf.shape, generator=generator), leaves)
        for other, partner in enumerate(everywhere):
            # What a random vector of the leaf reaches. A single entry is a term that is added, through a sigmoid say.
            if partner is not None and (partner.detach() != 0).sum() > 1:
                supports[number, other] = partner.detach() != 0
                strengths[number, other] = partner.detach().norm().item()
    # A cap bends the score a little, and so pairs vectors with themselves: far more weakly than q and k are paired.
    supports = {pair: support for pair, support in supports.items() if strengths[pair] > FAINT * max(strengths.values())}
    ratios = []
    learned = set()
    size = 0
    for number, leaf in enumerate(leaves):
        partners = [other for one, other in supports if one == number and (other, number) in supports]
        if not partners:
            continue
        reached = torch.stack([supports[other, number] for other in partners]).any(0)
        size = max(size, int(reached.sum()) // (2 if number in partners else 1))
        for other in partners:
            for _ in range(3):
                u = torch.randn(leaf.shape, generator=generator) * supports[other, number]
                h = second(gradients[number], u, leaves)[other]
                ratios.append((h.detach().norm() / u.norm()).item())
            if h.requires_grad and parameters:
                slopes = torch.autograd.grad(h.norm(), parameters, allow_unused=True, retain_graph=True)
                learned.update(parameters[i] for i, slope in enumerate(slopes) if slope is not None and slope.any())
    if not ratios:
        return None
    ratios.sort()
    middle = ratios[len(ratios) // 2]
    return middle, (ratios[-1] - ratios[0]) / middle, size, supports, learned


def graph(tensor):
    """Returns the names of the operations after the last product, and the parameters that the tensor depends on."""
    names = set()
    variables = []
    done = set()
    todo = [(tensor.grad_fn, True)]
    while todo:
        node, after = todo.pop()
        if node is None or (node, after) in done:
            continue
        done.add((node, after))
        if hasattr(node, "variable"):
            variables.append(node.variable)
        if after:
            names.add(node.name())
        after = after and not node.name().startswith(("Bmm", "Mm", "Baddbmm"))
        todo += [(parent, after) for parent, _ in node.next_functions]
    return names, variables


def measured(x, recent, names):
    """Returns the members of Seen after `module`, or None if x has no product of two leaves."""
    leaves = [leaf for leaf, _ in recent]
    if not leaves:
        return None
    operations, variables = graph(x)
    parameters = [variable for variable in variables if variable in names]
    found = None
    for last in entries(x, -1)[:TRIED]:  # the smallest may be a sink
        found = multiplier(x[last], leaves, parameters)
        if found:
            break
    if found is None:
        return None
    m, spread, d_k, pairs, learned = found
    growth = math.nan
    for early in entries(x, 1)[:TRIED]:
        before = multiplier(x[early], leaves, parameters)
        if before:
            growth = before[0] / m
            break
    bilinear = sorted({number for pair in pairs for number in pair})
    gradients = torch.autograd.grad(x[last], [leaves[number] for number in bilinear], retain_graph=True)
    # By Euler's theorem the bilinear part is half of the sum of these products; the rest was added.
    part = sum((gradient * leaves[number]).sum().item() for gradient, number in zip(gradients, bilinear)) / 2
    value = x[last].item()
    cap = any(name.startswith("Tanh") for name in operations)
    rest = abs(value - part) > 1e-4 * max(abs(value), abs(part), 1e-3)
    # A sink is a last column that a parameter fills.
    final = (*last[:-1], x.shape[-1] - 1)
    alone = torch.autograd.grad(x[final], leaves, allow_unused=True, retain_graph=True) if x.requires_grad else ()
    sink = parameters and all(one is None or not one.any() for one in alone) and any(
        slope is not None and slope.any() for slope in
        torch.autograd.grad(x[final], parameters, allow_unused=True, retain_graph=True))
    sources = "+".join(dict.fromkeys(recent[number][1] for number in bilinear))
    return (sources, d_k, m, spread, growth, "yes" if cap else "", "yes" if sink else "",
            "yes" if rest and not cap and spread < 1e-3 else "", " ".join(sorted(names[one].rsplit(".", 1)[-1] for one in learned)))
