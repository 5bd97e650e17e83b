"""Divide work into shares of about the same size."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from mq.config import KIB

T = TypeVar("T")

MESSAGE_BYTES = 16 * KIB
"""The number of bytes that could be read in the time that it takes to open one message."""


class Shares:
    """Deals items out one by one, each to the share that has least so far."""

    def __init__(self, count: int, first: int = 0) -> None:
        """Make `count` shares. The first item goes to the share `first`, counted around."""
        self._heap = [(0, place, (place + first) % count) for place in range(count)]

    def next_for(self, length: int) -> int:
        """Return the number of the share that takes a message of this many bytes."""
        total, place, share = self._heap[0]
        heapq.heapreplace(self._heap, (total + length + MESSAGE_BYTES, place, share))
        return share


def balance(items: Iterable[T], count: int, length_of: Callable[[T], int]) -> list[list[T]]:
    """Return `items` in `count` shares. The largest are dealt out first, so the shares differ by
    little."""
    dealt: list[list[T]] = [[] for _ in range(count)]
    shares = Shares(count)
    for item in sorted(items, key=length_of, reverse=True):
        dealt[shares.next_for(length_of(item))].append(item)
    return dealt
