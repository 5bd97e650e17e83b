"""What the messages of both clients have in common."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

from mq.client.errors import LeaseLost
from mq.client.messages import Delivery
from mq.properties import Properties


class ReceivedMessage:
    """A message that was received, under a lease.

    `lost` is the error that said that the lease is lost, or None if it is not known to be.
    `is_settled` says that the message was acknowledged, released or moved.
    """

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.is_settled = False
        self._block_of = 0
        self.lost: LeaseLost | None = None

    def _begin_block(self) -> None:
        self._block_of = os.getpid()

    @property
    def is_to_settle(self) -> bool:
        """Whether the end of a block has to settle the message: not if that is done, and not in a
        process that was forked within the block. There its parent still has the message."""
        return not self.is_settled and self._block_of == os.getpid()

    def __repr__(self) -> str:
        delivery = self.delivery
        return f"<{type(self).__name__} {delivery.id} of queue {delivery.queue}>"

    @property
    def id(self) -> str:
        return self.delivery.id

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self.delivery.queue

    @property
    def body(self) -> bytes:
        return self.delivery.body

    @property
    def content_type(self) -> str:
        """The type that the producer gave, or application/octet-stream."""
        return self.delivery.content_type

    @property
    def properties(self) -> Properties:
        """The properties that the producer gave, with names in lower case."""
        return self.delivery.properties

    @property
    def properties_left_out(self) -> int:
        """How many more properties the message has: those too long for HTTP headers, which no
        server takes and only `receive_many` returns."""
        return self.delivery.properties_left_out

    @property
    def lease(self) -> str:
        """The lease, as `ack_many` takes it: 16 hexadecimal digits."""
        return self.delivery.lease

    @property
    def receive_count(self) -> int | None:
        """How often the message has been received, this time included; None if that is not
        counted."""
        return self.delivery.receive_count

    @property
    def published_at(self) -> datetime:
        return self.delivery.published_at

    @property
    def visible_at(self) -> datetime:
        """When the lease ends, by the server's clock."""
        return self.delivery.visible_at

    @property
    def dead_from(self) -> str | None:
        """The queue that a dead letter came from; None for any other message."""
        return self.delivery.dead_from

    @property
    def dead_reason(self) -> str | None:
        """Why a dead letter is one: `max-receives`, or the reason it was moved for. None for any
        other message."""
        return self.delivery.dead_reason

    @property
    def is_lost(self) -> bool:
        """Whether another receiver may have the message by now."""
        return self.lost is not None

    def text(self) -> str:
        """Return the body as UTF-8. Raises UnicodeDecodeError."""
        return self.body.decode()

    def json(self) -> Any:
        """Return the body as JSON. Raises ValueError."""
        return json.loads(self.body)
