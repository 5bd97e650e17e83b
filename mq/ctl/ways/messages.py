"""Messages in the folders, as `mqctl` shows them."""

from __future__ import annotations

import io

from mq.config import DEFAULT_CONTENT_TYPE
from mq.ctl.ways.access import Readable, ShownMessage
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.receiving.received_message import Received
from mq.times import rfc3339


def peeked_message(peeked: PeekedMessage) -> ShownMessage:
    """Return a message as `mqctl` shows it. The file stays open if the body is large."""
    return ShownMessage(
        message_id=peeked.message_id,
        state=peeked.state,
        lease=None if peeked.lease is None else f"{peeked.lease:016x}",
        receive_count=peeked.receive_count,
        content_type=peeked.content_type or DEFAULT_CONTENT_TYPE,
        published_at=rfc3339(peeked.published_ns),
        visible_at=None if peeked.visible_ns is None else rfc3339(peeked.visible_ns),
        length=peeked.length,
        body=_body_in(peeked.body, peeked.fd, peeked.length),
        is_damaged=peeked.is_damaged,
        properties=peeked.properties,
        dead_from=None if peeked.burial is None else peeked.burial.queue,
        dead_reason=None if peeked.burial is None else peeked.burial.reason,
    )


def received_message(received: Received) -> ShownMessage:
    """Return a message as `mqctl` shows it to its receiver. The file stays open if the body is
    large."""
    return ShownMessage(
        message_id=received.message_id,
        state="leased",
        lease=f"{received.lease:016x}",
        receive_count=received.receive_count,
        content_type=received.content_type or DEFAULT_CONTENT_TYPE,
        published_at=rfc3339(received.published_ns),
        visible_at=rfc3339(received.visible_ns),
        length=received.length,
        body=_body_in(received.body, received.fd, received.length),
        properties=received.properties,
        dead_from=None if received.burial is None else received.burial.queue,
        dead_reason=None if received.burial is None else received.burial.reason,
    )


class _FirstBytes(io.FileIO):
    """The body in a file, without the trailer that follows it."""

    def __init__(self, fd: int, length: int) -> None:
        super().__init__(fd)
        self._left = length

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self._left if size is None or size < 0 else min(size, self._left)
        data = super().read(wanted) or b""
        self._left -= len(data)
        return data


def _body_in(body: bytes | None, fd: int, length: int) -> Readable:
    """Return a body of `length` bytes: in memory, or in the file that `fd` is open at, which is
    closed with it."""
    return _FirstBytes(fd, length) if body is None else io.BytesIO(body)
