"""How many files of the package a call passes through.

    python benchmarks/trips.py

Counts Python calls of one `add`, one `add_many` of 20,000 records and one `query` in an open index that has answered such calls
before: the files of `neardup_db` whose functions ran, and the steps from one file to another in the order of first visits. A call
that enters a file which the trip has left before is a return; loops are counted once, so a return is a distinct pair of files.
Background threads are part of the trip.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import neardup_db
from neardup_db import Index, MinHash

PACKAGE = str(Path(neardup_db.__file__).parent) + "/"


class Trip:
    """The files that calls enter, and the distinct steps between files."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.returns: set[tuple[str, str]] = set()

    def follow(self, call: Callable[[], Any]) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        file = frame.f_code.co_filename[len(PACKAGE) :]
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        origin = "" if caller is None else caller.f_code.co_filename[len(PACKAGE) :]
        if file == origin:
            return
        if file not in self.files:
            self.files.append(file)
        else:
            self.returns.add((origin, file))


def main() -> None:
    chance = random.Random(1)
    words = [f"w{number}" for number in range(5000)]
    texts = [" ".join(chance.choices(words, k=250)) for _ in range(20_100)]
    print(f"neardup-db {neardup_db.__version__}, MinHash()\n\n| call | files | returns |\n| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, Index(f"{folder}/a.db", MinHash()) as index:
        for number, text in enumerate(texts[:100]):
            index.add(number, text)
            index.query(text)
        index.add_many(enumerate(texts[100:2100], 100))
        last = texts[-1]
        calls: dict[str, Callable[[], Any]] = {
            "add": lambda: index.add(-1, last),
            "add_many": lambda: index.add_many(enumerate(texts[2100:], 2100)),
            "query": lambda: index.query(last),
        }
        for name, call in calls.items():
            trip = Trip()
            trip.follow(call)
            print(f"| `{name}` | {len(trip.files)} | {len(trip.returns)} |")


if __name__ == "__main__":
    main()
