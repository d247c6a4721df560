/* The section Attention: what is chosen, and pictures of it. A single setting has a large matrix; of several settings
   up to four have a small one as well, side by side, with the same query and key. */
const state = {setting: 0, layer: 0, head: 0, step: 0, divisor: null, query: 0, key: 0, locked: false, sides: []};
const SIDES = 4, THUMBS = 24; /* small matrices; thumbnails of all layers at a time */
let thumbs = [], cards = [], matrix = null, sides = [];
const run_of = setting => setting.runs.map(i => runs[i]).find(run => run.snapshots); /* whose scores are here */
const current = () => run_of(settings[state.setting]);
const all_steps = [...new Set(runs.flatMap(run => run.snapshots?.steps ?? []))].sort((a, b) => a - b);
const nearest = run => nearest_of(seen(run).steps, state.step); /* the snapshot that is shown */
/* The scores of a run's snapshots: by step, layer and head, each the lower triangle of (T, T), row by row. */
for (const s of runs.map(run => run.snapshots).filter(Boolean)) {
    s.scores = new Float32Array(bytes_of(s.scores));
    s.text = Array.from(s.text);
    s.T = s.text.length;
}
/* One head: weights (T, T) from raw scores, which are mapped as in the run (decoder.js); divisor null: as trained. */
function attend(run, step, layer, head, divisor) {
    const s = seen(run, divisor), T = s.T, at = (step * s.layers.length + layer) * s.heads + head;
    const how = scoring_of(run.keys), multiplier = multiplier_of(s.multiplier[at], divisor);
    const triangle = T * (T + 1) / 2, raw = s.scores.subarray(at * triangle, (at + 1) * triangle);
    const scores = new Float64Array(T * T), w = new Float64Array(T * T), rows = [];
    for (let q = 0; q < T; q++) {
        const row = scores.subarray(q * T, q * T + q + 1), start = q * (q + 1) / 2;
        score_mod(row, raw.subarray(start, start + q + 1), how, multiplier);
        rows.push(softmax(row, s.sink[at] ?? -Infinity, w.subarray(q * T, q * T + q + 1)));
    }
    const counted = rows.filter(row => finite(row.entropy)), mean_of = key => mean(counted.map(row => row[key]));
    return {T, w, raw, scores, rows, multiplier, entropy: mean_of("entropy"), largest: mean_of("largest")};
}
const text_of = run => seen(run).text.join("");
/* The head that is chosen, or of a smaller model its last. */
function attend_chosen(run, divisor) {
    const s = seen(run), layer = Math.min(state.layer, s.layers.length - 1);
    return attend(run, nearest(run), layer, Math.min(state.head, s.heads - 1), divisor);
}
/* The divisor that a setting is shown with; null: as trained. */
const divisor_of = setting => setting === state.setting ? state.divisor : null;
/* The place of the key that a query of recall asks for, among the pairs; its value is the next one. null elsewhere. */
function asked(run, query) {
    const text = seen(run).text, pairs = 2 * run.keys["data.recall_pairs"];
    if (run.keys["data.task"] !== "recall" || query < pairs || !/[a-z]/.test(text[query])) return null;
    const place = text.slice(0, pairs).indexOf(text[query]);
    return place < 0 || place % 2 ? null : place;
}
/* The mean weight of a head on the values that are asked for; NaN where nothing is. */
function looks_up(run, a) {
    const queries = [...Array(a.T).keys()].filter(q => asked(run, q) !== null);
    return mean(queries.map(q => a.w[q * a.T + asked(run, q) + 1]));
}
/* The layer and head of a run for which `measure` of its weights, as trained, is highest. */
function head_with_most(run, measure) {
    const {layers, heads} = seen(run), all = layers.flatMap((_, layer) =>
        Array.from({length: heads}, (_, head) => ({layer, head})));
    const measured = all.map(({layer, head}) => measure(attend(run, nearest(run), layer, head, null)));
    return all[Math.max(0, measured.indexOf(Math.max(...measured)))];
}
function all_layers() {
    const {layers, heads} = current().snapshots;
    return settings.length === 1 && layers.length * heads <= THUMBS;
}
/* Makes a card for each setting, with the heads of the chosen layer. A single setting with few heads has a card for
   each layer. */
