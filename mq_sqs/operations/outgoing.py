"""A message that is about to be sent, checked as Amazon checks it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from mq.config import SECOND_NS, SMALL_BODY_BYTES
from mq.names import QueueName, is_fifo
from mq.spool.message.trailer import NO_TRAILER
from mq.spool.queue.queue_settings import QueueSettings
from mq.store.publishing.publish import Draft
from mq_sqs.calls import check_number
from mq_sqs.faults import INVALID_MESSAGE_CONTENTS, INVALID_PARAMETER_VALUE, SQSError, missing
from mq_sqs.fifo.parameters import (
    check_given,
    read_deduplication_id,
    read_group,
    refuse_deduplication_id,
    refuse_delay,
)
from mq_sqs.fifo.publishing import OrderedDraft
from mq_sqs.messages.message_attributes import TRACE_HEADER, check_text, is_text, size_of
from mq_sqs.messages.packing import (
    NO_ATTRIBUTES,
    kept_texts,
    pack_attributes,
    pack_system_attributes,
    trailer_of,
)
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID
from mq_sqs.protocol import Values
from mq_sqs.queues.queue_attributes import MAX_DELAY_SECONDS, message_limit


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

    @property
    def is_small(self) -> bool:
        """Whether it is written at once, and not by a worker."""
        return len(self.body) + len(self.trailer) <= SMALL_BODY_BYTES

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


def rules_by(queue: QueueName, settings: QueueSettings, trace: str | None) -> Rules:
    """Return what counts for a queue with these settings. A trace that is not a text is dropped."""
    told = trace if trace and is_text(trace) else None
    return Rules(is_fifo(queue), message_limit(settings), settings, told)


def check_message(values: Values, rules: Rules, are_wrong: str = "are invalid") -> Outgoing:
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


def rough_size(entry: Values) -> int:
    """Return the size in bytes of an entry that is wrong."""
    whole = {
        name: value
        for name, value in entry.get("MessageAttributes", {}).items()
        if "StringValue" in value or "BinaryValue" in value
    }
    return len(entry["MessageBody"].encode()) + size_of(whole)
