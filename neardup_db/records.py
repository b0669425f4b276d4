"""Checking what callers hand to an index, before anything is written."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from numbers import Integral
from typing import Any, NamedTuple

from .errors import ParameterError
from .store.documents import Record
from .values import Key

_MISSING = object()
_FIELDS = frozenset({"key", "text", "code", "metadata", "group", "expires_at", "if_exists"})
IF_EXISTS = ("error", "replace", "ignore")


class Incoming(NamedTuple):
    """One record of `add_many` or `add_codes`: checked, not yet fingerprinted."""

    record: Record
    content: Any  # text or code
    if_exists: str


def now_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def check_key(key: Any, what: str = "key") -> Key:
    """A key as it is stored: str, bytes or a signed 64-bit integer."""
    if isinstance(key, str):
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ParameterError(f"{what}={key!r} holds half of a surrogate pair: give valid text, or bytes") from error
        return key if type(key) is str else str.__str__(key)
    if isinstance(key, bytes):
        return key if type(key) is bytes else bytes(memoryview(key))
    if isinstance(key, Integral) and not isinstance(key, bool):
        number = int(key)
        if -(2**63) <= number < 2**63:
            return number
        raise ParameterError(f"{what}={number} does not fit 64 bits: give a smaller number, or its digits as text")
    raise ParameterError(f"{what}={key!r} is of type {type(key).__name__}: keys are str, bytes or 64-bit int")


def check_measure(measure: Any) -> None:
    """What a query may measure beside the index's own rule."""
    if measure is not None and not (isinstance(measure, str) and measure == "containment"):
        raise ParameterError(f"measure={measure!r}: give 'containment', or None for the measure of the index")


def check_group(group: Any) -> Key | None:
    """A group's name, or None."""
    return None if group is None else check_key(group, "group")


def check_text(text: Any) -> str | bytes:
    """A text to fingerprint."""
    if isinstance(text, (str, bytes)):
        return text
    raise ParameterError(f"text={text!r:.60} is of type {type(text).__name__}: a text is str, or bytes in UTF-8")


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def storable(text: str | bytes) -> str:
    """A text as it is stored: what is no valid Unicode becomes U+FFFD, as the fingerprint sees it."""
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
        remedy = "use dicts, lists, strings and finite numbers"
        raise ParameterError(f"metadata cannot be written as JSON ({error}): {remedy}") from error
    if text.count("[") + text.count("{") > _DEEPEST and _depth(text) > _DEEPEST:
        raise ParameterError(f"metadata is nested {_depth(text):,} deep: SQLite reads JSON down to {_DEEPEST:,}, make it flatter")
    return text


_DEEPEST = 1000
"""Levels of JSON that SQLite takes for valid."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _depth(text: str) -> int:
    """Levels of JSON text."""
    depth = deepest = 0
    for letter in _STRING.sub("", text):
        if letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def check_expiry(expires_at: Any) -> int | None:
    """An expiry in milliseconds: from an aware datetime or Unix seconds."""
    if expires_at is None:
        return None
    if isinstance(expires_at, datetime):
        if expires_at.tzinfo is None:
            raise ParameterError(f"expires_at={expires_at!r} has no time zone: give an aware datetime, or Unix seconds")
        return round(expires_at.timestamp() * 1000)
    if isinstance(expires_at, (int, float)) and not isinstance(expires_at, bool):
        if not -1e14 < expires_at < 1e14:
            raise ParameterError(f"expires_at={expires_at!r} is out of range: Unix seconds are meant")
        return round(expires_at * 1000)
    kind = type(expires_at).__name__
    raise ParameterError(f"expires_at={expires_at!r} is of type {kind}: give an aware datetime or Unix seconds")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The value, if it is one of the choices."""
    if value not in choices or isinstance(value, bool):
        raise ParameterError(f"{name}={value!r}: it is one of {', '.join(map(repr, choices))}")
    return value


def check_count(name: str, value: Any, least: int = 0) -> int:
    """A whole number of at least `least` that SQLite can hold, as an int."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= _MOST:
        raise ParameterError(f"{name}={value!r}: it is a whole number of at least {least}, and at most 2^63 - 1")
    return int(value)


def check_many(name: str, values: Any) -> Iterable[Any]:
    """Several of something: no single text, whose letters would be taken for them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ParameterError(f"{name}={values!r:.60} is of type {type(values).__name__}: give a list, or another iterable")
    return values


def check_callable(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise ParameterError(f"{name}={value!r}: it is a function, or None")
    return value


_LEAST, _MOST = -(2**63), 2**63 - 1


def is_plain_key(key: Any) -> bool:
    """Whether a key is certainly stored as it is; by far the most are, and this tells quickly."""
    kind = type(key)
    if kind is str:
        return bool(key.isascii())
    return kind is bytes or (kind is int and _LEAST <= key <= _MOST)


def incoming(record: Any, *, content: str, if_exists: str, store_text: bool) -> Incoming:
    """A record of `add_many` (content="text") or of codes: (key, content), or a mapping with the names of `add`'s arguments."""
    if isinstance(record, Mapping):
        unknown = [name for name in record if name not in _FIELDS]
        if unknown:
            raise ParameterError(f"record has the unknown field {unknown[0]!r}: fields are {', '.join(sorted(_FIELDS))}")
        if content == "text" and "code" in record and "text" not in record:
            raise ParameterError(f"record has a 'code' and no 'text': give codes to add_codes(keys, codes): {_shorten(record)}")
        for name in ("key", content):
            if record.get(name, _MISSING) is _MISSING:
                raise ParameterError(f"record has no {name!r}: {_shorten(record)}")
        fields = dict(record)
    elif isinstance(record, (tuple, list)) and len(record) == 2:
        fields = {"key": record[0], content: record[1]}
    else:
        raise ParameterError(f"record {_shorten(record)} is neither a pair (key, {content}) nor a mapping")
    value = fields[content]
    if content == "text":
        value = check_text(value)
    return Incoming(
        Record(
            check_key(fields["key"]),
            storable(value) if store_text and content == "text" else None,
            check_metadata(fields.get("metadata")),
            check_group(fields.get("group")),
            check_expiry(fields.get("expires_at")),
        ),
        value,
        check_choice("if_exists", fields.get("if_exists", if_exists), IF_EXISTS),
    )


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
