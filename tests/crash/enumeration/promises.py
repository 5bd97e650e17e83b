"""What must hold after a cut, and whether what there is after a restart keeps it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from tests.crash.enumeration.clock import RESTART_NS, SECOND_NS

ANY_LEASE = 0
"""The lease of a message that is delayed, or is just being taken by another receiver."""

_ASKING_NS = SECOND_NS
"""What a request may take: a delay begins after it was asked for."""


class Is(Enum):
    """What a client may rely on."""

    SURE = "sure"
    MAYBE = "maybe"
    NOT = "not"


class Got(NamedTuple):
    """A message as a receiver got it after a restart."""

    queue: str
    message_id: str
    body: bytes


class Outcome(NamedTuple):
    """What there was after a restart: queues and their settings; what was ready; what came when
    every lease was over; the leases and due times of what was hidden; all contents of files; what
    the restart left."""

    queues: frozenset[str]
    settings: frozenset[tuple[str, str]]
    now: tuple[Got, ...]
    later: tuple[Got, ...]
    hidden: tuple[tuple[str, int, int], ...]
    contents: frozenset[bytes]
    leftovers: tuple[str, ...]


class Promise(NamedTuple):
    """What must hold of one message after a cut. It is hidden until some time between the two. The
    messages with the bodies `before` were published before anybody asked to publish this one."""

    body: bytes
    message_id: str | None
    queues: frozenset[str]
    exists: Is
    hidden: Is
    hidden_until_ns: int
    hidden_at_most_ns: int
    lease: int
    before: frozenset[bytes]


class Promises(NamedTuple):
    """Of messages and queues; the settings that a queue has if it exists; contents that must still
    be in some file; the bodies of each batch that is there whole or not at all; messages with the
    batches that they are handed over for."""

    messages: frozenset[Promise]
    queues: frozenset[tuple[str, Is]]
    settings: frozenset[tuple[str, str]]
    kept: frozenset[bytes]
    batches: frozenset[frozenset[bytes]]
    handovers: frozenset[tuple[bytes, frozenset[bytes]]]


def violations(promises: Promises, outcome: Outcome) -> list[str]:
    """What was promised and does not hold."""
    messages, queues, settings, kept, batches, handovers = promises
    found = [f"queue {q} is {'gone' if is_ is Is.SURE else 'back'}" for q, is_ in queues
             if (is_ is Is.SURE and q not in outcome.queues)
             or (is_ is Is.NOT and q in outcome.queues)]  # fmt: skip
    found += [f"queue {q} without its settings" for q, text in settings - outcome.settings
              if q in outcome.queues]  # fmt: skip
    found += [f"left behind: {name}" for name in outcome.leftovers]
    found += [f"destroyed: {content[:40]!r}" for content in kept - outcome.contents]
    known = {promise.body: promise for promise in messages}
    there = {got.body for got in (*outcome.now, *outcome.later)}
    found += [
        f"part of a batch: {len(batch & there)} of {len(batch)}"
        for batch in batches
        if batch & there and batch - there
    ]
    found += [
        f"handed over in part: {body[:40]!r} {'and' if body in there else 'without'} its batch"
        for body, batch in handovers
        if (body in there) == bool(batch & there)
    ]
    times = Counter(got.body for got in (*outcome.now, *outcome.later))
    found += [f"given out twice: {body[:40]!r}" for body, number in times.items() if number > 1]
    found += [*_reordered(known, outcome.now), *_reordered(known, outcome.later)]
    for got in {*outcome.now, *outcome.later}:
        promise = known.get(got.body)
        if promise is None or got.queue not in promise.queues:
            found.append(f"torn, or never published there: {got}")
        elif promise.message_id not in (None, got.message_id):
            found.append(f"under another id: {got}")
    hidden = {message_id: (lease, due) for message_id, lease, due in outcome.hidden}
    for promise in messages:
        found += _violations_of(promise, outcome, hidden)
    return found


def _reordered(known: dict[bytes, Promise], came: tuple[Got, ...]) -> Iterator[str]:
    """Those of one queue come as they were published."""
    behind: dict[str, set[bytes]] = defaultdict(set)
    for got in reversed(came):
        promise = known.get(got.body)
        if promise is not None and promise.before & behind[got.queue]:
            yield f"given out before an older one: {got}"
        behind[got.queue].add(got.body)


def _violations_of(
    promise: Promise, outcome: Outcome, hidden: dict[str, tuple[int, int]]
) -> list[str]:
    in_now = any(got.body == promise.body for got in outcome.now)
    in_later = any(got.body == promise.body for got in outcome.later)
    if promise.exists is Is.NOT:
        what = "came back" if in_now or in_later else ""
    elif not in_now and not in_later:
        what = "is lost" if promise.exists is Is.SURE else ""
    else:
        what = _is_in_the_wrong_place(promise, in_now, hidden)
    return [f"message {promise.body[:40]!r} {what}"] if what else []


def _is_in_the_wrong_place(
    promise: Promise, in_now: bool, hidden: dict[str, tuple[int, int]]
) -> str:
    """A message that came, at once or later; what is wrong with that, empty if nothing is."""
    is_leased = promise.hidden is Is.SURE and promise.hidden_until_ns > RESTART_NS
    if is_leased and in_now:
        return "was given out although it is under a lease"
    if promise.hidden is Is.SURE and not is_leased and not in_now:
        return "is still hidden after its lease"
    if promise.hidden is Is.NOT and not in_now:
        return "is hidden without a lease"
    if is_leased and promise.message_id is not None:
        lease, due = hidden.get(promise.message_id, (0, 0))
        is_lease = promise.lease in (lease, ANY_LEASE)
        if not is_lease or due < promise.hidden_until_ns:
            return "is under another lease"
        if due > promise.hidden_at_most_ns + _ASKING_NS:
            return "is hidden for too long"
    return ""
