"""Charts as SVG.

Each function returns a Chart, which renders as a <figure> of a page or as an SVG file, without scripts or external files. `note`
is a sentence below the chart about its sampling. Without data a sentence replaces the drawing. show.style.CSS is not needed.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from .escape import escape
from .figures import Bin, Figures, Point

WIDTH, HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 46
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LETTER = 8  # the approximate width of a letter
BLUE, ORANGE = "#3b82c4", "#c2631a"  # both have a contrast of 4 to 1 with a white page and with a dark one
INK, PAPER = "#1b1f24", "#ffffff"  # text and background of an SVG file, which cannot know its surrounding page
HEADING, LINE, CAPTION_LETTERS = 30, 18, 72  # in an SVG file: title height, caption line height, letters in a caption line


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing (SVG elements; empty without data), its caption as a sentence, and its numbers as an HTML table."""

    title: str
    sentence: str
    note: str
    drawing: str = ""
    numbers: str = ""

    def figure(self) -> str:
        """The chart as an element of a page."""
        view = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
        content = self._svg(view, self.drawing) + self.numbers if self.drawing else ""
        caption = f'<p class="nd-note">{escape(self._caption())}</p>'
        return f'<figure class="nd-chart"><figcaption>{escape(self.title)}</figcaption>{content}{caption}</figure>'

    def file(self) -> str:
        """The chart as an SVG file, including title and caption."""
        lines = textwrap.wrap(self._caption(), CAPTION_LETTERS)
        height = HEADING + HEIGHT + LINE * (len(lines) + 1)
        drawn = [
            f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
            f'<g font-weight="600">{text_at(LEFT, 22, self.title, "start")}</g>',
            f'<g transform="translate(0 {HEADING})">{self.drawing}</g>',
            '<g font-size="12">',
            *(text_at(LEFT, HEADING + HEIGHT + LINE * place, line, "start") for place, line in enumerate(lines, 1)),
            "</g>",
        ]
        view = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" color="{INK}"'
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + self._svg(view, "".join(drawn)) + "\n"

    def _caption(self) -> str:
        return f"{self.sentence} {self.note}".strip()

    def _svg(self, view: str, content: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" font-family="system-ui, sans-serif" font-size="14">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.sentence)}</desc>{content}</svg>"
        )


def histogram(bins: Sequence[Bin], threshold: float | None = None, note: str = "", of: str = "matches") -> Chart:
    """Matches by similarity, with the index's threshold. bins: adjacent (low, high, matches). of: the noun for the counts.

    >>> from neardup_db.show.charts import histogram
    >>> histogram([(0.8, 0.9, 3), (0.9, 1.0, 7)], threshold=0.8).drawing.count("<rect")
    2
    """
    title = f"Similarity of {of}"
    total = sum(count for _, _, count in bins)
    if not total:
        return Chart(title, "No matches are recorded." if of == "matches" else f"There are no {of}.", note)
    low, high = bins[0][0], bins[-1][1]
    scale = Scale(low, high, max(count for _, _, count in bins))
    drawn = [scale.grid(), "".join(scale.bar(begin, end, count, f"{begin:.3g} to {end:.3g}") for begin, end, count in bins)]
    drawn += [scale.label_below(place, f"{place:.3g}") for place in _ticks(low, high)]
    if threshold is not None and low <= threshold <= high:
        drawn.append(scale.upright(threshold, f"threshold {threshold:.3g}"))
    middle = next(begin for begin, _, _ in reversed(bins) if sum(count for at, _, count in bins if at >= begin) * 2 >= total)
    text = f"{total:,} {of} with a similarity of {low:.3g} to {high:.3g}; half of them have {middle:.3g} or more."
    table = _table(("similarity", of), [(f"{begin:.3g} to {end:.3g}", f"{count:,}") for begin, end, count in bins if count])
    return Chart(title, text, note, _drawing(drawn, "similarity"), table)


