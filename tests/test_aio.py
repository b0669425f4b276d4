"""AsyncIndex: the methods of Index as coroutines, their order, transactions of tasks, cancellation, and ends of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import inspect
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from neardup_db import (
    BusyError,
    ClosedError,
    CorruptIndexError,
    DuplicateKeyError,
    Index,
    KeyNotFoundError,
    MinHash,
    MismatchError,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
    aio,
    limits,
)
from neardup_db.aio import AsyncIndex, LateResult

ROOT = Path(__file__).resolve().parents[1]
SCHEME = MinHash(threshold=0.5)
PATIENCE = 60


def story(name: Any) -> str:
    """A text that is like no other one's."""
    return f"story number{name} tells what happened to person{name} and family{name} in town{name} on day{name}"


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What the coroutine returns, in a loop of its own."""
    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.fixture(params=["file", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where an index may be."""
    return tmp_path / "index.db" if request.param == "file" else ":memory:"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be."""
    return tmp_path / "index.db"


class Gate:
    """Keeps the thread that writes busy until it is opened."""

    def __init__(self, index: AsyncIndex) -> None:
        self.index = index
        self.entered = asyncio.Event()
        self._leave = threading.Event()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(self.entered.set)
        assert self._leave.wait(PATIENCE)

    async def __aenter__(self) -> Gate:
        loop = asyncio.get_running_loop()
        self.task = asyncio.create_task(self.index.run(lambda index: self._wait(loop)))
        await self.entered.wait()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._leave.set()
        await self.task


async def begun(*tasks: asyncio.Task[Any]) -> None:
    """Let tasks go on to where they wait for a thread."""
    for _ in range(5):
        await asyncio.sleep(0)


def threads() -> list[str]:
    """The threads of all indexes of this process."""
    return [thread.name for thread in threading.enumerate() if thread.name in ("neardup reads", "neardup writes")]


async def nobody_works() -> None:
    """Wait for the end of these threads."""
    while threads():
        await asyncio.sleep(0.001)


# ---- the same methods --------------------------------------------------------------------------------------------------

OTHER_NAMES = {"__contains__": "contains", "__len__": "length", "__iter__": "__aiter__", "__enter__": "__aenter__"}
MORE = {"open", "run", "contains", "length"}


def public(owner: type) -> set[str]:
    """Names of methods and properties."""
    return {name for name in dir(owner) if not name.startswith("_")}


def test_no_method_is_missing() -> None:
    """What Index offers AsyncIndex offers, `connection` by `run`; dunder methods that cannot be coroutines have a name."""
    assert public(AsyncIndex) == public(Index) - {"connection"} | MORE
    assert all(hasattr(AsyncIndex, name) for name in OTHER_NAMES.values())


@pytest.mark.parametrize("name", sorted(public(Index) - {"connection", "name", "scheme", "text_rules"}))
def test_signatures_are_the_same(name: str) -> None:
    """Each method takes the same arguments with the same defaults, and is a coroutine function unless `async for` or `async with`
    takes what it returns."""
    ours, theirs = getattr(AsyncIndex, name), getattr(Index, name)
    mine, other = (inspect.signature(one).parameters.values() for one in (ours, theirs))
    assert [(one.name, one.kind, one.default) for one in mine] == [(one.name, one.kind, one.default) for one in other]
    assert inspect.iscoroutinefunction(ours) or name in ("pairs", "pairs_with", "transaction")
    assert inspect.getdoc(ours)


def test_the_constructor_takes_the_arguments_of_index() -> None:
    """AsyncIndex(...) has every option of Index, in the same order, and two of its own behind."""
    mine, other = (list(inspect.signature(one).parameters.values()) for one in (AsyncIndex, Index))
    assert [(one.name, one.default) for one in mine[:-2]] == [(one.name, one.default) for one in other]
    assert [one.name for one in mine[-2:]] == ["readers", "on_late_result"]


def test_the_written_methods_are_those_of_index() -> None:
    """neardup_db/aio/methods.py is what docs/write_aio.py writes today."""
    specification = importlib.util.spec_from_file_location("write_aio", ROOT / "docs" / "write_aio.py")
    assert specification is not None and specification.loader is not None
    writer = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(writer)
    assert writer.MODULE.read_text("utf-8") == writer.module()


TEXTS = {"a": "one two three four five", "b": "one two three four six", "c": "seven eight nine ten"}
RULES = TextRules(shingle=2)
OTHER_SCHEME = MinHash(threshold=0.6)
CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda index: index.add("x", TEXTS["a"], metadata={"x": 1}, limit=1),
    "add_if_new": lambda index: index.add_if_new("x", TEXTS["a"]),
    "add_many": lambda index: index.add_many([("x", TEXTS["a"]), ("y", "eleven twelve thirteen")], commit_every=1),
    "update": lambda index: index.update("a", metadata=[1]),
    "delete": lambda index: index.delete("a"),
    "delete_many": lambda index: index.delete_many(["a", "zz"]),
    "expire": lambda index: index.expire(5),
    "keep_newest": lambda index: index.keep_newest(1),
    "rebuild": lambda index: index.rebuild(OTHER_SCHEME),
    "check": lambda index: index.check(),
    "query": lambda index: index.query(TEXTS["a"], threshold=0.5, limit=5),
    "query_many": lambda index: index.query_many([*TEXTS.values()]),
    "matches": lambda index: index.matches("a"),
    "clusters": lambda index: index.clusters(min_size=1),
    "explain_match": lambda index: index.explain_match("a", "b"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_answers_are_those_of_index(name: str, target: Any, tmp_path: Path) -> None:
    """Each method gives what that of Index gives, and leaves the same documents behind."""

    async def mine() -> tuple[Any, ...]:
        async with AsyncIndex(target, SCHEME, text=RULES, store_text=True) as index:
            await index.add_many(TEXTS.items())
            return (
                await CALLS[name](index), [key async for key in index], [pair async for pair in index.pairs()],
                await index.length(), await index.contains("a"), index.name, await index.scheme, await index.text_rules,
            )  # fmt: skip

    with Index(tmp_path / "other.db", SCHEME, text=RULES, store_text=True) as index:
        index.add_many(TEXTS.items())
        theirs = (CALLS[name](index), list(index), list(index.pairs()), len(index), "a" in index)
        assert run(mine) == (*theirs, index.name, index.scheme, index.text_rules)


def test_files_and_codes(tmp_path: Path) -> None:
    """Methods that write or read other files, and those of codes, work too."""

    async def main() -> None:
        async with AsyncIndex(tmp_path / "a.db", SCHEME) as index, AsyncIndex(tmp_path / "b.db", SCHEME) as other:
            await index.add_many(TEXTS.items())
            assert await index.export_fingerprints(tmp_path / "a.parquet") == 3
            assert (await other.import_fingerprints(tmp_path / "a.parquet")).added == 3
            found = [(pair.key_a, pair.key_b) async for pair in index.pairs_with(other)]
            assert sorted(found) == [("a", "a"), ("b", "b"), ("c", "c")]
            await index.backup(tmp_path / "copy.db")
            assert await index.compact() >= 0 and (await index.stats())["documents"] == 3
            assert (await index.explain(TEXTS["a"])).matches
            assert (await index.get("a")).key == "a"
        async with AsyncIndex(":memory:", SimHash()) as codes:
            assert (await codes.add_codes(["a", "b"], [1, 3])).added == 2
            assert [match.key for match in await codes.add_code("c", 0xFF00FF)] == []
            assert [match.key for match in await codes.query_code(1)] == ["a", "b"]
            assert [len(found) for found in await codes.query_codes([1, 0xFFFFFFFF00])] == [2, 0]

    run(main)
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a", "b", "c"]


def test_errors_are_those_of_index(target: Any) -> None:
    """What a call raises arrives in the task that awaits it."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            await index.add("a", TEXTS["a"])
            with pytest.raises(DuplicateKeyError):
                await index.add("a", TEXTS["a"])
            with pytest.raises(KeyNotFoundError):
                await index.get("z")
            with pytest.raises(ParameterError, match="threshold=0.1"):
                async for _ in index.pairs(threshold=0.1):
                    pass
            with pytest.raises(ParameterError, match="other=5"):
                index.pairs_with(5)  # type: ignore[arg-type]

    run(main)


