"""Wrong values of arguments, and what the error says of each: rows for `test_wrong_arguments.py`."""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas

from neardup_db import ANY_GROUP, MinHash
from neardup_db.parameters import quoted


class Wrong(NamedTuple):
    """A wrong value, what the error says, and other arguments that the call needs. `says` is a pattern for what comes after
    `name=value`, or for the whole message if it begins with ^."""

    value: Any
    says: str
    more: dict[str, Any]


LEFT_OUT: Any = object()
"""The value of a row whose error comes from the other arguments."""


def wrong(says: str, *values: Any, **more: Any) -> list[Wrong]:
    """Rows of values that are wrong in the same way."""
    return [Wrong(value, says, more) for value in values]


class Nowhere(dt.tzinfo):
    """A time zone that does not know how far it is from UTC."""

    def utcoffset(self, moment: dt.datetime | None) -> None:
        return None

    def __repr__(self) -> str:
        return "Nowhere()"


Colour = enum.Enum("Colour", ["RED"])
TODAY = dt.date(2026, 1, 31)
UTC = dt.timezone.utc

# ---- arguments that mean the same in many calls ------------------------------------------------------------------------------

_KEY = "is of type .*: give str, bytes or a 64-bit int"
OPTIONAL_KEY = [
    *wrong(_KEY + "$", True, 1.5, ("a",), ["a"], object),
    *wrong("does not fit 64 bits: give a smaller number, or its digits as text", 2**63, -(2**63) - 1, np.uint64(2**63)),
    *wrong("holds half of a surrogate pair: give valid text, or bytes", "\ud800"),
    *wrong(_KEY + r", for example str\(", uuid.UUID(int=7), PurePosixPath("a"), Decimal("1.5"), np.datetime64("2026-01-31")),
    *wrong(_KEY + r", for example \w+\.isoformat\(\)$", TODAY, dt.datetime(2026, 1, 31, tzinfo=UTC), pandas.Timestamp(0)),
    *wrong(_KEY + r", for example bytes\(", bytearray(b"a")),
    *wrong(_KEY + r", for example \w+\.value$", Colour.RED),
]
KEY = [*OPTIONAL_KEY, *wrong(_KEY, None)]
GROUP = [*OPTIONAL_KEY, *wrong("is for queries only: give the name of one group, or None", ANY_GROUP)]
PART = wrong("is of type .*: give str, a 64-bit int, or None", 1.5, True, b"a", ["a"]) + wrong(
    "64 bits|half of a", 2**63, "\ud800"
)
TEXT = wrong("is of type .*: give str, or bytes in UTF-8", None, True, 5, 1.5, ["x"])
FRACTION = wrong("give a number above 0 and at most 1", 0, -0.5, 1.1, math.nan, "0.9", True, np.float64(2))
FLAG = wrong("give True or False", 1, 0, "yes")
FUNCTION = wrong("give a function, or None", 5, "print")
SEED = wrong(r'give an integer from 0 to 2\^63 - 1 \(or "random"\)', -1, 1 << 63, "drawn", 1.5)
NAME = wrong("give a name as text", None, 5, "", b"a", "a\0")
MANY = wrong("is of type .*: give ", None, 5, "abc", b"abc")

MOMENT = [
    *wrong(r"is not between the years 2000 and 2200", 0, -1.5, 946_684_799, 7_258_118_401, math.nan, math.inf, np.float64("nan")),
    *wrong(r"is not between the years 2000 and 2200", 10**100, dt.datetime(1999, 12, 31, tzinfo=UTC)),
    *wrong(r"is not between the years 2000 and 2200", dt.datetime(2200, 1, 2, tzinfo=UTC)),
    *wrong("looks like milliseconds, not Unix seconds: divide it by 1,000$", 1.8e12),
    *wrong("looks like microseconds, not Unix seconds: divide it by 1,000,000$", 1_800_000_000_000_000),
    *wrong("looks like nanoseconds, not Unix seconds: divide it by 1,000,000,000$", np.int64(1_800_000_000_000_000_000)),
    *wrong("has no time zone: give an aware datetime", dt.datetime(2030, 1, 1), dt.datetime(2030, 1, 1, tzinfo=Nowhere())),
    *wrong("is of type .*: give .*Unix seconds", True, "2030-01-01", [1]),
]
EXPIRY = [
    *MOMENT,
    *wrong("give a timedelta from now on, or ttl=, or an aware datetime, or Unix seconds", 3600, "1h"),
    *wrong("ends after the year 2200: give a shorter time, or leave it out", dt.timedelta(days=365 * 200)),
    *wrong("and ttl=5: give one of the two", 1_900_000_000, ttl=5),
]
_TTL = "give a timedelta, or a number of seconds, of at least a millisecond"
TTL = [
    *wrong(_TTL, 0, -5, 0.0001, dt.timedelta(0), dt.timedelta(days=-1), math.nan, -(10**100)),
    *wrong("ends after the year 2200", math.inf, 6e9, 10**100, dt.timedelta(days=999_999_999)),
    *wrong("is of type .*: give a timedelta, or a number of seconds", True, "1h"),
]


