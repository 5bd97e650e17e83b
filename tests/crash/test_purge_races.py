"""A long queue is purged by one server while clients of two publish, receive and remove, and a
mover redelivers: nothing older comes again, nothing newer is lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from mq.spool.queue.purging import LONG_QUEUE
from tests.crash.load import LoadClient, client_of, create_queue
from tests.support.processes import Server

PURGES = 3
QUEUE = "orders"


class RequestTimes(NamedTuple):
    """When a request was sent, and when it was answered."""

    sent: float
    answered: float


@dataclass
class ToldClients:
    """What clients were told, by body."""

    published: dict[bytes, RequestTimes] = field(default_factory=dict)
    received: dict[bytes, list[RequestTimes]] = field(default_factory=dict)
    is_over: bool = False

    async def publish(self, client: LoadClient, body: bytes) -> None:
        sent = time.monotonic()
        assert (await client.publish(body)).status == 201
        self.published[body] = RequestTimes(sent, time.monotonic())

    async def publish_many(self, client: LoadClient, name: str) -> None:
        """More than half of what makes a queue long."""
        bodies = [f"{name} {number}" for number in range(LONG_QUEUE // 2 + 100)]
        lines = "\n".join(json.dumps({"body": body}) for body in bodies).encode()
        sent = time.monotonic()
        answer = await client.request(
            "POST", f"/{QUEUE}/messages?batch", lines, Content_Type="application/x-ndjson"
        )
        assert answer.status == 201, answer.body
        span = RequestTimes(sent, time.monotonic())
        self.published |= {body.encode(): span for body in bodies}

    async def receive(self, client: LoadClient, *, is_removed: bool) -> bool:
        """Whether there was a message."""
        sent = time.monotonic()
        answer = await client.request("GET", f"/{QUEUE}/messages?visibility=1")
        if answer.status != 200:
            assert answer.status == 204, answer
            return False
        self.received.setdefault(answer.body, []).append(RequestTimes(sent, time.monotonic()))
        if is_removed:
            ended = await client.remove(answer.message_id)
            assert ended.status in (200, 202, 404), ended
        return True

    async def work(self, server: Server, name: str) -> None:
        async with client_of(server) as client:
            number = 0
            while not self.is_over:
                number += 1
                await self.publish(client, f"{name} {number}".encode())
                await self.receive(client, is_removed=number % 2 == 0)


@pytest.fixture
def servers(start_server: Callable[..., Server], root: Path) -> list[Server]:
    return [start_server(*flags, root=root) for flags in (["--standalone"], ["--peers=1"])]


async def test_a_purge_takes_all_that_was_there_and_nothing_that_comes_after(
    servers: list[Server], root: Path
) -> None:
    await create_queue(servers[0])
    seen, purges = ToldClients(), list[RequestTimes]()
    folders = {(root / "queues" / QUEUE).stat().st_ino}
    load = [
        asyncio.ensure_future(seen.work(server, f"{number}-{server.port}"))
        for server in servers
        for number in range(3)
    ]
    async with client_of(servers[1]) as client:
        for number in range(PURGES):
            for part in ("one", "other"):
                await seen.publish_many(client, f"{number} {part}")
            sent = time.monotonic()
            answer = await client.request("DELETE", f"/{QUEUE}?purge")
            assert answer.status == 200, answer
            purges.append(RequestTimes(sent, time.monotonic()))
            folders.add((root / "queues" / QUEUE).stat().st_ino)
        await asyncio.sleep(0)
        seen.is_over = True
        await asyncio.gather(*load)
        while list((root / "delay").iterdir()) or await seen.receive(client, is_removed=True):
            await asyncio.sleep(0.01)

    assert len(folders) == PURGES + 1
    for purge in purges:
        old = {body for body, span in seen.published.items() if span.answered < purge.sent}
        again = [b for b in old for span in seen.received.get(b, ()) if span.sent > purge.answered]
        assert again == []
    new = {body for body, span in seen.published.items() if span.sent > purges[-1].answered}
    assert new - seen.received.keys() == set()
