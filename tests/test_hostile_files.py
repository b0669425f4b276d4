"""An index file from a stranger is data: nothing in it runs, crashes, hangs or takes memory without bounds."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import apsw
import pytest
from hostile import VALUES
from interpreter import interpreter
from make_files import DATA, FILES

import neardup_db
from neardup_db import CorruptIndexError, FormatError, Index, MinHash, NearDupError, __version__

CURRENT = DATA / __version__
TEXT = "the harbour was full of small boats that morning and nobody had told the baker"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one document."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(threshold=0.8), store_text=True, durability="normal") as index:
        index.add("a", TEXT)
    return path


def craft(path: Path, sql: str) -> None:
    """What a stranger wrote into the file, the schema too."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON; PRAGMA ignore_check_constraints = ON")
    connection.execute(sql)
    connection.close()


# ---- bytes -----------------------------------------------------------------------------------------------------------------


def test_mangled_files_are_errors_and_nothing_worse(tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """Bits, bytes, pages and values of any type changed in a file of each scheme: all that can be called gives an answer or an
    error of the package, each file within a minute and 1 GB; no crash. 3,000 files a scheme in the long run."""
    count = 3000 if long_run else 40 if more_rounds else 3
    files = [CURRENT / f"{name}.db" for name in FILES]
    command = [*interpreter(), Path(__file__).with_name("hostile.py"), tmp_path, "0", str(count), *files]
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last}, exit code {done.returncode}\n{done.stderr[-3000:]}"
    assert last == [f"{files[-1].stem} {count - 1}"]


WRONG: dict[str, tuple[str, str, str]] = {
    # table, column and value, as SQL, that no STRICT table takes; what is asked then is below
    "expiry": ("neardup_document", "expires_at", "x'00'"),
    "time": ("neardup_document", "added_at", "'yesterday'"),
    "metadata": ("neardup_document", "metadata", "'{'"),
    "key that is no Unicode": ("neardup_document", "key", "CAST(x'61ff' AS TEXT) WHERE id = 1"),
    "cluster": ("neardup_document", "cluster_id", "'c'"),
    "fingerprint": ("neardup_document", "fingerprint_id", "'f'"),
    "group": ("neardup_document", "group_id", "x''"),
    "end of a match": ("neardup_match", "other_id", "'d'"),
    "value": ("neardup_fingerprint", "value", "12345"),
    "hash of a value": ("neardup_fingerprint", "value_hash", "'x'"),
    "highest id": ("sqlite_sequence", "seq", "9223372036854775807"),
    "highest id in words": ("sqlite_sequence", "seq", "'many'"),
}


def test_values_of_a_wrong_type_are_damage(path: Path) -> None:
    """Where a number, a time or a text is something else, what reads it says that the index is damaged, as check() does."""
    with Index(path) as index:
        index.add("b", TEXT)
    sound = path.read_bytes()
    for name, change in WRONG.items():
        path.write_bytes(sound)
        assert damaged_calls(path, *change), name


def damaged_calls(path: Path, table: str, column: str, value: str) -> int:
    """How many calls say that the index is damaged where a column has a value that its table does not take."""
    weaker = "replace(replace(replace(sql, 'STRICT, WITHOUT', 'WITHOUT'), ') STRICT', ')'), 'json_valid(metadata)', '1')"
    connection = apsw.Connection(str(path))
    kept = connection.execute("SELECT sql, name FROM sqlite_schema").fetchall()
    craft(path, f"UPDATE sqlite_schema SET sql = {weaker}")
    craft(path, f"UPDATE {table} SET {column} = {value}")
    connection.execute("PRAGMA writable_schema = ON")
    connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", kept)
    connection.close()
    damaged = 0
    with Index(path) as index:
        assert not index.check().ok, (table, column, value)
        for call in (
            lambda: index.get("a"),
            lambda: list(index),
            lambda: index.matches("a"),
            lambda: list(index.pairs()),
            lambda: index.add("c", "an old story of quite another kind"),
            lambda: index.add("a", TEXT, if_exists="replace"),
            lambda: index.delete("b"),
            lambda: index.keep_newest(1),
        ):
            try:
                call()
            except CorruptIndexError:
                damaged += 1
            except NearDupError as error:  # a group or a fingerprint that is not there is an answer
                assert type(error) is not NearDupError, (table, column, value, error)
    return damaged


