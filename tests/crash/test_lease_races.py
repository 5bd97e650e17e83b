"""A lease's holder against a redelivery and the next receiver, on two servers: one of them wins.

The holder prolongs the lease, releases the message or removes it, under `If-Match`, while its lease
has just run out; the other side is a mover, which goes by the stamp, and a receive after it.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mq.commit.operation import Operation
from mq.errors import LeaseMismatch, MessageNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.spool.message.held import Held, hold
from mq.spool.message.seal import due_ns, is_due
from mq.spool.redelivery import redeliver
from mq.store.by_id import Guard, release, take
from mq.store.receiving.received_message import Received
from mq.store.removing.remove_under_lease import remove_leased
from tests.crash.arena import HOUR_NS, LEASE, Arena, Races, Redelivered
from tests.support.faults import OldFiles, WatchedFiles
from tests.support.messages import read_seal
from tests.support.stores import ORDERS

LONG = [Races(WatchedFiles, 5_000), Races(OldFiles, 5_000)]
SHORT = [races._replace(times=races.times // 5) for races in LONG]
REACHED = [*SHORT, *(pytest.param(races, marks=pytest.mark.crash_long) for races in LONG)]
"""How many times, on each kind of file system, both sides are at work on the message at once."""

MOST_RACES_EACH = 12
"""For one that both sides come to."""

GUARD = Guard(frozenset({LEASE}))

Answered = Callable[[], Operation[Received | None]]


class LeaseArena(Arena):
    """The lease of the message has just run out; nobody has moved it yet."""

    def lease_again(self) -> None:
        super().lease_again()
        os.utime(self.leased, ns=(1, 1))

    def hold_on(self, operation: Answered) -> str:
        """The holder's side; returns the answer's status."""
        while True:
            try:
                self.remover.run(operation())
                return "200"
            except StoreUnavailable:
                continue
            except MessageNotFound:
                return "404"
            except LeaseMismatch:
                return "412"

    def heartbeat(self) -> str:
        return self.hold_on(lambda: take(self.remover.work, ORDERS, self.id, HOUR_NS, GUARD))

    def release(self) -> str:
        return self.hold_on(lambda: release(self.remover.work, ORDERS, self.id, GUARD))

    def remove_guarded(self) -> str:
        leases = GUARD.leases
        return self.hold_on(lambda: remove_leased(self.remover.work, ORDERS, self.id, leases))

    def redeliver(self) -> Redelivered:
        """Redeliver the message as the mover does: if it is not due it stays."""
        spool = self.other.spool
        delay = spool.opened(Folder.DELAY)
        held = hold(spool.files, delay.fd, self.leased.name)
        if not isinstance(held, Held):
            return Redelivered()
        with held:
            if not is_due(due_ns(held.status, 0), time.time_ns()):
                return Redelivered()
            began_ns = time.perf_counter_ns()
            moved_to = redeliver(spool.moves, held, delay, spool.queues)
            return Redelivered(began_ns, time.perf_counter_ns()) if moved_to else Redelivered()


@pytest.fixture
def arena(races: Races, tmp_path: Path) -> Iterator[LeaseArena]:
    with ExitStack() as closer:
        yield LeaseArena(tmp_path / "root", races.files, closer)


def wrong_in(arena: LeaseArena, deed: str, status: str, received: Received | None) -> str | None:
    """What must not be; None if all is well."""
    if status == "404":
        return "not found"
    if deed == "release" and status == "200":
        # Whether before the other side's receive or after it: the old lease is worth nothing.
        lease = read_seal(arena.places()[0]).lease
        return None if lease == (received.lease if received else 0) else "lease after release"
    if (status == "200") == (received is not None):
        return "both won" if received else "nobody won"
    if received is not None:
        seal = read_seal(arena.leased)
        is_theirs = (seal.lease, seal.receive_count) == (received.lease, 1)
        return None if arena.places() == [arena.leased] and is_theirs else "stolen"
    if deed == "heartbeat":
        seal, status_of = read_seal(arena.leased), arena.leased.stat()
        is_ours = (seal.lease, seal.receive_count) == (LEASE, 0)
        is_kept = status_of.st_mtime_ns > time.time_ns() + HOUR_NS // 2
        return None if arena.places() == [arena.leased] and is_ours and is_kept else "not kept"
    return None if arena.places() == [arena.removed] else "not removed"


@pytest.mark.parametrize("races", REACHED, ids=str)
def test_holder_or_next_receiver_wins_and_never_both(arena: LeaseArena, races: Races) -> None:
    deeds = {
        "heartbeat": arena.heartbeat,
        "release": arena.release,
        "remove": arena.remove_guarded,
    }
    tally: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    most = MOST_RACES_EACH * races.times
    while tally["reached"] < races.times and tally["races"] < most:
        deed = random.choice(list(deeds))
        status, redelivered, is_reached = arena.race(deeds[deed], arena.redeliver_and_receive)

        found = wrong_in(arena, deed, status, redelivered.received)
        if found is not None:
            wrong[f"{deed}: {found}"] += 1
        tally["races"] += 1
        tally["reached"] += is_reached
        tally[f"{deed} {status}"] += 1
        arena.lease_again()

    assert wrong == {}, tally
    assert tally["reached"] >= races.times, tally
    for deed in deeds:
        assert tally[f"{deed} 200"] > 0 < tally[f"{deed} 412"], tally
