"""Threads that share an Index ask it at the same time, and each sees what it may: its own writes, and nobody's half-done ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import PATIENCE, asked_meanwhile, in_another_thread, run_threads, story

from neardup_db import BinaryCode, ClosedError, Index, MinHash, MismatchError, ReadOnlyError, SimHash, TextRules
from neardup_db.limits import READERS_MAX


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """Three codes near 0 in a file."""
    with Index(tmp_path / "index.db", BinaryCode(64, 3), durability="normal") as opened:
        for key, bits in (("a", 0), ("b", 1), ("c", 3)):
            opened.add_code(key, (1 << bits) - 1)
        yield opened


QUESTIONS: dict[str, Callable[[Index], Any]] = {
    "query_code": lambda index: [match.key for match in index.query_code(0)],
    "query_code in a group": lambda index: index.query_code(0, group="g"),
    "nearest": lambda index: [match.key for match in index.nearest(2**64 - 1, 2)],
    "matches": lambda index: [match.key for match in index.matches("a")],
    "get": lambda index: index.get("a").key,
    "get_many": lambda index: [one and one.key for one in index.get_many(["a", "x"])],
    "in": lambda index: "a" in index,
    "len": len,
    "iter": list,
    "pairs": lambda index: sorted((pair.key_a, pair.key_b) for pair in index.pairs()),
    "pairs with another": lambda index: sorted((pair.key_a, pair.key_b) for pair in index.pairs_with(index)),
    "clusters": lambda index: [cluster.keys for cluster in index.clusters()],
    "explain_match": lambda index: index.explain_match("a", "c").distance,
    "stats": lambda index: index.stats()["documents"],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_nobody_waits_for_a_transaction(index: Index, name: str) -> None:
    """While a thread is in a transaction, others are answered from what was committed before it."""
    ask = QUESTIONS[name]
    before = ask(index)
    with index.transaction():
        index.add_code("d", 0)
        index.delete("b")
        assert asked_meanwhile(lambda: ask(index)) == [before]
        assert "d" in index and "b" not in index
    assert [match.key for match in index.query_code(0)] == ["a", "d", "c"] and asked_meanwhile(lambda: ask(index)) == [ask(index)]


def test_texts_are_asked_for_meanwhile(tmp_path: Path) -> None:
    """So are questions by text, in any scheme."""
    with Index(tmp_path / "index.db", MinHash(), store_text=True) as index:
        index.add("a", story(1), group="g")
        index.add("b", story(1))
        with in_another_thread(index.transaction()):
            assert [match.key for match in index.query(story(1))] == ["b"]
            assert [match.key for match in index.query(story(1), group="g")] == ["a"]
            assert [len(matches) for matches in index.query_many([story(1), story(2)])] == [1, 0]
            assert index.explain(story(1)).matches == 1


def test_as_many_at_once_as_there_are_readers(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index's own connection and all its readers are in the middle of a question at the same time; who comes then waits."""
    inside, clock = threading.Barrier(READERS_MAX + 1), views_clock(monkeypatch)
    clock.append(lambda: inside.wait(PATIENCE))
    run_threads(*[lambda: len(index)] * (READERS_MAX + 1))
    clock.clear()
    run_threads(*[partial(list, index)] * (3 * READERS_MAX))
    assert len(index._readers._others) == READERS_MAX


