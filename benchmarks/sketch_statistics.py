"""How good the estimates are: bias, spread and independence of MinHash slots, one-bit samples and bottom-k fingerprints.

    python benchmarks/sketch_statistics.py [--trials 20000] [--large-trials 4000] [--json FILE] > RESULT.md

Pairs of sets of n elements with a known Jaccard similarity J go through the C core. A *bias* is held against 0.001 plus three
standard errors, a *spread* (standard deviation over theory) against 1.02 plus three standard errors. Theory: J (1 - J) / k for
the share of equal slots among k; P (1 - P) / k / (1 - 2^-b)^2 with P = J + (1 - J) 2^-b where b bits of a slot are kept and the
chance agreements taken off (Li and Koenig 2010; b = 1: one-bit samples); for bottom-k, a sample without replacement from the
union of u elements, J (1 - J) / k * (u - k) / (u - 1), exact where u <= k.

Random sets have hashes as a good hash gives them, and one hash family (seed 1) throughout, as an index has. Structured sets are
intervals of numbers or numbered words; a family is drawn for each trial, since the sets differ little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measure import machine, machine_lines, note, table

from neardup_db import TextRules, compute
from neardup_db.native import ffi, lib

Array = npt.NDArray[Any]
K = 128
SIZES = (5, 20, 100, 1_000, 100_000)
SIMILARITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
BLOCK_HASHES = 1 << 21  # drawn at once


@dataclass(frozen=True)
class Shape:
    """Two sets of n elements, `common` of them in both: elements 0..n-1 and n-common..2n-common-1 of their union."""

    n: int
    common: int

    @property
    def union(self) -> int:
        return 2 * self.n - self.common

    @property
    def jaccard(self) -> float:
        return self.common / self.union


def shapes(n: int, similarities: tuple[float, ...] = SIMILARITIES) -> list[Shape]:
    """The shapes nearest to the similarities, each once, without those of J = 0 and 1."""
    found = {round(2 * n * jaccard / (1 + jaccard)) for jaccard in similarities}
    return [Shape(n, common) for common in sorted(found - {0, n})]


@dataclass(frozen=True)
class Verdict:
    """One estimator on one shape: bias and spread, each with its allowed bound."""

    bias: float
    bias_allowed: float
    spread: float
    spread_allowed: float

    @property
    def good(self) -> bool:
        return abs(self.bias) <= self.bias_allowed and self.spread <= self.spread_allowed


def verdict(estimates: Array, truth: float, theory: float) -> Verdict:
    """estimates: float64[trials]; theory: the standard deviation that they should have."""
    deviations = estimates - estimates.mean()
    variance = float((deviations**2).mean())
    if theory == 0:
        return Verdict(float(np.abs(estimates - truth).max()), 1e-12, math.sqrt(variance), 1e-12)
    of_mean = math.sqrt(variance / len(estimates))
    fourth = float((deviations**4).mean())
    of_spread = math.sqrt(max(fourth - variance**2, 0) / len(estimates) / max(variance, 1e-300)) / 2
    return Verdict(
        float(estimates.mean()) - truth, 0.001 + 3 * of_mean, math.sqrt(variance) / theory, 1.02 + 3 * of_spread / theory
    )


def bits_theory(jaccard: float, bits: int) -> float:
    """Standard deviation of the similarity from k slots of `bits` bits each."""
    equal = jaccard + (1 - jaccard) * 2.0**-bits
    return math.sqrt(equal * (1 - equal) / K) / (1 - 2.0**-bits)


def bottom_theory(shape: Shape) -> float:
    sample = min(K, shape.union)
    rest = (shape.union - sample) / max(shape.union - 1, 1)
    return math.sqrt(shape.jaccard * (1 - shape.jaccard) / sample * rest)


# ---- through the C core --------------------------------------------------------------------------------------------------


class Sketcher:
    """Slots and bottom-k samples of the two sets of a shape, trial by trial."""

    def __init__(self) -> None:
        self.a, self.b = np.zeros(K, np.uint32), np.zeros(K, np.uint32)
        self._a, self._b = ffi.from_buffer("uint32_t[]", self.a), ffi.from_buffer("uint32_t[]", self.b)
        self._low, self._high = ffi.new("uint64_t[]", K), ffi.new("uint64_t[]", K)
        self._low_count, self._high_count = ffi.new("size_t *"), ffi.new("size_t *")
        self.draw_family(1)

    def draw_family(self, seed: int) -> None:
        assert lib.nd_minhash_coefficients(lib.ND_FAMILY_AFFINE32, seed, K, self._a, self._b) == lib.ND_OK

    def slots(self, shape: Shape, hashes: Any, low: Any, high: Any) -> None:
        """Slots of the first and of the second set, to low and high."""
        other = hashes + (shape.n - shape.common)
        assert lib.nd_minhash(lib.ND_FAMILY_AFFINE32, self._a, self._b, K, hashes, shape.n, low) == lib.ND_OK
        assert lib.nd_minhash(lib.ND_FAMILY_AFFINE32, self._a, self._b, K, other, shape.n, high) == lib.ND_OK

    def bottom(self, shape: Shape, hashes: Any) -> float:
        """Similarity estimated from the k smallest hashes of each set."""
        other = hashes + (shape.n - shape.common)
        assert lib.nd_bottom_k(hashes, shape.n, K, self._low, self._low_count) == lib.ND_OK
        assert lib.nd_bottom_k(other, shape.n, K, self._high, self._high_count) == lib.ND_OK
        return float(lib.nd_jaccard_estimate(self._low, self._low_count[0], self._high, self._high_count[0], K))


Draw = Callable[[np.random.Generator, Shape, int], Array]


def random_sets(rng: np.random.Generator, shape: Shape, trials: int) -> Array:
    """Unions of random hashes, uint64[trials, union]: of 64 bits, so that repeats need not be looked for."""
    return np.frombuffer(rng.bytes(8 * trials * shape.union), np.uint64).reshape(trials, shape.union)


def blocks(draw: Draw, rng: np.random.Generator, shape: Shape, trials: int) -> Iterator[Array]:
    size = max(1, BLOCK_HASHES // shape.union)
    for start in range(0, trials, size):
        yield np.ascontiguousarray(draw(rng, shape, min(size, trials - start)))


@dataclass
class Sample:
    """Slots of both sets, uint32[trials, k] each, and the bottom-k estimates, float64[trials]."""

    low: Array
    high: Array
    bottom: Array


def sample(draw: Draw, shape: Shape, trials: int, *, seed: int, new_families: bool) -> Sample:
    rng = np.random.default_rng([seed, shape.n, shape.common])
    sketcher = Sketcher()
    out = Sample(np.empty((trials, K), np.uint32), np.empty((trials, K), np.uint32), np.empty(trials))
    low, high = ffi.from_buffer("uint32_t[]", out.low), ffi.from_buffer("uint32_t[]", out.high)
    seeds = rng.integers(0, 2**64, trials, dtype=np.uint64).tolist() if new_families else []
    trial = 0
    for block in blocks(draw, rng, shape, trials):
        data = ffi.from_buffer("uint64_t[]", block)
        for row in range(len(block)):
            if new_families:
                sketcher.draw_family(seeds[trial])
            hashes = data + row * shape.union
            sketcher.slots(shape, hashes, low + trial * K, high + trial * K)
            out.bottom[trial] = sketcher.bottom(shape, hashes)
            trial += 1
    return out


def from_bits(drawn: Sample, bits: int) -> Array:
    """Similarities from the low bits of the slots, chance agreements taken off (none to speak of in 16 bits and more)."""
    equal: Array = (((drawn.low ^ drawn.high) << np.uint32(32 - bits)) == 0).mean(axis=1)
    return equal if bits >= 16 else (equal - 2.0**-bits) / (1 - 2.0**-bits)


# ---- structured sets -------------------------------------------------------------------------------------------------------


def interval(scale: Callable[[np.random.Generator, int], Array], highest: int) -> Draw:
    def draw(rng: np.random.Generator, shape: Shape, trials: int) -> Array:
        starts = rng.integers(0, highest, (trials, 1), dtype=np.uint64)
        return (starts + np.arange(shape.union, dtype=np.uint64)) * scale(rng, trials)

    return draw


def numbered_words(hash_name: str) -> Draw:
    """Hashes of words with a common beginning and a running number at the end."""
    rules = TextRules(shingle=1, hash=hash_name)

    def draw(rng: np.random.Generator, shape: Shape, trials: int) -> Array:
        out = np.empty((trials, shape.union), np.uint64)
        for row, start in enumerate(rng.integers(0, 900_000, trials).tolist()):
            words = " ".join([f"document{start}x{number:06}" for number in range(start, start + shape.union)])
            out[row] = compute.shingle_hashes(words, rules)
        return out

    return draw


STRUCTURES: dict[str, Draw] = {
    "0, 1, 2, ... from anywhere below 2^32": interval(lambda rng, trials: np.ones((trials, 1), np.uint64), 2**32),
    "0, 1, 2, ... from anywhere below 2^64": interval(lambda rng, trials: np.ones((trials, 1), np.uint64), 2**64 - 2**20),
    "multiples of a number below 2^20": interval(lambda rng, trials: rng.integers(1, 2**20, (trials, 1), dtype=np.uint64), 1000),
    "multiples of 2^32": interval(lambda rng, trials: np.full((trials, 1), 2**32, np.uint64), 2**20),
    "multiples of 2^48": interval(lambda rng, trials: np.full((trials, 1), 2**48, np.uint64), 2**10),
    "numbered words, xxh3_64": numbered_words("xxh3_64"),
    "numbered words, fnv1a_64": numbered_words("fnv1a_64"),
    "numbered words, fnv1a_32": numbered_words("fnv1a_32"),
    "numbered words, djb2a": numbered_words("djb2a"),
}
HASHED = "numbered words"  # what bottom-k may be asked: the smallest of raw numbers are no sample of them


# ---- the tables ------------------------------------------------------------------------------------------------------------


def cells(found: Verdict) -> list[str]:
    mark = "" if found.good else " **!**"
    return [f"{found.bias:+.4f} ({found.bias_allowed:.4f})", f"{found.spread:.3f} ({found.spread_allowed:.3f}){mark}"]


class Report:
    """Markdown on the way, and everything that was found for --json."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def add(self, what: str, shape: Shape, trials: int, **verdicts: Verdict) -> list[str]:
        for name, one in verdicts.items():
            self.found.append(
                {"sets": what, **asdict(shape), "trials": trials, "estimator": name, **asdict(one), "good": one.good}
            )
        return [cell for one in verdicts.values() for cell in cells(one)]

    def failures(self) -> int:
        return sum(not one["good"] for one in self.found)


