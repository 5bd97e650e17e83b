"""Move tasks: start, list and cancel them."""

from __future__ import annotations

import base64
import json
import math
from binascii import Error as Base64Error
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from mq.errors import InvalidRequest, QueueNotFound
from mq.names import DEAD_SUFFIX, QueueName, is_fifo
from mq.web.tokens import Scope
from mq_sqs.calls import Operations, Result, SqsCall, read_number
from mq_sqs.faults import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    SQSError,
)
from mq_sqs.operations.queues import dead_letter_sources
from mq_sqs.protocol import Values
from mq_sqs.queues.addresses import queue_of_arn
from mq_sqs.tasks.move_tasks import MAX_TASKS
from mq_sqs.tasks.task_notes import MoveTask, TaskStatus, tasks_of

MAX_RATE = 500


class TaskHandle(NamedTuple):
    """What the handle of a task says: in Base64, a JSON object like that of Amazon."""

    source_arn: str
    task_id: str

    @property
    def source(self) -> QueueName:
        """The source queue. Raises SQSError if the ARN is not that of a queue."""
        queue = queue_of_arn(self.source_arn)
        if queue is None:
            raise _invalid_handle()
        return queue

    def pack(self) -> str:
        text = json.dumps({"taskId": self.task_id, "sourceArn": self.source_arn})
        return base64.b64encode(text.encode()).decode()


def read_task_handle(handle: str) -> TaskHandle:
    """Read the handle of a task. Raises SQSError for what has another form."""
    try:
        said = json.loads(base64.b64decode(handle.encode("ascii"), validate=True))
        found = TaskHandle(said["sourceArn"], said["taskId"])
    except (Base64Error, ValueError, TypeError, KeyError, RecursionError):
        raise _invalid_handle() from None
    if not (isinstance(found.source_arn, str) and isinstance(found.task_id, str)):
        raise _invalid_handle()
    return found


def source_of(values: Values) -> QueueName:
    """Return the source queue that an operation names. Raises SQSError."""
    return _queue_of(values["SourceArn"], "SourceArn")


def source_of_task(values: Values) -> QueueName:
    """Return the source queue of the task whose handle is given. Raises SQSError."""
    return read_task_handle(values["TaskHandle"]).source


async def start_message_move_task(
    operations: Operations, call: SqsCall, source: QueueName
) -> Result:
    rate = read_number(call.values, "MaxNumberOfMessagesPerSecond", 1, MAX_RATE)
    arn = call.values.get("DestinationArn")
    target = None if arn is None else _queue_of(arn, "DestinationArn")
    if call.token is not None:
        # Only the messages say where they died: it may be any queue.
        call.token.require(Scope.WRITE, target)
    await _require(operations, source, "SourceArn")
    if target == source:
        raise _invalid("DestinationArn", "it is the queue of SourceArn")
    if target is not None:
        await _require(operations, target, "DestinationArn")
        if is_fifo(target) != is_fifo(source):
            raise _invalid("DestinationArn", "it is not of the type of SourceArn, standard or FIFO")
    homes = await _homes_of(operations, source)
    if not homes:
        raise SQSError(
            INVALID_PARAMETER_VALUE, "Source queue must be configured as a Dead Letter Queue."
        )
    try:
        await _check_age(operations, source, homes if target is None else [target])
        task = await operations.move_tasks.start(source, target, rate)
    except QueueNotFound:
        raise _not_found("SourceArn") from None
    if task is None:
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            "There is already a task running. Only one active task is allowed for a source queue "
            "arn at a given time.",
        )
    return {"TaskHandle": TaskHandle(operations.addressing.arn_of(source), task.task_id).pack()}


async def list_message_move_tasks(
    operations: Operations, call: SqsCall, source: QueueName
) -> Result:
    limit = read_number(call.values, "MaxResults", 1, MAX_TASKS) or 1
    await _require(operations, source, "SourceArn")
    try:
        await operations.move_tasks.adopt(source)
        tasks = tasks_of(await operations.store.read_settings(source))[:limit]
    except QueueNotFound:
        raise _not_found("SourceArn") from None
    latest = [operations.move_tasks.latest(source, each) for each in tasks]
    return {"Results": [_result(operations, source, each) for each in latest]} if latest else {}


