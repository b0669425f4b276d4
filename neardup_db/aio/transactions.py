"""The transaction of an asyncio task."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any

from ..errors import ClosedError, NearDupError
from ..index import Index
from ..store.database.transactions import current_task
from .calls import Block, Calls
from .lanes import Call, Late, WaitQueue, no_op


class _TakenBackError(Exception):
    pass


class Transaction(AbstractAsyncContextManager[Any]):
    """A transaction of one task. It occupies the writing thread until its end."""

    task: object | None = None

    def __init__(self, index: Calls, begin: Callable[[Index], AbstractContextManager[Any]], late: Late) -> None:
        self._index = index
        self._begin = begin
        self._late = late
        self._is_entered = False
        self._open: AbstractContextManager[Any] | None = None
        """The context manager of `Index`, used in the thread."""
        self.outer: Block | None = None
        self._leave: Callable[[], None] = no_op
        self.line = WaitQueue(1)
        """The task's running call; after a cancellation it may still run."""

    async def __aenter__(self) -> Any:
        index = self._index
        if self._is_entered:
            raise NearDupError("this transaction() object is entered already: call index.transaction() again for another block")
        index._require_open()
        self._is_entered = True
        try:
            await index._flush()
            self.outer, self.task, self.line = index._own_block, current_task(), WaitQueue(1)
            if self.outer is None:
                await index._writes.enter(index._timeout, index._busy)
                self._leave = index._writes.release
            else:
                await self.outer.line.enter()
                self._leave = no_op
            then = no_op if self.outer is None else self.outer.line.release
            try:
                await self._start(self._enter, None, then).outcome()
            except BaseException:
                self._roll_back()
                raise
            index._block = self
        except BaseException:
            self._is_entered = False
            raise
        return index

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._index._process_id != os.getpid():  # the transaction belongs to the parent
            if kind is None:
                self._index._require_open()
            return
        self._end_here(kind is None)
        if kind is None:
            try:
                await self.line.enter()
            except BaseException:
                self._roll_back()
                raise
            await self._start(self._commit, self._late, self._leave).outcome()
        else:
            call = self._roll_back()
            if call is not None and kind is not GeneratorExit:  # at GeneratorExit the coroutine cannot wait
                await call.outcome()

    def _end_here(self, commits: bool) -> None:
        index = self._index
        if not self._is_entered:
            raise NearDupError("this transaction() is not entered, or has ended: enter it by `async with`")
        if commits and index._block is not self:
            raise NearDupError("a transaction() that began inside this one has not ended: end it before this one")
        self._is_entered = False
        block = index._block
        while block is not None and block is not self:
            block = block.outer
        if block is self:
            index._block = self.outer

    def _start(self, work: Callable[[], None], late: Late | None, then: Callable[[], None]) -> Call:
        return Call(self._index._running, self._index._writes, late, then).start(work)

    def _roll_back(self) -> Call | None:
        try:
            return self._start(self._cancel, None, self._leave)
        except ClosedError:  # at exit SQLite rolls back open transactions
            return None

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        block = self._begin(self._index._require_index())
        block.__enter__()
        self._open = block

    def _commit(self) -> None:
        assert self._open is not None
        block, self._open = self._open, None
        block.__exit__(None, None, None)

    def _cancel(self) -> None:
        block, self._open = self._open, None
        if block is not None:
            block.__exit__(_TakenBackError, _TakenBackError(), None)
