"""How long one question takes, when each is asked once: two installed versions and their peers in turns, slice by slice.

    python benchmarks/latency.py FOLDER BEFORE AFTER [--codes 1000000] [--texts 1000000] [--questions 10000] [--peers PYTHON]

BEFORE and AFTER are the Python programs of two environments, each with one version installed; --peers that of one with faiss
(default BEFORE). The files are made in FOLDER by BEFORE, unless they are there, and stand in the system's cache. Every index is
asked in a process of its own, which has asked 1,000 other questions before: its cache holds the upper pages of the tables.
"Once": different questions, each asked once. "Warm": 100 of them, ten times. Two threads: the questions of "once" shared by two
threads of one Index, against one thread, by the rate; hashlib: two threads that hash 64 KB at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

SLICE, BEFORE_THEM, WARM = 200, 1000, 100
MULTI_HASH = [(4, 16, 0), (2, 20, 1), (2, 24, 1), (2, 28, 1)]


# ---- the files ---------------------------------------------------------------------------------------------------------


def make(folder: Path, what: str, count: int, questions: int) -> None:
    """An index of so many documents or codes, and the questions beside it."""
    from neardup_db import BinaryCode, Index, MinHash

    path, asked = folder / f"{what}{count}.db", folder / f"{what}{count}.json"
    wanted = questions + BEFORE_THEM
    if what == "texts":
        import corpus

        documents = iter(corpus.Corpus(count + wanted))
        with Index(path, MinHash(), durability="normal") as index:
            index.add_many(islice(documents, count))
        asked.write_text(json.dumps([text for _, text in documents]))
        return
    import codes as made
    import numpy as np

    stored = made.planted(count, 64, 3, count // 100)
    np.save(folder / f"codes{count}.npy", stored)
    with Index(path, BinaryCode(64, 3, expected=count), record_matches=False, durability="normal") as index:
        index.add_codes(range(count), stored)
    asked.write_text(json.dumps([int.from_bytes(code.tobytes(), "big") for code in made.questions(stored, 3, wanted)]))


# ---- what is asked, in a process of its own --------------------------------------------------------------------------------


def asker(folder: Path, what: str, count: int, kind: str, questions: Sequence[Any]) -> tuple[Callable[[Any], Any], Sequence[Any]]:
    """A call that asks one question, and the questions as it takes them."""
    if kind == "ours":
        from neardup_db import Index

        index = Index(folder / f"{what}{count}.db")
        return (index.query if what == "texts" else index.query_code), questions
    import numpy as np
    from code_indexes import FaissMultiHash, SqliteByHand

    codes = np.load(folder / f"codes{count}.npy")
    place = folder / f"by_hand{count}"
    shutil.rmtree(place, ignore_errors=True)  # of a run before
    place.mkdir()
    if kind == "sqlite3":
        other: Any = SqliteByHand(64, 3, place)
    else:
        hashes, width, flips = map(int, kind.split("x"))
        other = FaissMultiHash(64, 3, place, hashes=hashes, width=width, flips=flips)
    other.load(codes)
    return other.ask, other.prepared(np.array(questions, np.uint64).astype(">u8").view(np.uint8).reshape(-1, 8))


def times(ask: Callable[[Any], Any], questions: Sequence[Any]) -> list[float]:
    """Microseconds of each."""
    taken = []
    for question in questions:
        start = time.perf_counter()
        ask(question)
        taken.append((time.perf_counter() - start) * 1e6)
    return taken


def rate(work: Callable[[int], None], threads: int, count: int) -> float:
    """Calls a second of `work` by so many threads, which share the calls."""
    ready = threading.Barrier(threads + 1)

    def run(first: int) -> None:
        ready.wait()
        for number in range(first, count, threads):
            work(number)

    all_of_them = [threading.Thread(target=run, args=(first,)) for first in range(threads)]
    for thread in all_of_them:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in all_of_them:
        thread.join()
    return count / (time.perf_counter() - start)


def worker(folder: Path, what: str, count: int, kind: str) -> None:
    """Answers lines of two numbers with the times of the questions from one to the other; "warm"; "threads N"."""
    questions = json.loads((folder / f"{what}{count}.json").read_text())
    ask, asked = asker(folder, what, count, kind, questions)
    times(ask, asked[-BEFORE_THEM:])
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "warm":
            told: Any = times(ask, list(asked[:WARM]) * 11)[WARM:]
        elif words[0] == "threads":
            told = rate(lambda number: ask(asked[number]), int(words[1]), int(words[2]))
        else:
            told = times(ask, asked[int(words[0]) : int(words[1])])
        print(json.dumps(told), flush=True)


# ---- in turns --------------------------------------------------------------------------------------------------------------


class Asked:
    """A worker."""

    def __init__(self, python: str, *arguments: str) -> None:
        command = [python, __file__, "worker", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.once: list[float] = []
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def told(self, line: str) -> Any:
        """What it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()


