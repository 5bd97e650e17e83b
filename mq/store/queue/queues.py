"""Create, delete and describe a queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from mq.commit.barrier import Unsynced
from mq.commit.operation import SETTLED, InWorker, Operation
from mq.config import SECOND_NS
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue import queues, settings_file
from mq.spool.queue.prepared import PreparedQueue
from mq.spool.queue.queue_settings import NO_CHANGES, NO_SETTINGS, QueueSettings
from mq.store.indexing import load_index
from mq.store.patience import Patience, with_queues
from mq.store.queue.settings import change_settings, require_copies, settings_of
from mq.store.shared_state import Workspace, no_queue, not_there
from mq.store.survey import oldest_known_ns

log = structlog.get_logger(__name__)

_DELETIONS = 4
"""How many deletions of its name are finished before a queue is made or deleted."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """How many messages a queue has in each state. `oldest_age_seconds` is the time since the
    oldest ready one was published, None if none is ready. `missing` are the queues in its setting
    `also` that do not exist."""

    queue: QueueName
    ready: int
    leased: int
    delayed: int
    oldest_age_seconds: float | None
    settings: QueueSettings
    missing: Sequence[QueueName]


def create_queue(
    work: Workspace, queue: QueueName, changes: Mapping[str, str] = NO_CHANGES
) -> Operation[bool]:
    """Make a queue that has these settings from its first moment on, or change those of one that is
    there. Returns True if it is new. Raises InvalidRequest before anything is made, and
    StoreUnavailable."""
    settings = settings_file.changed(queue, NO_SETTINGS, changes)
    require_copies(work, changes)
    make = partial(queues.make_queue, work.files, work.spool.fd(Folder.QUEUES), queue)
    for _ in range(_DELETIONS + 1):
        if settings == NO_SETTINGS:
            is_new = yield from _make_queue(work, queue, make)
        else:
            is_new = yield from _make_with_settings(work, queue, settings)
        if is_new or not changes:
            if changes:
                work.settings.of(queue)  # A pause is shown at once.
            return is_new
        with suppress(QueueNotFound):  # It was deleted meanwhile.
            yield from change_settings(work, queue, changes)
            return False
    raise _being_deleted(queue)


def _make_with_settings(
    work: Workspace, queue: QueueName, settings: QueueSettings
) -> Operation[bool]:
    changed = f"{Folder.QUEUES}/{queue}", Folder.NEW
    for _ in range(_DELETIONS + 1):
        if work.spool.exists(Folder.QUEUES, queue):
            yield SETTLED  # What follows lets go of the queue.
            return (yield from _make_durable(work, queue, queues.Made.EXISTED, changed))
        with closing(PreparedQueue(work.spool, queue, settings)) as prepared:
            yield InWorker(prepared.make)
            with suppress(FileNotFoundError):  # The deletion of an earlier queue took it along.
                return (yield from _make_queue(work, queue, prepared.put_in_place, changed))
    raise _being_deleted(queue)


def _make_queue(
    work: Workspace,
    queue: QueueName,
    make: Callable[[], queues.Made],
    changed: tuple[str, ...] = (),
) -> Operation[bool]:
    """Make a queue. Returns True if it is new. On return it survives a power cut, even if another
    server made it a moment ago. Waits while another process makes or deletes one. `changed` are
    the folders that `make` changes besides `queues`. Raises StoreUnavailable, and what `make`
    raises."""
    patience = with_queues(queue)
    for _ in range(_DELETIONS + 1):
        made = yield from _when_unlocked(patience, make)
        if made is not queues.Made.BEING_DELETED:
            return (yield from _make_durable(work, queue, made, changed))
        yield InWorker(queues.finish_deletion, work.spool, queue)
    raise _being_deleted(queue)


def _make_durable(
    work: Workspace, queue: QueueName, made: queues.Made, changed: tuple[str, ...]
) -> Operation[bool]:
    work.forget_queue(queue)
    if made is queues.Made.EXISTED:
        _refuse_foreign(work, queue)
    # If that fails the folder stays: another server may have answered for it meanwhile.
    yield Unsynced((), (Folder.QUEUES,), implied=changed)
    return made is queues.Made.CREATED


def _refuse_foreign(work: Workspace, queue: QueueName) -> None:
    """Raise StoreUnavailable if something that is not a queue has the queue's name, or if another
    process has just deleted the queue."""
    try:
        work.require_queue(queue)
    except QueueNotFound:
        if not work.spool.exists(Folder.QUEUES, queue):
            raise _being_deleted(queue) from None
        raise StoreUnavailable(
            f"what has the name {queue} in the folder {Folder.QUEUES} is not a queue of this "
            "server; remove it, or try again"
        ) from None


def delete_queue(work: Workspace, queue: QueueName) -> Operation[None]:
    """Delete a queue and all its messages, including leased and delayed ones.

    On return it never comes back. A crash in between is finished by the next sweep of any server.
    Waits while another process makes or deletes a queue. Raises QueueNotFound, StoreUnavailable.
    """
    yield from begin_deletion(work, queue)
    try:
        yield InWorker(queues.finish_deletion, work.spool, queue)
    except (OSError, StoreUnavailable) as error:
        log.warning("deletion is left to a sweep", queue=queue, error=str(error))


def begin_deletion(work: Workspace, queue: QueueName) -> Operation[None]:
    """Do the first step of a deletion (`mq.spool.queue.queues`), which is durable on return. It is
    also durable if this raises QueueNotFound: the sync of who took it may not be over."""
    patience = with_queues(queue)
    begin = partial(_begin_deletion, work, queue)
    begun = Unsynced((), (Folder.REMOVE,), implied=(Folder.QUEUES,))
    for _ in range(_DELETIONS + 1):
        try:
            is_begun = yield from _when_unlocked(patience, begin)
        except QueueNotFound:
            yield begun
            raise
        if is_begun:
            yield begun
            return
        yield InWorker(queues.finish_deletion, work.spool, queue)
    raise _being_deleted(queue)


def _begin_deletion(work: Workspace, queue: QueueName) -> bool:
    """Do the first step. Returns False while an earlier deletion of that name is unfinished."""
    work.forget_queue(queue)
    work.require_queue(queue)
    try:
        if not queues.begin_deletion(work.spool, queue):
            raise not_there(work, no_queue(queue))
    except FileExistsError:
        return False
    work.forget_queue(queue)
    work.ready.forget(queue)
    return True


def _when_unlocked(patience: Patience, step: Callable[[], T]) -> Operation[T]:
    """Take a step that lets go of the queue, once it is unlocked."""
    while True:
        yield SETTLED
        try:
            return step()
        except BlockingIOError:
            yield patience.pause()


def _being_deleted(queue: QueueName) -> StoreUnavailable:
    return StoreUnavailable(f"queue {queue} is being deleted by another process; try again")


def describe_queue(work: Workspace, queue: QueueName) -> Operation[QueueInfo]:
    """Count a queue's messages. Raises QueueNotFound, StoreUnavailable."""
    work.ready.drain()
    ready = yield from load_index(work, queue)
    count, oldest_ns = len(ready), oldest_known_ns(ready)
    leased, delayed = yield from work.hidden_counts.at(queue)
    settings = yield InWorker(settings_of, work.spool, queue)
    age = None if oldest_ns is None else max(time.time_ns() - oldest_ns, 0) / SECOND_NS
    missing = [each for each in settings.also or () if not work.spool.queues.is_there(each)]
    return QueueInfo(queue, count, leased, delayed, age, settings, missing)
