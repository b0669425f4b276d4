"""An index for asyncio: the methods of `Index` as coroutines that do not block the event loop."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial, update_wrapper
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from .. import limits
from ..arrow import ArrowArray, ArrowStream, is_arrow
from ..errors import ParameterError
from ..index import DEFAULT_NAME, Index
from ..parameters import Durability, IfExists, OnError, WindowSize, check_callable, quoted
from ..reader import Reader
from ..schemes.base import Scheme
from ..store.ingest.outcomes import OnOutcome
from ..text import TextRules
from ..values import ANY_GROUP, AddReport, AnyGroup, Key, Pair
from .calls import Calls, LateResult, check_plain
from .loads import Load, Outcomes, until_end
from .threads import Call

__all__ = ["AsyncIndex", "LateResult"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Params = ParamSpec("Params")
Function = TypeVar("Function", bound=Callable[..., Any])

AnyRecord = tuple[Key, str | bytes] | list[Any] | Mapping[str, Any]
Method = Callable[Concatenate[Any, Params], Answer]
CoroutineMethod = Callable[Concatenate[Any, Params], Coroutine[Any, Any, Answer]]


def _described(ours: Function, method: Callable[..., Any]) -> Function:
    """With the signature of a method of `Index`, and the first paragraph of its docstring, since the examples have no `await`."""
    update_wrapper(ours, method)
    ours.__doc__ = (method.__doc__ or "").partition("\n\n")[0]
    return ours


def _writing(method: Method[Params, Answer], *, reads: bool = False) -> CoroutineMethod[Params, Answer]:
    async def coroutine(self: AsyncIndex, /, *args: Params.args, **kwargs: Params.kwargs) -> Answer:
        answer: Answer = await self._call_method(method.__name__, args, kwargs, reads=reads)
        return answer

    return _described(coroutine, method)


def _reading(method: Method[Params, Answer]) -> CoroutineMethod[Params, Answer]:
    return _writing(method, reads=True)


def _listing(method: Method[Params, Iterator[Item]]) -> Method[Params, AsyncIterator[Item]]:
    """A generator of `Index` for `async for`. A thread runs it. Invalid arguments raise on the first step."""

    def listing(self: AsyncIndex, /, *args: Params.args, **kwargs: Params.kwargs) -> AsyncIterator[Item]:
        return _Listing(self, lambda index: method(index, *args, **kwargs))

    return _described(listing, method)


class AsyncIndex(Calls):
    """`Index` for asyncio: the same methods as coroutines that do not block the event loop. docs/reference/asyncio.md explains
    the order of calls, transactions and cancellation.

    Takes the arguments of `Index`; target is a path or ":memory:". readers: the number of threads for queries, each with its own
    connection, from 1 to `limits.READERS_MAX` (default: the number of processors, at least four). All other calls run in one
    further thread, in call order. A call that has waited for other calls for `timeout` seconds raises BusyError without effect.

    Cancelling a task withdraws a waiting call. A call that has begun continues without the task; then `on_late_result` is called
    with a LateResult, in the call's thread or on the loop. None: the result is logged.

    `progress` and `on_outcome` of a method are called on the loop, and awaited if they are coroutine functions.

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

    def __init__(
        self,
        target: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        scheme: Scheme | None = None,
        *,
        text: TextRules | None = None,
        name: str = DEFAULT_NAME,
        store_text: bool | None = None,
        record_matches: bool | None = None,
        checksums: bool | None = None,
        window: WindowSize | None = None,
        durability: Durability = "full",
        read_only: bool = False,
        attach: bool = False,
        timeout: float = 30.0,
        readers: int | None = None,
        on_late_result: Callable[[LateResult], Any] | None = None,
    ) -> None:
        options = dict(
            scheme=scheme, text=text, name=name, store_text=store_text, record_matches=record_matches, checksums=checksums,
            window=window, durability=durability, read_only=read_only, attach=attach, timeout=timeout,
        )
        super().__init__(target, options, readers, on_late_result)

    async def __aenter__(self) -> AsyncIndex:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be copied or sent to another process: send the path, and open it there")

    def __repr__(self) -> str:
        return f"<neardup_db.aio.AsyncIndex {self._target!r}{'' if self._index is not None else ', closed'}>"

    # ---- methods of Index ----------------------------------------------------------------------------------------------

    add = _writing(Index.add)
    add_code = _writing(Index.add_code)
    add_codes = _writing(Index.add_codes)
    add_if_new = _writing(Index.add_if_new)
    add_code_if_new = _writing(Index.add_code_if_new)
    import_fingerprints = _writing(Index.import_fingerprints)
    follow = _writing(Index.follow)
    unfollow = _writing(Index.unfollow)
    sync = _writing(Index.sync)
    update = _writing(Index.update)
    delete = _writing(Index.delete)
    delete_many = _writing(Index.delete_many)
    delete_group = _writing(Index.delete_group)
    set_window = _writing(Index.set_window)
    expire = _writing(Index.expire)
    keep_newest = _writing(Index.keep_newest)
    dismiss = _writing(Index.dismiss)
    undismiss = _writing(Index.undismiss)
    allow = _writing(Index.allow)
    disallow = _writing(Index.disallow)
    changes = _writing(Index.changes)
    forget_changes = _writing(Index.forget_changes)
    rebuild = _writing(Index.rebuild)
    check = _writing(Index.check)
    compact = _writing(Index.compact)
    backup = _writing(Index.backup)

    query = _reading(Index.query)
    query_code = _reading(Index.query_code)
    query_many = _reading(Index.query_many)
    query_codes = _reading(Index.query_codes)
    nearest = _reading(Index.nearest)
    nearest_code = _reading(Index.nearest_code)
    count = _reading(Index.count)
    count_code = _reading(Index.count_code)
    matches = _reading(Index.matches)
    passages = _reading(Index.passages)
    passages_of = _reading(Index.passages_of)
    common_passages = _reading(Index.common_passages)
    clusters = _reading(Index.clusters)
    allowed = _reading(Index.allowed)
    get = _reading(Index.get)
    get_many = _reading(Index.get_many)
    export_fingerprints = _reading(Index.export_fingerprints)
    explain = _reading(Index.explain)
    explain_match = _reading(Index.explain_match)
    stats = _reading(Index.stats)

    pairs = _listing(Index.pairs)
    dismissed = _listing(Index.dismissed)

    async def add_many(
        self,
        records: Iterable[AnyRecord] | AsyncIterable[AnyRecord] | ArrowStream | ArrowArray,
        *,
        key: str | None = None,
        text: str | None = None,
        group: str | None = None,
        metadata: Sequence[str] | None = None,
        if_exists: IfExists = "error",
        on_error: OnError = "raise",
        only_new: bool = False,
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> AddReport:
        """`Index.add_many`, also of an asynchronous iterable: this task reads it, and its calls of the index come between two
        records; with `commit_every` other tasks write between two commits.

        Any other iterable, and a generator, runs in the thread that writes. If this task is cancelled, an asynchronous iterable
        ends, and what was not committed before is not stored; any other load goes on.
        """
        options = dict(
            key=key, text=text, group=group, metadata=metadata, if_exists=if_exists, on_error=on_error, only_new=only_new,
            commit_every=commit_every, progress=progress, on_outcome=on_outcome,
        )
        if isinstance(records, AsyncIterable):
            return await Load(self, records, options).run()
        if isinstance(records, Iterator) and not is_arrow(records):
            records = until_end(records)
        report: AddReport = await self._call_method("add_many", (records,), options)
        return report

    async def merge(
        self,
        other: AsyncIndex | Reader | str | bytes | os.PathLike[str],
        *,
        if_exists: IfExists = "error",
        commit_every: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> AddReport:
        """`Index.merge`; other may be an AsyncIndex, too."""
        options = dict(if_exists=if_exists, commit_every=commit_every, progress=progress)
        report: AddReport = await self._call_method("merge", (other,), options)
        return report

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
        is_there: bool = await self._call_method("__contains__", (key,), {}, reads=True)
        return is_there

    async def length(self) -> int:
        """`len(index)`: the number of visible documents."""
        count: int = await self._call_method("__len__", (), {}, reads=True)
        return count

    def __aiter__(self) -> AsyncIterator[Key]:
        """Keys in insertion order."""
        return _Listing(self, iter)

    def pairs_with(
        self, other: AsyncIndex, threshold: float | None = None, *, group: Key | AnyGroup | None = ANY_GROUP
    ) -> AsyncIterator[Pair]:
        """`Index.pairs_with`, lazily; `key_b` is of the other index. Unlike indexes raise ParameterError on the first step."""
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
        return self._transaction(Index.transaction, self._late("transaction"))

    async def run(self, function: Callable[[Index], Answer]) -> Answer:
        """Call `function(index)` with the underlying Index in the writing thread, in call order and inside this task's
        transaction, and return its result. Use it for SQL on `index.connection`."""
        self._require_open()
        check_plain("function", function)
        answer: Answer = await self._call(lambda index, call: function(index), self._late("run", function))
        return answer

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def _read_property(self, name: str) -> Any:
        return await self._call(lambda index, call: getattr(index, name), self._late(name), reads=True)

    async def _call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, reads: bool = False) -> Any:
        for callback in ("progress", "on_outcome"):
            check_callable(callback, kwargs.get(callback))

        def work(index: Index, call: Call) -> Any:
            callbacks: dict[str, Any] = {}
            if kwargs.get("progress") is not None:
                callbacks["progress"] = partial(call.on_loop, kwargs["progress"])
            if kwargs.get("on_outcome") is not None:
                callbacks["on_outcome"] = Outcomes(call.on_loop, kwargs["on_outcome"])
            given = (one._require_index() if isinstance(one, AsyncIndex) else one for one in args)
            return getattr(index, name)(*given, **{**kwargs, **callbacks})

        return await self._call(work, self._late(name, *args, **kwargs), reads=reads)


class _Listing(AsyncIterator[Item]):
    """The items of an index generator. A thread resumes it, for twice as many items each time: the first arrive soon."""

    def __init__(self, index: AsyncIndex, begin: Callable[[Index], Iterator[Item]]) -> None:
        self._index = index
        self._begin = begin
        self._items: Iterator[Item] | None = None
        self._size = 1
        self._ready: deque[Item] = deque()
        self._mutex = threading.Lock()  # earlier steps may still run for a cancelled task
        self._is_over = False
        self._error: BaseException | None = None

    async def __anext__(self) -> Item:
        while not self._ready:
            if self._is_over:
                error, self._error = self._error, None
                raise StopAsyncIteration if error is None else error
            await self._index._call(self._fetch_next, None, reads=True)  # no late result: the listing keeps it
        return self._ready.popleft()

    def _fetch_next(self, index: Index, call: Call) -> None:
        with self._mutex:
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
