"""An open index never remembers what its file does not say: after rollbacks, and when a call of its own uses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apsw
import pytest
from load import story
from support import SETS, WORDS

from neardup_db import BinaryCode, BusyError, Index, MinHash, MismatchError, NearDupError, ParameterError, clock, limits


def findable(index: Index, keys: range) -> list[int]:
    """Those of the keys whose documents are found by their texts."""
    answers = index.query_many([story(number) for number in keys])
    return [number for number, found in zip(keys, answers, strict=True) if number in [match.key for match in found]]


# ---- used from inside add_many -----------------------------------------------------------------------------------------------


REFUSED = r"loading records.*nothing was changed: write before the load, after it, or in on_outcome="

WRITES: dict[str, Callable[[Index], Any]] = {
    "add": lambda index: index.add("extra", "quite another text"),
    "add_if_new": lambda index: index.add_if_new("extra", "quite another text"),
    "add_many": lambda index: index.add_many([("extra", "quite another text")]),
    "delete": lambda index: index.delete(1),
    "update": lambda index: index.update(1, metadata=1),
    "expire": lambda index: index.expire(),
    "dismiss": lambda index: index.dismiss(0, 1),
    "allow": lambda index: index.allow("quite another text"),
    "rebuild": lambda index: index.rebuild(MinHash(threshold=0.9)),
    "compact": lambda index: index.compact(),
    "backup": lambda index: index.backup("never.db"),
    "transaction": lambda index: index.transaction().__enter__(),
    "forget_changes": lambda index: index.forget_changes(),
}


@pytest.mark.parametrize(("way", "target"), [("the records", "memory"), ("the records", "connection"), ("progress=", "file")])
def test_a_write_from_inside(way: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the records' iterator, or progress=, would write is refused at once, with what to do. Where the error is passed over
    the load goes on and is whole; else it ends the load, of which nothing is stored."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 30)
    for write in WRITES:
        places: dict[str, Any] = {"memory": ":memory:", "connection": apsw.Connection(":memory:")}
        with Index(places.get(target, tmp_path / f"{write}.db"), MinHash()) as index:
            write_inside(index, write, way, True)
            write_inside(index, write, way, False)
            assert findable(index, range(50)) == list(range(50)), write
            assert index.check().problems == (), write


def write_inside(index: Index, write: str, way: str, passes_over: bool) -> None:
    """Load 50 records, with such a write in the middle."""
    refused: list[bool] = []
    told = "inside a transaction" if write in ("compact", "backup") else REFUSED

    def use(_: int) -> None:
        refused.append(True)
        with pytest.raises(NearDupError, match=told) if passes_over else nullcontext():
            WRITES[write](index)

    def given() -> Iterator[tuple[int, str]]:
        for number in range(50):
            if number in (5, 40) and way == "the records":
                use(number)
            yield number + 50 * (not passes_over), story(number)

    with nullcontext() if passes_over else pytest.raises(NearDupError, match=told):
        assert index.add_many(given(), progress=use if way == "progress=" else None).added == 50
    assert refused and list(index) == [*range(50)]


def test_an_error_that_the_iterator_passes_over(tmp_path: Path) -> None:
    """A record that cannot be written ends the load, although its error came out inside the iterator, which went on."""
    with Index(tmp_path / "index.db", MinHash()) as index:
        index.add(1, story(1))

        def given() -> Iterator[tuple[int, str]]:
            for number in (0, 1, 2):
                yield number, story(number)
                try:
                    len(index)
                except NearDupError:
                    continue

        with pytest.raises(NearDupError, match="key 1 is already in the index"):
            index.add_many(given())
        assert list(index) == [1] and index.check().ok


@pytest.mark.parametrize("connection", [False, True], ids=["in memory", "connection"])
def test_threads_that_ask_while_records_are_read(connection: bool) -> None:
    """A record that waits for another thread, which asks the index and has to wait, ends with an error after the timeout."""
    target: Any = apsw.Connection(":memory:") if connection else ":memory:"
    with Index(target, SETS, text=WORDS, timeout=0.1) as index, ThreadPoolExecutor(1) as pool:
        index.add("a", "one two")

        def given() -> Iterator[tuple[int, str]]:
            yield 1, "three four"
            assert len(index) == 2  # the transaction has begun
            yield from pool.map(lambda number: (number, str(len(index))), range(2, 4))

        with pytest.raises(BusyError, match="another thread"):
            index.add_many(given())
        assert list(index) == ["a"] and index.check().ok


def test_no_thread_waits_longer_than_the_timeout(tmp_path: Path) -> None:
    """While a thread stays inside a transaction, others that write are told after the timeout, and store nothing."""
    with Index(tmp_path / "index.db", MinHash(), timeout=0.05) as index:
        with index.transaction():
            for call in (lambda: index.add("x", "one two three"), lambda: index.rebuild(), lambda: index.check(), index.close):
                with ThreadPoolExecutor(1) as pool:
                    assert type(pool.submit(raised, call).result()) is BusyError
        assert len(index) == 0


def raised(call: Callable[[], Any]) -> BaseException:
    """What a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


