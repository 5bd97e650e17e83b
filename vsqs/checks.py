"""Arguments of a Queue, checked before anything is done: an error names the argument."""

from __future__ import annotations

import math
import os
from numbers import Real

Data = bytes | bytearray | memoryview


def bytes_in(data: Data) -> memoryview:
    """Return the bytes of a message. Raises TypeError."""
    try:
        return memoryview(data).cast("B")
    except TypeError:
        hint = "; encode() makes them" if isinstance(data, str) else ""
        raise TypeError(f"data: a message is bytes, not {type(data).__name__}{hint}") from None


def text_of(path: str | os.PathLike[str]) -> str:
    """Return the path of a queue as text. Raises TypeError."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise TypeError(f"path {path!r}: give the path of a folder as text")
    return text


def check_seconds(argument: str, value: float) -> None:
    """Raise TypeError unless this is a number, and ValueError for NaN."""
    if not isinstance(value, Real):
        raise TypeError(f"{argument} {value!r}: give seconds as a number")
    if math.isnan(value):
        raise ValueError(f"{argument} {value!r}: give seconds as a number")


def check_capacity(value: int | None) -> None:
    """Raise TypeError unless this is a whole number or None, and ValueError below 0."""
    if value is not None and not isinstance(value, int):
        raise TypeError(
            f"capacity {value!r}: give a whole number of messages, or None for no limit"
        )
    if value is not None and value < 0:
        raise ValueError(f"capacity {value}: give 0 or more messages, or None for no limit")
