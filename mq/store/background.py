"""Work beside that for clients, which ends when a block ends or a store is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these beside the block, and cancel them at the block's end."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        await _cancel(tasks)


class Background:
    """Runs work that has no end, until it is closed."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(coroutine))

    async def close(self) -> None:
        await _cancel(self._tasks)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
