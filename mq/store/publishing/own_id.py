"""Publish under the producer's own id: a message is stored once, however often and wherever it is
sent.

The first process to publish an id takes its lock and keeps it until the message is delivered. So no
two servers decide about one id at the same time, and what a look finds, or does not find
(`mq.store.publishing.twins`), is the whole truth: every other publisher of it has finished or died.
"""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.errors import StoreUnavailable
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name
from mq.spool.message.held import Lost
from mq.spool.sweep import Sweeper
from mq.store.holding import hold
from mq.store.patience import with_own_id
from mq.store.publishing.publish import (
    Draft,
    Published,
    check_publish,
    publish,
    published_before,
)
from mq.store.publishing.twins import (
    finder_for,
    has_twin,
    lock_ids,
    open_twin,
    publish_after_birth,
)
from mq.store.shared_state import Workspace

Ids = Sequence[MessageId | None]
"""The ids of messages that are published; None for a new one."""


def publish_own(work: Workspace, queue: QueueName, draft: Draft) -> Operation[Published]:
    """Put a message into its queue unless it was published before under that id.

    On return it is as durable as any other, even if another process published it. Waits
    OWN_ID_WAIT_SECONDS for another publisher of that id. Raises IdTaken if the existing message has
    another body or other properties, and what `publish` raises.
    """
    message_id = draft.message_id
    assert message_id is not None, "`publish` is for messages without an own id"
    patience = with_own_id(message_id)
    while (published := (yield from _publish(work, queue, message_id, draft))) is None:
        if work.spool.exists(Folder.NEW, file_name(queue, message_id)):
            yield InWorker(deliver_leftover, work, queue, message_id)
        yield patience.pause()
    return published


def _publish(
    work: Workspace, queue: QueueName, message_id: MessageId, draft: Draft
) -> Operation[Published | None]:
    """Publish once. Returns None if another process is just publishing that id."""
    yield from hold(work, queue)
    lock = lock_ids(work.spool, queue, [message_id])
    if lock is None:
        return None
    try:
        known = yield from _adopt(work, queue, message_id, draft)
        if known is not None:
            return known if isinstance(known, Published) else None
        publish_after_birth(work, queue)
        published = yield from publish(work, queue, draft)
        return (yield from keep_unless_twin(work, queue, draft, published))
    finally:
        work.files.close(lock)


def lock_missing(
    work: Workspace, queue: QueueName, ids: Sequence[MessageId]
) -> tuple[int, set[MessageId]] | None:
    """Lock ids of a queue that is held, and look for their messages. Returns the descriptor that
    holds the locks until it is closed, and the ids that no message has: they may be published.
    Returns None if another publisher holds one of them. Raises OSError."""
    lock = lock_ids(work.spool, queue, ids)
    if lock is None:
        return None
    try:
        missing = finder_for(work, queue).missing(ids)
        publish_after_birth(work, queue)
    except BaseException:
        work.files.close(lock)
        raise
    return lock, missing


def keep_unless_twin(
    work: Workspace, queue: QueueName, draft: Draft, published: Published
) -> Operation[Published | None]:
    """Return what was published under an own id, whose lock is still held. If it is still in `new`
    because another message has the id, return that one, or None if a publisher has it: it was put
    there after the look, by a person's mv for example. The new file goes."""
    message_id = published.message_id
    name = file_name(queue, message_id)
    if not (work.spool.exists(Folder.NEW, name) and has_twin(work, queue, message_id)):
        return published
    work.spool.move_aside(Folder.NEW, name, Folder.REMOVE, name)
    known = yield from _adopt(work, queue, message_id, draft)
    return None if isinstance(known, Lost) else known or published


def _adopt(
    work: Workspace, queue: QueueName, message_id: MessageId, draft: Draft
) -> Operation[Published | Lost | None]:
    """Answer for the existing message, if there is one. It is made durable: a crash may have left
    it with unsynced data, or in a batch whose seal, a change of `new`, is not synced; and a move
    that has brought it to the queue may not be."""
    twin = open_twin(work, finder_for(work, queue), queue, message_id, draft)
    if twin is None or isinstance(twin, Lost):
        return twin
    try:
        yield Unsynced((twin,), (Folder.NEW, f"{Folder.QUEUES}/{queue}"))
        return published_before(work, queue, message_id, twin)
    finally:
        work.files.close(twin)


def check_publish_under(
    work: Workspace, queue: QueueName, ids: Ids, length: int = 0
) -> Operation[None]:
    """Do what `check_publish` does for messages under these ids, None for a new one. Those whose
    ids the queue knows need no room in it: a producer sends them again because no answer came.
    Nothing is locked, so the publish itself looks again."""
    try:
        yield from check_publish(work, queue, len(ids), length)
    except StoreUnavailable:
        own = [each for each in ids if each is not None]
        if not own:
            raise
        missing: set[MessageId] = yield InWorker(finder_for(work, queue).missing, own)
        yield from check_publish(work, queue, len(ids) - len(own) + len(missing), length)


def deliver_leftover(work: Workspace, queue: QueueName, message_id: MessageId) -> None:
    """Deliver what a dead process has left in `new` under that id, as a sweep does: it may be in
    memory alone, and a sweep writes it again. Blocking."""
    Sweeper(work.spool, work.report).deliver(file_name(queue, message_id))
