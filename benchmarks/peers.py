"""The same job for several libraries: texts in a list, pairs of near-duplicates (Jaccard of 3-word shingles >= 0.8) out.

    pip install "neardup-db[bench]"
    python benchmarks/peers.py [--documents 20000 100000] [--data FILE.jsonl] [--repeat 3] [--json FILE] > RESULT.md

Every library has its fastest way in for this job, one thread, and bands that find at least 99 % of the pairs at 0.8; what the
bands find is verified with the signatures, since a shared band alone says little. Every run is a process of its own; the rounds
go through all libraries in turn, so that other work on the machine meets all of them. The truth comes from exact.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import corpus
from exact import exact_pairs, shingle_sets
from measure import in_child, machine, machine_lines, memory_mb, note, one_thread, peak_memory_mb, read_jsonl, table

THRESHOLD = 0.8
BANDS, ROWS = 21, 6  # of the libraries that need bands x rows signatures: P(found | 0.8) = 0.998
PERMUTATIONS = BANDS * ROWS
CHUNK = 1000  # texts handed over at once where a library takes many
FINGERPRINTED = 20_000  # texts in the measurement of fingerprints alone

Pairs = list[tuple[int, int]]
_WORD = re.compile(r"[^\W_]+")


def shingle_set(text: str) -> set[str]:
    """What libraries without a tokenizer of their own are given: the quickest plain Python that makes 3-word shingles."""
    words = _WORD.findall(text.casefold())
    return set(map(" ".join, zip(words, words[1:], words[2:], strict=False))) if len(words) > 2 else {" ".join(words)}


def chunks(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """(number of the first, texts) of parts of a list."""
    for start in range(0, len(texts), CHUNK):
        yield start, texts[start : start + CHUNK]


# ---- the libraries -----------------------------------------------------------------------------------------------------


def neardup_pairs(texts: Sequence[str], target: str, **options: Any) -> Pairs:
    """This package: `add_many`, then `pairs`."""
    from neardup_db import Index, MinHash

    with Index(target, MinHash(threshold=THRESHOLD, **options), record_matches=False) as index:
        index.add_many(enumerate(texts))
        return [(int(pair.key_a), int(pair.key_b)) for pair in index.pairs()]


def neardup_clusters(texts: Sequence[str], target: str) -> None:
    """This package, with the matches recorded while adding and the clusters listed: nothing that a pair could be counted from."""
    from neardup_db import Index, MinHash

    with Index(target, MinHash(threshold=THRESHOLD)) as index:
        index.add_many(enumerate(texts))
        index.clusters()


def on_disk(run: Callable[..., Any], texts: Sequence[str]) -> Any:
    """The same in a file."""
    with tempfile.TemporaryDirectory() as folder:
        return run(texts, os.path.join(folder, "index.db"))


def datasketch_pairs(texts: Sequence[str]) -> Pairs:
    """datasketch: permutations made once, a fast hash in place of SHA-1, query before insert, slots compared."""
    import numpy as np
    import xxhash
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    slots: list[Any] = []
    pairs: Pairs = []
    shingles = ([shingle.encode() for shingle in shingle_set(text)] for text in texts)
    made = MinHash.generator(shingles, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)
    for number, sketch in enumerate(made):
        for other in lsh.query(sketch):
            if np.count_nonzero(slots[other] == sketch.hashvalues) >= THRESHOLD * PERMUTATIONS:
                pairs.append((other, number))
        lsh.insert(number, sketch, check_duplication=False)
        slots.append(sketch.hashvalues)
    return pairs


def rensa_pairs(texts: Sequence[str]) -> Pairs:
    """rensa: sketches of many texts at once, query before insert, sketches compared."""
    from rensa import RMinHash, RMinHashLSH

    lsh = RMinHashLSH(THRESHOLD, PERMUTATIONS, BANDS)
    kept: list[Any] = []
    pairs: Pairs = []
    for start, part in chunks(texts):
        sketches = RMinHash.from_token_sets([shingle_set(text) for text in part], PERMUTATIONS, 42)
        for number, sketch in enumerate(sketches, start):
            pairs += [(other, number) for other in lsh.query(sketch) if kept[other].jaccard(sketch) >= THRESHOLD]
            lsh.insert(number, sketch)
            kept.append(sketch)
    return pairs


def gaoya_pairs(texts: Sequence[str]) -> Pairs:
    """gaoya: its own tokenizer and verification, everything inserted at once, then every text asked for."""
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(32, THRESHOLD, BANDS, ROWS, None, "word", True, (3, 3), "smallvec")
    pairs: Pairs = []
    for start, part in chunks(texts):
        index.par_bulk_insert_docs(list(range(start, start + len(part))), list(part))
    for start, part in chunks(texts):
        for number, found in enumerate(index.par_bulk_query(list(part)), start):
            pairs += [(other, number) for other in found if other < number]
    return pairs


def fastsketch_pairs(texts: Sequence[str]) -> Pairs:
    """FastSketchLSH: sketches of many texts at once (of 128 slots: it wants a power of two), the bands taken from the first 126
    as of the others, everything inserted, then everything asked for, all slots compared."""
    import numpy as np
    from FastSketchLSH import LSH, FastSimilaritySketch

    sketcher = FastSimilaritySketch(size=128, seed=42)
    made = [sketcher.batch([list(shingle_set(text)) for text in part], num_threads=1) for _, part in chunks(texts)]
    slots = np.concatenate([np.asarray(part, np.uint64) for part in made])
    lsh = LSH(num_perm=PERMUTATIONS, num_bands=BANDS, num_threads=1)
    filed = np.ascontiguousarray(slots[:, :PERMUTATIONS])
    lsh.insert(filed)
    pairs: Pairs = []
    for start, part in chunks(texts):
        flat, ends = lsh.query(filed[start : start + len(part)], format="csr")
        later = np.repeat(np.arange(start, start + len(part)), np.diff(ends.astype(np.int64)))
        earlier = flat.astype(np.int64)
        near = earlier < later
        earlier, later = earlier[near], later[near]
        near = np.count_nonzero(slots[earlier] == slots[later], axis=1) >= THRESHOLD * 128
        pairs += zip(earlier[near].tolist(), later[near].tolist(), strict=True)
    return pairs


JOBS: dict[str, Callable[[Sequence[str]], Pairs | None]] = {
    "neardup-db, in memory": lambda texts: neardup_pairs(texts, ":memory:"),
    "neardup-db, on disk": lambda texts: on_disk(neardup_pairs, texts),
    "neardup-db exact=True, in memory": lambda texts: neardup_pairs(texts, ":memory:", exact=True),
    "neardup-db, on disk, clusters kept while adding": lambda texts: on_disk(neardup_clusters, texts),
    "datasketch": datasketch_pairs,
    "rensa": rensa_pairs,
    "gaoya": gaoya_pairs,
    "FastSketchLSH": fastsketch_pairs,
}


# ---- fingerprints alone ------------------------------------------------------------------------------------------------


def neardup_sketches(texts: Sequence[str]) -> None:
    """128 slots of 16 bits."""
    from neardup_db import MinHash

    MinHash().fingerprints(texts)


def datasketch_sketches(texts: Sequence[str]) -> None:
    """128 slots of 32 bits."""
    import xxhash
    from datasketch import MinHash

    shingles = ([shingle.encode() for shingle in shingle_set(text)] for text in texts)
    for _ in MinHash.generator(shingles, num_perm=128, hashfunc=xxhash.xxh32_intdigest):
        pass


def rensa_sketches(texts: Sequence[str]) -> None:
    """128 slots of 32 bits."""
    from rensa import RMinHash

    for _, part in chunks(texts):
        RMinHash.digest_matrix_from_token_sets([shingle_set(text) for text in part], 128, 42)


def shingles_only(texts: Sequence[str]) -> None:
    """No sketch at all: what the shared tokenizer alone takes."""
    for text in texts:
        shingle_set(text)


SKETCHES: dict[str, Callable[[Sequence[str]], None]] = {
    "neardup-db": neardup_sketches,
    "datasketch": datasketch_sketches,
    "rensa": rensa_sketches,
    "(3-word shingles in Python, no sketch)": shingles_only,
}


# ---- measuring ---------------------------------------------------------------------------------------------------------


def run_job(name: str, path: str, count: int) -> dict[str, Any]:
    """One library in this process. Memory: what its peak is above the process with the texts loaded."""
    texts = [text for _, text in read_jsonl(Path(path), count)]
    before = memory_mb()
    start, cpu_start = time.perf_counter(), time.process_time()
    pairs = JOBS[name](texts)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    return {"name": name, "seconds": seconds, "cpu_seconds": cpu, "memory_mb": peak_memory_mb() - before, "pairs": pairs}


def run_sketches(name: str, path: str, count: int) -> tuple[float, float]:
    """MB of text a second of wall and of CPU time, fingerprints only."""
    texts = [text for _, text in read_jsonl(Path(path), count)]
    size = sum(map(len, texts)) / 1e6
    SKETCHES[name](texts[:10])
    start, cpu_start = time.perf_counter(), time.process_time()
    SKETCHES[name](texts)
    return size / (time.perf_counter() - start), size / (time.process_time() - cpu_start)


def truth_of(path: str, count: int | None) -> set[tuple[int, int]]:
    """The pairs, exactly."""
    from neardup_db.compute import shingles

    return set(exact_pairs(shingle_sets((text for _, text in read_jsonl(Path(path), count)), shingles), THRESHOLD))


def measure(path: str, count: int, repeat: int) -> dict[str, Any]:
    """All libraries on the first `count` documents."""
    truth = in_child(truth_of, path, count)
    note(f"{count} documents: {len(truth)} true pairs")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in JOBS}
    for turn in range(repeat):
        for name in JOBS:
            runs[name].append(in_child(run_job, name, path, count))
            note(f"{count} documents, round {turn + 1}: {name} {runs[name][-1]['seconds']:.1f} s")
    rows = []
    for name, done in runs.items():
        pairs = None if done[0]["pairs"] is None else set(done[0]["pairs"])
        hits = 0 if pairs is None else len(pairs & truth)
        rows.append(
            {
                "name": name,
                **{part: statistics.median(one[part] for one in done) for part in ("seconds", "cpu_seconds", "memory_mb")},
                "all_seconds": [one["seconds"] for one in done],
                "pairs": None if pairs is None else len(pairs),
                "recall": None if pairs is None else hits / max(1, len(truth)),
                "precision": None if pairs is None else hits / max(1, len(pairs)),
            }
        )
    return {"documents": count, "true_pairs": len(truth), "jobs": rows}


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    from neardup_db import MinHash

    ours = MinHash(threshold=THRESHOLD)
    parts = [
        "# The same job for several libraries",
        machine_lines(results["machine"]),
        f"Texts in a list; out come the pairs with Jaccard >= {THRESHOLD} of their 3-word shingles. One thread, medians of "
        f"{results['repeat']}. datasketch, rensa, gaoya, FastSketchLSH: {BANDS} bands of {ROWS} rows, {PERMUTATIONS} slots; "
        f"neardup-db: {ours.bands} bands of {ours.rows}, {ours.num_perm} slots. All compare signatures, but for exact=True. "
        "gaoya has its own tokenizer; the others get shingles from plain Python. CPU s: of the process; other work on the "
        "machine hardly touches it. Memory: peak above the process with the texts loaded.",
    ]
    for one in results["sizes"]:
        least = min(job["cpu_seconds"] for job in one["jobs"] if job["pairs"] is not None)
        rows = [
            (
                job["name"],
                job["seconds"],
                f"{min(job['all_seconds']):.1f}{chr(8211)}{max(job['all_seconds']):.1f}",
                job["cpu_seconds"],
                f"{job['cpu_seconds'] / least:.1f}",
                round(job["memory_mb"]),
                *(chr(8211) if job[part] is None else job[part] for part in ("pairs", "recall", "precision")),
            )
            for job in one["jobs"]
        ]
        header = ("library", "seconds", "of all repeats", "CPU s", "ratio", "memory MB", "pairs", "recall", "precision")
        parts += [f"## {one['documents']:,} documents, {one['true_pairs']:,} true pairs", table(header, rows)]
    speeds = [(name, wall, cpu) for name, (wall, cpu) in results["sketches"].items()]
    parts += ["## Fingerprints alone", table(("library", "MB/s", "MB/CPU s"), speeds)]
    return "\n\n".join(parts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {"machine": machine(), "repeat": options.repeat}
    with tempfile.TemporaryDirectory() as folder:
        path = options.data
        if path is None:
            path = Path(folder) / "corpus.jsonl"
            corpus.write(path, max(options.documents))
        few = min(FINGERPRINTED, max(options.documents))
        speeds = {name: [in_child(run_sketches, name, str(path), few) for _ in range(options.repeat)] for name in SKETCHES}
        results["sketches"] = {
            name: [statistics.median(part) for part in zip(*runs, strict=True)] for name, runs in speeds.items()
        }
        results["sizes"] = [measure(str(path), count, options.repeat) for count in options.documents]
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
