"""check() has a message for every invariant, and repair mends what follows from the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from by_hand import damage
from cases import one_test

from neardup_db import BinaryCode, BottomK, Cluster, CorruptIndexError, Index, MinHash, Passages, TextRules

STORIES = {
    "a": "the harbour was full of small boats that morning",
    "b": "The harbour was full of small boats, that morning!",
    "c": "nobody had told the baker about the new oven in the yard",
    "empty": "...",
    "grouped": "a story of its own in a group of its own",
}
"""a and b have equal fingerprints, c, empty and grouped match nothing. Documents 1 to 5, fingerprints 1 to 3."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with STORIES."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(threshold=0.8), store_text=True, durability="normal") as index:
        index.add_many({"key": k, "text": t, "group": "g" if k == "grouped" else None} for k, t in STORIES.items())
        assert index.check().ok and index.stats()["fingerprints"] == 3
    return path


def answers(index: Index) -> list[Any]:
    """All that an index says about STORIES."""
    asked = [index.query(text, group="g" if key == "grouped" else None) for key, text in STORIES.items()]
    return [list(index), asked, list(index.pairs()), index.clusters(), [index.matches(key) for key in STORIES]]


ORPHAN = "INSERT INTO @fingerprint (group_id, value, value_hash) SELECT 5, value, value_hash FROM @fingerprint LIMIT 1"
FILED_AGAIN = (
    "UPDATE @minhash_band SET crowd = (SELECT f.crowd FROM @fingerprint AS f WHERE f.id = fingerprint_id) "
    "WHERE fingerprint_id = 2"
)
CASES: dict[str, tuple[str, ...]] = {
    # what was done to the file, then the start of every problem that the report must have; `@` stands for `neardup_`
    "integrity": (
        "PRAGMA ignore_check_constraints = ON; UPDATE @document SET metadata = '{' WHERE id = 1",
        "SQLite's integrity check: CHECK constraint failed in @document",
    ),
    "value": ("UPDATE @fingerprint SET value = zeroblob(256) WHERE id = 2", "fingerprints whose value is damaged: 2"),
    "value of another length": (
        "UPDATE @fingerprint SET value = x'00', value_hash = -4262434447396434528 WHERE id = 2",
        "fingerprints whose value is damaged: 2",
    ),
    "hash of a value": (
        "UPDATE @fingerprint SET value_hash = value_hash + 1 WHERE id = 3",
        "fingerprints whose value is damaged: 3",
    ),
    "twice": (
        "INSERT INTO @fingerprint SELECT 9, group_id, value, value_hash, 0 FROM @fingerprint WHERE id = 1; "
        "INSERT INTO @minhash_band SELECT bucket, group_id, 0, 9 FROM @minhash_band WHERE fingerprint_id = 1; "
        "UPDATE @document SET fingerprint_id = 9 WHERE id = 2",
        "fingerprints stored more than once: 1",
    ),
    "orphan": (ORPHAN, "fingerprints that no document has: 4"),
    "fingerprint gone": (
        "DELETE FROM @minhash_band WHERE fingerprint_id = 2; DELETE FROM @fingerprint WHERE id = 2",
        "documents whose fingerprint is missing or of another group: 3",
    ),
    "fingerprint of another group": (
        "INSERT INTO @group VALUES (2, 'h'); UPDATE @fingerprint SET group_id = 2 WHERE id = 2",
        "documents whose fingerprint is missing or of another group: 3",
    ),
    "group gone": ("DELETE FROM @group", "documents whose group has no name: 5"),
    "label gone": (
        "UPDATE @document SET cluster_id = NULL WHERE id = 2",
        "documents with a wrong cluster label: 1",
        "recorded matches that do not join two documents of one cluster: 2-1",
    ),
    "labels of a pair gone": (
        "UPDATE @document SET cluster_id = NULL",
        "recorded matches that do not join two documents of one cluster: 2-1",
    ),
    "label without a cluster": ("UPDATE @document SET cluster_id = id WHERE id = 3", "documents with a wrong cluster label: 3"),
    "text gone": ("UPDATE @document SET text = NULL WHERE id = 4", "documents whose text is missing: 4"),
    "row gone": (
        "DELETE FROM @minhash_band WHERE fingerprint_id = 2 AND bucket = "
        "(SELECT min(bucket) FROM @minhash_band WHERE fingerprint_id = 2)",
        "fingerprints without all their rows in @minhash_band: 2",
    ),
    "all rows gone": ("DELETE FROM @minhash_band", "fingerprints without all their rows in @minhash_band: "),
    "row too many": (
        "INSERT INTO @minhash_band VALUES (12345, 0, 0, 77)",
        "fingerprint ids of rows that no fingerprint has in @minhash_band: 77",
    ),
    "row in another group": (
        "UPDATE @minhash_band SET group_id = 3 WHERE fingerprint_id = 1",
        "fingerprints without all their rows in @minhash_band: 1",
        "fingerprint ids of rows that no fingerprint has in @minhash_band: 1",
    ),
    "match with nobody": (
        "INSERT INTO @match VALUES (99, 1, 1.0, NULL, 0)",
        "recorded matches that do not join two documents of one cluster: 99-1",
    ),
    "match the wrong way round": (
        "UPDATE @match SET document_id = 1, other_id = 2",
        "recorded matches that do not join two documents of one cluster: 1-2",
    ),
    "match across clusters": (
        "INSERT INTO @match VALUES (3, 1, 0.9, NULL, 0)",
        "recorded matches that do not join two documents of one cluster: 3-1",
    ),
    "cluster without a match": ("DELETE FROM @match", "documents that no recorded match connects to their cluster: 2"),
    "cluster too large": (
        "UPDATE @document SET cluster_id = 2 WHERE id = 3",
        "documents that no recorded match connects to their cluster: 3",
    ),
    "cluster torn": (
        "DELETE FROM @match; UPDATE @document SET cluster_id = NULL",
        "documents that match one of another cluster: 1",
    ),
    "match that is no pair": (
        "INSERT INTO @match VALUES (3, 1, 0.9, NULL, 0); UPDATE @document SET cluster_id = 2 WHERE id = 3",
        "documents with a recorded match to one that they do not match: 3",
    ),
    "match of another similarity": (
        "UPDATE @match SET similarity = 0.9",
        "documents with a recorded match of another similarity or distance: 2",
    ),
    "match with a distance": (
        "UPDATE @match SET distance = 3",
        "documents with a recorded match of another similarity or distance: 2",
    ),
    "another text": (
        "UPDATE @document SET text = 'quite another story, put there later' WHERE id = 3",
        "documents whose text is not the one that was fingerprinted: 3",
    ),
    "text of an empty document": (
        "UPDATE @document SET text = 'words that nobody has fingerprinted' WHERE id = 4",
        "documents whose text is not the one that was fingerprinted: 4",
    ),
    "crowd of nobody": (
        f"UPDATE @fingerprint SET crowd = 7 WHERE id = 2; {FILED_AGAIN}",
        "fingerprints in a crowd that is not their cluster: 2",
    ),
    "crowd of another cluster": (
        f"UPDATE @setting SET value = 1 WHERE name = 'crowds'; UPDATE @fingerprint SET crowd = 1 WHERE id = 2; {FILED_AGAIN}",
        "fingerprints in a crowd that is not their cluster: 2",
    ),
    "crowd without all of its cluster": (
        "UPDATE @setting SET value = 1 WHERE name = 'crowds'; UPDATE @document SET cluster_id = 2 WHERE id = 3; "
        f"UPDATE @fingerprint SET crowd = 2 WHERE id = 2; {FILED_AGAIN}",
        "fingerprints that are not in the crowd of their cluster: 1",
    ),
    "ids counted too low": (
        "UPDATE sqlite_sequence SET seq = 2 WHERE name = '@document'",
        "ids of @document above the highest one ever given: 5",
    ),
    "key that is no Unicode": (
        "UPDATE @document SET key = CAST(x'61ff' AS TEXT) WHERE id = 3",
        "the file holds text that is no Unicode (b'a\\xff'): restore a backup",
    ),
    "group that is no Unicode": (
        "UPDATE @group SET name = CAST(x'61ff' AS TEXT)",
        "the file holds text that is no Unicode (b'a\\xff'): restore a backup",
    ),
    "ids counted in words": (
        "UPDATE sqlite_sequence SET seq = 'many' WHERE name = '@document'",
        "highest ids that are not numbers of the right size: @document 'many'",
    ),
    "ids counted too high": (
        "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = '@fingerprint'",
        "highest ids that are not numbers of the right size: @fingerprint 9223372036854775807",
    ),
    "ids counted to the end": (
        f"UPDATE sqlite_sequence SET seq = {2**62} WHERE name = '@document'",
        f"highest ids that are not numbers of the right size: @document {2**62}",
    ),
    "id beyond": (
        f"UPDATE @document SET id = {2**63 - 1} WHERE id = 5",
        f"ids of @document that are never given (restore a backup): {2**63 - 1}",
    ),
    "fingerprints with ids below and beyond": (
        f"UPDATE @fingerprint SET id = {2**62} WHERE id = 1; UPDATE @document SET fingerprint_id = {2**62} WHERE "
        "fingerprint_id = 1; UPDATE @fingerprint SET id = -7 WHERE id = 3; "
        "UPDATE @document SET fingerprint_id = -7 WHERE fingerprint_id = 3",
        f"ids of @fingerprint that are never given (restore a backup): -7, {2**62}",
    ),
    "label counted to the end": (
        f"UPDATE @setting SET value = {-(2**63)} WHERE name = 'next_cluster'",
        f"cluster labels that are never given: {-(2**63)}",
    ),
    "ids not counted": (
        "DELETE FROM sqlite_sequence WHERE name = '@fingerprint'",
        "ids of @fingerprint above the highest one ever given: 3",
    ),
    "label to come": (
        "UPDATE @document SET cluster_id = -4 WHERE id = 3",
        "documents with a cluster label that was never given: 3",
    ),
    "label beyond": (
        "UPDATE @document SET cluster_id = 99 WHERE id = 3",
        "documents with a cluster label that was never given: 3",
    ),
    "index gone": (
        "DROP INDEX @document_fingerprint",
        "tables, indexes or views that are missing or changed: @document_fingerprint",
    ),
    "view gone": ("DROP VIEW @clusters", "tables, indexes or views that are missing or changed: @clusters"),
    "another view": (
        "DROP VIEW @matches; CREATE VIEW @matches AS SELECT 1",
        "tables, indexes or views that are missing or changed: @matches",
    ),
    "row missing from an index": (
        "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name = '@document_cluster'; "
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = '@document_cluster'; "
        "PRAGMA writable_schema = RESET; UPDATE @document SET cluster_id = 1 WHERE id = 3; "
        "UPDATE @document SET cluster_id = 3 WHERE id = 3; DELETE FROM @document WHERE id = 5; "
        "INSERT INTO @document SELECT 5, 'grouped', 1, 3, 5, 10, 0, 0, 1, NULL, NULL, "
        f"'{STORIES['grouped']}'; UPDATE @document SET id = id + 1 WHERE id = 5; "
        "UPDATE @document SET cluster_id = 6 WHERE id = 6; "
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema = RESET",
        "SQLite's integrity check: row 5 missing from index @document_cluster",
    ),
}
NOT_MENDED = {
    "integrity", "group gone", "text gone", "another text", "text of an empty document",
    "key that is no Unicode", "group that is no Unicode", "id beyond", "fingerprints with ids below and beyond",
}  # fmt: skip