# ---- the caller rolls back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [True, False], ids=["connection", "path"])
@pytest.mark.parametrize("undo", ["ROLLBACK", "ROLLBACK TO s; RELEASE s; COMMIT"])
def test_a_first_crowd_that_was_rolled_back(path: Path, monkeypatch: pytest.MonkeyPatch, undo: str, given: bool) -> None:
    """After a rollback of the add that made the first crowd, clusters are whole and nothing is believed of crowds."""
    monkeypatch.setattr(limits, "CROWD", 4)
    with Index(apsw.Connection(str(path)) if given else path, SETS, text=WORDS) as index:
        for number in range(4):
            index.add(f"near {number}", f"a b c d e f g h i j k l n{number}")
        connection = index.connection
        connection.execute("BEGIN IMMEDIATE; SAVEPOINT s")
        index.add("first of a crowd", "a b c d e f g h i j k l m")
        assert index.stats()["settings"]["crowds"] == 1
        connection.execute(undo)
        assert index.stats()["settings"]["crowds"] == 0
        for number in range(10):
            index.add(number, f"a b c d e f g h i j k l o{number}")
        assert [len(one) for one in index.clusters()] == [14] and index.check().problems == ()


# ---- who owns a transaction --------------------------------------------------------------------------------------------------


def test_a_transaction_belongs_to_its_task(tmp_path: Path) -> None:
    """Another task that enters transaction(), or writes, is told so and nothing changes; what it asks is what was committed."""
    with Index(tmp_path / "index.db", MinHash()) as index:

        async def fails(entered: asyncio.Event, go: asyncio.Event) -> None:
            with pytest.raises(ZeroDivisionError), index.transaction():
                index.add("fails", "one two three")
                entered.set()
                await go.wait()
                raise ZeroDivisionError

        async def other(entered: asyncio.Event, go: asyncio.Event) -> None:
            await entered.wait()
            with pytest.raises(BusyError, match="another asyncio task"), index.transaction():
                pass
            with pytest.raises(BusyError, match="another asyncio task"):
                index.add("other", "four five six")
            assert len(index) == 0 and index.query("one two three") == []
            go.set()

        async def both() -> None:
            events = asyncio.Event(), asyncio.Event()
            await asyncio.gather(fails(*events), other(*events))
            with index.transaction():
                index.add("later", "four five six")

        asyncio.run(both())
        assert list(index) == ["later"] and index.check().ok


def test_a_task_that_only_asks_in_memory(codes: Index) -> None:
    """Where there is no second connection, a question of another task is told too, for it would see what is not committed."""

    async def both() -> None:
        entered = asyncio.Event()

        async def writes() -> None:
            with codes.transaction():
                codes.add_code("a", 1)
                entered.set()
                await asyncio.sleep(0)

        async def asks() -> None:
            await entered.wait()
            with pytest.raises(BusyError, match="another asyncio task"):
                len(codes)

        await asyncio.gather(writes(), asks())

    asyncio.run(both())
    assert list(codes) == ["a"]


