"""An index on a connection of Python's sqlite3 module, or of pysqlite3, that belongs to the application.

This Python's module is taken where it can load extensions, else pysqlite3; then the system's Python runs these tests once more.
"""

from __future__ import annotations

import ctypes.util
import gc
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from standard import MODULE, connect, in_wal, run_elsewhere
from support import SETS, WORDS

from neardup_db import (
    BinaryCode,
    BusyError,
    ClosedError,
    DuplicateKeyError,
    Index,
    Match,
    MinHash,
    NearDupError,
    ParameterError,
    ReadOnlyError,
    load,
)
from neardup_db.store.database import standard

TEXT = "the quick brown fox jumps over the lazy dog"


@pytest.fixture
def app(path: Path) -> Iterator[Any]:
    """An application's connection as `connect` gives it, to a file with a table of its own."""
    connection = in_wal(path)
    connection.execute("CREATE TABLE article (url)")
    yield connection
    connection.close()


def urls(connection: Any) -> list[str]:
    """What the application has stored."""
    return [url for (url,) in connection.execute("SELECT url FROM article ORDER BY url")]


def open_files(path: Path) -> list[str]:
    """The open files of this process whose names begin so."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in names if name.startswith(str(path))]


# ---- the same answers ------------------------------------------------------------------------------------------------------


def test_the_interface_on_a_connection(path: Path) -> None:
    """All calls work, and the connection is the one that was given."""
    with closing(connect(path)) as app:
        index = Index(app, SETS, text=WORDS, store_text=True)
        assert index.connection is app and repr(str(path)) in repr(index)
        assert index.add("a", "oak elm ash", metadata={"n": 1}) == []
        assert index.add_if_new("b", "oak elm ash fir") == [Match("a", 0.75, None)]
        assert index.add_many([("b", "oak elm ash fir"), {"key": "c", "text": "box bay", "group": "g"}]).added == 2
        with pytest.raises(DuplicateKeyError):
            index.add("a", "other")
        assert [one.key for one in index.query("oak elm ash")] == ["a", "b"]
        assert [[one.key for one in found] for found in index.query_many(["oak elm ash", "yew"])] == [["a", "b"], []]
        assert [(one.key_a, one.key_b) for one in index.pairs()] == [("a", "b")]
        assert [one.keys for one in index.clusters()] == [("a", "b")]
        assert index.get("a").metadata == {"n": 1} and index.get("b").text == "oak elm ash fir"
        index.update("a", metadata=None, expires_at=time.time() + 1000)
        assert "2" in str(index.explain("oak elm ash").matches)
        assert index.explain_match("a", "b").similarity == 0.75 and index.stats()["documents"] == 3
        with closing(connect(path.with_name("merged.db"))) as second:
            merged = Index(second, SETS, text=WORDS, store_text=True)
            assert merged.merge(index).added == 3 and set(merged) == set(index)
            merged.close()
        index.rebuild(MinHash(threshold=0.6, exact=True))
        assert index.check(repair=True).ok
        assert index.expire(time.time() + 2000) == 1 and index.keep_newest(1) == 1 and list(index) == ["c"]
        assert index.delete("c") and len(index) == 0
        index.compact()
        index.close()
        assert app.execute("SELECT count(*) FROM neardup_document").fetchone() == (0,)


def test_keys_and_arrays_of_every_kind(app: Any) -> None:
    """Integers, texts and bytes go through the arrays of a large load and come back; so does a NUL in a key."""
    index = Index(app, BinaryCode(64, 3))
    kinds: list[list[Any]] = [[1, -(2**63), 2**63 - 1], ["x", "ü\0y", ""], ["a", "üb", "𝄞"], [b"", b"\0\xff", b"ab"]]
    for number, some in enumerate(kinds):
        some = [key for key in some if key != ""] if number else some
        assert index.add_codes(some, [1 << number * 10] * len(some)).added == len(some)
        assert index.add_codes(some, [0] * len(some), if_exists="ignore").ignored == len(some)
        assert all(key in index for key in some)
    assert index.check().problems == ()


def test_nothing_of_the_applications_own_touches_the_index(path: Path) -> None:
    """Factories, converters, adapters, functions and a trace of the application's stay, and change no answer."""
    seen: list[str] = []
    MODULE.register_converter("INTEGER", lambda data: f"converted {data!r}")
    try:
        app = in_wal(path, detect_types=MODULE.PARSE_DECLTYPES | MODULE.PARSE_COLNAMES)
        app.row_factory = lambda cursor, row: {"row": row}
        app.text_factory = bytes
        app.set_trace_callback(seen.append)
        before = app.isolation_level
        index = Index(app, SETS, text=WORDS, store_text=True)
        assert index.add_many([("a", "oak elm ash"), (7, "oak elm ash fir")]).added == 2
        assert index.query("oak elm ash") == [Match("a", 1.0, None), Match(7, 0.75, None)]
        assert index.get("a").text == "oak elm ash" and index.check().problems == ()
        rows = app.execute("SELECT id, key FROM neardup_document WHERE key = 'a'").fetchall()
        assert rows == [{"row": ("converted b'1'", b"a")}]
        assert app.isolation_level == before and any("neardup_document" in line for line in seen)
        app.close()
    finally:
        MODULE.converters.pop("INTEGER")


