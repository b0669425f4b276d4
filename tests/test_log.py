"""The write-ahead log is moved by a second thread: nothing is lost, nobody is held up, and it ends with the index."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from crash_writer import Writers
from disks import IO_ERROR, Disk, DiskFile, FailingDisk
from load import in_child, run_threads, story

import neardup_db.store.log as log
from neardup_db import ClosedError, Index, MinHash, limits

FRAME = 4096 + 24


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of 40 pages is long already."""
    monkeypatch.setattr(limits, "LOG_PAGES", 40)
    monkeypatch.setattr(limits, "LOG_PAGES_MAX", 160)
    monkeypatch.setattr(limits, "LOG_LITTLE", 8)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who has moved pages, each time."""
    seen: list[str] = []
    run, move = log.Log._run, log._move

    def beside(self: log.Log) -> None:
        seen.append("thread")
        run(self)

    def within(connection: apsw.Connection, database: str) -> None:
        seen.append("commit")
        move(connection, database)

    monkeypatch.setattr(log.Log, "_run", beside)
    monkeypatch.setattr(log, "_move", within)
    return seen


def pages_of_log(path: Path) -> int:
    """Pages that the file of the log has."""
    return Path(f"{path}-wal").stat().st_size // FRAME


def at_work(index: Index) -> bool:
    """Whether the thread is moving pages."""
    found = index._store.db.log
    assert found is not None
    return found._thread is not None and found._thread.is_alive()


class SlowDisk(Disk):
    """Lets nothing be written to a database's file by another thread than the one that made it, until `go` is set."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.go, self.waiting = threading.Event(), threading.Event()
        self.own = threading.current_thread()

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Wait."""
        if call == "write" and file is not None and file.path.endswith(".db") and threading.current_thread() is not self.own:
            self.waiting.set()
            self.go.wait(30)


def test_the_log_is_moved_beside_and_stays_short(tmp_path: Path, passes: list[str]) -> None:
    """While documents are added one by one, in transactions, by `add_many` and by SQL: the thread moves the log, which does not
    grow beyond its limit and a transaction; everything is there."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        longest = 0
        for number in range(300):
            index.add_if_new(number, story(number))
            longest = max(longest, pages_of_log(path))
        assert "thread" in passes and longest < 160 + 60
        for first in range(300, 400, 20):
            with index.transaction():
                for number in range(first, first + 20):
                    index.add(number, story(number))
        index.add_many((number, story(number)) for number in range(400, 500))
        for number in range(100):
            index.connection.execute("UPDATE neardup_document SET times_seen = times_seen + 1 WHERE key = ?", (number,))
        assert list(index) == list(range(500)) and index.check().problems == ()
    assert not Path(f"{path}-wal").exists()
    with Index(path) as index:
        assert list(index) == list(range(500)) and index.check().problems == ()


def add_until(index: Index, done: Callable[[], bool], number: int = 0) -> int:
    """Add documents with the numbers from `number` on; returns the next one."""
    while not done():
        index.add(number, story(number))
        number += 1
    return number


def test_a_commit_does_not_wait_until_the_log_is_at_its_limit(tmp_path: Path, passes: list[str]) -> None:
    """The thread waits for the disk, adding goes on; at the limit it waits for the thread."""
    path = tmp_path / "index.db"
    with SlowDisk() as disk:
        index = Index(path, MinHash(), durability="normal")
        number = add_until(index, lambda: disk.waiting.wait(0.02))
        for _ in range(4):
            index.add(number, story(number))
            number += 1
        assert at_work(index) and "commit" not in passes
        threading.Timer(0.2, disk.go.set).start()
        number = add_until(index, lambda: "commit" in passes, number)
        assert disk.go.is_set() and pages_of_log(path) < 160 + 60
        assert index.check().problems == () and len(index) == number
        index.close()


