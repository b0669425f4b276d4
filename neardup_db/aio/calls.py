"""Calls from asyncio tasks to one Index: their threads, their order, and the results of calls whose task was cancelled."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from .. import limits
from ..errors import ClosedError, NearDupError, ParameterError
from ..index import Index
from ..parameters import check_callable, check_integer, check_timeout, quoted
from ..store.database.transactions import current_task
from .lanes import Call, Lane, Late, WaitQueue, no_op

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


Opened = TypeVar("Opened", bound="Calls")


class Block(Protocol):
    task: object | None
    line: WaitQueue
    """The task's running call; after a cancellation it may still run."""
    outer: Block | None


class Calls:
    """An Index, its writing thread, its reading threads, and the event loop of the calling tasks."""

    _target: Any
    _options: dict[str, Any]
    _readers: int | None
    _on_late_result: Callable[[LateResult], Any] | None

    def _begin(self) -> None:
        """Check the arguments that Index itself does not check."""
        try:
            os.fspath(self._target)
        except TypeError as error:
            raise ParameterError(
                f"target={quoted(self._target)}: give a path or ':memory:'. A connection of yours would be used by other threads "
                "than yours; open its file by the path with attach=True, or use Index(connection) in the connection's thread"
            ) from error
        self._timeout = check_timeout(self._options["timeout"])
        check_plain("on_late_result", self._on_late_result)
        most = limits.READERS_MAX
        self._most = most if self._readers is None else check_integer("readers", self._readers, 1, most)
        self._index: Index | None = None
        self._process_id = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the index was opened."""
        self._writes: Lane
        self._reads: Lane
        self._closing: asyncio.Task[None] | None = None
        self._has_readers = False
        self._block: Block | None = None
        """The innermost open transaction."""
        self._loads: dict[object, Callable[[], Awaitable[None]]] = {}
        """By task that reads the records of a load: a function that stores the pending records."""

    async def open(self: Opened) -> Opened:
        """Open the index, unless it is open, and return it, as `async with` does. Raises the errors of `Index(...)`."""
        self._bind()
        while self._closing is not None:
            await asyncio.wait([self._closing])
        await self._writes.enter(self._timeout, self._busy)
        if self._index is not None:  # opened by another task meanwhile
            self._writes.release()
            return self
        call = Call(self._running, self._writes, self._opened_late, self._writes.release)
        try:
            self._index, self._has_readers = await call.start(self._open_now).outcome()
        except Exception:
            self._writes.end()
            raise
        return self

    def _bind(self) -> None:
        if self._loop is None or (self._index is None and self._process_id != os.getpid()):
            self._loop, self._process_id = _running_loop(), os.getpid()
            self._writes, self._reads = Lane(1, "neardup writes"), Lane(self._most, "neardup reads")
            for lane in (self._writes, self._reads):
                weakref.finalize(self, lane.end).atexit = False  # at exit, the threads finish their calls first
        self._require_here()

    def _open_now(self) -> tuple[Index, bool]:
        index = Index(self._target, **self._options)
        return index, index._readers.reserve_main()

    def _opened_late(self, opened: tuple[Index, bool] | None, error: BaseException | None) -> None:
        if opened is not None:
            with suppress(ClosedError):
                self._writes.submit(opened[0].close)
        self._writes.end()

    async def close(self) -> None:
        """Close the index after all earlier calls; later calls raise ClosedError. Closing again does nothing. Once begun, closing
        continues even if the task is cancelled.

        Raises BusyError, and the index stays open, if other calls do not end within the timeout.
        """
        if self._index is None or self._process_id != os.getpid():
            return
        self._require_here()
        if self._own_block is not None:
            raise NearDupError("the index cannot be closed inside its own transaction: leave the transaction first")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        entered: list[Lane] = []
        try:
            for lane in (self._writes, *([self._reads] * self._reads.places)):
                await lane.enter(self._timeout, self._busy)
                entered.append(lane)
            await Call(self._running, self._writes, None, no_op).start(self._close_now).outcome()
            self._writes.end()
            self._reads.end()
        finally:
            self._closing = None
            for lane in entered:
                lane.release()

    def _close_now(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _require_index(self) -> Index:
        index = self._index
        if index is None:
            raise ClosedError("the index is not open: use it inside `async with AsyncIndex(path) as index:`, or after open()")
        index._store.db.require_open()
        return index

    def _require_here(self) -> None:
        """Raises ClosedError in a forked child, and NearDupError in a second loop. Loops may take turns."""
        if self._process_id != os.getpid():
            raise ClosedError(
                "this AsyncIndex was opened in the parent process: create another in the child, AsyncIndex(path), and open it "
                "after the fork"
            )
        loop = _running_loop()
        if self._loop is not loop:
            is_there = self._index is not None and not self._running.is_closed()
            if is_there or self._writes.taken or self._reads.taken:
                raise NearDupError(
                    "this AsyncIndex was opened in another event loop, which still runs, or has unfinished calls: create and "
                    "open another one in this loop, AsyncIndex(path)"
                )
            self._loop = loop

    def _require_open(self) -> None:
        """Raises ClosedError if the index is closed or a close() is waiting, except inside this task's transaction."""
        if self._index is not None:
            self._require_here()
        self._require_index()
        if self._closing is not None and self._own_block is None:
            raise ClosedError("the index is being closed: open it again with open()")

    @property
    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    @property
    def _own_block(self) -> Block | None:
        block = self._block
        return block if block is not None and block.task is current_task() else None

    @property
    def _busy(self) -> str:
        return (
            f"the call has waited {self._timeout:g} s for calls of other tasks and did nothing: try again, or give a "
            "larger timeout. In a transaction() call from the task that entered it: gather() and create_task() start other tasks"
        )

    def _late(self, method: str, *args: Any, **kwargs: Any) -> Late:
        def report(result: Any, error: BaseException | None) -> None:
            try:
                (self._on_late_result or _logged)(LateResult(method, args, kwargs, result, error))
            except Exception:
                _logger.exception("on_late_result failed")

        return report

    async def _call(self, work: Callable[[Call], Any], late: Late | None, *, reads: bool = False) -> Any:
        """Run work in a thread and return its result. A task in a transaction sees its own writes."""
        self._require_open()
        await self._flush()
        block = self._own_block
        lane = self._reads if reads and block is None and self._has_readers else self._writes
        if block is None:
            line: WaitQueue = lane
            await line.enter(self._timeout, self._busy)
        else:
            line = block.line
            await line.enter()
        call = Call(self._running, lane, late, line.release)
        return await call.start(partial(work, call)).outcome()

    async def _flush(self) -> None:
        """If this task reads the records of a load, store the pending records, so that its calls find them."""
        flush = self._loads.get(current_task()) if self._loads else None
        if flush is not None:
            await flush()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise NearDupError(
            "AsyncIndex needs a running loop of asyncio: call it in a coroutine; under trio use an Index, with "
            "trio.to_thread.run_sync"
        ) from error


def check_plain(name: str, function: object) -> None:
    """Refuses a coroutine function, because its result would not be awaited."""
    check_callable(name, function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise ParameterError(f"{name}={quoted(function)}: give a plain function, since nothing awaits what it returns")
