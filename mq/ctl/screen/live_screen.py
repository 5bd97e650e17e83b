"""A terminal that one program has to itself, and gives back as it was."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _END_LINE, _END_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_REVERSE, _NORMAL = "\x1b[7m", "\x1b[0m"

_USUAL_COLUMNS, _USUAL_ROWS = 80, 24


class LiveScreen:
    """The other screen of the terminal, without a cursor; keys come as they are typed. Ctrl-C,
    Ctrl-Z and SIGTERM do what they always do, with the terminal as it was before."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno()
        self._modes: list[Any] = []
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self._modes = termios.tcgetattr(self._keys)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.signal(signal.SIGTERM, _end)
        signal.signal(signal.SIGTSTP, self._pause)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        self._give_back()
        os.close(self._woken)
        os.close(self._wake)

    @property
    def columns(self) -> int:
        """How many columns the terminal has now."""
        return _size()[0]

    def draw(self, head: str, lines: Sequence[str], foot: str) -> None:
        """Fill the screen. `lines` begin with a title; what does not fit is cut off."""
        columns, rows = _size()
        title, *rest = lines[: max(rows - 2, 1)]
        shown = [head[:columns], f"{_REVERSE}{title[:columns].ljust(columns)}{_NORMAL}"]
        shown += [each[:columns] for each in rest]
        shown += [""] * (rows - 1 - len(shown)) + [foot[:columns]]
        self._write(_HOME + f"{_END_LINE}\r\n".join(shown[-rows:]) + _END_LINE + _END_SCREEN)

    def wait(self, seconds: float) -> bytes:
        """Return what was typed; nothing when the time is over, or the terminal is resized."""
        readable, _, _ = select.select([self._keys, self._woken], [], [], seconds)
        if self._woken in readable:
            os.read(self._woken, 4096)
        return os.read(self._keys, 64) if self._keys in readable else b""

    def _take(self) -> None:
        tty.setcbreak(self._keys, termios.TCSADRAIN)
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._keys, termios.TCSADRAIN, self._modes)

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Give the shell its screen after Ctrl-Z, until it lets this go on."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._pause)
        self._take()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _size() -> tuple[int, int]:
    """Return the columns and lines of the terminal, or the usual ones where they are unknown."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return columns or _USUAL_COLUMNS, rows or _USUAL_ROWS


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
