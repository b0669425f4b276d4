"""Every exact scheme under every plan: all pairs of an index beside brute force, and queries beside the same.

    python benchmarks/plans.py [--documents 100000] [--data FILE.jsonl[.gz] ...] [--json FILE] > RESULT.md

Texts: those of the files, then corpus.py's, up to --documents. For codes the truth is every distance, by numpy (>= 2). For
bottom-k it is `compute.jaccard_pairs` over the fingerprints, which set_joins.py holds beside brute force. Matches are not
recorded: `pairs()` is one join over the candidate table (of bottom-k the same join in memory as the truth), and each of 200
queries, which always go through the table, is compared with the truth as well.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import numpy.typing as npt
from measure import in_child, machine, machine_lines, note, read_jsonl, table

from neardup_db import BitSampling, BottomK, Index, SimHash
from neardup_db.compute import jaccard_pairs

PLANS: list[tuple[str, Any]] = [
    ("SimHash(max_distance=3), 4 blocks", SimHash(max_distance=3, blocks=4)),
    ("SimHash(max_distance=3), 5 blocks", SimHash(max_distance=3, blocks=5)),
    ("SimHash(max_distance=3), 6 blocks", SimHash(max_distance=3, blocks=6)),
    ("SimHash(max_distance=10), as planned", SimHash(max_distance=10)),
    ("BitSampling(bits=256), as planned", BitSampling()),
    ("BitSampling(bits=256), 16 chunks", BitSampling(max_distance=37, chunks=16)),
    ("BitSampling(bits=256), 24 chunks", BitSampling(max_distance=37, chunks=24)),
    ("BitSampling(bits=256), a scan", BitSampling(max_distance=63)),
    ("BottomK(k=128, threshold=0.5)", BottomK()),
    ("BottomK(k=128, threshold=0.8)", BottomK(threshold=0.8)),
    ("BottomK(k=128, threshold=0.8, containment)", BottomK(threshold=0.8, containment=True)),
]
QUERIES = 200
Codes = npt.NDArray[np.uint64]


def texts_of(paths: list[str], count: int) -> list[str]:
    """The texts of the files, then synthetic ones."""
    real = itertools.chain.from_iterable((text for _, text in read_jsonl(Path(path), count)) for path in paths)
    made = (text for _, text in corpus.documents(count))
    return list(itertools.islice(itertools.chain(real, made), count))


def near_codes(codes: Codes, distance: int) -> set[tuple[int, int]]:
    """All i < j within the distance; codes: uint64[n, words]."""
    found: set[tuple[int, int]] = set()
    for i in range(len(codes) - 1):
        differing = np.bitwise_count(codes[i + 1 :] ^ codes[i]).sum(axis=1, dtype=np.uint16)
        found.update((i, i + 1 + int(j)) for j in np.nonzero(differing <= distance)[0])
    return found


def truth_of(scheme: Any, texts: list[str]) -> set[tuple[int, int]]:
    """All pairs, without an index."""
    if isinstance(scheme, BottomK):
        pairs, _ = jaccard_pairs(scheme.fingerprints(texts), scheme.threshold)
        return {(int(i), int(j)) for i, j in pairs}
    bits = scheme.bits or 64
    rows = scheme.fingerprints(texts)
    return near_codes(np.ascontiguousarray(rows).view(np.uint64).reshape(len(texts), bits // 64), scheme.max_distance)


def run(number: int, paths: list[str], count: int) -> dict[str, Any]:
    """One scheme and plan."""
    name, scheme = PLANS[number]
    texts = texts_of(paths, count)
    start = time.perf_counter()
    truth = truth_of(scheme, texts)
    truth_s = time.perf_counter() - start
    with Index(":memory:", scheme, record_matches=False) as index:
        index.add_many(enumerate(texts))
        start = time.perf_counter()
        pairs = {(pair.key_a, pair.key_b) for pair in index.pairs()}
        pairs_s = time.perf_counter() - start
        partners: dict[int, set[int]] = {}
        for a, b in truth:
            partners.setdefault(a, set()).add(b)
            partners.setdefault(b, set()).add(a)
        asked = [*itertools.islice(partners, QUERIES // 2), *range(0, count, 2 * count // QUERIES)]
        wrong = sum({one.key for one in index.query(texts[i])} - {i} != partners.get(i, set()) for i in asked)
        plan = index.explain(texts[0]).plan
    return {
        "name": name,
        "plan": plan,
        "pairs": len(truth),
        "missed": len(truth - pairs),
        "extra": len(pairs - truth),
        "queries": len(asked),
        "wrong": wrong,
        "seconds": pairs_s,
        "truth_seconds": truth_s,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--data", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for number in range(len(PLANS)):
        results.append(in_child(run, number, options.data, options.documents))
        note(f"{results[-1]}")
    columns = ("plan", "pairs", "missed", "extra", "queries", "wrong", "seconds", "truth_seconds")
    header = ("scheme", "plan", "pairs by brute force", "missed", "extra", "queries", "wrong", "pairs(), s", "brute force, s")
    print("# Exact schemes, every plan\n")
    print(machine_lines(machine()) + "\n")
    print(f"{options.documents:,} texts, {len(options.data)} files of real ones first.\n")
    print(table(header, [(one["name"], *(one[name] for name in columns)) for one in results]))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
