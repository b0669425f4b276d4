"""Hashes to sketches: what each tier of kernels takes, one call a document, one thread.

    python benchmarks/sketch_speed.py [--repeats 300] [--json FILE] > RESULT.md

A document is 430 ready 64-bit hashes, the word 3-shingles of about 2.5 KB of English; longer ones have 2,800 (16 KB) and 35,000
(200 KB). Each figure is the median of the repeats (the smallest in brackets), a repeat being calls on up to 32 documents, short
enough that most of them are not interrupted, without the cost of a call that does nothing, which is measured beside. With rensa
installed its MinHash of the same number of shingles, given as strings, follows: it takes no hashes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, machine_lines, note, table

from neardup_db.native import ffi, lib

DOCUMENTS = 32
SHORT = 15_000  # hashes in a repeat
HASHES = 1 << 18


def measured(run: Callable[[int], Any], repeats: int, calls: int = DOCUMENTS) -> tuple[float, float]:
    """(median, smallest) nanoseconds of one run(document)."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        for document in range(calls):
            run(document)
        times.append((time.perf_counter_ns() - start) / calls)
    return statistics.median(times), min(times)


def works(count: int) -> dict[str, Callable[[int], Any]]:
    """The calls to measure on documents of so many hashes."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2**64, HASHES, dtype=np.uint64)
    weights = ffi.new("int64_t[]", rng.integers(1, 1000, count).tolist())
    a, b, slots = (ffi.new("uint32_t[]", 256) for _ in range(3))
    counters, code, kept, kept_count = (
        ffi.new("int64_t[]", 64),
        ffi.new("uint8_t[]", 8),
        ffi.new("uint64_t[]", 128),
        ffi.new("size_t *"),
    )
    assert lib.nd_minhash_coefficients(0, 1, 256, a, b) == lib.ND_OK
    # each holds the array that it points into
    documents = [ffi.from_buffer("uint64_t[]", drawn[start : start + count]) for start in range(0, DOCUMENTS * 431, 431)]
    return {
        "MinHash 128": lambda document: lib.nd_minhash(0, a, b, 128, documents[document], count, slots),
        "MinHash 256": lambda document: lib.nd_minhash(0, a, b, 256, documents[document], count, slots),
        "SimHash 64": lambda document: lib.nd_simhash_u64(documents[document], count, 64, 64, ffi.NULL, counters, code),
        "SimHash 64, weights": lambda document: lib.nd_simhash_u64(documents[document], count, 64, 64, weights, counters, code),
        "bottom-k 128": lambda document: lib.nd_bottom_k(documents[document], count, 128, kept, kept_count),
    }


def peers(count: int, repeats: int) -> list[list[Any]]:
    try:
        import rensa
    except ImportError:
        return []
    shingles = [[f"some words {document * count + i}" for i in range(count)] for document in range(DOCUMENTS)]

    def run(document: int) -> Any:
        sketch = rensa.RMinHash(128, 1)
        sketch.update(shingles[document])
        return sketch.digest()

    middle, least = measured(run, max(repeats // 10, 3))
    return [
        [
            "rensa, from strings",
            "RMinHash 128",
            count,
            f"{middle:,.0f} ({least:,.0f})",
            f"{middle / count:.2f}",
            f"{1e9 / middle:,.0f}",
        ]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    info, rows = machine(), []
    empty, _ = measured(lambda document: lib.nd_hash_size(document & 3), options.repeats)
    for tier in [ffi.string(lib.nd_isa_at(i)) for i in range(lib.nd_isa_count())]:
        assert lib.nd_isa_force(tier) == lib.ND_OK
        for count in (430, 2_800, 35_000):
            calls = min(DOCUMENTS, SHORT // count + 1)
            repeats = max(options.repeats // (10 if tier == b"scalar" else 1), 5)
            for name, run in works(count).items():
                note(f"{tier.decode()}, {name}, {count} hashes")
                middle, least = (max(value - empty, 0.1) for value in measured(run, repeats, calls))
                rows.append(
                    [tier.decode(), name, count, f"{middle:,.0f} ({least:,.0f})", f"{middle / count:.2f}", f"{1e9 / middle:,.0f}"]
                )
    assert lib.nd_isa_force(ffi.NULL) == lib.ND_OK
    rows += peers(430, options.repeats)
    print(f"# Hashes to sketches\n\n{machine_lines(info)}\n\nA call that does nothing: {empty:.0f} ns, taken off below.\n")
    print(table(["tier", "work", "hashes", "ns a document (smallest)", "ns a hash", "documents/s"], rows))
    if options.json:
        options.json.write_text(json.dumps({"machine": info, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
