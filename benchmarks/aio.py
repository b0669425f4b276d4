"""How long AsyncIndex holds the loop of asyncio up, and how many calls a second it serves.

    python benchmarks/aio.py FOLDER [--documents 50000] [--seconds 20] [--tasks 200]

Tasks ask and write at once on one file. Beside them one loads documents from an asynchronous iterable, one lists all pairs, and
one asks for a text of a megabyte. "Held": the time from the beginning to the end of one step of the loop, of any task. The wait
for Python's lock is in it, and on a busy machine that for a processor; "CPU" has neither. "Late": how much later than after 1 ms
a task goes on that sleeps for 1 ms. "Nothing": as many tasks without an index, in the same minutes. "Index on the loop": the same
calls of an Index, made on the loop's thread.

Python's collections of garbage stop all threads, and a step of the loop waits for one that another thread does. "Collecting" is
the longest one by the clock, in any thread; "apart" is a step without the collections that came in it.
"""

from __future__ import annotations

import argparse
import asyncio
import asyncio.events
import contextlib
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import Corpus
from measure import machine, machine_lines, note, percentiles, table

from neardup_db import Index, MinHash, ShortTextsWarning
from neardup_db.aio import AsyncIndex


@dataclass
class Steps:
    """Milliseconds of the steps of a loop, while a load goes on."""

    held: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    """`held` without the collections of garbage, of any thread, that came in the step."""
    collections: list[tuple[float, float]] = field(default_factory=list)
    """From when to when, in seconds."""


@contextlib.contextmanager
def steps_timed(load: Load) -> Iterator[Steps]:
    """Notes each step of the loop, while the load goes on."""
    handle: Any = asyncio.events.Handle
    real = handle._run
    steps = Steps()
    began: dict[int, float] = {}

    def collecting(phase: str, _: Any) -> None:
        if phase == "start":
            began[threading.get_ident()] = time.perf_counter()
        elif load.goes_on():
            steps.collections.append((began[threading.get_ident()], time.perf_counter()))

    def run(self: Any) -> None:
        known = max(0, len(steps.collections) - 1)
        before, cpu_before = time.perf_counter(), time.thread_time()
        real(self)
        if load.goes_on():
            cpu, now = time.thread_time() - cpu_before, time.perf_counter()
            collected = sum(max(0.0, min(end, now) - max(start, before)) for start, end in steps.collections[known:])
            steps.cpu.append(cpu * 1e3)
            steps.held.append((now - before) * 1e3)
            steps.apart.append((now - before - collected) * 1e3)

    handle._run = run
    gc.callbacks.append(collecting)
    try:
        yield steps
    finally:
        gc.callbacks.remove(collecting)
        handle._run = real


