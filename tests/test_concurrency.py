"""Many threads and processes with one index: nothing is lost, nothing is admitted twice, everything seen is whole."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from load import Together, Worker, in_another_thread, run_threads, story

from neardup_db import BusyError, Index, MinHash, NearDupError, SimHash

STORIES = [story(number) for number in range(60)]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_four_threads_add(tmp_path: Path, where: str) -> None:
    """An index shared by threads loses no document, and all of them answer while others write."""
    answers: list[int] = []

    def work(index: Index, number: int) -> None:
        for i in range(40):
            index.add(f"{number}-{i}", STORIES[i])
            answers.append(len(index.query(STORIES[i])))
            with index.transaction():
                index.add(f"{number}-{i} twice", STORIES[i])
                index.delete(f"{number}-{i} twice")

    target: Any = ":memory:" if where == "memory" else tmp_path / "index.db"
    with Index(target, MinHash(threshold=0.8), durability="normal") as index:
        run_threads(*(partial(work, index, number) for number in range(4)))
        assert len(answers) == 160 and min(answers) >= 1
        assert sorted(map(str, index)) == sorted(f"{number}-{i}" for number in range(4) for i in range(40))
        assert [len(one) for one in index.clusters()] == [4] * 40
        assert index.check().ok


def test_a_transaction_keeps_other_threads_out() -> None:
    """Another thread's write waits for the end of transaction(), and is not part of it when that is rolled back."""
    started, added = threading.Event(), threading.Event()

    def other(index: Index) -> None:
        started.set()
        index.add("other", STORIES[1])
        added.set()

    with Index(":memory:", SimHash()) as index:
        thread = threading.Thread(target=other, args=(index,))
        with pytest.raises(NearDupError), index.transaction():
            index.add("mine", STORIES[0])
            thread.start()
            started.wait()
            assert not added.wait(0.05)
            raise NearDupError
        thread.join()
        assert added.is_set() and list(index) == ["other"]


def test_add_many_beside_a_transaction_of_another_thread() -> None:
    """A load waits for another thread's transaction that begins among its records: it is none of its iterator's."""
    with Index(":memory:", SimHash()) as index, ExitStack() as stack:

        def records() -> Iterator[tuple[str, str]]:
            yield "first", STORIES[0]
            stack.enter_context(in_another_thread(index.transaction()))
            threading.Timer(0.05, stack.close).start()
            yield "second", STORIES[1]

        assert index.add_many(records(), commit_every=2).added == 2


def test_a_task_beside_a_transaction_of_another_thread() -> None:
    """An asyncio task that asks while another thread is inside a transaction waits for its end: it is no other task's."""
    with Index(":memory:", SimHash()) as index, ExitStack() as stack:
        index.add("first", STORIES[0])
        stack.enter_context(in_another_thread(index.transaction()))

        async def ask() -> int:
            threading.Timer(0.05, stack.close).start()
            return len(index.query(STORIES[0]))

        assert asyncio.run(ask()) == 1


PROCESSES = THREADS = 8


def test_eight_processes_and_eight_threads(tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """Eight processes, and eight threads of another one, add, ask, replace, delete and expire on one file: each finds what was
    acknowledged to it, no document is lost or doubled, each story is admitted once, and nobody is told that the file is busy."""
    path, rounds = tmp_path / "index.db", 2500 if long_run else 80 if more_rounds else 20
    index = Index(path, MinHash(threshold=0.8), durability="normal", timeout=600)
    processes = Together(
        "go()\n"
        f"with Index({str(path)!r}, durability='normal', timeout=600) as index:\n"
        "    worker = Worker(index, number)\n"
        f"    worker.run({rounds})\n"
        "print(worker.account())\n",
        PROCESSES,
    )
    workers = [Worker(index, PROCESSES + number) for number in range(THREADS)]
    run_threads(*(partial(worker.run, rounds) for worker in workers))
    accounts = [json.loads(text) for text in [*processes.outputs(3600), *(worker.account() for worker in workers)]]
    index.expire()
    assert sorted(map(str, index)) == sorted(key for account in accounts for key in account["keys"])
    assert sorted(number for account in accounts for number in account["admitted"]) == list(range(rounds))
    assert index.check().problems == ()
    index.close()


@pytest.mark.posix("forks")
def test_readers_see_whole_states(tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """While four processes and four threads write, every state that a reader sees has all its invariants: each document with its
    fingerprint, each fingerprint with all its rows, edges and labels of all."""
    path, rounds = tmp_path / "index.db", 800 if long_run else 40 if more_rounds else 10
    index = Index(path, MinHash(threshold=0.8), durability="normal", timeout=600)
    writers = Together(
        f"go()\nwith Index({str(path)!r}, durability='normal', timeout=600) as index:\n    Worker(index, number).run({rounds})\n",
        4,
    )
    done = threading.Event()
    seen = []

    def read() -> None:
        with Index(path, read_only=True) as reader:
            while not done.is_set() or not seen:
                assert reader.check().problems == ()
                seen.append(len(reader))

    def write() -> None:
        try:
            run_threads(*(partial(Worker(index, 4 + number).run, rounds) for number in range(4)))
            writers.outputs(3600)
        finally:
            done.set()

    run_threads(read, write)
    assert index.check().problems == () and len(set(seen)) > 1
    index.close()


def test_threads_see_both_or_none(tmp_path: Path) -> None:
    """Threads that share an index never see half of what another one of them writes in one transaction."""
    done = threading.Event()
    seen: set[int] = set()

    with Index(tmp_path / "index.db", MinHash(threshold=0.8), durability="normal") as index:

        def write() -> None:
            try:
                for number in range(1000):
                    if number >= 20 and seen == {0, 2}:
                        break
                    with index.transaction():
                        index.add("a", story(number))
                        index.add("b", story(number))
                    index.delete_many(["a", "b"])
            finally:
                done.set()

        def read() -> None:
            while not done.is_set():
                found = [one for one in index.get_many(["a", "b"]) if one is not None]
                seen.add(len(found))
                assert len(found) != 1
                assert len(index) in (0, 2)

        run_threads(write, *[read] * 7)
        assert seen == {0, 2}


def test_busy_only_past_the_timeout(tmp_path: Path) -> None:
    """A writer waits for another process's transaction as long as it was told, no shorter; reading never waits for it."""
    path = tmp_path / "index.db"
    with Index(path, SimHash()) as holder, Index(path, timeout=0.1) as index:
        holder.add("before", STORIES[0])
        with holder.transaction():
            start = time.monotonic()
            with pytest.raises(BusyError, match="timeout") as told:
                index.add("a", STORIES[1])
            assert isinstance(told.value, TimeoutError)
            assert time.monotonic() - start >= 0.1
            assert list(index) == ["before"]
        index.add("a", STORIES[1])
    with Index(path) as holder, Index(path, timeout=600) as index:
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with holder.transaction():
                entered.set()
                leave.wait()

        def add() -> None:
            entered.wait()
            threading.Timer(0.1, leave.set).start()
            index.add("b", STORIES[2])

        run_threads(hold, add)
        assert list(index) == ["before", "a", "b"]
