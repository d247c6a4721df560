/* Charts. One is {title, how, name (of its files), x, y (words of the axes), at (what stands before the x that is read;
   else x), first (the x that is read first), series, log_y, limit (values above it are drawn at the edge), log_x, least
   (of the range of the y axis), height, small, levels: [{label, y}], thin lines to compare with, marks: a function that
   gives [{x, now}], upright lines, of which `now` is where the reader is, covers: whether what comes after it is covered}; a series {label, color, dash, points,
   band: [[x, low, high]], pale, dots}. */
let drawings = []; /* a function for each chart of the page, which draws it as wide as its column is */
/* The colour of a curve, chosen for white paper, and for a dark page the same, lighter. */
function tint(color) {
    const lighter = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16)).map(c => Math.round(c + .5 * (255 - c)));
    return `--of: ${color}; --lit: rgb(${lighter})`;
}
const with_color = (name, {color, dash}, ...children) =>
    el(name, {style: tint(color)}, el("i", {class: dash ? "dashed" : null}), ...children);
function ticks(low, high, log) {
    const found = [], rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(m => m * power >= rough) * power;
    if (log)
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
            found.push(...(high / low > 1000 ? [1] : [1, 2, 5]).map(m => Number(`${m}e${e}`)));
    else
        for (let i = Math.ceil(low / step); i <= high / step + 1e-6; i++) found.push(+(i * step).toPrecision(12));
    return found.filter(tick => tick >= low - step / 1e6 && tick <= high + step / 1e6);
}
/* A function from values to places between `from` and `to`. What is beyond the range of `values`, which is at least
   `least`, is at the edge. */
