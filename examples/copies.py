"""Copies for many readers: what is published to one queue goes to several.

    python examples/copies.py orders bills kitchen

For each message of `orders` there is then one in `bills` and one in `kitchen`, with its id, body,
type and properties. Run as many of these as you like. One with a concurrency of 1 keeps the order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mq.client import Client, Message, Queue


def copy(message: Message, first: Queue, others: Sequence[str]) -> None:
    """Publish a message to the queues of all readers, or to none. If this is done again, because it
    was killed in the middle, the id tells the server which copies exist already."""
    first.publish(
        message.body,
        content_type=message.content_type,
        message_id=message.id,
        properties=message.properties,
        also=others,
    )


def main(source: str, *readers: str) -> None:
    with Client() as mq:  # MQ_URL, or http://127.0.0.1:8080
        for each in (source, *readers):
            mq.queue(each).create()
        first, others = mq.queue(readers[0]), readers[1:]
        mq.queue(source).worker(lambda each: copy(each, first, others), concurrency=8).run()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} QUEUE READER...")
    main(*sys.argv[1:])
