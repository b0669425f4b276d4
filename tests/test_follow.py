"""An index that follows a table of the application, whose writes come from Python's sqlite3 in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from application import Application
from click.testing import CliRunner
from load import run_threads
from support import SETS, WORDS

from neardup_db import (
    FormatError,
    Index,
    MismatchError,
    NearDupError,
    ParameterError,
    ReadOnlyError,
    SyncReport,
    TextRules,
)
from neardup_db.cli import main

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "existing_table.py"
PLAIN = "CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, lang TEXT, slug TEXT UNIQUE, views INTEGER DEFAULT 0)"


class Followed:
    """An application's file with an index beside its tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.application = Application(path)
        self.run = self.application.run
        self._indexes: list[Index] = []

    def index(self, name: str = "neardup", **more: Any) -> Index:
        """Open the index, and make it where it is not there."""
        index = Index(self.path, None if more.get("read_only") else SETS, text=WORDS, name=name, attach=True, **more)
        self._indexes.append(index)
        return index

    def following(self, table: str = PLAIN, **how: Any) -> Index:
        """An index that follows a new table, which is empty."""
        self.run(table)
        index = self.index()
        index.follow(how.pop("table", "articles"), **how)
        assert index.sync().complete
        return index

    def close(self) -> None:
        """All of it."""
        for index in self._indexes:
            index.close()
        self.application.close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Followed]:
    """A file of an application, with nothing in it."""
    followed = Followed(tmp_path / "app.db")
    yield followed
    followed.close()


def keys(index: Index) -> set[Any]:
    """Of all documents."""
    return set(index)


def pending(index: Index) -> int:
    """Changes that wait for sync."""
    return int(index.connection.execute(f"SELECT count(*) FROM {index.name}_pending").get)


def right(index: Index) -> SyncReport:
    """Take over what is pending; afterwards nothing is, and a comparison of everything finds nothing."""
    report = index.sync()
    assert report.complete and pending(index) == 0
    found = index.sync(full=True)
    assert (found.found, found.complete) == (0, True), found
    assert index.check().problems == () and index.check().notes == ()
    return report


# ---- the usual ---------------------------------------------------------------------------------------------------------


def test_rows_are_documents(app: Followed) -> None:
    """What the application inserts, changes and deletes is found, changed and gone after sync, in its numbers."""
    index = app.following(group="lang")
    app.run("INSERT INTO articles (id, body, lang) VALUES (1, 'oak elm ash', 'en'), (2, 'oak elm fir', 'en')")
    app.run("INSERT INTO articles (id, body, lang) VALUES (3, 'oak elm ash', 'de')")
    assert index.query("oak elm ash", group="en") == []
    assert right(index) == SyncReport(added=3, matched=1)
    assert [one.key for one in index.query("oak elm ash", group="en")] == [1, 2]
    app.run("UPDATE articles SET body = 'yew box bay' WHERE id = 2")
    app.run("UPDATE articles SET lang = 'en' WHERE id = 3")
    app.run("DELETE FROM articles WHERE id = 1")
    assert right(index) == SyncReport(replaced=2, deleted=1)
    assert [one.key for one in index.query("oak elm ash", group="en")] == [3]
    assert index.query("oak elm ash", group="de") == []


def test_rows_that_were_there_before(app: Followed) -> None:
    """The first sync takes all rows, and says why."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (body) VALUES ('oak elm ash'), ('fir yew box'), (NULL)")
    index = app.index()
    index.follow("articles")
    assert index.check().problems == () and "all rows of articles are to be compared" in index.check().notes[0]
    assert index.sync() == SyncReport(added=2, compared="follow() was called", found=2)
    assert right(index) == SyncReport()


def test_columns_that_are_no_document_note_nothing(app: Followed) -> None:
    """An UPDATE of other columns leaves nothing to take over; one that sets the same text changes no document."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm ash')")
    index.sync()
    app.run("UPDATE articles SET views = views + 1")
    assert pending(index) == 0
    app.run("UPDATE articles SET body = 'oak elm ash'")
    assert pending(index) == 1 and right(index) == SyncReport(unchanged=1)