function make_thumbs() {
    thumbs = [];
    cards = [];
    const make = (at, run, layer, head) => {
        const canvas = el("canvas"), words = el("span");
        const button = el("button", {type: "button", class: "thumb", onclick: () => {
            choose_setting(at);
            Object.assign(state, {layer, head});
            update();
        }}, canvas, words);
        thumbs.push({button, canvas, words, run, at, layer, head});
        return button;
    };
    const card = (setting, at, layer) => {
        const {layers, heads} = run_of(setting).snapshots, now = el("span");
        cards.push({at, now});
        return el("div", {class: heads > THUMBS ? "many" : null}, el("h3", {class: "legend"},
            settings.length === 1 ? `layer ${layers[layer]}` : with_color("b", setting, setting.label), now),
            Array.from({length: heads}, (_, head) => make(at, run_of(setting), layer, head)));
    };
    $("heads").replaceChildren(...settings.flatMap((setting, at) => {
        const s = run_of(setting)?.snapshots, layers = !s ? [] : all_layers() ? [...s.layers.keys()] :
            [Math.min(state.layer, s.layers.length - 1)];
        return layers.map(layer => card(setting, at, layer));
    }));
}
/* Makes a setting the one that is read and has the slider, and shows it beside the others. */
function choose_setting(at) {
    if (at !== state.setting) state.divisor = null;
    state.setting = at;
    if (!state.sides.includes(at)) state.sides = [...state.sides, at].slice(-SIDES);
}
/* Makes the large matrix, and the characters below it. */
function make_matrix(run) {
    const {text} = seen(run), place = i => ({[$("side").value]: i});
    const spans = text.map((c, i) => el("span", {class: "key", onpointerenter: () => choose(place(i)),
        onclick: () => choose(place(i), true)}, el("b", {}, visible(c)), el("small")));
    matrix = {...draw_matrix(run, false, {onpointermove: event => choose(place_of(matrix, event)),
        onclick: event => choose(place_of(matrix, event), true)}), run, spans};
    $("matrix").replaceChildren(scrolling(matrix.svg), save_buttons("attention", () => matrix.svg, matrix_rows));
    $("row").replaceChildren(...spans);
}
/* Makes the small matrices of the settings side by side. A click on one chooses its setting. */
function make_sides() {
    const make = at => {
        const setting = settings[at], run = run_of(setting), words = el("p"), now = el("span");
        const loss = setting.val_loss.mean;
        const side = {...draw_matrix(run, true, {onpointermove: event => choose(place_of(side, event)),
            onclick: event => {
                const place = place_of(side, event); /* before anything moves */
                choose_setting(at);
                update();
                choose(place, true);
            }}), at, run, words, now};
        side.figure = el("figure", {}, el("h3", {class: "legend"}, with_color("b", setting, setting.label), now),
            finite(loss) ? `trained to a validation loss of ${fixed(loss, 2)}` : null, side.svg, words);
        return side;
    };
    sides = settings.length > 1 ? state.sides.map(make) : [];
    $("sides").replaceChildren(...sides.map(side => side.figure));
}
function choose(place, lock = false) {
    if (!place || (state.locked && !lock)) return;
    state.query = Math.min(place.query ?? Math.max(state.query, place.key), matrix.T - 1);
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
    const {a, spans} = matrix, {query, key} = state, by_key = $("side").value === "key";
    const place = asked(current(), query);
    for (const {T, chosen, left, top, cell} of [matrix, ...sides]) {
        chosen[0].setAttribute("y", top + Math.min(query, T - 1) * cell);
        chosen[1].setAttribute("x", left + Math.min(key, T - 1) * cell);
    }
    for (const {a, T, words} of sides)
        words.textContent = query >= T ? "" : `weight ${fixed(a.w[query * T + key], 3)}, score ` +
            `${short(a.scores[query * T + key])}; the row's entropy ${fixed(a.rows[query].entropy, 3)}`;
    spans.forEach((span, i) => {
        const seen = by_key ? i >= key : i <= query, weight = by_key ? a.w[i * a.T + key] : a.w[query * a.T + i];
        const [r, g, b] = color_of(weight), bright = .299 * r + .587 * g + .114 * b > 140;
        span.style.background = seen ? `rgb(${r}, ${g}, ${b})` : "";
        span.style.color = seen ? bright ? "#000" : "#fff" : "";
        span.lastChild.textContent = seen ? weight.toFixed(3).replace(/^0/, "") : "\u00a0";
        span.setAttribute("aria-current", i === (by_key ? key : query));
        span.classList.toggle("of-key", place !== null && i === place);
        span.classList.toggle("of-value", place !== null && i === place + 1);
    });
    const text = seen(current()).text, at = query * (query + 1) / 2 + key;
    $("reading").textContent = `query ${query} “${visible(text[query])}”, key ${key} “${visible(text[key])}”: ` +
        `weight ${fixed(a.w[query * a.T + key])}, raw score ${short(a.raw[at])}, ` +
        `score ${short(a.scores[query * a.T + key])}. This query's row: entropy ${fixed(a.rows[query].entropy, 3)}, ` +
        `largest weight ${fixed(a.rows[query].largest, 3)}.` + (state.locked ? " Locked; Escape unlocks." : "");
    draw_strip();
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
    $("marks").replaceChildren(...[...marks, ["as trained", null]].map(([words, c]) =>
        el("button", {type: "button", onclick: () => { state.divisor = c; update(); }}, words)));
}
function update() {
    follow();
    const run = current(), s = seen(run), query = Math.min(state.query, s.T - 1);
    Object.assign(state, {layer: Math.min(state.layer, s.layers.length - 1), head: Math.min(state.head, s.heads - 1),
        query, key: Math.min(state.key, query)});
    const shows_text = drawn => drawn.text === text_of(drawn.run);
    if (matrix?.text !== text_of(run)) make_matrix(run);
    if (sides.map(side => side.at).join() !== state.sides.join() || !sides.every(shows_text)) make_sides();
    const trained = attend_chosen(run, null), a = attend_chosen(run, state.divisor);
    Object.assign(matrix, {run, a, trained});
    matrix.image.setAttribute("href", paint(matrix.canvas, a).toDataURL());
    for (const side of sides) {
        side.a = attend_chosen(side.run, divisor_of(side.at));
        side.image.setAttribute("href", paint(side.canvas, side.a).toDataURL());
        side.figure.classList.toggle("current", side.at === state.setting);
    }
    const finds = finite(looks_up(run, trained)) ? head_with_most(run, each => looks_up(run, each)) : {};
    for (const {button, canvas, words, run, at, layer, head} of thumbs) {
        const own = at === state.setting, each = attend(run, nearest(run), layer, head, divisor_of(at));
        paint(canvas, each);
        words.textContent = `head ${head}\nentropy ${fixed(each.entropy, 2)}` +
            (own && finds.layer === layer && finds.head === head ? `\nfinds ${fixed(looks_up(run, each), 2)}` : "");
        button.setAttribute("aria-label",
            `layer ${run.snapshots.layers[layer]}, ${words.textContent.replaceAll("\n", ", ")}`);
        button.setAttribute("aria-pressed", own && layer === state.layer && head === state.head);
    }
    for (const {at, now} of [...cards, ...sides])
        now.textContent = divisor_of(at) === null ? "" : `, now ÷ ${short(state.divisor)}`;
    $("step-value").textContent = s.steps[nearest(run)];
    Object.assign($("step"), {max: all_steps.length - 1, value: nearest_of(all_steps, state.step)});
    update_divisor(run, trained_divisor(run));
    $("figures").textContent = `Layer ${s.layers[state.layer]}, head ${state.head}` +
        (settings.length > 1 ? ` of ${settings[state.setting].label}` : "") + ` on this text: entropy ` +
        `${fixed(a.entropy, 3)} (1 is uniform, 0 one-hot), mean largest weight ${fixed(a.largest, 3)}` +
        (state.divisor === null ? "." : `; as trained ${fixed(trained.entropy, 3)} and ${fixed(trained.largest, 3)}.`) +
        (finite(loss_of(run)) ? ` Mean loss of the text: ${fixed(loss_of(run), 3)}.` : "") +
        (finds.head === undefined ? "" : ` It puts ${fixed(looks_up(run, a), 2)} of the weight on the value that is ` +
        `asked for (outlined; its key is dashed). Layer ${s.layers[finds.layer]}, head ${finds.head} does most of this.`);
    update_row();
}

