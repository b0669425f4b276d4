"""All pairs of a whole index, and texts to clusters beside other libraries.

    pip install "neardup-db[bench]"
    python benchmarks/allpairs.py [--parts pairs clusters texts] [--json FILE] > RESULT.md
        [--documents 740000] [--data FILE.jsonl]            pairs: BottomK(k=128, threshold=0.5), add_many, then pairs()
        [--clusters 1000000] [--clusters-data FILE.jsonl]   clusters: MinHash(threshold=0.8), add_many, then clusters()
        [--texts 100000] [--repeat 3] [--words 420 250]     texts: texts in a list, clusters out, all libraries in turns
        [--before PYTHON]                                   also the version that is installed for another Python

Without files the documents are corpus.py's, for `pairs` with a median of 250 words. The pairs of the first 20,000 documents are
compared with those of exact.py on fingerprints made without the index. In the third part the truth comes from exact.py over sets
of shingles; peers are set up as in peers.py, and their pairs are joined to clusters by union-find.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import corpus
from exact import components, exact_pairs, shingle_sets
from measure import (
    Clock,
    folder_bytes,
    in_child,
    machine,
    machine_lines,
    memory_mb,
    note,
    one_thread,
    peak_memory_mb,
    read_jsonl,
    table,
)
from peers import BANDS, JOBS, PERMUTATIONS, ROWS, THRESHOLD, Pairs

from neardup_db import BottomK, Index, MinHash
from neardup_db.compute import shingles

BOTTOM_K = BottomK(k=128, threshold=0.5)
PART = 20_000  # documents whose pairs are compared with brute force
WORDS = 250  # of the median document of `pairs`
PARTS = ("pairs", "clusters", "texts")

Clusters = Iterable[Sequence[int]]


# ---- pairs of stored fingerprints --------------------------------------------------------------------------------------


def add(path: str, count: int, database: str, scheme: BottomK | MinHash) -> dict[str, Any]:
    """The documents, numbered, without looking for matches."""
    with Index(database, scheme, record_matches=False) as index, Clock() as clock:
        report = index.add_many((number, text) for number, (_, text) in enumerate(read_jsonl(Path(path), count)))
    size = folder_bytes(Path(database).parent)
    return {"documents": report.added, "add_seconds": clock.seconds, "add_peak_mb": peak_memory_mb(), "file_bytes": size}


def all_pairs(database: str) -> dict[str, Any]:
    """`pairs` of the whole index, counted; those of the first documents are kept."""
    first, total = {}, 0
    with Index(database, read_only=True) as index:
        before = memory_mb()
        with Clock() as clock:
            for pair in index.pairs():
                total += 1
                if int(pair.key_b) < PART and int(pair.key_a) < PART:
                    first[int(pair.key_a), int(pair.key_b)] = pair.similarity
        above = peak_memory_mb() - before
    return {"seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds, "memory_mb": above, "pairs": total, "first": first}


def compared(path: str, count: int, found: dict[tuple[int, int], float]) -> dict[str, Any]:
    """Brute force over the fingerprints of the first documents."""
    texts = [text for _, text in read_jsonl(Path(path), min(count, PART))]
    fingerprints = BOTTOM_K.fingerprints(texts)
    truth = exact_pairs(shingle_sets(fingerprints, lambda fingerprint: fingerprint.tolist()), BOTTOM_K.threshold)
    return {
        "part": len(texts),
        "true_pairs": len(truth),
        "missed": len(truth.keys() - found.keys()),
        "wrong": len(found.keys() - truth.keys()),
        "other_similarity": sum(found[pair] != truth[pair] for pair in truth.keys() & found.keys()),
    }


def measure_pairs(path: str, count: int, folder: Path) -> dict[str, Any]:
    """The first part."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        database = str(Path(own) / "index.db")
        row: dict[str, Any] = in_child(add, path, count, database, BottomK(k=128, threshold=0.5, expected=count))
        note(f"pairs: {row['documents']} added in {row['add_seconds']:.1f} s")
        row |= in_child(all_pairs, database)
        note(f"pairs: {row['pairs']} in {row['seconds']:.1f} s")
    row |= in_child(compared, path, count, row.pop("first"))
    return row


def all_clusters(database: str) -> dict[str, Any]:
    """`clusters` of the whole index."""
    with Index(database, read_only=True) as index:
        before = memory_mb()
        with Clock() as clock:
            found = index.clusters()
    above = peak_memory_mb() - before
    return {
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "memory_mb": above,
        "clusters": len(found),
        "largest": len(found[0]) if found else 0,
    }


