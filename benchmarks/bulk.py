"""Many documents with one `add_many`, then queries: speed, size and memory.

    python benchmarks/bulk.py [--documents 100000] [--data FILE.jsonl] [--repeat 3] [--schemes NAME ...] [--json FILE] > RESULT.md

Without --data a synthetic corpus is made (corpus.py). Every measurement runs in a process of its own; the documents are read
from the file while they are added, as an application would.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import corpus
from measure import in_child, machine, machine_lines, note, peak_memory_mb, read_jsonl, table, timed

from neardup_db import BitSampling, BottomK, Index, MinHash, SimHash
from neardup_db.schemes.base import Scheme

SCHEMES: dict[str, tuple[Scheme, dict[str, Any]]] = {
    "MinHash()": (MinHash(), {}),
    "MinHash(), matches not recorded": (MinHash(), {"record_matches": False}),
    "MinHash(exact=True)": (MinHash(exact=True), {}),
    "MinHash(exact=True), texts stored": (MinHash(exact=True), {"store_text": True}),
    "BottomK(threshold=0.8)": (BottomK(threshold=0.8), {}),
    "SimHash()": (SimHash(), {}),
    "BitSampling()": (BitSampling(), {}),
}
MAIN = "MinHash()"
QUERIES = 2000


@dataclass
class Fill:
    """One run of `add_many` and the queries after it. Times in seconds and microseconds, sizes in bytes and MB (10^6)."""

    scheme: str
    documents: int
    text_mb: float
    seconds: float
    cpu_seconds: float
    file_bytes: int
    peak_mb: float
    matched: int
    query_us: dict[str, tuple[float, float]]


def read(path: str, count: int) -> tuple[float, float, float]:
    """Only reads the documents: seconds, MB of text, peak memory in MB (the package is imported here too)."""
    start = time.perf_counter()
    size = sum(len(text) for _, text in read_jsonl(Path(path), count))
    return time.perf_counter() - start, size / 1e6, peak_memory_mb()


def fingerprints_only(path: str, count: int, name: str) -> tuple[float, float]:
    """Fingerprints of texts in a list, without an index: seconds, MB of text."""
    texts = [text for _, text in read_jsonl(Path(path), count)]
    scheme = SCHEMES[name][0]
    scheme.fingerprints(texts[:100])
    start = time.perf_counter()
    scheme.fingerprints(texts)
    return time.perf_counter() - start, sum(map(len, texts)) / 1e6


def fill(path: str, count: int, name: str, with_queries: bool) -> Fill:
    """Adds the first `count` documents to an index on disk, then asks."""
    scheme, options = SCHEMES[name]
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "index.db"
        with Index(database, scheme, **options) as index:
            start, cpu_start = time.perf_counter(), time.process_time()
            report = index.add_many(read_jsonl(Path(path), count))
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
            peak = peak_memory_mb()
            size = database.stat().st_size
            query_us = queries(index, path, count) if with_queries else {}
    text_mb = sum(len(text) for _, text in read_jsonl(Path(path), count)) / 1e6
    return Fill(name, report.added, text_mb, seconds, cpu_seconds, size, peak, report.matched, query_us)


def queries(index: Index, path: str, count: int) -> dict[str, tuple[float, float]]:
    """p50 and p99 in microseconds: for stored texts, for texts of the same words backwards (nothing matches those), and for
    stored fingerprints."""
    every = max(1, count // QUERIES)
    sample = [one for number, one in enumerate(read_jsonl(Path(path), count)) if number % every == 0]
    backwards = [" ".join(reversed(text.split())) for _, text in sample]
    return {
        "stored text": timed(lambda i: index.query(sample[i][1]), len(sample)),
        "new text": timed(lambda i: index.query(backwards[i]), len(sample)),
        "stored fingerprint": timed(lambda i: index.matches(sample[i][0]), len(sample)),
    }


# ---- all of it ---------------------------------------------------------------------------------------------------------


def middle(runs: Sequence[Fill]) -> Fill:
    """The run with the median time."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def measure(path: str, count: int, repeat: int, names: Sequence[str]) -> dict[str, Any]:
    """Everything, for --json."""
    results: dict[str, Any] = {"machine": machine(), "fills": [], "growth": [], "fingerprints": []}
    results["read"] = in_child(read, path, count)
    for name in names:
        runs = [in_child(fill, path, count, name, True) for _ in range(repeat)]
        results["fills"].append({**asdict(middle(runs)), "all_seconds": [run.seconds for run in runs]})
        note(f"{name}: {statistics.median(run.seconds for run in runs):.1f} s")
        hashed = [in_child(fingerprints_only, path, min(count, 20_000), name) for _ in range(repeat)]
        results["fingerprints"].append({"scheme": name, "mb_per_s": statistics.median(mb / s for s, mb in hashed)})
    for part in (10, 2, 1):
        some = in_child(fill, path, count // part, MAIN, False)
        _, _, reading = in_child(read, path, count // part)
        results["growth"].append({**asdict(some), "reading_peak_mb": reading})
        note(f"{count // part} documents: peak {some.peak_mb:.0f} MB")
    return results


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    seconds, mb, peak = results["read"]
    fills, speeds = results["fills"], {one["scheme"]: one["mb_per_s"] for one in results["fingerprints"]}
    first = fills[0]
    rows = [
        (
            one["scheme"],
            round(one["documents"] / one["seconds"]),
            one["text_mb"] / one["seconds"],
            f"{min(one['all_seconds']):.1f}{chr(8211)}{max(one['all_seconds']):.1f}",
            one["cpu_seconds"],
            round(one["file_bytes"] / one["documents"]),
            round(one["peak_mb"]),
            *(f"{p50:.0f} / {p99:.0f}" for p50, p99 in one["query_us"].values()),
            one["matched"],
        )
        for one in fills
    ]
    header = ("scheme", "documents/s", "MB/s", "seconds", "CPU s", "bytes a document", "peak MB")
    asked = tuple(f"query, {name}: p50 / p99 us" for name in first["query_us"])
    growth = [
        (one["documents"], one["file_bytes"] / 1e6, round(one["peak_mb"]), round(one["reading_peak_mb"]), one["seconds"])
        for one in results["growth"]
    ]
    return "\n\n".join(
        (
            "# Bulk",
            machine_lines(results["machine"]),
            f"{first['documents']:,} documents of {mb * 1e6 / first['documents']:,.0f} characters on average ({mb:.0f} MB), read "
            f"as JSON lines while they are added by one `add_many` to a file. Reading them alone takes {seconds:.1f} s and "
            f"{peak:.0f} MB. Medians; seconds: least and most of the repeats; CPU s: of the process, which other work "
            "on the machine hardly touches.",
            table((*header, *asked, "matched"), rows),
            "## Fingerprints alone\n\nFrom a list of str, one thread.",
            table(("scheme", "MB/s"), ((name, round(speed)) for name, speed in speeds.items())),
            f"## Memory beside the size of the index\n\n`{MAIN}`; reading: a process that imports the package and only reads.",
            table(("documents", "file MB", "peak MB", "peak MB of reading", "seconds"), growth),
        )
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--schemes", nargs="*", choices=list(SCHEMES), default=list(SCHEMES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.data
        if path is None:
            path = Path(folder) / "corpus.jsonl"
            corpus.write(path, options.documents)
        results = measure(str(path), options.documents, options.repeat, options.schemes)
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
