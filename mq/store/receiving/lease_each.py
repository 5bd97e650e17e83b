"""Receive from several queues at once, for requests of one round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.disk.calls import CODE, run
from mq.errors import MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName
from mq.spool.message.held import Lost
from mq.store.answer_memory import AnswerRoom
from mq.store.queue.expiry import expire_some
from mq.store.queue.settings import visibility_ns
from mq.store.receiving.oldest import PASSED, Ask, next_some, restore, taken_in_order
from mq.store.receiving.receive import close_all, drop_expired, drop_late
from mq.store.receiving.received_message import Received
from mq.store.receiving.taking import Taken, Taker
from mq.store.receiving.usual import Usual, close_usual
from mq.store.shared_state import Workspace, refuse_fifo


class _Taking(NamedTuple):
    """The oldest messages of a queue, out of its index and about to be taken for one who asked:
    `number` says who."""

    number: int
    queue: QueueName
    taker: Taker
    ids: Sequence[MessageId]


_Outcomes = list[list[Received] | None]


def lease_each(work: Workspace, asked: Sequence[tuple[QueueName, Ask]]) -> Operation[_Outcomes]:
    """Do what `lease_some` does, for several queues under one barrier. Returns the messages of
    each, or None if none was taken: something is unusual, and `lease_some` sees to it, while the
    others wait for nothing. Raises what concerns all of them."""
    outcomes: _Outcomes = [None] * len(asked)
    takings: list[_Taking] = []
    for number, (queue, ask) in enumerate(asked):
        try:
            found = _find(work, queue, ask)
        except (MQError, OSError):
            continue
        if found is not None:
            taker, ids = found
            takings.append(_Taking(number, queue, taker, ids))
    _take(work, takings, outcomes)
    work.reservations.release()
    taken = _all_of(outcomes)
    if not taken:
        return outcomes
    left = tuple([f"{Folder.QUEUES}/{each.queue}" for each in takings if outcomes[each.number]])
    try:
        yield Unsynced((), (Folder.DELAY,), implied=left, messages=len(taken))
    except BaseException:
        close_all(work, taken)
        raise
    for number, queue, *_ in takings:
        some = outcomes[number]
        if some:
            some = drop_expired(work, work.settings.of(queue), drop_late(work, some))
            outcomes[number] = some or None
            work.counts.of(queue).received += len(some)
    return outcomes


def _find(work: Workspace, queue: QueueName, ask: Ask) -> tuple[Taker, list[MessageId]] | None:
    """Take the oldest messages out of a queue's index. Returns them, of which there may be none,
    and what takes them; the queue is held. Returns None if more must be found out first. Raises
    QueueNotFound, QueueLocked, QueueIsFifo."""
    refuse_fifo(work, queue)
    work.hold_queue(queue)
    settings = work.settings.of(queue)
    ready = work.loaded_index(queue)
    if ready is None or settings.paused:
        return None
    if settings.ttl_seconds is not None and expire_some(work, queue, ready, settings):
        return None
    ids = next_some(work, queue, ready, ask.leave, ask.limit)
    if not ids and (work.ready.get(queue) is not ready or work.may_have_changed(queue, ready)):
        return None
    return Taker(work, queue, visibility_ns(work, settings, ask.visibility_ns)), ids


def _take(work: Workspace, takings: Sequence[_Taking], outcomes: _Outcomes) -> None:
    """Take messages, and enter them in `outcomes`. The file calls of all are made in one go."""
    files = work.files
    leasing: list[tuple[_Taking, list[Usual]]] = []
    read = iter(run(files, [chain for each in takings for chain in each.taker.readings(each.ids)]))
    try:
        for each in takings:
            some = [*islice(read, len(each.ids))]
            usual = None if any(map(CODE, some)) else each.taker.begin_all_usual(each.ids, some)
            if usual is None:
                how = each.taker.take_read(each.ids, some, AnswerRoom())
                outcomes[each.number] = _sort_out(work, each, how)
            else:
                leasing.append((each, usual))
        chains = [each.taker.lease_calls(one) for each, usual in leasing for one in usual]
        made = iter(run(files, chains))
    except BaseException:
        for results, code in read:
            if not code:
                files.close(results[0])
        for _, usual in leasing:
            close_usual(work, usual)
        for each in takings:
            restore(work, each.queue, each.ids)
        close_all(work, _all_of(outcomes))
        raise
    for each, usual in leasing:
        how = each.taker.end_usual(usual, [*islice(made, len(usual))])
        outcomes[each.number] = _sort_out(work, each, how)


def _sort_out(
    work: Workspace, taking: _Taking, outcomes: Sequence[Taken | Exception]
) -> list[Received] | None:
    """Return what was taken of one queue, None if that is nothing though something was there. What
    is left is back in the index, or gone."""
    taken = taken_in_order(work, outcomes)
    if len(taken) < len(outcomes):
        pairs = zip(taking.ids, outcomes, strict=True)
        restore(work, taking.queue, [each for each, how in pairs if how in PASSED])
        if Lost.GONE in outcomes:
            work.ready.drain()
    return taken or (None if outcomes else [])


def _all_of(outcomes: _Outcomes) -> list[Received]:
    return [each for some in outcomes if some for each in some]