def views_clock(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """Functions that run whenever a question looks at the clock, which it does in the middle."""
    from neardup_db import clock

    now, called = clock.now_ms, list[Callable[[], Any]]()

    def watched() -> int:
        for one in called:
            one()
        return now()

    monkeypatch.setattr(clock, "now_ms", watched)
    return called


def test_own_writes_are_seen(index: Index) -> None:
    """What a thread has added or deleted is in its next answer, whichever connection gives it."""

    def work(number: int) -> None:
        for i in range(30):
            key, code = f"{number}-{i}", (number + 1) << 40 | 0xFF << 50
            index.add_code(key, code)
            assert key in [match.key for match in index.query_code(code)]
            index.delete(key)
            assert key not in index

    run_threads(*(partial(work, number) for number in range(6)))


def test_a_rebuild_is_followed(tmp_path: Path) -> None:
    """While one thread rebuilds to other schemes and rules, the others' answers are those of the one or the other."""
    with Index(tmp_path / "index.db", MinHash(threshold=0.5), store_text=True, durability="normal") as index:
        index.add("a", "one two three four")
        index.add("b", "One Two Three Four")
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                assert len(index.query("one two three four")) in (1, 2)
                assert len(index.query_many(["ONE TWO THREE FOUR"])[0]) in (0, 2)
                with suppress(MismatchError):  # rebuilt between the pair and the end of the listing
                    assert {(pair.key_a, pair.key_b) for pair in index.pairs()} <= {("a", "b")}

        def rebuild() -> None:
            try:
                for _ in range(6):
                    index.rebuild(SimHash(64, max_distance=3), TextRules(case=None))
                    assert len(index.query("one two three four")) == 1
                    index.rebuild(MinHash(threshold=0.5), TextRules())
                    assert len(index.query("one two three four")) == 2
            finally:
                done.set()

        run_threads(rebuild, ask, ask, ask)


def test_a_rebuild_that_fails_is_not_followed(tmp_path: Path) -> None:
    """A thread that asks while a rebuild goes on, or has failed, gets answers by the settings that are in the file."""
    with Index(tmp_path / "index.db", MinHash(), store_text=True) as index:
        index.add("a", story(1))

        def fail(done: int) -> None:
            assert [match.distance for match in asked_meanwhile(lambda: index.query(story(1)))[0]] == [None]
            raise KeyError(done)

        with pytest.raises(KeyError):
            index.rebuild(SimHash(64), progress=fail)
        with in_another_thread(index.transaction()):
            assert [match.distance for match in index.query(story(1))] == [None]


def test_a_transaction_begun_by_sql(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever began a transaction by SQL on `connection` sees what is in it, also while another thread asks."""
    index.connection.execute("BEGIN IMMEDIATE")
    index.add_code("d", 0)
    clock = views_clock(monkeypatch)
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        clock.clear()
        entered.set()
        leave.wait(PATIENCE)

    clock.append(stay)
    other = threading.Thread(target=len, args=(index,))
    other.start()
    assert entered.wait(PATIENCE)
    threading.Timer(0.1, leave.set).start()
    assert "d" in index
    other.join()
    index.connection.execute("ROLLBACK")
    assert "d" not in index


@pytest.mark.parametrize("kind", ["memory", "given", "no log"])
def test_where_there_is_one_connection(tmp_path: Path, kind: str) -> None:
    """In memory, on a caller's connection and without a write-ahead log there are no readers: threads take turns."""
    path = tmp_path / "index.db"
    if kind == "no log":
        apsw.Connection(str(path)).execute("CREATE TABLE mine (x)")
    target: Any = ":memory:" if kind == "memory" else apsw.Connection(str(path)) if kind == "given" else path
    with Index(target, SimHash(), attach=True) as index:
        with in_another_thread(index.transaction()):
            assert asked_meanwhile(lambda: len(index), 0.1) == []
        assert asked_meanwhile(lambda: len(index)) == [0]


def test_another_file_under_the_name_is_not_read(index: Index, tmp_path: Path) -> None:
    """Where another file has taken the name, no reader opens it: who asks waits for the connection that is open."""
    other = tmp_path / "other.db"
    Index(other, BinaryCode(64, 3)).close()
    other.replace(tmp_path / "index.db")
    with in_another_thread(index.transaction()):
        assert asked_meanwhile(lambda: list(index), 0.1) == []
    assert list(index) == ["a", "b", "c"]


def test_readers_cannot_write(index: Index) -> None:
    """The connections that threads are given can read only."""
    with in_another_thread(index.transaction()), index._readers.reading() as view:
        assert view is not index._readers.own
        with pytest.raises(apsw.ReadOnlyError):
            view.store.db.execute("DELETE FROM neardup_document")
        with pytest.raises(ReadOnlyError), view.store.writing():
            pass


def test_read_only_files_are_read_at_once(index: Index, tmp_path: Path) -> None:
    """An index opened with read_only=True has readers too."""
    with Index(tmp_path / "index.db", read_only=True) as reading, in_another_thread(reading._readers.reading()):
        assert list(reading) == ["a", "b", "c"] and [match.key for match in reading.query_code(0)] == ["a", "b", "c"]


def test_closing_waits_for_answers(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """close() lets questions come to their end, in any thread; those asked afterwards are refused."""
    inside, leave, clock = threading.Barrier(4), threading.Event(), views_clock(monkeypatch)
    answers: list[Any] = []

    def stay() -> None:
        inside.wait(PATIENCE)
        leave.wait(PATIENCE)

    clock.append(stay)
    asking = [threading.Thread(target=lambda: answers.append(len(index))) for _ in range(3)]
    for thread in asking:
        thread.start()
    inside.wait(PATIENCE)
    clock.clear()
    closing = threading.Thread(target=index.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive() and answers == []
    leave.set()
    closing.join(PATIENCE)
    for thread in asking:
        thread.join(PATIENCE)
    assert answers == [3, 3, 3]
    with pytest.raises(ClosedError):
        len(index)


def test_closing_under_load(tmp_path: Path) -> None:
    """Threads that ask and write while the index is closed get answers, then ClosedError, and nothing else."""
    path = tmp_path / "index.db"
    for attempt in range(5):
        index = Index(path, MinHash(), durability="normal")
        started = threading.Barrier(7)

        def work(index: Index, started: threading.Barrier, name: str) -> None:
            started.wait(PATIENCE)
            with pytest.raises(ClosedError):
                for i in range(10**9):
                    index.add(f"{name}-{i}", story(f"{name}-{i}"))
                    assert len(index.query(story(f"{name}-{i}"))) == 1

        def close(index: Index, started: threading.Barrier) -> None:
            started.wait(PATIENCE)
            threading.Event().wait(0.05)
            index.close()

        run_threads(partial(close, index, started), *(partial(work, index, started, f"{attempt}-{n}") for n in range(6)))
        assert [file.name for file in tmp_path.iterdir()] == ["index.db"]
    with Index(path) as index:
        assert index.check().problems == ()


def test_a_reader_that_cannot_be_opened(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no further file can be opened, threads take turns instead of failing."""

    def refuse() -> apsw.Connection:
        raise apsw.CantOpenError("too many open files")

    monkeypatch.setattr(index._store.db, "open_reader", refuse)
    with in_another_thread(index.transaction()):
        assert asked_meanwhile(lambda: len(index), 0.1) == []
    run_threads(*[lambda: len(index)] * 6)
    assert index._readers._others == [] and READERS_MAX >= 4
