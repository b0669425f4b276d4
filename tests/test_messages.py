"""What an application is told whose own connection, tables or statements are in an index's way: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from standard import MODULE as sqlite3
from test_ended_by_others import opened

from neardup_db import BusyError, FormatError, Index, MinHash, ParameterError

SCHEME = MinHash(threshold=0.5)


LIBRARIES = pytest.mark.parametrize("connect", [partial(opened, "apsw"), partial(opened, "sqlite3")], ids=["apsw", "sqlite3"])


@LIBRARIES
def test_a_creation_that_was_rolled_back(connect: Callable[[Any], Any], tmp_path: Path) -> None:
    """An Index whose creation the application has rolled back says so at each call, and opening it again works."""
    with closing(connect(tmp_path / "own.db")) as connection:
        connection.execute("BEGIN")
        index = Index(connection, SCHEME)
        index.add("a", "one two three four")
        connection.execute("ROLLBACK")
        calls: list[Callable[[], Any]] = [
            lambda: index.add("b", "five six seven"),
            lambda: index.add_many([("b", "five six seven")]),
            lambda: index.query("five six seven"),
            lambda: index.rebuild(),
            lambda: list(index.pairs()),
            lambda: len(index),
        ]
        for call in calls:
            with pytest.raises(FormatError, match="no longer holds index 'neardup'.*rolled back.*open the index again"):
                call()
        again = Index(connection, SCHEME)
        again.add("a", "one two three four")
        assert list(again) == ["a"]


OWN = [
    "TABLE neardup_document (x)", "TABLE Neardup_Match (x)", "TABLE neardup_minhash_band (x)", "TABLE neardup_setting (x)",
    "VIEW neardup_documents AS SELECT 1", "VIEW neardup_fingerprint AS SELECT 1",
    "INDEX neardup_document_fingerprint ON own (x)", "TEMP TABLE neardup_document (x)", "TEMP TABLE neardup_setting (x)",
]  # fmt: skip


@LIBRARIES
def test_names_that_collide(connect: Callable[[Any], Any]) -> None:
    """A table, view or index of the application's with a name of the index's is named, with what to do, and is as it was; another
    name= works."""
    for own in OWN:
        with closing(connect(":memory:")) as connection:
            connection.execute("CREATE TABLE own (x)")
            connection.execute(f"CREATE {own}")
            before = connection.execute("SELECT * FROM sqlite_schema UNION ALL SELECT * FROM sqlite_temp_schema").fetchall()
            with pytest.raises((ParameterError, FormatError), match=r"(?i)neardup_\w+.*give the index another name"):
                Index(connection, SCHEME)
                pytest.fail(own)
            now = connection.execute("SELECT * FROM sqlite_schema UNION ALL SELECT * FROM sqlite_temp_schema").fetchall()
            assert now == before, own
            index = Index(connection, SCHEME, name="other")
            index.add("a", "one two three four")
            assert [match.key for match in index.query("one two three four")] == ["a"], own


@LIBRARIES
@pytest.mark.parametrize("name", ["setting", "fingerprint"])
def test_a_temp_table_that_comes_later(connect: Callable[[Any], Any], name: str, tmp_path: Path) -> None:
    """A query that a TEMP table hides the index's from names it, rather than advising a repair; dropping it mends all."""
    with closing(connect(tmp_path / "own.db")) as connection:
        index = Index(connection, SCHEME)
        index.add("a", "one two three four")
        connection.execute(f"CREATE TEMP TABLE neardup_{name} (name, value2)")
        with pytest.raises(ParameterError, match=f"TEMP object 'neardup_{name}' may hide"):
            index.query("one two three four")
        connection.execute(f"DROP TABLE temp.neardup_{name}")
        assert [match.key for match in index.query("one two three four")] == ["a"]


@LIBRARIES
@pytest.mark.parametrize("begins", [False, True], ids=["autocommit", "BEGIN"])
def test_a_write_inside_a_statement_of_the_application(connect: Callable[[Any], Any], begins: bool, tmp_path: Path) -> None:
    """A function that the application's INSERT calls is told that it cannot write to the index there, and what works."""
    said: list[str] = []
    with closing(connect(tmp_path / "own.db")) as connection:
        index = Index(connection, SCHEME)
        index.add("a", "one two three four")
        connection.execute("CREATE TABLE own (x)")

        def write(key: str) -> int:
            try:
                index.add(key, "one two three four")
            except BusyError as error:
                said.append(str(error))
                raise
            return 1

        if isinstance(connection, apsw.Connection):
            connection.create_scalar_function("remember", write, 1)
        else:
            connection.create_function("remember", 1, write)
        if begins:
            connection.execute("BEGIN")
        with pytest.raises((BusyError, sqlite3.OperationalError)):
            connection.execute("INSERT INTO own VALUES (remember('b'))").fetchall()
        if begins:
            connection.execute("COMMIT")
        assert len(said) == 1 and "another connection" not in said[0]
        assert "statement on this connection that writes" in said[0] and "use the index before or after it" in said[0]
        assert list(index) == ["a"] and connection.execute("SELECT count(*) FROM own").fetchone() == (0,)
        index.add("b", "one two three four")
        assert index.check().ok


@LIBRARIES
def test_a_stale_deferred_transaction(connect: Callable[[Any], Any], tmp_path: Path) -> None:
    """A transaction that has read what another has overwritten since cannot write: BusyError names BEGIN IMMEDIATE."""
    with closing(connect(tmp_path / "own.db")) as app, closing(connect(tmp_path / "own.db")) as second:
        app.execute("PRAGMA journal_mode = WAL").fetchall()
        index, other = Index(app, SCHEME), Index(second, SCHEME)
        app.execute("BEGIN")
        assert len(index) == 0
        other.add("a", "one two three four")
        assert len(index) == 0
        with pytest.raises(BusyError, match="BEGIN IMMEDIATE"):
            index.add("b", "one two three four")
        assert app.in_transaction
        app.execute("ROLLBACK")
        index.add("b", "one two three four")
        assert list(index) == list(other) == ["a", "b"]


def test_a_shared_cache() -> None:
    """Where another connection of a shared cache holds a table, the BusyError says so, not that a cursor is open."""
    uri = "file:neardup_shared?mode=memory&cache=shared"
    with closing(sqlite3.connect(uri, uri=True)) as other, closing(sqlite3.connect(uri, uri=True)) as connection:
        other.isolation_level = connection.isolation_level = None
        index = Index(connection, SCHEME)
        index.add("a", "one two three four")
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE neardup_document SET added_at = added_at")
        for call in (lambda: index.get("a"), lambda: index.add("b", "one two"), lambda: len(index)):
            with pytest.raises(BusyError, match="shares the cache.*without cache=shared"):
                call()
        other.execute("ROLLBACK")
        index.add("b", "one two")
        assert list(index) == ["a", "b"]
