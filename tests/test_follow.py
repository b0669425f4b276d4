"""An index that follows a table of the application, whose writes come from Python's sqlite3 in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases import one_test
from click.testing import CliRunner
from followed import PLAIN, Followed, keys, pending, right
from interpreter import interpreter
from load import run_threads
from support import SETS, split

from neardup_db import FormatError, Index, MismatchError, NearDupError, ParameterError, ReadOnlyError, SyncReport, TextRules
from neardup_db.cli import main

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "examples" / "existing_table.py"


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


@one_test(legacy=["OFF", "ON"], name=MIGRATIONS)
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


@one_test(name=ASKED)
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
    app.run("INSERT INTO articles (id, body) VALUES (1, 'oak elm ash'), (2, 'oak elm fir')")
    with Index(app.path, SETS, text=TextRules(tokens=split, shingle=1), attach=True) as index:
        index.follow("articles")
        right(index)
        assert [one.key for one in index.query("oak elm ash")] == [1, 2]


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
    done = subprocess.run([*interpreter(), EXAMPLE], capture_output=True, text=True, check=True)
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
    command = [*interpreter(), EXAMPLE, app.path, "my articles", "--key", "the id"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == ["3 added, 0 replaced, 0 deleted", "2", f"  (1, '{text}', 'a')", f"  (2, '{text}', 'b')"]
    app.run('UPDATE "my articles" SET title = upper(title)')
    app.run('UPDATE "my articles" SET body = ? WHERE title = ?', text + ".", "C")
    app.run("""INSERT INTO "my articles" (body, title) VALUES (x'00', 'D')""")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == ["0 added, 1 replaced, 0 deleted", "3"]
    assert "row 4 is left out: body=b'\\x00' is stored as BLOB" in done.stderr and "'C')" in done.stdout
