"""One-bit minwise hashing (Li and Koenig 2010) with multi-index hashing (Norouzi, Punjani and Fleet 2012)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..immutable import records_given
from ..parameters import SEED_LIMIT, check_choice, check_fraction, check_integer, check_seed
from ..settings import StoredSettings
from . import plans
from .base import EXPECTED_MAX, FAMILIES, Family
from .codes import CodeScheme, distance_of, plan_state, width


class BitSampling(CodeScheme):
    """Match texts whose one-bit min-hash codes differ in at most `max_distance` bits. The index finds every such pair.

    bits: the number of min-hashes, of each of which one bit is kept; a multiple of 8. threshold, recall: these determine
    max_distance, unless it is given: two texts of Jaccard similarity `threshold` are within that distance with a probability of
    at least `recall`. chunks: the number of chunk tables; None for the number that suits `expected` documents (or a scan).
    seed: 0 to 2^63 - 1, or "random". family: "affine32", or "java32", whose single bits are of low quality.

    `fingerprint` returns uint8[bits // 8], most significant bit first. similarity = max(0, 1 - 2 * distance / bits) estimates the
    Jaccard similarity, so a match may have a similarity below the threshold.

    >>> scheme = BitSampling(bits=256, threshold=0.8, recall=0.99)
    >>> scheme.max_distance
    37
    >>> scheme.fingerprint("the cat sat on the mat").shape
    (32,)
    """

    name: ClassVar[str] = "bitsampling"
    names: ClassVar[tuple[str, ...]] = ("bits", "threshold", "recall", "max_distance", "chunks", "seed", "family", "expected")
    row_names: ClassVar[tuple[str, ...]] = (*CodeScheme.row_names, "threshold", "recall", "seed", "family")
    same_values: ClassVar[tuple[str, ...]] = ("bits", "seed", "family")
    chosen: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "max_distance": ("bits", "threshold", "recall"),
        "chunks": ("bits", "threshold", "recall", "max_distance", "expected"),
    }

    threshold: float
    recall: float
    seed: int
    family: Family

    @records_given(automatic=("max_distance", "chunks"))
    def __init__(
        self,
        bits: int = 256,
        threshold: float = 0.8,
        recall: float = 0.99,
        max_distance: int | None = None,
        chunks: int | None = None,
        seed: int | Literal["random"] = 1,
        family: Family = "affine32",
        expected: int = 1_000_000,
    ) -> None:
        bits = width("bits", bits)
        threshold, recall = check_fraction("threshold", threshold), check_fraction("recall", recall, include_one=False)
        distance = plans.sample_distance(bits, threshold, recall) if max_distance is None else distance_of(max_distance, bits)
        expected = check_integer("expected", expected, 1, EXPECTED_MAX, "documents")
        if chunks is None:
            plan = plans.chunk_plan(bits, distance, expected)
        else:
            plan = plans.Plan("chunks", check_integer("chunks", chunks, -(-bits // 64), min(bits, 256), f"for {bits} bits"), 0.0)
        self._set(
            bits=bits, threshold=threshold, recall=recall, max_distance=distance, seed=check_seed("seed", seed),
            family=check_choice("family", family, FAMILIES), expected=expected, **plan_state(plan),
        )  # fmt: skip
        self.native  # noqa: B018 (checks the rest)

    @classmethod
    def _state(cls, stored: StoredSettings) -> dict[str, Any]:
        return {
            **super()._state(stored),
            "threshold": stored.fraction("threshold"),
            "recall": stored.fraction("recall"),
            "seed": stored.integer("seed", 0, SEED_LIMIT - 1),
            "family": stored.text("family", FAMILIES),
        }
