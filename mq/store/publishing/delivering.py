"""Deliver messages that are durable in `new`: to their queue, or to `delay`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from mq.commit.operation import Operation, Together
from mq.disk.calls import CLOSE, Call, Chain, check, run
from mq.disk.file_work import FileCalls, FileWork, do_together
from mq.errors import QueueLocked, QueueNotFound, StoreUnavailable
from mq.ids import Position, order_key
from mq.lifecycle import Folder
from mq.names import QueueName, file_name, queue_path
from mq.spool.moves import OpenFolder
from mq.store.joint import grouped
from mq.store.patience import Patience, with_queue
from mq.store.shared_state import Workspace, no_queue

log = structlog.get_logger(__name__)

_NEW, _QUEUES = Folder.NEW, Folder.QUEUES


class Linked(NamedTuple):
    """A message that has its name in `new`, on its way to a queue, and its file open and locked.
    `is_own` says that its producer brought the id; `stays_open` that the file, in which the body
    came, is closed elsewhere."""

    queue: QueueName
    position: Position
    visible_ns: int | None
    fd: int
    is_own: bool = False
    stays_open: bool = False


def deliver_all(work: Workspace, linked: Sequence[Linked]) -> Operation[list[bool | BaseException]]:
    """Deliver several messages of a queue. If another process has the queue to itself by now, which
    is over soon, all wait for that. Returns for each what `deliver_once_unlocked` returns or
    raises."""
    delivered = deliver_each(work, linked)
    locked = [at for at, outcome in enumerate(delivered) if isinstance(outcome, QueueLocked)]
    if locked:
        late: list[Any] = yield Together([deliver_once_unlocked(work, linked[at]) for at in locked])
        for at, outcome in zip(locked, late, strict=True):
            delivered[at] = outcome
    return delivered


def deliver_each(work: Workspace, linked: Sequence[Linked]) -> list[bool | BaseException]:
    """Deliver several messages, the moves of all in one go. Returns for each what `deliver` returns
    or raises."""
    delivered: list[bool | BaseException] = [*_move_usual(work, linked)]
    left = [at for at, is_moved in enumerate(delivered) if not is_moved]
    if left:
        outcomes = do_together([deliver(work, linked[at]) for at in left])
        for at, outcome in zip(left, outcomes, strict=True):
            delivered[at] = outcome
    return delivered


def _move_usual(work: Workspace, linked: Sequence[Linked]) -> list[bool]:
    """Deliver messages about which nothing is unusual. Returns for each whether it was moved; if
    not, `deliver` finds out what is wrong."""
    delivered, now_ns = [False] * len(linked), work.clock_ns()
    usual = [(at, each) for at, each in enumerate(linked) if not each.stays_open]
    ready = [(each.queue, at) for at, each in usual if each.visible_ns is None]
    hidden = [at for at, each in usual if each.visible_ns is not None and each.visible_ns > now_ns]
    source, opened = work.spool.opened(_NEW), []
    moving: list[int] = []
    moves: list[Call] = []
    for queue, numbers in grouped(ready).items():
        try:
            work.hold_queue(queue)
            opened.append(work.spool.queues.open(queue))
        except (QueueNotFound, QueueLocked, OSError):
            continue
        ids = [linked[at].position.message_id for at in numbers]
        names = [file_name(queue, each) for each in ids]
        target = OpenFolder(_QUEUES, opened[-1].fd)
        moves += work.spool.moves.rename_calls(source, target, names, ids)
        moving += numbers
    names = [file_name(linked[at].queue, linked[at].position.message_id) for at in hidden]
    moves += work.spool.moves.rename_calls(source, work.spool.opened(Folder.DELAY), names, names)
    moving += hidden
    chains: list[Chain] = [
        (move, (CLOSE, linked[at].fd)) for move, at in zip(moves, moving, strict=True)
    ]
    for at, (results, _) in zip(moving, run(work.files, chains), strict=True):
        delivered[at] = bool(results)
        queue, position, visible_ns, _, is_own, _ = linked[at]
        if results and visible_ns is None:
            message_id = position.message_id
            work.ready.add(queue, message_id, order_key(*position) if is_own else message_id)
    return delivered


def deliver_once_unlocked(work: Workspace, linked: Linked) -> Operation[bool]:
    """Do what `deliver` does, once no other process has the queue to itself."""
    patience: Patience | None = None
    while True:
        try:
            return (yield from deliver(work, linked))
        except QueueLocked:
            patience = patience or with_queue(linked.queue)
        try:
            yield patience.pause()
        except BaseException as error:
            let_go(work, linked)
            if isinstance(error, StoreUnavailable):
                return False
            raise


def deliver(work: Workspace, linked: Linked) -> FileWork[bool]:
    """Deliver a message, and let go of its file. Returns False if that is left to a sweep. Raises
    QueueLocked, with nothing done and the file open."""
    queue, (message_id, published_ns), visible_ns, fd, is_own, stays_open = linked
    name = file_name(queue, message_id)
    target, target_name = _QUEUES, queue_path(queue, message_id)
    if visible_ns is not None and visible_ns > work.clock_ns():
        target, target_name = Folder.DELAY, name
    is_open = True
    try:
        if target is _QUEUES:
            try:
                work.hold_queue(queue)
            except QueueNotFound:
                pass  # The move finds that out for itself.
        move, _keepers = work.spool.move_call(_NEW, name, target, target_name)
        closing: Chain = () if stays_open else ((CLOSE, fd),)
        results, code = yield FileCalls(work.files, (move, *closing))
        is_open = not closing or not results
        if not results:
            check((results, code))
    except FileNotFoundError:
        if work.spool.move(Folder.NEW, name, Folder.REMOVE, name):
            # The queue was deleted since the round began, and the message with it.
            raise no_queue(queue) from None
    except QueueLocked:
        is_open = False
        raise
    except OSError as error:
        log.error("delivery failed", name=name, error=str(error))
        return False
    else:
        if target is _QUEUES:
            key = order_key(message_id, published_ns) if is_own else message_id
            work.ready.add(queue, message_id, key)
    finally:
        if is_open:
            let_go(work, linked)
    return True


def let_go(work: Workspace, linked: Linked) -> None:
    """End the lock of a message's file, which is still open."""
    if not linked.stays_open:
        work.files.close(linked.fd)
        return
    with suppress(OSError):  # the lock also ends when the file is closed, which comes next
        work.files.unlock(linked.fd)
