/* The model in the page: what src/plain/plain.c computes forward, function by function, and the other ways to score
   after src/model/attention_*.c. How scores become weights is here and in no other script. Letters are those of
   the C sources: T context, C d_model, H heads, D d_k, V vocabulary; arrays are row-major, their shapes in comments.
   Numbers are doubles; where the program rounds scores to a format, they are rounded to float first, as its own are. */

/* --- Scores: rounding, modification, normalization */
/* Rounds to the nearest number of a format, ties to even, as [attention] score_precision does. */
const formats = {bf16: [8, 2 ** -133, 3.3895313892515355e38], fp16: [11, 2 ** -24, 65504]}; /* digits, least, most */
function rounded(x, format) {
    if (!format || !Number.isFinite(x) || x === 0) return x;
    const [digits, least, most] = format, power = Math.floor(Math.log2(Math.abs(x)));
    const unit = Math.max(2 ** (power - digits + 1), least), n = x / unit;
    const whole = unit * (Math.abs(n % 1) === .5 ? 2 * Math.round(n / 2) : Math.round(n));
    return Math.abs(whole) > most ? Math.sign(x) * Infinity : whole;
}
/* How a run makes its scores, from its config. */
const scoring_of = keys => ({raw: raw_scores[keys["attention.score"]], norm: keys["attention.qk_norm"],
    format: formats[keys["attention.score_precision"]], cap: Number(keys["attention.softcap"]),
    by_length: keys["attention.scale_length"] === "log"});
/* What multiplies the scores of a head: as trained, or 1 / divisor where one was chosen. */
const multiplier_of = (trained, divisor) => divisor === null ? trained : Math.fround(Math.sign(trained) / divisor);
/* A query's raw scores, one for each key it sees, become what softmax gets: multiplier, length, cap. */
function score_mod(scores, raw, how, multiplier) {
    const float = Math.fround, by = float(multiplier * (how.by_length ? Math.log(raw.length) : 1));
    for (let k = 0; k < raw.length; k++) {
        const score = by === 0 ? 0 : float(rounded(raw[k], how.format) * by);
        scores[k] = rounded(how.cap > 0 ? float(how.cap * Math.tanh(score / how.cap)) : score, how.format);
    }
}
/* Softmax of a row of scores into `w`, where a sink is one more key (docs/model.md). */
function softmax(scores, sink, w) {
    const most = scores.reduce((a, b) => Math.max(a, b), sink), keys = scores.length + (sink === -Infinity ? 0 : 1);
    let sum = 0, dot = 0;
    for (let k = 0; k <= scores.length; k++) {
        const score = k < scores.length ? scores[k] : sink, e = Math.exp(score - most);
        if (k < scores.length) w[k] = e;
        sum += e;
        if (e !== 0) dot += e * (score - most);
    }
    for (let k = 0; k < scores.length; k++) w[k] /= sum;
    return {entropy: keys > 1 ? (Math.log(sum) - dot / sum) / Math.log(keys) : NaN, largest: 1 / sum};
}

