"""What many processes do to one file at once, each reporting every operation as it begins and as it has ended.

`python crash_writer.py` forks them; a job with a "role" is done here. A line of a report is JSON: {"thread", "number", "begun",
"file", "operation"}, and later {"number", "ended", and "answer" or "raised"}. What has begun and has not ended when a process is
killed is the only thing of which nobody knows whether it has happened. Times are those of the machine's one clock.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from crash_writer import DeadlyDisk, Operation, apply, say
from load import run_threads
from support import PAST
from verdicts import STATES, TEXTS, Verdicts, audit

from neardup_db import Index, NearDupError, limits

HUNG = 120
"""Seconds without an operation that begins or ends, after which a process says where its threads are, and ends."""

# ---- reporting -----------------------------------------------------------------------------------------------------------


class Life:
    """A process: its files, its choices, and its report."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.path, self.second = job["path"], job["second"]
        self.name = job["name"]
        self.rounds = job["rounds"]
        self.keys: dict[str, str] = job.get("keys", {})
        self.random = random.Random(job["name"])
        self.verdicts = Verdicts(Path(job["verdicts"]))
        self._numbers = itertools.count()
        self._line = threading.Lock()

    def tell(self, **told: Any) -> None:
        """One line, whole, unless the process is killed in it."""
        faulthandler.dump_traceback_later(HUNG, exit=True)
        with self._line:
            say(json.dumps(told))

    def begin(self, operation: Operation, file: str | None = None) -> int:
        """An operation begins; its number."""
        number = next(self._numbers)
        self.tell(number=number, begun=time.monotonic_ns(), file=file or self.path, operation=operation)
        return number

    def end(self, number: int, **outcome: Any) -> None:
        """It has ended."""
        self.tell(number=number, ended=time.monotonic_ns(), **outcome)

    def do(self, operation: Operation, work: Callable[[], Any], file: str | None = None) -> Any:
        """All of an operation; None where it raised an error of the package, which is told."""
        number = self.begin(operation, file)
        try:
            answer = work()
        except NearDupError as error:
            self.end(number, raised=[type(error).__name__, str(error)])
            return None
        self.end(number, answer=answer)
        return answer

    def text(self) -> str:
        """Any of the texts."""
        return self.random.choice(TEXTS)


class Undone(Exception):
    """Raised to roll a transaction back on purpose."""


def change(index: Index, operation: Operation) -> Any:
    """Do to an index what an operation says; the answer as the report has it."""
    name, *arguments = operation
    if name == "rolled back":
        try:
            with index.transaction():
                for one in arguments[0]:
                    change(index, one)
                raise Undone
        except Undone:
            return None
    if name == "partly":  # a nested transaction is rolled back, the outer one is not
        with index.transaction():
            for one in arguments[0]:
                change(index, one)
            change(index, ["rolled back", arguments[1]])
        return None
    if name == "asking":  # a generator of records that asks the index

        def records() -> Iterator[Any]:
            for key, text in arguments[0]:
                index.query(text, limit=2)
                assert key not in index
                yield key, text
                len(index)

        return index.add_many(records()).added
    if name == "if-new":
        return [row(match) for match in index.add_if_new(*arguments)]
    if name == "transaction":
        with index.transaction():
            for one in arguments[0]:
                change(index, one)
        return None
    return apply(index, operation)


def row(match: Any) -> list[Any]:
    """A match as the report has it."""
    return [match.key, match.similarity, match.distance]


def ask(index: Index, operation: Operation, other: Index | None = None) -> Any:
    """What an index answers, as the report has it."""
    name, *arguments = operation
    if name == "query":
        return [row(match) for match in index.query(arguments[0], limit=arguments[1])]
    if name == "query_many":
        return [[row(match) for match in matches] for matches in index.query_many(arguments[0])]
    if name in ("pairs", "pairs with"):
        pairs = index.pairs() if name == "pairs" else index.pairs_with(other)
        return [[one.key_a, one.key_b, one.similarity, one.distance] for one in pairs]
    if name == "clusters":
        return [list(one.keys) for one in index.clusters()]
    if name == "len":
        return len(index)
    if name == "iter":
        return list(index)
    assert name == "get"
    return [one and one.text for one in index.get_many(arguments[0])]


def some_question(life: Life) -> Operation:
    """Any of the questions."""
    return life.random.choice(
        [
            lambda: ["query", life.text(), None],
            lambda: ["query", life.text(), 3],
            lambda: ["query_many", [life.text() for _ in range(3)]],
            lambda: ["pairs"],
            lambda: ["clusters"],
            lambda: ["len"],
            lambda: ["iter"],
            lambda: ["get", life.random.sample(list(life.keys), min(3, len(life.keys)))],
        ]
    )()


