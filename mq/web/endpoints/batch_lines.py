"""Parse and check the lines of a batch. This module loads no aiohttp: `mqctl --root` uses it
too."""

from __future__ import annotations

import zlib

from mq.config import MAX_BATCH_LINES
from mq.errors import BodyTooLarge, InvalidBatch, InvalidRequest, PropertiesTooLarge
from mq.lines.ndjson import Line, numbered_lines, parse_line
from mq.properties import require_http_size
from mq.spool.message.trailer import NO_TRAILER, pack_trailer
from mq.store.publishing.publish import Draft, Entry
from mq.times import in_ns


def parse_batch(text: bytes, max_body_bytes: int, queues: int = 1) -> list[Entry]:
    """Return the messages of a batch, each for that many queues. Lines of white space alone are
    passed over.

    Blocking, about 10 ms for each MiB. Raises InvalidBatch, BodyTooLarge, PropertiesTooLarge; each
    names the line, counted from 1.
    """
    entries: list[Entry] = []
    most = MAX_BATCH_LINES // queues
    for number, text_line in numbered_lines(text):
        if len(entries) == most:
            copies = "" if queues == 1 else f" for {queues} queues"
            raise BodyTooLarge(
                f"line {number}: a batch has at most {most} messages{copies}; send several"
            )
        try:
            line = parse_line(text_line)
            if line.properties:
                require_http_size(line.properties)
        except InvalidRequest as error:
            raise InvalidBatch(f"line {number}: {error}") from None
        except PropertiesTooLarge as error:
            raise PropertiesTooLarge(f"line {number}: {error}") from None
        if len(line.body) > max_body_bytes:
            raise BodyTooLarge(
                f"line {number}: the body has more than {max_body_bytes} bytes (--max-body)"
            )
        entries.append(Entry(number, draft_of(line), line.queue))
    if not entries:
        raise InvalidBatch("the batch is empty; give at least one line")
    return entries


def draft_of(line: Line) -> Draft:
    """Return the draft of a line. Raises PropertiesTooLarge."""
    body, message_id, content_type, delay_seconds, properties, _ = line
    return Draft(
        len(body),
        zlib.crc32(body),
        content_type,
        body,
        -1,
        message_id,
        in_ns(delay_seconds),
        pack_trailer(properties) if properties else NO_TRAILER,
    )
