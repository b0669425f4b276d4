"""Argument checks. A message has the form `name=value: give ...`.

>>> from neardup_db.parameters import check_fraction
>>> check_fraction("threshold", 1.5)
Traceback (most recent call last):
    ...
neardup_db.errors.ParameterError: threshold=1.5: give a number above 0 and at most 1
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from enum import Enum
from itertools import accumulate
from numbers import Integral
from typing import Any, Literal, TypeGuard, get_args

from .arrays import np
from .clock import now_ms
from .errors import ParameterError
from .system import length_of_name, reachable, real_path
from .values import AnyGroup, Key, Part

IfExists = Literal["error", "replace", "ignore"]
OnMatch = Literal["touch"]
OnError = Literal["raise", "skip"]
Durability = Literal["full", "normal"]
Measure = Literal["containment"]
Sync = Literal["query"]
Moment = datetime | float
Expiry = Moment | timedelta
Ttl = timedelta | float
WindowSize = timedelta | int

_IF_EXISTS = get_args(IfExists)

SEED_LIMIT = 1 << 63
_LEAST, _MOST = -(2**63), 2**63 - 1


def quoted(value: Any, most: int = 80) -> str:
    """The repr of a value for a message, on one line and shortened to `most` characters; numbers of numpy as Python's."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, int) and abs(value) >> 3000:  # Python's str() refuses integers this long
        return f"an integer of {value.bit_length():,} bits"
    text = repr(value if not isinstance(value, (str, bytes)) else value[:most])  # cut before repr, which would copy megabytes
    if "\n" in text:  # reprs of data frames and arrays
        text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def quoted_key(key: Any) -> str:
    """A document key or group name for a message, shown whole up to 500 characters."""
    return quoted(key, 500)


# ---- any argument --------------------------------------------------------------------------------------------------------


def check_integer(name: str, value: Any, low: int = 0, high: int = _MOST, remedy: str = "") -> int:
    """The value as an int in low..high. numpy integers are accepted, bool and float are not."""
    if type(value) is int and low <= value <= high:  # the usual case
        return value
    if not isinstance(value, (int, Integral)) or isinstance(value, bool) or not low <= int(value) <= high:
        most = "2^63 - 1" if high == _MOST else str(high)
        raise ParameterError(f"{name}={quoted(value)}: give an integer from {low} to {most}{remedy and f' ({remedy})'}")
    return int(value)


def _is_number(value: Any) -> bool:
    is_plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_plain or isinstance(value, (np.integer, np.floating))


def check_fraction(name: str, value: Any, include_one: bool = True) -> float:
    """The value as a float in (0, 1], or in (0, 1) if include_one is False."""
    number = float(value) if _is_number(value) and abs(value) < 2 else math.nan  # float() raises OverflowError for large integers
    if not 0.0 < number <= 1.0 or (number == 1.0 and not include_one):
        interval = "above 0 and at most 1" if include_one else "above 0 and below 1"
        raise ParameterError(f"{name}={quoted(value)}: give a number {interval}")
    return number


