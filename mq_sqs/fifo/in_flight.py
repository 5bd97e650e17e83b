"""Messages that are hidden, and what others do to them: the mover brings them back, or to the dead
letters; `mq` removes them. The queue's folder shows a message that comes back, but not that one is
gone.
"""

from __future__ import annotations

from collections.abc import Callable

from mq.commit.operation import InWorker, Operation
from mq.errors import MQError
from mq.names import QueueName
from mq.store.context import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.loading import list_hidden, name_in_delay
from mq_sqs.fifo.using import look_again, look_at_overdue

_LOOKS_AT_ONCE = 500


def look_for_overdue(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    """Look for messages that should have come back by now. Raises what `_look_at_each` raises."""
    work.ready.drain()
    yield from ()
    _look_at_each(
        work, fifo, lambda queue, state: look_at_overdue(work, queue, state, _LOOKS_AT_ONCE)
    )


def look_for_removed(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    """Look for messages that are gone before they were due. Raises what `_look_at_each` raises."""
    known = [(queue, fifo.get(queue)) for queue in fifo.names()]
    expected = {queue: state.expected() for queue, state in known if state is not None}
    if not any(expected.values()):
        return
    there = yield InWorker(list_hidden, work.spool)

    def look(queue: QueueName, state: FifoQueue) -> None:
        for message_id in expected.get(queue, ()):
            is_there = name_in_delay(queue, message_id) in there
            if not is_there and state.groups.is_hidden(message_id):
                look_again(work, queue, state, message_id)

    _look_at_each(work, fifo, look)


def _look_at_each(
    work: Workspace, fifo: FifoQueues, look: Callable[[QueueName, FifoQueue], None]
) -> None:
    """Look at the queues that are in memory. Raises the first OSError when all were looked at: what
    is wrong with one keeps no other waiting."""
    failures: list[OSError] = []
    for queue in fifo.names():
        try:
            state = fifo.find(work, queue)
            if state is not None:
                look(queue, state)
        except MQError:
            fifo.drop(queue)  # it was deleted
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]