# ---- where calls run ---------------------------------------------------------------------------------------------------

ON_THE_LOOP = {"require_open", "is_arrow", "check_callable", "check_integer", "check_timeout", "current_task", "name"}
"""Functions of the package outside of aio/ that the loop's thread may call: none of them waits, or reads the file."""


@contextlib.contextmanager
def watched(called: set[str]) -> Iterator[None]:
    """Notes the functions of the package, and of apsw, that this thread calls inside."""
    package = str(Path(aio.__file__).parents[1]) + os.sep

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            if not frame.f_code.co_filename.startswith(package + "aio"):
                called.add(frame.f_code.co_name)
        elif event == "c_call" and (getattr(argument, "__module__", None) or type(argument.__self__).__module__) == "apsw":
            called.add(argument.__name__)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", [*CALLS, "life"])
def test_nothing_of_the_index_runs_on_the_loop(name: str, target: Any) -> None:
    """The loop's thread only gives calls and takes outcomes: it opens, asks, writes, lists, ends and closes nothing itself."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, text=RULES, store_text=True) as index:
            await index.add_many(TEXTS.items())
            if name == "life":
                async with index.transaction():
                    await index.add_many(records(5))
                await asyncio.gather(index.contains("a"), index.length(), index.scheme)
                assert [key async for key in index] and [pair async for pair in index.pairs()]
                await index.run(lambda index: index.connection.execute("SELECT 1").fetchall())
            else:
                await CALLS[name](index)

    called: set[str] = set()
    asyncio.run(asyncio.sleep(0))  # what asyncio imports
    with watched(called):
        run(main)
    assert called - ON_THE_LOOP == set()


def test_the_watch_sees_calls() -> None:
    """The test above can fail: an Index that is used on the loop is seen."""
    called: set[str] = set()
    with watched(called), Index(":memory:", SCHEME) as index:
        index.add("a", TEXTS["a"])
    assert {"open_store", "add", "execute"} <= called


def test_questions_run_beside_a_long_write(path: Path) -> None:
    """While one call keeps the thread that writes busy, questions of other tasks are answered, from the last committed state."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME) as index:
            await index.add("a", TEXTS["a"])
            async with Gate(index):
                writing = asyncio.create_task(index.add("b", TEXTS["b"]))
                await begun(writing)
                asked = await asyncio.gather(*(index.query(TEXTS["a"]) for _ in range(50)))
                assert [[match.key for match in found] for found in asked] == [["a"]] * 50
                assert not writing.done()
            await writing
            assert await index.length() == 2

    run(main)


def test_no_question_keeps_a_write_waiting(path: Path) -> None:
    """Questions that go on and on never hold the connection that writes."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME, readers=2) as index:
            await index.add_many([("a", TEXTS["a"])])
            db = (await index.run(lambda below: below))._store.db
            taken: list[int] = []
            real = db.turn

            class Watched:
                mine = property(lambda self: real.mine)

                def take(self, timeout: float) -> Any:
                    taken.append(threading.get_ident())
                    return real.take(timeout)

            db.turn = Watched()
            for _ in range(3):
                await asyncio.gather(*(index.query(TEXTS["a"]) for _ in range(30)), index.stats(), index.clusters())
                assert [pair async for pair in index.pairs()] == []
            assert taken == []
            await index.delete("a")
            assert len(set(taken)) == 1
            db.turn = real

    run(main)


def test_threads_are_bounded(path: Path) -> None:
    """No more threads answer than `readers` says, one writes, and none is left when the index is closed."""

    async def main(readers: int) -> None:
        await nobody_works()
        async with AsyncIndex(path, SCHEME, readers=readers) as index:
            adds = (index.add(number, story(number)) for number in range(readers * 10, readers * 10 + 9))
            await asyncio.gather(*(index.query(TEXTS["a"]) for _ in range(100)), *adds)
            assert 2 <= len(threads()) <= readers + 1
        await nobody_works()

    for readers in (1, 3):
        run(partial(main, readers))


@pytest.mark.parametrize("readers", [0, -1, limits.READERS_MAX + 1, 1.5, "2", True])
def test_wrong_readers(readers: Any) -> None:
    """The number of readers is checked before anything is opened."""
    with pytest.raises(ParameterError, match="readers="):
        AsyncIndex(":memory:", SCHEME, readers=readers)


@pytest.mark.parametrize("more", [{"on_late_result": 5}, {"timeout": -1}], ids=str)
def test_wrong_arguments(more: dict[str, Any]) -> None:
    """So are the other arguments that the loop's side uses."""
    with pytest.raises(ParameterError, match=next(iter(more))):
        AsyncIndex(":memory:", SCHEME, **more)