@pytest.mark.posix("signals")
def test_an_id_far_from_the_others_keeps_nothing_going(path: Path) -> None:
    """Whatever ids a file has, what walks through all fingerprints goes from one that exists to the next."""

    def too_long(*_: object) -> None:
        raise AssertionError("it goes on for ever")

    far = 2**61
    craft(
        path,
        f"UPDATE neardup_fingerprint SET id = {far}; UPDATE neardup_document SET fingerprint_id = {far}; "
        f"UPDATE neardup_minhash_band SET fingerprint_id = {far}; "
        f"UPDATE sqlite_sequence SET seq = {far} WHERE name = 'neardup_fingerprint'",
    )
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    try:
        with Index(path) as index:
            index.add("b", TEXT)
            assert [(one.key_a, one.key_b) for one in index.pairs()] == [("a", "b")]
            assert index.check().ok
            craft(path, "DELETE FROM neardup_match")
            assert index.check(repair=True).ok
            index.rebuild()
            assert [one.keys for one in index.clusters()] == [("a", "b")]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- the schema ------------------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
TRIGGER = "CREATE TRIGGER t AFTER INSERT ON neardup_document BEGIN DELETE FROM neardup_document; END"
DOCUMENT = "WHERE name = 'neardup_document'"
CRAFTED: dict[str, tuple[str, str]] = {
    # what was put into the file, and what is said
    "trigger": (TRIGGER, "trigger 't', which would run with every write to 'neardup_document'"),
    "trigger of a candidate table": (
        f"CREATE TRIGGER t BEFORE DELETE ON neardup_minhash_band BEGIN {ENDLESS}; END",
        "trigger 't', which would run with every write to 'neardup_minhash_band'",
    ),
    "trigger of one column": (
        "CREATE TRIGGER t AFTER UPDATE OF last_seen ON neardup_document BEGIN DELETE FROM neardup_match; END",
        "trigger 't', which would run",
    ),
    "trigger that says it is something else": (
        f"INSERT INTO sqlite_schema VALUES ('table', 'innocent', 'innocent', 0, '{TRIGGER}')",
        "SQLite cannot read the file",
    ),
    "view in the place of a table": (
        f"ALTER TABLE neardup_setting RENAME TO s; CREATE VIEW neardup_setting AS SELECT name, value FROM s, ({ENDLESS})",
        "holds no index named 'neardup'",
    ),
    "view in the place of another": (
        f"DROP TABLE neardup_match; CREATE VIEW neardup_match AS {ENDLESS}",
        "view 'neardup_match' is not the table",
    ),
    "virtual table": (
        "DROP TABLE neardup_match; CREATE VIRTUAL TABLE neardup_match USING fts5(document_id, other_id)",
        "table 'neardup_match' is not the table",
    ),
    "generated column": (
        "DROP TABLE neardup_group; CREATE TABLE neardup_group (id INTEGER PRIMARY KEY, "
        "name ANY NOT NULL UNIQUE, x BLOB AS (zeroblob(1000000000)) STORED) STRICT",
        "table 'neardup_group' is not the table",
    ),
    "generated column in the schema": (
        f"UPDATE sqlite_schema SET sql = replace(sql, 'token_count INTEGER', 'token_count INTEGER AS (1 + 1)') {DOCUMENT}",
        "table 'neardup_document' is not the table",
    ),
    "check": (
        "UPDATE sqlite_schema SET sql = replace(sql, 'json_valid(metadata)', 'length(zeroblob(1000000000))') " + DOCUMENT,
        "table 'neardup_document' is not the table",
    ),
    "default": (
        f"UPDATE sqlite_schema SET sql = replace(sql, 'text TEXT', 'text TEXT DEFAULT (zeroblob(1000000000))') {DOCUMENT}",
        "table 'neardup_document' is not the table",
    ),
    "letters of the name": (
        "DROP TABLE neardup_match; CREATE TABLE NearDup_Match (document_id INTEGER CHECK (zeroblob(1000000000)))",
        "table 'NearDup_Match' is not the table",
    ),
    "index on an expression": (
        "CREATE INDEX i ON neardup_document (zeroblob(id * 10000))",
        "index 'i' on 'neardup_document', which computes an expression with every write",
    ),
    "partial index": (
        "CREATE INDEX i ON neardup_match (similarity) WHERE length(zeroblob(1000000000))",
        "index 'i' on 'neardup_match', which computes an expression with every write",
    ),
    "another index of a known name": (
        "DROP INDEX neardup_document_expiry; "
        "CREATE INDEX neardup_document_expiry ON neardup_document (expires_at) WHERE length(zeroblob(1000000000))",
        "index 'neardup_document_expiry' on 'neardup_document', which computes",
    ),
    "no table": ("DROP TABLE neardup_match", "lacks the table 'neardup_match' of index 'neardup': restore a backup"),
    "no candidate table": ("DROP TABLE neardup_minhash_band", "lacks the table 'neardup_minhash_band'"),
    "no SQL": (f"UPDATE sqlite_schema SET sql = 'CREATE nothing' {DOCUMENT}", "SQLite cannot read the file"),
    "SQL of something else": (
        f"UPDATE sqlite_schema SET sql = 'DROP TABLE neardup_match' {DOCUMENT}",
        "SQLite cannot read the file",
    ),
    "a second statement": (
        "UPDATE sqlite_schema SET sql = sql || '; DELETE FROM neardup_document' WHERE name = 'neardup_fingerprint_value'",
        "SQLite cannot read the file",
    ),
    "a page that is not there": (f"UPDATE sqlite_schema SET rootpage = 99999 {DOCUMENT}", "SQLite cannot read the file"),
    "two of a name": (
        "INSERT INTO sqlite_schema SELECT type, 'innocent', 'innocent', rootpage, sql FROM sqlite_schema " + DOCUMENT,
        "SQLite cannot read the file",
    ),
}


