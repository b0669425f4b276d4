"""Which table of the application an index follows, as its settings say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import CorruptIndexError

PREFIX = "follow."
"""Of the names of these settings."""

SCAN = "follow.scan"
"""The setting that says how far the rows were compared with the documents, while that is not done."""


class Following(NamedTuple):
    """A table, and which of its columns are key, text and group of a document. `where`: the condition on a row, SQL of the owner.
    `sync`: "query" where questions take over what is pending."""

    table: str
    key: str
    text: str
    group: str | None
    where: str | None
    sync: str | None

    def settings(self) -> dict[str, Any]:
        """As they are stored."""
        return {f"{PREFIX}{name}": value for name, value in self._asdict().items()}


def read_following(index: str, settings: Mapping[str, Any]) -> Following | None:
    """What the settings of an index say, None where it follows no table."""
    values: dict[str, Any] = {name: settings.get(f"{PREFIX}{name}") for name in Following._fields}
    if values["table"] is None:
        return None
    for name, value in values.items():
        needed = name in ("table", "key", "text")
        if not isinstance(value, str) and (needed or value is not None):
            raise CorruptIndexError(f"index {index!r}: the setting {PREFIX}{name} is {value!r}: restore a backup")
    return Following(**values)
