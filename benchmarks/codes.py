"""Codes of bits: one load, then queries within a distance, beside other indexes in the same run.

    pip install "neardup-db[bench]"
    python benchmarks/codes.py [--codes 1000000 10000000] [--wide 1000000] [--skewed] [--only NAME ...] [--all] [--json FILE]

Codes are random, one in a hundred of them an earlier one with up to one bit more than the distance flipped. --skewed: each bit is
set with a probability of its own, between 0.1 and 0.9, so that some blocks are far more frequent than others. Half the queries
are stored codes with 0 up to the distance flipped, half are random ones of the same kind. Every index is loaded in a process of
its own; its answers to 300 of the queries are compared with all distances computed by numpy (>= 2).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from code_indexes import (
    CodeIndex,
    Codes,
    FaissFlat,
    FaissMultiHash,
    NeardupIndex,
    Simhash,
    SqliteByHand,
    SqliteVec,
    Usearch,
)
from measure import Clock, in_child, machine, machine_lines, memory_mb, note, one_thread, peak_memory_mb, table, timed

Job = tuple[str, type[CodeIndex], dict[str, Any]]

CHECKED = 300
MATCHES_RECORDED = 1_000_000  # codes up to which loading is also measured with record_matches=True


def multi_hash(hashes: int, width: int, flips: int) -> Job:
    """faiss finds all within the distance where hashes * (flips + 1) is above it."""
    settings = {"hashes": hashes, "width": width, "flips": flips}
    return f"faiss MultiHash {hashes} x {width} bits, flips {flips}", FaissMultiHash, settings


OURS: list[Job] = [
    ("neardup-db, matches not recorded", NeardupIndex, {"record_matches": False}),
    ("neardup-db, matches recorded", NeardupIndex, {"record_matches": True}),
]
NARROW: list[Job] = [  # 64 bits, distance 3
    *(multi_hash(*setting) for setting in ((4, 16, 0), (2, 20, 1), (2, 24, 1), (2, 28, 1), (2, 32, 1))),
    ("faiss flat", FaissFlat, {}),
    ("simhash (1e0ng)", Simhash, {}),
    *((f"usearch, expansion {n}", Usearch, {"expansion_search": n}) for n in (64, 256)),
    ("sqlite-vec", SqliteVec, {}),
    ("sqlite3 by hand, 4 tables", SqliteByHand, {}),
]
WIDE: list[Job] = [  # 256 bits, distance 31
    *(multi_hash(*setting) for setting in ((32, 8, 0), (16, 16, 1), (11, 23, 2))),
    ("faiss flat", FaissFlat, {}),
]


# ---- codes -------------------------------------------------------------------------------------------------------------


def random_codes(count: int, bits: int, random: np.random.Generator, chances: Any = 0.5) -> Codes:
    """uint8[count, bits // 8]; `chances`: that each bit is set, 0.5 or float64[bits]."""
    if np.ndim(chances) == 0:
        return random.integers(0, 256, (count, bits // 8), dtype=np.uint8)
    parts = [random.random((min(100_000, count - start), bits)) < chances for start in range(0, count, 100_000)]
    return np.concatenate([np.packbits(part, axis=1) for part in parts])


def flip(codes: Codes, flips: Any, random: np.random.Generator) -> None:
    """Flips flips[i] different bits of codes[i]."""
    bits = 8 * codes.shape[1]
    order = random.random((len(codes), bits), dtype=np.float32).argsort(axis=1)
    for step in range(int(np.max(flips, initial=0))):
        rows = np.flatnonzero(flips > step)
        places = order[rows, step]
        codes[rows, places // 8] ^= (1 << places % 8).astype(np.uint8)


def planted(count: int, bits: int, distance: int, copies: int, skewed: bool = False) -> Codes:
    """Codes of which the last `copies` are others with up to `distance` + 1 bits flipped."""
    random = np.random.default_rng(bits)
    codes = random_codes(count, bits, random, random.uniform(0.1, 0.9, bits) if skewed else 0.5)
    codes[count - copies :] = codes[random.integers(0, count - copies, copies)]
    flip(codes[count - copies :], random.integers(0, distance + 2, copies), random)
    return codes


def questions(codes: Codes, distance: int, count: int) -> Codes:
    """Near a stored code and (as far as its bits' frequencies go) anywhere, in turns."""
    random = np.random.default_rng(7)
    asked = codes[random.integers(0, len(codes), count)]
    flip(asked[::2], random.integers(0, distance + 1, len(asked[::2])), random)
    bits = np.unpackbits(codes[random.integers(0, len(codes), 10_000)], axis=1).mean(axis=0)
    asked[1::2] = random_codes(len(asked[1::2]), 8 * codes.shape[1], random, bits)
    return asked


def all_near(codes_file: str, queries: Codes, distance: int) -> list[set[int]]:
    """The numbers of all codes within the distance of each query."""
    codes = np.load(codes_file).view(np.uint64)
    near = []
    for query in queries.view(np.uint64):
        apart = np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.int16)
        near.append(set(np.flatnonzero(apart <= distance).tolist()))
    return near


# ---- measuring ---------------------------------------------------------------------------------------------------------


def run(job: Job, codes_file: str, queries: Codes, distance: int, truth: list[set[int]]) -> dict[str, Any]:
    """One index, loaded and asked in this process."""
    name, kind, settings = job
    codes = np.load(codes_file)
    with tempfile.TemporaryDirectory() as folder:
        index = kind(8 * codes.shape[1], distance, Path(folder), **settings)
        before = memory_mb()
        with Clock() as loading:
            index.load(codes)
        peak = peak_memory_mb() - before
        prepared = index.prepared(queries[: index.queries])
        near = [index.found(index.ask(query)) for query in prepared[: len(truth)]]
        p50, p99 = timed(lambda i: index.ask(prepared[i]), len(prepared))
        with Clock() as together:
            in_one = index.ask_all(queries[: index.queries])
        file_bytes = index.file_bytes()
    right = truth[: len(near)]
    return {
        "name": name,
        "load_seconds": loading.seconds,
        "load_cpu_seconds": loading.cpu_seconds,
        "codes_per_s": len(codes) / loading.seconds,
        "file_bytes_per_code": None if file_bytes is None else file_bytes / len(codes),
        "peak_mb": peak,
        "p50_us": p50,
        "p99_us": p99,
        "in_one_call_us": together.seconds * 1e6 / len(prepared) if in_one else None,
        "checked": len(near),
        "recall": sum(len(a & b) for a, b in zip(near, right, strict=True)) / max(1, sum(map(len, right))),
        "wrong": sum(len(a - b) for a, b in zip(near, right, strict=True)),
    }


def section(count: int, bits: int, distance: int, jobs: Sequence[Job], skewed: bool, all_of_them: bool) -> dict[str, Any]:
    """All indexes with the same codes and queries."""
    title = f"{count:,} {'skewed ' if skewed else ''}codes of {bits} bits, within {distance}"
    note(title)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        codes_file = str(Path(folder) / "codes.npy")
        codes = planted(count, bits, distance, count // 100, skewed)
        np.save(codes_file, codes)
        queries = questions(codes, distance, CodeIndex.queries)
        del codes
        truth = in_child(all_near, codes_file, queries[:CHECKED], distance)
        for name, kind, settings in jobs:
            recorded = settings.get("record_matches", False) and count > MATCHES_RECORDED
            if not all_of_them and (recorded or (kind.most_codes or count) < count):
                note(f"{name}: left out at this size")
                continue
            try:
                rows.append(in_child(run, (name, kind, settings), codes_file, queries, distance, truth))
            except RuntimeError as error:
                rows.append({"name": name, "error": str(error).strip().splitlines()[-1]})
            note(f"{name}: {rows[-1].get('error') or format(rows[-1]['p50_us'], '.1f') + ' us'}")
    return {"title": title, "near": sum(map(len, truth)), "rows": rows}


def markdown(results: dict[str, Any]) -> str:
    """The report."""
    parts = [
        "# Codes",
        machine_lines(results["machine"]),
        "One thread. neardup-db and sqlite3 by hand: in a file, the others in memory. Query times: one by one through Python, "
        "the middle of three; in one call: all queries at once, where the library can, a query. Memory: the peak above the "
        "process with the codes loaded. Recall and wrong answers: against all distances. simhash and usearch are left out above "
        "a million codes unless --all is given.",
    ]
    costs = ("codes/s", "CPU s", "bytes a code on disk", "peak MB")
    header = ("index", *costs, "p50 us", "p99 us", "in one call", "recall", "wrong")
    dash = chr(8211)
    for part in results["sections"]:
        good = [row for row in part["rows"] if "error" not in row]
        rows = [
            (
                row["name"],
                round(row["codes_per_s"]),
                row["load_cpu_seconds"],
                dash if row["file_bytes_per_code"] is None else row["file_bytes_per_code"],
                round(row["peak_mb"]),
                row["p50_us"],
                row["p99_us"],
                dash if row["in_one_call_us"] is None else row["in_one_call_us"],
                f"{row['recall']:.4f}",
                row["wrong"],
            )
            for row in good
        ]
        parts += [f"## {part['title']}", f"{part['near']} codes are near {CHECKED} queries.", table(header, rows)]
        parts += [f"{row['name']}: {row['error']}" for row in part["rows"] if "error" in row]
    return "\n\n".join(parts)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=int, nargs="*", default=[1_000_000, 10_000_000], help="numbers of 64-bit codes")
    parser.add_argument("--wide", type=int, nargs="*", default=[1_000_000], help="numbers of 256-bit codes")
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--only", nargs="*", default=[""], help="indexes whose name begins so")
    parser.add_argument("--all", action="store_true", help="every index at every size")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {"machine": machine(), "sections": []}
    plan = [(count, 64, 3, NARROW) for count in options.codes] + [(count, 256, 31, WIDE) for count in options.wide]
    for count, bits, distance, peers in plan:
        jobs = [job for job in OURS + peers if job[0].startswith(tuple(options.only))]
        results["sections"].append(section(count, bits, distance, jobs, options.skewed, options.all))
    print(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
