"""Shared by the tests of AsyncIndex: a loop for each test, texts, and a gate that keeps the thread that writes busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from neardup_db import MinHash
from neardup_db.aio import AsyncIndex

SCHEME = MinHash(threshold=0.5)
TEXTS = {"a": "one two three four five", "b": "one two three four six", "c": "seven eight nine ten"}
PATIENCE = 60


def story(name: Any) -> str:
    """A text that is like no other one's."""
    return f"story number{name} tells what happened to person{name} and family{name} in town{name} on day{name}"


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What the coroutine returns, in a loop of its own."""
    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


class Gate:
    """Keeps the thread that writes busy until it is opened."""

    def __init__(self, index: AsyncIndex) -> None:
        self.index = index
        self.entered = asyncio.Event()
        self._leave = threading.Event()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(self.entered.set)
        assert self._leave.wait(PATIENCE)

    async def __aenter__(self) -> Gate:
        loop = asyncio.get_running_loop()
        self.task = asyncio.create_task(self.index.run(lambda index: self._wait(loop)))
        await self.entered.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._leave.set()
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
