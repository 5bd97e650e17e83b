"""How received messages are shown to a client of SQS."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mq.names import is_fifo
from mq.store.receiving.received_message import Received
from mq_sqs.faults import unknown_attribute
from mq_sqs.fifo.parameters import SEQUENCE_NUMBER, sequence_number
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
from mq_sqs.protocol import Values
from mq_sqs.queues.addresses import Addressing
from mq_sqs.queues.queue_attributes import KNOWN

_MS_NS = 1_000_000

_SENT = (TRACE_HEADER, DEDUPLICATION_ID, GROUP_ID)
"""System attributes that the sender gives. A producer over HTTP may have written others: they are
left out, and say nothing of when a message was sent."""

_OTHERS = frozenset({"All", *_SENT, SEQUENCE_NUMBER, "DeadLetterQueueSourceArn"})
"""Attributes that only some messages have, and those that no message has here."""


class Shown(NamedTuple):
    """What a client wants to see of messages: which system attributes, and which of their own."""

    system: frozenset[str]
    choice: Choice


def read_shown(values: Values) -> Shown:
    """Read it from a call. Raises SQSError."""
    asked = frozenset(values.get("AttributeNames", ()))
    for name in asked - _OTHERS - _SYSTEM.keys() - KNOWN:
        raise unknown_attribute(name)
    # Of these Amazon passes over what it does not know.
    asked |= frozenset(values.get("MessageSystemAttributeNames", ()))
    return Shown(asked, choice_of(values.get("MessageAttributeNames", ())))


def answer_with(
    received: Sequence[Received], bodies: Sequence[bytes], shown: Shown, addressing: Addressing
) -> Mapping[str, Any]:
    """Return the answer of a ReceiveMessage."""
    messages = [
        _message(each, body, shown.system, shown.choice, addressing)
        for each, body in zip(received, bodies, strict=True)
    ]
    return {"Messages": messages} if messages else {}


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
