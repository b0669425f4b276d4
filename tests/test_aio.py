"""AsyncIndex: the methods of Index as coroutines, where they run, their order, and transactions of tasks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from cases import one_test
from tasks import SCHEME, TEXTS, Gate, Hears, begun, nobody_works, run, story, threads, with_index

from neardup_db import (
    BusyError,
    DuplicateKeyError,
    Index,
    KeyNotFoundError,
    MinHash,
    NearDupError,
    ParameterError,
    SimHash,
    TextRules,
    aio,
    limits,
)
from neardup_db.aio import AsyncIndex

# ---- the same methods --------------------------------------------------------------------------------------------------

OTHER_NAMES = {"open", "run", "contains", "length"}


def signature(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of the parameters."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def test_the_methods_are_those_of_index() -> None:
    """AsyncIndex has each method of Index, with its arguments and a docstring, as a coroutine function unless `async for` or
    `async with` takes what it returns; the constructor has two more arguments."""
    ours, theirs = ({name for name in dir(owner) if not name.startswith("_")} for owner in (AsyncIndex, Index))
    assert ours == theirs - {"connection"} | OTHER_NAMES
    for name in theirs - {"connection", "name", "scheme", "text_rules", "window"}:
        method = getattr(AsyncIndex, name)
        assert signature(method) == signature(getattr(Index, name)) and inspect.getdoc(method)
        assert inspect.iscoroutinefunction(method) == (name not in ("dismissed", "pairs", "pairs_with", "transaction"))
    assert signature(AsyncIndex)[:-2] == signature(Index)
    assert [name for name, _, _ in signature(AsyncIndex)[-2:]] == ["readers", "on_late_result"]


RULES = TextRules(shingle=2)
OTHER_SCHEME = MinHash(threshold=0.6)
CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda index: index.add("x", TEXTS["a"], metadata={"x": 1}, limit=1),
    "add_if_new": lambda index: index.add_if_new("x", TEXTS["a"]),
    "add_many": lambda index: index.add_many([("x", TEXTS["a"]), ("y", "eleven twelve thirteen")], commit_every=1),
    "update": lambda index: index.update("a", metadata=[1]),
    "delete": lambda index: index.delete("a"),
    "delete_many": lambda index: index.delete_many(["a", "zz"]),
    "delete_group": lambda index: index.delete_group(None),
    "expire": lambda index: index.expire(1_000_000_000),
    "keep_newest": lambda index: index.keep_newest(1),
    "rebuild": lambda index: index.rebuild(OTHER_SCHEME),
    "check": lambda index: index.check(),
    "query": lambda index: index.query(TEXTS["a"], threshold=0.5, limit=5),
    "query_many": lambda index: index.query_many([*TEXTS.values()]),
    "matches": lambda index: index.matches("a"),
    "clusters": lambda index: index.clusters(min_size=1),
    "explain_match": lambda index: index.explain_match("a", "b"),
}  # fmt: skip


def test_files_and_codes(tmp_path: Path) -> None:
    """Methods that write or read other files or indexes, and those of codes, work too."""

    async def main() -> None:
        async with AsyncIndex(tmp_path / "a.db", SCHEME) as index, AsyncIndex(tmp_path / "b.db", SCHEME) as other:
            await index.add_many(TEXTS.items())
            assert await index.export_fingerprints(tmp_path / "a.parquet") == 3
            assert (await other.import_fingerprints(tmp_path / "a.parquet")).added == 3
            found = [(pair.key_a, pair.key_b) async for pair in index.pairs_with(other)]
            assert sorted(found) == [("a", "a"), ("b", "b"), ("c", "c")]
            assert (await other.merge(index, if_exists="ignore")).ignored == 3
            await index.backup(tmp_path / "copy.db")
            assert await index.compact() >= 0 and (await index.stats())["documents"] == 3
            assert (await index.explain(TEXTS["a"])).matches
            assert (await index.get("a")).key == "a"
        async with AsyncIndex(":memory:", SimHash(), window=5) as codes:
            assert await codes.window == 5
            assert (await codes.add_codes(["a", "b"], [1, 3])).added == 2
            assert [match.key for match in await codes.add_code("c", 0xFF00FF)] == []
            assert [match.key for match in await codes.query_code(1)] == ["a", "b"]
            assert [len(found) for found in await codes.query_codes([1, 0xFFFFFFFF00])] == [2, 0]

    run(main)
    with Index(tmp_path / "copy.db") as copy:
        assert list(copy) == ["a", "b", "c"]


@with_index()
async def test_errors_are_those_of_index(index: AsyncIndex) -> None:
    """What a call raises arrives in the task that awaits it."""
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


# ---- where calls run ---------------------------------------------------------------------------------------------------

ON_THE_LOOP = {
    "require_open", "is_arrow", "check_callable", "check_choice", "check_fields", "check_if_exists", "check_integer",
    "check_timeout", "current_task", "name", "summed", "__post_init__",
}  # fmt: skip
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

    gc.collect()
    gc.disable()  # it would call what other tests have left behind
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


@one_test(name=CALLS)
def test_answers_are_those_of_index(name: str, target: Any, tmp_path: Path) -> None:
    """Each method gives what that of Index gives, and leaves the same documents behind. The loop's thread only gives calls and
    takes outcomes: it opens, asks, writes, lists, ends and closes nothing itself."""

    answers: list[Any] = []

    async def mine() -> None:
        async with AsyncIndex(target, SCHEME, text=RULES, store_text=True) as index:
            async with index.transaction():
                await index.add_many(story async for story in texts())
            await index.run(lambda index: index.connection.execute("SELECT 1").fetchall())
            answers[:] = (
                await CALLS[name](index), [key async for key in index], [pair async for pair in index.pairs()],
                await index.length(), await index.contains("a"), index.name, await index.scheme, await index.text_rules,
            )  # fmt: skip

    async def texts() -> AsyncIterator[tuple[str, str]]:
        for text in TEXTS.items():
            yield text

    with Index(tmp_path / "other.db", SCHEME, text=RULES, store_text=True) as index:
        index.add_many(TEXTS.items())
        theirs = (CALLS[name](index), list(index), list(index.pairs()), len(index), "a" in index)
        called: set[str] = set()
        asyncio.run(asyncio.sleep(0))  # what asyncio imports
        with watched(called):
            run(mine)
        assert called - ON_THE_LOOP == set()
        assert answers == [*theirs, index.name, index.scheme, index.text_rules]


def test_the_watch_sees_calls() -> None:
    """The test above can fail: an Index that is used on the loop is seen."""
    called: set[str] = set()
    with watched(called), Index(":memory:", SCHEME) as index:
        index.add("a", TEXTS["a"])
    assert {"open_store", "add", "execute"} <= called


@with_index("path")
async def test_questions_run_beside_a_long_write(index: AsyncIndex) -> None:
    """While one call keeps the thread that writes busy, questions of other tasks are answered, from the last committed state."""
    await index.add("a", TEXTS["a"])
    async with Gate(index):
        writing = asyncio.create_task(index.add("b", TEXTS["b"]))
        await begun(writing)
        asked = await asyncio.gather(*(index.query(TEXTS["a"]) for _ in range(50)))
        assert [[match.key for match in found] for found in asked] == [["a"]] * 50
        assert not writing.done()
    await writing
    assert await index.length() == 2


@with_index("path", readers=2)
async def test_no_question_keeps_a_write_waiting(index: AsyncIndex) -> None:
    """Questions that go on and on never hold the connection that writes."""
    await index.add_many([("a", TEXTS["a"])])
    db = (await index.run(lambda below: below))._store.db
    taken: list[int] = []
    real = db.mutex

    class Watched:
        mine = property(lambda self: real.mine)

        def take(self, timeout: float) -> Any:
            taken.append(threading.get_ident())
            return real.take(timeout)

    db.mutex = Watched()
    for _ in range(3):
        await asyncio.gather(*(index.query(TEXTS["a"]) for _ in range(30)), index.stats(), index.clusters())
        assert [pair async for pair in index.pairs()] == []
    assert taken == []
    await index.delete("a")
    assert len(set(taken)) == 1
    db.mutex = real


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


async def coroutine(*_: Any) -> None:
    """What is called where nobody awaits it."""


WRONG = [
    *({"readers": readers} for readers in (0, -1, limits.READERS_MAX + 1, 1.5, "2", True)),
    *({"on_late_result": wrong} for wrong in (5, coroutine, Hears())), {"timeout": -1},
]  # fmt: skip


@one_test(more=WRONG)
def test_wrong_arguments(more: dict[str, Any]) -> None:
    """Arguments that the loop's side uses are checked before anything is opened."""
    with pytest.raises(ParameterError, match=f"{next(iter(more))}="):
        AsyncIndex(":memory:", SCHEME, **more)