def random_table(report: Report, trials_of: Callable[[int], int]) -> str:
    rows = []
    for n in SIZES:
        for shape in shapes(n):
            trials = trials_of(n)
            note(f"random sets of {n}, J = {shape.jaccard:.3f}")
            drawn = sample(random_sets, shape, trials, seed=1, new_families=False)
            found = report.add(
                "random", shape, trials,
                minhash=verdict(from_bits(drawn, 16), shape.jaccard, bits_theory(shape.jaccard, 32)),
                one_bit=verdict(from_bits(drawn, 1), shape.jaccard, bits_theory(shape.jaccard, 1)),
                bottom_k=verdict(drawn.bottom, shape.jaccard, bottom_theory(shape)),
            )  # fmt: skip
            rows.append([f"{n:,}", f"{shape.jaccard:.4f}", f"{trials:,}", *found])
    head = ["n", "J", "trials", "MinHash bias", "spread", "one-bit bias", "spread", "bottom-k bias", "spread"]
    return table(head, rows)


def bits_table(report: Report, trials: int) -> str:
    rows = []
    for n, jaccard in itertools.product((20, 1000), (0.2, 0.5, 0.8)):
        (shape,) = shapes(n, (jaccard,))
        note(f"slots of 1 to 32 bits, sets of {n}, J = {shape.jaccard:.3f}")
        drawn = sample(random_sets, shape, trials, seed=2, new_families=False)
        verdicts = {
            f"{bits}_bits": verdict(from_bits(drawn, bits), shape.jaccard, bits_theory(shape.jaccard, bits))
            for bits in (1, 2, 4, 8, 16, 32)
        }
        report.add("random, truncated", shape, trials, **verdicts)
        for name, one in verdicts.items():
            rows.append([f"{n:,}", f"{shape.jaccard:.4f}", name.removesuffix("_bits"), *cells(one)])
    return table(["n", "J", "bits of a slot", "bias", "spread"], rows)


