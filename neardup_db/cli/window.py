"""`neardup window`: the window of an index."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from ..parameters import WindowSize
from .options import index_command, open_index, parse_window
from .output import emit_result
from .wording import duration_text, renaming_arguments


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
