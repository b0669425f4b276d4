"""AsyncIndex.add_many: records of a task, callbacks on the loop, and what is stored."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tasks import PATIENCE, SCHEME, TEXTS, Hears, begun, cancelled, records, run, story, with_index

from neardup_db import DuplicateKeyError, MinHash, NearDupError, ParameterError, limits
from neardup_db.aio import AsyncIndex, LateResult


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 2500])
@with_index()
async def test_an_iterable_of_either_kind(index: AsyncIndex, count: int) -> None:
    """All records are stored in their order, and progress is called on the loop. An asynchronous iterable runs in the task that
    awaits add_many; any other one in the thread that writes."""
    told: list[int] = []
    where: list[Any] = []

    def progress(done: int) -> None:
        told.append(done)
        assert threading.get_ident() == here

    async def tasks_own() -> AsyncIterator[tuple[int, str]]:
        where.append(asyncio.current_task())
        async for record in records(count):
            yield record

    def threads_own() -> Iterator[tuple[int, str]]:
        where.append(threading.get_ident())
        yield from ((number, story(number)) for number in range(count, count + 3))

    here = threading.get_ident()
    assert (await index.add_many(tasks_own(), progress=progress)).added == count
    assert told[-1:] == [count][: count > 0]
    assert (await index.add_many(threads_own(), progress=progress)).added == 3 and told[-1] == 3
    assert where == [asyncio.current_task(), await index.run(lambda below: threading.get_ident())]
    assert where[1] != here and [key async for key in index] == list(range(count + 3))
    assert (await index.check()).ok


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("commit_every", [None, 1, 3])
@with_index()
async def test_an_asynchronous_iterable_may_use_the_index(index: AsyncIndex, commit_every: int | None) -> None:
    """A question of it sees every record yielded before, whole; a write, or a transaction, stands between two records."""

    async def asking() -> AsyncIterator[tuple[Any, str]]:
        for number in range(12):
            yield number, story(number)
            assert await index.contains(number)
            assert [match.key for match in await index.query(story(number))] == [number]
            if number == 4:
                await index.add("between", story("between"))
                async with index.transaction():
                    await index.add("inside", story("inside"))
                    assert await index.length() == 7
                assert len([key async for key in index]) == 7
            if number == 8:
                with pytest.raises(ValueError):
                    async with index.transaction():
                        await index.add("never", story("never"))
                        raise ValueError

    assert (await index.add_many(asking(), commit_every=commit_every)).added == 12
    assert [key async for key in index] == [0, 1, 2, 3, 4, "between", "inside", *range(5, 12)]
    assert (await index.check()).ok


@pytest.mark.parametrize("commit_every", [None, 1, 3])
@with_index()
async def test_an_error_that_the_iterable_passes_over(index: AsyncIndex, commit_every: int | None) -> None:
    """A record that cannot be stored ends the load, although its error came out inside the iterable, which went on."""
    await index.add(1, story(1))

    async def passing() -> AsyncIterator[tuple[int, str]]:
        for number in (0, 1, 2):
            yield number, story(number)
            with contextlib.suppress(NearDupError):
                await index.length()

    with pytest.raises(DuplicateKeyError, match="record 1: key 1 is already in the index"):
        await index.add_many(passing(), commit_every=commit_every)
    assert [key async for key in index] == ([1, 0] if commit_every == 1 else [1])


@with_index()
async def test_a_load_inside_the_iterable_of_a_load(index: AsyncIndex) -> None:
    """All records of both are stored, in the order in which they were yielded."""

    async def outer() -> AsyncIterator[tuple[int, str]]:
        for number in range(6):
            if number == 3:
                assert (await index.add_many(records(5, start=100))).added == 5
            yield number, story(number)

    assert (await index.add_many(outer())).added == 6
    assert [key async for key in index] == [0, 1, 2, *range(100, 105), 3, 4, 5]


def test_a_load_that_ends_while_the_index_is_closing(path: Path) -> None:
    """A load whose last commit was done before close() returns its report."""

    async def main() -> None:
        index = await AsyncIndex(path, SCHEME).open()
        loads = [asyncio.create_task(index.add_many(records(5, start=number))) for number in (0, 100, 200)]
        await begun(*loads)
        closing = asyncio.create_task(index.close())
        assert [report.added for report in await asyncio.gather(*loads)] == [5, 5, 5]
        await closing

    run(main)


@with_index()
async def test_a_record_inside_a_transaction_of_its_iterable(index: AsyncIndex) -> None:
    """A record that is yielded while a transaction of the iterable is open is refused, as by Index, and all is taken back."""
    ended = []

    async def wrong(count: int) -> AsyncIterator[tuple[int, str]]:
        yield 0, story(0)
        try:
            async with index.transaction():
                await index.add("inside", story("inside"))
                for number in range(1, count):
                    yield number, story(number)
                assert await index.contains(0)
        finally:
            ended.append(count)

    for count in (2, 3000):
        with pytest.raises(NearDupError, match="end it before the next record is yielded"):
            await index.add_many(wrong(count))
        assert ended.pop() == count and await index.length() == 0
    await index.add("a", TEXTS["a"])
    assert (await index.check()).ok


@pytest.mark.parametrize("number", [0, 1, 700])
@pytest.mark.parametrize("error", [ValueError("no more"), asyncio.CancelledError()], ids=["error", "cancelled"])
@with_index(on_late_result=lambda late: None)
async def test_an_asynchronous_iterable_that_fails(index: AsyncIndex, number: int, error: BaseException) -> None:
    """Its error is raised, and nothing of the load is stored but what was committed before."""

    async def failing() -> AsyncIterator[tuple[int, str]]:
        async for record in records(number):
            yield record
        raise error

    with pytest.raises(type(error)):
        await index.add_many(failing())
    assert await index.run(len) == 0
    with pytest.raises(type(error)):
        await index.add_many(failing(), commit_every=300)
    assert await index.run(len) == number // 300 * 300
    assert (await index.check()).ok


def test_a_cancelled_load_is_taken_back_and_reported(target: Any) -> None:
    """A task that is cancelled while it reads records leaves nothing of them, and the hook hears that the load failed."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            yielded, closed = asyncio.Event(), []

            async def endless() -> AsyncIterator[tuple[int, str]]:
                try:
                    for number in range(10**9):
                        yield number, story(number)
                        if number == 2000:
                            yielded.set()
                            await asyncio.sleep(PATIENCE)
                finally:
                    closed.append(True)

            task = asyncio.create_task(index.add_many(endless()))
            await yielded.wait()
            await cancelled(task)
            assert closed == [True]
            assert await index.run(len) == 0
        assert [one.method for one in late] == ["add_many"] and "was cancelled" in str(late[0].error)

    run(main)


