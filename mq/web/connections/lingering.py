"""The end of a connection on which bytes still come: they are read, so that the answer arrives.

To close a socket with unread bytes resets the connection (RFC 9112, section 9.6), and a client that
was still sending may lose the answer with it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

LINGER_SECONDS = 10.0
"""How long the server reads on for a client that does not close. aiohttp waits as long for the rest
of a body that nobody reads."""


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
