"""The settings of an index that follows a table of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import CorruptIndexError

PREFIX = "follow."  # the prefix of these settings' names
SCAN = "follow.scan"  # the setting with the position of an unfinished comparison of rows with documents


class Following(NamedTuple):
    """A followed table and its columns. where: an SQL condition on rows. sync: "query" if queries sync first."""

    table: str
    key: str
    text: str
    group: str | None
    where: str | None
    sync: str | None

    def settings(self) -> dict[str, Any]:
        return {f"{PREFIX}{name}": value for name, value in self._asdict().items()}


def read_following(index: str, settings: Mapping[str, Any]) -> Following | None:
    values: dict[str, Any] = {name: settings.get(f"{PREFIX}{name}") for name in Following._fields}
    if values["table"] is None:
        return None
    for name, value in values.items():
        required = name in ("table", "key", "text")
        if not isinstance(value, str) and (required or value is not None):
            raise CorruptIndexError(f"index {index!r}: the setting {PREFIX}{name} is {value!r}: restore a backup")
    return Following(**values)
