/* The reader's own text, where the page has the model of the run that is chosen: its losses, what comes next, the text
   written on, and the loss on validation text against the divisor. At the last step attention.js shows the attention of
   this text (`seen`), computed with the divisor of its slider, or where that is null, as trained. A model that trains here
   (run.trains) reads the text in its worker, and has no parameters in the page meanwhile. */
const seen = (run, divisor) => (divisor === null ? run.own?.trained : run.own) ?? run.snapshots;
const has_model = run => Boolean(run.model?.parameters || run.trains);
/* The decoder of a run's model. A model whose data are damaged is left out, as one that is too large. */
function model_of(run) {
    if (!run.decoder)
        try {
            run.decoder = make_model(run);
        } catch (error) {
            run.model = {left_out: damaged(error)};
        }
    return run.decoder;
}
const modelled = () => settings.map(run_of).filter(run => run && has_model(run));
const divided = run => settings.find(setting => run_of(setting) === run)?.divisor_now ?? null;
/* What the reader typed, null where the field has the run's text, and which generator writes into it; whether the page
   was painted; until when the curve waits, its timer, and whose is shown. */
const text = {typed: null, writing: null, painted: false, quiet: 0, timer: 0, shown: null, drawn: null};
/* `SLICE` is how many milliseconds are computed before the browser may draw and listen. */
const SLICE = 20, WRITTEN = 200, NEXT = 10, OCTAVES = 4;

/* --- computing in slices */
/* Goes on with a generator for a slice, or until it yields true, since it waits; returns whether it has ended. */
function advance(steps) {
    const until = performance.now() + SLICE;
    let step;
    do step = steps.next(); while (!step.done && !step.value && performance.now() < until);
    return step.done;
}
let following = null; /* what is being read for the page */
/* Called before the page shows attention. Reads the text with the chosen divisor, and in a sweep with the models of the
   other settings. What takes longer than a slice goes on later and then shows the page again. */
function follow() {
    const run = current(), own = has_model(run);
    $("own").hidden = !run.model;
    $("own-text").hidden = !own;
    const {left_out, no_excerpt, excerpt} = run.model ?? {};
    $("own-note").textContent = plain(left_out ? `The model of this run is not in this page: ${left_out}.` :
        no_excerpt ? `There is no curve of losses: ${no_excerpt}.` : "");
    $("curve").hidden = !own || !excerpt || run.trains || run.keys["attention.score"] === "additive";
    $("attention").classList.toggle("elsewhere", !at_last_step(run));
    if (text.typed === null) $("text").value = plain(run.snapshots.text.join(""));
    if (!own || !text.painted) return;
    const steps = following = read_all([run, ...modelled().filter(other => other !== run)]);
    const go_on = () => {
        if (steps !== following) return;
        if (advance(steps)) update();
        else setTimeout(go_on);
    };
    if (!advance(steps)) setTimeout(go_on);
    show_text(run);
    if (text.shown === run) text.drawn();
    clearTimeout(text.timer);
    text.timer = setTimeout(pursue);
}

/* --- reading the text */
const is_full = () => $("text").value.length >= $("text").maxLength;
const shown_text = run => text.typed === null ? run.snapshots.text : Array.from(text.typed);
const ids_of = run => shown_text(run).map(c => model_of(run).ids.get(c)).filter(id => id !== undefined);
const unit_of = run => run.keys["data.task"] === "recall" ? "answer" : "character";
/* Answers alone count in recall, as in training: what follows a key after the pairs. */
function counts(run, i) {
    const t = (i - 1) % model_of(run).T;
    return unit_of(run) === "character" || (t >= 2 * run.keys["data.recall_pairs"] && t % 2 === 0);
}
/* The last T characters decide what comes next and are what the matrix shows. Losses are those of windows that do not
   overlap, as `eval` takes them. */
function* read_all(all) {
    for (const run of all) {
        if (run.trains) {
            run.own = shows_own(run) ? run.read : undefined;
            continue;
        }
        const m = model_of(run), ids = ids_of(run), divisor = divided(run), losses = [NaN];
        const windows = run.windows ??= [], last = ids.slice(-m.T);
        run.trained = yield* read(run.trained ?? make_reading(m, null), last, null);
        if (divisor !== null) run.divided = yield* read(run.divided ?? make_reading(m, divisor), last, divisor);
        run.reading = divisor === null ? run.trained : run.divided;
        for (let from = 0; from + 1 < ids.length; from += m.T) {
            const i = from / m.T, part = ids.slice(from, from + m.T), before = windows[i] ?? make_reading(m, divisor);
            const r = ids.length <= m.T ? run.reading : windows[i] = yield* read(before, part, divisor);
            ids.slice(from + 1, from + m.T + 1).forEach((id, t) => losses.push(cross_entropy(r.logits[t], id)));
        }
        Object.assign(run, {losses, own: !shows_own(run) ? undefined :
            {...snapshot_of(run, run.reading), trained: snapshot_of(run, run.trained)}});
    }
}
/* The matrix shows what was logged until the text or the divisor changes, and at other steps than the model's: the last
   one, or while a run trains that of its last checkpoint. */
