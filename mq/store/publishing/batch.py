"""A batch: several messages that are published together, all of them or none.

It is a set (`mq.spool.sets`). Workers fill it, sync its data and roll it forward; the committer
takes the ids, seals it and makes the seal durable. A short batch is done by the committer alone, so
that several share the syncs of their rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.config import MIB
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import StoreUnavailable
from mq.ids import Position
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.listing import may_be_in
from mq.spool.rolling import Rolled
from mq.spool.sets import seal_set
from mq.store.holding import hold
from mq.store.indexing import find_space
from mq.store.patience import with_own_id
from mq.store.publishing.filling import Batch, length_of, vanished
from mq.store.publishing.own_id import check_publish_under
from mq.store.publishing.publish import Entry, Published, try_to_hold
from mq.store.publishing.twins import publish_after_birth
from mq.store.shared_state import Workspace

_SHORT_BYTES = MIB
"""The messages of a short batch have at most this many bytes together."""


def is_short(entries: Sequence[Entry]) -> bool:
    """Return whether one native call writes the batch in a few milliseconds, for which others can
    wait. Own ids need more looks than that."""
    return (
        len(entries) <= CHAINS_AT_ONCE
        and length_of(entries) <= _SHORT_BYTES
        and all(draft.message_id is None for _, draft in entries)
    )


def publish_batch(
    work: Workspace, queue: QueueName, entries: Sequence[Entry]
) -> Operation[list[Published]]:
    """Publish all of a batch or nothing, in that order. On return it survives a power cut. Waits
    OWN_ID_WAIT_SECONDS for another publisher of one of the ids. Raises QueueNotFound,
    StoreUnavailable, PropertiesUnsupported, and IdTaken, which names the line."""
    positions = yield from take_positions(work, queue, entries)
    batch = yield from _fill(work, queue, entries, positions)
    try:
        if batch.added:
            yield from seal_batch(work, batch)
            try:
                yield from _deliver(work, batch)
            finally:
                work.end_delivery(queue, batch.added)
        return batch.published
    finally:
        batch.close()


def take_positions(
    work: Workspace, queue: QueueName, entries: Sequence[Entry]
) -> Operation[list[Position]]:
    """Return an id for each message, its producer's own or a new one, and its place in the order,
    which is that of the lines. Raises what `check_publish` raises."""
    ids = [draft.message_id for _, draft in entries]
    yield from check_publish_under(work, queue, ids)
    if any(each is not None for each in ids):
        publish_after_birth(work, queue)
    return work.ids.next_positions(ids)


def _fill(
    work: Workspace, queue: QueueName, entries: Sequence[Entry], positions: Sequence[Position]
) -> Operation[Batch]:
    """Return a batch that is whole and durable, but not sealed yet."""
    patience = with_own_id(None)
    while True:
        batch = Batch(work, queue)
        is_filled = False
        try:
            if is_short(entries):
                batch.write(entries, positions)
                yield Unsynced((), (), has_closed_files=True, messages=len(entries))
                is_filled = batch.is_short = True
            else:
                is_filled = yield InWorker(batch.fill, entries, positions)
        finally:
            if not is_filled:
                batch.close()
        if is_filled:
            return batch
        yield patience.pause()


def _deliver(work: Workspace, batch: Batch) -> Operation[None]:
    """Roll the sealed batch forward, and let the index know what is ready."""
    # Without the queue's lock it waits for a purge, which the committer must not do.
    if batch.is_short and try_to_hold(work, batch.queue):
        rolled: Rolled = batch.deliver_held()
    else:
        rolled = yield from _deliver_beside_others(work, batch)
    for queue, message_id in rolled.ready:
        work.ready.add(queue, message_id, batch.keys.get(message_id))
    if rolled.left:
        batch.close()  # A sweep passes over what another process holds.
        work.request_sweep()


def _deliver_beside_others(work: Workspace, batch: Batch) -> Operation[Rolled]:
    """Deliver in a worker. Events can tell of a message before the worker is done, and a receiver
    can take it: such a message is not among those that are ready."""
    ready = work.ready.get(batch.queue)
    gone = set[str]() if ready is None else ready.begin_noting_gone()
    try:
        rolled: Rolled = yield InWorker(batch.deliver)
    finally:
        if ready is not None:
            ready.end_noting_gone(gone)
    rolled.ready = [each for each in rolled.ready if each[1] not in gone]
    if work.ready.get(batch.queue) is not ready:
        # The index has begun meanwhile, and nobody has noted what left it.
        rolled.ready = [each for each in rolled.ready if may_be_in(work.spool, *each)]
    return rolled


def seal_batch(work: Workspace, batch: Batch) -> Operation[None]:
    """Publish a filled batch. On return all of it survives a power cut, and its new messages count
    as undelivered, for the caller to end.

    A failed sync opens the set again, so that closing gives it up. Raises QueueNotFound,
    StoreUnavailable.
    """
    queue, name, added = batch.queue, batch.name, batch.added
    yield from hold(work, queue)
    if not work.knows_space(queue, added):
        yield from find_space(work, queue, added)
    try:
        seal_set(work.spool, Folder.NEW, name.open, name.sealed)
    except FileNotFoundError:
        raise vanished(work.spool, queue) from None
    batch.is_sealed = True
    work.undelivered[queue] += added
    try:
        yield Unsynced((), (Folder.NEW,))
    except BaseException as error:
        work.end_delivery(queue, added)
        if isinstance(error, StoreUnavailable):
            work.spool.rename_within(Folder.NEW, name.sealed, name.open)
            batch.is_sealed = False
        raise
    work.counts.of(queue).published += added
