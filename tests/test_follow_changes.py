"""A followed table that is migrated, and the application's table, which is never harmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import apsw
import pytest
from cases import one_test
from followed import PLAIN, Followed, keys, pending, right
from load import steps
from standard import MODULE
from support import SETS, WORDS

from neardup_db import BinaryCode, Index, MismatchError, NearDupError, ParameterError, SyncReport

# ---- the table changes -------------------------------------------------------------------------------------------------


def test_columns_that_come_and_change_their_names(app: Followed) -> None:
    """ADD COLUMN and RENAME of other columns change nothing. A followed column that has another name is told by sync, what is
    pending stays, and follow with the new name goes on."""
    index = app.following(where="views >= 0")
    app.run("INSERT INTO articles (id, body, slug) VALUES (1, 'oak elm', 's')")
    index.sync()
    app.run("ALTER TABLE articles ADD COLUMN more TEXT DEFAULT 'x'")
    app.run('ALTER TABLE articles RENAME COLUMN slug TO "slug 2"')
    app.run("UPDATE articles SET body = 'fir yew'")
    assert right(index) == SyncReport(replaced=1)
    app.run("ALTER TABLE articles RENAME COLUMN body TO content")
    app.run("UPDATE articles SET content = 'box bay'")
    with pytest.raises(MismatchError, match=r"text='body'.* call follow\(\) again"):
        index.sync()
    assert index.check().problems[0].startswith("the followed table is no longer as it was")
    assert pending(index) == 1 and [one.key for one in index.query("fir yew")] == [1]
    index.follow("articles", text="content", where="views >= 0")
    assert index.sync().replaced == 1
    app.run("ALTER TABLE articles RENAME COLUMN views TO seen")
    with pytest.raises(MismatchError, match="where="):
        index.sync()


def test_a_table_with_another_name(app: Followed) -> None:
    """A renamed table is told by sync; its triggers go with it, and follow with the new name goes on."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew')")
    index.sync()
    app.run("ALTER TABLE articles RENAME TO posts")
    app.run("DELETE FROM posts WHERE id = 1")
    with pytest.raises(MismatchError, match="no table 'articles'"):
        index.sync()
    index.close()
    index = app.index()
    index.follow("posts")
    assert index.sync().deleted == 1
    right(index)


def test_a_table_with_another_name_under_the_old_rules(app: Followed) -> None:
    """With legacy_alter_table no write fails either, and follow with the new name goes on."""
    index = app.following()
    app.run("PRAGMA legacy_alter_table = ON")
    app.run("ALTER TABLE articles RENAME TO posts")
    app.run("INSERT INTO posts (id, body) VALUES (1, 'oak elm')")
    index.follow("posts")
    right(index)
    assert keys(index) == {1}


def test_a_table_that_is_dropped(app: Followed) -> None:
    """The documents stay; sync and check say that the table is gone; when it is there again, sync compares all."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew')")
    index.sync()
    app.run("DROP TABLE articles")
    with pytest.raises(MismatchError, match="no table 'articles'"):
        index.sync()
    assert keys(index) == {1, 2} and not index.check(repair=True).ok
    index.close()
    index = app.index()
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (2, 'fir yew')")
    report = index.sync()
    assert (report.deleted, report.unchanged, report.found, report.total) == (1, 1, 1, 1) and "made anew" in report.compared
    app.run("DROP TABLE articles")
    assert index.unfollow() is True and index.check().ok


def test_two_indexes_follow_one_table(app: Followed) -> None:
    """Each has its own pending keys and its own condition."""
    index = app.following()
    other = app.index("other")
    other.follow("articles", where="lang = 'de'")
    app.run("INSERT INTO articles (id, body, lang) VALUES (1, 'oak elm', 'en'), (2, 'fir yew', 'de')")
    right(index)
    assert keys(index) == {1, 2} and keys(other) == set()
    right(other)
    assert keys(other) == {2}
    assert index.unfollow()
    app.run("DELETE FROM articles")
    right(other)
    assert keys(other) == set() and keys(index) == {1, 2}


def test_one_index_follows_one_table(app: Followed) -> None:
    """Another one is refused while the first is there; the same one with another condition is compared anew."""
    index = app.following()
    app.run("CREATE TABLE posts (id INTEGER PRIMARY KEY, body TEXT)")
    with pytest.raises(MismatchError, match=r"follows the table 'articles' already: call unfollow\(\)"):
        index.follow("posts")
    app.run("INSERT INTO articles (id, body, lang) VALUES (1, 'oak elm', 'en'), (2, 'fir yew', 'de')")
    index.sync()
    index.follow("articles")
    assert not index.stats()["following"]["all_rows"]
    index.follow("ARTICLES", where="lang = 'de'")
    assert index.sync().deleted == 1 and keys(index) == {2}


def test_documents_that_are_no_rows_are_not_lost(app: Followed) -> None:
    """An index with documents of its own is refused, because sync would remove them; one whose documents are rows is taken."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew')")
    index = app.index()
    index.add(1, "oak elm", expires_at=7e9)
    index.add("own", "fir yew")
    with pytest.raises(ParameterError, match="documents that are no rows of 'articles', such as 'own'"):
        index.follow("articles")
    index.delete("own")
    index.follow("articles")
    assert index.sync() == SyncReport(added=1, replaced=1, compared="follow() was called", found=2)


