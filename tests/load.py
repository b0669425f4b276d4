"""A mixed load on one index, by threads or by processes, that keeps account of what was acknowledged."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from interpreter import interpreter

from neardup_db import ClosedError, Index, KeyNotFoundError


def story(name: Any) -> str:
    """A text that is like no other one's."""
    return f"story number{name} tells what happened to person{name} and family{name} in town{name} on day{name}"


class Worker:
    """Adds, asks and removes at random, under keys of its own; every worker offers the same stories to `add_if_new`."""

    def __init__(self, index: Index, number: int, seed: int = 0) -> None:
        self.index = index
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.counter = 0
        self.mine: dict[str, str] = {}
        self.admitted: list[int] = []
        self.operations = 0

    def run(self, rounds: int) -> None:
        """Runs so many rounds; AssertionError if an answer contradicts an operation acknowledged to this worker."""
        steps = (self.add, self.add_batch, self.delete, self.replace, self.expire, self.ask)
        for number in range(rounds):
            self.offer(number)
            self.random.choice(steps)()
            self.operations += 2

    def new(self) -> tuple[str, str]:
        """A key, and a text that is new or like one that it has."""
        self.counter += 1
        text = story(f"{self.number}x{self.counter}")
        copied = self.some_key()
        if copied is not None and self.random.random() < 0.3:
            text = self.mine[copied] + "!"
        return f"{self.number}-{self.counter}", text

    def offer(self, number: int) -> None:
        """A story that the others offer too: it was new, or the index has it."""
        key = f"{self.number}-story{number}"
        if not self.index.add_if_new(key, story(number)):
            self.admitted.append(number)
            self.mine[key] = story(number)
        assert len(self.index.query(story(number))) == 1

    def add(self) -> None:
        """An added document is found."""
        key, text = self.new()
        self.index.add(key, text, metadata={"by": self.number})
        self.mine[key] = text
        assert key in [match.key for match in self.index.query(text)]
        assert self.index.get(key).metadata == {"by": self.number}

    def add_batch(self) -> None:
        """So is a batch."""
        records = [self.new() for _ in range(5)]
        assert self.index.add_many(records).added == 5
        self.mine.update(records)
        assert None not in self.index.get_many([key for key, _ in records])

    def some_key(self) -> str | None:
        """One of its documents that is no story offered to all."""
        keys = [key for key in self.mine if "story" not in key]
        return self.random.choice(keys) if keys else None

    def delete(self) -> None:
        """A deleted document is gone."""
        key = self.some_key()
        if key is not None:
            assert self.index.delete(key)
            text = self.mine.pop(key)
            assert key not in self.index and key not in [match.key for match in self.index.query(text)]

    def replace(self) -> None:
        """A replaced document has the new text only."""
        key = self.some_key()
        if key is not None:
            text = story(f"{key} again {self.counter}")
            self.index.add(key, text, if_exists="replace")
            self.mine[key] = text
            assert [match.key for match in self.index.query(text)] == [key]

    def expire(self) -> None:
        """An expired document is invisible."""
        key, text = self.new()
        self.index.add(key, text, expires_at=time.time() - 1)
        assert key not in self.index
        self.index.expire()

    def ask(self) -> None:
        """Every match is a whole document, unless it was deleted since."""
        _, text = self.new()
        for match in self.index.query(text):
            try:
                assert self.index.get(match.key).key == match.key
            except KeyNotFoundError:
                assert match.key not in self.mine

    def account(self) -> str:
        """Keys and counts of its work, as JSON."""
        return json.dumps({"keys": sorted(self.mine), "admitted": self.admitted, "operations": self.operations})


def lines(run: Callable[[], Any]) -> int:
    """How many lines of Python run."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    gc.collect()
    gc.disable()  # what other tests left to be finalized has lines too
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def steps(index: Index, work: Callable[[], Any]) -> int:
    """Hundreds of steps that SQLite takes for some work."""
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return False

    index.connection.set_progress_handler(step, 100)
    try:
        work()
    finally:
        index.connection.set_progress_handler(None)
    return taken


def run_threads(*works: Any) -> None:
    """Run functions at once, each in a thread; raises the first error."""
    errors: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


PATIENCE = 10
"""Seconds after which a thread that should have gone on is given up."""


@contextmanager
def in_another_thread(context: Any) -> Iterator[None]:
    """Another thread is inside `context` meanwhile."""
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with context:
            entered.set()
            assert leave.wait(PATIENCE)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(PATIENCE)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def asked_meanwhile(ask: Callable[[], Any], seconds: float = PATIENCE) -> list[Any]:
    """What another thread is answered within so many seconds; nothing where it has to wait, perhaps for ever."""
    answers: list[Any] = []

    def wait() -> None:
        with suppress(ClosedError):  # where its turn comes too late
            answers.append(ask())

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from load import Worker, story
from neardup_db import *
number = int(sys.argv[1])
def go():
    print('ready', flush=True)
    sys.stdin.readline()
"""


class Together:
    """Processes that begin as nearly at once as can be; in their code `number` is theirs, `go()` waits for the others."""

    def __init__(self, code: str, count: int) -> None:
        self.running = [
            subprocess.Popen(
                [*interpreter(), "-c", PROGRAM + code, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd="/",
            )
            for number in range(count)
        ]
        for process in self.running:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in self.running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

    def outputs(self, timeout: float = 120) -> list[str]:
        """Their output. AssertionError if a process has failed."""
        outputs = [process.communicate(timeout=timeout)[0] for process in self.running]
        assert [process.returncode for process in self.running] == [0] * len(self.running)
        return outputs


def run_together(code: str, count: int) -> list[str]:
    """The output of processes that run at once."""
    return Together(code, count).outputs()


def in_child(work: Callable[[], str]) -> str:
    """The answer of a forked child, which has a minute for it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        signal.alarm(60)
        try:
            os.write(write_end, work().encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return told
