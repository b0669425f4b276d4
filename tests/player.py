"""Plays a history on an index and, beside it, on the model. `Difference` where they part."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from compared import Compared, window_of
from history_model import CLOCK, Counts, Difference, History, Operation, Raised, State
from loads import Load
from support import Case, Model, tuples

from neardup_db import DuplicateKeyError, Index, KeyNotFoundError, MismatchError, NearDupError, ParameterError, limits

_WRITES = {
    "add", "add_if_new", "add_many", "delete", "delete_group", "delete_part", "update", "expire", "keep_newest", "transaction",
    "merge", "dismiss", "allow",
}  # fmt: skip


class Player(Compared):
    """Plays the operations of a history on the index and on the model."""

    def play(self) -> None:
        """All operations, and a comparison by both in the end, where they have two connections, also of every invariant."""
        last = {"part": "end" if self.place(1) else "documents"}
        self.run([*self.history.operations, ("compare", 1, {"part": "end"}), ("compare", 0, last)])

    def run(self, operations: Iterable[Operation]) -> None:
        """One after another. Difference for any error that the model does not expect."""
        for name, who, arguments in operations:
            if self.loading not in (-1, who):
                continue
            self.counts.operations[name] += 1
            if self.loading >= 0 and name in _WRITES:
                self.refused(who)
                continue
            try:
                getattr(self, f"do_{name}")(who, **arguments)
            except (Difference, Raised):
                raise
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{name} raised {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
                raise Difference(f"error {type(error).__name__}", what) from error

    def refused(self, who: int) -> None:
        """Where a load reads its records, nothing is written by their iterator or by progress=."""
        try:
            with self.indexes[who].transaction():
                pass
        except NearDupError as error:
            if "loading records" in str(error):
                return
            raise
        if not self.codes:  # add_codes may read keys and codes before it begins
            raise Difference("refusal", "a write from inside add_many")

    # ---- single documents --------------------------------------------------------------------------------------------

    def put(
        self, state: State, record: Any, if_exists: str, only_new: bool, part: Any = None, whole: bool = False
    ) -> tuple[str, list[Any]]:
        """What becomes of one record, and its matches among the earlier ones; KeyError where the key is there, or is of another
        group. whole: it is all of its document."""
        key, content, group, expires_at = record
        model = state.visible(CLOCK.now)
        if self.parts and not whole:
            return self._put_code(state, model, record, if_exists, only_new, part)
        there = key in model.entries
        if model.refuses(key, group, if_exists):
            raise KeyError(key)
        if there and if_exists == "ignore":
            return "ignored", []
        found = model.matches(content, group, without=key) if self.history.record_matches or only_new else []
        if only_new and found:
            return "matched", found
        state.put(key, content, group, expires_at)
        return "replaced" if there else "added", found

    def _put_code(
        self, state: State, model: Model, record: Any, if_exists: str, only_new: bool, part: Any
    ) -> tuple[str, list[Any]]:
        key, content, group, expires_at = record
        fate = model.fate(key, part, group, if_exists)
        if isinstance(fate, type):
            raise KeyError(key)
        if fate == "ignored":
            return fate, []
        found = model.matches(content, group, without=key) if self.history.record_matches or only_new else []
        if only_new and found:
            return "matched", found
        if key not in model.entries:
            state.entries.pop(key, None)
        state.put_code(key, part, content, group, expires_at)
        return fate, found

    def do_add_if_new(self, who: int, touch: bool, **record: Any) -> None:
        """`add_if_new`, or `add_code_if_new`."""
        if not self.codes or self.parts:
            self.do_add(who, **record, only_new=True, touch="touch" if touch else None)

    def do_add(
        self, who: int, key: Any, content: Any, group: Any, expires: int | None, if_exists: str, part: Any = None,
        only_new: bool = False, touch: str | None = None,
    ) -> None:  # fmt: skip
        """`add` or `add_code`."""
        if not self.may_write(who):
            return
        index, state = self.indexes[who], self.view(who)
        more = {"group": group, "expires_at": self.when(expires), "if_exists": if_exists}
        try:
            outcome, expected = self.put(state, (key, content, group, self.moment(expires)), if_exists, only_new, part)
        except KeyError:
            outcome, expected = "error", []
        try:
            if part is not None:
                more["part"] = part
            if only_new:
                found = (index.add_code_if_new if self.codes else index.add_if_new)(key, content, on_match=touch, **more)
            else:
                found = (index.add_code if self.codes else index.add)(key, content, **more)
        except (DuplicateKeyError, ParameterError):
            self.same("add", "error", outcome)
        else:
            self._same_answer(tuples(found), expected if outcome != "error" else "error", state.case)
            if outcome == "matched" and touch and expires is not None:
                best = found[0].key
                state.own[state.entries[best].number] = self.moment(expires)
                until = state.until(state.entries[best].number, self.moment(expires))
                state.entries[best] = replace(state.entries[best], expires_at=until)

    def _same_answer(self, found: list[Any], expected: Any, case: Case) -> None:
        """The ten best; of a large cluster, where its rows stand apart, some."""
        if case.scheme.table != "code_bucket" and expected != "error":
            few = [one for one in expected if one in found]
            expected = few if few and len(expected) >= limits.CROWD else expected
        self.same("add", found, expected if expected == "error" else expected[:10])

    def do_delete(self, who: int, keys: list[Any]) -> None:
        """`delete_many`."""
        if self.may_write(who):
            state = self.view(who)
            expected = len(set(keys) & set(state.visible(CLOCK.now).entries))
            for key in keys:
                state.entries.pop(key, None)
            self.same("delete", self.indexes[who].delete_many(keys), expected)

    def do_delete_group(self, who: int, group: Any) -> None:
        """`delete_group`: expired documents go too, and are not counted."""
        if self.may_write(who):
            expected = self.view(who).visible(CLOCK.now).delete_group(group)
            self.view(who).delete_group(group)
            self.same("delete_group", self.indexes[who].delete_group(group), expected)

    def do_delete_part(self, who: int, key: Any, part: Any) -> None:
        """`delete` with a part: one code goes, and the document with its last one."""
        if self.may_write(who):
            state = self.view(who)
            there = key in state.visible(CLOCK.now).entries
            found = self.indexes[who].delete(key, part=part)
            self.same("delete part", found, state.delete_part(key, part) and there)

    def do_of_group(self, who: int, key: Any, group: Any) -> None:
        """The document of a key, if it is of the group, else none; then it goes."""
        if not self.may_write(who) or self.loading >= 0:
            return
        index, state = self.indexes[who], self.view(who)
        there = state.visible(CLOCK.now).has(key, group)
        self.same("get_many", [one is not None for one in index.get_many([key], group=group)], [there])
        try:
            index.update(key, metadata={"n": 1}, group=group)
            self.same("get", (index.get(key, group=group).group, there), (group, True))
        except KeyNotFoundError:
            self.same("update", False, there)
        self.same("delete of a group", index.delete(key, group=group), there)
        if there:
            del state.entries[key]

    def do_window(self, who: int, window: float) -> None:
        """`set_window`: of documents or of time, as the file has it."""
        if self.history.window is None or self.open or self.pinned or self.loading >= 0:
            return
        window = float(window) if isinstance(self.history.window, float) else window
        self.indexes[who].set_window(window_of(window))
        if isinstance(window, float):
            self.committed.set_duration(round(window * 1000))
        else:
            self.committed.window = window
            self.committed.let_leave()

    def do_dismiss(self, who: int, a: Any, b: Any, back: bool) -> None:
        """`dismiss` or `undismiss`; of one document alone where b is None."""
        if not self.may_write(who) or a == b:
            return
        state, index = self.view(who), self.indexes[who]
        keys = [a] if b is None else [a, b]
        visible = state.visible(CLOCK.now)
        expected: Any = "missing"
        if {*keys} <= set(visible.entries) and b is not None:
            expected = (state.undismiss if back else state.dismiss)(*keys)
        elif {*keys} <= set(visible.entries):
            expected = (visible.undismiss_all if back else visible.dismiss_all)(a)
            (state.undismiss_all if back else state.dismiss_all)(a)
        try:
            found: Any = (index.undismiss if back else index.dismiss)(*keys)
        except KeyNotFoundError:
            found = "missing"
        self.same("dismiss", found, expected)

    def do_allow(self, who: int, content: str, key: Any, back: bool) -> None:
        """`allow` or `disallow`, of a text or that of a document."""
        if not self.may_write(who):
            return
        state, index = self.view(who), self.indexes[who]
        visible = state.visible(CLOCK.now)
        there = visible.entries
        how = {"key": key} if key in there else {"text": content}
        content = there[key].content if key in there else content
        expected = state.disallow(content) if back else visible.allow(content)
        if not back:
            state.allow(content)
        try:
            found = (index.disallow if back else index.allow)(**how)
        except ParameterError:
            found = None
        self.same("allow", found, expected)
        self.same("allowed", len(index.allowed()), len(state.allowed))

    def do_follow(self, who: int, limit: int) -> None:
        """Another system, which follows the index by `changes`, asks on; after a rebuild it begins again. Outside of
        transactions: a token of one that is rolled back is worth nothing."""
        if self.open or self.pinned or self.loading >= 0:
            return
        index, more = self.indexes[who], True
        while more:
            try:
                page = index.changes(self.token, limit=limit)
            except MismatchError:
                self.token, self.followed = None, {}
                continue
            for key in page.removed:
                self.followed.pop(key, None)
                self.followed_codes.pop(key, None)
            self.followed |= {**dict.fromkeys(page.added), **dict(page.clusters)}
            for key in (*page.added, *page.codes):
                self.followed_codes[key] = dict(index.get(key).codes) if self.parts and key in index else None
            self.token, more = page.token, page.more
        rows = index.connection.execute("SELECT key, cluster_id FROM neardup_document").fetchall()
        self.same("follow", self.followed, dict(rows))
        for key, codes in self.followed_codes.items():
            if codes is not None and key in index:
                self.same("followed codes", codes, dict(index.get(key).codes))

    def do_update(self, who: int, key: Any, expires: int | None) -> None:
        """A document gets another end."""
        if self.may_write(who):
            state = self.view(who)
            there = key in state.visible(CLOCK.now).entries
            if there:
                state.own[state.entries[key].number] = self.moment(expires)
                until = state.until(state.entries[key].number, self.moment(expires))
                state.entries[key] = replace(state.entries[key], expires_at=until)
            try:
                self.indexes[who].update(key, expires_at=self.when(expires))
                found = True
            except KeyNotFoundError:
                found = False
            self.same("update", found, there)

    def do_expire(self, who: int, now: int | None) -> None:
        """By the clock, or by another moment."""
        if self.may_write(who):
            state, moment = self.view(who), CLOCK.now + (now or 0)
            gone = [key for key, one in state.entries.items() if one.expires_at is not None and one.expires_at <= moment]
            for key in gone:
                del state.entries[key]
            found = self.indexes[who].expire(self.when(now))
            if self.history.window is None:  # else additions have removed some of them
                self.same("expire", found, len(gone))

    def do_keep_newest(self, who: int, n: int) -> None:
        """`keep_newest`."""
        if self.may_write(who):
            state = self.view(who)
            gone = list(reversed(state.visible(CLOCK.now).in_order()))[n:]
            for key in gone:
                del state.entries[key]
            self.same("keep_newest", self.indexes[who].keep_newest(n), len(gone))

    def do_clock(self, who: int, move: int) -> None:
        """Time goes on, or back. A record of a load is as old as its writing, so those that were given are written before."""
        if self.loading >= 0:
            len(self.indexes[self.loading])
        CLOCK.now += move

    # ---- many --------------------------------------------------------------------------------------------------------

    def do_add_many(
        self,
        who: int,
        records: list[Any],
        inside: dict[int, list[Operation]],
        reports: dict[int, list[Operation]],
        arrays: bool = False,
        **how: Any,
    ) -> None:
        """`add_many` or `add_codes`. inside: what is done before a record is given, or after the last; reports: at which call of
        progress; how: options of the load."""
        if self.may_write(who) and not (self.loading >= 0 and (inside or reports)):
            Load(self, who, records, inside, reports, arrays, how).run()

    def do_merge(self, who: int, records: list[Any], if_exists: str, commit_every: int | None) -> None:
        """`merge` of another index with such records."""
        if not self.may_write(who) or self.loading >= 0:
            return
        index, state = self.indexes[who], self.view(who)
        given = {} if self.codes else {"text": state.case.rules, "store_text": self.history.store_text}
        theirs, complete = State(state.case), state.copy()
        with Index(":memory:", state.case.scheme, **given) as other:
            for key, content, group, expires, _ in records:
                add = other.add_code if self.codes else other.add
                if theirs.visible(CLOCK.now).refuses(key, group, "replace"):
                    continue
                add(key, content, group=group, expires_at=self.when(expires), if_exists="replace")
                theirs.put(key, content, group, self.moment(expires))
            counts: Counter[str] = Counter()
            visible = theirs.visible(CLOCK.now)
            for taken, key in enumerate(visible.in_order()):
                one = visible.entries[key]
                if commit_every is not None and taken % commit_every == 0:
                    complete = state.copy()
                try:
                    outcome, found = self.put(state, (key, one.content, one.group, one.expires_at), if_exists, False, whole=True)
                except KeyError:
                    with suppress(DuplicateKeyError):
                        index.merge(other, if_exists=if_exists, commit_every=commit_every)
                        self.same("merge", "done", "raised")
                    state.entries, state.counter, state.allowed = complete.entries, complete.counter, complete.allowed
                    return
                counts[outcome] += 1
                counts["found"] += bool(found)
            report = index.merge(other, if_exists=if_exists, commit_every=commit_every)
        found = report.added, report.replaced, report.ignored, report.matched
        self.same("merge", found, tuple(counts[name] for name in ("added", "replaced", "ignored", "found")))

    # ---- transactions ------------------------------------------------------------------------------------------------

    def _begin(self, place: int) -> State | None:
        """What it was before; None where this is the outermost transaction."""
        if place in self.open:
            return self.open[place].copy()
        self.open[place] = self.committed.copy()
        return None

    def _end(self, place: int, before: State | None, commit: bool) -> None:
        if before is None:
            state = self.open.pop(place)
            if commit:
                self.committed = state
        elif not commit:
            self.open[place] = before

    def do_transaction(self, who: int, operations: list[Operation], raises: bool) -> None:
        """`transaction()`, which an exception may end."""
        if self.may_write(who):
            place = self.place(who)
            before = self._begin(place)
            self.inside[who] += 1
            with suppress(Raised), self.indexes[who].transaction():
                self.run(operations)
                if raises:
                    raise Raised
            self.inside[who] -= 1
            self._end(place, before, not raises)

    def do_sql(self, who: int, operations: list[Operation], then: list[Operation], savepoint: bool, end: str) -> None:
        """A transaction of the caller's own SQL; `then` is done after ROLLBACK TO, and `end` is "commit" or "rollback"."""
        place = self.place(who)
        if not self.may_write(who) or self.loading >= 0:
            return
        connection = self.indexes[who].connection
        savepoint = savepoint or place in self.open
        before = self._begin(place)
        start = self.open[place].copy()
        standard = self.history.target == "standard"
        if savepoint or not standard:
            connection.execute("SAVEPOINT mine" if savepoint else "BEGIN IMMEDIATE")
        if standard:  # which begins a transaction
            connection.execute("INSERT INTO counted VALUES (1)")
            self.open[place].rows += 1
        self.run(operations)
        if savepoint and then:
            connection.execute("ROLLBACK TO mine")
            self.open[place] = start.copy()
            self.run(then)
        commit = end == "commit"
        if savepoint:
            if not commit:
                connection.execute("ROLLBACK TO mine")
            connection.execute("RELEASE mine")
        else:
            connection.execute("COMMIT" if commit else "ROLLBACK")
        self._end(place, before, commit)

    def do_pinned(self, who: int, operations: list[Operation]) -> None:
        """A reader's transaction by SQL: what the other one writes meanwhile is not seen in it."""
        place = self.place(who)
        if self.open or self.pinned or self.loading >= 0 or self.place(1 - who) == place:
            return
        connection = self.indexes[who].connection
        connection.execute("BEGIN")
        self.compare(who, "documents")
        self.pinned[place] = self.committed.copy()
        self.run(operations)
        self.compare(who)
        del self.pinned[place]
        connection.execute("COMMIT")

    # ---- the whole index ---------------------------------------------------------------------------------------------

    def do_rebuild(self, who: int, to: int) -> None:
        """To one of `configurations`, by what is different there."""
        state = self.view(who)
        if not self.may_write(who) or self.loading >= 0 or to >= len(self.cases):
            return
        now, other = state.case, self.cases[to]
        if not self.history.store_text and (to > 1 or other.scheme.name == "minhash" and other.scheme.exact and to > 1):
            return
        scheme = None if now.scheme is other.scheme else other.scheme
        rules = None if now.rules is other.rules else other.rules
        if scheme is not None or rules is not None:
            if self.bound - {who}:
                return
            self.bound.add(who)
        self.indexes[who].rebuild(scheme, rules)
        state.rebuild(other)

    def do_check(self, who: int, repair: bool) -> None:
        """Nothing is found, nor repaired."""
        if self.loading < 0 and (self.may_write(who) or not repair):
            report = self.indexes[who].check(repair=repair)
            self.same("check", (report.problems, report.repaired), ((), ()))

    def do_reopen(self, who: int) -> None:
        """A new Index object; on a connection of the caller's in the middle of a transaction too."""
        place = self.place(who)
        if self.loading >= 0 or self.inside[who] or self.connection is None and (place in self.open or place in self.pinned):
            return
        if place == 1 and (place in self.open or place in self.pinned):
            return
        self.bound.discard(who)
        self.indexes[who].close()
        self.indexes[who] = self._opened(who)


_played = 0


def play(history: History, folder: Path, counts: Counts | None = None) -> None:
    """Play a history on a new file. Difference where the index and the model part."""
    global _played
    _played += 1
    counts = counts if counts is not None else Counts()
    counts.histories += 1
    path = folder / f"{_played}.db"
    player = Player(history, path, counts)
    try:
        player.play()
    finally:
        with suppress(Exception):
            player.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
