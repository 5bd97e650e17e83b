"""SendMessage and its batch: a publish, answered once it is durable."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mq.config import SECOND_NS, SMALL_BODY_BYTES
from mq.errors import PropertiesTooLarge
from mq.names import QueueName, is_fifo
from mq.spool.message.trailer import NO_TRAILER
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.publishing.publish import Draft, Entry, Published
from mq_sqs.calls import Begun, Operations, Result, SqsCall, check_number
from mq_sqs.faults import (
    BATCH_REQUEST_TOO_LONG,
    EMPTY_VALUE,
    INVALID_MESSAGE_CONTENTS,
    INVALID_PARAMETER_VALUE,
    SQSError,
    missing,
    translate,
)
from mq_sqs.fifo.parameters import (
    SEQUENCE_NUMBER,
    check_all_given,
    check_given,
    read_deduplication_id,
    read_group,
    refuse_deduplication_id,
    refuse_delay,
    sequence_number,
)
from mq_sqs.fifo.publishing import OrderedDraft
from mq_sqs.messages.digests import md5_in_hex
from mq_sqs.messages.message_attributes import TRACE_HEADER, check_text, is_text, size_of
from mq_sqs.messages.packing import (
    NO_ATTRIBUTES,
    kept_texts,
    pack_attributes,
    pack_system_attributes,
    properties_in,
    trailer_of,
)
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID
from mq_sqs.operations.batches import answer_batch, check_entries
from mq_sqs.protocol import Values
from mq_sqs.queues.queue_attributes import MAX_DELAY_SECONDS, MAX_MESSAGE_BYTES, message_limit

TRACE_ID = "x-amzn-trace-id"
"""The header whose value messages without an `AWSTraceHeader` get as theirs."""


class Outgoing(NamedTuple):
    """A checked message. `size` is that of SQS, which counts attributes, in bytes. The MD5s are
    empty without attributes."""

    body: bytes
    trailer: bytes
    size: int
    md5: str
    system_md5: str
    delay_ns: int | None
    lane: Mapping[str, str]

    def draft(self) -> Draft:
        return Draft(
            len(self.body),
            zlib.crc32(self.body),
            body=self.body,
            delay_ns=self.delay_ns,
            trailer=self.trailer,
        )

    def in_order(self) -> OrderedDraft:
        """Return the draft for a FIFO queue."""
        return OrderedDraft(self.draft(), self.lane[GROUP_ID], self.lane[DEDUPLICATION_ID])


class Rules(NamedTuple):
    """What counts for messages to a queue. `limit` is the size of one, in bytes, and `trace` what
    the request says of its trace."""

    is_fifo: bool
    limit: int
    settings: QueueSettings
    trace: str | None


async def send_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    rules = await _rules_of(operations, call, queue)
    message = _check_message(call.values, rules)
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
    rules = _rules_by(queue, settings, trace)
    message = _check_message(values, rules)

    def tell(published: Published, error: BaseException | None) -> Result:
        if error is not None:
            raise error
        return _sent(message, published)

    if rules.is_fifo:
        return Begun(partial(operations.fifo.submit_send, queue, message.in_order()), tell)
    draft = message.draft()
    if draft.length + len(draft.trailer) > SMALL_BODY_BYTES:
        return None
    return Begun(partial(operations.store.submit_publish, queue, draft), tell)


async def send_message_batch(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    """Send the valid entries as one set: they are published together, or fail together."""
    entries: Sequence[Values] = call.values["Entries"]
    check_entries(entries, "SendMessageBatch")
    rules = await _rules_of(operations, call, queue)
    if rules.is_fifo:
        check_all_given(entries, rules.settings)
    good: dict[str, Outgoing] = {}
    failed: dict[str, SQSError] = {}
    total = 0
    for at, entry in enumerate(entries, start=1):
        try:
            if not entry["MessageBody"]:
                place = f"SendMessageBatchRequestEntry.{at}.MessageBody"
                raise SQSError(EMPTY_VALUE, f"No Value Found for {place}.")
            message = _check_message(entry, rules, "cannot be validated")
            good[entry["Id"]] = message
            total += message.size
        except (SQSError, PropertiesTooLarge) as error:
            failed[entry["Id"]] = error if isinstance(error, SQSError) else translate(error)
            total += _rough_size(entry)
    _check_total(total)
    published = await _publish_all(operations, queue, list(good.values()))
    successful = (
        {"Id": entry_id, **_sent(message, each)}
        for (entry_id, message), each in zip(good.items(), published, strict=True)
    )
    return answer_batch(successful, failed)


async def _publish(operations: Operations, queue: QueueName, message: Outgoing) -> Published:
    """Publish a message. A worker writes and syncs a large one, so that no other request waits for
    it."""
    store, draft = operations.store, message.draft()
    length = draft.length + len(draft.trailer)
    if length <= SMALL_BODY_BYTES:
        return await store.publish(queue, draft)
    await store.check_publish(queue, length)
    async with store.open_upload() as upload:
        whole = await upload.finish(message.body, None, properties_in(message.trailer))
        return await store.publish(queue, replace(whole, delay_ns=message.delay_ns))


async def _publish_all(
    operations: Operations, queue: QueueName, messages: Sequence[Outgoing]
) -> list[Published]:
    if not messages:
        return []
    if is_fifo(queue):
        return await operations.fifo.send(queue, [each.in_order() for each in messages])
    if len(messages) == 1:
        return [await _publish(operations, queue, messages[0])]
    entries = [Entry(line, each.draft()) for line, each in enumerate(messages, start=1)]
    return await operations.store.publish_batch(queue, entries)


async def _rules_of(operations: Operations, call: SqsCall, queue: QueueName) -> Rules:
    """Return what counts for a queue. Raises QueueNotFound, StoreUnavailable."""
    settings = await operations.settings_of(queue)
    return _rules_by(queue, settings, call.request.headers.get(TRACE_ID))


def _rules_by(queue: QueueName, settings: QueueSettings, trace: str | None) -> Rules:
    """Return what counts for a queue with these settings. A trace that is not a text is dropped."""
    told = trace if trace and is_text(trace) else None
    return Rules(is_fifo(queue), message_limit(settings), settings, told)


def _check_message(values: Values, rules: Rules, are_wrong: str = "are invalid") -> Outgoing:
    """Check a message; `are_wrong` is what Amazon says of the parameters of one that is too long.
    Raises SQSError, PropertiesTooLarge."""
    text = values["MessageBody"]
    if not text:
        raise missing("MessageBody")
    body = text.encode()
    if len(body) > rules.limit:  # A look at each of its characters would take long.
        raise _too_long(rules, are_wrong)
    check_text(body, "the message body", INVALID_MESSAGE_CONTENTS)
    lane = _lane(values, rules, body)
    attributes = system = NO_ATTRIBUTES
    if "MessageAttributes" in values:
        attributes = pack_attributes(values["MessageAttributes"])
    if "MessageSystemAttributes" in values:
        system = pack_system_attributes(values["MessageSystemAttributes"])
    size = len(body) + attributes.size
    if size > rules.limit:
        raise _too_long(rules, are_wrong)
    trailer = NO_TRAILER
    kept = system.kept
    if lane or rules.trace is not None:
        # Neither counts towards the size of the message, nor towards an MD5.
        own = lane if rules.trace is None else {TRACE_HEADER: rules.trace, **lane}
        kept = {**kept_texts(own), **kept}
    if attributes.text or kept:
        trailer = trailer_of(attributes.text, kept)
    delay_ns = None if rules.is_fifo else _delay_ns(values)
    return Outgoing(body, trailer, size, attributes.md5, system.md5, delay_ns, lane)


def _too_long(rules: Rules, are_wrong: str) -> SQSError:
    return SQSError(
        INVALID_PARAMETER_VALUE,
        f"One or more parameters {are_wrong}. Reason: Message must be shorter than "
        f"{rules.limit} bytes.",
    )


def _lane(values: Values, rules: Rules, body: bytes) -> Mapping[str, str]:
    """Return group and deduplication id, by their names as system attributes. Raises SQSError."""
    if rules.is_fifo:
        check_given(values, rules.settings)
    group = read_group(values)
    lane = {} if group is None else {GROUP_ID: group}
    if rules.is_fifo:
        refuse_delay(values)
        lane[DEDUPLICATION_ID] = read_deduplication_id(values, body)
    else:
        refuse_deduplication_id(values)
    return lane


def _delay_ns(values: Values) -> int | None:
    seconds = values.get("DelaySeconds")
    if seconds is None:
        return None
    return check_number("DelaySeconds", seconds, 0, MAX_DELAY_SECONDS) * SECOND_NS


def _check_total(total: int) -> None:
    """Raise SQSError if the batch is too long, counting the entries that are wrong."""
    if total > MAX_MESSAGE_BYTES:
        raise SQSError(
            BATCH_REQUEST_TOO_LONG,
            f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. You have sent "
            f"{total} bytes.",
        )


def _rough_size(entry: Values) -> int:
    """Return the size in bytes of an entry that is wrong."""
    whole = {
        name: value
        for name, value in entry.get("MessageAttributes", {}).items()
        if "StringValue" in value or "BinaryValue" in value
    }
    return len(entry["MessageBody"].encode()) + size_of(whole)


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
