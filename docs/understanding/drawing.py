"""SVG pictures that are legible on light and on dark pages and 390 pixels wide.

A picture is a list of SVG elements; `file` makes a file of it, with a background of its own. Colours are classes, which follow
the reader's system, light or dark. What is found and what is not ("hit", "found"; "miss", "lost") differ in shape as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neardup_db.show import charts
from neardup_db.show.charts import BLUE, HEIGHT, ORANGE, WIDTH, Chart, Scale
from neardup_db.show.escape import escape

NARROW = 420
"""Width of a diagram: on a page of 390 pixels its letters of 14 are 12 pixels high."""

MARGIN = 12

STYLE = f"""
svg {{ color: #1b1f24; }}
text {{ fill: currentColor; font: 14px system-ui, sans-serif; }}
.chart text {{ font-size: 15px; }}
.mono {{ font: 13px ui-monospace, monospace; }}
.small {{ font-size: 12px; }}
.strong {{ font-weight: 600; }}
.paper {{ fill: #ffffff; }}
.quiet {{ fill: #57606a; }}
.line {{ stroke: currentColor; fill: none; stroke-opacity: .55; }}
.arrow {{ fill: currentColor; fill-opacity: .55; }}
.card {{ fill: #f3f5f8; stroke: #c3ccd5; }}
.hit {{ fill: {BLUE}; fill-opacity: .45; stroke: {BLUE}; }}
.miss {{ fill: none; stroke: {ORANGE}; stroke-width: 2; }}
.found {{ stroke: {BLUE}; stroke-width: 2.5; fill: none; }}
.lost {{ stroke: {ORANGE}; stroke-width: 2; stroke-dasharray: 5 4; fill: none; }}
@media (prefers-color-scheme: dark) {{
  svg {{ color: #e6e9ed; }} .paper {{ fill: #14181d; }} .quiet {{ fill: #a3adb8; }} .card {{ fill: #222a33; stroke: #47525e; }} }}
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """name: of the file, without ".svg". text: what it shows, for those who do not see it."""

    name: str
    text: str
    parts: Sequence[str]
    height: float
    width: float = NARROW

    def file(self) -> str:
        """The content of the file."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        kind = ' class="chart"' if self.width == WIDTH else ""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"{kind}>',
            f"<title>{escape(self.text)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{self.width:g}" height="{self.height:g}" rx="6"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def chart(name: str, text: str, parts: Iterable[str], below: str, above: str) -> Picture:
    """A chart drawn with `neardup_db.show.charts.Scale`; below, above: what the x and the y axis are."""
    axes = [words(WIDTH / 2 + 19, HEIGHT - 6, below, "middle"), words(10, 14, above, kind="small quiet")]
    return Picture(name, text, [*parts, *axes], HEIGHT + 4, WIDTH)


def curve(name: str, text: str, drawn: Chart) -> Picture:
    """A chart of the package as a picture."""
    return Picture(name, text, [drawn.drawing], HEIGHT + 4, WIDTH)


def grid(scale: Scale, ticks: Sequence[float], percent: bool = False) -> list[str]:
    """Lines across, and the numbers on both axes."""
    return [scale.grid(percent=percent), *(scale.label_below(tick, f"{tick:g}") for tick in ticks)]


def legend(ways: Iterable[tuple[str, str, str]], right: float = 0, down: float = 0) -> str:
    """Names with colour and dashes of their lines, so far from the upper left."""
    rows = "".join(charts.legend(row - 1, *way) for row, way in enumerate(ways))
    return f'<g transform="translate({right:g} {down:g})">{rows}</g>'


def words(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    """A line of text; kind: classes."""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name} xml:space="preserve">{escape(text)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "card", round_by: float = 4) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_by:g}"/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def circle(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def down(x: float, y: float) -> str:
    """An arrow of 14 that points down, from (x, y)."""
    return line(x, y, x, y + 9) + f'<path class="arrow" d="M{x - 5:.1f} {y + 7:.1f}h10l-5 7z"/>'


def cross(x: float, y: float, size: float) -> str:
    """An oblique cross around (x, y)."""
    return (
        f'<path class="miss" d="M{x - size:.1f} {y - size:.1f}l{2 * size:.1f} {2 * size:.1f}'
        f'M{x - size:.1f} {y + size:.1f}l{2 * size:.1f} {-2 * size:.1f}"/>'
    )


def dots(places: Iterable[tuple[float, float]], colour: str, width: float = 3.5) -> str:
    """Many dots as one path."""
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
    return f'<path d="{path}" stroke="{colour}" stroke-width="{width:g}" stroke-linecap="round" stroke-opacity=".7" fill="none"/>'
