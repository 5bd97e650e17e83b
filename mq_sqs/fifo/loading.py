"""What the files say of the messages of a FIFO queue. Blocking, for workers: about 20 µs each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mq.lifecycle import Folder
from mq.names import (
    MessageId,
    QueueName,
    file_name,
    id_of_key,
    is_fifo,
    is_server_id,
    order_key,
    parse_file_name,
    queue_path,
)
from mq.spool.burial import burial_of
from mq.spool.folders import Spool
from mq.spool.message import Opened, look_at
from mq.spool.purged import PURGED_SUFFIX
from mq.spool.seal import NO_LEASE, due_ns
from mq.spool.trailer import read_properties
from mq_sqs.fifo.groups import Hiding
from mq_sqs.properties import DEDUPLICATION_ID, GROUP_ID, system_of

_NS_PER_MS = 1_000_000
_TIME_CHARACTERS = 13
"""So long is what a UUIDv7 has of milliseconds."""


class Lane(NamedTuple):
    """What a message says of its way: its group and deduplication id, None where it has none
    because it was not sent to a FIFO queue."""

    group: str | None
    deduplication_id: str | None


class FoundMessage(NamedTuple):
    """A message's place in the order, its lane, and when it was published, in ns since 1970."""

    key: str
    lane: Lane
    published_ns: int


class HiddenMessage(NamedTuple):
    """One that is in `delay`: why, and until when, in ns since 1970."""

    found: FoundMessage
    hiding: Hiding
    due_ns: int


def read_ready(spool: Spool, queue: QueueName, keys: Sequence[str]) -> dict[str, FoundMessage]:
    """Those of the ready messages that are there, by their keys. One that cannot be read is there,
    without a lane."""
    found: dict[str, FoundMessage] = {}
    for key in keys:
        message_id = MessageId(id_of_key(key))
        try:
            opened = look_at(spool, Folder.QUEUES, queue_path(queue, message_id))
            if opened is not None:
                with opened:
                    found[key] = _read(spool, opened, message_id, key)
        except OSError:
            found[key] = FoundMessage(key, Lane(None, None), 0)
    return found


def read_hidden(spool: Spool, queue: QueueName) -> list[HiddenMessage]:
    """The queue's messages in `delay`. Raises OSError."""
    prefix = f"{queue}:"
    names = [name for name in spool.names(Folder.DELAY) if name.startswith(prefix)]
    return [each for name in names if (each := _read_hidden(spool, name)) is not None]


def _read_hidden(spool: Spool, name: str) -> HiddenMessage | None:
    parsed = parse_file_name(name)
    opened = None if parsed is None else look_at(spool, Folder.DELAY, name)
    if parsed is None or opened is None:
        return None
    with opened:
        message_id = parsed[1]
        key = order_key(message_id, opened.published_ns(message_id))
        hiding = Hiding.COMING if opened.lease == NO_LEASE else Hiding.LEASED
        found = _read(spool, opened, message_id, key)
        return HiddenMessage(found, hiding, due_ns(opened.status, 0))


def read_sent(spool: Spool, queue: QueueName, since_ns: int) -> list[FoundMessage]:
    """What was sent to the queue since then and is not in it any more: removed, purged, or a dead
    letter in another queue. Raises OSError."""
    sent = []
    for folder, holder, name, message_id in _elsewhere(spool, queue, _text_of(since_ns)):
        opened = look_at(spool, folder, name)
        if opened is None:
            continue
        with opened:
            burial = burial_of(spool.files, opened.fd, holder)
            if holder == queue or (burial is not None and burial.queue == queue):
                key = order_key(message_id, opened.published_ns(message_id))
                sent.append(_read(spool, opened, message_id, key))
    return sent


def _elsewhere(
    spool: Spool, queue: QueueName, since: str
) -> Iterator[tuple[Folder, QueueName, str, MessageId]]:
    """Where a message of the queue may be that is neither ready nor hidden there."""
    removed = spool.names(Folder.REMOVE)
    yield from _young(Folder.REMOVE, removed, since)
    for folder in removed:
        holder = folder.removesuffix(PURGED_SUFFIX)
        if folder.endswith(PURGED_SUFFIX) and is_fifo(holder):
            yield from _purged(spool, QueueName(holder), folder, since)
    for each in _young(Folder.DELAY, spool.names(Folder.DELAY), since):
        if each[1] != queue:
            yield each
    for holder in spool.names(Folder.QUEUES):
        if is_fifo(holder) and holder != queue:
            for name in _names(spool, Folder.QUEUES, holder):
                if _is_young(name, since):
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
    for part in _names(spool, Folder.REMOVE, folder):
        for name in _names(spool, Folder.REMOVE, f"{folder}/{part}"):
            message_id = name.rpartition(":")[2]
            if _is_young(message_id, since):
                yield Folder.REMOVE, holder, f"{folder}/{part}/{name}", MessageId(message_id)


def _is_young(message_id: str, since: str) -> bool:
    return message_id[:_TIME_CHARACTERS] >= since and is_server_id(message_id)


def _names(spool: Spool, folder: Folder, name: str) -> list[str]:
    try:
        return spool.names_below(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(spool: Spool, opened: Opened, message_id: MessageId, key: str) -> FoundMessage:
    system = system_of(read_properties(spool.files, opened.fd, opened.seal) or {})
    lane = Lane(system.get(GROUP_ID), system.get(DEDUPLICATION_ID))
    return FoundMessage(key, lane, opened.published_ns(message_id))


def list_hidden(spool: Spool) -> set[str]:
    """The names in `delay`. Raises OSError."""
    return set(spool.names(Folder.DELAY))


def name_in_delay(queue: QueueName, message_id: str) -> str:
    return file_name(queue, MessageId(message_id))


def _text_of(time_ns: int) -> str:
    head = f"{max(time_ns, 0) // _NS_PER_MS:012x}"
    return f"{head[:8]}-{head[8:]}"