# ---- roles ---------------------------------------------------------------------------------------------------------------


def write(life: Life) -> None:
    """Three threads with keys of their own: they add, replace and remove, alone and in transactions, some rolled back."""
    with Index(life.path, durability="normal", timeout=HUNG / 2) as index:

        def thread(number: int) -> None:
            rng = random.Random(f"{life.name} {number}")
            mine = dict(sorted(life.keys.items())[number::3])
            fresh = (f"{life.name}-{number}-{count}" for count in itertools.count())

            def records(count: int) -> list[list[str]]:
                return [[next(fresh), rng.choice(TEXTS)] for _ in range(count)]

            def some(count: int) -> list[str]:
                return rng.sample(sorted(mine), min(count, len(mine)))

            def old_or_new() -> str:
                return rng.choice(some(1) or [next(fresh)])

            def one() -> Operation:
                choices: list[Callable[[], Operation]] = [
                    lambda: ["add", next(fresh), rng.choice(TEXTS), None],
                    lambda: ["add", old_or_new(), rng.choice(TEXTS), rng.choice([None, None, float(int(PAST))])],
                    lambda: ["many", records(rng.choice([2, 12])), None],
                    lambda: ["delete_many", some(rng.choice([1, 5]))],
                ]
                return rng.choice(choices)()

            def operation() -> Operation:
                if len(mine) > 24:
                    return ["delete_many", some(16)]
                choices: list[Callable[[], Operation]] = [
                    one,
                    one,
                    lambda: ["if-new", next(fresh), rng.choice(TEXTS)],
                    lambda: ["many", records(14), 5],
                    lambda: ["asking", records(rng.choice([3, 12]))],
                    lambda: ["expire"],
                    lambda: ["transaction", [one() for _ in range(3)]],
                    lambda: ["rolled back", [one() for _ in range(3)]],
                    lambda: ["partly", [one() for _ in range(2)], [one() for _ in range(2)]],
                    lambda: ["compact"],
                ]
                return rng.choice(choices)()

            for _ in range(life.rounds):
                chosen = operation()
                answer = life.do(chosen, partial(change, index, chosen))
                for step in effects(chosen, answer):
                    for key, text in step.items():
                        mine.pop(key, None)
                        if text is not None:
                            mine[key] = text
                if rng.random() < 0.5:
                    text = rng.choice([mine[key] for key in some(1)] or TEXTS)
                    life.do(["query", text, None], partial(ask, index, ["query", text, None]))

        run_threads(*(partial(thread, number) for number in range(3)))


def effects(operation: Operation, answer: Any) -> list[dict[str, str | None]]:
    """What an operation leaves of each key, a dictionary a transaction; None = nothing that is seen. answer: as it was told."""
    name, *arguments = operation
    if name in ("rolled back", "expire", "compact") or (name == "if-new" and answer):
        return []
    if name == "add":
        return [{arguments[0]: arguments[1] if arguments[2] is None else None}]
    if name == "if-new":
        return [{arguments[0]: arguments[1]}]
    if name == "delete_many":
        return [dict.fromkeys(arguments[0])]
    if name in ("many", "asking"):
        records, every = arguments[0], arguments[1] if name == "many" else None
        every = every or len(records)
        return [dict(records[first : first + every]) for first in range(0, len(records), every)]
    if name in ("transaction", "partly"):
        after: dict[str, str | None] = {}
        for one in arguments[0]:
            for step in effects(one, None):
                after.update(step)
        return [after]
    return []


def rebuild(life: Life) -> None:
    """Rebuilds among all states, by an index of its own, and by one on a connection whose transactions it often takes back."""
    connection = apsw.Connection(life.path)
    connection.set_busy_timeout(HUNG * 500)
    with Index(life.path, timeout=HUNG / 2) as own, Index(connection) as given, Index(life.second, timeout=HUNG / 2) as second:

        def to(index: Index, number: int) -> None:
            index.rebuild(STATES[number].case.scheme, STATES[number].case.rules)

        def taken_back(index: Index) -> None:
            try:
                with index.transaction():
                    for _ in range(2):
                        to(index, life.random.randrange(len(STATES)))
                        index.add(f"{life.name} taken back", life.text(), if_exists="replace")
                        if life.random.random() < 0.3:
                            audit(index, life.verdicts)
                    raise Undone
            except Undone:
                pass

        def by_hand(number: int, end: str) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                to(given, number)
                given.add(f"{life.name} by hand", life.text(), if_exists="replace")
                given.delete(f"{life.name} by hand")
            finally:
                connection.execute(end)

        for turn in range(life.rounds):
            number = life.random.randrange(len(STATES))
            way = life.random.choice(["own", "own", "given", "commit", "rollback", "rollback", "undone", "second", "same"])
            if way == "own":
                life.do(["rebuild", number], partial(to, own, number))
            elif way == "given":
                life.do(["rebuild", number], partial(to, given, number))
            elif way == "commit":
                life.do(["rebuild", number], partial(by_hand, number, "COMMIT"))
            elif way == "rollback":
                life.do(["nothing"], partial(by_hand, number, "ROLLBACK"))
            elif way == "undone":
                life.do(["nothing"], partial(taken_back, life.random.choice([own, given])))
            elif way == "second":
                life.do(["rebuild", number], partial(to, second, number), life.second)
            else:
                life.do(["nothing"], own.rebuild)
            for index in life.random.sample([own, given], 1):
                question = some_question(life)
                life.do(question, partial(ask, index, question))
                if life.random.random() < 0.5:
                    adding = ["add", f"{life.name} {turn}", life.text(), None]
                    life.do(adding, partial(change, index, adding))
    connection.close()


