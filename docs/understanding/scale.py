"""The scale of a chart, the lines in it, and the chart of a scheme's recall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neardup_db.show.escape import escape

WIDTH, HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 46
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LETTER = 8
"""The approximate width of a letter."""

BLUE, ORANGE = "#3b82c4", "#c2631a"
"""Both have a contrast of 4 to 1 with a white page and with a dark one."""

Point = tuple[float, float, float]
"""Jaccard similarity, P(candidate), P(returned)."""


def curve(points: Sequence[Point], threshold: float, recall: float) -> tuple[str, str]:
    """The share of pairs found, by Jaccard similarity: the drawing, and its meaning as a sentence."""
    scale = Scale(0.0, 1.0, 1)
    drawn = [scale.grid(percent=True)]
    drawn += [scale.label_below(place, f"{place:.3g}") for place in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    drawn.append(scale.line([(x, y) for x, y, _ in points], ORANGE, 'stroke-dasharray="6 4"'))
    drawn.append(scale.line([(x, y) for x, _, y in points], BLUE, ""))
    drawn.append(scale.level(recall, f"recall {recall:.3g}"))
    drawn.append(scale.upright(threshold, f"threshold {threshold:.3g}"))
    drawn += [legend(0, "candidates: looked at", ORANGE, 'stroke-dasharray="6 4"'), legend(1, "returned", BLUE, "")]
    drawn.append(text_at(LEFT + INNER_WIDTH / 2, HEIGHT - 6, "Jaccard similarity of the pair", "middle"))
    half = f"half of the pairs with a Jaccard similarity of {_half(points):.2g} are returned."
    return "".join(drawn), f"By probability theory, {half}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Coordinates in the drawing: x for numbers from `low` to `high`, y from 0 to `top`."""

    low: float
    high: float
    top: float

    def x(self, value: float) -> float:
        return LEFT + (value - self.low) / ((self.high - self.low) or 1) * INNER_WIDTH

    def y(self, value: float) -> float:
        return TOP + INNER_HEIGHT * (1 - value / (_ticks(self.top)[-1] or 1))

    def grid(self, percent: bool = False) -> str:
        lines = []
        for value in _ticks(self.top):
            y = self.y(value)
            label = f"{value:.0%}" if percent else f"{value:g}"
            lines.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" stroke-opacity=".18"/>'
            )
            lines.append(text_at(LEFT - 6, y + 4.5, label, "end"))
        return "".join(lines)

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


def _half(points: Sequence[Point]) -> float:
    before, last = 0.0, 0.0
    for x, _, y in points:
        if y >= 0.5:
            return before + (x - before) * (0.5 - last) / (y - last)
        before, last = x, y
    return 1.0


def _ticks(top: float) -> list[float]:
    """Round numbers from 0 on; the last is at least `top`."""
    width = top / 4 or 1
    magnitude = 10.0 ** math.floor(math.log10(width))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= width * 0.999)
    return [round(step * place, 10) for place in range(math.ceil(top / step - 1e-9) + 1)]
