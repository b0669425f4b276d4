"""Commands that change an index, or copy it: delete, expire, rebuild, check, backup, compact, window."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from ..index import Index
from ..parameters import WindowSize, check_path
from ..values import AnyGroup, Key, Part
from . import common, indexes
from .common import Results
from .inputs.files import STDOUT, FileError, is_stream
from .output import count_text, escaped, print_note
from .outputs import check_output, replacing, room_for
from .wording import duration_text, in_command_terms, told_as


@common.index_command()
@common.keys_options
@click.option("--part", help="Delete only the code with this name, as text or else as an integer.")
@click.option("--whole-group", metavar="NAME", help="Delete all documents of this group instead, without KEY.")
@common.group_option
def delete(
    index: Index, keys: tuple[str, ...], file: Any, part: str | None, whole_group: str | None, key_type: str, group: str | None
) -> Results:
    """One transaction deletes all of them. With --part each document loses one code, and is deleted with its last. With --group a
    document of another group counts as missing. Exit code 1 if none exists.

    \b
    neardup delete articles.db a1 a2
    neardup delete articles.db --whole-group de
    neardup delete pictures.db dog.jpg --part 'turned left'
    """
    missing: list[Key] = []
    what, more = "document", "" if group is None else " in the group"
    if whole_group is not None:
        if keys or file is not None or part is not None or group is not None:
            raise click.UsageError("--whole-group cannot be combined with KEY, --file, --part or --group")
        count = index.delete_group(indexes.find_group(index, whole_group))
    else:
        wanted = list(dict.fromkeys(common.parse_keys(keys, file, key_type)))
        of_group = indexes.group_listed(index, group)
        if part is not None:
            missing = _delete_part(index, wanted, part, of_group)
            count, what, more = len(wanted) - len(missing), "code", f" and a code with the part {escaped(part)}"
        else:
            found = index.get_many(wanted, group=of_group)
            missing = [key for key, document in zip(wanted, found, strict=True) if document is None]
            count = index.delete_many(wanted, group=of_group)
    yield {"deleted": count, "missing": missing}, f"{count_text(count, what)} deleted"
    for key in () if common.is_json() else missing:
        print_note(f"no document has the key {escaped(key)}{more}")
    return 0 if count else 1


def _delete_part(index: Index, keys: list[Key], part: str, group: Key | AnyGroup) -> list[Key]:
    """Returns the keys without such a part."""
    named: list[Part] = [part]
    with contextlib.suppress(ValueError):
        named.append(int(part))
    with index.transaction():
        return [key for key in keys if not any(index.delete(key, part=one, group=group) for one in named)]


@common.index_command()
@click.option("--keep-newest", type=click.IntRange(min=0), help="Also delete all but this many of the newest documents.")
def expire(index: Index, keep_newest: int | None) -> Results:
    """Queries already ignore them; this frees their space. Exit code 1 if there is nothing to remove.

    \b
    neardup expire articles.db --keep-newest 100000
    """
    expired = index.expire()
    older = index.keep_newest(keep_newest) if keep_newest is not None else 0
    more = f", {older:,} older ones" if keep_newest is not None else ""
    yield {"expired": expired, "older": older}, f"{count_text(expired, 'expired document')} removed{more}"
    return 0 if expired or older else 1


@common.index_command()
@common.scheme_options
@common.text_options
@click.option("--store-text/--no-store-text", default=None, help="Store texts from now on (if INDEX is empty), or drop them.")
@click.option("--record-matches/--no-record-matches", default=None, help="Find and record matches from now on, or drop them.")
@click.option("--compact", is_flag=True, help="Then return free space to the file system.")
def rebuild(index: Index, compact: bool, **options: Any) -> Results:
    """Options change the scheme, the text rules, or whether INDEX stores texts and records matches. Other settings keep their
    value, except that another --scheme starts from its own defaults, and other --tokens from theirs for --shingle. Another
    threshold or recall uses the stored fingerprints; another scheme or other text rules need an index made with --store-text.

    \b
    neardup rebuild articles.db --threshold 0.9 --compact
    neardup rebuild articles.db --scheme simhash --max-distance 5
    """
    index.rebuild(scheme=common.scheme_of(options, index.scheme), text=common.text_rules(options, index.text_rules), **options)
    if compact:
        index.compact()
    documents, size = len(index), indexes.index_files()[0].stat().st_size
    yield {"documents": documents}, f"rebuilt: {count_text(documents, 'document')}, {size:,} bytes"


@common.index_command()
@click.option("--repair", is_flag=True, help="Rebuild damaged data that is derived from other data.")
def check(index: Index, repair: bool) -> Results:
    """Prints a line for each violated invariant. Exit code 0 if there is none (with --repair: after the repair), else 1.

    \b
    neardup check articles.db
    """
    report = index.check(repair=repair)
    lines = [escaped(problem) for problem in report.problems]
    lines += [escaped(f"repaired: {repaired}") for repaired in report.repaired]
    lines += [escaped(f"note: {in_command_terms(told)}") for told in report.notes]
    left = " left" if repair else "; --repair rebuilds what it can"
    lines.append("in order" if report.ok else count_text(len(report.problems), "problem") + left)
    yield {"ok": report.ok, "problems": report.problems, "repaired": report.repaired, "notes": report.notes}, lines
    return 0 if report.ok else 1


@common.index_command()
@click.argument("out", metavar="FILE", type=common.path)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def backup(index: Index, out: Path, force: bool) -> Results:
    """The copy is a snapshot of the whole database. FILE appears when it is complete.

    \b
    neardup backup articles.db backups/articles.db
    """
    if out == STDOUT or is_stream(out):
        raise FileError(f"{out}: an index cannot be written to a stream; name a file")
    check_path(str(out))
    check_output(out, force, indexes.index_files())
    _refuse_log(out)
    with room_for(out), replacing(out) as new:
        index.backup(new[out])
        _refuse_log(out)
        size = new[out].stat().st_size
    yield {"bytes": size}, f"{count_text(size, 'byte')} written"


def _refuse_log(out: Path) -> None:
    """SQLite would apply the log to the copy."""
    log = Path(f"{out.resolve()}-wal")
    if log.exists():
        raise FileError(
            f"{out} is in use, or was left by a crash: its log {log} is there, and would damage the copy; close what uses it, "
            "open and close it once, or name another output"
        )


@common.index_command()
def compact(index: Index) -> Results:
    """This also erases deleted texts from unused pages and from the log. While it runs, it needs twice the size of the new file:
    once for temporary files, once beside INDEX.

    \b
    neardup compact articles.db
    """
    freed, size = index.compact(), indexes.index_files()[0].stat().st_size
    line = f"{count_text(freed, 'byte')} given back; the file has {size:,} bytes now"
    yield {"freed_bytes": freed, "bytes": size}, line


@common.index_command()
@click.argument("size", metavar="[SIZE]", required=False)
def window(index: Index, size: str | None) -> Results:
    """SIZE is a time (90s, 12h, 7d), a number of documents (the newest are kept), or none (all are kept). Documents outside of a
    new window become invisible at once, and are removed by later adds, or by `neardup expire`. A wider window does not bring them
    back.

    \b
    neardup window seen.db
    neardup window seen.db 24h
    neardup window seen.db 1000000
    neardup window seen.db none
    """
    if size is not None:
        with told_as(window="SIZE"):
            index.set_window(None if size.lower() == "none" else common.parse_window(size, "SIZE", "none for all"))
    now, documents = index.window, len(index)
    seconds, count = (now.total_seconds(), None) if isinstance(now, timedelta) else (None, now)
    line = f"{_window_text(now)}; {documents:,} {'document is' if documents == 1 else 'documents are'} there"
    yield {"seconds": seconds, "documents": count, "there": documents}, line


def _window_text(size: WindowSize | None) -> str:
    if size is None:
        return "all documents stay"
    if isinstance(size, timedelta):
        return f"documents stay for {duration_text(size)}"
    return f"the last {size:,} documents stay" if size > 1 else "the last document stays"
