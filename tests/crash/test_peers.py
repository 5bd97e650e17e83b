"""Three servers on one root and one port, one mover; servers are killed at random under load."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.load import LoadClient, ServerGone, client_at, create_queue
from tests.support.processes import Process, Server, start_mover, wait_until

SERVERS = 3
PRODUCERS = CONSUMERS = 16
VISIBILITY_SECONDS = 2
KILL_EVERY_SECONDS = 1.5
KEPT_BACK = 0.05
"""The share of messages that a consumer leaves to be redelivered."""


class Receipt(NamedTuple):
    """A message that a client was given; wall clock, as the promise is."""

    began: float
    ended: float
    visible_at: float


class PeerLog:
    """What the clients saw."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.receipts: dict[str, list[Receipt]] = defaultdict(list)
        self.removed: dict[str, float] = {}
        self.perhaps_removed: set[str] = set()

    def is_done(self) -> bool:
        return self.published <= self.removed.keys() | self.perhaps_removed


async def _with_clients(port: int, work: Callable[[LoadClient], Awaitable[bool]]) -> None:
    """Do `work` again with a new connection whenever the server is gone, until it says True."""
    is_done = False
    while not is_done:
        try:
            async with client_at(port) as client:
                is_done = await work(client)
        except ServerGone:
            await asyncio.sleep(0.05)


async def _produce(port: int, log: PeerLog, count: int) -> None:
    left = count

    async def work(client: LoadClient) -> bool:
        nonlocal left
        while left > 0:
            left -= 1  # not sent again: a publish without an answer may have happened
            answer = await client.publish(b"body")
            assert answer.status in (201, 503), answer
            if answer.status == 201:
                log.published.add(answer.message_id)
        return True

    await _with_clients(port, work)


async def _consume(port: int, log: PeerLog, is_last: asyncio.Event) -> None:
    async def work(client: LoadClient) -> bool:
        while not (is_last.is_set() and log.is_done()):
            began = time.time()
            answer = await client.request("GET", "/orders/messages?wait=0.5")
            assert answer.status in (200, 204, 503), answer
            if answer.status != 200:
                continue
            visible_at = datetime.fromisoformat(answer.headers["x-visible-at"]).timestamp()
            log.receipts[answer.message_id].append(Receipt(began, time.time(), visible_at))
            if random.random() < KEPT_BACK:
                continue
            log.perhaps_removed.add(answer.message_id)
            removal = await client.request(
                "DELETE", f"/orders/messages/{answer.message_id}", If_Match=answer.headers["etag"]
            )
            log.perhaps_removed.discard(answer.message_id)
            assert removal.status in (202, 404, 412, 503), removal
            if removal.status == 202:
                log.removed.setdefault(answer.message_id, time.time())
        return True

    await _with_clients(port, work)


async def _kill_at_random(
    servers: list[Server], start: Callable[[], Server], is_over: asyncio.Event
) -> int:
    killed = 0
    while not is_over.is_set():
        await asyncio.sleep(KILL_EVERY_SECONDS)
        number = random.randrange(SERVERS)
        servers[number].kill()
        killed += 1
        servers[number] = await asyncio.to_thread(start)
    return killed


LONG = [pytest.mark.crash_long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("messages", [2_000, pytest.param(20_000, marks=LONG)])
async def test_servers_killed_at_random_lose_nothing_and_give_nothing_twice(
    start_server: Callable[..., Server], root: Path, processes: list[Process], messages: int
) -> None:
    flags = [f"--peers={SERVERS - 1}", "--reuse-port", f"--visibility={VISIBILITY_SECONDS}"]
    servers = [start_server(*flags, root=root)]
    port = servers[0].port

    def start() -> Server:
        return start_server(*flags, f"--port={port}", root=root)

    servers += [start() for _ in range(SERVERS - 1)]
    processes.append(start_mover(root))
    await create_queue(servers[0])
    log, is_last, is_over = PeerLog(), asyncio.Event(), asyncio.Event()

    killing = asyncio.create_task(_kill_at_random(servers, start, is_over))
    consuming = [asyncio.create_task(_consume(port, log, is_last)) for _ in range(CONSUMERS)]
    share = messages // PRODUCERS
    await asyncio.gather(*(_produce(port, log, share) for _ in range(PRODUCERS)))
    is_last.set()
    await asyncio.gather(*consuming)
    is_over.set()
    killed = await killing

    assert killed > 0
    assert len(log.published) > messages / 2
    for message_id, receipts in log.receipts.items():
        receipts.sort(key=lambda each: each.ended)
        for earlier, later in pairwise(receipts):
            assert later.ended >= earlier.visible_at, f"{message_id} was given twice"
        removed = log.removed.get(message_id)
        assert removed is None or max(each.began for each in receipts) <= removed
    wait_until(lambda: os.listdir(root / "new") == [])
