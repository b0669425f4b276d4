"""`neardup serve`: an index in a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from ..errors import ParameterError
from . import common
from .output import emit, print_note
from .wording import told_as


@common.command(has_json=False)
@common.index_argument
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8001, help="Port; 0 chooses a free one.")
@click.option("--write", is_flag=True, help="Add buttons for visitors to dismiss documents and allow texts.")
def serve(index_path: Path, host: str, port: int, write: bool) -> None:
    """The file is read only, unless --write is given. Other programs may write to it at the same time; each page shows the
    current state. Only this machine can open the pages, unless --host says otherwise. Needs Datasette: pip install
    'neardup-db[datasette]'. Ctrl-C ends it.

    \b
    neardup serve articles.db
    neardup serve articles.db --port 8080
    """
    try:
        from ..datasette import serving
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("datasette", "markupsafe", "uvicorn"):
            raise
        raise ParameterError("neardup serve needs Datasette: pip install 'neardup-db[datasette]'") from error
    with serving.listen(host, port) as listener:
        with told_as(index_path):
            app, addresses = serving.application(index_path, host, listener.getsockname()[1], write)
        for address in addresses:
            emit(address)
        if not serving.is_local(host):
            print_note(f"anyone who can reach {host} can read the whole file{' and dismiss documents in it' if write else ''}")
        print_note("Ctrl-C ends it")
        with suppress(KeyboardInterrupt):  # the normal way to stop
            serving.run(app, listener)