def measure_clusters(path: str, count: int, folder: Path) -> dict[str, Any]:
    """The second part."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        database = str(Path(own) / "index.db")
        row: dict[str, Any] = in_child(add, path, count, database, MinHash(threshold=0.8, expected=count))
        note(f"clusters: {row['documents']} added in {row['add_seconds']:.1f} s")
        row |= in_child(all_clusters, database)
        note(f"clusters: {row['clusters']} in {row['seconds']:.1f} s")
    return row


# ---- texts to clusters --------------------------------------------------------------------------------------------------


def neardup_job(texts: Sequence[str], folder: str, exact: bool) -> tuple[Clusters, Callable[[], Pairs]]:
    """This package, in a file: `add_many`, then `clusters`. The pairs are listed afterwards, off the clock."""
    database = os.path.join(folder, "index.db")
    with Index(database, MinHash(threshold=0.8, exact=exact, expected=len(texts)), record_matches=False) as index:
        index.add_many(enumerate(texts))
        clusters = [[int(key) for key in cluster.keys] for cluster in index.clusters()]

    def pairs() -> Pairs:
        with Index(database, read_only=True) as index:
            return [(int(pair.key_a), int(pair.key_b)) for pair in index.pairs()]

    return clusters, pairs


def peer_job(name: str, texts: Sequence[str]) -> tuple[Clusters, Callable[[], Pairs]]:
    """Its pairs, joined."""
    pairs = JOBS[name](texts)
    return components(len(texts), pairs), lambda: pairs


def text_dedup_job(path: str, folder: str) -> tuple[Clusters, None]:
    """text-dedup's own program, which reads the file itself and verifies nothing: a shared band joins two documents."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": folder, "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
    from text_dedup import minhash

    options = {
        "path": "json", "data_files": path, "split": "train", "column": "text", "output": f"{folder}/out",
        "cache_dir": f"{folder}/cache", "num_proc": 1, "ngram": 3, "min_length": 1, "hash_func": "xxh3", "hash_bits": 32,
        "num_perm": PERMUTATIONS, "b": BANDS, "r": ROWS,
    }  # fmt: skip
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    minhash.main(arguments, standalone_mode=False)
    return components(max(minhash.uf.parent, default=0) + 1, minhash.uf.parent.items()), None


EXACT = "neardup-db exact=True, in a file"
BEFORE = "neardup-db exact=True, the version before"
ONE = "--one"
LIBRARIES = (EXACT, "neardup-db, in a file", *JOBS, "text-dedup")


def to_clusters(name: str, path: str, truth: set[tuple[int, int]]) -> dict[str, Any]:
    """One library in this process."""
    texts = [] if name == "text-dedup" else [text for _, text in read_jsonl(Path(path))]
    with tempfile.TemporaryDirectory() as folder:
        before = memory_mb()
        with Clock() as clock:
            if name == "text-dedup":
                clusters, later = text_dedup_job(path, folder)
            elif name in JOBS:
                clusters, later = peer_job(name, texts)
            else:
                clusters, later = neardup_job(texts, folder, "exact" in name)
        memory = peak_memory_mb() - before
        left = folder_bytes(folder) if name.startswith("neardup") else 0
        pairs = None if later is None else set(later())
    cluster_of = {member: number for number, members in enumerate(clusters) for member in members}
    joined = sum(i in cluster_of and cluster_of[i] == cluster_of.get(j) for i, j in truth)
    return {
        "name": name,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "memory_mb": memory,
        "left_bytes": left,
        "clusters": len(set(cluster_of.values())),
        "joined": joined / max(1, len(truth)),
        "pairs": None if pairs is None else len(pairs),
        "recall": None if pairs is None else len(pairs & truth) / max(1, len(truth)),
        "precision": None if pairs is None else len(pairs & truth) / max(1, len(pairs)),
    }


def truth_of(path: str) -> set[tuple[int, int]]:
    """The pairs, exactly."""
    return set(exact_pairs(shingle_sets((text for _, text in read_jsonl(Path(path))), shingles), THRESHOLD))


