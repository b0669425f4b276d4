"""MinHash signatures (Broder 1997) with a band table (Indyk and Motwani 1998; Leskovec, Rajaraman and Ullman, chapter 3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

from .. import native
from ..arrays import np
from ..errors import ParameterError
from ..immutable import checked
from ..parameters import check_integer
from ..settings import Parameter, choice, flag, fraction, integer, seed, stored
from ..text import TextRules
from . import plans
from .base import FAMILIES, Family, Scheme, Self, SetScheme, fingerprint_array, native_scheme

_NUM_PERM_MAX: int = native.lib.ND_NUM_PERM_MAX
_DEFAULT_RECALL = 0.99
_EVIDENCE = {False: "none", True: "packed"}


class MinHash(SetScheme):
    """Match texts whose shingle sets have a Jaccard similarity at or above the threshold, found with the stated recall.

    num_perm: the hash functions, one for each slot of a signature. threshold: above 0, at most 1. bands, rows: a pair becomes a
    candidate if all `rows` slots of one of the `bands` are equal, with probability 1 - (1 - similarity^rows)^bands; None for the
    cheapest choice that finds a pair at the threshold with probability `recall`. seed: 0 to 2^63 - 1, or "random".
    exact: verify candidates by their true Jaccard similarity instead of the share of equal slots, an estimate with a standard
    deviation of 0.035 at 0.8 with 128 slots. Exact values keep 40 bits of each shingle hash: for texts of 430 words, one
    similarity in 9 million is wrong, by about one shingle. slot_bits: the bits of each slot, 16 or 32. family: "affine32", or
    "java32", the linear functions of the article "MinHashing and LSH". expected: the planned number of documents.

    In texts below about 50 words one changed word changes many shingles: use `TextRules.chars(shingle=3)` and a threshold of 0.8.

    `fingerprint` returns uint16[num_perm] (uint32 with slot_bits=32).

    >>> scheme = MinHash(threshold=0.8)
    >>> scheme.bands, scheme.rows
    (12, 5)
    >>> scheme.fingerprint("the cat sat on the mat").shape
    (128,)
    """

    name: ClassVar[str] = "minhash"
    table: ClassVar[str] = "minhash_band"
    finds_all: ClassVar[bool] = False
    query_names: ClassVar[tuple[str, ...]] = ("slot_bits",)
    same_values: ClassVar[tuple[str, ...]] = ("exact", "num_perm", "slot_bits", "seed", "family")
    plan = choice("bands")
    num_perm = integer(1, _NUM_PERM_MAX, "hash functions")
    threshold = fraction()
    bands = integer(1, _NUM_PERM_MAX, chosen_by=("num_perm", "threshold", "recall", "expected"))
    rows = integer(1, _NUM_PERM_MAX, chosen_by=("num_perm", "threshold", "recall", "expected"))
    recall = fraction(include_one=False)
    seed = seed()
    exact = flag()
    slot_bits: Parameter[Literal[16, 32]] = choice(16, 32)
    family: Parameter[Family] = choice(*FAMILIES)

    @checked
    def __init__(
        self,
        num_perm: int = 128,
        threshold: float = 0.8,
        bands: int | None = None,
        rows: int | None = None,
        recall: float = _DEFAULT_RECALL,
        seed: int | Literal["random"] = 1,
        exact: bool = False,
        slot_bits: Literal[16, 32] = 16,
        family: Family = "affine32",
        expected: int = 1_000_000,
    ) -> None:
        self._set(plan="bands")
        self._set_bands(bands, rows)
        self.native  # noqa: B018 (checks the rest)

    def _set_bands(self, bands: Any, rows: Any) -> None:
        """Set bands, rows and, if they reach less than the default recall, the recall."""
        for name, value in (("bands", bands), ("rows", rows)):
            if value is not None:
                check_integer(name, value, 1, self.num_perm, f"of num_perm={self.num_perm} slots")
        if bands is None or rows is None:
            bands, rows = plans.cheapest_bands(self.threshold, self.num_perm, self.recall, self.expected, bands, rows)
        elif bands * rows > self.num_perm:
            taken = f"bands={bands} of rows={rows} take {bands * rows} slots, but num_perm={self.num_perm}"
            raise ParameterError(f"{taken}: raise num_perm, or give rows={self.num_perm // bands}")
        self._set(bands=int(bands), rows=int(rows))
        reached = plans.band_probability(self.threshold, bands, rows)
        if reached >= self.recall:
            return
        if self.recall != _DEFAULT_RECALL or reached == 0.0:
            found = f"bands={bands} of rows={rows} find a pair at threshold={self.threshold} with probability {reached:.6g}"
            raise ParameterError(f"{found}, below recall={self.recall}: leave bands and rows out, or lower the recall")
        self._set(recall=reached)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "evidence": _EVIDENCE[self.exact]}

    @classmethod
    def from_settings(cls: type[Self], settings: Mapping[str, Any]) -> Self:
        scheme = super().from_settings(settings)
        stored(settings, "evidence", choice(_EVIDENCE[bool(settings["exact"])]).from_file)
        return scheme

    def with_exact(self, exact: bool) -> MinHash:
        """The same signatures and bands, verified by the true similarity (True) or the share of equal slots."""
        return self._copy(exact=exact)

    @property
    def keys_at_once(self) -> int:  # type: ignore[override]
        return self.bands

    def _no_containment(self) -> str:
        return (
            "MinHash signatures do not tell what a text contains; make the index with "
            "MinHash(exact=True) or BottomK(containment=True), or rebuild() it so where it stores texts"
        )

    def require_order(self) -> None:
        if not self.exact:
            how = "make the index with MinHash(exact=True) or BottomK(), or rebuild() it so where it stores texts"
            raise ParameterError(f"nearest: estimates by MinHash signatures cannot rank all texts; {how}")

    # ---- values ------------------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint_native(self) -> Any:
        return native_scheme({**self.settings(), "evidence": "none"})

    def keys_of(self, values: native.Values) -> Any:
        return native.band_keys(self.native, values) if self.exact else None

    def reads_values_of(self, other: Scheme) -> bool:
        if isinstance(other, MinHash) and self.exact and other.exact:
            return True  # the shingle hashes themselves, whatever is made of them
        return super().reads_values_of(other)

    has_elements = True

    def elements(self, value: bytes) -> Any:
        if self.exact:
            return native.set_numbers(value)
        slots = np.frombuffer(value, f"<u{self.slot_bits // 8}").astype(np.uint64)
        return np.arange(self.num_perm, dtype=np.uint64) << np.uint64(32) | slots

    @property
    def elements_bound(self) -> float:
        share = self.threshold  # of equal slots: s of n are s / (2 n - s) of the elements
        return self.threshold if self.exact else share / (2 - share) * (1 - 1e-9)

    @property
    def value_size(self) -> int:
        return self.num_perm * self.slot_bits // 8

    def decoded(self, value: bytes, rules: TextRules) -> Any:
        return np.frombuffer(value, f"<u{self.slot_bits // 8}").astype(self._dtype)

    def encoded(self, name: str, fingerprint: Any) -> bytes:
        array = fingerprint_array(name, fingerprint)
        if array.dtype != self._dtype or array.shape != (self.num_perm,):
            raise ParameterError(
                f"{name} is {array.dtype}{list(array.shape)}: give {self._dtype}[{self.num_perm}], a fingerprint of this scheme"
            )
        return array.astype(f"<u{self.slot_bits // 8}").tobytes()

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint16 if self.slot_bits == 16 else np.uint32)
