/* The lesson of a page that trains (data.lesson): at each stop the reader predicts, does what it says, and compares. */
function show_guide() {
    const button = (words, act) => el("button", {type: "button", onclick: act}, words);
    const part = (name, words) => el("p", {}, el("b", {}, name), words);
    const show = (at, revealed) => {
        const stop = data.lesson[at];
        $("guide").hidden = !stop;
        if (!stop) return;
        $("guide").replaceChildren(part(`${at + 1} of ${data.lesson.length}. ${stop.title} Predict: `, stop.ask), part("Do: ", stop.act),
            revealed ? part("Compare: ", stop.compare) : "", revealed ? button(at + 1 < data.lesson.length ? "next" : "end", () => show(at + 1)) :
            button("reveal", () => show(at, true)), " ", button("leave", () => show(-1)));
        $("guide").focus();
    };
    if (data.lesson) $("theme").before(el("button", {type: "button", id: "lesson", onclick: () => show(0)}, "lesson"));
}
