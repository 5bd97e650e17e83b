"""The set of a batch: filled, and delivered. Blocking, for a worker or the committer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress

import structlog

from mq.config import MIB
from mq.disk.calls import CHAINS_AT_ONCE, check, run
from mq.errors import IdTaken, MQError, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.batch_names import BatchName, new_batch_name, new_handover_name
from mq.spool.handovers import give_up, remove_taken
from mq.spool.locks import lock_names
from mq.spool.message.held import NO_FD, Lost
from mq.spool.moves import OpenFolder
from mq.spool.open_queues import OpenQueue
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.rolling import Rolled, by_stamp, roll_forward
from mq.spool.sets import make_set, remove_empty_set
from mq.spool.spool import Spool
from mq.store.publishing.parts import BatchPart
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace, no_queue

log = structlog.get_logger(__name__)

_NEW = Folder.NEW

_SHORT_BYTES = MIB
"""The messages of a batch that one call writes have at most this many bytes together."""


class Batch:
    """The set of one batch, with its lock and those of the ids that its producer brought. It must
    be closed; unless it is sealed, that gives it up."""

    def __init__(
        self, work: Workspace, parts: Sequence[BatchPart], removes: Removed = None
    ) -> None:
        self.parts = parts
        self.queues = [each.queue for each in parts]
        self.removes = removes
        self.name = self._new_name()
        self.is_sealed = self.is_short = False
        self._work = work
        self._spool = work.spool
        self._fd = self._ids_fd = NO_FD

    @property
    def added(self) -> int:
        """How many of its messages were not published before."""
        return sum([each.added for each in self.parts])

    @property
    def fits_one_call(self) -> bool:
        """Whether one native call writes it in a few milliseconds, for which others can wait.
        Bodies in files need more calls than that, and so do own ids on a network file system."""
        return (
            sum([len(each.placed) for each in self.parts]) <= CHAINS_AT_ONCE
            and sum([each.length for each in self.parts]) <= _SHORT_BYTES
            and not any(each.has_files for each in self.parts)
            and not (self._spool.files.is_of_network and any(each.own_ids for each in self.parts))
        )

    def fill(self) -> bool:
        """Do what `write` does. On return the data of all is durable."""
        if not self.write():
            return False
        files = self._spool.files
        for part in self.parts if files.is_of_network else ():
            if len(part.published) > part.added:
                # Another host may just have moved those that are known to the queue.
                opened = self._spool.queues.opened(part.queue)
                files.sync(opened.fd)
        # The descriptor is older than the data, so every error since then is reported.
        files.sync_file_system(self._fd)
        return True

    def write(self) -> bool:
        """Write every message into the open set.

        Afterwards the `published` of each part has all of its messages, in their order; those that
        are published already are duplicates. Returns False if another publisher holds one of the
        ids. Raises IdTaken, which names the line, PropertiesUnsupported and OSError.
        """
        if not self._lock_ids():
            return False
        if any(draft.trailer for part in self.parts for (_, draft, _), _ in part.placed):
            self._spool.use_long_seals()
        self._make()
        with self._work.floor.writing(sum([each.length for each in self.parts])):
            return all(self._add(part) for part in self.parts)

    def are_ids_new(self) -> bool:
        """Return whether no message is known under the ids that its producer brought, and no other
        publisher holds one, so that `write` makes no more looks. Raises OSError."""
        return self._lock_ids() and all(part.are_ids_new() for part in self.parts)

    def _lock_ids(self) -> bool:
        """Lock its ids until it is closed. Returns False if another publisher holds one."""
        own = [file_name(part.queue, each) for part in self.parts for each in part.own_ids]
        # Who publishes under the id of the message that is removed must see where that is.
        also = [] if self.removes is None else [file_name(*self.removes[:2])]
        if self._ids_fd != NO_FD or not (own or also):
            return True
        ids_fd = lock_names(self._spool, own + also)
        if ids_fd is None:
            return False
        self._ids_fd = ids_fd
        for part in self.parts:
            if part.own_ids:
                part.look_for_twins()
        return True

    def _make(self) -> None:
        while isinstance(fd := make_set(self._spool, Folder.NEW, self.name.open), Lost):
            self.name = self._new_name()
        self._fd = fd
        # Who knows the id of a copy that is delivered may publish under it to a queue of another.
        if len(self.parts) == 1 or all(
            len(each.own_ids) == len(each.placed) for each in self.parts
        ):
            self._work.batches_at_work |= {self.name.open, self.name.sealed}

    def _new_name(self) -> BatchName:
        return new_batch_name(*self.queues) if self.removes is None else new_handover_name()

    def _add(self, part: BatchPart) -> bool:
        """Write the messages for one queue. Returns False if another publisher holds one of the
        ids."""
        try:
            for at in range(0, len(part.placed), CHAINS_AT_ONCE):
                chains = part.writing(self.name.open, part.placed[at : at + CHAINS_AT_ONCE])
                if chains is None:
                    return False
                for outcome in run(self._spool.files, chains):
                    check(outcome)
        except FileNotFoundError:
            raise vanished(self._spool, self.queues) from None
        except IdTaken as error:
            if len(self.parts) == 1:
                raise
            raise IdTaken(f"queue {part.queue}: {error}") from None
        return True

    def deliver(self) -> Rolled:
        """Deliver the messages of the sealed set. What cannot be delivered now stays for a sweep.
        Raises QueueNotFound if no queue is left."""
        shared = self._spool.queues.shared
        try:
            with ExitStack() as stack:
                opened = [stack.enter_context(shared(each)) for each in self.queues]
                return self._deliver_into(opened)
        except OSError:  # The roll forward waits for a purge, and finds out what else is wrong.
            return self._roll_forward()

    def deliver_held(self) -> Rolled:
        """Do what `deliver` does, while all queues are held."""
        return self._deliver_into([self._spool.queues.open(each) for each in self.queues])

    def _deliver_into(self, opened: Sequence[OpenQueue]) -> Rolled:
        """Deliver into the folders of the queues, whose locks are shared. Members need no look as
        long as all are as they were written; the roll forward sees to the rest."""
        rolled = Rolled()
        try:
            if self.removes is not None:
                remove_taken(self._spool, self.name.sealed, file_name(*self.removes[:2]))
            for part, folder in zip(self.parts, opened, strict=True):
                rolled.ready += self._deliver_part(part, folder)
            self._spool.files.remove_folder(self._spool.fd(_NEW), self.name.sealed)
        except OSError:  # The folder is not empty, or not there any more.
            ready, rolled = rolled.ready, self._roll_forward()
            rolled.ready += ready
        return rolled

    def _deliver_part(
        self, part: BatchPart, opened: OpenQueue
    ) -> list[tuple[QueueName, MessageId]]:
        """Move the messages of one queue on. Returns those that are ready now."""
        queue, now_ns = part.queue, self._work.clock_ns()
        ready: list[MessageId] = []
        hidden: list[MessageId] = []
        for message_id, visible_ns, is_duplicate in part.published:
            is_hidden = visible_ns is not None and visible_ns > now_ns
            if not is_duplicate:
                (hidden if is_hidden else ready).append(message_id)
        codes = self._move(queue, ready, OpenFolder(Folder.QUEUES, opened.fd), ready)
        if hidden:
            names = [file_name(queue, each) for each in hidden]
            self._move(queue, hidden, self._spool.opened(Folder.DELAY), names)
        return [(queue, each) for each, code in zip(ready, codes, strict=True) if not code]

    def _move(
        self, queue: QueueName, ids: Sequence[MessageId], target: OpenFolder, names: Sequence[str]
    ) -> list[int]:
        """Move members of the sealed set to new names. Returns what `Moves.rename_all` returns."""
        moves, source = self._spool.moves, self._spool.opened(_NEW)
        members = [f"{self.name.sealed}/{file_name(queue, each)}" for each in ids]
        codes: list[int] = []
        for at in range(0, len(ids), CHAINS_AT_ONCE):
            some = slice(at, at + CHAINS_AT_ONCE)
            codes += moves.rename_all(source, target, members[some], names[some])
        return codes

    def _roll_forward(self) -> Rolled:
        """Deliver with a look at each member, as in a set of any process. Raises QueueNotFound if
        no queue is left."""
        spool, name = self._spool, self.name.sealed
        try:
            rolled = roll_forward(spool, Folder.NEW, name, by_stamp(self._work.clock_ns()))
        except FileNotFoundError:
            if len(self._gone()) == len(self.queues):
                raise no_queue(self.queues[0]) from None
            # A sealed set is only ever rolled forward. Another process that its lock does not reach
            # did that; or its queue was deleted after the seal, and made again.
            return Rolled()
        except OSError as error:
            rolled = Rolled(left={name: str(error)})
        if rolled.left:
            self._look_at_left(rolled)
        return rolled

    def _look_at_left(self, rolled: Rolled) -> None:
        """Say what is left, and why; or give the set up and raise QueueNotFound, if no queue is
        left. One of several that is gone has taken its messages along, or will."""
        name, gone = self.name.sealed, self._gone()
        if len(gone) == len(self.queues):
            leave_to_reaper(self._spool, Folder.NEW, name, self.name.removed)
            raise no_queue(gone[0])
        left = {each: why for each, why in rolled.left.items() if each.split(":")[0] not in gone}
        if left:
            log.error("delivery failed", name=name, left=len(left), why=str(left))

    def _gone(self) -> list[QueueName]:
        """Return the queues that do not exist any more."""
        return [each for each in self.queues if not self._spool.exists(Folder.QUEUES, each)]

    @property
    def took_into(self) -> tuple[int, ...]:
        """The descriptor of its folder, if it has taken a message and only a sync of that very
        folder makes this durable."""
        is_by_itself = self.removes is not None and self._spool.files.is_of_network
        return (self._fd,) if is_by_itself else ()

    def close(self) -> None:
        """Close the batch. This blocks, except for a sealed set."""
        if self._fd != NO_FD:
            if not self.is_sealed:
                remove_empty_set(self._spool, Folder.NEW, self.name.open)
                with suppress(OSError):
                    give_up(self._spool, self.name)
            self._spool.files.close(self._fd)
        self._work.batches_at_work -= {self.name.open, self.name.sealed}
        if self._ids_fd != NO_FD:
            self._spool.files.close(self._ids_fd)
        self._fd = self._ids_fd = NO_FD


def vanished(spool: Spool, queues: Sequence[QueueName]) -> MQError:
    """Return the error for an open set that is gone, of which nothing was published. It went with
    its queue, which may exist again; or a sweep that its lock does not reach gave it up."""
    for each in queues:
        if not spool.exists(Folder.QUEUES, each):
            return no_queue(each)
    return StoreUnavailable(
        f"the batch for queue {', '.join(queues)} was taken away while it was written, and nothing "
        "of it was published; try again. If that happens often, the locks of one machine do not "
        "reach another"
    )
