"""Redrive: dead letters go back to the queue they came from."""

from __future__ import annotations

from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.config import MAX_FETCH_MESSAGES
from mq.errors import IdTaken, LeaseMismatch, MessageNotFound
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path, redriven_id
from mq.properties import NO_PROPERTIES
from mq.spool.message import FAULTS_OF_ONE_MESSAGE, Held, Lost, hold_in
from mq.spool.seal import NO_LEASE
from mq.spool.trailer import pack_trailer, read_properties
from mq.store.context import Workspace
from mq.store.indexing import load_index
from mq.store.own_id import finder_for, lock_ids, open_twin
from mq.store.publish import Draft
from mq.store.remove import remove_leased
from mq.times import rfc3339


class _Redriven(NamedTuple):
    """A dead letter that was published in its queue already, by a redrive over HTTP that broke off.

    `lease` is that of the dead letter; `twin` is open at the message that was published.
    """

    message_id: MessageId
    lease: int
    twin: int


def redrive(work: Workspace, queue: QueueName, dead: QueueName) -> Operation[int]:
    """Move ready messages of `dead` to `queue`, oldest first; returns how many, at the most
    MAX_FETCH_MESSAGES.

    Each keeps its id, type and publication time, and with them its place in the order. Its count
    begins anew: else it would be buried again after one receive. One that a redrive over HTTP has
    published in `queue` already is removed from `dead` instead, and counts as moved. On return all
    of it survives a power cut; after a crash each message is in one of the two queues. Raises
    QueueNotFound, StoreUnavailable.
    """
    work.require_queue(queue)
    ready = yield from load_index(work, dead)
    work.hold_queue(queue)
    work.hold_queue(dead)
    work.ready.drain()
    passed: list[MessageId] = []
    published: list[_Redriven] = []
    moved = 0
    try:
        while moved + len(published) < MAX_FETCH_MESSAGES and (each := ready.pop()) is not None:
            outcome = _move_or_report(work, queue, dead, each)
            if outcome is None:
                work.ready.add(queue, each)
                moved += 1
            elif isinstance(outcome, _Redriven):
                published.append(outcome)
            elif outcome is Lost.BUSY:
                passed.append(each)
        for message_id in passed:
            work.ready.restore(dead, message_id)
        if moved or published:
            # A twin may be a crash's leftover, not synced yet; its dead letter goes after that.
            folders = (Folder.NEW, f"{Folder.QUEUES}/{dead}", f"{Folder.QUEUES}/{queue}")
            yield Unsynced(tuple(each.twin for each in published), folders[not published :])
    finally:
        for redriven in published:
            work.files.close(redriven.twin)
    for redriven in published:
        moved += yield from _remove(work, dead, redriven)
    return moved


def _move_or_report(
    work: Workspace, queue: QueueName, dead: QueueName, message_id: MessageId
) -> _Redriven | Lost | None:
    """What is wrong with one message keeps no other from its queue."""
    try:
        return _move(work, queue, dead, message_id)
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_MESSAGE:
            raise
        work.report(f"{Folder.QUEUES}/{dead}/{message_id}", str(error.strerror))
        return Lost.BUSY


def _move(
    work: Workspace, queue: QueueName, dead: QueueName, message_id: MessageId
) -> _Redriven | Lost | None:
    """None if it was moved. A failure leaves the message as it was."""
    name = queue_path(dead, message_id)
    held = hold_in(work.spool, Folder.QUEUES, name)
    if isinstance(held, Lost):
        return held
    with held:
        draft = _draft_over_http(work, dead, message_id, held)
        assert draft.message_id is not None
        lock = lock_ids(work.spool, queue, [draft.message_id])
        if lock is None:
            return Lost.BUSY
        try:
            twin = _find_twin(work, queue, draft)
            if isinstance(twin, Lost):
                return Lost.BUSY
            if twin is not None:
                return _Redriven(message_id, held.lease, twin)
            return None if _rename(work, queue, message_id, held) else Lost.GONE
        finally:
            work.files.close(lock)


def _rename(work: Workspace, queue: QueueName, message_id: MessageId, held: Held) -> bool:
    """False if it is gone."""
    before, moved = held.seal, False
    try:
        if before is not None:
            fresh = before._replace(receive_count=0, lease=NO_LEASE, first_received_ns=0)
            held.write_seal(fresh)
        target = queue_path(queue, message_id)
        moved = work.spool.move(Folder.QUEUES, held.name, Folder.QUEUES, target)
    finally:
        if before is not None and not moved:
            held.write_seal(before)
    return moved


def _draft_over_http(work: Workspace, dead: QueueName, message_id: MessageId, held: Held) -> Draft:
    """What `mqctl redrive` over HTTP publishes of a dead letter."""
    found = held.sum()
    properties = read_properties(work.files, held.fd, held.seal) or NO_PROPERTIES
    own_id = redriven_id(dead, message_id, rfc3339(held.published_ns(message_id)))
    trailer = pack_trailer(properties)
    return Draft(found.length, found.crc32, message_id=own_id, trailer=trailer)


def _find_twin(work: Workspace, queue: QueueName, draft: Draft) -> int | Lost | None:
    """Another message of that id is none."""
    try:
        return open_twin(work, finder_for(work, queue), queue, draft)
    except IdTaken:
        return None


def _remove(work: Workspace, dead: QueueName, redriven: _Redriven) -> Operation[bool]:
    """Whether the dead letter was removed. Somebody else may have received it meanwhile."""
    try:
        leases = frozenset({redriven.lease})
        yield from remove_leased(work, dead, redriven.message_id, leases)
    except (LeaseMismatch, MessageNotFound):
        return False
    return True
