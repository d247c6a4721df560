/* The section Attention: what is chosen, the panel that chooses it, and pictures of it. Up to four settings have a
   triangle, side by side, with the same query and key; of several settings the chosen one has a large triangle too. */
const state = {setting: 0, layer: 0, head: 0, step: 0, divisor: null, query: 0, key: 0, locked: false, sides: []};
const SIDES = 4, THUMBS = 24; /* triangles; thumbnails of all layers at a time */
let thumbs = [], cards = [], matrix = null, sides = [];
/* The scores of a run's snapshots: by step, layer and head, each the lower triangle of (T, T), row by row. */
function read_snapshots(s) {
    s.scores = new Float32Array(bytes_of(s.scores));
    s.text = Array.from(s.text);
    s.T = s.text.length;
    const heads = s.steps.length * s.layers.length * s.heads;
    must(s.T > 0 && heads > 0 && s.scores.length === heads * s.T * (s.T + 1) / 2, "the number of scores");
    must(s.multiplier.length === heads && s.sink.length === heads, "the number of heads");
}
for (const run of runs.filter(run => run.snapshots))
    try {
        read_snapshots(run.snapshots);
    } catch (error) {
        run.snapshots = null;
        run.damaged = damaged(error);
    }
const run_of = setting => setting.runs.map(i => runs[i]).find(run => run?.snapshots); /* whose scores are here */
const current = () => run_of(settings[state.setting]);
const all_steps = [...new Set(runs.flatMap(run => run.snapshots?.steps ?? []))].sort((a, b) => a - b);
const nearest = run => nearest_of(seen(run).steps, state.step); /* the snapshot that is shown */
const step_of = run => seen(run).steps[nearest(run)];
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
/* What a head does, as far as it is clear: the place that has more than 40 % of a query's weight in the mean, and this
   share of each query's weight; null: nothing is clear. */
