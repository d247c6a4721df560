"""Looks at the scores of trained models while they run, and tells what their deviation is made of.

A row of scores is s_j = m q·k_j, over the keys that the query sees. Softmax takes no notice of what is added to a whole
row, so its scale is V, the mean over rows of the variance within a row. If queries do not depend on the keys that they
meet, V = m² tr(M C), where M is the mean of q qᵀ, and C the mean over rows of the covariance of the keys in a row.
Written as M = Cov q + q̄ q̄ᵀ, with the mean query q̄ of the whole sample, that has two parts, and the rest is a third:

    bias    m² q̄ᵀ C q̄: what the mean query adds, a bias of the key, whatever the query is
    align   m² tr(Cov q · C): what queries add that vary where keys vary
    pairs   V less both: queries that know which keys they meet

Independent entries of equal variance would have V = m² tr(M) tr(C) / d_k.
"""
import contextlib
import math

import numpy as np
import torch
import torch.nn.functional as F

GROUPS = 8  # groups of inputs; a standard error is computed from what leaving one out changes
SUMS = ("rows", "v", "entering", "s", "s2", "pairs", "q2", "k2", "keys", "entropy", "special", "special_keys", "grad",
        "grad_none", "grad_dk")


class Heads:
    """Sums over inputs, for each group, layer and head, and what follows from them."""

    def __init__(self, multiplier_of=lambda d_k: 1 / math.sqrt(d_k)):
        self.multiplier_of = multiplier_of
        self.layers = {}
        self.d_k = {}
        self.inputs = 0

    def add(self, layer, q, k, scores, entering, visible, special):
        """Adds an input. q (H,T,D) and k (H,S,D) undivided, scores m q·k and what enters softmax (H,T,S), visible (T,S),
        special (S)."""
        q, k, scores, entering = (x.double() for x in (q, k, scores, entering))
        heads, _, d_k = q.shape
        self.d_k[layer] = d_k
        if layer not in self.layers:
            self.layers[layer] = ({name: np.zeros((GROUPS, heads)) for name in SUMS},
                                  {name: np.zeros((GROUPS, heads, d_k, d_k)) for name in "MC"},
                                  np.zeros((GROUPS, heads, d_k)))
        sums, matrices, queries = self.layers[layer]
        group = self.inputs % GROUPS
        several = visible.sum(1) >= 2
        visible, q, scores, entering = visible[several], q[:, several], scores[:, several], entering[:, several]
        n = visible.sum(1, keepdim=True)
        share = (visible / n).double()
        scores = scores.masked_fill(~visible, 0)
        weights = F.softmax(entering.masked_fill(~visible, -math.inf), dim=-1)
        entering = entering.masked_fill(~visible, 0)

        def within(x):  # the sum over rows of the variance in a row
            mean = (x * share).sum(-1, keepdim=True)
            return ((x - mean) ** 2 * share).sum((1, 2))

        mean_key = share @ k
        def gradient(factor):  # the sum over rows of the root mean square of |dL/dq|, L = r·weights with r ~ N(0, 1)
            p = F.softmax((entering / factor).masked_fill(~visible, -math.inf), dim=-1)
            centre = p @ k
            far = (k**2).sum(-1)[:, None] - 2 * centre @ k.transpose(1, 2) + (centre**2).sum(-1, keepdim=True)
            return (p**2 * far.clamp_min(0)).sum(-1).sqrt().sum(1) * self.multiplier_of(d_k) / factor

        added = {"rows": torch.full((heads,), len(n)), "v": within(scores), "entering": within(entering),
                 "s": scores.sum((1, 2)), "s2": (scores**2).sum((1, 2)), "pairs": visible.sum().expand(heads),
                 "q2": (q**2).sum((1, 2)) / d_k, "k2": (k**2).sum((1, 2)) / d_k, "keys": torch.full((heads,), k.shape[1]),
                 "entropy": (torch.special.entr(weights).sum(-1) / n[:, 0].log()).sum(1),
                 "special": weights[..., special].sum((1, 2)), "special_keys": share[:, special].sum().expand(heads), "grad": gradient(1),
                 "grad_none": gradient(1 / math.sqrt(d_k)), "grad_dk": gradient(math.sqrt(d_k))}
        for name, value in added.items():
            sums[name][group] += value.numpy()
        matrices["M"][group] += (q.transpose(1, 2) @ q).numpy()
        matrices["C"][group] += (k.transpose(1, 2) @ (share.sum(0)[:, None] * k) - mean_key.transpose(1, 2) @ mean_key).numpy()
        queries[group] += q.sum(1).numpy()

    def figures(self, without=None):
        """Returns {layer: {figure: an array with an entry for each head}} of all groups, or of all without one."""
        used = [group for group in range(GROUPS) if group != without]
        found = {}
        for layer, (sums, matrices, queries) in self.layers.items():
            d_k, m = self.d_k[layer], self.multiplier_of(self.d_k[layer])
            total = {name: value[used].sum(0) for name, value in sums.items()}
            rows = total["rows"]
            M, C = (matrices[name][used].sum(0) / rows[:, None, None] for name in "MC")
            mean_query = queries[used].sum(0) / rows[:, None]
            v = total["v"] / rows
            bias = m * m * np.einsum("hi,hij,hj->h", mean_query, C, mean_query)
            both = m * m * np.einsum("hij,hji->h", M, C)
            independent = m * m * np.trace(M, axis1=1, axis2=2) * np.trace(C, axis1=1, axis2=2) / d_k
            s, s2 = total["s"] / total["pairs"], total["s2"] / total["pairs"]
            found[layer] = {
                "row_std": np.sqrt(v), "score_std": np.sqrt(np.maximum(0, s2 - s * s)),
                "entering_std": np.sqrt(total["entering"] / rows), "q": total["q2"] / rows, "k": total["k2"] / total["keys"],
                "ratio": v / independent, "bias": bias / v, "align": (both - bias) / v, "pairs": 1 - both / v,
                "offset": s * s / s2, "entropy": total["entropy"] / rows, "special": total["special"] / rows,
                "special_keys": total["special_keys"] / rows,
                **{name: total[name] / rows for name in ("grad", "grad_none", "grad_dk")}}
        return found

    def errors(self, of):
        """Returns the jackknife's standard error of a function of figures()."""
        values = np.array([of(self.figures(group)) for group in range(GROUPS)])
        return np.sqrt((GROUPS - 1) / GROUPS * ((values - values.mean(0)) ** 2).sum(0))


