"""Threads for the calls of asyncio tasks, and first-in, first-out queues for these threads."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..errors import BusyError, ClosedError, NearDupError

Late = Callable[[Any, "BaseException | None"], None]
"""Receives the result or error of a call whose task no longer waits."""

_LOOK_AGAIN_S = 0.5
"""The interval in seconds at which a thread waiting for a loop checks that the loop still runs."""

_EXIT_S = 30.0
"""How long the interpreter waits at exit for running calls, in seconds."""

_logger = logging.getLogger("neardup_db.aio")
_has_ended = False
"""Whether the interpreter is exiting."""


def is_program_ending() -> bool:
    return _has_ended


def no_op() -> None:
    pass


class WaitQueue:
    """A semaphore with first-in, first-out order, for the loop's thread only."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def enter(self, timeout: float | None = None, busy: str = "") -> None:
        """Acquire a place; raises BusyError after the timeout. Cancelling the task leaves the queue."""
        if self.taken < self.places:
            self.taken += 1
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting[waiter] = None
        timer = None if timeout is None else loop.call_later(timeout, self._expire, waiter, busy)
        try:
            await waiter
        except BaseException:
            if waiter not in self._waiting and not waiter.cancelled() and waiter.exception() is None:
                self.release()  # the place was assigned just before the cancellation
            self._waiting.pop(waiter, None)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self, waiter: asyncio.Future[None], busy: str) -> None:
        if self._waiting.pop(waiter, self) is None and not waiter.done():
            waiter.set_exception(BusyError(busy))

    def release(self) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return
        self.taken -= 1


class Lane(WaitQueue):
    """A Line of threads: each acquired place has its own thread, started on demand."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads)
        self._name = name
        self._works: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._process_id = os.getpid()
        _lanes.add(self)

    def submit(self, work: Callable[[], Any]) -> None:
        """Run work in a thread, after earlier work. It must not raise."""
        if _has_ended:
            raise ClosedError("the index is closed, since the program ends")
        if len(self._threads) < self.taken:
            thread = threading.Thread(target=_work, args=(self._works,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                if not self._threads:
                    raise NearDupError(f"no thread could be started for the index ({error}), and nothing was done") from error
            else:
                self._threads.append(thread)
        self._works.put(work)

    def end(self) -> list[threading.Thread]:
        threads, self._threads = self._threads, []
        if self._process_id != os.getpid():  # the threads are the parent's
            return []
        for _ in threads:
            self._works.put(None)
        return threads


def _work(works: SimpleQueue[Callable[[], Any] | None]) -> None:
    while (work := works.get()) is not None:
        work()
        del work


class Call:
    """Work in a thread, and its result for the waiting task. If the task was cancelled, `late` receives the result, on the loop,
    or in the thread if the loop is closed. `then` runs on the loop after the work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lane: Lane, late: Late | None, then: Callable[[], None]) -> None:
        self._loop = loop
        self._lane = lane
        self._late = late
        self._then = then
        self._over: asyncio.Future[None] = loop.create_future()
        self._done: tuple[Any, BaseException | None] = None, None
        self._is_left = False

    def start(self, work: Callable[[], Any]) -> Call:
        try:
            self._lane.submit(partial(copy_context().run, self._run, work))
        except BaseException:
            self._then()
            raise
        return self

    async def outcome(self) -> Any:
        try:
            await self._over
        except BaseException:  # cancelled, or the coroutine was closed
            self._is_left = True
            if self._over.done() and not self._over.cancelled():
                self._report_late(*self._done)
            raise
        (result, error), self._done = self._done, (None, None)  # the traceback's frames refer to this call
        if error is not None:
            try:
                raise error
            finally:
                del error
        return result

    @property
    def is_abandoned(self) -> bool:
        return self._is_left or self._over.cancelled()

    def _run(self, work: Callable[[], Any]) -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        del work  # it may refer to this call
        try:
            self._loop.call_soon_threadsafe(self._end, result, error)
        except RuntimeError:  # the loop is closed
            try:
                self._report_late(result, error)
            except BaseException:  # SystemExit too: the thread has other calls to run
                _logger.exception("on_late_result failed")
        finally:
            del self, result, error  # the traceback refers to this frame

    def _end(self, result: Any, error: BaseException | None) -> None:
        try:
            if self.is_abandoned:
                self._report_late(result, error)
            else:
                self._done = result, error
                self._over.set_result(None)
        finally:
            self._then()

    def _report_late(self, result: Any, error: BaseException | None) -> None:
        if self._late is not None:
            self._late(result, error)

    def on_loop(self, function: Callable[..., Any], *args: Any) -> None:
        """From the thread: call a function on the loop, await its result if possible, and raise its exception. Does nothing if
        the task no longer waits."""
        if self.is_abandoned or self._loop.is_closed():
            return None
        done, work = threading.Event(), _error_of_callback(function, args)
        try:
            told = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # closed just now
            return work.close()
        told.add_done_callback(lambda _: done.set())
        while not done.wait(_LOOK_AGAIN_S):
            if _has_ended or self._loop.is_closed():
                return None
        error = None if told.cancelled() else told.result()
        if error is not None:
            raise error
        return None


async def _error_of_callback(function: Callable[..., Any], args: tuple[Any, ...]) -> BaseException | None:
    """The exception of a user's function. SystemExit, too, is raised by its call."""
    try:
        answer = function(*args)
        if inspect.isawaitable(answer):
            await answer
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    return None


_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


def _end_all() -> None:
    """At exit, the threads do not block the interpreter, and their running calls are completed."""
    global _has_ended
    _has_ended = True
    until = time.monotonic() + _EXIT_S
    for thread in [thread for lane in [*_lanes] for thread in lane.end()]:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_end_all)
