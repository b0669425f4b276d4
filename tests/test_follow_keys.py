"""Which rows of a followed table are documents: keys of every form, conditions, and rows that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test
from followed import PLAIN, Followed, keys, pending, right
from support import SETS, WORDS

from neardup_db import Index, ParameterError, SyncReport

# ---- keys --------------------------------------------------------------------------------------------------------------


KEYED = {
    "integer": ("id INTEGER PRIMARY KEY, body", "id", 1, 2),
    "integer, not the rowid": ("id INT PRIMARY KEY, body", "id", 1, 2),
    "descending": ("id INTEGER PRIMARY KEY DESC, body", "id", 1, 2),
    "text": ("id TEXT PRIMARY KEY, body", "id", "a", "b"),
    "blob": ("id BLOB PRIMARY KEY, body", "id", b"\0\xff", b""),
    "no type": ("id PRIMARY KEY, body", "id", "1", 1),
    "unique": ("n INTEGER DEFAULT 1 PRIMARY KEY, body, Id TEXT NOT NULL UNIQUE", "id", "ä", "a\0b"),
    "rowid by its name": ("id INTEGER PRIMARY KEY, body", "RowID", 1, 2),
    "strange names": ('"i d"" ""x" TEXT PRIMARY KEY, body', 'i d" "x', "'", '"'),
    "generated": ("raw TEXT, body, id AS (upper(raw)) NOT NULL UNIQUE", "id", "A", "B"),
}


@one_test(end=["", " WITHOUT ROWID", " STRICT"], name=KEYED)
def test_forms_of_keys(app: Followed, name: str, end: str) -> None:
    """Each declared key names its row, in tables of every kind: added, changed to another key, replaced, deleted."""
    columns, key, first, second = KEYED[name]
    if end == " STRICT":
        columns = columns.replace("body", "body TEXT").replace("id PRIMARY", "id ANY PRIMARY").replace("id AS", "id TEXT AS")
    if end == " WITHOUT ROWID" and ("PRIMARY KEY" not in columns or name == "rowid by its name"):
        columns, key = columns.replace("raw TEXT", "raw TEXT PRIMARY KEY"), "id" if name == "rowid by its name" else key
    app.run(f'CREATE TABLE "my ""table" ({columns}){end}')
    index = app.index()
    index.follow('MY "TABLE', key=key)
    written = {"generated": "raw", "rowid by its name": "id"}.get(name, key)
    column = '"' + written.replace('"', '""') + '"'
    app.run(f"""INSERT INTO "my ""table" ({column}, body) VALUES (?, 'oak elm')""", first)
    right(index)
    assert keys(index) == {first}
    app.run(f"""UPDATE "my ""table" SET {column} = ?""", second)
    assert pending(index) == 2
    right(index)
    assert list(index) == [second] and type(list(index)[0]) is type(second)
    app.run(f"""REPLACE INTO "my ""table" ({column}, body) VALUES (?, 'fir yew')""", second)
    right(index)
    assert index.query("fir yew")[0].key == second
    app.run("""DELETE FROM "my ""table\"""")
    right(index)
    assert keys(index) == set()


@pytest.mark.usefixtures("small_limits")
def test_keys_that_only_an_index_tells_apart(app: Followed) -> None:
    """A column without regard to case, and a unique index with it: 'a' and 'A' are two rows, and no page passes one over."""
    app.run("CREATE TABLE articles (id TEXT NOT NULL COLLATE NOCASE, body)")
    app.run("CREATE UNIQUE INDEX ids ON articles (id COLLATE BINARY)")
    for key in ("a", "A", "b", "B", "c", "C"):
        app.run("INSERT INTO articles VALUES (?, 'oak elm')", key)
    index = app.index()
    index.follow("articles")
    right(index)
    assert keys(index) == {"a", "A", "b", "B", "c", "C"}
    app.run("UPDATE articles SET body = id WHERE id = 'a' COLLATE BINARY")
    assert right(index).replaced == 1


