"use strict";
/* The page of a run, a sweep, or several runs side by side. `data` has the files of each run as they are (run.json,
   config.ini, metrics.csv, attention.csv, samples.txt) and the raw scores of its snapshots; src/report/data.c writes
   it. A setting is one line or one group of thumbnails: the runs that differ in the seed alone. */
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

/* --- elements, numbers, files */

function el(name, attributes, ...children) {
    const svg = /^(svg|g|path|line|rect|circle|text|image|title)$/.test(name);
    const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {}))
        if (value !== undefined && value !== null && value !== false) e.setAttribute(key, value === true ? "" : value);
    e.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
    return e;
}
const finite = Number.isFinite;
const short = x => !finite(x) ? "–" : Math.abs(x) >= 1e5 || (x && Math.abs(x) < 1e-3) ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4));
const fixed = (x, digits = 4) => finite(x) ? x.toFixed(digits) : "–";
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const mean = x => x.reduce((sum, value) => sum + value, 0) / x.length;
/* Half a 95 % interval of the mean (Student's t); data.t95 is by the number of values. */
function half(x) {
    const m = mean(x);
    return x.length < 2 ? NaN : data.t95[x.length] * Math.sqrt(mean(x.map(v => (v - m) ** 2)) / (x.length - 1));
}
function csv(text) {
    const [head, ...lines] = (text || "").trimEnd().split("\n"), names = head.split(",");
    const table = Object.fromEntries(names.map(name => [name, []]));
    for (const line of lines) line.split(",").forEach((field, i) => table[names[i]].push(field === "" ? NaN : Number(field)));
    return table;
}
function ini(text) {
    const keys = {};
    let section = "";
    for (const line of (text || "").split("\n")) {
        const part = line.match(/^\[(.+)\]/), pair = line.match(/^([\w.]+)\s*=\s*(.*)$/);
        if (part) section = part[1];
        else if (pair) keys[`${section}.${pair[1]}`] = pair[2];
    }
    return keys;
}
const quoted = field => /[",\n\r]/.test(field) ? `"${String(field).replaceAll('"', '""')}"` : field;
const csv_text = rows => rows.map(row => row.map(quoted).join(",")).join("\n") + "\n";
function save(name, type, text) {
    const link = el("a", {href: URL.createObjectURL(new Blob([text], {type})), download: `${data.title}_${name}`});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
/* A figure by itself: what the style sheet says is written into each element. */
function save_svg(svg, name) {
    const copy = svg.cloneNode(true), of = [...svg.querySelectorAll("*")];
    [...copy.querySelectorAll("*")].forEach((e, i) => {
        const style = getComputedStyle(of[i]);
        e.setAttribute("style", ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor",
            "image-rendering"].map(key => `${key}:${style.getPropertyValue(key)}`).join(";"));
    });
    const paper = getComputedStyle(document.body).backgroundColor;
    copy.prepend(el("rect", {width: "100%", height: "100%", style: `fill:${paper}`}));
    save(`${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}
function saves(name, svg, rows) {
    const button = (text, act) => {
        const b = el("button", {type: "button", "data-save": `${name}.${text}`}, text);
        b.addEventListener("click", act);
        return b;
    };
    return el("p", {class: "saves"}, svg && button("svg", () => save_svg(svg(), name)),
        button("csv", () => save(`${name}.csv`, "text/csv", csv_text(rows()))));
}

/* --- runs and their curves */

const runs = data.runs, settings = data.settings;
for (const run of runs) {
    run.keys = ini(run.config);
    run.metric = csv(run.metrics);
    run.heads = csv(run.attention);
    run.d_k = Number(run.keys["model.d_k"]);
    const head = run.heads;
    head.qk_norm = (head.w_q_norm || []).map((norm, i) => norm * head.w_k_norm[i]);
}
const recall = runs[0]?.keys["data.task"] === "recall", unit = recall ? "answer" : "character";

/* Points [step, value] of a column: of metrics.csv, or of attention.csv, where heads that are `taken` are averaged. */
function curve(run, column, taken = () => true) {
    const points = new Map(), table = run.metric[column] ? run.metric : run.heads;
    (table[column] || []).forEach((value, i) => {
        if (!finite(value) || (table === run.heads && !taken(table.layer[i], table.head[i]))) return;
        points.set(table.step[i], [...(points.get(table.step[i]) || []), value]);
    });
    return [...points].map(([step, values]) => [step, mean(values)]);
}
/* A line for a setting: the mean of its runs at the steps that all of them have, with a band where there are several. */
function line(setting, column, taken) {
    let group = setting.runs.map(i => runs[i]);
    if (group.some(run => run.result === "finished")) group = group.filter(run => run.result === "finished");
    const curves = group.map(run => new Map(curve(run, column, taken))).filter(points => points.size);
    const steps = curves.length ? [...curves[0].keys()].filter(step => curves.every(points => points.has(step))) : [];
    const values = steps.map(step => curves.map(points => points.get(step)));
    return {label: setting.label, color: setting.color, dash: setting.dash,
        points: steps.map((step, i) => [step, mean(values[i])]),
        band: curves.length < 2 ? null : steps.map((step, i) => {
            const m = mean(values[i]), h = half(values[i]);
            return curves.length === 2 ? [step, Math.min(...values[i]), Math.max(...values[i])] : [step, m - h, m + h];
        })};
}
const band_words = () => {
    const most = Math.max(...settings.map(s => s.runs.length));
    return most < 2 ? "" : ` A line is the mean over seeds, its band ${most === 2 ? "goes from the lower to the higher of two runs" : "the 95 % interval of the mean (Student's t)"}.`;
};

/* --- line charts */

function ticks(low, high, log) {
    const found = [];
    if (log) {
        for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
            for (const m of Math.log10(high / low) > 3 ? [1] : [1, 2, 5]) found.push(+`${m}e${e}`);
    } else {
        const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 5, 10].find(m => m * power >= rough) * power;
        for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i++) found.push(+(i * step).toPrecision(12));
    }
    return found.filter(tick => tick >= low - 1e-12 && tick <= high * (1 + 1e-9));
}
/* o: title, how, x, y (axes), name (of files), log_x, log_y, ticks (of x), limit (values above it are at the edge), marks ([y,
   label]), series of {label, color, dash, points, band, pale, dots}. */
function chart(parent, o) {
    const left = 58, right = 22, top = 10, bottom = 42;
    const series = o.series.filter(s => s.points.length), all = series.flatMap(s => s.points);
    const figure = el("figure", {}, el("h3", {}, o.title), el("p", {class: "how"}, o.how));
    parent.append(figure);
    const W = Math.min(Math.max(figure.clientWidth, 320), 1000), H = Math.round(Math.min(Math.max(.42 * W, 260), 420));
    if (!all.length) return figure.append(el("p", {}, "No numbers yet."));
    const ys = all.map(p => p[1]).concat((o.marks || []).map(m => m[0])).filter(y => !(o.limit < y));
    series.forEach(s => (s.band || []).forEach(b => finite(b[1]) && finite(b[2]) && !(o.limit < b[2]) && ys.push(b[1], b[2])));
    const log_y = o.log_y && ys.every(y => y > 0) && Math.max(...ys) > 10 * Math.min(...ys);
    const scale = (values, log, from, to) => {
        let low = Math.min(...values), high = Math.max(...values);
        if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - .5, high + .5];
        const map = log ? Math.log : v => v, a = map(low), b = map(high);
        return Object.assign(v => from + (map(v) - a) / (b - a) * (to - from), {ticks: ticks(low, high, log), low, high});
    };
    const x = scale(all.map(p => p[0]), o.log_x, left, W - right);
    const y_of = scale(ys, log_y, H - bottom, top), y = v => y_of(Math.min(Math.max(v, y_of.low), y_of.high));
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img", "aria-label": `${o.title}; the arrow keys move along the curves`});
    for (const t of o.ticks || x.ticks) svg.append(el("line", {class: "grid", x1: x(t), x2: x(t), y1: top, y2: H - bottom}),
        el("text", {x: x(t), y: H - bottom + 16, "text-anchor": "middle"}, short(t)));
    for (const t of y_of.ticks) svg.append(el("line", {class: "grid", x1: left, x2: W - right, y1: y(t), y2: y(t)}),
        el("text", {x: left - 6, y: y(t) + 4, "text-anchor": "end"}, short(t)));
    svg.append(el("path", {class: "axis", d: `M${left} ${top}V${H - bottom}H${W - right}`}),
        el("text", {x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle"}, o.x + (o.log_x ? " (logarithmic)" : "")),
        el("text", {transform: `translate(13 ${(top + H - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"}, o.y + (log_y ? " (logarithmic)" : "")));
    for (const [value, label] of o.marks || []) svg.append(el("line", {class: "cursor", x1: left, x2: W - right, y1: y(value), y2: y(value)}),
        el("text", {x: W - right - 4, y: y(value) - 4, "text-anchor": "end"}, label));
    const path = points => points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
    for (const s of series) {
        const g = el("g", {style: `--of:${s.color}`}), band = (s.band || []).filter(b => finite(b[1]) && finite(b[2]));
        if (band.length) g.append(el("path", {class: "band", d: path(band.map(b => [b[0], b[2]])) + path(band.map(b => [b[0], b[1]]).reverse()).replace("M", "L") + "Z"}));
        g.append(el("path", {class: s.pale ? "curve pale" : "curve", "stroke-dasharray": s.dash ? `${s.dash} ${s.dash / 2}` : null, d: path(s.points)}));
        if (s.dots || s.points.length < 2) g.append(...s.points.map(p => el("circle", {class: "dot", r: 3, cx: x(p[0]), cy: y(p[1])})));
        svg.append(g);
    }
    const cursor = el("line", {class: "cursor", y1: top, y2: H - bottom, visibility: "hidden"});
    svg.append(cursor);
    const shown = series.filter(s => s.label), values = shown.map(() => el("output")), at = el("output");
    const stops = [...new Set(all.map(p => p[0]))].sort((a, b) => a - b);
    const point = (i, moved = true) => {
        const stop = stops[i];
        cursor.setAttribute("visibility", moved ? "visible" : "hidden");
        cursor.setAttribute("x1", x(stop));
        cursor.setAttribute("x2", x(stop));
        at.textContent = `${o.x} ${short(stop)}:`;
        shown.forEach((s, k) => {
            const near = s.points.reduce((best, p) => Math.abs(p[0] - stop) < Math.abs(best[0] - stop) ? p : best);
            const band = (s.band || [])[s.points.indexOf(near)];
            values[k].textContent = near[0] === stop ? " " + short(near[1]) + (band ? ` (${short(band[1])} to ${short(band[2])})` : "") : "";
        });
        svg.dataset.stop = i;
    };
    svg.addEventListener("pointermove", event => {
        const box = svg.getBoundingClientRect(), here = (event.clientX - box.left) / box.width * W;
        point(stops.reduce((best, stop, i) => Math.abs(x(stop) - here) < Math.abs(x(stops[best]) - here) ? i : best, 0));
    });
    svg.addEventListener("keydown", event => {
        const move = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
        if (!move) return;
        point(Math.min(Math.max(Number(svg.dataset.stop || stops.length - 1) + move, 0), stops.length - 1));
        event.preventDefault();
    });
    figure.append(svg, el("ul", {class: "legend"}, el("li", {}, at), shown.map((s, k) => el("li", {style: `--of:${s.color}`}, el("i", {style: s.dash ? "border-top-style:dashed" : ""}), s.label, values[k]))),
        saves(o.name, () => svg, () => [["series", "x", "y", "low", "high"], ...series.flatMap(s => s.points.map((p, i) => [s.label || "training", ...p, ...((s.band || [])[i] || []).slice(1)]))]));
    point(stops.length - 1, false);
}

/* --- attention */

const viridis = weight => {
    const position = Math.sqrt(Math.min(Math.max(weight, 0), 1)) * (data.colors.length - 1), i = Math.min(Math.floor(position), data.colors.length - 2);
    return data.colors[i].map((c, k) => Math.round(c + (position - i) * (data.colors[i + 1][k] - c)));
};
const color_of = weight => Number.isNaN(weight) ? [220, 38, 38] : viridis(weight);
const signs = {" ": "␣", "\u00a0": "␣", "\n": "↵", "\t": "⇥"};
const visible = c => signs[c] || (/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/u.test(c) ? "�" : c);

/* Raw scores of a run's snapshots: (step, layer, head), each the lower triangle of (T, T), row by row. */
for (const run of runs) {
    const s = run.snapshots;
    if (!s) continue;
    s.scores = new Float32Array(Uint8Array.from(atob(s.scores), c => c.charCodeAt(0)).buffer);
    s.text = Array.from(s.text);
    s.T = s.text.length;
    s.triangle = s.T * (s.T + 1) / 2;
}
/* To the nearest number of a format, ties to even, as [attention] score_precision does. */
const formats = {bf16: {digits: 8, least: 2 ** -133, most: 3.3895313892515355e38}, fp16: {digits: 11, least: 2 ** -24, most: 65504}};
function rounded(x, format) {
    if (!format || !finite(x) || x === 0) return x;
    const step = Math.max(2 ** (Math.floor(Math.log2(Math.abs(x))) - format.digits + 1), format.least), q = x / step;
    const whole = Math.abs(q % 1) === .5 ? 2 * Math.round(q / 2) : Math.round(q);
    return Math.abs(whole * step) > format.most ? Math.sign(x) * Infinity : whole * step;
}
/* One head: weights (T, T) from raw scores, in the order of docs/model.md: multiplier, length, cap, softmax with sink.
   divisor null: the multiplier it was trained with. */
function attend(run, step, layer, head, divisor) {
    const s = run.snapshots, T = s.T, at = (step * s.layers.length + layer) * s.heads + head, keys = run.keys;
    const own = s.multiplier[at], sink = s.sink[at], format = formats[keys["attention.score_precision"]];
    const m = divisor === null ? own : Math.sign(own) / divisor, cap = Number(keys["attention.softcap"]);
    const raw = s.scores.subarray(at * s.triangle, (at + 1) * s.triangle), scaled = new Float64Array(T * T), w = new Float64Array(T * T);
    const rows = [];
    for (let q = 0; q < T; q++) {
        const factor = m * (keys["attention.scale_length"] === "log" ? Math.log(q + 1) : 1);
        let most = sink === null ? -Infinity : sink, sum = 0, mean_log = 0;
        for (let k = 0; k <= q; k++) {
            let x = factor === 0 ? 0 : rounded(raw[q * (q + 1) / 2 + k], format) * factor;
            if (cap > 0) x = cap * Math.tanh(x / cap);
            scaled[q * T + k] = x = rounded(x, format);
            most = Math.max(most, x);
        }
        const terms = Array.from({length: q + 1}, (_, k) => scaled[q * T + k]).concat(sink === null ? [] : [sink]);
        terms.forEach(x => { const e = Math.exp(x - most); sum += e; if (e > 0) mean_log += e * (x - most); });
        for (let k = 0; k <= q; k++) w[q * T + k] = Math.exp(scaled[q * T + k] - most) / sum;
        rows.push({entropy: terms.length > 1 ? (Math.log(sum) - mean_log / sum) / Math.log(terms.length) : NaN, largest: 1 / sum});
    }
    const counted = rows.filter(row => finite(row.entropy));
    return {w, raw, scaled, rows, multiplier: m, T, entropy: mean(counted.map(r => r.entropy)), largest: mean(counted.map(r => r.largest))};
}
function paint(canvas, a) {
    const context = canvas.getContext("2d"), image = context.createImageData(a.T, a.T);
    for (let q = 0; q < a.T; q++)
        for (let k = 0; k < a.T; k++) image.data.set([...(k > q ? data.masked : color_of(a.w[q * a.T + k])), 255], 4 * (q * a.T + k));
    context.putImageData(image, 0, 0);
    return canvas;
}

const state = {setting: 0, layer: 0, head: 0, step: 0, divisor: null, query: 0, key: 0, locked: false};
const run_of = setting => setting.runs.map(i => runs[i]).find(run => run.snapshots);
const current = () => run_of(settings[state.setting]);
/* The index of the snapshot of a run that is nearest to the chosen step. */
const nearest = run => run.snapshots.steps.reduce((best, step, i, steps) => Math.abs(step - state.step) < Math.abs(steps[best] - state.step) ? i : best, 0);
const shown_divisor = setting => settings[setting] === settings[state.setting] ? state.divisor : null;
const trained_divisor = run => Math.abs(1 / attend(run, nearest(run), state.layer, state.head, null).multiplier);

let thumbs = [], matrix = null;
/* A card for each setting with the heads of the chosen layer; for a single run, for each layer. */
function make_thumbs() {
    const single = settings.length === 1;
    $("heads").replaceChildren();
    thumbs = [];
    settings.forEach((setting, at) => {
        const run = run_of(setting);
        if (!run) return;
        for (const layer of single ? run.snapshots.layers.keys() : [Math.min(state.layer, run.snapshots.layers.length - 1)]) {
            const card = el("div", {}, el("h3", {class: "legend"}, single ? `layer ${run.snapshots.layers[layer]}` : el("span", {style: `--of:${setting.color}`}, el("i"), setting.label)));
            for (let head = 0; head < run.snapshots.heads; head++) {
                const canvas = el("canvas", {width: run.snapshots.T, height: run.snapshots.T}), words = el("span");
                const button = el("button", {type: "button", class: "thumb"}, canvas, words);
                button.addEventListener("click", () => {
                    Object.assign(state, {divisor: at === state.setting ? state.divisor : null, setting: at, layer, head});
                    update();
                });
                card.append(button);
                thumbs.push({button, canvas, words, run, at, layer, head});
            }
            $("heads").append(card);
        }
    });
}
function make_matrix(run) {
    const {T, text} = run.snapshots, cell = 12, left = 44, top = 8, side = T * cell, W = left + side + 64, H = top + side + 46;
    const image = el("image", {x: left, y: top, width: side, height: side, preserveAspectRatio: "none"});
    const bar = el("canvas", {width: 1, height: 64}), strip = bar.getContext("2d");
    for (let i = 0; i < 64; i++) { strip.fillStyle = `rgb(${viridis((1 - i / 63) ** 2)})`; strip.fillRect(0, i, 1, 1); }
    const chosen = [el("rect", {class: "chosen", height: cell}), el("rect", {class: "chosen", width: cell})];
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img", "aria-label": "attention weights; the arrow keys choose a query and a key"}, image, chosen,
        text.map((c, i) => [el("text", {x: left - 8, y: top + (i + .8) * cell, "text-anchor": "middle"}, visible(c)), el("text", {x: left + (i + .5) * cell, y: top + side + 13, "text-anchor": "middle"}, visible(c))]),
        el("text", {x: left + side / 2, y: H - 10, "text-anchor": "middle"}, "key"), el("text", {transform: `translate(14 ${top + side / 2}) rotate(-90)`, "text-anchor": "middle"}, "query"),
        el("image", {x: left + side + 14, y: top, width: 14, height: 180, preserveAspectRatio: "none", href: bar.toDataURL()}),
        [0, .05, .2, .5, 1].map(w => el("text", {x: left + side + 32, y: top + 180 * (1 - Math.sqrt(w)) + 5}, w)));
    const inside = i => Math.min(Math.max(i, 0), T - 1);
    const at = event => {
        const box = svg.getBoundingClientRect(), zoom = W / box.width;
        const column = Math.floor(((event.clientX - box.left) * zoom - left) / cell), row = Math.floor(((event.clientY - box.top) * zoom - top) / cell);
        if (column < 0 && row >= 0 && row < T) return {query: row, side: "query"};
        if (row >= T && column >= 0 && column < T) return {key: column, side: "key"};
        return row >= 0 && row < T && column >= 0 && column < T ? {query: row, key: Math.min(column, row)} : null;
    };
    svg.addEventListener("pointermove", event => choose(at(event)));
    svg.addEventListener("click", event => { state.locked = false; choose(at(event)); state.locked = true; update_row(); });
    svg.addEventListener("keydown", event => {
        const [dq, dk] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] || [0, 0];
        if (event.key === "Enter" || event.key === "Escape") state.locked = event.key === "Enter";
        else if (dq || dk) { const query = inside(state.query + dq); Object.assign(state, {query, key: Math.min(inside(state.key + dk), query)}); }
        else return;
        event.preventDefault();
        update_row();
    });
    const spans = text.map((c, i) => {
        const span = el("span", {class: "key"}, el("b", {}, visible(c)), el("small"));
        span.addEventListener("pointerenter", () => choose({[$("side").value]: i}));
        span.addEventListener("click", () => { state.locked = false; choose({[$("side").value]: i}); state.locked = true; update_row(); });
        return span;
    });
    $("matrix").replaceChildren(svg, saves("attention", () => svg, () => [["query", "key", "query_char", "key_char", "raw_score", "score", "weight"],
        ...matrix.a.rows.flatMap((_, q) => Array.from({length: q + 1}, (_, k) => [q, k, text[q], text[k], matrix.a.raw[q * (q + 1) / 2 + k], matrix.a.scaled[q * T + k], matrix.a.w[q * T + k]]))]));
    $("row").replaceChildren(...spans);
    matrix = {text: text.join(""), svg, image, chosen, spans, canvas: el("canvas", {width: T, height: T}), left, top, cell, side, a: null};
}
function choose(place) {
    if (!place || state.locked) return;
    if (place.side) $("side").value = place.side;
    state.query = place.query ?? state.query;
    state.key = place.key ?? state.key;
    if (state.key > state.query) place.key === undefined ? state.key = state.query : state.query = state.key;
    update_row();
}
/* The chosen query's or key's weights, as numbers on the text itself. */
function update_row() {
    const {a, spans, chosen, left, top, cell, side} = matrix, {query, key} = state, by_key = $("side").value === "key";
    const own = by_key ? key : query, text = current().snapshots.text;
    Object.entries({x: left, y: top + query * cell, width: side}).forEach(pair => chosen[0].setAttribute(...pair));
    Object.entries({x: left + key * cell, y: top, height: side}).forEach(pair => chosen[1].setAttribute(...pair));
    spans.forEach((span, i) => {
        const weight = by_key ? a.w[i * a.T + key] : a.w[query * a.T + i], seen = by_key ? i >= key : i <= query, c = color_of(weight);
        span.style.background = seen ? `rgb(${c})` : "";
        span.style.color = !seen ? "" : .299 * c[0] + .587 * c[1] + .114 * c[2] > 140 ? "#000" : "#fff";
        span.lastChild.textContent = seen ? weight.toFixed(3).replace(/^0/, "") : "\u00a0";
        span.setAttribute("aria-current", i === own);
    });
    const row = a.rows[query];
    $("reading").textContent = `query ${query} “${visible(text[query])}”, key ${key} “${visible(text[key])}”: weight ${fixed(a.w[query * a.T + key])}, ` +
        `raw score ${short(a.raw[query * (query + 1) / 2 + key])}, score ${short(a.scaled[query * a.T + key])}. This query's row: entropy ${fixed(row.entropy, 3)}, largest weight ${fixed(row.largest, 3)}.` +
        (state.locked ? " Locked: Escape or a click elsewhere on the matrix moves it." : "");
}
function update() {
    const run = current(), s = run.snapshots, at = nearest(run);
    state.layer = Math.min(state.layer, s.layers.length - 1);
    state.head = Math.min(state.head, s.heads - 1);
    if (!matrix || matrix.text !== s.text.join("")) make_matrix(run);
    state.query = Math.min(state.query, s.T - 1);
    state.key = Math.min(state.key, state.query);
    thumbs.forEach(t => {
        const a = attend(t.run, nearest(t.run), t.layer, t.head, shown_divisor(t.at));
        paint(t.canvas, a);
        t.words.textContent = `head ${t.head}\nentropy ${fixed(a.entropy, 2)}`;
        t.button.setAttribute("aria-label", `layer ${t.layer}, head ${t.head}, entropy ${fixed(a.entropy, 2)}`);
        t.button.setAttribute("aria-pressed", t.at === state.setting && t.layer === state.layer && t.head === state.head);
    });
    const trained = attend(run, at, state.layer, state.head, null), a = matrix.a = attend(run, at, state.layer, state.head, state.divisor);
    matrix.image.setAttribute("href", paint(matrix.canvas, a).toDataURL());
    $("step-value").textContent = s.steps[at];
    $("step").value = s.steps.indexOf(s.steps[at]);
    const own = Math.abs(1 / trained.multiplier), divisor = state.divisor ?? own;
    $("divisor-control").hidden = $("marks").hidden = run.keys["attention.score"] === "additive" || !finite(own);
    $("divisor-value").textContent = short(divisor) + (state.divisor === null ? " (as trained)" : "");
    const [low, high] = divisor_range(run, own);
    $("divisor").value = 1000 * Math.log(divisor / low) / Math.log(high / low);
    $("divisor-marks").replaceChildren(...[1, Math.sqrt(run.d_k), 2 * Math.sqrt(run.d_k), run.d_k].map(c => el("option", {value: Math.round(1000 * Math.log(c / low) / Math.log(high / low))})));
    $("rescored").textContent = state.divisor === null ? "" : `This is the trained model with its scores divided by ${short(divisor)} instead of ${short(own)}. ` +
        "It is not a model that was trained with that divisor, which would have learned other weights.";
    $("figures").textContent = `layer ${s.layers[state.layer]}, head ${state.head} on this text: entropy ${fixed(a.entropy, 3)} (1 is uniform, 0 one-hot), mean largest weight ${fixed(a.largest, 3)}` +
        (state.divisor === null ? "." : `; as trained ${fixed(trained.entropy, 3)} and ${fixed(trained.largest, 3)}.`);
    update_row();
}
const divisor_range = (run, own) => [Math.min(own, 1) / 4, Math.max(own, run.d_k) * 4];
function make_attention() {
    state.setting = settings.findIndex(run_of);
    if (state.setting < 0) return $("attention").replaceChildren(el("h2", {}, "Attention"), el("p", {}, "No attention was logged."));
    const run = current(), s = run.snapshots;
    state.step = s.steps.at(-1);
    state.query = s.T - 1;
    $("step").max = s.steps.length - 1;
    $("step").addEventListener("input", () => { state.step = current().snapshots.steps[$("step").value]; update(); });
    $("layer-control").hidden = settings.length === 1 || s.layers.length === 1;
    $("layer").append(...s.layers.map((layer, i) => el("option", {value: i}, layer)));
    $("layer").addEventListener("input", () => { state.layer = Number($("layer").value); make_thumbs(); update(); });
    $("divisor").addEventListener("input", () => {
        const own = trained_divisor(current()), [low, high] = divisor_range(current(), own), value = low * (high / low) ** ($("divisor").value / 1000);
        state.divisor = Math.abs(value / own - 1) < .003 ? null : value;
        update();
    });
    const d_k = run.d_k, mark = (words, divisor) => {
        const button = el("button", {type: "button"}, words);
        button.addEventListener("click", () => { state.divisor = divisor; update(); });
        return button;
    };
    $("marks").append(mark("1", 1), mark(`√d_k = ${short(Math.sqrt(d_k))}`, Math.sqrt(d_k)), mark(`2√d_k = ${short(2 * Math.sqrt(d_k))}`, 2 * Math.sqrt(d_k)), mark(`d_k = ${d_k}`, d_k), mark("as trained", null));
    $("side").addEventListener("input", update_row);
    document.addEventListener("keydown", event => { if (event.key === "Escape" && state.locked) { state.locked = false; update_row(); } });
    make_thumbs();
    update();
}

/* --- words and tables */

const interval = (i, digits = 4) => !i || !i.n ? "–" : fixed(i.mean, digits) + (i.n > 1 ? ` ± ${fixed(i.half, digits)}` : "");
const link_to = run => run.path ? el("a", {href: run.path.split("/").map(encodeURIComponent).join("/")}, run.name) : run.name;
function table(head, rows) {
    return el("div", {class: "wide"}, el("table", {}, el("thead", {}, el("tr", {}, head.map(h => el("th", {scope: "col"}, h)))),
        el("tbody", {}, rows.map(row => el("tr", {}, row.map((cell, i) => el(i ? "td" : "th", {class: i && /^[-+–\d.]/.test(cell) ? "number" : null, scope: i ? null : "row"}, cell)))))));
}
function differing() {
    const names = [...new Set(runs.flatMap(run => Object.keys(run.keys)))];
    const switches = runs.some(run => run.keys["attention.switch_step"] !== "0");
    return names.filter(name => !["log.out", switches ? "" : "attention.switch_divisor"].includes(name) && new Set(runs.map(run => run.keys[name])).size > 1);
}
function results() {
    const section = $("settings");
    if (data.kind === "run") {
        const d = runs[0].description, last = (column, first) => { const points = curve(runs[0], column); return points.length ? points.at(first ? 0 : -1)[1] : NaN; };
        section.firstChild.textContent = "Results";
        section.append(table(["", "at step 0", "at the end"], [[`validation loss (nats per ${unit})`, fixed(last("val_loss", true)), fixed(last("val_loss"))], ["training loss (one batch)", fixed(last("train_loss", true)), fixed(last("train_loss"))],
            ["entropy of attention", fixed(last("entropy", true), 3), fixed(last("entropy"), 3)], ["standard deviation of the scores", short(last("score_std", true)), short(last("score_std"))],
            ...recall ? [["accuracy", fixed(last("val_accuracy", true)), fixed(last("val_accuracy"))]] : []]));
        const corpus = (runs[0].keys["data.corpus"] || "").replace(/^"|"$/g, "").replace(/^.*\//, "");
        const per = Number(runs[0].metric.tokens.at(-1)) / Number(runs[0].metric.seconds.at(-1));
        $("words").textContent = `${plural(+runs[0].keys["model.layers"], "layer")} of ${plural(+runs[0].keys["model.heads"], "head")}, d_k ${runs[0].d_k}, ${d.parameters.toLocaleString("en")} parameters, trained for ${plural(d.steps ?? runs[0].metric.step.at(-1) ?? 0, "step")} of ${runs[0].keys["train.optimizer"]} ` +
            `on ${recall ? "recall" : corpus || "the built-in text"}, seed ${runs[0].keys["train.seed"]}. Result: ${d.result}${d.error ? `: ${d.error}` : ""}. ` +
            (finite(d.best_val_loss) ? `The lowest validation loss was ${fixed(d.best_val_loss)}, at step ${d.best_step}. ` : "") + (finite(per) ? `${short(per)} characters per second with ${plural(d.threads, "thread")}.` : "");
        return;
    }
    const keys = data.kind === "runs" ? differing() : [];
    $("words").textContent = `${plural(settings.length, "setting")}, ${plural(runs.length, "run")}. Losses are in nats per ${unit} over the validation split.` + band_words();
    const row = s => [el("span", {style: `--of:${s.color}`}, el("i"), s.label), ...keys.map(key => runs[s.runs[0]].keys[key] ?? "–"), String(s.val_loss.n), interval(s.val_loss), ...data.kind === "sweep" ? [s.difference ? (s.difference.mean > 0 ? "+" : "") + interval(s.difference) : "–"] : [],
        interval(s.best_val_loss), `${fixed(s.entropy_first.mean, 3)} → ${fixed(s.entropy_last.mean, 3)}`, `${short(s.score_std_first.mean)} → ${short(s.score_std_last.mean)}`,
        ...!runs.some(run => run.path) ? [] : [el("span", {}, s.runs.flatMap((i, k) => [k ? ", " : "", runs[i].path ? link_to({...runs[i], name: s.runs.length > 1 ? `seed ${runs[i].keys["train.seed"]}` : "page"}) : "", runs[i].result === "finished" ? "" : ` (${runs[i].result})`]))]];
    section.append(table(["setting", ...keys, "n", "validation loss", ...data.kind === "sweep" ? ["against ÷ √d_k"] : [], "lowest", "entropy, first → last", "score std, first → last", ...runs.some(run => run.path) ? ["pages"] : []], settings.map(row)),
        el("p", {class: "how"}, "How to read this: n runs finished; ± is half a 95 % interval over seeds (Student's t). " + (data.kind === "sweep" ? "Against ÷ √d_k: the difference of validation losses, taken seed by seed between runs that share everything but the divisor. " : "") + "Entropy is 1 for uniform attention and 0 where one key has all the weight; means over all heads."));
    section.querySelector("table").after(saves("settings", null, () => [["setting", ...keys, "n", "val_loss", "half", "difference", "difference_half"], ...settings.map(s => [s.label, ...keys.map(key => runs[s.runs[0]].keys[key]), s.val_loss.n, s.val_loss.mean, s.val_loss.half, s.difference?.mean, s.difference?.half])]));
}
/* Final losses against a swept number: the one with the most values, at least three; the divisor only with five. */
function final_losses(section) {
    const numbers = data.swept.filter(key => key !== "train.seed").map(key => ({key, values: [...new Set(settings.map(s => key === "attention.scale_divisor" ? s.divisor : Number(s.values[key])))]}))
        .filter(n => n.values.every(finite) && n.values.length >= (n.key === "attention.scale_divisor" ? 5 : 3)).sort((a, b) => b.values.length - a.values.length);
    const axis = (numbers.find(n => n.key !== "attention.scale_divisor") || numbers[0])?.key;
    if (!axis) return;
    const of = s => axis === "attention.scale_divisor" ? s.divisor : Number(s.values[axis]), lines = new Map();
    for (const s of settings) {
        const rest = data.swept.filter(key => key !== axis && key !== "train.seed").map(key => `${key.replace(/^.*\./, "")} ${s.values[key]}`).join(", ");
        if (s.val_loss.n) lines.set(rest, [...(lines.get(rest) || []), s]);
    }
    const xs = settings.map(of);
    chart(section, {title: `Final validation loss by ${axis.replace(/^.*\./, "")}`, how: "How to read this: each point is where training ended; lower is better." + band_words(), name: "final", x: axis.replace(/^.*\./, ""), y: `validation loss (nats per ${unit})`,
        log_x: Math.min(...xs) > 0 && Math.max(...xs) >= 4 * Math.min(...xs),
        series: [...lines].map(([label, group]) => ({label: label || "all", color: group[0].color, dash: group[0].dash, dots: true, points: group.map(s => [of(s), s.val_loss.mean]).sort((a, b) => a[0] - b[0]), band: group.some(s => s.val_loss.n > 1) ? group.sort((a, b) => of(a) - of(b)).map(s => [of(s), s.val_loss.mean - s.val_loss.half, s.val_loss.mean + s.val_loss.half]) : null}))});
}
function losses() {
    const gray = "#8c8c8c", chance = Math.log(Number(runs[0].keys["data.recall_pairs"]));
    const starts = runs.map(run => Math.max(run.metric.val_loss?.[0] ?? 0, run.metric.train_loss?.[0] ?? 0));
    const pale = settings.length > 6 ? [] : settings.map(s => ({...line(s, "train_loss"), band: null, label: settings.length === 1 ? "training (one batch)" : null, color: settings.length === 1 ? gray : s.color, pale: true}));
    chart($("loss"), {title: `Validation loss${pale.length ? " and, pale, training loss of single batches" : ""}`, name: "loss", x: "step", y: `loss (nats per ${unit})`, limit: 1.2 * Math.max(...starts),
        how: `How to read this: the mean of −ln p(next ${unit}), so lower is better and a good guesser loses less. Point at the curves for values.` + band_words(),
        marks: recall ? [[chance, `guess: ${fixed(chance, 3)}`], [0, "all right: 0"]] : [],
        series: [...pale, ...settings.map(s => ({...line(s, "val_loss"), label: settings.length === 1 ? "validation" : s.label, dots: true}))]});
    if (recall) chart($("loss"), {title: "Accuracy", name: "accuracy", x: "step", y: "share of answers that are right", how: "How to read this: 1 is all answers; a guess is right once in " + runs[0].keys["data.recall_pairs"] + ".", series: settings.map(s => line(s, "val_accuracy"))});
    if (data.kind === "sweep") final_losses($("loss"));
}
const measures = [
    ["entropy", "Entropy of attention", "entropy / ln(keys)", "1 is uniform, 0 one-hot; a mean over the rows of a validation batch."],
    ["score_std", "Standard deviation of the scores", "score std", "how far apart the scores are before softmax; 1 is what dividing by √d_k aims at.", true],
    ["max_weight", "Largest weight of a row", "mean largest weight", "how much the favourite key of a query gets."],
    ["saturated", "Saturated rows", "share of rows", "rows whose largest weight is above 0.99: their scores get almost no gradient."],
    ["grad_q_median", "Gradient of a query", "median |dL/dq|", "what is left to move the queries by.", true],
    ["grad_scores_median", "Gradient of a row's scores", "median |dL/ds|", "it vanishes where softmax saturates.", true],
    ["qk_norm", "Size of the query and key weights", "|W_Q| |W_K|", "scores also grow by these.", true],
    ["grad_norm", "Gradient norm", "norm, before clipping", "of all parameters, for one batch.", true]];
function training() {
    const box = el("div", {class: "small"}), run = runs[0], heads = new Set((run.heads.layer || []).map((layer, i) => `${layer},${run.heads.head[i]}`));
    $("training").append(box);
    const single = [...heads].map((name, i) => ({layer: +name.split(",")[0], head: +name.split(",")[1], color: data.palette[i % data.palette.length], dash: i >= data.palette.length ? 4 : 0}));
    const layers = [...new Set(single.map(h => h.layer))];
    const groups = single.length <= data.palette.length ? single.map(h => ({...h, label: `layer ${h.layer}, head ${h.head}`, taken: (l, k) => l === h.layer && k === h.head})) :
        layers.map((layer, i) => ({label: `layer ${layer}, mean over heads`, color: data.palette[i % data.palette.length], dash: 0, taken: l => l === layer}));
    for (const [column, title, y, how, log_y] of measures) {
        const series = settings.length > 1 ? settings.map(s => line(s, column)) : column === "grad_norm" ? [{label: "all parameters", color: "#0072b2", points: curve(run, column)}] :
            groups.map(g => ({label: g.label, color: g.color, dash: g.dash, points: curve(run, column, g.taken)}));
        chart(box, {title: title + (settings.length > 1 && column !== "grad_norm" ? ", mean over heads" : ""), how: "How to read this: " + how, name: column, x: "step", y, log_y, series});
    }
}
function samples() {
    const section = $("samples"), texts = (run => (run.samples || "").split(/^==== (step \d+, validation loss \S+) ====\n/m).slice(1))(runs[0]);
    if (data.kind !== "run" || !texts.length) return section.remove();
    const slider = el("input", {type: "range", id: "sample", min: 0, max: texts.length / 2 - 1, value: texts.length / 2 - 1, "aria-label": "evaluation"}), title = el("h3"), pre = el("pre");
    const show = () => { title.textContent = texts[2 * slider.value]; pre.textContent = texts[2 * slider.value + 1].trimEnd(); };
    slider.addEventListener("input", show);
    section.append(el("p", {class: "how"}, "How to read this: what the model wrote at each evaluation, always with the same random numbers. Move the slider through training."), slider, title, pre);
    show();
}
function setup() {
    const section = $("setup"), of = [[data.title, data.description, data.config, {}], ...data.kind.startsWith("run") ? runs.map(run => [run.name, run.description, run.config, run]) : []].filter(one => one[1]);
    for (const [name, description, config, files] of of) {
        const own = data.kind === "run" ? runs[0] : files, all = {"config.ini": config, "metrics.csv": own.metrics, "attention.csv": own.attention, "samples.txt": own.samples, "theory.csv": data.theory};
        const rows = Object.entries(description).flatMap(([key, value]) => key === "runs" ? [] : typeof value === "object" && value ? Object.entries(value).map(([k, v]) => [`${key}.${k}`, typeof v === "object" ? JSON.stringify(v) : String(v)]) : [[key, String(value)]]);
        section.append(el("h3", {}, name), el("p", {class: "saves"}, Object.entries(all).filter(([, text]) => text).map(([file, text]) => { const b = el("button", {type: "button"}, file); b.addEventListener("click", () => save(file, "text/plain", text)); return b; })),
            table(["run.json", ""], rows), config ? el("details", {}, el("summary", {}, "config.ini"), el("pre", {}, config)) : "");
    }
}

/* --- theory: figures of random queries and keys against d_k, a line for each way to score */

function theory() {
    const [names, ...lines] = data.theory.trimEnd().split("\n").map(line => line.split(","));
    const rows = lines.map(line => Object.fromEntries(names.map((name, i) => [name, line[i]])));
    rows.sort((a, b) => a.d_k - b.d_k);
    const way_of = row => row.score === "dot" ? row.divisor : row.score, ways = [...new Set(rows.map(way_of))];
    const labels = {none: "÷ 1 (undivided)", sqrt_dk: "÷ √d_k", dk: "÷ d_k", "2sqrt_dk": "÷ 2√d_k",
        additive: "additive", cosine: "cosine · √d_k", sink: "sink, ÷ √d_k", softcap: "softcap 30"};
    const others = ways.filter(way => !data.colors[way]), sizes = [...new Set(rows.map(row => +row.d_k))];
    const n = +rows[0].keys, uniform = x => `${x} is uniform attention over all keys`, section = $("loss");
    for (const id of ["settings", "attention", "training", "samples"]) $(id).remove();
    section.id = "figures";
    section.firstChild.textContent = "Before training, against d_k";
    $("setup").firstChild.textContent = "Figures and machine";
    const range = sizes.length > 12 ? `${sizes[0]} to ${sizes.at(-1)} (${sizes.length} sizes)` : sizes.join(", ");
    const ticks = sizes.slice(0, 1), least = (sizes.at(-1) / sizes[0]) ** .06; /* between two */
    for (const size of sizes) if (size > least * ticks.at(-1)) ticks.push(size);
    $("title").textContent = `Attention of random queries and keys: d_k ${range}; ${plural(n, "key")}, ` +
        `${rows[0].samples} samples each, seed ${data.description.seed ?? "not recorded"}`;
    $("words").textContent = `No model, no training: a query q and its keys k have independent N(0, 1) entries, and the
        loss L is a random linear one on the weights. A score is q·k, divided (÷), or another: additive, v·tanh(q + k);
        cosine, √d_k q·k / (|q| |k|); sink, with one more key of score and value 0; softcap, 30 tanh(q·k / 30).`;
    section.append(el("p", {class: "how"}, `All lines share their samples. Other ways to score are dashed; dashes on
        a whole line are two lines in one place. Bands are two standard errors either way, often thinner than a line.`));
    const figures = [
        ["score_var", "Variance of the scores", "variance", "of what softmax gets: d_k undivided, 1 after ÷ √d_k.", 1],
        ["entropy", "Entropy of a row", "entropy (nats)", `${uniform(`ln ${n} = ${short(Math.log(n))}`)}, 0 one-hot.`],
        ["max_weight", "Largest weight of a row", "mean weight", `${uniform(`1/${n} = ${short(1 / n)}`)}, 1 one-hot.`],
        ["grad_q_median", "Gradient of the query: median", "median |dL/dq|", "half of the rows have less.", 1],
        ["grad_q_mean", "Gradient of the query: mean", "mean |dL/dq|",
            "the few rows whose two largest scores are nearly equal hold it up where the median falls.", 1]];
    for (const [column, title, y, how, log_y] of figures) {
        const shown = row => !log_y || row[column] > 0;
        const zeros = new Set(rows.filter(row => !shown(row)).map(row => labels[way_of(row)]));
        const series = ways.map(way => {
            const own = rows.filter(row => way_of(row) === way && shown(row)), other = others.indexOf(way);
            const at = (row, errors) => Number(row[column]) + errors * row[`${column}_se`];
            return {label: labels[way] || way, color: data.colors[way] || data.others[other % data.others.length],
                dash: other < 0 ? 0 : 6, dots: true, points: own.map(row => [+row.d_k, at(row, 0)]),
                band: own.map(row => [+row.d_k, log_y && at(row, -2) <= 0 ? NaN : at(row, -2), at(row, 2)])};
        });
        chart(section, {title, name: column, x: "d_k", y, log_x: true, log_y, ticks, series,
            how: `How to read this: ${how}` + (zeros.size ? ` Missing where zero: ${[...zeros].join(", ")}.` : "")});
    }
}

document.title = `${data.title}: sqrtdk`;
$("title").textContent = data.heading;
$("notes").textContent = data.notes.join(" ");
$("theme").addEventListener("click", () => { document.documentElement.dataset.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; });
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
if (data.kind === "theory") theory();
else for (const part of [results, losses, make_attention, training, samples]) part();
setup();
for (const section of document.querySelectorAll("main > section")) document.querySelector("nav").append(el("a", {href: `#${section.id}`}, section.querySelector("h2").textContent));
