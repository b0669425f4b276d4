"""Large loads in three threads: the order stays, the memory is bounded, and what goes wrong is told to the caller."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from neardup_db import DuplicateKeyError, Index, MinHash, SimHash, TextRules, limits
from neardup_db.store.ingest.background import Lane
from neardup_db.store.ingest.batch_writer import BatchWriter
from neardup_db.store.ingest.ingest import Ingest
from neardup_db.store.layout.sketcher import Sketcher


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten records, each worth the threads."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 10)
    monkeypatch.setattr(limits, "WORTH_THREADS", 1)


def texts(count: int, first: int = 0) -> list[tuple[int, str]]:
    """Keys and texts, all different."""
    return [(i, f"text {i} of many {i * 7} other {i * 13} words {i * 17}") for i in range(first, first + count)]


def sketched_here(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch is fingerprinted in the caller's thread, from now on."""
    here: list[bool] = []
    mine = threading.get_ident()
    made = Sketcher.texts

    def sketch(self: Sketcher, *args: Any, **options: Any) -> Any:
        here.append(threading.get_ident() == mine)
        return made(self, *args, **options)

    monkeypatch.setattr(Sketcher, "texts", sketch)
    return here


def test_what_is_given_runs_in_its_order_in_another_thread() -> None:
    """All that is given runs, in the order given, never in the caller's thread, and `wait` comes back after the last."""
    lane, seen = Lane(3, 1000), []
    for number in range(50):
        lane.start(lambda number=number: seen.append((number, lane.is_current)), 100)  # type: ignore[misc]
    lane.wait()
    assert seen == [(number, True) for number in range(50)] and not lane.is_current
    lane.end()
    lane.join()


@pytest.mark.parametrize(("most", "most_bytes", "size"), [(2, 10**6, 1), (100, 250, 100)])
def test_no_more_waits_than_may(most: int, most_bytes: int, size: int) -> None:
    """Beside the piece at work two wait, by number or by bytes; a piece larger than all that may wait alone."""
    lane, go, given = Lane(most, most_bytes), threading.Event(), threading.Semaphore(0)

    def give() -> None:
        for _ in range(5):
            lane.start(lambda: assert_true(go.wait(30)), size)
            given.release()

    giver = threading.Thread(target=give)
    giver.start()
    assert all(given.acquire(timeout=30) for _ in range(3))
    assert not given.acquire(timeout=0.1)
    go.set()
    giver.join()
    lane.wait()
    lane.start(lambda: None, 10 * most_bytes)
    lane.wait()
    lane.end()
    lane.join()


def assert_true(value: object) -> None:
    """Assert inside a lambda."""
    assert value


def test_an_error_is_raised_again_each_time_and_nothing_runs_after_it() -> None:
    """Giving and waiting raise what went wrong, and what waited behind it never ran."""
    lane, go, seen = Lane(10, 1000), threading.Event(), []

    def wrong() -> None:
        go.wait(30)
        raise ValueError("wrong")

    lane.start(wrong, 0)
    lane.start(lambda: seen.append(1), 0)
    go.set()
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"):
            lane.wait()
        with pytest.raises(ValueError, match="wrong"):
            lane.start(lambda: seen.append(2), 0)
    lane.end()
    lane.join()
    assert seen == []


def test_whoever_waits_for_room_is_let_go_at_the_end() -> None:
    """Ending drops what waits, also what is about to wait."""
    lane, go, seen = Lane(1, 0), threading.Event(), []
    lane.start(lambda: assert_true(go.wait(30)), 0)
    lane.start(lambda: seen.append(1), 0)
    giver = threading.Thread(target=lane.start, args=(lambda: seen.append(2), 0))
    giver.start()
    lane.end()
    giver.join(30)
    assert not giver.is_alive()
    go.set()
    lane.join()
    assert seen == []


def test_texts_are_fingerprinted_beside_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load takes every record in its order, with fingerprints from another thread."""
    here = sketched_here(monkeypatch)
    with Index(tmp_path / "index.db", MinHash()) as index:
        assert index.add_many(texts(95)).added == 95
        assert list(index) == list(range(95)) and index.check().problems == ()
    assert set(here) == {False}


_threads: set[int] = set()


def words_noting_the_thread(text: str) -> list[str]:
    """A tokenizer of the caller's."""
    _threads.add(threading.get_ident())
    return text.split()