const at_last_step = ({snapshots: {steps}, model, trains}) => trains ? state.step === all_steps.at(-1) :
    nearest_of(steps, state.step) === nearest_of(steps, model?.step ?? steps.at(-1));
function shows_own(run) {
    const changed = text.typed !== null || divided(run) !== null;
    return changed && run.reading?.ids.length > 0 && at_last_step(run);
}
/* What was read, in the form of a snapshot. */
function snapshot_of(run, {model: m, ids, heads}) {
    const {layers} = run.snapshots, chosen = layers.flatMap(l => heads[l]);
    const own = layers.flatMap(l => m.heads[l]), triangle = ids.length * (ids.length + 1) / 2;
    const scores = new Float64Array(chosen.length * triangle);
    chosen.forEach((head, i) => head.raw.forEach((row, q) => scores.set(row, i * triangle + q * (q + 1) / 2)));
    return {steps: [run.model.step], layers, heads: m.H, T: ids.length, text: ids.map(id => m.characters[id]),
        at: [{scores, multiplier: own.map(head => head.multiplier), sink: own.map(head => head.sink)}]};
}

/* --- showing it */
function show_text(run) {
    const {characters, ids, T} = model_of(run), losses = run.losses ?? [], shown = shown_text(run);
    const unknown = shown.filter(c => !ids.has(c)), known = shown.length - unknown.length, loss = mean(losses.filter((_, i) => i > 0 && counts(run, i)));
    let i = 0;
    $("own-losses").replaceChildren(...shown.map(c => {
        if (!ids.has(c)) return el("del", {title: "a character that the model does not know"}, visible(c));
        const at = i++, loss = losses[at], strong = counts(run, at) ? clamp(loss / 6, 0, 1) || 0 : 0;
        const title = finite(loss) ? `loss ${fixed(loss, 2)}, probability ${fixed(Math.exp(-loss), 3)}` : "no loss";
        const line_end = c === "\n" ? c : "";
        return el("span", {style: `--loss: ${Math.round(70 * strong)}%`, title}, visible(c) + line_end);
    }));
    $("own-words").textContent = plain([
        finite(loss) ? `Mean loss of this text: ${fixed(loss, 3)} nats per ${unit_of(run)}` +
            `${divided(run) === null ? "" : `, with scores divided by ${short(divided(run))}`}. ` : "",
        unknown.length ? `Left out, since the models do not know them: ${[...new Set(unknown)].map(visible).join(" ")}. ` : "",
        known > T ? `What comes next, and the matrix, are of the last ${T} characters. ` : "",
        at_last_step(run) ? "" : `The model is that of step ${run.model.step}; the matrix shows another step and the ` +
            "run's text."].join(""));
    $("write").disabled = (is_full() && !text.writing) || run.trains;
    const last = run.reading?.logits.at(-1);
    if (!last) return $("own-next").replaceChildren();
    const p = new Float64Array(last.length);
    softmax(last, -Infinity, p);
    const likeliest = [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, NEXT);
    $("own-next").replaceChildren(...likeliest.map(id => el("li", {}, el("b", {}, visible(characters[id])),
        el("i", {style: `width: ${(60 * p[id]).toFixed(2)}%`}), ` ${p[id].toFixed(3)}`)));
}
/* null: the run's text. */
function set_text(typed) {
    stop_writing();
    text.typed = typed === null ? null : plain(typed);
    $("text").value = text.typed ?? "";
    source.read();
    Object.assign(state, {query: state.locked ? state.query : Infinity});
    update();
}
/* Writes on, a character at a time, until the text or the setting is changed, or the field is full. */
function* writing(run) {
    const m = model_of(run), start = [m.ids.get("\n") ?? m.ids.get("a") ?? 0];
    let ids = ids_of(run).slice(-m.T), r = make_reading(m, null);
    if (!ids.length) ids = start;
    for (let i = 0; i < WRITTEN && run === current() && !is_full(); i++) {
        r = yield* read(r, ids, divided(run));
        const id = draw(r.logits[ids.length - 1], Number($("temperature").value), Math.random());
        text.typed = $("text").value += plain(m.characters[id]);
        $("text").scrollTop = $("text").scrollHeight;
        ids = continued(ids, id, m.T);
        Object.assign(run, {reading: r, losses: []});
        show_text(run);
        yield;
    }
}
function stop_writing() {
    text.writing = null;
    $("write").textContent = `write ${WRITTEN} characters`;
}
function write_on() {
    if (text.writing) return stop_writing();
    const steps = text.writing = writing(current()), one = () => {
        if (steps !== text.writing) return;
        if (!steps.next().done) return setTimeout(one, 10);
        set_text($("text").value);
    };
    $("write").textContent = "stop";
    one();
}

