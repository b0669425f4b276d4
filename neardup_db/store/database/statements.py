"""Owned connections with prepared statements that run without Python's lock (csrc/python/statement.c)."""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import WeakSet

import apsw

from ... import _python
from ..._python import Statement as Statement


class Connection(apsw.Connection):
    """Finalizes its prepared statements before it is closed. Holds only weak references to them."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._prepared: WeakSet[Statement] = WeakSet()
        apsw_library()
        _python.give_room(self)

    def prepared(self, sql: str) -> Statement:
        statement = Statement(self, sql)
        self._prepared.add(statement)
        return statement

    def close(self, force: bool = False) -> None:
        """Finalize the statements and close the connection. While a statement runs, it fails and changes nothing."""
        for statement in tuple(self._prepared):
            statement.end()
        super().close(force)


@cache
def apsw_library() -> int:
    """The number of apsw's SQLite library (`Handle.library`), whose functions statements then use."""
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_python.__file__)
    connection.close()
    return _python.apsw_library()
