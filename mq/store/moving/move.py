"""Move a message: it goes from one queue to another as it is, by one rename.

This serves redrive, "dead now", and moving between queues. A message keeps its id, its type, and
its publication time, and with that its place in the order; its count begins at 0. It is ready in
the target, whatever its state was before.

The lock of the id, which a publisher under an own id takes too, is held from before the look at
what the target has until the rename is done: a queue never has two messages with one id.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from mq.commit.barrier import Unsynced
from mq.commit.operation import Operation
from mq.config import SECOND_NS
from mq.errors import IdTaken, InvalidRequest, MQError, TooOld
from mq.ids import order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.message.burial import DEAD_ATTRIBUTE, burial_of, change_burial
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.message.seal import NO_LEASE
from mq.store.holding import hold_all
from mq.store.indexing import MAX_LISTINGS, being_made_again, listing
from mq.store.place import Place, place_in
from mq.store.publishing.twins import has_another, lock_ids
from mq.store.queue.expiry import would_expire
from mq.store.receiving.oldest import MOST_FAILURES
from mq.store.shared_state import Workspace, refuse_fifo

MOVES_AT_ONCE = 32
"""How many messages are moved before other requests have their turn."""


class Moving(NamedTuple):
    """The two queues of a move. With a `reason` the messages are dead letters in the target, and
    say where they came from and why; it is text that a header can carry
    (`mq.names.is_dead_reason`). With `died_in` only dead letters of that queue are moved."""

    source: QueueName
    target: QueueName
    reason: str | None = None
    died_in: QueueName | None = None


class MovedMessages(NamedTuple):
    """How many messages were moved, and which stay: the target has other messages with the ids in
    `taken`; another process has those in `held`, or the disk does not open them."""

    number: int
    taken: list[MessageId]
    held: list[MessageId]


def check_move(work: Workspace, moving: Moving) -> None:
    """Raise QueueNotFound, or InvalidRequest or QueueIsFifo for a move that can never be made."""
    if moving.source == moving.target:
        raise InvalidRequest(f"messages of queue {moving.source} are in it already; name another")
    if moving.reason is not None and not work.spool.has_seals:
        raise InvalidRequest(
            "the file system of this root has no extended attributes, so a message cannot keep a "
            "reason; move it without one"
        )
    for queue in (moving.target, moving.source):
        work.require_queue(queue)
        refuse_fifo(work, queue)


def prepare_move(work: Workspace, moving: Moving) -> Operation[None]:
    """Prepare a move: on return both queues are held, the source's index is loaded, and the target
    has room. Raises QueueNotFound, StoreUnavailable."""
    for _ in range(MAX_LISTINGS):
        yield from hold_both(work, moving)
        if work.loaded_index(moving.source) is None:
            yield listing(work, moving.source)
        elif not work.knows_space(moving.target):
            yield listing(work, moving.target)
        else:
            return
    raise being_made_again(moving.source)


def hold_both(work: Workspace, moving: Moving) -> Operation[None]:
    """Hold both queues. A deletion of either waits until the message has its new name: so one of
    the source misses none of its messages, and one of the target none that was moved there."""
    return hold_all(work, (moving.source, moving.target))


def try_move(
    work: Workspace, moving: Moving, message_id: MessageId, failures: list[OSError]
) -> MQError | Lost | None:
    """Move a message. Returns None if it was moved, or else what is wrong with it alone. An EIO is
    appended to `failures`, and raised once they are too many to concern single messages. After
    TooOld no more are tried: those behind would overtake the message."""
    name = queue_path(moving.source, message_id)
    try:
        work.knows_space(moving.target)  # It raises an error if the queue has none.
        held = hold_in(work.spool, Folder.QUEUES, name)
        if isinstance(held, Lost):
            if held is Lost.FOREIGN:
                work.report(f"{Folder.QUEUES}/{name}", held.value)
            return held
        with held:
            place = place_in(Folder.QUEUES, moving.source, message_id)
            return move_message(work, moving, place, held)
    except MQError as error:
        return error
    except OSError as error:
        is_alone = error.errno in FAULTS_OF_ONE_MESSAGE
        if error.errno == errno.EIO:
            failures.append(error)
            is_alone = len(failures) < MOST_FAILURES
        if not is_alone:
            work.ready.restore(moving.source, message_id)
            raise
        work.report(f"{Folder.QUEUES}/{name}", str(error.strerror))
        return Lost.BUSY


def move_message(work: Workspace, moving: Moving, place: Place, held: Held) -> Lost | None:
    """Move a held message. Returns None if it was moved, Lost.GONE if it is gone or did not die
    where it should have, Lost.BUSY if another process is just publishing its id in the target, or
    is at work on the removed message that had it there. Raises IdTaken, TooOld, OSError. A failure
    leaves the message as it was."""
    message_id = place.message_id
    if moving.died_in is not None:
        burial = burial_of(work.files, held.fd, moving.source)
        if burial is None or burial.queue != moving.died_in:
            return Lost.GONE  # Another one has its id by now.
    _refuse_too_old(work, moving, place, held)
    lock = lock_ids(work.spool, moving.target, [message_id])
    if lock is None:
        return Lost.BUSY
    try:
        another = has_another(work, moving.target, message_id, held.status.st_ino)
        if isinstance(another, Lost):
            return another
        if another:
            raise FileExistsError
        if not _rename(work, moving, place, held):
            return Lost.GONE
    except FileExistsError:
        raise IdTaken(
            f"queue {moving.target} has another message {message_id}: this one stays in queue "
            f"{moving.source}; remove one of the two"
        ) from None
    finally:
        work.files.close(lock)
    key = order_key(message_id, held.published_ns(message_id))
    work.ready.add(moving.target, message_id, key)
    return None


def _refuse_too_old(work: Workspace, moving: Moving, place: Place, held: Held) -> None:
    """Raise TooOld if the target would remove a message at once. A dead letter goes there all the
    same, as one does that was received too often: its receiver wants to be rid of it."""
    if moving.reason is not None or not would_expire(work, moving.target, place, held):
        return
    age_seconds = (work.clock_ns() - held.published_ns(place.message_id)) / SECOND_NS
    ttl_seconds = work.settings.of(moving.target).ttl_seconds
    raise TooOld(
        f"message {place.message_id} was published {age_seconds:.0f} seconds ago, and queue "
        f"{moving.target} would remove it at once, because its ttl is {ttl_seconds:g}: it stays in "
        f"queue {moving.source}; raise that ttl first"
    )


def _rename(work: Workspace, moving: Moving, place: Place, held: Held) -> bool:
    """Rename a held message. Returns False if it is gone."""
    seal, burial, moved = held.seal, None, False
    try:
        if work.spool.has_seals:
            burial = change_burial(work.files, held.fd, moving.source, moving.reason)
        if seal is not None:
            fresh = seal._replace(receive_count=0, lease=NO_LEASE, first_received_ns=0)
            held.write_seal(fresh)
        target = queue_path(moving.target, place.message_id)
        moved = work.spool.move(place.folder, held.name, Folder.QUEUES, target)
    finally:
        if seal is not None and not moved:
            held.write_seal(seal)
        if burial is not None and not moved:
            work.files.set_attribute(held.fd, DEAD_ATTRIBUTE, burial[0])
    return moved


def unsynced_move(moving: Moving, *folders: Folder) -> Unsynced:
    """Return what a move out of one of these folders leaves to sync."""
    queue = f"{Folder.QUEUES}/{moving.source}"
    sources = tuple([queue if each is Folder.QUEUES else str(each) for each in folders])
    return Unsynced((), (f"{Folder.QUEUES}/{moving.target}",), implied=sources)


def count_moved(work: Workspace, moving: Moving, number: int) -> None:
    counted = work.counts.of(moving.source)
    counted.moved += number
    if moving.reason is not None:
        counted.dead_lettered += number
