"use strict";
/* The page of a run, a sweep, or several runs side by side. `data` has the files of each run as they are (run.json,
   config.ini, metrics.csv, attention.csv, samples.txt) and the raw scores of its snapshots; lab/report/data.c writes
   it. A setting is one line of a chart and one triangle: the runs that differ in the seed alone. */
const $ = id => document.getElementById(id);
const data = read_data();
/* The data, if they are JSON with the lists that every page has. Otherwise the page says so and the script ends. */
function read_data() {
    try {
        const read = JSON.parse($("data").textContent), lists = [read.runs, read.settings, read.notes];
        must(lists.every(Array.isArray), "a list is missing");
        must(read.runs.every(run => /^d_k = \d/m.test(run.config)), "a config is missing");
        return read;
    } catch (error) {
        $("unscripted").textContent = `Nothing can be shown: the data of this page are damaged (${error.message}). ` +
            "The command “train report” writes the page again.";
        throw error;
    }
}
const damaged = error => `its data in this page are damaged (${error.message})`;
/* Stops the part of the page that needs what does not hold. */
function must(holds, what) {
    if (!holds) throw new Error(what);
}

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
/* Acts on a control's value now, when it changes, and when a browser has put back an older one. */
function control(id, act) {
    $(id).addEventListener("input", act);
    addEventListener("pageshow", act);
    act();
}
/* A box in which what is too wide can be scrolled. */
const scrolling = child => el("div", {class: "wide", tabindex: 0, role: "group", "aria-label": "a table that can be scrolled"}, child);
const label = (x, y, text, anchor = "middle", more = {}) => el("text", {x, y, "text-anchor": anchor, ...more}, text);
const finite = Number.isFinite;
function short(x, digits = 4) {
    if (!finite(x)) return "–";
    const powers = Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3);
    return powers ? x.toExponential(2).replace(/\.?0+e/, "e") : String(Number(x.toPrecision(digits)));
}
/* A number without the digits that rounding to double has added. */
const exact = x => Number.isInteger(x) ? x : Number(x.toPrecision(7));
const fixed = (x, digits = 4) => finite(x) ? x.toFixed(digits).replace(/^-(?=[0.]*$)/, "") : "–"; /* never -0.00 */
const even = x => finite(x) ? x.toPrecision(4) : "–"; /* equal digits in a column */
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
    const [head, ...lines] = String(text ?? "").trimEnd().split("\n"), names = head.split(",");
    const columns = Object.fromEntries(names.map(name => [name, []]));
    for (const line of lines)
        line.split(",").forEach((field, i) => columns[names[i]]?.push(field === "" ? NaN : Number(field)));
    return columns;
}
function read_ini(text) {
    const keys = {};
    let section = "";
    for (const line of String(text ?? "").split("\n")) { /* U+2028 in a value ends no line */
        const [, header, key, value] = line.match(/^(?:\[(.+)\]|(\w+)\s*=\s*(.*))$/s) ?? [];
        if (header) section = header;
        else if (key) keys[`${section}.${key}`] = value;
    }
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
/* A figure as a file of its own: what the style sheet says is written into each element, its caption stands above it,
   and what marks the reader's place is left out. */
function svg_text(svg, caption) {
    const copy = svg.cloneNode(true), originals = svg.querySelectorAll("*"), {width, height} = svg.viewBox.baseVal;
    const properties = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "image-rendering",
        "paint-order"];
    copy.querySelectorAll("*").forEach((element, i) => {
        const style = getComputedStyle(originals[i]), picture = element.getAttribute("href");
        element.setAttribute("style", properties.map(key => `${key}: ${style.getPropertyValue(key)}`).join("; "));
        if (picture) element.setAttributeNS("http://www.w3.org/1999/xlink", "xlink:href", picture); /* for older programs */
    });
    copy.querySelectorAll(".chosen, .cursor").forEach(mark => mark.remove());
    copy.setAttribute("viewBox", `0 -24 ${width} ${height + 24}`);
    copy.removeAttribute("style");
    const style = "font: 13px system-ui, sans-serif; fill: " + getComputedStyle(svg).color;
    copy.prepend(el("rect", {y: -24, width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor}),
        el("text", {x: 8, y: -8, style, "textLength": caption.length * 6.4 > width - 16 ? width - 16 : null}, caption));
    return new XMLSerializer().serializeToString(copy);
}
/* Buttons that save a figure; `svg` (none for a table), `rows` and `caption` are functions. */
function save_buttons(name, svg, rows, caption) {
    const button = (format, type, text) => el("button", {type: "button", "data-save": `${name}.${format}`,
        "aria-label": `save as ${name}.${format}`, onclick: () => save(`${name}.${format}`, type, text())}, format);
    return el("p", {class: "saves"}, svg ? button("svg", "image/svg+xml", () => svg_text(svg(), caption())) : null,
        button("csv", "text/csv", () => csv_text(rows())));
}

/* --- runs and their curves */
let runs, settings, recalls, mixed, unit, band_words;
function read_runs() {
    ({runs, settings} = data);
    for (const run of runs) {
        run.keys = read_ini(run.config);
        run.metrics_table ??= read_csv(run.metrics);
        run.heads_table = read_csv(run.attention);
        run.d_k = Number(run.keys["model.d_k"]);
        run.heads_table.qk_norm = (run.heads_table.w_q_norm || []).map((norm, i) => norm * run.heads_table.w_k_norm[i]);
    }
    recalls = runs.filter(run => run.keys["data.task"] === "recall");
    mixed = recalls.length > 0 && recalls.length < runs.length;
    unit = mixed ? "character or answer" : recalls.length ? "answer" : "character";
    const most_seeds = Math.max(...settings.map(setting => setting.runs.length));
    band_words = most_seeds < 2 ? "" : " A line is the mean over seeds; its band " + (most_seeds === 2 ?
        "goes from the lower to the higher of two runs." : "is the 95 % interval of the mean (Student's t).");
}
/* The keys that differ between runs. Ignored are where a run writes, and the second divisor where no run switches to
   it. */
function differing_keys() {
    const switched = runs.some(run => run.keys["attention.switch_step"] !== "0");
    const ignored = ["log.out", switched ? "" : "attention.switch_divisor"];
    return [...new Set(runs.flatMap(run => Object.keys(run.keys)))]
        .filter(key => !ignored.includes(key) && new Set(runs.map(run => run.keys[key])).size > 1);
}
const number_text = text => /^-?\d*\.\d+(e[-+]?\d+)?$/.test(text) ? String(exact(Number(text))) : text;
/* Runs that are compared are called by what differs in them: one or two keys, or else by the directories. */
function name_runs() {
    const keys = differing_keys(), parts = settings.map(s => s.label.split("/"));
    const least = Math.min(...parts.map(p => p.length)) - 1;
    const first = parts[0].findIndex((part, i) => i >= least || parts.some(p => p[i] !== part));
    const named = (i, key) => key === "attention.scale_divisor" ? settings[i].divisor :
        `${key_name(key)} ${number_text(runs[i].keys[key] ?? "–")}`;
    const by_keys = runs.map((_, i) => keys.map(key => named(i, key)).join(", "));
    const clear = keys.length > 0 && keys.length < 3 && new Set(by_keys).size === runs.length;
    settings.forEach((s, i) => { s.label = clear ? by_keys[i] : parts[i].slice(first).join("/"); });
}
read_runs();
if (data.kind === "runs") name_runs();
if (data.kind === "run") settings[0].label = settings[0].divisor;
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
