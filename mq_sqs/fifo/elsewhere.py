"""Read from the files what was sent to FIFO queues and is not in them any more. Blocking, for
workers: about 30 µs for each message.

Everything that was removed, and every other FIFO queue, may have such messages, so queues that are
read at the same time have one reading of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mq.ids import id_of_time, is_server_id, order_key
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, is_fifo
from mq.spool.message.burial import origin_of
from mq.spool.message.held import Opened
from mq.spool.queue.purged import PURGED_SUFFIX
from mq.spool.spool import Spool
from mq_sqs.fifo.loading import FoundMessage, look, read_message


class SentAsk(NamedTuple):
    """What is asked for: messages that were sent to the queue since then, and since it was purged
    or made, in ns since 1970."""

    queue: QueueName
    since_ns: int
    purged_ns: int


class _Search(NamedTuple):
    """Where to look: at ids from `since` on; at folders that have changed since then; not at what
    `only` has, if no other queue asks."""

    since: str
    changed_ns: int
    only: QueueName | None


def read_sent(
    spool: Spool, asks: Sequence[SentAsk], changed_ns: int
) -> dict[QueueName, list[FoundMessage]]:
    """Return for each queue what was sent to it and is removed, purged, a dead letter in another
    queue, or moved there. Raises OSError.

    A queue's folder whose ctime is below `changed_ns` is not listed: nothing that counts has come
    there since.
    """
    sent: dict[QueueName, list[FoundMessage]] = {each.queue: [] for each in asks}
    by_queue = {each.queue: each for each in asks}
    known: set[tuple[QueueName, MessageId]] = set()
    search = _Search(
        id_of_time(min(max(each.since_ns, each.purged_ns) for each in asks)),
        changed_ns,
        asks[0].queue if len(asks) == 1 else None,
    )
    for folder, holder, name, message_id in _elsewhere(spool, search):
        is_own = folder is Folder.REMOVE and holder in by_queue
        if (holder == search.only and not is_own) or (holder, message_id) in known:
            continue
        if not is_own and _is_of_others(spool, folder, holder, name, by_queue):
            continue
        looked = look(spool, folder, name, partial(_read_sent, spool, holder, message_id))
        if looked is None:
            continue
        known.add((holder, message_id))
        for queue, found in looked:
            ask = by_queue.get(queue)
            if ask is not None and _counts(ask, folder, holder, found):
                sent[queue].append(found)
    return sent


def _counts(ask: SentAsk, folder: Folder, holder: QueueName, found: FoundMessage) -> bool:
    """Return whether a message was sent to the queue that asks. What is in the queue itself was
    read before."""
    is_elsewhere = folder is Folder.REMOVE or holder != ask.queue
    return is_elsewhere and found.published_ns > ask.purged_ns


def _is_of_others(
    spool: Spool,
    folder: Folder,
    holder: QueueName,
    name: str,
    asking: Mapping[QueueName, SentAsk],
) -> bool:
    """Return whether a message was certainly sent to none of the queues. Most need not be
    opened."""
    try:
        fd, bare, _keeper = spool.at(folder, name)
        return origin_of(spool.files, f"/proc/self/fd/{fd}/{bare}", holder) not in asking
    except OSError:
        return False  # A look tells what is wrong.


def _read_sent(
    spool: Spool, holder: QueueName, message_id: MessageId, opened: Opened
) -> list[tuple[QueueName, FoundMessage]]:
    """Read a message that `holder` has or had, as that queue sees it and as the one that it was
    sent to does."""
    key = order_key(message_id, opened.published_ns(message_id))
    origin = origin_of(spool.files, opened.fd, holder)
    queues = [holder] if origin is None else [holder, origin]
    return [(each, read_message(spool, each, message_id, key, opened)) for each in queues]


def _elsewhere(spool: Spool, search: _Search) -> Iterator[tuple[Folder, QueueName, str, MessageId]]:
    """Yield where a message may be that is neither ready nor hidden in its queue: folder, queue,
    path in the folder, and id. Each folder is listed when those before it were read, in the order
    of a message's way: one that moves on meanwhile is found further on, and one that comes back to
    its queue when these are listed again."""
    yield from _ready_elsewhere(spool, search)
    yield from _young(Folder.DELAY, spool.names(Folder.DELAY), search.since)
    yield from _ready_elsewhere(spool, search)
    removed = spool.names(Folder.REMOVE)
    yield from _young(Folder.REMOVE, removed, search.since)
    for folder in removed:
        holder = folder.removesuffix(PURGED_SUFFIX)
        if folder.endswith(PURGED_SUFFIX) and is_fifo(holder):
            yield from _purged(spool, QueueName(holder), folder, search.since)


def _ready_elsewhere(
    spool: Spool, search: _Search
) -> Iterator[tuple[Folder, QueueName, str, MessageId]]:
    for holder in spool.names(Folder.QUEUES):
        if not is_fifo(holder) or holder == search.only:
            continue
        status = spool.status(Folder.QUEUES, holder)
        if status is None or status.st_ctime_ns < search.changed_ns:
            continue
        for name in spool.names_if_any(Folder.QUEUES, holder):
            if _is_young(name, search.since):
                yield Folder.QUEUES, QueueName(holder), f"{holder}/{name}", MessageId(name)


def _young(
    folder: Folder, names: Iterable[str], since: str
) -> Iterator[tuple[Folder, QueueName, str, MessageId]]:
    for name in names:
        holder, _, message_id = name.partition(":")
        if is_fifo(holder) and _is_young(message_id, since):
            yield folder, QueueName(holder), name, MessageId(message_id)


def _purged(
    spool: Spool, holder: QueueName, folder: str, since: str
) -> Iterator[tuple[Folder, QueueName, str, MessageId]]:
    for part in spool.names_if_any(Folder.REMOVE, folder):
        for name in spool.names_if_any(Folder.REMOVE, f"{folder}/{part}"):
            message_id = name.rpartition(":")[2]
            if _is_young(message_id, since):
                yield Folder.REMOVE, holder, f"{folder}/{part}/{name}", MessageId(message_id)


def _is_young(message_id: str, since: str) -> bool:
    return message_id >= since and is_server_id(message_id)
