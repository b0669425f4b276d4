"""Commands for passages: passages, boilerplate."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .. import limits
from ..errors import ParameterError
from ..index import Index
from ..schemes import Passages
from ..store.database.open import open_scratch
from ..values import CommonPassage, Key, Passage
from .command import command
from .feed import feed, warnings_as_notes
from .inputs.binary import HEAD_BYTES, why_not_text
from .inputs.opening import open_source
from .inputs.source import InputRecord
from .options import (
    Count,
    group_option,
    group_or_none,
    index_command,
    input_options,
    json_option,
    key_type_option,
    limit_option,
    open_index,
    parse_key,
    read_options,
    text_options,
    text_rules,
)
from .output import as_json_value, count_text, emit, emit_json, escaped, note_problems, print_note
from .outputs import room_in
from .progress import Meter

shortest_option = click.option("--shortest", type=click.IntRange(3, 1000), help="Tokens in the shortest passage.")


@index_command()
@click.argument("text", metavar="FILE|TEXT", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Read the text from a file.")
@click.option("--key", help="The passages of a stored document instead of a text.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The passages of each document of another index, which stores texts, instead of a text.",
)
@click.option("--in", "in_key", metavar="KEY", help="Only passages of this document.")
@key_type_option
@shortest_option
@limit_option
@group_option
def passages(
    index_path: Path,
    text: str | None,
    file: Path | None,
    key: str | None,
    against: Path | None,
    in_key: str | None,
    **options: Any,
) -> int:
    """Print the passages that a text shares with documents.

    The longest come first. The text is in FILE or, if there is no file of this name, the argument itself; - is standard input.
    The index must be made with --scheme passages. Each line has the number of tokens, the key, both places (in characters, from
    0) and the passage; with --against the key of the other document comes first. With --json each passage is an object. Exit code
    1 if there is none.

    \b
    neardup add books.db books.jsonl --scheme passages --shortest 25
    neardup passages books.db essay.txt
    neardup passages books.db essay.txt --shortest 40 --json
    neardup passages books.db --key essay-7 --in essay-3
    neardup passages books.db --against essays.db
    """
    if sum(source is not None for source in (text, file, key, against)) != 1 or (key is not None and in_key is None):
        raise click.UsageError("Give one of FILE or TEXT, --file, --against, and --key with --in")
    with open_index(index_path, options["name"]) as index:
        shortest = options["shortest"]
        if against is not None:
            return _against(index, against, in_key, options)
        if key is not None:
            stored, other = (parse_key(one, options["key_type"]) for one in (key, in_key or ""))
            content = index.get(stored).text
            found = index.passages_of(stored, other, shortest=shortest)[: options["limit"]]
        else:
            content = _content(text, file)
            document = None if in_key is None else parse_key(in_key, options["key_type"])
            group = None if in_key is not None else group_or_none(index, options["group"], "give --group NAME")
            found = index.passages(content, document, shortest=shortest, limit=options["limit"], group=group)
    for passage in found:
        _print_passage(passage, content, options["as_json"])
    return 0 if found else 1


def _against(index: Index, path: Path, in_key: str | None, options: dict[str, Any]) -> int:
    """Print the passages of each document of another index. Returns the exit code."""
    document = None if in_key is None else parse_key(in_key, options["key_type"])
    group = None if in_key is not None else group_or_none(index, options["group"], "give --group NAME")
    printed = 0
    with open_index(path, options["name"]) as other:
        for key in other:
            text = other.get(key).text
            if text is None:
                raise ParameterError(f"{path} stores no texts, which tell where a passage is: make it with --store-text")
            left = None if options["limit"] is None else options["limit"] - printed
            for passage in index.passages(text, document, shortest=options["shortest"], limit=left, group=group):
                printed += 1
                _print_passage(passage, text, options["as_json"], key)
    return 0 if printed else 1


def _content(text: str | None, file: Path | None) -> str:
    if file is None and text != "-":
        with contextlib.suppress(OSError, ValueError):  # a text may be no name of a file
            file = Path(text) if text and Path(text).is_file() else None
        if file is None:
            return text or ""
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    if why := why_not_text(content[:HEAD_BYTES]):
        raise ParameterError(f"{file or 'standard input'}: {why}")
    return content.decode("utf-8", "replace")


def _print_passage(passage: Passage, text: str | None, as_json: bool, against: Key | None = None) -> None:
    shared = None if text is None else text[passage.start : passage.end]
    if as_json:
        other = {} if against is None else {"against": as_json_value(against)}
        emit_json({**other, **as_json_value(passage._asdict()), "text": shared})
        return
    first = "" if against is None else f"{escaped(against)}\t"
    places = f"{passage.start}-{passage.end}\t{passage.other_start}-{passage.other_end}"
    emit(f"{first}{passage.tokens}\t{escaped(passage.key)}\t{places}\t{'' if shared is None else escaped(shared)}")


@command()
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--shortest", type=click.IntRange(3, 1000), default=25, show_default=True, help="Tokens in the shortest passage.")
@click.option("--at-least", type=Count(2), default=10, show_default=True, help="Texts that share a passage.")
@click.option("--limit", type=Count(1), default=100, show_default=True, help="Print at most this many.")
@click.option("--tmp", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder for the temporary index.")
@text_options
@input_options
@json_option
def boilerplate(
    sources: tuple[Path, ...], shortest: int, at_least: int, limit: int, tmp: Path | None, as_json: bool, **options: Any
) -> int:
    """Print the passages that most texts of IN share.

    These are footers, licences and the like; the most frequent come first. IN as for neardup dedup. Copies of a text count once.
    Each line has the number of texts, the number of tokens, the record that has the passage first, and the passage. With --json
    each passage is an object. Exit code 1 if there is none. A temporary index of all records is made: about as large as their
    texts.

    \b
    neardup boilerplate pages.jsonl --at-least 100
    """
    rules, reading = text_rules(options), replace(read_options(options), typed_ids=True)
    with tempfile.TemporaryDirectory(prefix="neardup-", dir=tmp) as folder:
        with room_in(Path(folder).parent, "name a folder on another one with --tmp"):
            source = open_source(sources, reading, Path(folder))
            names: list[str | int] = []
            with scratch_index(Path(folder), Passages(shortest=shortest), rules) as index:

                def arguments(record: InputRecord) -> dict[str, Any]:
                    names.append(record.key)
                    return {"key": len(names) - 1, "text": record.text}

                with Meter("Read", source.size_bytes) as meter, warnings_as_notes():
                    feed(index, source, meter, arguments, commit_every=limits.DEDUP_COMMIT_EVERY)
                found = index.common_passages(at_least, limit=limit)
        for passage in found:
            _print_common(passage, names[int(passage.key)], as_json)
        note_problems(source.name, source.replaced, source.skipped, source.problems)
    if not found:
        print_note(f"no passage of {shortest} tokens is in {count_text(at_least, 'text')}: give a lower --shortest or --at-least")
    return 0 if found else 1


def _print_common(passage: CommonPassage, name: str | int, as_json: bool) -> None:
    if as_json:
        emit_json({**as_json_value(passage._asdict()), "key": name})
    else:
        emit(f"{passage.texts}\t{passage.tokens}\t{escaped(name)}\t{escaped(passage.text or '')}")


@contextlib.contextmanager
def scratch_index(folder: Path, scheme: Passages, rules: Any) -> Iterator[Index]:
    connection = open_scratch(str(folder / "passages.db"))
    try:
        with Index(connection, scheme, text=rules, store_text=True, record_matches=False) as index:
            yield index
    finally:
        connection.close()
