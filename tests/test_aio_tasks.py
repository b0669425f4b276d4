"""AsyncIndex: two hundred tasks at once, many of them cancelled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tasks import PATIENCE, SCHEME, story

from neardup_db.aio import AsyncIndex, LateResult


class Worker:
    """A task that does this and that, is cancelled now and then, and notes what it was told."""

    def __init__(self, index: AsyncIndex, number: int, seed: int) -> None:
        self.index = index
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.counter = 0
        self.here: dict[str, str] = {}
        """What was acknowledged."""
        self.unsettled: dict[str, tuple[str, str]] = {}
        """By key: a call that was cancelled, "add" or "delete", and the text."""
        self.blocks: list[dict[str, str]] = []
        """What cancelled transactions and loads would have added."""

    def new(self) -> dict[str, str]:
        """Some keys with texts."""
        made = {}
        for _ in range(self.random.randint(1, 4)):
            self.counter += 1
            made[f"{self.number}-{self.counter}"] = story((self.number, self.counter))
        return made

    async def step(self) -> None:
        """One operation, perhaps with a cancellation."""
        operations = (self.add, self.delete, self.block, self.load, self.ask)
        (operation,) = self.random.choices(operations, (2, 1, 2, 1, 3))
        work, take, leave = operation()
        task = asyncio.ensure_future(work)
        if self.random.random() < 0.3:
            for _ in range(self.random.choice((0, 1, 2, 5, 20))):
                await asyncio.sleep(0)
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.random() / 100)
            task.cancel()
        try:
            take(await task)
        except asyncio.CancelledError:
            leave()

    def add(self) -> tuple[Any, Any, Any]:
        """One document."""
        key, text = self.new().popitem()
        work = self.random.choice((self.index.add, self.index.add_if_new))(key, text)
        return work, lambda found: self.here.update({key: text}), lambda: self.unsettled.update({key: ("add", text)})

    def delete(self) -> tuple[Any, Any, Any]:
        """Of one document that is there."""
        if not self.here:
            return self.ask()
        key = self.random.choice([*self.here])
        text = self.here.pop(key)

        def take(was_there: bool) -> None:
            assert was_there

        return self.index.delete(key), take, lambda: self.unsettled.update({key: ("delete", text)})

    def block(self) -> tuple[Any, Any, Any]:
        """A transaction of several adds, which may fail."""
        made, fails = self.new(), self.random.random() < 0.2

        async def work() -> bool:
            try:
                async with self.index.transaction():
                    for key, text in made.items():
                        await self.index.add(key, text)
                        assert await self.index.contains(key)
                        await asyncio.sleep(0)
                    if fails:
                        raise LookupError
            except LookupError:
                return False
            return True

        return work(), lambda stored: self.here.update(made if stored else {}), lambda: self.blocks.append({} if fails else made)

    def load(self) -> tuple[Any, Any, Any]:
        """Some documents at once."""
        made = self.new()

        async def each() -> AsyncIterator[tuple[str, str]]:
            for key, text in made.items():
                await asyncio.sleep(0)
                yield key, text

        given: Any = each() if self.random.random() < 0.5 else [*made.items()]
        return self.index.add_many(given), lambda report: self.here.update(made), lambda: self.blocks.append(made)

    def ask(self) -> tuple[Any, Any, Any]:
        """For what was acknowledged, and for what was never there."""

        async def work() -> None:
            if self.here:
                key = self.random.choice([*self.here])
                assert [match.key for match in await self.index.query(self.here[key])] == [key]
                assert (await self.index.get(key)).key == key
            assert not await self.index.contains("never")

        return work(), lambda nothing: None, lambda: None


@pytest.mark.parametrize("where", ["file", "memory", "one reader"])
def test_two_hundred_tasks(where: str, tmp_path: Path, more_rounds: bool) -> None:
    """Of 200 tasks with adds, removals, loads, transactions and questions, many of them cancelled, each sees what it was told. In
    the end exactly what was acknowledged or reported late is there. `--more`: for a minute."""
    seed = random.randrange(10**6)
    print("seed", seed)
    late: list[LateResult] = []
    until = time.monotonic() + (60 if more_rounds else 0)

    async def work(worker: Worker) -> None:
        steps = 0
        while steps < 5 or time.monotonic() < until:
            await worker.step()
            steps += 1

    async def main() -> list[Worker]:
        target = ":memory:" if where == "memory" else tmp_path / "index.db"
        options: dict[str, Any] = {"durability": "normal", "on_late_result": late.append, "timeout": PATIENCE}
        async with AsyncIndex(target, SCHEME, readers=1 if where == "one reader" else None, **options) as index:
            workers = [Worker(index, number, seed) for number in range(200)]
            await asyncio.gather(*(work(worker) for worker in workers))
            await index.run(lambda below: None)  # after all that goes on without its task
            assert (await index.check()).ok
            stored.update([key async for key in index])
        return workers

    stored: set[Any] = set()
    workers = asyncio.run(main())
    settled = {one.args[0] for one in late if one.method in ("add", "add_if_new", "delete") and one.error is None}
    expected: set[str] = set()
    possible: list[set[str]] = []
    for worker in workers:
        expected.update(worker.here)
        expected.update(key for key, (kind, _) in worker.unsettled.items() if (kind == "add") == (key in settled))
        possible += [set(block) for block in worker.blocks if block]
    assert all(block <= stored or not block & stored for block in possible), "half of a transaction"
    whole = [block for block in possible if block <= stored]
    assert stored == expected.union(*whole)
    assert len(whole) == sum(one.method in ("transaction", "add_many") and one.error is None for one in late)
    assert sum(map(len, (worker.unsettled for worker in workers))) > 0