def integer(low: int, most: str = r"2\^63 - 1") -> list[Wrong]:
    """What is no integer from `low` on."""
    return wrong(f"give an integer from {low} to {most}", low - 1, 1.5, "3", True, 2**63, 2**70, b"x")


def choice(says: str) -> list[Wrong]:
    """What is none of a few words."""
    return wrong(says, "best", "", True, 5, b"x")


def given(rows: list[Wrong]) -> list[Wrong]:
    """Rows for an argument that None leaves out."""
    return [row for row in rows if row.value is not None]


def told(name: str, row: Wrong) -> str:
    """A pattern for the whole message of a row."""
    if row.says.startswith("^"):
        return row.says
    value = ".*" if isinstance(row.value, np.generic) else re.escape(quoted(row.value))
    return f"^{re.escape(name)}={value}.*{row.says}"


def inside(name: str, rows: list[Wrong], wrap: Callable[[Any], Any] = lambda value: value) -> list[Wrong]:
    """Rows of which the error says another name, such as that of the record, and where the value is wrapped, as in a list."""
    return [Wrong(wrap(row.value), told(name, row), row.more) for row in rows]


def hash_of(array: Any) -> Any:
    """What looks like a hash of the library imagehash."""
    return SimpleNamespace(hash=array)


_CODE = r"give uint8\[8\], bool\[64\], bytes, an int, hex digits or an imagehash.ImageHash"
CODE = [
    *wrong(f"is of type .*: {_CODE}", 1.5, True, None, ["a"]),
    *wrong(r"is no code of 64 bits: give an integer from 0 to 2\^64 - 1, or a negative one as numpy.int64", -1, 2**64),
    *wrong("^code.*=-1 is no code of 64 bits", np.int32(-1)),
    *wrong("give an even number of hex digits", "xyz", "f" * 15, "xy" * 8),
    *wrong("has .* bits, but codes here have 64: give 8 bytes, or 16 hex digits", b"1234567", "00", "f" * 14),
    *wrong(r"^code.* is uint64\[\]: of one number give its item\(\)", np.array(5, np.uint64)),
    *wrong(r"^code.* has 56 bits, but codes here have 64", np.zeros(7, np.uint8)),
    *wrong(r"^code.* is uint8\[2, 4\]: give uint8\[8\] or bool\[64\]", np.zeros((2, 4), np.uint8)),
    *wrong(r"^code.* is (int8\[8\]|float64\[64\]): give uint8\[8\] or bool\[64\]", np.zeros(8, np.int8), np.zeros(64)),
    *wrong(r"^code.* is bool\[63\], 63 bits, but codes here have 64", np.zeros(63, bool)),
    *wrong(r"^code.*\.hash is bool\[16, 16\], 256 bits, but codes here have 64", hash_of(np.zeros((16, 16), bool))),
    *wrong(f"is of type SimpleNamespace: {_CODE}", hash_of("ffff")),
]


def codes(third: str) -> list[Wrong]:
    """Codes of which the third is wrong, or an array that holds none. third: how the error calls the third one."""
    singles = [row for row in CODE if not row.says.startswith("^") and row.value is not None]
    return [
        *MANY,
        *inside(third, singles, lambda code: [0, bytes(8), code]),
        *wrong(f"^{re.escape(third)}=", np.array([1, 2, -3], np.int32), np.array([1, 2, 2**70], object)),
        *wrong("is of type .*: give a list", np.array(5), hash_of(np.zeros(64, bool))),
        *wrong(r"^codes is uint8\[3, 4\], 32 bits each, but codes here have 64: give uint8\[n, 8\]", np.zeros((3, 4), np.uint8)),
        *wrong(r"^codes is \w+\[3(, \d+)?\]", np.zeros(3, np.uint8), np.zeros(3), np.zeros((3, 32), bool), np.zeros(3, bool)),
        *wrong(r"^codes is uint64\[3, 1\]: .*, or uint64\[n\] or int64\[n\]", np.zeros((3, 1), np.uint64)),
    ]


