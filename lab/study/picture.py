"""Draws a picture of page.py: lines with bands, in the colours of the program's own pictures."""
import re
from pathlib import Path
from statistics import geometric_mean, mean

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

PALETTE = Path(__file__).resolve().parents[2] / "src/show/palette.c"


# As matplotlib has them: a circle, or a regular polygon's corners and the turn of a corner from the top.
CIRCLE, DIAMOND, SQUARE = "o", (4, 0, 0), (4, 0, 45)
TRIANGLE, TRIANGLE_DOWN, TRIANGLE_LEFT = (3, 0, 0), (3, 0, 60), (3, 0, 90)
# In the order of PALETTE; the markers of numbers are hollow, but for the first triangle to the left.
MARKERS = [TRIANGLE, CIRCLE, DIAMOND, SQUARE, TRIANGLE_DOWN,
           CIRCLE, SQUARE, TRIANGLE, DIAMOND, TRIANGLE_DOWN, TRIANGLE_LEFT, TRIANGLE_LEFT]
FILLED = 10


def palette():
    """The styles of the named divisors, and those of anything else."""
    row = r'\{(?:NULL|"(\w+)"), \{(\d+), (\d+), (\d+)\}\}'
    named, others = {}, []
    rows = re.findall(row, PALETTE.read_text(encoding="utf-8"))
    for i, ((name, red, green, blue), marker) in enumerate(zip(rows, MARKERS, strict=True)):
        color = [int(part) / 255 for part in (red, green, blue)]
        style = {"color": color, "marker": marker, "markerfacecolor": color if name or i == FILLED else "white"}
        if name:
            named[name] = style
        else:
            others.append(style)
    return named, others


def label_ends(axes, ends):
    """Writes each line's label behind its end, moved up or down where another one is in the way; above the end of a line
    that ends before the others, which could cross a label behind it."""
    axes.figure.subplots_adjust(left=0.12, right=0.96 - 0.0125 * max(len(text) for _, _, text, _ in ends), top=0.86)
    last = max(end[0] for end in ends)
    for x, y, text, color in ends:
        if x < last:
            axes.annotate(text, (x, y), xytext=(0, 9), textcoords="offset points", ha="center", color=color)
    ends = sorted((end for end in ends if end[0] == last), key=lambda end: end[1])
    own = [axes.transData.transform(end[:2])[1] * 72 / axes.figure.dpi for end in ends]
    places = list(own)
    for _ in range(100):
        for i in range(1, len(places)):
            overlap = max(0, 13 - (places[i] - places[i - 1]))
            places[i - 1], places[i] = places[i - 1] - overlap / 2, places[i] + overlap / 2
    for (x, y, text, color), place, start in zip(ends, places, own):
        offset = {"xytext": (12, place - start), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(text, (x, y), va="center", color=color, **offset)


def draw(path, title, subtitle, x_label, y_label, scales, x_text, zero, levels, marks, stars, lines):
    """lines: (named divisor or None, label, [(x, values)]); levels: (label, y, label of the line whose colour it has or
    None) of level lines; zero: draw one there; marks: (x, word); stars: (x, y)."""
    named, others = palette()
    middle = geometric_mean if scales[1] == "log" else mean
    figure, axes = pyplot.subplots(figsize=(7.2, 4.5), dpi=160)
    ends, unnamed = [], 0
    for divisor, label, points in lines:
        style = named.get(divisor)
        if not style:
            style, unnamed = others[unnamed % len(others)], unnamed + 1
        xs, values = zip(*points)
        axes.fill_between(xs, list(map(min, values)), list(map(max, values)), color=style["color"], alpha=0.15, lw=0)
        axes.plot(xs, list(map(middle, values)), linewidth=1.6, markersize=6, clip_on=False, **style)
        ends.append([xs[-1], middle(values[-1]), label, style["color"]])
    colors = {label: color for _, _, label, color in ends}
    last = max(x for x, _, _, _ in ends)
    for label, y, line in levels:
        axes.axhline(y, color=colors.get(line, "0.45"), linewidth=0.8, linestyle=(0, (4, 3)))
        ends.append([last, y, label, colors.get(line, "0.35")])
    if zero:
        axes.axhline(0, color="black", linewidth=0.6)
    for x, word in marks:
        axes.axvline(x, color="0.45", linewidth=0.8, linestyle=":")
        side = {"xytext": (-3, -9), "ha": "right"} if x == max(marks)[0] else {"xytext": (3, -9)}
        axes.annotate(word, (x, 1), xycoords=("data", "axes fraction"), textcoords="offset points", color="0.35", **side)
    if stars:
        axes.plot(*zip(*stars), linestyle="", marker="*", markersize=15, color="black", zorder=5)
    axes.set_xscale(scales[0])
    axes.set_yscale(scales[1])
    axes.margins(x=0.01)
    if marks:
        axes.margins(y=0.08)
    ticks = sorted({x for _, _, points in lines for x, _ in points})
    if len(ticks) > 9 and scales[0] == "log" and ticks[-1] <= 64 * ticks[0]:
        ticks = [2.0**power for power in range(-9, 9) if ticks[0] <= 2.0**power <= ticks[-1]]
    if len(ticks) <= 12:
        axes.set_xticks(ticks, [x_text(x) for x in ticks])
        axes.minorticks_off()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(0, 1.09, title, transform=axes.transAxes, size=12)
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, size=9, color="0.35")
    label_ends(axes, ends)
    figure.savefig(path)
    pyplot.close(figure)
