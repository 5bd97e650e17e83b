"""The admin listener on a store that is in trouble: real sockets, faults through the files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mq.admin.endpoints import Admin
from mq.admin.page import PAGES
from mq.config import Address
from mq.daemon.sockets import bind_address
from mq.errors import StoreUnavailable
from mq.names import QueueName
from mq.store.health import StoreHealth
from mq.web.api import make_api
from mq.web.connections.http_server import HttpServer
from mq.web.durations import Durations
from mq.web.origin_policy import OriginPolicy
from tests.support.faults import WatchedFiles
from tests.support.scraping import Scrape, read_scrape
from tests.support.stores import ORDERS, eventually, publish, store_on

ORIGINS = OriginPolicy(("mq",))

RETURNS = QueueName("returns")


class Asked:
    """A listener, and what it answers."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: mq\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()

    async def scrape(self) -> Scrape:
        status, text = await self.ask("/metrics")
        assert status == 200, text
        return read_scrape(text)


@asynccontextmanager
async def listening(http: HttpServer) -> AsyncIterator[Asked]:
    [listener] = bind_address(Address("127.0.0.1", 0), None)
    await listener.serve(http)
    try:
        yield Asked(listener.port)
    finally:
        listener.close()
        await http.shutdown(0.1)


def new_admin(durations: Durations | None = None) -> Admin:
    return Admin(None, durations or Durations(), ORIGINS, root="", may_write=False)


def admin_of(health: StoreHealth, durations: Durations | None = None) -> HttpServer:
    admin = new_admin(durations)
    admin.health = health
    return HttpServer(admin.handle)


async def test_a_latched_store_is_alive_and_not_ready_until_it_has_reopened(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store, listening(admin_of(store.health)) as admin:
        files.fail("sync", "sync_file_system", times=1_000_000)
        with pytest.raises(StoreUnavailable):
            await publish(store, b"one")
        await eventually(lambda: is_latched(store.health))

        status, text = await admin.ask("/readyz")
        assert (status, "could not be synced" in text) == (503, True)
        assert await admin.ask("/livez") == (200, "alive\n")
        found = await admin.scrape()
        assert found.value("mq_store_latched") == 1
        assert found.value("mq_queue_messages", queue="orders", state="ready") == 0

        files.before.clear()
        await eventually(lambda: is_ready(admin))
        assert (await admin.scrape()).value("mq_store_latched") == 0
        assert await publish(store, b"two")


async def is_latched(health: StoreHealth) -> bool:
    return health.failure is not None


async def is_ready(admin: Asked) -> bool:
    return (await admin.ask("/readyz"))[0] == 200


async def test_a_server_whose_committer_ended_is_not_alive(disk: Path) -> None:
    files = WatchedFiles()
    async with store_on(disk, files) as store, listening(admin_of(store.health)) as admin:
        assert await admin.ask("/livez") == (200, "alive\n")

        def break_down(*_: object) -> None:
            raise AssertionError("a defect")

        files.before |= dict.fromkeys(("sync", "sync_file_system"), break_down)
        publishing = asyncio.create_task(publish(store, b"one"))
        await eventually(lambda: has_ended(store.health))

        status, text = await admin.ask("/livez")
        assert (status, "must be restarted" in text) == (503, True)
        assert (await admin.ask("/readyz"))[0] == 503
        files.before.clear()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)


async def has_ended(health: StoreHealth) -> bool:
    return not health.is_alive()


async def test_scrapes_at_once_share_one_count(root: Path) -> None:
    async with store_on(root) as store, listening(admin_of(store.health)) as admin:
        for _ in range(5):
            await publish(store, b"body")

        found = await asyncio.gather(*(admin.scrape() for _ in range(8)))

        assert [
            each.value("mq_queue_messages", queue="orders", state="ready") for each in found
        ] == [5] * 8


async def test_a_paused_queue_is_told_from_one_that_nobody_receives_from(root: Path) -> None:
    async with store_on(root) as store, listening(admin_of(store.health)) as admin:
        for value in ("true", "false"):
            await store.create_queue(ORDERS, {"paused": value})
            await store.create_queue(RETURNS)

            listed = json.loads((await admin.ask("/queues"))[1])
            told = (await admin.scrape()).by("mq_queue_paused", "queue")

            paused = value == "true"
            assert {each["queue"]: each["paused"] for each in listed} == {
                ORDERS: paused, RETURNS: False,
            }  # fmt: skip
            assert told == {ORDERS: paused, RETURNS: 0}


async def test_a_probe_of_the_main_port_is_sent_to_the_admin_listener(root: Path) -> None:
    admin = new_admin()
    paths = admin.paths.keys() - PAGES.keys()
    async with (
        asyncio.timeout(60),
        store_on(root) as store,
        listening(HttpServer(make_api(store, None, Durations(), ORIGINS))) as main,
    ):
        answers = {path: await main.ask(path) for path in paths}

    assert {status for status, _ in answers.values()} == {404}
    for path, (_, text) in answers.items():
        assert f"{path} of the server is on a port of its own, that of --admin" in text


async def test_a_defect_is_counted_as_500(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durations = Durations()
    async with store_on(root) as store:

        async def break_down(*_: object) -> None:
            raise AssertionError("a defect")

        monkeypatch.setattr(store, "describe_queue", break_down)
        api = HttpServer(make_api(store, None, durations, ORIGINS))
        async with (
            listening(api) as asked,
            listening(admin_of(store.health, durations)) as admin,
        ):
            assert (await asked.ask(f"/{ORDERS}"))[0] == 500
            found = await admin.scrape()

        count = found.value(
            "mq_http_request_duration_seconds_count", route="/{queue}", method="GET", code="500"
        )
        assert count == 1


class HangingHealth:
    """The health of a store whose root cannot be looked at, as on a file server that is away."""

    async def survey(self) -> None:
        await asyncio.Event().wait()


async def test_a_viewer_that_leaves_while_a_look_hangs_keeps_no_place() -> None:
    admin = new_admin()
    admin.health = cast(Any, HangingHealth())
    async with listening(HttpServer(admin.handle)) as there:
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
        writer.write(b"GET /events HTTP/1.1\r\nHost: mq\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

        async def are_watching() -> int:
            return admin._live._viewers

        await eventually(are_watching)
        writer.close()

        async def has_left() -> bool:
            return not await are_watching()

        await eventually(has_left)
