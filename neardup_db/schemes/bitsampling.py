"""One-bit minwise hashing (Li and Koenig 2010) with multi-index hashing (Norouzi, Punjani and Fleet 2012)."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..immutable import checked
from ..parameters import check_integer
from ..settings import Parameter, choice, fraction, integer, seed
from . import plans
from .base import FAMILIES, Family
from .codes import BITS_MAX, CodeScheme, distance_of, plan_state


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
    same_values: ClassVar[tuple[str, ...]] = ("bits", "seed", "family")
    max_distance = integer(0, BITS_MAX, chosen_by=("bits", "threshold", "recall"))
    threshold = fraction()
    recall = fraction(include_one=False)
    seed = seed()
    family: Parameter[Family] = choice(*FAMILIES)

    @checked
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
        if max_distance is None:
            self._set(max_distance=plans.sample_distance(bits, self.threshold, self.recall))
        distance_of(self.max_distance, bits)
        if chunks is None:
            plan = plans.hamming_plan(bits, self.max_distance, self.expected, with_blocks=False)
        else:
            plan = plans.Plan("chunks", check_integer("chunks", chunks, -(-bits // 64), min(bits, 256), f"for {bits} bits"), 0.0)
        self._set(**plan_state(plan))
        self.native  # noqa: B018 (checks the rest)