def test_what_other_threads_cannot_use_is_refused(target: Any) -> None:
    """A connection of the caller's, and a coroutine function for `run`: the message says what to do."""

    async def main() -> None:
        async with AsyncIndex(target, SCHEME) as index:
            for wrong in (coroutine, Hears(), 5):
                with pytest.raises(ParameterError, match="function=.*give a "):
                    await index.run(wrong)  # type: ignore[arg-type]

    run(main)
    with pytest.raises(ParameterError, match="open its file by the path"):
        AsyncIndex(apsw.Connection(":memory:"), SCHEME)  # type: ignore[arg-type]


# ---- order -------------------------------------------------------------------------------------------------------------


@with_index()
async def test_writes_run_in_the_order_of_asking(index: AsyncIndex) -> None:
    """Writes, transactions and loads of many tasks begin in the order in which the tasks asked: nobody is passed by."""

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


@with_index()
async def test_a_task_that_never_stops_starves_nobody(index: AsyncIndex) -> None:
    """Between two transactions of a task that begins them one after the other, everybody who had asked before comes to write."""
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


@with_index(timeout=0.05)
async def test_a_call_that_waits_too_long_is_busy(index: AsyncIndex) -> None:
    """A call that could not begin within the timeout is a BusyError that says what to do, and is not done later."""
    async with Gate(index):
        with pytest.raises(BusyError, match=r"waited 0.05 s.*did nothing.*gather\(\)"):
            await index.add("a", TEXTS["a"])
    assert await index.length() == 0
    async with index.transaction():
        with pytest.raises(BusyError, match="from the task that entered it"):
            await asyncio.gather(index.add("b", TEXTS["b"]))
        await index.add("c", TEXTS["c"])
    assert [key async for key in index] == ["c"]


