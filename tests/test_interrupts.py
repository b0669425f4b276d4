"""KeyboardInterrupt at every moment at which Python looks for signals: a call has happened or not, and nothing is held.

Each so many-th moment of a call is tried; with `pytest --more` every one of some and more of the others, with `--long` all.
"""

from __future__ import annotations

import gc
import inspect
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from load import asked_meanwhile, in_another_thread, run_threads
from support import PAST, SETS, WORDS

from neardup_db import Index, SimHash
from neardup_db.limits import READERS_MAX

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""What interrupts a finalizer is not raised, and Python says so."""

TEXTS = ["alpha bravo charlie delta", "alpha bravo charlie echo", "foxtrot golf hotel", "foxtrot golf india", "juliett kilo"]


def interrupt_python() -> None:
    """What Ctrl-C does at the next moment."""
    sys.setprofile(None)
    raise KeyboardInterrupt


def interrupted_at(
    moment: int, work: Callable[[], Any], interrupt: Callable[[], None] = interrupt_python, passed_over: Any = KeyboardInterrupt
) -> bool:
    """Whether there were so many moments in some work; at this one it was interrupted, though what is called back from C may
    have swallowed that.

    CPython looks for signals when a function begins, and when a built-in one has returned; not where an exception is thrown
    into a generator."""
    count = 0

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        thrown = event == "call" and frame.f_code.co_flags & inspect.CO_GENERATOR and sys.exc_info()[0] is not None
        if event in ("call", "c_return") and not thrown:
            count += 1
            if count == moment:
                interrupt()

    sys.setprofile(look)
    try:
        work()
    except passed_over:
        pass
    finally:
        sys.setprofile(None)
    gc.collect()  # what an exception's frames held
    return count >= moment


def later(moment: int, step: int, more_rounds: bool) -> int:
    """The next moment that is tried: a step further, and in long calls a twentieth, with `--more` a hundredth."""
    return moment + max(step, moment // (100 if more_rounds else 20) if step > 1 else 1)


FOLDER = TemporaryDirectory()
with Index(f"{FOLDER.name}/merged.db", SETS, text=WORDS, store_text=True) as _index:
    _index.add("0", TEXTS[2])
    _index.add("new", TEXTS[1])
with Index(f"{FOLDER.name}/texts.db", SETS, text=WORDS, store_text=True) as _index:
    _index.add_many((str(number), text) for number, text in enumerate(TEXTS))
    _index.add("expired", TEXTS[0], expires_at=PAST)
    with Index(_index.connection, SETS, text=WORDS, store_text=True, name="beside") as _beside:
        _beside.add("new", TEXTS[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where an index of the texts is."""
    return Path(shutil.copyfile(f"{FOLDER.name}/texts.db", tmp_path / "index.db"))


def state_of(index: Any) -> Any:
    """Scheme and documents."""
    sql = "SELECT key, text, fingerprint_id IS NULL, expires_at FROM neardup_document ORDER BY id"
    return index.execute(sql).fetchall(), index.execute("SELECT value FROM neardup_setting WHERE name = 'scheme'").get


def require_free(index: Index, path: Path) -> Any:
    """What the file has, after a look that no lock, no transaction and no cursor is left."""
    other = apsw.Connection(str(path))
    try:
        other.execute("BEGIN IMMEDIATE; ROLLBACK")
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
        assert not index.connection.in_transaction
        assert asked_meanwhile(lambda: index.delete("no such key")) == [False]
        return state_of(other)
    finally:
        other.close()


def in_transaction(index: Index) -> None:
    """Three calls in one."""
    with index.transaction():
        index.add("new", TEXTS[1])
        with index.transaction():
            index.delete("0")
        index.add("4", TEXTS[2], if_exists="replace")


def sync_table(index: Index) -> None:
    """A table whose rows are documents, and one more, followed, taken over, and left again."""
    with index.transaction():
        index.connection.execute("CREATE TABLE articles (id TEXT PRIMARY KEY, body TEXT)")
        rows = [*((str(number), text) for number, text in enumerate(TEXTS)), ("expired", TEXTS[1]), ("new", TEXTS[2])]
        index.connection.executemany("INSERT INTO articles VALUES (?, ?)", rows)
        index.follow("articles")
        index.sync()
        index.unfollow()


def taken_back(index: Index) -> None:
    """A transaction that fails."""
    with suppress(ZeroDivisionError), index.transaction():
        index.add("new", TEXTS[1])
        raise ZeroDivisionError


def merged_of_one_connection(index: Index) -> None:
    """An index with the same file, and the same connection, has been there before; it goes into this one."""
    index.merge(Index(index.connection, name="beside"))