HANDS: dict[str, Callable[[Index], Any]] = {
    "add": lambda index: index.add("x", "oak"),
    "add_if_new": lambda index: index.add_if_new("x", "oak"),
    "add_many": lambda index: index.add_many([("x", "oak")]),
    "update": lambda index: index.update(1, metadata=1),
    "delete": lambda index: index.delete(1),
    "delete_many": lambda index: index.delete_many([1]),
    "expire": lambda index: index.expire(),
    "keep_newest": lambda index: index.keep_newest(0),
    "add in a transaction": lambda index: _in_transaction(index),
}


def _in_transaction(index: Index) -> None:
    with index.transaction():
        index.add("x", "oak")


@one_test(name=HANDS)
def test_documents_are_not_changed_by_hand(app: Followed, name: str) -> None:
    """Every such call is refused with the remedy, and changes nothing."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index.sync()
    with pytest.raises(ParameterError, match=r"follows the table 'articles'.*call sync\(\), or call unfollow\(\)"):
        HANDS[name](index)
    assert keys(index) == {1} and index.check().ok


def test_an_index_of_codes_follows_nothing(app: Followed) -> None:
    """Codes are no texts."""
    app.run(PLAIN)
    with Index(app.path, BinaryCode(bits=64), attach=True) as index, pytest.raises(ParameterError, match="takes codes"):
        index.follow("articles")


# ---- the application's table is never harmed ----------------------------------------------------------------------------


OTHERS = {
    "table": ("CREATE TABLE articles_pending (id INTEGER PRIMARY KEY, body TEXT)", "table 'articles_pending'"),
    "view": ("CREATE VIEW Articles_Pending AS SELECT 1", "view 'Articles_Pending'"),
    "index": ("CREATE INDEX articles_pending ON articles (body)", "index 'articles_pending'"),
    "second table": ("CREATE TABLE articles_excluded (key)", "table 'articles_excluded'"),
    "trigger": (
        "CREATE TRIGGER articles_follow_delete AFTER DELETE ON articles BEGIN SELECT 1; END",
        "trigger 'articles_follow_delete'",
    ),
    "trigger of another table": (
        "CREATE TABLE t (x);\nCREATE TRIGGER Articles_Follow_Insert AFTER INSERT ON t BEGIN INSERT INTO t VALUES (NEW.x); END",
        "trigger 'Articles_Follow_Insert'",
    ),
}


@one_test(name=OTHERS)
def test_names_that_the_application_has_taken(app: Followed, name: str) -> None:
    """An object of the application with a name that following needs is refused before anything changes, and stays."""
    app.run(PLAIN)
    app.run(OTHERS[name][0])
    index = app.index("articles")
    before = app.run("SELECT * FROM sqlite_schema")
    with pytest.raises(MismatchError, match=rf"has a {OTHERS[name][1]} that neardup_db did not make.* another name"):
        index.follow("articles")
    assert app.run("SELECT * FROM sqlite_schema") == before and index.stats()["following"] is None
    other = app.index()
    other.follow("articles")
    app.run("INSERT INTO articles (body) VALUES ('oak elm')")
    assert right(other).added == 1


@pytest.mark.parametrize("part", ["pending", "excluded"])
def test_names_that_the_application_takes_later(part: str) -> None:
    """Where the application has put an object of its own in the place of ours, sync refuses, and unfollow leaves it there."""
    connection = apsw.Connection(":memory:")
    connection.execute(PLAIN)
    index = Index(connection, SETS, text=WORDS)
    index.follow("articles")
    connection.execute(f"DROP TABLE neardup_{part}; CREATE TABLE neardup_{part} (key, mine)")
    connection.execute(f"INSERT INTO neardup_{part} VALUES (1, 2)")
    with pytest.raises(MismatchError, match=f"a table 'neardup_{part}' that neardup_db did not make"):
        index.sync()
    assert index.unfollow()
    assert connection.execute(f"SELECT * FROM neardup_{part}").fetchall() == [(1, 2)]
    names = "SELECT name FROM sqlite_schema WHERE type = 'trigger' OR name IN ('neardup_pending', 'neardup_excluded')"
    assert connection.execute(names).fetchall() == [(f"neardup_{part}",)]


def test_temporary_tables_and_triggers_with_our_names() -> None:
    """They hide nothing: sync ends, and takes over what is pending."""
    connection = apsw.Connection(":memory:")
    connection.execute(PLAIN)
    index = Index(connection, SETS, text=WORDS)
    index.follow("articles", sync="query")
    index.sync()
    connection.execute("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, NULL)")
    connection.execute("CREATE TEMP TABLE neardup_pending AS SELECT * FROM neardup_pending")
    connection.execute("CREATE TEMP TABLE neardup_excluded AS SELECT * FROM main.neardup_excluded")
    connection.execute("CREATE TEMP TRIGGER neardup_follow_insert AFTER INSERT ON main.articles BEGIN SELECT 1; END")
    assert keys(index) == {1} and index.stats()["following"]["pending"] == 0
    connection.execute("UPDATE articles SET body = 'fir yew'")
    assert index.sync() == SyncReport(added=1, replaced=1, matched=1)
    index.follow("articles", where="views = 0")
    assert index.sync().complete and index.unfollow()
    assert connection.execute("SELECT count(*) FROM temp.sqlite_schema").get == 3


def test_a_write_costs_the_same_whatever_the_table_has() -> None:
    """Inserts run as many steps of SQLite's machine with 5,000 rows as without, also after a unique index was dropped."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"{PLAIN}; CREATE UNIQUE INDEX langs ON articles (lang)")
    index = Index(connection, SETS, text=WORDS)
    index.follow("articles")
    connection.execute("DROP INDEX langs")

    def insert(count: int = 200) -> None:
        connection.executemany("INSERT INTO articles (body, slug) VALUES (?, NULL)", [("oak",)] * count)

    first = steps(index, insert)
    insert(5000)
    assert abs(steps(index, insert) - first) <= 1


