"""The frozen values that an index takes and returns. Their HTML comes from `show/`, which is imported on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

Key = str | bytes | int
"""A document key: text, bytes or a signed 64-bit integer. 1 and '1' are different keys."""


class AnyGroup(Enum):
    ANY_GROUP = "documents of all groups, and those of none"

    def __repr__(self) -> str:
        return self.name


ANY_GROUP: Final = AnyGroup.ANY_GROUP
"""As the `group` of a query: documents of every group, and documents without a group."""

SHOWN_KEYS, SHOWN_TEXT = 12, 200  # keys of a cluster, and characters of a text, in a repr


Part = str | int
"""The name of one code of a document: text or a signed 64-bit integer."""

Times = tuple[int, int, int]  # when a document was added and last seen, in milliseconds, and how often it was offered


class Record(NamedTuple):
    """One checked document to add.

    text: the text to store; metadata: JSON; expires_at: milliseconds; times: None for a new document; part: the name of its code
    under the key; is_one_of_several: True for an unnamed code that another index stores beside named ones, else None.
    """

    key: Key
    text: str | None
    metadata: str | None
    group: Key | None
    expires_at: int | None
    times: Times | None = None
    part: Part | None = None
    is_one_of_several: bool | None = None


class Incoming(NamedTuple):
    """One checked record of `add_many` or `add_codes`, before it is fingerprinted."""

    record: Record
    content: Any  # text or code
    if_exists: str


@dataclass(frozen=True, slots=True)
class Match:
    """A stored near-duplicate of the query.

    similarity: 0.0 to 1.0, as the scheme measures it. distance: the number of differing bits, None for schemes without a
    distance. A document with several codes is compared by its best code, and `part` is the name of that code (None if unnamed).
    """

    key: Key
    similarity: float
    distance: int | None = None
    part: Part | None = None

    def __repr__(self) -> str:
        part = "" if self.part is None else f", part={self.part!r}"
        return f"Match(key={self.key!r}, similarity={self.similarity!r}, distance={self.distance!r}{part})"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents that are near-duplicates of each other; `key_a` is the earlier one."""

    key_a: Key
    key_b: Key
    similarity: float
    distance: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Documents connected by near-duplicate pairs, in insertion order; `representative` is the earliest. The repr is short."""

    representative: Key
    keys: tuple[Key, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        if len(self) <= SHOWN_KEYS:
            return f"Cluster(representative={self.representative!r}, keys={self.keys!r})"
        first = ", ".join(map(repr, self.keys[:SHOWN_KEYS]))
        return f"Cluster(representative={self.representative!r}, keys=({first}, ... {len(self) - SHOWN_KEYS:,} more))"


class Passage(NamedTuple):
    """A passage that two texts share: in the text asked for from `start` to `end`, in that of document `key` from `other_start`
    to `other_end`, in characters or tokens."""

    key: Key
    start: int
    end: int
    other_start: int
    other_end: int
    tokens: int


class CommonPassage(NamedTuple):
    """A passage that `texts` different texts share: where document `key` has it, in characters, with the text of the passage; in
    tokens, without it, if the index stores no texts."""

    key: Key
    start: int
    end: int
    tokens: int
    texts: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Count:
    """The number of stored near-duplicates of a query, and their times. False if there are none.

    count: documents. times_seen: how often these documents were offered, including the offers that
    `add_if_new(on_match="touch")` did not store. first_added_at, last_added_at: when the earliest and the latest were added.
    last_seen: the latest offer. Times are seconds since 1970 (UTC), None without a match.
    """

    count: int
    times_seen: int
    first_added_at: float | None
    last_added_at: float | None
    last_seen: float | None

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document. Times are seconds since 1970 (UTC); `text` is None unless the index stores texts.

    code: the stored code in an index of codes (`BinaryCode`, `SimHash`, `BitSampling`), most significant bit first; `query_code`
    takes it. None in other indexes and for a text without shingles. codes: every code of the document by its part (None if
    unnamed), in insertion order; `code` is the first. The repr shortens a long text.
    """

    key: Key
    group: Key | None
    metadata: Any
    text: str | None
    token_count: int | None
    added_at: float
    last_seen: float
    times_seen: int
    expires_at: float | None
    code: bytes | None = None
    codes: Mapping[Part | None, bytes] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.codes.keys() <= {None}:
            del values["codes"]  # it adds nothing to `code`
        if self.text is not None and len(self.text) > SHOWN_TEXT:
            values["text"] = f"{self.text[:SHOWN_TEXT]}... ({len(self.text):,} characters)"
        return f"Document({', '.join(f'{name}={value!r}' for name, value in values.items())})"


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of an index since a token. Apply `removed` first, then `added`, then `clusters`.

    removed, added: keys; a replaced document is in both. clusters: (key, cluster number or None) of each document whose cluster
    or codes changed, and of each added document in a cluster. codes: keys of documents whose codes changed after they were
    added. more: True if there are more changes; call `changes(token)` again with this `token`.
    """

    token: str
    removed: tuple[Key, ...] = ()
    added: tuple[Key, ...] = ()
    clusters: tuple[tuple[Key, int | None], ...] = ()
    more: bool = False
    codes: tuple[Key, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.clusters)


class Stats(dict[str, Any]):
    """The dictionary that `Index.stats` returns. `print` shows a line for each value."""

    def __str__(self) -> str:
        rows = list(flat_rows(self))
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def flat_rows(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values as text; nested names are joined by dots ('settings.scheme'). Top-level counts have separators."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_rows(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            yield prefix + name, f"{value:,.6g}"
        elif isinstance(value, int) and not isinstance(value, bool) and not prefix:
            yield name, f"{value:,}"
        else:
            yield prefix + name, "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The work of one query. Times are seconds.

    table: the table that was searched, a candidate table or all fingerprints. probes: ranges looked up in it. rows: rows (or code
    entries) read. candidates: distinct fingerprints among these. verified: candidates that match by the scheme's rule.
    matches: visible documents with a verified fingerprint.
    """

    scheme: str
    plan: str
    table: str
    tokens: int | None
    probes: int
    rows: int
    candidates: int
    verified: int
    matches: int
    fingerprint_s: float
    candidates_s: float
    query_s: float

    def __str__(self) -> str:
        return (
            f"{self.scheme}, plan {self.plan} over {self.table}: {self.probes} probes, {self.rows} rows, "
            f"{self.candidates} candidates, {self.verified} verified, "
            f"{self.matches} matches; fingerprint {self.fingerprint_s * 1e6:.0f} us, "
            f"candidates {self.candidates_s * 1e6:.0f} us, query {self.query_s * 1e6:.0f} us"
        )


