"""Messages that are older than the `ttl` of their queue go to `remove` without being received.

Two clocks must agree that a message is too old: this machine's, compared with the publication time
in the seal, and the file system's, compared with the birth of the file. The first differs from host
to host. The second is one clock for all of them, if the file system keeps its own times; where it
keeps no births, the last move of the file counts. So a host whose clock is wrong removes nothing
early, neither when it publishes nor when it looks, unless the file system takes its times from that
host.
"""

from __future__ import annotations

import errno
from enum import Enum
from functools import partial

from mq.commit.operation import Operation, Pause, Shared
from mq.disk.libc import birth_ns
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, queue_path
from mq.spool.disk_errors import FAULTS_OF_ONE_MESSAGE
from mq.spool.file_system import file_system_ns
from mq.spool.message.held import Held, Lost, hold_in
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.holding import hold
from mq.store.index.ready_queue import ReadyQueue
from mq.store.indexing import load_index
from mq.store.place import Place, place_in
from mq.store.shared_state import Workspace
from mq.times import in_ns

_AT_ONCE = 100
"""After this many, other operations have their turn."""

_FEW = 10
"""A receive removes this many by itself: all receives of a round do, and other queues wait for
them."""

_PASSED_OVER = FAULTS_OF_ONE_MESSAGE | {errno.EIO}
"""Errors that keep a message where it is. A receive finds out whether EIO concerns that file
alone."""


class _Expiry(Enum):
    """What became of a message that seems too old."""

    GONE = "it is out of the queue"
    LEFT = "it cannot be moved now, but others can"
    TOO_YOUNG = "it is not certainly too old, nor is any behind it"


def queues_to_expire(work: Workspace) -> list[QueueName]:
    """Return the queues with a ttl. For a worker: it looks at each queue. Raises OSError."""
    queues = work.spool.queue_names()
    work.settings.keep(queues)
    work.spool.queues.keep(queues)
    return [each for each in queues if work.settings.of(each).ttl_seconds is not None]


def expire(work: Workspace, queue: QueueName) -> Operation[None]:
    """Remove what is too old from the queue's ready messages. This is not durable by itself: if a
    crash undoes it, it is done again. Raises QueueNotFound, StoreUnavailable."""
    while True:
        ready = yield from load_index(work, queue)
        yield from hold(work, queue)
        if not expire_some(work, queue, ready, work.settings.of(queue), _AT_ONCE):
            return
        yield Pause(0.0)


def expiring(work: Workspace, queue: QueueName) -> Shared:
    """Return what a receive yields when `expire_some` says that there may be more: one removal for
    all who wait for its end."""
    return Shared(f"expire {queue}", partial(expire, work, queue))


def expire_some(
    work: Workspace,
    queue: QueueName,
    ready: ReadyQueue,
    settings: QueueSettings,
    most: int = _FEW,
) -> bool:
    """Remove up to `most` of the oldest messages, and return whether there may be more. The queue
    is held."""
    limit_ns = in_ns(settings.ttl_seconds)
    if limit_ns is None:
        return False
    now_ns, latest_ns = work.clock_ns(), 0
    left: list[MessageId] = []
    gone = 0
    try:
        while gone < most and len(left) < _AT_ONCE:
            oldest_ns = ready.oldest_ns()
            if oldest_ns is None or oldest_ns + limit_ns > now_ns:
                return False
            # This is asked only now, because usually nothing is too old.
            latest_ns = latest_ns or min(now_ns, _file_system_ns(work)) - limit_ns
            message_id = ready.pop()
            assert message_id is not None
            left.append(message_id)
            outcome = _expire(work, queue, message_id, latest_ns)
            if outcome is _Expiry.TOO_YOUNG:
                return False
            if outcome is _Expiry.GONE:
                left.pop()
                gone += 1
        return gone == most
    finally:
        for each in left:
            work.ready.restore(queue, each)


def expire_held(work: Workspace, place: Place, held: Held) -> bool:
    """Remove a ready message that is held if it is too old."""
    latest_ns = _latest_ns_if_old(work, place.queue, place, held)
    return latest_ns is not None and _remove(work, place, held, latest_ns)


def expire_leased(work: Workspace, place: Place, lease: int, limit_ns: int) -> bool:
    """Remove a message under that lease that by this machine's clock is older than `limit_ns`, if
    it is by the other one too."""
    try:
        held = hold_in(work.spool, place.folder, place.name)
        if isinstance(held, Lost):
            return False
        with held:
            latest_ns = _file_system_ns(work) - limit_ns
            return held.lease == lease and _remove(work, place, held, latest_ns)
    except OSError as error:
        work.report(f"{place.folder}/{place.name}", str(error.strerror))
        return False


def _expire(work: Workspace, queue: QueueName, message_id: MessageId, latest_ns: int) -> _Expiry:
    """Remove a message if it is certainly too old. Raises OSError."""
    try:
        held = hold_in(work.spool, Folder.QUEUES, queue_path(queue, message_id))
        if isinstance(held, Lost):
            return _Expiry.LEFT if held is Lost.BUSY else _Expiry.GONE
        with held:
            if held.published_ns(message_id) > latest_ns:
                return _Expiry.TOO_YOUNG
            place = place_in(Folder.QUEUES, queue, message_id)
            is_removed = _remove(work, place, held, latest_ns)
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        if error.errno != errno.EIO:
            work.report(f"{Folder.QUEUES}/{queue}/{message_id}", str(error.strerror))
        return _Expiry.LEFT
    return _Expiry.GONE if is_removed else _Expiry.TOO_YOUNG


def _remove(work: Workspace, place: Place, held: Held, latest_ns: int) -> bool:
    """Remove a message that is held. Returns False if the file was made after `latest_ns`, by the
    file system's clock."""
    made_ns = _birth_ns(work, place)
    if (held.status.st_ctime_ns if made_ns is None else made_ns) > latest_ns:
        return False
    flat = file_name(place.queue, place.message_id)
    if work.spool.move_aside(place.folder, place.name, Folder.REMOVE, flat) is not None:
        work.counts.of(place.queue).expired += 1
    return True


def would_expire(work: Workspace, target: QueueName, place: Place, held: Held) -> bool:
    """Return whether a queue would remove a held message at once if it were moved there."""
    latest_ns = _latest_ns_if_old(work, target, place, held)
    if latest_ns is None:
        return False
    # Where no births are kept the last move counts, which is this one.
    made_ns = _birth_ns(work, place)
    return made_ns is not None and made_ns <= latest_ns


def _latest_ns_if_old(work: Workspace, queue: QueueName, place: Place, held: Held) -> int | None:
    """Return None if a message is not too old for a queue by this machine's clock, or else when its
    file must have been made to be too old by the file system's."""
    limit_ns = in_ns(work.settings.of(queue).ttl_seconds)
    if limit_ns is None or held.published_ns(place.message_id) + limit_ns > work.clock_ns():
        return None
    return _file_system_ns(work) - limit_ns


def _birth_ns(work: Workspace, place: Place) -> int | None:
    fd, bare, _keeper = work.spool.at(place.folder, place.name)
    return birth_ns(f"/proc/self/fd/{fd}/{bare}")


def _file_system_ns(work: Workspace) -> int:
    return file_system_ns(work.files, work.spool.fd(Folder.NEW), work.clock_ns())
