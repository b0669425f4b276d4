"""Restores cached state when a transaction is rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from ..._python import ReentrantLock
from .errors import CommitInCallError
from .standard import StandardConnection


class Undo(list[Callable[[], None]]):
    """Functions that SQLite's hooks call if the open transaction is rolled back, the last one first."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = 0  # the number of reported ends of transactions
        self._calls = ReentrantLock()  # locked during a call on an apsw connection
        self._standard: StandardConnection | None = None

    def refuse_commits(self) -> object | None:
        """Until the returned object is released, a COMMIT rolls back: only SQL of the application can send it during a call."""
        return self._calls.take(0) if self._standard is None else self._standard.refuse_commits()

    def watch(self, connection: Any) -> None:
        """Register for transaction ends. apsw's hooks have an id, so the application's hooks stay."""
        if isinstance(connection, StandardConnection):
            self._standard = connection
            connection.watch(self)
        elif isinstance(connection, apsw.Connection):
            connection.set_commit_hook(self._commit, id=id(self))
            connection.set_rollback_hook(self.rolled_back, id=id(self))

    def unwatch(self, connection: Any) -> None:
        if isinstance(connection, StandardConnection):
            connection.unwatch(self)
        elif isinstance(connection, apsw.Connection):
            connection.set_commit_hook(None, id=id(self))
            connection.set_rollback_hook(None, id=id(self))

    def _commit(self) -> bool:
        if self._calls.taken:
            raise CommitInCallError  # SQLite rolls back
        self.committed()
        return False

    def committed(self) -> None:
        self.ends += 1
        self.clear()

    def rolled_back(self) -> None:
        self.ends += 1
        while self:
            self.pop()()
