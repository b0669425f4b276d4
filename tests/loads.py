"""Loads of random histories: `add_many` or `add_codes` on an index, and beside it what the model makes of the same records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from history_model import CLOCK, Operation

from neardup_db import DuplicateKeyError, ParameterError

if TYPE_CHECKING:
    from player import Player


class Load:
    """One load of a Player. The model takes a record over when somebody could see it in the index: `settle`."""

    def __init__(
        self,
        player: Player,
        who: int,
        records: list[Any],
        inside: dict[int, list[Operation]],
        reports: dict[int, list[Operation]],
        arrays: bool,
        how: dict[str, Any],
    ) -> None:
        self.player, self.who, self.index = player, who, player.indexes[who]
        self.records, self.inside, self.reports, self.arrays, self.how = records, inside, reports, arrays, how
        self.outer = player.loading
        self.times = {number: CLOCK.now + number for number in {one[3] for one in records} - {None}}
        self.complete = player.view(who).copy()
        """The model after the latest commit."""
        self.waiting: list[Any] = []
        """Records that were given and are not settled."""
        self.taken, self.failed, self.called = 0, False, 0
        self.counts: Counter[str] = Counter()
        self.outcomes: list[tuple[Any, str, list[Any]]] = []
        self.told: list[tuple[Any, str, Any]] = []

    def run(self) -> None:
        """Load, and compare what is told of it."""
        player, raised = self.player, False
        more = {**self.how, "on_outcome": lambda *outcome: self.told.append(outcome)}
        more["progress"] = self.progress if self.reports else None
        player.loading = self.who if self.inside or self.reports else self.outer
        try:
            report = self._load(**more)
        except (DuplicateKeyError, ParameterError):
            raised = True
        finally:
            player.loading = self.outer
        self.settle()
        player.same("add_many", "raised" if raised else "done", "raised" if self.failed else "done")
        plain = not self.inside and not self.reports and all(one[3] is None or one[3] > 0 for one in self.records)
        self._compare_outcomes(plain)
        if self.failed:
            state, complete = player.view(self.who), self.complete
            state.entries, state.counter, state.dismissed = complete.entries, complete.counter, complete.dismissed
            state.allowed = complete.allowed
            return
        found = report.added, report.replaced, report.ignored, report.skipped
        player.same("report", found, tuple(self.counts[name] for name in ("added", "replaced", "ignored", "skipped")))
        if plain:
            player.same("matched", report.matched, self.counts["found"])

    def _compare_outcomes(self, plain: bool) -> None:
        every = self.how["commit_every"]
        committed = len(self.outcomes) if not self.failed else 0 if every is None else self.taken // every * every
        self.player.same("outcomes", [one[:2] for one in self.told], [one[:2] for one in self.outcomes[:committed]])
        for (key, _, match), (_, outcome, found) in zip(self.told, self.outcomes, strict=False):
            if plain and outcome != "skipped":
                answer = match and (match.key, match.similarity, match.distance)
                self.player.same(f"match of {key!r}", answer, answer if answer in found else next(iter(found), None))

    def settle(self) -> None:
        """What was given is in the index, as far as anybody can see."""
        player, only_new = self.player, self.how["only_new"]
        while self.waiting and not self.failed:
            key, content, group, expires, own = self.waiting.pop(0)
            record = key, content, group, None if expires is None else self.times[expires]
            state, if_exists = player.view(self.who), self.how["if_exists"]
            try:
                how = (if_exists, only_new, own) if player.parts else (own or if_exists, only_new)
                outcome, found = player.put(state, record, *how)
            except KeyError:
                self.failed = self.how["on_error"] == "raise"
                self.counts["skipped"] += not self.failed
                outcome, found = "", []
            self.counts[outcome] += 1
            self.counts["found"] += bool(found)
            self.outcomes.append((key, {"matched": "duplicate", "": "skipped"}.get(outcome, outcome), found))
            self.taken += not self.failed
            if self.how["commit_every"] is not None and self.taken % self.how["commit_every"] == 0:
                self.complete = state.copy()

    def do(self, operations: list[Operation]) -> None:
        """Operations from inside the load."""
        self.settle()
        self.player.loading = self.who
        self.player.run(operations)
        self.player.loading = self.outer

    def given(self) -> Iterator[Any]:
        """The records, with what is done between them."""
        for i, record in enumerate(self.records):
            if i in self.inside:
                self.do(self.inside[i])
            self.waiting.append(record)
            yield record
        if len(self.records) in self.inside:
            self.do(self.inside[len(self.records)])

    def progress(self, _: int) -> None:
        """A call of progress."""
        self.called += 1
        if self.called in self.reports:
            self.do(self.reports[self.called])

    def at(self, expires: int | None) -> float | None:
        """Unix seconds."""
        return None if expires is None else self.times[expires] / 1000

    def _load(self, **more: Any) -> Any:
        if not self.player.codes:
            names = ("key", "text", "group", "expires_at", "if_exists")
            rows = ((key, text, group, self.at(expires), own) for key, text, group, expires, own in self.given())
            return self.index.add_many(({n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows), **more)
        return self._load_arrays(**more) if self.arrays else self._load_codes(**more)

    def _load_arrays(self, **more: Any) -> Any:
        whole = list(self.given())
        bits = self.player.cases[0].scheme.bits // 8
        codes = np.frombuffer(b"".join(one[1] for one in whole), np.uint8).reshape(-1, bits)
        if self.player.parts:
            more["part"] = [one[4] for one in whole]
        more |= {"group": [one[2] for one in whole], "expires_at": [self.at(one[3]) for one in whole]}
        return self.index.add_codes([one[0] for one in whole], codes, **more)

    def _load_codes(self, **more: Any) -> Any:
        """By iterators of keys, codes and parts, which are read in turns."""
        held: list[Any] = []
        parts: list[Any] = []
        records = self.given()
        first = next(records, None)
        if first is None:
            return self.index.add_codes([], [], **more)

        def keys() -> Iterator[Any]:
            held.append(first)
            yield first[0]
            for record in records:
                held.append(record)
                yield record[0]

        def codes_of() -> Iterator[Any]:
            while held:
                record = held.pop()
                parts.append(record[4])
                yield record[1]

        def parts_of_codes() -> Iterator[Any]:
            while parts:
                yield parts.pop()

        if self.player.parts:
            more["part"] = parts_of_codes()
        return self.index.add_codes(keys(), codes_of(), group=first[2], expires_at=self.at(first[3]), **more)