def read(life: Life) -> None:
    """Three threads ask; they hold generators across whatever happens, and ask indexes that slept for long."""
    with Index(life.path) as index, Index(life.path, read_only=True) as sleeper, Index(life.second) as second:

        def thread(number: int) -> None:
            rng = random.Random(f"{life.name} {number}")
            held: list[Held] = []
            for turn in range(life.rounds):
                question = some_question(life)
                life.do(question, partial(ask, index, question))
                if rng.random() < 0.3:
                    life.do(["pairs with"], partial(ask, index, ["pairs with"], second))
                if rng.random() < 0.1:
                    question = some_question(life)
                    life.do(question, partial(ask, sleeper, question))
                held = [one for one in held if rng.random() < 0.7 or not go_on(life, one, rng.choice([1, 50, ALL]))]
                if len(held) < 3 and turn + 1 < life.rounds:
                    held += begin(life, index, second, rng.choice(["pairs", "pairs", "pairs with", "iter"]))
            for one in held:
                go_on(life, one, ALL)

        run_threads(*(partial(thread, number) for number in range(3)))


class Held(NamedTuple):
    """A generator, its number in the report, and what it has given."""

    number: int
    generator: Iterator[Any]
    given: list[Any]


ALL = 10**9


def begin(life: Life, index: Index, second: Index, name: str) -> list[Held]:
    """A generator; none where it is refused."""
    number = life.begin(["held", name])
    try:
        generator = iter(index) if name == "iter" else index.pairs() if name == "pairs" else index.pairs_with(second)
    except NearDupError as error:
        life.end(number, raised=[type(error).__name__, str(error)])
        return []
    return [Held(number, generator, [])]


def go_on(life: Life, held: Held, count: int) -> bool:
    """Read on; whether that was all."""
    before = len(held.given)
    try:
        for one in itertools.islice(held.generator, count):
            held.given.append(one if isinstance(one, str) else [one.key_a, one.key_b, one.similarity, one.distance])
    except NearDupError as error:
        life.end(held.number, raised=[type(error).__name__, str(error)], answer=held.given)
        return True
    if len(held.given) < before + count:
        life.end(held.number, answer=held.given)
        return True
    return False


def look(life: Life) -> None:
    """Opens and closes, to read or to write, and compares all answers of one state with each other."""
    for turn in range(life.rounds):
        with Index(life.path, read_only=turn % 2 == 0) as index:
            question = some_question(life)
            life.do(question, partial(ask, index, question))
        connection = apsw.Connection(life.path)
        connection.set_busy_timeout(HUNG * 500)
        with Index(connection) as index:
            connection.execute("BEGIN")
            life.do(["audit"], lambda index=index: len(audit(index, life.verdicts)))
            connection.execute("ROLLBACK")
        connection.close()


ROLES: dict[str, Callable[[Life], None]] = {"write": write, "rebuild": rebuild, "read": read, "look": look}


def live(job: dict[str, Any]) -> None:
    """The life of a process, in which all that is read in pieces is read in small ones."""
    say(f"ready {os.getpid()}")
    limits.RANGE_FIRST, limits.RANGE_MOST, limits.SET_BLOCK, limits.LISTED_PAGE = 40, 80, 64, 30
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with disk(job["countdown"]):
        ROLES[job["role"]](Life(job))
    faulthandler.cancel_dump_traceback_later()
    say("end")


@contextmanager
def disk(countdown: int) -> Iterator[None]:
    """One that kills the process in the middle of its n-th write; 0 = the real one."""
    if countdown:
        with DeadlyDisk(countdown):
            yield
    else:
        yield
