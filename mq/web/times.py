"""Times as RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(time_ns: int) -> str:
    """`2026-01-31T12:00:00.123456Z`; cut off, never rounded up, to microseconds."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"
