"""Publish what several requests have for the same queues in one set: its folder costs several times
what a message in it costs."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Operation, Together
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import StoreUnavailable
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
    """Publish each message to all of these queues or to none, under an id of the server. Returns
    for each what `publish_one` returns or raises. Raises what concerns all of them."""
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
    if also or removes is not None or work.settings.of(queue).also:
        entries = [Entry(None, draft)]
        [published] = yield from publish_batch(work, queue, entries, also, removes)
        return published
    operation = publish if draft.message_id is None else publish_own
    return (yield from operation(work, queue, draft))


def _may_share(work: Workspace, drafts: Sequence[Draft]) -> bool:
    """Return whether the properties of one message cannot fail the others."""
    is_kept = work.spool.has_long_seals or not any(draft.trailer for draft in drafts)
    return len(drafts) == 1 or is_kept
