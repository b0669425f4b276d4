"""A copy made while others write is one state of the index, whole."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

from crash_writer import Writers
from disks import copy_files
from support import SETS, WORDS

from neardup_db import Index


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
