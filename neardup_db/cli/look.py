"""Commands that read an index: query, clusters, stats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from .. import limits
from ..errors import ParameterError
from ..index import Index
from ..values import ANY_GROUP, Match, flat_rows
from . import common, indexes
from .common import Results
from .inputs.opening import open_source
from .inputs.source import InputRecord, RecordError, Source, in_pieces
from .output import aligned, as_json_value, escaped, note_problems, print_note, without_words
from .outputs import scratch_folder
from .wording import in_command_terms


@common.index_command()
@click.argument("text", required=False)
@common.file_option
@click.option("--key", help="Query with a stored document instead of a text.")
@click.option("--from", "sources", metavar="IN", multiple=True, type=common.place, help="Query with each record of an input.")
@common.key_type_option
@click.option("--threshold", type=float, help="Minimum similarity, at or above the index's threshold.")
@click.option("--max-distance", type=int, help="Maximum number of differing bits, at or below the index's.")
@common.measure_option
@common.limit_option
@click.option("--any", "any_", is_flag=True, help="With --limit: return the first matches found, not the best.")
@common.group_option
@common.all_groups_option
@common.input_options
def query(
    index: Index, text: str | None, file: Path | None, key: str | None, sources: tuple[Path, ...], **options: Any
) -> Results:
    """TEXT is an argument, - for standard input, the content of --file, or the stored document --key. Each line has the
    similarity, the distance if the scheme has one, the key and the part of a named code. Documents of a group are searched only
    with --group or --all-groups. Exit code 1 if nothing matches.

    --from IN queries each record of an input in any format of neardup add. Each match is a line of tab-separated columns: the
    record's id, similarity, distance (empty if the scheme has none), key, part. With --json each match is an object.

    \b
    neardup query articles.db "It was a bright cold day in April"
    neardup query articles.db --file new.txt --limit 5 --json
    neardup query articles.db --file quotation.txt --measure containment --threshold 0.9
    neardup query articles.db --from new.jsonl --limit 1 --all-groups
    """
    if sum(source is not None for source in (text, file, key, sources or None)) != 1:
        raise click.UsageError("Give one of TEXT, --file, --key and --from")
    if sources:
        return (yield from _query_records(index, sources, options))
    common.refuse_given(common.input_options.names, "requires --from")
    content = b"" if key is not None else common.read_content(text, file)
    matches = _matches(index, content, key, options)
    scheme, rules = index.scheme, index.text_rules
    if not matches and key is None and scheme.takes_text and scheme.fingerprint(content, rules) is None:
        print_note(f"the text is one {without_words(rules, scheme)}, so nothing matches it, not even the same text")
    lines = []
    for match in matches:
        part = "" if match.part is None else f"  part {escaped(match.part)}"
        distance = "" if match.distance is None else f"  {match.distance:4d} bits"
        lines.append(f"{match.similarity:.4f}{distance}  {escaped(match.key)}{part}")
    yield {"matches": matches}, lines
    return 0 if matches else 1


def _matches(index: Index, content: str | bytes, key: str | None, options: dict[str, Any]) -> list[Match]:
    if key is not None:
        if options["max_distance"] is not None or options["any_"] or options["group"] is not None:
            raise click.UsageError(
                "--key goes with --threshold, --measure, --limit and --all-groups only; its group is the document's own"
            )
        stored, group = common.parse_key(key, options["key_type"]), ANY_GROUP if options["all_groups"] else None
        how = {name: options[name] for name in ("threshold", "measure", "limit")}
        return index.matches(stored, group=group, **how)
    question = _query_arguments(index, options)
    if index.scheme.takes_text:
        return list(index.query(content, **question))
    code = content.decode("ascii", "replace") if isinstance(content, bytes) else content
    return list(index.query_code(code.strip(), **question))


def _query_arguments(index: Index, options: dict[str, Any]) -> dict[str, Any]:
    question = {name: options[name] for name in ("threshold", "max_distance", "limit")}
    question["any"], question["group"] = options["any_"], indexes.group_to_query(index, options["group"], options["all_groups"])
    if index.scheme.takes_text:
        return {**question, "measure": options["measure"]}
    if options["measure"] is not None:
        raise click.UsageError("--measure containment requires texts; this index holds codes")
    return question


def _query_records(index: Index, sources: Sequence[Path], options: dict[str, Any]) -> Results:
    with scratch_folder() as folder:
        source = open_source(sources, common.read_options(options, typed_ids=True), folder)
        question = _query_arguments(index, options)
        for piece in in_pieces(_queryable_records(index, source), limits.PIECE_RECORDS):
            for record, matches in zip(piece, _matches_of_records(index, piece, question), strict=True):
                for match in matches:
                    distance = "" if match.distance is None else match.distance
                    part = "" if match.part is None else f"\t{escaped(match.part)}"
                    line = f"{escaped(record.key)}\t{match.similarity:.4f}\t{distance}\t{escaped(match.key)}{part}"
                    yield {"id": record.key, **as_json_value(match)}, line
        note_problems(source.name, source.replaced, source.skipped, source.problems)


def _queryable_records(index: Index, source: Source) -> Iterator[InputRecord]:
    for record in source:
        if not index.scheme.takes_text:
            try:
                index.scheme.code_value(record.text.strip())
            except ParameterError as error:
                source.skip_record(RecordError(source.problem(record, in_command_terms(str(error)))))
                continue
        yield record


def _matches_of_records(index: Index, piece: Sequence[InputRecord], question: dict[str, Any]) -> Iterator[Sequence[Match]]:
    """A record with very many matches is queried again by itself, so that at most one such result is in memory."""
    ask, ask_many = (index.query, index.query_many) if index.scheme.takes_text else (index.query_code, index.query_codes)
    texts = [record.text if index.scheme.takes_text else record.text.strip() for record in piece]
    most = min(question["limit"] or limits.MATCHES_TOGETHER, limits.MATCHES_TOGETHER)
    for text, matches in zip(texts, ask_many(texts, **{**question, "limit": most}), strict=True):
        yield matches if len(matches) < most or most == question["limit"] else ask(text, **question)


@common.index_command()
@click.option("--min-size", type=click.IntRange(min=2), default=2, help="Smallest cluster.")
@click.option("--members", type=common.Count(1), help="Print at most this many members of each.")
@common.limit_option
@common.group_option
def clusters(index: Index, min_size: int, members: int | None, limit: int | None, group: str | None) -> Results:
    """A cluster is all documents of one group that chains of near-duplicates connect; its first line is its earliest document.
    Without --group the clusters of every group are printed. With --json each line is one cluster. Exit code 1 if there is no
    cluster.

    \b
    neardup clusters articles.db --min-size 3 --limit 10
    """
    for cluster in itertools.islice(index.clusters(min_size, group=indexes.group_listed(index, group)), limit):
        keys = cluster.keys[:members]
        lines = [f"{len(cluster):6,}  {escaped(keys[0])}", *(f"        {escaped(key)}" for key in keys[1:])]
        if len(keys) < len(cluster):
            lines.append(f"        ... and {len(cluster) - len(keys):,} more")
        yield {"size": len(cluster), "representative": cluster.representative, "keys": keys}, lines


@common.index_command()
def stats(index: Index) -> Results:
    """
    \b
    neardup stats articles.db
    """
    statistics = as_json_value(index.stats())
    yield statistics, aligned(flat_rows(statistics))
