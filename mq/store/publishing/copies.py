"""Publish what several requests have for the same queues in one set: its folder costs several times
what a message in it costs."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Operation, Together
from mq.config import SMALL_BODY_BYTES
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import IdTaken, StoreUnavailable
from mq.names import QueueName
from mq.store.publishing.batch import publish_batch
from mq.store.publishing.own_id import publish_own
from mq.store.publishing.publish import Draft, Entry, Published, publish
from mq.store.publishing.readers import Queues
from mq.store.removing.remove_under_lease import Removed
from mq.store.shared_state import Workspace


def most_in_one_set(queues: Queues) -> int:
    """Return how many messages for all of these queues one native call writes."""
    return max(1, CHAINS_AT_ONCE // len(queues))


def publish_copies(
    work: Workspace, queues: Queues, drafts: Sequence[Draft]
) -> Operation[Sequence[Published | BaseException]]:
    """Publish each message to all of these queues or to none. Returns for each what `publish_one`
    returns or raises. Raises what concerns all of them."""
    if _may_share(work, drafts):
        entries = [Entry(None, draft) for draft in drafts]
        try:
            return (yield from publish_batch(work, queues[0], entries, queues[1:]))
        except StoreUnavailable as error:
            # A queue without room for all of them may have some for the first.
            if len(drafts) == 1 or error.full is None:
                raise
    outcomes: list[Published | BaseException] = yield Together(
        [publish_one(work, queues[0], draft, queues[1:]) for draft in drafts]
    )
    return outcomes


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


def _may_share(work: Workspace, drafts: Sequence[Draft]) -> bool:
    """Return whether neither the properties nor the own id of one message can fail the others."""
    if len(drafts) == 1:
        return True
    is_kept = work.spool.has_long_seals or not any(draft.trailer for draft in drafts)
    return is_kept and all(draft.message_id is None for draft in drafts)
