/* Training in the page: four lanes, each a worker that trains one model (lane.js). A lane is a setting of the page with its
   run. They grow while it trains, and the panel shows them as it shows a recorded training. */
const live_parts = JSON.parse(document.getElementById("live").textContent); /* module, worker, corpus, presets */
const ARMS = settings.map(({color, runs: [i]}) => ({color, name: runs[i].keys["attention.scale_divisor"]}));
const REDRAW = 130, SHARE = 8; /* milliseconds between two drawings, and at least SHARE times what one takes */
const AHEAD = 20, KEPT = 250; /* steps that a lane may be ahead of the slowest; losses of batches that are kept */
const TEXT_LIMIT = 4e6; /* bytes of a file to learn */
/* `coming` are lanes whose models are being made; the others stay until then, also if a config is refused. */
const training = {lanes: [], coming: null, runs_next: false, running: false, seed: 1, timer: 0, next: 0};
const rate_factor = () => 2 ** Number($("rate").value);
const live = {play: run_or_pause, divide, read: read_typed};

/* --- lanes and their workers */
/* The words and the number that a lane divides by at first; d_k is the config's. */
function first_divisor(name) {
    const keys = read_ini($("config").value), d_k = Number(keys["model.d_k"] ?? keys["model.d_model"] / (keys["model.heads"] ?? 1)) || 64;
    const [words, divisor] = {none: ["", 1], sqrt_dk: ["√d_k = ", Math.sqrt(d_k)], "2sqrt_dk": ["2√d_k = ", 2 * Math.sqrt(d_k)],
        dk: ["d_k = ", d_k]}[name];
    return {divisor, label: `÷ ${words}${short(divisor, 3)}`};
}
function make_lane({name, color}, i) {
    const run = {name, result: "running", trains: true, metrics: "step,train_loss,val_loss", samples: [], model: {step: 0}};
    const lane = {name, run, step: 0, done: false, why: el("div")};
    const save_run = el("button", {type: "button", onclick: () => send(lane, {do: "take", folder: folder_of(lane), corpus: $("corpus").value})},
        "save this run");
    lane.setting = {...first_divisor(name), color, runs: [i], dash: 0, moves: [], more: [el("p", {class: "saves"}, save_run), lane.why]};
    lane.setting.first_label = lane.setting.label;
    return lane;
}
const folder_of = lane => `${lane.name}_seed${training.seed}`;
const send = (lane, message) => lane?.worker?.postMessage(message);
const tell = message => training.lanes.forEach(lane => send(lane, message));
/* The module and the built-in text are compressed (gzip). */
async function unpacked(text) {
    const stream = new Blob([bytes_of(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
const live_module = unpacked(live_parts.module), live_corpus = unpacked(live_parts.corpus).then(b => new TextDecoder().decode(b));
async function start_worker(lane) {
    const module = await live_module, corpus = $("corpus").value || await live_corpus;
    if (!training.coming?.includes(lane)) return;
    const source = new Blob([live_parts.worker], {type: "text/javascript"}), address = URL.createObjectURL(source);
    lane.worker = new Worker(address);
    URL.revokeObjectURL(address);
    lane.worker.onmessage = ({data: message}) => hear(lane, message);
    const keys = `[attention]\nscale_divisor = ${lane.name}\n[train]\nseed = ${training.seed}\n`;
    send(lane, {do: "make", module, config: `${$("config").value.trimEnd()}\n${keys}`, corpus});
    if (rate_factor() !== 1) send(lane, {do: "rate", factor: rate_factor()});
}
const stop_workers = lanes => lanes?.forEach(lane => lane.worker?.terminate());
/* Makes the models anew, at step 0. */
function start(run) {
    stop();
    stop_workers(training.coming);
    if (training.running) end();
    Object.assign(training, {coming: ARMS.map(make_lane), runs_next: run});
    say("Making four models.");
    training.coming.forEach(start_worker);
}
function say(words, failed = false) {
    summarize(words);
    $("summary").classList.toggle("failed", failed);
}

/* --- what a lane says */
/* Notes a number of a step, in place of one that was noted before. */
function note({metrics_table: table}, step, column, value) {
    if (table.step.at(-1) !== step) for (const [key, numbers] of Object.entries(table)) numbers.push(key === "step" ? step : NaN);
    table[column][table.step.length - 1] = value;
}
/* Adds an item of a step to a list, in place of one of the same step. */
const put = (list, item) => list.splice(list.at(-1)?.step === item.step ? list.length - 1 : list.length, 1, item);
function hear(lane, message) {
    const {run, setting} = lane, {step} = message;
    lane.step = step;
    if (message.error) return fail(message);
    if (message.made) {
        const {last, baselines, config, vocabulary, shown} = message.made;
        Object.assign(lane, {last, baselines});
        Object.assign(run, {config, snapshots: {text: Array.from(shown), steps: [], at: []}, metrics_table: read_csv(run.metrics)});
        run.model.vocabulary = vocabulary;
    }
    for (const [at, loss] of message.progress ?? [])
        if (at % Math.ceil(lane.last / KEPT) === 0) note(run, at, "train_loss", loss);
    if (message.diverged) run.lost = "diverged: the loss is not finite";
    lane.done ||= message.done || message.diverged;
    if (message.evaluation) note(run, step, "val_loss", message.evaluation);
    if (message.sample !== undefined) put(run.samples, {step, text: message.sample});
    if (message.moved) {
        if (step > 0) put(setting.moves, {x: step, step});
        setting.label = step > 0 ? `${setting.first_label}, ÷ ${short(message.moved, 3)} since step ${step}` : `÷ ${short(message.moved, 3)}`;
    }
    if (message.moved || message.progress) run.trains = true; /* what the page has of the model is of an earlier one */
    if (message.look) hear_look(run, message);
    if (message.run && !training.running) {
        const {model, ...files} = message.run;
        const none = {decoder: null, reading: null, trained: null, divided: null, curve: null, curving: null, windows: [], trains: false};
        Object.assign(run, files, none, {model, metrics_table: read_csv(files.metrics)});
        text.shown = null;
        lane.why.replaceChildren(el("details", {}, el("summary", {}, "what the divisor did, in sentences"),
            message.why.split("\n\n").map(paragraph => el("p", {}, paragraph))));
        if (training.lanes.every(other => !other.run.trains)) show_trained();
    }
    if (message.compared) say(message.compared);
    if (message.zip) save(`${message.folder}.zip`, "application/zip", message.zip);
    keep_together();
    if (training.running && training.lanes.every(other => other.done)) end();
    training.timer ||= setTimeout(draw, Math.max(0, training.next - performance.now()));
}
/* Adds a snapshot to the run, and the attention and the losses of a text that was typed. */
function hear_look(run, {step, look, read: typed}) {
    const {snapshots: s} = run, layers = [...Array(look.layers).keys()];
    const shot = ({scores, multiplier, sink}) => ({step, scores, multiplier, sink});
    put(s.at, shot(look));
    Object.assign(s, {steps: s.at.map(at => at.step), T: look.T, heads: look.heads, layers});
    run.model.step = step;
    run.read = undefined;
    if (!run.trains || !typed || typed.text !== known_text()) return; /* of an older text, or of a model that the page has */
    const {T, V, heads} = typed, characters = Array.from(typed.text), ids = characters.map(c => model_of(run).ids.get(c));
    const logits = ids.map((_, t) => typed.logits.subarray(t * V, (t + 1) * V));
    run.read = {steps: [step], layers, heads, T, text: characters, at: [shot(typed)]};
    run.read.trained = run.read;
    run.reading = {ids, logits};
    run.losses = [...Array(shown_text(run).length - T + 1).fill(NaN), ...ids.slice(1).map((id, t) => cross_entropy(logits[t], id))];
}
/* A config or a text that is refused ends the start, a failed step the training; another mistake ends nothing. */
function fail({error, refused, failed}) {
    if (refused) {
        stop_workers(training.coming);
        training.coming = null;
    } else if (failed && training.running) end();
    say(error, true);
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

/* --- what the page shows of them */
/* Draws what has come. The panel follows the last step that all lanes have a look at, unless the reader chose another. */
function draw() {
    const began = performance.now();
    training.timer = 0;
    if (training.coming?.every(({run}) => run.samples.length && run.snapshots?.at.length)) open_lanes();
    const all = training.lanes.map(({run}) => run), follows = state.step === all_steps.at(-1);
    if (!all.length) return;
    all_steps = all[0].snapshots.steps.filter(step => all.every(run => run.snapshots.steps.includes(step)));
    if (follows) state.step = all_steps.at(-1);
    show_buttons();
    make_panel_chart();
    update();
    training.next = performance.now() + Math.max(REDRAW, (SHARE - 1) * (performance.now() - began));
}
/* Puts new models into the panel, in place of what it showed. */
function open_lanes() {
    stop_workers(training.lanes);
    Object.assign(training, {lanes: training.coming, coming: null});
    source = live;
    state.chosen ??= {layer: state.layer, head: state.head};
    Object.assign(data, {kind: "runs", title: "live", why: "", notes: [], ngram_losses: training.lanes[0].baselines, opens_at: -1,
        runs: training.lanes.map(lane => lane.run), settings: training.lanes.map(lane => lane.setting)});
    say("Press train, or Space.");
    read_runs();
    show_attention();
    if (text.typed !== null) read_typed();
    if (training.runs_next) run_or_pause();
}
/* Pauses, and asks for the models as they are now. */
function end() {
    training.running = false;
    tell({do: "pause"});
    for (const lane of training.lanes) send(lane, {do: "report", folder: folder_of(lane)});
}
/* Shows the rest of the page, of the models as they are now. */
function show_trained() {
    const one = mean => ({n: finite(mean) ? 1 : 0, mean}), {lanes} = training;
    if (lanes.every(lane => lane.done)) state.chosen = null;
    read_runs();
    for (const {setting, run} of lanes) {
        const {description: d} = run, of = column => curve(run, column).map(point => point[1]);
        Object.assign(setting, {divisor: setting.label, val_loss: one(d.val_loss), best_val_loss: one(d.best_val_loss),
            entropy_first: one(of("entropy")[0]), entropy_last: one(of("entropy").at(-1)),
            score_std_first: one(of("score_std")[0]), score_std_last: one(of("score_std").at(-1))});
    }
    if (lanes.every(lane => lane.done))
        send(lanes[0], {do: "compare", runs: lanes.map(({setting: {label}, run: {config, metrics, attention}}) => ({label, config, metrics, attention}))});
    show_page({});
}
function show_buttons() {
    const {lanes, running} = training, trains = source === live;
    for (const id of ["one", "again", "another"]) $(id).hidden = !trains;
    $("train").hidden = trains;
    if (trains) $("play").textContent = running ? "pause" : "train";
    root.classList.toggle("training", trains && (running || lanes.some(lane => lane.run.trains)));
    $("step-words").textContent = trains ? `of ${lanes[0].last}` : "";
}

/* --- what the reader does */
function run_or_pause() {
    if (training.lanes.every(lane => lane.done)) return say("All steps are done: start again makes new models.");
    for (const lane of training.lanes) lane.waits = undefined;
    training.running = !training.running;
    if (training.running) tell({do: "run"});
    else end();
    say(training.running ? "Space pauses. A divisor can be moved while its model learns." : "Paused, and the page is of these models. Space goes on.");
    show_buttons();
}
/* Divides by another number from the lane's next step on. */
function divide(at, divisor) {
    settings[at].divisor_asked = divisor;
    choose_setting(at);
    send(training.lanes[at], {do: "divide", divisor});
    update();
}
/* Shows the attention of a text that was typed, once the typing rests. The models write it on. */
function read_typed() {
    clearTimeout(training.typing);
    training.typing = setTimeout(() => tell({do: "read", text: known_text()}), 250);
}
/* What the models know of the text that was typed, as much of its end as the context holds. */
function known_text() {
    const [{run}] = training.lanes, known = text.typed === null ? [] : ids_of(run).slice(-run.keys["model.context"]);
    return known.map(id => model_of(run).characters[id]).join("");
}
/* A preset is a link: #preset=NAME. */
function follow_preset() {
    const preset = live_parts.presets.find(({id}) => location.hash === `#preset=${id}`);
    if (!preset) return;
    $("config").value = preset.config;
    start(false);
}
async function read_file() {
    const [file] = $("file").files;
    if (!file) return;
    try {
        if (file.size > TEXT_LIMIT) throw `has ${short(file.size / 1e6, 3)} MB: this page learns texts of up to ${TEXT_LIMIT / 1e6} MB, ./train longer ones`;
        $("corpus").value = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
        say(`${file.name} is learned from the next start on.`);
    } catch (why) {
        $("file").value = "";
        say(`${file.name} ${typeof why === "string" ? why : "is not a text in UTF-8: save it in this encoding, and choose it again"}.`, true);
    }
}
const button = (id, words, act) => el("button", {id, type: "button", onclick: act}, words);
$("buttons").append(button("train", "train it yourself", () => start(true)), button("one", "one step", () => tell({do: "one"})),
    button("again", "start again, same seed", () => start(false)),
    button("another", "another seed", () => {
        training.seed++;
        start(false);
    }), button("settings-shown", "settings", () => { $("choices").hidden = !$("choices").hidden; }));
$("presets").append(...live_parts.presets.map(({id, name, says}) => el("li", {}, el("a", {href: `#preset=${id}`}, name), `: ${says}`)));
$("config").value = live_parts.presets[0].config;
$("file").addEventListener("change", read_file);
control("rate", () => {
    $("rate-value").textContent = short(rate_factor(), 3);
    $("rate").setAttribute("aria-valuetext", `times ${short(rate_factor(), 3)}`);
    tell({do: "rate", factor: rate_factor()});
});
addEventListener("hashchange", follow_preset);
show_buttons();
follow_preset();
