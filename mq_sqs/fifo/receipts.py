"""Under a receipt handle: delete a message of a FIFO queue, or change its visibility.

The next message of the group can be received once this one is removed; or it comes again itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mq.commit.operation import Operation
from mq.errors import LeaseMismatch, MessageNotFound, MQError
from mq.names import MessageId, QueueName
from mq.store.removing.remove_many import remove_many
from mq.store.removing.remove_under_lease import remove_leased
from mq.store.shared_state import Workspace
from mq.store.visibility import change_visibility
from mq_sqs.fifo.fifo_queue import FifoQueues
from mq_sqs.fifo.using import look_again, use, wake


def remove_in_order(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    message_id: MessageId,
    leases: frozenset[int],
) -> Operation[None]:
    """Do as `mq.store.removing.remove_under_lease.remove_leased` does."""
    yield from use(work, fifo, queue)
    try:
        yield from remove_leased(work, queue, message_id, leases)
    except (LeaseMismatch, MessageNotFound):
        _look_again(work, fifo, queue, message_id)
        raise
    _forget(work, fifo, queue, [message_id])


def remove_many_in_order(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    ids: Sequence[MessageId],
    leases: frozenset[int],
) -> Operation[list[MQError | None]]:
    """Do as `mq.store.removing.remove_many.remove_many` does."""
    yield from use(work, fifo, queue)
    outcomes = yield from remove_many(work, queue, ids, leases)
    told = list(zip(ids, outcomes, strict=True))
    _forget(work, fifo, queue, (message_id for message_id, outcome in told if outcome is None))
    for message_id, outcome in told:
        if outcome is not None:
            _look_again(work, fifo, queue, message_id)
    return outcomes


def change_visibility_in_order(
    work: Workspace,
    fifo: FifoQueues,
    queue: QueueName,
    receipt: tuple[MessageId, int],
    visibility_ns: int,
) -> Operation[bool]:
    """Do as `mq.store.visibility.change_visibility` does; `receipt` is id and lease."""
    yield from use(work, fifo, queue)
    changed = yield from change_visibility(work, queue, *receipt, visibility_ns)
    _look_again(work, fifo, queue, receipt[0])
    return changed


def _forget(
    work: Workspace, fifo: FifoQueues, queue: QueueName, removed: Iterable[MessageId]
) -> None:
    state = fifo.get(queue)
    if state is not None:
        available = state.groups.available
        for message_id in removed:
            state.forget(message_id)
        wake(work, state, available)


def _look_again(work: Workspace, fifo: FifoQueues, queue: QueueName, message_id: MessageId) -> None:
    """Find out what has become of a message: it may have been prolonged, have come back, or be a
    dead letter. One that is ready stays as it is."""
    state = fifo.get(queue)
    if state is not None and state.groups.is_hidden(message_id):
        look_again(work, state, message_id)
