"""Shared by the tests of AsyncIndex: a loop for each test, texts, and a gate that keeps the thread that writes busy."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import update_wrapper
from typing import Any

import pytest
from load import story as story

from neardup_db import MinHash
from neardup_db.aio import AsyncIndex

SCHEME = MinHash(threshold=0.5)
TEXTS = {"a": "one two three four five", "b": "one two three four six", "c": "seven eight nine ten"}
PATIENCE = 60


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What the coroutine returns, in a loop of its own."""
    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


def with_index(place: str = "target", **options: Any) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Any]:
    """Makes a test of a coroutine function whose first argument is an open index, by default one in a file and one in memory.
    place: the fixture that says where it is."""

    def decorated(test: Callable[..., Coroutine[Any, Any, None]]) -> Any:
        first, *others = inspect.signature(test).parameters.values()

        def in_loop(**fixtures: Any) -> None:
            async def main() -> None:
                async with AsyncIndex(fixtures.pop(place), SCHEME, **options) as index:
                    await test(index, **fixtures)

            run(main)

        update_wrapper(in_loop, test)
        in_loop.__signature__ = inspect.Signature([first.replace(name=place), *others])  # type: ignore[attr-defined]
        return in_loop

    return decorated


class Stop:
    """A function for a thread, which waits in it: `entered` is set then, and `leave` lets it go on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.entered.set)
        assert self.leave.wait(PATIENCE)


class Gate:
    """Keeps the thread that writes busy until it is opened."""

    def __init__(self, index: AsyncIndex) -> None:
        self.index = index
        self.stop = Stop()

    async def __aenter__(self) -> Gate:
        self.task: asyncio.Task[None] = asyncio.create_task(self.index.run(self.stop))
        await self.stop.entered.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop.leave.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


async def begun(*tasks: asyncio.Task[Any]) -> None:
    """Let tasks go on to where they wait for a thread."""
    for _ in range(5):
        await asyncio.sleep(0)


def threads() -> list[str]:
    """The threads of all indexes of this process."""
    return [thread.name for thread in threading.enumerate() if thread.name in ("neardup reads", "neardup writes")]


async def nobody_works() -> None:
    """Wait for the end of these threads."""
    while threads():
        await asyncio.sleep(0.001)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and see that it is."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def records(count: int, start: int = 0) -> AsyncIterator[tuple[int, str]]:
    """Stories, with a step of the loop now and then."""
    for number in range(start, start + count):
        if number % 7 == 0:
            await asyncio.sleep(0)
        yield number, story(number)


class Hears:
    """An `on_outcome` and `progress` that is awaited."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def __call__(self, *given: Any) -> None:
        await asyncio.sleep(0)
        self.heard.append(given[0])
