"""An index for programs that run on asyncio: the methods of `Index` as coroutines, none of which holds the loop up.

>>> import asyncio
>>> from neardup_db import MinHash
>>> from neardup_db.aio import AsyncIndex
>>> async def main():
...     async with AsyncIndex(":memory:", MinHash(threshold=0.5)) as index:
...         await index.add("a1", "the quick brown fox jumps over the lazy dog")
...         return await index.query("The quick brown fox jumps over the lazy dog!")
>>> asyncio.run(main())
[Match(key='a1', similarity=1.0, distance=None)]
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import islice
from operator import attrgetter
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from .. import limits
from ..arrow import is_arrow
from ..errors import BusyError, ClosedError, NearDupError, ParameterError
from ..index import Index
from ..parameters import Measure, WindowSize, check_callable, check_integer, check_timeout, quoted
from ..schemes.base import Scheme
from ..store.writing.outcomes import Collector
from ..text import TextRules
from ..values import ANY_GROUP, AnyGroup, Key, Pair
from .lanes import Call, End, Lane, LaneEndedError, Report, Stretch
from .methods import Methods

__all__ = ["AsyncIndex", "LateResult"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_logger = logging.getLogger(__name__)


class LateResult(NamedTuple):
    """What became of a call whose task was cancelled after the call had begun."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    error: BaseException | None
    """None: it did what it had to, and `result` is what it returned."""


def _logged(late: LateResult) -> None:
    how = "was done" if late.error is None else f"failed ({late.error})"
    _logger.info("%s(%s) %s after its task was cancelled", late.method, ", ".join(map(quoted, late.args[:1])), how)


class _TakenBackError(Exception):
    """Ends a transaction whose block raised an exception."""


class _LoadOverError(Exception):
    """Tells the task that reads records that nobody takes them any more."""


