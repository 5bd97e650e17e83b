"""Peek: look at messages and change nothing. It takes no lock and no lease, and makes no stamp and
no move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mq.commit.operation import InWorker, Operation
from mq.disk.files import Files
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, queue_path
from mq.spool.queue.listing import find_key
from mq.spool.spool import Spool
from mq.store.answer_memory import Share
from mq.store.indexing import MAX_LISTINGS, listing
from mq.store.peeking.peeked_message import (
    PeekedMessage,
    close_peeked,
    gather,
    peek_anywhere,
    peek_ready,
)
from mq.store.shared_state import Workspace, no_message

_LOOK_AT_ONCE = 100
"""How many are looked at together behind some that could not be shown."""


def peek(
    work: Workspace,
    queue: QueueName,
    limit: int,
    after: MessageId | None = None,
    share: Share | None = None,
) -> Operation[list[PeekedMessage]]:
    """Look at the oldest ready messages, up to `limit` and what `share` has memory for, but at
    least at one if there is one. With `after`, look only at those that follow it. The caller closes
    them. Raises QueueNotFound, MessageNotFound, StoreUnavailable."""
    listings, key, at_once = 0, "", limit
    while listings < MAX_LISTINGS:
        work.ready.drain()
        if after is not None and not key:
            key = _key_of(work, queue, after)
        ids = _find_behind(work, queue, key, at_once)
        if ids is None:
            listings += 1
            yield listing(work, queue)
            continue
        found: list[PeekedMessage] = []
        messages = peek_ready(work.spool, queue, ids)
        peeking = InWorker(gather_into, found, work.files, messages, limit, share)
        yield from closing_if_refused(work.files, found, peeking)
        if found or not ids:
            return found
        # Those that are left are not messages, or cannot be read.
        key = _drop_gone(work, queue, ids) or key
        at_once = max(limit, _LOOK_AT_ONCE)
    return []


def peek_at(work: Workspace, queue: QueueName, message_id: MessageId) -> Operation[PeekedMessage]:
    """Look at a message: ready, leased or delayed. The caller closes it. Raises QueueNotFound,
    MessageNotFound, StoreUnavailable."""
    work.require_queue(queue)
    found: list[PeekedMessage] = []
    peeking = InWorker(_peek_at, found, work.spool, queue, message_id)
    yield from closing_if_refused(work.files, found, peeking)
    if not found:
        raise no_message(queue, message_id)
    return found[0]


def closing_if_refused(
    files: Files, found: Sequence[PeekedMessage], peeking: InWorker
) -> Operation[Any]:
    """Return what a worker returns that enters messages in `found`. If a sync fails meanwhile, this
    raises StoreUnavailable, and the messages are closed: nobody gets them."""
    try:
        return (yield peeking)
    except BaseException:
        close_peeked(files, found)
        raise


def _key_of(work: Workspace, queue: QueueName, message_id: MessageId) -> str:
    """Return the key of a message, even of one that has left the queue. Raises QueueNotFound,
    MessageNotFound."""
    ready = work.loaded_index(queue)
    key = (ready and ready.key(message_id)) or find_key(work.spool, queue, message_id)
    if key is None:
        raise no_message(queue, message_id)
    return key


def _find_behind(work: Workspace, queue: QueueName, key: str, limit: int) -> list[MessageId] | None:
    """Return the first `limit` messages behind that key in a queue, as its index knows them; None
    if it must be listed first. Raises QueueNotFound."""
    ready = work.loaded_index(queue)
    if ready is None:
        return None
    ids = ready.behind(key, limit)
    return ids if ids or not work.may_have_changed(queue, ready) else None


def _drop_gone(work: Workspace, queue: QueueName, ids: Iterable[MessageId]) -> str | None:
    """Take out of the index what a peek did not find. Returns the key of the last one that is
    there all the same, if one is."""
    last = None
    ready = work.ready.get(queue)
    if ready is not None:
        for message_id in ids:
            if work.spool.exists(Folder.QUEUES, queue_path(queue, message_id)):
                last = ready.key(message_id) or last
            else:
                ready.discard(message_id)
    return last


def gather_into(
    found: list[PeekedMessage],
    files: Files,
    messages: Iterable[PeekedMessage],
    limit: int,
    share: Share | None,
) -> None:
    """Enter in `found` what `gather` returns. Blocking, for a worker."""
    found += gather(files, messages, limit, share)


def _peek_at(
    found: list[PeekedMessage], spool: Spool, queue: QueueName, message_id: MessageId
) -> None:
    peeked = peek_anywhere(spool, queue, message_id)
    if peeked is not None:
        found.append(peeked)
