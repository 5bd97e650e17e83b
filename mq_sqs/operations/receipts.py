"""The operations under a receipt handle: delete a message, or change its visibility."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from mq.errors import LeaseMismatch, MessageNotFound, MQError
from mq.names import QueueName
from mq_sqs.calls import Begun, Operations, Result, SqsCall, check_number
from mq_sqs.faults import MESSAGE_NOT_INFLIGHT, SQSError, translate
from mq_sqs.handles import LeasedMessage, read_handle
from mq_sqs.operations.batches import answer_batch, check_entries
from mq_sqs.protocol import Values
from mq_sqs.protocol.json import missing

_MAX_VISIBILITY_SECONDS = 43_200


_NOTHING_TO_DELETE = (LeaseMismatch, MessageNotFound)
"""An older handle removes nothing, which is a success too."""


async def delete_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    message_id, lease = read_handle(queue, call.values["ReceiptHandle"])
    with suppress(*_NOTHING_TO_DELETE):
        await operations.keeper_of(queue).remove(queue, message_id, frozenset({lease}))
    return {}


def begin_delete(operations: Operations, queue: QueueName, values: Values) -> Begun:
    """Begin DeleteMessage. Raises SQSError."""
    message_id, lease = read_handle(queue, values["ReceiptHandle"])
    remove = operations.keeper_of(queue).submit_remove

    def tell(outcome: object) -> Result | None:
        return {} if outcome is None or isinstance(outcome, _NOTHING_TO_DELETE) else None

    return Begun(partial(remove, queue, message_id, frozenset({lease})), tell)


async def delete_message_batch(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    deletions = _Deletions(queue, call.values)
    remove = operations.keeper_of(queue).remove_many
    return deletions.answer(await remove(queue, deletions.ids, deletions.leases))


def begin_delete_batch(operations: Operations, queue: QueueName, values: Values) -> Begun:
    """Begin DeleteMessageBatch. Raises SQSError."""
    deletions = _Deletions(queue, values)
    remove = operations.keeper_of(queue).submit_remove_many

    def tell(outcome: object) -> Result | None:
        return deletions.answer(outcome) if isinstance(outcome, list) else None

    return Begun(partial(remove, queue, deletions.ids, deletions.leases), tell)


class _Deletions:
    """The checked entries of a DeleteMessageBatch: the messages of the valid ones and their leases.
    Raises SQSError."""

    def __init__(self, queue: QueueName, values: Values) -> None:
        entries: Sequence[Values] = values["Entries"]
        check_entries(entries)
        self._receipts, self._failed = _read_handles(queue, entries)
        self.ids = [message_id for message_id, _ in self._receipts.values()]
        # Leases are random, so that of one message does not pass for another's.
        self.leases = frozenset(lease for _, lease in self._receipts.values())

    def answer(self, outcomes: Sequence[MQError | None]) -> Result:
        failed = self._failed
        for entry_id, outcome in zip(self._receipts, outcomes, strict=True):
            if outcome is not None and not isinstance(outcome, _NOTHING_TO_DELETE):
                failed[entry_id] = translate(outcome)
        return answer_batch(({"Id": each} for each in self._receipts if each not in failed), failed)


async def change_message_visibility(
    operations: Operations, call: SqsCall, queue: QueueName
) -> Result:
    receipt = read_handle(queue, call.values["ReceiptHandle"])
    await _change(operations, queue, receipt, call.values["VisibilityTimeout"])
    return {}


async def change_message_visibility_batch(
    operations: Operations, call: SqsCall, queue: QueueName
) -> Result:
    entries: Sequence[Values] = call.values["Entries"]
    check_entries(entries)
    receipts, failed = _read_handles(queue, entries)
    changes = [
        _change(operations, queue, receipts[entry["Id"]], entry.get("VisibilityTimeout"))
        for entry in entries
        if entry["Id"] in receipts
    ]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    for entry_id, outcome in zip(receipts, outcomes, strict=True):
        if isinstance(outcome, MQError):
            failed[entry_id] = translate(outcome)
        elif isinstance(outcome, SQSError):
            failed[entry_id] = outcome
        elif outcome is not None:
            raise outcome
    return answer_batch(({"Id": each} for each in receipts if each not in failed), failed)


async def _change(
    operations: Operations, queue: QueueName, receipt: LeasedMessage, seconds: int | None
) -> None:
    """Change the visibility of a message. Raises SQSError, MQError."""
    if seconds is None:
        raise missing("VisibilityTimeout")
    check_number("VisibilityTimeout", seconds, 0, _MAX_VISIBILITY_SECONDS)
    message_id, lease = receipt
    if not await operations.keeper_of(queue).change_visibility(queue, message_id, lease, seconds):
        raise SQSError(
            MESSAGE_NOT_INFLIGHT,
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Message does not "
            "exist or is not available for visibility timeout change.",
        )


def _read_handles(
    queue: QueueName, entries: Sequence[Values]
) -> tuple[dict[str, LeasedMessage], dict[str, SQSError]]:
    """Return the valid handles, and what is wrong with the others, by the ids of their entries."""
    receipts: dict[str, LeasedMessage] = {}
    failed: dict[str, SQSError] = {}
    for entry in entries:
        try:
            receipts[entry["Id"]] = read_handle(queue, entry["ReceiptHandle"])
        except SQSError as error:
            failed[entry["Id"]] = error
    return receipts, failed
