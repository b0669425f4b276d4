"""add_many of texts that stand in Arrow's memory, beside the same from a list of tuples.

    python benchmarks/arrow.py [--documents 100000] [--median 100] [--repeat 3] [--data FILE.jsonl] > RESULT.md

Without --data a synthetic corpus is made (corpus.py). The forms take turns, each run in a process of its own. What is timed is
add_many into a file, with the data in memory; "listed" also makes the tuples of the table first, which is what a table needed
before. Texts with accents have an é for each e: Python keeps such a text in another form than UTF-8.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import polars
import pyarrow
from measure import Clock, in_child, machine, machine_lines, note, read_jsonl, table

from neardup_db import Index, MinHash

FORMS: dict[str, Callable[[pyarrow.Table], Any]] = {
    "list of tuples": lambda data: list(zip(data["id"].to_pylist(), data["body"].to_pylist(), strict=True)),
    "table": lambda data: data,
    "table, string views": lambda data: data.set_column(1, "body", data["body"].cast(pyarrow.string_view())),
    "polars": polars.from_arrow,
    "reader of 1,000 rows": lambda data: data.to_reader(1000),
    "table, listed": lambda data: data,
}
LISTED = "table, listed"
STORED: dict[str, dict[str, Any]] = {"nothing": {}, "texts": {"store_text": True}}


def fill(path: str, count: int, accents: bool, form: str, stored: str, metadata: bool) -> tuple[float, float, int]:
    """Seconds and CPU seconds of add_many, and how many documents matched."""
    keys, texts = zip(*read_jsonl(Path(path), count), strict=True)
    if accents:
        texts = tuple(text.replace("e", "é") for text in texts)
    lengths = list(map(len, texts))
    data = FORMS[form](pyarrow.table({"id": pyarrow.array(keys), "body": pyarrow.array(texts), "length": pyarrow.array(lengths)}))
    del texts
    named: dict[str, Any] = {"key": "id", "text": "body", "metadata": ["length"] if metadata else None}
    with tempfile.TemporaryDirectory() as at, Index(Path(at) / "a.db", MinHash(), **STORED[stored]) as index, Clock() as clock:
        if form == LISTED:
            data = list(zip(data["id"].to_pylist(), data["body"].to_pylist(), strict=True))
        if metadata and isinstance(data, list):
            data = [{"key": row[0], "text": row[1], "metadata": {"length": n}} for row, n in zip(data, lengths, strict=True)]
        report = index.add_many(data, **(named if not isinstance(data, list) else {}))
    return clock.seconds, clock.cpu_seconds, report.matched


CASES = [
    *((form, False, "nothing", False) for form in FORMS),
    *((form, True, "nothing", False) for form in ("list of tuples", "table")),
    *((form, False, "texts", False) for form in ("list of tuples", "table")),
    *((form, False, "nothing", True) for form in ("list of tuples", "table")),
]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--median", type=int, default=100, help="words of the median document")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    runs: dict[Any, list[tuple[float, float, int]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        path = options.data
        if path is None:
            path = Path(folder) / "corpus.jsonl"
            corpus.write(path, options.documents, median_words=options.median)
        for _ in range(options.repeat):
            for form, accents, stored, metadata in CASES:
                run = in_child(fill, str(path), options.documents, accents, form, stored, metadata)
                runs[form, accents, stored, metadata].append(run)
                note(f"{form}, accents {accents}, stored {stored}, metadata {metadata}: {run[0]:.2f} s, CPU {run[1]:.2f} s")
    rows = []
    for (form, accents, stored, metadata), each in runs.items():
        seconds, cpu_seconds = (statistics.median(run[i] for run in each) for i in (0, 1))
        rows.append((form, "yes" if accents else "no", stored, "yes" if metadata else "no", seconds, cpu_seconds, each[0][2]))
    print("# Arrow\n\n" + machine_lines(machine()) + f"\n\n{options.documents:,} documents; medians of {options.repeat} runs.\n")
    print(table(("data", "accents", "stored", "metadata", "seconds", "CPU s", "matched"), rows))


if __name__ == "__main__":
    main()
