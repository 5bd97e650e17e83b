"""How much one fetch may bring."""

from __future__ import annotations

import threading

from mq.config import MAX_ANSWER_MESSAGES


class Allowance:
    """What a fetch may still bring, one queue after the other. The threads of the fetch share it:
    each takes a number of messages to ask for, and says what came."""

    def __init__(self, max_messages: int | None, max_bytes: int | None) -> None:
        """Allow this many messages, and about this many bytes. None sets no limit."""
        self.messages = 0
        """How many of the messages that came are Spark's."""
        self._messages_left = max_messages
        self._bytes_left = max_bytes
        self._queue_left: int | None = None
        self._lock = threading.Lock()

    @property
    def is_by_bytes(self) -> bool:
        """Whether bytes are limited. What one request brings then decides about the next
        one."""
        return self._bytes_left is not None

    def begin_queue(self, left: int | None) -> None:
        """Begin with a queue of which `left` messages may come, or all."""
        self._queue_left = left

    def end_queue(self) -> int | None:
        """Return how many messages of the queue may still come."""
        return self._queue_left

    def take(self) -> int:
        """Return how many messages the next request may ask for; 0 if it is enough."""
        with self._lock:
            if self._bytes_left is not None and self._bytes_left <= 0:
                return 0
            limits = (MAX_ANSWER_MESSAGES, self._messages_left, self._queue_left)
            asked = max(0, min(limit for limit in limits if limit is not None))
            self._change(-asked)
            return asked

    def came(self, asked: int, messages: int, size: int) -> None:
        """Count the answer to a request for `asked` messages; `size` is in bytes."""
        with self._lock:
            self._change(asked - messages)
            if not messages and self._queue_left is not None:
                self._queue_left = 0
            if self._bytes_left is not None:
                self._bytes_left -= size

    def taken(self, messages: int) -> None:
        with self._lock:
            self.messages += messages

    def _change(self, by: int) -> None:
        if self._messages_left is not None:
            self._messages_left += by
        if self._queue_left is not None:
            self._queue_left += by