@pytest.mark.parametrize("way", ["close", "add_many", "compact", "rebuild", "backup", "check"])
def test_what_comes_while_the_log_is_moved(tmp_path: Path, way: str) -> None:
    """Closing, and what cuts the log, end the thread first; the rest goes on beside it. The file is whole."""
    path = tmp_path / "index.db"
    with SlowDisk() as disk:
        index = Index(path, MinHash(), durability="normal")
        number = add_until(index, lambda: disk.waiting.wait(0.02))
        threading.Timer(0.1, disk.go.set).start()
        {
            "close": index.close,
            "add_many": lambda: index.add_many([("more", story("more"))]),
            "compact": index.compact,
            "rebuild": index.rebuild,
            "backup": lambda: index.backup(tmp_path / "copy.db"),
            "check": lambda: index.check(),
        }[way]()
        if way in ("add_many", "compact", "rebuild"):
            assert Path(f"{path}-wal").stat().st_size == 0
        index.close()
        assert not Path(f"{path}-wal").exists()
        for file in [path, *([tmp_path / "copy.db"] if way == "backup" else [])]:
            with Index(file) as left:
                assert len(left) == number + (way == "add_many") and left.check().problems == ()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_disk_that_fails_while_the_log_is_moved_is_no_failure_of_a_commit(tmp_path: Path, call: str, lasting: bool) -> None:
    """Nothing is raised and nothing lost: what is not moved is in the log, for a crash too. SQLite's own way goes on."""

    class Failing(FailingDisk):
        """Fails over the database's file only."""

        def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
            if file is not None and file.path.endswith("index.db"):
                super().before(call, file, *arguments)

    path = tmp_path / "index.db"
    with Failing() as disk:
        index = Index(path, MinHash(), durability="normal")
        for number in range(100):
            index.add(number, story(number))
        disk.arm({call: IO_ERROR[call]}, 3, lasting)
        for number in range(100, 250):
            index.add(number, story(number))
        time.sleep(0.05)
        assert disk.disarm()
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for suffix in ("", "-wal"):
            (crashed / f"index.db{suffix}").write_bytes(Path(f"{path}{suffix}").read_bytes())
        for number in range(250, 300):
            index.add(number, story(number))
        assert list(index) == list(range(300)) and index.check().problems == ()
        index.close()
    for file, count in ((path, 300), (crashed / "index.db", 250)):
        with Index(file) as index:
            assert list(index) == list(range(count)) and index.check().problems == ()


def test_a_second_connection_that_cannot_be_opened_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: list[str]
) -> None:
    """Commits move the log then, as SQLite does."""

    def refused(*_: Any) -> Any:
        raise apsw.CantOpenError("too many open files")

    monkeypatch.setattr("neardup_db.store.opening.open_mover", refused)
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        for number in range(200):
            index.add(number, story(number))
        assert passes.count("thread") == 1 and passes.count("commit") > 2 and pages_of_log(path) < 160 + 60
        assert index.check().problems == ()


def test_an_old_reader_lets_the_log_grow_and_holds_nobody_up(tmp_path: Path, passes: list[str]) -> None:
    """As long as another connection reads an older state the log cannot begin anew: it is not tried at every commit. Afterwards
    it is as short as before."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        index.add(0, story(0))
        other = apsw.Connection(str(path))
        rows = other.execute("SELECT key FROM neardup_document UNION ALL SELECT key FROM neardup_document")
        assert next(rows) == (0,)
        for number in range(1, 200):
            index.add(number, story(number))
        grown = pages_of_log(path)
        assert grown > 320 and len(passes) < grown // 20
        rows.close()
        other.close()
        for number in range(200, 500):
            index.add(number, story(number))
        assert pages_of_log(path) < grown + 160
        assert list(index) == list(range(500)) and index.check().problems == ()


def test_other_databases_of_the_connection_are_moved_too(tmp_path: Path) -> None:
    """One that the caller attached to `index.connection` has a log of its own, which stays short."""
    with Index(tmp_path / "index.db", MinHash()) as index:
        connection = index.connection
        (tmp_path / "other.db").touch()
        connection.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
        connection.execute("PRAGMA other.journal_mode = WAL; CREATE TABLE other.kept (value)").fetchall()
        for number in range(300):
            connection.execute("INSERT INTO other.kept VALUES (?)", (number,))
        assert pages_of_log(tmp_path / "other.db") < 80


def test_a_setting_of_the_callers_stays(tmp_path: Path, passes: list[str]) -> None:
    """Who sets SQLite's own limit on the connection gets SQLite's own way."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        index.connection.execute("PRAGMA wal_autocheckpoint = 1000").fetchall()
        for number in range(60):
            index.add(number, story(number))
        assert not passes and pages_of_log(path) > 160


