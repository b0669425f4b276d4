"""A file that a connection of the standard library has open belongs to its SQLite library alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import in_child
from standard import connect, in_wal
from test_standard_connection import TEXT

from neardup_db import ClosedError, Index, MinHash, ParameterError
from neardup_db.store.database import libraries
from neardup_db.store.layout import opening


def test_a_merge_by_the_path_of_this_file_keeps_the_locks(path: Path) -> None:
    """The file of the connection is told before it is opened by another library, whose closing would drop the locks."""
    app = in_wal(path, isolation_level=None)
    index = Index(app, MinHash())
    app.execute("BEGIN IMMEDIATE")
    with pytest.raises(ParameterError, match="this index itself"):
        index.merge(path)
    code = "import sys, sqlite3; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    other = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "database is locked" in other.stderr
    app.close()


def test_a_file_is_open_by_one_library_alone(path: Path, tmp_path: Path) -> None:
    """Beside an Index on a connection of sqlite3 one by the path, by a link to it, or on a connection of apsw is refused with the
    remedy; once the first connection is closed it is opened."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    app = in_wal(path)
    index = Index(app, MinHash())
    index.add("a", TEXT)
    for other in (path, link):
        with pytest.raises(ParameterError, match="another library of SQLite.*give both indexes one connection"):
            Index(other)
    foreign = apsw.Connection(str(path))
    with pytest.raises(ParameterError, match="another library of SQLite"):
        Index(foreign)
    foreign.close()
    with Index(":memory:", MinHash()) as memory, pytest.raises(ParameterError, match="another library of SQLite"):
        memory.merge(link)
    assert Index(app, name="more", scheme=MinHash()).add("a", TEXT) == []
    with closing(connect(path)) as second:
        assert list(Index(second)) == ["a"]
    app.close()
    with Index(path) as own:
        assert list(own) == ["a"]
        with closing(connect(path)) as again, pytest.raises(ParameterError, match="another library of SQLite"):
            Index(again)
    with closing(connect(path)) as again:
        assert list(Index(again)) == ["a"]


def test_a_file_that_another_thread_has_open(path: Path) -> None:
    """Whichever thread may use a connection of sqlite3: beside it no other opens the file by its path, until it is closed."""
    Index(path, MinHash()).close()
    app = connect(path)
    index = Index(app)

    def open_by_path() -> str:
        try:
            with Index(path) as own:
                return str(len(own))
        except ParameterError as error:
            return str(error)

    with ThreadPoolExecutor(1) as other:
        assert "another library of SQLite" in other.submit(open_by_path).result()
        app.close()
        assert other.submit(open_by_path).result() == "0"
    with pytest.raises(ClosedError):
        len(index)


def test_two_libraries_at_the_same_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that opens the file while another one looks who has it waits for the end of that look, and is refused."""
    Index(path, MinHash()).close()
    app = connect(path)
    refused: list[ParameterError] = []
    waits = threading.Event()

    def open_by_path() -> None:
        try:
            Index(path).close()
        except ParameterError as error:
            refused.append(error)
        waits.set()

    class Watched:
        """The lock, which tells when the second thread comes to it."""

        def __enter__(self) -> None:
            if threading.current_thread() is second:
                waits.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    def look(*given: Any) -> None:
        require_same(*given)
        if second.ident is None:
            second.start()
            assert waits.wait(60)

    second = threading.Thread(target=open_by_path)
    lock, require_same = libraries._lock, libraries._require_same
    monkeypatch.setattr(libraries, "_require_same", look)
    monkeypatch.setattr(libraries, "_lock", Watched())
    index = Index(app)
    second.join()
    assert len(refused) == 1 and "another library of SQLite" in str(refused[0])
    assert index.add("a", TEXT) == []
    app.close()


def test_a_file_that_is_just_being_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look who has a file and its opening by a path it belongs to the one that looked."""
    Index(path, MinHash()).close()
    app = connect(path)
    messages: list[str] = []

    def open_file(*given: Any, **how: Any) -> Any:
        with pytest.raises(ParameterError, match="another library of SQLite, through an Index that is just being") as error:
            Index(app)
        messages.append(str(error.value))
        return database(*given, **how)

    database = opening._database
    monkeypatch.setattr(opening, "_database", open_file)
    with Index(path) as own:
        assert own.add("a", TEXT) == [] and len(messages) == 1
    monkeypatch.undo()
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(opening, "_database", lambda *_, **__: 1 // 0)
        Index(path)
    assert list(Index(app)) == ["a"]
    app.close()


@pytest.mark.posix("forks")
def test_files_of_a_parent_process_are_none_of_a_childs(path: Path) -> None:
    """A forked child opens by its path what its parent has open by a connection of sqlite3."""
    with closing(in_wal(path)) as app:
        Index(app, MinHash()).add("a", TEXT)

        def use() -> str:
            with Index(path) as own:
                return ", ".join(map(str, own))

        assert in_child(use) == "a"
