"""Buckets of codes: the bytes of a row, the functions that read them, and rows that come, grow, are shared and go."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import buckets
import numpy as np
import pytest
from buckets import Entry
from hypothesis import given, settings
from hypothesis import strategies as st
from support import clusters_of

import neardup_db
from neardup_db import BinaryCode, CorruptIndexError, Index, native
from neardup_db.native import ffi, lib


def written(entries: list[Entry], code_bytes: int) -> bytes:
    """What the core makes of entries."""
    ids = ffi.new("int64_t[]", [number for number, _ in entries])
    out = ffi.new("uint8_t[]", lib.nd_entries_size(ids, len(entries), code_bytes))
    lib.nd_entries_write(ids, b"".join(code for _, code in entries), len(entries), code_bytes, out)
    return bytes(ffi.buffer(out))


def read(data: bytes, code_bytes: int) -> list[Entry] | None:
    """What the core reads; None where it refuses."""
    found = ffi.new("nd_entries *")
    kept = ffi.from_buffer("uint8_t[]", data)
    status = lib.nd_entries_read(kept, len(data), code_bytes, found)
    assert status in (lib.ND_OK, lib.ND_ERROR_DAMAGED)
    if status != lib.ND_OK:
        return None
    assert (found.code_size, found.id_size) == (code_bytes, data[4])
    codes = bytes(ffi.buffer(found.codes, found.count * code_bytes))
    return [(lib.nd_entries_id(found, i), codes[i * code_bytes : (i + 1) * code_bytes]) for i in range(found.count)]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Entry], int]:
    code_bytes = draw(st.sampled_from([1, 2, 7, 8, 9, 16, 31, 32, 33, 64, 65, 255, 512]) | st.integers(1, 512))
    width = draw(st.integers(1, 8))
    numbers = draw(st.lists(st.integers(0, min(2**63, 256**width) - 1), min_size=1, max_size=40))
    source = random.Random(draw(st.integers(0, 2**32)))
    return [(number, source.randbytes(code_bytes)) for number in numbers], code_bytes


# ---- bytes -------------------------------------------------------------------------------------------------------------


@given(rows())
def test_entries_come_back(row: tuple[list[Entry], int]) -> None:
    """Ids of every width and codes of every size, in their order; the bytes are those of plain Python."""
    entries, code_bytes = row
    data = written(entries, code_bytes)
    assert data == buckets.pack(entries)
    assert read(data, code_bytes) == entries == buckets.unpack(data, code_bytes)


def test_ids_take_as_many_bytes_as_the_largest_needs() -> None:
    """At either end of each width, alone and beside smaller ones."""
    for width in range(1, 9):
        for largest in (256 ** (width - 1), min(256**width, 2**63) - 1):
            for numbers in ([largest], [0, largest, 1]):
                data = written([(number, b"code") for number in numbers], 4)
                assert data[4] == width and len(data) == 5 + len(numbers) * (4 + width)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 9), st.integers(0, 12))
def test_damaged_bytes_are_refused(rest: bytes, width: int, code_bytes: int) -> None:
    """The hash of the rest, a width from 1 to 8 and whole entries, one at least: all else is damage."""
    for data in (buckets.sealed(bytes([width]) + rest), bytes([width]) + rest, rest):
        sound = len(data) > 5 and data == buckets.sealed(data[4:]) and 1 <= data[4] <= 8 and code_bytes > 0
        sound = sound and (len(data) - 5) % (code_bytes + data[4]) == 0
        found = read(data, code_bytes)
        assert (found is not None) == sound
        assert native.is_row(data, code_bytes) == sound


@given(rows(), st.data())
def test_a_row_without_a_fingerprint(row: tuple[list[Entry], int], data: st.DataObject) -> None:
    """All of its entries go, the others keep their order; nothing is left where there was no other."""
    entries, code_bytes = row
    gone = data.draw(st.sampled_from([number for number, _ in entries] + [5]))
    rest = [entry for entry in entries if entry[0] != gone]
    assert native.remove_entries(written(entries, code_bytes), code_bytes, gone, gone) == (buckets.pack(rest) if rest else b"")


# ---- what is near ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code_bytes", [1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 33, 40, 63, 64, 65, 128, 512])
def test_near_entries_are_those_of_brute_force(tiers: Callable[[], Any], db: apsw.Connection, code_bytes: int) -> None:
    """The SQL function, in every tier of the core, around the width of the registers."""
    source = random.Random(code_bytes)
    for count in (1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 600):
        centre = source.getrandbits(8 * code_bytes)
        entries = []
        for number in range(count):
            flips = source.sample(range(8 * code_bytes), source.randrange(min(8 * code_bytes, 12) + 1))
            entries.append(
                (source.choice([number, 2**40 + number]), (centre ^ sum(1 << f for f in flips)).to_bytes(code_bytes, "big"))
            )
        data, code = buckets.pack(entries), centre.to_bytes(code_bytes, "big")
        distances = (-1, 0, 1, 5, 12, 8 * code_bytes, 2**63 - 1)
        expected = [buckets.near(entries, code, distance) for distance in distances]
        for tier in tiers():
            for distance, pairs in zip(distances, expected, strict=True):
                found = db.execute("SELECT neardup_near(?, ?, ?)", (data, code, distance)).get
                assert (found is None) == (not pairs), (tier, count, distance)
                assert pairs == [] or [tuple(pair) for pair in json.loads(found)] == pairs, (tier, count, distance)


def test_near_of_the_largest_numbers(db: apsw.Connection) -> None:
    """Ids of 63 bits stay whole in JSON; the sign is that of a signed number."""
    entries = [(2**63 - 1, b"\0" * 8), (2**53 + 1, b"\0" * 7 + b"\1"), (2**64 - 1, b"\0" * 8)]
    data = buckets.pack(entries)
    expected = [(2**63 - 1, 0), (2**53 + 1, 1), (-1, 0)]
    sql = "SELECT n.value ->> 0, n.value ->> 1 FROM json_each(neardup_near(?, ?, 1)) AS n"
    assert db.execute(sql, (data, bytes(8))).fetchall() == expected


SHAPES = [b"", b"\1", b"\0" + bytes(9), b"\x09" + bytes(17), b"\1" + bytes(8), b"\1" + bytes(10)]
SOUND = buckets.pack([(1, bytes(8))])
DAMAGED = [b"", bytes(4), *map(buckets.sealed, SHAPES), *(SOUND[:i] + bytes([SOUND[i] ^ 64]) + SOUND[i + 1 :] for i in range(14))]


def test_what_near_refuses(db: apsw.Connection) -> None:
    """NULL gives NULL; other types and bytes that are no entries are errors."""
    row = buckets.pack([(1, bytes(8))])
    for arguments in ((None, bytes(8), 1), (row, None, 1), (row, bytes(8), None)):
        assert db.execute("SELECT neardup_near(?, ?, ?)", arguments).get is None
    for data in DAMAGED:
        with pytest.raises(apsw.SQLError, match="no entries of codes of 8 bytes"):
            db.execute("SELECT neardup_near(?, ?, 1)", (data, bytes(8))).fetchall()
    for wrong in ((1, bytes(8), 1), ("a", bytes(8), 1), (row, "a", 1), (row, 5, 1), (row, bytes(8), 1.5), (row, bytes(8), "1")):
        with pytest.raises(apsw.SQLError, match="neardup_near: argument [123] must be"):
            db.execute("SELECT neardup_near(?, ?, ?)", wrong).fetchall()
    for code in (b"", bytes(7), bytes(16)):
        with pytest.raises(apsw.SQLError, match="no entries"):
            db.execute("SELECT neardup_near(?, ?, 1)", (row, code)).fetchall()


@given(rows())
def test_neardup_entries_is_the_row(row: tuple[list[Entry], int]) -> None:
    """Number and code of each entry, in their order."""
    entries, code_bytes = row
    with apsw.Connection(":memory:") as connection:
        neardup_db.load(connection)
        sql = "SELECT fingerprint_id, code FROM neardup_entries(?, ?)"
        assert connection.execute(sql, (buckets.pack(entries), code_bytes)).fetchall() == entries
    connection.close()


def test_what_neardup_entries_refuses(db: apsw.Connection) -> None:
    """NULL has no rows; what is no row of buckets, and a size that none can have, are errors."""
    assert db.execute("SELECT * FROM neardup_entries(NULL, 8)").fetchall() == []
    for data in (*DAMAGED, 1, "a", 0.5):
        with pytest.raises(apsw.SQLError, match="no entries of codes of 8 bytes"):
            db.execute("SELECT * FROM neardup_entries(?, 8)", (data,)).fetchall()
    for size in (0, -1, 2**31, "a", 1.5):
        with pytest.raises(apsw.SQLError, match="code_bytes"):
            db.execute("SELECT * FROM neardup_entries(?, ?)", (buckets.pack([(1, bytes(8))]), size)).fetchall()


# ---- rows --------------------------------------------------------------------------------------------------------------


def close(codes: dict[Any, int], distance: int) -> set[tuple[Any, Any]]:
    """Pairs of keys whose codes are within so many bits."""
    return {(a, b) for a, b in itertools.combinations(codes, 2) if (codes[a] ^ codes[b]).bit_count() <= distance}


def assert_holds(index: Index, codes: dict[Any, int], distance: int, asked: list[int], group: Any = None) -> None:
    """Sound, with rows that are full enough, and with the answers of brute force."""
    report = index.check()
    assert report.ok, report.problems
    parts: dict[tuple[int, int], list[list[Entry]]] = {}
    for number, group_id, entries in buckets.rows(index.connection):
        assert len(entries) == 1 or len(buckets.pack(entries)) <= buckets.PART_BYTES
        parts.setdefault((number >> 20, group_id), []).append(entries)
    for held in parts.values():
        entries = [entry for part in held for entry in part]
        a_row = max(1, (buckets.PART_BYTES - 1) // (len(entries[0][1]) + 8))
        assert len(held) <= 2 * -(-len(entries) // a_row)
        assert [number for number, _ in entries] == sorted({number for number, _ in entries})
    for code in asked:
        expected = {key for key, other in codes.items() if (code ^ other).bit_count() <= distance}
        assert {one.key for one in index.query_code(code, group=group)} == expected


GROWING = {
    "blocks": (BinaryCode(64, 3), 1500, 11),
    "blocks beyond 64 bits": (BinaryCode(128, 3), 700, 10),
    "codes of 512 bytes": (BinaryCode(4096, 1), 60, 8),
    "chunks": (BinaryCode(64, 10), 1200, 11),
}


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_a_bucket_grows_over_many_rows_and_shrinks_again(name: str, at_once: bool) -> None:
    """Many codes with equal prefixes: rows are filled, and packed when nearly all are deleted, in any order."""
    scheme, count, low_bits = GROWING[name]
    count = count if at_once else count // 3
    source = random.Random(count)
    numbers = source.sample(range(2**low_bits), min(count, 2**low_bits))
    codes = {key: 0xA5 << scheme.bits - 8 | number for key, number in enumerate(numbers)}
    with Index(":memory:", scheme, record_matches=False) as index:
        if at_once:
            index.add_codes(list(codes), [code.to_bytes(scheme.bits // 8, "big") for code in codes.values()])
        else:
            with index.transaction():
                for key, code in codes.items():
                    index.add_code(key, code)
        parts = "SELECT count(*), count(*) FILTER (WHERE id & 0xfffff = 0xfffff) FROM neardup_code_bucket GROUP BY id >> 20"
        found = index.connection.execute(parts).fetchall()
        assert max(count for count, _ in found) > (5 if at_once else 2)
        assert {last for _, last in found} == {1}
        assert_holds(index, codes, scheme.max_distance, list(codes.values())[::97])
        order = source.sample(list(codes), len(codes))
        for end in (len(order) // 2, len(order) - 30, len(order) - 1, len(order)):
            gone = [key for key in order[:end] if key in codes]
            index.delete_many(gone)
            for key in gone:
                del codes[key]
            assert_holds(index, codes, scheme.max_distance, list(codes.values())[:20])
        assert index.connection.execute("SELECT count(*) FROM neardup_code_bucket").get == 0


def test_a_bucket_without_room_refuses(tmp_path: Path) -> None:
    """Where the last number but one is taken and the last row full, adding is an error with the remedy, and changes nothing."""
    prefix = 0xA5A5 << 48
    with Index(tmp_path / "a.db", BinaryCode(64, 3), record_matches=False) as index:
        index.add_code(0, prefix)
        taken = buckets.pack([(5, bytes(8))])
        index.connection.execute("INSERT INTO neardup_code_bucket SELECT id - 1, 77, ? FROM neardup_code_bucket", (taken,))
        with pytest.raises(CorruptIndexError, match="is full: rebuild the index with a larger `expected`"):
            for key in range(1, 1000):
                index.add_code(key, prefix | key)
        assert 100 < len(index) < 1000 and key == len(index)
        assert [one.key for one in index.query_code(prefix | key - 1, max_distance=0)] == [key - 1]
        index.rebuild()
        index.add_code(key, prefix | key)
        assert index.check().ok


@pytest.mark.parametrize("name", GROWING)
def test_rows_change_and_change_again(name: str) -> None:
    """A random life of adding, replacing and deleting in few buckets."""
    scheme, _, low_bits = GROWING[name]
    source = random.Random(7)
    codes: dict[int, int] = {}
    with Index(":memory:", scheme) as index:
        for turn in range(8):
            with index.transaction():
                for _ in range(60):
                    key = source.randrange(150)
                    if source.random() < (0.3 if turn % 4 < 2 else 0.8):
                        assert index.delete(key) == (codes.pop(key, None) is not None)
                    else:
                        codes[key] = 0xA5 << scheme.bits - 8 | source.randrange(2**low_bits)
                        index.add_code(key, codes[key], if_exists="replace")
            assert_holds(index, codes, scheme.max_distance, list(codes.values())[:5])
        assert {frozenset((p.key_a, p.key_b)) for p in index.pairs()} == {frozenset(p) for p in close(codes, scheme.max_distance)}


# ---- groups ------------------------------------------------------------------------------------------------------------


NUMBER, GROUPS = 0xA5A5, [21387, 23842]
"""The groups' bucket of the number, in table 0, is one."""
PLAIN, OTHER = 0x78A5, 54485
"""The bucket of a number of no group, and a group whose bucket of NUMBER it is."""


