"""How long single adds wait, and how long the write-ahead log grows, by the way in which the log is moved into the file.

    python benchmarks/log.py FOLDER [--documents 200000] [--adds 6000] [--rounds 3] [--way WAY ...]

Makes FOLDER/base.db if it is not there: MinHash by default, texts of about 250 words. Each run adds texts to a fresh copy, one by
one, from one process or from three. Ways: "package" is what the package does by itself; "sqlite-N" is SQLite's own checkpoint
within the commit that finds N pages in the log; "thread" is a thread with a second connection that makes passive checkpoints, one
after another, from 8,000 pages on. Prints the medians of all rounds as a Markdown table, and the machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from corpus import Language
from measure import machine

from neardup_db import Index, MinHash

WORDS = 250
WAYS = ("package", "sqlite-1000", "sqlite-4000", "sqlite-8000", "thread")
THREAD_PAGES = 8000


def texts(seed: int) -> Iterator[str]:
    """Texts without end, from 200 to 300 words."""
    language, pick = Language(), np.random.default_rng(seed)
    while True:
        yield language.text(language.draw(pick, int(pick.integers(WORDS - 50, WORDS + 51))))


def make(path: Path, documents: int) -> None:
    """The file to which texts are added."""
    with Index(path, MinHash(expected=1_000_000)) as index:
        index.add_many(zip(range(documents), texts(1), strict=False))


def move_beside(index: Index, path: Path) -> None:
    """Passive checkpoints on a thread of a second connection, whenever a commit finds the log long."""
    due = threading.Event()

    def committed(_: Any, __: str, pages: int) -> int:
        if pages >= THREAD_PAGES:
            due.set()
        return apsw.SQLITE_OK

    def run() -> None:
        other = apsw.Connection(str(path))
        while due.wait():
            due.clear()
            with suppress(apsw.BusyError):
                other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    index.connection.set_wal_hook(committed)
    threading.Thread(target=run, daemon=True).start()


def work(path: Path, way: str, durability: str, method: str, seed: int, adds: int, start: Any, results: Any) -> None:
    """One writing process: seconds of each call, and the moments at which it began and ended."""
    given = [text for text, _ in zip(texts(seed), range(adds), strict=False)]
    with Index(path, durability=durability) as index:
        if way.startswith("sqlite-"):
            index.connection.execute(f"PRAGMA wal_autocheckpoint = {way.partition('-')[2]}").fetchall()
        elif way == "thread":
            move_beside(index, path)
        call, taken = getattr(index, method), []
        start.wait()
        began = before = time.perf_counter()
        for number, text in enumerate(given):
            call(f"{seed}-{number}", text)
            now = time.perf_counter()
            taken.append(now - before)
            before = now
        results.put((taken, began, before))
        start.wait()  # the last one to close moves the rest


def run(folder: Path, way: str, durability: str, method: str, writers: int, adds: int) -> dict[str, float]:
    """Figures of one run."""
    path = folder / "run.db"
    log = Path(f"{path}-wal")
    for suffix in ("", "-wal", "-shm"):  # of processes that close at the same moment none may be the last one, and the log stays
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(folder / "base.db", path)
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(writers + 1), context.Queue()
    processes = [
        context.Process(target=work, args=(path, way, durability, method, 100 + number, adds // writers, start, results))
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    start.wait()
    peak, found = 0, []
    while len(found) < writers:
        try:
            found.append(results.get(timeout=0.02))
        except Exception:
            peak = max(peak, log.stat().st_size if log.exists() else 0)
    peak = max(peak, log.stat().st_size)
    start.wait()
    for process in processes:
        process.join()
    taken = np.concatenate([one[0] for one in found]) * 1000
    seconds = max(one[2] for one in found) - min(one[1] for one in found)
    return {
        "p50": float(np.percentile(taken, 50)),
        "p99": float(np.percentile(taken, 99)),
        "max": float(taken.max()),
        "rate": len(taken) / seconds,
        "log": peak / 1e6,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--adds", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--method", action="append", choices=("add", "add_if_new"))
    parser.add_argument("--writers", action="append", type=int)
    parser.add_argument("--durability", action="append", choices=("full", "normal"))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True, parents=True)
    if not (given.folder / "base.db").exists():
        make(given.folder / "base.db", given.documents)
    print("| way | durability | writers | call | p50 ms | p99 ms | max ms | calls/s | log MB |")
    print("|---|---|---:|---|---:|---:|---:|---:|---:|")
    for method in given.method or ("add", "add_if_new"):
        for writers in given.writers or (1, 3):
            for durability in given.durability or ("full", "normal"):
                for way in given.way or WAYS:
                    runs = [run(given.folder, way, durability, method, writers, given.adds) for _ in range(given.rounds)]
                    of = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
                    print(
                        f"| {way} | {durability} | {writers} | `{method}` | {of['p50']:.2f} | {of['p99']:.2f} | {of['max']:.0f} "
                        f"| {of['rate']:,.0f} | {of['log']:.0f} |",
                        flush=True,
                    )
    print(machine())


if __name__ == "__main__":
    main()