def log_thread(index: Index) -> Any:
    """The thread that moves the log, if there is one."""
    moved = index._store.db.log
    assert moved is not None
    return moved._thread


def test_forks_while_the_log_is_moved(tmp_path: Path) -> None:
    """The thread ends before each fork, so that it leaves no lock to a child: that is refused by its parent's index at once,
    opens the file itself, and stores what the parent finds. The parent goes on, and the thread too."""
    path = tmp_path / "index.db"

    def child(index: Index, number: int) -> str:
        try:
            len(index)
            return "answered"
        except ClosedError:
            pass
        index.close()
        with Index(path, durability="normal") as own:
            own.add(f"child {number}", story(f"child{number}"))
        return ""

    with Index(path, MinHash(), durability="normal") as index:
        forks, added, met = 25, 0, 0
        for number in range(forks):
            started = log_thread(index)
            while log_thread(index) is started or not log_thread(index).is_alive():  # until one begins
                index.add(added, story(added))
                added += 1
            met += log_thread(index).is_alive()
            assert in_child(lambda number=number: child(index, number)) == ""  # type: ignore[misc]
        assert met > 0
        assert len(index) == forks + added and index.check().problems == ()


def test_a_fork_waits_for_what_the_thread_does(tmp_path: Path) -> None:
    """A child never comes into being in the middle of a call of the thread to SQLite."""
    with SlowDisk() as disk:
        index = Index(tmp_path / "index.db", MinHash(), durability="normal")
        add_until(index, lambda: disk.waiting.wait(0.02))
        threading.Timer(0.1, disk.go.set).start()
        assert in_child(lambda: str(disk.go.is_set())) == "True"
        index.add("later", story("later"))
        index.close()


def test_threads_and_indexes_that_share_a_file(tmp_path: Path) -> None:
    """Several objects on one file, each with its own thread, add and ask at the same time."""
    path = tmp_path / "index.db"
    Index(path, MinHash()).close()

    def work(number: int) -> None:
        with Index(path, durability="normal") as index:
            for i in range(60):
                index.add(f"{number}-{i}", story(f"{number}x{i}"))
                assert index.query(story(f"{number}x{i}"))[0].key == f"{number}-{i}"

    run_threads(*(lambda number=number: work(number) for number in range(4)))  # type: ignore[misc]
    with Index(path) as index:
        assert len(index) == 240 and index.check().problems == ()


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """After closing no thread and no file of the index is left, whatever was going on."""
    path = tmp_path / "index.db"
    for count in (10, 60, 200):
        with Index(path, MinHash(), durability="normal") as index:
            for number in range(count):
                index.add(f"{count}-{number}", story(f"{count}x{number}"))
        assert [thread.name for thread in threading.enumerate() if "neardup" in thread.name] == []
        links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert [link for link in links if link.startswith(str(tmp_path))] == []


def test_a_killed_writer_whose_log_is_moved_beside_loses_nothing(tmp_path: Path, writers: Writers, long_run: bool) -> None:
    """SIGKILL in the middle of the n-th write, sync or truncation of either thread: what was acknowledged is there, and whole."""
    path = tmp_path / "index.db"
    known = 0
    Index(path, MinHash()).close()
    for countdown in range(40, 3000 if long_run else 1200, 25 if long_run else 70):
        operations = [["if-new", f"k{known + i}", story(known + i)] for i in range(150)]
        job = {"path": str(path), "operations": operations, "countdown": countdown, "beside": True}
        done = writers.run(job, None)
        with Index(path) as index:
            assert index.check().problems == ()
            assert known + done <= len(index) <= known + done + 1
            known = len(index)
    assert writers.killed > 10
