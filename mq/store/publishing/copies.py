"""Publish what several requests have for the same queues in one set: its folder costs several times
what a message in it costs."""

from __future__ import annotations

from collections.abc import Sequence

from mq.commit.operation import Operation, Together
from mq.disk.calls import CHAINS_AT_ONCE
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.publishing.batch import publish_batch
from mq.store.publishing.publish import Draft, Entry, Published
from mq.store.shared_state import Workspace

Queues = tuple[QueueName, ...]


def most_in_one_set(queues: Queues) -> int:
    """Return how many messages for all of these queues one native call writes."""
    return max(1, CHAINS_AT_ONCE // len(queues))


def publish_copies(
    work: Workspace, queues: Queues, drafts: Sequence[Draft]
) -> Operation[Sequence[Published | BaseException]]:
    """Publish each message to all of these queues or to none, under an id of the server. Returns
    for each what `publish_copy` returns or raises. Raises what concerns all of them."""
    if len(drafts) > 1 and _may_share(work, drafts):
        entries = [Entry(None, draft) for draft in drafts]
        try:
            return (yield from publish_batch(work, queues[0], entries, queues[1:]))
        except StoreUnavailable as error:
            if not error.is_full:  # A queue without room for all may have some for the first.
                raise
    outcomes: list[Published | BaseException] = yield Together(
        [publish_copy(work, queues, draft) for draft in drafts]
    )
    return outcomes


def publish_copy(work: Workspace, queues: Queues, draft: Draft) -> Operation[Published]:
    """Publish a message to all of these queues or to none. Raises what `publish_batch` raises."""
    [published] = yield from publish_batch(work, queues[0], [Entry(None, draft)], queues[1:])
    return published


def _may_share(work: Workspace, drafts: Sequence[Draft]) -> bool:
    """Return whether the properties of one message cannot fail the others."""
    return work.spool.has_long_seals or not any(draft.trailer for draft in drafts)
