"""Commands that read an index: query, pairs, clusters, stats."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ..compute import shingles
from ..index import Index
from ..values import Match, flat_rows
from .command import command
from .options import (
    group_option,
    index_argument,
    json_option,
    key_type_option,
    limit_option,
    measure_option,
    name_option,
    open_index,
    parse_key,
)
from .output import columns, emit, emit_json, measure, note, plain, shown


@command()
@index_argument
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Read the text from a file.")
@click.option("--key", help="Query with a stored document instead of a text.")
@name_option
@key_type_option
@click.option("--threshold", type=float, help="Least similarity, at or above that of the index.")
@click.option("--max-distance", type=int, help="Most differing bits, at or below that of the index.")
@measure_option
@limit_option
@click.option("--any", "any_", is_flag=True, help="With --limit: print the first matches found, not the best.")
@group_option
@json_option
def query(index_path: Path, text: str | None, file: Path | None, key: str | None, **options: Any) -> int:
    """Print the near-duplicates of TEXT, best first.

    TEXT is an argument, - for standard input, the content of --file, or the stored document --key. Each line has similarity,
    distance where the scheme has one, and key. Exit code 1 if nothing matches.

    \b
    neardup query articles.db "It was a bright cold day in April"
    neardup query articles.db --file new.txt --limit 5 --json
    neardup query articles.db --file quotation.txt --measure containment --threshold 0.9
    """
    if sum(source is not None for source in (text, file, key)) != 1:
        raise click.UsageError("Give one of TEXT, --file and --key")
    with open_index(index_path, options["name"]) as index:
        content = b"" if key is not None else _content(text, file)
        matches = _matches(index, content, key, options)
        wordless = not matches and key is None and index.scheme.takes_text and not shingles(content, index.text_rules)
    if wordless:
        note("the text holds no word, so nothing matches it, not even the same text")
    if options["as_json"]:
        emit_json({"matches": plain(matches)})
    else:
        for match in matches:
            emit(f"{measure(match.similarity, match.distance)}  {shown(match.key)}")
    return 0 if matches else 1


def _content(text: str | None, file: Path | None) -> str | bytes:
    return file.read_bytes() if file is not None else sys.stdin.buffer.read() if text == "-" else text or ""


def _matches(index: Index, content: str | bytes, key: str | None, options: dict[str, Any]) -> list[Match]:
    limit = options["limit"]
    if key is not None:
        if options["max_distance"] is not None or options["any_"] or options["group"] is not None:
            raise click.UsageError("--key goes with --threshold, --measure and --limit only; its group is the document's own")
        stored = parse_key(key, options["key_type"])
        return index.matches(stored, threshold=options["threshold"], measure=options["measure"], limit=limit)
    bounds = {name: options[name] for name in ("threshold", "max_distance", "limit", "group")}
    if index.scheme.takes_text:
        return list(index.query(content, measure=options["measure"], any=options["any_"], **bounds))
    if options["measure"] is not None:
        raise click.UsageError("--measure containment goes with texts; this index holds codes")
    code = content.decode("ascii", "replace") if isinstance(content, bytes) else content
    return list(index.query_code(code.strip(), any=options["any_"], **bounds))


@command()
@index_argument
@name_option
@click.option("--threshold", type=float, help="Least similarity, at or above that of the index.")
@limit_option
@json_option
def pairs(index_path: Path, name: str, threshold: float | None, limit: int | None, as_json: bool) -> int:
    """Print all pairs of near-duplicates.

    Prints one pair a line, as they are found. Columns, separated by tabs: similarity, distance (empty where the scheme has
    none), the earlier key, the later key. With --json each line is a JSON object. Exit code 1 if there is no pair.

    \b
    neardup pairs articles.db --threshold 0.9
    """
    count = 0
    with open_index(index_path, name) as index:
        for pair in itertools.islice(index.pairs(threshold), limit):
            count += 1
            if as_json:
                emit_json(plain(pair))
            else:
                distance = "" if pair.distance is None else str(pair.distance)
                emit(f"{pair.similarity:.4f}\t{distance}\t{shown(pair.key_a)}\t{shown(pair.key_b)}")
    return 0 if count else 1


@command()
@index_argument
@name_option
@click.option("--min-size", type=click.IntRange(min=2), default=2, show_default=True, help="Smallest cluster.")
@click.option("--members", type=click.IntRange(min=1), help="Print at most this many members of each.")
@limit_option
@json_option
def clusters(index_path: Path, name: str, min_size: int, members: int | None, limit: int | None, as_json: bool) -> int:
    """Print the clusters, the largest first.

    A cluster is all documents that chains of near-duplicates join. Its first line is the earliest document; the others follow
    below. With --json each line is one cluster. Exit code 1 if there is no cluster.

    \b
    neardup clusters articles.db --min-size 3 --limit 10
    """
    count = 0
    with open_index(index_path, name) as index:
        for cluster in itertools.islice(index.clusters(min_size=min_size), limit):
            count += 1
            keys = cluster.keys[:members]
            if as_json:
                emit_json(plain({"size": len(cluster), "representative": cluster.representative, "keys": keys}))
                continue
            emit(f"{len(cluster):6,}  {shown(keys[0])}")
            _indented(shown(key) for key in keys[1:])
            if len(keys) < len(cluster):
                _indented([f"... and {len(cluster) - len(keys):,} more"])
    return 0 if count else 1


def _indented(lines: Iterable[str]) -> None:
    for line in lines:
        emit(f"        {line}")


@command()
@index_argument
@name_option
@json_option
def stats(index_path: Path, name: str, as_json: bool) -> None:
    """Print counts, sizes and settings of INDEX.

    \b
    neardup stats articles.db
    """
    with open_index(index_path, name) as index:
        statistics = plain(index.stats())
    if as_json:
        emit_json(statistics)
    else:
        columns(list(flat_rows(statistics)))
