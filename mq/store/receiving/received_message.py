"""A message as its receiver has it."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from mq.disk.files import Files
from mq.names import MessageId, QueueName
from mq.properties import NO_PROPERTIES, Properties
from mq.spool.message.burial import Burial
from mq.spool.message.held import NO_FD
from mq.spool.message.seal import Seal


class Before(NamedTuple):
    """The lease or delay that a message in `delay` had when it was taken out of turn."""

    lease: int
    due_ns: int


class Received(NamedTuple):
    """A message under a lease: its body in memory, or `fd`, open at it, for the caller to close.
    The properties of one in a file come with the check of its body.

    Times are in ns since 1970. On a file system without seals `receive_count` is None, and so is
    `sealed`, which is what the seal said when the lease began. `first_received_ns` is 0 if it is
    unknown, as it is before the root has `mq 2`. `is_prolonged` says that the lease is an earlier
    one, which goes on. A dead letter has a `burial`.
    """

    queue: QueueName
    message_id: MessageId
    length: int
    sealed: Seal | None
    content_type: str | None
    lease: int
    receive_count: int | None
    published_ns: int
    visible_ns: int
    body: bytes | None
    fd: int = NO_FD
    before: Before | None = None
    is_prolonged: bool = False
    properties: Properties = NO_PROPERTIES
    first_received_ns: int = 0
    burial: Burial | None = None

    @property
    def file_length(self) -> int:
        """The length of body and properties, in bytes."""
        sealed = self.sealed
        return self.length if sealed is None else sealed.length + sealed.trailer_length

    def close(self, files: Files) -> None:
        if self.fd != NO_FD:
            files.close(self.fd)

    def without_idle_file(self, files: Files) -> Received:
        """Close the file if the body is in memory: it was open to be synced."""
        if self.body is None:
            return self
        self.close(files)
        return self._replace(fd=NO_FD)


BODY = attrgetter("body")
"""Takes the body out of a message: None if that is in a file."""

VISIBLE_NS = attrgetter("visible_ns")
"""Takes out when the lease ends."""