def check_choice(name: str, value: Any, choices: Sequence[Any], more: str = "") -> Any:
    for choice in choices:
        if value is choice:  # the usual case
            return value
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        listed = [*map(repr, choices), *([more] if more else [])]
        raise ParameterError(f"{name}={quoted(value)}: give {' or '.join(filter(None, (', '.join(listed[:-1]), listed[-1])))}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """The value as a bool. Only bool and numpy.bool_ are accepted."""
    if not isinstance(value, bool) and not isinstance(value, np.bool_):
        raise ParameterError(f"{name}={quoted(value)}: give True or False")
    return bool(value)


def check_seed(name: str, value: Any) -> int:
    """The value as a seed from 0 to 2^63 - 1; "random" draws one."""
    if isinstance(value, str) and value == "random":
        return int.from_bytes(os.urandom(8), "big") % (SEED_LIMIT - 1) + 1
    return check_integer(name, value, 0, SEED_LIMIT - 1, 'or "random"')


def check_callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ParameterError(f"{name}={quoted(value)}: give a function, or None")
    return value


def check_kind(name: str, value: Any, kind: type, remedy: str) -> Any:
    if value is not None and not isinstance(value, kind):
        raise ParameterError(f"{name}={quoted(value)}: give {remedy}")
    return value


def check_many(name: str, values: Any, remedy: str = "give a list, or another iterable") -> Iterable[Any]:
    """Refuses a single text, which would be read letter by letter, and a zero-dimensional array."""
    if hasattr(type(values), "columns") and (hasattr(type(values), "dtypes") or hasattr(type(values), "schema")):
        kind = f"{type(values).__module__.partition('.')[0]}.{type(values).__name__}"
        collect = "collect a lazy frame first, give a table of pyarrow, pandas 2.2 or polars, or zip its columns"
        raise ParameterError(f"{name} is a {kind}, and not readable by Arrow's C interface: {collect}")
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise ParameterError(f"{name}={quoted(values)} is of type {type(values).__name__}: {remedy}")
    return values


# ---- opening -------------------------------------------------------------------------------------------------------------

MEMORY = ":memory:"
"""The target of an in-memory index, as a str. A Path with this name, or a name with a folder before it, is a file."""

_INDEX_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}\Z")

_LONGEST_SUFFIX = len("-journal")  # the longest suffix that SQLite appends to a database file name
_LONGEST_PATH = 512  # the longest path that SQLite opens, in bytes


def is_index_name(name: Any) -> TypeGuard[str]:
    """Whether the value is a valid index name, which is safe in SQL."""
    return isinstance(name, str) and _INDEX_NAME.match(name) is not None


def check_index_name(name: Any) -> str:
    if not is_index_name(name):
        raise ParameterError(f"name={quoted(name)}: give a letter and then at most 39 letters, digits or underscores")
    return name


def check_name(name: str, value: Any) -> str:
    """A table name, column name or condition of the application, as text that SQLite accepts."""
    if not isinstance(value, str) or not value or "\0" in value or not value.isprintable() and name != "where":
        raise ParameterError(f"{name}={quoted(value)}: give {'a condition' if name == 'where' else 'a name'} as text")
    return check_key(value, name)  # type: ignore[return-value]


def check_timeout(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= 2_000_000:
        raise ParameterError(f"timeout={quoted(timeout)}: give a number of seconds from 0 to 2,000,000")
    return timeout


def check_target(target: Any) -> str:
    """The absolute path of a file to open, or MEMORY."""
    try:
        path: str | bytes = os.fspath(target)
    except TypeError as error:
        raise ParameterError(f"target={quoted(target)}: give a path, ':memory:', or a connection of apsw or sqlite3") from error
    return MEMORY if path == MEMORY and isinstance(target, str) else check_path(path)


def check_path(given: str | bytes | os.PathLike[str]) -> str:
    """The absolute path of a file, with symbolic links resolved, so that SQLite finds the same file and write-ahead log after the
    current folder changes. Refuses a path that SQLite cannot open."""
    try:
        path = os.fsdecode(given)
    except TypeError as error:
        raise ParameterError(f"path={quoted(given)}: give the path of a file") from error
    if not path or "\0" in path:
        raise ParameterError(f"target={quoted(path)} is not a path: give the path of a file")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParameterError(f"the path {path!r} is not UTF-8, which SQLite requires: rename the file or its folder") from error
    path = real_path(path)
    if os.path.isdir(path):
        raise ParameterError(f"{path!r} is a folder: give the path of a file in it")
    for what, (size, most) in {
        "name": length_of_name(*os.path.split(path)),
        "path": (len(os.fsencode(path)), _LONGEST_PATH),
    }.items():
        if size > most - _LONGEST_SUFFIX:
            raise ParameterError(
                f"{path!r}: its {what} has {size} bytes; SQLite allows {most - _LONGEST_SUFFIX}, as it appends suffixes: "
                f"give a shorter {what}"
            )
    return reachable(path)


def check_window(window: Any) -> WindowSize | None:
    if window is None or isinstance(window, timedelta) and window >= _MS:
        return window
    if isinstance(window, Integral) and not isinstance(window, bool):
        return check_integer("window", window, 1, remedy="documents, or a timedelta")
    raise ParameterError(f"window={quoted(window)}: give a timedelta of at least a millisecond, or a number of documents")


# ---- documents -----------------------------------------------------------------------------------------------------------

_DEEPEST = 1000  # the deepest nesting that SQLite accepts as valid JSON

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def check_key(key: Any, name: str = "key") -> Key:
    """A key as stored: str, bytes or a signed 64-bit integer."""
    if isinstance(key, str):
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ParameterError(f"{name}={quoted_key(key)} holds half of a surrogate pair: give valid text, or bytes") from error
        return key if type(key) is str else str.__str__(key)
    if isinstance(key, bytes):
        return key if type(key) is bytes else bytes(memoryview(key))
    if isinstance(key, (int, Integral)) and not isinstance(key, bool):
        number = int(key)
        if _LEAST <= number <= _MOST:
            return number
        raise ParameterError(f"{name}={quoted(number)} does not fit 64 bits: give a smaller number, or its digits as text")
    how = f"give str, bytes or a 64-bit int{_as_key(key, name)}"
    raise ParameterError(f"{name}={quoted(key)} is of type {type(key).__name__}: {how}")


def _as_key(key: Any, name: str) -> str:
    """For a message: how to convert a value to a key; "" if there is no obvious way."""
    call = ""
    if isinstance(key, (bytearray, memoryview)):
        call = f"bytes({name})"
    elif isinstance(key, Enum):
        call = f"{name}.value"
    elif isinstance(key, (date, time)):
        call = f"{name}.isoformat()"
    elif not isinstance(key, Iterable) and str(key) != repr(key):  # UUID, Path, Decimal
        call = f"str({name})"
    return call and f", for example {call}"


def check_part(part: Any) -> Part | None:
    """The name of one code of a document: str or a signed 64-bit integer, None if unnamed."""
    if part is None:
        return None
    if not isinstance(part, (str, int, Integral)) or isinstance(part, bool):
        how = f"give str, a 64-bit int, or None{_as_key(part, 'part')}"
        raise ParameterError(f"part={quoted(part)} is of type {type(part).__name__}: {how}")
    return check_key(part, "part")  # type: ignore[return-value]


def is_plain_key(key: Any) -> bool:
    """A fast check that a key is stored unchanged. False means that `check_key` has to decide."""
    kind = type(key)
    if kind is str:
        return bool(key.isascii())
    return kind is bytes or (kind is int and _LEAST <= key <= _MOST)


def check_group(group: Any) -> Key | None:
    if isinstance(group, AnyGroup):
        raise ParameterError("group=ANY_GROUP is for queries only: give the name of one group, or None")
    return None if group is None else check_key(group, "group")


def check_text(text: Any, name: str = "text") -> str | bytes:
    if isinstance(text, (str, bytes)):
        return text
    raise ParameterError(f"{name}={quoted(text)} is of type {type(text).__name__}: give str, or bytes in UTF-8")


def check_texts(name: str, texts: Iterable[Any], kinds: tuple[type, ...] = (str, bytes)) -> list[Any]:
    """Texts as a list. An error names the position of the invalid text."""
    checked = list(texts)
    for place, text in enumerate(checked):
        if not isinstance(text, kinds):
            check_text(text, f"{name}[{place}]")
    return checked


def storable(text: str | bytes) -> str:
    """A text as stored: invalid Unicode becomes U+FFFD, as in its fingerprint."""
    if isinstance(text, str):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = text.encode("utf-8", "surrogatepass")
        else:
            return text
    return _SURROGATE.sub("\ufffd".encode(), text).decode("utf-8", "replace")


def check_metadata(metadata: Any) -> str | None:
    """Metadata as JSON text."""
    if metadata is None:
        return None
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        remedy = "give dicts, lists, strings and finite numbers"
        raise ParameterError(f"metadata cannot be written as JSON ({error}): {remedy}") from error
    if text.count("[") + text.count("{") > _DEEPEST and _depth(text) > _DEEPEST:
        raise ParameterError(f"metadata is nested {_depth(text):,} levels deep: SQLite reads at most {_DEEPEST:,} levels of JSON")
    return text


def _depth(text: str) -> int:
    return max(accumulate((letter in "[{") - (letter in "]}") for letter in _STRING.sub("", text)), default=0)


LATEST_MS = 10**17  # the limit of stored times, in milliseconds before and after 1970
_FIRST_S, _LAST_S = 946_684_800, 7_258_118_400  # 2000-01-01, 2200-01-01 UTC; other numbers are durations or have other units

_UNITS = {"milliseconds": 1000, "microseconds": 10**6, "nanoseconds": 10**9}

_MS = timedelta(milliseconds=1)


_MOMENT = "give an aware datetime, or Unix seconds"


def check_moment(moment: Any, name: str, remedy: str = _MOMENT) -> int | None:
    """An aware datetime or Unix seconds in milliseconds."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise ParameterError(f"{name}={moment!r} has no time zone: {_MOMENT}")
        seconds: Any = moment.timestamp()
    elif _is_number(moment):
        seconds = moment
    else:
        raise ParameterError(f"{name}={quoted(moment)} is of type {type(moment).__name__}: {remedy}")
    if not _FIRST_S <= seconds <= _LAST_S:
        what = f"{name}={quoted(moment)}"
        for unit, factor in _UNITS.items():
            if _FIRST_S * factor <= seconds <= _LAST_S * factor:
                raise ParameterError(f"{what} looks like {unit}, not Unix seconds: divide it by {factor:,}")
        raise ParameterError(f"{what} is not between the years 2000 and 2200: {remedy}")
    return round(float(seconds) * 1000)


def check_expiry(expires_at: Any = None, ttl: Any = None) -> int | None:
    """Milliseconds. expires_at: a time, or a timedelta from now. ttl: seconds or a timedelta from now."""
    if ttl is not None:
        if expires_at is not None:
            raise ParameterError(f"expires_at={quoted(expires_at)} and ttl={quoted(ttl)}: give one of the two")
        ends = now_ms() + _check_ttl(ttl)
    elif isinstance(expires_at, timedelta):
        ends = now_ms() + round(expires_at / _MS)
    else:
        remedy = "give a timedelta from now on, or ttl=, or an aware datetime, or Unix seconds"
        return check_moment(expires_at, "expires_at", remedy)
    if ends > _LAST_S * 1000:
        what = f"ttl={quoted(ttl)}" if ttl is not None else f"expires_at={quoted(expires_at)}"
        raise ParameterError(f"{what} ends after the year 2200: give a shorter time, or leave it out")
    return ends


def _check_ttl(ttl: Any) -> int:
    if not isinstance(ttl, timedelta) and not _is_number(ttl):
        raise ParameterError(f"ttl={quoted(ttl)} is of type {type(ttl).__name__}: give a timedelta, or a number of seconds")
    length = ttl / _MS if isinstance(ttl, timedelta) else min(max(ttl, 0), _LAST_S) * 1000.0
    if not length >= 1:
        raise ParameterError(f"ttl={quoted(ttl)}: give a timedelta, or a number of seconds, of at least a millisecond")
    return round(min(length, 1000.0 * _LAST_S))


def check_since(since: Any) -> int | None:
    """Milliseconds. since: a time, or a timedelta before now."""
    if isinstance(since, timedelta):
        return now_ms() - round(since / _MS)
    return check_moment(since, "since", "give a timedelta back from now, an aware datetime, or Unix seconds")


def check_if_exists(if_exists: Any) -> IfExists:
    return check_choice("if_exists", if_exists, _IF_EXISTS)


# ---- queries -------------------------------------------------------------------------------------------------------------


def check_limit(limit: Any) -> int | None:
    return None if limit is None else check_integer("limit", limit)


def check_asked_group(group: Any) -> Key | AnyGroup | None:
    return group if isinstance(group, AnyGroup) else check_group(group)


def check_measure(measure: Any) -> Measure | None:
    return None if measure is None else check_choice("measure", measure, (None, "containment"))
