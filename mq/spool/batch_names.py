"""Names of batches in `new`, and what tells them from uploads and probes."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from mq.disk.files import HIDDEN
from mq.names import QueueName, is_queue_name
from mq.spool.sets import OPEN_SUFFIX


class BatchName(NamedTuple):
    """The set of one batch: `new/.QUEUE:UUID.open`, sealed as `new/.QUEUE:UUID`."""

    queue: QueueName
    sealed: str

    @property
    def open(self) -> str:
        return self.sealed + OPEN_SUFFIX


def new_batch_name(queue: QueueName) -> BatchName:
    return BatchName(queue, f"{HIDDEN}{queue}:{uuid.uuid4()}")


def parse_batch_name(name: str) -> BatchName | None:
    """Return the batch, open or sealed, that a hidden name in `new` belongs to, or None for another
    name."""
    queue, colon, _ = name.removeprefix(HIDDEN).partition(":")
    if not name.startswith(HIDDEN) or not colon or not is_queue_name(queue):
        return None
    return BatchName(QueueName(queue), name.removesuffix(OPEN_SUFFIX))