def test_a_connection_is_refused() -> None:
    """A connection of the caller's would be used by other threads: the message says what to do."""
    with pytest.raises(ParameterError, match="open its file by the path"):
        AsyncIndex(apsw.Connection(":memory:"), SCHEME)  # type: ignore[arg-type]


# ---- order -------------------------------------------------------------------------------------------------------------


def test_writes_run_in_the_order_of_asking(target: Any) -> None:
    """Writes, transactions and loads of many tasks begin in the order in which the tasks asked: nobody is passed by."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            async def write(number: int) -> None:
                if number % 3 == 0:
                    await index.add(number, story(number))
                elif number % 3 == 1:
                    async with index.transaction():
                        await index.add(number, story(number))
                else:
                    await index.add_many(one(number))

            async def one(number: int) -> AsyncIterator[tuple[int, str]]:
                yield number, story(number)

            async with Gate(index):
                tasks = [asyncio.create_task(write(number)) for number in range(60)]
                await begun(*tasks)
            await asyncio.gather(*tasks)
            assert [key async for key in index] == list(range(60))

    run(main)


def test_a_task_that_never_stops_starves_nobody(target: Any) -> None:
    """Between two transactions of a task that begins them one after the other, everybody who had asked before comes to write."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            done: list[str] = []

            async def greedy() -> None:
                for number in range(30):
                    async with index.transaction():
                        await index.add(f"greedy {number}", story(number))
                        if number == 3:
                            for each in range(20):
                                tasks.append(asyncio.create_task(modest(each)))
                            await begun(*tasks)
                    done.append(f"greedy {number}")

            async def modest(number: int) -> None:
                await index.add(number, story(f"m{number}"))
                done.append("modest")

            tasks: list[asyncio.Task[None]] = []
            await greedy()
            await asyncio.gather(*tasks)
            keys = [key async for key in index]
            assert keys == [*(f"greedy {n}" for n in range(4)), *range(20), *(f"greedy {n}" for n in range(4, 30))]

    run(main)


def test_a_call_that_waits_too_long_is_busy(target: Any) -> None:
    """A call that could not begin within the timeout is a BusyError that says what to do, and is not done later."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, timeout=0.05) as index:
            async with Gate(index):
                with pytest.raises(BusyError, match=r"waited 0.05 s.*nothing was done.*gather\(\)"):
                    await index.add("a", TEXTS["a"])
            assert await index.length() == 0
            async with index.transaction():
                with pytest.raises(BusyError, match="from the task that entered it"):
                    await asyncio.gather(index.add("b", TEXTS["b"]))
                await index.add("c", TEXTS["c"])
            assert [key async for key in index] == ["c"]

    run(main)


# ---- transactions ------------------------------------------------------------------------------------------------------


def test_a_transaction_is_its_tasks_own(target: Any) -> None:
    """Writes of other tasks, those that the block creates too, wait for its end; the task itself sees what it wrote."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            async def other(key: str) -> int:
                await index.add(key, story(key))
                return await index.length()

            with pytest.raises(ValueError):
                async with index.transaction() as same:
                    assert same is index
                    await index.add("mine", story("mine"))
                    tasks = [asyncio.create_task(other("child")), asyncio.create_task(index.add("call", story("call")))]
                    await begun(*tasks)
                    assert await index.length() == 1 and await index.contains("mine")
                    assert [match.key for match in await index.query(story("mine"))] == ["mine"]
                    assert [key async for key in index] == ["mine"]
                    assert not any(task.done() for task in tasks)
                    raise ValueError
            await asyncio.gather(*tasks)
            assert [key async for key in index] == ["child", "call"]
            assert (await index.check()).ok

    run(main)


def test_questions_of_others_see_the_state_before(path: Path) -> None:
    """While a transaction is open, other tasks are answered from the last committed state, and do not wait."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME) as index:
            await index.add("a", TEXTS["a"])
            async with index.transaction():
                await index.delete("a")
                await index.add("b", TEXTS["b"])

                async def ask() -> Any:
                    return [key async for key in index], await index.length(), await index.contains("a")

                assert await asyncio.create_task(ask()) == (["a"], 1, True)
                assert await ask() == (["b"], 1, False)
            assert await asyncio.create_task(ask()) == (["b"], 1, False)

    run(main)


def test_transactions_nest(target: Any) -> None:
    """An inner block that fails takes its own calls back, the outer one goes on; a failing outer one takes all of it back."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            async with index.transaction():
                await index.add("a", TEXTS["a"])
                with pytest.raises(ZeroDivisionError):
                    async with index.transaction():
                        await index.add("b", TEXTS["b"])
                        async with index.transaction():
                            await index.add("c", TEXTS["c"])
                        assert await index.length() == 3
                        raise ZeroDivisionError
                assert await index.length() == 1
                with pytest.raises(DuplicateKeyError):
                    await index.add("a", TEXTS["a"])
            with pytest.raises(KeyError):
                async with index.transaction():
                    async with index.transaction():
                        await index.add("d", TEXTS["c"])
                    raise KeyError
            assert [key async for key in index] == ["a"]

    run(main)


def test_a_transaction_that_cannot_begin(path: Path) -> None:
    """Where another process writes, the block is not entered, its task gets the BusyError, and others go on."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME, timeout=0.05) as index:
            holder = apsw.Connection(str(path))
            holder.execute("BEGIN IMMEDIATE")
            for _ in range(2):
                with pytest.raises(BusyError):
                    async with index.transaction():
                        raise AssertionError
            holder.execute("ROLLBACK")
            holder.close()
            async with index.transaction():
                await index.add("a", TEXTS["a"])
            assert await index.length() == 1

    run(main)


def test_sql_by_run(target: Any) -> None:
    """`run` gives the connection to a function, in the transaction of the task; what it raises is the caller's."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            with pytest.raises(apsw.SQLError):
                async with index.transaction():
                    await index.run(lambda below: below.connection.execute("CREATE TABLE notes (x)").fetchall())
                    await index.add("a", TEXTS["a"])
                    await index.run(lambda below: below.connection.execute("SELECT wrong").fetchall())
            sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'"
            assert await index.run(lambda below: below.connection.execute(sql).get) == 0
            assert await index.length() == 0

    run(main)


