"""Publish the messages of several requests under one barrier, each by itself, to any queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from mq.commit.barrier import Unsynced
from mq.commit.operation import Apart, Done, Operation, Submitted, client_error
from mq.disk.calls import ABSENT, check, run
from mq.errors import MQError, QueueLocked, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.store.joint import grouped, operations_for
from mq.store.publishing.copies import most_in_one_set, publish_copies
from mq.store.publishing.delivering import (
    Linked,
    deliver_each,
    deliver_once_unlocked,
    let_go,
)
from mq.store.publishing.own_id import keep_unless_twin, lock_missing
from mq.store.publishing.publish import LINKED_IN_NEW, Draft, Published, linking, visible_after
from mq.store.queue.settings import delay_ns
from mq.store.shared_state import Workspace, refuse_fifo

ToPublish = tuple[QueueName, Draft, Done]
"""A message with its body in memory, for a queue; and its caller."""

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
    messages: Counter[QueueName] = Counter()
    locks: list[int] = []
    are_late = False
    try:
        usual = _usual(work, asked, by_queue, locks)
        messages.update([queue for _, queue, _, _ in usual])
        work.undelivered.update(messages)
        linked = _link_all(work, usual, outcomes)
        if linked:
            yield from _sync(work, linked.values())
            for queue, count in Counter([each.queue for each in linked.values()]).items():
                work.counts.of(queue).published += count
            delivered = deliver_each(work, [*linked.values()])
            are_late = not all(delivered)
            left = _left_in_new(work, linked) if locks else set()
            waiting: list[Submitted] = []
            for (number, each), outcome in zip(linked.items(), delivered, strict=True):
                if number in left:
                    outcomes[number] = yield from _end_own(work, asked[number], each, outcome)
                elif isinstance(outcome, QueueLocked):
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
        for lock in locks:
            work.files.close(lock)
        for queue, count in messages.items():
            work.end_delivery(queue, count)
        if are_late:
            # The locks are free by now: a sweep passes over what another process holds.
            work.request_sweep()


_OWN_ID = attrgetter("message_id")

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
        some = [(asked[number][1:], asked[number][2]) for number in numbers]
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
    work: Workspace,
    asked: Sequence[ToPublish],
    by_queue: Mapping[QueueName, Sequence[int]],
    locks: list[int],
) -> list[_Usual]:
    """Return the messages about whose queues and own ids nothing is unusual. Those queues are held,
    and `locks` gets what holds the ids."""
    usual: list[_Usual] = []
    for queue, numbers in by_queue.items():
        drafts = [asked[number][1] for number in numbers]
        if not _is_usual(work, queue, drafts):
            continue
        usual_ns, own = delay_ns(work, queue), [*filter(None, map(_OWN_ID, drafts))]
        new_ids = _lock_new(work, queue, own, locks) if own else set()
        for number, draft in zip(numbers, drafts, strict=True):
            if draft.message_id is not None:
                if draft.message_id not in new_ids:
                    continue
                new_ids.remove(draft.message_id)  # Another one with that id comes after this one.
            usual.append((number, queue, draft, usual_ns))
    return usual


def _lock_new(
    work: Workspace, queue: QueueName, ids: Sequence[MessageId], locks: list[int]
) -> set[MessageId]:
    """Return those own ids that no message has. If one is being published just now, or something
    is wrong with the look, none is new."""
    # What a message of another host leaves in this one's memory takes other looks.
    found = None
    if not work.files.is_of_network:
        with suppress(MQError, OSError):
            found = lock_missing(work, queue, [*dict.fromkeys(ids)])
    if found is None:
        return set()
    lock, missing = found
    locks.append(lock)
    return missing


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
    positions = work.ids.next_positions([draft.message_id for _, _, draft, _ in usual])
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
        number, queue, draft, _ = usual[at]
        try:
            fd = check(outcome)[0]
        except OSError as error:
            outcomes[number] = client_error(error)
        else:
            is_own = draft.message_id is not None
            linked[number] = Linked(queue, positions[at], times[at], fd, is_own)
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


def _left_in_new(work: Workspace, linked: Mapping[int, Linked]) -> set[int]:
    """Return the numbers of the messages with own ids for which there is a file in `new`: their
    own, or one that was put there after the look."""
    own = {number: each for number, each in linked.items() if each.is_own}
    fd = work.spool.fd(Folder.NEW)
    names = [file_name(each.queue, each.position.message_id) for each in own.values()]
    looks = run(work.files, [((ABSENT, fd, name),) for name in names])
    return {number for number, (_, code) in zip(own, looks, strict=True) if code}


def _end_own(
    work: Workspace, asked: ToPublish, linked: Linked, outcome: bool | BaseException
) -> Operation[Outcome]:
    """Return what becomes of a message with an own id for which there is a file in `new`. The lock
    of the id is held until that is known."""
    queue, draft, _ = asked
    try:
        if isinstance(outcome, QueueLocked):
            if not (yield from deliver_once_unlocked(work, linked)):
                work.request_sweep()
        elif isinstance(outcome, BaseException):
            raise outcome
        return (yield from keep_unless_twin(work, queue, draft, _published(linked)))
    except Exception as error:
        return client_error(error)


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
