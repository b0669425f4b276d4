"""Commands that read an index: query, pairs, clusters, stats."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ..errors import ParameterError
from ..index import Index
from ..values import ANY_GROUP, Match, flat_rows
from .inputs.binary import HEAD_BYTES, why_not_text
from .options import (
    Count,
    all_groups_option,
    group_listed,
    group_option,
    group_to_query,
    index_command,
    key_type_option,
    limit_option,
    measure_option,
    open_index,
    parse_key,
)
from .output import (
    as_json_value,
    columns,
    emit,
    emit_json,
    escaped,
    print_note,
    similarity_text,
    without_words,
)


@index_command()
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Read the text from a file.")
@click.option("--key", help="Query with a stored document instead of a text.")
@key_type_option
@click.option("--threshold", type=float, help="Minimum similarity, at or above the index's threshold.")
@click.option("--max-distance", type=int, help="Maximum number of differing bits, at or below the index's.")
@measure_option
@limit_option
@click.option("--any", "any_", is_flag=True, help="With --limit: return the first matches found, not the best.")
@group_option
@all_groups_option
def query(index_path: Path, text: str | None, file: Path | None, key: str | None, **options: Any) -> int:
    """Print the near-duplicates of TEXT, best first.

    TEXT is an argument, - for standard input, the content of --file, or the stored document --key. Each line has the similarity,
    the distance if the scheme has one, the key and the part of a named code. Documents of a group are searched only with --group
    or --all-groups. Exit code 1 if nothing matches.

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
        scheme, rules = index.scheme, index.text_rules
        wordless = not matches and key is None and scheme.takes_text and scheme.fingerprint(content, rules) is None
    if wordless:
        print_note(f"the text is one {without_words(rules, scheme)}, so nothing matches it, not even the same text")
    if options["as_json"]:
        emit_json({"matches": as_json_value(matches)})
    else:
        for match in matches:
            part = "" if match.part is None else f"  part {escaped(match.part)}"
            emit(f"{similarity_text(match.similarity, match.distance)}  {escaped(match.key)}{part}")
    return 0 if matches else 1


def _content(text: str | None, file: Path | None) -> str | bytes:
    if file is None and text != "-":
        return text or ""
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    if why := why_not_text(content[:HEAD_BYTES]):
        raise ParameterError(f"{file or 'standard input'}: {why}")
    return content


def _matches(index: Index, content: str | bytes, key: str | None, options: dict[str, Any]) -> list[Match]:
    if key is not None:
        if options["max_distance"] is not None or options["any_"] or options["group"] is not None:
            raise click.UsageError(
                "--key goes with --threshold, --measure, --limit and --all-groups only; its group is the document's own"
            )
        stored, group = parse_key(key, options["key_type"]), ANY_GROUP if options["all_groups"] else None
        how = {name: options[name] for name in ("threshold", "measure", "limit")}
        return index.matches(stored, group=group, **how)
    question = _query_arguments(index, options)
    if index.scheme.takes_text:
        return list(index.query(content, **question))
    code = content.decode("ascii", "replace") if isinstance(content, bytes) else content
    return list(index.query_code(code.strip(), **question))


def _query_arguments(index: Index, options: dict[str, Any]) -> dict[str, Any]:
    question = {name: options[name] for name in ("threshold", "max_distance", "limit")}
    question["any"], question["group"] = options["any_"], group_to_query(index, options["group"], options["all_groups"])
    if index.scheme.takes_text:
        return {**question, "measure": options["measure"]}
    if options["measure"] is not None:
        raise click.UsageError("--measure containment requires texts; this index holds codes")
    return question


@index_command()
@click.option("--min-size", type=click.IntRange(min=2), default=2, show_default=True, help="Smallest cluster.")
@click.option("--members", type=Count(1), help="Print at most this many members of each.")
@limit_option
@group_option
def clusters(
    index_path: Path, name: str, min_size: int, members: int | None, limit: int | None, group: str | None, as_json: bool
) -> int:
    """Print the clusters, the largest first.

    A cluster is all documents of one group that chains of near-duplicates connect; its first line is its earliest document.
    Without --group the clusters of every group are printed. With --json each line is one cluster. Exit code 1 if there is no
    cluster.

    \b
    neardup clusters articles.db --min-size 3 --limit 10
    """
    count = 0
    with open_index(index_path, name) as index:
        for cluster in itertools.islice(index.clusters(min_size, group=group_listed(index, group)), limit):
            count += 1
            keys = cluster.keys[:members]
            if as_json:
                emit_json(as_json_value({"size": len(cluster), "representative": cluster.representative, "keys": keys}))
                continue
            emit(f"{len(cluster):6,}  {escaped(keys[0])}")
            _indented(escaped(key) for key in keys[1:])
            if len(keys) < len(cluster):
                _indented([f"... and {len(cluster) - len(keys):,} more"])
    return 0 if count else 1


def _indented(lines: Iterable[str]) -> None:
    for line in lines:
        emit(f"        {line}")


@index_command()
def stats(index_path: Path, name: str, as_json: bool) -> None:
    """Print counts, sizes and settings of INDEX.

    \b
    neardup stats articles.db
    """
    with open_index(index_path, name) as index:
        statistics = as_json_value(index.stats())
    if as_json:
        emit_json(statistics)
    else:
        columns(list(flat_rows(statistics)))