function make_scale(values, log, from, to, least = 0) {
    let low = Math.min(...values), high = Math.max(...values);
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(low) / 2];
    const map = log ? Math.log : x => x, slope = (to - from) / (map(high) - map(low));
    return Object.assign(x => from + (map(clamp(x, low, high)) - map(low)) * slope, {ticks: ticks(low, high, log)});
}
/* The axes; `left` has room for the labels of y. Of labels of x that would touch, the later ones are left out. */
function draw_axes(svg, o, x, y, {W, H, left, right, top, bottom}) {
    const line = (kind, d) => el("path", {class: kind, d});
    let end = -Infinity;
    for (const tick of x.ticks) {
        const half = 3.8 * short(tick, 7).length;
        svg.append(line("grid", `M${x(tick)} ${top}V${H - bottom}`));
        if (x(tick) - half < end + 6) continue;
        svg.append(label(x(tick), H - bottom + 16, short(tick, 7)));
        end = x(tick) + half;
    }
    for (const tick of y.ticks)
        svg.append(line("grid", `M${left} ${y(tick)}H${W - right}`), label(left - 6, y(tick) + 4, short(tick, 7), "end"));
    svg.append(line("axis", `M${left} ${top}V${H - bottom}H${W - right}`));
    if (o.x) svg.append(label((left + W - right) / 2, H - 6, o.x));
    if (o.y) svg.append(el("text", {transform: `translate(13 ${(top + H - bottom) / 2}) rotate(-90)`, "text-anchor": "middle"}, o.y));
}
function draw_series(s, x, y) {
    const path = points => points.map(p => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L");
    const group = el("g", {style: tint(s.color)}), band = (s.band || []).filter(b => finite(b[1]) && finite(b[2]));
    if (band.length) {
        const there = path(band.map(b => [b[0], b[2]])), back = path(band.map(b => [b[0], b[1]]).reverse());
        group.append(el("path", {class: "band", d: `M${there}L${back}Z`}));
    }
    group.append(el("path", {class: s.pale ? "curve pale" : "curve", d: `M${path(s.points)}`,
        "stroke-dasharray": s.dash ? `${s.dash} ${s.dash / 2}` : null}));
    if (s.dots || s.points.length < 2)
        group.append(...s.points.map(p => el("circle", {class: "dot", r: 3, cx: x(p[0]), cy: y(p[1])})));
    return group;
}
/* The levels, from the highest down, each with its label right of the plot, and lower where it would cover another. */
function draw_levels(levels, y, from, to) {
    let lowest = -Infinity;
    return levels.map(level => {
        lowest = Math.max(y(level.y), lowest + 15);
        return el("g", {class: "level"}, el("path", {d: `M${from} ${y(level.y)}H${to}L${to + 8} ${lowest}`}),
            label(to + 11, lowest + 4, level.label, "start"));
    });
}
/* Draws a chart that is `W` wide. `show` gets the x that the mouse or the arrow keys choose. */
function draw_chart(o, W, show) {
    const H = o.height ?? Math.round(clamp(.42 * W, 260, 420)), top = 10, bottom = o.x ? 42 : 22;
    const points = o.series.flatMap(s => s.points), bands = o.series.flatMap(s => s.band || []);
    const heights = [...points, ...bands].flatMap(p => p.slice(1)).filter(y => finite(y) && !(y > o.limit));
    const [low, high] = [Math.min(...heights), Math.max(...heights)];
    const reach = low - .05 * (high - low), room = .03 * (high - low);
    const levels = (o.levels || []).filter(level => level.y >= reach && level.y <= high).sort((a, b) => b.y - a.y);
    const right = Math.max(22, ...levels.map(level => 16 + 6.9 * level.label.length));
    const log_y = o.log_y && low > 0 && high > 10 * low;
    const y = make_scale([...heights, ...levels.map(level => level.y - room)], log_y, H - bottom, top, o.least);
    const left = (o.y ? 30 : 12) + 7.6 * Math.max(...y.ticks.map(tick => short(tick, 7).length));
    const x = make_scale(points.map(p => p[0]), o.log_x, left, W - right), marks = o.marks?.() ?? [];
    const now = marks.find(mark => mark.now), stops = [...new Set(points.map(p => p[0]))].sort((a, b) => a - b);
    if (o.log_x) x.ticks = o.marks ? marks.filter(mark => !mark.now).map(mark => mark.x) : stops;
    const svg = el("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img",
        "aria-label": `${o.title}; the arrow keys move along the curves`}), cursor = el("path", {class: "cursor"});
    draw_axes(svg, {...o, y: o.y && o.y + (log_y ? " (logarithmic)" : "")}, x, y, {W, H, left, right, top, bottom});
    svg.append(...draw_levels(levels, y, left, W - right), ...o.series.map(s => draw_series(s, x, y)),
        ...o.covers ? [el("rect", {class: "later", x: x(now.x) + 4, y: 0, width: W, height: H - bottom - 1})] : [],
        ...marks.map(mark =>
            el("path", {class: mark.now ? "mark now" : "mark", d: `M${x(mark.x)} ${H - bottom}V${top}`})), cursor);
    let chosen = now || o.first ? nearest_of(stops, now?.x ?? o.first) : stops.length - 1;
    const choose = i => {
        chosen = clamp(i, 0, stops.length - 1);
        show(stops[chosen]);
        cursor.setAttribute("d", `M${x(stops[chosen])} ${top}V${H - bottom}`);
    };
    svg.addEventListener("pointermove", event => {
        const box = svg.getBoundingClientRect();
        choose(nearest_of(stops.map(x), (event.clientX - box.left) / box.width * W));
    });
    svg.addEventListener("keydown", event => {
        const move = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
        if (!move) return;
        choose(chosen + move);
        event.preventDefault();
    });
    show(stops[chosen]);
    return svg;
}
/* The legend, with the values of the curves at one x, or at the nearest x that a curve has. */
function make_legend(o) {
    const labelled = o.series.filter(s => s.label), values = labelled.map(() => el("strong")), at = el("strong");
    const list = el("ul", {class: "legend"}, labelled.map((s, i) => with_color("li", s, `${s.label}: `, values[i])));
    const folded = o.small && labelled.length > 5;
    if (!folded) list.prepend(el("li", {}, at));
    const show = x => {
        at.textContent = `${o.at ?? o.x} ${short(x)}:`;
        labelled.forEach((s, i) => {
            const n = nearest_of(s.points.map(p => p[0]), x), [at, value] = s.points[n], band = s.band?.[n];
            values[i].textContent = `${short(value)}` +
                (band && finite(band[1]) ? ` (${short(band[1])} to ${short(band[2])})` : "") +
                (at === x ? "" : ` at ${o.x} ${short(at)}`);
        });
    };
    return {show, element: folded ? el("details", {class: "legend"}, el("summary", {}, at, " values"), list) : list};
}
/* Adds a chart to an element. Returns the function that draws it, again when its points have changed. */
function chart(parent, o) {
    o.series = o.series.filter(s => s.points.length);
    const figure = el("figure", {}, el("h3", {}, o.title), o.how ? el("p", {class: "how"}, `How to read this: ${o.how}`) : null);
    parent.append(figure);
    if (!o.series.length) return figure.append(el("p", {}, "No numbers yet."));
    const holder = el("div"), legend = make_legend(o);
    const row = s => (p, i) => [s.label || "training", ...p, ...s.band?.[i].slice(1) ?? ["", ""]];
    const rows = () => [["series", "x", "y", "low", "high"], ...o.series.flatMap(s => s.points.map(row(s)))];
    figure.append(holder, legend.element, save_buttons(o.name, () => holder.firstChild, rows,
        () => `${data.title}: ${o.title}`));
    const draw = () => holder.replaceChildren(draw_chart(o, clamp(holder.clientWidth, 200, 1600), legend.show));
    drawings = [...drawings.filter(other => other.holder.isConnected), Object.assign(draw, {holder})];
    return draw;
}
