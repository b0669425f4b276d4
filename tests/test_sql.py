"""The functions of the SQLite extension that need no index: values, errors, and what may call them."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import shutil
import struct
import subprocess
from typing import Any

import apsw
import pytest
import xxhash
from by_hand import load_extension, refused
from packed import packed, unpacked

import neardup_db
from neardup_db import BinaryCode, Index, MinHash

COUNTS = {
    "containment": (2,), "containment_estimate": (3,), "hamming": (2,), "hashes": (1,), "intact": (2,), "isa": (0,),
    "jaccard": (2, 3), "jaccard_estimate": (3,), "may_match": (5,), "met": (5,), "minhash": (1, 2, 3, 4), "near": (3,),
    "number": (2,), "passage_containment": (3,), "passage_share": (3,), "simhash": (1, 2, 3), "similarity": (3,),
    "slot_share": (3,), "version": (0,),
}  # fmt: skip
"""Scalar functions: the numbers of arguments that each takes."""
SCALARS = {(f"neardup_{name}", count) for name, counts in COUNTS.items() for count in counts}
READERS = {"neardup_may_match", "neardup_met", "neardup_similarity"}
TABLES = {f"neardup_{name}" for name in ["bands", "buckets", "candidates", "entries", "filing", "join"]}
TABLES |= {f"neardup_{name}" for name in ["keys", "nearest", "passages", "probe", "search", "shingles"]}


def one(db: apsw.Connection, sql: str, *values: Any) -> Any:
    rows = db.execute(sql, values).fetchall()
    assert len(rows) == 1 and len(rows[0]) == 1
    return rows[0][0]


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def shingles(text: str, k: int) -> list[str]:
    words = re.findall("[a-z0-9]+", text.lower())
    if len(words) < k:
        return [" ".join(words)] if words else []
    return [" ".join(words[i : i + k]) for i in range(len(words) - k + 1)]


def simhash(text: str, k: int, bits: int) -> bytes | None:
    hashes = [xxhash.xxh3_64_intdigest(s.encode()) for s in shingles(text, k)]
    sums = [sum(1 if h >> (63 - bit) & 1 else -1 for h in hashes) for bit in range(bits)]
    code = int("".join("1" if s > 0 else "0" for s in sums), 2)
    return code.to_bytes(bits // 8, "big") if hashes else None


def listed(db: apsw.Connection) -> tuple[set[Any], set[Any]]:
    """Scalar functions (name, arguments, kind, encoding, flags) and modules that a connection has."""
    functions = set(db.execute("SELECT name, narg, type, enc, flags FROM pragma_function_list WHERE NOT builtin"))
    return functions, set(db.execute("SELECT name FROM pragma_module_list"))


def test_registered_functions_are_exactly_these() -> None:
    """Loading adds these functions and modules with these flags, and nothing else: those that read an index are for direct use
    only, all others give the same for the same and may stand in a schema."""
    deterministic, direct_only, innocuous = 0x800, 0x80000, 0x200000
    db = apsw.Connection(":memory:")
    before = listed(db)
    neardup_db.load(db)
    after = listed(db)
    flags = {True: direct_only, False: deterministic | innocuous}
    expected = {(name, count, "s", "utf8", flags[name in READERS]) for name, count in SCALARS}
    assert after[0] - before[0] == expected
    assert after[1] - before[1] == {(name,) for name in TABLES} | {("nd_sought",), ("nd_values",)}  # internal ones
    assert before[0] <= after[0] and before[1] <= after[1]
    db.close()


def test_only_the_entry_points_are_exported() -> None:
    """Nothing of ours can be taken for a symbol of the host program."""
    if shutil.which("nm") is None:
        return
    command = ["nm", "-D", "--defined-only", str(neardup_db.extension_path())]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in out.stdout.splitlines()]
    assert sorted(name for name in names if not name.startswith("_")) == ["sqlite3_neardup_fork_init", "sqlite3_neardup_init"]


def test_version_is_the_package_s(db: apsw.Connection) -> None:
    """Three numbers, and the tier of kernels has a name."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", one(db, "SELECT neardup_version()"))
    assert one(db, "SELECT neardup_isa()") in ("scalar", "avx2", "avx512", "neon")