@with_index()
async def test_a_load_that_is_refused_reads_nothing(index: AsyncIndex) -> None:
    """Wrong arguments are told before the first record is read; a wrong record ends the reading soon."""
    read: list[int] = []

    async def noting() -> AsyncIterator[Any]:
        for number in range(100_000):
            read.append(number)
            yield ("same", story(number))

    with pytest.raises(ParameterError, match="if_exists"):
        await index.add_many(noting(), if_exists="wrong")  # type: ignore[arg-type]
    for every in (0, "x", True):
        with pytest.raises(ParameterError, match="commit_every"):
            await index.add_many(noting(), commit_every=every)  # type: ignore[arg-type]
    assert read == []
    with pytest.raises(DuplicateKeyError, match="record 1:"):
        await index.add_many(noting(), commit_every=2)
    assert len(read) < 100 and await index.length() == 0


@with_index()
async def test_records_are_not_read_ahead(index: AsyncIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iterable that is quicker than the thread waits for it: no more records are in hand than a batch has, nor more text."""

    monkeypatch.setattr(limits, "BATCH_RECORDS", 100)
    monkeypatch.setattr(limits, "BATCH_SIZE", 10_000)
    below = await index.run(lambda below: below)
    most, read, taken = 0, 0, 0
    real = below._load

    def counted(piece: list[Any], options: Any) -> Any:
        nonlocal taken
        taken += len(piece)
        return real(piece, options)

    below._load = counted  # type: ignore[method-assign]

    async def noting() -> AsyncIterator[Any]:
        nonlocal most, read
        for number in range(500):
            read += 1
            most = max(most, read - taken)
            text = f"{story(number)} {number // 250 * 'x' * 1000}"
            yield (number, text) if number % 2 else {"key": number, "text": text}
            if number == 248:
                assert most == 100
                most = 0

    await index.add_many(noting())
    assert taken == 500 and most <= 60


@with_index()
async def test_a_load_inside_a_transaction(index: AsyncIndex) -> None:
    """A load of either kind belongs to the transaction around it."""
    with pytest.raises(KeyError):
        async with index.transaction():
            assert (await index.add_many(records(10))).added == 10
            assert (await index.add_many([(n, story(n)) for n in range(10, 20)])).added == 10
            with pytest.raises(DuplicateKeyError):
                await index.add_many(records(600, start=5))
            assert await index.length() == 20
            raise KeyError
    assert await index.length() == 0


def test_outcomes_are_told_with_each_commit() -> None:
    """What was committed is told, and not before, also if an error follows; a source may wait for it."""

    async def main() -> None:
        told: list[Any] = []
        heard = asyncio.Event()

        def hear(key: Any, outcome: str, match: Any) -> None:
            assert not db._depth
            told.append(key)
            heard.set()

        async def waiting() -> AsyncIterator[Any]:
            for number in range(3):
                heard.clear()
                yield number, f"{TEXTS['a']} {number}"
                await heard.wait()

        async with AsyncIndex(":memory:", SCHEME) as index:
            db = (await index.run(lambda below: below))._store.db
            await index.add_many(waiting(), commit_every=1, on_outcome=hear)
            assert told == [0, 1, 2]
            with pytest.raises(ParameterError):
                await index.add_many([(3, "a text"), (4, "another"), (5, 5)], commit_every=2, on_outcome=hear)
            assert told == [0, 1, 2, 3, 4] and await index.length() == 5

    run(main)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("way", ["object", "function"])
def test_coroutines_hear_of_a_load(way: str, target: Any) -> None:
    """progress= and on_outcome= may be coroutine functions, or objects with an asynchronous __call__: they are awaited before the
    load ends. What `progress` raises ends it, and nothing of it is stored."""

    async def fails(*_: Any) -> None:
        raise TimeoutError("enough")

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            for number, source in enumerate((records(3), [(10, story(10)), (11, story(11)), (12, story(12))])):
                hears, tells = Hears(), Hears()
                given: Any = (hears, tells) if way == "object" else (hears.__call__, tells.__call__)
                await index.add_many(source, on_outcome=given[0], progress=given[1])
                assert hears.heard == [number * 10 + each for each in range(3)] and tells.heard[-1] == 3
            for source in (records(30, start=20), [(number, story(number)) for number in range(20, 50)]):
                with pytest.raises(TimeoutError, match="enough"):
                    await index.add_many(source, progress=fails)
            assert await index.length() == 6
            told: list[int] = []
            await index.rebuild(MinHash(threshold=0.6), progress=told.append)
            assert told

    run(main)


@with_index()
async def test_other_tasks_write_between_the_commits_of_a_load(index: AsyncIndex) -> None:
    """A load with commit_every= holds nobody up while its records are long in coming: another task writes between two commits."""
    turn = asyncio.Event()

    async def slow() -> AsyncIterator[tuple[int, str]]:
        for number in range(6):
            if number == 4:
                await turn.wait()
            yield number, story(number)

    load = asyncio.create_task(index.add_many(slow(), commit_every=2))
    await begun(load)
    await index.add("between", story("between"))
    async with index.transaction():
        await index.add("block", story("block"))
    turn.set()
    assert (await load).added == 6
    keys = [key async for key in index]
    assert len(keys) == 8 and max(keys.index("between"), keys.index("block")) < keys.index(4)


@with_index()
async def test_records_keep_their_numbers(index: AsyncIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pieces an asynchronous iterable is stored in: reports, outcomes and errors name each record by its number."""
    monkeypatch.setattr(limits, "BATCH_RECORDS", 2)

    async def wrong() -> AsyncIterator[Any]:
        for number in range(9):
            yield (number, 5 if number in (3, 7) else story(number))

    told: list[Any] = []
    report = await index.add_many(wrong(), on_error="skip", on_outcome=lambda *outcome: told.append(outcome))
    assert [each.record for each in report.problems] == [3, 7] and (report.added, report.skipped) == (7, 2)
    assert [key for key, _, _ in told] == [*range(9)] and told[7][2].record == 7
    with pytest.raises(ParameterError, match="^record 3: "):
        await index.add_many(wrong(), if_exists="replace")
