"""The power fails at any moment: "full" keeps all that was acknowledged, "normal" a prefix of it, and neither ever corrupts.

`pytest --long` cuts the power at more moments of more histories.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disks import ForgettingDisk
from support import SETS, WORDS

from neardup_db import FormatError, Index, ParameterError, limits

NOTHING = "no index"
"""The state before the first one: the file is missing, empty, or a database without tables."""


def history(rng: random.Random, length: int) -> list[Callable[[Index], Any]]:
    """Operations at random, each of which is one transaction; the number of documents stays small."""

    def text() -> str:
        return " ".join(rng.choice("abcdefghijkl") * 3 for _ in range(6))

    def many(first: int) -> Callable[[Index], Any]:
        records = [(f"{first}-{i}", text()) for i in range(40)]
        return lambda index: index.add_many(records)

    def one(number: int) -> Callable[[Index], Any]:
        words = text()
        return rng.choice(
            [
                lambda index: index.add(number, words),
                lambda index: index.add(rng.randrange(number + 1), words, if_exists="replace"),
                lambda index: index.add(number, words, expires_at=1_000_000_000),
                lambda index: index.add(number, words, metadata={"long": words * 300}),
                lambda index: index.delete(rng.randrange(number + 1)),
                lambda index: index.expire(),
                many(number),
                lambda index: index.keep_newest(30),
                lambda index: index.rebuild(),
                lambda index: index.compact(),
            ]
        )

    return [one(number) for number in range(length)]


def state_of(index: Index) -> Any:
    """What was written: documents in their order, with the ids that say how many there have been."""
    sql = "SELECT id, key, text, length(metadata) FROM neardup_document ORDER BY id"
    counted = "SELECT seq FROM sqlite_sequence WHERE name = 'neardup_document'"
    generation = "SELECT value FROM neardup_setting WHERE name = 'generation'"
    return tuple(tuple(index.connection.execute(one).fetchall()) for one in (sql, counted, generation))


def state_after_power_cut(path: Path) -> Any:
    """The state of what is left, every invariant of which holds."""
    try:
        with Index(path) as index:
            assert index.check().problems == ()
            return state_of(index)
    except (ParameterError, FormatError):
        with Index(path, SETS, text=WORDS) as index:
            assert index.check().ok and len(index) == 0
        return NOTHING


@pytest.mark.parametrize("short", [False, True], ids=["SQLite's way", "ours"])
@pytest.mark.parametrize("durability", ["full", "normal"])
def test_power_cuts(
    durability: str, short: bool, tmp_path: Path, more_rounds: bool, long_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the disk had not been made to keep is lost or not, in any part: the index opens, check() finds nothing, and it
    holds all acknowledged operations ("full") or all up to one of them ("normal"), and perhaps the one that was at work. short:
    the log is moved into the file all the time."""
    if short:
        monkeypatch.setattr(limits, "LOG_PAGES", 20)
    cuts, lost = 0, []
    for seed in range(25 if long_run else 2 if more_rounds else 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        length, chances = 20, (0.15, 0.03 if durability == "full" else 0.06)
        if more_rounds:
            length, chances = 60, (0.5, 0.04 if long_run else 0.02)
        states, moments = cut_at_random(folder, durability, random.Random(seed), chances, short, length)
        for path, acknowledged in moments:
            left = state_after_power_cut(path)
            kept = [number for number, state in enumerate(states[: acknowledged + 2]) if state == left]
            assert kept, "a state that never was"
            lost.append(max(0, acknowledged - kept[-1]))
        cuts += len(moments)
    assert cuts > (3_000 if long_run else 50 if more_rounds else 15)
    print(f"\n{durability}: {cuts} power cuts, {sum(one > 0 for one in lost)} lost acknowledged operations, at most {max(lost)}")
    if durability == "full":
        assert max(lost) == 0
    else:
        assert max(lost) > 0  # else this disk would not show the difference


def cut_at_random(
    folder: Path, durability: str, rng: random.Random, chances: tuple[float, float], short: bool, length: int
) -> tuple[list[Any], list[tuple[Path, int]]]:
    """Run a history from the creation of the index on. Returns the states, from `NOTHING` on, after each operation; and of
    moments before a call to the disk what the power cut has left, with the number of the last state that was acknowledged."""
    states: list[Any] = [NOTHING]
    moments: list[tuple[Path, int]] = []
    with ForgettingDisk() as disk:

        def look() -> None:
            if rng.random() < chances[len(states) >= 3]:
                place, acknowledged = folder / f"cut {len(moments)}", len(states) - 1
                disk.cut_power(place, rng)
                moments.append((place / "index.db", acknowledged))

        disk.look = look
        with Index(folder / "index.db", SETS, text=WORDS, store_text=True, durability=durability) as index:
            states.append(state_of(index))
            for operation in history(rng, length):
                if not short and rng.random() < 0.1:  # now and then the log goes into the file early, and pages into the log
                    index.connection.execute("PRAGMA wal_autocheckpoint = 20; PRAGMA cache_size = 10; PRAGMA cache_spill = 1")
                operation(index)
                states.append(state_of(index))
    return states, moments
