"""Threads that run the calls of asyncio tasks, in the order in which the tasks gave them.

A task gives a `Call` to a `Lane` and waits for its outcome. For a stretch (a transaction, a load whose records come from the
task) the lane belongs to one task: its thread then runs the calls of that task only, inside the work of the stretch.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from ..errors import BusyError, ClosedError, NearDupError
from ..store.database.connection import current_task

Report = Callable[[Any, "BaseException | None"], None]
"""Takes the result, or the error, of a call whose task has left."""

_LOOK_AGAIN_S = 0.5
"""Seconds after which a thread that waits for a task looks whether the task's loop is closed."""


def _nothing() -> None:
    return None


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise NearDupError(
            "AsyncIndex needs a running loop of asyncio: call it in a coroutine; under trio use an Index, with "
            "trio.to_thread.run_sync"
        ) from error


def _taken_back() -> None:
    raise NearDupError("the transaction was taken back before the end of its block")


class Call:
    """Work that a task gives to a lane. The outcome goes to the task or, where that left after the work began, to `report`."""

    def __init__(self, work: Callable[[], Any], report: Report | None = None, *, drops: bool = True) -> None:
        self.loop = _running_loop()
        self.task = current_task()
        self._context = copy_context()
        self._work = work
        self._report = report
        self._drops = drops
        """Whether it is not done if its task leaves before it began."""
        self._over = self.loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._state = threading.Lock()
        self._is_left = False
        self.is_finished = False
        self._result: Any = None
        self._error: BaseException | None = None

    def expire_after(self, lane: Lane, seconds: float, message: str) -> None:
        """BusyError if the work has not begun after so many seconds."""
        self._timer = self.loop.call_later(seconds, self._expire, lane, message)

    def _expire(self, lane: Lane, message: str) -> None:
        if lane.waits_for_others(self):
            if lane.drop(self):
                self.finish(error=BusyError(message))
        elif lane.is_waiting(self):  # its turn has come, or almost
            self.expire_after(lane, _LOOK_AGAIN_S, message)

    async def outcome(self, lane: Lane) -> Any:
        """What the work returns; raises what it raises. A task that is cancelled leaves: work that has not begun is dropped."""
        try:
            await self._over
        except BaseException:  # cancelled, or the coroutine is closed
            if not self._drops or not lane.drop(self):
                self.leave()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
        try:
            if self._error is not None:
                raise self._error
            return self._result
        finally:
            del self, lane  # the error's traceback has this frame

    def leave(self) -> None:
        """The task waits no more: the outcome is reported, now or when it is there. A second time does nothing."""
        with self._state:
            report = not self._is_left and self.is_finished
            self._is_left = True
        if report:
            self._tell_late()

    @property
    def is_left(self) -> bool:
        return self._is_left

    def run(self) -> None:
        """Do the work, in the lane's thread."""
        work, self._work = self._work, _nothing  # it may hold the call, and a call must not outlive its task
        try:
            result = work()
        except BaseException as error:
            self.finish(error=error)
        else:
            self.finish(result)

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """Hand the outcome over. Works in every thread."""
        with self._state:
            self._result, self._error = result, error
            self.is_finished = True
            is_left = self._is_left
        if is_left:
            self._tell_late()
            return
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed
            self.leave()

    def _wake(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _tell_late(self) -> None:
        if self._report is not None:
            self._report(self._result, self._error)

    def on_loop(self, lane: Lane, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function of the task's on its loop, wait for its end, and raise what it raises; in the lane's thread. Does
        nothing where nobody waits for the call any more, or the loop has ended."""
        done = threading.Event()
        raised: list[BaseException] = []

        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                raised.append(error)
            done.set()

        if self._is_left:
            return
        try:
            self.loop.call_soon_threadsafe(run, context=self._context)
        except RuntimeError:  # the loop is closed
            return
        while not done.wait(_LOOK_AGAIN_S):
            if lane.is_ended or self.loop.is_closed():
                return
        if raised:
            raise raised.pop()


class Stretch(Call):
    """A call during whose work the lane belongs to its task. `body` finishes the call when the task may go on; the outcome of
    `body` is that of `end`."""

    def __init__(self, lane: Lane, body: Callable[[Stretch], Any], end: Call) -> None:
        super().__init__(_nothing)
        self._lane = lane
        self._body = body
        self.end = end

    def run(self) -> None:
        result, error = None, None
        with self._lane.owned(self):
            try:
                result = self._body(self)
            except BaseException as raised:
                error = raised
        (self.end if self.is_finished else self).finish(result, error)


class End(Call):
    """The end of a stretch, which its task gives."""

    def __init__(self, report: Report) -> None:
        super().__init__(_taken_back, report, drops=False)
        self.commits = False

    def _tell_late(self) -> None:
        if self.commits:
            super()._tell_late()


class LaneEndedError(BaseException):
    """In the lane's thread: the task that owns the lane will give no more calls."""


class Lane:
    """One thread or several, and the calls that wait for them."""

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._changed = threading.Condition()
        self._line: deque[Call] = deque()
        self._own: deque[Call] = deque()
        """Calls of the task that owns the lane."""
        self._owner: object | None = None
        self.depth = 0
        """Stretches that are open, one inside the other."""
        self._started = 0
        self._running = 0
        self._rests = False
        self.is_ended = False
        self._process_id = os.getpid()
        _lanes.add(self)

    @property
    def is_inherited(self) -> bool:
        """Whether the threads are those of a parent process."""
        return self._process_id != os.getpid()

    # ---- on the loop -------------------------------------------------------------------------------------------------

    @property
    def is_mine(self) -> bool:
        """Whether the lane belongs to the current task."""
        return self._owner is not None and self._owner is current_task()

    def give(self, call: Call, *, own: bool = False) -> None:
        """Put a call in the line, or among those of the task that owns the lane. own: it belongs to a stretch, and where that is
        over, it is told so at once."""
        with self._changed:
            if self._owner is not None and self._owner is call.task:
                self._own.append(call)
                self._changed.notify_all()
                return
            starts = False
            if not own and not self.is_ended:
                self._line.append(call)
                starts = not self._started  # the other threads are started by threads, for the loop has no time to
                self._started += starts
                self._changed.notify()
        if own:
            call.run()
            self.wake()
        elif self.is_ended:
            call.finish(error=ClosedError("the index is closed, since the program ends"))
        elif starts:
            self._start()

    def start(self) -> None:
        """Have a thread from now on, until `rest`."""
        with self._changed:
            self._rests = False
            starts = not self._started and not self.is_ended
            self._started += starts
        if starts:
            self._start()

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError as error:  # there can be no more threads
            with self._changed:
                self._started -= 1
                refused = [] if self._started else [*self._line]
                if refused:
                    self._line.clear()
            for call in refused:
                call.finish(error=NearDupError(f"no thread could be started for the index ({error}), and nothing was done"))

    def drop(self, call: Call) -> bool:
        """Let a call that waits never begin; False where it has begun."""
        with self._changed:
            for waiting in (self._line, self._own):
                if call in waiting:
                    waiting.remove(call)
                    self._changed.notify_all()
                    return True
            return False

    def take_back(self, end: End) -> None:
        """Let a transaction whose end waits be rolled back."""
        with self._changed:
            if end in self._own:
                end.commits = False

    def is_waiting(self, call: Call) -> bool:
        with self._changed:
            return call in self._line

    def waits_for_others(self, call: Call) -> bool:
        """Whether a call waits because each thread is at work."""
        with self._changed:
            return self._running == self._most and call in self._line

    def rest(self) -> None:
        """Let the threads end when the line is empty."""
        with self._changed:
            self._rests = True
            self._changed.notify_all()

    # ---- in the threads ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            del call
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _next(self) -> Call | None:
        with self._changed:
            while self.is_ended or not self._line:
                if self.is_ended or self._rests:
                    self._started -= 1
                    self._changed.notify_all()
                    return None
                self._changed.wait()
            self._running += 1
            call = self._line.popleft()
            starts = bool(self._line) and self._started < self._most
            self._started += starts
        if starts:
            self._start()
        return call

    @contextmanager
    def owned(self, stretch: Stretch) -> Iterator[None]:
        """Inside, the calls of the stretch's task go before all others. Those that it leaves behind go on as others do."""
        with self._changed:
            outer, self._owner = self._owner, stretch.task
            self.depth += 1
        try:
            yield
        finally:
            with self._changed:
                self.depth -= 1
                self._owner = outer
                if outer is None:
                    self._line.extendleft(call for call in reversed(self._own) if not isinstance(call, End))
                    self._own.clear()

    def wake(self) -> None:
        """Let `run_own` look whether it goes on to wait."""
        with self._changed:
            self._changed.notify_all()

    def run_own(self, stretch: Stretch, waits: Callable[[], bool]) -> End | None:
        """Run the next call of the task that owns the lane, unless `waits` says not to wait for one. An `End` is not run but
        returned. Raises LaneEndedError."""
        with self._changed:
            while waits() and not self._own:
                if self.is_ended or stretch.loop.is_closed():
                    raise LaneEndedError
                self._changed.wait(_LOOK_AGAIN_S)
            if not waits():  # what the task gives now is not for this stretch
                return None
            call = self._own.popleft()
        if isinstance(call, End):
            return call
        call.run()
        return None

    def serve(self, stretch: Stretch) -> None:
        """Run the calls of the task that owns the lane until its stretch ends."""
        while True:
            end = self.run_own(stretch, lambda: not stretch.end.is_finished)
            if end is stretch.end or (end is None and stretch.end.is_finished):  # it may come before the lane is the task's
                return
            if end is not None:  # of one that could not begin
                end.run()

    def drain(self, timeout: float) -> bool:
        """Wait until no call is left; False after the timeout. Not in a thread of this lane."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running and (self.is_ended or not self._line), timeout)

    # ---- the end of the program --------------------------------------------------------------------------------------

    def end(self) -> None:
        """Begin no more calls. A task that owns the lane has lost it: what it began is taken back."""
        if not self.is_inherited:
            with self._changed:
                self.is_ended = True
                self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait until the calls that have begun are over, after `end`."""
        if not self.is_inherited:
            self.drain(timeout)


_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()

_EXIT_S = 30.0
"""Seconds for which the end of the program waits for calls that have begun. SQLite takes a transaction back that does not end."""


def _end_all() -> None:
    """The threads are no reason for the program to go on, and the program's end is no reason to break off what they do."""
    lanes = [*_lanes]
    for lane in lanes:
        lane.end()
    for lane in lanes:
        lane.join(_EXIT_S)


atexit.register(_end_all)
