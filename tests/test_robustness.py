"""Interruptions, races and damage: nothing is lost, nothing is left behind, and the right error comes out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import neardup_db.store.opening as opening
from neardup_db import (
    BottomK,
    CorruptIndexError,
    Index,
    MinHash,
    MismatchError,
    ParameterError,
    SimHash,
    TextRules,
)

# ---- creating a file -------------------------------------------------------------------------------------------------


def test_a_file_that_another_process_filled_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two create the same file with different parameters: the second is refused, and the first's index stays."""
    path = tmp_path / "index.db"
    load = opening.load

    def other_was_faster(connection: Any) -> None:
        monkeypatch.setattr(opening, "load", load)
        with Index(path, MinHash(threshold=0.8)) as other:
            other.add("a", "one two three")
        load(connection)

    monkeypatch.setattr(opening, "load", other_was_faster)
    with pytest.raises(MismatchError):
        Index(path, MinHash(threshold=0.5))
    with Index(path) as index:
        assert list(index) == ["a"]


def test_nothing_is_left_of_a_file_that_could_not_be_made(tmp_path: Path) -> None:
    """A failure after the file was created removes it again."""
    rules = TextRules(tokens=lambda text: text.split())
    with pytest.raises(ParameterError):
        Index(tmp_path / "index.db", MinHash(), text=rules)
    assert list(tmp_path.iterdir()) == []


# ---- rebuilds ----------------------------------------------------------------------------------------------------------


def test_a_fingerprint_made_while_another_thread_rebuilds_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild between the reading of a text and the storing of it leaves no fingerprint of the old scheme."""
    made = MinHash.values
    rebuilt: list[bool] = []

    with Index(":memory:", MinHash(num_perm=32, threshold=0.5), store_text=True) as index:

        def values(self: MinHash, texts: Any, rules: TextRules) -> Any:
            result = made(self, texts, rules)
            if not rebuilt:
                rebuilt.append(True)
                thread = threading.Thread(target=index.rebuild, args=(MinHash(num_perm=32, threshold=0.5, seed=9),))
                thread.start()
                thread.join()
            return result

        monkeypatch.setattr(MinHash, "values", values)
        index.add("a", "one two three four")
        assert [match.key for match in index.query("one two three four")] == ["a"]
        assert index.check().ok


@pytest.mark.parametrize("change", [{"text": TextRules(shingle=2)}, {"scheme": MinHash(threshold=0.5)}])
def test_a_rebuild_that_is_rolled_back_leaves_a_usable_index(tmp_path: Path, change: dict[str, Any]) -> None:
    """After an outer transaction has failed the index goes on with the parameters that it was opened with."""
    with Index(tmp_path / "index.db", MinHash(threshold=0.8), text=TextRules(shingle=3), store_text=True) as index:
        index.add("a", "one two three four")
        with pytest.raises(ZeroDivisionError), index.transaction():
            index.rebuild(**change)
            raise ZeroDivisionError
        assert [match.key for match in index.query("one two three four")] == ["a"]
        assert (index.scheme.threshold, index.text_rules.shingle) == (0.8, 3)  # type: ignore[attr-defined]
        with pytest.raises(ZeroDivisionError), index.transaction():
            index.rebuild(**change)
            raise ZeroDivisionError
        index.rebuild(**change)
        assert index.check().ok


# ---- interruptions -------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_waiting_for_another_writer_leaves_no_transaction(tmp_path: Path) -> None:
    """The signal arrives while BEGIN waits and is raised once it has got the lock: the lock is given back."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index:
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")

        def interrupt_then_let_go() -> None:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            other.execute("ROLLBACK")

        thread = threading.Thread(target=interrupt_then_let_go)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            index.add("a", "one two three")
        thread.join()
        assert not index.connection.in_transaction
        index.add("b", "one two three")
        assert other.execute("SELECT key FROM neardup_document").fetchall() == [("b",)]
        other.close()


# ---- streams -------------------------------------------------------------------------------------------------------------