class AsyncIndex(Methods):
    """`Index` for asyncio: the same methods as coroutines, and none of them holds the loop up.

    Arguments are those of `Index`; target is a path or ":memory:". readers: threads that answer questions, each by a connection
    of its own, from 1 to `limits.READERS_MAX` (the default: as many as there are processors, at least four). All else runs in one
    more thread, one call after the other, in the order in which tasks ask. In memory, and in a database without write-ahead log,
    questions run in that thread too. A call that has waited for others for `timeout` seconds is a BusyError, and nothing was
    done.

    A task that is cancelled while its call waits takes the call back. A call that has begun goes on to its end without the task;
    then `on_late_result` is called with a LateResult, in the thread in which the call ended or on the loop. None = it is logged.

    `async with` opens and closes the index, as `open()` and `close()` do. What cannot be a coroutine has another name: `key in
    index` is `await index.contains(key)`, `len(index)` is `await index.length()`, `index.scheme` and `index.text_rules` are
    awaited, and what is done with `index.connection` is given to `run`. One AsyncIndex may serve several loops.

    >>> import asyncio
    >>> from neardup_db import MinHash
    >>> async def main():
    ...     async with AsyncIndex(":memory:", MinHash(threshold=0.5)) as index:
    ...         async with index.transaction():
    ...             await index.add("a", "the quick brown fox jumps over the lazy dog")
    ...             await index.add("b", "The quick brown fox jumps over the lazy dog!")
    ...         return [(pair.key_a, pair.key_b) async for pair in index.pairs()]
    >>> asyncio.run(main())
    [('a', 'b')]
    """

    _on_late_result: Callable[[LateResult], Any] | None

    def _begin(self) -> None:
        """Check the arguments of a new object that the index itself does not see."""
        try:
            os.fspath(self._target)
        except TypeError as error:
            raise ParameterError(
                f"target={quoted(self._target)}: give a path or ':memory:'. A connection of yours would be used by other threads "
                "than yours; open its file by the path with attach=True, or use Index(connection) in the connection's thread"
            ) from error
        self._timeout = check_timeout(self._options["timeout"])
        check_callable("on_late_result", self._on_late_result)
        threads = limits.READERS_MAX if self._readers is None else check_integer("readers", self._readers, 1, limits.READERS_MAX)
        self._index: Index | None = None
        self._holders = 0
        """Tasks that have opened the index, or wait for it to open."""
        self._closing: Call | None = None
        self._has_readers = False
        self._writing = Lane(1, "neardup writes")
        self._reading = Lane(threads, "neardup reads")
        self._source: _Source | None = None
        """Of the load that reads its records in a task just now."""
        for lane in (self._writing, self._reading):
            weakref.finalize(self, lane.end).atexit = False  # at the exit of the program the lanes end what they do

    # ---- the object --------------------------------------------------------------------------------------------------

    async def open(self) -> AsyncIndex:
        """Open the index, unless it is open, and return it: `async with` does so too. Raises as `Index(...)`."""
        if self._index is None or self._is_closing:
            self._holders += 1
            call = Call(self._open_now)
            try:
                await self._outcome(self._writing, call)
            except BaseException as error:
                self._holders = max(0, self._holders - 1)
                if call.is_left and not isinstance(error, GeneratorExit):  # else it would be open, and nobody would know
                    self._writing.give(Call(self._close_unheld))
                raise
        return self

    def _close_unheld(self) -> None:
        if not self._holders:
            self._close_now()

    def _open_now(self) -> None:
        if self._index is None:
            try:
                index = Index(self._target, **self._options)
            except BaseException:
                self._writing.rest()
                raise
            self._has_readers = index._readers.keep_own()
            self._writing.start()
            if self._has_readers:
                self._reading.start()
            self._index = index

    async def close(self) -> None:
        """Close the index, after all calls that were given before; new ones are a ClosedError. Closing again does nothing. Once
        begun it goes on, whatever becomes of the task.

        Raises BusyError, and the index stays open, where other calls do not end within the timeout."""
        if self._index is None or self._writing.is_inherited:
            return
        self._holders = 0
        self._closing = Call(self._close_now, self._late("close"), drops=False)
        await self._outcome(self._writing, self._closing)

    @property
    def _is_closing(self) -> bool:
        return self._closing is not None and not self._closing.is_finished

    def _close_now(self) -> None:
        index = self._index
        if index is None:
            return
        if not self._reading.drain(self._timeout):
            raise BusyError(self._busy)
        index.close()
        self._index = None
        self._reading.rest()
        self._writing.rest()

    async def __aenter__(self) -> AsyncIndex:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be copied or sent to another process: send the path, and open it there")

    def __repr__(self) -> str:
        return f"<neardup_db.aio.AsyncIndex {self._target!r}{'' if self._index is not None else ', closed'}>"

    @property
    def name(self) -> str:
        """The name that the index's tables begin with."""
        name: str = self._options["name"] if self._index is None else self._index.name
        return name

    @property
    def scheme(self) -> Awaitable[Scheme]:
        """The scheme, complete with what was chosen for it, as the file has it now: `await index.scheme`."""
        return self._read_property("scheme")

    @property
    def text_rules(self) -> Awaitable[TextRules]:
        """The text rules, as the file has them now: `await index.text_rules`."""
        return self._read_property("text_rules")

    @property
    def window(self) -> Awaitable[WindowSize | None]:
        """For how long documents stay, or how many of the last ones do; None = all of them: `await index.window`."""
        return self._read_property("window")

    # ---- what has another form than in Index ---------------------------------------------------------------------------

    async def contains(self, key: Key) -> bool:
        """`key in index`: whether a visible document has the key."""
        is_there: bool = await self._read("__contains__", key)
        return is_there

    async def length(self) -> int:
        """`len(index)`: how many visible documents there are."""
        count: int = await self._read("__len__")
        return count

    def __aiter__(self) -> AsyncIterator[Key]:
        """Keys in the order of insertion."""
        return _Listing(self, iter)

    def pairs(
        self, threshold: float | None = None, *, measure: Measure | None = None, group: Key | AnyGroup | None = ANY_GROUP
    ) -> AsyncIterator[Pair]:
        """All pairs of near-duplicates, lazily; `key_a` is the earlier document, or, with measure="containment", the one that
        `key_b` contains. group: only pairs of this group.

        Pairs come from a thread some at a time, of one range of documents after the other, and each range sees one state of the
        index. What is wrong with the question is raised at the first step.
        """
        return _Listing(self, lambda index: index.pairs(threshold, measure=measure, group=group))

    def dismissed(self) -> AsyncIterator[tuple[Key, Key]]:
        """The pairs that were dismissed, lazily, the earlier document first."""
        return _Listing(self, lambda index: index.dismissed())

    def pairs_with(
        self, other: AsyncIndex, threshold: float | None = None, *, group: Key | AnyGroup | None = ANY_GROUP
    ) -> AsyncIterator[Pair]:
        """All pairs of a document of this index and one of another, whose key is `key_b`, lazily, in groups of the same name;
        group: only in this group.

        Both must have the same scheme and text rules, else ParameterError at the first step.
        """
        if not isinstance(other, AsyncIndex):
            raise ParameterError(f"other={quoted(other)}: give another AsyncIndex")
        return _Listing(self, lambda index: index.pairs_with(other._opened(), threshold, group=group))

    def transaction(self) -> AbstractAsyncContextManager[AsyncIndex]:
        """`async with index.transaction():` makes several calls one transaction: all of them, or after an exception, a
        cancellation too, none. Nests.

        It belongs to the task that enters it, not to tasks that this one creates. Other tasks write after its end, in the order
        in which they asked; what they ask meanwhile is answered from the state before it (in memory, after its end).
        `asyncio.gather`, `create_task` and, before Python 3.12, `wait_for` make other tasks: a block that waits for their writes
        waits for itself, and they get a BusyError after the timeout.
        """
        return _Transaction(self)

    async def run(self, function: Callable[[Index], Answer]) -> Answer:
        """What `function(index)` returns. It is called with the Index below, in the thread that writes, in its turn, inside this
        task's transaction if there is one. It is the way to SQL on `index.connection`."""
        self._require_open()
        _check_plain("function", function)
        call = Call(lambda: function(self._opened()), self._late("run", function))
        answer: Answer = await self._outcome(self._writing, call)
        return answer

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _opened(self) -> Index:
        """The open index. Raises ClosedError."""
        index = self._index
        if index is None:
            raise ClosedError("the index is not open: use it inside `async with AsyncIndex(path) as index:`, or after open()")
        index._store.db.require_open()
        return index

    def _require_open(self) -> None:
        """Raise ClosedError, also where a close() waits that this task's transaction is not part of."""
        self._opened()
        if self._is_closing and not self._writing.is_mine:
            raise ClosedError("the index is being closed: open it again with open()")

    @property
    def _busy(self) -> str:
        return (
            f"the call has waited {self._timeout:g} s for those of other tasks, and nothing was done: try again, or give a "
            "larger timeout. In a transaction() call from the task that entered it: gather() and create_task() make other tasks"
        )

    def _late(self, method: str, *args: Any, **kwargs: Any) -> Report:
        """Reports what became of a call whose task has left."""

        def report(result: Any, error: BaseException | None) -> None:
            try:
                (self._on_late_result or _logged)(LateResult(method, args, kwargs, result, error))
            except Exception:
                _logger.exception("on_late_result failed")

        return report

    async def _outcome(self, lane: Lane, call: Call) -> Any:
        """Give a call to a lane, and wait for its outcome."""
        if not lane.is_mine:
            call.expire_after(lane, self._timeout, self._busy)
        elif self._source is not None:
            self._source.flush()  # the call finds all records that were yielded before
        lane.give(call)
        return await call.outcome(lane)

    async def _ask(self, lane: Lane, work: Callable[[Index], Any], report: Report) -> Any:
        self._require_open()
        return await self._outcome(lane, Call(lambda: work(self._opened()), report))

    @property
    def _questions(self) -> Lane:
        """Where a question of this task is answered. The task that is inside a transaction sees its own writes."""
        return self._reading if self._has_readers and not self._writing.is_mine else self._writing

    async def _read(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that asks."""
        work = partial(_called, name, args, kwargs)
        return await self._ask(self._questions, work, self._late(name, *args, **kwargs))

    async def _read_property(self, name: str) -> Any:
        return await self._ask(self._questions, attrgetter(name), self._late(name))

    async def _write(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that needs the main connection."""
        self._require_open()
        for called in ("progress", "on_outcome"):
            _check_plain(called, kwargs.get(called))
        call = Call(lambda: self._written(call, name, args, kwargs), self._late(name, *args, **kwargs))
        return await self._outcome(self._writing, call)

    def _written(self, call: Call, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In the thread that writes."""
        args = tuple(one._opened() if isinstance(one, AsyncIndex) else one for one in args)
        progress, on_outcome = kwargs.get("progress"), kwargs.get("on_outcome")
        if callable(progress):
            kwargs = {**kwargs, "progress": partial(call.on_loop, self._writing, progress)}
        if not callable(on_outcome):
            return _called(name, args, kwargs, self._opened())
        outcomes = _Outcomes(partial(call.on_loop, self._writing), on_outcome)
        return _called(name, args, {**kwargs, "on_outcome": outcomes}, self._opened())

    async def _load(self, records: Any, **kwargs: Any) -> Any:
        """`add_many` of records that come from anywhere."""
        if isinstance(records, AsyncIterable):
            self._require_open()
            for called in ("progress", "on_outcome"):
                _check_plain(called, kwargs.get(called))
            return await _Source(self, records, kwargs).load()
        if isinstance(records, Iterator) and not is_arrow(records):
            records = _until_end(self._writing, records)
        return await self._write("add_many", records, **kwargs)


def _check_plain(name: str, function: object) -> None:
    """ParameterError for what makes a coroutine, which nobody would await."""
    check_callable(name, function)
    if inspect.iscoroutinefunction(function):
        raise ParameterError(f"{name}={quoted(function)}: give a plain function, since nothing awaits what it returns")


class _Outcomes(Collector):
    """Outcomes of a load, told to a function of the task on its loop, some at a time: a trip there takes as long as a record."""

    def __init__(self, on_loop: Callable[..., None], on_outcome: Callable[..., Any]) -> None:
        self._on_loop = on_loop
        self._on_outcome = on_outcome
        self._waiting: list[tuple[Any, ...]] = []

    def __call__(self, *outcome: Any) -> None:
        self._waiting.append(outcome)
        if len(self._waiting) >= limits.TASK_RECORDS:
            self.tell()

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._on_loop(self._tell, waiting)

    def _tell(self, outcomes: list[tuple[Any, ...]]) -> None:
        for outcome in outcomes:
            self._on_outcome(*outcome)


def _called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], index: Index) -> Any:
    return getattr(index, name)(*args, **kwargs)


def _until_end(lane: Lane, records: Iterator[Any]) -> Iterator[Any]:
    """Records without end are no reason for the program to go on."""
    for record in records:
        if lane.is_ended:
            raise LaneEndedError
        yield record


class _Transaction(AbstractAsyncContextManager[AsyncIndex]):
    """The block of one `async with index.transaction()`."""

    def __init__(self, index: AsyncIndex) -> None:
        self._index = index
        self._lane = index._writing
        self._end: End | None = None

    async def __aenter__(self) -> AsyncIndex:
        self._index._require_open()
        end = End(self._index._late("transaction"))
        stretch = Stretch(self._lane, partial(self._block, end), end)
        try:
            await self._index._outcome(self._lane, stretch)
        except BaseException:
            if stretch.is_left:  # it will begin, and is to end at once
                self._lane.give(end, own=True)
            raise
        self._end = end
        return self._index

    def _block(self, end: End, stretch: Stretch) -> None:
        """In the thread that writes."""
        try:
            with self._index._opened().transaction():
                stretch.finish()
                self._lane.serve(stretch)
                if not end.commits:
                    raise _TakenBackError
        except _TakenBackError:
            pass

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        end, self._end = self._end, None
        assert end is not None
        if self._lane.is_inherited:  # the transaction is the parent's
            if kind is None:
                self._index._opened()
            return None
        end.commits = kind is None
        self._lane.give(end, own=True)
        if kind is GeneratorExit:  # the coroutine is closed, and cannot wait
            return end.leave()
        try:
            await end.outcome(self._lane)
        except asyncio.CancelledError:
            self._lane.take_back(end)
            raise
        return None


class _Source(Iterator[Any]):
    """The records of an asynchronous iterable. The task reads them, on the loop, and the thread that writes takes them.

    Where the iterable uses the index, its calls run in the thread between two records, as the calls of a generator that
    `Index.add_many` reads do."""

    def __init__(self, index: AsyncIndex, records: AsyncIterable[Any], kwargs: dict[str, Any]) -> None:
        self._index = index
        self._lane = index._writing
        self._records = records
        self._kwargs = kwargs
        every = kwargs.get("commit_every")
        self._every = every if isinstance(every, int) and every > 0 else None
        self._read = 0
        self._batch: list[Any] = []
        """Records that were read and not given."""
        self._ready: deque[Any] = deque()
        """Records that were given and not taken."""
        self._last: Exception | None = None
        """What ends the records, in the thread."""
        self._depth = 0
        self._is_over = False

    # ---- on the loop -------------------------------------------------------------------------------------------------

    async def load(self) -> Any:
        """The report of `add_many`."""
        end = Call(lambda: None, self._index._late("add_many", self._records, **self._kwargs))
        stretch = Stretch(self._lane, self._add, end)
        try:
            await self._index._outcome(self._lane, stretch)
        except BaseException:
            if stretch.is_left:
                self._finish(_cancelled())
                end.leave()
            raise
        outer, self._index._source = self._index._source, self
        try:
            await self._read_all()
        except _LoadOverError:  # the outcome says why
            pass
        except BaseException as error:
            self._finish(error if isinstance(error, Exception) else _cancelled())
            if not isinstance(error, Exception):
                end.leave()
                raise
        finally:
            self._index._source = outer
        return await end.outcome(self._lane)

    async def _read_all(self) -> None:
        await self._push()  # nothing is read for a load that was refused
        records = self._records.__aiter__()
        try:
            async for record in records:
                self._batch.append(record)
                self._read += 1
                if len(self._batch) >= limits.TASK_RECORDS or (self._every is not None and self._read % self._every == 0):
                    await self._push()
            await self._push()
        except GeneratorExit:
            raise
        except BaseException:
            close = getattr(records, "aclose", None)
            if close is not None:  # it may be inside a transaction of its own
                await close()
            raise
        self._finish(StopIteration())

    async def _push(self) -> None:
        """Give the thread the records that were read. It takes them when it has none."""
        batch, self._batch = self._batch, []
        call = Call(partial(self._take, batch))
        self._lane.give(call, own=True)
        await call.outcome(self._lane)

    def flush(self) -> None:
        """The same without waiting, before the task gives a call of its own."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._lane.give(Call(partial(self._take, batch)), own=True)

    def _finish(self, last: Exception) -> None:
        """No more records come. Also where there is no loop any more."""
        self._last = last
        self._lane.wake()

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _add(self, stretch: Stretch) -> Any:
        self._stretch = stretch
        self._depth = self._lane.depth
        stretch.finish()
        try:
            return self._index._written(stretch.end, "add_many", (self,), self._kwargs)
        finally:
            self._is_over = True

    def _take(self, batch: list[Any]) -> None:
        if self._is_over:
            raise _LoadOverError
        if self._lane.depth > self._depth:
            self._last = NearDupError(
                "a transaction() that the records' iterator began is open, and its end would take back some of the records: end "
                "it before the next record is yielded, or begin it around add_many"
            )
            raise self._last
        self._ready.extend(batch)

    def __next__(self) -> Any:
        while not self._ready:
            if self._last is not None:
                raise self._last
            self._lane.run_own(self._stretch, lambda: self._last is None)
        return self._ready.popleft()


def _cancelled() -> NearDupError:
    return NearDupError("the task that read the records was cancelled: what was not committed before is not stored")


class _Listing(AsyncIterator[Item]):
    """What a generator of the index yields. A thread makes it go on, for twice as many items each time, so that the first comes
    soon and many cost little."""

    def __init__(self, index: AsyncIndex, begin: Callable[[Index], Iterator[Item]]) -> None:
        self._index = index
        self._begin = begin
        self._items: Iterator[Item] | None = None
        self._size = 1
        self._ready: deque[Item] = deque()
        self._turn = threading.Lock()
        """Of the thread in which the generator goes on: that of a step before may still be at work, for a task that left."""
        self._is_over = False
        self._error: BaseException | None = None

    async def __anext__(self) -> Item:
        while not self._ready:
            if self._is_over:
                error, self._error = self._error, None
                raise StopAsyncIteration if error is None else error
            await self._index._ask(self._index._questions, self._go_on, _unreported)
        return self._ready.popleft()

    def _go_on(self, index: Index) -> None:
        with self._turn:
            left = self._size
            try:
                if self._items is None:
                    self._items = self._begin(index)
                for item in islice(self._items, self._size):
                    self._ready.append(item)
                    left -= 1
                self._is_over = left > 0
            except BaseException as error:
                self._is_over, self._error = True, error
            self._size = min(2 * self._size, limits.TASK_RECORDS)


def _unreported(result: Any, error: BaseException | None) -> None:
    """Of a step of a listing nothing is lost: the listing has it."""