# ---- transactions ------------------------------------------------------------------------------------------------------


@with_index()
async def test_a_transaction_is_its_tasks_own(index: AsyncIndex) -> None:
    """Writes of other tasks, those that the block creates too, wait for its end; the task itself sees what it wrote."""

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


@with_index("path")
async def test_questions_of_others_see_the_state_before(index: AsyncIndex) -> None:
    """While a transaction is open, other tasks are answered from the last committed state, and do not wait."""
    await index.add("a", TEXTS["a"])
    async with index.transaction():
        await index.delete("a")
        await index.add("b", TEXTS["b"])

        async def ask() -> Any:
            return [key async for key in index], await index.length(), await index.contains("a")

        assert await asyncio.create_task(ask()) == (["a"], 1, True)
        assert await ask() == (["b"], 1, False)
    assert await asyncio.create_task(ask()) == (["b"], 1, False)


@with_index()
async def test_transactions_nest(index: AsyncIndex) -> None:
    """An inner block that fails takes its own calls back, the outer one goes on; a failing outer one takes all of it back."""
    db = (await index.run(lambda below: below))._store.db
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
    assert not db._depth  # the roll-back is over when the block is
    assert [key async for key in index] == ["a"]


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


@with_index()
async def test_sql_by_run(index: AsyncIndex) -> None:
    """`run` gives the connection to a function, in the transaction of the task; what it raises is the caller's."""
    with pytest.raises(apsw.SQLError):
        async with index.transaction():
            await index.run(lambda below: below.connection.execute("CREATE TABLE notes (x)").fetchall())
            await index.add("a", TEXTS["a"])
            await index.run(lambda below: below.connection.execute("SELECT wrong").fetchall())
    sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'notes'"
    assert await index.run(lambda below: below.connection.execute(sql).get) == 0
    assert await index.length() == 0


WHO = contextvars.ContextVar("WHO", default="nobody")


def test_calls_see_the_context_of_their_task(target: Any) -> None:
    """A function of the caller's finds in a contextvars.ContextVar what its task has set: in the thread, on the loop, and where
    an outcome comes late."""

    async def main() -> None:
        late: list[str] = []
        async with AsyncIndex(target, SCHEME, on_late_result=lambda _: late.append(WHO.get())) as index:

            async def work(name: str) -> None:
                WHO.set(name)
                seen: list[str] = []

                def note(*_: Any) -> None:
                    seen.append(WHO.get())

                def each() -> Iterator[Any]:
                    note()
                    yield name, story(name)

                await index.run(note)
                await index.add_many(each(), progress=note, on_outcome=note)
                async with index.transaction():
                    await index.run(note)
                assert seen == [name] * 5

            await asyncio.gather(work("a"), work("b"))
            WHO.set("late")
            async with Gate(index) as gate:
                gate.task.cancel()
                await begun(gate.task)
            await index.run(lambda _: None)
        assert late == ["late"]

    run(main)


@with_index()
async def test_transactions_that_end_in_the_wrong_order(index: AsyncIndex) -> None:
    """An outer block that is ended by hand before the inner one is refused, nothing of both is stored, and others go on."""
    outer, inner = index.transaction(), index.transaction()
    await outer.__aenter__()
    await index.add(1, story(1))
    await inner.__aenter__()
    await index.add(2, story(2))
    for block in (outer, inner):
        with pytest.raises(NearDupError, match="nothing of both is stored|rolled back"):
            await block.__aexit__(None, None, None)
    async with index.transaction():
        await index.add(3, story(3))
    assert [key async for key in index] == [3]
