"""Merging indexes, and building one by several processes that merge.

    python benchmarks/merge.py [--documents 100000] [--data FILE.jsonl] [--repeat 3] > RESULT.md

Without --data a synthetic corpus is made (corpus.py). Every measurement runs in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import corpus
from measure import Clock, in_child, machine, machine_lines, note, read_jsonl, table

from neardup_db import Index, MinHash, SimHash, TextRules
from neardup_db.schemes.base import Scheme

SCHEMES: dict[str, tuple[Scheme, dict[str, Any]]] = {
    "MinHash()": (MinHash(), {}),
    "MinHash(), matches not recorded": (MinHash(), {"record_matches": False}),
    "MinHash(exact=True)": (MinHash(exact=True), {}),
    "MinHash(exact=True), texts stored": (MinHash(exact=True), {"store_text": True}),
    "SimHash()": (SimHash(), {}),
}


def words(text: str) -> list[str]:
    """A tokenizer in Python, as an application may have."""
    return text.lower().split()


RULES: dict[str, TextRules] = {"built in": TextRules(), "a tokenizer in Python": TextRules(tokens=words)}
COMMAND = "`neardup add`, built-in rules"
BUILDS = {
    COMMAND: ("built in", 1, 1),
    "built-in rules": ("built in", 1, 1),
    "built-in rules, ten texts as one": ("built in", 10, 1),
    "a tokenizer in Python": ("a tokenizer in Python", 1, 10),
}
"""What is built: rules, texts of the corpus in a document, and the part of the corpus, which is small where it takes long."""


class Cost(NamedTuple):
    """Microseconds a document: of the wall clock, and of CPU."""

    wall: float
    cpu: float


def cost(work: Callable[[], Any], count: int) -> Cost:
    with Clock() as clock:
        work()
    return Cost(clock.seconds / count * 1e6, clock.cpu_seconds / count * 1e6)


def part(path: str, first: int, end: int, joined: int = 1) -> Iterator[tuple[str, str]]:
    """Documents of a file, each of several of its texts."""
    texts = islice(read_jsonl(Path(path), end * joined), first * joined, None)
    while several := list(islice(texts, joined)):
        yield several[0][0], " ".join(text for _, text in several)


def merged(path: str, count: int, name: str) -> dict[str, Cost]:
    """Two indexes of half the documents each are built and merged, one after another, into a third; texts are in memory."""
    scheme, options = SCHEMES[name]
    half = count // 2
    costs = {}
    with tempfile.TemporaryDirectory() as folder:
        indexes = [Index(Path(folder, f"{number}.db"), scheme, **options) for number in range(3)]
        texts = list(part(path, 0, half))
        costs["add_many, into nothing"] = cost(lambda: indexes[0].add_many(texts), half)
        texts = list(part(path, half, count))
        indexes[1].add_many(texts)
        costs["merge, into nothing"] = cost(lambda: indexes[2].merge(indexes[0]), half)
        costs["merge, into as many"] = cost(lambda: indexes[2].merge(indexes[1]), half)
        costs["add_many, into as many"] = cost(lambda: indexes[0].add_many(texts), half)
        costs["merge, all keys there, ignored"] = cost(lambda: indexes[2].merge(indexes[1], if_exists="ignore"), half)
        for index in indexes:
            index.close()
    return costs


def replaced(path: str, count: int) -> Cost:
    """Every document of an index replaced by the same one of another."""
    with Index(":memory:", MinHash()) as a, Index(":memory:", MinHash()) as b:
        for index in (a, b):
            index.add_many(part(path, 0, count))
        return cost(lambda: a.merge(b, if_exists="replace"), count)


def build(target: Path, path: str, first: int, end: int, work: str, matches: bool) -> float:
    """Seconds of one process that reads and adds its documents."""
    rules, joined, _ = BUILDS[work]
    if work == COMMAND:
        return by_command(target, path, first, end, matches)
    start = time.perf_counter()
    with Index(target, MinHash(), text=RULES[rules], record_matches=matches, durability="normal") as index:
        index.add_many(part(path, first, end, joined))
    return time.perf_counter() - start


def by_command(target: Path, path: str, first: int, end: int, matches: bool) -> float:
    """The same by a process of the command line, which reads its documents from a file of their own."""
    source = target.with_suffix(".jsonl")
    with open(path, "rb") as file, open(source, "wb") as out:
        out.writelines(islice(file, first, end))
    command = ["neardup", "add", str(target), str(source), *([] if matches else ["--no-record-matches"])]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def by_one(path: str, count: int, work: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return build(Path(folder, "one.db"), path, 0, count, work, True)


def by_several(path: str, count: int, work: str, processes: int) -> tuple[float, float]:
    """Seconds until the slowest of several processes has built its part, and seconds of merging all parts into the first."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(time.sleep, [0.5] * processes))  # until all have begun
        ends = [count * number // processes for number in range(processes + 1)]
        paths = [Path(folder, f"{number}.db") for number in range(processes)]
        jobs = [
            pool.submit(build, target, path, first, end, work, target == paths[0])
            for target, first, end in zip(paths, ends, ends[1:], strict=False)
        ]
        built = max(job.result() for job in jobs)
        start = time.perf_counter()
        with Index(paths[0], text=RULES[BUILDS[work][0]], durability="normal") as index:
            for other in paths[1:]:
                index.merge(other)
        return built, time.perf_counter() - start


def alone(path: str, count: int, work: str, processes: int) -> tuple[float, float]:
    """Seconds of building one of several parts with nothing beside it, and of merging all the others into it: what as many cores
    would take, if they were as quick together as one is alone."""
    ends = [count * number // processes for number in range(processes + 1)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}.db") for number in range(processes)]
        seconds = [
            build(target, path, first, end, work, target == paths[0])
            for target, first, end in zip(paths, ends, ends[1:], strict=False)
        ]
        start = time.perf_counter()
        with Index(paths[0], text=RULES[BUILDS[work][0]], durability="normal") as index:
            for other in paths[1:]:
                index.merge(other)
        return max(seconds), time.perf_counter() - start


# ---- all of it ---------------------------------------------------------------------------------------------------------


def middle(costs: list[Cost]) -> Cost:
    return sorted(costs)[len(costs) // 2]


def report(path: str, count: int, repeat: int) -> str:
    info = machine()
    rows = []
    for name in SCHEMES:
        runs = [in_child(merged, path, count, name) for _ in range(repeat)]
        found = {what: middle([run[what] for run in runs]) for what in runs[0]}
        rows.append((name, *(f"{one.wall:.1f} / {one.cpu:.1f}" for one in found.values())))
        header = ("scheme", *found)
        note(name)
    again = middle([in_child(replaced, path, count // 10) for _ in range(repeat)])
    builds = []
    for work, (_, joined, share) in BUILDS.items():
        some = count // share // joined
        one = statistics.median(in_child(by_one, path, some, work) for _ in range(repeat))
        two = sorted((in_child(by_several, path, some, work, 2) for _ in range(repeat)), key=sum)[repeat // 2]
        four = sorted((in_child(alone, path, some, work, 4) for _ in range(repeat)), key=sum)[repeat // 2]
        sums = [text for run in (two, four) for text in (f"{run[0]:.1f} + {run[1]:.1f}", one / sum(run))]
        builds.append((work, some, one, *sums))
        note(work)
    size = sum(len(text) for _, text in read_jsonl(Path(path), count))
    return "\n\n".join(
        (
            "# Merging",
            machine_lines(info),
            f"{count:,} documents of {size / count:,.0f} characters on average, one half in each of two indexes. Microseconds a "
            "document, wall clock / CPU of all threads; medians of "
            f"{repeat}. `add_many` takes its texts from a list, so that reading is in none of the figures.",
            table(header, rows),
            f"Replacing: {again.wall:.0f} / {again.cpu:.0f} us a document, `MinHash()`, {count // 10:,} documents in memory, "
            "every key there.",
            "## A build by several processes\n\nSeconds for all documents, read from JSON lines; `MinHash()`, durability "
            "\"normal\". Several: the slowest process, plus merging the parts into the first one's. Two processes ran at the "
            "same time on this machine. Four are reckoned: the slowest of four quarters, each built with nothing beside it (a "
            "process uses up to three threads meanwhile), plus the measured merge; `times` is how much sooner that is.",
            table(_BUILDS, builds),
        )
    )


_BUILDS = ("texts", "documents", "one process", "two, on this machine", "times", "four, reckoned", "times ")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.data
        if path is None:
            path = Path(folder) / "corpus.jsonl"
            corpus.write(path, options.documents)
        print(report(str(path), options.documents, options.repeat))


if __name__ == "__main__":
    main()
