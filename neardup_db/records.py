"""Checks of records: a pair, a mapping with the argument names of `add`, or a mapping whose fields the caller names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .errors import ParameterError
from .parameters import (
    IfExists,
    check_expiry,
    check_group,
    check_if_exists,
    check_key,
    check_kind,
    check_metadata,
    check_part,
    check_text,
    quoted,
    storable,
)
from .values import Incoming, Record

_MISSING = object()
_OPTIONAL = ("metadata", "group", "expires_at", "ttl", "part")
_FIELDS_OF_CODES = frozenset({"key", "text", "code", "if_exists", *_OPTIONAL})
_FIELDS = _FIELDS_OF_CODES - {"part"}


def check_record(record: Any, *, content: str, if_exists: IfExists, store_text: bool) -> Incoming:
    """A record of `add_many` or `add_codes`: a pair (key, content), or a mapping with the argument names of `add`."""
    if isinstance(record, Mapping):
        names = _FIELDS_OF_CODES if content == "code" else _FIELDS
        unknown = [name for name in record if name not in names]
        if unknown:
            named = "" if content == "code" else ", or name the fields, as in add_many(records, key='id', text='body')"
            raise ParameterError(f"record has the unknown field {quoted(unknown[0])}: give {', '.join(sorted(names))}{named}")
        if content == "text" and "code" in record and "text" not in record:
            raise ParameterError(f"record has a 'code' and no 'text': give codes to add_codes(keys, codes): {quoted(record)}")
        for name in ("key", content):
            if record.get(name, _MISSING) is _MISSING:
                raise ParameterError(f"record has no {name!r}: {quoted(record)}")
        fields = dict(record)
    elif isinstance(record, (tuple, list)) and len(record) == 2:
        fields = {"key": record[0], content: record[1]}
    else:
        raise ParameterError(f"record {quoted(record)}: give a pair (key, {content}), or a mapping")
    value = check_text(fields[content]) if content == "text" else fields[content]
    more = {name: fields[name] for name in _OPTIONAL if name in fields}
    checked = checked_record(fields["key"], value if store_text and content == "text" else None, **more)
    return Incoming(checked, value, check_if_exists(fields.get("if_exists", if_exists)))


def checked_record(
    key: Any, text: Any, metadata: Any = None, group: Any = None, expires_at: Any = None, ttl: Any = None, part: Any = None
) -> Record:
    """text: the text to store, None for none."""
    stored = None if text is None else storable(text)
    more = check_metadata(metadata), check_group(group), check_expiry(expires_at, ttl)
    return Record(check_key(key), stored, *more, part=check_part(part))


class FieldNames(NamedTuple):
    """The fields of a mapping that hold key, text, group and metadata. All other fields are ignored."""

    key: Any
    text: Any
    group: Any
    metadata: Sequence[Any]

    def record(self, row: Any) -> dict[str, Any]:
        """The record under the argument names of `add`."""
        if not isinstance(row, Mapping):
            how = "key= and text= name the fields of mappings or the columns of a table: leave them out for pairs"
            raise ParameterError(f"record={quoted(row)} is of type {type(row).__name__}: {how}")
        record = {role: self._value(row, role, name) for role, name in zip(("key", "text"), self[:2], strict=True)}
        if self.group is not None:
            record["group"] = self._value(row, "group", self.group)
        if self.metadata:
            record["metadata"] = {name: self._value(row, "metadata", name) for name in self.metadata}
        return record

    @staticmethod
    def _value(row: Mapping[Any, Any], role: str, name: Any) -> Any:
        value = row.get(name, _MISSING)
        if value is _MISSING:
            raise ParameterError(f"{role}={quoted(name)} is no field of the record, which has {quoted(list(row), 200)}")
        return value


def check_fields(key: Any, text: Any, group: Any, metadata: Any) -> FieldNames | None:
    """The field names, or None if no argument names a field."""
    if key is None and text is None and group is None and metadata is None:
        return None
    if key is None or text is None:
        how = "say which hold the keys and the texts, as in add_many(records, key='id', text='body')"
        raise ParameterError(f"key={quoted(key)}, text={quoted(text)}: the fields of records are named together: {how}")
    names = FieldNames(key, text, group, check_metadata_names(metadata))
    for role, name in (("key", key), ("text", text), ("group", group), *(("metadata", name) for name in names.metadata)):
        check_kind(role, name, str, "the name of a field")
    return names


def check_metadata_names(metadata: Any) -> Sequence[str]:
    if isinstance(metadata, str) or not isinstance(metadata, Sequence | None):
        raise ParameterError(f"metadata={quoted(metadata)}: give a list of the names of columns")
    return metadata or ()
