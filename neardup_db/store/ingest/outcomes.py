"""Outcomes of the records of a load, reported after the commit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ...values import Key, Match, Skipped

Outcome = Literal["added", "replaced", "ignored", "duplicate", "skipped"]
OnOutcome = Callable[[Key | None, Outcome, Match | Skipped | None], Any]


class Collector(ABC):
    """An `on_outcome` that collects outcomes; `report` is called after each commit."""

    @abstractmethod
    def __call__(self, key: Key | None, outcome: Outcome, match: Match | Skipped | None) -> None: ...

    @abstractmethod
    def report(self) -> None: ...


class Outcomes:
    """The outcomes of one transaction's records, in record order.

    Written records come in order and need no number; invalid ones are found earlier, while reading, and carry theirs. A
    segment stores documents before their matches are known.
    """

    def __init__(self, on_outcome: OnOutcome, first: int = 0) -> None:
        self._on_outcome = on_outcome
        self._number = first  # the number of the next record to report
        self.skipped: deque[Skipped] = deque()
        self._keys: list[Key] = []
        self._outcomes: list[Outcome] = []
        self._matches: dict[int, Match | Skipped] = {}  # keyed by position in the two lists
        self._runs: list[tuple[float, int]] = []  # (first id, position) of each run of ids whose matches are not known yet

    def add(self, key: Key, outcome: Outcome, match: Match | Skipped | None) -> None:
        if match is not None:
            self._matches[len(self._keys)] = match
        self._keys.append(key)
        self._outcomes.append(outcome)

    def add_stored(self, keys: Sequence[Key], first_id: int) -> None:
        self._runs.append((first_id, len(self._keys)))
        self._keys += keys
        self._outcomes += ["added"] * len(keys)

    def connect(self, matches: Mapping[int, Match]) -> None:
        """Set the best matches, by id, of documents stored since the last call."""
        for document_id, match in matches.items():
            first_id, place = self._runs[bisect_right(self._runs, (document_id, math.inf)) - 1]
            self._matches[place + document_id - int(first_id)] = match
        self._runs = []

    def report(self) -> None:
        """Report each new outcome. If the function raises, the remaining ones are lost."""
        keys, outcomes, matches = self._keys, self._outcomes, self._matches
        self._keys, self._outcomes, self._matches = [], [], {}
        place = 0
        while place < len(keys) or self.skipped:
            if self.skipped and self.skipped[0].record == self._number:
                skipped = self.skipped.popleft()
                self._number += 1
                self._on_outcome(skipped.key, "skipped", skipped)
            else:
                self._number += 1
                self._on_outcome(keys[place], outcomes[place], matches.get(place))
                place += 1
        if isinstance(self._on_outcome, Collector):
            self._on_outcome.report()
