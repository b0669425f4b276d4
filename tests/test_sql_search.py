"""Indexes made by hand, from the migrations and literal settings: keys, the shared SQL, and similarities."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import apsw
import pytest
import xxhash
from by_hand import TEXT_RULES, refused, sql_file

NOW = 1_700_000_000_000
COMMON: dict[str, Any] = {"schema_version": 2, "algorithm_version": 1, "generation": 1, "created_at": NOW, "store_text": 0}
MINHASH: dict[str, Any] = {
    "scheme": "minhash", "plan": "bands", "num_perm": 128, "bands": 40, "rows": 3, "slot_bits": 16, "family": "affine32",
    "seed": 1, "evidence": "none", "threshold": 0.6,
}  # fmt: skip
BOTTOMK: dict[str, Any] = {"scheme": "bottomk", "plan": "prefix", "k": 16, "threshold": 0.5, "measure": "fingerprint"}


def create(db: apsw.Connection, index: str, settings: dict[str, Any], table: str | None = None) -> None:
    db.execute(sql_file("migrations", "0002_index", index))
    if table is not None:
        db.execute(sql_file("migrations", f"0002_{table}", index))
    rows = (COMMON | settings).items()
    db.executemany(f"INSERT INTO {index}_setting VALUES (?, ?)", rows)


def add(
    db: apsw.Connection,
    index: str,
    key: Any,
    value: bytes | None,
    *,
    group: int = 0,
    expires: int | None = None,
    text: str | None = None,
) -> None:
    """A document, its fingerprint stored once."""
    fingerprint = None
    if value is not None:
        value_hash = struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(value)))[0]
        found = f"SELECT id FROM {index}_fingerprint WHERE group_id = ? AND value = ?"
        if not db.execute(found, (group, value)).fetchall():
            insert = f"INSERT INTO {index}_fingerprint (group_id, value, value_hash) VALUES (?, ?, ?)"
            db.execute(insert, (group, value, value_hash))
        ((fingerprint,),) = db.execute(found, (group, value)).fetchall()
    db.execute(
        f"INSERT INTO {index}_document (key, group_id, fingerprint_id, added_at, last_seen, times_seen, expires_at, text)"
        " VALUES (?, ?, ?, ?, ?, 1, ?, ?)",
        (key, group, fingerprint, NOW, NOW, expires, text),
    )


def file_keys(db: apsw.Connection, index: str, table: str) -> None:
    sql = f"INSERT INTO {index}_{table} " + sql_file("sql", f"keys_{table}", index)
    db.execute(sql, {"first_id": 1, "last_id": 2**62, "filed": 1})


def search(db: apsw.Connection, index: str, text: Any, *rest: Any) -> list[tuple[Any, ...]]:
    marks = ", ".join("?" * (2 + len(rest)))
    sql = f"SELECT key, similarity, distance, document_id FROM neardup_search({marks})"
    return db.execute(sql, (index, text, *rest)).fetchall()


def test_codes_are_checked(db: apsw.Connection) -> None:
    """Digits, length and type of a code; a threshold looser than the distance names both."""
    create(db, "c", {"scheme": "binarycode", "plan": "scan", "bits": 64, "max_distance": 3}, "code_bucket")
    assert "16 hexadecimal digits, not 15" in refused(db, "SELECT * FROM neardup_search('c', '123456789012345')")
    assert "hexadecimal digits" in refused(db, "SELECT * FROM neardup_search('c', '123456789012345g')")
    assert "8 bytes, not 7" in refused(db, "SELECT * FROM neardup_search('c', x'12345678901234')")
    assert "not an integer" in refused(db, "SELECT * FROM neardup_search('c', 5)")
    message = refused(db, "SELECT * FROM neardup_search('c', '1234567890123456', 0.9)")
    assert "0.9 " in message and "0.953125" in message
    assert search(db, "c", "1234567890123456", 0.953125) == []


# ---- texts ---------------------------------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def hashes(text: str, k: int = 3) -> list[int]:
    words = tokens(text)
    parts = [words[i : i + k] for i in range(len(words) - k + 1)] if len(words) >= k else [words] if words else []
    return sorted({xxhash.xxh3_64_intdigest(" ".join(part).encode()) for part in parts})


def pack(values: list[int]) -> bytes | None:
    return struct.pack(f"<{len(values)}Q", *values) if values else None


def signature(db: apsw.Connection, text: str) -> bytes:
    ((value,),) = db.execute("SELECT neardup_minhash(?)", (text,)).fetchall()
    return value if isinstance(value, bytes) else b""


def test_text_rules_come_from_the_settings(db: apsw.Connection) -> None:
    """Every rule is the file's: stop words, joiner, case, hash, tokens; what they leave equal is equal."""
    rules = {
        "text.normalize": "NFC", "text.case": "lower", "text.shingle": 2, "text.joiner": "-", "text.hash": "fnv1a_64",
        "text.stopwords": json.dumps(["the", "\u00fc\"ber", "a'b"]), "text.strip_accents": 1, "text.short": "drop",
    }  # fmt: skip
    create(db, "t", BOTTOMK | TEXT_RULES | rules, "bottomk_prefix")
    fnv = 0xCBF29CE484222325
    for byte in b"cafe-noir":
        fnv = (fnv ^ byte) * 0x100000001B3 & (2**64 - 1)
    add(db, "t", "k", struct.pack("<Q", fnv))
    file_keys(db, "t", "bottomk_prefix")
    assert search(db, "t", "the CAF\u00c9 the noir") == [("k", 1.0, None, 1)]
    assert search(db, "t", "the noir") == []
    db.execute("UPDATE t_setting SET value = '[\"the\", 5]' WHERE name = 'text.stopwords'")
    db.execute("UPDATE t_setting SET value = 2 WHERE name = 'generation'")
    assert "text.stopwords" in refused(db, "SELECT * FROM neardup_search('t', 'a b c')")


