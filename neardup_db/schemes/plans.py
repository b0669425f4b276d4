"""The cost model that chooses a scheme's candidate tables when an index is created.

The cost of a plan is the time of one add (a query plus the rows written) to an index of `expected` fingerprints, in nanoseconds
on the machine where the constants were measured. Only their proportions matter.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from typing import NamedTuple

from ..errors import ParameterError
from ..native import lib

PROBE_NS = 2000.0  # one bucket of a band looked up in a table of tens of millions of rows
BUCKET_NS = 2500.0  # one bucket of codes, most often a page that has to be read
ENTRY_BYTE_NS = 0.8  # a byte of its entries, further pages included
ENTRY_ID_BYTES = 3  # of a fingerprint's id beside its code
FETCH_NS = 1000.0  # one candidate whose fingerprint is looked up by its id
ROW_NS = 1500.0  # one row or bucket written, its share of the commit included

SKEW = 4.0  # real bits are biased and correlated: a bucket holds about so many times the codes of independent fair bits
SCAN_PREFERENCE = 0.5  # of a scan's time: tables need several times the space, and skewed codes slow only tables
EXPECTED_MIN = 10_000  # the fewest fingerprints to plan for: a small index may grow

RELATED_SIMILARITY = 0.02
RELATED_SHARE = 1 / 4000


class Plan(NamedTuple):
    """kind: "blocks", "chunks" or "scan"; parts: how many blocks or chunks (0 for a scan); cost in nanoseconds."""

    kind: str
    parts: int
    cost: float


# ---- Hamming distance --------------------------------------------------------------------------------------------------


def block_bounds(bits: int, blocks: int) -> list[int]:
    """Block i, from the least significant end, is bits bounds[i] .. bounds[i + 1] - 1."""
    return [i * bits // blocks for i in range(blocks + 1)]


@functools.lru_cache(maxsize=1024)
def hamming_plan(bits: int, max_distance: int, expected: int, *, with_blocks: bool = True) -> Plan:
    """The cheapest plan that finds every code within max_distance."""
    expected = max(expected, EXPECTED_MIN)
    blocks = range(max_distance + 1, min(bits, lib.ND_BLOCKS_MAX) + 1 if with_blocks else 0)
    chunks = range(-(-bits // lib.ND_CHUNK_BITS_MAX), min(bits // 4, lib.ND_CHUNKS_MAX) + 1)
    plans = [
        Plan("scan", 0, expected * _entry_ns(bits) * SCAN_PREFERENCE + ROW_NS),
        *(Plan("blocks", parts, _block_cost(bits, parts, max_distance, expected)) for parts in blocks),
        *(Plan("chunks", parts, _chunk_cost(bits, parts, max_distance, expected)) for parts in chunks),
    ]
    return min(plans, key=lambda plan: plan.cost)


def _block_cost(bits: int, blocks: int, max_distance: int, expected: int) -> float:
    """Cost of block tables: C(m, m - d) ranges and rows, and the codes that share each table's prefix."""
    tables = math.comb(blocks, max_distance)
    if tables > lib.ND_TABLES_MAX:
        return math.inf
    # The tables' prefixes differ by a bit a block at most: the mean prefix stands for them all.
    prefix_bits = bits * (blocks - max_distance) / blocks
    candidates = tables * expected * 2.0**-prefix_bits * SKEW
    return float(tables * (BUCKET_NS + ROW_NS) + candidates * _entry_ns(bits))


