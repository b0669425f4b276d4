"""Connections of the standard library among threads, processes, crashes and full disks, and in other Pythons."""

from __future__ import annotations

import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from load import Worker, in_child, run_threads, story
from standard import MODULE, capable_python, connect, in_wal, run_elsewhere
from support import SETS, WORDS
from test_interrupts import TEXTS, WRITES, interrupted_at, later
from test_standard_connection import TEXT, open_files, urls

from neardup_db import BinaryCode, ClosedError, DiskFullError, Index, MinHash, NearDupError


@pytest.fixture
def app(path: Path) -> Iterator[Any]:
    """An application's connection as `connect` gives it, to a file with a table of its own."""
    connection = in_wal(path)
    connection.execute("CREATE TABLE article (url)")
    yield connection
    connection.close()


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

        def work() -> None:
            try:
                run_threads(*(partial(worker.run, 15) for worker in workers))
            finally:
                done.set()

        run_threads(work, read)
        assert sorted(number for worker in workers for number in worker.admitted) == list(range(15))
        assert index.check().problems == ()


WAITING = """
import signal, threading, sys
from standard import connect
from neardup_db import Index, MinHash

signal.alarm(60)  # a process whose threads wait for each other is ended by the system
app = connect(":memory:", check_same_thread=False)
index = Index(app, MinHash())
running, enough = threading.Event(), threading.Event()
app.create_function("wait", 0, lambda: running.set() or enough.wait(0.3))
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
                while len(index) < 1200 or len(told) < 3:
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
        for number in range(60):
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
    assert len(kept(path)) == 40


# ---- other Pythons ---------------------------------------------------------------------------------------------------------


def test_the_standard_librarys_own_module() -> None:
    """All of this file, by a Python whose sqlite3 loads extensions, where this one's does not; of the interrupted calls two."""
    files = map(str, Path(__file__).parent.glob("test_standard_*.py"))
    which = "not librarys_own and (not writes_is_interrupted or add_many or transaction)"
    done = run_elsewhere("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", which, *files)
    if done is None:
        assert MODULE is sqlite3 or capable_python() is None
    else:
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_two_indexes_of_one_connection_take_turns(path: Path) -> None:
    """Threads that use an index each, both on one connection, lose nothing."""
    app = in_wal(path, check_same_thread=False)
    indexes = [Index(app, BinaryCode(64, 3), name=name) for name in ("one", "two")]

    def add(index: Index) -> None:
        for number in range(100):
            index.add_code(number, number * 0x10001)

    run_threads(*(partial(add, index) for index in indexes))
    assert [len(index) for index in indexes] == [100, 100] and all(index.check().ok for index in indexes)
    app.close()


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
