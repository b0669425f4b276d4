"""SQL of the application's that ends a transaction in the middle of a call of the index: no half of the call is stored."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import story
from standard import MODULE
from support import SETS, WORDS
from test_interrupts import TEXTS, WRITES, interrupted_at, later

from neardup_db import Index, MinHash, NearDupError
from neardup_db.store.query.documents import Documents

ENDS = ("COMMIT", "ROLLBACK", "ROLLBACK; BEGIN IMMEDIATE", "COMMIT; BEGIN IMMEDIATE")
ENDED = "ended by SQL on the connection"
ERRORS = (apsw.Error, MODULE.Error)


def opened(library: str, path: Path) -> Any:
    """A connection of the application's, whose transactions are begun by hand alone."""
    if library == "apsw":
        return apsw.Connection(str(path))
    return MODULE.connect(path, isolation_level=None, check_same_thread=False)


@pytest.fixture(params=["apsw", "sqlite3"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An application's connection, of either kind, to a file with a table of its own."""
    connection = opened(request.param, tmp_path / "app.db")
    connection.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, body)")
    yield connection
    connection.close()


def ending(app: Any, end: str) -> Callable[..., None]:
    """A function that ends the open transaction the first time that it is called."""
    left = [end]

    def run(*_: Any) -> None:
        while left:
            for one in left.pop().split("; "):
                with suppress(*ERRORS):
                    app.execute(one)

    return run


def left_alone(app: Any) -> None:
    """Take back what the application has begun anew."""
    with suppress(*ERRORS):
        app.execute("ROLLBACK")


def add_many(index: Index, end: Callable[..., None]) -> None:
    index.add_many(((number, story(number)) for number in range(40)), progress=end)


def add_only_new(index: Index, end: Callable[..., None]) -> None:
    index.add_many(((number, story(number)) for number in range(40)), only_new=True, progress=end)


def add_many_from_a_generator(index: Index, end: Callable[..., None]) -> None:
    def records() -> Iterator[tuple[int, str]]:
        for number in range(40):
            if number == 23:
                end()
            yield number, story(number)

    index.add_many(records())


def rebuild(index: Index, end: Callable[..., None]) -> None:
    index.rebuild(MinHash(threshold=0.6), progress=end)


CALLS = {call.__name__: call for call in (add_many, add_only_new, add_many_from_a_generator, rebuild)}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_transaction_is_ended_stores_nothing(app: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever progress= or the records do to the transaction, the call's own or the application's by turns: the call fails,
    nothing of it is there, and all goes on."""
    monkeypatch.setattr("neardup_db.limits.BATCH_RECORDS", 5)
    monkeypatch.setattr("neardup_db.limits.REBUILT_PAGE", 2)
    turn = [*CALLS].index(name) + isinstance(app, apsw.Connection)
    for begun, end in zip([turn % 2 == 0, turn % 2 == 1] * 2, ENDS, strict=True):
        monkeypatch.setattr("neardup_db.limits.WORTH_THREADS", 1 if begun else 100)  # batches are written by a thread, or not
        index = Index(app, MinHash(), store_text=True, name=f"index{ENDS.index(end)}")
        index.add_many((f"old {number}", story(number)) for number in range(9))
        before = list(index), index.clusters(), index.scheme
        if begun:
            app.execute("BEGIN IMMEDIATE")
        with pytest.raises(NearDupError, match=ENDED):
            CALLS[name](index, ending(app, end))
        left_alone(app)
        assert (list(index), index.clusters(), index.scheme) == before and index.check().problems == (), end
        app.execute("BEGIN IMMEDIATE")
        index.add("new", "words of its own, which nobody said before")
        app.execute("COMMIT")
        assert "new" in index, end


@pytest.mark.parametrize("block", [False, True], ids=["alone", "in transaction()"])
@pytest.mark.parametrize("name", CALLS)
def test_a_commit_in_a_call_is_told(app: Any, name: str, block: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL that commits in the middle of a call is told why it may not, and where it lets that pass, the call says what to do."""
    monkeypatch.setattr("neardup_db.limits.BATCH_RECORDS", 5)
    monkeypatch.setattr("neardup_db.limits.REBUILT_PAGE", 2)
    index = Index(app, MinHash(), store_text=True)
    index.add_many((f"old {number}", story(number)) for number in range(9))
    told: list[str] = []

    def commit(*_: Any) -> None:
        try:
            app.execute("COMMIT")
        except ERRORS as error:
            told.append(str(error))
            if isinstance(app, apsw.Connection):
                raise

    around = index.transaction() if block else nullcontext()
    with pytest.raises(NearDupError, match=f"{ENDED}.*not in the middle of one"), around:
        CALLS[name](index, commit)
    assert "neardup: a call of an index is in the middle of its work" in told[0] and len(index) == 9


def test_a_commit_hook_of_the_applications_own(tmp_path: Path) -> None:
    """A hook that refuses a commit is named, and nothing of the call is there."""
    app = apsw.Connection(str(tmp_path / "app.db"))
    index = Index(app, MinHash())
    app.set_commit_hook(lambda: True)
    with pytest.raises(NearDupError, match="a commit hook of the connection has refused the commit"):
        index.add("a", story(1))
    app.set_commit_hook(None)
    assert len(index) == 0 and index.add("a", story(1)) == []


@pytest.mark.parametrize("end", ENDS)
def test_a_sync_whose_transaction_is_ended_leaves_all_pending(app: Any, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What progress= does to the transaction loses no row: the next sync() takes all of them, without full=True."""
    monkeypatch.setattr("neardup_db.limits.SYNC_ROWS", 5)
    index = Index(app, MinHash())
    index.follow("article")
    index.sync()
    for number in range(20):
        app.execute("INSERT INTO article VALUES (?, ?)", (number, story(number)))
    with pytest.raises(NearDupError, match=ENDED):
        index.sync(progress=ending(app, end))
    left_alone(app)
    assert index.check().problems == () and index.sync().added == len(index) == 20


@pytest.mark.parametrize("call", ["add", "add inside a transaction", "add_many"])
def test_another_thread_that_ends_the_transaction_of_a_call(app: Any, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A COMMIT or ROLLBACK of another thread, between two statements of an add, leaves no half of a document."""
    for number, end in enumerate(ENDS):
        index = Index(app, MinHash(threshold=0.5), name=f"index{number}")
        index.add("old", story(1))
        insert, other = Documents.insert, ending(app, end)

        def in_the_middle(self: Documents, row: Any, insert: Any = insert, other: Callable[..., None] = other) -> Any:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return insert(self, row)

        with monkeypatch.context() as patch, pytest.raises(NearDupError, match=ENDED):
            patch.setattr(Documents, "insert", in_the_middle)
            if call == "add_many":
                index.add_many([("old", story(1)), ("a", story(1))], if_exists="replace")
            elif call == "add":
                index.add("a", story(1))
            else:
                with index.transaction():
                    index.add("a", story(1))
        left_alone(app)
        assert index.check().problems == () and list(index) == ["old"], end
        index.add("a", story(1))
        assert index.check().problems == (), end


@pytest.mark.parametrize("inside", [False, True], ids=["around the load", "inside it"])
def test_a_savepoint_that_is_rolled_back_inside_a_load(app: Any, inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """ROLLBACK TO in the middle of a load takes rows, or the call's own savepoint along: it is an error, and nothing stays."""
    monkeypatch.setattr("neardup_db.limits.BATCH_RECORDS", 5)
    index = Index(app, MinHash())
    app.execute("BEGIN IMMEDIATE")
    back, records = ending(app, "ROLLBACK TO mine"), ((number, story(number)) for number in range(40))

    def progress(taken: int) -> None:
        if inside and taken < 20:
            app.execute("SAVEPOINT mine")
        else:
            back()

    if not inside:
        app.execute("SAVEPOINT mine")
    with pytest.raises((NearDupError, *ERRORS)):
        index.add_many(records, only_new=not inside, progress=progress)
    left_alone(app)
    assert list(index) == [] and index.check().problems == ()


def test_an_end_between_two_calls_of_a_block_is_the_applications(app: Any) -> None:
    """Between calls, inside transaction(), a COMMIT stores what was done; the block is an error, and nothing follows, though
    another transaction has begun: neither at its end nor before another call."""
    for number, end in enumerate(ENDS * 2):
        index = Index(app, MinHash(), name=f"index{number}")
        with pytest.raises(NearDupError, match=ENDED), index.transaction():
            index.add("a", story(1))
            ending(app, end)()
            if number >= len(ENDS):
                index.add("b", story(2))
        assert list(index) == ["a"] * end.startswith("COMMIT") and index.check().problems == () and not app.in_transaction, end


def test_hooks_of_the_applications_stay(tmp_path: Path) -> None:
    """A commit hook and a rollback hook that the application has set are called as before, and may refuse as before."""
    connection = apsw.Connection(str(tmp_path / "app.db"))
    told: list[str] = []
    refuses = False

    def commits() -> bool:
        told.append("commit")
        return refuses

    connection.set_commit_hook(commits)
    connection.set_rollback_hook(lambda: told.append("rollback"))
    index = Index(connection, MinHash())
    told.clear()
    index.add("a", story(1))
    assert told == ["commit"]
    refuses = True
    with pytest.raises(NearDupError):
        index.add("b", story(2))
    assert told == ["commit", "commit", "rollback"]
    refuses = False
    index.close()
    connection.execute("CREATE TABLE other (x)")
    assert told[3:] == ["commit"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of what interrupts a finalizer
@pytest.mark.parametrize("name", ["add", "add_many", "rebuild"])
def test_an_interrupt_leaves_nothing_that_refuses_a_commit(tmp_path: Path, app: Any, name: str, more_rounds: bool) -> None:
    """After KeyboardInterrupt at any moment of a call, the application's COMMIT stores its rows, though the error is kept."""
    index = Index(app, SETS, text=WORDS, store_text=True)
    index.add_many((str(number), text) for number, text in enumerate(TEXTS))
    step = 1 if more_rounds else 3 if name == "add" else 41
    moment, more, rows = 0, True, 0
    while more:
        moment = later(moment, step, more_rounds)
        app.execute("BEGIN IMMEDIATE")
        app.execute("INSERT INTO article (body) VALUES ('x')")
        gc.disable()  # nothing is freed but by its last reference
        try:
            more = interrupted_at(moment, partial(WRITES[name], index))
        finally:
            gc.enable()
        app.execute("COMMIT")
        rows += 1
        assert list(app.execute("SELECT count(*) FROM article")) == [(rows,)]
        for key in [key for key in index if key not in map(str, range(len(TEXTS)))]:
            index.delete(key)
    assert moment > 40 and index.check().problems == ()
