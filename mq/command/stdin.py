"""Stdin of a command that was started without one, as some supervisors start commands."""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

from mq.errors import CommandFailed, ExitCode


def guard_stdin() -> None:
    """Make every read of `sys.stdin` raise CommandFailed if stdin is closed. It must not count as
    empty: the command would publish an empty body."""
    if sys.stdin is None:
        # Otherwise a socket gets descriptor 0, and the event loop aborts the process instead of
        # closing it.
        os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed()))


class _Closed(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> NoReturn:
        raise CommandFailed(ExitCode.USAGE, "stdin is closed; name what to read, or redirect it")
