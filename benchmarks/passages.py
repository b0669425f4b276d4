"""Passages: load, questions and adds of `Passages()` beside MinHash and the containment scan of MinHash(exact=True); the time of
`neardup decontaminate` beside a script with a set of 13-grams.

    python benchmarks/passages.py [--documents 10000 100000 1000000] [--folder FOLDER] [--json FILE]
    python benchmarks/passages.py --decontaminate 5000 [--folder FOLDER]

Documents are those of corpus.py, about 2.5 KB each. Half of the questions are 60 words of a stored document between other words,
the others whole documents; the containment scan has the same. Files are made in FOLDER. --decontaminate makes so many MB
of training texts with 1,000 planted questions of 10,000, and checks that exactly these are found.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from measure import machine, machine_lines, note, table

from neardup_db import Index, MinHash, Passages

QUESTIONS, SCANNED, SHORTEST = 500, 20, 13
KINDS: dict[str, Callable[[int], Any]] = {
    "MinHash()": lambda count: MinHash(expected=count),
    "MinHash(exact=True)": lambda count: MinHash(exact=True, expected=count),
    "Passages()": lambda count: Passages(expected=count),
    "Passages(shortest=13)": lambda count: Passages(shortest=SHORTEST, expected=count),
}


Documents = list[tuple[str, str]]


def questions(documents: Documents) -> list[str]:
    """The same for every index: texts of the corpus, whole or a part of them."""
    draw, found = random.Random(5), []
    for number, (_, text) in enumerate(random.Random(6).sample(documents, min(len(documents), QUESTIONS))):
        words = text.split()
        start = draw.randrange(max(1, len(words) - 60))
        found.append(" ".join(["foo"] * 20 + words[start : start + 60] + ["bar"] * 20) if number % 2 else text)
    return found


def timed(ask: Callable[[str], Any], texts: list[str]) -> tuple[float, float]:
    """The 50th and the 99th percentile in milliseconds."""
    seconds = []
    for text in texts:
        begun = time.perf_counter()
        ask(text)
        seconds.append(time.perf_counter() - begun)
    return float(np.percentile(seconds, 50)) * 1000, float(np.percentile(seconds, 99)) * 1000


def measured(kind: str, documents: Documents, asked: list[str], folder: Path) -> list[Any]:
    """A row of the table: load, bytes, questions, passages, adds, containment."""
    path, count = folder / "passages.db", len(documents)
    for file in folder.glob("passages.db*"):
        file.unlink()
    begun, cpu = time.perf_counter(), time.process_time()
    with Index(path, KINDS[kind](count)) as index:
        index.add_many(documents)
        wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
        p50, p99 = timed(index.query, asked)
        first = timed(lambda text: index.query(text, limit=10, any=True), asked)[1]
        add = iter(range(len(asked)))
        adds = timed(lambda text: index.add(f"new {next(add)}", text), asked[:200])
        scan = timed(lambda text: index.query(text, measure="containment"), asked[:SCANNED]) if "(exact" in kind else None
        passages = timed(index.passages, asked) if "Passages" in kind else None
    row = [f"{count:,}", kind, f"{count / wall:,.0f}", f"{cpu / count * 1e6:.0f}", f"{path.stat().st_size / count:,.0f}"]
    row += [f"{p50:.2f} / {p99:.2f}", f"{first:.2f}", f"{adds[0]:.2f} / {adds[1]:.2f}"]
    return [*row, "" if scan is None else f"{scan[0]:.0f}", "" if passages is None else f"{passages[0]:.2f} / {passages[1]:.2f}"]


def indexes(counts: list[int], folder: Path) -> str:
    rows = []
    for count in counts:
        documents = list(corpus.Corpus(count))
        asked = questions(documents)
        for kind in KINDS:
            note(f"{count:,} documents, {kind}")
            rows.append(measured(kind, documents, asked, folder))
    heads = ["documents", "scheme", "loaded/s", "CPU us each", "bytes each", "query p50 / p99 ms", "any 10: p99", "add p50 / p99",
             "containment scan p50", "passages() p50 / p99"]  # fmt: skip
    return table(heads, rows)


def training(megabytes: int) -> Iterator[tuple[int, str, int | None]]:
    """(number, text, the question planted in it) of training texts, each the beginning of one document and the end of another."""
    draw, size, number = random.Random(8), 0, 0
    asked, documents = test_questions(), [text for _, text in corpus.Corpus(20_000, seed=9)]
    every = max(1, megabytes * 1_000_000 // 2800 // 1000)
    while size < megabytes * 1_000_000:
        one, other = draw.choices(documents, k=2)
        text = one[: one.rfind(" ", 0, len(one) // 2)] + other[other.find(" ", len(other) // 2) :]
        planted = number // every * 7 % len(asked) if number % every == 0 and number // every < 1000 else None
        if planted is not None:
            words = text.split()
            words[draw.randrange(len(words)) : 0] = asked[planted].split()
            text = " ".join(words)
        yield number, text, planted
        size, number = size + len(text), number + 1


def test_questions() -> list[str]:
    """10,000 questions of 13 to 60 words that no training text has by chance."""
    draw = random.Random(10)
    return [" ".join(f"q{draw.randrange(30_000)}" for _ in range(draw.randint(SHORTEST, 60))) for _ in range(10_000)]


def by_script(source: Path, tests: Path) -> list[int]:
    """What users write: a set of all 13-grams of the questions, and each record's looked up in it."""
    word = re.compile(r"\w+")
    known: set[tuple[str, ...]] = set()
    for line in tests.open():
        words = word.findall(json.loads(line)["text"].lower())
        known.update(tuple(words[i : i + SHORTEST]) for i in range(len(words) - SHORTEST + 1))
    found = []
    for line in source.open():
        record = json.loads(line)
        words = word.findall(record["text"].lower())
        if any(tuple(words[i : i + SHORTEST]) in known for i in range(len(words) - SHORTEST + 1)):
            found.append(record["id"])
    return found


