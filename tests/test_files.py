"""Files of every released version and schema version open with their settings and answers; the schema is what was released."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cases import one_test
from make_files import CODES, CREATED, DATA, EXPIRES, FEATURES, FILES, TEXTS
from test_package import released

from neardup_db import BinaryCode, Cluster, Index, MinHash, TextRules, __version__
from neardup_db.schemes import SCHEMES
from neardup_db.store.layout.schema import SCHEMA_VERSION

RELEASED = sorted(path for path in DATA.glob("*/*.db") if path.stem in FILES)
VERSIONS = [version for version, _ in released() if version != "0.1.0"]  # a release candidate, whose files are refused
CURRENT = DATA / __version__

EXACT = (19 / 21, None), (20 / 21, None), (19 / 22, None)
BESIDE: dict[str, tuple[tuple[float, int | None], ...]] = {
    # similarity and distance of "first" and "near", "first" and "nearer", "near" and "nearer"; the copies have 1.0
    "simhash": ((61 / 64, 3), (58 / 64, 6), (55 / 64, 9)),
    "minhash": ((115 / 128, None), (121 / 128, None), (110 / 128, None)),
    "minhash-exact": EXACT,
    "minhash-exact-text": EXACT,
    "bottomk": ((60 / 68, None), (62 / 66, None), (60 / 68, None)),
    "bitsampling": ((1 - 14 / 128, 7), (1 - 10 / 128, 5), (1 - 24 / 128, 12)),
}


@pytest.fixture
def copied(tmp_path: Path) -> Any:
    """A copy of a released file, so that the file itself is never written."""

    def copy(path: Path) -> Path:
        return Path(shutil.copyfile(path, tmp_path / path.name))

    return copy


def test_there_are_files_of_every_version() -> None:
    """Each version in the changelog has a file for each scheme and feature; none is large."""
    assert {path.name for path in DATA.iterdir()} == {*VERSIONS}
    for folder in DATA.iterdir():
        assert {path.stem for path in folder.iterdir()} == {*FILES, *FEATURES}, folder.name
    assert {FILES[name]["scheme"].name for name in FILES} == set(SCHEMES)
    assert max(path.stat().st_size for path in DATA.glob("*/*.db")) < 150_000


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_released_file_opens_with_its_settings(copied: Any, path: Path) -> None:
    """Scheme, text rules and options are those that it was made with, every invariant holds, and a write works."""
    arguments = FILES[path.stem]
    with Index(copied(path), arguments["scheme"], text=arguments.get("text")) as index:
        asked = arguments["scheme"].for_index(index.text_rules)
        assert index.scheme.settings().items() >= asked.settings().items()
        assert index.text_rules == arguments.get("text", TextRules())
        settings = index.stats()["settings"]
        assert settings["schema_version"] == SCHEMA_VERSION and settings["created_at"] == CREATED
        assert bool(settings["store_text"]) == arguments.get("store_text", False)
        assert bool(settings["record_matches"]) == arguments.get("record_matches", True)
        assert index.check().problems == ()
        if index.scheme.takes_text:
            index.add("new", "a text that is quite new to all of them")
        else:
            index.add_code("new", 1 << 200)
        assert "new" in index and index.check().problems == ()


@pytest.mark.parametrize(
    "path", [path for path in RELEASED if path.stem in BESIDE], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_released_file_of_texts_answers_as_it_did(copied: Any, path: Path) -> None:
    """Every stored text has the fingerprint that is computed today, and pairs, clusters and documents are the known ones."""
    near, nearer, both = BESIDE[path.stem]
    with Index(copied(path)) as index:
        distance = 0 if index.scheme.takes_codes else None
        for record in TEXTS:
            found = index.query(record["text"], group=record.get("group"))
            if record["key"] == "empty":
                assert found == []
            else:
                assert [(one.key, one.distance) for one in found if one.similarity == 1.0 and one.key == record["key"]] == [
                    (record["key"], distance)
                ]
        pairs = {(one.key_a, one.key_b): (one.similarity, one.distance) for one in index.pairs()}
        assert pairs == {
            ("first", "near"): near, ("copy", "near"): near, ("first", "nearer"): nearer, ("copy", "nearer"): nearer,
            ("near", "nearer"): both, ("first", "copy"): (1.0, distance), ("nfd", "nfc"): (1.0, distance),
        }  # fmt: skip
        assert index.clusters() == [Cluster("first", ("first", "copy", "near", "nearer")), Cluster("nfd", ("nfd", "nfc"))]
        assert list(index) == [record["key"] for record in TEXTS]
        stored = TEXTS[0]["text"] if FILES[path.stem].get("store_text") else None
        code = index.scheme.fingerprint(TEXTS[0]["text"], index.text_rules).tobytes() if index.scheme.takes_codes else None
        first = index.get("first")
        metadata = {"source": "a", "tags": ["x", "ü"]}
        assert (first.group, first.metadata, first.text, first.code) == (None, metadata, stored, code)
        assert (first.added_at, first.last_seen) == ((CREATED + 1) / 1000, (CREATED + 1) / 1000)
        assert (first.times_seen, first.expires_at, first.codes) == (1, None, {} if code is None else {None: code})
        assert index.get("copy").expires_at == EXPIRES
        assert (index.get(42).group, index.get(b"\x00bytes").group) == (7, "other")


@pytest.mark.parametrize("path", sorted(DATA.glob("*/binarycode.db")), ids=lambda path: path.parent.name)
def test_a_released_file_of_codes_answers_as_it_did(copied: Any, path: Path) -> None:
    """The codes within 31 bits of each other are the pairs."""
    with Index(copied(path)) as index:
        pairs = {(one.key_a, one.key_b): one.distance for one in index.pairs()}
        assert pairs == {
            (f"code{a}", f"code{b}"): (CODES[a] ^ CODES[b]).bit_count()
            for a in range(7)
            for b in range(a + 1, 7)
            if (CODES[a] ^ CODES[b]).bit_count() <= 31
        }
        assert len(pairs) == 9 and pairs["code0", "code1"] == 31
        assert index.clusters() == [Cluster("code0", tuple(f"code{number}" for number in range(6)))]
        assert [one.key for one in index.query_code(0, group="g")] == ["code7"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_file_keeps_what_was_done_with_it(copied: Any, version: str) -> None:
    """Its window, a dismissed pair, and what another system has to be told since it last asked."""
    with Index(copied(DATA / version / "features.db")) as index:
        assert index.window == 1000
        assert list(index.dismissed()) == [("first", "nearer")]
        assert {match.key for match in index.matches("first")} == {"copy", "near"}
        assert index.clusters() == [Cluster("first", ("first", "copy", "near", "nearer"))]
        told = index.changes(since=index.connection.execute("SELECT token FROM follower").get)
        assert (told.removed, told.added) == ((), ("empty", "short", "中文", "nfc", -1)) and not told.more
        assert index.add("nfd", TEXTS[-3]["text"])[0].key == "nfc"
        assert index.changes(since=told.token).added == ("nfd",) and index.check().problems == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_file_is_asked_what_contains_a_text(copied: Any, version: str) -> None:
    """All hashes are filed, pages have checksums, and a changed byte is an error."""
    path = copied(DATA / version / "containment.db")
    part = " ".join(TEXTS[0]["text"].split()[:12])
    with Index(path) as index:
        found = [(match.key, match.similarity) for match in index.query(part, measure="containment")]
        assert found == [("first", 1.0), ("copy", 1.0), ("near", 1.0), ("nearer", 1.0)]
        assert index.check().problems == ()
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with Index(path) as index:
        assert any("checksum" in problem for problem in index.check().problems)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_file_has_the_codes_of_each_key(copied: Any, version: str) -> None:
    """Each key has all its codes by their parts, and is found once, by the nearest of them."""
    with Index(copied(DATA / version / "parts.db")) as index:
        assert [[*index.get(key).codes] for key in ("even", "odd")] == [[0, 2, 4, 6], [1, 3, 5, 7]]
        found = [(match.key, match.part, match.distance) for match in index.query_code(CODES[3])]
        assert found == [("odd", 3, 0), ("alone", None, 0), ("even", 0, 1)]
        index.add_code("even", CODES[3], part="late")
        assert index.query_code(CODES[3])[0].part == "late" and index.check().problems == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_released_file_goes_on_following(copied: Any, version: str) -> None:
    """The change that was not taken over is taken over now, and so is one by a program that knows nothing of the package."""
    import sqlite3

    path = copied(DATA / version / "followed.db")
    application = sqlite3.connect(path)
    with application:
        application.execute("DELETE FROM article WHERE id = 1")
    application.close()
    with Index(path, name="news") as index:
        assert index.clusters() == [Cluster(0, (0, 1, 2, 3, 4, 5)), Cluster(9, (9, 10))]
        report = index.sync()
        assert (report.replaced, report.deleted) == (1, 1)
        assert index.clusters() == [Cluster(2, (2, 3, 4, 5)), Cluster(9, (9, 10))] and index.check().problems == ()


def test_a_released_file_can_be_read_without_writing(copied: Any) -> None:
    """A file of the present version is read with read_only=True, and not a byte of it changes."""
    for original in [CURRENT / f"{name}.db" for name in FILES]:
        path = copied(original)
        with Index(path, read_only=True) as index:
            assert index.check().ok
        assert path.read_bytes() == original.read_bytes()


# ---- the schema --------------------------------------------------------------------------------------------------------

CANDIDATE_TABLES = {
    "simhash": "code_bucket",
    "minhash": "minhash_band",
    "minhash-exact": "minhash_band",
    "minhash-exact-text": "minhash_band",
    "bottomk": "bottomk_prefix",
    "bitsampling": "code_bucket",
    "binarycode": "code_bucket",
    "scan": "code_bucket",
}
TABLES = {"neardup_document", "neardup_fingerprint", "neardup_group", "neardup_match", "neardup_setting"}
VIEWS = {"neardup_clusters", "neardup_documents", "neardup_matches", "neardup_settings"}
INDEXES = {
    "neardup_document_cluster",
    "neardup_document_expiry",
    "neardup_document_fingerprint",
    "neardup_fingerprint_value",
    "neardup_match_other",
}


def fresh(name: str) -> Index:
    """An empty index like one of the files."""
    if name == "scan":
        return Index(":memory:", BinaryCode(bits=64, max_distance=31))
    return Index(":memory:", **FILES[name])


@one_test(name=CANDIDATE_TABLES)
def test_tables_views_and_indexes_of_a_scheme(name: str) -> None:
    """Exactly these exist; of the candidate tables only the scheme's own."""
    with fresh(name) as index:
        rows = index.connection.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    own = CANDIDATE_TABLES[name]
    assert {row[1] for row in rows if row[0] == "table"} == TABLES | {f"neardup_{own}"}
    assert {row[1] for row in rows if row[0] == "view"} == VIEWS
    assert {row[1] for row in rows if row[0] == "index"} == INDEXES
    assert {row[0] for row in rows} == {"table", "view", "index"}