# ---- cancellation ------------------------------------------------------------------------------------------------------


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and see that it is."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_call_that_waits_is_dropped(target: Any) -> None:
    """A task that is cancelled before its call has begun leaves nothing of it, and nothing is reported."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            async with Gate(index):
                loads = index.add_many([("b", TEXTS["b"])]), index.add_many(records(3))
                calls = [index.add("a", TEXTS["a"]), *loads, whole(index)]
                tasks = [asyncio.create_task(call) for call in calls]
                await begun(*tasks)
                for task in tasks:
                    await cancelled(task)
            assert await index.length() == 0
        assert late == []

    async def whole(index: AsyncIndex) -> None:
        async with index.transaction():
            raise AssertionError

    run(main)


def test_a_call_that_has_begun_is_finished_and_reported(target: Any) -> None:
    """A task that is cancelled while its call runs is free at once; the call goes on to its end, and the hook hears of it."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gates = [threading.Event(), threading.Event()]
            entered = asyncio.Queue[None]()
            loop = asyncio.get_running_loop()

            def slow(number: int, error: Exception | None) -> Iterator[tuple[str, str]]:
                loop.call_soon_threadsafe(entered.put_nowait, None)
                assert gates[number].wait(PATIENCE)
                if error is not None:
                    raise error
                yield "late", TEXTS["a"]

            given = slow(0, None), slow(1, ValueError("no more"))
            tasks = [asyncio.create_task(index.add_many(each, if_exists="ignore")) for each in given]
            for number, task in enumerate(tasks):
                await entered.get()
                await cancelled(task)
                assert len(late) == number
                gates[number].set()
            assert await index.length() in (0, 1)  # beside the second one, or after both in memory
        assert [(one.method, one.kwargs["if_exists"]) for one in late] == [("add_many", "ignore")] * 2
        assert late[0].error is None and late[0].result.added == 1
        assert isinstance(late[1].error, ValueError) and late[1].result is None
        async with AsyncIndex(target, SCHEME) as index:
            assert await index.length() == (target != ":memory:")

    run(main)


def test_late_results_are_logged(target: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Without a hook an outcome that nobody awaits is logged; a hook that fails is logged as well, and harms nothing."""

    async def late_add(index: AsyncIndex) -> None:
        async with Gate(index) as gate:
            await cancelled(gate.task)
            gate.task = asyncio.create_task(asyncio.sleep(0))
        await index.length()
        await index.run(lambda below: None)

    def fails(late: LateResult) -> None:
        raise RuntimeError("a hook of the caller's")

    async def main() -> None:
        for hook in (None, fails):
            async with AsyncIndex(target, SCHEME, on_late_result=hook) as index:
                await late_add(index)

    with caplog.at_level(logging.INFO, "neardup_db.aio"):
        run(main)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and said[0].startswith("run(") and said[0].endswith("was done after its task was cancelled")
    assert said[1] == "on_late_result failed" and "a hook of the caller's" in caplog.text


def test_a_call_between_its_end_and_its_task_is_reported() -> None:
    """A task that is cancelled when its call is over, but before it went on, loses nothing: the outcome is reported, once."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(":memory:", SCHEME, on_late_result=late.append) as index:
            task = asyncio.create_task(index.add("a", TEXTS["a"]))
            await begun(task)
            while not (await asyncio.to_thread(time.sleep, 0) or task._fut_waiter is None or task._fut_waiter.done()):
                pass
            outcome = "returned"
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                outcome = "cancelled"
            assert await index.contains("a")
        assert [one.method for one in late] == (["add"] if outcome == "cancelled" else [])

    for _ in range(20):
        run(main)


@pytest.mark.parametrize("where", ["begin", "body", "call", "commit"])
def test_a_transaction_of_a_cancelled_task_is_rolled_back(where: str, target: Any) -> None:
    """Wherever its task is cancelled, all of a transaction is in or nothing; others write at once."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gate, entered = threading.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def wait(below: Index) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(PATIENCE)

            async def block() -> None:
                async with index.transaction():
                    await index.add("a", TEXTS["a"])
                    if where == "body":
                        entered.set()
                        await asyncio.sleep(PATIENCE)
                    if where == "call":
                        await index.run(wait)
                    if where == "commit":
                        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                            asyncio.get_running_loop().call_soon(entered.set)
                    await index.add("b", TEXTS["b"])

            if where == "begin":
                below = await index.run(lambda below: below)
                real, below._store.writing = below._store.writing, None  # type: ignore[method-assign]

                @contextlib.contextmanager
                def slowly() -> Iterator[None]:
                    wait(below)
                    with real():
                        yield

                below._store.writing = slowly  # type: ignore[method-assign, assignment]
            task = asyncio.create_task(block())
            await entered.wait()
            if where == "begin":
                del below._store.writing  # type: ignore[method-assign]
            task.cancel()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await index.add("other", story("other"))
            assert [key async for key in index] == ["other"]
            assert (await index.check()).ok
        assert [one.method for one in late] == (["run"] if where == "call" else late and ["add"])

    run(main)


def test_a_commit_that_has_begun_is_not_taken_back(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while its transaction commits leaves the whole of it behind, and the hook hears of it."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            gate, entered, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()
            db = (await index.run(lambda below: below))._store.db
            real = db._commit

            def commit(level: Any) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(PATIENCE)
                real(level)

            async def block() -> None:
                async with index.transaction():
                    await index.add_many([("a", TEXTS["a"]), ("b", TEXTS["b"])])
                    db._commit = commit

            task = asyncio.create_task(block())
            await entered.wait()
            await cancelled(task)
            del db._commit
            gate.set()
            await index.run(lambda below: None)
            assert [key async for key in index] == ["a", "b"]
        assert [(one.method, one.error) for one in late] == [("transaction", None)]

    run(main)


def test_a_commit_that_waits_is_taken_back(target: Any) -> None:
    """A task that is cancelled twice, in a call and then at the end of the block, has its transaction rolled back."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, on_late_result=lambda late: None) as index:
            gate, loop = threading.Event(), asyncio.get_running_loop()

            async def block(swallows: bool) -> None:
                async with index.transaction():
                    await index.add("a", TEXTS["a"])
                    with contextlib.suppress(asyncio.CancelledError):
                        await index.run(lambda below: (loop.call_soon_threadsafe(entered.set), gate.wait(PATIENCE)))
                    assert swallows

            entered = asyncio.Event()
            task = asyncio.create_task(block(True))
            await entered.wait()
            task.cancel()
            await begun(task)  # at the end of the block now, which waits for the call
            assert not task.done()
            task.cancel()
            await begun(task)
            assert task.cancelled()
            gate.set()
            assert await index.run(len) == 0

    run(main)


def test_a_listing_loses_nothing_by_a_cancelled_step(path: Path) -> None:
    """What a step found, whose task was cancelled, comes with the next step; so does its error."""

    async def main() -> None:
        async with AsyncIndex(path, SCHEME) as index:
            await index.add_many((i, story(i)) for i in range(100))
            keys, found = index.__aiter__(), []
            while True:
                step = asyncio.ensure_future(keys.__anext__())
                await asyncio.sleep(0)
                step.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    found.append(await step)
                try:
                    found.append(await keys.__anext__())
                except StopAsyncIteration:
                    break
            assert found == list(range(100))
            wrong = index.pairs(threshold=0.01)
            step = asyncio.ensure_future(wrong.__anext__())
            await asyncio.sleep(0)
            step.cancel()
            with contextlib.suppress(asyncio.CancelledError, ParameterError):
                await step
            if not isinstance(step, asyncio.Future) or step.cancelled():
                with pytest.raises(ParameterError, match="threshold=0.01"):
                    await wrong.__anext__()
            with pytest.raises(StopAsyncIteration):
                await wrong.__anext__()

    run(main)


# ---- loads -------------------------------------------------------------------------------------------------------------


async def records(count: int, start: int = 0) -> AsyncIterator[tuple[int, str]]:
    """Stories, with a step of the loop now and then."""
    for number in range(start, start + count):
        if number % 7 == 0:
            await asyncio.sleep(0)
        yield number, story(number)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 511, 512, 513, 2500])
