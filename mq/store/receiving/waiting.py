"""Requests that wait in long polls: a line for each queue, in order of arrival. One message wakes
one request. A request that waits for several queues is in the line of each.

Used on the event loop; only `came` may be called from elsewhere.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence

from mq.errors import StoreUnavailable
from mq.names import QueueName

MAX_WAITING_RECEIVES = 10_000
"""How many receives may wait for a message; for more the server answers 503."""


class QueueWaiters:
    """The requests that wait for one queue. One that is woken leaves the line to receive, and
    returns to the same place if another was faster. `called` is how many have a turn and have not
    begun to receive."""

    __slots__ = ("called", "members", "parked", "spare")

    def __init__(self) -> None:
        self.members = 0
        self.parked: list[Waiter] = []
        self.called = 0
        self.spare = 0

    def wake(self, count: int) -> None:
        """Wake the first `count` requests. Those that are just receiving look again."""
        woken = min(count, len(self.parked))
        first = self.parked[:woken]
        del self.parked[:woken]
        for each in first:
            each.resume(self)
        receiving = self.members - len(self.parked) - woken
        self.spare = min(self.spare + count - woken, receiving)


class Waiter:
    """One long poll, in the lines of the queues that it is for. `woken` is called when it is woken,
    with whether it has a turn. `turn` is the line whose message it was woken for, while it looks
    for that. `is_out` says that it has left for good."""

    __slots__ = (
        "_is_called", "_loop", "_timer", "_turn", "_waking", "_woken", "is_out", "lines", "number"
    )  # fmt: skip

    def __init__(
        self,
        lines: Mapping[QueueName, QueueWaiters],
        number: int,
        loop: asyncio.AbstractEventLoop,
        woken: Callable[[bool], None],
    ) -> None:
        self.lines = lines
        self.number = number
        self._loop = loop
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None
        """Set while this request is parked."""
        self._waking: asyncio.Handle | None = None
        self._turn: QueueWaiters | None = None
        self._is_called = self.is_out = False

    def __lt__(self, other: Waiter) -> bool:
        return self.number < other.number

    def park(self, deadline: float) -> None:
        """Wait for a turn until `deadline` on the loop's clock. If a message is spare, the turn has
        come already."""
        lines = self.lines.values()
        spare = next((line for line in lines if line.spare), None)
        if spare is not None:
            spare.spare -= 1
            self._call(spare)
            self._woken(True)
            return
        for line in lines:
            insort(line.parked, self)
        self._timer = self._loop.call_at(deadline, self.leave)

    def ahead(self, queue: QueueName) -> int:
        """Return how many messages of a queue are for requests that came before."""
        line = self.lines[queue]
        return 0 if self._turn is line else bisect_left(line.parked, self) + line.called

    def resume(self, line: QueueWaiters | None) -> None:
        """Wake this request, which is parked: for a message of `line`, or for none."""
        self._unpark()
        self._call(line)
        self._waking = self._loop.call_soon(self._wake)

    def _call(self, line: QueueWaiters | None) -> None:
        self._turn = line
        if line is not None:
            line.called += 1
            self._is_called = True

    def _wake(self) -> None:
        self._waking = None
        self._woken(self.has_turn)

    @property
    def has_turn(self) -> bool:
        return self._turn is not None

    def begin_turn(self) -> None:
        """Note that this request is receiving: its operation comes before all later ones."""
        if self._is_called and self._turn is not None:
            self._turn.called -= 1
        self._is_called = False

    def leave(self) -> None:
        """Wait no longer for a turn. It leaves the lines at once, so that a message that comes now
        wakes the next request."""
        if self._timer is not None:
            self.resume(None)

    def cancel(self) -> None:
        """Leave without being told. A turn is for the next request."""
        if self._timer is not None:
            self._unpark()
        elif self._waking is not None:
            self._waking.cancel()
            self._waking = None
        self.end_turn(None)

    def end_turn(self, queue: QueueName | None) -> None:
        """Note that this request needs no more, because it has a message of that queue, or goes
        without one. A message of another queue that it was woken for is for the next request."""
        self.begin_turn()
        turn, self._turn = self._turn, None
        if turn is not None and (queue is None or turn is not self.lines[queue]):
            turn.wake(1)

    def _unpark(self) -> None:
        """Step out of all lines. One that wakes it has taken it out by itself."""
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None
        for line in self.lines.values():
            at = bisect_left(line.parked, self)
            if at < len(line.parked) and line.parked[at] is self:
                del line.parked[at]


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

    def parked_requests(self) -> int:
        """Return how many requests wait, also those in several lines once."""
        return len({waiter for line in self._lines.values() for waiter in line.parked})

    def count(self, queue: QueueName) -> int:
        """Return how many messages of a queue are for requests that wait. Those that are just
        receiving are not counted: their operations come before all later ones."""
        line = self._lines.get(queue)
        return 0 if line is None else len(line.parked) + line.called

    def enter(self, queues: Sequence[QueueName], woken: Callable[[bool], None]) -> Waiter:
        """Join the lines of these queues, until `exit`. Raises StoreUnavailable if
        MAX_WAITING_RECEIVES wait already."""
        if self._members >= MAX_WAITING_RECEIVES:
            raise StoreUnavailable("too many requests wait for messages; try again later")
        lines = {queue: self._lines.setdefault(queue, QueueWaiters()) for queue in queues}
        waiter = Waiter(lines, self._next_number, self._loop, woken)
        self._next_number += 1
        for line in lines.values():
            line.members += 1
        self._members += 1
        if self._members == 1:
            self._begin()
        return waiter

    def exit(self, waiter: Waiter) -> None:
        waiter.begin_turn()
        waiter.is_out = True
        self._members -= 1
        for queue, line in waiter.lines.items():
            line.members -= 1
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
                waiter.leave()
