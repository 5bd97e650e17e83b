"""Times as RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(time_ns: int) -> str:
    """`2026-01-31T12:00:00.123456Z`; cut off, never rounded up, to microseconds."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_to_the_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
