"""Print queues and messages: a table or a line for people, a JSON document for programs."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import click

from mq.command.stdout import printable, written_to_stdout
from mq.config import CHUNK_BYTES
from mq.ctl.ways.access import QueueCounts, ShownMessage
from mq.errors import CommandFailed, ExitCode
from mq.lines.ndjson import body_member

Write = Callable[[bytes], object]

PAUSED = "  paused"
"""What the lines of paused queues end with."""

_PREVIEW_BYTES = 60
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


class Output(NamedTuple):
    """Where bodies go: `write` takes pieces of them, and what it has written is in `file`."""

    write: Write
    file: BinaryIO


def say(as_json: bool, document: Mapping[str, object], text: str) -> None:
    """Print what was done, in one line."""
    click.echo(json.dumps(document) if as_json else printable(text))


def counts_table(queues: Sequence[QueueCounts]) -> str:
    """Return a table with the numbers aligned to the right."""
    head = ("name", "ready", "leased", "delayed", "oldest age")
    rows = [
        head,
        *(
            (printable(counts.queue), *map(str, counts[1:4]), age(counts.oldest_age_seconds))
            for counts in queues
        ),
    ]
    return "\n".join(with_pauses(aligned(rows), [counts.paused for counts in queues]))


def with_pauses(table: Sequence[str], are_paused: Sequence[bool]) -> list[str]:
    """Return the lines of a table, of which the first is the title, with a word behind each queue
    that is paused."""
    title, *lines = table
    marks = [PAUSED if is_paused else "" for is_paused in are_paused]
    return [title, *map("".join, zip(lines, marks, strict=True))]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose columns are aligned, all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def age(seconds: float | None) -> str:
    """Return an age as `7.2s`, `12m`, `3h` or `5d`, and `-` for none."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.1f}s"


def write_line(message: ShownMessage, write: Write) -> None:
    """Write one line: the receipt, when it is ready again, and the beginning of the body."""
    beginning = _read(message, _PREVIEW_BYTES)
    message.body.close()
    text = printable(beginning.decode(errors="backslashreplace"))
    more = "..." if message.length > len(beginning) else ""
    due = "" if message.visible_at is None else f" visible_at={message.visible_at}"
    write(f"{_receipt(message)}{due} bytes={message.length} {text}{more}\n".encode())


def write_body(message: ShownMessage, write: Write) -> None:
    """Write the body as it is, after a line with the receipt on stderr: if the body is interrupted,
    the message can still be acknowledged."""
    _tell_receipt(message)
    write_content(message, write)


def _tell_receipt(message: ShownMessage) -> None:
    click.echo(_receipt(message), err=True)
    for name, value in message.properties.items():
        click.echo(printable(f"{name}: {value}"), err=True)


def write_content(message: ShownMessage, write: Write) -> None:
    """Write the body as it is, and nothing else."""
    write(b"")
    _copy(message, write)


def write_as_line(message: ShownMessage, write: Write) -> None:
    """Write the body, and a line break unless it ends with one."""
    last = b""

    def note(data: bytes) -> None:
        nonlocal last
        last = data[-1:] or last
        write(data)

    _copy(message, note)
    if last != b"\n":
        write(b"\n")


def write_receipt_and_line(message: ShownMessage, write: Write) -> None:
    """Write what `write_body` does, and end the line."""
    _tell_receipt(message)
    write_as_line(message, write)


def write_document(message: ShownMessage, write: Write) -> None:
    """Write all of the message as one line of JSON, with the body as text if it is UTF-8, or else
    in base64."""
    document: dict[str, object] = {} if message.queue is None else {"queue": message.queue}
    document |= {
        "id": message.message_id,
        "state": message.state,
        "lease": message.lease,
        "receive_count": message.receive_count,
        "content_type": message.content_type,
        "published_at": message.published_at,
        "visible_at": message.visible_at,
        "damaged": message.is_damaged,
    }
    if message.properties:
        document["properties"] = dict(message.properties)
    if message.dead_from is not None:
        document |= {"dead_from": message.dead_from, "dead_reason": message.dead_reason}
    write(json.dumps(document | body_member(whole_body(message))).encode() + b"\n")


def whole_body(message: ShownMessage) -> bytes:
    """Return the body. Raises CommandFailed if it ends early."""
    parts: list[bytes] = []
    _copy(message, parts.append)
    return b"".join(parts)


@contextmanager
def output_to(path: Path | None, is_raw: bool = False) -> Iterator[Output]:
    """Open a file, or stdout for None, before there is anything to write. A terminal gets no
    control characters unless `is_raw`.

    So a file that cannot be written is known before a message is received for it. A file keeps its
    content until the first write, and a new file is unlinked if nothing is written.
    """
    if path is None:
        with written_to_stdout(is_raw) as write_out:
            yield Output(write_out, sys.stdout.buffer)
        return
    is_new, is_written = not path.exists(), False

    def write(data: bytes) -> None:
        nonlocal is_written
        if not is_written and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        is_written = True
        file.write(data)
        # On return it can be synced.
        file.flush()

    try:
        with path.open("ab") as file:
            try:
                yield Output(write, file)
            finally:
                if is_new and not is_written:
                    path.unlink()
    except OSError as error:
        raise CommandFailed(ExitCode.ROOT, f"{path}: {error.strerror}") from error


def _receipt(message: ShownMessage) -> str:
    """Return everything that is needed to acknowledge the message, and how often it was
    received."""
    shown = {
        "queue": message.queue,
        "id": message.message_id,
        "lease": message.lease,
        "count": message.receive_count,
        "state": None if message.state == "leased" else message.state,
        "damaged": "yes" if message.is_damaged else None,
        "dead_from": message.dead_from,
        "dead_reason": None if message.dead_reason is None else json.dumps(message.dead_reason),
    }
    return " ".join(
        f"{name}={printable(str(value))}" for name, value in shown.items() if value is not None
    )


def _copy(message: ShownMessage, write: Write) -> None:
    """Copy the body to its end, in pieces. Raises CommandFailed if it ends early."""
    length = 0
    while chunk := _read(message, CHUNK_BYTES):
        write(chunk)
        length += len(chunk)
    message.body.close()
    if length < message.length:
        _break_off(message, f"ended after {length} of {message.length} bytes")


def _read(message: ShownMessage, size: int) -> bytes:
    try:
        return message.body.read(size)
    except OSError as error:
        _break_off(message, f"cannot be read: {error.strerror or error}")


def _break_off(message: ShownMessage, how: str) -> NoReturn:
    raise CommandFailed(
        ExitCode.UNAVAILABLE,
        f"the body of message {message.message_id} {how}; if the message was received, it returns "
        "when its lease ends",
    )