def sizes(bins: Sequence[Bin], note: str = "") -> Chart:
    """Clusters by size. bins: (smallest size, largest size, clusters), each twice as wide as the last.

    >>> from neardup_db.show.charts import sizes
    >>> sizes([(2, 3, 10), (4, 7, 2)]).sentence
    '12 clusters; the largest have 4 to 7 documents.'
    """
    title = "Cluster sizes"
    total = sum(count for _, _, count in bins)
    if not total:
        return Chart(title, "There is no cluster of two documents or more.", note)
    labels = [_size_label(int(low), int(high)) for low, high, _ in bins]
    scale = Scale(0, len(bins), max(count for _, _, count in bins))
    drawn = [scale.grid()]
    step = math.ceil(len(bins) / 7)
    for place, (low, high, count) in enumerate(bins):
        drawn.append(scale.bar(place, place + 1, count, f"{_size_label(int(low), int(high))} documents"))
        if count:
            drawn.append(scale.label_above(place + 0.5, count))
        if place % step == 0:
            drawn.append(scale.label_below(place + 0.5, f"{low:,.0f}+" if low >= 16 else f"{low:.0f}–{high:.0f}"))
    largest = next(_size_label(int(low), int(high)) for low, high, count in reversed(bins) if count)
    text = f"{total:,} clusters; the largest have {largest} documents."
    table = _table(("documents", "clusters"), [(label, f"{count:,}") for label, (_, _, count) in zip(labels, bins, strict=True)])
    return Chart(title, text, note, _drawing(drawn, "documents in the cluster"), table)


def timeline(bars: Sequence[tuple[str, int]], unit: str, note: str = "") -> Chart:
    """Duplicates by detection time. bars: consecutive (start in UTC, documents), each of one `unit`.

    >>> from neardup_db.show.charts import timeline
    >>> timeline([("2026-01-01", 4)], "day").sentence
    '4 documents at 2026-01-01 (UTC).'
    """
    title = f"Duplicates found per {unit}"
    total = sum(count for _, count in bars)
    if not total:
        return Chart("Duplicates found over time", "No matches are recorded.", note)
    scale = Scale(0, len(bars), max(count for _, count in bars))
    drawn = [scale.grid()]
    step = math.ceil(len(bars) / 3)
    for place, (begin, count) in enumerate(bars):
        drawn.append(scale.bar(place, place + 1, count, begin))
        if place % step == 0 and (place == 0 or len(bars) - place >= step / 2):
            drawn.append(scale.label_below(place + 0.5, begin))
    most = max(bars, key=lambda bar: bar[1])
    between = (
        f"from {bars[0][0]} to {bars[-1][0]} (UTC); most, {most[1]:,}, at {most[0]}" if len(bars) > 1 else f"at {most[0]} (UTC)"
    )
    text = f"{total:,} documents {between}."
    table = _table((f"{unit} (UTC)", "duplicates"), [(begin, f"{count:,}") for begin, count in bars if count])
    return Chart(title, text, note, _drawing(drawn, "UTC"), table)


