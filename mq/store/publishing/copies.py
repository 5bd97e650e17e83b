"""Publish what several requests have for the same queues in one set: its folder costs several times
what a message in it costs."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Apart, Done, Operation, Submitted
from mq.config import SMALL_BODY_BYTES
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import IdTaken, StoreUnavailable
from mq.names import QueueName
from mq.store.publishing.batch import NotAllNew, publish_batch
from mq.store.publishing.own_id import publish_own
from mq.store.publishing.publish import Draft, Entry, Published, publish
from mq.store.publishing.readers import Queues
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace

ToCopy = tuple[Draft, Done]
"""A message with its body in memory, and its caller."""


def most_in_one_set(queues: Queues) -> int:
    """Return how many messages for all of these queues one native call writes."""
    return max(1, CHAINS_AT_ONCE // len(queues))


def publish_copies(
    work: Workspace, queues: Queues, asked: Sequence[ToCopy]
) -> Operation[Sequence[Published | Submitted]]:
    """Publish each message to all of these queues or to none. Returns what became of each; or, if
    something about one of them may keep the others, operations that each publish one and tell its
    caller. Raises what concerns all of them."""
    if _may_share(work, asked):
        entries = [Entry(None, draft) for draft, _ in asked]
        are_own = len(asked) > 1 and any(draft.message_id is not None for draft, _ in asked)
        try:
            return (yield from publish_batch(work, queues[0], entries, queues[1:], if_new=are_own))
        except NotAllNew:
            pass
        except StoreUnavailable as error:
            # A queue without room for all of them may have some for the first.
            if len(asked) == 1 or error.full is None:
                raise
    alone = [
        Submitted(publish_one(work, queues[0], draft, queues[1:]), done) for draft, done in asked
    ]
    yield Apart(alone)
    return alone


def publish_one(
    work: Workspace,
    queue: QueueName,
    draft: Draft,
    also: Queues = (),
    removes: Removed = None,
) -> Operation[Published]:
    """Publish a message to the queue, to those in `also` and to those in their settings, and remove
    `removes`: all of that or nothing. Raises what `publish`, `publish_own` and `publish_batch`
    raise."""
    entries = [Entry(None, draft)]
    [published] = yield from publish_entries(work, queue, entries, also, removes)
    return published


def publish_entries(
    work: Workspace,
    queue: QueueName,
    entries: Sequence[Entry],
    also: Queues = (),
    removes: Removed = None,
) -> Operation[list[Published]]:
    """Do what `publish_batch` does. A message that goes to one queue, and for which none is
    removed, needs no set; but a long one in memory is written by a worker, as part of one."""
    line, draft, named = entries[0]
    is_alone = len(entries) == 1 and named is None and removes is None
    is_long = draft.body is not None and draft.length > SMALL_BODY_BYTES
    if not is_alone or is_long or also or work.settings.of(queue).also:
        return (yield from publish_batch(work, queue, entries, also, removes))
    operation = publish if draft.message_id is None else publish_own
    try:
        return [(yield from operation(work, queue, draft))]
    except IdTaken as error:
        raise (error if line is None else IdTaken(f"line {line}: {error}")) from None


def _may_share(work: Workspace, asked: Sequence[ToCopy]) -> bool:
    """Return whether the properties of one message cannot fail the others."""
    has_properties = len(asked) > 1 and any(draft.trailer for draft, _ in asked)
    return not has_properties or work.spool.has_long_seals
