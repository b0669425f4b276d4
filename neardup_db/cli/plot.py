"""`neardup curve`: the recall of an index at each similarity, on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..show.theory import chances_of
from ..text import TextRules
from .command import command
from .options import NumberRange, json_option, name_option, open_index, scheme_of, scheme_options
from .output import emit, emit_json

BAR = 40


@command()
@click.argument("index_path", metavar="[INDEX]", required=False, type=click.Path(path_type=Path))
@name_option
@scheme_options
@click.option("--from", "low", type=NumberRange(0, 1), default=0.4, show_default=True, help="First similarity.")
@click.option("--step", type=NumberRange(0, 1, min_open=True), default=0.05, show_default=True, help="Step between similarities.")
@json_option
def curve(index_path: Path | None, name: str, low: float, step: float, as_json: bool, **options: Any) -> None:
    """Show the recall at each similarity.

    For each Jaccard similarity, prints the share of pairs that become candidates, and the share returned after verification.
    Without INDEX the curve is for the given scheme and parameters. With --json each line is one point.

    \b
    neardup curve articles.db
    neardup curve --scheme simhash --max-distance 7
    """
    scheme = scheme_of(options)
    if (index_path is None) == (scheme is None):
        raise click.UsageError("Give either INDEX, or --scheme and its parameters")
    if index_path is not None:
        with open_index(index_path, name) as index:
            scheme = index.scheme
    elif scheme is not None:
        scheme = scheme.for_index(TextRules())
    assert scheme is not None
    settings = scheme.settings()
    chances = chances_of(settings)
    points = [round(low + i * step, 6) for i in range(int((1.0 - low) / step + 1e-9) + 1)]
    if not as_json:
        emit(repr(scheme))
        emit("   J   candidate  returned  █ returned  ░ candidate only")
    for similarity in points:
        candidate, returned = chances(similarity)
        if as_json:
            emit_json({"jaccard": similarity, "candidate": candidate, "returned": returned})
            continue
        full = round(returned * BAR)
        bar = "█" * full + "░" * max(round(candidate * BAR) - full, 0)
        emit(f"{similarity:5.2f}   {candidate:8.4f}  {returned:8.4f}  {bar}".rstrip())
