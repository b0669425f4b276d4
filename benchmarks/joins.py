"""All pairs of codes and of fingerprints: times of the joins beside other packages, in one run.

    benchmarks/build_simhash_py.sh simhash_py.so        # a peer that pip cannot install on newer Pythons
    pip install 'neardup-db[bench]'                     # faiss-cpu and SetSimilaritySearch; what is missing is left out
    python benchmarks/joins.py [--simhash-py simhash_py.so] [--repeat 5] > RESULT.md

One thread each. Times are those of the process (user and system), because other work may share the machine, and medians of
`--repeat` runs in which ours and theirs take turns; slow peers run once. Ours begins and ends with numpy arrays; simhash-py is
called without Python's lists, and its set of codes is built beforehand.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from codes import planted
from measure import in_child, machine, machine_lines, memory_mb, note, peak_memory_mb, table

from neardup_db import compute
from neardup_db.native import ffi, lib

Codes = npt.NDArray[Any]
Run = tuple[str, Callable[[], Any], bool]  # name, what is measured, whether it is slow and runs once
ARTICLE = {"classical merge": 0.99, "early stop": 2.87, "early stop, pcmpestrm": 6.25}
TIERS = [ffi.string(lib.nd_isa_at(i)).decode() for i in range(lib.nd_isa_count())]


def force(tier: str | None) -> None:
    lib.nd_isa_force(ffi.NULL if tier is None else tier.encode())


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def medians(runs: Sequence[Run], repeat: int) -> dict[str, tuple[float, Any]]:
    """{name: (median seconds, result)} of functions that take turns."""
    times: dict[str, list[float]] = {name: [] for name, _, _ in runs}
    results: dict[str, Any] = {}
    for turn in range(repeat):
        for name, run, slow in runs:
            if turn and slow:
                continue
            spent, results[name] = seconds(run)
            times[name].append(spent)
            if spent > 1:
                note(f"{name}: {spent:.2f} s")
    return {name: (statistics.median(all_times), results[name]) for name, all_times in times.items()}


# ---- codes -------------------------------------------------------------------------------------------------------------


class SimhashPy:
    """The C++ of simhash-py, from the library that build_simhash_py.sh makes."""

    def __init__(self, path: str, codes: Codes) -> None:
        self.library = ctypes.CDLL(path)
        self.library.codes_new.restype = ctypes.c_void_p
        self.library.codes_new.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.library.count_pairs.restype = ctypes.c_size_t
        self.library.count_pairs.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        numbers = np.ascontiguousarray(codes).view(">u8").astype(np.uint64).reshape(-1)
        self.codes = self.library.codes_new(numbers.ctypes.data, len(numbers))

    def count(self, blocks: int, distance: int) -> int:
        return int(self.library.count_pairs(self.codes, blocks, distance))


def faiss_runs(codes: Codes, distance: int, hashes: int, flips: int, flat: bool) -> list[Run]:
    """Range searches of all codes for all: each pair comes twice, and each code finds itself."""
    try:
        import faiss
    except ImportError:
        note("faiss-cpu is not installed")
        return []
    faiss.omp_set_num_threads(1)
    bits = 8 * codes.shape[1]

    def pairs(index: Any) -> int:
        index.add(codes)
        limits, _, _ = index.range_search(codes, distance + 1)
        return (int(limits[-1]) - len(codes)) // 2

    def multi() -> int:
        index = faiss.IndexBinaryMultiHash(bits, hashes, bits // hashes)
        index.nflip = flips
        return pairs(index)

    runs: list[Run] = [(f"faiss MultiHash, {hashes} of {bits // hashes}, flips {flips}", multi, True)]
    if flat:
        runs.append(("faiss Flat", lambda: pairs(faiss.IndexBinaryFlat(bits)), True))
    return runs


def codes_section(title: str, codes: Codes, distance: int, others: list[Run], repeat: int) -> str:
    def ours(tier: str | None) -> Callable[[], int]:
        def run() -> int:
            force(tier)
            return len(compute.find_all(codes, distance))

        return run

    note(title)
    runs = [(f"ours, {tier}", ours(tier), tier == "scalar" and len(codes) * distance > 4_000_000) for tier in TIERS]
    results = medians([*runs, *others], repeat)
    force(None)
    best = results[f"ours, {TIERS[-1]}"][0]
    rows = [[name, 1000 * spent, found, spent / best] for name, (spent, found) in results.items()]
    return f"### {title}\n\n" + table(["", "ms", "pairs found", "times ours"], rows)


def skewed(count: int, bits: int) -> list[Any]:
    """Near copies of one code, all pairs of which are within the distance: a row of the table, run in a process of its own."""
    rng = np.random.default_rng(1)
    codes = np.tile(rng.integers(0, 256, bits // 8, dtype=np.uint8), (count, 1))
    rows, flips = np.arange(count), rng.integers(0, bits, count)
    codes[rows, flips // 8] ^= (1 << flips % 8).astype(np.uint8)
    before = memory_mb()
    spent, pairs = seconds(lambda: compute.find_all(codes, 3))
    return [f"{count:,} near copies of {bits} bits", len(pairs), 1000 * spent, peak_memory_mb() - before, pairs.nbytes / 1e6]


# ---- sets --------------------------------------------------------------------------------------------------------------


def fingerprints(count: int, k: int, common_percent: int) -> npt.NDArray[np.uint64]:
    """uint64[count, k] ascending: each value is one of k shared ones with that chance, else random; of the last twentieth each
    is a copy of another with up to 60 % of its values replaced."""
    rng = np.random.default_rng(common_percent)
    shared = rng.integers(0, 2**63, k, dtype=np.uint64)
    own = rng.integers(2**63, 2**64, (count, k), dtype=np.uint64)
    rows = np.where(rng.integers(0, 100, (count, k)) < common_percent, shared, own)
    copies = count // 20
    kept = rng.random((copies, k)) > 0.6 * rng.random((copies, 1))
    rows[-copies:] = np.where(kept, rows[rng.integers(0, count - copies, copies)], own[-copies:])
    return np.sort(rows, axis=1)


def sets_section(count: int, k: int, threshold: float, repeat: int) -> str:
    rows: list[list[Any]] = []
    pair_count = count * (count - 1) / 2
    for percent in (0, 30, 60):
        arrays = fingerprints(count, k, percent)
        as_list = list(arrays)
        note(f"fingerprints with {percent} % of shared values")

        def ours(tier: str, form: Any) -> Callable[[], int]:
            def run() -> int:
                force(tier)
                return len(compute.jaccard_pairs(form, threshold)[0])

            return run

        runs = [(f"ours, {tier}", ours(tier, arrays), False) for tier in TIERS]
        runs.append((f"ours, {TIERS[-1]}, from a list", ours(TIERS[-1], as_list), False))
        peer = set_similarity_search(arrays, threshold)
        results = medians([*runs, *([("SetSimilaritySearch", peer, True)] if peer else [])], repeat)
        force(None)
        for name, (spent, found) in results.items():
            rate = pair_count / spent / 1e6
            rows.append([f"{percent} %", name, 1000 * spent, rate, rate / max(ARTICLE.values()), found])
    header = ["shared", "", "ms", "million pairs a second", "times the article's best", "pairs found"]
    article = ", ".join(f"{name} {rate}" for name, rate in ARTICLE.items())
    return (
        f"### All pairs of {count:,} bottom-{k} fingerprints, Jaccard at least {threshold}\n\n" + table(header, rows) +
        f"\n\nThe article's C++, million pairs a second on its machine: {article}. Ours holds everything: conversion from "
        "Python, bitmaps, verification, the sorted answer."
    )  # fmt: skip


def set_similarity_search(arrays: npt.NDArray[np.uint64], threshold: float) -> Callable[[], int] | None:
    try:
        from SetSimilaritySearch import all_pairs
    except ImportError:
        note("SetSimilaritySearch is not installed")
        return None
    listed = arrays.tolist()
    return lambda: len(list(all_pairs(listed, similarity_func_name="jaccard", similarity_threshold=threshold)))


def larger_sets(repeat: int) -> str:
    """Collections whose lists of values are walked, and the cost of a value that all sets share."""
    rows = []
    cases = ((20_000, 128, 0.5, 0), (20_000, 128, 0.8, 0), (20_000, 128, 0.8, 20), (2_000, 1000, 0.5, 0))
    for count, k, threshold, percent in cases:
        join = functools.partial(compute.jaccard_pairs, fingerprints(count, k, percent), threshold)
        spent, (ids, _) = medians([("", join, False)], min(repeat, 3))[""]
        found = len(ids)
        rows.append([count, k, threshold, f"{percent} %", 1000 * spent, count * (count - 1) / 2 / spent / 1e6, found])
    header = ["sets", "values each", "threshold", "shared", "ms", "million pairs a second", "pairs found"]
    return "### Larger collections\n\n" + table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simhash-py", help="the library that build_simhash_py.sh made")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--count", type=int, default=1_000_000, help="codes of 64 bits")
    parser.add_argument("--wide", type=int, default=100_000, help="codes of 256 bits")
    options = parser.parse_args()
    info = machine()
    sections = ["# All pairs\n\n" + machine_lines(info)]
    sections.append(f"Times are process times, medians of {options.repeat} runs in turns.")

    codes = planted(options.count, 64, 3, options.count // 1000)
    others = faiss_runs(codes, 3, 4, 0, False)
    if options.simhash_py:
        peer = SimhashPy(options.simhash_py, codes)
        for blocks in (4, 5, 6):
            others.append((f"simhash-py 0.4, {blocks} blocks", lambda blocks=blocks: peer.count(blocks, 3), False))
    sections.append(codes_section(f"{len(codes):,} codes of 64 bits, within 3", codes, 3, others, options.repeat))
    if options.simhash_py:
        sections.append("simhash-py drops equal codes, so it finds fewer pairs than there are.")
    codes = planted(options.count, 64, 7, options.count // 1000)
    sections.append(codes_section(f"{len(codes):,} codes of 64 bits, within 7", codes, 7, [], options.repeat))
    wide = planted(options.wide, 256, 31, options.wide // 100)
    wide_others = faiss_runs(wide, 31, 16, 1, True)
    sections.append(codes_section(f"{len(wide):,} codes of 256 bits, within 31", wide, 31, wide_others, options.repeat))

    rows = [in_child(skewed, 10_000, 64), in_child(skewed, 10_000, 256)]
    header = ["", "pairs", "ms", "memory at its peak, MB", "of which the answer, MB"]
    sections.append("### Skewed input: everything is a pair\n\n" + table(header, rows))

    sections.append(sets_section(2000, 128, 0.5, options.repeat))
    sections.append(larger_sets(options.repeat))
    print("\n\n".join(sections))


if __name__ == "__main__":
    main()
