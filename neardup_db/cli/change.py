"""Commands that change an index: delete, expire, rebuild, check."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

from ..index import Index
from ..values import ANY_GROUP, AnyGroup, Key, Part
from .options import (
    find_group,
    group_listed,
    group_option,
    index_command,
    keys_options,
    open_index,
    parse_keys,
    scheme_of,
    scheme_options,
    text_options,
    text_rules,
)
from .output import count_text, emit, emit_json, emit_result, escaped, print_note
from .wording import in_command_terms


@index_command()
@keys_options
@click.option("--part", help="Delete only the code with this name, as text or else as an integer.")
@click.option("--whole-group", metavar="NAME", help="Delete all documents of this group instead, without KEY.")
@group_option
def delete(
    index_path: Path,
    keys: tuple[str, ...],
    file: Any,
    part: str | None,
    whole_group: str | None,
    name: str,
    key_type: str,
    group: str | None,
    as_json: bool,
) -> int:
    """Delete documents by their keys, or all those of a group.

    One transaction deletes all of them. With --part each document loses one code, and is deleted with its last. With --group a
    document of another group counts as missing. Exit code 1 if none exists.

    \b
    neardup delete articles.db a1 a2
    neardup delete articles.db --whole-group de
    neardup delete pictures.db dog.jpg --part 'turned left'
    """
    if whole_group is not None:
        if keys or file is not None or part is not None or group is not None:
            raise click.UsageError("--whole-group cannot be combined with KEY, --file, --part or --group")
        with open_index(index_path, name, write=True) as index:
            return _print_deleted(index.delete_group(find_group(index, whole_group)), "document", [], "", as_json)
    wanted = list(dict.fromkeys(parse_keys(keys, file, key_type)))
    with open_index(index_path, name, write=True) as index:
        of_group = group_listed(index, group)
        if part is not None:
            return _delete_part(index, wanted, part, of_group, as_json)
        if of_group is ANY_GROUP:
            missing = [key for key in wanted if key not in index]
        else:
            found = index.get_many(wanted, group=of_group)
            missing = [key for key, document in zip(wanted, found, strict=True) if document is None]
        count = index.delete_many(wanted, group=of_group)
    return _print_deleted(count, "document", missing, "" if group is None else " in the group", as_json)


def _delete_part(index: Index, keys: list[Key], part: str, group: Key | AnyGroup, as_json: bool) -> int:
    named: list[Part] = [part]
    with contextlib.suppress(ValueError):
        named.append(int(part))
    with index.transaction():
        missing = [key for key in keys if not any(index.delete(key, part=one, group=group) for one in named)]
    return _print_deleted(len(keys) - len(missing), "code", missing, f" and a code with the part {escaped(part)}", as_json)


def _print_deleted(count: int, what: str, missing: list[Key], more: str, as_json: bool) -> int:
    emit_result({"deleted": count, "missing": missing}, f"{count_text(count, what)} deleted", as_json=as_json)
    for key in () if as_json else missing:
        print_note(f"no document has the key {escaped(key)}{more}")
    return 0 if count else 1


@index_command()
@click.option("--keep-newest", type=click.IntRange(min=0), help="Also delete all but this many of the newest documents.")
def expire(index_path: Path, name: str, keep_newest: int | None, as_json: bool) -> int:
    """Remove expired documents.

    Queries already ignore them; this frees their space. Exit code 1 if there is nothing to remove.

    \b
    neardup expire articles.db --keep-newest 100000
    """
    with open_index(index_path, name, write=True) as index:
        expired = index.expire()
        older = index.keep_newest(keep_newest) if keep_newest is not None else 0
    more = f", {older:,} older ones" if keep_newest is not None else ""
    line = f"{count_text(expired, 'expired document')} removed{more}"
    emit_result({"expired": expired, "older": older}, line, as_json=as_json)
    return 0 if expired or older else 1


@index_command()
@scheme_options
@text_options
@click.option("--store-text/--no-store-text", default=None, help="Store texts from now on (if INDEX is empty), or drop them.")
@click.option("--record-matches/--no-record-matches", default=None, help="Find and record matches from now on, or drop them.")
@click.option("--compact", is_flag=True, help="Then return free space to the file system.")
def rebuild(index_path: Path, name: str, compact: bool, as_json: bool, **options: Any) -> None:
    """Rebuild the tables of INDEX.

    Options change the scheme, the text rules, or whether INDEX stores texts and records matches. Other settings keep their value,
    except that another --scheme starts from its own defaults, and other --tokens from theirs for --shingle. Another
    threshold or recall uses the stored fingerprints; another scheme or other text rules need an index made with --store-text.

    \b
    neardup rebuild articles.db --threshold 0.9 --compact
    neardup rebuild articles.db --scheme simhash --max-distance 5
    """
    with open_index(index_path, name, write=True) as index:
        index.rebuild(scheme=scheme_of(options, index.scheme), text=text_rules(options, index.text_rules), **options)
        if compact:
            index.compact()
        documents = len(index)
    line = f"rebuilt: {count_text(documents, 'document')}, {index_path.stat().st_size:,} bytes"
    emit_result({"documents": documents}, line, as_json=as_json)


@index_command()
@click.option("--repair", is_flag=True, help="Rebuild damaged data that is derived from other data.")
def check(index_path: Path, name: str, repair: bool, as_json: bool) -> int:
    """Check the integrity of INDEX.

    Prints a line for each violated invariant. Exit code 0 if there is none (with --repair: after the repair), else 1.

    \b
    neardup check articles.db
    """
    with open_index(index_path, name, write=repair) as index:
        report = index.check(repair=repair)
    if as_json:
        lines = {"problems": list(report.problems), "repaired": list(report.repaired), "notes": list(report.notes)}
        emit_json({"ok": report.ok, **lines})
    else:
        for problem in report.problems:
            emit(escaped(problem))
        for repaired in report.repaired:
            emit(escaped(f"repaired: {repaired}"))
        for told in report.notes:
            emit(escaped(f"note: {in_command_terms(told)}"))
        left = " left" if repair else "; --repair rebuilds what it can"
        emit("in order" if report.ok else count_text(len(report.problems), "problem") + left)
    return 0 if report.ok else 1