/* --- the steps, one after another. Who asked for less motion gets the next step instead. */
let playing = null;
const less_motion = matchMedia("(prefers-reduced-motion: reduce)");
const step_at = () => nearest_of(all_steps, state.step);
function stop() {
    clearInterval(playing);
    playing = null;
    $("play").textContent = less_motion.matches ? "next step" : "play";
}
function next_step() {
    state.step = all_steps[step_at() + 1];
    update();
    if (step_at() === all_steps.length - 1) stop();
}
function play() {
    if (playing !== null) return stop();
    const ended = step_at() === all_steps.length - 1;
    if (ended) state.step = all_steps[0];
    if (ended) update();
    else if (less_motion.matches) next_step();
    if (less_motion.matches) return;
    playing = setInterval(next_step, 600);
    $("play").textContent = "stop";
}
/* Space plays where it does nothing else, and while the button is in sight instead of scrolling the page. */
function play_by_key(event) {
    const other = event.target.closest("button, select, textarea, summary, a, input:not([type=range])");
    const {top, bottom} = $("play").getBoundingClientRect(), in_sight = bottom > 0 && top < innerHeight; /* 0: hidden */
    const here = event.target.closest("#attention") || (event.target === document.body && in_sight);
    if (event.key !== " " || other || !here || $("play").hidden) return;
    play();
    event.preventDefault();
}

