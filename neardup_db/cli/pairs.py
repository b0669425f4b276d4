"""`neardup pairs`: all near-duplicate pairs of an index, or of the records of an input."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any

import click

from ..text import TextRules
from ..values import Pair
from . import common, indexes
from .common import Results
from .comparing import Comparison
from .copies import Copy, RunCounts
from .inputs.files import STDIN, is_stream
from .inputs.opening import open_source
from .inputs.records import format_of_file
from .output import escaped, note_problems
from .outputs import scratch_folder
from .wording import told_as

_DATABASE = b"SQLite format 3\0"  # the first bytes of a SQLite database


@common.command()
@click.argument("paths", metavar="INDEX | IN...", nargs=-1, required=True, type=common.place)
@common.name_option
@click.option("--threshold", type=float, help="Minimum similarity, at least an index's own.  [default for records: 0.8]")
@click.option("--recall", type=common.inside, default=0.99, help="For records: recall of pairs at the threshold.")
@common.limit_option
@common.group_option
@common.text_options
@common.input_options
def pairs(paths: tuple[Path, ...], **options: Any) -> Results:
    """Compares the documents of INDEX, or the records of IN, which may be any input of neardup dedup. Record pairs are verified
    by their exact similarity; text rules, --recall and input options apply to records only. Both documents of a pair are in one
    group; without --group the pairs of every group are printed.

    Prints one pair a line, as they are found. Columns, separated by tabs: similarity, distance (empty if the scheme has none),
    the earlier key, the later key; for records their ids. With --json each line is a JSON object. Exit code 1 if there is no
    pair.

    \b
    neardup pairs articles.db --threshold 0.9
    neardup pairs posts.jsonl --tokens chars --threshold 0.6
    """
    is_index = len(paths) == 1 and options["format"] is None and _is_index(paths[0])
    if is_index:
        for_records = ("recall", *common.text_options.names, *common.input_options.names)
        common.refuse_given(for_records, "is for records, and this is an index")
    else:
        common.refuse_given(("name", "group"), "is for an index, and these are records")
    with _index_pairs(paths[0], options) if is_index else _record_pairs(paths, options) as found:
        for pair in itertools.islice(found, options["limit"]):
            distance = "" if pair.distance is None else str(pair.distance)
            yield pair, f"{pair.similarity:.4f}\t{distance}\t{escaped(pair.key_a)}\t{escaped(pair.key_b)}"


def _is_index(path: Path) -> bool:
    """Whether a path without a format is an index. A missing path is one, unless it looks like an input."""
    if path == STDIN or is_stream(path) or path.is_dir():
        return False
    if not path.exists():
        return format_of_file(path) is None and not has_magic(str(path))
    with open(path, "rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE or (format_of_file(path) is None and path.stat().st_size == 0)


@contextlib.contextmanager
def _index_pairs(path: Path, options: dict[str, Any]) -> Iterator[Iterator[Pair]]:
    with indexes.open_index(path, options["name"]) as index:
        yield index.pairs(options["threshold"], group=indexes.group_listed(index, options["group"]))


@contextlib.contextmanager
def _record_pairs(paths: Sequence[Path], options: dict[str, Any]) -> Iterator[Iterator[Pair]]:
    rules, reading = common.text_rules(options) or TextRules(), common.read_options(options, typed_ids=True)
    threshold = 0.8 if options["threshold"] is None else options["threshold"]
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        source = stack.enter_context(contextlib.closing(open_source(paths, reading, folder)))
        counts = RunCounts()
        with told_as(), indexes.warnings_as_notes():
            comparison = Comparison(Copy(source, folder), counts, rules, threshold, options["recall"], pairs=folder)
            index = stack.enter_context(comparison.index())
        yield (
            replace(pair, key_a=index.get(pair.key_a).metadata["id"], key_b=index.get(pair.key_b).metadata["id"])
            for pair in index.pairs()
        )
        source.require_unchanged()
    note_problems(source.name, counts.invalid_utf8, counts.skipped, counts.problems)