def test_code_in_a_file_is_refused_when_it_is_opened(path: Path) -> None:
    """Triggers, expressions, views and virtual tables in the place of our tables, schemas that contradict themselves: an error
    that names them, whether the file is opened for writing or not, and nothing has run."""
    sound = path.read_bytes()
    for name, (sql, says) in CRAFTED.items():
        path.write_bytes(sound)
        craft(path, sql)
        before = path.read_bytes()
        for read_only in (False, True):
            try:
                Index(path, read_only=read_only).close()
            except (FormatError, CorruptIndexError) as error:
                assert says in str(error), f"{name}: {error}"
            else:
                pytest.fail(f"{name}: the file is opened")
        assert path.read_bytes() == before, name


def test_what_is_refused_is_refused_for_its_code_only(path: Path) -> None:
    """An application's own tables, triggers on them, and indexes on plain columns of ours do not hinder."""
    craft(
        path,
        "CREATE TABLE article (id INTEGER PRIMARY KEY, body TEXT); CREATE TABLE log (what TEXT); "
        "CREATE TRIGGER own AFTER INSERT ON article BEGIN INSERT INTO log SELECT key FROM neardup_document; END; "
        "CREATE INDEX by_time ON neardup_document (added_at); CREATE VIEW v AS SELECT * FROM neardup_document",
    )
    with Index(path) as index:
        index.add("b", "an old story of quite another kind, told once and then forgotten for ever")
        index.connection.execute("INSERT INTO article VALUES (1, 'x')")
        assert index.connection.execute("SELECT what FROM log ORDER BY 1").fetchall() == [("a",), ("b",)]
        assert index.check().ok


def test_whoever_trusts_a_file_gives_the_connection(path: Path) -> None:
    """On a connection that the application opened its own triggers on our tables run."""
    craft(
        path,
        "CREATE TABLE log (what); CREATE TRIGGER t AFTER INSERT ON neardup_document BEGIN INSERT INTO log VALUES (new.key); END",
    )
    connection = apsw.Connection(str(path))
    with Index(connection) as index:
        index.add("b", "an old story of quite another kind, told once and then forgotten for ever")
    assert connection.execute("SELECT what FROM log").fetchall() == [("b",)]
    connection.close()


def test_a_file_is_opened_with_every_guard(path: Path) -> None:
    """Schema not trusted, defensive mode, cell sizes checked, no memory map."""
    with Index(path) as index:
        run = index.connection.execute
        assert [run(f"PRAGMA {name}").get for name in ("trusted_schema", "cell_size_check", "mmap_size")] == [0, 1, 0]
        assert index.connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
        assert index.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1) == 0


