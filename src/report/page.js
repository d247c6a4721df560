"use strict";
/* The page of a run, a sweep, or several runs side by side. `data` has the files of each run as they are (run.json,
   config.ini, metrics.csv, attention.csv, samples.txt) and the raw scores of its snapshots; src/report/data.c writes
   it. A setting is one line of a chart and one group of thumbnails: the runs that differ in the seed alone. */
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

/* --- elements, numbers, text files */
/* Characters that would change the direction of writing, or cannot be seen, become U+FFFD. */
const plain = text => text.replace(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "\ufffd");
/* Makes an element. Attributes and children that are null or undefined are left out; a function is a listener:
   {onclick: ...}. */
function el(name, attributes = {}, ...children) {
    const of_svg = ["svg", "g", "path", "rect", "circle", "text", "image"].includes(name);
    const element = document.createElementNS(`http://www.w3.org/${of_svg ? "2000/svg" : "1999/xhtml"}`, name);
    for (const [key, value] of Object.entries(attributes))
        if (typeof value === "function") element.addEventListener(key.slice(2), value);
        else if (value != null) element.setAttribute(key, value);
    const shown = children.flat(Infinity).filter(child => child != null);
    element.append(...shown.map(child => typeof child === "string" ? plain(child) : child));
    return element;
}
const label = (x, y, text, anchor = "middle") => el("text", {x, y, "text-anchor": anchor}, text);
const finite = Number.isFinite;
function short(x) {
    if (!finite(x)) return "–";
    const powers = Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3);
    return powers ? x.toExponential(2).replace(/\.?0+e/, "e") : String(Number(x.toPrecision(4)));
}
const fixed = (x, digits = 4) => finite(x) ? x.toFixed(digits) : "–";
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const optimizers = {adamw: "AdamW", sgd: "SGD", muon: "Muon"};
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
/* The index of the number that is nearest to x. */
function nearest_of(numbers, x) {
    const far = numbers.map(number => Math.abs(number - x));
    return far.indexOf(Math.min(...far));
}
const mean = x => x.reduce((sum, value) => sum + value, 0) / x.length;
const key_name = key => key.replace(/^.*\./, ""); /* a key without its section */
/* Half a 95 % interval of the mean (Student's t); data.t95 is by the number of values. */
function half_interval(x) {
    return data.t95[x.length] * Math.sqrt(mean(x.map(v => (v - mean(x)) ** 2)) / (x.length - 1));
}
/* The columns of a log; an empty field is NaN. */
function read_csv(text) {
    const [head, ...lines] = (text || "").trimEnd().split("\n"), names = head.split(",");
    const columns = Object.fromEntries(names.map(name => [name, []]));
    for (const line of lines)
        line.split(",").forEach((field, i) => columns[names[i]].push(field === "" ? NaN : Number(field)));
    return columns;
}
function read_ini(text) {
    const keys = {};
    let section = "";
    for (const [, header, key, value] of text.matchAll(/^(?:\[(.+)\]|(\w+)\s*=\s*(.*))$/gm))
        if (header) section = header;
        else keys[`${section}.${key}`] = value;
    return keys;
}

/* --- figures as files */
function save(name, type, text) {
    el("a", {href: URL.createObjectURL(new Blob([text], {type})), download: `${data.title}_${name}`}).click();
}
function csv_text(rows) {
    const quoted = field => /[",\n\r]/.test(field) ? `"${String(field).replaceAll('"', '""')}"` : field;
    return rows.map(row => row.map(quoted).join(",") + "\n").join("");
}
/* A figure as a file of its own: what the style sheet says is written into each element. */
function svg_text(svg) {
    const copy = svg.cloneNode(true), originals = svg.querySelectorAll("*");
    const properties = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "image-rendering"];
    copy.querySelectorAll("*").forEach((element, i) => {
        const style = getComputedStyle(originals[i]);
        element.setAttribute("style", properties.map(key => `${key}: ${style.getPropertyValue(key)}`).join("; "));
    });
    copy.prepend(el("rect", {width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor}));
    return new XMLSerializer().serializeToString(copy);
}
/* Buttons that save a figure; `svg` (none for a table) and `rows` are functions. */
function save_buttons(name, svg, rows) {
    const button = (format, type, text) => el("button", {type: "button", "data-save": `${name}.${format}`,
        "aria-label": `save as ${name}.${format}`, onclick: () => save(`${name}.${format}`, type, text())}, format);
    return el("p", {class: "saves"}, svg ? button("svg", "image/svg+xml", () => svg_text(svg())) : null,
        button("csv", "text/csv", () => csv_text(rows())));
}

/* --- runs and their curves */
const runs = data.runs, settings = data.settings;
for (const run of runs) {
    run.keys = read_ini(run.config);
    run.metrics_table = read_csv(run.metrics);
    run.heads_table = read_csv(run.attention);
    run.d_k = Number(run.keys["model.d_k"]);
    run.heads_table.qk_norm = (run.heads_table.w_q_norm || []).map((norm, i) => norm * run.heads_table.w_k_norm[i]);
}
const recall = runs[0]?.keys["data.task"] === "recall", unit = recall ? "answer" : "character";
/* The points [step, value] of a column of metrics.csv, or of attention.csv, where the heads that are `taken` are
   averaged. */
function curve(run, column, taken = () => true) {
    const of_heads = !run.metrics_table[column], table = of_heads ? run.heads_table : run.metrics_table;
    const points = new Map();
    (table[column] || []).forEach((value, i) => {
        if (!finite(value) || (of_heads && !taken(table.layer[i], table.head[i]))) return;
        points.set(table.step[i], [...points.get(table.step[i]) ?? [], value]);
    });
    return [...points].map(([step, values]) => [step, mean(values)]);
}
/* A series for a setting: the mean of its runs at the steps that all of them have, with a band where there are
   several. Where some runs finished, only these count. */
