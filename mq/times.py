"""Times as RFC 3339 in UTC and in microseconds; durations in ns, and as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from mq.config import SECOND_NS

_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799
"""The first and the last second that four digits of a year can say; the times of files go
beyond."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def in_ns(seconds: float | None) -> int | None:
    """Return a duration in whole ns, and None for None."""
    return None if seconds is None else int(seconds * SECOND_NS)


def seconds_in(text: str) -> float | None:
    """Return the seconds in a text of digits, with up to nine decimals if need be. A sign, an
    exponent, `nan` and all else give None."""
    return float(text) if _SECONDS.fullmatch(text) else None


def seconds_text(seconds: float) -> str:
    """Write seconds as `seconds_in` reads them, rounded to nine decimals."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".")


def in_us(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def rfc3339(time_ns: int) -> str:
    """Return a time as `2026-01-31T12:00:00.123456Z`, cut off to microseconds, never rounded up. A
    time outside of the years 1 to 9999 becomes the first or the last second of them."""
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{_to_the_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    within = min(max(seconds, _YEAR_1), _YEAR_9999)
    return datetime.fromtimestamp(within, UTC).isoformat()[:19]
