"""AsyncIndex: opening, closing, and the end of a program."""

from __future__ import annotations

import asyncio
import copy
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interpreter import interpreter
from tasks import PATIENCE, SCHEME, TEXTS, Gate, Stop, begun, cancelled, nobody_works, records, run, story, with_index

from neardup_db import BusyError, ClosedError, CorruptIndexError, Index, MismatchError, NearDupError, ParameterError, SimHash
from neardup_db.aio import AsyncIndex, calls
from neardup_db.aio.threads import Lane

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
        stop, made = Stop(), []

        def slow(*args: Any, **kwargs: Any) -> Index:
            stop()
            made.append(Index(*args, **kwargs))
            return made[-1]

        monkeypatch.setattr(calls, "Index", slow)
        index = AsyncIndex(path, SCHEME)
        task = asyncio.create_task(index.open())
        await stop.entered.wait()
        await cancelled(task)
        stop.leave.set()
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
            opening = asyncio.create_task(index.open())  # after the closing
            await begun(opening)
            for call in (index.add("late", TEXTS["a"]), index.length(), index.add_many(records(1))):
                with pytest.raises(ClosedError, match="is being closed"):
                    await call
            assert not any(task.done() for task in (*waiting, *closing))
        await asyncio.gather(*waiting, *closing, opening)
        assert [key async for key in index] == ([] if target == ":memory:" else list(range(10)))
        await index.close()
        with pytest.raises(ClosedError):
            await index.length()

    run(main)


def test_closing_waits_for_questions(path: Path) -> None:
    """Questions that were asked before close() are answered, those that wait for a thread too."""

    async def main() -> None:
        index = AsyncIndex(path, SCHEME, readers=1)
        await index.open()
        await index.add("a", TEXTS["a"])
        stop, below = Stop(), await index.run(lambda below: below)
        below.stats = stop  # type: ignore[method-assign, assignment]
        asked = [asyncio.create_task(index.stats()), *(asyncio.create_task(index.query(TEXTS["a"])) for _ in range(10))]
        await stop.entered.wait()
        closing = asyncio.create_task(index.close())
        await begun(closing)
        assert not closing.done()
        stop.leave.set()
        answers = await asyncio.gather(*asked)
        assert all([match.key for match in found] == ["a"] for found in answers[1:])
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


def test_one_loop_after_the_other(path: Path) -> None:
    """An AsyncIndex that is open, or closed, serves the next loop when the one before has ended."""
    index = AsyncIndex(path, SCHEME)
    run(index.open)
    run(lambda: index.add("a", TEXTS["a"]))
    assert run(index.length) == 1
    run(index.close)
    for _ in range(2):

        async def main() -> None:
            async with index:
                assert await index.length() == 1

        run(main)


def test_two_loops_at_once(path: Path) -> None:
    """Beside the loop in which it was opened another one is refused at each call, with what to do, and neither waits for ever."""

    async def first() -> None:
        async with AsyncIndex(path, SCHEME) as index:

            async def other() -> None:
                tried = (index.length, index.stats, index.expire, index.open, index.close, lambda: index.add("b", TEXTS["b"]))
                for call in (*tried, lambda: index.add_many(records(2)), lambda: index.run(len)):
                    with pytest.raises(NearDupError, match=r"another event loop.*create and open another one"):
                        await call()
                with pytest.raises(NearDupError, match="another event loop"):
                    async with index.transaction():
                        raise AssertionError
                with pytest.raises(NearDupError, match="another event loop"):
                    async for _ in index:
                        raise AssertionError

            await asyncio.to_thread(run, other)
            await index.add("a", TEXTS["a"])
            assert [key async for key in index] == ["a"]

    run(first)


@with_index("path")
async def test_system_exit_in_functions_of_the_caller(index: AsyncIndex) -> None:
    """A function that raises SystemExit ends the call that it belongs to, not the thread: later calls are served, and the file is
    as before the call."""

    def leaves(*_: Any) -> None:
        raise SystemExit("enough")

    def each() -> Iterator[Any]:
        yield "never", TEXTS["c"]
        leaves()

    async def ends(call: Any) -> None:
        with pytest.raises(SystemExit):  # as a task of its own it would end the loop
            await call

    await ends(index.add_many(records(600), progress=leaves))
    await ends(index.add_many([("never", TEXTS["c"])], progress=leaves))
    await ends(index.add_many(each()))
    await ends(index.run(leaves))
    async with index.transaction():
        await ends(index.run(leaves))
        await index.add("a", TEXTS["a"])
    assert [key async for key in index] == ["a"]
    for given in (records(1), [(0, story(0))]):  # outcomes come after the commit
        await ends(index.add_many(given, on_outcome=leaves, if_exists="replace"))
    assert [key async for key in index] == ["a", 0]


def test_no_error_ends_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    """What is raised when no task waits for it, SystemExit too, is logged, and the thread does the next work."""

    async def main() -> None:
        lane, stop = Lane(1, "neardup writes"), Stop()
        stop.leave.set()
        assert await lane.enter(1)
        lane.submit(sys.exit)
        lane.submit(stop)
        await stop.entered.wait()

    run(main)
    assert "SystemExit" in caplog.text