def test_limits_and_hooks_of_the_applications(app: Any) -> None:
    """An authorizer that allows nothing is an error of ours that says so, and the index goes on when it is gone."""
    index = Index(app, MinHash())
    app.set_authorizer(lambda *_: MODULE.SQLITE_DENY)
    with pytest.raises(NearDupError, match="not authorized|prohibited"):
        index.add("a", TEXT)
    app.set_authorizer(None)
    index.add("a", TEXT)
    assert list(index) == ["a"] and index.check().problems == ()


HOOKED = """
import ctypes, sqlite3
from neardup_db import Index, MinHash
library, told = ctypes.CDLL("libsqlite3.so.0"), []
app = sqlite3.connect(":memory:", isolation_level=None)
db = ctypes.c_void_p.from_address(id(app) + object.__basicsize__)  # the first field of the module's struct
hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda argument: told.append(argument) or 0)
library.sqlite3_commit_hook(db, hook, ctypes.c_void_p(77))
index = Index(app, MinHash())
before = len(told)
index.add("a", "some text")
app.execute("BEGIN")
index.add("b", "some text")
app.execute("COMMIT")
assert told == [77] * (before + 2), told
index.close()
assert library.sqlite3_commit_hook(db, None, None) == 77
print("kept")
"""


def test_a_hook_of_another_one_stays() -> None:
    """A commit hook that something else has set on the connection is called for our commits as before, and still set at the end.

    Only where the library can be reached: the module itself sets none."""
    done = run_elsewhere("-c", HOOKED) if ctypes.util.find_library("sqlite3") else None
    assert done is None or (done.stdout, done.stderr) == ("kept\n", "")


# ---- transactions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation_level", [None, "", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_the_indexes_transaction_takes_the_applications_rows_along(path: Path, isolation_level: str | None) -> None:
    """In `transaction()` the module begins none of its own: an exception takes back both, the end commits both."""
    with closing(in_wal(path, isolation_level=isolation_level)) as app, closing(connect(path)) as other:
        app.execute("CREATE TABLE article (url)")
        app.commit()
        index = Index(app, MinHash())
        with pytest.raises(ZeroDivisionError), index.transaction():
            app.execute("INSERT INTO article VALUES ('u')")
            index.add("u", TEXT)
            raise ZeroDivisionError
        assert urls(other) == list(index) == []
        with index.transaction():
            index.add("u", TEXT)
            app.execute("INSERT INTO article VALUES ('u')")
            with pytest.raises(ZeroDivisionError), index.transaction():
                app.execute("INSERT INTO article VALUES ('v')")
                index.add("v", TEXT)
                raise ZeroDivisionError
        assert urls(other) == list(index) == ["u"] and not app.in_transaction and app.isolation_level == isolation_level


