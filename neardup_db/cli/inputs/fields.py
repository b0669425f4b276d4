"""Access to the fields of a record by name, also within nested objects."""

from __future__ import annotations

from typing import Any

ABSENT = object()
"""The value of a missing field."""


def field_value(fields: dict[str, Any], name: str) -> Any:
    """The value of a field, or ABSENT. Dots lead into objects, unless a field has the full name.

    >>> from neardup_db.cli.inputs.fields import ABSENT, field_value
    >>> record = {"doc": {"body": "a"}}
    >>> field_value(record, "doc.body"), field_value(record, "doc.no") is ABSENT
    ('a', True)
    """
    if name in fields:
        return fields[name]
    value: Any = fields
    for step in name.split("."):
        if not isinstance(value, dict) or step not in value:
            return ABSENT
        value = value[step]
    return value


def pop_field(fields: dict[str, Any], name: str) -> Any:
    """Remove a field and return its value, None if it is missing. Names work as in `field_value`.

    >>> from neardup_db.cli.inputs.fields import pop_field
    >>> record = {"doc": {"body": "a", "n": 1}, "doc.n": 2}
    >>> pop_field(record, "doc.body"), pop_field(record, "doc.n"), pop_field(record, "doc.no"), record
    ('a', 2, None, {'doc': {'n': 1}})
    """
    if name in fields:
        return fields.pop(name)
    *path, last = name.split(".")
    inner: Any = fields
    for step in path:
        inner = inner.get(step)
        if not isinstance(inner, dict):
            return None
    return inner.pop(last, None)


def kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def joined_names(names: Any) -> str:
    shown = [repr(name) for name in names][:12]
    return ", ".join(shown) + (", ..." if len(names) > 12 else "") if shown else "no other field"