def curve(points: Sequence[Point], threshold: float | None = None, recall: float | None = None, note: str = "") -> Chart:
    """The share of pairs found, by Jaccard similarity. points: (similarity, P(candidate), P(returned)), ascending.

    >>> from neardup_db.show.charts import curve
    >>> "threshold 0.8" in curve([(0.0, 0.0, 0.0), (0.8, 0.99, 0.5), (1.0, 1.0, 1.0)], 0.8, 0.99).drawing
    True
    """
    title = "Share of similar pairs found"
    if not points:
        return Chart(title, "Every code within the distance is found, none beyond: there is no curve.", note)
    scale = Scale(0.0, 1.0, 1, whole=False)
    drawn = [scale.grid(percent=True)]
    drawn += [scale.label_below(place, f"{place:.3g}") for place in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    drawn.append(scale.line([(x, y) for x, y, _ in points], ORANGE, 'stroke-dasharray="6 4"'))
    drawn.append(scale.line([(x, y) for x, _, y in points], BLUE, ""))
    if recall is not None:
        drawn.append(scale.level(recall, f"recall {recall:.3g}"))
    if threshold is not None:
        drawn.append(scale.upright(threshold, f"threshold {threshold:.3g}"))
    drawn += [legend(0, "candidates: looked at", ORANGE, 'stroke-dasharray="6 4"'), legend(1, "returned", BLUE, "")]
    text = f"By probability theory, {_summary_text(points, threshold)}"
    rows = {f"{x:.2f}": (f"{x:.2f}", f"{candidate:.4f}", f"{returned:.4f}") for x, candidate, returned in points}
    table = _table(("Jaccard similarity", "candidate", "returned"), list(rows.values()))
    return Chart(title, text, note, _drawing(drawn, "Jaccard similarity of the pair"), table)


def charts(figures: Figures) -> dict[str, Chart]:
    return {
        "similarity": histogram(figures.similarities, figures.threshold, figures.matches_note),
        "sizes": sizes(figures.sizes, figures.clusters_note),
        "timeline": timeline(figures.times, figures.time_unit, figures.matches_note),
        "curve": curve(figures.curve, figures.threshold, figures.recall),
    }


def grid(figures: Figures) -> str:
    return f'<div class="nd-charts">{"".join(chart.figure() for chart in charts(figures).values())}</div>'


@dataclass(frozen=True, slots=True)
class Scale:
    """Coordinates in the drawing: x for numbers from `low` to `high`, y from 0 to `top`. whole: only whole numbers get labels."""

    low: float
    high: float
    top: float
    whole: bool = True

    def x(self, value: float) -> float:
        return LEFT + (value - self.low) / ((self.high - self.low) or 1) * INNER_WIDTH

    def y(self, value: float) -> float:
        return TOP + INNER_HEIGHT * (1 - value / (_ticks(0, self.top, self.whole)[-1] or 1))

    def grid(self, percent: bool = False) -> str:
        lines = []
        for value in _ticks(0, self.top, self.whole):
            y = self.y(value)
            label = f"{value:.0%}" if percent else _compact(value)
            lines.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" stroke-opacity=".18"/>'
            )
            lines.append(text_at(LEFT - 6, y + 4.5, label, "end"))
        return "".join(lines)

    def bar(self, begin: float, end: float, count: float, label: str) -> str:
        gap = min(1.5, (self.x(end) - self.x(begin)) * 0.15)
        height = max(TOP + INNER_HEIGHT - self.y(count), 1.5) if count else 0
        return (
            f'<rect x="{self.x(begin) + gap:.1f}" y="{TOP + INNER_HEIGHT - height:.1f}" '
            f'width="{self.x(end) - self.x(begin) - 2 * gap:.1f}" height="{height:.1f}" fill="{BLUE}">'
            f"<title>{escape(label)}: {count:,}</title></rect>"
        )

    def label_above(self, place: float, count: float) -> str:
        room = self.x(1) - self.x(0)
        return text_at(self.x(place), self.y(count) - 4, _compact(count, digits=3 if room > 6 * LETTER else 2), "middle")

    def label_below(self, place: float, text: str) -> str:
        half = len(text) * LETTER / 2
        x = min(max(self.x(place), half + 2), WIDTH - half - 2)
        return text_at(x, HEIGHT - BOTTOM + 18, text, "middle")

    def line(self, points: Sequence[tuple[float, float]], colour: str, extra: str) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-linejoin="round" {extra}/>'

    def upright(self, value: float, text: str) -> str:
        x = self.x(value)
        anchor = "end" if x > LEFT + INNER_WIDTH * 0.75 else "start" if x < LEFT + INNER_WIDTH * 0.25 else "middle"
        return (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{TOP + INNER_HEIGHT}" stroke="currentColor" '
            'stroke-dasharray="3 3"/>' + text_at(x, TOP - 11, text, anchor)
        )

    def level(self, value: float, text: str) -> str:
        y = self.y(value)
        return (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" stroke-dasharray="1 4"/>'
            + text_at(LEFT + 6, y + 15, text, "start")
        )


def text_at(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'


def legend(row: int, text: str, colour: str, extra: str) -> str:
    y = TOP + 42 + 20 * row
    line = f'<line x1="{LEFT + 10}" x2="{LEFT + 38}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2.5" {extra}/>'
    return line + text_at(LEFT + 44, y + 4.5, text, "start")


def _drawing(parts: Sequence[str], below: str) -> str:
    return "".join(parts) + text_at(LEFT + INNER_WIDTH / 2, HEIGHT - 6, below, "middle")


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<details><summary>Numbers</summary><div class="nd-scroll"><table class="nd-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def _summary_text(points: Sequence[Point], threshold: float | None) -> str:
    for x, _, returned in reversed(points):  # the upper end of a step at the threshold
        if threshold is not None and abs(x - threshold) < 1e-9 and returned > 0.9:
            return f"{returned:.1%} of the pairs with a Jaccard similarity of just {threshold:.3g} are returned, below it none."
    return f"half of the pairs with a Jaccard similarity of {_half(points):.2g} are returned."


def _half(points: Sequence[Point]) -> float:
    before, last = 0.0, 0.0
    for x, _, y in points:
        if y >= 0.5:
            return before + (x - before) * (0.5 - last) / (y - last)
        before, last = x, y
    return 1.0


def _ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`; if low is 0, the last is at least `high`."""
    width = (high - low) / 4 or 1
    magnitude = 10.0 ** math.floor(math.log10(width))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= width * 0.999)
    if low == 0:
        step = max(step, 1) if whole else step
        return [round(step * place, 10) for place in range(math.ceil(high / step - 1e-9) + 1)]
    first = math.ceil(low / step - 1e-9)
    return [round(step * place, 10) for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _compact(value: float, digits: int = 3) -> str:
    """1200 as '1.2k'."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.0f}{unit}" if scaled >= 10 ** (digits - 1) else f"{scaled:.{digits}g}{unit}"
    return f"{value:g}"


def _size_label(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
