"""An application's file with an index that follows a table in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from application import Application
from support import SETS, WORDS

from neardup_db import Index, SyncReport

PLAIN = "CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT, lang TEXT, slug TEXT UNIQUE, views INTEGER DEFAULT 0)"


class Followed:
    """An application's file with an index beside its tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.application = Application(path)
        self.run = self.application.run
        self._indexes: list[Index] = []

    def index(self, name: str = "neardup", **more: Any) -> Index:
        """Open the index, and make it where it is not there."""
        index = Index(self.path, None if more.get("read_only") else SETS, text=WORDS, name=name, attach=True, **more)
        self._indexes.append(index)
        return index

    def following(self, table: str = PLAIN, **how: Any) -> Index:
        """An index that follows a new table, which is empty."""
        self.run(table)
        index = self.index()
        index.follow(how.pop("table", "articles"), **how)
        assert index.sync().complete
        return index

    def close(self) -> None:
        """All of it."""
        for index in self._indexes:
            index.close()
        self.application.close()


def keys(index: Index) -> set[Any]:
    """Of all documents."""
    return set(index)


def pending(index: Index) -> int:
    """Changes that wait for sync."""
    return int(index.connection.execute(f"SELECT count(*) FROM {index.name}_pending").get)


def right(index: Index) -> SyncReport:
    """Take over what is pending; afterwards nothing is, and a comparison of everything finds nothing."""
    report = index.sync()
    assert report.complete and pending(index) == 0
    found = index.sync(full=True)
    assert (found.found, found.complete) == (0, True), found
    assert index.check().problems == () and index.check().notes == ()
    return report
