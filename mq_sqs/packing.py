"""Attributes of a message on their way in: checked, measured, hashed and written as they are kept,
in one pass.

They are kept in the trailer of the message, as the properties that `mq_sqs.properties` reads. Each
is JSON within a string of JSON.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from mq.properties import MAX_STORED_PROPERTIES_BYTES, Properties, require_size
from mq.spool.message.trailer import NO_TRAILER
from mq_sqs.digests import md5_in_hex
from mq_sqs.faults import SQSError
from mq_sqs.message_attributes import (
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
    length_of,
    wrong,
)
from mq_sqs.properties import ATTRIBUTES, SYSTEM

_KNOWN_HEADS = 1024
_KNOWN_SHAPES = 256
"""Names with types, alone and together, that are not looked at again: programs have few."""

_FEW = 2
"""Of so few attributes each is packed by itself, which then takes less time."""

_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""Characters that are themselves in a string of JSON."""

_END = b'\\"]'

_TYPE_OF, _TEXT_OF = itemgetter("DataType"), itemgetter("StringValue")


class Packed(NamedTuple):
    """Attributes that are allowed: the bytes that they add to the size of a message, their MD5 in
    hexadecimal, and pieces of what is kept."""

    size: int
    md5: str
    written: list[bytes]


NO_ATTRIBUTES = Packed(0, "", [])


class _Head(NamedTuple):
    """All of an attribute but its value, and which member that is. The MD5 covers `hashed`; what is
    kept begins with `written`, behind a comma."""

    member: str
    base: str
    hashed: bytes
    written: bytes