def test_a_load_of_an_asynchronous_iterable(target: Any, count: int) -> None:
    """Its records are stored in their order, all of them, as those of any other iterable; progress is called on the loop."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            told: list[int] = []
            where: set[int] = set()

            def progress(done: int) -> None:
                told.append(done)
                where.add(threading.get_ident())

            report = await index.add_many(records(count), progress=progress)
            assert report.added == count and [key async for key in index] == list(range(count))
            assert told[-1:] == [count][: count > 0]
            more = await index.add_many(((n, story(n)) for n in range(count, count + 3)), progress=progress)
            assert more.added == 3 and told[-1] == 3 and where == {threading.get_ident()}
            assert (await index.check()).ok

    run(main)


def test_an_iterable_runs_where_it_should(target: Any) -> None:
    """An asynchronous iterable runs in the task that awaits add_many; any other one in the thread that writes."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            where: list[Any] = []

            async def tasks_own() -> AsyncIterator[tuple[str, str]]:
                where.append(asyncio.current_task())
                yield "a", TEXTS["a"]

            def threads_own() -> Iterator[tuple[str, str]]:
                where.append(threading.get_ident())
                yield "b", TEXTS["b"]

            await index.add_many(tasks_own())
            await index.add_many(threads_own())
            assert where == [asyncio.current_task(), await index.run(lambda below: threading.get_ident())]
            assert where[1] != threading.get_ident()

    run(main)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("commit_every", [None, 1, 3])
def test_an_asynchronous_iterable_may_use_the_index(target: Any, commit_every: int | None) -> None:
    """A question of it sees every record yielded before, whole; a write, or a transaction, stands between two records."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            async def asking() -> AsyncIterator[tuple[Any, str]]:
                for number in range(12):
                    yield number, story(number)
                    assert await index.contains(number)
                    assert [match.key for match in await index.query(story(number))] == [number]
                    if number == 4:
                        await index.add("between", story("between"))
                        async with index.transaction():
                            await index.add("inside", story("inside"))
                            assert await index.length() == 7
                        assert len([key async for key in index]) == 7
                    if number == 8:
                        with pytest.raises(ValueError):
                            async with index.transaction():
                                await index.add("never", story("never"))
                                raise ValueError

            assert (await index.add_many(asking(), commit_every=commit_every)).added == 12
            assert [key async for key in index] == [0, 1, 2, 3, 4, "between", "inside", *range(5, 12)]
            assert (await index.check()).ok

    run(main)


def test_a_record_inside_a_transaction_of_its_iterable(target: Any) -> None:
    """A record that is yielded while a transaction of the iterable is open is refused, as by Index, and all is taken back."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            ended = []

            async def wrong() -> AsyncIterator[tuple[int, str]]:
                yield 0, story(0)
                try:
                    async with index.transaction():
                        await index.add("inside", story("inside"))
                        for number in range(1, 3000):
                            yield number, story(number)
                finally:
                    ended.append(True)

            with pytest.raises(NearDupError, match="end it before the next record is yielded"):
                await index.add_many(wrong())
            assert ended == [True] and await index.length() == 0
            await index.add("a", TEXTS["a"])
            assert (await index.check()).ok

    run(main)


@pytest.mark.parametrize("number", [0, 1, 700])
@pytest.mark.parametrize("error", [ValueError("no more"), asyncio.CancelledError()], ids=["error", "cancelled"])
def test_an_asynchronous_iterable_that_fails(target: Any, number: int, error: BaseException) -> None:
    """Its error is raised, and nothing of the load is stored but what was committed before."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME, on_late_result=lambda late: None) as index:

            async def failing() -> AsyncIterator[tuple[int, str]]:
                async for record in records(number):
                    yield record
                raise error

            with pytest.raises(type(error)):
                await index.add_many(failing())
            assert await index.run(len) == 0
            with pytest.raises(type(error)):
                await index.add_many(failing(), commit_every=300)
            assert await index.run(len) == number // 300 * 300
            assert (await index.check()).ok

    run(main)


def test_a_cancelled_load_is_taken_back_and_reported(target: Any) -> None:
    """A task that is cancelled while it reads records leaves nothing of them, and the hook hears that the load failed."""

    async def main() -> None:
        late: list[LateResult] = []
        async with AsyncIndex(target, SCHEME, on_late_result=late.append) as index:
            yielded, closed = asyncio.Event(), []

            async def endless() -> AsyncIterator[tuple[int, str]]:
                try:
                    for number in range(10**9):
                        yield number, story(number)
                        if number == 2000:
                            yielded.set()
                            await asyncio.sleep(PATIENCE)
                finally:
                    closed.append(True)

            task = asyncio.create_task(index.add_many(endless()))
            await yielded.wait()
            await cancelled(task)
            assert closed == [True]
            assert await index.run(len) == 0
        assert [one.method for one in late] == ["add_many"] and "was cancelled" in str(late[0].error)

    run(main)


def test_a_load_that_is_refused_reads_nothing(target: Any) -> None:
    """Wrong arguments are told before the first record is read; a wrong record ends the reading soon."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            read: list[int] = []

            async def noting() -> AsyncIterator[Any]:
                for number in range(100_000):
                    read.append(number)
                    yield ("same", story(number))

            with pytest.raises(ParameterError, match="if_exists"):
                await index.add_many(noting(), if_exists="wrong")  # type: ignore[arg-type]
            for every in (0, "x", True):
                with pytest.raises(ParameterError, match="commit_every"):
                    await index.add_many(noting(), commit_every=every)  # type: ignore[arg-type]
            assert read == []
            with pytest.raises(DuplicateKeyError, match="record 1:"):
                await index.add_many(noting(), commit_every=2)
            assert len(read) < 100 and await index.length() == 0

    run(main)


