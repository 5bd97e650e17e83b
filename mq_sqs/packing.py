"""Attributes of a message on their way in: checked, measured, hashed and written as they are kept,
in one pass.

They are kept in the trailer of the message, as the properties that `mq_sqs.properties` reads. Each
is JSON within a string of JSON.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from mq.properties import MAX_STORED_PROPERTIES_BYTES, Properties, require_size
from mq.spool.trailer import NO_TRAILER
from mq_sqs.message_attributes import (
    BYTES_AROUND,
    TRACE_HEADER,
    Attributes,
    check_count,
    check_name,
    check_number,
    check_text,
    check_type,
    digest_of,
    explain,
    head_of,
    length_of,
    wrong,
)
from mq_sqs.properties import ATTRIBUTES, SYSTEM

_KNOWN_HEADS = 1024
"""Names with types that are not looked at again: programs have few."""

_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""Characters that are themselves in a string of JSON."""

_END = b'\\"]'


class Packed(NamedTuple):
    """Attributes that are allowed: the bytes that they add to the size of a message, their MD5 in
    hexadecimal, and pieces of what is kept, each attribute with a comma before it."""

    size: int
    md5: str
    written: list[bytes]


NO_ATTRIBUTES = Packed(0, "", [])


class _Head(NamedTuple):
    """All of an attribute but its value, and which member that is. The MD5 covers `hashed`; what is
    kept begins with `written`."""

    member: str
    base: str
    hashed: bytes
    written: bytes


def pack_attributes(attributes: Attributes) -> Packed:
    """Check and pack attributes. Raises SQSError, which names the one that is not allowed."""
    if not attributes:
        return NO_ATTRIBUTES
    check_count(attributes)
    hashed: list[bytes] = []
    written: list[bytes] = []
    for name in sorted(attributes):
        value = attributes[name]
        member, base, hashed_head, written_head = _head_of(name, value["DataType"])
        given = value.get(member)
        if not given or len(value) != 2:
            raise explain(name, value, member)
        if base == "Binary":
            data, text = given, binascii.b2a_base64(given, newline=False)
        else:
            data = given.encode()
            text = data if not data.translate(None, _PLAIN) else _write(data, given, name)
            if base == "Number":
                check_number(name, given)
        hashed += (hashed_head, length_of(data), data)
        written += (written_head, text, _END)
    covered = b"".join(hashed)
    size = len(covered) - len(attributes) * BYTES_AROUND
    return Packed(size, digest_of(covered), written)


def pack_system_attributes(attributes: Attributes) -> Packed:
    """Check and pack system attributes. Raises SQSError as `pack_attributes` does."""
    for name, value in attributes.items():
        if name != TRACE_HEADER:
            raise wrong(name, f"the only system attribute to send is {TRACE_HEADER}")
        if value["DataType"] != "String":
            raise wrong(name, "its type must be String")
    return pack_attributes(attributes)


def pack_texts(texts: Mapping[str, str]) -> list[bytes]:
    """Return the pieces of system attributes of the gateway's own."""
    written: list[bytes] = []
    for name, text in texts.items():
        written += (_head_of(name, "String").written, _quote_twice(text)[2:-2], _END)
    return written


def trailer_of(attributes: list[bytes], system: list[bytes]) -> bytes:
    """Return the trailer of a message, as `mq.spool.trailer.pack_trailer` makes it of the same
    properties. Raises PropertiesTooLarge."""
    if not (attributes or system):
        return NO_TRAILER
    pieces = [_BEGIN]
    for name, written in ((_ATTRIBUTES, attributes), (_SYSTEM, system)):
        if written:
            # Each attribute has a comma before it.
            pieces += (name, written[0][1:], *written[1:], _STOP)
    pieces[-1] = b'}"}\n'
    trailer = b"".join(pieces)
    if len(trailer) > MAX_STORED_PROPERTIES_BYTES:
        require_size(properties_in(trailer), MAX_STORED_PROPERTIES_BYTES)
    return trailer


def properties_in(trailer: bytes) -> Properties:
    """Return the properties in a trailer that was made here."""
    found: dict[str, str] = json.loads(trailer) if trailer else {}
    return found


_ATTRIBUTES, _SYSTEM = f'"{ATTRIBUTES}":"{{'.encode(), f'"{SYSTEM}":"{{'.encode()
_BEGIN, _STOP = b"\n{", b'}",'


@lru_cache(_KNOWN_HEADS)
def _head_of(name: str, kind: str) -> _Head:
    """Return what is known of an attribute by its name and type. Raises SQSError."""
    check_name(name)
    base = check_type(name, kind)
    hashed = head_of(name, kind, base == "Binary")
    written = b',%b:[%b,\\"' % (_quote_twice(name), _quote_twice(kind))
    member = "BinaryValue" if base == "Binary" else "StringValue"
    return _Head(member, base, hashed, written)


def _write(data: bytes, text: str, name: str) -> bytes:
    """Return a text, of which `data` is the UTF-8, within its quotation marks. Raises SQSError for
    a character that SQS does not take."""
    check_text(data, f"message attribute {name!r}")
    return _quote_twice(text)[2:-2]


def _quote_twice(text: str) -> bytes:
    """Return a text as a string of JSON, as it is within another one."""
    # JSON escapes everything that is not printable ASCII, except this one.
    inner = _quote(text).replace("\x7f", "\\u007f")
    return _quote(inner)[1:-1].encode()


_quote = json.encoder.encode_basestring_ascii