/* --- The parameters, which the page has in fp16 and in base64, or of a model that was trained in it as they are */
function bytes_of(given) {
    if (typeof given !== "string") return given;
    const text = atob(given), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes.buffer;
}
function number_of_half(bits) {
    const exponent = bits >> 10 & 31, digits = bits & 1023, sign = bits >> 15 ? -1 : 1;
    return sign * (exponent ? (1024 + digits) * 2 ** (exponent - 25) : digits * 2 ** -24);
}
function transposed(W, rows, columns) {
    const result = new Float64Array(W.length);
    for (let r = 0; r < rows; r++)
        for (let c = 0; c < columns; c++) result[c * rows + r] = W[r * columns + c];
    return result;
}
/* A run's model. Weights of linear layers (in, out) are kept as (out, in), so that a product reads them in order. */
function make_model(run) {
    const {parameters = [], tensors = [], vocabulary} = run.model, W = {}, size = key => Number(run.keys[`model.${key}`]);
    const all = typeof parameters === "string" ? Float64Array.from(new Uint16Array(bytes_of(parameters)), number_of_half) :
        Float64Array.from(parameters);
    let end = 0;
    for (const [name, rows, columns = 1] of tensors) {
        const numbers = all.subarray(end, end += rows * columns);
        W[name] = /\.c_\w+\.weight$/.test(name) ? transposed(numbers, rows, columns) : numbers;
    }
    const m = {W, how: scoring_of(run.keys), L: size("layers"), T: size("context"), C: size("d_model"),
        H: size("heads"), D: size("d_k"), V: vocabulary.length, pre_norm: run.keys["model.norm"] === "pre",
        activation: activations[run.keys["model.activation"]], parameters: all.length,
        sink: run.keys["attention.sink"] === "none" ? -Infinity : 0, multiplier: Math.fround(run.model.multiplier)};
    must(m.activation, `the activation function ${run.keys["model.activation"]}: add it to activations in decoder.js`);
    m.ids = new Map(vocabulary.map((character, id) => [String.fromCodePoint(character), id]));
    m.characters = [...m.ids.keys()];
    if (run.trains) return m;
    must_be_whole(m, run.model, end);
    m.heads = Array.from({length: m.L}, (_, l) => Array.from({length: m.H}, (_, h) => make_head(m, `h.${l}.attn`, h)));
    return m;
}
/* Stops where parameters, characters or the windows of text do not fit the config. */
function must_be_whole({W, L, T, C, H, D, V, ids, parameters}, {excerpt = [], multiplier}, read) {
    const sizes = [["wte", V * C], ["wpe", T * C]];
    for (let l = 0; l < L; l++)
        sizes.push([`h.${l}.ln_1`, C], [`h.${l}.ln_2`, C], [`h.${l}.attn.c_attn`, 3 * C * H * D],
            [`h.${l}.attn.c_proj`, C * H * D], [`h.${l}.mlp.c_proj`, W[`h.${l}.mlp.c_fc.weight`]?.length]);
    for (const [name, size] of sizes) must(W[`${name}.weight`]?.length === size && size > 0, `the size of ${name}.weight`);
    must(read === parameters && Number.isFinite(multiplier), "the number of parameters");
    must(ids.size === V && V > 0, "the characters of the vocabulary");
    const known = least => id => Number.isInteger(id) && id >= least && id < V;
    must(excerpt.every(({tokens, targets}) => tokens.length <= T && tokens.every(known(0)) && targets.every(known(-1))),
        "the windows of text");
}
/* What a head has of its own beside W_Q, W_K and W_V. */
function make_head(m, name, h) {
    const scale = m.W[`${name}.scale`], sinks = m.W[`${name}.sinks`];
    return {v: m.W[`${name}.v.weight`]?.subarray(h * m.D, (h + 1) * m.D), q_gain: m.W[`${name}.q_norm.weight`],
        k_gain: m.W[`${name}.k_norm.weight`], multiplier: scale ? scale[h % scale.length] : m.multiplier,
        sink: sinks ? sinks[h] : m.sink};
}

/* --- Layers: x (rows, in) is the input, a new array the output */
function dot(x, y) {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
    return sum;
}
/* plain_embedding_forward: positions from `first` on. */
function embedding_forward({W, C}, ids, first) {
    const x = new Float64Array(ids.length * C), wte = W["wte.weight"], wpe = W["wpe.weight"];
    ids.forEach((id, t) => {
        for (let c = 0; c < C; c++) x[t * C + c] = wte[id * C + c] + wpe[(first + t) * C + c];
    });
    return x;
}
/* plain_layernorm_forward */
function layernorm_forward({W, C}, name, x) {
    const y = new Float64Array(x.length), gain = W[`${name}.weight`], bias = W[`${name}.bias`];
    for (let t = 0; t < x.length; t += C) {
        const row = x.subarray(t, t + C), mean = row.reduce((a, b) => a + b, 0) / C;
        const rstd = 1 / Math.sqrt(row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / C + 1e-5);
        for (let c = 0; c < C; c++) y[t + c] = (row[c] - mean) * rstd * gain[c] + (bias ? bias[c] : 0);
    }
    return y;
}
/* plain_linear_forward, and plain_logits_forward without a bias: W (out, in). Two rows of x and four of W make eight
   sums at a time, since a number that was loaded is then used more than once; `dot` makes the rest. */
