"""All pairs of a large collection's bottom-k fingerprints: time, memory, their growth, and brute force on a part of it.

    python benchmarks/set_joins.py FILE.jsonl[.gz] [...] [--counts 20000 50000 100000 200000] [--check 20000] > RESULT.md
    MAKE_DOCUMENTS | python benchmarks/set_joins.py -        # one {"id": ..., "text": ...} a line

Each file is a collection; of it the first so many documents are joined, and then all, one thread, each in a process of its own.
The time is that of the process (user and system) from a list of arrays to sorted arrays of pairs, the memory what was added to
what the fingerprints take. Making these is not in it: text.py measures that. The growth is the exponent of a power law through
the collection's times from 20,000 documents on. `--check` documents are also compared with all overlaps counted in Python: the
pairs and their similarities must be equal to the last bit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measure import in_child, machine, machine_lines, memory_mb, note, peak_memory_mb, read_jsonl, table

from neardup_db import BottomK, compute

Fingerprints = list[npt.NDArray[np.uint64]]
Found = list[tuple[int, int, float]]
BATCH = 10_000


def texts_of(source: str) -> Iterator[str]:
    if source == "-":
        return (json.loads(line)["text"] for line in sys.stdin.buffer)
    return (text for _, text in read_jsonl(Path(source)))


def save_fingerprints(texts: Iterable[str], k: int, folder: Path) -> int:
    """Writes the fingerprints of the texts to the folder; how many there are."""
    scheme, values, lengths = BottomK(k=k), [], []
    texts = iter(texts)
    while batch := list(itertools.islice(texts, BATCH)):
        for fingerprint in scheme.fingerprints(batch):
            values.append(fingerprint)
            lengths.append(len(fingerprint))
    np.save(folder / "values.npy", np.concatenate(values))
    np.save(folder / "ends.npy", np.cumsum(lengths))
    return len(lengths)


def load(folder: Path, count: int) -> Fingerprints:
    ends = np.load(folder / "ends.npy")[:count]
    values = np.load(folder / "values.npy", mmap_mode="r")[: ends[-1]]
    return np.split(np.array(values), ends[:-1])


def join(folder: Path, count: int, threshold: float) -> tuple[int, int, float, float, float]:
    """(pairs, bytes of the fingerprints, seconds, MB added, MB of the answer)."""
    fingerprints = load(folder, count)
    Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
    before, start = memory_mb(), time.process_time()
    ids, similarities = compute.jaccard_pairs(fingerprints, threshold)
    spent = time.process_time() - start
    size = sum(values.nbytes for values in fingerprints)
    return len(ids), size, spent, peak_memory_mb() - before, (ids.nbytes + similarities.nbytes) / 1e6


def brute_force(fingerprints: Fingerprints, threshold: float) -> Found:
    """Every pair at or above the threshold: for each fingerprint, in how many of its hashes each of the others has a share."""
    lengths = np.array([len(values) for values in fingerprints])
    owners = np.repeat(np.arange(len(fingerprints), dtype=np.int32), lengths)
    numbers = np.unique(np.concatenate(fingerprints), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    having, starts = owners[order], np.searchsorted(numbers[order], np.arange(numbers.max() + 2))
    found: Found = []
    for i, own in enumerate(np.split(numbers, np.cumsum(lengths)[:-1])):
        if not len(own):
            continue
        others = np.concatenate([having[starts[number] : starts[number + 1]] for number in own])
        common = np.bincount(others, minlength=len(fingerprints))
        common[: i + 1] = 0
        met = np.flatnonzero(common)
        similarities = common[met] / (lengths[i] + lengths[met] - common[met])
        for j, similarity in zip(met.tolist(), similarities.tolist(), strict=True):
            if similarity >= threshold:
                found.append((i, j, similarity))
    return found


def check(folder: Path, count: int, threshold: float) -> list[Any]:
    fingerprints = load(folder, count)
    ids, similarities = compute.jaccard_pairs(fingerprints, threshold)
    ours = [(int(i), int(j), float(s)) for (i, j), s in zip(ids, similarities, strict=True)]
    expected = brute_force(fingerprints, threshold)
    return [len(expected), "equal" if ours == expected else f"DIFFERENT: {len(set(ours) ^ set(expected))} pairs"]


def growth(rows: list[list[Any]]) -> str:
    points = [(row[1], row[4]) for row in rows if row[1] >= 20_000]
    if len(points) < 3:
        return ""
    exponent = np.polyfit(*np.log(np.array(points, float)).T, 1)[0]
    return f"The time grows as documents^{exponent:.2f}."


def section(source: str, options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        note(f"{source}: fingerprints")
        total = save_fingerprints(texts_of(source), options.k, folder)
        parts = [f"### {'Standard input' if source == '-' else Path(source).parent.name or source}: {total:,} documents"]
        for threshold in options.threshold:
            rows: list[list[Any]] = []
            for count in [*(n for n in options.counts if n < total), total]:
                note(f"{count} documents at {threshold}")
                pairs, size, spent, added, answer = in_child(join, folder, count, threshold)
                rows.append([threshold, count, size / 1e6, pairs, spent, added, answer])
            header = ["threshold", "documents", "fingerprints, MB", "pairs", "seconds", "memory added, MB", "the answer, MB"]
            checked = min(total, options.check)
            compared = in_child(check, folder, checked, threshold)
            sentence = f"The first {checked:,} by brute force: {compared[0]:,} pairs, {compared[1]}."
            parts += [table(header, rows), f"{growth(rows)} {sentence}".strip()]
        return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", help="files of JSON lines, or - for standard input")
    parser.add_argument("--counts", type=int, nargs="*", default=[20_000, 50_000, 100_000, 200_000])
    parser.add_argument("--check", type=int, default=20_000, help="documents to be joined by brute force too")
    parser.add_argument("--threshold", type=float, nargs="+", default=[0.5])
    parser.add_argument("--k", type=int, default=128)
    options = parser.parse_args()
    info = machine()
    sections = [f"# All pairs of bottom-{options.k} fingerprints\n\n" + machine_lines(info)]
    sections += [section(source, options) for source in options.sources]
    print("\n\n".join(sections))


if __name__ == "__main__":
    main()