@dataclass(frozen=True, slots=True)
class MatchExplanation:
    """Why two documents match or do not match. A notebook shows it as HTML, with both texts side by side.

    similarity, distance: as the scheme measures the stored fingerprints. jaccard: the exact Jaccard similarity of the shingles.
    met: (table number, key) of each row of `table` that both documents have, out of the `probes` of a query for the first.
    text_a, text_b: the texts; shared, only_a, only_b: their shingles. These are None unless texts are stored or given. passages:
    the passages of the first text that the second has, in an index of `Passages` that stores texts, else None.

    dismissed: True if the pair was dismissed by `Index.dismiss`, so it is no match. connected_by: the path of keys that keeps a
    dismissed pair in one cluster, else None. allowed: True if one is like an allowed text (`Index.allow`), so it is no match.
    """

    key_a: Key
    key_b: Key
    similarity: float
    distance: int | None
    is_match: bool
    met: tuple[tuple[Any, ...], ...]
    text_a: str | None = field(default=None, repr=False)
    text_b: str | None = field(default=None, repr=False)
    shared: tuple[str, ...] | None = None
    only_a: tuple[str, ...] | None = None
    only_b: tuple[str, ...] | None = None
    scheme: str = ""
    table: str = ""
    probes: int = 0
    dismissed: bool = False
    connected_by: tuple[Key, ...] | None = None
    allowed: bool = False
    passages: tuple[Passage, ...] | None = None

    @property
    def jaccard(self) -> float | None:
        """Jaccard similarity of the two shingle sets; None without texts."""
        if self.shared is None or self.only_a is None or self.only_b is None:
            return None
        union = len(self.shared) + len(self.only_a) + len(self.only_b)
        return len(self.shared) / union if union else 0.0

    def html(self) -> str:
        """A self-contained HTML page with the figures, the shared candidate rows, the shingles and both texts side by side."""
        from .show.explanation import explanation_page

        return explanation_page(self)

    def _repr_html_(self) -> str:
        from .show.explanation import explanation_html
        from .show.style import fragment

        return fragment(explanation_html(self))