function linear_forward(x, W, bias, rows) {
    const size = x.length / rows, out = W.length / size, y = new Float64Array(rows * out);
    const even = rows - rows % 2, whole = out - out % 4;
    for (let o = 0; o < whole; o += 4)
        for (let t = 0; t < even; t += 2) {
            let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
            for (let i = 0, at = t * size, w = o * size; i < size; i++, at++, w++) {
                const u = x[at], v = x[at + size];
                const W0 = W[w], W1 = W[w + size], W2 = W[w + 2 * size], W3 = W[w + 3 * size];
                a += u * W0;
                b += u * W1;
                c += u * W2;
                d += u * W3;
                e += v * W0;
                f += v * W1;
                g += v * W2;
                h += v * W3;
            }
            const k = t * out + o;
            [y[k], y[k + 1], y[k + 2], y[k + 3]] = [a, b, c, d];
            [y[k + out], y[k + out + 1], y[k + out + 2], y[k + out + 3]] = [e, f, g, h];
        }
    const row = (from, i) => from.subarray(i * size, (i + 1) * size);
    for (let t = 0; t < rows; t++)
        for (let o = t < even ? whole : 0; o < out; o++) y[t * out + o] = dot(row(x, t), row(W, o));
    for (let i = 0; bias && i < y.length; i++) y[i] += bias[i % out];
    return y;
}
const linear = (m, name, x, rows) => linear_forward(x, m.W[`${name}.weight`], m.W[`${name}.bias`], rows);
/* plain_residual_forward, plain_gelu_forward, plain_relu_forward */
const residual = (x, branch) => x.map((v, i) => v + branch[i]);
const activations = {
    gelu: v => v / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + .044715 * v * v * v))),
    relu: v => v <= 0 ? 0 : v};
/* plain_cross_entropy_forward, of one position */
function cross_entropy(logits, target) {
    const most = logits.reduce((a, b) => Math.max(a, b));
    return most + Math.log(logits.reduce((sum, v) => sum + Math.exp(v - most), 0)) - logits[target];
}

/* --- Attention of one head: queries and keys as they are scored (prepare_qk), raw scores, the output of one query */
function prepared(x, gain, {norm, format}) {
    if (norm === "none" && !format) return x;
    const n = x.length, mean = norm === "layer" ? x.reduce((a, b) => a + b, 0) / n : 0;
    const squares = x.reduce((sum, v) => sum + (v - mean) ** 2, 0);
    const size = {none: 1, l2: squares + 1e-12, rms: squares / n + 1e-6, layer: squares / n + 1e-5}[norm];
    return x.map((v, i) => {
        const y = (v - mean) / Math.sqrt(size) * (gain ? gain[i] : 1);
        return format ? rounded(Math.fround(y), format) : y;
    });
}
/* raw_scores_forward (attention_scores.c), by attention.score */
const raw_scores = {dot, additive: (q, k, v) => q.reduce((sum, x, i) => sum + v[i] * Math.tanh(x + k[i]), 0)};
/* plain_attention_forward, of the last position of a reading: q, k, v and the output o (D) */
function attention_forward(o, r, l, h, q, k, v) {
    const how = r.model.how, head = r.model.heads[l][h], kept = r.heads[l][h], scored = prepared(q, head.q_gain, how);
    kept.keys.push(prepared(k, head.k_gain, how));
    kept.values.push(v);
    const raw = Float64Array.from(kept.keys, key => how.raw(scored, key, head.v)), p = new Float64Array(raw.length);
    kept.raw.push(raw);
    score_mod(p, raw, how, multiplier_of(head.multiplier, r.divisor));
    softmax(p, head.sink, p);
    for (let j = 0; j < p.length; j++)
        for (let d = 0, value = kept.values[j]; d < o.length; d++) o[d] += p[j] * value[d];
}

