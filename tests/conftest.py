"""The switch for long runs, tiny limits, and indexes that several test files use."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from by_hand import open_database
from crash_writer import Writers, started
from followed import Followed
from hypothesis import settings
from merging import TEXTS as MERGED
from support import SETS, WORDS

from neardup_db import BinaryCode, Index, limits
from neardup_db.native import ffi, lib

SMALL_LIMITS = {
    "BATCH_RECORDS": 3, "BATCH_SIZE": 60, "WORTH_THREADS": 2, "WORTH_THREADS_SIZE": 40, "WAITING_MAX": 2, "WAITING_BYTES": 400,
    "SEEN_FROM": 2, "SEEN_SLOTS": 4, "ASIDE_MAX": 6, "VALUE_HASHES": 2, "UNCONNECTED_MAX": 3, "FILING_BYTES": 100,
    "LEFT_PER_ADDED": 1, "EMPTY_TEXTS": 2, "LIGHT_MAX": 8, "VALUES_DECIDED": 3, "DEDUPLICATED_STEP": 2,
    "SLICE_TEXTS": 2, "SLICE_BYTES": 30, "KEPT_BYTES": 64,
    "SYNC_ROWS": 2, "SYNC_BYTES": 40, "SYNC_SINGLY": 1,
    "EXTRA_EDGES": 1, "CROWD": 2, "CROWD_MOVES": 3, "FROM_CROWD": 1, "SIZE_KNOWN": 2, "CHANGES_KEPT": 12,
    "LISTED_PAGE": 2, "PAIRS_WANTED": 2, "SET_BLOCK": 2, "SET_HASHES": 20, "MEMBERS_MOST": 3, "TURNED_ROWS": 2,
    "COPIES_AT_ONCE": 2,
    "ASKED_BYTES": 500, "JOINED_FROM": 2, "ASKED_MOST": 5, "ASKED_PART": 1, "RANGE_FIRST": 1, "RANGE_MOST": 3, "READERS_MAX": 2,
    "SETTLED_EVERY": 1, "CODES_A_GROUP": 2, "TASK_RECORDS": 2,
    "IMPORTED_BYTES": 500,
    "SPARK_BATCH_ROWS": 2, "SPARK_TEXT_BYTES": 40, "SPARK_GROUP": 3, "SPARK_BLOCK": 2, "SPARK_GROUP_BYTES": 50, "SPARK_EDGES": 3,
    "REBUILT_PAGE": 2, "CHECKED_VALUES": 2, "CHECKED_TEXTS": 2,
    "TUNED_BATCH": 3, "TUNED_BYTES": 4000, "TUNED_WORK": 200_000,
    "CACHE_KIB": 40, "CACHE_KIB_MOST": 60, "CACHE_KIB_MANY": 80, "SPILL_KIB": 20,
    "LOG_PAGES": 20,
    "PIECE_RECORDS": 3, "PIECE_BYTES": 100, "COMMIT_BYTES": 300, "WATCHED_TOGETHER": 3, "DEDUP_COMMIT_EVERY": 7, "LINE_BYTES": 8,
    "MATCHES_TOGETHER": 2,
    "SKETCHED_RECORDS": 2, "SKETCHED_BYTES": 200, "PIECES_WAITING": 1, "SORTED_KEYS": 5, "SORTED_RANGES": 4,
    "PLACES_AT_ONCE": 4, "COPIED_BYTES": 5, "GROUP_BYTES": 200,
}  # fmt: skip
"""Values of `neardup_db.limits` with which a handful of documents comes to every place where work is cut."""


MEMORY_DISK = "/dev/shm"
if os.access(MEMORY_DISK, os.W_OK) and shutil.disk_usage(MEMORY_DISK).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY_DISK)  # where pytest makes its folders: every commit waits for a disk


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --more` plays several times as many rounds, as `.ci/run` does; `pytest --long` plays on for hours, and other
    histories each time."""
    parser.addoption("--more", action="store_true", help="more rounds of the tests of histories, faults and damage, for minutes")
    parser.addoption("--long", action="store_true", help="many more rounds of the tests of crashes, faults, threads and damage")