@dataclass(frozen=True, slots=True)
class AllowedText:
    """A text exempt from matching, with every text like it (`Index.allow`). allowed_at: seconds since 1970 (UTC). text: None
    unless the index stores texts."""

    id: int
    text: str | None
    note: str | None
    allowed_at: float


MOST_PROBLEMS = 100  # the most skipped records that an AddReport lists


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped record: its position in the input, counted from 0, its key (None if unusable) and the reason."""

    record: int
    key: Key | None
    reason: str


@dataclass(frozen=True, slots=True)
class AddReport:
    """The outcome of `add_many`, as counts of records.

    added: stored under a new key. replaced: stored in place of an older document. ignored: not stored, because the key existed.
    skipped: not stored, because the record was invalid (`on_error="skip"`). matched: near-duplicates of earlier documents; with
    `only_new=True` they were not stored. problems: the first MOST_PROBLEMS skipped records, which equality ignores.
    """

    added: int = 0
    replaced: int = 0
    ignored: int = 0
    skipped: int = 0
    matched: int = 0
    problems: tuple[Skipped, ...] = field(default=(), compare=False)

    @property
    def total(self) -> int:
        """Documents stored."""
        return self.added + self.replaced


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The outcome of `sync`, as counts of rows of the followed table.

    added: new documents. replaced: documents whose row has another text or group now. deleted: documents whose row is gone, has
    no text or fails the condition. unchanged: rows that equal their document. skipped: rows that cannot become documents;
    problems: the first MOST_PROBLEMS of them; equality ignores it. matched: added or replaced near-duplicates of earlier ones.

    compared: why all rows were compared with all documents, "" if only the noted changes were read. found: documents that this
    comparison added, replaced or deleted. complete: False if a limit left work for the next call.
    """

    added: int = 0
    replaced: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: int = 0
    matched: int = 0
    compared: str = ""
    found: int = 0
    complete: bool = True
    problems: tuple[Skipped, ...] = field(default=(), compare=False)

    @property
    def total(self) -> int:
        """Documents added, replaced or deleted."""
        return self.added + self.replaced + self.deleted


Report = TypeVar("Report", AddReport, SyncReport)


def summed(first: Report, second: Report, **others: Any) -> Report:
    """Two reports as one. others: the fields that are no sums."""
    sums: dict[str, Any] = {}
    for one in fields(first):
        sums[one.name] = getattr(first, one.name) + getattr(second, one.name)
    return replace(first, **{**sums, "problems": sums["problems"][:MOST_PROBLEMS], **others})


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of `check`: violated invariants in `problems`, rebuilt data in `repaired`, and in `notes` observations that
    are no problems, such as pending changes of a followed table."""

    problems: tuple[str, ...] = ()
    repaired: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ok(self) -> bool:
        """True when every invariant holds."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        """A line for each problem (or one that says there is none), each repair and each note."""
        lines = self.problems or ("every invariant holds",)
        return "\n".join([*lines, *(f"repaired: {done}" for done in self.repaired), *(f"note: {note}" for note in self.notes)])