def test_functions_of_the_caller_are_called_in_its_thread(tmp_path: Path) -> None:
    """Rules with Python functions are followed where add_many was called."""
    _threads.clear()
    with Index(tmp_path / "index.db", MinHash(), text=TextRules(tokens=words_noting_the_thread)) as index:
        assert index.add_many(texts(35)).added == 35
    assert _threads == {threading.get_ident()}


def test_a_batch_that_cannot_be_prepared_ends_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fingerprints fail, add_many raises that, nothing is stored, and the next load is as if it had not been."""
    made, calls = Sketcher.texts, []

    def failing(self: Sketcher, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError("no room for the third batch")
        return made(self, *args, **options)

    monkeypatch.setattr(Sketcher, "texts", failing)
    with Index(tmp_path / "index.db", MinHash()) as index:
        with pytest.raises(MemoryError, match="third batch"):
            index.add_many(texts(95))
        assert len(index) == 0
        assert index.add_many(texts(95)).added == 95
        assert index.check().problems == ()


@pytest.mark.parametrize(("most", "most_bytes", "store_text"), [(4, 10**9, False), (100, 10 * 4_000 * 4, True)])
def test_few_texts_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, most_bytes: int, store_text: bool
) -> None:
    """While writing is held up, no more records are read than three batches and what may wait: by number, or by what the stored
    texts in them take."""
    monkeypatch.setattr(limits, "WAITING_MAX", most)
    monkeypatch.setattr(limits, "WAITING_BYTES", most_bytes)
    go, taken = threading.Event(), BatchWriter.write

    def slow(self: BatchWriter, *args: Any) -> None:
        assert go.wait(30)
        taken(self, *args)

    monkeypatch.setattr(BatchWriter, "write", slow)
    read: list[int] = []

    def records() -> Iterator[tuple[int, str]]:
        for key, text in texts(400):
            read.append(key)
            yield key, text + " and so on" * 395

    with Index(tmp_path / "index.db", MinHash(), store_text=store_text) as index:
        threading.Timer(0.5, lambda: (read.append(-1), go.set())).start()
        assert index.add_many(records()).added == 400
    assert 10 * 4 < read.index(-1) <= 10 * (1 + 4 + 3)  # one being written, four that wait, three of texts


def test_a_load_that_failed_is_forgotten() -> None:
    """After an error in one of the threads nothing holds the records any more."""

    def loads() -> int:
        gc.collect()
        return sum(isinstance(one, Ingest) for one in gc.get_objects())

    before = loads()
    with Index(":memory:", MinHash()) as index:
        index.add_many(texts(20))
        with pytest.raises(DuplicateKeyError):
            index.add_many(texts(20))
        assert loads() == before


CURSORS = [("a path", None), ("a path", 900), ("memory", None), ("a connection", None)]


@pytest.mark.parametrize(("where", "commit_every"), CURSORS)
def test_records_that_are_read_from_the_connection_of_the_index(tmp_path: Path, where: str, commit_every: int | None) -> None:
    """However many rows a cursor of the index's own connection has, and whatever wraps it, all of them are added."""
    path = tmp_path / "index.db"
    target = {"a path": path, "memory": ":memory:"}.get(where) or apsw.Connection(str(path))
    index = Index(target, SimHash(), record_matches=False)
    index.connection.execute("CREATE TABLE article (id INTEGER PRIMARY KEY, body TEXT)")
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)"
    index.connection.execute(f"INSERT INTO article {numbers} SELECT i, hex(randomblob(12)) FROM n")
    rows = index.connection.execute("SELECT id, body FROM article")
    assert index.add_many(rows, commit_every=commit_every).added == 1200
    again = (("again", key, body) for key, body in index.connection.execute("SELECT id, body FROM article"))
    assert index.add_many(((f"{word} {key}", body) for word, key, body in again), commit_every=commit_every).added == 1200
    assert len(index) == 2400
    index.close()
