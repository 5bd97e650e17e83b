"""Looks at a root that take long, each for all who ask for it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Generic, TypeVar

from mq.commit.operation import InWorker, Operation, Shared
from mq.errors import StoreUnavailable

K = TypeVar("K")
T = TypeVar("T")


class SharedLooks(Generic[K, T]):
    """The looks of one server at things of one kind. Each thing has one look under way at a time;
    callers that ask meanwhile share the next one. So each caller sees what was done before it
    asked, and any number of callers at a time cost no more than two looks."""

    def __init__(self, kind: str, look: Callable[[K], T]) -> None:
        """`kind` is a word that no other looks have. `look` is called in a worker."""
        self._kind = kind
        self._look = look
        self._numbers = count()
        self._next: dict[K, int] = {}
        self._running: dict[K, int] = {}

    def at(self, thing: K) -> Operation[T]:
        """Look at a thing. Raises what `look` raises, and StoreUnavailable."""
        number = self._next.setdefault(thing, next(self._numbers))
        found: T = yield self._shared(thing, number)
        return found

    def _shared(self, thing: K, number: int) -> Shared:
        return Shared(f"{self._kind} {number}", partial(self._run, thing, number))

    def _run(self, thing: K, number: int) -> Operation[T]:
        running = self._running.get(thing)
        try:
            if running is not None:
                with suppress(OSError, StoreUnavailable):
                    yield self._shared(thing, running)
        finally:
            del self._next[thing]
        self._running[thing] = number
        try:
            found: T = yield InWorker(self._look, thing)
            return found
        finally:
            del self._running[thing]
