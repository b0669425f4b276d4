"""What a scheme is: a fingerprint, the candidate tables that find it again, and the rule that verifies a candidate.

The index knows schemes only through `Scheme`. A *value* is the fingerprint as the file stores it (bytes); its layout, its keys
and its comparison are those of the C core's `nd_scheme`, so Python and SQL cannot disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from .. import native
from ..arrays import Array, np
from ..arrow import is_arrow, texts_of
from ..errors import CorruptIndexError, ParameterError
from ..immutable import Immutable, differences, restore
from ..native import Sketch as NativeSketch
from ..native import Values as NativeValues
from ..parameters import check_fraction, check_texts, quoted
from ..settings import StoredSettings
from ..text import TextRules

Self = TypeVar("Self", bound="Scheme")

Family = Literal["affine32", "java32"]

_WORDS = {name: native.words(name) for name in ("scheme", "plan", "family", "evidence", "measure")}
FAMILIES, EVIDENCES, MEASURES = _WORDS["family"], _WORDS["evidence"], _WORDS["measure"]
EXPECTED_MAX = 1 << 40

_C_NAMES = {"scheme": "kind"}
_NOT_IN_C = ("recall", "expected", "exact")


@dataclass(frozen=True, slots=True)
class TextValues:
    """Stored values of texts, in their order: None for a text without shingles."""

    values: list[bytes | None]
    token_counts: list[int]
    hashes: Any = None
    """XXH3-64 of each value, int64[n]; None unless asked for."""
    keys: Any = None
    """The keys of each value: int64[n, most], the last repeated where there are fewer. None unless asked for, and where values
    are so small that reading them again costs no more."""


class Scheme(Immutable, ABC):
    """Parameters of a scheme, immutable and complete: parameters that were not given are chosen when the scheme is made. A
    subclass names its settings and lays out its fingerprint."""

    name: ClassVar[str]
    """As in the file's setting 'scheme': 'simhash', 'minhash', 'bottomk', 'bitsampling', 'binarycode'."""

    takes_text: ClassVar[bool] = True
    """False where the application brings the fingerprints (`BinaryCode`)."""

    takes_codes: ClassVar[bool] = False
    """True where a fingerprint is a code of bits that `add_code` and `query_code` accept."""

    is_set: bool = False
    """True where two stored values match by the Jaccard similarity of the ascending 64-bit hashes in them and by nothing else, so
    that all pairs are those of `compute.jaccard_pairs`."""

    has_elements: bool = False
    """True where two stored values match by how many elements they have in common (`elements`)."""

    finds_all: ClassVar[bool] = True
    """False where the tables may miss a match by the rule (`MinHash`)."""

    row_names: ClassVar[tuple[str, ...]] = ()
    """The settings beside 'scheme' that are attributes of the same name."""

    same_values: ClassVar[tuple[str, ...]] = ()
    """The parameters that decide a stored value."""

    chosen: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The parameters that are chosen where they are not given, with those that they are chosen by."""

    keys_at_once: int = 1
    """Keys of one fingerprint that are sorted together: those of one table."""

    most_rows: int | None = None
    """Rows in the candidate table of a fingerprint whose keys all differ; None where they depend on its value."""

    plan: str
    expected: int

    # ---- parameters and the file -------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All parameters as rows of the setting table: 'scheme', 'plan', and each field of nd_scheme that the scheme uses."""
        rows: dict[str, Any] = {"scheme": self.name}
        for name in self.row_names:
            value = self._setting(name)
            if value is not None:
                rows[name] = int(value) if isinstance(value, bool) else value
        return rows

    def _setting(self, name: str) -> Any:
        return getattr(self, name)

    @classmethod
    def from_settings(cls: type[Self], settings: Mapping[str, Any]) -> Self:
        """The scheme of a file. Raises CorruptIndexError where a setting is missing or out of range."""
        scheme = restore(cls, cls._state(StoredSettings(settings)))
        try:
            scheme.native  # noqa: B018 (checks the rest)
        except ParameterError as error:
            raise CorruptIndexError(f"the settings of the file are no scheme: {error}; restore the file from a backup") from error
        return scheme

    @classmethod
    @abstractmethod
    def _state(cls, stored: StoredSettings) -> dict[str, Any]:
        """The attributes of a scheme that a file describes."""

    def for_index(self, rules: TextRules) -> Scheme:
        """This scheme as an index with these rules will use it (bits from the hash).

        Raises ParameterError where the two do not go together."""
        return self

    def mismatches(self, stored: Scheme) -> list[str]:
        """One clause ("threshold=0.5, the file has 0.8") for each given parameter that the stored scheme has otherwise."""
        if self.name != stored.name:
            return [f"the scheme {type(self).__name__}, the file has {type(stored).__name__}"]
        return differences(self.given, stored)

    def changed(self: Self, **changes: Any) -> Self:
        """The same with other parameters. What was chosen by one of them is chosen again, unless it is among them."""
        other = {name for name, value in changes.items() if value != getattr(self, name)}
        again = {name: None for name, chosen_by in self.chosen.items() if other.intersection(chosen_by)}
        return super().changed(**{**again, **changes})

    @property
    def native(self) -> Any:
        """The `nd_scheme *` of the C core."""
        made = self.__dict__.get("_cached_native")  # half of the time of `_cached`, and each question asks for it
        return self._cached("native", lambda: native_scheme(self.settings())) if made is None else made

    @property
    @abstractmethod
    def table(self) -> str:
        """Name of the candidate table ('minhash_band', ...)."""

    @property
    def filing_bytes(self) -> int:
        """Bytes of memory in which the rows of one fingerprint are sorted (`nd_filing`)."""
        return 16 + 32 * self.keys_at_once

    def reads_values_of(self, other: Scheme) -> bool:
        """True if the stored values of `other`, under the same text rules, are this scheme's as they are."""
        return self.name == other.name and all(getattr(self, name) == getattr(other, name) for name in self.same_values)

    # ---- values ------------------------------------------------------------------------------------------------------

    def values(self, texts: Sequence[str | bytes], rules: TextRules, *, to_file: bool = False) -> TextValues:
        """The stored values of texts; to_file: with their hashes and keys."""
        values = values_of(self.native, texts, rules)
        made = TextValues(values.split(), values.tokens.tolist())
        return replace(made, hashes=values.hashes(), keys=self.keys_of(values)) if to_file else made

    def value_maker(self, rules: TextRules) -> Callable[[str | bytes], tuple[bytes | None, int]]:
        """A function that gives (stored value, tokens) of one text: what a question needs."""
        if rules.custom:
            return partial(value_of, self.native, rules=rules)
        return native.value_maker(self.native, rules.native)

    def sketch(self, text: str | bytes, rules: TextRules) -> NativeSketch:
        """The stored value of one text with its hash and its keys, made in one call."""
        if not rules.custom:
            return native.sketch_of_text(self.native, rules.native, text)
        value, token_count = value_of(self.native, text, rules)
        if value is None:
            return NativeSketch(None, token_count, None, None)
        return native.sketch_of_value(self.native, value, token_count)

    def keys_of(self, values: NativeValues) -> Any:
        """`TextValues.keys` of values."""
        return None

    def is_value(self, value: bytes) -> bool:
        """True if these bytes can be a stored value: length and order."""
        return native.is_value(self.native, value)

    def are_values(self, values: NativeValues) -> bool:
        """True if all of these can be stored values."""
        return native.are_values(self.native, values)

    def compare(self, a: bytes, b: bytes) -> tuple[float, int | None]:
        """(similarity, distance) of two stored values by the rule."""
        similarity, distance = native.similarity(self.native, a, b)
        return similarity, None if distance < 0 else distance

    def code_rows(self, codes: Iterable[Any]) -> Iterable[Any]:
        """The codes one by one; those of an array as the stored values. ParameterError where takes_codes is False."""
        raise self._no_codes()

    def code_value(self, code: Any, name: str = "code") -> bytes:
        """The stored value of a code (bytes, int, hex, uint8 array, uint64), called `name` in messages. ParameterError where
        takes_codes is False."""
        raise self._no_codes()

    def _no_codes(self) -> ParameterError:
        return ParameterError(f"{type(self).__name__} takes texts, not codes; use add and query, or another scheme (BinaryCode)")

    # ---- without an index --------------------------------------------------------------------------------------------

    def fingerprint(self, text: str | bytes, rules: TextRules | None = None) -> Any:
        """Fingerprint of one text, None for one without a word; rules: TextRules() unless given.

        MinHash: `uint16[num_perm]` (`uint32` with `slot_bits=32`). SimHash, BitSampling: `uint8[bits // 8]`, the most significant
        bit first. BottomK: sorted distinct `uint64`, at most k (or as wide as the hash of the rules).

        >>> from neardup_db import BottomK, MinHash, SimHash
        >>> for scheme in MinHash(), SimHash(), BottomK():
        ...     fingerprint = scheme.fingerprint("the quick brown fox jumps over the lazy dog")
        ...     print(fingerprint.dtype, fingerprint.shape)
        uint16 (128,)
        uint8 (8,)
        uint64 (7,)
        """
        rules = rules_of(rules)
        scheme = self.for_fingerprints(rules)
        value, _ = value_of(scheme.fingerprint_native, text, rules)
        return None if value is None else scheme.decoded(value, rules)

    def fingerprints(self, texts: Any, rules: TextRules | None = None, *, return_empty: bool = False) -> Any:
        """Fingerprints of many texts: one array of two dimensions, a row a text; of BottomK a list of arrays.

        texts: a list of str or bytes, or strings that Arrow reads (an array of pyarrow, a Series of polars). A text without a
        word has a row of zeros; return_empty=True returns also which these are, `bool[n]`. Raises ParameterError.

        >>> from neardup_db import MinHash
        >>> rows, empty = MinHash().fingerprints(["the quick brown fox", "", "the lazy dog"], return_empty=True)
        >>> rows.shape, empty.tolist()
        ((3, 128), [False, True, False])
        """
        rules = rules_of(rules)
        scheme = self.for_fingerprints(rules)
        made, empty = scheme.made_of(list_of_texts(texts), rules)
        return (made, empty) if return_empty else made

    def for_fingerprints(self, rules: TextRules) -> Scheme:
        """This scheme with everything resolved that its fingerprints under these rules depend on."""
        return self

    @property
    def fingerprint_native(self) -> Any:
        """The nd_scheme whose value is the fingerprint itself."""
        return self.native

    @abstractmethod
    def decoded(self, value: bytes, rules: TextRules | None) -> Any:
        """A value of `fingerprint_native` as callers get it."""

    def made_of(self, texts: Sequence[str | bytes], rules: TextRules) -> tuple[Any, Any]:
        """The fingerprints of texts as one array, zero rows for empty texts, and which these are, bool[n]."""
        scheme, width = self.fingerprint_native, self.value_size
        if rules.custom:
            rows, empty = native.rows_of(values_of(scheme, texts, rules), width)
        else:
            rows, empty = native.rows_of_texts(scheme, rules.native, texts, width)
        return rows.view(self.decoded(bytes(width), rules).dtype), empty

    @property
    def value_size(self) -> int:
        """Bytes of a fingerprint, where all have as many."""
        raise NotImplementedError

    def elements(self, value: bytes) -> Any:
        """Ascending numbers, uint64[n], of a stored value: two match if the Jaccard similarity of these is high enough."""
        return np.frombuffer(value, "<u8")

    @property
    def elements_bound(self) -> float:
        """A Jaccard similarity of elements below which no two values match."""
        raise NotImplementedError

    @abstractmethod
    def encoded(self, name: str, fingerprint: Any) -> bytes:
        """What callers pass as a fingerprint as a value of `fingerprint_native`; ParameterError where it is none."""

    def similarity(self, a: Any, b: Any) -> float:
        """Similarity of two fingerprints as the scheme's rule measures it; of `MinHash(exact=True)` the estimate by signatures.

        For the true Jaccard similarity of two texts take `compute.jaccard` of their sorted, distinct `compute.shingle_hashes`.
        Raises ParameterError for what is no fingerprint of this scheme.

        >>> from neardup_db import MinHash
        >>> scheme = MinHash()
        >>> scheme.similarity(scheme.fingerprint("the quick brown fox"), scheme.fingerprint("The quick brown fox!"))
        1.0
        """
        if a is None or b is None:
            return 0.0
        return native.similarity(self.fingerprint_native, self.encoded("a", a), self.encoded("b", b))[0]

    # ---- questions ---------------------------------------------------------------------------------------------------

    def query_parameters(self) -> dict[str, Any]:
        """The constant parameters of the query's SQL: 'slot_bits', 'bits', 'slope', 'k', those that the scheme has."""
        return {}

    def verification(self, measure: str | None = None) -> str:
        """Which sql/verify_*.sql answers a query: 'bands', 'buckets', ...; measure="containment": 'prefix_containment',
        'scan_containment', ...

        Raises ParameterError, with the remedy, where stored values do not tell what a text contains."""
        name = native.query_of(self.native, containment=measure is not None)
        if name is None:
            raise ParameterError(f"measure='containment': {self._no_containment()}")
        return name

    def _no_containment(self) -> str:
        """Why stored values do not tell what a text contains, and the remedy."""
        return (
            f"{type(self).__name__} keeps codes of bits, which do not tell what a text contains; "
            "make the index with MinHash(exact=True) or BottomK(containment=True)"
        )

    def require_order(self) -> None:  # noqa: B027 (most have one)
        """ParameterError, with the remedy, where stored values do not put all documents in the order of their similarity."""

    @abstractmethod
    def query_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        """(:threshold, :max_distance) of a query; the scheme's own where None.

        Raises ParameterError for a looser bound than the index was built for, or one that the scheme does not have."""

    def containment_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        """(:threshold, :max_distance) of a query for containment: any share above 0, 0.8 where None.

        Raises ParameterError where there is no containment, for a share outside of that, and for a distance."""
        self.verification("containment")  # the error that names the remedy
        if max_distance is not None:
            raise ParameterError(f"max_distance={max_distance!r}: containment has no distance; use threshold")
        usual = native.bounds(self.native, containment=True)
        return usual.threshold if threshold is None else check_fraction("threshold", threshold), usual.max_distance