def test_groups_share_buckets_and_nothing_else(tmp_path: Path) -> None:
    """Groups whose codes stand in one bucket by chance of the hash, one with those of no group: none answers for another."""
    names = {f"group {group}": group for group in (*GROUPS, OTHER)}
    source = random.Random(3)
    codes: dict[Any, dict[Any, int]] = {name: {} for name in (None, *names)}
    scheme = BinaryCode(64, 3)
    with Index(tmp_path / "a.db", scheme, durability="normal") as index:
        index.connection.executemany("INSERT INTO neardup_group (id, name) VALUES (?, ?)", [(g, n) for n, g in names.items()])
        for turn in range(2):
            records = []
            for key in range(60 if turn else 200):
                for name, held in codes.items():
                    prefix = PLAIN if name is None else NUMBER
                    code = prefix << 48 | source.getrandbits(8) << 30 | source.getrandbits(3)
                    held[f"{turn} {key} {name}"] = code
                    records.append({"key": f"{turn} {key} {name}", "code": code.to_bytes(8, "big"), "group": name})
            if turn:
                for record in records:
                    index.add_code(record["key"], record["code"], group=record["group"])
            else:
                for name in codes:
                    own = [record for record in records if record["group"] == name]
                    index.add_codes([one["key"] for one in own], [one["code"] for one in own], group=name)
        shared = [
            {group for number, group, _ in buckets.rows(index.connection) if number >> 20 == low >> 20}
            for low in (buckets.bucket(0, NUMBER, 16, GROUPS[0]), buckets.bucket(0, PLAIN, 16))
        ]
        assert {*GROUPS} <= shared[0] and {0, OTHER} <= shared[1]
        for rest in (260, 20, 1):
            for held in codes.values():
                gone = source.sample(list(held), len(held) - rest)
                index.delete_many(gone)
                for key in gone:
                    del held[key]
            expected = {frozenset(pair) for held in codes.values() for pair in close(held, 3)}
            assert {frozenset((pair.key_a, pair.key_b)) for pair in index.pairs()} == expected
            for name, held in codes.items():
                assert_holds(index, held, 3, list(held.values())[:10], name)


