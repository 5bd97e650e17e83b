"""What each operation does, the scope that it needs, and the parameter that names its queue.

`sending`, `receiving`, `receipts`, `queues` and `move_tasks` have the operations; `batches` is what
those with several entries have in common, `outgoing` a message to be sent, and `shown` what a
client sees of one.

How a request is read and an answer written belongs in `mq_sqs.protocol`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from mq.names import QueueName
from mq.web.tokens import Scope
from mq_sqs.calls import Operations, Result, SqsCall
from mq_sqs.operations import move_tasks, queues, receipts, receiving, sending
from mq_sqs.protocol import Values
from mq_sqs.queues.addresses import queue_of_name, queue_of_url, queue_to_make

Run = Callable[[Operations, SqsCall, Any], Awaitable[Result]]


class Handler(NamedTuple):
    """An operation. `queue_of` reads the queue from the values of a call; it raises SQSError."""

    run: Run
    scope: Scope
    queue_of: Callable[[Values], QueueName | None]


def _by_url(values: Values) -> QueueName:
    return queue_of_url(values["QueueUrl"])


def _in_queue(run: Run, scope: Scope, queue_of: Callable[[Values], QueueName]) -> Handler:
    """Return the handler for a queue that must exist. A client is told first if it does not,
    whatever else is wrong."""

    async def run_there(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
        await operations.settings_of(queue)
        return await run(operations, call, queue)

    return Handler(run_there, scope, queue_of)


def _reads(run: Run) -> Handler:
    return _in_queue(run, Scope.READ, _by_url)


def _writes(run: Run) -> Handler:
    return _in_queue(run, Scope.WRITE, _by_url)


def _administers(run: Run) -> Handler:
    return _in_queue(run, Scope.ADMIN, _by_url)


HANDLERS: Mapping[str, Handler] = {
    "CancelMessageMoveTask": Handler(
        move_tasks.cancel_message_move_task, Scope.WRITE, move_tasks.source_of_task
    ),
    "ChangeMessageVisibility": _writes(receipts.change_message_visibility),
    "ChangeMessageVisibilityBatch": _writes(receipts.change_message_visibility_batch),
    "CreateQueue": Handler(
        queues.create_queue, Scope.ADMIN, lambda values: queue_to_make(values["QueueName"])
    ),
    "DeleteMessage": _writes(receipts.delete_message),
    "DeleteMessageBatch": _writes(receipts.delete_message_batch),
    # A queue that is not there is not told first: before that its deletion must be durable.
    "DeleteQueue": Handler(queues.delete_queue, Scope.ADMIN, _by_url),
    "GetQueueAttributes": _reads(queues.get_queue_attributes),
    "GetQueueUrl": _in_queue(
        queues.get_queue_url, Scope.READ, lambda values: queue_of_name(values["QueueName"])
    ),
    "ListDeadLetterSourceQueues": _reads(queues.list_dead_letter_source_queues),
    "ListMessageMoveTasks": Handler(
        move_tasks.list_message_move_tasks, Scope.READ, move_tasks.source_of
    ),
    "ListQueueTags": _reads(queues.list_queue_tags),
    "ListQueues": Handler(queues.list_queues, Scope.READ, lambda values: None),
    "PurgeQueue": _administers(queues.purge_queue),
    "ReceiveMessage": _writes(receiving.receive_message),
    "SendMessage": _writes(sending.send_message),
    "SendMessageBatch": _writes(sending.send_message_batch),
    "SetQueueAttributes": _administers(queues.set_queue_attributes),
    "StartMessageMoveTask": Handler(
        move_tasks.start_message_move_task, Scope.WRITE, move_tasks.source_of
    ),
    "TagQueue": _administers(queues.tag_queue),
    "UntagQueue": _administers(queues.untag_queue),
}

_PERMISSIONS = (
    "mq-sqs has no permissions of its own: give each client a token with --token-file, and change "
    "that file."
)

REFUSED: Mapping[str, str] = {
    "AddPermission": _PERMISSIONS,
    "RemovePermission": _PERMISSIONS,
}
"""The operations that the gateway does not have, and what it says of each."""