@one_test(
    ("made", "how", "message"),
    [
        ("CREATE TABLE t (id, body)", {"key": "rowid"}, "rowids of 't' are not declared, so VACUUM"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, body) WITHOUT ROWID", {"key": "oid"}, "not declared"),
        ("CREATE TABLE t (id, body)", {}, "not the PRIMARY KEY, nor is it UNIQUE and NOT NULL"),
        ("CREATE TABLE t (id UNIQUE, body)", {}, "nor is it UNIQUE and NOT NULL"),
        ("CREATE TABLE t (id, body, PRIMARY KEY (id, body))", {}, "does not name one row"),
        ("CREATE TABLE t (id NOT NULL, body, UNIQUE (id, body))", {}, "does not name one row"),
        ("CREATE TABLE t (id NOT NULL, body);\nCREATE UNIQUE INDEX i ON t (id) WHERE body > 1", {}, "does not name one row"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY)", {}, "text='body': 't' has no such column, it has id: give"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, body)", {"group": "lang"}, "group='lang': 't' has no such column"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, body)", {"table": "tt"}, "no table 'tt'"),
        ("CREATE VIEW t AS SELECT 1 AS id, 'x' AS body", {}, "is a view, which has no triggers"),
        ("CREATE VIRTUAL TABLE t USING fts5 (id, body)", {}, "is a virtual table"),
        ("CREATE TABLE u (x)", {"table": "sqlite_schema"}, "belongs to SQLite"),
        ("CREATE TABLE u (x)", {"table": "neardup_document", "text": "text"}, "belongs to SQLite or to an index"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, body) WITHOUT ROWID", {"where": "rowid > 1"}, "no such column: rowid): give"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY, body)", {"where": "oid > 1"}, "one row (no such column: oid): give"),
    ],
)
def test_what_cannot_be_followed(app: Followed, made: str, how: dict[str, Any], message: str) -> None:
    """It is refused with the value and the remedy, and nothing is left in the file."""
    app.run(made)
    index = app.index()
    before = app.run("SELECT name FROM sqlite_schema")
    with pytest.raises(ParameterError) as caught:
        index.follow(how.pop("table", "t"), **how)
    assert message in str(caught.value)
    assert app.run("SELECT name FROM sqlite_schema") == before and index.stats()["following"] is None


def test_a_condition_on_the_rowid_by_that_name(app: Followed) -> None:
    """A condition may say rowid where a column is the rowid; a change of that column alone is noted."""
    app.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, body)")
    app.run("INSERT INTO t VALUES (1, 'a', 'ash box bay'), (9, 'b', 'elm fir oak')")
    index = app.index()
    index.follow("t", key="name", where="rowid > 5")
    assert index.sync().added == 1 and keys(index) == {"b"}
    app.run("UPDATE t SET id = 7 WHERE id = 1")
    app.run("UPDATE t SET id = 2 WHERE id = 9")
    index.sync()
    assert keys(index) == {"a"} and index.check().problems == ()


def test_tables_of_other_databases_are_refused(app: Followed) -> None:
    """A table of an attached database, and a temporary one, are refused by name."""
    index = app.index()
    index.connection.execute("ATTACH ? AS other", (":memory:",))
    for table in ("other.t", "temp.s"):
        index.connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, body)")
    for table, place in (("t", "other"), ("s", "temp")):
        with pytest.raises(ParameterError, match=f"is of the database '{place}'"):
            index.follow(table)
    with pytest.raises(ParameterError, match="give the name alone"):
        index.follow("other.t")


# ---- conditions --------------------------------------------------------------------------------------------------------


@one_test(where=[
        "1) OR (1", "1; DROP TABLE t", "1 -- \n) OR (1", "", "views >", "misspelt = 1", '"misspelt" = 1', "views = ?",
        "views = :x", "1); ATTACH 'evil.db' AS evil; SELECT (1", "$x(') ; ATTACH 'evil.db' AS evil; --')",
        "views IN (SELECT views FROM t)", "EXISTS (SELECT 1)", "views > random()", "body < datetime('now')",
        "body < CURRENT_TIMESTAMP", "mine(views)", "neardup_hamming(1, views)", "t.views = 1", "views AS x", "1 THEN 1 END",
        "views, 1", "/* views", "count(views) > 1", 5, "a\0b",
    ])  # fmt: skip