def test_transactions_end_in_the_reverse_order(codes: Index) -> None:
    """A transaction that ends before one that began inside it stores nothing of both, and says so."""

    def inside() -> Iterator[None]:
        with codes.transaction():
            codes.add_code("inner", 1)
            yield

    held = inside()
    with pytest.raises(NearDupError, match="reverse order"), codes.transaction():
        codes.add_code("outer", 2)
        next(held)
    with pytest.raises(NearDupError):
        next(held)
    assert list(codes) == []
    codes.add_code("a", 3)
    assert list(codes) == ["a"] and codes.check().ok


# ---- what is lent comes back -------------------------------------------------------------------------------------------------


def test_whoever_waits_for_a_reader_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all readers are at work for longer than the timeout, the next question is an error, not a wait for ever."""
    with Index(tmp_path / "index.db", BinaryCode(64, 3), timeout=0.2) as index:
        index.add_code("a", 0)
        inside, leave, now = threading.Barrier(limits.READERS_MAX + 2), threading.Event(), clock.now_ms

        def ask() -> None:
            len(index)

        def stay() -> int:
            inside.wait(60)
            leave.wait(60)
            return now()

        monkeypatch.setattr(clock, "now_ms", stay)
        threads = [threading.Thread(target=ask) for _ in range(limits.READERS_MAX + 1)]
        for thread in threads:
            thread.start()
        inside.wait(60)
        try:
            with pytest.raises(BusyError, match="threads have been asking"):
                len(index)
        finally:
            leave.set()
            for thread in threads:
                thread.join()
        monkeypatch.setattr(clock, "now_ms", now)
        assert len(index) == 1


# ---- settings that a rebuild changes -----------------------------------------------------------------------------------------


def test_stored_texts_are_dropped(tmp_path: Path) -> None:
    """rebuild(store_text=False) drops the texts and keeps the answers, exact ones too."""
    with Index(tmp_path / "index.db", MinHash(threshold=0.5, exact=True), store_text=True) as index:
        index.add("a", "one two three four five six")
        index.add("b", "one two three four five seven")
        before = index.query("one two three four five eight")
        index.rebuild(store_text=False)
        assert len(before) == 2 and index.query("one two three four five eight") == before
        assert index.get("a").text is None and index.check().ok
        with pytest.raises(ParameterError, match="2 documents have no stored text"):
            index.rebuild(store_text=True)
    with Index(tmp_path / "index.db", store_text=False) as index:
        assert not index.stats()["settings"]["store_text"]
    with pytest.raises(MismatchError, match="store_text=True, the file has False"):
        Index(tmp_path / "index.db", store_text=True)


def test_texts_are_stored_from_now_on(tmp_path: Path) -> None:
    """rebuild(store_text=True) of an index without documents lets it keep the texts that come."""
    with Index(tmp_path / "index.db", MinHash()) as index:
        index.rebuild(store_text=True)
        index.add("a", "one two three")
        index.add_many([("b", "four five six")])
        assert [index.get(key).text for key in "ab"] == ["one two three", "four five six"] and index.check().ok


def test_matches_are_recorded_from_now_on(tmp_path: Path) -> None:
    """rebuild(record_matches=...) finds the matches among what is there, or drops them; clusters are the same."""
    with Index(tmp_path / "index.db", SETS, text=WORDS, record_matches=False) as index:
        for key, text in (("a", "one two"), ("b", "one two three"), ("c", "four")):
            index.add(key, text)
        clusters = index.clusters()
        index.rebuild(record_matches=True)
        assert index.stats()["recorded_matches"] == 1 and index.clusters() == clusters and index.check().ok
        assert [match.key for match in index.add("d", "one two")] == ["a", "b"]
        index.rebuild(record_matches=False)
        assert index.stats()["recorded_matches"] == 0 and index.add("e", "one two") == [] and index.check().ok
        assert [cluster.keys for cluster in index.clusters()] == [("a", "b", "d", "e")]
