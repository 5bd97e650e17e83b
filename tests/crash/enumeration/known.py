"""What clients know of one message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.enumeration.promises import Is


class GivenLease(NamedTuple):
    """What a receiver was told, and not before when."""

    number: int
    begun_ns: int
    visible_ns: int


@dataclass
class LedgerMessage:
    """What is known of one message. Its lease is over at `hidden_until_ns`."""

    body: bytes
    queue: str
    message_id: str | None = None
    exists: Is = Is.MAYBE
    hidden: Is = Is.NOT
    hidden_until_ns: int = 0
    lease: int = 0
    count: int = 0
    removals: int = 0
    takings: int = 0
    asked_until_ns: int = 0
    moving: Counter[str] = field(default_factory=Counter)
    """The queues to which a client moves it, or may have moved it."""
    is_published: bool = False
    is_doubtful: bool = False
    """Its queue was deleted or purged while it was being published."""
