"""When the clock of a run was set, and what it may have shown."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tests.soak.history import SECOND_NS, Event

_NEVER = 1 << 63


class Steps:
    """When the clock was set, and how far it was ahead from then on. At the beginning it is right;
    steps are added in order."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._ahead: list[tuple[int, int]] = [(0, 0)]

    def add(self, event: Event) -> None:
        self._times += [event.asked, event.ended]
        self._ahead.append((event.ended, int(event.seconds * SECOND_NS)))

    def between(self, begin: int, end: int) -> bool:
        """Whether the clock may have been set between those times."""
        first = bisect_left(self._times, begin)
        return bisect_right(self._times, end) > first or first % 2 == 1

    def shown_last(self, begin: int, end: int) -> int:
        """The latest time that the clock may have shown between those times."""
        since = bisect_right(self._times, begin) // 2
        until = (bisect_right(self._times, end) + 1) // 2
        return end + max(ahead for _, ahead in self._ahead[since : until + 1])

    def reached(self, since: int, time_ns: int) -> int:
        """When after `since` the clock certainly shows `time_ns`, or a later time."""
        ends = [at for at, _ in self._ahead[1:]] + [_NEVER]
        for (begin, ahead), end in zip(self._ahead, ends, strict=True):
            if (at := max(since, begin, time_ns - ahead)) < end:
                return at
        return _NEVER

    def is_one(self, time: int) -> bool:
        """Whether a step ended at that time."""
        return any(begin == time for begin, _ in self._ahead[1:])

    def shown_since(self, since: int, until: int, time_ns: int) -> int:
        """Since when, after `since`, the clock shows `time_ns` or a later time, up to `until`."""
        at = self.reached(since, time_ns)
        for begin, ahead in self._ahead:
            if at < begin <= until and begin + ahead < time_ns:
                at = self.reached(begin, time_ns)
        return at
