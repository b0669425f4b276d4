"""An index beside its model: what each of its connections must see. `Difference` where they part."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
from history_model import CLOCK, START, Counts, Difference, History, State, configurations, has_parts
from standard import connect
from support import Model, parts_of, tuples

from neardup_db import ANY_GROUP, Index


def window_of(window: float | None) -> Any:
    return timedelta(seconds=window) if isinstance(window, float) else window


class Compared:
    """The index, and what the model has committed and, for a connection with an open transaction, is about to."""

    def __init__(self, history: History, path: Path, counts: Counts) -> None:
        self.history, self.path, self.counts = history, path, counts
        self.cases = configurations(history.plan)
        self.codes, self.parts = self.cases[0].codes, has_parts(history.plan)
        self.committed = State(self.cases[0])
        self.open: dict[int, State] = {}
        self.pinned: dict[int, State] = {}
        self.loading = -1  # the Index object whose add_many is running
        self.inside = [0, 0]  # `transaction()` blocks of each Index object
        self.bound: set[int] = set()  # those that have rebuilt, and so refuse what another one makes of the file
        self.connection: Any = None
        self.token: str | None = None
        self.followed: dict[Any, int | None] = {}
        self.followed_codes: dict[Any, Any] = {}
        self.compared = 0
        CLOCK.now = START
        self._create()

    def _create(self) -> None:
        target = self.history.target
        window = self.history.window
        if isinstance(window, float):
            self.committed.duration = round(window * 1000)
        else:
            self.committed.window = window
        given: dict[str, Any] = {"scheme": self.cases[0].scheme, "record_matches": self.history.record_matches}
        given["window"] = window_of(window)
        if not self.codes:
            given |= {"text": self.cases[0].rules, "store_text": self.history.store_text}
        if target == "memory":
            self.connection = apsw.Connection(":memory:")
        elif target == "standard":
            self.connection = connect(self.path)
            self.connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE counted (n)")
        elif target != "path":
            self.connection = apsw.Connection(str(self.path))
            self.connection.pragma("journal_mode", "wal")
            self.connection.pragma("synchronous", "off")
        Index(self.connection or self.path, **given, **({} if self.connection else {"durability": "normal"})).close()
        self.indexes = [self._opened(0), self._opened(1)]

    def _opened(self, who: int) -> Index:
        if self.connection is not None and self.place(who) == 0:
            return Index(self.connection)
        return Index(self.path, durability="normal", timeout=0.2)

    def place(self, who: int) -> int:
        """Which connection an Index object uses."""
        return who if self.history.target in ("path", "mixed") else 0

    def close(self) -> None:
        """Close everything."""
        for index in self.indexes:
            index.close()
        if self.connection is not None:
            self.connection.close()

    def view(self, who: int) -> State:
        """What an Index object has to see."""
        place = self.place(who)
        return self.open.get(place) or self.pinned.get(place) or self.committed

    def may_write(self, who: int) -> bool:
        """Whether the file is free, so that nobody waits."""
        place = self.place(who)
        return not any(one != place for one in self.open) and place not in self.pinned

    def same(self, kind: str, found: Any, expected: Any) -> None:
        """One comparison."""
        self.counts.comparisons += 1
        if found != expected:
            raise Difference(kind, f"\n    index: {found!r}\n    model: {expected!r}")

    def when(self, offset: int | None) -> float | None:
        """Unix seconds."""
        return None if offset is None else (CLOCK.now + offset) / 1000

    def moment(self, offset: int | None) -> int | None:
        """Milliseconds, as the file has them."""
        return None if offset is None else CLOCK.now + offset

    # ---- asking ------------------------------------------------------------------------------------------------------

    def ask(self, who: int) -> Callable[..., Any]:
        """`query` or `query_code`."""
        return self.indexes[who].query_code if self.codes else self.indexes[who].query

    def ask_many(self, who: int) -> Callable[..., Any]:
        """`query_many` or `query_codes`."""
        return self.indexes[who].query_codes if self.codes else self.indexes[who].query_many

    def do_query(self, who: int, content: Any, group: Any, limit: int | None = None, share: float | None = None) -> None:
        """One question, with a share for containment where the scheme tells it; then for any of the same matches."""
        model = self.view(who).visible(CLOCK.now)
        how: dict[str, Any] = {"group": group, "limit": limit}
        if share is None or model.case.contains is None:
            expected = model.matches(content, group)
        else:
            expected = model.containing(content, share, group)
            how |= {"measure": "containment", "threshold": share}
        found = self.ask(who)(content, **how)
        self.same("query", tuples(found), expected[:limit])
        if self.parts:
            self.same_parts(content, found, model)
        several = [tuples(found) for found in self.ask_many(who)([content] * 4, **how)]
        self.same("query many", several, [expected[:limit]] * 4)
        some = tuples(self.ask(who)(content, any=True, **how))
        self.same("query any", (len(some), set(some) <= set(expected)), (len(expected[:limit]), True))
        index, n = self.indexes[who], 3 if limit is None else limit
        groups = {one.group for one in model.entries.values()}
        if model.case.order is not None:
            nearest = index.nearest_code if self.codes else index.nearest
            self.same("nearest", tuples(nearest(content, n, group=group)), model.nearest(content, n, group))
            near = [match for one in groups for match in model.nearest(content, n, one)]
            near.sort(key=lambda one: (-one[1] if one[2] is None else one[2], model.entries[one[0]].number))
            self.same("nearest of all groups", tuples(nearest(content, n, group=ANY_GROUP)), near[:n])
        every = [match for one in groups for match in model.matches(content, one)]
        every.sort(key=lambda match: (-match[1], model.entries[match[0]].number))
        self.same("query all groups", tuples(self.ask(who)(content, group=ANY_GROUP)), every)
        count = index.count_code if self.codes else index.count
        self.same("count", count(content, group=ANY_GROUP).count, len(every))
        self.same("count of a group", count(content, group=group).count, len(model.matches(content, group)))

    def same_parts(self, content: Any, found: Any, model: Model) -> None:
        """Each match names a code that is as near as it says."""
        asked = self.cases[0].prepare(content)
        for match in found:
            code = parts_of(model.entries[match.key].content)[match.part]
            self.same("part", match.distance, min((int.from_bytes(code, "big") ^ one).bit_count() for one in asked))

    def do_contains(self, who: int, key: Any) -> None:
        """`in`, and what a query for its text finds."""
        model = self.view(who).visible(CLOCK.now)
        self.same("in", key in self.indexes[who], key in model.entries)
        if key in model.entries:
            one = model.entries[key]
            for content in self.contents(one):
                self.do_query(who, content, one.group)

    def contents(self, entry: Any) -> list[Any]:
        """What can be asked for to find a document."""
        return [*parts_of(entry.content).values()] if self.parts else [entry.content]

    def do_pairs_with(self, who: int, contents: list[Any]) -> None:
        """Pairs with another index, asked by both."""
        model = self.view(who).visible(CLOCK.now)
        other = Model(model.case)
        rules = {} if self.codes else {"text": model.case.rules}
        with Index(":memory:", model.case.scheme, **rules) as second:
            for number, content in enumerate(contents):
                (second.add_code if self.codes else second.add)(number, content)
                other.put(number, content)
            index = self.indexes[who]
            found = [(one.key_a, one.key_b, one.similarity, one.distance) for one in index.pairs_with(second)]
            back = [(one.key_b, one.key_a, one.similarity, one.distance) for one in second.pairs_with(index)]
        expected = [
            (key, number, *verdict)
            for key, one in model.entries.items()
            for number, entry in other.entries.items()
            if one.group is None and one.prepared is not None and entry.prepared is not None
            and (verdict := model.case.compare(one.prepared, entry.prepared)) is not None
        ]  # fmt: skip
        self.same("pairs_with", sorted(found, key=repr), sorted(expected, key=repr))
        self.same("pairs_with, back", sorted(back, key=repr), sorted(expected, key=repr))

    def do_compare(self, who: int, part: str = "all") -> None:
        """Everything, or one part of it."""
        self.compare(who, part)

    def compare(self, who: int, part: str = "all") -> None:
        """What can be asked, by brute force; the whole of it ("all"), with check() each fifth time, or with it ("end")."""
        whole, self.compared = part in ("all", "end"), self.compared + (part == "all")
        index, state = self.indexes[who], self.view(who)
        model = state.visible(CLOCK.now)
        groups = sorted({one.group for one in model.entries.values()}, key=repr)[:1]  # of all groups the first
        if whole or part == "documents":
            self.same("documents", list(index), model.in_order())
            self.same("len", len(index), len(model.entries))
            if self.parts:
                codes = {key: list(index.get(key).codes.items()) for key in model.entries}
                self.same("codes", codes, {key: [*parts_of(one.content).items()] for key, one in model.entries.items()})
            if self.history.target == "standard":
                self.same("rows", self.connection.execute("SELECT count(*) FROM counted").fetchone(), (state.rows,))
        if whole or part == "queries":
            many: dict[Any, dict[Any, Any]] = {}
            asked = ((content, one.group) for one in state.entries.values() for content in self.contents(one))
            for number, (content, group) in enumerate(dict.fromkeys(asked)):
                expected = model.matches(content, group)
                self.same("query", tuples(self.ask(who)(content, group=group)), expected)
                if number < 3:
                    self.same("query limit", tuples(self.ask(who)(content, group=group, limit=1)), expected[:1])
                many.setdefault(group, {})[content] = expected
                if state.case.contains is not None:
                    found = tuples(index.query(content, group=group, measure="containment", threshold=0.5))
                    self.same("containment", found, model.containing(content, 0.5, group))
            for group, answers in many.items():
                found = [tuples(matches) for matches in self.ask_many(who)(list(answers), group=group)]
                self.same("query many", found, list(answers.values()))
        if whole or part == "matches":
            for number, key in enumerate(model.entries):
                expected = model.matches_of(key)
                self.same("matches", tuples(index.matches(key)), expected)
                if number < 3:
                    self.same("matches limit", tuples(index.matches(key, limit=1)), expected[:1])
                if state.case.contains is not None:
                    found = tuples(index.matches(key, measure="containment", threshold=0.5))
                    self.same("containment", found, model.matches_of(key, 0.5))
            self.same("dismissed", {frozenset(pair) for pair in index.dismissed()}, model.dismissed_keys())
        if whole or part == "pairs":
            pairs = [(one.key_a, one.key_b, one.similarity, one.distance) for one in index.pairs()]
            self.same("pairs", sorted(pairs, key=repr), sorted(model.pairs(), key=repr))
            for group in groups:
                of_group = [pair for pair in pairs if model.entries[pair[0]].group == group]
                found = [(one.key_a, one.key_b, one.similarity, one.distance) for one in index.pairs(group=group)]
                self.same("pairs of a group", sorted(found, key=repr), sorted(of_group, key=repr))
        if whole or part == "clusters":
            expected = model.clusters()
            self.same("clusters", [one.keys for one in index.clusters()], expected)
            for group in groups:
                of_group = [keys for keys in expected if model.entries[keys[0]].group == group]
                self.same("clusters of a group", [one.keys for one in index.clusters(group=group)], of_group)
            if self.history.record_matches:
                stats = index.stats()
                self.same("stats", (stats["documents"], stats["clusters"]), (len(model.entries), len(expected)))
        if part in ("end", "check") or part == "all" and self.compared % 5 == 0:
            self.same("check", index.check().problems, ())
