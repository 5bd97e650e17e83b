"""What was sent to a FIFO queue within the last five minutes. Knows no files and no clock."""

from __future__ import annotations

import hashlib
import heapq
from enum import Enum
from typing import NamedTuple

from mq.names import MessageId

_DIGEST_BYTES = 16
_FORGOTTEN_AT_ONCE = 10
"""The most that a send forgets of what is over: after a million sends at once, one of them would
forget them all."""


class DeduplicationScope(Enum):
    """Where a deduplication id counts: in the whole queue, or in each group by itself."""

    QUEUE = "queue"
    GROUP = "messageGroup"

    def digest(self, group: str, deduplication_id: str) -> bytes:
        """Return what stands for the id. Neither a group nor an id has a NUL."""
        where = group if self is DeduplicationScope.GROUP else ""
        text = f"{where}\0{deduplication_id}".encode()
        return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


class _Sent(NamedTuple):
    """A message that was sent; it is remembered until then."""

    until: float
    digest: bytes
    message_id: MessageId


class Deduplication:
    """The messages that were sent, by the digest of their deduplication id. Times are those of any
    clock that does not go back, in seconds."""

    def __init__(self) -> None:
        self._sent: dict[bytes, _Sent] = {}
        self._ends: list[_Sent] = []

    def find(self, digest: bytes, now: float) -> MessageId | None:
        """Return the message that a new one would repeat, or None."""
        self.forget_old(now, _FORGOTTEN_AT_ONCE)
        sent = self._sent.get(digest)
        return None if sent is None or sent.until <= now else sent.message_id

    def accept(self, digest: bytes, message_id: MessageId, until: float, now: float) -> None:
        """Remember until then that a message was sent, unless one with its digest is known
        already."""
        if self.find(digest, now) is None:
            sent = self._sent[digest] = _Sent(until, digest, message_id)
            heapq.heappush(self._ends, sent)

    def forget_old(self, now: float, limit: int) -> None:
        """Forget up to `limit` messages whose time is over."""
        for _ in range(limit):
            if not self._ends or self._ends[0].until > now:
                return
            sent = heapq.heappop(self._ends)
            if self._sent.get(sent.digest) is sent:
                del self._sent[sent.digest]
