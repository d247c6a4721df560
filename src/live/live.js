/* The section "Train it here": four lanes, each a worker that trains one model (lane.js), and what they say. */
const live_parts = JSON.parse(document.getElementById("live").textContent); /* module, worker, corpus, presets */
const DIVISORS = [["none", "undivided", 1], ["sqrt_dk", "÷ √d_k", .5], ["2sqrt_dk", "÷ 2√d_k", .5], ["dk", "÷ d_k", 1]];
const REDRAW = 130, SHARE = 8; /* milliseconds between two drawings, each of one chart, and at least SHARE times what one takes */
const POINTS = 200; /* of a curve, at most */
const AHEAD = 20; /* steps that a lane may be ahead of the slowest */
/* `back` is the step that is looked back at; Infinity: the lanes show what they do now. */
const training = {lanes: [], running: false, seed: 1, baselines: [], turn: 0, next: 0, timer: 0, back: Infinity};
/* The value of a curve, or what was kept, at the step that is shown or the last one before it. */
const shown_of = points => (points.findLast(([step]) => step <= training.back) ?? points[0])?.[1];
const rate_factor = () => 2 ** Number($("train-rate").value);
/* Keys of a config's text; a later section of the same name adds to the first. */
const live_keys = () => read_ini($("train-config").value);
const with_keys = (text, keys) => `${text.trimEnd()}\n` + Object.entries(keys)
    .map(([key, value]) => `[${key.split(".")[0]}]\n${key.split(".")[1]} = ${value}\n`).join("");
/* The number that a lane divides by at first; d_k is the config's. */
function first_divisor([name]) {
    const keys = live_keys(), d_k = Number(keys["model.d_k"] ?? keys["model.d_model"] / (keys["model.heads"] ?? 1)) || 64;
    return {none: 1, sqrt_dk: Math.sqrt(d_k), "2sqrt_dk": 2 * Math.sqrt(d_k), dk: d_k}[name];
}
/* The colour that this divisor has below, on the page of the trained models. */
const color_of_divisor = (name, i) =>
    settings.find(s => runs[s.runs[0]].keys["attention.scale_divisor"] === name)?.color ?? data.palette[i];
