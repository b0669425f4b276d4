"""The nearest documents beyond the bound of an index: codes beside faiss, all codes compared; sets.

    python benchmarks/nearest.py [--codes 1000000] [--texts 50000]

Codes are random families: each is one of a tenth as many random codes with about a sixth of its bits flipped. Questions are 30
random codes, which lie far from all. Texts have 300 random words. Milliseconds are of CPU, of one thread, the median. Index and
faiss give the same distances.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, machine_lines, table

from neardup_db import BinaryCode, BottomK, Index, MinHash

WIDTHS = ((64, 3), (64, 8), (64, 16), (256, 31), (256, 60))
"""Bits of a code, and the distance that the index is made for."""

SETS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (MinHash(exact=True), {}),
    (MinHash(exact=True), {"store_text": True}),
    (BottomK(), {}),
)


def families(rng: np.random.Generator, count: int, bits: int) -> Any:
    """Codes, uint8[count, bits // 8]."""
    bases = rng.integers(0, 256, (count // 10 + 1, bits // 8), dtype=np.uint8)
    flips = np.zeros((count, bits), np.uint8)
    for _ in range(bits // 6):
        flips[np.arange(count), rng.integers(0, bits, count)] ^= 1
    return bases[rng.integers(0, len(bases), count)] ^ np.packbits(flips, axis=1)


def median_ms(ask: Callable[[Any], Any], questions: Iterable[Any]) -> str:
    """Milliseconds of CPU of one question."""
    times = []
    for question in questions:
        start = time.thread_time()
        ask(question)
        times.append(time.thread_time() - start)
    return f"{1e3 * float(np.median(times)):.2f}"


def code_rows(folder: Path, count: int) -> Iterable[list[str]]:
    """A row for each index: nearest(1), nearest(10), nearest(100), faiss for 10, and a query at the distance of the index."""
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(1)
    for bits, distance in WIDTHS:
        codes, questions = families(rng, count, bits), rng.integers(0, 256, (30, bits // 8), dtype=np.uint8)
        flat = faiss.IndexBinaryFlat(bits)
        flat.add(codes)
        with Index(folder / f"{bits}-{distance}.db", BinaryCode(bits, distance), record_matches=False) as index:
            index.add_codes(range(count), codes)
            for question in questions[:5]:
                found = [match.distance for match in index.nearest(question, 10)]
                assert found == flat.search(question[None], 10)[0][0].tolist()
            nearest = [median_ms(lambda code, n=n: index.nearest(code, n), questions) for n in (1, 10, 100)]  # noqa: B023
            compared = median_ms(lambda code: flat.search(code[None], 10), questions)  # noqa: B023
            query = median_ms(index.query_code, questions)
            yield [f"{bits}, {distance} ({index.scheme.plan})", *nearest, compared, query]


def set_rows(folder: Path, count: int) -> Iterable[list[str]]:
    """A row for each index of texts: nearest(10) of a text like none, and of one that shares half its words with another."""
    rng = random.Random(1)
    words = [f"w{number}" for number in range(20_000)]
    texts = [" ".join(rng.choices(words, k=300)) for _ in range(count)]
    far = [" ".join(rng.choices(words, k=300)) for _ in range(5)]
    half = [" ".join([*text.split()[:150], *rng.choices(words, k=150)]) for text in texts[:5]]
    for number, (scheme, options) in enumerate(SETS):
        with Index(folder / f"sets-{number}.db", scheme, record_matches=False, **options) as index:
            index.add_many(enumerate(texts))
            times = [median_ms(lambda text: index.nearest(text, 10), questions) for questions in (far, half)]  # noqa: B023
            yield [f"{scheme!r}{', texts stored' if options else ''}", *times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--texts", type=int, default=50_000)
    given = parser.parse_args()
    print(machine_lines(machine()))
    with tempfile.TemporaryDirectory() as folder:
        print(f"\n{given.codes:,} codes, ms a question\n")
        heads = ["bits, distance (plan)", "nearest 1", "nearest 10", "nearest 100", "faiss flat, 10", "query"]
        print(table(heads, list(code_rows(Path(folder), given.codes))))
        print(f"\n{given.texts:,} texts of 300 words, ms a question\n")
        print(table(["index", "like none", "half of one"], list(set_rows(Path(folder), given.texts))))


if __name__ == "__main__":
    main()
