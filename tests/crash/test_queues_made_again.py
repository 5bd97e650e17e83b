"""Two servers and a mover on one root, under load, while one queue is deleted and made again."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.load import LoadAnswer, LoadClient, client_of, create_queue
from tests.support.messages import names_in
from tests.support.processes import Process, Server, start_mover

FEWEST, MADE_AGAIN = 10, 60
MOST_SECONDS = 8
"""After that it is enough to have made it the fewest times."""
VISIBILITY_SECONDS = 0.3


class Span(NamedTuple):
    """When a client sent its request and had the answer, on one clock."""

    began: float
    ended: float


class RemakingLog:
    """What the clients saw. Bodies are unique."""

    def __init__(self) -> None:
        self.published: dict[bytes, tuple[Span, int]] = {}
        self.received: dict[str, list[tuple[Span, bytes]]] = {"orders": [], "other": []}
        self.made: list[Span] = []
        self.deleted: list[Span] = []
        self.statuses: Counter[str] = Counter()

    async def request(
        self, answering: Awaitable[LoadAnswer], *allowed: int
    ) -> tuple[Span, LoadAnswer]:
        """Wait for an answer, which must be one of `allowed`, or 503 with Retry-After."""
        began = time.perf_counter()
        answer = await answering
        span = Span(began, time.perf_counter())
        assert answer.status in (*allowed, 503), answer
        assert answer.status != 503 or int(answer.headers["retry-after"]) > 0
        self.statuses[str(answer.status)] += 1
        return span, answer

    def taken(self, queue: str) -> set[bytes]:
        """The bodies whose publish was answered with success."""
        own = queue.encode() + b" "
        return {
            body
            for body, (_, status) in self.published.items()
            if body.startswith(own) and status == 201
        }

    def bodies(self, queue: str) -> set[bytes]:
        return {body for _, body in self.received[queue]}

    def too_old(self) -> list[bytes]:
        """What was received after the queue was made again, or deleted, though it was published
        before that began."""
        limits = [*self.made, *self.deleted]
        return [
            body
            for received, body in self.received["orders"]
            for limit in limits
            if received.began > limit.ended and self.published[body][0].ended < limit.began
        ]


class RemakingLoad:
    """Clients of one server, each until `stop` is set."""

    def __init__(self, log: RemakingLog, stop: asyncio.Event, number: int) -> None:
        self._log = log
        self._stop = stop
        self._number = number

    async def publish(self, client: LoadClient, queue: str) -> None:
        for count in itertools.count():
            if self._stop.is_set():
                return
            body = f"{queue} {self._number} {id(client)} {count}".encode()
            span, answer = await self._log.request(
                client.publish(body, queue), 201, *([404] if queue == "orders" else [])
            )
            self._log.published[body] = span, answer.status
            if answer.status == 404:
                await asyncio.sleep(0.001)

    async def receive(self, client: LoadClient, queue: str) -> None:
        """Two of three messages are removed; the others are left to the mover."""
        gone = [404] if queue == "orders" else []
        while not self._stop.is_set():
            span, answer = await self._log.request(client.receive(queue), 200, 204, *gone)
            if answer.status != 200:
                await asyncio.sleep(0.001)
                continue
            self._log.received[queue].append((span, answer.body))
            if random.random() < 2 / 3:
                await self._log.request(client.remove(answer.message_id, queue), 202, *gone)

    async def delete_and_make(self, client: LoadClient, _: str) -> None:
        deadline = time.monotonic() + MOST_SECONDS
        while len(self._log.made) < (MADE_AGAIN if time.monotonic() < deadline else FEWEST):
            span, answer = await self._log.request(client.request("DELETE", "/orders"), 200, 404)
            if answer.status == 200:
                self._log.deleted.append(span)
            span, answer = await self._log.request(client.request("PUT", "/orders"), 200, 201)
            if answer.status == 201:
                self._log.made.append(span)
            await asyncio.sleep(random.uniform(0, 0.1))
        self._stop.set()


@pytest.fixture
def servers(
    start_server: Callable[..., Server], disk: Path, processes: list[Process]
) -> list[Server]:
    with ThreadPoolExecutor(2) as threads:
        started = list(
            threads.map(
                lambda _: start_server(f"--visibility={VISIBILITY_SECONDS}", root=disk), range(2)
            )
        )
    processes.append(start_mover(disk))
    return started


async def test_queue_deleted_and_made_again_under_load_never_sees_an_old_message(
    servers: list[Server], disk: Path
) -> None:
    for queue in ("orders", "other"):
        await create_queue(servers[0], queue)
    log, stop = RemakingLog(), asyncio.Event()

    async with AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
        for number, server in enumerate(servers):
            load = RemakingLoad(log, stop, number)
            for work, queue in [
                *itertools.product((load.publish, load.receive), ("orders", "orders", "other")),
                (load.delete_and_make, "orders"),
            ]:
                client = await clients.enter_async_context(client_of(server))
                tasks.create_task(work(client, queue))
    await _receive_rest(servers[0], log)

    assert log.taken("orders") - log.bodies("orders"), "no message went with its queue"
    assert log.too_old() == []
    refused = {body for body, (_, status) in log.published.items() if status == 404}
    assert refused & log.bodies("orders") == set()
    assert log.taken("other") - log.bodies("other") == set()
    assert os.listdir(disk / "new") == []
    assert "Traceback" not in "".join(server.log() for server in servers)


async def _receive_rest(server: Server, log: RemakingLog) -> None:
    """Everything that is left in both queues, leased messages too."""
    # What a mover moves is seen in the folder that is looked at later.
    folders = [server.root / each for each in ("delay", "queues/orders", "queues/other")]
    async with client_of(server) as client:
        while any(names_in(folder) for folder in folders):
            for queue, received in log.received.items():
                span, answer = await log.request(client.receive(queue), 200, 204, 404)
                if answer.status == 200:
                    received.append((span, answer.body))
                    await log.request(client.remove(answer.message_id, queue), 202)