def flat(figures, name):
    """Returns a figure of all heads of a model."""
    return np.concatenate([layer[name] for layer in figures.values()])


class Watch:
    """Stands in for PyTorch's fused attention. Divides scores by `factor` times their divisor, in all layers or in one."""

    def __init__(self):
        self.layer = 0
        self.factor = 1.0
        self.only = None  # the layer whose divisor is moved; None: all
        self.heads = None  # where moments are added
        self.special = None

    def attention(self, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        layer, self.layer = self.layer, self.layer + 1
        factor = self.factor if self.only in (None, layer) else 1.0
        visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        if is_causal:
            visible = visible.tril()
        scores = q @ k.transpose(-2, -1) * ((1 / math.sqrt(q.shape[-1]) if scale is None else scale) / factor)
        if attn_mask is not None and not (attn_mask if attn_mask.dtype == torch.bool else attn_mask == 0).all():
            raise ValueError("an input with padding")
        if self.heads is not None:
            for one in range(len(q)):
                self.heads.add(layer, q[one], k[one], scores[one], scores[one], visible, self.special)
        return F.softmax(scores.masked_fill(~visible, -math.inf), dim=-1) @ v

    @contextlib.contextmanager
    def on(self):
        kept = F.scaled_dot_product_attention
        F.scaled_dot_product_attention = self.attention
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with torch.no_grad():
                yield self
        finally:
            F.scaled_dot_product_attention = kept
            torch.backends.mha.set_fastpath_enabled(True)