def _chunk_cost(bits: int, chunks: int, max_distance: int, expected: int) -> float:
    """Cost of chunk tables: a probe for each value within a chunk's radius, a row a chunk."""
    bounds, (radius, wide) = block_bounds(bits, chunks), (max_distance // chunks, max_distance % chunks + 1)
    cost, probes = chunks * ROW_NS, 0
    for chunk in range(chunks):
        width = bounds[chunks - chunk] - bounds[chunks - chunk - 1]
        reach = radius if chunk < wide else radius - 1
        values = sum(math.comb(width, flips) for flips in range(min(reach, width) + 1))
        probes += values
        if width > lib.ND_CHUNK_BITS_MAX or probes > lib.ND_PROBES_MAX:
            return math.inf
        cost += values * (BUCKET_NS + expected * 2.0**-width * SKEW * _entry_ns(bits))
    return cost


def _entry_ns(bits: int) -> float:
    return (bits // 8 + ENTRY_ID_BYTES) * ENTRY_BYTE_NS


@functools.lru_cache(maxsize=1024)
def sample_distance(bits: int, threshold: float, recall: float) -> int:
    """Smallest R with P(Binomial(bits, (1 - threshold) / 2) <= R) >= recall, in exact arithmetic.

    One-bit samples of two texts of Jaccard similarity `threshold` differ in each bit with that probability. Numbers are taken as
    their shortest decimal form, 0.8 as 4/5.

    >>> sample_distance(256, 0.8, 0.99)
    37
    """
    from fractions import Fraction  # here, since one scheme asks, once

    share = (1 - Fraction(repr(threshold)).limit_denominator(1_000_000)) / 2
    hit, miss, wanted = share.numerator, share.denominator - share.numerator, Fraction(repr(recall)).limit_denominator(10**9)
    needed = wanted.numerator * share.denominator**bits
    term = total = miss**bits
    distance = 0
    while total * wanted.denominator < needed:
        term = term * (bits - distance) * hit // ((distance + 1) * miss)
        distance += 1
        total += term
    return distance


# ---- bands -------------------------------------------------------------------------------------------------------------


def band_probability(similarity: float, bands: int, rows: int) -> float:
    """P(a pair of this similarity shares a bucket) = 1 - (1 - s^rows)^bands, accurate near 0 and 1."""
    if similarity >= 1.0:
        return 1.0
    return -math.expm1(bands * math.log1p(-(similarity**rows)))


@functools.lru_cache(maxsize=1024)
def cheapest_bands(
    threshold: float, num_perm: int, recall: float, expected: int, bands: int | None = None, rows: int | None = None
) -> tuple[int, int]:
    """(bands, rows) of least `band_cost` among those with bands * rows <= num_perm that keep the recall at the threshold, or
    ParameterError. One of the two may be given."""
    possible = []
    for height in range(1, num_perm + 1) if rows is None else (rows,):
        most = num_perm // height
        # the fewest bands that keep the recall, which grows with them; `most` if none do
        fewest = bisect_left(range(1, most), recall, key=functools.partial(band_probability, threshold, rows=height)) + 1
        count = fewest if bands is None else bands
        if 0 < count <= most and band_probability(threshold, count, height) >= recall:
            possible.append((band_cost(threshold, count, height, max(expected, EXPECTED_MIN)), count, height))
    if possible:
        return min(possible)[1:]
    height = rows or 1
    count = bands or num_perm // height
    reachable = band_probability(threshold, count, height)
    raise ParameterError(
        f"recall={recall} cannot be reached at threshold={threshold} with num_perm={num_perm}: bands={count}, rows={height} "
        f"reach {reachable:.6f}; raise num_perm or the threshold, or ask for recall={math.floor(reachable * 1e4) / 1e4}"
    )


def band_cost(threshold: float, bands: int, rows: int, expected: int) -> float:
    """Cost of an add with so many bands: a row and a probe each, and the false candidates among `expected` texts.

    What real texts share with a given text (shingles of three words) is taken to be: for most an exponential with mean
    RELATED_SIMILARITY, the upper end of what chapters of one book, news and contracts of one trade showed; for RELATED_SHARE of
    them, made from the same template or quoting the same passage, anything below the threshold alike. The few of the second
    kind are most of the false candidates, so steep curves (more rows) pay for their bands. Chapters of one book in eleven
    translations have twice that share (1.7 false candidates among 13,076 with 12 x 5, 1.5 with 16 x 6): they are the far end.
    """
    false_share = _mean_probability(threshold, bands, rows)
    return bands * (PROBE_NS + ROW_NS) + expected * false_share * FETCH_NS


@functools.lru_cache(maxsize=4096)
def _mean_probability(threshold: float, bands: int, rows: int) -> float:
    steps = 200
    alike = plain = weights = 0.0
    for step in range(steps):
        similarity = threshold * (step + 0.5) / steps
        probability = band_probability(similarity, bands, rows)
        weight = math.exp(-similarity / RELATED_SIMILARITY)
        alike += probability / steps
        plain += probability * weight
        weights += weight
    return RELATED_SHARE * alike + (1 - RELATED_SHARE) * plain / weights
