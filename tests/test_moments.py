"""Moments that are given lie between 2000 and 2200, and `ttl=` gives a lifetime beside `expires_at=`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from cases import one_test
from click.testing import CliRunner

from neardup_db import Index, MinHash, clock
from neardup_db.cli.app import main

TEXT = "the quick brown fox jumps over the lazy dog"
NOW = 1_800_000_000.0
"""Unix seconds at which the tests run."""


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: round(NOW * 1000))
    monkeypatch.setattr("neardup_db.parameters.now_ms", lambda: round(NOW * 1000))


@pytest.fixture
def texts() -> Any:
    with Index(":memory:", MinHash()) as index:
        yield index


Give = Callable[[Index, Index, Any], Any]
MOMENT = datetime(2030, 3, 17, 17, 46, 40, tzinfo=timezone.utc)


@one_test(moment=[MOMENT, *(of(1_900_000_000) for of in (int, float, np.int32, np.int64, np.float64, np.uint64))])
def test_moments(texts: Index, moment: Any) -> None:
    """Integers and floats, numpy's too, and aware datetimes are moments."""
    texts.add("a", TEXT, expires_at=moment)
    assert texts.get("a").expires_at == 1_900_000_000
    texts.delete("a")


def test_the_first_and_the_last_moment(texts: Index) -> None:
    """2000-01-01 and 2200-01-01 are moments."""
    texts.add("a", TEXT, expires_at=7_258_118_400)
    assert texts.get("a").expires_at == 7_258_118_400 and texts.expire(946_684_800) == 0


TTLS: dict[str, Give] = {
    "add": lambda texts, codes, ttl: texts.add("a", TEXT, ttl=ttl),
    "add_if_new": lambda texts, codes, ttl: texts.add_if_new("a", TEXT, ttl=ttl),
    "add_many": lambda texts, codes, ttl: texts.add_many([{"key": "a", "text": TEXT, "ttl": ttl}]),
    "add_code": lambda texts, codes, ttl: codes.add_code("a", 1, ttl=ttl),
    "add_code_if_new": lambda texts, codes, ttl: codes.add_code_if_new("a", 1, ttl=ttl),
    "add_codes": lambda texts, codes, ttl: codes.add_codes(["a"], [1], ttl=ttl),
    "add_codes, each": lambda texts, codes, ttl: codes.add_codes(["b", "a"], [9, 1], ttl=[None, ttl]),
    "update": lambda texts, codes, ttl: (texts.add("a", TEXT), texts.update("a", ttl=ttl)),
    "touch": lambda texts, codes, ttl: (texts.add("a", TEXT), texts.add_if_new("b", TEXT, on_match="touch", ttl=ttl)),
}


@one_test(place=TTLS, ttl=[3600, 3600.0, np.int64(3600), timedelta(hours=1)])
def test_ttl(texts: Index, codes: Index, place: str, ttl: Any) -> None:
    """A document with a ttl expires so many seconds, or after that timedelta, from now."""
    TTLS[place](texts, codes, ttl)
    index = texts if "a" in texts else codes
    assert index.get("a").expires_at == NOW + 3600
    index.delete_many(list(index))


@pytest.mark.parametrize(
    ("given", "why"),
    [("0h", "--expires-in 0.0: give a time of at least 0.001s"), ("999999d", "ends after the year 2200: give a shorter time")],
)
def test_a_lifetime_on_the_command_line(tmp_path: Any, given: str, why: str) -> None:
    """`neardup add --expires-in` refuses what no document can have, and makes no file."""
    path = tmp_path / "a.db"
    result = CliRunner().invoke(main, ["add", str(path), "-", "--format", "lines", "--expires-in", given], input=TEXT)
    assert result.exit_code == 2 and why in result.stderr and not path.exists()
    assert not any(word in result.stderr for word in ("ttl=", "Traceback", "timedelta"))
