"""Commands for the index file: backup, compact, window."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from ..errors import ParameterError
from ..parameters import WindowSize, check_path
from .inputs.files import STDOUT, is_stream
from .options import index_command, index_files, open_index, parse_window
from .output import count_text, emit_result
from .outputs import check_kind, check_output, replacing, room_for
from .wording import duration_text, renaming_arguments


@index_command()
@click.argument("out", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def backup(index_path: Path, out: Path, force: bool, name: str, as_json: bool) -> None:
    """Copy INDEX to FILE, even while other programs write to it.

    The copy is a snapshot of the whole database. FILE appears when it is complete.

    \b
    neardup backup articles.db backups/articles.db
    """
    if out == STDOUT or is_stream(out):
        raise ParameterError(f"{out}: an index cannot be written to a stream; name a file")
    check_kind(out, folder=False)
    check_path(str(out))
    check_output(out, force, index_files(index_path))
    _refuse_log(out)
    with open_index(index_path, name) as index, room_for(out), replacing(out) as (new,):
        index.backup(new)
        _refuse_log(out)
        size = new.stat().st_size
    emit_result({"bytes": size}, f"{count_text(size, 'byte')} written", as_json=as_json)


def _refuse_log(out: Path) -> None:
    """SQLite would apply the log to the copy."""
    log = index_files(out.resolve())[1]
    if log.exists():
        raise ParameterError(
            f"{out} is in use, or was left by a crash: its log {log} is there, and would damage the copy; close what uses it, "
            "open and close it once, or name another output"
        )


@index_command()
def compact(index_path: Path, name: str, as_json: bool) -> None:
    """Return unused space of INDEX to the file system.

    This also erases deleted texts from unused pages and from the log. While it runs, it needs twice the size of the new file:
    once for temporary files, once beside INDEX.

    \b
    neardup compact articles.db
    """
    with open_index(index_path, name, write=True) as index:
        freed = index.compact()
    size = index_path.stat().st_size
    line = f"{count_text(freed, 'byte')} given back; the file has {size:,} bytes now"
    emit_result({"freed_bytes": freed, "bytes": size}, line, as_json=as_json)


@index_command()
@click.argument("size", metavar="[SIZE]", required=False)
def window(index_path: Path, size: str | None, name: str, as_json: bool) -> None:
    """Print or change the window of INDEX.

    SIZE is a time (90s, 12h, 7d), a number of documents (the newest are kept), or none (all are kept). Documents outside of a new
    window become invisible at once, and are removed by later adds, or by `neardup expire`. A wider window does not bring them
    back.

    \b
    neardup window seen.db
    neardup window seen.db 24h
    neardup window seen.db 1000000
    neardup window seen.db none
    """
    given = None if size is None or size.lower() == "none" else parse_window(size, "SIZE", "none for all")
    with open_index(index_path, name, write=size is not None) as index:
        if size is not None:
            with renaming_arguments(window="SIZE"):
                index.set_window(given)
        now = index.window
        documents = len(index)
    seconds, count = (now.total_seconds(), None) if isinstance(now, timedelta) else (None, now)
    line = f"{_window_text(now)}; {documents:,} {'document is' if documents == 1 else 'documents are'} there"
    emit_result({"seconds": seconds, "documents": count, "there": documents}, line, as_json=as_json)


def _window_text(size: WindowSize | None) -> str:
    if size is None:
        return "all documents stay"
    if isinstance(size, timedelta):
        return f"documents stay for {duration_text(size)}"
    return f"the last {size:,} documents stay" if size > 1 else "the last document stays"
