"""The clock for stored and expiry times."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def utc(seconds: float) -> datetime:
    """The UTC time of seconds since 1970; OverflowError outside the years 1 to 9999, where Windows' own functions end earlier."""
    return _EPOCH + timedelta(seconds=seconds)
