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
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import Worker, in_child, run_threads, story
from standard import MODULE, capable_python, connect, in_wal, run_elsewhere
from support import SETS, WORDS
from test_interrupts import TEXTS, WRITES, interrupted_at, later
from test_standard_connection import TEXT, open_files, urls

from neardup_db import BinaryCode, ClosedError, DiskFullError, Index, MinHash, NearDupError, ParameterError
from neardup_db.store.database import libraries
from neardup_db.store.layout import opening


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
    files = map(str, Path(__file__).parent.glob("test_standard_*.py"))
    done = run_elsewhere("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "not librarys_own", *files)
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
        """The lock, which tells when the second thread comes to it."""

        def __enter__(self) -> None:
            if threading.current_thread() is second:
                waits.set()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    def look(*given: Any) -> None:
        require_same(*given)
        if second.ident is None:
            second.start()
            assert waits.wait(60)

    second = threading.Thread(target=open_by_path)
    lock, require_same = libraries._lock, libraries._require_same
    monkeypatch.setattr(libraries, "_require_same", look)
    monkeypatch.setattr(libraries, "_lock", Watched())
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
