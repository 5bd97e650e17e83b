"""The lines of a batch, parsed and checked. Loads nothing of the server."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from mq.config import (
    MAX_BATCH_LINES,
    MAX_CONTENT_TYPE_BYTES,
    MAX_DELAY_SECONDS,
)
from mq.errors import BodyTooLarge, InvalidBatch, InvalidName
from mq.names import MessageId, parse_message_id
from mq.store.batch import Entry
from mq.store.publish import Draft

_NS = 1_000_000_000
_MEMBERS = {"body", "body_base64", "id", "delay", "content_type"}


def is_content_type(text: str) -> bool:
    """Whether it can be kept with a message."""
    return len(text) <= MAX_CONTENT_TYPE_BYTES and text.isascii() and text.isprintable()


def parse_batch(text: bytes, max_body_bytes: int) -> list[Entry]:
    """The messages of a batch. Lines of white space alone are passed over.

    Blocking, about 10 ms for each MiB. Raises InvalidBatch, BodyTooLarge; both name the line,
    counted from 1.
    """
    entries: list[Entry] = []
    for number, line in _lines(text):
        if len(entries) == MAX_BATCH_LINES:
            raise BodyTooLarge(
                f"line {number}: a batch has at most {MAX_BATCH_LINES} messages; send several"
            )
        draft = _parse_line(number, line)
        if draft.length > max_body_bytes:
            raise BodyTooLarge(
                f"line {number}: the body has more than {max_body_bytes} bytes (--max-body)"
            )
        entries.append(Entry(number, draft))
    if not entries:
        raise InvalidBatch("the batch is empty; give at least one line")
    return entries


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    start = number = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        number += 1
        line = text[start:end].strip()
        if line:
            yield number, line
        start = end + 1


def _parse_line(number: int, line: bytes) -> Draft:
    members = _parse_object(number, line)
    for name in members:
        if name not in _MEMBERS:
            known = ", ".join(sorted(_MEMBERS))
            _refuse(number, f"unknown member {name!r}; a line takes {known}")
    body = _body(number, members)
    return Draft(
        len(body),
        zlib.crc32(body),
        _content_type(number, members),
        body,
        -1,
        _own_id(number, members),
        _delay_ns(number, members),
    )


def _parse_object(number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(
            line.decode(),
            object_pairs_hook=lambda pairs: _once_each(number, pairs),
            parse_constant=lambda name: _refuse(number, f"{name} is no JSON"),
        )
    except UnicodeDecodeError:
        _refuse(number, "it is not UTF-8")
    except (ValueError, RecursionError) as error:
        _refuse(number, f"it is no JSON: {error}")
    if not isinstance(found, dict):
        _refuse(number, 'it is no object; write it like {"body": "text"}')
    return found


def _once_each(number: int, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        _refuse(number, "a member stands twice; give it once")
    return members


def _body(number: int, members: dict[str, Any]) -> bytes:
    if ("body" in members) == ("body_base64" in members):
        _refuse(number, "give 'body' or 'body_base64', one of them")
    name = "body" if "body" in members else "body_base64"
    text = members[name]
    if not isinstance(text, str):
        _refuse(number, f"{name!r} is no string")
    try:
        return text.encode() if name == "body" else base64.b64decode(text, validate=True)
    except UnicodeEncodeError:
        _refuse(number, "'body' has half of a surrogate pair; send bytes as 'body_base64'")
    except (binascii.Error, ValueError) as error:
        _refuse(number, f"'body_base64' is no base64: {error}")


def _own_id(number: int, members: dict[str, Any]) -> MessageId | None:
    if "id" not in members:
        return None
    if not isinstance(members["id"], str):
        _refuse(number, "'id' is no string")
    try:
        return parse_message_id(members["id"])
    except InvalidName as error:
        _refuse(number, str(error))


def _delay_ns(number: int, members: dict[str, Any]) -> int:
    seconds = members.get("delay", 0)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_DELAY_SECONDS or not math.isfinite(seconds):
        _refuse(number, f"'delay' is no number of seconds from 0 to {MAX_DELAY_SECONDS}")
    return int(seconds * _NS)


def _content_type(number: int, members: dict[str, Any]) -> str | None:
    text = members.get("content_type")
    if "content_type" in members and not (isinstance(text, str) and is_content_type(text)):
        _refuse(number, "'content_type' has at most 255 printable ASCII characters")
    return text or None


def _refuse(number: int, why: str) -> NoReturn:
    raise InvalidBatch(f"line {number}: {why}")
