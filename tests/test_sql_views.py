"""The views for people: what they show, and that they look up what they are asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from cases import one_test
from support import FAR, LATER, PAST, SOON

from neardup_db import BinaryCode, Index

COLUMNS = {
    "documents": [
        "key", "group", "cluster", "token_count", "added_at", "last_seen", "times_seen", "expires_at", "metadata", "text",
        "document_id",
    ],
    "matches": ["key", "other_key", "similarity", "distance", "found_at"],
    "clusters": ["cluster", "size", "representative", "member"],
    "settings": ["name", "value"],
}  # fmt: skip


@pytest.fixture
def codes() -> Iterator[Index]:
    with Index(":memory:", BinaryCode(bits=64, max_distance=1), name="codes") as index:
        yield index


def rows(index: Index, sql: str) -> list[Any]:
    return index.connection.execute(sql).fetchall()


def test_the_views_have_these_columns(codes: Index) -> None:
    """Under the name of the index; nothing of ours is called by them, so they may be read where no schema is trusted."""
    assert {name: [row[1] for row in rows(codes, f"PRAGMA table_info(codes_{name})")] for name in COLUMNS} == COLUMNS
    views = rows(codes, "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name")
    assert views == [(f"codes_{name}",) for name in sorted(COLUMNS)]


def test_documents_are_shown_with_all_that_is_known_of_them(codes: Index) -> None:
    """Keys as they are, group by name, times in UTC to the millisecond, metadata as JSON."""
    codes.add_code("a", 0, metadata={"source": "x"}, expires_at=LATER)
    codes.add_code(7, 1, group="g")
    codes.add_code(b"k", FAR)
    shown = rows(codes, 'SELECT key, "group", cluster, token_count, times_seen, metadata, text, document_id FROM codes_documents')
    assert shown == [
        ("a", None, None, None, 1, '{"source": "x"}', None, 1),
        (7, "g", None, None, 1, None, None, 2),
        (b"k", None, None, None, 1, None, None, 3),
    ]
    ((expires,),) = rows(codes, "SELECT expires_at FROM codes_documents WHERE key = 'a'")
    at = datetime.fromtimestamp(int(LATER * 1000) / 1000, timezone.utc)
    assert abs((datetime.fromisoformat(expires + "+00:00") - at).total_seconds()) <= 0.001
    ((added, stored),) = rows(
        codes, "SELECT v.added_at, d.added_at FROM codes_documents v JOIN codes_document d USING (key) WHERE d.key = 'a'"
    )
    assert datetime.fromisoformat(added + "+00:00").timestamp() * 1000 == pytest.approx(stored, abs=0.6)


def test_only_documents_in_a_cluster_have_its_number(codes: Index) -> None:
    """A document that is alone has none, before others are like it as after they are gone; two clusters never have the same."""
    labels = "SELECT key, cluster FROM codes_documents ORDER BY document_id"
    for key, code in (("a", 0), ("far", FAR)):
        codes.add_code(key, code)
    assert rows(codes, labels) == [("a", None), ("far", None)]
    codes.add_code("b", 1)
    codes.add_codes(["c", "far too"], [1, FAR ^ 1])
    found = dict(rows(codes, labels))
    assert found["a"] == found["b"] == found["c"] is not None
    assert found["far"] == found["far too"] is not None
    assert found["a"] != found["far"]
    codes.delete_many(["a", "far"])
    assert rows(codes, labels) == [("b", found["b"]), ("c", found["c"]), ("far too", None)]
    codes.delete("c")
    codes.add_code("later", FAR ^ 3)
    assert rows(codes, "SELECT member FROM codes_clusters ORDER BY member") == [("far too",), ("later",)]
    assert dict(rows(codes, labels))["b"] is None
    assert codes.check().ok


def test_what_has_expired_is_not_shown(codes: Index) -> None:
    """Neither a document nor its matches nor its place in a cluster; what is to expire later is."""
    codes.add_code("old", 0, expires_at=PAST)
    codes.add_code("a", 0, expires_at=SOON)
    codes.add_code("b", 0)
    codes.add_code("c", 0)
    codes.update("c", expires_at=PAST)
    assert rows(codes, "SELECT key FROM codes_documents") == [("a",), ("b",)]
    assert rows(codes, "SELECT key, other_key, similarity, distance FROM codes_matches") == [("b", "a", 1.0, 0)]
    assert rows(codes, "SELECT size, representative, member FROM codes_clusters ORDER BY member") == [
        (2, "a", "a"),
        (2, "a", "b"),
    ]


def test_clusters_wait_for_expire(codes: Index) -> None:
    """What only an expired document connected is one cluster in the view until expire(); in clusters() and stats() never."""
    for key, code in (("a", 0b00), ("b", 0b00), ("bridge", 0b01), ("c", 0b11), ("d", 0b11)):
        codes.add_code(key, code)
    assert codes.stats()["clusters"] == 1
    codes.update("bridge", expires_at=PAST)
    sizes = "SELECT size, representative FROM codes_clusters WHERE member = representative ORDER BY representative"
    assert rows(codes, sizes) == [(4, "a")]
    assert [cluster.keys for cluster in codes.clusters()] == [("a", "b"), ("c", "d")] and codes.stats()["clusters"] == 2
    codes.expire()
    assert rows(codes, sizes) == [(2, "a"), (2, "c")]
    assert [cluster.keys for cluster in codes.clusters()] == [("a", "b"), ("c", "d")] and codes.stats()["clusters"] == 2


def test_without_recorded_matches_there_is_nothing_to_show() -> None:
    """Matches and clusters are empty, documents are not."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=1), record_matches=False) as index:
        index.add_code("a", 0)
        index.add_code("b", 0)
        assert rows(index, "SELECT * FROM neardup_matches") == rows(index, "SELECT * FROM neardup_clusters") == []
        assert rows(index, "SELECT key, cluster FROM neardup_documents") == [("a", None), ("b", None)]


