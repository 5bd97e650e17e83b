"""What a server does by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.stores import store_on


async def test_a_server_stops_though_a_sweep_is_asked_for_at_that_moment(disk: Path) -> None:
    for turns in range(6):
        async with asyncio.timeout(30):
            async with store_on(disk) as store:
                store._work.request_sweep()
                for _ in range(turns):
                    await asyncio.sleep(0)
