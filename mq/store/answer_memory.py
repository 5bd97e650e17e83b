"""The memory that the answers of many messages take together, until their clients have read
them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from threading import Lock
from typing import Self

from mq.config import MIB

MAX_BODIES_BYTES = 16 * MIB
"""An answer with many messages has at most this many bytes of bodies, but at least one
message."""

MAX_ANSWERS_BYTES = 256 * MIB
"""How much memory such answers take together, until clients have read them."""


_WORST_GROWTH = 7
"""A body grows by this factor, at worst, in the line of JSON that is made of it, where six
characters may represent one byte; the body itself is counted too."""


class AnswerMemory:
    """MAX_ANSWERS_BYTES, of which each answer may take half of what is left. So no request waits
    for clients that read slowly, none is refused, and later ones get fewer messages at once. For
    any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held_bytes = 0

    def share(self) -> Share:
        return Share(self)

    def take(self) -> int:
        """Take half of what is left, or what the longest answer needs."""
        with self._lock:
            left = max(0, MAX_ANSWERS_BYTES - self._held_bytes)
            taken = min(left // 2, _WORST_GROWTH * MAX_BODIES_BYTES)
            self._held_bytes += taken
        return taken

    def change(self, by: int) -> None:
        with self._lock:
            self._held_bytes += by


class Share:
    """The memory of one answer, until the block ends, or `end` is called. An operation that nobody
    waits for any more may still come to its end on another thread; it holds nothing then."""

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self._lock = Lock()
        self._held_bytes = 0
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        with self._lock:
            self._hold(0)
            self._is_over = True

    def room_bytes(self) -> int:
        """Return how many bytes of bodies may come into the answer, MAX_BODIES_BYTES at most."""
        with self._lock:
            return self._room_bytes()

    def covers(self, length: int) -> bool:
        """Return whether there is memory for this many bytes of bodies. If there is, it is held."""
        with self._lock:
            self._hold(0)
            is_enough = self._room_bytes() >= length
            self._hold(_WORST_GROWTH * length if is_enough else 0)
        return is_enough

    def hold_bodies(self, length: int) -> None:
        """Hold memory for an answer that will have this many bytes of bodies."""
        self.hold(_WORST_GROWTH * length)

    def hold(self, length: int) -> None:
        """Hold memory for an answer that has this many bytes by now."""
        with self._lock:
            self._hold(length)

    def _room_bytes(self) -> int:
        if not self._held_bytes and not self._is_over:
            self._held_bytes = self._memory.take()
        return self._held_bytes // _WORST_GROWTH

    def _hold(self, length: int) -> None:
        if not self._is_over:
            self._memory.change(length - self._held_bytes)
            self._held_bytes = length


class AnswerRoom:
    """How many bytes of bodies may still come into one answer: MAX_BODIES_BYTES, or what the share
    of the memory holds. The first body is always taken. `used` is what is in it."""

    def __init__(self, used: int | None = None, share: Share | None = None) -> None:
        """`used` is what the bodies before these take, or None if there are none."""
        self._share = share
        self.used = used or 0
        self._is_first = used is None
        self._bytes: int | None = None
        self.is_full = False

    def takes(self, length: int) -> bool:
        """Return whether a body fits. Once one has not fitted, no later one does."""
        if self._is_first:
            self._is_first, self.used = False, length
            return True
        if self.is_full or self.used + length > self._in_all():
            self.is_full = True
            return False
        self.used += length
        return True

    def count(self, lengths: Sequence[int]) -> int:
        """Return how many of these bodies fit, in this order."""
        together = sum(lengths)
        if len(lengths) > 1 and not self.is_full and self.used + together <= self._in_all():
            self._is_first = False
            self.used += together
            return len(lengths)
        return len(list(takewhile(self.takes, lengths)))

    def _in_all(self) -> int:
        if self._bytes is None:
            self._bytes = MAX_BODIES_BYTES if self._share is None else self._share.room_bytes()
        return self._bytes