def correlation_table(report: Report, trials: int) -> str:
    """Off-diagonal correlations r of agreements and of low bits; r sqrt(trials) is standard normal where nothing depends."""
    rows = []
    for n, jaccard in itertools.product((5, 100, 1000), (0.5, 0.8)):
        (shape,) = shapes(n, (jaccard,))
        note(f"correlations, sets of {n}, J = {shape.jaccard:.3f}")
        drawn = sample(random_sets, shape, trials, seed=3, new_families=False)
        equal = (drawn.low == drawn.high).astype(np.float64)
        above = np.triu_indices(K, 1)
        for name, values in (("agreement of slots", equal), ("lowest bit of slots", (drawn.low & 1).astype(np.float64))):
            scaled = np.asarray(np.corrcoef(values.T))[above] * math.sqrt(trials)
            rms, largest = float(np.sqrt((scaled**2).mean())), float(np.abs(scaled).max())
            # the mean of 8,128 squares: three standard errors; the largest of 8,128: beyond 5.2 once in 600
            good = rms**2 <= 1 + 3 * math.sqrt(2 / len(scaled)) and largest <= 5.2
            report.found.append({"sets": f"correlation, {name}", **asdict(shape), "rms": rms, "largest": largest, "good": good})
            rows.append([f"{n:,}", f"{shape.jaccard:.4f}", name, f"{rms:.3f}", f"{largest:.2f}{'' if good else ' **!**'}"])
    return table(["n", "J", "of", "root mean square of r sqrt(trials)", "largest"], rows)