def section(folder: Path, what: str, count: int, questions: int, names: dict[str, tuple[str, str]]) -> list[tuple[Any, ...]]:
    """A row for each index: once p50, p99, warm p50, p99, and what two threads do beside one."""
    from measure import note, percentiles

    with (folder / f"{what}{count}.db").open("rb") as file:  # from the system's cache for all: the first one would read the disk
        while file.read(1 << 24):
            pass
    asked = {name: Asked(python, str(folder), what, str(count), kind) for name, (python, kind) in names.items()}
    note(f"{count:,} {what}: all are loaded")
    for start in range(0, questions, SLICE):
        for each in list(asked.values())[:: 1 if start // SLICE % 2 else -1]:
            each.once += each.told(f"{start} {min(start + SLICE, questions)}")
    rows = []
    for name, each in asked.items():
        two: Any = chr(8211)
        if names[name][1] == "ours":
            ratios = sorted(each.told(f"threads 2 {questions}") / each.told(f"threads 1 {questions}") for _ in range(3))
            two = round(ratios[1], 2)
        rows.append((f"{count:,} {what}", name, *percentiles(each.once), *percentiles(each.told("warm")), two))
        each.end()
    return rows


def of_hashlib() -> float:
    """How much more two threads hash than one."""
    block = bytes(65536)

    def work(_: int) -> None:
        hashlib.sha256(block).digest()

    return rate(work, 2, 10_000) / rate(work, 1, 10_000)


def main() -> None:
    """Makes, asks and prints."""
    if sys.argv[1] == "worker":
        return worker(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
    if sys.argv[1] == "make":
        return make(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--peers")
    parser.add_argument("--codes", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--texts", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--questions", type=int, default=10_000)
    given = parser.parse_args()
    from measure import machine, machine_lines, table

    rows = []
    for what, counts in (("codes", given.codes), ("texts", given.texts)):
        for count in counts:
            names = {"before": (given.before, "ours"), "after": (given.after, "ours")}
            if not (given.folder / f"{what}{count}.json").exists():
                made = [given.before, __file__, "make", str(given.folder), what, str(count), str(given.questions)]
                subprocess.run(made, check=True)
            if what == "codes":
                peers = given.peers or given.before
                for hashes, width, flips in MULTI_HASH:
                    names[f"faiss MultiHash {hashes} x {width}, flips {flips}"] = (peers, f"{hashes}x{width}x{flips}")
                names["sqlite3 by hand"] = (peers, "sqlite3")
            rows += section(given.folder, what, count, given.questions, names)
    header = ("stored", "asked", "once, p50 us", "p99", "warm, p50 us", "p99", "two threads")
    print(table(header, rows))
    print(f"\nhashlib, two threads: {of_hashlib():.2f}\n")
    print(machine_lines(machine()))
    return None


if __name__ == "__main__":
    main()
