"""Several codes under one key: a document is in every answer once, with its best code."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import precondition, rule
from support import Model, case_of_parts, parts_of
from test_state_machine import EXPIRIES, GROUPS, KEYS, IndexMachine, StandardMachine, play, tuples

from neardup_db import BinaryCode, DuplicateKeyError, Index, Match, ParameterError

PARTS = st.sampled_from([None, None, "a", "b", 1, 2])
PAST = time.time() - 1000


@pytest.fixture
def index() -> Iterator[Index]:
    """Codes of 64 bits that differ in at most three."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        yield index


# ---- any history -------------------------------------------------------------------------------------------------------------


class PartMachine(IndexMachine):
    """Documents with one code and with several."""

    def put_code(self, key: Any, part: Any, code: bytes, group: Any, expires_at: Any) -> None:
        """What a code that was added, or took the place of another one, does to the model."""
        entry = self.model.entries.get(key)
        if entry is None or (part is None and not isinstance(entry.content, tuple)):
            self.model.put(key, code if part is None else ((part, code),), group, expires_at)
        else:
            content = tuple({**parts_of(entry.content), part: code}.items())
            expiry = entry.expires_at if expires_at is None else expires_at
            prepared = self.case.prepare(content)
            self.model.entries[key] = replace(entry, content=content, prepared=prepared, expires_at=expiry)

    def fate(self, key: Any, part: Any, group: Any, if_exists: str) -> Any:
        """What becomes of a code: an error, or the report's word."""
        entry = self.model.entries.get(key)
        if entry is None:
            return "added"
        there = part in parts_of(entry.content)
        if there and if_exists != "replace":
            return DuplicateKeyError if if_exists == "error" else "ignored"
        whole = part is None and not isinstance(entry.content, tuple)
        return ParameterError if not whole and entry.group != group else "replaced" if there else "added"

    def same(self, found: list[Match], content: Any, expected: list[tuple[Any, ...]]) -> None:
        """The matches are those expected, and each names a code that is as near as it says."""
        assert tuples(found) == expected
        asked = self.case.prepare(content)
        for match in found:
            code = parts_of(self.model.entries[match.key].content)[match.part]
            assert min((int.from_bytes(code, "big") ^ one).bit_count() for one in asked) == match.distance

    @rule(
        data=st.data(), key=KEYS, part=PARTS, group=GROUPS, expires_at=EXPIRIES,
        if_exists=st.sampled_from(["error", "replace", "ignore"]),
    )  # fmt: skip
    def add(self, data: st.DataObject, key: Any, part: Any, group: Any, expires_at: Any, if_exists: str) -> None:
        code, fate = self.content(data), self.fate(key, part, group, if_exists)
        more = {"part": part, "group": group, "expires_at": expires_at, "if_exists": if_exists}
        if isinstance(fate, type):
            with pytest.raises(fate):
                self.index.add_code(key, code, **more)
        elif fate == "ignored":
            assert self.index.add_code(key, code, **more) == []
        else:
            expected = self.model.matches(code, group, without=key)[:10] if self.record_matches else []
            self.same(self.index.add_code(key, code, **more), code, expected)
            self.put_code(key, part, code, group, expires_at)

    @rule(data=st.data(), key=KEYS, part=PARTS)
    def add_to_its_group(self, data: st.DataObject, key: Any, part: Any) -> None:
        """A further code, or another one, of a document that is there."""
        if key in self.model.entries:
            code, group = self.content(data), self.model.entries[key].group
            expected = self.model.matches(code, group, without=key)[:10] if self.record_matches else []
            self.same(self.index.add_code(key, code, part=part, group=group, if_exists="replace"), code, expected)
            self.put_code(key, part, code, group, None)

    @rule(data=st.data(), key=KEYS, group=GROUPS)
    def add_invisible(self, data: st.DataObject, key: Any, group: Any) -> None:
        """A further code that brings an end that has passed takes the document along."""
        there = self.model.entries.pop(key, None)
        more = {} if there is None else {"group": there.group, "if_exists": "replace"}
        self.index.add_code(key, self.content(data), **{"group": group, **more}, part="z", expires_at=PAST)
        if there is None:
            self.model.skip()

    @rule(data=st.data(), key=KEYS, part=PARTS, group=GROUPS, replace=st.booleans())
    def add_if_new(self, data: st.DataObject, key: Any, part: Any, group: Any, replace: bool) -> None:
        code, if_exists = self.content(data), "replace" if replace else "error"
        fate = self.fate(key, part, group, if_exists)
        if isinstance(fate, type):
            with pytest.raises(fate):
                self.index.add_code_if_new(key, code, part=part, group=group, if_exists=if_exists)
            return
        expected = self.model.matches(code, group, without=key)[:10]
        self.same(self.index.add_code_if_new(key, code, part=part, group=group, if_exists=if_exists), code, expected)
        if not expected:
            self.put_code(key, part, code, group, None)

    @rule(data=st.data(), rows=st.lists(st.tuples(KEYS, PARTS, GROUPS), max_size=8), commit_every=st.sampled_from([None, 1, 3]))
    def add_many(self, data: st.DataObject, rows: list[Any], commit_every: int | None) -> None:
        """Codes of several keys, of which those are left out that have another group than their document."""
        codes = [self.content(data) for _ in rows]
        expected: list[tuple[Any, Any, Any]] = []
        for (key, part, group), code in zip(rows, codes, strict=True):
            fate = self.fate(key, part, group, "replace")
            found = self.model.matches(code, group, without=key) if self.record_matches else []
            if isinstance(fate, type):
                expected.append((key, "skipped", None))
                continue
            expected.append((key, fate, found[0] if found else None))
            self.put_code(key, part, code, group, None)
        told: list[tuple[Any, Any, Any]] = []
        report = self.index.add_codes(
            [row[0] for row in rows], codes, part=[row[1] for row in rows], group=[row[2] for row in rows], if_exists="replace",
            on_error="skip", commit_every=commit_every,
            on_outcome=lambda key, outcome, match: told.append((key, outcome, match if isinstance(match, Match) else None)),
        )  # fmt: skip
        assert [(key, outcome, match and tuples([match])[0]) for key, outcome, match in told] == expected
        counts = report.added, report.replaced, report.skipped, report.matched
        kinds = [outcome for _, outcome, _ in expected]
        assert counts[:3] == (kinds.count("added"), kinds.count("replaced"), kinds.count("skipped"))
        assert counts[3] == sum(match is not None for *_, match in expected)

    @precondition(lambda self: False)
    @rule()
    def add_codes_of_each(self) -> None:
        """`add_many` has it."""

    @rule(data=st.data(), key=KEYS)
    def rolled_back(self, data: st.DataObject, key: Any) -> None:
        """A part that a failed transaction added is not there."""
        group = self.model.entries[key].group if key in self.model.entries else None
        with pytest.raises(ZeroDivisionError), self.index.transaction():
            self.index.add_code(key, self.content(data), part="r", group=group, if_exists="replace")
            with self.index.transaction():
                self.index.keep_newest(1)
            raise ZeroDivisionError

    @rule(data=st.data(), group=GROUPS, limit=st.sampled_from([None, 0, 1, 2]))
    def query(self, data: st.DataObject, group: Any, limit: int | None) -> None:
        code = self.content(data)
        expected = self.model.matches(code, group)[:limit]
        self.same(self.index.query_code(code, group=group, limit=limit), code, expected)
        self.same(self.index.query_code(code, group=group, limit=limit, any=True), code, expected)
        for found in self.index.query_codes([code] * 40, group=group, limit=limit):
            self.same(found, code, expected)

    @rule(data=st.data(), group=GROUPS, n=st.integers(0, 20))
    def nearest(self, data: st.DataObject, group: Any, n: int) -> None:
        code = self.content(data)
        self.same(self.index.nearest(code, n, group=group), code, self.model.nearest(code, n, group))

    @rule(key=KEYS)
    def matches(self, key: Any) -> None:
        if key in self.model.entries:
            content = self.model.entries[key].content
            self.same(self.index.matches(key), content, self.model.matches_of(key))
            self.same(self.index.matches(key, limit=1), content, self.model.matches_of(key)[:1])

    @rule(key=KEYS)
    def codes_of_document(self, key: Any) -> None:
        """A document has all its codes, the first one first."""
        if key in self.model.entries:
            expected = parts_of(self.model.entries[key].content)
            document = self.index.get(key)
            assert list(document.codes.items()) == list(expected.items())
            assert document.code == next(iter(expected.values()))

    @rule(data=st.data(), keys=st.lists(KEYS, max_size=6, unique=True))
    def pairs_with(self, data: st.DataObject, keys: list[Any]) -> None:
        """Pairs with another index, whose documents have several codes too, come once."""
        other = Model(self.case)
        with Index(":memory:", self.case.scheme, text=self.case.rules) as second:
            for number, key in enumerate(keys):
                codes = [self.content(data) for _ in range(1 + number % 3)]
                second.add_codes([key] * len(codes), codes, part=range(len(codes)))
                other.put(key, tuple(enumerate(codes)))
            found = [(pair.key_a, pair.key_b, pair.similarity, pair.distance) for pair in self.index.pairs_with(second)]
            back = [(pair.key_b, pair.key_a, pair.similarity, pair.distance) for pair in second.pairs_with(self.index)]
        expected = [
            (a, b, *verdict)
            for a, x in self.model.entries.items()
            for b, y in other.entries.items()
            if x.group is None and (verdict := self.case.compare(x.prepared, y.prepared)) is not None
        ]
        assert sorted(found, key=repr) == sorted(back, key=repr) == sorted(expected, key=repr)