def test_conditions_that_are_refused(app: Followed, where: Any) -> None:
    """What is no expression, or follows from more than the row, is refused, and nothing of it ever runs."""
    app.run("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT, views INTEGER)")
    index = app.index()
    with pytest.raises(ParameterError, match="where="):
        index.follow("t", where=where)
    assert app.run("SELECT name FROM sqlite_schema WHERE type = 'trigger'") == []
    assert app.run("SELECT count(*) FROM t") == [[0]] and not Path("evil.db").exists()


@one_test(where=[
        "views", "views > 1 OR body LIKE '%;?:@$#%'", "(views > 1)\n-- the end", "id % 2 = 0 /* even */", "views IN (1, 2)",
        "CASE WHEN views THEN 1 END", "json_extract(body, '$.x') IS NULL", "body REGEXP 'x' IS NULL OR 1", "lower(body) = 'x;'",
    ])  # fmt: skip
def test_conditions_that_are_taken(app: Followed, where: str) -> None:
    """Any expression of the row's columns; rows are those that SQLite says."""
    app.run("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT, views INTEGER)")
    app.run("INSERT INTO t (body, views) VALUES ('x;', 1), ('oak', 2), ('{}', 3), ('elm', 0)")
    index = app.index()
    if "REGEXP" in where:
        with pytest.raises(ParameterError, match="no such function"):
            index.follow("t", where=where)
        return
    if "json" in where:
        app.run("DELETE FROM t WHERE body <> '{}'")
    index.follow("t", where=where)
    right(index)
    assert keys(index) == {key for (key,) in app.run(f"SELECT id FROM t WHERE ({where}\n)")}


# ---- rows that cannot be documents ---------------------------------------------------------------------------------------


def test_rows_that_cannot_be_documents_are_named_and_others_go_on(app: Followed) -> None:
    """A text that is none, a key that is none, a group that is none: each has its reason; a document that was there goes."""
    index = app.following("CREATE TABLE articles (id BLOB PRIMARY KEY, body, lang)", group="lang")
    app.run("INSERT INTO articles VALUES (1, 'oak elm', 'en'), (2, 'fir yew', 7), (3, 'box bay', x'01')")
    right(index)
    for sql in (
        "UPDATE articles SET body = x'6f616b' WHERE id = 1",
        "UPDATE articles SET body = 5 WHERE id = 2",
        "INSERT INTO articles VALUES (4, 1.5, NULL), (NULL, 'oak', NULL), (1.5, 'oak', NULL), (5, 'oak', 0.5), (6, 'ash', NULL)",
        "INSERT INTO articles VALUES (CAST(x'ff' AS TEXT), 'oak', NULL), (7, 'ash', CAST(x'ff' AS TEXT))",
    ):
        app.run(sql)
    first = index.sync()
    assert (first.added, first.deleted, first.skipped) == (1, 2, 8)
    assert keys(index) == {3, 6}
    second = index.sync(full=True)
    assert (second.found, second.skipped) == (0, 8)
    for report in (first, second):
        reasons = " | ".join(str(problem.reason) for problem in report.problems)
        for part in ("is stored as BLOB", "body=5 is stored as INTEGER", "body=1.5 is stored as REAL", "is NULL in 'id'",
                     "key=1.5 is of type float", "group=0.5", "key=b'\\xff' is stored as text", "group=b'\\xff'"):  # fmt: skip
            assert part in reasons, part
    assert index.check().ok


