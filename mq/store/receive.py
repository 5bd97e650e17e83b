"""Receive: take the oldest message under a lease. Release: give it back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import structlog

from mq.barrier import Unsynced
from mq.commit import Operation
from mq.config import SMALL_BODY_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.ready import ReadyQueue
from mq.spool.files import Files
from mq.spool.message import (
    FAULTS_OF_ONE_MESSAGE,
    NO_LEASE,
    Held,
    Lost,
    Seal,
    hold,
    measure,
    new_lease,
    read_body,
    round_up,
    set_aside,
)
from mq.store.workspace import Retry, Workspace

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A message under a lease: its body in memory, or `fd`, open at it, for the caller to close.

    Times in ns since 1970. `receive_count` is None on a file system without seals.
    """

    queue: QueueName
    message_id: MessageId
    length: int
    crc32: int | None
    content_type: str | None
    lease: int
    receive_count: int | None
    published_ns: int
    visible_ns: int
    body: bytes | None
    fd: int = -1

    def close(self, files: Files) -> None:
        if self.fd >= 0:
            files.close(self.fd)


def receive(
    work: Workspace, queue: QueueName, visibility_ns: int
) -> Operation[Received | Retry | None]:
    """Take the oldest message that nobody else takes; None if there is none.

    On return its lease survives a power cut. A crash before that leaves it in its queue, or in
    `delay` until its stamp is due. A lost race takes the next message; a damaged one goes to
    `corrupt` and the next is taken. Raises QueueNotFound, StoreUnavailable.
    """
    ready = work.loaded_index(queue)
    if ready is None:
        return Retry.LIST
    unsynced = Unsynced((), (Folder.DELAY, f"{Folder.QUEUES}/{queue}"))
    while (received := _take_next(work, queue, ready, visibility_ns)) is not None:
        try:
            yield unsynced
        except BaseException:
            received.close(work.files)
            raise
        if received.visible_ns > work.clock_ns():
            return received
        # The barrier outlasted the lease: somebody else may have the message by now.
        received.close(work.files)
    was_dropped = work.ready.get(queue) is not ready
    return Retry.LIST if was_dropped or work.may_have_changed(queue, ready) else None


def _take_next(
    work: Workspace, queue: QueueName, ready: ReadyQueue, visibility_ns: int
) -> Received | None:
    """Go through the index until a message is ours; None when the index has run dry.

    What is wrong with one message costs that message alone: it is reported once and passed over.
    """
    passed: list[MessageId] = []
    drained = False
    try:
        while True:
            message_id = ready.pop(among=work.config.peers + 1)
            if message_id is None:
                if drained:
                    return None
                work.ready.drain()
                drained = True
                continue
            try:
                outcome = _take(work, queue, message_id, visibility_ns)
            except OSError as error:
                passed.append(message_id)
                if error.errno not in FAULTS_OF_ONE_MESSAGE:
                    raise
                work.report(f"{Folder.QUEUES}/{queue}/{message_id}", str(error.strerror))
                continue
            if isinstance(outcome, Received):
                return outcome
            if outcome is Lost.BUSY:
                passed.append(message_id)
    finally:
        # They are still there, for all that the index can know.
        for message_id in passed:
            work.ready.add(queue, message_id)


def _take(
    work: Workspace, queue: QueueName, message_id: MessageId, visibility_ns: int
) -> Received | Lost:
    """Lock, read, stamp, rename. A failure leaves the message as it was."""
    name = queue_path(queue, message_id)
    held = hold(work.files, work.spool.fd(Folder.QUEUES), name)
    if isinstance(held, Lost):
        if held is Lost.FOREIGN:
            work.report(f"{Folder.QUEUES}/{name}", held.value)
        return held
    keeps_open = False
    try:
        received = _lease(work, queue, message_id, held, visibility_ns)
        if isinstance(received, Received) and received.fd >= 0:
            work.files.unlock(held.fd)
            keeps_open = True
        return received
    finally:
        if not keeps_open:
            held.close()


def _lease(
    work: Workspace, queue: QueueName, message_id: MessageId, held: Held, visibility_ns: int
) -> Received | Lost:
    length = held.status.st_size
    is_small = length <= SMALL_BODY_BYTES
    body = read_body(held, work.files) if is_small else None
    if (is_small and body is None) or (held.seal is not None and held.seal.length != length):
        _set_aside(work, Folder.QUEUES, held)
        return Lost.GONE
    seal = held.seal or _adopt(work, held, body)
    content_type = held.content_type() if work.spool.has_seals else None
    visible_ns = round_up(work.clock_ns() + visibility_ns, work.granularity_ns)
    lease = visible_ns
    if work.spool.has_seals:
        lease = new_lease()
        held.write_seal(seal._replace(receive_count=seal.receive_count + 1, lease=lease))
    try:
        work.files.stamp(held.fd, visible_ns)
        source, target = queue_path(queue, message_id), file_name(queue, message_id)
        if not work.spool.move(Folder.QUEUES, source, Folder.DELAY, target):
            return Lost.GONE
    except OSError:
        if work.spool.has_seals:
            held.write_seal(seal)
        raise
    return Received(
        queue,
        message_id,
        length,
        held.seal.crc32 if held.seal else None,
        content_type,
        lease,
        seal.receive_count + 1 if work.spool.has_seals else None,
        seal.published_ns,
        visible_ns,
        body,
        -1 if is_small else held.fd,
    )


def _adopt(work: Workspace, held: Held, body: bytes | None) -> Seal:
    """A seal for a file that came without one, by a person's `mv` or from an older server."""
    crc32 = zlib.crc32(body) if body is not None else measure(work.files, held.fd)[1]
    return Seal(held.status.st_size, crc32, held.status.st_mtime_ns, 0, NO_LEASE)


def _set_aside(work: Workspace, folder: Folder, held: Held) -> None:
    set_aside(work.spool, folder, held)
    log.error("damaged message set aside", name=f"{folder}/{held.name}")


def set_aside_leased(work: Workspace, received: Received) -> Operation[None]:
    """A large body turned out damaged after its lease began: move it to `corrupt`."""
    held = hold(
        work.files, work.spool.fd(Folder.DELAY), file_name(received.queue, received.message_id)
    )
    if not isinstance(held, Lost):
        with held:
            if held.lease == received.lease:
                _set_aside(work, Folder.DELAY, held)
    return
    yield


def release(work: Workspace, received: Received) -> Operation[bool]:
    """Give a message back whose receiver never got it: at once, and its receive not counted.

    False if the lease is no longer ours. Not durable by itself: a crash undoes it, and the
    message comes back when its lease runs out.
    """
    name = file_name(received.queue, received.message_id)
    held = hold(work.files, work.spool.fd(Folder.DELAY), name)
    if isinstance(held, Lost):
        return False
    with held:
        if held.lease != received.lease:
            return False
        if held.seal is not None:
            count = max(held.seal.receive_count - 1, 0)
            held.write_seal(held.seal._replace(receive_count=count, lease=NO_LEASE))
        target = queue_path(received.queue, received.message_id)
        if work.spool.move(Folder.DELAY, name, Folder.QUEUES, target):
            work.ready.add(received.queue, received.message_id)
            return True
    return False
    yield
