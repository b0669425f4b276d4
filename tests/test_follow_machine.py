"""Any history of an application, with migrations, crashes and syncs in between, leaves the documents that its rows are.

The application is Python's sqlite3 in a process of its own. Its rows, read by itself, are the oracle; pairs and clusters come
from brute force over them."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from application import Application
from crash_writer import Operation, Writers
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from support import CASES, SETS, WORDS, Model

from neardup_db import Index

TEXTS = st.one_of(
    st.lists(st.sampled_from(["oak", "elm", "ash", "fir", "yew"]), max_size=5).map(" ".join), st.sampled_from([None, b"oak", 7])
)
SLUGS = st.sampled_from([None, "a", "b", "B", "c"])
GROUPS = st.sampled_from([None, None, None, "g", 1, 0.5])
KINDS = st.sampled_from(["insert", "insert", "update", "key", "slug", "upsert", "upsert by slug", "delete"])
RULES = st.sampled_from(["", "OR IGNORE", "OR REPLACE", "OR REPLACE", "OR FAIL", "OR ROLLBACK"])


class Form(NamedTuple):
    """A table that is followed: its columns but the common ones, what else belongs to it, keys, and the condition."""

    key: str
    end: str
    keys: tuple[Any, ...]
    where: str | None
    store_text: bool


FORMS = {
    "rowid": Form("id INTEGER PRIMARY KEY", "", (1, 2, 3, 4, 5), None, False),
    "texts": Form("id TEXT PRIMARY KEY COLLATE NOCASE", "WITHOUT ROWID", ("a", "A", "b", "ä", "1"), "hidden IS NOT 1", True),
    "anything": Form("id PRIMARY KEY", "", (1, 1.0, "1", b"1", None, "x"), "hidden = 0 OR slug IS NULL", False),
    "unique": Form("n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE", "", ("a", "A", "b", "c"), "slug < 'c'", False),
}
COLUMNS = (
    "body, slug TEXT UNIQUE COLLATE NOCASE, lang, hidden INTEGER DEFAULT 0, parent REFERENCES articles (id) ON DELETE CASCADE"
)


class FollowMachine(RuleBasedStateMachine):
    """An application's table, and the index that follows it."""

    form: Form

    @initialize(questions=st.sampled_from([None, "query"]))
    def start(self, questions: str | None) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        self.path = Path(self.folder.name) / "app.db"
        self.application = Application(self.path)
        self.case = CASES["minhash-exact"]
        self.made = f"({self.form.key}, {COLUMNS}) {self.form.end}"
        self.application.run(f"CREATE TABLE articles {self.made}")
        self.index = self.opened(store_text=self.form.store_text, record_matches=True)
        self.index.follow("articles", group="lang", where=self.form.where, sync=questions)

    def opened(self, **more: Any) -> Index:
        return Index(self.path, self.case.scheme, text=self.case.rules, attach=True, **more)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.compare()
            self.index.close()
            self.application.close()
            self.folder.cleanup()

    def tried(self, sql: str, *values: Any) -> None:
        """A statement that may conflict, and never fails for another reason."""
        _, error = self.application.tell(sql, values)
        assert error is None or "constraint failed" in error or "datatype mismatch" in error or "no transaction" in error, error

    # ---- the application ---------------------------------------------------------------------------------------------

    def write(self, data: st.DataObject) -> None:
        """One statement, of any kind."""
        keys, how, body, slug = st.sampled_from(self.form.keys), data.draw(RULES), data.draw(TEXTS), data.draw(SLUGS)
        key, other, lang = data.draw(keys), data.draw(keys), data.draw(GROUPS)
        kind = data.draw(KINDS, label="kind")
        if kind == "insert":
            values = key, body, slug, lang, data.draw(st.sampled_from([0, 0, 1])), data.draw(st.sampled_from([None, other]))
            self.tried(f"INSERT {how} INTO articles (id, body, slug, lang, hidden, parent) VALUES (?, ?, ?, ?, ?, ?)", *values)
        elif kind == "update":
            column, value = data.draw(st.sampled_from([("body", body), ("lang", lang), ("hidden", 1), ("hidden", 0)]))
            self.tried(f"UPDATE {how} articles SET {column} = ? WHERE id IS ?", value, key)
        elif kind == "key":
            self.tried(f"UPDATE {how} articles SET id = ? WHERE id IS ?", other, key)
        elif kind == "slug":
            self.tried(f"UPDATE {how} articles SET slug = ?, body = 'ash ' || body WHERE id IS ?", slug, key)
        elif kind == "upsert":
            change = "ON CONFLICT (id) DO UPDATE SET body = excluded.body"
            self.tried(f"INSERT INTO articles (id, body) VALUES (?, ?) {change}", key, body)
        elif kind == "upsert by slug":
            change = "ON CONFLICT (slug) DO UPDATE SET body = excluded.body, id = ?1"
            self.tried(f"INSERT INTO articles (id, body, slug) VALUES (?1, ?2, ?3) {change}", key, body, slug)
        else:
            self.tried("DELETE FROM articles WHERE id IS ?", key)

    @rule(data=st.data(), number=st.integers(1, 6))
    def writes(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            self.write(data)

    @rule(data=st.data(), number=st.integers(1, 4))
    def writes_between_two_syncs(self, data: st.DataObject, number: int) -> None:
        """Documents change by what the triggers note, and by a comparison only where the number of rows asks for one."""
        for key, slug in zip(self.form.keys, ["a", "b", "c", None], strict=False):
            self.tried("INSERT OR IGNORE INTO articles (id, body, slug) VALUES (?, 'oak elm ash', ?)", key, slug)
        self.index.sync()
        self.writes(data, number)
        report = self.index.sync()
        assert report.complete and report.compared in ("", "rows of 'articles' changed without a note, as REPLACE deletes them")
        self.compare()

    @rule()
    def delete_all(self) -> None:
        self.tried("DELETE FROM articles")

    @rule(data=st.data(), end=st.sampled_from(["ROLLBACK", "COMMIT", "kill"]))
    def transaction(self, data: st.DataObject, end: str) -> None:
        """Several writes that the application takes back, keeps, or is killed in the middle of."""
        self.application.run("BEGIN IMMEDIATE")
        self.writes(data, 3)
        if end == "kill":
            self.application.kill()
            self.application = Application(self.path)
        else:
            self.tried(end)

    @rule(pragma=st.sampled_from(["recursive_triggers = 1", "foreign_keys = 1", "foreign_keys = 0", "legacy_alter_table = 1"]))
    def setting(self, pragma: str) -> None:
        self.application.run(f"PRAGMA {pragma}")

    @rule(how=st.sampled_from(["copy", "away", "triggers", "index", "no index", "vacuum", "column"]))
    def migrate(self, how: str) -> None:
        """What applications do to a table."""
        names = [row[1] for row in self.application.run("SELECT * FROM pragma_table_xinfo('articles')")]
        columns = ", ".join(names)
        steps = {
            "copy": [
                f"CREATE TABLE articles_new {self.made}",
                *(f"ALTER TABLE articles_new ADD COLUMN {name}" for name in names if name.startswith("more")),
                f"INSERT INTO articles_new ({columns}) SELECT {columns} FROM articles",
                "DROP TABLE articles",
                "ALTER TABLE articles_new RENAME TO articles",
            ],
            "away": [
                "ALTER TABLE articles RENAME TO articles_old",
                f"CREATE TABLE articles {self.made}",
                "INSERT INTO articles (id, body, slug, lang, hidden) SELECT id, body, slug, lang, hidden FROM articles_old",
                "DROP TABLE articles_old",
            ],
            "triggers": ["DROP TRIGGER IF EXISTS neardup_follow_insert", "DROP TRIGGER IF EXISTS neardup_follow_update"],
            "index": ["CREATE UNIQUE INDEX IF NOT EXISTS later ON articles (lower(slug), lang) WHERE hidden = 0"],
            "no index": ["DROP INDEX IF EXISTS later"],
            "vacuum": ["VACUUM"],
            "column": [f"ALTER TABLE articles ADD COLUMN more{len(names)} DEFAULT 'oak'"],
        }[how]
        self.application.run("PRAGMA foreign_keys = 0")
        for step in steps:
            self.tried(step)

    # ---- the index ---------------------------------------------------------------------------------------------------

    @rule(limit=st.sampled_from([None, 1, 3]), full=st.booleans(), commit_every=st.sampled_from([None, 2]))
    def sync(self, limit: int | None, full: bool, commit_every: int | None) -> None:
        self.index.sync(limit, full=full, commit_every=commit_every)

    @rule()
    def sync_taken_back(self) -> None:
        """What a transaction that fails took over is pending again."""
        with pytest.raises(ZeroDivisionError), self.index.transaction():
            self.index.sync()
            raise ZeroDivisionError

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = self.opened()

    @rule()
    def rebuild(self) -> None:
        self.index.rebuild()

    @rule()
    def check(self) -> None:
        """Whatever is pending, nothing is wrong but triggers that are missing."""
        problems = [one for one in self.index.check().problems if not one.startswith("triggers that are missing")]
        assert problems == []

    @rule()
    def compare(self) -> None:
        """After sync the documents are the rows, with the pairs and clusters of these."""
        assert self.index.sync().complete
        assert self.index.check().problems == () and self.index.check().notes == ()
        model = Model(self.case)
        rows = self.rows()
        for key in self.index:
            assert any(type(key) is type(one) and key == one for one, _, _ in rows), key
        for key, text, group in rows:
            document = self.index.get(key)
            assert (type(document.key), document.group, type(document.group)) == (type(key), group, type(group))
            assert document.text == (text if self.form.store_text else None)
            model.put((type(key), key), text, group)
        assert len(self.index) == len(rows)
        found = {frozenset([(type(p.key_a), p.key_a), (type(p.key_b), p.key_b)]) for p in self.index.pairs()}
        assert found == {frozenset(pair[:2]) for pair in model.pairs()}
        clusters = {frozenset((type(key), key) for key in one.keys) for one in self.index.clusters()}
        assert clusters == {frozenset(one) for one in model.clusters()}
        for text in ("oak elm", "ash"):
            assert {(type(m.key), m.key) for m in self.index.query(text)} == {m[0] for m in model.matches(text)}

    def rows(self) -> list[tuple[Any, str, Any]]:
        """(key, text, group) of the rows that are documents, as the application sees them."""
        where = f"WHERE {self.form.where}" if self.form.where else ""
        read = self.application.run(f"SELECT id, body, lang FROM articles {where}")
        values = [tuple(bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in row) for row in read]
        return [
            row for row in values
            if isinstance(row[0], (int, str, bytes)) and isinstance(row[1], str) and not isinstance(row[2], float)
        ]  # fmt: skip


@pytest.mark.parametrize("small", [False, True], ids=["usual limits", "small limits"])
@pytest.mark.parametrize("name", FORMS)
def test_any_history_of_an_application(name: str, small: bool, more_rounds: bool, request: pytest.FixtureRequest) -> None:
    """Documents, pairs and clusters after sync are those of the rows, for tables of every form."""
    if small:
        request.getfixturevalue("small_limits")
    machine = type("Machine", (FollowMachine,), {"form": FORMS[name]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100 if more_rounds else 8,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


# ---- crashes -----------------------------------------------------------------------------------------------------------


def some_writes(rng: random.Random) -> list[Operation]:
    """Writes of an application and syncs, on one connection."""
    operations: list[Operation] = []
    for _ in range(40):
        key, family = rng.randrange(60), rng.randrange(12)
        text = f"{family}a {family}b {family}c {family}d {rng.randrange(4)}"
        operations.append(
            rng.choice(
                [
                    ["sql", f"REPLACE INTO articles VALUES ({key}, '{text}', {rng.randrange(30)})"],
                    ["sql", f"INSERT OR IGNORE INTO articles VALUES ({key}, '{text}', NULL)"],
                    ["sql", f"UPDATE OR REPLACE articles SET n = {family}, body = '{text}' WHERE id % 9 = {key % 9}"],
                    ["sql", f"DELETE FROM articles WHERE id = {key}"],
                    ["transaction", [["sql", f"DELETE FROM articles WHERE id > {key}"], ["sync"]]],
                    ["sync"],
                    ["sync", 3],
                ]
            )
        )
    return operations


@pytest.mark.posix("forks")
def test_kills_between_write_and_sync(tmp_path: Path, writers: Writers, more_rounds: bool, long_run: bool) -> None:
    """Whenever a process is killed, in the middle of a write of the application or of sync: check() finds nothing wrong, the
    table holds what was acknowledged, and the next sync makes the documents its rows."""
    path, rng = tmp_path / "app.db", random.Random(17)
    with Index(path, SETS, text=WORDS) as index:
        index.connection.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, n INTEGER UNIQUE)")
        index.follow("articles")
        index.sync()
    oracle = Path(tmp_path / "oracle.db")
    done = 0
    while writers.killed < (300 if long_run else 40 if more_rounds else 10):
        operations = some_writes(rng)
        inside = rng.random() < 0.6
        job = {"path": str(path), "operations": operations, "small": rng.random() < 0.5}
        job["countdown"] = inside and rng.randint(1, rng.choice([50, 500, 3000]))
        before = rows_of(path)
        count = writers.run(job, None if inside else rng.random() * 0.2)
        done += count
        after = rows_of(path)
        assert after in [replayed(oracle, before, operations[:number]) for number in (count, count + 1)]
        with Index(path) as index:
            assert index.check().problems == ()
            index.sync()
            assert sorted(index) == [key for key, *_ in after]
            assert index.sync(full=True).found == 0
            assert index.check().problems == ()
    assert done > writers.killed


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """The table, read with the index's own library."""
    with Index(path) as index:
        return index.connection.execute("SELECT * FROM articles ORDER BY id").fetchall()


def replayed(path: Path, rows: list[tuple[Any, ...]], operations: list[Operation]) -> list[tuple[Any, ...]]:
    """What a table without an index has after these writes."""
    path.unlink(missing_ok=True)
    application = Application(path)
    application.run("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, n INTEGER UNIQUE)")
    application.run("BEGIN")
    for row in rows:
        application.run("INSERT INTO articles VALUES (?, ?, ?)", *row)
    for name, *arguments in operations:
        for one in arguments[0] if name == "transaction" else [[name, *arguments]]:
            if one[0] == "sql":
                application.run(one[1])
    application.run("COMMIT")
    left = [tuple(row) for row in application.run("SELECT * FROM articles ORDER BY id")]
    application.close()
    return left
