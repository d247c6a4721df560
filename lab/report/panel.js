/* What is chosen: the panel, everything when something was chosen, the view as a link, and the steps, played. */
/* What the panel shows: a training that was recorded, or one that goes on (live.js, which puts its own here). `play` is for
   Space, `divide` for a triangle's divisor, `read` for a text that was typed. */
const recorded = {play: play_steps, divide: divide_trained, read() {}};
let source = recorded;
const trained_divisor = run => Math.abs(1 / attend_chosen(run, null).multiplier);
/* Shows a trained model with its scores divided by another number. */
function divide_trained(at, divisor) {
    const own = trained_divisor(run_of(settings[at]));
    settings[at].divisor_now = Math.abs(divisor / own - 1) < .006 ? null : divisor;
    choose_setting(at);
    update();
}
/* Makes the divisor of a triangle: a slider, which has its logarithm to base 2 and stops at divisors that have a name, and
   a button for each of them. An arrow key changes it by a quarter of a doubling. */
function make_division(at) {
    const run = run_of(settings[at]), own = trained_divisor(run), root = Math.sqrt(run.d_k), range = [Math.min(own, 1) / 4, Math.max(own, run.d_k) * 4];
    const named = [["1", 1], ["√d_k", root], ["2√d_k", 2 * root], ["d_k", run.d_k]];
    if (named.every(([, c]) => Math.abs(c / own - 1) > .006)) named.unshift([short(own, 3), own]);
    const divide = divisor => {
        const [near] = named.map(([, c]) => c).filter(c => Math.abs(divisor / c - 1) < .04);
        source.divide(at, near ?? Number(clamp(divisor, ...range).toPrecision(3)));
    };
    const slider = el("input", {type: "range", min: Math.log2(range[0]), max: Math.log2(range[1]), step: "any", autocomplete: "off",
        "aria-label": `divisor of ${settings[at].label}`, oninput: () => divide(2 ** slider.value),
        onkeydown: event => {
            const by = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
            if (!by) return;
            divide(2 ** ((Math.round(4 * slider.value) + by) / 4));
            event.preventDefault();
        }});
    const buttons = named.map(([words, c]) => el("button", {type: "button", title: `÷ ${short(c)}`, onclick: () => divide(c)}, words));
    return {slider, element: el("div", {class: "division"}, slider, el("p", {class: "marks"}, buttons))};
}
function update_division({run, at, division: {slider, element}}) {
    const own = trained_divisor(run), divisor = settings[at].divisor_asked ?? divisor_of(at) ?? own;
    element.hidden = run.keys["attention.score"] === "additive" || !finite(own);
    slider.value = Math.log2(divisor);
    slider.setAttribute("aria-valuetext", `÷ ${short(divisor)}${divisor_of(at) === null ? "" : `, trained with ÷ ${short(own)}`}`);
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
    const {run, at, now, writes, writing} = side, step = step_of(run), own = seen(run) !== run.snapshots;
    const sample = (run.samples ?? []).findLast(sample => sample.step <= step), divided = divisor_of(at);
    side.a = attend_chosen(run, divided);
    side.image.setAttribute("href", picture(side.a));
    side.figure.classList.toggle("current", at === state.setting);
    now.textContent = divided === null ? "" : `, now ÷ ${short(divided)}`;
    side.loss.textContent = run.lost ?? (own && divided !== null ? "" : loss_words(run, at, step));
    side.figures.textContent = `${step === state.step ? "" : `step ${step}: `}entropy ${fixed(side.a.entropy, 2)} · ` +
        `std of scores ${short(side.a.deviation, 2)}`;
    writes.textContent = sample ? `${divided === null ? "" : "as trained, "}writes at step ${sample.step}:` : "";
    writing.textContent = sample ? plain(sample.text).trim() : "";
    writing.hidden = !sample;
    update_division(side);
    draw_histogram(side, run, settings[at].color,
        run.keys["attention.score"] === "additive" ? "score" : `÷ ${short(Math.abs(1 / side.a.multiplier))}`);
}
function update_thumbs(run) {
    const {layers, heads} = run.snapshots, made = `${runs.indexOf(run)},${layers.length * heads > THUMBS ? state.layer : ""}`;
    if ($("heads").dataset.made !== made) make_thumbs(run);
    $("heads").dataset.made = made;
    for (const {button, image, words, layer, head} of thumbs) {
        const each = attend(run, nearest(run), layer, head, divisor_of(state.setting)), job = job_of(run, each);
        image.src = picture(each);
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
    $("step-value").textContent = state.step;
    $("step").hidden = all_steps.length === 1;
    $("play").hidden = all_steps.length === 1 && source === recorded;
    Object.assign($("step"), {max: all_steps.length - 1, value: step_at()});
    $("step").setAttribute("aria-valuetext", `step ${state.step}`);
    const own = trained_divisor(run), divided = divisor_of(state.setting);
    $("rescored").textContent = divided === null ? "" : `The trained model with its scores ÷ ${short(divided)} instead of ÷ ${short(own)}: ` +
        "not a model that was trained with that divisor.";
    $("loss-value").textContent = run.result === "finished" || source !== recorded ? "" :
        `${run.result}: step ${run.metrics_table.step?.at(-1)} of ${run.keys["train.steps"]}`;
    panel_chart?.();
}
/* Makes the chart of the panel: the losses of all models, and where the reader is. */
function make_panel_chart() {
    const lines = (column, more) => settings.map(s => ({...series_of(s, column), band: null, ...more}));
    const pale = settings.length > SIDES ? [] : lines("train_loss", {pale: true, label: null});
    const validation = lines("val_loss", {dots: true}), starts = [...pale, ...validation].map(s => s.points[0]?.[1]).filter(finite);
    $("losses").replaceChildren();
    panel_chart = chart($("losses"), {title: "Validation loss", name: "losses", x: "", y: "", height: 118, covers: true, limit: 1.05 * Math.max(...starts),
        series: [...pale, ...validation], marks: () => [...settings.flatMap(s => s.moves ?? []), {x: state.step, now: true}]});
}
let panel_chart = null;
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
        step: state.step, divisor: divisor_of(state.setting) && number(divisor_of(state.setting)), query: state.locked ? state.query : null,
        key: state.locked ? state.key : null, text: text.typed};
    return Object.entries(parts).filter(part => part[1] !== null)
        .map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
}
/* Writes the view into the address, a moment after the last change: a browser refuses too many in a row. */
function note_view() {
    clearTimeout(noting);
    if (source !== recorded) return;
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
        step: all_steps[nearest_of(all_steps, number("step", state.step))],
        query: whole("query", state.query), key: whole("key", state.key), locked: given.has("query")});
    settings.forEach((setting, i) => { setting.divisor_now = i === state.setting && divisor > 0 ? divisor : null; });
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
    if (step_at() < all_steps.length - 1) return;
    stop();
    if (data.why) summarize(data.why);
}
function play_steps() {
    if (playing !== null) return stop();
    if (less_motion.matches) return next_step();
    playing = setInterval(next_step, 800);
    $("play").textContent = "stop";
    next_step();
}
/* Says in a sentence what was seen, once the training has ended. */
function summarize(words) {
    $("summary").textContent = plain(words);
}
/* Space plays wherever the focus is, except in a field of text and on what Space works itself. */
function play_by_key(event) {
    if (event.key === "Escape" && state.locked) choose(state, true);
    const other = event.target.closest("button, select, textarea, summary, input:not([type=range])");
    if (event.key !== " " || other || $("play").hidden || event.ctrlKey || event.altKey || event.metaKey) return;
    if (!event.repeat) source.play();
    event.preventDefault();
}
