"""Containment queries: their recall and precision, their time, and the bytes that they cost in the file.

    python benchmarks/containment.py [--documents 20000] [--timed 100000] [--json FILE]

Questions are runs of words of stored documents, the whole text down to a 32nd of it: as they stand, and with every 20th word
replaced, so that about 0.86 of their shingles are left. The truth is every document's containment of every question, counted over
arrays of all shingle hashes, without an index. Scans are timed over more documents than the quality is measured on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from measure import in_child, machine, machine_lines, note, table

from neardup_db import BottomK, Index, MinHash, TextRules
from neardup_db.compute import shingle_hashes

THRESHOLD = 0.8
PARTS = (1, 2, 4, 8, 16, 32)
EACH = 60
RULES = TextRules()
SKETCHES = {
    "BottomK(k=64)": BottomK(k=64, containment=True),
    "BottomK(k=128)": BottomK(k=128, containment=True),
    "BottomK(k=256)": BottomK(k=256, containment=True),
}
SCANS: dict[str, dict[str, Any]] = {"hashes kept": {}, "texts stored": {"store_text": True}}


def questions(texts: Sequence[str], part: int, changed: bool, seed: int) -> list[str]:
    """EACH runs of words, a 1/part of a document each, of documents with at least 64 words."""
    random = np.random.default_rng(seed)
    found: list[str] = []
    while len(found) < EACH:
        words = texts[random.integers(len(texts))].split()
        if len(words) < 64:
            continue
        size = max(5, len(words) // part)
        start = int(random.integers(len(words) - size + 1))
        run = words[start : start + size]
        if changed:
            run = [f"zz{number}" if number % 20 == 10 else word for number, word in enumerate(run)]
        found.append(" ".join(run))
    return found


class Truth:
    """The containment of any text in every document, from one sorted array of (shingle hash, document)."""

    def __init__(self, texts: Sequence[str]) -> None:
        sets = [np.unique(shingle_hashes(text, RULES)) for text in texts]
        hashes = np.concatenate(sets)
        owners = np.repeat(np.arange(len(sets), dtype=np.int32), [len(one) for one in sets])
        order = np.argsort(hashes, kind="stable")
        self.hashes, self.owners, self.count = hashes[order], owners[order], len(texts)

    def containing(self, text: str) -> dict[int, float]:
        """{document: containment} of all with at least THRESHOLD."""
        asked = np.unique(shingle_hashes(text, RULES))
        lows, highs = np.searchsorted(self.hashes, asked, "left"), np.searchsorted(self.hashes, asked, "right")
        met = np.concatenate([self.owners[low:high] for low, high in zip(lows, highs, strict=True)] or [self.owners[:0]])
        shares = np.bincount(met, minlength=self.count) / len(asked)
        return {int(number): float(shares[number]) for number in np.flatnonzero(shares >= THRESHOLD)}


def fill(path: Path, scheme: Any, texts: Iterable[str], **options: Any) -> Index:
    """An index of texts under the keys 0, 1, ..."""
    index = Index(path, scheme, record_matches=False, durability="normal", **options)
    index.add_many(enumerate(texts))
    return index


def middle(values: Sequence[float]) -> float:
    """The median."""
    return sorted(values)[len(values) // 2]


def quality(count: int) -> list[dict[str, Any]]:
    """Recall and precision of sketches, by how much longer documents are than questions; each answer of a scan is checked too."""
    texts = [text for _, text in corpus.documents(count)]
    truth = Truth(texts)
    note(f"truth of {count:,} documents")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        exact = fill(Path(folder) / "exact.db", MinHash(exact=True), texts)
        sketches = {name: fill(Path(folder) / f"{scheme.k}.db", scheme, texts) for name, scheme in SKETCHES.items()}
        note("indexes made")
        for part in PARTS:
            for changed in (False, True):
                asked = questions(texts, part, changed, seed=part)
                right = [truth.containing(text) for text in asked]
                for text, expected in zip(asked[:5], right, strict=False):
                    answer = exact.query(text, measure="containment", threshold=THRESHOLD)
                    assert {one.key: one.similarity for one in answer} == expected, "a scan differs from the truth"
                for name, index in sketches.items():
                    results.append({"part": part, "changed": changed, **_measured(name, index, asked, right)})
            note(f"questions of 1/{part}")
        for index in (exact, *sketches.values()):
            index.close()
    return results


def _measured(name: str, index: Index, asked: Sequence[str], right: Sequence[dict[int, float]]) -> dict[str, Any]:
    found = wanted = returned = 0
    times, errors = [], []
    for text, expected in zip(asked, right, strict=True):
        start = time.perf_counter()
        answer = index.query(text, measure="containment", threshold=THRESHOLD)
        times.append((time.perf_counter() - start) * 1e6)
        found += sum(one.key in expected for one in answer)
        wanted += len(expected)
        returned += len(answer)
        errors += [one.similarity - expected[one.key] for one in answer if one.key in expected]
    recall, precision = found / wanted if wanted else None, found / returned if returned else None
    spread = float(np.std(errors)) if errors else None
    return {"scheme": name, "wanted": wanted, "recall": recall, "precision": precision, "spread": spread, "us": middle(times)}


def scan(count: int, name: str) -> dict[str, Any]:
    """(seconds, seconds of CPU) of an exact query over `count` documents, warm, by the length of the question."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.db"
        with fill(path, MinHash(exact=True), (text for _, text in corpus.documents(count)), **SCANS[name]) as index:
            some = [text for _, text in corpus.documents(500)]
            size = path.stat().st_size / count
            seconds = {}
            for part in (1, 32):
                times = []
                for text in questions(some, part, False, seed=7)[:7]:
                    start, cpu_start = time.perf_counter(), time.process_time()
                    assert index.query(text, measure="containment", threshold=0.9)
                    times.append((time.perf_counter() - start, time.process_time() - cpu_start))
                seconds[part] = [middle(one) for one in zip(*times, strict=True)]
    note(f"scan, {name}: {seconds}")
    return {"documents": count, "kept": name, "seconds": seconds, "bytes": size}