REPLACED = {
    "a rowid without a name": (
        "id TEXT PRIMARY KEY, body TEXT",
        ["INSERT INTO articles VALUES ('a', 'oak elm')"],
        "REPLACE INTO articles (rowid, id, body) VALUES (1, 'b', 'fir yew')",
    ),
    "an index for a moment": (
        "id INTEGER PRIMARY KEY, body TEXT, slug TEXT",
        ["INSERT INTO articles VALUES (1, 'oak elm', 'a')"],
        "CREATE UNIQUE INDEX u ON articles (slug);\nREPLACE INTO articles VALUES (2, 'fir yew', 'a');\nDROP INDEX u",
    ),
}


@one_test(limit=[1, None], name=REPLACED)
def test_rows_that_replace_deletes_without_a_trigger(app: Followed, name: str, limit: int | None) -> None:
    """The number of rows says that one was deleted, and the same sync compares all rows."""
    columns, before, sql = REPLACED[name]
    index = app.following(f"CREATE TABLE articles ({columns})")
    for one in before:
        app.run(one)
    right(index)
    app.run(sql) if name != "an index for a moment" else app.run("\n" + sql)
    report = index.sync(limit)
    while not report.complete:
        report = index.sync(limit)
    assert report.compared == "rows of 'articles' changed without a note, as REPLACE deletes them"
    assert keys(index) == {key for (key,) in app.run("SELECT id FROM articles")} and index.check().problems == ()
    assert index.sync() == SyncReport()


def test_replace_of_rows_that_are_excluded_compares_nothing(app: Followed) -> None:
    """REPLACE by the key itself is the usual way to write a row; of rows that are no documents, too, it costs no comparison."""
    index = app.following(where="views > 0")
    app.run("REPLACE INTO articles (id, body, views) VALUES (1, 'oak elm', 0), (2, 'fir yew', 1), (3, NULL, 1)")
    assert right(index).added == 1
    for _ in range(2):
        app.run("REPLACE INTO articles (id, body, views) VALUES (1, 'oak elm', 0), (2, 'fir yew', 1), (3, NULL, 1)")
        assert right(index) == SyncReport(unchanged=1)
    app.run("UPDATE articles SET views = 1 - views")
    assert right(index) == SyncReport(added=1, deleted=1)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("connection", [apsw.Connection, MODULE.connect])