def test_a_full_transaction_is_committed_before_the_next_record_is_asked_for(tmp_path: Path) -> None:
    """With commit_every a slow stream does not keep the database locked, and others see every full transaction."""
    path = tmp_path / "index.db"
    with Index(path, MinHash()) as index, Index(path, timeout=0) as other:
        seen: list[int] = []

        def stream() -> Iterator[tuple[str, str]]:
            for number in range(5):
                if number % 2 == 0:
                    seen.append(len(other))
                    other.add(f"other {number}", "text of another writer")
                yield f"key {number}", f"text number {number}"

        assert index.add_many(stream(), commit_every=2).added == 5
        assert seen == [0, 3, 6]
        assert len(other) == 8


@pytest.mark.parametrize("stop", [OSError("the feed broke"), KeyboardInterrupt()])
def test_what_commit_every_has_filled_stays_when_the_stream_fails(stop: BaseException) -> None:
    """A failure of the caller's iterator costs the records of the unfinished transaction only."""

    def stream() -> Iterator[tuple[int, str]]:
        yield from [(number, f"text number {number}") for number in range(5)]
        raise stop

    with Index(":memory:", MinHash()) as index:
        with pytest.raises(type(stop)):
            index.add_many(stream(), commit_every=5)
        assert len(index) == 5
        with pytest.raises(ParameterError, match="record 2"):
            index.add_many([(5, "five"), (6, "six"), (7, None)], commit_every=2)
        assert len(index) == 7
        with pytest.raises(type(stop)):
            index.add_many(((key + 10, text) for key, text in stream()), commit_every=None)
        assert len(index) == 7


def test_an_error_of_the_progress_callback_takes_the_transaction_back() -> None:
    """What the callback raises comes out, and the index can be used as before."""

    def progress(done: int) -> None:
        raise RuntimeError("enough")

    with Index(":memory:", MinHash()) as index:
        with pytest.raises(RuntimeError, match="enough"):
            index.add_many([(1, "one"), (2, "two")], progress=progress)
        assert len(index) == 0
        index.add(1, "one")
        assert index.check().ok


# ---- damage --------------------------------------------------------------------------------------------------------------

DAMAGE = [
    "UPDATE neardup_fingerprint SET value = x'00ff' WHERE id = 1",
    "UPDATE neardup_fingerprint SET value_hash = value_hash + 1 WHERE id = 1",
    "DELETE FROM neardup_fingerprint WHERE id = 1",
    "UPDATE neardup_fingerprint SET group_id = 5 WHERE id = 1",
    "INSERT INTO neardup_fingerprint SELECT 99, group_id, value, value_hash FROM neardup_fingerprint WHERE id = 1; "
    "UPDATE neardup_document SET fingerprint_id = 99 WHERE key = 'b'",
]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("scheme", [MinHash(), MinHash(exact=True), SimHash(), BottomK()], ids=repr)
def test_damaged_fingerprints_are_reported_and_made_again_from_stored_texts(scheme: Any, damage: str) -> None:
    """check() names the damage and never fails over it; with the texts at hand repair brings everything back."""
    with Index(":memory:", scheme, store_text=True) as index:
        index.add("a", "one two three four five")
        index.add("b", "one two three four five")
        index.add("c", "six seven eight nine ten")
        index.connection.execute(damage)
        assert index.check().problems
        report = index.check(repair=True)
        assert report.ok and report.repaired
        assert [match.key for match in index.query("one two three four five")] == ["a", "b"]
        assert [cluster.keys for cluster in index.clusters()] == [("a", "b")]


def test_what_repair_cannot_bring_back_is_said() -> None:
    """Without a stored text a damaged fingerprint is lost: the document stays, matches nothing, and is named."""
    with Index(":memory:", MinHash()) as index:
        index.add("a", "one two three")
        index.add("b", "four five six")
        index.connection.execute(DAMAGE[0])
        report = index.check(repair=True)
        assert not report.ok and "'a'" in report.problems[0] and "add them again" in report.problems[0]
        assert index.query("one two three") == [] and "a" in index
        assert [match.key for match in index.query("four five six")] == ["b"]
        index.add("a", "one two three", if_exists="replace")
        assert index.check().ok


def test_a_document_with_a_damaged_fingerprint_can_be_deleted() -> None:
    """Removing what is damaged needs no repair, and leaves nothing of it."""
    with Index(":memory:", MinHash()) as index:
        index.add("a", "one two three")
        index.connection.execute(DAMAGE[0])
        with pytest.raises(CorruptIndexError, match="check"):
            index.matches("a")
        assert index.delete("a")
        assert index.check().ok
        assert index.stats()["candidate_rows"] == 0
