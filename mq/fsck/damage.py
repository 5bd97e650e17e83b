"""Messages that are damaged or stuck, and deletions and batches that stopped half-way."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mq.config import FOLDER_LOCK_SECONDS
from mq.fsck.suspect import FindingKind, PlacedSuspect, SuspectPlace, move_to_corrupt
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.spool.batch_names import BatchName
from mq.spool.handovers import is_published
from mq.spool.message.held import Lost, Opened, fails_its_seal, seal_of, set_aside
from mq.spool.queue.queues import DELETING_SUFFIX, finish_deletion, has_queue
from mq.spool.sets import hold_set
from mq.spool.spool import Spool
from mq.spool.sweep import Sweeper


@dataclass(frozen=True)
class Damaged(PlacedSuspect):
    """A message that fails its seal."""

    kind = FindingKind.DAMAGED

    def look(self) -> str | None:
        """Look without the lock, which would make a receiver skip the message: body and length
        never change."""
        files = self.spool.files
        try:
            folder_fd, bare, _keeper = self.spool.at(*self.place)
            fd = files.open_message(folder_fd, bare)
        except FileNotFoundError:
            return None
        with Opened(files, self.place.name, fd, os.fstat(fd), seal_of(files, fd)) as opened:
            if not fails_its_seal(opened, files):
                return None
            size, seal = opened.status.st_size, opened.seal
        if seal is not None and seal.file_length != size:
            return f"it has {size} bytes where its seal says {seal.file_length}"
        parts = "body or properties are" if seal is not None and seal.trailer_length else "body is"
        return f"its {parts} not what its seal says, or cannot be read"

    def mend(self) -> str | None:
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            if not fails_its_seal(held, self.spool.files):
                return None
            name = set_aside(self.spool, self.place.folder, held, FOLDER_LOCK_SECONDS)
        return None if name is None else f"moved to {SuspectPlace(Folder.CORRUPT, name)}"


@dataclass(frozen=True)
class Leftover(PlacedSuspect):
    """A whole message in `new` whose publisher died before it was delivered."""

    queue: QueueName
    message_id: MessageId
    kind = FindingKind.LEFTOVER

    def look(self) -> str | None:
        """Look under the lock, which a publisher holds until delivery."""
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            if not has_queue(self.spool.files, self.spool.fd(Folder.QUEUES), self.queue):
                return None
            if self._is_duplicate():
                return None
            return None if fails_its_seal(held, self.spool.files) else "published, not delivered"

    def _is_duplicate(self) -> bool:
        """Return whether the message has a second name, which is a finding of its own."""
        in_queue = queue_path(self.queue, self.message_id)
        return self.spool.exists(Folder.QUEUES, in_queue) or self.spool.exists(
            Folder.DELAY, self.place.name
        )

    def mend(self) -> str | None:
        """Deliver it as a sweep does."""
        swept = Sweeper(self.spool, lambda *_: None).deliver(self.place.name)
        return f"delivered to queue {self.queue}" if swept.delivered else None


@dataclass(frozen=True)
class Orphan(PlacedSuspect):
    """A message in `new` or `delay` whose queue does not exist."""

    queue: QueueName
    kind = FindingKind.ORPHAN

    def look(self) -> str | None:
        if has_queue(self.spool.files, self.spool.fd(Folder.QUEUES), self.queue):
            return None
        held = self.hold()
        if isinstance(held, Lost):
            return None
        with held:
            return self._why()

    def _why(self) -> str | None:
        """Return what is wrong, or None. While the deletion of its queue is unfinished the message
        belongs to that deletion, which has moved it by the time `.deleting` is gone. So the message
        is looked for last."""
        if self.spool.exists(Folder.REMOVE, self.queue + DELETING_SUFFIX):
            return None
        if has_queue(self.spool.files, self.spool.fd(Folder.QUEUES), self.queue):
            return None
        return f"there is no queue {self.queue}" if self.spool.exists(*self.place) else None

    def mend(self) -> str | None:
        held = self.hold()
        if isinstance(held, Lost):
            return None
        # No queue is made without this lock.
        queues = self.spool.files.locked_folder(self.spool.fd(Folder.QUEUES), ".")
        with held, queues:
            if self._why() is None:
                return None
            done = move_to_corrupt(self.spool, self.place)
        return done and f"{done}; to have it delivered, make the queue and move it there"


@dataclass(frozen=True)
class Deletion:
    """`remove/QUEUE:.deleting` that no process is working on. `inode` tells it from a later one."""

    spool: Spool
    queue: QueueName
    inode: int
    kind = FindingKind.DELETION

    @property
    def path(self) -> str:
        return f"{Folder.REMOVE}/{self.queue}{DELETING_SUFFIX}"

    def look(self) -> str | None:
        files = self.spool.files
        try:
            fd = files.open_folder(self.spool.fd(Folder.REMOVE), self.queue + DELETING_SUFFIX)
        except FileNotFoundError:
            return None
        try:
            is_free = files.inode(fd) == self.inode and files.lock(fd)
        finally:
            files.close(fd)
        return f"the deletion of queue {self.queue} stopped half-way" if is_free else None

    def mend(self) -> str | None:
        finish_deletion(self.spool, self.queue)
        return "finished"


@dataclass(frozen=True)
class AbandonedBatch(PlacedSuspect):
    """The set of a batch whose publisher died. It may be sealed, which means published, or still
    open."""

    batch: BatchName
    kind = FindingKind.BATCH

    def look(self) -> str | None:
        """Look under the set's lock, which a publisher holds until its messages are delivered."""
        fd = hold_set(self.spool, *self.place)
        if isinstance(fd, Lost):
            return None
        self.spool.files.close(fd)
        if is_published(self.spool, self.place.name):
            return "a batch that is published, not delivered"
        return "a batch whose publisher died before it was published"

    def mend(self) -> str | None:
        """Finish the batch as a sweep does. It remains a finding while a member has no queue."""
        why: list[str] = []
        was_published = is_published(self.spool, self.place.name)
        swept = Sweeper(self.spool, lambda *left: why.append(": ".join(left))).finish_batch(
            self.place.name, self.batch
        )
        if why:
            raise OSError(0, "; ".join(why[:3]))
        if not swept.sets:
            return None
        if not was_published:
            return "moved to remove, for the reaper"
        queue = self.batch.queue
        where = "their queues" if queue is None else f"queue {queue}"
        return f"delivered {swept.delivered} messages to {where}"