def test_rows_whose_condition_fails(connection: Any) -> None:
    """Such a row is left out and named, and leaves the index if it was a document; all others go on, in sync, check and
    questions."""
    application = connection(":memory:")
    application.execute("CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, meta TEXT)")
    for number in range(30):
        meta = "no json" if number % 3 == 1 else json.dumps({"shown": number % 2})
        application.execute("INSERT INTO articles VALUES (?, 'oak elm', ?)", (number, meta))
    getattr(application, "commit", int)()
    index = Index(application, SETS, text=WORDS)
    index.follow("articles", where="meta ->> '$.shown' = 1", sync="query")
    report = index.sync()
    shown = {number for number in range(30) if number % 3 != 1 and number % 2}
    assert (report.added, report.skipped, report.complete) == (len(shown), 10, True) and keys(index) == shown
    assert report.problems[0].key == 1 and "malformed JSON" in report.problems[0].reason
    assert index.check().problems == () and index.sync(full=True).found == 0
    application.execute("UPDATE articles SET meta = 'broken' WHERE id IN (3, 4, 6)")
    application.execute("UPDATE articles SET meta = '{\"shown\": 1}' WHERE id IN (1, 2)")
    getattr(application, "commit", int)()
    assert {one.key for one in index.query("oak elm", limit=99)} == shown - {3} | {1, 2}
    assert index.check().problems == () and index.sync() == SyncReport()
    assert index.unfollow()


def test_columns_that_are_followed_may_be_dropped(app: Followed) -> None:
    """DROP COLUMN of the text passes; sync says that the column is gone and takes nothing."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    index.sync()
    app.run("ALTER TABLE articles DROP COLUMN body")
    app.run("UPDATE articles SET views = 2")
    with pytest.raises(MismatchError, match="text='body': 'articles' has no such column"):
        index.sync()
    assert keys(index) == {1}


# ---- how much at once --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("limit", [1, 2, 5, None])
def test_limits_and_pages_change_nothing(app: Followed, limit: int | None) -> None:
    """Taken over in pieces of any size, with writes between two pieces, the documents are the rows in the end."""
    app.run("CREATE TABLE articles (id PRIMARY KEY, body TEXT)")
    for key in (3, 1, "b", "a", b"x", 2, "2"):
        app.run("INSERT INTO articles VALUES (?, 'oak elm ash')", key)
    index = app.index(store_text=True)
    index.follow("articles")
    looked, number = 0, 0
    for number in range(60):
        report = index.sync(limit=limit)
        assert limit is None or report.total + report.unchanged + report.skipped <= limit
        looked += report.added
        if report.complete:
            break
        if number == 2:
            app.run("DELETE FROM articles WHERE id = 1")
            app.run("UPDATE articles SET body = 'fir yew' WHERE id = 'a'")
            app.run("INSERT INTO articles VALUES (0, 'box bay')")
            app.run("UPDATE articles SET id = 'c' WHERE id = 'b'")
    assert report.complete
    right(index)
    rows = {tuple(row) for row in app.run("SELECT typeof(id), CAST(id AS TEXT), body FROM articles")}
    kinds = {int: "integer", str: "text", bytes: "blob"}
    stored = {(kinds[type(key)], key.decode() if isinstance(key, bytes) else str(key), index.get(key).text) for key in index}
    assert stored == rows


def test_a_full_comparison_in_pieces(app: Followed) -> None:
    """sync(full=True, limit=...) goes on where the last call ended, until it is complete."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew'), (3, 'box bay')")
    index.sync()
    app.run("UPDATE articles SET body = 'ash' WHERE id = 3")
    app.run("DELETE FROM neardup_pending")
    reports = [index.sync(full=True, limit=2)]
    while not reports[-1].complete:
        reports.append(index.sync(full=True, limit=2))
        assert len(reports) < 6
    assert sum(report.unchanged for report in reports) == 2 and sum(report.found for report in reports) == 1
    right(index)


@pytest.mark.usefixtures("small_limits")
def test_commit_every_lets_the_application_write(app: Followed) -> None:
    """Between two transactions others write; progress tells how many keys were looked at, and may ask the index."""
    app.run(PLAIN)
    app.run("INSERT INTO articles (body) VALUES " + ", ".join(f"('word{n} oak elm')" for n in range(20)))
    index = app.index()
    index.follow("articles")
    told: list[tuple[int, int]] = []
    report = index.sync(commit_every=5, progress=lambda looked: told.append((looked, len(index))))
    assert (report.added, report.complete) == (20, True)
    assert [looked for looked, _ in told] == sorted(looked for looked, _ in told) and told[-1] == (20, 20)
    assert all(known <= looked for looked, known in told)
    right(index)


def test_an_error_of_progress_takes_everything_back(app: Followed) -> None:
    """What was not committed is pending again."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm'), (2, 'fir yew')")

    def fail(looked: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.sync(progress=fail)
    assert keys(index) == set() and pending(index) == 2
    right(index)


def test_progress_changes_no_documents_by_hand(app: Followed) -> None:
    """In the middle of sync, too, documents are rows only."""
    index = app.following()
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm')")
    with pytest.raises(NearDupError, match="is loading records"):
        index.sync(progress=lambda looked: index.add("x", "oak"))
    right(index)
