"""How long an operation waits for other processes, and what it says when it has waited too long."""

from __future__ import annotations

import random
import time

from mq.commit.operation import Pause
from mq.config import FOLDER_LOCK_SECONDS, PURGE_LOCK_SECONDS
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName

BUSY_WAIT_SECONDS = 0.05
"""How long an operation on a message waits for another process to let go of its lock."""

OWN_ID_WAIT_SECONDS = 10.0
"""How long a publish waits for another one of the same id before it answers 503."""

LEAST_TRIES = 10
"""An operation tries this often at least: on a busy machine all its time may go by between two
tries."""

_SHORT_PAUSE_SECONDS = (0.002, 0.002)
_OWN_ID_PAUSE_SECONDS = (0.001, 0.05)
"""The first and the longest pause between two tries."""


class Patience:
    """The patience of one operation, from its first try on."""

    def __init__(self, seconds: float, pauses: tuple[float, float], complaint: str) -> None:
        self._deadline = time.monotonic() + seconds
        self._pause, self._longest = pauses
        self._complaint = complaint
        self._tries = 0

    def pause(self) -> Pause:
        """Return the pause before the operation's next try. Raises StoreUnavailable when its time
        is over."""
        self._tries += 1
        if time.monotonic() > self._deadline and self._tries >= LEAST_TRIES:
            raise StoreUnavailable(self._complaint)
        seconds = self._pause * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, self._longest)
        return Pause(seconds)


def with_message(message_id: MessageId) -> Patience:
    """Return the patience with a process that holds the message's lock."""
    return Patience(
        BUSY_WAIT_SECONDS,
        _SHORT_PAUSE_SECONDS,
        f"message {message_id} is held by another process, or on its way; try again",
    )


def with_own_id(message_id: MessageId | None) -> Patience:
    """Return the patience with a process that publishes under an id: that of a message, or one of a
    batch's."""
    what = "an id of the batch" if message_id is None else f"message {message_id}"
    return Patience(
        OWN_ID_WAIT_SECONDS, _OWN_ID_PAUSE_SECONDS, f"{what} is being published now; try again"
    )


def with_queue(queue: QueueName) -> Patience:
    """Return the patience with a process that has the queue to itself."""
    return Patience(
        PURGE_LOCK_SECONDS,
        _SHORT_PAUSE_SECONDS,
        f"queue {queue} cannot be used now: another process holds the lock of its folder; try "
        "again",
    )


def with_delivery(queue: QueueName) -> Patience:
    """Return the patience with a process that delivers messages of a queue to be purged."""
    return Patience(
        PURGE_LOCK_SECONDS,
        _SHORT_PAUSE_SECONDS,
        f"queue {queue} cannot be purged now: another process is delivering a message to it; try "
        "again",
    )


def with_queues(queue: QueueName) -> Patience:
    """Return the patience with a process that makes or deletes a queue."""
    return Patience(
        FOLDER_LOCK_SECONDS,
        _SHORT_PAUSE_SECONDS,
        f"queue {queue} cannot be made or deleted now: another process holds the lock of the "
        f"folder {Folder.QUEUES}; try again",
    )