def structure_table(report: Report, trials: int) -> str:
    rows = []
    for (what, draw), n in itertools.product(STRUCTURES.items(), (5, 20, 100, 1000)):
        (shape,) = shapes(n, (0.5,))
        count = trials if n < 1000 else max(trials // 4, 1)
        note(f"{what}, sets of {n}")
        drawn = sample(draw, shape, count, seed=4, new_families=True)
        verdicts = {
            "minhash": verdict(from_bits(drawn, 16), shape.jaccard, bits_theory(shape.jaccard, 32)),
            "one_bit": verdict(from_bits(drawn, 1), shape.jaccard, bits_theory(shape.jaccard, 1)),
        }
        if what.startswith(HASHED) and shape.union > K:
            verdicts["bottom_k"] = verdict(drawn.bottom, shape.jaccard, bottom_theory(shape))
        rows.append([what, f"{n:,}", f"{shape.jaccard:.4f}", f"{count:,}", *report.add(what, shape, count, **verdicts)])
    head = ["sets", "n", "J", "trials", "MinHash bias", "spread", "one-bit bias", "spread", "bottom-k bias", "spread"]
    return table(head, [row + [""] * (len(head) - len(row)) for row in rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--large-trials", type=int, default=4_000, help="for sets of 100,000 elements")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    options = parser.parse_args()
    info, report = machine(), Report()
    print(f"# Statistics of the sketches\n\n{machine_lines(info)}\n")
    print(f"k = {K}. In brackets what is allowed: 0.001 and three standard errors for a bias, 1.02 times the theory and three")
    print("standard errors for a spread. **!** marks what exceeds it.\n")

    def trials_of(n: int) -> int:
        return int(options.large_trials if n > 10_000 else options.trials)

    parts = [
        ("Random sets, family of seed 1", lambda: random_table(report, trials_of)),
        ("Slots cut to b bits", lambda: bits_table(report, options.trials)),
        ("Correlations between slots", lambda: correlation_table(report, options.trials)),
        ("Structured sets, a family drawn for each trial", lambda: structure_table(report, options.trials)),
    ]  # fmt: skip
    for title, run in parts:
        print(f"## {title}\n\n{run()}\n", flush=True)
    print(f"{len(report.found) - report.failures()} of {len(report.found)} within what is allowed.")
    if options.json:
        options.json.write_text(json.dumps({"machine": info, "found": report.found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
