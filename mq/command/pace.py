"""How much a command has done, as text: how many messages, how many a second, and how long what is
left will take."""

from __future__ import annotations

import os
from typing import TextIO

CLEAR_LINE = "\r\x1b[K"
"""Written to a terminal before a line that replaces the last one."""


def is_screen(stream: TextIO) -> bool:
    """Return whether this is a terminal that obeys escapes, so that what it shows can be replaced.
    One that does not, such as a shell in an editor, says so as `TERM=dumb`."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def messages_text(number: int, kind: str = "") -> str:
    """Return `1 message`, `20 messages`, or with a kind `20 ready messages`."""
    return f"{number} {f'{kind} ' if kind else ''}{'message' if number == 1 else 'messages'}"


def pace_texts(done: int, left: int | None, seconds: float) -> list[str]:
    """Return the rate, such as `411/s`, and the time left, such as `9 s left`, if `left` is known
    and something was done in these seconds."""
    rate = done / seconds if seconds > 0 else 0.0
    texts = [f"{rate:,.0f}/s"]
    if left is not None and left > 0 and rate:
        texts.append(f"{duration_text(left / rate)} left")
    return texts


def duration_text(seconds: float) -> str:
    """Return a duration such as `45 s`, `12 min`, `3.5 h` or `6.2 d`."""
    for size, unit in ((86_400, "d"), (3600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