@pytest.mark.parametrize("store_text", [False, True])
def test_a_change_that_changes_nothing_is_unchanged(app: Followed, store_text: bool) -> None:
    """A text that was changed and changed back is no new document."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm ash'), (2, '')")
    index = app.index(store_text=store_text)
    index.follow("articles")
    index.sync()
    added_at = index.get(1).added_at
    for body in ("fir", "oak elm ash"):
        app.run("UPDATE articles SET body = ? WHERE id = 1", body)
    assert right(index) == SyncReport(unchanged=1)
    assert index.get(1).added_at == added_at


def test_a_condition_and_nulls_decide_which_rows_are_documents(app: Followed) -> None:
    """A row leaves where it no longer meets the condition or its text becomes NULL, and comes back; the condition's columns count
    as changes."""
    index = app.following(where="views > 0 AND lang IS NOT 'xx'")
    app.run("INSERT INTO articles (id, body, views) VALUES (1, 'oak elm', 1), (2, 'oak elm', 0), (3, NULL, 1)")
    right(index)
    assert keys(index) == {1}
    app.run("UPDATE articles SET views = 1 - views")
    right(index)
    assert keys(index) == {2}
    app.run("UPDATE articles SET body = NULL, views = 1")
    assert right(index).deleted == 1
    app.run("UPDATE articles SET body = 'fir yew', lang = CASE id WHEN 3 THEN 'xx' END")
    right(index)
    assert keys(index) == {1, 2}


# ---- what triggers are known to get wrong ------------------------------------------------------------------------------


MIGRATIONS = {
    "new, copied, renamed, as Django does": """
        CREATE TABLE new__articles (id INTEGER PRIMARY KEY, body TEXT, lang TEXT, slug TEXT UNIQUE, views INTEGER, more TEXT);
        INSERT INTO new__articles SELECT *, 'x' FROM articles;
        DROP TABLE articles;
        ALTER TABLE new__articles RENAME TO articles""",
    "renamed away first": """
        ALTER TABLE articles RENAME TO articles_old;
        CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, more TEXT);
        INSERT INTO articles SELECT id, body, 'x' FROM articles_old;
        DROP TABLE articles_old""",
    "renamed away and kept": """
        ALTER TABLE articles RENAME TO articles_old;
        CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT);
        INSERT INTO articles SELECT id, body FROM articles_old""",
}


@pytest.mark.parametrize("legacy", ["OFF", "ON"])
@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_table_that_is_copied_and_renamed(app: Followed, name: str, legacy: str) -> None:
    """A migration never fails because of the triggers; what it and later writes changed is found by the next sync, which makes
    the triggers again and compares all rows."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew'), (3, 'box bay')")
    index.sync()
    app.run(f"PRAGMA legacy_alter_table = {legacy}")
    app.run("\n".join(line.strip() for line in MIGRATIONS[name].splitlines()).strip())
    app.run("UPDATE articles SET body = 'ash ash' WHERE id = 2")
    app.run("DELETE FROM articles WHERE id = 3")
    app.run("INSERT INTO articles (id, body) VALUES (4, 'oak yew')")
    assert any("the triggers on 'articles' were missing" in note for note in index.check().notes)
    report = index.sync()
    assert (report.added, report.replaced, report.deleted, report.unchanged) == (1, 1, 1, 1)
    assert "made anew" in report.compared and report.found == 3
    app.run("UPDATE articles SET body = 'ash box' WHERE id = 1")
    assert right(index).replaced == 1
    if "kept" in name:
        app.run("DELETE FROM articles_old")
        assert pending(index) == 0


