"""Threads for the calls of asyncio tasks, and the first-in, first-out queue of the tasks that wait for one."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import logging
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import wait
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..errors import ClosedError

Late = Callable[[Any, "BaseException | None"], None]
"""Receives the result or error of a call that had begun when its task was cancelled."""

_LOOK_AGAIN_S = 0.5  # how often a thread waiting for a loop checks that the loop still runs
_EXIT_S = 30.0  # how long the interpreter waits at exit for running calls

_logger = logging.getLogger("neardup_db.aio")
program_ends = threading.Event()


def no_op() -> None:
    pass


class Lane:
    """Some places, each with a thread, started on demand. Except for `_work`, it is used in the loop's thread only."""

    def __init__(self, places: int, name: str) -> None:
        self.places = places
        self.taken = 0
        self._waiting: OrderedDict[asyncio.Future[bool], None] = OrderedDict()
        self._name = name
        self._works: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        _lanes.add(self)

    def __del__(self) -> None:
        self.end()

    async def enter(self, timeout: float) -> bool:
        """Take a place after the tasks that wait already. False after the timeout. Cancelling the task leaves the queue."""
        if self.taken < self.places:
            self.taken += 1
            return True
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting[waiter] = None
        timer = loop.call_later(timeout, _answer, waiter, False)
        try:
            has_place: bool = await waiter
            return has_place
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.release()  # the place was assigned just before the cancellation
            raise
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)

    def release(self) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if _answer(waiter, True):
                return
        self.taken -= 1

    def submit(self, work: Callable[[], Any]) -> None:
        """Run work in a thread, after earlier work."""
        if program_ends.is_set():
            raise ClosedError("the index is closed, since the program ends")
        if len(self._threads) < self.taken:
            thread = threading.Thread(target=_work, args=(self._works,), name=self._name, daemon=True)
            thread.start()
            self._threads.append(thread)
        self._works.put(work)

    def end(self) -> list[threading.Thread]:
        """End the threads after their works, and return them."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._works.put(None)
        return threads


def _answer(waiter: asyncio.Future[bool], has_place: bool) -> bool:
    is_waiting = not waiter.done()
    if is_waiting:
        waiter.set_result(has_place)
    return is_waiting


def _work(works: SimpleQueue[Callable[[], Any] | None]) -> None:
    while (work := works.get()) is not None:
        try:
            work()
        except BaseException:  # SystemExit too: the thread has other calls to run
            _logger.exception("what came after a call failed")
        del work


class Call:
    """Work in a thread, and its outcome for the waiting task. `then` is called on the loop after the work.

    If the task was cancelled, `late` receives the outcome, on the loop, or in the thread if the loop is closed; work that has not
    begun is dropped. Without `late` the work is done in any case.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lane: Lane, work: Callable[[Call], Any], late: Late | None,
        then: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._late = late
        self._then = then
        self._over: asyncio.Future[None] = loop.create_future()
        self._done: tuple[Any, BaseException | None] = None, None
        self._is_left = False
        try:
            lane.submit(partial(copy_context().run, self._run, work))
        except BaseException:
            then()
            raise

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

    def _run(self, work: Callable[[Call], Any]) -> None:
        result, error = None, None
        if self._late is not None and self.is_abandoned:
            self._late = None
        else:
            try:
                result = work(self)
            except BaseException as raised:
                error = raised
        del work  # it may refer to this call
        try:
            self._loop.call_soon_threadsafe(self._end, result, error)
        except RuntimeError:  # the loop is closed
            self._report_late(result, error)
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
        """From the thread: call a function on the loop, await its result, raise its exception. Nothing if no task waits."""
        if self.is_abandoned or self._loop.is_closed():
            return
        work = _error_of_callback(function, args)
        try:
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # closed just now
            work.close()
            return
        while not wait([answer], _LOOK_AGAIN_S).done:
            if program_ends.is_set() or self._loop.is_closed():
                return
        error = None if answer.cancelled() else answer.result()
        if error is not None:
            raise error


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
    program_ends.set()
    until = time.monotonic() + _EXIT_S
    for thread in [thread for lane in [*_lanes] for thread in lane.end()]:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_end_all)
