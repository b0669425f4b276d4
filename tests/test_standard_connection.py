"""An index on a connection of Python's sqlite3 module, or of pysqlite3, that belongs to the application.

This Python's module is taken where it can load extensions, else pysqlite3; then the system's Python runs these tests once more.
"""

from __future__ import annotations

import ctypes.util
import gc
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from foreign import capable_python
from load import Worker, in_child, run_threads, story
from standard import MODULE, connect, in_wal, run_elsewhere
from support import CASES, SETS, WORDS
from test_interrupts import TEXTS, WRITES, interrupted_at, later

from neardup_db import (
    BinaryCode,
    BusyError,
    ClosedError,
    DiskFullError,
    DuplicateKeyError,
    FormatError,
    Index,
    Match,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
    load,
)
from neardup_db.store.database import libraries, standard
from neardup_db.store.layout import opening

TEXT = "the quick brown fox jumps over the lazy dog"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


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
        index.rebuild(MinHash(threshold=0.6, exact=True))
        assert index.check(repair=True).ok
        assert index.expire(time.time() + 2000) == 1 and index.keep_newest(1) == 1 and list(index) == ["c"]
        assert index.delete("c") and len(index) == 0
        index.compact()
        index.close()
        assert app.execute("SELECT count(*) FROM neardup_document").fetchone() == (0,)


