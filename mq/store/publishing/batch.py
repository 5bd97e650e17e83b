"""A batch: several messages that are published together, all of them or none.

It is a set (`mq.spool.sets`). Workers fill it, sync its data and roll it forward; the committer
takes the ids, seals it and makes the seal durable. A short batch is done by the committer alone, so
that several share the syncs of their rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce

from mq.commit.barrier import Unsynced
from mq.commit.operation import InWorker, Operation
from mq.errors import QueueNotFound, StoreUnavailable
from mq.lifecycle import Folder
from mq.names import QueueName
from mq.spool.queue.listing import may_be_in
from mq.spool.rolling import Rolled
from mq.spool.sets import seal_set
from mq.store.holding import hold_all
from mq.store.indexing import MAX_LISTINGS, being_made_again, find_space
from mq.store.patience import Patience, with_message, with_own_id
from mq.store.publishing.filling import Batch, vanished
from mq.store.publishing.handing_over import check_removed, end_removal, take_message
from mq.store.publishing.own_id import Ids, check_publish_under
from mq.store.publishing.parts import BatchPart, Placed
from mq.store.publishing.publish import Entry, Published, try_to_hold
from mq.store.publishing.readers import Queues, Ways, explain_copy, find_ways
from mq.store.publishing.twins import is_older_than, publish_after_birth
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace


class NotAllNew(Exception):
    """Some ids of a batch are known, or just being published, and nothing was done."""


def publish_batch(
    work: Workspace,
    queue: QueueName,
    entries: Sequence[Entry],
    also: Sequence[QueueName] = (),
    removes: Removed = None,
    *,
    if_new: bool = False,
) -> Operation[list[Published]]:
    """Publish all of a batch or nothing, in that order: each message to its queue, and under the
    same id to those in `also` and in the settings of all of these; and remove the message
    `removes`, or do neither. On return that survives a power cut. Returns each message as it is in
    its queue; only one that all of them had is a duplicate.

    Waits OWN_ID_WAIT_SECONDS for another publisher of one of the ids. Raises QueueNotFound,
    StoreUnavailable, PropertiesUnsupported, and IdTaken, which names the line; InvalidRequest for
    too many queues; MessageNotFound and LeaseMismatch for `removes`. With `if_new` nobody waits,
    and it raises NotAllNew.
    """
    named = {each.queue for each in entries}
    if None not in named:  # No message asks for it, and a client that sends `Expect` may have.
        yield from check_publish_under(work, queue, ())
    ways = find_ways(work, named, (queue, *also))
    while True:
        try:
            if len(ways) == 1:
                [same] = ways.values()
                return (yield from _publish_alike(work, same, entries, removes, if_new=if_new))
            return (yield from _publish_apart(work, ways, entries, removes, if_new=if_new))
        except QueueNotFound:  # Nothing is published, and a queue of the settings may be gone.
            known, ways = ways, find_ways(work, named, (queue, *also))
            if ways == known:
                raise
        except StoreUnavailable as error:
            raise explain_copy(work, error, {*also, *[each or queue for each in named]}) from None


def _publish_alike(
    work: Workspace, queues: Queues, entries: Sequence[Entry], removes: Removed, *, if_new: bool
) -> Operation[list[Published]]:
    """Publish each message to the same queues, as in most batches."""
    ids = [each.draft.message_id for each in entries]
    yield from check_queues(work, dict.fromkeys(queues, ids))
    positions = work.ids.next_positions(ids)
    placed = {
        queue: [(each, at.of_copy(number)) for each, at in zip(entries, positions, strict=True)]
        for number, queue in enumerate(queues)
    }
    first, *copies = yield from publish_placed(work, placed, removes, if_new=if_new)
    for some in copies:
        first = [*map(_as_one, first, some)]
    return first


def _publish_apart(
    work: Workspace, ways: Ways, entries: Sequence[Entry], removes: Removed, *, if_new: bool
) -> Operation[list[Published]]:
    """Publish each message to its own queues."""
    copies: dict[QueueName, list[tuple[int, int]]] = {}
    for at, entry in enumerate(entries):
        for number, queue in enumerate(ways[entry.queue]):
            copies.setdefault(queue, []).append((at, number))
    ids = [each.draft.message_id for each in entries]
    yield from check_queues(
        work, {queue: [ids[at] for at, _ in some] for queue, some in copies.items()}
    )
    positions = work.ids.next_positions(ids)
    placed = {
        queue: [(entries[at], positions[at].of_copy(number)) for at, number in some]
        for queue, some in copies.items()
    }
    published = yield from publish_placed(work, placed, removes, if_new=if_new)
    found = {
        pair: outcome
        for some, outcomes in zip(copies.values(), published, strict=True)
        for pair, outcome in zip(some, outcomes, strict=True)
    }
    return [
        reduce(_as_one, [found[at, number] for number in range(len(ways[entry.queue]))])
        for at, entry in enumerate(entries)
    ]


def _as_one(first: Published, copy: Published) -> Published:
    """Return a message as it is in its first queue. It is a duplicate if all of them had it."""
    return first._replace(is_duplicate=first.is_duplicate and copy.is_duplicate)


def check_queues(work: Workspace, ids: Mapping[QueueName, Ids]) -> Operation[None]:
    """Do for each queue what `check_publish_under` does, and let the messages be younger than it if
    their producer brings ids."""
    for queue, some in ids.items():
        yield from check_publish_under(work, queue, some)
    for queue, some in ids.items():
        if any(each is not None for each in some):
            publish_after_birth(work, queue)


def publish_placed(
    work: Workspace,
    placed: Mapping[QueueName, Placed],
    removes: Removed = None,
    *,
    if_new: bool = False,
) -> Operation[list[list[Published]]]:
    """Publish messages for several queues, all or none, and return what became of those of each
    queue, in its order. Raises what `publish_batch` raises."""
    batch = yield from _fill(work, placed, removes, if_new=if_new)
    try:
        if batch.added:
            yield from seal_batch(work, batch)
            try:
                yield from _deliver(work, batch)
            finally:
                _end_delivery(work, batch)
        else:
            yield from end_removal(work, removes)
        return [part.published for part in batch.parts]
    finally:
        batch.close()


def _fill(
    work: Workspace, placed: Mapping[QueueName, Placed], removes: Removed, *, if_new: bool
) -> Operation[Batch]:
    """Return a batch that is whole and durable, but not sealed yet."""
    patience = with_own_id(None)
    while True:
        batch = Batch(work, [BatchPart(work, *each) for each in placed.items()], removes)
        check_removed(work, batch)
        is_filled = False
        try:
            if not (batch.fits_one_call and batch.are_ids_new()):
                if if_new:
                    raise NotAllNew
                is_filled = yield InWorker(batch.fill)
            elif batch.write():
                messages = sum([len(each.placed) for each in batch.parts])
                yield Unsynced((), (), has_closed_files=True, messages=messages)
                is_filled = batch.is_short = True
        finally:
            if not is_filled:
                batch.close()
        if is_filled:
            return batch
        yield patience.pause()


def _deliver(work: Workspace, batch: Batch) -> Operation[None]:
    """Roll the sealed batch forward, and let the index know what is ready."""
    # Without the queues' locks it waits for a purge, which the committer must not do.
    if batch.is_short and all(try_to_hold(work, each) for each in batch.queues):
        rolled: Rolled = batch.deliver_held()
    else:
        rolled = yield from _deliver_beside_others(work, batch)
    keys = {part.queue: part.keys for part in batch.parts}
    for queue, message_id in rolled.ready:
        # A person may have put a message of any queue into the set.
        work.ready.add(queue, message_id, keys.get(queue, {}).get(message_id))
    if rolled.left:
        batch.close()  # A sweep passes over what another process holds.
        work.request_sweep()


def _deliver_beside_others(work: Workspace, batch: Batch) -> Operation[Rolled]:
    """Deliver in a worker. Events can tell of a message before the worker is done, and a receiver
    can take it: such a message is not among those that are ready."""
    indexes = {each: work.ready.get(each) for each in batch.queues}
    gone = {each: ready.begin_noting_gone() for each, ready in indexes.items() if ready is not None}
    try:
        with ExitStack() as stack:
            for part in batch.parts:
                gone_here = gone.get(part.queue, set())
                stack.enter_context(work.delivering(part.queue, part.keys, gone_here))
            rolled: Rolled = yield InWorker(batch.deliver)
    finally:
        for queue, ready in indexes.items():
            if ready is not None:
                ready.end_noting_gone(gone[queue])
    # Where the index has begun meanwhile, nobody has noted what left it.
    is_noted = {each: work.ready.get(each) is ready for each, ready in indexes.items()}
    rolled.ready = [
        (queue, message_id)
        for queue, message_id in rolled.ready
        if message_id not in gone.get(queue, ())
        and (is_noted.get(queue) or may_be_in(work.spool, queue, message_id))
    ]
    return rolled


def seal_batch(work: Workspace, batch: Batch) -> Operation[None]:
    """Publish a filled batch. On return all of it survives a power cut, and its new messages count
    as undelivered, for the caller to end.

    A failed sync opens the set again, so that closing gives it up, or leaves it to a sweep if it
    has taken a message. Raises QueueNotFound, StoreUnavailable, MessageNotFound, LeaseMismatch.
    """
    patience: Patience | None = None
    while not (yield from _seal(work, batch)):
        assert batch.removes is not None
        patience = patience or with_message(batch.removes[1])
        yield patience.pause()
    batch.is_sealed = True
    for part in batch.parts:
        work.undelivered[part.queue] += part.added
    took_from = () if batch.removes is None else (Folder.DELAY,)
    # Without one log, what was taken has a name in the set's folder that is not synced with `new`.
    is_more = bool(took_from) and not work.spool.has_one_log
    try:
        yield Unsynced(batch.took_into, (Folder.NEW,), is_more, implied=took_from)
    except BaseException as error:
        _end_delivery(work, batch)
        if isinstance(error, StoreUnavailable):
            work.spool.rename_within(Folder.NEW, batch.name.sealed, batch.name.open)
            batch.is_sealed = False
        raise
    for part in batch.parts:
        work.counts.of(part.queue).published += part.added
    if batch.removes is not None:
        work.counts.of(batch.removes[0]).removed += 1


def _seal(work: Workspace, batch: Batch) -> Operation[bool]:
    """Seal a batch, once it has taken the message that it removes. Returns False, with nothing
    done, if another process holds that message's lock. Raises what `seal_batch` raises."""
    yield from _hold_with_space(work, batch)
    for part in batch.parts:
        if part.own_ids and is_older_than(work, part.queue, part.placed[0][1].published_ns):
            raise being_made_again(part.queue)
    if batch.removes is not None and not (yield from take_message(work, batch, batch.removes)):
        return False
    try:
        seal_set(work.spool, Folder.NEW, batch.name.open, batch.name.sealed)
    except FileNotFoundError:
        raise vanished(work.spool, batch.queues) from None
    return True


def _hold_with_space(work: Workspace, batch: Batch) -> Operation[None]:
    """Hold all queues of a batch, and that of the message that it removes, until the next `yield`,
    once each has room for its new messages. Raises QueueNotFound, StoreUnavailable."""
    # A deletion looks into `new` first, and what is taken comes there.
    taken_from = [] if batch.removes is None else [batch.removes[0]]
    for _ in range(MAX_LISTINGS):
        yield from hold_all(work, batch.queues + taken_from)
        for part in batch.parts:
            if part.added and not work.knows_space(part.queue, part.added):
                yield from find_space(work, part.queue, part.added)
                break
        else:
            return
    raise being_made_again(batch.queues[0])


def _end_delivery(work: Workspace, batch: Batch) -> None:
    for part in batch.parts:
        work.end_delivery(part.queue, part.added)
