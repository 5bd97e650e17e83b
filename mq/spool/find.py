"""Where a message is: in every place that a message of some id can be in, also one that moves while
it is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, dead_letter_queue, file_name, queue_path
from mq.spool.done import CLAIMS, DoneBatches, folders_in
from mq.spool.folders import Spool
from mq.spool.sets import OPEN_SUFFIX, parse_batch_name

_ON_ITS_WAY = (Folder.QUEUES, Folder.DELAY) * 3
"""A receive and a redelivery may pass between two looks, again and again."""


def find(spool: Spool, done: DoneBatches, queue: QueueName, message_id: MessageId) -> Iterator[str]:
    """The paths from the root on, in the order of its way, at which there is a message of the queue
    with that id, or a dead letter of it.

    Looks at each place when it is asked for the next path. Raises OSError.
    """
    root, flat = f"{spool.root}", file_name(queue, message_id)
    for path in _candidates(spool, done, queue, message_id, flat):
        if os.path.lexists(f"{root}/{path}"):
            yield path


def _candidates(
    spool: Spool, done: DoneBatches, queue: QueueName, message_id: MessageId, flat: str
) -> Iterator[str]:
    yield f"{Folder.NEW}/{flat}"
    for batch in _sealed_batches(spool, queue):
        yield f"{Folder.NEW}/{batch}/{flat}"
    for folder in _ON_ITS_WAY:
        yield f"{folder}/{queue_path(queue, message_id) if folder is Folder.QUEUES else flat}"
    yield from _claims(f"{spool.root}", flat)
    yield from done.paths(flat)
    dead = dead_letter_queue(queue)
    if dead is not None:
        dead_flat = file_name(dead, message_id)
        yield f"{Folder.QUEUES}/{queue_path(dead, message_id)}"
        yield f"{Folder.DELAY}/{dead_flat}"
        yield f"{Folder.QUEUES}/{queue_path(dead, message_id)}"
        yield f"{Folder.REMOVE}/{dead_flat}"
    # A claim that was given back, a dead letter that got another try; then the end of the way.
    yield f"{Folder.QUEUES}/{queue_path(queue, message_id)}"
    yield f"{Folder.DELAY}/{flat}"
    yield f"{Folder.REMOVE}/{flat}"


def _sealed_batches(spool: Spool, queue: QueueName) -> list[str]:
    """Usually there is none, and the number of links of `new` says so, where it counts folders."""
    if os.fstat(spool.fd(Folder.NEW)).st_nlink == 2:
        return []
    return [
        name
        for name in spool.names(Folder.NEW)
        if not name.endswith(OPEN_SUFFIX)
        and (batch := parse_batch_name(name)) is not None
        and batch.queue == queue
    ]


def _claims(root: str, flat: str) -> Iterator[str]:
    """In the sets that Spark queries have claimed: `GROUP/CLAIM/QUEUE:ID`, or a level deeper."""
    for group in folders_in(root, CLAIMS):
        for claim in folders_in(root, group):
            yield f"{claim}/{flat}"
            for part in folders_in(root, claim):
                yield f"{part}/{flat}"
