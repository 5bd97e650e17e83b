"""Answers that wait for their clients, and what a socket says about that."""

from __future__ import annotations

import asyncio
import fcntl
import select
import sys
import termios
from socket import AF_UNIX, IPPROTO_TCP, SO_SNDBUF, SOL_SOCKET, TCP_INFO
from typing import NamedTuple

from aiohttp.abc import AbstractStreamWriter

MIN_BODY_BYTES_PER_SECOND = 1024
"""A body that comes more slowly than this over `--body-timeout` is cut off; so is an answer that
its client reads more slowly."""


_BROKEN = select.POLLERR | select.POLLNVAL
_GONE = _BROKEN | select.POLLHUP

_TCP_INFO_BYTES = 128
_BYTES_ACKED = slice(120, 128)
"""Where `tcpi_bytes_acked` is in `struct tcp_info` of <linux/tcp.h>."""


class _Stall(NamedTuple):
    """When an answer began to wait for its client, and how many bytes the client had taken then."""

    since: float
    taken_bytes: int


class Unread:
    """How fast a client reads its answers. This is asked now and then, and not by each request."""

    __slots__ = ("_stall", "_writer", "_written_bytes")

    def __init__(self) -> None:
        self._writer: AbstractStreamWriter | None = None
        self._written_bytes = 0
        self._stall: _Stall | None = None

    def begin(self, writer: AbstractStreamWriter) -> None:
        """Note that the next answer goes out through `writer`."""
        if self._writer is not None:
            self._written_bytes += self._writer.output_size
        self._writer = writer

    def wrote(self, length: int) -> None:
        """Count bytes of an answer that went out without a writer."""
        self._written_bytes += length

    def is_stuck(self, transport: asyncio.Transport, now: float, seconds: float) -> bool:
        """Return whether the client has read nothing, or less than MIN_BODY_BYTES_PER_SECOND, for
        `seconds`, while an answer waited for it."""
        if not is_taken_slowly(transport):
            self._stall = None
            return False
        taken = self._taken_bytes(transport)
        least = MIN_BODY_BYTES_PER_SECOND * seconds
        if self._stall is None or taken - self._stall.taken_bytes >= least:
            self._stall = _Stall(now, taken)
        return now - self._stall.since >= seconds

    def _taken_bytes(self, transport: asyncio.Transport) -> int:
        if _is_tls(transport):
            return _acknowledged_bytes(transport)
        written = self._written_bytes + (0 if self._writer is None else self._writer.output_size)
        return written - transport.get_write_buffer_size() - unacknowledged_bytes(transport)


def unread_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes have come from the client and were not read by the event loop yet."""
    return _ask(transport, termios.FIONREAD)


def unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes the system has still to send, or the client's system has not
    acknowledged."""
    return _ask(transport, termios.TIOCOUTQ)


def takes_at_once(transport: asyncio.BaseTransport, length: int) -> bool:
    """Return whether the system has room for this many bytes, so that none of them wait here for
    the client. It counts up to twice as many, and what it has not sent yet."""
    connected = transport.get_extra_info("socket")
    room = 0 if connected is None else connected.getsockopt(SOL_SOCKET, SO_SNDBUF) // 2
    return length + unacknowledged_bytes(transport) <= room


def is_taken_slowly(transport: asyncio.Transport | None) -> bool:
    """Return whether some of an answer may wait in this process for its client. Over TLS the event
    loop does not tell all: there it may while the system takes no more."""
    if transport is None:
        return False
    if transport.get_write_buffer_size():
        return True
    is_unread = _is_tls(transport) and unacknowledged_bytes(transport) > 0
    return is_unread and not _poll(transport, select.POLLOUT)


def handed_over_bytes(transport: asyncio.Transport | None) -> int:
    """Return how many bytes the system has been given for a client of TLS. If any wait for it while
    it takes more, the next turn of the event loop changes that."""
    if transport is None or not _is_tls(transport):
        return 0
    return _acknowledged_bytes(transport) + unacknowledged_bytes(transport)


def has_closed(transport: asyncio.BaseTransport) -> bool:
    """Return whether the client has closed its own direction, or both, as far as this machine
    knows. It takes one poll(2), because the event loop may not have come to the socket's end yet.
    """
    end = poll_for_end(transport)
    return end is not None and bool(end.poll(0))


def poll_for_end(transport: asyncio.BaseTransport) -> select.poll | None:
    """Return what answers `has_closed` again and again while the socket is open: its `poll(0)`
    returns nothing as long as the client is there. Returns None if there is no socket any more."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return None
    poll = select.poll()
    poll.register(socket, select.POLLRDHUP)
    return poll


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Return whether the client takes no more either. A client on a unix socket that read
    everything and then closed is not found: it leaves no error."""
    return _poll(transport, 0) & (_BROKEN if _is_unix(transport) else _GONE) != 0


def may_have_read_all(transport: asyncio.Transport) -> bool:
    """Return whether a client that is reset may have read the last byte, all of which is in the
    hands of the system. What its own system has acknowledged does not tell: that may be late. A
    unix socket is reset only if something was not read."""
    return not _is_unix(transport) and not transport.get_write_buffer_size()


def _acknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes the client's system has acknowledged since the connection began."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return 0
    info: bytes = socket.getsockopt(IPPROTO_TCP, TCP_INFO, _TCP_INFO_BYTES)
    return int.from_bytes(info[_BYTES_ACKED], sys.byteorder)


def _is_tls(transport: asyncio.BaseTransport) -> bool:
    return transport.get_extra_info("sslcontext") is not None


def _is_unix(transport: asyncio.BaseTransport) -> bool:
    socket = transport.get_extra_info("socket")
    return socket is not None and socket.family == AF_UNIX


def _ask(transport: asyncio.BaseTransport, question: int) -> int:
    """Ask the kernel with an ioctl: see tcp(7) and unix(7)."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(socket.fileno(), question, bytes(4)), sys.byteorder)


def _poll(transport: asyncio.BaseTransport, events: int) -> int:
    socket = transport.get_extra_info("socket")
    if socket is None:
        return 0
    poll = select.poll()
    poll.register(socket, events)
    return sum(found for _, found in poll.poll(0))
