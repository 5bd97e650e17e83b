"""Queue names, message ids and file names: parsed once at the door, trusted afterwards.

queue name   [A-Za-z0-9][A-Za-z0-9_.-]{0,79}, or such a name followed by `.dead` or `.fifo`
message id   [A-Za-z0-9-]{1,64}; our own are made by `mq.ids`
file name    QUEUE:ID in new, delay, remove and corrupt; QUEUE/ID below queues
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NewType

from mq.errors import InvalidName, shown

QueueName = NewType("QueueName", str)
MessageId = NewType("MessageId", str)

DEAD_SUFFIX = ".dead"
"""The dead letters of queue `orders` go to queue `orders.dead`."""

FIFO_SUFFIX = ".fifo"
"""How the name of a FIFO queue ends. A gateway delivers its messages, group by group."""

_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}(?:\.dead|\.fifo)?")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_MESSAGE_IDS = re.compile(r"[A-Za-z0-9-]{1,64}(?:,[A-Za-z0-9-]{1,64})*")


@lru_cache(maxsize=1024)
def parse_queue_name(text: str) -> QueueName:
    """Return `text` as a queue name. Raises InvalidName."""
    if not _QUEUE_NAME.fullmatch(text):
        raise InvalidName(
            f"queue name {shown(text)}: a name starts with a letter or digit, goes on with "
            "letters, digits, '_', '.' or '-', and has at most 80 characters, or 85 with .dead or "
            ".fifo"
        )
    return QueueName(text)


def parse_message_id(text: str) -> MessageId:
    """Return `text` as a message id. Raises InvalidName."""
    if not _MESSAGE_ID.fullmatch(text):
        raise InvalidName(f"message id {shown(text)}: an id has 1 to 64 letters, digits and '-'")
    return MessageId(text)


def parse_message_ids(text: str) -> list[MessageId]:
    """Return the ids of a list with commas between them. Raises InvalidName."""
    texts = text.split(",")
    if not _MESSAGE_IDS.fullmatch(text):
        return [parse_message_id(each) for each in texts]
    return [MessageId(each) for each in texts]


def dead_letter_queue(queue: QueueName) -> QueueName | None:
    """Return the queue that takes the dead letters of `queue`, or None if it is one itself. For a
    FIFO queue, whose dead letters never go there, it may be too long for the name of a queue."""
    return None if queue.endswith(DEAD_SUFFIX) else QueueName(queue + DEAD_SUFFIX)


def is_fifo(queue: str) -> bool:
    """Whether its messages have groups, whose order only the gateway for SQS knows."""
    return queue.endswith(FIFO_SUFFIX)


def file_name(queue: QueueName, message_id: MessageId) -> str:
    """Return the message's file name in new, delay, remove and corrupt."""
    return f"{queue}:{message_id}"


def queue_path(queue: QueueName, message_id: MessageId) -> str:
    """Return the message's path below queues."""
    return f"{queue}/{message_id}"


def parse_file_name(name: str) -> tuple[QueueName, MessageId] | None:
    """Split `QUEUE:ID`. Returns None for a name that does not have this form."""
    queue, colon, message_id = name.partition(":")
    if not colon or not _QUEUE_NAME.fullmatch(queue) or not _MESSAGE_ID.fullmatch(message_id):
        return None
    return QueueName(queue), MessageId(message_id)


def is_queue_name(text: str) -> bool:
    """Return whether a folder below queues can be a queue."""
    return _QUEUE_NAME.fullmatch(text) is not None


def is_message_id(text: str) -> bool:
    """Return whether a file below queues/QUEUE can be a message."""
    return _MESSAGE_ID.fullmatch(text) is not None


MAX_DEAD_REASON_BYTES = 255


def is_dead_reason(text: str) -> bool:
    """Return whether the text can say why a message is a dead letter: it has 1 to
    MAX_DEAD_REASON_BYTES printable ASCII characters and no space at either end, so that a header
    can carry it."""
    is_short = 0 < len(text) <= MAX_DEAD_REASON_BYTES
    return is_short and text.isascii() and text.isprintable() and text == text.strip()
