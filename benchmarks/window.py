"""A stream through a window: ten million texts, of which the last million stay. What an add takes, memory, size of the file.

    pip install "neardup-db[bench]"
    python benchmarks/window.py [--documents 10000000] [--window 1000000] [--minutes 60] [--folder DIR]
        [--plot FILE.png] > RESULT.md

Texts are those of `growth.py`: 60 words, one in ten a copy of the one before with one other word; `MinHash()`, matches recorded,
durability "normal". Of every 100,000 documents the first 2,000 are added one by one, a transaction each, and timed; the others
by `add_many`, one transaction. --minutes: where the time does not suffice, the result says how far it came. --folder: where the
index is written; it should be on a disk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from growth import documents
from measure import Clock, each, in_child, machine, machine_lines, memory_mb, note, one_thread, percentiles, table

from neardup_db import Index, MinHash

STEP, SINGLE = 100_000, 2000

Row = dict[str, float]


def stream(size: int, window: int, seconds: float, database: str) -> list[Row]:
    """A row for each STEP documents that went through."""
    ends, rows = time.monotonic() + seconds, []
    texts: Iterator[tuple[int, str]] = documents(size)
    with Index(database, MinHash(expected=window), window=window, durability="normal") as index:
        for done in range(0, size, STEP):
            alone, rest = list(islice(texts, SINGLE)), list(islice(texts, STEP - SINGLE))
            cpu_times: list[float] = []
            times = each(partial(_add, index, alone, cpu_times), len(alone))
            with Clock() as bulk:
                index.add_many(rest)
            (p50, p99), (cpu_p50, cpu_p99) = percentiles(times), percentiles(cpu_times)
            rows.append(
                {
                    "documents": done + len(alone) + len(rest),
                    "held": len(index),
                    "add_us": p50,
                    "add_p99_us": p99,
                    "add_max_us": max(times),
                    "add_cpu_us": cpu_p50,
                    "add_cpu_p99_us": cpu_p99,
                    "bulk_us": bulk.seconds * 1e6 / len(rest),
                    "bulk_cpu_us": bulk.cpu_seconds * 1e6 / len(rest),
                    "file_mb": Path(database).stat().st_size / 1e6,
                    "memory_mb": memory_mb(),
                }
            )
            note(", ".join(f"{name} {value:,.0f}" for name, value in rows[-1].items()))
            if time.monotonic() > ends:
                break
        note("check ...")
        problems = index.check().problems
    rows[-1]["problems"] = len(problems)
    return rows


def _add(index: Index, records: list[tuple[int, str]], cpu_times: list[float], number: int) -> None:
    """One add, and the CPU time that it takes this thread."""
    before = time.thread_time_ns()
    index.add(*records[number])
    cpu_times.append((time.thread_time_ns() - before) / 1000)


def plot(rows: list[Row], window: int, path: Path) -> None:
    """Time of an add, memory and file over the documents that went through."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, figsize=(8, 7), sharex=True)
    through = [row["documents"] / 1e6 for row in rows]
    for name, label in (("add_us", "p50"), ("add_p99_us", "p99"), ("add_cpu_us", "CPU, p50"), ("bulk_cpu_us", "in bulk, CPU")):
        above.plot(through, [row[name] for row in rows], label=label)
    above.set_yscale("log")
    above.set_ylabel("microseconds an added document")
    below.plot(through, [row["file_mb"] for row in rows], label="file")
    below.plot(through, [row["memory_mb"] for row in rows], label="memory")
    below.set_ylim(bottom=0)
    below.set_ylabel("MB")
    below.set_xlabel("million documents that went through")
    for axes in (above, below):
        axes.axvline(window / 1e6, color="grey", linestyle=":")
        axes.legend()
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def report(rows: list[Row], window: int) -> Iterator[str]:
    """The result as Markdown."""
    names = [name for name in rows[0] if name != "problems"]
    shown = [row for row in rows if row["documents"] % (window // 2) == 0 or row is rows[-1]]
    yield table(names, [[round(row[name]) for name in names] for row in shown])
    full = [row for row in rows if row["documents"] > window]
    if full:
        middle = sorted(row["add_us"] for row in full)[len(full) // 2]
        tails = sorted(row["add_p99_us"] for row in full)[len(full) // 2]
        sizes = [row["file_mb"] for row in full]
        yield (
            f"Once the window was full: p50 {middle:,.0f} us, p99 {tails:,.0f} us (medians of {len(full)} rounds of {SINGLE:,}), "
            f"file {min(sizes):,.0f} to {max(sizes):,.0f} MB. check() at the end: {rows[-1]['problems']:.0f} problems."
        )


def main() -> int:
    """Runs the stream in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--window", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    one_thread()
    info: dict[str, Any] = machine()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        rows = in_child(stream, given.documents, given.window, given.minutes * 60, f"{folder}/index.db")
    print("# A stream through a window\n")
    print(machine_lines(info) + "\n")
    print(f"`python {' '.join(['benchmarks/window.py', *sys.argv[1:]])}`\n")
    print("\n\n".join(report(rows, given.window)))
    if given.plot is not None:
        plot(rows, given.window, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
