"""AsyncIndex: tasks that are cancelled, and loads whose records come from a task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tasks import PATIENCE, SCHEME, TEXTS, Gate, begun, cancelled, records, run, story

from neardup_db import DuplicateKeyError, Index, MinHash, NearDupError, ParameterError, limits
from neardup_db.aio import AsyncIndex, LateResult
from neardup_db.aio.threads import Call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be."""
    return tmp_path / "index.db"


# ---- cancellation ------------------------------------------------------------------------------------------------------


def test_a_call_that_waits_is_dropped(target: Any) -> None:
    """A task that is cancelled before its call has begun leaves nothing of it, and nothing is reported."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            async with Gate(index):
                loads = index.add_many([("b", TEXTS["b"])]), index.add_many(records(3))
                calls = [index.add("a", TEXTS["a"]), *loads, whole(index)]
                tasks = [asyncio.create_task(call) for call in calls]
                await begun(*tasks)
                for task in tasks:
                    await cancelled(task)
            assert await index.length() == 0
        assert late == []

    async def whole(index: AsyncIndex) -> None:
        async with index.transaction():
            raise AssertionError

    run(main)


def test_a_call_that_has_begun_is_finished_and_reported(target: Any) -> None:
    """A task that is cancelled while its call runs is free at once; the call goes on to its end, and the hook hears of it."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gates = [threading.Event(), threading.Event()]
            entered = asyncio.Queue[None]()
            loop = asyncio.get_running_loop()

            def slow(number: int, error: Exception | None) -> Iterator[tuple[str, str]]:
                loop.call_soon_threadsafe(entered.put_nowait, None)
                assert gates[number].wait(PATIENCE)
                if error is not None:
                    raise error
                yield "late", TEXTS["a"]

            given = slow(0, None), slow(1, ValueError("no more"))
            tasks = [asyncio.create_task(index.add_many(each, if_exists="ignore")) for each in given]
            for number, task in enumerate(tasks):
                await entered.get()
                await cancelled(task)
                assert len(late) == number
                gates[number].set()
            assert await index.length() in (0, 1)  # beside the second one, or after both in memory
        assert [(one.method, one.kwargs["if_exists"]) for one in late] == [("add_many", "ignore")] * 2
        assert late[0].error is None and late[0].result.added == 1
        assert isinstance(late[1].error, ValueError) and late[1].result is None
        async with AsyncIndex(target, SCHEME) as index:
            assert await index.length() == (target != ":memory:")

    run(main)