READING = [
    "SELECT * FROM neardup_search('neardup', 'text')",
    "SELECT * FROM neardup_probe('neardup', x'00')",
    "SELECT * FROM neardup_filing('neardup', 0, 9)",
    "SELECT * FROM neardup_buckets('neardup', 0, 9, 0)",
    "SELECT * FROM neardup_join('neardup', 0, 9, 0, 0)",
    "SELECT neardup_similarity('neardup', x'00', x'00')",
]


def test_a_schema_cannot_call_what_reads_the_index(path: Path) -> None:
    """Functions that read the database work in a statement and not in a view or a trigger, even where the schema is trusted."""
    connection = apsw.Connection(str(path))
    neardup_db.load(connection)
    connection.execute("PRAGMA trusted_schema = ON; CREATE TABLE x (y)")
    for sql in READING:
        connection.execute(f"CREATE VIEW v AS {sql}; CREATE TRIGGER t AFTER INSERT ON x BEGIN {sql}; END")
        for use in ("SELECT * FROM v", "INSERT INTO x VALUES (1)"):
            with pytest.raises(apsw.SQLError, match=r"unsafe use of.*neardup_" + sql.partition("neardup_")[2].partition("(")[0]):
                connection.execute(use).fetchall()
        connection.execute("DROP VIEW v; DROP TRIGGER t")
    connection.close()


# ---- settings and marks ------------------------------------------------------------------------------------------------------

NUMBERS = [3, 8, 16, 32, 63, 64, 100, 127, 128, 129, 1000, 65535, 65536, 65537, 2**31 - 1, -(2**31), 1e308, -0.5]


@pytest.mark.parametrize("name", FILES)
def test_settings_of_any_kind_are_refused_or_harmless(name: str, tmp_path: Path, more_rounds: bool, long_run: bool) -> None:
    """Each setting of each scheme missing or with any other value: the file is refused, or every question has an answer or an
    error of the package. All values with all settings in the long run, else more than a third of them, or one with each."""
    values = [*VALUES, *NUMBERS]
    steps = (1,) if long_run else (3, 16) if more_rounds else (len(values),)
    path = Path(shutil.copyfile(CURRENT / f"{name}.db", tmp_path / f"{name}.db"))
    connection = apsw.Connection(str(path))
    neardup_db.load(connection)
    settings = connection.execute("SELECT name, value FROM neardup_setting").fetchall()
    refused = 0
    for place, (setting, value) in enumerate(settings):
        for other in [value for number, value in enumerate(values) if any(number % step == place % step for step in steps)]:
            connection.execute("UPDATE neardup_setting SET value = ? WHERE name = ?", (other, setting))
            refused += not answers(connection)
        connection.execute("DELETE FROM neardup_setting WHERE name = ?", (setting,))
        answers(connection)
        connection.execute("INSERT INTO neardup_setting VALUES (?, ?)", (setting, value))
    assert refused > len(settings) // 2 and answers(connection)
    connection.close()


def answers(connection: apsw.Connection) -> bool:
    """Whether the index opens; if so, it is asked this and that."""
    with contextlib.suppress(apsw.Error):
        connection.execute("SELECT count(*) FROM neardup_search('neardup', ?, 0.9)", (TEXT,)).fetchall()
    try:
        index = Index(connection)
    except NearDupError:
        return False
    ask: list[Any] = [lambda: index.query(TEXT), lambda: index.query_code(0), index.stats, lambda: list(index.pairs())]
    for call in (*ask, index.check):
        with contextlib.suppress(NearDupError):
            call()
    return True


def test_application_ids_that_lie(path: Path, tmp_path: Path) -> None:
    """The mark of a file decides nothing about what is in it: the tables do."""
    craft(path, "PRAGMA application_id = 12345")
    with Index(path) as index:
        assert index.check().ok
    craft(path, "DROP TABLE neardup_setting")
    other = tmp_path / "other.db"
    craft(other, f"PRAGMA application_id = {0x4E445550}; CREATE TABLE own (x); INSERT INTO own VALUES (1)")
    with pytest.raises(FormatError, match="holds no index named 'neardup'"):
        Index(other)
    with Index(other, MinHash()) as index:
        assert index.connection.execute("SELECT x FROM own").get == 1 and len(index) == 0
