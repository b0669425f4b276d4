"""An index on a connection with `autocommit`, which sqlite3 has from Python 3.12 on; before, a stand-in does what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from load import story
from standard import MODULE, connect, in_wal

from neardup_db import DuplicateKeyError, Index, Match, MinHash, NearDupError

TEXT = "the quick brown fox jumps over the lazy dog"


class StandIn(MODULE.Connection):  # type: ignore[misc]
    """A connection whose `autocommit`, `commit`, `rollback` and `close` do what those of Python 3.12 do."""

    def __init__(self, path: Path, *, autocommit: bool, **options: Any) -> None:
        super().__init__(path, isolation_level=None, **options)
        self._autocommit = True
        self.autocommit = autocommit

    @property
    def autocommit(self) -> bool:
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value and self.in_transaction:
            self.execute("COMMIT")
        elif not value and not self.in_transaction:
            self.execute("BEGIN")
        self._autocommit = value

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        if not self._autocommit:
            self.execute(how)
            self.execute("BEGIN")


def opened(path: Path, autocommit: bool) -> Any:
    """A connection to a file with a log and a table of the application's."""
    with closing(in_wal(path)) as first:
        first.execute("CREATE TABLE IF NOT EXISTS article (url)")
    if hasattr(MODULE.Connection, "autocommit"):
        return connect(path, autocommit=autocommit)
    return StandIn(path, autocommit=autocommit)


@pytest.fixture
def other(path: Path) -> Iterator[Any]:
    """Another connection to the same file, which sees what was committed."""
    with closing(opened(path, True)) as connection:
        yield connection


def stored(connection: Any) -> tuple[list[str], list[str]]:
    """The application's rows, and the keys of the index, as they were committed."""
    keys = []
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'neardup_document'").fetchall():
        keys = [key for (key,) in connection.execute("SELECT key FROM neardup_document ORDER BY id")]
    return [url for (url,) in connection.execute("SELECT url FROM article ORDER BY url")], keys


def test_all_waits_for_commit_without_autocommit(path: Path, other: Any) -> None:
    """The tables of the index, documents and the application's rows are committed together, or taken back together."""
    with closing(opened(path, False)) as app:
        index = Index(app, MinHash())
        app.execute("INSERT INTO article VALUES ('a')")
        assert index.add("a", TEXT) == []
        with index.transaction():
            assert index.add("b", TEXT) == [Match("a", 1.0, None)]
        assert stored(other) == ([], []) and app.in_transaction and not app.autocommit
        app.commit()
        assert stored(other) == (["a"], ["a", "b"]) and app.in_transaction
        app.execute("INSERT INTO article VALUES ('c')")
        index.add("c", TEXT)
        index.delete("a")
        app.rollback()
        assert list(index) == ["a", "b"] and stored(app) == (["a"], ["a", "b"]) and index.check().problems == ()


def test_a_call_that_fails_takes_back_itself_alone(path: Path, other: Any) -> None:
    """What the open transaction did before is stored by its commit."""
    with closing(opened(path, False)) as app:
        index = Index(app, MinHash())
        index.add("a", TEXT)
        with pytest.raises(DuplicateKeyError):
            index.add_many([("b", TEXT), ("c", TEXT), ("a", TEXT)])
        app.execute("INSERT INTO article VALUES ('a')")
        app.commit()
        assert stored(other) == (["a"], ["a"]) and index.check().problems == ()


def test_what_was_not_committed_is_gone_with_its_connection(path: Path, other: Any) -> None:
    """Closing a connection without autocommit commits nothing, and an index that stays open says that it is closed."""
    app = opened(path, False)
    index = Index(app, MinHash())
    app.commit()
    index.add("a", TEXT)
    app.close()
    with pytest.raises(NearDupError, match="closed"):
        index.query(TEXT)
    assert stored(other) == ([], [])


def test_what_needs_a_moment_without_a_transaction(path: Path, tmp_path: Path) -> None:
    """compact() and backup() are refused, and run while autocommit is on, which commits what was open."""
    with closing(opened(path, False)) as app:
        index = Index(app, MinHash())
        index.add("a", TEXT)
        with pytest.raises(NearDupError, match="cannot run inside a transaction"):
            index.compact()
        app.autocommit = True
        index.compact()
        index.backup(tmp_path / "copy.db")
        app.autocommit = False
        index.add("b", TEXT)
        app.rollback()
        assert list(index) == ["a"]
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a"]


def test_each_call_is_committed_with_autocommit(path: Path, other: Any) -> None:
    """commit() and rollback() of the application do nothing, and its BEGIN makes a transaction of several calls."""
    with closing(opened(path, True)) as app:
        index = Index(app, MinHash())
        index.add("a", TEXT)
        app.rollback()
        assert stored(other) == ([], ["a"]) and not app.in_transaction
        with pytest.raises(ZeroDivisionError), index.transaction():
            index.add("b", TEXT)
            app.execute("INSERT INTO article VALUES ('b')")
            app.commit()
            raise ZeroDivisionError
        app.execute("BEGIN IMMEDIATE")
        index.add("c", TEXT)
        app.execute("INSERT INTO article VALUES ('c')")
        assert stored(other) == ([], ["a"])
        app.execute("COMMIT")
        assert stored(other) == (["c"], ["a", "c"]) and index.check().problems == ()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_end_in_the_middle_of_a_call_stores_nothing(path: Path, other: Any, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """A commit is refused: SQLite rolls all back, and sqlite3 begins nothing anew until autocommit is turned on and off. After a
    rollback it begins the next transaction at once, and nothing of the call is stored in that one either."""
    monkeypatch.setattr("neardup_db.limits.BATCH_RECORDS", 5)
    with closing(opened(path, False)) as app:
        index = Index(app, MinHash())
        index.add("a", TEXT)
        app.commit()
        app.execute("INSERT INTO article VALUES ('lost')")
        with pytest.raises(NearDupError, match="ended by SQL on the connection"):
            index.add_many(ended(getattr(app, end)))
        assert app.in_transaction == (end == "rollback") and stored(other) == ([], ["a"])
        if end == "commit":
            app.autocommit = True
            app.autocommit = False
        index.add("b", TEXT)
        app.commit()
        assert stored(other) == ([], ["a", "b"]) and index.check().problems == ()


def ended(end: Callable[[], None]) -> Iterator[tuple[int, str]]:
    """Records in the middle of which the application ends its transaction."""
    for number in range(40):
        if number == 23:
            try:
                end()
            except MODULE.Error as error:
                assert "in the middle of its work" in str(error)
        yield number, story(number)