def test_late_results_are_logged(target: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Without a hook an outcome that nobody awaits is logged; a hook that fails is logged as well, and harms nothing."""

    async def late_add(index: AsyncIndex) -> None:
        async with Gate(index) as gate:
            await cancelled(gate.task)
            gate.task = asyncio.create_task(asyncio.sleep(0))
        await index.length()
        await index.run(lambda below: None)

    def fails(late: LateResult) -> None:
        raise RuntimeError("a hook of the caller's")

    async def main() -> None:
        for hook in (None, fails):
            async with AsyncIndex(target, SCHEME, on_late_result=hook) as index:
                await late_add(index)

    with caplog.at_level(logging.INFO, "neardup_db.aio"):
        run(main)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and said[0].startswith("run(") and said[0].endswith("was done after its task was cancelled")
    assert said[1] == "on_late_result failed" and "a hook of the caller's" in caplog.text


def test_a_call_between_its_end_and_its_task_is_reported() -> None:
    """A task that is cancelled when its call is over, but before it went on, loses nothing: the outcome is reported, once."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(":memory:", SCHEME, on_late_result=late.append) as index:
            task = asyncio.create_task(index.add("a", TEXTS["a"]))
            await begun(task)
            while not (await asyncio.to_thread(time.sleep, 0) or task._fut_waiter is None or task._fut_waiter.done()):
                pass
            outcome = "returned"
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                outcome = "cancelled"
            assert await index.contains("a")
        assert [one.method for one in late] == (["add"] if outcome == "cancelled" else [])

    for _ in range(20):
        run(main)


@pytest.mark.parametrize("where", ["begin", "body", "call", "commit"])
def test_a_transaction_of_a_cancelled_task_is_rolled_back(where: str, target: Any) -> None:
    """Wherever its task is cancelled, all of a transaction is in or nothing; others write at once."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gate, entered = threading.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def wait(below: Index) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(PATIENCE)

            async def block() -> None:
                async with index.transaction():
                    await index.add("a", TEXTS["a"])
                    if where == "body":
                        entered.set()
                        await asyncio.sleep(PATIENCE)
                    if where == "call":
                        await index.run(wait)
                    if where == "commit":
                        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                            asyncio.get_running_loop().call_soon(entered.set)
                    await index.add("b", TEXTS["b"])

            if where == "begin":
                below = await index.run(lambda below: below)
                real, below._store.writing = below._store.writing, None  # type: ignore[method-assign]

                @contextlib.contextmanager
                def slowly(**given: bool) -> Iterator[None]:
                    wait(below)
                    with real(**given):
                        yield

                below._store.writing = slowly  # type: ignore[method-assign, assignment]
            task = asyncio.create_task(block())
            await entered.wait()
            if where == "begin":
                del below._store.writing  # type: ignore[method-assign]
            task.cancel()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await index.add("other", story("other"))
            assert [key async for key in index] == ["other"]
            assert (await index.check()).ok
        assert [one.method for one in late] == (["run"] if where == "call" else late and ["add"])

    run(main)


def test_a_transaction_that_is_cancelled_as_it_begins(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end may come when the thread has taken the transaction out of the line, and not begun it: the thread is free again."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, on_late_result=lambda late: None) as index:
            gate, entered, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()
            real = Call._run

            def slowly(call: Call, work: Any) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(PATIENCE)
                real(call, work)

            async def block() -> None:
                async with index.transaction():
                    raise AssertionError

            for work in (block, partial(index.add_many, records(3))):
                gate.clear()
                entered.clear()
                monkeypatch.setattr(Call, "_run", slowly)
                task = asyncio.ensure_future(work())
                await entered.wait()
                await cancelled(task)
                monkeypatch.setattr(Call, "_run", real)
                gate.set()
                assert await index.run(len) == 0

    run(main)


def test_a_commit_that_has_begun_is_not_taken_back(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while its transaction commits leaves the whole of it behind, and the hook hears of it."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gate, entered, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()
            db = (await index.run(lambda below: below))._store.db
            real = db._commit

            def commit(level: Any) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(PATIENCE)
                real(level)

            async def block() -> None:
                async with index.transaction():
                    await index.add_many([("a", TEXTS["a"]), ("b", TEXTS["b"])])
                    db._commit = commit

            task = asyncio.create_task(block())
            await entered.wait()
            await cancelled(task)
            del db._commit
            gate.set()
            await index.run(lambda below: None)
            assert [key async for key in index] == ["a", "b"]
        assert [(one.method, one.error) for one in late] == [("transaction", None)]

    run(main)


def test_a_commit_that_waits_is_taken_back(target: Any) -> None:
    """A task that is cancelled twice, in a call and then at the end of the block, has its transaction rolled back."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, on_late_result=lambda late: None) as index:
            gate, loop = threading.Event(), asyncio.get_running_loop()

            async def block(swallows: bool) -> None:
                async with index.transaction():
                    await index.add("a", TEXTS["a"])
                    with contextlib.suppress(asyncio.CancelledError):
                        await index.run(lambda below: (loop.call_soon_threadsafe(entered.set), gate.wait(PATIENCE)))
                    assert swallows

            entered = asyncio.Event()
            task = asyncio.create_task(block(True))
            await entered.wait()
            task.cancel()
            await begun(task)  # at the end of the block now, which waits for the call
            assert not task.done()
            task.cancel()
            await begun(task)
            assert task.cancelled()
            gate.set()
            assert await index.run(len) == 0

    run(main)


def test_a_listing_loses_nothing_by_a_cancelled_step(path: Path) -> None:
    """What a step found, whose task was cancelled, comes with the next step; so does its error."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME) as index:
            await index.add_many((i, story(i)) for i in range(100))
            keys, found = index.__aiter__(), []
            while True:
                step = asyncio.ensure_future(keys.__anext__())
                await asyncio.sleep(0)
                step.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    found.append(await step)
                try:
                    found.append(await keys.__anext__())
                except StopAsyncIteration:
                    break
            assert found == list(range(100))
            wrong = index.pairs(threshold=0.01)
            step = asyncio.ensure_future(wrong.__anext__())
            await asyncio.sleep(0)
            step.cancel()
            with contextlib.suppress(asyncio.CancelledError, ParameterError):
                await step
            if not isinstance(step, asyncio.Future) or step.cancelled():
                with pytest.raises(ParameterError, match="threshold=0.01"):
                    await wrong.__anext__()
            with pytest.raises(StopAsyncIteration):
                await wrong.__anext__()

    run(main)


def test_an_error_leaves_no_cycle(path: Path) -> None:
    """The error of a call, and what its traceback holds, is freed as soon as the task lets it go, without a collection."""

    class Error(Exception):
        pass

    def fails(below: Index) -> None:
        raise Error

    async def main() -> None:
        async with AsyncIndex(path, SCHEME) as index:
            gc.collect()
            gc.disable()
            try:
                try:
                    await index.run(fails)
                except Error as error:
                    freed = weakref.ref(error)
                await index.length()
                await index.run(lambda below: None)
                assert freed() is None
            finally:
                gc.enable()

    run(main)


# ---- loads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 511, 512, 513, 2500])
def test_a_load_of_an_asynchronous_iterable(target: Any, count: int) -> None:
    """Its records are stored in their order, all of them, as those of any other iterable; progress is called on the loop."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            told: list[int] = []
            where: set[int] = set()

            def progress(done: int) -> None:
                told.append(done)
                where.add(threading.get_ident())

            report = await index.add_many(records(count), progress=progress)
            assert report.added == count and [key async for key in index] == list(range(count))
            assert told[-1:] == [count][: count > 0]
            more = await index.add_many(((n, story(n)) for n in range(count, count + 3)), progress=progress)
            assert more.added == 3 and told[-1] == 3 and where == {threading.get_ident()}
            assert (await index.check()).ok

    run(main)


def test_an_iterable_runs_where_it_should(target: Any) -> None:
    """An asynchronous iterable runs in the task that awaits add_many; any other one in the thread that writes."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            where: list[Any] = []

            async def tasks_own() -> AsyncIterator[tuple[str, str]]:
                where.append(asyncio.current_task())
                yield "a", TEXTS["a"]

            def threads_own() -> Iterator[tuple[str, str]]:
                where.append(threading.get_ident())
                yield "b", TEXTS["b"]

            await index.add_many(tasks_own())
            await index.add_many(threads_own())
            assert where == [asyncio.current_task(), await index.run(lambda below: threading.get_ident())]
            assert where[1] != threading.get_ident()

    run(main)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("commit_every", [None, 1, 3])
def test_an_asynchronous_iterable_may_use_the_index(target: Any, commit_every: int | None) -> None:
    """A question of it sees every record yielded before, whole; a write, or a transaction, stands between two records."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

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

    run(main)


@pytest.mark.parametrize("commit_every", [None, 1, 3])
def test_an_error_that_the_iterable_passes_over(target: Any, commit_every: int | None) -> None:
    """A record that cannot be stored ends the load, although its error came out inside the iterable, which went on."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            await index.add(1, story(1))

            async def passing() -> AsyncIterator[tuple[int, str]]:
                for number in (0, 1, 2):
                    yield number, story(number)
                    with contextlib.suppress(NearDupError):
                        await index.length()

            with pytest.raises(DuplicateKeyError, match="record 1: key 1 is already in the index"):
                await index.add_many(passing(), commit_every=commit_every)
            assert [key async for key in index] == ([1, 0] if commit_every == 1 else [1])

    run(main)


def test_a_load_inside_the_iterable_of_a_load(target: Any) -> None:
    """All records of both are stored, in the order in which they were yielded."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            async def outer() -> AsyncIterator[tuple[int, str]]:
                for number in range(6):
                    if number == 3:
                        assert (await index.add_many(records(5, start=100))).added == 5
                    yield number, story(number)

            assert (await index.add_many(outer())).added == 6
            assert [key async for key in index] == [0, 1, 2, *range(100, 105), 3, 4, 5]

    run(main)


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


def test_a_record_inside_a_transaction_of_its_iterable(target: Any) -> None:
    """A record that is yielded while a transaction of the iterable is open is refused, as by Index, and all is taken back."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
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

    run(main)


@pytest.mark.parametrize("number", [0, 1, 700])
@pytest.mark.parametrize("error", [ValueError("no more"), asyncio.CancelledError()], ids=["error", "cancelled"])
def test_an_asynchronous_iterable_that_fails(target: Any, number: int, error: BaseException) -> None:
    """Its error is raised, and nothing of the load is stored but what was committed before."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, on_late_result=lambda late: None) as index:

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

    run(main)


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


def test_a_load_that_is_refused_reads_nothing(target: Any) -> None:
    """Wrong arguments are told before the first record is read; a wrong record ends the reading soon."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
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

    run(main)


def test_records_are_not_read_ahead(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iterable that is quicker than the thread waits for it: no more records are in hand than a batch has, nor more text."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            below = await index.run(lambda below: below)
            most, read, taken = 0, 0, 0
            real = below._add_piece

            def counted(first: int, piece: list[Any], **more: Any) -> Any:
                nonlocal taken
                taken += len(piece)
                return real(first, piece, **more)

            below._add_piece = counted  # type: ignore[method-assign]

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

    monkeypatch.setattr(limits, "BATCH_RECORDS", 100)
    monkeypatch.setattr(limits, "BATCH_SIZE", 10_000)
    run(main)


@pytest.mark.usefixtures("small_limits")
def test_progress_that_fails_ends_a_load(target: Any) -> None:
    """What `progress` raises is raised by add_many, and nothing of the load is stored: of either kind of iterable."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            def fails(done: int) -> None:
                raise TimeoutError("enough")

            for given in (records(30), [(n, story(n)) for n in range(30)]):
                with pytest.raises(TimeoutError, match="enough"):
                    await index.add_many(given, progress=fails)
                assert await index.length() == 0
            with pytest.raises(ParameterError, match="progress=5"):
                await index.add_many(records(1), progress=5)  # type: ignore[arg-type]
            await index.add_many(records(50))
            told: list[int] = []
            await index.rebuild(MinHash(threshold=0.6), progress=told.append)
            assert told

    run(main)


def test_a_load_inside_a_transaction(target: Any) -> None:
    """A load of either kind belongs to the transaction around it."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            with pytest.raises(KeyError):
                async with index.transaction():
                    assert (await index.add_many(records(10))).added == 10
                    assert (await index.add_many([(n, story(n)) for n in range(10, 20)])).added == 10
                    with pytest.raises(DuplicateKeyError):
                        await index.add_many(records(600, start=5))
                    assert await index.length() == 20
                    raise KeyError
            assert await index.length() == 0

    run(main)
