"""How many requests are read ahead of the one that is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mq.web.connections.parsers import MAX_WAITING_REQUESTS
from tests.support.processes import Server
from tests.support.sites import close, parse_answer, site_on
from tests.support.wire import Wire, make_queue, request_bytes, wait_until_closed, wait_until_read

NUMBER = 100


@pytest.mark.parametrize("first", ["", "?wait=60"], ids=["quick", "usual"])
async def test_few_requests_wait_behind_one_that_is_answered(root: Path, first: str) -> None:
    async with site_on(root) as site:
        reader, writer = await site.connect()
        writer.write(request_bytes("GET", f"/orders/messages{first}"))
        writer.write(request_bytes("GET", "/orders") * NUMBER)
        most = 0

        async def look() -> None:
            nonlocal most
            while True:
                connection: Any = site.http.connections[0]
                most = max(most, len([*connection._unanswered]))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        if first:
            await asyncio.sleep(0.05)
            await site.ask("POST", "/orders/messages", b"body")
        statuses = [(await parse_answer(reader, "GET")).status for _ in range(NUMBER + 1)]
        looking.cancel()

        assert statuses == [200 if first else 204, *[200] * NUMBER]
        assert 1 < most <= MAX_WAITING_REQUESTS
        await close(writer)


@pytest.mark.parametrize("leave", [Wire.close, Wire.reset], ids=["fin", "rst"])
def test_a_client_that_leaves_is_missed_while_nothing_of_it_is_read(
    start_shared: Callable[..., Server], leave: Callable[[Wire], None]
) -> None:
    server = start_shared("--body-timeout=0.4")
    gone = Wire(server.port)
    queue = make_queue(gone)
    counts = request_bytes("GET", f"/{queue}") * NUMBER
    gone.send(request_bytes("GET", f"/{queue}/messages?wait=60"), counts)
    wait_until_read(server, gone)

    leave(gone)

    wait_until_closed(server, gone.local_port)