function job_of(run, a) {
    const places = [["previous character", q => q - 1], ["this character", q => q], ["first character", q => q > 1 ? 0 : -1]];
    const shares = places.map(([, key]) => mean([...Array(a.T).keys()].slice(1).filter(q => key(q) >= 0)
        .map(q => a.w[q * a.T + key(q)])));
    const all = [...places.map(([name], i) => [name, shares[i]]), ["value asked for", looks_up(run, a)]];
    const [name, share] = all.filter(job => job[1] > .4).sort((x, y) => y[1] - x[1])[0] ?? [];
    return name ? {name, share, words: `${name} ${percent(share)}`} : null;
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
    state.made = state.layer;
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
/* What a figure shows, for a file of it. */
function caption(run = current(), at = state.setting) {
    const {layers} = seen(run), divisor = divisor_of(at);
    return `${data.title}: ${settings[at].label}, layer ${layers[Math.min(state.layer, layers.length - 1)]}, head ` +
        `${state.head}, step ${step_of(run)}${divisor === null ? "" : `, now ÷ ${short(divisor)}`}`;
}
/* Makes the triangle of a setting, with what its model writes. A click chooses the setting and a cell. */
function make_side(at) {
    const setting = settings[at], run = run_of(setting), now = el("span"), figures = el("p"), words = el("p");
    const writes = el("p", {class: "how"}), writing = el("pre", {tabindex: 0, "aria-label": "what the model writes"});
    const side = {...draw_matrix(run, settings.length > 1, {onpointermove: event => choose(place_of(side, event)),
        onclick: event => {
            const place = place_of(side, event); /* before anything moves */
            if (at !== state.setting) state.locked = false;
            choose_setting(at);
            update();
            choose(place, true);
        }}), at, run, now, figures, words, writes, writing};
    side.figure = el("figure", {}, el("h3", {class: "legend"}, with_color("b", setting, setting.label), now), figures,
        side.svg, el("div", {}, words, run.samples?.length ? [writes, writing] : null));
    return side;
}
function make_sides() {
    sides = state.sides.map(make_side);
    $("sides").replaceChildren(...sides.map(side => side.figure));
    $("sides").className = sides.length > 1 ? "" : "alone";
}
/* Makes the large triangle of the chosen setting, and the characters below it. A single setting has the one above. */
function make_matrix(run) {
    const place = i => ({[$("side").value]: i});
    const spans = seen(run).text.map((c, i) => el("span", {class: "key", onpointerenter: () => choose(place(i)),
        onclick: () => choose(place(i), true)}, el("b", {}, visible(c)), el("small")));
    const drawn = settings.length === 1 ? sides[0] : draw_matrix(run, false, {
        onpointermove: event => choose(place_of(matrix, event)), onclick: event => choose(place_of(matrix, event), true)});
    matrix = Object.assign(drawn, {run, spans});
    $("matrix").replaceChildren(settings.length === 1 ? "" : matrix.svg,
        save_buttons("attention", () => matrix.svg, matrix_rows, () => caption()));
    $("row").replaceChildren(...spans);
}
/* Chooses a query and a key. A click locks them, and another click on them unlocks them. */
function choose(place, lock = false) {
    if (!place || (state.locked && !lock)) return;
    const query = Math.min(place.query ?? Math.max(state.query, place.key), matrix.T - 1);
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
/* Shows the chosen query's or key's weights, as numbers on the text itself. */
function update_row() {
    const {a, spans} = matrix, {query, key} = state, by_key = $("side").value === "key";
    const place = asked(current(), query);
    for (const {T, chosen, left, top, cell} of [matrix, ...sides]) {
        chosen[0].setAttribute("y", top + Math.min(query, T - 1) * cell);
        chosen[1].setAttribute("x", left + Math.min(key, T - 1) * cell);
    }
    for (const {a, T, words, run} of sides) {
        const text = seen(run).text, at = query * (query + 1) / 2 + key;
        words.textContent = query >= T ? "" : `“${visible(text[query])}” → “${visible(text[key])}”: weight ` +
            `${fixed(a.w[query * T + key], 3)}, raw score ${short(a.raw[at])}, divided ${short(a.scores[query * T + key])}`;
    }
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
        `largest weight ${fixed(a.rows[query].largest, 3)}.` + (state.locked ? " Locked." : "");
    draw_strip();
    note_view();
}

/* --- the panel, and everything when something was chosen */
const trained_divisor = run => Math.abs(1 / attend(run, nearest(run), state.layer, state.head, null).multiplier);
/* The slider has the divisor's logarithm; it stops at the trained one. */
function update_divisor(run, own) {
    const divisor = state.divisor ?? own, root = Math.sqrt(run.d_k);
    const marks = [["1", 1], [`√d_k = ${short(root)}`, root], [`2√d_k = ${short(2 * root)}`, 2 * root],
        [`d_k = ${run.d_k}`, run.d_k]];
    $("division").hidden = run.keys["attention.score"] === "additive" || !finite(own);
    $("divisor-value").textContent = short(divisor) + (state.divisor === null ? " (as trained)" : "");
    const [min, max] = [Math.min(own, 1) / 4, Math.max(own, run.d_k) * 4].map(Math.log);
    Object.assign($("divisor"), {min, max, value: Math.log(divisor)});
    $("rescored").textContent = state.divisor === null ? "" : `The trained model with its scores ÷ ${short(divisor)} ` +
        `instead of ÷ ${short(own)}: not a model that was trained with that divisor.`;
    if ($("marks").dataset.d_k === String(run.d_k)) return;
    $("marks").dataset.d_k = run.d_k;
    $("marks").replaceChildren(...[...marks, ["as trained", null]].map(([words, c]) =>
        el("button", {type: "button", onclick: () => { state.divisor = c; update(); }}, words)));
}
/* Fills a list of choices, and chooses one; one choice alone needs no list. */
function update_choice(name, choices, chosen) {
    const words = choices.map(choice => choice[1]).join("\n"), list = $(name);
    $(`${name}-control`).hidden = choices.length < 2;
    if (list.dataset.words !== words)
        list.replaceChildren(...choices.map(([value, words]) => el("option", {value}, words)));
    Object.assign(list.dataset, {words});
    list.value = chosen;
}
/* A run's validation loss at a step, or that of the last evaluation before it. */
function loss_words(run, step) {
    const [at, loss] = curve(run, "val_loss").findLast(point => point[0] <= step) ?? [];
    return finite(loss) ? `validation loss ${fixed(loss, 2)}${at === step ? "" : ` (step ${at})`}` : "";
}
/* Shows the figures of a triangle, and the sample at its step or the last one before it. */
function update_side(side) {
    const {run, at, figures, writes, writing} = side, step = step_of(run), own = seen(run) !== run.snapshots;
    const sample = (run.samples ?? []).findLast(sample => sample.step <= step);
    side.a = attend_chosen(run, divisor_of(at));
    side.image.setAttribute("href", paint(side.canvas, side.a).toDataURL());
    side.figure.classList.toggle("current", settings.length > 1 && at === state.setting);
    figures.textContent = [own ? "" : loss_words(run, step), `entropy ${fixed(side.a.entropy, 2)}`].filter(Boolean).join(" · ");
    writes.textContent = sample ? `writes at step ${sample.step}:` : "";
    writing.textContent = sample ? plain(sample.text).trim() : "";
    draw_histogram(side, run, settings[at].color, `÷ ${short(Math.abs(1 / side.a.multiplier))}`);
}
function update_thumbs() {
    for (const {button, canvas, words, run, at, layer, head} of thumbs) {
        const each = attend(run, nearest(run), layer, head, divisor_of(at)), job = job_of(run, each);
        paint(canvas, each);
        words.textContent = `head ${head}\nentropy ${fixed(each.entropy, 2)}${job ? `\n${job.words}` : ""}`;
        button.setAttribute("aria-label",
            `layer ${run.snapshots.layers[layer]}, ${words.textContent.replaceAll("\n", ", ")}`);
        button.setAttribute("aria-pressed", at === state.setting && layer === state.layer && head === state.head);
    }
    for (const {at, now} of [...cards, ...sides])
        now.textContent = divisor_of(at) === null ? "" : `, now ÷ ${short(state.divisor)}`;
}
function update_panel(run, s) {
    const models = settings.map((setting, at) => [at, setting.label]).filter(([at]) => run_of(settings[at]));
    const head_words = head => job_of(run, attend(run, nearest(run), state.layer, head, null))?.words;
    update_choice("model", models, state.setting);
    update_choice("layer", s.layers.map((layer, i) => [i, String(layer)]), state.layer);
    update_choice("head", Array.from({length: s.heads}, (_, head) =>
        [head, [String(head), head_words(head)].filter(Boolean).join(": ")]), state.head);
    $("step-value").textContent = step_of(run);
    Object.assign($("step"), {max: all_steps.length - 1, value: nearest_of(all_steps, state.step)});
    const last = run.metrics_table.step?.at(-1), planned = run.keys["train.steps"];
    $("loss-value").textContent = loss_words(run, step_of(run)) +
        (run.result === "finished" ? "" : ` (${run.result}: step ${last} of ${planned})`);
    update_divisor(run, trained_divisor(run));
}
function update() {
    follow();
    const run = current(), s = seen(run), query = Math.min(state.query, s.T - 1);
    const layer = Math.min(state.layer, s.layers.length - 1), other = layer !== state.layer || state.made !== state.layer;
    Object.assign(state, {layer, head: Math.min(state.head, s.heads - 1), query, key: Math.min(state.key, query)});
    const shows_text = drawn => drawn.text === text_of(drawn.run), of_sides = sides.map(side => side.at).join();
    const same_sides = of_sides === state.sides.join() && sides.every(shows_text);
    if (other) make_thumbs();
    if (!same_sides) make_sides();
    if (matrix?.text !== text_of(run) || (settings.length === 1 && !same_sides)) make_matrix(run);
    const trained = attend_chosen(run, null), a = attend_chosen(run, state.divisor);
    sides.forEach(update_side);
    Object.assign(matrix, {run, a, trained});
    if (settings.length > 1) {
        matrix.image.setAttribute("href", paint(matrix.canvas, a).toDataURL());
        draw_histogram(matrix, run, settings[state.setting].color, `÷ ${short(Math.abs(1 / a.multiplier))}`);
    }
    update_thumbs();
    update_panel(run, s);
    const job = job_of(run, a), loss = at_last_step(run) ? loss_of(run) : NaN;
    $("figures").textContent = `Layer ${s.layers[state.layer]}, head ${state.head}` +
        (settings.length > 1 ? ` of ${settings[state.setting].label}` : "") + ` at step ${step_of(run)}, on this text: ` +
        `entropy ${fixed(a.entropy, 3)} (1 is uniform, 0 one-hot), mean largest weight ${fixed(a.largest, 3)}` +
        (state.divisor === null ? "." : `; as trained ${fixed(trained.entropy, 3)} and ${fixed(trained.largest, 3)}.`) +
        (job ? ` It puts ${percent(job.share)} of the weight on the ${job.name}.` : "") +
        (finite(loss) ? ` Mean loss of this text: ${fixed(loss, 3)}.` : "");
    update_row();
}

/* --- the view in the page's address: what differs from the opening view can be sent as a link */
let first_view = null, noting = null;
function view_text() {
    const {layers} = current().snapshots, number = x => Number(x.toPrecision(6));
    const parts = {model: settings.length > 1 ? state.setting : null, layer: layers[state.layer], head: state.head,
        step: state.step, divisor: state.divisor && number(state.divisor), query: state.locked ? state.query : null,
        key: state.locked ? state.key : null, text: text.typed};
    return Object.entries(parts).filter(part => part[1] !== null)
        .map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
}
/* Writes the view into the address, a moment after the last change: a browser refuses too many in a row. */
function note_view() {
    clearTimeout(noting);
    noting = setTimeout(() => {
        const view = view_text();
        if (view !== first_view || location.hash.includes("=")) history.replaceState(null, "", `#${view}`);
    }, 300);
}
/* Shows what a link says; what it does not say, or says wrongly, stays. */
function show_view(words) {
    const given = new URLSearchParams(words), typed = given.get("text");
    const number = (key, otherwise) => given.get(key)?.trim() && finite(+given.get(key)) ? +given.get(key) : otherwise;
    const whole = (key, otherwise) => Math.max(0, Math.round(number(key, otherwise)));
    stop();
    if (run_of(settings[whole("model", state.setting)] ?? {runs: []})) choose_setting(whole("model", state.setting));
    const divisor = number("divisor", NaN), at = current().snapshots.layers.indexOf(whole("layer", -1));
    Object.assign(state, {layer: at < 0 ? state.layer : at, head: whole("head", state.head),
        step: all_steps[nearest_of(all_steps, number("step", state.step))], divisor: divisor > 0 ? divisor : null,
        query: whole("query", state.query), key: whole("key", state.key), locked: given.has("query")});
    if (typed !== null || text.typed !== null) set_text(typed === null ? null : typed.slice(0, $("text").maxLength));
    update();
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
    playing = setInterval(next_step, 800);
    $("play").textContent = "stop";
}
/* Space plays wherever the focus is, except in a field of text and on what Space works itself. */
function play_by_key(event) {
    const other = event.target.closest("button, select, textarea, summary, input:not([type=range])");
    if (event.key !== " " || other || $("play").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
    play();
    event.preventDefault();
}

/* At first: √d_k where there is one, the head that does something clear, or else the one with the lowest entropy, and the
   largest key of a query: the last one, of recall the last that asks for something. */
function choose_first() {
    const shown = settings.map(run_of);
    const root = shown.findIndex(run => run?.keys["attention.scale_divisor"] === "sqrt_dk");
    state.setting = root >= 0 ? root : shown.findIndex(run => run);
    if (state.setting < 0) return false;
    state.sides = [...shown.keys()].filter(at => shown[at]).slice(0, SIDES);
    choose_setting(state.setting);
    const run = current(), {T} = seen(run);
    state.step = all_steps.at(-1);
    const story = a => ["previous character", "value asked for"].includes(job_of(run, a)?.name) ? job_of(run, a).share :
        finite(a.entropy) ? -a.entropy : -1;
    Object.assign(state, head_with_most(run, story));
    state.query = [...Array(T).keys()].findLast(query => asked(run, query) !== null) ?? T - 1;
    const row = attend_chosen(run, null).w.subarray(state.query * T, state.query * T + state.query + 1);
    state.key = Math.max(0, row.indexOf(Math.max(...row)));
    return true;
}
function show_attention() {
    const lost = runs.filter(run => run.damaged).map(run => el("p", {class: "lost"},
        `The attention of ${run.name} cannot be shown: ${run.damaged}.`));
    if (!choose_first())
        return $("attention").replaceChildren(el("h2", {}, "Attention"),
            ...lost.length ? lost : [el("p", {}, "No attention was logged.")]);
    $("sides").before(...lost);
    const on = (id, type, act) => $(id).addEventListener(type, () => { act(); update(); });
    on("step", "input", () => {
        stop();
        state.step = all_steps[$("step").value];
    });
    on("divisor", "input", () => {
        const divisor = Math.exp($("divisor").value);
        state.divisor = Math.abs(divisor / trained_divisor(current()) - 1) < .006 ? null : divisor;
    });
    on("model", "change", () => choose_setting(Number($("model").value)));
    on("layer", "change", () => { state.layer = Number($("layer").value); });
    on("head", "change", () => { state.head = Number($("head").value); });
    on("side", "change", () => {});
    $("play").hidden = $("step").hidden = all_steps.length === 1;
    $("play").addEventListener("click", play);
    less_motion.addEventListener("change", stop);
    document.addEventListener("keydown", play_by_key);
    document.addEventListener("keydown", event => {
        state.locked &&= event.key !== "Escape";
        update_row();
    });
    stop();
    show_model();
    update();
    first_view = view_text();
    const follow_link = () => location.hash.includes("=") && show_view(location.hash.slice(1));
    addEventListener("hashchange", follow_link);
    follow_link();
}
