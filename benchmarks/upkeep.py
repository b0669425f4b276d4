"""The cost of loading, removing and upkeep in time, file, log and temporary files, by the size of the index.

    python benchmarks/upkeep.py [--documents 100000 1000000] [--copies 5000] [--folder DIR] > RESULT.md

`MinHash(threshold=0.8)`, matches recorded, durability "full". Texts are those of corpus.py with a median of 60 words: what is
measured here depends on the number of documents, not on their length. Each size runs in a process of its own. The log and the
temporary files, which have no name, are looked at every 10 ms. The copies are near-copies of one text, which make one cluster.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus import documents
from measure import each, in_child, machine, machine_lines, note, one_thread, percentiles, table

from neardup_db import Index, MinHash

DELETED = 1000
EXPIRES = 4_000_000_000


class Watch:
    """Runs a step; its seconds, and the most that the log and the temporary files had meanwhile."""

    def __init__(self, index: Index, log: Path) -> None:
        self._index, self._log = index, log

    def __call__(self, step: Callable[[], Any]) -> tuple[float, float, float]:
        self._index.connection.pragma("wal_checkpoint(TRUNCATE)")
        over, most = threading.Event(), [0, 0]

        def look() -> None:
            while not over.wait(0.01):
                most[0] = max(most[0], self._log.stat().st_size if self._log.exists() else 0)
                most[1] = max(most[1], _unnamed_bytes())

        thread = threading.Thread(target=look)
        thread.start()
        start = time.perf_counter()
        try:
            step()
            seconds = time.perf_counter() - start
        finally:
            over.set()
            thread.join()
        return seconds, most[0] / 1e6, most[1] / 1e6


def _unnamed_bytes() -> int:
    """Bytes of open files without a name: SQLite's temporary files."""
    total = 0
    for entry in os.scandir("/proc/self/fd"):
        try:
            found = os.stat(entry.path)
            total += found.st_size if found.st_nlink == 0 else 0
        except OSError:
            continue
    return total


def measure(count: int, folder: str) -> dict[str, Any]:
    """All steps at one size."""
    path = Path(folder) / f"upkeep-{count}.db"
    records = [(key, text) for key, text in documents(count, median_words=60)]
    steps: dict[str, tuple[float, float, float]] = {}
    with Index(path, MinHash(threshold=0.8)) as index:
        watch = Watch(index, Path(f"{path}-wal"))
        steps["add_many"] = watch(lambda: index.add_many(records))
        size_mb = path.stat().st_size / 1e6
        steps["check()"] = watch(index.check)
        steps["rebuild()"] = watch(index.rebuild)
        chosen = random.Random(1).sample([key for key, _ in records], DELETED)
        deleted = each(lambda i: index.delete(chosen[i]), DELETED)
        with index.transaction():
            for key in list(index)[: count // 4]:
                index.update(key, expires_at=EXPIRES)
        steps["expire() of a quarter"] = watch(lambda: index.expire(EXPIRES))
        steps["keep_newest() of half"] = watch(lambda: index.keep_newest(count // 2))
        steps["compact()"] = watch(index.compact)
    return {"size_mb": size_mb, "steps": steps, "delete": percentiles(deleted), "longest": max(deleted)}


def measure_copies(count: int, folder: str) -> dict[str, Any]:
    """Deleting from one cluster of near-copies, one by one."""
    words = [f"word{i}" for i in range(200)]
    draw = random.Random(1)
    texts = []
    for i in range(count):
        copy = words.copy()
        copy[draw.randrange(200)] = f"other{i}"
        texts.append((i, " ".join(copy)))
    with Index(Path(folder) / "copies.db", MinHash(threshold=0.8)) as index:
        index.add_many(texts)
        keys = index.clusters()[0].keys
        adjacent = "SELECT other_key, count(*) FROM neardup_matches GROUP BY 1 ORDER BY 2 DESC LIMIT 20"
        hubs = index.connection.execute(adjacent).fetchall()
        of_hubs = each(lambda i: index.delete(hubs[i][0]), len(hubs))
        rest = [key for key in keys if key in index]
        chosen = draw.sample(rest, min(500, len(rest)))
        deleted = each(lambda i: index.delete(chosen[i]), len(chosen))
    return {"largest": len(keys), "edges": hubs[0][1], "hubs": of_hubs, "delete": percentiles(deleted), "longest": max(deleted)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--copies", type=int, default=5000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    one_thread()
    info = machine()
    print("# Removing and upkeep\n")
    print(machine_lines(info) + "\n")
    rows, deletes = [], []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for count in options.documents:
            note(f"{count:,} documents")
            found = in_child(measure, count, folder)
            deletes.append([f"{count:,}", *found["delete"], found["longest"]])
            for name, figures in found["steps"].items():
                rows.append([f"{count:,}", name, *figures, found["size_mb"]])
        copies = in_child(measure_copies, options.copies, folder)
    print(table(["documents", "call", "seconds", "log, MB", "temporary files, MB", "file after the load, MB"], rows) + "\n")
    print("One `delete` of a document chosen at random:\n")
    print(table(["documents", "p50 us", "p99 us", "longest us"], deletes) + "\n")
    p50, p99 = copies["delete"]
    print(
        f"One cluster of {copies['largest']:,} near-copies: `delete` takes {p50:,.0f} us (p50), {p99:,.0f} (p99), "
        f"{copies['longest']:,.0f} at most; of the 20 documents with the most recorded matches (up to {copies['edges']:,}) "
        f"{max(copies['hubs']):,.0f} us at most."
    )


if __name__ == "__main__":
    main()
