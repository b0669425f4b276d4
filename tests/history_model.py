"""What random histories are: plans, an index as a dictionary with brute force, the clock, and a history as a literal."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from support import ONE_ROW, Case, Model, case_of, case_of_parts

from neardup_db import BinaryCode, BitSampling, BottomK, MinHash, Passages, SimHash, TextRules

START = 1_700_000_000_000
"""Of the clock, milliseconds since 1970."""

Operation = tuple[str, int, dict[str, Any]]
"""Its name, which of the two Index objects does it, and its arguments."""


# ---- plans -----------------------------------------------------------------------------------------------------------------


_LETTERS = TextRules.chars(shingle=2)

SCHEMES: dict[str, list[Any]] = {
    "simhash-blocks": [SimHash(max_distance=12, blocks=14), SimHash(max_distance=9, blocks=11)],
    "simhash-chunks": [SimHash(max_distance=8), SimHash(max_distance=11)],
    "simhash-scan": [SimHash(max_distance=20), SimHash(max_distance=3)],
    "minhash": [MinHash(threshold=0.5, **ONE_ROW), MinHash(threshold=0.7, **ONE_ROW)],
    "minhash-exact": [MinHash(threshold=0.5, exact=True, **ONE_ROW), MinHash(threshold=0.7, exact=True, **ONE_ROW)],
    "bottomk": [BottomK(k=6, threshold=0.5), BottomK(k=6, threshold=0.7)],
    "bottomk-estimate": [BottomK(k=6, threshold=0.6, measure="estimate"), BottomK(k=6, threshold=0.4, measure="estimate")],
    "bottomk-containment": [BottomK(k=4, threshold=0.6, containment=True), BottomK(k=4, threshold=0.4, containment=True)],
    "passages": [Passages(shortest=3), Passages(shortest=3, threshold=0.6)],
    "passages-threshold": [Passages(shortest=4, threshold=0.7), Passages(shortest=4)],
    "bitsampling-chunks": [BitSampling(bits=64, max_distance=17, chunks=8), BitSampling(bits=64, max_distance=12, chunks=8)],
    "bitsampling-scan": [BitSampling(bits=64, max_distance=20), BitSampling(bits=64, max_distance=17, chunks=8)],
    "binarycode-64-blocks": [BinaryCode(64, 3), BinaryCode(64, 5)],
    "binarycode-64-chunks": [BinaryCode(64, 5), BinaryCode(64, 2)],
    "binarycode-64-scan": [BinaryCode(64, 20), BinaryCode(64, 5)],
    "binarycode-256-blocks": [BinaryCode(256, 12), BinaryCode(256, 5)],
    "binarycode-256-chunks": [BinaryCode(256, 31), BinaryCode(256, 5)],
    "binarycode-256-scan": [BinaryCode(256, 90), BinaryCode(256, 12)],
    "binarycode-64-parts": [BinaryCode(64, 3), BinaryCode(64, 5)],
}


@functools.cache
def configurations(plan: str) -> list[Case]:
    """What a rebuild may lead to: the plan itself, another threshold with the same values; from stored texts also other text
    rules and another scheme."""
    schemes = SCHEMES[plan]
    found = [(case_of_parts if has_parts(plan) else case_of)(scheme) for scheme in schemes]
    if not found[0].codes:
        other = "bottomk" if plan.startswith("minhash") else "minhash"
        found += [case_of(schemes[0], _LETTERS), case_of(SCHEMES[other][0])]
    return found


def has_parts(plan: str) -> bool:
    """Whether documents have several codes."""
    return plan.endswith("-parts")


PLANS = tuple(SCHEMES)
"""Every scheme with every plan that it can have."""


# ---- the model -------------------------------------------------------------------------------------------------------------


class State(Model):
    """The dictionary with documents that have expired too, the window, and the rows of the application's own table."""

    rows = 0
    duration: int | None = None
    """Milliseconds that a document stays."""

    def __init__(self, case: Case, window: int | None = None) -> None:
        super().__init__(case, window)
        self.added: dict[int, int] = {}
        """When each entry was stored, by its number."""
        self.own: dict[int, float | None] = {}
        """The end that each entry was given."""

    def put(self, key: Any, content: Any, group: Any = None, expires_at: float | None = None) -> None:
        self.added[self.counter + 1], self.own[self.counter + 1] = CLOCK.now, expires_at
        super().put(key, content, group, self.until(self.counter + 1, expires_at))

    def until(self, number: int, expires_at: float | None) -> float | None:
        """When an entry expires that is given an end, or none."""
        if self.duration is None:
            return expires_at
        end = self.added[number] + self.duration
        return end if expires_at is None else min(expires_at, end)

    def set_duration(self, duration: int) -> None:
        """Ends that the window gave follow it, earlier ones stay, and what has expired does not come back."""
        before, self.duration = self.duration or 0, duration
        for key, one in self.entries.items():
            if one.expires_at is None or one.expires_at > CLOCK.now:
                own = self.own[one.number] if one.expires_at == self.added[one.number] + before else one.expires_at
                self.entries[key] = replace(one, expires_at=self.until(one.number, own))

    def copy(self) -> State:
        """A snapshot."""
        made = State(self.case, self.window)
        made.added, made.own, made.duration, made.rows = self.added, dict(self.own), self.duration, self.rows
        made.entries, made.counter, made.dismissed = dict(self.entries), self.counter, set(self.dismissed)
        made.allowed = self.allowed
        return made

    def visible(self, now: int) -> Model:
        """The documents that have not expired."""
        made = Model(self.case)
        made.entries = {key: one for key, one in self.entries.items() if one.expires_at is None or one.expires_at > now}
        made.dismissed, made.allowed = self.dismissed, self.allowed
        return made

    def rebuild(self, case: Case) -> None:
        """Another scheme or other rules."""
        self.case = case
        again = [(content, case.prepare(content)) for content, _ in self.allowed]
        self.allowed = [one for one in again if one[1] is not None]
        self._prepare_again()


class Raised(Exception):
    """Of a transaction that is to be rolled back."""


class Difference(AssertionError):
    """The index and the model say different things: `kind` is the question."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Clock:
    """The present, moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def patch(self, setattr_: Callable[[Any, str, Any], None]) -> None:
        """Put it into the place of `now_ms` in every module that has it."""
        for name, module in list(sys.modules.items()):
            if name.startswith("neardup_db") and hasattr(module, "now_ms"):
                setattr_(module, "now_ms", self)


CLOCK = Clock()


class History(NamedTuple):
    """What is played. target: "path", "connection" (two Index objects on one apsw connection), "standard" (on one of the sqlite3
    module), "mixed" (one on a connection, one on the path) or "memory". window: documents, or seconds if it is a float."""

    plan: str
    target: str
    store_text: bool
    record_matches: bool
    operations: list[Operation]
    window: float | None = None


@dataclass
class Counts:
    """What was played."""

    histories: int = 0
    operations: Counter[str] = None  # type: ignore[assignment]
    comparisons: int = 0

    def __post_init__(self) -> None:
        self.operations = Counter()

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {number:,}" for name, number in self.operations.most_common())
        total = sum(self.operations.values())
        return f"{self.histories:,} histories, {total:,} operations, {self.comparisons:,} comparisons ({kinds})"
