"""The write-ahead log stays short whoever writes, and moving it into the file fails nothing and loses nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from crash_writer import Writers
from disks import IO_ERROR, Disk, DiskFile, FailingDisk
from load import run_threads, story

from neardup_db import Index, MinHash, limits
from neardup_db.store.database.log import Log

FRAME = 4096 + 24


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of 40 pages is long already."""
    monkeypatch.setattr(limits, "LOG_PAGES", 40)


def pages_of_log(path: Path) -> int:
    """Pages that the file of the log has."""
    return Path(f"{path}-wal").stat().st_size // FRAME


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_the_log_stays_short(tmp_path: Path, durability: str) -> None:
    """While documents are added one by one, in transactions, by `add_many` and by SQL, the log does not grow beyond its limit
    and a transaction; everything is there."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability=durability) as index:
        longest = 0
        for number in range(300):
            index.add_if_new(number, story(number))
            longest = max(longest, pages_of_log(path))
        assert 40 <= longest < 40 + 60
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


class EagerDisk(Disk):
    """Whenever a page is moved into the file, another connection tries to write meanwhile."""

    def __init__(self) -> None:
        super().__init__("eager")
        self.other: apsw.Connection | None = None

    def before(self, call: str, file: DiskFile | None, *arguments: Any) -> None:
        """Try."""
        other, self.other = self.other, None
        if call == "write" and other is not None and file is not None and file.path.endswith(".db"):
            with suppress(apsw.BusyError):
                other.execute("UPDATE neardup_setting SET value = value + 1 WHERE name = 'created_at'")
        self.other = other


def test_a_writer_that_never_pauses_does_not_let_the_log_grow(tmp_path: Path) -> None:
    """While a commit moves the log nobody adds to it, so that all of it is moved and it begins anew."""
    path = tmp_path / "index.db"
    with EagerDisk() as disk, Index(path, MinHash(), durability="normal") as index:
        disk.other = apsw.Connection(str(path))
        for number in range(300):
            index.add(number, story(number))
        assert pages_of_log(path) < 2 * 40 + 60
        disk.other.close()
        disk.other = None


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_disk_that_fails_while_the_log_is_moved_is_no_failure_of_a_commit(tmp_path: Path, call: str, lasting: bool) -> None:
    """Nothing is raised and nothing lost: what is not moved is in the log, for a crash too."""

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


def test_an_old_reader_lets_the_log_grow_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as another connection reads an older state the log cannot begin anew: nobody waits for that, and it is not tried
    at every commit. Afterwards the log is cut."""
    tries: list[bool] = []
    move = Log.move
    monkeypatch.setattr(Log, "move", lambda *given: tries.append(move(*given)) or tries[-1])
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        index.add(0, story(0))
        other = apsw.Connection(str(path))
        rows = other.execute("SELECT key FROM neardup_document UNION ALL SELECT key FROM neardup_document")
        assert next(rows) == (0,)
        for number in range(1, 200):
            index.add(number, story(number))
        grown = pages_of_log(path)
        assert grown > 320 and not any(tries) and 3 < len(tries) < 40
        rows.close()
        other.close()
        for number in range(200, 500):
            index.add(number, story(number))
        assert pages_of_log(path) < 2 * 40 + 60 < grown
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


def test_a_setting_of_the_callers_stays(tmp_path: Path) -> None:
    """Who sets SQLite's own limit on the connection gets SQLite's own way."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), durability="normal") as index:
        index.connection.execute("PRAGMA wal_autocheckpoint = 1000").fetchall()
        for number in range(60):
            index.add(number, story(number))
        assert pages_of_log(path) > 160


def test_a_connection_of_the_callers_keeps_its_own_hook(tmp_path: Path) -> None:
    """The log of an `apsw.Connection` that was given is its owner's: the owner's hook is called, and nothing else moves pages."""
    seen: list[int] = []

    def hook(connection: apsw.Connection, database: str, pages: int) -> int:
        seen.append(pages)
        return apsw.SQLITE_OK

    connection = apsw.Connection(str(tmp_path / "index.db"))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.set_wal_hook(hook)
    with Index(connection, MinHash()) as index:
        for number in range(30):
            index.add(number, story(number))
    assert len(seen) > 30 and seen == sorted(seen) and pages_of_log(tmp_path / "index.db") == seen[-1] > 80
    connection.close()


def test_threads_and_indexes_that_share_a_file(tmp_path: Path) -> None:
    """Several objects on one file add and ask at the same time."""
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


@pytest.mark.posix("forks")
def test_a_killed_writer_loses_nothing(tmp_path: Path, writers: Writers, more_rounds: bool, long_run: bool) -> None:
    """SIGKILL in the n-th write, sync or truncation, while the log is moved: what was acknowledged is there, and whole."""
    path = tmp_path / "index.db"
    known = 0
    Index(path, MinHash()).close()
    for countdown in range(40, 3000 if long_run else 1200, 25 if long_run else 50 if more_rounds else 200):
        operations = [["if-new", f"k{known + i}", story(known + i)] for i in range(150)]
        job = {"path": str(path), "operations": operations, "countdown": countdown, "short": True}
        done = writers.run(job, None)
        with Index(path) as index:
            assert index.check().problems == ()
            assert known + done <= len(index) <= known + done + 1
            known = len(index)
    assert writers.killed > (10 if more_rounds else 4)
