"""AsyncIndex: tasks that are cancelled, and loads whose records come from a task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from tasks import PATIENCE, SCHEME, TEXTS, Gate, Stop, begun, cancelled, records, run, story, with_index

from neardup_db import Index, ParameterError
from neardup_db.aio import AsyncIndex, LateResult
from neardup_db.aio.threads import Lane

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
            for error in (None, ValueError("no more")):
                stop = Stop()

                def slow(stop: Stop = stop, error: Exception | None = error) -> Iterator[tuple[str, str]]:
                    stop()
                    if error is not None:
                        raise error
                    yield "late", TEXTS["a"]

                task = asyncio.create_task(index.add_many(slow(), if_exists="ignore"))
                await stop.entered.wait()
                await cancelled(task)
                stop.leave.set()
                assert await index.run(len) == 1
        assert [(one.method, one.kwargs["if_exists"]) for one in late] == [("add_many", "ignore")] * 2
        assert late[0].error is None and late[0].result.added == 1
        assert isinstance(late[1].error, ValueError) and late[1].result is None

    run(main)


def test_late_results_are_logged(target: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Without a hook an outcome that nobody awaits is logged; a hook that fails is logged as well, and harms nothing."""

    async def late_call(index: AsyncIndex) -> None:
        async with Gate(index) as gate:
            await cancelled(gate.task)
        await index.run(lambda below: None)

    def fails(late: LateResult) -> None:
        raise RuntimeError("a hook of the caller's")

    async def main() -> None:
        for hook in (None, fails):
            async with AsyncIndex(target, SCHEME, on_late_result=hook) as index:
                await late_call(index)

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


@pytest.mark.parametrize("where", ["begin", "body", "call", "twice"])
def test_a_transaction_of_a_cancelled_task_is_rolled_back(where: str, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its task is cancelled, nothing of a transaction is left, and others write at once. "twice": in a call, and then at
    the end of the block, which waits for the call. A load is one too."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            stop = Stop()

            async def block() -> None:
                async with index.transaction():
                    await index.add("a", TEXTS["a"])
                    if where == "body":
                        stop.entered.set()
                        await asyncio.sleep(PATIENCE)
                    with contextlib.suppress(asyncio.CancelledError if where == "twice" else ()):
                        await index.run(stop)
                    assert where == "twice"

            if where == "begin":
                below = await index.run(lambda below: below)
                monkeypatch.setattr(below._store, "writing", slowly(stop, below._store.writing))
            task = asyncio.create_task(block())
            await stop.entered.wait()
            monkeypatch.undo()
            task.cancel()
            await begun(task)
            if where == "twice":
                assert not task.done()
                task.cancel()
                await begun(task)
                assert task.done()
            stop.leave.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await index.add("other", story("other"))
            assert [key async for key in index] == ["other"]
            assert (await index.check()).ok
        assert [one.method for one in late] == (["run"] if where in ("call", "twice") else [])

    def slowly(stop: Stop, real: Any) -> Any:
        @contextlib.contextmanager
        def writing(**given: bool) -> Iterator[None]:
            stop()
            with real(**given):
                yield

        return writing

    run(main)


def test_a_commit_that_has_begun_is_not_taken_back(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while its transaction commits leaves the whole of it behind, and the hook hears of it."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            stop, db = Stop(), (await index.run(lambda below: below))._store.db
            real = db._commit

            def commit(level: Any) -> None:
                stop()
                real(level)

            async def block() -> None:
                async with index.transaction():
                    await index.add_many([("a", TEXTS["a"]), ("b", TEXTS["b"])])
                    monkeypatch.setattr(db, "_commit", commit)

            task = asyncio.create_task(block())
            await stop.entered.wait()
            await cancelled(task)
            monkeypatch.undo()
            stop.leave.set()
            await index.run(lambda below: None)
            assert [key async for key in index] == ["a", "b"]
        assert [(one.method, one.error) for one in late] == [("transaction", None)]

    run(main)


@with_index("path")
async def test_a_listing_loses_nothing_by_a_cancelled_step(index: AsyncIndex) -> None:
    """What a step found, whose task was cancelled, comes with the next step; so does its error."""
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


@with_index("path")
async def test_an_error_leaves_no_cycle(index: AsyncIndex) -> None:
    """The error of a call, and what its traceback holds, is freed as soon as the task lets it go, without a collection."""

    class Error(Exception):
        pass

    def fails(below: Index) -> None:
        raise Error

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


def test_cancelling_many_waiting_calls_is_linear() -> None:
    """What cancelling n calls that wait costs grows with n: counted in comparisons of waiting calls, of which there are none."""
    compared = 0

    class Counted(asyncio.Future[None]):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = asyncio.Future.__hash__

    async def main() -> None:
        line = Lane(1, "line")
        await line.enter(60)
        loop = asyncio.get_running_loop()
        real, loop.create_future = loop.create_future, lambda: Counted(loop=loop)  # type: ignore[method-assign]
        tasks = [asyncio.create_task(line.enter(60)) for _ in range(1000)]
        await begun(*tasks)
        loop.create_future = real  # type: ignore[method-assign]
        for task in reversed(tasks[1:]):
            task.cancel()
        await asyncio.wait(tasks[1:])
        assert len(line._waiting) == 1 and compared == 0
        line.release()
        await tasks[0]

    run(main)
