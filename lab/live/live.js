/* The section "Train it here": four lanes, each a worker that trains one model (lane.js), and what they say. */
const live_parts = JSON.parse(document.getElementById("live").textContent); /* module, worker, corpus, presets */
const DIVISORS = [["none", "undivided"], ["sqrt_dk", "÷ √d_k"], ["2sqrt_dk", "÷ 2√d_k"], ["dk", "÷ d_k"]];
const REDRAW = 130, SHARE = 8; /* milliseconds between two drawings, each of one chart, and at least SHARE times what one takes */
const POINTS = 200; /* of a curve, at most */
const AHEAD = 20; /* steps that a lane may be ahead of the slowest */
const training = {lanes: [], running: false, seed: 1, baselines: [], charts: [], turn: 0, next: 0, timer: 0};
const last_of = points => points.at(-1)?.[1];
const rate_factor = () => 2 ** Number($("train-rate").value);
/* The number that a lane divides by at first; d_k is the config's. */
function first_divisor([name]) {
    const keys = read_ini($("train-config").value), d_k = Number(keys["model.d_k"] ?? keys["model.d_model"] / (keys["model.heads"] ?? 1)) || 64;
    return {none: 1, sqrt_dk: Math.sqrt(d_k), "2sqrt_dk": 2 * Math.sqrt(d_k), dk: d_k}[name];
}
function make_lane(choice, i) {
    const [name, words] = choice, {color} = settings[i], lane = {name, words, color, divisor: first_divisor(choice),
        losses: [], evaluations: [], entropy: [], deviation: [], writings: [], moves: [], step: 0, done: false};
    for (const part of ["loss", "figures", "speed", "why"]) lane[part] = el("div", {class: part});
    lane.title = el("output");
    lane.writing = el("pre", {"aria-label": "what the model writes"});
    lane.canvas = el("canvas", {width: 1, height: 1, role: "img", "aria-label": `attention of the model ${words}`});
    lane.slider = el("input", {type: "range", min: 0, max: Math.log(512), step: .01, value: Math.log(lane.divisor),
        "aria-label": `divisor of the model that began ${words}`, oninput: () => divide(lane)});
    lane.element = el("div", {class: "lane", style: `--of: ${color}`}, el("h3", {}, words, lane.title), lane.slider,
        lane.canvas, lane.loss, lane.figures, lane.writing, lane.speed, el("p", {class: "saves"},
            el("button", {type: "button", onclick: () => take(lane)}, "take it away")), lane.why);
    return lane;
}
/* Asks for the lane's run as a directory of ./train in a .zip. */
const take = lane => send(lane, {do: "take", folder: folder_of(lane), corpus: $("train-corpus").value});
const folder_of = lane => `${lane.name}_seed${training.seed}`;
const send = (lane, message) => lane.worker?.postMessage(message);
const tell = message => training.lanes.forEach(lane => send(lane, message));
/* Divides by another number from the lane's next step on. */
function divide(lane) {
    const chosen = Math.exp(lane.slider.value), near = DIVISORS.map(first_divisor).find(d => Math.abs(chosen / d - 1) < .04);
    lane.divisor = near ?? Number(chosen.toPrecision(3));
    if (!lane.worker) start(false);
    send(lane, {do: "divide", divisor: lane.divisor});
}
async function start_worker(lane) {
    const module = await live_module, corpus = $("train-corpus").value || await live_corpus;
    if (!training.lanes.includes(lane)) return;
    const source = new Blob([live_parts.worker], {type: "text/javascript"}), address = URL.createObjectURL(source);
    lane.worker = new Worker(address);
    URL.revokeObjectURL(address);
    lane.worker.onmessage = ({data: message}) => hear(lane, message);
    const keys = `[attention]\nscale_divisor = ${lane.name}\n[train]\nseed = ${training.seed}\n`;
    send(lane, {do: "make", module, config: `${$("train-config").value.trimEnd()}\n${keys}`, corpus,
        text: $("train-text").value, prompt: $("train-prompt").value});
    if (rate_factor() !== 1) send(lane, {do: "rate", factor: rate_factor()});
    if (training.running) send(lane, {do: "run"});
}
/* The module and the built-in text are compressed (gzip). */
async function unpacked(text) {
    const stream = new Blob([bytes_of(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
const live_module = unpacked(live_parts.module), live_corpus = unpacked(live_parts.corpus).then(b => new TextDecoder().decode(b));
/* Makes the models anew. */
function start(run) {
    stop_lanes();
    Object.assign(training, {lanes: DIVISORS.map(make_lane), running: run, charts: []});
    say("");
    $("lanes").replaceChildren(...training.lanes.map(lane => lane.element));
    training.lanes.forEach(start_worker);
    show_running();
}
function say(words, failed = false) {
    $("train-words").textContent = words;
    $("train-words").classList.toggle("failed", failed);
}
/* Adds a point to a curve. Of a long curve every second point stays, so that an hour's is drawn as fast as a minute's. */
function keep(points, point) {
    points.push(point);
    if (points.length > POINTS) points.splice(0, points.length, ...points.filter((_, i) => i % 2 === 0));
}
function hear(lane, message) {
    if (message.reading) return Object.assign(lane.asked, message);
    lane.step = message.step;
    if (message.error) return fail(message);
    if (message.made) {
        training.baselines = message.baselines;
        $("train-last").textContent = message.last;
    }
    if (message.progress) {
        for (const point of message.progress) keep(lane.losses, point);
        const now = {time: performance.now(), step: lane.step}, {time, step} = lane.since ??= now;
        if (now.time - time > 1000) {
            lane.speed.textContent = `${((now.step - step) / (now.time - time) * 1000).toFixed(1)} steps per second`;
            lane.since = now;
        }
        lane.done ||= message.done || message.diverged;
        if (message.diverged) lane.speed.textContent = "diverged: the loss is not finite";
    }
    if (message.moved)
        lane.moves = [...lane.moves.filter(move => move.step !== message.step), {step: message.step, divisor: message.moved}];
    if (message.progress || message.moved) { /* what was reported is of the model before */
        lane.held = null;
        lane.why.replaceChildren();
    }
    if (message.run) {
        lane.run = lane.held = message.run;
        lane.why.replaceChildren(el("details", {}, el("summary", {}, "what the divisor did, in sentences"),
            message.why.split("\n\n").map(paragraph => el("p", {}, paragraph))));
        if (training.lanes.every(other => other.run)) show_trained();
    }
    if (message.zip) save(`${message.folder}.zip`, "application/zip", message.zip);
    if (message.evaluation) keep(lane.evaluations, [message.step, message.evaluation.loss]);
    if (message.sample !== undefined) keep(lane.writings, [message.step, plain(message.sample)]);
    if (message.attention) {
        const {T, weights} = message.attention;
        lane.triangle = {T, w: weights.subarray(-T * T)}; /* of the last layer's last head */
        keep(lane.entropy, [message.step, message.statistics.entropy]);
        keep(lane.deviation, [message.step, message.statistics.score_std]);
    }
    if (!training.charts.length && training.lanes.every(other => other.evaluations.length && other.entropy.length)) make_charts();
    keep_together();
    if (training.running && training.lanes.every(other => other.done)) end();
    training.timer ||= setTimeout(draw_in_turn, Math.max(0, training.next - performance.now()));
}
/* A config or a text that is refused ends the start, so that the next one makes new models; a failed step pauses. */
function fail({error, refused, failed}) {
    if (refused) stop_lanes();
    if (failed && training.running) end();
    say(error, true);
    show_running();
}
function stop_lanes() {
    for (const lane of training.lanes) lane.worker?.terminate();
    Object.assign(training, {lanes: [], running: false});
}
/* Pauses, and asks for the models as they are now. */
function end() {
    training.running = false;
    for (const lane of training.lanes) lane.run = null;
    tell({do: "pause"});
    for (const lane of training.lanes) send(lane, {do: "report", folder: folder_of(lane)});
}
/* Reads as `read` of decoder.js does, in the lane's worker while its model is the report's. Yields true where it waits.
   A divisor that the program refuses is left to decoder.js: the error would end the model. */
const read_in = (lane, run) => function* (r, ids, divisor) {
    if (r.weights && r.divisor === divisor && r.ids.join() === ids.join()) return r;
    const {characters, heads, W} = r.model, may = divisor === null || (divisor >= 1e-6 && divisor <= 1e6 && !W["h.0.attn.scale"]);
    const held = () => ids.length && may && lane.held === run && training.lanes.includes(lane);
    const asked = {do: "decode", text: ids.map(id => characters[id]).join(""), divisor: divisor ?? 0};
    while (held() && lane.asked && !lane.asked.reading) yield true;
    if (held()) send(lane, lane.asked = asked);
    while (held() && !asked.reading) yield true;
    if (!held()) return yield* read(r.weights ? make_reading(r.model, divisor) : r, ids, divisor);
    const {T, V, scores, weights, logits} = asked.reading, row = (i, q) => scores.subarray((i * T + q) * T, (i * T + q) * T + q + 1);
    return {...r, ids, divisor, weights, logits: ids.map((_, t) => logits.subarray(t * V, (t + 1) * V)),
        heads: heads.map((all, l) => all.map((_, h) => ({raw: ids.map((_, q) => row(l * all.length + h, q))})))};
};
/* Shows these models in the report, in place of those before. */
function show_trained() {
    const one = mean => ({n: finite(mean) ? 1 : 0, mean});
    show_page({kind: "runs", heading: `Trained in this page, seed ${training.seed}`, why: "", ngram_losses: training.baselines,
        runs: training.lanes.map(lane => ({...lane.run, name: lane.words, read: read_in(lane, lane.run),
            samples: lane.writings.map(([step, text]) => ({step, text}))})),
        settings: training.lanes.map(({run: {description}, words, color, title, entropy, deviation}, i) => ({runs: [i], dash: 0,
            color, label: words + title.textContent, divisor: words, val_loss: one(description.val_loss),
            best_val_loss: one(description.best_val_loss), entropy_first: one(entropy[0][1]), entropy_last: one(last_of(entropy)),
            score_std_first: one(deviation[0][1]), score_std_last: one(last_of(deviation))}))});
    say("Below are these models now: their attention at each step, any text, any divisor.");
}
/* Draws one of the charts, since all of them would take too long for a page that is to listen meanwhile. */
function draw_in_turn() {
    const began = performance.now();
    training.timer = 0;
    show_running();
    training.charts[training.turn++ % 3]?.();
    training.next = began + Math.max(REDRAW, SHARE * (performance.now() - began));
    if (!training.running && training.turn % 3) training.timer = setTimeout(draw_in_turn); /* the last one is of all charts */
}
/* Keeps the lanes together: one that is ahead waits for the others. */
function keep_together() {
    const learning = training.lanes.filter(lane => !lane.done), slowest = Math.min(...learning.map(lane => lane.step));
    for (const lane of training.running ? learning : []) {
        const waits = lane.step > slowest + (lane.waits ? AHEAD / 2 : AHEAD);
        if (waits !== Boolean(lane.waits)) send(lane, {do: waits ? "pause" : "run"});
        lane.waits = waits;
    }
}
function show_running() {
    const steps = training.lanes.map(lane => lane.step);
    $("train-step").textContent = steps.length ? Math.min(...steps) : 0;
    $("train-run").textContent = training.running ? "pause" : "train";
    for (const lane of training.lanes) {
        const loss = last_of(lane.evaluations), moved = lane.moves.at(-1), divided = `÷ ${short(lane.divisor, 3)}`;
        lane.title.textContent = moved ? ` — ${divided} since step ${moved.step}` : ` (${divided})`;
        lane.loss.textContent = finite(loss) ? `loss ${fixed(loss, 2)}` : "–";
        lane.figures.textContent = `batch ${fixed(last_of(lane.losses), 2)} · entropy ${fixed(last_of(lane.entropy), 2)} · ` +
            `std of scores ${short(last_of(lane.deviation), 2)}`;
        lane.writing.textContent = last_of(lane.writings) ?? "";
        if (lane.painted !== lane.triangle) paint(lane.canvas, lane.painted = lane.triangle);
    }
}
/* Makes the charts, once each model has a point for each of them. */
function make_charts() {
    const {lanes, baselines} = training, first = lanes.map(lane => lane.evaluations[0][1]);
    const lines = (values, dots) => lanes.map(lane => ({label: lane.words, color: lane.color, points: lane[values], dots}));
    const marks = () => lanes.flatMap(lane => lane.moves.map(move => ({x: move.step})));
    const charts = [{title: "Validation loss", name: "loss", y: "loss (nats)", levels: ngram_levels(baselines),
        limit: 1.1 * Math.max(...first), series: lines("evaluations", true)},
    {title: "Entropy of attention", name: "entropy", y: "entropy / ln(keys)", series: lines("entropy")},
    {title: "Standard deviation of the scores", name: "score_std", y: "standard deviation", log_y: true, series: lines("deviation")}];
    $("train-charts").replaceChildren();
    training.charts = charts.map(o => chart($("train-charts"), {x: "step", marks, ...o}));
}
function run_or_pause() {
    if (!training.lanes.length || training.lanes.every(lane => lane.done)) return start(true);
    for (const lane of training.lanes) lane.since = lane.waits = undefined;
    if (training.running) end();
    else {
        training.running = true;
        say("");
        tell({do: "run"});
    }
    show_running();
}
function choose_preset() {
    const preset = live_parts.presets[$("train-preset").value];
    $("train-config").value = preset.config;
    $("train-text").value = preset.text;
    stop_lanes();
    show_running();
}
$("train-preset").append(...live_parts.presets.map((preset, i) => el("option", {value: i}, preset.name)));
$("train-preset").addEventListener("change", choose_preset);
choose_preset();
const cores = navigator.hardwareConcurrency;
if (cores < DIVISORS.length) $("train-cores").textContent = `Four models share ${plural(cores, "processor")}.`;
$("train-run").addEventListener("click", run_or_pause);
$("train-again").addEventListener("click", () => { training.seed++; start(true); });
$("train-one").addEventListener("click", () => training.lanes.length ? tell({do: "one"}) : start(false));
$("train-rate").addEventListener("input", () => {
    $("train-rate-value").textContent = short(rate_factor(), 3);
    tell({do: "rate", factor: rate_factor()});
});
$("train-text").addEventListener("change", () => tell({do: "read", text: $("train-text").value}));
$("train-prompt").addEventListener("change", () => tell({do: "write", prompt: $("train-prompt").value}));
$("train-file").addEventListener("change", async () => { $("train-corpus").value = await $("train-file").files[0].text(); });
document.addEventListener("keydown", event => {
    if (event.key !== " " || event.target.closest("#attention, button, select, textarea, summary, a, input:not([type=range])")) return;
    run_or_pause();
    event.preventDefault();
    event.stopImmediatePropagation();
}, true);
