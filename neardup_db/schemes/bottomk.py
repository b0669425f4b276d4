"""Bottom-k sketches (Broder 1997): the k smallest shingle hashes, joined exactly by a prefix filter (Chaudhuri et al. 2006)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..errors import ParameterError
from ..native import Values as NativeValues
from ..parameters import Stored, choice, fraction, integer, records_given, restore
from ..text import TextRules
from .common import EXPECTED_MAX, MEASURES, SetScheme, stored_scheme

_K_MAX = 65536


class BottomK(SetScheme):
    """Texts whose k smallest shingle hashes are alike; every pair at or above the threshold is found, by the chosen measure.

    k: hashes in a fingerprint. threshold: above 0, at most 1. measure: "fingerprint" for the Jaccard similarity of the two
    fingerprints themselves, "estimate" for the unbiased estimate of the texts' (common hashes among the k smallest of the
    union). expected: documents that the index is planned for.

    `fingerprint` gives the sorted distinct hashes, uint64[at most k] (uint32 with a hash of 32 bits).

    >>> scheme = BottomK(k=4)
    >>> a, b = scheme.fingerprint("one two three four five"), scheme.fingerprint("one two three four six")
    >>> len(a), scheme.similarity(a, b)
    (3, 0.5)
    """

    name: ClassVar[str] = "bottomk"
    names: ClassVar[tuple[str, ...]] = ("k", "threshold", "measure", "expected")
    row_names: ClassVar[tuple[str, ...]] = ("plan", *names)

    same_values: ClassVar[tuple[str, ...]] = ("k",)

    k: int
    measure: str
    _hash_size = 8

    @records_given()
    def __init__(self, k: int = 128, threshold: float = 0.5, measure: str = "fingerprint", expected: int = 1_000_000) -> None:
        self._set(
            k=integer("k", k, 1, _K_MAX, "hashes in a fingerprint"),
            threshold=fraction("threshold", threshold),
            measure=choice("measure", measure, MEASURES),
            expected=integer("expected", expected, 1, EXPECTED_MAX, "documents"),
            plan="prefix",
        )
        self.native  # noqa: B018 (checks the rest)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> BottomK:
        stored = Stored(settings)
        state = {
            "plan": stored.text("plan", ("prefix",)),
            "k": stored.integer("k", 1, _K_MAX),
            "threshold": stored.fraction("threshold"),
            "measure": stored.text("measure", MEASURES),
            "expected": stored.integer("expected", 1, EXPECTED_MAX),
        }
        scheme = restore(cls, state)
        stored_scheme(scheme)
        return scheme

    def for_index(self, rules: TextRules, store_text: bool) -> BottomK:
        return self._copy(_hash_size=rules.hash_size)

    @property
    def table(self) -> str | None:
        return "bottomk_prefix"

    def query_name(self, fingerprints: int) -> str:
        return "prefix" if self.measure == "fingerprint" else "prefix_estimate"

    def query_parameters(self) -> dict[str, Any]:
        return {"k": self.k}

    def fingerprint_of(self, value: bytes) -> Any:
        return self.decoded(value, None)

    def decoded(self, value: bytes, rules: TextRules | None) -> Any:
        hashes = np.frombuffer(value, "<u8")
        size = self._hash_size if rules is None else rules.hash_size
        return hashes.astype(np.uint32 if size == 4 else np.uint64)

    def decoded_many(self, values: NativeValues, rules: TextRules) -> Any:
        hashes = self.decoded(values.data, rules)
        ends = (values.ends // np.uint64(8)).tolist()
        return [hashes[start:end] for start, end in pairwise([0, *ends])]

    def encoded(self, name: str, fingerprint: Any) -> bytes:
        array = np.asarray(fingerprint)
        if array.ndim != 1 or array.dtype not in (np.uint64, np.uint32):
            raise ParameterError(f"{name} must be uint64[n] or uint32[n], not {array.dtype}{list(array.shape)}")
        if array.size > self.k or (array.size > 1 and not (array[1:] > array[:-1]).all()):
            raise ParameterError(f"{name} must be at most k={self.k} distinct hashes in ascending order")
        return array.astype("<u8").tobytes()

    def similarity(self, a: Any, b: Any) -> float:
        if a is None or b is None or not len(a) or not len(b):
            return 0.0
        return super().similarity(a, b)
