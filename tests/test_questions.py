"""Statements that stay prepared and run without Python's lock, beside the same SQL run by apsw."""

from __future__ import annotations

import gc
import random
import subprocess
import threading
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test
from interpreter import interpreter
from support import CASES, Case

from neardup_db import BinaryCode, Index, MinHash, NearDupError
from neardup_db.store.database.statements import Connection

OPTIONS: list[dict[str, Any]] = [
    {}, {"limit": 0}, {"limit": 2}, {"limit": 2, "any": True}, {"any": True}, {"group": "g"}, {"group": "never seen"},
]  # fmt: skip


def by_apsw(index: Index, ask: Any) -> Any:
    """The answer where somebody traces what is run, which leaves every statement to apsw."""
    seen: list[str] = []
    index.connection.exec_trace = lambda cursor, sql, bindings: seen.append(sql) or True  # type: ignore[func-returns-value]
    try:
        return ask()
    finally:
        index.connection.exec_trace = None
        assert seen


@one_test(case=CASES.values())
def test_answers_are_those_of_the_sql(case: Case) -> None:
    """For every scheme, plan and option: the same matches in the same order, of keys of every type."""
    source = random.Random(11)
    with Index(":memory:", case.scheme, text=None if case.codes else case.rules, store_text=case.store_text) as index:
        asked: list[Any] = []
        for number in range(40):
            key = (number, f"k\0é{number}", b"\0\xff%d" % number)[number % 3]
            group = source.choice([None, None, "g"])
            if case.codes:
                asked.append(source.choice([0, 1]) << 40 | 1 << source.randrange(case.scheme.bits - 1))
                index.add_code(key, asked[-1], group=group)
            else:
                asked.append(" ".join(source.choices("abcdefgh", k=6)))
                index.add(key, asked[-1], group=group)
        ask = index.query_code if case.codes else index.query
        for options, content in product(OPTIONS, asked[:15]):
            assert ask(content, **options) == by_apsw(index, partial(ask, content, **options))
        for key in (0, "k\0é1", b"\0\xff2"):
            assert index.matches(key) == by_apsw(index, lambda key=key: index.matches(key))


