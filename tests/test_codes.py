"""Codes that the application brings: every kind of them, what is refused, what else a record of a code may have."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import one_test
from support import LATER, SOON, WORDS, keys

from neardup_db import BinaryCode, BitSampling, BottomK, Index, MinHash, NearDupError, ParameterError, SimHash

NUMBER = 0xF0E1D2C3B4A59687
BYTES = NUMBER.to_bytes(8, "big")
ROW = np.frombuffer(BYTES, np.uint8)
BOOLEANS = np.unpackbits(ROW).astype(bool)


def image_hash(bits: Any) -> Any:
    """What imagehash gives: bits in an array, called `hash`."""
    return SimpleNamespace(hash=bits)


@pytest.fixture
def index() -> Iterable[Index]:
    """An empty index of codes of 64 bits."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as opened:
        yield opened


# ---- kinds of codes ----------------------------------------------------------------------------------------------------------

KINDS = {
    "bytes": BYTES,
    "bytearray": bytearray(BYTES),
    "int": NUMBER,
    "hexadecimal digits": BYTES.hex(),
    "the same with 0x": "0x" + BYTES.hex().upper(),
    "uint64": np.uint64(NUMBER),
    "int64": np.int64(NUMBER - 2**64),
    "uint8[8]": ROW,
    "bool[64]": BOOLEANS,
    "bool[8, 8]": BOOLEANS.reshape(8, 8),
    "a part of a larger array": np.stack([BOOLEANS, ~BOOLEANS], axis=1)[:, 0],
    "ImageHash": image_hash(BOOLEANS.reshape(8, 8)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_code_of_any_kind(index: Index, kind: str) -> None:
    """Every kind of code is the same code, first byte and first bit first, for each method that takes one."""
    code = KINDS[kind]
    index.add_code("a", code)
    assert index.get("a").code == BYTES
    assert keys(index.query_code(code)) == keys(index.nearest(code, 1)) == ["a"] == keys(index.add_code_if_new("b", code))
    assert [keys(found) for found in index.query_codes([code, BYTES])] == [["a"]] * 2
    assert index.add_codes(["b"], [code]).matched == 1
    assert index.get("b").code == BYTES


ROWS = np.stack([ROW, ROW[::-1], np.zeros(8, np.uint8)])
NUMBERS = ROWS.view(">u8")[:, 0]
ARRAYS = {
    "uint8[n, 8]": ROWS,
    "bool[n, 64]": np.unpackbits(ROWS, axis=1).astype(bool),
    "bool[n, 8, 8]": np.unpackbits(ROWS, axis=1).astype(bool).reshape(3, 8, 8),
    "uint64[n]": NUMBERS.astype(np.uint64),
    "int64[n]": NUMBERS.astype(np.int64),
    "big-endian": NUMBERS,
    "every second one": np.repeat(NUMBERS.astype(np.int64), 2)[::2],
    "bytes of one width": np.array([row.tobytes() for row in ROWS], "S8"),
    "objects": np.array([BYTES, ROWS[1].tobytes().hex(), 0], object),
    "hexadecimal digits": np.array([row.tobytes().hex() for row in ROWS]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_of_codes(index: Index, kind: str) -> None:
    """Every kind of array is the same codes, whether records have more than a key or not."""
    codes = ARRAYS[kind]
    assert index.add_codes(["a", "b", "c"], codes).added == 3
    assert [index.get(key).code for key in "abc"] == [row.tobytes() for row in ROWS]
    assert [keys(found) for found in index.query_codes(codes)] == [["a"], ["b"], ["c"]]
    assert index.add_codes(np.arange(3), codes, group="g", commit_every=2).added == 3
    assert [keys(found) for found in index.query_codes(codes, group="g")] == [[0], [1], [2]]


@one_test(codes=[np.zeros((0, 8), np.uint8), np.zeros((0, 64), bool), np.zeros(0, np.int64), np.array([]), []])
def test_no_codes(index: Index, codes: Any) -> None:
    """No codes are no codes, of whatever type."""
    assert index.add_codes([], codes).total == 0
    assert index.query_codes(codes) == []


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_signed_numbers_as_wide_as_the_code(bits: int) -> None:
    """Signed numbers are the bits that they are stored as, where these are as many as a code has."""
    numbers = np.array([-1, 1, -(2 ** (bits - 1))], f"i{bits // 8}")
    with Index(":memory:", BinaryCode(bits=bits, max_distance=0)) as index:
        index.add_codes(["a", "b", "c"], numbers)
        index.add_code("d", numbers[0])
        stored = [int.from_bytes(index.get(key).code or b"", "big") for key in "abcd"]
        assert stored == [2**bits - 1, 1, 2 ** (bits - 1), 2**bits - 1]


# ---- what is refused ---------------------------------------------------------------------------------------------------------


def test_an_array_with_one_wrong_number(index: Index) -> None:
    """A number that is no code is named by its place, in an array of numbers that are wider or narrower than a code, too; or left
    out and counted."""
    for numbers in (np.array([1, 2, -3], np.int32), np.array([1, 2, 2**70], object)):
        with pytest.raises(ParameterError, match="record 2: code="):
            index.add_codes(range(3), numbers)
        with pytest.raises(ParameterError, match=r"codes\[2\]="):
            index.query_codes(numbers)
        report = index.add_codes(range(3), numbers, on_error="skip", if_exists="ignore")
        assert (report.skipped, report.problems[0].record) == (1, 2)


# ---- records with more than a key --------------------------------------------------------------------------------------------


def documents(index: Index) -> list[Any]:
    """All that was stored, in the order of insertion, but for the times of adding."""
    found = [(one, index.get(one)) for one in index]
    return [(key, one.code, one.group, one.metadata, one.expires_at) for key, one in found]


MORE = {
    "metadata": [{"n": 1}, None, [1, 2], "text", {"n": {"m": [True]}}],
    "group": ["g", None, 7, b"g", "g"],
    "expires_at": [SOON, LATER, None, None, SOON],
}
CODES = [NUMBER, NUMBER ^ 1, NUMBER ^ 3, 5, NUMBER ^ 6]


@one_test(
    names=[["metadata"], ["group"], ["expires_at"], ["metadata", "group", "expires_at"]],
    way=[list, iter, np.array, "array in parts", "list in parts"],
)
def test_more_of_each_record(index: Index, names: list[str], way: Any) -> None:
    """`add_codes` with a list of each stores what `add_code` one by one does, whatever the codes and the lists come as."""
    more = {name: MORE[name] for name in names}
    with Index(":memory:", index.scheme) as single:
        for place, code in enumerate(CODES):
            single.add_code(place, code, **{name: values[place] for name, values in more.items()})
        given: Any = {name: iter(values) if way is iter else values for name, values in more.items()}
        if way is np.array:
            given = {name: pd.Series(values, dtype=object) for name, values in more.items()}
        is_array = way in (np.array, "array in parts")
        codes = np.array(CODES, np.uint64) if is_array else iter(CODES) if way is iter else CODES
        options = {"commit_every": 2, "if_exists": "replace"} if "in parts" in str(way) else {}
        report = index.add_codes(range(5), codes, **given, **options)
        assert report.added == 5
        assert documents(index) == documents(single)
        assert list(index.pairs()) == list(single.pairs()) and index.clusters() == single.clusters()
        assert index.check().ok
    index.delete_many(range(5))


def test_one_value_for_all(index: Index) -> None:
    """What is no list of values is that of every record: a mapping, a text or a number as metadata, too."""
    for number, metadata in enumerate([{"n": [1]}, "text", 5, 0, False]):
        index.add_codes([f"{number}-1", f"{number}-2"], [1, 2], metadata=metadata, group="group", expires_at=SOON)
        stored = [index.get(f"{number}-{copy}") for copy in (1, 2)]
        assert [(one.metadata, one.group, one.expires_at) for one in stored] == [(metadata, "group", round(SOON, 3))] * 2


def test_columns_of_different_lengths(index: Index) -> None:
    """Where there are not as many of each nothing is stored, whether the number is known before or comes to light at the end."""
    for wrong in ({"codes": [1, 2]}, {"metadata": [1, 2]}, {"group": ["a"]}, {"expires_at": [SOON] * 4}):
        given: dict[str, list[Any]] = {"codes": CODES[:3]} | wrong
        with pytest.raises(ParameterError, match=r"3 keys for \d (codes|values of \w+): give one"):
            index.add_codes(range(3), **given)
        with pytest.raises(ParameterError, match=r"there are \d values of .*: give one for each key"):
            index.add_codes(range(3), **{name: iter(values) for name, values in given.items()})
    assert len(index) == 0


@one_test(
    ("arguments", "message"),
    [
        ({"group": ["g", 1.5, None]}, "record 1: group=1.5 is of type float"),
        ({"metadata": [1, 2, {1, 2}]}, "record 2: metadata cannot be written as JSON"),
        ({"expires_at": ["tomorrow", None, None]}, "record 0: expires_at='tomorrow'"),
        ({"group": 1.5}, "record 0: group=1.5"),
    ],
)
def test_a_wrong_value_of_one_record(index: Index, arguments: dict[str, Any], message: str) -> None:
    """A wrong value is named with the record that has it, or leaves it out."""
    for codes in (CODES[:3], np.array(CODES[:3], np.uint64)):
        with pytest.raises(ParameterError, match=message):
            index.add_codes(range(3), codes, **arguments)
        assert len(index) == 0
    assert index.add_codes(range(3), CODES[:3], **arguments, on_error="skip").skipped == (3 if arguments == {"group": 1.5} else 1)
    index.delete_many(range(3))


# ---- only what is new --------------------------------------------------------------------------------------------------------


def test_a_code_that_is_new_is_stored(index: Index) -> None:
    """`add_code_if_new` stores a code unless something matches it, with all that a record has, in its group."""
    assert index.add_code_if_new("a", 0, metadata={"n": 1}, expires_at=SOON) == []
    assert keys(index.add_code_if_new("b", 0b111)) == ["a"] and "b" not in index
    assert index.add_code_if_new("b", 0b111, group="g") == []
    assert index.add_code_if_new("c", 0b1111) == []
    assert keys(index.add_code_if_new("d", 0b1)) == ["a", "c"]
    assert keys(index.add_code_if_new("d", 0b1, limit=1)) == ["a"]
    stored = index.get("a")
    assert (stored.metadata, stored.code, stored.times_seen) == ({"n": 1}, bytes(8), 1)
    assert index.check().ok


# ---- the code of a document --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [SimHash(max_distance=3), SimHash(bits=32, max_distance=2), BitSampling(bits=64)], ids=str)
def test_the_code_of_a_text(scheme: Any) -> None:
    """In an index of codes a document has its code, that of a text as `fingerprint` gives it; `query_code` finds it by that."""
    with Index(":memory:", scheme, text=WORDS) as index:
        index.add("a", "the quick brown fox")
        index.add("b", "!!!")
        stored, empty = index.get_many(["a", "b"])
        assert stored is not None and stored.code == scheme.fingerprint("the quick brown fox", WORDS).tobytes()
        assert empty is not None and empty.code is None
        assert keys(index.query_code(stored.code)) == ["a"]
        index.add_code("c", stored.code)
        assert index.get("c").code == stored.code


@pytest.mark.parametrize("scheme", [MinHash(), MinHash(exact=True), BottomK()], ids=["minhash", "exact", "bottomk"])
def test_sets_have_no_code(scheme: Any) -> None:
    """In an index of sets no document has a code."""
    with Index(":memory:", scheme) as index:
        index.add("a", "the quick brown fox")
        assert index.get("a").code is None


def test_a_damaged_code_is_not_given_out(index: Index) -> None:
    """A stored code in which bits have flipped is an error, not an answer."""
    index.add_code("a", 0)
    index.connection.execute("UPDATE neardup_fingerprint SET value = x'0000000000000001'")
    with pytest.raises(NearDupError, match="fingerprint 1"):
        index.get("a")