def test_records_are_not_read_ahead(target: Any) -> None:
    """An iterable that is quicker than the thread waits for it: few records are in hand at a time."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            below = await index.run(lambda below: below)
            most, read, taken = 0, 0, 0
            real = below.add_many

            def counted(given: Any, **more: Any) -> Any:
                def each() -> Iterator[Any]:
                    nonlocal taken
                    for record in given:
                        taken += 1
                        yield record

                return real(each(), **more)

            below.add_many = counted  # type: ignore[method-assign]

            async def noting() -> AsyncIterator[Any]:
                nonlocal most, read
                for number in range(5000):
                    read += 1
                    most = max(most, read - taken)
                    yield number, story(number)

            await index.add_many(noting())
            assert taken == 5000 and most <= 2 * limits.TASK_RECORDS + 1

    run(main)


@pytest.mark.usefixtures("small_limits")
def test_progress_that_fails_ends_a_load(target: Any) -> None:
    """What `progress` raises is raised by add_many, and nothing of the load is stored: of either kind of iterable."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:

            def fails(done: int) -> None:
                raise TimeoutError("enough")

            for given in (records(30), [(n, story(n)) for n in range(30)]):
                with pytest.raises(TimeoutError, match="enough"):
                    await index.add_many(given, progress=fails)
                assert await index.length() == 0
            with pytest.raises(ParameterError, match="progress=5"):
                await index.add_many(records(1), progress=5)  # type: ignore[arg-type]
            await index.add_many(records(50))
            told: list[int] = []
            await index.rebuild(MinHash(threshold=0.6), progress=told.append)
            assert told

    run(main)


def test_a_load_inside_a_transaction(target: Any) -> None:
    """A load of either kind belongs to the transaction around it."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            with pytest.raises(KeyError):
                async with index.transaction():
                    assert (await index.add_many(records(10))).added == 10
                    assert (await index.add_many([(n, story(n)) for n in range(10, 20)])).added == 10
                    with pytest.raises(DuplicateKeyError):
                        await index.add_many(records(600, start=5))
                    assert await index.length() == 20
                    raise KeyError
            assert await index.length() == 0

    run(main)


# ---- opening and closing -----------------------------------------------------------------------------------------------


def test_an_index_that_is_not_open_says_so(path: Path) -> None:
    """Before it is opened, and after it was closed, each call is a ClosedError; it may be opened again."""

    async def main() -> None:
        index = AsyncIndex(path, SCHEME)
        assert not path.exists() and repr(index).endswith(", closed>")
        for _ in range(2):
            for call in (index.length, index.stats, index.expire, index.compact):
                with pytest.raises(ClosedError, match=r"not open.*open\(\)"):
                    await call()
            with pytest.raises(ClosedError):
                async with index.transaction():
                    raise AssertionError
            with pytest.raises(ClosedError):
                await index.add_many(records(1))
            with pytest.raises(ClosedError):
                async for _ in index:
                    raise AssertionError
            await index.close()
            assert await index.open() is index and await index.open() is index
            await index.expire()
            await index.close()
            await index.close()
        with pytest.raises(TypeError, match="send the path"):
            copy_of(index)

    def copy_of(index: AsyncIndex) -> None:
        import copy

        copy.copy(index)

    run(main)


def test_opening_that_fails(path: Path) -> None:
    """The error of opening is raised by `async with`, and nothing is left: no thread, no file."""

    async def main() -> None:
        for scheme, error in ((None, ParameterError), (SCHEME, None), (SimHash(), MismatchError)):
            if error is None:
                async with AsyncIndex(path, scheme):
                    continue
            with pytest.raises(error):
                async with AsyncIndex(path, scheme):
                    raise AssertionError
        path.write_bytes(b"x" * 5000)
        with pytest.raises((NearDupError, CorruptIndexError)):
            await AsyncIndex(path).open()
        await nobody_works()

    run(main)


def test_opening_that_is_cancelled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that opens when its task is gone is closed again."""

    async def main() -> None:
        gate, entered, loop, made = threading.Event(), asyncio.Event(), asyncio.get_running_loop(), []

        def slow(*args: Any, **kwargs: Any) -> Index:
            loop.call_soon_threadsafe(entered.set)
            assert gate.wait(PATIENCE)
            made.append(Index(*args, **kwargs))
            return made[-1]

        monkeypatch.setattr(aio, "Index", slow)
        index = AsyncIndex(path, SCHEME)
        task = asyncio.create_task(index.open())
        await entered.wait()
        await cancelled(task)
        gate.set()
        while not (made and made[0]._closed):
            await asyncio.sleep(0.001)
        await index.close()
        assert repr(index).endswith(", closed>")

    run(main)


def test_closing_waits_and_refuses(target: Any) -> None:
    """close() comes after all calls that were given before, and what comes after it is a ClosedError."""

    async def main() -> None:
        index = AsyncIndex(target, SCHEME)
        await index.open()
        async with Gate(index):
            waiting = [asyncio.create_task(index.add(n, story(n))) for n in range(10)]
            await begun(*waiting)
            closing = [asyncio.create_task(index.close()) for _ in range(2)]
            await begun(*closing)
            for call in (index.add("late", TEXTS["a"]), index.length(), index.add_many(records(1))):
                with pytest.raises(ClosedError, match="is being closed"):
                    await call
            assert not any(task.done() for task in (*waiting, *closing))
        await asyncio.gather(*waiting, *closing)
        with pytest.raises(ClosedError):
            await index.length()
        if target != ":memory:":
            async with index:
                assert [key async for key in index] == list(range(10))

    run(main)


def test_closing_waits_for_questions(path: Path) -> None:
    """Questions that were asked before close() are answered, those that wait for a thread too."""

    async def main() -> None:
        index = AsyncIndex(path, SCHEME, readers=1)
        await index.open()
        await index.add("a", TEXTS["a"])
        gate, below = threading.Event(), await index.run(lambda below: below)
        below.stats = lambda: gate.wait(PATIENCE)  # type: ignore[method-assign, assignment]
        asked = [asyncio.create_task(index.stats()), *(asyncio.create_task(index.query(TEXTS["a"])) for _ in range(10))]
        await begun(*asked)
        closing = asyncio.create_task(index.close())
        await begun(closing)
        assert not closing.done()
        gate.set()
        answers = await asyncio.gather(*asked)
        assert answers[0] is True and all([match.key for match in found] == ["a"] for found in answers[1:])
        await closing

    run(main)


