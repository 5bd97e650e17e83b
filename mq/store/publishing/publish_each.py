"""Publish the messages of several requests under one barrier, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Together, told
from mq.disk.calls import check, run
from mq.disk.file_work import do_together
from mq.errors import QueueLocked, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import Position, QueueName, file_name
from mq.store.context import Workspace, refuse_fifo
from mq.store.holding import hold
from mq.store.publishing.publish import (
    LINKED_IN_NEW,
    Draft,
    Published,
    deliver,
    deliver_once_unlocked,
    let_go,
    linking,
    publish,
)


class _Linked(NamedTuple):
    """A message that has its name in `new`."""

    number: int
    draft: Draft
    fd: int
    place: tuple[Position, int | None]


def publish_each(
    work: Workspace, queue: QueueName, drafts: Sequence[Draft]
) -> Operation[list[Published | BaseException]]:
    """Do what `publish` does, for several messages of one queue, with bodies in memory and without
    own ids. Returns for each what that returns or raises. Raises what concerns all of them."""
    refuse_fifo(work, queue)
    yield from hold(work, queue)
    if not _is_usual(work, queue, drafts):
        one_by_one: list[Any] = yield Together([publish(work, queue, each) for each in drafts])
        return one_by_one
    outcomes: list[Any] = [None] * len(drafts)
    are_late = False
    work.undelivered[queue] += len(drafts)
    try:
        linked = _link_all(work, queue, drafts, outcomes)
        if linked:
            yield from _sync(work, queue, linked)
            work.counts.of(queue).published += len(linked)
            are_late = yield from _deliver_all(work, queue, linked, outcomes)
        return outcomes
    finally:
        work.end_delivery(queue, len(drafts))
        if are_late:
            # The locks are free by now: a sweep passes over what another process holds.
            work.request_sweep()


def _is_usual(work: Workspace, queue: QueueName, drafts: Sequence[Draft]) -> bool:
    """Return whether nothing can be wrong with only some of them before their files are made."""
    trailers = sum(len(each.trailer) for each in drafts)
    if trailers and not work.spool.has_long_seals:
        return False
    try:
        work.require_room(trailers + sum(len(each.body or b"") for each in drafts))
        return work.has_space(queue, len(drafts))
    except StoreUnavailable:
        return False  # There may be room for some.


def _link_all(
    work: Workspace, queue: QueueName, drafts: Sequence[Draft], outcomes: list[Any]
) -> list[_Linked]:
    """Give messages their names in `new`. Enters in `outcomes` what is wrong with one."""
    positions = [work.ids.next_position() for _ in drafts]
    chains, places = [], []
    for draft, position in zip(drafts, positions, strict=True):
        name = file_name(queue, position.message_id)
        chain, visible_ns = linking(work, queue, draft, name, position.published_ns)
        chains.append(chain)
        places.append((position, visible_ns))
    linked = []
    for number, outcome in enumerate(run(work.files, chains)):
        try:
            fd = check(outcome)[0]
        except OSError as error:
            outcomes[number] = told(error)
        else:
            linked.append(_Linked(number, drafts[number], fd, places[number]))
    return linked


def _sync(work: Workspace, queue: QueueName, linked: Sequence[_Linked]) -> Operation[None]:
    """Make messages durable in `new`. A failed sync takes their names back."""
    try:
        fds = tuple(each.fd for each in linked)
        yield Unsynced(fds, (), False, LINKED_IN_NEW, len(fds))
    except BaseException as error:
        for each in linked:
            if isinstance(error, StoreUnavailable):
                with suppress(OSError):
                    work.spool.unlink(Folder.NEW, file_name(queue, each.place[0].message_id))
            let_go(work, each.draft, each.fd)
        raise


def _deliver_all(
    work: Workspace, queue: QueueName, linked: Sequence[_Linked], outcomes: list[Any]
) -> Operation[bool]:
    """Deliver messages. Returns whether some are left to a sweep."""
    delivered: list[Any] = do_together(
        [deliver(work, queue, each.draft, each.fd, each.place) for each in linked]
    )
    locked = [at for at, outcome in enumerate(delivered) if isinstance(outcome, QueueLocked)]
    if locked:
        waiting = [
            deliver_once_unlocked(work, queue, each.draft, each.fd, each.place)
            for each in (linked[at] for at in locked)
        ]
        late: list[Any] = yield Together(waiting)
        for at, outcome in zip(locked, late, strict=True):
            delivered[at] = outcome
    are_late = False
    for each, outcome in zip(linked, delivered, strict=True):
        (message_id, _), visible_ns = each.place
        if isinstance(outcome, BaseException):
            outcomes[each.number] = told(outcome)
        else:
            are_late = are_late or not outcome
            outcomes[each.number] = Published(message_id, visible_ns)
    return are_late
