/* What is chosen: the panel, everything when something was chosen, the view as a link, and the steps, played. */
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
/* The validation loss of a setting's run at a step, or that of the last evaluation before it. */
function loss_words(run, at_setting, step) {
    const [at, loss] = curve(run, "val_loss").findLast(point => point[0] <= step) ?? [];
    const as_trained = divisor_of(at_setting) === null ? "" : "as trained: ";
    return finite(loss) ? `${as_trained}validation loss ${fixed(loss, 2)}${at === step ? "" : ` (step ${at})`}` : "";
}
/* Shows the figures of a triangle, and the sample at its step or the last one before it. */
function update_side(side) {
    const {run, at, now, figures, writes, writing} = side, step = step_of(run), own = seen(run) !== run.snapshots;
    const sample = (run.samples ?? []).findLast(sample => sample.step <= step);
    side.a = attend_chosen(run, divisor_of(at));
    side.image.setAttribute("href", paint(side.canvas, side.a).toDataURL());
    side.figure.classList.toggle("current", at === state.setting);
    now.textContent = divisor_of(at) === null ? "" : `, now ÷ ${short(state.divisor)}`;
    const loss = own ? "" : loss_words(run, at, step);
    figures.textContent = `${loss}${loss ? " · " : ""}entropy ${fixed(side.a.entropy, 2)}`;
    writes.textContent = sample ? `${divisor_of(at) === null ? "" : "as trained, "}writes at step ${sample.step}:` : "";
    writing.textContent = sample ? plain(sample.text).trim() : "";
    draw_histogram(side, run, settings[at].color,
        run.keys["attention.score"] === "additive" ? "score" : `÷ ${short(Math.abs(1 / side.a.multiplier))}`);
}
function update_thumbs(run) {
    const {layers, heads} = run.snapshots, made = `${runs.indexOf(run)},${layers.length * heads > THUMBS ? state.layer : ""}`;
    if ($("heads").dataset.made !== made) make_thumbs(run);
    $("heads").dataset.made = made;
    for (const {button, canvas, words, layer, head} of thumbs) {
        const each = attend(run, nearest(run), layer, head, state.divisor), job = job_of(run, each);
        paint(canvas, each);
        words.textContent = [`layer ${layers[layer]}, head ${head}`, `entropy ${fixed(each.entropy, 2)}`,
            `largest weight ${fixed(each.largest, 2)}`, job?.words].filter(Boolean).join("\n");
        button.setAttribute("aria-label", words.textContent.replaceAll("\n", ", "));
        button.setAttribute("aria-pressed", layer === state.layer && head === state.head);
    }
}
function update_panel(run, s) {
    const head_words = head => job_of(run, attend(run, nearest(run), state.layer, head, null))?.words;
    update_choice("model", settings.map((s, at) => [at, s.label]).filter(([at]) => run_of(settings[at])), state.setting);
    update_choice("layer", s.layers.map((layer, i) => [i, String(layer)]), state.layer);
    update_choice("head", Array.from({length: s.heads}, (_, head) =>
        [head, [String(head), head_words(head)].filter(Boolean).join(": ")]), state.head);
    $("step-value").textContent = step_of(run);
    Object.assign($("step"), {max: all_steps.length - 1, value: nearest_of(all_steps, state.step)});
    $("loss-value").textContent = loss_words(run, state.setting, step_of(run)) +
        (run.result === "finished" ? "" :
        ` (${run.result}: step ${run.metrics_table.step?.at(-1)} of ${run.keys["train.steps"]})`);
    update_divisor(run, trained_divisor(run));
}
function update() {
    follow();
    const run = current(), s = seen(run), query = Math.min(state.query, s.T - 1);
    Object.assign(state, {layer: Math.min(state.layer, s.layers.length - 1), head: Math.min(state.head, s.heads - 1),
        query, key: Math.min(state.key, query)});
    const shows_text = side => side.text === seen(side.run).text.join(""), before = matrix?.text;
    if (sides.map(side => side.at).join() !== state.sides.join() || !sides.every(shows_text)) make_sides();
    sides.forEach(update_side);
    matrix = sides.find(side => side.at === state.setting);
    if (matrix.text !== before) make_row(run);
    update_thumbs(run);
    update_panel(run, s);
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
    const divisor = number("divisor", NaN), at = current().snapshots.layers.indexOf(number("layer", -1));
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
    state.step = all_steps[(step_at() + 1) % all_steps.length];
    update();
    if (step_at() === all_steps.length - 1) stop();
}
function play() {
    if (playing !== null) return stop();
    if (less_motion.matches) return next_step();
    playing = setInterval(next_step, 800);
    $("play").textContent = "stop";
    next_step();
}
/* Space plays wherever the focus is, except in a field of text and on what Space works itself. */
function play_by_key(event) {
    if (event.key === "Escape" && state.locked) choose(state, true);
    const other = event.target.closest("button, select, textarea, summary, input:not([type=range])");
    if (event.key !== " " || other || $("play").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
    play();
    event.preventDefault();
}