def test_the_table_of_pending_keys_was_dropped(app: Followed) -> None:
    """Then the application's writes fail, as those of any table with a broken trigger, until the next sync."""
    index = app.following()
    index.close()
    app.run("DROP TABLE neardup_pending")
    assert "neardup_pending" in app.application.fails("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index = app.index()
    index.sync()
    assert app.run("SELECT count(*) FROM articles") == [[0]]  # a client reads the schema again with its next question
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index.sync()
    assert keys(index) == {1} and index.check().ok


def test_unfollow_takes_the_triggers_first(app: Followed) -> None:
    """Afterwards the application writes as before, no table or trigger is left, the documents stay, and may be changed."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index.sync()
    assert index.unfollow() is True
    assert app.run("SELECT name FROM sqlite_schema WHERE type = 'trigger' OR name LIKE '%pending%'") == []
    app.run("INSERT INTO articles (id, body) VALUES (2, 'fir yew')")
    index.add(7, "box bay")
    assert keys(index) == {1, 7} and index.check().ok and index.stats()["following"] is None
    assert index.unfollow() is False
    with pytest.raises(ParameterError, match="follows no table"):
        index.sync()


def test_what_no_trigger_sees_is_found_by_a_full_comparison(app: Followed) -> None:
    """sync(full=True) finds a text that was written by another way than SQL on the table."""
    index = app.following("CREATE TABLE articles (id INTEGER PRIMARY KEY, body BLOB)")
    app.run("INSERT INTO articles VALUES (1, 'oak elm'), (2, 'fir yew'), (3, 'box bay')")
    index.sync()
    with index.connection.blob_open("main", "articles", "body", 2, True) as blob:
        blob.write(b"ash")
    connection = index.connection
    triggers = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    with connection:
        for event in ("insert", "key", "update", "delete"):
            connection.execute(f"DROP TRIGGER neardup_follow_{event}")
        connection.execute("DELETE FROM articles WHERE id = 3; INSERT INTO articles VALUES (4, 'new')")
        for (text,) in triggers:
            connection.execute(text)
    assert index.sync().total == 0
    report = index.sync(full=True)
    assert (report.replaced, report.added, report.deleted, report.unchanged, report.found) == (1, 1, 1, 1, 3)
    assert report.compared == "full=True"
    right(index)


def test_pending_is_not_wrong(app: Followed) -> None:
    """check() tells what the next sync does, and finds no problem."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew')")
    index.sync()
    app.run("UPDATE articles SET body = 'box bay' WHERE id = 1")
    app.run("INSERT INTO articles (id, body) VALUES (3, 'ash')")
    report = index.check()
    assert report.problems == () and report.notes == ("2 changes of articles are pending: sync() takes them over",)
    assert "note: 2 changes" in str(report)
    app.run("DROP TRIGGER neardup_follow_delete")
    app.run("DELETE FROM articles WHERE id = 2")
    assert index.check().ok and "the triggers on 'articles' were missing" in index.check().notes[0]
    right(index)
    assert keys(index) == {1, 3}


def test_triggers_that_were_made_and_taken_back_are_missing(app: Followed) -> None:
    """Whatever happens to the schema after a nested transaction was taken back, questions do not take the triggers for made."""
    index = app.following(sync="query")
    for number in range(1, 13):
        app.run("DROP TRIGGER neardup_follow_insert")
        with index.transaction(), pytest.raises(ZeroDivisionError), index.transaction():
            assert index.sync().compared
            raise ZeroDivisionError
        for step in range(number):
            app.run(f"CREATE TABLE other_{number}_{step} (x)")
        app.run("INSERT INTO articles (id, body) VALUES (?, 'oak elm')", number)
        assert number in index
    right(index)


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


