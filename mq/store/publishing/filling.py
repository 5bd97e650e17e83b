"""The set of a batch: filled, and delivered. Blocking, for a worker or the committer."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress

import structlog

from mq.disk.calls import CHAINS_AT_ONCE, CLOSE, OPEN_UNNAMED, WRITE, Chain, check, run
from mq.errors import IdTaken, MQError, StoreUnavailable
from mq.ids import Position, order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.batch_names import new_batch_name
from mq.spool.finder import Finder
from mq.spool.message.held import NO_FD, Lost
from mq.spool.message.seal import sealing
from mq.spool.moves import OpenFolder
from mq.spool.open_queues import OpenQueue
from mq.spool.rolling import Rolled, by_stamp, roll_forward
from mq.spool.sets import give_up_set, make_set, remove_empty_set
from mq.spool.spool import Spool
from mq.store.publishing.own_id import deliver_leftover
from mq.store.publishing.publish import (
    Draft,
    Entry,
    Published,
    published_before,
    visible_after,
)
from mq.store.publishing.twins import finder_for, lock_ids, open_twin
from mq.store.queue.settings import delay_ns
from mq.store.shared_state import Workspace, no_queue

log = structlog.get_logger(__name__)

_NEW = Folder.NEW
_CLOSING = (CLOSE, ~0)


class Batch:
    """The set of one batch, with its lock and those of the ids that its producer brought. It must
    be closed; unless it is sealed, that gives it up."""

    def __init__(self, work: Workspace, queue: QueueName) -> None:
        self.queue = queue
        self.name = new_batch_name(queue)
        self.published: list[Published] = []
        self.keys: dict[MessageId, str] = {}
        self.is_sealed = self.is_short = False
        self._work = work
        self._spool = work.spool
        self._fd = self._ids_fd = NO_FD
        self._opening = (OPEN_UNNAMED, work.spool.fd(_NEW), work.spool.file_mode)
        self._seen: dict[MessageId, tuple[Draft, int]] = {}
        self._finder: Finder | None = None

    @property
    def added(self) -> int:
        """How many of its messages were not published before."""
        return len(self.keys)

    def fill(self, entries: Sequence[Entry], positions: Sequence[Position]) -> bool:
        """Do what `write` does. On return the data of all is durable."""
        if not self.write(entries, positions):
            return False
        # The descriptor is older than the data, so every error since then is reported.
        self._spool.files.sync_file_system(self._fd)
        return True

    def write(self, entries: Sequence[Entry], positions: Sequence[Position]) -> bool:
        """Write every message into the open set.

        A message that is published already is in `published` as a duplicate. Returns False if
        another publisher holds one of the ids. Raises IdTaken, which names the line,
        PropertiesUnsupported and OSError.
        """
        own = [draft.message_id for _, draft in entries if draft.message_id is not None]
        if own:
            ids_fd = lock_ids(self._spool, self.queue, own)
            if ids_fd is None:
                return False
            self._ids_fd = ids_fd
            self._finder = finder_for(self._work, self.queue)
        if any(draft.trailer for _, draft in entries):
            self._spool.use_long_seals()
        self._make()
        placed = list(zip(entries, positions, strict=True))
        with self._work.floor.writing(length_of(entries)):
            for at in range(0, len(placed), CHAINS_AT_ONCE):
                if not self._add_some(placed[at : at + CHAINS_AT_ONCE]):
                    return False
        return True

    def _make(self) -> None:
        fd: int | Lost = Lost.BUSY
        while isinstance(fd, Lost):
            self.name = new_batch_name(self.queue)
            fd = make_set(self._spool, Folder.NEW, self.name.open)
        self._fd = fd

    def _add_some(self, placed: Sequence[tuple[Entry, Position]]) -> bool:
        """Write the messages that are not published yet, and enter all of them in `published`.
        Returns False if another publisher holds one of the ids."""
        own = [draft.message_id for (_, draft), _ in placed if draft.message_id is not None]
        missing = set() if self._finder is None else self._finder.missing(own)
        usual_ns = delay_ns(self._work, self.queue)
        chains = []
        for (line, draft), (message_id, published_ns) in placed:
            key: str = message_id
            if draft.message_id is not None:
                try:
                    known = self._known(draft.message_id, draft, missing)
                except IdTaken as error:
                    raise IdTaken(f"line {line}: {error}") from None
                if isinstance(known, Lost):
                    return False
                if known is not None:
                    self.published.append(known)
                    continue
                key = order_key(message_id, published_ns)
            hidden_ns = usual_ns if draft.delay_ns is None else draft.delay_ns
            visible_ns = visible_after(self._work, hidden_ns) if hidden_ns else None
            chains.append(self._writing(draft, message_id, published_ns, visible_ns))
            self.keys[message_id] = key
            self.published.append(Published(message_id, visible_ns))
        try:
            for outcome in run(self._spool.files, chains):
                check(outcome)
        except FileNotFoundError:
            raise vanished(self._spool, self.queue) from None
        return True

    def _known(
        self, message_id: MessageId, draft: Draft, missing: Set[MessageId]
    ) -> Published | Lost | None:
        """Return the message with the draft's own id that is published already, or comes before it
        in the batch; None if there is none. Raises IdTaken."""
        here = len(self.published)
        first, at = self._seen.setdefault(message_id, (draft, here))
        if at != here:
            if first.sum() == draft.sum():
                return self.published[at]._replace(is_duplicate=True)
            before = f"the batch has another message (body or properties) under {message_id}"
            raise IdTaken(f"{before} before this one")
        if message_id in missing:
            return None
        assert self._finder is not None, "the ids are locked first"
        twin = open_twin(self._work, self._finder, self.queue, message_id, draft)
        if isinstance(twin, Lost):
            deliver_leftover(self._work, self.queue, message_id)
        if twin is None or isinstance(twin, Lost):
            return twin
        try:
            if self._spool.files.is_of_network:  # A syncfs does not reach what others have written.
                self._spool.files.sync(twin)
            return published_before(self._work, self.queue, message_id, twin)
        finally:
            self._spool.files.close(twin)

    def _writing(
        self, draft: Draft, message_id: MessageId, published_ns: int, visible_ns: int | None
    ) -> Chain:
        """Return the file calls that put a new message into the open set."""
        spool, name = self._spool, file_name(self.queue, message_id)
        assert draft.body is not None
        sealed = draft.seal(published_ns) if spool.has_seals else None
        return (
            self._opening,
            (WRITE, ~0, draft.body + draft.trailer if draft.trailer else draft.body),
            *sealing(~0, sealed, draft.content_type, visible_ns),
            spool.link_call(~0, _NEW, f"{self.name.open}/{name}"),
            _CLOSING,
        )

    def deliver(self) -> Rolled:
        """Deliver the messages of the sealed set. What cannot be delivered now stays for a sweep.
        Raises QueueNotFound if the queue was deleted meanwhile, and its messages with it."""
        try:
            with self._spool.queues.shared(self.queue) as opened:
                return self._deliver_into(opened)
        except OSError:  # The roll forward waits for a purge, and finds out what else is wrong.
            return self._roll_forward()

    def deliver_held(self) -> Rolled:
        """Do what `deliver` does, while the queue is held."""
        return self._deliver_into(self._spool.queues.open(self.queue))

    def _deliver_into(self, opened: OpenQueue) -> Rolled:
        """Deliver into the folder of the queue, whose lock is shared. Members need no look as long
        as all are as they were written; the roll forward sees to the rest."""
        queue, now_ns = self.queue, self._work.clock_ns()
        ready: list[MessageId] = []
        hidden: list[MessageId] = []
        for message_id, visible_ns, is_duplicate in self.published:
            is_hidden = visible_ns is not None and visible_ns > now_ns
            if not is_duplicate:
                (hidden if is_hidden else ready).append(message_id)
        codes = self._move(ready, OpenFolder(Folder.QUEUES, opened.fd), ready)
        if hidden:
            names = [file_name(queue, each) for each in hidden]
            self._move(hidden, self._spool.opened(Folder.DELAY), names)
        try:
            self._spool.files.remove_folder(self._spool.fd(_NEW), self.name.sealed)
        except OSError:  # It is not empty, or not there any more.
            rolled = self._roll_forward()
        else:
            rolled = Rolled()
        rolled.ready += [(queue, each) for each, code in zip(ready, codes, strict=True) if not code]
        return rolled

    def _move(
        self, ids: Sequence[MessageId], target: OpenFolder, names: Sequence[str]
    ) -> list[int]:
        """Move members of the sealed set to new names. Returns what `Moves.rename_all` returns."""
        moves, source = self._spool.moves, self._spool.opened(_NEW)
        sealed, queue = self.name.sealed, self.queue
        members = [f"{sealed}/{file_name(queue, each)}" for each in ids]
        codes: list[int] = []
        for at in range(0, len(ids), CHAINS_AT_ONCE):
            some = slice(at, at + CHAINS_AT_ONCE)
            codes += moves.rename_all(source, target, members[some], names[some])
        return codes

    def _roll_forward(self) -> Rolled:
        """Deliver with a look at each member, as in a set of any process. Raises QueueNotFound."""
        spool, name = self._spool, self.name.sealed
        try:
            rolled = roll_forward(spool, Folder.NEW, name, by_stamp(self._work.clock_ns()))
        except FileNotFoundError:
            if not spool.exists(Folder.QUEUES, self.queue):
                raise no_queue(self.queue) from None
            # A sealed set is only ever rolled forward. Another process that its lock does not reach
            # did that; or its queue was deleted after the seal, and made again.
            return Rolled()
        except OSError as error:
            rolled = Rolled(left={name: str(error)})
        if rolled.left:
            if not spool.exists(Folder.QUEUES, self.queue):
                give_up_set(spool, Folder.NEW, name, self.queue)
                raise no_queue(self.queue)
            log.error("delivery failed", name=name, left=len(rolled.left), why=str(rolled.left))
        return rolled

    def close(self) -> None:
        """Close the batch. This blocks, except for a sealed set."""
        if self._fd != NO_FD:
            if not self.is_sealed:
                remove_empty_set(self._spool, Folder.NEW, self.name.open)
                with suppress(OSError):
                    give_up_set(self._spool, Folder.NEW, self.name.open, self.queue)
            self._spool.files.close(self._fd)
        if self._ids_fd != NO_FD:
            self._spool.files.close(self._ids_fd)
        self._fd = self._ids_fd = NO_FD


def length_of(entries: Sequence[Entry]) -> int:
    """Return the bytes of all messages together, in their files."""
    return sum([draft.length + len(draft.trailer) for _, draft in entries])


def vanished(spool: Spool, queue: QueueName) -> MQError:
    """Return the error for an open set that is gone, of which nothing was published. It went with
    its queue, which may exist again; or a sweep that its lock does not reach gave it up."""
    if not spool.exists(Folder.QUEUES, queue):
        return no_queue(queue)
    return StoreUnavailable(
        f"the batch for queue {queue} was taken away while it was written, and nothing of it was "
        "published; try again. If that happens often, the locks of one machine do not reach another"
    )
