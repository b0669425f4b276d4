"""`neardup pairs`: all near-duplicate pairs of an index."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from .options import group_listed, group_option, index_command, limit_option, open_index
from .output import emit_result, escaped


@index_command()
@click.option("--threshold", type=float, help="Minimum similarity, at least the index's own.")
@limit_option
@group_option
def pairs(index_path: Path, threshold: float | None, limit: int | None, group: str | None, name: str, as_json: bool) -> int:
    """Print all pairs of near-duplicates.

    Both documents of a pair are in one group; without --group the pairs of every group are printed. For the pairs of a file see
    neardup dedup --pairs.

    Prints one pair a line, as they are found. Columns, separated by tabs: similarity, distance (empty if the scheme has none),
    the earlier key, the later key. With --json each line is a JSON object. Exit code 1 if there is no pair.

    \b
    neardup pairs articles.db --threshold 0.9
    """
    count = 0
    with open_index(index_path, name) as index:
        for pair in itertools.islice(index.pairs(threshold, group=group_listed(index, group)), limit):
            count += 1
            distance = "" if pair.distance is None else str(pair.distance)
            line = f"{pair.similarity:.4f}\t{distance}\t{escaped(pair.key_a)}\t{escaped(pair.key_b)}"
            emit_result(pair, line, as_json=as_json)
    return 0 if count else 1