# ---- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "first"),
    [(BinaryCode(64, 3), first) for first in (200, 2**16 - 50, 2**24 - 50, 2**32 - 50, 2**40 - 50, 2**42 - 50)]
    + [(BinaryCode(64, 10), 2**24 - 50)],
)
def test_ids_of_any_width(scheme: Any, first: int) -> None:
    """Rows whose ids grow wider by a byte on the way; adding, joining, asking, deleting."""
    source = random.Random(first)
    codes = {key: 0xA5 << 56 | number for key, number in enumerate(source.sample(range(2**11), 100))}
    with Index(":memory:", scheme) as index:
        index.connection.execute("INSERT INTO sqlite_sequence VALUES ('neardup_fingerprint', ?)", (first,))
        keys = list(codes)
        index.add_codes(keys[:70], [codes[key] for key in keys[:70]])
        for key in keys[70:]:
            index.add_code(key, codes[key])
        for _ in range(2):
            assert_holds(index, codes, scheme.max_distance, list(codes.values())[::100])
            expected = {frozenset(pair) for pair in close(codes, scheme.max_distance)}
            assert {frozenset((pair.key_a, pair.key_b)) for pair in index.pairs()} == expected
            gone = source.sample(list(codes), 40)
            index.delete_many(gone)
            for key in gone:
                del codes[key]


