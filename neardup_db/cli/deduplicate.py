"""The work of `neardup dedup`: copies an input without near-duplicates, or with marks."""

from __future__ import annotations

import codecs
import contextlib
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arrays import np
from ..duplicates import Duplicates, duplicates_of
from ..index import Index
from ..system import is_reader_gone
from .comparing import Comparison, Plan
from .copies import RunCounts
from .inputs.files import STDOUT, is_stream, packing_of
from .inputs.records import format_of
from .inputs.source import ChangedError, Marks
from .output import add_afterword, json_line, leave_stdout
from .outputs import open_output, replacing, room_for
from .progress import Meter


@dataclass(slots=True)
class Summary(RunCounts):
    kept: int = 0
    duplicates: int = 0
    known: int = 0
    empty: int = 0
    empty_dropped: int = 0
    clusters: int = 0
    largest_cluster: int = 0
    largest_similarity: float | None = None
    """The lowest similarity of a removed record to the kept one in the largest cluster; None without clusters."""
    records_per_second: float = 0.0


def deduplicate(plan: Plan) -> Summary:
    """Outputs are put in place after every step has succeeded, except streams."""
    started = time.monotonic()
    summary = Summary()
    with _reporting_partial_outputs() as begun, replacing(*plan.outputs) as new, contextlib.ExitStack() as stack:
        places = dict(zip(plan.outputs, new, strict=True))
        comparison, copy = Comparison(plan, summary), plan.copy
        source = copy.source
        index = stack.enter_context(comparison.index())
        found = duplicates_of(index, comparison.choice.order(np.fromiter(index, np.int64)), plan.connected)
        removed, marks = _chosen(plan, comparison, index, found, summary)
        with _writing(plan, copy.output, begun), Meter("Write", source.size_bytes) as meter:
            written = ~removed if marks is None else np.ones(len(removed), bool)
            source.write(written, places[copy.output], copy.output, meter, marks, shards=copy.shards)
        if plan.pairs is not None:
            with _writing(plan, plan.pairs, begun):
                _write_pairs(index, places[plan.pairs], plan.pairs)
        if plan.clusters is not None:
            with _writing(plan, plan.clusters, begun):
                _write_clusters(index, found.clusters(), places[plan.clusters], plan.clusters, removed)
        source.require_unchanged()
    summary.set_time(time.monotonic() - started)
    summary.records_per_second = summary.records / max(summary.seconds, 1e-9)
    return summary


@contextlib.contextmanager
def _reporting_partial_outputs() -> Iterator[list[Path]]:
    """An error message names the partial outputs, because a stream cannot be withdrawn."""
    begun: list[Path] = []
    try:
        yield begun
    except BaseException as error:
        streams = ["standard output" if path == STDOUT else str(path) for path in begun if path == STDOUT or is_stream(path)]
        if streams:
            add_afterword(error, f"{' and '.join(streams)} may have a part of the output already: do not use it")
        elif isinstance(error, ChangedError):
            add_afterword(error, "nothing was written")
        raise


@contextlib.contextmanager
def _writing(plan: Plan, path: Path, begun: list[Path]) -> Iterator[None]:
    """If the reader of this output closes its pipe, the other outputs are still written."""
    begun.append(path)
    try:
        with room_for(path):
            yield
    except OSError as error:
        if len(plan.outputs) == 1 or not is_reader_gone(error):
            raise
        if path == STDOUT:
            leave_stdout()


def _chosen(plan: Plan, comparison: Comparison, index: Index, found: Duplicates, summary: Summary) -> tuple[Any, Marks | None]:
    """A record's number is its position + 1."""
    removed = np.zeros(summary.records, bool)
    removed[found.gone - 1] = True
    marks = _marks(plan, index, summary.records) if plan.mark else None
    if marks is not None:
        for number, members in enumerate(found.clusters(), 1):
            marks.cluster[np.array(members) - 1] = number
        marks.duplicate_of[found.gone - 1], marks.similarity[found.gone - 1] = found.kept, found.similarity
    summary.duplicates, summary.clusters = len(found.gone), len(np.unique(found.kept))
    if summary.clusters:
        summary.largest_cluster, summary.largest_similarity = found.largest()
    if plan.known is not None:
        removed |= plan.known.flags
        summary.known = int(plan.known.flags.sum())
    summary.empty = len(comparison.wordless)
    if plan.drop_empty:
        removed[comparison.wordless] = True
        summary.empty_dropped = summary.empty
    summary.kept = summary.records - int(removed.sum())
    return removed, marks


def _marks(plan: Plan, index: Index, records: int) -> Marks:
    def names(numbers: Sequence[int]) -> list[Any]:
        found = index.get_many(numbers)
        return [document.metadata["id"] for document in found if document is not None]

    against = None if plan.known is None else plan.known.names
    return Marks(np.zeros(records, np.int64), np.zeros(records, np.int64), np.zeros(records), names, against)


# ---- the outputs -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _table_writer(path: Path, target: Path, *names: str) -> Iterator[Callable[..., None]]:
    kind = format_of(target)
    with open_output(path, packing_of(target)) as raw:
        file = codecs.getwriter("utf-8")(raw)  # not closed, so that standard output stays open
        writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")

        def write(*values: Any) -> None:
            if kind in (None, "jsonl"):
                file.write(json_line(dict(zip(names, values, strict=True))) + "\n")
            else:
                writer.writerow(values)

        if kind not in (None, "jsonl"):
            writer.writerow(names)
        yield write


def _write_pairs(index: Index, path: Path, target: Path) -> None:
    with _table_writer(path, target, "id_a", "id_b", "similarity", "line_a", "line_b") as write:
        for pair in index.pairs():
            a, b = index.get(pair.key_a).metadata, index.get(pair.key_b).metadata
            write(a["id"], b["id"], pair.similarity, a["line"], b["line"])


def _write_clusters(index: Index, clusters: Sequence[Sequence[int]], path: Path, target: Path, removed: Any) -> None:
    with _table_writer(path, target, "cluster", "id", "kept", "line") as write:
        for cluster, members in enumerate(clusters, 1):
            for number in members:
                record = index.get(number).metadata
                write(cluster, record["id"], int(not removed[number - 1]), record["line"])
