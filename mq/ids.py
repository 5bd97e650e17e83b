"""Message ids: those that a server makes, the times in ids, and the order of messages by both.

id of a server   UUIDv7 (RFC 9562) in lower case, with a checksum at the end
key              sorts by publication time, then by id; the id of a server is its own key
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mq.names import MessageId

_UUID = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-([17])([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)
_SERVER_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

_NS_PER_MS = 1_000_000
_DAY_MS = 86_400_000
_GREGORIAN_100NS = 0x01B21DD213814000
"""Steps of 100 ns between 1582-10-15, where UUIDv1 counts from, and 1970 (RFC 9562, section
5.1)."""


def id_time_ns(message_id: str) -> int | None:
    """Return the time inside a UUIDv7 or UUIDv1, in ns since 1970, or None for any other id."""
    match = _UUID.fullmatch(message_id) or _UUID.fullmatch(message_id.lower())
    if match is None:
        return None
    low, mid, version, high = match.groups()
    if version == "7":
        return int(low + mid, 16) * _NS_PER_MS
    return (int(high + mid + low, 16) - _GREGORIAN_100NS) * 100


def id_of_time(time_ns: int) -> MessageId:
    """Return an id that no message has, and that sorts before all messages published since
    `time_ns`, in ns since 1970."""
    milliseconds = f"{max(time_ns, 0) // _NS_PER_MS:012x}"
    return MessageId(f"{milliseconds[:8]}-{milliseconds[8:]}-7000-8000-000000000000")


_OTHER, _OTHER_AT, _ID_AT = "~", 18, 24
"""The mark of a key that is not the id of a server, its place, and where the id begins behind it.
"""


def order_key(message_id: str, time_ns: int) -> str:
    """Return a string that sorts by publication time in ns since 1970, then by id.

    A server's id is its own key: it begins with its time, and a million of them cost no second
    string. Any other id gets the same beginning, made of `time_ns`: `MMMMMMMM-MMMM-7SSS~NNNNN`.
    """
    if is_server_id(message_id):
        return message_id
    milliseconds, rest = divmod(max(time_ns, 0), _NS_PER_MS)
    head = f"{min(milliseconds, (1 << 48) - 1):012x}"
    step = (rest << 12) // _NS_PER_MS
    return f"{head[:8]}-{head[8:]}-7{step:03x}{_OTHER}{rest:05x}{message_id}"


def id_of_key(key: str) -> str:
    return key[_ID_AT:] if key[_OTHER_AT] == _OTHER else key


def time_of_key(key: str) -> int:
    """Return the publication time of a key in ns since 1970."""
    if key[_OTHER_AT] == _OTHER:
        rest = int(key[_OTHER_AT + 1 : _ID_AT], 16)
    else:
        rest = _ns_of_step(int(key[15:18], 16))
    return int(key[:8] + key[9:13], 16) * _NS_PER_MS + rest


def _ns_of_step(step: int) -> int:
    """Return the first ns of a step; a millisecond has 4096 steps."""
    return -(-step * _NS_PER_MS >> 12)


def is_server_id(message_id: str) -> bool:
    """Return whether a server made the id, so that its time is that of the publication. An id that
    a producer made is mistaken for one once in 16 million times."""
    if _SERVER_ID.fullmatch(message_id) is None:
        return False
    return int(message_id[_CHECKED:], 16) == _checksum(message_id[:_CHECKED].encode())


_CHECKED = 30
"""This many characters of a server's id have their checksum in the rest of it."""

_CHECKSUM_START = 0x6D71
"""Tells the checksum from a plain CRC-32: the letters `mq`."""


def _checksum(text: bytes) -> int:
    return zlib.crc32(text, _CHECKSUM_START) & 0xFFFFFF