def version_before(python: str, path: str, truth: set[tuple[int, int]]) -> dict[str, Any]:
    """The same of the version that another Python has."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(sorted(truth), file)
        file.flush()
        done = subprocess.run([python, __file__, ONE, path, file.name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {**json.loads(done.stdout), "name": BEFORE}


def one_job(path: str, truth: str) -> None:
    """What `version_before` runs."""
    pairs = {(i, j) for i, j in json.loads(Path(truth).read_text())}
    print(json.dumps(to_clusters(EXACT, path, pairs)))


def measure_texts(path: str, repeat: int, names: Sequence[str], before: str | None) -> dict[str, Any]:
    """The third part: rounds through all libraries."""
    truth = in_child(truth_of, path)
    names = names if before is None else (*names, BEFORE)
    note(f"texts: {len(truth)} true pairs")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for turn in range(repeat):
        for name in names:
            try:
                if before is not None and name == BEFORE:
                    runs[name].append(version_before(before, path, truth))
                else:
                    runs[name].append(in_child(to_clusters, name, path, truth))
                note(f"round {turn + 1}: {name} {runs[name][-1]['seconds']:.1f} s")
            except RuntimeError as error:
                note(f"round {turn + 1}: {name} failed: {str(error).strip().splitlines()[-1]}")
    rows = [
        {
            **done[0],
            **{part: statistics.median(result[part] for result in done) for part in ("seconds", "cpu_seconds", "memory_mb")},
            "all_seconds": [result["seconds"] for result in done],
        }
        for done in runs.values()
        if done
    ]
    true_clusters = len(components(1 + max((j for _, j in truth), default=0), truth))
    return {"true_pairs": len(truth), "true_clusters": true_clusters, "rows": rows}


# ---- all of it ---------------------------------------------------------------------------------------------------------


def pairs_markdown(result: dict[str, Any]) -> str:
    """The first part."""
    header = ("documents", "added in s", "bytes a document", "pairs() s", "CPU s", "memory MB", "pairs")
    row = [result["documents"], result["add_seconds"], result["file_bytes"] / result["documents"]]
    row += [result[name] for name in ("seconds", "cpu_seconds", "memory_mb", "pairs")]
    return (
        f"## All pairs of stored fingerprints\n\n`{BOTTOM_K!r}`, matches not recorded, in a file. Memory: the peak above the "
        f"process with the index open.\n\n{table(header, [row])}\n\n"
        f"Of the pairs among the first {result['part']:,} documents brute force finds {result['true_pairs']:,}; `pairs` missed "
        f"{result['missed']}, gave {result['wrong']} more, and {result['other_similarity']} with another similarity."
    )


def clusters_markdown(result: dict[str, Any]) -> str:
    """The second part."""
    header = ("documents", "added in s", "bytes a document", "clusters() s", "CPU s", "memory MB", "clusters", "largest")
    row = [result["documents"], result["add_seconds"], result["file_bytes"] / result["documents"]]
    row += [result[name] for name in ("seconds", "cpu_seconds", "memory_mb", "clusters", "largest")]
    title = "## Clusters of stored fingerprints\n\nMinHash(threshold=0.8), matches not recorded, in a file.\n\n"
    return title + table(header, [row])


def texts_markdown(result: dict[str, Any], count: int, words: int) -> str:
    """The third part."""
    gaoya = next((row["seconds"] for row in result["rows"] if row["name"] == "gaoya"), None)
    dash = chr(8211)
    rows = [
        (
            row["name"],
            row["seconds"],
            f"{min(row['all_seconds']):.1f}{dash}{max(row['all_seconds']):.1f}",
            row["cpu_seconds"],
            dash if gaoya is None else f"{row['seconds'] / gaoya:.2f}",
            round(row["memory_mb"]),
            row["left_bytes"] / 1e6 if row["left_bytes"] else dash,
            row["clusters"],
            f"{row['joined']:.4f}",
            *(dash if row[name] is None else f"{row[name]:.4f}" for name in ("recall", "precision")),
        )
        for row in result["rows"]
    ]
    times = ("seconds", "of all repeats", "CPU s", "of gaoya's", "memory MB", "file left, MB")
    return (
        f"## {count:,} texts to clusters, median of {words} words\n\n"
        f"Jaccard of 3-word shingles >= 0.8; {result['true_pairs']:,} true pairs in "
        f"{result['true_clusters']:,} clusters. One thread, texts in a list (text-dedup reads them from the file, and works in "
        "processes of its own, whose CPU and memory are not counted), medians. Joined: true pairs whose documents are in one "
        "cluster. Recall and precision: of the pairs given; neardup-db makes clusters without listing pairs, its pairs are asked "
        "for afterwards, off the clock. text-dedup gives clusters only, of unverified candidates.\n\n"
        + table(("library", *times, "clusters", "joined", "recall", "precision"), rows)
    )


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == [ONE]:
        one_thread()
        return one_job(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--documents", type=int, default=740_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--clusters", type=int, default=1_000_000)
    parser.add_argument("--clusters-data", type=Path)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--libraries", nargs="*", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--words", type=int, nargs="*", default=[corpus.MEDIAN_WORDS, WORDS], help="medians, of the third part")
    parser.add_argument("--before", metavar="PYTHON")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="for corpora and indexes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {"machine": machine()}
    report = ["# All pairs", machine_lines(results["machine"])]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:

        def documents(given: Path | None, count: int, words: int) -> str:
            path = given or Path(folder) / f"{count}-{words}.jsonl"
            if not path.exists():
                in_child(corpus.write, path, count, 1, words)
            return str(path)

        if "pairs" in options.parts:
            path = documents(options.data, options.documents, WORDS)
            results["pairs"] = measure_pairs(path, options.documents, Path(folder))
            report.append(pairs_markdown(results["pairs"]))
        if "clusters" in options.parts:
            path = documents(options.clusters_data, options.clusters, corpus.MEDIAN_WORDS)
            results["clusters"] = measure_clusters(path, options.clusters, Path(folder))
            report.append(clusters_markdown(results["clusters"]))
        for words in options.words if "texts" in options.parts else ():
            path = documents(None, options.texts, words)
            results[f"texts, {words} words"] = measured = measure_texts(path, options.repeat, options.libraries, options.before)
            report.append(texts_markdown(measured, options.texts, words))
    print("\n\n".join(report))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