@one_test(case=CASES)
def test_every_damage_has_its_message(path: Path, case: str) -> None:
    """check() names the damage and its documents; repair=True mends what can be computed, and reports what it cannot."""
    sql, *says = CASES[case]
    mended = case not in NOT_MENDED
    damage(path, sql)
    with Index(path) as index:
        report = index.check()
        assert not report.ok and not report and report.repaired == ()
        for start in says:
            start = start.replace("@", "neardup_")
            assert any(problem.startswith(start) for problem in report.problems), report.problems
        assert index.check().problems == report.problems  # looking changes nothing
        after = index.check(repair=True)
        assert after.ok == mended, after.problems
        assert after.repaired or case.startswith(("id ", "fingerprints with ids"))
        if mended:
            with Index(":memory:", MinHash(threshold=0.8), store_text=True) as fresh:
                fresh.add_many({"key": k, "text": t, "group": "g" if k == "grouped" else None} for k, t in STORIES.items())
                assert answers(index) == answers(fresh)
            assert index.check() == index.check(repair=True)
            index.add("later", STORIES["c"])
            assert index.check().ok


def test_a_sound_index_is_not_repaired(path: Path) -> None:
    """repair=True does nothing where every invariant holds."""
    with Index(path) as index:
        report = index.check(repair=True)
        assert report.ok and report and report.problems == () and report.repaired == ()


