"""How queues and messages look: a table or a line for people, a JSON document for programs."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from mq.config import CHUNK_BYTES
from mq.ctl.access import Counts, Message
from mq.errors import CommandFailed, ExitCode
from mq.ndjson import body_member

Write = Callable[[bytes], object]

_PREVIEW_BYTES = 60
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def say(as_json: bool, document: Mapping[str, object], text: str) -> None:
    """What was done, in one line."""
    click.echo(json.dumps(document) if as_json else text)


def counts_table(queues: Sequence[Counts]) -> str:
    """Numbers to the right."""
    head = ("name", "ready", "leased", "delayed", "oldest age")
    rows = [head, *((*map(str, counts[:4]), age(counts.oldest_age_seconds)) for counts in queues)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def age(seconds: float | None) -> str:
    """`7.2s`, `12m`, `3h`, `5d`; `-` for none."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.1f}s"


def printable(text: str) -> str:
    """In one line, without the control characters that could do harm in a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def write_line(message: Message, write: Write) -> None:
    """One line: the receipt and how the body begins."""
    beginning = _read(message, _PREVIEW_BYTES)
    message.body.close()
    text = printable(beginning.decode(errors="backslashreplace"))
    more = "..." if message.length > len(beginning) else ""
    write(f"{_receipt(message)} bytes={message.length} {text}{more}\n".encode())


def write_body(message: Message, write: Write) -> None:
    """The body as it is, and the receipt as a line on stderr, first: who is interrupted while the
    body is written can still acknowledge the message."""
    click.echo(_receipt(message), err=True)
    write(b"")
    _copy(message, write)


def write_document(message: Message, write: Write) -> None:
    """All in one line of JSON; the body as text if it is UTF-8, else in base64."""
    document = {
        "id": message.message_id,
        "state": message.state,
        "lease": message.lease,
        "receive_count": message.receive_count,
        "content_type": message.content_type,
        "published_at": message.published_at,
        "visible_at": message.visible_at,
        "damaged": message.is_damaged,
    }
    body = bytearray()
    _copy(message, body.extend)
    write(json.dumps(document | body_member(body)).encode() + b"\n")


@contextmanager
def output_to(path: Path | None) -> Iterator[Write]:
    """Open a file, or stdout for None, to be written once there is something to write.

    What cannot be written is known before a message is received for it. A file keeps what it had
    until the first write, and one that is new goes away without a write.
    """
    if path is None:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    is_new, is_written = not path.exists(), False

    def write(data: bytes) -> None:
        nonlocal is_written
        if not is_written and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        is_written = True
        file.write(data)

    try:
        with path.open("ab") as file:
            try:
                yield write
            finally:
                if is_new and not is_written:
                    path.unlink()
    except OSError as error:
        raise CommandFailed(ExitCode.ROOT, f"{path}: {error.strerror}") from error


def _receipt(message: Message) -> str:
    """What it takes to acknowledge the message, and how often it was received."""
    shown = {
        "id": message.message_id,
        "lease": message.lease,
        "count": message.receive_count,
        "state": None if message.state == "leased" else message.state,
        "damaged": "yes" if message.is_damaged else None,
    }
    return " ".join(f"{name}={value}" for name, value in shown.items() if value is not None)


def _copy(message: Message, write: Write) -> None:
    """Copy the body to its end, in pieces. Raises CommandFailed if it ends early."""
    length = 0
    while chunk := _read(message, CHUNK_BYTES):
        write(chunk)
        length += len(chunk)
    message.body.close()
    if length < message.length:
        _break_off(message, f"ended after {length} of {message.length} bytes")


def _read(message: Message, size: int) -> bytes:
    try:
        return message.body.read(size)
    except OSError as error:
        _break_off(message, f"cannot be read: {error.strerror or error}")


def _break_off(message: Message, how: str) -> NoReturn:
    raise CommandFailed(
        ExitCode.UNAVAILABLE,
        f"the body of message {message.message_id} {how}; if it was received, it comes back when "
        "its lease ends",
    )
