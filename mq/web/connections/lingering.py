"""The end of a connection on which bytes still come: they are read, so that the answer arrives.

To close a socket with unread bytes resets the connection (RFC 9112, section 9.6), and a client that
was still sending may lose the answer with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mq.web.connections.unread import handed_over_bytes, is_taken_slowly

LINGER_SECONDS = 10.0
"""How long the server reads on for a client that does not close. aiohttp waits as long for the rest
of a body that nobody reads."""

_TAKEN_LOOK_SECONDS = 0.05


async def until_taken(transport: asyncio.Transport | None) -> None:
    """Wait until the system has all that was written, or the connection is cut off. Only TLS needs
    this before it is closed: the event loop gives a client LINGER_SECONDS for what is not there
    yet, however fast it reads."""
    if transport is None or transport.can_write_eof():
        return
    before = -1
    while not transport.is_closing():
        is_slow, handed_over = is_taken_slowly(transport), handed_over_bytes(transport)
        if not is_slow and handed_over == before:
            return
        before = -1 if is_slow else handed_over
        await asyncio.sleep(_TAKEN_LOOK_SECONDS if is_slow else 0)


async def linger(
    transport: asyncio.Transport, end: asyncio.Event, seconds: float = LINGER_SECONDS
) -> None:
    """Close the server's own direction, behind what was written, and wait for `end`, which the
    client's end sets. The protocol drops what comes meanwhile.

    TLS has no such direction: there asyncio itself waits as long for the client when it closes.
    """
    if transport.is_closing() or not transport.can_write_eof():
        return
    transport.write_eof()
    transport.resume_reading()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await end.wait()
