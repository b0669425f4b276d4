"""The switch for long runs, and indexes that several test files use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crash_writer import Writers
from support import SETS, WORDS

from neardup_db import BinaryCode, Index


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --long`: the same tests with many more rounds, for hours where CI has seconds."""
    parser.addoption("--long", action="store_true", help="many more rounds of the tests of crashes, faults, threads and damage")


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether `--long` was given."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def writers() -> Iterator[Writers]:
    """Processes that write until they are killed."""
    made = Writers()
    yield made
    made.close()


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
