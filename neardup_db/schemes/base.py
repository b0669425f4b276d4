"""What a scheme is: a fingerprint, the candidate tables that find it again, and the rule that verifies a candidate.

The index knows schemes only through `Scheme`. A *value* is the fingerprint as the file stores it (bytes); its layout, its keys
and its comparison are those of the C core's `nd_scheme`, so Python and SQL cannot disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeVar

from .. import comparing, native
from ..arrays import Array, np
from ..arrow import is_arrow, texts_of
from ..errors import CorruptIndexError, ParameterError
from ..immutable import Immutable, restore
from ..native import Sketch as NativeSketch
from ..native import Values as NativeValues
from ..parameters import check_fraction, check_integer, check_many, check_text, check_texts, quoted
from ..settings import integer, stored
from ..text import TextRules

Self = TypeVar("Self", bound="Scheme")

Family = Literal["affine32", "java32"]

_WORDS = {name: native.words(name) for name in ("scheme", "plan", "family", "evidence", "measure")}
FAMILIES, EVIDENCES, MEASURES = _WORDS["family"], _WORDS["evidence"], _WORDS["measure"]
EXPECTED_MAX = 1 << 40

_C_NAMES = {"scheme": "kind"}
_NOT_IN_C = ("recall", "expected", "exact")


class Scheme(Immutable, ABC):
    """The parameters of a scheme, immutable and complete: the constructor chooses the parameters that the caller left out."""

    name: ClassVar[str]  # the setting 'scheme': 'simhash', 'minhash', 'bottomk', 'bitsampling', 'binarycode' or 'passages'
    takes_text: ClassVar[bool] = True  # false if the application supplies the fingerprints (`BinaryCode`)
    takes_codes: ClassVar[bool] = False  # true if a fingerprint is a bit code, which `add_code` and `query_code` accept

    is_set: bool = False
    """True if stored values are sets of 64-bit hashes that match by their Jaccard similarity, as in `compute.jaccard_pairs`."""

    has_elements: bool = False  # true if two stored values match by the number of elements they share (`elements`)
    finds_all: ClassVar[bool] = True  # false if the candidate tables may miss a match (`MinHash`)
    same_values: ClassVar[tuple[str, ...]] = ()  # the parameters that determine a stored value
    query_names: ClassVar[tuple[str, ...]] = ()  # the attributes that a query needs as constant SQL parameters
    table: ClassVar[str]  # the candidate table ('minhash_band', ...)
    keys_at_once: int = 1  # the keys of one fingerprint that are sorted together: the keys of one table

    plan: Any
    expected = integer(1, EXPECTED_MAX, "documents")

    # ---- parameters and the file -------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All parameters as rows of the setting table: 'scheme', 'plan' and each field of `nd_scheme` that the scheme uses."""
        rows = {name: one.to_file(name, getattr(self, name)) for name, one in self._parameters.items()}
        return {"scheme": self.name, **{name: value for name, value in rows.items() if value is not None}}

    @classmethod
    def from_settings(cls: type[Self], settings: Mapping[str, Any]) -> Self:
        """The scheme of a file. Raises CorruptIndexError if a setting is missing or out of range."""
        scheme = restore(cls, {name: stored(settings, name, one.from_file) for name, one in cls._parameters.items()})
        try:
            scheme.native  # noqa: B018 (checks the rest)
        except ParameterError as error:
            raise CorruptIndexError(f"the settings of the file are no scheme: {error}; restore the file from a backup") from error
        return scheme

    def rules_for(self, rules: TextRules) -> TextRules:
        """The rules by which this scheme cuts texts, given those of the index."""
        return rules

    def for_index(self, rules: TextRules) -> Scheme:
        """This scheme with the parameters that depend on the text rules (bits from the hash); ParameterError if it cannot be."""
        return self

    @cached_property
    def native(self) -> Any:
        """The `nd_scheme *` of the C core."""
        return native_scheme(self.settings())

    @property
    def filing_bytes(self) -> int:
        """Bytes of memory needed to sort the candidate rows of one fingerprint (`nd_filing`)."""
        return 24 + 24 * self.keys_at_once

    def filing_bytes_of(self, count: int, size: int) -> float:
        """The same of `count` fingerprints whose values have `size` bytes together."""
        return count * self.filing_bytes

    def reads_values_of(self, other: Scheme) -> bool:
        """True if this scheme can use the stored values of `other` unchanged, given the same text rules."""
        return self.name == other.name and all(getattr(self, name) == getattr(other, name) for name in self.same_values)

    # ---- values ------------------------------------------------------------------------------------------------------

    def values(self, texts: Sequence[str | bytes], rules: TextRules) -> NativeValues:
        return values_of(self.native, texts, self.rules_for(rules))

    def value_maker(self, rules: TextRules) -> Callable[[str | bytes], tuple[bytes | None, int]]:
        """A function from one text to (stored value, token count), as a query needs it."""
        return _value_maker(self.native, self.rules_for(rules))

    def sketch(self, text: str | bytes, rules: TextRules) -> NativeSketch:
        """The stored value of one text with its hash and keys, computed in one call."""
        rules = self.rules_for(rules)
        if not rules.custom:
            return native.sketch_of_text(self.native, rules.native, text)
        value, token_count = _value_maker(self.native, rules)(text)
        if value is None:
            return NativeSketch(None, token_count, None, None)
        return native.sketch_of_value(self.native, value, token_count)

    def keys_of(self, values: NativeValues) -> Any:
        """Bucket keys of each value, int64[n, most], padded by the last; None for small values, whose keys cost little."""
        return None

    def is_value(self, value: bytes) -> bool:
        """True if these bytes have the length and order of a stored value."""
        return bool(native.lib.nd_scheme_value_check(self.native, value, len(value)) == native.lib.ND_OK)

    def are_values(self, values: NativeValues) -> bool:
        check, scheme, at = native.lib.nd_scheme_value_check, self.native, native.ffi.from_buffer("uint8_t[]", values.data)
        places = pairwise([0, *values.ends.tolist()])
        return all(check(scheme, at + start, end - start) == native.lib.ND_OK for start, end in places)

    def code_rows(self, codes: Iterable[Any]) -> Iterable[Any]:
        """Iterate over codes, converting an array to stored values at once. Raises ParameterError if takes_codes is False."""
        raise self._no_codes()

    def code_value(self, code: Any, name: str = "code") -> bytes:
        """The stored value of a code (bytes, int, hex, uint8 array, uint64), called `name` in messages."""
        raise self._no_codes()

    def _no_codes(self) -> ParameterError:
        return ParameterError(f"{type(self).__name__} takes texts, not codes; use add and query, or another scheme (BinaryCode)")

    # ---- without an index --------------------------------------------------------------------------------------------

    def fingerprint(self, text: str | bytes, rules: TextRules | None = None) -> Any:
        """The fingerprint of one text, None for a text without a word. rules: `TextRules()` by default.

        MinHash: `uint16[num_perm]` (`uint32` with `slot_bits=32`). SimHash, BitSampling: `uint8[bits // 8]`, most significant bit
        first. BottomK: at most k sorted distinct hashes, `uint64` (`uint32` with a 32-bit hash).

        >>> from neardup_db import BottomK, MinHash, SimHash
        >>> for scheme in MinHash(), SimHash(), BottomK():
        ...     fingerprint = scheme.fingerprint("the quick brown fox jumps over the lazy dog")
        ...     print(fingerprint.dtype, fingerprint.shape)
        uint16 (128,)
        uint8 (8,)
        uint64 (7,)
        """
        rules = self.rules_for(rules_of(rules))
        scheme = self.for_index(rules)
        value, _ = _value_maker(scheme.fingerprint_native, rules)(check_text(text))
        return None if value is None else scheme.decoded(value, rules)

    def fingerprints(self, texts: Any, rules: TextRules | None = None, *, return_empty: bool = False) -> Any:
        """The fingerprints of many texts: a two-dimensional array with a row for each text; for BottomK a list of arrays.

        texts: a list of str or bytes, or Arrow strings (a pyarrow array, a polars Series). A text without a word gets a row of
        zeros; return_empty=True also returns which texts these are, `bool[n]`. Raises ParameterError.

        >>> from neardup_db import MinHash
        >>> rows, empty = MinHash().fingerprints(["the quick brown fox", "", "the lazy dog"], return_empty=True)
        >>> rows.shape, empty.tolist()
        ((3, 128), [False, True, False])
        """
        rules = self.rules_for(rules_of(rules))
        scheme = self.for_index(rules)
        made, empty = scheme.fingerprint_texts(list_of_texts(texts), rules)
        return (made, empty) if return_empty else made

    @property
    def fingerprint_native(self) -> Any:
        """The `nd_scheme` whose value is the fingerprint itself."""
        return self.native

    @abstractmethod
    def decoded(self, value: bytes, rules: TextRules) -> Any:
        """A value of `fingerprint_native` in the form that callers get."""

    def fingerprint_texts(self, texts: Sequence[str | bytes], rules: TextRules) -> tuple[Any, Any]:
        """(fingerprints, empty): one array with zero rows for empty texts, or a list of arrays; and bool[n]."""
        scheme = self.fingerprint_native
        if self.item_size is not None:
            values = values_of(scheme, texts, rules)
            items = self.decoded(values.data, rules)
            ends = (values.ends // np.uint64(self.item_size)).tolist()
            return [items[start:end] for start, end in pairwise([0, *ends])], values.sizes() == 0
        width = self.value_size
        if rules.custom:
            rows, empty = native.rows_of(values_of(scheme, texts, rules), width)
        else:
            rows, empty = native.rows_of_texts(scheme, rules.native, texts, width)
        return rows.view(self.decoded(bytes(width), rules).dtype), empty

    item_size: ClassVar[int | None] = None  # bytes of each hash in a fingerprint, if fingerprints differ in size

    @property
    def value_size(self) -> int:
        """Bytes of a fingerprint, if all have the same size."""
        raise NotImplementedError

    def elements(self, value: bytes) -> Any:
        """Ascending numbers, uint64[n], of a stored value. Two values match if the Jaccard similarity of these is high enough."""
        return np.frombuffer(value, "<u8")

    @property
    def elements_bound(self) -> float:
        """The element similarity (Jaccard) below which no two values match."""
        raise NotImplementedError

    @abstractmethod
    def encoded(self, name: str, fingerprint: Any) -> bytes:
        """A caller's fingerprint as a value of `fingerprint_native`. Raises ParameterError if it is not one."""

    def similarity(self, a: Any, b: Any) -> float:
        """The similarity of two fingerprints as the scheme measures it; `MinHash(exact=True)` estimates it from signatures.

        For the true Jaccard similarity of two texts use `compute.jaccard` on their sorted, distinct `compute.shingle_hashes`.
        Raises ParameterError for anything but fingerprints of this scheme.

        >>> from neardup_db import MinHash
        >>> scheme = MinHash()
        >>> scheme.similarity(scheme.fingerprint("the quick brown fox"), scheme.fingerprint("The quick brown fox!"))
        1.0
        """
        if a is None or b is None:
            return 0.0
        x, y = self.encoded("a", a), self.encoded("b", b)
        return comparing.similarity(self.fingerprint_native, x, y)[0] if x and y else 0.0

    # ---- questions ---------------------------------------------------------------------------------------------------

    def query_parameters(self) -> dict[str, Any]:
        """The scheme's constant SQL parameters in a query: 'slot_bits', 'bits', 'slope' or 'k'."""
        return {name: getattr(self, name) for name in self.query_names}

    def verification(self, measure: str | None = None) -> str:
        """The name of the sql/verify_*.sql for a query: 'bands', 'buckets', ...; measure="containment": 'prefix_containment', ...
        or ParameterError, with the remedy, if the stored values cannot measure it."""
        name = native.query_of(self.native, containment=measure is not None)
        if name is None:
            raise ParameterError(f"measure='containment': {self._no_containment()}")
        return name

    def _no_containment(self) -> str:
        """Why stored values cannot measure containment, and the remedy."""
        return (
            f"{type(self).__name__} keeps codes of bits, which do not tell what a text contains; "
            "make the index with MinHash(exact=True) or BottomK(containment=True)"
        )

    def require_order(self) -> None:  # noqa: B027 (most have one)
        """Raise ParameterError, with the remedy, if stored values cannot rank all documents by similarity."""

    def query_bounds(
        self, threshold: float | None, max_distance: int | None, measure: str | None = None
    ) -> tuple[float, int]:
        """(:threshold, :max_distance) of a query; None means the scheme's own bound. measure: "containment" for its bounds.

        Raises ParameterError for a bound looser than the scheme's, or one that the scheme or the measure does not have."""
        if measure is not None:
            self.verification(measure)  # the error that names the remedy
        usual = native.bounds(self.native, containment=measure is not None)
        asked, distance = usual.threshold, usual.max_distance
        if max_distance is not None:
            if distance < 0:
                which = measure or type(self).__name__
                raise ParameterError(f"max_distance={max_distance!r}: {which} has no distance; use threshold")
            if check_integer("max_distance", max_distance, 0, native.lib.ND_BITS_MAX) > distance:
                how = f"built for; ask for {distance} or less, or rebuild the index with a larger distance"
                raise ParameterError(f"max_distance={max_distance} is above {distance}, the one that the index was {how}")
            distance = int(max_distance)
        if threshold is not None:
            asked = check_fraction("threshold", threshold)
            if asked < usual.lowest:
                lowest = f"{usual.lowest:.15g}"
                how = f"the one that the index was built for; ask for {lowest} or more, or rebuild it with a looser bound"
                raise ParameterError(f"threshold={threshold} is below {lowest}, {how}")
        return asked, distance


class ThresholdScheme(Scheme):
    """A scheme with a threshold and no distance."""

    always_shown: ClassVar[tuple[str, ...]] = ("threshold",)
    threshold: float


class SetScheme(ThresholdScheme):
    """A scheme that measures Jaccard similarity: a threshold means the same to each."""


def native_scheme(settings: Mapping[str, Any]) -> Any:
    fields = {
        _C_NAMES.get(name, name): _WORDS[name].index(value) if name in _WORDS else value
        for name, value in settings.items()
        if name not in _NOT_IN_C
    }
    return native.scheme_new(fields)


def values_of(scheme: Any, texts: Sequence[str | bytes], rules: TextRules) -> native.Values:
    """The values of texts. Built-in rules run in C; with custom rules Python hashes the shingles of one text after another."""
    if rules.custom:
        return native.values_of_digests(scheme, (rules.digests(text) for text in texts))
    return native.values_of_texts(scheme, rules.native, texts)


def _value_maker(scheme: Any, rules: TextRules) -> Callable[[str | bytes], tuple[bytes | None, int]]:
    """A function from one text to (value, token count), under any rules."""

    def by_digests(text: str | bytes) -> tuple[bytes | None, int]:
        values = native.values_of_digests(scheme, [rules.digests(text)])
        return values.data or None, int(values.tokens[0])

    return by_digests if rules.custom else native.value_maker(scheme, rules.native)


def list_of_texts(texts: Any) -> Sequence[Any]:
    """Texts as a sequence, from an iterable (numpy's `str_` become str) or an Arrow array."""
    if is_arrow(texts):
        return texts_of("texts", texts, None, "give one of them, e.g. table['body']")
    given = check_many("texts", texts, "give a list of texts, or an Arrow array; fingerprint(text) takes one text")
    return check_texts("texts", getattr(given, "tolist", lambda: given)(), (str, bytes, bytearray, memoryview))


def fingerprint_array(name: str, fingerprint: Any) -> Array:
    """A caller's fingerprint as an array. Raises ParameterError for a text."""
    if isinstance(fingerprint, (str, bytes)):
        raise ParameterError(f"{name}={quoted(fingerprint)} is a text, not a fingerprint: give scheme.fingerprint(text)")
    return np.asarray(fingerprint)


def rules_of(rules: Any) -> TextRules:
    if rules is None:
        return _DEFAULT_RULES
    if not isinstance(rules, TextRules):
        raise ParameterError(f"rules={quoted(rules)}: give TextRules, or None")
    return rules


_DEFAULT_RULES = TextRules()