def test_labels_where_matches_are_not_recorded(tmp_path: Path) -> None:
    """With record_matches=False a cluster label is damage."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(), record_matches=False) as index:
        index.add("a", STORIES["a"])
    damage(path, "UPDATE neardup_document SET cluster_id = 5")
    with Index(path) as index:
        assert index.check().problems == ("documents with a wrong cluster label: 1",)
        assert index.check(repair=True).ok


def test_a_repair_is_seen_by_others(path: Path) -> None:
    """An index that is open elsewhere goes on with what a repair has made."""
    damage(path, "DELETE FROM neardup_minhash_band")
    with Index(path) as other, Index(path) as index:
        assert other.query(STORIES["c"]) == []
        assert index.check(repair=True).ok
        assert [one.key for one in other.query(STORIES["c"])] == ["c"]


@one_test(
    ("scheme", "table"),
    [
        (MinHash(), "minhash_band"),
        (MinHash(exact=True), "minhash_band"),
        (BottomK(), "bottomk_prefix"),
        (Passages(shortest=3), "passage_hash"),
    ],
)
def test_the_rows_of_every_table(tmp_path: Path, scheme: Any, table: str) -> None:
    """Missing and foreign rows are found and mended in the candidate table of every scheme."""
    path = tmp_path / "index.db"
    with Index(path, scheme, durability="normal") as index:
        index.add_many(enumerate(STORIES.values()))
        assert index.check().ok
        fingerprints = index.stats()["fingerprints"]
        before = index.connection.execute(f"SELECT * FROM neardup_{table}").fetchall()
    damage(path, f"DELETE FROM neardup_{table} WHERE fingerprint_id = 1")
    damage(path, f"UPDATE neardup_{table} SET fingerprint_id = 77 WHERE fingerprint_id = 2")
    with Index(path) as index:
        assert [problem.split(":")[0] for problem in index.check().problems] == [
            f"fingerprints without all their rows in neardup_{table}",
            f"fingerprint ids of rows that no fingerprint has in neardup_{table}",
        ]
        assert index.check(repair=True).ok and index.stats()["fingerprints"] == fingerprints
        assert index.connection.execute(f"SELECT * FROM neardup_{table}").fetchall() == before


def test_a_fingerprint_lost_with_its_text_stays_lost(tmp_path: Path) -> None:
    """Without texts a damaged fingerprint cannot be made again: all else is mended, its document is kept and named."""
    path = tmp_path / "index.db"
    with Index(path, MinHash(threshold=0.8), durability="normal") as index:
        index.add_many(STORIES.items())
    for sql in ("UPDATE neardup_fingerprint SET value = x'01' WHERE id = 2", "DELETE FROM neardup_fingerprint WHERE id = 3"):
        damage(path, sql)
    damage(path, "DELETE FROM neardup_minhash_band WHERE fingerprint_id = 1")
    with Index(path) as index:
        report = index.check(repair=True)
        lost = "2 documents have lost their fingerprint and match nothing, add them again: 'c', 'grouped'"
        assert report.problems == (lost,)
        assert list(index) == list(STORIES)
        assert [one.key for one in index.query(STORIES["a"])] == ["a", "b"] and index.query(STORIES["c"]) == []
        assert index.clusters() == [Cluster("a", ("a", "b"))]
        assert index.add("c", STORIES["c"], if_exists="replace") == [] and index.delete("grouped")
        assert index.check().ok and [one.key for one in index.query(STORIES["c"])] == ["c"]


def test_damage_in_use_is_an_error_and_no_crash(path: Path) -> None:
    """What reads a damaged fingerprint says so: CorruptIndexError with the remedy."""
    with Index(path) as index:
        index.add("like a", STORIES["a"] + " today")  # all pairs are compared only where buckets are shared
        assert len(list(index.pairs())) == 3
    damage(path, "UPDATE neardup_fingerprint SET value = zeroblob(256) WHERE id = 1")
    with Index(path) as index:
        with pytest.raises(CorruptIndexError, match=r"fingerprint 1 .*damaged, not the one that was written: run check"):
            index.matches("a")
        for call in (lambda: index.query(STORIES["a"]), lambda: list(index.pairs()), lambda: index.add("d", STORIES["a"])):
            with pytest.raises(CorruptIndexError, match=r"run check\(repair=True\)"):
                call()
        assert [one.key for one in index.query(STORIES["c"])] == ["c"]


FLIPPED = [
    (MinHash(threshold=0.8), "minhash"),
    (MinHash(threshold=0.8, exact=True), "minhash, exact"),
    (BottomK(threshold=0.5), "bottomk"),
    (BottomK(threshold=0.5, measure="estimate"), "bottomk, estimate"),
    (BinaryCode(bits=64, max_distance=3), "codes"),
]


@one_test(scheme=[one[0] for one in FLIPPED])
def test_no_bit_that_a_query_compares_flips_unnoticed(tmp_path: Path, scheme: Any) -> None:
    """A query first checks the hash of a fingerprint or of a row of codes: whichever bit has flipped, it is CorruptIndexError."""
    path = tmp_path / "index.db"
    with Index(path, scheme, text=TextRules(shingle=1), durability="normal") as index:
        ask = index.query if scheme.takes_text else index.query_code
        add = index.add if scheme.takes_text else index.add_code
        content: Any = STORIES["a"] if scheme.takes_text else 0
        add("a", content)
        table, column = ("fingerprint", "value") if scheme.takes_text else ("code_bucket", "entries")
        value: bytes = index.connection.execute(f"SELECT {column} FROM neardup_{table}").fetchall()[0][0]
        change = f"UPDATE neardup_{table} SET {column} = ?"
        for place in range(0, len(value), max(1, len(value) // 40)):
            for bit in (0, 7):
                flipped = bytearray(value)
                flipped[place] ^= 1 << bit
                index.connection.execute(change, (bytes(flipped),))
                with pytest.raises(CorruptIndexError):
                    ask(content)
                with pytest.raises(CorruptIndexError):
                    index.matches("a")
        index.connection.execute(change, (value,))
        assert [one.key for one in ask(content)] == ["a"]
