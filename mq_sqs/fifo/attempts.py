"""Attempts to receive from a FIFO queue: what each was answered, so that it can be answered the
same again. Knows no files; a gateway that starts knows of no attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from mq.config import MIB
from mq.names import MessageId, QueueName
from mq.store.receiving.long_receive import LongPoll
from mq.store.receiving.received_message import Received

ATTEMPT_SECONDS = 300.0
MAX_ATTEMPTS = 10_000
MAX_ATTEMPT_BYTES = 16 * MIB
"""How long attempts are kept, how many of them, and how many bytes their messages have together.
Beyond that the oldest are forgotten."""

_Key = tuple[QueueName, str]


class ReceiveAttempt(NamedTuple):
    """What a receive was answered: messages and their bodies, in their order. `to_put_back` are
    those that the first call puts back if its client is gone."""

    received: Sequence[Received]
    bodies: Sequence[bytes]
    until: float
    to_put_back: list[Received]

    @property
    def size(self) -> int:
        return sum(each.file_length for each in self.received)


class Attempts:
    """The attempts of one gateway, the oldest first. `clock` is in seconds, and does not go
    back."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._attempts: dict[_Key, ReceiveAttempt] = {}
        self._bytes = 0
        self._of_message: dict[tuple[QueueName, MessageId], _Key] = {}
        self._polls: dict[_Key, list[LongPoll]] = {}

    def find(self, queue: QueueName, attempt_id: str) -> ReceiveAttempt | None:
        """Return the attempt of that id, unless it is too old, or one of its messages was deleted
        or changed since."""
        self._forget_old()
        return self._attempts.get((queue, attempt_id))

    def keep(
        self,
        queue: QueueName,
        attempt_id: str,
        received: list[Received],
        bodies: Sequence[bytes],
    ) -> None:
        """Keep what a receive is answered, and end the polls of its attempt. An empty answer is not
        kept: there may be messages the next time."""
        key = (queue, attempt_id)
        self._drop(key)
        until = self._clock() + ATTEMPT_SECONDS
        attempt = ReceiveAttempt(tuple(received), bodies, until, received)
        if not received or attempt.size > MAX_ATTEMPT_BYTES:
            return
        self._attempts[key] = attempt
        self._bytes += attempt.size
        self._of_message |= {(queue, each.message_id): key for each in received}
        for poll in self._polls.get(key, ()):
            poll.end()
        self._forget_old()

    @contextmanager
    def waiting(self, queue: QueueName, attempt_id: str, poll: LongPoll) -> Iterator[None]:
        """Let the poll of one call end once another call of its attempt has got messages."""
        key = (queue, attempt_id)
        polls = self._polls.setdefault(key, [])
        polls.append(poll)
        try:
            yield
        finally:
            polls.remove(poll)
            if not polls:
                del self._polls[key]

    def forget(self, queue: QueueName, ids: Iterable[MessageId]) -> None:
        """Forget what was answered with one of these messages: it is deleted or changed."""
        for message_id in ids:
            key = self._of_message.get((queue, message_id))
            if key is not None:
                self._drop(key)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._attempts:
            key, attempt = next(iter(self._attempts.items()))
            is_kept = len(self._attempts) <= MAX_ATTEMPTS and self._bytes <= MAX_ATTEMPT_BYTES
            if is_kept and now < attempt.until:
                break
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return
        self._bytes -= attempt.size
        for each in attempt.received:
            if self._of_message.get((key[0], each.message_id)) == key:
                del self._of_message[key[0], each.message_id]
