"""Connections of our own, whose statements stay prepared and run without Python's lock (csrc/python/questions.c)."""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import WeakSet

import apsw

from ... import _questions
from ..._questions import Statement as Statement


class Connection(apsw.Connection):
    """A connection that ends its prepared statements before it is closed. They keep it alive, and it does not keep them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._prepared: WeakSet[Statement] = WeakSet()
        _take_functions()
        _questions.give_room(self)

    def prepared(self, sql: str) -> Statement:
        """A statement that stays prepared as long as somebody has it and the connection is open."""
        statement = Statement(self, sql)
        self._prepared.add(statement)
        return statement

    def close(self, force: bool = False) -> None:
        """Ends the statements, then the connection. Where a statement is running it cannot be closed, and nothing changes."""
        try:
            for statement in tuple(self._prepared):
                statement.end()
            super().close(force)
        except BaseException:
            for statement in tuple(self._prepared):
                statement.resume()
            raise


@cache
def _take_functions() -> None:
    """Hand the functions of apsw's SQLite to the statements."""
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    connection.load_extension(_questions.__file__, "sqlite3_neardup_questions_init")
    connection.close()
