"""What an index takes and what it answers: frozen values. `show/` makes HTML of them, and is imported when that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from .clock import utc

Key = str | bytes | int
"""What names a document: text, bytes or a signed 64-bit integer. 1 and '1' are different keys."""


class AnyGroup(Enum):
    """The type of ANY_GROUP."""

    ANY_GROUP = "documents of all groups, and those of none"

    def __repr__(self) -> str:
        return self.name


ANY_GROUP: Final = AnyGroup.ANY_GROUP
"""As the `group` of a question: documents of all groups, and those of none."""

SHOWN_KEYS, SHOWN_TEXT = 12, 200
"""Keys of a cluster, and characters of a text, in a repr."""


Part = str | int
"""What names one of the codes of a document: text or a signed 64-bit integer."""

Times = tuple[int, int, int]
"""When a document was added and last seen, in milliseconds, and how often it was offered."""


class Record(NamedTuple):
    """One document to add, checked: `text` is what is stored with it, `metadata` JSON, `expires_at` milliseconds; `times` is None
    for one that is offered now, for the first time; `part` names its code among those of its key; `is_one_of_several` is True for
    a code without a part that another index stores beside codes with parts, else None."""

    key: Key
    text: str | None
    metadata: str | None
    group: Key | None
    expires_at: int | None
    times: Times | None = None
    part: Part | None = None
    is_one_of_several: bool | None = None


class Incoming(NamedTuple):
    """One record of `add_many` or `add_codes`: checked, not yet fingerprinted."""

    record: Record
    content: Any  # text or code
    if_exists: str


@dataclass(frozen=True, slots=True)
class Match:
    """A document that is a near-duplicate of what was asked for.

    `similarity` is 0.0 to 1.0 as the scheme measures it; `distance` is the number of differing bits, None where the scheme
    has no distance. Of a document with several codes both are those of its best one, which `part` names; it is None where a
    code has no name.
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
    """Documents connected by near-duplicate pairs, in the order of insertion; `representative` is the earliest.

    Its repr names the first keys only; `keys` has all.
    """

    representative: Key
    keys: tuple[Key, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        if len(self) <= SHOWN_KEYS:
            return f"Cluster(representative={self.representative!r}, keys={self.keys!r})"
        first = ", ".join(map(repr, self.keys[:SHOWN_KEYS]))
        return f"Cluster(representative={self.representative!r}, keys=({first}, ... {len(self) - SHOWN_KEYS:,} more))"

    def _repr_html_(self) -> str:
        more = f" … {len(self) - SHOWN_KEYS:,} more" if len(self) > SHOWN_KEYS else ""
        keys = ", ".join(map(_label, self.keys[:SHOWN_KEYS])) + more
        return _facts([("documents", f"{len(self):,}"), ("representative", _label(self.representative)), ("keys", keys)])


@dataclass(frozen=True, slots=True)
class Count:
    """How many documents are near-duplicates of what was asked for, and since when. True if there is one.

    count: documents; times_seen: how often these were offered, those included that `add_if_new(on_match="touch")` did not store;
    first_added_at, last_added_at: when the earliest and the latest of them were added; last_seen: when one of them was last
    offered. Times are seconds since 1970 (UTC), None where nothing matches.
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

    code: in an index of codes (`BinaryCode`, `SimHash`, `BitSampling`) the stored one, most significant bit first, that of a text
    too; `query_code` takes it. None in other indexes, and of a text without shingles. codes: all that the document has by part,
    in the order in which they came; `code` is the first. The part of a code without one is None. Empty where `code` is None.

    Its repr has the beginning of a long text only.
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
        values = {name: getattr(self, name) for name in self._shown}
        if self.text is not None and len(self.text) > SHOWN_TEXT:
            values["text"] = f"{self.text[:SHOWN_TEXT]}... ({len(self.text):,} characters)"
        return f"Document({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def _repr_html_(self) -> str:
        rows = [(name, getattr(self, name)) for name in self._shown]
        times = ("added_at", "last_seen", "expires_at")
        shown = [(name, _utc(value) if name in times else _label(value, 1000)) for name, value in rows if value is not None]
        return _facts(shown)

    @property
    def _shown(self) -> tuple[str, ...]:
        """Names of what is shown: `codes` where they say more than `code`."""
        return self.__slots__ if any(part is not None for part in self.codes) else self.__slots__[:-1]


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to an index since a token. Apply `removed` first, then `added`, then `clusters`.

    removed, added: keys; a document that was replaced is in both. clusters: (key, number of its cluster now, None = in none) of
    documents that are in another cluster than before, or have other codes, and of added ones that are in one. more: there are
    more changes; ask on with `token`, which stands behind the last one here. codes: keys of documents that got, changed or lost
    one of several codes since they were added.
    """

    token: str
    removed: tuple[Key, ...] = ()
    added: tuple[Key, ...] = ()
    clusters: tuple[tuple[Key, int | None], ...] = ()
    more: bool = False
    codes: tuple[Key, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any change."""
        return bool(self.removed or self.added or self.clusters)


class Stats(dict[str, Any]):
    """What `Index.stats` returns: a dictionary, which `print` shows line by line and a notebook as a table."""

    def __str__(self) -> str:
        rows = list(flat_rows(self))
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        return _facts((name, _label(value)) for name, value in flat_rows(self))


def flat_rows(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values as text; those of a nested mapping as 'settings.scheme'. Counts at the top have separators."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_rows(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            yield prefix + name, f"{value:,.6g}"
        elif isinstance(value, int) and not isinstance(value, bool) and not prefix:
            yield name, f"{value:,}"
        else:
            yield prefix + name, "none" if value is None else str(value)


def _utc(seconds: float) -> str:
    try:
        return utc(seconds).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError):  # beyond the year 9999
        return f"{seconds:,} s"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one query ran. Times are seconds.

    table: where the candidates come from, the candidate table, or that of all fingerprints; probes: ranges looked up there;
    rows: rows, or entries of codes, met there; candidates: different fingerprints among them;
    verified: fingerprints that meet the rule; matches: visible documents that have them.
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
    """Why two documents match, or do not. A notebook shows it as HTML, with the texts side by side.

    similarity, distance: as the scheme measures them on what is stored; jaccard: of the shingles, exactly. met: (table number,
    key) of the rows of `table` that both have, of the `probes` that a query for the first looks up. `text_a`, `text_b` are the
    texts, and `shared`, `only_a`, `only_b` their shingles, where texts are stored or were given, else None.

    dismissed: somebody has said that the two are no duplicates (`Index.dismiss`), so they are no match. connected_by: the keys of
    documents that connect a dismissed pair in one cluster all the same, each of which matches the next; None where nothing does,
    and for other pairs. allowed: one of the two is like an allowed text (`Index.allow`), so they are no match.
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

    @property
    def jaccard(self) -> float | None:
        """Jaccard similarity of the two sets of shingles; None without texts."""
        if self.shared is None or self.only_a is None or self.only_b is None:
            return None
        union = len(self.shared) + len(self.only_a) + len(self.only_b)
        return len(self.shared) / union if union else 0.0

    def html(self) -> str:
        """A whole HTML page that needs no other file: figures, where the two met, shingles, the texts side by side."""
        from .show.explanation import explanation_page

        return explanation_page(self)

    def _repr_html_(self) -> str:
        from .show.explanation import explanation_html

        return _fragment(explanation_html(self))


@dataclass(frozen=True, slots=True)
class AllowedText:
    """A text that matches nothing, and neither do texts like it (`Index.allow`). allowed_at: seconds since 1970 (UTC); text: None
    unless the index stores texts."""

    id: int
    text: str | None
    note: str | None
    allowed_at: float


MOST_PROBLEMS = 100
"""Skipped records that an AddReport names."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was left out: its place in the input from 0, its key (None where it has none that can be used), and why."""

    record: int
    key: Key | None
    reason: str


@dataclass(frozen=True, slots=True)
class AddReport:
    """What `add_many` did with its records.

    added: stored as new documents; replaced: stored instead of an older document of the same key; ignored: left out because
    the key was there; skipped: left out because the record was wrong (`on_error="skip"`); matched: records with at least one
    near-duplicate among the earlier documents (with `only_new=True` these were not stored); problems: the skipped records, the
    first MOST_PROBLEMS of them. Reports are equal if their counts are.
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
    """What `sync` did with the rows of the followed table that it looked at.

    added: rows that are new documents; replaced: stored instead of an older text or group of the same row; deleted: documents
    whose row is gone, has no text now, or does not meet the condition; unchanged: rows that were their documents already;
    skipped: rows that cannot be documents, of which problems names the first MOST_PROBLEMS, in the order in which they were
    looked at; matched: added or replaced documents
    with at least one near-duplicate among the earlier ones.

    compared: why all rows were compared with all documents, "" where only pending ones were; found: how many documents that
    comparison added, replaced or deleted. complete: False where a limit left something for the next call. Reports are equal if
    all but their problems are.
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


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found: `problems` is empty when every invariant holds; `repaired` says what was rebuilt; `notes` are no
    problems, such as changes of a followed table that are pending."""

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
        """One line a problem, or that there is none; then what was rebuilt, and notes."""
        lines = self.problems or ("every invariant holds",)
        return "\n".join([*lines, *(f"repaired: {done}" for done in self.repaired), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return _fragment("<ul>" + "".join(f"<li>{_label(line, 500)}</li>" for line in str(self).split("\n")) + "</ul>")


def _label(value: object, most: int = 200) -> str:
    from .show.escape import label_html

    return label_html(value, most)


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    from .show.style import facts

    return _fragment(facts(rows))


def _fragment(body: str) -> str:
    from .show.style import fragment

    return fragment(body)
