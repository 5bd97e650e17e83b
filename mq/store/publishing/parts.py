"""The parts of a batch: what it has for each of its queues. Blocking, for a worker or the
committer."""

from __future__ import annotations

from collections.abc import Sequence, Set

from mq.config import CHUNK_BYTES
from mq.disk.calls import CLOSE, OPEN_UNNAMED, WRITE, Chain, check, run_one
from mq.errors import IdTaken
from mq.ids import Position, order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.finder import Finder
from mq.spool.message.held import Lost
from mq.spool.message.seal import sealing
from mq.store.publishing.own_id import deliver_leftover
from mq.store.publishing.publish import (
    Draft,
    Entry,
    Published,
    published_before,
    visible_after,
)
from mq.store.publishing.twins import finder_for, open_twin
from mq.store.queue.settings import delay_ns
from mq.store.shared_state import Workspace

_NEW = Folder.NEW
_CLOSING = (CLOSE, ~0)


Placed = Sequence[tuple[Entry, Position]]
"""Messages of a batch, each with its id and its place in the order."""


class BatchPart:
    """The messages of a batch for one queue. `own_ids` are those that producers bring. `published`
    are the messages that are in its set by now, or were published before; `keys` has the places in
    the order of those that were not."""

    def __init__(self, work: Workspace, queue: QueueName, placed: Placed) -> None:
        self.queue = queue
        self.placed = placed
        self.own_ids = [
            draft.message_id for (_, draft, _), _ in placed if draft.message_id is not None
        ]
        self.published: list[Published] = []
        self.keys: dict[MessageId, str] = {}
        self._work = work
        self._spool = work.spool
        self._opening = (OPEN_UNNAMED, work.spool.fd(_NEW), work.spool.file_mode)
        self._seen: dict[MessageId, tuple[Draft, int]] = {}
        self._finder: Finder | None = None
        self._missing: set[MessageId] | None = None

    @property
    def added(self) -> int:
        """How many of its messages were not published before."""
        return len(self.keys)

    @property
    def length(self) -> int:
        """The bytes of its messages, in their files."""
        return sum([draft.length + len(draft.trailer) for (_, draft, _), _ in self.placed])

    @property
    def has_files(self) -> bool:
        """Whether the body of one of them is in a file."""
        return any(draft.body is None for (_, draft, _), _ in self.placed)

    def look_for_twins(self) -> None:
        """Look from now on whether the ids that producers bring are published. Their locks are
        held."""
        self._finder = finder_for(self._work, self.queue)

    def are_ids_new(self) -> bool:
        """Look for all ids that producers bring. Returns whether none is published, or comes twice.
        Raises OSError."""
        self._missing = set() if self._finder is None else self._finder.missing(self.own_ids)
        return len(self._missing) == len(self.own_ids)

    def writing(self, set_name: str, some: Placed) -> list[Chain] | None:
        """Return the file calls that put those of some messages that are not published yet into the
        open set; what has its body in a file is there already. All of them are in `published` then.
        Returns None if another publisher holds one of the ids. Raises IdTaken, which names the
        line, and OSError."""
        missing = self._missing
        if missing is None:
            own = [draft.message_id for (_, draft, _), _ in some if draft.message_id is not None]
            missing = set() if self._finder is None else self._finder.missing(own)
        usual_ns = delay_ns(self._work, self.queue)
        chains = []
        for (line, draft, _), (message_id, published_ns) in some:
            key: str = message_id
            if draft.message_id is not None:
                try:
                    known = self._known(draft.message_id, draft, missing)
                except IdTaken as error:
                    raise (error if line is None else IdTaken(f"line {line}: {error}")) from None
                if isinstance(known, Lost):
                    return None
                if known is not None:
                    self.published.append(known)
                    continue
                key = order_key(message_id, published_ns)
            hidden_ns = usual_ns if draft.delay_ns is None else draft.delay_ns
            visible_ns = visible_after(self._work, hidden_ns) if hidden_ns else None
            name = f"{set_name}/{file_name(self.queue, message_id)}"
            sealed = draft.seal(published_ns) if self._spool.has_seals else None
            if draft.body is None:
                self._copy(name, draft, sealed, visible_ns)
            else:
                chains.append(self._writing(name, draft, draft.body, sealed, visible_ns))
            self.keys[message_id] = key
            self.published.append(Published(message_id, visible_ns))
        return chains

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
        self, name: str, draft: Draft, body: bytes, sealed: bytes | None, visible_ns: int | None
    ) -> Chain:
        """Return the file calls that put a new message into the open set."""
        return (
            self._opening,
            (WRITE, ~0, body + draft.trailer if draft.trailer else body),
            *sealing(~0, sealed, draft.content_type, visible_ns),
            self._spool.link_call(~0, _NEW, name),
            _CLOSING,
        )

    def _copy(self, name: str, draft: Draft, sealed: bytes | None, visible_ns: int | None) -> None:
        """Put a new message, whose body and properties are in a file, into the open set: as a copy,
        because each message has a seal of its own. Raises OSError."""
        files, length = self._spool.files, draft.length + len(draft.trailer)
        fd = files.open_unnamed(self._spool.fd(_NEW), self._spool.file_mode)
        try:
            for at in range(0, length, CHUNK_BYTES):
                files.write(fd, files.read(draft.fd, min(CHUNK_BYTES, length - at), at))
            calls = sealing(fd, sealed, draft.content_type, visible_ns)
            check(run_one(files, (*calls, self._spool.link_call(fd, _NEW, name))))
        finally:
            files.close(fd)