async def cancel_message_move_task(
    operations: Operations, call: SqsCall, source: QueueName
) -> Result:
    task_id = read_task_handle(call.values["TaskHandle"]).task_id
    await _require(operations, source, "SourceArn")
    try:
        tasks = tasks_of(await operations.store.read_settings(source))
    except QueueNotFound:  # It was deleted just now.
        tasks = []
    task = next((each for each in tasks if each.task_id == task_id), None)
    if task is None:
        raise SQSError(RESOURCE_NOT_FOUND, "Task does not exist.")
    if task.status is not TaskStatus.RUNNING:
        raise SQSError(UNSUPPORTED_OPERATION, "Only active tasks can be cancelled.")
    try:
        await operations.move_tasks.cancel(source, task)
    except InvalidRequest as error:  # The handle is right, and the settings are full.
        raise SQSError(UNSUPPORTED_OPERATION, f"The task cannot be cancelled: {error}.") from None
    moved = operations.move_tasks.latest(source, task).moved
    return {"ApproximateNumberOfMessagesMoved": moved}


def _queue_of(arn: str, member: str) -> QueueName:
    queue = queue_of_arn(arn)
    if queue is None:
        raise _invalid(member, "give an ARN: arn:aws:sqs:REGION:ACCOUNT:QUEUE")
    return queue


async def _require(operations: Operations, queue: QueueName, member: str) -> None:
    try:
        await operations.settings_of(queue)
    except QueueNotFound:
        raise _not_found(member) from None


async def _homes_of(operations: Operations, source: QueueName) -> list[QueueName]:
    """Return the queues whose dead letters go to `source`, and the one that its name says."""
    homes = await dead_letter_sources(operations, source)
    if source.endswith(DEAD_SUFFIX):
        homes.append(QueueName(source.removesuffix(DEAD_SUFFIX)))
    return homes


async def _check_age(
    operations: Operations, source: QueueName, targets: Iterable[QueueName]
) -> None:
    """Raise SQSError if the oldest message of the source is older than a target keeps messages: it
    would be removed there at once. Raises QueueNotFound if there is no source."""
    info = await operations.store.describe_queue(source)
    # What is older than the source keeps messages is about to be removed there.
    age_seconds = min(info.oldest_age_seconds or 0.0, info.settings.ttl_seconds or math.inf)
    for target in targets:
        with suppress(QueueNotFound):
            kept_seconds = (await operations.store.read_settings(target)).ttl_seconds or math.inf
            if age_seconds > kept_seconds:
                raise SQSError(
                    UNSUPPORTED_OPERATION,
                    f"The oldest message of {source} was sent {age_seconds:.0f} seconds ago, and "
                    f"{target} keeps messages for {kept_seconds:.0f}: it would be removed at once. "
                    f"Raise the MessageRetentionPeriod of {target} first.",
                )


def _not_found(member: str) -> SQSError:
    """Return the error for a queue that is not there, or that was deleted since its settings were
    read."""
    return SQSError(
        RESOURCE_NOT_FOUND,
        f"The resource that you specified for the {member} parameter doesn't exist.",
    )


def _result(operations: Operations, source: QueueName, task: MoveTask) -> dict[str, Any]:
    arn_of = operations.addressing.arn_of
    found: dict[str, Any] = {
        "Status": str(task.status),
        "SourceArn": arn_of(source),
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.total,
        "StartedTimestamp": task.started,
    }
    if task.status is TaskStatus.RUNNING:
        found["TaskHandle"] = TaskHandle(found["SourceArn"], task.task_id).pack()
    if task.target is not None:
        found["DestinationArn"] = arn_of(task.target)
    if task.rate is not None:
        found["MaxNumberOfMessagesPerSecond"] = task.rate
    if task.reason is not None:
        found["FailureReason"] = task.reason
    return found


def _invalid(member: str, why: str) -> SQSError:
    return SQSError(
        INVALID_PARAMETER_VALUE, f"Value for parameter {member} is invalid. Reason: {why}."
    )


def _invalid_handle() -> SQSError:
    return SQSError(INVALID_PARAMETER_VALUE, "Value for parameter TaskHandle is invalid.")
