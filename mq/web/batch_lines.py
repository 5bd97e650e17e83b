"""Parse and check the lines of a batch. This module loads nothing of the server."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from mq.config import MAX_BATCH_LINES, SECOND_NS
from mq.errors import BodyTooLarge, InvalidBatch, InvalidRequest, PropertiesTooLarge
from mq.lines.ndjson import JSON_SPACE, Line, parse_line
from mq.properties import require_http_size
from mq.spool.trailer import pack_trailer
from mq.store.publish import Draft, Entry


def parse_batch(text: bytes, max_body_bytes: int) -> list[Entry]:
    """Return the messages of a batch. Lines of white space alone are passed over.

    Blocking, about 10 ms for each MiB. Raises InvalidBatch, BodyTooLarge, PropertiesTooLarge; each
    names the line, counted from 1.
    """
    entries: list[Entry] = []
    for number, text_line in _lines(text):
        if len(entries) == MAX_BATCH_LINES:
            raise BodyTooLarge(
                f"line {number}: a batch has at most {MAX_BATCH_LINES} messages; send several"
            )
        try:
            line = parse_line(text_line)
            require_http_size(line.properties)
        except InvalidRequest as error:
            raise InvalidBatch(f"line {number}: {error}") from None
        except PropertiesTooLarge as error:
            raise PropertiesTooLarge(f"line {number}: {error}") from None
        if len(line.body) > max_body_bytes:
            raise BodyTooLarge(
                f"line {number}: the body has more than {max_body_bytes} bytes (--max-body)"
            )
        entries.append(Entry(number, draft_of(line)))
    if not entries:
        raise InvalidBatch("the batch is empty; give at least one line")
    return entries


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    start = number = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        number += 1
        line = text[start:end].strip(JSON_SPACE)
        if line:
            yield number, line
        start = end + 1


def draft_of(line: Line) -> Draft:
    """Return the draft of a line. Raises PropertiesTooLarge."""
    return Draft(
        len(line.body),
        zlib.crc32(line.body),
        line.content_type,
        line.body,
        message_id=line.message_id,
        delay_ns=None if line.delay_seconds is None else int(line.delay_seconds * SECOND_NS),
        trailer=pack_trailer(line.properties),
    )