/* --- the loss on validation text against the divisor */
/* Divisors from 1/16 to 16 times the trained one, at which each head keeps its own where they are learned, and those
   that have a name. */
function divisors_of(run) {
    const trained = Math.exp(-mean(model_of(run).heads.flat().map(head => Math.log(Math.abs(head.multiplier)))));
    const grid = Array.from({length: 4 * OCTAVES + 1}, (_, i) => trained * 2 ** (i / 2 - OCTAVES));
    const root = Math.sqrt(run.d_k), same = (b, c) => Math.abs(b / c - 1) < 1e-6;
    const named = [1, root, 2 * root, run.d_k].filter(c => c > grid[0] && c < grid.at(-1));
    const all = [trained, ...grid, ...named].filter((c, i, list) => list.findIndex(b => same(b, c)) === i);
    const marked = all.filter(c => [trained, ...named].some(b => same(b, c))).sort((a, b) => a - b);
    return {trained, all, marks: marked.map(x => ({x}))};
}
function* curve_steps(run) {
    const {trained, all} = divisors_of(run), losses = new Map();
    for (const divisor of all) {
        let sum = 0, count = 0;
        for (const {tokens, targets} of run.model.excerpt) {
            const r = make_reading(model_of(run), divisor === trained ? null : divisor);
            yield* read(r, tokens);
            for (const [t, target] of targets.entries())
                if (target >= 0) [sum, count] = [sum + cross_entropy(r.logits[t], target), count + 1];
        }
        losses.set(divisor, sum / count);
        $("curve-words").textContent = `Computing the loss under other divisors: ${losses.size} of ${all.length}.`;
    }
    run.curve = losses;
}
/* The curve, beside the slider of the divisor. It is of the model after training, and pale at any other step. */
function show_curve(run) {
    const {color} = settings[state.setting], {marks, trained} = divisors_of(run);
    const points = [...run.curve].sort((a, b) => a[0] - b[0]);
    $("curve-chart").replaceChildren();
    text.drawn = chart($("curve-chart"), {title: `Step ${run.model.step}: loss under other divisors`, name: "divisors", x: "", y: "", at: "÷",
        height: 88, log_x: true, least: .05, first: trained, series: [{label: "loss of an excerpt", color, points}],
        marks: () => [...marks, {x: clamp(divided(run) ?? trained, points[0][0], points.at(-1)[0]), now: true}]});
    text.drawn();
    $("curve-words").textContent = "";
    $("curve-chart").title = `The mean loss on ${plural(run.model.excerpt.length, "window")} of validation text, in nats ` +
        `per ${unit_of(run)}, of the trained model with its scores divided by another number.`;
}
/* Computes the curve of the run that is chosen while nobody touches the page. */
function pursue() {
    const run = current(), idle = performance.now() > text.quiet && !text.writing;
    clearTimeout(text.timer);
    if ($("curve").hidden) return;
    if (text.shown !== run) $("curve-chart").replaceChildren();
    if (run.curve && text.shown !== run) show_curve(text.shown = run);
    if (!run.curve && idle) advance(run.curving ??= curve_steps(run));
    text.timer = setTimeout(pursue, idle && !run.curve ? 0 : 200);
}

function show_model() {
    const wait = () => { text.quiet = performance.now() + 400; };
    $("text").addEventListener("input", () => set_text($("text").value));
    $("write").addEventListener("click", write_on);
    $("own-reset").addEventListener("click", () => set_text(null));
    control("temperature", () => { $("temperature-value").textContent = $("temperature").value; });
    for (const type of ["pointerdown", "keydown", "input", "wheel"])
        addEventListener(type, wait, {capture: true, passive: true});
    stop_writing();
    requestAnimationFrame(() => setTimeout(() => { /* the page is there before its parameters are decoded */
        text.painted = true;
        modelled().forEach(model_of);
        update();
    }));
}

/* The logits (text, vocabulary) of the chosen run's model for a text, with a divisor or, without one, as trained. */
window.sqrtdk = {logits(words, divisor = null) {
    const m = model_of(current()), ids = Array.from(words, c => m.ids.get(c)).slice(-m.T), r = make_reading(m, divisor);
    if (ids.includes(undefined)) throw new RangeError("the text has a character that the model does not know");
    for (const _ of read(r, ids));
    return r.logits.map(row => Array.from(row));
}};
