"""Stderr of a command that was started without one, as `2>&-` does, or with one that is full."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

_STDERR_FD = 2


class _Lossy(io.FileIO):
    """Drops what its disk does not take: notes are no part of what a command does, and the exit
    code tells what that was. Raises BrokenPipeError if its reader has gone."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            return memoryview(data).nbytes


def guard_stderr() -> None:
    """Drop what is written to stderr if it is closed, or cannot be written."""
    before = sys.stderr
    if before is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return
    before.flush()
    raw = _Lossy(_STDERR_FD, "wb", closefd=False)
    buffer = io.BufferedWriter(raw)
    sys.stderr = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=True)


def drop_stderr_if_gone() -> None:
    """If the reader of stderr has gone, leave the interpreter nothing to write when it ends: that
    would fail, and give the process another exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(null, _STDERR_FD, inheritable=False)
        os.close(null)