def test_tables_are_linked_by_declared_keys(codes: Index) -> None:
    """Browsers follow them; none of them is ever violated."""
    links = {
        (table, row[3], row[2], row[4])
        for table in ("codes_document", "codes_match")
        for row in rows(codes, f"PRAGMA foreign_key_list({table})")
    }
    assert links == {
        ("codes_document", "fingerprint_id", "codes_fingerprint", "id"),
        ("codes_match", "document_id", "codes_document", "id"),
        ("codes_match", "other_id", "codes_document", "id"),
    }
    for key, code in enumerate((0, 0, 1, 3, FAR)):
        codes.add_code(key, code, if_exists="replace")
    codes.delete(0)
    assert rows(codes, "PRAGMA foreign_key_check") == []


BY_KEY = "USING INDEX sqlite_autoindex_codes_document_1 (key=?)"
PLANS = {
    "SELECT * FROM codes_documents WHERE key = 'a'": [f"SEARCH d {BY_KEY}"],
    "SELECT * FROM codes_documents WHERE cluster = 5": ["SEARCH d USING INDEX codes_document_cluster (cluster_id=?)"],
    "SELECT * FROM codes_documents ORDER BY document_id DESC LIMIT 20": ["SCAN d"],
    "SELECT * FROM codes_documents LIMIT 20": ["SCAN d"],
    "SELECT * FROM codes_matches WHERE key = 'a'": [f"SEARCH a {BY_KEY}", "SEARCH m USING PRIMARY KEY (document_id=?)"],
    "SELECT * FROM codes_matches WHERE other_key = 'a'": [
        f"SEARCH b {BY_KEY}",
        "SEARCH m USING INDEX codes_match_other (other_id=?)",
    ],
    "SELECT * FROM codes_matches LIMIT 20": ["SCAN m"],
    "SELECT * FROM codes_clusters WHERE cluster = 5": [
        "SEARCH codes_document USING COVERING INDEX codes_document_cluster (cluster_id=?)",
        "SEARCH d USING INDEX codes_document_cluster (cluster_id=?)",
    ],
    "SELECT * FROM codes_clusters WHERE member = representative ORDER BY size DESC LIMIT 20": [
        "SEARCH codes_document USING COVERING INDEX codes_document_cluster (cluster_id>?)",
        "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)",
    ],
}


@one_test(("sql", "expected"), PLANS.items())
def test_views_look_up_and_stream(codes: Index, sql: str, expected: list[str]) -> None:
    """A condition on a key or a cluster is looked up, what has a limit streams, and clusters are counted from an index alone."""
    steps = [row[3] for row in rows(codes, "EXPLAIN QUERY PLAN " + sql)]
    for one in expected:
        assert any(step.startswith(one) for step in steps), steps
    if "ORDER BY size" not in sql:
        assert not [step for step in steps if "TEMP B-TREE" in step]
    scanned = {" ".join(step.split()[:2]) for step in steps if step.startswith("SCAN")}
    assert scanned <= {step for step in expected if step.startswith("SCAN")} | {"SCAN c"}


def test_views_know_the_time_to_the_millisecond(codes: Index) -> None:
    """A document is shown until the millisecond at which it ends, whatever the moment: SQLite has days with a fraction."""
    for name in ("documents", "matches", "clusters"):
        sql = codes.connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (f"codes_{name}",)).get
        clocks = set(re.findall(r"expires_at > (CAST.*? AS INTEGER\))", sql))
        assert len(clocks) == 1 and "julianday('now')" in min(clocks)
        at = min(clocks).replace("julianday('now')", "julianday(m.value / 1000.0, 'unixepoch')")
        moments = json.dumps([1_700_000_000_000 + 86_399_989 * number for number in range(3000)])
        assert rows(codes, f"SELECT m.value, {at} FROM json_each('{moments}') AS m WHERE m.value <> {at}") == []
