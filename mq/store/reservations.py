"""Which messages the servers of one root are about to take, so that they do not all reach for the
same ones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from zlib import crc32

from mq.disk.byte_locks import unlock_bytes
from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.spool.root_format import FORMAT_FILE

_FIRST_BYTE = (1 << 62) + 1
"""The bytes of the file `format` from here on stand for messages. The one before is the lock of all
FIFO queues (`mq_sqs.fifo.ownership`), and those far before it stand for names
(`mq.disk.byte_locks.offset_of`)."""

_MOST = 128
"""For each lock the kernel looks through all that the file has: a thousand take 15 µs each."""

_NOT_OPEN = -1


class Reservations:
    """The messages that this server has reserved: a lock of one byte of the file `format` for each.

    A lost race for a byte costs a tenth of one for a file. A reservation is no more than a hint:
    what decides is the message's own lock and its move. So two messages may share a byte, which
    happens once in 4 * 10**9 pairs. Where such locks fail, or are too many, every message is free.
    """

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._path = f"{root}/{FORMAT_FILE}"
        self._fd = _NOT_OPEN
        self._count = 0

    def reserve(self, queue: QueueName, ids: Iterable[MessageId], limit: int) -> list[MessageId]:
        """Reserve the first messages that no other server has reserved, up to `limit`. Returns
        those. Behind the last lock that there may be, every message counts as free."""
        ids, first = iter(ids), crc32(f"{queue}/".encode())
        free = (each for each in ids if self._lock(_FIRST_BYTE + crc32(each.encode(), first)))
        reserved = [*islice(free, min(limit, _MOST - self._count))]
        self._count += len(reserved)
        return [*reserved, *islice(ids, limit - len(reserved))]

    def _lock(self, byte: int) -> bool:
        try:
            if self._fd == _NOT_OPEN:
                self._fd = self._files.open_to_lock(self._path)
            return self._files.lock_byte(self._fd, byte)
        except OSError:
            return True

    def release(self) -> None:
        """Release all: their messages are taken, or are free again."""
        has_none, self._count = not self._count, 0
        if has_none or self._fd == _NOT_OPEN:
            return
        try:
            unlock_bytes(self._fd)
        except OSError:
            self.close()  # That releases them too.

    def close(self) -> None:
        if self._fd != _NOT_OPEN:
            self._files.close(self._fd)
            self._fd = _NOT_OPEN