class SetScheme(Scheme):
    """A scheme that measures Jaccard similarity: it has a threshold and no distance."""

    always_shown: ClassVar[tuple[str, ...]] = ("threshold",)
    threshold: float

    def query_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        if max_distance is not None:
            raise ParameterError(f"max_distance={max_distance!r}: {type(self).__name__} has no distance; use threshold")
        usual = native.bounds(self.native)
        if threshold is None:
            return usual.threshold, usual.max_distance
        asked = check_fraction("threshold", threshold)
        if asked < usual.lowest:
            raise ParameterError(
                f"threshold={threshold} is below {usual.lowest}, the one that the index was built for; "
                f"ask for {usual.lowest} or more, or rebuild the index with a lower threshold"
            )
        return asked, usual.max_distance


def native_scheme(settings: Mapping[str, Any]) -> Any:
    """The checked nd_scheme of these settings."""
    fields = {
        _C_NAMES.get(name, name): _WORDS[name].index(value) if name in _WORDS else value
        for name, value in settings.items()
        if name not in _NOT_IN_C
    }
    return native.scheme_new(fields)


def values_of(scheme: Any, texts: Sequence[str | bytes], rules: TextRules) -> native.Values:
    """Values of texts under any rules: built-in ones all in C, others with the shingles hashed one text after another."""
    if rules.custom:
        return native.values_of_digests(scheme, (rules.digests(text) for text in texts))
    return native.values_of_texts(scheme, rules.native, texts)