def test_hamming(db: apsw.Connection) -> None:
    """Differing bits of two 64-bit patterns or of two blobs; NULL of NULL."""
    cases: list[tuple[Any, Any, int | None]] = [(0, 0, 0), (1, 2, 2), (-1, 0, 64), (-1, 1, 63), (-(2**63), 2**63 - 1, 64)]
    cases += [(b"", b"", 0), (b"\xff\x00", b"\x0f\x01", 5), (b"\xff" * 33, b"\x00" * 33, 264)]
    for a, b, distance in [*cases, (None, 1, None), (b"a", None, None)]:
        assert one(db, "SELECT neardup_hamming(?, ?)", a, b) == distance, (a, b)


def test_hamming_refuses_what_cannot_be_compared(db: apsw.Connection) -> None:
    """Other types and unequal sizes are an error that names the function."""
    for a, b in [(1, b"a"), (b"a", b"ab"), ("a", "b"), (1.0, 2), ("1", 1)]:
        assert "neardup_hamming" in refused(db, "SELECT neardup_hamming(?, ?)", a, b), (a, b)


def test_jaccard(db: apsw.Connection) -> None:
    """Common over all, of unsigned ascending numbers; with a threshold the value or 0.0."""
    for a, b, similarity in [
        (numbers(), numbers(), 0.0),
        (numbers(1), numbers(), 0.0),
        (numbers(1), numbers(1), 1.0),
        (numbers(1, 2, 3, 4, 5, 6, 7), numbers(1, 2, 3, 4, 5, 6, 8), 0.75),
        (numbers(1, 2**63, 2**64 - 1), numbers(2**63, 2**64 - 1), 2 / 3),
    ]:
        assert one(db, "SELECT neardup_jaccard(?, ?)", a, b) == similarity, (a, b)
        assert one(db, "SELECT neardup_jaccard(?, ?, ?)", a, b, 0.0) == similarity, (a, b)
        if similarity:
            assert one(db, "SELECT neardup_jaccard(?, ?, ?)", a, b, similarity) == similarity, (a, b)
        assert one(db, "SELECT neardup_jaccard(?, NULL)", a) is None, (a, b)


def test_jaccard_reads_blobs_wherever_they_stand(db: apsw.Connection) -> None:
    """A blob inside a row begins at any address."""
    db.execute("CREATE TABLE t(pad, value BLOB)")
    for width in range(9):
        db.execute("INSERT INTO t VALUES (?, ?)", ("x" * width, numbers(*range(1, 20))))
    other = numbers(*range(1, 39))
    rows = db.execute("SELECT neardup_jaccard(value, ?), neardup_jaccard_estimate(value, ?, 8) FROM t", (other, other))
    assert rows.fetchall() == [(0.5, 1.0)] * 9


def test_jaccard_refuses_damaged_blobs(db: apsw.Connection) -> None:
    """Half a number, a descent and a repeat are errors on either side."""
    for damaged in [b"1234567", numbers(2, 1), numbers(1, 1), numbers(2**63, 1)]:
        for a, b in ((damaged, numbers(1)), (numbers(1), damaged)):
            assert "ascending" in refused(db, "SELECT neardup_jaccard(?, ?)", a, b), damaged
            assert "ascending" in refused(db, "SELECT neardup_jaccard(?, ?, 0.5)", a, b), damaged
            assert "ascending" in refused(db, "SELECT neardup_jaccard_estimate(?, ?, 3)", a, b), damaged
            assert "ascending" in refused(db, "SELECT neardup_containment(?, ?)", a, b), damaged
            assert "ascending" in refused(db, "SELECT neardup_containment_estimate(?, ?, 3)", a, b), damaged


