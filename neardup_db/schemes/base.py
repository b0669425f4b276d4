"""What a scheme is: a fingerprint, the candidate tables that find it again, and the rule that verifies a candidate.

The index knows schemes only through this interface. A *value* is the fingerprint as the file stores it (bytes); its layout, its
keys and its comparison are those of the C core's `nd_scheme`, so Python and SQL cannot disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ..text import TextRules

Setting = "str | int | float | None"


@dataclass(frozen=True, slots=True)
class Values:
    """Stored values of texts, in their order: None for a text without shingles."""

    values: list[bytes | None]
    token_counts: list[int]
    hashes: Any = None
    """XXH3-64 of each value, int64[n], where it was asked for."""
    keys: Any = None
    """The numbers that are the keys of each value: int64[n, most], the last repeated where there are fewer. None where they were
    not asked for, or where values are so small that they can as well be read again."""


@dataclass(frozen=True, slots=True)
class CandidateKey:
    """A key low = high of a candidate table, or of codes a bucket: the rows with ids from low to high.

    table_no: block table or chunk; 0 for bands and prefixes.
    """

    table_no: int
    low: int
    high: int


class Scheme(ABC):
    """Parameters of a scheme, immutable and complete: what was not given is chosen when it is made."""

    name: ClassVar[str]
    """As in the file's setting 'scheme': 'simhash', 'minhash', 'bottomk', 'bitsampling', 'binarycode'."""

    takes_text: ClassVar[bool] = True
    """False where fingerprints are brought by the application (`BinaryCode`)."""

    is_set: bool = False
    """True where two stored values match by the Jaccard similarity of the ascending 64-bit hashes in them and by nothing else, so
    that all pairs are those of `compute.jaccard_pairs`."""

    takes_codes: ClassVar[bool] = False
    """True where a fingerprint is a code of bits that `add_code` and `query_code` accept."""

    given: Mapping[str, Any]
    """The parameters that the caller wrote down; only these are compared when a file is opened."""

    # ---- parameters and the file -------------------------------------------------------------------------------------

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All parameters as rows of the setting table: 'scheme', 'plan', and each field of nd_scheme that the scheme uses."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Scheme:
        """The scheme of a file. Raises CorruptIndexError where a setting is missing or out of range."""

    @abstractmethod
    def for_index(self, rules: TextRules, store_text: bool) -> Scheme:
        """This scheme as an index with these rules will use it (bits from the hash, evidence from store_text).

        Raises ParameterError where the two do not go together."""

    @abstractmethod
    def mismatches(self, stored: Scheme) -> list[str]:
        """One clause ("threshold=0.5, the file has 0.8") for each given parameter that the stored scheme has otherwise."""

    @property
    @abstractmethod
    def native(self) -> Any:
        """The `nd_scheme *` of the C core."""

    @property
    @abstractmethod
    def table(self) -> str:
        """Name of the candidate table ('minhash_band', ...)."""

    @property
    @abstractmethod
    def filing_bytes(self) -> int:
        """Bytes of memory in which the rows of one fingerprint are sorted (`nd_filing`)."""

    @abstractmethod
    def query_name(self, fingerprints: int) -> str:
        """Which sql/verify_*.sql answers a query over about so many stored fingerprints: 'bands', 'scan', ..."""

    @abstractmethod
    def query_parameters(self) -> dict[str, Any]:
        """The constant parameters of that SQL: 'slot_bits', 'bits', 'slope', 'k', those that the scheme has."""

    @abstractmethod
    def query_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        """(:threshold, :max_distance) of a query; the scheme's own where None.

        Raises ParameterError for a looser bound than the index was built for, or one that the scheme does not have."""

    @abstractmethod
    def containment_name(self) -> str:
        """Which sql/verify_*.sql tells how much of a text each document contains: 'prefix_containment', 'scan_containment', ...

        Raises ParameterError, with the remedy, where stored values do not tell it."""

    @abstractmethod
    def containment_bounds(self, threshold: float | None, max_distance: int | None) -> tuple[float, int]:
        """(:threshold, :max_distance) of a query for containment: any share above 0, 0.8 where None.

        Raises ParameterError where there is no containment, for a share outside of that, and for a distance."""

    @abstractmethod
    def reads_values_of(self, other: Scheme) -> bool:
        """True if the stored values of `other`, under the same text rules, are this scheme's as they are."""

    # ---- values ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def values(self, texts: Sequence[str | bytes], rules: TextRules, *, to_file: bool = False) -> Values:
        """The stored values of texts; to_file: with their hashes and keys."""

    @abstractmethod
    def evidence(self, texts: Sequence[str | bytes], rules: TextRules) -> list[bytes | None] | None:
        """Where candidates are verified by hashing stored texts again: each text's sorted distinct shingle hashes. Else None."""

    @abstractmethod
    def code_value(self, code: Any) -> bytes:
        """The stored value of a code (bytes, int, hex, uint8 array, uint64). ParameterError where takes_codes is False."""

    @abstractmethod
    def code_rows(self, codes: Iterable[Any]) -> Iterable[Any]:
        """The codes one by one; those of an array as the bytes that `code_value` takes at once."""

    @abstractmethod
    def is_value(self, value: bytes) -> bool:
        """True if these bytes can be a stored value: length and order."""

    @abstractmethod
    def file_keys(self, value: bytes, group_id: int = 0) -> list[CandidateKey]:
        """Where the candidate table has a stored value of a group."""

    @abstractmethod
    def probe_keys(self, value: bytes, group_id: int = 0) -> list[CandidateKey]:
        """The keys of the candidate table under which everything of a group is found that matches a value."""

    @abstractmethod
    def compare(self, a: bytes, b: bytes, evidence_a: bytes | None, evidence_b: bytes | None) -> tuple[float, int | None]:
        """(similarity, distance) of two stored values by the rule; of their evidence where the rule needs that."""

    @abstractmethod
    def fingerprint_of(self, value: bytes) -> Any:
        """A stored value as `fingerprint` would return it."""

    # ---- without an index --------------------------------------------------------------------------------------------

    @abstractmethod
    def fingerprint(self, text: str | bytes, rules: TextRules | None = None) -> Any:
        """Fingerprint of one text, None for an empty one."""

    @abstractmethod
    def fingerprints(self, texts: Any, rules: TextRules | None = None, *, return_empty: bool = False) -> Any:
        """Fingerprints of many texts."""

    @abstractmethod
    def similarity(self, a: Any, b: Any) -> float:
        """Similarity of two fingerprints as the scheme's rule measures it."""