function make_lane(choice, i) {
    const [name, words] = choice, color = color_of_divisor(name, i), lane = {name, words, color, divisor: first_divisor(choice),
        losses: [], evaluations: [], entropy: [], deviation: [], triangles: [], writings: [], moves: [], step: 0, done: false};
    for (const part of ["title", "loss", "figures", "speed"]) lane[part] = el("p", {class: part});
    lane.title = el("output");
    lane.writing = el("pre", {"aria-label": "what the model writes"});
    lane.canvas = el("canvas", {width: 1, height: 1, role: "img", "aria-label": `attention of the model ${words}`});
    lane.slider = el("input", {type: "range", min: 0, max: Math.log(512), step: .01, value: Math.log(lane.divisor),
        "aria-label": `divisor of the model that began ${words}`, oninput: () => divide(lane)});
    lane.element = el("div", {class: "lane", style: `--of: ${color}`}, el("h3", {}, words, lane.title), lane.slider,
        lane.canvas, lane.loss, lane.figures, lane.writing, lane.speed, el("p", {class: "saves"},
            el("button", {type: "button", onclick: () => take(lane)}, "take it away")));
    name_divisor(lane);
    return lane;
}
/* Asks for the lane's run as a directory of ./train in a .zip, with the charts and the lane's triangle as pictures. */
function take(lane) {
    const large = el("canvas", {width: 480, height: 480}), context = large.getContext("2d"), names = ["loss", "entropy", "score_std"];
    context.imageSmoothingEnabled = false;
    context.drawImage(lane.canvas, 0, 0, 480, 480);
    const charts = [...$("train-charts").querySelectorAll("figure:has(svg)")].map((figure, i) => ({name: `${names[i]}.svg`,
        bytes: new TextEncoder().encode(svg_text(figure.querySelector("svg"), figure.firstChild.textContent))}));
    send(lane, {do: "take", folder: `${lane.name}_seed${training.seed}`, corpus: $("train-corpus").value, more: [...charts,
        {name: "attention.png", bytes: new Uint8Array(bytes_of(large.toDataURL().split(",")[1]))}]});
}
function name_divisor(lane) {
    const moved = lane.moves.at(-1);
    lane.title.textContent = moved ? ` — ÷ ${short(lane.divisor, 3)} since step ${moved.step}` : ` (÷ ${short(lane.divisor, 3)})`;
}
const send = (lane, message) => lane.worker?.postMessage(message);
/* Divides by another number from the lane's next step on. */
function divide(lane) {
    const chosen = Math.exp(lane.slider.value), near = DIVISORS.map(first_divisor).find(d => Math.abs(chosen / d - 1) < .04);
    lane.divisor = near ?? Number(chosen.toPrecision(3));
    if (!lane.worker) start(false);
    send(lane, {do: "divide", divisor: lane.divisor});
    draw_lanes();
}
async function start_worker(lane) {
    const module = await live_module, corpus = $("train-corpus").value || await live_corpus;
    const source = new Blob([live_parts.worker], {type: "text/javascript"}), address = URL.createObjectURL(source);
    lane.worker = new Worker(address);
    URL.revokeObjectURL(address);
    lane.worker.onmessage = ({data: message}) => hear(lane, message);
    const keys = {"attention.scale_divisor": lane.name, "train.seed": training.seed};
    send(lane, {do: "make", module, config: with_keys($("train-config").value, keys), corpus,
        text: $("train-text").value, prompt: $("train-prompt").value});
    if (rate_factor() !== 1) send(lane, {do: "rate", factor: rate_factor()});
}
/* The module and the built-in text are compressed (gzip). */
async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
const live_module = unpacked(live_parts.module), live_corpus = unpacked(live_parts.corpus).then(b => new TextDecoder().decode(b));
/* Makes the models anew. */
function start(run) {
    for (const lane of training.lanes) lane.worker?.terminate();
    training.lanes = DIVISORS.map(make_lane);
    Object.assign(training, {running: run, back: Infinity});
    fail("");
    $("lanes").replaceChildren(...training.lanes.map(lane => lane.element));
    for (const lane of training.lanes) {
        start_worker(lane).then(() => run && send(lane, {do: "run"}));
    }
    show_running();
}
function fail(words) {
    $("train-words").textContent = words;
    $("train-words").classList.toggle("failed", words !== "");
}
/* Adds a point to a curve. Of a long curve every second point stays, so that an hour's is drawn as fast as a minute's. */
function keep(points, point) {
    points.push(point);
    if (points.length > POINTS) points.splice(0, points.length, ...points.filter((_, i) => i % 2 === 0));
}
function hear(lane, message) {
    lane.step = message.step;
    if (message.error) {
        training.running = false;
        fail(message.error);
        for (const other of training.lanes) send(other, {do: "pause"});
        show_running();
    }
    if (message.made) {
        training.baselines = message.baselines;
        $("train-last").textContent = message.last;
    }
    if (message.progress) {
        for (const point of message.progress) keep(lane.losses, point);
        const now = performance.now(), since = lane.since ?? {time: now, step: lane.step};
        if (now - since.time > 1000) {
            lane.speed.textContent = `${((lane.step - since.step) / (now - since.time) * 1000).toFixed(1)} steps per second`;
            lane.since = {time: now, step: lane.step};
        } else lane.since = since;
        lane.done ||= message.done || message.diverged;
        if (message.diverged) lane.speed.textContent = "diverged: the loss is not finite";
    }
    if (message.moved) {
        lane.moves = [...lane.moves.filter(move => move.step !== message.step), {step: message.step, divisor: message.moved}];
        name_divisor(lane);
    }
    if (message.zip) save(`${message.folder}.zip`, "application/zip", message.zip);
    if (message.evaluation) keep(lane.evaluations, [message.step, message.evaluation.loss]);
    if (message.sample !== undefined) keep(lane.writings, [message.step, plain(message.sample)]);
    if (message.attention) {
        const {layers, heads, T, weights} = message.attention, at = (layers * heads - 1) * T * T;
        keep(lane.triangles, [message.step, {T, w: weights.slice(at, at + T * T)}]); /* of the last layer's last head */
        keep(lane.entropy, [message.step, message.statistics.entropy]);
        keep(lane.deviation, [message.step, message.statistics.score_std]);
    }
    keep_together();
    if (training.lanes.every(other => other.done)) training.running = false;
    training.timer ||= setTimeout(draw_in_turn, Math.max(0, training.next - performance.now()));
}
/* Draws one of the charts, since all of them would take too long for a page that is to listen meanwhile. */
function draw_in_turn() {
    const began = performance.now();
    training.timer = 0;
    show_running();
    draw_lanes(training.turn++ % 3);
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
    const steps = training.lanes.map(lane => lane.step), cores = navigator.hardwareConcurrency ?? 1;
    $("train-step").textContent = steps.length ? Math.min(...steps) : 0;
    $("train-run").textContent = training.running ? "pause" : "train";
    if (training.running && !$("train-words").classList.contains("failed"))
        $("train-words").textContent = cores < 4 ? `Four models share ${plural(cores, "processor")}.` : "";
    const last = Math.max(0, ...steps);
    Object.assign($("train-back"), {max: last, value: Math.min(training.back, last)});
    $("train-back-value").textContent = finite(training.back) ? `step ${training.back}` : "now";
    for (const lane of training.lanes) {
        const loss = shown_of(lane.evaluations), triangle = shown_of(lane.triangles);
        lane.loss.textContent = finite(loss) ? `loss ${fixed(loss, 2)}` : "–";
        lane.figures.textContent = `batch ${fixed(shown_of(lane.losses), 2)} · entropy ${fixed(shown_of(lane.entropy), 2)} · std of scores ${short(shown_of(lane.deviation), 2)}`;
        lane.writing.textContent = shown_of(lane.writings) ?? "";
        if (triangle && lane.painted !== triangle) paint(lane.canvas, lane.painted = triangle);
    }
}
function live_chart(holder, o) {
    o.series = o.series.filter(s => s.points.length);
    if (!o.series.length) return;
    const legend = make_legend(o), box = el("div");
    holder.replaceChildren(el("h3", {}, o.title), box, legend.element);
    box.append(draw_chart(o, clamp(holder.clientWidth || 560, 280, 1100), legend.show));
}
/* Draws one of the charts; without a number all of them. */
function draw_lanes(only) {
    const lines = (values, more = {}) => training.lanes.map(lane => ({label: lane.words, color: lane.color,
        points: lane[values], ...more}));
    const tables = training.baselines.map((y, i) => ({y, label: `${["characters", "pairs", "triples", "4-grams"][i]}: ${y.toFixed(2)}`,
        short: y.toFixed(2)}));
    const marks = () => [...training.lanes.flatMap(lane => lane.moves.map(move => ({x: move.step}))),
        ...finite(training.back) ? [{x: training.back, now: true}] : []];
    const first = Math.max(...training.lanes.map(lane => lane.evaluations[0]?.[1] ?? 0));
    const charts = [() => ({title: "Validation loss", y: "loss (nats per character)", levels: tables,
        limit: first ? 1.1 * first : NaN, series: lines("evaluations", {dots: true})}),
    () => ({title: "Entropy of attention", y: "entropy / ln(keys)", series: lines("entropy")}),
    () => ({title: "Standard deviation of the scores", y: "standard deviation", log_y: true, series: lines("deviation")})];
    charts.forEach((chart, i) => (only ?? i) === i && live_chart($("train-charts").children[i], {x: "step", marks, ...chart()}));
}
function run_or_pause() {
    if (!training.lanes.length || training.lanes.every(lane => lane.done)) return start(true);
    training.running = !training.running;
    for (const lane of training.lanes) {
        lane.since = lane.waits = undefined;
        send(lane, {do: training.running ? "run" : "pause"});
    }
    show_running();
}
function choose_preset() {
    const preset = live_parts.presets[$("train-preset").value];
    $("train-config").value = preset.config;
    $("train-text").value = preset.text;
    for (const lane of training.lanes) lane.worker?.terminate();
    training.lanes = [];
    $("train-step").textContent = 0;
}
$("train-charts").append(...[1, 2, 3].map(() => el("figure")));
$("train-preset").append(...live_parts.presets.map((preset, i) => el("option", {value: i}, preset.name)));
$("train-preset").addEventListener("change", choose_preset);
choose_preset();
$("train-run").addEventListener("click", run_or_pause);
$("train-again").addEventListener("click", () => { training.seed++; start(true); });
$("train-one").addEventListener("click", () => {
    if (!training.lanes.length) return start(false);
    for (const lane of training.lanes) send(lane, {do: "one"});
});
$("train-rate").addEventListener("input", () => {
    const before = training.factor ?? 1;
    training.factor = rate_factor();
    $("train-rate-value").textContent = short(training.factor, 3);
    for (const lane of training.lanes) send(lane, {do: "rate", factor: training.factor / before});
});
$("train-back").addEventListener("input", () => {
    const {value, max} = $("train-back");
    training.back = value === max ? Infinity : Number(value);
    show_running();
    draw_lanes();
});
$("train-text").addEventListener("change", () => training.lanes.forEach(lane => send(lane, {do: "read", text: $("train-text").value})));
$("train-prompt").addEventListener("change", () => training.lanes.forEach(lane => send(lane,
    {do: "write", prompt: $("train-prompt").value, count: 160, temperature: 1, seed: 1})));
$("train-file").addEventListener("change", async () => { $("train-corpus").value = await $("train-file").files[0].text(); });
document.addEventListener("keydown", event => {
    if (event.key !== " " || event.target.closest("button, select, textarea, summary, a, input:not([type=range])")) return;
    if (event.target.closest("#attention")) return;
    run_or_pause();
    event.preventDefault();
    event.stopImmediatePropagation();
}, true);
addEventListener("resize", () => draw_lanes());