def test_hashes_are_those_of_a_packed_value(db: apsw.Connection) -> None:
    """64 bits of each, ascending, as the functions of sets take them; what is no packed value is an error."""
    hashes = [5, 2**64 - 1, 77, 1 << 40]
    assert one(db, "SELECT neardup_hashes(?)", packed(hashes)) == unpacked(hashes)
    assert one(db, "SELECT neardup_hashes(NULL)") is None
    for damaged in (b"", packed(hashes)[:-1], packed(hashes)[:-1] + b"\xff", numbers(1, 2)):
        assert "no packed set" in refused(db, "SELECT neardup_hashes(?)", damaged)
    assert "argument 1 must be a blob, not text" in refused(db, "SELECT neardup_hashes('a')")


def test_jaccard_estimate_counts_the_smallest_of_the_union(db: apsw.Connection) -> None:
    """Of the union's k = 4 smallest (1, 2, 3, 4) two are common."""
    a, b = numbers(1, 2, 4, 6), numbers(2, 3, 4, 9)
    assert one(db, "SELECT neardup_jaccard_estimate(?, ?, 4)", a, b) == 0.5
    assert one(db, "SELECT neardup_jaccard_estimate(?, ?, 1)", a, b) == 0.0
    assert "k must be 1" in refused(db, "SELECT neardup_jaccard_estimate(?, ?, 0)", a, b)


def test_containment_is_the_share_of_the_first(db: apsw.Connection) -> None:
    """Two of 1, 2, 4, 6 are in the other; an empty set is contained to 0.0; NULL gives NULL."""
    a, b = numbers(1, 2, 4, 6), numbers(2, 3, 4, 9, 10)
    assert one(db, "SELECT neardup_containment(?, ?)", a, b) == 0.5
    assert one(db, "SELECT neardup_containment(?, ?)", b, a) == 2 / 5
    assert one(db, "SELECT neardup_containment(x'', ?)", a) == 0.0
    assert one(db, "SELECT neardup_containment(?, x'')", a) == 0.0
    assert one(db, "SELECT neardup_containment(?, NULL)", a) is None


def test_containment_estimate_counts_what_both_cover(db: apsw.Connection) -> None:
    """With k = 4 both cover the hashes up to 6; with k = 5 the first is a whole set; nothing covered gives NULL."""
    a, b = numbers(1, 2, 4, 6), numbers(2, 3, 4, 9)
    assert one(db, "SELECT neardup_containment_estimate(?, ?, 4)", a, b) == 0.5
    assert one(db, "SELECT neardup_containment_estimate(?, ?, 4)", a, numbers(1, 2, 3, 4)) == 1.0
    assert one(db, "SELECT neardup_containment_estimate(?, ?, 5)", a, numbers(1, 2, 3, 4)) == 3 / 4
    assert one(db, "SELECT neardup_containment_estimate(?, ?, 2)", numbers(7, 8), numbers(1, 2)) is None
    assert one(db, "SELECT neardup_containment_estimate(?, NULL, 2)", a) is None
    assert "k must be 1" in refused(db, "SELECT neardup_containment_estimate(?, ?, 0)", a, b)


def test_intact_is_the_hash_of_the_value(db: apsw.Connection) -> None:
    """1 for XXH3-64 of the bytes as a signed number; an error for any other number, NULL for NULL."""
    for size in [0, 1, 8, 255, 256, 5000]:
        value = random.Random(size).randbytes(size)
        (signed,) = struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(value)))
        assert one(db, "SELECT neardup_intact(?, ?)", value, signed) == 1, size
        assert "damaged" in refused(db, "SELECT neardup_intact(?, ?)", value, signed ^ 1), size
        assert "damaged" in refused(db, "SELECT neardup_intact(?, ?)", value + b"\0", signed), size
        assert "argument 1 must be a blob" in refused(db, "SELECT neardup_intact('a', ?)", signed), size
        assert "argument 2 must be an integer" in refused(db, "SELECT neardup_intact(?, 1.0)", value), size
        assert one(db, "SELECT neardup_intact(NULL, ?)", signed) is None, size