WRITES: dict[str, Callable[[Index], Any]] = {
    "add": lambda index: index.add("new", TEXTS[1]),
    "replace": lambda index: index.add("0", TEXTS[2], if_exists="replace"),
    "add_if_new": lambda index: index.add_if_new("new", "lima mike"),
    "add_many": lambda index: index.add_many([("new", TEXTS[1]), ("newer", TEXTS[2])]),
    "merge": lambda index: index.merge(f"{FOLDER.name}/merged.db", if_exists="replace"),
    "merge of one connection": merged_of_one_connection,
    "delete": lambda index: index.delete("0"),
    "delete_group": lambda index: index.delete_group(None),
    "update": lambda index: index.update("0", expires_at=PAST),
    "expire": lambda index: index.expire(),
    "keep_newest": lambda index: index.keep_newest(3),
    "window": lambda index: index.set_window(2),
    "transaction": in_transaction,
    "taken back": taken_back,
    "sync": sync_table,
    "rebuild": lambda index: index.rebuild(SimHash(max_distance=3)),
    "compact": lambda index: index.compact(),
}


@pytest.mark.posix("signals")
@pytest.mark.parametrize("name", WRITES)
def test_a_call_that_writes_is_interrupted(path: Path, name: str, more_rounds: bool, long_run: bool) -> None:
    """Wherever a call that writes is interrupted, all of it is in the file or nothing, and the index holds no lock, transaction
    or cursor."""
    backup = path.read_bytes()
    with Index(path) as index:
        before = require_free(index, path)
        WRITES[name](index)
        after = require_free(index, path)
    moment, more, step = 0, True, 1 if long_run or (more_rounds and name in ("add", "taken back")) else 11 if more_rounds else 41
    while more:
        moment = later(moment, step, more_rounds)
        path.write_bytes(backup)
        with Index(path) as index:
            more = interrupted_at(moment, partial(WRITES[name], index))
            found = require_free(index, path)
            assert found in ((before, after) if more else (after,)), f"half of it at moment {moment}"
    assert moment > 50


QUESTIONS: dict[str, Callable[[Index], Any]] = {
    "query": lambda index: index.query(TEXTS[0]),
    "query in a group": lambda index: index.query(TEXTS[0], group="g"),
    "query_many": lambda index: index.query_many(TEXTS[:2]),
    "query_many of many": lambda index: index.query_many(TEXTS * 20),
    "matches": lambda index: index.matches("0"),
    "get": lambda index: index.get("0"),
    "get_many": lambda index: index.get_many(["0", "1"]),
    "in": lambda index: "0" in index,
    "len": len,
    "iter": list,
    "pairs": lambda index: list(index.pairs()),
    "clusters": lambda index: index.clusters(),
    "stats": lambda index: index.stats(),
}


@pytest.mark.posix("signals")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a transaction"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_interrupted(path: Path, name: str, beside: bool, more_rounds: bool, long_run: bool) -> None:
    """Wherever a question is interrupted, the index gives the connection back that answered it: all of its readers go on
    answering beside a transaction."""
    with Index(path) as index:
        answer = QUESTIONS[name](index)
        moment, more, step = 0, True, 1 if long_run or (more_rounds and name in ("query", "len")) else 5 if more_rounds else 13
        while more:
            moment = later(moment, step, more_rounds)
            with in_another_thread(index.transaction()) if beside else nullcontext():
                more = interrupted_at(moment, partial(QUESTIONS[name], index))
                assert asked_meanwhile(lambda: len(index)) == [5], f"a connection is lost at moment {moment}"
        require_free(index, path)
        with in_another_thread(index.transaction()):
            assert asked_meanwhile(lambda: run_threads(*[partial(len, index)] * (2 * READERS_MAX))) == [None]
        if name != "stats":
            assert QUESTIONS[name](index) == answer
    assert moment > 10


@pytest.mark.posix("signals")
@pytest.mark.parametrize("read_only", [False, True])
def test_opening_is_interrupted(path: Path, read_only: bool, more_rounds: bool, long_run: bool) -> None:
    """Wherever opening a file is interrupted, the file is as it was, and nothing keeps its log."""
    before = path.read_bytes()
    moment, more, step = 0, True, 1 if long_run else 3 if more_rounds else 11
    while more:
        moment = later(moment, step, more_rounds)
        more = interrupted_at(moment, lambda: Index(path, read_only=read_only).close())
        if read_only:  # who only reads cannot remove the log
            Index(path).close()
        assert [one.name for one in path.parent.iterdir()] == ["index.db"], f"moment {moment}"
    assert path.read_bytes() == before and moment > 50


@pytest.mark.posix("signals")
def test_creating_is_interrupted(tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """Wherever creating a file is interrupted, it is not there, or is empty, or holds a whole index; it can be created again."""
    moment, more, step = 0, True, 1 if long_run else 5 if more_rounds else 23
    while more:
        moment = later(moment, step, more_rounds)
        path = tmp_path / f"{moment}.db"
        more = interrupted_at(moment, lambda path=path: Index(path, SETS).close())
        assert {one.name for one in tmp_path.iterdir()} <= {f"{moment}.db"}, f"moment {moment}"
        with Index(path, SETS) as index:
            index.add("a", TEXTS[0])
            assert index.check().problems == ()
        path.unlink()
    assert moment > 50
