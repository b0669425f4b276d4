"""What an index answers with: frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Key = str | bytes | int
"""What names a document: text, bytes or a signed 64-bit integer. 1 and '1' are different keys."""


@dataclass(frozen=True, slots=True)
class Match:
    """A document that is a near-duplicate of what was asked for.

    `similarity` is 0.0 to 1.0 as the scheme measures it; `distance` is the number of differing bits, None where the scheme
    has no distance.
    """

    key: Key
    similarity: float
    distance: int | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents that are near-duplicates of each other; `key_a` is the earlier one."""

    key_a: Key
    key_b: Key
    similarity: float
    distance: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Documents connected by near-duplicate pairs, in the order of insertion; `representative` is the earliest."""

    representative: Key
    keys: tuple[Key, ...]

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document. Times are seconds since 1970 (UTC); `text` is None unless the index stores texts."""

    key: Key
    group: Key | None
    metadata: Any
    text: str | None
    token_count: int | None
    added_at: float
    last_seen: float
    times_seen: int
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class AddReport:
    """What `add_many` did with its records.

    added: stored as new documents; replaced: stored in the place of an older document of the same key; ignored: left out because
    the key was there; skipped: left out because the record was wrong (`on_error="skip"`); matched: records with at least one
    near-duplicate among the earlier documents (with `only_new=True` these were not stored).
    """

    added: int = 0
    replaced: int = 0
    ignored: int = 0
    skipped: int = 0
    matched: int = 0

    @property
    def total(self) -> int:
        """Documents stored."""
        return self.added + self.replaced


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found: `problems` is empty when every invariant holds; `repaired` says what was rebuilt."""

    problems: tuple[str, ...] = ()
    repaired: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """True when every invariant holds."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok
