"""The operations under a receipt handle: delete a message, or change its visibility."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mq.commit.operation import Done
from mq.errors import LeaseMismatch, MessageNotFound, MQError
from mq.lifecycle import Folder
from mq.names import MessageId, QueueName, file_name, is_fifo, queue_path
from mq.store.shared_state import Workspace
from mq_sqs.calls import Begun, Operations, Result, SqsCall, check_number
from mq_sqs.faults import (
    INVALID_PARAMETER_VALUE,
    MESSAGE_NOT_INFLIGHT,
    RECEIPT_HANDLE_IS_INVALID,
    SQSError,
    SqsFault,
    missing,
    translate,
)
from mq_sqs.messages.handles import LeasedMessage, make_handle, read_handle
from mq_sqs.operations.batches import answer_batch, check_entries
from mq_sqs.protocol import Values
from mq_sqs.queues.queue_attributes import MAX_VISIBILITY_SECONDS


async def delete_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    begun = begin_delete(operations, queue, call.values)
    await _have_read(operations, queue)
    return await begun.end()


def begin_delete(operations: Operations, queue: QueueName, values: Values) -> Begun:
    """Begin DeleteMessage. Raises SQSError."""
    receipt = read_handle(queue, values["ReceiptHandle"])
    message_id, lease = receipt
    remove = operations.keeper_of(queue).submit_remove

    def submit(done: Done) -> None:
        def end(_: None, error: BaseException | None) -> None:
            if isinstance(error, MQError):
                done(error, None)
            else:
                done(None, error)

        remove(queue, message_id, frozenset({lease}), end)

    def tell(outcome: MQError | None) -> Result:
        refused = None if outcome is None else _refused(queue, receipt, outcome)
        if refused is not None:
            raise refused
        return {}

    return Begun(submit, tell)


async def delete_message_batch(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    deletions = _Deletions(queue, call.values)
    await _have_read(operations, queue)
    return await deletions.begin(operations).end()


def begin_delete_batch(operations: Operations, queue: QueueName, values: Values) -> Begun | None:
    """Begin DeleteMessageBatch. Returns None without a valid handle: whether there is such a queue
    must be found out first. Raises SQSError."""
    deletions = _Deletions(queue, values)
    return deletions.begin(operations) if deletions.ids else None


async def _have_read(operations: Operations, queue: QueueName) -> None:
    """Wait until a FIFO queue is read from its files. Raises QueueNotFound, StoreUnavailable."""
    if is_fifo(queue):
        await operations.fifo.require(queue)


class _Deletions:
    """The checked entries of a DeleteMessageBatch: the messages of the valid ones and their leases.
    Raises SQSError."""

    def __init__(self, queue: QueueName, values: Values) -> None:
        entries: Sequence[Values] = values["Entries"]
        self._queue = queue
        check_entries(entries, "DeleteMessageBatch")
        self._receipts, self._failed = _read_handles(queue, entries)
        self.ids = [message_id for message_id, _ in self._receipts.values()]
        # Leases are random, so that of one message does not pass for another's.
        self._leases = frozenset(lease for _, lease in self._receipts.values())

    def begin(self, operations: Operations) -> Begun:
        remove = operations.keeper_of(self._queue).submit_remove_many
        return Begun(partial(remove, self._queue, self.ids, self._leases), self.answer)

    def answer(self, outcomes: Sequence[MQError | None]) -> Result:
        failed = self._failed
        for (entry_id, receipt), outcome in zip(self._receipts.items(), outcomes, strict=True):
            refused = None if outcome is None else _refused(self._queue, receipt, outcome)
            if refused is not None:
                failed[entry_id] = refused
        return answer_batch(({"Id": each} for each in self._receipts if each not in failed), failed)


def _refused(queue: QueueName, receipt: LeasedMessage, outcome: MQError) -> SQSError | None:
    """Return what a client is told of a message that was not removed, or None if that is a success
    too. An older handle removes nothing; Amazon calls that an error only for a FIFO queue."""
    if isinstance(outcome, LeaseMismatch) and is_fifo(queue):
        return SQSError(
            INVALID_PARAMETER_VALUE,
            f"Value {make_handle(queue, *receipt)} for parameter ReceiptHandle is invalid. Reason: "
            "The receipt handle has expired.",
        )
    is_success = isinstance(outcome, LeaseMismatch | MessageNotFound)
    return None if is_success else translate(outcome)


async def change_message_visibility(
    operations: Operations, call: SqsCall, queue: QueueName
) -> Result:
    receipt = read_handle(queue, call.values["ReceiptHandle"])
    await _change(
        operations, queue, receipt, call.values["VisibilityTimeout"], INVALID_PARAMETER_VALUE
    )
    return {}


async def change_message_visibility_batch(
    operations: Operations, call: SqsCall, queue: QueueName
) -> Result:
    entries: Sequence[Values] = call.values["Entries"]
    check_entries(entries, "ChangeMessageVisibilityBatch")
    receipts, failed = _read_handles(queue, entries)
    changes = [
        _change(
            operations, queue, receipts[entry["Id"]], entry.get("VisibilityTimeout"),
            RECEIPT_HANDLE_IS_INVALID,
        )
        for entry in entries
        if entry["Id"] in receipts
    ]  # fmt: skip
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
    operations: Operations,
    queue: QueueName,
    receipt: LeasedMessage,
    seconds: int | None,
    fault_if_gone: SqsFault,
) -> None:
    """Change the visibility of a message. Raises SQSError, MQError."""
    if seconds is None:
        raise missing("VisibilityTimeout")
    check_number("VisibilityTimeout", seconds, 0, MAX_VISIBILITY_SECONDS)
    message_id, lease = receipt
    if not await operations.keeper_of(queue).change_visibility(queue, message_id, lease, seconds):
        is_there = await operations.store.call(_is_there, queue, message_id)
        raise SQSError(
            MESSAGE_NOT_INFLIGHT if is_there else fault_if_gone,
            f"Value {make_handle(queue, message_id, lease)} for parameter ReceiptHandle is "
            "invalid. Reason: Message does not exist or is not available for visibility timeout "
            "change.",
        )


def _is_there(work: Workspace, queue: QueueName, message_id: MessageId) -> bool:
    """Return whether a message is ready or leased."""
    ready = (Folder.QUEUES, queue_path(queue, message_id))
    hidden = (Folder.DELAY, file_name(queue, message_id))
    # It may come back, or be received again, between two looks.
    return any(work.spool.exists(*place) for place in (ready, hidden, ready))


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
