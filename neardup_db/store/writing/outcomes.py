"""What became of each record of a load: collected as the records are written, told when their transaction has ended."""

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
    """An `on_outcome` that collects what it is told, and hands it on when `tell` is called: after each commit."""

    @abstractmethod
    def __call__(self, key: Key | None, outcome: Outcome, match: Match | Skipped | None) -> None: ...

    @abstractmethod
    def report(self) -> None: ...


class Outcomes:
    """The outcomes of the records of one transaction, told in the order of the records.

    Records are written in their order, so a written one has no number. Wrong ones are met earlier, as they are read, and bring
    theirs. Documents of a segment are written before their matches are known."""

    def __init__(self, on_outcome: OnOutcome, first: int = 0) -> None:
        self._on_outcome = on_outcome
        self._number = first
        """Of the record that is told next."""
        self._wrong: deque[Skipped] = deque()
        self._keys: list[Key] = []
        self._outcomes: list[Outcome] = []
        self._matches: dict[int, Match | Skipped] = {}
        """By place in the two lists."""
        self._runs: list[tuple[float, int]] = []
        """Of documents whose matches are not known: the first id of each run of ids, and its place."""

    def add_wrong(self, skipped: Skipped) -> None:
        self._wrong.append(skipped)

    def add(self, key: Key, outcome: Outcome, match: Match | Skipped | None) -> None:
        if match is not None:
            self._matches[len(self._keys)] = match
        self._keys.append(key)
        self._outcomes.append(outcome)

    def add_stored(self, keys: Sequence[Key], first_id: int) -> None:
        """New documents with successive ids, whose matches `connect` brings."""
        self._runs.append((first_id, len(self._keys)))
        self._keys += keys
        self._outcomes += ["added"] * len(keys)

    def connect(self, matches: Mapping[int, Match]) -> None:
        """The best match of each document, by its id, that has one among those of `add_stored` since the last time."""
        for document_id, match in matches.items():
            first_id, place = self._runs[bisect_right(self._runs, (document_id, math.inf)) - 1]
            self._matches[place + document_id - int(first_id)] = match
        self._runs = []

    def report(self) -> None:
        """Call the function for each record since the last time. What it raises comes out, and the rest is not told."""
        keys, outcomes, matches = self._keys, self._outcomes, self._matches
        self._keys, self._outcomes, self._matches = [], [], {}
        place = 0
        while place < len(keys) or self._wrong:
            if self._wrong and self._wrong[0].record == self._number:
                skipped = self._wrong.popleft()
                self._number += 1
                self._on_outcome(skipped.key, "skipped", skipped)
            else:
                self._number += 1
                self._on_outcome(keys[place], outcomes[place], matches.get(place))
                place += 1
        if isinstance(self._on_outcome, Collector):
            self._on_outcome.report()