@pytest.mark.parametrize("name", CASES)
def test_the_file_is_the_same_as_by_apsw(tmp_path: Path, name: str) -> None:
    """What one library has written the other one answers from, and both have written the same rows."""
    case = CASES[name]
    rng = random.Random(5)
    contents: list[Any] = [" ".join(rng.choices(["oak", "elm", "ash", "fir", "yew"], k=rng.randrange(6))) for _ in range(60)]
    if case.codes:
        contents = [rng.randbytes(1) * (case.scheme.bits // 8) for _ in range(60)]
    tables: list[Any] = []
    for kind in ("apsw", "standard"):
        with Index(tmp_path / kind, case.scheme, text=case.rules, store_text=case.store_text) if kind == "apsw" else Index(
            in_wal(tmp_path / kind), case.scheme, text=case.rules, store_text=case.store_text
        ) as index:
            add = index.add_codes if case.codes else lambda keys, texts: index.add_many(zip(keys, texts, strict=True))
            add(range(40), contents[:40])
            one = index.add_code if case.codes else index.add
            answers = [one(key, contents[key]) for key in range(40, 60)]
            index.delete_many(range(0, 60, 7))
            tables.append((answers, list(index.pairs()), index.clusters(), list(index)))
            if kind == "standard":
                assert index.check().problems == ()
                index.connection.close()
    assert tables[0] == tables[1]
    with Index(tmp_path / "standard") as index:
        assert index.check().problems == () and list(index.pairs()) == tables[0][1]


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


def test_no_hook_of_sqlite_is_taken() -> None:
    """SQLite has one place for each hook: none of its functions is called by what runs on an application's connection."""
    sources = Path(__file__).parents[1] / "csrc"
    for file in (*sources.glob("python/standard/*.c"), sources / "python" / "rows.c", *sources.glob("sqlite/*.c")):
        code = re.sub(r"/\*.*?\*/", "", file.read_text("utf-8"), flags=re.DOTALL)
        hooks = r"sqlite3_(\w+_hook|set_authorizer|progress_handler|trace\w*|busy_\w+)"
        assert re.findall(hooks, code) == [], file.name


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


def test_rows_of_both_are_committed_or_rolled_back_together(app: Any) -> None:
    """In the transaction that the module begins by itself before an INSERT."""
    index = Index(app, MinHash())
    for end, expected in ((app.rollback, []), (app.commit, ["u"])):
        app.execute("INSERT INTO article VALUES ('u')")
        index.add("u", TEXT)
        assert app.in_transaction and list(index) == ["u"]
        end()
        assert urls(app) == list(index) == expected
    assert index.check().problems == ()


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


def test_savepoints_of_the_applications(app: Any) -> None:
    """What was added since a savepoint goes with it, and nothing else does."""
    app.isolation_level = None
    index = Index(app, MinHash())
    app.execute("BEGIN IMMEDIATE")
    index.add("a", TEXT)
    app.execute("SAVEPOINT s")
    index.add("b", TEXT)
    index.rebuild(MinHash(threshold=0.9))
    app.execute("ROLLBACK TO s")
    assert list(index) == ["a"] and index.scheme.threshold == 0.8
    index.add("c", TEXT)
    app.execute("RELEASE s")
    app.execute("COMMIT")
    assert list(index) == ["a", "c"] and index.check().problems == ()


def test_a_rollback_is_forgotten_with_all_that_was_learned(app: Any) -> None:
    """A rebuild that the application rolls back binds no more, nor does a group, and ids are given anew."""
    index = Index(app, MinHash(threshold=0.5), text=WORDS, store_text=True)
    index.add("a", TEXT)
    app.execute("INSERT INTO article VALUES ('u')")
    index.rebuild(MinHash(threshold=0.9))
    index.add("b", TEXT, group="new")
    app.rollback()
    index.add("c", TEXT, group="new")
    assert index.scheme.threshold == 0.5 and list(index) == ["a", "c"] and index.check().problems == ()
    with closing(connect(index._store.db.connection.filename)) as other:
        again = Index(other, MinHash(threshold=0.5), text=WORDS)
        assert again.query(TEXT, group="new") == [Match("c", 1.0, None)]


def test_a_rebuild_that_was_rolled_back_binds_no_more(path: Path, app: Any) -> None:
    """Opened with a scheme, an index refuses another one's rebuild, also to a scheme that it had for a while in a transaction."""
    index = Index(app, MinHash(threshold=0.8), store_text=True)
    with closing(connect(path)) as second:
        app.execute("INSERT INTO article VALUES ('u')")
        index.rebuild(MinHash(threshold=0.9))
        app.rollback()
        Index(second).rebuild(MinHash(threshold=0.9))
        with pytest.raises(MismatchError):
            index.query(TEXT)
        Index(second).rebuild(MinHash(threshold=0.8))
        assert index.query(TEXT) == []


def test_a_transaction_that_the_application_ends_inside_ours_is_an_error(app: Any) -> None:
    """Nothing is stored by what follows, whether it was committed, rolled back, or begun again."""
    app.isolation_level = None
    index = Index(app, MinHash())
    for end in ("ROLLBACK", "COMMIT", "ROLLBACK; BEGIN IMMEDIATE", "COMMIT; BEGIN IMMEDIATE"):
        before = list(index)
        with pytest.raises(NearDupError, match="rolled back by an error inside it, or ended by SQL"), index.transaction():
            index.add(end, TEXT)
            for one in end.split("; "):
                app.execute(one)
        assert list(index) == before + [end] * end.startswith("COMMIT") and not app.in_transaction
    assert index.check().problems == ()


def test_a_commit_in_the_middle_of_a_load_is_refused(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are half written are never committed by SQL of the application's: the commit fails and takes all back."""
    monkeypatch.setattr("neardup_db.limits.BATCH_RECORDS", 5)
    monkeypatch.setattr("neardup_db.limits.WORTH_THREADS", 1)
    app.isolation_level = None
    index = Index(app, MinHash())
    refused: list[str] = []

    def records() -> Iterator[tuple[int, str]]:
        for number in range(40):
            if number == 30:
                try:
                    app.execute("COMMIT")
                except MODULE.Error as error:
                    refused.append(str(error))
            yield number, story(number)

    with pytest.raises(NearDupError):
        index.add_many(records())
    assert refused and "in the middle of its work" in refused[0]
    assert len(index) == 0 and index.check().problems == ()
    index.add("a", TEXT)
    app.execute("BEGIN")
    app.execute("INSERT INTO article VALUES ('u')")
    app.execute("COMMIT")
    assert urls(app) == ["u"]


def test_a_stale_deferred_transaction_is_busy_with_the_remedy(path: Path, app: Any) -> None:
    """A transaction that has read what another has overwritten since cannot write: BusyError names BEGIN IMMEDIATE."""
    app.isolation_level = None
    index = Index(app, MinHash())
    with closing(connect(path, isolation_level=None)) as second:
        other = Index(second)
        app.execute("BEGIN")
        assert len(index) == 0
        other.add("a", TEXT)
        assert len(index) == 0
        with pytest.raises(BusyError, match="BEGIN IMMEDIATE"):
            index.add("b", TEXT)
        assert app.in_transaction
        app.execute("ROLLBACK")
        index.add("b", TEXT)
        assert list(index) == list(other) == ["a", "b"]


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


def test_closing_the_index_leaves_the_connection_open(app: Any) -> None:
    """The connection is the application's; the index can be opened on it again and again."""
    for number in range(30):
        with Index(app, MinHash()) as index:
            index.add(number, TEXT)
        with pytest.raises(ClosedError):
            len(index)
    assert app.execute("SELECT count(*) FROM neardup_document").fetchone() == (30,)


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


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    """As by its path: a FormatError, and the file stays as it is."""
    path.write_bytes(b"no database, but longer than the header of one, which has a hundred bytes" * 9)
    before = path.read_bytes()
    with closing(connect(path)) as app, pytest.raises(FormatError):
        Index(app, MinHash())
    assert path.read_bytes() == before


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


# ---- threads and processes -------------------------------------------------------------------------------------------------


def test_a_connection_of_one_thread_stays_of_one_thread(app: Any) -> None:
    """check_same_thread, which is the module's default: the index says so in another thread, and does nothing there."""
    index = Index(app, MinHash())
    told: list[BaseException] = []

    def use() -> None:
        for call in (lambda: index.add("a", TEXT), lambda: index.query(TEXT), lambda: Index(app, MinHash())):
            try:
                call()
            except NearDupError as error:
                told.append(error)

    run_threads(use)
    assert len(told) == 3 and all("check_same_thread=False" in str(error) for error in told[:2])
    index.add("a", TEXT)
    assert list(index) == ["a"]


def test_threads_share_an_index_and_the_connection(path: Path) -> None:
    """With check_same_thread=False threads add, ask and remove, and the application uses the connection meanwhile."""
    with closing(in_wal(path, check_same_thread=False, isolation_level=None)) as app:
        app.execute("CREATE TABLE article (url)")
        app.execute("INSERT INTO article VALUES ('u')")
        index = Index(app, MinHash(threshold=0.9))
        workers = [Worker(index, number) for number in range(3)]
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                assert urls(app) == ["u"]

        reading = threading.Thread(target=read)
        reading.start()
        try:
            run_threads(*(lambda worker=worker: worker.run(25) for worker in workers))
        finally:
            done.set()
            reading.join()
        assert sorted(number for worker in workers for number in worker.admitted) == list(range(25))
        assert index.check().problems == ()


WAITING = """
import signal, threading, sys
from standard import connect
from neardup_db import Index, MinHash

signal.alarm(60)  # a process whose threads wait for each other is ended by the system
app = connect(":memory:", check_same_thread=False)
index = Index(app, MinHash())
running, enough = threading.Event(), threading.Event()
app.create_function("wait", 0, lambda: running.set() or enough.wait(0.5))
thread = threading.Thread(target=lambda: app.execute("SELECT wait()").fetchall())
thread.start()
running.wait()
index.add("a", "some text")
print(list(index))
thread.join()
"""


@pytest.mark.posix("signals")
def test_whoever_waits_for_the_connection_lets_python_go_on() -> None:
    """The application's statement calls a function of Python's while the index waits for the connection: both come to an end."""
    paths = [str(Path(__file__).parent), *filter(None, sys.path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, env=env, cwd="/", check=False)
    assert (done.returncode, done.stdout) == (0, "['a']\n"), done.stderr


def test_closing_in_the_middle_of_other_threads_calls(path: Path) -> None:
    """Each call is answered or a ClosedError, and nothing is left open."""
    for _ in range(10):
        app = in_wal(path, check_same_thread=False)
        index = Index(app, MinHash())
        started = threading.Barrier(3)

        def ask(index: Index = index, started: threading.Barrier = started) -> None:
            started.wait()
            with suppress(ClosedError):
                while True:
                    index.query(TEXT)
                    list(index)

        def close(app: Any = app, started: threading.Barrier = started) -> None:
            started.wait()
            app.close()

        run_threads(ask, ask, close)
        assert open_files(path) == []


def test_an_interrupt_ends_a_call_and_takes_it_back(path: Path) -> None:
    """connection.interrupt() by another thread is an error of ours, and the index goes on."""
    with closing(in_wal(path, check_same_thread=False)) as app:
        index = Index(app, MinHash())
        index.add_many((number, story(number)) for number in range(300))
        done = threading.Event()

        def interrupt() -> None:
            while not done.is_set():
                app.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(NearDupError, match="nterrupt"):
                while True:
                    index.rebuild(MinHash(threshold=0.7))
        finally:
            done.set()
            thread.join()
        assert len(index) == 300 and index.check().problems == () and not app.in_transaction


@pytest.mark.posix("forks")
def test_a_forked_child_is_refused(app: Any) -> None:
    """A child never uses the connection of its parent, nor closes it."""
    index = Index(app, MinHash())
    index.add("a", TEXT)
    pairs = index.pairs()

    def use() -> str:
        told = []
        for call in (lambda: index.add("b", TEXT), lambda: index.query(TEXT), lambda: list(pairs)):
            try:
                told.append(str(call()))
            except ClosedError as error:
                if "after the fork" not in str(error):
                    told.append(str(error))
        index.close()
        return "; ".join(told)

    with index.transaction():
        index.add("b", TEXT)
        assert in_child(use) == ""
    assert list(index) == ["a", "b"] and index.check().problems == ()


@pytest.mark.parametrize("name", ["add", "add_many", "keep_newest", "transaction", "taken back", "rebuild"])
def test_a_call_that_writes_is_interrupted(tmp_path: Path, name: str, more_rounds: bool) -> None:
    """KeyboardInterrupt at any moment: all of the call is in the file or nothing, and no transaction is left open."""

    def state() -> Any:
        with closing(connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
            rows = other.execute("SELECT key, text, expires_at FROM neardup_document ORDER BY id").fetchall()
            return rows, other.execute("SELECT value FROM neardup_setting WHERE name = 'scheme'").fetchall()

    original, path = tmp_path / "original.db", tmp_path / "index.db"
    with closing(connect(original)) as app:
        Index(app, SETS, text=WORDS, store_text=True).add_many((str(number), text) for number, text in enumerate(TEXTS))
    states: list[Any] = []
    moment, more, step = 0, True, 7 if more_rounds else 61
    while more:
        path.write_bytes(original.read_bytes())
        with closing(connect(path)) as app:
            index = Index(app)
            if len(states) < 2:
                if states:
                    WRITES[name](index)
                states.append(state())
                continue
            moment = later(moment, step, more_rounds)
            more = interrupted_at(moment, partial(WRITES[name], index))
            assert not app.in_transaction
            assert state() in (states if more else states[1:]), f"half of it at moment {moment}"
            assert index.check().problems == () and index.delete("no such key") is False
    assert moment > 50


@pytest.mark.posix("forks")
def test_a_child_of_a_parent_with_an_index_makes_none_on_a_connection(path: Path, app: Any) -> None:
    """SQLite takes the parent's locks for the child's, so what a child writes could be lost: it hears of the ways out."""
    index = Index(app, MinHash())
    index.add("parent", TEXT)

    def use() -> str:
        with closing(connect(path)) as own, pytest.raises(NearDupError, match="after the fork.*'spawn'.*path of the file"):
            Index(own)
        with Index(path) as again:
            again.add("child", TEXT)
        return "stored"

    assert in_child(use) == "stored"
    assert list(index) == ["parent", "child"] and index.check().problems == ()


@pytest.mark.posix("forks")
def test_forks_while_threads_are_in_sqlite(path: Path) -> None:
    """Children that are forked while other threads run statements of the index are refused at once, and disturb nobody."""
    with closing(in_wal(path, check_same_thread=False)) as app:
        index = Index(app, MinHash())
        done, told = threading.Event(), []

        def refused() -> str:
            try:
                index.add("child", TEXT)
                return "answered"
            except ClosedError:
                index.close()
                return ""

        def fork() -> None:
            while not done.is_set():
                told.append(in_child(refused))

        def write() -> None:
            try:
                while len(index) < 3000 or len(told) < 3:
                    start = len(index)
                    index.add_many((number, story(number)) for number in range(start, start + 300))
                    assert index.query(story(start)) != []
            finally:
                done.set()

        run_threads(write, fork)
        assert set(told) == {""} and index.check().problems == ()


# ---- crashes and full disks ------------------------------------------------------------------------------------------------


def work(index: Index, app: Any, number: int) -> None:
    """A transaction that writes a row of the application's and several of the index."""
    with index.transaction():
        app.execute("INSERT INTO article VALUES (?)", (f"{number:03}a",))
        index.add(f"{number:03}a", f"{TEXT} {number % 5}")
        index.add_many([(f"{number:03}b", f"{TEXT} {number % 7}"), (f"{number:03}c", story(number))])
        if number % 3 == 2:
            index.delete(f"{number - 1:03}a")
            app.execute("DELETE FROM article WHERE url = ?", (f"{number - 1:03}a",))


def kept(path: Path) -> list[str]:
    """The keys of the application's articles that are there, after a look at the index."""
    with closing(connect(path)) as app:
        index = Index(app)
        assert index.check().problems == ()
        keys = [key for key in index if key.endswith("a")]
        assert sorted(keys) == urls(app)
        assert {key[:3] for key in index if key.endswith("b")} == {key[:3] for key in index if key.endswith("c")}
        return keys


@pytest.mark.posix("forks")
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_process_that_is_killed_leaves_both_or_neither(path: Path, journal: str, more_rounds: bool) -> None:
    """Killed at the n-th step of SQLite, wherever that is: what was acknowledged is there, and of the rest both or neither."""
    with closing(connect(path)) as app:
        app.execute(f"PRAGMA journal_mode = {journal}")
        app.execute("CREATE TABLE article (url)")
        Index(app, SETS, text=WORDS, store_text=True).close()
    rng, number = random.Random(journal), 0
    for _ in range(60 if more_rounds else 12):
        steps = int(rng.choice([300, 3000, 30_000]) * rng.random())
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                app = connect(path)
                index = Index(app)
                count = [0]

                def die(count: list[int] = count, steps: int = steps) -> None:
                    count[0] += 1
                    if count[0] > steps:
                        os.kill(os.getpid(), signal.SIGKILL)

                app.set_progress_handler(die, 5)
                for one in range(number, number + 1000):
                    work(index, app, one)
                    os.write(writing, b".")
            finally:
                os._exit(1)
        os.close(writing)
        os.waitpid(child, 0)
        with open(reading, "rb") as pipe:
            acknowledged = len(pipe.read())
        there = {int(key[:3]) for key in kept(path)}
        with closing(connect(path)) as app:
            written = {int(key[:3]) for key in Index(app) if key.endswith("c")}
        assert written in ({*range(number + acknowledged)}, {*range(number + acknowledged + 1)}) and there <= written
        number = len(written)
    assert number > 3


def test_a_full_disk_leaves_both_or_neither(path: Path) -> None:
    """A file that may not grow: the transaction is taken back whole, the connection and the index go on."""
    with closing(connect(path)) as app:
        app.execute("CREATE TABLE article (url)")
        app.commit()
        index = Index(app, SETS, text=WORDS, store_text=True)
        done, full = 0, 0
        for number in range(150):
            pages = app.execute("PRAGMA page_count").fetchone()[0]
            app.execute(f"PRAGMA max_page_count = {pages + number % 3}")
            before = urls(app), list(index)
            try:
                work(index, app, number)
                done += 1
            except (DiskFullError, MODULE.OperationalError):
                full += 1
                assert (urls(app), list(index)) == before and not app.in_transaction
                app.execute("PRAGMA max_page_count = 1000000")
                work(index, app, number)
        assert done and full
    assert len(kept(path)) == 100


# ---- other Pythons ---------------------------------------------------------------------------------------------------------


def test_the_standard_librarys_own_module() -> None:
    """All of this file, by a Python whose sqlite3 loads extensions, where this one's does not."""
    done = run_elsewhere("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "not librarys_own", __file__)
    if done is None:
        assert MODULE is sqlite3 or capable_python() is None
    else:
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_two_indexes_of_one_connection_take_turns(path: Path) -> None:
    """Threads that use an index each, both on one connection, lose nothing."""
    app = in_wal(path, check_same_thread=False)
    indexes = [Index(app, BinaryCode(64, 3), name=name) for name in ("one", "two")]
    run_threads(*(partial(_add_codes, index) for index in indexes))
    assert [len(index) for index in indexes] == [200, 200] and all(index.check().ok for index in indexes)
    app.close()


def _add_codes(index: Index) -> None:
    for number in range(200):
        index.add_code(number, number * 0x10001)


def test_a_connection_that_leads_to_its_index_is_freed(path: Path) -> None:
    """An application's connection may keep the index, and both go when nobody has them any more."""

    class App(MODULE.Connection):  # type: ignore[misc, name-defined]
        """A connection with room for more."""

    app = MODULE.connect(path, factory=App)
    app.index = Index(app, MinHash())
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None


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


def test_a_file_is_open_by_one_library_alone(path: Path, app: Any, tmp_path: Path) -> None:
    """Beside an Index on a connection of sqlite3 one by the path, by a link to it, or on a connection of apsw is refused with the
    remedy; once the first connection is closed it is opened."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
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


def test_files_are_opened_while_others_are(tmp_path: Path) -> None:
    """Whatever another thread opens or closes between two steps of the look at the open files, that one comes to its end."""
    paths = [str(tmp_path / f"{number}.db") for number in range(8)]
    kept = [Index(path, MinHash()) for path in paths]
    left = [True] * 20
    threads: list[threading.Thread] = []

    def open_another() -> None:
        kept.append(Index(tmp_path / f"more {len(left)}.db", MinHash()))
        if len(left) % 2:
            kept.pop(0).close()

    def look(frame: Any, event: str, _: Any) -> Any:
        if left and frame.f_code.co_filename in (libraries.__file__, weakref.__file__):
            left.pop()
            threads.append(threading.Thread(target=open_another))
            threads[-1].start()
            threads[-1].join(0.05)  # it may have to wait for this look
        return look

    sys.settrace(look)
    try:
        libraries.Opening(paths[-1]).record_identity()
    finally:
        sys.settrace(None)
    for thread in threads:
        thread.join()
    for index in kept:
        index.close()
    assert len(left) < 10


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
        """The turn, which tells when the second thread comes to it."""

        def __init__(self, turn: Any) -> None:
            self.turn = turn

        def take(self, timeout: float) -> Any:
            if threading.current_thread() is second:
                waits.set()
            return self.turn.take(timeout)

    def look(*given: Any) -> None:
        require_same(*given)
        if second.ident is None:
            second.start()
            assert waits.wait(60)

    second = threading.Thread(target=open_by_path)
    require_same = libraries._require_same
    monkeypatch.setattr(libraries, "_require_same", look)
    monkeypatch.setattr(libraries, "_turn", Watched(libraries._turn), raising=False)
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


def test_files_of_a_parent_process_are_none_of_a_childs(path: Path, app: Any) -> None:
    """A forked child opens by its path what its parent has open by a connection of sqlite3."""
    Index(app, MinHash()).add("a", TEXT)

    def use() -> str:
        with Index(path) as own:
            return ", ".join(map(str, own))

    assert in_child(use) == "a"