function series_of(setting, column) {
    const all = setting.runs.map(i => runs[i]), finished = all.filter(run => run.result === "finished");
    const curves = (finished.length ? finished : all).map(run => new Map(curve(run, column))).filter(c => c.size);
    const steps = curves.length ? [...curves[0].keys()].filter(step => curves.every(c => c.has(step))) : [];
    const values = steps.map(step => curves.map(c => c.get(step)));
    const inside = (m, half) => [m - half, m + half];
    const range = v => v.length > 2 ? inside(mean(v), half_interval(v)) : [Math.min(...v), Math.max(...v)];
    return {...setting, points: steps.map((step, i) => [step, mean(values[i])]),
        band: curves.length > 1 ? steps.map((step, i) => [step, ...range(values[i])]) : null};
}
const most_seeds = Math.max(...settings.map(setting => setting.runs.length));
const band_words = most_seeds < 2 ? "" : " A line is the mean over seeds; its band " + (most_seeds === 2 ?
    "goes from the lower to the higher of two runs." : "is the 95 % interval of the mean (Student's t).");

/* --- charts. One is {title, how, name (of its files), x, y (words of the axes), series, log_y, limit (values
   above it are drawn at the edge), log_x, small, levels: [{label, short, y}], thin lines to compare
   with}; a series {label, color, dash, points, band: [[x, low, high]], pale,
   dots}. */
const drawings = []; /* a function for each chart, which draws it as wide as its column is */
const margin = {left: 58, top: 10, bottom: 42};
const with_color = (name, {color, dash}, ...children) =>
    el(name, {style: `--of: ${color}`}, el("i", {class: dash ? "dashed" : null}), ...children);
