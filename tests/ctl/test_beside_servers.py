"""`mqctl --root` beside servers, a mover and a reaper: it takes part and disturbs nobody."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.load import LoadClient, create_queue, put_load_on
from tests.support.mqctl import without_ours
from tests.support.processes import Process, Server, start_mover, start_reaper

LARGE = bytes(600_000)
SECONDS = 8.0
FEWEST = 4
MUCH = 20
"""So often fsck looks, and so much is done beside it, however long that takes on a busy machine."""
READY = 100

StartServer = Callable[..., Server]


class LoadEnded(NamedTuple):
    code: int
    out: bytes
    err: str


async def mqctl(root: Path, *words: str, stdin: bytes = b"") -> LoadEnded:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mq.ctl", "--root", str(root), *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env=without_ours(),
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin), 60)
    assert process.returncode is not None
    return LoadEnded(process.returncode, out, err.decode())


class Load:
    """What clients did until `stop`."""

    def __init__(self) -> None:
        self.is_over = False
        self.published: set[str] = set()
        self.removed: set[str] = set()
        self.deletions = 0

    def least(self) -> int:
        return min(len(self.published), len(self.removed), self.deletions)

    async def publish(self, client: LoadClient, _: int) -> None:
        while not self.is_over:
            answer = await client.publish(random.choice([b"small", b"small", b"small", LARGE]))
            assert answer.status == 201
            self.published.add(answer.message_id)
            await asyncio.sleep(0.002)

    async def consume(self, client: LoadClient, number: int) -> None:
        """Every other message is left to come back."""
        while not self.is_over:
            answer = await client.receive()
            if answer.status == 200 and random.random() < 0.5:
                await remove(client, answer.message_id, self.removed)

    async def make_and_delete(self, client: LoadClient, number: int) -> None:
        name = f"passing-{number}"
        while not self.is_over:
            assert (await client.request("PUT", f"/{name}")).status == 201
            for _ in range(5):
                await client.publish(b"short-lived", name)
            await client.receive(name)
            assert (await client.request("DELETE", f"/{name}")).status == 200
            self.deletions += 1

    async def use_mqctl(self, root: Path) -> None:
        while not self.is_over:
            sent = await mqctl(root, "send", "orders", stdin=b"by hand")
            assert sent.code == 0, sent
            self.published.add(sent.out.decode().strip())
            received = await mqctl(root, "recv", "orders")
            if received.code == 0:
                message_id = received.err.split()[0].removeprefix("id=")
                assert (await mqctl(root, "ack", "orders", message_id)).code == 0
                self.removed.add(message_id)


@pytest.fixture
def servers(start_server: StartServer, processes: list[Process], tmp_path: Path) -> list[Server]:
    """Two on one root, whose leases last 0.3 s, with a mover and a reaper."""
    root = tmp_path / "root"
    started = [start_server("--visibility=0.3", root=root) for _ in range(2)]
    processes += [start_mover(root), start_reaper(root)]
    return started


async def test_fsck_is_silent_beside_running_servers_and_nothing_is_lost(
    servers: list[Server],
) -> None:
    root, load = servers[0].root, Load()
    await create_queue(servers[0])

    async def check() -> list[LoadEnded]:
        ended: list[LoadEnded] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SECONDS
        while loop.time() < deadline or len(ended) < FEWEST or load.least() < MUCH:
            ended.append(await mqctl(root, "fsck"))
            ended.append(await mqctl(root, "fsck", "--repair"))
        load.is_over = True
        return ended

    checks = asyncio.create_task(check())
    await asyncio.gather(
        checks,
        put_load_on(servers[0], 3, load.publish),
        put_load_on(servers[1], 1, load.publish),
        *(put_load_on(server, 2, load.consume) for server in servers),
        put_load_on(servers[1], 2, load.make_and_delete),
        load.use_mqctl(root),
    )

    assert set(checks.result()) == {LoadEnded(0, b"", "")}
    assert await take_the_rest(servers[0]) == load.published - load.removed
    assert not (root / "corrupt").exists()


async def remove(client: LoadClient, message_id: str, removed: set[str]) -> None:
    """Remove a message, unless its lease has ended and another client has removed it by now."""
    status = (await client.remove(message_id)).status
    assert status in (202, 404)
    if status == 202:
        removed.add(message_id)


async def take_the_rest(server: Server) -> set[str]:
    """What is delivered and not removed yet, until nothing is left, not even under a lease."""
    found: set[str] = set()

    async def take(client: LoadClient, _: int) -> None:
        async with asyncio.timeout(60):
            while b'"ready": 0, "leased": 0' not in (await client.request("GET", "/orders")).body:
                while (answer := await client.receive()).status == 200:
                    await remove(client, answer.message_id, found)

    await put_load_on(server, 4, take)
    return found


async def test_fsck_disturbs_no_order(start_server: StartServer) -> None:
    """It takes no lock that a receiver would find busy, and pass over. There are always some ready
    messages that both come to."""
    server = start_server()
    await create_queue(server)
    published: list[str] = []
    received: list[str] = []
    checks: list[LoadEnded] = []

    def is_under_way() -> bool:
        """Whatever is slower on this machine, fsck or the clients, neither is done before."""
        return len(checks) < FEWEST or len(received) <= 2 * READY

    async def publish(client: LoadClient, _: int) -> None:
        while is_under_way():
            body = LARGE if len(published) % 50 == 0 else b"x"
            published.append((await client.publish(body)).message_id)

    async def receive(client: LoadClient, _: int) -> None:
        while is_under_way() or len(received) < len(published):
            if is_under_way() and len(published) < len(received) + READY:
                await asyncio.sleep(0.001)
                continue
            answer = await client.receive()
            if answer.status == 200:
                received.append(answer.message_id)

    async def check() -> None:
        while is_under_way():
            checks.append(await mqctl(server.root, "fsck", "--repair"))

    await asyncio.gather(put_load_on(server, 1, publish), put_load_on(server, 1, receive), check())

    assert received == published
    assert set(checks) == {LoadEnded(0, b"", "")}
