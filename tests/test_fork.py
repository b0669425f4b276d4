"""Forked children: never the parent's connection, an error at once, and files of their own in which nothing is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from interpreter import interpreter
from load import in_another_thread, in_child, run_threads, story
from test_read_only_and_closed import CLOSED, CODE_CALLS

from neardup_db import ClosedError, Index, MinHash, NearDupError, limits

CALLS = {name: call for name, call in CLOSED.items() if name not in CODE_CALLS}
"""What a closed index refuses."""


def refusals(index: Index) -> str:
    """What a child hears, call by call; then it closes the index, which does nothing."""
    told = []
    for name, call in CALLS.items():
        try:
            call(index)
            told.append(f"{name}: answered")
        except ClosedError as error:
            if "open it again in the child" not in str(error):
                told.append(f"{name}: {error}")
    index.close()
    return "; ".join(told)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads write in the background from the first 300 records on."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 300)


@pytest.mark.parametrize("state", ["idle", "in use by a thread", "readers in use", "in a transaction"])
def test_a_child_is_refused_at_once(tmp_path: Path, state: str) -> None:
    """Whatever the parent's threads are doing at the fork, every call of the child raises ClosedError, and none waits."""
    with Index(tmp_path / "index.db", MinHash(), durability="normal") as index:
        index.add("a", story(1))
        contexts: dict[str, list[Any]] = {
            "idle": [],
            "in use by a thread": [index._readers.reading()],
            "readers in use": [index._readers.reading() for _ in range(3)],
            "in a transaction": [index.transaction()],
        }
        with ExitStack() as stack:
            for context in contexts[state]:
                stack.enter_context(in_another_thread(context))
            assert in_child(lambda: refusals(index)) == ""
        index.add("b", story(2))
        assert list(index) == ["a", "b"] and index.check().problems == ()


def test_forks_in_the_middle_of_add_many(small_batches: None, tmp_path: Path) -> None:
    """Children forked while a batch is written in the background are refused, and the batch comes in whole."""
    with Index(tmp_path / "index.db", MinHash(), durability="normal") as index:
        index.add("a", story(1))
        told: list[str] = []
        running, done = threading.Event(), threading.Event()

        def records() -> Any:
            for number in range(2000):
                if number == 700:  # the first batch is being written
                    running.set()
                    told.append(in_child(lambda: refusals(index)))
                yield number, f"{number} {number * 7} {number * 13} {number * 17}"

        def fork() -> None:
            running.wait()
            told.append(in_child(lambda: refusals(index)))
            while not done.is_set():
                told.append(in_child(lambda: refusals(index)))

        def add() -> None:
            try:
                assert index.add_many(records()).added == 2000
            finally:
                running.set()
                done.set()

        run_threads(add, fork)
        assert len(told) >= 2 and set(told) == {""}
        assert len(index) == 2001 and index.check().problems == ()


def test_a_child_does_not_go_on_with_add_many(small_batches: None, tmp_path: Path) -> None:
    """A child that is forked by the records of add_many, and goes on, is refused; the batch of the parent is whole."""
    children: list[int] = []

    def records() -> Any:
        for number in range(2000):
            if number == 1300:
                children.append(os.fork())
                if children[0] == 0:  # pragma: no cover
                    signal.alarm(60)
            yield number, f"{number} {number * 7} {number * 13} {number * 17}"

    with Index(tmp_path / "index.db", MinHash(), durability="normal") as index:
        try:
            assert index.add_many(records()).added == 2000
        except ClosedError:
            os._exit(0 if children == [0] else 1)
        if children == [0]:  # pragma: no cover
            os._exit(2)
        assert os.waitpid(children[0], 0)[1] == 0
        assert len(index) == 2000 and index.check().problems == ()


@pytest.mark.parametrize("own", [KeyError, None], ids=["its own error", "no error"])
def test_a_child_leaves_a_transaction_while_sqlite_is_at_work(tmp_path: Path, own: type[Exception] | None) -> None:
    """A child that is forked while another thread of the parent is in SQLite leaves the transaction with its own error, or hears
    what it always hears."""
    at_work, enough = threading.Event(), threading.Event()
    child = None

    def wait() -> int:
        at_work.set()
        return int(enough.wait(60))

    with Index(tmp_path / "index.db", MinHash()) as index:
        connection = index.connection
        connection.create_scalar_function("wait", wait, 0)
        thread = threading.Thread(target=lambda: connection.execute("SELECT wait()").fetchall())
        try:
            with index.transaction():
                index.add("parent", story(1))
                thread.start()
                assert at_work.wait(60)
                child = os.fork()
                if child == 0:  # pragma: no cover
                    signal.alarm(60)
                    assert refusals(index) == ""
                    if own is not None:
                        raise own
                else:
                    enough.set()
                    thread.join()
        except BaseException as error:
            if child == 0:  # pragma: no cover
                os._exit(0 if isinstance(error, own or ClosedError) else 1)
            raise
        if child == 0:  # pragma: no cover
            os._exit(2)
        assert child is not None and os.waitpid(child, 0)[1] == 0
        assert list(index) == ["parent"] and index.check().problems == ()


