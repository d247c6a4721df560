/* Pictures of attention: triangles with the histogram of their scores, thumbnails, and a row as bars. */

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
    if (canvas.width !== a.T || canvas.height !== a.T) canvas.width = canvas.height = a.T;
    const context = canvas.getContext("2d"), image = context.createImageData(a.T, a.T);
    for (let q = 0; q < a.T; q++)
        for (let k = 0; k <= q; k++) image.data.set([...color_of(a.w[q * a.T + k]), 255], 4 * (q * a.T + k));
    context.putImageData(image, 0, 0);
    return canvas;
}
/* The characters of a text along both sides of a triangle. Where cells are smaller than a character, they stand in two
   or three lines in turn. Without room for three lines there are none. */
function letters(text, left, bottom, top, cell, size) {
    const lines = Math.ceil(size / cell);
    /* The sign for a blank hangs below the line: in a column it would lie on the next character. */
    const sign = (x, y, c) => el("text", {x, y: visible(c) === "␣" ? y - size / 3 : y, "text-anchor": "middle",
        class: visible(c) === "␣" ? "blank" : null, "font-size": size}, visible(c));
    return lines > 3 ? [] : text.flatMap((c, i) => [
        sign(left - size * (.7 + i % lines), top + (i + .5) * cell + size / 3, c),
        sign(left + (i + .5) * cell, bottom + size * (1 + i % lines), c)]);
}
/* Draws the triangle of a run's text. A small one has no colour bar. Outlines are at the keys and the values that
   queries of recall ask for. */
function draw_matrix(run, small, on) {
    const {T, text} = seen(run), cell = small ? 262 / T : T > 64 ? 832 / T : clamp(Math.round(480 / T), 13, 36);
    const size = small ? 8.5 : 13, lines = Math.min(3, Math.ceil(size / cell)), side = T * cell;
    const left = 20 + size * lines, top = 4, bottom = top + side, W = left + side + (small ? 4 : 66);
    const rect = more => el("rect", {x: left, y: top, width: side, height: side, ...more});
    const image = el("image", {x: left, y: top, width: side, height: side, preserveAspectRatio: "none"});
    const chosen = [rect({class: "chosen", height: cell}), rect({class: "chosen", width: cell})];
    const outline = (q, k, kind) => el("rect", {class: `asked ${kind}`, x: left + k * cell + 1, y: top + q * cell + 1,
        width: Math.max(cell - 2, 1), height: Math.max(cell - 2, 1)});
    const outlines = text.map((_, q) => asked(run, q)).map((k, q) => k === null ? null :
        [outline(q, k, "of-key"), outline(q, k + 1, "of-value")]);
    const histogram = el("g", {class: "histogram"});
    const svg = el("svg", {viewBox: `0 0 ${W} ${bottom + size * lines + 20}`, tabindex: 0, role: "img", ...on,
        style: small ? null : `max-width: ${1.2 * W}px`, onkeydown: move_by_key,
        "aria-label": "attention weights; the arrow keys choose a query and a key"},
        rect({class: "masked"}), image, outlines, chosen, histogram, letters(text, left, bottom, top, cell, size),
        label(left + side / 2, bottom + size * lines + 15, "key →"),
        el("g", {transform: `translate(11 ${top + side / 2}) rotate(-90)`}, label(0, 0, "← query")));
    if (!small) {
        const band = 180 / data.colors.length, bar = data.colors.map((fill, i) =>
            el("rect", {x: left + side + 14, y: top + 180 - (i + 1) * band, width: 14, height: band + .5, fill}));
        svg.append(...bar, ...[0, .05, .2, .5, 1].map(w =>
            el("text", {x: left + side + 32, y: top + 180 * (1 - Math.sqrt(w)) + (w === 1 ? 10 : 5)}, w)));
    }
    return {text: text.join(""), svg, image, chosen, histogram, canvas: el("canvas"), left, top, cell, T, a: null};
}
function matrix_rows() {
    const {T, raw, scores, w} = matrix.a, text = seen(current()).text;
    const row = (q, k) => [q, k, text[q], text[k], raw[q * (q + 1) / 2 + k], scores[q * T + k], w[q * T + k]];
    return [["query", "key", "query_char", "key_char", "raw_score", "score", "weight"],
        ...text.flatMap((_, q) => text.slice(0, q + 1).map((_, k) => row(q, k)))];
}
/* The cell of a triangle under the mouse. */
function place_of({svg, left, top, cell, T}, event) {
    const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const key = Math.floor((x - left) / cell), query = Math.floor((y - top) / cell);
    return query >= 0 && query < T && key >= 0 && key < T ? {query, key: Math.min(key, query)} : null;
}

/* --- the histogram of a head's scores, where its triangle has no cells */
const BINS = 61, DENSEST = .45; /* the bins, and the density at the upper edge; that of N(0, 1) at 0 is .399 */
/* The share of numbers per unit in even bins from -limit to limit. What is beyond is in the outer bins. */
function densities(numbers, limit) {
    const found = new Float64Array(BINS), width = 2 * limit / BINS, real = numbers.filter(finite);
    for (const x of real) found[clamp(Math.floor((x + limit) / width), 0, BINS - 1)] += 1 / (real.length * width);
    return found;
}
/* Raw scores are a line, scores after the division an area, and N(0, 1) a curve: the argument for √d_k expects it of
   the divided scores before training. The axis is the same at every step and for every divisor of a d_k. */