def test_slot_share(db: apsw.Connection) -> None:
    """Equal slots over slots, at either width of a slot."""
    a, b = struct.pack("<4H", 1, 2, 3, 4), struct.pack("<4H", 1, 9, 3, 4)
    assert one(db, "SELECT neardup_slot_share(?, ?, 16)", a, b) == 0.75
    assert one(db, "SELECT neardup_slot_share(?, ?, 32)", a, b) == 0.5
    assert one(db, "SELECT neardup_slot_share(NULL, ?, 16)", b) is None
    assert "slot_bits" in refused(db, "SELECT neardup_slot_share(?, ?, 24)", a, b)
    assert "8 and 7 bytes" in refused(db, "SELECT neardup_slot_share(?, ?, 16)", a, b[:-1])
    assert "whole" in refused(db, "SELECT neardup_slot_share(?, ?, 32)", a[:6], b[:6])
    assert "must be a blob" in refused(db, "SELECT neardup_slot_share('a', ?, 16)", b)


def test_simhash(db: apsw.Connection) -> None:
    """The sign of the sum of the bits of the shingles' XXH3-64, most significant first; NULL without words."""
    for text in ["", "!?", "one", "One two", "the quick brown fox", "The quick, brown fox jumps over it " * 9]:
        for k, bits in [(3, 64), (1, 64), (2, 32), (4, 8)]:
            expected = simhash(text, k, bits)
            assert one(db, "SELECT neardup_simhash(?, ?, ?)", text, k, bits) == expected, (text, k, bits)
            assert one(db, "SELECT neardup_simhash(?, ?, ?)", text.encode(), k, bits) == expected, (text, k, bits)
            if (k, bits) == (3, 64):
                assert one(db, "SELECT neardup_simhash(?)", text) == expected, (text, k, bits)
                assert one(db, "SELECT neardup_simhash(?, ?)", text, k) == expected, (text, k, bits)


def test_minhash(db: apsw.Connection) -> None:
    """16-bit slots, the same for the same words, near the Jaccard similarity for others; NULL without words."""
    text = "one two three four five six seven eight nine ten"
    signature = one(db, "SELECT neardup_minhash(?)", text)
    assert len(signature) == 256
    assert signature == one(db, "SELECT neardup_minhash(?, 128, 1, 3)", text.upper())
    assert signature != one(db, "SELECT neardup_minhash(?, 128, 2)", text)
    assert len(one(db, "SELECT neardup_minhash(?, 7)", text)) == 14
    assert one(db, "SELECT neardup_minhash('...')") is None
    other = one(db, "SELECT neardup_minhash(?, 4096, 1, 1)", text.replace("ten", "eleven"))
    share = one(db, "SELECT neardup_slot_share(neardup_minhash(?, 4096, 1, 1), ?, 16)", text, other)
    assert abs(share - 9 / 11) < 0.03  # five standard deviations


def test_wrong_arguments_name_the_function(db: apsw.Connection) -> None:
    """An error that says which function was called wrongly."""
    for sql in [
        "SELECT neardup_simhash(1)",
        "SELECT neardup_simhash('a', 0)",
        "SELECT neardup_simhash('a', '3')",
        "SELECT neardup_simhash('a', 3, 12)",
        "SELECT neardup_simhash('a', 3, 72)",
        "SELECT neardup_minhash(2.5)",
        "SELECT neardup_minhash('a', 0)",
        "SELECT neardup_minhash('a', 9223372036854775807)",
        "SELECT neardup_minhash('a', 128, -1)",
        "SELECT neardup_minhash('a', 128, 1, 1001)",
        "SELECT * FROM neardup_shingles(5)",
        "SELECT * FROM neardup_shingles('a', 0)",
        "SELECT * FROM neardup_shingles('a', NULL)",
        "SELECT * FROM neardup_shingles",
        "SELECT * FROM neardup_bands(x'0000', 1)",
        "SELECT * FROM neardup_bands('ab', 1, 1)",
        "SELECT * FROM neardup_bands(x'0000', 1, 2)",
        "SELECT * FROM neardup_bands(x'0000', 65536, 65536)",
        "SELECT * FROM neardup_bands(x'000000', 1, 1)",
        "SELECT * FROM neardup_bands(x'0000', 1, 1, 24)",
    ]:
        match = re.search(r"neardup_\w+", sql)
        assert match is not None and match.group() in refused(db, sql), sql