if not hasattr(os, "fork"):
    collect_ignore = ["test_faults.py", "test_hostile_input.py", "test_large_texts.py"]  # they measure memory by `resource`


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis plays the same examples in each run, so that a change fails by what it changed. `--long` looks for new ones."""
    settings.register_profile("repeated", derandomize=True, max_examples=50, deadline=None)
    settings.load_profile("default" if config.getoption("--long") else "repeated")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests and the libraries that they import stay to the end: the collector of garbage passes them by, as tests
    call it hundreds of times."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """So does what the tests of a file leave: the collector would go through a gigabyte of it at each call."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """What Python frees as it ends, it frees."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of what only POSIX systems have are left out elsewhere, and counted as such. Those with rounds are marked."""
    for item in items:
        if "more_rounds" in getattr(item, "fixturenames", ()):
            item.add_marker("rounds")
    posix = [] if hasattr(os, "fork") else [item for item in items if item.get_closest_marker("posix")]
    config.hook.pytest_deselected(items=posix)
    items[:] = [item for item in items if item not in posix]


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether `--long` was given."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def more_rounds(request: pytest.FixtureRequest, long_run: bool) -> bool:
    """Whether `--more`, or `--long`, was given."""
    return long_run or bool(request.config.getoption("--more"))


TIERS = [ffi.string(lib.nd_isa_at(i)).decode() for i in range(lib.nd_isa_count())]
"""Of kernels, that this CPU can run."""


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each tier of kernels that this CPU can run, one after another."""
    name: str = request.param
    assert lib.nd_isa_force(name.encode()) == lib.ND_OK
    yield name
    assert lib.nd_isa_force(ffi.NULL) == lib.ND_OK


@pytest.fixture
def tiers() -> Iterator[Callable[[], Iterator[str]]]:
    """What goes through all tiers, for tests whose oracle takes long: each is the active one until the next."""

    def each() -> Iterator[str]:
        for name in TIERS:
            assert lib.nd_isa_force(name.encode()) == lib.ND_OK
            yield name

    yield each
    assert lib.nd_isa_force(ffi.NULL) == lib.ND_OK


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers that decide how work is cut are tiny."""
    assert set(SMALL_LIMITS) == {name for name in vars(limits) if name.isupper()}, "a limit has no tiny value here"
    for name, value in SMALL_LIMITS.items():
        monkeypatch.setattr(limits, name, value)


@pytest.fixture
def writers() -> Iterator[Writers]:
    """Processes that write until they are killed."""
    with started(1) as (made,):
        yield made


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    """A database in memory with the extension."""
    connection = open_database()
    yield connection
    connection.close()


@pytest.fixture
def codes() -> Iterator[Index]:
    """64-bit codes, at most 3 bits apart: distances can be read off the numbers."""
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        yield index


@pytest.fixture
def texts() -> Iterator[Index]:
    """Sets of words, at least half alike, with the texts."""
    with Index(":memory:", SETS, text=WORDS, store_text=True) as index:
        yield index


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[Index, Index]]:
    """Two files of sets of words with their texts: three documents in one, others in the other."""
    options: dict[str, Any] = {"text": WORDS, "store_text": True}
    with Index(tmp_path / "a.db", SETS, **options) as a, Index(tmp_path / "b.db", SETS, **options) as b:
        a.add_many(enumerate(MERGED[:3]))
        b.add_many({"key": f"b{number}", "text": text, "metadata": {"of": number}} for number, text in enumerate(MERGED))
        yield a, b


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be; test files with an index of their own put it there."""
    return tmp_path / "index.db"


@pytest.fixture(params=["file", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where an index may be."""
    return tmp_path / "index.db" if request.param == "file" else ":memory:"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Followed]:
    """A file of an application, with nothing in it."""
    followed = Followed(tmp_path / "app.db")
    yield followed
    followed.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The records of commands.py as JSON lines."""
    from commands import RECORDS, lines

    return lines(tmp_path / "in.jsonl", RECORDS)


@pytest.fixture
def index(tmp_path: Path, source: Path) -> Path:
    """An exact index of them, with texts and metadata."""
    from commands import good

    path = tmp_path / "index.db"
    good("add", path, source, "--exact", "--store-text", "--metadata")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of pages.py, with the index that its pages show."""
    from pages import make

    return make(tmp_path / "articles.db")
