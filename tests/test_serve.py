"""Promise: `neardup serve` shows one file to this machine, only reads it, and follows what others write."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from pages import LOW, NEAR, make, served

from neardup_db import Index, ReadOnlyError
from neardup_db.cli import main
from neardup_db.datasette import serving


def fetch(address: str, **headers: str) -> tuple[int, str]:
    """Status and body of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_serve_shows_a_file_that_is_being_written(tmp_path: Path) -> None:
    """The printed address is the index's page, which changes no byte of the file; a document added while it runs is on the next
    one; what is unknown is 404, and no variables of the server come to the terminal; Ctrl-C ends it well."""
    path = make(tmp_path / "articles.db")
    before = path.read_bytes()
    with served(path) as (address, server):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/-/neardup/articles/neardup", address)
        assert "<dt>documents</dt><dd>4</dd>" in fetch(address)[1]
        assert path.read_bytes() == before
        with Index(path) as index:
            index.add("new", NEAR)
            assert "<dt>documents</dt><dd>5</dd>" in fetch(address)[1]
        assert "new" in fetch(f"{address}/clusters/2")[1]
        base = address.partition("/-/")[0]
        for unknown in (f"{address}/x", f"{base}/-/neardup/articles", f"{base}/nothing", f"{base}/articles/neardup_document/99"):
            assert fetch(unknown)[0] == 404
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=20) == ("", "neardup: Ctrl-C ends it\n")
    assert server.returncode == 0


def test_serve_writes_where_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --write a page has buttons; they work for a form of the page, and for no other site's."""
    path, apps = make(tmp_path / "articles.db"), list[Any]()
    monkeypatch.setattr(serving, "run", lambda app, listener: apps.append(app))
    address = CliRunner().invoke(main, ["serve", str(path), "--port", "0", "--write"]).stdout.strip()

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(apps[0]), follow_redirects=True) as client:
            for origin, status in (("http://evil.example", 403), (f"http://{address.split('/')[2]}", 200)):
                assert 'value="dismiss"' in (await client.get(f"{address}/clusters/2")).text
                client.cookies.clear()
                answer = await client.post(f"{address}/decide", data={"a": "1", "b": "2"}, headers={"Origin": origin})
                assert answer.status_code == status

    asyncio.run(ask())
    with Index(path) as index:  # at the end: locks of a second SQLite in one process are not seen
        assert list(index.dismissed()) == [("first", "near")]


def test_names_of_other_machines_are_refused(tmp_path: Path) -> None:
    """A page of the web whose name was made to point to this machine gets nothing; names of this machine do."""
    app, (address,) = serving.application(make(tmp_path / "articles.db"), "127.0.0.1", 8001)

    async def ask() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return [(await client.get(address, headers={"Host": name})).status_code for name in names]

    names = ("evil.example", "127.0.0.1.evil.example", "localhost:8001", "[::1]")
    assert asyncio.run(ask()) == [421, 421, 200, 200]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.db", None, "no such file"),
        ("text.db", b"this is no database, but a text that goes on and on", "file is not a database"),
        ("empty.db", b"", "holds no index"),
        ("what?.db", b"", "rename the file"),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    """One sentence with the remedy, and exit code 2."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    run = CliRunner().invoke(main, ["serve", str(path), "--port", "0"])
    assert run.exit_code == 2
    assert reason in run.stderr
    assert "Traceback" not in run.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It is named, with the remedy."""
    path = make(tmp_path / "articles.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = CliRunner().invoke(main, ["serve", str(path), "--port", port])
    assert run.exit_code == 2
    assert f"port {port}" in run.stderr
    assert "--port 0" in run.stderr


def test_a_file_in_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken as one that does not change, unless changes wait in its -wal file: then it is said what to do."""
    path = make(tmp_path / "articles.db")
    connect = sqlite3.connect

    def refused(address: str, **options: Any) -> Any:  # as SQLite does where it can make no -shm file
        if "mode=ro" in address:
            raise sqlite3.OperationalError("unable to open database file")
        return connect(address, **options)

    monkeypatch.setattr(serving.sqlite3, "connect", refused)
    _, addresses = serving.application(path, "127.0.0.1", 8001)
    assert addresses == ["http://127.0.0.1:8001/-/neardup/articles/neardup"]
    (tmp_path / "articles.db-wal").write_bytes(b"changes")
    with pytest.raises(ReadOnlyError, match="-wal"):
        serving.application(path, "127.0.0.1", 8001)


def test_several_indexes_and_addresses(tmp_path: Path) -> None:
    """Each index has its address; that of IPv6 stands in brackets; others than this machine's are known as such."""
    path = make(tmp_path / "articles.db")
    with Index(path, name="second", scheme=LOW, attach=True):
        pass
    _, addresses = serving.application(path, "::1", 80)
    assert addresses == [f"http://[::1]:80/-/neardup/articles/{name}" for name in ("neardup", "second")]
    assert [serving.is_local(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_without_datasette_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, one sentence says how to install it."""
    path = make(tmp_path / "articles.db")
    for name in [name for name in sys.modules if name.startswith("neardup_db.datasette")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("neardup_db.datasette", raising=False)
    monkeypatch.setitem(sys.modules, "datasette", None)
    run = CliRunner().invoke(main, ["serve", str(path)])
    assert run.exit_code == 2
    assert "pip install 'neardup-db[datasette]'" in run.stderr
