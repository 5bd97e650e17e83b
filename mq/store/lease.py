"""A lease: begun, or prolonged, on a message that is held under its lock."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from mq.config import SMALL_BODY_BYTES
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.properties import NO_PROPERTIES, Properties
from mq.spool.burial import Burial
from mq.spool.files import Files
from mq.spool.message import Held, Lost, hold, read_content, set_aside
from mq.spool.seal import (
    MAX_RECEIVE_COUNT,
    NO_LEASE,
    Seal,
    due_ns,
    measure,
    new_lease,
    round_up,
)
from mq.spool.trailer import read_long
from mq.store.context import Workspace

log = structlog.get_logger(__name__)


class Before(NamedTuple):
    """What a message in `delay` was under when it was taken out of turn."""

    lease: int
    due_ns: int


@dataclass(slots=True)
class Received:
    """A message under a lease: its body in memory, or `fd`, open at it, for the caller to close.
    Nobody changes it, except that the properties of one in a file come with the check of its body;
    a frozen one takes three times as long to make.

    Times in ns since 1970. `receive_count` is None on a file system without seals, and so is
    `sealed`: what the seal said when the lease began. `first_received_ns` is 0 if it is not known:
    before the root has `mq 2`. `is_prolonged` if the lease is an earlier one, which goes on.
    Times in ns since 1970. `receive_count` is None on a file system without seals.
    `is_prolonged` if the lease is an earlier one, which goes on. A dead letter has a `burial`.
    """

    queue: QueueName
    message_id: MessageId
    length: int
    sealed: Seal | None
    content_type: str | None
    lease: int
    receive_count: int | None
    published_ns: int
    visible_ns: int
    body: bytes | None
    fd: int = -1
    before: Before | None = None
    is_prolonged: bool = False
    properties: Properties = field(default_factory=lambda: NO_PROPERTIES)
    first_received_ns: int = 0

    @property
    def file_length(self) -> int:
        """Of body and properties, in bytes."""
        return self.length if self.sealed is None else self.sealed.file_length

    burial: Burial | None = None

    def close(self, files: Files) -> None:
        if self.fd >= 0:
            files.close(self.fd)

    def without_idle_file(self, files: Files) -> Received:
        """Close the file if the body is in memory: it was open to be synced."""
        if self.body is None:
            return self
        self.close(files)
        return replace(self, fd=-1)


class Place(NamedTuple):
    """Where a message lies: `name` is relative to the folder."""

    folder: Folder
    queue: QueueName
    message_id: MessageId
    name: str


def place_in(folder: Folder, queue: QueueName, message_id: MessageId) -> Place:
    is_ready = folder is Folder.QUEUES
    name = queue_path(queue, message_id) if is_ready else file_name(queue, message_id)
    return Place(folder, queue, message_id, name)


def begin_lease(seal: Seal) -> Seal:
    """One more receive."""
    count = min(seal.receive_count + 1, MAX_RECEIVE_COUNT)
    return Seal(seal.length, seal.crc32, seal.published_ns, count, new_lease(), *seal[5:])


def keep_lease(seal: Seal) -> Seal:
    """The same receive goes on, if there was one."""
    return begin_lease(seal) if seal.lease == NO_LEASE else seal


def take_held(
    work: Workspace,
    place: Place,
    held: Held,
    visibility_ns: int,
    advance: Callable[[Seal], Seal],
) -> Received | Lost:
    """Give a held message the seal that `advance` makes and a new stamp, and put it into `delay`,
    unless it is there. Ends the lock; closes the file unless what is returned keeps it open: a
    large body, or one in `delay` already, whose stamp must be synced with the file.
    """
    keeps_open = False
    try:
        received = _lease(work, place, held, visibility_ns, advance)
        if isinstance(received, Received) and received.fd >= 0:
            work.files.unlock(held.fd)
            keeps_open = True
        return received
    finally:
        if not keeps_open:
            held.close()


def _lease(
    work: Workspace,
    place: Place,
    held: Held,
    visibility_ns: int,
    advance: Callable[[Seal], Seal],
) -> Received | Lost:
    is_small = held.status.st_size <= SMALL_BODY_BYTES
    content = read_content(held, work.files) if is_small else None
    if (is_small and content is None) or not held.is_as_long_as_sealed():
        _set_aside(work, place.folder, held)
        return Lost.GONE
    body, properties = content or (None, NO_PROPERTIES)
    sealed = held.seal
    seal = sealed or _adopt(work, held, body, place.message_id)
    is_prolonged = advance is keep_lease
    was_delayed = place.folder is Folder.DELAY
    before = Before(held.lease, due_ns(held.status, 0)) if was_delayed else None
    told = held.type_and_burial(place.queue) if work.spool.has_seals else (None, None)
    visible_ns = round_up(work.clock_ns() + visibility_ns, work.granularity_ns)
    fresh = advance(seal) if work.spool.has_seals else seal._replace(lease=visible_ns)
    if work.spool.has_seals and fresh != held.seal:
        if work.spool.has_long_seals or fresh.is_long:
            fresh = _note_first_receive(work, fresh)
        held.write_seal(fresh)
    try:
        is_ours = _stamp_and_move(work, place, held, visible_ns)
    except OSError:
        if work.spool.has_seals and fresh != seal:
            held.write_seal(seal)
        raise
    if not is_ours:
        return Lost.GONE
    return Received(
        place.queue,
        place.message_id,
        seal.length,
        sealed,
        told[0],
        fresh.lease,
        fresh.receive_count if work.spool.has_seals else None,
        seal.published_ns,
        visible_ns,
        body,
        held.fd if was_delayed or not is_small else -1,
        before,
        is_prolonged,
        properties,
        fresh.first_received_ns,
        told[1],
    )


def _note_first_receive(work: Workspace, seal: Seal) -> Seal:
    work.spool.use_long_seals()
    is_first = seal.receive_count == 1 and not seal.first_received_ns
    return seal._replace(first_received_ns=work.clock_ns()) if is_first else seal


def _stamp_and_move(work: Workspace, place: Place, held: Held, visible_ns: int) -> bool:
    """False if the message was moved away by somebody who needs no lock."""
    work.files.stamp(held.fd, visible_ns)
    if place.folder is Folder.DELAY:
        return work.spool.inode(Folder.DELAY, place.name) == held.status.st_ino
    target = file_name(place.queue, place.message_id)
    return work.spool.move(Folder.QUEUES, place.name, Folder.DELAY, target)


def _adopt(work: Workspace, held: Held, body: bytes | None, message_id: MessageId) -> Seal:
    """A seal for a file that came without one, by a person's `mv` or from an older server."""
    crc32 = zlib.crc32(body) if body is not None else measure(work.files, held.fd)[1]
    return Seal(held.status.st_size, crc32, held.published_ns(message_id), 0, NO_LEASE)


def _set_aside(work: Workspace, folder: Folder, held: Held) -> None:
    set_aside(work.spool, folder, held)
    work.counts.add_corrupt(1)
    log.error("damaged message set aside", name=f"{folder}/{held.name}")


def find_damaged(files: Files, received: Sequence[Received]) -> list[Received]:
    """Those whose open file fails its seal. Reads all of each, and the properties into those that
    are whole; blocking, for a worker."""
    return [each for each in received if not _is_whole(files, each)]


def _is_whole(files: Files, received: Received) -> bool:
    if received.sealed is None:
        return True
    properties = read_long(files, received.fd, received.sealed)
    if properties is not None:
        received.properties = properties
    return properties is not None


def set_aside_leased(work: Workspace, received: Received) -> None:
    """A large body turned out damaged after its lease began: move it to `corrupt`."""
    name = file_name(received.queue, received.message_id)
    held = hold(work.files, work.spool.fd(Folder.DELAY), name)
    if not isinstance(held, Lost):
        with held:
            if held.lease == received.lease:
                _set_aside(work, Folder.DELAY, held)