@pytest.mark.parametrize("end", ["", " WITHOUT ROWID", " STRICT"])
@pytest.mark.parametrize("name", KEYED)
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "where",
    [
        "1) OR (1", "1; DROP TABLE t", "1 -- \n) OR (1", "", "views >", "misspelt = 1", '"misspelt" = 1', "views = ?",
        "views = :x", "1); ATTACH 'evil.db' AS evil; SELECT (1", "$x(') ; ATTACH 'evil.db' AS evil; --')",
        "views IN (SELECT views FROM t)", "EXISTS (SELECT 1)", "views > random()", "body < datetime('now')",
        "body < CURRENT_TIMESTAMP", "mine(views)", "neardup_hamming(1, views)", "t.views = 1", "views AS x", "1 THEN 1 END",
        "views, 1", "/* views", "count(views) > 1", 5, "a\0b",
    ],
)  # fmt: skip
def test_conditions_that_are_refused(app: Followed, where: Any) -> None:
    """What is no expression, or follows from more than the row, is refused, and nothing of it ever runs."""
    app.run("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT, views INTEGER)")
    index = app.index()
    with pytest.raises(ParameterError, match="where="):
        index.follow("t", where=where)
    assert app.run("SELECT name FROM sqlite_schema WHERE type = 'trigger'") == []
    assert app.run("SELECT count(*) FROM t") == [[0]] and not Path("evil.db").exists()


@pytest.mark.parametrize(
    "where",
    [
        "views", "views > 1 OR body LIKE '%;?:@$#%'", "(views > 1)\n-- the end", "id % 2 = 0 /* even */", "views IN (1, 2)",
        "CASE WHEN views THEN 1 END", "json_extract(body, '$.x') IS NULL", "body REGEXP 'x' IS NULL OR 1", "lower(body) = 'x;'",
    ],
)  # fmt: skip
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


# ---- questions that take over first --------------------------------------------------------------------------------------


ASKED: dict[str, Callable[[Index], Any]] = {
    "query": lambda index: [one.key for one in index.query("oak elm")],
    "query_many": lambda index: [one.key for one in index.query_many(["oak elm"])[0]],
    "in": lambda index: [key for key in (1, 2) if key in index],
    "iter": lambda index: list(index),
    "len": lambda index: list(range(1, len(index) + 1)),
    "pairs": lambda index: [*next(iter((p.key_a, p.key_b) for p in index.pairs()), ())],
    "clusters": lambda index: [*index.clusters()[0].keys],
    "get_many": lambda index: [one.key for one in index.get_many([1, 2]) if one is not None],
    "matches": lambda index: [1, *(one.key for one in index.matches(1))],
    "in a transaction": lambda index: _asked_in_transaction(index),
}


def _asked_in_transaction(index: Index) -> list[Any]:
    with index.transaction():
        return [one.key for one in index.query("oak elm")]


@pytest.mark.parametrize("name", ASKED)
def test_every_question_takes_over_first(app: Followed, name: str) -> None:
    """With sync="query" each question sees what the application wrote just before, also after a migration of the table."""
    index = app.following(sync="query")
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'oak elm')")
    assert ASKED[name](index) == [1, 2]
    assert pending(index) == 0
    app.run("UPDATE articles SET body = 'fir' WHERE id = 2")
    app.run("DROP TABLE articles")
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'oak elm fir'), (3, 'yew')")
    app.run("DELETE FROM articles WHERE id = 3")
    assert ASKED[name](index) == [1, 2]


def test_threads_that_ask_while_the_application_writes(app: Followed) -> None:
    """Each question of each thread sees every write that had ended before it was asked; nothing is lost between them."""
    index = app.following(sync="query")
    written = [0]

    def ask() -> None:
        while (known := written[0]) < 40:
            assert len(index) >= known
            assert known == 0 or [one.key for one in index.query(f"word{known} oak elm", limit=1)] == [known]

    def write() -> None:
        for number in range(1, 41):
            app.run("INSERT INTO articles (id, body) VALUES (?, ?)", number, f"word{number} oak elm")
            written[0] = number

    run_threads(write, ask, ask, ask)
    right(index)
    assert keys(index) == set(range(1, 41))


def test_questions_of_a_reader_only(app: Followed) -> None:
    """With read_only a question takes over nothing and is answered as of the last sync; sync is refused."""
    app.following(sync="query").close()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index = app.index(read_only=True)
    assert index.query("oak elm") == [] and index.stats()["following"]["pending"] == 1
    with pytest.raises(ReadOnlyError):
        index.sync()
    with pytest.raises(ReadOnlyError):
        index.unfollow()


