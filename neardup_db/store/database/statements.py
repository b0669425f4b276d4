"""Owned connections with prepared statements that run without Python's lock (csrc/python/questions.c)."""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import WeakSet

import apsw

from ... import _questions
from ..._questions import Statement as Statement


class Connection(apsw.Connection):
    """Finalizes its prepared statements before it is closed. Holds only weak references to them."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._prepared: WeakSet[Statement] = WeakSet()
        _share_functions()
        _questions.give_room(self)

    def prepared(self, sql: str) -> Statement:
        statement = Statement(self, sql)
        self._prepared.add(statement)
        return statement

    def close(self, force: bool = False) -> None:
        """Finalize the statements and close the connection. While a statement runs, it fails and changes nothing."""
        try:
            for statement in tuple(self._prepared):
                statement.end()
            super().close(force)
        except BaseException:
            for statement in tuple(self._prepared):
                statement.resume()
            raise


@cache
def _share_functions() -> None:
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_questions.__file__, "sqlite3_neardup_questions_init")
    connection.close()
