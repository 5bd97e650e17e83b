"""Attributes of a message, read from the properties of MQ that they are kept as.

A property has a name in lower case and a value in printable ASCII. All attributes together are one
property, a JSON object with a type and a value for each; binary values are in Base64. System
attributes are another one.
"""

from __future__ import annotations

import base64
import json
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import Any

import orjson

from mq.properties import Properties
from mq_sqs.messages.message_attributes import is_text

ATTRIBUTES = "x-meta-sqs-attributes"
SYSTEM = "x-meta-sqs-system"

GROUP_ID = "MessageGroupId"
DEDUPLICATION_ID = "MessageDeduplicationId"
"""System attributes of messages that were sent to a FIFO queue."""

Read = dict[str, dict[str, Any]]

_MALFORMED = (ValueError, TypeError, AttributeError, RecursionError, Base64Error)


def attributes_of(properties: Properties) -> Read:
    """Return the attributes that SQS can express. Properties that a producer over HTTP wrote in
    another form are left out."""
    try:
        return {
            name: _binary(kind, text)
            if kind.startswith("Binary")
            else {"DataType": kind, "StringValue": str(text)}
            for name, (kind, text) in _pairs_in(properties.get(ATTRIBUTES, ""))
        }
    except _MALFORMED:
        return {}


def system_of(properties: Properties) -> dict[str, str]:
    """Return the values of the system attributes, as `attributes_of` does."""
    try:
        pairs = _pairs_in(properties.get(SYSTEM, ""))
        return {name: str(text) for name, (kind, text) in pairs if not kind.startswith("Binary")}
    except _MALFORMED:
        return {}


def _pairs_in(text: str) -> Iterable[tuple[str, tuple[str, Any]]]:
    """Return names, types and values, as far as SQS can express them. Raises _MALFORMED."""
    if not text:
        return ()
    pairs: Iterable[tuple[str, tuple[str, Any]]] = _parse(text).items()
    # Nothing but a backslash brings another character into a string of JSON.
    if text.isascii() and "\\" not in text:
        return pairs
    return [
        (name, (kind, value))
        for name, (kind, value) in pairs
        if is_text(name) and is_text(kind) and is_text(str(value))
    ]


def _parse(text: str) -> Any:
    """Return what JSON says. Raises ValueError, RecursionError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # It may have half of a surrogate pair in one attribute; the others are read then.
        return json.loads(text)


def _binary(kind: str, text: str) -> dict[str, Any]:
    """Return a binary value. Raises _MALFORMED."""
    return {"DataType": kind, "BinaryValue": base64.b64decode(text, validate=True)}