def test_how_questions_go_is_changed_by_follow(app: Followed) -> None:
    """follow again with another `sync` compares nothing, and holds for an index that is open elsewhere."""
    index = app.following()
    other = app.index()
    other.follow("articles", sync="query")
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    assert index.stats()["following"]["sync"] == "query" and not index.stats()["following"]["all_rows"]
    assert [one.key for one in index.query("oak elm")] == [1]
    index.follow("articles")
    app.run("DELETE FROM articles")
    assert len(index) == 1 and other.stats()["following"]["sync"] is None
    app.run("INSERT INTO articles (id, body) VALUES (2, 'oak elm')")
    assert [len(index), len(other)] == [1, 1]


# ---- files -------------------------------------------------------------------------------------------------------------


def test_rebuild_backup_and_compact_keep_following(app: Followed, tmp_path: Path) -> None:
    """The following outlives them, in the copy too."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'oak elm fir')")
    index.sync()
    app.run("DELETE FROM articles WHERE id = 1")
    index.rebuild(record_matches=False)
    index.compact()
    index.backup(tmp_path / "copy.db")
    right(index)
    with Index(tmp_path / "copy.db") as copy:
        assert copy.stats()["following"]["pending"] == 1 and right(copy).deleted == 1


@pytest.mark.parametrize(
    "damage",
    [
        "CREATE TRIGGER evil AFTER DELETE ON neardup_pending BEGIN DELETE FROM neardup_document; END",
        "DROP TABLE neardup_pending;\nCREATE TABLE neardup_pending (id INTEGER PRIMARY KEY, key AS (1))",
        "DROP TABLE neardup_pending;\nCREATE VIEW neardup_pending AS SELECT 1 AS id, 2 AS key",
    ],
)
def test_a_table_of_pending_keys_that_runs_code(app: Followed, damage: str) -> None:
    """It is refused when the file is opened by its path, as every table of an index is."""
    app.following().close()
    app.run(damage)
    with pytest.raises(FormatError, match="neardup_pending"):
        app.index()


def test_a_condition_that_somebody_wrote_into_the_file(app: Followed) -> None:
    """It is judged again whenever it is read: nothing but a condition on a row ever runs."""
    index = app.following(where="views = 0")
    app.run("UPDATE neardup_setting SET value = '1) UNION SELECT (1' WHERE name = 'follow.where'")
    app.run("UPDATE neardup_setting SET value = value + 1 WHERE name = 'generation'")
    with pytest.raises(MismatchError, match="where="):
        index.sync()
    app.run("UPDATE neardup_setting SET value = 5 WHERE name = 'follow.where'")
    app.run("UPDATE neardup_setting SET value = value + 1 WHERE name = 'generation'")
    with pytest.raises(NearDupError, match=r"the setting follow\.where is 5"):
        index.sync()


def test_text_rules_with_functions_of_the_caller(app: Followed) -> None:
    """A tokenizer of the application's runs in its own thread, as with add_many."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak,elm,ash'), (2, 'oak,elm,fir')")
    with Index(app.path, SETS, text=TextRules(tokens=split_commas, shingle=1), attach=True) as index:
        index.follow("articles")
        right(index)
        assert [one.key for one in index.query("oak,elm,ash")] == [1, 2]


def split_commas(text: str) -> list[str]:
    """A tokenizer that a file can remember by its name."""
    return text.split(",")


# ---- the command line ----------------------------------------------------------------------------------------------------


def neardup(*words: object) -> tuple[int, str]:
    """Exit code and output of a command."""
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="neardup")
    return done.exit_code, done.output


