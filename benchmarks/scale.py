"""A million documents from text with one `add_many`, in a file: rates, size by table, queries, recall, single adds.

    pip install "neardup-db[bench]"
    python benchmarks/scale.py [--documents 1000000] [--corpus FILE.jsonl] [--folder DIR] [--json FILE] > RESULT.md

The corpus is corpus.py's: --corpus names a file that it wrote (it is written there if it is missing), with 10,000 documents more
than --documents, which serve as new ones. Its planted pairs are the truth for recall. Everything runs in a process of its own;
documents are read from the file while they are added. --folder: where the indexes are written; it should be on a disk.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from measure import (
    Clock,
    bytes_by_table,
    each,
    in_child,
    machine,
    machine_lines,
    note,
    one_thread,
    peak_memory_mb,
    percentiles,
    read_jsonl,
    table,
    timed,
)

from neardup_db import Index, MinHash

VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "MinHash(), matches not recorded": ({}, {"record_matches": False}),
    "MinHash(), matches recorded": ({}, {"record_matches": True}),
    "MinHash(exact=True), matches not recorded": ({"exact": True}, {"record_matches": False}),
}
MAIN = "MinHash(), matches recorded"
QUERIES = 2000
NEW = 10_000  # documents of the corpus that are not loaded
PAIRS_FROM = 0.65  # planted pairs below this similarity have no signature similarity of 0.8
BANDS = ((0.8, 0.85), (0.85, 0.9), (0.9, 1.01))
SINGLE, IN_TRANSACTION, WATCHED = 3000, 3000, 300  # documents added one by one; in transactions; with the log's growth watched
TOGETHER = 100  # documents of a transaction


def read(path: str, count: int) -> tuple[float, float, float]:
    """Reading the documents alone: seconds, MB of text, peak memory in MB (the package is imported here too)."""
    with Clock() as clock:
        size = sum(len(text) for _, text in read_jsonl(Path(path), count))
    return clock.seconds, size / 1e6, peak_memory_mb()


def scheme_of(variant: str, count: int) -> MinHash:
    """The scheme of a variant, planned for the number of documents."""
    return MinHash(threshold=0.8, recall=0.99, expected=count, **VARIANTS[variant][0])


# ---- one load and what is asked of it ---------------------------------------------------------------------------------


def fill(path: str, count: int, variant: str, database: str) -> dict[str, Any]:
    """One `add_many`, from the file of texts into the file of the index."""
    with Index(database, scheme_of(variant, count), **VARIANTS[variant][1]) as index:
        with Clock() as clock:
            report = index.add_many(read_jsonl(Path(path), count))
        peak = peak_memory_mb()
        tables = bytes_by_table(index.connection)
    return {
        "variant": variant,
        "documents": report.added,
        "matched": report.matched,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "documents_per_s": report.added / clock.seconds,
        "peak_mb": peak,
        "file_bytes": Path(database).stat().st_size,
        "tables": tables,
    }


def ask(path: str, count: int, database: str) -> dict[str, tuple[float, float]]:
    """p50 and p99 in microseconds, warm: stored texts, new texts, stored fingerprints."""
    every = max(1, count // QUERIES)
    stored = list(corpus.picked(Path(path), range(0, count, every)).items())
    new = list(corpus.picked(Path(path), range(count, count + QUERIES)).values())
    with Index(database) as index:
        return {
            "stored text": timed(lambda i: index.query(stored[i][1]), len(stored)),
            "new text": timed(lambda i: index.query(new[i]), len(new)),
            "stored fingerprint": timed(lambda i: index.matches(f"d{stored[i][0]}"), len(stored)),
        }


def recall(path: str, count: int, variant: str, database: str) -> list[tuple[str, int, int]]:
    """(which pairs, how many, how many of them `matches` of the later document gives) of the planted pairs."""
    held = corpus.planted(Path(path), count)
    kept = held["similarity"] >= PAIRS_FROM
    earlier, later, similarity = (held[name][kept].tolist() for name in ("earlier", "later", "similarity"))
    numbers = sorted({*earlier, *later})
    texts = corpus.picked(Path(path), numbers)
    place = {number: i for i, number in enumerate(numbers)}
    signatures = MinHash(threshold=0.8).fingerprints([texts[number] for number in numbers])
    measured = [float(np.mean(signatures[place[a]] == signatures[place[b]])) for a, b in zip(earlier, later, strict=True)]
    found: dict[int, set[Any]] = defaultdict(set)
    with Index(database) as index:
        for number in set(later):
            found[number] = {match.key for match in index.matches(f"d{number}")}
    hit = [f"d{a}" in found[b] for a, b in zip(earlier, later, strict=True)]
    rows = []
    for low, high in (*BANDS, (0.8, 1.01)):
        inside = [one for one, true in zip(hit, similarity, strict=True) if low <= true < high]
        rows.append((f"true similarity {low} to {min(high, 1.0)}", len(inside), sum(inside)))
    if not VARIANTS[variant][0].get("exact"):
        inside = [one for one, shown in zip(hit, measured, strict=True) if shown >= 0.8]
        rows.append(("signature similarity 0.8 or more", len(inside), sum(inside)))
    return rows


# ---- one at a time ----------------------------------------------------------------------------------------------------


def singles(path: str, count: int, database: str) -> list[dict[str, Any]]:
    """`add_if_new` of new documents, durability "normal"; one at a time, then in transactions."""
    new = list(corpus.picked(Path(path), range(count, count + NEW)).items())
    rows = []
    for name, offered, together in (("one at a time", SINGLE, 1), (f"transactions of {TOGETHER}", IN_TRANSACTION, TOGETHER)):
        part, watched, new = new[:offered], new[offered : offered + WATCHED], new[offered + WATCHED :]
        with Index(database, durability="normal") as index:
            for _, text in new[-500:]:  # warms the cache of the connection
                index.query(text)
            before = len(index)
            with Clock() as clock:
                times = added_in(index, part, together)
            stored = len(index) - before
        rows.append(
            {
                "name": name,
                "offered": len(part),
                "stored": stored,
                "per_s": len(part) / clock.seconds,
                "cpu_seconds": clock.cpu_seconds,
                "p50_us": percentiles(times)[0] / together,
                "p99_us": percentiles(times)[1] / together,
                "pages_per_stored": pages_written(database, watched, together),
            }
        )
    return rows


def added_in(index: Index, part: Sequence[tuple[int, str]], together: int) -> list[float]:
    """Microseconds of each transaction."""

    def one(i: int) -> None:
        number, text = part[i]
        index.add_if_new(f"d{number}", text)

    def several(i: int) -> None:
        with index.transaction():
            for j in range(together * i, together * (i + 1)):
                one(j)

    return each(one if together == 1 else several, len(part) // together)


def pages_written(database: str, part: Sequence[tuple[int, str]], together: int) -> float:
    """Pages that went into the write-ahead log for each stored document."""
    with Index(database, durability="normal") as index:  # of its own: the setting below would hold for what is timed, too
        connection = index.connection
        connection.wal_autocheckpoint(0)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        before, log = len(index), Path(database + "-wal")
        added_in(index, part, together)
        page_size = int(connection.execute("PRAGMA page_size").get)
        pages = log.stat().st_size // (page_size + 24)  # each page has a header of 24 bytes there
        return float(pages / max(1, len(index) - before))


# ---- all of it ---------------------------------------------------------------------------------------------------------


def measure(path: str, count: int, folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """The variants, one after the other; each index is removed before the next."""
    results: dict[str, Any] = {"machine": machine(), "read": in_child(read, path, count), "fills": [], "singles": []}
    for name in names:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            database = str(Path(own) / "index.db")
            filled = in_child(fill, path, count, name, database)
            note(f"{name}: {filled['documents_per_s']:.0f} documents/s")
            filled["query_us"] = in_child(ask, path, count, database)
            filled["recall"] = in_child(recall, path, count, name, database)
            results["fills"].append(filled)
            if name == MAIN:
                results["singles"] = in_child(singles, path, count, database)
            note(f"{name}: asked")
    return results


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    seconds, mb, peak = results["read"]
    parts = ["# Scale", machine_lines(results["machine"])]
    if results["fills"]:
        parts += fills_markdown(results["fills"], seconds, mb, peak)
    if results["singles"]:
        parts += singles_markdown(results["singles"])
    return "\n\n".join(parts)


def fills_markdown(fills: list[dict[str, Any]], seconds: float, mb: float, peak: float) -> list[str]:
    """Loads, tables, recall."""
    count = fills[0]["documents"]
    rates = [
        (
            result["variant"],
            round(result["documents_per_s"]),
            result["seconds"],
            result["cpu_seconds"],
            round(result["peak_mb"]),
            round(result["file_bytes"] / count),
            *(f"{p50:.0f} / {p99:.0f}" for p50, p99 in result["query_us"].values()),
            result["matched"],
        )
        for result in fills
    ]
    asked = tuple(f"query, {name}: p50 / p99 us" for name in fills[0]["query_us"])
    header = ("variant", "documents/s", "seconds", "CPU s", "peak MB", "bytes a document", *asked, "matched")
    sizes = [
        (result["variant"], name, size / count) for result in fills for name, size in result["tables"].items() if size >= count
    ]
    found = [
        (result["variant"], which, total, hits, f"{hits / total:.5f}" if total else chr(8211))
        for result in fills
        for which, total, hits in result["recall"]
    ]
    return [
        f"{count:,} documents of {mb * 1e6 / count:,.0f} characters on average ({mb:,.0f} MB), read as JSON lines while one "
        f"`add_many` adds them to a file, durability full. Reading them alone takes {seconds:.1f} s and {peak:.0f} MB. Queries: "
        "through Python, warm, the middle of three; without a limit.",
        table(header, rates),
        "## Bytes a document, by table",
        table(("variant", "table or index", "bytes a document"), sizes),
        f"## Recall\n\nOf the planted pairs of similarity {PAIRS_FROM} and more: is the earlier document among `matches` of the "
        "later one? Signature similarity: the share of equal slots of the two fingerprints.",
        table(("variant", "pairs", "planted", "found", "share"), found),
    ]


def singles_markdown(rows: list[dict[str, Any]]) -> list[str]:
    """Single adds."""
    cells = [
        (row["name"], row["offered"], row["stored"], round(row["per_s"]), row["p50_us"], row["p99_us"], row["pages_per_stored"])
        for row in rows
    ]
    header = ("", "offered", "stored", "offered/s", "p50 us each", "p99 us each", "pages written for a stored one")
    return [
        f"## `add_if_new`\n\nNew documents, offered to the index of `{MAIN}` in durability normal; what matched was not stored. "
        "Pages: growth of the write-ahead log, without checkpoints.",
        table(header, cells),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = options.corpus or Path(folder) / "corpus.jsonl"
        if not path.exists():
            note("writing the corpus")
            corpus.write(path, options.documents + NEW)
        results = measure(str(path), options.documents, Path(folder), options.variants)
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
