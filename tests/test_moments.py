"""Moments that are given lie between 2000 and 2200, and `ttl=` gives a lifetime beside `expires_at=`."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from neardup_db import BinaryCode, Index, MinHash, ParameterError, clock
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


@pytest.fixture
def codes() -> Any:
    with Index(":memory:", BinaryCode(bits=64, max_distance=3)) as index:
        yield index


Give = Callable[[Index, Index, Any], Any]

EXPIRIES: dict[str, Give] = {
    "add": lambda texts, codes, moment: texts.add("a", TEXT, expires_at=moment),
    "add_if_new": lambda texts, codes, moment: texts.add_if_new("a", TEXT, expires_at=moment),
    "add_many": lambda texts, codes, moment: texts.add_many([{"key": "a", "text": TEXT, "expires_at": moment}]),
    "add_code": lambda texts, codes, moment: codes.add_code("a", 1, expires_at=moment),
    "add_code_if_new": lambda texts, codes, moment: codes.add_code_if_new("a", 1, expires_at=moment),
    "add_codes": lambda texts, codes, moment: codes.add_codes(["a", "b"], [1, 2], expires_at=[None, moment]),
    "update": lambda texts, codes, moment: texts.update("there", expires_at=moment),
}
MOMENTS: dict[str, Give] = {
    **EXPIRIES,
    "expire": lambda texts, codes, moment: texts.expire(moment),
    "count": lambda texts, codes, moment: texts.count(TEXT, since=moment),
    "count_code": lambda texts, codes, moment: codes.count_code(1, since=moment),
}


@pytest.mark.parametrize("place", MOMENTS)
@pytest.mark.parametrize(
    ("moment", "why"),
    [
        (3600, "3600 is not between the years 2000 and 2200"),
        (0, "0 is not between"),
        (-1.5, "-1.5 is not between"),
        (946_684_799, "946684799 is not between"),
        (7_258_118_401, "7258118401 is not between"),
        (1.8e12, "1800000000000.0 looks like milliseconds, not Unix seconds: divide it by 1,000"),
        (1_800_000_000_000_000, "looks like microseconds, .*: divide it by 1,000,000"),
        (np.int64(1_800_000_000_000_000_000), "looks like nanoseconds, .*: divide it by 1,000,000,000"),
        (math.nan, "nan is not between"),
        (math.inf, "inf is not between"),
        (np.float64("nan"), "=nan is not between"),
        (10**100, "is not between"),
        (datetime(1999, 12, 31, tzinfo=timezone.utc), "is not between"),
        (datetime(2200, 1, 2, tzinfo=timezone.utc), "is not between"),
        (datetime(2030, 1, 1), "has no time zone"),
        (True, "is of type bool"),
        ("2030-01-01", "is of type str"),
    ],
)
def test_moments_that_are_none(texts: Index, codes: Index, place: str, moment: Any, why: str) -> None:
    """What lies before 2000 or after 2200, or is no moment, is refused wherever a moment is given, and nothing is stored."""
    texts.add("there", TEXT + " there is already")
    with pytest.raises(ParameterError, match=why):
        MOMENTS[place](texts, codes, moment)
    assert list(texts) == ["there"] and list(codes) == [] and texts.get("there").expires_at is None


@pytest.mark.parametrize("place", EXPIRIES)
def test_a_lifetime_taken_for_a_moment_is_told_of_ttl(texts: Index, codes: Index, place: str) -> None:
    """The error names what a lifetime is given as."""
    texts.add("there", "six words that nobody else has")
    with pytest.raises(ParameterError, match="expires_at=3600 .*: give a timedelta from now on, or ttl="):
        EXPIRIES[place](texts, codes, 3600)


@pytest.mark.parametrize(
    "moment",
    [1_900_000_000, 1.9e9, np.int32(1_900_000_000), np.int64(1_900_000_000), np.float64(1.9e9), np.uint64(1_900_000_000),
     datetime(2030, 3, 17, 17, 46, 40, tzinfo=timezone.utc)],
)  # fmt: skip
def test_moments(texts: Index, moment: Any) -> None:
    """Integers and floats, numpy's too, and aware datetimes are moments."""
    texts.add("a", TEXT, expires_at=moment)
    assert texts.get("a").expires_at == 1_900_000_000


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


@pytest.mark.parametrize("place", TTLS)
@pytest.mark.parametrize("ttl", [3600, 3600.0, np.int64(3600), timedelta(hours=1)])
def test_ttl(texts: Index, codes: Index, place: str, ttl: Any) -> None:
    """A document with a ttl expires so many seconds, or after that timedelta, from now."""
    TTLS[place](texts, codes, ttl)
    index = texts if "a" in texts else codes
    assert index.get("a").expires_at == NOW + 3600


@pytest.mark.parametrize("place", TTLS)
@pytest.mark.parametrize(
    ("ttl", "why"),
    [
        (0, "ttl=0: give a timedelta, or a number of seconds, of at least a millisecond"),
        (-5, "ttl=-5: give"),
        (0.0001, "ttl=0.0001: give"),
        (timedelta(0), "of at least a millisecond"),
        (timedelta(days=-1), "of at least a millisecond"),
        (math.nan, "ttl=nan: give"),
        (math.inf, "ttl=inf ends after the year 2200"),
        (6e9, "ttl=6000000000.0 ends after the year 2200"),
        (10**100, "ends after the year 2200"),
        (-(10**100), "of at least a millisecond"),
        (timedelta(days=999_999_999), "ends after the year 2200"),
        (True, "ttl=True is of type bool"),
        ("1h", "ttl='1h' is of type str: give a timedelta, or a number of seconds"),
    ],
)
def test_what_is_no_ttl(texts: Index, codes: Index, place: str, ttl: Any, why: str) -> None:
    """A ttl that is none, not above 0, or that ends after 2200 is refused."""
    with pytest.raises(ParameterError, match=why):
        TTLS[place](texts, codes, ttl)
    assert "b" not in texts and "b" not in codes and "a" not in codes
    assert "a" not in texts or texts.get("a").expires_at is None


def test_ttl_beside_expires_at(texts: Index, codes: Index) -> None:
    """Two ends are an error, in every way to give them."""
    both: Any = {"expires_at": 1_900_000_000, "ttl": 5}
    texts.add("there", "six words that nobody else has")
    for give in (
        lambda: texts.add("a", TEXT, **both),
        lambda: texts.add_if_new("a", TEXT, **both),
        lambda: texts.add_many([{"key": "a", "text": TEXT, **both}]),
        lambda: codes.add_code("a", 1, **both),
        lambda: codes.add_code_if_new("a", 1, **both),
        lambda: codes.add_codes(["a"], [1], **both),
    ):
        with pytest.raises(ParameterError, match="expires_at=1900000000 and ttl=5: give one of the two"):
            give()
    for changes in (both, {"expires_at": None, "ttl": 5}, {"ttl": None}):
        with pytest.raises(ParameterError, match="expires_at=None clears the expiry"):
            texts.update("there", **changes)
    assert list(texts) == ["there"] and texts.get("there").expires_at is None


def test_expires_at_as_a_timedelta_ends_by_2200(texts: Index) -> None:
    """A timedelta leads to no moment after 2200 either; one back from now may lead anywhere."""
    with pytest.raises(ParameterError, match="ends after the year 2200"):
        texts.add("a", TEXT, expires_at=timedelta(days=365 * 200))
    assert texts.count(TEXT, since=timedelta(days=365 * 200)).count == 0


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
