"""The share of pairs that a scheme finds is that of its probability theory, for any parameters."""

from __future__ import annotations

import math
import tracemalloc
from functools import cache

import numpy as np
import pytest

from neardup_db.show import theory


def bottom_k_chances(k: int, threshold: float, measure: str, similarity: float) -> tuple[float, float]:
    """By looking at one hash of the union after the other: those that both texts have, and where they stand in each."""
    prefix = k - next(count for count in range(k + 1) if count / k >= threshold) + 1

    @cache
    def chances(a: int, b: int, shared: int, estimate: int, met: bool) -> tuple[float, float]:
        if a >= k and b >= k:
            similar = estimate / k if measure == "estimate" else shared / (2 * k - shared)
            return float(met), float(met and similar >= threshold)
        in_estimate = a + b - shared < k
        after = [
            (similarity, chances(a + 1, b + 1, shared + (a < k and b < k), estimate + in_estimate, met or max(a, b) < prefix)),
            ((1 - similarity) / 2, chances(min(a + 1, k), b, shared, estimate, met) if a < k else None),
            ((1 - similarity) / 2, chances(a, min(b + 1, k), shared, estimate, met) if b < k else None),
        ]
        known = [(chance, one) for chance, one in after if one is not None]
        total = sum(chance for chance, _ in known)
        return tuple(sum(chance * one[i] for chance, one in known) / total for i in (0, 1))  # type: ignore[return-value]

    return chances(0, 0, 0, 0, False)


@pytest.mark.parametrize("k, threshold", [(1, 1.0), (5, 0.5), (8, 0.3), (12, 0.8), (12, 0.05), (10, 1.0)])
def test_the_curve_of_bottom_k_is_exact(k: int, threshold: float) -> None:
    """P(candidate) and P(returned) are those of going through the hashes one by one, within 1e-8."""
    for measure in ("fingerprint", "estimate"):
        chances = theory.chances_of({"scheme": "bottomk", "k": k, "threshold": threshold, "measure": measure})
        for similarity in (0.05, 0.3, 0.5, 0.8, 0.97):
            assert chances(similarity) == pytest.approx(bottom_k_chances(k, threshold, measure, similarity), abs=1e-8)
        assert chances(0.0) == (0.0, 0.0) and chances(1.0) == (1.0, 1.0)


@pytest.mark.parametrize(
    "slots, bands, rows, threshold", [(7, 2, 3, 0.5), (128, 12, 5, 0.8), (300, 3, 100, 0.97), (900, 900, 1, 0.02)]
)
def test_the_curve_of_minhash_is_exact(slots: int, bands: int, rows: int, threshold: float) -> None:
    """P(returned) is that of adding band to band, within 1e-8."""
    settings = {"scheme": "minhash", "num_perm": slots, "bands": bands, "rows": rows, "threshold": threshold}
    for similarity in (0.01, 0.3, 0.8, 0.97):
        band = theory.binomial(rows, similarity)
        band[rows] = 0.0
        unmet = theory.binomial(slots - bands * rows, similarity)
        for _ in range(bands):
            unmet = np.convolve(unmet, band)
        enough = [count / slots >= threshold for count in range(slots + 1)]
        returned = (theory.binomial(slots, similarity)[: len(unmet)] - unmet)[enough[: len(unmet)]].sum()
        returned += theory.binomial(slots, similarity)[len(unmet) :][enough[len(unmet) :]].sum()
        assert theory.chances_of(settings)(similarity) == pytest.approx((1 - (1 - similarity**rows) ** bands, returned), abs=1e-8)


@pytest.mark.parametrize(
    "settings",
    [
        {"scheme": "bottomk", "k": 65536, "threshold": 0.5},
        {"scheme": "bottomk", "k": 65536, "threshold": 0.01, "measure": "estimate"},
        {"scheme": "minhash", "num_perm": 65536, "bands": 13107, "rows": 5, "threshold": 0.5},
        {"scheme": "minhash", "num_perm": 65536, "bands": 3, "rows": 20000, "threshold": 0.9},
        {"scheme": "bitsampling", "bits": 4096, "max_distance": 1024, "plan": "chunks", "chunks": 256},
        {"scheme": "bitsampling", "bits": 4096, "max_distance": 63, "plan": "blocks", "blocks": 64},
        {"scheme": "simhash", "bits": 4096, "max_distance": 2000, "plan": "scan"},
    ],
)
def test_a_curve_takes_little_room_whatever_the_parameters(settings: dict[str, object]) -> None:
    """The largest parameters need less than 32 MB, and give probabilities that ascend with the similarity."""
    tracemalloc.start()
    chances = theory.chances_of(settings)
    points = np.array([chances(place / 50) for place in range(51)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6
    for one in (points[:, 0], points[:, 1]):
        assert one.min() >= 0.0 and one.max() <= 1.0 and one[-1] == pytest.approx(1.0, abs=1e-8) and np.diff(one).min() > -1e-8


def test_the_curve_of_a_large_bottom_k_is_steep_at_its_threshold() -> None:
    """With 65,536 hashes all or none are returned 0.01 beside it; at it both texts have room with the chance of two normal
    variables with a correlation of 1/3."""
    chances = theory.chances_of({"scheme": "bottomk", "k": 65536, "threshold": 0.5})
    assert chances(0.5) == (pytest.approx(1.0), pytest.approx(1 / 4 + math.asin(1 / 3) / math.tau, abs=0.002))
    assert chances(0.49)[1] < 1e-3 and chances(0.51)[1] > 1 - 1e-3
