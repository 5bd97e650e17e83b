"""The worker of worker.py for asyncio.

    python examples/worker_asyncio.py

Up to 100 orders are brewed at a time, in one thread.
"""

from __future__ import annotations

import asyncio

from mq.client import AsyncClient, AsyncMessage


async def brew(message: AsyncMessage) -> None:
    print(f"brewing {message.text()}", flush=True)


async def main() -> None:
    async with AsyncClient() as mq:  # MQ_URL, or http://127.0.0.1:8080
        orders = mq.queue("orders")
        await orders.create({"max-receives": 5})
        await orders.worker(brew, concurrency=100).run()


if __name__ == "__main__":
    asyncio.run(main())
