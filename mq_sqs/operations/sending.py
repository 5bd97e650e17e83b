"""SendMessage and its batch: a publish, answered once it is durable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mq.errors import PropertiesTooLarge
from mq.names import QueueName, is_fifo
from mq.store.publishing.publish import Entry, Published
from mq_sqs.calls import Begun, Operations, Result, SqsCall
from mq_sqs.faults import BATCH_REQUEST_TOO_LONG, EMPTY_VALUE, SQSError, translate
from mq_sqs.fifo.parameters import SEQUENCE_NUMBER, check_all_given, sequence_number
from mq_sqs.messages.digests import md5_in_hex
from mq_sqs.messages.packing import properties_in
from mq_sqs.messages.properties import DEDUPLICATION_ID
from mq_sqs.operations.batches import answer_batch, check_entries
from mq_sqs.operations.outgoing import Outgoing, Rules, check_message, rough_size, rules_by
from mq_sqs.protocol import Values
from mq_sqs.queues.queue_attributes import MAX_MESSAGE_BYTES

TRACE_ID = "x-amzn-trace-id"
"""The header whose value messages without an `AWSTraceHeader` get as theirs."""


async def send_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    rules = await _rules_of(operations, call, queue)
    message = check_message(call.values, rules)
    if rules.is_fifo:
        [published] = await operations.fifo.send(queue, [message.in_order()])
        return _sent(message, published)
    return _sent(message, await _publish(operations, queue, message))


def begin_send(
    operations: Operations, queue: QueueName, values: Values, trace: str | None
) -> Begun | None:
    """Begin SendMessage; `trace` is the header `TRACE_ID`. Returns None for a message that is not
    for the committer alone, and while the queue's settings must be read first. Raises SQSError,
    PropertiesTooLarge."""
    settings = operations.store.known_settings(queue)
    if settings is None:
        return None
    rules = rules_by(queue, settings, trace)
    message = check_message(values, rules)
    tell = partial(_sent, message)
    if rules.is_fifo:
        return Begun(partial(operations.fifo.submit_send, queue, message.in_order()), tell)
    if not message.is_small:
        return None
    return Begun(partial(operations.store.submit_publish, queue, message.draft()), tell)


class _Sending:
    """The checked entries of a SendMessageBatch, and what is wrong with the others. The valid ones
    are one set: they are published together, or fail together. Raises SQSError."""

    def __init__(self, entries: Sequence[Values], rules: Rules) -> None:
        check_entries(entries, "SendMessageBatch")
        if rules.is_fifo:
            check_all_given(entries, rules.settings)
        self._good: dict[str, Outgoing] = {}
        self._failed: dict[str, SQSError] = {}
        total = 0
        for at, entry in enumerate(entries, start=1):
            try:
                if not entry["MessageBody"]:
                    place = f"SendMessageBatchRequestEntry.{at}.MessageBody"
                    raise SQSError(EMPTY_VALUE, f"No Value Found for {place}.")
                message = check_message(entry, rules, "cannot be validated")
                self._good[entry["Id"]] = message
                total += message.size
            except (SQSError, PropertiesTooLarge) as error:
                self._failed[entry["Id"]] = (
                    error if isinstance(error, SQSError) else translate(error)
                )
                total += rough_size(entry)
        _check_total(total)
        self.messages = [*self._good.values()]

    @property
    def is_for_committer(self) -> bool:
        """Whether no worker must write it, and there is something to write."""
        several = self.messages
        return len(several) > 1 or any(each.is_small for each in several)

    def begin(self, operations: Operations, queue: QueueName) -> Begun:
        """Begin to publish what is for the committer. A FIFO queue must have been read."""
        if is_fifo(queue):
            in_order = [each.in_order() for each in self.messages]
            return Begun(partial(operations.fifo.submit_send_batch, queue, in_order), self.answer)
        drafts = enumerate((each.draft() for each in self.messages), start=1)
        entries = [Entry(line, draft) for line, draft in drafts]
        return Begun(partial(operations.store.submit_batch, queue, entries), self.answer)

    def answer(self, published: Sequence[Published]) -> Result:
        successful = (
            {"Id": entry_id, **_sent(message, each)}
            for (entry_id, message), each in zip(self._good.items(), published, strict=True)
        )
        return answer_batch(successful, self._failed)


async def send_message_batch(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    batch = _Sending(call.values["Entries"], await _rules_of(operations, call, queue))
    if not batch.messages:
        return batch.answer(())
    if is_fifo(queue):
        await operations.fifo.require(queue)
    elif not batch.is_for_committer:
        return batch.answer([await _publish(operations, queue, each) for each in batch.messages])
    return await batch.begin(operations, queue).end()


def begin_send_batch(
    operations: Operations, queue: QueueName, values: Values, trace: str | None
) -> Begun | None:
    """Begin SendMessageBatch as `begin_send` does SendMessage."""
    settings = operations.store.known_settings(queue)
    if settings is None:
        return None
    batch = _Sending(values["Entries"], rules_by(queue, settings, trace))
    return batch.begin(operations, queue) if batch.is_for_committer else None


async def _publish(operations: Operations, queue: QueueName, message: Outgoing) -> Published:
    """Publish a message. A worker writes and syncs a large one, so that no other request waits for
    it."""
    store, draft = operations.store, message.draft()
    if message.is_small:
        return await store.publish(queue, draft)
    await store.check_publish(queue, draft.length + len(draft.trailer))
    async with store.open_upload() as upload:
        whole = await upload.finish(message.body, None, properties_in(message.trailer))
        return await store.publish(queue, replace(whole, delay_ns=message.delay_ns))


async def _rules_of(operations: Operations, call: SqsCall, queue: QueueName) -> Rules:
    """Return what counts for a queue. Raises QueueNotFound, StoreUnavailable."""
    settings = await operations.settings_of(queue)
    return rules_by(queue, settings, call.request.headers.get(TRACE_ID))


def _check_total(total: int) -> None:
    """Raise SQSError if the batch is too long, counting the entries that are wrong."""
    if total > MAX_MESSAGE_BYTES:
        raise SQSError(
            BATCH_REQUEST_TOO_LONG,
            f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. You have sent "
            f"{total} bytes.",
        )


def _sent(message: Outgoing, published: Published) -> dict[str, str]:
    result = {
        "MessageId": str(published.message_id),
        "MD5OfMessageBody": md5_in_hex(message.body),
    }
    if DEDUPLICATION_ID in message.lane:
        result[SEQUENCE_NUMBER] = sequence_number(published.message_id)
    if message.md5:
        result["MD5OfMessageAttributes"] = message.md5
    if message.system_md5:
        result["MD5OfMessageSystemAttributes"] = message.system_md5
    return result
