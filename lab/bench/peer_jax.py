"""The model of docs/model.md in JAX: one jitted step with gradients, clipping and AdamW, its arguments donated.

    peer_jax.py SETTINGS.json jit      started by compare.py, which sets the number of threads"""

import json
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np

from peer import Problem, answer


def make_parameters(p, random):
    def normal(*shape):
        return jnp.asarray(0.02 * random.standard_normal(shape), jnp.float32)

    def linear(n_in, n_out):
        return {"w": normal(n_in, n_out), **({"b": jnp.zeros(n_out)} if p.bias else {})}

    def norm():
        return {"w": jnp.ones(p.C), **({"b": jnp.zeros(p.C)} if p.bias else {})}

    width = p.H * p.D
    blocks = [
        {
            "ln_1": norm(), "attn": linear(p.C, 3 * width), "attn_proj": linear(width, p.C),
            "ln_2": norm(), "fc": linear(p.C, p.F), "mlp_proj": linear(p.F, p.C),
        }
        for _ in range(p.L)
    ]
    return {"wte": normal(p.V, p.C), "wpe": normal(p.T, p.C), "blocks": blocks, "ln_f": norm()}


def linear(x, layer):
    y = x @ layer["w"]
    return y + layer["b"] if "b" in layer else y


def layernorm(x, layer):
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * layer["w"]
    return y + layer["b"] if "b" in layer else y


def make_step(p):
    c = {key: float(p.config[key]) for key in ("beta1", "beta2", "eps", "weight_decay", "grad_clip")}
    causal = jnp.tril(jnp.ones((p.T, p.T), bool))

    def drop(x, key):
        if p.dropout == 0:
            return x
        return jnp.where(jax.random.bernoulli(key, 1 - p.dropout, x.shape), x / (1 - p.dropout), 0)

    def block(x, b, keys):
        B, T, _ = x.shape
        q, k, v = jnp.split(linear(layernorm(x, b["ln_1"]), b["attn"]), 3, axis=2)
        q, k, v = (y.reshape(B, T, p.H, p.D) for y in (q, k, v))
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) * p.multiplier
        weights = drop(jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)), keys[0])
        att = jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(B, T, p.H * p.D)
        x = x + drop(linear(att, b["attn_proj"]), keys[1])
        return x + drop(linear(jax.nn.gelu(linear(layernorm(x, b["ln_2"]), b["fc"])), b["mlp_proj"]), keys[2])

    def loss_of(parameters, tokens, targets, key):
        keys = jax.random.split(key, (p.L + 1, 3))
        x = drop(parameters["wte"][tokens] + parameters["wpe"], keys[p.L, 0])
        for n, b in enumerate(parameters["blocks"]):
            x = block(x, b, keys[n])
        logits = layernorm(x, parameters["ln_f"]) @ parameters["wte"].T
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=2)
        return -chosen.mean()

    def step(parameters, first, second, tokens, targets, lr, count):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, targets, jax.random.key(count))
        norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(gradients)))
        clip = jnp.minimum(1, c["grad_clip"] / (norm + 1e-6)) if c["grad_clip"] > 0 else 1
        t = count + 1

        def update(x, m, v, g):
            g = g * clip
            m, v = c["beta1"] * m + (1 - c["beta1"]) * g, c["beta2"] * v + (1 - c["beta2"]) * g * g
            root = jnp.sqrt(v / (1 - c["beta2"] ** t)) + c["eps"]
            decay = c["weight_decay"] if x.ndim == 2 else 0
            return x - lr * (m / (1 - c["beta1"] ** t) / root + decay * x), m, v

        both = jax.tree.map(update, parameters, first, second, gradients)
        pick = [jax.tree.map(lambda _, y, i=i: y[i], parameters, both) for i in range(3)]
        return *pick, loss

    return jax.jit(step, donate_argnums=(0, 1, 2))


def main():
    settings = json.load(open(sys.argv[1]))
    p = Problem(settings["config"])
    parameters = make_parameters(p, np.random.default_rng(1))
    state = [parameters, *(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))]
    compiled, count = make_step(p), 0

    def step():
        nonlocal state, count
        tokens, targets = p.batch()
        *state, loss = compiled(*state, tokens, targets, p.lr(count), count)
        count += 1
        return float(loss)

    answer(step, sum(math.prod(x.shape) for x in jax.tree.leaves(parameters)))


main()
