"""Attributes of a message, read from the properties of MQ that they are kept as.

A property has a name in lower case and a value in printable ASCII. All attributes together are one
property, a JSON object with a type and a value for each; binary values are in Base64. System
attributes are another one.
"""

from __future__ import annotations

import base64
import json
from binascii import Error as Base64Error
from typing import Any

from mq.properties import Properties
from mq_sqs.message_attributes import is_text

ATTRIBUTES = "x-meta-sqs-attributes"
SYSTEM = "x-meta-sqs-system"

GROUP_ID = "MessageGroupId"
DEDUPLICATION_ID = "MessageDeduplicationId"
"""System attributes of messages that were sent to a FIFO queue."""

Read = dict[str, dict[str, Any]]


def from_properties(properties: Properties) -> tuple[Read, dict[str, str]]:
    """Return the attributes, and the values of the system attributes. Properties that a producer
    over HTTP wrote in another form are left out."""
    return _read(properties.get(ATTRIBUTES, "")), system_of(properties)


def system_of(properties: Properties) -> dict[str, str]:
    """Return the values of the system attributes."""
    system = _read(properties.get(SYSTEM, ""))
    return {name: each["StringValue"] for name, each in system.items() if "StringValue" in each}


def _read(text: str) -> Read:
    """Return the attributes that SQS can express: a producer over HTTP may have written others."""
    if not text:
        return {}
    try:
        pairs = json.loads(text)
        # Nothing but a backslash brings another character into a string of JSON.
        are_texts = text.isascii() and "\\" not in text
        return {
            name: _value(kind, value)
            for name, (kind, value) in pairs.items()
            if are_texts or (is_text(name) and is_text(kind) and is_text(str(value)))
        }
    except (ValueError, TypeError, AttributeError, RecursionError, Base64Error):
        return {}


def _value(kind: str, text: str) -> dict[str, Any]:
    """Return a value. Raises ValueError, AttributeError, TypeError."""
    if kind.partition(".")[0] == "Binary":
        return {"DataType": kind, "BinaryValue": base64.b64decode(text, validate=True)}
    return {"DataType": kind, "StringValue": str(text)}
