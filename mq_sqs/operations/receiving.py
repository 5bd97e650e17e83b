"""ReceiveMessage: a receive, whose lease and id are the receipt handle."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mq.config import SMALL_BODY_BYTES
from mq.errors import StoreUnavailable
from mq.names import QueueName, is_fifo
from mq.store.receiving.received_message import Received
from mq.store.receiving.receives import LongPoll
from mq.web.connections.presence import unless_client_leaves
from mq_sqs.calls import Operations, Result, SqsCall
from mq_sqs.faults import unknown_attribute
from mq_sqs.fifo.parameters import SEQUENCE_NUMBER, read_attempt_id, sequence_number
from mq_sqs.messages.digests import md5_in_hex
from mq_sqs.messages.handles import make_handle
from mq_sqs.messages.message_attributes import (
    TRACE_HEADER,
    Choice,
    choice_of,
    is_text,
    is_usual_text,
    md5_of,
)
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID, attributes_of, system_of
from mq_sqs.operations.batches import MAX_ENTRIES
from mq_sqs.queues.addresses import Addressing
from mq_sqs.queues.queue_attributes import KNOWN, MAX_VISIBILITY_SECONDS, MAX_WAIT_SECONDS

_UNTIL_SHOWN_SECONDS = 30.0
"""How long a message that is to be shown again at once stays hidden, if a crash comes between its
receive and that."""

_MS_NS = 1_000_000

_Found = tuple[Sequence[Received], Sequence[bytes]]
"""Messages and their bodies."""

_SENT = (TRACE_HEADER, DEDUPLICATION_ID, GROUP_ID)
"""System attributes that the sender gives. A producer over HTTP may have written others: they are
left out, and say nothing of when a message was sent."""

_OTHERS = frozenset({"All", *_SENT, SEQUENCE_NUMBER, "DeadLetterQueueSourceArn"})
"""Attributes that only some messages have, and those that no message has here."""


async def receive_message(operations: Operations, call: SqsCall, queue: QueueName) -> Result:
    values = call.values
    asked = frozenset(values.get("AttributeNames", ()))
    for name in asked - _OTHERS - _SYSTEM.keys() - KNOWN:
        raise unknown_attribute(name)
    # Of these Amazon passes over what it does not know.
    asked |= frozenset(values.get("MessageSystemAttributeNames", ()))
    received, bodies = await _receive(operations, call, queue)
    choice = choice_of(values.get("MessageAttributeNames", ()))
    messages = [
        _message(each, body, asked, choice, operations.addressing)
        for each, body in zip(received, bodies, strict=True)
    ]
    return {"Messages": messages} if messages else {}


async def _receive(operations: Operations, call: SqsCall, queue: QueueName) -> _Found:
    attempt_id = read_attempt_id(call.values)
    limit = call.number("MaxNumberOfMessages", 1, MAX_ENTRIES) or 1
    wait = call.number("WaitTimeSeconds", 0, MAX_WAIT_SECONDS)
    if wait is None:
        wait = await operations.number_of(queue, "ReceiveMessageWaitTimeSeconds")
    visibility = call.number("VisibilityTimeout", 0, MAX_VISIBILITY_SECONDS)
    usual = await operations.number_of(queue, "VisibilityTimeout")
    hidden_seconds = usual if visibility is None else visibility
    if not is_fifo(queue) or not hidden_seconds:
        attempt_id = None
    if attempt_id is not None:
        known = await _receive_again(operations, call, queue, attempt_id, hidden_seconds)
        if known is not None:
            return known
    seconds = visibility if hidden_seconds else _UNTIL_SHOWN_SECONDS
    poll = LongPoll(wait)
    if attempt_id is not None:
        call.exits.enter_context(operations.fifo.attempts.waiting(queue, attempt_id, poll))
    call.received.extend(await _take(operations, call, queue, limit, seconds=seconds, poll=poll))
    if not hidden_seconds:
        await _show_again(operations, queue, call.received)
    bodies = await _read_bodies(operations, call.received)
    if attempt_id is not None:
        if not call.received:
            # An earlier call of this attempt may have waited meanwhile too, and come first.
            known = await _receive_again(operations, call, queue, attempt_id, hidden_seconds)
            if known is not None:
                return known
        operations.fifo.attempts.keep(queue, attempt_id, call.received, bodies)
    return call.received, bodies


async def _receive_again(
    operations: Operations, call: SqsCall, queue: QueueName, attempt_id: str, seconds: int
) -> _Found | None:
    """Return what this attempt was answered before, if all of it is in flight still; it is hidden
    for that long from now. Returns None if this is a new receive. Raises StoreUnavailable if there
    is no memory for a large answer."""
    attempt = operations.fifo.attempts.find(queue, attempt_id)
    if attempt is None:
        return None
    share = call.exits.enter_context(operations.store.answer_memory.share())
    if attempt.size > SMALL_BODY_BYTES and not share.covers(attempt.size):
        raise StoreUnavailable("clients have yet to read too many answers; try again later")
    # They are this client's now, whatever becomes of the first call's answer.
    attempt.to_put_back.clear()
    is_renewed = await operations.fifo.renew(queue, attempt, seconds)
    # One may have been deleted meanwhile.
    if is_renewed and operations.fifo.attempts.find(queue, attempt_id) is attempt:
        call.share = share
        return attempt.received, attempt.bodies
    share.hold(0)
    return None


async def _take(
    operations: Operations,
    call: SqsCall,
    queue: QueueName,
    limit: int,
    *,
    seconds: float | None,
    poll: LongPoll,
) -> Sequence[Received]:
    """Receive messages. One who waits for them and leaves takes none."""
    call.share = call.exits.enter_context(operations.store.answer_memory.share())
    receiving = operations.keeper_of(queue).receive_many(queue, limit, seconds, poll, call.share)
    if poll.is_over:
        return await receiving
    return await unless_client_leaves(call.request, receiving, poll.end) or ()


async def _show_again(
    operations: Operations, queue: QueueName, received: Sequence[Received]
) -> None:
    keeper = operations.keeper_of(queue)
    await asyncio.gather(
        *(keeper.change_visibility(queue, each.message_id, each.lease, 0) for each in received)
    )


async def _read_bodies(operations: Operations, received: Sequence[Received]) -> list[bytes]:
    if all(each.body is not None for each in received):
        return [each.body or b"" for each in received]
    return await operations.store.read_bodies(received, list)


def _message(
    received: Received,
    body: bytes,
    asked: frozenset[str],
    choice: Choice,
    addressing: Addressing,
) -> dict[str, Any]:
    text = _text_of(body)
    found: dict[str, Any] = {
        "MessageId": str(received.message_id),
        "ReceiptHandle": make_handle(received.queue, received.message_id, received.lease),
        "MD5OfBody": md5_in_hex(text.encode()),
        "Body": text,
    }
    # What is not asked for is not read: that takes as long as the rest of an answer.
    if choice.names:
        chosen = choice.of(attributes_of(received.properties))
        if chosen:
            found["MessageAttributes"] = chosen
            found["MD5OfMessageAttributes"] = md5_of(chosen)
    if asked:
        values = _system_attributes(received, addressing)
        shown = {name: value for name, value in values.items() if "All" in asked or name in asked}
        if shown:
            found["Attributes"] = shown
    return found


def _system_attributes(received: Received, addressing: Addressing) -> dict[str, str]:
    values = {name: tell(received) for name, tell in _SYSTEM.items()}
    values["SenderId"] = addressing.account
    sent = system_of(received.properties)
    values |= {name: sent[name] for name in _SENT if name in sent}
    if received.burial is not None:
        values["DeadLetterQueueSourceArn"] = addressing.arn_of(received.burial.queue)
        if DEDUPLICATION_ID in values:
            # Those of the queue that it died in say nothing here.
            values[DEDUPLICATION_ID] = str(received.message_id)
    if is_fifo(received.queue):
        values[SEQUENCE_NUMBER] = sequence_number(received.message_id)
    return values


def _text_of(body: bytes) -> str:
    """Return the body as text. A body that SQS could not have taken, for example one that came over
    HTTP, is in Base64."""
    if is_usual_text(body):
        return body.decode()
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if is_text(text) else base64.b64encode(body).decode()


def _first_receive(received: Received) -> str:
    """Return when the message was first received, or now if the seal does not say it."""
    return str((received.first_received_ns or time.time_ns()) // _MS_NS)


_SYSTEM: Mapping[str, Callable[[Received], str]] = {
    "SenderId": lambda received: "",
    "SentTimestamp": lambda received: str(received.published_ns // _MS_NS),
    "ApproximateReceiveCount": lambda received: str(received.receive_count or 1),
    "ApproximateFirstReceiveTimestamp": _first_receive,
}
