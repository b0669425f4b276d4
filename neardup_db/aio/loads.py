"""`add_many` for asyncio: records read by a task, and callbacks on the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from typing import Any

from .. import limits
from ..errors import ClosedError, NearDupError
from ..index import Index
from ..records import check_fields
from ..store.database.transactions import current_task
from ..store.ingest.batch_writer import IngestOptions
from ..store.ingest.outcomes import Collector
from ..values import AddReport, summed
from .calls import Calls
from .threads import program_ends


async def _call_on_outcome(on_outcome: Callable[..., Any], outcomes: list[tuple[Any, ...]]) -> None:
    for outcome in outcomes:
        answer = on_outcome(*outcome)
        if inspect.isawaitable(answer):
            await answer


class Outcomes(Collector):
    """Load outcomes for a callback on the loop, sent in batches, because switching to the loop takes as long as a record."""

    def __init__(self, on_loop: Callable[..., None], on_outcome: Callable[..., Any]) -> None:
        self._on_loop = on_loop
        self._on_outcome = on_outcome
        self._waiting: list[tuple[Any, ...]] = []

    def __call__(self, *outcome: Any) -> None:
        self._waiting.append(outcome)
        if len(self._waiting) >= limits.TASK_RECORDS:
            self.report()

    def report(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._on_loop(_call_on_outcome, self._on_outcome, waiting)


def until_end(records: Iterator[Any]) -> Iterator[Any]:
    """Ends an endless iterator at interpreter exit."""
    for record in records:
        if program_ends.is_set():
            raise ClosedError("the index is closed, since the program ends")
        yield record


class Load:
    """`add_many` for an asynchronous iterable. The task reads the records and stores them in batches, in one transaction, or in a
    transaction for every `commit_every` records, between which other tasks write."""

    def __init__(self, index: Calls, records: AsyncIterable[Any], options: dict[str, Any]) -> None:
        self._index = index
        self._records = records
        self._late = index._late("add_many", records, **options)
        names = check_fields(*map(options.pop, ("key", "text", "group", "metadata")))
        given = IngestOptions("text", fields=names, **options)
        self._every, self._progress = given.commit_every, given.progress
        self._on_outcome: Any = given.on_outcome
        on_outcome = None if given.on_outcome is None else lambda *outcome: self._heard.append(outcome)
        self._options = replace(given, commit_every=None, progress=None, on_outcome=on_outcome)
        self._block = AsyncExitStack()  # the open transaction, if there is one
        self._is_open = False
        self._depth = 0  # transactions around the load
        self._piece: list[Any] = []
        self._size = 0
        self._stored = 0
        self._in_block = 0  # records of the open transaction, including the pending records
        self._heard: list[tuple[Any, ...]] = []
        self._report = AddReport()
        self._is_read = False
        self._error: BaseException | None = None
        """The error of an earlier store, to be raised again: it was first raised where the iterable used the index, which may
        have caught it."""

    async def run(self) -> AddReport:
        index, task = self._index, current_task()
        index._require_open()
        await index._flush()  # of an enclosing load
        self._depth = index._own_depth
        outer = index._loads.get(task)
        index._loads[task] = self.flush
        try:
            async with self._block:
                await self._read()
                self._is_read = True
                await self._commit()
        except (asyncio.CancelledError, GeneratorExit):
            if self._is_open or self._piece:
                why = "the task that read the records was cancelled: what was not committed before is not stored"
                self._late(None, NearDupError(why))
            raise
        finally:
            if outer is None:
                del index._loads[task]
            else:
                index._loads[task] = outer
        return self._report

    async def _read(self) -> None:
        records = self._records.__aiter__()
        try:
            async for record in records:
                self._append(record)
                if self._in_block == self._every:
                    await self._commit()
                elif len(self._piece) >= limits.BATCH_RECORDS or self._size >= limits.BATCH_SIZE:
                    await self.flush()
                elif len(self._piece) % limits.TASK_RECORDS == 0:  # for iterables that never wait
                    await asyncio.sleep(0)
        except GeneratorExit:
            raise
        except BaseException:
            close = getattr(records, "aclose", None)
            if close is not None:  # it may be inside its own transaction
                await close()
            raise

    def _append(self, record: Any) -> None:
        if self._error is not None:
            raise self._error
        if self._index._own_depth != self._depth + self._is_open:
            raise NearDupError("the records' iterator began a transaction(): end it before the next record is yielded")
        self._piece.append(record)
        self._in_block += 1
        values = record.values() if isinstance(record, dict) else record if isinstance(record, (tuple, list)) else ()
        self._size += sum(len(value if isinstance(value, (str, bytes)) else repr(value)) for value in values)

    async def flush(self) -> None:
        """Store the pending records."""
        if self._error is not None:
            raise self._error
        piece, self._piece, self._size = self._piece, [], 0
        try:
            if piece:
                await self._store(piece)
        except BaseException as error:
            self._error = error
            raise

    async def _store(self, piece: list[Any]) -> None:
        index, options = self._index, replace(self._options, first=self._stored)
        if not self._is_open:
            await self._block.enter_async_context(index._transaction(self._begin, self._committed))
            self._is_open = True
        report = await index._call(lambda index, call: index._load(piece, options), None)
        self._report = summed(self._report, report)
        self._stored += len(piece)
        if self._progress is not None:
            answer = self._progress(self._stored)
            if inspect.isawaitable(answer):
                await answer

    @contextmanager
    def _begin(self, index: Index) -> Iterator[None]:
        with index._store.db.large_cache(), index.transaction():
            yield
        if self._is_read:
            index._checkpoint()

    async def _commit(self) -> None:
        await self.flush()
        self._in_block, self._is_open = 0, False
        await self._block.aclose()
        heard, self._heard = self._heard, []
        for place in range(0, len(heard), limits.TASK_RECORDS):  # outcomes are reported only after the commit
            await _call_on_outcome(self._on_outcome, heard[place : place + limits.TASK_RECORDS])
            await asyncio.sleep(0)

    def _committed(self, result: Any, error: BaseException | None) -> None:
        self._late(None if error else self._report, error)
