"""Create, delete and describe a queue."""

from __future__ import annotations

from dataclasses import dataclass

from mq.barrier import Unsynced
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.operation import Operation
from mq.ready import ReadyQueue
from mq.spool import queues
from mq.spool.folders import Spool
from mq.spool.listing import Listing
from mq.spool.message import NO_LEASE, SEAL_ATTRIBUTE, Seal
from mq.store.workspace import Retry, Workspace, no_queue


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """How many messages a queue has in each state; `oldest_age_seconds` is that of the oldest
    ready one since its publication, None if none is ready."""

    queue: QueueName
    ready: int
    leased: int
    delayed: int
    oldest_age_seconds: float | None


def create_queue(work: Workspace, queue: QueueName) -> Operation[bool | Retry]:
    """Make a queue; True if it is new. On return it survives a power cut, also one that another
    server made a moment ago. Raises StoreUnavailable."""
    made = queues.make_queue(work.files, work.spool.fd(Folder.QUEUES), queue)
    if made is queues.Made.BEING_DELETED:
        return Retry.FINISH_DELETION
    work.forget_queue(queue)
    if made is queues.Made.EXISTED:
        _refuse_foreign(work, queue)
    try:
        yield Unsynced((), (Folder.QUEUES,))
    except StoreUnavailable:
        if made is queues.Made.CREATED:
            work.spool.files.remove_folder(work.spool.fd(Folder.QUEUES), queue)
        raise
    return made is queues.Made.CREATED


def _refuse_foreign(work: Workspace, queue: QueueName) -> None:
    """Raises StoreUnavailable if what has the queue's name is no queue."""
    try:
        work.require_queue(queue)
    except QueueNotFound:
        raise StoreUnavailable(
            f"something that is no queue of this server has the name {queue} in the folder "
            f"{Folder.QUEUES}; remove it, or try again"
        ) from None


def begin_deletion(work: Workspace, queue: QueueName) -> Operation[Retry | None]:
    """The first step of a deletion (`mq.spool.queues`), durable; the others follow in a worker.
    Raises QueueNotFound, StoreUnavailable."""
    work.forget_queue(queue)
    work.require_queue(queue)
    try:
        if not queues.begin_deletion(work.spool, queue):
            raise no_queue(queue)
    except FileExistsError:
        return Retry.FINISH_DELETION
    work.forget_queue(queue)
    work.ready.forget(queue)
    yield Unsynced((), (Folder.QUEUES, Folder.REMOVE))
    return None


def check_queue(work: Workspace, queue: QueueName) -> Operation[None]:
    """Whether there is such a queue. Raises QueueNotFound."""
    work.require_queue(queue)
    return
    yield


def needs_listing(work: Workspace, queue: QueueName) -> Operation[bool]:
    """Whether a listing could tell the queue's index something new. Raises QueueNotFound."""
    ready = work.loaded_index(queue)
    return ready is None or work.may_have_changed(queue, ready)
    yield


def drain_events(work: Workspace) -> Operation[None]:
    """Take in what others did in the folders."""
    work.ready.drain()
    return
    yield


def begin_listing(work: Workspace, queue: QueueName) -> Operation[ReadyQueue]:
    """Watch the queue's folder; a worker lists it next. Raises QueueNotFound."""
    if work.loaded_index(queue) is None:
        work.ready.forget(queue)
    return work.ready.begin_listing(queue)
    yield


def end_listing(ready: ReadyQueue, listing: Listing | None) -> Operation[None]:
    """Take in what the worker found; None if it failed."""
    ready.end_listing(listing)
    return
    yield


def count_ready(work: Workspace, queue: QueueName) -> Operation[tuple[int, int | None] | Retry]:
    """How many messages are ready, and the publication time of the oldest in ns since 1970.
    Raises QueueNotFound."""
    work.ready.drain()
    ready = work.loaded_index(queue)
    if ready is None:
        return Retry.LIST
    return len(ready), ready.oldest_ns()
    yield


def count_waiting(spool: Spool, queue: QueueName) -> tuple[int, int]:
    """The queue's leased and delayed messages in `delay`. Blocking, for a worker: it looks at
    every seal, about 5 µs each."""
    prefix = f"{queue}:"
    found = [
        is_leased(spool, name) for name in spool.names(Folder.DELAY) if name.startswith(prefix)
    ]
    return found.count(True), found.count(False)


def is_leased(spool: Spool, name: str) -> bool | None:
    """Whether a message in `delay` is leased, else it is delayed; None if it is gone."""
    try:
        seal = Seal.unpack(spool.files.attribute(spool.path(Folder.DELAY, name), SEAL_ATTRIBUTE))
    except OSError:
        return None
    return seal is None or seal.lease != NO_LEASE