class MessageIds:
    """New message ids, each greater than the one before, even when the clock goes back.

    They are UUIDv7 with 12 bits of sub-millisecond time after the milliseconds (RFC 9562, section
    6.2, method 3). For one thread.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._last_tick = 0
        self._random = random.Random()

    def start_above(self, message_id: str) -> None:
        """Let no later id sort below `message_id`. Ids that are not v7, or that lie more than a
        day ahead of the clock, are ignored: a broken clock made them."""
        match = _UUID.fullmatch(message_id)
        if match is not None and match[3] == "7":
            self._start_above(int(match[1] + match[2], 16) << 12 | int(match[4], 16))

    def next(self) -> MessageId:
        return self._make(self._next_tick(_tick_of(self._clock_ns())))

    def _start_above(self, tick: int) -> bool:
        is_plausible = tick >> 12 <= self._clock_ns() // _NS_PER_MS + _DAY_MS
        if is_plausible:
            self._last_tick = max(self._last_tick, tick)
        return is_plausible

    def _next_tick(self, now: int) -> int:
        least = self._last_tick + 1
        self._last_tick = tick = now if now >= least else least
        return tick

    def _make(self, tick: int) -> MessageId:
        head = f"{tick >> 12:012x}"
        tail = f"{1 << 63 | self._random.getrandbits(62):016x}"
        return MessageId(f"{head[:8]}-{head[8:]}-7{tick & 0xFFF:03x}-{tail[:4]}-{tail[4:]}")


class Position(NamedTuple):
    """A message's id, and its publication time in ns since 1970: its place in the order."""

    message_id: MessageId
    published_ns: int

    def of_copy(self, number: int) -> Position:
        """Return the position of a message's copy in another queue. It has the same place in the
        order, because an id counts steps of 244 ns, and a time that no other copy has: so two
        copies that come to one queue are told from one message that is there twice."""
        return Position(self.message_id, self.published_ns + number)


class ServerIds(MessageIds):
    """The ids of one server, and the order of everything that is published there, whatever the ids
    of producers and the clocks say. The committer asks for one just before it links a file.

    The last 24 bits of an id are a checksum, which tells it from the UUIDs of others.
    """

    def start_after(self, published_ns: int) -> bool:
        """Let every later publication time be greater than this one, as `start_above` does for an
        id. Returns False if it is ignored."""
        return self._start_above(_tick_of(published_ns))

    def next_position(self, own: MessageId | None = None) -> Position:
        """Return the next position, for a message with its own id or a new one."""
        now_ns = self._clock_ns()
        now = _tick_of(now_ns)
        tick = self._next_tick(now)
        if tick != now:
            now_ns = _first_ns_of(tick)
        return Position(own or self._make(tick), now_ns)

    def next_positions(self, owns: Sequence[MessageId | None]) -> list[Position]:
        """Return the next positions, in this order, for messages with their own ids or new ones.
        They take one tick each, the first of them at the time of the clock or later."""
        first = self._next_tick(_tick_of(self._clock_ns()))
        self._last_tick = first + len(owns) - 1
        return [
            Position(own or self._make(tick), _first_ns_of(tick))
            for tick, own in enumerate(owns, first)
        ]

    def _make(self, tick: int) -> MessageId:
        rest = self._random.getrandbits(38)
        milliseconds = tick >> 12
        checked = b"%08x-%04x-7%03x-%04x-%06x" % (
            milliseconds >> 16,
            milliseconds & 0xFFFF,
            tick & 0xFFF,
            0x8000 | rest >> 24,
            rest & 0xFFFFFF,
        )
        return MessageId((b"%s%06x" % (checked, _checksum(checked))).decode())


def _tick_of(time_ns: int) -> int:
    milliseconds, rest = divmod(time_ns, _NS_PER_MS)
    return milliseconds << 12 | (rest << 12) // _NS_PER_MS


def _first_ns_of(tick: int) -> int:
    return (tick >> 12) * _NS_PER_MS + _ns_of_step(tick & 0xFFF)