/* --- Blocks, and the decoder */
function self_attention_forward(r, l, x, rows) {
    const m = r.model, {H, D} = m, qkv = linear(m, `h.${l}.attn.c_attn`, x, rows), out = new Float64Array(rows * H * D);
    for (let t = 0; t < rows; t++)
        for (let h = 0; h < H; h++) {
            const part = i => qkv.slice(((3 * t + i) * H + h) * D, ((3 * t + i) * H + h + 1) * D);
            attention_forward(out.subarray((t * H + h) * D, (t * H + h + 1) * D), r, l, h, part(0), part(1), part(2));
        }
    return linear(m, `h.${l}.attn.c_proj`, out, rows);
}
function feed_forward_forward(m, l, x, rows) {
    return linear(m, `h.${l}.mlp.c_proj`, linear(m, `h.${l}.mlp.c_fc`, x, rows).map(m.activation), rows);
}
function pre_norm_forward(r, l, x, rows) {
    const sum = residual(x, self_attention_forward(r, l, layernorm_forward(r.model, `h.${l}.ln_1`, x), rows));
    return residual(sum, feed_forward_forward(r.model, l, layernorm_forward(r.model, `h.${l}.ln_2`, sum), rows));
}
function post_norm_forward(r, l, x, rows) {
    const sum = layernorm_forward(r.model, `h.${l}.ln_1`, residual(x, self_attention_forward(r, l, x, rows)));
    return layernorm_forward(r.model, `h.${l}.ln_2`, residual(sum, feed_forward_forward(r.model, l, sum, rows)));
}
/* A text that a model has read with a divisor: its ids, for each of them a row of logits, and by layer and head a key,
   a value and a row of raw scores. */
function make_reading(model, divisor) {
    const head = () => ({keys: [], values: [], raw: []});
    return {model, divisor, ids: [], logits: [], heads: model.heads.map(heads => heads.map(head))};
}
/* decoder_forward, for the ids that come after those read. */
function forward(r, ids) {
    const m = r.model, rows = ids.length;
    let x = embedding_forward(m, ids, r.ids.length);
    for (let l = 0; l < m.L; l++) x = (m.pre_norm ? pre_norm_forward : post_norm_forward)(r, l, x, rows);
    if (m.pre_norm) x = layernorm_forward(m, "ln_f", x);
    const logits = linear_forward(x, m.W["lm_head.weight"] ?? m.W["wte.weight"], null, rows);
    for (let t = 0; t < rows; t++) r.logits.push(logits.subarray(t * m.V, (t + 1) * m.V));
    r.ids.push(...ids);
}
/* Reads at most T ids. What they have in common with what was read before is kept. Yields after a few positions. */
function* read(r, ids, divisor = r.divisor) {
    const other = r.divisor === divisor ? r.ids.findIndex((id, t) => id !== ids[t]) : 0;
    const same = other < 0 ? r.ids.length : other;
    for (const list of [r.ids, r.logits, ...r.heads.flat().flatMap(head => [head.keys, head.values, head.raw])])
        list.length = same;
    r.divisor = divisor;
    const few = clamp(2 * Math.floor(2e6 / r.model.parameters), 1, 32);
    while (r.ids.length < ids.length) {
        forward(r, ids.slice(r.ids.length, r.ids.length + few));
        yield;
    }
    return r;
}
/* What the model reads next: as sample_text (src/train/sample.c) continues a full window with its later half. */
const continued = (ids, id, T) => [...(ids.length === T ? ids.slice(T - Math.floor(T / 2)) : ids), id];
/* An id drawn from the softmax of the logits divided by a temperature; at 0 the likeliest. */
function draw(logits, temperature, uniform) {
    if (temperature <= 0) return logits.indexOf(Math.max(...logits));
    const p = new Float64Array(logits.length);
    softmax(logits.map(v => v / temperature), -Infinity, p);
    let left = uniform;
    const id = p.findIndex(share => (left -= share) < 0);
    return id < 0 ? logits.indexOf(Math.max(...logits)) : id;
}
