"""Messages that are hidden, and what others do to them: the mover brings them back, or to the dead
letters; `mq` removes them. The queue's folder shows a message that comes back, but not that one is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mq.commit.operation import InWorker, Operation
from mq.errors import MQError
from mq.names import QueueName
from mq.store.shared_state import Workspace
from mq_sqs.fifo.fifo_queue import FifoQueue, FifoQueues
from mq_sqs.fifo.loading import not_in_delay
from mq_sqs.fifo.using import look_again, look_at_overdue

_LOOKS_AT_ONCE = 500

_CHECKED_AT_ONCE = 20
"""At each look this many queues are checked whether they are still there, and forget what is too
old to be sent twice: all of them one after the other. There may be thousands, most of them idle."""

_FORGOTTEN_AT_ONCE = 1000


def look_for_overdue(work: Workspace, fifo: FifoQueues) -> None:
    """Look for messages that should have come back by now. Raises what `_look_at_each` raises."""
    work.ready.drain()
    now_ns = work.clock_ns()

    def look(state: FifoQueue) -> None:
        state.deduplication.forget_old(state.clock(), _FORGOTTEN_AT_ONCE)
        look_at_overdue(work, state, _LOOKS_AT_ONCE)

    overdue = [queue for queue, state in fifo.items() if state.is_overdue(now_ns)]
    queues = dict.fromkeys([*overdue, *fifo.next_names(_CHECKED_AT_ONCE)])
    _look_at_each(work, fifo, queues, look)


def look_for_removed(work: Workspace, fifo: FifoQueues) -> Operation[None]:
    """Look for messages that are gone before they were due. Raises what `_look_at_each` raises."""
    expected = {queue: found for queue, state in fifo.items() if (found := state.expected())}
    if not expected:
        return
    # Not here: everyone would wait while a million names are compared.
    missing: dict[QueueName, list[str]] = yield InWorker(not_in_delay, work.spool, expected)

    def look(state: FifoQueue) -> None:
        for message_id in missing[state.name]:
            if state.groups.is_hidden(message_id):
                look_again(work, state, message_id)

    _look_at_each(work, fifo, missing, look)


def _look_at_each(
    work: Workspace,
    fifo: FifoQueues,
    queues: Iterable[QueueName],
    look: Callable[[FifoQueue], None],
) -> None:
    """Look at these queues. Raises the first OSError when all were looked at: what is wrong with
    one keeps no other waiting."""
    failures: list[OSError] = []
    for queue in queues:
        try:
            state = fifo.find(work, queue)
            if state is not None:
                look(state)
        except MQError:
            fifo.drop(queue)  # it was deleted
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]