class Shape(NamedTuple):
    """All of some attributes but their values, which are texts. `names` are in their order, `kinds`
    are their types, and `numbers` the names of numbers. `hashed` has gaps for the length and the
    data of each value, `written` for its text in what is kept, and `shown` in JSON of SQS."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    numbers: tuple[str, ...]
    hashed: list[bytes]
    written: list[bytes]
    shown: list[str]

    def hash(self, values: Sequence[bytes]) -> bytes:
        """Return what the MD5 covers."""
        hashed = self.hashed.copy()
        hashed[1::3] = map(length_of, map(len, values))
        hashed[2::3] = values
        return b"".join(hashed)


def pack_attributes(attributes: Attributes) -> Packed:
    """Check and pack attributes. Raises SQSError, which names the one that is not allowed."""
    if not attributes:
        return NO_ATTRIBUTES
    check_count(attributes)
    packed = _pack_texts(attributes) if len(attributes) > _FEW else None
    return packed or _pack_each(attributes)


def _pack_texts(attributes: Attributes) -> Packed | None:
    """Pack attributes that are plain texts, as most are, all of them together in a few steps.
    Returns None for others. Raises SQSError."""
    given = attributes.values()
    shape = shape_of(tuple(attributes), tuple(map(_TYPE_OF, given)))
    if shape is None or sum(map(len, given)) != 2 * len(given):
        return None
    try:
        texts = list(map(_TEXT_OF, map(attributes.__getitem__, shape.names)))
    except KeyError:
        return None
    values = list(map(str.encode, texts))
    if not all(values) or b"".join(values).translate(None, _PLAIN):
        return None
    for name in shape.numbers:
        check_number(name, attributes[name]["StringValue"])
    written = shape.written.copy()
    written[1::3] = values
    return _packed(shape.hash(values), written, len(values))


def _pack_each(attributes: Attributes) -> Packed:
    """Pack one attribute after the other. Raises SQSError."""
    hashed: list[bytes] = []
    written: list[bytes] = []
    for name in sorted(attributes):
        value = attributes[name]
        if len(value) > 2:
            # The query protocol does not send an empty list, and JSON may.
            value = {part: each for part, each in value.items() if each != []}
        member, base, hashed_head, written_head = _head_of(name, value["DataType"])
        given = value.get(member)
        if not given or len(value) != 2:
            raise explain(name, value, member)
        if base == "Binary":
            data, text = given, binascii.b2a_base64(given, newline=False)
        else:
            data = given.encode()
            text = data if not data.translate(None, _PLAIN) else _escape(data, given, name)
            if base == "Number":
                check_number(name, given)
        hashed += (hashed_head, length_of(len(data)), data)
        written += (written_head, text, _END)
    written[0] = written[0][1:]
    return _packed(b"".join(hashed), written, len(attributes))


def _packed(covered: bytes, written: list[bytes], count: int) -> Packed:
    return Packed(len(covered) - count * BYTES_AROUND, md5_in_hex(covered), written)


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
        data = text.encode()
        inside = data if not data.translate(None, _PLAIN) else _escape(data, text, name)
        written += (_head_of(name, "String").written, inside, _END)
    if written:
        written[0] = written[0][1:]
    return written


def join_pieces(some: list[bytes], others: list[bytes]) -> list[bytes]:
    """Return the pieces of both."""
    return [*some, b",", *others] if some and others else some or others


def trailer_of(attributes: list[bytes], system: list[bytes]) -> bytes:
    """Return the trailer of a message, as `pack_trailer` of `mq.spool.message.trailer` makes it of
    the same properties. Raises PropertiesTooLarge."""
    if not (attributes or system):
        return NO_TRAILER
    if not system:
        pieces = [_BEGIN, _ATTRIBUTES, *attributes, _STOP]
    elif not attributes:
        pieces = [_BEGIN, _SYSTEM, *system, _STOP]
    else:
        pieces = [_BEGIN, _ATTRIBUTES, *attributes, _BETWEEN, _SYSTEM, *system, _STOP]
    trailer = b"".join(pieces)
    if len(trailer) > MAX_STORED_PROPERTIES_BYTES:
        require_size(properties_in(trailer), MAX_STORED_PROPERTIES_BYTES)
    return trailer


def properties_in(trailer: bytes) -> Properties:
    """Return the properties in a trailer that was made here."""
    found: dict[str, str] = json.loads(trailer) if trailer else {}
    return found


_ATTRIBUTES, _SYSTEM = f'"{ATTRIBUTES}":"{{'.encode(), f'"{SYSTEM}":"{{'.encode()
_BEGIN, _BETWEEN, _STOP = b"\n{", b'}",', b'}"}\n'


@lru_cache(_KNOWN_HEADS)
def _head_of(name: str, kind: str) -> _Head:
    """Return what is known of an attribute by its name and type. Raises SQSError."""
    check_name(name)
    base = check_type(name, kind)
    hashed = head_of(name, kind, base == "Binary")
    written = b',%b:[%b,\\"' % (_quote_twice(name), _quote_twice(kind))
    member = "BinaryValue" if base == "Binary" else "StringValue"
    return _Head(member, base, hashed, written)


@lru_cache(_KNOWN_SHAPES)
def shape_of(names: tuple[str, ...], kinds: tuple[str, ...]) -> Shape | None:
    """Return what is known of attributes by their names and types, or None if one is not text, is
    not allowed, or is there twice."""
    hashed: list[bytes] = []
    written: list[bytes] = []
    numbers: list[str] = []
    shown: list[str] = []
    in_order = sorted(zip(names, kinds, strict=True))
    if len(set(names)) < len(names):
        return None
    for name, kind in in_order:
        try:
            _, base, hashed_head, written_head = _head_of(name, kind)
        except SQSError:
            return None
        if base == "Binary":
            return None
        if base == "Number":
            numbers.append(name)
        hashed += (hashed_head, b"", b"")
        written += (written_head, b"", _END)
        between = '"}, ' if shown else "{"
        shown += (f'{between}{_quote(name)}: {{"DataType": {_quote(kind)}, "StringValue": "', "")
    written[0] = written[0][1:]
    in_names, in_kinds = zip(*in_order, strict=True)
    return Shape(in_names, in_kinds, tuple(numbers), hashed, written, [*shown, '"}}'])


def _escape(data: bytes, text: str, name: str) -> bytes:
    """Return a text, of which `data` is the UTF-8, as it is kept within its quotation marks. Raises
    SQSError for a character that SQS does not take."""
    check_text(data, f"message attribute {name!r}")
    return _quote_twice(text)[2:-2]


def _quote_twice(text: str) -> bytes:
    """Return a text as a string of JSON, as it is within another one."""
    # JSON escapes everything that is not printable ASCII, except this one.
    inner = _quote(text).replace("\x7f", "\\u007f")
    return _quote(inner)[1:-1].encode()


_quote = json.encoder.encode_basestring_ascii
