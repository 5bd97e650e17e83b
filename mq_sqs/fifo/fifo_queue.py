"""A FIFO queue in memory: it follows the index of the queue's folder, and knows of each message
whether it may be received.

Used by the committer alone.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from mq.config import DEDUPLICATION_SECONDS, SECOND_NS
from mq.ids import id_of_key
from mq.names import MessageId, QueueName
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.index.ready_queue import ReadyQueue
from mq.store.shared_state import Workspace
from mq_sqs.fifo.deduplication import Deduplication, DeduplicationScope
from mq_sqs.fifo.elsewhere import SentAsk
from mq_sqs.fifo.groups import Groups, Hiding
from mq_sqs.fifo.loading import FoundMessage, HiddenMessage, Lane
from mq_sqs.fifo.ownership import Ownership

SCOPE_NOTE = "sqs.deduplication-scope"

PURGED_NOTE = "sqs.purged"
"""When PurgeQueue last began, or else when the gateway made the queue, in ns since 1970. What was
sent until then is not remembered, unless it is in the queue."""

_NS = re.compile("[0-9]{1,19}")
_SPARE = 64

_OWN_GROUP = "\0"
"""The first character of a group made up for a message without one, which is alone in it."""


class FifoQueue:
    """`unread` are ready messages whose group is not read yet. Nothing is received before they are
    read, because one of them may come first. `taking` are messages whose file calls are being
    made."""

    def __init__(
        self, name: QueueName, ready: ReadyQueue, scope: DeduplicationScope, purged_ns: int
    ) -> None:
        self.name = name
        self.ready = ready
        self.scope = scope
        self.purged_ns = purged_ns
        self.groups = Groups()
        self.deduplication = Deduplication()
        self.unread: dict[str, str] = {}
        self.taking: set[str] = set()
        self.clock = time.monotonic
        self._due: dict[str, int] = {}
        self._dues: list[tuple[int, str]] = []

    # As a follower of the index

    def came(self, key: str) -> None:
        message_id = id_of_key(key)
        if message_id in self.groups:
            self.groups.show(key)
            self._due.pop(message_id, None)
        else:
            self.unread[message_id] = key

    def went(self, message_id: str) -> None:
        self.unread.pop(message_id, None)
        if not self.groups.is_hidden(message_id):
            self.groups.forget(message_id)

    # What files say

    def learn(self, found: FoundMessage, now_ns: int) -> None:
        """Take in what was read of an unread message."""
        message_id = id_of_key(found.key)
        if self.unread.pop(message_id, None) is not None:
            self.groups.add(found.key, _group_in(found))
        self.learn_sent(found, now_ns)

    def learn_hidden(self, hidden: HiddenMessage, now_ns: int) -> None:
        """Take in a message that was found in `new` or `delay`. It may have come to the queue
        since."""
        message_id = id_of_key(hidden.found.key)
        if message_id not in self.groups and message_id not in self.unread:
            self.groups.hide(hidden.found.key, _group_in(hidden.found), hidden.hiding)
            self.expect(message_id, hidden.due_ns)
        self.learn_sent(hidden.found, now_ns)

    def learn_sent(self, found: FoundMessage, now_ns: int) -> None:
        """Let the deduplication id of a message count for five minutes from its publication. A time
        that is yet to come counts as now: the clock was set back."""
        left = DEDUPLICATION_SECONDS - max(now_ns - found.published_ns, 0) / SECOND_NS
        if left <= 0:
            return
        group, deduplication_id = found.lane
        if group is not None and deduplication_id is not None:
            digest, now = self.scope.digest(group, deduplication_id), self.clock()
            self.deduplication.accept(digest, MessageId(id_of_key(found.key)), now + left, now)

    # What is done here

    def place(self, key: str, group: str) -> None:
        """Note that a message is on its way: from here on nothing behind it is received."""
        self.groups.hide(key, group, Hiding.COMING)

    def expect(self, message_id: str, due_ns: int) -> None:
        """Look at a hidden message again at that time, in ns since 1970: it may be ready or gone
        by then."""
        if not self.groups.is_hidden(message_id):
            return
        self._due[message_id] = due_ns
        if len(self._dues) > 2 * len(self._due) + _SPARE:
            # Most are of messages that are gone, or due at another time.
            self._dues = sorted((due_ns, each) for each, due_ns in self._due.items())
        else:
            heapq.heappush(self._dues, (due_ns, message_id))

    def forget(self, message_id: str) -> None:
        """Note that a message is not in the queue any more."""
        self.unread.pop(message_id, None)
        self.groups.forget(message_id)
        self._due.pop(message_id, None)

    def accept(self, digest: bytes, message_id: MessageId) -> None:
        """Note that a message was sent just now."""
        now = self.clock()
        self.deduplication.accept(digest, message_id, now + DEDUPLICATION_SECONDS, now)

    def is_overdue(self, now_ns: int) -> bool:
        return bool(self._dues) and self._dues[0][0] <= now_ns

    def pop_overdue(self, now_ns: int, limit: int) -> list[str]:
        """Return hidden messages whose time has come, and that no event has reported."""
        found: list[str] = []
        while len(found) < limit and self.is_overdue(now_ns):
            due_ns, message_id = heapq.heappop(self._dues)
            if self._due.get(message_id) == due_ns:
                del self._due[message_id]
                found.append(message_id)
        return found

    def expected(self) -> list[str]:
        """Return the hidden messages that should be in `delay`."""
        return list(self._due)


class FifoQueues:
    """The FIFO queues of one process. Threads other than the committer's may only `get` one, and
    ask what is left to read."""

    def __init__(self) -> None:
        self._queues: dict[QueueName, FifoQueue] = {}
        self._reading: dict[QueueName, FifoQueue] = {}
        self._begun: dict[QueueName, object] = {}
        self._ownership = Ownership()
        self._sending: set[tuple[QueueName, bytes]] = set()
        self.asks: dict[SentAsk, list[FoundMessage] | None] = {}
        """What the readings that are under way ask for, and the answers."""

    def require_ownership(self, work: Workspace) -> None:
        """Take all FIFO queues. Raises StoreUnavailable if another process has them."""
        if self._ownership.require(work):
            self._queues.clear()
            self._begun.clear()

    def close(self) -> None:
        """Let another process have them."""
        self._ownership.close()

    def is_sending(self, queue: QueueName, digests: Iterable[bytes]) -> bool:
        """Return whether one of these is just being sent."""
        return not self._sending.isdisjoint([(queue, each) for each in digests])

    def is_sent_to(self, queue: QueueName) -> bool:
        """Return whether anything is just being sent to the queue."""
        return any(each == queue for each, _ in self._sending)

    @contextmanager
    def sending(self, queue: QueueName, digests: Iterable[bytes]) -> Iterator[None]:
        """Let others know what is being sent, until the block ends."""
        sending = [(queue, each) for each in digests]
        self._sending.update(sending)
        try:
            yield
        finally:
            self._sending.difference_update(sending)

    @contextmanager
    def reading(self, queue: QueueName, state: FifoQueue) -> Iterator[None]:
        """Let others know how much of a queue is left to read, until the block ends."""
        self._reading[queue] = state
        try:
            yield
        finally:
            del self._reading[queue]

    def left_to_read(self, queue: QueueName) -> int:
        """Return the number of messages whose files are yet to be read."""
        state = self._reading.get(queue)
        return 0 if state is None else len(state.unread)

    def begin(self, queue: QueueName) -> object:
        """Note that the reading of a queue begins, and return what stands for it; for `enter`."""
        begun = self._begun[queue] = object()
        return begun

    def enter(self, queue: QueueName, state: FifoQueue, begun: object) -> None:
        """Take a queue that was read, unless it was dropped since that began: then what was read
        may have been taken back."""
        if self._begun.pop(queue, None) is begun:
            self._queues[queue] = state

    def find(self, work: Workspace, queue: QueueName) -> FifoQueue | None:
        """Return a queue, or None if it must be read from its files: it never was, it was purged,
        or the folder or the scope of its deduplication is another one. Raises QueueNotFound."""
        state = self._queues.get(queue)
        if state is None:
            return None
        is_current = work.loaded_index(queue) is state.ready and state.ready.follower is state
        settings = work.settings.of(queue)
        if (
            is_current
            and state.scope is scope_of(settings)
            and state.purged_ns == purged_ns_of(settings)
        ):
            return state
        self.drop(queue)
        return None

    def drop(self, queue: QueueName) -> None:
        """Forget a queue, so that it is read from its files again: what is in memory may not match
        them."""
        self._begun.pop(queue, None)
        self._queues.pop(queue, None)

    def items(self) -> list[tuple[QueueName, FifoQueue]]:
        return list(self._queues.items())

    def next_names(self, limit: int) -> list[QueueName]:
        """Return up to `limit` queues, which come last from now on: so each has its turn."""
        names = list(islice(self._queues, limit))
        for name in names:
            self._queues[name] = self._queues.pop(name)
        return names

    def get(self, queue: QueueName) -> FifoQueue | None:
        return self._queues.get(queue)


def scope_of(settings: QueueSettings) -> DeduplicationScope:
    is_group = settings.notes.get(SCOPE_NOTE) == DeduplicationScope.GROUP.value
    return DeduplicationScope.GROUP if is_group else DeduplicationScope.QUEUE


def purged_ns_of(settings: QueueSettings) -> int:
    """Return the time in `PURGED_NOTE`, or 0."""
    text = settings.notes.get(PURGED_NOTE, "")
    # A person may have edited the file.
    return int(text) if _NS.fullmatch(text) else 0


def _group_in(found: FoundMessage) -> str:
    lane: Lane = found.lane
    return _OWN_GROUP + id_of_key(found.key) if lane.group is None else lane.group
