/* The section Attention: what is chosen, the panel that chooses it, and pictures of it. Up to four settings have a
   triangle, side by side, with the same query and key; that of the chosen one can be enlarged. */
const state = {setting: 0, layer: 0, head: 0, chosen: null /* a layer and a head, by the reader */, step: 0, query: 0, key: 0, locked: false, sides: []};
const SIDES = 4, THUMBS = 24; /* triangles; thumbnails of all layers at a time */
let all_steps = [], thumbs = [], sides = [], matrix = null /* the side of the chosen setting */, spans = [];
/* The scores of a run's snapshots, a snapshot {scores, multiplier, sink} a step: of each layer and head the lower
   triangle of (T, T), row by row, its multiplier and its sink. */
function read_snapshots({snapshots: s, samples = []}) {
    const text = Array.from(s.text), T = text.length, heads = s.layers.length * s.heads, size = heads * T * (T + 1) / 2;
    const scores = new Float32Array(bytes_of(s.scores)), of = (list, i, n) => list.slice(i * n, (i + 1) * n);
    must(T > 0 && heads > 0 && s.steps.length > 0 && scores.length === s.steps.length * size, "the number of scores");
    must(samples.every(sample => typeof sample.text === "string"), "the samples");
    must([s.multiplier, s.sink].every(list => list.length === s.steps.length * heads), "the number of heads");
    return {steps: s.steps, layers: s.layers, heads: s.heads, text, T, at: s.steps.map((_, i) =>
        ({scores: of(scores, i, size), multiplier: of(s.multiplier, i, heads), sink: of(s.sink, i, heads)}))};
}
const run_of = setting => setting.runs.map(i => runs[i]).find(run => run?.snapshots); /* whose scores are here */
const current = () => run_of(settings[state.setting]);
const nearest = run => nearest_of(seen(run).steps, state.step); /* the snapshot that is shown */
const step_of = run => seen(run).steps[nearest(run)];
/* One head: weights (T, T) from raw scores, which are mapped as in the run (decoder.js); divisor null: as trained. */
function attend(run, step, layer, head, divisor) {
    const s = seen(run, divisor), T = s.T, at = layer * s.heads + head, shot = s.at[step];
    const how = scoring_of(run.keys), multiplier = multiplier_of(shot.multiplier[at], divisor);
    const triangle = T * (T + 1) / 2, raw = shot.scores.subarray(at * triangle, (at + 1) * triangle);
    const scores = new Float64Array(T * T), w = new Float64Array(T * T), rows = [];
    for (let q = 0; q < T; q++) {
        const row = scores.subarray(q * T, q * T + q + 1), start = q * (q + 1) / 2;
        score_mod(row, raw.subarray(start, start + q + 1), how, multiplier);
        rows.push(softmax(row, shot.sink[at] ?? -Infinity, w.subarray(q * T, q * T + q + 1)));
    }
    const counted = rows.filter(row => finite(row.entropy)), mean_of = key => mean(counted.map(row => row[key]));
    const visible = rows.flatMap((_, q) => [...scores.subarray(q * T, q * T + q + 1)]), middle = mean(visible);
    return {T, w, raw, scores, rows, multiplier, visible, deviation: Math.sqrt(mean(visible.map(x => (x - middle) ** 2))),
        entropy: mean_of("entropy"), largest: mean_of("largest")};
}
/* The head that is chosen, or of a smaller model its last. */
function attend_chosen(run, divisor) {
    const s = seen(run), layer = Math.min(state.layer, s.layers.length - 1);
    return attend(run, nearest(run), layer, Math.min(state.head, s.heads - 1), divisor);
}
/* The divisor that a setting is shown with; null: as trained. */
const divisor_of = at => settings[at].divisor_now ?? null;
/* The place of the key that a query of recall asks for, among the pairs; its value is the next one. null elsewhere. */
function asked(run, query) {
    const text = seen(run).text, pairs = 2 * run.keys["data.recall_pairs"];
    if (run.keys["data.task"] !== "recall" || query < pairs || !/[a-z]/.test(text[query])) return null;
    const place = text.slice(0, pairs).indexOf(text[query]);
    return place < 0 || place % 2 ? null : place;
}
/* Names the place that has more than 40 % of a query's weight in the mean, and this share; undefined if there is none. */
function job_of(run, {T, w}) {
    const places = [["previous character", q => q - 1], ["this character", q => q], ["first character", q => q > 1 ? 0 : -1],
        ["value asked for", q => (asked(run, q) ?? -2) + 1]];
    const queries = [...Array(T).keys()].slice(1);
    const jobs = places.map(([name, key]) => ({name, share: mean(queries.filter(q => key(q) >= 0).map(q => w[q * T + key(q)]))}));
    const [job] = jobs.filter(({share}) => share > .4).sort((a, b) => b.share - a.share);
    return job && {...job, words: `${job.name} ${Math.round(100 * job.share)} %`};
}
/* Makes thumbnails of the chosen setting's heads: of all layers, or where these are many, of the chosen one. */
function make_thumbs(run) {
    const {layers, heads} = run.snapshots, all = layers.length * heads <= THUMBS;
    const make = (layer, head) => {
        const image = el("img", {alt: ""}), words = el("span");
        const button = el("button", {type: "button", class: "thumb", onclick: () => {
            Object.assign(state, {layer, head, chosen: {layer, head}});
            update();
        }}, image, words);
        return {button, image, words, layer, head};
    };
    thumbs = [...layers.keys()].filter(layer => all || layer === state.layer)
        .flatMap(layer => Array.from({length: heads}, (_, head) => make(layer, head)));
    $("heads").replaceChildren(...thumbs.map(thumb => thumb.button));
}
/* Makes a setting the one that is read and has the slider, and shows it beside the others. */
function choose_setting(at) {
    state.setting = at;
    if (!state.sides.includes(at)) state.sides = [...state.sides, at].slice(-SIDES);
}
/* Describes a figure in the file that is saved of it. */
function caption() {
    const run = current(), {label} = settings[state.setting], layer = seen(run).layers[state.layer];
    return `${data.title}: ${label}, layer ${layer}, head ${state.head}, step ${step_of(run)}` +
        (divisor_of(state.setting) === null ? "" : `, now ÷ ${short(divisor_of(state.setting))}`);
}
/* Makes the triangle of a setting, with its divisor and what its model writes. A click chooses the setting and a cell. */
function make_side(at) {
    const setting = settings[at], run = run_of(setting), now = el("span"), loss = el("p", {class: "loss"}), figures = el("p");
    const words = el("p", {class: "words"}), writes = el("p", {class: "how"}), division = make_division(at);
    const writing = el("pre", {tabindex: 0, translate: "no", "aria-label": `what the model ${setting.label} writes`});
    const pick = () => {
        choose_setting(at);
        update();
    };
    const side = {...draw_matrix(run, {onpointermove: event => choose(place_of(side, event)),
        onclick: event => {
            const place = place_of(side, event); /* before anything moves */
            if (at !== state.setting) state.locked = false;
            pick();
            choose(place, true);
        }}), at, run, now, loss, figures, words, writes, writing, division};
    side.figure = el("figure", {}, el("h3", {class: "legend"}, el("button", {type: "button", onclick: pick}, with_color("b", setting, setting.label), now)),
        el("div", {class: "figures"}, loss, figures, division.element), side.svg,
        el("div", {class: "about"}, writes, writing, words, setting.more));
    return side;
}
function make_sides() {
    sides = state.sides.map(make_side);
    if (settings.length === 1) sides[0].figure.lastChild.append($("reading"));
    $("sides").replaceChildren(...sides.map(side => side.figure));
}
/* Makes the characters below the triangles. */
function make_row(run) {
    spans = seen(run).text.map((c, query) => el("span", {class: "key", onpointerenter: () => choose({query}),
        onclick: () => choose({query}, true)}, el("b", {}, visible(c)), el("small")));
    $("row").replaceChildren(...spans);
}
/* Chooses a query and a key. A click locks them, and another click on them unlocks them. */
function choose(place, lock = false) {
    if (!place || (state.locked && !lock)) return;
    const query = Math.min(place.query, matrix.T - 1);
    const key = Math.min(place.key ?? state.key, query), same = query === state.query && key === state.key;
    Object.assign(state, {query, key, locked: lock && !(state.locked && same)});
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
/* Shows the chosen query's weights, as numbers on the text itself. */
function update_row() {
    const {a} = matrix, {query, key} = state, place = asked(current(), query);
    for (const {a, T, words, run, chosen, left, top, cell} of sides) {
        const q = Math.min(query, T - 1), k = Math.min(key, T - 1);
        chosen.setAttribute("d", `M${left} ${top + q * cell}h${(q + 1) * cell}v${cell}H${left}Z` +
            `M${left + k * cell} ${top + k * cell}h${cell}V${top + T * cell}h${-cell}Z`);
        const text = seen(run).text, at = query * (query + 1) / 2 + key;
        words.textContent = query >= T ? "" : `query ${query} “${visible(text[query])}”, key ${key} “${visible(text[key])}”: ` +
            `weight ${fixed(a.w[query * T + key])}\nraw score ${short(a.raw[at])}, divided ${short(a.scores[query * T + key])}`;
    }
    spans.forEach((span, i) => {
        const seen = i <= query, weight = a.w[query * a.T + i];
        const color = color_of(weight), [r, g, b] = color.map(c => (c / 255) ** 2.2);
        span.style.background = seen ? `rgb(${color})` : "";
        span.style.color = seen ? .2126 * r + .7152 * g + .0722 * b > .18 ? "#000" : "#fff" : ""; /* contrasts are equal at .18 (WCAG 2.2) */
        span.lastChild.textContent = seen ? weight.toFixed(3).replace(/^0/, "") : "\u00a0";
        span.setAttribute("aria-current", i === query);
        span.classList.toggle("of-key", place !== null && i === place);
        span.classList.toggle("of-value", place !== null && i === place + 1);
    });
    $("reading").textContent = `${matrix.words.textContent.replace("\n", ", ")}. ` +
        `This query's row: entropy ${fixed(a.rows[query].entropy, 3)}, largest weight ${fixed(a.rows[query].largest, 3)}.` + (state.locked ? " Locked." : "");
    note_view();
}

/* --- the start */
/* At first: √d_k where there is one, the head that looks at one place, or else the one with the lowest entropy, and the
   largest key of a query: the last one, of recall the last that asks for something. */
function choose_first() {
    const shown = settings.map(run_of);
    const root = shown.findIndex(run => run?.keys["attention.scale_divisor"] === "sqrt_dk");
    state.setting = root >= 0 ? root : shown.findIndex(run => run);
    if (state.setting < 0) return false;
    state.sides = [...shown.keys()].filter(at => shown[at]).slice(0, SIDES);
    choose_setting(state.setting);
    const run = current(), {T, layers, heads} = seen(run);
    state.step = all_steps.at(data.opens_at ?? -1);
    const all = layers.flatMap((_, layer) => Array.from({length: heads}, (_, head) => ({layer, head})));
    const looks = a => ["previous character", "value asked for"].includes(job_of(run, a)?.name);
    const story = a => looks(a) ? job_of(run, a).share : finite(a.entropy) ? -a.entropy : -1;
    const values = all.map(({layer, head}) => story(attend(run, seen(run).steps.length - 1, layer, head, null)));
    Object.assign(state, {locked: false}, state.chosen ?? all[Math.max(0, values.indexOf(Math.max(...values)))]);
    state.query = [...Array(T).keys()].findLast(query => asked(run, query) !== null) ?? T - 1;
    const row = attend_chosen(run, null).w.subarray(state.query * T, state.query * T + state.query + 1);
    state.key = Math.max(0, row.indexOf(Math.max(...row)));
    return true;
}
function show_attention() {
    for (const run of runs.filter(run => run.snapshots))
        try {
            run.snapshots = run.snapshots.at ? run.snapshots : read_snapshots(run);
        } catch (error) {
            run.snapshots = null;
            run.damaged = damaged(error);
        }
    all_steps = [...new Set(runs.flatMap(run => run.snapshots?.steps ?? []))].sort((a, b) => a - b);
    const lost = runs.filter(run => run.damaged).map(run => el("p", {class: "lost"},
        `The attention of ${run.name} cannot be shown: ${run.damaged}.`));
    if (!choose_first())
        return $("attention").replaceChildren(el("h2", {}, "Attention"),
            ...lost.length ? lost : [el("p", {}, "No attention was logged.")]);
    $("sides").before(...lost);
    $("sides").classList.toggle("large", settings.length === 1);
    $("heads").dataset.made = "";
    sides = [];
    stop();
    make_panel_chart();
    if (!first_view) listen();
    update();
    if (first_view) return;
    first_view = view_text();
    const follow_link = () => location.hash.includes("=") && show_view(location.hash.slice(1));
    addEventListener("hashchange", follow_link);
    show_guide();
    follow_link();
}
function listen() {
    const on = (id, type, act) => $(id).addEventListener(type, () => { act(); update(); });
    on("step", "input", () => {
        stop();
        state.step = all_steps[$("step").value];
    });
    on("model", "change", () => choose_setting(Number($("model").value)));
    for (const place of ["layer", "head"])
        on(place, "change", () => {
            state[place] = Number($(place).value);
            state.chosen = {layer: state.layer, head: state.head};
        });
    $("play").addEventListener("click", () => source.play());
    $("heads").before(save_buttons("attention", () => matrix.svg, matrix_rows, caption));
    less_motion.addEventListener("change", stop);
    addEventListener("pageshow", update); /* a browser may have put back older values */
    document.addEventListener("keydown", play_by_key);
    show_model();
}