def test_a_text_below_min_tokens_finds_nothing(db: apsw.Connection) -> None:
    """`neardup_search` counts tokens as the index does: fewer than text.min_tokens match nothing, even a stored copy."""
    create(db, "t", BOTTOMK | TEXT_RULES | {"text.min_tokens": 4}, "bottomk_prefix")
    for key in ("one two three", "one two three four"):
        add(db, "t", key, pack(hashes(key)))
    file_keys(db, "t", "bottomk_prefix")
    assert search(db, "t", "one two three") == []
    assert search(db, "t", "One, two, three, four!")[0] == ("one two three four", 1.0, None, 2)


def test_what_is_found_is_visible_and_without_group(db: apsw.Connection) -> None:
    """Documents of a group and expired ones are not found; keys come back as they are; copies come in order of insertion."""
    create(db, "t", BOTTOMK | TEXT_RULES, "bottomk_prefix")
    value = pack(hashes("one two three four"))
    for key, group, expires in [("1", 0, None), (1, 0, 2**52), (b"1", 0, NOW), ("g", 1, None), ("z", 0, None)]:
        add(db, "t", key, value, group=group, expires=expires)
    file_keys(db, "t", "bottomk_prefix")
    assert db.execute("SELECT count(*) FROM t_fingerprint").fetchall() == [(2,)]
    assert search(db, "t", "One two, three four!") == [("1", 1.0, None, 1), (1, 1.0, None, 2), ("z", 1.0, None, 5)]
    assert [len(search(db, "t", "One two, three four!", None, most)) for most in (0, 2, 2**64 // 5 + 1)] == [0, 2, 3]
    assert search(db, "t", None) == search(db, "t", "") == []


def test_search_for_each_row(db: apsw.Connection) -> None:
    """The text may come from another table, and the answer may be joined on."""
    create(db, "t", BOTTOMK | TEXT_RULES, "bottomk_prefix")
    for key in ("one two three", "four five six"):
        add(db, "t", key, pack(hashes(key)))
    file_keys(db, "t", "bottomk_prefix")
    db.execute("CREATE TABLE q(text); INSERT INTO q VALUES ('four FIVE six'), ('x'), ('one, two, three')")
    rows = db.execute("SELECT q.rowid, s.key FROM q LEFT JOIN neardup_search('t', q.text) AS s ORDER BY 1").fetchall()
    assert rows == [(1, "four five six"), (2, None), (3, "one two three")]


def test_a_join_of_ids_below_those_that_are_asked(db: apsw.Connection) -> None:
    """Even of the lowest number there is: nothing is between them, however it is counted."""
    create(db, "t", MINHASH | TEXT_RULES, "minhash_band")
    add(db, "t", "k", signature(db, "a b c"))
    db.execute("UPDATE t_fingerprint SET id = -9223372036854775808")
    assert db.execute("SELECT count(*) FROM neardup_join('t', 5, 9, 0, 0)").get == 0


@pytest.mark.parametrize("crowd", [2**43, 2**62, -(2**62), -(2**63) + 1])
def test_a_label_that_is_no_number_of_a_document_is_damage(db: apsw.Connection, crowd: int) -> None:
    """A join counts large clusters beside fingerprints, below which labels stay."""
    create(db, "t", MINHASH | TEXT_RULES | {"crowds": 1}, "minhash_band")
    for text in ("a b c d e f g h i j k l", "a b c d e f g h i j k m"):
        add(db, "t", text, signature(db, text))
    file_keys(db, "t", "minhash_band")
    db.execute("UPDATE t_minhash_band SET crowd = ? WHERE fingerprint_id = 1", (crowd,))
    assert "is damaged" in refused(db, "SELECT * FROM neardup_join('t', 1, 9, 0, 0)")


# ---- similarity --------------------------------------------------------------------------------------------------------------


def test_similarity_of_stored_values(db: apsw.Connection) -> None:
    """As the scheme of the index measures it; NULL of NULL; damaged values are errors."""
    create(db, "c", {"scheme": "binarycode", "plan": "scan", "bits": 16, "max_distance": 1})
    create(db, "b", BOTTOMK | TEXT_RULES)
    sql = "SELECT neardup_similarity(?, ?, ?)"
    assert db.execute(sql, ("c", b"\x00\xff", b"\x01\xff")).fetchall() == [(0.9375,)]
    assert db.execute(sql, ("b", pack([1, 2, 3]), pack([2, 3, 4]))).fetchall() == [(0.5,)]
    assert db.execute(sql, ("b", None, pack([1]))).fetchall() == [(None,)]
    rows = db.execute("SELECT neardup_similarity(i, ?, ?) FROM (SELECT 'c' AS i UNION ALL SELECT 'c')", (b"ab", b"ab")).fetchall()
    assert rows == [(1.0,), (1.0,)]
    assert "wrong length or order" in refused(db, sql, "c", b"abc", b"ab")
    assert "wrong length or order" in refused(db, sql, "b", pack([2, 1]), pack([1]))
    assert "two texts, or two fingerprints" in refused(db, sql, "c", "ab", b"ab")
    assert "two texts, or two fingerprints" in refused(db, sql, "b", b"ab", 5)
    assert 'no index named "none"' in refused(db, sql, "none", b"ab", b"ab")


@pytest.mark.parametrize("evidence", ["none", "packed"])
def test_similarity_of_texts(db: apsw.Connection, evidence: str) -> None:
    """By the rules and the scheme of the index: equal slots, or the true similarity of an exact one; 0.0 without shingles."""
    create(db, "t", MINHASH | TEXT_RULES | {"evidence": evidence})
    a, b = "a b c d e f g h", "A b c d e f g, X!"
    sql = "SELECT neardup_similarity('t', ?, ?)"
    shared = db.execute("SELECT neardup_slot_share(?, ?, 16)", (signature(db, a), signature(db, b))).fetchall()
    exact = len(set(hashes(a)) & set(hashes(b))) / len(set(hashes(a)) | set(hashes(b)))
    assert db.execute(sql, (a, b)).fetchall() == (shared if evidence == "none" else [(exact,)])
    assert db.execute(sql, (a, a.upper())).fetchall() == [(1.0,)]
    assert db.execute(sql, (a, "...")).fetchall() == db.execute(sql, ("", "")).fetchall() == [(0.0,)]
    assert db.execute(sql, (a, None)).fetchall() == [(None,)]


def test_similarity_of_fingerprints_then_texts(db: apsw.Connection) -> None:
    """One call in a statement may see fingerprints and texts in turn; an index of codes has no texts."""
    create(db, "b", BOTTOMK | TEXT_RULES)
    create(db, "c", {"scheme": "binarycode", "plan": "scan", "bits": 16, "max_distance": 1})
    value = pack(sorted(set(hashes("a b c"))))
    db.execute("CREATE TABLE t(v ANY) STRICT")
    db.execute("INSERT INTO t VALUES (?1), ('a b c'), (?1), ('a b c')", (value,))
    assert db.execute("SELECT neardup_similarity('b', v, v) FROM t").fetchall() == [(1.0,)] * 4
    assert "holds codes" in refused(db, "SELECT neardup_similarity('c', 'abcd', 'abcd')")
