/* The page of theory: figures of random queries and keys against d_k, a line for each way to score. */
function show_theory() {
    const [names, ...lines] = data.theory.trimEnd().split("\n").map(line => line.split(","));
    const rows = lines.map(line => Object.fromEntries(names.map((name, i) => [name, line[i]])));
    rows.sort((a, b) => a.d_k - b.d_k);
    const way_of = row => row.score === "dot" ? row.divisor : row.score, ways = [...new Set(rows.map(way_of))];
    const labels = {none: "÷ 1", sqrt_dk: "÷ √d_k", dk: "÷ d_k", "2sqrt_dk": "÷ 2√d_k",
        additive: "additive", cosine: "cosine · √d_k", sink: "sink, ÷ √d_k", softcap: "softcap 30"};
    const others = ways.filter(way => !data.divisors[way]), n = +rows[0].keys, section = $("loss");
    for (const id of ["settings", "attention", "training"]) $(id).remove();
    section.id = "figures";
    section.firstChild.textContent = "Before training, against d_k";
    $("title").textContent = `Attention of random queries and keys: d_k ${rows[0].d_k} to ${rows.at(-1).d_k}, ` +
        `${plural(n, "key")}, ${rows[0].samples} samples each`;
    $("words").textContent = "No model, no training: a query q and its keys k have independent N(0, 1) entries, and the " +
        "loss L is a random linear one on the weights. A score is q·k, divided (÷), or another: additive, v·tanh(q + k); " +
        "cosine, √d_k q·k / (|q| |k|); sink, with one more key of score and value 0; softcap, 30 tanh(q·k / 30).";
    section.append(el("p", {class: "how"}, "All lines share their samples. Other ways to score are dashed. Bands, two " +
        "standard errors either way, may be thinner than a line."));
    const figures = [
        ["score_var", "Variance of the scores", "variance", "of what softmax gets: d_k undivided, 1 after ÷ √d_k.", true],
        ["entropy", "Entropy of a row", "entropy (nats)", `ln ${n} = ${short(Math.log(n))} is uniform, 0 one-hot.`],
        ["max_weight", "Largest weight of a row", "mean weight", `1/${n} = ${short(1 / n)} is uniform, 1 one-hot.`],
        ["grad_q_median", "Gradient of the query: median", "median |dL/dq|", "half of the rows have less.", true],
        ["grad_q_mean", "Gradient of the query: mean", "mean |dL/dq|",
            "the few rows whose two largest scores are nearly equal hold it up where the median falls.", true]];
    for (const [column, title, y, how, log_y] of figures) {
        const shown = row => !log_y || row[column] > 0, at = (row, se) => row[column] - -se * row[`${column}_se`];
        const series = ways.map(way => {
            const own = rows.filter(row => way_of(row) === way && shown(row)), other = others.indexOf(way);
            return {label: labels[way] || way, color: data.divisors[way] || data.others[other % data.others.length],
                dash: other < 0 ? 0 : 6, dots: true, points: own.map(row => [+row.d_k, at(row, 0)]),
                band: own.map(row => [+row.d_k, log_y && at(row, -2) <= 0 ? NaN : at(row, -2), at(row, 2)])};
        });
        const zeros = [...new Set(rows.filter(row => !shown(row)).map(row => labels[way_of(row)]))];
        chart(section, {title, name: column, x: "d_k", y, log_x: true, log_y, series,
            how: how + (zeros.length ? ` Missing where zero: ${zeros.join(", ")}.` : "")});
    }
}
