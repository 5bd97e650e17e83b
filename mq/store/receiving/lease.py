"""Leases: begin or prolong one on a message that is held under its lock."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from mq.config import CHUNK_BYTES, SMALL_BODY_BYTES
from mq.disk.calls import CLOSE, SET_ATTRIBUTE, STAMP, Chain
from mq.disk.file_work import FileCalls, FileWork
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId, file_name
from mq.properties import NO_PROPERTIES
from mq.spool.message.burial import burial_in
from mq.spool.message.checksum import measure
from mq.spool.message.held import NO_FD, Held, Lost, hold, read_content, set_aside
from mq.spool.message.opening import OpenedMessage, Read
from mq.spool.message.seal import (
    MAX_RECEIVE_COUNT,
    NO_LEASE,
    SEAL_ATTRIBUTE,
    Seal,
    due_ns,
    round_up,
)
from mq.spool.message.trailer import read_at_once, read_long
from mq.spool.spool import Spool
from mq.spool.trouble import find_moved_folder
from mq.store.place import Place
from mq.store.receiving.received_message import Before, Received
from mq.store.shared_state import Workspace

log = structlog.get_logger(__name__)

_QUEUES, _DELAY = Folder.QUEUES, Folder.DELAY

Advance = Callable[[Seal, int], Seal]
"""Takes the seal of a message and a new lease, and returns the seal under its lease."""


def begin_lease(seal: Seal, lease: int) -> Seal:
    """Return the seal with one more receive and this new lease."""
    count = min(seal.receive_count + 1, MAX_RECEIVE_COUNT)
    return Seal(*seal[:3], count, lease, *seal[5:])


def keep_lease(seal: Seal, lease: int) -> Seal:
    """Return the seal for a receive that goes on; if there was none, one begins."""
    return begin_lease(seal, lease) if seal.lease == NO_LEASE else seal


def take_held(
    work: Workspace,
    place: Place,
    opened: OpenedMessage,
    visibility_ns: int,
    advance: Advance,
) -> FileWork[Received | Lost]:
    """Give a held message the seal that `advance` returns and a new stamp, and move it to `delay`,
    unless it is there.

    Returns Lost.GONE if it is damaged, or was moved away by a process that needs no lock. Ends the
    lock, and closes the file unless the result keeps it open: a large body, or one in `delay`
    already, whose stamp must be synced with the file.
    """
    held, is_open = opened.held, True
    try:
        leasing = _prepare(work, place, opened, visibility_ns, advance)
        if leasing is None:
            _set_aside(work, place.folder, held)
            return Lost.GONE
        if work.files.is_of_network and place.folder is not _DELAY:
            seal = leasing.fresh if leasing.is_sealed else None
            _lease_by_move(work.spool, held, seal, leasing.received.visible_ns)
        else:
            calls, needed, _keepers = _calls(work, place, held, leasing)
            results, code = yield FileCalls(work.files, calls)
            is_open = len(results) <= needed
            before = leasing.seal if results and leasing.is_sealed else None
            if len(results) < needed:
                return break_off(work.spool, held, before, code)
            try:
                inode = held.status.st_ino
                if place.folder is _DELAY and work.spool.inode(_DELAY, place.name) != inode:
                    return Lost.GONE
            except OSError as error:
                return break_off(work.spool, held, before, error.errno or errno.EIO)
        if leasing.received.fd != NO_FD:
            work.files.unlock(held.fd)
            is_open = False
        return leasing.received
    except FileNotFoundError:
        return Lost.GONE
    finally:
        if is_open:
            held.close()


def _lease_by_move(spool: Spool, held: Held, seal: Seal | None, visible_ns: int) -> None:
    """Begin a lease on a ready message. The move comes first and decides: this host may have opened
    the message by a name that it has cached, while another host received it, and a lease written
    then would end that of the other receiver. A crash after the move leaves a message that is due
    at once. Raises FileNotFoundError if the message is gone, and OSError."""
    flat = held.name.replace("/", ":", 1)
    move, _keepers = spool.move_call(Folder.QUEUES, held.name, Folder.DELAY, flat)
    spool.files.rename_once(*move[1:])
    if seal is not None:
        held.write_seal(seal)
    spool.files.stamp(held.fd, visible_ns)
    spool.files.sync(held.fd)  # What is written after the move is not made durable with it.


def break_off(spool: Spool, held: Held, before: Seal | None, code: int) -> Lost:
    """Take back a lease, one of whose file calls has failed with `code`: the seal that was there
    `before` is written again, if it was replaced. Returns Lost.GONE if the message was moved away
    meanwhile, and raises any other OSError; it is ESTALE if that is where `delay` went."""
    why = os.strerror(code)
    if code == errno.ENOENT:
        moved = find_moved_folder(spool)
        if moved is None:
            return Lost.GONE
        code, why = errno.ESTALE, moved
    if before is not None:
        held.write_seal(before)
    raise OSError(code, why)


class _Leasing(NamedTuple):
    """A lease that begins or goes on: the seals before and after it."""

    received: Received
    seal: Seal
    fresh: Seal
    is_sealed: bool


def _prepare(
    work: Workspace, place: Place, opened: OpenedMessage, visibility_ns: int, advance: Advance
) -> _Leasing | None:
    """Prepare a lease. Returns None if the message is damaged."""
    held, spool = opened.held, work.spool
    read = opened.read or _read(work, held)
    if _is_damaged(work, held, read):
        return None
    body, properties = read.content or (None, NO_PROPERTIES)
    seal = held.seal or _adopt(work, held, body, place.message_id)
    visible_ns = round_up(work.clock_ns() + visibility_ns, work.granularity_ns)
    has_seals, is_hidden = spool.has_seals, place.folder is _DELAY
    fresh = advance(seal, work.leases.next()) if has_seals else seal._replace(lease=visible_ns)
    is_sealed = has_seals and fresh != held.seal
    if is_sealed and (spool.has_long_seals or fresh.is_long):
        fresh = _note_first_receive(work, fresh)
    received = Received(
        queue=place.queue,
        message_id=place.message_id,
        length=seal.length,
        sealed=held.seal,
        content_type=read.content_type,
        lease=fresh.lease,
        receive_count=fresh.receive_count if has_seals else None,
        published_ns=seal.published_ns,
        visible_ns=visible_ns,
        body=body,
        fd=held.fd if is_hidden or not _is_small(held) else NO_FD,
        before=Before(held.lease, due_ns(held.status, 0)) if is_hidden else None,
        is_prolonged=advance is keep_lease,
        properties=properties,
        first_received_ns=fresh.first_received_ns,
        burial=burial_in(read.burial, place.queue),
    )
    return _Leasing(received, seal, fresh, is_sealed)


def _is_small(held: Held) -> bool:
    return held.status.st_size <= SMALL_BODY_BYTES


def _read(work: Workspace, held: Held) -> Read:
    """Read a message that was only opened."""
    content = read_content(held, work.files) if _is_small(held) else None
    return Read(content, *(held.type_and_burial() if work.spool.has_seals else (None, None)))


def _is_damaged(work: Workspace, held: Held, read: Read) -> bool:
    """Return whether a message fails its seal, or is too long to be read for one."""
    if not held.is_as_long_as_sealed() or (_is_small(held) and read.content is None):
        return True
    # Reading all of it would keep its queue waiting.
    lacks_seal = work.spool.has_seals and held.seal is None
    return lacks_seal and held.status.st_size > work.config.max_body_bytes


def _calls(
    work: Workspace, place: Place, held: Held, leasing: _Leasing
) -> tuple[Chain, int, tuple[object, ...]]:
    """Return the calls that make a lease, how many of them must succeed, and what keeps descriptors
    open. Raises FileNotFoundError if there is no queue."""
    received, fd = leasing.received, held.fd
    calls: Chain = ((STAMP, fd, received.visible_ns),)
    if leasing.is_sealed:
        calls = ((SET_ATTRIBUTE, fd, SEAL_ATTRIBUTE, leasing.fresh.pack()), *calls)
    if place.folder is _DELAY:
        return calls, len(calls), ()
    target = file_name(place.queue, place.message_id)
    move, keepers = work.spool.move_call(_QUEUES, place.name, _DELAY, target)
    closing = ((CLOSE, fd),) if received.fd == NO_FD else ()
    return (*calls, move, *closing), len(calls) + 1, keepers


def begin_long_lease(work: Workspace, seal: Seal, lease: int) -> Seal:
    """Return what `begin_lease` returns, with the time of the first receive."""
    return _note_first_receive(work, begin_lease(seal, lease))


def _note_first_receive(work: Workspace, seal: Seal) -> Seal:
    work.spool.use_long_seals()
    is_first = seal.receive_count == 1 and not seal.first_received_ns
    return seal._replace(first_received_ns=work.clock_ns()) if is_first else seal


def _adopt(work: Workspace, held: Held, body: bytes | None, message_id: MessageId) -> Seal:
    """Return a seal for a file that came without one, by a person's `mv` or from an older
    server."""
    crc32 = zlib.crc32(body) if body is not None else measure(work.files, held.fd)[1]
    return Seal(held.status.st_size, crc32, held.published_ns(message_id), 0, NO_LEASE)


def _set_aside(work: Workspace, folder: Folder, held: Held) -> None:
    if set_aside(work.spool, folder, held):
        work.counts.add_corrupt(1)
        log.error("damaged message set aside", name=f"{folder}/{held.name}")


def check_large(files: Files, taken: Sequence[Received]) -> list[Received | None]:
    """Read all of each body that is not in memory. Returns the messages with their properties, and
    with their bodies as far as these have up to CHUNK_BYTES; None for one that fails its seal.
    Blocking, for a worker."""
    return [_check(files, each) for each in taken]


def _check(files: Files, received: Received) -> Received | None:
    fd, seal = received.fd, received.sealed
    if received.body is not None or seal is None:
        return received
    if seal.file_length <= CHUNK_BYTES:
        content = read_at_once(files, fd, received.file_length + 1, seal)
        return content and received._replace(body=content.body, properties=content.properties)
    properties = read_long(files, fd, seal)
    return None if properties is None else received._replace(properties=properties)


def set_aside_leased(work: Workspace, received: Received) -> None:
    """Move a large message to `corrupt` that turned out to be damaged after its lease began."""
    name = file_name(received.queue, received.message_id)
    held = hold(work.files, work.spool.fd(Folder.DELAY), name)
    if not isinstance(held, Lost):
        with held:
            if held.lease == received.lease:
                _set_aside(work, Folder.DELAY, held)
