"""Who waits in long polls: a line for each queue, in order of arrival. One message wakes one.

Used on the event loop; only `came` may be called from elsewhere.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mq.config import MAX_WAITING_REQUESTS
from mq.errors import StoreUnavailable
from mq.names import QueueName


class QueueWaiters:
    """Those who wait for one queue. Who is woken steps out to fetch, and back to the same place if
    somebody else was faster. `called` are those who have not noticed yet."""

    __slots__ = ("called", "members", "parked", "spare")

    def __init__(self) -> None:
        self.members = 0
        self.parked: list[Waiter] = []
        self.called = 0
        self.spare = 0

    def wake(self, count: int) -> None:
        """Wake the first `count` who can be woken: somebody may have left and still stand here,
        because its task has not run since. Those who are fetching just now look again."""
        at = woken = 0
        while woken < count and at < len(self.parked):
            woken += self.parked[at].resume(True)
            at += 1
        del self.parked[:at]
        fetching = self.members - len(self.parked) - woken
        self.spare = min(self.spare + count - woken, fetching)


class Waiter:
    """One long poll. `has_turn` while it looks for the message that it was woken for."""

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
        """Wait for a turn, until `deadline` on the loop's clock; False if none came."""
        line = self._line
        self.has_turn = line.spare > 0
        if self.has_turn:
            line.spare -= 1
            return True
        future: asyncio.Future[bool] = self._loop.create_future()
        self._future = future
        insort(line.parked, self)
        timer = self._loop.call_at(deadline, self._time_out)
        try:
            return await future
        finally:
            timer.cancel()
            self._step_out()
            line.called -= self.has_turn

    def ahead(self) -> int:
        """How many messages are for those who came before."""
        if self.has_turn:
            return 0
        return bisect_left(self._line.parked, self) + self._line.called

    def resume(self, is_turn: bool) -> bool:
        """False if it has been resumed before, or was cancelled."""
        if self._future is None or self._future.done():
            return False
        self.has_turn = is_turn
        self._line.called += is_turn
        self._future.set_result(is_turn)
        return True

    def _time_out(self) -> None:
        # Out of the line at once: a message that comes now wakes the next.
        self._step_out()
        self.resume(False)

    def _step_out(self) -> None:
        parked = self._line.parked
        at = bisect_left(parked, self)
        if at < len(parked) and parked[at] is self:
            del parked[at]


class Waiters:
    """All lines. `begin` and `end` are called when the first comes and when the last is gone."""

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

    def count(self, queue: QueueName) -> int:
        """How many messages of a queue are for those who wait. Who fetches just now is not among
        them: its operation comes before all later ones."""
        line = self._lines.get(queue)
        return 0 if line is None else len(line.parked) + line.called

    @contextmanager
    def enter(self, queue: QueueName) -> Iterator[Waiter]:
        """Stand in the line. Who has a turn and leaves by an exception passes it on. Raises
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
        """A queue has so many new messages, or must be looked at anew. From any thread."""
        if queue in self._lines:
            self._loop.call_soon_threadsafe(self.wake, queue, count)

    def wake(self, queue: QueueName, count: int) -> None:
        line = self._lines.get(queue)
        if line is not None:
            line.wake(count)

    def wake_all(self, queue: QueueName) -> None:
        self.wake(queue, self.count(queue))

    def stop(self) -> None:
        """Let everybody who waits go without a message, now and from now on."""
        self.is_stopped = True
        for line in self._lines.values():
            parked, line.parked = line.parked, []
            for waiter in parked:
                waiter.resume(False)