def test_shingles(db: apsw.Connection) -> None:
    """Each shingle in its place with its XXH3-64, repeats included; k is 3 unless given."""
    text = "A rose is a rose is a rose"
    expected = [
        (s, struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(s.encode())))[0], i)
        for i, s in enumerate(shingles(text, 3))
    ]
    assert db.execute("SELECT * FROM neardup_shingles(?)", (text,)).fetchall() == expected
    assert len(expected) == 6 and expected[0][0] == "a rose is"
    assert db.execute("SELECT shingle FROM neardup_shingles(?, 5)", (b"Two words",)).fetchall() == [("two words",)]
    assert db.execute("SELECT * FROM neardup_shingles(NULL, 2)").fetchall() == []
    assert db.execute("SELECT * FROM neardup_shingles('', 2)").fetchall() == []


def test_shingles_of_each_row_of_a_table(db: apsw.Connection) -> None:
    """The argument may come from a row further left, whichever way round the tables are named."""
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text); INSERT INTO t VALUES (1, 'a b'), (2, 'c d e'), (3, '')")
    expected = [(1, "a b"), (2, "c d"), (2, "d e")]
    assert db.execute("SELECT t.id, s.shingle FROM t, neardup_shingles(t.text, 2) AS s ORDER BY 1, 2").fetchall() == expected
    assert db.execute("SELECT t.id, s.shingle FROM neardup_shingles(t.text, 2) AS s, t ORDER BY 1, 2").fetchall() == expected
    rows = db.execute("SELECT t.id, s.shingle FROM t LEFT JOIN neardup_shingles(t.text, 2) AS s ON true WHERE t.id = 3")
    assert rows.fetchall() == [(3, None)]


def test_inputs_are_columns(db: apsw.Connection) -> None:
    """An input given twice must agree with itself; it can be read back."""
    sql = "SELECT text, k FROM neardup_shingles('a b', 2)"
    assert db.execute(sql).fetchall() == [("a b", 2)]
    assert db.execute(sql + " WHERE text = 'a b'").fetchall() == [("a b", 2)]
    assert db.execute(sql + " WHERE text = 'c d'").fetchall() == []
    rows = db.execute("SELECT shingle FROM neardup_shingles WHERE text IN ('x y', 'z') AND k = 2 ORDER BY 1")
    assert rows.fetchall() == [("x y",), ("z",)]


def test_bands(db: apsw.Connection) -> None:
    """Bucket = low 32 bits of the XXH3-64 of the band's slots, seeded with the band's number, as a signed number."""
    for slot_bits, bands, rows in [(16, 9, 4), (16, 36, 1), (32, 9, 2), (32, 1, 18)]:
        signature = hashlib.sha512(b"any").digest() + b"12345678"
        size = rows * slot_bits // 8
        expected = []
        for band in range(bands):
            bucket = xxhash.xxh3_64_intdigest(signature[band * size : (band + 1) * size], seed=band) & 0xFFFFFFFF
            expected.append((band, bucket - 2**32 if bucket >= 2**31 else bucket))
        assert db.execute("SELECT * FROM neardup_bands(?, ?, ?, ?)", (signature, bands, rows, slot_bits)).fetchall() == expected
        if slot_bits == 16:
            assert db.execute("SELECT * FROM neardup_bands(?, ?, ?)", (signature, bands, rows)).fetchall() == expected
        assert db.execute("SELECT * FROM neardup_bands(NULL, 1, 1)").fetchall() == [], (slot_bits, bands, rows)


def test_pure_functions_work_in_views_triggers_and_indexes(db: apsw.Connection) -> None:
    """They are innocuous and deterministic, so a schema that trusts nothing may use them."""
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("CREATE TABLE t(text, code AS (neardup_simhash(text)) STORED); CREATE INDEX i ON t(neardup_simhash(text))")
    db.execute("CREATE VIEW v AS SELECT s.shingle FROM t, neardup_shingles(t.text, 2) AS s")
    db.execute("INSERT INTO t VALUES ('a b c')")
    assert db.execute("SELECT code FROM t").fetchall() == [(simhash("a b c", 3, 64),)]
    assert db.execute("SELECT * FROM v ORDER BY 1").fetchall() == [("a b",), ("b c",)]


