/* The guided mode: the lesson of a page that trains (data.lesson), or on the page of a sweep with ÷ 1 and ÷ √d_k three stops
   of lab/docs/lesson.md. There the reader predicts what is covered, losses and triangles of a view that is set as by a link.
   "reveal" says what came out. */
function lesson_stops() {
    if (data.lesson) return data.lesson.map(stop => ({...stop, answer: () => stop.compare}));
    const find = divisor => settings.findIndex(s => run_of(s)?.keys["attention.scale_divisor"] === divisor);
    const root = find("sqrt_dk"), one = find("none"), last = all_steps.at(-1), both = [one, root];
    const value = (i, column, at) => short(series_of(settings[i], column).points.at(at)?.[1], 3);
    const said = (column, at) => both.map(i => `${settings[i].label}: ${value(i, column, at)}`).join(", ");
    if (one < 0 || root < 0) return [];
    return [{view: `model=${root}&step=0`, ask: "The models begin with the same random weights, and a query has no reason to " +
        "prefer a key. In which triangles will a row have one or two bright cells, and in which will it be even?",
        answer: () => `The standard deviation of the scores is ${said("score_std", 0)}. The entropy of a row, 1 if it is even, ` +
        `is ${said("entropy", 0)}. Without a division most of a row's weight is on few keys before training, and random weights chose them.`},
    {view: `model=${root}&step=${last}`, ask: "All models are trained alike. Which of them will write words at the end, and " +
        "which will have the highest loss?",
        answer: () => `Validation loss: ${settings.map(s => `${s.label} ${fixed(s.val_loss.mean, 2)}`).join(", ")}. The median ` +
        `gradient of a row's scores was, at the end, ${said("grad_scores_median", -1)}: where one key has all the weight, ` +
        "hardly any gradient reaches the scores. Space plays the steps."},
    {view: `model=${root}&step=${last}&divisor=1`, ask: `Take the model that was trained with ${settings[root].label}, and ` +
        "divide its scores by 1 now. Will its loss be that of the model that was trained with ÷ 1?",
        answer: () => `That model has ${fixed(settings[one].val_loss.mean, 2)}. ` + "The curve beside the slider has its loss at each divisor; it is lowest near the trained one. The slider " +
        "changes a finished model. To know how a model learns with a divisor, one must train it."}];
}
function show_guide() {
    const button = (words, act, id) => el("button", {type: "button", onclick: act, id}, words);
    const part = (name, words) => words ? el("p", {}, el("b", {}, name), words) : "";
    const show = (at, revealed) => {
        const stops = lesson_stops(), stop = stops[at];
        $("guide").hidden = !stop;
        root.classList.toggle("covered", Boolean(stop?.view) && !revealed);
        if (!stop) return;
        if (stop.view) show_view(stop.view);
        $("guide").replaceChildren(part(`${at + 1} of ${stops.length}. ${stop.title ?? ""} Predict: `, stop.ask), part("Do: ", stop.act),
            revealed ? part("Compare: ", stop.answer()) : "", revealed ? button(at + 1 < stops.length ? "next" : "end", () => show(at + 1)) :
            button("reveal", () => show(at, true)), " ", button("leave", () => show(-1)));
        $("guide").focus();
    };
    if (lesson_stops().length) $("theme").before(button("lesson", () => show(0), "lesson"));
}
