"""One-bit minwise hashing (Li and Koenig 2010) with multi-index hashing (Norouzi, Punjani and Fleet 2012)."""

from __future__ import annotations

from typing import Any, ClassVar

from ..parameters import SEED_LIMIT, Stored, choice, fraction, integer, records_given, seed
from . import plans
from .codes import CodeScheme, distance_of, plan_state, width
from .common import EXPECTED_MAX, FAMILIES


class BitSampling(CodeScheme):
    """Texts whose codes of one-bit min-hashes differ in at most `max_distance` bits; every such pair is found.

    bits: min-hashes of which the lowest bit is kept, a multiple of 8. threshold, recall: they choose the distance: two texts of
    Jaccard similarity `threshold` are within it with probability `recall` at least. max_distance: None for that choice.
    chunks: the code is cut into so many chunks, a table each; None for the number that suits `expected` documents (or a scan).
    seed: 0 to 2^63 - 1, or "random". family: "affine32", or "java32" (with which single bits are of low quality).

    `fingerprint` gives uint8[bits // 8], most significant bit first. similarity = max(0, 1 - 2 * distance / bits), an estimate
    of the Jaccard similarity, which may be below the threshold.

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
    slope: ClassVar[float] = 2.0

    threshold: float
    recall: float
    seed: int
    family: str

    @records_given(automatic=("max_distance", "chunks"))
    def __init__(
        self,
        bits: int = 256,
        threshold: float = 0.8,
        recall: float = 0.99,
        max_distance: int | None = None,
        chunks: int | None = None,
        seed: int | str = 1,
        family: str = "affine32",
        expected: int = 1_000_000,
    ) -> None:
        bits = width("bits", bits)
        threshold, recall = fraction("threshold", threshold), fraction("recall", recall, include_one=False)
        distance = plans.sample_distance(bits, threshold, recall) if max_distance is None else distance_of(max_distance, bits)
        expected = integer("expected", expected, 1, EXPECTED_MAX, "documents")
        if chunks is None:
            plan = plans.chunk_plan(bits, distance, expected)
        else:
            plan = plans.Plan("chunks", integer("chunks", chunks, -(-bits // 64), min(bits, 256), f"for {bits} bits"), 0.0)
        self._set(
            bits=bits, threshold=threshold, recall=recall, max_distance=distance, seed=_seed("seed", seed),
            family=choice("family", family, FAMILIES), expected=expected, **plan_state(plan),
        )  # fmt: skip
        self.native  # noqa: B018 (checks the rest)

    @classmethod
    def _more_state(cls, stored: Stored) -> dict[str, Any]:
        return {
            "threshold": stored.fraction("threshold"),
            "recall": stored.fraction("recall"),
            "seed": stored.integer("seed", 0, SEED_LIMIT - 1),
            "family": stored.text("family", FAMILIES),
        }


_seed = seed
