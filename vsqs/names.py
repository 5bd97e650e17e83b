"""File names: `T` is a ready message, `T.new` one that is being written, `T.EXPIRY` a consumed one.

T is the creation time and the message's id, EXPIRY the end of its visibility timeout; both are
whole numbers since 1970 in the queue's unit. Any other name is foreign and ignored.
"""

from __future__ import annotations

import re
from typing import NamedTuple

READY = ""
NEW = "new"

UNITS_PER_SECOND = {"ms": 1_000, "us": 1_000_000}
"""Milliseconds are what the protocol says, microseconds what the released vsqs 0.3 uses."""

LAST_TIME = 10**63
"""A new message, and an expiry, is never much later than this, so that it has at most 64 digits."""

_NUMBER = r"0|[1-9][0-9]{0,63}"
_ID = re.compile(_NUMBER)
_NAME = re.compile(rf"({_NUMBER})(?:\.({NEW}|{_NUMBER}))?")


class Name(NamedTuple):
    """A message's name: its time and its state, which is READY, NEW or the digits of its expiry."""

    time: int
    state: str

    def __str__(self) -> str:
        return f"{self.time}.{self.state}" if self.state else str(self.time)

    @property
    def is_new(self) -> bool:
        return self.state == NEW


def parse_name(text: str) -> Name | None:
    """Parse a file name. Returns None for a foreign file."""
    match = _NAME.fullmatch(text)
    return None if match is None else Name(int(match[1]), match[2] or READY)


def parse_id(text: str) -> int | None:
    """Parse a message's id. Returns None for a text that cannot be one."""
    return int(text) if _ID.fullmatch(text) else None


def other_unit(unit: str, newest: int) -> str | None:
    """Return the other unit if `newest` is a time of our days in that and not in `unit`, or else
    None."""
    milliseconds = range(10**12, 10**14)
    if unit == "ms" and newest // 1_000 in milliseconds:
        return "us"
    if unit == "us" and newest in milliseconds:
        return "ms"
    return None
