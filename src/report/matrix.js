/* Pictures of attention: thumbnails, matrices, and a row as bars. */

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
/* Draws the matrix of a run's text; a small one has no characters and no colour bar. Outlines are at the keys and the
   values that queries of recall ask for. */
function draw_matrix(run, small, on) {
    const {T, text} = seen(run), side_of_cell = T > 64 ? 832 / T : clamp(Math.round(480 / T), 13, 36);
    const cell = small ? 10 : side_of_cell, side = T * cell;
    const left = small ? 2 : 46, top = small ? 2 : 8, W = left + side + (small ? 2 : 66);
    const H = small ? side + 4 : Math.max(top + side + 46, 200);
    const rect = more => el("rect", {x: left, y: top, width: side, height: side, ...more});
    const image = el("image", {x: left, y: top, width: side, height: side, preserveAspectRatio: "none"});
    const chosen = [rect({class: "chosen", height: cell}), rect({class: "chosen", width: cell})];
    const outline = (q, k, kind) => el("rect", {class: `asked ${kind}`, x: left + k * cell + 1, y: top + q * cell + 1,
        width: cell - 2, height: cell - 2});
    const outlines = text.map((_, q) => asked(run, q)).map((k, q) => k === null ? null :
        [outline(q, k, "of-key"), outline(q, k + 1, "of-value")]);
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img", ...on,
        style: small ? null : `max-width: ${1.2 * W}px; min-width: ${Math.min(W, 512)}px`, onkeydown: move_by_key,
        "aria-label": "attention weights; the arrow keys choose a query and a key"},
        rect({class: "masked"}), image, outlines, chosen);
    if (!small) {
        const band = 180 / data.colors.length, bar = data.colors.map((fill, i) =>
            el("rect", {x: left + side + 14, y: top + 180 - (i + 1) * band, width: 14, height: band + .5, fill}));
        /* The sign for a blank hangs below the line: in a column it would lie on the next character. */
        const sign = (x, y, c) => el("text", {x, y: visible(c) === "␣" ? y - 4 : y, "text-anchor": "middle",
            class: visible(c) === "␣" ? "blank" : null}, visible(c));
        svg.append(...cell < 9 ? [] : text.flatMap((c, i) => [sign(left - 9, top + (i + .5) * cell + 4, c),
            sign(left + (i + .5) * cell, top + side + 13, c)]),
            label(left + side / 2, top + side + 34, "key"),
            el("g", {transform: `translate(14 ${top + side / 2}) rotate(-90)`}, label(0, 0, "query")), ...bar,
            ...[0, .05, .2, .5, 1].map(w =>
                el("text", {x: left + side + 32, y: top + 180 * (1 - Math.sqrt(w)) + 5}, w)));
    }
    return {text: text.join(""), svg, image, chosen, canvas: el("canvas"), left, top, cell, T, a: null};
}
function matrix_rows() {
    const {T, raw, scores, w} = matrix.a, text = seen(current()).text;
    const row = (q, k) => [q, k, text[q], text[k], raw[q * (q + 1) / 2 + k], scores[q * T + k], w[q * T + k]];
    return [["query", "key", "query_char", "key_char", "raw_score", "score", "weight"],
        ...text.flatMap((_, q) => text.slice(0, q + 1).map((_, k) => row(q, k)))];
}
/* The cell of a matrix under the mouse. */
function place_of({svg, left, top, cell, T}, event) {
    const box = svg.getBoundingClientRect();
    const zoom = svg.viewBox.baseVal.width / box.width;
    const key = Math.floor(((event.clientX - box.left) * zoom - left) / cell);
    const query = Math.floor(((event.clientY - box.top) * zoom - top) / cell);
    return query >= 0 && query < T && key >= 0 && key < T ? {query, key: Math.min(key, query)} : null;
}

/* --- the strip */
const STRIP = {left: 104, cell: 15, high: 58}; /* where the bars begin, the width of a key, the height of a row */
/* The largest of |x|, at least `least`; what is not finite does not count. */
const greatest = (x, least) => x.reduce((most, value) => Math.max(most, finite(value) ? Math.abs(value) : 0), least);
/* One row of the strip: bars that go up and down from a middle, or up from the bottom. A bar longer than `limit` ends at
   the edge. */
function strip_row({name, values, limit, up, normal}, i) {
    const {left, cell, high} = STRIP, T = matrix.T, middle = (i + .5) * high, zero = up ? (i + 1) * high - 4 : middle;
    const unit = (up ? high - 10 : high / 2 - 4) / limit;
    const bar = (value, k) => {
        const length = unit * clamp(finite(value) ? value : 0, -limit, limit);
        return el("rect", {class: k === state.key ? "bar of-chosen" : "bar", x: left + k * cell + 2, width: cell - 4,
            y: zero - Math.max(length, 0), height: Math.abs(length)});
    };
    const band = deviations => el("rect", {class: "normal", x: left, width: T * cell, y: zero - deviations * unit,
        height: 2 * deviations * unit});
    return [normal ? [2, 1].map(band) : null, el("path", {class: "axis", d: `M${left} ${zero}h${T * cell}`}),
        Array.from(values, bar), label(left - 8, middle + 4, name, "end"),
        label(left + T * cell + 6, middle + 4, short(values[state.key]), "start")];
}
/* Bars of the chosen query's row: raw scores, scores, weights, each key at its place. The scale of the scores is that of
   the model as trained, so that the bars move with the slider. Behind the scores of step 0 is N(0, 1), the assumption
   under the √d_k argument: one standard deviation to either side, and two. */
function draw_strip() {
    const {a, trained, T} = matrix, {query} = state, run = current(), {text, steps} = seen(run);
    const dot = run.keys["attention.score"] === "dot", first = steps[nearest(run)] === 0;
    const row = x => x.subarray(query * T, query * T + query + 1), {left, cell, high} = STRIP;
    const raw = a.raw.subarray(query * (query + 1) / 2, (query + 1) * (query + 2) / 2), W = left + T * cell + 70;
    const svg = el("svg", {viewBox: `0 0 ${W} ${3 * high + 20}`, role: "img", style: `max-width: ${W}px; min-width: 512px`,
        "aria-label": `the row of query ${query} as bars: raw scores, scores, weights`},
        [{name: "raw score", values: raw, limit: greatest(raw, 1e-9)},
            {name: dot ? "divided score" : "score", values: row(a.scores), limit: greatest(row(trained.scores), 3),
                normal: dot && first},
            {name: "weight", values: row(a.w), limit: 1, up: true}].map(strip_row),
        text.slice(0, query + 1).map((c, k) => label(left + (k + .5) * cell, 3 * high + 14, visible(c))));
    const theory = !dot ? "" : first ? " Behind the divided scores is N(0, 1), which the argument for √d_k expects before " +
        "training: two thirds of the scores within the inner band, 95 % within the outer." :
        " At step 0, N(0, 1) of the argument for √d_k is behind the divided scores.";
    $("strip").replaceChildren(scrolling(svg), el("p", {class: "how"},
        `The row of query ${query} “${visible(text[query])}”, a bar for each key; one that is too long ends at the edge.${theory}`));
}
