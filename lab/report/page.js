/* The sections of the page, and the start. */

/* --- words and tables */
const interval = i => i?.n ? fixed(i.mean) + (i.n > 1 ? ` ± ${fixed(i.half)}` : "") : "–";
/* A table; numbers are aligned to the right, unless `left`. */
function table(head, rows, left = false) {
    const cell = (content, i) => i === 0 ? el("th", {scope: "row"}, content) :
        el("td", {class: !left && /^[-+–\d.]/.test(content) ? "number" : null}, content);
    return scrolling(el("table", {},
        el("thead", {}, el("tr", {}, head.map(words => el("th", {scope: "col"}, words)))),
        el("tbody", {}, rows.map(row => el("tr", {}, row.map(cell))))));
}
/* Says what a single run trained, and how it ended. */
function run_words(run) {
    const keys = run.keys, d = run.description || {}, steps = run.metrics_table.step?.at(-1) ?? 0;
    const corpus = (keys["data.corpus"] || "").replace(/^"|"$/g, "").replace(/^.*\//, "") || "the built-in text";
    return [`${plural(+keys["model.layers"], "layer")} of ${plural(+keys["model.heads"], "head")}, `,
        `d_k ${run.d_k}, `, d.parameters ? `${d.parameters.toLocaleString("en")} parameters, ` : "",
        `trained for ${plural(steps, "step")} of ${optimizers[keys["train.optimizer"]]} on `,
        `${recalls.length ? "recall" : corpus}, seed ${keys["train.seed"]}. Result: ${run.result}${d.error ? `: ${d.error}` : ""}. `,
        finite(d.best_val_loss) ? `Lowest validation loss: ${fixed(d.best_val_loss)}, at step ${d.best_step}. ` : ""].join("");
}
const links_of = setting => setting.runs.map(i => {
    const run = runs[i], words = `seed ${run.keys["train.seed"]}: ${run.result} `;
    return run.path ? el("a", {href: run.path.split("/").map(encodeURIComponent).join("/")}, words) : words;
});
function show_settings() {
    const sweep = data.kind === "sweep", keys = sweep ? [] : differing_keys();
    const counted = `${plural(settings.length, "setting")}, ${plural(runs.length, "run")}. `;
    $("settings").firstElementChild.textContent = data.kind === "run" ? "Results" : "Settings";
    $("words").textContent = plain(data.kind === "run" ? run_words(runs[0]) : counted) +
        (mixed ? "Losses of a text are in nats per character, those of recall per answer; they cannot be compared." :
        `Losses are in nats per ${unit} over the validation split.`) + band_words;
    const arrow = (first, last, text) => `${text(first.mean)} → ${text(last.mean)}`;
    const value = (s, key) => runs[s.runs[0]].keys[key] ?? "–";
    const columns = [["setting", s => with_color("span", s, s.label)],
        ...sweep ? [["n", s => String(s.val_loss.n)]] : [], ["validation loss", s => interval(s.val_loss)],
        ...mixed ? [["nats per", s => value(s, "data.task") === "recall" ? "answer" : "character"]] : [],
        ...recalls.length ? [["accuracy", s => fixed(series_of(s, "val_accuracy").points.at(-1)?.[1])]] : [],
        ...sweep ? [["against ÷ √d_k", s => (s.difference?.mean >= 5e-5 ? "+" : "") + interval(s.difference)]] : [],
        ["lowest", s => interval(s.best_val_loss)],
        ["entropy, first → last", s => arrow(s.entropy_first, s.entropy_last, x => fixed(x, 3))],
        ["score std, first → last", s => arrow(s.score_std_first, s.score_std_last, even)],
        ["runs", links_of], ...keys.map(key => [key_name(key), s => number_text(value(s, key))])];
    const rows = () => [["setting", ...keys, "n", "val_loss", "half", "difference", "difference_half"],
        ...settings.map(s => [s.label, ...keys.map(key => runs[s.runs[0]].keys[key] ?? ""), s.val_loss.n,
            s.val_loss.mean, s.val_loss.half, s.difference?.mean, s.difference?.half])];
    const how = "How to read this: " + (sweep ? "n runs finished; ± is half a 95 % interval over seeds (Student's t). " +
        "Against ÷ √d_k: the difference of validation losses, taken seed by seed between runs that share " +
        "everything but the divisor. " : "") + "Entropy is 1 for uniform attention and 0 where one key has all the " +
        "weight. It and the standard deviation of the scores are means over all heads.";
    $("settings").append($("why"), $("words"), table(columns.map(c => c[0]), settings.map(s => columns.map(c => c[1](s)))),
        save_buttons("settings", null, rows), el("p", {class: "how"}, how));
}

/* --- the sections of the page */
const ngram_levels = losses => losses.map((y, i) =>
    ({y, label: `${["characters", "pairs", "triples", "4-grams"][i]}: ${y.toFixed(2)}`}));
function show_losses() {
    const pairs = new Set(recalls.map(run => run.keys["data.recall_pairs"])), single = settings.length === 1;
    const starts = runs.map(run => run.metrics_table).flatMap(m => [m.val_loss?.[0], m.train_loss?.[0]]).filter(finite);
    const pale = settings.length > 6 ? [] : settings.map(s => ({...series_of(s, "train_loss"), band: null, pale: true,
        ...single ? {label: "training (one batch)", color: "#8c8c8c"} : {label: null}}));
    const validation = settings.map(s => ({...series_of(s, "val_loss"), dots: true}));
    const tables = ngram_levels(data.ngram_losses || []);
    if (single) validation[0].label = "validation";
    chart($("loss"), {title: `Validation loss${pale.length ? " and, pale, training loss of single batches" : ""}`,
        how: `the mean of −ln p(next ${unit}); lower is better${!mixed && pairs.size === 1 ? `, and guessing costs ln ${[...pairs]}` : ""}. ` +
            `Point at the curves for values.${band_words}` + (tables.length ? " The thin lines are the losses of tables " +
            "counted on the training text, of single characters, pairs, triples and 4-grams." : ""),
        name: "loss", x: "step", y: `loss (nats per ${unit})`, limit: starts.length ? 1.2 * Math.max(...starts) : NaN, levels: tables,
        series: [...pale, ...validation]});
}
/* For each chart: column, title, words of the y axis, how to read it, whether logarithmic. */
const measures = () => [
    ...recalls.length ? [["val_accuracy", "Accuracy", "share of right answers", "of the validation split's answers."]] : [],
    ["entropy", "Entropy of attention", "entropy / ln(keys)", "1 is uniform, 0 one-hot; the mean over rows."],
    ["score_std", "Standard deviation of the scores", "standard deviation",
        "how far apart the scores are before softmax; 1 is what dividing by √d_k aims at.", true],
    ["max_weight", "Largest weight of a row", "mean largest weight", "the most that a query gives to one key."],
    ["saturated", "Saturated rows", "share of rows", "rows with a weight above 0.99; little gradient passes them."],
    ["grad_q_median", "Gradient of a query", "median of |dL/dq|", "the signal by which training moves the queries.", true],
    ["grad_scores_median", "Gradient of a row's scores", "median of |dL/ds|", "small where softmax saturates.", true],
    ["qk_norm", "Size of the query and key weights", "|W_Q| |W_K|", "larger weights make larger scores.", true],
    ["grad_norm", "Gradient norm", "norm before clipping", "of all parameters, for one batch.", true]];
/* The curves of a single run: a series for each head, or where these are too many, for each layer. */
function series_of_heads(run) {
    const {layer = [], head = []} = run.heads_table, style = i => ({color: data.palette[i % data.palette.length],
        dash: i >= data.palette.length ? 4 : 0});
    const heads = [...new Set(layer.map((l, i) => `${l},${head[i]}`))].map(name => name.split(",").map(Number));
    if (heads.length <= data.palette.length)
        return heads.map(([l, h], i) =>
            ({...style(i), label: `layer ${l}, head ${h}`, taken: (a, b) => a === l && b === h}));
    return [...new Set(layer)].map((l, i) => ({...style(i), label: `layer ${l}, mean of heads`, taken: a => a === l}));
}
function show_training() {
    const several = settings.length > 1, lines = several ? settings : series_of_heads(runs[0]);
    const box = el("div", {class: "small"}), legend = lines.map(line => with_color("li", line, line.label));
    $("training").append(lines.length > 5 ? el("ul", {class: "legend"}, legend) : "", box);
    for (const [column, title, y, how, log_y] of measures()) {
        const whole = runs[0].metrics_table[column]; /* not by head */
        const series = several ? settings.map(s => series_of(s, column)) :
            whole ? [{label: title, color: data.palette[0], points: curve(runs[0], column)}] :
            lines.map(l => ({...l, points: curve(runs[0], column, l.taken)}));
        chart(box, {title: title + (several && !whole ? ", mean over heads" : ""), how, name: column, x: "step", y,
            log_y, small: true, series});
    }
}
/* The keys of the config that differ between the runs, with all their values. */
const differences = (keys = differing_keys()) => keys.length === 0 ? "" : el("details", {id: "differences"},
    el("summary", {}, `What differs between the configs: ${keys.join(", ")}`),
    table(["run", ...keys], runs.map(run => [run.name, ...keys.map(key => run.keys[key] ?? "–")]), true));
/* run.json and config.ini, of the sweep or of each run. */
function show_setup() {
    const all = data.kind === "sweep" ? [{...data, name: data.title}] : runs;
    const shorter = value => typeof value === "number" ? exact(value) : value;
    const entry = value => typeof value === "object" ? JSON.stringify(value, (_, part) => shorter(part)) :
        String(shorter(value) ?? "–");
    const described = all.map(run => ({...run.description, ...run.description?.machine}));
    const keys = [...new Set(described.flatMap(Object.keys))].filter(key => key !== "machine" && key !== "runs");
    const rows = keys.map(key => [key, ...described.map(d => entry(d[key]))]);
    $("setup").append(table(["key", ...all.map(run => run.name)], rows, true), differences(), ...all.filter(run => run.config).map(run =>
        el("details", {}, el("summary", {}, `${run.name}: config.ini`), el("pre", {}, run.config))));
}
const root = document.documentElement;
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
$("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });
/* Several runs that are compared are summarized as a sweep is: the lowest and the highest loss. */
function heading() {
    const ended = settings.filter(s => finite(s.val_loss?.mean)).sort((a, b) => a.val_loss.mean - b.val_loss.mean);
    const accuracy = data.kind === "run" ? curve(runs[0], "val_accuracy").at(-1) : null;
    if (accuracy) return `${data.heading}, accuracy ${fixed(accuracy[1], 3)}`;
    if (data.kind !== "runs" || data.lesson || mixed || ended.length < 2) return data.heading ?? "";
    const words = s => `${fixed(s.val_loss.mean, 3)} for ${s.label}`;
    return `${data.heading}: validation loss ${words(ended[0])} to ${words(ended.at(-1))}`;
}
const parts = {settings: show_settings, loss: show_losses, attention: show_attention, training: show_training, setup: show_setup};
let showings = 0;
/* Shows these data or, with an argument, other data in their place, a part at a time. */
function show_page(other) {
    const showing = ++showings, later = other ? act => setTimeout(() => showing === showings && act()) : act => act();
    Object.assign(data, other);
    if (other) read_runs();
    $("notes").before($("why"), $("words"));
    for (const section of document.querySelectorAll("main > section:not(#attention)"))
        section.replaceChildren(section.firstElementChild);
    document.title = `${data.title}: sqrtdk`;
    $("title").textContent = plain(heading());
    $("why").textContent = plain(data.why || "");
    if (!other) summarize(data.says ?? "");
    $("notes").textContent = data.notes.join(" ");
    const show_part = (id, show) => {
        try {
            show();
        } catch (error) {
            ($(id) ?? $("setup")).append(el("p", {class: "lost"}, `This part cannot be shown: ${damaged(error)}.`));
        }
    };
    for (const [id, show] of Object.entries(parts)) later(() => show_part(id, show));
    later(() => drawings.forEach(later));
}
if (data.kind === "runs") $("training").before($("attention")); /* what differs comes first */
show_page();
for (const section of document.querySelectorAll("main > section"))
    document.querySelector("nav").append(el("a", {href: `#${section.id}`}, section.firstElementChild.textContent));
$("unscripted").remove();
addEventListener("resize", () => drawings.forEach(draw => draw()));
