"""What `mqctl --root` does with the queue `orders`."""

from __future__ import annotations

import io

from mq.ctl.ways.by_root import RootAccess
from mq.lines.ndjson import Line
from mq.names import MessageId, QueueName

ORDERS = QueueName("orders")
SMALL, LARGE = b"body", bytes(200_000)


def send(access: RootAccess, body: bytes = SMALL) -> MessageId:
    return access.publish(ORDERS, io.BytesIO(body), Line(body))
