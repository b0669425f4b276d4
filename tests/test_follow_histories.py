"""Random histories of an application on a followed table and on a twin that nobody follows: the application sees no difference,
and after each complete sync the documents are the rows, with the pairs and clusters of brute force. Then processes are killed."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest
from application import Application
from crash_writer import Operation, Writers
from standard import MODULE
from support import SETS, WORDS, Model, case_of

from neardup_db import Index
from neardup_db.store.following.table import quote

KEYS = {
    "automatic": ("id INTEGER PRIMARY KEY", "", (1, 2, 3, 4, 5, None)),
    "never again": ("id INTEGER PRIMARY KEY AUTOINCREMENT", "", (1, 2, 3, 4, None)),
    "text": ("id TEXT COLLATE NOCASE PRIMARY KEY", "", ("a", "A", "b", "B", 7)),
    "without rowid": ("id TEXT PRIMARY KEY", "WITHOUT ROWID", ("a", "A", "b", "c")),
    "any": ("id PRIMARY KEY", "", (1, 1.0, "1", b"1", None, "x")),
    "default": ("n INTEGER PRIMARY KEY, id INTEGER NOT NULL DEFAULT 3 UNIQUE", "", (1, 2, 3, None)),
    "generated": ("n INTEGER PRIMARY KEY, raw TEXT DEFAULT 'z', id AS (lower(raw)) NOT NULL UNIQUE", "", ("a", "A", "b", "c")),
}
BODIES = {
    "plain": "body TEXT",
    "default": "body TEXT NOT NULL DEFAULT 'oak elm'",
    "generated": "body TEXT AS (CASE WHEN json_valid(meta) THEN meta ->> '$.body' END)",
    "stored": "body TEXT AS (slug || ' oak') STORED",
}
SLUGS = (
    "slug TEXT UNIQUE",
    "slug TEXT NOT NULL DEFAULT '' UNIQUE",
    "slug TEXT",
    "slug TEXT COLLATE NOCASE UNIQUE ON CONFLICT REPLACE",
)
INDEXES = (
    "CREATE UNIQUE INDEX {0} ON {table} (lower(slug), hidden)",
    "CREATE UNIQUE INDEX {0} ON {table} (json_extract(meta, '$.slug')) WHERE json_valid(meta)",
    "CREATE UNIQUE INDEX {0} ON {table} (hidden) WHERE hidden > 5",
    "CREATE UNIQUE INDEX {0} ON {table} (id % 3)",
    "CREATE INDEX {0} ON {table} (hidden)",
)
TRIGGERS = (
    "AFTER INSERT ON {table} BEGIN SELECT RAISE(IGNORE) WHERE NEW.slug = 'a'; END",
    "AFTER UPDATE ON {table} BEGIN SELECT RAISE(IGNORE) WHERE NEW.slug = 'b'; END",
    "AFTER DELETE ON {table} BEGIN SELECT RAISE(IGNORE) WHERE OLD.hidden = 1; END",
    "BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE) WHERE NEW.hidden = 3; END",
    "BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'no') WHERE NEW.hidden = 2; END",
    "BEFORE DELETE ON {table} BEGIN SELECT RAISE(FAIL, 'no') WHERE OLD.hidden = 2; END",
    "AFTER UPDATE ON {table} BEGIN SELECT RAISE(FAIL, 'no') WHERE NEW.hidden = 4; END",
    "AFTER INSERT ON {table} BEGIN INSERT INTO audit VALUES (NEW.slug); END",
    "AFTER UPDATE ON {table} BEGIN INSERT INTO audit VALUES (NEW.slug); END",
    "AFTER INSERT ON {table} WHEN NEW.hidden = 5 BEGIN UPDATE {table} SET hidden = 6, slug = 'x' WHERE id = NEW.id; END",
    "AFTER UPDATE ON {table} WHEN NEW.hidden = 7 BEGIN DELETE FROM {table} WHERE id = OLD.id; END",
    "BEFORE INSERT ON {table} WHEN NEW.slug = 'c' BEGIN DELETE FROM {table} WHERE slug = 'a'; END",
    "AFTER DELETE ON {table} WHEN OLD.slug = 'c' BEGIN REPLACE INTO {table} (slug, hidden) VALUES ('a', 8); END",
)
METAS = (None, "{}", "no json", '{"slug": "s", "body": "fir yew", "shown": 1}', '{"slug": "t", "shown": 1}', '{"shown": 0}')
CONDITIONS = (None, None, "hidden < 6", "meta ->> '$.shown' = 1", "slug IS NOT 'a'")
RULES = ("", "", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK")
MIGRATIONS = ("index", "index", "no index", "no trigger", "drop column", "add column", "rename column", "rename", "copy")
GROUPS = (None, None, None, "g", 1, 0.5)
TABLES = ("articles", "old", "new", 'my "table', "neardup")


class Side:
    """A connection of an application."""

    def __init__(self, connection: Any, has_rowid: bool) -> None:
        self.connection = connection
        self.has_rowid = has_rowid

    def run(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """Rows, changed rows and the last rowid; or the error."""
        try:
            rows = self.connection.execute(sql, values).fetchall()
        except (apsw.Error, sqlite3.Error, MODULE.Error) as error:
            return str(error)
        if not sql.startswith(("INSERT", "REPLACE", "UPDATE", "DELETE")):
            return rows, None, None
        changed = self.connection.execute("SELECT changes()").fetchall()[0][0]
        inserted = self.has_rowid and changed and sql.startswith(("INSERT", "REPLACE")) and "DO UPDATE" not in sql
        return rows, changed, self.connection.execute("SELECT last_insert_rowid()").fetchall() if inserted else None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(sql).fetchall()]


class History:
    """One application, twice. In one of four histories it has a connection of its own to the index's file."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.played: list[Any] = []
        self.standard, self.path = seed % 4 == 3, folder / f"{seed}.db" if seed % 4 == 2 else None
        self.case = case_of(SETS, WORDS)
        self.kind = pick(list(KEYS))
        self.followed, self.twin = (
            Side(self.connection(path), "WITHOUT" not in KEYS[self.kind][1]) for path in (self.path, None)
        )
        self.body = pick(list(BODIES))
        self.name = pick(TABLES)
        self.table = quote(self.name)
        self.slug = pick(SLUGS)
        self.made = 0
        self.where = pick(CONDITIONS)
        self.renamed = False
        recursive = not self.standard and pick([True, False, False])  # SQLite before 3.54 has a fault with any DELETE trigger
        self.both(f"PRAGMA recursive_triggers = {recursive}")
        self.both("CREATE TABLE audit (slug UNIQUE)")
        self.create(self.table)
        for _ in range(pick([0, 1, 2])):
            self.index_or_trigger()
        self.index = self.opened()
        self.index.follow(self.name, group="lang", where=self.where, sync=pick([None, "query"]))
        self.sync()

    def opened(self) -> Index:
        return Index(self.path or self.followed.connection, SETS, text=WORDS, store_text=True, attach=self.path is not None)

    def connection(self, path: Path | None) -> Any:
        return MODULE.connect(":memory:", isolation_level=None) if self.standard else apsw.Connection(str(path or ":memory:"))

    def create(self, table: str) -> None:
        key, end, _ = KEYS[self.kind]
        columns = f"{key}, {self.slug}, hidden INTEGER DEFAULT 0, meta TEXT, lang, views INTEGER, {BODIES[self.body]}"
        self.both(f"CREATE TABLE {table} ({columns}) {end}")

    def both(self, sql: str, *values: Any) -> bool:
        """Run a statement on both sides, which say the same of it. Whether it did something."""
        self.played.append((sql, *values) if values else sql)
        one, other = self.followed.run(sql, values), self.twin.run(sql, values)
        assert one == other, self.told(one, other)
        return not isinstance(one, str)

    def told(self, *what: Any) -> str:
        return "\n".join(map(repr, [*self.played, "----", *what]))

    # ---- the application -------------------------------------------------------------------------------------------------

    def index_or_trigger(self) -> None:
        self.made += 1
        if self.random.random() < 0.5:
            self.both(self.random.choice(INDEXES).format(f"made{self.made}", table=self.table))
        else:
            self.both(f"CREATE TRIGGER made{self.made} {self.random.choice(TRIGGERS).format(table=self.table)}")

    def write(self) -> None:
        pick, table, rule = self.random.choice, self.table, self.random.choice(RULES)
        key = "raw" if self.kind == "generated" else "id"
        columns = [key, "slug", "hidden", "meta", "lang", *(["body"] if self.body in ("plain", "default") else [])]
        values = {
            key: lambda: pick(KEYS[self.kind][2]),
            "slug": lambda: pick([None, "a", "b", "B", "c", "d"]),
            "hidden": lambda: pick([0, 0, 0, 1, 2, 3, 4, 5, 6, 7]),
            "meta": lambda: pick(METAS),
            "lang": lambda: pick(GROUPS),
            "body": lambda: pick([None, "oak elm ash", "fir yew", b"oak", 7]),
        }
        some = self.random.sample(columns, self.random.randint(1, len(columns)))
        given = [values[column]() for column in some]
        kind = pick(["insert", "insert", "insert", "update", "update", "upsert", "delete", "views", "default", "many"])
        if kind in ("insert", "upsert"):
            end = f" ON CONFLICT DO UPDATE SET slug = excluded.slug, hidden = {pick([0, 1, 7])}" if kind == "upsert" else ""
            end += pick(["", " RETURNING *"])
            self.both(f"INSERT {rule} INTO {table} ({', '.join(some)}) VALUES ({', '.join('?' * len(some))}){end}", *given)
        elif kind == "update":
            sets = ", ".join(f"{column} = ?" for column in some)
            which = "=" if rule == "OR FAIL" else pick(["=", ">=", "<"])  # of several rows SQLite chooses the first
            self.both(f"UPDATE {rule} {table} SET {sets} WHERE {key} {which} ?", *given, values[key]())
        elif kind == "delete":
            self.both(f"DELETE FROM {table} WHERE {pick([key, 'slug'])} = ?", pick([values[key](), values["slug"]()]))
        elif kind == "views":
            self.both(f"UPDATE {table} SET views = ifnull(views, 0) + 1")
        elif kind == "default":
            self.both(f"REPLACE INTO {table} DEFAULT VALUES")
        else:
            self.both(f"INSERT {rule} INTO {table} (slug, hidden) SELECT slug || 'x', hidden + 1 FROM {table} LIMIT 3")

    def migrate(self) -> None:
        pick = self.random.choice
        how = pick(MIGRATIONS)
        if how == "index":
            self.index_or_trigger()
        elif how == "no index":
            self.both(f"DROP INDEX IF EXISTS made{self.random.randint(1, self.made + 1)}")
        elif how == "no trigger":  # while nothing is pending: what it hid is known only as long as it is there
            if self.sync():
                self.both(f"DROP TRIGGER IF EXISTS made{self.random.randint(1, self.made + 1)}")
        elif how == "drop column":
            self.both(f"ALTER TABLE {self.table} DROP COLUMN views")
        elif how == "add column":
            self.both(f"ALTER TABLE {self.table} ADD COLUMN {pick(['views', 'more'])} INTEGER DEFAULT 1")
        elif how == "copy":
            columns = self.twin.run("SELECT name FROM pragma_table_info(?)", (self.name,))[0]
            known = ", ".join(name for (name,) in columns if name in ("id", "n", "raw", "slug", "hidden", "meta", "lang", "body"))
            self.create("copied")
            self.both(f"INSERT OR IGNORE INTO copied ({known}) SELECT {known} FROM {self.table}")
            self.both(f"DROP TABLE {self.table}")
            self.both(f"ALTER TABLE copied RENAME TO {self.table}")
        elif how == "rename":
            self.made += 1
            self.name = f"renamed{self.made}"
            self.both(f"ALTER TABLE {self.table} RENAME TO {self.name}")
            self.table = self.name
            self.index.follow(self.name, group="lang", where=self.where)
        else:
            self.both(f"ALTER TABLE {self.table} RENAME COLUMN views TO seen")

    def transaction(self) -> None:
        """Several writes, of which some are taken back; sync, too, where it comes inside."""
        begun = self.both(self.random.choice(["BEGIN", "SAVEPOINT a"]))
        for _ in range(self.random.randint(1, 5)):
            self.random.choice([self.write, self.write, self.write, self.write if self.path else self.sync])()
            if self.random.random() < 0.3:
                self.both(self.random.choice(["SAVEPOINT b", "ROLLBACK TO b", "RELEASE b"]))
        if begun:
            self.both(self.random.choice(["ROLLBACK", "COMMIT", "COMMIT"]))

    # ---- the index -------------------------------------------------------------------------------------------------------

    def sync(self) -> bool:
        """Whether it was complete; then the documents are the rows."""
        limit, full = self.random.choice([None, None, None, 2]), self.random.random() < 0.05
        self.played.append(f"sync {limit} {full}")
        report = self.index.sync(limit, full=full, commit_every=self.random.choice([None, None, 2]) if self.path else None)
        if report.complete:
            documents = {_typed(key): (self.index.get(key).text, _typed(self.index.get(key).group)) for key in self.index}
            assert documents == self.expected(), self.told(report, self.expected(), documents, self.index.check())
        return report.complete

    def compare(self) -> None:
        """Pairs, clusters and answers of the documents."""
        model = Model(self.case)
        for key, (text, group) in self.expected().items():
            model.put(key, text, group)
        pairs = {frozenset([_typed(pair.key_a), _typed(pair.key_b)]) for pair in self.index.pairs()}
        assert pairs == {frozenset(pair[:2]) for pair in model.pairs()}, self.told(pairs)
        clusters = {frozenset(map(_typed, one.keys)) for one in self.index.clusters()}
        assert clusters == {frozenset(one) for one in model.clusters()}, self.told(clusters)
        found = {_typed(match.key) for match in self.index.query("oak elm")}
        assert found == {match[0] for match in model.matches("oak elm", _typed(None))}, self.told(found)

    def look_after(self) -> None:
        """What the index's side does: reopens, rebuilds, checks, or takes a sync back."""
        how = self.random.choice(["reopen", "rebuild", "check", "taken back"])
        self.played.append(how)
        if how == "reopen":
            self.index.close()
            self.index = self.opened()
        elif how == "rebuild":
            self.index.rebuild()
        elif how == "check":  # whatever is pending, nothing is wrong
            assert self.index.check().problems == (), self.told()
        else:
            with pytest.raises(ZeroDivisionError), self.index.transaction():
                self.index.sync()
                raise ZeroDivisionError

    def expected(self) -> dict[Any, tuple[str, Any]]:
        """Texts and groups of the rows that are documents, read one by one by the twin."""
        found = {}
        for key, body, lang in self.twin.rows(f"SELECT id, body, lang FROM {self.table}"):
            if self.where is not None:
                same = f"id IS ? COLLATE BINARY AND typeof(id) = '{_kind(key)}'"
                met = self.twin.run(f"SELECT 1 FROM {self.table} WHERE {same} AND ({self.where})", (key,))
                if isinstance(met, str) or not met[0]:
                    continue
            if isinstance(key, (int, str, bytes)) and isinstance(body, str) and not isinstance(lang, float):
                found[_typed(key)] = body, _typed(lang)
        return found

    def play(self, steps: int) -> None:
        """All of it."""
        for _ in range(steps):
            self.random.choice([self.write] * 6 + [self.transaction, self.migrate, self.sync, self.sync, self.look_after])()
        for _ in range(200):
            if self.sync():
                break
        else:
            pytest.fail(self.told("never complete"))
        self.compare()
        tables = f"SELECT * FROM {self.table}", "SELECT * FROM audit"
        assert [self.followed.rows(sql) for sql in tables] == [self.twin.rows(sql) for sql in tables]
        report = self.index.sync(full=True)
        assert (report.found, report.complete) == (0, True), self.told(report)
        report = self.index.check()
        assert report.problems == (), self.told(report)
        self.index.unfollow()
        made = "SELECT name, sql FROM sqlite_schema WHERE name NOT GLOB 'neardup_?*' AND name NOT GLOB 'sqlite_*' ORDER BY name"
        assert self.followed.rows(made) == self.twin.rows(made)
        self.index.close()
        for side in (self.followed, self.twin):
            side.connection.close()


def _typed(key: Any) -> Any:
    return type(key).__name__, key


def _kind(key: Any) -> str:
    return {int: "integer", float: "real", str: "text", bytes: "blob", type(None): "null"}[type(key)]


@pytest.mark.parametrize("part", range(4))
def test_the_application_sees_no_difference_and_documents_are_rows(part: int, tmp_path: Path, more_rounds: bool) -> None:
    """Every statement of an application does what it does on a table that is not followed, and after each sync that is complete
    the documents are the rows."""
    for seed in range(part, 1900 if more_rounds else 40, 4):
        History(seed, tmp_path).play(25)


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
