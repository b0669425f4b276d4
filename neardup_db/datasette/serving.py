"""Datasette with one file, read-only, for `neardup serve`."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from datasette.app import Datasette
from datasette.utils.sqlite import sqlite3

from ..errors import FormatError, ParameterError
from ..store.database.open import refuse_waiting_log
from .foreign import index_names, reading
from .routes import PLUGIN, place_of

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


def is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "give another port with --port, or --port 0 for a free one"
        raise ParameterError(f"{host}, port {port}: {reason}; {remedy}") from error


def application(path: Path, host: str, port: int, write: bool = False) -> tuple[Application, list[str]]:
    """The application that serves a file, and the URLs of its index pages. write: every visitor may dismiss pairs.

    If the file's folder is not writable, SQLite cannot create a -shm file, and the file is read as immutable.
    """
    if not path.is_file():
        raise ParameterError(f"{path}: no such file; create an index with: neardup add {path} RECORDS")
    if set("?#%") & set(str(path)):
        raise ParameterError(f"{path}: Datasette cannot open a path with ?, # or %: rename the file")
    immutable = _cannot_be_shared(path)
    names = _names(path, "immutable=1" if immutable else "mode=ro")
    if not names:
        raise FormatError(f"{path}: the file holds no index; create one with: neardup add {path} RECORDS")
    if immutable and write:
        raise ParameterError(f"{path}: neither the file nor its folder is writable: leave out --write")
    files = [] if immutable else [str(path)]
    settings = {"plugins": {PLUGIN: {"write": write}}}
    datasette = Datasette(files, immutables=[str(path)] if immutable else [], metadata=settings)
    database = next(name for name in datasette.databases if name != "_internal")
    start = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    addresses = [start + place_of(datasette, database, name).address for name in names]
    app: Application = datasette.app()
    return OnlyLocalNames(app) if is_local(host) else app, addresses


def run(app: Application, listener: socket.socket) -> None:
    printing: Any = import_module("datasette.handle_exception")  # after Datasette, so that it is registered
    printing.rich = None  # no dumps of variables for unknown URLs
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on")).run(sockets=[listener])


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{mode}"


def _cannot_be_shared(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(_uri(path, "mode=ro"), uri=True)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        refuse_waiting_log(str(path.resolve()), error)
        return True
    except sqlite3.DatabaseError as error:
        raise FormatError(f"{path}: {error}") from error
    return False


def _names(path: Path, mode: str) -> list[str]:
    with closing(sqlite3.connect(_uri(path, mode), uri=True)) as connection, reading(connection) as cursor:
        return index_names(cursor)


REFUSAL = b"This server answers only to the names of this machine: localhost or 127.0.0.1.\n"


class OnlyLocalNames:
    """Answers only requests whose Host header names this machine, so that a foreign web page whose DNS name resolves to it (DNS
    rebinding) cannot read data."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not is_local(_host_of(hosts[0])):
                headers = [(b"content-type", b"text/plain; charset=utf-8")]
                await send({"type": "http.response.start", "status": 421, "headers": headers})
                await send({"type": "http.response.body", "body": REFUSAL})
                return
        await self.app(scope, receive, send)


def _host_of(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
