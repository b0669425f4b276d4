"""An index for asyncio: the methods of `Index` as coroutines that do not block the event loop.

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

import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import islice
from operator import attrgetter
from types import TracebackType
from typing import Any, TypeVar

from .. import limits
from ..arrow import is_arrow
from ..errors import ParameterError
from ..index import Index
from ..parameters import Measure, WindowSize, check_callable, quoted
from ..schemes.base import Scheme
from ..text import TextRules
from ..values import ANY_GROUP, AnyGroup, Key, Pair
from .calls import Calls, LateResult, check_plain
from .lanes import Call, Late
from .loads import Load, Outcomes, until_end
from .methods import Methods
from .transactions import Transaction

__all__ = ["AsyncIndex", "LateResult"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class AsyncIndex(Methods, Calls):
    """`Index` for asyncio: the same methods as coroutines that do not block the event loop. docs/reference/asyncio.md explains
    the order of calls, transactions and cancellation.

    Takes the arguments of `Index`; target is a path or ":memory:". readers: the number of threads for queries, each with its own
    connection, from 1 to `limits.READERS_MAX` (default: the number of processors, at least four). All other calls run in one
    further thread, in call order. A call that has waited for other calls for `timeout` seconds raises BusyError without effect.

    Cancelling a task withdraws a waiting call. A call that has begun continues without the task; then `on_late_result` is called
    with a LateResult, in the call's thread or on the loop. None: the result is logged.

    Operations that cannot be coroutines have other names: `await index.contains(key)`, `await index.length()`, `await
    index.scheme` and `await index.text_rules`; `run` gives access to `index.connection`. An AsyncIndex serves one loop at a time.

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
        """The prefix of the index's tables."""
        name: str = self._options["name"] if self._index is None else self._index.name
        return name

    @property
    def scheme(self) -> Awaitable[Scheme]:
        """The current scheme in the file, with all derived parameters: `await index.scheme`."""
        return self._read_property("scheme")

    @property
    def text_rules(self) -> Awaitable[TextRules]:
        """The current text rules in the file: `await index.text_rules`."""
        return self._read_property("text_rules")

    @property
    def window(self) -> Awaitable[WindowSize | None]:
        """The window: a duration, a number of documents, or None: `await index.window`."""
        return self._read_property("window")

    # ---- what has another form than in Index ---------------------------------------------------------------------------

    async def contains(self, key: Key) -> bool:
        """`key in index`: whether a visible document has the key."""
        is_there: bool = await self._call_reader("__contains__", key)
        return is_there

    async def length(self) -> int:
        """`len(index)`: the number of visible documents."""
        count: int = await self._call_reader("__len__")
        return count

    def __aiter__(self) -> AsyncIterator[Key]:
        """Keys in insertion order."""
        return _Listing(self, iter)

    def pairs(
        self, threshold: float | None = None, *, measure: Measure | None = None, group: Key | AnyGroup | None = ANY_GROUP
    ) -> AsyncIterator[Pair]:
        """`Index.pairs`, lazily. A thread fetches the pairs in batches, range by range of documents, each in one snapshot.
        Invalid arguments raise on the first step."""
        return _Listing(self, lambda index: index.pairs(threshold, measure=measure, group=group))

    def dismissed(self) -> AsyncIterator[tuple[Key, Key]]:
        """The dismissed pairs, lazily, the earlier document first."""
        return _Listing(self, lambda index: index.dismissed())

    def pairs_with(
        self, other: AsyncIndex, threshold: float | None = None, *, group: Key | AnyGroup | None = ANY_GROUP
    ) -> AsyncIterator[Pair]:
        """`Index.pairs_with`, lazily; `key_b` is of the other index. Indexes of another scheme or other text rules raise
        ParameterError on the first step."""
        if not isinstance(other, AsyncIndex):
            raise ParameterError(f"other={quoted(other)}: give another AsyncIndex")
        return _Listing(self, lambda index: index.pairs_with(other._require_index(), threshold, group=group))

    def transaction(self) -> AbstractAsyncContextManager[AsyncIndex]:
        """`async with index.transaction():` makes several calls one transaction. An exception or a cancellation rolls all of them
        back. Transactions nest.

        It belongs to the task that enters it, not to tasks created by it, as by `asyncio.gather`, `create_task` and, before
        Python 3.12, `wait_for`: a block that awaits their writes deadlocks until they raise BusyError after the timeout. Other
        tasks write after its end, and query the state before it (in memory they wait for its end).
        """
        return Transaction(self, Index.transaction, self._late("transaction"))

    async def run(self, function: Callable[[Index], Answer]) -> Answer:
        """Call `function(index)` with the underlying Index in the writing thread, in call order and inside this task's
        transaction, and return its result. Use it for SQL on `index.connection`."""
        self._require_open()
        check_plain("function", function)
        answer: Answer = await self._call(lambda call: function(self._require_index()), self._late("run", function))
        return answer

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def _ask(self, work: Callable[[Index], Any], late: Late | None) -> Any:
        return await self._call(lambda call: work(self._require_index()), late, reads=True)

    async def _call_reader(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return await self._ask(partial(_called, name, args, kwargs), self._late(name, *args, **kwargs))

    async def _read_property(self, name: str) -> Any:
        return await self._ask(attrgetter(name), self._late(name))

    async def _write(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that needs the main connection."""
        for called in ("progress", "on_outcome"):
            check_callable(called, kwargs.get(called))
        return await self._call(lambda call: self._written(call, name, args, kwargs), self._late(name, *args, **kwargs))

    def _written(self, call: Call, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(one._require_index() if isinstance(one, AsyncIndex) else one for one in args)
        progress, on_outcome = kwargs.get("progress"), kwargs.get("on_outcome")
        if progress is not None:
            kwargs = {**kwargs, "progress": partial(call.on_loop, progress)}
        if on_outcome is not None:
            kwargs = {**kwargs, "on_outcome": Outcomes(call.on_loop, on_outcome)}
        return _called(name, args, kwargs, self._require_index())

    async def _load(self, records: Any, **kwargs: Any) -> Any:
        if isinstance(records, AsyncIterable):
            return await Load(self, records, kwargs).run()
        if isinstance(records, Iterator) and not is_arrow(records):
            records = until_end(records)
        return await self._write("add_many", records, **kwargs)


def _called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], index: Index) -> Any:
    return getattr(index, name)(*args, **kwargs)


class _Listing(AsyncIterator[Item]):
    """The items of an index generator. A thread resumes it, for twice as many items each time, so that the first arrive soon and
    many are efficient."""

    def __init__(self, index: AsyncIndex, begin: Callable[[Index], Iterator[Item]]) -> None:
        self._index = index
        self._begin = begin
        self._items: Iterator[Item] | None = None
        self._size = 1
        self._ready: deque[Item] = deque()
        self._turn = threading.Lock()
        """Serializes the threads that resume the generator, because an earlier step may still run for a cancelled task."""
        self._is_over = False
        self._error: BaseException | None = None

    async def __anext__(self) -> Item:
        while not self._ready:
            if self._is_over:
                error, self._error = self._error, None
                raise StopAsyncIteration if error is None else error
            await self._index._ask(self._fetch_next, None)  # None: a late result needs no report, the listing keeps it
        return self._ready.popleft()

    def _fetch_next(self, index: Index) -> None:
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
