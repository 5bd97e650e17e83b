"""Heads that the parser has read before, by their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from aiohttp.http_parser import RawRequestMessage

MAX_KNOWN_HEADS = 4096
MAX_KNOWN_HEAD_BYTES = 1024
_MAX_SEEN = 16_384

END_OF_HEAD = b"\r\n\r\n"

Key = bytes | tuple[bytes | None, ...]
H = TypeVar("H")


class HeadMemory(Generic[H]):
    """What was made of `heads`, by their keys. Of a head that has come only once, for example one
    with the number of a trace, no more than a hash is kept."""

    def __init__(self) -> None:
        self.heads: dict[Key, H] = {}
        self._seen: set[int] = set()

    def learn(self, key: Key, make: Callable[[], H]) -> None:
        """Keep a head when it comes for the second time."""
        if key in self.heads:
            return
        if (number := hash(key)) not in self._seen:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            self._seen.add(number)
            return
        if len(self.heads) >= MAX_KNOWN_HEADS:
            self.heads.clear()
        self.heads[key] = make()


def whole_head(data: bytes, message: RawRequestMessage, body_bytes: int) -> int:
    """Return the length of a message's head in `data`, the last that the parser was given and in
    which it found this one message. Returns 0 if the message is not all of `data`: if the parser
    had begun it before, its first line would be another, or it would have more lines."""
    end = data.find(END_OF_HEAD) + len(END_OF_HEAD)
    first = f"{message.method} {message.path} HTTP/1.1\r\n".encode("utf-8", "surrogateescape")
    lines = len(message.raw_headers) + 2
    is_whole = data.startswith(first) and data.count(b"\r\n", 0, end) == lines
    return end if is_whole and len(data) - end == body_bytes else 0
