"""The share of pairs that an index finds at each similarity, by the probability theory of its scheme.

The model is two texts of many shingles and equal length with Jaccard similarity J. A slot of a MinHash signature is equal with
probability J, a bit of a one-bit sample differs with (1 - J) / 2, and a bit of a SimHash with arccos(2J / (1 + J)) / pi
(Charikar, "Similarity estimation techniques from rounding algorithms", 2002). A hash that either text has belongs to both with
probability J, otherwise to one of them; a bottom-k fingerprint has room for enough shared hashes or not.

All probabilities are sums within 1e-8 of the exact values, and a curve takes a fraction of a second for any parameters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from ..arrays import np, npt
from ..errors import ParameterError
from ..schemes.plans import band_probability, block_bounds

Chances = Callable[[float], tuple[float, float]]  # P(candidate) and P(returned) at a Jaccard similarity
SPREAD = 20  # sums end this many standard deviations (and one more) from the mean; the rest is below 1e-8


@lru_cache(maxsize=4)
def _factorials(most: int) -> npt.NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)), dtype=np.longdouble)]).astype(np.float64)


def _choose(n: npt.NDArray[np.int64] | int, k: npt.NDArray[np.int64] | int, most: int) -> npt.NDArray[np.float64]:
    factorials = _factorials(1 << most.bit_length())
    return np.asarray(factorials[n] - factorials[k] - factorials[n - k], dtype=np.float64)


def _least(similarities: npt.NDArray[np.float64], threshold: float) -> int:
    return int(np.argmax(similarities >= threshold))


def binomial(count: int, chance: float, first: int = 0, last: int | None = None) -> npt.NDArray[np.float64]:
    """P(k successes) for k = first .. last, the count if None."""
    k = np.arange(first, (count if last is None else last) + 1)
    if chance <= 0.0 or chance >= 1.0:
        return np.asarray(k == (count if chance >= 1.0 else 0), dtype=np.float64)
    logs = _choose(count, k, count) + k * math.log(chance) + (count - k) * math.log1p(-chance)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _binomial_range(count: int, chance: float, first: int, last: int) -> float:
    low, high = _around(count * chance, math.sqrt(count * chance * (1 - chance)))
    return min(1.0, float(binomial(count, chance, max(first, low), min(last, high)).sum()))


def _around(mean: float, deviation: float) -> tuple[int, int]:
    return math.floor(mean - SPREAD * (deviation + 1)), math.ceil(mean + SPREAD * (deviation + 1))


def chances_of(settings: Mapping[str, Any]) -> Chances:
    """The curve of a scheme by its settings. Raises ParameterError for codes of the application, which have no texts."""
    kind = str(settings["scheme"])
    if kind == "minhash":
        return partial(_minhash, settings)
    if kind == "bottomk":
        return _bottomk(settings)
    if kind == "simhash":
        return lambda similarity: _codes(settings, math.acos(min(1.0, 2 * similarity / (1 + similarity))) / math.pi)
    if kind == "bitsampling":
        return lambda similarity: _codes(settings, (1 - similarity) / 2)
    if kind == "passages":
        raise ParameterError("scheme 'passages' has no curve over Jaccard similarity: every common passage is found")
    raise ParameterError(
        f"scheme {kind!r} has no curve over Jaccard similarity: every code within max_distance is found, none beyond"
    )


def _minhash(settings: Mapping[str, Any], similarity: float) -> tuple[float, float]:
    """Bands match if all their slots are equal; with exact=False, enough of all slots must be equal as well."""
    slots, bands, rows = int(settings["num_perm"]), int(settings["bands"]), int(settings["rows"])
    threshold = float(settings["threshold"])
    candidate = band_probability(similarity, bands, rows)
    if settings.get("exact") or settings.get("evidence") not in (None, "none"):
        return candidate, candidate if similarity >= threshold else 0.0
    enough = _least(np.arange(slots + 1) / slots, threshold)
    returned = _binomial_range(slots, similarity, enough, slots) - _unmet(slots, bands, rows, similarity, enough)
    return candidate, max(0.0, returned)


def _unmet(slots: int, bands: int, rows: int, similarity: float, enough: int) -> float:
    """P(no band matches, and at least `enough` slots are equal).

    The number of equal slots without a matching band has the generating function ((1 - J + Jz)^rows - (Jz)^rows)^bands times (1 -
    J + Jz) for each slot outside the bands, evaluated at the roots of unity. Numbers that differ by a multiple of `size` share a
    probability, and all but one of them are too far from the mean to count.
    """
    low, high = _around(slots * similarity, math.sqrt(slots * similarity * (1 - similarity)))
    first, last = max(0, low), min(slots, high)
    size = 1 << (last - first + 1).bit_length()
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    roots = np.cos(angles) - 1j * np.sin(angles)
    one = 1 - similarity + similarity * roots
    chances = np.fft.irfft((one**rows - (similarity * roots) ** rows) ** bands * one ** (slots - bands * rows), size)
    return float(chances[np.arange(max(first, enough), last + 1) % size].sum())


def _codes(settings: Mapping[str, Any], differs: float) -> tuple[float, float]:
    """Codes with independently differing bits: the radius decides which are returned, blocks or chunks which are candidates."""
    bits, radius = int(settings["bits"]), int(settings["max_distance"])
    returned = _binomial_range(bits, differs, 0, radius)
    plan = settings.get("plan")
    if plan == "blocks":
        blocks = int(settings["blocks"])
        changed = np.ones(1)
        for width in np.diff(block_bounds(bits, blocks)).tolist():
            same = (1 - differs) ** width
            changed = np.convolve(changed, [same, 1 - same])
        return min(1.0, float(changed[: radius + 1].sum())), returned
    if plan == "chunks":
        chunks = int(settings["chunks"])
        more, part, widths = radius % chunks, radius // chunks, np.diff(block_bounds(bits, chunks)).tolist()
        alike = Counter((width, part if place <= more else part - 1) for place, width in enumerate(widths))
        missed = math.prod(
            (1.0 - _binomial_range(width, differs, 0, reach)) ** number for (width, reach), number in alike.items()
        )
        return 1.0 - missed, returned
    return 1.0, returned


def _bottomk(settings: Mapping[str, Any]) -> Chances:
    """Fingerprints are candidates if they share an indexed hash, which they do if they share enough hashes to be similar."""
    k, threshold = int(settings["k"]), float(settings["threshold"])
    overlap = _least(np.arange(k + 1) / k, threshold)
    met = _shared(1, k - overlap)
    if settings.get("measure") == "estimate":
        return lambda similarity: (met(similarity), _binomial_range(k, similarity, overlap, k))
    shared = _least(np.arange(k + 1) / np.arange(2 * k, k - 1, -1), threshold)
    similar = _shared(shared, k - shared)
    return lambda similarity: (met(similarity), similar(similarity))


def _shared(count: int, others: int) -> Callable[[float], float]:
    """P(the first `count` shared hashes have at most `others` other hashes of either text before the last of them).

    The number of other hashes before it has the negative binomial distribution, and half of them on average belong to one text,
    with the binomial distribution. That text has too many of n with probability sum over v < n of C(v, others) / 2^(v + 1).
    """
    most = 2 * others
    halves = np.arange(others, most + 1)
    too_many = np.cumsum(np.exp(_choose(halves, others, count + most) - (halves + 1) * math.log(2)))
    fit = np.concatenate([np.ones(others + 1), 1 - 2 * too_many[:-1]])

    def chance(similarity: float) -> float:
        if not 0.0 < similarity < 1.0:
            return similarity
        low, high = _around(count * (1 - similarity) / similarity, math.sqrt(count * (1 - similarity)) / similarity)
        n = np.arange(max(0, low), min(most, high) + 1)
        logs = _choose(n + count - 1, n, count + most) + count * math.log(similarity) + n * math.log1p(-similarity)
        return min(1.0, float((np.exp(logs) * fit[n]).sum()))

    return chance