/* What the divisor did in a sweep: of the undivided setting, or else of the one that is farthest from √d_k. */
function sweep_sentence() {
    const compared = settings.filter(s => finite(s.difference?.mean) && run_of(s)), far = s => Math.abs(s.difference.mean);
    const undivided = compared.find(s => ["none", "1"].includes(run_of(s).keys["attention.scale_divisor"]));
    const s = undivided ?? compared.sort((a, b) => far(b) - far(a))[0];
    if (!s) return "";
    const saturated = series_of(s, "saturated").points.at(-1)?.[1];
    const gap = far(s) < .005 ? "within 0.005 nats of" : `${fixed(far(s), 2)} nats ${s.difference.mean > 0 ? "higher" : "lower"} than`;
    return `${undivided ? "Undivided" : s.label} ends ${gap} ÷ √d_k` + (finite(saturated) ?
        `; ${Math.round(100 * saturated)} % of its rows are saturated: one weight is above 0.99.` : ".");
}
/* At first: √d_k where there is one, the head with the lowest entropy, and the largest key of a query: the last one,
   of recall the last that asks for something. */
function choose_first() {
    const shown = settings.map(run_of);
    const root = shown.findIndex(run => run?.keys["attention.scale_divisor"] === "sqrt_dk");
    state.setting = root >= 0 ? root : shown.findIndex(run => run);
    if (state.setting < 0) return false;
    state.sides = [...shown.keys()].filter(at => shown[at]).slice(0, SIDES);
    choose_setting(state.setting);
    const run = current(), {T} = seen(run);
    state.step = all_steps.at(-1);
    Object.assign(state, head_with_most(run, a => finite(a.entropy) ? -a.entropy : -1));
    state.query = [...Array(T).keys()].findLast(query => asked(run, query) !== null) ?? T - 1;
    const row = attend_chosen(run, null).w.subarray(state.query * T, state.query * T + state.query + 1);
    state.key = Math.max(0, row.indexOf(Math.max(...row)));
    return true;
}
function show_attention() {
    if (!choose_first())
        return $("attention").replaceChildren(el("h2", {}, "Attention"), el("p", {}, "No attention was logged."));
    const on = (id, type, act) => $(id).addEventListener(type, () => { act(); update(); });
    on("step", "input", () => {
        stop();
        state.step = all_steps[$("step").value];
    });
    on("divisor", "input", () => {
        const divisor = Math.exp($("divisor").value);
        state.divisor = Math.abs(divisor / trained_divisor(current()) - 1) < .006 ? null : divisor;
    });
    on("layer", "change", () => { state.layer = Number($("layer").value); make_thumbs(); });
    on("side", "change", () => {});
    const layers = settings.map(run_of).map(run => run?.snapshots.layers ?? []).sort((a, b) => b.length - a.length)[0];
    $("layer-control").hidden = all_layers() || layers.length === 1;
    $("layer").append(...layers.map((layer, i) => el("option", {value: i}, layer)));
    $("layer").value = state.layer;
    $("play").hidden = all_steps.length === 1;
    $("play").addEventListener("click", play);
    $("caption").textContent = data.kind === "sweep" ? sweep_sentence() : "";
    less_motion.addEventListener("change", stop);
    document.addEventListener("keydown", play_by_key);
    document.addEventListener("keydown", event => {
        state.locked &&= event.key !== "Escape";
        update_row();
    });
    stop();
    make_thumbs();
    show_model();
    update();
}