def decontaminate(megabytes: int, folder: Path) -> str:
    source, tests, planted = folder / "train.jsonl", folder / "tests.jsonl", []
    with source.open("w") as file:
        for number, text, question in training(megabytes):
            file.write(json.dumps({"id": number, "text": text}) + "\n")
            planted += [] if question is None else [number]
    tests.write_text("".join(json.dumps({"text": text}) + "\n" for text in test_questions()))
    size = source.stat().st_size / 1e6
    out, report = folder / "clean.jsonl", folder / "found.jsonl"
    command = [sys.executable, "-P", "-m", "neardup_db", "decontaminate", source, "--test", tests, "-o", out, "--report", report]
    begun = time.perf_counter()
    timed = ["/usr/bin/time", "-f", "%U %S %M", *map(str, command), "--force"]
    run = subprocess.run(timed, capture_output=True, text=True, check=True)
    ours = time.perf_counter() - begun
    found = sorted({json.loads(line)["id"] for line in report.open()})
    part = folder / "part.jsonl"
    with source.open() as whole, part.open("w") as some:
        taken = 0
        for line in whole:
            some.write(line)
            taken += len(line)
            if taken > 200_000_000:
                break
    begun, cpu = time.perf_counter(), time.process_time()
    scripted = by_script(part, tests)
    script, cpu = time.perf_counter() - begun, time.process_time() - cpu
    last = max(json.loads(line)["id"] for line in part.open())
    agree = scripted == [number for number in found if number <= last]
    user, system, kilobytes = map(float, run.stderr.split()[-3:])
    rows = [_timed("neardup decontaminate", size, ours, user + system, f"{kilobytes / 1024:.0f}")]
    rows.append(_timed("script with a set", taken / 1e6, script, cpu, ""))
    told = f"Planted {len(planted):,}, found {len(found):,}, the same records: {found == planted}; as the script: {agree}."
    return table(["", "MB", "s", "MB/s", "CPU ms/MB", "memory MB"], rows) + "\n" + told


def _timed(name: str, megabytes: float, seconds: float, cpu: float, memory: str) -> list[str]:
    rates = f"{megabytes / seconds:.0f}", f"{cpu / megabytes * 1000:.1f}"
    return [name, f"{megabytes:,.0f}", f"{seconds:.1f}", *rates, memory]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--decontaminate", type=int, metavar="MB")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(machine_lines(machine()))
        made = decontaminate(options.decontaminate, Path(folder)) if options.decontaminate else None
        print(made or indexes(options.documents, Path(folder)))


if __name__ == "__main__":
    main()
