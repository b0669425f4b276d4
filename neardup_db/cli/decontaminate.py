"""`neardup decontaminate`: training data without the texts, or the passages, of test sets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from .. import limits
from ..arrays import np
from ..comparing import RunFilter
from ..errors import ParameterError
from ..index import Index
from ..schemes import Passages
from ..text import TextRules
from ..values import Passage
from . import common
from .common import Results
from .copies import Copy, RunCounts, copied, output_options
from .indexes import scratch_index
from .inputs.edits import changing
from .inputs.files import STDIN, packing_of
from .inputs.opening import CopiedSource, open_source, paths_named
from .inputs.source import ReadOptions, in_pieces
from .output import bytes_text, count_text, json_line, note_problems, print_note
from .outputs import open_output, replacing, room_for
from .progress import Meter


@dataclass(slots=True)
class Contamination(RunCounts):
    contaminated: int = 0
    tests: int = 0
    tests_found: int = 0
    tests_too_short: int = 0
    tests_skipped: int = 0
    passages: int = 0


@common.command()
@click.argument("sources", metavar="TRAIN...", nargs=-1, required=True, type=common.place)
@click.option(
    "--test", "tests", metavar="TEST", multiple=True, required=True, type=common.place, help="Test texts: a file, a folder, ..."
)
@click.option("--test-field", "test_fields", multiple=True, help="Field with the test text.  [default: that of --text-field]")
@output_options
@click.option("--shortest", type=click.IntRange(3, 1000), default=13, help="Tokens in the shortest passage.")
@click.option("--drop", type=click.Choice(["document", "passage"]), default="document", help="Drop records, or cut passages out.")
@click.option("--report", type=common.place, help="Write each passage found as a JSON line; - is standard output.")
@common.text_options
@common.input_options
def decontaminate(
    sources: tuple[Path, ...], tests: tuple[Path, ...], test_fields: tuple[str, ...], drop: str, shortest: int, **options: Any
) -> Results:
    """A passage is a run of --shortest words in a row; case, punctuation and Unicode forms do not matter. No such record is
    missed, and none is dropped without one. Only TEST is indexed, in a temporary file: TRAIN streams past it and may have any
    size. TRAIN and -o are as for neardup dedup: JSON lines, CSV, TSV, Parquet, Arrow, lines, folders, compressed or not; TEST
    likewise. --drop passage takes JSON lines and folders of texts.

    \b
    neardup decontaminate train.jsonl --test gsm8k.jsonl --test-field question -o clean.jsonl --report found.jsonl
    neardup decontaminate shards/ --test tests/ -o clean/
    """
    rules = common.text_rules(options) or TextRules()
    reading = common.read_options(options, one_header=True, typed_ids=True)
    paths, test_paths, report = paths_named(sources), paths_named(tests), options["report"]
    if STDIN in paths and STDIN in test_paths:
        raise click.UsageError("Only one of TRAIN and --test can be standard input (-): name a file for the other")
    with copied(paths, reading, options, {"--report": report}, test_paths) as copy:
        source = copy.source
        if drop == "passage" and source.format not in ("jsonl", "folder"):
            raise ParameterError(
                f"--drop passage rewrites JSON lines and folders of texts, not {source.format}: use --drop document"
            )
        if drop == "passage" and len(reading.text_fields) > 1:
            raise ParameterError("--drop passage rewrites one field of text: give one --text-field")
        with scratch_index(copy.folder, Passages(shortest=shortest), rules, store_text=True) as index:
            test_reading = replace(reading, text_fields=test_fields or reading.text_fields, one_header=False)
            search = _Search(index, Contamination())
            search.read_tests(test_paths, test_reading, copy.folder)
            summary = _run(search, copy, report, drop)
    note_problems(source.name, summary.invalid_utf8, summary.skipped, summary.problems)
    if summary.tests_too_short:
        print_note(
            f"{count_text(summary.tests_too_short, 'test text')} of {summary.tests:,} with fewer than {shortest} tokens cannot "
            "be found: give a lower --shortest"
        )
    yield copy.result(summary, _lines(summary, drop))


class _Search:
    """The test texts: an index, and a filter that tells which texts are worth a question."""

    def __init__(self, index: Index, summary: Contamination) -> None:
        self.names: list[str | int] = []
        self._index, self.summary = index, summary
        self.filter = RunFilter(index.scheme.native, index.text_rules.native)
        """`meet` says which texts may share a passage with a test text, bool[n]: all that do, and very few others."""

    def read_tests(self, tests: Sequence[Path], reading: ReadOptions, folder: Path) -> None:
        """Their numbers, from 0, are the keys of the index."""
        self._index.add_many(self._records(tests, reading, folder))
        if not self.names:
            raise ParameterError(f"{tests[0]}: there is no record; name test texts with --test")
        self.found = np.zeros(len(self.names), bool)
        too_short = f"SELECT count(*) FROM {self._index.name}_document WHERE fingerprint_id IS NULL"
        self.summary.tests, self.summary.tests_too_short = len(self.names), self._index.connection.execute(too_short).get

    def _records(self, tests: Sequence[Path], reading: ReadOptions, folder: Path) -> Iterator[tuple[int, str]]:
        for number, path in enumerate(tests):
            below = folder / f"test-{number}"
            below.mkdir()
            source = open_source([path], reading, below)
            for piece in in_pieces(source, limits.SKETCHED_RECORDS):
                self.filter.add([record.text for record in piece])
                for record in piece:
                    self.names.append(record.key)
                    yield len(self.names) - 1, record.text
            note_problems(source.name, source.replaced, source.skipped, source.problems)
            self.summary.tests_skipped += source.skipped

    def passages(self, text: str) -> list[Passage]:
        """`key` is the number of the test text."""
        found = self._index.passages(text)
        self.found[[int(passage.key) for passage in found]] = True
        return found

    def without_passages(self, text: str) -> str:
        while found := self.passages(text):  # the words on both sides of a cut may be a passage too
            kept, place = [], 0
            for passage in sorted(found, key=lambda passage: passage.start):
                kept.append(text[place : max(place, passage.start)])
                place = max(place, passage.end)
            text = "".join([*kept, text[place:]])
        return text


def _run(search: _Search, copy: Copy, report: Path | None, drop: str) -> Contamination:
    started, source, output = time.monotonic(), copy.source, copy.output
    summary = search.summary
    with replacing(*(path for path in (report, output) if path is not None)) as places:
        found = summary.read(source, search.filter.meet, lambda: None)
        candidates = np.concatenate(found) if found else np.zeros(0, bool)
        with contextlib.ExitStack() as stack:
            if report is not None:
                stack.enter_context(room_for(report))
            told = None if report is None else stack.enter_context(open_output(places[report], packing_of(report)))
            contaminated = _contaminated(search, source, candidates, told)
        summary.tests_found, summary.contaminated = int(search.found.sum()), int(contaminated.sum())
        with room_for(output), Meter("Write", source.size_bytes) as meter:
            source.on_copied = meter.advance
            kept, edit = ~contaminated, None
            if drop == "passage":
                kept, edit = np.ones(len(contaminated), bool), changing(source, contaminated, search.without_passages)
            source.write(kept, places[output], output, shards=copy.shards, edit=edit)
        source.require_unchanged()
    summary.set_time(time.monotonic() - started)
    return summary


def _contaminated(search: _Search, source: CopiedSource, candidates: Any, report: Any) -> Any:
    """Which of the candidates share a passage, bool[n]; each passage is a line of the report."""
    contaminated = np.zeros(len(candidates), bool)
    for record in source.chosen(candidates) if candidates.any() else ():
        found = search.passages(record.text)
        contaminated[record.number - 1] = bool(found)
        search.summary.passages += len(found)
        for passage in found if report is not None else ():
            told = {name.replace("other", "test"): value for name, value in passage._asdict().items() if name != "key"}
            text = record.text[passage.start : passage.end]
            line = json_line({"id": record.key, "test": search.names[int(passage.key)], **told, "text": text})
            report.write(line.encode() + b"\n")
    return contaminated


def _lines(summary: Contamination, drop: str) -> Iterator[str]:
    kept = summary.records - (summary.contaminated if drop == "document" else 0)
    goes = "removed" if drop == "document" else "without their passages"
    yield (
        f"{count_text(summary.records, 'record')}: {kept:,} kept, {summary.contaminated:,} contaminated {goes}; "
        f"{summary.tests_found:,} of {count_text(summary.tests, 'test text')} found, in {count_text(summary.passages, 'passage')}"
    )
    yield f"{bytes_text(summary.input_bytes)} in {summary.seconds:.1f} s: {summary.mb_per_second:.1f} MB/s"
