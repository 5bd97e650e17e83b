"""Index: the names in a queue's folder, in memory, so that no call needs to list them all.

It is only as true as what it was told: by a listing, by file system events, and by the steps of its
own process. Telling it the same thing twice does no harm.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from vsqs.names import LAST_TIME, NEW, READY, Name

_STALE_ALLOWED = 64


class Index:
    """The states of each message, usually one."""

    def __init__(self) -> None:
        self.newest = -1
        """The greatest time of a message ever seen, even of one that is gone."""
        self.size = 0
        """The number of ready and consumed messages."""
        self._states: dict[int, tuple[str, ...]] = {}
        self._ready: list[int] = []
        self._expiries: list[tuple[int, int]] = []

    def load(self, names: Iterable[Name]) -> None:
        """Replace the names by those that a listing found."""
        self._states.clear()
        self._ready.clear()
        self._expiries.clear()
        self.size = 0
        for name in sorted(names):
            self.add(name)

    def add(self, name: Name) -> None:
        time, state = name
        states = self._get(time)
        if state != NEW:
            self.saw(time)
        if state in states:
            return
        self._states[time] = (*states, state)
        if state == NEW:
            return
        self.size += 1
        if state == READY:
            heapq.heappush(self._ready, time)
        else:
            heapq.heappush(self._expiries, (int(state), time))

    def saw(self, time: int) -> None:
        """Note the time of a message: later ones must have greater times. A name at the end of the
        range tells nothing, because no time is greater."""
        if time <= LAST_TIME:
            self.newest = max(self.newest, time)

    def discard(self, name: Name) -> None:
        """Forget a name. Its place in a heap is skipped later."""
        time, state = name
        states = self._get(time)
        if state not in states:
            return
        left = tuple(other for other in states if other != state)
        if left:
            self._states[time] = left
        else:
            del self._states[time]
        if state != NEW:
            self.size -= 1
            self._forget_stale()

    def published_names(self, time: int) -> list[Name]:
        """Return the names of the message of that time, ready or consumed; usually one, or none."""
        return [Name(time, state) for state in self._get(time) if state != NEW]

    def is_taken(self, time: int) -> bool:
        """Return whether there is a file of that time, even if it is still being written."""
        return time in self._states

    def oldest(self) -> Name | None:
        """Return the first ready message, by number: "99" before "100"."""
        while self._ready:
            time = self._ready[0]
            if READY in self._get(time):
                return Name(time, READY)
            heapq.heappop(self._ready)
        return None

    def ready_names(self) -> list[Name]:
        """Return the ready messages, oldest first."""
        ready = sorted(time for time, states in self._states.items() if READY in states)
        return [Name(time, READY) for time in ready]

    def first_to_expire(self) -> Name | None:
        """Return the consumed message whose expiry, `int(name.state)`, comes first."""
        while self._expiries:
            expiry, time = self._expiries[0]
            if str(expiry) in self._get(time):
                return Name(time, str(expiry))
            heapq.heappop(self._expiries)
        return None

    def leave(self, name: Name) -> None:
        """Pass over what `oldest` or `first_to_expire` has just returned, until it is added again.
        It counts all the same."""
        if name.state == READY:
            heapq.heappop(self._ready)
        else:
            heapq.heappop(self._expiries)

    def _forget_stale(self) -> None:
        """Keep the heaps in proportion to the messages."""
        most = 2 * self.size + _STALE_ALLOWED
        if len(self._ready) > most:
            self._ready = sorted({time for time in self._ready if READY in self._get(time)})
        if len(self._expiries) > most:
            live = {(e, time) for e, time in self._expiries if str(e) in self._get(time)}
            self._expiries = sorted(live)

    def _get(self, time: int) -> tuple[str, ...]:
        return self._states.get(time, ())
