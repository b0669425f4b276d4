"""What all schemes share: texts to stored values, stored values to fingerprints, parameters to the C core's nd_scheme."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .. import native
from ..errors import CorruptIndexError, ParameterError
from ..native import Values as NativeValues
from ..parameters import Parameters, differences, fraction
from ..text import TextRules
from .base import CandidateKey, Scheme, Values

KINDS = ("simhash", "minhash", "bottomk", "bitsampling", "binarycode")
PLANS = ("scan", "blocks", "chunks", "bands", "prefix")
FAMILIES = ("affine32", "java32")
EVIDENCES = ("none", "hashes", "text")
MEASURES = ("fingerprint", "estimate")
EXPECTED_MAX = 1 << 40
DEFAULT_CONTAINMENT = 0.8
"""The least containment of a query that does not say one: the index's own threshold is for another measure."""

# Settings whose rows are words, with the numbers that C has for them.
_WORDS = {"scheme": KINDS, "plan": PLANS, "family": FAMILIES, "evidence": EVIDENCES, "measure": MEASURES}
_C_NAMES = {"scheme": "kind"}
_NOT_IN_C = ("recall", "expected", "exact")


class CommonScheme(Parameters, Scheme):
    """A scheme over the C core's nd_scheme. A subclass names its settings and lays out its fingerprint."""

    plan: str
    expected: int
    row_names: ClassVar[tuple[str, ...]] = ()
    """The settings beside 'scheme' that are attributes of the same name."""

    # ---- parameters and the file -------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        rows: dict[str, Any] = {"scheme": self.name}
        for name in self.row_names:
            value = self._setting(name)
            if value is not None:
                rows[name] = int(value) if isinstance(value, bool) else value
        return rows

    def _setting(self, name: str) -> Any:
        return getattr(self, name)

    @property
    def native(self) -> Any:
        return self._cached("native", lambda: native_scheme(self.settings()))

    def mismatches(self, stored: Scheme) -> list[str]:
        """One clause ("threshold=0.5, the file has 0.8") for each given parameter that the stored scheme has otherwise."""
        if self.name != stored.name or not isinstance(stored, Parameters):
            return [f"the scheme {type(self).__name__}, the file has {type(stored).__name__}"]
        return differences(self.given, stored)

    def for_index(self, rules: TextRules, store_text: bool) -> CommonScheme:
        return self

    same_values: ClassVar[tuple[str, ...]] = ()
    """The parameters that decide a stored value."""

    @property
    def filing_bytes(self) -> int:
        return 16 + 32 * self.keys_at_once

    @property
    def keys_at_once(self) -> int:
        """Keys of one fingerprint that are sorted together: those of one table."""
        return 1

    def reads_values_of(self, other: Scheme) -> bool:
        return self.name == other.name and all(getattr(self, name) == getattr(other, name) for name in self.same_values)

    # ---- values ------------------------------------------------------------------------------------------------------

    def values(self, texts: Sequence[str | bytes], rules: TextRules, *, to_file: bool = False) -> Values:
        if len(texts) == 1 and not to_file:
            value, token_count = value_of(self.native, texts[0], rules)
            return Values([value], [token_count])
        found = values_of(self.native, texts, rules)
        made = Values(found.split(), found.tokens.tolist())
        return replace(made, hashes=found.hashes(), keys=self.keys_of(found)) if to_file else made

    def keys_of(self, values: NativeValues) -> Any:
        """`Values.keys` of values."""
        return None

    def evidence(self, texts: Sequence[str | bytes], rules: TextRules) -> list[bytes | None] | None:
        return None

    def is_value(self, value: bytes) -> bool:
        return native.is_value(self.native, value)

    def file_keys(self, value: bytes, group_id: int = 0) -> list[CandidateKey]:
        return [CandidateKey(*key) for key in native.keys(self.native, value, group_id, probe=False)]

    def probe_keys(self, value: bytes, group_id: int = 0) -> list[CandidateKey]:
        return [CandidateKey(*key) for key in native.keys(self.native, value, group_id, probe=True)]

    def compare(self, a: bytes, b: bytes, evidence_a: bytes | None, evidence_b: bytes | None) -> tuple[float, int | None]:
        similarity, distance = native.similarity(self.native, a, b)
        return similarity, None if distance < 0 else distance

    def code_rows(self, codes: Iterable[Any]) -> Iterable[Any]:
        return codes

    def code_value(self, code: Any) -> bytes:
        raise ParameterError(f"{type(self).__name__} takes texts, not codes; use add and query, or another scheme (BinaryCode)")

    # ---- without an index --------------------------------------------------------------------------------------------

    def fingerprint(self, text: str | bytes, rules: TextRules | None = None) -> Any:
        rules = _rules(rules)
        scheme = self.for_fingerprints(rules)
        value, _ = value_of(scheme.fingerprint_native, text, rules)
        return None if value is None else scheme.decoded(value, rules)

    def fingerprints(self, texts: Any, rules: TextRules | None = None, *, return_empty: bool = False) -> Any:
        rules = _rules(rules)
        scheme = self.for_fingerprints(rules)
        found = values_of(scheme.fingerprint_native, list_of_texts(texts), rules)
        made = scheme.decoded_many(found, rules)
        return (made, found.sizes() == 0) if return_empty else made

    def for_fingerprints(self, rules: TextRules) -> CommonScheme:
        """This scheme with everything resolved that its fingerprints under these rules depend on."""
        return self

    @property
    def fingerprint_native(self) -> Any:
        """The nd_scheme whose value is the fingerprint itself."""
        return self.native

    @abstractmethod
    def decoded(self, value: bytes, rules: TextRules | None) -> Any:
        """A value of `fingerprint_native` as callers get it."""

    def decoded_many(self, values: NativeValues, rules: TextRules) -> Any:
        """All values as one array, zero rows for empty texts."""
        empty = values.sizes() == 0
        shape = self.decoded(bytes(self.value_size), rules)
        if not empty.any():
            return np.frombuffer(values.data, shape.dtype).reshape(len(empty), shape.size).copy()
        rows = np.zeros((len(empty), shape.size), shape.dtype)
        rows[~empty] = np.frombuffer(values.data, shape.dtype).reshape(-1, shape.size)
        return rows

    @property
    def value_size(self) -> int:
        """Bytes of a fingerprint, where all have as many."""
        raise NotImplementedError

    @abstractmethod
    def encoded(self, name: str, fingerprint: Any) -> bytes:
        """What callers pass as a fingerprint as a value of `fingerprint_native`; ParameterError where it is none."""

    def similarity(self, a: Any, b: Any) -> float:
        if a is None or b is None:
            return 0.0
        return native.similarity(self.fingerprint_native, self.encoded("a", a), self.encoded("b", b))[0]

    # ---- questions ---------------------------------------------------------------------------------------------------

    def query_parameters(self) -> dict[str, Any]:
        return {}

    def containment_name(self) -> str:
        raise ParameterError(
            f"measure='containment': {type(self).__name__} keeps codes of bits, which do not tell what a text contains; "
            "make the index with MinHash(exact=True) or BottomK(containment=True)"
        )

    def containment_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        self.containment_name()  # the error that names the remedy
        if max_distance is not None:
            raise ParameterError(f"max_distance={max_distance!r}: containment has no distance; use threshold")
        return DEFAULT_CONTAINMENT if threshold is None else fraction("threshold", threshold), -1


