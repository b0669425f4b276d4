"""Calls from asyncio tasks to one Index: its opening and closing, their order, transactions, and late results."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from .. import limits
from ..errors import BusyError, ClosedError, NearDupError, ParameterError
from ..index import Index
from ..parameters import check_callable, check_integer, check_timeout, quoted
from ..store.database.transactions import current_task
from .threads import Call, Lane, Late, no_op

Opened = TypeVar("Opened", bound="Calls")

_logger = logging.getLogger("neardup_db.aio")


class LateResult(NamedTuple):
    """The outcome of a call whose task was cancelled after the call had begun."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    error: BaseException | None
    """None if the call succeeded; `result` is then its return value."""


def _logged(late: LateResult) -> None:
    how = "was done" if late.error is None else f"failed ({late.error})"
    _logger.info("%s(%s) %s after its task was cancelled", late.method, ", ".join(map(quoted, late.args[:1])), how)


class Calls:
    """An Index, its writing thread, its reading threads, and the event loop of the calling tasks."""

    _index: Index | None = None
    _loop: asyncio.AbstractEventLoop | None = None  # of the last call
    _has_readers = False
    _closing: asyncio.Task[None] | None = None
    _owner: object | None = None  # the task inside a transaction, and how many of its transactions are open
    _depth = 0

    def __init__(
        self, target: Any, options: dict[str, Any], readers: int | None, on_late_result: Callable[[LateResult], Any] | None
    ) -> None:
        try:
            os.fspath(target)
        except TypeError as error:
            raise ParameterError(
                f"target={quoted(target)}: give a path or ':memory:'. A connection of yours would be used by other threads "
                "than yours; open its file by the path with attach=True, or use Index(connection) in the connection's thread"
            ) from error
        self._target = target
        self._options = options
        self._timeout = check_timeout(options["timeout"])
        check_plain("on_late_result", on_late_result)
        self._on_late_result = on_late_result or _logged
        most = limits.READERS_MAX
        self._most = most if readers is None else check_integer("readers", readers, 1, most)
        self._loads: dict[object, Callable[[], Awaitable[None]]] = {}  # by task that reads a load: stores the pending records
        self._begin()

    # ---- the object --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._writes, self._reads = Lane(1, "neardup writes"), Lane(self._most, "neardup reads")

    async def open(self: Opened) -> Opened:
        """Open the index, unless it is open, and return it, as `async with` does. Raises the errors of `Index(...)`."""
        if self._index is None and self._process_id != os.getpid():
            self._begin()
        self._require_here()
        while self._closing is not None:
            await asyncio.wait([self._closing])
        await self._enter(self._writes)
        if self._index is not None:  # opened by another task meanwhile
            self._writes.release()
        else:
            await self._start(self._writes, self._open_now, self._opened_late, self._writes.release).outcome()
        return self

    def _open_now(self, call: Call) -> None:
        index = Index(self._target, **self._options)
        self._has_readers = index._readers.reserve_main()
        self._index = index

    def _opened_late(self, result: None, error: BaseException | None) -> None:
        index, self._index = self._index, None
        if index is not None:
            with suppress(ClosedError):
                self._writes.submit(index.close)

    async def close(self) -> None:
        """Close the index after all earlier calls; later calls raise ClosedError. Closing goes on if the task is cancelled.

        Raises BusyError, and the index stays open, if other calls do not end within the timeout.
        """
        if self._index is None or self._process_id != os.getpid():
            return
        self._require_here()
        if self._own_depth:
            raise NearDupError("the index cannot be closed inside its own transaction: leave the transaction first")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        entered: list[Lane] = []
        try:
            for lane in (self._writes, *([self._reads] * self._reads.places)):
                await self._enter(lane)
                entered.append(lane)
            await self._start(self._writes, self._close_now).outcome()
            self._writes.end()
            self._reads.end()
        finally:
            self._closing = None
            for lane in entered:
                lane.release()

    def _close_now(self, call: Call) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    # ---- what a call requires ----------------------------------------------------------------------------------------

    def _require_index(self) -> Index:
        index = self._index
        if index is None:
            raise ClosedError("the index is not open: use it inside `async with AsyncIndex(path) as index:`, or after open()")
        index._store.db.require_open()
        return index

    def _require_here(self) -> None:
        """Raises ClosedError in a forked child, and NearDupError in a second loop. Loops may take turns."""
        if self._process_id != os.getpid():
            raise ClosedError("this AsyncIndex was opened in the parent process: create another in the child, after the fork")
        loop = _running_loop()
        if self._loop is not loop:
            is_in_use = self._index is not None and self._loop is not None and not self._loop.is_closed()
            if is_in_use or self._writes.taken or self._reads.taken:
                raise NearDupError("this AsyncIndex is in use in another event loop: create and open another one in this loop")
            self._loop = loop

    def _require_open(self) -> None:
        """Raises ClosedError if the index is closed or a close() is waiting, except inside this task's transaction."""
        if self._index is not None:
            self._require_here()
        self._require_index()
        if self._closing is not None and not self._own_depth:
            raise ClosedError("the index is being closed: open it again with open()")

    @property
    def _own_depth(self) -> int:
        """In how many nested transactions this task is."""
        return self._depth if self._depth and self._owner is current_task() else 0

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _late(self, method: str, *args: Any, **kwargs: Any) -> Late:
        def report(result: Any, error: BaseException | None) -> None:
            try:
                self._on_late_result(LateResult(method, args, kwargs, result, error))
            except Exception:
                _logger.exception("on_late_result failed")

        return report

    async def _enter(self, lane: Lane) -> None:
        if not await lane.enter(self._timeout):
            raise BusyError(
                f"the call has waited {self._timeout:g} s for calls of other tasks and did nothing: try again, or give a "
                "larger timeout. In a transaction() call from the task that entered it: gather() and create_task() start other "
                "tasks"
            )

    def _start(
        self, lane: Lane, work: Callable[[Call], Any], late: Late | None = None, then: Callable[[], None] = no_op
    ) -> Call:
        assert self._loop is not None
        return Call(self._loop, lane, work, late, then)

    async def _call(self, work: Callable[[Index, Call], Any], late: Late | None, *, reads: bool = False) -> Any:
        """Run work in a thread and return its result. A task in a transaction sees its own writes."""
        self._require_open()
        await self._flush()
        lane, then = self._writes, no_op
        if not self._own_depth:
            if reads and self._has_readers:
                lane = self._reads
            await self._enter(lane)
            then = lane.release
        return await self._start(lane, lambda call: work(self._require_index(), call), late, then).outcome()

    async def _flush(self) -> None:
        """If this task reads the records of a load, store the pending records, so that its calls find them."""
        flush = self._loads.get(current_task()) if self._loads else None
        if flush is not None:
            await flush()

    @asynccontextmanager
    async def _transaction(self, begin: Callable[[Index], AbstractContextManager[Any]], late: Late) -> AsyncIterator[Any]:
        """A transaction of this task, which occupies the writing thread until its end."""
        self._require_open()
        await self._flush()
        leave = no_op
        if not self._own_depth:
            await self._enter(self._writes)
            leave = self._writes.release
        begun, is_inside = ExitStack(), False  # the stack is used in the thread
        try:
            await self._start(self._writes, lambda call: begun.enter_context(begin(self._require_index()))).outcome()
            self._owner, self._depth, is_inside = current_task(), self._depth + 1, True
            try:
                yield self
            finally:
                self._depth -= 1
                self._owner = self._owner if self._depth else None
            is_inside = False
            self._require_here()
            await self._start(self._writes, lambda call: begun.close(), late).outcome()
        except BaseException as error:
            if self._process_id == os.getpid():  # else the transaction is the parent's
                with suppress(ClosedError):  # at exit SQLite rolls back open transactions
                    given_up = asyncio.CancelledError()
                    call = self._start(self._writes, lambda call: begun.__exit__(type(given_up), given_up, None), None, leave)
                    if is_inside and not isinstance(error, GeneratorExit):  # at GeneratorExit the coroutine cannot wait
                        await call.outcome()
            raise
        leave()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise NearDupError("AsyncIndex needs a running asyncio loop: under trio use Index by trio.to_thread.run_sync") from error


def check_plain(name: str, function: object) -> None:
    """Refuses a coroutine function, because its result would not be awaited."""
    check_callable(name, function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ParameterError(f"{name}={quoted(function)}: give a plain function, since nothing awaits what it returns")