def test_texts_that_are_no_unicode_are_taken_as_add_takes_them(app: Followed) -> None:
    """Bytes that are no UTF-8 become U+FFFD; letters of every kind are the same as by add."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, CAST(x'6f616b20ff20656c6d' AS TEXT)), (2, ?)", "Äpfel 中文 a\0b")
    right(index)
    with Index(":memory:", SETS, text=WORDS) as other:
        other.add(1, b"oak \xff elm")
        other.add(2, "Äpfel 中文 a\0b")
        for text in ("oak elm", "äpfel 中文 a b"):
            assert index.query(text) == other.query(text)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_database_in_utf_16(encoding: str) -> None:
    """Keys, groups and texts are the letters that stand there."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"PRAGMA encoding = '{encoding}'")
    connection.execute("CREATE TABLE articles (id TEXT PRIMARY KEY, body TEXT, lang TEXT)")
    connection.execute("INSERT INTO articles VALUES ('ä', 'Äpfel oak', 'ö'), ('中', 'fir yew', NULL)")
    index = Index(connection, SETS, text=WORDS, store_text=True)
    index.follow("articles", group="lang")
    right(index)
    assert keys(index) == {"ä", "中"} and index.get("ä").group == "ö" and index.get("ä").text == "Äpfel oak"
    connection.execute("UPDATE articles SET body = 'box' WHERE id = '中'")
    assert right(index) == SyncReport(replaced=1)
    assert index.sync(limit=1, full=True).unchanged == 1


def test_other_ways_by_which_rows_change(app: Followed) -> None:
    """Foreign keys that cascade, triggers of the application's own, UPSERT and a rowid set by its name: all is noted."""
    app.run("CREATE TABLE authors (id INTEGER PRIMARY KEY)")
    index = app.following(
        """CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, slug TEXT UNIQUE,
           author INTEGER REFERENCES authors ON DELETE CASCADE ON UPDATE CASCADE,
           parent INTEGER REFERENCES articles ON DELETE CASCADE ON UPDATE SET NULL)"""
    )
    app.run("PRAGMA foreign_keys = ON")
    app.run(
        """CREATE TRIGGER mine AFTER INSERT ON articles WHEN NEW.slug IS NULL BEGIN
           UPDATE articles SET body = 'fir ' || NEW.body, slug = 's' || NEW.id WHERE id = NEW.id; END"""
    )
    app.run("INSERT INTO authors VALUES (1), (2)")
    for row in ((1, 1, None), (2, 2, None), (3, None, 2), (4, None, 3), (5, None, 1)):
        app.run("INSERT INTO articles (id, body, author, parent) VALUES (?1, 'oak elm', ?2, ?3)", *row)
    right(index)
    assert [one.key for one in index.query("fir oak elm")] == [1, 2, 3, 4, 5]
    app.run("DELETE FROM authors WHERE id = 2")
    assert right(index).deleted == 3
    sql = "INSERT INTO articles (id, body, slug) VALUES (9, 'box', 's1') ON CONFLICT (slug) DO UPDATE SET body = ?, id = 8"
    app.run(sql, "yew bay")
    right(index)
    assert keys(index) == {5, 8} and index.query("yew bay")[0].key == 8
    app.run("UPDATE articles SET rowid = 7 WHERE id = 8")
    right(index)
    assert keys(index) == {5, 7}
    app.run("REPLACE INTO articles (rowid, body, slug) VALUES (7, 'ash', 's5')")
    right(index)
    assert keys(index) == {7}


def test_a_temporary_table_of_the_same_name_is_another_one(app: Followed) -> None:
    """The table of the file is followed, whatever hides it on the index's connection."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index = app.index()
    index.connection.execute("CREATE TEMP TABLE articles (id INTEGER PRIMARY KEY, body TEXT)")
    index.follow("articles", where="views = 0")
    right(index)
    app.run("INSERT INTO articles (id, body) VALUES (2, 'fir yew')")
    right(index)
    assert keys(index) == {1, 2}


def test_a_collation_that_only_the_application_has(app: Followed) -> None:
    """A key column that cannot be compared here is refused when following begins; on the application's connection it works."""
    connection = apsw.Connection(str(app.path))
    connection.create_collation("mine", lambda a, b: (a > b) - (a < b))
    connection.execute("CREATE TABLE articles (id TEXT PRIMARY KEY COLLATE mine, body TEXT)")
    connection.execute("INSERT INTO articles VALUES ('a', 'oak elm')")
    index = app.index()
    with pytest.raises(ParameterError, match=r"cannot be read in the order of its keys here .*mine"):
        index.follow("articles")
    index.close()
    with Index(connection) as index:
        index.follow("articles")
        connection.execute("REPLACE INTO articles VALUES ('b', 'fir')")
        right(index)
        assert keys(index) == {"a", "b"}
    connection.close()