METADATA = wrong(
    "^metadata cannot be written as JSON .*: give dicts, lists, strings and finite numbers",
    math.nan, math.inf, {1, 2}, b"x", object, {"a": TODAY}, {(1, 2): 3},
)  # fmt: skip
_PATH = "is not a path: give the path of a file"
_NAMES = ["", "1a", "a b", "a'", 'a"', "a;b", "a--", "a]", "ä", "a\0", "a\n", "main.a", "n" * 41, None, 5, b"a"]

ANYTHING: list[Wrong] = []
"""Of an argument that any value fits."""

ARGUMENTS = {
    "any": ANYTHING,
    "attach": FLAG,
    "at_least": integer(2),
    "checksums": FLAG,
    "code": CODE,
    "codes": codes("codes[2]"),
    "commit_every": integer(1),
    "durability": choice("give 'full' or 'normal'"),
    "expected": wrong(r"give an integer from 1 to 1099511627776 \(\w+\)", 0, "x", 1.5),
    "expires_at": EXPIRY,
    "family": choice("give 'affine32' or 'java32'"),
    "full": FLAG,
    "group": OPTIONAL_KEY,
    "if_exists": choice("give 'error', 'replace' or 'ignore'"),
    "key": KEY,
    "key_a": KEY,
    "key_b": KEY,
    "keys": MANY,
    "limit": integer(0),
    "measure": choice("give None or 'containment'") + wrong("give None or 'containment'", "jaccard"),
    "metadata": METADATA,
    "min_size": integer(1),
    "n": integer(0) + wrong("give an integer", None),
    "name": wrong("give a letter and then at most 39 letters, digits or underscores", *_NAMES),
    "now": MOMENT + wrong("is of type timedelta: give an aware datetime, or Unix seconds", dt.timedelta(hours=1)),
    "num_perm": wrong("give an integer from 1 to 65536", 0, 65537, "1"),
    "on_error": choice("give 'raise' or 'skip'"),
    "on_match": choice("give None or 'touch'"),
    "on_outcome": FUNCTION,
    "only_new": ANYTHING,
    "other": wrong("give another Index", 5, None, 1.5),
    "part": PART,
    "path": wrong("give the path of a file", 5, None) + inside("target", wrong(_PATH, "", "a\0b")),
    "progress": FUNCTION,
    "read_only": FLAG,
    "recall": wrong("give a number above 0 and below 1", 1.0, 0, "x"),
    "record_matches": FLAG,
    "repair": ANYTHING,
    "return_empty": ANYTHING,
    "rules": wrong("give TextRules, or None", 5, "words", {"shingle": 3}),
    "scheme": wrong("give (a scheme, e.g. MinHash|one of SimHash)", MinHash, "minhash", 0.8),
    "seed": wrong(r'give an integer from 0 to 2\^63 - 1 \(or "random"\)', -1, 1 << 63, "drawn", 1.5),
    "shortest": integer(3, "1000 .*make an index with a shorter"),
    "since": MOMENT,
    "slot_bits": wrong("give 16 or 32", 8, "16"),
    "store_text": FLAG,
    "sync": choice("give None or 'query'"),
    "target": wrong("give a path, ':memory:', or a connection", None, 5, True, 1.5, object, ["index.db"])
    + wrong(_PATH, "", "a\0b"),
    "text": TEXT,
    "texts": [
        *MANY,
        *wrong(r"^texts\[1\]=5 is of type int: give str", ["x", 5]),
        *wrong(r"^texts\[3000\]=5", ["x"] * 3000 + [5]),
    ],
    "threshold": FRACTION,
    "timeout": wrong("give a number of seconds from 0 to 2,000,000", -1, "30", None, True, math.nan, math.inf),
    "ttl": TTL,
    "wanted": TEXT,
    "where": wrong("give a condition as text", 5, "", b"a", "a\0"),
    "window": [
        *wrong(r"give an integer from 1 to 2\^63 - 1 \(documents, or a timedelta\)", 0, -5),
        *wrong("give a timedelta of at least a millisecond", True, 1.5, "24h", dt.timedelta(0), -dt.timedelta(hours=1)),
    ],
}
