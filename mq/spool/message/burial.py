"""Burial: what a dead letter says of where it came from, and why.

It is an extended attribute of its own, `user.mq.dead`, and goes with the file wherever that goes.
It is written under the message's lock before the rename that buries the message. A crash in between
leaves it on a message that is still where it was: there it says nothing, because no message is dead
in the queue that it came from.

A message of a FIFO queue that is moved without a reason is not a dead letter. It keeps the name of
the queue that it was sent to, alone: there its deduplication id still counts. If it then dies in
another FIFO queue, that name stays before the burial.
"""

from __future__ import annotations

from typing import NamedTuple

from mq.disk.files import Files
from mq.names import QueueName, is_dead_reason, is_fifo, is_queue_name
from mq.spool.disk_errors import NO_ROOM

DEAD_ATTRIBUTE = "user.mq.dead"

MAX_RECEIVES_REASON = "max-receives"
"""The reason of a message that was received too often."""

_NOTHING = b""
"""The attribute's value after the burial was taken back."""


class Burial(NamedTuple):
    """The attribute `user.mq.dead`: the queue that the message came from, a space, the reason. If
    that was not the FIFO queue that it was sent to, the name of that one and a colon are before
    it."""

    queue: QueueName
    reason: str
    sent_to: QueueName | None = None

    def pack(self) -> bytes:
        head = "" if self.sent_to is None else f"{self.sent_to}:"
        return f"{head}{self.queue} {self.reason}".encode("ascii")

    @classmethod
    def unpack(cls, data: bytes | None) -> Burial | None:
        """Return None for an absent attribute, and for one that a person wrote and no header can
        carry."""
        if not data:
            return None
        queues, _, reason = data.decode("latin-1").partition(" ")
        head, colon, queue = queues.rpartition(":")
        sent_to = _fifo_queue(head)
        if not is_queue_name(queue) or not is_dead_reason(reason) or (colon and sent_to is None):
            return None
        return cls(QueueName(queue), reason, sent_to)


def burial_of(files: Files, fd: int, queue: str) -> Burial | None:
    """Return why a message of `queue` is a dead letter, and where it came from, or None if it is
    not one."""
    return burial_in(files.attribute(fd, DEAD_ATTRIBUTE), queue)


def burial_in(value: bytes | None, queue: str) -> Burial | None:
    """Return what `burial_of` returns, from the value of the attribute."""
    burial = Burial.unpack(value)
    return None if burial is None or burial.queue == queue else burial


def origin_in(value: bytes | None, queue: str) -> QueueName | None:
    """Return the queue that a message of `queue` was sent to, from the value of the attribute; for
    standard queues the one that it died in. None if it says no other than `queue`."""
    origin = _origin(value)
    return None if origin == queue else origin


def origin_of(files: Files, file: int | str, queue: str) -> QueueName | None:
    """Return what `origin_in` returns, from the message's file: its descriptor or path."""
    return origin_in(files.attribute(file, DEAD_ATTRIBUTE), queue)


def _origin(value: bytes | None) -> QueueName | None:
    burial = Burial.unpack(value)
    if burial is not None:
        return burial.sent_to or burial.queue
    return _fifo_queue((value or _NOTHING).decode("latin-1"))


def _fifo_queue(name: str) -> QueueName | None:
    return QueueName(name) if is_queue_name(name) and is_fifo(name) else None


def _buried(before: bytes, queue: QueueName, reason: str) -> bytes:
    """Return what a message says that dies in `queue`."""
    origin = _origin(before)
    is_from_elsewhere = origin is not None and origin != queue and is_fifo(origin)
    return Burial(queue, reason, origin if is_from_elsewhere else None).pack()


def bury(files: Files, fd: int, queue: QueueName) -> None:
    """Note that a message of `queue` was received too often. The message is moved whether or not
    the disk has room for the note."""
    try:
        before = files.attribute(fd, DEAD_ATTRIBUTE) or _NOTHING
        after = _buried(before, queue, MAX_RECEIVES_REASON)
        if before != after:
            files.set_attribute(fd, DEAD_ATTRIBUTE, after)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise


def change_burial(
    files: Files, fd: int, source: QueueName, reason: str | None
) -> tuple[bytes, bytes] | None:
    """Change what a message that leaves `source` says of its burial. With a reason it becomes a
    dead letter of that queue; without one it says again what it said before it died there, and if
    that is nothing and `source` is a FIFO queue, that it was sent there.

    Returns the attribute's value before and after, or None if nothing is changed. For a move
    without a reason the disk need not have room.
    """
    before = files.attribute(fd, DEAD_ATTRIBUTE) or _NOTHING
    after = _moved_on(before, source) if reason is None else _buried(before, source, reason)
    if before == after:
        return None
    try:
        files.set_attribute(fd, DEAD_ATTRIBUTE, after)
    except OSError as error:
        if reason is not None or error.errno not in NO_ROOM:
            raise
        return None
    return before, after


def _moved_on(before: bytes, source: QueueName) -> bytes:
    """Return what a message says that leaves `source`, and does not die there."""
    burial, origin = Burial.unpack(before), _origin(before)
    if (origin if burial is None else burial.queue) not in (None, source):
        return before
    if is_fifo(source):
        return (origin or source).encode("ascii")
    # A message that lies in the queue that it died in was redriven: it is not dead elsewhere
    # either.
    return before if origin is None else _NOTHING
