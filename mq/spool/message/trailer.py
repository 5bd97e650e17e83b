"""The trailer: a message's properties, which follow its body as a newline and one line of JSON.

    {"coffee": 2}
    {"traceparent":"00-4bf9...-01","x-meta-shop":"north"}

The seal has the length of the body, and length and CRC-32 of the trailer. A message without
properties has no trailer.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, NamedTuple

from mq.disk.files import Files
from mq.errors import InvalidRequest
from mq.properties import (
    MAX_STORED_PROPERTIES_BYTES,
    NO_PROPERTIES,
    Properties,
    check_properties,
    require_size,
)
from mq.spool.message.checksum import measure
from mq.spool.message.seal import Seal, unless_unreadable

NO_TRAILER = b""

_DECODER = json.JSONDecoder()

_MAX_TRAILER_BYTES = 8 * MAX_STORED_PROPERTIES_BYTES
"""More than JSON makes of the largest properties: up to 6 bytes for each byte, and quotes."""

_quote = json.encoder.encode_basestring_ascii


class Content(NamedTuple):
    """The content of a message's file."""

    body: bytes
    properties: Properties


def pack_trailer(properties: Properties) -> bytes:
    """Return the trailer of these properties: the same bytes for the same properties, in whatever
    order they come. Raises InvalidRequest and PropertiesTooLarge for properties that no message may
    have."""
    if not properties:
        return NO_TRAILER
    checked = check_properties(properties.items())
    require_size(checked, MAX_STORED_PROPERTIES_BYTES)
    # As json.dumps writes it with the shortest separators: making an encoder takes longer.
    pairs = [f"{_quote(name)}:{_quote(checked[name])}" for name in sorted(checked)]
    return f"\n{{{','.join(pairs)}}}\n".encode()


def sealed(body: bytes, trailer: bytes, published_ns: int, count: int = 0, lease: int = 0) -> Seal:
    """Return the seal of a file with that body and trailer."""
    behind = (len(trailer), zlib.crc32(trailer)) if trailer else (0, 0)
    return Seal(len(body), zlib.crc32(body), published_ns, count, lease, *behind)


def unpack_trailer(seal: Seal, trailer: bytes) -> Properties | None:
    """Return the properties in a trailer, or None if it does not match the seal or is malformed."""
    if (len(trailer), zlib.crc32(trailer)) != (seal.trailer_length, seal.trailer_crc32):
        return None
    try:
        return check_properties(_parse(trailer).items())
    except (ValueError, AttributeError, TypeError, RecursionError, InvalidRequest):
        return None


def _parse(trailer: bytes) -> Any:
    """Return what the JSON in a trailer says. Raises ValueError, RecursionError."""
    if trailer.startswith(b"\n{"):
        # As MQ writes it; json.loads takes twice as long, because it guesses the encoding too.
        text = trailer.decode()
        found, end = _DECODER.raw_decode(text, 1)
        if text[end:] == "\n":
            return found
    return json.loads(trailer)


def split(seal: Seal | None, data: bytes) -> Content | None:
    """Split all of a file into body and properties. Returns None if it fails its seal; without a
    seal all of it is body."""
    if seal is None:
        return Content(data, NO_PROPERTIES)
    body, properties = data, NO_PROPERTIES
    if seal.trailer_length:
        body = data[: seal.length]
        found = unpack_trailer(seal, data[seal.length :])
        if found is None:
            return None
        properties = found
    if len(body) != seal.length or zlib.crc32(body) != seal.crc32:
        return None
    return tuple.__new__(Content, (body, properties))


def read_properties(files: Files, fd: int, seal: Seal | None) -> Properties | None:
    """Return the properties of an open message, or None if its trailer fails the seal or cannot be
    read (a lasting EIO)."""
    if seal is None or not seal.trailer_length:
        return NO_PROPERTIES
    # A damaged seal may name lengths that no file has, and no memory.
    if seal.trailer_length > _MAX_TRAILER_BYTES or seal.file_length != os.fstat(fd).st_size:
        return None
    trailer = unless_unreadable(lambda: files.read(fd, seal.trailer_length, seal.length))
    return None if trailer is None else unpack_trailer(seal, trailer)


def read_at_once(files: Files, fd: int, length: int, seal: Seal | None) -> Content | None:
    """Read a file of up to `length` bytes into memory. Returns None if it fails its seal or cannot
    be read (a lasting EIO)."""
    data = unless_unreadable(lambda: files.read(fd, length))
    return None if data is None else split(seal, data)


def read_long(files: Files, fd: int, seal: Seal) -> Properties | None:
    """Read the whole of a large file piece by piece. Returns its properties, or None if the file
    fails its seal or cannot be read (a lasting EIO)."""
    most = seal.length if seal.trailer_length else None
    measured = unless_unreadable(lambda: measure(files, fd, most))
    return read_properties(files, fd, seal) if measured == (seal.length, seal.crc32) else None