def test_functions_are_registered_twice_without_harm(db: apsw.Connection) -> None:
    """A host may load the extension into a connection that has it."""
    load_extension(db)
    assert one(db, "SELECT neardup_hamming(1, 3)") == 1
    assert len(db.execute("SELECT * FROM neardup_shingles('a b c', 1)").fetchall()) == 3


def random_argument(source: random.Random) -> Any:
    kind = source.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return source.choice([0, 1, 2, 3, 16, 32, 64, -1, 2**63 - 1, -(2**63)])
    if kind == 2:
        return source.choice([0.0, 0.5, 1.0, -1.0, 1e308, float("inf")])
    if kind == 3:
        return source.choice(["", "a", "a b c d", "\0", "\ufffd", "neardup", "x" * 300])
    return source.randbytes(source.choice([0, 1, 2, 7, 8, 9, 16, 32, 63, 64, 256]))


def test_any_arguments_give_a_value_or_an_error(db: apsw.Connection) -> None:
    """200 random argument lists for every function, half of them naming an index: SQLite survives, every error is SQLite's."""
    source = random.Random(20240607)
    inputs = [
        (name, db.execute("SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden", (name,)).get) for name in sorted(TABLES)
    ]
    calls = [(f"SELECT {name}", count) for name, count in sorted(SCALARS)]
    calls += [(f"SELECT * FROM {name}", count) for name, most in inputs for count in range(1, most + 1)]
    for index, scheme in {"neardup": MinHash(threshold=0.5, exact=True), "codes": BinaryCode(bits=64, max_distance=3)}.items():
        with Index(db, scheme, name=index) as made:
            add = made.add if scheme.takes_text else made.add_code
            for key, content in enumerate(("a b c d", "a b c e", "") if scheme.takes_text else (b"\0" * 8, b"\xff" * 8)):
                add(key, content)
    answers = 0
    for head, count in calls:
        sql = f"{head}({', '.join('?' * count)})"
        for number in range(200):
            arguments = [random_argument(source) for _ in range(count)]
            if count and number % 2:
                arguments[0] = source.choice(["neardup", "codes"])
            with contextlib.suppress(apsw.SQLError):
                answers += len(db.execute(sql, arguments).fetchall())
    assert answers > 1000
    assert db.execute("PRAGMA integrity_check").get == "ok" and db.get_autocommit()


LONG = " ".join(f"word{i}" for i in range(20_000))
SHORT = " ".join(f"word{i}" for i in range(4_000))
NUMBERS = numbers(*range(1 << 20))


@pytest.mark.parametrize(
    "sql, value",
    [
        ("SELECT seen(neardup_simhash(stop(?)))", LONG),
        ("SELECT seen(neardup_minhash(stop(?), 8))", LONG),
        ("SELECT seen(neardup_minhash(stop(?), 65536))", SHORT),
        ("SELECT seen(shingle) FROM neardup_shingles(stop(?), 2)", LONG),
        ("SELECT seen(neardup_jaccard(stop(?1), ?1))", NUMBERS),
        ("SELECT seen(neardup_containment_estimate(stop(?1), ?1, 9))", NUMBERS),
        ("SELECT seen(neardup_similarity('neardup', 'one two three', stop(?)))", LONG),
        ("SELECT seen(key) FROM neardup_search('neardup', stop(?))", LONG),
        ("SELECT seen(low) FROM neardup_keys('neardup', stop(?))", numbers(*range(4_000))),
    ],
)
def test_an_interrupted_connection_ends_a_long_function(sql: str, value: object) -> None:
    """A function that works on something large ends with SQLITE_INTERRUPT while it works; the next one runs as ever."""
    with Index(":memory:", MinHash(num_perm=65536, exact=True)) as index:
        db, seen = index.connection, []

        def stop(given: object) -> object:
            db.interrupt()
            return given

        db.create_scalar_function("stop", stop, 1)
        db.create_scalar_function("seen", seen.append, 1)
        with pytest.raises(apsw.InterruptError):
            db.execute(sql, (value,)).fetchall()
        assert not seen
        assert db.execute("SELECT length(neardup_minhash('one two three', 8))").get == 16