class SetScheme(CommonScheme):
    """A scheme that measures Jaccard similarity: it has a threshold and no distance."""

    threshold: float

    def query_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        if max_distance is not None:
            raise ParameterError(f"max_distance={max_distance!r}: {type(self).__name__} has no distance; use threshold")
        if threshold is None:
            return self.threshold, -1
        asked = fraction("threshold", threshold)
        if asked < self.threshold:
            raise ParameterError(
                f"threshold={threshold} is below {self.threshold}, the one that the index was built for; "
                f"ask for {self.threshold} or more, or rebuild the index with a lower threshold"
            )
        return asked, -1


def native_scheme(settings: Mapping[str, Any]) -> Any:
    """The checked nd_scheme of these settings."""
    fields = {
        _C_NAMES.get(name, name): _WORDS[name].index(value) if name in _WORDS else value
        for name, value in settings.items()
        if name not in _NOT_IN_C
    }
    return native.scheme_new(fields)


def stored_scheme(scheme: CommonScheme) -> None:
    """CorruptIndexError where the C core would not take the scheme that was read from a file."""
    try:
        scheme.native  # noqa: B018
    except ParameterError as error:
        raise CorruptIndexError(f"the settings of the file are no scheme: {error}; restore the file from a backup") from error


def values_of(scheme: Any, texts: Sequence[str | bytes], rules: TextRules) -> NativeValues:
    """Values of texts under any rules: built-in ones all in C, others with the shingles hashed one text after another."""
    if rules.custom:
        return native.values_of_digests(scheme, (rules.digests(text) for text in texts))
    return native.values_of_texts(scheme, rules.native, texts)


def value_of(scheme: Any, text: str | bytes, rules: TextRules) -> tuple[bytes | None, int]:
    """(value, tokens) of one text under any rules."""
    if rules.custom:
        found = native.values_of_digests(scheme, [rules.digests(text)])
        return found.data or None, int(found.tokens[0])
    return native.value_of_text(scheme, rules.native, text)


def list_of_texts(texts: Any) -> list[Any]:
    """Texts as a list: of a list or another iterable, a one-dimensional numpy array, or an Arrow array."""
    if isinstance(texts, (str, bytes, bytearray)):
        raise ParameterError("texts must be a list of texts, not one text; use fingerprint(text) for one")
    if isinstance(texts, np.ndarray):
        if texts.ndim != 1:
            raise ParameterError(f"texts must be a one-dimensional array, not one of shape {texts.shape}")
        return list(texts.tolist())
    for method in ("to_pylist", "to_list"):  # pyarrow and nanoarrow; polars and pandas
        if hasattr(texts, method):
            return list(getattr(texts, method)())
    if not isinstance(texts, Iterable):
        raise ParameterError(f"texts must be a list of texts, a numpy array or an Arrow array, not {type(texts).__name__}")
    return list(texts)


def _rules(rules: Any) -> TextRules:
    if rules is None:
        return _DEFAULT_RULES
    if not isinstance(rules, TextRules):
        raise ParameterError(f"rules must be TextRules or None, not {type(rules).__name__}")
    return rules


_DEFAULT_RULES = TextRules()
