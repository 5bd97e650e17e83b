"""Queue names, message ids and file names: parsed once at the door, trusted afterwards.

queue name   [A-Za-z0-9][A-Za-z0-9_.-]{0,74}, or such a name with `.dead` behind it
message id   [A-Za-z0-9-]{1,64}; our own are UUIDv7 (RFC 9562) in lower case
file name    QUEUE:ID in new, delay, remove and corrupt; QUEUE/ID below queues
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NewType

from mq.errors import InvalidName

QueueName = NewType("QueueName", str)
MessageId = NewType("MessageId", str)

DEAD_SUFFIX = ".dead"
"""The dead letters of queue `orders` go to queue `orders.dead`."""

_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,74}(?:\.dead)?")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_UUID = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-([17])([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)
_OWN_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

_NS_PER_MS = 1_000_000
_DAY_MS = 86_400_000
_GREGORIAN_100NS = 0x01B21DD213814000
"""100 ns steps between 1582-10-15, where UUIDv1 counts from, and 1970 (RFC 9562, section 5.1)."""


@lru_cache(maxsize=1024)
def parse_queue_name(text: str) -> QueueName:
    """Return `text` as a queue name. Raises InvalidName."""
    if not _QUEUE_NAME.fullmatch(text):
        raise InvalidName(
            f"queue name {text!r}: a name starts with a letter or digit, goes on with letters, "
            "digits, '_', '.' or '-', and has at most 75 characters"
        )
    return QueueName(text)


def parse_message_id(text: str) -> MessageId:
    """Return `text` as a message id. Raises InvalidName."""
    if not _MESSAGE_ID.fullmatch(text):
        raise InvalidName(f"message id {text!r}: an id has 1 to 64 letters, digits and '-'")
    return MessageId(text)


def dead_letter_queue(queue: QueueName) -> QueueName | None:
    """The queue that takes the dead letters of `queue`; None if it is one itself."""
    return None if queue.endswith(DEAD_SUFFIX) else QueueName(queue + DEAD_SUFFIX)


def file_name(queue: QueueName, message_id: MessageId) -> str:
    """The message's name in new, delay, remove and corrupt."""
    return f"{queue}:{message_id}"


def queue_path(queue: QueueName, message_id: MessageId) -> str:
    """The message's path below queues."""
    return f"{queue}/{message_id}"


def parse_file_name(name: str) -> tuple[QueueName, MessageId] | None:
    """Split `QUEUE:ID`; None for a name that is not one of ours."""
    queue, colon, message_id = name.partition(":")
    if not colon or not _QUEUE_NAME.fullmatch(queue) or not _MESSAGE_ID.fullmatch(message_id):
        return None
    return QueueName(queue), MessageId(message_id)


def is_queue_name(text: str) -> bool:
    """Whether a folder below queues can be a queue."""
    return _QUEUE_NAME.fullmatch(text) is not None


def is_message_id(text: str) -> bool:
    """Whether a file below queues/QUEUE can be a message."""
    return _MESSAGE_ID.fullmatch(text) is not None


def id_time_ns(message_id: str) -> int | None:
    """The time inside a UUIDv7 or UUIDv1, in ns since 1970; None for any other id."""
    match = _UUID.fullmatch(message_id) or _UUID.fullmatch(message_id.lower())
    if match is None:
        return None
    low, mid, version, high = match.groups()
    if version == "7":
        return int(low + mid, 16) * _NS_PER_MS
    return (int(high + mid + low, 16) - _GREGORIAN_100NS) * 100


_OTHER = "~"
_ID_AT = 20


def order_key(message_id: str, time_ns: int) -> str:
    """A string that sorts by publication time in ns since 1970, then by id.

    One of our own ids is its own key: it begins with its time, and a million of them cost no
    second string. Any other id gets the same beginning, made of `time_ns`: `MMMMMMMM-MMMM-~NNNNN`.
    """
    if is_v7(message_id):
        return message_id
    milliseconds, rest = divmod(max(time_ns, 0), _NS_PER_MS)
    head = f"{min(milliseconds, (1 << 48) - 1):012x}"
    return f"{head[:8]}-{head[8:]}-{_OTHER}{rest:05x}{message_id}"


def id_of_key(key: str) -> str:
    return key[_ID_AT:] if key[14] == _OTHER else key


def time_of_key(key: str) -> int:
    """The publication time in ns since 1970."""
    rest = int(key[15:_ID_AT], 16) if key[14] == _OTHER else 0
    return int(key[:8] + key[9:13], 16) * _NS_PER_MS + rest


def is_v7(message_id: str) -> bool:
    """Whether it is a UUIDv7 as we write it, in lower case."""
    return _OWN_ID.fullmatch(message_id) is not None


class MessageIds:
    """New message ids, each greater than the one before, also when the clock goes back.

    UUIDv7 with 12 bits of sub-millisecond time behind the milliseconds (RFC 9562, section 6.2,
    method 3). Used by one thread: the committer takes an id just before it links the file.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._last_tick = 0
        self._random = random.Random()

    def start_above(self, message_id: str) -> None:
        """Let no later id sort below `message_id`. Ids that are not v7, or that lie more than a
        day ahead of the clock, are ignored: a broken clock made them."""
        match = _UUID.fullmatch(message_id)
        if match is None or match[3] != "7":
            return
        milliseconds = int(match[1] + match[2], 16)
        if milliseconds <= self._clock_ns() // _NS_PER_MS + _DAY_MS:
            self._last_tick = max(self._last_tick, milliseconds << 12 | int(match[4], 16))

    def next(self) -> MessageId:
        milliseconds, rest = divmod(self._clock_ns(), _NS_PER_MS)
        tick = max(milliseconds << 12 | (rest << 12) // _NS_PER_MS, self._last_tick + 1)
        self._last_tick = tick
        head = f"{tick >> 12:012x}"
        tail = f"{1 << 63 | self._random.getrandbits(62):016x}"
        return MessageId(f"{head[:8]}-{head[8:]}-7{tick & 0xFFF:03x}-{tail[:4]}-{tail[4:]}")