def size_of(count: int, k: int, containment: bool) -> dict[str, Any]:
    """Bytes a document and seconds of a bottom-k index, with and without all hashes filed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "size.db"
        texts = [text for _, text in islice(corpus.documents(count), count)]
        start = time.perf_counter()
        with fill(path, BottomK(k=k, containment=containment), texts):
            seconds = time.perf_counter() - start
        return {"k": k, "containment": containment, "bytes": path.stat().st_size / count, "rate": count / seconds}


def measure(count: int, timed: int) -> dict[str, Any]:
    """Everything, for --json."""
    return {
        "machine": machine(),
        "documents": count,
        "quality": in_child(quality, count),
        "scans": [in_child(scan, timed, name) for name in SCANS],
        "sizes": [in_child(size_of, count, scheme.k, one) for scheme in SKETCHES.values() for one in (False, True)],
    }


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    shown = [
        (
            one["scheme"],
            f"1/{one['part']}",
            "words replaced" if one["changed"] else "as it stands",
            one["wanted"],
            *("none" if one[name] is None else f"{one[name]:.3f}" for name in ("recall", "precision", "spread")),
            round(one["us"]),
        )
        for one in results["quality"]
    ]
    scans = []
    for one in results["scans"]:
        seconds = (f"{wall:.2f} / {cpu:.2f}" for wall, cpu in one["seconds"].values())
        scans.append((one["kept"], one["documents"], *seconds, round(one["bytes"])))
    sizes = [
        (one["k"], "all" if one["containment"] else "prefix", round(one["bytes"]), round(one["rate"])) for one in results["sizes"]
    ]
    header = ("scheme", "question", "", "true answers", "recall", "precision", "spread of the estimate", "median us")
    return "\n\n".join(
        (
            "# Containment",
            machine_lines(results["machine"]),
            f"{results['documents']:,} synthetic documents, {EACH} questions a line, each a part of a document. Threshold "
            f"{THRESHOLD}; spread: standard deviation of the estimate around the truth, among true answers returned (cut at the "
            "threshold). Of five questions a line the exact scan's answers were compared with the truth: all equal.",
            table(header, shown),
            "## Scans of `MinHash(exact=True)`\n\nMedian of 7 queries, the file in memory: seconds / seconds of CPU.",
            table(("evidence", "documents", "whole documents", "1/32 of one", "bytes a document"), scans),
            "## What filing all hashes costs",
            table(("k", "hashes filed", "bytes a document", "documents/s"), sizes),
        )
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--timed", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = measure(options.documents, options.timed)
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