class OnTheLoop:
    """An Index with the methods of AsyncIndex that are used here, which call it at once."""

    def __init__(self, index: Index) -> None:
        self.index = index

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return getattr(self.index, name)(*args, **kwargs)

        return call

    async def add_many(self, records: AsyncIterator[Any], **kwargs: Any) -> Any:
        """Of an asynchronous iterable."""
        return self.index.add_many([record async for record in records], **kwargs)

    async def pairs(self) -> AsyncIterator[Any]:
        """One after the other."""
        for pair in self.index.pairs():
            await asyncio.sleep(0)
            yield pair

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Without a step of another task inside."""
        yield


class Load:
    """The tasks of one run."""

    def __init__(self, texts: list[str], seconds: float, tasks: int) -> None:
        self.texts = texts
        self.megabyte = " ".join(texts)[: 1 << 20]
        self.until = time.perf_counter() + seconds
        self.tasks = tasks
        self.counts: Counter[str] = Counter()
        self.late: list[float] = []
        self.waited: list[float] = []

    async def run(self, index: Any) -> None:
        """All of them, to the end."""
        works = [self.sleep()]
        if index is None:
            works += [self.idle() for _ in range(self.tasks)]
        else:
            works += [self.work(index, number) for number in range(self.tasks)]
            works += [self.load(index), self.list_pairs(index), self.large(index)]
        await asyncio.gather(*works)

    def goes_on(self) -> bool:
        return time.perf_counter() < self.until

    async def sleep(self) -> None:
        while self.goes_on():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.late.append((time.perf_counter() - before - 0.001) * 1e3)

    async def idle(self) -> None:
        while self.goes_on():
            await asyncio.sleep(0.01)
            self.counts["nothing"] += 1

    async def work(self, index: Any, number: int) -> None:
        choice = random.Random(number)
        count = 0
        while self.goes_on():
            text, count = choice.choice(self.texts), count + 1
            kind = choice.choices(("query", "add_if_new", "transaction"), (8, 2, 1))[0]
            before = time.perf_counter()
            if kind == "query":
                await index.query(text, limit=5)
            elif kind == "add_if_new":
                await index.add_if_new(f"{number}-{count}", f"{text} {number} {count}")
            else:
                async with index.transaction():
                    for part in range(3):
                        await index.add(f"{number}-{count}-{part}", f"{part} {text} {number * count}")
            if kind == "query":
                self.waited.append((time.perf_counter() - before) * 1e3)
            self.counts[kind] += 1

    async def load(self, index: Any) -> None:
        async def records() -> AsyncIterator[tuple[str, str]]:
            for place, text in enumerate(self.texts[:2000]):
                yield f"load {self.counts['loads']} {place}", f"{text} {place}"

        while self.goes_on():
            await index.add_many(records())
            self.counts["loads"] += 1
            await asyncio.sleep(0.1)

    async def list_pairs(self, index: Any) -> None:
        while self.goes_on():
            async for _ in index.pairs():
                self.counts["pairs"] += 1
                if not self.goes_on():
                    return

    async def large(self, index: Any) -> None:
        while self.goes_on():
            await index.query(self.megabyte)
            self.counts["of a megabyte"] += 1
            await asyncio.sleep(0.05)


async def measured(name: str, path: Path | None, texts: list[str], given: argparse.Namespace) -> tuple[Any, ...]:
    """A row: how long the loop was held, how late a task was, and what was done."""
    load = Load(texts, given.seconds, given.tasks)
    if path is None:
        with steps_timed(load) as steps:
            await load.run(None)
    elif name.startswith("AsyncIndex"):
        async with AsyncIndex(path, timeout=600) as index:
            with steps_timed(load) as steps:
                await load.run(index)
            assert (await index.check()).ok
    else:
        with Index(path) as plain, steps_timed(load) as steps:
            await load.run(OnTheLoop(plain))
    note(f"{name}: {dict(load.counts)}")
    calls = sum(load.counts[kind] for kind in ("query", "add_if_new", "transaction")) / given.seconds
    waited = percentiles(load.waited) if load.waited else ("-", "-")
    held_p, cpu_p, late_p = percentiles(steps.held), percentiles(steps.cpu), percentiles(load.late)
    over, over_apart = (sum(each > 10 for each in values) for values in (steps.held, steps.apart))
    collecting = max((end - start for start, end in steps.collections), default=0.0) * 1e3
    return (
        name, len(steps.held), held_p[1], round(max(steps.held), 1), over, round(collecting, 1), round(max(steps.apart), 1),
        over_apart, cpu_p[1], round(max(steps.cpu), 1), late_p[1], round(max(load.late), 1), round(calls), *waited,
    )  # fmt: skip


def made(folder: Path, name: str, documents: list[tuple[str, str]]) -> Path:
    """A file of its own with so many documents."""
    path = folder / f"{name}.db"
    path.unlink(missing_ok=True)
    with Index(path, MinHash(), durability="normal") as index:
        index.add_many(documents)
    return path


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tasks", type=int, default=200)
    given = parser.parse_args()
    documents = [(str(key), text) for key, text in islice(iter(Corpus(given.documents)), given.documents)]
    texts = [text for _, text in documents[:5000]]
    rows = []
    for name in ("nothing", "AsyncIndex", "Index on the loop"):
        path = None if name == "nothing" else made(given.folder, name.replace(" ", "_"), documents)
        rows.append(asyncio.run(measured(name, path, texts, given)))
    header = (
        "", "steps", "held p99 ms", "held most", "above 10 ms", "collecting most", "apart most", "above 10 ms", "CPU p99 ms",
        "CPU most", "late p99 ms", "late most", "calls/s",
        "query p50 ms", "p99",
    )  # fmt: skip
    print(table(header, rows))
    print(machine_lines(machine()))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", ShortTextsWarning)
    main()
