"""Messages out of a queue and into one, as lines of JSON: what `mqctl` and `vsqs` share.

A message that is taken out is removed only once its line is flushed, on stable media if that is a
file. A kill or a broken pipe before that leaves it in its queue; after that it may be in both.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from typing import BinaryIO, NamedTuple

from mq.command.pace import messages_text
from mq.config import MAX_BATCH_LINES, MIB, SMALL_TEXT_BYTES
from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode, InvalidBatch, InvalidRequest, MQError
from mq.lines.ndjson import (
    JSON_SPACE,
    Line,
    end_line,
    end_line_in_base64,
    parse_line,
    write_members,
)

MAX_LINE_BYTES = 384 * MIB
"""The longest line that `import` takes: a body of the largest usual size in base64."""

_PASSED_OVER = frozenset(
    {"state", "lease", "receive_count", "published_at", "visible_at", "damaged", "length",
     "dead_from", "dead_reason"}
)  # fmt: skip
"""Members that `mqctl recv --json`, `peek --json` and a receive of many add. They describe the
message where it was."""

_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")
"""The control characters that JSON does not escape, in UTF-8."""

_BATCH_LINES = 100
_BATCH_BYTES = 4 * 1024 * 1024
READ_BYTES = 4 * 1024 * 1024
_PIPE_BYTES = 1024 * 1024
"""The largest size that Linux gives every user (pipe(7), /proc/sys/fs/pipe-max-size)."""


class TakenOut(NamedTuple):
    """A received message. `remove` returns True unless another receiver has the message by now."""

    line: Line
    remove: Callable[[], bool]


def take_out(
    take: Callable[[], TakenOut | None],
    output: BinaryIO,
    limit: int | None,
    tell: Callable[[int], object] = lambda written: None,
) -> int:
    """Write a line for each message that `take` returns, and remove the message after that. `tell`
    is told how many were written so far. Returns how many of these messages are still in the queue,
    because their visibility timeout was over."""
    written = kept = 0
    files = Files()
    while limit is None or written < limit:
        left = _BATCH_LINES if limit is None else min(_BATCH_LINES, limit - written)
        batch = _write_batch(take, output, left)
        flush(output, files)
        kept += sum(not taken.remove() for taken in batch)
        written += len(batch)
        tell(written)
        if len(batch) < left and sum(len(taken.line.body) for taken in batch) < _BATCH_BYTES:
            break
    return kept


def _write_batch(
    take: Callable[[], TakenOut | None], output: BinaryIO, most: int
) -> list[TakenOut]:
    batch: list[TakenOut] = []
    size = 0
    while len(batch) < most and size < _BATCH_BYTES and (taken := take()) is not None:
        output.write(exported(taken.line))
        batch.append(taken)
        size += len(taken.line.body)
    return batch


def exported(line: Line) -> bytes:
    """Return the line of a message as `export` writes it. As text a control character takes six
    bytes, those that JSON could leave as they are too, because a terminal acts on them. A body
    whose line would then be too long for `import` is in base64."""
    fields = {
        "id": line.message_id,
        "content_type": line.content_type,
        "delay": line.delay_seconds,
        "properties": dict(line.properties) or None,
    }
    members = write_members(fields)
    written = end_line(members, line.body)
    if not written.isascii() or b"\x7f" in written:
        written = _CONTROLS.sub(lambda found: b"\\u00%02x" % found[0][-1], written)
    return written if len(written) <= MAX_LINE_BYTES else end_line_in_base64(members, line.body)


def flush(output: BinaryIO, files: Files) -> None:
    """Pass on what was written. A file is on stable media after that."""
    output.flush()
    if stat.S_ISREG(os.fstat(output.fileno()).st_mode):
        files.sync(output.fileno())


def parse_exported(text: bytes) -> Line:
    """Return the message in a line that `export` or `recv --json` wrote. Raises InvalidRequest."""
    line = parse_line(text, _PASSED_OVER)
    if line.queue is not None:
        raise InvalidRequest(
            "all lines go to one queue here; only a batch takes lines that name theirs"
        )
    return line


class Numbered(NamedTuple):
    """A line and its number, counted from 1; or what is wrong with it."""

    number: int
    line: Line | MQError


def put_in(
    lines: BufferedIOBase,
    publish: Callable[[Line], object],
    begin: Callable[[Sequence[Line]], Callable[[], bool]],
    parse: Callable[[bytes], Line] = parse_exported,
) -> Iterator[int]:
    """Publish each line, as `parse` reads it. Yields the number of messages published so far, after
    each step. Lines of white space alone are passed over.

    Lines that can be read at once are published together: `begin` sends them off, and meanwhile the
    next lines are parsed. The function that `begin` returned then tells whether they were
    published; if not, none of them was, and each is published by itself. The first line that cannot
    be published ends it: the error names that line, and those before it are published. Raises
    MQError.
    """
    published = 0
    _widen(lines)
    for some in _read_at_once(lines):
        under_way: Iterator[int] = iter(())
        for batch in _batches(some, parse):
            for step in under_way:
                published += step
                yield published
            under_way = _publish_batch(batch, published, publish, begin)
            # Run it up to the call of `begin`.
            next(under_way)
        for step in under_way:
            published += step
            yield published


def _publish_batch(
    batch: Sequence[Numbered],
    before: int,
    publish: Callable[[Line], object],
    begin: Callable[[Sequence[Line]], Callable[[], bool]],
) -> Iterator[int]:
    """Yield 0 once the batch is on its way, then how many lines each step published."""
    good = [each.line for each in batch if isinstance(each.line, Line)]
    end: Callable[[], bool] | None = None
    with _naming(f"lines {batch[0].number} to {batch[-1].number}", before):
        if len(good) == len(batch) > 1:
            end = begin(good)
        yield 0
        is_published = end is not None and end()
    if is_published:
        yield len(good)
        return
    for at, (number, line) in enumerate(batch):
        with _naming(f"line {number}", before + at):
            if not isinstance(line, Line):
                raise InvalidBatch(str(line))
            publish(line)
        yield 1


@contextmanager
def _naming(what: str, published: int) -> Iterator[None]:
    try:
        yield
    except MQError as error:
        error.args = (f"{what}: {error}; {messages_text(published)} published before it",)
        raise


def _batches(
    some: Iterable[tuple[int, bytes]], parse: Callable[[bytes], Line]
) -> Iterator[list[Numbered]]:
    """Yield batches of lines, in order. A large line is a batch by itself, and so is one that is
    wrong."""
    batch: list[Numbered] = []
    for number, text in some:
        line = _parse(text, parse)
        is_alone = isinstance(line, MQError) or len(line.body) > SMALL_TEXT_BYTES
        if batch and (is_alone or len(batch) == MAX_BATCH_LINES):
            yield batch
            batch = []
        batch.append(Numbered(number, line))
        if is_alone:
            yield batch
            batch = []
    if batch:
        yield batch


def _parse(text: bytes, parse: Callable[[bytes], Line]) -> Line | MQError:
    if len(text) > MAX_LINE_BYTES:
        return InvalidRequest(f"it is longer than {MAX_LINE_BYTES} bytes")
    try:
        return parse(text)
    except MQError as error:
        return error


def _widen(lines: BufferedIOBase) -> None:
    """Let a pipe hold more than the usual 64 KiB, so that one read returns more."""
    with suppress(OSError):  # It fails if it is not a pipe, or if the system has another limit.
        fcntl.fcntl(lines.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _read_at_once(lines: BufferedIOBase) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines, with their numbers, that each read returns; it does not wait for more."""
    parts: list[bytes] = []
    number = length = 0
    is_at_end = False
    while not is_at_end:
        chunk = _read_chunk(lines)
        is_at_end = not chunk
        parts.append(chunk)
        length += len(chunk)
        if b"\n" not in chunk and not is_at_end and length <= MAX_LINE_BYTES:
            continue
        *whole, rest = b"".join(parts).split(b"\n")
        if is_at_end or len(rest) > MAX_LINE_BYTES:
            whole.append(rest)
            is_at_end = True
        parts, length = [rest], len(rest)
        yield [(at, text) for at, text in enumerate(whole, number + 1) if text.strip(JSON_SPACE)]
        number += len(whole)


def _read_chunk(lines: BufferedIOBase) -> bytes:
    try:
        return lines.read1(READ_BYTES)
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"the lines cannot be read: {error.strerror or error}"
        ) from error
