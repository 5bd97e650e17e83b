"""What clients of a FIFO queue asked for and were told, and what of it breaks a promise.

    lost         sent, and at the end nobody has asked for its deletion
    back         received after its deletion was answered
    twice        one body under two ids or sequence numbers
    number       a sequence number that is not above that of a message sent before
    overtaken    another message of its group was received while it was certainly there
    in flight    received while it, or another message of its group, was in flight elsewhere
    refused      a receipt that did not work although its lease lasted

Each request is noted with the times between which the gateway did it, by one clock in seconds that
does not go back. One without an answer may have been done, at any time from its beginning on. So
every fault is certain, whatever was killed or stopped meanwhile. Bodies are unique, and stand for
deduplication ids.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

CLOCKS_SECONDS = 0.05
"""A lease counts as certain for this much less than it is to last: the gateway has another
clock."""


class FifoOutcome(Enum):
    DONE = "done"
    REFUSED = "not done"
    UNKNOWN = "done or not"


class FifoSent(NamedTuple):
    """A message that was sent, in a batch or alone. Without an answer `message_id` is empty."""

    begun: float
    ended: float
    group: str
    body: str
    message_id: str = ""
    number: int = 0


class FifoGiven(NamedTuple):
    """A message in an answer, to be hidden for `seconds`. `receive` is the same for those of one
    answer, which are noted in its order."""

    receive: int | str
    begun: float
    ended: float
    seconds: float
    group: str
    body: str
    message_id: str
    number: int
    handle: str


class FifoChange(NamedTuple):
    """A change under a handle: `seconds` is the new visibility, None for a deletion."""

    begun: float
    ended: float
    body: str
    handle: str
    seconds: float | None
    outcome: FifoOutcome


class FifoFault(NamedTuple):
    kind: str
    body: str
    detail: str


@dataclass
class FifoHistory:
    """Threads may append to the lists. `may_leave` is the time from which on a message may have
    left the queue in another way than by a deletion: as a dead letter, by its age, in a purge."""

    sent: list[FifoSent] = field(default_factory=list)
    given: list[FifoGiven] = field(default_factory=list)
    asked: list[FifoChange] = field(default_factory=list)
    may_leave: dict[str, float] = field(default_factory=dict)

    def is_over(self) -> bool:
        """Return whether everything that was sent may be gone."""
        gone = self._gone()
        return all(gone[each.body] < math.inf for each in [*self.sent] if each.message_id)

    def faults(self) -> list[FifoFault]:
        """Return what breaks a promise, once everything was received that could be."""
        gone, changes = self._gone(), _changes(self.asked)
        leases = [each for given in self.given for each in _lease(given, changes[given.body])]
        return [
            *self._lost(gone),
            *self._back(),
            *_sent_twice(self.sent, self.given),
            *_wrong_numbers(self.sent, self.given),
            *_overtaken(_known(self.sent, self.given), self.given, gone),
            *_overlapping(leases),
            *(each for given in self.given for each in _refused(given, changes[given.body])),
        ]

    def _gone(self) -> Mapping[str, float]:
        """Return from when on each message may be gone."""
        gone = defaultdict(lambda: math.inf, self.may_leave)
        for each in [*self.asked]:
            if each.seconds is None and each.outcome is not FifoOutcome.REFUSED:
                gone[each.body] = min(gone[each.body], each.begun)
        return gone

    def _lost(self, gone: Mapping[str, float]) -> Iterator[FifoFault]:
        for body in {each.body for each in self.sent if each.message_id}:
            if gone[body] == math.inf:
                yield FifoFault("lost", body, "its send was answered")

    def _back(self) -> Iterator[FifoFault]:
        """Yield what came back. An expired handle is refused, so after a deletion that is done
        there is nothing left."""
        removed: dict[str, float] = {}
        for each in self.asked:
            if each.seconds is None and each.outcome is FifoOutcome.DONE:
                removed[each.body] = min(removed.get(each.body, math.inf), each.ended)
        for given in self.given:
            if given.begun > removed.get(given.body, math.inf):
                yield FifoFault(
                    "back", given.body, f"deleted by {removed[given.body]}, then {given}"
                )


class _SentByThen(NamedTuple):
    """A message that was certainly sent by the time `since`. `last` is when the last receive began
    that gave it out."""

    group: str
    number: int
    body: str
    since: float
    last: float


def _known(sent: Sequence[FifoSent], given: Sequence[FifoGiven]) -> list[_SentByThen]:
    """Return the messages in their order."""
    found: dict[str, _SentByThen] = {}
    for each in _told(sent, given):
        known = found.get(each.body)
        since, last = each.ended, each.begun if isinstance(each, FifoGiven) else -math.inf
        if known is not None:
            since, last = min(since, known.since), max(last, known.last)
        found[each.body] = _SentByThen(each.group, each.number, each.body, since, last)
    return sorted(found.values(), key=lambda each: each.number)


def _told(sent: Sequence[FifoSent], given: Sequence[FifoGiven]) -> list[FifoSent | FifoGiven]:
    """Return what says the id and the number of a message."""
    return [*(each for each in sent if each.message_id), *given]


def _sent_twice(sent: Sequence[FifoSent], given: Sequence[FifoGiven]) -> Iterator[FifoFault]:
    known: dict[str, tuple[str, int]] = {}
    for each in _told(sent, given):
        names = each.message_id, each.number
        if known.setdefault(each.body, names) != names:
            yield FifoFault("twice", each.body, f"{known[each.body]} and {names}")


def _wrong_numbers(sent: Sequence[FifoSent], given: Sequence[FifoGiven]) -> Iterator[FifoFault]:
    """Yield numbers that are out of order: what was answered before another message was first sent
    must have a smaller one."""
    numbers = {each.body: each.number for each in _known(sent, given)}
    begun: dict[str, float] = {}
    for each in sent:
        begun[each.body] = min(begun.get(each.body, math.inf), each.begun)
    ends = [(each.ended, True, each.body) for each in sent if each.message_id]
    begins = [(time, False, body) for body, time in begun.items() if body in numbers]
    highest = 0
    for _, is_end, body in sorted(ends + begins):
        if is_end:
            highest = max(highest, numbers[body])
        elif numbers[body] <= highest:
            yield FifoFault("number", body, f"{numbers[body]} after {highest}")


def _overtaken(
    known: Sequence[_SentByThen], given: Sequence[FifoGiven], gone: Mapping[str, float]
) -> Iterator[FifoFault]:
    """Yield what was certainly in its queue when one behind it was received: it had been sent when
    the receive began, and nobody had asked for its deletion when that ended; or it was received
    later on. It may come before the other one in the same answer."""
    lines: dict[str, list[_SentByThen]] = defaultdict(list)
    for each in known:
        lines[each.group].append(each)
    here: dict[int | str, set[str]] = defaultdict(set)
    for received in sorted(given, key=lambda each: each.ended):
        line, time = lines[received.group], received.ended
        # What is gone by now is of no interest later on.
        while line and max(gone[line[0].body], line[0].last) < time:
            del line[0]
        for other in line:
            if other.number >= received.number:
                break
            was_there = other.since < received.begun and gone[other.body] >= time
            if (was_there or other.last >= time) and other.body not in here[received.receive]:
                yield FifoFault("overtaken", other.body, f"{other} by {received}")
        here[received.receive].add(received.body)


class _Lease(NamedTuple):
    """A message that is certainly in flight from one moment to another."""

    begun: float
    ended: float
    given: FifoGiven


def _changes(asked: Iterable[FifoChange]) -> Mapping[str, Sequence[FifoChange]]:
    changes = defaultdict(list)
    for each in sorted(asked, key=lambda each: each.begun):
        changes[each.body].append(each)
    return changes


def _ends(
    given: FifoGiven, changes: Iterable[FifoChange]
) -> Iterator[tuple[FifoChange | None, float]]:
    """Yield each change that was asked for while a lease certainly lasted, with its end before
    that; then None, with the end that it had."""
    end, most = given.begun + given.seconds - CLOCKS_SECONDS, math.inf
    for change in changes:
        if not given.begun <= change.begun < end:
            continue
        yield change, end
        if change.outcome is FifoOutcome.REFUSED:
            continue
        if change.seconds is None or change.handle != given.handle:
            end = change.begun
            continue
        if change.outcome is FifoOutcome.UNKNOWN:
            # It may be done later, and after other changes.
            most = min(most, change.seconds)
        until = change.begun + min(change.seconds, most) - CLOCKS_SECONDS
        end = until if change.outcome is FifoOutcome.DONE else min(end, until)
    yield None, end


def _lease(given: FifoGiven, changes: Iterable[FifoChange]) -> Iterator[_Lease]:
    [*_, (_, end)] = _ends(given, changes)
    if given.ended < end:
        yield _Lease(given.ended, end, given)


def _refused(given: FifoGiven, changes: Iterable[FifoChange]) -> Iterator[FifoFault]:
    for change, end in _ends(given, changes):
        if change is None or change.handle != given.handle:
            continue
        if change.outcome is FifoOutcome.REFUSED and change.ended < end:
            yield FifoFault("refused", given.body, f"{change} of {given}")


def _overlapping(leases: Iterable[_Lease]) -> Iterator[FifoFault]:
    under_way: dict[str, list[_Lease]] = defaultdict(list)
    for lease in sorted(leases, key=lambda each: each.begun):
        group = lease.given.group
        current = [each for each in under_way[group] if each.ended > lease.begun]
        for each in current:
            if each.given.receive != lease.given.receive:
                yield FifoFault(
                    "in flight", lease.given.body, f"{each.given} and then {lease.given}"
                )
        under_way[group] = [*current, lease]
