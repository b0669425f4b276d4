"""`neardup tune`: suggests text rules and a threshold for given texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

from ..tuning import RULES, Border, Example, Tuning, tuned
from ..values import Key
from . import common
from .common import Results
from .difference import changes
from .inputs.files import STDOUT
from .inputs.opening import open_source
from .inputs.source import ReadOptions
from .output import as_json_value, count_text, escaped, note_problems
from .outputs import check_output, scratch_folder, write_page
from .progress import Meter

SHOWN_CHANGES, COMPARED = 3, 20_000  # the number of differences printed, and the characters compared of a text


@common.command()
@common.sources_argument
@click.option("--sample", type=click.IntRange(min=2), default=5000, help="Maximum number of texts to compare.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Seed of the random sample.")
@click.option("--truth", type=common.existing_file, metavar="FILE", help="Known near-duplicates, as dedup --pairs writes them.")
@common.html_options
@common.input_options
def tune(
    sources: tuple[Path, ...], sample: int, seed: int, truth: Path | None, html: Path | None, force: bool, **options: Any
) -> Results:
    """Shingles of 1 to 3 words and of 3 to 7 characters are tried on a sample that keeps similar texts together. For each rule
    the command prints the number of pairs at each similarity, the similarity of unlike texts and of copies with one word in
    twenty changed, a threshold between the two, the number of pairs that reach it, and the cost of an index (bytes and
    microseconds a text). Then it prints its advice, the texts of the sample that deduplication would remove, and the pairs near
    each threshold with their differences. Exit code 1 if no rule separates near-duplicates from unlike texts.

    --html writes a page with the pairs under all rules side by side. With --truth FILE (CSV, TSV or JSON lines
    with id_a and id_b) the threshold agrees best with known pairs, and recall and precision are printed.

    \b
    neardup tune posts.jsonl
    neardup tune posts.jsonl --html rules.html
    neardup tune posts.csv --text-field body --truth pairs.csv
    """
    if html == STDOUT and common.is_json():
        raise click.UsageError("--html - and --json both write to standard output; name a file for the page")
    reading = common.read_options(options)
    with scratch_folder() as folder, ExitStack() as meters:
        source = open_source(sources, reading, folder)
        if html is not None:
            check_output(html, force, source.files)
        known = None if truth is None else _pairs(truth, folder)
        trying = Meter("Try", len(RULES), has_rates=False)

        def texts() -> Iterator[tuple[Key, str]]:
            with Meter("Read", source.size_bytes) as meter:
                for record in source:
                    yield record.key, record.text
                    meter.advance(source.position)
            meters.enter_context(trying)

        tuning = tuned(texts(), known, sample, seed, tried=lambda name: trying.advance(trying.records + 1))
    note_problems(source.name, source.replaced, source.skipped, source.problems)
    if html is not None:
        write_page(html, tuning.html(f"Text rules for {source.name}"))
    yield _as_json(tuning), () if html == STDOUT else _lines(tuning)
    return 0 if tuning.best else 1


def _pairs(path: Path, folder: Path) -> list[tuple[Key, Key]]:
    """Keys are text; an integer id_b is read as its digits, like an integer id."""
    source = open_source([path], ReadOptions(id_field="id_a", text_fields=("id_b",), integer_texts=True), folder)
    return [(record.key, record.text) for record in source]


def _as_json(tuning: Tuning) -> dict[str, Any]:
    counts = {name: getattr(tuning, name) for name in ("texts", "empty", "sample", "words", "known")}
    trials = [{**_without_texts(trial), "rules": as_json_value(trial.rules.given)} for trial in tuning.trials]
    return {**counts, "best": tuning.best and tuning.best.name, "advice": tuning.advice, "trials": trials}


def _without_texts(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_texts(one) for one in value]
    if not is_dataclass(value):
        return as_json_value(value)
    return {one.name: _without_texts(getattr(value, one.name)) for one in fields(value) if not one.name.startswith("text_")}


def _lines(tuning: Tuning) -> Iterator[str]:
    compared = f"{count_text(tuning.texts, 'text')}, {tuning.sample:,} compared, of {tuning.words:,} words (the median)"
    yield compared + (f"; {tuning.empty:,} without a word" if tuning.empty else "")
    yield from str(tuning).split("\n")
    trial = tuning.best
    if trial is None:
        return
    options = f"--tokens {trial.rules.tokens} --shingle {trial.rules.shingle} --threshold {trial.threshold}"
    yield f"Options of neardup dedup: {options}; of neardup add the same{' and --exact' if trial.exact else ''}"
    if trial.border is not None:
        yield ""
        yield (
            f"Deduplication under {trial.name} at {trial.border.threshold:.2f} would remove {trial.border.removed or 0:,} of "
            f"{count_text(tuning.sample, 'text')}; the largest cluster has {trial.border.largest or 1:,}."
        )
        if trial.border.samples:
            yield "Some of them, beside the text that stays:"
        for example in trial.border.samples:
            yield from _example_lines("removed", example)
    yield from ("", f"Pairs under {trial.name}:")
    for border in trial.borders:
        yield from _border_lines(border)


def _border_lines(border: Border) -> Iterator[str]:
    share = "" if border.recall is None else f", {border.recall:.1%} of the known ones"
    if border.precision is not None:
        share += f", {border.precision:.1%} of them known"
    if border.removed is not None:
        share += f"; {border.removed:,} removed"
    yield f"threshold {border.threshold:.2f}: {count_text(border.pairs, 'pair')} at or above it{share}"
    for side, examples in (("above", border.above), ("below", border.below)):
        for example in examples[:1]:
            yield from _example_lines(side, example)


def _example_lines(name: str, example: Example) -> Iterator[str]:
    yield f"  {name}  {example.similarity:.4f}  {escaped(example.key_a)}  {escaped(example.key_b)}"
    for line in changes(example.text_a[:COMPARED], example.text_b[:COMPARED], SHOWN_CHANGES):
        yield f"         {line}"