function ticks(low, high, log) {
    const found = [], rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(m => m * power >= rough) * power;
    if (log)
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
            found.push(...(high / low > 1000 ? [1] : [1, 2, 5]).map(m => Number(`${m}e${e}`)));
    else
        for (let i = Math.ceil(low / step); i <= high / step + 1e-6; i++) found.push(+(i * step).toPrecision(12));
    return found.filter(tick => tick >= low - step / 1e6 && tick <= high + step / 1e6);
}
/* A function from values to places between `from` and `to`. What is beyond the range of `values` is at the edge. */
function make_scale(values, log, from, to) {
    let low = Math.min(...values), high = Math.max(...values);
    if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(low) / 2];
    const map = log ? Math.log : x => x, slope = (to - from) / (map(high) - map(low));
    return Object.assign(x => from + (map(clamp(x, low, high)) - map(low)) * slope, {ticks: ticks(low, high, log)});
}
function draw_axes(svg, o, x, y, W, H, right) {
    const {left, top, bottom} = margin, line = (kind, d) => el("path", {class: kind, d});
    for (const tick of x.ticks)
        svg.append(line("grid", `M${x(tick)} ${top}V${H - bottom}`),
            label(x(tick), H - bottom + 16, short(tick)));
    for (const tick of y.ticks)
        svg.append(line("grid", `M${left} ${y(tick)}H${W - right}`), label(left - 6, y(tick) + 4, short(tick), "end"));
    svg.append(line("axis", `M${left} ${top}V${H - bottom}H${W - right}`),
        label((left + W - right) / 2, H - 6, o.x),
        el("text", {transform: `translate(13 ${(top + H - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"}, o.y));
}
function draw_series(s, x, y) {
    const path = points => points.map(p => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L");
    const group = el("g", {style: `--of: ${s.color}`}), band = (s.band || []).filter(b => finite(b[1]) && finite(b[2]));
    if (band.length) {
        const there = path(band.map(b => [b[0], b[2]])), back = path(band.map(b => [b[0], b[1]]).reverse());
        group.append(el("path", {class: "band", d: `M${there}L${back}Z`}));
    }
    group.append(el("path", {class: s.pale ? "curve pale" : "curve", d: `M${path(s.points)}`,
        "stroke-dasharray": s.dash ? `${s.dash} ${s.dash / 2}` : null}));
    if (s.dots || s.points.length < 2)
        group.append(...s.points.map(p => el("circle", {class: "dot", r: 3, cx: x(p[0]), cy: y(p[1])})));
    return group;
}
/* The levels, from the highest down, each with its label right of the plot, and lower where it would cover another. */
function draw_levels(levels, y, from, to) {
    let lowest = -Infinity;
    return levels.map(level => {
        lowest = Math.max(y(level.y), lowest + 15);
        return el("g", {class: "level"}, el("path", {d: `M${from} ${y(level.y)}H${to}L${to + 8} ${lowest}`}),
            label(to + 11, lowest + 4, level.label, "start"));
    });
}
/* Draws a chart that is `W` wide. `show` gets the x that the mouse or the arrow keys choose. */
function draw_chart(o, W, show) {
    const {left, top, bottom} = margin, H = Math.round(clamp(.42 * W, 260, 420));
    const points = o.series.flatMap(s => s.points), bands = o.series.flatMap(s => s.band || []);
    const heights = [...points, ...bands].flatMap(p => p.slice(1)).filter(y => finite(y) && !(y > o.limit));
    const [low, high] = [Math.min(...heights), Math.max(...heights)], wide = W >= 640;
    const reach = low - .05 * (high - low), room = .03 * (high - low);
    const levels = (o.levels || []).filter(level => level.y >= reach && level.y <= high).sort((a, b) => b.y - a.y)
        .map(level => wide ? level : {...level, label: level.short});
    const right = Math.max(22, ...levels.map(level => 16 + 6.9 * level.label.length));
    const log_y = o.log_y && low > 0 && high > 10 * low;
    const x = make_scale(points.map(p => p[0]), o.log_x, left, W - right);
    const y = make_scale([...heights, ...levels.map(level => level.y - room)], log_y, H - bottom, top);
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img",
        "aria-label": `${o.title}; the arrow keys move along the curves`});
    const stops = [...new Set(points.map(p => p[0]))].sort((a, b) => a - b), cursor = el("path", {class: "cursor"});
    draw_axes(svg, {...o, y: o.y + (log_y ? " (logarithmic)" : "")}, x, y, W, H, right);
    svg.append(...draw_levels(levels, y, left, W - right), ...o.series.map(s => draw_series(s, x, y)), cursor);
    let chosen = stops.length - 1;
    const choose = i => {
        chosen = clamp(i, 0, stops.length - 1);
        show(stops[chosen]);
        cursor.setAttribute("d", `M${x(stops[chosen])} ${top}V${H - bottom}`);
    };
    svg.addEventListener("pointermove", event => {
        const box = svg.getBoundingClientRect();
        choose(nearest_of(stops.map(x), (event.clientX - box.left) / box.width * W));
    });
    svg.addEventListener("keydown", event => {
        const move = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
        if (!move) return;
        choose(chosen + move);
        event.preventDefault();
    });
    show(stops[chosen]);
    return svg;
}
/* The legend, with the values of the curves at one x. */
function make_legend(o) {
    const labelled = o.series.filter(s => s.label), values = labelled.map(() => el("output")), at = el("output");
    const list = el("ul", {class: "legend"}, labelled.map((s, i) => with_color("li", s, s.label, values[i])));
    const folded = o.small && labelled.length > 5;
    if (!folded) list.prepend(el("li", {}, at));
    const show = x => {
        at.textContent = `${o.x} ${short(x)}:`;
        labelled.forEach((s, i) => {
            const n = s.points.findIndex(p => p[0] === x), band = n >= 0 && s.band ? s.band[n] : null;
            values[i].textContent = n < 0 ? "" : ` ${short(s.points[n][1])}` +
                (band && finite(band[1]) ? ` (${short(band[1])} to ${short(band[2])})` : "");
        });
    };
    return {show, element: folded ? el("details", {class: "legend"}, el("summary", {}, at, " values"), list) : list};
}
function chart(parent, o) {
    o.series = o.series.filter(s => s.points.length);
    const figure = el("figure", {}, el("h3", {}, o.title), el("p", {class: "how"}, `How to read this: ${o.how}`));
    parent.append(figure);
    if (!o.series.length) return figure.append(el("p", {}, "No numbers yet."));
    const holder = el("div"), legend = make_legend(o);
    const row = s => (p, i) => [s.label || "training", ...p, ...s.band?.[i].slice(1) ?? ["", ""]];
    const rows = () => [["series", "x", "y", "low", "high"], ...o.series.flatMap(s => s.points.map(row(s)))];
    figure.append(holder, legend.element, save_buttons(o.name, () => holder.firstChild, rows));
    drawings.push(() => holder.replaceChildren(draw_chart(o, clamp(holder.clientWidth, 280, 1100), legend.show)));
}

/* --- attention: weights from raw scores */
/* The scores of a run's snapshots: by step, layer and head, each the lower triangle of (T, T), row by row. */
for (const s of runs.map(run => run.snapshots).filter(Boolean)) {
    s.scores = new Float32Array(Uint8Array.from(atob(s.scores), c => c.charCodeAt(0)).buffer);
    s.text = Array.from(s.text);
    s.T = s.text.length;
}
/* Rounds to the nearest number of a format, ties to even, as [attention] score_precision does. */
const formats = {bf16: [8, 2 ** -133, 3.3895313892515355e38], fp16: [11, 2 ** -24, 65504]}; /* digits, least, most */
function rounded(x, format) {
    if (!format || !finite(x) || x === 0) return x;
    const [digits, least, most] = format, power = Math.floor(Math.log2(Math.abs(x)));
    const unit = Math.max(2 ** (power - digits + 1), least), n = x / unit;
    const whole = unit * (Math.abs(n % 1) === .5 ? 2 * Math.round(n / 2) : Math.round(n));
    return Math.abs(whole) > most ? Math.sign(x) * Infinity : whole;
}
/* Softmax of a row of scores into `w`, where a sink is one more key (docs/model.md). */
function softmax(scores, sink, w) {
    const most = scores.reduce((a, b) => Math.max(a, b), sink), keys = scores.length + (sink === -Infinity ? 0 : 1);
    let sum = 0, dot = 0;
    for (const score of [...scores, sink]) {
        const e = Math.exp(score - most);
        sum += e;
        if (e !== 0) dot += e * (score - most);
    }
    scores.forEach((score, k) => { w[k] = Math.exp(score - most) / sum; });
    return {entropy: keys > 1 ? (Math.log(sum) - dot / sum) / Math.log(keys) : NaN, largest: 1 / sum};
}
/* One head: weights (T, T) from raw scores, which are mapped as in the run: multiplier, length, cap, then softmax.
   divisor null: as trained. Arithmetic is rounded to float as the program's is, for the formats. */
function attend(run, step, layer, head, divisor) {
    const s = run.snapshots, T = s.T, at = (step * s.layers.length + layer) * s.heads + head, float = Math.fround;
    const format = formats[run.keys["attention.score_precision"]], cap = Number(run.keys["attention.softcap"]);
    const multiplier = divisor === null ? s.multiplier[at] : float(Math.sign(s.multiplier[at]) / divisor);
    const triangle = T * (T + 1) / 2, raw = s.scores.subarray(at * triangle, (at + 1) * triangle);
    const scores = new Float64Array(T * T), w = new Float64Array(T * T), rows = [];
    for (let q = 0; q < T; q++) {
        const length = run.keys["attention.scale_length"] === "log" ? Math.log(q + 1) : 1;
        const factor = float(multiplier * length), row = scores.subarray(q * T, q * T + q + 1);
        for (let k = 0; k <= q; k++) {
            const score = factor === 0 ? 0 : float(rounded(raw[q * (q + 1) / 2 + k], format) * factor);
            row[k] = rounded(cap > 0 ? float(cap * Math.tanh(score / cap)) : score, format);
        }
        rows.push(softmax(row, s.sink[at] ?? -Infinity, w.subarray(q * T)));
    }
    const counted = rows.filter(row => finite(row.entropy)), mean_of = key => mean(counted.map(row => row[key]));
    return {T, w, raw, scores, rows, multiplier, entropy: mean_of("entropy"), largest: mean_of("largest")};
}

/* --- attention: what is chosen, and pictures of it */
const state = {setting: 0, layer: 0, head: 0, step: 0, divisor: null, query: 0, key: 0, locked: false};
let thumbs = [], matrix = null;
const run_of = setting => setting.runs.map(i => runs[i]).find(run => run.snapshots); /* whose scores are here */
const current = () => run_of(settings[state.setting]);
const all_steps = [...new Set(runs.flatMap(run => run.snapshots?.steps ?? []))].sort((a, b) => a - b);
const nearest = run => nearest_of(run.snapshots.steps, state.step); /* the snapshot that is shown */
/* data.colors are even steps of the square root, so that small weights can be told apart. */
const colors = (data.colors || []).map(color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16)));
function color_of(weight) {
    if (Number.isNaN(weight)) return [220, 38, 38];
    const place = Math.sqrt(clamp(weight, 0, 1)) * (colors.length - 1), i = Math.min(Math.floor(place), colors.length - 2);
    return colors[i].map((c, n) => Math.round(c + (place - i) * (colors[i + 1][n] - c)));
}
/* A character as the page shows it: blanks have signs, and what cannot be seen, or would change the direction of
   writing, is U+FFFD. */
const signs = {" ": "␣", "\u00a0": "␣", "\u3000": "␣", "\n": "↵", "\t": "⇥"};
const visible = c => signs[c] || (/[\p{C}\p{Z}]/u.test(c) ? "\ufffd" : /\p{M}/u.test(c) ? `◌${c}` : c);
/* Paints the lower triangle; the rest stays transparent. */
function paint(canvas, a) {
    const context = canvas.getContext("2d"), image = context.createImageData(a.T, a.T);
    for (let q = 0; q < a.T; q++)
        for (let k = 0; k <= q; k++) image.data.set([...color_of(a.w[q * a.T + k]), 255], 4 * (q * a.T + k));
    context.putImageData(image, 0, 0);
    return canvas;
}
/* Makes a card for each setting, with the heads of the chosen layer. A single setting has a card for each layer. */
function make_thumbs() {
    const single = settings.length === 1;
    thumbs = [];
    const make = (at, run, layer, head) => {
        const canvas = el("canvas", {width: run.snapshots.T, height: run.snapshots.T}), words = el("span");
        const button = el("button", {type: "button", class: "thumb", onclick: () => {
            Object.assign(state, {divisor: at === state.setting ? state.divisor : null, setting: at, layer, head});
            update();
        }}, canvas, words);
        thumbs.push({button, canvas, words, run, at, layer, head});
        return button;
    };
    const cards = settings.map((setting, at) => {
        const run = run_of(setting), s = run?.snapshots, heads = Array.from({length: s?.heads ?? 0}, (_, head) => head);
        const layers = !s ? [] : single ? [...s.layers.keys()] : [Math.min(state.layer, s.layers.length - 1)];
        return layers.map(layer => el("div", {},
            el("h3", {class: "legend"}, single ? `layer ${s.layers[layer]}` : with_color("b", setting, setting.label)),
            heads.map(head => make(at, run, layer, head))));
    });
    $("heads").replaceChildren(...cards.flat());
}
/* Makes the large matrix of a text: picture, characters, axes, colour bar, and the characters below it. */
function make_matrix({T, text}) {
    const cell = clamp(Math.round(480 / T), 13, 36), left = 46, top = 8, side = T * cell;
    const W = left + side + 66, H = Math.max(top + side + 46, 200);
    const band = 180 / data.colors.length, bar = (data.colors || []).map((fill, i) =>
        el("rect", {x: left + side + 14, y: top + 180 - (i + 1) * band, width: 14, height: band + .5, fill}));
    const square = {x: left, y: top, width: side, height: side, preserveAspectRatio: "none"};
    const rect = (kind, more) => el("rect", {...square, class: kind, ...more});
    const image = el("image", square), chosen = [rect("chosen", {height: cell}), rect("chosen", {width: cell})];
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img",
        style: `max-width: ${1.2 * W}px; min-width: ${Math.min(W, 512)}px`, onkeydown: move_by_key,
        onpointermove: event => choose(place_of(event)), onclick: event => choose(place_of(event), true),
        "aria-label": "attention weights; the arrow keys choose a query and a key"},
        rect("masked"), image, chosen,
        text.map((c, i) => [label(left - 9, top + (i + .5) * cell + 4, visible(c)),
            label(left + (i + .5) * cell, top + side + 13, visible(c))]),
        label(left + side / 2, top + side + 34, "key"),
        el("g", {transform: `translate(14 ${top + side / 2}) rotate(-90)`}, label(0, 0, "query")),
        bar, [0, .05, .2, .5, 1].map(w => el("text", {x: left + side + 32, y: top + 180 * (1 - Math.sqrt(w)) + 5}, w)));
    const place = i => ({[$("side").value]: i});
    const spans = text.map((c, i) => el("span", {class: "key", onpointerenter: () => choose(place(i)),
        onclick: () => choose(place(i), true)}, el("b", {}, visible(c)), el("small")));
    matrix = {text: text.join(""), svg, image, chosen, spans, canvas: el("canvas", {width: T, height: T}),
        left, top, cell, T, a: null};
    $("matrix").replaceChildren(svg, save_buttons("attention", () => svg, matrix_rows));
    $("row").replaceChildren(...spans);
}
function matrix_rows() {
    const {T, raw, scores, w} = matrix.a, text = current().snapshots.text;
    const row = (q, k) => [q, k, text[q], text[k], raw[q * (q + 1) / 2 + k], scores[q * T + k], w[q * T + k]];
    return [["query", "key", "query_char", "key_char", "raw_score", "score", "weight"],
        ...text.flatMap((_, q) => text.slice(0, q + 1).map((_, k) => row(q, k)))];
}
/* The cell under the mouse. */
function place_of(event) {
    const {svg, left, top, cell, T} = matrix, box = svg.getBoundingClientRect();
    const zoom = svg.viewBox.baseVal.width / box.width;
    const key = Math.floor(((event.clientX - box.left) * zoom - left) / cell);
    const query = Math.floor(((event.clientY - box.top) * zoom - top) / cell);
    return query >= 0 && query < T && key >= 0 && key < T ? {query, key: Math.min(key, query)} : null;
}
function choose(place, lock = false) {
    if (!place || (state.locked && !lock)) return;
    state.query = place.query ?? Math.max(state.query, place.key);
    state.key = Math.min(place.key ?? state.key, state.query);
    state.locked = lock;
    update_row();
}
function move_by_key(event) {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [0, 0]};
    if (!moves[event.key]) return;
    const [rows, columns] = moves[event.key];
    state.locked ||= event.key === "Enter";
    state.query = clamp(state.query + rows, 0, matrix.T - 1);
    state.key = clamp(state.key + columns, 0, state.query);
    event.preventDefault();
    update_row();
}
/* Shows the chosen query's or key's weights, as numbers on the text itself. */
function update_row() {
    const {a, spans, chosen, left, top, cell} = matrix, {query, key} = state, by_key = $("side").value === "key";
    chosen[0].setAttribute("y", top + query * cell);
    chosen[1].setAttribute("x", left + key * cell);
    spans.forEach((span, i) => {
        const seen = by_key ? i >= key : i <= query, weight = by_key ? a.w[i * a.T + key] : a.w[query * a.T + i];
        const [r, g, b] = color_of(weight), bright = .299 * r + .587 * g + .114 * b > 140;
        span.style.background = seen ? `rgb(${r}, ${g}, ${b})` : "";
        span.style.color = seen ? bright ? "#000" : "#fff" : "";
        span.lastChild.textContent = seen ? weight.toFixed(3).replace(/^0/, "") : "\u00a0";
        span.setAttribute("aria-current", i === (by_key ? key : query));
    });
    const text = current().snapshots.text, at = query * (query + 1) / 2 + key;
    $("reading").textContent = `query ${query} “${visible(text[query])}”, key ${key} “${visible(text[key])}”: ` +
        `weight ${fixed(a.w[query * a.T + key])}, raw score ${short(a.raw[at])}, ` +
        `score ${short(a.scores[query * a.T + key])}. This query's row: entropy ${fixed(a.rows[query].entropy, 3)}, ` +
        `largest weight ${fixed(a.rows[query].largest, 3)}.` + (state.locked ? " Locked; Escape unlocks." : "");
}

/* --- attention: the divisor, and everything when something was chosen */
const trained_divisor = run => Math.abs(1 / attend(run, nearest(run), state.layer, state.head, null).multiplier);
/* The slider has the divisor's logarithm; it stops at the trained one. */
function update_divisor(run, own) {
    const divisor = state.divisor ?? own, root = Math.sqrt(run.d_k);
    const marks = [["1", 1], [`√d_k = ${short(root)}`, root], [`2√d_k = ${short(2 * root)}`, 2 * root],
        [`d_k = ${run.d_k}`, run.d_k]];
    $("divisor-control").hidden = $("marks").hidden = run.keys["attention.score"] === "additive" || !finite(own);
    $("divisor-value").textContent = short(divisor) + (state.divisor === null ? " (as trained)" : "");
    const [min, max] = [Math.min(own, 1) / 4, Math.max(own, run.d_k) * 4].map(Math.log);
    Object.assign($("divisor"), {min, max, value: Math.log(divisor)});
    $("rescored").textContent = state.divisor === null ? "" : "This is the trained model with its scores divided by " +
        `${short(divisor)} instead of ${short(own)}. It is not a model that was trained with that divisor, which ` +
        "would have learned other weights.";
    if ($("marks").dataset.d_k === String(run.d_k)) return;
    $("marks").dataset.d_k = run.d_k;
    $("divisor-marks").replaceChildren(...marks.map(([, c]) => el("option", {value: Math.log(c)})));
    $("marks").replaceChildren(...[...marks, ["as trained", null]].map(([words, c]) =>
        el("button", {type: "button", onclick: () => { state.divisor = c; update(); }}, words)));
}
function update() {
    const run = current(), s = run.snapshots, at = nearest(run);
    const query = Math.min(state.query, s.T - 1);
    Object.assign(state, {layer: Math.min(state.layer, s.layers.length - 1), head: Math.min(state.head, s.heads - 1),
        query, key: Math.min(state.key, query)});
    if (!matrix || matrix.text !== s.text.join("")) make_matrix(s);
    for (const {button, canvas, words, run, at, layer, head} of thumbs) {
        const own = at === state.setting, a = attend(run, nearest(run), layer, head, own ? state.divisor : null);
        paint(canvas, a);
        words.textContent = `head ${head}\nentropy ${fixed(a.entropy, 2)}`;
        button.setAttribute("aria-label", `layer ${layer}, head ${head}, entropy ${fixed(a.entropy, 2)}`);
        button.setAttribute("aria-pressed", own && layer === state.layer && head === state.head);
    }
    const trained = attend(run, at, state.layer, state.head, null);
    const a = matrix.a = attend(run, at, state.layer, state.head, state.divisor);
    matrix.image.setAttribute("href", paint(matrix.canvas, a).toDataURL());
    $("step-value").textContent = s.steps[at];
    Object.assign($("step"), {max: all_steps.length - 1, value: nearest_of(all_steps, state.step)});
    update_divisor(run, trained_divisor(run));
    $("figures").textContent = `Layer ${s.layers[state.layer]}, head ${state.head}` +
        (settings.length > 1 ? ` of ${settings[state.setting].label}` : "") + ` on this text: entropy ` +
        `${fixed(a.entropy, 3)} (1 is uniform, 0 one-hot), mean largest weight ${fixed(a.largest, 3)}` +
        (state.divisor === null ? "." : `; as trained ${fixed(trained.entropy, 3)} and ${fixed(trained.largest, 3)}.`);
    update_row();
}
function show_attention() {
    state.setting = settings.findIndex(run_of);
    if (state.setting < 0)
        return $("attention").replaceChildren(el("h2", {}, "Attention"), el("p", {}, "No attention was logged."));
    const s = current().snapshots, on = (id, type, act) => $(id).addEventListener(type, () => { act(); update(); });
    Object.assign(state, {step: all_steps.at(-1), query: s.T - 1});
    on("step", "input", () => { state.step = all_steps[$("step").value]; });
    on("divisor", "input", () => {
        const divisor = Math.exp($("divisor").value);
        state.divisor = Math.abs(divisor / trained_divisor(current()) - 1) < .006 ? null : divisor;
    });
    on("layer", "change", () => { state.layer = Number($("layer").value); make_thumbs(); });
    on("side", "change", () => {});
    $("layer-control").hidden = settings.length === 1 || s.layers.length === 1;
    $("layer").append(...s.layers.map((layer, i) => el("option", {value: i}, layer)));
    document.addEventListener("keydown", event => {
        state.locked &&= event.key !== "Escape";
        update_row();
    });
    make_thumbs();
    update();
}

/* --- words and tables */
const interval = i => i?.n ? fixed(i.mean) + (i.n > 1 ? ` ± ${fixed(i.half)}` : "") : "–";
/* A table; numbers are aligned to the right, unless `left`. */
function table(head, rows, left = false) {
    const cell = (content, i) => i === 0 ? el("th", {scope: "row"}, content) :
        el("td", {class: !left && /^[-+–\d.]/.test(content) ? "number" : null}, content);
    return el("div", {class: "wide"}, el("table", {},
        el("thead", {}, el("tr", {}, head.map(words => el("th", {scope: "col"}, words)))),
        el("tbody", {}, rows.map(row => el("tr", {}, row.map(cell))))));
}
/* Shows a single run: what was trained, and what came out. */
function show_run() {
    const run = runs[0], keys = run.keys, d = run.description || {};
    const ends = column => { const points = curve(run, column); return [points[0]?.[1], points.at(-1)?.[1]]; };
    $("settings").firstChild.textContent = "Results";
    $("settings").append(table(["", "at step 0", "at the end"], [
        [`validation loss (nats per ${unit})`, ...ends("val_loss").map(x => fixed(x))],
        ["training loss (one batch)", ...ends("train_loss").map(x => fixed(x))],
        ...recall ? [["accuracy", ...ends("val_accuracy").map(x => fixed(x))]] : [],
        ["entropy of attention", ...ends("entropy").map(x => fixed(x))],
        ["standard deviation of the scores", ...ends("score_std").map(short)]]));
    const corpus = (keys["data.corpus"] || "").replace(/^"|"$/g, "").replace(/^.*\//, "") || "the built-in text";
    const steps = run.metrics_table.step?.at(-1) ?? 0, text = recall ? "recall" : corpus;
    const words = [`${plural(+keys["model.layers"], "layer")} of ${plural(+keys["model.heads"], "head")}, `,
        `d_k ${run.d_k}, `, d.parameters ? `${d.parameters.toLocaleString("en")} parameters, ` : "",
        `trained for ${plural(steps, "step")} of ${optimizers[keys["train.optimizer"]]} on ${text}, seed ${keys["train.seed"]}. `,
        `Result: ${run.result}${d.error ? `: ${d.error}` : ""}. `,
        finite(d.best_val_loss) ? `Lowest validation loss: ${fixed(d.best_val_loss)}, at step ${d.best_step}.` : ""];
    $("words").textContent = plain(words.join(""));
}
/* The keys that differ between runs. Ignored are where a run writes, and the second divisor where no run switches to
   it. */
function differing_keys() {
    const switched = runs.some(run => run.keys["attention.switch_step"] !== "0");
    const ignored = ["log.out", switched ? "" : "attention.switch_divisor"];
    return [...new Set(runs.flatMap(run => Object.keys(run.keys)))]
        .filter(key => !ignored.includes(key) && new Set(runs.map(run => run.keys[key])).size > 1);
}
const links_of = setting => setting.runs.map(i => {
    const run = runs[i], words = `seed ${run.keys["train.seed"]}: ${run.result} `;
    return run.path ? el("a", {href: run.path.split("/").map(encodeURIComponent).join("/")}, words) : words;
});
function show_settings() {
    const sweep = data.kind === "sweep", keys = sweep ? [] : differing_keys();
    $("words").textContent = `${plural(settings.length, "setting")}, ${plural(runs.length, "run")}. ` +
        `Losses are in nats per ${unit} over the validation split.${band_words}`;
    const arrow = (first, last, text) => `${text(first.mean)} → ${text(last.mean)}`;
    const columns = [["setting", s => with_color("span", s, s.label)],
        ...keys.map(key => [key_name(key), s => runs[s.runs[0]].keys[key] ?? "–"]),
        ["n", s => String(s.val_loss.n)], ["validation loss", s => interval(s.val_loss)],
        ...sweep ? [["against ÷ √d_k", s => (s.difference?.mean > 0 ? "+" : "") + interval(s.difference)]] : [],
        ["lowest", s => interval(s.best_val_loss)],
        ["entropy, first → last", s => arrow(s.entropy_first, s.entropy_last, x => fixed(x, 3))],
        ["score std, first → last", s => arrow(s.score_std_first, s.score_std_last, short)],
        ["runs", links_of]];
    const rows = () => [["setting", ...keys, "n", "val_loss", "half", "difference", "difference_half"],
        ...settings.map(s => [s.label, ...keys.map(key => runs[s.runs[0]].keys[key] ?? ""), s.val_loss.n,
            s.val_loss.mean, s.val_loss.half, s.difference?.mean, s.difference?.half])];
    const how = "How to read this: n runs finished; ± is half a 95 % interval over seeds (Student's t). " +
        (sweep ? "Against ÷ √d_k: the difference of validation losses, taken seed by seed between runs that share " +
        "everything but the divisor. " : "") + "Entropy is 1 for uniform attention and 0 where one key has all the " +
        "weight. It and the standard deviation of the scores are means over all heads.";
    $("settings").append(table(columns.map(c => c[0]), settings.map(s => columns.map(c => c[1](s)))),
        save_buttons("settings", null, rows), el("p", {class: "how"}, how));
}

/* --- the sections of the page */
function show_losses() {
    const pairs = runs[0].keys["data.recall_pairs"], single = settings.length === 1;
    const starts = runs.map(run => run.metrics_table).flatMap(m => [m.val_loss?.[0], m.train_loss?.[0]]).filter(finite);
    const pale = settings.length > 6 ? [] : settings.map(s => ({...series_of(s, "train_loss"), band: null, pale: true,
        ...single ? {label: "training (one batch)", color: "#8c8c8c"} : {label: null}}));
    const validation = settings.map(s => ({...series_of(s, "val_loss"), dots: true}));
    const tables = (data.ngram_losses || []).map((y, i) => ({y,
        label: `a table of ${["characters", "character pairs", "triples", "4-grams"][i]}: ${y.toFixed(2)}`,
        short: `${["characters", "pairs", "triples", "4-grams"][i]}: ${y.toFixed(2)}`}));
    if (single) validation[0].label = "validation";
    chart($("loss"), {title: `Validation loss${pale.length ? " and, pale, training loss of single batches" : ""}`,
        how: `the mean of −ln p(next ${unit}); lower is better${recall ? `, and guessing costs ln ${pairs}` : ""}. ` +
            `Point at the curves for values.${band_words}` + (tables.length ? " The thin lines are the losses of tables " +
            "counted on the training text, of single characters, pairs, triples and 4-grams." : ""),
        name: "loss", x: "step", y: `loss (nats per ${unit})`, limit: starts.length ? 1.2 * Math.max(...starts) : NaN, levels: tables,
        series: [...pale, ...validation]});
}
/* For each chart: column, title, words of the y axis, how to read it, whether logarithmic. */
const measures = [
    ...recall ? [["val_accuracy", "Accuracy", "share of right answers", "of the validation split's answers."]] : [],
    ["entropy", "Entropy of attention", "entropy / ln(keys)", "1 is uniform, 0 one-hot; the mean over rows."],
    ["score_std", "Standard deviation of the scores", "standard deviation",
        "how far apart the scores are before softmax; 1 is what dividing by √d_k aims at.", true],
    ["max_weight", "Largest weight of a row", "mean largest weight", "the most that a query gives to one key."],
    ["saturated", "Saturated rows", "share of rows", "rows with a weight above 0.99; little gradient passes them."],
    ["grad_q_median", "Gradient of a query", "median of |dL/dq|", "the signal by which training moves the queries.", true],
    ["grad_scores_median", "Gradient of a row's scores", "median of |dL/ds|", "small where softmax saturates.", true],
    ["qk_norm", "Size of the query and key weights", "|W_Q| |W_K|", "larger weights make larger scores.", true],
    ["grad_norm", "Gradient norm", "norm before clipping", "of all parameters, for one batch.", true]];
/* The curves of a single run: a series for each head, or where these are too many, for each layer. */
function series_of_heads(run) {
    const {layer = [], head = []} = run.heads_table, style = i => ({color: data.palette[i % data.palette.length],
        dash: i >= data.palette.length ? 4 : 0});
    const heads = [...new Set(layer.map((l, i) => `${l},${head[i]}`))].map(name => name.split(",").map(Number));
    if (heads.length <= data.palette.length)
        return heads.map(([l, h], i) =>
            ({...style(i), label: `layer ${l}, head ${h}`, taken: (a, b) => a === l && b === h}));
    return [...new Set(layer)].map((l, i) => ({...style(i), label: `layer ${l}, mean of heads`, taken: a => a === l}));
}
function show_training() {
    const several = settings.length > 1, lines = several ? settings : series_of_heads(runs[0]);
    const box = el("div", {class: "small"}), legend = lines.map(line => with_color("li", line, line.label));
    $("training").append(lines.length > 5 ? el("ul", {class: "legend"}, legend) : "", box);
    for (const [column, title, y, how, log_y] of measures) {
        const whole = runs[0].metrics_table[column]; /* not by head */
        const series = several ? settings.map(s => series_of(s, column)) :
            whole ? [{label: title, color: data.palette[0], points: curve(runs[0], column)}] :
            lines.map(l => ({...l, points: curve(runs[0], column, l.taken)}));
        chart(box, {title: title + (several && !whole ? ", mean over heads" : ""), how, name: column, x: "step", y,
            log_y, small: true, series});
    }
}
function show_samples() {
    const texts = (runs[0].samples || "").split(/^==== (step \d+, validation loss \S+) ====\n/m).slice(1);
    if (data.kind !== "run" || !texts.length) return $("samples").remove();
    const last = texts.length / 2 - 1, shown = el("div"), show = () => shown.replaceChildren(
        el("h3", {}, texts[2 * slider.value]), el("pre", {}, texts[2 * slider.value + 1].trimEnd()));
    const slider = el("input", {type: "range", id: "sample", max: last, value: last, "aria-label": "evaluation",
        oninput: show});
    $("samples").append(el("p", {class: "how"}, "How to read this: what the model wrote at each evaluation, always " +
        "with the same random numbers. Move the slider through training."), slider, shown);
    show();
}
/* run.json and config.ini, of the sweep or of each run. */
function show_setup() {
    const all = data.kind === "sweep" || data.theory ? [{...data, name: data.title}] : runs;
    const entry = value => typeof value === "object" ? JSON.stringify(value) : String(value ?? "–");
    const described = all.map(run => ({...run.description, ...run.description?.machine}));
    const keys = [...new Set(described.flatMap(Object.keys))].filter(key => key !== "machine" && key !== "runs");
    const rows = keys.map(key => [key, ...described.map(d => entry(d[key]))]);
    $("setup").append(table(["", ...all.map(run => run.name)], rows, true), ...all.filter(run => run.config).map(run =>
        el("details", {}, el("summary", {}, `${run.name}: config.ini`), el("pre", {}, run.config))));
}
/* --- theory: figures of random queries and keys against d_k, a line for each way to score */
function show_theory() {
    const [names, ...lines] = data.theory.trimEnd().split("\n").map(line => line.split(","));
    const rows = lines.map(line => Object.fromEntries(names.map((name, i) => [name, line[i]])));
    rows.sort((a, b) => a.d_k - b.d_k);
    const way_of = row => row.score === "dot" ? row.divisor : row.score, ways = [...new Set(rows.map(way_of))];
    const labels = {none: "÷ 1 (undivided)", sqrt_dk: "÷ √d_k", dk: "÷ d_k", "2sqrt_dk": "÷ 2√d_k",
        additive: "additive", cosine: "cosine · √d_k", sink: "sink, ÷ √d_k", softcap: "softcap 30"};
    const others = ways.filter(way => !data.divisors[way]), n = +rows[0].keys, section = $("loss");
    for (const id of ["settings", "attention", "training", "samples"]) $(id).remove();
    section.id = "figures";
    section.firstChild.textContent = "Before training, against d_k";
    $("title").textContent = `Attention of random queries and keys: d_k ${rows[0].d_k} to ${rows.at(-1).d_k}, ` +
        `${plural(n, "key")}, ${rows[0].samples} samples each, seed ${data.description.seed ?? "not recorded"}`;
    $("words").textContent = "No model, no training: a query q and its keys k have independent N(0, 1) entries, and the " +
        "loss L is a random linear one on the weights. A score is q·k, divided (÷), or another: additive, v·tanh(q + k); " +
        "cosine, √d_k q·k / (|q| |k|); sink, with one more key of score and value 0; softcap, 30 tanh(q·k / 30).";
    section.append(el("p", {class: "how"}, "All lines share their samples. Other ways to score are dashed. Bands, two " +
        "standard errors either way, may be thinner than a line."));
    const figures = [
        ["score_var", "Variance of the scores", "variance", "of what softmax gets: d_k undivided, 1 after ÷ √d_k.", true],
        ["entropy", "Entropy of a row", "entropy (nats)", `ln ${n} = ${short(Math.log(n))} is uniform, 0 one-hot.`],
        ["max_weight", "Largest weight of a row", "mean weight", `1/${n} = ${short(1 / n)} is uniform, 1 one-hot.`],
        ["grad_q_median", "Gradient of the query: median", "median |dL/dq|", "half of the rows have less.", true],
        ["grad_q_mean", "Gradient of the query: mean", "mean |dL/dq|",
            "the few rows whose two largest scores are nearly equal hold it up where the median falls.", true]];
    for (const [column, title, y, how, log_y] of figures) {
        const shown = row => !log_y || row[column] > 0, at = (row, se) => row[column] - -se * row[`${column}_se`];
        const series = ways.map(way => {
            const own = rows.filter(row => way_of(row) === way && shown(row)), other = others.indexOf(way);
            return {label: labels[way] || way, color: data.divisors[way] || data.others[other % data.others.length],
                dash: other < 0 ? 0 : 6, dots: true, points: own.map(row => [+row.d_k, at(row, 0)]),
                band: own.map(row => [+row.d_k, log_y && at(row, -2) <= 0 ? NaN : at(row, -2), at(row, 2)])};
        });
        const zeros = [...new Set(rows.filter(row => !shown(row)).map(row => labels[way_of(row)]))];
        chart(section, {title, name: column, x: "d_k", y, log_x: true, log_y, series,
            how: how + (zeros.length ? ` Missing where zero: ${zeros.join(", ")}.` : "")});
    }
}
const root = document.documentElement;
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
$("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });
document.title = `${data.title}: sqrtdk`;
$("title").textContent = data.heading;
$("why").textContent = plain(data.why || "");
$("notes").textContent = data.notes.join(" ");
const show_results = data.kind === "run" ? show_run : show_settings;
const parts = data.theory ? [show_theory] : [show_results, show_losses, show_attention, show_training, show_samples];
for (const show of [...parts, show_setup]) show();
for (const {id, firstChild: title} of document.querySelectorAll("main > section"))
    document.querySelector("nav").append(el("a", {href: `#${id}`}, title.textContent));
for (const draw of drawings) draw();
addEventListener("resize", () => drawings.forEach(draw => draw()));
