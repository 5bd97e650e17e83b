"""Receive: take the oldest messages under a lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.errors import QueueNotFound
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.message.held import Lost
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.holding import hold
from mq.store.indexing import MAX_LISTINGS, listing
from mq.store.place import place_in
from mq.store.queue.expiry import expire_leased, expire_some, expiring
from mq.store.queue.settings import visibility_ns
from mq.store.receiving.lease import check_large, set_aside_leased
from mq.store.receiving.oldest import Ask, take_one, take_some
from mq.store.receiving.put_back import give_back
from mq.store.receiving.received_message import BODY, VISIBLE_NS, Received
from mq.store.receiving.waiting import MAX_WAITING_RECEIVES
from mq.store.shared_state import Workspace, refuse_fifo
from mq.times import in_ns

_MAX_LATE = 10
"""After this many leases that ended before the message could be delivered, a receive ends empty:
its visibility timeout is too short for this disk."""


ReceivedOrBusy = list[Received] | Literal[Lost.BUSY]
"""Messages that were taken, of which there may be none; or that others hold all there are."""

Receive = Callable[[Workspace, QueueName, Ask], Operation[ReceivedOrBusy]]
"""As `receive_some`."""


def receive(
    work: Workspace, queue: QueueName, visibility_ns: int | None = None
) -> Operation[Received | None]:
    """Take the oldest message that nobody else takes, or return None if there is none. See
    `receive_some`."""
    taken = yield from receive_some(work, queue, Ask(visibility_ns))
    return taken[0] if isinstance(taken, list) and taken else None


def receive_first(
    work: Workspace, asked: Sequence[tuple[QueueName, Ask]], by: Receive
) -> Operation[ReceivedOrBusy]:
    """Take what is asked for of the first queue that has any, as `by` does. Those who wait for a
    queue that is missing find that out too. Raises QueueNotFound, QueueIsFifo, StoreUnavailable."""
    was_busy = False
    for queue, ask in asked:
        try:
            taken = yield from by(work, queue, ask)
        except QueueNotFound:
            work.ready.came(queue, MAX_WAITING_RECEIVES)
            raise
        if isinstance(taken, list) and taken:
            return taken
        was_busy = was_busy or taken is Lost.BUSY
    return Lost.BUSY if was_busy else []


def receive_some(work: Workspace, queue: QueueName, ask: Ask) -> Operation[ReceivedOrBusy]:
    """Take messages as `lease_some` does, whose bodies pass their seals. In place of a damaged one,
    which goes to `corrupt`, the next is taken."""
    for _ in range(_MAX_LATE):
        taken = yield from lease_some(work, queue, ask)
        if not isinstance(taken, list) or not taken:
            return taken
        if len(taken) > 1 or taken[0].body is None:
            taken = yield from check_bodies(work, taken)
        if taken:
            return taken
    return []


def lease_some(work: Workspace, queue: QueueName, ask: Ask) -> Operation[ReceivedOrBusy]:
    """Take the oldest messages that nobody else takes, up to MAX_BODIES_BYTES of bodies or what the
    share of the memory holds, but at least one. Returns no messages if there are none, and
    Lost.BUSY if others hold all of them.

    On return the leases survive a power cut, and the bodies in memory pass their seals; the others
    are still to be checked by `check_bodies`. A crash before that leaves each message in its queue,
    or in `delay` until its stamp is due. After a lost race the next message is taken; a damaged one
    goes to `corrupt`, and the next is taken. Raises QueueNotFound, QueueIsFifo, StoreUnavailable.
    """
    refuse_fifo(work, queue)
    listings = late = 0
    while late < _MAX_LATE:
        yield from hold(work, queue)
        settings = work.settings.of(queue)
        if settings.paused:
            return []
        ready = work.loaded_index(queue)
        if ready is not None:
            if settings.ttl_seconds is not None and expire_some(work, queue, ready, settings):
                yield expiring(work, queue)
                continue
            hidden_ns = visibility_ns(work, settings, ask.visibility_ns)
            taken, was_busy = (
                take_some(work, queue, ready, ask, hidden_ns)
                if ask.limit > 1
                else (yield from take_one(work, queue, ready, ask, hidden_ns))
            )
            if taken:
                try:
                    yield taken_from(queue, len(taken))
                except BaseException:
                    close_all(work, taken)
                    raise
                taken = drop_expired(work, settings, drop_late(work, taken))
                work.counts.of(queue).received += len(taken)
                if taken:
                    return taken
                late += 1
                continue
            if work.ready.get(queue) is ready and not work.may_have_changed(queue, ready):
                return Lost.BUSY if was_busy else []
        if listings == MAX_LISTINGS:
            break
        listings += 1
        yield listing(work, queue)
    return []


@lru_cache(maxsize=1024)
def taken_from(queue: QueueName, messages: int = 1) -> Unsynced:
    """Return what moving messages from the queue to `delay` leaves to sync."""
    implied = (f"{Folder.QUEUES}/{queue}",)
    return Unsynced((), (Folder.DELAY,), implied=implied, messages=messages)


def drop_late(work: Workspace, taken: list[Received]) -> list[Received]:
    """Return the messages before the first whose lease is over, and give the others back: the next
    to be received is the oldest one again. If the barrier outlasted the lease, another receiver may
    have the message by now, and then keeps it."""
    now_ns = work.clock_ns()
    if min(map(VISIBLE_NS, taken), default=now_ns + 1) > now_ns:
        return taken
    kept = [*takewhile(lambda each: each.visible_ns > now_ns, taken)]
    give_back(work, taken[len(kept) :])
    # Only this tells the index what the mover has brought back meanwhile.
    work.ready.drain()
    return kept


def drop_expired(work: Workspace, settings: QueueSettings, taken: list[Received]) -> list[Received]:
    """Return the messages that are not too old, and remove the others: `expire_some` has not seen
    them, because they have come back since, or another process held them."""
    limit_ns = in_ns(settings.ttl_seconds)
    if limit_ns is None:
        return taken
    latest_ns, kept = work.clock_ns() - limit_ns, []
    for each in taken:
        place = place_in(Folder.DELAY, each.queue, each.message_id)
        if each.published_ns <= latest_ns and expire_leased(work, place, each.lease, limit_ns):
            each.close(work.files)
        else:
            kept.append(each)
    return kept


def check_bodies(work: Workspace, taken: list[Received]) -> Operation[list[Received]]:
    """Check large bodies before any receiver gets their first byte. Returns the messages that are
    whole and still under their lease. A damaged one goes to `corrupt`."""
    if None not in map(BODY, taken):
        return taken
    good = taken
    try:
        checked: list[Received | None] = yield InWorker(check_large, work.files, taken)
        damaged = [each for each, found in zip(taken, checked, strict=True) if found is None]
        good = [each for each in checked if each is not None]
        for each in damaged:
            each.close(work.files)
        for each in damaged:
            set_aside_leased(work, each)
    except BaseException:
        give_back(work, good)
        raise
    return drop_late(work, [each.without_idle_file(work.files) for each in good])


def close_all(work: Workspace, taken: Sequence[Received]) -> None:
    for each in taken:
        each.close(work.files)