def value_of(scheme: Any, text: str | bytes, rules: TextRules) -> tuple[bytes | None, int]:
    """(value, tokens) of one text under any rules."""
    if rules.custom:
        values = native.values_of_digests(scheme, [rules.digests(text)])
        return values.data or None, int(values.tokens[0])
    return native.value_of_text(scheme, rules.native, text)


def list_of_texts(texts: Any) -> Sequence[Any]:
    """Texts as a sequence: of a list or another iterable, a one-dimensional numpy array, or an Arrow array."""
    if is_arrow(texts):
        return texts_of("texts", texts, None, "give one of them, e.g. table['body']")
    if isinstance(texts, (str, bytes, bytearray)):
        raise ParameterError(f"texts={quoted(texts)}: give a list of texts; fingerprint(text) takes one")
    if isinstance(texts, np.ndarray):
        if texts.ndim != 1:
            raise ParameterError(f"texts is an array of shape {texts.shape}: give a one-dimensional one")
        texts = texts.tolist()
    for method in ("to_pylist", "to_list"):  # of arrays without Arrow's interface, such as those of older pandas
        if hasattr(texts, method):
            texts = getattr(texts, method)()
    if not isinstance(texts, Iterable):
        raise ParameterError(f"texts={quoted(texts)}: give a list of texts, a numpy array or an Arrow array")
    return check_texts("texts", texts, (str, bytes, bytearray, memoryview))


def fingerprint_array(name: str, fingerprint: Any) -> Array:
    """What callers pass as a fingerprint as an array; ParameterError for a text."""
    if isinstance(fingerprint, (str, bytes)):
        raise ParameterError(f"{name}={quoted(fingerprint)} is a text, not a fingerprint: give scheme.fingerprint(text)")
    return np.asarray(fingerprint)


def rules_of(rules: Any) -> TextRules:
    """The rules given, `TextRules()` for None."""
    if rules is None:
        return _DEFAULT_RULES
    if not isinstance(rules, TextRules):
        raise ParameterError(f"rules={quoted(rules)}: give TextRules, or None")
    return rules


_DEFAULT_RULES = TextRules()
