"""What a message says of its group and deduplication, and what is answered of its place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from mq.ids import is_server_id
from mq.spool.queue.queue_settings import QueueSettings
from mq_sqs.faults import INVALID_PARAMETER_VALUE, SQSError, missing
from mq_sqs.fifo.attributes import is_content_based
from mq_sqs.messages.properties import DEDUPLICATION_ID, GROUP_ID
from mq_sqs.protocol import Values

SEQUENCE_NUMBER = "SequenceNumber"

_TOKEN = re.compile("[!-~]{1,128}")
_FIRST_NUMBER = 10**19
"""Sequence numbers have 20 digits."""


def check_given(values: Values, settings: QueueSettings) -> None:
    """Raise SQSError if a message to a FIFO queue has no group, or no deduplication id where the
    queue does not make one of the body."""
    if GROUP_ID not in values:
        raise missing(GROUP_ID)
    if DEDUPLICATION_ID not in values and not is_content_based(settings):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly",
        )


def check_all_given(entries: Iterable[Values], settings: QueueSettings) -> None:
    """Raise SQSError for a batch with an entry that lacks one of them, which makes it wrong as a
    whole. Amazon answers INVALID_PARAMETER_VALUE here, whatever a lone message is answered."""
    for entry in entries:
        try:
            check_given(entry, settings)
        except SQSError as error:
            raise SQSError(INVALID_PARAMETER_VALUE, str(error)) from None


def read_group(values: Values) -> str | None:
    """Return the group of a message, which a standard queue only gives back. Raises SQSError."""
    return _read_token(values, GROUP_ID)


def read_deduplication_id(values: Values, body: bytes) -> str:
    """Return the deduplication id of a message to a FIFO queue. Raises SQSError."""
    return _read_token(values, DEDUPLICATION_ID) or hashlib.sha256(body).hexdigest()


def refuse_deduplication_id(values: Values) -> None:
    """Raise SQSError for a deduplication id, which a standard queue does not take."""
    if DEDUPLICATION_ID in values:
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"The request includes the parameter {DEDUPLICATION_ID}, which is not valid for this "
            "queue type: it is for FIFO queues.",
        )


def refuse_delay(values: Values) -> None:
    """Raise SQSError for a delay of one message: a FIFO queue delays all alike."""
    if values.get("DelaySeconds"):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Value {values['DelaySeconds']} for parameter DelaySeconds is invalid. Reason: The "
            "request include parameter that is not valid for this queue type.",
        )


def read_attempt_id(values: Values) -> str | None:
    """Return the id of an attempt to receive, by which the same answer is asked for again. Raises
    SQSError."""
    return _read_token(values, "ReceiveRequestAttemptId")


def sequence_number(message_id: str) -> str:
    """Return 20 digits that grow with each message of a queue: the time in its id, which a gateway
    never gives twice. A message whose id has no time gets the first number."""
    if not is_server_id(message_id):
        return str(_FIRST_NUMBER)
    head = message_id[:8] + message_id[9:13] + message_id[15:18]
    return str(_FIRST_NUMBER + int(head, 16))


def _read_token(values: Values, name: str) -> str | None:
    token: str | None = values.get(name)
    if token is not None and not _TOKEN.fullmatch(token):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            f"Value {token[:200]} for parameter {name} is invalid. Reason: {name} can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length.",
        )
    return token
