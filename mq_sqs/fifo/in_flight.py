"""Messages that are hidden, and what others do to them: the mover brings them back, or to the dead
letters; `mq` removes them. The queue's folder shows a message that comes back, but not that one is
gone.
"""

from __future__ import annotations

from mq.commit.operation import InWorker, Operation
from mq.errors import MQError
from mq.names import QueueName
from mq.store.context import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.loading import list_hidden, name_in_delay
from mq_sqs.fifo.using import look_again, look_at_overdue

_LOOKS_AT_ONCE = 500


def look_for_overdue(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    """Look for messages that should have come back by now. Raises OSError."""
    work.ready.drain()
    yield from ()
    for queue, state in _current(work, fifo):
        look_at_overdue(work, queue, state, _LOOKS_AT_ONCE)


def look_for_removed(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    """Look for messages that are gone before they were due. Raises OSError."""
    expected = {queue: state.expected() for queue, state in _current(work, fifo)}
    if not any(expected.values()):
        return
    there = yield InWorker(list_hidden, work.spool)
    for queue, state in _current(work, fifo):
        for message_id in expected.get(queue, ()):
            is_there = name_in_delay(queue, message_id) in there
            if not is_there and state.groups.is_hidden(message_id):
                look_again(work, queue, state, message_id)


def _current(work: Workspace, fifo: FifoQueues) -> list[tuple[QueueName, FifoQueue]]:
    found = []
    for queue in fifo.names():
        try:
            state = fifo.find(work, queue)
        except MQError:
            fifo.drop(queue)  # it was deleted
            continue
        if state is not None:
            found.append((queue, state))
    return found
