"""Attributes of a message on their way in: checked, measured, hashed and brought into the form that
is kept, in one pass.

They are kept in the trailer of the message, as the properties that `mq_sqs.messages.properties`
reads. Each is JSON within a string of JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from mq.properties import MAX_STORED_PROPERTIES_BYTES, Properties, require_size
from mq.spool.message.trailer import NO_TRAILER
from mq_sqs.messages.digests import md5_in_hex
from mq_sqs.messages.message_attributes import (
    BYTES_AROUND,
    TRACE_HEADER,
    Attributes,
    check_count,
    check_name,
    check_number,
    check_text,
    check_type,
    explain,
    head_of,
    wrong,
)
from mq_sqs.messages.properties import ATTRIBUTES, SYSTEM

_KNOWN_HEADS = 1024
"""Names with types that are not looked at again: programs have few."""

Kept = Mapping[str, tuple[str, str]]
"""What is kept of attributes: by name, in their order, type and value. Binary ones are in
Base64."""


class Packed(NamedTuple):
    """Attributes that are allowed: the bytes that they add to the size of a message, their MD5 in
    hexadecimal, what is kept of them, and that as JSON in printable ASCII, empty without any."""

    size: int
    md5: str
    kept: Kept
    text: str


NO_ATTRIBUTES = Packed(0, "", {}, "")


class _Head(NamedTuple):
    """What is known of an attribute by its name and type. The MD5 covers `hashed`."""

    member: str
    base: str
    hashed: bytes


def pack_attributes(attributes: Attributes) -> Packed:
    """Check and pack attributes. Raises SQSError, which names the one that is not allowed."""
    if not attributes:
        return NO_ATTRIBUTES
    check_count(attributes)
    hashed: list[bytes] = []
    kept: dict[str, tuple[str, str]] = {}
    for name in sorted(attributes):
        value = attributes[name]
        kind = value["DataType"]
        member, base, head = _head_of(name, kind)
        given = value.get(member)
        if not given or len(value) != 2:
            given = _without_lists(name, value, member)
        if base == "Binary":
            data, text = given, base64.b64encode(given).decode()
        else:
            data, text = given.encode(), given
            if base == "Number":
                check_number(name, text)
        hashed += (head, len(data).to_bytes(4, "big"), data)
        kept[name] = (kind, text)
    text = _printable(kept)
    if "\\" in text:  # Nothing else brings what is not printable into a string of JSON.
        _check_texts(kept)
    covered = b"".join(hashed)
    return Packed(len(covered) - len(kept) * BYTES_AROUND, md5_in_hex(covered), kept, text)


def pack_system_attributes(attributes: Attributes) -> Packed:
    """Check and pack system attributes. Raises SQSError as `pack_attributes` does."""
    for name, value in attributes.items():
        if name != TRACE_HEADER:
            raise wrong(name, f"the only system attribute to send is {TRACE_HEADER}")
        if value["DataType"] != "String":
            raise wrong(name, "its type must be String")
    return pack_attributes(attributes)


def kept_texts(texts: Mapping[str, str]) -> Kept:
    """Return what is kept of system attributes of the gateway's own."""
    return {name: ("String", text) for name, text in texts.items()}


def trailer_of(attributes: str, system: Kept) -> bytes:
    """Return the trailer of a message, as `pack_trailer` of `mq.spool.message.trailer` makes it of
    the same properties. `attributes` are the JSON of what is kept of them. Raises
    PropertiesTooLarge."""
    properties = {}
    if attributes:
        properties[ATTRIBUTES] = attributes
    if system:
        properties[SYSTEM] = _printable(system)
    if not properties:
        return NO_TRAILER
    trailer = b"\n%b\n" % orjson.dumps(properties)
    if len(trailer) > MAX_STORED_PROPERTIES_BYTES:
        require_size(properties, MAX_STORED_PROPERTIES_BYTES)
    return trailer


def properties_in(trailer: bytes) -> Properties:
    """Return the properties in a trailer that was made here."""
    found: dict[str, str] = orjson.loads(trailer) if trailer else {}
    return found


@lru_cache(_KNOWN_HEADS)
def _head_of(name: str, kind: str) -> _Head:
    """Return what is known of an attribute by its name and type. Raises SQSError."""
    check_name(name)
    base = check_type(name, kind)
    is_binary = base == "Binary"
    member = "BinaryValue" if is_binary else "StringValue"
    return _Head(member, base, head_of(name, kind, is_binary))


def _check_texts(kept: Kept) -> None:
    """Raise SQSError for a character that SQS does not take."""
    for name, (_, text) in kept.items():
        check_text(text.encode(), f"message attribute {name!r}")


def _without_lists(name: str, value: Mapping[str, Any], member: str) -> Any:
    """Return the value of an attribute with empty lists, which the query protocol does not send,
    and JSON may. Raises SQSError if something else is wrong with it."""
    said = {part: each for part, each in value.items() if each != []}
    given = said.get(member)
    if not given or len(said) != 2:
        raise explain(name, said, member)
    return given


def _printable(kept: Kept) -> str:
    """Return the JSON of what is kept, in printable ASCII, as a property must be."""
    text = orjson.dumps(kept).decode()
    if text.isascii() and "\x7f" not in text:
        return text
    return json.dumps(kept, separators=(",", ":")).replace("\x7f", "\\u007f")
