/* Pictures of attention: triangles with the histogram of their scores, and thumbnails. */

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
/* The picture of a triangle as a GIF (GIF89a), which is written here: a canvas that is read back gives noise where the
   browser protects from fingerprints. Its colours are SHADES even steps of the square root, then that of what is no
   number, then a transparent one for cells without a key. LZW starts anew before its codes become longer than a byte. */
const SHADES = 124, LOST = 124, CLEAR = 128, END = 129;
const shades = Array.from({length: CLEAR}, (_, i) => color_of(i === LOST ? NaN : (i / (SHADES - 1)) ** 2)).flat();
function picture({T, w}) {
    const little = number => [number & 255, number >> 8], size = [...little(T), ...little(T)], codes = [], blocks = [];
    for (let i = 0; i < T * T; i++) {
        const masked = i % T > Math.floor(i / T), shade = Math.round(Math.sqrt(clamp(w[i], 0, 1)) * (SHADES - 1));
        if (i % SHADES === 0) codes.push(CLEAR);
        codes.push(masked ? CLEAR - 1 : Number.isNaN(w[i]) ? LOST : shade);
    }
    codes.push(END);
    for (let i = 0; i < codes.length; i += 255) blocks.push(Math.min(255, codes.length - i), ...codes.slice(i, i + 255));
    const bytes = [...new TextEncoder().encode("GIF89a"), ...size, 0xf6, 0, 0, ...shades, 0x21, 0xf9, 4, 1, 0, 0, CLEAR - 1, 0,
        0x2c, 0, 0, 0, 0, ...size, 0, 7, ...blocks, 0, 0x3b];
    return `data:image/gif;base64,${btoa(bytes.map(byte => String.fromCharCode(byte)).join(""))}`;
}
/* The characters of a text along both sides of a triangle. Where cells are smaller than a character, they stand in two
   or three lines in turn. Without room for three lines there are none. */
function letters(text, left, bottom, top, cell, size) {
    const lines = Math.ceil(size / cell);
    /* The sign for a blank hangs below the line: in a column it would lie on the next character. */
    const sign = (x, y, c) => visible(c) !== "␣" ? label(x, y, visible(c), "middle", {"font-size": size}) :
        label(x, y - size / 3, "␣", "middle", {"font-size": size, class: "blank"});
    return lines > 3 ? [] : text.flatMap((c, i) => [
        sign(left - size * (.7 + i % lines), top + (i + .5) * cell + size / 3, c),
        sign(left + (i + .5) * cell, bottom + size * (1 + i % lines), c)]);
}
/* Draws the triangle of a run's text, with a bar of its colours. Outlines are at the keys and the values that queries of
   recall ask for. */
function draw_matrix(run, on) {
    const {T, text} = seen(run), side = 262, cell = side / T, size = 8.5, lines = Math.min(3, Math.ceil(size / cell));
    const left = 20 + size * lines, top = 4, bottom = top + side, bar = left + .93 * side;
    const rect = more => el("rect", {x: left, y: top, width: side, height: side, ...more});
    const image = el("image", {x: left, y: top, width: side, height: side, preserveAspectRatio: "none"});
    const chosen = el("path", {class: "chosen"}); /* the query's keys, and the queries that see the key */
    const outline = (q, k, kind) => el("rect", {class: `asked ${kind}`, x: left + k * cell + .5, y: top + q * cell + .5,
        width: Math.max(cell - 1, 1), height: Math.max(cell - 1, 1)});
    const outlines = text.map((_, q) => asked(run, q)).map((k, q) => k === null ? null :
        [outline(q, k, "of-key"), outline(q, k + 1, "of-value")]);
    const histogram = el("g", {class: "histogram"}), high = .36 * side / data.colors.length, low = top + .8 * side;
    const shades = data.colors.map((fill, i) => el("rect", {x: bar, y: low - (i + 1) * high, width: 8, height: high + .5, fill}));
    const marks = [0, .05, .2, .5, 1].map(w =>
        label(bar - 3, low + 3 - .36 * side * Math.sqrt(w), String(w), "end", {"font-size": 8}));
    const svg = el("svg", {viewBox: `0 0 ${left + side + 4} ${bottom + size * lines + 20}`, tabindex: 0, role: "img", translate: "no", ...on,
        onkeydown: move_by_key, "aria-label": "attention weights; the arrow keys choose a query and a key"},
        rect({class: "masked"}), image, shades, marks, outlines, chosen, histogram, letters(text, left, bottom, top, cell, size),
        el("text", {x: left + side / 2, y: bottom + size * lines + 15, "font-size": 11}, "key →"),
        el("text", {transform: `translate(11 ${top + side / 2}) rotate(-90)`, "font-size": 11}, "← query"));
    return {text: text.join(""), svg, image, chosen, histogram, left, top, cell, T, a: null};
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
    const words = (at, text, kind) => label(from + at * (to - from), high - 4, text,
        at === 0 ? "start" : at === 1 ? "end" : "middle", {class: kind, "font-size": small});
    histogram.setAttribute("style", tint(color));
    histogram.replaceChildren(el("path", {class: "normal", d: `M${normal}`}), el("path", {class: "after", d: steps(inside)}),
        el("path", {class: "before", d: steps([...a.raw])}), el("path", {class: "axis", d: `M${from} ${low}H${to}`}),
        words(0, "raw score", "of-raw"), words(.5, divided, "of-score"), words(1, "N(0, 1)", "of-normal"),
        ...[-limit, 0, limit].map(z => label(x(z), low + small, short(z, 3), "middle", {"font-size": small})));
}
