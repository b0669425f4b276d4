"""`interrupt()` of the application's connection while a cursor of its own is open: SQLite then interrupts every statement until
that cursor ends, the roll-back of a call among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from support import PAST, SETS, WORDS
from test_ended_by_others import ERRORS, opened
from test_interrupts import TEXTS, interrupted_at

from neardup_db import Index, NearDupError

LIBRARIES = ["apsw", "sqlite3"]

CALLS: dict[str, Callable[[Index], Any]] = {
    "add": lambda index: index.add("new", TEXTS[1]),
    "add_if_new": lambda index: index.add_if_new("new", "kilo lima mike november"),
    "replace": lambda index: index.add("0", TEXTS[3], if_exists="replace"),
    "add_many": lambda index: index.add_many((f"new {number}", f"{TEXTS[number % 5]} {number}") for number in range(6)),
    "delete": lambda index: index.delete("1"),
    "expire": lambda index: index.expire(),
}


CHANGES = {"add": (0, 1), "add_if_new": (0, 1), "replace": (0,), "add_many": (0, 6), "delete": (0, -1), "expire": (0, -1)}
"""How many documents more there may be afterwards."""


@pytest.fixture(params=LIBRARIES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    connection = opened(request.param, tmp_path / "app.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, body)")
    connection.execute("INSERT INTO article (body) SELECT value FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8]')")
    yield connection
    connection.close()


def state_of(index: Index) -> Any:
    documents = index.connection.execute("SELECT key, text FROM neardup_document ORDER BY id").fetchall()
    return [tuple(row) for row in documents]


@pytest.mark.parametrize("begun", [False, True], ids=["own transaction", "the application's"])
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_with_an_open_cursor_leaves_no_half_of_a_call(
    app: Any, tmp_path: Path, name: str, begun: bool, more_rounds: bool
) -> None:
    """At every moment the call is stored whole or not at all, together with what the application wrote in its transaction; the
    application's later row stays, and the write lock is free. The kinds of connections and transactions share the moments."""
    index = Index(app, SETS, text=WORDS, store_text=True)
    moment, more = -(2 * begun + isinstance(app, apsw.Connection)) if more_rounds else 0, True
    step = 4 if more_rounds else 5 if name == "add" else 61
    rows = 8
    before = None
    while more:
        if more_rounds or state_of(index) != before:  # apsw forgets statements that are interrupted, one after the other
            index.delete_many([*index])
            index.expire()
            index.add_many((str(number), text) for number, text in enumerate(TEXTS))
            index.add("expired", TEXTS[0], expires_at=PAST)
            before = state_of(index)
        moment = moment + step if more_rounds else moment + max(step, moment // 7)
        cursor = app.cursor()
        assert next(cursor.execute("SELECT id FROM article")) == (1,)
        if begun:
            app.execute("BEGIN IMMEDIATE")
            app.execute("INSERT INTO article (body) VALUES ('before')")
        more = interrupted_at(moment, partial(CALLS[name], index), app.interrupt, (apsw.Error, NearDupError))
        del cursor  # the application's statement ends, and SQLite forgets the interrupt
        if begun:
            try:
                app.execute("COMMIT")
                rows += 1
            except ERRORS:  # SQLite has rolled it back, as it does where it interrupts a statement that writes
                assert state_of(index) == before
        app.execute("INSERT INTO article (body) VALUES ('later')")
        rows += 1
        assert len(state_of(index)) - len(before) in CHANGES[name], moment
        other = opened("apsw" if isinstance(app, apsw.Connection) else "sqlite3", tmp_path / "app.db")
        other.execute("BEGIN IMMEDIATE")
        other.close()
        assert index.check().problems == (), moment
        assert app.execute("SELECT count(*) FROM article").fetchall() == [(rows,)], moment
    assert moment > 40
