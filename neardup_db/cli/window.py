"""`neardup window`: for how long documents stay in an index."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from ..parameters import WindowSize
from .command import command
from .options import index_argument, json_option, name_option, open_index, parse_window
from .output import emit, emit_json
from .wording import called, duration


@command()
@index_argument
@click.argument("size", metavar="[SIZE]", required=False)
@name_option
@json_option
def window(index_path: Path, size: str | None, name: str, as_json: bool) -> None:
    """Print for how long documents stay in INDEX, or change it.

    SIZE is a time (90s, 12h, 7d), a number of documents, of which the last so many stay, or none: all stay. What is outside of a
    new window is invisible at once, and removed a few at a time with what is added, or by `neardup expire`. What has fallen out
    already does not come back.

    \b
    neardup window seen.db
    neardup window seen.db 24h
    neardup window seen.db 1000000
    neardup window seen.db none
    """
    given = None if size is None or size.lower() == "none" else parse_window(size, "SIZE", "none for all")
    with open_index(index_path, name, write=size is not None) as index:
        if size is not None:
            with called(window="SIZE"):
                index.set_window(given)
        now = index.window
        documents = len(index)
    if as_json:
        seconds = now.total_seconds() if isinstance(now, timedelta) else None
        emit_json({"seconds": seconds, "documents": None if isinstance(now, timedelta) else now, "there": documents})
    else:
        emit(f"{_window_text(now)}; {documents:,} {'document is' if documents == 1 else 'documents are'} there")


def _window_text(size: WindowSize | None) -> str:
    if size is None:
        return "all documents stay"
    if isinstance(size, timedelta):
        return f"documents stay for {duration(size)}"
    return f"the last {size:,} documents stay" if size > 1 else "the last document stays"
