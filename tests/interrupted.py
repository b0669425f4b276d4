"""Processes that are interrupted, by KeyboardInterrupt, wherever they are."""

from __future__ import annotations

import faulthandler
import itertools
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from crash_writer import Operation
from load import PATIENCE, asked_meanwhile, in_another_thread, run_threads
from processes import HUNG, change, effects
from support import SETS
from verdicts import STATES, TEXTS

from neardup_db import Index
from neardup_db.limits import READERS_MAX


class Interrupter:
    """Raises KeyboardInterrupt in the main thread, as Ctrl-C does, some time after a piece of work has begun."""

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._random = random.Random(seed)
        self._at_work = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, *_: Any) -> None:
        if self._at_work:
            raise KeyboardInterrupt

    def run(self, work: Callable[[], Any], within_s: float) -> bool:
        """Whether the work was interrupted."""
        faulthandler.dump_traceback_later(HUNG, exit=True)
        try:
            self._at_work = True
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, self._random.random() * within_s))
            try:
                work()
            finally:
                self._at_work = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            self.count += 1
            return True
        return False


def interrupted_questions(path: str, interrupts: int, tries: int) -> int:
    """Asks beside a transaction of another thread, and is interrupted so many times; how many questions that took."""
    interrupter = Interrupter(1)
    with Index(path, timeout=HUNG / 2) as index:
        questions: list[Callable[[], Any]] = [
            partial(index.query, TEXTS[1]),
            partial(index.query, TEXTS[1], group="g"),
            partial(index.query_many, TEXTS[:4]),
            partial(index.query_many, TEXTS[:4] * 20),
            partial(index.matches, "first 1"),
            partial(index.get, "first 1"),
            lambda: list(index.pairs()),
            lambda: list(itertools.islice(index.pairs(), 1)),
            index.clusters,
            partial(len, index),
        ]
        asked = 0
        while interrupter.count < interrupts and asked < tries:
            with in_another_thread(index.transaction()):
                for question in questions:
                    interrupter.run(question, 0.0004)
                    asked += 1
                assert len(index.query(TEXTS[1])) > 1
        assert interrupter.count >= interrupts, f"{interrupter.count} of {interrupts}"
        require_free(index, path)
    return asked


def interrupted_writes(path: str, interrupts: int, tries: int) -> int:
    """Adds, deletes and rebuilds, and is interrupted so many times: all of a call has happened, or nothing; how many calls."""
    interrupter = Interrupter(2)
    there: dict[str, str] = {}
    with Index(path, timeout=HUNG / 2) as index:
        there.update({one.key: one.text for one in index.get_many(list(index)) if one is not None})  # type: ignore[misc]
        called = 0
        rng = random.Random(3)
        while interrupter.count < interrupts and called < tries:
            called += 1
            key = f"key {called}"
            records = [[f"{key} {number}", rng.choice(TEXTS[1:])] for number in range(4)]
            operation: Operation = rng.choice(
                [
                    ["add", key, rng.choice(TEXTS[1:]), None],
                    ["add", rng.choice(sorted(there)), rng.choice(TEXTS[1:]), None],
                    ["if-new", key, rng.choice(TEXTS[1:])],
                    ["many", records, None],
                    ["asking", records],
                    ["transaction", [["many", records, None], ["delete_many", [rng.choice(sorted(there))]]]],
                    ["rolled back", [["many", records, None]]],
                    ["delete_many", rng.sample(sorted(there), 2)],
                ]
            )
            interrupter.run(partial(change, index, operation), 0.003)
            if called % 40 == 0:
                state = STATES[rng.randrange(len(STATES))].case
                interrupter.run(partial(index.rebuild, state.scheme, state.rules), 0.05)
            found = {one.key: one.text for one in index.get_many(list(index)) if one is not None}
            after = dict(there)
            for one, text in [item for step in effects(operation, None) for item in step.items()]:
                after.pop(one, None)
                if text is not None:
                    after[one] = text
            assert found in (there, after), f"half of {operation}"
            there = found  # type: ignore[assignment]
            if len(there) > 120:
                index.keep_newest(60)
                there = {one: there[one] for one in index}
            elif len(there) < 10:  # on a busy machine more adds are interrupted than deletes
                more = {f"{key} more {number}": text for number, text in enumerate(TEXTS[1:30])}
                index.add_many(more.items())
                there |= more
        assert interrupter.count >= interrupts, f"{interrupter.count} of {interrupts}"
        require_free(index, path)
    return called


def require_free(index: Index, path: str) -> None:
    """What was interrupted has left nothing: no lock, no reader, no cursor, no transaction."""
    assert not index.connection.in_transaction
    with in_another_thread(index.transaction()):
        assert asked_meanwhile(lambda: run_threads(*[partial(len, index)] * (2 * READERS_MAX))) == [None]
    assert asked_meanwhile(lambda: index.delete("no such key")) == [False]
    with Index(path, timeout=PATIENCE) as other:
        other.add("from elsewhere", TEXTS[1])
        other.delete("from elsewhere")
        assert other.check().problems == ()
        assert other.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
    faulthandler.cancel_dump_traceback_later()


def interrupted_creations(folder: str, number: int, files: int) -> None:
    """Creates one file after the other, all processes the same one at the same time; the first process is interrupted in it."""
    interrupter = Interrupter(4)
    for turn in range(files):
        sys.stdin.readline()
        path = Path(folder) / f"{turn}.db"

        def create(path: Path = path, turn: int = turn) -> None:
            with Index(path, SETS, timeout=HUNG / 2) as index:
                index.add(f"{number} {turn}", TEXTS[1])

        if number == 0:
            interrupter.run(create, 0.03)
        else:
            create()
        faulthandler.cancel_dump_traceback_later()
        print("done", flush=True)
