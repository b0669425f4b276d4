"""`neardup decontaminate`: training data without the texts, or the passages, of test sets."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import click

from .. import limits
from ..arrays import np
from ..comparing import RunFilter
from ..errors import ParameterError
from ..index import Index
from ..located import LocatedTexts
from ..schemes import Passages
from ..text import TextRules
from ..values import Passage
from .command import command
from .dedup import check_kinds, folder_for_temporary_files
from .deduplicate import shard_paths
from .first_pass import RunCounts
from .inputs.edits import changing
from .inputs.files import STDIN, STDOUT, packing_of
from .inputs.opening import open_source, passes_of, paths_named
from .inputs.passes import TextPasses, in_pieces
from .inputs.source import ReadOptions
from .inputs.table_passes import Passes
from .options import input_options, json_option, read_options, text_options, text_rules
from .output import as_json_value, bytes_text, count_text, emit, emit_json, json_line, note_problems, print_note
from .outputs import check_apart, check_kind, check_output, open_output, replacing, room_for, room_in
from .passages import scratch_index
from .progress import Meter

_place = click.Path(path_type=Path, allow_dash=True)


@dataclass(slots=True)
class Contamination(RunCounts):
    contaminated: int = 0
    tests: int = 0
    tests_found: int = 0
    tests_too_short: int = 0
    tests_skipped: int = 0
    passages: int = 0


@command()
@click.argument("sources", metavar="TRAIN...", nargs=-1, required=True, type=_place)
@click.option(
    "--test", "tests", metavar="TEST", multiple=True, required=True, type=_place, help="Test texts: a file, a folder, ..."
)
@click.option("--test-field", "test_fields", multiple=True, help="Field with the test text.  [default: that of --text-field]")
@click.option(
    "-o", "--output", "output_name", required=True, type=click.Path(allow_dash=True), help="Write the clean records here."
)
@click.option("--shortest", type=click.IntRange(3, 1000), default=13, show_default=True, help="Tokens in the shortest passage.")
@click.option(
    "--drop",
    type=click.Choice(["document", "passage"]),
    default="document",
    show_default=True,
    help="Drop each record that shares a passage, or cut the passages out of its text.",
)
@click.option("--report", type=_place, help="Write each passage found as a JSON line; - is standard output.")
@click.option("--tmp", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder for temporary files.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@text_options
@input_options
@json_option
def decontaminate(
    sources: tuple[Path, ...],
    tests: tuple[Path, ...],
    test_fields: tuple[str, ...],
    output_name: str,
    drop: str,
    report: Path | None,
    tmp: Path | None,
    force: bool,
    as_json: bool,
    shortest: int,
    **options: Any,
) -> None:
    """Copy the records of TRAIN that share no passage with TEST.

    A passage is a run of --shortest words in a row; case, punctuation and Unicode forms do not matter. No such record is missed,
    and none is dropped without one. Only TEST is indexed, in a temporary file: TRAIN streams past it and may have any size. TRAIN
    and -o are as for neardup dedup: JSON lines, CSV, TSV, Parquet, Arrow, lines, folders, compressed or not; TEST likewise.
    --drop passage takes JSON lines and folders of texts.

    \b
    neardup decontaminate train.jsonl --test gsm8k.jsonl --test-field question -o clean.jsonl --report found.jsonl
    neardup decontaminate shards/ --test tests/ -o clean/
    """
    rules = text_rules(options) or TextRules()
    output, reading = Path(output_name), replace(read_options(options), one_header=True, typed_ids=True)
    paths, test_paths = paths_named(sources), paths_named(tests)
    if STDIN in paths and STDIN in test_paths:
        raise click.UsageError("Only one of TRAIN and --test can be standard input (-): name a file for the other")
    outputs = [path for path in (output, report) if path is not None]
    if outputs.count(STDOUT) + as_json > 1:
        raise click.UsageError("Only one of -o, --report and --json can write to standard output; name a file for the others")
    for path in outputs:
        if path != STDOUT:
            check_output(path, force, (*paths, *test_paths))
    beside = tmp or folder_for_temporary_files(output)
    with (
        room_in(beside, "name a folder for temporary files on another one with --tmp"),
        tempfile.TemporaryDirectory(prefix=".neardup-", dir=beside) as folder,
    ):
        source = open_source(paths, reading, Path(folder))
        for path in outputs:
            if path != STDOUT:
                check_apart(path, source.files)
        to_folder = output_name.endswith("/") or (output.is_dir() and (len(sources) > 1 or sources[0].is_dir()))
        shards = to_folder and source.format != "folder"
        check_kinds(source, paths, output, shards)
        if report is not None and report != STDOUT:
            check_kind(report, folder=False)
        if drop == "passage" and source.format not in ("jsonl", "folder"):
            raise ParameterError(
                f"--drop passage rewrites JSON lines and folders of texts, not {source.format}: use --drop document"
            )
        if drop == "passage" and len(reading.text_fields) > 1:
            raise ParameterError("--drop passage rewrites one field of text: give one --text-field")
        with (
            contextlib.closing(passes_of(source, Path(folder))) as passes,
            scratch_index(Path(folder), Passages(shortest=shortest), rules) as index,
        ):
            test_reading = replace(reading, text_fields=test_fields or reading.text_fields, one_header=False)
            search = _Search(index)
            search.read_tests(test_paths, test_reading, Path(folder))
            summary = _run(search, passes, output, report, drop, shards)
    _tell(summary, source.name, drop, as_json, STDOUT in outputs, shortest)


class _Search:
    """The test texts: an index, and a filter that tells which texts are worth a question."""

    def __init__(self, index: Index) -> None:
        self.names: list[str | int] = []
        self.too_short = self.skipped = 0
        self._index = index
        self._filter = RunFilter(index.scheme.native, index.text_rules.native)

    def read_tests(self, tests: Sequence[Path], reading: ReadOptions, folder: Path) -> None:
        """Their numbers, from 0, are the keys of the index."""
        self._index.add_many(self._records(tests, reading, folder))
        if not self.names:
            raise ParameterError(f"{tests[0]}: there is no record; name test texts with --test")
        self.found = np.zeros(len(self.names), bool)
        self.too_short = self._index.connection.execute(
            f"SELECT count(*) FROM {self._index.name}_document WHERE fingerprint_id IS NULL"
        ).fetchone()[0]

    def _records(self, tests: Sequence[Path], reading: ReadOptions, folder: Path) -> Iterator[tuple[int, str]]:
        for place, path in enumerate(tests):
            below = folder / f"test-{place}"
            below.mkdir()
            source = open_source([path], reading, below)
            for piece in in_pieces(source, limits.SKETCHED_RECORDS):
                self._filter.add([record.text for record in piece])
                for record in piece:
                    self.names.append(record.key)
                    yield len(self.names) - 1, record.text
            note_problems(source.name, source.replaced, source.skipped, source.problems)
            self.skipped += source.skipped

    def candidates(self, texts: list[str] | LocatedTexts) -> Any:
        """Which texts may share a passage with a test text, bool[n]: all that do, and very few others."""
        return self._filter.meet(texts)

    def passages(self, text: str) -> list[Passage]:
        """`key` is the number of the test text."""
        found = self._index.passages(text)
        self.found[[int(passage.key) for passage in found]] = True
        return found


def _run(search: _Search, passes: Passes, output: Path, report: Path | None, drop: str, shards: bool) -> Contamination:
    started, source = time.monotonic(), passes.source
    summary = Contamination(tests=len(search.names), tests_too_short=search.too_short, tests_skipped=search.skipped)
    targets = [path for path in (report, output) if path is not None]
    with replacing(*targets) as new:
        places = dict(zip(targets, new, strict=True))
        found = summary.read(passes, search.candidates, lambda: None)
        candidates = np.concatenate(found) if found else np.zeros(0, bool)
        with contextlib.ExitStack() as stack:
            if report is not None:
                stack.enter_context(room_for(report))
            told = None if report is None else stack.enter_context(open_output(places[report], packing_of(report)))
            contaminated = _contaminated(search, passes, candidates, summary, told)
        summary.tests_found, summary.contaminated = int(search.found.sum()), int(contaminated.sum())
        with room_for(output), Meter("Write", source.size_bytes) as meter:
            if drop == "passage":
                _write_cut(search, cast(TextPasses, passes), contaminated, places[output], output, shards, meter)
            elif shards:
                passes.write_shards(~contaminated, shard_paths(source, places[output]), meter)
            else:
                passes.write(~contaminated, places[output], output, meter)
        source.require_unchanged()
    summary.set_time(time.monotonic() - started)
    return summary


def _contaminated(search: _Search, passes: Passes, candidates: Any, summary: Contamination, report: IO[bytes] | None) -> Any:
    """Which of the candidates share a passage, bool[n]; each passage is a line of the report."""
    contaminated = np.zeros(len(candidates), bool)
    for record in passes.chosen(candidates) if candidates.any() else ():
        found = search.passages(record.text)
        contaminated[record.number - 1] = bool(found)
        summary.passages += len(found)
        for passage in found if report is not None else ():
            told = {"id": record.key, "test": search.names[int(passage.key)], **passage._asdict()}
            del told["key"]
            told = {name.replace("other", "test"): value for name, value in told.items()}
            line = json_line({**told, "text": record.text[passage.start : passage.end]})
            cast(IO[bytes], report).write(line.encode() + b"\n")
    return contaminated


def _write_cut(
    search: _Search, passes: TextPasses, contaminated: Any, place: Path, output: Path, shards: bool, meter: Meter
) -> None:
    def cut(text: str) -> str:
        while found := search.passages(text):  # the words on both sides of a cut may be a passage too
            kept, place = [], 0
            for passage in sorted(found, key=lambda passage: passage.start):
                kept.append(text[place : max(place, passage.start)])
                place = max(place, passage.end)
            text = "".join([*kept, text[place:]])
        return text

    everything, edit = np.ones(len(contaminated), bool), changing(passes.source, contaminated, cut)
    if not shards:
        passes.write_edited(everything, place, output, meter, edit)
        return
    for path, shard in shard_paths(passes.source, place).items():
        kept = passes.mask_of_file(path, everything)
        passes.write_edited(kept, shard, shard, meter, edit)


def _tell(summary: Contamination, name: str, drop: str, as_json: bool, to_stdout: bool, shortest: int) -> None:
    note_problems(name, summary.invalid_utf8, summary.skipped, summary.problems)
    if summary.tests_too_short:
        print_note(
            f"{count_text(summary.tests_too_short, 'test text')} of {summary.tests:,} with fewer than {shortest} tokens cannot "
            "be found: give a lower --shortest"
        )
    if as_json:
        emit_json(as_json_value(summary))
        return
    tell = print_note if to_stdout else emit
    kept = summary.records - (summary.contaminated if drop == "document" else 0)
    goes = "removed" if drop == "document" else "without their passages"
    tell(
        f"{count_text(summary.records, 'record')}: {kept:,} kept, {summary.contaminated:,} contaminated {goes}; "
        f"{summary.tests_found:,} of {count_text(summary.tests, 'test text')} found, in {count_text(summary.passages, 'passage')}"
    )
    tell(f"{bytes_text(summary.input_bytes)} in {summary.seconds:.1f} s: {summary.mb_per_second:.1f} MB/s")
