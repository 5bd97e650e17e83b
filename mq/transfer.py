"""Messages out of a queue and into one, as lines of JSON: what `mqctl` and `vsqs` share.

A message that is taken out is removed only once its line is flushed, on stable media if that is a
file. A kill or a broken pipe before that leaves it in its queue; after that it may be in both.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from mq.config import MAX_LINE_BYTES
from mq.errors import InvalidRequest, MQError
from mq.ndjson import Line, parse_line, write_line
from mq.spool.files import Files

_PASSED_OVER = frozenset(
    {"state", "lease", "receive_count", "published_at", "visible_at", "damaged", "length"}
)
"""What `mqctl recv --json`, `peek --json` and a fetch of many add: it belongs to where it was."""

_BATCH_LINES = 100
_BATCH_BYTES = 4 * 1024 * 1024


class Taken(NamedTuple):
    """A received message. `remove` is True unless somebody else has it by now."""

    line: Line
    remove: Callable[[], bool]


class Moved(NamedTuple):
    """How many lines were written, and how many of their messages are still in the queue, because
    their visibility timeout was over."""

    written: int
    kept: int


def take_out(take: Callable[[], Taken | None], output: BinaryIO, limit: int | None) -> Moved:
    """Write the line of each message that `take` receives, and remove it after that."""
    written = kept = 0
    files = Files()
    while limit is None or written < limit:
        left = _BATCH_LINES if limit is None else min(_BATCH_LINES, limit - written)
        batch = _write_batch(take, output, left)
        flush(output, files)
        kept += sum(not taken.remove() for taken in batch)
        written += len(batch)
        if len(batch) < left and sum(len(taken.line.body) for taken in batch) < _BATCH_BYTES:
            break
    return Moved(written, kept)


def _write_batch(take: Callable[[], Taken | None], output: BinaryIO, most: int) -> list[Taken]:
    batch: list[Taken] = []
    size = 0
    while len(batch) < most and size < _BATCH_BYTES and (taken := take()) is not None:
        output.write(exported(taken.line))
        batch.append(taken)
        size += len(taken.line.body)
    return batch


def exported(line: Line) -> bytes:
    """The line as it is written."""
    fields = {"id": line.message_id, "content_type": line.content_type}
    return write_line(fields, line.body)


def flush(output: BinaryIO, files: Files) -> None:
    """Pass on what was written; a file is on stable media then."""
    output.flush()
    if stat.S_ISREG(os.fstat(output.fileno()).st_mode):
        files.sync(output.fileno())


def put_in(lines: BinaryIO, publish: Callable[[Line], object]) -> int:
    """Publish each line; returns how many. Lines of white space alone are passed over.

    The first one that cannot be published ends it: the error names it, and those before it are
    published. Raises MQError.
    """
    published = 0
    for number, text in _lines_of(lines):
        try:
            if len(text) > MAX_LINE_BYTES:
                raise InvalidRequest(f"it is longer than {MAX_LINE_BYTES} bytes")
            publish(parse_line(text, _PASSED_OVER))
        except MQError as error:
            error.args = (f"line {number}: {error}; {published} messages before it were imported",)
            raise
        published += 1
    return published


def _lines_of(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while text := lines.readline(MAX_LINE_BYTES + 1):
        number += 1
        if text.strip():
            yield number, text
