"""Names of batches in `new`, and what tells them from uploads and probes."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from mq.disk.files import HIDDEN
from mq.names import QueueName, is_queue_name
from mq.spool.sets import OPEN_SUFFIX

_SEVERAL = "+"
_HANDOVER = "-"
"""These stand for QUEUE in the name of a batch for several queues, and of a handover. No queue has
such a name."""


class BatchName(NamedTuple):
    """The set of one batch: `new/.QUEUE:UUID.open`, sealed as `new/.QUEUE:UUID`. If it is for
    several queues it is `new/.+:UUID`, and that of a handover (`mq.spool.handovers`) is
    `new/.-:UUID`: `queue` is None then, and the members say which they are."""

    queue: QueueName | None
    sealed: str

    @property
    def open(self) -> str:
        return self.sealed + OPEN_SUFFIX

    @property
    def is_handover(self) -> bool:
        return is_handover(self.sealed)

    @property
    def removed(self) -> str:
        """What its name in `remove` begins with once it is given up."""
        return self.queue or "batch"

    def may_have(self, queue: QueueName) -> bool:
        """Whether members of that queue can be in the batch."""
        return self.queue is None or self.queue == queue


def new_batch_name(*queues: QueueName) -> BatchName:
    queue = queues[0] if len(queues) == 1 else None
    return BatchName(queue, f"{HIDDEN}{queue or _SEVERAL}:{uuid.uuid4()}")


def new_handover_name() -> BatchName:
    return BatchName(None, f"{HIDDEN}{_HANDOVER}:{uuid.uuid4()}")


def parse_batch_name(name: str) -> BatchName | None:
    """Return the batch, open or sealed, that a hidden name in `new` belongs to, or None for another
    name."""
    queue, colon, _ = name.removeprefix(HIDDEN).partition(":")
    if not name.startswith(HIDDEN) or not colon:
        return None
    sealed = name.removesuffix(OPEN_SUFFIX)
    if queue in (_SEVERAL, _HANDOVER):
        return BatchName(None, sealed)
    return BatchName(QueueName(queue), sealed) if is_queue_name(queue) else None


def is_for_several(name: str) -> bool:
    """Whether this is the name of a batch that may have messages of several queues, open or
    sealed."""
    return name.startswith(f"{HIDDEN}{_SEVERAL}:") or is_handover(name)


def is_handover(name: str) -> bool:
    """Whether this is the name of a handover, open or sealed."""
    return name.startswith(f"{HIDDEN}{_HANDOVER}:")
