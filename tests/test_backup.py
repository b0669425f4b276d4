"""A copy made while others write is one state of the index, whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cases import one_test
from crash_writer import Writers
from disks import WatchedDisk, copy_files
from support import SETS, WORDS

from neardup_db import Index, ParameterError


@pytest.mark.posix("forks")
def test_a_backup_while_a_process_writes_is_consistent(tmp_path: Path, writers: Writers, long_run: bool) -> None:
    """Documents come and go by two in one transaction: every copy has both or none, and all that was acknowledged before it was
    begun; check() finds nothing, and the writer is not stopped."""
    path = tmp_path / "index.db"
    with Index(path, SETS, text=WORDS, store_text=True) as index:
        index.add_many((f"base{number}", f"some words {number} of the base {number // 3}") for number in range(100))
    rounds = 2000 if long_run else 150
    operations: list[Any] = []
    for number in range(rounds):
        pair = [["add", f"{letter}{number}", f"twice {number}a {number}b {letter}", None] for letter in "xy"]
        operations.append(["transaction", pair])
        if number % 3 == 2:
            operations.append(["delete_many", [f"x{number - 1}", f"y{number - 1}"]])
    job = {"path": str(path), "operations": operations, "countdown": 0, "small": True}
    done: list[int] = []
    writer = Thread(target=lambda: done.append(writers.run(job, None)))
    writer.start()
    newest = []
    with Index(path) as index:
        while writer.is_alive() and (long_run or len(newest) < 12 or len(set(newest)) < 2):  # it takes its time to begin
            copied = tmp_path / f"copy{len(newest)}.db"
            acknowledged = operations[: writers.acknowledged]
            index.backup(copied)
            newest.append(look(copied))
            assert newest[-1] >= sum(name == "transaction" for name, _ in acknowledged) - 1
    writer.join()
    assert done == [len(operations)]
    assert newest == sorted(newest) and len(set(newest)) > 1
    assert look(path) == rounds - 1


def look(path: Path) -> int:
    """The number of the newest document of a whole copy."""
    with Index(path) as index:
        assert index.check().problems == ()
        numbers = [{key[1:] for key in index if key[0] == letter} for letter in "xy"]
        assert numbers[0] == numbers[1]
        assert sum(key.startswith("base") for key in index) == 100
        return max(map(int, numbers[0]), default=-1)


def test_the_parts_of_a_live_file(tmp_path: Path) -> None:
    """What was written last is in the log, of which a copy of the first part alone knows nothing; the third part need not be
    copied. After closing there is one part."""
    path = tmp_path / "index.db"
    with Index(path, SETS, text=WORDS) as index:
        index.add_many([("a", "one two"), ("b", "three four")])
        index.delete("a")
        assert {part.name for part in tmp_path.iterdir()} == {"index.db", "index.db-wal", "index.db-shm"}
        both = copy_files(path, tmp_path / "both")
        alone = copy_files(path, tmp_path / "alone")
        (alone.parent / "index.db-wal").unlink()
    for copied, keys in ((both, ["b"]), (alone, ["a", "b"])):
        with Index(copied) as index:
            assert list(index) == keys and index.check().ok
    assert {part.name for part in tmp_path.iterdir() if part.is_file()} == {"index.db"}


@pytest.mark.posix("permissions")
@one_test(mode=[0o600, 0o640, 0o644, 0o664], umask=[0o000, 0o022, 0o077])
def test_a_copy_has_the_permissions_of_its_original(tmp_path: Path, mode: int, umask: int) -> None:
    """Nobody may read a copy, while it is made or afterwards, who may not read the original; nor what stands beside it."""
    path, modes = tmp_path / "index.db", set()

    def look() -> None:
        modes.update(part.stat().st_mode & 0o777 for part in tmp_path.iterdir() if not part.name.startswith("index.db"))

    before = os.umask(umask)
    try:
        with Index(path, SETS, text=WORDS) as index:
            index.add("a", "one two")
            path.chmod(mode)
            with WatchedDisk(look):
                index.backup(tmp_path / "copy.db")
        with WatchedDisk(look), Index(tmp_path / "copy.db") as copy:
            copy.add("b", "three four")
    finally:
        os.umask(before)
    assert modes == {mode} and (tmp_path / "copy.db").stat().st_mode & 0o777 == mode


def test_a_file_that_nobody_may_write_is_copied(tmp_path: Path) -> None:
    """The copy can be written while it is made, and is as the original at its end: whole, and for nobody to write."""
    path, copied, modes = tmp_path / "index.db", tmp_path / "copy.db", set()

    def look() -> None:
        modes.update(part.stat().st_mode & 0o200 for part in tmp_path.iterdir() if not part.name.startswith("index.db"))

    with Index(path, SETS, text=WORDS) as index:
        index.add("a", "one two")
    path.chmod(0o444)
    with Index(path, read_only=True) as index, WatchedDisk(look):
        index.backup(copied)
    assert modes == {0o200} and copied.stat().st_mode & 0o222 == 0
    for one in (path, copied):
        with Index(one, read_only=True) as index:
            assert list(index) == ["a"] and index.check().ok
        one.chmod(0o644)  # else Windows does not remove it


@pytest.mark.posix("permissions")
def test_a_new_file_is_for_its_owner_to_write(tmp_path: Path) -> None:
    """As SQLite makes files: others may read one at most, and less where the umask says so."""
    for umask, mode in ((0o000, 0o644), (0o022, 0o644), (0o077, 0o600)):
        before = os.umask(umask)
        try:
            Index(tmp_path / f"{umask}.db", SETS).close()
        finally:
            os.umask(before)
        assert (tmp_path / f"{umask}.db").stat().st_mode & 0o777 == mode


def test_a_copy_is_there_when_it_is_complete(tmp_path: Path) -> None:
    """Until then nothing has its name, and what gets that name meanwhile stays as it is."""
    path, copied = tmp_path / "index.db", tmp_path / "copy.db"
    with Index(path, SETS, text=WORDS) as index:
        index.add("a", "one two")
        with WatchedDisk(lambda: copied.write_bytes(b"mine")), pytest.raises(ParameterError, match="copy.db' exists"):
            index.backup(copied)
    assert copied.read_bytes() == b"mine"
    assert sorted(part.name for part in tmp_path.iterdir()) == ["copy.db", "index.db"]


def test_a_copy_to_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are created and copied there too, and an existing one is never replaced."""

    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("neardup_db.store.database.files.os.link", refused)
    with Index(tmp_path / "index.db", SETS, text=WORDS) as index:
        index.add("a", "one two")
        index.backup(tmp_path / "copy.db")
        with pytest.raises(ParameterError, match="exists"):
            index.backup(tmp_path / "copy.db")
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a"] and copy.check().ok
    assert sorted(part.name for part in tmp_path.iterdir()) == ["copy.db", "index.db"]
