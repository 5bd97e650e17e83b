"""Publish the messages of several requests under one barrier, each by itself, to any queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import Apart, Done, Operation, Submitted, client_error
from mq.disk.calls import check, run
from mq.errors import MQError, QueueLocked, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName, file_name
from mq.store.joint import grouped, operations_for
from mq.store.publishing.copies import most_in_one_set, publish_copies
from mq.store.publishing.delivering import (
    Linked,
    deliver_each,
    deliver_once_unlocked,
    let_go,
)
from mq.store.publishing.publish import LINKED_IN_NEW, Draft, Published, linking, visible_after
from mq.store.queue.settings import delay_ns
from mq.store.shared_state import Workspace, refuse_fifo

ToPublish = tuple[QueueName, Draft, Done]
"""A message with its body in memory and without an own id, for a queue; and its caller."""

Outcome = Published | BaseException | Submitted | None
"""What `publish_one` returns or raises. Or, so that the others wait for nothing: None if nothing
was done, because something about the queue is unusual, and `publish_one` is to see to it; or the
operation that goes on with the message, and then tells the caller."""


def publish_each(work: Workspace, asked: Sequence[ToPublish]) -> Operation[list[Outcome]]:
    """Do what `publish_one` does, for several messages. Raises what concerns all of them."""
    outcomes: list[Any] = [None] * len(asked)
    by_queue = grouped([(queue, number) for number, (queue, *_) in enumerate(asked)])
    copying = _begin_copying(work, asked, by_queue, outcomes)
    if not copying:
        return (yield from _publish_usual(work, asked, by_queue, outcomes))
    try:
        yield Apart(copying)
        return (yield from _publish_usual(work, asked, by_queue, outcomes))
    except Exception as error:
        # It does not concern those, who are told what becomes of theirs.
        why = client_error(error)
        return [each if isinstance(each, Submitted) else why for each in outcomes]


def _publish_usual(
    work: Workspace,
    asked: Sequence[ToPublish],
    by_queue: Mapping[QueueName, Sequence[int]],
    outcomes: list[Any],
) -> Operation[list[Outcome]]:
    """Publish the messages of `by_queue` about whose queues nothing is unusual. Returns the
    outcomes. Raises what concerns all of them."""
    usual = _usual(work, asked, by_queue)
    messages = Counter([queue for _, queue, _, _ in usual])
    are_late = False
    work.undelivered.update(messages)
    try:
        linked = _link_all(work, usual, outcomes)
        if linked:
            yield from _sync(work, linked.values())
            for queue, count in Counter([each.queue for each in linked.values()]).items():
                work.counts.of(queue).published += count
            delivered = deliver_each(work, [*linked.values()])
            are_late = not all(delivered)
            waiting: list[Submitted] = []
            for (number, each), outcome in zip(linked.items(), delivered, strict=True):
                if isinstance(outcome, QueueLocked):
                    messages[each.queue] -= 1
                    outcomes[number] = Submitted(_deliver_late(work, each), asked[number][2])
                    waiting.append(outcomes[number])
                elif isinstance(outcome, BaseException):
                    outcomes[number] = client_error(outcome)
                else:
                    outcomes[number] = _published(each)
            if waiting:
                yield Apart(waiting)
        return outcomes
    finally:
        for queue, count in messages.items():
            work.end_delivery(queue, count)
        if are_late:
            # The locks are free by now: a sweep passes over what another process holds.
            work.request_sweep()


_Usual = tuple[int, QueueName, Draft, int]
"""A message about whose queue nothing is unusual: its number, and how long it is hidden, in ns, if
its producer does not say."""


def _begin_copying(
    work: Workspace,
    asked: Sequence[ToPublish],
    by_queue: dict[QueueName, list[int]],
    outcomes: list[Any],
) -> list[Submitted]:
    """Take the messages whose queues have settings `also` out of `by_queue`. Returns operations
    that publish them and tell their callers; the outcome of each is one of these."""
    begun: list[Submitted] = []
    for queue in [*by_queue]:
        copies = _copies(work, queue)
        if not copies:
            continue
        numbers, most = by_queue.pop(queue), most_in_one_set((queue, *copies))
        some = [asked[number][1:] for number in numbers]
        begun += operations_for(some, most, partial(publish_copies, work, (queue,)))
        for number in numbers:
            outcomes[number] = begun[-1]
    return begun


def _copies(work: Workspace, queue: QueueName) -> Sequence[QueueName]:
    """Return the queues that the setting `also` names."""
    try:
        return work.settings.of(queue).also or ()
    except OSError:
        return ()  # This is unusual: the publish meets it again.


def _usual(
    work: Workspace, asked: Sequence[ToPublish], by_queue: Mapping[QueueName, Sequence[int]]
) -> list[_Usual]:
    """Return the messages about whose queues nothing is unusual. Those queues are held."""
    usual: list[_Usual] = []
    for queue, numbers in by_queue.items():
        drafts = [asked[number][1] for number in numbers]
        if _is_usual(work, queue, drafts):
            usual_ns = delay_ns(work, queue)
            usual += [
                (number, queue, draft, usual_ns)
                for number, draft in zip(numbers, drafts, strict=True)
            ]
    return usual


def _is_usual(work: Workspace, queue: QueueName, drafts: Sequence[Draft]) -> bool:
    """Hold the queue. Returns whether nothing can be wrong with these messages before their files
    are made."""
    trailers = sum([len(each.trailer) for each in drafts])
    if trailers and not work.spool.has_long_seals:
        return False
    try:
        refuse_fifo(work, queue)
        work.hold_queue(queue)
        work.require_room(trailers + sum([len(each.body or b"") for each in drafts]))
        return work.knows_space(queue, len(drafts))
    except (MQError, OSError):
        return False


def _link_all(work: Workspace, usual: Sequence[_Usual], outcomes: list[Any]) -> dict[int, Linked]:
    """Give messages their names in `new`. Returns those that have theirs, by their numbers, and
    enters in `outcomes` what is wrong with each of the others."""
    positions = work.ids.next_positions([None] * len(usual))
    chains, times = [], []
    for each, (message_id, published_ns) in zip(usual, positions, strict=True):
        _, queue, draft, usual_ns = each
        hidden_ns = usual_ns if draft.delay_ns is None else draft.delay_ns
        visible_ns = visible_after(work, hidden_ns) if hidden_ns else None
        name = file_name(queue, message_id)
        chains.append(linking(work, draft, name, published_ns, visible_ns))
        times.append(visible_ns)
    linked: dict[int, Linked] = {}
    for at, outcome in enumerate(run(work.files, chains)):
        number, queue, *_ = usual[at]
        try:
            fd = check(outcome)[0]
        except OSError as error:
            outcomes[number] = client_error(error)
        else:
            linked[number] = Linked(queue, positions[at], times[at], fd)
    return linked


def _sync(work: Workspace, linked: Collection[Linked]) -> Operation[None]:
    """Make messages durable in `new`. A failed sync takes their names back."""
    try:
        fds = tuple([each.fd for each in linked])
        yield Unsynced(fds, (), False, LINKED_IN_NEW, len(fds))
    except BaseException as error:
        for each in linked:
            if isinstance(error, StoreUnavailable):
                with suppress(OSError):
                    name = file_name(each.queue, each.position.message_id)
                    work.spool.unlink(Folder.NEW, name)
            let_go(work, each)
        raise


def _deliver_late(work: Workspace, linked: Linked) -> Operation[Published]:
    """Deliver a message whose queue another process has to itself, once that is over."""
    is_late = False
    try:
        is_late = not (yield from deliver_once_unlocked(work, linked))
        return _published(linked)
    finally:
        work.end_delivery(linked.queue, 1)
        if is_late:
            work.request_sweep()


def _published(linked: Linked) -> Published:
    return Published(linked.position.message_id, linked.visible_ns)
