"""What an index finds of pairs at each similarity, by the probability theory of its scheme.

Two texts of many shingles and equal length with Jaccard similarity J are assumed. A slot of a MinHash signature is equal with
probability J, a bit of a one-bit sample differs with (1 - J) / 2, and a bit of a SimHash with arccos(2J / (1 + J)) / pi
(Charikar, "Similarity estimation techniques from rounding algorithms", 2002). Those of bottom-k are drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError

Chances = Callable[[float], tuple[float, float]]
"""P(candidate) and P(returned) at a Jaccard similarity."""

TRIALS = 4000


def binomial(count: int, chance: float) -> npt.NDArray[np.float64]:
    """P(k successes) for k = 0 .. count."""
    k = np.arange(count + 1)
    if chance <= 0.0 or chance >= 1.0:
        return np.asarray(k == (count if chance >= 1.0 else 0), dtype=np.float64)
    steps = np.log(np.arange(1, count + 1))
    factorial = np.concatenate([[0.0], np.cumsum(steps)])
    logs = factorial[count] - factorial[k] - factorial[count - k] + k * math.log(chance) + (count - k) * math.log1p(-chance)
    return np.asarray(np.exp(logs), dtype=np.float64)


def chances_of(settings: Mapping[str, Any]) -> Chances:
    """The curve of a scheme, by its settings. Raises ParameterError for codes of the application, which have no texts."""
    kind = str(settings["scheme"])
    if kind == "minhash":
        return lambda similarity: _minhash(settings, similarity)
    if kind == "bottomk":
        return lambda similarity: _bottomk(settings, similarity)
    if kind == "simhash":
        return lambda similarity: _codes(settings, math.acos(min(1.0, 2 * similarity / (1 + similarity))) / math.pi)
    if kind == "bitsampling":
        return lambda similarity: _codes(settings, (1 - similarity) / 2)
    raise ParameterError(
        f"scheme {kind!r} has no curve over Jaccard similarity: every code within max_distance is found, none beyond"
    )


def _minhash(settings: Mapping[str, Any], similarity: float) -> tuple[float, float]:
    """Bands meet where all their slots are equal; with exact=False enough of all slots must be equal besides."""
    slots, bands, rows = int(settings["num_perm"]), int(settings["bands"]), int(settings["rows"])
    threshold = float(settings["threshold"])
    band = binomial(rows, similarity)
    band[rows] = 0.0  # a band that does not meet
    unmet = binomial(slots - bands * rows, similarity)
    for _ in range(bands):
        unmet = np.convolve(unmet, band)
    candidate = 1.0 - float(unmet.sum())
    if settings.get("exact") or settings.get("evidence") not in (None, "none"):
        return candidate, candidate if similarity >= threshold else 0.0
    enough = next(count for count in range(slots + 2) if count / slots >= threshold)
    met = binomial(slots, similarity)[: len(unmet)] - unmet
    return candidate, max(0.0, float(met[enough:].sum()))


def _codes(settings: Mapping[str, Any], differs: float) -> tuple[float, float]:
    """Codes whose bits differ independently: the radius decides what is returned, the blocks or chunks what is looked at."""
    bits, radius = int(settings["bits"]), int(settings["max_distance"])
    returned = float(binomial(bits, differs)[: radius + 1].sum())
    plan = settings.get("plan")
    if plan == "blocks":
        blocks = int(settings["blocks"])
        changed = np.ones(1)
        for width in _widths(bits, blocks):
            same = (1 - differs) ** width
            changed = np.convolve(changed, [same, 1 - same])
        return float(changed[: radius + 1].sum()), returned
    if plan == "chunks":
        chunks = int(settings["chunks"])
        more, part = radius % chunks, radius // chunks
        missed = 1.0
        for place, width in enumerate(_widths(bits, chunks)):
            reach = part if place <= more else part - 1
            missed *= 1.0 - float(binomial(width, differs)[: reach + 1].sum())
        return 1.0 - missed, returned
    return 1.0, returned


def _widths(bits: int, parts: int) -> list[int]:
    return [(i + 1) * bits // parts - i * bits // parts for i in range(parts)]


def _bottomk(settings: Mapping[str, Any], similarity: float) -> tuple[float, float]:
    """Draws which of the smallest hashes of the union belong to both texts, and compares the two fingerprints."""
    k, threshold = int(settings["k"]), float(settings["threshold"])
    length = 2 * k + 8 * math.isqrt(2 * k) + 8
    draw = _draw(length)
    both = draw < similarity
    in_a, in_b = draw < (1 + similarity) / 2, both | (draw >= (1 + similarity) / 2)
    rank_a, rank_b = (np.cumsum(one, axis=1, dtype=np.int32) for one in (in_a, in_b))
    if settings.get("measure") == "estimate":
        similar = both[:, :k].sum(axis=1) / k
    else:
        shared = (both & (rank_a <= k) & (rank_b <= k)).sum(axis=1)
        similar = shared / (2 * k - shared)
    overlap = next(count for count in range(k + 2) if count / k >= threshold)
    prefix = k - overlap + 1
    met = (both & (rank_a <= prefix) & (rank_b <= prefix)).any(axis=1)
    return float(met.mean()), float((met & (similar >= threshold)).mean())


@lru_cache(maxsize=1)
def _draw(length: int) -> npt.NDArray[np.float32]:
    """Where in the union each of its smallest hashes falls, for every trial; the same for all similarities, so that curves are
    smooth."""
    return np.random.default_rng(1).random((TRIALS, length), dtype=np.float32)
