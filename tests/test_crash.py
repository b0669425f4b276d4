"""A writer is killed at any moment: what it acknowledged is there, of the rest nothing is half there.

`pytest --long` kills 600 writers of one file in a row instead of 40.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from crash_writer import Operation, Writers
from support import PAST, SETS, WORDS

from neardup_db import FormatError, Index, ParameterError


class Model:
    """What the index must hold: (text, expiry) by key in the order of insertion, and the seed of its scheme.

    Texts are of families: all of one match each other, those of two share no word."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[str, float | None]] = {}
        self.seed = SETS.seed

    def after(self, operation: Operation) -> list[Model]:
        """The states after each transaction of an operation; the last one is that after all of it."""
        if operation[0] in ("many", "merge") and operation[2] is not None:
            records, every = operation[1:]
            parts = [["many", records[first : first + every], None] for first in range(0, len(records), every)]
        else:
            parts = [operation]
        states = [self]
        for part in parts:
            states.append(copy.deepcopy(states[-1]))
            states[-1].apply(part)
        return states[1:]

    def apply(self, operation: Operation) -> None:
        """One transaction."""
        name, *arguments = operation
        if name == "add":
            self._put(*arguments)
        elif name == "if-new":
            key, text = arguments
            if not any(family(other) == family(text) for other in self.visible().values()):
                self._put(key, text)
        elif name in ("many", "merge"):
            for key, text in arguments[0]:
                self._put(key, text)
        elif name == "transaction":
            for one in arguments[0]:
                self.apply(one)
        elif name == "delete_many":
            for key in arguments[0]:
                self.documents.pop(key, None)
        elif name == "keep_newest":
            for key in list(self.visible())[: -arguments[0]]:
                del self.documents[key]
        elif name == "expire":
            self.documents = {key: one for key, one in self.documents.items() if one[1] is None}
        elif name == "rebuild":
            self.seed = arguments[0]
        else:
            assert name in ("compact", "backup")

    def _put(self, key: str, text: str, expires_at: float | None = None) -> None:
        self.documents.pop(key, None)
        self.documents[key] = text, expires_at

    def visible(self) -> dict[str, str]:
        """Texts by key, of what has not expired (all expiries of this test lie in the past)."""
        return {key: text for key, (text, expires_at) in self.documents.items() if expires_at is None}

    def state(self) -> Any:
        """What `state_of` gives for an index that holds this."""
        families: dict[str, list[str]] = {}
        for key, text in self.visible().items():
            families.setdefault(family(text), []).append(key)
        clusters = sorted(tuple(keys) for keys in families.values() if len(keys) > 1)
        return [(key, *one) for key, one in self.documents.items()], clusters, self.seed


def state_of(index: Index) -> Any:
    """Documents in their order, clusters, and the seed of the scheme."""
    sql = "SELECT key, text, expires_at / 1000.0 FROM neardup_document ORDER BY id"
    rows = index.connection.execute(sql).fetchall()
    return rows, sorted(one.keys for one in index.clusters()), index.scheme.seed  # type: ignore[attr-defined]


def family(text: str) -> str:
    """The first word says it."""
    return text.split()[0]


def some_text(rng: random.Random) -> str:
    """A member of one of forty families: four words of the family, one of its own."""
    number = rng.randrange(40)
    return f"{number}a {number}b {number}c {number}d {number}e {rng.randrange(5)}"


def some_operation(rng: random.Random, folder: Path) -> Operation:
    """Any of the writes, with large and small transactions."""

    def key() -> str:
        return f"k{rng.randrange(300)}"

    def records(number: int) -> list[list[str]]:
        first = rng.randrange(1_000_000_000)
        return [[f"m{first + i}", some_text(rng)] for i in range(number)]

    return rng.choice(
        [
            lambda: ["add", key(), some_text(rng), None],
            lambda: ["add", key(), some_text(rng), rng.choice([None, float(int(PAST))])],
            lambda: ["if-new", f"n{rng.randrange(1_000_000_000)}", some_text(rng)],
            lambda: ["delete_many", [key() for _ in range(rng.choice([1, 1, 20]))]],
            lambda: ["expire"],
            lambda: ["many", records(rng.choice([3, 60, 150])), None],
            lambda: ["many", records(60), 20],
            lambda: ["merge", records(rng.choice([3, 60])), rng.choice([None, 20])],
            lambda: ["keep_newest", rng.choice([20, 100])],
            lambda: ["transaction", [["add", key(), some_text(rng), None], ["delete_many", [key()]], ["many", records(3), None]]],
            lambda: ["rebuild", rng.randrange(1, 100)],
            lambda: rng.choice([["compact"], ["backup", str(folder / f"{rng.randrange(1_000_000_000)}.copy")]]),
        ]
    )()


@pytest.mark.posix("forks")
@pytest.mark.parametrize("checksums", [False, True], ids=["plain", "checksums"])
def test_what_a_killed_writer_acknowledged_is_there_and_nothing_is_half_there(
    tmp_path: Path, more_rounds: bool, long_run: bool, writers: Writers, checksums: bool
) -> None:
    """One file lives through one SIGKILL after another, at random moments and in the middle of writes: it opens, check() finds
    nothing, it holds every acknowledged operation, and at most the next one too, whole."""
    path, rng = tmp_path / "index.db", random.Random(6)
    model = Model()
    Index(path, SETS, text=WORDS, store_text=True, checksums=checksums).close()
    rounds = acknowledged = 0
    while writers.killed < (600 if long_run else 40 if more_rounds else 6):
        rounds += 1
        operations = [some_operation(rng, tmp_path) for _ in range(60)]
        inside = rng.random() < 0.4  # by itself, in the middle of a write; or from outside, at any moment
        job = {
            "path": str(path),
            "operations": operations,
            "small": rng.random() < 0.5,
            "countdown": inside and rng.randint(1, rng.choice([50, 2000, 10000])),
        }
        done = writers.run(job, None if inside else rng.random() * rng.choice([0.02, 0.2, 0.6]))
        for operation in operations[:done]:
            model.apply(operation)
        possible = [model, *(model.after(operations[done]) if done < len(operations) else ())]
        with Index(path) as index:
            assert index.check().problems == ()
            held = state_of(index)
        holds = [one for one in possible if one.state() == held]
        assert holds, (
            f"round {rounds}: after {done} operations none of {len(possible)} possible states, next {operations[done:][:1]}"
        )
        model = holds[-1]
        acknowledged += done
        look_at_copies(tmp_path)
    assert acknowledged > writers.killed
    print(f"\n{rounds} rounds, {writers.killed} writers killed, {acknowledged} operations acknowledged, all of them there")


def look_at_copies(folder: Path) -> None:
    """A backup is whole, or, if it was under way, empty."""
    for copied in folder.glob("*.copy"):
        try:
            with Index(copied) as index:
                assert index.check().ok
        except (ParameterError, FormatError):
            Index(copied, SETS).close()
    for left in folder.glob("*.copy*"):
        left.unlink()
