"""Requests that wait in long polls: a line for each queue, in order of arrival. One message wakes
one request.

Used on the event loop; only `came` may be called from elsewhere.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mq.errors import StoreUnavailable
from mq.names import QueueName

MAX_WAITING_REQUESTS = 10_000
"""How many receives may wait for a message; for more the server answers 503."""


class QueueWaiters:
    """The requests that wait for one queue. One that is woken leaves the line to receive, and
    returns to the same place if another was faster. `called` is how many were woken and have not
    run since."""

    __slots__ = ("called", "members", "parked", "spare")

    def __init__(self) -> None:
        self.members = 0
        self.parked: list[Waiter] = []
        self.called = 0
        self.spare = 0

    def wake(self, count: int) -> None:
        """Wake the first `count` requests that can be woken: one that has left may still be in
        line, because its task has not run since. Those that are just receiving look again."""
        at = woken = 0
        while woken < count and at < len(self.parked):
            woken += self.parked[at].resume(True)
            at += 1
        del self.parked[:at]
        receiving = self.members - len(self.parked) - woken
        self.spare = min(self.spare + count - woken, receiving)


class Waiter:
    """One long poll. `has_turn` is set while it looks for the message that it was woken for."""

    __slots__ = ("_future", "_line", "_loop", "has_turn", "number")

    def __init__(self, line: QueueWaiters, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._line = line
        self._loop = loop
        self._future: asyncio.Future[bool] | None = None
        self.number = number
        self.has_turn = False

    def __lt__(self, other: Waiter) -> bool:
        return self.number < other.number

    async def woken(self, deadline: float) -> bool:
        """Wait for a turn until `deadline` on the loop's clock. Returns False if none came."""
        line = self._line
        self.has_turn = line.spare > 0
        if self.has_turn:
            line.spare -= 1
            return True
        future: asyncio.Future[bool] = self._loop.create_future()
        self._future = future
        insort(line.parked, self)
        timer = self._loop.call_at(deadline, self.leave)
        try:
            return await future
        finally:
            timer.cancel()
            self._step_out()
            line.called -= self.has_turn

    def ahead(self) -> int:
        """Return how many messages are for requests that came before."""
        if self.has_turn:
            return 0
        return bisect_left(self._line.parked, self) + self._line.called

    def resume(self, is_turn: bool) -> bool:
        """Wake this request. Returns False if it has been woken before, or was cancelled."""
        if self._future is None or self._future.done():
            return False
        self.has_turn = is_turn
        self._line.called += is_turn
        self._future.set_result(is_turn)
        return True

    def leave(self) -> None:
        """Wait no longer for a turn. It leaves the line at once, so that a message that comes now
        wakes the next request."""
        self._step_out()
        self.resume(False)

    def _step_out(self) -> None:
        parked = self._line.parked
        at = bisect_left(parked, self)
        if at < len(parked) and parked[at] is self:
            del parked[at]


class Waiters:
    """All lines. `begin` and `end` are called when the first request comes and when the last one is
    gone."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._begin = begin
        self._end = end
        self._lines: dict[QueueName, QueueWaiters] = {}
        self._members = 0
        self._next_number = 0
        self.is_stopped = False

    def __len__(self) -> int:
        return self._members

    def queues(self) -> list[QueueName]:
        return list(self._lines)

    def parked(self) -> dict[QueueName, int]:
        """Return how many requests wait for each queue for which some do. Those that are just
        receiving are not counted."""
        return {queue: len(line.parked) for queue, line in self._lines.items() if line.parked}

    def count(self, queue: QueueName) -> int:
        """Return how many messages of a queue are for requests that wait. Those that are just
        receiving are not counted: their operations come before all later ones."""
        line = self._lines.get(queue)
        return 0 if line is None else len(line.parked) + line.called

    @contextmanager
    def enter(self, queue: QueueName) -> Iterator[Waiter]:
        """Join the line. A request that has a turn and leaves by an exception passes it on. Raises
        StoreUnavailable if MAX_WAITING_REQUESTS wait already."""
        if self._members >= MAX_WAITING_REQUESTS:
            raise StoreUnavailable("too many requests wait for messages; try again later")
        line = self._lines.setdefault(queue, QueueWaiters())
        waiter = Waiter(line, self._next_number, self._loop)
        self._next_number += 1
        line.members += 1
        self._members += 1
        if self._members == 1:
            self._begin()
        try:
            yield waiter
        except BaseException:
            if waiter.has_turn:
                line.wake(1)
            raise
        finally:
            line.members -= 1
            self._members -= 1
            if line.members == 0:
                del self._lines[queue]
            if self._members == 0:
                self._end()

    def came(self, queue: QueueName, count: int) -> None:
        """Note that a queue has this many new messages, or must be looked at again. Any thread may
        call it."""
        if queue in self._lines:
            self._loop.call_soon_threadsafe(self.wake, queue, count)

    def wake(self, queue: QueueName, count: int) -> None:
        line = self._lines.get(queue)
        if line is not None:
            line.wake(count)

    def wake_all(self, queue: QueueName) -> None:
        self.wake(queue, self.count(queue))

    def stop(self) -> None:
        """Let all requests that wait go without a message, now and from now on."""
        self.is_stopped = True
        for line in self._lines.values():
            parked, line.parked = line.parked, []
            for waiter in parked:
                waiter.resume(False)
