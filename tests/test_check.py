"""check() has a message for every invariant, and repair mends what follows from the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from neardup_db import BinaryCode, BitSampling, BottomK, Cluster, Index, MinHash, SimHash

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


def damage(path: Path, sql: str) -> None:
    """What somebody did to the file."""
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


ORPHAN = (
    "INSERT INTO neardup_fingerprint (group_id, value, value_hash) SELECT 5, value, value_hash FROM neardup_fingerprint LIMIT 1"
)
CASES: dict[str, tuple[str, list[str], bool]] = {
    # what was done to the file, the start of every problem that the report must have, whether repair mends all
    "integrity": (
        "PRAGMA ignore_check_constraints = ON; UPDATE neardup_document SET metadata = '{' WHERE id = 1",
        ["SQLite's integrity check: CHECK constraint failed in neardup_document"],
        False,
    ),
    "value": (
        "UPDATE neardup_fingerprint SET value = zeroblob(256) WHERE id = 2",
        ["fingerprints whose value is damaged: 2"],
        True,
    ),
    "value of another length": (
        "UPDATE neardup_fingerprint SET value = x'00', value_hash = -4262434447396434528 WHERE id = 2",
        ["fingerprints whose value is damaged: 2"],
        True,
    ),
    "hash of a value": (
        "UPDATE neardup_fingerprint SET value_hash = value_hash + 1 WHERE id = 3",
        ["fingerprints whose value is damaged: 3"],
        True,
    ),
    "twice": (
        "INSERT INTO neardup_fingerprint SELECT 9, group_id, value, value_hash, 0 FROM neardup_fingerprint WHERE id = 1; "
        "INSERT INTO neardup_minhash_band SELECT bucket, group_id, 0, 9 FROM neardup_minhash_band WHERE fingerprint_id = 1; "
        "UPDATE neardup_document SET fingerprint_id = 9 WHERE id = 2",
        ["fingerprints stored more than once: 1"],
        True,
    ),
    "orphan": (ORPHAN, ["fingerprints that no document has: 4"], True),
    "fingerprint gone": (
        "DELETE FROM neardup_minhash_band WHERE fingerprint_id = 2; DELETE FROM neardup_fingerprint WHERE id = 2",
        ["documents whose fingerprint is missing or of another group: 3"],
        True,
    ),
    "fingerprint of another group": (
        "INSERT INTO neardup_group VALUES (2, 'h'); UPDATE neardup_fingerprint SET group_id = 2 WHERE id = 2",
        ["documents whose fingerprint is missing or of another group: 3"],
        True,
    ),
    "group gone": ("DELETE FROM neardup_group", ["documents whose group has no name: 5"], False),
    "label gone": (
        "UPDATE neardup_document SET cluster_id = NULL WHERE id = 3",
        ["documents with a wrong cluster label: 3"],
        True,
    ),
    "text gone": ("UPDATE neardup_document SET text = NULL WHERE id = 4", ["documents whose text is missing: 4"], False),
    "row gone": (
        "DELETE FROM neardup_minhash_band WHERE fingerprint_id = 2 AND bucket = "
        "(SELECT min(bucket) FROM neardup_minhash_band WHERE fingerprint_id = 2)",
        ["fingerprints without all their rows in neardup_minhash_band: 2"],
        True,
    ),
    "all rows gone": (
        "DELETE FROM neardup_minhash_band",
        ["fingerprints without all their rows in neardup_minhash_band: "],
        True,
    ),
    "row too many": (
        "INSERT INTO neardup_minhash_band VALUES (12345, 0, 0, 77)",
        ["fingerprint ids of rows that no fingerprint has in neardup_minhash_band: 77"],
        True,
    ),
    "row in another group": (
        "UPDATE neardup_minhash_band SET group_id = 3 WHERE fingerprint_id = 1",
        [
            "fingerprints without all their rows in neardup_minhash_band: 1",
            "fingerprint ids of rows that no fingerprint has in neardup_minhash_band: 1",
        ],
        True,
    ),
    "match with nobody": (
        "INSERT INTO neardup_match VALUES (99, 1, 1.0, NULL, 0)",
        ["recorded matches that do not join two documents of one cluster: 99-1"],
        True,
    ),
    "match the wrong way round": (
        "UPDATE neardup_match SET document_id = 1, other_id = 2",
        ["recorded matches that do not join two documents of one cluster: 1-2"],
        True,
    ),
    "match across clusters": (
        "INSERT INTO neardup_match VALUES (3, 1, 0.9, NULL, 0)",
        ["recorded matches that do not join two documents of one cluster: 3-1"],
        True,
    ),
    "cluster without a match": (
        "DELETE FROM neardup_match",
        ["documents that no recorded match connects to their cluster: 2"],
        True,
    ),
    "cluster too large": (
        "UPDATE neardup_document SET cluster_id = 1 WHERE id = 3",
        ["documents that no recorded match connects to their cluster: 3"],
        True,
    ),
    "cluster torn": (
        "DELETE FROM neardup_match; UPDATE neardup_document SET cluster_id = 2 WHERE id = 2",
        ["documents that match one of another cluster: 1"],
        True,
    ),
    "match that is none": (
        "INSERT INTO neardup_match VALUES (3, 1, 0.9, NULL, 0); UPDATE neardup_document SET cluster_id = 1 WHERE id = 3",
        ["documents with a recorded match that is none: 3"],
        True,
    ),
}


@pytest.mark.parametrize(("sql", "says", "mended"), CASES.values(), ids=CASES)
def test_every_damage_has_its_message(path: Path, sql: str, says: list[str], mended: bool) -> None:
    """check() names the damage and its documents; repair=True mends what can be computed, and reports what it cannot."""
    damage(path, sql)
    with Index(path) as index:
        report = index.check()
        assert not report.ok and not report and report.repaired == ()
        for start in says:
            assert any(problem.startswith(start) for problem in report.problems), report.problems
        assert index.check().problems == report.problems  # looking changes nothing
        after = index.check(repair=True)
        assert after.ok == mended, after.problems
        assert after.repaired
        if mended:
            assert index.clusters() == [Cluster("a", ("a", "b"))]
            assert [one.key for one in index.query(STORIES["c"])] == ["c"]
            assert [one.key for one in index.query(STORIES["grouped"], group="g")] == ["grouped"]
            assert index.check() == index.check(repair=True)


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


@pytest.mark.parametrize(
    ("scheme", "table"),
    [
        (SimHash(), "simhash_block"),
        (MinHash(), "minhash_band"),
        (MinHash(exact=True), "minhash_band"),
        (BottomK(), "bottomk_prefix"),
        (BitSampling(bits=64, max_distance=4, chunks=8), "code_chunk"),
        (BinaryCode(128, 10), "simhash_block"),
        (BinaryCode(64, 10), "code_chunk"),
    ],
    ids=repr,
)
def test_the_rows_of_every_table(tmp_path: Path, scheme: Any, table: str) -> None:
    """Missing and foreign rows are found and mended in the candidate table of every scheme."""
    path = tmp_path / "index.db"
    with Index(path, scheme, durability="normal") as index:
        if scheme.takes_text:
            index.add_many(enumerate(STORIES.values()))
        else:
            index.add_codes(range(3), [1, 2, 1 << 60])
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


def test_a_chunk_rows_code_is_checked(tmp_path: Path) -> None:
    """The code beside a chunk is what verification reads: another one there is damage."""
    path = tmp_path / "index.db"
    with Index(path, BinaryCode(64, 10)) as index:
        index.add_codes(range(3), [1, 2, 1 << 60])
    damage(path, "UPDATE neardup_code_chunk SET code = zeroblob(8) WHERE fingerprint_id = 2 AND chunk_no = 0")
    with Index(path) as index:
        assert any("rows in neardup_code_chunk: 2" in problem for problem in index.check().problems)
        assert index.check(repair=True).ok


def test_damage_in_use_is_an_error_and_no_crash(path: Path) -> None:
    """What reads a damaged fingerprint says so: CorruptIndexError with the remedy, or a wrong row is not returned."""
    damage(path, "UPDATE neardup_fingerprint SET value = zeroblob(256) WHERE id = 1")
    with Index(path) as index:
        with pytest.raises(Exception, match=r"fingerprint 1 .*missing or damaged: run check"):
            index.matches("a")
        assert index.query(STORIES["a"]) == []
        assert [one.key for one in index.query(STORIES["c"])] == ["c"]
