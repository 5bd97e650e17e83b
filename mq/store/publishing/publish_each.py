"""Publish the messages of several requests under one barrier, each by itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation, Together, told
from mq.disk.calls import check, run
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName, file_name
from mq.store.context import Workspace, refuse_fifo
from mq.store.holding import hold
from mq.store.publishing.delivering import Linked, deliver_all, let_go
from mq.store.publishing.publish import (
    LINKED_IN_NEW,
    Draft,
    Published,
    linking,
    publish,
    visible_after,
)
from mq.store.settings import delay_ns


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
            yield from _sync(work, queue, linked.values())
            work.counts.of(queue).published += len(linked)
            delivered = yield from deliver_all(work, queue, [*linked.values()])
            are_late = not all(delivered)
            for (number, each), outcome in zip(linked.items(), delivered, strict=True):
                outcomes[number] = (
                    told(outcome)
                    if isinstance(outcome, BaseException)
                    else Published(each.position.message_id, each.visible_ns)
                )
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
) -> dict[int, Linked]:
    """Give messages their names in `new`. Returns those that have theirs, by their numbers, and
    enters in `outcomes` what is wrong with each of the others."""
    usual_ns = delay_ns(work, queue)
    positions = work.ids.next_positions([None] * len(drafts))
    chains, times = [], []
    for draft, (message_id, published_ns) in zip(drafts, positions, strict=True):
        hidden_ns = usual_ns if draft.delay_ns is None else draft.delay_ns
        visible_ns = visible_after(work, hidden_ns) if hidden_ns else None
        name = file_name(queue, message_id)
        chains.append(linking(work, draft, name, published_ns, visible_ns))
        times.append(visible_ns)
    linked: dict[int, Linked] = {}
    for number, outcome in enumerate(run(work.files, chains)):
        try:
            fd = check(outcome)[0]
        except OSError as error:
            outcomes[number] = told(error)
        else:
            linked[number] = Linked(positions[number], times[number], fd)
    return linked


def _sync(work: Workspace, queue: QueueName, linked: Collection[Linked]) -> Operation[None]:
    """Make messages durable in `new`. A failed sync takes their names back."""
    try:
        fds = tuple(each.fd for each in linked)
        yield Unsynced(fds, (), False, LINKED_IN_NEW, len(fds))
    except BaseException as error:
        for each in linked:
            if isinstance(error, StoreUnavailable):
                with suppress(OSError):
                    work.spool.unlink(Folder.NEW, file_name(queue, each.position.message_id))
            let_go(work, each)
        raise