@pytest.mark.parametrize("name", FILES)
def test_the_schema_is_the_released_one(copied: Any, name: str) -> None:
    """A fresh index has the schema of the released file to the letter: another one needs another schema version."""
    sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    with fresh(name) as index, Index(copied(CURRENT / f"{name}.db")) as released:
        assert index.connection.execute(sql).fetchall() == released.connection.execute(sql).fetchall()


@one_test(name=CANDIDATE_TABLES)
def test_every_table_is_strict_and_every_column_commented(name: str) -> None:
    """STRICT everywhere, and beside every column a word on what it holds, in the file itself."""
    with fresh(name) as index:
        run = index.connection.execute
        tables = [row[0] for row in run("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        strict = {row[1]: row[5] for row in run("PRAGMA table_list")}
        for table in tables:
            assert strict[table] == 1, table
            text = run("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
            for column in [row[1] for row in run(f"PRAGMA table_xinfo({table})")]:
                assert re.search(rf"^ *{column} [A-Z][^\n]*-- \S", text, re.MULTILINE), f"{table}.{column}"


def test_views_need_nothing_of_ours(copied: Any) -> None:
    """The views can be read by any SQLite, without the extension."""
    import sqlite3

    connection = sqlite3.connect(copied(CURRENT / "minhash.db"))
    assert connection.execute("SELECT added_at, expires_at, \"group\" FROM neardup_documents WHERE key = 'copy'").fetchall() == [
        ("2023-11-14 22:13:20.002", "2100-01-01 00:00:00.000", None)
    ]
    assert connection.execute(
        "SELECT representative, size, group_concat(member, ' ') FROM (SELECT * FROM neardup_clusters ORDER BY member)"
        " GROUP BY cluster ORDER BY size DESC"
    ).fetchall() == [("first", 4, "copy first near nearer"), ("nfd", 2, "nfc nfd")]
    assert ("copy", "first", 1.0) in connection.execute("SELECT key, other_key, similarity FROM neardup_matches").fetchall()
    assert ("threshold", 0.7) in connection.execute("SELECT * FROM neardup_settings").fetchall()
    connection.close()


def test_names_of_an_index_are_its_own(tmp_path: Path) -> None:
    """With another name every table, index and view begins with it."""
    with Index(tmp_path / "a.db", MinHash(), name="Nachrichten_2") as index:
        rows = index.connection.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
        assert {row[0] for row in rows} == {
            name.replace("neardup_", "Nachrichten_2_") for name in TABLES | VIEWS | INDEXES | {"neardup_minhash_band"}
        }
        index.add("a", "one two three")
        assert index.connection.execute("SELECT key FROM Nachrichten_2_documents").get == "a"