def test_closing_beside_a_transaction(target: Any) -> None:
    """close() waits for the end of a transaction, whose calls go on; where that takes too long the index stays open."""

    async def main() -> None:
        index = AsyncIndex(target, SCHEME, timeout=0.1)
        await index.open()
        async with index.transaction():
            closing = asyncio.create_task(index.close())
            with pytest.raises(BusyError):
                await closing
            await index.add("a", TEXTS["a"])
            with pytest.raises(NearDupError, match="inside its own transaction"):
                await index.close()
        assert await index.length() == 1
        async with index.transaction():
            closing = asyncio.create_task(index.close())
            await begun(closing)
            await index.add("b", TEXTS["b"])
        await closing
        with pytest.raises(ClosedError):
            await index.length()

    run(main)


def test_two_loops_share_an_index(path: Path) -> None:
    """Loops of two threads, and one loop after the other, may use one AsyncIndex."""
    index = AsyncIndex(path, SCHEME)
    run(index.open)

    async def work(number: int) -> None:
        for each in range(20):
            async with index.transaction():
                await index.add((number * 100) + each, story((number, each)))
        assert await index.length() >= 20

    loops = [threading.Thread(target=lambda n=n: run(lambda: work(n))) for n in range(3)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    assert run(index.length) == 60
    run(index.close)


def test_a_loop_of_another_kind_is_told() -> None:
    """Without a loop of asyncio the first call says what to do instead."""
    call = AsyncIndex(":memory:", SCHEME).open()
    with pytest.raises(NearDupError, match=r"asyncio.*trio\.to_thread"):
        call.send(None)


# ---- the end of the program --------------------------------------------------------------------------------------------

ENDS = {
    "a call runs": """
async def main():
    index = await AsyncIndex(path, MinHash()).open()
    await index.add("acknowledged", TEXT)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    def slow(below):
        loop.call_soon_threadsafe(begun.set)
        time.sleep(1)
        below.add("begun", TEXT)
    task = asyncio.create_task(index.run(slow))
    await begun.wait()
asyncio.run(main())
print("over", flush=True)
""",
    "a generator without end": """
async def main():
    index = await AsyncIndex(path, MinHash(), on_late_result=lambda late: print("taken back", late.method, flush=True)).open()
    await index.add("acknowledged", TEXT)
    begun = asyncio.Event()
    def endless():
        loop.call_soon_threadsafe(begun.set)
        for number in itertools.count():
            yield number, TEXT
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(index.add_many(endless()))
    await begun.wait()
asyncio.run(main())
print("over", flush=True)
""",
    "calls wait": """
async def main():
    index = await AsyncIndex(path, MinHash()).open()
    await index.add("acknowledged", TEXT)
    tasks = [asyncio.create_task(index.add(number, TEXT)) for number in range(500)]
    tasks += [asyncio.create_task(index.query(TEXT)) for number in range(500)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
asyncio.run(main())
print("over", flush=True)
""",
    "a loop that stops in a transaction": """
async def main():
    index = await AsyncIndex(path, MinHash()).open()
    await index.add("acknowledged", TEXT)
    async with index.transaction():
        await index.add("never", TEXT)
        await asyncio.sleep(0.05)
        asyncio.get_running_loop().stop()
        await asyncio.sleep(1000)
loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.run_forever()
loop.close()
print("over", flush=True)
""",
    "a loop that stops in a load": """
async def endless():
    for number in itertools.count():
        yield number, TEXT
        if number == 1000:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(1000)
async def main():
    index = await AsyncIndex(path, MinHash(), on_late_result=lambda late: print("taken back", late.method, flush=True)).open()
    await index.add("acknowledged", TEXT)
    await index.add_many(endless(), progress=print)
loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.run_forever()
print("over", flush=True)
""",
    "an error": """
async def main():
    async with AsyncIndex(path, MinHash()) as index:
        await index.add("acknowledged", TEXT)
        tasks = [asyncio.create_task(index.add(number, TEXT)) for number in range(50)]
        await asyncio.sleep(0)
        raise ValueError("of the caller's")
try:
    asyncio.run(main())
except ValueError:
    print("over", flush=True)
""",
    "Ctrl-C": """
async def main():
    async with AsyncIndex(path, MinHash()) as index:
        await index.add("acknowledged", TEXT)
        async with index.transaction():
            await index.add("never", TEXT)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(1000)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("over", flush=True)
""",
    "a forked child": """
index = AsyncIndex(path, MinHash())
async def begin():
    await index.open()
    await index.add("acknowledged", TEXT)
    await index.query(TEXT)
async def in_child():
    try:
        await index.length()
    except ClosedError as error:
        assert "after the fork" in str(error)
    await index.close()
    async with AsyncIndex(path) as other:
        await other.add("of the child", TEXT)
        assert await other.length() == 2
async def go_on():
    async with index.transaction():
        await index.delete("of the child")
    await index.close()
asyncio.run(begin())
child = os.fork()
if child == 0:
    asyncio.run(in_child())
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
asyncio.run(go_on())
print("over", flush=True)
""",
    "a child that is forked in a transaction": """
async def main():
    async with AsyncIndex(path, MinHash()) as index:
        await index.add("acknowledged", TEXT)
        for asks in (False, True):
            child = 0
            try:
                async with index.transaction():
                    await index.add("b", TEXT)
                    child = os.fork()
                    if child == 0 and asks:
                        await index.length()
                    if child:
                        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            except ClosedError as error:
                assert child == 0 and "after the fork" in str(error)
                os._exit(7)
            await index.delete("b")
asyncio.run(main())
print("over", flush=True)
""",
}


LOADS_WITHOUT_END = {"a generator without end", "a loop that stops in a load"}


@pytest.mark.parametrize("end", ENDS)
def test_the_program_ends(end: str, path: Path) -> None:
    """However a loop and the program end, with calls running, waiting or never to come: neither hangs, and what was acknowledged
    is in the file, whole, and nothing of a transaction that did not end."""
    head = (
        "import asyncio, itertools, os, signal, sys, time, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from neardup_db import ClosedError, MinHash\n"
        "from neardup_db.aio import AsyncIndex\n"
        f"path, TEXT = {str(path)!r}, {TEXTS['a']!r}\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", head + ENDS[end]], capture_output=True, text=True, timeout=PATIENCE)
    said = ["over", "taken back add_many"] if end in LOADS_WITHOUT_END else ["over"]
    assert done.returncode == 0 and done.stdout.splitlines() == said, done.stderr
    assert "Error" not in done.stderr, done.stderr
    with Index(path) as index:
        assert "acknowledged" in index and "never" not in index
        assert ("begun" in index) == (end == "a call runs")
        assert index.check().ok


