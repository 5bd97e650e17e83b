"""A batch: several messages that are published together, all of them or none.

It is a set (`mq.spool.sets`). Workers fill it, sync its data and roll it forward; the committer
takes the ids, seals it and makes the seal durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from mq.barrier import Unsynced
from mq.config import FEW_UNSYNCED
from mq.errors import IdTaken, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.operation import Operation
from mq.spool.message import Lost
from mq.spool.sets import (
    Rolled,
    by_stamp,
    give_up_set,
    make_set,
    new_batch_name,
    remove_empty_set,
    roll_forward,
    seal_set,
)
from mq.store.own_id import lock_ids, open_twin
from mq.store.publish import Draft, Published, check_publish, seal
from mq.store.workspace import Retry, Workspace, no_queue

log = structlog.get_logger(__name__)

_NO_FD = -1


class Entry(NamedTuple):
    """A message of a batch, its body in memory, and the line it came in."""

    line: int
    draft: Draft


def take_ids(
    work: Workspace, queue: QueueName, entries: Sequence[Entry]
) -> Operation[list[MessageId] | Retry]:
    """An id for each message: its producer's own, or a new one; these increase. Raises what
    `check_publish` raises."""
    retry = yield from check_publish(work, queue, len(entries))
    if retry is not None:
        return retry
    return [draft.message_id or work.ids.next() for _, draft in entries]


class Batch:
    """The set of one batch, with its lock and those of the ids that its producer brought. Whoever
    has it closes it; it is given up then unless it is sealed."""

    def __init__(self, work: Workspace, queue: QueueName) -> None:
        self.queue = queue
        self.name = new_batch_name(queue)
        self.published: list[Published] = []
        self.is_sealed = False
        self._work = work
        self._spool = work.spool
        self._fd = self._ids_fd = _NO_FD
        self._seen: dict[MessageId, Draft] = {}

    def fill(self, entries: Sequence[Entry], ids: Sequence[MessageId]) -> Retry | None:
        """Write every message into the open set; the data of all is durable on return.

        What is published already stands in `published` as a duplicate. Retry.WAIT if somebody is
        just publishing one of the ids. Raises IdTaken, which names the line, and OSError.
        """
        own = [draft.message_id for _, draft in entries if draft.message_id is not None]
        if own:
            ids_fd = lock_ids(self._spool, self.queue, own)
            if ids_fd is None:
                return Retry.WAIT
            self._ids_fd = ids_fd
        self._make()
        is_small = len(entries) <= FEW_UNSYNCED
        for (line, draft), message_id in zip(entries, ids, strict=True):
            try:
                published = self._add_once(draft, message_id, is_small)
            except IdTaken as error:
                raise IdTaken(f"line {line}: {error}") from None
            if isinstance(published, Retry):
                return published
            self.published.append(published)
        if not is_small:
            # On a descriptor that is older than the data: it is told of every error since.
            self._spool.files.sync_file_system(self._fd)
        return None

    def _make(self) -> None:
        fd: int | Lost = Lost.BUSY
        while isinstance(fd, Lost):
            self.name = new_batch_name(self.queue)
            fd = make_set(self._spool, Folder.NEW, self.name.open)
        self._fd = fd

    def _add_once(self, draft: Draft, message_id: MessageId, is_synced: bool) -> Published | Retry:
        if draft.message_id is None:
            return self._add(draft, message_id, is_synced)
        first = self._seen.setdefault(message_id, draft)
        if first is not draft:
            if (first.length, first.crc32) == (draft.length, draft.crc32):
                return Published(message_id, is_duplicate=True)
            raise IdTaken(f"the batch has another body under {message_id} before this one")
        twin = open_twin(self._work, self.queue, draft)
        if twin is None:
            return self._add(draft, message_id, is_synced)
        if isinstance(twin, Retry):
            return twin
        try:
            if is_synced:
                self._spool.files.sync(twin)
        finally:
            self._spool.files.close(twin)
        return Published(message_id, is_duplicate=True)

    def _add(self, draft: Draft, message_id: MessageId, is_synced: bool) -> Published:
        assert draft.body is not None
        files, new = self._spool.files, self._spool.fd(Folder.NEW)
        fd = files.open_unnamed(new, self._spool.file_mode)
        try:
            files.write(fd, draft.body)
            visible_ns = seal(self._work, fd, draft)
            files.link(fd, new, f"{self.name.open}/{file_name(self.queue, message_id)}")
            if is_synced:
                files.sync(fd)
        except FileNotFoundError:
            # Its queue was deleted, and the open set with it.
            raise no_queue(self.queue) from None
        finally:
            files.close(fd)
        return Published(message_id, visible_ns)

    def deliver(self) -> Rolled:
        """Roll the sealed set forward. What cannot be delivered now stays for a sweep. Raises
        QueueNotFound if the queue was deleted meanwhile, and so were the messages."""
        spool, name = self._spool, self.name.sealed
        try:
            rolled = roll_forward(spool, Folder.NEW, name, by_stamp(self._work.clock_ns()))
        except FileNotFoundError:
            raise no_queue(self.queue) from None
        except OSError as error:
            rolled = Rolled(left={name: str(error)})
        if rolled.left:
            if not spool.exists(Folder.QUEUES, self.queue):
                give_up_set(spool, Folder.NEW, name, self.queue)
                raise no_queue(self.queue)
            log.error("delivery failed", name=name, left=len(rolled.left), why=str(rolled.left))
        return rolled

    def close(self) -> None:
        """Blocking, but for a sealed set."""
        if self._fd != _NO_FD:
            if not self.is_sealed:
                remove_empty_set(self._spool, Folder.NEW, self.name.open)
                with suppress(OSError):
                    give_up_set(self._spool, Folder.NEW, self.name.open, self.queue)
            self._spool.files.close(self._fd)
        if self._ids_fd != _NO_FD:
            self._spool.files.close(self._ids_fd)
        self._fd = self._ids_fd = _NO_FD


def seal_batch(work: Workspace, batch: Batch) -> Operation[None]:
    """Publish a filled batch: on return it survives a power cut, whole.

    A failed sync opens the set again, so that closing gives it up. Raises QueueNotFound,
    StoreUnavailable.
    """
    queue, name = batch.queue, batch.name
    added = sum(not published.is_duplicate for published in batch.published)
    work.hold_queue(queue)
    work.has_space(queue, added)
    try:
        seal_set(work.spool, Folder.NEW, name.open, name.sealed)
    except FileNotFoundError:
        # Its queue was deleted and made again, and the open set went with it.
        raise no_queue(queue) from None
    batch.is_sealed = True
    work.undelivered[queue] += added
    try:
        yield Unsynced((), (Folder.NEW,))
    except StoreUnavailable:
        work.spool.rename_folder(Folder.NEW, name.sealed, name.open)
        batch.is_sealed = False
        raise
    else:
        work.counts.published += added
    finally:
        work.undelivered[queue] -= added


def enter(work: Workspace, rolled: Rolled) -> Operation[None]:
    """Let the index know what is ready."""
    for queue, message_id in rolled.ready:
        work.ready.add(queue, message_id)
    return
    yield
