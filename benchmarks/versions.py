"""Two versions of the package side by side, in turns: single adds, adds in transactions of 100, queries by text and by code,
`add_many` with estimates and exact, `query_many`, `pairs` and `neardup dedup`.

    python benchmarks/versions.py FOLDER BEFORE AFTER [--rounds 5] [--documents 20000] [--adds 6000] [--instructions]

BEFORE and AFTER are the Python programs of two environments, each with one version installed. Each run makes an index of its own
in FOLDER from the same texts of 250 words. Prints the medians of all rounds as a Markdown table with the ratios, and the machine.
--instructions counts instructions with `valgrind --tool=callgrind` instead of time: the same on a busy machine, and without
what the disk takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

TOGETHER = 100
"""Adds of a transaction."""

FEW, MANY = 100, 800
"""Calls in two runs whose instructions are counted; their difference is that of the calls."""


def texts(count: int, words: int) -> list[str]:
    """The same ones every time."""
    chance = random.Random(1)
    vocabulary = [f"w{number}" for number in range(5000)]
    return [" ".join(chance.choices(vocabulary, k=words)) for _ in range(count)]


def times(folder: str, durability: str, documents: int, adds: int) -> dict[str, float]:
    """Of one run, by the version that is installed: milliseconds of all of `add_many`, microseconds of a call else."""
    from neardup_db import Index, MinHash

    made = texts(documents + 2 * adds, 250)
    first, more, last = list(enumerate(made[:documents])), list(enumerate(made[documents:-adds], documents)), made[-adds:]

    def each(calls: Any) -> list[float]:
        taken = []
        for call in calls:
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e6)
        return sorted(taken)

    with tempfile.TemporaryDirectory(dir=folder) as place, Index(f"{place}/a.db", MinHash(), durability=durability) as index:
        start = time.perf_counter()
        index.add_many(first)
        bulk = (time.perf_counter() - start) * 1e3
        cpu = time.process_time()
        added = each((lambda pair=pair: index.add(*pair)) for pair in more)
        cpu = (time.process_time() - cpu) / adds * 1e6
        start, together = time.perf_counter(), time.process_time()
        in_transactions(index, list(enumerate(last, documents + adds)))
        together, wall = time.process_time() - together, time.perf_counter() - start
        asked = each((lambda text=text: index.query(text)) for _, text in first[:5000])
    of_add = {"add, mean": sum(added) / adds, "add, CPU": cpu, "add, p50": added[adds // 2], "add, p99": added[adds * 99 // 100]}
    of_transactions = {"of 100 add_if_new": wall / adds * 1e6, "of 100 add_if_new, CPU": together / adds * 1e6}
    return {"add_many, ms": bulk, **of_add, "add, most": added[-1], **of_transactions, "query, p50": asked[len(asked) // 2]}


def whole_runs(folder: str, documents: int) -> dict[str, float]:
    """Of one run over texts of which a third are edited copies, in milliseconds; of `query_code` in microseconds."""
    from neardup_db import BinaryCode, Index, MinHash

    chance = random.Random(2)
    made = texts(documents, 250)
    for number in range(2, documents, 3):
        words = made[number - 2].split()
        for place in chance.sample(range(250), 5):
            words[place] = f"edited{place}"
        made[number] = " ".join(words)
    codes = [chance.getrandbits(64) for _ in range(documents)]
    taken: dict[str, float] = {}

    def measure(name: str, call: Any) -> None:
        start = time.perf_counter()
        call()
        taken[f"{name}, ms"] = (time.perf_counter() - start) * 1e3

    with tempfile.TemporaryDirectory(dir=folder) as place:
        with Index(f"{place}/a.db", MinHash(exact=True), durability="normal") as index:
            measure("exact load", lambda: index.add_many(enumerate(made)))
            measure("query_many, exact", lambda: index.query_many(made[:5000]))
            measure("pairs, exact", lambda: sum(1 for _ in index.pairs()))
        with Index(f"{place}/b.db", BinaryCode(64, 3), durability="normal") as index:
            measure("add_codes", lambda: index.add_codes(range(documents), codes))
            measure("query_code", lambda: [index.query_code(code) for code in codes[:5000]])
        taken["query_code, us"] = taken.pop("query_code, ms") / 5
        with open(f"{place}/texts.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in made)
        command = [sys.executable, "-P", "-m", "neardup_db", "dedup", "texts.jsonl", "-o", "kept.jsonl"]
        measure("neardup dedup", lambda: subprocess.run(command, cwd=place, check=True, capture_output=True))
    return taken


def in_transactions(index: Any, pairs: list[tuple[int, str]]) -> None:
    """Adds what is new, 100 to a transaction."""
    for first in range(0, len(pairs), TOGETHER):
        with index.transaction():
            for pair in pairs[first : first + TOGETHER]:
                index.add_if_new(*pair)


def calls(folder: str, what: str, count: int) -> None:
    """So many calls of one kind, for counting."""
    from neardup_db import BinaryCode, Index, MinHash

    with tempfile.TemporaryDirectory(dir=folder) as place:
        if what == "query_code":
            with Index(f"{place}/a.db", BinaryCode(64, 3), durability="normal") as index:
                index.add_codes(range(2000), [number * 7919 * 104729 for number in range(2000)])
                for number in range(count):
                    index.query_code(number * 31337)
            return
        made = texts(500 + MANY, 100)
        with Index(f"{place}/a.db", MinHash(), durability="normal") as index:
            index.add_many(enumerate(made[:500]))
            if what == "add_if_new in transactions of 100":
                in_transactions(index, list(enumerate(made[500 : 500 + count], 1000)))
                return
            for number, text in enumerate(made[500 : 500 + count], 1000):
                index.query(text) if what == "query" else index.add(number, text)


def instructions(python: str, folder: str, what: str) -> float:
    """Of one call."""
    counted = []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    for count in (FEW, MANY):
        counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        command = [*counter, python, __file__, "calls", folder, what, str(count)]
        told = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stderr
        found = re.search(r"Collected : (\d+)", told)
        assert found is not None, told
        counted.append(int(found[1]))
    return (counted[1] - counted[0]) / (MANY - FEW)


def main() -> None:
    """Measures and prints."""
    if sys.argv[1] == "calls":
        return calls(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    if sys.argv[1] == "times":
        return print(json.dumps(times(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    if sys.argv[1] == "whole":
        return print(json.dumps(whole_runs(sys.argv[2], int(sys.argv[3]))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--adds", type=int, default=6000)
    parser.add_argument("--instructions", action="store_true")
    given = parser.parse_args()
    from measure import machine, machine_lines, table

    measured: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    versions = {"before": given.before, "after": given.after}
    if given.instructions:
        for what in ("query", "query_code", "add", "add_if_new in transactions of 100"):
            for version, python in versions.items():
                measured[f"{what}, instructions"][version].append(instructions(python, str(given.folder), what))
    else:
        folder, documents = str(given.folder), str(given.documents)
        runs = [(f"{name}: ", ["times", folder, name, documents, str(given.adds)]) for name in ("normal", "full")]
        for _ in range(given.rounds):
            for prefix, arguments in (*runs, ("", ["whole", folder, documents])):
                for version, python in versions.items():
                    told = subprocess.run([python, __file__, *arguments], capture_output=True, text=True, check=True).stdout
                    for name, value in json.loads(told).items():
                        measured[f"{prefix}{name}"][version].append(value)
    rows = []
    for name, found in measured.items():
        before, after = statistics.median(found["before"]), statistics.median(found["after"])
        rows.append((name, f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.3f}"))
    print(table(("", "before", "after", "ratio"), rows))
    print(machine_lines(machine()))
    return None


if __name__ == "__main__":
    main()
