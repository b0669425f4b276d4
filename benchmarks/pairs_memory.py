"""Memory and time of pairs() where there are very many pairs, many equal copies, or many groups.

    python benchmarks/pairs_memory.py [--schemes NAME ...] [--json FILE] > RESULT.md
        [--documents 20000] [--part 4000] [--pairs 5000000]

Every scheme, in an index in a file, matches not recorded:
    near     near-copies of one text, of which every two match: 20,000 have 200 million pairs, so that only the first `--pairs`
             are read; of `--part` documents all are
    equal    copies of one text, the first `--pairs` of their pairs too
    groups   one text, once in each of so many groups: no pair
Memory is the peak of a fresh process above what it had with the index open, in MB. It must not grow with the square: compare
near-copies with those of `--part` documents.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Clock, in_child, machine, machine_lines, memory_mb, note, peak_memory_mb, table

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, SimHash

SCHEMES = {
    "SimHash": SimHash(max_distance=20),
    "MinHash": MinHash(),
    "MinHash exact": MinHash(exact=True),
    "BottomK": BottomK(),
    "BitSampling": BitSampling(),
    "BinaryCode": BinaryCode(bits=64, max_distance=15),
}
KINDS = ("near", "equal", "groups")
TEXT = " ".join(f"word{i}" for i in range(300))
OWN = 10
"""Words that a near-copy has and no other one."""


def documents(kind: str, count: int) -> Iterator[dict[str, Any]]:
    """The documents to add."""
    for i in range(count):
        text = f"{TEXT} {' '.join(f'own{i}x{j}' for j in range(OWN))}" if kind == "near" else TEXT
        yield {"key": i, "text": text, "group": f"group {i}" if kind == "groups" else None}


def fill(path: str, name: str, kind: str, count: int) -> float:
    """An index of these documents. Returns the seconds that it took."""
    with Index(path, SCHEMES[name], record_matches=False) as index, Clock() as clock:
        if index.scheme.takes_text:
            index.add_many(documents(kind, count))
        elif kind == "groups":
            with index.transaction():
                for i in range(count):
                    index.add_code(i, 5, group=f"group {i}")
        else:  # numbers below 2^15 differ in 15 bits at most
            index.add_codes(range(count), range(count) if kind == "near" else [5] * count)
    return clock.seconds


def read(path: str, most: int) -> dict[str, Any]:
    """The first `most` pairs: how many came, seconds, seconds to the first one, memory."""
    with Index(path, read_only=True) as index:
        before, found, first = memory_mb(), 0, None
        start = time.perf_counter()
        with Clock() as clock:
            for _ in index.pairs():
                if first is None:
                    first = time.perf_counter() - start
                found += 1
                if found == most:
                    break
        above = max(0.0, peak_memory_mb() - before)
    return {"pairs": found, "seconds": clock.seconds, "first": first, "memory_mb": above}


def measure(name: str, kind: str, count: int, most: int) -> dict[str, Any]:
    """One row."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "index.db")
        added = in_child(fill, path, name, kind, count)
        row = {"scheme": name, "kind": kind, "documents": count, "added": added, **in_child(read, path, most)}
    note(f"{name}, {count} {kind}: {row['pairs']} pairs in {row['seconds']:.1f} s, {row['memory_mb']:.0f} MB")
    return row


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    header = ("scheme", "documents", "what", "pairs read", "of", "s", "s to the first", "memory MB")
    dash = chr(8211)
    cells = []
    for row in rows:
        count = row["documents"]
        known = 0 if row["kind"] == "groups" else count * (count - 1) // 2
        cells.append(
            (
                row["scheme"], count, row["kind"], row["pairs"], known, row["seconds"],
                dash if row["first"] is None else round(row["first"], 2), round(row["memory_mb"]),
            )
        )  # fmt: skip
    return table(header, cells)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--part", type=int, default=4_000)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--schemes", nargs="*", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    info = machine()
    sizes = [("near", options.part, 1 << 62), ("near", options.documents, options.pairs)]
    sizes += [(kind, options.documents, options.pairs) for kind in KINDS[1:]]
    rows = [measure(name, kind, count, most) for name in options.schemes for kind, count, most in sizes]
    print(f"# Memory of all pairs\n\n{machine_lines(info)}\n\n{markdown(rows)}")
    if options.json:
        options.json.write_text(json.dumps({"machine": info, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
