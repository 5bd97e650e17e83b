"""Which messages of a FIFO queue may be received, and in which order. Knows no files.

A message is ready, or hidden: leased, or not there yet (delayed, or on its way). While a message of
a group is leased, no other one of that group is received; while one is not there yet, none behind
it. Of the groups that have a message to receive, the one whose message is oldest comes first.

A key is a message's place in the order (`mq.ids.order_key`). Each step takes the time of a heap.
"""

from __future__ import annotations

import heapq
from enum import Enum

from mq.ids import id_of_key

_SPARE = 64


class Hiding(Enum):
    """Why a message cannot be received."""

    LEASED = "leased"
    COMING = "coming"


class _Group:
    """The messages of one group. The heaps may have keys that are out of date; `offered` is the
    first message if it can be received."""

    __slots__ = ("coming", "leased", "name", "offered", "ready", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: list[str] = []
        self.ready = 0
        self.leased = 0
        self.coming: list[str] = []
        self.offered: str | None = None


class Groups:
    """The groups of one queue. Telling it twice, or forgetting what it does not know, changes
    nothing."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, _Group] = {}
        self._hidden: dict[str, Hiding] = {}
        self._offers: list[str] = []
        self.available = 0
        """The number of groups that have a message to receive."""

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._group_of

    def group_of(self, message_id: str) -> str | None:
        group = self._group_of.get(message_id)
        return None if group is None else group.name

    def is_hidden(self, message_id: str) -> bool:
        return message_id in self._hidden

    def add(self, key: str, name: str) -> None:
        """Note a message that was not known: it is ready."""
        message_id = id_of_key(key)
        if message_id in self._group_of:
            return
        group = self._enter(message_id, name)
        self._make_ready(group, key)
        # What comes behind the offered message changes nothing.
        if group.offered is None or key < group.offered:
            self._offer(group)

    def hide(self, key: str, name: str, hiding: Hiding) -> None:
        """Note a message that was not known: it is hidden."""
        message_id = id_of_key(key)
        if message_id in self._group_of:
            return
        group = self._enter(message_id, name)
        self._hide(group, key, message_id, hiding)
        # What is to come behind the offered message changes nothing.
        if group.offered is not None and (hiding is Hiding.LEASED or key < group.offered):
            self._offer(group)

    def show(self, key: str) -> None:
        """Note that a known message is ready, at the place that it had before."""
        message_id = id_of_key(key)
        group = self._group_of[message_id]
        hiding = self._hidden.pop(message_id, None)
        if hiding is None:
            return
        group.leased -= hiding is Hiding.LEASED
        self._make_ready(group, key)
        is_behind = group.offered is not None and group.offered < key
        if group.leased or is_behind:
            self._first_coming(group)  # So that the heap does not grow.
        else:
            self._offer(group)

    def forget(self, message_id: str) -> None:
        """Note that a message is gone."""
        group = self._group_of.pop(message_id, None)
        if group is None:
            return
        hiding = self._hidden.pop(message_id, None)
        group.leased -= hiding is Hiding.LEASED
        group.ready -= hiding is None
        self._offer(group)

    def take(self, limit: int) -> list[str]:
        """Take up to `limit` messages, and return their keys; they are leased from here on. The
        group that comes first gives as many as it has, then the next."""
        taken: list[str] = []
        while len(taken) < limit and self._offers:
            key = heapq.heappop(self._offers)
            group = self._group_of.get(id_of_key(key))
            if group is not None and group.offered == key:
                taken += self._take_from(group, limit - len(taken))
                self._offer(group)
        return taken

    def _take_from(self, group: _Group, limit: int) -> list[str]:
        taken: list[str] = []
        while len(taken) < limit:
            key = self._first(group)
            coming = self._first_coming(group)
            if key is None or (coming is not None and coming < key):
                break
            heapq.heappop(group.waiting)
            group.ready -= 1
            group.leased += 1
            self._hidden[id_of_key(key)] = Hiding.LEASED
            taken.append(key)
        return taken

    def _enter(self, message_id: str, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(name)
        self._group_of[message_id] = group
        return group

    def _make_ready(self, group: _Group, key: str) -> None:
        heapq.heappush(group.waiting, key)
        group.ready += 1
        if len(group.waiting) > 2 * group.ready + _SPARE:
            group.waiting = sorted({each for each in group.waiting if self._is_ready(group, each)})

    def _hide(self, group: _Group, key: str, message_id: str, hiding: Hiding) -> None:
        self._hidden[message_id] = hiding
        if hiding is Hiding.LEASED:
            group.leased += 1
        else:
            heapq.heappush(group.coming, key)

    def _first(self, group: _Group) -> str | None:
        while group.waiting and not self._is_ready(group, group.waiting[0]):
            heapq.heappop(group.waiting)
        return group.waiting[0] if group.waiting else None

    def _is_ready(self, group: _Group, key: str) -> bool:
        message_id = id_of_key(key)
        return self._group_of.get(message_id) is group and message_id not in self._hidden

    def _first_coming(self, group: _Group) -> str | None:
        while group.coming and self._hidden.get(id_of_key(group.coming[0])) is not Hiding.COMING:
            heapq.heappop(group.coming)
        return group.coming[0] if group.coming else None

    def _offer(self, group: _Group) -> None:
        """Find out what the group has to receive, after each change."""
        key, coming = self._first(group), self._first_coming(group)
        if group.leased or (coming is not None and key is not None and coming < key):
            key = None
        if key != group.offered:
            self.available += (key is not None) - (group.offered is not None)
            group.offered = key
            if key is not None:
                self._push(key)
        if not (group.ready or group.leased or group.coming):
            del self._groups[group.name]

    def _push(self, key: str) -> None:
        if len(self._offers) > 2 * self.available + _SPARE:
            offered = (group.offered for group in self._groups.values())
            self._offers = sorted(each for each in offered if each is not None)
        else:
            heapq.heappush(self._offers, key)
