"""Bottom-k sketches (Broder 1997): the k smallest shingle hashes, joined exactly by a prefix filter (Chaudhuri et al. 2006)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .. import native
from ..arrays import np
from ..errors import ParameterError
from ..immutable import checked
from ..settings import Parameter, choice, flag, fraction, integer
from ..text import TextRules
from .base import MEASURES, SetScheme, fingerprint_array


class BottomK(SetScheme):
    """Match texts by their k smallest shingle hashes. The index finds every pair whose measure is at or above the threshold.

    k: the hashes in a fingerprint. threshold: above 0, at most 1. measure: "fingerprint" for the Jaccard similarity of the two
    fingerprints, "estimate" for the unbiased estimate of the texts' Jaccard similarity (from the k smallest hashes of the union).
    containment: index all k hashes, so `Index.query(text, measure="containment")` can tell how much of a text is in longer
    documents. expected: the planned number of documents.

    Containment is estimated from the m hashes of the text that both fingerprints cover, that is, hashes up to the smaller of the
    two largest; a fingerprint with fewer than k hashes covers everything. If text and document have fewer than k shingles, the
    estimate is exact. If the document has n times the text's shingles, m is about k / n, and the standard deviation of a
    containment c is sqrt(c (1 - c) / m): 0.1 at c = 0.8 with m = 16, that is, for n = k / 16. A document that contains the whole
    text is estimated as 1.0. It is found unless m = 0, with a probability of at most (1 - 1 / n)^k: below 0.01 up to n = k / 5.

    `fingerprint` returns the sorted distinct hashes, uint64[at most k] (uint32 with a 32-bit hash).

    >>> scheme = BottomK(k=4)
    >>> a, b = scheme.fingerprint("one two three four five"), scheme.fingerprint("one two three four six")
    >>> len(a), scheme.similarity(a, b)
    (3, 0.5)
    """

    name: ClassVar[str] = "bottomk"
    table: ClassVar[str] = "bottomk_prefix"
    same_values: ClassVar[tuple[str, ...]] = ("k",)
    query_names: ClassVar[tuple[str, ...]] = ("k",)

    plan = choice("prefix")
    k = integer(1, native.lib.ND_K_MAX, "hashes in a fingerprint")
    threshold = fraction()
    measure: Parameter[Literal["fingerprint", "estimate"]] = choice(*MEASURES)
    containment = flag()
    item_size = 8

    @checked
    def __init__(
        self,
        k: int = 128,
        threshold: float = 0.5,
        measure: Literal["fingerprint", "estimate"] = "fingerprint",
        containment: bool = False,
        expected: int = 1_000_000,
    ) -> None:
        self._set(plan="prefix")
        self.native  # noqa: B018 (checks the rest)

    @property
    def is_set(self) -> bool:  # type: ignore[override]
        return self.measure == "fingerprint"

    has_elements = True

    @property
    def elements_bound(self) -> float:
        """An estimate of s means that s k of at most 2 k hashes are common."""
        return self.threshold if self.is_set else self.threshold / (2 - self.threshold) * (1 - 1e-9)

    @property
    def keys_at_once(self) -> int:  # type: ignore[override]
        return self.k

    def _no_containment(self) -> str:
        return (
            "this index files only the first hashes of a fingerprint; make it with "
            f"BottomK(containment=True), or rebuild(BottomK(k={self.k}, threshold={self.threshold}, containment=True)), "
            "which needs no texts"
        )

    def decoded(self, value: bytes, rules: TextRules) -> Any:
        return np.frombuffer(value, "<u8").astype(np.uint32 if rules.hash_size == 4 else np.uint64)

    def encoded(self, name: str, fingerprint: Any) -> bytes:
        array = fingerprint_array(name, fingerprint)
        if array.ndim != 1 or array.dtype not in (np.uint64, np.uint32):
            raise ParameterError(f"{name} is {array.dtype}{list(array.shape)}: give uint64[n] or uint32[n]")
        if array.size > self.k or (array.size > 1 and not (array[1:] > array[:-1]).all()):
            raise ParameterError(f"{name} is no fingerprint: give at most k={self.k} distinct hashes in ascending order")
        return array.astype("<u8").tobytes()