def test_a_connection_that_is_always_in_a_transaction(path: Path) -> None:
    """As with autocommit=False: the index is created, filled and asked inside, and all of it waits for commit()."""
    with closing(in_wal(path, isolation_level=None)) as app, closing(connect(path)) as other:
        app.execute("BEGIN")
        index = Index(app, MinHash())
        index.add("a", TEXT)
        with index.transaction():
            index.add("b", TEXT)
        assert other.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        app.commit()
        app.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM neardup_document").fetchone() == (2,)
        index.add("c", TEXT)
        app.rollback()
        app.execute("BEGIN")
        assert list(index) == ["a", "b"]
        with pytest.raises(NearDupError, match="cannot run inside a transaction"):
            index.compact()
        assert index.check().problems == ()


def test_another_writer_is_waited_for_as_long_as_the_connection_says(path: Path) -> None:
    """The connection's own timeout holds, and then it is a BusyError and nothing is stored."""
    with closing(in_wal(path, timeout=0.05, isolation_level=None)) as app, closing(connect(path)) as other:
        index = Index(app, MinHash())
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="another connection holds the database"):
            index.add("a", TEXT)
        assert index.query(TEXT) == [] and not app.in_transaction
        other.rollback()
        index.add("a", TEXT)
        assert list(index) == ["a"]


def test_two_indexes_on_one_connection(app: Any) -> None:
    """They share it: a transaction holds for both, and one can be closed without the other."""
    app.isolation_level = None
    first, second = Index(app, MinHash(), name="first"), Index(app, BinaryCode(64, 3), name="second")
    with pytest.raises(ZeroDivisionError), first.transaction():
        first.add("a", TEXT)
        second.add_code("a", 1)
        second.rebuild(BinaryCode(64, 2))
        raise ZeroDivisionError
    assert len(first) == len(second) == 0 and second.scheme.max_distance == 3
    first.close()
    second.add_code("b", 1)
    assert list(second) == ["b"]
    assert list(Index(app, name="first")) == []


def test_an_index_can_be_opened_while_rows_are_being_read(app: Any) -> None:
    """A cursor of the application's in the middle of its rows is no obstacle, for the first index or for the next."""
    app.executemany("INSERT INTO article VALUES (?)", [("a",), ("b",), ("c",)])
    app.commit()
    rows = app.execute("SELECT url FROM article")
    assert next(rows) == ("a",)
    index = Index(app, MinHash())
    index.add("a", TEXT)
    load(app)
    assert Index(app).query(TEXT) == [Match("a", 1.0, None)]
    assert list(rows) == [("b",), ("c",)]


# ---- opening and closing ---------------------------------------------------------------------------------------------------


@pytest.mark.posix("/proc")
def test_a_closed_connection_is_a_closed_index(path: Path) -> None:
    """Whatever was open of ours ends with the connection: the file is closed, and each call is a ClosedError."""
    app = in_wal(path)
    index = Index(app, MinHash(), store_text=True)
    index.add_many((number, f"{TEXT} {number % 50}") for number in range(200))
    pairs, keys = index.pairs(), iter(index)
    assert next(pairs) and next(keys) == 0
    assert open_files(path)
    app.close()
    assert open_files(path) == []
    for call in (lambda: index.query(TEXT), lambda: index.add("a", TEXT), lambda: len(index), lambda: index.check()):
        with pytest.raises(ClosedError, match="closed"):
            call()
    with pytest.raises(ClosedError):
        list(pairs)
    index.close()
    with pytest.raises(ClosedError, match="closed"):
        Index(app, MinHash())


@pytest.mark.posix("/proc")
def test_a_connection_that_nobody_has_is_closed(path: Path) -> None:
    """The index keeps the connection; without it the file is closed, whatever was asked."""
    index = Index(in_wal(path), MinHash())
    index.add_many((number, f"{TEXT} {number}") for number in range(50))
    pairs = index.pairs()
    assert next(pairs) and open_files(path)
    del index, pairs
    gc.collect()
    gc.collect()  # the module's connections are circles of their own
    assert open_files(path) == []


def test_extensions_can_be_loaded_as_before(app: Any) -> None:
    """Opening leaves the connection as open, or as closed, to other extensions as it was."""
    for allowed in (False, True):
        app.enable_load_extension(allowed)
        Index(app, MinHash())
        with pytest.raises(MODULE.Error) as caught:
            app.load_extension("/no/such/file")
        assert ("not authorized" in str(caught.value)) == (not allowed)


class WithoutExtensions:
    """A connection of a module that was built without extension loading."""


