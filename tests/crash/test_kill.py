"""kill -9 of a server under load: what it promised holds, and nothing is torn."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mq.spool.message.seal import Seal
from tests.crash.load import LoadAnswer, LoadClient, client_of, create_queue, drain, put_load_on
from tests.support.messages import names_in, seal_of, write_message
from tests.support.processes import IMPATIENT, Process, Server, wait_until
from tests.support.stores import eventually

StartServer = Callable[..., Server]


def _body(client: int, number: int) -> bytes:
    """Told apart by its beginning; every twentieth is too large for the memory."""
    size = 140_000 if number % 20 == 7 else random.randrange(500)
    return b"%d-%d " % (client, number) + os.urandom(size)


@pytest.mark.parametrize("answers_before_the_kill", [1, 60, 600])
async def test_message_answered_201_survives_the_kill_whole(
    start_server: StartServer, root: Path, answers_before_the_kill: int
) -> None:
    server = start_server(root=root)
    await create_queue(server)
    sent: set[bytes] = set()
    published: dict[str, bytes] = {}

    async def work(client: LoadClient, number: int) -> None:
        for count in range(1_000_000):
            body = _body(number, count)
            sent.add(body)
            answer = await client.publish(body)
            assert answer.status == 201
            published[answer.message_id] = body
            if len(published) == answers_before_the_kill:
                server.kill()

    await put_load_on(server, 16, work)
    received = await drain(start_server(root=root))

    bodies = {answer.message_id: answer.body for answer in received}
    assert published.items() <= bodies.items()
    assert set(bodies.values()) <= sent
    assert list(bodies) == sorted(bodies)
    assert len(received) == len(bodies)
    assert os.listdir(root / "new") == []


async def test_message_for_several_queues_is_in_all_or_in_none_after_the_kill(
    start_server: StartServer, root: Path
) -> None:
    server, queues = start_server(root=root), ("orders", "bills", "reports")
    for queue in queues:
        await create_queue(server, queue)
    published: set[str] = set()

    async def work(client: LoadClient, number: int) -> None:
        for count in range(1_000_000):
            target = "/orders/messages?also=bills,reports"
            answer = await client.request("POST", target, _body(number, count))
            assert answer.status == 201
            published.add(answer.message_id)
            if len(published) == 200:
                server.kill()

    await put_load_on(server, 16, work)
    server = start_server(root=root)
    received = [[each.message_id for each in await drain(server, queue)] for queue in queues]

    assert published <= set(received[0])
    assert received[0] == received[1] == received[2] == sorted(set(received[0]))
    assert list((root / "new").glob(".+:*")) == []


async def test_message_answered_202_never_comes_back_after_the_kill(
    start_server: StartServer, root: Path, start_mover: Callable[..., Process]
) -> None:
    server = start_server("--visibility=0.5", root=root)
    start_mover()
    await create_queue(server)
    published: set[str] = set()
    asked_to_remove: set[str] = set()
    removed: set[str] = set()

    async def publish(client: LoadClient, number: int) -> None:
        for count in range(50):
            published.add((await client.publish(_body(number, count))).message_id)

    async def consume(client: LoadClient, _: int) -> None:
        while (answer := await client.receive()).status == 200:
            asked_to_remove.add(answer.message_id)
            assert (await client.remove(answer.message_id)).status == 202
            removed.add(answer.message_id)
            if len(removed) == 300:
                server.kill()

    await put_load_on(server, 12, publish)
    await put_load_on(server, 12, consume)
    assert len(published) == 600
    assert 300 <= len(removed) < 600

    left = await _consume_all(start_server(root=root))
    assert not left & removed
    assert left | asked_to_remove == published
    gone = {name.partition(":")[2] for name in names_in(root / "remove")}
    assert gone == published


async def _consume_all(server: Server) -> set[str]:
    """Receive and remove until no message is left, the leased ones included."""
    ids: set[str] = set()
    async with client_of(server) as client:

        async def is_empty() -> bool:
            while (answer := await client.receive()).status == 200:
                ids.add(answer.message_id)
                await client.remove(answer.message_id)
            info = (await client.request("GET", "/orders")).body
            return b'"ready": 0, "leased": 0' in info

        await eventually(is_empty)
    return ids


async def test_server_killed_again_and_again_loses_nothing(
    start_server: StartServer, root: Path
) -> None:
    server = start_server(root=root)
    await create_queue(server)
    published: set[str] = set()

    async def work(client: LoadClient, number: int) -> None:
        target = len(published) + 40
        for count in range(1_000_000):
            published.add((await client.publish(_body(number, count))).message_id)
            if len(published) >= target:
                server.kill()

    for _ in range(4):
        await put_load_on(server, 8, work)
        server = start_server(root=root)

    ids = [answer.message_id for answer in await drain(server)]
    assert published <= set(ids)
    assert ids == sorted(ids)


async def test_half_an_upload_leaves_nothing_after_the_kill(
    start_server: StartServer, root: Path
) -> None:
    server = start_server(root=root)
    await create_queue(server)
    async with client_of(server) as client:
        await client.send(
            b"POST /orders/messages HTTP/1.1\r\nHost: mq\r\nContent-Length: 10000000\r\n\r\n"
            + bytes(5_000_000)
        )
        server.kill()

    assert await drain(start_server(root=root)) == []
    assert os.listdir(root / "new") == []


# Leftovers in `new`


def _leave_in_new(root: Path) -> None:
    """What a kill between the link and the delivery leaves, whole and torn."""
    body = os.urandom(140_000)
    seals = {
        "orders:1-small": (b"body", seal_of(b"body")),
        "orders:2-large": (body, Seal(len(body), zlib.crc32(body), 0, 0, 0)),
        "orders:3-torn": (body[:-1], Seal(len(body), zlib.crc32(body), 0, 0, 0)),
        "orders:4-changed": (b"bodY", seal_of(b"body")),
        "gone:5-no-queue": (b"body", seal_of(b"body")),
    }
    for name, (content, seal) in seals.items():
        write_message(root / "aside", content, seal=seal).rename(root / "new" / name)


def _assert_swept(root: Path, received: list[LoadAnswer]) -> None:
    assert {answer.message_id for answer in received} == {"1-small", "2-large"}
    assert names_in(root / "corrupt") == ["orders:3-torn", "orders:4-changed"]
    assert names_in(root / "new") == ["gone:5-no-queue"]


async def test_leftovers_are_delivered_or_set_aside_at_the_start(
    start_server: StartServer, root: Path
) -> None:
    server = start_server(root=root)
    await create_queue(server)
    server.kill()
    _leave_in_new(root)

    server = start_server(root=root)

    _assert_swept(root, await drain(server))
    assert server.log().count("there is no queue gone") == 1


async def test_leftovers_of_another_server_are_swept_while_this_one_runs(
    start_server: StartServer, root: Path
) -> None:
    server = start_server(root=root, module=IMPATIENT)
    await create_queue(server)
    _leave_in_new(root)

    wait_until(lambda: len(names_in(root / "new")) == 1)

    _assert_swept(root, await drain(server))
