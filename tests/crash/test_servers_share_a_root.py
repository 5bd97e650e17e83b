"""Several servers on one root deliver each message once, even if they race, stop or die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.load import LoadClient, client_of, create_queue, drain, put_load_on
from tests.support.messages import names_in
from tests.support.processes import Process, Server, wait_until

StartServer = Callable[..., Server]

_START_SECONDS = 60
"""On a busy machine four processes take their time."""


@pytest.fixture
def servers(start_server: StartServer, root: Path) -> list[Server]:
    return [start_server("--peers=1", root=root) for _ in range(2)]


async def _publish(server: Server, count: int, clients: int = 16) -> set[str]:
    ids: set[str] = set()

    async def work(client: LoadClient, _: int) -> None:
        for _ in range(count // clients):
            answer = await client.publish(b"body")
            assert answer.status == 201
            ids.add(answer.message_id)

    await put_load_on(server, clients, work)
    assert len(ids) == count
    return ids


def test_servers_that_start_at_once_make_one_root(root: Path, processes: list[Process]) -> None:
    for number in range(4):
        log = root.with_name(f"mq-{number}.log")
        processes.append(Process("mq", f"--root={root}", "--port=0", "--admin=", log=log))

    def have_begun() -> bool:
        assert all(process.popen.poll() is None for process in processes)
        return all("event=listening" in process.log() for process in processes)

    wait_until(have_begun, _START_SECONDS)

    assert names_in(root) == ["delay", "format", "new", "queues", "remove"]
    assert not any("level=error" in process.log() for process in processes)


async def test_10_000_receives_by_64_clients_of_two_servers_give_each_message_once(
    servers: list[Server],
) -> None:
    await create_queue(servers[0])
    published = set.union(*await asyncio.gather(*(_publish(s, 5_008) for s in servers)))
    received: Counter[str] = Counter()
    statuses: Counter[int] = Counter()

    async def work(client: LoadClient, _: int) -> None:
        while received.total() < len(published):
            answer = await client.receive()
            statuses[answer.status] += 1
            if answer.status == 200:
                received[answer.message_id] += 1

    await asyncio.gather(*(put_load_on(server, 32, work) for server in servers))

    assert received == Counter(published)
    assert set(statuses) <= {200, 204}
    assert [len(await drain(server)) for server in servers] == [0, 0]


async def test_published_received_and_removed_at_once_each_message_is_done_once(
    servers: list[Server],
) -> None:
    await create_queue(servers[0])
    published: set[str] = set()
    removed: Counter[str] = Counter()

    async def produce(client: LoadClient, _: int) -> None:
        for _ in range(60):
            published.add((await client.publish(os.urandom(200))).message_id)

    async def consume(client: LoadClient, _: int) -> None:
        while removed.total() < 2 * 4 * 60:
            answer = await client.receive()
            assert answer.status in (200, 204)
            if answer.status == 200:
                guard = answer.headers["etag"]
                target = f"/orders/messages/{answer.message_id}"
                assert (await client.request("DELETE", target, If_Match=guard)).status == 202
                removed[answer.message_id] += 1

    await asyncio.gather(
        *(put_load_on(server, 4, work) for server in servers for work in (produce, consume))
    )

    assert removed == Counter(published)


async def test_stopped_server_blocks_only_the_messages_it_holds(
    servers: list[Server], root: Path
) -> None:
    stopped, other = servers
    await create_queue(stopped)
    published = await _publish(other, 400)
    by_stopped: list[str] = []

    async def work(client: LoadClient, _: int) -> None:
        while (answer := await client.receive()).status == 200:
            by_stopped.append(answer.message_id)
            if len(by_stopped) == 50:
                stopped.popen.send_signal(signal.SIGSTOP)

    load = asyncio.create_task(put_load_on(stopped, 8, work))
    while len(by_stopped) < 50:
        await asyncio.sleep(0.001)
    by_other = [answer.message_id for answer in await drain(other)]
    async with client_of(other) as client:
        assert (await client.publish(b"meanwhile")).status == 201
        assert (await client.receive()).body == b"meanwhile"
        assert (await client.request("PUT", "/returns")).status == 201
    in_its_hands = published - set(by_stopped) - set(by_other)
    stopped.popen.send_signal(signal.SIGCONT)
    await load

    # Each of its eight clients waits for one message at the most.
    assert len(in_its_hands) <= 8
    assert set(by_stopped) | set(by_other) == published
    assert len(by_stopped) + len(by_other) == len(published)


async def test_other_server_takes_over_what_a_killed_one_left(
    servers: list[Server], root: Path
) -> None:
    killed, other = servers
    await create_queue(killed)
    published: set[str] = set()

    async def work(client: LoadClient, _: int) -> None:
        for _ in range(1_000_000):
            published.add((await client.publish(b"body")).message_id)
            if len(published) == 200:
                killed.kill()

    await put_load_on(killed, 8, work)
    async with asyncio.timeout(20):
        while os.listdir(root / "new"):
            await asyncio.sleep(0.01)

    assert published <= {answer.message_id for answer in await drain(other)}


async def test_queue_deleted_and_made_again_by_one_server_is_new_for_the_other(
    servers: list[Server],
) -> None:
    async with client_of(servers[0]) as one, client_of(servers[1]) as two:
        for _ in range(10):
            assert (await one.request("PUT", "/orders")).status == 201
            for client in (one, two):
                assert (await client.publish(b"old")).status == 201
            assert (await two.receive()).body == b"old"

            assert (await one.request("DELETE", "/orders")).status == 200

            assert (await two.receive()).status == (await two.publish(b"lost")).status == 404
            assert (await one.request("PUT", "/orders")).status == 201
            assert (await two.receive()).status == 204
            assert (await two.publish(b"new")).status == 201
            assert (await one.receive()).body == b"new"
            assert (await two.request("DELETE", "/orders")).status == 200
