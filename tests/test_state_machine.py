"""Any history of an index leaves what a plain dictionary with brute force has."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from standard import connect
from support import CASES, Case, Model

from neardup_db import ANY_GROUP, Changes, DuplicateKeyError, Index, KeyNotFoundError, MismatchError, ParameterError

KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f", b"a", 1, "1", 2, 3, 4])
GROUPS = st.sampled_from([None, None, None, "g", 7])
NOW = round(time.time(), 3)
"""As a file has it, to the millisecond."""
PAST = NOW - 1000
EXPIRIES = st.sampled_from([None, None, NOW + 10_000, NOW + 20_000, NOW + 30_000])
SHARES = st.sampled_from([None, 1.0, 0.8, 3 / 4, 2 / 3, 0.5, 1 / 3, 0.001])
TEXTS = st.lists(st.sampled_from(["oak", "elm", "ash", "fir", "yew", "box", "bay"]), min_size=0, max_size=7).map(" ".join)
BASES = [bytes(32), bytes([255] * 32), bytes(range(32))]


@st.composite
def codes(draw: st.DrawFn, size: int) -> bytes:
    """Codes that differ from one of a few bases in a few bits, often in neighbouring ones."""
    code = bytearray(draw(st.sampled_from(BASES))[:size])
    for bit in draw(st.lists(st.integers(0, min(size * 8, 40) - 1), max_size=12)):
        code[bit // 8] ^= 128 >> bit % 8
    return bytes(code)


class IndexMachine(RuleBasedStateMachine):
    """The real index and the model, side by side."""

    case: Case
    record_matches = True
    window: int | None = None
    is_timed = False
    """Whether the window is a time, after which the model has to let documents go: not every rule tells it when."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        self.path = Path(self.folder.name) / "index.db"
        self.model = Model(self.case, self.window)
        self.token: str | None = None
        self.followed: dict[Any, int | None] = {}
        self.rebuilt = False
        self.index = Index(
            self.target(),
            self.case.scheme,
            text=self.case.rules,
            store_text=self.case.store_text,
            record_matches=self.record_matches,
            window=self.window,
            durability="normal",
        )

    def target(self) -> Any:
        """What the index is opened with."""
        return self.path

    def teardown(self) -> None:
        if hasattr(self, "index"):
            assert self.index.check().problems == ()
            self.index.close()
            self.folder.cleanup()

    def content(self, data: st.DataObject) -> Any:
        return data.draw(codes(self.case.scheme.bits // 8) if self.case.codes else TEXTS, label="content")

    def put(self, key: Any, content: Any, **more: Any) -> list[tuple[Any, ...]]:
        add = self.index.add_code if self.case.codes else self.index.add
        return tuples(add(key, content, **more))

    # ---- rules ---------------------------------------------------------------------------------------------------

    @rule(data=st.data(), key=KEYS, group=GROUPS, expires_at=EXPIRIES, if_exists=st.sampled_from(["error", "replace", "ignore"]))
    def add(self, data: st.DataObject, key: Any, group: Any, expires_at: Any, if_exists: str) -> None:
        content = self.content(data)
        more = {"group": group, "expires_at": expires_at, "if_exists": if_exists}
        if self.model.refuses(key, group, if_exists):
            with pytest.raises(DuplicateKeyError):
                self.put(key, content, **more)
        elif key in self.model.entries and if_exists == "ignore":
            assert self.put(key, content, **more) == []
        else:
            expected = self.model.matches(content, group, without=key)[:10] if self.record_matches else []
            assert self.put(key, content, **more) == expected
            self.model.put(key, content, group, expires_at)

    @rule(data=st.data(), key=KEYS, group=GROUPS)
    def add_invisible(self, data: st.DataObject, key: Any, group: Any) -> None:
        """A document that has expired already is stored, and nobody sees it."""
        if self.model.refuses(key, group, "replace"):
            return
        self.put(key, self.content(data), group=group, expires_at=PAST, if_exists="replace")
        self.model.entries.pop(key, None)
        self.model.skip()

    @rule(data=st.data(), key=KEYS, group=GROUPS, replace=st.booleans())
    def add_if_new(self, data: st.DataObject, key: Any, group: Any, replace: bool) -> None:
        content = self.content(data)
        add_if_new = self.index.add_code_if_new if self.case.codes else self.index.add_if_new
        if self.model.refuses(key, group, "replace" if replace else "error"):
            with pytest.raises(DuplicateKeyError):
                add_if_new(key, content, group=group, if_exists="replace" if replace else "error")
            return
        expected = self.model.matches(content, group, without=key)[:10]
        found = add_if_new(key, content, group=group, if_exists="replace" if replace else "error")
        assert tuples(found) == expected
        if not expected:
            self.model.put(key, content, group)

    @rule(data=st.data(), keys=st.lists(KEYS, max_size=8), group=GROUPS, only_new=st.booleans())
    def add_many(self, data: st.DataObject, keys: list[Any], group: Any, only_new: bool) -> None:
        contents = [self.content(data) for _ in keys]
        stored = matched = refused = 0
        for key, content in zip(keys, contents, strict=True):
            if self.model.refuses(key, group, "replace"):
                refused += 1
                continue
            found = self.model.matches(content, group, without=key)
            matched += bool(found) and (self.record_matches or only_new)
            if not (only_new and found):
                self.model.put(key, content, group)
                stored += 1
        if self.case.codes:
            report = self.index.add_codes(keys, contents, group=group, if_exists="replace", only_new=only_new, on_error="skip")
        else:
            records = [{"key": k, "text": c, "group": group} for k, c in zip(keys, contents, strict=True)]
            report = self.index.add_many(records, if_exists="replace", only_new=only_new, commit_every=3, on_error="skip")
        assert (report.total, report.matched, report.skipped) == (stored, matched, refused)

    # In a window keys that are there may have left when their turn comes.
    @precondition(lambda self: self.window is None and not self.is_timed)
    @rule(
        data=st.data(),
        keys=st.lists(KEYS, max_size=8, unique=True),
        group=GROUPS,
        if_exists=st.sampled_from(["error", "replace", "ignore"]),
        commit_every=st.sampled_from([None, 1, 3]),
    )
    def merge(self, data: st.DataObject, keys: list[Any], group: Any, if_exists: str, commit_every: int | None) -> None:
        """Documents of another index, one in four of which has expired there."""
        given: dict[Any, Any] = {}
        with Index(":memory:", self.case.scheme, text=self.case.rules, store_text=self.case.store_text) as other:
            for number, key in enumerate(keys):
                content, is_gone = self.content(data), number % 4 == 3
                add = other.add_code if self.case.codes else other.add
                add(key, content, group=group, expires_at=PAST if is_gone else None)
                if not is_gone:
                    given[key] = content
            there = [key for key in given if key in self.model.entries]
            if any(self.model.refuses(key, group, if_exists) for key in given):
                with pytest.raises(DuplicateKeyError):
                    self.index.merge(other, if_exists=if_exists)
                return
            report = self.index.merge(other, if_exists=if_exists, commit_every=commit_every)
        matched = 0
        for key, content in given.items():
            if key not in there or if_exists == "replace":
                matched += bool(self.model.matches(content, group, without=key)) and self.record_matches
                self.model.put(key, content, group)
        kept = len(there) if if_exists == "ignore" else 0
        found = report.added, report.replaced, report.ignored, report.matched
        assert found == (len(given) - len(there), len(there) - kept, kept, matched)

    @precondition(lambda self: self.case.codes and not self.is_timed)
    @rule(data=st.data(), keys=st.lists(KEYS, max_size=8))
    def add_codes_of_each(self, data: st.DataObject, keys: list[Any]) -> None:
        """Codes with a group and an expiry of their own."""
        contents = [self.content(data) for _ in keys]
        groups, expiries = ([data.draw(values) for _ in keys] for values in (GROUPS, EXPIRIES))
        refused = 0
        for key, content, group, expiry in zip(keys, contents, groups, expiries, strict=True):
            if self.model.refuses(key, group, "replace"):
                refused += 1
            else:
                self.model.put(key, content, group, expiry)
        more = {"group": groups, "expires_at": expiries}
        report = self.index.add_codes(keys, contents, **more, if_exists="replace", on_error="skip")
        assert (report.total, report.skipped) == (len(keys) - refused, refused)

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        assert self.index.delete(key) == (self.model.entries.pop(key, None) is not None)

    @rule(keys=st.lists(KEYS, max_size=5))
    def delete_many(self, keys: list[Any]) -> None:
        there = {key for key in keys if key in self.model.entries}
        assert self.index.delete_many(keys) == len(there)
        for key in there:
            del self.model.entries[key]

    @rule(key=KEYS, group=GROUPS, clear=st.booleans())
    def of_a_group(self, key: Any, group: Any, clear: bool) -> None:
        """The document of a key, if it is of the group, else none."""
        is_there = self.model.has(key, group)
        assert [one is not None for one in self.index.get_many([key], group=group)] == [is_there]
        if is_there:
            assert self.index.get(key, group=group).group == group
            self.index.update(key, metadata={"n": 1}, group=group)
        else:
            with pytest.raises(KeyNotFoundError):
                self.index.update(key, metadata={"n": 1}, group=group)
        if clear:
            assert self.index.delete(key, group=group) == is_there
            if is_there:
                del self.model.entries[key]

    @rule(group=st.sampled_from([None, "g", 7, "none such"]))
    def delete_group(self, group: Any) -> None:
        assert self.index.delete_group(group) == self.model.delete_group(group)

    @rule(moment=st.sampled_from([NOW + 10_000, NOW + 20_000, NOW + 30_000]))
    def expire(self, moment: float) -> None:
        gone = [k for k, entry in self.model.entries.items() if entry.expires_at is not None and entry.expires_at <= moment]
        assert self.index.expire(moment) >= len(gone)
        for key in gone:
            del self.model.entries[key]

    @rule(n=st.integers(0, 8))
    def keep_newest(self, n: int) -> None:
        gone = self.model.in_order()[: max(0, len(self.model.entries) - n)]
        assert self.index.keep_newest(n) == len(gone)
        for key in gone:
            del self.model.entries[key]

    @rule(data=st.data(), group=GROUPS, limit=st.sampled_from([None, 0, 1, 2]))
    def query(self, data: st.DataObject, group: Any, limit: int | None) -> None:
        content = self.content(data)
        query = self.index.query_code if self.case.codes else self.index.query
        expected = self.model.matches(content, group)
        assert tuples(query(content, group=group, limit=limit)) == expected[:limit]
        some = tuples(query(content, group=group, limit=limit, any=True))
        assert len(some) == len(expected[:limit])
        assert set(some) <= set(expected)

    @precondition(lambda self: self.case.order is not None)
    @rule(data=st.data(), group=GROUPS, n=st.integers(0, 20))
    def nearest(self, data: st.DataObject, group: Any, n: int) -> None:
        content = self.content(data)
        nearest = self.index.nearest_code if self.case.codes else self.index.nearest
        assert tuples(nearest(content, n, group=group)) == self.model.nearest(content, n, group)

    @precondition(lambda self: self.case.contains is not None)
    @rule(data=st.data(), group=GROUPS, limit=st.sampled_from([None, 0, 1, 2]), share=SHARES)
    def query_containment(self, data: st.DataObject, group: Any, limit: int | None, share: float | None) -> None:
        content = self.content(data)
        how = {"measure": "containment", "threshold": share, "group": group, "limit": limit}
        expected = self.model.containing(content, 0.8 if share is None else share, group)
        assert tuples(self.index.query(content, **how)) == expected[:limit]
        some = tuples(self.index.query(content, **how, any=True))
        assert len(some) == len(expected[:limit])
        assert set(some) <= set(expected)

    @precondition(lambda self: self.case.contains is not None)
    @rule(key=KEYS, share=SHARES)
    def matches_containment(self, key: Any, share: float | None) -> None:
        entry = self.model.entries.get(key)
        if entry is not None:
            expected = self.model.matches_of(key, 0.8 if share is None else share)
            assert tuples(self.index.matches(key, measure="containment", threshold=share)) == expected

    @rule(group=st.sampled_from([None, "g", 7, "none such"]))
    def listed_by_group(self, group: Any) -> None:
        """Pairs and clusters of a group are those of its documents."""
        entries = self.model.entries
        pairs = {one for one in self.model.pairs() if entries[one[0]].group == group}
        assert {(p.key_a, p.key_b, p.similarity, p.distance) for p in self.index.pairs(group=group)} == pairs
        clusters = [one for one in self.model.clusters() if entries[one[0]].group == group]
        assert [one.keys for one in self.index.clusters(group=group)] == clusters

    @precondition(lambda self: self.case.order is not None)
    @rule(data=st.data(), n=st.integers(0, 20))
    def nearest_of_all(self, data: st.DataObject, n: int) -> None:
        """The nearest of all groups are the best of those of each."""
        content = self.content(data)
        found = [match for group in (None, "g", 7) for match in self.model.nearest(content, n, group)]
        found.sort(key=lambda one: (-one[1] if one[2] is None else one[2], self.model.entries[one[0]].number))
        nearest = self.index.nearest_code if self.case.codes else self.index.nearest
        assert tuples(nearest(content, n, group=ANY_GROUP)) == found[:n]

    @rule(data=st.data())
    def across_groups(self, data: st.DataObject) -> None:
        """The answer of all groups, and how many they are, is that of each group together."""
        content = self.content(data)
        query = self.index.query_code if self.case.codes else self.index.query
        count = self.index.count_code if self.case.codes else self.index.count
        expected = [match for group in (None, "g", 7) for match in self.model.matches(content, group)]
        expected.sort(key=lambda match: (-match[1], self.model.entries[match[0]].number))
        assert tuples(query(content, group=ANY_GROUP)) == expected
        assert count(content, group=ANY_GROUP).count == len(expected)
        assert count(content).count == len(self.model.matches(content))

    @precondition(lambda self: self.window is not None)
    @rule(window=st.integers(1, 6))
    def set_window(self, window: int) -> None:
        self.index.set_window(window)
        self.model.window = window
        self.model.let_leave()

    @rule(key=KEYS)
    def matches(self, key: Any) -> None:
        if key not in self.model.entries:
            with pytest.raises(KeyNotFoundError):
                self.index.matches(key)
        else:
            assert tuples(self.index.matches(key)) == self.model.matches_of(key)
            assert tuples(self.index.matches(key, limit=1)) == self.model.matches_of(key)[:1]

    @rule(keys=st.lists(KEYS, min_size=2, max_size=2, unique_by=repr), back=st.booleans())
    def dismiss(self, keys: list[Any], back: bool) -> None:
        """A person's word, or taking it back."""
        decide = self.index.undismiss if back else self.index.dismiss
        if {*keys} <= self.model.entries.keys():
            assert decide(*keys) == (self.model.undismiss if back else self.model.dismiss)(*keys)
            assert self.index.explain_match(*keys).dismissed != back
        else:
            with pytest.raises(KeyNotFoundError):
                decide(*keys)
        assert {frozenset(pair) for pair in self.index.dismissed()} == self.model.dismissed_keys()

    @rule(key=KEYS, back=st.booleans())
    def dismiss_all(self, key: Any, back: bool) -> None:
        """A document that is said to be no duplicate of any, or taking that back."""
        decide = self.index.undismiss if back else self.index.dismiss
        if key in self.model.entries:
            assert decide(key) == (self.model.undismiss_all if back else self.model.dismiss_all)(key)
        else:
            with pytest.raises(KeyNotFoundError):
                decide(key)
        assert {frozenset(pair) for pair in self.index.dismissed()} == self.model.dismissed_keys()

    @precondition(lambda self: not self.case.codes)
    @rule(content=TEXTS, by_key=st.none() | KEYS, back=st.booleans())
    def allow(self, content: str, by_key: Any, back: bool) -> None:
        """A text, or that of a document, is allowed, or withdrawn."""
        if by_key in self.model.entries:
            content, how = self.model.entries[by_key].content, {"key": by_key}
        else:
            how = {"text": content}
        if back:
            assert self.index.disallow(**how) == self.model.disallow(content)
        else:
            expected = self.model.allow(content)
            if expected is None:
                with pytest.raises(ParameterError, match="no shingle"):
                    self.index.allow(**how)
            else:
                assert self.index.allow(**how) == expected
        assert len(self.index.allowed()) == len(self.model.allowed)

    def told(self, page: Changes) -> None:
        """A page of changes."""
        assert not page.codes

    @rule(limit=st.sampled_from([1, 3, 1000]))
    def follow(self, limit: int) -> None:
        """Another system that follows the index has its documents with the numbers of their clusters."""
        while True:
            try:
                page = self.index.changes(self.token, limit=limit)
            except MismatchError as error:
                assert self.rebuilt or "changes are kept" in str(error), "only a rebuild ends a history as short as this"
                self.rebuilt, self.token, self.followed = False, None, {}
                continue
            assert len(page.removed) + len(page.added) <= limit
            for key in page.removed:
                del self.followed[key]
            self.followed |= dict.fromkeys(page.added)
            assert {key for key, _ in page.clusters} <= self.followed.keys()
            self.followed |= dict(page.clusters)
            self.told(page)
            self.token = page.token
            if not page.more:
                break
        rows = self.index.connection.execute("SELECT key, cluster_id FROM neardup_document").fetchall()
        assert self.followed == dict(rows)

    @rule(data=st.data(), key=KEYS)
    def rolled_back(self, data: st.DataObject, key: Any) -> None:
        """What a failed transaction did has not happened."""
        with pytest.raises((ZeroDivisionError, DuplicateKeyError)), self.index.transaction():
            self.put(key, self.content(data), if_exists="replace")
            with self.index.transaction():
                self.index.keep_newest(1)
            raise ZeroDivisionError

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = Index(self.target())

    @rule()
    def rebuild(self) -> None:
        self.index.rebuild()
        self.rebuilt = True

    # ---- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def same_documents(self) -> None:
        if hasattr(self, "index"):
            assert list(self.index) == self.model.in_order()
            assert len(self.index) == len(self.model.entries)

    @invariant()
    def same_pairs_and_clusters(self) -> None:
        if hasattr(self, "index"):
            assert {(p.key_a, p.key_b, p.similarity, p.distance) for p in self.index.pairs()} == self.model.pairs()
            assert [one.keys for one in self.index.clusters()] == self.model.clusters()

    @invariant()
    def sound(self) -> None:
        """After every fifth step: damage stays, and check() costs more than a step."""
        self.steps = getattr(self, "steps", 0) + 1
        if hasattr(self, "index") and self.steps % 5 == 0:
            assert self.index.check().problems == ()


class StandardMachine(IndexMachine):
    """The same on a connection of Python's sqlite3 module, or of pysqlite3, with a table of the application's in step."""

    def target(self) -> Any:
        if hasattr(self, "app"):
            self.app.close()
        self.app = connect(self.path)
        self.app.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS counted (n)")
        self.counted: int = getattr(self, "counted", 0)
        return self.app

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "app"):
            self.app.close()

    @rule(data=st.data(), key=KEYS, group=GROUPS, end=st.sampled_from(["commit", "rollback", "savepoint"]))
    def in_the_applications_transaction(self, data: st.DataObject, key: Any, group: Any, end: str) -> None:
        """What was written in a transaction of the application's is there, or is not, with its own row."""
        if self.model.refuses(key, group, "replace"):
            return
        content = self.content(data)
        self.app.execute("INSERT INTO counted VALUES (1)")
        if end == "savepoint":
            self.app.execute("SAVEPOINT s")
        expected = self.model.matches(content, group, without=key)[:10] if self.record_matches else []
        assert self.put(key, content, group=group, if_exists="replace") == expected
        if end == "savepoint":
            self.index.keep_newest(0)
            self.app.execute("INSERT INTO counted VALUES (1)")
            self.app.execute("ROLLBACK TO s")
            self.app.execute("RELEASE s")
        elif end == "commit":
            self.model.put(key, content, group)
        if end == "rollback":
            self.app.rollback()
        else:
            self.app.commit()
            self.counted += 1

    @invariant()
    def same_rows_of_the_applications(self) -> None:
        if hasattr(self, "index"):
            assert self.app.execute("SELECT count(*) FROM counted").fetchone() == (self.counted,)
            assert not self.app.in_transaction


def tuples(matches: Any) -> list[tuple[Any, ...]]:
    return [(one.key, one.similarity, one.distance) for one in matches]


@pytest.mark.parametrize("record_matches", [True, False], ids=["recorded", "unrecorded"])
@pytest.mark.parametrize("name", CASES)
def test_any_history(name: str, record_matches: bool, more_rounds: bool) -> None:
    """Answers, pairs, clusters and check() after any history equal those of a fresh build of the survivors."""
    play(IndexMachine, CASES[name], 25 if more_rounds else 4 if record_matches else 2, record_matches=record_matches)


@pytest.mark.parametrize("record_matches", [True, False], ids=["recorded", "unrecorded"])
@pytest.mark.parametrize("name", CASES)
def test_any_history_on_a_connection_of_the_applications(name: str, record_matches: bool, more_rounds: bool) -> None:
    """The same on a connection of the standard library, inside and outside of the application's own transactions."""
    play(StandardMachine, CASES[name], 25 if more_rounds else 2 if record_matches else 1, record_matches=record_matches)


@pytest.mark.parametrize("name", CASES)
def test_any_history_in_a_window(name: str, more_rounds: bool) -> None:
    """The same where only the last few documents stay, and the window changes."""
    play(IndexMachine, CASES[name], 25 if more_rounds else 3, window=5)


@pytest.mark.parametrize("name", ["minhash", "binarycode"])
@pytest.mark.usefixtures("small_limits")
def test_any_history_in_a_window_with_tiny_limits(name: str, more_rounds: bool) -> None:
    """The same where all work is cut: batches, segments, crowds, and what leaves with each document."""
    play(IndexMachine, CASES[name], 25 if more_rounds else 4, window=5)


def play(kind: type[IndexMachine], case: Case, examples: int, **options: Any) -> None:
    """Play so many histories."""
    machine = type("Machine", (kind,), {"case": case, **options})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