function draw_histogram({a, T, left, top, cell, histogram}, run, color, divided) {
    const side = T * cell, limit = Math.max(4, 3 * Math.sqrt(run.d_k)), small = Math.max(9, side / 42);
    const [from, to, low, high] = [left + .45 * side, left + .97 * side, top + .34 * side, top + .09 * side];
    const x = value => from + (value + limit) / (2 * limit) * (to - from);
    const y = density => low - Math.min(density / DENSEST, 1) * (low - high);
    const inside = [...Array(T).keys()].flatMap(q => [...a.scores.subarray(q * T, q * T + q + 1)]);
    const steps = numbers => densities(numbers, limit).reduce((path, density, i) => path +
        `V${y(density).toFixed(1)}H${x(-limit + (i + 1) * 2 * limit / BINS).toFixed(1)}`, `M${from} ${low}`) + `V${low}`;
    const normal = Array.from({length: 65}, (_, i) => (i - 32) / 8).map(z =>
        `${x(z).toFixed(1)} ${y(Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI)).toFixed(1)}`).join("L");
    const words = (at, text, kind) => el("text", {x: from + at * (to - from), y: high - 4, class: kind, "text-anchor":
        at === 0 ? "start" : at === 1 ? "end" : "middle", "font-size": small}, text);
    const dot = run.keys["attention.score"] === "dot";
    histogram.setAttribute("style", `--of: ${color}`);
    histogram.replaceChildren(el("path", {class: "normal", d: `M${normal}`}), el("path", {class: "after", d: steps(inside)}),
        el("path", {class: "before", d: steps([...a.raw])}), el("path", {class: "axis", d: `M${from} ${low}H${to}`}),
        words(0, "raw q·k", "of-raw"), words(.5, dot ? divided : "score", "of-score"), words(1, "N(0, 1)", "of-normal"),
        ...[-limit, 0, limit].map(z => el("text", {x: x(z), y: low + small, "text-anchor": "middle", "font-size": small},
            short(z, 3))));
}

/* --- the strip */
const STRIP = {left: 104, cell: 15, high: 58}; /* where the bars begin, the width of a key, the height of a row */
/* The largest of |x|, at least `least`; what is not finite does not count. */
const greatest = (x, least) => x.reduce((most, value) => Math.max(most, finite(value) ? Math.abs(value) : 0), least);
/* One row of the strip: bars that go up and down from a middle, or up from the bottom. A bar longer than `limit` ends at
   the edge. `behind` are wider, pale bars on the same axis. */
function strip_row({name, values, behind, limit, up}, i) {
    const {left, cell, high} = STRIP, T = matrix.T, middle = (i + .5) * high, zero = up ? (i + 1) * high - 4 : middle;
    const unit = (up ? high - 10 : high / 2 - 4) / limit;
    const bar = (kind, width) => (value, k) => {
        const length = unit * clamp(finite(value) ? value : 0, -limit, limit);
        return el("rect", {class: k === state.key ? `${kind} of-chosen` : kind, x: left + (k + .5) * cell - width / 2, width,
            y: zero - Math.max(length, 0), height: Math.abs(length)});
    };
    const read = behind ? `${short(behind[state.key])} → ${short(values[state.key])}` : short(values[state.key]);
    return [el("path", {class: "axis", d: `M${left} ${zero}h${T * cell}`}),
        behind ? Array.from(behind, bar("raw-bar", cell - 2)) : null, Array.from(values, bar("bar", behind ? cell - 8 : cell - 4)),
        name.map((words, n) => label(left - 8, middle + 4 + 15 * (n - (name.length - 1) / 2), words, "end")),
        label(left + T * cell + 6, middle + 4, read, "start")];
}
/* Bars of the chosen query's row, each key at its place: raw scores, and in front of them on the same axis the scores
   after the division; below them weights. */
function draw_strip() {
    const {a, T} = matrix, {query} = state, run = current(), {text} = seen(run), {left, cell, high} = STRIP;
    const row = x => x.subarray(query * T, query * T + query + 1), dot = run.keys["attention.score"] === "dot";
    const raw = a.raw.subarray(query * (query + 1) / 2, (query + 1) * (query + 2) / 2), W = left + T * cell + 110;
    const limit = Math.max(greatest(raw, 1e-9), greatest(row(a.scores), 1e-9));
    const svg = el("svg", {viewBox: `0 0 ${W} ${2 * high + 20}`, role: "img", style: `max-width: ${W}px; min-width: 512px`,
        "aria-label": `the row of query ${query} as bars: raw scores and scores, weights`},
        [{name: ["raw score,", dot ? "divided score" : "score"], values: row(a.scores), behind: raw, limit},
            {name: ["weight"], values: row(a.w), limit: 1, up: true}].map(strip_row),
        text.slice(0, query + 1).map((c, k) => label(left + (k + .5) * cell, 2 * high + 14, visible(c))));
    $("strip").replaceChildren(scrolling(svg), el("p", {class: "how"}, `The row of query ${query} “${visible(text[query])}”, ` +
        "a bar for each key. Pale: raw scores q·k; solid, on the same axis: what softmax gets."));
}
