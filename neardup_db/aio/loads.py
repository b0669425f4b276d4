"""`add_many` for asyncio: records read by a task, and callbacks on the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from .. import limits
from ..errors import NearDupError
from ..index import Index
from ..parameters import check_callable, check_choice, check_if_exists, check_integer
from ..records import check_fields
from ..store.database.transactions import current_task
from ..store.writing.outcomes import Collector
from ..values import MOST_PROBLEMS, AddReport
from .calls import Block, Calls
from .lanes import is_program_ending
from .transactions import Transaction


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


class _ProgramEndsError(BaseException):
    pass


def until_end(records: Iterator[Any]) -> Iterator[Any]:
    """Ends an endless iterator at interpreter exit."""
    for record in records:
        if is_program_ending():
            raise _ProgramEndsError
        yield record


class Load:
    """`add_many` for an asynchronous iterable. The task reads the records and stores them in batches, in one transaction, or in a
    transaction for every `commit_every` records, between which other tasks write."""

    def __init__(self, index: Calls, records: AsyncIterable[Any], kwargs: dict[str, Any]) -> None:
        self._index = index
        self._records = records
        self._late = index._late("add_many", records, **kwargs)
        self._every = kwargs.pop("commit_every")
        self._progress = kwargs.pop("progress")
        self._on_outcome = kwargs.pop("on_outcome")
        self._kwargs = kwargs
        self._outer: Block | None = None
        self._block: Transaction | None = None
        self._piece: list[Any] = []
        self._size = 0
        self._stored = 0
        self._in_block = 0
        """Records of the open transaction, including the pending records."""
        self._heard: list[tuple[Any, ...]] = []
        self._report = AddReport()
        self._is_read = False
        self._error: BaseException | None = None
        """The error of an earlier store, to be raised again: it was first raised where the iterable used the index, which may
        have caught it."""

    async def run(self) -> AddReport:
        index, task = self._index, current_task()
        for name, function in (("progress", self._progress), ("on_outcome", self._on_outcome)):
            check_callable(name, function)
        if self._every is not None:
            check_integer("commit_every", self._every, 1)
        given = self._kwargs
        check_if_exists(given["if_exists"])
        check_choice("on_error", given["on_error"], ("raise", "skip"))
        check_fields(*(given[name] for name in ("key", "text", "group", "metadata")))
        index._require_open()
        await index._flush()  # of an enclosing load
        outer = index._loads.get(task)
        self._outer = index._own_block
        index._loads[task] = self.flush
        try:
            await self._read_batch()
            self._is_read = True
            await self._commit()
        except BaseException as error:
            has_begun = self._block is not None or bool(self._piece)
            if has_begun and isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                why = "the task that read the records was cancelled: what was not committed before is not stored"
                self._late(None, NearDupError(why))
            if self._block is not None:
                block, self._block = self._block, None
                await block.__aexit__(type(error), error, error.__traceback__)
            raise
        finally:
            if outer is None:
                del index._loads[task]
            else:
                index._loads[task] = outer
        return self._report

    @contextmanager
    def _loading(self, index: Index) -> Iterator[None]:
        with index._store.db.large_cache(), index.transaction():
            yield
        if self._is_read:
            index._checkpoint()

    async def _read_batch(self) -> None:
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
        if self._index._own_block is not (self._block or self._outer):
            raise NearDupError(
                "a transaction() that the records' iterator began is open, and its end could roll back some of the records: end "
                "it before the next record is yielded, or begin it around add_many"
            )
        self._piece.append(record)
        self._in_block += 1
        values = record.values() if isinstance(record, dict) else record if isinstance(record, (tuple, list)) else ()
        self._size += sum(len(value if isinstance(value, (str, bytes)) else repr(value)) for value in values)

    async def flush(self) -> None:
        if self._error is not None:
            raise self._error
        piece, self._piece, self._size = self._piece, [], 0
        if not piece:
            return
        try:
            await self._store(piece)
        except BaseException as error:
            self._error = error
            raise

    async def _store(self, piece: list[Any]) -> None:
        if self._block is None:
            block = Transaction(self._index, self._loading, self._committed)
            await block.__aenter__()
            self._block = block
        report = await self._add(piece)
        counts = {each.name: getattr(self._report, each.name) + getattr(report, each.name) for each in fields(AddReport)}
        self._report = AddReport(**{**counts, "problems": counts["problems"][:MOST_PROBLEMS]})
        self._stored += len(piece)
        if self._progress is not None:
            answer = self._progress(self._stored)
            if inspect.isawaitable(answer):
                await answer

    async def _add(self, piece: list[Any]) -> AddReport:
        kwargs, first = self._kwargs, self._stored
        if self._on_outcome is not None:
            kwargs = {**kwargs, "on_outcome": lambda *outcome: self._heard.append(outcome)}
        index = self._index
        report: AddReport = await index._call(lambda call: index._require_index()._add_piece(first, piece, **kwargs), None)
        return report

    async def _commit(self) -> None:
        await self.flush()
        self._in_block = 0
        if self._block is not None:
            block, self._block = self._block, None
            await block.__aexit__(None, None, None)
        while self._heard:  # outcomes are reported only after the commit
            told, self._heard = self._heard[: limits.TASK_RECORDS], self._heard[limits.TASK_RECORDS :]
            await _call_on_outcome(self._on_outcome, told)
            await asyncio.sleep(0)

    def _committed(self, result: Any, error: BaseException | None) -> None:
        self._late(None if error else self._report, error)
