"""Output on stdout. A failed write is an error that names stdout, wherever it happens, and bytes
that others chose do not harm a terminal."""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mq.errors import CommandFailed, ExitCode

_STDOUT_FD = 1
_READER_GONE = "the reader of stdout has gone away"


class ReaderGone(CommandFailed):
    """The reader of stdout has closed it, as `head` does. It is not an error and prints nothing."""


class _Buffer(io.BufferedWriter):
    """Raises CommandFailed for a failed write, so that nothing takes it for an error of a queue's
    disk.

    The file that it writes to is not written in Python: if it were, a signal between a write and
    the note that it was made would make it write the same again.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _failed(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _failed(error) from error


def guard_stdout() -> None:
    """Make every write to `sys.stdout` raise CommandFailed if it fails, even if stdout is closed.
    What its encoding lacks, of the name of a file for example, is written by its number."""
    before = sys.stdout
    if before is None:
        # Descriptor 1 may be any file by now. This one takes no writes.
        fd, encoding, errors = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), "utf-8", "strict"
    else:
        before.flush()
        fd, encoding, errors = _STDOUT_FD, before.encoding, before.errors or "strict"
        if errors == "strict":
            errors = "backslashreplace"
    raw = io.FileIO(fd, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(_Buffer(raw), encoding, errors, line_buffering=raw.isatty())


def require_reader() -> None:
    """Check that stdout has a reader: a writer that has nothing to write does not notice that it is
    gone. Raises ReaderGone."""
    poll = select.poll()
    poll.register(_STDOUT_FD, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise ReaderGone(ExitCode.OUTPUT, _READER_GONE)


def drop_stdout() -> None:
    """After an error, leave the interpreter nothing to write when it ends."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, sys.stdout.fileno(), inheritable=False)
    os.close(null)


def printable(text: str, kept: str = "") -> str:
    """Return the text without the control characters that could harm a terminal, except those in
    `kept`. So it is one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


@contextmanager
def written_to_stdout(is_raw: bool) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes bytes as they are, or on a terminal as text without control
    characters, unless `is_raw`. The text ends with a line break, so that a prompt begins a line."""
    output = sys.stdout.buffer
    if is_raw or not sys.stdout.isatty():
        yield output.write
    else:
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

        last = "\n"

        def write(data: bytes, final: bool = False) -> None:
            nonlocal last
            text = printable(decoder.decode(data, final), "\n\t")
            last = text[-1:] or last
            output.write(text.encode())

        yield write
        write(b"", final=True)
        if last != "\n":
            output.write(b"\n")
    output.flush()


def _failed(error: OSError) -> CommandFailed:
    if error.errno == errno.EPIPE:
        return ReaderGone(ExitCode.OUTPUT, _READER_GONE)
    return CommandFailed(
        ExitCode.OUTPUT,
        f"stdout cannot be written: {error.strerror}; what was written is incomplete",
    )