def test_a_loop_of_another_kind_is_told() -> None:
    """Without a loop of asyncio the first call says what to do instead."""
    call = AsyncIndex(":memory:", SCHEME).open()
    with pytest.raises(NearDupError, match=r"asyncio.*trio\.to_thread"):
        call.send(None)


# ---- the end of the program --------------------------------------------------------------------------------------------

HEAD = """
import asyncio, itertools, logging, os, signal, sys, time, warnings
from neardup_db import ClosedError, MinHash
from neardup_db.aio import AsyncIndex
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has its programs ignore
begun = asyncio.Event()
async def opened(**options):
    global loop
    loop = asyncio.get_running_loop()
    index = await AsyncIndex(path, MinHash(), **options).open()
    await index.add("acknowledged", TEXT)
    return index
def tell_and_sleep(seconds):
    loop.call_soon_threadsafe(begun.set)
    time.sleep(seconds)
"""

ENDS = {
    "a call runs": """
async def main():
    index = await opened()
    task = asyncio.create_task(index.run(lambda below: (tell_and_sleep(0.2), below.add("begun", TEXT))))
    await begun.wait()
asyncio.run(main())
""",
    "a generator without end": """
async def main():
    index = await opened(on_late_result=lambda late: print("taken back", late.method, flush=True))
    def endless():
        tell_and_sleep(0)
        for number in itertools.count():
            yield number, TEXT
    task = asyncio.create_task(index.add_many(endless()))
    await begun.wait()
asyncio.run(main())
""",
    "calls wait": """
async def main():
    index = await opened()
    tasks = [asyncio.create_task(index.add(number, TEXT)) for number in range(500)]
    tasks += [asyncio.create_task(index.query(TEXT)) for number in range(500)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
asyncio.run(main())
""",
    "a loop that stops in a transaction": """
async def main():
    index = await opened()
    async with index.transaction():
        await index.add("never", TEXT)
        await asyncio.sleep(0.05)
        loop.stop()
        await asyncio.sleep(1000)
loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.run_forever()
loop.close()
""",
    "a loop that stops in a load": """
async def endless():
    for number in itertools.count():
        yield number, TEXT
        if number == 1000:
            loop.stop()
            await asyncio.sleep(1000)
async def main():
    index = await opened()
    await index.add_many(endless(), progress=print)
loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.run_forever()
""",
    "Ctrl-C": """
async def main():
    async with await opened() as index:
        async with index.transaction():
            await index.add("never", TEXT)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(1000)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
""",
    "a hook that raises SystemExit": """
async def main():
    async with await opened(on_late_result=sys.exit) as index:
        task = asyncio.create_task(index.run(lambda below: tell_and_sleep(0.1)))
        await begun.wait()
        task.cancel()
        await index.add("after", TEXT)
try:
    asyncio.run(main())
except SystemExit:
    pass
""",
    "a hook that raises SystemExit after its loop": """
async def main():
    index = await opened(on_late_result=sys.exit)
    task = asyncio.create_task(index.run(lambda below: tell_and_sleep(0.5)))
    await begun.wait()
logging.getLogger("neardup_db.aio").addHandler(logging.NullHandler())
logging.getLogger("neardup_db.aio").propagate = False
asyncio.run(main())
""",
    "a forked child": """
async def begin():
    global index
    index = await opened()
    await index.query(TEXT)
async def records():
    yield "b", TEXT
async def block():
    async with index.transaction():
        raise AssertionError
async def listing():
    async for _ in index.pairs():
        raise AssertionError
async def in_child():
    calls = [index.open, index.length, index.stats, index.expire, block, listing]
    calls += [lambda: index.add("b", TEXT), lambda: index.add_many(records()), lambda: index.run(len), lambda: index.query(TEXT)]
    for call in calls:
        try:
            await call()
        except ClosedError as error:
            assert "opened in the parent process: create another in the child" in str(error)
        else:
            raise AssertionError(call)
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
""",
    "an index that was made before a fork": """
index = AsyncIndex(path, MinHash())
async def write(key):
    async with index:
        async with index.transaction():
            await index.add(key, TEXT)
        await index.query(TEXT)
asyncio.run(write("acknowledged"))
child = os.fork()
asyncio.run(write("child" if child == 0 else "parent"))
if child == 0:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
async def look():
    async with AsyncIndex(path) as other:
        assert [key async for key in other if key != "acknowledged"] in (["child", "parent"], ["parent", "child"])
asyncio.run(look())
""",
    "a child that is forked in a transaction": """
async def main():
    async with await opened() as index:
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
""",
}


LOADS_WITHOUT_END = {"a generator without end"}


@pytest.mark.posix("signals")
@pytest.mark.parametrize("end", ENDS)
def test_the_program_ends(end: str, path: Path) -> None:
    """However a loop and the program end, with calls running, waiting or never to come: neither hangs, and what was acknowledged
    is in the file, whole, and nothing of a transaction that did not end."""
    program = f"path, TEXT = {str(path)!r}, {TEXTS['a']!r}\n{HEAD}{ENDS[end]}\nprint('over', flush=True)"
    done = subprocess.run([*interpreter(), "-c", program], capture_output=True, text=True, timeout=PATIENCE)
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
        run(nobody_works)  # a thread may be the last that has it
