"""The attributes that FIFO queues alone have, as notes among the settings of a queue.

The name of a queue says whether it is a FIFO queue, and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mq.names import FIFO_SUFFIX, QueueName, is_fifo
from mq.spool.queue.queue_settings import QueueSettings
from mq_sqs.faults import (
    INVALID_ATTRIBUTE_NAME,
    INVALID_ATTRIBUTE_VALUE,
    INVALID_PARAMETER_VALUE,
    SQSError,
    unknown_attribute,
    wrong_value,
)
from mq_sqs.fifo.deduplication import DeduplicationScope
from mq_sqs.fifo.fifo_queue import SCOPE_NOTE

_CONTENT_NOTE = "sqs.content-deduplication"
_LIMIT_NOTE = "sqs.fifo-throughput-limit"
_PER_GROUP = "perMessageGroupId"

FIFO_QUEUE = "FifoQueue"
_CONTENT_BASED = "ContentBasedDeduplication"

_NOTES: Mapping[str, tuple[str, tuple[str, str]]] = {
    _CONTENT_BASED: (_CONTENT_NOTE, ("false", "true")),
    "DeduplicationScope": (SCOPE_NOTE, ("queue", "messageGroup")),
    "FifoThroughputLimit": (_LIMIT_NOTE, ("perQueue", _PER_GROUP)),
}
"""The note for each attribute, and its two values; without a note it has the first."""

FIFO_ATTRIBUTES = frozenset({FIFO_QUEUE, *_NOTES})


def check_type(queue: QueueName, attributes: Mapping[str, str]) -> None:
    """Check that name and attributes of a queue to be made agree on its type. Raises SQSError."""
    asked = attributes.get(FIFO_QUEUE, "").lower()
    if asked not in ("", "true", "false"):
        raise wrong_value(FIFO_QUEUE, "give true or false")
    if asked == "true" and not is_fifo(queue):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
            f"underscores, must end with {FIFO_SUFFIX} suffix and be 1 to 80 in length.",
        )
    if asked != "true" and is_fifo(queue):
        raise SQSError(
            INVALID_PARAMETER_VALUE,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length. "
            f"A name that ends with {FIFO_SUFFIX} is that of a FIFO queue: give the attribute "
            "FifoQueue with the value true.",
        )


def fifo_changes(queue: QueueName, name: str, text: str) -> dict[str, str]:
    """Return the notes that one of these attributes asks for. Raises SQSError."""
    value = text.lower() if name in (FIFO_QUEUE, _CONTENT_BASED) else text
    if name == FIFO_QUEUE:
        if value not in ("", "true", "false"):
            raise wrong_value(name, "give true or false")
        if value == "true" and not is_fifo(queue):
            raise unknown_attribute(name)
        if value == "false" and is_fifo(queue):
            raise wrong_value(name, "Modifying queue type is not supported")
        return {}
    note, values = _NOTES[name]
    if not is_fifo(queue):
        if value in ("", "false"):
            return {}
        if name == _CONTENT_BASED:
            raise unknown_attribute(name)
        raise SQSError(
            INVALID_ATTRIBUTE_NAME,
            f"You can specify the {name} only when FifoQueue is set to true.",
        )
    if value and value not in values:
        raise wrong_value(name, f"give {values[0]} or {values[1]}")
    return {note: "" if value == values[0] else value}


def check_together(before: QueueSettings | None, changes: Mapping[str, str]) -> None:
    """Check that the attributes fit together. Raises SQSError."""
    notes = {} if before is None else before.notes
    limit = changes.get(_LIMIT_NOTE, notes.get(_LIMIT_NOTE, ""))
    scope = changes.get(SCOPE_NOTE, notes.get(SCOPE_NOTE, ""))
    if limit == _PER_GROUP and scope != DeduplicationScope.GROUP.value:
        raise SQSError(
            INVALID_ATTRIBUTE_VALUE,
            "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
            "messageGroup.",
        )


def fifo_attributes_of(settings: QueueSettings) -> dict[str, str]:
    """Return the attributes that a FIFO queue has and a standard one lacks."""
    found = {name: _value_of(name, settings) for name in _NOTES}
    return {FIFO_QUEUE: "true", **found}


def is_content_based(settings: QueueSettings) -> bool:
    """Return whether the body stands for a deduplication id that is not given."""
    return _value_of(_CONTENT_BASED, settings) == "true"


def _value_of(name: str, settings: QueueSettings) -> str:
    note, values = _NOTES[name]
    # A person may have edited the file.
    return values[1] if settings.notes.get(note) == values[1] else values[0]