class StandardPartMachine(PartMachine, StandardMachine):
    """The same on a connection of the standard library."""

    @precondition(lambda self: False)
    @rule()
    def in_the_applications_transaction(self) -> None:
        """`StandardMachine` has it."""


CASES = {
    "blocks": case_of_parts(BinaryCode(bits=64, max_distance=3)),
    "chunks": case_of_parts(BinaryCode(bits=64, max_distance=5)),
    "wide": case_of_parts(BinaryCode(bits=256, max_distance=20)),
    "scan": case_of_parts(BinaryCode(bits=64, max_distance=20)),
}


@pytest.mark.parametrize("record_matches", [True, False], ids=["recorded", "unrecorded"])
@pytest.mark.parametrize("name", CASES)
def test_any_history(name: str, record_matches: bool, more_rounds: bool) -> None:
    """Answers, pairs, clusters and check() are those of brute force over all codes of all documents."""
    play(PartMachine, CASES[name], 40 if more_rounds else 8, record_matches=record_matches)


@pytest.mark.usefixtures("small_limits")
def test_any_history_with_tiny_limits(more_rounds: bool) -> None:
    """The same where all work is cut."""
    play(PartMachine, CASES["chunks"], 40 if more_rounds else 8)


def test_any_history_in_a_window(more_rounds: bool) -> None:
    """The same where only the last few documents stay; a further code makes no document newer."""
    play(PartMachine, CASES["blocks"], 40 if more_rounds else 8, window=5)


def test_any_history_on_a_connection_of_the_applications(more_rounds: bool) -> None:
    """The same on a connection of Python's sqlite3 module."""
    play(StandardPartMachine, CASES["blocks"], 25 if more_rounds else 4)