def test_a_module_that_loads_no_extensions_is_refused_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names all three: another module or Python, apsw's connection, a file of its own."""
    ways = r"without extension loading.*pysqlite3-binary.*enable-loadable-sqlite-extensions.*apsw\.Connection.*path of a file"
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        with pytest.raises(ParameterError, match=ways):
            Index(sqlite3.connect(":memory:"), MinHash())
    monkeypatch.setattr(standard, "module_of", lambda connection: sqlite3)
    with pytest.raises(ParameterError, match=ways), standard.loading(WithoutExtensions()):
        raise AssertionError


def test_an_old_library_is_refused_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables need SQLite 3.38."""
    monkeypatch.setattr(MODULE, "sqlite_version_info", (3, 37, 2))
    monkeypatch.setattr(MODULE, "sqlite_version", "3.37.2")
    with closing(connect()) as app, pytest.raises(ParameterError, match=r"3\.37\.2, and 3\.38"):
        Index(app, MinHash())


def test_a_library_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where threads must not share a connection at all, an index would have to be more careful than SQLite."""
    monkeypatch.setattr(standard, "Handle", lambda *arguments: type("Handle", (), {"is_serialized": False})())
    with closing(connect()) as app, pytest.raises(ParameterError, match="SQLITE_THREADSAFE=1"):
        Index(app, MinHash())


def test_what_cannot_be_on_a_connection(path: Path, app: Any) -> None:
    """Page checksums are for files by their path; read_only refuses writes, and a missing index needs a scheme."""
    with pytest.raises(ParameterError, match="opened by its path"):
        Index(app, MinHash(), checksums=True)
    with pytest.raises(NearDupError, match="holds no index named"):
        Index(app)
    with pytest.raises(ParameterError, match="read_only=True cannot create it"):
        Index(app, MinHash(), read_only=True)
    Index(app, MinHash()).add("a", TEXT)
    reader = Index(app, read_only=True)
    assert reader.query(TEXT) == [Match("a", 1.0, None)]
    with pytest.raises(ReadOnlyError):
        reader.add("b", TEXT)


def test_a_file_that_is_locked_is_busy(path: Path) -> None:
    """Opening waits as long as the connection says, then it is a BusyError; afterwards it opens."""
    with closing(connect(path, timeout=0.05)) as app, closing(connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE article (url)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError):
            Index(app, MinHash())
        other.execute("ROLLBACK")
        Index(app, MinHash()).add("a", TEXT)
        assert urls(app) == []


def test_a_file_with_page_checksums_is_refused(tmp_path: Path) -> None:
    """A library that does not know them would write pages without."""
    Index(tmp_path / "sums.db", MinHash(), checksums=True).close()
    with closing(connect(tmp_path / "sums.db")) as app, pytest.raises(NearDupError, match="open it by its path"):
        Index(app)


def test_a_copy_by_the_connections_own_library(path: Path, tmp_path: Path, app: Any) -> None:
    """backup() writes a whole copy, and not while a transaction is open."""
    index = Index(app, MinHash())
    index.add("a", TEXT)
    index.backup(tmp_path / "copy.db")
    app.execute("INSERT INTO article VALUES ('u')")
    with pytest.raises(NearDupError, match="inside a transaction"):
        index.backup(tmp_path / "other.db")
    with pytest.raises(ParameterError, match="exists"):
        app.rollback()
        index.backup(tmp_path / "copy.db")
    with closing(connect(tmp_path / "copy.db")) as copy:
        again = Index(copy)
        assert list(again) == ["a"] and again.check().problems == ()


def test_a_garbage_collection_fetches_from_rows_that_are_just_being_read(app: Any) -> None:
    """fetchall() returns every row once, whatever a callback of the collection fetches meanwhile."""
    connection = standard.StandardConnection(app, 1.0)
    rows = connection.execute("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i FROM n")
    fetched: list[Any] = []

    def fetch(*_: object) -> None:
        fetched.append(rows.fetchone())

    gc.callbacks.append(fetch)
    try:
        found = rows.fetchall()
    finally:
        gc.callbacks.remove(fetch)
    assert found == [(i + 1,) for i in range(5000)] and fetched and set(fetched) == {None}
