"""The model of src/plain/plain.c in PyTorch, for whoever reads PyTorch better than C. Needs torch and safetensors.

    python3 docs/twin.py runs/NAME         the validation loss of the last checkpoint, as ./train eval prints it
    python3 docs/twin.py runs/NAME 1100    trains on to step 1100, as ./train resume, but on batches that PyTorch draws"""
import configparser, json, math, sys
from pathlib import Path
try:
    import torch
    import torch.nn.functional as F
    from safetensors import safe_open
except ImportError as error:
    print(f"twin.py needs torch and safetensors: pip install torch safetensors ({error})", file=sys.stderr)
    sys.exit(2)

# The keys that this file reads, or that change nothing here; of those in ONLY, these values. It ends on anything else.
READ = """corpus val_fraction layers heads d_model d_k d_ff context bias tie_embeddings dropout scale_divisor
    steps batch lr min_lr warmup beta1 beta2 eps weight_decay grad_clip""".split()
UNUSED = "recall_pairs init qk_init_scale switch_divisor shards momentum muon_lr adamw_decay engine seed".split()
ONLY = {"task": "text", "norm": "pre post", "activation": "gelu relu", "score": "dot", "qk_norm": "none rms",
        "switch_step": "0", "scale_learned": "no", "scale_length": "none", "softcap": "0", "sink": "none",
        "score_precision": "fp32", "score_gradient": "yes", "accumulate": "1", "optimizer": "adamw", "qk_lr_scale": "1",
        "qk_clip": "0", "precision": "fp32"}

def loss_of(p, c, windows, training=False):
    """The mean loss of windows (B,T+1) of ids. p: parameters, as the checkpoint names them; c: the keys of the config."""
    D, dropout, pre_norm = int(c["d_k"]), float(c["dropout"]) * training, c["norm"] == "pre"
    divisors = {"none": 1, "dk": D, "sqrt_dk": D**0.5, "2sqrt_dk": 2 * D**0.5, "sqrt_dmodel": int(c["d_model"]) ** 0.5}
    divisor = divisors.get(c["scale_divisor"]) or float(c["scale_divisor"])
    linear = lambda x, name: F.linear(x, p[name + ".weight"].T, p.get(name + ".bias"))  # W is (in,out)
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p.get(name + ".bias"))
    rms_norm = lambda x, name: F.rms_norm(x, (D,), p[name + ".weight"], 1e-6) if c.get("qk_norm") == "rms" else x

    def attention(x, block):
        q, k, v = (y.unflatten(2, (-1, D)).transpose(1, 2) for y in linear(x, block + "attn.c_attn").chunk(3, dim=2))
        q, k = rms_norm(q, block + "attn.q_norm"), rms_norm(k, block + "attn.k_norm")  # (B,H,T,D)
        # softmax(q k^T / divisor) v, where a query sees the keys up to its own position
        o = F.scaled_dot_product_attention(q, k, v, scale=1 / divisor, is_causal=True, dropout_p=dropout)
        return linear(o.transpose(1, 2).flatten(2), block + "attn.c_proj")
    def feed_forward(x, block):
        y = linear(x, block + "mlp.c_fc")
        return linear(F.relu(y) if c["activation"] == "relu" else F.gelu(y, approximate="tanh"), block + "mlp.c_proj")
    x = F.dropout(p["wte.weight"][windows[:, :-1]] + p["wpe.weight"][: windows.shape[1] - 1], dropout)
    for block in (f"h.{layer}." for layer in range(int(c["layers"]))):
        for sublayer, name in (attention, block + "ln_1"), (feed_forward, block + "ln_2"):
            y = F.dropout(sublayer(norm(x, name) if pre_norm else x, block), dropout)
            x = x + y if pre_norm else norm(x + y, name)
    logits = F.linear(norm(x, "ln_f") if pre_norm else x, p.get("lm_head.weight", p["wte.weight"]))
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

def adamw(p, c):
    lr, eps, beta1, beta2, decay = (float(c[key]) for key in ("lr", "eps", "beta1", "beta2", "weight_decay"))
    groups = [{"params": [x for x in p.values() if x.dim() == n], "weight_decay": (n == 2) * decay} for n in (1, 2)]
    return torch.optim.AdamW(groups, lr, (beta1, beta2), eps, fused=True)

def update(p, c, optimizer, step, windows):
    lr, low, warmup, steps = (float(c[key]) for key in ("lr", "min_lr", "warmup", "steps"))
    cosine = low + (lr - low) * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2
    for group in optimizer.param_groups:
        group["lr"] = lr * (step + 1) / (warmup + 1) if step < warmup else cosine
    optimizer.zero_grad()
    loss = loss_of(p, c, windows, training=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(p.values(), float(c["grad_clip"]) or math.inf)
    optimizer.step()
    return loss.item()

def main(run, last=0):
    config = configparser.ConfigParser(interpolation=None)
    config.read(run / "config.ini")
    c = {key: value.strip('"') for section in config.values() for key, value in section.items()} | {"steps": last}
    for section, key in ((name, key) for name in ("data", "model", "attention", "train") for key in config[name]):
        if c[key] not in ONLY.get(key, "").split() and key not in READ + UNUSED:
            print(f"twin.py does not compute {section}.{key} = {c[key]}", file=sys.stderr)
            sys.exit(2)
    text = Path(c["corpus"] or Path(__file__).parents[1] / "data/sallow_reach.txt").read_bytes().decode()
    ids = torch.tensor(list(map(sorted(set(text)).index, text)))
    train, validation = ids.tensor_split([len(ids) - int(len(ids) * float(c["val_fraction"]) + 0.5)])
    with safe_open(run / "checkpoint/last.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        first = json.loads(file.metadata()["state"])["step"]
    p = {name: x.requires_grad_() for name, x in tensors.items() if not name.startswith("exp_avg")}
    T, optimizer = int(c["context"]), adamw(p, c)
    for name, x in p.items():
        optimizer.state[x] = {moment: tensors[f"{moment}.{name}"] for moment in ("exp_avg", "exp_avg_sq")}
        optimizer.state[x]["step"] = torch.tensor(float(first))
    for step in range(first, last):
        windows = train.unfold(0, T + 1, 1)[torch.randint(len(train) - T, (int(c["batch"]),))]
        print(f"step {step:5}  train {update(p, c, optimizer, step, windows):.6f}")
    n = len(validation) - 1
    losses = [loss_of(p, c, validation[None, i : i + T + 1]).item() * min(T, n - i) for i in range(0, n, T)]
    print(f"validation loss {sum(losses) / n:.6f}")

if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
