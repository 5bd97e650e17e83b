"""Look into the folders and change nothing: no lock, no lease, no stamp, no move."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from mq.config import SECOND_NS
from mq.ctl.ways.access import QueueCounts, ShownMessage
from mq.ctl.ways.messages import peeked_message
from mq.ids import id_of_key
from mq.lifecycle import Folder, State
from mq.names import MessageId, QueueName, parse_file_name
from mq.spool.disk_errors import FAULTS_OF_ONE_QUEUE, NO_MESSAGE
from mq.spool.queue.hidden import keys_in_state, list_hidden
from mq.spool.queue.listing import list_queue, oldest_ns
from mq.spool.queue.settings_file import settings_in
from mq.spool.spool import Spool
from mq.store.hidden_counts import count_hidden, is_leased
from mq.store.peeking.peek_hidden import peek_in_delay
from mq.store.peeking.peeked_message import PeekedMessage, peek_anywhere, peek_ready
from mq.store.shared_state import no_message, no_queue


def count_queues(spool: Spool) -> list[QueueCounts]:
    """Return the counts of every queue, by name. Lists every folder once. A queue whose folder
    cannot be opened or read is reported."""
    hidden = Counter(
        (parsed[0], is_leased(spool, name))
        for name in spool.names(Folder.DELAY)
        if (parsed := parse_file_name(name)) is not None
    )
    found = []
    for name in spool.queue_names():
        try:
            counts = _count(spool, name, (hidden[name, True], hidden[name, False]))
        except OSError as error:
            if error.errno not in FAULTS_OF_ONE_QUEUE:
                raise
            spool.report_left(f"{Folder.QUEUES}/{name}", str(error.strerror))
            continue
        if counts is not None:
            found.append(counts)
    return found


def count_queue(spool: Spool, queue: QueueName) -> QueueCounts:
    """Return the counts of a queue. Raises QueueNotFound."""
    counts = _count(spool, queue, count_hidden(spool, queue))
    if counts is None:
        raise no_queue(queue)
    return counts


def _count(spool: Spool, queue: QueueName, hidden: tuple[int, int]) -> QueueCounts | None:
    """Return the counts of a queue, or None if there is no such queue. `hidden` are the numbers of
    leased and delayed messages."""
    listing = list_queue(spool, queue)
    if listing is None:
        return None
    first_ns = oldest_ns(listing.keys)
    age = None if first_ns is None else max(time.time_ns() - first_ns, 0) / SECOND_NS
    return QueueCounts(queue, len(listing.keys), *hidden, age, _is_paused(spool, queue))


def _is_paused(spool: Spool, queue: QueueName) -> bool:
    """Return whether the settings of a queue say so. To a server, too, they are empty if they
    cannot be read."""
    try:
        return settings_in(spool, queue).paused is True
    except OSError as error:
        if error.errno not in FAULTS_OF_ONE_QUEUE | NO_MESSAGE:
            raise
    return False


def oldest_messages(
    spool: Spool, queue: QueueName, limit: int, state: State
) -> Iterator[ShownMessage]:
    """Yield the first `limit` messages in that state. Raises QueueNotFound."""
    look = _look_at_ready(spool, queue) if state is State.READY else _hidden(spool, queue, state)
    yield from (peeked_message(peeked) for peeked in islice(look, limit))


def _look_at_ready(spool: Spool, queue: QueueName) -> Iterator[PeekedMessage]:
    listing = list_queue(spool, queue)
    if listing is None:
        raise no_queue(queue)
    yield from peek_ready(spool, queue, (MessageId(id_of_key(key)) for key in listing.keys))


def _hidden(spool: Spool, queue: QueueName, state: State) -> Iterator[PeekedMessage]:
    """Yield all of them, in as many listings as it takes."""
    if spool.status(Folder.QUEUES, queue) is None:
        raise no_queue(queue)
    end: str | None = ""
    while end is not None:
        listing = list_hidden(spool, queue, end)
        keys = keys_in_state(spool, queue, listing, state, end)
        yield from peek_in_delay(spool, queue, state, keys)
        end = listing.end


def find_message(spool: Spool, queue: QueueName, message_id: MessageId) -> ShownMessage:
    """Return a message that is ready, leased or delayed. Raises QueueNotFound, MessageNotFound."""
    if spool.status(Folder.QUEUES, queue) is None:
        raise no_queue(queue)
    peeked = peek_anywhere(spool, queue, message_id)
    if peeked is None:
        raise no_message(queue, message_id)
    return peeked_message(peeked)
