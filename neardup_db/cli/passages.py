"""Commands for passages: passages, boilerplate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from .. import limits
from ..errors import ParameterError
from ..index import Index
from ..schemes import Passages
from ..values import Key, Passage
from . import common, indexes
from .common import Results
from .feed import feed
from .inputs.opening import open_source
from .inputs.source import InputRecord
from .output import count_text, escaped, note_problems, print_note
from .outputs import scratch_folder
from .progress import Meter

shortest_option = click.option("--shortest", type=click.IntRange(3, 1000), help="Tokens in the shortest passage.")


@common.index_command()
@click.argument("text", metavar="FILE|TEXT", required=False)
@common.file_option
@click.option("--key", help="The passages of a stored document instead of a text.")
@click.option("--against", type=common.existing_file, help="The passages of each document of another index, which stores texts.")
@click.option("--in", "in_key", metavar="KEY", help="Only passages of this document.")
@common.key_type_option
@shortest_option
@common.limit_option
@common.group_option
def passages(
    index: Index, text: str | None, file: Path | None, key: str | None, against: Path | None, in_key: str | None, **options: Any
) -> Results:
    """The longest come first. The text is in FILE or, if there is no file of this name, the argument itself; - is standard input.
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
    shortest, limit = options["shortest"], options["limit"]
    document = None if in_key is None else common.parse_key(in_key, options["key_type"])
    if key is not None and document is not None:
        stored = common.parse_key(key, options["key_type"])
        content = index.get(stored).text
        for passage in index.passages_of(stored, document, shortest=shortest)[:limit]:
            yield _shown(passage, content)
        return
    group = None if in_key is not None else indexes.group_or_none(index, options["group"], "give --group NAME")
    for other, content in [(None, _text(text, file))] if against is None else _texts(against, index.name):
        for passage in index.passages(content, document, shortest=shortest, limit=limit, group=group):
            limit = None if limit is None else limit - 1
            yield _shown(passage, content, other)


def _text(text: str | None, file: Path | None) -> str:
    content = common.read_content(text, file, may_be_name=True)
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else content


def _texts(path: Path, name: str) -> Iterator[tuple[Key, str]]:
    with indexes.open_index(path, name) as other:
        for key in other:
            text = other.get(key).text
            if text is None:
                raise ParameterError(f"{path} stores no texts, which tell where a passage is: make it with --store-text")
            yield key, text


def _shown(passage: Passage, text: str | None, against: Key | None = None) -> tuple[dict[str, Any], str]:
    shared = None if text is None else text[passage.start : passage.end]
    places = f"{passage.start}-{passage.end}\t{passage.other_start}-{passage.other_end}"
    line = f"{passage.tokens}\t{escaped(passage.key)}\t{places}\t{'' if shared is None else escaped(shared)}"
    value = {**passage._asdict(), "text": shared}
    return (value, line) if against is None else ({"against": against, **value}, f"{escaped(against)}\t{line}")


@common.command()
@common.sources_argument
@click.option("--shortest", type=click.IntRange(3, 1000), default=25, help="Tokens in the shortest passage.")
@click.option("--at-least", type=common.Count(2), default=10, help="Texts that share a passage.")
@click.option("--limit", type=common.Count(1), default=100, help="Print at most this many.")
@click.option("--tmp", type=common.existing_folder, help="Folder for the temporary index.")
@common.text_options
@common.input_options
def boilerplate(sources: tuple[Path, ...], shortest: int, at_least: int, limit: int, tmp: Path | None, **options: Any) -> Results:
    """These are footers, licences and the like; the most frequent come first. IN as for neardup dedup. Copies of a text count
    once. Each line has the number of texts, the number of tokens, the record that has the passage first, and the passage. With
    --json each passage is an object. Exit code 1 if there is none. A temporary index of all records is made: about as large as
    their texts.

    \b
    neardup boilerplate pages.jsonl --at-least 100
    """
    rules, reading = common.text_rules(options), common.read_options(options, typed_ids=True)
    names: list[str | int] = []

    def arguments(record: InputRecord) -> dict[str, Any]:
        names.append(record.key)
        return {"key": len(names) - 1, "text": record.text}

    with scratch_folder(tmp) as folder:
        source = open_source(sources, reading, folder)
        with indexes.scratch_index(folder, Passages(shortest=shortest), rules, store_text=True) as index:
            with Meter("Read", source.size_bytes) as meter, indexes.warnings_as_notes():
                feed(index, source, meter, arguments, commit_every=limits.DEDUP_COMMIT_EVERY)
            found = index.common_passages(at_least, limit=limit)
        for passage in found:
            name = names[int(passage.key)]
            line = f"{passage.texts}\t{passage.tokens}\t{escaped(name)}\t{escaped(passage.text or '')}"
            yield {**passage._asdict(), "key": name}, line
        note_problems(source.name, source.replaced, source.skipped, source.problems)
    if not found:
        print_note(f"no passage of {shortest} tokens is in {count_text(at_least, 'text')}: give a lower --shortest or --at-least")