def test_an_index_that_is_let_go(path: Path) -> None:
    """An AsyncIndex that nobody has any more ends its threads, and warns that it was not closed."""

    async def main() -> None:
        index = await AsyncIndex(path, SCHEME).open()
        await asyncio.gather(index.add("a", TEXTS["a"]), index.length())

    with pytest.warns(ResourceWarning, match="unclosed <neardup_db.Index"):
        run(main)
        gc.collect()
    run(nobody_works)


# ---- all of it at once -------------------------------------------------------------------------------------------------


class Worker:
    """A task that does this and that, is cancelled now and then, and notes what it was told."""

    def __init__(self, index: AsyncIndex, number: int, seed: int) -> None:
        self.index = index
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.counter = 0
        self.here: dict[str, str] = {}
        """What was acknowledged."""
        self.unsettled: dict[str, tuple[str, str]] = {}
        """By key: a call that was cancelled, "add" or "delete", and the text."""
        self.blocks: list[dict[str, str]] = []
        """What cancelled transactions and loads would have added."""

    def new(self) -> dict[str, str]:
        """Some keys with texts."""
        made = {}
        for _ in range(self.random.randint(1, 4)):
            self.counter += 1
            made[f"{self.number}-{self.counter}"] = story((self.number, self.counter))
        return made

    async def step(self) -> None:
        """One operation, perhaps with a cancellation."""
        operations = (self.add, self.delete, self.block, self.load, self.ask)
        (operation,) = self.random.choices(operations, (2, 1, 2, 1, 3))
        work, take, leave = operation()
        task = asyncio.ensure_future(work)
        if self.random.random() < 0.3:
            for _ in range(self.random.choice((0, 1, 2, 5, 20))):
                await asyncio.sleep(0)
            if self.random.random() < 0.5:
                await asyncio.sleep(self.random.random() / 100)
            task.cancel()
        try:
            take(await task)
        except asyncio.CancelledError:
            leave()

    def add(self) -> tuple[Any, Any, Any]:
        """One document."""
        key, text = self.new().popitem()
        work = self.random.choice((self.index.add, self.index.add_if_new))(key, text)
        return work, lambda found: self.here.update({key: text}), lambda: self.unsettled.update({key: ("add", text)})

    def delete(self) -> tuple[Any, Any, Any]:
        """Of one document that is there."""
        if not self.here:
            return self.ask()
        key = self.random.choice([*self.here])
        text = self.here.pop(key)

        def take(was_there: bool) -> None:
            assert was_there

        return self.index.delete(key), take, lambda: self.unsettled.update({key: ("delete", text)})

    def block(self) -> tuple[Any, Any, Any]:
        """A transaction of several adds, which may fail."""
        made, fails = self.new(), self.random.random() < 0.2

        async def work() -> bool:
            try:
                async with self.index.transaction():
                    for key, text in made.items():
                        await self.index.add(key, text)
                        assert await self.index.contains(key)
                        await asyncio.sleep(0)
                    if fails:
                        raise LookupError
            except LookupError:
                return False
            return True

        return work(), lambda stored: self.here.update(made if stored else {}), lambda: self.blocks.append({} if fails else made)

    def load(self) -> tuple[Any, Any, Any]:
        """Some documents at once."""
        made = self.new()

        async def each() -> AsyncIterator[tuple[str, str]]:
            for key, text in made.items():
                await asyncio.sleep(0)
                yield key, text

        given: Any = each() if self.random.random() < 0.5 else [*made.items()]
        return self.index.add_many(given), lambda report: self.here.update(made), lambda: self.blocks.append(made)

    def ask(self) -> tuple[Any, Any, Any]:
        """For what was acknowledged, and for what was never there."""

        async def work() -> None:
            if self.here:
                key = self.random.choice([*self.here])
                assert [match.key for match in await self.index.query(self.here[key])] == [key]
                assert (await self.index.get(key)).key == key
            assert not await self.index.contains("never")

        return work(), lambda nothing: None, lambda: None


@pytest.mark.parametrize("where", ["file", "memory", "one reader"])
def test_two_hundred_tasks(where: str, tmp_path: Path, more_rounds: bool) -> None:
    """Of 200 tasks with adds, removals, loads, transactions and questions, many of them cancelled, each sees what it was told. In
    the end exactly what was acknowledged or reported late is there. `--more`: for a minute."""
    seed = random.randrange(10**6)
    print("seed", seed)
    late: list[LateResult] = []
    until = time.monotonic() + (60 if more_rounds else 0)

    async def work(worker: Worker) -> None:
        steps = 0
        while steps < 8 or time.monotonic() < until:
            await worker.step()
            steps += 1

    async def main() -> list[Worker]:
        target = ":memory:" if where == "memory" else tmp_path / "index.db"
        options: dict[str, Any] = {"durability": "normal", "on_late_result": late.append, "timeout": PATIENCE}
        async with AsyncIndex(target, SCHEME, readers=1 if where == "one reader" else None, **options) as index:
            workers = [Worker(index, number, seed) for number in range(200)]
            await asyncio.gather(*(work(worker) for worker in workers))
            await index.run(lambda below: None)  # after all that goes on without its task
            assert (await index.check()).ok
            stored.update([key async for key in index])
        return workers

    stored: set[Any] = set()
    workers = asyncio.run(main())
    settled = {one.args[0] for one in late if one.method in ("add", "add_if_new", "delete") and one.error is None}
    expected: set[str] = set()
    possible: list[set[str]] = []
    for worker in workers:
        expected.update(worker.here)
        expected.update(key for key, (kind, _) in worker.unsettled.items() if (kind == "add") == (key in settled))
        possible += [set(block) for block in worker.blocks if block]
    assert all(block <= stored or not block & stored for block in possible), "half of a transaction"
    whole = [block for block in possible if block <= stored]
    assert stored == expected.union(*whole)
    assert len(whole) == sum(one.method in ("transaction", "add_many") and one.error is None for one in late)
    assert sum(map(len, (worker.unsettled for worker in workers))) > 0