# ---- loads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [BinaryCode(64, 3), BinaryCode(64, 10)], ids=repr)
def test_hot_buckets_connect_what_is_connected(scheme: Any) -> None:
    """Far more than 2,048 matches in one bucket: the clusters are the components of all pairs, and what is left of them later."""
    source = random.Random(11)
    numbers = np.array(source.sample(range(2**16), 1600), dtype=np.uint64)
    bits = np.array([number.bit_count() for number in range(2**16)], dtype=np.uint8)
    near = bits[numbers[:, None] ^ numbers[None, :]] <= scheme.max_distance
    assert (near.sum() - 1600) // 2 > 4 * 2048
    with Index(":memory:", scheme) as index:
        index.add_codes(range(300), [0xA5 << 56 | int(number) for number in numbers[:300]])
        index.add_codes(range(300, 1600), [0xA5 << 56 | int(number) for number in numbers[300:]])
        for _ in range(2):
            label, least = None, np.arange(1600)  # of each number the least that is connected with it
            while not np.array_equal(label, least):
                label, least = least, np.where(near, least, 1600).min(axis=1)
            groups = (np.flatnonzero(label == one) for one in range(1600))
            assert clusters_of(index) == {frozenset(group.tolist()) for group in groups if group.size > 1}
            gone = source.sample(sorted(index), 800)
            index.delete_many(gone)
            near[gone], near[:, gone] = False, False
        assert index.check().ok
