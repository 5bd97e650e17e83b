"""How far a command is: a bar on a terminal, for whatever takes longer than a second."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from mq.command.pace import CLEAR_LINE, is_screen, pace_texts

SILENT_SECONDS = 1.0
"""What is over by then shows nothing."""

_BETWEEN_SECONDS = 0.1
_BAR_WIDTH = 24
_USUAL_COLUMNS = 80


class ProgressBar:
    """A line on stderr that is renewed in place and gone at the end; nothing where stderr is not a
    screen. `total` is None where it is unknown."""

    def __init__(
        self,
        label: str,
        total: int | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self.total = total
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began_at = clock()
        self._next_at = self._began_at + SILENT_SECONDS
        self.is_wanted = is_screen(self._stream)
        self._is_shown = False

    def tell(self, done: int) -> None:
        """Show that this many are done, now or a little later."""
        self.done = done
        now = self._clock()
        if self.is_wanted and now >= self._next_at:
            self._next_at = now + _BETWEEN_SECONDS
            self._is_shown = True
            text = progress_text(self._label, done, self.total, now - self._began_at)
            width = self._columns()
            self._stream.write(f"{CLEAR_LINE}{text[: width - 1]}")
            self._stream.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            return _USUAL_COLUMNS

    def clear(self) -> None:
        """Make room for another line; the bar comes back when there is more to tell."""
        if self._is_shown:
            self._is_shown = False
            self._stream.write(CLEAR_LINE)
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


@contextmanager
def said_when_interrupted(say: Callable[[], object]) -> Iterator[None]:
    """Say how much was done, if Ctrl-C cuts it short."""
    try:
        yield
    except KeyboardInterrupt:
        say()
        raise


def progress_text(label: str, done: int, total: int | None, seconds: float) -> str:
    """Return a line such as `moving [######          ]  25%, 1,234 of 4,936, 411/s, 9 s left`."""
    told = [f"{label} {done:,}"]
    if total:
        part = min(done / total, 1.0)
        bar = "#" * int(part * _BAR_WIDTH)
        told = [f"{label} [{bar.ljust(_BAR_WIDTH)}] {part:4.0%}", f"{done:,} of {total:,}"]
    left = total - done if total else None
    return ", ".join(told + pace_texts(done, left, seconds))
