"""`Inbox`: messages on their way from the threads that receive to the one that delivers them."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty

from mq.client import Message


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message and the consumer that it is for, or the reason why nothing more comes."""

    consumer: str
    deliver: Callable[[Message], None]
    message: Message | None
    error: Exception | None = None


class Inbox:
    """An inbox for one thread that takes, by a call that waits or by polling `fileno`, and any
    number of threads that put. It holds no more than its channels have room for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrivals: deque[Arrival] = deque()
        self._is_closed = False
        self._readable, self._writable = socket.socketpair()
        for end in (self._readable, self._writable):
            end.setblocking(False)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there may be an arrival."""
        return self._readable.fileno()

    def put(self, arrival: Arrival) -> bool:
        """Put an arrival. Returns False if the inbox is closed."""
        with self._changed:
            if self._is_closed:
                return False
            self._arrivals.append(arrival)
            self._changed.notify()
            # If the pipe is full, it is readable already.
            with suppress(BlockingIOError):
                self._writable.send(b"\0")
            return True

    def take(self, timeout_seconds: float | None) -> Arrival:
        """Take an arrival; None waits for ever. Raises Empty."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._arrivals, timeout_seconds):
                raise Empty
            arrival = self._arrivals.popleft()
            self._drain()
            return arrival

    def withdraw(self, consumer: str) -> list[Message]:
        """Take out the messages that a consumer does not get any more."""
        with self._changed:
            found = [each for each in self._arrivals if each.consumer == consumer]
            for each in found:
                self._arrivals.remove(each)
            self._drain()
            return [each.message for each in found if each.message is not None]

    def close(self) -> None:
        """Close the inbox; a second call does nothing."""
        with self._changed:
            if not self._is_closed:
                self._is_closed = True
                self._readable.close()
                self._writable.close()

    def _drain(self) -> None:
        """Make `fileno` unreadable if there is no arrival, so that an event loop can rest."""
        if not self._arrivals and not self._is_closed:
            with suppress(BlockingIOError):
                while self._readable.recv(4096):
                    pass