def test_commands(app: Followed) -> None:
    """follow makes an index beside the application's tables and takes its rows over; sync goes on; unfollow ends it."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (body, lang) VALUES ('oak elm ash', 'en'), ('oak elm ash', 'en'), ('fir', 'de'), (x'00', 'en')")
    how = ("--where", "lang = 'en'", "--group", "lang", "--shingle", 1)
    code, told = neardup("follow", app.path, "articles", *how)
    assert code == 0, told
    assert "row 4 skipped: body=b'\\x00' is stored as BLOB, not as text: store text" in told
    assert "all rows were compared (neardup follow was called): 2 documents differed" in told
    assert "2 documents added, 0 replaced, 0 deleted, 0 unchanged, 1 skipped; 1 with a near-duplicate" in told
    app.run("DELETE FROM articles WHERE id = 2")
    code, told = neardup("sync", app.path, "--json")
    assert code == 0 and json.loads(told)["deleted"] == 1
    code, told = neardup("sync", app.path, "--full", "--limit", 1)
    assert code == 0 and "more is pending: run neardup sync again" in told
    code, told = neardup("check", app.path)
    assert code == 0 and "note: all rows of articles are to be compared (full=True): neardup sync does it" in told
    assert json.loads(neardup("stats", app.path, "--json")[1])["following"]["table"] == "articles"
    assert neardup("unfollow", app.path) == (0, "follows no table any more\n")
    assert neardup("unfollow", app.path, "--json") == (1, '{"unfollowed": false}\n')
    code, told = neardup("follow", app.path, "articles", "--name", "other", "--later", "--scheme", "simhash", "--sync", "query")
    assert code == 0 and "more is pending" in told
    assert neardup("query", app.path, "--name", "other", "fir")[1].startswith("1.0000")


def test_what_commands_refuse(app: Followed) -> None:
    """The errors are those of the index, in the words of the command line."""
    app.run(PLAIN)
    missing = app.path.with_name("missing.db")
    code, told = neardup("follow", missing, "articles")
    assert code == 2 and told == f"neardup: {missing}: no such file; give the database that has the table 'articles'\n"
    assert not missing.exists()
    code, told = neardup("follow", app.path, "article")
    assert code == 2 and "has no table 'article': give the name of one" in told
    code, told = neardup("follow", app.path, "articles", "--text", "bodies")
    assert code == 2 and "--text 'bodies': 'articles' has no such column" in told
    assert app.run("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'") == [["articles"]]
    app.index().close()
    code, told = neardup("sync", app.path)
    assert code == 2 and "follows no table: run neardup follow" in told
    code, told = neardup("follow", app.path, "articles", "--threshold", 0.5, "--exact", "--shingle", 1, "--num-perm", 64)
    code, told = neardup("delete", app.path, "1")
    assert code == 2 and "write to the table and call neardup sync, or call neardup unfollow first" in told


# ---- the example -------------------------------------------------------------------------------------------------------


def test_the_example_shows_itself() -> None:
    """It takes a table over, and then what has changed in it."""
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.splitlines()
    added, left = int(first.split()[0]), int(second.split()[4])
    assert first == f"{added} added, 0 replaced, 0 deleted" and added > 300
    assert second == f"0 added, 0 replaced, {left} deleted" and left == (added + 1) // 2
    before, after = int(third.split()[0]), int(third.split()[-1])
    assert 0 < after < before


def test_the_example_beside_an_application(app: Followed) -> None:
    """Its clusters have the application's columns, and what the application writes between two runs is in the second."""
    text = "the ferry to the northern islands was cancelled on monday because of a storm that closed the harbour"
    app.run('CREATE TABLE "my articles" ("the id" INTEGER PRIMARY KEY, body TEXT, title TEXT)')
    for title in ("a", "b", "c"):
        app.run('INSERT INTO "my articles" (body, title) VALUES (?, ?)', text if title != "c" else "another one", title)
    command = [sys.executable, EXAMPLE, app.path, "my articles", "--key", "the id"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == ["3 added, 0 replaced, 0 deleted", "2", f"  (1, '{text}', 'a')", f"  (2, '{text}', 'b')"]
    app.run('UPDATE "my articles" SET title = upper(title)')
    app.run('UPDATE "my articles" SET body = ? WHERE title = ?', text + ".", "C")
    app.run("""INSERT INTO "my articles" (body, title) VALUES (x'00', 'D')""")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == ["0 added, 1 replaced, 0 deleted", "3"]
    assert "row 4 is left out: body=b'\\x00' is stored as BLOB" in done.stderr and "'C')" in done.stdout
