"""What was sent to a FIFO queue within the last five minutes. Knows no files and no clock."""

from __future__ import annotations

import hashlib
import heapq
from enum import Enum

from mq.names import MessageId

_DIGEST_BYTES = 16


class DeduplicationScope(Enum):
    """Where a deduplication id counts: in the whole queue, or in each group by itself."""

    QUEUE = "queue"
    GROUP = "messageGroup"

    def digest(self, group: str, deduplication_id: str) -> bytes:
        """Return what stands for the id. Neither a group nor an id has a NUL."""
        where = group if self is DeduplicationScope.GROUP else ""
        text = f"{where}\0{deduplication_id}".encode()
        return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


class Deduplication:
    """The messages that were sent, by the digest of their deduplication id. Times are those of any
    clock that does not go back, in seconds."""

    def __init__(self) -> None:
        self._sent: dict[bytes, MessageId] = {}
        self._ends: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._sent)

    def find(self, digest: bytes, now: float) -> MessageId | None:
        """Return the message that a new one would repeat, or None."""
        while self._ends and self._ends[0][0] <= now:
            self._sent.pop(heapq.heappop(self._ends)[1], None)
        return self._sent.get(digest)

    def accept(self, digest: bytes, message_id: MessageId, until: float) -> None:
        """Remember until then that a message was sent, unless one with its digest is known
        already."""
        if digest not in self._sent:
            self._sent[digest] = message_id
            heapq.heappush(self._ends, (until, digest))
