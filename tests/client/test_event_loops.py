"""One AsyncClient and several event loops."""

from __future__ import annotations

import asyncio

import pytest

from mq.client import AsyncClient
from tests.support.processes import Server


def test_a_client_that_has_begun_in_one_event_loop_is_refused_in_another(server: Server) -> None:
    """`asyncio.run` makes a loop each time. Of aiohttp's errors none would name the client."""
    mq = AsyncClient(server.url)
    orders = mq.queue("orders")

    async def begin() -> None:
        await orders.create()
        with pytest.raises(RuntimeError, match=r"one event loop, .* make an AsyncClient in each"):
            await asyncio.to_thread(asyncio.run, orders.counts())
        assert (await orders.counts()).ready == 0
        await mq.close()

    asyncio.run(begin())


def test_a_client_that_was_not_used_yet_may_begin_in_any_event_loop(server: Server) -> None:
    mq = AsyncClient(server.url)

    async def use() -> bool:
        async with mq:
            return await mq.queue("unused").create()

    assert asyncio.run(use())
