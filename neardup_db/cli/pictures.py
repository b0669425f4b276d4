"""The charts of an index as PNG files, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from ..show.charts import BLUE, ORANGE, size_label
from ..show.figures import Figures
from .files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(figures: Figures, folder: Path) -> Iterator[Path]:
    """Writes similarity.png, sizes.png, timeline.png and curve.png, but those of which there is nothing to draw; gives their
    paths.

    Raises ParameterError where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ParameterError("pictures need matplotlib, which is not installed: pip install 'neardup-db[plot]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, fill in (("similarity", _similarity), ("sizes", _sizes), ("timeline", _timeline), ("curve", _curve)):
        picture = Figure(figsize=(7, 4), layout="constrained")
        axes = picture.add_subplot()
        if fill(axes, figures):
            axes.spines[["top", "right"]].set_visible(False)
            path = folder / f"{name}.png"
            with replacing(path) as new:
                picture.savefig(new, dpi=150, format="png")
            yield path


def _similarity(axes: Axes, figures: Figures) -> bool:
    bins = figures.similarities
    axes.bar([low for low, _, _ in bins], [count for *_, count in bins], [high - low for low, high, _ in bins], **_bars("edge"))
    if figures.threshold is not None:
        axes.axvline(figures.threshold, color="black", linestyle=":", label=f"threshold {figures.threshold:.3g}")
        axes.legend()
    axes.set(title="Similarity of matches", xlabel="similarity", ylabel=f"matches\n{figures.matches_note}".strip())
    return bool(bins)


def _sizes(axes: Axes, figures: Figures) -> bool:
    labels = [size_label(int(low), int(high)) for low, high, _ in figures.sizes]
    drawn = axes.bar(labels, [count for *_, count in figures.sizes], **_bars("center"))
    axes.bar_label(drawn, fmt="{:,.0f}")
    axes.set(title="Cluster sizes", xlabel="documents in the cluster", ylabel=f"clusters\n{figures.clusters_note}".strip())
    axes.tick_params("x", rotation=30 if len(labels) > 6 else 0)
    return bool(figures.sizes)


def _timeline(axes: Axes, figures: Figures) -> bool:
    count = len(figures.times)
    axes.bar(range(count), [found for _, found in figures.times], **_bars("center"))
    ticks = range(0, count, max(1, -(-count // 4)))
    axes.set_xticks(list(ticks), [figures.times[tick][0] for tick in ticks])
    axes.set(title=f"Duplicates found per {figures.time_unit}", xlabel="UTC", ylabel=f"documents\n{figures.matches_note}".strip())
    return count > 0


def _curve(axes: Axes, figures: Figures) -> bool:
    places = [x for x, _, _ in figures.curve]
    axes.plot(places, [y for _, y, _ in figures.curve], color=ORANGE, linestyle="--", label="candidates: looked at")
    axes.plot(places, [y for _, _, y in figures.curve], color=BLUE, label="returned")
    if figures.threshold is not None:
        axes.axvline(figures.threshold, color="black", linestyle=":", label=f"threshold {figures.threshold:.3g}")
    if figures.recall is not None:
        axes.axhline(figures.recall, color="grey", linestyle=":", label=f"recall {figures.recall:.3g}")
    axes.legend()
    axes.set(title="Share of similar pairs found", xlabel="Jaccard similarity of the pair", ylabel="probability")
    return bool(places)


def _bars(align: str) -> dict[str, Any]:
    return {"color": BLUE, "edgecolor": "white", "align": align}