def rows_of(connection: Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return connection.prepared(sql).rows(values)


def test_values_of_every_type_come_back() -> None:
    """Numbers at their limits, text with NUL, empty text and bytes, NULL; no rows at all."""
    connection = Connection(":memory:")
    values = (2**63 - 1, -(2**63), 0.1, "a\0é𝄞", "", b"", b"\0\xff", None, True)
    places = ", ".join(f"?{place}" for place in range(1, len(values) + 1))
    statement = connection.prepared(f"SELECT {places}")
    for _ in range(2):
        assert statement.rows(values) == [values]
    assert rows_of(connection, "SELECT 1 WHERE 0") == []
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT i, 'x' || i FROM n"
    assert rows_of(connection, many) == [(number, f"x{number}") for number in range(1, 5001)]


def test_wrong_values_are_errors_and_leave_the_statement_as_it_was() -> None:
    """Too few values, a type that SQLite lacks, a number that is too large, text that is no Unicode."""
    connection = Connection(":memory:")
    statement = connection.prepared("SELECT ?1")
    wrong = [((), TypeError), ((1, 2), TypeError), (([],), TypeError), ((2**63,), OverflowError), (("\ud800",), UnicodeError)]
    for values, error in wrong:
        with pytest.raises(error):
            statement.rows(values)
        assert statement.rows((1,)) == [(1,)]
    with pytest.raises(UnicodeDecodeError):
        rows_of(connection, "SELECT CAST(x'ff' AS TEXT)")


def test_errors_are_those_of_apsw() -> None:
    """The class, the codes and the message; what a function of Python's raises comes out as it is."""
    connection = Connection(":memory:")
    for sql in ("SELECT * FROM missing", "SELECT abs(-9223372036854775808)", "SELECT zeroblob(1000000001)"):
        with pytest.raises(apsw.Error) as theirs:
            connection.execute(sql).fetchall()
        with pytest.raises(apsw.Error) as ours:
            rows_of(connection, sql)
        assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)
        assert ours.value.extendedresult == theirs.value.extendedresult
    statement = connection.prepared("SELECT value FROM json_each('[1, 2, 3]')")
    for handler, error in ((lambda: True, apsw.InterruptError), (lambda: 1 // 0, ZeroDivisionError)):
        connection.set_progress_handler(handler, 1)
        with pytest.raises(error):
            statement.rows(())
        connection.set_progress_handler(None)
        assert statement.rows(()) == [(1,), (2,), (3,)]


def test_a_statement_runs_inside_of_itself() -> None:
    """By a function of Python's that SQLite calls meanwhile."""
    connection = Connection(":memory:")
    statement = connection.prepared("WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n LIMIT 2) SELECT i FROM n")
    inner: list[Any] = []

    def ask() -> bool:
        if not inner:
            inner.append(None)
            inner.append(statement.rows((4,)))
        return False

    connection.set_progress_handler(ask, 1)
    assert statement.rows((1,)) == [(1,), (2,)]
    assert inner[1] == [(4,), (5,)]


LITTLE_MEMORY = """
import apsw
from neardup_db.store.database.statements import Connection
connection = Connection(":memory:")
connection.execute("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a, b, c)")  # texts are converted as they are read
connection.execute("INSERT INTO t VALUES (?, x'', zeroblob(300000))", ("a" * 300_000,))
statement = connection.prepared("SELECT a, b, c, zeroblob(200000) FROM t")
expected, outcomes = [("a" * 300_000, b"", bytes(300_000), bytes(200_000))], []
assert statement.rows(()) == expected
for more in range(0, 6_000_000, 10_000):
    apsw.hard_heap_limit(apsw.memory_used() + more)
    try:
        outcomes.append(statement.rows(()) == expected)
    except apsw.NoMemError:
        outcomes.append(None)
    apsw.hard_heap_limit(0)
assert set(outcomes) == {True, None}, outcomes
"""


def test_memory_that_runs_out_is_never_an_empty_value() -> None:
    """However little memory SQLite has, a run gives the right rows or apsw's error."""
    subprocess.run([*interpreter(), "-c", LITTLE_MEMORY], check=True, timeout=60)


def test_closing_ends_what_is_prepared(tmp_path: Path) -> None:
    """The log goes with the connection, whichever way that is closed; a statement then says that it is closed."""
    for close in (Connection.close, lambda connection: None):
        path = tmp_path / "a.db"
        connection = Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE IF NOT EXISTS t(a)")
        statement = connection.prepared("SELECT * FROM t")
        statement.rows(())
        assert path.with_name("a.db-wal").exists()
        close(connection)
        if close is Connection.close:
            with pytest.raises(apsw.ConnectionClosedError):
                statement.rows(())
        del connection, statement
        gc.collect()
        assert not path.with_name("a.db-wal").exists()


def refuses_to_close(index: Index, refused: list[bool]) -> bool:
    """Called in the middle of a statement."""
    with pytest.raises(NearDupError, match="open as before"):
        index.close()
    refused.append(True)
    return False


@pytest.mark.parametrize("asked", ["query", "clusters"])
def test_a_close_that_is_refused_changes_nothing(tmp_path: Path, asked: str) -> None:
    """A function that SQLite calls in the middle of a statement cannot close the index, whichever way the statement is run; what
    was prepared goes on, and transactions are watched as before."""
    with Index(tmp_path / "a.db", MinHash(threshold=0.5)) as index:
        for number in range(20):
            index.add(number, f"a story that is told again and again number {number % 5}")
        ask: dict[str, Any] = {
            "query": lambda: index.query("a story that is told again and again"),
            "clusters": lambda: list(index.clusters()),
        }
        expected = {name: call() for name, call in ask.items()}
        refused: list[bool] = []
        index.connection.set_progress_handler(partial(refuses_to_close, index, refused), 10)
        assert ask[asked]() == expected[asked]
        index.connection.set_progress_handler(None)
        assert refused
        assert {name: call() for name, call in ask.items()} == expected
        with pytest.raises(KeyError), index.transaction():
            index.add("taken back", "another story")
            raise KeyError
        index.add("later", "another story")
        assert "taken back" not in index and index.check().problems == ()
    assert not (tmp_path / "a.db-wal").exists()


def test_a_close_that_a_reader_refuses_changes_nothing(tmp_path: Path) -> None:
    """So it is where the statement runs on a connection that a thread has for itself: readers answer as before."""
    with Index(tmp_path / "a.db", MinHash(threshold=0.5)) as index:
        index.add("a", "one two three four five")
        taken, refused = threading.Event(), list[bool]()

        def ask() -> None:
            guard, reader = index._readers.acquire()
            taken.set()
            assert reader is not index._readers.own
            with guard:
                reader.store.db.connection.set_progress_handler(partial(refuses_to_close, index, refused), 10)
                reader.store.db.rows("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99) SELECT * FROM n")
                reader.store.db.connection.set_progress_handler(None)

        thread = threading.Thread(target=ask)
        with index._readers.reading():  # so that the thread takes a reader
            thread.start()
            assert taken.wait(60)
        thread.join()
        assert refused and not index._readers._closed
        assert index.query("one two three four five")


def test_an_index_whose_connection_was_closed_says_so(tmp_path: Path) -> None:
    with Index(tmp_path / "a.db", BinaryCode(64, 3)) as index:
        index.add_code("a", 1)
        assert index.query_code(1)
        index.connection.close()
        with pytest.raises((NearDupError, apsw.ConnectionClosedError)):
            index.query_code(1)


AT_THE_END = """
import threading, time
from neardup_db import Index, MinHash
index = Index(":memory:", MinHash())
text = " ".join(f"word{number}" for number in range(3000))
def ask():
    while True:
        index._store.sketcher.text(text)
for _ in range(4):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(0.1)
"""


def test_python_may_end_while_threads_ask() -> None:
    """What a thread works with outlives the thread's own state, which Python's end takes away."""
    for _ in range(4):
        ended = subprocess.run([*interpreter(), "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
