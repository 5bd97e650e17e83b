"""Messages in the folders, as `mqctl` shows them."""

from __future__ import annotations

import io
from dataclasses import replace

from mq.config import DEFAULT_CONTENT_TYPE
from mq.ctl.ways.access import Readable, ShownMessage
from mq.lifecycle import State
from mq.store.peeking.peeked_message import PeekedMessage
from mq.store.receiving.received_message import Received
from mq.times import rfc3339


def peeked_message(peeked: PeekedMessage) -> ShownMessage:
    """Return a message as `mqctl` shows it. The file stays open if the body is large."""
    shown = _shown(peeked, peeked.state, peeked.lease, peeked.visible_ns)
    return replace(shown, is_damaged=peeked.is_damaged)


def received_message(received: Received) -> ShownMessage:
    """Return a message as `mqctl` shows it to its receiver. The file stays open if the body is
    large."""
    return _shown(received, State.LEASED, received.lease, received.visible_ns)


def _shown(
    message: PeekedMessage | Received, state: State, lease: int | None, visible_ns: int | None
) -> ShownMessage:
    burial = message.burial
    return ShownMessage(
        message_id=message.message_id,
        state=state,
        lease=None if lease is None else f"{lease:016x}",
        receive_count=message.receive_count,
        content_type=message.content_type or DEFAULT_CONTENT_TYPE,
        published_at=rfc3339(message.published_ns),
        visible_at=None if visible_ns is None else rfc3339(visible_ns),
        length=message.length,
        body=_body_in(message.body, message.fd, message.length),
        properties=message.properties,
        dead_from=None if burial is None else burial.queue,
        dead_reason=None if burial is None else burial.reason,
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
