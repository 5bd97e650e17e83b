"""Keys in their order, for one thread.

Most come in order: they stand in a list, and the first ones are taken by moving its beginning. The
few that come late are in a heap beside it. So what is added, taken or looked for costs as much in a
long queue as in a short one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_MANY_LATE = 1024
"""From this many late keys on, a look at all that follow a key sorts them in first."""

_MANY_TAKEN = 1024
"""Keys that were taken are dropped when they are this many, and a quarter of the list."""


class SortedKeys:
    """The first key is the smallest one. A key that is added twice is there twice."""

    __slots__ = ("_begin", "_late", "_run")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._run = sorted(keys)
        self._begin = 0
        self._late: list[str] = []

    def __len__(self) -> int:
        return len(self._run) - self._begin + len(self._late)

    def add(self, key: str) -> None:
        run = self._run
        if len(run) == self._begin or run[-1] <= key:
            run.append(key)
        else:
            heapq.heappush(self._late, key)

    def update(self, keys: Iterable[str]) -> None:
        """Add many keys."""
        self._late.extend(keys)
        self._sort_in()

    def first(self) -> str | None:
        """Return the first key, or None if there is none."""
        run, late = self._run, self._late
        if len(run) == self._begin:
            return late[0] if late else None
        key = run[self._begin]
        return late[0] if late and late[0] < key else key

    def take(self, limit: int) -> list[str]:
        """Take out the first `limit` keys, or all if there are fewer."""
        run, late, begin = self._run, self._late, self._begin
        if not late:
            taken = run[begin : begin + limit]
            begin += len(taken)
        else:
            taken = []
            for _ in range(min(limit, len(self))):
                if begin == len(run) or (late and late[0] < run[begin]):
                    taken.append(heapq.heappop(late))
                else:
                    taken.append(run[begin])
                    begin += 1
        if begin > _MANY_TAKEN and 4 * begin > len(run):
            del run[:begin]
            begin = 0
        self._begin = begin
        return taken

    def behind(self, key: str) -> Iterator[str]:
        """Iterate over the keys after this one, in order. None may be added or taken meanwhile."""
        if len(self._late) >= _MANY_LATE:
            self._sort_in()
        run, late = self._run, self._late
        first = bisect_right(run, key, self._begin) if key else self._begin
        in_order = (run[at] for at in range(first, len(run)))
        if not late:
            return in_order
        late.sort()  # A sorted list is a heap.
        return heapq.merge(in_order, late[bisect_right(late, key) :])

    def _sort_in(self) -> None:
        # Both parts are mostly sorted, which is what sort() is quick at.
        self._run = [*self._run[self._begin :], *self._late]
        self._run.sort()
        self._begin, self._late = 0, []