def test_a_child_keeps_its_writes_when_the_parent_closes(tmp_path: Path) -> None:
    """A child opens the file that its parent has open; the parent closes it, another process comes and goes: what the child was
    told is stored stays stored. (SQLite by itself believes in the parent's locks, and the child writes to a log that is gone.)"""
    path = tmp_path / "index.db"
    parent = Index(path, MinHash())
    parent.add("parent", story(1))
    opened, closed = os.pipe(), os.pipe()

    def child() -> str:
        with Index(path) as own:
            own.add("child", story(2))
            os.write(opened[1], b"x")
            os.read(closed[0], 1)
            own.add("child, later", story(3))
            return ",".join(map(str, own))

    def others() -> None:
        os.read(opened[0], 1)
        parent.close()
        with Index(path) as third:
            third.add("third", story(4))
        os.write(closed[1], b"x")

    thread = threading.Thread(target=others)
    thread.start()
    assert in_child(child) == "parent,child,third,child, later"
    thread.join()
    with Index(path) as index:
        assert list(index) == ["parent", "child", "third", "child, later"] and index.check().problems == ()


def test_a_child_writes_after_a_fork_in_a_transaction(tmp_path: Path) -> None:
    """A child that was forked in the middle of the parent's transaction waits for it like any process, then writes."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as parent:
        with parent.transaction():
            parent.add("parent", story(1))
            read_end, write_end = os.pipe()
            child = os.fork()
            if child == 0:  # pragma: no cover
                signal.alarm(60)
                with Index(path, timeout=50) as own:
                    seen = list(own)
                    own.add("child", story(2))
                    os.write(write_end, f"{seen} {list(own)}".encode())
                os._exit(0)
            time.sleep(0.1)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(read_end, 1000).decode() == "[] ['parent', 'child']"
        assert list(parent) == ["parent", "child"] and parent.check().problems == ()


@pytest.mark.parametrize("own", [False, True], ids=["by path", "sqlite3"])
def test_a_child_of_a_fork_in_the_middle_of_a_call_opens_no_index(tmp_path: Path, own: bool) -> None:
    """A thread of the parent may have been inside SQLite: the child hears so, with the remedy, and hangs nowhere."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as parent:

        def child() -> str:
            try:
                Index(sqlite3.connect(tmp_path / "own.db") if own else path, MinHash())
            except NearDupError as error:
                return str(error)
            return "opened"

        with in_another_thread(parent.transaction()):
            assert "'spawn' or 'forkserver'" in in_child(child)
        if not own:
            assert in_child(child) == "opened"


def test_children_of_children(tmp_path: Path) -> None:
    """So it is from generation to generation, and each may have its index open while it forks."""
    path = tmp_path / "index.db"

    def generation(number: int) -> str:
        with Index(path, MinHash(), durability="normal") as index:
            index.add(number, story(number))
            below = in_child(lambda: generation(number + 1)) if number < 4 else "in order"
            index.add(10 + number, story(10 + number))
            return below if [10 + number, number] == [list(index)[-1], list(index)[number]] else f"lost in {number}"

    assert generation(0) == "in order"
    with Index(path) as index:
        assert list(index) == [0, 1, 2, 3, 4, 14, 13, 12, 11, 10] and index.check().problems == ()


PROGRAM = """
import gc, os, sys
from neardup_db import ClosedError, Index, MinHash, NearDupError

index = Index(sys.argv[1], MinHash())
index.connection.execute("PRAGMA cache_size = 20; PRAGMA cache_spill = 1")  # much of a transaction is in the log before its end
way = sys.argv[2]
try:
    with index.transaction():
        index.add_many((number, f"{number} {number * 7} {number * 13} {number * 17}") for number in range(1000))
        child = os.fork()
        if child == 0 and way == "exits":
            sys.exit(0)
        if child == 0 and way == "fails":
            raise KeyError
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0
            index.add("later", "one two three four")
except (ClosedError, KeyError) as error:
    assert child == 0 and isinstance(error, KeyError if way == "fails" else ClosedError)
    del error
    index = None
    gc.collect()
    sys.exit(0)
assert child != 0 and len(index) == 1001 and index.check().problems == (), index.check()
os._exit(0)
"""


@pytest.mark.parametrize("way", ["exits", "fails", "leaves"])
def test_the_end_of_a_child_is_not_the_parents(tmp_path: Path, way: str) -> None:
    """A child that is forked inside transaction() and leaves it, by an exception or not, that forgets the index and comes to its
    end in the usual way, neither ends the parent's transaction nor harms what it has in the log."""
    subprocess.run([*interpreter(), "-c", PROGRAM, str(tmp_path / "index.db"), way], check=True, cwd="/", timeout=60)
    with Index(tmp_path / "index.db") as index:
        assert len(index) == 1001 and index.check().problems == ()
