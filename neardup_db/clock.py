"""The time that documents are stored and expire at."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def utc(seconds: float) -> datetime:
    """The moment so many seconds after 1970, also before it and beyond the year 3000, which Python's own functions refuse on
    Windows. OverflowError outside of the years 1 to 9999."""
    return _EPOCH + timedelta(seconds=seconds)
